/* SPDX-License-Identifier: MIT
 *
 * The control plane with real cells: requests that meet, cells that are killed in each of their
 * states, the end; every callback comes exactly once.
 */
#include "../lib/control_rig.h"

#include "base/fd.h"
#include "sandbox/sandbox_int.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ASKERS = 20,
};

/* --- meetings ------------------------------------------------------------------------------- */

TEST(commands_that_meet_a_sleeping_sandbox_wake_it_once)
{
    struct rig r;
    struct asker all[ASKERS];
    struct dz_control_counts before, after;
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    dz_control_counts(r.e, &before);
    for (int i = 0; i < ASKERS; i++)
        CHECK_INT(run(&r, "a", "h", &all[i]), 0);
    for (int i = 0; i < ASKERS; i++)
        UNTIL(&r, all[i].ended + all[i].failed > 0);
    for (int i = 0; i < ASKERS; i++)
        CHECK(all[i].started == 1 && all[i].ended == 1 && all[i].failed == 0 && all[i].bytes == 7);
    dz_control_counts(r.e, &after);
    CHECK_INT(after.in.suspends, before.in.suspends);
    CHECK_INT(after.in.execs - before.in.execs, ASKERS);
    CHECK_INT(after.in.warm, 1);
    rig_close(&r);
}

TEST(an_explicit_wake_is_refused_while_one_is_under_way_and_a_suspend_waits)
{
    struct rig r;
    struct asker first, wake, suspend, late;
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    CHECK_INT(run(&r, "a", "h", &first), 0);
    int rc = order(&r, "a", DZ_REQUEST_WAKE, &wake);
    CHECK_INT(rc, DZ_ERESTORING);
    CHECK_INT(order(&r, "a", DZ_REQUEST_SUSPEND, &suspend), 0);
    CHECK_INT(run(&r, "a", "h", &late), 0);
    UNTIL(&r, suspend.done > 0);
    run_well(&r, "a"); /* who was in the middle of something goes on when somebody asks */
    UNTIL(&r, first.ended + first.failed > 0 && late.ended + late.failed > 0);
    CHECK(first.ended == 1 && suspend.done == 1 && late.ended == 1);
    CHECK_INT(wake.done, 0);
    rig_close(&r);
}

/* A wake does not serve who stands behind another operation: that machine may end before his
 * turn comes, and he would get everything once more. */
TEST(who_stands_in_line_behind_another_operation_is_served_once)
{
    struct rig r;
    struct asker clone = {0}, first, suspend = {0}, late;
    struct dz_control_counts before, after;
    const struct dz_control_order files = {.what = DZ_REQUEST_SUSPEND, .keep = "files"};
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    dz_control_counts(r.e, &before);
    CHECK_INT(
        dz_control_clone(r.e, box("a"), &(struct dz_control_clone){0}, on_done, &clone, &r.why), 0);
    CHECK_INT(run(&r, "a", "w", &first), 0); /* these wait for the clone */
    CHECK_INT(dz_control_order(r.e, box("a"), &files, on_done, &suspend, &r.why), 0);
    CHECK_INT(run(&r, "a", "w", &late), 0);
    UNTIL(&r, clone.done > 0 && suspend.done > 0 && late.started > 0);
    CHECK(clone.code == 0 && suspend.done == 1 && suspend.code == 0);
    CHECK(first.started == 1 && first.failed == 1 && first.code == DZ_EUNAVAIL);
    UNTIL(&r, in_state(&r, "a", "active"));
    run_well(&r, "a");
    CHECK(late.started == 1 && late.ended + late.failed == 0);
    dz_control_counts(r.e, &after);
    CHECK_INT(after.in.execs - before.in.execs, 3);
    dz_exec_watch_end(late.watch);
    rig_close(&r);
}

TEST(what_is_wrong_is_refused_and_nothing_is_called)
{
    struct rig r;
    struct asker a;
    const struct dz_control_caller other = {.tenant = "evil"};
    const struct dz_exec_request empty = {0};
    rig_open(&r);
    CHECK_INT(run(&r, "none", "h", &a), DZ_ENOENT);
    CHECK_INT(dz_control_exec(r.e, box("a"), &empty,
                              (struct dz_exec_listener){.ops = &watch_ops, .arg = &a}, &a.watch,
                              &r.why),
              DZ_EINVAL);
    CHECK_STR(r.why.field, "cmd");
    struct dz_instance row = {0};
    CHECK_INT(dz_control_get(r.e, (struct dz_control_target){&other, "a"}, &row, &r.why),
              DZ_ENOENT);
    CHECK_INT(order(&r, "a", DZ_REQUEST_FREEZE, &a), DZ_ESTATE);
    turn(&r);
    CHECK(a.started + a.ended + a.failed + a.done == 0);
    CHECK_INT(run(&r, "a", "nonsense", &a), 0); /* the guest's own matter */
    UNTIL(&r, a.ended > 0);
    order_well(&r, "a", DZ_REQUEST_DESTROY);
    CHECK_INT(run(&r, "a", "h", &a), DZ_ENOENT);
    rig_close(&r);
}

