/* SPDX-License-Identifier: MIT
 *
 * machine_copy.h - make a new file from another: a clone, a compaction, a share. All write into a
 * new disk, row by row, so it cannot contain a deleted byte of the source. The caller makes the
 * file appear complete or not at all (a temporary name, a rename).
 */
#ifndef DZ_MACHINE_MACHINE_COPY_H
#define DZ_MACHINE_MACHINE_COPY_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_db;
struct dz_vfs;
struct dz_vfs_pack;

struct dz_copied {
    uint64_t nodes, bytes; /* copied: nodes are files, directories and links, bytes their content */
};

/* Copy the files of a sandbox except /tmp. The copy has the same image below it; it has no machine,
 * no memory and no records of commands, and a new random seed. `to` is a new disk. */
DZ_NODISCARD int dz_machine_clone(struct dz_db *from, struct dz_db *to,
                                  struct dz_copied *ret_copied, struct dz_err *err);

/* Copy the whole sandbox into a file without free pages: its files with /tmp, its sleeping machine
 * with memory, the records of its commands, and the table `meta`. For an archive. The rows of a
 * machine that was lost (`machine_live`) are left out, as no wake reads them. */
DZ_NODISCARD int dz_machine_compact(struct dz_db *from, struct dz_db *to,
                                    struct dz_copied *ret_copied, struct dz_err *err);

/* Copy only the files of a sandbox: no machine (also not that of the image), no memory, no /tmp, no
 * records of commands. For an archive with keep=files. */
DZ_NODISCARD int dz_machine_compact_files(struct dz_db *from, struct dz_db *to,
                                          struct dz_copied *ret_copied, struct dz_err *err);

/* Copy only the public volume (dz_vfs_volume_public), including the files that come from the image,
 * into a disk without an image below it. */
DZ_NODISCARD int dz_machine_share(struct dz_vfs *from, struct dz_vfs *to,
                                  struct dz_copied *ret_copied, struct dz_err *err);

/* Merge a file and its image into one file without an image below it, with the machine that sleeps
 * in `from`. The result can serve as an image, and needs no pack: the content of the image's pack
 * (NULL: it has none) is stored in rows. image NULL: `from` has no image below it. */
DZ_NODISCARD int dz_machine_flatten(struct dz_db *from, struct dz_db *image,
                                    const struct dz_vfs_pack *pack, struct dz_db *to,
                                    struct dz_err *err);

#endif
