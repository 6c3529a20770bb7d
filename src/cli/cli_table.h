/* SPDX-License-Identifier: MIT
 *
 * cli_table.h - columns of text, as wide as they need to be.
 *
 *     static const struct dz_cli_column columns[] = {{"NAME", false}, {"SIZE", true}};
 *     struct dz_cli_table t;
 *     dz_cli_table_init(&t, columns, 2);
 *     dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(name));
 *     dz_cli_table_cellf(&t, DZ_CLI_DIM, "%s", dz_cli_size(n, text));
 *     rc = dz_cli_table_print(&t, c, err);
 *     dz_cli_table_release(&t);
 *
 * Cells come row by row. They are escaped (dz_cli_escape), so a cell is one
 * line and safe for a terminal. Sticky: a failure to add shows at print. With
 * -q the headings are left out.
 */
#ifndef DZ_CLI_CLI_TABLE_H
#define DZ_CLI_CLI_TABLE_H

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/cli_term.h"

#define DZ_CLI_TABLE_COLUMNS_MAX 12
#define DZ_CLI_TABLE_MAX         (64u << 20) /* bytes of text in one table */

struct dz_cli_column {
    const char *heading;
    bool right; /* numbers: aligned to the right */
};

struct dz_cli_table {
    const struct dz_cli_column *columns;
    size_t column_count;
    size_t cell_count;
    size_t width[DZ_CLI_TABLE_COLUMNS_MAX];
    struct dz_buf cells; /* for each cell: style, text, NUL */
};

void dz_cli_table_init(struct dz_cli_table *t, const struct dz_cli_column *columns, size_t count);
void dz_cli_table_cell(struct dz_cli_table *t, enum dz_cli_style style, struct dz_str text);
DZ_PRINTF(3, 4)
void dz_cli_table_cellf(struct dz_cli_table *t, enum dz_cli_style style, const char *fmt, ...);

/* Print all rows. The last one must be complete. DZ_ENOMEM or DZ_ELIMIT when a
 * cell could not be kept; then nothing is printed. */
DZ_NODISCARD int dz_cli_table_print(const struct dz_cli_table *t, struct dz_cli *c,
                                    struct dz_err *err);
void dz_cli_table_release(struct dz_cli_table *t);

#endif
