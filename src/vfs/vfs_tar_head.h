/* SPDX-License-Identifier: MIT
 *
 * vfs_tar_head.h - write headers of tar archives. It knows the format, not the disk.
 */
#ifndef DZ_VFS_VFS_TAR_HEAD_H
#define DZ_VFS_VFS_TAR_HEAD_H

#include "base/str.h"
#include "vfs/vfs_tar_read.h"

struct dz_tar_head {
    char type; /* as in dz_tar_member */
    struct dz_str path, link;
    uint32_t mode, uid, gid;
    uint64_t size; /* bytes of the data that follows; pad the data to DZ_TAR_BLOCK */
    int64_t mtime_ns;
    uint32_t major, minor;
};

/* Add a record to the extended header of the next member. */
void dz_tar_pax_add(struct dz_buf *pax, const char *key, const void *value, size_t n);
/* Append the member's header. If pax has records, or if some are needed (they are added to pax), an
 * extended header comes first. Reset pax before the next member. */
void dz_tar_head_add(struct dz_buf *out, struct dz_buf *pax, const struct dz_tar_head *m);

/* For a file with holes: write the map with which its data begins into map, and the header's
 * records into pax. Returns the size of the map plus all pieces, which must be the header's size.
 * The header's path must be DZ_TAR_SPARSE_NAME. */
#define DZ_TAR_SPARSE_NAME "GNUSparseFile"
uint64_t dz_tar_sparse_add(struct dz_buf *map, struct dz_buf *pax,
                           const struct dz_tar_piece *pieces, size_t count, struct dz_str path,
                           uint64_t size);

#endif
