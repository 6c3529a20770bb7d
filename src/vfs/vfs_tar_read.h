/* SPDX-License-Identifier: MIT
 *
 * vfs_tar_read.h - the reader of tar streams.
 *
 * It knows the format, not the disk. Read one member at a time: dz_tar_next, then dz_tar_data until
 * it returns 0. dz_tar_next skips the data that was not read.
 */
#ifndef DZ_VFS_VFS_TAR_READ_H
#define DZ_VFS_VFS_TAR_READ_H

#include "base/buf.h"
#include "vfs/vfs_tar.h"

struct dz_tar_piece {
    uint64_t off, len;
};

struct dz_tar_xattr {
    size_t name, value, value_len; /* positions in dz_tar_member.xattr_bytes */
};

struct dz_tar_member {
    char type;                /* '0' file, '1' link, '2' symlink, '3' '4' '5' '6' */
    struct dz_buf path, link; /* contain a NUL only if `bad` reports it */
    uint32_t mode, uid, gid;
    uint64_t size; /* bytes of the file, holes included */
    int64_t mtime_ns;
    uint32_t major, minor;
    struct dz_buf xattr_bytes;
    struct dz_tar_xattr xattrs[DZ_TAR_XATTR_MAX];
    unsigned xattr_count;
    bool sparse;
    char bad[160]; /* the reason why this member cannot be imported; "": it can */
};

/* Fields of extended headers (pax); they apply to the next member. */
struct dz_tar_pax {
    struct dz_buf path, link, xattr_bytes;
    struct dz_tar_xattr xattrs[DZ_TAR_XATTR_MAX];
    unsigned xattr_count;
    bool has_path, has_link, has_size, has_uid, has_gid, has_mtime;
    bool has_sparse, has_realsize, lost_xattr;
    uint64_t size, uid, gid, realsize, sparse_major, sparse_minor;
    int64_t mtime_ns;
    bool half_piece; /* GNU.sparse.offset was read, numbytes was not */
};

struct dz_tar_reader {
    ssize_t (*read)(void *arg, void *buf, size_t n);
    void *arg;
    uint64_t at;      /* bytes read from the stream */
    uint64_t left;    /* bytes of the member's data still in the stream */
    unsigned padding; /* bytes between the data and the next block */
    bool ended;
    struct dz_tar_pax pax, global;
    struct dz_tar_member m;
    struct dz_tar_piece *pieces; /* of a sparse member */
    unsigned piece_count, piece_cap, piece;
    uint64_t piece_done; /* bytes of the current piece handed out */
    char block[DZ_TAR_BLOCK];
};

void dz_tar_init(struct dz_tar_reader *r, ssize_t (*read)(void *arg, void *buf, size_t n),
                 void *arg);
void dz_tar_release(struct dz_tar_reader *r);

/* 1: r->m is the next member; 0: the end; negative: the archive is broken. */
DZ_NODISCARD int dz_tar_next(struct dz_tar_reader *r, struct dz_err *err);
/* Read content: returns its number of bytes and in *ret_off its offset in the file. 0: the end;
 * negative: the archive is broken. */
DZ_NODISCARD ssize_t dz_tar_data(struct dz_tar_reader *r, void *buf, size_t n, uint64_t *ret_off,
                                 struct dz_err *err);

#endif
