/* SPDX-License-Identifier: MIT
 * Sandboxes that expire: when, what is still possible then, and that they are removed. */
#include "tap.h"

#include "../lib/sandbox_rig.h"
#include "sandbox/sandbox_int.h"

#define MIN ((int64_t)60 * 1000)

static struct dz_instance rig_get(struct rig *r, const char *id)
{
    struct dz_instance row = {0};
    CHECK_INT(dz_registry_get(r->registry, id, &row, NULL), 0);
    return row;
}

TEST(a_sandbox_that_expires_is_stopped_at_once_and_removed_five_minutes_later)
{
    struct rig r;
    struct rig_reply reply = {0};
    rig_open(&r);
    const struct dz_instance row = {.id = "a",
                                    .tenant = "acme",
                                    .suspend_ms = 10 * MIN,
                                    .freeze_ms = 60 * MIN,
                                    .config = "{\"expiry\":{\"max_age_ms\":300000}}"};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 5 * MIN - 1000);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    r.wake_at = dz_clock_real_ms() + 2 * MIN; /* the guest has a timer */
    rig_pass(&r, 3000);
    CHECK_INT(rig_events(&r, "expired"), 1);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK_STR(rig_text(&r, "live", "a.doze"), "new+-"); /* its memory was not kept */
    struct dz_instance after = rig_get(&r, "a");
    CHECK_INT(after.deployment_is, DZ_DEPLOYMENT_TERMINATED);
    int64_t left = dz_sandboxes_expires(r.k, &after) - dz_clock_real_ms();
    CHECK(left > 4 * MIN && left <= 5 * MIN);
    dz_instance_release(&after);
    /* there is no way back */
    const enum dz_request refused[] = {DZ_REQUEST_WAKE,    DZ_REQUEST_USE,      DZ_REQUEST_FREEZE,
                                       DZ_REQUEST_ARCHIVE, DZ_REQUEST_PREFETCH, DZ_REQUEST_FILES};
    for (size_t i = 0; i < DZ_ARRAY_LEN(refused); i++)
        CHECK_INT(rig_submit(&r, refused[i], "a", &reply), DZ_EGONE);
    rig_pass(&r, 4 * MIN);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK_INT(r.starts, 1);
    rig_pass(&r, MIN + 2000);
    CHECK_INT(dz_registry_get(r.registry, "a", &after, NULL), DZ_EGONE);
    CHECK_INT(rig_events(&r, "expired"), 1);
    rig_close(&r);
}

TEST(an_expiry_of_idleness_waits_while_it_is_active)
{
    struct rig r;
    struct rig_reply reply = {0};
    rig_open(&r);
    const struct dz_instance row = {.id = "a",
                                    .tenant = "acme",
                                    .suspend_ms = DZ_IDLE_OFF,
                                    .freeze_ms = MIN,
                                    .config = "{\"expiry\":{\"idle_ms\":3600000}}"};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 300 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_REQUEST);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 59 * MIN);
    CHECK_STR(rig_row(&r, "a"), "frozen//");
    CHECK_INT(rig_events(&r, "expired"), 0);
    rig_pass(&r, MIN + 1000);
    CHECK_INT(rig_events(&r, "expired"), 1);
    rig_pass(&r, 5 * MIN + 1000);
    struct dz_instance gone = {0};
    CHECK_INT(dz_registry_get(r.registry, "a", &gone, NULL), DZ_EGONE);
    rig_close(&r);
}

TEST(a_date_that_is_over_does_not_count_for_a_copy)
{
    struct rig r;
    rig_open(&r);
    const struct dz_instance row = {
        .id = "a", .tenant = "acme", .config = "{\"expiry\":{\"date_ms\":1000,\"idle_ms\":7000}}"};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    struct dz_instance made = rig_get(&r, "a");
    CHECK_INT(made.expires, 0);
    CHECK_INT(made.ttl_idle_ms, 7000);
    dz_instance_release(&made);
    rig_close(&r);
}

/* Pass the time until `at` (ms after the start of the day), and look at the state. */
static void at_is(struct rig *r, int64_t midnight, int64_t at, const char *state)
{
    rig_pass(r, midnight + at - dz_clock_real_ms());
    CHECK_STR(rig_row(r, "a"), state);
}

/* A day in the life of a sandbox with connections that expires after 24 hours without use: it is
 * suspended 15 seconds after its last connection has closed, and expires 24 hours after that, to
 * the millisecond. */
TEST(idleness_expires_a_day_after_the_suspend_that_followed_the_last_connection)
{
    const int64_t hour = 60 * MIN, day = 24 * hour;
    struct rig r;
    rig_open(&r);
    r.cell_ms = 0;
    const int64_t midnight = dz_clock_real_ms() / day * day + day;
    const struct dz_instance row = {.id = "a",
                                    .tenant = "acme",
                                    .idle_mode = "connections",
                                    .config = "{\"expiry\":{\"idle_ms\":86400000}}"};
    rig_pass(&r, midnight + hour - dz_clock_real_ms());
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    const int64_t use[][2] = {{hour + MIN, hour + 4 * MIN},
                              {4 * hour + 20 * MIN, 4 * hour + 21 * MIN}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(use); i++) {
        struct rig_reply reply = {0};
        at_is(&r, midnight, use[i][0], i == 0 ? "created//" : "suspended//");
        CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
        rig_pass(&r, 1000); /* until it is awake */
        dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_OPEN);
        at_is(&r, midnight, use[i][1], "active/running/");
        dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_CLOSE);
        at_is(&r, midnight, use[i][1] + 14999, "active/running/");
        at_is(&r, midnight, use[i][1] + 15000, "suspended//");
    }
    const int64_t end = day + 4 * hour + 21 * MIN + 15000;
    at_is(&r, midnight, end - 1, "suspended//");
    CHECK_INT(rig_events(&r, "expired"), 0);
    rig_pass(&r, 1);
    CHECK_INT(rig_events(&r, "expired"), 1);
    at_is(&r, midnight, end + 5 * MIN - 1, "suspended//");
    rig_pass(&r, 1000);
    CHECK_STR(rig_row(&r, "a"), "gone");
    rig_close(&r);
}
