/* SPDX-License-Identifier: MIT
 *
 * sandbox_files.h - operations on the files of sandboxes, implemented by code that can read them.
 */
#ifndef DZ_SANDBOX_SANDBOX_FILES_H
#define DZ_SANDBOX_SANDBOX_FILES_H

#include "base/err.h"
#include "blob/blob_cold.h"
#include "registry/registry.h"

#include <stdbool.h>
#include <stdint.h>

/* The parts of a file that a file-only cell transfers to another file. */
enum dz_sandbox_transfer_kind {
    DZ_SANDBOX_TRANSFER_COMPACT, /* everything, with the sleeping machine; no free pages */
    DZ_SANDBOX_TRANSFER_FILES, /* files only: no machine, no memory pages, empty tmp, no free pages
                                */
    DZ_SANDBOX_TRANSFER_CLONE, /* the same for another sandbox: the workspace and memory volumes */
    DZ_SANDBOX_TRANSFER_SHARE, /* public volumes only, and no deleted bytes */
};

struct dz_sandbox_transfer {
    enum dz_sandbox_transfer_kind what;
    const struct dz_instance *row; /* row of the source */
    const char *tenant;            /* owner of the new file */
    struct dz_blob_in *from;    /* the source's file: its WAL is empty, and no cell has it open */
    struct dz_blob_out *to;     /* the caller commits it */
    const _Atomic bool *cancel; /* when set, the transfer ends soon with DZ_ECANCELED */
};

struct dz_sandbox_clock {
    int64_t offset_ms; /* dz_sandboxes_now() minus CLOCK_BOOTTIME */
    int64_t skew_ms;   /* dz_sandboxes_now() minus the wall clock */
    int64_t seen_ms;   /* dz_sandboxes_now() when this was saved */
    bool same_boot;    /* when loaded: the host has not rebooted since */
};

/* Operations on sandbox files, which this module does not look into. */
struct dz_sandbox_files {
    /* The following functions block. Workers call them, and recovery on the loop's thread. */
    int (*make)(void *arg, const struct dz_instance *row, struct dz_blob_out *out,
                struct dz_err *err); /* write an empty disk */
    /* Take a preallocated empty disk that lacks only its name; NULL: there is none. The function
     * may be NULL. */
    struct dz_blob_out *(*ready)(void *arg);
    /* Checkpoint the WAL into the file and remove it. DZ_EBUSY: the last cell still has the file;
     * the caller tries again for ten seconds. */
    int (*checkpoint)(void *arg, const char *id, struct dz_err *err);
    int (*transfer)(void *arg, const struct dz_sandbox_transfer *c, struct dz_err *err);

    /* Is there an intent file, so that a sandbox of this id gets its row after its file? NULL:
     * never. */
    bool (*has_intent)(void *arg, const char *id);

    /* Called when an operation that suspends, freezes, archives or deletes this sandbox fails with
     * DZ_ENOSPC. True: space was freed from the reserve, and the step is tried again. NULL: there
     * is no reserve. */
    bool (*make_room)(void *arg, const char *id);

    /* Load and save the clock between daemons; see dz_sandboxes_now. load: false if nothing was
     * saved. NULL: the clock is not kept. */
    bool (*clock_load)(void *arg, struct dz_sandbox_clock *ret_clock);
    void (*clock_save)(void *arg, const struct dz_sandbox_clock *clock);
};

#endif
