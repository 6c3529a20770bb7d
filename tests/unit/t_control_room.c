/* SPDX-License-Identifier: MIT
 *
 * Copies under way and the quota of disk space: however many are asked for at once, they count from
 * the moment that they are, and what they were to take is given back when they have failed.
 */
#include "../lib/control_rig.h"

#include <sys/stat.h>

enum {
    ASKED = 10,
    FIT = 3, /* of them */
};

static const struct dz_control_caller op = {.tenant = "acme", .is_operator = true};

struct copies {
    struct asker all[2 * ASKED];
    int taken, refused;
};

static void on_snap(void *arg, const struct dz_snapshot_row *row, const struct dz_why *why)
{
    struct asker *a = arg;
    a->done++;
    a->code = why ? why->err.code : 0;
    a->bytes = row ? (size_t)row->size : 0;
}

/* Of "a", by this name: its size. */
static uint64_t snapshot_as(struct rig *r, const char *name)
{
    const struct dz_control_handle as = {.name = name};
    struct asker a = {0};
    CHECK_INT(dz_control_snapshot(r->e, box("a"), &as, on_snap, &a, &r->why), 0);
    UNTIL(r, a.done > 0);
    CHECK_INT(a.code, 0);
    return a.bytes;
}

static uint64_t used(struct rig *r)
{
    struct dz_control_quota_state s = {0};
    CHECK_INT(dz_control_quotas(r->e, &op, "acme", &s, &r->why), 0);
    dz_usages_measure(r->e);
    CHECK_INT(dz_control_quotas(r->e, &op, "acme", &s, &r->why), 0);
    CHECK(s.measured);
    return s.used.disk_bytes;
}

/* Room for FIT files of this size, and half of one. */
static void allow(struct rig *r, uint64_t size)
{
    r->e->quotas.disk_bytes = used(r) + FIT * size + size / 2;
}

static void ask(struct copies *c, int rc)
{
    CHECK(rc == 0 || rc == DZ_EQUOTA);
    c->taken += rc == 0;
    c->refused += rc != 0;
}

static void until_done(struct rig *r, const struct asker *all, int n, int code)
{
    for (int i = 0; i < n; i++) {
        UNTIL(r, all[i].done > 0);
        CHECK_INT(all[i].code, code);
    }
}

static void branch(struct rig *r, struct copies *c, const char *name)
{
    const struct dz_control_spec spec = {
        .snapshot = "s", .name = name, .idle_ms = DZ_IDLE_INHERIT, .no_start = true};
    ask(c, dz_control_create(r->e, &me, &spec, on_done, &c->all[c->taken], &r->why));
}

TEST(branches_under_way_count)
{
    struct copies c = {0};
    struct rig r;
    rig_open(&r);
    run_well(&r, "a");
    allow(&r, snapshot_as(&r, "s"));
    uint64_t most = r.e->quotas.disk_bytes;
    for (int i = 0; i < ASKED; i++)
        branch(&r, &c, NULL);
    CHECK_INT(c.taken, FIT);
    until_done(&r, c.all, c.taken, 0);
    int taken = c.taken;
    for (int i = 0; i < ASKED; i++) /* before anything is measured again */
        branch(&r, &c, NULL);
    CHECK_INT(c.taken, taken);
    CHECK(used(&r) <= most);
    rig_close(&r);
}

TEST(branches_that_fail_give_back_what_they_were_to_take)
{
    struct rig r;
    rig_open(&r);
    run_well(&r, "a");
    allow(&r, snapshot_as(&r, "s"));
    for (int round = 0; round < 3; round++) {
        struct copies c = {0};
        for (int i = 0; i < ASKED; i++)
            branch(&r, &c, "a"); /* there is one, as is found when the file has been copied */
        CHECK_INT(c.taken, FIT);
        until_done(&r, c.all, c.taken, DZ_EEXIST);
    }
    rig_close(&r);
}

TEST(clones_under_way_count)
{
    static const struct dz_control_clone clone = {0};
    struct copies c = {0};
    struct dz_instance row = {0};
    struct rig r;
    rig_open(&r);
    run_well(&r, "a");
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    UNTIL(&r, dz_list_empty(&r.e->sandboxes->exiting));
    CHECK_INT(dz_control_get(r.e, box("a"), &row, &r.why), 0);
    allow(&r, dz_control_file_bytes(r.e, &row));
    dz_instance_release(&row);
    for (int i = 0; i < ASKED; i++)
        ask(&c, dz_control_clone(r.e, box("a"), &clone, on_done, &c.all[c.taken], &r.why));
    CHECK_INT(c.taken, FIT);
    until_done(&r, c.all, c.taken, 0);
    rig_close(&r);
}

/* Each is there, or has failed with this; those that fitted are there. */
static void until_all_done(struct rig *r, const struct copies *c, int code)
{
    int kept = 0;
    for (int i = 0; i < c->taken; i++) {
        UNTIL(r, c->all[i].done > 0);
        CHECK(c->all[i].code == 0 || c->all[i].code == code);
        kept += c->all[i].code == 0;
    }
    CHECK(code == DZ_EQUOTA ? kept >= FIT && kept < c->taken : kept == 0);
}

