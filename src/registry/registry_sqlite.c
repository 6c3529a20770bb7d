/* SPDX-License-Identifier: MIT
 *
 * The registry in a SQLite file of our own, by one exclusive connection.
 *
 * An UPDATE names only the columns that change, for each indexed one costs; the
 * statement for a set of columns is made once and found again by that set. A
 * change without an event is one statement and its own transaction.
 *
 * Commits are synchronous=NORMAL: in the log when they return, so no crash of a
 * process loses them. A durable one raises the connection to FULL and lowers it
 * again, which syncs the log up to and with this commit: all before it are
 * durable then, too.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "db/db.h"
#include "registry/registry_int.h"

#include <assert.h>
#include <string.h>

enum {
    UPDATES_MAX = 64, /* sets of columns that are kept prepared */
    SQL_MAX = 4096,
    EVENTS_TRIM = 1024, /* old events go when a number is divisible by this */
};

struct update {
    uint64_t set;
    char *sql;
};

struct sqlite_registry {
    struct dz_registry head;
    struct dz_db *db;
    struct update updates[UPDATES_MAX];
    size_t update_count;
    char *selects[8]; /* SELECT of all columns with each of select_ends */
    char *insert;
};

static struct sqlite_registry *self(struct dz_registry *r)
{
    return (struct sqlite_registry *)r;
}

/* --- rows ------------------------------------------------------------------------ */

static void bind_column(struct dz_stmt *st, int at, const struct dz_instance *row, size_t column)
{
    const struct dz_registry_column *c = &dz_registry_columns[column];
    const char *field = (const char *)row + c->offset;
    if (c->text) {
        const char *s = *(const char *const *)field;
        dz_bind_text(st, at, s && s[0] ? s : NULL);
    } else {
        dz_bind_int(st, at, *(const int64_t *)field);
    }
}

/* The row that st stands on. All its text is one block. */
static int read_row(struct dz_stmt *st, struct dz_instance *ret_row, struct dz_err *err)
{
    size_t bytes = 0;
    for (int i = 0; i < DZ_INSTANCE_COLUMN_COUNT; i++)
        bytes += dz_registry_columns[i].text ? strlen(dz_col_text(st, i)) + 1 : 0;
    char *text = dz_alloc(bytes), *at = text;
    if (!text)
        return dz_fail(err, DZ_ENOMEM, "read a sandbox's row: out of memory");
    *ret_row = (struct dz_instance){.text = text};
    for (int i = 0; i < DZ_INSTANCE_COLUMN_COUNT; i++) {
        char *field = (char *)ret_row + dz_registry_columns[i].offset;
        if (!dz_registry_columns[i].text) {
            *(int64_t *)field = dz_col_int(st, i);
            continue;
        }
        const char *s = dz_col_text(st, i);
        size_t n = strlen(s) + 1;
        assert(at + n <= text + bytes);
        memcpy(at, s, n);
        *(const char **)field = at;
        at += n;
    }
    return 0;
}

/* All rows of a statement, which is used up. */
static int read_rows(struct dz_stmt *st, struct dz_instances *rows, struct dz_err *err)
{
    int rc;
    while ((rc = dz_stmt_step(st, err)) == 1) {
        struct dz_instance row;
        rc = read_row(st, &row, err);
        if (rc < 0)
            break;
        if (dz_vec_push(rows, row) < 0) {
            dz_instance_release(&row);
            rc = dz_fail(err, rows->err, "list sandboxes: %s", dz_err_text(rows->err));
            break;
        }
    }
    dz_stmt_reset(st);
    return rc;
}

/* --- statements ------------------------------------------------------------------ */

enum select {
    BY_ID,
    BY_NAME,
    BY_PREFIX,
    LIST,
    UNFINISHED,
    DUE,
};
static const char *const select_ends[] = {
    [BY_ID] = "WHERE id = ?1",
    [BY_NAME] = "WHERE name = ?1 AND (?2 IS NULL OR tenant = ?2) LIMIT 2",
    [BY_PREFIX] = "WHERE id >= ?1 AND id < ?1 || char(1114111) AND (?2 IS NULL OR tenant = ?2) "
                  "LIMIT 2",
    [LIST] = "WHERE id > ?1 AND (?2 IS NULL OR tenant = ?2) AND (?3 IS NULL OR state = ?3) AND "
             "(?4 IS NULL OR kind = ?4) ORDER BY id LIMIT ?5",
    [UNFINISHED] = "WHERE id > ?1 AND op IS NOT NULL AND (?2 IS NULL OR tenant = ?2) AND (?3 IS "
                   "NULL OR state = ?3) AND (?4 IS NULL OR kind = ?4) ORDER BY id LIMIT ?5",
    [DUE] = "WHERE due > 0 AND due <= ?1 ORDER BY due LIMIT ?2",
};
_Static_assert(DZ_ARRAY_LEN(select_ends) <= DZ_ARRAY_LEN(((struct sqlite_registry *)0)->selects),
               "a text for each");

