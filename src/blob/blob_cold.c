/* SPDX-License-Identifier: MIT
 *
 * blob_cold.c - the steps of freezing, archiving and restoring: which file goes where.
 *
 *     ID.doze     -- freeze -->  ID.sqlite   -- thaw -->  ID.doze
 *     ID.doze     -- freeze -->  ID.replica  -- thaw -->  ID.doze (out of the replica)
 *     ID.scratch  --- pack --->  ID.archive  -- thaw -->  ID.doze
 *
 * A store's writer makes an object whole and durable in one commit, so each step is "open, copy,
 * commit". A step that is interrupted leaves a temporary file, and nothing under the name.
 */
#include "blob/blob_cold.h"

#include "base/fd.h"
#include "base/num.h"
#include "base/str.h"
#include "blob/blob_crypt.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    READ_MAX = 16 << 20,                   /* a clone of up to this size is read for its hash */
    NAME_MAX_BYTES = DZ_COLD_URL_MAX + 64, /* of ID.replica */
};
#define NAME_START "doze replica 1\n"

static const struct {
    const char *suffix;
    bool live; /* in the live directory */
} files[DZ_COLD_FILES] = {
    [DZ_COLD_LIVE] = {".doze", true},        [DZ_COLD_LOG] = {".doze-wal", true},
    [DZ_COLD_SCRATCH] = {".scratch", true},  [DZ_COLD_FROZEN] = {".sqlite", false},
    [DZ_COLD_REPLICA] = {".replica", false}, [DZ_COLD_ARCHIVE] = {".archive", false},
};

/* --- keys ------------------------------------------------------------------------ */

char *dz_cold_key(const char *id, enum dz_cold_file file, char out[static DZ_COLD_KEY])
{
    assert(id[0] && strlen(id) <= DZ_COLD_ID_MAX && file < DZ_COLD_FILES);
    (void)snprintf(out, DZ_COLD_KEY, "%s%s", id, files[file].suffix);
    return out;
}

bool dz_cold_parse_key(const char *key, char ret_id[static DZ_COLD_KEY],
                       enum dz_cold_file *ret_file)
{
    struct dz_str s = dz_str(key);
    for (int i = 0; i < DZ_COLD_FILES; i++) {
        struct dz_str suffix = dz_str(files[i].suffix);
        if (s.n <= suffix.n || s.n - suffix.n > DZ_COLD_ID_MAX || !dz_str_ends(s, suffix))
            continue;
        (void)snprintf(ret_id, DZ_COLD_KEY, "%.*s", (int)(s.n - suffix.n), key);
        *ret_file = (enum dz_cold_file)i;
        return true;
    }
    return false;
}

static struct dz_blobs *place_of(const struct dz_cold *c, enum dz_cold_file file)
{
    return files[file].live ? c->live : c->store;
}

/* --- questions ------------------------------------------------------------------- */

int dz_cold_has(const struct dz_cold *c, const char *id, enum dz_cold_file file, uint64_t *ret_size,
                struct dz_err *err)
{
    char key[DZ_COLD_KEY];
    uint64_t size = 0;
    struct dz_err why = {0};
    int rc = dz_blobs_stat(place_of(c, file), dz_cold_key(id, file, key), &size, &why);
    if (rc == DZ_ENOENT)
        return 0;
    if (rc < 0) {
        if (err)
            *err = why;
        return rc;
    }
    if (ret_size)
        *ret_size = size;
    return 1;
}

static int open_in(const struct dz_cold *c, const char *id, enum dz_cold_file file,
                   struct dz_blob_in **ret_in, struct dz_err *err)
{
    char key[DZ_COLD_KEY];
    int rc = dz_blob_in_open(place_of(c, file), dz_cold_key(id, file, key), ret_in, err);
    if (rc == 0 && c->progress) {
        (*ret_in)->progress = c->progress;
        atomic_store(&c->progress->done, 0);
        atomic_store(&c->progress->total, (*ret_in)->size);
    }
    return rc;
}

static int open_out(const struct dz_cold *c, const char *id, enum dz_cold_file file,
                    struct dz_blob_out **ret_out, struct dz_err *err)
{
    char key[DZ_COLD_KEY];
    return dz_blob_out_open(place_of(c, file), dz_cold_key(id, file, key), ret_out, err);
}

