/* SPDX-License-Identifier: MIT
 * A disk of version 1 becomes one of the present version: its records of commands, once, whole or
 * not at all. */
#include "base/buf.h"
#include "db/db.h"
#include "db/db_sim.h"
#include "tap.h"
#include "vfs/vfs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A record of version 1: this, the id with its NUL, the arguments with theirs, the host's own. */
struct spec {
    uint32_t version, flags, argc, argv_size, own_size;
    int32_t pid;
    uint64_t keep;
    int64_t cpu;
    uint64_t total;
};
_Static_assert(sizeof(struct spec) == 48, "as it was written");

static struct dz_db_schema schema_1(void)
{
    struct dz_db_schema s = dz_vfs_schema;
    s.version = 1;
    s.reads = 0;
    return s;
}

struct world {
    struct dz_db_sim *sim;
    struct dz_db *db;
};

static int open_as(struct world *w, const struct dz_db_schema *schema, bool immutable,
                   struct dz_err *err)
{
    const struct dz_db_opts opts = {.schema = schema, .label = "old", .immutable = immutable};
    return dz_db_open_disk(&w->db, dz_db_sim_disk(w->sim), &opts, err);
}

static int put(struct dz_db *db, int number, int state, const char *id, const struct spec *s)
{
    struct dz_buf b = DZ_BUF_INIT(4096);
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, "INSERT INTO exec(id,state,code,started,ended,spec)"
                                        "VALUES(?1,?2,?1+1000,?1+10,?1+20,?3)");
    dz_buf_add(&b, s, sizeof *s);
    dz_buf_add(&b, id, strlen(id) + 1);
    dz_buf_add(&b, "echo\0two words\0", s->argv_size);
    dz_buf_add(&b, "{\"own\":1}", s->own_size);
    dz_bind_int(st, 1, number);
    dz_bind_int(st, 2, state);
    dz_bind_blob(st, 3, b.p, b.len);
    int rc = dz_stmt_run(st, NULL);
    dz_buf_release(&b);
    return rc;
}

/* Three records, and three that are damaged. */
static int fill(struct dz_db *db)
{
    const struct spec whole = {.version = 1,
                               .flags = 9,
                               .argc = 2,
                               .argv_size = 15,
                               .own_size = 9,
                               .pid = 70000,
                               .keep = 262144,
                               .cpu = INT64_C(0x7a0b0c0d0e0f1011),
                               .total = UINT64_C(0x0102030405)};
    const struct spec empty = {.version = 1};
    int rc = put(db, 1, 2, "exe_one", &whole);
    rc = rc < 0 ? rc : put(db, 2, 1, "exe_two", &whole);
    rc = rc < 0 ? rc : put(db, 3, 3, "m", &empty);
    rc = rc < 0 ? rc : put(db, 5, 2, "", &empty);
    return rc < 0 ? rc
                  : dz_db_exec(db,
                               "INSERT INTO exec VALUES(6,2,0,0,0,zeroblob(40)),"
                               "(7,2,0,0,0,CAST(zeroblob(48)||'no end' AS BLOB));"
                               "INSERT INTO exec_output VALUES(1<<32,1,1,0,'said')",
                               NULL);
}

static void make_old(struct world *w, uint64_t seed)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    const struct dz_db_schema old = schema_1();
    *w = (struct world){.sim = dz_db_sim_new(seed)};
    CHECK_INT(dz_db_template(&old, &t, NULL), 0);
    CHECK_INT(dz_db_sim_load(w->sim, DZ_DB_FILE_MAIN, t.p, t.len), 0);
    dz_buf_release(&t);
    CHECK_INT(open_as(w, &old, false, NULL), 0);
    CHECK_INT(fill(w->db), 0);
    CHECK_INT(dz_db_close(w->db, false, NULL), 0);
    w->db = NULL;
}

static const char *ask(struct dz_db *db, const char *sql)
{
    static char text[512];
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, sql);
    struct dz_err err = {0};
    int rc = dz_stmt_step(st, &err);
    (void)snprintf(text, sizeof text, "%s", rc > 0 ? dz_col_text(st, 0) : err.msg);
    return text;
}

#define ROW                                                                                       \
    "number||'|'||id||'|'||state||'|'||code||'|'||started||'|'||ended||'|'||flags||'|'||pid||'|'" \
    "||cpu||'|'||kill_at||'|'||keep||'|'||printed||'|'||hex(argv)||'|'||hex(own)"
#define ARGV "6563686F0074776F20776F72647300|7B226F776E223A317D"
static const char rows[] =
    "1|exe_one|2|1001|11|21|9|70000|8794135947581001745|0|262144|4328719365|" ARGV "\n"
    "2|exe_two|1|1002|12|22|9|70000|0|8794135947581001745|262144|4328719365|" ARGV "\n"
    "3|m|3|1003|13|23|0|0|0|0|0|0||";