/* --- cells that die ----------------------------------------------------------------------------
 */

TEST(a_cell_that_is_killed_while_it_runs_fails_who_listens_once)
{
    struct rig r;
    struct asker a, b;
    rig_open(&r);
    CHECK_INT(run(&r, "a", "w", &a), 0);
    CHECK_INT(run(&r, "a", "c", &b), 0);
    UNTIL(&r, a.started == 1 && b.started == 1);
    kill_in(&r, DZ_PHASE_UP);
    UNTIL(&r, a.failed + a.ended > 0 && b.failed + b.ended > 0);
    CHECK(a.failed == 1 && a.ended == 0 && a.code == DZ_EUNAVAIL);
    CHECK(b.failed + b.ended == 1);
    UNTIL(&r, in_state(&r, "a", "suspended"));
    run_well(&r, "a");
    rig_close(&r);
}

/* Nothing wakes an archived sandbox but who revives it, so nobody is left to wait for its commands;
 * they go on when it does. */
TEST(who_listens_to_a_command_is_told_that_its_sandbox_was_archived)
{
    for (int asleep = 0; asleep < 2; asleep++) {
        struct rig r;
        struct asker a;
        rig_open(&r);
        CHECK_INT(run(&r, "a", "w", &a), 0);
        UNTIL(&r, a.started == 1);
        if (asleep) {
            order_well(&r, "a", DZ_REQUEST_SUSPEND);
            order_well(&r, "a", DZ_REQUEST_FREEZE);
        }
        CHECK(a.failed == 0 && a.ended == 0);
        order_well(&r, "a", DZ_REQUEST_ARCHIVE);
        UNTIL(&r, a.failed + a.ended > 0);
        CHECK(a.failed == 1 && a.code == DZ_EUNAVAIL);
        order_well(&r, "a", DZ_REQUEST_REVIVE);
        run_well(&r, "a");
        rig_close(&r);
    }
}

TEST(a_cell_that_is_killed_while_it_starts_fails_who_waits_once)
{
    struct rig r;
    struct asker all[3];
    rig_open(&r);
    for (int round = 0; round < 3; round++) {
        order_well(&r, "a", DZ_REQUEST_SUSPEND);
        for (int i = 0; i < 3; i++)
            CHECK_INT(run(&r, "a", "h", &all[i]), 0);
        struct dz_sandbox *b = only(&r);
        CHECK(b && b->phase == DZ_PHASE_STARTING);
        while (b->phase == DZ_PHASE_STARTING && dz_cell_pid(b->cell) == 0)
            turn(&r);
        if (b->phase == DZ_PHASE_STARTING)
            CHECK_INT(kill(dz_cell_pid(b->cell), SIGKILL), 0);
        for (int i = 0; i < 3; i++)
            UNTIL(&r, all[i].ended + all[i].failed > 0);
        for (int i = 0; i < 3; i++)
            CHECK(all[i].ended + all[i].failed == 1);
        run_well(&r, "a");
    }
    rig_close(&r);
}

TEST(a_cell_that_is_killed_while_it_is_put_down_ends_the_order_once)
{
    struct rig r;
    struct asker a, late;
    rig_open(&r);
    for (int round = 0; round < 5; round++) {
        run_well(&r, "a");
        CHECK_INT(order(&r, "a", DZ_REQUEST_SUSPEND, &a), 0);
        const struct dz_sandbox *b = only(&r);
        int32_t pid = b && b->cell ? dz_cell_pid(b->cell) : 0;
        if (pid > 0)
            (void)kill(pid, SIGKILL);
        CHECK_INT(run(&r, "a", "h", &late), 0);
        UNTIL(&r, a.done > 0 && late.ended + late.failed > 0);
        CHECK(a.done == 1 && late.ended + late.failed == 1);
    }
    rig_close(&r);
}

static void op_data(void *arg, const void *data, size_t n)
{
    struct asker *a = arg;
    (void)data;
    a->bytes += n;
    dz_file_op_ack(a->op, n);
}

static void op_done(void *arg, const struct dz_why *why, uint64_t count)
{
    struct asker *a = arg;
    (void)count;
    a->done++;
    a->code = why ? why->err.code : 0;
    a->op = NULL;
}

