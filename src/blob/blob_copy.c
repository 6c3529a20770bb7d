/* SPDX-License-Identifier: MIT
 *
 * blob_copy.c - copying an object to another one, and the hash of an object.
 *
 * A hash runs at about a gigabyte a second on a core, which is slower than the copy
 * that it goes with. So an object is hashed in pieces, each for itself and by any
 * thread that is free; the object's hash is the hash of the pieces' hashes:
 *
 *     object   | piece 0 | piece 1 | piece 2 | .. |     DZ_BLOB_HASH_PIECE bytes each
 *                   |         |         |
 *     SHA-256   digest 0  digest 1  digest 2  ..        32 bytes each
 *                    \\        |        /
 *     SHA-256           object's hash                   with one piece: digest 0 itself
 *
 * A copy between two files takes the first of these ways that works:
 *   FICLONE          shares the blocks; nothing is read, so there is no hash
 *                    unless the caller asks for one;
 *   copy_file_range  copies inside the kernel, in steps, and starts the write-back of
 *                    each step at once, so that the fsync at the end finds little left
 *                    to wait for. Meanwhile other threads read the source (from the
 *                    page cache, as a rule) and hash it, and this thread helps them
 *                    when it has copied;
 *   memory           copies a piece at a time and hashes it in passing. Stores that
 *                    have no descriptors are copied this way, too.
 */
#include "base/mem.h"
#include "blob/blob.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    STEP = 4 << 20,   /* bytes copied between two starts of the write-back */
    READ = 128 << 10, /* bytes read at a time for a hash: they stay in a core's cache */
    HELPERS_MAX = 3,
    PIECES_MAX = 1 << 20, /* 8 TiB */
};

static bool canceled(const _Atomic bool *cancel)
{
    return cancel && atomic_load_explicit(cancel, memory_order_relaxed);
}

static int fail_canceled(struct dz_err *err)
{
    return dz_fail(err, DZ_ECANCELED, "copying was canceled");
}

/* --- a hash in order --- */

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

/* The bytes behind the last full piece are in `piece`, and the full pieces' hashes in `all`. A
 * piece that is just full stays in `piece`, because an object of one piece has that piece's hash.
 */
static void assert_digest(const struct dz_blob_digest *d)
{
    assert(d->in_piece <= DZ_BLOB_HASH_PIECE);
    assert(d->pieces == 0 || d->in_piece > 0); /* a full piece was added when a byte followed it */
}

