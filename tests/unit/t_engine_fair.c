/* SPDX-License-Identifier: MIT
 *
 * Progress and fairness of the engine: many wakes at once, and one tenant who must not hold up
 * another.
 */
#include "../lib/engine_rig.h"

#include "base/str.h"

enum {
    FLOOD = 300,
    TOGETHER_MAX = 64, /* machines that start at a time: STARTS_MAX of engine_start.c */
};

static const struct dz_engine_caller other = {.tenant = "other"};

static void create_asleep(struct rig *r, const struct dz_engine_caller *who, const char *name)
{
    struct asker a = {0};
    const struct dz_engine_spec spec = {.name = name, .image = "g", .idle_ms = DZ_LADDER_INHERIT};
    const struct dz_engine_order o = {.what = DZ_REQUEST_SUSPEND};
    CHECK_INT(dz_engine_create(r->e, who, &spec, on_done, &a, &r->why), 0);
    UNTIL(r, a.done == 1 && a.code == 0);
    CHECK_INT(dz_engine_order(r->e, (struct dz_engine_target){who, name}, &o, on_done, &a, &r->why),
              0);
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
    const struct dz_engine_exec exec = {.argv = argv};
    (void)alarm(100);
    rig_open(&r);
    create_flood(&r);
    create_asleep(&r, &other, "late");
    start_flood(&r, all);
    CHECK_INT(dz_engine_exec(r.e, (struct dz_engine_target){&other, "late"}, &exec,
                             (struct dz_engine_listener){.ops = &watch_ops, .arg = &late},
                             &late.watch, &r.why),
              0);
    int most = 0;
    CHECK_INT(r.e->starts.lines.count, 2);
    while (r.e->starts.lines.count == 2) { /* until the turn of the other tenant has come */
        int n = (int)r.e->starts.machines; /* without those that take over a second */
        most = n > most ? n : most;
        turn(&r);
    }
    CHECK(r.e->starts.queued > FLOOD / 4); /* who asked last is not served last */
    UNTIL(&r, late.ended + late.failed > 0);
    CHECK(late.ended == 1 && late.exit.exit_code == 3);
    for (int left = PATIENCE; left > 0 && count_over(all) < FLOOD; left--) {
        int n = (int)r.e->starts.machines; /* without those that take over a second */
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
    CHECK(r.e->starts.queued > 0);
    static struct asker gone[FLOOD];
    for (int i = FLOOD - 1; i >= 0; i--) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        CHECK_INT(order(&r, name, DZ_REQUEST_DESTROY, &gone[i]), 0);
    }
    CHECK_INT(r.e->starts.queued, 0);
    for (int i = 0; i < FLOOD; i++)
        UNTIL(&r, gone[i].done == 1 && all[i].ended + all[i].failed == 1);
    UNTIL(&r, r.e->boxes.count <= 1); /* of "a" */
    CHECK_INT(r.e->starts.machines, 0);
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
    CHECK(r.e->starts.queued > 0);
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
    dz_engine_op_took(a->op, n);
}

static void on_op_done(void *arg, const struct dz_engine_why *why, uint64_t count)
{
    struct asker *a = arg;
    (void)count;
    a->done++;
    a->code = why ? why->err.code : 0;
    a->op = NULL;
}

static const struct dz_engine_op_ops op_ops = {.data = on_op_data, .done = on_op_done};

static void start_op(struct rig *r, const char *name, const struct dz_cell_op *op, struct asker *a)
{
    const struct dz_engine_op_request request = {op, op->type != DZ_CELL_OP_WATCH,
                                                 DZ_ACTIVITY_EVENT_STREAM, &op_ops, a};
    *a = (struct asker){0};
    CHECK_INT(dz_engine_op(r->e, box(name), &request, &a->op, &r->why), 0);
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
    CHECK_INT(r.e->boxes.count, 0);
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
    struct box *b = w.op->box;
    CHECK(b->phase == BOX_UP && ended.op != 0);
    b->pins++;
    dz_op_event(b, &ended);
    b->pins--;
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
    UNTIL(&r, dz_engine_op_send(w.op, "x", 1) == 1);
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
    DZ_MAP_FOREACH(it, &r->e->boxes)
        n += ((const struct box *)it->value)->cell != NULL;
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
            begun += w[k].op && !w[k].op->job;
        if (begun == WATCHED && n == 0)
            break;
        turn(&r);
    }
    CHECK(most >= 1 && most <= QUOTA);
    for (int i = 0; i < WATCHED; i++) {
        CHECK(w[i].done == 0 && w[i].op && w[i].op->parked);
        dz_engine_op_cancel(w[i].op);
    }
    r.e->quotas.warm_sandboxes = DZ_QUOTA_NONE;
    rig_close(&r);
}
