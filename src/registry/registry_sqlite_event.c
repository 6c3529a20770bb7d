/* SPDX-License-Identifier: MIT
 *
 * Events in the SQLite back end. Readers see numbers without gaps among committed events, because a
 * number is assigned inside the transaction that writes the event.
 *
 * Each event has two numbers: one among all events, and one among its tenant's, so that a tenant
 * cannot learn from gaps how many events others have. The second is one more than the tenant's
 * last; event_number keeps that when events are trimmed.
 */
#include "base/clock.h"
#include "registry/registry_sqlite.h"

enum {
    TRIM_EACH = 1024, /* old events are removed when a number is divisible by this */
};

/* Remove events up to this number, but keep each tenant's last number. */
static int trim(struct dz_sqlite_registry *s, int64_t last, struct dz_err *err)
{
    static const char *const steps[] = {
        "INSERT INTO event_number(tenant, number) SELECT tenant, max(number) FROM event "
        "WHERE seq <= ?1 AND tenant IS NOT NULL GROUP BY tenant "
        "ON CONFLICT(tenant) DO UPDATE SET number = max(number, excluded.number)",
        "DELETE FROM event WHERE seq <= ?1",
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(steps); i++) {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->db, steps[i]);
        dz_bind_int(st, 1, last);
        rc = dz_stmt_run(st, err);
    }
    return rc;
}

int dz_sqlite_add_event(struct dz_sqlite_registry *s, const struct dz_registry_event *e,
                        struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "INSERT INTO event(at, sandbox_id, tenant, what, detail, number) "
                          "SELECT ?1, ?2, t, ?3, ?4, 1 + max("
                          "ifnull((SELECT max(number) FROM event WHERE tenant = t), 0), "
                          "ifnull((SELECT number FROM event_number WHERE tenant = t), 0)) FROM "
                          "(SELECT ifnull(?5, (SELECT tenant FROM instances WHERE id = ?2)) AS t)");
    dz_bind_int(st, 1, dz_clock_real_ms());
    dz_bind_text(st, 2, e->sandbox_id && e->sandbox_id[0] ? e->sandbox_id : NULL);
    dz_bind_text(st, 3, e->what);
    dz_bind_text(st, 4, e->detail && e->detail[0] ? e->detail : NULL);
    dz_bind_text(st, 5, e->tenant && e->tenant[0] ? e->tenant : NULL);
    int rc = dz_stmt_run(st, err);
    int64_t seq = dz_db_last_rowid(s->db);
    if (rc < 0 || seq % TRIM_EACH)
        return rc;
    return trim(s, seq - DZ_REGISTRY_EVENTS_MAX, err);
}

int dz_sqlite_note(struct dz_registry *r, const struct dz_registry_event *e, int64_t *ret_seq,
                   struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_begin(s, false, err);
    if (rc < 0)
        return rc;
    rc = dz_sqlite_add_event(s, e, err);
    int64_t seq = dz_db_last_rowid(s->db);
    rc = dz_sqlite_end(s, rc, false, err);
    if (rc == 0)
        *ret_seq = seq;
    return rc;
}

/* Choose the narrowest index: of a sandbox, else of a tenant, else the numbers. A tenant's own
 * numbers have the same order as those of all, so the start is looked up once. */
static struct dz_stmt *select_events(struct dz_db *db, const struct dz_registry_event_filter *f)
{
#define SELECT(number) "SELECT " number ", at, sandbox_id, tenant, what, detail FROM event WHERE "
#define BEHIND                                                                \
    "seq > ifnull((SELECT seq FROM event WHERE tenant = ?3 AND number <= ?1 " \
    "ORDER BY number DESC LIMIT 1), 0) AND tenant = ?3 "
    struct dz_stmt *st;
    if (f->sandbox_id && f->tenant)
        st = dz_db_stmt(db, SELECT("number") BEHIND "AND sandbox_id = ?4 ORDER BY seq LIMIT ?2");
    else if (f->sandbox_id)
        st = dz_db_stmt(db, SELECT("seq") "seq > ?1 AND sandbox_id = ?4 ORDER BY seq LIMIT ?2");
    else if (f->tenant)
        st = dz_db_stmt(db, SELECT("number") "number > ?1 AND tenant = ?3 "
                                             "ORDER BY number LIMIT ?2");
    else
        st = dz_db_stmt(db, SELECT("seq") "seq > ?1 ORDER BY seq LIMIT ?2");
#undef SELECT
#undef BEHIND
    if (f->tenant)
        dz_bind_text(st, 3, f->tenant);
    if (f->sandbox_id)
        dz_bind_text(st, 4, f->sandbox_id);
    return st;
}

int dz_sqlite_events(struct dz_registry *r, const struct dz_registry_event_filter *f,
                     dz_registry_event_fn *fn, void *arg, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = select_events(dz_sqlite_self(r)->db, f);
    size_t limit = f->limit && f->limit < DZ_REGISTRY_LIST_MAX ? f->limit : DZ_REGISTRY_LIST_MAX;
    int rc;
    dz_bind_int(st, 1, f->after);
    dz_bind_int(st, 2, (int64_t)limit);
    while ((rc = dz_stmt_step(st, err)) == 1) {
        const struct dz_registry_event e = {
            .seq = dz_col_int(st, 0),
            .at = dz_col_int(st, 1),
            .sandbox_id = dz_col_text(st, 2),
            .tenant = dz_col_text(st, 3),
            .what = dz_col_text(st, 4),
            .detail = dz_col_text(st, 5),
        };
        if (fn(arg, &e))
            return 0;
    }
    return rc;
}

/* sqlite_sequence remembers the newest number, even when nothing is kept. */
int dz_sqlite_event_span(struct dz_registry *r, int64_t *ret_first, int64_t *ret_last,
                         struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(
        dz_sqlite_self(r)->db, "SELECT ifnull((SELECT min(seq) FROM event), 0), "
                               "ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0)");
    int rc = dz_stmt_step(st, err);
    if (rc < 0)
        return rc;
    *ret_first = dz_col_int(st, 0);
    *ret_last = dz_col_int(st, 1);
    return 0;
}
