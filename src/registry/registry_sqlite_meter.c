/* SPDX-License-Identifier: MIT
 *
 * The journal of intervals in the SQLite back end (registry_meter.h has the rules).
 *
 * An interval that is not over has OPEN as its end. The end is the second column of the index of
 * tenants, so a question about a span reads only the intervals that end in it or later, and reads
 * them from that index alone.
 */
#include "base/clock.h"
#include "base/str.h"
#include "registry/registry_meter.h"
#include "registry/registry_sqlite.h"

#include <string.h>

#define OPEN "9223372036854775807"

enum {
    STEP_MS = 1000, /* the wall clock was set if it moved by this much against the other clock */
};

/* --- the clock ------------------------------------------------------------------- */

static int64_t boot_ms(void)
{
    return dz_clock_boot_ns() / DZ_NS_PER_MS;
}

void dz_sqlite_meter_init(struct dz_sqlite_registry *s)
{
    s->stamp = dz_clock_real_ms();
    s->wall_ahead = s->stamp - boot_ms();
}

static int run_at(struct dz_sqlite_registry *s, const char *sql, int64_t a, int64_t b,
                  struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->db, sql);
    dz_bind_int(st, 1, a);
    dz_bind_int(st, 2, b);
    return dz_stmt_run(st, err);
}

/* End all open intervals at `until`, and begin them again at `since`. */
static int begin_again(struct dz_sqlite_registry *s, int64_t until, int64_t since,
                       struct dz_err *err)
{
    int rc = dz_db_begin(s->db, err);
    if (rc < 0)
        return rc;
    rc =
        run_at(s,
               "INSERT INTO meter SELECT id, tenant, sandbox_id, state, memory, file, cold, since, "
               "max(?1, since) FROM meter WHERE until = " OPEN " AND ?2",
               until, 1, err);
    if (rc == 0)
        rc = run_at(s, "UPDATE meter SET since = ?1 WHERE until = " OPEN " AND ?2", since, 1, err);
    if (rc < 0)
        dz_db_rollback(s->db);
    return rc < 0 ? rc : dz_db_commit(s->db, err);
}

int dz_sqlite_meter_settle(struct dz_sqlite_registry *s, struct dz_err *err)
{
    int64_t boot = boot_ms(), now = dz_clock_real_ms(), ahead = now - boot;
    int64_t moved = ahead - s->wall_ahead;
    if (moved >= STEP_MS || moved <= -STEP_MS) {
        int rc = begin_again(s, s->wall_ahead + boot, now, err);
        if (rc < 0)
            return rc;
    }
    s->wall_ahead = ahead;
    s->stamp = now;
    return 0;
}

/* --- intervals ------------------------------------------------------------------- */

/* The open interval of a row, and what it should be. Both kinds of rows have the same columns:
 * 0 rowid, 1 since, 2 state, 3 memory, 4 file, 5 cold of the interval; from 6 on: tenant, sandbox,
 * state, memory, file, cold as they are now. ?2: the new size of the live file, or NULL. */
static const char of_sandbox[] =
    "SELECT m.rowid, m.since, m.state, m.memory, m.file, m.cold, i.tenant, i.id, i.state, "
    "CASE i.state WHEN 'active' THEN ifnull(i.memory, 0) ELSE 0 END, "
    "coalesce(?2, m.file, 0), ifnull(i.cold_size, 0) "
    "FROM instances i LEFT JOIN meter m ON m.id = i.id AND m.until = " OPEN " WHERE i.id = ?1";
static const char of_snapshot[] =
    "SELECT m.rowid, m.since, m.state, m.memory, m.file, m.cold, i.tenant, i.sandbox_id, "
    "'" DZ_REGISTRY_METER_SNAPSHOT "', 0, coalesce(?2, i.size, 0), 0 "
    "FROM snapshot i LEFT JOIN meter m ON m.id = i.id AND m.until = " OPEN " WHERE i.id = ?1";

