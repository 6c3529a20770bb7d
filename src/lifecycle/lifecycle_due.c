/* SPDX-License-Identifier: MIT
 *
 * lifecycle_due.c - the idle policy, what counts as activity, and the next action that is due.
 *
 * All thresholds are reached at equality (">= everywhere"). Sums saturate, so
 * that "never" stays never whatever is added to it.
 */
#include "lifecycle/lifecycle.h"

#include <assert.h>

const struct dz_idle_policy dz_idle_policy_default = {
    .suspend_ms = (int64_t)15 * 60 * 1000,
    .freeze_ms = (int64_t)24 * 3600 * 1000,
};

/* --- the idle policy ------------------------------------------------------------------- */

struct dz_idle_policy dz_idle_policy_choose(const struct dz_idle_policy *sandbox,
                                            const struct dz_idle_policy *image,
                                            const struct dz_idle_policy *server)
{
    const struct dz_idle_policy *const order[] = {sandbox, image, server, &dz_idle_policy_default};
    struct dz_idle_policy chosen = {DZ_IDLE_INHERIT, DZ_IDLE_INHERIT};
    for (size_t i = 0; i < DZ_ARRAY_LEN(order); i++) {
        if (order[i] && chosen.suspend_ms == DZ_IDLE_INHERIT)
            chosen.suspend_ms = order[i]->suspend_ms;
        if (order[i] && chosen.freeze_ms == DZ_IDLE_INHERIT)
            chosen.freeze_ms = order[i]->freeze_ms;
    }
    return chosen;
}

enum dz_state dz_lifecycle_auto_next(enum dz_state state, int64_t idle_ms,
                                     const struct dz_idle_policy *policy)
{
    if (state == DZ_STATE_ACTIVE && policy->suspend_ms != DZ_IDLE_OFF &&
        idle_ms >= policy->suspend_ms)
        return DZ_STATE_SUSPENDED;
    if (state == DZ_STATE_SUSPENDED && policy->freeze_ms != DZ_IDLE_OFF &&
        idle_ms >= policy->freeze_ms)
        return DZ_STATE_FROZEN;
    return DZ_STATE_NONE;
}

/* --- activity --------------------------------------------------------------------- */

enum counts {
    COUNTS_NEVER,
    COUNTS_ALWAYS,
    COUNTS_CPU, /* by mode and setting */
};

static const struct {
    const char *name;
    enum counts counts;
} activities[DZ_ACTIVITY_COUNT] = {
#define X(name, text, counts) {text, COUNTS_##counts},
    DZ_ACTIVITIES(X)
#undef X
};

const char *dz_activity_name(enum dz_activity a)
{
    assert(a < DZ_ACTIVITY_COUNT);
    return activities[a].name;
}

bool dz_lifecycle_counts(enum dz_activity a, enum dz_idle_mode mode, bool count_cpu)
{
    assert(a < DZ_ACTIVITY_COUNT);
    if (activities[a].counts == COUNTS_CPU)
        return count_cpu && mode == DZ_IDLE_ACTIVITY;
    return activities[a].counts == COUNTS_ALWAYS;
}

/* --- timeouts --------------------------------------------------------------------- */

static const char *const actions[] = {"destroy", "pause"};

const char *dz_timeout_action_name(enum dz_timeout_action a)
{
    assert((size_t)a < DZ_ARRAY_LEN(actions));
    return actions[a];
}

int dz_timeout_action_parse(struct dz_str s, enum dz_timeout_action *ret_action, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    for (size_t i = 0; i < DZ_ARRAY_LEN(actions); i++)
        if (dz_str_eqz(s, actions[i])) {
            *ret_action = (enum dz_timeout_action)i;
            return 0;
        }
    return dz_fail(err, DZ_EINVAL, "invalid timeout action %s: must be destroy or pause",
                   dz_str_quote(s, quoted));
}

int64_t dz_timeout_begin(int64_t length_ms, int64_t left_ms, bool anew, int64_t now)
{
    if (length_ms <= 0)
        return 0;
    return now + (left_ms > 0 && left_ms < length_ms && !anew ? left_ms : length_ms);
}

int64_t dz_timeout_rest(int64_t at, enum dz_timeout_action action, int64_t now)
{
    if (at == 0)
        return 0;
    if (at > now)
        return at - now;
    return action == DZ_TIMEOUT_DESTROY ? 1 : 0;
}

/* --- due -------------------------------------------------------------------------- */

