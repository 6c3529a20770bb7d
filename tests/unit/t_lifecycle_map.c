/* SPDX-License-Identifier: MIT
 *
 * The map hop by hop, against a list written by hand; the ladder against a naive
 * oracle; what is due when; what counts as activity.
 */
#include "../lib/dice.h"
#include "base/err.h"
#include "lifecycle/lifecycle.h"
#include "tap.h"

/* --- the map ---------------------------------------------------------------------- */

static const char *const hops[][2] = {
    {"created", "active"},   {"active", "suspended"}, {"active", "archived"},
    {"suspended", "active"}, {"suspended", "frozen"}, {"frozen", "active"},
    {"frozen", "archived"},  {"archived", "active"},  {"archived", "deleted"},
};

static bool is_hop(const char *from, const char *to)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(hops); i++)
        if (!strcmp(hops[i][0], from) && !strcmp(hops[i][1], to))
            return true;
    return false;
}

TEST(map_allows_nine_hops_and_no_other)
{
    int count = 0;
    for (int from = 0; from < DZ_STATE_COUNT; from++)
        for (int to = 0; to < DZ_STATE_COUNT; to++) {
            struct dz_err err = {0};
            int rc = dz_lifecycle_next((enum dz_state)from, (enum dz_state)to, &err);
            const char *a = dz_state_name((enum dz_state)from);
            const char *b = dz_state_name((enum dz_state)to);
            CHECK_INT(rc, is_hop(a, b) ? to : DZ_ESTATE);
            count += rc >= 0;
            if (rc < 0) {
                CHECK(strstr(err.msg, a));
                CHECK(!strstr(err.msg, "archive it first"));
            } else {
                CHECK_STR(err.msg, "");
            }
        }
    CHECK_INT(count, 9);
}

