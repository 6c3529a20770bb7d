/* SPDX-License-Identifier: MIT
 *
 * vfs_file.c - content: read, write, truncate, holes.
 *
 * A small file (DZ_VFS_INLINE_MAX) lies in its node row and, while in memory, in
 * its inode; writing it costs no statement before the commit. One that outgrows
 * this is spilled into chunk 0, as an operation of its own that nobody sees, and
 * stays in chunks until it is truncated to nothing.
 *
 * A write of several chunks is one operation per chunk: when the disk or the quota
 * ends in the middle, what was written stays and the count says how much.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/mem.h"

enum {
    LAST_INDEX = (1 << DZ_VFS_CHUNK_BITS) - 1
};

static int64_t const DAY_NS = (int64_t)86400 * 1000000000;

static int iget_file(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip)
{
    struct dz_inode *ip;
    int rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    if (dz_is_dir(ip))
        return -EISDIR;
    if (!S_ISREG(ip->mode))
        return -EINVAL;
    *ret_ip = ip;
    return 0;
}

/* relatime: only when it tells something new. */
static void accessed(struct dz_vfs *v, struct dz_inode *ip)
{
    if (v->noatime || v->readonly || !ip->here) /* reading must not copy an inode up */
        return;
    int64_t now = dz_now(v);
    if (ip->atime_ns > ip->mtime_ns && ip->atime_ns > ip->ctime_ns && now - ip->atime_ns < DAY_NS)
        return;
    ip->atime_ns = now;
    dz_idirty(v, ip, DZ_DIRTY_ATIME);
}

/* ---- read --------------------------------------------------------------------------- */

static void read_inline(const struct dz_inode *ip, uint64_t off, uint8_t *buf, size_t n)
{
    size_t have = off < ip->data_len ? ip->data_len - (size_t)off : 0;
    if (have > n)
        have = n;
    if (have)
        memcpy(buf, ip->data + off, have);
    memset(buf + have, 0, n - have);
}

ssize_t dz_vfs_read(struct dz_vfs *v, uint64_t ino, uint64_t off, void *buf, size_t n)
{
    struct dz_inode *ip;
    int rc = dz_read_begin(v);
    if (!rc)
        rc = iget_file(v, ino, &ip);
    if (rc)
        return rc;
    if (off >= ip->size || n == 0)
        return 0;
    if (n > ip->size - off)
        n = (size_t)(ip->size - off);
    if (n > SSIZE_MAX)
        n = SSIZE_MAX;
    accessed(v, ip);
    if (ip->data) {
        read_inline(ip, off, buf, n);
        return (ssize_t)n;
    }
    for (size_t done = 0; done < n;) {
        size_t in = (size_t)((off + done) % DZ_VFS_CHUNK);
        size_t step = DZ_VFS_CHUNK - in < n - done ? DZ_VFS_CHUNK - in : n - done;
        rc = dz_chunk_read(v, ip, (off + done) / DZ_VFS_CHUNK, in, (uint8_t *)buf + done, step);
        if (rc)
            return done ? (ssize_t)done : rc;
        done += step;
    }
    return (ssize_t)n;
}

/* ---- write -------------------------------------------------------------------------- */

static void modified(struct dz_vfs *v, struct dz_inode *ip)
{
    ip->mtime_ns = ip->ctime_ns = dz_now(v);
    if (ip->mode & (S_ISUID | S_ISGID))
        ip->mode &= ip->mode & S_IXGRP ? ~(uint32_t)(S_ISUID | S_ISGID) : ~(uint32_t)S_ISUID;
    dz_idirty(v, ip, DZ_DIRTY_ROW);
}

static int copy_up_allowed(const struct dz_vfs *v, const struct dz_inode *ip)
{
    return ip->here ? 0 : dz_quota(v, ip->data_len, 1);
}

