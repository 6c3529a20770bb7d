/* SPDX-License-Identifier: MIT
 *
 * sandbox_record.c - records, which are parsed rows, and the only function that changes rows.
 *
 * The object of a sandbox keeps its record, so that neither a report of a busy guest nor a commit
 * reads the row or parses JSON. Each write updates the record with the row. So the record matches
 * the row, unless another process has changed the row since: then the next write fails because the
 * version differs (DZ_EBUSY), and the row is read again.
 *
 * Invariants, asserted in dz_record_write():
 *  1. A state changes only by a legal transition.
 *  2. After a write the record equals the parsed row (checked in builds with DZ_CHECK_DEEP).
 *  3. Every change computes the due time from the row after the change. Exceptions are changes that
 *     set the due time themselves, and changes while an operation is in progress, whose end
 *     computes it.
 */
#include "sandbox/sandbox_int.h"

#include "base/str.h"

#include <assert.h>
#include <string.h>

#define DATES_MS ((int64_t)3600 * 1000)

enum {
    TRIES_MAX = 8, /* others change a row rarely */
};

/* --- records ----------------------------------------------------------------------------- */

static int has_expired(const char *deployment, bool *ret_expired, struct dz_err *err)
{
    enum dz_deployment is = DZ_DEPLOYMENT_NONE;
    int rc = deployment && deployment[0] ? dz_deployment_parse(dz_str(deployment), &is, err) : 0;
    *ret_expired = is == DZ_DEPLOYMENT_TERMINATED;
    return rc;
}

/* Parse the columns, except for the JSON in `config`. */
static int of_columns(const struct dz_instance *row, struct dz_record *ret_rec, struct dz_err *err)
{
    struct dz_record r = {
        .known = true,
        .version = row->version,
        .epoch = row->epoch,
        .created = row->created,
        .expires = row->expires,
        .idle_policy = {row->suspend_ms, row->freeze_ms},
        .facts = {.last_active = row->last_active,
                  .suspended_at = row->suspended_at,
                  .hold_until = row->hold_until,
                  .wake_at = row->wake_at,
                  .ttl_idle_ms = row->ttl_idle_ms,
                  .retry_at = row->retry_at,
                  .timeout_at = row->timeout_at,
                  .ephemeral = row->ephemeral != 0},
    };
    struct dz_facts *f = &r.facts;
    int rc = dz_state_parse(dz_str(row->state), &f->state, err);
    if (rc == 0 && row->idle_mode && row->idle_mode[0])
        rc = dz_idle_mode_parse(dz_str(row->idle_mode), &f->mode, err);
    if (rc == 0 && row->timeout_action && row->timeout_action[0])
        rc = dz_timeout_action_parse(dz_str(row->timeout_action), &f->timeout_action, err);
    if (rc == 0)
        rc = has_expired(row->deployment, &f->expired, err);
    if (rc < 0)
        return dz_wrap(err, rc, "the row of %s", row->id);
    if (f->mode == DZ_IDLE_CONNECTIONS && r.idle_policy.suspend_ms == DZ_IDLE_INHERIT)
        r.idle_policy.suspend_ms = DZ_IDLE_CONNECTION_LAG_MS;
    *ret_rec = r;
    return 0;
}

/* Parse a row and its config, which the caller releases. A config that cannot be parsed counts as
 * empty, and *ret_config has no text then. */
static int read_row(struct dz_sandboxes *all, const struct dz_instance *row,
                    struct dz_record *ret_rec, struct dz_sandbox_config *ret_config,
                    struct dz_err *err)
{
    enum dz_keep keep = DZ_KEEP_MEMORY;
    int rc = of_columns(row, ret_rec, err);
    if (rc < 0)
        return rc;
    *ret_config = (struct dz_sandbox_config){.auto_resume = true};
    all->config_reads++;
    (void)!dz_sandbox_config_of(row, ret_config, NULL);
    if (row->keep)
        (void)!dz_keep_parse(dz_str(row->keep), &keep, NULL);
    ret_rec->facts.silence_ms = ret_config->silence_ms;
    ret_rec->ignore_cpu = ret_config->ignore_cpu;
    /* With these settings a suspend would lose its memory, or the next request would be refused. */
    ret_rec->sleeper_stays = keep == DZ_KEEP_FILES || !ret_config->auto_resume;
    return 0;
}

