/* SPDX-License-Identifier: MIT
 *
 * kernel_limits.c - the policy profiles, and the messages when one is exceeded.
 */
#include "kernel/kernel_int.h"

#include <stdio.h>
#include <sys/wait.h>

#include "wasm/wasm.h"

#define MB  (UINT64_C(1) << 20)
#define SEC UINT64_C(1000000000)

static const struct dz_policy policies[] = {
    {
        .name = "minimal",
        .caps = DZ_CAP_DISK | DZ_CAP_PROCESS,
        .limits = {.procs = 32,
                   .files = 512,
                   .fds = 64,
                   .ptys = 0,
                   .pipe_bytes = 1 * MB,
                   .memory_bytes = 64 * MB,
                   .cpu_ns = 5 * SEC,
                   .output_bytes = 16 * MB},
    },
    {
        .name = "network",
        .caps = DZ_CAP_DISK | DZ_CAP_PROCESS | DZ_CAP_TTY | DZ_CAP_NET,
        .limits = {.procs = 128,
                   .files = 4096,
                   .fds = 256,
                   .ptys = 8,
                   .pipe_bytes = 8 * MB,
                   .memory_bytes = 128 * MB,
                   .cpu_ns = 30 * SEC,
                   .output_bytes = 256 * MB},
    },
    {
        .name = "posix",
        .caps = DZ_CAP_DISK | DZ_CAP_PROCESS | DZ_CAP_TTY,
        .limits = {.procs = 1024,
                   .files = 8192,
                   .fds = 1024,
                   .ptys = 16,
                   .pipe_bytes = 16 * MB,
                   .memory_bytes = 256 * MB,
                   .cpu_ns = 60 * SEC,
                   .output_bytes = 1024 * MB},
    },
    {
        .name = "compute",
        .caps = DZ_CAP_DISK,
        .limits = {.procs = 8,
                   .files = 256,
                   .fds = 64,
                   .ptys = 0,
                   .pipe_bytes = 0,
                   .memory_bytes = 64 * MB,
                   .cpu_ns = 5 * SEC,
                   .output_bytes = 16 * MB},
    },
};

const struct dz_policy *dz_policy_find(const char *name)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(policies); i++)
        if (strcmp(policies[i].name, name) == 0)
            return &policies[i];
    return NULL;
}

const char *dz_job_end_text(const struct dz_job *job, char *buf, size_t size)
{
    uint32_t kind = job->end - DZ_JOB_TRAPPED;
    switch ((enum dz_job_end)(job->end < DZ_JOB_TRAPPED ? job->end : DZ_JOB_TRAPPED)) {
    case DZ_JOB_RUNNING:
        (void)snprintf(buf, size, "running");
        break;
    case DZ_JOB_EXITED:
        if (WIFSIGNALED(job->status))
            (void)snprintf(buf, size, "killed by signal %d", WTERMSIG(job->status));
        else
            (void)snprintf(buf, size, "exited with %d", WEXITSTATUS(job->status));
        break;
    case DZ_JOB_LIMIT_CPU:
        (void)snprintf(buf, size, "stopped: used %.1f s of CPU, more than its limit",
                       (double)job->cpu_ns / 1e9);
        break;
    case DZ_JOB_LIMIT_OUTPUT:
        (void)snprintf(buf, size, "stopped: wrote %llu bytes, its limit is %llu",
                       (unsigned long long)job->out_bytes, (unsigned long long)job->out_limit);
        break;
    case DZ_JOB_FAILED:
        (void)snprintf(buf, size,
                       "stopped: the host could not continue it, or killed it for its memory");
        break;
    case DZ_JOB_LIMIT_MEMORY:
        (void)snprintf(buf, size, "stopped: the sandbox had no memory left");
        break;
    case DZ_JOB_TRAPPED:
        (void)snprintf(buf, size, "trap: %s",
                       kind > DZ_WASM_TRAP_NONE && kind < DZ_WASM_TRAP_COUNT
                           ? dz_wasm_trap_text((enum dz_wasm_trap_kind)kind)
                           : "uncaught exception");
        break;
    }
    return buf;
}
