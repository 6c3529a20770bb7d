/* SPDX-License-Identifier: MIT
 *
 * cell_op_json.h - the answers of operations as JSON: the same text whether the daemon's API or
 * a command that opened the file itself asks the cell.
 *
 * A cell is not believed: records that make no sense end the data they are in, and values out of
 * their place are skipped.
 */
#ifndef DZ_CELL_CELL_OP_JSON_H
#define DZ_CELL_CELL_OP_JSON_H

#include "base/buf.h"
#include "base/json.h"
#include "cell/cell_op.h"

/* "directory", "file", "symlink", "fifo", "device" or "other", from S_IFMT bits. */
const char *dz_cell_type_name(uint32_t mode);

/* The data of LIST: each entry becomes an object in the array that json is in. */
void dz_cell_json_entries(struct dz_json *json, struct dz_cell_view *v);

/* The data of SQL: the members "columns" and "rows" of the object that json is in. */
struct dz_cell_json_rows {
    struct dz_json *json; /* the caller's */
    struct dz_buf value;  /* the value that goes on in the next record */
    int kind;             /* of that value */
    bool rows, row;       /* the columns are complete; a row is open */
};
/* Release with dz_cell_json_rows_release(). json must outlive r. */
void dz_cell_json_rows_begin(struct dz_cell_json_rows *r, struct dz_json *json);
void dz_cell_json_rows_add(struct dz_cell_json_rows *r, struct dz_cell_view *v);
/* After the last data: both arrays are closed. */
void dz_cell_json_rows_end(struct dz_cell_json_rows *r);
void dz_cell_json_rows_release(struct dz_cell_json_rows *r);

#endif
