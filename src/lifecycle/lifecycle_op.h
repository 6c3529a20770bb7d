/* SPDX-License-Identifier: MIT
 *
 * lifecycle_op.h - operations: which request starts which, of which steps each
 * is made, and what becomes of one that was cut short.
 *
 * An operation is a row of steps. Before a step begins, its name stands in the
 * sandbox's registry row; so whoever starts after a crash reads how far it had
 * come. One step of each operation that changes a state is the commit: before
 * it everything can be taken back, after it everything must be finished. That
 * alone decides recovery (dz_op_recover), and it is decided here, not where the
 * steps are carried out.
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
#define DZ_STEPS(X)                                                                                \
    X(NONE, "")                                                                                    \
    X(STOP, "stop")     /* the cell commits, keeps or drops its memory, and is gone */             \
    X(KILL, "kill")     /* the cell is gone, whatever it was doing */                              \
    X(SETTLE, "settle") /* a log that a crash left beside the file is moved into it */             \
    X(MAKE, "make")     /* an empty disk */                                                        \
    X(FETCH, "fetch")   /* the file is local: from cold storage, verified */                       \
    X(START, "start")   /* a cell runs the file */                                                 \
    X(COPY, "copy")     /* live file to cold storage, hashed on the way */                         \
    X(COMPACT,                                                                                     \
      "compact")        /* the file without free pages, or its files alone, into a scratch file */ \
    X(PACK, "pack")     /* scratch file to cold storage, compressed */                             \
    X(VERIFY, "verify") /* read that back and compare */                                           \
    X(CARRY, "carry")   /* clone or share: the part that is carried, into a new file */            \
    X(HASH, "hash")     /* of a cold copy that was made without reading it */                      \
    X(COMMIT, "commit") /* the row changes its state */                                            \
    X(DROP, "drop")     /* remove the files that the new state has no use for */                   \
    X(ERASE, "erase")   /* the row goes, a tombstone stays */

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

/* The steps of an operation, in order; DZ_STEP_NONE ends them. Which of them
 * have something to do depends on the row; none may be taken out of turn. */
const enum dz_step *dz_op_steps(enum dz_op op);
/* Must this commit be on the disk before the next step (because that removes
 * something)? */
bool dz_op_commit_is_durable(enum dz_op op);
/* May the operation be called off during this step? */
bool dz_op_may_cancel(enum dz_op op, enum dz_step step);

/* What to do with an operation that the process did not finish, or that failed
 * in this step. */
enum dz_recovery {
    DZ_RECOVER_UNDO,   /* take back what its steps did; the state is as before */
    DZ_RECOVER_FINISH, /* go on with the step */
};
enum dz_recovery dz_op_recover(enum dz_op op, enum dz_step step);

/* The state of a row found at start-up, when no cell can be running: what was
 * active sleeps. */
enum dz_state dz_lifecycle_settled(enum dz_state s);

/* --- requests ------------------------------------------------------------------------ */

/* What may be asked of a sandbox: X(NAME, "name"). */
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
    X(FILES, "files") /* its file, while nothing else uses it */            \
    X(DELETE, "delete")                                                     \
    X(DESTROY, "destroy") /* delete by force: walks the map */              \
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
    DZ_ANSWER_NOTHING, /* it is so already, or there is nothing to do: success at once */
    DZ_ANSWER_REFUSE,  /* with code */
};
struct dz_verdict {
    enum dz_answer answer;
    enum dz_op op; /* of RUN */
    int code;      /* of REFUSE: DZ_ESTATE, DZ_EUNAVAIL, DZ_EGONE */
};
/* What a request does to a sandbox in a state with no operation under way. The
 * sentence of a refusal goes to err. */
struct dz_verdict dz_lifecycle_request(enum dz_state state, enum dz_request request,
                                       struct dz_err *err);

/* What a request does while an operation runs. */
enum dz_meeting {
    DZ_MEET_JOIN,   /* it is what is being done: share the outcome */
    DZ_MEET_WAIT,   /* its turn comes after */
    DZ_MEET_REFUSE, /* at once, with *ret_code: DZ_ERESTORING, DZ_EGONE */
};
enum dz_meeting dz_lifecycle_meet(enum dz_op running, enum dz_request request, int *ret_code);

#endif