static const struct dz_file_op_ops op_ops = {.data = op_data, .done = op_done};

static int list(struct rig *r, struct asker *a)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_LIST, .path = "/bin", .depth = 1};
    const struct dz_file_op_request q = {
        .op = &op, .activity = DZ_ACTIVITY_LIST_DIRECTORY, .ops = &op_ops, .arg = a};
    *a = (struct asker){0};
    return dz_control_op(r->e, box("a"), &q, &a->op, &r->why);
}

/* "a" sleeps, and its files were asked for: a cell has them. */
static void files_only(struct rig *r, struct asker *a)
{
    rig_open(r);
    order_well(r, "a", DZ_REQUEST_SUSPEND);
    CHECK_INT(list(r, a), 0);
    UNTIL(r, a->done > 0);
}

TEST(a_cell_that_has_only_the_file_may_die_too)
{
    struct rig r;
    struct asker a, late;
    files_only(&r, &a);
    CHECK(a.done == 1 && a.code == 0 && a.bytes > 0);
    kill_in(&r, DZ_PHASE_FILES); /* that nobody uses any more */
    CHECK_INT(list(&r, &a), 0);
    CHECK_INT(run(&r, "a", "h", &late), 0); /* and one that becomes the machine's */
    UNTIL(&r, a.done > 0 && late.ended + late.failed > 0);
    CHECK(a.done == 1 && late.ended + late.failed == 1);
    run_well(&r, "a");
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    CHECK_INT(list(&r, &a), 0);
    UNTIL(&r, only(&r) && only(&r)->cell);
    if (only(&r)->phase == DZ_PHASE_OPENING && dz_cell_pid(only(&r)->cell) > 0)
        (void)kill(dz_cell_pid(only(&r)->cell), SIGKILL);
    UNTIL(&r, a.done > 0);
    CHECK_INT(a.done, 1);
    run_well(&r, "a");
    rig_close(&r);
}

struct killer {
    struct rig *r;
    struct dz_loop_task task;
};

static void on_kill(void *arg)
{
    const struct killer *k = arg;
    siginfo_t info;
    kill_in(k->r, DZ_PHASE_UP);
    CHECK_INT(waitid(P_PID, (id_t)dz_cell_pid(only(k->r)->cell), &info, WEXITED | WNOWAIT), 0);
}

/* The cell of "a" dies after the loop has looked at its socket, right before the request that comes
 * next reaches it. */
static void kill_unseen(struct rig *r, struct killer *k)
{
    run_well(r, "a");
    *k = (struct killer){.r = r};
    dz_loop_task_init(&k->task, k, on_kill, k);
    dz_loop_post(r->loop, &k->task);
}

static void on_copy(void *arg, const struct dz_snapshot_row *row, const struct dz_why *why)
{
    struct asker *a = arg;
    a->done++;
    a->code = why ? why->err.code : 0;
    CHECK((row == NULL) == (why != NULL));
}

/* 503 and "retry", however the control plane learns of the death: as it sends, or while it waits.
 */
TEST(what_meets_a_dead_cell_may_be_asked_again)
{
    struct rig r;
    struct killer killer;
    struct asker a = {0};
    const struct dz_control_handle as = {0};
    rig_open(&r);
    kill_unseen(&r, &killer);
    CHECK_INT(dz_control_snapshot(r.e, box("a"), &as, on_copy, &a, &r.why), 0);
    UNTIL(&r, a.done > 0);
    CHECK_INT(a.code, DZ_EDIED);
    UNTIL(&r, in_state(&r, "a", "suspended"));
    kill_unseen(&r, &killer);
    CHECK_INT(list(&r, &a), 0);
    UNTIL(&r, a.done > 0);
    CHECK_INT(a.code, DZ_EDIED);
    UNTIL(&r, in_state(&r, "a", "suspended"));
    kill_unseen(&r, &killer);
    CHECK_INT(run(&r, "a", "h", &a), 0);
    UNTIL(&r, a.failed > 0);
    CHECK_INT(a.code, DZ_EDIED);
    UNTIL(&r, in_state(&r, "a", "suspended"));
    a = (struct asker){0};
    CHECK_INT(dz_control_snapshot(r.e, box("a"), &as, on_copy, &a, &r.why), 0);
    UNTIL(&r, a.done > 0);
    CHECK_INT(a.code, 0);
    rig_close(&r);
}

/* Who wanted the machine has left, so the cell that was to become it goes; the next one comes
 * before that is over. */
