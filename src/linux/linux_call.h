/* SPDX-License-Identifier: MIT
 *
 * linux_call.h - the system calls of x86-64, answered by the kernel.
 *
 * A call is data: its number and six arguments, as the registers had them. dz_linux_call() checks
 * them, copies what they point to, and asks the kernel (dz_sys_*). A call that has to wait returns
 * DZ_LINUX_BLOCK, and the caller passes the same data again when the kernel resumes the thread: no
 * state of the call is kept here.
 *
 *     registers ──> struct dz_linux_call ── dz_linux_call() ──> answer for rax
 *                            │       guest's memory <──> struct dz_linux_mem
 *                            └── dz_linux_trace() ──> a line as strace(1) has it
 *
 * linux_table.h is the table of all calls: both functions follow it.
 */
#ifndef DZ_LINUX_LINUX_CALL_H
#define DZ_LINUX_LINUX_CALL_H

#include "base/buf.h"
#include "kernel/kernel.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DZ_LINUX_CALLS_MAX = 512,       /* numbers are below */
    DZ_LINUX_CHUNK = 1 << 20,       /* bytes of a file that are copied at once */
    DZ_LINUX_WRITE_MAX = 16 << 20,  /* most bytes of one write to anything but a file */
    DZ_LINUX_TRACE_STRING = 32,     /* bytes of a string that a trace shows */
    DZ_LINUX_TRACE_MAX = 64 * 1024, /* bytes of a line of a trace */
};

/* The memory of the calling process. Each function returns how many bytes it moved, or could move:
 * less than n if the next byte cannot be read, or written. It must accept any address and n. */
struct dz_linux_mem {
    size_t (*read)(void *arg, uint64_t at, void *to, size_t n);
    size_t (*write)(void *arg, uint64_t at, const void *from, size_t n);
    size_t (*room)(void *arg, uint64_t at, size_t n); /* how many bytes write would move */
    void *arg;
};

struct dz_linux_thread;
struct dz_linux_call {
    struct dz_linux_thread *thread; /* of the runner; NULL: none, and calls that need its memory or
                                       registers are ENOSYS */
    struct dz_kernel *kernel;
    struct dz_proc *proc; /* its current thread makes the call: dz_kernel_serve() */
    const struct dz_linux_mem *mem;
    uint64_t number;
    uint64_t arg[6];
};

enum dz_linux_next {
    DZ_LINUX_DONE,  /* *ret_result is the result: a number, or a negative errno */
    DZ_LINUX_STOP,  /* the same; then stop with DZ_RUN_READY */
    DZ_LINUX_BLOCK, /* stop with DZ_RUN_BLOCKED; repeat the call when the thread resumes */
    DZ_LINUX_EXIT,  /* stop with DZ_RUN_EXITED */
};
/* *ret_result is untouched by BLOCK and EXIT. */
enum dz_linux_next dz_linux_call(const struct dz_linux_call *c, int64_t *ret_result);

/* The name of a call; NULL: there is none. */
const char *dz_linux_call_name(uint64_t number);

/* The part of a call's line. A call that waits is shown in two parts, because other lines come
 * between. */
enum dz_linux_part {
    DZ_LINUX_WHOLE,
    DZ_LINUX_BEGUN, /* read(0,  <unfinished ...>: the arguments before the first that it may write
                     */
    DZ_LINUX_ENDED, /* <... read resumed>"x", 1) = 1 */
};

/* Append a line, without its end, that shows a call and its result as strace does. Call it after
 * the call, because it reads the buffers that the call wrote. DZ_LINUX_BLOCK and EXIT show "=
 * ?". */
void dz_linux_trace(const struct dz_linux_call *c, enum dz_linux_part part, enum dz_linux_next next,
                    int64_t result, struct dz_buf *to);
/* A signal whose handler is started: --- SIGCHLD {si_signo=SIGCHLD, ...} ---, or its name alone. */
void dz_linux_trace_signal(const struct dz_siginfo *info, struct dz_buf *to);
void dz_linux_trace_signo(int signo, struct dz_buf *to);

#endif
