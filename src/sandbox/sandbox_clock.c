/* SPDX-License-Identifier: MIT
 *
 * sandbox_clock.c - the clock of all durations (idleness, holds, timeouts, silence, retries), and
 * the work that it starts: due rows, activity, recovery.
 *
 *   now = CLOCK_BOOTTIME + offset
 *
 * The offset is chosen once, so that the clock shows the wall clock's time. It is kept until the
 * host reboots, also over restarts of the daemon. A reboot restarts CLOCK_BOOTTIME: then the clock
 * continues from the wall clock, plus the difference that the two had, but never from before the
 * time at which it was last saved. Dates that clients set (expiry) are of the wall clock.
 *
 * Two timers are set to the earliest time at which a row is due. The row of an active sandbox may
 * be due too early, because activity is not written: then its due time is corrected, and nothing
 * else happens. So a busy sandbox costs one write in fifteen minutes, and a sleeping one none.
 *
 * However many rows are due (after a night switched off), at most DZ_SANDBOX_BACKGROUND_MAX
 * operations of the clock run at a time, and DZ_SANDBOX_BACKGROUND_SHARE of one tenant, the
 * earliest first.
 *
 * Invariant, asserted in skip(): a row that was read and is not served now gets a later due time.
 * So rows that must wait, however many, do not keep the clock from the rows behind them.
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEP_MS = 1000,           /* a larger change of the skew means that the wall clock was set */
    SEEN_MS = 10 * 60 * 1000, /* interval of saving the clock while it ticks */
};

static int64_t boot_ms(void)
{
    return dz_clock_boot_ns() / DZ_NS_PER_MS;
}

int64_t dz_sandboxes_now(const struct dz_sandboxes *all)
{
    return boot_ms() + all->clock.offset;
}

static int64_t skew(const struct dz_sandboxes *all)
{
    return dz_sandboxes_now(all) - dz_clock_real_ms();
}

static int64_t shift(int64_t at, int64_t by)
{
    int64_t sum;
    if (at == 0 || at == INT64_MAX)
        return at;
    if (__builtin_add_overflow(at, by, &sum))
        return by > 0 ? INT64_MAX : 1;
    return sum > 0 ? sum : 1;
}

int64_t dz_sandboxes_date(const struct dz_sandboxes *all, int64_t at)
{
    return shift(at, -skew(all));
}

int64_t dz_sandboxes_steady(const struct dz_sandboxes *all, int64_t date)
{
    return shift(date, skew(all));
}

static void save(struct dz_sandboxes *all)
{
    const struct dz_sandbox_clock c = {
        .offset_ms = all->clock.offset, .skew_ms = skew(all), .seen_ms = dz_sandboxes_now(all)};
    all->clock.skew = c.skew_ms;
    all->clock.saved_at = c.seen_ms;
    if (all->opts.files->clock_save)
        all->opts.files->clock_save(all->opts.files_arg, &c);
}

void dz_sandboxes_clock_begin(struct dz_sandboxes *all)
{
    struct dz_sandbox_clock c = {0};
    int64_t now = dz_clock_real_ms();
    bool known =
        all->opts.files->clock_load && all->opts.files->clock_load(all->opts.files_arg, &c);
    all->clock.offset = now - boot_ms();
    if (known && c.same_boot) {
        all->clock.offset = c.offset_ms;
    } else if (known) {
        now = now + c.skew_ms > c.seen_ms ? now + c.skew_ms : c.seen_ms;
        all->clock.offset = now - boot_ms();
    }
    all->clock.before = c.skew_ms;
    save(all);
}

static void clock_check(struct dz_sandboxes *all)
{
    if (llabs(skew(all) - all->clock.skew) > STEP_MS ||
        dz_sandboxes_now(all) - all->clock.saved_at > SEEN_MS)
        save(all);
}

/* --- what is due ------------------------------------------------------------------------- */

enum {
    RETRY_MS = 1000,      /* time until a retry after a failure of the registry */
    POSTPONED_MS = 60000, /* delay of a row whose operation could not be started */
    /* dates that differ by at most this are one deadline, computed from different clock readings */
    SAME_MS = 5,
    TICK_MAX_MS = 60000, /* longest wait of the monotonic timer */
    WALL_LAG_MS = 1000,  /* lag behind the monotonic timer, which should fire first */
    SKIPPED_MS = 1000,   /* delay of a row whose tenant has its share of operations already */
    SKIPPED_STEP_MS =
        10, /* added for each further such row, so that they are not all read again at once */
};

