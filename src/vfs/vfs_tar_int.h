/* SPDX-License-Identifier: MIT
 *
 * vfs_tar_int.h - the reader of tar streams, as vfs_tar_in.c and its fuzzer use it.
 *
 * Knows the format, not the disk. One member at a time: dz_tar_next, then
 * dz_tar_data until it says 0 (what is not read is skipped by the next one).
 */
#ifndef DZ_VFS_VFS_TAR_INT_H
#define DZ_VFS_VFS_TAR_INT_H

#include "base/buf.h"
#include "vfs/vfs_tar.h"

/* The ustar header, with the fields that GNU puts in place of prefix. */
struct dz_tar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], chksum[8];
    char type;
    char link[100], magic[6], version[2], uname[32], gname[32], major[8], minor[8];
    union {
        char prefix[155];
        struct {
            char accessed[12], changed[12], offset[12], longnames[4], unused;
            char sparse[4][24];
            char extended, realsize[12];
        } gnu;
    };
    char pad[12];
};
_Static_assert(sizeof(struct dz_tar_header) == DZ_TAR_BLOCK, "a tar header is one block");

struct dz_tar_piece {
    uint64_t off, len;
};

struct dz_tar_xattr {
    size_t name, value, value_len; /* positions in dz_tar_member.xattr_bytes */
};

struct dz_tar_member {
    char type;                /* '0' file, '1' link, '2' symlink, '3' '4' '5' '6' */
    struct dz_buf path, link; /* may hold NUL only if bad says so */
    uint32_t mode, uid, gid;
    uint64_t size; /* of the file as it will be, holes included */
    int64_t mtime_ns;
    uint32_t major, minor;
    struct dz_buf xattr_bytes;
    struct dz_tar_xattr xattrs[DZ_TAR_XATTR_MAX];
    unsigned xattr_count;
    bool sparse;
    char bad[160]; /* why this member cannot be taken; "" = it can */
};

/* What extended headers say; the next member takes it over. */
struct dz_tar_pax {
    struct dz_buf path, link, xattr_bytes;
    struct dz_tar_xattr xattrs[DZ_TAR_XATTR_MAX];
    unsigned xattr_count;
    bool has_path, has_link, has_size, has_uid, has_gid, has_mtime;
    bool has_sparse, has_realsize, lost_xattr;
    uint64_t size, uid, gid, realsize, sparse_major, sparse_minor;
    int64_t mtime_ns;
    bool half_piece; /* GNU.sparse.offset came, numbytes not yet */
};

struct dz_tar_reader {
    ssize_t (*read)(void *arg, void *buf, size_t n);
    void *arg;
    uint64_t at;      /* bytes taken from the stream */
    uint64_t left;    /* bytes of the member's data still in the stream */
    unsigned padding; /* that follow it up to the block */
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
/* Bytes of content for *ret_off in the file, 0 at the end, negative: broken. */
DZ_NODISCARD ssize_t dz_tar_data(struct dz_tar_reader *r, void *buf, size_t n, uint64_t *ret_off,
                                 struct dz_err *err);

/* vfs_tar_merge.c: the directory that an archive is unpacked into, and its way into
 * place. 0 or a negative errno. */
#define DZ_TAR_STAGE  ".doze-untar"
#define DZ_TAR_NOBODY UINT32_MAX /* owner of a directory that the archive does not name */
/* An empty one in dir, noted as unfinished. What was there of that name goes. Commits. */
int dz_tar_stage_make(struct dz_vfs *v, uint64_t dir, uint64_t *ret_stage);
int dz_tar_stage_drop(struct dz_vfs *v, uint64_t dir);
/* It is whole: move all in it to its parent, where nothing may stand in the way.
 * Begins and ends with a commit. */
DZ_NODISCARD int dz_tar_merge(struct dz_vfs *v, uint64_t stage, struct dz_err *err);

/* Some names of a directory, each behind a byte with its length; none: the end. */
struct dz_tar_names {
    struct dz_buf text;
    uint64_t cookie; /* to go on from */
};
void dz_tar_names_init(struct dz_tar_names *n); /* release .text */
int dz_tar_names_next(struct dz_vfs *v, uint64_t dir, uint64_t cookie, struct dz_tar_names *n);

/* vfs_tar_pax.c */
/* Read the records of one extended header, text[0..n). */
DZ_NODISCARD int dz_tar_pax_parse(struct dz_tar_reader *r, struct dz_tar_pax *pax, const char *text,
                                  size_t n, struct dz_err *err);
void dz_tar_pax_reset(struct dz_tar_pax *pax);
void dz_tar_pax_release(struct dz_tar_pax *pax);
DZ_NODISCARD int dz_tar_piece_add(struct dz_tar_reader *r, uint64_t off, uint64_t len,
                                  struct dz_err *err);
/* Are the pieces in order, inside realsize, and together stored bytes? */
DZ_NODISCARD int dz_tar_pieces_check(struct dz_tar_reader *r, uint64_t realsize, uint64_t stored,
                                     struct dz_err *err);

/* vfs_tar_read.c, for the others */
DZ_NODISCARD int dz_tar_broken(const struct dz_tar_reader *r, struct dz_err *err, const char *what);

#endif
