/* SPDX-License-Identifier: MIT
 *
 * Progress and fairness of the control plane: many wakes at once, and one tenant who must not hold
 * up another.
 */
#include "../lib/control_rig.h"

#include "base/str.h"
#include "sandbox/sandbox_int.h"

enum {
    FLOOD = 300,
    TOGETHER_MAX = 64, /* machines that start at a time: STARTS_MAX of sandbox_start.c */
};

static const struct dz_control_caller other = {.tenant = "other"};

static void create_asleep(struct rig *r, const struct dz_control_caller *who, const char *name)
{
    struct asker a = {0};
    const struct dz_control_spec spec = {.name = name, .image = "g", .idle_ms = DZ_IDLE_INHERIT};
    const struct dz_control_order o = {.what = DZ_REQUEST_SUSPEND};
    CHECK_INT(dz_control_create(r->e, who, &spec, on_done, &a, &r->why), 0);
    UNTIL(r, a.done == 1 && a.code == 0);
    CHECK_INT(
        dz_control_order(r->e, (struct dz_control_target){who, name}, &o, on_done, &a, &r->why), 0);
    UNTIL(r, a.done == 2 && a.code == 0);
}

static void create_flood(struct rig *r)
{
    for (int i = 0; i < FLOOD; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        create_asleep(r, &me, name);
    }
}

static void start_flood(struct rig *r, struct asker all[FLOOD])
{
    for (int i = 0; i < FLOOD; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        CHECK_INT(run(r, name, "h", &all[i]), 0);
    }
}

static int count_over(const struct asker all[FLOOD])
{
    int n = 0;
    for (int i = 0; i < FLOOD; i++)
        n += all[i].ended + all[i].failed;
    return n;
}

TEST(a_flood_of_wakes_is_served_and_another_tenant_does_not_wait_for_its_end)
{
    static struct asker all[FLOOD];
    struct rig r;
    struct asker late = {0};
    const char *const argv[] = {"g", "h", NULL};
    const struct dz_exec_request exec = {.argv = argv};
    (void)alarm(100);
    rig_open(&r);
    create_flood(&r);
    create_asleep(&r, &other, "late");
    start_flood(&r, all);
    CHECK_INT(dz_control_exec(r.e, (struct dz_control_target){&other, "late"}, &exec,
                              (struct dz_exec_listener){.ops = &watch_ops, .arg = &late},
                              &late.watch, &r.why),
              0);
    int most = 0;
    CHECK_INT(r.e->sandboxes->starts.lines.count, 2);
    while (r.e->sandboxes->starts.lines.count ==
           2) { /* until the turn of the other tenant has come */
        int n = (int)r.e->sandboxes->starts.machines; /* without those that take over a second */
        most = n > most ? n : most;
        turn(&r);
    }
    CHECK(r.e->sandboxes->starts.queued > FLOOD / 4); /* who asked last is not served last */
    UNTIL(&r, late.ended + late.failed > 0);
    CHECK(late.ended == 1 && late.exit.exit_code == 3);
    for (int left = PATIENCE; left > 0 && count_over(all) < FLOOD; left--) {
        int n = (int)r.e->sandboxes->starts.machines; /* without those that take over a second */
        most = n > most ? n : most;
        turn(&r);
    }
    for (int i = 0; i < FLOOD; i++)
        CHECK(all[i].started == 1 && all[i].ended == 1 && all[i].failed == 0);
    CHECK(most > 1 && most <= TOGETHER_MAX);
    rig_close(&r);
}

TEST(a_sandbox_that_waits_for_its_start_can_be_deleted)
{
    static struct asker all[FLOOD];
    struct rig r;
    (void)alarm(100);
    rig_open(&r);
    create_flood(&r);
    start_flood(&r, all);
    CHECK(r.e->sandboxes->starts.queued > 0);
    static struct asker gone[FLOOD];
    for (int i = FLOOD - 1; i >= 0; i--) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        CHECK_INT(order(&r, name, DZ_REQUEST_DESTROY, &gone[i]), 0);
    }
    CHECK_INT(r.e->sandboxes->starts.queued, 0);
    for (int i = 0; i < FLOOD; i++)
        UNTIL(&r, gone[i].done == 1 && all[i].ended + all[i].failed == 1);
    UNTIL(&r, r.e->sandboxes->map.count <= 1); /* of "a" */
    CHECK_INT(r.e->sandboxes->starts.machines, 0);
    rig_close(&r);
}

