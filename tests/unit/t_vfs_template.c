/* SPDX-License-Identifier: MIT
 * The empty disk that is made with doze: what the schema makes, but for seed and times. */
#include "base/buf.h"
#include "base/clock.h"
#include "db/db.h"
#include "tap.h"
#include "vfs/vfs.h"

#include <sqlite3.h>
#include <string.h>

/* A disk made of bytes, by plain SQLite. */
static sqlite3 *open_bytes(const struct dz_buf *b)
{
    sqlite3 *h = NULL;
    unsigned char *copy = sqlite3_malloc64(b->len);
    CHECK_INT(sqlite3_open(":memory:", &h), SQLITE_OK);
    memcpy(copy, b->p, b->len);
    copy[18] = copy[19] = 1; /* a database in memory has no log */
    CHECK_INT(sqlite3_deserialize(h, "main", copy, (sqlite3_int64)b->len, (sqlite3_int64)b->len,
                                  SQLITE_DESERIALIZE_FREEONCLOSE),
              SQLITE_OK);
    return h;
}

static int64_t number(sqlite3 *h, const char *sql)
{
    sqlite3_stmt *st = NULL;
    CHECK_INT(sqlite3_prepare_v2(h, sql, -1, &st, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
    return n;
}

TEST(differs_from_the_schema_by_seed_and_times_only)
{
    struct dz_buf made = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX), by_sql = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    CHECK_INT(dz_vfs_template(&made, NULL), 0);
    CHECK_INT(dz_db_template(&dz_vfs_schema, &by_sql, NULL), 0);
    CHECK_INT(made.len, by_sql.len);
    int differ = 0;
    for (size_t i = 0; i < made.len && i < by_sql.len; i++)
        differ += made.p[i] != by_sql.p[i];
    CHECK(differ <= 13 * 8);
    dz_buf_release(&made);
    dz_buf_release(&by_sql);
}

TEST(every_disk_has_its_own_seed_and_the_time_of_its_making)
{
    struct dz_clock_test clock = {.real_ns = 1234567890 * DZ_NS_PER_S + 5};
    struct dz_buf a = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX), b = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    dz_clock_use(&clock);
    CHECK_INT(dz_vfs_template(&a, NULL), 0);
    CHECK_INT(dz_vfs_template(&b, NULL), 0);
    dz_clock_use(NULL);
    sqlite3 *ha = open_bytes(&a), *hb = open_bytes(&b);
    static const char seed[] = "SELECT v FROM meta WHERE k='seed'";
    CHECK(number(ha, seed) > 0 && number(hb, seed) > 0 && number(ha, seed) != number(hb, seed));
    CHECK_INT(number(ha, "SELECT count(*) FROM node WHERE atime=mtime AND mtime=ctime "
                         "AND ctime=1234567890*1000000000"),
              4);
    CHECK_INT(number(ha, "SELECT count(*)=1 AND max(integrity_check)='ok' "
                         "FROM pragma_integrity_check"),
              1);
    (void)sqlite3_close(ha);
    (void)sqlite3_close(hb);
    dz_buf_release(&a);
    dz_buf_release(&b);
}

TEST(a_sleepers_disk_has_the_table_of_memory_and_is_else_the_same)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    CHECK_INT(dz_vfs_template_sleeper(&t, NULL), 0);
    CHECK_INT(t.len, 13 * DZ_DB_PAGE_BYTES);
    sqlite3 *h = open_bytes(&t);
    CHECK_INT(number(h, "SELECT count(*) FROM mem"), 0);
    CHECK_INT(number(h, "PRAGMA user_version"), dz_vfs_schema.version);
    CHECK_INT(number(h, "SELECT max(integrity_check)='ok' FROM pragma_integrity_check"), 1);
    int64_t cookie = number(h, "PRAGMA schema_version");
    CHECK_INT(sqlite3_exec(h, dz_vfs_schema_sleeper, NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(number(h, "PRAGMA schema_version"), cookie);
    (void)sqlite3_close(h);
    dz_buf_release(&t);
}

TORTURE(no_memory)
{
    struct dz_buf a = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_err err = {0};
    int rc = dz_vfs_template(&a, &err);
    CHECK(rc == 0 || (rc == DZ_ENOMEM && strstr(err.msg, "make an empty disk")));
    dz_buf_release(&a);
}
