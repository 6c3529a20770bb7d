/* SPDX-License-Identifier: MIT
 * A database used by a process that cannot name a file. */
#include "../lib/no_open.h"

#include "base/buf.h"
#include "db/db.h"
#include "tap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

static const char *const steps[] = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);"
    "CREATE TABLE big(a, b)",
};
static const struct dz_db_schema schema = {"test file", 0x54455354, steps, 1, 0};

static void make_files(int *db_fd, int *wal_fd)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    *db_fd = memfd_create("db", MFD_CLOEXEC);
    *wal_fd = memfd_create("wal", MFD_CLOEXEC);
    CHECK(*db_fd >= 0 && *wal_fd >= 0);
    CHECK_INT(dz_db_template(&schema, &t, NULL), 0);
    CHECK_INT(dz_db_create_fd(*db_fd, t.p, t.len, false, NULL), 0);
    dz_buf_release(&t);
}

static void work(struct dz_db *db)
{
    struct dz_err err = {0};
    CHECK_INT(dz_db_begin(db, &err), 0);
    CHECK_INT(dz_db_exec(db,
                         "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE "
                         "i < 3000) INSERT INTO big SELECT i, randomblob(1000) FROM n",
                         &err),
              0);
    /* A savepoint that must remember more than SQLite's limit for memory. */
    CHECK_INT(dz_db_savepoint(db, &err), 0);
    CHECK_INT(dz_db_exec(db, "UPDATE big SET b = zeroblob(1000)", &err), 0);
    dz_db_undo(db);
    CHECK_INT(dz_db_commit(db, &err), 0);
    /* A sort and a join that want temporary tables, and SQL's clock. */
    struct dz_stmt *st = dz_db_stmt(db, "SELECT count(*), max(datetime('now', 'localtime')) FROM "
                                        "(SELECT DISTINCT x.b FROM big x, big y WHERE x.a = y.a "
                                        "ORDER BY x.b DESC) WHERE b <> zeroblob(1000)");
    CHECK_INT(dz_stmt_step(st, &err), 1);
    CHECK_INT(dz_col_int(st, 0), 3000);
    dz_stmt_reset(st);
    struct dz_blob *blob = NULL;
    CHECK_INT(dz_db_exec(db, "INSERT INTO t VALUES(1, zeroblob(30000))", &err), 0);
    CHECK_INT(dz_blob_open(
                  db, &(struct dz_blob_at){.table = "t", .column = "v", .rowid = 1, .write = true},
                  &blob, &err),
              0);
    CHECK_INT(dz_blob_write(blob, "deep", 4, 20000, &err), 0);
    dz_blob_close(blob);
    CHECK_INT(dz_db_maintain(db, true, &err), 1);
    CHECK_STR(err.msg, "");
}

static int jailed(void)
{
    int db_fd = -1, wal_fd = -1;
    struct dz_db *db = NULL;
    struct dz_err err = {0};
    const struct dz_db_opts opts = {.schema = &schema, .strict = true};
    make_files(&db_fd, &wal_fd);
    int again = fcntl(db_fd, F_DUPFD_CLOEXEC, 0), wal_again = fcntl(wal_fd, F_DUPFD_CLOEXEC, 0);
    if (!no_open_begin())
        return TAP_SKIPPED;
    CHECK_INT(dz_db_open_fds(&db, db_fd, wal_fd, &opts, &err), 0);
    CHECK_STR(err.msg, "");
    work(db);
    CHECK_INT(dz_db_close(db, true, &err), 0);
    dz_db_reseed();
    CHECK_INT(dz_db_open_fds(&db, again, wal_again, &opts, &err), 0); /* recovers the log */
    struct dz_stmt *st = dz_db_stmt(db, "SELECT count(*) FROM big");
    CHECK_INT(dz_stmt_step(st, &err), 1);
    CHECK_INT(dz_col_int(st, 0), 3000);
    dz_stmt_reset(st);
    CHECK_INT(dz_db_close(db, false, &err), 0);
    CHECK_STR(err.msg, "");
    (void)fflush(stdout);
    return tap_bad ? TAP_FAIL : TAP_PASS;
}

TEST(db_needs_no_call_that_names_a_file)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(jailed()); /* a leak checker would open /proc at exit */
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == TAP_SKIPPED)
        SKIP("no seccomp here");
    CHECK_INT(status, 0);
}

TEST(db_jail_of_the_test_bites)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (!no_open_begin())
            _exit(77);
        _exit(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 ? 1 : 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("no seccomp here");
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}
