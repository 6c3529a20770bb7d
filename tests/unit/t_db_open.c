/* SPDX-License-Identifier: MIT
 * Opening, refusing, locking, creating, migrating, closing: on real files. */
#include "base/buf.h"
#include "db/db.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const steps_v1[] = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)",
};
static const char *const steps_v2[] = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)",
    "ALTER TABLE t ADD COLUMN n INTEGER; INSERT INTO t(id, n) VALUES(100, 7)",
};
static const struct dz_db_schema schema_v1 = {"test file", 0x54455354, steps_v1, 1, 0};
static const struct dz_db_schema schema_v2 = {"test file", 0x54455354, steps_v2, 2, 0};
static const struct dz_db_schema other = {"other file", 0x4f544852, steps_v1, 1, 0};

static char dir[64];

static const char *in_dir(const char *name)
{
    static char path[4][128];
    static int i;
    char *p = path[i++ & 3];
    (void)snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

/* A fresh directory; the path of a.db in it. */
static const char *make_dir(void)
{
    static char a[128];
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(dir, sizeof dir, "%.40s/dz-db-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        abort();
    (void)snprintf(a, sizeof a, "%s", in_dir("a.db"));
    return a;
}

static void remove_dir(void)
{
    static const char *const names[] = {"a.db", "a.db-wal", "b.db", "b.db-wal", "out"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(names); i++)
        (void)unlink(in_dir(names[i]));
    CHECK_INT(rmdir(dir), 0); /* nothing else was left behind */
}

static void create(const char *path, const struct dz_db_schema *schema)
{
    struct dz_err err = {0};
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    CHECK_INT(dz_db_template(schema, &t, &err), 0);
    CHECK_INT(dz_db_create_path(path, t.p, t.len, false, &err), 0);
    CHECK_STR(err.msg, "");
    dz_buf_release(&t);
}

static off_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : -1;
}

static int64_t ask(struct dz_db *db, const char *sql)
{
    struct dz_err err = {0};
    struct dz_stmt *st = dz_db_stmt(db, sql);
    int64_t v = dz_stmt_step(st, &err) == 1 ? dz_col_int(st, 0) : -1;
    CHECK_STR(err.msg, "");
    dz_stmt_reset(st);
    return v;
}

TEST(db_keeps_what_was_committed)
{
    struct dz_db *db = NULL;
    struct dz_err err = {0};
    const struct dz_db_opts opts = {.schema = &schema_v1};
    const char *a = make_dir();
    create(a, &schema_v1);
    CHECK_INT(dz_db_open_path(&db, a, &opts, &err), 0);
    CHECK_INT(dz_db_begin(db, &err), 0);
    struct dz_stmt *st = dz_db_stmt(db, "INSERT INTO t VALUES(?, ?)");
    for (int i = 1; i <= 10; i++) {
        dz_bind_int(st, 1, i);
        dz_bind_blob(st, 2, "hello", 5);
        CHECK_INT(dz_stmt_run(st, &err), 0);
    }
    CHECK_INT(dz_db_commit(db, &err), 0);
    CHECK(dz_db_wal_pages(db) > 0);
    CHECK(size_of(in_dir("a.db-wal")) > 4096);
    CHECK_INT(dz_db_close(db, false, &err), 0);
    CHECK_INT(size_of(in_dir("a.db-wal")), -1);

    CHECK_INT(dz_db_open_path(&db, a, &opts, &err), 0);
    CHECK_INT(ask(db, "SELECT count(*) FROM t WHERE v = x'68656c6c6f'"), 10);
    CHECK_INT(dz_db_close(db, false, &err), 0);
    CHECK_STR(err.msg, "");
    remove_dir();
}

TEST(db_profile_is_what_the_header_says)
{
    struct dz_db *db = NULL;
    const struct dz_db_opts opts = {.schema = &schema_v1, .strict = true, .wary = true};
    const char *a = make_dir();
    create(a, &schema_v1);
    CHECK_INT(dz_db_open_path(&db, a, &opts, NULL), 0);
    struct dz_stmt *st = dz_db_stmt(db, "PRAGMA journal_mode");
    CHECK_INT(dz_stmt_step(st, NULL), 1);
    CHECK_STR(dz_col_text(st, 0), "wal");
    dz_stmt_reset(st);
    CHECK_INT(ask(db, "PRAGMA synchronous"), 2);
    CHECK_INT(ask(db, "PRAGMA secure_delete"), 2);
    CHECK_INT(ask(db, "PRAGMA temp_store"), 2);
    CHECK_INT(ask(db, "PRAGMA cell_size_check"), 1);
    CHECK_INT(ask(db, "PRAGMA trusted_schema"), 0);
    CHECK_INT(ask(db, "PRAGMA mmap_size"), DZ_DB_MMAP_BYTES);
    CHECK_INT(ask(db, "PRAGMA cache_size"), -DZ_DB_CACHE_KB);
    CHECK_INT(ask(db, "PRAGMA wal_autocheckpoint"), 0);
    CHECK_INT(ask(db, "PRAGMA page_size"), DZ_DB_PAGE_BYTES);
    CHECK_INT(ask(db, "PRAGMA user_version"), 1);
    dz_db_closep(&db);
    remove_dir();
}

/* Run sqlite3 on a file; the first line it prints is in out. */
static int run_sqlite3(const char *file, const char *sql, char out[static 128])
{
    extern char **environ;
    const char *const args[] = {"sqlite3", file, sql, NULL};
    posix_spawn_file_actions_t actions;
    int status = -1;
    pid_t pid = 0;
    const char *log = in_dir("out");
    CHECK_INT(posix_spawn_file_actions_init(&actions), 0);
    (void)posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void)posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (posix_spawnp(&pid, "sqlite3", &actions, NULL, (char *const *)(uintptr_t)args, environ) != 0)
        SKIP("no sqlite3 command here");
    (void)posix_spawn_file_actions_destroy(&actions);
    CHECK(waitpid(pid, &status, 0) == pid);
    FILE *f = fopen(log, "re");
    out[0] = '\0';
    if (f && fgets(out, 128, f))
        out[strcspn(out, "\n")] = '\0';
    if (f)
        (void)fclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(db_is_locked_for_a_stranger_while_open_and_free_after)
{
    char out[128];
    struct dz_db *db = NULL, *second = NULL;
    struct dz_err err = {0};
    const struct dz_db_opts opts = {.schema = &schema_v1, .label = "a.db"};
    const char *a = make_dir();
    create(a, &schema_v1);
    CHECK_INT(dz_db_open_path(&db, a, &opts, NULL), 0);
    CHECK_INT(dz_db_exec(db, "INSERT INTO t VALUES(1, 'x')", NULL), 0);
    CHECK(run_sqlite3(a, "SELECT count(*) FROM t", out) != 0);
    CHECK(strstr(out, "database is locked"));
    CHECK(run_sqlite3(a, "INSERT INTO t VALUES(2, 'y')", out) != 0);
    CHECK(strstr(out, "database is locked"));
    /* and for another of ours, also in the same process */
    CHECK_INT(dz_db_open_path(&second, a, &opts, &err), DZ_EBUSY);
    int fd = open(a, O_RDWR | O_CLOEXEC);
    CHECK_INT(dz_db_lock_within(fd, 5), -EINTR);
    CHECK(strstr(err.msg, "a.db: it is in use by another process"));
    CHECK_INT(ask(db, "SELECT count(*) FROM t"), 1);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    CHECK_INT(dz_db_lock_within(fd, 5000), 0);
    (void)close(fd);
    CHECK_INT(run_sqlite3(a, "SELECT count(*) FROM t", out), 0);
    CHECK_STR(out, "1");
    remove_dir();
}

TEST(db_left_with_its_log_is_whole_for_sqlite3_and_for_us)
{
    char out[128];
    struct dz_db *db = NULL;
    const struct dz_db_opts opts = {.schema = &schema_v1};
    const char *a = make_dir();
    create(a, &schema_v1);
    CHECK_INT(dz_db_open_path(&db, a, &opts, NULL), 0);
    CHECK_INT(dz_db_exec(db, "INSERT INTO t VALUES(1, 'x')", NULL), 0);
    CHECK_INT(dz_db_close(db, true, NULL), 0);
    CHECK(size_of(in_dir("a.db-wal")) > 0);
    CHECK_INT(dz_db_open_path(&db, a, &opts, NULL), 0);
    CHECK(dz_db_wal_pages(db) > 0);
    CHECK_INT(ask(db, "SELECT count(*) FROM t"), 1);
    CHECK_INT(dz_db_exec(db, "INSERT INTO t VALUES(2, 'y')", NULL), 0);
    CHECK_INT(dz_db_close(db, true, NULL), 0);
    CHECK_INT(run_sqlite3(a, "PRAGMA integrity_check; SELECT count(*) FROM t", out), 0);
    CHECK_STR(out, "ok");
    CHECK_INT(run_sqlite3(a, "SELECT count(*) FROM t", out), 0);
    CHECK_STR(out, "2");
    remove_dir();
}

static void expect_refusal(const char *path, const struct dz_db_schema *schema, int code,
                           const char *sentence)
{
    struct dz_db *db = NULL;
    struct dz_err err = {0};
    const struct dz_db_opts opts = {.schema = schema, .label = "x.doze"};
    CHECK_INT(dz_db_open_path(&db, path, &opts, &err), code);
    CHECK_STR(err.msg, sentence);
    CHECK(db == NULL);
}

static void write_file(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "we");
    CHECK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

TEST(db_says_why_it_refuses_a_file)
{
    char junk[4096];
    memset(junk, 'j', sizeof junk);
    const char *a = make_dir();
    write_file(a, "", 0);
    expect_refusal(a, &schema_v1, DZ_ECORRUPT, "x.doze is empty: not a test file of doze");
    write_file(a, junk, sizeof junk);
    expect_refusal(a, &schema_v1, DZ_ECORRUPT,
                   "x.doze is not a test file of doze (nor any SQLite database)");
    (void)unlink(a);
    create(a, &other);
    expect_refusal(a, &schema_v1, DZ_ESTATE,
                   "x.doze is not a test file of doze: an SQLite database of another kind");
    (void)unlink(a);
    create(a, &schema_v2);
    expect_refusal(a, &schema_v1, DZ_ESTATE,
                   "x.doze was made by a newer doze: format 2, this one knows up to 1; use a newer "
                   "doze");
    (void)unlink(a);
    struct dz_db *db = NULL;
    struct dz_err err = {0};
    const struct dz_db_opts opts = {.schema = &schema_v1};
    CHECK_INT(dz_db_open_path(&db, a, &opts, &err), DZ_ENOENT);
    CHECK_INT(size_of(in_dir("a.db-wal")), -1);
    remove_dir();
}

TEST(db_migrates_an_old_file_and_only_a_writable_one)
{
    struct dz_db *db = NULL;
    struct dz_err err = {0};
    struct dz_db_opts opts = {.schema = &schema_v2, .label = "x", .immutable = true};
    const char *a = make_dir();
    create(a, &schema_v1);
    CHECK_INT(dz_db_open_path(&db, a, &opts, &err), DZ_ESTATE);
    CHECK_STR(err.msg, "x has the old format 1 and is read-only; make it again with this doze");
    struct dz_db_schema reads_from_1 = schema_v2;
    reads_from_1.reads = 1;
    opts.schema = &reads_from_1;
    CHECK_INT(dz_db_open_path(&db, a, &opts, NULL), 0); /* its readers know how it differs */
    CHECK_INT(ask(db, "PRAGMA user_version"), 1);
    dz_db_closep(&db);
    opts.schema = &schema_v2;
    opts.immutable = false;
    CHECK_INT(dz_db_open_path(&db, a, &opts, NULL), 0);
    CHECK_INT(ask(db, "PRAGMA user_version"), 2);
    CHECK_INT(ask(db, "SELECT n FROM t WHERE id = 100"), 7);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    CHECK_INT(dz_db_open_path(&db, a, &opts, NULL), 0); /* once */
    CHECK_INT(ask(db, "SELECT count(*) FROM t"), 1);
    dz_db_closep(&db);
    remove_dir();
}

TEST(db_rolls_a_failed_migration_back)
{
    static const char *const bad_steps[] = {
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)",
        "ALTER TABLE t ADD COLUMN n INTEGER; INSERT INTO nowhere VALUES(1)",
    };
    static const struct dz_db_schema bad = {"test file", 0x54455354, bad_steps, 2, 0};
    struct dz_db *db = NULL;
    const char *a = make_dir();
    create(a, &schema_v1);
    expect_refusal(a, &bad, DZ_EINVAL,
                   "migrate x.doze from format 1 to 2: change x.doze: no such table: nowhere");
    CHECK_INT(dz_db_open_path(&db, a, &(struct dz_db_opts){.schema = &schema_v1}, NULL), 0);
    CHECK_INT(ask(db, "SELECT count(*) FROM pragma_table_info('t')"), 2);
    dz_db_closep(&db);
    remove_dir();
}

