/* SPDX-License-Identifier: MIT
 *
 * cell_exec.h - commands in the machine of a cell.
 *
 *     dz_cell_go(c, err);
 *     struct dz_cell_exec x = {.id = "exe_1", .argv = …, .attach = true};
 *     dz_cell_exec(c, &x, &exec, err);
 *     … events STARTED, OUTPUT (dz_cell_exec_ack()), EXITED, all with e.exec == exec …
 *
 * The calls need not wait for events between them. None of them blocks: bytes for which the socket
 * has no room are queued (dz_cell_poll_events()); DZ_EBUSY: too many bytes are queued.
 *
 * The output of a command is one sequence of bytes, standard output and error in the order in which
 * they came; an offset counts both. The newest part of it is kept in the file, and so is how the
 * command ended; the transaction that stores them is committed before any of it is sent. So a
 * command outlives its cell: it sleeps with the machine. When the machine wakes, the cell announces
 * the command (LIVE) under a new handle, or under the handle that the host gave it with the start
 * (`sleepers`). Such a handle can be used before the machine is awake; frames sent to it reach the
 * command after the wake. A sleeper that was not announced before UP has ended.
 *
 * A detached command never waits for its host. An attached one waits while DZ_CELL_WINDOW bytes of
 * its output are not acknowledged (dz_cell_exec_ack()).
 */
#ifndef DZ_CELL_CELL_EXEC_H
#define DZ_CELL_CELL_EXEC_H

#include "cell/cell.h"
#include "runtime/runtime_exec.h"

/* Start a command. *ret_exec, never 0, names it in events and in the functions below, until EXITED
 * or EXEC_FAILED. EXEC_FAILED has one of these: DZ_ENOENT: no such program; DZ_EDENIED, DZ_EINVAL:
 * it cannot be run; DZ_EEXIST: the id is taken; DZ_ELIMIT; DZ_ESTATE: no such user or directory,
 * or the machine is not running. The functions below return DZ_ENOENT once the command has ended.
 * */
DZ_NODISCARD int dz_cell_exec(struct dz_cell *c, const struct dz_cell_exec *exec,
                              uint32_t *ret_exec, struct dz_err *err);
/* Send input. Returns how many bytes were taken, at most the window. */
int64_t dz_cell_exec_input(struct dz_cell *c, uint32_t exec, const void *data, size_t size,
                           struct dz_err *err);
size_t dz_cell_exec_window(const struct dz_cell *c, uint32_t exec);
/* How many bytes of input a command in a sleeping machine will take after the wake. */
size_t dz_cell_exec_room(const struct dz_cell *c, uint32_t exec);
int dz_cell_exec_input_end(struct dz_cell *c, uint32_t exec, struct dz_err *err);
int dz_cell_exec_signal(struct dz_cell *c, uint32_t exec, int signo, bool all, struct dz_err *err);
int dz_cell_exec_resize(struct dz_cell *c, uint32_t exec, uint16_t rows, uint16_t cols,
                        struct dz_err *err);
/* Send the output from this offset (or DZ_CELL_UNSENT) on, or from the oldest byte that is kept. */
int dz_cell_exec_attach(struct dz_cell *c, uint32_t exec, uint64_t offset, struct dz_err *err);
int dz_cell_exec_detach(struct dz_cell *c, uint32_t exec, struct dz_err *err);
int dz_cell_exec_ack(struct dz_cell *c, uint32_t exec, size_t bytes, struct dz_err *err);

#endif
