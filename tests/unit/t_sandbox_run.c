/* SPDX-License-Identifier: MIT
 *
 * Each operation, each request that meets one, each failure, each due moment.
 */
#include "tap.h"

#include "../lib/sandbox_rig.h"
#include "sandbox/sandbox_int.h"

/* --- the way of a sandbox --------------------------------------------------------- */

TEST(a_sandbox_goes_round_the_whole_map)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_STR(rig_row(&r, "a"), "created//");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK_STR(rig_text(&r, "live", "a.doze"), "new+~");
    CHECK_INT(rig_do(&r, DZ_REQUEST_FREEZE, "a"), 0);
    CHECK_STR(rig_row(&r, "a"), "frozen//");
    CHECK(!rig_exists(&r, "live", "a.doze"));
    CHECK_STR(rig_text(&r, "cold", "a.sqlite"), "new+~");
    CHECK_INT(rig_do(&r, DZ_REQUEST_USE, "a"), 0);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_STR(rig_text(&r, "live", "a.doze"), "new+~+");
    CHECK(!rig_exists(&r, "cold", "a.sqlite")); /* it was stale from then on */
    CHECK_INT(rig_do(&r, DZ_REQUEST_ARCHIVE, "a"), 0);
    CHECK_STR(rig_row(&r, "a"), "archived//");
    CHECK(!rig_exists(&r, "live", "a.doze") && !rig_exists(&r, "live", "a.scratch"));
    CHECK(rig_exists(&r, "cold", "a.archive"));
    CHECK_INT(rig_do(&r, DZ_REQUEST_USE, "a"), DZ_EUNAVAIL);
    CHECK_INT(rig_do(&r, DZ_REQUEST_REVIVE, "a"), 0);
    CHECK_STR(rig_text(&r, "live", "a.doze"), "cnew+~+~+");
    CHECK(!rig_exists(&r, "cold", "a.archive"));
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_FREEZE, "a"), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_ARCHIVE, "a"), 0);
    CHECK(!rig_exists(&r, "cold", "a.sqlite"));
    CHECK_INT(rig_do(&r, DZ_REQUEST_DELETE, "a"), 0);
    CHECK_STR(rig_row(&r, "a"), "gone");
    CHECK(!rig_exists(&r, "cold", "a.archive"));
    CHECK_INT(dz_sandboxes_busy(r.k), 0);
    rig_close(&r);
}

TEST(a_wake_says_from_where)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    rig_register(&r, "a");
    static const enum dz_request before[] = {DZ_REQUEST_SUSPEND, DZ_REQUEST_FREEZE,
                                             DZ_REQUEST_PREFETCH};
    static const enum dz_rung rungs[] = {DZ_RUNG_LOCAL, DZ_RUNG_COLD, DZ_RUNG_LOCAL};
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 1000);
    CHECK_INT(reply.rung, DZ_RUNG_FRESH);
    for (size_t i = 0; i < DZ_ARRAY_LEN(before); i++) {
        CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
        rig_pass(&r, 0);
        CHECK(reply.count == 1 && reply.rung == DZ_RUNG_WARM); /* awake already: at once */
        for (size_t k = 0; k <= i; k++)
            CHECK_INT(rig_do(&r, before[k], "a"), 0);
        CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
        rig_pass(&r, 1000);
        CHECK_INT(reply.code, 0);
        CHECK_INT(reply.rung, rungs[i]);
    }
    CHECK_STR(dz_rung_name(reply.rung), "local");
    rig_close(&r);
}

TEST(prefetch_brings_the_file_and_starts_nothing)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_FROZEN);
    int starts = r.starts;
    CHECK_INT(rig_do(&r, DZ_REQUEST_PREFETCH, "a"), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_PREFETCH, "a"), 0); /* again: it is there */
    CHECK_STR(rig_row(&r, "a"), "frozen//");
    CHECK(rig_exists(&r, "live", "a.doze") && rig_exists(&r, "cold", "a.sqlite"));
    CHECK_INT(r.starts, starts);
    rig_close(&r);
}

TEST(what_a_suspend_keeps_can_be_said)
{
    struct rig r;
    struct rig_reply reply = {0};
    rig_open(&r);
    const struct dz_instance row = {.id = "a", .tenant = "acme", .keep = "files"};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    rig_bring(&r, "a", DZ_STATE_SUSPENDED);
    CHECK_STR(rig_text(&r, "live", "a.doze"), "new+-");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    const struct dz_sandbox_request request = {
        .what = DZ_REQUEST_SUSPEND, .id = "a", .keep = "memory", .done = rig_done, .arg = &reply};
    CHECK_INT(dz_sandbox_submit(r.k, &request, NULL, NULL), 0);
    rig_pass(&r, 1000);
    CHECK_STR(rig_text(&r, "live", "a.doze"), "new+-+~");
    rig_close(&r);
}

TEST(a_forced_delete_walks_the_map_and_starts_nothing)
{
    for (int from = DZ_STATE_CREATED; from < DZ_STATE_DELETED; from++) {
        struct rig r;
        rig_open(&r);
        rig_register(&r, "a");
        rig_bring(&r, "a", (enum dz_state)from);
        int starts = r.starts;
        if (from != DZ_STATE_ARCHIVED)
            CHECK_INT(rig_do(&r, DZ_REQUEST_DELETE, "a"), DZ_ESTATE);
        CHECK_INT(rig_do(&r, DZ_REQUEST_DESTROY, "a"), 0);
        CHECK_STR(rig_row(&r, "a"), "gone");
        CHECK_INT(r.starts, starts);
        CHECK_INT(r.kills, from == DZ_STATE_ACTIVE); /* only one that runs has something to kill */
        CHECK(!rig_exists(&r, "live", "a.doze") && !rig_exists(&r, "cold", "a.sqlite") &&
              !rig_exists(&r, "cold", "a.archive"));
        CHECK_INT(rig_do(&r, DZ_REQUEST_USE, "a"), DZ_EGONE);
        rig_close(&r);
    }
}

