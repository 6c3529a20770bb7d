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

/* The published example, and what happened here. A row of it is the moment at which the last
 * connection has closed; the suspend follows 15 seconds later. */
static void timeline_row(const char *when, const char *event, const char *published,
                         int64_t midnight, const char *ours)
{
    char now[DZ_RFC3339_TEXT];
    bool next_day = dz_clock_real_ms() - midnight >= 24 * 60 * MIN;
    (void)dz_rfc3339_print(dz_clock_real_ms(), now);
    now[strlen(now) - 1] = '\0';
    CHECK_STR(strchr(now, 'T') + 1, when);
    (void)printf("# %s%-9s %-40s %-22s %s\n", when, next_day ? " (+1 day)" : "", event, published,
                 ours);
}

/* The day in the life of a sandbox that the published document shows, to the millisecond: it has
 * connections, is suspended 15 seconds after the last one has closed, and expires 24 hours after
 * that. "Standby" is created or suspended. */
TEST(the_published_timeline_is_reproduced_to_the_millisecond)
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
    CHECK_STR(rig_row(&r, "a"), "created//");
    timeline_row("01:00:00.000", "created with ttl-idle: 24h", "Deployed -> Standby", midnight,
                 "created");
    static const struct {
        int64_t from, to;
        const char *opened, *closed;
    } uses[] = {
        {61 * MIN, 64 * MIN, "01:01:00.000", "01:04:00.000"},
        {260 * MIN, 261 * MIN, "04:20:00.000", "04:21:00.000"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(uses); i++) {
        struct rig_reply reply = {0};
        at_is(&r, midnight, uses[i].from, i == 0 ? "created//" : "suspended//");
        CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
        timeline_row(uses[i].opened, "received connection request", "Standby -> Active", midnight,
                     i == 0 ? "created -> active" : "suspended -> active");
        rig_pass(&r, 1000); /* until it is awake */
        dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_OPEN);
        at_is(&r, midnight, uses[i].to, "active/running/");
        dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_CONNECTION_CLOSE);
        timeline_row(uses[i].closed, "detected no active connection", "Active -> Standby", midnight,
                     "active -> suspended, 15 s later");
        at_is(&r, midnight, uses[i].to + 14999, "active/running/");
        at_is(&r, midnight, uses[i].to + 15000, "suspended//");
    }
    const int64_t end = day + 261 * MIN + 15000;
    at_is(&r, midnight, end - 1, "suspended//");
    CHECK_INT(rig_events(&r, "expired"), 0);
    rig_pass(&r, 1);
    CHECK_INT(rig_events(&r, "expired"), 1);
    timeline_row("04:21:15.000", "expiration policy triggered", "Standby -> Terminated", midnight,
                 "suspended -> TERMINATED");
    at_is(&r, midnight, end + 5 * MIN - 1, "suspended//");
    rig_pass(&r, 1000);
    CHECK_STR(rig_row(&r, "a"), "gone");
    rig_close(&r);
}
