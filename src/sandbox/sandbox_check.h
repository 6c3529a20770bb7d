/* SPDX-License-Identifier: MIT
 *
 * sandbox_check.h - files without rows, rows without files.
 */
#ifndef DZ_SANDBOX_SANDBOX_CHECK_H
#define DZ_SANDBOX_SANDBOX_CHECK_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_sandboxes;

struct dz_sandbox_finding {
    const char *id;
    const char *what; /* "orphan", "missing", "stray", "unfinished", "state"; "busy" */
    const char *text; /* a sentence */
    bool repairable;
};
/* Compare the registry with the files; with repair, remove files that no row has, and
 * note at each row whose file is missing. Nothing may be under way. *ret_count:
 * findings that are left. */
DZ_NODISCARD int dz_sandboxes_check(struct dz_sandboxes *all, bool repair,
                                    void (*fn)(void *arg, const struct dz_sandbox_finding *f),
                                    void *arg, uint64_t *ret_count, struct dz_err *err);

/* The same beside operations, changing nothing, a few files and rows in each turn of the loop; one
 * at a time (DZ_EBUSY). Not compared, and told as "busy": a sandbox with an operation under way.
 * That is no damage and does not count. The registry's own file is not checked: that takes long,
 * and nothing else could use it meanwhile. */
struct dz_sandboxes_look;
struct dz_sandboxes_look_opts {
    void (*fn)(void *arg, const struct dz_sandbox_finding *f);
    /* Once, unless it is dropped before. left: findings without those that are busy */
    void (*done)(void *arg, uint64_t left, int rc, const struct dz_err *err);
    void *arg;
};
DZ_NODISCARD int dz_sandboxes_look(struct dz_sandboxes *all, const struct dz_sandboxes_look_opts *o,
                                   struct dz_sandboxes_look **ret_look, struct dz_err *err);
void dz_sandboxes_look_drop(struct dz_sandboxes_look *l); /* NULL is fine */

#endif
