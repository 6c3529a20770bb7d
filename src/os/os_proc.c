/* SPDX-License-Identifier: MIT
 *
 * os_proc.c - waiting for a process and ending it. With a reaper, the pidfd is the reaper's and the
 * status comes through its socket; without, both are the child's own.
 */
#include "os/os_proc_int.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A timeout of more than thirty years is for ever; so no sum can overflow. */
#define TIMEOUT_MAX_MS (1LL << 40)

int64_t dz_os_deadline(int64_t timeout_ms)
{
    if (timeout_ms < 0 || timeout_ms > TIMEOUT_MAX_MS)
        return -1;
    return dz_clock_mono_ms() + timeout_ms;
}

int dz_os_poll_timeout(int64_t deadline_ms)
{
    if (deadline_ms < 0)
        return -1;
    int64_t left = deadline_ms - dz_clock_mono_ms();
    if (left <= 0)
        return 0;
    return left > INT_MAX ? INT_MAX : (int)left;
}

static struct dz_os_status status_of(int wstatus)
{
    if (WIFSIGNALED(wstatus))
        return (struct dz_os_status){.exit_code = -1, .signal = WTERMSIG(wstatus)};
    return (struct dz_os_status){.exit_code = WEXITSTATUS(wstatus)};
}

static void forget(struct dz_os_proc *p)
{
    if (p->pidfd >= 0)
        (void)close(p->pidfd);
    if (p->reaper >= 0)
        (void)close(p->reaper);
    *p = (struct dz_os_proc)DZ_OS_PROC_NONE;
}

/* Collect the zombie that the pidfd stands for: 0 or an errno. */
static int collect(int pidfd, struct dz_os_status *ret_status)
{
    siginfo_t info;
    while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0)
        if (errno != EINTR)
            return errno;
    if (info.si_code == CLD_EXITED)
        *ret_status = (struct dz_os_status){.exit_code = info.si_status};
    else
        *ret_status = (struct dz_os_status){.exit_code = -1, .signal = info.si_status};
    return 0;
}

/* The reaper has ended; its last word is the child's status. */
static int last_word(int sock, struct dz_os_status *ret_status)
{
    struct os_report end;
    if (recv(sock, &end, sizeof end, MSG_DONTWAIT) != (ssize_t)sizeof end)
        return -1;
    *ret_status = status_of(end.wstatus);
    return 0;
}

static int wait_readable(int fd, int64_t deadline_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int n;
    do
        n = poll(&poll_fd, 1, dz_os_poll_timeout(deadline_ms));
    while (n < 0 && errno == EINTR);
    return n;
}

int dz_os_proc_wait(struct dz_os_proc *p, int64_t timeout_ms, struct dz_os_status *ret_status,
                    struct dz_err *err)
{
    struct dz_os_status status;
    pid_t pid = p->pid;
    assert(p->pidfd >= 0);
    int n = wait_readable(p->pidfd, dz_os_deadline(timeout_ms));
    if (n < 0)
        return dz_fail_sys(err, errno, "wait for process %d", (int)pid);
    if (n == 0)
        return dz_fail(err, DZ_ETIMEOUT, "process %d still runs after %lld ms", (int)pid,
                       (long long)timeout_ms);
    int sys = collect(p->pidfd, &status);
    bool silent = sys == 0 && p->reaper >= 0 && last_word(p->reaper, &status) < 0;
    forget(p);
    if (sys != 0)
        return dz_fail_sys(err, sys, "wait for process %d", (int)pid);
    if (silent)
        return dz_fail(err, DZ_EIO, "process %d: its supervising process was killed", (int)pid);
    *ret_status = status;
    return 0;
}

/* `request` is a signal; for a reaper also OS_REAPER_KILL. */
static int64_t tell(const struct dz_os_proc *p, int request)
{
    const unsigned char byte = (unsigned char)request;
    if (p->reaper >= 0)
        return send(p->reaper, &byte, 1, MSG_NOSIGNAL);
    if (p->session) /* nobody else waits for it, so the group is still its own */
        return kill(-p->pid, request);
    return syscall(SYS_pidfd_send_signal, p->pidfd, request, NULL, 0);
}

int dz_os_proc_signal(struct dz_os_proc *p, int sig, struct dz_err *err)
{
    assert(p->pidfd >= 0 && sig > 0 && sig < OS_REAPER_KILL);
    if (tell(p, sig) < 0 && errno != ESRCH && errno != EPIPE && errno != ECONNRESET)
        return dz_fail_sys(err, errno, "send signal %d to process %d", sig, (int)p->pid);
    return 0;
}

void dz_os_proc_kill(struct dz_os_proc *p)
{
    if (p->pidfd >= 0)
        (void)tell(p, p->reaper >= 0 ? OS_REAPER_KILL : SIGKILL);
}

void dz_os_proc_close(struct dz_os_proc *p)
{
    struct dz_os_status status;
    if (p->pidfd < 0)
        return;
    dz_os_proc_kill(p);
    if (dz_os_proc_wait(p, -1, &status, NULL) < 0)
        forget(p); /* it ended and somebody else took its status */
}