TEST(a_drain_refuses_those_that_wait_for_their_start)
{
    static struct asker all[FLOOD];
    struct rig r;
    (void)alarm(100);
    rig_open(&r);
    create_flood(&r);
    start_flood(&r, all);
    CHECK(r.e->sandboxes->starts.queued > 0);
    rig_close(&r); /* it checks that nothing is left awake */
    for (int i = 0; i < FLOOD; i++) {
        CHECK(all[i].started <= 1 && all[i].ended + all[i].failed <= 1);
        CHECK(all[i].started == 1 || all[i].failed == 1);
    }
}

/* --- files ---------------------------------------------------------------------------------- */

static void on_op_data(void *arg, const void *data, size_t n)
{
    struct asker *a = arg;
    (void)data;
    a->bytes += n;
    dz_file_op_ack(a->op, n);
}

static void on_op_done(void *arg, const struct dz_why *why, uint64_t count)
{
    struct asker *a = arg;
    (void)count;
    a->done++;
    a->code = why ? why->err.code : 0;
    a->op = NULL;
}

static const struct dz_file_op_ops op_ops = {.data = on_op_data, .done = on_op_done};

static void start_op(struct rig *r, const char *name, const struct dz_cell_op *op, struct asker *a)
{
    const struct dz_file_op_request request = {op, op->type != DZ_CELL_OP_WATCH,
                                               DZ_ACTIVITY_EVENT_STREAM, &op_ops, a};
    *a = (struct asker){0};
    CHECK_INT(dz_control_op(r->e, box(name), &request, &a->op, &r->why), 0);
}

static const struct dz_cell_op watch_all = {
    .type = DZ_CELL_OP_WATCH, .path = "/", .flags = DZ_CELL_OP_DEEP};

static void make_dir(struct rig *r, const char *name, const char *path)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_MKDIR, .path = path, .mode = 0755};
    struct asker a;
    start_op(r, name, &op, &a);
    UNTIL(r, a.done > 0);
    CHECK_INT(a.code, 0);
}

TEST(a_watch_of_files_holds_up_nothing_and_outlives_every_sleep)
{
    struct rig r;
    struct asker w;
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    start_op(&r, "a", &watch_all, &w);
    make_dir(&r, "a", "/one"); /* asleep: by a cell that has only the file */
    UNTIL(&r, w.bytes > 0);
    order_well(&r, "a", DZ_REQUEST_FREEZE);
    w.bytes = 0;
    make_dir(&r, "a", "/two"); /* this wakes a frozen one */
    UNTIL(&r, w.bytes > 0);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    run_well(&r, "a");
    w.bytes = 0;
    make_dir(&r, "a", "/three"); /* awake */
    UNTIL(&r, w.bytes > 0);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    CHECK_INT(w.done, 0);
    order_well(&r, "a", DZ_REQUEST_DESTROY);
    UNTIL(&r, w.done > 0);
    CHECK(w.done == 1 && w.code == DZ_EGONE);
    CHECK_INT(r.e->sandboxes->map.count, 0);
    rig_close(&r);
}

/* The cell ends its operations before it falls asleep. When it then cannot, or when a wake came in
 * between, it goes on, and so must the watch. */
