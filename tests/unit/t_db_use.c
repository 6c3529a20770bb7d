/* SPDX-License-Identifier: MIT
 * Statements, transactions, blobs, checkpoints and foreign SQL, on a disk in
 * memory. */
#include "base/buf.h"
#include "db/db.h"
#include "db/db_sim.h"
#include "tap.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const char *const steps[] = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB NOT NULL);"
    "CREATE TABLE u(name BLOB PRIMARY KEY, n INTEGER) WITHOUT ROWID;"
    "CREATE VIEW w AS SELECT id FROM t",
};
static const struct dz_db_schema schema = {"test file", 0x54455354, steps, 1, 0};

static struct dz_db_sim *sim;
static struct dz_err err;

static struct dz_db *open_db(const struct dz_db_opts *opts)
{
    struct dz_db *db = NULL;
    CHECK_INT(dz_db_open_disk(&db, dz_db_sim_disk(sim), opts, &err), 0);
    CHECK_STR(err.msg, "");
    return db;
}

static struct dz_db *begin(void)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    sim = dz_db_sim_new(1);
    CHECK_INT(dz_db_template(&schema, &t, NULL), 0);
    CHECK_INT(dz_db_sim_load(sim, DZ_DB_FILE_MAIN, t.p, t.len), 0);
    dz_buf_release(&t);
    return open_db(&(struct dz_db_opts){.schema = &schema, .label = "x"});
}

static void end(struct dz_db *db)
{
    CHECK_INT(dz_db_close(db, false, &err), 0);
    CHECK_STR(err.msg, "");
    dz_db_sim_free(sim);
}

static int64_t ask(struct dz_db *db, const char *sql)
{
    struct dz_stmt *st = dz_db_stmt(db, sql);
    int64_t v = dz_stmt_step(st, &err) == 1 ? dz_col_int(st, 0) : -1;
    dz_stmt_reset(st);
    return v;
}

static void put(struct dz_db *db, int64_t id, size_t size)
{
    struct dz_stmt *st = dz_db_stmt(db, "INSERT INTO t VALUES(?, ?)");
    dz_bind_int(st, 1, id);
    dz_bind_zeros(st, 2, size);
    CHECK_INT(dz_stmt_run(st, &err), 0);
}

TEST(stmt_is_compiled_once_for_one_literal)
{
    static const char sql[] = "SELECT 1";
    struct dz_db *db = begin();
    struct dz_stmt *st = dz_db_stmt(db, sql);
    CHECK(dz_db_stmt(db, sql) == st);
    CHECK(dz_db_stmt(db, "SELECT 2") != st);
    end(db);
}