static int make_texts(struct sqlite_registry *s, struct dz_err *err)
{
    int rc = 0;
    size_t len;
    for (size_t i = 0; i < DZ_ARRAY_LEN(select_ends) && rc == 0; i++) {
        struct dz_buf b = DZ_BUF_INIT(SQL_MAX);
        dz_buf_adds(&b, "SELECT ");
        for (int c = 0; c < DZ_INSTANCE_COLUMN_COUNT; c++)
            dz_buf_addf(&b, "%s%s", c ? "," : "", dz_registry_columns[c].name);
        dz_buf_addf(&b, " FROM instances %s", select_ends[i]);
        s->selects[i] = dz_buf_detach(&b, &len);
        if (!s->selects[i])
            rc = dz_fail(err, DZ_ENOMEM, "open the registry: out of memory");
        dz_buf_release(&b);
    }
    return rc;
}

/* UPDATE of a set of columns, bound in their order after version and the rest:
 * ?1 id, ?2 version, ?3 epoch, ?4 updated. */
static char *make_update(uint64_t set)
{
    struct dz_buf b = DZ_BUF_INIT(SQL_MAX);
    int at = 5;
    size_t len;
    dz_buf_adds(&b, "UPDATE instances SET version = version + 1, updated = ?4");
    for (int c = 0; c < DZ_INSTANCE_COLUMN_COUNT; c++)
        if (set & UINT64_C(1) << c)
            dz_buf_addf(&b, ", %s = ?%d", dz_registry_columns[c].name, at++);
    dz_buf_adds(&b, " WHERE id = ?1 AND version = ?2 AND epoch = ?3");
    char *sql = dz_buf_detach(&b, &len);
    dz_buf_release(&b);
    return sql;
}

/* The statement's text for a set; when the table is full, one that is used once
 * goes to *ret_once. NULL: out of memory. */
static const char *find_update(struct sqlite_registry *s, uint64_t set, char **ret_once)
{
    for (size_t i = 0; i < s->update_count; i++)
        if (s->updates[i].set == set)
            return s->updates[i].sql;
    char *sql = make_update(set);
    if (!sql || s->update_count == UPDATES_MAX) {
        *ret_once = sql;
        return sql;
    }
    s->updates[s->update_count++] = (struct update){set, sql};
    return sql;
}

/* --- transactions ---------------------------------------------------------------- */

static int begin(struct sqlite_registry *s, bool durable, struct dz_err *err)
{
    int rc = durable ? dz_db_exec(s->db, "PRAGMA synchronous=FULL", err) : 0;
    return rc < 0 ? rc : dz_db_begin(s->db, err);
}

/* Commit, or take back when rc says so. */
static int end(struct sqlite_registry *s, int rc, bool durable, struct dz_err *err)
{
    if (rc < 0)
        dz_db_rollback(s->db);
    else
        rc = dz_db_commit(s->db, err);
    if (durable) {
        int lowered = dz_db_exec(s->db, "PRAGMA synchronous=NORMAL", rc < 0 ? NULL : err);
        rc = rc < 0 ? rc : lowered;
    }
    if (rc == 0) {
        int kept = dz_db_maintain(s->db, false, err);
        rc = kept < 0 ? kept : 0;
    }
    return rc;
}

static int add_event(struct sqlite_registry *s, const char *id, const char *what,
                     const char *detail, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "INSERT INTO event(at, sandbox_id, tenant, what, detail) "
                          "SELECT ?1, ?2, (SELECT tenant FROM instances WHERE id = ?2), ?3, ?4");
    dz_bind_int(st, 1, dz_clock_real_ms());
    dz_bind_text(st, 2, id);
    dz_bind_text(st, 3, what);
    dz_bind_text(st, 4, detail && detail[0] ? detail : NULL);
    int rc = dz_stmt_run(st, err);
    int64_t seq = dz_db_last_rowid(s->db);
    if (rc < 0 || seq % EVENTS_TRIM)
        return rc;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *trim = dz_db_stmt(s->db, "DELETE FROM event WHERE seq <= ?1");
    dz_bind_int(trim, 1, seq - DZ_REGISTRY_EVENTS_MAX);
    return dz_stmt_run(trim, err);
}

