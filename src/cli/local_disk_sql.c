/* SPDX-License-Identifier: MIT
 *
 * `doze disk sql`: queries on a disk as the database that it is.
 *
 * Rows are printed as they arrive. Text output has one row per line, with tabs between columns;
 * bytes that are not UTF-8 are written as SQL literals (x'00ff').
 */
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "cell/cell_op_json.h"
#include "cli/cli_signal.h"
#include "cli/cli_term.h"
#include "cli/local_disk.h"

#include <inttypes.h>

enum {
    ROW_MAX = 256 << 20, /* bytes of one row, printed */
};

static void put_hex(struct dz_buf *out, const unsigned char *p, size_t n)
{
    dz_buf_adds(out, "x'");
    for (size_t i = 0; i < n; i++)
        dz_buf_addf(out, "%02x", p[i]);
    dz_buf_adds(out, "'");
}

static struct dz_str bytes_of(struct dz_stmt *st, int i)
{
    size_t n = 0;
    const char *p = dz_col_blob(st, i, &n);
    return dz_str_n(n ? p : "", n);
}

static void put_text(struct dz_buf *out, struct dz_stmt *st, int i)
{
    struct dz_str s;
    switch (dz_col_type(st, i)) {
    case DZ_DB_INT:
        dz_buf_addf(out, "%" PRId64, dz_col_int(st, i));
        break;
    case DZ_DB_REAL:
        dz_buf_addf(out, "%.17g", dz_col_real(st, i));
        break;
    case DZ_DB_TEXT:
    case DZ_DB_BLOB:
        s = bytes_of(st, i);
        if (dz_str_is_utf8(s))
            dz_cli_escape(out, s);
        else
            put_hex(out, (const unsigned char *)s.p, s.n);
        break;
    case DZ_DB_NULL:
        break;
    }
}

static int put_row(struct dz_cli *c, struct dz_stmt *st, struct dz_buf *row, struct dz_err *err)
{
    dz_buf_reset(row);
    for (int i = 0; i < dz_col_count(st); i++) {
        dz_buf_adds(row, i ? "\t" : "");
        put_text(row, st, i);
    }
    if (row->err)
        return dz_fail(err, row->err, "print a row: %s", dz_err_text(row->err));
    fprintf(c->out, "%s\n", row->p);
    return 0;
}

/* --- JSON, as `doze sql` and the API have it -------------------------------------------------- */

static int put_column(struct dz_cell_json_rows *r, struct dz_stmt *st, int i, struct dz_err *err)
{
    static const enum dz_cell_value_kind kinds[] = {[DZ_DB_INT] = DZ_CELL_INT,
                                                    [DZ_DB_REAL] = DZ_CELL_REAL,
                                                    [DZ_DB_TEXT] = DZ_CELL_TEXT,
                                                    [DZ_DB_BLOB] = DZ_CELL_BLOB,
                                                    [DZ_DB_NULL] = DZ_CELL_NULL};
    struct dz_cell_value v = {.kind = kinds[dz_col_type(st, i)]};
    struct dz_str bytes = {0};
    if (v.kind == DZ_CELL_INT)
        v.integer = dz_col_int(st, i);
    if (v.kind == DZ_CELL_REAL)
        v.real = dz_col_real(st, i);
    if (v.kind == DZ_CELL_TEXT || v.kind == DZ_CELL_BLOB)
        bytes = bytes_of(st, i);
    if (bytes.n > DZ_CELL_SQL_BYTES_MAX)
        return dz_fail(err, DZ_ELIMIT,
                       "print a row as JSON: a value has %zu bytes, more than %d; without --json "
                       "it is printed",
                       bytes.n, DZ_CELL_SQL_BYTES_MAX);
    v.data = (const uint8_t *)bytes.p;
    v.size = bytes.n;
    dz_cell_json_rows_put(r, &v);
    return 0;
}

/* Print the text collected so far: one row at a time is held. */
static int print(struct dz_cli *c, struct dz_buf *text, struct dz_err *err)
{
    if (text->err)
        return dz_fail(err, text->err, "print a row: %s", dz_err_text(text->err));
    fprintf(c->out, "%s", text->len ? text->p : "");
    dz_buf_reset(text);
    return 0;
}