TEST(a_machine_starts_while_the_cell_that_had_its_file_is_put_down)
{
    struct rig r;
    struct asker a, late;
    files_only(&r, &a);
    CHECK(only(&r) && only(&r)->phase == DZ_PHASE_FILES);
    dz_sandbox_yield_file(r.e->sandboxes, only(&r)->id, DZ_REQUEST_USE);
    dz_sandbox_stop_cell(only(&r), true);
    CHECK_INT(run(&r, "a", "h", &late), 0);
    UNTIL(&r, late.ended + late.failed > 0);
    CHECK(late.started == 1 && late.ended == 1 && late.failed == 0 && late.bytes == 7);
    run_well(&r, "a");
    rig_close(&r);
}

/* --- between the guest's first word and the registry's ---------------------------------------- */

/* A command that waits has been started by a wake that the registry does not know of yet. */
static void just_up(struct rig *r, struct asker *a, void (*then)(void))
{
    rig_open(r);
    for (int i = 0; i < 50; i++) { /* on a slow machine it may know already */
        order_well(r, "a", DZ_REQUEST_SUSPEND);
        first_in = r;
        first_thing = then;
        CHECK_INT(run(r, "a", "w", a), 0);
        UNTIL(r, a->started > 0);
        first_in = NULL;
        if (!dz_list_empty(&only(r)->up_pending))
            return;
        dz_exec_watch_end(a->watch);
    }
    bool the_moment_came = false;
    CHECK(the_moment_came);
}

static void just_up_over(struct rig *r, struct asker *a)
{
    CHECK(a->ended + a->failed == 0);
    dz_exec_watch_end(a->watch);
    rig_close(r);
}

TEST(whoever_was_answered_by_a_guest_finds_its_sandbox_awake)
{
    struct rig r;
    struct asker a;
    just_up(&r, &a, NULL);
    CHECK(in_state(&r, "a", "active"));
    CHECK(dz_list_empty(&only(&r)->up_pending));
    just_up_over(&r, &a);
}

TEST(a_list_shows_awake_what_has_answered)
{
    struct rig r;
    struct asker a;
    struct dz_instances rows = DZ_VEC_INIT(8);
    bool more;
    just_up(&r, &a, NULL);
    CHECK_INT(
        dz_control_list(r.e, &me, &(struct dz_control_filter){.limit = 8}, &rows, &more, &r.why),
        0);
    CHECK_INT(rows.n, 1);
    CHECK_STR(rows.p[0].state, "active");
    dz_instances_release(&rows);
    just_up_over(&r, &a);
}

TEST(what_has_answered_is_not_being_woken)
{
    struct rig r;
    struct asker a, wake;
    just_up(&r, &a, NULL);
    CHECK_INT(order(&r, "a", DZ_REQUEST_WAKE, &wake), 0);
    UNTIL(&r, wake.done > 0);
    CHECK(wake.done == 1 && wake.code == 0);
    just_up_over(&r, &a);
}

static struct asker beside;

static void run_beside(void)
{
    struct rig *r = first_in;
    first_in = NULL;
    CHECK_INT(run(r, "a", "w", &beside), 0);
}

static int connections(struct rig *r)
{
    const struct dz_sandbox *s = dz_map_get(&r->e->sandboxes->map, dz_str(only(r)->id));
    return s ? (int)s->now.connections : -1;
}

/* Also one that comes from within what the first one is told. */
TEST(all_who_listen_to_a_wake_are_connections)
{
    struct rig r;
    struct asker a;
    just_up(&r, &a, run_beside);
    UNTIL(&r, beside.started == 1 && in_state(&r, "a", "active"));
    CHECK_INT(connections(&r), 2);
    dz_exec_watch_end(beside.watch);
    CHECK_INT(connections(&r), 1);
    just_up_over(&r, &a);
}

static bool is_untold(const struct asker *a)
{
    return a->done + a->started + a->ended + a->failed == 0;
}

/* Whatever state the sandbox is in, its answer comes from the loop. */
TEST(nothing_is_told_before_the_call_returns)
{
    const struct dz_control_spec resting = {
        .image = "g", .idle_ms = DZ_IDLE_INHERIT, .no_start = true, .name = "resting"};
    const struct dz_control_handle as = {0};
    struct asker ran, listed, copied, told, made = {0};
    struct rig r;
    rig_open(&r);
    for (int dead = 0; dead < 2; dead++) {
        run_well(&r, "a");
        if (dead)
            kill_in(&r, DZ_PHASE_UP);
        const struct dz_exec_send nobody = {.exec_id = "exe_none", .what = DZ_EXEC_SEND_INPUT};
        copied = told = (struct asker){0};
        CHECK_INT(run(&r, "a", "h", &ran), 0);
        CHECK_INT(list(&r, &listed), 0);
        CHECK_INT(dz_control_snapshot(r.e, box("a"), &as, on_copy, &copied, &r.why), 0);
        CHECK_INT(dz_control_exec_send(r.e, box("a"), &nobody, on_done, &told, &r.why), 0);
        CHECK(is_untold(&ran) && is_untold(&listed) && is_untold(&copied) && is_untold(&told));
        UNTIL(&r, ran.ended + ran.failed > 0 && listed.done && copied.done && told.done);
        CHECK(ran.ended + ran.failed == 1 && listed.done == 1);
        CHECK(copied.done == 1 && told.done == 1 && told.code == DZ_ENOENT);
    }
    CHECK_INT(dz_control_create(r.e, &me, &resting, on_done, &made, &r.why), 0);
    CHECK(is_untold(&made));
    UNTIL(&r, made.done > 0);
    CHECK_INT(made.code, 0);
    rig_close(&r);
}