TEST(clones_and_shares_leave_the_base_alone)
{
    struct rig r;
    struct rig_reply reply = {0};
    rig_open(&r);
    rig_register(&r, "base");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "base"), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "base"), 0);
    const struct dz_instance to = {.id = "b", .tenant = "globex", .name = "copy"};
    struct dz_sandbox_request request = {
        .what = DZ_REQUEST_CLONE, .id = "base", .clone = &to, .done = rig_done, .arg = &reply};
    CHECK_INT(dz_sandbox_submit(r.k, &request, NULL, NULL), 0);
    rig_pass(&r, 1000);
    CHECK_INT(reply.code, 0);
    CHECK_STR(rig_row(&r, "b"), "created//");
    CHECK_STR(rig_text(&r, "live", "b.doze"), "knew+~");
    CHECK_STR(rig_row(&r, "base"), "suspended//");
    CHECK_STR(rig_text(&r, "live", "base.doze"), "new+~");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "b"), 0);
    CHECK_STR(rig_text(&r, "live", "b.doze"), "knew+~+");
    struct dz_err err;
    CHECK_INT(dz_sandbox_submit(r.k, &request, NULL, &err), DZ_EEXIST);
    request = (struct dz_sandbox_request){.what = DZ_REQUEST_SHARE,
                                          .id = "base",
                                          .share_store = r.cold.store,
                                          .share_key = "public",
                                          .done = rig_done,
                                          .arg = &reply};
    CHECK_INT(dz_sandbox_submit(r.k, &request, NULL, NULL), 0);
    rig_pass(&r, 1000);
    CHECK_INT(reply.code, 0);
    CHECK_STR(rig_text(&r, "cold", "public"), "snew+~");
    CHECK_STR(rig_row(&r, "base"), "suspended//");
    rig_close(&r);
}

TEST(a_clone_under_way_makes_all_others_wait)
{
    struct rig r;
    struct rig_reply clone = {0}, use, twice = {0};
    rig_open(&r);
    rig_register(&r, "base");
    rig_bring(&r, "base", DZ_STATE_SUSPENDED);
    const struct dz_instance to = {.id = "b", .tenant = "globex"};
    struct dz_sandbox_request request = {
        .what = DZ_REQUEST_CLONE, .id = "base", .clone = &to, .done = rig_done, .arg = &clone};
    CHECK_INT(dz_sandbox_submit(r.k, &request, NULL, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "b", &use), 0);
    request.arg = &twice;
    CHECK_INT(dz_sandbox_submit(r.k, &request, NULL, NULL), 0); /* in line at the base */
    CHECK_INT(clone.count + use.count, 0);
    rig_pass(&r, 1000);
    CHECK_INT(clone.code, 0);
    CHECK_INT(use.code, 0);
    CHECK_INT(twice.code, DZ_EEXIST);
    CHECK_STR(rig_row(&r, "b"), "active/running/");
    CHECK_STR(rig_text(&r, "live", "b.doze"), "knew+~+");
    rig_close(&r);
}

/* --- meetings ----------------------------------------------------------------------- */

TEST(implicit_wakes_join_and_explicit_ones_are_refused)
{
    struct rig r;
    struct rig_reply first, joined, refused, queued;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &first), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &joined), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &refused), DZ_ERESTORING);
    CHECK(strstr(refused.text, "in progress"));
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &queued), 0);
    CHECK_INT(first.count + joined.count + queued.count, 0);
    rig_pass(&r, 1000);
    CHECK_INT(first.code, 0);
    CHECK_INT(joined.code, 0);
    CHECK_INT(refused.count, 0);
    CHECK_INT(queued.code, 0);
    CHECK_INT(r.starts, 1);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_close(&r);
}

TEST(who_joins_a_wake_shares_its_failure)
{
    struct rig r;
    struct rig_reply first, joined;
    rig_open(&r);
    rig_register(&r, "a");
    r.start_code = DZ_EIO;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &first), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &joined), 0);
    rig_pass(&r, 1000);
    CHECK_INT(first.code, DZ_EIO);
    CHECK_INT(joined.code, DZ_EIO);
    CHECK_INT(r.starts, 1);
    rig_close(&r);
}

TEST(what_comes_during_a_suspend_waits_and_wakes_once)
{
    struct rig r;
    struct rig_reply suspend, uses[5], wakes[2];
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &suspend), 0);
    for (int i = 0; i < 5; i++)
        CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &uses[i]), 0);
    for (int i = 0; i < 2; i++)
        CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &wakes[i]), 0);
    rig_pass(&r, 1000);
    CHECK_INT(suspend.code, 0);
    for (int i = 0; i < 5; i++)
        CHECK_INT(uses[i].code, 0);
    for (int i = 0; i < 2; i++)
        CHECK(wakes[i].count == 1);
    CHECK_INT(r.starts, 2);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_close(&r);
}

TEST(the_line_has_an_end)
{
    struct rig r;
    static struct rig_reply replies[DZ_SANDBOX_WAITING_MAX + 1];
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    struct rig_reply suspend, over;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &suspend), 0);
    for (int i = 0; i < DZ_SANDBOX_WAITING_MAX; i++)
        CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &replies[i]), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &over), DZ_EBUSY);
    rig_pass(&r, 1000);
    for (int i = 0; i < DZ_SANDBOX_WAITING_MAX; i++)
        CHECK_INT(replies[i].code, 0);
    rig_close(&r);
}