static int query_json(struct dz_cli *c, struct dz_stmt *st, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(ROW_MAX);
    struct dz_cell_json_rows rows;
    struct dz_json j;
    int rc = 1;
    dz_json_init(&j, &text, false);
    dz_json_object(&j);
    dz_cell_json_rows_begin(&rows, &j);
    for (int i = 0; i < dz_col_count(st); i++) {
        const char *name = dz_col_name(st, i);
        dz_cell_json_rows_put(&rows, &(struct dz_cell_value){.kind = DZ_CELL_COLUMN,
                                                             .data = (const uint8_t *)name,
                                                             .size = strlen(name)});
    }
    while (rc > 0 && (rc = dz_stmt_step(st, err)) > 0) {
        dz_cell_json_rows_put(&rows, &(struct dz_cell_value){.kind = DZ_CELL_ROW});
        int put = 0;
        for (int i = 0; put == 0 && i < dz_col_count(st); i++)
            put = put_column(&rows, st, i, err);
        if (put == 0)
            put = print(c, &text, err);
        rc = put < 0 ? put : rc;
    }
    if (rc == 0) {
        dz_cell_json_rows_end(&rows);
        dz_json_put_bool(&j, "truncated", false);
        dz_json_end(&j);
        rc = print(c, &text, err);
        fprintf(c->out, "\n");
    }
    dz_cell_json_rows_release(&rows);
    return rc;
}

/* --- text ------------------------------------------------------------------------------------ */

static void print_heading(struct dz_cli *c, struct dz_stmt *st)
{
    DZ_AUTO(dz_buf_release) struct dz_buf line = DZ_BUF_INIT(DZ_LINE_MAX);
    for (int i = 0; i < dz_col_count(st); i++) {
        dz_buf_adds(&line, i ? "\t" : "");
        dz_cli_escape(&line, dz_str(dz_col_name(st, i)));
    }
    fprintf(c->out, "%s%s%s\n", dz_cli_sgr(c->out_color, DZ_CLI_BOLD), line.p,
            dz_cli_sgr_end(c->out_color, DZ_CLI_BOLD));
}

static int query(struct dz_cli *c, struct dz_stmt *st, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf row = DZ_BUF_INIT(ROW_MAX);
    int rc;
    if (!c->quiet && dz_col_count(st) > 0)
        print_heading(c, st);
    while ((rc = dz_stmt_step(st, err)) > 0) {
        rc = put_row(c, st, &row, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int sql(struct dz_cli *c, struct dz_err *err)
{
    struct dz_disk d;
    struct dz_stmt *st = NULL;
    const char *rest = NULL;
    bool write = dz_cli_flag(c, "write");
    int rc = dz_disk_open(c, DZ_DISK_SQL, &d, err);
    if (rc == 0 && d.image)
        rc = dz_vfs_sql_over(d.db, d.image, d.image_sha256, err);
    if (rc == 0 && !write)
        dz_db_restrict(d.db, 0);
    if (rc == 0)
        rc = dz_stmt_new(&st, d.db, c->argv[1], &rest, err);
    if (rc == 0 && rest[strspn(rest, " \t\n;")] != '\0')
        rc = dz_fail(err, DZ_EINVAL, "run the query: one statement at a time");
    if (rc == 0)
        rc = c->json ? query_json(c, st, err) : query(c, st, err);
    if (rc == DZ_EDENIED && !write)
        (void)dz_wrap(err, rc, "only reading is allowed (--write allows changes)");
    dz_stmt_free(st);
    return dz_disk_close(&d, rc, err);
}

static int sql_jail(struct dz_cli *c, struct dz_err *err)
{
    return dz_cli_flag(c, "write") ? dz_disk_jail_write(c, err) : dz_disk_jail(c, err);
}

const struct dz_cli_command dz_cmd_disk_sql = {
    .name = "disk sql",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "query a disk with SQL",
    .args = "FILE STATEMENT",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){{"write", 0, NULL,
                                               "allow a statement that changes the disk"},
                                              DZ_CLI_OPTION_IMAGE,
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "The view vfs(volume, path, content, mtime) shows the files of the disk and,\n"
            "with --image, those of the image (whose tables are image.node and so on).\n"
            "docs/format/disk.md describes the tables. Columns are separated by tabs; the\n"
            "first line names them. No other file can be attached.\n\n"
            "--write can break a disk; `doze disk check` finds damage.\n",
    .run = sql,
    .jail = sql_jail,
};
