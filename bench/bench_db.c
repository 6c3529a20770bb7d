/* SPDX-License-Identifier: MIT
 *
 * bench_db.c - what it costs to have a database at hand: opening by descriptors
 * with the whole profile, six statements compiled and the first row read, against
 * SQLite's own VFS with the same pragmas; and the first commit after an open,
 * which a wake waits for.
 */
#include "base/buf.h"
#include "bench.h"
#include "db/db.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const steps[] = {
    "CREATE TABLE meta(k TEXT PRIMARY KEY, v) WITHOUT ROWID;"
    "CREATE TABLE node(ino INTEGER PRIMARY KEY, mode INTEGER NOT NULL, nlink INTEGER NOT NULL,"
    " size INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, data BLOB);"
    "CREATE TABLE dentry(parent INTEGER NOT NULL, name BLOB NOT NULL, ino INTEGER NOT NULL,"
    " type INTEGER NOT NULL, PRIMARY KEY(parent, name)) WITHOUT ROWID;"
    "CREATE TABLE chunk(id INTEGER PRIMARY KEY, data BLOB NOT NULL);"
    "CREATE TABLE kv(ns TEXT, k BLOB, v BLOB, mtime INTEGER, PRIMARY KEY(ns, k)) WITHOUT ROWID;"
    "INSERT INTO node VALUES(1, 16877, 2, 0, 0, 0, NULL)",
};
static const struct dz_db_schema schema = {"bench file", 0x42454e43, steps, 1, 0};

static const char *const statements[] = {
    "SELECT mode, size FROM node WHERE ino = ?",
    "SELECT ino, type FROM dentry WHERE parent = ? AND name = ?",
    "SELECT data FROM chunk WHERE id = ?",
    "INSERT INTO node VALUES(?, ?, 1, 0, 0, 0, NULL)",
    "INSERT INTO dentry VALUES(?, ?, ?, ?)",
    "UPDATE node SET size = ? WHERE ino = ?",
};
static const char insert_node[] = "INSERT INTO node VALUES(?, 33188, 1, 0, 0, 0, NULL)";

static char dir[64], main_path[96], wal_path[100];
static int64_t next_ino = 100;

static int read_first(struct dz_db *db)
{
    for (size_t i = 1; i < DZ_ARRAY_LEN(statements); i++)
        (void)dz_db_stmt(db, statements[i]);
    struct dz_stmt *st = dz_db_stmt(db, statements[0]);
    dz_bind_int(st, 1, 1);
    int r = dz_stmt_step(st, NULL);
    dz_stmt_reset(st);
    return r == 1 ? 0 : -1;
}

