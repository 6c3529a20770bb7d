/* SPDX-License-Identifier: MIT
 *
 * db_stmt.c - prepared statements (the cache, bindings, columns) and handles on single values.
 *
 * The cache maps the address of an SQL literal to its statement, in a table of chains. Nothing is
 * ever evicted, because DZ_DB_STMT_MAX is a bound on the program, not on the data. db->bad stands
 * in for a statement that cannot be compiled: its step reports the error, so a caller checks once.
 *
 * Invariants:
 *   1. A cached statement is reset when it is given out (dz_db_stmt asserts it).
 *   2. stmt_count is the number of cached statements, at most DZ_DB_STMT_MAX (dz_db_stmt).
 *   3. An open handle is in the list of its database, and nowhere else (detach asserts its link).
 */
#include "db/db_int.h"

#include "base/mem.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

static size_t bucket_of(const char *sql)
{
    uint64_t x = (uint64_t)(uintptr_t)sql * 0x9e3779b97f4a7c15u;
    return (size_t)(x >> 32) & (DB_STMT_BUCKETS - 1);
}

static int prepare(struct dz_stmt **ret_st, struct dz_db *db, const char *sql,
                   const char **ret_rest, struct dz_err *err)
{
    struct dz_stmt *st = dz_zalloc(sizeof *st);
    if (!st)
        return dz_fail(err, DZ_ENOMEM, "compile SQL for %s: out of memory", db->label);
    unsigned flags = ret_rest ? 0 : SQLITE_PREPARE_PERSISTENT;
    int rc = sqlite3_prepare_v3(db->h, sql, -1, flags, &st->st, ret_rest);
    if (rc == SQLITE_OK && st->st) {
        st->db = db;
        st->sql = sql;
        *ret_st = st;
        return 0;
    }
    dz_free(st);
    if (rc == SQLITE_OK)
        return dz_fail(err, DZ_EINVAL, "run SQL on %s: it has no statement", db->label);
    return dz_db_fail(db, rc, err, "run SQL on");
}

struct dz_stmt *dz_db_stmt(struct dz_db *db, const char *sql)
{
    struct dz_stmt **bucket = &db->buckets[bucket_of(sql)];
    for (struct dz_stmt *st = *bucket; st; st = st->next) {
        if (st->sql == sql) {
            assert(!sqlite3_stmt_busy(st->st));
            return st;
        }
    }
    struct dz_stmt *st = NULL;
    assert(db->stmt_count < DZ_DB_STMT_MAX);
    if (prepare(&st, db, sql, NULL, &db->bad_err) < 0)
        return &db->bad;
    assert(st);
    db->stmt_count++;
    st->next = *bucket;
    *bucket = st;
    return st;
}

int dz_stmt_new(struct dz_stmt **ret_st, struct dz_db *db, const char *sql, const char **ret_rest,
                struct dz_err *err)
{
    const char *rest = NULL;
    int r = prepare(ret_st, db, sql, &rest, err);
    if (r == 0 && ret_rest)
        *ret_rest = rest;
    return r;
}

void dz_stmt_free(struct dz_stmt *st)
{
    if (!st)
        return;
    (void)sqlite3_finalize(st->st);
    dz_free(st);
}

void dz_db_stmts_release(struct dz_db *db)
{
    for (size_t i = 0; i < DB_STMT_BUCKETS; i++) {
        for (struct dz_stmt *st = db->buckets[i], *next; st; st = next) {
            next = st->next;
            dz_stmt_free(st);
        }
        db->buckets[i] = NULL;
    }
    db->stmt_count = 0;
}

