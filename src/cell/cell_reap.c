/* SPDX-License-Identifier: MIT
 *
 * cell_reap.c - end and reap children without blocking.
 *
 * A cell that was taken over may send its last event and not exit. So each wait for a child has a
 * deadline: when its promised time is over, the child is killed. A reaper holds a pidfd for each
 * child in an epoll set, beside a timer for the next deadline: the owner of that set runs the
 * reaper when the set is readable, and never blocks.
 */
#include "cell/cell_reap.h"

#include "base/clock.h"
#include "base/fd.h"
#include "cell/cell_int.h"
#include "cell/cell_users.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    DYING_MAX = 1 << 16,
    KILLED_MS = 10000, /* a process that still exists this long after SIGKILL hangs in the kernel */
    BORN_MS = 10000,   /* time from the request for a child to its first packet */
    RELEASE_MS = 2000,
    PID_MAX = 1 << 22, /* the kernel's limit */
    PID_WORD = 64,
};

/* --- claims of pids ---------------------------------------------------------------------- */

static _Atomic uint64_t claimed[PID_MAX / PID_WORD];

static uint64_t bit_of(pid_t pid)
{
    return UINT64_C(1) << pid % PID_WORD;
}

/* Claim the pid first: while it is claimed nobody reaps the process, so the pid stays that
 * process's while we check that it is the right one. */
static bool claim(pid_t pid, idtype_t type, id_t id)
{
    siginfo_t info;
    if (pid <= 1 || pid >= PID_MAX ||
        (atomic_fetch_or(&claimed[pid / PID_WORD], bit_of(pid)) & bit_of(pid)))
        return false;
    if (waitid(type, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
        return true;
    (void)atomic_fetch_and(&claimed[pid / PID_WORD], ~bit_of(pid));
    return false;
}

bool dz_reap_claim(pid_t pid)
{
    return claim(pid, P_PID, (id_t)pid);
}

bool dz_reap_is_claimed(pid_t pid)
{
    return pid > 0 && pid < PID_MAX && (atomic_load(&claimed[pid / PID_WORD]) & bit_of(pid));
}

bool dz_reap_claim_sender(const struct dz_sender *who)
{
    int pidfd = who->pidfd;
    bool got =
        pidfd >= 0 ? claim(who->pid, P_PIDFD, (id_t)pidfd) : claim(who->pid, P_PID, (id_t)who->pid);
    dz_fd_close(&pidfd);
    return got;
}

/* Release the claim at the moment at which the process is reaped: after that the pid may belong to
 * another child. */
static pid_t reap(pid_t pid, int *ret_status)
{
    pid_t got = waitpid(pid, ret_status, WNOHANG);
    if (got == pid && pid < PID_MAX)
        (void)atomic_fetch_and(&claimed[pid / PID_WORD], ~bit_of(pid));
    return got;
}

/* --- one child --------------------------------------------------------------------------- */

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Did the descriptor become readable within that time? Then the process has ended, and is still to
 * be reaped. */
static bool ends_within(int pidfd, int64_t ms)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int64_t end = dz_clock_boot_ns() + ms * DZ_NS_PER_MS;
    for (;;) {
        int64_t left = (end - dz_clock_boot_ns() + DZ_NS_PER_MS - 1) / DZ_NS_PER_MS;
        int n = poll(&p, 1, left > 0 ? (int)left : 0);
        if (n > 0 || (n == 0 && left <= 0))
            return n > 0;
    }
}

bool dz_reap_ended(pid_t pid)
{
    return reap(pid, NULL) != 0;
}

bool dz_reap_within(pid_t pid, int64_t ms, int *ret_status)
{
    int pidfd = open_pidfd(pid);
    int status = 0;
    pid_t got = 0;
    if (pidfd < 0 || ends_within(pidfd, ms))
        got = reap(pid, &status);
    dz_fd_close(&pidfd);
    if (got == pid && ret_status)
        *ret_status = status;
    return got != 0; /* -1: it is no longer our child */
}

int dz_reap_watch_begin(struct dz_reap_watch *w, pid_t pid, int64_t ms)
{
    const struct itimerspec late = {.it_value = {ms / 1000, ms % 1000 * DZ_NS_PER_MS}};
    struct epoll_event ev = {.events = EPOLLIN};
    w->pidfd = open_pidfd(pid);
    w->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    w->fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->pidfd >= 0 && w->timer >= 0 && w->fd >= 0 &&
        timerfd_settime(w->timer, 0, &late, NULL) == 0 &&
        epoll_ctl(w->fd, EPOLL_CTL_ADD, w->timer, &ev) == 0 &&
        epoll_ctl(w->fd, EPOLL_CTL_ADD, w->pidfd, &ev) == 0)
        return 0;
    int e = errno;
    dz_reap_watch_release(w);
    return -e;
}

void dz_reap_watch_release(struct dz_reap_watch *w)
{
    dz_fd_close(&w->fd);
    dz_fd_close(&w->pidfd);
    dz_fd_close(&w->timer);
}

int dz_reap_or_kill(pid_t pid, int64_t grace_ms)
{
    int status = 0;
    if (grace_ms > 0 && dz_reap_within(pid, grace_ms, &status))
        return status;
    (void)kill(pid, SIGKILL);
    (void)dz_reap_within(pid, KILLED_MS, &status);
    return status;
}

/* --- a reaper --------------------------------------------------------------------------- */

