/* SPDX-License-Identifier: MIT
 *
 * cell_runtime.c - the table that makes cells of a pool a runtime of the daemon.
 */
#include "cell/cell_runtime.h"

#include "cell/cell_exec.h"
#include "cell/cell_host.h"
#include "cell/cell_op.h"
#include "cell/cell_pool.h"

static int start(void *runtime, const struct dz_cell_start *start, struct dz_cell **ret_cell,
                 struct dz_err *err)
{
    return dz_cell_pool_start(runtime, start, ret_cell, err);
}
static int start_linux(void *runtime, const struct dz_cell_start *start, struct dz_cell **ret_cell,
                       struct dz_err *err)
{
    struct dz_cell_start native = *start;
    native.native = true;
    return dz_cell_pool_start(runtime, &native, ret_cell, err);
}

static const struct dz_cell_exec_ops execs = {
    .start = dz_cell_exec,
    .input = dz_cell_exec_input,
    .input_end = dz_cell_exec_input_end,
    .room = dz_cell_exec_room,
    .signal = dz_cell_exec_signal,
    .resize = dz_cell_exec_resize,
    .attach = dz_cell_exec_attach,
    .detach = dz_cell_exec_detach,
    .ack = dz_cell_exec_ack,
};

static const struct dz_cell_file_ops files = {
    .start = dz_cell_op_start,
    .send = dz_cell_op_send,
    .end = dz_cell_op_end,
    .cancel = dz_cell_op_cancel,
    .ack = dz_cell_op_ack,
};

/* The functions that cells of both kinds share: all but the start. */
#define OF_A_POOL                                                                                  \
    .begin = dz_cell_begin, .fd = dz_cell_fd, .want = dz_cell_poll_events, .flush = dz_cell_flush, \
    .receive = dz_cell_receive, .pending = dz_cell_pending, .go = dz_cell_go,                      \
    .suspend = dz_cell_suspend, .copy = dz_cell_snapshot, .room = dz_cell_room,                    \
    .limits = dz_cell_limits, .exec = &execs, .file = &files, .net = &dz_cell_nets,                \
    .pid = dz_cell_pid, .out_of_memory = dz_cell_out_of_memory, .kill = dz_cell_kill,              \
    .free = dz_cell_free

const struct dz_cell_ops dz_cell_wasm = {.kind = "wasm", .start = start, OF_A_POOL};
const struct dz_cell_ops dz_cell_linux = {.kind = "linux", .start = start_linux, OF_A_POOL};
