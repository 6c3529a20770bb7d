/* SPDX-License-Identifier: MIT
 *
 * blob.c - the verbs as functions, and which keys there may be.
 */
#include "blob/blob.h"

#include "base/str.h"

#include <assert.h>
#include <string.h>

bool dz_blob_is_key(const char *key)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strlen(key);
    return n > 0 && n <= DZ_BLOB_KEY_MAX && key[0] != '.' && strspn(key, good) == n;
}

static int check_key(const char *key, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    if (dz_blob_is_key(key))
        return 0;
    return dz_fail(
        err, DZ_EINVAL,
        "%s is not a valid key: a key has 1 to %d characters of A-Z a-z 0-9 . _ - and does not begin with a dot",
        dz_str_quote(dz_str(key), quoted), DZ_BLOB_KEY_MAX);
}

int dz_blobs_stat(struct dz_blobs *s, const char *key, uint64_t *ret_size, struct dz_err *err)
{
    int rc = check_key(key, err);
    return rc < 0 ? rc : s->ops->stat(s, key, ret_size, err);
}

int dz_blobs_remove(struct dz_blobs *s, const char *key, struct dz_err *err)
{
    int rc = check_key(key, err);
    return rc < 0 ? rc : s->ops->remove(s, key, err);
}

int dz_blobs_list(struct dz_blobs *s, int (*fn)(void *arg, const char *key, uint64_t size),
                  void *arg, struct dz_err *err)
{
    return s->ops->list(s, fn, arg, err);
}

int dz_blobs_sweep(struct dz_blobs *s, struct dz_err *err)
{
    return s->ops->sweep(s, err);
}

void dz_blobs_free(struct dz_blobs *s)
{
    if (s)
        s->ops->close(s);
}

int dz_blob_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret_in,
                    struct dz_err *err)
{
    int rc = check_key(key, err);
    return rc < 0 ? rc : s->ops->in_open(s, key, ret_in, err);
}

int dz_blob_in_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    if (at > in->size || n > in->size - at)
        return dz_fail(err, DZ_EIO, "read an object: it ends before byte %llu",
                       (unsigned long long)at + n);
    int rc = in->ops->read(in, buf, n, at, err);
    if (rc == 0 && in->progress)
        dz_blob_progress_at(in->progress, at + n);
    return rc;
}

void dz_blob_in_close(struct dz_blob_in *in)
{
    if (in)
        in->ops->close(in);
}

void dz_blob_in_closep(struct dz_blob_in **in)
{
    dz_blob_in_close(*in);
}

int dz_blob_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret_out,
                     struct dz_err *err)
{
    int rc = check_key(key, err);
    return rc < 0 ? rc : s->ops->out_open(s, key, ret_out, err);
}

int dz_blob_out_write(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *err)
{
    assert(!out->whole);
    return out->ops->write(out, data, n, err);
}

int dz_blob_out_sync(struct dz_blob_out *out, struct dz_err *err)
{
    out->whole = true;
    return out->ops->sync ? out->ops->sync(out, err) : 0;
}

int dz_blob_out_digest(struct dz_blob_out *out, uint8_t ret_digest[static DZ_SHA256_BYTES],
                       struct dz_err *err)
{
    out->whole = true;
    return out->ops->digest(out, ret_digest, err);
}

int dz_blob_out_rename(struct dz_blob_out *out, const char *key, struct dz_err *err)
{
    int rc = check_key(key, err);
    if (rc == 0 && !out->ops->rename)
        rc = dz_fail(err, DZ_EUNSUPPORTED, "write %s: this store cannot rename an object", key);
    if (rc == 0)
        out->ops->rename(out, key);
    return rc;
}

int dz_blob_out_commit(struct dz_blob_out *out, struct dz_err *err)
{
    out->whole = true;
    return out->ops->commit(out, err);
}

void dz_blob_out_close(struct dz_blob_out *out)
{
    if (out)
        out->ops->close(out);
}

void dz_blob_out_closep(struct dz_blob_out **out)
{
    dz_blob_out_close(*out);
}
