/* SPDX-License-Identifier: MIT
 *
 * cell_disk.h - a sandbox's file that nobody runs, in the hands of a file-only cell:
 * its log moved in, its files carried into another file, its archive unpacked.
 *
 * Whoever wrote the file may be hostile, so each of these is a jailed call
 * (cell_call.h) that has the descriptors of the files concerned and nothing else.
 * They block, and belong on a worker. What keeps registry and files in step asks
 * them of its ops (keeper.h); they know nothing of rows.
 */
#ifndef DZ_CELL_CELL_DISK_H
#define DZ_CELL_CELL_DISK_H

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_blob_in;
struct dz_blob_out;

/* Set from another thread, the call ends within a second or so with DZ_ECANCELED. May
 * be NULL. */
typedef const _Atomic bool *dz_cell_cancel;

/* Move what is in the log beside `path` into the file; the log is gone. Nobody may
 * have the file open: DZ_EBUSY. */
DZ_NODISCARD int dz_cell_disk_settle(const char *path, struct dz_err *err);

/* Which content is copied. Only COMPACT copies a machine, kept memory, records of commands and
 * /tmp; no copy has a deleted byte; each copy is as small as it can be. */
enum dz_cell_carry {
    DZ_CELL_CARRY_COMPACT, /* the same sandbox, whole */
    DZ_CELL_CARRY_FILES,   /* the same sandbox: its files, all that it says of itself */
    DZ_CELL_CARRY_CLONE,   /* another one with the same files, on the same image */
    DZ_CELL_CARRY_SHARE,   /* the public volume alone, standing on no image */
};

struct dz_cell_disk {
    struct dz_blob_in *from;  /* has a descriptor; its log is empty */
    struct dz_blob_out *to;   /* empty; not committed here */
    int image_fd;             /* SHARE: of the image that `from` stands on; -1: none */
    const char *image_sha256; /* of that image; NULL: none */
    const char *label;        /* what `from` is called in messages */
    dz_cell_cancel cancel;
};

DZ_NODISCARD int dz_cell_disk_carry(const struct dz_cell_disk *d, enum dz_cell_carry what,
                                    struct dz_err *err);

/* cold.h's expand: an archive's content to `out`, or with out NULL only checked. What
 * the cell has written is hashed here, not there. */
DZ_NODISCARD int dz_cell_expand(struct dz_blob_in *in, struct dz_blob_out *out,
                                dz_cell_cancel cancel, uint8_t ret_digest[static DZ_SHA256_BYTES],
                                struct dz_err *err);

#endif
