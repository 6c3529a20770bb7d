/* SPDX-License-Identifier: MIT
 *
 * blob_copy.c - copying one object to another, and hashing on the way.
 *
 * Between two files, the first of these that works:
 *   FICLONE          the blocks are shared; nothing is read, so there is no hash
 *                    unless it is asked for;
 *   copy_file_range  inside the kernel, in steps, with the write-back of each step
 *                    kicked off at once, so that the fsync at the end finds little
 *                    left to wait for. Meanwhile other threads read the source (from
 *                    the page cache, as a rule) and hash it, and this one helps them
 *                    when it has done its part;
 *   memory           a piece at a time, hashed in passing. Also for stores that
 *                    have no descriptors.
 */
#include "base/mem.h"
#include "blob/blob.h"
#include "blob/blob_hash.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    STEP = 4 << 20, /* bytes between two kicks */
};

static bool canceled(const _Atomic bool *cancel)
{
    return cancel && atomic_load_explicit(cancel, memory_order_relaxed);
}

static int fail_canceled(struct dz_err *err)
{
    return dz_fail(err, DZ_ECANCELED, "copying was canceled");
}

/* --- through memory -------------------------------------------------------------- */

/* Read all of `in`, hash it, and write it to `out` unless that is NULL. */
static int pass_through(struct dz_blob_in *in, struct dz_blob_out *out, const _Atomic bool *cancel,
                        uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    DZ_AUTO(dz_blob_digest_release) struct dz_blob_digest h = {0};
    DZ_AUTO(dz_freep) char *piece = dz_alloc(DZ_BLOB_PIECE);
    int rc = piece ? dz_blob_digest_init(&h, err) : dz_fail(err, DZ_ENOMEM, "copy: out of memory");
    for (uint64_t at = 0; rc == 0 && at < in->size;) {
        size_t n = in->size - at < DZ_BLOB_PIECE ? (size_t)(in->size - at) : DZ_BLOB_PIECE;
        if (canceled(cancel))
            return fail_canceled(err);
        rc = dz_blob_in_read(in, piece, n, at, err);
        if (rc == 0 && out)
            rc = dz_blob_out_write(out, piece, n, err);
        if (rc == 0)
            dz_blob_digest_update(&h, piece, n);
        at += n;
    }
    return rc < 0 ? rc : dz_blob_digest_final(&h, ret_digest, err);
}

int dz_blob_hash(struct dz_blob_in *in, const _Atomic bool *cancel,
                 uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    DZ_AUTO(dz_blob_hashing_endp) struct dz_blob_hashing *h = NULL;
    if (in->fd < 0)
        return pass_through(in, NULL, cancel, ret_digest, err);
    int rc = dz_blob_hashing_start(in, cancel, &h, err);
    return rc < 0 ? rc : dz_blob_hashing_finish(h, ret_digest, err);
}

/* --- inside the kernel ----------------------------------------------------------- */

/* The rest of a copy that began at *at. 1: this kernel or file system cannot. */
static int copy_range(int from, int to, uint64_t size, const _Atomic bool *cancel,
                      struct dz_err *err)
{
    uint64_t at = 0;
    while (at < size) {
        off_t in_at = (off_t)at, out_at = (off_t)at;
        size_t n = size - at < STEP ? (size_t)(size - at) : STEP;
        if (canceled(cancel))
            return fail_canceled(err);
        ssize_t did = copy_file_range(from, &in_at, to, &out_at, n, 0);
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
        /* only a hint: what fails here is reported by the fsync that comes after the last write */
        if (at < size)
            (void)sync_file_range(to, (off_t)(at - (uint64_t)did), did, SYNC_FILE_RANGE_WRITE);
    }
    return 0;
}

/* copy_range with the hash on other cores. */
static int copy_hashed(struct dz_blob_in *in, struct dz_blob_out *out,
                       const struct dz_blob_copy *how, struct dz_blob_copied *done,
                       struct dz_err *err)
{
    DZ_AUTO(dz_blob_hashing_endp) struct dz_blob_hashing *h = NULL;
    int rc = dz_blob_hashing_start(in, how->cancel, &h, err);
    if (rc == 0)
        rc = copy_range(in->fd, out->fd, in->size, how->cancel, err);
    if (rc == 0)
        rc = dz_blob_hashing_finish(h, done->sha256, err);
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
    return how->no_hash ? copy_range(in->fd, out->fd, in->size, how->cancel, err)
                        : copy_hashed(in, out, how, done, err);
}

int dz_blob_copy(struct dz_blob_in *in, struct dz_blob_out *out, const struct dz_blob_copy *how,
                 struct dz_blob_copied *ret_copied, struct dz_err *err)
{
    struct dz_blob_copied done = {.size = in->size};
    int rc = 1;
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
