/* SPDX-License-Identifier: MIT
 *
 * lifecycle.c - the legal transitions, and the names of states and other values.
 *
 * The transitions are one table of sets: allowed[s] has the bit of each state that may follow s.
 * Every check reads that table, and dz_lifecycle_path searches it, so an illegal transition cannot
 * happen anywhere.
 */
#include "lifecycle/lifecycle.h"

#include <assert.h>
#include <stdio.h>

static const unsigned allowed[DZ_STATE_COUNT] = {
#define X(name, text, to) [DZ_STATE_##name] = (to),
    DZ_STATES(X)
#undef X
};

static const char *const state_names[DZ_STATE_COUNT + 1] = {
#define X(name, text, to) text,
    DZ_STATES(X)
#undef X
        "none",
};

static const char *const status_names[] = {
#define X(name, text) text,
    DZ_STATUSES(X)
#undef X
};

static const char *const deployment_names[] = {
#define X(name, text) text,
    DZ_DEPLOYMENTS(X)
#undef X
};

static const char *const keep_names[] = {
    [DZ_KEEP_MEMORY] = "memory",
    [DZ_KEEP_FILES] = "files",
};

static const char *const mode_names[] = {
    [DZ_IDLE_ACTIVITY] = "activity",
    [DZ_IDLE_CONNECTIONS] = "connections",
    [DZ_IDLE_NEVER] = "never",
};

/* --- names ----------------------------------------------------------------------- */

/* List as "a, b or c" the names whose bit is set, or "nothing". */
static void list_names(const char *const *names, size_t count, unsigned set, char *out, size_t size)
{
    size_t len = 0;
    int left = __builtin_popcount(set);
    (void)snprintf(out, size, "nothing");
    for (size_t i = 0; i < count; i++) {
        if (!(set & 1u << i) || len >= size)
            continue;
        left--;
        int n = snprintf(out + len, size - len, "%s%s", names[i],
                         left > 1    ? ", "
                         : left == 1 ? " or "
                                     : "");
        len += n > 0 ? (size_t)n : 0;
    }
}

/* Find the index of s among names, or DZ_EINVAL with a sentence that lists them; a name "" cannot
 * be chosen. */
static int parse_name(struct dz_str s, const char *const *names, size_t count, const char *what,
                      struct dz_err *err)
{
    unsigned set = 0;
    for (size_t i = 0; i < count; i++) {
        if (names[i][0] && dz_str_eqz(s, names[i]))
            return (int)i;
        set |= names[i][0] ? 1u << i : 0;
    }
    char quoted[DZ_STR_QUOTED], list[160];
    list_names(names, count, set, list, sizeof list);
    return dz_fail(err, DZ_EINVAL, "invalid %s %s: must be %s", what, dz_str_quote(s, quoted),
                   list);
}

const char *dz_state_name(enum dz_state s)
{
    assert(s <= DZ_STATE_COUNT);
    return state_names[s];
}

int dz_state_parse(struct dz_str s, enum dz_state *ret_state, struct dz_err *err)
{
    int i = parse_name(s, state_names, DZ_STATE_COUNT, "state", err);
    if (i < 0)
        return i;
    *ret_state = (enum dz_state)i;
    return 0;
}

const char *dz_status_name(enum dz_status s)
{
    assert(s < DZ_STATUS_COUNT);
    return status_names[s];
}

int dz_status_parse(struct dz_str s, enum dz_status *ret_status, struct dz_err *err)
{
    int i = s.n == 0 ? DZ_STATUS_NONE : parse_name(s, status_names, DZ_STATUS_COUNT, "status", err);
    if (i < 0)
        return i;
    *ret_status = (enum dz_status)i;
    return 0;
}

const char *dz_deployment_name(enum dz_deployment d)
{
    assert(d < DZ_DEPLOYMENT_COUNT);
    return deployment_names[d];
}

int dz_deployment_parse(struct dz_str s, enum dz_deployment *ret_deployment, struct dz_err *err)
{
    int i = s.n == 0 ? DZ_DEPLOYMENT_NONE
                     : parse_name(s, deployment_names, DZ_DEPLOYMENT_COUNT, "deployment", err);
    if (i < 0)
        return i;
    *ret_deployment = (enum dz_deployment)i;
    return 0;
}