TEST(a_watch_that_its_cell_ends_goes_on_when_the_cell_does)
{
    struct rig r;
    struct asker w;
    (void)alarm(60);
    rig_open(&r);
    start_op(&r, "a", &watch_all, &w);
    make_dir(&r, "a", "/one");
    UNTIL(&r, w.bytes > 0);
    const struct dz_cell_event ended = {
        .type = DZ_CELL_OP_DONE, .op = w.op->handle, .code = DZ_ECANCELED, .text = "canceled"};
    struct dz_sandbox *b = w.op->sandbox;
    CHECK(b->phase == DZ_PHASE_UP && ended.op != 0);
    dz_file_op_event(b, &ended);
    w.bytes = 0;
    make_dir(&r, "a", "/two");
    UNTIL(&r, w.bytes > 0);
    CHECK(w.bytes > 0);
    CHECK_INT(w.done, 0);
    order_well(&r, "a", DZ_REQUEST_DESTROY);
    UNTIL(&r, w.done > 0);
    rig_close(&r);
}

/* An upload whose client says nothing any more. */
TEST(a_silent_operation_on_a_file_holds_up_an_order_for_a_bounded_time)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_WRITE, .path = "/f", .mode = 0644};
    struct rig r;
    struct asker w, freeze;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    start_op(&r, "a", &op, &w);
    UNTIL(&r, dz_file_op_send(w.op, "x", 1) == 1);
    CHECK_INT(order(&r, "a", DZ_REQUEST_FREEZE, &freeze), 0);
    for (int i = 0; i < 5 && freeze.done == 0; i++)
        for (int k = 0; k < PATIENCE && freeze.done == 0; k++)
            turn(&r);
    CHECK(freeze.done == 1 && freeze.code == 0);
    CHECK(w.done == 1 && w.code < 0);
    rig_close(&r);
}

static int count_cells(const struct rig *r)
{
    int n = 0;
    DZ_MAP_FOREACH(it, &r->e->sandboxes->map)
        n += ((const struct dz_sandbox *)it->value)->cell != NULL;
    return n;
}

TEST(cells_that_have_only_a_file_are_within_the_quota_of_machines)
{
    enum {
        WATCHED = 6,
        QUOTA = 2
    };
    static struct asker w[WATCHED];
    struct rig r;
    int most = 0;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    r.e->quotas.warm_sandboxes = QUOTA;
    for (int i = 0; i < WATCHED; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        create_asleep(&r, &me, name);
    }
    for (int i = 0; i < WATCHED; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        start_op(&r, name, &watch_all, &w[i]);
    }
    for (int i = 0; i < PATIENCE; i++) {
        int n = count_cells(&r), begun = 0;
        most = n > most ? n : most;
        for (int k = 0; k < WATCHED; k++)
            begun += w[k].op && !w[k].op->acquire;
        if (begun == WATCHED && n == 0)
            break;
        turn(&r);
    }
    CHECK(most >= 1 && most <= QUOTA);
    for (int i = 0; i < WATCHED; i++) {
        CHECK(w[i].done == 0 && w[i].op && w[i].op->parked);
        dz_file_op_cancel(w[i].op);
    }
    r.e->quotas.warm_sandboxes = DZ_QUOTA_NONE;
    rig_close(&r);
}

/* --- the order of those that wait for files --------------------------------------------------- */

static const struct dz_cell_op list_bin = {.type = DZ_CELL_OP_LIST, .path = "/bin", .depth = 1};
static const struct dz_cell_op write_f = {.type = DZ_CELL_OP_WRITE, .path = "/f", .mode = 0644};

struct served {
    int *turns; /* of all */
    int turn, code;
    unsigned retry_s;
    struct dz_file_op *op;
    struct rig *then; /* who comes at the very moment when this one is over */
    struct served *late;
};

static void list_later(struct rig *r, const char *name, struct served *s);

static void on_served(void *arg, const struct dz_why *why, uint64_t count)
{
    struct served *s = arg;
    (void)count;
    s->turn = ++*s->turns;
    s->code = why ? why->err.code : 0;
    s->retry_s = why ? why->retry_s : 0;
    s->op = NULL;
    if (s->then)
        list_later(s->then, "s9", s->late);
}

static void on_served_data(void *arg, const void *data, size_t n)
{
    struct served *s = arg;
    (void)data;
    dz_file_op_ack(s->op, n);
}

static const struct dz_file_op_ops served_ops = {.data = on_served_data, .done = on_served};