int dz_record_read(struct dz_sandboxes *all, const struct dz_instance *row,
                   struct dz_record *ret_rec, struct dz_err *err)
{
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    return read_row(all, row, ret_rec, &c, err);
}

int dz_record_of(struct dz_sandboxes *all, struct dz_sandbox *s, const struct dz_instance *row,
                 struct dz_record *ret_rec, struct dz_err *err)
{
    struct dz_sandbox_config c;
    if (s && s->rec.known && s->rec.version == row->version && s->rec.epoch == row->epoch) {
        *ret_rec = s->rec;
        return 0;
    }
    if (!s)
        return dz_record_read(all, row, ret_rec, err);
    int rc = read_row(all, row, ret_rec, &c, err);
    if (rc < 0)
        return rc;
    s->rec = *ret_rec;
    dz_sandbox_config_release(&s->config);
    s->config = c;
    return 0;
}

int dz_record_config(struct dz_sandbox *s, const struct dz_instance *row,
                     const struct dz_sandbox_config **ret_config, struct dz_err *err)
{
    struct dz_record rec;
    int rc = dz_record_of(s->all, s, row, &rec, err);
    if (rc == 0 && !s->config.text) { /* a write has changed it, or it cannot be parsed */
        s->all->config_reads++;
        rc = dz_sandbox_config_of(row, &s->config, err);
    }
    if (rc == 0)
        *ret_config = &s->config;
    return rc;
}

struct dz_facts dz_record_facts(const struct dz_sandboxes *all, const struct dz_record *rec,
                                const struct dz_sandbox *s)
{
    struct dz_facts f = rec->facts;
    f.created = dz_sandboxes_steady(all, rec->created);
    f.expires = dz_sandboxes_steady(all, rec->expires);
    f.idle_policy = dz_idle_policy_choose(&rec->idle_policy, NULL, &all->opts.idle_policy);
    if (s && s->warm) {
        f.last_active = s->now.last_active > f.last_active ? s->now.last_active : f.last_active;
        f.connections = s->now.connections;
        f.last_byte = s->now.last_byte;
        f.last_closed = s->now.last_closed;
        f.sleeps_until = rec->sleeper_stays ? 0 : s->now.sleeps_until;
    }
    return f;
}

/* A row with an expiry date is served at least every DATES_MS, because the wall clock may be
 * set. */
int64_t dz_record_due(const struct dz_sandboxes *all, const struct dz_facts *facts)
{
    int64_t at, now = dz_sandboxes_now(all);
    if (dz_lifecycle_due(facts, &at) == DZ_DUE_NOTHING)
        return 0;
    if (facts->expires && at > now + DATES_MS)
        at = now + DATES_MS;
    return at > 0 ? at : 1;
}

/* --- a record after a change ------------------------------------------------------------- */

/* Columns that a record has only in combination with other columns, or with JSON: a change of them
 * parses the row again. */
#define PARSED (DZ_COLUMN(idle_mode) | DZ_COLUMN(suspend_ms) | DZ_COLUMN(config) | DZ_COLUMN(keep))

/* The row after the change. Its texts are borrowed from both. */
static struct dz_instance changed(const struct dz_instance *row, uint64_t set,
                                  const struct dz_instance *to)
{
    struct dz_instance next = *row;
#define T(name)                \
    if (set & DZ_COLUMN(name)) \
        next.name = to->name ? to->name : "";
#define I(name)                \
    if (set & DZ_COLUMN(name)) \
        next.name = to->name;
    DZ_INSTANCE_COLUMNS(T, I)
#undef T
#undef I
    next.version++;
    return next;
}

static int fold(struct dz_record *rec, uint64_t set, const struct dz_instance *to,
                struct dz_err *err)
{
    struct dz_facts *f = &rec->facts;
#define FOLD(column, where)      \
    if (set & DZ_COLUMN(column)) \
        (where) = to->column;
    FOLD(epoch, rec->epoch)
    FOLD(created, rec->created)
    FOLD(expires, rec->expires)
    FOLD(freeze_ms, rec->idle_policy.freeze_ms)
    FOLD(last_active, f->last_active)
    FOLD(suspended_at, f->suspended_at)
    FOLD(hold_until, f->hold_until)
    FOLD(wake_at, f->wake_at)
    FOLD(ttl_idle_ms, f->ttl_idle_ms)
    FOLD(retry_at, f->retry_at)
    FOLD(timeout_at, f->timeout_at)
    FOLD(ephemeral, f->ephemeral)
#undef FOLD
    int rc = 0;
    if (set & DZ_COLUMN(state))
        rc = dz_state_parse(dz_str(to->state), &f->state, err);
    if (rc == 0 && set & DZ_COLUMN(timeout_action)) {
        f->timeout_action = (enum dz_timeout_action){0};
        if (to->timeout_action && to->timeout_action[0])
            rc = dz_timeout_action_parse(dz_str(to->timeout_action), &f->timeout_action, err);
    }
    if (rc == 0 && set & DZ_COLUMN(deployment))
        rc = has_expired(to->deployment, &f->expired, err);
    rec->version++;
    return rc;
}

