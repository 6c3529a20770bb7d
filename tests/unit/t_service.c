/* SPDX-License-Identifier: MIT
 * The state machine of services: order of needs, cycles, policies, back-off, crash loops, checks
 * that take too long, orders, and machines that slept. */
#include "tap.h"

#include "base/num.h"
#include "service/service.h"

#include <stdio.h>
#include <string.h>

static struct dz_service *add(struct dz_service_set *set, const char *name, uint32_t needs)
{
    size_t slot = dz_service_slot(set);
    CHECK(slot < DZ_SERVICE_SLOTS);
    struct dz_service *s = &set->of[slot];
    (void)snprintf(s->name, sizeof s->name, "%s", name);
    s->needs = needs;
    s->restart = DZ_SERVICE_RESTART_ON_FAILURE;
    s->grace_ms = 1000;
    dz_service_start(s);
    return s;
}

/* The next action must be this one, of this service. */
static void expect(struct dz_service_set *set, int64_t now, enum dz_service_act act,
                   const struct dz_service *of)
{
    size_t slot = 99;
    CHECK_INT(dz_service_next(set, now, &slot), act);
    if (of)
        CHECK(&set->of[slot] == of);
}

static void nothing(struct dz_service_set *set, int64_t now)
{
    expect(set, now, DZ_SERVICE_ACT_NONE, NULL);
}

TEST(services_order)
{
    struct dz_service_set set = {0};
    struct dz_service *web = add(&set, "web", 1 << 1), *db = add(&set, "db", 1 << 2),
                      *setup = add(&set, "setup", 0);
    setup->restart = DZ_SERVICE_RESTART_NO;
    db->checked = true;
    db->ready_ms = 500;
    expect(&set, 0, DZ_SERVICE_ACT_START, setup);
    nothing(&set, 0);
    dz_service_runs(setup, 0);
    CHECK_INT(setup->status, DZ_SERVICE_READY); /* without a check: as soon as it runs */
    expect(&set, 1, DZ_SERVICE_ACT_START, db);
    dz_service_runs(db, 1);
    CHECK_INT(db->status, DZ_SERVICE_STARTING);
    nothing(&set, 100);
    CHECK_INT(dz_services_due(&set), 501);
    CHECK(!dz_service_ended(setup, false, 100));
    CHECK_INT(setup->status, DZ_SERVICE_DONE);
    dz_service_ready(db);
    CHECK_INT(dz_services_due(&set), INT64_MIN);
    expect(&set, 200, DZ_SERVICE_ACT_START, web);
    CHECK_INT(dz_service_find(&set, "db"), 1);
    CHECK_INT(dz_service_find(&set, "nope"), DZ_SERVICE_SLOTS);
}

TEST(services_cycles)
{
    struct dz_service_set set = {0};
    size_t slot = 99;
    add(&set, "a", 1 << 1);
    struct dz_service *b = add(&set, "b", 1 << 2);
    add(&set, "c", 0);
    CHECK(!dz_services_cyclic(&set, &slot));
    set.of[2].needs = 1 << 0;
    CHECK(dz_services_cyclic(&set, &slot));
    CHECK(slot <= 2);
    set.of[2].needs = 0;
    b->needs = 1 << 1; /* itself */
    CHECK(dz_services_cyclic(&set, &slot));
}

/* One run of a service that ends at once. */
static bool fail_at_once(struct dz_service_set *set, struct dz_service *s, int64_t now)
{
    expect(set, now, DZ_SERVICE_ACT_START, s);
    dz_service_runs(s, now);
    return dz_service_ended(s, true, now);
}

TEST(services_backoff)
{
    static const int64_t waits[] = {100,  200,   400,   800,   1600,  3200,
                                    6400, 12800, 25600, 51200, 60000, 60000};
    struct dz_service_set set = {0};
    struct dz_service *s = add(&set, "s", 0);
    int64_t now = 1000;
    int loops = 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(waits); i++) {
        loops += fail_at_once(&set, s, now);
        CHECK_INT(s->loop, i + 1 >= DZ_SERVICE_LOOP);
        CHECK_INT(s->status, DZ_SERVICE_BACKOFF);
        CHECK_INT(dz_services_due(&set), now + waits[i]);
        nothing(&set, now + waits[i] - 1);
        now += waits[i];
    }
    CHECK_INT(loops, 1); /* one crash loop, not one for each end */
    CHECK_INT((int)s->restarts, 12);
    /* a long run ends the crash loop, and the back-off begins anew */
    expect(&set, now, DZ_SERVICE_ACT_START, s);
    dz_service_runs(s, now);
    CHECK(!dz_service_ended(s, true, now + DZ_SERVICE_STABLE_MS));
    CHECK(!s->loop);
    CHECK_INT(dz_services_due(&set), now + DZ_SERVICE_STABLE_MS + 100);
}