/* Each refusal names what was asked, the state, and the command that comes first. */
TEST(map_says_what_to_do_first)
{
    static const struct {
        enum dz_state from, to;
        const char *text;
    } refused[] = {
        {DZ_STATE_ACTIVE, DZ_STATE_FROZEN,
         "cannot freeze an active sandbox; suspend it first (doze suspend NAME)"},
        {DZ_STATE_SUSPENDED, DZ_STATE_ARCHIVED,
         "cannot archive a suspended sandbox; freeze it first (doze freeze NAME)"},
        {DZ_STATE_FROZEN, DZ_STATE_SUSPENDED,
         "cannot suspend a frozen sandbox; wake it first (doze wake NAME)"},
        {DZ_STATE_ARCHIVED, DZ_STATE_SUSPENDED,
         "cannot suspend an archived sandbox; revive it first (doze revive NAME)"},
        {DZ_STATE_ARCHIVED, DZ_STATE_FROZEN,
         "cannot freeze an archived sandbox; revive it first (doze revive NAME)"},
        {DZ_STATE_CREATED, DZ_STATE_FROZEN,
         "cannot freeze a created sandbox; wake it first (doze wake NAME)"},
        {DZ_STATE_FROZEN, DZ_STATE_FROZEN, "the sandbox is already frozen"},
        {DZ_STATE_DELETED, DZ_STATE_ACTIVE, "cannot wake a deleted sandbox"},
        {DZ_STATE_ACTIVE, DZ_STATE_CREATED, "cannot create an active sandbox"},
        {DZ_STATE_FROZEN, DZ_STATE_DELETED,
         "cannot delete a frozen sandbox, only an archived one; doze rm --force NAME deletes a sandbox "
         "in any state"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(refused); i++) {
        struct dz_err err = {0};
        CHECK_INT(dz_lifecycle_next(refused[i].from, refused[i].to, &err), DZ_ESTATE);
        CHECK_STR(err.msg, refused[i].text);
    }
}

TEST(map_walks_by_hops_only)
{
    static const struct {
        enum dz_state from;
        int hops;
    } to_deleted[] = {{DZ_STATE_CREATED, 3}, {DZ_STATE_ACTIVE, 2},   {DZ_STATE_SUSPENDED, 3},
                      {DZ_STATE_FROZEN, 2},  {DZ_STATE_ARCHIVED, 1}, {DZ_STATE_DELETED, 0}};
    enum dz_state path[DZ_STATE_COUNT];
    for (size_t i = 0; i < DZ_ARRAY_LEN(to_deleted); i++) {
        int n = dz_lifecycle_path(to_deleted[i].from, DZ_STATE_DELETED, path, NULL);
        CHECK_INT(n, to_deleted[i].hops);
        enum dz_state at = to_deleted[i].from;
        for (int k = 0; k < n; k++) {
            CHECK_INT(dz_lifecycle_next(at, path[k], NULL), path[k]);
            at = path[k];
        }
        CHECK_INT(at, DZ_STATE_DELETED);
    }
    struct dz_err err;
    CHECK_INT(dz_lifecycle_path(DZ_STATE_DELETED, DZ_STATE_ACTIVE, path, &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "never"));
    CHECK_INT(dz_lifecycle_path(DZ_STATE_FROZEN, DZ_STATE_CREATED, path, NULL), DZ_ESTATE);
}

TEST(names_read_back)
{
    enum dz_state s;
    enum dz_status t;
    enum dz_idle_mode m;
    struct dz_err err;
    for (int i = 0; i < DZ_STATE_COUNT; i++) {
        CHECK_INT(dz_state_parse(dz_str(dz_state_name((enum dz_state)i)), &s, NULL), 0);
        CHECK_INT(s, i);
    }
    for (int i = 0; i < DZ_STATUS_COUNT; i++) {
        CHECK_INT(dz_status_parse(dz_str(dz_status_name((enum dz_status)i)), &t, NULL), 0);
        CHECK_INT(t, i);
    }
    for (int i = 0; i <= DZ_IDLE_NEVER; i++) {
        CHECK_INT(dz_idle_mode_parse(dz_str(dz_idle_mode_name((enum dz_idle_mode)i)), &m, NULL), 0);
        CHECK_INT(m, i);
    }
    s = DZ_STATE_FROZEN;
    CHECK_INT(dz_state_parse(DZ_STR("melted"), &s, &err), DZ_EINVAL);
    CHECK_STR(err.msg,
              "invalid state \"melted\": must be created, active, suspended, frozen, archived or "
              "deleted");
    CHECK_INT(s, DZ_STATE_FROZEN);
    CHECK_INT(dz_state_parse(DZ_STR("none"), &s, NULL), DZ_EINVAL);
    CHECK_INT(dz_state_parse(DZ_STR(""), &s, NULL), DZ_EINVAL);
}

/* --- the ladder --------------------------------------------------------------------- */

#define MIN ((int64_t)60 * 1000)
#define DAY ((int64_t)24 * 3600 * 1000)

TEST(ladder_does_what_its_table_says)
{
    const struct dz_idle_policy *l = &dz_idle_policy_default;
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_ACTIVE, 16 * MIN, l), DZ_STATE_SUSPENDED);
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_ACTIVE, 0, l), DZ_STATE_NONE);
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_SUSPENDED, 2 * DAY, l), DZ_STATE_FROZEN);
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_FROZEN, 1000 * DAY, l), DZ_STATE_NONE);
    /* at equality, and one millisecond before */
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_ACTIVE, 15 * MIN, l), DZ_STATE_SUSPENDED);
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_ACTIVE, 15 * MIN - 1, l), DZ_STATE_NONE);
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_SUSPENDED, DAY, l), DZ_STATE_FROZEN);
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_SUSPENDED, DAY - 1, l), DZ_STATE_NONE);
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_CREATED, 1000 * DAY, l), DZ_STATE_NONE);
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_ARCHIVED, 1000 * DAY, l), DZ_STATE_NONE);
}

TEST(ladder_is_chosen_rung_by_rung)
{
    const struct dz_idle_policy sandbox = {DZ_IDLE_INHERIT, 7}, image = {5, 6};
    const struct dz_idle_policy server = {DZ_IDLE_OFF, DZ_IDLE_INHERIT};
    struct dz_idle_policy l = dz_idle_policy_choose(&sandbox, &image, &server);
    CHECK_INT(l.suspend_ms, 5);
    CHECK_INT(l.freeze_ms, 7);
    l = dz_idle_policy_choose(NULL, NULL, &server);
    CHECK(l.suspend_ms == DZ_IDLE_OFF);
    CHECK_INT(l.freeze_ms, DAY);
    l = dz_idle_policy_choose(NULL, NULL, NULL);
    CHECK_INT(l.suspend_ms, 15 * MIN);
    CHECK_INT(dz_lifecycle_auto_next(DZ_STATE_ACTIVE, INT64_MAX, &server), DZ_STATE_NONE);
}

