/* SPDX-License-Identifier: MIT
 * One tenant's sandboxes must not keep the clock from those of another. */
#include "tap.h"

#include "../lib/sandbox_rig.h"
#include "sandbox/sandbox_int.h"

#define MIN ((int64_t)60 * 1000)

enum {
    BLOCKERS = 2 * DZ_SANDBOX_BATCH,
};

/* Registered, woken, and asleep again. */
static void make_sleeper(struct rig *r, const char *id, const char *tenant)
{
    const struct dz_instance row = {.id = id, .tenant = tenant, .freeze_ms = 10 * MIN};
    struct rig_reply reply;
    CHECK_INT(dz_sandbox_register(r->k, &row, NULL), 0);
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
        rig_reserve(&r, id);
    }
    make_sleeper(&r, "other", "umbrella");
    rig_pass(&r, 11 * MIN);
    CHECK_STR(rig_row(&r, "other"), "frozen//");
    CHECK_STR(rig_row(&r, "s00"), "suspended//");
    for (int i = 0; i < BLOCKERS; i++) { /* they are served as soon as they can be */
        (void)snprintf(id, sizeof id, "s%02d", i);
        dz_sandbox_unreserve(r.k, id);
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
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    rig_bring(&r, "a", DZ_STATE_SUSPENDED);
    rig_reserve(&r, "a");
    rig_pass(&r, 5 * MIN + 2000);
    CHECK_INT(rig_events(&r, "expired"), 1);
    dz_sandbox_unreserve(r.k, "a");
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
        CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
        CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, id, &reply), 0);
        rig_pass(&r, 10);
    }
    const struct dz_instance other = {.id = "other", .tenant = "umbrella", .suspend_ms = 2 * MIN};
    CHECK_INT(dz_sandbox_register(r.k, &other, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "other", &reply), 0);
    rig_pass(&r, 10);
    r.cell_ms = 5 * MIN;
    rig_pass(&r, MIN + 1000);
    CHECK_INT(r.stops, DZ_SANDBOX_BACKGROUND_SHARE);
    r.cell_ms = 10;
    rig_pass(&r, MIN + 1000);
    CHECK_STR(rig_row(&r, "other"), "suspended//");
    CHECK_INT(r.stops, DZ_SANDBOX_BACKGROUND_SHARE + 1);
    rig_pass(&r, 6 * MIN); /* and the rest of the slow one comes */
    for (int i = 0; i < 12; i++) {
        (void)snprintf(id, sizeof id, "s%02d", i);
        CHECK_STR(rig_row(&r, id), "suspended//");
    }
    rig_close(&r);
}

/* --- who wants the file of a sandbox that sleeps --------------------------------------------- */

static void asleep(struct rig *r, const char *id)
{
    rig_open(r);
    rig_register(r, id);
    rig_bring(r, id, DZ_STATE_SUSPENDED);
}

TEST(who_wants_the_file_stands_in_line_with_all_others)
{
    struct rig r;
    struct rig_reply freeze, files, wake;
    asleep(&r, "a");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FREEZE, "a", &freeze), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FILES, "a", &files), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &wake), 0);
    CHECK(freeze.count == 0 && files.count == 0);
    rig_pass(&r, 60000);
    CHECK(freeze.count == 1 && freeze.code == 0);
    CHECK(files.count == 1 && files.code == 0 && files.reserved);
    CHECK_INT(wake.count, 0);
    CHECK_STR(rig_row(&r, "a"), "frozen//");
    dz_sandbox_unreserve(r.k, "a");
    rig_pass(&r, 60000);
    CHECK(wake.count == 1 && wake.code == 0);
    rig_close(&r);
}