static int after(struct dz_sandboxes *all, const struct row_write *w, uint64_t set,
                 struct dz_record *ret_next, struct dz_err *err)
{
    *ret_next = *w->rec;
    if (!(set & PARSED))
        return fold(ret_next, set, w->change->to, err);
    assert(w->row); /* a change of these columns comes with the row */
    const struct dz_instance next = changed(w->row, set, w->change->to);
    return dz_record_read(all, &next, ret_next, err);
}

/* --- writing ----------------------------------------------------------------------------- */

/* Invariant 2. Fields that come from JSON are not compared: each write that changes them parses
 * them. */
static void assert_record(const struct dz_record *rec, const struct dz_instance *row)
{
    struct dz_record read;
    if (of_columns(row, &read, NULL) < 0)
        return;
    const struct dz_facts *a = &rec->facts, *b = &read.facts;
    assert(rec->version == read.version && rec->epoch == read.epoch);
    assert(rec->created == read.created && rec->expires == read.expires);
    assert(rec->idle_policy.suspend_ms == read.idle_policy.suspend_ms &&
           rec->idle_policy.freeze_ms == read.idle_policy.freeze_ms);
    assert(a->state == b->state && a->mode == b->mode && a->ephemeral == b->ephemeral);
    assert(a->expired == b->expired);
    assert(a->last_active == b->last_active && a->suspended_at == b->suspended_at);
    assert(a->hold_until == b->hold_until && a->wake_at == b->wake_at);
    assert(a->ttl_idle_ms == b->ttl_idle_ms && a->retry_at == b->retry_at);
    assert(a->timeout_at == b->timeout_at && a->timeout_action == b->timeout_action);
}

/* Does the row have an operation in progress after this change? Then the operation's end computes
 * the due time. */
static bool operates(const struct row_write *w, const struct dz_sandbox *s)
{
    if (!w->by)
        return s && s->op;
    const char *op = w->change->set & DZ_COLUMN(op) ? w->change->to->op : w->by->row.op;
    return op && op[0];
}

/* Invariant 1. A change of the state comes with the row. */
static int check_state(const struct row_write *w, struct dz_err *err)
{
    enum dz_state next;
    assert(w->row);
    int rc = dz_state_parse(dz_str(w->change->to->state), &next, err);
    return rc < 0 || next == w->row->is ? rc : dz_lifecycle_next(w->row->is, next, err);
}

int dz_record_write(struct dz_sandboxes *all, const struct row_write *w, struct dz_err *err)
{
    struct dz_sandbox *s = dz_map_get(&all->map, dz_str(w->id));
    struct dz_instance to = *w->change->to, read = {0};
    struct dz_record next = {0};
    uint64_t set = w->change->set;
    int rc = w->rec->known ? after(all, w, set, &next, err) : 0;
    if (rc == 0 && set & DZ_COLUMN(state))
        rc = check_state(w, err);
    if (rc < 0)
        return rc;
    if (!(set & DZ_COLUMN(due)) && !operates(w, s)) {
        assert(next.known); /* invariant 3 */
        const struct dz_facts facts = dz_record_facts(all, &next, s);
        to.due = dz_record_due(all, &facts);
        set |= DZ_COLUMN(due);
    }
    const struct dz_registry_change c = {
        .id = w->id,
        .version = w->rec->version,
        .epoch = w->rec->epoch,
        .set = set,
        .to = &to,
        .durable = w->change->durable && all->blocking,
        .event = w->change->event,
        .detail = w->change->detail,
        .ret_row = w->ret_row           ? w->ret_row
                   : DZ_CHECK_DEEP != 0 ? &read
                                        : NULL,
    };
    rc = dz_registry_change(all->opts.registry, &c, err);
    if (rc == 0 && next.known && c.ret_row && DZ_CHECK_DEEP)
        assert_record(&next, c.ret_row);
    if (rc == 0)
        dz_instance_release(&read);
    if (s && rc == 0) {
        s->rec = next;
        if (!next.known || set & (PARSED | DZ_COLUMN(metadata)))
            dz_sandbox_config_release(&s->config);
        s->now.mode = next.known ? next.facts.mode : s->now.mode;
        s->due = set & DZ_COLUMN(due) ? to.due : s->due;
        if (s->op && s->op != w->by)
            s->op->stale = true;
    } else if (s && rc == DZ_EBUSY) {
        s->rec.known = false;
    }
    return rc;
}

