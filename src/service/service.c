/* SPDX-License-Identifier: MIT
 *
 * service.c - the state machine of a sandbox's services (service.h draws it).
 */
#include "service/service.h"

#include <assert.h>
#include <string.h>

const char *dz_service_status_name(enum dz_service_status status)
{
    static const char *const names[] = {
#define X(id, text) text,
        DZ_SERVICE_STATUSES(X)
#undef X
    };
    return names[status];
}

const char *dz_service_restart_name(enum dz_service_restart restart)
{
    static const char *const names[] = {
#define X(id, text) text,
        DZ_SERVICE_RESTARTS(X)
#undef X
    };
    return names[restart];
}

/* --- the set ------------------------------------------------------------------------------ */

size_t dz_service_find(const struct dz_service_set *set, const char *name)
{
    size_t i = 0;
    while (i < DZ_SERVICE_SLOTS &&
           !(set->of[i].used && !set->of[i].removed && strcmp(set->of[i].name, name) == 0))
        i++;
    return i;
}

size_t dz_service_slot(struct dz_service_set *set)
{
    size_t i = 0;
    while (i < DZ_SERVICE_SLOTS && set->of[i].used)
        i++;
    if (i < DZ_SERVICE_SLOTS)
        set->of[i] = (struct dz_service){.used = true, .due = INT64_MAX};
    return i;
}

bool dz_services_cyclic(const struct dz_service_set *set, size_t *ret_slot)
{
    uint32_t settled = 0; /* services all of whose needs are settled */
    for (size_t round = 0; round < DZ_SERVICE_SLOTS; round++)
        for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++)
            if (!set->of[i].used || (set->of[i].needs & ~settled) == 0)
                settled |= UINT32_C(1) << i;
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++)
        if (!(settled & UINT32_C(1) << i)) {
            *ret_slot = i;
            return true;
        }
    return false;
}

/* --- one service -------------------------------------------------------------------------- */

bool dz_service_has_process(const struct dz_service *s)
{
    return s->status == DZ_SERVICE_STARTING || s->status == DZ_SERVICE_READY ||
           s->status == DZ_SERVICE_STOPPING;
}

static void enter(struct dz_service *s, enum dz_service_status status, int64_t due)
{
    s->status = status;
    s->due = due;
    s->signal = false;
    if (status != DZ_SERVICE_STOPPING)
        s->again = s->late = false;
}

/* The back-off after so many failures in a row. */
static int64_t backoff(unsigned failures)
{
    int64_t ms = DZ_SERVICE_BACKOFF_MIN_MS;
    for (unsigned i = 1; i < failures && ms < DZ_SERVICE_BACKOFF_MAX_MS; i++)
        ms *= 2;
    return ms < DZ_SERVICE_BACKOFF_MAX_MS ? ms : DZ_SERVICE_BACKOFF_MAX_MS;
}

static void free_slot(struct dz_service *s)
{
    *s = (struct dz_service){.due = INT64_MAX};
}

void dz_services_fresh(struct dz_service_set *set)
{
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++) {
        struct dz_service *s = &set->of[i];
        if (!s->used)
            continue;
        if (s->removed) {
            free_slot(s);
            continue;
        }
        s->failures = 0;
        s->restarts = 0;
        s->loop = false;
        enter(s, s->enabled ? DZ_SERVICE_WAITING : DZ_SERVICE_STOPPED, INT64_MAX);
    }
}

void dz_services_slept(struct dz_service_set *set, int64_t ms)
{
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++) {
        set->of[i].began_at += ms;
        if (set->of[i].due != INT64_MAX)
            set->of[i].due += ms;
    }
}

/* Send the stop signal soon. */
static void ask_to_end(struct dz_service *s)
{
    if (s->status == DZ_SERVICE_STOPPING)
        return;
    enter(s, DZ_SERVICE_STOPPING, INT64_MAX);
    s->signal = true;
}

void dz_service_start(struct dz_service *s)
{
    s->enabled = true;
    if (s->status == DZ_SERVICE_STOPPING) {
        s->again = true;
    } else if (!dz_service_has_process(s) && s->status != DZ_SERVICE_WAITING) {
        s->failures = 0;
        s->loop = false;
        enter(s, DZ_SERVICE_WAITING, INT64_MAX);
    }
}

void dz_service_stop(struct dz_service *s)
{
    s->enabled = false;
    s->loop = false;
    if (dz_service_has_process(s)) {
        ask_to_end(s);
        s->again = s->late = false;
    } else {
        enter(s, DZ_SERVICE_STOPPED, INT64_MAX);
    }
}

void dz_service_restart(struct dz_service *s)
{
    if (!dz_service_has_process(s)) {
        dz_service_start(s);
        return;
    }
    s->enabled = true;
    s->failures = 0;
    s->loop = false;
    ask_to_end(s);
    s->again = true;
}

