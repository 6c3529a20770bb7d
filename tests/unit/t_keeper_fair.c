/* SPDX-License-Identifier: MIT
 * One tenant's sandboxes must not keep the keeper's clock from those of another. */
#include "tap.h"

#include "../lib/keeper_rig.h"

#define MIN ((int64_t)60 * 1000)

enum {
    BLOCKERS = 2 * DZ_KEEPER_BATCH,
};

/* Registered, woken, and asleep again. */
static void make_sleeper(struct rig *r, const char *id, const char *tenant)
{
    const struct dz_instance row = {.id = id, .tenant = tenant, .freeze_ms = 10 * MIN};
    struct rig_reply reply;
    CHECK_INT(dz_keeper_register(r->k, &row, NULL), 0);
    CHECK_INT(rig_submit(r, DZ_REQUEST_WAKE, id, &reply), 0);
    rig_pass(r, 10);
    CHECK_INT(rig_submit(r, DZ_REQUEST_SUSPEND, id, &reply), 0);
    rig_pass(r, 10);
    CHECK_STR(rig_row(r, id), "suspended//");
}

TEST(reserved_sandboxes_that_are_due_do_not_keep_the_clock_from_others)
{
    struct rig r;
    char id[16];
    rig_open(&r);
    for (int i = 0; i < BLOCKERS; i++) {
        (void)snprintf(id, sizeof id, "s%02d", i);
        make_sleeper(&r, id, "acme");
        CHECK_INT(dz_keeper_reserve(r.k, id, NULL), 0);
    }
    make_sleeper(&r, "other", "umbrella");
    rig_pass(&r, 11 * MIN);
    CHECK_STR(rig_row(&r, "other"), "frozen//");
    CHECK_STR(rig_row(&r, "s00"), "suspended//");
    for (int i = 0; i < BLOCKERS; i++) { /* they are served as soon as they can be */
        (void)snprintf(id, sizeof id, "s%02d", i);
        dz_keeper_unreserve(r.k, id);
    }
    rig_pass(&r, 20000);
    for (int i = 0; i < BLOCKERS; i++) {
        (void)snprintf(id, sizeof id, "s%02d", i);
        CHECK_STR(rig_row(&r, id), "frozen//");
    }
    rig_close(&r);
}

TEST(a_reserved_sandbox_expires_in_time)
{
    struct rig r;
    rig_open(&r);
    const struct dz_instance row = {
        .id = "a", .tenant = "acme", .expires = dz_clock_real_ms() + 5 * MIN};
    CHECK_INT(dz_keeper_register(r.k, &row, NULL), 0);
    CHECK_INT(dz_keeper_reserve(r.k, "a", NULL), 0);
    rig_pass(&r, 5 * MIN + 2000);
    CHECK_INT(r.expired, 1);
    dz_keeper_unreserve(r.k, "a");
    rig_close(&r);
}

TEST(slow_operations_of_one_tenant_leave_the_clock_to_others)
{
    struct rig r;
    struct rig_reply reply;
    char id[16];
    rig_open(&r);
    for (int i = 0; i < 12; i++) {
        (void)snprintf(id, sizeof id, "s%02d", i);
        const struct dz_instance row = {.id = id, .tenant = "acme", .suspend_ms = MIN};
        CHECK_INT(dz_keeper_register(r.k, &row, NULL), 0);
        CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, id, &reply), 0);
        rig_pass(&r, 10);
    }
    const struct dz_instance other = {.id = "other", .tenant = "umbrella", .suspend_ms = 2 * MIN};
    CHECK_INT(dz_keeper_register(r.k, &other, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "other", &reply), 0);
    rig_pass(&r, 10);
    r.cell_ms = 5 * MIN;
    rig_pass(&r, MIN + 1000);
    CHECK_INT(r.stops, DZ_KEEPER_BACKGROUND_SHARE);
    r.cell_ms = 10;
    rig_pass(&r, MIN + 1000);
    CHECK_STR(rig_row(&r, "other"), "suspended//");
    CHECK_INT(r.stops, DZ_KEEPER_BACKGROUND_SHARE + 1);
    rig_pass(&r, 6 * MIN); /* and the rest of the slow one comes */
    for (int i = 0; i < 12; i++) {
        (void)snprintf(id, sizeof id, "s%02d", i);
        CHECK_STR(rig_row(&r, id), "suspended//");
    }
    rig_close(&r);
}