TEST(operations_can_be_called_off_where_that_is_possible)
{
    struct rig r;
    struct rig_reply reply;
    struct dz_err err;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(dz_sandbox_abort(r.k, "a", &err), DZ_ESTATE);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    CHECK_INT(dz_sandbox_abort(r.k, "a", &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "stop"));
    rig_pass(&r, 1000);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FREEZE, "a", &reply), 0);
    CHECK_INT(dz_sandbox_abort(r.k, "a", &err), 0);
    rig_pass(&r, 1000);
    CHECK_INT(reply.code, DZ_ECANCELED);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK(!rig_exists(&r, "cold", "a.sqlite"));
    CHECK_INT(rig_do(&r, DZ_REQUEST_FREEZE, "a"), 0);
    rig_close(&r);
}

TEST(who_gives_up_is_answered_at_once)
{
    struct rig r;
    struct rig_reply reply = {0}, other;
    uint64_t ticket = 0;
    rig_open(&r);
    rig_register(&r, "a");
    const struct dz_sandbox_request request = {
        .what = DZ_REQUEST_USE, .id = "a", .done = rig_done, .arg = &reply, .deadline_ms = 50};
    r.cell_ms = 200;
    CHECK_INT(dz_sandbox_submit(r.k, &request, &ticket, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &other), 0);
    dz_sandbox_cancel(r.k, ticket);
    CHECK_INT(reply.count, 0);
    dz_sandbox_cancel(r.k, ticket); /* nobody any more */
    rig_pass(&r, 0);
    CHECK(reply.count == 1 && reply.code == DZ_ECANCELED);
    CHECK_INT(dz_sandbox_submit(r.k, &request, &ticket, NULL), 0);
    rig_pass(&r, 100);
    CHECK_INT(reply.count, 2);
    CHECK_INT(reply.code, DZ_ETIMEOUT);
    rig_pass(&r, 1000); /* the other still waited, so it was done */
    CHECK_INT(other.code, 0);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_close(&r);
}

/* --- failures ----------------------------------------------------------------------- */

TEST(a_wake_that_fails_puts_everything_back)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_FROZEN);
    r.start_code = DZ_EIO;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 1000);
    CHECK_INT(reply.code, DZ_EIO);
    CHECK_STR(reply.text, "the cell says no");
    CHECK_STR(rig_row(&r, "a"), "frozen/error/");
    CHECK_STR(rig_text(&r, "cold", "a.sqlite"), "new+~");
    r.start_code = 0;
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_close(&r);
}

TEST(a_suspend_that_fails_leaves_it_running_unless_it_died)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    r.stop_code = DZ_ENOSPC;
    r.stop_alive = true;
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), DZ_ENOSPC);
    CHECK_STR(rig_row(&r, "a"), "active/error/");
    r.stop_alive = false;
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
    CHECK_STR(rig_row(&r, "a"), "suspended/error/");
    rig_close(&r);
}

static const char *rig_error(struct rig *r, const char *id)
{
    static char text[sizeof((struct dz_err *)NULL)->msg];
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    CHECK_INT(dz_registry_get(r->registry, id, &row, NULL), 0);
    (void)snprintf(text, sizeof text, "%s", row.error);
    return text;
}

TEST(a_sandbox_whose_cell_died_says_of_what_until_it_wakes)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    rig_ends(&r, "a", "the cell was killed by signal 9");
    rig_pass(&r, 10);
    CHECK_STR(rig_row(&r, "a"), "suspended/error/");
    CHECK_STR(rig_error(&r, "a"), "the cell was killed by signal 9");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_STR(rig_error(&r, "a"), "");
    rig_close(&r);
}

static int full_change(struct dz_registry *r, const struct dz_registry_change *c,
                       struct dz_err *err)
{
    (void)r;
    return dz_fail(err, DZ_ENOSPC, "change %s: the disk is full", c->id);
}

TEST(a_death_that_cannot_be_written_down_is_written_when_there_is_room)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    const struct dz_registry_ops *ops = r.registry->ops;
    struct dz_registry_ops full = *ops;
    full.change = full_change;
    r.registry->ops = &full;
    rig_ends(&r, "a", NULL);
    rig_pass(&r, 5000);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    r.registry->ops = ops;
    rig_pass(&r, 5000);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_close(&r);
}

static int steps_left, steps_used;
static bool make_room(void *arg, const char *id)
{
    struct rig *r = arg;
    CHECK_STR(id, "a");
    if (steps_left == 0)
        return false;
    steps_used++;
    if (--steps_left == 0) {
        r->stop_code = 0;
        r->stop_alive = false;
    }
    return true;
}

TEST(a_suspend_that_meets_a_full_disk_uses_the_reserve_and_a_wake_does_not)
{
    struct rig r;
    rig_open(&r);
    struct dz_sandbox_files files = *r.k->opts.files;
    files.make_room = make_room;
    r.k->opts.files = &files;
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    r.stop_code = DZ_ENOSPC;
    r.stop_alive = true;
    steps_left = 3;
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
    CHECK_INT(steps_used, 3);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    steps_left = 3;
    r.start_code = DZ_ENOSPC;
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), DZ_ENOSPC);
    CHECK_INT(steps_used, 3);
    r.start_code = 0;
    rig_close(&r);
}

TEST(missing_and_damaged_copies_are_errors_and_lose_nothing)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_FROZEN);
    CHECK_INT(dz_fd_replace(AT_FDCWD, rig_path(&r, "cold", "a.sqlite"), "neW+~", 5, 0600, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 1000);
    CHECK_INT(reply.code, DZ_ECORRUPT);
    CHECK(strstr(reply.text, "SHA-256"));
    CHECK_INT(unlink(rig_path(&r, "cold", "a.sqlite")), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), DZ_ENOENT);
    CHECK_STR(rig_row(&r, "a"), "frozen/error/");
    CHECK_INT(rig_do(&r, DZ_REQUEST_ARCHIVE, "a"), DZ_ENOENT);
    CHECK_STR(rig_row(&r, "a"), "frozen/error/"); /* never an empty one instead */
    CHECK(!rig_exists(&r, "live", "a.doze"));
    CHECK_INT(rig_do(&r, DZ_REQUEST_USE, "nobody"), DZ_ENOENT);
    rig_close(&r);
}