static void ask_files(struct rig *r, const char *name, const struct dz_cell_op *op,
                      struct served *s)
{
    const struct dz_file_op_request request = {op, op->type == DZ_CELL_OP_WRITE,
                                               DZ_ACTIVITY_LIST_DIRECTORY, &served_ops, s};
    CHECK_INT(dz_control_op(r->e, box(name), &request, &s->op, &r->why), 0);
}

static void list_later(struct rig *r, const char *name, struct served *s)
{
    ask_files(r, name, &list_bin, s);
}

/* "s0" to "s9" sleep, and a tenant may have one open: "s0", whose client says nothing. */
static void at_the_quota(struct rig *r, struct served *silent)
{
    (void)alarm(60);
    rig_open(r);
    order_well(r, "a", DZ_REQUEST_SUSPEND);
    for (int i = 0; i < 10; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        create_asleep(r, &me, name);
    }
    r->e->quotas.warm_sandboxes = 1;
    ask_files(r, "s0", &write_f, silent);
    UNTIL(r, silent->op && silent->op->handle);
}

static void kill_cell_of(struct rig *r, const struct dz_file_op *op)
{
    UNTIL(r, dz_cell_pid(op->sandbox->cell) > 0);
    CHECK_INT(kill(dz_cell_pid(op->sandbox->cell), SIGKILL), 0);
}

TEST(a_newcomer_does_not_overtake_those_that_wait_for_the_quota)
{
    struct rig r;
    struct served s[10] = {0};
    int turns = 0;
    for (int i = 0; i < 10; i++)
        s[i].turns = &turns;
    s[0].then = &r;
    s[0].late = &s[9];
    at_the_quota(&r, &s[0]);
    for (int i = 1; i < 9; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        ask_files(&r, name, &list_bin, &s[i]);
    }
    turn(&r);
    CHECK(turns == 0 && s[0].op);
    kill_cell_of(&r, s[0].op); /* in the moment when it is over "s9" comes */
    UNTIL(&r, turns == 10);
    CHECK(s[0].turn == 1 && s[0].code < 0);
    for (int i = 1; i < 10; i++) {
        CHECK_INT(s[i].turn, i + 1);
        CHECK_INT(s[i].code, 0);
    }
    r.e->quotas.warm_sandboxes = DZ_QUOTA_NONE;
    rig_close(&r);
}

TEST(who_waits_too_long_for_the_quota_is_told_so)
{
    struct rig r;
    struct served s[3] = {0};
    int turns = 0;
    for (int i = 0; i < 3; i++)
        s[i].turns = &turns;
    at_the_quota(&r, &s[0]);
    r.e->sandboxes->files.wait_ms = 30;
    ask_files(&r, "s1", &list_bin, &s[1]);
    UNTIL(&r, turns > 0);
    CHECK(s[1].turn == 1 && s[1].code == DZ_EQUOTA && s[1].retry_s > 0 && s[0].op);
    r.e->sandboxes->files.wait_ms = 60000;
    ask_files(&r, "s2", &list_bin, &s[2]); /* one that leaves is not served */
    dz_file_op_cancel(s[2].op);
    CHECK(dz_list_empty(&r.e->sandboxes->files.waiting));
    ask_files(&r, "s1", &list_bin, &s[1]); /* and one that the daemon's end finds waiting */
    kill_cell_of(&r, s[0].op);
    rig_close(&r);
    CHECK(s[1].code == DZ_EBUSY && s[2].turn == 0);
}

/* The request for the files of "a", and the turn in which the start happened. */
static struct served *reader;
static int turn_at_start;

static void note_turn(void)
{
    turn_at_start = *reader->turns;
}