static ssize_t write_inline(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, const void *buf,
                            size_t n)
{
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    size_t end = (size_t)off + n, old = ip->data_len;
    rc = copy_up_allowed(v, ip);
    if (!rc && end > old) {
        rc = dz_quota(v, (int64_t)(end - old), 0);
        if (!rc)
            rc = dz_iset_data(v, ip, NULL, end);
        if (!rc && off > old)
            memset(ip->data + old, 0, (size_t)off - old);
    }
    if (!rc) {
        memcpy(ip->data + off, buf, n);
        if (end > ip->size)
            ip->size = end;
        modified(v, ip);
    }
    rc = dz_op_end(v, rc);
    return rc ? rc : (ssize_t)n;
}

/* From the node row into chunk 0: nothing changes for a reader. */
static int spill(struct dz_vfs *v, struct dz_inode *ip)
{
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    if (ip->data_len) {
        struct dz_row row = {.kind = DZ_ROW_PUT_CHUNK,
                             .n = {(int64_t)dz_chunk_id(ip->ino, 0)},
                             .data = ip->data,
                             .data_len = ip->data_len};
        rc = copy_up_allowed(v, ip);
        if (!rc)
            rc = dz_row_write(v, &row);
    }
    if (!rc) {
        size_t len = ip->data_len;
        dz_idirty(v, ip, DZ_DIRTY_ROW);
        dz_iadopt_data(v, ip, NULL, 0);
        v->used_bytes += (int64_t)len;
        dz_chunk_lens_forget(v);
    }
    return dz_op_end(v, rc);
}

static int write_chunk(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, const void *buf,
                       size_t n)
{
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = copy_up_allowed(v, ip);
    if (!rc)
        rc = dz_chunk_write(v, ip, off / DZ_VFS_CHUNK, (size_t)(off % DZ_VFS_CHUNK), buf, n);
    if (!rc) {
        if (off + n > ip->size)
            ip->size = off + n;
        modified(v, ip);
    }
    return dz_op_end(v, rc);
}

static ssize_t write_chunks(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, const void *buf,
                            size_t n)
{
    int rc = ip->data ? spill(v, ip) : 0;
    size_t done = 0;
    while (!rc && done < n) {
        size_t in = (size_t)((off + done) % DZ_VFS_CHUNK);
        size_t step = DZ_VFS_CHUNK - in < n - done ? DZ_VFS_CHUNK - in : n - done;
        rc = write_chunk(v, ip, off + done, (const uint8_t *)buf + done, step);
        if (!rc)
            done += step;
    }
    return done ? (ssize_t)done : rc;
}

static ssize_t write_at(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, const void *buf,
                        size_t n)
{
    if (off >= DZ_VFS_FILE_MAX)
        return -EFBIG;
    if (n > DZ_VFS_FILE_MAX - off)
        n = (size_t)(DZ_VFS_FILE_MAX - off);
    ip->refs++; /* holds it where it is over several operations */
    ssize_t done = ip->data && off + n <= DZ_VFS_INLINE_MAX ? write_inline(v, ip, off, buf, n)
                                                            : write_chunks(v, ip, off, buf, n);
    ip->refs--;
    if (done > 0)
        dz_watch_inode(v, DZ_VFS_EV_WRITE, ip);
    return done;
}

ssize_t dz_vfs_write(struct dz_vfs *v, uint64_t ino, uint64_t off, const void *buf, size_t n)
{
    struct dz_inode *ip;
    int rc = v->readonly ? -EROFS : dz_read_begin(v);
    if (!rc)
        rc = iget_file(v, ino, &ip);
    if (rc)
        return rc;
    return n ? write_at(v, ip, off, buf, n) : 0;
}

