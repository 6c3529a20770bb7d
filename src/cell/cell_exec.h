/* SPDX-License-Identifier: MIT
 *
 * cell_exec.h - commands in the machine of a cell.
 *
 *     dz_cell_go(c, err);
 *     struct dz_cell_exec x = {.id = "exe_1", .argv = …, .attach = true};
 *     dz_cell_exec(c, &x, &exec, err);
 *     … events STARTED, OUTPUT (dz_cell_exec_ack()), EXITED, all with e.exec == exec …
 *
 * All may be sent at once, without waiting for an event between them. Nothing here
 * blocks: what the socket does not take is kept (dz_cell_poll_events()), and DZ_EBUSY
 * says that too much is.
 *
 * What a command prints is one sequence of bytes, standard output and error in the
 * order in which they came; an offset counts both. The last of it is kept in the
 * file, in the transaction of the disk that is committed before any of it is sent;
 * so is how the command ended. So a command outlives its cell: it sleeps with the
 * machine, and is announced (LIVE) under a new handle when that wakes; or under one that the host
 * gave it with the start (`sleepers`). That one can be used at once, before the machine is
 * awake: what is sent reaches the command when it is. One that was not announced when UP comes is
 * over.
 *
 * A command that is not attached waits for nobody. One that is attached waits when
 * DZ_CELL_WINDOW bytes are under way: dz_cell_exec_ack() says what was used.
 */
#ifndef DZ_CELL_CELL_EXEC_H
#define DZ_CELL_CELL_EXEC_H

#include "cell/cell.h"
#include "runtime/runtime_exec.h"

/* Start a command. *ret_exec, never 0, names it in events and in the functions below, until EXITED
 * or EXEC_FAILED. EXEC_FAILED has one of these: DZ_ENOENT: no such program; DZ_EDENIED, DZ_EINVAL:
 * it cannot be run; DZ_EEXIST: the id is taken; DZ_ELIMIT; DZ_ESTATE: no such user or directory, or
 * the machine is not up. The functions below answer DZ_ENOENT for a name that is over. */
DZ_NODISCARD int dz_cell_exec(struct dz_cell *c, const struct dz_cell_exec *exec,
                              uint32_t *ret_exec, struct dz_err *err);
/* Send input. Returns how many bytes were taken, at most the window. */
int64_t dz_cell_exec_input(struct dz_cell *c, uint32_t exec, const void *data, size_t size,
                           struct dz_err *err);
size_t dz_cell_exec_window(const struct dz_cell *c, uint32_t exec);
/* The window of input of a command whose machine sleeps, as it will be after the wake. */
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