/* The oracle looks at every millisecond, one after the other, and asks the ladder;
 * dz_lifecycle_due must name the same first moment. */
static int64_t naive_due(const struct dz_facts *f, int64_t from, int64_t to)
{
    for (int64_t now = from; now <= to; now++) {
        int64_t idle = -1, last = f->last_active ? f->last_active : f->created;
        if (f->expired && now >= f->retry_at && now >= 1 &&
            (f->state == DZ_STATE_ACTIVE || now >= f->expires))
            return now;
        if (f->expired)
            continue;
        if (f->expires && now >= f->expires)
            return now;
        int64_t unused = f->suspended_at > last ? f->suspended_at : last;
        if (f->state != DZ_STATE_ACTIVE && f->ttl_idle_ms && now >= unused + f->ttl_idle_ms)
            return now;
        bool sleeps = f->state == DZ_STATE_SUSPENDED || f->state == DZ_STATE_FROZEN;
        if (sleeps && f->wake_at && now >= f->wake_at && !f->ephemeral)
            return now;
        if (now < f->retry_at)
            continue;
        if (f->state == DZ_STATE_ACTIVE && f->timeout_at && now >= f->timeout_at)
            return now;
        if (f->ephemeral && f->state > DZ_STATE_ACTIVE && now >= f->suspended_at)
            return now;
        if (f->ephemeral)
            continue;
        if (f->state == DZ_STATE_ACTIVE && now >= f->hold_until) {
            if (f->mode == DZ_IDLE_ACTIVITY)
                idle = now - last;
            else if (f->mode == DZ_IDLE_CONNECTIONS && !f->connections)
                idle = now - (f->last_closed > last ? f->last_closed : last);
            else if (f->mode == DZ_IDLE_CONNECTIONS && now >= f->last_byte + f->silence_ms &&
                     f->idle_policy.suspend_ms != DZ_IDLE_OFF)
                return now;
        } else if (f->state == DZ_STATE_SUSPENDED) {
            idle = now - (f->suspended_at > last ? f->suspended_at : last);
        }
        if (idle >= 0 && dz_lifecycle_auto_next(f->state, idle, &f->idle_policy) != DZ_STATE_NONE)
            return now;
    }
    return INT64_MAX;
}

static int64_t maybe(uint64_t *seed, int64_t span)
{
    uint64_t r = dice_roll(seed);
    return r & 1 ? (int64_t)(r >> 8) % span + 1 : 0;
}

TEST(due_agrees_with_an_oracle_that_looks_every_millisecond)
{
    uint64_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        struct dz_facts f = {
            .state = (enum dz_state)(dice_roll(&seed) % DZ_STATE_DELETED),
            .mode = (enum dz_idle_mode)(dice_roll(&seed) % 3),
            .idle_policy = {maybe(&seed, 60), maybe(&seed, 90)},
            .created = 1 + (int64_t)(dice_roll(&seed) % 10),
            .last_active = maybe(&seed, 60),
            .suspended_at = maybe(&seed, 80),
            .connections = dice_roll(&seed) % 2,
            .last_byte = 1 + (int64_t)(dice_roll(&seed) % 60),
            .last_closed = maybe(&seed, 60),
            .silence_ms = 1 + (int64_t)(dice_roll(&seed) % 50),
            .hold_until = maybe(&seed, 150),
            .wake_at = maybe(&seed, 150),
            .expires = maybe(&seed, 300),
            .ttl_idle_ms = maybe(&seed, 150),
            .retry_at = maybe(&seed, 150),
            .timeout_at = maybe(&seed, 150),
            .timeout_action = (enum dz_timeout_action)(dice_roll(&seed) % 2),
            .ephemeral = dice_roll(&seed) % 4 == 0,
            .expired = dice_roll(&seed) % 8 == 0,
        };
        if (dice_roll(&seed) % 8 == 0)
            f.idle_policy.suspend_ms = DZ_IDLE_OFF;
        if (dice_roll(&seed) % 8 == 0)
            f.idle_policy.freeze_ms = DZ_IDLE_OFF;
        int64_t at = 0;
        enum dz_due due = dz_lifecycle_due(&f, &at);
        CHECK(at == INT64_MAX ? due == DZ_DUE_NOTHING : due != DZ_DUE_NOTHING);
        int64_t first = naive_due(&f, 0, 400);
        if (first != (at < 0 ? 0 : at)) {
            CHECK_INT(first, at);
            break;
        }
    }
}