/* --- the name of a replica ------------------------------------------------------- */

/* Hash the live file and store where its replica is. The caller compares the hash at the thaw, so
 * a replica that has other bytes by then is an error and never a sandbox with another content. */
static int store_name(const struct dz_cold *c, const char *id, const struct dz_cold_point *point,
                      dz_cold_cancel cancel, struct dz_cold_copy *ret_copy, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    struct dz_cold_copy copy = {.file = DZ_COLD_REPLICA, .hashed = true};
    char text[NAME_MAX_BYTES];
    int n = snprintf(text, sizeof text, NAME_START "%s\n%016" PRIx64 "\n", point->url, point->txid);
    int rc = n < 0 || (size_t)n >= sizeof text || strchr(point->url, '\n')
                 ? dz_fail(err, DZ_EINVAL, "the replica's URL is too long or has a line end")
                 : open_in(c, id, DZ_COLD_LIVE, &in, err);
    if (rc == 0)
        rc = dz_blob_hash(in, cancel, copy.sha256, err);
    if (rc == 0)
        rc = open_out(c, id, DZ_COLD_REPLICA, &out, err);
    if (rc == 0)
        rc = dz_blob_out_write(out, text, (size_t)n, err);
    if (rc == 0)
        rc = dz_blob_out_commit(out, err);
    if (rc < 0)
        return rc;
    copy.size = in->size;
    *ret_copy = copy;
    return 0;
}

static int load_name(struct dz_blob_in *in, struct dz_cold_point *ret_point, struct dz_err *err)
{
    const size_t start = sizeof NAME_START - 1;
    char text[NAME_MAX_BYTES + 1], *line;
    if (in->size >= NAME_MAX_BYTES || in->size <= start)
        return dz_fail(err, DZ_ECORRUPT, "the name of its replica has %llu bytes",
                       (unsigned long long)in->size);
    int rc = dz_blob_in_read(in, text, (size_t)in->size, 0, err);
    if (rc < 0)
        return rc;
    text[in->size] = '\0';
    line = strchr(text + start, '\n');
    if (memcmp(text, NAME_START, start) != 0 || !line || strlen(line) != 18 ||
        strspn(line + 1, "0123456789abcdef") != 16 || line[17] != '\n')
        return dz_fail(err, DZ_ECORRUPT, "the name of its replica is damaged");
    *line = '\0';
    if (line - (text + start) >= DZ_COLD_URL_MAX)
        return dz_fail(err, DZ_ECORRUPT, "the name of its replica is too long");
    memcpy(ret_point->url, text + start, (size_t)(line - (text + start)) + 1);
    ret_point->txid = 0;
    for (const char *digit = line + 1; *digit != '\n'; digit++)
        ret_point->txid = ret_point->txid << 4 | (uint64_t)dz_hex_digit(*digit);
    return 0;
}

/* --- freeze ---------------------------------------------------------------------- */

int dz_cold_freeze(const struct dz_cold *c, const char *id, dz_cold_cancel cancel,
                   struct dz_cold_copy *ret_copy, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    struct dz_blob_copy how = {.cancel = cancel};
    struct dz_blob_copied copied;
    struct dz_cold_point point;
    uint64_t log = 0;
    int rc = dz_cold_has(c, id, DZ_COLD_LOG, &log, err);
    if (rc == 1 && log > 0)
        return dz_fail(err, DZ_ESTATE, "freeze %s: the WAL beside its file still holds commits",
                       id);
    if (rc >= 0 && c->store->far && c->replicas &&
        c->replicas->find(c->replicas->arg, id, &point) == 1) {
        rc = store_name(c, id, &point, cancel, ret_copy, err);
        return rc < 0 ? dz_wrap(err, rc, "freeze %s", id) : 0;
    }
    if (rc >= 0)
        rc = open_in(c, id, DZ_COLD_LIVE, &in, err);
    if (rc == 0)
        rc = open_out(c, id, DZ_COLD_FROZEN, &out, err);
    how.hash = rc == 0 && in->size <= READ_MAX;
    if (rc == 0)
        rc = dz_blob_copy(in, out, &how, &copied, err);
    if (rc == 0)
        rc = dz_blob_out_commit(out, err);
    if (rc < 0)
        return dz_wrap(err, rc, "freeze %s", id);
    *ret_copy =
        (struct dz_cold_copy){.file = DZ_COLD_FROZEN, .size = copied.size, .hashed = copied.hashed};
    memcpy(ret_copy->sha256, copied.sha256, sizeof copied.sha256);
    return 0;
}

