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

#endif