/* The loop has no timer for CLOCK_BOOTTIME. The monotonic timer fires early enough, but at least
 * once a minute, because its clock stops while the host is suspended. The other timer fires right
 * after such a suspend, or when the wall clock is set far ahead. */
#define DATE_MAX_MS ((int64_t)1 << 50)

static void set_tick(struct dz_sandboxes *all, int64_t at)
{
    if (!all->clock_on || at == all->tick_at)
        return;
    all->tick_at = at;
    if (at == INT64_MAX) {
        dz_timer_stop(all->tick);
        dz_timer_stop(all->wall);
        return;
    }
    int64_t left = (at < DATE_MAX_MS ? at : DATE_MAX_MS) - dz_sandboxes_now(all);
    dz_timer_after(all->tick, left < 0 ? 0 : left < TICK_MAX_MS ? left : TICK_MAX_MS);
    dz_timer_at(all->wall, dz_clock_real_ms() + left + WALL_LAG_MS);
}

void dz_sandboxes_arm(struct dz_sandboxes *all)
{
    int64_t at;
    if (!all->clock_on || all->ticking)
        return;
    /* the end of an operation calls this function again */
    if (all->background >= DZ_SANDBOX_BACKGROUND_MAX)
        return;
    int64_t again = dz_sandboxes_now(all) + RETRY_MS;
    if (dz_registry_next_due(all->opts.registry, &at, NULL) < 0 ||
        (all->unwritten_deaths && at > again))
        at = again;
    set_tick(all, at);
}

/* --- cells that died while the registry could not be written ----------------------------- */

void dz_sandboxes_death_unwritten(struct dz_sandboxes *all)
{
    all->unwritten_deaths = true;
    all->deaths_after[0] = '\0';
    dz_sandboxes_arm(all);
}

/* Record the deaths of cells in rows that say active although there is no cell and no operation. A
 * batch in each turn, because there may be as many as active sandboxes. True: continue in the next
 * turn. */
static bool write_deaths(struct dz_sandboxes *all)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_SANDBOX_BATCH);
    const struct dz_registry_filter f = {.state = dz_state_name(DZ_STATE_ACTIVE),
                                         .after = all->deaths_after,
                                         .limit = DZ_SANDBOX_BATCH};
    bool failed = dz_registry_list(all->opts.registry, &f, &rows, NULL) < 0;
    for (size_t i = 0; i < rows.n; i++) {
        const struct dz_sandbox *s = dz_map_get(&all->map, dz_str(rows.p[i].id));
        const struct dz_sandbox_request r = {.what = DZ_REQUEST_CRASHED, .id = rows.p[i].id};
        (void)snprintf(all->deaths_after, sizeof all->deaths_after, "%s", rows.p[i].id);
        if (!s || (!s->op && !s->warm && !s->taken))
            failed |= !dz_sandbox_background(all, &r);
    }
    if (rows.n == DZ_SANDBOX_BATCH && !failed)
        return true;
    all->deaths_after[0] = '\0';
    all->unwritten_deaths = failed;
    return false;
}

/* --- rows -------------------------------------------------------------------------------- */

/* Change a row. A failure is not reported, because the next tick tries again. */
static bool write_row(struct dz_sandboxes *all, const struct dz_instance *row, uint64_t set,
                      const struct dz_instance *to, const char *event)
{
    const struct row_change change = {.set = set, .to = to, .event = event};
    return dz_record_write_row(all, row, &change, NULL, NULL) == 0;
}

/* The sandbox has expired: from now on it is due to be stopped, and then to be removed. */
static bool expire(struct dz_sandboxes *all, const struct dz_instance *row)
{
    const struct dz_instance to = {.deployment = dz_deployment_name(DZ_DEPLOYMENT_TERMINATED),
                                   .expires = dz_clock_real_ms() + DZ_EXPIRY_CLEANUP_MS};
    uint64_t set = DZ_COLUMN(deployment) | DZ_COLUMN(expires) | DZ_COLUMN(ttl_idle_ms) |
                   DZ_COLUMN(timeout_at) | DZ_COLUMN(wake_at) | DZ_COLUMN(hold_until) |
                   DZ_COLUMN(retry_at);
    return write_row(all, row, set, &to, "expired");
}

static void note(struct dz_sandboxes *all, const struct dz_instance *row, const char *what,
                 const char *detail)
{
    const struct dz_registry_event event = {
        .sandbox_id = row->id, .tenant = row->tenant, .what = what, .detail = detail};
    int64_t seq;
    /* an event that cannot be stored does not stop the operation */
    (void)!dz_registry_note(all->opts.registry, &event, &seq, NULL);
}

