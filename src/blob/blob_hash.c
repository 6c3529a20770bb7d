/* SPDX-License-Identifier: MIT
 *
 * blob_hash.c - the hash of an object, taken in order by one thread or in pieces by several.
 *
 * A hash runs at about a gigabyte a second on a core, which is slower than the
 * copy that it goes with; so pieces are hashed for themselves, each by whichever
 * thread is free, and the object's hash is that of their hashes.
 */
#include "blob/blob_hash.h"

#include "base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum {
    READ = 128 << 10, /* bytes read at a time: they stay in a core's cache */
    HELPERS_MAX = 3,
    PIECES_MAX = 1 << 20, /* 8 TiB */
};

/* --- in order -------------------------------------------------------------------- */

void dz_blob_digest_release(struct dz_blob_digest *d)
{
    dz_sha256_release(&d->piece);
    dz_sha256_release(&d->all);
}

int dz_blob_digest_init(struct dz_blob_digest *d, struct dz_err *err)
{
    *d = (struct dz_blob_digest){0};
    int rc = dz_sha256_init(&d->piece, err);
    return rc < 0 ? rc : dz_sha256_init(&d->all, err);
}

/* The piece is full: add its hash to the hash of all. */
static void end_piece(struct dz_blob_digest *d)
{
    uint8_t digest[DZ_SHA256_BYTES];
    int rc = dz_sha256_final(&d->piece, digest, NULL);
    if (rc == 0) {
        dz_sha256_update(&d->all, digest, sizeof digest);
        dz_sha256_release(&d->piece);
        rc = dz_sha256_init(&d->piece, NULL);
    }
    if (rc < 0)
        d->rc = rc;
    d->pieces++;
    d->in_piece = 0;
}

void dz_blob_digest_update(struct dz_blob_digest *d, const void *data, size_t n)
{
    const uint8_t *p = data;
    while (n > 0 && d->rc == 0) {
        if (d->in_piece == DZ_BLOB_HASH_PIECE)
            end_piece(d); /* only now: an object of one piece has that piece's hash */
        size_t room = DZ_BLOB_HASH_PIECE - d->in_piece, take = n < room ? n : room;
        dz_sha256_update(&d->piece, p, take);
        d->in_piece += take;
        p += take;
        n -= take;
    }
}

int dz_blob_digest_final(struct dz_blob_digest *d, uint8_t ret_digest[static DZ_SHA256_BYTES],
                         struct dz_err *err)
{
    if (d->pieces > 0)
        end_piece(d);
    if (d->rc < 0)
        return dz_fail(err, d->rc, "hash an object: %s", dz_err_text(d->rc));
    return dz_sha256_final(d->pieces > 0 ? &d->all : &d->piece, ret_digest, err);
}

/* --- by several -------------------------------------------------------------------- */

struct dz_blob_hashing {
    struct dz_blob_in *in;
    const _Atomic bool *cancel;
    _Atomic bool stop; /* another thread failed, or the caller does not want the hash any more */
    size_t pieces;
    atomic_size_t next; /* the first piece that nobody has taken */
    pthread_mutex_t lock;
    int rc; /* the first failure, and its sentence */
    struct dz_err err;
    pthread_t helpers[HELPERS_MAX];
    int helper_count;
    uint8_t digests[][DZ_SHA256_BYTES];
};

static int hash_piece(struct dz_blob_hashing *h, size_t piece, void *buf, struct dz_err *err)
{
    DZ_AUTO(dz_sha256_release) struct dz_sha256 sha = {0};
    uint64_t at = (uint64_t)piece * DZ_BLOB_HASH_PIECE;
    uint64_t end = at + DZ_BLOB_HASH_PIECE < h->in->size ? at + DZ_BLOB_HASH_PIECE : h->in->size;
    int rc = dz_sha256_init(&sha, err);
    while (rc == 0 && at < end) {
        size_t n = end - at < READ ? (size_t)(end - at) : READ;
        if (atomic_load_explicit(&h->stop, memory_order_relaxed) ||
            (h->cancel && atomic_load_explicit(h->cancel, memory_order_relaxed)))
            return dz_fail(err, DZ_ECANCELED, "hashing was canceled");
        rc = dz_blob_in_read(h->in, buf, n, at, err);
        dz_sha256_update(&sha, buf, rc == 0 ? n : 0);
        at += n;
    }
    return rc < 0 ? rc : dz_sha256_final(&sha, h->digests[piece], err);
}

