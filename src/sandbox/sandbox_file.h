/* SPDX-License-Identifier: MIT
 *
 * sandbox_file.h - operations on a sandbox's files, whether it is active or not. They do not start
 * the guest of a sleeping sandbox.
 */
#ifndef DZ_SANDBOX_SANDBOX_FILE_H
#define DZ_SANDBOX_SANDBOX_FILE_H

#include "lifecycle/lifecycle.h"
#include "runtime/runtime.h"
#include "sandbox/sandbox.h"

struct dz_cell_op; /* runtime/runtime_op.h */

struct dz_file_op;
struct dz_file_op_ops {
    /* the caller acknowledges by dz_file_op_ack */
    void (*data)(void *arg, const void *data, size_t n);
    void (*room)(void *arg); /* dz_file_op_send can take bytes again */
    void (*done)(void *arg, const struct dz_why *why, uint64_t count); /* why NULL: success */
};
struct dz_file_op_request {
    const struct dz_cell_op *op;
    bool writes; /* it may change the file: a sandbox that is frozen or has volumes is woken */
    enum dz_activity activity;
    const struct dz_file_op_ops *ops;
    void *arg;
};
DZ_NODISCARD int dz_file_op_start(struct dz_sandboxes *all, const struct dz_instance *row,
                                  const struct dz_file_op_request *request,
                                  struct dz_file_op **ret_op, struct dz_why *why);
/* An operation on a disk file that belongs to no sandbox (a volume), by a cell of its own. The
 * caller must keep others from writing to the file until over(arg), which comes before done(), and
 * also if the operation is canceled; not if this function fails. DZ_EBUSY: DZ_LONE_MAX run. */
enum {
    DZ_LONE_MAX = 64,
};
struct dz_lone_opts {
    struct dz_cell_start start;      /* the descriptors, host_user, readonly, label */
    uint64_t keep_free, limit_bytes; /* as in struct dz_cell_ops */
    void (*over)(void *arg);
    void *arg;
};
DZ_NODISCARD int dz_file_op_lone(struct dz_sandboxes *all, const struct dz_lone_opts *opts,
                                 const struct dz_file_op_request *request,
                                 struct dz_file_op **ret_op, struct dz_why *why);
/* Send bytes of a WRITE or TAR_IN. Returns how many were taken; 0: wait for room(). */
int64_t dz_file_op_send(struct dz_file_op *op, const void *data, size_t n);
void dz_file_op_end(struct dz_file_op *op); /* the caller has sent all bytes */
void dz_file_op_ack(struct dz_file_op *op, size_t n);
/* cancel: no function is called any more; NULL is fine */
void dz_file_op_cancel(struct dz_file_op *op);

#endif
