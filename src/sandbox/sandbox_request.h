/* SPDX-License-Identifier: MIT
 *
 * sandbox_request.h - requests on a sandbox, and changes of its row.
 */
#ifndef DZ_SANDBOX_SANDBOX_REQUEST_H
#define DZ_SANDBOX_SANDBOX_REQUEST_H

#include "blob/blob_cold.h"
#include "lifecycle/lifecycle_op.h"
#include "sandbox/sandbox_why.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_sandboxes;

/* Default deadline of a request, and minimum deadline of an operation. */
#define DZ_SANDBOX_DEADLINE_MS ((int64_t)10 * 60 * 1000)

/* Register a sandbox in the state created; `id`, `tenant` and other known columns from *row,
 * defaults for the rest. Its file need not exist yet; if it is in the live directory, the first
 * wake uses it. */
DZ_NODISCARD int dz_sandbox_register(struct dz_sandboxes *all, const struct dz_instance *row,
                                     struct dz_err *err);
/* The same while the file, which is complete, is still on its way to the disk. The row is marked as
 * that of a clone that is being made, so recovery removes the row and the file if the host dies
 * before the sandbox has been woken. It may be woken at once, and its cell starts beside the sync;
 * but nothing that the cell says is read, and so no request is answered, before
 * dz_sandbox_file_synced(). If the sync fails, destroy the sandbox instead. */
DZ_NODISCARD int dz_sandbox_register_unsynced(struct dz_sandboxes *all,
                                              const struct dz_instance *row, struct dz_err *err);
void dz_sandbox_file_synced(struct dz_sandboxes *all, const char *id);

struct dz_sandbox_timing {
    const char *id;        /* id of the sandbox */
    const char *operation; /* name as in rows: "activate", "suspend", "freeze" */
    enum dz_rung rung;     /* for activate */
    int code;              /* 0 or DZ_E* */
    int64_t us;            /* duration, without the time in the queue */
};

struct dz_sandbox_reply {
    int code; /* 0 or DZ_E* */
    struct dz_err err;
    const struct dz_instance *row; /* the row as it is now; NULL: there is none */
    enum dz_rung rung;             /* for USE, WAKE and REVIVE */
    bool memory_lost;
    /* FILES: reserved means that the sandbox sleeps, and that all other requests for it wait until
     * dz_sandbox_unreserve. shared means that an earlier FILES has reserved it already. Neither: it
     * is active. */
    bool reserved, shared;
};

struct dz_sandbox_request {
    enum dz_request what;
    const char *id;
    const char *keep; /* SUSPEND: "memory" or "files"; NULL: as the row says. ARCHIVE: "files" drops
                         machine, memory and records; NULL: as "memory", but a running machine is
                         suspended as the row says. WAKE: "files" drops the memory if this request
                         starts the wake; NULL: as "memory" */
    bool may_resume; /* SUSPEND: no client wants it suspended, so a runnable guest is woken again as
                        soon as possible */
    int64_t deadline_ms;             /* deadline of this request; 0: DZ_SANDBOX_DEADLINE_MS */
    const struct dz_instance *clone; /* CLONE: id, tenant, name and owner of the new sandbox */
    struct dz_blobs *share_store;    /* SHARE: destination of the public file */
    const char *share_key;
    /* called exactly once; may be NULL */
    void (*done)(void *arg, const struct dz_sandbox_reply *result);
    void *arg;
};
/* Submit a request. Negative: refused, and done is not called. 0: the loop calls done with the
 * outcome, never before this returns. *ret_ticket (may be NULL) is for dz_sandbox_cancel; it is 0
 * after a refusal. */
DZ_NODISCARD int dz_sandbox_submit(struct dz_sandboxes *all,
                                   const struct dz_sandbox_request *request, uint64_t *ret_ticket,
                                   struct dz_err *err);
/* Cancel a request: done is called soon with DZ_ECANCELED, unless its answer is already posted. An
 * operation that no request waits for is canceled, too, where that is still possible. */
void dz_sandbox_cancel(struct dz_sandboxes *all, uint64_t ticket);
/* Cancel a request only if it is still queued. False: its operation is in progress, or it has
 * ended. */
bool dz_sandbox_leave_line(struct dz_sandboxes *all, uint64_t ticket);
/* Cancel the operation in progress on this sandbox; its waiters get DZ_ECANCELED. DZ_ESTATE: there
 * is none, or it cannot be canceled any more. */
DZ_NODISCARD int dz_sandbox_abort(struct dz_sandboxes *all, const char *id, struct dz_err *err);

/* Give back what a FILES request has reserved. The queued requests have their turn soon. */
void dz_sandbox_unreserve(struct dz_sandboxes *all, const char *id);
/* How many requests share the outcome of the operation in progress? */
size_t dz_sandbox_waiters(const struct dz_sandboxes *all, const char *id);
/* Is a request queued for this sandbox? */
bool dz_sandbox_awaited(const struct dz_sandboxes *all, const char *id);

/* --- rows -------------------------------------------------------------------------------- */

/* A change of a row that is not an operation: of its name, its labels, its idle settings. fill
 * computes the change from the present row; it is called again if others have changed the row
 * meanwhile. The due time is recomputed. */
struct dz_sandbox_update {
    const char *id;
    /* to and *set are as in struct dz_registry_change; texts in `to` must stay valid until the next
     * call of fill, or the end of dz_sandbox_update. *set of 0: change nothing. */
    int (*fill)(void *arg, const struct dz_instance *row, struct dz_instance *to, uint64_t *set,
                struct dz_err *err);
    void *arg;
    const char *event, *detail; /* NULL: no event */
};
/* Returns 0, or the error of fill or of the registry. *ret_row (may be NULL) is the row after the
 * change; the caller releases it. */
DZ_NODISCARD int dz_sandbox_update(struct dz_sandboxes *all, const struct dz_sandbox_update *update,
                                   struct dz_instance *ret_row, struct dz_err *err);

#endif
