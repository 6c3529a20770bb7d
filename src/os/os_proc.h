/* SPDX-License-Identifier: MIT
 *
 * os_proc.h - start a program, watch it by descriptor, end it and all it
 * started.
 *
 *     struct dz_os_run_opts o = {.argv = (const char *const[]){"uname", "-r", NULL},
 *                                .out_max = 4096, .timeout_ms = 2000};
 *     struct dz_os_run_result r;
 *     int rc = dz_os_run(&o, &r, err);
 *     ... r.out.p, r.status.exit_code ...
 *     dz_os_run_result_release(&r);
 *
 * A child is watched by its pidfd, never by SIGCHLD; but a process that ignores
 * SIGCHLD gets no status of its children, so it must not. Nothing here sleeps,
 * and no shell is involved.
 *
 * A child may be started as a *tree*. Then a small process (the reaper) stands
 * between it and us, to which every orphan among its descendants falls, in
 * whatever session or group it hid. When the child ends, when we ask for it, or
 * when we die, the reaper kills all of them, and only then ends itself: so when
 * dz_os_proc_wait returns, nothing that the child started is left. (A child of
 * the same user can kill its reaper; a jail is another module's matter.)
 */
#ifndef DZ_OS_OS_PROC_H
#define DZ_OS_OS_PROC_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DZ_OS_FDS_MAX      32          /* descriptors handed to one child */
#define DZ_OS_CHILD_FD_MAX 255         /* highest number one may have there */
#define DZ_OS_INPUT_MAX    (64u << 20) /* bytes of dz_os_run's input */

/* How a process ended. */
struct dz_os_status {
    int exit_code; /* 0 to 255; -1 when a signal ended it */
    int signal;    /* the signal, 0 when it exited */
};

/* The child's descriptor `child` shall be our descriptor `ours`. */
struct dz_os_fd {
    int child;
    int ours;
};

struct dz_os_spawn_opts {
    const char *const *argv;    /* ends with NULL; argv[0] without a slash is looked for in PATH */
    const char *const *env;     /* ends with NULL; NULL: ours */
    const char *cwd;            /* NULL: ours. A relative argv[0] is meant from there */
    const struct dz_os_fd *fds; /* 0, 1, 2 not named here stay ours; everything else is closed */
    size_t fd_count;
    bool session; /* a session (and process group) of its own: no controlling terminal */
    bool tree;    /* put a reaper above it (implies session) */
};

/* A child that was started and not waited for. */
struct dz_os_proc {
    pid_t pid;  /* the child's pid; with a reaper above it is not a child of this process */
    int pidfd;  /* readable (POLLIN) when dz_os_proc_wait will not block; -1: already waited for */
    int reaper; /* socket to the reaper; -1: there is none */
    bool session; /* the child leads a session */
};
#define DZ_OS_PROC_NONE {.pidfd = -1, .reaper = -1}

/* Start a program. In the child all signals have their default action and none
 * is blocked. DZ_ENOENT when argv[0] or cwd does not exist, DZ_EDENIED when it
 * may not be executed, DZ_EINVAL for a file that is no program; then there is
 * no child. The caller must wait for it or close it. */
DZ_NODISCARD int dz_os_spawn(const struct dz_os_spawn_opts *o, struct dz_os_proc *ret_proc,
                             struct dz_err *err);

int dz_os_pidfd_open(pid_t pid); /* -1 and errno */

/* Wait until it has ended, for at most timeout_ms (< 0: without limit). DZ_ETIMEOUT: it still runs,
 * and nothing has changed. After success the proc must not be used any more, as if closed. */
DZ_NODISCARD int dz_os_proc_wait(struct dz_os_proc *p, int64_t timeout_ms,
                                 struct dz_os_status *ret_status, struct dz_err *err);

/* Send a signal to the child, or to its whole group when it leads a session. It is no error when
 * the child has just ended. */
DZ_NODISCARD int dz_os_proc_signal(struct dz_os_proc *p, int sig, struct dz_err *err);

/* SIGKILL for all that can be reached: the tree, else the group, else the child. Returns at once;
 * wait for the end afterwards. */
void dz_os_proc_kill(struct dz_os_proc *p);

/* Kill what still runs, wait for it, and close the descriptors. Does nothing to a proc that was
 * waited for, nor to DZ_OS_PROC_NONE. */
void dz_os_proc_close(struct dz_os_proc *p);

/* --- run to the end, keeping what it prints --- */

struct dz_os_run_opts {
    const char *const *argv; /* as in dz_os_spawn_opts */
    const char *const *env;
    const char *cwd;
    const void *input; /* its standard input (a file in memory); NULL: nothing */
    size_t input_size;
    size_t out_max;     /* bytes of standard output kept; the rest is read and dropped */
    size_t err_max;     /* the same for standard error */
    bool merge;         /* standard error goes where standard output goes */
    int64_t timeout_ms; /* after so long the tree is ended; <= 0: never */
    int64_t grace_ms; /* on timeout: SIGTERM first, and SIGKILL after so long; 0: SIGKILL at once */
};

struct dz_os_run_result {
    struct dz_os_status status;
    struct dz_buf out;
    struct dz_buf err;
    bool out_truncated; /* there was more than out_max */
    bool err_truncated;
    bool timed_out; /* it was ended because its time was over */
};

/* Run a program as a tree and wait for its end; what it leaves running in the background is killed.
 * A non-zero status, a signal or a timeout is a result, not an error. Errors are those of
 * dz_os_spawn, DZ_ENOMEM and DZ_EIO; they leave nothing to release. */
DZ_NODISCARD int dz_os_run(const struct dz_os_run_opts *o, struct dz_os_run_result *ret_result,
                           struct dz_err *err);
void dz_os_run_result_release(struct dz_os_run_result *r);

#endif
