/* SPDX-License-Identifier: MIT
 *
 * engine_exec.h - commands and file operations in a sandbox, for who asks. What they are, and what
 * is done with them afterwards, is in sandbox_exec.h and sandbox_file.h.
 */
#ifndef DZ_ENGINE_ENGINE_EXEC_H
#define DZ_ENGINE_ENGINE_EXEC_H

#include "engine/engine_why.h"
#include "sandbox/sandbox_exec.h"
#include "sandbox/sandbox_file.h"

/* Is it a sound request? What dz_engine_exec asks first. */
DZ_NODISCARD int dz_engine_exec_check(const struct dz_exec_request *exec, struct dz_why *why);
/* Start a command, waking the sandbox if it must. */
DZ_NODISCARD int dz_engine_exec(struct dz_engine *e, struct dz_engine_target target,
                                const struct dz_exec_request *exec,
                                struct dz_exec_listener listener, struct dz_exec_watch **ret_watch,
                                struct dz_why *why);
/* Listen to one that there is: output that the file still has. */
DZ_NODISCARD int dz_engine_exec_watch(struct dz_engine *e, struct dz_engine_target target,
                                      const char *exec_id, struct dz_exec_listener listener,
                                      struct dz_exec_watch **ret_watch, struct dz_why *why);
/* Tell one something. done: it has it. */
DZ_NODISCARD int dz_engine_exec_tell(struct dz_engine *e, struct dz_engine_target target,
                                     const struct dz_exec_tell *tell, dz_sandbox_done_fn *done,
                                     void *arg, struct dz_why *why);
DZ_NODISCARD int dz_engine_op(struct dz_engine *e, struct dz_engine_target target,
                              const struct dz_file_op_request *request, struct dz_file_op **ret_op,
                              struct dz_why *why);

#endif
