/* SPDX-License-Identifier: MIT
 *
 * control_branch.h - snapshots, pauses, forks and branches.
 */
#ifndef DZ_CONTROL_CONTROL_BRANCH_H
#define DZ_CONTROL_CONTROL_BRANCH_H

#include "control/control_why.h"
#include "registry/registry_record.h"

/* The name of a snapshot, fork or reference, and how long it is kept. */
struct dz_control_handle {
    const char *name;      /* unique among the tenant's snapshots or references; NULL: none */
    int64_t expires_in_ms; /* removed after this time; 0: never */
};

/* The rows are valid during the callback. On failure, why is not NULL. */
typedef void dz_control_snap_fn(void *arg, const struct dz_snapshot_row *row,
                                const struct dz_why *why);
/* Store the sandbox as it is now, with its suspended machine, in a file of its own; the sandbox
 * keeps running. dz_control_create starts any number of sandboxes from it. */
DZ_NODISCARD int dz_control_snapshot(struct dz_control *e, struct dz_control_target target,
                                     const struct dz_control_handle *as, dz_control_snap_fn *done,
                                     void *arg, struct dz_why *why);
DZ_NODISCARD int dz_control_snapshot_get(struct dz_control *e, struct dz_control_target target,
                                         struct dz_snapshot_row *ret_row, struct dz_why *why);
DZ_NODISCARD int dz_control_snapshots(struct dz_control *e, const struct dz_control_caller *who,
                                      const char *after, size_t limit,
                                      struct dz_snapshot_rows *rows, struct dz_why *why);
/* DZ_EEXIST: a fork uses it. */
DZ_NODISCARD int dz_control_snapshot_delete(struct dz_control *e, struct dz_control_target target,
                                            struct dz_why *why);

/* The snapshot row that stands for a suspended sandbox: resuming it wakes that sandbox. */
DZ_NODISCARD int dz_control_pause(struct dz_control *e, const struct dz_instance *row,
                                  char ret_id[static DZ_ID_TEXT], struct dz_why *why);
/* Wake the sandbox of a pause snapshot, or create a sandbox from any other snapshot. */
DZ_NODISCARD int dz_control_resume(struct dz_control *e, struct dz_control_target target,
                                   const char *name, dz_sandbox_done_fn *done, void *arg,
                                   struct dz_why *why);

/* A snapshot with a label, for branches. */
typedef void dz_control_fork_fn(void *arg, const struct dz_fork_row *row, const struct dz_why *why);
DZ_NODISCARD int dz_control_fork(struct dz_control *e, struct dz_control_target target,
                                 const struct dz_control_handle *as, dz_control_fork_fn *done,
                                 void *arg, struct dz_why *why);
/* Start one branch of the sandbox as it is now; the sandbox keeps running. No fork is kept: the
 * cell writes the branch's file in its final place. The result is the branch, or the error; then
 * fork is NULL. Otherwise fork is the row that a fork would have had: it is valid during the
 * callback and names nothing that exists. */
typedef void dz_control_fork_one_fn(void *arg, const struct dz_fork_row *fork,
                                    const struct dz_sandbox_result *result);
DZ_NODISCARD int dz_control_fork_one(struct dz_control *e, struct dz_control_target target,
                                     dz_control_fork_one_fn *done, void *arg, struct dz_why *why);
DZ_NODISCARD int dz_control_forks(struct dz_control *e, const struct dz_control_caller *who,
                                  const char *after, size_t limit, struct dz_fork_rows *rows,
                                  struct dz_why *why);
/* Start one more sandbox from the fork. */
DZ_NODISCARD int dz_control_fork_attach(struct dz_control *e, struct dz_control_target target,
                                        const char *name, dz_sandbox_done_fn *done, void *arg,
                                        struct dz_why *why);
DZ_NODISCARD int dz_control_fork_delete(struct dz_control *e, struct dz_control_target target,
                                        struct dz_why *why);

#endif