TEST(stmt_that_does_not_compile_says_so_at_its_step)
{
    struct dz_db *db = begin();
    struct dz_stmt *st = dz_db_stmt(db, "SELECT nonsense FROM nowhere");
    struct dz_err e = {0};
    dz_bind_int(st, 1, 5);
    dz_bind_text(st, 2, "ignored");
    CHECK_INT(dz_stmt_step(st, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "run SQL on x: no such table: nowhere");
    dz_stmt_reset(st);
    CHECK_INT(ask(db, "SELECT 5"), 5);
    CHECK_INT(dz_stmt_step(st, &e), DZ_EINVAL); /* a good one does not heal it */
    end(db);
}

TEST(stmt_binds_and_reads_every_type)
{
    struct dz_db *db = begin();
    size_t n = 9;
    struct dz_stmt *st = dz_db_stmt(db, "SELECT ?1, ?2, ?3, ?4, ?5, ?6, 1.5 AS real");
    dz_bind_int(st, 1, INT64_MIN);
    dz_bind_blob(st, 2, "a\0b", 3);
    dz_bind_text(st, 3, "text");
    dz_bind_null(st, 4);
    dz_bind_zeros(st, 5, 4);
    dz_bind_blob(st, 6, NULL, 0);
    CHECK_INT(dz_stmt_step(st, &err), 1);
    CHECK_INT(dz_col_count(st), 7);
    CHECK(dz_col_int(st, 0) == INT64_MIN);
    CHECK(memcmp(dz_col_blob(st, 1, &n), "a\0b", 3) == 0);
    CHECK_INT(n, 3);
    CHECK_STR(dz_col_text(st, 2), "text");
    CHECK_INT(dz_col_type(st, 3), DZ_DB_NULL);
    CHECK_STR(dz_col_text(st, 3), "");
    CHECK(memcmp(dz_col_blob(st, 4, &n), "\0\0\0\0", 4) == 0);
    CHECK_INT(dz_col_type(st, 5), DZ_DB_BLOB);
    (void)dz_col_blob(st, 5, &n);
    CHECK_INT(n, 0);
    CHECK_INT(dz_col_type(st, 6), DZ_DB_REAL);
    CHECK(dz_col_real(st, 6) > 1.4);
    CHECK_STR(dz_col_name(st, 6), "real");
    dz_stmt_reset(st);
    /* a reset forgets what was bound */
    CHECK_INT(dz_stmt_step(st, &err), 1);
    CHECK_INT(dz_col_type(st, 0), DZ_DB_NULL);
    dz_stmt_reset(st);
    end(db);
}

TEST(stmt_reports_constraints_apart)
{
    struct dz_db *db = begin();
    put(db, 1, 10);
    CHECK_INT(dz_db_exec(db, "INSERT INTO t VALUES(1, 'x')", NULL), DZ_EEXIST);
    CHECK_INT(dz_db_exec(db, "INSERT INTO t VALUES(2, NULL)", NULL), DZ_EINVAL);
    CHECK_INT(dz_db_exec(db, "INSERT INTO u VALUES('a', 1)", NULL), 0);
    CHECK_INT(dz_db_exec(db, "INSERT INTO u VALUES('a', 2)", NULL), DZ_EEXIST);
    CHECK_INT(dz_db_exec(db, "INSERT INTO t VALUES(3, zeroblob(100000000))", NULL), DZ_ELIMIT);
    CHECK_INT(ask(db, "SELECT count(*) FROM t"), 1);
    CHECK_INT(dz_db_exec(db, "UPDATE u SET n = 5", NULL), 0);
    CHECK_INT(dz_db_changes(db), 1);
    CHECK_INT(dz_db_last_rowid(db), 1);
    end(db);
}

TEST(stmt_from_outside_is_split_at_its_end)
{
    struct dz_db *db = begin();
    struct dz_stmt *st = NULL;
    const char *rest = NULL;
    CHECK_INT(dz_stmt_new(&st, db, "SELECT 1; SELECT 2", &rest, &err), 0);
    CHECK_STR(rest, " SELECT 2");
    CHECK_INT(dz_stmt_step(st, &err), 1);
    dz_stmt_free(st);
    CHECK_INT(dz_stmt_new(&st, db, "  -- nothing", &rest, NULL), DZ_EINVAL);
    dz_stmt_free(NULL);
    end(db);
}

TEST(txn_commit_keeps_and_rollback_drops)
{
    struct dz_db *db = begin();
    CHECK_INT(dz_db_begin(db, &err), 0);
    CHECK(dz_db_in_txn(db));
    put(db, 1, 1);
    CHECK_INT(dz_db_commit(db, &err), 0);
    CHECK(!dz_db_in_txn(db));
    CHECK_INT(dz_db_begin(db, &err), 0);
    put(db, 2, 1);
    dz_db_rollback(db);
    dz_db_rollback(db);
    CHECK_INT(ask(db, "SELECT count(*) FROM t"), 1);
    end(db);
}

TEST(txn_savepoints_nest)
{
    struct dz_db *db = begin();
    CHECK_INT(dz_db_begin(db, &err), 0);
    CHECK_INT(dz_db_savepoint(db, &err), 0);
    put(db, 1, 1);
    CHECK_INT(dz_db_savepoint(db, &err), 0);
    put(db, 2, 1);
    dz_db_undo(db);
    CHECK_INT(dz_db_savepoint(db, &err), 0);
    put(db, 3, 1);
    CHECK_INT(dz_db_release(db, &err), 0);
    CHECK_INT(dz_db_release(db, &err), 0);
    CHECK_INT(dz_db_commit(db, &err), 0);
    CHECK_INT(ask(db, "SELECT group_concat(id, '') FROM t"), 13);
    end(db);
}

TEST(txn_open_at_close_is_rolled_back)
{
    struct dz_db *db = begin();
    CHECK_INT(dz_db_begin(db, &err), 0);
    put(db, 1, 1);
    CHECK_INT(dz_db_close(db, false, &err), 0);
    db = open_db(&(struct dz_db_opts){.schema = &schema});
    CHECK_INT(ask(db, "SELECT count(*) FROM t"), 0);
    end(db);
}

static int open_blob(struct dz_db *db, const char *column, int64_t rowid, bool write,
                     struct dz_blob **ret_blob, struct dz_err *e)
{
    const struct dz_blob_at at = {.table = "t", .column = column, .rowid = rowid, .write = write};
    return dz_blob_open(db, &at, ret_blob, e);
}

TEST(blob_reads_and_writes_in_place)
{
    struct dz_db *db = begin();
    struct dz_blob *b = NULL;
    char buf[8] = "";
    put(db, 1, 50000);
    put(db, 2, 10);
    CHECK_INT(open_blob(db, "v", 1, true, &b, &err), 0);
    CHECK_INT(dz_blob_size(b), 50000);
    CHECK_INT(dz_blob_write(b, "far away", 8, 49992, &err), 0);
    CHECK_INT(dz_blob_read(b, buf, 8, 49992, &err), 0);
    CHECK(memcmp(buf, "far away", 8) == 0);
    CHECK_INT(dz_blob_write(b, "x", 1, 50000, NULL), DZ_EINVAL);
    CHECK_INT(dz_blob_read(b, buf, SIZE_MAX, 1, NULL), DZ_EINVAL);
    CHECK_INT(dz_blob_move(b, 2, &err), 0);
    CHECK_INT(dz_blob_size(b), 10);
    CHECK_INT(dz_blob_move(b, 3, NULL), DZ_ENOENT);
    CHECK_INT(dz_blob_size(b), 0);
    dz_blob_closep(&b);
    dz_blob_close(b);
    CHECK_INT(open_blob(db, "v", 9, false, &b, NULL), DZ_ENOENT);
    CHECK_INT(open_blob(db, "id", 1, false, &b, NULL), DZ_ECORRUPT);
    CHECK_INT(open_blob(db, "nothing", 1, false, &b, NULL), DZ_EINVAL);
    end(db);
}

TEST(blob_open_for_writing_holds_a_commit_back)
{
    struct dz_db *db = begin();
    struct dz_blob *r = NULL, *w = NULL;
    put(db, 1, 10);
    CHECK_INT(dz_db_begin(db, &err), 0);
    CHECK_INT(open_blob(db, "v", 1, false, &r, &err), 0);
    CHECK_INT(open_blob(db, "v", 1, true, &w, &err), 0);
    CHECK_INT(dz_blob_write(w, "x", 1, 0, &err), 0);
    CHECK_INT(dz_db_commit(db, NULL), DZ_EBUSY);
    CHECK(dz_db_in_txn(db));
    dz_blob_close(w);
    CHECK_INT(dz_db_commit(db, &err), 0); /* one that only reads may stay */
    CHECK_INT(ask(db, "SELECT v = x'78000000000000000000' FROM t"), 1);
    dz_blob_close(r);
    end(db);
}

TEST(blob_expires_when_its_row_changes)
{
    struct dz_db *db = begin();
    struct dz_blob *b = NULL;
    char c = 0;
    put(db, 1, 10);
    put(db, 2, 10);
    CHECK_INT(open_blob(db, "v", 1, false, &b, &err), 0);
    CHECK_INT(dz_db_exec(db, "UPDATE t SET v = zeroblob(20) WHERE id = 1", &err), 0);
    CHECK_INT(dz_blob_read(b, &c, 1, 0, NULL), DZ_ESTATE);
    CHECK_INT(dz_blob_read(b, &c, 1, 0, NULL), DZ_ESTATE);
    CHECK_INT(dz_blob_move(b, 2, NULL), DZ_ESTATE);
    dz_blob_close(b);
    CHECK_INT(open_blob(db, "v", 1, false, &b, &err), 0);
    CHECK_INT(dz_blob_size(b), 20);
    CHECK_INT(dz_db_close(db, false, &err), 0); /* with the handle open */
    dz_blob_close(b);
    dz_db_sim_free(sim);
}

static size_t size_of(enum dz_db_file f)
{
    size_t n = 0;
    (void)dz_db_sim_bytes(sim, f, &n);
    return n;
}

TEST(checkpoint_waits_for_idleness)
{
    struct dz_db *db = begin();
    size_t before = size_of(DZ_DB_FILE_MAIN);
    CHECK_INT(dz_db_maintain(db, true, &err), 0); /* nothing to move */
    put(db, 1, 20000);
    CHECK(dz_db_wal_pages(db) >= 6);
    CHECK_INT(dz_db_maintain(db, false, &err), 0);
    CHECK_INT(size_of(DZ_DB_FILE_MAIN), before);
    CHECK_INT(dz_db_begin(db, &err), 0);
    CHECK_INT(dz_db_maintain(db, true, &err), 0);
    CHECK_INT(dz_db_checkpoint(db, DZ_DB_CHECKPOINT_MOVE, NULL), DZ_EBUSY);
    CHECK_INT(dz_db_commit(db, &err), 0);
    CHECK_INT(dz_db_maintain(db, true, &err), 1);
    CHECK_INT(dz_db_wal_pages(db), 0);
    CHECK(size_of(DZ_DB_FILE_MAIN) > before);
    /* the log is reused from its start, then emptied on demand */
    size_t log = size_of(DZ_DB_FILE_WAL);
    put(db, 2, 1);
    CHECK_INT(size_of(DZ_DB_FILE_WAL), log);
    CHECK(dz_db_wal_pages(db) > 0 && dz_db_wal_pages(db) < 4);
    CHECK_INT(dz_db_checkpoint(db, DZ_DB_CHECKPOINT_EMPTY, &err), 0);
    CHECK_INT(size_of(DZ_DB_FILE_WAL), 0);
    end(db);
}

TEST(checkpoint_comes_at_its_page_count_even_when_busy)
{
    struct dz_db *db = begin();
    for (int i = 1; dz_db_wal_pages(db) < DZ_DB_CHECKPOINT_PAGES; i++) {
        CHECK_INT(dz_db_maintain(db, false, &err), 0);
        put(db, i, 1000000);
    }
    CHECK_INT(dz_db_maintain(db, false, &err), 1);
    CHECK_INT(dz_db_maintain(db, false, &err), 0);
    /* A log that grew too long is not kept for the next round. */
    CHECK_INT(dz_db_exec(db, "UPDATE t SET v = zeroblob(2000000)", &err), 0);
    CHECK(size_of(DZ_DB_FILE_WAL) > (size_t)DZ_DB_WAL_KEEP_BYTES);
    CHECK_INT(dz_db_checkpoint(db, DZ_DB_CHECKPOINT_MOVE, &err), 0);
    CHECK_INT(size_of(DZ_DB_FILE_WAL), 0);
    end(db);
}

static int try(struct dz_db *db, const char *sql)
{
    struct dz_stmt *st = NULL;
    int r = dz_stmt_new(&st, db, sql, NULL, NULL);
    if (r == 0)
        r = dz_stmt_run(st, NULL);
    dz_stmt_free(st);
    return r;
}

/* What a copy of the database holds: rows of t, and the sum of their sizes. */
static void check_copy(struct dz_db *db, int64_t rows, int64_t bytes)
{
    const struct dz_db_opts opts = {.schema = &schema, .label = "copy"};
    struct dz_db *copy = NULL;
    struct stat st;
    uint64_t size = 0;
    int fd = memfd_create("copy", MFD_CLOEXEC), log = memfd_create("log", MFD_CLOEXEC);
    CHECK_INT(dz_db_copy(db, fd, &size, &err), 0);
    CHECK(fstat(fd, &st) == 0 && st.st_size == (off_t)size);
    CHECK_INT(dz_db_open_fds(&copy, fd, log, &opts, &err), 0);
    CHECK_INT(ask(copy, "SELECT count(*) FROM t"), rows);
    CHECK_INT(ask(copy, "SELECT coalesce(sum(length(v)),0) FROM t"), bytes);
    struct dz_stmt *st_check = dz_db_stmt(copy, "PRAGMA integrity_check");
    CHECK_INT(dz_stmt_step(st_check, &err), 1);
    CHECK_STR(dz_col_text(st_check, 0), "ok");
    dz_stmt_reset(st_check);
    CHECK_INT(dz_db_close(copy, false, &err), 0);
}

/* From the file and its log, whatever lies in that. */
TEST(copy_holds_what_is_committed)
{
    enum {
        LARGE = 6 << 20, /* more than the page cache: its pages are in the log before the commit */
    };
    struct dz_db *db = begin();
    check_copy(db, 0, 0); /* no log yet */
    put(db, 1, 5000);
    check_copy(db, 1, 5000);
    CHECK_INT(dz_db_begin(db, &err), 0);
    put(db, 2, LARGE);
    dz_db_rollback(db); /* its frames stay there */
    check_copy(db, 1, 5000);
    put(db, 3, 10);
    check_copy(db, 2, 5010); /* over the first of them */
    CHECK_INT(dz_db_begin(db, &err), 0);
    put(db, 4, LARGE);
    CHECK_INT(dz_db_commit(db, &err), 0);
    check_copy(db, 3, 5010 + LARGE);
    CHECK_INT(dz_db_checkpoint(db, DZ_DB_CHECKPOINT_MOVE, &err), 0);
    check_copy(db, 3, 5010 + LARGE);
    put(db, 5, 20); /* the log begins anew before the old frames */
    check_copy(db, 4, 5030 + LARGE);
    CHECK_INT(dz_db_checkpoint(db, DZ_DB_CHECKPOINT_EMPTY, &err), 0);
    check_copy(db, 4, 5030 + LARGE);
    CHECK_INT(dz_db_exec(db, "DELETE FROM t WHERE id=4", &err), 0);
    check_copy(db, 3, 5030);
    end(db);
}

TEST(what_is_kept_for_the_next_transaction_can_be_given_back)
{
    struct dz_db *db = begin();
    dz_db_trim(db); /* nothing yet */
    put(db, 1, 20000);
    size_t kept = dz_mem_bytes();
    dz_db_trim(db);
    CHECK(dz_mem_bytes() + 60000 < kept);
    put(db, 2, 20000);
    CHECK(dz_mem_bytes() >= kept);
    CHECK_INT(dz_db_begin(db, &err), 0);
    put(db, 3, 10);
    dz_db_trim(db); /* within one */
    CHECK_INT(dz_db_commit(db, &err), 0);
    CHECK_INT(ask(db, "SELECT sum(length(v)) FROM t"), 40010);
    dz_db_trim(db);
    check_copy(db, 3, 40010);
    end(db);
}

TEST(restricted_handle_only_reads)
{
    static const char *const good[] = {
        "SELECT * FROM t",
        "SELECT count(*) FROM t JOIN u ON t.id = u.n",
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i<9) SELECT i FROM n",
        "SELECT name FROM sqlite_schema",
        "PRAGMA table_info(t)",
        "PRAGMA user_version",
        "EXPLAIN QUERY PLAN SELECT * FROM t",
    };
    static const char *const bad[] = {
        "INSERT INTO t VALUES(1, 2)",
        "UPDATE t SET id = 1",
        "DELETE FROM t",
        "DROP TABLE t",
        "CREATE TABLE z(a)",
        "CREATE TEMP TABLE z(a)",
        "CREATE VIRTUAL TABLE z USING fts5(a)",
        "ATTACH ':memory:' AS m",
        "VACUUM",
        "VACUUM INTO '/tmp/x'",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT s",
        "REINDEX",
        "ANALYZE",
        "PRAGMA user_version = 9",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA locking_mode = NORMAL",
        "PRAGMA wal_checkpoint",
        "PRAGMA mmap_size = 0",
        "PRAGMA writable_schema = ON",
    };
    struct dz_db *db = begin();
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    db = open_db(&(struct dz_db_opts){.schema = &schema, .views = true});
    dz_db_restrict(db, 100000);
    for (size_t i = 0; i < DZ_ARRAY_LEN(good); i++) {
        if (try(db, good[i]) != 0)
            printf("# refused: %s\n", good[i]);
        CHECK_INT(try(db, good[i]), 0);
    }
    CHECK_INT(try(db, "SELECT * FROM w"), 0);
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        if (try(db, bad[i]) != DZ_EDENIED)
            printf("# not refused: %s\n", bad[i]);
        CHECK_INT(try(db, bad[i]), DZ_EDENIED);
    }
    CHECK_INT(try(db, "SELECT load_extension('x')"), DZ_EINVAL);
    end(db);
}

TEST(restricted_handle_stops_what_runs_too_long)
{
    static const char endless[] =
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n";
    struct dz_db *db = begin();
    struct dz_err e = {0};
    dz_db_restrict(db, 100000);
    struct dz_stmt *st = NULL;
    CHECK_INT(dz_stmt_new(&st, db, endless, NULL, NULL), 0);
    CHECK_INT(dz_stmt_run(st, &e), DZ_ELIMIT);
    CHECK_STR(e.msg, "run SQL on x: it took too long");
    dz_stmt_free(st);
    CHECK_INT(try(db, endless), DZ_ELIMIT); /* the budget is spent */
    dz_db_restrict(db, 100000);
    CHECK_INT(try(db, "SELECT 1"), 0);
    end(db);
}

TEST(views_of_a_file_are_off_unless_asked_for)
{
    struct dz_db *db = begin();
    CHECK_INT(try(db, "SELECT * FROM w"), DZ_EINVAL);
    CHECK_INT(try(db, "SELECT \"no such column\" FROM t"), DZ_EINVAL);
    CHECK_INT(try(db, "ATTACH ':memory:' AS m"), DZ_EINVAL);
    end(db);
}
