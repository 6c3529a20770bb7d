/* SPDX-License-Identifier: MIT
 *
 * sandbox_replay.c - listening to a command that has ended: its record and the output
 * that the file still has.
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* --- its output ---------------------------------------------------------------------------- */

static void on_pieces(void *arg, const void *data, size_t n)
{
    struct dz_exec_watch *w = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_piece piece;
    size_t used = 0;
    while (dz_cell_piece_next(&v, &piece, NULL) == 1) {
        used += piece.size;
        if (w->ops->output)
            w->ops->output(w->arg, piece.stream == DZ_CELL_STDERR ? 2 : 1, piece.offset, piece.data,
                           piece.size);
    }
    /* What the client has to take is acknowledged by itself, the rest here. */
    dz_file_op_ack(w->op, w->ops->output ? n - used : n);
}

static void on_replayed(void *arg, const struct dz_why *why, uint64_t count)
{
    struct dz_exec_watch *w = arg;
    struct dz_why lost = {0};
    (void)count;
    w->op = NULL;
    if (!why && w->lost) {
        (void)dz_why(&lost, DZ_EUNAVAIL, NULL,
                     "the command %.40s was lost with its sandbox's memory; its output ends here",
                     dz_exec_watch_exec(w));
        lost.reason = "memory_lost";
        why = &lost;
    }
    if (why) {
        dz_exec_watch_failed(w, why);
        return;
    }
    const struct dz_exec_exit how = w->exit;
    dz_exec_watch_exited(w, &how);
}

static const struct dz_file_op_ops output_ops = {.data = on_pieces, .done = on_replayed};

/* --- its record ------------------------------------------------------------------------------ */

static void on_record(void *arg, const void *data, size_t n)
{
    struct dz_exec_watch *w = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_exec_row row;
    if (dz_cell_exec_row_next(&v, &row, NULL) == 1) {
        w->recorded = true;
        w->lost = strcmp(row.state, "lost") == 0;
        w->exit = (struct dz_exec_exit){
            .exit_code = row.exit_code,
            .signal = row.signal,
            .timed_out = row.timed_out,
            .text = "",
            .duration_ms = (row.ended_ns - row.started_ns) / DZ_NS_PER_MS,
            .bytes = row.output_bytes,
        };
    }
    dz_file_op_ack(w->op, n);
}

static void read_file(struct dz_exec_watch *w, const struct dz_cell_op *op,
                      const struct dz_file_op_ops *ops)
{
    const struct dz_file_op_request request = {.op = op, .ops = ops, .arg = w};
    struct dz_why why = {0};
    if (dz_file_op_on(w->all, w->sandbox_id, &request, &w->op, &why) < 0)
        dz_exec_watch_failed(w, &why);
}

static void on_recorded(void *arg, const struct dz_why *why, uint64_t count)
{
    struct dz_exec_watch *w = arg;
    struct dz_why missing = {0};
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_OUTPUT, .text = dz_exec_watch_exec(w), .offset = w->at};
    (void)count;
    w->op = NULL;
    if (!why && !w->recorded) {
        (void)dz_why(&missing, DZ_ENOENT, NULL, "there is no command %.40s in the sandbox",
                     dz_exec_watch_exec(w));
        why = &missing;
    }
    if (why) {
        dz_exec_watch_failed(w, why);
        return;
    }
    bool first = !w->started_reported;
    w->started_reported = true;
    read_file(w, &op, &output_ops); /* what comes of it comes later */
    if (w->ops->started && first)
        w->ops->started(w->arg, dz_exec_watch_exec(w), 0); /* may end the watch */
}

static const struct dz_file_op_ops record_ops = {.data = on_record, .done = on_recorded};

void dz_exec_replay(struct dz_exec_watch *w, const char *sandbox_id)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_EXEC, .text = dz_exec_watch_exec(w)};
    (void)snprintf(w->sandbox_id, sizeof w->sandbox_id, "%s", sandbox_id);
    read_file(w, &op, &record_ops);
}
