/* SPDX-License-Identifier: MIT
 *
 * control_exec.c - commands and file operations in the sandbox that the caller names.
 */
#include "control/control_int.h"

#include "runtime/runtime_exec.h"
#include "runtime/runtime_op.h"

#include <string.h>

int dz_control_exec_check(const struct dz_exec_request *x, struct dz_why *why)
{
    size_t words = 0, bytes = 0;
    for (; x->argv && x->argv[words]; words++)
        bytes += strlen(x->argv[words]) + 1;
    if (!x->argv == !x->shell)
        return dz_why(why, DZ_EINVAL, "cmd", "exactly one of \"cmd\" and \"shell\" is required");
    if (x->argv && (words == 0 || !x->argv[0][0]))
        return dz_why(why, DZ_EINVAL, "cmd", "cmd: must not be empty");
    if (words > DZ_EXEC_ARGS_MAX || bytes > DZ_EXEC_ARGS_BYTES ||
        (x->shell && strlen(x->shell) >= DZ_EXEC_ARGS_BYTES))
        return dz_why(why, DZ_ELIMIT, x->shell ? "shell" : "cmd", "more than %d words or %d bytes",
                      DZ_EXEC_ARGS_MAX, DZ_EXEC_ARGS_BYTES);
    if (x->cwd && x->cwd[0] != '/')
        return dz_why(why, DZ_EINVAL, "cwd", "cwd: must be an absolute path");
    if (x->input.n > DZ_EXEC_INPUT_MAX)
        return dz_why(why, DZ_ELIMIT, "stdin",
                      "stdin: must be at most %d bytes; send the rest after the start",
                      DZ_EXEC_INPUT_MAX);
    return x->env_json ? dz_control_check_env("env", x->env_json, why) : 0;
}

int dz_control_exec(struct dz_control *e, struct dz_control_target target,
                    const struct dz_exec_request *exec, struct dz_exec_listener listener,
                    struct dz_exec_watch **ret_watch, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_control_exec_check(exec, why);
    if (rc == 0)
        rc = dz_control_row(e, target, &row, why);
    if (rc == 0 && exec->main && !row.ephemeral)
        rc = dz_why(why, DZ_EINVAL, "main",
                    "main: %s is persistent, so it does not end when a command exits", row.id);
    if (rc == 0 && exec->trace && strcmp(row.kind, "linux") != 0)
        rc = dz_why(why, DZ_EINVAL, "trace",
                    "trace: shows system calls of native Linux programs, and %s is of kind %s",
                    row.id, row.kind);
    /* a command leaves a record */
    if (rc == 0)
        rc = dz_space_check(e, DZ_SPACE_OUT, why);
    return rc < 0 ? rc : dz_exec_start(e->sandboxes, &row, exec, listener, ret_watch, why);
}

int dz_control_exec_watch(struct dz_control *e, struct dz_control_target target,
                          const char *exec_id, struct dz_exec_listener listener,
                          struct dz_exec_watch **ret_watch, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_control_row(e, target, &row, why);
    return rc < 0 ? rc : dz_exec_watch(e->sandboxes, &row, exec_id, listener, ret_watch, why);
}

int dz_control_exec_send(struct dz_control *e, struct dz_control_target target,
                         const struct dz_exec_send *what, dz_sandbox_done_fn *done, void *arg,
                         struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_control_row(e, target, &row, why);
    return rc < 0 ? rc : dz_exec_send(e->sandboxes, &row, what, done, arg, why);
}

int dz_control_op(struct dz_control *e, struct dz_control_target target,
                  const struct dz_file_op_request *request, struct dz_file_op **ret_op,
                  struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_control_row(e, target, &row, why);
    return rc < 0 ? rc : dz_file_op_start(e->sandboxes, &row, request, ret_op, why);
}