void dz_service_remove(struct dz_service *s)
{
    dz_service_stop(s);
    s->removed = true;
    s->needs = 0;
    if (!dz_service_has_process(s))
        free_slot(s);
}

void dz_service_runs(struct dz_service *s, int64_t now)
{
    if (s->status == DZ_SERVICE_READY || s->status == DZ_SERVICE_STOPPING)
        return;
    if (s->status != DZ_SERVICE_STARTING) { /* found in a machine that woke */
        s->began_at = now;
        enter(s, DZ_SERVICE_STARTING, s->checked ? now + s->ready_ms : INT64_MAX);
    }
    if (!s->enabled) {
        ask_to_end(s);
    } else if (!s->checked) {
        enter(s, DZ_SERVICE_READY, INT64_MAX);
    }
}

void dz_service_ready(struct dz_service *s)
{
    if (s->status == DZ_SERVICE_STARTING)
        enter(s, DZ_SERVICE_READY, INT64_MAX);
}

/* What the policy says of an end that nobody asked for. */
static bool follow_policy(struct dz_service *s, bool failed, int64_t now)
{
    bool restarts = s->restart == DZ_SERVICE_RESTART_ALWAYS ||
                    (s->restart == DZ_SERVICE_RESTART_ON_FAILURE && failed);
    if (!restarts) {
        enter(s, failed ? DZ_SERVICE_FAILED : DZ_SERVICE_DONE, INT64_MAX);
        return false;
    }
    if (now - s->began_at >= DZ_SERVICE_STABLE_MS && !s->late) {
        s->failures = 0;
        s->loop = false;
    }
    s->failures++;
    s->restarts++;
    bool news = !s->loop && s->failures >= DZ_SERVICE_LOOP;
    s->loop |= news;
    enter(s, DZ_SERVICE_BACKOFF, now + backoff(s->failures));
    return news;
}

bool dz_service_ended(struct dz_service *s, bool failed, int64_t now)
{
    if (s->removed) {
        free_slot(s);
        return false;
    }
    if (s->status != DZ_SERVICE_STOPPING)
        return follow_policy(s, failed, now);
    if (s->again || !s->enabled) {
        enter(s, s->again ? DZ_SERVICE_WAITING : DZ_SERVICE_STOPPED, INT64_MAX);
        return false;
    }
    assert(s->late);
    return follow_policy(s, true, now);
}

/* --- actions ------------------------------------------------------------------------------ */

static bool needs_are_met(const struct dz_service_set *set, const struct dz_service *s)
{
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++)
        if (s->needs & UINT32_C(1) << i && set->of[i].used &&
            set->of[i].status != DZ_SERVICE_READY && set->of[i].status != DZ_SERVICE_DONE)
            return false;
    return true;
}

static enum dz_service_act act_on(const struct dz_service_set *set, struct dz_service *s,
                                  int64_t now)
{
    if (s->status == DZ_SERVICE_BACKOFF && s->due <= now)
        enter(s, DZ_SERVICE_WAITING, INT64_MAX);
    if (s->status == DZ_SERVICE_WAITING && needs_are_met(set, s)) {
        s->began_at = now;
        enter(s, DZ_SERVICE_STARTING, s->checked ? now + s->ready_ms : INT64_MAX);
        return DZ_SERVICE_ACT_START;
    }
    if (s->status == DZ_SERVICE_STARTING && s->due <= now) {
        ask_to_end(s);
        s->late = true;
    }
    if (s->status == DZ_SERVICE_STOPPING && s->signal) {
        s->signal = false;
        s->due = now + s->grace_ms;
        return DZ_SERVICE_ACT_STOP;
    }
    if (s->status == DZ_SERVICE_STOPPING && s->due <= now) {
        s->due = INT64_MAX;
        return DZ_SERVICE_ACT_KILL;
    }
    return DZ_SERVICE_ACT_NONE;
}

enum dz_service_act dz_service_next(struct dz_service_set *set, int64_t now, size_t *ret_slot)
{
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++) {
        enum dz_service_act act =
            set->of[i].used ? act_on(set, &set->of[i], now) : DZ_SERVICE_ACT_NONE;
        if (act != DZ_SERVICE_ACT_NONE) {
            *ret_slot = i;
            return act;
        }
    }
    return DZ_SERVICE_ACT_NONE;
}

int64_t dz_services_due(const struct dz_service_set *set)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++) {
        const struct dz_service *s = &set->of[i];
        int64_t due = s->status == DZ_SERVICE_WAITING && needs_are_met(set, s) ? INT64_MIN
                      : s->status == DZ_SERVICE_STOPPING && s->signal          ? INT64_MIN
                                                                               : s->due;
        if (s->used && due < least)
            least = due;
    }
    return least;
}