TEST(a_guest_that_only_sleeps_is_put_down_at_once_if_it_sleeps_for_long)
{
    const int64_t quiet = 5000 + DZ_IDLE_SLEEPER_QUIET_MS;
    const struct {
        struct dz_facts f;
        int64_t at;
    } rows[] = {
        {{.sleeps_until = quiet + DZ_IDLE_SLEEPER_MS}, quiet},
        {{.sleeps_until = quiet + DZ_IDLE_SLEEPER_MS - 1}, 5000 + 15 * MIN},
        {{.sleeps_until = INT64_MAX, .hold_until = 70000}, 70000},
        {{.sleeps_until = INT64_MAX, .retry_at = 80000}, 80000},
        {{.sleeps_until = INT64_MAX, .mode = DZ_IDLE_NEVER}, INT64_MAX},
        {{.sleeps_until = INT64_MAX, .mode = DZ_IDLE_CONNECTIONS}, quiet},
        {{.sleeps_until = INT64_MAX, .mode = DZ_IDLE_CONNECTIONS, .connections = 1, .last_byte = 1},
         1 + DZ_IDLE_SILENCE_MS},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++) {
        struct dz_facts f = rows[i].f;
        int64_t at;
        f.state = DZ_STATE_ACTIVE;
        f.created = 1;
        f.last_active = 5000;
        f.idle_policy = dz_idle_policy_default;
        CHECK_INT(dz_lifecycle_due(&f, &at),
                  rows[i].at == INT64_MAX ? DZ_DUE_NOTHING : DZ_DUE_SUSPEND);
        CHECK_INT(at, rows[i].at);
        f.idle_policy.suspend_ms = DZ_IDLE_OFF; /* that is the owner's word */
        CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_NOTHING);
        f.state = DZ_STATE_SUSPENDED; /* says nothing of one that is asleep */
        CHECK(dz_lifecycle_due(&f, &at) != DZ_DUE_SUSPEND);
    }
}

TEST(expiry_goes_before_the_ladder_at_the_same_time)
{
    struct dz_facts f = {.state = DZ_STATE_SUSPENDED,
                         .idle_policy = {10, 100},
                         .created = 1,
                         .suspended_at = 50,
                         .expires = 150};
    int64_t at = 0;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_EXPIRE);
    CHECK_INT(at, 150);
    f.expires = 151;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_FREEZE);
    f.state = DZ_STATE_DELETED;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_NOTHING);
    CHECK(at == INT64_MAX);
}

TEST(an_expired_sandbox_is_stopped_then_removed_and_nothing_else)
{
    struct dz_facts f = {.state = DZ_STATE_ACTIVE,
                         .idle_policy = {10, 100},
                         .created = 1,
                         .suspended_at = 50,
                         .wake_at = 60,
                         .timeout_at = 70,
                         .hold_until = 5000,
                         .ttl_idle_ms = 80,
                         .expires = 900,
                         .expired = true};
    int64_t at = 0;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_SUSPEND);
    CHECK_INT(at, 1);
    CHECK(dz_lifecycle_expires(&f) == INT64_MAX);
    f.state = DZ_STATE_SUSPENDED;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_DESTROY);
    CHECK_INT(at, 900);
    f.retry_at = 950; /* it failed once */
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_DESTROY);
    CHECK_INT(at, 950);
    f.state = DZ_STATE_ACTIVE;
    f.retry_at = 0;
    f.ephemeral = true; /* never suspended */
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_DESTROY);
    CHECK_INT(at, 1);
}

TEST(the_earlier_of_date_and_maximum_age_counts)
{
    const struct {
        struct dz_expiry e;
        int64_t at;
    } rows[] = {
        {{0}, 0},
        {{.idle_ms = 5}, 0},
        {{.max_age_ms = 5}, 105},
        {{.date = 300}, 300},
        {{.max_age_ms = 5, .date = 300}, 105},
        {{.max_age_ms = 500, .date = 300}, 300},
        {{.max_age_ms = INT64_MAX}, INT64_MAX},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++) {
        CHECK_INT(dz_expiry_date(&rows[i].e, 100), rows[i].at);
        CHECK(dz_expiry_is_set(&rows[i].e) == (i != 0));
    }
}