ssize_t dz_vfs_append(struct dz_vfs *v, uint64_t ino, const void *buf, size_t n, uint64_t *ret_off)
{
    struct dz_inode *ip;
    int rc = v->readonly ? -EROFS : dz_read_begin(v);
    if (!rc)
        rc = iget_file(v, ino, &ip);
    if (rc)
        return rc;
    uint64_t off = ip->size;
    ssize_t done = n ? write_at(v, ip, off, buf, n) : 0;
    if (done >= 0 && ret_off)
        *ret_off = off;
    return done;
}

/* ---- truncate ------------------------------------------------------------------------ */

static int truncate_chunks(struct dz_vfs *v, struct dz_inode *ip, uint64_t size)
{
    uint64_t index = size / DZ_VFS_CHUNK;
    size_t keep = (size_t)(size % DZ_VFS_CHUNK);
    DZ_AUTO(dz_freep) uint8_t *empty = NULL;
    if (size == 0) {
        empty = dz_alloc(1);
        if (!empty)
            return -ENOMEM;
    }
    uint64_t first = keep ? index + 1 : index;
    bool many = dz_chunks_many(v, ip, first);
    int rc = many ? dz_row_put_meta(v, "cut", (int64_t)dz_chunk_id(ip->ino, first))
                  : dz_chunks_delete(v, ip, first, LAST_INDEX);
    if (!rc && keep)
        rc = dz_chunk_cut(v, ip, index, keep);
    if (rc)
        return rc;
    v->cut = many ? dz_chunk_id(ip->ino, first) : 0;
    if (ip->base_size > size)
        ip->base_size = size;
    if (empty)
        dz_iadopt_data(v, ip, DZ_TAKE_PTR(empty), 0);
    return 0;
}

int dz_file_truncate(struct dz_vfs *v, struct dz_inode *ip, uint64_t size)
{
    int rc = copy_up_allowed(v, ip);
    if (rc)
        return rc;
    assert(!ip->data || size <= DZ_VFS_INLINE_MAX);
    if (ip->data && size < ip->data_len)
        rc = dz_iset_data(v, ip, NULL, (size_t)size);
    else if (!ip->data && size < ip->size)
        rc = truncate_chunks(v, ip, size);
    if (rc)
        return rc;
    ip->size = size;
    modified(v, ip);
    return 0;
}

int dz_file_resizable(struct dz_vfs *v, struct dz_inode *ip, uint64_t size)
{
    if (dz_is_dir(ip))
        return -EISDIR;
    if (!S_ISREG(ip->mode))
        return -EINVAL;
    if (size > DZ_VFS_FILE_MAX)
        return -EFBIG;
    return ip->data && size > DZ_VFS_INLINE_MAX ? spill(v, ip) : 0;
}

/* ---- holes ---------------------------------------------------------------------------- */

static int punch_chunk(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, size_t n)
{
    static const uint8_t zeros[DZ_VFS_CHUNK];
    uint64_t index = off / DZ_VFS_CHUNK, end = off + n;
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = copy_up_allowed(v, ip);
    if (!rc && n < DZ_VFS_CHUNK && end < ip->size) {
        rc = dz_chunk_exists(v, ip, index);
        if (rc > 0)
            rc = dz_chunk_write(v, ip, index, (size_t)(off % DZ_VFS_CHUNK), zeros, n);
    } else if (!rc && off % DZ_VFS_CHUNK == 0) {
        rc = dz_chunk_zero(v, ip, index);
    } else if (!rc) { /* to the end of the file, from inside its last chunk */
        rc = dz_chunk_exists(v, ip, index);
        if (rc > 0)
            rc = dz_chunk_write(v, ip, index, (size_t)(off % DZ_VFS_CHUNK), zeros, n);
    }
    if (!rc)
        modified(v, ip);
    return dz_op_end(v, rc);
}

static int punch_inline(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, uint64_t n)
{
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = copy_up_allowed(v, ip);
    if (!rc) {
        if (off < ip->data_len)
            memset(ip->data + off, 0, (size_t)(n < ip->data_len - off ? n : ip->data_len - off));
        modified(v, ip);
    }
    return dz_op_end(v, rc);
}