int dz_keep_parse(struct dz_str s, enum dz_keep *ret_keep, struct dz_err *err)
{
    int i = parse_name(s, keep_names, DZ_ARRAY_LEN(keep_names), "keep", err);
    if (i < 0)
        return i;
    *ret_keep = (enum dz_keep)i;
    return 0;
}

const char *dz_idle_mode_name(enum dz_idle_mode m)
{
    assert(m <= DZ_IDLE_NEVER);
    return mode_names[m];
}

int dz_idle_mode_parse(struct dz_str s, enum dz_idle_mode *ret_mode, struct dz_err *err)
{
    int i = parse_name(s, mode_names, DZ_ARRAY_LEN(mode_names), "idle mode", err);
    if (i < 0)
        return i;
    *ret_mode = (enum dz_idle_mode)i;
    return 0;
}

/* --- the map ---------------------------------------------------------------------- */

/* The command that brings a sandbox into a state. */
static const char *verb(enum dz_state from, enum dz_state to)
{
    static const char *const verbs[DZ_STATE_COUNT] = {
        [DZ_STATE_CREATED] = "create",    [DZ_STATE_ACTIVE] = "wake",
        [DZ_STATE_SUSPENDED] = "suspend", [DZ_STATE_FROZEN] = "freeze",
        [DZ_STATE_ARCHIVED] = "archive",  [DZ_STATE_DELETED] = "delete",
    };
    return from == DZ_STATE_ARCHIVED && to == DZ_STATE_ACTIVE ? "revive" : verbs[to];
}

/* The transition that a refusal recommends: the first on a path to `to` that loses nothing. NONE:
 * there is no such path. */
static enum dz_state next_on_path(enum dz_state from, enum dz_state to)
{
    bool asleep = to == DZ_STATE_FROZEN || to == DZ_STATE_ARCHIVED;
    if (from == to || from == DZ_STATE_DELETED || to == DZ_STATE_CREATED || to == DZ_STATE_DELETED)
        return DZ_STATE_NONE;
    return from == DZ_STATE_SUSPENDED          ? DZ_STATE_FROZEN
           : from == DZ_STATE_ACTIVE && asleep ? DZ_STATE_SUSPENDED
                                               : DZ_STATE_ACTIVE;
}

int dz_lifecycle_next(enum dz_state from, enum dz_state to, struct dz_err *err)
{
    assert(from < DZ_STATE_COUNT && to < DZ_STATE_COUNT);
    if (allowed[from] & 1u << to)
        return (int)to;
    const char *name = state_names[from], *article = name[0] == 'a' ? "an" : "a";
    if (from == to)
        return dz_fail(err, DZ_ESTATE, "the sandbox is already %s", name);
    if (to == DZ_STATE_DELETED)
        return dz_fail(err, DZ_ESTATE,
                       "cannot delete %s %s sandbox, only an archived one; doze rm --force NAME "
                       "deletes a sandbox in any state",
                       article, name);
    enum dz_state first = next_on_path(from, to);
    if (first == DZ_STATE_NONE)
        return dz_fail(err, DZ_ESTATE, "cannot %s %s %s sandbox", verb(from, to), article, name);
    return dz_fail(err, DZ_ESTATE, "cannot %s %s %s sandbox; %s it first (doze %s NAME)",
                   verb(from, to), article, name, verb(from, first), verb(from, first));
}

int dz_lifecycle_path(enum dz_state from, enum dz_state to,
                      enum dz_state ret_path[static DZ_STATE_COUNT], struct dz_err *err)
{
    enum dz_state queue[DZ_STATE_COUNT] = {from}, before[DZ_STATE_COUNT];
    unsigned seen = 1u << from;
    size_t n = 1;
    int count = 0;
    assert(from < DZ_STATE_COUNT && to < DZ_STATE_COUNT);
    for (size_t i = 0; i < n && !(seen & 1u << to); i++)
        for (unsigned s = 0; s < DZ_STATE_COUNT; s++)
            if (allowed[queue[i]] & ~seen & 1u << s) {
                seen |= 1u << s;
                before[s] = queue[i];
                queue[n++] = (enum dz_state)s;
            }
    if (!(seen & 1u << to))
        return dz_fail(err, DZ_ESTATE, "%s %s sandbox can never become %s",
                       state_names[from][0] == 'a' ? "an" : "a", state_names[from],
                       state_names[to]);
    for (enum dz_state s = to; s != from; s = before[s])
        count++;
    int at = count;
    for (enum dz_state s = to; s != from; s = before[s])
        ret_path[--at] = s;
    return count;
}