TEST(due_survives_times_near_the_end_of_the_range)
{
    struct dz_facts f = {
        .state = DZ_STATE_ACTIVE, .idle_policy = {INT64_MAX - 1, 5}, .created = INT64_MAX - 10};
    int64_t at = 0;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_NOTHING);
    f.state = DZ_STATE_FROZEN;
    f.ttl_idle_ms = INT64_MAX;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_NOTHING);
}

TEST(timeouts_stand_still_and_end_as_they_say)
{
    struct dz_facts f = {.state = DZ_STATE_ACTIVE,
                         .idle_policy = {10, 100},
                         .created = 1,
                         .hold_until = 900,
                         .timeout_at = 300};
    int64_t at = 0;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_DESTROY); /* a hold does not stop it */
    CHECK_INT(at, 300);
    f.timeout_action = DZ_TIMEOUT_PAUSE;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_SUSPEND);
    CHECK_INT(at, 300);
    f.state = DZ_STATE_SUSPENDED;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_FREEZE);
    f.ephemeral = true;
    f.suspended_at = 50;
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_DESTROY);
    CHECK_INT(at, 50);
    f.state = DZ_STATE_CREATED; /* not begun: not over */
    CHECK_INT(dz_lifecycle_due(&f, &at), DZ_DUE_NOTHING);
    CHECK_INT(dz_timeout_begin(0, 5, false, 100), 0);
    CHECK_INT(dz_timeout_begin(50, 0, false, 100), 150);
    CHECK_INT(dz_timeout_begin(50, 20, false, 100), 120);
    CHECK_INT(dz_timeout_begin(50, 20, true, 100), 150);
    CHECK_INT(dz_timeout_begin(50, 70, false, 100), 150);
    CHECK_INT(dz_timeout_rest(0, DZ_TIMEOUT_DESTROY, 100), 0);
    CHECK_INT(dz_timeout_rest(130, DZ_TIMEOUT_DESTROY, 100), 30);
    CHECK_INT(dz_timeout_rest(90, DZ_TIMEOUT_DESTROY, 100), 1);
    CHECK_INT(dz_timeout_rest(90, DZ_TIMEOUT_PAUSE, 100), 0);
    enum dz_timeout_action a;
    struct dz_err err;
    CHECK_INT(dz_timeout_action_parse(DZ_STR("pause"), &a, NULL), 0);
    CHECK_INT(a, DZ_TIMEOUT_PAUSE);
    CHECK_INT(dz_timeout_action_parse(DZ_STR("stop"), &a, &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "destroy or pause"));
}

/* --- activity ------------------------------------------------------------------------ */

TEST(activity_is_what_the_table_says)
{
    static const char *const idle[] = {"read_status", "list_sandboxes", "read_events",
                                       "event_stream", "read_metrics"};
    for (int a = 0; a < DZ_ACTIVITY_COUNT; a++) {
        bool want = true;
        for (size_t i = 0; i < DZ_ARRAY_LEN(idle); i++)
            want = want && strcmp(idle[i], dz_activity_name((enum dz_activity)a)) != 0;
        if (a == DZ_ACTIVITY_GUEST_CPU)
            continue;
        for (int m = 0; m <= DZ_IDLE_NEVER; m++) {
            CHECK_INT(dz_lifecycle_counts((enum dz_activity)a, (enum dz_idle_mode)m, true), want);
            CHECK_INT(dz_lifecycle_counts((enum dz_activity)a, (enum dz_idle_mode)m, false), want);
        }
    }
    CHECK(dz_lifecycle_counts(DZ_ACTIVITY_GUEST_CPU, DZ_IDLE_ACTIVITY, true));
    CHECK(!dz_lifecycle_counts(DZ_ACTIVITY_GUEST_CPU, DZ_IDLE_ACTIVITY, false));
    CHECK(!dz_lifecycle_counts(DZ_ACTIVITY_GUEST_CPU, DZ_IDLE_CONNECTIONS, true));
}
