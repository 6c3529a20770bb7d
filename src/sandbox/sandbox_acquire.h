/* SPDX-License-Identifier: MIT
 *
 * sandbox_acquire.h - the one way to a cell: a request says what it needs of it.
 */
#ifndef DZ_SANDBOX_SANDBOX_ACQUIRE_H
#define DZ_SANDBOX_SANDBOX_ACQUIRE_H

#include "sandbox/sandbox.h"

enum dz_need {
    DZ_NEED_FILES, /* any cell that has the sandbox's file; one that has only that, if it sleeps */
    DZ_NEED_MACHINE, /* one whose machine runs: the sandbox is woken */
};

struct dz_acquire; /* one that waits */
/* Called once, from the loop: with the sandbox, which has such a cell now, or with the failure. Of
 * an order the sandbox is NULL. */
typedef void dz_acquire_fn(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result);

struct dz_acquire_opts {
    enum dz_need need;
    dz_acquire_fn *fn;
    void *arg;
    /* MACHINE only, may be NULL: what is told to the cell now goes with its start, or reaches its
     * machine while the registry is written. At most once; fn follows, with the outcome. */
    void (*early)(void *arg, struct dz_sandbox *s);
    int64_t began_us; /* FILES: since when it waits, where an earlier one came to nothing; 0: now */
    bool writes;      /* FILES: the file is changed: a frozen sandbox is woken for that */
};
/* Negative: refused, fn is not called, and *ret_acquire is untouched. ret_acquire may be NULL; it
 * is for dz_acquire_cancel, until fn is called. */
DZ_NODISCARD int dz_sandbox_acquire(struct dz_sandboxes *all, const struct dz_instance *row,
                                    const struct dz_acquire_opts *opts,
                                    struct dz_acquire **ret_acquire, struct dz_why *why);
/* fn is not called any more. NULL is fine. */
void dz_acquire_cancel(struct dz_acquire *a);

/* A change of the lifecycle that a client asks for: what becomes of the request is the result. */
DZ_NODISCARD int dz_sandbox_order(struct dz_sandboxes *all, const struct dz_instance *row,
                                  const struct dz_sandbox_request *request, dz_acquire_fn *fn,
                                  void *arg, struct dz_why *why);

/* May a request wake it, or use it as it is? */
DZ_NODISCARD int dz_sandbox_may_wake(const struct dz_instance *row, struct dz_why *why);

#endif