static int count_dropped(void *arg, const struct dz_registry_event *e)
{
    *(int *)arg += strcmp(e->what, "memory_dropped") == 0 && strcmp(e->sandbox_id, "a") == 0;
    return 0;
}

static int dropped(struct rig *r)
{
    int n = 0;
    CHECK_INT(dz_registry_events(r->registry, &(struct dz_registry_event_filter){0}, count_dropped,
                                 &n, NULL),
              0);
    return n;
}

TEST(an_archive_with_keep_files_drops_the_memory_and_says_so)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_ARCHIVE, "a"), 0);
    CHECK_INT(dropped(&r), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_REVIVE, "a"), 0);
    CHECK_STR(rig_text(&r, "live", "a.doze"), "cnew+~+");
    r.keep = "files";
    CHECK_INT(rig_do(&r, DZ_REQUEST_ARCHIVE, "a"), 0);
    CHECK_INT(dropped(&r), 1);
    CHECK_INT(rig_do(&r, DZ_REQUEST_REVIVE, "a"), 0);
    CHECK_STR(rig_text(&r, "live", "a.doze"), "fcnew+~+-+");
    r.keep = NULL;
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_FREEZE, "a"), 0);
    r.keep = "files";
    CHECK_INT(rig_do(&r, DZ_REQUEST_ARCHIVE, "a"), 0);
    CHECK_INT(dropped(&r), 2);
    rig_close(&r);
}

TEST(an_archive_that_fails_leaves_what_was)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    r.carry_code = DZ_ENOSPC;
    CHECK_INT(rig_do(&r, DZ_REQUEST_ARCHIVE, "a"), DZ_ENOSPC);
    CHECK_STR(rig_row(&r, "a"), "suspended/error/"); /* its cell was stopped for it */
    CHECK_STR(rig_text(&r, "live", "a.doze"), "new+~");
    CHECK(!rig_exists(&r, "live", "a.scratch") && !rig_exists(&r, "cold", "a.archive"));
    CHECK_INT(rig_do(&r, DZ_REQUEST_FREEZE, "a"), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_ARCHIVE, "a"), DZ_ENOSPC);
    CHECK_STR(rig_row(&r, "a"), "frozen/error/");
    CHECK(rig_exists(&r, "cold", "a.sqlite"));
    rig_close(&r);
}

TEST(a_log_that_a_crash_left_is_settled_before_the_file_moves)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_SUSPENDED);
    CHECK_INT(dz_fd_replace(AT_FDCWD, rig_path(&r, "live", "a.doze-wal"), "w", 1, 0600, NULL), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_FREEZE, "a"), 0);
    CHECK_STR(rig_text(&r, "cold", "a.sqlite"), "new+~w");
    rig_close(&r);
}

/* Its last cell leaves soon. Each look is a worker's, and in between none is kept. */
TEST(a_file_that_its_last_cell_has_still_is_looked_at_again)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_SUSPENDED);
    CHECK_INT(dz_fd_replace(AT_FDCWD, rig_path(&r, "live", "a.doze-wal"), "w", 1, 0600, NULL), 0);
    r.settle_busy = 3;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FREEZE, "a", &reply), 0);
    rig_pass(&r, 50);
    CHECK(reply.count == 0 && r.settles == 2);
    rig_pass(&r, 1000);
    CHECK(reply.count == 1 && reply.code == 0 && r.settles == 4);
    CHECK_STR(rig_text(&r, "cold", "a.sqlite"), "new+~w");
    rig_close(&r);
}

TEST(a_file_that_is_never_free_is_given_up_after_ten_seconds)
{
    struct rig r;
    struct rig_reply reply, destroy;
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_SUSPENDED);
    CHECK_INT(dz_fd_replace(AT_FDCWD, rig_path(&r, "live", "a.doze-wal"), "w", 1, 0600, NULL), 0);
    r.settle_busy = 1000;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FREEZE, "a", &reply), 0);
    rig_pass(&r, 9000);
    CHECK_INT(reply.count, 0);
    rig_pass(&r, 2000);
    CHECK(reply.count == 1 && reply.code == DZ_EBUSY);
    CHECK(r.settles > 5 && r.settles < 50);
    CHECK_INT(dz_sandboxes_busy(r.k), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_FREEZE, "a", &reply), 0); /* a deletion comes next */
    rig_pass(&r, 100);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_DESTROY, "a", &destroy), 0);
    rig_pass(&r, 12000);
    CHECK_INT(reply.code, DZ_EBUSY);
    CHECK(reply.count == 1 && destroy.count == 1);
    CHECK_INT(destroy.code, 0);
    rig_close(&r);
}

static void count_finding(void *arg, const struct dz_sandbox_finding *f)
{
    dz_buf_addf(arg, "%s:%s%s ", f->what, f->id, f->repairable ? "!" : "");
}

/* --- files that are not on the disk yet ---------------------------------------------- */

/* A file that is complete, and the row of a sandbox that is entered beside its sync. */
static void enter_unsynced(struct rig *r, const char *id)
{
    const struct dz_instance row = {.id = id, .tenant = "acme"};
    char name[80];
    (void)snprintf(name, sizeof name, "%s.doze", id);
    DZ_AUTO(dz_fd_close)
    int fd = open(rig_path(r, "live", name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, "copy", 4) == 4);
    CHECK_INT(dz_sandbox_register_unsynced(r->k, &row, NULL), 0);
    CHECK_INT(dz_sandbox_register_unsynced(r->k, &row, NULL), DZ_EEXIST);
}