static void check_new(struct dz_db *db)
{
    CHECK_STR(ask(db, "PRAGMA user_version"), "2");
    CHECK_STR(
        ask(db, "SELECT group_concat(" ROW ",char(10))FROM(SELECT*FROM exec ORDER BY number)"),
        rows);
    CHECK_STR(ask(db, "SELECT data FROM exec_output"), "said");
    CHECK_STR(ask(db, "SELECT max(integrity_check)FROM pragma_integrity_check"), "ok");
    CHECK_STR(ask(db, "PRAGMA freelist_count"), "0");
}

static void check_old(struct dz_db *db)
{
    CHECK_STR(ask(db, "PRAGMA user_version"), "1");
    CHECK_STR(ask(db, "SELECT group_concat(id||':'||length(spec),' ')FROM exec"),
              "1:80 2:80 3:50 5:49 6:40 7:54");
    CHECK_STR(ask(db, "SELECT max(integrity_check)FROM pragma_integrity_check"), "ok");
}

TEST(records_of_version_1_become_columns_once)
{
    struct world w;
    make_old(&w, 1);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(open_as(&w, &dz_vfs_schema, false, NULL), 0);
        check_new(w.db);
        CHECK_INT(dz_db_exec(w.db, dz_vfs_schema_sleeper, NULL), 0);
        CHECK_STR(ask(w.db, "SELECT number FROM exec INDEXED BY exec_id WHERE id='m'"), "3");
        CHECK_INT(dz_db_close(w.db, false, NULL), 0);
    }
    const struct dz_db_schema old = schema_1();
    struct dz_err err = {0};
    CHECK_INT(open_as(&w, &old, false, &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "newer doze"));
    dz_db_sim_free(w.sim);
}

TEST(read_only_they_stay_and_are_read_as_columns)
{
    char sql[16384];
    struct world w;
    make_old(&w, 2);
    CHECK_INT(open_as(&w, &dz_vfs_schema, true, NULL), 0);
    check_old(w.db);
    (void)snprintf(sql, sizeof sql, "SELECT group_concat(" ROW ",char(10))FROM(%s)",
                   dz_vfs_exec_of_1);
    CHECK_STR(ask(w.db, sql), rows);
    CHECK_INT(dz_db_close(w.db, false, NULL), 0);
    dz_db_sim_free(w.sim);
}

TEST(a_file_without_records_gets_their_tables)
{
    struct world w;
    const struct dz_db_schema old = schema_1();
    make_old(&w, 3);
    CHECK_INT(open_as(&w, &old, false, NULL), 0);
    CHECK_INT(dz_db_exec(w.db, "DROP TABLE exec; DROP TABLE exec_output", NULL), 0);
    CHECK_INT(dz_db_close(w.db, false, NULL), 0);
    CHECK_INT(open_as(&w, &dz_vfs_schema, false, NULL), 0);
    CHECK_STR(ask(w.db, "SELECT count(own)FROM exec"), "0");
    CHECK_STR(ask(w.db, "SELECT count(data)FROM exec_output"), "0");
    CHECK_INT(dz_db_close(w.db, false, NULL), 0);
    dz_db_sim_free(w.sim);
}

/* Power fails after each change of the file in turn. */
TEST(a_crash_leaves_the_old_version_whole)
{
    int old_ones = 0;
    for (long n = 0;; n++) {
        struct world w;
        make_old(&w, 100 + (uint64_t)n);
        dz_db_sim_cut_at(w.sim, n);
        int rc = open_as(&w, &dz_vfs_schema, false, NULL);
        if (rc == 0)
            rc = dz_db_close(w.db, false, NULL);
        bool cut = dz_db_sim_is_off(w.sim);
        dz_db_sim_cut_at(w.sim, -1);
        CHECK_INT(dz_db_sim_power_on(w.sim), 0);
        const struct dz_db_schema any = schema_1();
        if (open_as(&w, &any, false, NULL) == 0) {
            old_ones++;
            check_old(w.db);
            CHECK_INT(dz_db_close(w.db, false, NULL), 0);
        }
        CHECK_INT(open_as(&w, &dz_vfs_schema, false, NULL), 0); /* and then it goes through */
        check_new(w.db);
        CHECK_INT(dz_db_close(w.db, false, NULL), 0);
        dz_db_sim_free(w.sim);
        if (!cut) {
            CHECK_INT(rc, 0);
            CHECK(n > 5 && old_ones > 1);
            return;
        }
    }
}