int dz_record_write_row(struct dz_sandboxes *all, const struct dz_instance *row,
                        const struct row_change *change, struct dz_instance *ret_row,
                        struct dz_err *err)
{
    struct dz_record rec;
    int rc = dz_record_of(all, dz_map_get(&all->map, dz_str(row->id)), row, &rec, err);
    const struct row_write w = {
        .id = row->id, .rec = &rec, .row = row, .change = change, .ret_row = ret_row};
    return rc < 0 ? rc : dz_record_write(all, &w, err);
}

int dz_sandbox_update(struct dz_sandboxes *all, const struct dz_sandbox_update *u,
                      struct dz_instance *ret_row, struct dz_err *err)
{
    struct dz_instance row = {0}, next;
    int rc = DZ_EBUSY;
    for (int i = 0; i < TRIES_MAX && rc == DZ_EBUSY; i++) {
        struct dz_instance to = {0};
        struct row_change change = {.to = &to, .event = u->event, .detail = u->detail};
        dz_instance_release(&row);
        rc = dz_registry_get(all->opts.registry, u->id, &row, err);
        if (rc == 0)
            rc = u->fill(u->arg, &row, &to, &change.set, err);
        if (rc < 0 || change.set == 0)
            break;
        rc = dz_record_write_row(all, &row, &change, &next, err);
        if (rc == 0) {
            dz_instance_release(&row);
            row = next;
            dz_sandboxes_arm(all);
        }
    }
    if (rc == 0 && ret_row)
        *ret_row = row;
    else
        dz_instance_release(&row);
    return rc;
}

/* --- changes by an operation ------------------------------------------------------------- */

int dz_sandbox_op_reload(struct op *op, bool mine, struct dz_err *err)
{
    struct dz_instance row = {0};
    int rc = dz_registry_get(op->all->opts.registry, op->sandbox->id, &row, err);
    if (rc < 0)
        return rc;
    if (mine &&
        (row.epoch != op->row.epoch || strcmp(row.op, op->row.op) != 0 || row.is != op->row.is)) {
        dz_instance_release(&row);
        return dz_fail(err, DZ_EBUSY, "%s %s: another owner has taken the sandbox over",
                       dz_op_name(op->kind), op->sandbox->id);
    }
    dz_instance_release(&op->row);
    op->row = row;
    return 0;
}

int dz_sandbox_op_change(struct op *op, const struct row_change *change, struct dz_err *err)
{
    struct dz_err why = {0};
    struct dz_instance row;
    int rc = DZ_EBUSY;
    for (int i = 0; i < TRIES_MAX && rc == DZ_EBUSY; i++) {
        struct dz_record rec;
        const struct row_write w = {.id = op->sandbox->id,
                                    .rec = &rec,
                                    .row = &op->row,
                                    .change = change,
                                    .by = op,
                                    .ret_row = &row};
        rc = dz_record_of(op->all, op->sandbox, &op->row, &rec, &why);
        if (rc < 0 && operates(&w, op->sandbox)) { /* an unreadable row can still be deleted */
            rec = (struct dz_record){.version = op->row.version, .epoch = op->row.epoch};
            rc = 0;
        }
        if (rc == 0)
            rc = dz_record_write(op->all, &w, &why);
        if (rc == DZ_EBUSY) {
            int again = dz_sandbox_op_reload(op, true, err);
            if (again < 0)
                return again;
        }
    }
    if (rc < 0) {
        if (err)
            *err = why;
        return rc;
    }
    /* a worker will flush it, so that the loop does not wait for the disk */
    op->unsynced |= change->durable && !op->all->blocking;
    dz_instance_release(&op->row);
    op->row = row;
    return 0;
}