TEST(who_wants_files_of_a_busy_sandbox_is_served_in_its_turn)
{
    struct rig r;
    struct served s = {0};
    struct asker clone = {0}, run_after;
    int turns = 0;
    s.turns = &turns;
    reader = &s;
    turn_at_start = -1;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    first_thing = note_turn;
    first_in = &r;
    CHECK_INT(
        dz_control_clone(r.e, box("a"), &(struct dz_control_clone){0}, on_done, &clone, &r.why), 0);
    ask_files(&r, "a", &list_bin, &s);
    CHECK_INT(run(&r, "a", "h", &run_after), 0); /* it stands behind the reader */
    UNTIL(&r, run_after.ended + run_after.failed > 0 && turns > 0);
    first_in = NULL;
    CHECK(clone.done == 1 && run_after.ended == 1);
    CHECK_INT(s.code, 0);
    CHECK_INT(turn_at_start, 1);
    rig_close(&r);
}

/* However others keep it busy: not after all of them. */
TEST(who_wants_files_of_a_sandbox_that_is_never_idle_is_served)
{
    struct rig r;
    struct served s = {0};
    struct asker order_of[2];
    enum dz_request next[2] = {DZ_REQUEST_WAKE, DZ_REQUEST_SUSPEND};
    int turns = 0, orders = 0;
    s.turns = &turns;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    CHECK_INT(order(&r, "a", DZ_REQUEST_FREEZE, &order_of[0]), 0);
    CHECK_INT(order(&r, "a", DZ_REQUEST_FREEZE, &order_of[1]), 0);
    list_later(&r, "a", &s);
    while (turns == 0 && orders < 40) { /* there is always something in line */
        for (int i = 0; i < 2; i++)
            if (order_of[i].done > 0 && order(&r, "a", next[i], &order_of[i]) == 0)
                orders++;
        turn(&r);
    }
    CHECK_INT(turns, 1);
    CHECK_INT(s.code, 0);
    CHECK(orders < 40);
    rig_close(&r);
}

/* The end of the machine's cell gives the sandbox to who stands in line, and takes it from nobody.
 */
TEST(who_wants_files_of_a_sandbox_that_falls_asleep_has_it_reserved)
{
    struct rig r;
    struct served s = {0};
    struct asker suspend;
    int turns = 0;
    s.turns = &turns;
    (void)alarm(60);
    rig_open(&r);
    run_well(&r, "a");
    CHECK_INT(order(&r, "a", DZ_REQUEST_SUSPEND, &suspend), 0);
    list_later(&r, "a", &s);
    UNTIL(&r, suspend.done > 0 && turns > 0);
    CHECK(suspend.code == 0 && s.code == 0);
    CHECK(only(&r) && only(&r)->cell && only(&r)->reserved);
    order_well(&r, "a", DZ_REQUEST_FREEZE);
    rig_close(&r);
}

/* The clock asks for a sandbox whose file a cell has; another request comes before the wake. */
TEST(a_cell_that_makes_way_for_a_wake_is_in_nobodys_way)
{
    struct rig r;
    struct served s = {0};
    int turns = 0;
    s.turns = &turns;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    list_later(&r, "a", &s);
    UNTIL(&r, turns > 0);
    CHECK(only(&r) && only(&r)->phase == DZ_PHASE_FILES && only(&r)->reserved);
    dz_sandbox_yield_file(r.e->sandboxes, only(&r)->id, DZ_REQUEST_SUSPEND);
    order_well(&r, "a", DZ_REQUEST_FREEZE);
    CHECK_INT(r.e->sandboxes->map.count, 0);
    rig_close(&r);
}

TEST(who_waits_too_long_for_a_busy_sandbox_is_told_so)
{
    struct rig r;
    struct served silent = {0}, s = {0};
    struct asker freeze;
    int turns = 0;
    silent.turns = s.turns = &turns;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    ask_files(&r, "a", &write_f, &silent);
    UNTIL(&r, silent.op && silent.op->handle);
    CHECK_INT(order(&r, "a", DZ_REQUEST_FREEZE, &freeze), 0); /* it waits for the silent one */
    r.e->sandboxes->files.wait_ms = 30;
    list_later(&r, "a", &s);
    UNTIL(&r, turns > 0);
    CHECK(s.turn == 1 && s.code == DZ_EBUSY && s.retry_s > 0 && silent.op && freeze.done == 0);
    dz_file_op_cancel(silent.op);
    UNTIL(&r, freeze.done > 0);
    rig_close(&r);
}
