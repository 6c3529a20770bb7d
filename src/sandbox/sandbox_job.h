/* SPDX-License-Identifier: MIT
 *
 * sandbox_job.h - a sandbox is brought to where a request can be served.
 */
#ifndef DZ_SANDBOX_SANDBOX_JOB_H
#define DZ_SANDBOX_SANDBOX_JOB_H

#include "sandbox/sandbox.h"

enum dz_job_kind {
    DZ_JOB_ORDER, /* the answer of the request is the answer */
    DZ_JOB_USE,   /* the machine runs */
    DZ_JOB_FILES, /* a cell has the file */
};
struct dz_job;
typedef void dz_job_fn(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result);
struct dz_job_spec {
    enum dz_job_kind kind;
    dz_job_fn *fn; /* called once, with the sandbox (DZ_JOB_ORDER: NULL) or the failure */
    void *arg;
    const struct dz_sandbox_request *request; /* DZ_JOB_ORDER only */
    /* DZ_JOB_USE only, may be NULL: the machine runs, and what is told to it reaches it while the
     * registry is written. At most once; fn follows, with the outcome. */
    void (*early)(void *arg, struct dz_sandbox *s);
    int64_t
        began_us; /* DZ_JOB_FILES: since when it waits, where an earlier job did not do; 0: now */
    bool writes;  /* DZ_JOB_FILES: the file is changed: a frozen sandbox is woken for that */
};
/* Bring it there. fn is called from the loop, after this has returned; after a refusal it is not
 * called, and *ret_job is untouched. ret_job may be NULL; it is for dz_job_forget: fn is not called
 * any more. */
int dz_job_start(struct dz_sandboxes *all, const struct dz_instance *row,
                 const struct dz_job_spec *spec, struct dz_job **ret_job, struct dz_why *why);
void dz_job_forget(struct dz_job *job);
/* May a request wake it, or use it as it is? */
int dz_job_may_wake(const struct dz_instance *row, struct dz_why *why);

#endif
