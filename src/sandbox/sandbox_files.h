/* SPDX-License-Identifier: MIT
 *
 * sandbox_files.h - what is done with the files of sandboxes, by who can look inside them.
 */
#ifndef DZ_SANDBOX_SANDBOX_FILES_H
#define DZ_SANDBOX_SANDBOX_FILES_H

#include "base/err.h"
#include "blob/blob_cold.h"
#include "registry/registry.h"

#include <stdbool.h>
#include <stdint.h>

/* What is carried from one file to another, inside a file-only cell. */
enum dz_sandbox_transfer_kind {
    DZ_SANDBOX_TRANSFER_COMPACT, /* the whole sandbox with its sleeping machine; no free pages */
    DZ_SANDBOX_TRANSFER_FILES, /* files only: no machine, no memory pages, tmp empty; no free pages
                                */
    DZ_SANDBOX_TRANSFER_CLONE, /* the same for another tenant: workspace and memory volumes */
    DZ_SANDBOX_TRANSFER_SHARE, /* public volumes only, and no byte that was deleted */
};

struct dz_sandbox_transfer {
    enum dz_sandbox_transfer_kind what;
    const struct dz_instance *row; /* of the source */
    const char *tenant;            /* whose the new file will be */
    struct dz_blob_in *from;       /* the source's file; its log is empty, nobody runs it */
    struct dz_blob_out *to;        /* committed by who asked */
    const _Atomic bool *cancel;    /* set: DZ_ECANCELED, soon */
};

struct dz_sandbox_clock {
    int64_t offset_ms; /* dz_sandboxes_now() minus CLOCK_BOOTTIME */
    int64_t skew_ms;   /* dz_sandboxes_now() minus the wall's clock */
    int64_t seen_ms;   /* dz_sandboxes_now() when this was saved */
    bool same_boot;    /* loaded: the machine has run since */
};

/* What is done with files: this module does not look inside them. */
struct dz_sandbox_files {
    /* These block. They are called on workers, and by recovery on the loop's thread. */
    int (*make)(void *arg, const struct dz_instance *row, struct dz_blob_out *out,
                struct dz_err *err); /* an empty disk for it */
    /* One that was made ahead, of which only the name is missing; NULL: there is none. May be
     * NULL. */
    struct dz_blob_out *(*ready)(void *arg);
    /* Log into file, log gone. DZ_EBUSY: the last cell has not left the file yet; it is asked
     * again, for ten seconds. */
    int (*checkpoint)(void *arg, const char *id, struct dz_err *err);
    int (*transfer)(void *arg, const struct dz_sandbox_transfer *c, struct dz_err *err);

    /* Does somebody make a sandbox of this id, whose row comes after its file? NULL: nobody. */
    bool (*claimed)(void *arg, const char *id);

    /* An operation that ends or saves this sandbox met DZ_ENOSPC, or its cell says so. True: there
     * is more room now, and its step is done again. NULL: there is no reserve. */
    bool (*make_room)(void *arg, const char *id);

    /* The clock, from one daemon to the next; see dz_sandboxes_now. load: false, there is
     * none. NULL: nothing is kept. */
    bool (*clock_load)(void *arg, struct dz_sandbox_clock *ret_clock);
    void (*clock_save)(void *arg, const struct dz_sandbox_clock *clock);
};

#endif
