/* SPDX-License-Identifier: MIT
 * Handles made before their file is known: the same as others, whatever the file is. */
#include "../lib/no_open.h"
#include "base/buf.h"
#include "base/mem.h"
#include "db/db.h"
#include "db/db_sim.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const steps[] = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB); CREATE TABLE u(a, b)",
};
/* As many changes of the schema, so the same counter, but another schema. */
static const char *const twisted_steps[] = {
    "CREATE TABLE u(a, b); CREATE TABLE t(v, id INTEGER PRIMARY KEY, more)",
};
static const char *const old_steps[] = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)",
    "CREATE TABLE u(a, b)",
};
static const struct dz_db_schema schema = {"test file", 0x54455354, steps, 1, 0};
static const struct dz_db_schema twisted = {"test file", 0x54455354, twisted_steps, 1, 0};
static const struct dz_db_schema old = {"test file", 0x54455354, old_steps, 1, 0};
static const struct dz_db_schema newer = {"test file", 0x54455354, old_steps, 2, 0};
static const struct dz_db_schema foreign = {"other file", 0x4f544852, steps, 1, 0};

static const char insert[] = "INSERT INTO t(v) VALUES(?1)";
static const char count[] = "SELECT count(*) FROM t";

struct files {
    int db, wal; /* ours: handles get copies */
};

static int nameless(void)
{
    const char *tmp = getenv("TMPDIR");
    int fd = open(tmp ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    return fd;
}

static struct files make(const struct dz_db_schema *s)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct files f = {nameless(), nameless()};
    CHECK_INT(dz_db_template(s, &t, NULL), 0);
    CHECK_INT(dz_db_create_fd(f.db, t.p, t.len, false, NULL), 0);
    dz_buf_release(&t);
    return f;
}

static void release(struct files *f)
{
    (void)close(f->db);
    (void)close(f->wal);
}

static struct dz_db *prepare(const struct dz_db_schema *s)
{
    struct dz_err err = {0};
    struct dz_db *db = NULL;
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    const struct dz_db_opts opts = {.schema = s, .label = "the file"};
    CHECK_INT(dz_db_template(s, &t, &err), 0);
    CHECK_INT(dz_db_prepare(&db, &opts, t.p, t.len, &err), 0);
    CHECK_STR(err.msg, "");
    dz_buf_release(&t);
    return db;
}

static int open_by(struct dz_db **ret_db, struct dz_db *prepared, const struct files *f,
                   struct dz_err *err)
{
    int db_fd = dup(f->db), wal_fd = dup(f->wal);
    int r = dz_db_open_prepared(ret_db, prepared, db_fd, wal_fd, err);
    if (r < 0) { /* they are ours still */
        CHECK_INT(close(db_fd), 0);
        CHECK_INT(close(wal_fd), 0);
    }
    return r;
}

