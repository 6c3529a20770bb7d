/* SPDX-License-Identifier: MIT
 *
 * The registry in a SQLite file of our own, by one exclusive connection.
 *
 * An UPDATE names only the columns that change, because each indexed column costs time; the
 * statement for a set of columns is made once and cached by that set. A change without an event is
 * one statement with its own transaction.
 *
 * Commits are synchronous=NORMAL: they are in the WAL when they return, so no crash of a process
 * loses them. A durable commit raises the connection to FULL and lowers it again, which syncs the
 * WAL up to and including this commit: all earlier commits are durable then, too.
 */
#include "registry/registry_sqlite.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <string.h>

/* The kinds of statements. */
enum {
    INSERT = 1,
    ONE,    /* SELECT with one of one_ends */
    SEARCH, /* SELECT with conditions */
    COUNT,
    UPDATE,
};

enum {
    LOG_PAGES_MAX = 4 * DZ_DB_CHECKPOINT_PAGES,
};

/* --- texts ----------------------------------------------------------------------- */

enum {
    CANDIDATES = 3, /* candidates shown for an ambiguous word: one less than are read */
};

enum one {
    BY_ID,
    BY_NAME,
    BY_PREFIX,
    OF_ID,
    OF_NAME,
    OF_PREFIX,
    DUE,
};
static const char *const one_ends[] = {
    [BY_ID] = "WHERE id = ?1",
    [BY_NAME] = "INDEXED BY instances_any WHERE name = ?1 LIMIT 4",
    [BY_PREFIX] = "WHERE id >= ?1 AND id < ?1 || char(1114111) LIMIT 4",
    /* For one tenant, use indexes that begin with the tenant: rows of others are not read, so the
     * time of a lookup does not reveal them. */
    [OF_ID] = "INDEXED BY instances_tenant WHERE id = ?1 AND tenant = ?2 LIMIT 2",
    [OF_NAME] = "INDEXED BY instances_name WHERE name = ?1 AND tenant = ?2 LIMIT 2",
    [OF_PREFIX] = ("INDEXED BY instances_tenant WHERE id >= ?1 AND id < ?1 || char(1114111) "
                   "AND tenant = ?2 LIMIT 4"),
    [DUE] = "WHERE due > 0 AND due <= ?1 ORDER BY due LIMIT ?2",
};

static void make_one(const struct dz_registry_table *t, uint64_t key, struct dz_buf *out)
{
    dz_sql_add_select(t, out);
    dz_buf_adds(out, one_ends[key & 255]);
}

/* A list has only the requested conditions, so that the list of a tenant walks the index of
 * (tenant, id). ?1 is `after`, ?2 the limit; a condition's parameter is 3 plus its index here. */
enum {
    CONDITIONS = 5,
    UNFINISHED = 1 << CONDITIONS,
    NEWEST = UNFINISHED << 1,
};
static const char *const condition_columns[CONDITIONS] = {"tenant", "state", "kind", "image",
                                                          "owner"};

static void add_conditions(uint64_t which, const char *word, struct dz_buf *out)
{
    for (int i = 0; i < CONDITIONS; i++)
        if (which & UINT64_C(1) << i) {
            dz_buf_addf(out, "%s %s = ?%d ", word, condition_columns[i], i + 3);
            word = "AND";
        }
    if (which & UNFINISHED)
        dz_buf_addf(out, "%s op IS NOT NULL ", word);
}

static void make_search(const struct dz_registry_table *t, uint64_t key, struct dz_buf *out)
{
    dz_sql_add_select(t, out);
    dz_buf_adds(out, key & NEWEST ? "WHERE id < ?1 " : "WHERE id > ?1 ");
    add_conditions(key, "AND", out);
    dz_buf_adds(out, key & NEWEST ? "ORDER BY id DESC LIMIT ?2" : "ORDER BY id LIMIT ?2");
}

static void make_count(const struct dz_registry_table *t, uint64_t key, struct dz_buf *out)
{
    dz_buf_addf(out, "SELECT count(*) FROM %s ", t->name);
    add_conditions(key, "WHERE", out);
}

