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
    uint64_t nodes, bytes; /* files, directories, links; content */
};

/* The files of a sandbox, all but /tmp: on the same image, without machine, memory, records of
 * commands, and with a seed of its own. `to` is a fresh disk. */
DZ_NODISCARD int dz_machine_clone(struct dz_db *from, struct dz_db *to,
                                  struct dz_copied *ret_copied, struct dz_err *err);

/* The whole sandbox without a free page: its files with /tmp, its sleeping machine and memory, the
 * records of its commands, and all that `meta` says. For an archive. The rows of a machine that was
 * lost (`machine_live`) stay behind: no wake reads them. */
DZ_NODISCARD int dz_machine_compact(struct dz_db *from, struct dz_db *to,
                                    struct dz_copied *ret_copied, struct dz_err *err);

/* The same sandbox as its files alone: no machine (not the image's either), no memory, no /tmp, no
 * records of commands. For an archive with keep=files. */
DZ_NODISCARD int dz_machine_compact_files(struct dz_db *from, struct dz_db *to,
                                          struct dz_copied *ret_copied, struct dz_err *err);

/* The public volume alone (dz_vfs_volume_public), with what lies below in the image,
 * into a disk that stands on none. */
DZ_NODISCARD int dz_machine_share(struct dz_vfs *from, struct dz_vfs *to,
                                  struct dz_copied *ret_copied, struct dz_err *err);

/* Both as one file that stands on no image, with the machine that sleeps in `from`: it
 * may be an image itself. image NULL: `from` stands on none. */
DZ_NODISCARD int dz_machine_seal(struct dz_db *from, struct dz_db *image, struct dz_db *to,
                                 struct dz_err *err);

#endif
