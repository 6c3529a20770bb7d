/* SPDX-License-Identifier: MIT
 *
 * control_exec.h - commands and file operations in a sandbox. sandbox_exec.h and sandbox_file.h say
 * what they are and how they continue.
 */
#ifndef DZ_CONTROL_CONTROL_EXEC_H
#define DZ_CONTROL_CONTROL_EXEC_H

#include "control/control_why.h"
#include "sandbox/sandbox_exec.h"
#include "sandbox/sandbox_file.h"

/* Check an exec request; dz_control_exec does this first. */
DZ_NODISCARD int dz_control_exec_check(const struct dz_exec_request *exec, struct dz_why *why);
/* Start a command. Wakes the sandbox if necessary. */
DZ_NODISCARD int dz_control_exec(struct dz_control *e, struct dz_control_target target,
                                 const struct dz_exec_request *exec,
                                 struct dz_exec_listener listener, struct dz_exec_watch **ret_watch,
                                 struct dz_why *why);
/* Follow an existing command: first the output that the file still has. */
DZ_NODISCARD int dz_control_exec_watch(struct dz_control *e, struct dz_control_target target,
                                       const char *exec_id, struct dz_exec_listener listener,
                                       struct dz_exec_watch **ret_watch, struct dz_why *why);
/* Send input or a signal to a command. done: the command has it. */
DZ_NODISCARD int dz_control_exec_send(struct dz_control *e, struct dz_control_target target,
                                      const struct dz_exec_send *tell, dz_sandbox_done_fn *done,
                                      void *arg, struct dz_why *why);
DZ_NODISCARD int dz_control_op(struct dz_control *e, struct dz_control_target target,
                               const struct dz_file_op_request *request, struct dz_file_op **ret_op,
                               struct dz_why *why);

#endif