int dz_db_exec(struct dz_db *db, const char *sql, struct dz_err *err)
{
    int rc = sqlite3_exec(db->h, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : dz_db_fail(db, rc, err, "change");
}

/* --- bindings ---------------------------------------------------------------- */

static void bound(const struct dz_stmt *st, int rc)
{
    /* A value beyond the limit binds NULL, which the schema's NOT NULL refuses. */
    assert(!st->st || rc == SQLITE_OK || rc == SQLITE_TOOBIG || rc == SQLITE_NOMEM);
}

void dz_bind_int(struct dz_stmt *st, int i, int64_t v)
{
    bound(st, st->st ? sqlite3_bind_int64(st->st, i, v) : SQLITE_OK);
}

void dz_bind_blob(struct dz_stmt *st, int i, const void *p, size_t size_bytes)
{
    const void *nonnull = p ? p : ""; /* a NULL pointer would bind NULL */
    bound(st, st->st ? sqlite3_bind_blob64(st->st, i, nonnull, size_bytes, SQLITE_STATIC) : 0);
}

void dz_bind_text(struct dz_stmt *st, int i, const char *s)
{
    bound(st, st->st ? sqlite3_bind_text(st->st, i, s, -1, SQLITE_STATIC) : SQLITE_OK);
}

void dz_bind_zeros(struct dz_stmt *st, int i, size_t size_bytes)
{
    bound(st, st->st ? sqlite3_bind_zeroblob64(st->st, i, size_bytes) : SQLITE_OK);
}

void dz_bind_null(struct dz_stmt *st, int i)
{
    bound(st, st->st ? sqlite3_bind_null(st->st, i) : SQLITE_OK);
}

/* --- steps ------------------------------------------------------------------- */

static int report_bad(const struct dz_db *db, struct dz_err *err)
{
    assert(db->bad_err.code < 0); /* the latest failure, also for an older statement that failed */
    if (err)
        *err = db->bad_err;
    return db->bad_err.code;
}

int dz_stmt_step(struct dz_stmt *st, struct dz_err *err)
{
    struct dz_db *db = st->db;
    if (!st->st)
        return report_bad(db, err);
    int rc = sqlite3_step(st->st);
    if (rc == SQLITE_ROW)
        return 1;
    int r = 0;
    if (rc == SQLITE_INTERRUPT && db->out_of_ops)
        r = dz_fail(err, DZ_ELIMIT, "run SQL on %s: it took too long", db->label);
    else if (rc != SQLITE_DONE)
        r = dz_db_fail(db, rc, err, sqlite3_stmt_readonly(st->st) ? "read" : "change");
    dz_stmt_reset(st);
    return r;
}

int dz_stmt_run(struct dz_stmt *st, struct dz_err *err)
{
    int r;
    do
        r = dz_stmt_step(st, err);
    while (r > 0);
    return r;
}

void dz_stmt_reset(struct dz_stmt *st)
{
    if (!st || !st->st)
        return;
    (void)sqlite3_reset(st->st); /* the result repeats the step's error */
    (void)sqlite3_clear_bindings(st->st);
}

void dz_stmt_resetp(struct dz_stmt **st)
{
    dz_stmt_reset(*st);
}

/* --- columns ----------------------------------------------------------------- */

_Static_assert((int)DZ_DB_INT == SQLITE_INTEGER && (int)DZ_DB_REAL == SQLITE_FLOAT, "types");
_Static_assert((int)DZ_DB_TEXT == SQLITE3_TEXT && (int)DZ_DB_BLOB == SQLITE_BLOB, "types");
_Static_assert((int)DZ_DB_NULL == SQLITE_NULL, "types");

int dz_col_count(struct dz_stmt *st)
{
    return sqlite3_column_count(st->st);
}

const char *dz_col_name(struct dz_stmt *st, int i)
{
    const char *s = sqlite3_column_name(st->st, i);
    return s ? s : "";
}

enum dz_db_type dz_col_type(struct dz_stmt *st, int i)
{
    return (enum dz_db_type)sqlite3_column_type(st->st, i);
}

int64_t dz_col_int(struct dz_stmt *st, int i)
{
    return sqlite3_column_int64(st->st, i);
}

double dz_col_real(struct dz_stmt *st, int i)
{
    return sqlite3_column_double(st->st, i);
}

const void *dz_col_blob(struct dz_stmt *st, int i, size_t *ret_size)
{
    const void *p = sqlite3_column_blob(st->st, i);
    *ret_size = p ? (size_t)sqlite3_column_bytes(st->st, i) : 0;
    return p;
}

const char *dz_col_text(struct dz_stmt *st, int i)
{
    const unsigned char *s = sqlite3_column_text(st->st, i);
    return s ? (const char *)s : "";
}

int64_t dz_db_last_rowid(const struct dz_db *db)
{
    return sqlite3_last_insert_rowid(db->h);
}

int64_t dz_db_changes(const struct dz_db *db)
{
    return sqlite3_changes64(db->h);
}

/* --- handles on single values ---------------------------------------------------------------
 *
 * Each open handle is in the database's list, so that closing the database closes it. The
 * wrapper itself stays until dz_blob_close(); its db is NULL then. */

/* SQLite has one code for "no such row" and "not a blob or text", so its text decides. */
static int fail_open(const struct dz_db *db, int rc, int64_t rowid, struct dz_err *err)
{
    const char *why = sqlite3_errmsg(db->h);
    if (rc == SQLITE_ERROR && strncmp(why, "no such rowid", 13) == 0)
        return dz_fail(err, DZ_ENOENT, "open a value of %s: no row %lld", db->label,
                       (long long)rowid);
    if (rc == SQLITE_ERROR && strncmp(why, "cannot open value of type", 25) == 0)
        return dz_fail(err, DZ_ECORRUPT, "open a value of %s: row %lld holds no bytes: damaged",
                       db->label, (long long)rowid);
    return dz_db_fail(db, rc, err, "open a value of");
}

int dz_blob_open(struct dz_db *db, const struct dz_blob_at *at, struct dz_blob **ret_blob,
                 struct dz_err *err)
{
    struct dz_blob *b = dz_zalloc(sizeof *b);
    if (!b)
        return dz_fail(err, DZ_ENOMEM, "open a value of %s: out of memory", db->label);
    int rc =
        sqlite3_blob_open(db->h, "main", at->table, at->column, at->rowid, at->write, &b->blob);
    if (rc != SQLITE_OK) {
        (void)sqlite3_blob_close(b->blob);
        dz_free(b);
        return fail_open(db, rc, at->rowid, err);
    }
    b->db = db;
    b->size = (size_t)sqlite3_blob_bytes(b->blob);
    b->next = db->blobs;
    b->link = &db->blobs;
    if (b->next)
        b->next->link = &b->next;
    db->blobs = b;
    *ret_blob = b;
    return 0;
}

int dz_blob_move(struct dz_blob *b, int64_t rowid, struct dz_err *err)
{
    int rc = sqlite3_blob_reopen(b->blob, rowid);
    b->size = rc == SQLITE_OK ? (size_t)sqlite3_blob_bytes(b->blob) : 0;
    if (rc == SQLITE_OK)
        return 0;
    if (rc == SQLITE_ABORT)
        return dz_fail(err, DZ_ESTATE, "move a value handle of %s: its row was changed",
                       b->db->label);
    return fail_open(b->db, rc, rowid, err);
}

size_t dz_blob_size(const struct dz_blob *b)
{
    return b->size;
}

static int check_range(const struct dz_blob *b, size_t size_bytes, size_t offset,
                       struct dz_err *err)
{
    size_t have = dz_blob_size(b);
    if (offset <= have && size_bytes <= have - offset)
        return 0;
    return dz_fail(err, DZ_EINVAL, "%zu bytes from %zu on in a value of %s: it has only %zu",
                   size_bytes, offset, b->db->label, have);
}

static int fail_io(const struct dz_blob *b, int rc, struct dz_err *err, const char *what)
{
    if (rc == SQLITE_ABORT)
        return dz_fail(err, DZ_ESTATE, "%s %s: its row was changed", what, b->db->label);
    return dz_db_fail(b->db, rc, err, what);
}

int dz_blob_read(struct dz_blob *b, void *buf, size_t size_bytes, size_t offset, struct dz_err *err)
{
    int r = check_range(b, size_bytes, offset, err);
    if (r < 0)
        return r;
    int rc = sqlite3_blob_read(b->blob, buf, (int)size_bytes, (int)offset);
    return rc == SQLITE_OK ? 0 : fail_io(b, rc, err, "read a value of");
}

int dz_blob_write(struct dz_blob *b, const void *buf, size_t size_bytes, size_t offset,
                  struct dz_err *err)
{
    int r = check_range(b, size_bytes, offset, err);
    if (r < 0)
        return r;
    int rc = sqlite3_blob_write(b->blob, buf, (int)size_bytes, (int)offset);
    return rc == SQLITE_OK ? 0 : fail_io(b, rc, err, "write a value of");
}

static void detach(struct dz_blob *b)
{
    assert(*b->link == b && (!b->next || b->next->link == &b->next));
    (void)sqlite3_blob_close(b->blob);
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    b->blob = NULL;
    b->db = NULL;
}

void dz_blob_close(struct dz_blob *b)
{
    if (!b)
        return;
    if (b->db)
        detach(b);
    dz_free(b);
}

void dz_blob_closep(struct dz_blob **b)
{
    dz_blob_close(*b);
    *b = NULL;
}

void dz_db_blobs_release(struct dz_db *db)
{
    while (db->blobs)
        detach(db->blobs);
}
