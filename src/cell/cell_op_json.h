/* SPDX-License-Identifier: MIT
 *
 * cell_op_json.h - the answers of operations as JSON: the same text whether the daemon's API asks
 * a cell, or a command has opened the file itself.
 *
 * A cell is not trusted: an invalid record ends the data that it is in, and misplaced values are
 * skipped.
 */
#ifndef DZ_CELL_CELL_OP_JSON_H
#define DZ_CELL_CELL_OP_JSON_H

#include "base/buf.h"
#include "base/json.h"
#include "cell/cell_op.h"

/* The name of a type of file, from its S_IFMT bits: "directory", "file", "symlink", "fifo",
 * "device" or "other". */
const char *dz_cell_type_name(uint32_t mode);

/* Add an entry of a directory, as an object of the array that json is in; or all of the data of
 * LIST. */
void dz_cell_json_entry(struct dz_json *json, const struct dz_cell_stat *entry);
void dz_cell_json_entries(struct dz_json *json, struct dz_cell_view *v);

/* Add the data of SQL, as the members "columns" and "rows" of the object that json is in. */
struct dz_cell_json_rows {
    struct dz_json *json; /* the caller's */
    struct dz_buf value;  /* a value whose rest is in the next record */
    int kind;             /* the type of that value */
    bool rows, row;       /* rows: the columns are written; row: a row has begun */
};
/* Release with dz_cell_json_rows_release(). json must stay until then. */
void dz_cell_json_rows_begin(struct dz_cell_json_rows *r, struct dz_json *json);
void dz_cell_json_rows_put(struct dz_cell_json_rows *r, const struct dz_cell_value *value);
void dz_cell_json_rows_add(struct dz_cell_json_rows *r, struct dz_cell_view *v); /* several */
/* After the last data: end both arrays. */
void dz_cell_json_rows_end(struct dz_cell_json_rows *r);
void dz_cell_json_rows_release(struct dz_cell_json_rows *r);

#endif
