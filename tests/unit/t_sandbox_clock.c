/* SPDX-License-Identifier: MIT
 * Setting the wall's clock changes no duration: idleness, freeze, silence, holds, timeouts, a
 * guest's sleep, a retry. Each is tested with steps of a month, forward and back. */
#include "tap.h"

#include "../lib/sandbox_rig.h"

#define MIN   ((int64_t)60 * 1000)
#define MONTH (30 * 24 * 60 * MIN)

static const int64_t steps[] = {MONTH, -MONTH, 2 * 60 * MIN, -2 * 60 * MIN};

static void set_wall(struct rig *r, int64_t by_ms)
{
    dz_clock_set_real(&r->clock, r->clock.real_ns + by_ms * DZ_NS_PER_MS);
}

static void open_awake(struct rig *r, const struct dz_instance *row)
{
    struct rig_reply reply;
    rig_open(r);
    CHECK_INT(dz_sandbox_register(r->k, row, NULL), 0);
    CHECK_INT(rig_submit(r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(r, 100);
    CHECK_STR(rig_row(r, "a"), "active/running/");
}

/* It is in one state two seconds before `at`, and in another two seconds after it; the wall's clock
 * is set half way. */
static void expect_at(struct rig *r, int64_t at, int64_t step, const char *before,
                      const char *after)
{
    rig_pass(r, at / 2);
    set_wall(r, step);
    rig_pass(r, at - at / 2 - 2000);
    CHECK_STR(rig_row(r, "a"), before);
    rig_pass(r, 4000);
    CHECK_STR(rig_row(r, "a"), after);
}

TEST(idleness_is_not_changed_by_the_walls_clock)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(steps); i++) {
        struct rig r;
        const struct dz_instance row = {
            .id = "a", .tenant = "acme", .suspend_ms = 10 * MIN, .freeze_ms = 60 * MIN};
        open_awake(&r, &row);
        expect_at(&r, 10 * MIN, steps[i], "active/running/", "suspended//");
        expect_at(&r, 60 * MIN - 2000, steps[i], "suspended//", "frozen//");
        rig_close(&r);
    }
}

TEST(activity_after_a_step_counts)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(steps); i++) {
        struct rig r;
        const struct dz_instance row = {.id = "a", .tenant = "acme", .suspend_ms = 10 * MIN};
        open_awake(&r, &row);
        rig_pass(&r, 8 * MIN);
        set_wall(&r, steps[i]);
        dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_EXEC);
        expect_at(&r, 10 * MIN, -steps[i], "active/running/", "suspended//");
        rig_close(&r);
    }
}

TEST(a_timeout_is_not_changed_by_the_walls_clock)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(steps); i++) {
        struct rig r;
        struct rig_reply reply;
        const struct dz_instance row = {
            .id = "a", .tenant = "acme", .suspend_ms = DZ_IDLE_OFF, .timeout_ms = 20 * MIN};
        open_awake(&r, &row);
        rig_pass(&r, 8 * MIN);
        set_wall(&r, steps[i]);
        CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
        rig_pass(&r, MIN);
        set_wall(&r, steps[i]);
        CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &reply), 0); /* the rest: twelve minutes */
        expect_at(&r, 12 * MIN, -steps[i], "active/running/", "gone");
        rig_close(&r);
    }
}

TEST(a_hold_is_not_changed_by_the_walls_clock)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(steps); i++) {
        struct rig r;
        const struct dz_instance row = {.id = "a", .tenant = "acme", .suspend_ms = MIN};
        open_awake(&r, &row);
        CHECK_INT(dz_sandbox_hold(r.k, "a", dz_clock_real_ms() + 30 * MIN, NULL), 0);
        expect_at(&r, 30 * MIN, steps[i], "active/running/", "suspended//");
        rig_close(&r);
    }
}

TEST(a_silent_connection_is_not_changed_by_the_walls_clock)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(steps); i++) {
        struct rig r;
        const struct dz_instance row = {.id = "a", .tenant = "acme", .idle_mode = "connections"};
        open_awake(&r, &row);
        rig_set_idle(&r, "a", "{\"connection_silence_ms\":600000}");
        dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_OPEN);
        expect_at(&r, 10 * MIN, steps[i], "active/running/", "suspended//");
        rig_close(&r);
    }
}

TEST(a_guest_sleeps_as_long_as_it_wanted)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(steps); i++) {
        struct rig r;
        struct rig_reply reply;
        const struct dz_instance row = {.id = "a", .tenant = "acme"};
        open_awake(&r, &row);
        r.wake_at = dz_clock_real_ms() + 40 * MIN;
        CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
        rig_pass(&r, 100);
        r.wake_at = 0;
        expect_at(&r, 40 * MIN, steps[i], "suspended//", "active/running/");
        rig_close(&r);
    }
}

TEST(a_retry_is_not_changed_by_the_walls_clock)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(steps); i++) {
        struct rig r;
        const struct dz_instance row = {.id = "a", .tenant = "acme", .suspend_ms = MIN};
        open_awake(&r, &row);
        r.stop_code = DZ_EIO;
        r.stop_alive = true;
        rig_pass(&r, MIN);
        CHECK_STR(rig_row(&r, "a"), "active/error/");
        r.stop_code = 0;
        expect_at(&r, MIN, steps[i], "active/error/", "suspended//");
        rig_close(&r);
    }
}

TEST(an_expiry_is_a_date_and_follows_the_walls_clock)
{
    struct rig r;
    rig_open(&r);
    const struct dz_instance row = {
        .id = "a", .tenant = "acme", .expires = dz_clock_real_ms() + 24 * 60 * MIN};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    rig_pass(&r, 60 * MIN);
    set_wall(&r, 22 * 60 * MIN); /* an hour is left */
    rig_pass(&r, 50 * MIN);
    CHECK_INT(rig_events(&r, "expired"), 0);
    rig_pass(&r, 11 * MIN);
    CHECK_INT(rig_events(&r, "expired"), 1);
    rig_close(&r);
}

TEST(a_daemon_that_starts_again_goes_on_with_the_clock)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(steps); i++) {
        struct rig r;
        struct rig_reply reply;
        const struct dz_instance row = {.id = "a", .tenant = "acme", .freeze_ms = 60 * MIN};
        open_awake(&r, &row);
        CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
        rig_pass(&r, 30 * MIN);
        set_wall(&r, steps[i]);
        r.kept.same_boot = true;
        rig_crash(&r);
        rig_pass(&r, 25 * MIN);
        CHECK_STR(rig_row(&r, "a"), "suspended//");
        rig_pass(&r, 6 * MIN);
        CHECK_STR(rig_row(&r, "a"), "frozen//");
        rig_close(&r);
    }
}

/* After a restart of the machine the wall's clock may be wrong at first: what was left is left. */
TEST(a_machine_that_starts_with_a_wrong_date_does_not_turn_time_back)
{
    struct rig r;
    struct rig_reply reply;
    const struct dz_instance row = {.id = "a", .tenant = "acme", .freeze_ms = 60 * MIN};
    open_awake(&r, &row);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 30 * MIN);
    set_wall(&r, -MONTH);
    r.kept.same_boot = false;
    rig_crash(&r);
    rig_pass(&r, 61 * MIN);
    CHECK_STR(rig_row(&r, "a"), "frozen//");
    rig_close(&r);
}