static struct dz_db *open_ours(void)
{
    struct dz_db *db = NULL;
    int fd = open(main_path, O_RDWR | O_CLOEXEC);
    int wal = open(wal_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const struct dz_db_opts opts = {.schema = &schema};
    return dz_db_open_fds(&db, fd, wal, &opts, NULL) == 0 ? db : NULL;
}

static int run_open(struct bench *b, void *arg, long count)
{
    (void)arg;
    for (long i = 0; i < count; i++) {
        struct dz_db *db = open_ours();
        if (!db || read_first(db) < 0)
            return -1;
        bench_stop(b);
        (void)dz_db_close(db, true, NULL);
        bench_start(b);
    }
    return 0;
}

static int run_first_commit(struct bench *b, void *arg, long count)
{
    (void)arg;
    for (long i = 0; i < count; i++) {
        bench_stop(b);
        struct dz_db *db = open_ours();
        if (!db || read_first(db) < 0)
            return -1;
        bench_start(b);
        struct dz_stmt *st = dz_db_stmt(db, insert_node);
        dz_bind_int(st, 1, next_ino++);
        if (dz_stmt_run(st, NULL) < 0)
            return -1;
        bench_stop(b);
        (void)dz_db_close(db, false, NULL);
        bench_start(b);
    }
    return 0;
}

/* SQLite's own VFS by path, the same profile, the same statements. */
static int open_plain(sqlite3 **ret_h)
{
    static const char pragmas[] =
        "PRAGMA locking_mode=EXCLUSIVE;PRAGMA synchronous=NORMAL;PRAGMA secure_delete=FAST;"
        "PRAGMA temp_store=MEMORY;PRAGMA cell_size_check=ON;PRAGMA cache_size=-1024;"
        "PRAGMA wal_autocheckpoint=0";
    int rc = sqlite3_open_v2(main_path, ret_h, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, "unix");
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(*ret_h, pragmas, NULL, NULL, NULL);
    return rc;
}

static int run_plain(struct bench *b, void *arg, long count)
{
    (void)arg;
    for (long i = 0; i < count; i++) {
        sqlite3 *h = NULL;
        sqlite3_stmt *st[DZ_ARRAY_LEN(statements)];
        int rc = open_plain(&h);
        for (size_t k = 0; rc == SQLITE_OK && k < DZ_ARRAY_LEN(statements); k++)
            rc = sqlite3_prepare_v3(h, statements[k], -1, SQLITE_PREPARE_PERSISTENT, &st[k], NULL);
        if (rc != SQLITE_OK)
            return -1;
        (void)sqlite3_bind_int(st[0], 1, 1);
        rc = sqlite3_step(st[0]);
        bench_stop(b);
        for (size_t k = 0; k < DZ_ARRAY_LEN(statements); k++)
            (void)sqlite3_finalize(st[k]);
        (void)sqlite3_close(h);
        bench_start(b);
        if (rc != SQLITE_ROW)
            return -1;
    }
    return 0;
}

static int run_plain_first_commit(struct bench *b, void *arg, long count)
{
    (void)arg;
    for (long i = 0; i < count; i++) {
        sqlite3 *h = NULL;
        sqlite3_stmt *st = NULL;
        bench_stop(b);
        if (open_plain(&h) != SQLITE_OK ||
            sqlite3_prepare_v3(h, insert_node, -1, 0, &st, NULL) != SQLITE_OK)
            return -1;
        bench_start(b);
        (void)sqlite3_bind_int64(st, 1, next_ino++);
        int rc = sqlite3_step(st);
        bench_stop(b);
        (void)sqlite3_finalize(st);
        (void)sqlite3_close(h);
        bench_start(b);
        if (rc != SQLITE_DONE)
            return -1;
    }
    return 0;
}

static int make_file(size_t *ret_size)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(dir, sizeof dir, "%.40s/dz-bench-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return -1;
    (void)snprintf(main_path, sizeof main_path, "%s/a.db", dir);
    (void)snprintf(wal_path, sizeof wal_path, "%s-wal", main_path);
    int r = dz_db_template(&schema, &t, NULL);
    if (r == 0)
        r = dz_db_create_path(main_path, t.p, t.len, true, NULL);
    *ret_size = t.len;
    dz_buf_release(&t);
    return r;
}

static void compare(struct bench *b, const char *row, int ours, int plain)
{
    bench_row(b, &(struct bench_row){.row = row,
                                     .value = bench_us(b, ours),
                                     .unit = "µs",
                                     .yardstick = bench_us(b, plain),
                                     .yardstick_name = "SQLite's own VFS, same pragmas",
                                     .ratio = bench_us(b, ours) / bench_us(b, plain),
                                     .budget = 1});
}

int main(void)
{
    static struct bench b;
    size_t size = 0;
    bench_init(&b, "db", 51);
    if (make_file(&size) < 0)
        return 1;
    int open_id = bench_case(&b, "open, ours", run_open, NULL, 20);
    int plain_id = bench_case(&b, "open, unix VFS", run_plain, NULL, 20);
    int commit_id = bench_case(&b, "first commit, ours", run_first_commit, NULL, 5);
    int plain_commit_id = bench_case(&b, "first commit, unix VFS", run_plain_first_commit, NULL, 5);
    bench_run(&b);
    compare(&b, "open, profile, 6 statements, first row", open_id, plain_id);
    compare(&b, "first commit after an open, synchronous=NORMAL", commit_id, plain_commit_id);
    bench_row(&b, &(struct bench_row){
                      .row = "empty file of five tables", .value = (double)size, .unit = "bytes"});
    (void)unlink(main_path);
    (void)unlink(wal_path);
    (void)rmdir(dir);
    return bench_finish(&b);
}