TEST(db_immutable_is_shared_and_never_written)
{
    struct dz_db *db = NULL, *second = NULL;
    struct dz_err err = {0};
    struct dz_db_opts opts = {.schema = &schema_v1, .immutable = true};
    const char *a = make_dir();
    create(a, &schema_v1);
    CHECK_INT(chmod(a, 0400), 0);
    CHECK_INT(dz_db_open_path(&db, a, &opts, NULL), 0);
    CHECK_INT(dz_db_open_path(&second, a, &opts, NULL), 0);
    CHECK_INT(ask(db, "SELECT count(*) FROM t"), 0);
    CHECK_INT(ask(second, "SELECT count(*) FROM t"), 0);
    CHECK_INT(dz_db_exec(db, "INSERT INTO t VALUES(1, 2)", &err), DZ_EDENIED);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    CHECK_INT(dz_db_close(second, false, NULL), 0);
    CHECK_INT(size_of(in_dir("a.db-wal")), -1);
    /* a log that has something to say is not passed over */
    write_file(in_dir("a.db-wal"), "something", 9);
    CHECK_INT(dz_db_open_path(&db, a, &opts, &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "open it for writing once"));
    remove_dir();
}

TEST(db_takes_a_file_that_left_wal_mode_back)
{
    char out[128];
    struct dz_db *db = NULL;
    const struct dz_db_opts opts = {.schema = &schema_v1};
    const char *a = make_dir();
    create(a, &schema_v1);
    CHECK_INT(run_sqlite3(a, "PRAGMA journal_mode=DELETE; INSERT INTO t VALUES(1,2)", out), 0);
    CHECK_STR(out, "delete");
    CHECK_INT(dz_db_open_path(&db, a, &opts, NULL), 0);
    CHECK_INT(dz_db_exec(db, "INSERT INTO t VALUES(2, 2)", NULL), 0);
    CHECK(dz_db_wal_pages(db) > 0);
    CHECK_INT(ask(db, "SELECT count(*) FROM t"), 2);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    CHECK_INT(run_sqlite3(a, "PRAGMA journal_mode", out), 0);
    CHECK_STR(out, "wal");
    remove_dir();
}

