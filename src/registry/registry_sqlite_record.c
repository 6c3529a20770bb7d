/* SPDX-License-Identifier: MIT
 *
 * Records in the SQLite back end: one implementation for every table.
 *
 * Each SELECT has only the requested conditions, so that a tenant's list walks the index of
 * (tenant, id) and not other tenants' rows.
 */
#include "base/clock.h"
#include "base/str.h"
#include "registry/registry_sqlite.h"

#include <string.h>

/* The kinds of statements and their conditions. Parameters have fixed numbers. */
enum {
    ADD = 1,
    SELECT,
    COUNT,
    UPDATE,
};
enum condition {
    OF_TENANT = 1 << 0,  /* ?1 */
    OF_ID = 1 << 1,      /* ?2 */
    OF_ALIAS = 1 << 2,   /* ?2 */
    OF_SANDBOX = 1 << 3, /* ?3 */
    OF_STATUS = 1 << 4,  /* ?4 */
    AFTER = 1 << 5,      /* ?5 */
    EXPIRED = 1 << 6,    /* ?6 */
    DUE_BY = 1 << 7,     /* ?6 */
};
enum {
    P_TENANT = 1,
    P_ID,
    P_SANDBOX,
    P_STATUS,
    P_AFTER,
    P_EXPIRED,
    P_LIMIT,
    P_NOW,
    P_SET = 5, /* of an UPDATE: ?1 tenant, ?2 id, ?3 version, ?4 updated, then the columns */
};

enum {
    ID,
    TENANT,
    VERSION,
    CREATED,
    UPDATED,
}; /* DZ_RECORD_HEAD */

/* --- texts ----------------------------------------------------------------------- */

static void add_conditions(const struct dz_registry_table *t, uint64_t which, struct dz_buf *out)
{
    static const struct {
        enum condition bit;
        const char *sql;
    } table[] = {
        {OF_TENANT, "tenant = ?1"},
        {OF_ID, "id = ?2"},
        {OF_SANDBOX, "sandbox_id = ?3"},
        {OF_STATUS, "status = ?4"},
        {AFTER, "id > ?5"},
        {EXPIRED, "expires > 0 AND expires <= ?6"},
        {DUE_BY, "due > 0 AND due <= ?6"},
    };
    const char *word = "WHERE";
    for (size_t i = 0; i < DZ_ARRAY_LEN(table); i++)
        if (which & table[i].bit) {
            dz_buf_addf(out, "%s %s ", word, table[i].sql);
            word = "AND";
        }
    if (which & OF_ALIAS) {
        dz_buf_addf(out, "%s %s = ?2 ", word, t->alias);
        word = "AND";
    }
    if (t->lapses && !(which & EXPIRED))
        dz_buf_addf(out, "%s (expires = 0 OR expires > ?8) ", word);
}

static void make_select(const struct dz_registry_table *t, uint64_t key, struct dz_buf *out)
{
    dz_sql_add_select(t, out);
    add_conditions(t, key, out);
    dz_buf_adds(out, key & OF_ALIAS ? "ORDER BY created DESC, id DESC LIMIT ?7"
                     : key & DUE_BY ? "ORDER BY due LIMIT ?7"
                                    : "ORDER BY id LIMIT ?7");
}

static void make_count(const struct dz_registry_table *t, uint64_t key, struct dz_buf *out)
{
    dz_buf_addf(out, "SELECT count(*) FROM %s ", t->name);
    add_conditions(t, key, out);
}

static void make_update(const struct dz_registry_table *t, uint64_t key, struct dz_buf *out)
{
    dz_buf_addf(out, "UPDATE %s SET version = version + 1, updated = ?4", t->name);
    dz_sql_add_set(t, key & (DZ_SQL_VERB(1) - 1), P_SET, out);
    dz_buf_adds(out, " WHERE tenant = ?1 AND id = ?2 AND version = ?3");
}

/* --- reading --------------------------------------------------------------------- */

struct query {
    const struct dz_registry_record_filter *filter;
    const char *id, *alias; /* NULL: any */
};

static uint64_t conditions_of(const struct query *q)
{
    const struct dz_registry_record_filter *f = q->filter;
    return (uint64_t)((f->tenant ? OF_TENANT : 0) | (f->sandbox_id ? OF_SANDBOX : 0) |
                      (f->status ? OF_STATUS : 0) | (f->after ? AFTER : 0) |
                      (f->expired_at ? EXPIRED : 0) | (f->due_by ? DUE_BY : 0) |
                      (q->id ? OF_ID : 0) | (q->alias ? OF_ALIAS : 0));
}

