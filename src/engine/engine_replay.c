/* SPDX-License-Identifier: MIT
 *
 * engine_replay.c - listening to a command that has ended: its record and the output
 * that the file still has.
 */
#include "engine/engine_int.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void replay_fail(struct dz_engine_watch *w, const struct dz_engine_why *why)
{
    const struct dz_engine_watch_ops *ops = w->ops;
    void *arg = w->arg;
    w->op = NULL;
    dz_engine_watch_end(w);
    ops->failed(arg, why);
}

/* --- its output ---------------------------------------------------------------------------- */

static void on_pieces(void *arg, const void *data, size_t n)
{
    struct dz_engine_watch *w = arg;
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
    dz_engine_op_took(w->op, w->ops->output ? n - used : n);
}

static void on_replayed(void *arg, const struct dz_engine_why *why, uint64_t count)
{
    struct dz_engine_watch *w = arg;
    const struct dz_engine_watch_ops *ops = w->ops;
    struct dz_engine_exit how = w->exit;
    void *to = w->arg;
    (void)count;
    struct dz_engine_why lost = {0};
    if (!why && w->lost) {
        (void)dz_why(&lost, DZ_EUNAVAIL, NULL,
                     "the command %.40s was lost with its sandbox's memory; what it printed before "
                     "is all there is",
                     dz_engine_watch_exec(w));
        lost.reason = "memory_lost";
        why = &lost;
    }
    if (why) {
        replay_fail(w, why);
        return;
    }
    w->op = NULL;
    dz_engine_watch_end(w);
    how.text = "";
    ops->ended(to, &how);
}

static const struct dz_engine_op_ops output_ops = {.data = on_pieces, .done = on_replayed};

/* --- its record ------------------------------------------------------------------------------ */

static void on_record(void *arg, const void *data, size_t n)
{
    struct dz_engine_watch *w = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_exec_row row;
    if (dz_cell_exec_row_next(&v, &row, NULL) == 1) {
        w->recorded = true;
        w->lost = strcmp(row.state, "lost") == 0;
        w->exit = (struct dz_engine_exit){
            .exit_code = row.exit_code,
            .signal = row.signal,
            .timed_out = row.timed_out,
            .text = "",
            .duration_ms = (row.ended_ns - row.started_ns) / DZ_NS_PER_MS,
            .bytes = row.output_bytes,
        };
    }
    dz_engine_op_took(w->op, n);
}

static void on_recorded(void *arg, const struct dz_engine_why *why, uint64_t count)
{
    struct dz_engine_watch *w = arg;
    struct dz_engine_why missing = {0};
    struct dz_cell_op op = {
        .type = DZ_CELL_OP_OUTPUT, .text = dz_engine_watch_exec(w), .offset = w->at};
    (void)count;
    /* Not the box that the operation began in: when that was put to sleep, it moved to another. */
    struct box *b = dz_box_find(w->e, w->sandbox_id);
    w->op = NULL;
    if (!why && !w->recorded)
        (void)dz_why(&missing, DZ_ENOENT, NULL, "there is no command %.40s in the sandbox",
                     dz_engine_watch_exec(w));
    if (!why && missing.err.code == 0) {
        assert(b && b->cell); /* the cell has just answered */
        if (w->ops->started && !w->told)
            w->ops->started(w->arg, dz_engine_watch_exec(w), 0);
        w->told = true;
        dz_op_in_box(b, &op, &output_ops, w, &w->op);
        return;
    }
    replay_fail(w, why ? why : &missing);
}

static const struct dz_engine_op_ops record_ops = {.data = on_record, .done = on_recorded};

void dz_exec_replay(struct box *b, struct dz_engine_watch *w)
{
    struct dz_cell_op op = {.type = DZ_CELL_OP_EXEC, .text = dz_engine_watch_exec(w)};
    w->e = b->e;
    (void)snprintf(w->sandbox_id, sizeof w->sandbox_id, "%s", b->id);
    dz_op_in_box(b, &op, &record_ops, w, &w->op);
}
