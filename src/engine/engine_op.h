/* SPDX-License-Identifier: MIT
 *
 * engine_op.h - what is asked of a sandbox's files, awake or asleep. A guest is not started when
 * the sandbox sleeps.
 */
#ifndef DZ_ENGINE_ENGINE_OP_H
#define DZ_ENGINE_ENGINE_OP_H

#include "engine/engine_why.h"
#include "lifecycle/lifecycle.h"

struct dz_cell_op; /* runtime/runtime_op.h */

struct dz_engine_op;
struct dz_engine_op_ops {
    void (*data)(void *arg, const void *data, size_t n); /* acknowledge by dz_engine_op_took */
    void (*room)(void *arg);                             /* dz_engine_op_send takes something */
    void (*done)(void *arg, const struct dz_engine_why *why, uint64_t count); /* NULL: well */
};
struct dz_engine_op_request {
    const struct dz_cell_op *op;
    bool writes; /* it may change something: a frozen sandbox is woken, not only its file fetched */
    enum dz_activity activity;
    const struct dz_engine_op_ops *ops;
    void *arg;
};
DZ_NODISCARD int dz_engine_op(struct dz_engine *e, struct dz_engine_target target,
                              const struct dz_engine_op_request *request,
                              struct dz_engine_op **ret_op, struct dz_engine_why *why);
/* Bytes of a WRITE or TAR_IN: how many were taken; 0: wait for room. */
int64_t dz_engine_op_send(struct dz_engine_op *op, const void *data, size_t n);
void dz_engine_op_end(struct dz_engine_op *op); /* all is sent */
void dz_engine_op_took(struct dz_engine_op *op, size_t n);
void dz_engine_op_cancel(struct dz_engine_op *op); /* nothing is told any more. NULL is fine */

#endif
