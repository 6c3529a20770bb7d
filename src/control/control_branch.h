/* SPDX-License-Identifier: MIT
 *
 * control_branch.h - snapshots, pauses, forks and branches.
 */
#ifndef DZ_CONTROL_CONTROL_BRANCH_H
#define DZ_CONTROL_CONTROL_BRANCH_H

#include "control/control_why.h"
#include "registry/registry_record.h"

/* What a snapshot, a fork or a reference is called, and how long it is kept. */
struct dz_control_handle {
    const char *name;      /* of a snapshot and of a reference unique of its tenant; NULL: none */
    int64_t expires_in_ms; /* it is removed then; 0: never */
};

/* Rows are the callback's for its time; why is not NULL: it failed. */
typedef void dz_control_snap_fn(void *arg, const struct dz_snapshot_row *row,
                                const struct dz_why *why);
/* The sandbox as it is now, asleep, in a file of its own; it goes on. A sandbox is made of it
 * by dz_control_create, as often as one likes. */
DZ_NODISCARD int dz_control_snapshot(struct dz_control *e, struct dz_control_target target,
                                     const struct dz_control_handle *as, dz_control_snap_fn *done,
                                     void *arg, struct dz_why *why);
DZ_NODISCARD int dz_control_snapshot_get(struct dz_control *e, struct dz_control_target target,
                                         struct dz_snapshot_row *ret_row, struct dz_why *why);
DZ_NODISCARD int dz_control_snapshots(struct dz_control *e, const struct dz_control_caller *who,
                                      const char *after, size_t limit,
                                      struct dz_snapshot_rows *rows, struct dz_why *why);
/* DZ_EEXIST: a fork stands on it. */
DZ_NODISCARD int dz_control_snapshot_delete(struct dz_control *e, struct dz_control_target target,
                                            struct dz_why *why);

/* What stands for a sandbox that was put to sleep: resuming it wakes the same one. */
DZ_NODISCARD int dz_control_pause(struct dz_control *e, const struct dz_instance *row,
                                  char ret_id[static DZ_ID_TEXT], struct dz_why *why);
/* Wake the sandbox of a pause, or make one of a snapshot. */
DZ_NODISCARD int dz_control_resume(struct dz_control *e, struct dz_control_target target,
                                   const char *name, dz_sandbox_done_fn *done, void *arg,
                                   struct dz_why *why);

/* A snapshot with a label, for branches. */
typedef void dz_control_fork_fn(void *arg, const struct dz_fork_row *row, const struct dz_why *why);
DZ_NODISCARD int dz_control_fork(struct dz_control *e, struct dz_control_target target,
                                 const struct dz_control_handle *as, dz_control_fork_fn *done,
                                 void *arg, struct dz_why *why);
/* One branch of the sandbox as it is now, which goes on, and no handle: its file is written in its
 * place at once. The result is the branch, or why there is none; then fork is NULL. Else it is what
 * a handle would have been, for the time of the callback, and names nothing that is there. */
typedef void dz_control_fork_one_fn(void *arg, const struct dz_fork_row *fork,
                                    const struct dz_sandbox_result *result);
DZ_NODISCARD int dz_control_fork_one(struct dz_control *e, struct dz_control_target target,
                                     dz_control_fork_one_fn *done, void *arg, struct dz_why *why);
DZ_NODISCARD int dz_control_forks(struct dz_control *e, const struct dz_control_caller *who,
                                  const char *after, size_t limit, struct dz_fork_rows *rows,
                                  struct dz_why *why);
/* Another branch: a sandbox that goes on from there. */
DZ_NODISCARD int dz_control_fork_attach(struct dz_control *e, struct dz_control_target target,
                                        const char *name, dz_sandbox_done_fn *done, void *arg,
                                        struct dz_why *why);
DZ_NODISCARD int dz_control_fork_delete(struct dz_control *e, struct dz_control_target target,
                                        struct dz_why *why);

#endif