/* Make a row due later whose operation cannot be started now. */
static bool postpone(struct dz_sandboxes *all, const struct dz_instance *row, bool wake)
{
    int64_t at = dz_sandboxes_now(all) + POSTPONED_MS;
    const struct dz_instance to = {.wake_at = at, .retry_at = at};
    return write_row(all, row, wake ? DZ_COLUMN(wake_at) : DZ_COLUMN(retry_at), &to, NULL);
}

/* --- shares ------------------------------------------------------------------------------ */

struct share *dz_share_enter(struct dz_sandboxes *all, const char *tenant)
{
    struct share *s = dz_map_get(&all->shares, dz_str(tenant));
    size_t n = strlen(tenant) + 1;
    if (!s) {
        s = dz_zalloc(sizeof *s + n);
        if (!s)
            return NULL;
        memcpy(s->tenant, tenant, n);
        if (dz_map_put(&all->shares, dz_str(s->tenant), s, NULL) < 0) {
            dz_free(s);
            return NULL;
        }
    }
    s->count++;
    all->background++;
    return s;
}

void dz_share_leave(struct dz_sandboxes *all, struct share *s)
{
    if (!s)
        return;
    all->background--;
    if (--s->count > 0)
        return;
    (void)dz_map_remove(&all->shares, dz_str(s->tenant));
    dz_free(s);
}

/* --- serving a due row ------------------------------------------------------------------- */

/* Postpone a row. When the reason for that ends, the row may get an earlier due time. */
static bool skip(struct dz_sandboxes *all, const struct dz_instance *row, int64_t until)
{
    const struct dz_instance to = {.due = until};
    assert(until > dz_sandboxes_now(all)); /* the invariant at the head of this file */
    return write_row(all, row, DZ_COLUMN(due), &to, NULL);
}

static bool wake_in_line(const struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(const struct waiter, w, &s->waiting, link)
        if (w->what == DZ_REQUEST_USE || w->what == DZ_REQUEST_WAKE)
            return true;
    return false;
}

/* The sandbox's file is reserved, perhaps for long. If the guest is due to wake, queue that like
 * any request, and ask the file-only cell each second to end, because another file request may have
 * started before the wake's turn. For anything else postpone the row until the file is given
 * back. */
static bool skip_reserved(struct dz_sandboxes *all, const struct dz_instance *row,
                          struct dz_sandbox *s, bool wake)
{
    const struct dz_sandbox_request use = {
        .what = DZ_REQUEST_USE, .id = row->id, .may_resume = true};
    if (wake && !wake_in_line(s))
        (void)dz_sandbox_background(all, &use);
    bool done = skip(all, row, dz_sandboxes_now(all) + (wake ? RETRY_MS : POSTPONED_MS));
    s->skipped = true;
    if (wake)
        dz_sandbox_yield_file(all, row->id, DZ_REQUEST_SUSPEND);
    return done;
}

/* A row that cannot be parsed: it is never due again. */
static bool leave(struct dz_sandboxes *all, const struct dz_instance *row)
{
    const struct dz_instance to = {0};
    const struct dz_record rec = {.version = row->version, .epoch = row->epoch};
    const struct row_change change = {.set = DZ_COLUMN(due), .to = &to};
    const struct row_write w = {.id = row->id, .rec = &rec, .row = row, .change = &change};
    return dz_record_write(all, &w, NULL) == 0;
}

/* Write the last activity, which also corrects the due time. */
static int write_active(struct dz_sandboxes *all, const char *id, const struct dz_record *rec,
                        int64_t last_active)
{
    const struct dz_instance to = {.last_active = last_active};
    const struct row_change change = {.set = DZ_COLUMN(last_active), .to = &to};
    const struct row_write w = {.id = id, .rec = rec, .change = &change};
    return dz_record_write(all, &w, NULL);
}