/* Get and bind the statement of a query; verb is SELECT or COUNT. */
static int use_query(struct dz_sqlite_registry *s, const struct dz_registry_table *t, int verb,
                     const struct query *q, struct dz_sql_use *ret_use, struct dz_err *err)
{
    const struct dz_registry_record_filter *f = q->filter;
    uint64_t which = conditions_of(q);
    int rc = dz_sql_use(s, t, DZ_SQL_VERB(verb) | which, verb == SELECT ? make_select : make_count,
                        ret_use, err);
    if (rc < 0)
        return rc;
    const struct {
        uint64_t bit;
        int at;
        const char *text;
    } texts[] = {
        {OF_TENANT, P_TENANT, f->tenant}, {OF_ID, P_ID, q->id},
        {OF_ALIAS, P_ID, q->alias},       {OF_SANDBOX, P_SANDBOX, f->sandbox_id},
        {OF_STATUS, P_STATUS, f->status}, {AFTER, P_AFTER, f->after},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(texts); i++)
        if (which & texts[i].bit)
            dz_bind_text(ret_use->st, texts[i].at, texts[i].text);
    if (which & DUE_BY)
        dz_bind_int(ret_use->st, P_EXPIRED, f->due_by);
    else if (which & EXPIRED)
        dz_bind_int(ret_use->st, P_EXPIRED, f->expired_at);
    else if (t->lapses)
        dz_bind_int(ret_use->st, P_NOW, dz_clock_real_ms());
    size_t limit = f->limit && f->limit < DZ_REGISTRY_LIST_MAX ? f->limit : DZ_REGISTRY_LIST_MAX;
    if (verb == SELECT)
        dz_bind_int(ret_use->st, P_LIMIT, (int64_t)limit);
    return 0;
}

static int missing(const struct dz_registry_table *t, const char *word, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    return dz_fail(err, DZ_ENOENT, "there is no %s %s", t->what,
                   dz_str_quote(dz_str(word), quoted));
}

int dz_sqlite_record_get(struct dz_registry *r, const struct dz_registry_table *t,
                         const struct dz_registry_key *key, void *ret_row, struct dz_err *err)
{
    const struct dz_registry_record_filter one = {.tenant = key->tenant, .limit = 1};
    const struct query q = {&one, key->id, key->alias};
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int rc = use_query(dz_sqlite_self(r), t, SELECT, &q, &use, err);
    if (rc == 0)
        rc = dz_stmt_step(use.st, err);
    if (rc == 1)
        return dz_sql_read_row(use.st, t, ret_row, err);
    /* Do not show the hash of a secret. */
    const char *word = key->id ? key->id : t == &dz_token_table ? "with that secret" : key->alias;
    return rc < 0 ? rc : missing(t, word, err);
}

int dz_sqlite_record_list(struct dz_registry *r, const struct dz_registry_table *t,
                          const struct dz_registry_record_filter *f, dz_registry_take_fn *take,
                          void *arg, struct dz_err *err)
{
    const struct query q = {f, NULL, f->alias};
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    union dz_registry_row row;
    int rc = use_query(dz_sqlite_self(r), t, SELECT, &q, &use, err);
    while (rc >= 0 && (rc = dz_stmt_step(use.st, err)) == 1) {
        rc = dz_sql_read_row(use.st, t, &row, err);
        if (rc < 0)
            break;
        rc = take(arg, &row);
        if (rc < 0) {
            dz_registry_record_release(t, &row);
            rc = dz_fail(err, rc, "list the rows of %s: %s", t->name, dz_err_text(rc));
        }
    }
    return rc;
}

int dz_sqlite_record_count(struct dz_registry *r, const struct dz_registry_table *t,
                           const struct dz_registry_record_filter *f, int64_t *ret_count,
                           struct dz_err *err)
{
    struct dz_registry_record_filter all = *f;
    all.after = NULL;
    const struct query q = {&all, NULL, f->alias};
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int rc = use_query(dz_sqlite_self(r), t, COUNT, &q, &use, err);
    if (rc == 0)
        rc = dz_stmt_step(use.st, err);
    if (rc < 0)
        return rc;
    *ret_count = dz_col_int(use.st, 0);
    return 0;
}

