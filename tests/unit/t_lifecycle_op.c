/* SPDX-License-Identifier: MIT
 *
 * Every state × request, every operation × request, every operation × step.
 */
#include "lifecycle/lifecycle_op.h"
#include "tap.h"

/* One letter for each cell, by hand: A activate, S suspend, F freeze, P prefetch,
 * R archive, C clone, H share, D delete, . nothing; e DZ_ESTATE,
 * u DZ_EUNAVAIL, g DZ_EGONE. Columns: created active suspended frozen archived deleted. */
static const char *const expected[DZ_REQUEST_COUNT] = {
    [DZ_REQUEST_USE] = "A.AAug",      [DZ_REQUEST_WAKE] = "A.AAAg",
    [DZ_REQUEST_SUSPEND] = "eSeeeg",  [DZ_REQUEST_FREEZE] = "eeFeeg",
    [DZ_REQUEST_PREFETCH] = "...Pug", [DZ_REQUEST_ARCHIVE] = "eReReg",
    [DZ_REQUEST_REVIVE] = "eeeeAg",   [DZ_REQUEST_CLONE] = "CeCCug",
    [DZ_REQUEST_SHARE] = "HeHHug",    [DZ_REQUEST_DELETE] = "eeeeDg",
    [DZ_REQUEST_DESTROY] = "DDDDDg",  [DZ_REQUEST_CRASHED] = ".S....",
    [DZ_REQUEST_FILES] = "....ug",
};
static const char op_letters[DZ_OP_COUNT] = {
    [DZ_OP_NONE] = '.',   [DZ_OP_ACTIVATE] = 'A', [DZ_OP_SUSPEND] = 'S',
    [DZ_OP_FREEZE] = 'F', [DZ_OP_PREFETCH] = 'P', [DZ_OP_ARCHIVE] = 'R',
    [DZ_OP_CLONE] = 'C',  [DZ_OP_SHARE] = 'H',    [DZ_OP_DELETE] = 'D',
};

static char letter(struct dz_verdict v)
{
    if (v.answer == DZ_ANSWER_RUN)
        return op_letters[v.op];
    if (v.answer == DZ_ANSWER_NOTHING)
        return '.';
    return v.code == DZ_ESTATE ? 'e' : v.code == DZ_EUNAVAIL ? 'u' : v.code == DZ_EGONE ? 'g' : '?';
}

TEST(each_state_answers_each_request)
{
    for (int r = 0; r < DZ_REQUEST_COUNT; r++)
        for (int s = 0; s < DZ_STATE_COUNT; s++) {
            struct dz_err err = {0};
            struct dz_verdict v = dz_lifecycle_request((enum dz_state)s, (enum dz_request)r, &err);
            CHECK_INT(letter(v), expected[r][s]);
            CHECK_INT(err.code, v.answer == DZ_ANSWER_REFUSE ? v.code : 0);
            CHECK((v.answer == DZ_ANSWER_REFUSE) == (err.msg[0] != '\0'));
            if (v.code == DZ_ESTATE)
                CHECK(strstr(err.msg, dz_state_name((enum dz_state)s)));
        }
}

/* The state that an operation's commit leads to, NONE for those without. */
static enum dz_state target(enum dz_op op)
{
    switch (op) {
    case DZ_OP_ACTIVATE:
        return DZ_STATE_ACTIVE;
    case DZ_OP_SUSPEND:
        return DZ_STATE_SUSPENDED;
    case DZ_OP_FREEZE:
        return DZ_STATE_FROZEN;
    case DZ_OP_ARCHIVE:
        return DZ_STATE_ARCHIVED;
    case DZ_OP_DELETE:
        return DZ_STATE_DELETED;
    case DZ_OP_NONE:
    case DZ_OP_PREFETCH:
    case DZ_OP_CLONE:
    case DZ_OP_SHARE:
    case DZ_OP_COUNT:
        break;
    }
    return DZ_STATE_NONE;
}

TEST(no_operation_starts_that_the_map_forbids)
{
    enum dz_state path[DZ_STATE_COUNT];
    for (int r = 0; r < DZ_REQUEST_COUNT; r++)
        for (int s = 0; s < DZ_STATE_COUNT; s++) {
            struct dz_verdict v = dz_lifecycle_request((enum dz_state)s, (enum dz_request)r, NULL);
            if (v.answer != DZ_ANSWER_RUN || target(v.op) == DZ_STATE_NONE)
                continue;
            int hops = dz_lifecycle_path((enum dz_state)s, target(v.op), path, NULL);
            CHECK(r == DZ_REQUEST_DESTROY ? hops >= 1 : hops == 1);
        }
}

