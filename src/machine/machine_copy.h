/* SPDX-License-Identifier: MIT
 *
 * machine_copy.h - new files out of one: a clone, a compaction, a share. All write into a fresh
 * disk, row by row, so no deleted byte of the source can be in it; that the file
 * appears whole or not at all is the caller's (a temporary name, a rename).
 */
#ifndef DZ_MACHINE_MACHINE_COPY_H
#define DZ_MACHINE_MACHINE_COPY_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_db;
struct dz_vfs;

struct dz_copied {
    uint64_t nodes, bytes; /* copied: nodes are files, directories and links, bytes their content */
};

/* Copy the files of a sandbox but for /tmp. The copy stands on the same image; it has no machine,
 * no memory and no records of commands, and a random seed of its own. `to` is a new disk. */
DZ_NODISCARD int dz_machine_clone(struct dz_db *from, struct dz_db *to,
                                  struct dz_copied *ret_copied, struct dz_err *err);

/* Copy the whole sandbox into a file without free pages: its files with /tmp, its sleeping machine
 * with memory, the records of its commands, and the table `meta`. For an archive. The rows of a
 * machine that was lost (`machine_live`) are left out, as no wake reads them. */
DZ_NODISCARD int dz_machine_compact(struct dz_db *from, struct dz_db *to,
                                    struct dz_copied *ret_copied, struct dz_err *err);

/* Copy the files of a sandbox alone: no machine (not that of the image either), no memory, no /tmp,
 * no records of commands. For an archive with keep=files. */
DZ_NODISCARD int dz_machine_compact_files(struct dz_db *from, struct dz_db *to,
                                          struct dz_copied *ret_copied, struct dz_err *err);

/* Copy the public volume alone (dz_vfs_volume_public), including what the image holds below it,
 * into a disk that stands on no image. */
DZ_NODISCARD int dz_machine_share(struct dz_vfs *from, struct dz_vfs *to,
                                  struct dz_copied *ret_copied, struct dz_err *err);

/* Merge a file and its image into one file that stands on no image, with the machine that sleeps in
 * `from`. The result may serve as an image. image NULL: `from` stands on none. */
DZ_NODISCARD int dz_machine_seal(struct dz_db *from, struct dz_db *image, struct dz_db *to,
                                 struct dz_err *err);

#endif
