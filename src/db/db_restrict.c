/* SPDX-License-Identifier: MIT
 *
 * db_restrict.c - restrict a handle to SQL from outside, and attach an immutable database to it.
 *
 * SQLite calls its authorizer while it compiles a statement, and its progress handler while it runs
 * one. Everything that is not listed here is refused.
 */
#include "db/db_int.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    OPS_PER_CALL = 1000,
};

/* Pragmas that only read, as long as they get no value to set. */
static const struct {
    const char *name;
    bool takes_name; /* the argument names a table or an index */
} telling_pragmas[] = {
    {"table_info", true}, {"table_xinfo", true}, {"table_list", true},    {"index_info", true},
    {"index_list", true}, {"index_xinfo", true}, {"page_count", false},   {"freelist_count", false},
    {"page_size", false}, {"encoding", false},   {"user_version", false}, {"application_id", false},
};

static const char *const refused_functions[] = {"load_extension", "fts3_tokenizer"};

static int pragma_verdict(const char *name, const char *value)
{
    for (size_t i = 0; name && i < DZ_ARRAY_LEN(telling_pragmas); i++)
        if (sqlite3_stricmp(name, telling_pragmas[i].name) == 0)
            return !value || telling_pragmas[i].takes_name ? SQLITE_OK : SQLITE_DENY;
    return SQLITE_DENY;
}

static int function_verdict(const char *name)
{
    for (size_t i = 0; name && i < DZ_ARRAY_LEN(refused_functions); i++)
        if (sqlite3_stricmp(name, refused_functions[i]) == 0)
            return SQLITE_DENY;
    return SQLITE_OK;
}

static int authorize(void *ctx, int action, const char *a, const char *b, const char *database,
                     const char *inside)
{
    (void)ctx;
    (void)database;
    (void)inside;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return function_verdict(b);
    case SQLITE_PRAGMA:
        return pragma_verdict(a, b);
    default:
        return SQLITE_DENY;
    }
}

static int count_ops(void *ctx)
{
    struct dz_db *db = ctx;
    db->ops_left -= OPS_PER_CALL;
    db->out_of_ops = db->ops_left < 0;
    return db->out_of_ops;
}

void dz_db_restrict(struct dz_db *db, int64_t max_ops)
{
    db->restricted = true;
    (void)sqlite3_db_config(db->h, SQLITE_DBCONFIG_ENABLE_VIEW, 1, NULL);
    db->out_of_ops = false;
    db->ops_left = max_ops;
    (void)sqlite3_set_authorizer(db->h, authorize, db);
    sqlite3_progress_handler(db->h, OPS_PER_CALL, max_ops > 0 ? count_ops : NULL, db);
}

void dz_db_unrestrict(struct dz_db *db)
{
    db->restricted = db->out_of_ops = false;
    (void)sqlite3_db_config(db->h, SQLITE_DBCONFIG_ENABLE_VIEW, db->views, NULL);
    (void)sqlite3_set_authorizer(db->h, NULL, NULL);
    sqlite3_progress_handler(db->h, 0, NULL, NULL);
}

int dz_db_attach(struct dz_db *db, const struct dz_db *below, const char *name, struct dz_err *err)
{
    char sql[2 * DB_NAME_MAX + 32], file[DB_NAME_MAX];
    assert(below->disk->immutable && strlen(name) < DB_NAME_MAX);
    dz_db_vfs_name(below->disk, file);
    (void)snprintf(sql, sizeof sql, "ATTACH '%s' AS \"%s\"", file, name);
    (void)sqlite3_limit(db->h, SQLITE_LIMIT_ATTACHED, 1);
    int rc = sqlite3_exec(db->h, sql, NULL, NULL, NULL);
    (void)sqlite3_limit(db->h, SQLITE_LIMIT_ATTACHED, 0);
    return rc == SQLITE_OK ? 0 : dz_db_fail(db, rc, err, "attach another database to");
}