/* --- verbs ----------------------------------------------------------------------- */

/* Is it a tombstone younger than a day? 1, 0 or an error. */
static int is_gone(struct sqlite_registry *s, const char *id, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "SELECT 1 FROM tombstone WHERE id = ?1 AND deleted > ?2");
    dz_bind_text(st, 1, id);
    dz_bind_int(st, 2, dz_clock_real_ms() - DZ_REGISTRY_TOMBSTONE_MS);
    return dz_stmt_step(st, err);
}

static const char *insert_text(struct sqlite_registry *s)
{
    if (s->insert)
        return s->insert;
    struct dz_buf b = DZ_BUF_INIT(SQL_MAX);
    size_t len;
    dz_buf_adds(&b, "INSERT INTO instances VALUES(");
    for (int c = 0; c < DZ_INSTANCE_COLUMN_COUNT; c++)
        dz_buf_addf(&b, "%s?%d", c ? "," : "", c + 1);
    dz_buf_adds(&b, ")");
    s->insert = dz_buf_detach(&b, &len);
    dz_buf_release(&b);
    return s->insert;
}

static int insert_row(struct sqlite_registry *s, const struct dz_instance *row, struct dz_err *err)
{
    struct dz_instance full = *row;
    const char *sql = insert_text(s);
    if (!sql)
        return dz_fail(err, DZ_ENOMEM, "register %s: out of memory", row->id);
    full.version = 1;
    full.updated = dz_clock_real_ms() / 1000;
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->db, sql);
    for (size_t c = 0; c < DZ_INSTANCE_COLUMN_COUNT; c++)
        bind_column(st, (int)c + 1, &full, c);
    int rc = dz_stmt_run(st, err);
    if (rc == DZ_EEXIST)
        return dz_fail(err, rc, "register %s: tenant %s has a sandbox of that %s", row->id,
                       row->tenant, row->name && row->name[0] ? "id or name" : "id");
    return rc;
}

static int sqlite_create(struct dz_registry *r, const struct dz_instance *row, struct dz_err *err)
{
    struct sqlite_registry *s = self(r);
    int rc = is_gone(s, row->id, err);
    if (rc == 1)
        return dz_fail(err, DZ_EEXIST, "register %s: a sandbox of that id was deleted today",
                       row->id);
    if (rc == 0)
        rc = begin(s, false, err);
    if (rc < 0)
        return rc;
    rc = insert_row(s, row, err);
    if (rc == 0)
        rc = add_event(s, row->id, "registered", row->state, err);
    return end(s, rc, false, err);
}

static int missing(struct sqlite_registry *s, const char *id, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    int rc = is_gone(s, id, err);
    if (rc < 0)
        return rc;
    (void)dz_str_quote(dz_str(id), quoted);
    return rc ? dz_fail(err, DZ_EGONE, "sandbox %s was deleted", quoted)
              : dz_fail(err, DZ_ENOENT, "there is no sandbox %s", quoted);
}

static int sqlite_get(struct dz_registry *r, const char *id, struct dz_instance *ret_row,
                      struct dz_err *err)
{
    struct sqlite_registry *s = self(r);
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->db, s->selects[BY_ID]);
    dz_bind_text(st, 1, id);
    int rc = dz_stmt_step(st, err);
    if (rc == 1)
        return read_row(st, ret_row, err);
    return rc < 0 ? rc : missing(s, id, err);
}

/* One row of a search; DZ_ENOENT without a sentence, DZ_EINVAL for several. */
static int search(struct sqlite_registry *s, enum select which, const char *tenant,
                  const char *word, struct dz_instance *ret_row, struct dz_err *err)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(2);
    struct dz_stmt *st = dz_db_stmt(s->db, s->selects[which]);
    char quoted[DZ_STR_QUOTED];
    dz_bind_text(st, 1, word);
    dz_bind_text(st, 2, tenant);
    int rc = read_rows(st, &rows, err);
    if (rc < 0)
        return rc;
    if (rows.n > 1)
        return dz_fail(err, DZ_EINVAL, "%s means several sandboxes: give the whole id",
                       dz_str_quote(dz_str(word), quoted));
    if (rows.n == 0)
        return DZ_ENOENT;
    *ret_row = dz_vec_pop(&rows);
    return 0;
}