TEST(nothing_is_heard_of_a_cell_whose_file_is_not_on_the_disk)
{
    struct rig r;
    struct rig_reply use, joined;
    rig_open(&r);
    enter_unsynced(&r, "a");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &use), 0);
    rig_pass(&r, 1000);
    CHECK_STR(rig_text(&r, "live", "a.doze"), "copy+"); /* it runs, */
    CHECK_INT(use.count, 0);                            /* and nobody knows */
    CHECK_STR(rig_row(&r, "a"), "created/creating/clone");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &joined), 0);
    rig_pass(&r, 1000);
    CHECK_INT(joined.count, 0);
    dz_sandbox_file_synced(r.k, "a");
    rig_pass(&r, 1000);
    CHECK(use.count == 1 && use.code == 0 && use.rung == DZ_RUNG_LOCAL);
    CHECK(joined.count == 1 && joined.code == 0);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_crash(&r);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK(rig_exists(&r, "live", "a.doze"));
    rig_close(&r);
}

TEST(a_crash_before_the_sync_takes_the_sandbox_and_its_file)
{
    struct rig r;
    struct rig_reply use;
    rig_open(&r);
    for (int woken = 0; woken < 2; woken++) {
        const char *id = woken ? "b" : "a", *file = woken ? "b.doze" : "a.doze";
        enter_unsynced(&r, id);
        if (woken) {
            CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, id, &use), 0);
            rig_pass(&r, 1000);
        }
        rig_crash(&r);
        rig_pass(&r, 1000);
        CHECK_STR(rig_row(&r, id), "gone");
        CHECK(!rig_exists(&r, "live", file));
    }
    rig_close(&r);
}

/* The mark stays when the wake fails, because the file is still not on the disk. */
TEST(a_wake_that_fails_before_the_sync_leaves_nothing_behind_a_crash)
{
    struct rig r;
    struct rig_reply use, gone;
    rig_open(&r);
    enter_unsynced(&r, "a");
    r.silent = true;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &use), 0);
    rig_pass(&r, 1000);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_DESTROY, "a", &gone), 0); /* as when the sync fails */
    rig_pass(&r, 1000);
    CHECK(use.count == 1 && use.code < 0);
    CHECK(gone.count == 1 && gone.code == 0);
    CHECK(!rig_exists(&r, "live", "a.doze"));
    dz_sandbox_file_synced(r.k, "a"); /* it is gone: nothing happens */
    rig_pass(&r, 1000);
    enter_unsynced(&r, "b");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "b", &use), 0);
    rig_pass(&r, DZ_SANDBOX_DEADLINE_MS + 1000); /* its client gives up */
    CHECK(use.count == 1 && use.code == DZ_ETIMEOUT);
    CHECK_STR(rig_row(&r, "b"), "created/error/clone");
    rig_crash(&r);
    CHECK_STR(rig_row(&r, "b"), "gone");
    CHECK(!rig_exists(&r, "live", "b.doze"));
    rig_close(&r);
}

/* --- crashes ------------------------------------------------------------------------ */

/* Cut each operation after n events of the loop, for every n: after the restart
 * the sandbox is in a state of the map with nothing under way and its file whole. */
static bool cut(enum dz_request what, enum dz_state from, int events)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", from);
    int64_t until = dz_clock_real_ms() + 1000;
    CHECK_INT(rig_submit(&r, what, "a", &reply), 0);
    bool over = false;
    for (int i = 0; i < events && !over; i++)
        over = !dz_loop_sim_step(r.loop, until);
    rig_crash(&r);
    struct dz_buf found = DZ_BUF_INIT(1000);
    uint64_t left = 0;
    CHECK_INT(dz_sandboxes_check(r.k, false, count_finding, &found, &left, NULL), 0);
    CHECK_STR(found.p, "");
    dz_buf_release(&found);
    const char *row = rig_row(&r, "a");
    CHECK(strchr(row, '/') == NULL || strstr(row, "//") != NULL);
    CHECK(strncmp(row, "active", 6) != 0);
    if (strcmp(row, "gone") != 0 && strncmp(row, "created", 7) != 0) {
        int rc = rig_do(&r, DZ_REQUEST_WAKE, "a");
        CHECK_INT(rc, 0);
        CHECK(strstr(rig_text(&r, "live", "a.doze"), "new+") != NULL);
    }
    rig_close(&r);
    return over;
}

TEST(each_operation_may_be_cut_anywhere)
{
    static const struct {
        enum dz_request what;
        enum dz_state from;
    } cases[] = {
        {DZ_REQUEST_WAKE, DZ_STATE_CREATED},     {DZ_REQUEST_SUSPEND, DZ_STATE_ACTIVE},
        {DZ_REQUEST_FREEZE, DZ_STATE_SUSPENDED}, {DZ_REQUEST_PREFETCH, DZ_STATE_FROZEN},
        {DZ_REQUEST_WAKE, DZ_STATE_FROZEN},      {DZ_REQUEST_ARCHIVE, DZ_STATE_FROZEN},
        {DZ_REQUEST_ARCHIVE, DZ_STATE_ACTIVE},   {DZ_REQUEST_REVIVE, DZ_STATE_ARCHIVED},
        {DZ_REQUEST_DELETE, DZ_STATE_ARCHIVED},  {DZ_REQUEST_DESTROY, DZ_STATE_ACTIVE},
        {DZ_REQUEST_DESTROY, DZ_STATE_FROZEN},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++)
        for (int events = 0; !cut(cases[i].what, cases[i].from, events); events++)
            CHECK(events < 50);
}

/* A big copy that shares blocks is frozen without a hash, which comes afterwards;
 * here as the next process finds it. */
