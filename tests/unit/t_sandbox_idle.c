/* SPDX-License-Identifier: MIT
 * What keeps a sandbox awake, and what puts it down: connections, silence, the guest's own
 * work and sleep, and who has the file of one that is to be woken. */
#include "tap.h"

#include "../lib/sandbox_rig.h"
#include "sandbox/sandbox_int.h"

#define MIN ((int64_t)60 * 1000)

/* "a" was woken, and ms have passed. */
static void awake(struct rig *r, struct rig_reply *reply, int64_t ms)
{
    rig_open(r);
    rig_register(r, "a");
    CHECK_INT(rig_submit(r, DZ_REQUEST_WAKE, "a", reply), 0);
    rig_pass(r, ms);
}

TEST(who_reads_a_sleeping_file_makes_way_when_its_guest_is_to_be_woken)
{
    struct rig r;
    struct rig_reply reply;
    awake(&r, &reply, 1000);
    r.wake_at = dz_clock_real_ms() + 10 * MIN;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 1000);
    r.wake_at = 0;
    rig_reserve(&r, "a");
    rig_pass(&r, 9 * MIN);
    int64_t version = rig_version(&r, "a");
    rig_pass(&r, 2 * MIN); /* looked at now and then, and its line has the wake */
    CHECK(rig_version(&r, "a") > version + 1 && rig_version(&r, "a") <= version + 70);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    dz_sandbox_unreserve(r.k, "a");
    rig_pass(&r, 2000);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_close(&r);
}

/* Also by the time limit of a command, for which somebody may wait. */
TEST(a_guest_whose_file_was_frozen_is_woken_at_its_deadline)
{
    struct rig r;
    struct rig_reply reply;
    awake(&r, &reply, 1000);
    r.wake_at = dz_clock_real_ms() + 10 * MIN;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 1000);
    r.wake_at = 0;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FREEZE, "a", &reply), 0);
    rig_pass(&r, 9 * MIN);
    CHECK_STR(rig_row(&r, "a"), "frozen//");
    rig_pass(&r, 2 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 30 * MIN);
    CHECK_INT(r.starts, 2);
    rig_close(&r);
}

TEST(a_guest_whose_file_cannot_be_frozen_is_woken_at_its_deadline)
{
    const struct dz_instance row = {.id = "a", .tenant = "acme", .freeze_ms = MIN};
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 1000);
    r.wake_at = dz_clock_real_ms() + 4 * MIN;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 1000);
    r.wake_at = 0;
    CHECK_INT(dz_fd_replace(AT_FDCWD, rig_path(&r, "live", "a.doze-wal"), "w", 1, 0600, NULL), 0);
    r.settle_busy = 1000;
    rig_pass(&r, 3 * MIN); /* that was tried after one minute, and after one more */
    CHECK_STR(rig_row(&r, "a"), "suspended/error/");
    rig_pass(&r, MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_close(&r);
}

TEST(a_guest_whose_wake_the_quota_refuses_is_woken_soon_after)
{
    struct rig r;
    struct rig_reply reply;
    awake(&r, &reply, 1000);
    r.wake_at = dz_clock_real_ms() + 10 * MIN;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 10 * MIN - 1000);
    r.start_code = DZ_EQUOTA;
    rig_pass(&r, 2000 + 2000 + 4000 - 500);
    CHECK_STR(rig_row(&r, "a"), "suspended/error/");
    CHECK_INT(r.starts, 1 + 3);
    r.start_code = 0;
    rig_pass(&r, 9000);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_close(&r);
}

TEST(a_guest_that_says_that_it_only_sleeps_is_put_down_and_woken_in_time)
{
    struct rig r;
    struct rig_reply reply;
    awake(&r, &reply, 100);
    rig_set_idle(&r, "a", "{\"auto_resume\":false}");
    r.wake_at = dz_clock_real_ms() + MIN;
    dz_sandbox_guest_sleeps(r.k, "a", r.wake_at);
    rig_pass(&r, 5000);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_set_idle(&r, "a", NULL);
    dz_sandbox_guest_sleeps(r.k, "a", 0);
    dz_sandbox_guest_sleeps(r.k, "a", r.wake_at);
    rig_pass(&r, 500);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_pass(&r, 50000);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_pass(&r, 5000);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    dz_sandbox_guest_sleeps(r.k, "a", dz_clock_real_ms() + 5000); /* not worth it */
    rig_pass(&r, 10000);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_close(&r);
}

TEST(a_guest_put_down_while_it_computes_goes_on_at_once_where_that_counts)
{
    struct rig r;
    struct rig_reply reply;
    awake(&r, &reply, 100);
    r.busy = true;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0); /* somebody wants it to sleep */
    rig_pass(&r, 60 * MIN);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 1000);
    CHECK_INT(r.starts, 2);

    r.may_resume = true;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 1000);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_INT(r.starts, 3);

    rig_set_idle(&r, "a", "{\"count_cpu\":false}");
    r.wake_at = dz_clock_real_ms() + 10 * MIN; /* another process waits for this */
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 9 * MIN);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_pass(&r, 2 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");

    r.wake_at = 0;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 60 * MIN);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK_INT(r.starts, 4);
    rig_close(&r);
}

