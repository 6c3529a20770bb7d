/* SPDX-License-Identifier: MIT
 *
 * lifecycle_op.h - operations: which request starts which operation, their steps, and what happens
 * to an interrupted one.
 *
 * An operation is a sequence of steps. Before a step begins, its name is written to the sandbox's
 * registry row, so after a crash the next daemon knows how far it had come. One step of each
 * operation that changes a state is the commit: before it everything can be undone, after it
 * everything must be finished. This rule alone decides recovery (dz_op_recover), and it is decided
 * here, not where the steps are carried out.
 */
#ifndef DZ_LIFECYCLE_LIFECYCLE_OP_H
#define DZ_LIFECYCLE_LIFECYCLE_OP_H

#include "lifecycle/lifecycle.h"

/* X(NAME, "name", status shown while it runs) */
#define DZ_OPS(X)                      \
    X(NONE, "", NONE)                  \
    X(ACTIVATE, "activate", RESTORING) \
    X(SUSPEND, "suspend", SUSPENDING)  \
    X(FREEZE, "freeze", FREEZING)      \
    X(PREFETCH, "prefetch", NONE)      \
    X(ARCHIVE, "archive", ARCHIVING)   \
    X(CLONE, "clone", CREATING)        \
    X(SHARE, "share", NONE)            \
    X(DELETE, "delete", DELETING)

enum dz_op {
#define X(name, text, status) DZ_OP_##name,
    DZ_OPS(X)
#undef X
    DZ_OP_COUNT,
};
const char *dz_op_name(enum dz_op op);
/* An unknown name is DZ_EINVAL: a newer doze wrote the row. */
DZ_NODISCARD int dz_op_parse(struct dz_str s, enum dz_op *ret_op, struct dz_err *err);
enum dz_status dz_op_status(enum dz_op op);

/* X(NAME, "name") */
#define DZ_STEPS(X)                                                                              \
    X(NONE, "")                                                                                  \
    X(STOP, "stop")         /* the cell commits, keeps or drops its memory, and exits */         \
    X(KILL, "kill")         /* kill the cell, whatever it does */                                \
    X(CHECKPOINT, "settle") /* checkpoint a WAL that a crash left beside the file */             \
    X(MAKE, "make")         /* make an empty disk */                                             \
    X(FETCH, "fetch")       /* make the file local: from cold storage, verified */               \
    X(START, "start")       /* start a cell that runs the file */                                \
    X(COPY, "copy")         /* copy the live file to cold storage, hashed on the way */          \
    X(COMPACT,                                                                                   \
      "compact") /* write the file without free pages, or only its files, into a scratch file */ \
    X(PACK, "pack")      /* compress the scratch file into cold storage */                       \
    X(VERIFY, "verify")  /* read it back and compare */                                          \
    X(TRANSFER, "carry") /* clone or share: copy the selected part into a new file */            \
    X(HASH, "hash")      /* hash a cold copy that was made without reading it */                 \
    X(COMMIT, "commit")  /* the row changes its state */                                         \
    X(DROP, "drop")      /* remove the files that the new state does not need */                 \
    X(ERASE, "erase")    /* replace the row by a tombstone */

enum dz_step {
#define X(name, text) DZ_STEP_##name,
    DZ_STEPS(X)
#undef X
    DZ_STEP_COUNT,
};
const char *dz_step_name(enum dz_step s);
DZ_NODISCARD int dz_step_parse(struct dz_str s, enum dz_step *ret_step, struct dz_err *err);

enum {
    DZ_OP_STEPS_MAX = 10,
};

/* The steps of an operation, in order; DZ_STEP_NONE ends them. Which of them have something to do
 * depends on the row; their order is fixed. */
const enum dz_step *dz_op_steps(enum dz_op op);
/* Must this commit be durable before the next step, because that removes something? */
bool dz_op_commit_is_durable(enum dz_op op);
/* May the operation be aborted during this step? */
bool dz_op_may_cancel(enum dz_op op, enum dz_step step);

/* What to do with an operation that was interrupted, or that failed in this step. */
enum dz_recovery {
    DZ_RECOVER_UNDO,   /* undo its steps; the state is as before */
    DZ_RECOVER_FINISH, /* continue with the step */
};
enum dz_recovery dz_op_recover(enum dz_op op, enum dz_step step);

/* The state of a row at start-up, when no cell can be running: active becomes suspended. */
enum dz_state dz_lifecycle_after_crash(enum dz_state s);

/* --- requests ------------------------------------------------------------------------ */

/* The requests on a sandbox: X(NAME, "name"). */
#define DZ_REQUESTS(X)                                                      \
    X(USE, "use")   /* any call that needs the machine: an implicit wake */ \
    X(WAKE, "wake") /* an explicit one */                                   \
    X(SUSPEND, "suspend")                                                   \
    X(FREEZE, "freeze")                                                     \
    X(PREFETCH, "prefetch")                                                 \
    X(ARCHIVE, "archive")                                                   \
    X(REVIVE, "revive")                                                     \
    X(CLONE, "clone")                                                       \
    X(SHARE, "share")                                                       \
    X(FILES, "files") /* use its file while nothing else does */            \
    X(DELETE, "delete")                                                     \
    X(DESTROY, "destroy") /* delete by force, by the path of transitions */ \
    X(CRASHED, "crashed") /* its cell died */

enum dz_request {
#define X(name, text) DZ_REQUEST_##name,
    DZ_REQUESTS(X)
#undef X
    DZ_REQUEST_COUNT,
};
const char *dz_request_name(enum dz_request r);

enum dz_answer {
    DZ_ANSWER_RUN,     /* start op */
    DZ_ANSWER_NOTHING, /* nothing to do: success at once */
    DZ_ANSWER_REFUSE,  /* with code */
};
struct dz_verdict {
    enum dz_answer answer;
    enum dz_op op; /* of RUN */
    int code;      /* of REFUSE: DZ_ESTATE, DZ_EUNAVAIL, DZ_EGONE */
};
/* What a request does in a state without an operation in progress. The sentence of a refusal goes
 * to err. */
struct dz_verdict dz_lifecycle_request(enum dz_state state, enum dz_request request,
                                       struct dz_err *err);

/* What a request does while an operation runs. */
enum dz_conflict {
    DZ_CONFLICT_COALESCE, /* coalesce: the same operation is running; share its outcome */
    DZ_CONFLICT_QUEUE,    /* queue: wait until the operation ends */
    DZ_CONFLICT_REJECT,   /* reject at once with *ret_code: DZ_ERESTORING, DZ_EGONE */
};
enum dz_conflict dz_lifecycle_conflict(enum dz_op running, enum dz_request request, int *ret_code);

#endif