TEST(a_hash_that_is_missing_is_taken_afterwards)
{
    struct rig r;
    struct dz_instance row = {0};
    const struct dz_instance to = {.op = "freeze", .step = "hash"};
    char want[DZ_SHA256_HEX];
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_FROZEN);
    CHECK_INT(dz_registry_get(r.registry, "a", &row, NULL), 0);
    (void)snprintf(want, sizeof want, "%s", row.cold_sha256);
    CHECK_INT(strlen(want), 64);
    const struct dz_registry_change c = {.id = "a",
                                         .version = row.version,
                                         .epoch = row.epoch,
                                         .set = DZ_COLUMN(op) | DZ_COLUMN(step) |
                                                DZ_COLUMN(cold_sha256),
                                         .to = &to};
    CHECK_INT(dz_registry_change(r.registry, &c, NULL), 0);
    dz_instance_release(&row);
    rig_crash(&r);
    CHECK_STR(rig_row(&r, "a"), "frozen//");
    CHECK_INT(dz_registry_get(r.registry, "a", &row, NULL), 0);
    CHECK_STR(row.cold_sha256, want);
    dz_instance_release(&row);
    rig_close(&r);
}

/* --- the clock ----------------------------------------------------------------------- */

#define MIN ((int64_t)60 * 1000)

TEST(idleness_takes_it_down_the_ladder_and_no_further)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0); /* a minute passes */
    rig_pass(&r, 13 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_EXEC);
    rig_pass(&r, 14 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    dz_sandbox_touch(r.k, "a", DZ_ACTIVITY_READ_STATUS);
    rig_pass(&r, 2 * MIN);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_pass(&r, 24 * 60 * MIN - 2 * MIN);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_pass(&r, 3 * MIN);
    CHECK_STR(rig_row(&r, "a"), "frozen//");
    rig_pass(&r, 1000 * 24 * 60 * MIN);
    CHECK_STR(rig_row(&r, "a"), "frozen//");
    CHECK_INT(r.starts, 1);
    rig_close(&r);
}

TEST(holds_wakes_and_expiry_come_when_they_are_due)
{
    struct rig r;
    rig_open(&r);
    const struct dz_instance row = {
        .id = "a", .tenant = "acme", .suspend_ms = 10000, .expires = dz_clock_real_ms() + 60 * MIN};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    struct rig_reply reply;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 1000);
    CHECK_INT(dz_sandbox_hold(r.k, "a", dz_clock_real_ms() + 5 * MIN, NULL), 0);
    r.wake_at = dz_clock_real_ms() + 10 * MIN;
    rig_pass(&r, 4 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_pass(&r, 2 * MIN);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    r.wake_at = 0;
    rig_pass(&r, 4 * MIN + 2000); /* it asked to be woken after ten */
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_INT(r.starts, 2);
    rig_pass(&r, 60 * MIN);
    CHECK_INT(rig_events(&r, "expired"), 1);
    CHECK_INT(dz_sandbox_hold(r.k, "zz", 1, NULL), DZ_ENOENT);
    rig_close(&r);
}

static int64_t rig_left(struct rig *r, const char *id, int64_t *ret_at)
{
    struct dz_instance row = {0};
    CHECK_INT(dz_registry_get(r->registry, id, &row, NULL), 0);
    int64_t left = row.timeout_left;
    *ret_at = row.timeout_at;
    dz_instance_release(&row);
    return left;
}

TEST(a_timeout_runs_while_awake_and_destroys)
{
    struct rig r;
    struct rig_reply reply;
    int64_t at = 0;
    rig_open(&r);
    const struct dz_instance row = {
        .id = "a", .tenant = "acme", .suspend_ms = DZ_IDLE_OFF, .timeout_ms = 10 * MIN};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    rig_pass(&r, 60 * MIN); /* not awake yet */
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &reply), 0);
    rig_pass(&r, 4 * MIN);
    CHECK_INT(rig_left(&r, "a", &at), 0);
    CHECK(at > dz_clock_real_ms() + 5 * MIN && at <= dz_clock_real_ms() + 6 * MIN + 1000);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 60 * MIN);
    int64_t left = rig_left(&r, "a", &at);
    CHECK_INT(at, 0);
    CHECK(left > 6 * MIN - 1000 && left < 6 * MIN + 100);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &reply), 0); /* the rest goes on */
    rig_pass(&r, 5 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_pass(&r, 2 * MIN);
    CHECK_STR(rig_row(&r, "a"), "gone");
    rig_close(&r);
}

TEST(a_timeout_that_pauses_begins_anew_with_each_wake_and_can_be_set)
{
    struct rig r;
    int64_t at;
    rig_open(&r);
    const struct dz_instance row = {.id = "a",
                                    .tenant = "acme",
                                    .suspend_ms = DZ_IDLE_OFF,
                                    .timeout_ms = 10 * MIN,
                                    .timeout_action = "pause"};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(rig_do(&r, DZ_REQUEST_USE, "a"), 0);
        rig_pass(&r, 8 * MIN);
        CHECK_STR(rig_row(&r, "a"), "active/running/");
        rig_pass(&r, 2 * MIN);
        CHECK_STR(rig_row(&r, "a"), "suspended//");
    }
    CHECK_INT(dz_sandbox_timeout(r.k, "a", 2 * MIN, DZ_TIMEOUT_PAUSE, NULL), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    CHECK_INT(dz_sandbox_timeout(r.k, "a", 20 * MIN, DZ_TIMEOUT_PAUSE, NULL), 0);
    rig_pass(&r, 19 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_INT(dz_sandbox_timeout(r.k, "a", 0, DZ_TIMEOUT_PAUSE, NULL), 0);
    rig_pass(&r, 60 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_INT(dz_sandbox_timeout(r.k, "zz", 1, DZ_TIMEOUT_PAUSE, NULL), DZ_ENOENT);
    /* set while it is being put to sleep and while it is woken: neither loses it */
    struct rig_reply reply;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    CHECK_INT(dz_sandbox_timeout(r.k, "a", 3 * MIN, DZ_TIMEOUT_DESTROY, NULL), 0);
    rig_pass(&r, 1000);
    CHECK_INT(rig_left(&r, "a", &at), 3 * MIN - 2);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &reply), 0);
    CHECK_INT(dz_sandbox_timeout(r.k, "a", 7 * MIN, DZ_TIMEOUT_DESTROY, NULL), 0);
    rig_pass(&r, 6 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_pass(&r, 2 * MIN);
    CHECK_STR(rig_row(&r, "a"), "gone");
    rig_close(&r);
}

TEST(a_timeout_that_is_set_while_awake_destroys_though_nothing_else_is_due)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    const struct dz_instance row = {
        .id = "a", .tenant = "acme", .suspend_ms = DZ_IDLE_OFF, .freeze_ms = DZ_IDLE_OFF};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 60 * MIN);
    CHECK_INT(dz_sandbox_timeout(r.k, "a", 5 * MIN, DZ_TIMEOUT_DESTROY, NULL), 0);
    rig_pass(&r, 4 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_pass(&r, 2 * MIN);
    CHECK_STR(rig_row(&r, "a"), "gone");
    rig_close(&r);
}

