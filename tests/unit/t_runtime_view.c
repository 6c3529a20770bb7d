/* SPDX-License-Identifier: MIT
 *
 * Records as a cell may send them: whole, cut off at each byte, and with sizes that lie.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "runtime/runtime_op.h"
#include "runtime/runtime_record.h"
#include "tap.h"

#include <string.h>

/* One record of `kind`: its struct, and `tail` behind it. */
static void put(struct dz_buf *b, enum dz_op_record_kind kind, const void *fixed, size_t size,
                const void *tail, size_t tail_size)
{
    const struct dz_op_record r = {
        .kind = (uint16_t)kind, .fixed = (uint16_t)size, .size = (uint32_t)tail_size};
    dz_buf_add(b, &r, sizeof r);
    dz_buf_add(b, fixed, size);
    dz_buf_add(b, tail, tail_size);
}

static int next_of(enum dz_op_record_kind kind, struct dz_cell_view *v, struct dz_err *err)
{
    union {
        struct dz_cell_stat stat;
        struct dz_cell_change change;
        struct dz_cell_value value;
        struct dz_cell_exec_row row;
        struct dz_cell_piece piece;
        struct dz_cell_machine_stats stats;
        struct dz_cell_process process;
        struct dz_cell_usage usage;
    } any;
    switch (kind) {
    case DZ_RECORD_STAT:
        return dz_cell_stat_next(v, &any.stat, err);
    case DZ_RECORD_CHANGE:
        return dz_cell_change_next(v, &any.change, err);
    case DZ_RECORD_VALUE:
        return dz_cell_value_next(v, &any.value, err);
    case DZ_RECORD_EXEC:
        return dz_cell_exec_row_next(v, &any.row, err);
    case DZ_RECORD_PIECE:
        return dz_cell_piece_next(v, &any.piece, err);
    case DZ_RECORD_STATS:
        return dz_cell_stats_next(v, &any.stats, err);
    case DZ_RECORD_PROCESS:
        return dz_cell_process_next(v, &any.process, err);
    case DZ_RECORD_USAGE:
        return dz_cell_usage_next(v, &any.usage, err);
    }
    return DZ_EINVAL;
}

static void sample(struct dz_buf *b, enum dz_op_record_kind kind)
{
    const struct dz_record_stat stat = {.ino = 7, .mode = 0100644};
    const struct dz_record_change change = {.what = DZ_CHANGE_WRITE};
    const struct dz_record_value value = {.kind = DZ_CELL_INT, .integer = 5};
    const struct dz_record_exec row = {
        .state = 2, .code = DZ_ENDED_SIGNAL + 9, .argc = 2, .argv_size = 5, .own_size = 3};
    const struct dz_record_piece piece = {.offset = 3, .stream = 1};
    const struct dz_record_stats stats = {.up = 1};
    const struct dz_record_process process = {.pid = 3, .state = 'S'};
    switch (kind) {
    case DZ_RECORD_STAT:
        put(b, kind, &stat, sizeof stat, "/a\0to", 6);
        break;
    case DZ_RECORD_CHANGE:
        put(b, kind, &change, sizeof change, "/a", 3);
        break;
    case DZ_RECORD_VALUE:
        put(b, kind, &value, sizeof value, "", 0);
        break;
    case DZ_RECORD_EXEC:
        put(b, kind, &row, sizeof row, "e\0ls\0a\0own", 10);
        break;
    case DZ_RECORD_PIECE:
        put(b, kind, &piece, sizeof piece, "xyz", 3);
        break;
    case DZ_RECORD_STATS:
        put(b, kind, &stats, sizeof stats, "", 0);
        break;
    case DZ_RECORD_PROCESS:
        put(b, kind, &process, sizeof process, "e\0sh -c x", 10);
        break;
    case DZ_RECORD_USAGE:
        put(b, kind, &(struct dz_record_usage){.names = 1}, sizeof(struct dz_record_usage), "", 0);
        break;
    }
}

TEST(view_reads_each_kind_of_record_and_then_says_that_there_is_no_more)
{
    for (int kind = DZ_RECORD_STAT; kind <= DZ_RECORD_USAGE; kind++) {
        struct dz_buf b = DZ_BUF_INIT(4096);
        struct dz_err err = {0};
        sample(&b, (enum dz_op_record_kind)kind);
        sample(&b, (enum dz_op_record_kind)kind);
        struct dz_cell_view v = {(const uint8_t *)b.p, b.len};
        CHECK_INT(next_of((enum dz_op_record_kind)kind, &v, &err), 1);
        CHECK_INT(v.left, b.len / 2);
        CHECK_INT(next_of((enum dz_op_record_kind)kind, &v, &err), 1);
        CHECK_INT(next_of((enum dz_op_record_kind)kind, &v, &err), 0);
        dz_buf_release(&b);
    }
}