int dz_reaper_init(struct dz_reaper *r, int epoll, struct dz_err *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    *r = (struct dz_reaper){.epoll = epoll, .timer = -1};
    r->dying.max = DYING_MAX;
    r->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (r->timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, r->timer, &ev) < 0)
        return dz_fail_sys(err, errno, "create the timer of a reaper");
    return 0;
}

static void arm(struct dz_reaper *r)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < r->dying.n; i++)
        if (r->dying.p[i].kill_at_ns < next)
            next = r->dying.p[i].kill_at_ns;
    struct itimerspec t = {0};
    if (next < INT64_MAX)
        t.it_value = (struct timespec){next / DZ_NS_PER_S, next % DZ_NS_PER_S};
    (void)timerfd_settime(r->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

void dz_reaper_add(struct dz_reaper *r, pid_t pid, uint32_t user, int64_t grace_ms)
{
    struct epoll_event ev = {.events = EPOLLIN};
    struct dz_dying d = {.pid = pid, .kill_at_ns = INT64_MAX, .user = user};
    if (grace_ms > 0)
        d.kill_at_ns = dz_clock_boot_ns() + grace_ms * DZ_NS_PER_MS;
    else
        (void)kill(pid, SIGKILL);
    if (reap(pid, NULL) != 0) {
        dz_cell_user_release(user);
        return;
    }
    d.pidfd = open_pidfd(pid);
    if (d.pidfd >= 0)
        (void)epoll_ctl(r->epoll, EPOLL_CTL_ADD, d.pidfd, &ev);
    if (dz_vec_push(&r->dying, d) < 0) { /* no memory to remember the child: wait for it here */
        (void)dz_reap_or_kill(pid, 0);
        dz_cell_user_release(user);
        dz_fd_close(&d.pidfd);
        return;
    }
    if (grace_ms > 0)
        arm(r);
}

void dz_reaper_add_unborn(struct dz_reaper *r, int fd, uint32_t user)
{
    struct epoll_event ev = {.events = EPOLLIN};
    const struct dz_dying d = {
        .pidfd = fd, .kill_at_ns = dz_clock_boot_ns() + BORN_MS * DZ_NS_PER_MS, .user = user};
    (void)epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &ev);
    if (dz_vec_push(&r->dying, d) == 0) {
        arm(r);
        return;
    }
    (void)close(fd); /* the child finds its socket closed, and exits */
    dz_cell_user_release(user);
}

/* Wait for the first packet of the process, which tells its pid. False: the process was never
 * forked, or the packet is late. */
static bool await_birth(struct dz_reaper *r, struct dz_dying *d, int64_t now)
{
    struct epoll_event ev = {.events = EPOLLIN};
    struct dz_sender who;
    int rc = dz_frame_sender(d->pidfd, &who);
    if (rc == 0)
        return d->kill_at_ns > now;
    if (rc < 0 || !dz_reap_claim_sender(&who))
        return false;
    const pid_t pid = who.pid;
    dz_fd_close(&d->pidfd);
    *d = (struct dz_dying){
        .pid = pid, .pidfd = open_pidfd(pid), .kill_at_ns = INT64_MAX, .user = d->user};
    if (d->pidfd >= 0)
        (void)epoll_ctl(r->epoll, EPOLL_CTL_ADD, d->pidfd, &ev);
    (void)kill(pid, SIGKILL);
    return true;
}

static bool is_over(struct dz_reaper *r, struct dz_dying *d, int64_t now)
{
    if (d->pid == 0 && !await_birth(r, d, now))
        return true;
    if (d->pid > 0 && d->kill_at_ns <= now) {
        (void)kill(d->pid, SIGKILL);
        d->kill_at_ns = INT64_MAX;
    }
    return d->pid > 0 && reap(d->pid, NULL) != 0;
}

void dz_reaper_run(struct dz_reaper *r)
{
    uint64_t ticks;
    int64_t now = dz_clock_boot_ns();
    bool rang = read(r->timer, &ticks, sizeof ticks) > 0;
    for (size_t i = 0; i < r->dying.n;) {
        if (!is_over(r, &r->dying.p[i], now)) {
            i++;
            continue;
        }
        dz_fd_close(&r->dying.p[i].pidfd);
        dz_cell_user_release(r->dying.p[i].user);
        r->dying.p[i] = dz_vec_pop(&r->dying); /* the order of the vector does not matter */
    }
    if (rang)
        arm(r);
}

/* How many ms are left until end_ns. */
static int64_t until(int64_t end_ns)
{
    int64_t left = (end_ns - dz_clock_boot_ns()) / DZ_NS_PER_MS;
    return left > 0 ? left : 0;
}

void dz_reaper_release(struct dz_reaper *r)
{
    const int64_t end = dz_clock_boot_ns() + RELEASE_MS * DZ_NS_PER_MS;
    for (size_t i = 0; i < r->dying.n; i++) {
        struct dz_dying *d = &r->dying.p[i];
        if (d->pid > 0)
            (void)kill(d->pid, SIGKILL);
        else if (ends_within(d->pidfd,
                             until(end))) /* the first packet has come, or the socket was closed */
            (void)await_birth(r, d, 0);
    }
    for (size_t i = 0; i < r->dying.n; i++) {
        if (r->dying.p[i].pid > 0)
            (void)dz_reap_within(r->dying.p[i].pid, KILLED_MS, NULL);
        dz_fd_close(&r->dying.p[i].pidfd);
        dz_cell_user_release(r->dying.p[i].user);
    }
    dz_vec_release(&r->dying);
    dz_fd_close(&r->timer);
}