TEST(services_policies)
{
    struct dz_service_set set = {0};
    struct dz_service *no = add(&set, "no", 0), *always = add(&set, "always", 0),
                      *failure = add(&set, "failure", 0);
    no->restart = DZ_SERVICE_RESTART_NO;
    always->restart = DZ_SERVICE_RESTART_ALWAYS;
    for (int i = 0; i < 3; i++)
        dz_service_runs(&set.of[i], 0);
    (void)dz_service_ended(no, true, 5);
    (void)dz_service_ended(always, false, 5);
    (void)dz_service_ended(failure, false, 5);
    CHECK_INT(no->status, DZ_SERVICE_FAILED);
    CHECK_INT(always->status, DZ_SERVICE_BACKOFF);
    CHECK_INT(failure->status, DZ_SERVICE_DONE);
    dz_service_start(no); /* by hand */
    expect(&set, 5, DZ_SERVICE_ACT_START, no);
    CHECK_STR(dz_service_status_name(always->status), "backoff");
    CHECK_STR(dz_service_restart_name(failure->restart), "on-failure");
}

TEST(services_late)
{
    struct dz_service_set set = {0};
    struct dz_service *s = add(&set, "s", 0);
    s->checked = true;
    s->ready_ms = 100;
    expect(&set, 0, DZ_SERVICE_ACT_START, s);
    dz_service_runs(s, 10);
    nothing(&set, 99);
    expect(&set, 100, DZ_SERVICE_ACT_STOP, s);
    CHECK(s->late);
    nothing(&set, 1099);
    expect(&set, 1100, DZ_SERVICE_ACT_KILL, s);
    nothing(&set, 99999);
    (void)dz_service_ended(s, false, 1200); /* whatever its status is, it failed */
    CHECK_INT(s->status, DZ_SERVICE_BACKOFF);
    CHECK_INT((int)s->failures, 1);
    /* being slow for long is no long run */
    s->ready_ms = DZ_SERVICE_STABLE_MS;
    expect(&set, 1300, DZ_SERVICE_ACT_START, s);
    dz_service_runs(s, 1300);
    expect(&set, 1300 + DZ_SERVICE_STABLE_MS, DZ_SERVICE_ACT_STOP, s);
    (void)dz_service_ended(s, true, 1300 + DZ_SERVICE_STABLE_MS);
    CHECK_INT((int)s->failures, 2);
}

TEST(services_orders)
{
    struct dz_service_set set = {0};
    struct dz_service *s = add(&set, "s", 0);
    expect(&set, 0, DZ_SERVICE_ACT_START, s);
    dz_service_stop(s); /* while it starts */
    expect(&set, 0, DZ_SERVICE_ACT_STOP, s);
    dz_service_runs(s, 1); /* that does not make it ready */
    CHECK_INT(s->status, DZ_SERVICE_STOPPING);
    (void)dz_service_ended(s, true, 2);
    CHECK_INT(s->status, DZ_SERVICE_STOPPED);
    nothing(&set, 99999);
    dz_service_restart(s);
    expect(&set, 3, DZ_SERVICE_ACT_START, s);
    dz_service_runs(s, 3);
    dz_service_restart(s);
    expect(&set, 4, DZ_SERVICE_ACT_STOP, s);
    dz_service_restart(s); /* again: no second signal */
    nothing(&set, 4);
    (void)dz_service_ended(s, true, 5);
    CHECK_INT((int)s->failures, 0);
    expect(&set, 5, DZ_SERVICE_ACT_START, s);
    dz_service_runs(s, 5);
    dz_service_stop(s);
    dz_service_start(s); /* it starts again at its end */
    expect(&set, 6, DZ_SERVICE_ACT_STOP, s);
    (void)dz_service_ended(s, false, 7);
    expect(&set, 7, DZ_SERVICE_ACT_START, s);
    dz_service_runs(s, 7);
    dz_service_remove(s);
    CHECK_INT(dz_service_find(&set, "s"), DZ_SERVICE_SLOTS);
    expect(&set, 8, DZ_SERVICE_ACT_STOP, s);
    (void)dz_service_ended(s, false, 9);
    CHECK(!s->used);
    CHECK_INT(dz_services_due(&set), INT64_MAX);
}

TEST(services_sleep)
{
    struct dz_service_set set = {0};
    struct dz_service *s = add(&set, "s", 0), *off = add(&set, "off", 0);
    dz_service_stop(off);
    (void)fail_at_once(&set, s, 0);
    dz_services_slept(&set, 5000);
    CHECK_INT(dz_services_due(&set), 5100);
    /* a machine woke with both */
    dz_service_runs(s, 5000);
    dz_service_runs(off, 5000);
    CHECK_INT(s->status, DZ_SERVICE_READY);
    expect(&set, 5000, DZ_SERVICE_ACT_STOP, off);
    /* a machine without any */
    dz_services_fresh(&set);
    CHECK_INT(off->status, DZ_SERVICE_STOPPED);
    expect(&set, 5001, DZ_SERVICE_ACT_START, s);
    nothing(&set, 5001);
    for (int i = 2; i < DZ_SERVICE_SLOTS; i++)
        CHECK(dz_service_slot(&set) < DZ_SERVICE_SLOTS);
    CHECK_INT(dz_service_slot(&set), DZ_SERVICE_SLOTS);
}