/* --- writing --------------------------------------------------------------------- */

static int run_for(struct dz_sqlite_registry *s, const char *sql, const char *text, int64_t number,
                   struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->db, sql);
    dz_bind_text(st, 1, text);
    if (number)
        dz_bind_int(st, 2, number);
    return dz_stmt_run(st, err);
}

/* An expired row counts as missing, so remove it before it conflicts. */
static int drop_expired(struct dz_sqlite_registry *s, const struct dz_registry_table *t,
                        const void *row, struct dz_err *err)
{
    if (t == &dz_token_table)
        return run_for(s, "DELETE FROM token WHERE id = ?1 AND expires > 0 AND expires <= ?2",
                       dz_row_text(t, row, ID), dz_clock_real_ms(), err);
    if (t != &dz_idempotency_table)
        return 0;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(s->db, "DELETE FROM idempotency WHERE tenant = ?1 AND id = ?2 "
                                           "AND expires > 0 AND expires <= ?3");
    dz_bind_text(st, 1, dz_row_text(t, row, TENANT));
    dz_bind_text(st, 2, dz_row_text(t, row, ID));
    dz_bind_int(st, 3, dz_clock_real_ms());
    return dz_stmt_run(st, err);
}

static int insert(struct dz_sqlite_registry *s, const struct dz_registry_table *t, const void *row,
                  struct dz_err *err)
{
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int64_t now = dz_clock_real_ms(), created = dz_row_integer(t, row, CREATED);
    char quoted[DZ_STR_QUOTED];
    int rc = dz_sql_use(s, t, DZ_SQL_VERB(ADD), dz_sql_make_insert, &use, err);
    if (rc < 0)
        return rc;
    dz_sql_bind_set(use.st, t, row, (UINT64_C(1) << t->count) - 1, 1);
    dz_bind_int(use.st, VERSION + 1, 1);
    dz_bind_int(use.st, CREATED + 1, created ? created : now);
    dz_bind_int(use.st, UPDATED + 1, now);
    rc = dz_stmt_run(use.st, err);
    if (rc == DZ_EEXIST)
        return dz_fail(err, rc, "add %s %s: there is already one with that id%s%s", t->what,
                       dz_str_quote(dz_str(dz_row_text(t, row, ID)), quoted),
                       t->alias ? " or " : "", t->alias ? t->alias : "");
    return rc;
}

static int drop_old_runs(struct dz_sqlite_registry *s, const void *row, struct dz_err *err)
{
    const struct dz_schedule_run_row *run = row;
    return run_for(s,
                   "DELETE FROM schedule_run WHERE schedule_id = ?1 AND id <= (SELECT id FROM "
                   "schedule_run WHERE schedule_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2) "
                   "AND status IS NOT 'running'",
                   run->schedule_id, DZ_SCHEDULE_RUNS_MAX, err);
}

int dz_sqlite_record_add(struct dz_registry *r, const struct dz_registry_table *t, const void *row,
                         bool durable, struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_begin(s, durable, err);
    if (rc < 0)
        return rc;
    rc = drop_expired(s, t, row, err);
    if (rc == 0)
        rc = insert(s, t, row, err);
    if (rc == 0 && t == &dz_schedule_run_table)
        rc = drop_old_runs(s, row, err);
    if (rc == 0 && t == &dz_snapshot_table)
        rc = dz_sqlite_meter_snapshot(s, dz_row_text(t, row, ID), err);
    return dz_sqlite_end(s, rc, durable, err);
}

/* Find out why no row was changed: it is gone, or has another version. */
static int stale(struct dz_sqlite_registry *s, const struct dz_registry_table *t,
                 const struct dz_registry_key *key, struct dz_err *err)
{
    const struct dz_registry_record_filter one = {.tenant = key->tenant, .limit = 1};
    const struct query q = {&one, key->id, NULL};
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    char quoted[DZ_STR_QUOTED];
    int rc = use_query(s, t, SELECT, &q, &use, err);
    if (rc == 0)
        rc = dz_stmt_step(use.st, err);
    if (rc < 0)
        return rc;
    return rc == 0 ? missing(t, key->id, err)
                   : dz_fail(err, DZ_EBUSY, "%s %s was changed meanwhile: read it again", t->what,
                             dz_str_quote(dz_str(key->id), quoted));
}