static struct dz_db *open_ok(const struct files *f)
{
    struct dz_err err = {0};
    struct dz_db *db = prepare(&schema), *ready = NULL;
    (void)dz_db_stmt(db, insert);
    (void)dz_db_stmt(db, count);
    CHECK_INT(open_by(&ready, db, f, &err), 0);
    CHECK_STR(err.msg, "");
    return ready;
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

static void add(struct dz_db *db, int rows)
{
    struct dz_err err = {0};
    CHECK_INT(dz_db_begin(db, &err), 0);
    for (int i = 0; i < rows; i++) {
        struct dz_stmt *st = dz_db_stmt(db, insert);
        dz_bind_zeros(st, 1, 5000);
        CHECK_INT(dz_stmt_run(st, &err), 0);
    }
    CHECK_INT(dz_db_commit(db, &err), 0);
    CHECK_STR(err.msg, "");
}

TEST(prepared_handle_works_on_a_new_file_and_on_a_used_one)
{
    struct files f = make(&schema);
    for (int i = 0; i < 3; i++) { /* the same header all the time, other pages */
        struct dz_db *db = open_ok(&f);
        CHECK_INT(ask(db, count), i * 50);
        add(db, 50);
        CHECK_INT(ask(db, "SELECT sum(length(v)) FROM t"), (i + 1) * 250000);
        CHECK_INT(dz_db_close(db, false, NULL), 0);
    }
    struct dz_db *db = open_ok(&f);
    struct dz_stmt *st = dz_db_stmt(db, "PRAGMA integrity_check");
    CHECK_INT(dz_stmt_step(st, NULL), 1);
    CHECK_STR(dz_col_text(st, 0), "ok");
    dz_stmt_reset(st);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    release(&f);
}

TEST(prepared_handle_has_the_profile)
{
    struct files f = make(&schema);
    struct dz_db *db = open_ok(&f);
    const struct {
        const char *sql;
        int64_t want;
    } cases[] = {
        {"PRAGMA synchronous", 1},
        {"PRAGMA secure_delete", 2},
        {"PRAGMA temp_store", 2},
        {"PRAGMA cell_size_check", 0},
        {"PRAGMA cache_size", -DZ_DB_CACHE_KB},
        {"PRAGMA mmap_size", DZ_DB_MMAP_BYTES},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++)
        CHECK_INT(ask(db, cases[i].sql), cases[i].want);
    struct dz_stmt *st = dz_db_stmt(db, "PRAGMA locking_mode");
    CHECK_INT(dz_stmt_step(st, NULL), 1);
    CHECK_STR(dz_col_text(st, 0), "exclusive");
    dz_stmt_reset(st);
    st = dz_db_stmt(db, "PRAGMA journal_mode");
    CHECK_INT(dz_stmt_step(st, NULL), 1);
    CHECK_STR(dz_col_text(st, 0), "wal");
    dz_stmt_reset(st);
    add(db, 3);
    CHECK(dz_db_wal_pages(db) > 3);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    release(&f);
}

TEST(prepared_handle_takes_in_tables_that_were_added)
{
    struct files f = make(&schema);
    struct dz_db *db = open_ok(&f);
    add(db, 5);
    CHECK_INT(dz_db_exec(db, "CREATE TABLE more(x); INSERT INTO more VALUES(42)", NULL), 0);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    db = open_ok(&f);
    CHECK_INT(ask(db, count), 5);
    CHECK_INT(ask(db, "SELECT x FROM more"), 42);
    add(db, 5);
    CHECK_INT(ask(db, count), 10);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    release(&f);
}

TEST(prepared_handle_is_not_deceived_by_the_schema_s_counter)
{
    struct files f = make(&twisted);
    struct dz_db *db = open_ok(&f);
    CHECK_INT(dz_db_exec(db, "INSERT INTO t(v, id, more) VALUES(1, 2, 3)", NULL), 0);
    CHECK_INT(ask(db, count), 1);
    CHECK_INT(ask(db, "SELECT more FROM t"), 3);
    CHECK_INT(ask(db, "SELECT count(*) FROM u"), 0);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    release(&f);
}

TEST(prepared_handle_recovers_a_log_and_its_schema)
{
    struct files f = make(&schema);
    struct dz_db *db = open_ok(&f);
    add(db, 7);
    CHECK_INT(dz_db_exec(db, "CREATE TABLE more(x)", NULL), 0);
    CHECK_INT(dz_db_close(db, true, NULL), 0); /* as a crash */
    db = open_ok(&f);
    CHECK_INT(ask(db, count), 7);
    CHECK_INT(ask(db, "SELECT count(*) FROM more"), 0);
    CHECK(dz_db_wal_pages(db) > 7);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    release(&f);
}

TEST(prepared_handle_migrates_and_refuses_as_others_do)
{
    struct dz_err err = {0};
    struct files f = make(&old);
    struct dz_db *db = NULL, *prepared = prepare(&newer);
    CHECK_INT(open_by(&db, prepared, &f, &err), 0);
    CHECK_INT(ask(db, "SELECT count(*) FROM u"), 0);
    CHECK_INT(ask(db, "PRAGMA user_version"), 2);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    CHECK_INT(open_by(&db, prepare(&schema), &f, &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "newer doze"));
    release(&f);
    f = make(&foreign);
    CHECK_INT(open_by(&db, prepare(&schema), &f, &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "another kind"));
    release(&f);
    f = (struct files){nameless(), nameless()};
    CHECK_INT(open_by(&db, prepare(&schema), &f, &err), DZ_ECORRUPT);
    release(&f);
}

TEST(prepared_handle_takes_a_file_that_left_wal_mode_back)
{
    struct files f = make(&schema);
    static const char versions[2] = {1, 1};
    CHECK_INT(pwrite(f.db, versions, 2, 18), 2);
    struct dz_db *db = open_ok(&f);
    add(db, 2);
    CHECK(dz_db_wal_pages(db) > 0);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    release(&f);
}

TEST(prepared_handle_is_told_of_a_lock_and_takes_one)
{
    struct dz_err err = {0};
    struct files f = make(&schema), same = f;
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", f.db);
    same.db = open(path, O_RDWR | O_CLOEXEC); /* a description of its own, a lock of its own */
    struct dz_db *db = open_ok(&f), *second = NULL;
    CHECK(same.db >= 0);
    CHECK_INT(open_by(&second, prepare(&schema), &same, &err), DZ_EBUSY);
    CHECK(strstr(err.msg, "in use"));
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    err = (struct dz_err){0};
    CHECK_INT(open_by(&second, prepare(&schema), &same, &err), 0);
    CHECK_INT(dz_db_close(second, false, NULL), 0);
    (void)close(same.db);
    release(&f);
}

TEST(prepared_handle_that_gets_no_file_goes)
{
    struct dz_db *db = prepare(&schema);
    (void)dz_db_stmt(db, count);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
}

/* One prepared handle, used in several children, each with its own file and jailed. */
TEST(prepared_handle_can_be_inherited)
{
    struct files f[3] = {make(&schema), make(&schema), make(&twisted)};
    struct dz_db *db = prepare(&schema);
    (void)dz_db_stmt(db, insert);
    (void)fflush(stdout);
    for (int i = 0; i < 3; i++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            struct dz_db *mine = NULL;
            struct dz_err err = {0};
            if (!no_open_begin())
                _exit(77);
            dz_db_reseed();
            int r = open_by(&mine, db, &f[i], &err);
            if (r == 0 && i < 2)
                add(mine, 10 + i);
            if (r == 0)
                r = dz_db_close(mine, false, NULL);
            (void)fflush(stdout);
            _exit(r == 0 && !tap_bad ? 0 : 1);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            SKIP("no seccomp here");
        CHECK_INT(status, 0);
    }
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    for (int i = 0; i < 3; i++) {
        db = open_ok(&f[i]);
        CHECK_INT(ask(db, count), i < 2 ? 10 + i : 0);
        CHECK_INT(dz_db_close(db, false, NULL), 0);
        release(&f[i]);
    }
}

TORTURE(prepared_handle_survives_every_allocation_failure)
{
    struct dz_err err = {0};
    struct dz_db *db = NULL;
    const struct dz_db_opts opts = {.schema = &schema};
    dz_db_use_door();
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    int fd = nameless(), wal = nameless();
    if (dz_db_template(&schema, &t, &err) == 0 &&
        dz_db_create_fd(fd, t.p, t.len, false, &err) == 0 &&
        dz_db_prepare(&db, &opts, t.p, t.len, &err) == 0) {
        struct dz_db *ready = NULL;
        (void)dz_db_stmt(db, count);
        int db_fd = dup(fd), wal_fd = dup(wal);
        int r = dz_db_open_prepared(&ready, db, db_fd, wal_fd, &err);
        CHECK(r == 0 || r == DZ_ENOMEM);
        if (r == 0) {
            struct dz_stmt *st = dz_db_stmt(ready, count);
            r = dz_stmt_step(st, &err);
            CHECK(r == DZ_ENOMEM || (r == 1 && dz_col_int(st, 0) == 0));
            dz_stmt_reset(st);
            (void)dz_db_close(ready, false, NULL);
        } else {
            (void)close(db_fd);
            (void)close(wal_fd);
        }
    }
    (void)close(fd);
    (void)close(wal);
    dz_buf_release(&t);
    dz_db_shutdown();
}
