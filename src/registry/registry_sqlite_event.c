/* SPDX-License-Identifier: MIT
 *
 * Events in the SQLite back end. They are numbered without gaps in what was committed
 * as far as readers can tell: a number is given inside the transaction that writes it.
 */
#include "base/clock.h"
#include "registry/registry_sqlite.h"

enum {
    TRIM_EACH = 1024, /* old events go when a number is divisible by this */
};

int dz_sqlite_add_event(struct dz_sqlite_registry *s, const struct dz_registry_event *e,
                        struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "INSERT INTO event(at, sandbox_id, tenant, what, detail) SELECT ?1, ?2, "
                          "ifnull(?5, (SELECT tenant FROM instances WHERE id = ?2)), ?3, ?4");
    dz_bind_int(st, 1, dz_clock_real_ms());
    dz_bind_text(st, 2, e->sandbox_id && e->sandbox_id[0] ? e->sandbox_id : NULL);
    dz_bind_text(st, 3, e->what);
    dz_bind_text(st, 4, e->detail && e->detail[0] ? e->detail : NULL);
    dz_bind_text(st, 5, e->tenant && e->tenant[0] ? e->tenant : NULL);
    int rc = dz_stmt_run(st, err);
    int64_t seq = dz_db_last_rowid(s->db);
    if (rc < 0 || seq % TRIM_EACH)
        return rc;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *trim = dz_db_stmt(s->db, "DELETE FROM event WHERE seq <= ?1");
    dz_bind_int(trim, 1, seq - DZ_REGISTRY_EVENTS_MAX);
    return dz_stmt_run(trim, err);
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

/* The narrowest index that serves: of a sandbox, else of a tenant, else the numbers. */
static struct dz_stmt *select_events(struct dz_db *db, const struct dz_registry_event_filter *f)
{
#define SELECT "SELECT seq, at, sandbox_id, tenant, what, detail FROM event WHERE seq > ?1 "
    struct dz_stmt *st;
    if (f->sandbox_id)
        st = dz_db_stmt(db, SELECT "AND sandbox_id = ?4 AND (?3 IS NULL OR tenant = ?3) "
                                   "ORDER BY seq LIMIT ?2");
    else if (f->tenant)
        st = dz_db_stmt(db, SELECT "AND tenant = ?3 ORDER BY seq LIMIT ?2");
    else
        st = dz_db_stmt(db, SELECT "ORDER BY seq LIMIT ?2");
#undef SELECT
    if (f->tenant || f->sandbox_id)
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