TEST(wakes_meet_as_they_should)
{
    int code = 0;
    CHECK_INT(dz_lifecycle_conflict(DZ_OP_ACTIVATE, DZ_REQUEST_USE, &code), DZ_CONFLICT_COALESCE);
    CHECK_INT(dz_lifecycle_conflict(DZ_OP_ACTIVATE, DZ_REQUEST_WAKE, &code), DZ_CONFLICT_REJECT);
    CHECK_INT(code, DZ_ERESTORING);
    code = 0;
    CHECK_INT(dz_lifecycle_conflict(DZ_OP_ACTIVATE, DZ_REQUEST_REVIVE, &code), DZ_CONFLICT_REJECT);
    CHECK_INT(code, DZ_ERESTORING);
    for (int op = DZ_OP_SUSPEND; op < DZ_OP_DELETE; op++) {
        CHECK_INT(dz_lifecycle_conflict((enum dz_op)op, DZ_REQUEST_USE, &code), DZ_CONFLICT_QUEUE);
        CHECK_INT(dz_lifecycle_conflict((enum dz_op)op, DZ_REQUEST_WAKE, &code), DZ_CONFLICT_QUEUE);
        CHECK_INT(dz_lifecycle_conflict((enum dz_op)op, DZ_REQUEST_DESTROY, &code),
                  DZ_CONFLICT_QUEUE);
    }
    CHECK_INT(dz_lifecycle_conflict(DZ_OP_FREEZE, DZ_REQUEST_FREEZE, &code), DZ_CONFLICT_COALESCE);
    CHECK_INT(dz_lifecycle_conflict(DZ_OP_SUSPEND, DZ_REQUEST_SUSPEND, &code),
              DZ_CONFLICT_COALESCE);
    CHECK_INT(dz_lifecycle_conflict(DZ_OP_SUSPEND, DZ_REQUEST_CRASHED, &code), DZ_CONFLICT_QUEUE);
    CHECK_INT(dz_lifecycle_conflict(DZ_OP_CLONE, DZ_REQUEST_CLONE, &code), DZ_CONFLICT_QUEUE);
    CHECK_INT(dz_lifecycle_conflict(DZ_OP_FREEZE, DZ_REQUEST_SUSPEND, &code), DZ_CONFLICT_QUEUE);
}

TEST(what_is_being_deleted_takes_nothing_more)
{
    for (int r = 0; r < DZ_REQUEST_COUNT; r++) {
        int code = 0;
        enum dz_conflict m = dz_lifecycle_conflict(DZ_OP_DELETE, (enum dz_request)r, &code);
        bool same = r == DZ_REQUEST_DELETE || r == DZ_REQUEST_DESTROY;
        CHECK_INT(m, same ? DZ_CONFLICT_COALESCE : DZ_CONFLICT_REJECT);
        CHECK_INT(code, same ? 0 : DZ_EGONE);
    }
}

/* Before the commit: undo. After: finish. And nothing that removes may come
 * after a commit that is not durable. */
TEST(each_step_of_each_operation_has_its_recovery)
{
    for (int op = 0; op < DZ_OP_COUNT; op++) {
        const enum dz_step *steps = dz_op_steps((enum dz_op)op);
        bool committed = false;
        int n = 0;
        for (; steps[n] != DZ_STEP_NONE; n++) {
            CHECK(n < DZ_OP_STEPS_MAX - 1);
            bool hops = op == DZ_OP_DELETE && steps[n] == DZ_STEP_COMMIT;
            CHECK_INT(dz_op_recover((enum dz_op)op, steps[n]),
                      committed || hops ? DZ_RECOVER_FINISH : DZ_RECOVER_UNDO);
            if (committed) {
                CHECK(dz_op_commit_is_durable((enum dz_op)op));
                /* what comes after the files is a hash, which may stay away */
                CHECK(!dz_op_may_cancel((enum dz_op)op, steps[n]) || steps[n] == DZ_STEP_HASH);
            }
            committed = committed || steps[n] == DZ_STEP_COMMIT;
        }
        CHECK((n > 0) == (op != DZ_OP_NONE));
        CHECK_INT(dz_op_recover((enum dz_op)op, DZ_STEP_NONE), DZ_RECOVER_UNDO);
    }
}

TEST(operations_and_steps_read_back)
{
    enum dz_op op;
    enum dz_step step;
    struct dz_err err;
    for (int i = 0; i < DZ_OP_COUNT; i++) {
        CHECK_INT(dz_op_parse(dz_str(dz_op_name((enum dz_op)i)), &op, NULL), 0);
        CHECK_INT(op, i);
        (void)dz_op_status(op);
    }
    for (int i = 0; i < DZ_STEP_COUNT; i++) {
        CHECK_INT(dz_step_parse(dz_str(dz_step_name((enum dz_step)i)), &step, NULL), 0);
        CHECK_INT(step, i);
    }
    CHECK_INT(dz_op_parse(DZ_STR("teleport"), &op, &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "newer"));
    CHECK_INT(dz_step_parse(DZ_STR("jump"), &step, NULL), DZ_EINVAL);
    for (int i = 0; i < DZ_REQUEST_COUNT; i++)
        CHECK(dz_request_name((enum dz_request)i)[0]);
}

TEST(what_ran_sleeps_after_a_crash)
{
    for (int s = 0; s < DZ_STATE_COUNT; s++)
        CHECK_INT(dz_lifecycle_after_crash((enum dz_state)s),
                  s == DZ_STATE_ACTIVE ? DZ_STATE_SUSPENDED : s);
}