TEST(those_who_want_the_file_and_stand_together_share_it)
{
    struct rig r;
    struct rig_reply freeze, files[3], wake, late;
    asleep(&r, "a");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FREEZE, "a", &freeze), 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(rig_submit(&r, DZ_REQUEST_FILES, "a", &files[i]), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &wake), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FILES, "a", &late), 0);
    rig_pass(&r, 60000);
    CHECK(files[0].reserved && !files[0].shared);
    for (int i = 1; i < 3; i++)
        CHECK(files[i].count == 1 && files[i].code == 0 && files[i].shared && !files[i].reserved);
    CHECK(wake.count == 0 && late.count == 0); /* who came behind the wake does not go before it */
    dz_sandbox_unreserve(r.k, "a");
    rig_pass(&r, 60000);
    CHECK(wake.count == 1 && wake.code == 0);
    CHECK(late.count == 1 && late.code == 0 && !late.reserved && !late.shared); /* it is awake */
    rig_close(&r);
}

TEST(who_wants_the_file_may_leave_the_line)
{
    struct rig r;
    struct rig_reply freeze, files = {0}, wake;
    uint64_t ticket = 0;
    const struct dz_sandbox_request request = {
        .what = DZ_REQUEST_FILES, .id = "a", .done = rig_done, .arg = &files};
    asleep(&r, "a");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FREEZE, "a", &freeze), 0);
    CHECK_INT(dz_sandbox_submit(r.k, &request, &ticket, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &wake), 0);
    dz_sandbox_cancel(r.k, ticket);
    CHECK_INT(files.count, 0); /* not within the call */
    rig_pass(&r, 0);
    CHECK(files.count == 1 && files.code == DZ_ECANCELED);
    rig_pass(&r, 60000);
    CHECK(files.count == 1 && wake.count == 1 && wake.code == 0);
    rig_close(&r);
}

TEST(a_file_that_is_on_its_way_to_who_asked_is_his)
{
    struct rig r;
    struct rig_reply files = {0}, wake;
    uint64_t ticket = 0;
    const struct dz_sandbox_request request = {
        .what = DZ_REQUEST_FILES, .id = "a", .done = rig_done, .arg = &files, .deadline_ms = 1};
    asleep(&r, "a");
    CHECK_INT(dz_sandbox_submit(r.k, &request, &ticket, NULL), 0);
    CHECK(!dz_sandbox_leave_line(r.k, ticket));
    dz_sandbox_cancel(r.k, ticket);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &wake), 0);
    rig_pass(&r, 60000);
    CHECK(files.count == 1 && files.code == 0 && files.reserved);
    CHECK_INT(wake.count, 0);
    dz_sandbox_unreserve(r.k, "a");
    CHECK_INT(wake.count, 0);
    rig_pass(&r, 60000);
    CHECK(wake.count == 1 && wake.code == 0);
    rig_close(&r);
}

/* At the moment at which a wake that takes long would be written down. */
TEST(a_wake_that_is_over_is_not_written_down_as_begun)
{
    struct rig r;
    struct rig_reply wake;
    asleep(&r, "a");
    r.cell_ms = 25;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &wake), 0);
    rig_pass(&r, 1000);
    CHECK(wake.count == 1 && wake.code == 0);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_INT(dz_sandboxes_busy(r.k), 0);
    rig_close(&r);
}

/* The deadline comes between the answer and its delivery. */
TEST(who_is_answered_is_not_told_that_his_time_is_over)
{
    struct rig r;
    struct rig_reply first, late = {0};
    const struct dz_sandbox_request use = {
        .what = DZ_REQUEST_USE, .id = "a", .done = rig_done, .arg = &late, .deadline_ms = 1};
    asleep(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_FREEZE, "a"), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &first), 0);
    while (strncmp(rig_row(&r, "a"), "active", 6) !=
           0) /* a worker writes it to the disk, for 1 ms */
        CHECK(dz_loop_sim_step(r.loop, dz_clock_real_ms() + 60000));
    CHECK_INT(dz_sandbox_submit(r.k, &use, NULL, NULL), 0);
    rig_pass(&r, 1000);
    CHECK(first.count == 1 && first.code == 0);
    CHECK(late.count == 1 && late.code == 0);
    rig_close(&r);
}

struct asking_again {
    struct rig *rig;
    int left, answers;
};

static void ask_again(void *arg, const struct dz_sandbox_reply *result)
{
    struct asking_again *a = arg;
    const struct dz_sandbox_request use = {
        .what = DZ_REQUEST_USE, .id = "a", .done = ask_again, .arg = a};
    a->answers++;
    CHECK_INT(result->code, 0);
    CHECK(result->row && strcmp(result->row->state, "active") == 0);
    if (a->left-- > 0)
        CHECK_INT(dz_sandbox_submit(a->rig->k, &use, NULL, NULL), 0);
}