int dz_cold_hash(const struct dz_cold *c, const char *id, dz_cold_cancel cancel,
                 uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    int rc = open_in(c, id, DZ_COLD_FROZEN, &in, err);
    if (rc == 0)
        rc = dz_blob_hash(in, cancel, ret_digest, err);
    return rc < 0 ? dz_wrap(err, rc, "hash the cold copy of %s", id) : 0;
}

/* --- thaw ------------------------------------------------------------------------ */

static int compare(const struct dz_cold_copy *copy, const uint8_t *digest, struct dz_err *err)
{
    char want[DZ_SHA256_HEX], got[DZ_SHA256_HEX];
    if (!copy->hashed || memcmp(copy->sha256, digest, DZ_SHA256_BYTES) == 0)
        return 0;
    return dz_fail(
        err, DZ_ECORRUPT,
        "the cold copy is damaged: its SHA-256 is %.12s..., but %.12s... was recorded; restore the "
        "file from a backup",
        dz_sha256_hex(digest, got), dz_sha256_hex(copy->sha256, want));
}

/* An encrypted object has another size and another hash than were recorded. */
static int check_plain(struct dz_blob_in *in, struct dz_err *err)
{
    char start[DZ_BLOB_CRYPT_MAGIC];
    if (in->size < sizeof start)
        return 0;
    int rc = dz_blob_in_read(in, start, sizeof start, 0, err);
    return rc == 0 && dz_blob_is_encrypted(start, sizeof start)
               ? dz_fail(err, DZ_EDENIED,
                         "the cold copy is encrypted; set cold.key_file to the file with its key")
               : rc;
}

static int fill(const struct dz_cold *c, struct dz_blob_in *in, struct dz_blob_out *out,
                const struct dz_cold_copy *copy, dz_cold_cancel cancel, struct dz_err *err)
{
    const struct dz_blob_copy how = {.cancel = cancel, .hash = in->size <= READ_MAX};
    struct dz_blob_copied copied = {0};
    int rc = check_plain(in, err);
    if (rc < 0)
        return rc;
    if (copy->size && in->size != copy->size)
        return dz_fail(err, DZ_ECORRUPT, "the cold copy has %llu bytes, but %llu were recorded",
                       (unsigned long long)in->size, (unsigned long long)copy->size);
    if (copy->file == DZ_COLD_ARCHIVE) {
        rc = (c->expand ? c->expand : dz_cold_expand)(in, out, cancel, copied.sha256, err);
        copied.hashed = rc == 0;
    } else {
        rc = dz_blob_copy(in, out, &how, &copied, err);
    }
    return rc < 0 || !copied.hashed ? rc : compare(copy, copied.sha256, err);
}

static int read_fd(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    return dz_fd_pread(in->fd, buf, n, at, err);
}

/* Write what the replica has at *ret_point to out; in is its name. */
static int fill_from_replica(const struct dz_cold *c, struct dz_blob_in *in,
                             struct dz_blob_out *out, dz_cold_cancel cancel,
                             struct dz_cold_point *ret_point, struct dz_err *err)
{
    int rc = check_plain(in, err);
    if (rc == 0)
        rc = load_name(in, ret_point, err);
    if (rc == 0 && !c->replicas)
        rc = dz_fail(err, DZ_EUNSUPPORTED, "its file is in the replica %.200s", ret_point->url);
    return rc < 0 ? rc
                  : c->replicas->restore(c->replicas->arg, ret_point, out->fd, c->progress, cancel,
                                         err);
}