TEST(a_timeout_survives_the_death_of_the_daemon)
{
    struct rig r;
    int64_t at;
    rig_open(&r);
    const struct dz_instance row = {
        .id = "a", .tenant = "acme", .suspend_ms = DZ_IDLE_OFF, .timeout_ms = 10 * MIN};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    rig_pass(&r, 4 * MIN);
    rig_change(&r, "a", DZ_COLUMN(metadata), (struct dz_instance){.metadata = "{}"}); /* lives */
    dz_clock_set_real(&r.clock, r.clock.real_ns + 60 * MIN * DZ_NS_PER_MS);
    rig_crash(&r);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    int64_t left = rig_left(&r, "a", &at);
    CHECK(left > 5 * MIN - 1000 && left < 5 * MIN + 1100);
    CHECK_INT(rig_do(&r, DZ_REQUEST_USE, "a"), 0);
    rig_pass(&r, 7 * MIN);
    CHECK_STR(rig_row(&r, "a"), "gone");
    rig_close(&r);
}

TEST(what_is_not_persistent_never_sleeps_and_goes_with_its_cell)
{
    struct rig r;
    rig_open(&r);
    const struct dz_instance row = {
        .id = "a", .tenant = "acme", .suspend_ms = 1000, .ephemeral = 1};
    const struct dz_instance other = {.id = "b", .tenant = "acme", .ephemeral = 1};
    CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
    CHECK_INT(dz_sandbox_register(r.k, &other, NULL), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "b"), 0);
    rig_pass(&r, 24 * 60 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    rig_ends(&r, "a", NULL);
    rig_pass(&r, 1000);
    CHECK_STR(rig_row(&r, "a"), "gone");
    rig_crash(&r);
    rig_pass(&r, 1000);
    CHECK_STR(rig_row(&r, "b"), "gone");
    rig_close(&r);
}

TEST(a_background_operation_that_fails_is_tried_again_later)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    r.stop_code = DZ_EIO;
    r.stop_alive = true;
    rig_pass(&r, 15 * MIN);
    CHECK_STR(rig_row(&r, "a"), "active/error/");
    int stops = r.stops;
    rig_pass(&r, 10 * MIN);
    CHECK(r.stops > stops && r.stops < stops + 10);
    r.stop_code = 0;
    rig_pass(&r, 120 * MIN);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    rig_close(&r);
}

/* One allocation fails while the clock begins or does a freeze: the first, the second, and so on.
 */
TEST(what_the_clock_cannot_begin_without_memory_is_tried_again_later)
{
    bool failed = true;
    for (long n = 0; failed; n++) {
        struct rig r;
        rig_open(&r);
        const struct dz_instance row = {.id = "a", .tenant = "acme", .freeze_ms = 60 * MIN};
        CHECK_INT(dz_sandbox_register(r.k, &row, NULL), 0);
        rig_bring(&r, "a", DZ_STATE_SUSPENDED); /* a minute passes after it */
        rig_pass(&r, 58 * MIN);
        CHECK_STR(rig_row(&r, "a"), "suspended//");
        dz_mem_fail_at(n, false);
        rig_pass(&r, 2 * MIN);
        dz_mem_fail_at(-1, false);
        failed = dz_mem_failed();
        rig_pass(&r, 3 * MIN);
        CHECK_STR(rig_row(&r, "a"), "frozen//");
        rig_close(&r);
        CHECK(n < 1000);
    }
}

TEST(after_a_long_night_all_is_done_in_order_and_not_at_once)
{
    struct rig r;
    char id[16];
    rig_open(&r);
    for (int i = 0; i < 12; i++) {
        struct rig_reply reply;
        (void)snprintf(id, sizeof id, "s%02d", i);
        rig_register(&r, id);
        CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, id, &reply), 0);
        rig_pass(&r, 100);
    }
    r.cell_ms = 1000;
    dz_clock_advance(&r.clock, 3600 * DZ_NS_PER_S); /* the machine was asleep */
    rig_pass(&r, 500);
    CHECK_INT(r.stops, DZ_SANDBOX_BACKGROUND_SHARE);
    CHECK_STR(r.calls[r.call_count - 4].id, "s00"); /* the longest idle first */
    CHECK_STR(r.calls[r.call_count - 1].id, "s03");
    rig_pass(&r, 1000);
    CHECK_INT(r.stops, 2 * DZ_SANDBOX_BACKGROUND_SHARE);
    rig_pass(&r, 10000);
    for (int i = 0; i < 12; i++) {
        (void)snprintf(id, sizeof id, "s%02d", i);
        CHECK_STR(rig_row(&r, id), "suspended//");
    }
    rig_close(&r);
}

/* --- check ---------------------------------------------------------------------- */