static int sqlite_find(struct dz_registry *r, const char *tenant, const char *word,
                       struct dz_instance *ret_row, struct dz_err *err)
{
    struct sqlite_registry *s = self(r);
    struct dz_instance row = {0};
    struct dz_err early = {0}; /* that no id is the word is no failure yet */
    int rc = word[0] ? sqlite_get(r, word, &row, &early) : DZ_ENOENT;
    if (rc < 0 && rc != DZ_ENOENT && err)
        *err = early;
    if (rc == 0 && tenant && strcmp(row.tenant, tenant) != 0) {
        dz_instance_release(&row);
        rc = DZ_ENOENT; /* not even that it exists is told */
    }
    if (rc == DZ_ENOENT && word[0])
        rc = search(s, BY_NAME, tenant, word, &row, err);
    if (rc == DZ_ENOENT && word[0])
        rc = search(s, BY_PREFIX, tenant, word, &row, err);
    if (rc == 0)
        *ret_row = row;
    else if (rc == DZ_ENOENT)
        rc = missing(s, word, err);
    return rc;
}

static int stale(struct sqlite_registry *s, const char *id, struct dz_err *err)
{
    struct dz_instance row = {0};
    int rc = sqlite_get(&s->head, id, &row, err);
    if (rc < 0)
        return rc;
    dz_instance_release(&row);
    return dz_fail(err, DZ_EBUSY, "sandbox %s was changed by somebody else: read it again", id);
}

static int update_row(struct sqlite_registry *s, const struct dz_registry_change *c,
                      struct dz_err *err)
{
    DZ_AUTO(dz_freep) char *once = NULL;
    const char *sql = find_update(s, c->set, &once);
    struct dz_stmt *st = NULL;
    int rc = 0, at = 5;
    if (!sql)
        return dz_fail(err, DZ_ENOMEM, "change %s: out of memory", c->id);
    if (once)
        rc = dz_stmt_new(&st, s->db, sql, NULL, err);
    else
        st = dz_db_stmt(s->db, sql);
    if (rc < 0)
        return rc;
    dz_bind_text(st, 1, c->id);
    dz_bind_int(st, 2, c->version);
    dz_bind_int(st, 3, c->epoch);
    dz_bind_int(st, 4, dz_clock_real_ms() / 1000);
    for (size_t i = 0; i < DZ_INSTANCE_COLUMN_COUNT; i++)
        if (c->set & UINT64_C(1) << i)
            bind_column(st, at++, c->to, i);
    rc = dz_stmt_run(st, err);
    if (once)
        dz_stmt_free(st);
    else
        dz_stmt_reset(st);
    if (rc == DZ_EEXIST)
        return dz_fail(err, rc, "change %s: its tenant has a sandbox of that name", c->id);
    return rc < 0 ? rc : dz_db_changes(s->db) == 1 ? 0 : stale(s, c->id, err);
}

static int sqlite_change(struct dz_registry *r, const struct dz_registry_change *c,
                         struct dz_err *err)
{
    struct sqlite_registry *s = self(r);
    if (!c->event && !c->durable) {
        int rc = update_row(s, c, err);
        int kept = rc < 0 ? 0 : dz_db_maintain(s->db, false, err);
        return rc < 0 ? rc : kept < 0 ? kept : 0;
    }
    int rc = begin(s, c->durable, err);
    if (rc < 0)
        return rc;
    rc = update_row(s, c, err);
    if (rc == 0 && c->event)
        rc = add_event(s, c->id, c->event, c->detail, err);
    return end(s, rc, c->durable, err);
}

static int run_for(struct sqlite_registry *s, const char *sql, const char *id, int64_t number,
                   struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->db, sql);
    dz_bind_text(st, 1, id);
    dz_bind_int(st, 2, number);
    return dz_stmt_run(st, err);
}

