/* SPDX-License-Identifier: MIT
 *
 * blob_open.c - open a store by its URL, and claim it for one owner.
 *
 * Two daemons that used one prefix of a bucket would overwrite and remove each other's objects: a
 * sandbox that was moved has the same id on both hosts. So the first object of a claimed store
 * names its owner:
 *
 *     doze-owner    "doze store 1\nowner 0123...\nhost NAME\n"
 *
 * It is written only if it does not exist, so of two daemons that start together one is refused. It
 * is read once in the life of a store that is open, before the first call that changes or lists
 * something.
 */
#include "blob/blob_open.h"

#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "blob/blob_crypt.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MARK_MAX = 512, /* bytes of the object that names the owner */
    HOST_MAX = 256,
};

struct claim {
    struct dz_blobs head;
    struct dz_blobs *inner;
    char *url;
    char owner[DZ_BLOB_OWNER_TEXT];
    pthread_mutex_t mutex; /* of sure */
    bool sure;             /* the store is known to be ours */
};

static struct claim *claim_of(struct dz_blobs *s)
{
    return (struct claim *)s;
}

/* --- the object that names the owner ----------------------------------------------- */

static int write_mark(struct claim *c, struct dz_err *err)
{
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    char text[MARK_MAX], host[HOST_MAX] = "";
    (void)gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "doze store 1\nowner %s\nhost %s\n", c->owner, host);
    int rc = dz_blob_out_open(c->inner, DZ_BLOB_OWNER_KEY, &out, err);
    if (rc == 0)
        out->only_new = true;
    if (rc == 0)
        rc = dz_blob_out_write(out, text, (size_t)n, err);
    return rc < 0 ? rc : dz_blob_out_commit(out, err);
}

/* Compare the owner in the object with ours. DZ_ENOENT: there is no such object. */
static int compare_mark(struct claim *c, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    char text[MARK_MAX + 1] = "", owner[DZ_BLOB_OWNER_TEXT] = "", host[HOST_MAX] = "";
    int rc = dz_blob_in_open(c->inner, DZ_BLOB_OWNER_KEY, &in, err);
    if (rc == 0 && in->size > MARK_MAX)
        return dz_fail(err, DZ_ECORRUPT, "%s/" DZ_BLOB_OWNER_KEY " is not an object of doze",
                       c->url);
    if (rc == 0)
        rc = dz_blob_in_read(in, text, (size_t)in->size, 0, err);
    if (rc < 0)
        return rc;
    if (dz_blob_is_encrypted(text, (size_t)in->size))
        return dz_fail(err, DZ_ECORRUPT,
                       "%s/" DZ_BLOB_OWNER_KEY
                       " is encrypted: set cold.key_file to the file with its "
                       "key, or use another prefix",
                       c->url);
    if (sscanf(text, "doze store 1\nowner %32[0-9a-f]\nhost %255[!-~]", owner, host) < 1)
        return dz_fail(err, DZ_ECORRUPT, "%s/" DZ_BLOB_OWNER_KEY " is not an object of doze",
                       c->url);
    if (strcmp(owner, c->owner) == 0)
        return 0;
    dz_str_plain(host);
    return dz_fail(err, DZ_EDENIED,
                   "%s belongs to the doze on %s with another data directory; give each its own "
                   "prefix, or, if that one is gone for good, remove the object " DZ_BLOB_OWNER_KEY,
                   c->url, host[0] ? host : "another host");
}

