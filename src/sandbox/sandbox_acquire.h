/* SPDX-License-Identifier: MIT
 *
 * sandbox_acquire.h - the only way to a cell: a request names what it needs.
 */
#ifndef DZ_SANDBOX_SANDBOX_ACQUIRE_H
#define DZ_SANDBOX_SANDBOX_ACQUIRE_H

#include "sandbox/sandbox.h"

enum dz_need {
    DZ_NEED_FILES,   /* any cell that has the sandbox's file; a file-only one if it sleeps */
    DZ_NEED_MACHINE, /* a cell whose machine runs: the sandbox is woken */
};

struct dz_acquire; /* an acquire or order in progress */
/* Called once, from the loop: with the sandbox, which has such a cell now, or with the failure. For
 * an order the sandbox is NULL. */
typedef void dz_acquire_fn(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result);

struct dz_acquire_opts {
    enum dz_need need;
    dz_acquire_fn *fn;
    void *arg;
    /* MACHINE only, may be NULL. Called at most once, before fn, when the cell can already accept
     * frames: they go with its start, or reach its machine while the registry is written. */
    void (*early)(void *arg, struct dz_sandbox *s);
    int64_t began_us; /* FILES: when the wait began, if an earlier attempt failed; 0: now */
    bool writes; /* FILES: the file will be changed, so a sandbox that is frozen or has volumes is
                    woken */
};
/* Negative: refused; fn is not called, and *ret_acquire is untouched. ret_acquire may be NULL;
 * *ret_acquire can be passed to dz_acquire_cancel until fn is called. */
DZ_NODISCARD int dz_sandbox_acquire(struct dz_sandboxes *all, const struct dz_instance *row,
                                    const struct dz_acquire_opts *opts,
                                    struct dz_acquire **ret_acquire, struct dz_why *why);
/* Cancel: fn is not called any more. NULL is fine. */
void dz_acquire_cancel(struct dz_acquire *a);

/* Submit a lifecycle request of a client; fn gets the outcome. */
DZ_NODISCARD int dz_sandbox_order(struct dz_sandboxes *all, const struct dz_instance *row,
                                  const struct dz_sandbox_request *request, dz_acquire_fn *fn,
                                  void *arg, struct dz_why *why);

/* Check whether a request may wake or use this sandbox. */
DZ_NODISCARD int dz_sandbox_may_wake(struct dz_sandboxes *all, const struct dz_instance *row,
                                     struct dz_why *why);

#endif
