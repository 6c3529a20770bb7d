/* SPDX-License-Identifier: MIT
 *
 * `doze disk sql`: questions to a disk as the database that it is.
 *
 * Rows are printed as they come. Text output is one row a line, columns with a
 * tab between; bytes that are no UTF-8 text are written as SQL has them (x'00ff').
 */
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
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

static void put_json(struct dz_json *j, struct dz_stmt *st, int i)
{
    struct dz_str s;
    dz_json_key(j, dz_col_name(st, i));
    switch (dz_col_type(st, i)) {
    case DZ_DB_INT:
        dz_json_i64(j, dz_col_int(st, i));
        break;
    case DZ_DB_REAL:
        dz_json_double(j, dz_col_real(st, i));
        break;
    case DZ_DB_TEXT:
    case DZ_DB_BLOB:
        s = bytes_of(st, i);
        if (dz_str_is_utf8(s)) {
            dz_json_str(j, s);
        } else {
            DZ_AUTO(dz_buf_release) struct dz_buf hex = DZ_BUF_INIT(ROW_MAX);
            put_hex(&hex, (const unsigned char *)s.p, s.n);
            dz_json_str(j, dz_str_n(hex.p, hex.len));
        }
        break;
    case DZ_DB_NULL:
        dz_json_null(j);
        break;
    }
}

static int print_row(struct dz_cli *c, struct dz_stmt *st, bool first, struct dz_buf *row,
                     struct dz_err *err)
{
    struct dz_json j;
    dz_buf_reset(row);
    if (c->json) {
        dz_json_init(&j, row, false);
        dz_json_object(&j);
        for (int i = 0; i < dz_col_count(st); i++)
            put_json(&j, st, i);
        dz_json_end(&j);
    } else {
        for (int i = 0; i < dz_col_count(st); i++) {
            dz_buf_adds(row, i ? "\t" : "");
            put_text(row, st, i);
        }
    }
    if (row->err)
        return dz_fail(err, row->err, "print a row: %s", dz_err_text(row->err));
    fprintf(c->out, "%s%s%s", !c->json ? "" : first ? "[" : ",", row->p, c->json ? "" : "\n");
    return 0;
}

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
    bool first = true;
    int rc;
    if (!c->json && !c->quiet && dz_col_count(st) > 0)
        print_heading(c, st);
    while ((rc = dz_stmt_step(st, err)) > 0) {
        rc = print_row(c, st, first, &row, err);
        if (rc < 0)
            return rc;
        first = false;
    }
    if (rc == 0 && c->json)
        fprintf(c->out, "%s", first ? "[]\n" : "]\n");
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
        rc = dz_fail(err, DZ_EINVAL, "run SQL: one statement at a time");
    if (rc == 0)
        rc = query(c, st, err);
    if (rc == DZ_EDENIED && !write)
        (void)dz_wrap(err, rc, "only reading is allowed (--write allows more)");
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
            "first line names them. No other file can be attached.\n"
            "\n"
            "--write can break a disk; `doze disk check` tells.\n",
    .run = sql,
    .jail = sql_jail,
};