/* Make the UPDATE of a set of columns, bound in their order after version and the rest: ?1 id, ?2
 * version, ?3 epoch, ?4 updated. */
static void make_update(const struct dz_registry_table *t, uint64_t key, struct dz_buf *out)
{
    dz_buf_addf(out, "UPDATE %s SET version = version + 1, updated = ?4", t->name);
    dz_sql_add_set(t, key & (DZ_SQL_VERB(1) - 1), 5, out);
    dz_buf_adds(out, " WHERE id = ?1 AND version = ?2 AND epoch = ?3");
}

/* Read all rows of a statement. */
static int read_rows(struct dz_stmt *st, struct dz_instances *rows, struct dz_err *err)
{
    int rc;
    while ((rc = dz_stmt_step(st, err)) == 1) {
        struct dz_instance row;
        rc = dz_sql_read_row(st, &dz_instance_table, &row, err);
        if (rc < 0)
            break;
        if (dz_vec_push(rows, row) < 0) {
            dz_instance_release(&row);
            rc = dz_fail(err, rows->err, "list sandboxes: %s", dz_err_text(rows->err));
            break;
        }
    }
    return rc;
}

static int use_one(struct dz_sqlite_registry *s, enum one which, struct dz_sql_use *ret_use,
                   struct dz_err *err)
{
    return dz_sql_use(s, &dz_instance_table, DZ_SQL_VERB(ONE) | which, make_one, ret_use, err);
}

/* --- transactions ---------------------------------------------------------------- */

int dz_sqlite_begin(struct dz_sqlite_registry *s, bool durable, struct dz_err *err)
{
    int rc = dz_sqlite_meter_settle(s, err);
    if (rc == 0 && durable)
        rc = dz_db_exec(s->db, "PRAGMA synchronous=FULL", err);
    return rc < 0 ? rc : dz_db_begin(s->db, err);
}

/* Checkpoint the WAL if it has grown too long, which waits for the disk. The owner normally does
 * this when nothing waits (dz_registry_maintain); this is the fallback. The last change is already
 * committed, so a failure here does not affect it; the next change tries again. */
static void keep_log_short(struct dz_sqlite_registry *s)
{
    if (dz_db_wal_pages(s->db) >= LOG_PAGES_MAX)
        (void)!dz_db_maintain(s->db, false, NULL);
}

int dz_sqlite_end(struct dz_sqlite_registry *s, int rc, bool durable, struct dz_err *err)
{
    if (rc < 0)
        dz_db_rollback(s->db);
    else
        rc = dz_db_commit(s->db, err);
    if (durable) /* if this fails, later changes are durable, too */
        (void)!dz_db_exec(s->db, "PRAGMA synchronous=NORMAL", NULL);
    if (rc == 0)
        keep_log_short(s);
    return rc;
}

/* --- events ------------------------------------------------------------------------------------
 */

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

static int write_event(struct dz_sqlite_registry *s, const struct dz_registry_event *e,
                       struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "INSERT INTO event(at, sandbox_id, tenant, what, detail, number) "
                          "SELECT ?1, ?2, t, ?3, ?4, 1 + max("
                          "ifnull((SELECT max(number) FROM event WHERE tenant = t), 0), "
                          "ifnull((SELECT number FROM event_number WHERE tenant = t), 0)) FROM "
                          "(SELECT ifnull(?5, (SELECT tenant FROM instances WHERE id = ?2)) AS t)");
    dz_bind_int(st, 1, s->stamp);
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

