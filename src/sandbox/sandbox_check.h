/* SPDX-License-Identifier: MIT
 *
 * sandbox_check.h - compare the registry with the files: files without rows, rows without files.
 */
#ifndef DZ_SANDBOX_SANDBOX_CHECK_H
#define DZ_SANDBOX_SANDBOX_CHECK_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_sandboxes;

struct dz_sandbox_finding {
    const char *id;
    const char *what; /* "orphan", "missing", "stray", "unfinished", "state"; "busy" */
    const char *text; /* a sentence for people */
    bool repairable;
};
/* Compare the registry with the files. With repair, remove files that belong to no row, and record
 * an error in each row whose file is missing. No operation may be in progress. *ret_count: findings
 * that are left. */
DZ_NODISCARD int dz_sandboxes_check(struct dz_sandboxes *all, bool repair,
                                    void (*fn)(void *arg, const struct dz_sandbox_finding *f),
                                    void *arg, uint64_t *ret_count, struct dz_err *err);

/* The same while operations run, without repair: a few files and rows in each turn of the loop, one
 * check at a time (else DZ_EBUSY). Sandboxes with an operation in progress are not compared; they
 * are reported as "busy", which is no damage and does not count. The registry's own file is not
 * checked, because that takes long and blocks every other use of it. */
struct dz_sandboxes_look;
struct dz_sandboxes_look_opts {
    void (*fn)(void *arg, const struct dz_sandbox_finding *f);
    /* Called once, unless the check is dropped before. left: findings without the busy ones. */
    void (*done)(void *arg, uint64_t left, int rc, const struct dz_err *err);
    void *arg;
};
DZ_NODISCARD int dz_sandboxes_look(struct dz_sandboxes *all, const struct dz_sandboxes_look_opts *o,
                                   struct dz_sandboxes_look **ret_look, struct dz_err *err);
void dz_sandboxes_look_drop(struct dz_sandboxes_look *l); /* NULL is fine */

/* For a cold storage that is far: remove what unfinished writers left long ago, and the objects of
 * sandboxes that were deleted while the store could not be reached. Objects of sandboxes that the
 * registry does not know stay, because the registry may have been restored from a backup. done is
 * called once, err NULL for success. One at a time: DZ_EBUSY. */
DZ_NODISCARD int dz_sandboxes_collect(struct dz_sandboxes *all,
                                      void (*done)(void *arg, size_t removed,
                                                   const struct dz_err *err),
                                      void *arg, struct dz_err *err);

#endif