TEST(view_refuses_a_record_that_is_cut_off_or_of_another_kind)
{
    for (int kind = DZ_RECORD_STAT; kind <= DZ_RECORD_USAGE; kind++) {
        struct dz_buf b = DZ_BUF_INIT(4096);
        struct dz_err err = {0};
        sample(&b, (enum dz_op_record_kind)kind);
        for (size_t n = 1; n < b.len; n++) {
            uint8_t *cut = dz_alloc(n); /* no byte more: AddressSanitizer sees a read behind it */
            CHECK(cut != NULL);
            memcpy(cut, b.p, n);
            struct dz_cell_view v = {cut, n};
            CHECK_INT(next_of((enum dz_op_record_kind)kind, &v, &err), DZ_ECORRUPT);
            dz_free(cut);
        }
        struct dz_cell_view v = {(const uint8_t *)b.p, b.len};
        int other = kind == DZ_RECORD_STAT ? DZ_RECORD_CHANGE : DZ_RECORD_STAT;
        CHECK_INT(next_of((enum dz_op_record_kind)other, &v, &err), DZ_ECORRUPT);
        dz_buf_release(&b);
    }
}

TEST(view_refuses_strings_without_an_end_and_sizes_that_lie)
{
    struct dz_err err = {0};
    struct dz_buf b = DZ_BUF_INIT(4096);
    const struct dz_record_stat stat = {.ino = 1};
    put(&b, DZ_RECORD_STAT, &stat, sizeof stat, "/a\0t", 4); /* the target has no NUL */
    struct dz_cell_view v = {(const uint8_t *)b.p, b.len};
    CHECK_INT(next_of(DZ_RECORD_STAT, &v, &err), DZ_ECORRUPT);
    dz_buf_reset(&b);

    struct dz_record_exec row = {.state = 2, .argc = 3, .argv_size = 5, .own_size = 3};
    put(&b, DZ_RECORD_EXEC, &row, sizeof row, "e\0ls\0a\0own", 10); /* two arguments, not three */
    v = (struct dz_cell_view){(const uint8_t *)b.p, b.len};
    CHECK_INT(next_of(DZ_RECORD_EXEC, &v, &err), DZ_ECORRUPT);
    dz_buf_reset(&b);

    row = (struct dz_record_exec){.state = 2, .argv_size = UINT32_MAX, .own_size = 9};
    put(&b, DZ_RECORD_EXEC, &row, sizeof row, "e\0ls\0a\0own", 10);
    v = (struct dz_cell_view){(const uint8_t *)b.p, b.len};
    CHECK_INT(next_of(DZ_RECORD_EXEC, &v, &err), DZ_ECORRUPT);
    dz_buf_reset(&b);

    row = (struct dz_record_exec){.state = 2, .argv_size = 5, .own_size = 4};
    put(&b, DZ_RECORD_EXEC, &row, sizeof row, "e\0ls\0a\0own", 10); /* one byte is not there */
    v = (struct dz_cell_view){(const uint8_t *)b.p, b.len};
    CHECK_INT(next_of(DZ_RECORD_EXEC, &v, &err), DZ_ECORRUPT);
    dz_buf_reset(&b);

    const struct dz_record_change change = {.what = DZ_CHANGE_WRITE | DZ_CHANGE_ATTR};
    put(&b, DZ_RECORD_CHANGE, &change, sizeof change, "/a", 3);
    v = (struct dz_cell_view){(const uint8_t *)b.p, b.len};
    CHECK_INT(next_of(DZ_RECORD_CHANGE, &v, &err), DZ_ECORRUPT);
    dz_buf_release(&b);
}

TEST(view_says_how_a_command_ended)
{
    struct dz_buf b = DZ_BUF_INIT(4096);
    struct dz_cell_exec_row row;
    struct dz_err err = {0};
    sample(&b, DZ_RECORD_EXEC);
    struct dz_cell_view v = {(const uint8_t *)b.p, b.len};
    CHECK_INT(dz_cell_exec_row_next(&v, &row, &err), 1);
    CHECK_STR(row.id, "e");
    CHECK_STR(row.state, "ended");
    CHECK_INT(row.exit_code, -1);
    CHECK_INT(row.signal, 9);
    CHECK_INT(row.spec_size, 3);
    CHECK(memcmp(row.spec, "own", 3) == 0);
    dz_buf_release(&b);
}
