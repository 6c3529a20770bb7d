/* SPDX-License-Identifier: MIT
 *
 * cell_op.h - operations on the files of a sandbox, by the cell that has its file: while
 * its machine runs, and when it is file-only.
 *
 *     dz_cell_op_start(c, &(struct dz_cell_op){.type = DZ_CELL_OP_READ, .path = "/a"}, &op, err);
 *     … events OP_DATA (use it, dz_cell_op_ack()), OP_DONE, all with e.op == op …
 *
 * Nothing blocks. Several operations may be in progress. Each takes its steps between two steps of
 * the machine, so a long operation delays neither the machine nor the others. A change is
 * committed before an operation reports it. Paths begin with / and follow symbolic links.
 *
 * DZ_CELL_OP_WINDOW bytes of data may be under way in each direction. runtime/runtime_op.h reads
 * the answers.
 */
#ifndef DZ_CELL_CELL_OP_H
#define DZ_CELL_CELL_OP_H

#include "cell/cell.h"
#include "runtime/runtime_op.h"

/* Start a file operation. *ret_op, never 0, names it in events and in the functions below, until
 * OP_DONE; after that, they return DZ_ENOENT. */
DZ_NODISCARD int dz_cell_op_start(struct dz_cell *c, const struct dz_cell_op *op, uint32_t *ret_op,
                                  struct dz_err *err);
/* Send input. Returns how many bytes were taken, at most the window; 0: wait for OP_WINDOW. */
int64_t dz_cell_op_send(struct dz_cell *c, uint32_t op, const void *data, size_t size,
                        struct dz_err *err);
size_t dz_cell_op_window(const struct dz_cell *c, uint32_t op);
int dz_cell_op_end(struct dz_cell *c, uint32_t op, struct dz_err *err);
/* End it early. OP_DONE follows, with DZ_ECANCELED unless the operation was done before. */
int dz_cell_op_cancel(struct dz_cell *c, uint32_t op, struct dz_err *err);
int dz_cell_op_ack(struct dz_cell *c, uint32_t op, size_t bytes, struct dz_err *err);

#endif
