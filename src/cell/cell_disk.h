/* SPDX-License-Identifier: MIT
 *
 * cell_disk.h - work on the file of a sandbox that does not run: checkpoint its WAL, transfer its
 * files into another file, unpack its archive.
 *
 * The file may have been written by a hostile guest, so each function here makes a jailed call
 * (cell_call.h) that has the descriptors of the files concerned and nothing else. These functions
 * block, so call them on a worker. sandbox/ reaches them through struct dz_sandbox_files
 * (sandbox_files.h); they know nothing of the registry.
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

/* May be NULL. When another thread sets it, the call ends within about a second with DZ_ECANCELED.
 */
typedef const _Atomic bool *dz_cell_cancel;

/* Move the WAL beside `path` into the file and delete it. DZ_EBUSY: another process has the file
 * open. */
DZ_NODISCARD int dz_cell_disk_checkpoint(const char *path, struct dz_err *err);

/* The part that is copied. Only COMPACT copies a machine with its memory, the records of commands
 * and /tmp. No copy holds deleted bytes, and each is as small as it can be. */
enum dz_cell_transfer {
    DZ_CELL_TRANSFER_COMPACT, /* the same sandbox with everything */
    DZ_CELL_TRANSFER_FILES,   /* the same sandbox: its files and its own description */
    DZ_CELL_TRANSFER_CLONE,   /* a new sandbox with the same files, on the same image */
    DZ_CELL_TRANSFER_SHARE,   /* the public volume alone, as a file without an image */
};

struct dz_cell_disk {
    struct dz_blob_in *from;  /* must have a descriptor, and an empty WAL */
    struct dz_blob_out *to;   /* must be empty; the caller commits it */
    int image_fd;             /* SHARE: the image below `from`; -1: none */
    int pack_fd;              /* SHARE: the pack of that image; -1: none */
    const char *image_sha256; /* the hash of that image; NULL: none */
    const char *label;        /* the name of `from` in messages */
    dz_cell_cancel cancel;
};

DZ_NODISCARD int dz_cell_disk_transfer(const struct dz_cell_disk *d, enum dz_cell_transfer what,
                                       struct dz_err *err);

/* The `expand` of struct dz_cold: unpack an archive into `out`; out NULL: only check it. The hash
 * of what the cell wrote is computed here, outside of the cell. */
DZ_NODISCARD int dz_cell_expand(struct dz_blob_in *in, struct dz_blob_out *out,
                                dz_cell_cancel cancel, uint8_t ret_digest[static DZ_SHA256_BYTES],
                                struct dz_err *err);

#endif