/* It is over, and its client leaves before the loop says so. What was said of it is not kept by who
 * said it. */
TEST(who_leaves_between_an_end_and_its_telling_is_told_nothing)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_WRITE, .path = "/f", .mode = 0644};
    const struct dz_file_op_request q = {
        .op = &op, .activity = DZ_ACTIVITY_LIST_DIRECTORY, .ops = &op_ops};
    struct asker left, stays;
    struct dz_file_op_request left_q = q, stays_q = q;
    struct rig r;
    rig_open(&r);
    CHECK_INT(run(&r, "a", "w", &left), 0);
    CHECK_INT(run(&r, "a", "w", &stays), 0);
    UNTIL(&r, left.started && stays.started);
    char text[] = "it is over";
    dz_exec_down(only(&r), DZ_EGONE, NULL, text);
    memset(text, 0, sizeof text);
    dz_exec_watch_ack(left.watch, 1);
    dz_exec_watch_abort(left.watch);
    UNTIL(&r, stays.failed > 0);
    CHECK(stays.failed == 1 && stays.code == DZ_EGONE);
    CHECK_INT(left.failed, 0);

    left = stays = (struct asker){0};
    left_q.arg = &left;
    stays_q.arg = &stays;
    CHECK_INT(dz_control_op(r.e, box("a"), &left_q, &left.op, &r.why), 0);
    CHECK_INT(dz_control_op(r.e, box("a"), &stays_q, &stays.op, &r.why), 0);
    UNTIL(&r, left.op->handle && stays.op->handle);
    dz_file_op_down(only(&r), DZ_EDIED, "it is over");
    CHECK_INT(dz_file_op_send(left.op, "x", 1), 0);
    dz_file_op_end(left.op);
    dz_file_op_cancel(left.op);
    UNTIL(&r, stays.done > 0);
    CHECK(stays.done == 1 && stays.code == DZ_EDIED);
    CHECK_INT(left.done, 0);
    rig_close(&r);
}

static void copy_file(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    char piece[65536];
    ssize_t n;
    CHECK(out >= 0);
    while (in >= 0 && (n = read(in, piece, sizeof piece)) > 0)
        CHECK(write(out, piece, (size_t)n) == n);
    (void)close(in); /* a log that is not there is an empty one */
    (void)close(out);
}

static void copy_registry(const struct rig *r, bool back)
{
    static const char *const names[] = {"registry.db", "registry.db-wal"};
    char here[DZ_TEMP_DIR_TEXT + 32], there[DZ_TEMP_DIR_TEXT + 32];
    for (size_t i = 0; i < DZ_ARRAY_LEN(names); i++) {
        (void)snprintf(here, sizeof here, "%s/%s", r->dir, names[i]);
        (void)snprintf(there, sizeof there, "%s/saved-%s", r->dir, names[i]);
        copy_file(back ? there : here, back ? here : there);
    }
}

/* The daemon ends as by a signal, its cell with it or not: that puts itself to sleep then. What the
 * registry is told from now on it was not. */
static void killed(struct rig *r, bool with_cell)
{
    int drained = 0;
    copy_registry(r, false);
    if (with_cell)
        CHECK_INT(kill(dz_cell_pid(only(r)->cell), SIGKILL), 0);
    dz_control_drain(r->e, 20000, on_drained, &drained);
    UNTIL(r, drained > 0);
    dz_loop_settle(r->loop);
    dz_control_free(r->e);
    copy_registry(r, true);
    control_open(r);
}

static int listen_again(struct rig *r, const char *id, struct asker *a)
{
    *a = (struct asker){0};
    return dz_control_exec_watch(r->e, box("a"), id,
                                 (struct dz_exec_listener){.ops = &watch_ops, .arg = a}, &a->watch,
                                 &r->why);
}