static bool is_same(struct dz_stmt *st)
{
    return dz_col_int(st, 0) && strcmp(dz_col_text(st, 2), dz_col_text(st, 8)) == 0 &&
           dz_col_int(st, 3) == dz_col_int(st, 9) && dz_col_int(st, 4) == dz_col_int(st, 10) &&
           dz_col_int(st, 5) == dz_col_int(st, 11);
}

/* End this interval. One without a length is removed. */
static int end_interval(struct dz_sqlite_registry *s, int64_t rowid, int64_t since,
                        struct dz_err *err)
{
    if (s->stamp <= since)
        return run_at(s, "DELETE FROM meter WHERE rowid = ?1 AND ?2", rowid, 1, err);
    return run_at(s, "UPDATE meter SET until = ?2 WHERE rowid = ?1", rowid, s->stamp, err);
}

static int begin_interval(struct dz_sqlite_registry *s, const char *id, struct dz_stmt *from,
                          struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "INSERT INTO meter VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, " OPEN ")");
    const char *sandbox = dz_col_text(from, 7);
    dz_bind_text(st, 1, id);
    dz_bind_text(st, 2, dz_col_text(from, 6));
    dz_bind_text(st, 3, sandbox[0] ? sandbox : NULL);
    dz_bind_text(st, 4, dz_col_text(from, 8));
    for (int i = 0; i < 3; i++)
        dz_bind_int(st, 5 + i, dz_col_int(from, 9 + i));
    dz_bind_int(st, 8, s->stamp);
    return dz_stmt_run(st, err);
}

static int follow(struct dz_sqlite_registry *s, const char *sql, const char *id,
                  const int64_t *file, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->db, sql);
    dz_bind_text(st, 1, id);
    if (file)
        dz_bind_int(st, 2, *file);
    else
        dz_bind_null(st, 2);
    int rc = dz_stmt_step(st, err);
    if (rc != 1 || is_same(st))
        return rc < 0 ? rc : 0;
    rc = dz_col_int(st, 0) ? end_interval(s, dz_col_int(st, 0), dz_col_int(st, 1), err) : 0;
    return rc < 0 ? rc : begin_interval(s, id, st, err);
}

int dz_sqlite_meter_follow(struct dz_sqlite_registry *s, const char *id, struct dz_err *err)
{
    return follow(s, of_sandbox, id, NULL, err);
}

int dz_sqlite_meter_snapshot(struct dz_sqlite_registry *s, const char *id, struct dz_err *err)
{
    return follow(s, of_snapshot, id, NULL, err);
}

int dz_sqlite_meter_end(struct dz_sqlite_registry *s, const char *id, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "SELECT rowid, since FROM meter WHERE id = ?1 AND until = " OPEN);
    dz_bind_text(st, 1, id);
    int rc = dz_stmt_step(st, err);
    return rc == 1 ? end_interval(s, dz_col_int(st, 0), dz_col_int(st, 1), err) : rc;
}

/* --- verbs ----------------------------------------------------------------------- */

int dz_sqlite_meter_file(struct dz_registry *r, const char *id, int64_t bytes, struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_begin(s, false, err);
    return rc < 0 ? rc : dz_sqlite_end(s, follow(s, of_sandbox, id, &bytes, err), false, err);
}

int dz_sqlite_meter_tenant(struct dz_registry *r, const char *tenant, const char *sandbox_id,
                           char **ret_tenant, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(dz_sqlite_self(r)->db,
                                    "SELECT tenant FROM meter INDEXED BY meter_sandbox WHERE "
                                    "sandbox_id = ?1 AND id = ?1 AND (?2 IS NULL OR tenant = ?2) "
                                    "LIMIT 1");
    dz_bind_text(st, 1, sandbox_id);
    dz_bind_text(st, 2, tenant);
    int rc = dz_stmt_step(st, err);
    if (rc != 1)
        return rc;
    char *found = dz_str_dup(dz_str(dz_col_text(st, 0)));
    if (!found)
        return dz_fail(err, DZ_ENOMEM, "read the journal of meters: out of memory");
    *ret_tenant = found;
    return 1;
}