/* Serve one due row. False: nothing was changed or started. */
static bool serve_row(struct dz_sandboxes *all, const struct dz_instance *row)
{
    static const enum dz_request asks[] = {
        [DZ_DUE_DESTROY] = DZ_REQUEST_DESTROY,
        [DZ_DUE_WAKE] = DZ_REQUEST_USE,
        [DZ_DUE_SUSPEND] = DZ_REQUEST_SUSPEND,
        [DZ_DUE_FREEZE] = DZ_REQUEST_FREEZE,
    };
    struct dz_sandbox *s = dz_map_get(&all->map, dz_str(row->id));
    struct dz_record rec;
    int64_t at;
    if (s && s->op) /* the end of the operation computes the due time */
        return skip(all, row, dz_sandboxes_now(all) + POSTPONED_MS);
    if (dz_record_of(all, s, row, &rec, NULL) < 0)
        return leave(all, row);
    const struct dz_facts facts = dz_record_facts(all, &rec, s);
    enum dz_due due = dz_lifecycle_due(&facts, &at);
    if (due == DZ_DUE_NOTHING || at > dz_sandboxes_now(all))
        return write_active(all, row->id, &rec, facts.last_active) == 0;
    if (due == DZ_DUE_EXPIRE)
        return expire(all, row);
    if (s && s->taken)
        return skip_reserved(all, row, s, due == DZ_DUE_WAKE);
    struct share *share = dz_map_get(&all->shares, dz_str(row->tenant));
    if (share && share->count >= DZ_SANDBOX_BACKGROUND_SHARE) {
        int64_t first = dz_sandboxes_now(all) + SKIPPED_MS;
        share->skip_at =
            share->skip_at + SKIPPED_STEP_MS > first ? share->skip_at + SKIPPED_STEP_MS : first;
        return skip(all, row, share->skip_at);
    }
    bool timeout = facts.timeout_at && facts.timeout_at <= dz_sandboxes_now(all);
    if (timeout)
        note(all, row, "timeout", due == DZ_DUE_DESTROY ? "destroy" : "pause");
    /* nobody will wake an expired sandbox again, so its memory is not kept */
    const struct dz_sandbox_request r = {.what = asks[due],
                                         .id = row->id,
                                         .keep = facts.expired ? "files" : NULL,
                                         .may_resume = !timeout && !facts.expired};
    return dz_sandbox_background(all, &r) || postpone(all, row, due == DZ_DUE_WAKE);
}

void dz_sandboxes_on_tick(void *arg)
{
    struct dz_sandboxes *all = arg;
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_SANDBOX_BATCH);
    all->tick_at = INT64_MAX;
    dz_timer_stop(all->tick);
    dz_timer_stop(all->wall);
    clock_check(all);
    all->ticking = true;
    bool more = all->unwritten_deaths && write_deaths(all);
    int rc =
        dz_registry_due(all->opts.registry, dz_sandboxes_now(all), DZ_SANDBOX_BATCH, &rows, NULL);
    bool moved = rows.n == 0;
    for (size_t i = 0; i < rows.n && all->background < DZ_SANDBOX_BACKGROUND_MAX; i++)
        moved = serve_row(all, &rows.p[i]) || moved;
    all->ticking = false;
    if (more)
        set_tick(all, dz_sandboxes_now(all));
    else if (rc < 0 || !moved) /* no progress: do not spin */
        set_tick(all, dz_sandboxes_now(all) + RETRY_MS);
    else
        dz_sandboxes_arm(all);
}

/* --- activity ---------------------------------------------------------------------------- */

static void note_activity(struct dz_facts *f, enum dz_activity what, int64_t now)
{
    f->last_active = now;
    if (what == DZ_ACTIVITY_CONNECTION_OPEN)
        f->connections++;
    if (what == DZ_ACTIVITY_CONNECTION_CLOSE && f->connections > 0 && --f->connections == 0)
        f->last_closed = now;
    if (what >= DZ_ACTIVITY_CONNECTION_OPEN && what <= DZ_ACTIVITY_CONNECTION_KEEPALIVE)
        f->last_byte = now;
}

/* Does this activity count, by the idle mode and count_cpu of the sandbox? */
static bool counts(const struct dz_record *rec, enum dz_activity what)
{
    return dz_lifecycle_counts(what, rec->facts.mode, !rec->ignore_cpu);
}

bool dz_sandbox_op_counts_cpu(const struct op *op)
{
    struct dz_record rec;
    return dz_record_of(op->all, op->sandbox, &op->row, &rec, NULL) == 0 &&
           counts(&rec, DZ_ACTIVITY_GUEST_CPU);
}

/* Get the record of a sandbox: from its object if it has one, else from the row. */
static int look_up(struct dz_sandboxes *all, const char *id, struct dz_sandbox *s,
                   struct dz_record *ret_rec)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    if (s && s->rec.known) {
        *ret_rec = s->rec;
        return 0;
    }
    int rc = dz_registry_get(all->opts.registry, id, &row, NULL);
    return rc < 0 ? rc : dz_record_of(all, s, &row, ret_rec, NULL);
}