/* Commands of a sandbox: one sleeps in it, one has ended in a wake that the registry does not know
 * of yet. */
struct both {
    char slept[64], ran[64];
};

static void answered(struct rig *r, struct both *ret)
{
    struct asker w, h;
    bool pending = false;
    rig_open(r);
    CHECK_INT(run(r, "a", "w", &w), 0);
    UNTIL(r, w.started == 1);
    (void)snprintf(ret->slept, sizeof ret->slept, "%s", dz_exec_watch_exec(w.watch));
    dz_exec_watch_end(w.watch);
    for (int i = 0; i < 50 && !pending; i++) { /* on a slow machine it may know already */
        order_well(r, "a", DZ_REQUEST_SUSPEND);
        CHECK_INT(run(r, "a", "h", &h), 0);
        (void)snprintf(ret->ran, sizeof ret->ran, "%s", dz_exec_watch_exec(h.watch));
        first_in = r;
        UNTIL(r, h.ended + h.failed > 0);
        first_in = NULL;
        CHECK(h.ended == 1 && h.bytes == 7);
        pending = !dz_list_empty(&only(r)->up_pending);
    }
    CHECK(pending);
}

static void is_as_answered(struct rig *r, const struct both *b, bool lost)
{
    struct asker w, h, wake;
    CHECK_INT(order(r, "a", DZ_REQUEST_WAKE, &wake), 0);
    UNTIL(r, wake.done > 0);
    CHECK(wake.done == 1 && wake.code == 0 && wake.memory_lost == lost);
    CHECK_INT(listen_again(r, b->ran, &h), 0);
    UNTIL(r, h.ended + h.failed > 0);
    CHECK(h.ended == 1 && h.exit.exit_code == 3 && h.bytes == 7);
    CHECK_INT(listen_again(r, b->slept, &w), 0);
    UNTIL(r, w.ended + w.failed + (lost ? 0 : w.started) > 0);
    CHECK(lost ? w.failed == 1 : w.ended + w.failed == 0);
    if (!lost)
        dz_exec_watch_end(w.watch);
}

/* What was answered is there, though no registry ever knew of that wake; and that the memory is
 * lost is told when it is. */
TEST(a_daemon_killed_before_the_registry_knows_of_a_wake_loses_no_answer)
{
    for (int with_cell = 0; with_cell < 2; with_cell++) {
        struct rig r;
        struct both both;
        answered(&r, &both);
        killed(&r, with_cell);
        CHECK(in_state(&r, "a", "suspended"));
        is_as_answered(&r, &both, with_cell);
        rig_close(&r);
    }
}

/* The registry cannot be written while this runs. */
static void without_room(struct rig *r, void (*fn)(void *control))
{
    struct rlimit before, none;
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &none), 0);
    fn(r->e);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static void tell_all(void *control)
{
    dz_sandboxes_report_up(((struct dz_control *)control)->sandboxes);
}

/* Nobody can be told of that wake, so it is over: with its memory, which is told. */
TEST(a_registry_that_cannot_be_written_takes_no_answer_back)
{
    struct rig r;
    struct both both;
    answered(&r, &both);
    without_room(&r, tell_all);
    CHECK(only(&r) == NULL || only(&r)->cell == NULL);
    UNTIL(&r, dz_sandboxes_busy(r.e->sandboxes) == 0);
    CHECK(in_state(&r, "a", "suspended"));
    is_as_answered(&r, &both, true);
    rig_close(&r);
}

static int look_at_its_row(void *control, const struct dz_sandbox_warm *warm)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why;
    CHECK_INT(dz_control_get(control, box(warm->id), &row, &why), 0);
    CHECK_STR(warm->id, row.id);
    return 0;
}

static void look_at_the_rows(void *control)
{
    CHECK_INT(dz_control_each_warm(control, look_at_its_row, control), 0);
}

/* Whoever lists what is awake looks at a row, and the registry hears then who is. */
TEST(a_sandbox_that_is_listed_stays_until_it_has_been_looked_at)
{
    struct rig r;
    struct both both;
    answered(&r, &both);
    without_room(&r, look_at_the_rows);
    is_as_answered(&r, &both, false);
    rig_close(&r);
}

static int tell_it(struct rig *r, const struct asker *to, const char *text, struct asker *a)
{
    const struct dz_exec_send what = {
        .what = DZ_EXEC_SEND_INPUT, .exec_id = dz_exec_watch_exec(to->watch), .data = dz_str(text)};
    *a = (struct asker){0};
    return dz_control_exec_send(r->e, box("a"), &what, on_done, a, &r->why);
}