/* Is the store ours? With `take`, claim one that nobody owns. */
static int check(struct claim *c, bool take, struct dz_err *err)
{
    struct dz_err why = {0};
    (void)pthread_mutex_lock(&c->mutex);
    int rc = c->sure ? 0 : compare_mark(c, &why);
    bool found = rc == 0;
    if (rc == DZ_ENOENT && take) {
        rc = write_mark(c, &why);
        if (rc == DZ_EEXIST) /* another one was faster */
            rc = compare_mark(c, &why);
        found = rc == 0;
    } else if (rc == DZ_ENOENT) {
        rc = 0;
    }
    c->sure = c->sure || found;
    (void)pthread_mutex_unlock(&c->mutex);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* --- the verbs ----------------------------------------------------------------------- */

static int claim_stat(struct dz_blobs *s, const char *key, uint64_t *ret_size, struct dz_err *err)
{
    return dz_blobs_stat(claim_of(s)->inner, key, ret_size, err);
}

static int claim_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret_in,
                         struct dz_err *err)
{
    return dz_blob_in_open(claim_of(s)->inner, key, ret_in, err);
}

static int claim_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret_out,
                          struct dz_err *err)
{
    int rc = check(claim_of(s), true, err);
    return rc < 0 ? rc : dz_blob_out_open(claim_of(s)->inner, key, ret_out, err);
}

static int claim_remove(struct dz_blobs *s, const char *key, struct dz_err *err)
{
    int rc = check(claim_of(s), false, err);
    return rc < 0 ? rc : dz_blobs_remove(claim_of(s)->inner, key, err);
}

struct listing {
    int (*fn)(void *arg, const char *key, uint64_t size);
    void *arg;
};

static int list_one(void *arg, const char *key, uint64_t size)
{
    const struct listing *l = arg;
    return strcmp(key, DZ_BLOB_OWNER_KEY) == 0 ? 0 : l->fn(l->arg, key, size);
}

static int claim_list(struct dz_blobs *s, int (*fn)(void *arg, const char *key, uint64_t size),
                      void *arg, struct dz_err *err)
{
    struct listing l = {fn, arg};
    int rc = check(claim_of(s), false, err);
    return rc < 0 ? rc : dz_blobs_list(claim_of(s)->inner, list_one, &l, err);
}

static int claim_sweep(struct dz_blobs *s, struct dz_err *err)
{
    int rc = check(claim_of(s), false, err);
    return rc < 0 ? rc : dz_blobs_sweep(claim_of(s)->inner, err);
}

static void claim_close(struct dz_blobs *s)
{
    struct claim *c = claim_of(s);
    dz_blobs_free(c->inner);
    (void)pthread_mutex_destroy(&c->mutex);
    dz_free(c->url);
    dz_free(c);
}

static const struct dz_blobs_ops claim_ops = {
    .stat = claim_stat,
    .in_open = claim_in_open,
    .out_open = claim_out_open,
    .remove = claim_remove,
    .list = claim_list,
    .sweep = claim_sweep,
    .close = claim_close,
};

int dz_blobs_claim(struct dz_blobs *inner, const char *url, const char *owner,
                   struct dz_blobs **ret_store, struct dz_err *err)
{
    assert(strlen(owner) == DZ_BLOB_OWNER_TEXT - 1);
    struct claim *c = dz_zalloc(sizeof *c);
    char *copy = dz_strndup(url, strcspn(url, "?"));
    if (!c || !copy) {
        dz_free(c);
        dz_free(copy);
        dz_blobs_free(inner);
        return dz_fail(err, DZ_ENOMEM, "open the store %s: out of memory", url);
    }
    c->head = (struct dz_blobs){&claim_ops, inner->far};
    c->inner = inner;
    c->url = copy;
    memcpy(c->owner, owner, sizeof c->owner);
    (void)pthread_mutex_init(&c->mutex, NULL);
    *ret_store = &c->head;
    return 0;
}

/* --- opening --------------------------------------------------------------------------- */

