/* SPDX-License-Identifier: MIT
 *
 * lifecycle_op.c - operations and requests, as tables.
 */
#include "lifecycle/lifecycle_op.h"

#include <assert.h>

/* --- names ------------------------------------------------------------------------ */

static const char *const op_names[DZ_OP_COUNT] = {
#define X(name, text, status) text,
    DZ_OPS(X)
#undef X
};
static const enum dz_status op_status[DZ_OP_COUNT] = {
#define X(name, text, status) DZ_STATUS_##status,
    DZ_OPS(X)
#undef X
};
static const char *const step_names[DZ_STEP_COUNT] = {
#define X(name, text) text,
    DZ_STEPS(X)
#undef X
};
static const char *const request_names[DZ_REQUEST_COUNT] = {
#define X(name, text) text,
    DZ_REQUESTS(X)
#undef X
};

static int find_name(struct dz_str s, const char *const *names, int count, const char *what,
                     struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    for (int i = 0; i < count; i++)
        if (dz_str_eqz(s, names[i]))
            return i;
    return dz_fail(err, DZ_EINVAL,
                   "%s is not a known %s; a newer doze may have written the registry row",
                   dz_str_quote(s, quoted), what);
}

const char *dz_op_name(enum dz_op op)
{
    assert(op < DZ_OP_COUNT);
    return op_names[op];
}

int dz_op_parse(struct dz_str s, enum dz_op *ret_op, struct dz_err *err)
{
    int i = find_name(s, op_names, DZ_OP_COUNT, "operation", err);
    if (i < 0)
        return i;
    *ret_op = (enum dz_op)i;
    return 0;
}

enum dz_status dz_op_status(enum dz_op op)
{
    assert(op < DZ_OP_COUNT);
    return op_status[op];
}

const char *dz_step_name(enum dz_step s)
{
    assert(s < DZ_STEP_COUNT);
    return step_names[s];
}

int dz_step_parse(struct dz_str s, enum dz_step *ret_step, struct dz_err *err)
{
    int i = find_name(s, step_names, DZ_STEP_COUNT, "step", err);
    if (i < 0)
        return i;
    *ret_step = (enum dz_step)i;
    return 0;
}

const char *dz_request_name(enum dz_request r)
{
    assert(r < DZ_REQUEST_COUNT);
    return request_names[r];
}

/* --- steps ------------------------------------------------------------------------ */

#define S(name) DZ_STEP_##name

static const struct {
    enum dz_step steps[DZ_OP_STEPS_MAX];
    bool durable;    /* its commit is durable */
    unsigned cancel; /* bits of the steps during which it may be aborted */
} ops[DZ_OP_COUNT] = {
    [DZ_OP_ACTIVATE] = {.steps = {S(FETCH), S(MAKE), S(START), S(COMMIT), S(DROP)},
                        .durable = true,
                        .cancel = 1u << S(FETCH)},
    [DZ_OP_SUSPEND] = {.steps = {S(STOP), S(COMMIT)}},
    [DZ_OP_FREEZE] = {.steps = {S(CHECKPOINT), S(COPY), S(COMMIT), S(DROP), S(HASH)},
                      .durable = true,
                      .cancel = 1u << S(COPY) | 1u << S(HASH)},
    [DZ_OP_PREFETCH] = {.steps = {S(FETCH)}, .cancel = 1u << S(FETCH)},
    [DZ_OP_ARCHIVE] = {.steps = {S(STOP), S(CHECKPOINT), S(FETCH), S(COMPACT), S(PACK), S(VERIFY),
                                 S(COMMIT), S(DROP)},
                       .durable = true,
                       .cancel =
                           1u << S(FETCH) | 1u << S(COMPACT) | 1u << S(PACK) | 1u << S(VERIFY)},
    [DZ_OP_CLONE] = {.steps = {S(CHECKPOINT), S(FETCH), S(TRANSFER), S(COMMIT)},
                     .cancel = 1u << S(FETCH) | 1u << S(TRANSFER)},
    [DZ_OP_SHARE] = {.steps = {S(CHECKPOINT), S(FETCH), S(TRANSFER)},
                     .cancel = 1u << S(FETCH) | 1u << S(TRANSFER)},
    [DZ_OP_DELETE] = {.steps = {S(KILL), S(COMMIT), S(DROP), S(ERASE)}, .durable = true},
};