/* First what was under way, then what was awake; a registry full of sleepers costs nothing. */
TEST(recovery_looks_only_at_rows_that_need_it)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    static const char *const ids[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(ids); i++) {
        rig_register(&r, ids[i]);
        rig_bring(&r, ids[i], i < 2 ? DZ_STATE_SUSPENDED : DZ_STATE_ACTIVE);
    }
    r.silent = true;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "d", &reply), 0);
    CHECK_STR(rig_row(&r, "d"), "active/suspending/suspend");
    rig_die(&r);
    rig_new(&r);
    CHECK_INT(dz_sandboxes_recover_some(r.k, 0, NULL), 1);
    CHECK_STR(rig_row(&r, "d"), "suspended//");
    CHECK_STR(rig_row(&r, "c"), "active/running/");
    CHECK_INT(dz_sandboxes_recover_some(r.k, 0, NULL), 1);
    CHECK_STR(rig_row(&r, "c"), "suspended//");
    CHECK_INT(dz_sandboxes_recover_some(r.k, 0, NULL), 0);
    rig_close(&r);
}

TEST(check_finds_strays_and_losses_and_repair_removes_strays)
{
    struct rig r;
    struct dz_buf b = DZ_BUF_INIT(1000);
    uint64_t left = 0;
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_SUSPENDED);
    CHECK_INT(dz_sandboxes_check(r.k, false, count_finding, &b, &left, NULL), 0);
    CHECK_INT(left, 0);
    CHECK_STR(b.p, "");
    CHECK_INT(dz_fd_replace(AT_FDCWD, rig_path(&r, "cold", "x.sqlite"), "x", 1, 0600, NULL), 0);
    CHECK_INT(dz_fd_replace(AT_FDCWD, rig_path(&r, "cold", "readme"), "x", 1, 0600, NULL), 0);
    CHECK_INT(unlink(rig_path(&r, "live", "a.doze")), 0);
    CHECK_INT(dz_sandboxes_check(r.k, false, count_finding, &b, &left, NULL), 0);
    CHECK_INT(left, 3);
    CHECK(strstr(b.p, "orphan:x!") && strstr(b.p, "stray:") && strstr(b.p, "missing:a"));
    CHECK(rig_exists(&r, "cold", "x.sqlite"));
    CHECK_INT(dz_sandboxes_check(r.k, true, count_finding, &b, &left, NULL), 0);
    CHECK_INT(left, 2);
    CHECK(!rig_exists(&r, "cold", "x.sqlite") && rig_exists(&r, "cold", "readme"));
    CHECK_STR(rig_row(&r, "a"), "suspended/error/");
    dz_buf_release(&b);
    rig_close(&r);
}

TEST(bad_sandboxes_are_not_registered)
{
    struct rig r;
    struct dz_err err;
    rig_open(&r);
    static const struct dz_instance bad[] = {
        {.id = "", .tenant = "t"},
        {.id = "a/b", .tenant = "t"},
        {.id = "../a", .tenant = "t"},
        {.id = "a", .tenant = ""},
        {.id = "a", .tenant = "t", .idle_mode = "sometimes"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        CHECK_INT(dz_sandbox_register(r.k, &bad[i], &err), DZ_EINVAL);
        CHECK(err.msg[0]);
    }
    rig_close(&r);
}

/* --- memory ------------------------------------------------------------------------ */

/* As rig_open, without a word when memory is short. */
static bool open_quietly(struct rig *r)
{
    char live[DZ_TEMP_DIR_TEXT + 8], cold[DZ_TEMP_DIR_TEXT + 8];
    *r = (struct rig){.clock.real_ns = 1700000000 * DZ_NS_PER_S, .cell_ms = 0};
    if (dz_fd_temp_dir("doze-sandbox", r->dir, NULL) < 0)
        return false;
    (void)snprintf(live, sizeof live, "%s/live", r->dir);
    (void)snprintf(cold, sizeof cold, "%s/cold", r->dir);
    if (dz_blobs_open_dir(live, &r->cold.live, NULL) < 0 ||
        dz_blobs_open_dir(cold, &r->cold.store, NULL) < 0 ||
        dz_loop_sim_new(&r->clock, NULL, NULL, &r->loop, NULL) < 0 ||
        dz_registry_open(":memory:", true, &r->registry, NULL) < 0)
        return false;
    struct dz_sandboxes_opts opts = rig_opts(r, live);
    opts.idle_policy = (struct dz_idle_policy){DZ_IDLE_OFF, DZ_IDLE_OFF};
    return dz_sandboxes_new(&opts, &r->k, NULL) == 0 && dz_sandboxes_recover(r->k, NULL) == 0;
}

/* Whatever fails, who was not refused is answered once. */
static bool ask_quietly(struct rig *r, enum dz_request what)
{
    struct rig_reply reply;
    if (rig_submit(r, what, "a", &reply) < 0) {
        CHECK_INT(reply.count, 0);
        return false;
    }
    rig_pass(r, 2 * DZ_SANDBOX_DEADLINE_MS);
    CHECK_INT(reply.count, 1);
    return reply.code == 0;
}

TORTURE(every_allocation_of_a_life_may_fail)
{
    static struct rig r;
    const struct dz_instance row = {.id = "a", .tenant = "acme"};
    if (open_quietly(&r) && dz_sandbox_register(r.k, &row, NULL) == 0 &&
        ask_quietly(&r, DZ_REQUEST_USE) && ask_quietly(&r, DZ_REQUEST_SUSPEND) &&
        ask_quietly(&r, DZ_REQUEST_FREEZE) && ask_quietly(&r, DZ_REQUEST_ARCHIVE))
        (void)ask_quietly(&r, DZ_REQUEST_DELETE);
    dz_mem_fail_at(-1, false);
    if (r.loop)
        dz_loop_sim_forget(r.loop);
    dz_sandboxes_free(r.k);
    (void)dz_registry_close(r.registry, NULL);
    dz_loop_free(r.loop);
    dz_blobs_free(r.cold.live);
    dz_blobs_free(r.cold.store);
    if (r.dir[0])
        CHECK_INT(dz_fd_remove_tree(AT_FDCWD, r.dir, NULL), 0);
}