TEST(silence_and_cpu_are_counted_as_the_row_says)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    const struct dz_instance row = {.id = "a", .tenant = "acme", .idle_mode = "connections"};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 1000);
    rig_set_idle(&r, "a", "{\"connection_silence_ms\":30000}");
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_OPEN);
    rig_pass(&r, 20000);
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_KEEPALIVE);
    rig_pass(&r, 20000);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_pass(&r, 11000);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    const struct dz_instance busy = {.id = "b", .tenant = "acme", .suspend_ms = 10000};
    CHECK_INT(dz_sandbox_register(r.k, &busy, NULL), 0);
    for (int i = 0; i < 2; i++) {
        rig_set_idle(&r, "b", i == 1 ? "{\"count_cpu\":false}" : NULL);
        CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "b", &reply), 0);
        for (int n = 0; n < 15; n++) {
            rig_pass(&r, 1000);
            dz_sandbox_touch(r.k, "b", DZ_ACTIVITY_GUEST_CPU);
        }
        CHECK_STR(rig_row(&r, "b"), i == 0 ? "active/running/" : "suspended//");
    }
    rig_close(&r);
}

TEST(connections_keep_it_awake_and_their_end_counts_at_once)
{
    struct rig r;
    rig_open(&r);
    const struct dz_instance row = {.id = "a", .tenant = "acme", .idle_mode = "connections"};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    struct rig_reply reply;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 1000);
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_OPEN);
    for (int i = 0; i < 10; i++) {
        rig_pass(&r, 10 * MIN);
        dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_BYTE);
    }
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_CLOSE);
    rig_pass(&r, 14000);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_pass(&r, 2000);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_close(&r);
}

TEST(a_hold_that_is_given_up_ends_at_once)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    const struct dz_instance row = {.id = "a", .tenant = "acme", .suspend_ms = MIN};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 1000);
    CHECK_INT(dz_sandbox_hold(r.k, "a", dz_clock_real_ms() + 30 * MIN, NULL), 0);
    rig_pass(&r, 5 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_INT(dz_sandbox_hold(r.k, "a", 0, NULL), 0);
    rig_pass(&r, 1000);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_close(&r);
}

static void set_suspend_ms(struct rig *r, const char *id, int64_t ms)
{
    rig_change(r, id, DZ_COLUMN(suspend_ms), (struct dz_instance){.suspend_ms = ms});
}

/* The mode is one of what is known of an awake sandbox, and is new from the change on. */
TEST(a_mode_that_is_set_while_awake_counts_at_once)
{
    struct rig r;
    struct rig_reply reply;
    awake(&r, &reply, 100);
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_GUEST_CPU);
    rig_change(&r, "a", DZ_COLUMN(idle_mode), (struct dz_instance){.idle_mode = "connections"});
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_OPEN);
    for (int i = 0; i < 20; i++) {
        rig_pass(&r, 30000);
        dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_KEEPALIVE);
    }
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_CLOSE);
    rig_pass(&r, DZ_IDLE_CONNECTION_LAG_MS + 1000);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_close(&r);
}

static const struct dz_registry_ops *real_ops;
static int reads, writes;

static int counted_change(struct dz_registry *r, const struct dz_registry_change *c,
                          struct dz_err *err)
{
    writes++;
    return real_ops->change(r, c, err);
}

static int counted_get(struct dz_registry *r, const char *id, struct dz_instance *ret_row,
                       struct dz_err *err)
{
    reads++;
    return real_ops->get(r, id, ret_row, err);
}

/* Guests report each second, and of what their rows say nothing changes. What others write into a
 * row meanwhile does not keep a report from the next write. */
TEST(a_busy_guest_is_not_looked_up_with_each_report)
{
    struct rig r;
    struct rig_reply reply;
    struct dz_instance row = {0};
    awake(&r, &reply, 100);
    real_ops = r.registry->ops;
    struct dz_registry_ops ops = *real_ops;
    ops.get = counted_get;
    ops.change = counted_change;
    r.registry->ops = &ops;
    reads = writes = 0;
    for (int i = 0; i < 100; i++) {
        dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_GUEST_CPU);
        rig_pass(&r, 1000);
    }
    CHECK_INT(reads, 0);
    CHECK_INT(writes, 0); /* its activity is written when its row is due */
    r.registry->ops = real_ops;

    r.wake_at = dz_clock_real_ms() + MIN;
    CHECK_INT(dz_registry_get(r.registry, "a", &row, NULL), 0);
    const struct dz_instance to = {.metadata = "{}"};
    const struct dz_registry_change c = {.id = "a",
                                         .version = row.version,
                                         .epoch = row.epoch,
                                         .set = DZ_COLUMN(metadata),
                                         .to = &to};
    CHECK_INT(dz_registry_change(r.registry, &c, NULL), 0);
    dz_instance_release(&row);
    dz_sandbox_guest_sleeps(r.k, "a", r.wake_at);
    rig_pass(&r, 2000);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_close(&r);
}