#undef S

const enum dz_step *dz_op_steps(enum dz_op op)
{
    assert(op < DZ_OP_COUNT);
    return ops[op].steps;
}

bool dz_op_commit_is_durable(enum dz_op op)
{
    assert(op < DZ_OP_COUNT);
    return ops[op].durable;
}

bool dz_op_may_cancel(enum dz_op op, enum dz_step step)
{
    assert(op < DZ_OP_COUNT && step < DZ_STEP_COUNT);
    return (ops[op].cancel & 1u << step) != 0;
}

/* The commit writes the name of the step that follows it (or none) in the same transaction as the
 * new state, so a row has the step COMMIT only if nothing was committed. */
enum dz_recovery dz_op_recover(enum dz_op op, enum dz_step step)
{
    assert(op < DZ_OP_COUNT && step < DZ_STEP_COUNT);
    bool committed = false;
    if (op == DZ_OP_DELETE && step == DZ_STEP_COMMIT)
        return DZ_RECOVER_FINISH; /* a deletion may take several transitions: once begun, it is
                                     finished */
    for (const enum dz_step *s = ops[op].steps; *s != DZ_STEP_NONE; s++) {
        if (*s == step)
            return committed ? DZ_RECOVER_FINISH : DZ_RECOVER_UNDO;
        committed = committed || *s == DZ_STEP_COMMIT;
    }
    return DZ_RECOVER_UNDO;
}

enum dz_state dz_lifecycle_after_crash(enum dz_state s)
{
    return s == DZ_STATE_ACTIVE ? DZ_STATE_SUSPENDED : s;
}

/* --- requests ---------------------------------------------------------------------- */

/* An entry of the table: an operation, nothing, or a refusal. */
#define RUN(name) {DZ_ANSWER_RUN, DZ_OP_##name, 0}
#define NOTHING   {DZ_ANSWER_NOTHING, DZ_OP_NONE, 0}
#define NO(name)  {DZ_ANSWER_REFUSE, DZ_OP_NONE, DZ_E##name}
#define GONE      NO(GONE)

/* In the order of DZ_STATES: created, active, suspended, frozen, archived, deleted. */
static const struct dz_verdict verdicts[DZ_REQUEST_COUNT][DZ_STATE_COUNT] = {
    [DZ_REQUEST_USE] = {RUN(ACTIVATE), NOTHING, RUN(ACTIVATE), RUN(ACTIVATE), NO(UNAVAIL), GONE},
    [DZ_REQUEST_WAKE] = {RUN(ACTIVATE), NOTHING, RUN(ACTIVATE), RUN(ACTIVATE), RUN(ACTIVATE), GONE},
    [DZ_REQUEST_SUSPEND] = {NO(STATE), RUN(SUSPEND), NO(STATE), NO(STATE), NO(STATE), GONE},
    [DZ_REQUEST_FREEZE] = {NO(STATE), NO(STATE), RUN(FREEZE), NO(STATE), NO(STATE), GONE},
    [DZ_REQUEST_PREFETCH] = {NOTHING, NOTHING, NOTHING, RUN(PREFETCH), NO(UNAVAIL), GONE},
    [DZ_REQUEST_ARCHIVE] = {NO(STATE), RUN(ARCHIVE), NO(STATE), RUN(ARCHIVE), NO(STATE), GONE},
    [DZ_REQUEST_REVIVE] = {NO(STATE), NO(STATE), NO(STATE), NO(STATE), RUN(ACTIVATE), GONE},
    [DZ_REQUEST_CLONE] = {RUN(CLONE), NO(STATE), RUN(CLONE), RUN(CLONE), NO(UNAVAIL), GONE},
    [DZ_REQUEST_SHARE] = {RUN(SHARE), NO(STATE), RUN(SHARE), RUN(SHARE), NO(UNAVAIL), GONE},
    [DZ_REQUEST_FILES] = {NOTHING, NOTHING, NOTHING, NOTHING, NO(UNAVAIL), GONE},
    [DZ_REQUEST_DELETE] = {NO(STATE), NO(STATE), NO(STATE), NO(STATE), RUN(DELETE), GONE},
    [DZ_REQUEST_DESTROY] = {RUN(DELETE), RUN(DELETE), RUN(DELETE), RUN(DELETE), RUN(DELETE), GONE},
    [DZ_REQUEST_CRASHED] = {NOTHING, RUN(SUSPEND), NOTHING, NOTHING, NOTHING, NOTHING},
};