static void snapshots(struct rig *r, struct copies *c)
{
    static const struct dz_control_handle as = {0};
    for (int i = 0; i < ASKED; i++)
        ask(c, dz_control_snapshot(r->e, box("a"), &as, on_snap, &c->all[c->taken], &r->why));
}

struct killer {
    struct rig *r;
    uint64_t before;
    struct dz_loop_task task;
};

/* Behind the requests: the cell has been asked for the first, and the others wait for it. */
static void on_kill(void *arg)
{
    const struct killer *k = arg;
    const struct dz_control *e = k->r->e;
    CHECK(e->space.promised > 0);
    CHECK(k->before + e->space.promised <= e->quotas.disk_bytes);
    CHECK_INT(kill(dz_cell_pid(only(k->r)->cell), SIGKILL), 0);
}

TEST(snapshots_under_way_count_also_when_their_cell_dies)
{
    struct dz_instance row = {0};
    struct rig r;
    rig_open(&r);
    run_well(&r, "a");
    for (int round = 0; round < 3; round++) {
        struct copies c = {0};
        CHECK_INT(dz_control_get(r.e, box("a"), &row, &r.why), 0);
        allow(&r, dz_control_file_bytes(r.e, &row));
        dz_instance_release(&row);
        uint64_t before = used(&r);
        struct killer killer = {.r = &r, .before = before};
        dz_loop_task_init(&killer.task, &killer, on_kill, &killer);
        int32_t pid = dz_cell_pid(only(&r)->cell);
        CHECK_INT(kill(pid, SIGSTOP), 0); /* else it may have made the first already */
        snapshots(&r, &c);
        if (round < 2)
            dz_loop_post(r.loop, &killer.task);
        CHECK_INT(c.taken, ASKED);
        UNTIL(&r, round < 2 || r.e->space.promised > 0);
        CHECK(before + r.e->space.promised <= r.e->quotas.disk_bytes);
        if (round == 2)
            CHECK_INT(kill(pid, SIGCONT), 0);
        until_all_done(&r, &c, round < 2 ? DZ_EDIED : DZ_EQUOTA);
        CHECK_INT(r.e->space.promised, 0);
        UNTIL(&r, round == 2 || in_state(&r, "a", "suspended"));
        run_well(&r, "a");
    }
    rig_close(&r);
}

/* Of one sandbox one is made at a time: the others hold no room, for him or for others. */
TEST(snapshots_that_wait_hold_no_room)
{
    struct dz_instance row = {0};
    struct copies c = {0};
    struct rig r;
    rig_open(&r);
    run_well(&r, "a");
    CHECK_INT(dz_control_get(r.e, box("a"), &row, &r.why), 0);
    uint64_t size = dz_control_file_bytes(r.e, &row);
    dz_instance_release(&row);
    int32_t pid = dz_cell_pid(only(&r)->cell);
    CHECK_INT(kill(pid, SIGSTOP), 0);
    snapshots(&r, &c);
    CHECK_INT(c.taken, ASKED);
    UNTIL(&r, r.e->space.promised > 0);
    CHECK(r.e->space.promised < 2 * size);
    CHECK_INT(kill(pid, SIGCONT), 0);
    until_done(&r, c.all, c.taken, 0);
    CHECK_INT(r.e->space.promised, 0);
    rig_close(&r);
}

/* A daemon that has just started knows of no file yet. */
TEST(a_quota_holds_before_anything_was_measured)
{
    struct copies c = {0};
    struct rig r;
    rig_open(&r);
    run_well(&r, "a");
    (void)snapshot_as(&r, "s");
    r.e->quotas.disk_bytes = 1;
    for (int i = 0; i < ASKED; i++)
        branch(&r, &c, NULL);
    CHECK_INT(c.taken, 0);
    rig_close(&r);
}

/* Of the file system, too: each of them alone would leave enough. */
TEST(what_is_promised_is_not_free)
{
    struct dz_control_space now;
    struct dz_room one, other;
    struct rig r;
    rig_open(&r);
    dz_control_space(r.e, &now);
    struct dz_room_of half = {.tenant = "acme", .bytes = now.free_bytes / 2};
    struct dz_room_of more = {.tenant = "other", .bytes = now.free_bytes / 4 * 3};
    r.e->space.shares = false;
    CHECK_INT(dz_room_take(r.e, &half, &one, &r.why), 0);
    CHECK_INT(dz_room_take(r.e, &more, &other, &r.why), DZ_ENOSPC);
    CHECK_INT(dz_room_resize(&one, more.bytes + half.bytes, &r.why), DZ_ENOSPC);
    CHECK_INT(one.bytes, half.bytes);
    CHECK_INT(dz_room_resize(&one, half.bytes / 4, &r.why), 0);
    CHECK_INT(dz_room_take(r.e, &more, &other, &r.why), 0);
    dz_room_end(&other, false);
    dz_room_end(&other, false); /* once is enough */
    CHECK_INT(dz_room_resize(&one, half.bytes, &r.why), 0);
    r.e->space.shares = more.shared = true; /* its blocks are there already */
    CHECK_INT(dz_room_take(r.e, &more, &other, &r.why), 0);
    dz_room_end(&other, true);
    dz_room_end(&one, true);
    CHECK_INT(r.e->space.promised, 0);
    rig_close(&r);
}