/* Write the last activity. If the row has changed since the record was read, try once more. */
static void write_active_of(struct dz_sandboxes *all, const char *id, struct dz_sandbox *s,
                            const struct dz_record *rec, int64_t last_active)
{
    struct dz_record fresh;
    if (write_active(all, id, rec, last_active) == DZ_EBUSY && look_up(all, id, s, &fresh) == 0) {
        if (s)
            last_active = dz_record_facts(all, &fresh, s).last_active;
        (void)write_active(all, id, &fresh, last_active);
    }
    dz_sandboxes_arm(all);
}

/* Activity is written at once only if it makes the row due earlier (the last connection closed).
 * The tick corrects all other due times. */
void dz_sandbox_touch(struct dz_sandboxes *all, const char *id, enum dz_activity what)
{
    struct dz_sandbox *s = dz_map_get(&all->map, dz_str(id));
    struct dz_record rec;
    bool edge = s && s->now.mode == DZ_IDLE_CONNECTIONS &&
                (what == DZ_ACTIVITY_CONNECTION_OPEN || what == DZ_ACTIVITY_CONNECTION_CLOSE);
    if ((s && !s->warm) || what >= DZ_ACTIVITY_COUNT)
        return;
    if (s && !edge && what != DZ_ACTIVITY_GUEST_CPU &&
        dz_lifecycle_counts(what, DZ_IDLE_ACTIVITY, false)) {
        note_activity(&s->now, what, dz_sandboxes_now(all));
        return;
    }
    if (look_up(all, id, s, &rec) < 0 || !counts(&rec, what))
        return;
    if (s)
        note_activity(&s->now, what, dz_sandboxes_now(all));
    if (s && s->op)
        return;
    struct dz_facts facts = dz_record_facts(all, &rec, s);
    if (!s) /* activity of a sleeping sandbox, for instance a read of its files */
        facts.last_active = dz_sandboxes_now(all);
    int64_t due = dz_record_due(all, &facts);
    if (!s || (due && (due < s->due || !s->due)))
        write_active_of(all, id, s, &rec, facts.last_active);
}

void dz_sandbox_guest_sleeps(struct dz_sandboxes *all, const char *id, int64_t until)
{
    struct dz_sandbox *s = dz_map_get(&all->map, dz_str(id));
    struct dz_record rec;
    until = dz_sandboxes_steady(all, until);
    if (!s || !s->warm || llabs(s->now.sleeps_until - until) <= SAME_MS)
        return;
    s->now.sleeps_until = until;
    if (s->op || until < dz_sandboxes_now(all) + DZ_IDLE_SLEEPER_MS ||
        look_up(all, id, s, &rec) < 0)
        return; /* this does not make the due time earlier */
    struct dz_facts facts = dz_record_facts(all, &rec, s);
    int64_t due = dz_record_due(all, &facts);
    if (due && (due < s->due || !s->due))
        write_active_of(all, id, s, &rec, facts.last_active);
}

void dz_sandbox_recompute_due(struct dz_sandboxes *all, const char *id)
{
    struct dz_sandbox *s = dz_map_get(&all->map, dz_str(id));
    struct dz_record rec;
    /* the end of the operation computes the due time */
    if ((s && s->op) || look_up(all, id, s, &rec) < 0)
        return;
    struct dz_facts facts = dz_record_facts(all, &rec, s);
    write_active_of(all, id, s, &rec, facts.last_active);
}

static int fill_hold(void *arg, const struct dz_instance *row, struct dz_instance *to,
                     uint64_t *set, struct dz_err *err)
{
    (void)row, (void)err;
    to->hold_until = *(const int64_t *)arg;
    *set = DZ_COLUMN(hold_until);
    return 0;
}

int64_t dz_sandboxes_expires(struct dz_sandboxes *all, const struct dz_instance *row)
{
    struct dz_sandbox *s = dz_map_get(&all->map, dz_str(row->id));
    struct dz_record rec;
    if (dz_record_of(all, s, row, &rec, NULL) < 0)
        return 0;
    if (rec.facts.expired)
        return rec.expires;
    const struct dz_facts facts = dz_record_facts(all, &rec, s);
    int64_t at = dz_lifecycle_expires(&facts);
    return at == INT64_MAX ? 0 : dz_sandboxes_date(all, at);
}