/* A change of the name, and before it one of another process. */
struct rivals {
    struct rig *r;
    int tries;
};

static int fill_second(void *arg, const struct dz_instance *row, struct dz_instance *to,
                       uint64_t *set, struct dz_err *err)
{
    struct rivals *v = arg;
    const struct dz_instance other = {.metadata = "{}"};
    const struct dz_registry_change c = {.id = row->id,
                                         .version = row->version,
                                         .epoch = row->epoch,
                                         .set = DZ_COLUMN(metadata),
                                         .to = &other};
    if (v->tries++ == 0)
        CHECK_INT(dz_registry_change(v->r->registry, &c, err), 0);
    to->name = "web";
    *set = DZ_COLUMN(name);
    return 0;
}

TEST(a_change_that_comes_second_is_made_of_the_row_as_it_is_then)
{
    struct rig r;
    struct rig_reply reply;
    struct dz_instance row = {0};
    awake(&r, &reply, 100);
    struct rivals v = {.r = &r};
    const struct dz_sandbox_update u = {.id = "a", .fill = fill_second, .arg = &v};
    CHECK_INT(dz_sandbox_update(r.k, &u, &row, NULL), 0);
    CHECK_INT(v.tries, 2);
    CHECK_STR(row.name, "web");
    CHECK_STR(row.metadata, "{}");
    dz_instance_release(&row);
    rig_close(&r);
}

TEST(nobody_moves_a_sandbox_to_a_state_that_it_cannot_reach_from_its_own)
{
    struct rig r;
    struct rig_reply reply;
    struct dz_err err;
    awake(&r, &reply, 100);
    struct rig_columns c = {.set = DZ_COLUMN(state), .to = {.state = "created"}};
    const struct dz_sandbox_update u = {.id = "a", .fill = rig_fill, .arg = &c};
    CHECK(dz_sandbox_update(r.k, &u, NULL, &err) < 0);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_close(&r);
}

/* Its JSON is parsed when it is first wanted, and when it changes. */
TEST(the_config_of_an_awake_sandbox_is_parsed_once)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    const struct dz_instance row = {.id = "a", .tenant = "acme", .suspend_ms = 60 * MIN};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    rig_bring(&r, "a", DZ_STATE_SUSPENDED);
    rig_pass(&r, 1000);
    uint64_t before = r.k->config_reads;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_GUEST_CPU);
    CHECK_INT(dz_sandbox_hold(r.k, "a", dz_clock_real_ms() + MIN, NULL), 0);
    CHECK_INT(dz_sandbox_timeout(r.k, "a", 90 * MIN, DZ_TIMEOUT_PAUSE, NULL), 0);
    rig_change(&r, "a", DZ_COLUMN(metadata), (struct dz_instance){.metadata = "{}"});
    CHECK_INT(r.k->config_reads, before + 1);
    rig_change(&r, "a", DZ_COLUMN(config), (struct dz_instance){.config = "{}"});
    CHECK_INT(r.k->config_reads, before + 2);
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
    CHECK_INT(r.k->config_reads, before + 2);
    rig_close(&r);
}

TEST(what_a_client_sets_during_a_wake_counts_from_that_wake_on)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    const struct dz_instance row = {.id = "a", .tenant = "acme", .suspend_ms = 60 * MIN};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    rig_bring(&r, "a", DZ_STATE_SUSPENDED);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    CHECK_INT(dz_sandboxes_busy(r.k), 1);
    set_suspend_ms(&r, "a", MIN);
    rig_pass(&r, 30000);
    CHECK_INT(reply.code, 0);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_pass(&r, MIN);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_close(&r);
}

/* What is left of a timeout stands still while the sandbox is asleep, however deep. */
TEST(what_is_left_of_a_timeout_survives_a_freeze)
{
    struct dz_instance row = {0};
    struct rig r;
    struct rig_reply reply;
    awake(&r, &reply, 1000);
    CHECK_INT(dz_sandbox_timeout(r.k, "a", 10 * MIN, DZ_TIMEOUT_PAUSE, NULL), 0);
    rig_pass(&r, 4 * MIN);
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_FREEZE, "a"), 0);
    rig_pass(&r, 60 * MIN);
    CHECK_INT(dz_registry_get(r.registry, "a", &row, NULL), 0);
    CHECK(row.timeout_at == 0 && row.timeout_left > 5 * MIN && row.timeout_left <= 6 * MIN);
    dz_instance_release(&row);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &reply), 0);
    rig_pass(&r, 5 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_pass(&r, 2 * MIN);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_close(&r);
}