static int update(struct dz_sqlite_registry *s, const struct dz_registry_table *t, void *row,
                  uint64_t set, struct dz_err *err)
{
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int64_t version = dz_row_integer(t, row, VERSION), now = dz_clock_real_ms();
    const struct dz_registry_key key = {.tenant = dz_row_text(t, row, TENANT),
                                        .id = dz_row_text(t, row, ID)};
    int rc = dz_sql_use(s, t, DZ_SQL_VERB(UPDATE) | set, make_update, &use, err);
    if (rc < 0)
        return rc;
    dz_bind_text(use.st, 1, key.tenant);
    dz_bind_text(use.st, 2, key.id);
    dz_bind_int(use.st, 3, version);
    dz_bind_int(use.st, 4, now);
    dz_sql_bind_set(use.st, t, row, set, P_SET);
    rc = dz_stmt_run(use.st, err);
    if (rc == DZ_EEXIST)
        return dz_fail(err, rc, "change %s %s: another one already has that %s", t->what, key.id,
                       t->alias);
    return rc < 0 ? rc : dz_db_changes(s->db) == 1 ? 0 : stale(s, t, &key, err);
}

int dz_sqlite_record_change(struct dz_registry *r, const struct dz_registry_table *t, void *row,
                            uint64_t set, bool durable, struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_begin(s, durable, err);
    if (rc < 0)
        return rc;
    rc = update(s, t, row, set, err);
    if (rc == 0 && t == &dz_snapshot_table && set & DZ_ROW_COLUMN(snapshot, size))
        rc = dz_sqlite_meter_snapshot(s, dz_row_text(t, row, ID), err);
    return dz_sqlite_end(s, rc, durable, err);
}

/* --- removing -------------------------------------------------------------------- */

static int check_guards(struct dz_sqlite_registry *s, const struct dz_registry_table *t,
                        const char *id, struct dz_err *err)
{
    for (const struct dz_registry_guard *g = t->guards; g && g->sql; g++) {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->db, g->sql);
        dz_bind_text(st, 1, id);
        int rc = dz_stmt_step(st, err);
        if (rc < 0)
            return rc;
        if (rc == 1)
            return dz_fail(err, DZ_ESTATE, "remove %s %s: %s still needs it; delete that first",
                           t->what, id, g->what);
    }
    return 0;
}

static int remove_row(struct dz_sqlite_registry *s, const struct dz_registry_table *t,
                      const struct dz_registry_key *key, int64_t version, struct dz_err *err)
{
    struct dz_buf sql = DZ_BUF_INIT(256);
    struct dz_stmt *st = NULL;
    dz_buf_addf(&sql,
                "DELETE FROM %s WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2) AND "
                "(?3 = 0 OR version = ?3)",
                t->name);
    int rc = sql.err ? dz_fail(err, sql.err, "remove %s %s: out of memory", t->what, key->id)
                     : dz_stmt_new(&st, s->db, sql.p, NULL, err);
    if (rc == 0) {
        dz_bind_text(st, 1, key->id);
        dz_bind_text(st, 2, key->tenant);
        dz_bind_int(st, 3, version);
        rc = dz_stmt_run(st, err);
    }
    dz_stmt_free(st);
    dz_buf_release(&sql);
    if (rc == 0 && dz_db_changes(s->db) != 1)
        rc = stale(s, t, key, err);
    if (rc == 0)
        rc = check_guards(s, t, key->id, err);
    for (const char *const *h = t->hangers; h && *h && rc == 0; h++)
        rc = run_for(s, *h, key->id, 0, err);
    return rc == 0 && t == &dz_snapshot_table ? dz_sqlite_meter_end(s, key->id, err) : rc;
}

int dz_sqlite_record_remove(struct dz_registry *r, const struct dz_registry_table *t,
                            const struct dz_registry_key *key, int64_t version, struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_begin(s, true, err);
    return rc < 0 ? rc : dz_sqlite_end(s, remove_row(s, t, key, version, err), true, err);
}

int dz_sqlite_schedule_next(struct dz_registry *r, int64_t *ret_at, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(dz_sqlite_self(r)->db,
                                    "SELECT due FROM schedule WHERE due > 0 ORDER BY due LIMIT 1");
    int rc = dz_stmt_step(st, err);
    if (rc >= 0)
        *ret_at = rc == 1 ? dz_col_int(st, 0) : INT64_MAX;
    return rc < 0 ? rc : 0;
}

