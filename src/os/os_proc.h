/* SPDX-License-Identifier: MIT
 *
 * os_proc.h - start a program, watch it by descriptor, and end it with all its descendants.
 *
 *     struct dz_os_run_opts o = {.argv = (const char *const[]){"uname", "-r", NULL},
 *                                .out_max = 4096, .timeout_ms = 2000};
 *     struct dz_os_run_result r;
 *     int rc = dz_os_run(&o, &r, err);
 *     ... r.out.p, r.status.exit_code ...
 *     dz_os_run_result_release(&r);
 *
 * A child is watched by its pidfd, not by SIGCHLD. The caller must not ignore SIGCHLD, because the
 * kernel then keeps no exit status of its children. Nothing here sleeps or uses a shell.
 *
 * A child can be started as a *tree*. Then a small process (the reaper) stands between the child
 * and us, and becomes the parent of every orphan among the child's descendants, whatever session
 * or group that is in. When the child ends, when we request it, or when we die, the reaper kills
 * all of them and only then exits. So no process that the child started is left when
 * dz_os_proc_wait returns. (A child of the same user can kill its reaper; preventing that needs a
 * jail, see os_jail.h.)
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
#define DZ_OS_CHILD_FD_MAX 255         /* the highest descriptor number in the child */
#define DZ_OS_INPUT_MAX    (64u << 20) /* bytes of dz_os_run's input */

/* How a process ended. */
struct dz_os_status {
    int exit_code; /* 0 to 255; -1 when a signal ended it */
    int signal;    /* the signal, 0 when it exited */
};

/* Our descriptor `ours` becomes the child's descriptor `child`. */
struct dz_os_fd {
    int child;
    int ours;
};

struct dz_os_spawn_opts {
    const char *const *argv;    /* ends with NULL; argv[0] without a slash is searched in PATH */
    const char *const *env;     /* ends with NULL; NULL: ours */
    const char *cwd;            /* NULL: ours. A relative argv[0] is resolved from there */
    const struct dz_os_fd *fds; /* 0, 1, 2 are inherited if not listed; all others are closed */
    size_t fd_count;
    bool session; /* start a new session (and process group), without controlling terminal */
    bool tree;    /* put a reaper above it (implies session) */
};

/* A child that was started and has not been waited for. */
struct dz_os_proc {
    pid_t pid;  /* the child's pid; with a reaper, the child is not a child of this process */
    int pidfd;  /* readable (POLLIN) when dz_os_proc_wait will not block; -1: already waited for */
    int reaper; /* socket to the reaper; -1: there is none */
    bool session; /* the child leads a session */
};
#define DZ_OS_PROC_NONE {.pidfd = -1, .reaper = -1}

/* Start a program. In the child all signals have their default action and none is blocked.
 * DZ_ENOENT: argv[0] or cwd does not exist; DZ_EDENIED: it may not be executed; DZ_EINVAL: the
 * file is not a program. After an error there is no child. The caller must wait for the child or
 * close it. */
DZ_NODISCARD int dz_os_spawn(const struct dz_os_spawn_opts *o, struct dz_os_proc *ret_proc,
                             struct dz_err *err);

int dz_os_pidfd_open(pid_t pid); /* -1 and errno */

/* Wait at most timeout_ms (< 0: without limit) until the child has ended. DZ_ETIMEOUT: it is still
 * running. After success the proc is closed. */
DZ_NODISCARD int dz_os_proc_wait(struct dz_os_proc *p, int64_t timeout_ms,
                                 struct dz_os_status *ret_status, struct dz_err *err);

/* Send a signal to the child, or to its whole group if it leads a session. A child that has just
 * ended is not an error. */
DZ_NODISCARD int dz_os_proc_signal(struct dz_os_proc *p, int sig, struct dz_err *err);

/* Send SIGKILL to the tree, else to the group, else to the child. Returns at once; call
 * dz_os_proc_wait() afterwards. */
void dz_os_proc_kill(struct dz_os_proc *p);

/* Kill the child if it still runs, wait for it, and close the descriptors. Does nothing if the proc
 * was waited for or is DZ_OS_PROC_NONE. */
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
    int64_t timeout_ms; /* end the tree after this time; <= 0: never */
    int64_t grace_ms;   /* time between SIGTERM and SIGKILL on timeout; 0: SIGKILL at once */
};

struct dz_os_run_result {
    struct dz_os_status status;
    struct dz_buf out;
    struct dz_buf err;
    bool out_truncated; /* there was more than out_max */
    bool err_truncated;
    bool timed_out; /* it was ended because of timeout_ms */
};

/* Run a program as a tree and wait for its end; its background processes are then killed. A
 * non-zero status, a signal or a timeout is a result, not an error. Errors are those of
 * dz_os_spawn, DZ_ENOMEM and DZ_EIO; after an error there is nothing to release. */
DZ_NODISCARD int dz_os_run(const struct dz_os_run_opts *o, struct dz_os_run_result *ret_result,
                           struct dz_err *err);
void dz_os_run_result_release(struct dz_os_run_result *r);

#endif