TEST(db_by_descriptors_empties_its_log_and_leaves_it)
{
    struct dz_db *db = NULL;
    const struct dz_db_opts opts = {.schema = &schema_v1};
    const char *a = make_dir();
    create(a, &schema_v1);
    int fd = open(a, O_RDWR | O_CLOEXEC);
    int wal = open(in_dir("a.db-wal"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(dz_db_open_fds(&db, fd, wal, &opts, NULL), 0);
    CHECK_INT(dz_db_fd(db), fd);
    CHECK_INT(dz_db_wal_fd(db), wal);
    CHECK_INT(dz_db_exec(db, "INSERT INTO t VALUES(1, 2)", NULL), 0);
    CHECK(size_of(in_dir("a.db-wal")) > 0);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    CHECK_INT(size_of(in_dir("a.db-wal")), 0);
    CHECK_INT(fcntl(fd, F_GETFD), -1); /* they were the handle's */
    CHECK_INT(fcntl(wal, F_GETFD), -1);
    remove_dir();
}

TEST(db_create_refuses_what_exists)
{
    struct dz_err err = {0};
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    const char *a = make_dir();
    CHECK_INT(dz_db_template(&schema_v1, &t, &err), 0);
    CHECK_INT(t.len, 2 * DZ_DB_PAGE_BYTES);
    CHECK_INT(dz_db_create_path(a, t.p, t.len, true, &err), 0);
    CHECK_INT(dz_db_create_path(a, t.p, t.len, true, &err), DZ_EEXIST);
    int fd = open(a, O_RDWR | O_CLOEXEC);
    CHECK_INT(dz_db_create_fd(fd, t.p, t.len, true, &err), DZ_EEXIST);
    (void)close(fd);
    CHECK_INT(size_of(a), 2 * DZ_DB_PAGE_BYTES);
    dz_buf_release(&t);
    remove_dir();
}