int dz_sqlite_sweep(struct dz_registry *r, int64_t now, size_t limit, size_t *ret_count,
                    struct dz_err *err)
{
    static const struct {
        const char *sql;
        int64_t age;
    } kinds[] = {
        {"DELETE FROM token WHERE id IN (SELECT id FROM token WHERE expires > 0 AND "
         "expires <= ?1 LIMIT ?2)",
         0},
        {"DELETE FROM idempotency WHERE rowid IN (SELECT rowid FROM idempotency WHERE expires > 0 "
         "AND expires <= ?1 LIMIT ?2)",
         0},
        {"DELETE FROM ref WHERE id IN (SELECT id FROM ref WHERE closed > 0 AND closed <= ?1 "
         "LIMIT ?2)",
         DZ_REGISTRY_TOMBSTONE_MS},
        {"DELETE FROM meter WHERE rowid IN (SELECT rowid FROM meter WHERE until <= ?1 LIMIT ?2)",
         DZ_REGISTRY_METER_KEPT_MS},
    };
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    size_t gone = 0;
    int rc = dz_sqlite_begin(s, false, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < DZ_ARRAY_LEN(kinds) && rc == 0; i++) {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->db, kinds[i].sql);
        dz_bind_int(st, 1, now - kinds[i].age);
        dz_bind_int(st, 2, (int64_t)limit);
        rc = dz_stmt_run(st, err);
        gone += rc == 0 ? (size_t)dz_db_changes(s->db) : 0;
    }
    rc = dz_sqlite_end(s, rc, false, err);
    if (rc == 0)
        *ret_count = gone;
    return rc;
}

/* --- numbers of tenants ------------------------------------------------------------------------
 */

/* 1, or 0 if the tenant has none. */
static int number_of(struct dz_sqlite_registry *s, const char *tenant, int64_t *ret_number,
                     struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(s->db, "SELECT number FROM tenant_number WHERE tenant = ?1");
    dz_bind_text(st, 1, tenant);
    int rc = dz_stmt_step(st, err);
    if (rc == 1)
        *ret_number = dz_col_int(st, 0);
    return rc;
}

/* Assign the lowest free number from `from` on: `from` itself, or the successor of a number whose
 * successor is free. */
static int give_number(struct dz_sqlite_registry *s, const char *tenant, int64_t from,
                       struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "INSERT INTO tenant_number(tenant, number) SELECT ?1, min(n) FROM ("
                          "SELECT ?2 AS n WHERE NOT EXISTS "
                          "(SELECT 1 FROM tenant_number WHERE number = ?2) "
                          "UNION ALL SELECT a.number + 1 FROM tenant_number a WHERE a.number >= ?2 "
                          "AND NOT EXISTS "
                          "(SELECT 1 FROM tenant_number b WHERE b.number = a.number + 1))");
    dz_bind_text(st, 1, tenant);
    dz_bind_int(st, 2, from);
    return dz_stmt_run(st, err);
}

/* Assign a number that a tenant had before only as the last resort, because processes may still run
 * as its user. */
static int give_below(struct dz_sqlite_registry *s, const char *tenant, int64_t from, int64_t most,
                      int64_t *ret_number, struct dz_err *err)
{
    int rc = dz_sqlite_begin(s, false, err);
    if (rc < 0)
        return rc;
    rc = give_number(s, tenant, from, err);
    if (rc == 0)
        rc = number_of(s, tenant, ret_number, err);
    if (rc >= 0)
        rc = *ret_number < most ? 0 : DZ_ELIMIT; /* do not use up a number */
    return dz_sqlite_end(s, rc, false, err);
}

int dz_sqlite_number(struct dz_registry *r, const char *tenant, int64_t most, int64_t *ret_number,
                     struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int64_t number = -1;
    int rc = number_of(s, tenant, &number, err);
    if (rc == 0) {
        rc = give_below(s, tenant, s->next_number, most, &number, err);
        if (rc == DZ_ELIMIT && s->next_number > 0)
            rc = give_below(s, tenant, 0, most, &number, err);
        if (rc == 0)
            s->next_number = number + 1;
    }
    if (rc == DZ_ELIMIT || (rc >= 0 && number >= most))
        return dz_fail(err, DZ_ELIMIT, "tenant %s: all %lld tenant numbers are in use", tenant,
                       (long long)most);
    if (rc < 0)
        return rc;
    *ret_number = number;
    return 0;
}
