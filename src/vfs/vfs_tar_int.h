/* SPDX-License-Identifier: MIT
 *
 * vfs_tar_int.h - what the files of the tar reader and writer share.
 */
#ifndef DZ_VFS_VFS_TAR_INT_H
#define DZ_VFS_VFS_TAR_INT_H

#include "vfs/vfs_tar_read.h"

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