void dz_blob_digest_update(struct dz_blob_digest *d, const void *data, size_t n)
{
    const uint8_t *p = data;
    while (n > 0 && d->rc == 0) {
        if (d->in_piece == DZ_BLOB_HASH_PIECE)
            end_piece(d);
        size_t room = DZ_BLOB_HASH_PIECE - d->in_piece, take = n < room ? n : room;
        dz_sha256_update(&d->piece, p, take);
        d->in_piece += take;
        p += take;
        n -= take;
    }
    assert(d->rc < 0 || n == 0);
    if (d->rc == 0)
        assert_digest(d);
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

/* --- a hash by several threads --- */

struct hashing {
    struct dz_blob_in *in;
    const _Atomic bool *cancel;
    _Atomic bool stop; /* another thread failed, or the caller gave up the hash */
    size_t pieces;
    atomic_size_t next; /* the first piece that no thread has taken */
    pthread_mutex_t lock;
    int rc; /* the first failure, and its sentence */
    struct dz_err err;
    pthread_t helpers[HELPERS_MAX];
    int helper_count;
    uint8_t digests[][DZ_SHA256_BYTES];
};

static int hash_piece(struct hashing *h, size_t piece, void *buf, struct dz_err *err)
{
    DZ_AUTO(dz_sha256_release) struct dz_sha256 sha = {0};
    uint64_t at = (uint64_t)piece * DZ_BLOB_HASH_PIECE;
    uint64_t end = at + DZ_BLOB_HASH_PIECE < h->in->size ? at + DZ_BLOB_HASH_PIECE : h->in->size;
    int rc = dz_sha256_init(&sha, err);
    while (rc == 0 && at < end) {
        size_t n = end - at < READ ? (size_t)(end - at) : READ;
        if (atomic_load_explicit(&h->stop, memory_order_relaxed) || canceled(h->cancel))
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
    struct hashing *h = arg;
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

/* Other threads begin with the hash of `in`, which has a descriptor and must outlive this. */
static int start_hashing(struct dz_blob_in *in, const _Atomic bool *cancel,
                         struct hashing **ret_hashing, struct dz_err *err)
{
    cpu_set_t set;
    uint64_t pieces = in->size ? (in->size - 1) / DZ_BLOB_HASH_PIECE + 1 : 1;
    assert(in->fd >= 0); /* a reader without a descriptor belongs to one thread */
    if (pieces > PIECES_MAX)
        return dz_fail(err, DZ_ELIMIT, "hash an object: it is over %d TiB long",
                       PIECES_MAX / (1 << 20) * (DZ_BLOB_HASH_PIECE >> 20));
    struct hashing *h =
        dz_zalloc(sizeof *h + (size_t)pieces * sizeof *((struct hashing *)0)->digests);
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
        h->helper_count++; /* without helpers, finish_hashing does all of it */
    *ret_hashing = h;
    return 0;
}

static void join_helpers(struct hashing *h)
{
    for (int i = 0; i < h->helper_count; i++)
        (void)pthread_join(h->helpers[i], NULL);
    h->helper_count = 0;
}

/* This thread helps; the hash is there when this returns. */
static int finish_hashing(struct hashing *h, uint8_t ret_digest[static DZ_SHA256_BYTES],
                          struct dz_err *err)
{
    (void)hash_pieces(h);
    join_helpers(h);
    if (h->rc < 0) {
        if (err)
            *err = h->err;
        return h->rc;
    }
    assert(atomic_load(&h->next) >= h->pieces); /* so each piece has its digest */
    if (h->pieces > 1)
        return dz_sha256(h->digests, h->pieces * sizeof h->digests[0], ret_digest, err);
    memcpy(ret_digest, h->digests[0], DZ_SHA256_BYTES);
    return 0;
}

/* Call off what is left, and release; for DZ_AUTO. NULL is fine. */
static void end_hashing(struct hashing **hp)
{
    struct hashing *h = *hp;
    if (!h)
        return;
    atomic_store(&h->stop, true);
    join_helpers(h);
    (void)pthread_mutex_destroy(&h->lock);
    dz_free(h);
    *hp = NULL;
}

/* --- through memory --- */

/* Read all of `in`, hash it, and write it to `out` unless that is NULL. If `out` hashes what it
 * gets, its hash serves, because SHA-256 would otherwise take as long again. */
static int pass_through(struct dz_blob_in *in, struct dz_blob_out *out, const _Atomic bool *cancel,
                        uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    DZ_AUTO(dz_blob_digest_release) struct dz_blob_digest h = {0};
    DZ_AUTO(dz_freep) char *piece = dz_alloc(DZ_BLOB_PIECE);
    bool hash = !out || !dz_blob_out_hashes(out);
    int rc = piece ? dz_blob_digest_init(&h, err) : dz_fail(err, DZ_ENOMEM, "copy: out of memory");
    for (uint64_t at = 0; rc == 0 && at < in->size;) {
        size_t n = in->size - at < DZ_BLOB_PIECE ? (size_t)(in->size - at) : DZ_BLOB_PIECE;
        if (canceled(cancel))
            return fail_canceled(err);
        rc = dz_blob_in_read(in, piece, n, at, err);
        if (rc == 0 && out)
            rc = dz_blob_out_write(out, piece, n, err);
        if (rc == 0 && hash)
            dz_blob_digest_update(&h, piece, n);
        at += n;
    }
    if (rc < 0)
        return rc;
    return hash ? dz_blob_digest_final(&h, ret_digest, err)
                : dz_blob_out_digest(out, ret_digest, err);
}

int dz_blob_hash(struct dz_blob_in *in, const _Atomic bool *cancel,
                 uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    DZ_AUTO(end_hashing) struct hashing *h = NULL;
    if (in->fd < 0)
        return pass_through(in, NULL, cancel, ret_digest, err);
    int rc = start_hashing(in, cancel, &h, err);
    return rc < 0 ? rc : finish_hashing(h, ret_digest, err);
}

/* --- inside the kernel --- */

/* Copy all of `in`. 1: this kernel or this file system cannot, and nothing was copied. */
static int copy_range(const struct dz_blob_in *in, int to, const _Atomic bool *cancel,
                      struct dz_err *err)
{
    const uint64_t size = in->size;
    uint64_t at = 0;
    while (at < size) {
        off_t in_at = (off_t)at, out_at = (off_t)at;
        size_t n = size - at < STEP ? (size_t)(size - at) : STEP;
        if (canceled(cancel))
            return fail_canceled(err);
        ssize_t did = copy_file_range(in->fd, &in_at, to, &out_at, n, 0);
        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0 && at == 0 &&
            (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
            return 1;
        if (did < 0)
            return dz_fail_sys(err, errno, "copy a file");
        if (did == 0)
            return dz_fail(err, DZ_EIO, "copy a file: it shrank meanwhile");
        at += (uint64_t)did;
        if (in->progress)
            dz_blob_progress_at(in->progress, at);
        /* only a hint: if it fails, the fsync behind the last write reports the failure */
        if (at < size)
            (void)sync_file_range(to, (off_t)(at - (uint64_t)did), did, SYNC_FILE_RANGE_WRITE);
    }
    return 0;
}

/* Copy inside the kernel while other cores compute the hash. */
static int copy_hashed(struct dz_blob_in *in, struct dz_blob_out *out,
                       const struct dz_blob_copy *how, struct dz_blob_copied *done,
                       struct dz_err *err)
{
    DZ_AUTO(end_hashing) struct hashing *h = NULL;
    int rc = start_hashing(in, how->cancel, &h, err);
    if (rc == 0)
        rc = copy_range(in, out->fd, how->cancel, err);
    if (rc == 0)
        rc = finish_hashing(h, done->sha256, err);
    done->hashed = rc == 0;
    return rc;
}

static int copy_files(struct dz_blob_in *in, struct dz_blob_out *out,
                      const struct dz_blob_copy *how, struct dz_blob_copied *done,
                      struct dz_err *err)
{
    if (in->size > 0 && ioctl(out->fd, FICLONE, in->fd) == 0) {
        done->cloned = true;
        if (!how->hash)
            return 0;
        done->hashed = true;
        return dz_blob_hash(in, how->cancel, done->sha256, err);
    }
    /* Allocate the blocks in one piece; so a full disk is found before anything is written. */
    if (in->size > 0 && fallocate(out->fd, 0, 0, (off_t)in->size) < 0 && errno == ENOSPC)
        return dz_fail_sys(err, ENOSPC, "make room for %llu bytes", (unsigned long long)in->size);
    return how->no_hash ? copy_range(in, out->fd, how->cancel, err)
                        : copy_hashed(in, out, how, done, err);
}

int dz_blob_copy(struct dz_blob_in *in, struct dz_blob_out *out, const struct dz_blob_copy *how,
                 struct dz_blob_copied *ret_copied, struct dz_err *err)
{
    struct dz_blob_copied done = {.size = in->size};
    int rc = 1;
    assert(!out->whole && !(how->hash && how->no_hash));
    if (in->fd >= 0 && out->fd >= 0)
        rc = copy_files(in, out, how, &done, err);
    if (rc == 1) {
        rc = pass_through(in, out, how->cancel, done.sha256, err);
        done.hashed = rc == 0;
    }
    if (rc == 0)
        *ret_copied = done;
    return rc;
}
