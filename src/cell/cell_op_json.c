/* SPDX-License-Identifier: MIT
 *
 * cell_op_json.c - entries of a directory and rows of a query as JSON. A value of a query may
 * come in several records; it is gathered and written with its last one.
 */
#include "cell/cell_op_json.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *dz_cell_type_name(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "directory";
    case S_IFREG:
        return "file";
    case S_IFLNK:
        return "symlink";
    case S_IFIFO:
        return "fifo";
    case S_IFCHR:
        return "device";
    default:
        return "other";
    }
}

void dz_cell_json_entry(struct dz_json *j, const struct dz_cell_stat *st)
{
    char mode[8], time[DZ_RFC3339_TEXT];
    const char *slash = strrchr(st->path, '/');
    int64_t mtime_ms = st->mtime_ns / DZ_NS_PER_MS;
    dz_json_object(j);
    dz_json_put_strz(j, "name", slash ? slash + 1 : st->path);
    dz_json_put_strz(j, "path", st->path);
    dz_json_put_strz(j, "type", dz_cell_type_name(st->mode));
    dz_json_put_u64(j, "size", st->size);
    (void)snprintf(mode, sizeof mode, "%04o", st->mode & 07777);
    dz_json_put_strz(j, "mode", mode);
    dz_json_put_u64(j, "uid", st->uid);
    dz_json_put_u64(j, "gid", st->gid);
    dz_json_put_strz(j, "mtime", mtime_ms > 0 ? dz_rfc3339_print(mtime_ms, time) : NULL);
    dz_json_put_strz(j, "target", st->target[0] ? st->target : NULL);
    dz_json_end(j);
}

void dz_cell_json_entries(struct dz_json *j, struct dz_cell_view *v)
{
    struct dz_cell_stat st;
    while (dz_cell_stat_next(v, &st, NULL) == 1)
        dz_cell_json_entry(j, &st);
}

/* --- rows --------------------------------------------------------------------------------- */

void dz_cell_json_rows_begin(struct dz_cell_json_rows *r, struct dz_json *json)
{
    *r = (struct dz_cell_json_rows){.json = json, .value = DZ_BUF_INIT(DZ_CELL_SQL_BYTES_MAX + 1)};
    dz_json_key(json, "columns");
    dz_json_array(json);
}

void dz_cell_json_rows_release(struct dz_cell_json_rows *r)
{
    dz_buf_release(&r->value);
}

static void end_value(struct dz_cell_json_rows *r)
{
    struct dz_str bytes = dz_str_n(r->value.p, r->value.len);
    struct dz_json *j = r->json;
    if (r->kind == DZ_CELL_BLOB) {
        DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(2 * DZ_CELL_SQL_BYTES_MAX);
        dz_buf_add_base64(&text, bytes.p, bytes.n);
        dz_json_object(j);
        dz_json_put_str(j, "base64", dz_str_n(text.p, text.len));
        dz_json_end(j);
    } else {
        dz_json_str(j, bytes);
    }
    dz_buf_reset(&r->value);
}

static void begin_rows(struct dz_cell_json_rows *r)
{
    if (r->rows)
        return;
    r->rows = true;
    dz_json_end(r->json); /* the columns */
    dz_json_key(r->json, "rows");
    dz_json_array(r->json);
}

static void end_row(struct dz_cell_json_rows *r)
{
    if (r->row)
        dz_json_end(r->json);
    r->row = false;
}

void dz_cell_json_rows_put(struct dz_cell_json_rows *r, const struct dz_cell_value *value)
{
    struct dz_json *j = r->json;
    if (value->kind == DZ_CELL_ROW) {
        begin_rows(r);
        end_row(r);
        dz_json_array(j);
        r->row = true;
        return;
    }
    if (value->kind != DZ_CELL_COLUMN && !r->row)
        return; /* invalid data from the cell */
    switch (value->kind) {
    case DZ_CELL_INT:
        dz_json_i64(j, value->integer);
        break;
    case DZ_CELL_REAL:
        dz_json_double(j, value->real);
        break;
    case DZ_CELL_NULL:
        dz_json_null(j);
        break;
    case DZ_CELL_COLUMN:
    case DZ_CELL_TEXT:
    case DZ_CELL_BLOB:
        if (value->kind == DZ_CELL_COLUMN && r->rows)
            return;
        r->kind = (int)value->kind;
        dz_buf_add(&r->value, value->data, value->size);
        if (!value->more)
            end_value(r);
        break;
    case DZ_CELL_ROW:
        break;
    }
}

void dz_cell_json_rows_add(struct dz_cell_json_rows *r, struct dz_cell_view *v)
{
    struct dz_cell_value value;
    while (dz_cell_value_next(v, &value, NULL) == 1)
        dz_cell_json_rows_put(r, &value);
}

void dz_cell_json_rows_end(struct dz_cell_json_rows *r)
{
    begin_rows(r);
    end_row(r);
    dz_json_end(r->json);
}