/* Compare the bytes that were written with the copy's hash. */
static int compare_made(const struct dz_blob_out *out, const struct dz_cold_copy *copy,
                        dz_cold_cancel cancel, struct dz_err *err)
{
    static const struct dz_blob_in_ops ops = {.read = read_fd};
    uint8_t digest[DZ_SHA256_BYTES];
    struct stat st;
    if (fstat(out->fd, &st) < 0)
        return dz_fail_sys(err, errno, "look at the restored file");
    struct dz_blob_in made = {.ops = &ops, .fd = out->fd, .size = (uint64_t)st.st_size};
    int rc = dz_blob_hash(&made, cancel, digest, err);
    return rc < 0 ? rc : compare(copy, digest, err);
}

static int thaw_from_replica(const struct dz_cold *c, const char *id,
                             const struct dz_cold_copy *copy, dz_cold_cancel cancel,
                             struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    struct dz_cold_point point;
    int rc = open_in(c, id, copy->file, &in, err);
    if (rc == 0)
        rc = open_out(c, id, DZ_COLD_LIVE, &out, err);
    if (rc == 0)
        rc = fill_from_replica(c, in, out, cancel, &point, err);
    if (rc == 0)
        rc = compare_made(out, copy, cancel, err);
    if (rc < 0)
        return rc;
    c->replicas->adopt(c->replicas->arg, id, &point, out->fd);
    return dz_blob_out_commit(out, err);
}

int dz_cold_thaw(const struct dz_cold *c, const char *id, const struct dz_cold_copy *copy,
                 dz_cold_cancel cancel, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    assert(DZ_COLD_COPIES & 1u << copy->file);
    if (copy->file == DZ_COLD_REPLICA) {
        int rc = thaw_from_replica(c, id, copy, cancel, err);
        return rc < 0 ? dz_wrap(err, rc, "restore %s", id) : 0;
    }
    int rc = open_in(c, id, copy->file, &in, err);
    if (rc == 0)
        rc = open_out(c, id, DZ_COLD_LIVE, &out, err);
    if (rc == 0)
        rc = fill(c, in, out, copy, cancel, err);
    if (rc == 0)
        rc = dz_blob_out_commit(out, err);
    return rc < 0 ? dz_wrap(err, rc, "restore %s", id) : 0;
}

/* --- archive --------------------------------------------------------------------- */

int dz_cold_pack(const struct dz_cold *c, const char *id, dz_cold_cancel cancel,
                 struct dz_cold_copy *ret_copy, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    struct dz_cold_copy copy = {.file = DZ_COLD_ARCHIVE, .hashed = true};
    int rc = open_in(c, id, DZ_COLD_SCRATCH, &in, err);
    if (rc == 0)
        rc = open_out(c, id, DZ_COLD_ARCHIVE, &out, err);
    if (rc == 0)
        rc = dz_cold_compress(in, out, cancel, copy.sha256, err);
    if (rc == 0)
        rc = dz_blob_out_commit(out, err);
    if (rc == 0)
        rc = dz_cold_has(c, id, DZ_COLD_ARCHIVE, &copy.size, err);
    if (rc < 0)
        return dz_wrap(err, rc, "pack %s", id);
    *ret_copy = copy;
    return 0;
}

int dz_cold_verify(const struct dz_cold *c, const char *id, const struct dz_cold_copy *copy,
                   dz_cold_cancel cancel, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    assert(copy->file == DZ_COLD_ARCHIVE);
    int rc = open_in(c, id, copy->file, &in, err);
    if (rc == 0)
        rc = fill(c, in, NULL, copy, cancel, err);
    return rc < 0 ? dz_wrap(err, rc, "verify the archive of %s", id) : 0;
}

/* --- removing -------------------------------------------------------------------- */

int dz_cold_drop(const struct dz_cold *c, const char *id, unsigned which, struct dz_err *err)
{
    assert(which >> DZ_COLD_FILES == 0);
    for (int i = 0; i < DZ_COLD_FILES; i++) {
        char key[DZ_COLD_KEY];
        if (!(which & 1u << i))
            continue;
        int rc = dz_blobs_remove(place_of(c, (enum dz_cold_file)i),
                                 dz_cold_key(id, (enum dz_cold_file)i, key), err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int dz_cold_sweep(const struct dz_cold *c, struct dz_err *err)
{
    int rc = dz_blobs_sweep(c->live, err);
    return rc < 0 || c->store->far ? rc : dz_blobs_sweep(c->store, err);
}
