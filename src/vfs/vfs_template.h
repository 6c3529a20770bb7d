/* SPDX-License-Identifier: MIT
 *
 * vfs_template.h - the bytes of an empty disk, made when doze is built.
 *
 * The Makefile runs template_main.c, which writes these bytes, with a mark at each value that
 * differs from disk to disk. Marks and values are eight bytes wide.
 */
#ifndef DZ_VFS_VFS_TEMPLATE_H
#define DZ_VFS_VFS_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

#define DZ_VFS_MARK_SEED 0x5eed0f1a3b7c92d4LL /* meta: seed */
#define DZ_VFS_MARK_TIME 0x717e3a5bc4d20916LL /* atime, mtime, ctime of the four fixed inodes */

enum {
    DZ_VFS_TEMPLATE_TIMES = 12,
};

/* An empty disk, and an empty disk that also has the table for a machine's memory. */
struct dz_vfs_template {
    const unsigned char *bytes;
    size_t size;
    uint32_t seed; /* offsets of the marks */
    uint32_t times[DZ_VFS_TEMPLATE_TIMES];
};
extern const struct dz_vfs_template dz_vfs_template_disk, dz_vfs_template_machine;

#endif