static int note(struct dz_registry *r, const struct dz_registry_event *e, int64_t *ret_seq,
                struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_begin(s, false, err);
    if (rc < 0)
        return rc;
    rc = write_event(s, e, err);
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

static int events(struct dz_registry *r, const struct dz_registry_event_filter *f,
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
static int event_span(struct dz_registry *r, int64_t *ret_first, int64_t *ret_last,
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

static int add_event(struct dz_sqlite_registry *s, const char *id, const char *what,
                     const char *detail, struct dz_err *err)
{
    const struct dz_registry_event e = {.sandbox_id = id, .what = what, .detail = detail};
    return write_event(s, &e, err);
}

/* --- verbs ----------------------------------------------------------------------- */

/* Is it a tombstone younger than a day, of this tenant (NULL: any)? 1, 0 or an error. */
static int is_gone(struct dz_sqlite_registry *s, const char *id, const char *tenant,
                   struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(s->db, "SELECT 1 FROM tombstone WHERE id = ?1 AND deleted > ?2 "
                                           "AND (?3 IS NULL OR tenant = ?3)");
    dz_bind_text(st, 1, id);
    dz_bind_int(st, 2, dz_clock_real_ms() - DZ_REGISTRY_TOMBSTONE_MS);
    dz_bind_text(st, 3, tenant);
    return dz_stmt_step(st, err);
}

static int insert_row(struct dz_sqlite_registry *s, const struct dz_instance *row,
                      struct dz_err *err)
{
    struct dz_instance full = *row;
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int rc = dz_sql_use(s, &dz_instance_table, DZ_SQL_VERB(INSERT), dz_sql_make_insert, &use, err);
    if (rc < 0)
        return rc;
    full.version = 1;
    full.updated = dz_clock_real_ms() / 1000;
    dz_sql_bind_set(use.st, &dz_instance_table, &full, UINT64_MAX, 1);
    rc = dz_stmt_run(use.st, err);
    if (rc == DZ_EEXIST)
        return dz_fail(err, rc, "register %s: tenant %s already has a sandbox with that %s",
                       row->id, row->tenant, row->name && row->name[0] ? "id or name" : "id");
    return rc;
}

static int sqlite_create(struct dz_registry *r, const struct dz_instance *row, struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = is_gone(s, row->id, NULL, err);
    if (rc == 1)
        return dz_fail(err, DZ_EEXIST,
                       "register %s: a sandbox with that id was deleted less than a day ago",
                       row->id);
    if (rc == 0)
        rc = dz_sqlite_begin(s, false, err);
    if (rc < 0)
        return rc;
    rc = insert_row(s, row, err);
    if (rc == 0)
        rc = dz_sqlite_meter_follow(s, row->id, err);
    if (rc == 0)
        rc = add_event(s, row->id, "registered", row->state, err);
    return dz_sqlite_end(s, rc, false, err);
}

static int missing(struct dz_sqlite_registry *s, const char *id, const char *tenant,
                   struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    int rc = is_gone(s, id, tenant, err);
    if (rc < 0)
        return rc;
    (void)dz_str_quote(dz_str(id), quoted);
    return rc ? dz_fail(err, DZ_EGONE, "sandbox %s was deleted", quoted)
              : dz_fail(err, DZ_ENOENT, "there is no sandbox %s", quoted);
}

static int sqlite_get(struct dz_registry *r, const char *id, struct dz_instance *ret_row,
                      struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int rc = use_one(s, BY_ID, &use, err);
    if (rc < 0)
        return rc;
    dz_bind_text(use.st, 1, id);
    rc = dz_stmt_step(use.st, err);
    if (rc == 1)
        return dz_sql_read_row(use.st, &dz_instance_table, ret_row, err);
    return rc < 0 ? rc : missing(s, id, NULL, err);
}

/* Refuse an ambiguous word and list the candidates. */
static int ambiguous(const char *word, const struct dz_instances *rows, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf list = DZ_BUF_INIT(DZ_LINE_MAX);
    char quoted[DZ_STR_QUOTED];
    size_t shown = rows->n > CANDIDATES ? CANDIDATES : rows->n;
    for (size_t i = 0; i < shown; i++)
        dz_buf_addf(&list, "%s%s (%s)",
                    i == 0             ? ""
                    : i + 1 == rows->n ? " and "
                                       : ", ",
                    rows->p[i].id, rows->p[i].tenant);
    return dz_fail(err, DZ_EINVAL, "%s is ambiguous; it matches %s%s",
                   dz_str_quote(dz_str(word), quoted), list.p,
                   rows->n > shown ? " and others" : "");
}

/* Read one row of a search; DZ_ENOENT without a sentence, DZ_EINVAL for several. */
static int search(struct dz_sqlite_registry *s, enum one which, const char *tenant,
                  const char *word, struct dz_instance *ret_row, struct dz_err *err)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(CANDIDATES + 1);
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int rc = use_one(s, which, &use, err);
    if (rc < 0)
        return rc;
    dz_bind_text(use.st, 1, word);
    if (tenant)
        dz_bind_text(use.st, 2, tenant);
    rc = read_rows(use.st, &rows, err);
    if (rc < 0)
        return rc;
    if (rows.n > 1)
        return ambiguous(word, &rows, err);
    if (rows.n == 0)
        return DZ_ENOENT;
    *ret_row = dz_vec_pop(&rows);
    return 0;
}

static int sqlite_find(struct dz_registry *r, const char *tenant, const char *home,
                       const char *word, struct dz_instance *ret_row, struct dz_err *err)
{
    static const enum one any[] = {BY_ID, BY_NAME, BY_PREFIX}, own[] = {OF_ID, OF_NAME, OF_PREFIX};
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = DZ_ENOENT;
    for (size_t i = 0; i < DZ_ARRAY_LEN(any) && rc == DZ_ENOENT && word[0]; i++) {
        const char *whose = tenant || any[i] != BY_NAME ? tenant : home;
        rc = search(s, whose ? own[i] : any[i], whose, word, ret_row, err);
    }
    return rc == DZ_ENOENT ? missing(s, word, tenant, err) : rc;
}

static int stale(struct dz_sqlite_registry *s, const char *id, struct dz_err *err)
{
    struct dz_instance row = {0};
    int rc = sqlite_get(&s->head, id, &row, err);
    if (rc < 0)
        return rc;
    dz_instance_release(&row);
    return dz_fail(err, DZ_EBUSY, "sandbox %s was changed meanwhile: read it again", id);
}

static int update_row(struct dz_sqlite_registry *s, const struct dz_registry_change *c,
                      struct dz_err *err)
{
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int rc =
        dz_sql_use(s, &dz_instance_table, DZ_SQL_VERB(UPDATE) | c->set, make_update, &use, err);
    if (rc < 0)
        return rc;
    dz_bind_text(use.st, 1, c->id);
    dz_bind_int(use.st, 2, c->version);
    dz_bind_int(use.st, 3, c->epoch);
    dz_bind_int(use.st, 4, s->stamp / 1000);
    dz_sql_bind_set(use.st, &dz_instance_table, c->to, c->set, 5);
    rc = dz_stmt_run(use.st, err);
    if (rc == DZ_EEXIST)
        return dz_fail(err, rc, "change %s: its tenant already has a sandbox with that name",
                       c->id);
    return rc < 0 ? rc : dz_db_changes(s->db) == 1 ? 0 : stale(s, c->id, err);
}

static int sqlite_change(struct dz_registry *r, const struct dz_registry_change *c,
                         struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    bool metered =
        c->set & (DZ_COLUMN(tenant) | DZ_COLUMN(state) | DZ_COLUMN(memory) | DZ_COLUMN(cold_size));
    if (!c->event && !c->durable && !c->ret_row && !metered) {
        s->stamp = dz_clock_real_ms();
        int rc = update_row(s, c, err);
        if (rc == 0)
            keep_log_short(s);
        return rc;
    }
    int rc = dz_sqlite_begin(s, c->durable, err);
    if (rc < 0)
        return rc;
    rc = update_row(s, c, err);
    if (rc == 0 && metered)
        rc = dz_sqlite_meter_follow(s, c->id, err);
    if (rc == 0 && c->event)
        rc = add_event(s, c->id, c->event, c->detail, err);
    if (rc == 0 && c->ret_row)
        rc = sqlite_get(r, c->id, &row, err);
    rc = dz_sqlite_end(s, rc, c->durable, err);
    if (rc == 0 && c->ret_row) {
        *c->ret_row = row;
        row = (struct dz_instance){0};
    }
    return rc;
}

static int run_for(struct dz_sqlite_registry *s, const char *sql, const char *id, int64_t number,
                   struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->db, sql);
    dz_bind_text(st, 1, id);
    dz_bind_int(st, 2, number);
    return dz_stmt_run(st, err);
}

static int erase_row(struct dz_sqlite_registry *s, const char *id, int64_t version, int64_t epoch,
                     struct dz_err *err)
{
    static const char *const hangers[] = {
        "INSERT OR REPLACE INTO tombstone SELECT id, tenant, name, ?2 FROM instances WHERE id = ?1",
        "DELETE FROM lease WHERE sandbox_id = ?1 AND ?2",
        "DELETE FROM token WHERE sandbox_id = ?1 AND ?2",
        "DELETE FROM schedule WHERE sandbox_id = ?1 AND ?2",
        "DELETE FROM schedule_run WHERE sandbox_id = ?1 AND ?2",
        ("UPDATE ref SET closed = ?2, updated = ?2, version = version + 1 "
         "WHERE sandbox_id = ?1 AND closed = 0"),
        "DELETE FROM tombstone WHERE id <> ?1 AND deleted <= ?2 - 86400000",
    };
    int rc = add_event(s, id, "deleted", NULL, err);
    for (size_t i = 0; i < DZ_ARRAY_LEN(hangers) && rc == 0; i++)
        rc = run_for(s, hangers[i], id, s->stamp, err);
    if (rc == 0)
        rc = dz_sqlite_meter_end(s, id, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "DELETE FROM instances WHERE id = ?1 AND version = ?2 AND epoch = ?3");
    dz_bind_text(st, 1, id);
    dz_bind_int(st, 2, version);
    dz_bind_int(st, 3, epoch);
    rc = dz_stmt_run(st, err);
    return rc < 0 ? rc : dz_db_changes(s->db) == 1 ? 0 : stale(s, id, err);
}

static int sqlite_erase(struct dz_registry *r, const char *id, int64_t version, int64_t epoch,
                        struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_begin(s, false, err);
    return rc < 0 ? rc : dz_sqlite_end(s, erase_row(s, id, version, epoch, err), false, err);
}

/* Get and bind the statement of a filter; the verb is SEARCH or COUNT. */
static int use_filter(struct dz_sqlite_registry *s, const struct dz_registry_filter *f, int verb,
                      struct dz_sql_use *ret_use, struct dz_err *err)
{
    const char *const values[CONDITIONS] = {f->tenant, f->state, f->kind, f->image, f->owner};
    uint64_t which = (f->unfinished ? UNFINISHED : 0) | (f->newest ? NEWEST : 0);
    for (int i = 0; i < CONDITIONS; i++)
        which |= values[i] ? UINT64_C(1) << i : 0;
    int rc = dz_sql_use(s, &dz_instance_table, DZ_SQL_VERB(verb) | which,
                        verb == COUNT ? make_count : make_search, ret_use, err);
    for (int i = 0; i < CONDITIONS && rc == 0; i++)
        if (values[i])
            dz_bind_text(ret_use->st, i + 3, values[i]);
    return rc;
}

static int sqlite_list(struct dz_registry *r, const struct dz_registry_filter *f,
                       struct dz_instances *rows, struct dz_err *err)
{
    size_t limit = f->limit && f->limit < DZ_REGISTRY_LIST_MAX ? f->limit : DZ_REGISTRY_LIST_MAX;
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int rc = use_filter(dz_sqlite_self(r), f, SEARCH, &use, err);
    if (rc < 0)
        return rc;
    dz_bind_text(use.st, 1, f->after ? f->after : f->newest ? DZ_REGISTRY_LAST : "");
    dz_bind_int(use.st, 2, (int64_t)limit);
    return read_rows(use.st, rows, err);
}

static int sqlite_count(struct dz_registry *r, const struct dz_registry_filter *f,
                        int64_t *ret_count, struct dz_err *err)
{
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int rc = use_filter(dz_sqlite_self(r), f, COUNT, &use, err);
    if (rc == 0)
        rc = dz_stmt_step(use.st, err);
    if (rc < 0)
        return rc;
    *ret_count = dz_col_int(use.st, 0);
    return 0;
}

static int sqlite_due(struct dz_registry *r, int64_t now, size_t limit, struct dz_instances *rows,
                      struct dz_err *err)
{
    DZ_AUTO(dz_sql_done) struct dz_sql_use use = {NULL, NULL};
    int rc = use_one(dz_sqlite_self(r), DUE, &use, err);
    if (rc < 0)
        return rc;
    dz_bind_int(use.st, 1, now);
    dz_bind_int(use.st, 2, (int64_t)limit);
    return read_rows(use.st, rows, err);
}

static int sqlite_next_due(struct dz_registry *r, int64_t *ret_at, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(dz_sqlite_self(r)->db,
                                    "SELECT due FROM instances WHERE due > 0 ORDER BY due LIMIT 1");
    int rc = dz_stmt_step(st, err);
    if (rc >= 0)
        *ret_at = rc == 1 ? dz_col_int(st, 0) : INT64_MAX;
    return rc < 0 ? rc : 0;
}

static int sqlite_flush(struct dz_registry *r, struct dz_err *err)
{
    return dz_db_sync(dz_sqlite_self(r)->db, err);
}

static int sqlite_check(struct dz_registry *r, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(dz_sqlite_self(r)->db, "PRAGMA integrity_check(1)");
    int rc = dz_stmt_step(st, err);
    if (rc < 0)
        return rc;
    const char *said = rc == 1 ? dz_col_text(st, 0) : "nothing";
    return strcmp(said, "ok") == 0 ? 0
                                   : dz_fail(err, DZ_ECORRUPT, "the registry is damaged: %s", said);
}

static int sqlite_maintain(struct dz_registry *r, bool idle, struct dz_err *err)
{
    return dz_db_maintain(dz_sqlite_self(r)->db, idle, err);
}

static int sqlite_close(struct dz_registry *r, struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_db_close(s->db, false, err);
    dz_sql_texts_release(s);
    dz_free(s);
    return rc;
}

static const struct dz_registry_ops sqlite_ops = {
    .create = sqlite_create,
    .get = sqlite_get,
    .find = sqlite_find,
    .change = sqlite_change,
    .erase = sqlite_erase,
    .list = sqlite_list,
    .due = sqlite_due,
    .next_due = sqlite_next_due,
    .count = sqlite_count,
    .note = note,
    .events = events,
    .event_span = event_span,
    .record_add = dz_sqlite_record_add,
    .record_get = dz_sqlite_record_get,
    .record_change = dz_sqlite_record_change,
    .record_remove = dz_sqlite_record_remove,
    .record_list = dz_sqlite_record_list,
    .record_count = dz_sqlite_record_count,
    .lease_take = dz_sqlite_lease_take,
    .lease_drop = dz_sqlite_lease_drop,
    .lease_holders = dz_sqlite_lease_holders,
    .volume_written = dz_sqlite_volume_written,
    .meter_read = dz_sqlite_meter_read,
    .meter_file = dz_sqlite_meter_file,
    .meter_tenant = dz_sqlite_meter_tenant,
    .meter_mark = dz_sqlite_meter_mark,
    .meter_resume = dz_sqlite_meter_resume,
    .number = dz_sqlite_number,
    .schedule_next = dz_sqlite_schedule_next,
    .sweep = dz_sqlite_sweep,
    .flush = sqlite_flush,
    .check = sqlite_check,
    .maintain = sqlite_maintain,
    .close = sqlite_close,
};

int dz_registry_wrap_sqlite(struct dz_db *db, struct dz_registry **ret_registry, struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_zalloc(sizeof *s);
    if (!s) {
        (void)dz_db_close(db, true, NULL);
        return dz_fail(err, DZ_ENOMEM, "open the registry: out of memory");
    }
    *s = (struct dz_sqlite_registry){.head = {.ops = &sqlite_ops}, .db = db};
    dz_sqlite_meter_init(s);
    *ret_registry = &s->head;
    return 0;
}