/* The target state of each request, named in the refusal message. */
static const enum dz_state wanted[DZ_REQUEST_COUNT] = {
    [DZ_REQUEST_USE] = DZ_STATE_ACTIVE,        [DZ_REQUEST_WAKE] = DZ_STATE_ACTIVE,
    [DZ_REQUEST_SUSPEND] = DZ_STATE_SUSPENDED, [DZ_REQUEST_FREEZE] = DZ_STATE_FROZEN,
    [DZ_REQUEST_PREFETCH] = DZ_STATE_NONE,     [DZ_REQUEST_ARCHIVE] = DZ_STATE_ARCHIVED,
    [DZ_REQUEST_REVIVE] = DZ_STATE_NONE,       [DZ_REQUEST_CLONE] = DZ_STATE_NONE,
    [DZ_REQUEST_SHARE] = DZ_STATE_NONE,        [DZ_REQUEST_DELETE] = DZ_STATE_DELETED,
    [DZ_REQUEST_DESTROY] = DZ_STATE_DELETED,   [DZ_REQUEST_CRASHED] = DZ_STATE_NONE,
    [DZ_REQUEST_FILES] = DZ_STATE_NONE,
};

static void refuse(enum dz_state state, enum dz_request request, int code, struct dz_err *err)
{
    const char *name = request_names[request];
    if (code == DZ_EGONE) {
        (void)dz_fail(err, code, "%s: the sandbox was deleted", name);
    } else if (code == DZ_EUNAVAIL) {
        (void)dz_fail(err, code, "%s: the sandbox is archived; revive it first", name);
    } else if (request == DZ_REQUEST_CLONE || request == DZ_REQUEST_SHARE) {
        (void)dz_fail(
            err, code,
            "%s: the file must not be in use, and this sandbox is %s; suspend it, or take "
            "a snapshot and use that",
            name, dz_state_name(state));
    } else if (request == DZ_REQUEST_REVIVE) {
        (void)dz_fail(err, code, "only an archived sandbox can be revived, and this one is %s",
                      dz_state_name(state));
    } else {
        int rc = dz_lifecycle_next(state, wanted[request], err);
        assert(rc == DZ_ESTATE);
        (void)rc;
    }
}

struct dz_verdict dz_lifecycle_request(enum dz_state state, enum dz_request request,
                                       struct dz_err *err)
{
    assert(state < DZ_STATE_COUNT && request < DZ_REQUEST_COUNT);
    struct dz_verdict v = verdicts[request][state];
    if (v.answer == DZ_ANSWER_REFUSE)
        refuse(state, request, v.code, err);
    return v;
}

/* --- meetings ----------------------------------------------------------------------- */

enum dz_conflict dz_lifecycle_conflict(enum dz_op running, enum dz_request request, int *ret_code)
{
    assert(running != DZ_OP_NONE && running < DZ_OP_COUNT && request < DZ_REQUEST_COUNT);
    if (running == DZ_OP_DELETE) {
        if (request == DZ_REQUEST_DELETE || request == DZ_REQUEST_DESTROY)
            return DZ_CONFLICT_COALESCE;
        *ret_code = DZ_EGONE;
        return DZ_CONFLICT_REJECT;
    }
    if (running == DZ_OP_ACTIVATE) {
        if (request == DZ_REQUEST_USE)
            return DZ_CONFLICT_COALESCE;
        if (request == DZ_REQUEST_WAKE || request == DZ_REQUEST_REVIVE) {
            *ret_code = DZ_ERESTORING;
            return DZ_CONFLICT_REJECT;
        }
        return DZ_CONFLICT_QUEUE;
    }
    /* Clones and shares differ in their targets, so each runs on its own. */
    if (running == DZ_OP_CLONE || running == DZ_OP_SHARE)
        return DZ_CONFLICT_QUEUE;
    for (unsigned s = 0; s < DZ_STATE_COUNT; s++)
        if (verdicts[request][s].answer == DZ_ANSWER_RUN && verdicts[request][s].op == running &&
            request != DZ_REQUEST_CRASHED)
            return DZ_CONFLICT_COALESCE;
    return DZ_CONFLICT_QUEUE;
}