/* Its input went with the start, and it does not wake. */
TEST(who_speaks_to_a_sleeper_that_does_not_wake_is_told)
{
    struct rig r;
    struct asker a, input, wake = {0};
    for (int lost = 0; lost < 2; lost++) {
        const char *const argv[] = {"g", "c", NULL};
        const struct dz_exec_request exec = {.argv = argv, .keep_input = true};
        rig_open(&r);
        a = (struct asker){0};
        CHECK_INT(dz_control_exec(r.e, box("a"), &exec,
                                  (struct dz_exec_listener){.ops = &watch_ops, .arg = &a}, &a.watch,
                                  &r.why),
                  0);
        UNTIL(&r, a.started == 1);
        CHECK_INT(tell_it(&r, &a, "one", &input), 0);
        UNTIL(&r, a.bytes == 3 && input.done == 1);
        order_well(&r, "a", DZ_REQUEST_SUSPEND);
        if (lost) { /* another client's wake, that this one joins */
            const struct dz_control_order files = {.what = DZ_REQUEST_WAKE, .keep = "files"};
            CHECK_INT(dz_control_order(r.e, box("a"), &files, on_done, &wake, &r.why), 0);
        }
        CHECK_INT(tell_it(&r, &a, "two", &input), 0);
        CHECK_INT(only(&r)->phase, DZ_PHASE_STARTING);
        UNTIL(&r, input.done > 0);
        CHECK_INT(input.done, 1);
        CHECK_INT(input.code, lost ? DZ_ENOENT : 0);
        UNTIL(&r, lost ? a.ended + a.failed > 0 : a.bytes == 6);
        CHECK(a.ended + a.failed == lost && a.bytes == (lost ? 3 : 6));
        if (!lost)
            dz_exec_watch_end(a.watch);
        rig_close(&r);
    }
}

/* --- making ------------------------------------------------------------------------------ */

/* Whoever hears that it failed asks at once whether it is there. */
struct maker {
    struct rig *r;
    int done, code;
    bool there;
};

static void on_made(void *arg, const struct dz_sandbox_result *result)
{
    struct maker *m = arg;
    struct dz_instance row = {0};
    m->done++;
    m->code = result->code;
    m->there = dz_control_get(m->r->e, box("b"), &row, &m->r->why) == 0;
    dz_instance_release(&row);
}

/* While it is set, no cell that starts is heard: it is killed before its first word, and its
 * socket is at its end. So a start fails each time, however fast the cell is. */
static const struct rig *deaf;

static bool starts(int fd)
{
    DZ_MAP_FOREACH(it, &deaf->e->sandboxes->map) {
        const struct dz_sandbox *b = it->value;
        if (b->cell && b->phase == DZ_PHASE_STARTING && dz_cell_fd(b->cell) == fd) {
            if (dz_cell_pid(b->cell) > 0)
                (void)kill(dz_cell_pid(b->cell), SIGKILL);
            return true;
        }
    }
    return false;
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    bool looks = flags & MSG_PEEK; /* for its process number, which starts() asks for */
    return deaf && !looks && starts(fd) ? 0 : syscall(SYS_recvmsg, fd, msg, flags);
}

TEST(of_a_creation_that_fails_nothing_is_left_when_it_says_so)
{
    struct rig r;
    const struct dz_control_spec spec = {.name = "b", .image = "g", .idle_ms = DZ_IDLE_INHERIT};
    rig_open(&r);
    for (int i = 0; i < 3; i++) {
        struct maker m = {.r = &r};
        deaf = &r;
        CHECK_INT(dz_control_create(r.e, &me, &spec, on_made, &m, &r.why), 0);
        UNTIL(&r, m.done);
        deaf = NULL;
        CHECK_INT(m.done, 1);
        CHECK(m.code < 0 && !m.there);
    }
    rig_create(&r, "b");
    rig_close(&r);
}

/* --- the end -------------------------------------------------------------------------------------
 */

TEST(new_sandboxes_have_files_that_were_made_ahead)
{
    struct rig r;
    char name[16];
    rig_open(&r);
    UNTIL(&r,
          dz_prealloc_count(&r.e->prealloc) == DZ_CONTROL_PREALLOC_MAX && !r.e->prealloc.filling);
    r.e->prealloc.filling = true; /* none are made */
    for (int i = 1; i < DZ_CONTROL_PREALLOC_MAX + 2;
         i++) { /* and the last has none, and is made itself */
        (void)snprintf(name, sizeof name, "b%d", i);
        rig_create(&r, name);
        CHECK_INT(dz_prealloc_count(&r.e->prealloc),
                  i < DZ_CONTROL_PREALLOC_MAX ? DZ_CONTROL_PREALLOC_MAX - i : 0);
        run_well(&r, name);
    }
    r.e->prealloc.filling = false;
    rig_create(&r, "c");
    UNTIL(&r,
          dz_prealloc_count(&r.e->prealloc) == DZ_CONTROL_PREALLOC_MAX && !r.e->prealloc.filling);
    rig_close(&r);
}