static int erase_row(struct sqlite_registry *s, const char *id, int64_t version, int64_t epoch,
                     struct dz_err *err)
{
    static const char *const hangers[] = {
        "INSERT OR REPLACE INTO tombstone SELECT id, tenant, name, ?2 FROM instances WHERE id = ?1",
        "DELETE FROM token WHERE sandbox_id = ?1 AND ?2",
        "DELETE FROM ref WHERE sandbox_id = ?1 AND ?2",
        "DELETE FROM tombstone WHERE id <> ?1 AND deleted <= ?2 - 86400000",
    };
    int64_t now = dz_clock_real_ms();
    int rc = add_event(s, id, "deleted", NULL, err);
    for (size_t i = 0; i < DZ_ARRAY_LEN(hangers) && rc == 0; i++)
        rc = run_for(s, hangers[i], id, now, err);
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
    struct sqlite_registry *s = self(r);
    int rc = begin(s, true, err);
    return rc < 0 ? rc : end(s, erase_row(s, id, version, epoch, err), true, err);
}

static int sqlite_list(struct dz_registry *r, const struct dz_registry_filter *f,
                       struct dz_instances *rows, struct dz_err *err)
{
    struct sqlite_registry *s = self(r);
    size_t limit = f->limit && f->limit < DZ_REGISTRY_LIST_MAX ? f->limit : DZ_REGISTRY_LIST_MAX;
    struct dz_stmt *st = dz_db_stmt(s->db, s->selects[f->unfinished ? UNFINISHED : LIST]);
    dz_bind_text(st, 1, f->after ? f->after : "");
    dz_bind_text(st, 2, f->tenant);
    dz_bind_text(st, 3, f->state);
    dz_bind_text(st, 4, f->kind);
    dz_bind_int(st, 5, (int64_t)limit);
    return read_rows(st, rows, err);
}

static int sqlite_due(struct dz_registry *r, int64_t now, size_t limit, struct dz_instances *rows,
                      struct dz_err *err)
{
    struct sqlite_registry *s = self(r);
    struct dz_stmt *st = dz_db_stmt(s->db, s->selects[DUE]);
    dz_bind_int(st, 1, now);
    dz_bind_int(st, 2, (int64_t)limit);
    return read_rows(st, rows, err);
}

static int sqlite_next_due(struct dz_registry *r, int64_t *ret_at, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(self(r)->db, "SELECT due FROM instances WHERE due > 0 ORDER BY due LIMIT 1");
    int rc = dz_stmt_step(st, err);
    if (rc >= 0)
        *ret_at = rc == 1 ? dz_col_int(st, 0) : INT64_MAX;
    return rc < 0 ? rc : 0;
}

static int sqlite_events(struct dz_registry *r, int64_t after, size_t limit,
                         int (*fn)(void *arg, const struct dz_registry_event *e), void *arg,
                         struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(self(r)->db, "SELECT seq, at, sandbox_id, tenant, what, detail FROM event "
                                "WHERE seq > ?1 ORDER BY seq LIMIT ?2");
    int rc;
    dz_bind_int(st, 1, after);
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

static int sqlite_check(struct dz_registry *r, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(self(r)->db, "PRAGMA integrity_check(1)");
    int rc = dz_stmt_step(st, err);
    if (rc < 0)
        return rc;
    const char *said = rc == 1 ? dz_col_text(st, 0) : "nothing";
    return strcmp(said, "ok") == 0 ? 0
                                   : dz_fail(err, DZ_ECORRUPT, "the registry is damaged: %s", said);
}

static int sqlite_maintain(struct dz_registry *r, bool idle, struct dz_err *err)
{
    return dz_db_maintain(self(r)->db, idle, err);
}

static int sqlite_close(struct dz_registry *r, struct dz_err *err)
{
    struct sqlite_registry *s = self(r);
    int rc = dz_db_close(s->db, false, err);
    for (size_t i = 0; i < s->update_count; i++)
        dz_free(s->updates[i].sql);
    for (size_t i = 0; i < DZ_ARRAY_LEN(s->selects); i++)
        dz_free(s->selects[i]);
    dz_free(s->insert);
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
    .events = sqlite_events,
    .check = sqlite_check,
    .maintain = sqlite_maintain,
    .close = sqlite_close,
};

int dz_registry_wrap_sqlite(struct dz_db *db, struct dz_registry **ret_registry, struct dz_err *err)
{
    struct sqlite_registry *s = dz_zalloc(sizeof *s);
    if (!s) {
        (void)dz_db_close(db, true, NULL);
        return dz_fail(err, DZ_ENOMEM, "open the registry: out of memory");
    }
    *s = (struct sqlite_registry){.head = {&sqlite_ops}, .db = db};
    int rc = make_texts(s, err);
    if (rc < 0) {
        (void)sqlite_close(&s->head, NULL);
        return rc;
    }
    *ret_registry = &s->head;
    return 0;
}