/* Within its answer, so that the operation that it was answered by is not freed yet. */
TEST(who_is_answered_may_ask_again_at_once)
{
    struct rig r;
    struct asking_again a = {&r, 5, 0};
    const struct dz_sandbox_request use = {
        .what = DZ_REQUEST_USE, .id = "a", .done = ask_again, .arg = &a};
    asleep(&r, "a");
    CHECK_INT(dz_sandbox_submit(r.k, &use, NULL, NULL), 0);
    rig_pass(&r, 1000);
    CHECK_INT(a.answers, 6);
    CHECK_INT(dz_sandboxes_busy(r.k), 0);
    rig_close(&r);
}

TEST(there_is_no_file_to_give_of_one_that_is_awake_archived_or_gone)
{
    struct rig r;
    struct rig_reply files;
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_ACTIVE);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FILES, "a", &files), 0);
    rig_pass(&r, 0);
    CHECK(files.count == 1 && files.code == 0 && !files.reserved && !files.shared);
    CHECK_INT(rig_do(&r, DZ_REQUEST_ARCHIVE, "a"), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FILES, "a", &files), DZ_EUNAVAIL);
    CHECK_INT(rig_do(&r, DZ_REQUEST_DELETE, "a"), 0);
    CHECK(rig_submit(&r, DZ_REQUEST_FILES, "a", &files) < 0);
    rig_close(&r);
}

/* However many read its files, one after the other: the wake has its turn. */
TEST(a_line_of_readers_does_not_keep_a_guest_asleep)
{
    struct rig r;
    struct rig_reply files[8];
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_ACTIVE);
    r.wake_at = dz_clock_real_ms() + 5 * MIN;
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
    r.wake_at = 0;
    rig_reserve(&r, "a");
    rig_pass(&r, 6 * MIN);
    for (int i = 0; i < 8 && strncmp(rig_row(&r, "a"), "active", 6) != 0; i++) {
        CHECK_INT(rig_submit(&r, DZ_REQUEST_FILES, "a", &files[i]), 0);
        rig_pass(&r, 2 * MIN);
        dz_sandbox_unreserve(r.k, "a"); /* the next one in line has it */
        rig_pass(&r, 1000);
    }
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_close(&r);
}

/* --- rows of cells that died while the registry could not be written ----------------------------
 */

static int count_awake(struct rig *r)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    const struct dz_registry_filter f = {.state = "active", .limit = DZ_REGISTRY_LIST_MAX};
    CHECK_INT(dz_registry_list(r->registry, &f, &rows, NULL), 0);
    return (int)rows.n;
}

TEST(many_deaths_are_written_a_few_in_each_turn)
{
    enum {
        DEAD = 5 * DZ_SANDBOX_BATCH
    };
    struct rig r;
    char id[16];
    rig_open(&r);
    for (int i = 0; i < DEAD; i++) {
        (void)snprintf(id, sizeof id, "d%03d", i);
        rig_register(&r, id);
        const struct dz_instance to = {.state = "active"};
        DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
        CHECK_INT(dz_registry_get(r.registry, id, &row, NULL), 0);
        const struct dz_registry_change c = {.id = id,
                                             .version = row.version,
                                             .epoch = row.epoch,
                                             .set = DZ_COLUMN(state),
                                             .to = &to};
        CHECK_INT(dz_registry_change(r.registry, &c, NULL), 0);
    }
    rig_pass(&r, 10);
    CHECK_INT(count_awake(&r), DEAD);
    dz_sandboxes_death_unwritten(r.k);
    for (int was = DEAD, now, left = 1000; was > 0 && left > 0; was = now, left--) {
        CHECK(dz_loop_sim_step(r.loop, dz_clock_real_ms() + 5000));
        now = count_awake(&r);
        CHECK(was - now <= DZ_SANDBOX_BATCH);
    }
    CHECK_INT(count_awake(&r), 0);
    rig_close(&r);
}