/* Takes nothing, and notes what it is sent. */
struct slow {
    uint64_t first, next;
    struct dz_exec_watch *watch;
};

static void on_slow_output(void *arg, unsigned stream, uint64_t offset, const void *data, size_t n)
{
    struct slow *s = arg;
    (void)stream, (void)data;
    if (s->next == 0)
        s->first = offset;
    else
        CHECK_INT(offset, s->next);
    s->next = offset + n;
}

static void on_slow_end(void *arg, const struct dz_exec_exit *how)
{
    (void)how;
    ((struct slow *)arg)->watch = NULL;
}

static void on_slow_failed(void *arg, const struct dz_why *why)
{
    (void)why;
    ((struct slow *)arg)->watch = NULL;
}

TEST(a_second_listener_misses_nothing_that_the_first_was_sent_already)
{
    static const struct dz_exec_watch_ops ops = {NULL, on_slow_output, on_slow_end, on_slow_failed};
    const char *const argv[] = {"g", "f", NULL}; /* prints for ever */
    const struct dz_exec_request exec = {.argv = argv};
    struct slow a = {0}, b = {0};
    struct rig r;
    rig_open(&r);
    struct dz_exec_listener one = {.ops = &ops, .arg = &a};
    CHECK_INT(dz_control_exec(r.e, box("a"), &exec, one, &a.watch, &r.why), 0);
    UNTIL(&r, a.next >= DZ_CELL_WINDOW);
    struct dz_exec_listener two = {.ops = &ops, .arg = &b, .offset = 30000};
    const char *id = dz_exec_watch_exec(a.watch);
    CHECK_INT(dz_control_exec_watch(r.e, box("a"), id, two, &b.watch, &r.why), 0);
    UNTIL(&r, b.next >= DZ_CELL_WINDOW);
    CHECK_INT(b.first, 30000);
    CHECK_INT(a.next, DZ_CELL_WINDOW);
    /* and the window that both open is as wide as before */
    uint64_t a_took = 0, b_took = 30000;
    for (int i = 0; i < 5; i++) {
        uint64_t next = a.next;
        dz_exec_watch_ack(a.watch, (size_t)(next - a_took));
        dz_exec_watch_ack(b.watch, (size_t)(next - b_took));
        a_took = b_took = next;
        UNTIL(&r, a.next == next + DZ_CELL_WINDOW && b.next == a.next);
    }
    dz_exec_watch_end(a.watch);
    dz_exec_watch_end(b.watch);
    rig_close(&r);
}

TEST(a_drain_puts_all_down_and_refuses_what_comes)
{
    struct rig r;
    struct asker w, late;
    int drained = 0;
    rig_open(&r);
    rig_create(&r, "b");
    CHECK_INT(run(&r, "a", "w", &w), 0);
    UNTIL(&r, w.started == 1);
    dz_control_drain(r.e, 20000, on_drained, &drained);
    CHECK_INT(run(&r, "a", "h", &late), DZ_EBUSY);
    CHECK_INT(order(&r, "b", DZ_REQUEST_WAKE, &late), DZ_EBUSY);
    const struct dz_control_spec spec = {.image = "g", .idle_ms = DZ_IDLE_INHERIT};
    CHECK_INT(dz_control_create(r.e, &me, &spec, on_done, &late, &r.why), DZ_EBUSY);
    UNTIL(&r, drained > 0);
    CHECK_INT(drained, 1);
    CHECK(in_state(&r, "a", "suspended") && in_state(&r, "b", "suspended"));
    CHECK(w.ended + w.failed == 0); /* it sleeps with its machine */
    dz_exec_watch_end(w.watch);
    dz_loop_settle(r.loop);
    dz_control_free(r.e);
    dz_cell_pool_free(r.pool);
    dz_timer_free(r.tick);
    dz_loop_free(r.loop);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, r.dir, NULL), 0);
}

TEST(a_drain_waits_for_an_operation_without_a_cell)
{
    struct rig r;
    struct asker freeze;
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_WAKE);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    UNTIL(&r, dz_list_empty(&r.e->sandboxes->exiting));
    CHECK_INT(order(&r, "a", DZ_REQUEST_FREEZE, &freeze), 0);
    CHECK_INT(freeze.done, 0);
    rig_close(&r);
    CHECK(freeze.done == 1 && freeze.code == 0);
}