static int64_t later(int64_t at, int64_t by_ms)
{
    int64_t sum;
    return by_ms == DZ_IDLE_OFF || __builtin_add_overflow(at, by_ms, &sum) ? INT64_MAX : sum;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t since_activity(const struct dz_facts *f)
{
    return f->last_active ? f->last_active : f->created;
}

/* The time since which the sandbox is idle; INT64_MAX: it is not. */
static int64_t idle_since(const struct dz_facts *f)
{
    if (f->state == DZ_STATE_SUSPENDED)
        return max(f->suspended_at, since_activity(f));
    if (f->state != DZ_STATE_ACTIVE || f->mode == DZ_IDLE_NEVER)
        return INT64_MAX;
    if (f->mode == DZ_IDLE_ACTIVITY)
        return since_activity(f);
    return f->connections ? INT64_MAX : max(f->last_closed, since_activity(f));
}

/* The time at which a guest that only waits for a timer may be suspended; its deadline must be far
 * enough. */
static int64_t sleeper_at(const struct dz_facts *f)
{
    int64_t at = later(idle_since(f), DZ_IDLE_SLEEPER_QUIET_MS);
    return later(at, DZ_IDLE_SLEEPER_MS) <= f->sleeps_until ? at : INT64_MAX;
}

/* The time at which an active sandbox has been idle for long enough. In connection mode a
 * connection that fell silent stops counting at that moment, without a delay. */
static int64_t suspend_at(const struct dz_facts *f)
{
    int64_t at;
    if (f->idle_policy.suspend_ms == DZ_IDLE_OFF)
        return INT64_MAX;
    if (f->mode == DZ_IDLE_CONNECTIONS && f->connections)
        at = later(f->last_byte, f->silence_ms ? f->silence_ms : DZ_IDLE_SILENCE_MS);
    else if (idle_since(f) == INT64_MAX)
        return INT64_MAX;
    else
        at = later(idle_since(f), f->idle_policy.suspend_ms);
    if (f->sleeps_until && idle_since(f) != INT64_MAX) {
        int64_t early = sleeper_at(f);
        at = early < at ? early : at;
    }
    return max(at, f->hold_until);
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The time at which its timeout leads to this action. */
static int64_t timeout_at(const struct dz_facts *f, enum dz_timeout_action action)
{
    enum dz_timeout_action does = f->ephemeral ? DZ_TIMEOUT_DESTROY : f->timeout_action;
    return f->timeout_at && does == action ? f->timeout_at : INT64_MAX;
}

/* An ephemeral sandbox that was awake and is not any more is destroyed at once. */
static int64_t destroy_at(const struct dz_facts *f)
{
    if (f->state == DZ_STATE_ACTIVE)
        return max(timeout_at(f, DZ_TIMEOUT_DESTROY), f->retry_at);
    return f->ephemeral && f->state != DZ_STATE_CREATED ? max(f->suspended_at, f->retry_at)
                                                        : INT64_MAX;
}

int64_t dz_expiry_date(const struct dz_expiry *e, int64_t created)
{
    int64_t aged = e->max_age_ms ? later(created, e->max_age_ms) : 0;
    return !aged || (e->date && e->date < aged) ? e->date : aged;
}

int64_t dz_lifecycle_expires(const struct dz_facts *f)
{
    int64_t at = f->expires && !f->expired ? f->expires : INT64_MAX;
    if (!f->expired && f->ttl_idle_ms && f->state != DZ_STATE_ACTIVE) {
        int64_t idle = later(max(f->suspended_at, since_activity(f)), f->ttl_idle_ms);
        at = idle < at ? idle : at;
    }
    return at;
}

static bool asleep(enum dz_state s)
{
    return s == DZ_STATE_SUSPENDED || s == DZ_STATE_FROZEN;
}

/* An expired sandbox is stopped at once, and removed when its time comes. One that is never
 * suspended is removed at once. */
static enum dz_due due_of_expired(const struct dz_facts *f, int64_t *ret_at)
{
    bool stops = f->state == DZ_STATE_ACTIVE;
    bool removed = !stops || f->ephemeral;
    *ret_at = stops ? max(f->retry_at, 1) : max(f->expires, max(f->retry_at, 1));
    return removed ? DZ_DUE_DESTROY : DZ_DUE_SUSPEND;
}

enum dz_due dz_lifecycle_due(const struct dz_facts *f, int64_t *ret_at)
{
    int64_t at[] = {
        [DZ_DUE_EXPIRE] = INT64_MAX,  [DZ_DUE_DESTROY] = INT64_MAX, [DZ_DUE_WAKE] = INT64_MAX,
        [DZ_DUE_SUSPEND] = INT64_MAX, [DZ_DUE_FREEZE] = INT64_MAX,
    };
    enum dz_due due = DZ_DUE_NOTHING;
    *ret_at = INT64_MAX;
    if (f->state == DZ_STATE_DELETED)
        return due;
    if (f->expired)
        return due_of_expired(f, ret_at);
    at[DZ_DUE_EXPIRE] = dz_lifecycle_expires(f);
    at[DZ_DUE_DESTROY] = destroy_at(f);
    if (asleep(f->state) && f->wake_at && !f->ephemeral)
        at[DZ_DUE_WAKE] = f->wake_at;
    if (f->state == DZ_STATE_ACTIVE && !f->ephemeral)
        at[DZ_DUE_SUSPEND] = max(min(suspend_at(f), timeout_at(f, DZ_TIMEOUT_PAUSE)), f->retry_at);
    if (f->state == DZ_STATE_SUSPENDED && !f->ephemeral)
        at[DZ_DUE_FREEZE] = max(later(idle_since(f), f->idle_policy.freeze_ms), f->retry_at);
    for (int i = DZ_DUE_EXPIRE; i <= DZ_DUE_FREEZE; i++)
        if (at[i] < *ret_at) {
            *ret_at = at[i];
            due = (enum dz_due)i;
        }
    return due;
}