int dz_sqlite_meter_mark(struct dz_registry *r, struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_begin(s, false, err);
    if (rc == 0)
        rc = dz_sqlite_end(
            s, run_at(s, "INSERT OR REPLACE INTO meter_mark VALUES(?2, ?1)", s->stamp, 1, err),
            false, err);
    return rc;
}

/* Memory that is still charged ends at the last mark, or at the last time in the journal if that is
 * later; the files stay. */
int dz_sqlite_meter_resume(struct dz_registry *r, struct dz_err *err)
{
#define ALIVE \
    "max(ifnull((SELECT max(since) FROM meter), 0), ifnull((SELECT max(at) FROM meter_mark), 0))"
    static const char *const steps[] = {
        "INSERT INTO meter SELECT id, tenant, sandbox_id, state, memory, file, cold, since, " ALIVE
        " FROM meter WHERE until = " OPEN " AND memory > 0 AND since < " ALIVE " AND ?1 AND ?2",
        "UPDATE meter SET since = " ALIVE ", memory = 0, state = 'suspended' WHERE until = " OPEN
        " AND memory > 0 AND ?1 AND ?2",
    };
#undef ALIVE
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_begin(s, false, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < DZ_ARRAY_LEN(steps) && rc == 0; i++)
        rc = run_at(s, steps[i], 1, 1, err);
    return dz_sqlite_end(s, rc, false, err);
}

/* Choose the index by the filter; the conditions are the same. */
static struct dz_stmt *select_intervals(struct dz_db *db, const struct dz_registry_meter_filter *f)
{
#define SELECT "SELECT state, since, until, memory, file, cold FROM meter INDEXED BY "
#define WITHIN " until > ?1 AND since < ?2"
    struct dz_stmt *st;
    if (f->sandbox_id && f->tenant)
        st =
            dz_db_stmt(db, SELECT "meter_sandbox WHERE sandbox_id = ?3 AND tenant = ?4 AND" WITHIN);
    else if (f->sandbox_id)
        st = dz_db_stmt(db, SELECT "meter_sandbox WHERE sandbox_id = ?3 AND" WITHIN);
    else if (f->tenant)
        st = dz_db_stmt(db, SELECT "meter_tenant WHERE tenant = ?4 AND" WITHIN);
    else
        st = dz_db_stmt(db, SELECT "meter_until WHERE" WITHIN);
#undef SELECT
#undef WITHIN
    dz_bind_int(st, 1, f->from);
    dz_bind_int(st, 2, f->to);
    if (f->sandbox_id)
        dz_bind_text(st, 3, f->sandbox_id);
    if (f->tenant)
        dz_bind_text(st, 4, f->tenant);
    return st;
}

int dz_sqlite_meter_read(struct dz_registry *r, const struct dz_registry_meter_filter *f,
                         dz_registry_interval_fn *fn, void *arg, struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_meter_settle(s, err);
    if (rc < 0)
        return rc;
    int64_t last = f->to < s->stamp ? f->to : s->stamp;
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = select_intervals(s->db, f);
    while ((rc = dz_stmt_step(st, err)) == 1) {
        struct dz_registry_interval i = {.state = dz_col_text(st, 0),
                                         .since = dz_col_int(st, 1),
                                         .until = dz_col_int(st, 2),
                                         .memory = dz_col_int(st, 3),
                                         .file = dz_col_int(st, 4),
                                         .cold = dz_col_int(st, 5)};
        /* an interval from before the clock was set back may end after now */
        int64_t end = i.until == INT64_MAX ? last : i.until < f->to ? i.until : f->to;
        i.since = i.since > f->from ? i.since : f->from;
        i.until = end;
        if (i.since < i.until)
            fn(arg, &i);
    }
    return rc;
}