/* The next chunk that has bytes, from `at` on, clipped to `end`. */
static int skip_hole(struct dz_vfs *v, const struct dz_inode *ip, uint64_t end, uint64_t *at)
{
    uint64_t index;
    int rc = dz_read_begin(v);
    if (!rc)
        rc = dz_chunk_next(v, ip, *at / DZ_VFS_CHUNK, &index);
    if (rc)
        return rc;
    if (index == UINT64_MAX || index * DZ_VFS_CHUNK >= end)
        *at = end;
    else if (index * DZ_VFS_CHUNK > *at)
        *at = index * DZ_VFS_CHUNK;
    return 0;
}

int dz_vfs_punch(struct dz_vfs *v, uint64_t ino, uint64_t off, uint64_t n)
{
    struct dz_inode *ip;
    int rc = v->readonly ? -EROFS : dz_read_begin(v);
    if (!rc)
        rc = iget_file(v, ino, &ip);
    if (rc)
        return rc;
    if (n == 0)
        return -EINVAL;
    if (off >= ip->size)
        return 0;
    uint64_t end = n < ip->size - off ? off + n : ip->size;
    ip->refs++;
    if (ip->data)
        rc = punch_inline(v, ip, off, end - off);
    for (uint64_t at = off; !rc && !ip->data && at < end;) {
        rc = skip_hole(v, ip, end, &at);
        if (rc || at >= end)
            break;
        uint64_t in = at % DZ_VFS_CHUNK;
        size_t step = (size_t)(DZ_VFS_CHUNK - in < end - at ? DZ_VFS_CHUNK - in : end - at);
        rc = punch_chunk(v, ip, at, step);
        at += step;
    }
    ip->refs--;
    if (!rc)
        dz_watch_inode(v, DZ_VFS_EV_WRITE, ip);
    return rc;
}

static int seek_data(struct dz_vfs *v, const struct dz_inode *ip, uint64_t off, uint64_t *ret_off)
{
    uint64_t index = off / DZ_VFS_CHUNK;
    for (;;) {
        int rc = dz_chunk_next(v, ip, index, &index);
        if (rc)
            return rc;
        if (index == UINT64_MAX || index * DZ_VFS_CHUNK >= ip->size)
            return -ENXIO;
        rc = dz_chunk_exists(v, ip, index);
        if (rc < 0)
            return rc;
        if (rc)
            break;
        index++; /* a row of zero length */
    }
    *ret_off = index * DZ_VFS_CHUNK > off ? index * DZ_VFS_CHUNK : off;
    return 0;
}

static int seek_hole(struct dz_vfs *v, const struct dz_inode *ip, uint64_t off, uint64_t *ret_off)
{
    uint64_t index = off / DZ_VFS_CHUNK;
    int rc = 1;
    while (index * DZ_VFS_CHUNK < ip->size && (rc = dz_chunk_exists(v, ip, index)) > 0)
        index++;
    if (rc < 0)
        return rc;
    uint64_t at = index * DZ_VFS_CHUNK;
    if (at < off)
        at = off;
    *ret_off = at < ip->size ? at : ip->size;
    return 0;
}

int dz_vfs_seek(struct dz_vfs *v, uint64_t ino, uint64_t off, int whence, uint64_t *ret_off)
{
    struct dz_inode *ip;
    int rc = dz_read_begin(v);
    if (!rc)
        rc = iget_file(v, ino, &ip);
    if (rc)
        return rc;
    if (whence != SEEK_DATA && whence != SEEK_HOLE)
        return -EINVAL;
    if (off >= ip->size)
        return -ENXIO;
    if (ip->data) {
        *ret_off = whence == SEEK_DATA ? off : ip->size;
        return 0;
    }
    return whence == SEEK_DATA ? seek_data(v, ip, off, ret_off) : seek_hole(v, ip, off, ret_off);
}