int dz_blob_owner_of(const char *directory, char ret_owner[static DZ_BLOB_OWNER_TEXT],
                     struct dz_err *err)
{
    uint8_t bytes[(DZ_BLOB_OWNER_TEXT - 1) / 2];
    char text[DZ_BLOB_OWNER_TEXT + 1] = "";
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(MARK_MAX);
    DZ_AUTO(dz_fd_close) int dir = dz_fd_open(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY, 0, err);
    struct dz_err why = {0};
    int rc = dir < 0 ? dir : dz_fd_read_file(dir, "store-owner", &b, &why);
    if (rc == DZ_ENOENT && dir >= 0) {
        rc = dz_random(bytes, sizeof bytes, err);
        for (size_t i = 0; i < sizeof bytes && rc == 0; i++)
            (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
        text[DZ_BLOB_OWNER_TEXT - 1] = '\n';
        if (rc == 0)
            rc = dz_fd_replace(dir, "store-owner", text, DZ_BLOB_OWNER_TEXT, 0600, err);
        if (rc == 0)
            dz_buf_add(&b, text, DZ_BLOB_OWNER_TEXT);
    } else if (rc < 0 && dir >= 0 && err) {
        *err = why;
    }
    if (rc < 0)
        return rc;
    if (b.err || b.len != DZ_BLOB_OWNER_TEXT || b.p[b.len - 1] != '\n' ||
        strspn(b.p, "0123456789abcdef") != b.len - 1)
        return dz_fail(err, DZ_ECORRUPT,
                       "%s/store-owner is damaged: it must be a line of %d "
                       "hexadecimal digits; restore it from a backup",
                       directory, DZ_BLOB_OWNER_TEXT - 1);
    (void)snprintf(ret_owner, DZ_BLOB_OWNER_TEXT, "%.*s", DZ_BLOB_OWNER_TEXT - 1, b.p);
    return 0;
}

int dz_blobs_open(const struct dz_blobs_place *p, struct dz_blobs **ret_store, struct dz_err *err)
{
    static const char file[] = "file://";
    struct dz_blobs *store = NULL;
    struct dz_s3_opts s3 = p->s3;
    int rc;
    s3.url = p->url;
    if (strncmp(p->url, "s3://", 5) == 0)
        rc = dz_blobs_open_s3(&s3, &store, err);
    else if (strncmp(p->url, file, strlen(file)) == 0 && p->url[strlen(file)] == '/')
        rc = dz_blobs_open_dir(p->url + strlen(file), &store, err);
    else
        rc = dz_fail(err, DZ_EINVAL,
                     "\"%.80s\" is not the URL of a store: write s3://BUCKET/PREFIX or file:///DIR",
                     p->url);
    if (rc == 0 && p->key_file && p->key_file[0]) {
        struct dz_blob_keys *keys = NULL;
        rc = dz_blob_keys_load(p->key_file, &keys, err);
        if (rc == 0)
            rc = dz_blobs_encrypt(store, keys, &store, err);
        else
            dz_blobs_free(store);
    }
    if (rc == 0 && p->owner)
        rc = dz_blobs_claim(store, p->url, p->owner, &store, err);
    if (rc == 0)
        *ret_store = store;
    return rc;
}

int dz_blobs_open_cold(const struct dz_blobs_place *place, const char *data,
                       struct dz_blobs **ret_store, struct dz_err *err)
{
    static const char file[] = "file://";
    struct dz_blobs_place p = *place;
    char owner[DZ_BLOB_OWNER_TEXT], url[DZ_PATH_MAX + sizeof file];
    bool own = p.url && p.url[0], encrypted = p.key_file && p.key_file[0];
    int n = snprintf(url, sizeof url, "%s%s/cold", file, data);
    if (n < 0 || (size_t)n >= sizeof url)
        return dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    if (!own && !encrypted)
        return dz_blobs_open_dir(url + strlen(file), ret_store, err);
    int rc = dz_blob_owner_of(data, owner, err);
    p.owner = owner;
    if (!own)
        p.url = url;
    if (rc == 0)
        rc = dz_blobs_open(&p, ret_store, err);
    return rc < 0 ? dz_wrap(err, rc, "open the cold storage") : 0;
}