/* Take pieces until there are none. */
static void *hash_pieces(void *arg)
{
    struct dz_blob_hashing *h = arg;
    DZ_AUTO(dz_freep) void *buf = dz_alloc(READ);
    struct dz_err err = {0};
    int rc = buf ? 0 : dz_fail(&err, DZ_ENOMEM, "hash an object: out of memory");
    while (rc == 0) {
        size_t piece = atomic_fetch_add(&h->next, 1);
        if (piece >= h->pieces)
            break;
        rc = hash_piece(h, piece, buf, &err);
    }
    if (rc < 0) {
        (void)pthread_mutex_lock(&h->lock);
        if (h->rc == 0) {
            h->rc = rc;
            h->err = err;
        }
        (void)pthread_mutex_unlock(&h->lock);
        atomic_store(&h->stop, true);
    }
    return NULL;
}

int dz_blob_hashing_start(struct dz_blob_in *in, const _Atomic bool *cancel,
                          struct dz_blob_hashing **ret_hashing, struct dz_err *err)
{
    cpu_set_t set;
    uint64_t pieces = in->size ? (in->size - 1) / DZ_BLOB_HASH_PIECE + 1 : 1;
    assert(in->fd >= 0); /* a reader without a descriptor belongs to one thread */
    if (pieces > PIECES_MAX)
        return dz_fail(err, DZ_ELIMIT, "hash an object: it is over %d TiB long",
                       PIECES_MAX / (1 << 20) * (DZ_BLOB_HASH_PIECE >> 20));
    struct dz_blob_hashing *h =
        dz_zalloc(sizeof *h + (size_t)pieces * sizeof *((struct dz_blob_hashing *)0)->digests);
    if (!h)
        return dz_fail(err, DZ_ENOMEM, "hash an object: out of memory");
    h->in = in;
    h->cancel = cancel;
    h->pieces = (size_t)pieces;
    (void)pthread_mutex_init(&h->lock, NULL);
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    while (h->helper_count < HELPERS_MAX && h->helper_count + 1 < cores &&
           (size_t)h->helper_count < h->pieces &&
           pthread_create(&h->helpers[h->helper_count], NULL, hash_pieces, h) == 0)
        h->helper_count++; /* without helpers, dz_blob_hash_finish does all of it */
    *ret_hashing = h;
    return 0;
}

static void join_helpers(struct dz_blob_hashing *h)
{
    for (int i = 0; i < h->helper_count; i++)
        (void)pthread_join(h->helpers[i], NULL);
    h->helper_count = 0;
}

int dz_blob_hashing_finish(struct dz_blob_hashing *h, uint8_t ret_digest[static DZ_SHA256_BYTES],
                           struct dz_err *err)
{
    (void)hash_pieces(h);
    join_helpers(h);
    if (h->rc < 0) {
        if (err)
            *err = h->err;
        return h->rc;
    }
    if (h->pieces > 1)
        return dz_sha256(h->digests, h->pieces * sizeof h->digests[0], ret_digest, err);
    memcpy(ret_digest, h->digests[0], DZ_SHA256_BYTES);
    return 0;
}

void dz_blob_hashing_endp(struct dz_blob_hashing **hp)
{
    struct dz_blob_hashing *h = *hp;
    if (!h)
        return;
    atomic_store(&h->stop, true);
    join_helpers(h);
    (void)pthread_mutex_destroy(&h->lock);
    dz_free(h);
    *hp = NULL;
}
