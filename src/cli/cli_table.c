/* SPDX-License-Identifier: MIT
 *
 * Tables. All cells are kept until the print, because the widest one decides
 * the width of its column; then one pass over the text writes them.
 */
#include "cli/cli_table.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

void dz_cli_table_init(struct dz_cli_table *t, const struct dz_cli_column *columns, size_t count)
{
    assert(count > 0 && count <= DZ_CLI_TABLE_COLUMNS_MAX);
    *t = (struct dz_cli_table){
        .columns = columns, .column_count = count, .cells = DZ_BUF_INIT(DZ_CLI_TABLE_MAX)};
    for (size_t i = 0; i < count; i++)
        t->width[i] = dz_cli_columns(columns[i].heading);
}

void dz_cli_table_cell(struct dz_cli_table *t, enum dz_cli_style style, struct dz_str text)
{
    size_t column = t->cell_count++ % t->column_count;
    char mark = (char)('0' + style);
    dz_buf_add(&t->cells, &mark, 1);
    size_t start = t->cells.len;
    dz_cli_escape(&t->cells, text);
    if (t->cells.err)
        return;
    size_t width = dz_cli_columns(t->cells.p + start);
    if (width > t->width[column])
        t->width[column] = width;
    dz_buf_add(&t->cells, "", 1);
}

void dz_cli_table_cellf(struct dz_cli_table *t, enum dz_cli_style style, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert(n >= 0 && (size_t)n < sizeof text);
    dz_cli_table_cell(t, style, dz_str_n(text, (size_t)n));
}

/* Print padding only before the next text, so that no line ends in blanks. */
static void print_cell(const struct dz_cli_table *t, struct dz_cli *c, size_t column,
                       enum dz_cli_style style, const char *text, int *spaces)
{
    int pad = (int)(t->width[column] - dz_cli_columns(text));
    bool right = t->columns[column].right;
    if (text[0]) {
        fprintf(c->out, "%*s%s%s%s", *spaces + (right ? pad : 0), "",
                dz_cli_sgr(c->out_color, style), text, dz_cli_sgr_end(c->out_color, style));
        *spaces = right ? 0 : pad;
    } else {
        *spaces += pad;
    }
    *spaces += 2;
    if (column + 1 == t->column_count) {
        fputc('\n', c->out);
        *spaces = 0;
    }
}

int dz_cli_table_print(const struct dz_cli_table *t, struct dz_cli *c, struct dz_err *err)
{
    int spaces = 0;
    assert(t->cell_count % t->column_count == 0);
    if (t->cells.err)
        return dz_fail(err, t->cells.err, "%s: print a table of %zu cells: %s", c->command->name,
                       t->cell_count, dz_err_text(t->cells.err));
    if (!c->quiet)
        for (size_t i = 0; i < t->column_count; i++)
            print_cell(t, c, i, DZ_CLI_BOLD, t->columns[i].heading, &spaces);
    const char *p = t->cells.p;
    for (size_t i = 0; i < t->cell_count; i++) {
        print_cell(t, c, i % t->column_count, (enum dz_cli_style)(p[0] - '0'), p + 1, &spaces);
        p += strlen(p) + 1;
    }
    return 0;
}

void dz_cli_table_release(struct dz_cli_table *t)
{
    dz_buf_release(&t->cells);
}