int dz_sandbox_hold(struct dz_sandboxes *all, const char *id, int64_t until, struct dz_err *err)
{
    int64_t at = dz_sandboxes_steady(all, until);
    const struct dz_sandbox_update u = {.id = id, .fill = fill_hold, .arg = &at, .event = "held"};
    return dz_sandbox_update(all, &u, NULL, err);
}

struct timeout {
    int64_t length_ms, now;
    enum dz_timeout_action action;
};

static int fill_timeout(void *arg, const struct dz_instance *row, struct dz_instance *to,
                        uint64_t *set, struct dz_err *err)
{
    const struct timeout *t = arg;
    (void)err;
    to->timeout_ms = t->length_ms;
    to->timeout_action = t->length_ms ? dz_timeout_action_name(t->action) : "";
    to->timeout_at =
        row->is == DZ_STATE_ACTIVE ? dz_timeout_begin(t->length_ms, 0, true, t->now) : 0;
    *set = DZ_COLUMN(timeout_ms) | DZ_COLUMN(timeout_action) | DZ_COLUMN(timeout_at) |
           DZ_COLUMN(timeout_left);
    return 0;
}

int dz_sandbox_timeout(struct dz_sandboxes *all, const char *id, int64_t length_ms,
                       enum dz_timeout_action action, struct dz_err *err)
{
    struct timeout t = {.length_ms = length_ms, .now = dz_sandboxes_now(all), .action = action};
    const struct dz_sandbox_update u = {
        .id = id, .fill = fill_timeout, .arg = &t, .event = "timeout_set"};
    return dz_sandbox_update(all, &u, NULL, err);
}

/* --- recovery ---------------------------------------------------------------------------- */

enum {
    RECOVERY_PASSES = 2,
    RECOVERY_PAGE = 64, /* rows read at a time; an interrupted page is read again */
};

static void recovery_failed(struct dz_sandboxes *all, int rc, const struct dz_err *err)
{
    if (rc >= 0 || all->recovery.rc < 0)
        return;
    all->recovery.rc = rc;
    all->recovery.err = *err;
}

/* Read the next rows of the pass. A recovered row does not match the filter any more. */
static int recovery_page(struct dz_sandboxes *all, struct dz_instances *rows, struct dz_err *err)
{
    const struct dz_registry_filter f = {
        .unfinished = all->recovery.pass == 0,
        .state = all->recovery.pass == 0 ? NULL : dz_state_name(DZ_STATE_ACTIVE),
        .after = all->recovery.after,
        .limit = RECOVERY_PAGE,
    };
    return dz_registry_list(all->opts.registry, &f, rows, err);
}

/* Recover rows until the time until_ms. True: there may be more. */
static bool resume_some(struct dz_sandboxes *all, int64_t until_ms)
{
    bool more = all->recovery.pass < RECOVERY_PASSES;
    while (more) {
        DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(RECOVERY_PAGE);
        struct dz_err err = {0};
        int rc = recovery_page(all, &rows, &err);
        recovery_failed(all, rc, &err);
        if (rc < 0 || rows.n == 0) {
            all->recovery.after[0] = '\0';
            more = ++all->recovery.pass < RECOVERY_PASSES;
        }
        for (size_t i = 0; rc == 0 && i < rows.n; i++) {
            (void)snprintf(all->recovery.after, sizeof all->recovery.after, "%s", rows.p[i].id);
            recovery_failed(all, dz_sandbox_op_resume(all, &rows.p[i], &err), &err);
            if (dz_clock_mono_ms() >= until_ms)
                return true;
        }
    }
    return false;
}

int dz_sandboxes_recover_some(struct dz_sandboxes *all, int64_t until_ms, struct dz_err *err)
{
    struct dz_err why = {0};
    assert(!all->clock_on);
    all->blocking = true;
    if (!all->recovery.begun)
        recovery_failed(all, dz_cold_sweep(&all->opts.cold, &why), &why);
    all->recovery.begun = true;
    bool more = resume_some(all, until_ms);
    all->blocking = false;
    if (more)
        return 1;
    all->clock_on = true;
    dz_sandboxes_arm(all);
    if (all->recovery.rc < 0 && err)
        *err = all->recovery.err;
    return all->recovery.rc;
}

int dz_sandboxes_recover(struct dz_sandboxes *all, struct dz_err *err)
{
    int rc;
    do
        rc = dz_sandboxes_recover_some(all, INT64_MAX, err);
    while (rc == 1);
    return rc;
}
