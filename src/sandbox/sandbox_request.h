/* SPDX-License-Identifier: MIT
 *
 * sandbox_request.h - what may be asked of a sandbox, and of its row.
 */
#ifndef DZ_SANDBOX_SANDBOX_REQUEST_H
#define DZ_SANDBOX_SANDBOX_REQUEST_H

#include "blob/blob_cold.h"
#include "lifecycle/lifecycle_op.h"
#include "sandbox/sandbox_why.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_sandboxes;

/* Of a request, by default; of an operation, unless who started it gives it longer. */
#define DZ_SANDBOX_DEADLINE_MS ((int64_t)10 * 60 * 1000)

/* Enter a sandbox: state created; `id`, `tenant` and what is known of it from *row,
 * defaults for the rest. Its file need not exist yet; if it lies in the live
 * directory, the first wake takes it. */
DZ_NODISCARD int dz_sandbox_register(struct dz_sandboxes *all, const struct dz_instance *row,
                                     struct dz_err *err);

struct dz_sandbox_timing {
    const char *id;        /* of the sandbox */
    const char *operation; /* as in rows: "activate", "suspend", "freeze" */
    enum dz_rung rung;     /* of activate */
    int code;              /* 0 or DZ_E* */
    int64_t us;            /* from its begin, time in line apart */
};

struct dz_sandbox_reply {
    int code; /* 0 or DZ_E* */
    struct dz_err err;
    const struct dz_instance *row; /* as it is now; NULL: there is none */
    enum dz_rung rung;             /* of USE, WAKE, REVIVE */
    bool memory_lost;
    /* Of FILES: the sandbox sleeps, and all other requests for it wait in line until
     * dz_sandbox_unreserve. Or: it is so already, for an earlier FILES. Or neither: it is awake. */
    bool reserved, shared;
};

struct dz_sandbox_request {
    enum dz_request what;
    const char *id;
    const char *keep;                /* SUSPEND: "memory", "files"; NULL: as its row says. ARCHIVE:
                                      * "files" drops machine, memory and records; NULL: as "memory",
                                      * but a running machine is put to sleep as its row says.
                                      * WAKE: "files" drops the memory, if this request begins
                                      * the wake; NULL: as "memory" */
    bool may_resume;                 /* SUSPEND: nobody wants it to sleep; a guest that has
                                      * something to compute is woken for that as soon as can be */
    int64_t deadline_ms;             /* of this request; 0: DZ_SANDBOX_DEADLINE_MS */
    const struct dz_instance *clone; /* CLONE: id, tenant, name, owner of the new sandbox */
    struct dz_blobs *share_store;    /* SHARE: where the public file goes */
    const char *share_key;
    void (*done)(void *arg, const struct dz_sandbox_reply *result); /* exactly once */
    void *arg;
};
/* Ask. Negative: refused, done is not called. 0: the loop calls done with the outcome, never
 * before this returns. *ret_ticket (may be NULL) is for dz_sandbox_cancel; 0 after a refusal. */
DZ_NODISCARD int dz_sandbox_submit(struct dz_sandboxes *all,
                                   const struct dz_sandbox_request *request, uint64_t *ret_ticket,
                                   struct dz_err *err);
/* The asker does not want it any more: done is called with DZ_ECANCELED soon, unless it is to be
 * called with an outcome already. An operation that nobody waits for is called off where that is
 * still possible. */
void dz_sandbox_cancel(struct dz_sandboxes *all, uint64_t ticket);
/* The same, if it stands in line still. False: what it asked for is under way, or over. */
bool dz_sandbox_leave_line(struct dz_sandboxes *all, uint64_t ticket);
/* Call off what is under way with this sandbox; whoever waits for it gets
 * DZ_ECANCELED. DZ_ESTATE: nothing is, or it cannot be called off any more. */
DZ_NODISCARD int dz_sandbox_abort(struct dz_sandboxes *all, const char *id, struct dz_err *err);

/* The end of what a request FILES reserved. Those in line have their turn soon. */
void dz_sandbox_unreserve(struct dz_sandboxes *all, const char *id);
/* How many requests wait for the end of what is under way? */
size_t dz_sandbox_waiters(const struct dz_sandboxes *all, const char *id);
/* Does a request wait in line for this sandbox? */
bool dz_sandbox_awaited(const struct dz_sandboxes *all, const char *id);

/* --- rows ------------------------------------------------------------------------ */

/* A change of a row that is no operation: of its name, its labels, how it counts idleness. fill
 * says what it is, by the row as it is now; it is asked again where somebody else was faster. When
 * the row is due follows from the change. */
struct dz_sandbox_update {
    const char *id;
    /* to and *set as of struct dz_registry_change; what `to` points to stays until the next call
     * of fill, or the end of dz_sandbox_update. A set of 0: nothing is to be changed. */
    int (*fill)(void *arg, const struct dz_instance *row, struct dz_instance *to, uint64_t *set,
                struct dz_err *err);
    void *arg;
    const char *event, *detail; /* NULL: none */
};
/* 0, an error of fill or of the registry. *ret_row (NULL: not wanted), the caller's to release, is
 * the row as it is then. */
DZ_NODISCARD int dz_sandbox_update(struct dz_sandboxes *all, const struct dz_sandbox_update *update,
                                   struct dz_instance *ret_row, struct dz_err *err);

#endif
