/* SPDX-License-Identifier: MIT
 *
 * machine_rows.c - see machine_rows.h.
 */
#include "machine/machine_rows.h"

#include "db/db.h"

static void bind_column(struct dz_stmt *to, int i, struct dz_stmt *from)
{
    size_t size;
    const void *p;
    switch (dz_col_type(from, i)) {
    case DZ_DB_INT:
        dz_bind_int(to, i + 1, dz_col_int(from, i));
        break;
    case DZ_DB_TEXT:
        dz_bind_text(to, i + 1, dz_col_text(from, i));
        break;
    case DZ_DB_BLOB:
        p = dz_col_blob(from, i, &size);
        dz_bind_blob(to, i + 1, p ? p : "", size);
        break;
    case DZ_DB_REAL:
    case DZ_DB_NULL:
        dz_bind_null(to, i + 1);
        break;
    }
}

int dz_machine_row_copy(struct dz_db *to, struct dz_stmt *from, const char *sql, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(to, sql);
    for (int i = 0; i < dz_col_count(from); i++)
        bind_column(st, i, from);
    return dz_stmt_run(st, err);
}

int dz_machine_rows_copy(struct dz_db *from, const char *query, struct dz_db *to, const char *sql,
                         struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(from, query);
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        rc = dz_machine_row_copy(to, st, sql, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}
