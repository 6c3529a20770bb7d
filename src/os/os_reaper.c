/* SPDX-License-Identifier: MIT
 *
 * os_reaper.c - the reaper: a fork of us that stands between us and a child started as a tree. It
 * is a subreaper, so each orphan among the child's descendants becomes its own child, and `while
 * (there are children) kill, wait` finds them all.
 *
 *     we ──socket── reaper ── child ── grandchildren
 *                      └───── orphans, whatever session they made
 *
 * Between fork and _exit it calls only what is safe in the child of a process
 * with threads: system calls, and posix_spawnp with everything made ready.
 *
 * Invariants:
 *   1. every signal is blocked: only SIGKILL ends it early. Ctrl-C reaches us;
 *      when that ends us, the socket's end of file tells it;
 *   2. it holds no descriptor but its own two, so pipes of the child see their
 *      end when the last real holder goes;
 *   3. a pid that it signals is an unwaited child of its own, or the group of
 *      one, so it cannot have been given to a stranger.
 * assert_alone() checks 1 and 2. The third is about the kernel's numbers: nobody can look.
 */
#include "os/os_proc_int.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where the reaper keeps its descriptors. */
enum {
    SOCKET_FD = 0,
    CHILDREN_FD = 1, /* signalfd */
    LOOKED_AT = 16,  /* descriptors that assert_alone() looks at */
};

struct reaper {
    pid_t child;
    bool child_gone;
    int wstatus;
};

/* --- the reaper's side --- */

static void report(int sock, const struct os_report *r)
{
    /* When our parent is gone, nobody needs the answer. */
    (void)!send(sock, r, sizeof *r, MSG_NOSIGNAL);
}

static void reaped(struct reaper *r, pid_t pid, int wstatus)
{
    if (pid == r->child) {
        r->child_gone = true;
        r->wstatus = wstatus;
    }
}

static void reap_zombies(struct reaper *r)
{
    int wstatus;
    pid_t pid;
    while ((pid = waitpid(-1, &wstatus, WNOHANG)) > 0)
        reaped(r, pid, wstatus);
}

/* Kill each child that /proc lists, and return how many there were. A list longer than the buffer
 * is continued when those are gone; a number that is cut off at the buffer's end is left out. */
static int kill_listed(void)
{
    char list[4096];
    int killed = 0;
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, list, sizeof list);
    (void)close(fd);
    pid_t pid = 0;
    for (ssize_t i = 0; i < n; i++) {
        if (list[i] >= '0' && list[i] <= '9') {
            pid = pid * 10 + (list[i] - '0');
        } else if (pid > 0) {
            killed += kill(pid, SIGKILL) == 0;
            pid = 0;
        }
    }
    return killed;
}

/* End every descendant. Waiting may block, because each pass has killed a process, or there is none
 * left that we may kill (a set-user-id program, for instance). */
static void kill_all(struct reaper *r)
{
    for (;;) {
        int wstatus, killed = 0;
        if (!r->child_gone)
            killed += kill(-r->child, SIGKILL) == 0;
        killed += kill_listed();
        if (killed == 0)
            break;
        pid_t pid = waitpid(-1, &wstatus, 0);
        if (pid < 0)
            break;
        reaped(r, pid, wstatus);
        reap_zombies(r);
    }
    reap_zombies(r);
}

/* Serve one request; false when everything is to end. */
static bool serve(const struct reaper *r)
{
    unsigned char request;
    ssize_t n = recv(SOCKET_FD, &request, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n != 1 || request == OS_REAPER_KILL)
        return false;
    if (!r->child_gone)
        (void)kill(-r->child, request);
    return true;
}

static void assert_alone(void)
{
    sigset_t blocked;
    int rc = sigprocmask(SIG_SETMASK, NULL, &blocked);
    assert(rc == 0 && sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGTERM));
    for (int fd = 0; fd < LOOKED_AT; fd++)
        assert((fcntl(fd, F_GETFD) >= 0) == (fd <= CHILDREN_FD));
}

static void watch(struct reaper *r)
{
    struct pollfd fds[] = {{.fd = SOCKET_FD, .events = POLLIN},
                           {.fd = CHILDREN_FD, .events = POLLIN}};
    bool go_on = true;
    assert_alone();
    while (go_on && !r->child_gone) {
        if (poll(fds, DZ_ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents) {
            struct signalfd_siginfo info;
            (void)!read(CHILDREN_FD, &info, sizeof info);
            reap_zombies(r);
        }
        if (fds[0].revents)
            go_on = serve(r);
    }
}

/* Copy a descriptor above 0 to 2, so that those can be given to others. */
static int above_standard(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* Put our two descriptors in their places and close all others. It allocates nothing, so it cannot
 * fail for want of descriptors. */
static void keep_only(int sock, int children)
{
    (void)dup2(sock, SOCKET_FD);
    (void)dup2(children, CHILDREN_FD);
    (void)syscall(SYS_close_range, CHILDREN_FD + 1, ~0u, 0);
}

static int watch_children(void)
{
    sigset_t all, child_ended;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)signal(SIGCHLD, SIG_DFL); /* if it were ignored, we would never get a status */
    (void)sigemptyset(&child_ended);
    (void)sigaddset(&child_ended, SIGCHLD);
    int fd = signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -1 : above_standard(fd);
}

static void reaper_main(const struct os_plan *plan, int sock)
{
    struct reaper r = {0};
    struct os_report start = {0};

    int children = watch_children();
    int high_sock = above_standard(sock);
    (void)prctl(PR_SET_NAME, "doze-reaper");
    bool ready = children >= 0 && high_sock >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    start.sys = ready ? dz_os_plan_spawn(plan, &r.child) : errno;
    start.pid = r.child;
    if (!ready || start.sys != 0) {
        report(sock, &start);
        _exit(1);
    }
    keep_only(high_sock, children);
    report(SOCKET_FD, &start);
    (void)!chdir("/"); /* hold no directory that someone may want to unmount */
    watch(&r);
    kill_all(&r);
    report(SOCKET_FD, &(struct os_report){.pid = r.child, .wstatus = r.wstatus});
    _exit(0);
}

/* --- our side --- */

static void abandon(pid_t reaper, int sock)
{
    (void)close(sock); /* its end of file: the reaper ends everything, then itself */
    while (waitpid(reaper, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Wait for the report that the child runs, or the errno why not. */
static int started(const struct os_plan *plan, int sock, struct os_report *ret_report,
                   struct dz_err *err)
{
    ssize_t n;
    do
        n = recv(sock, ret_report, sizeof *ret_report, MSG_WAITALL);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof *ret_report)
        return dz_fail(err, DZ_EIO, "run %s: its supervising process died at once",
                       plan->opts->argv[0]);
    if (ret_report->sys != 0)
        return dz_os_spawn_failed(plan->opts, ret_report->sys, err);
    return 0;
}

int dz_os_reaper_start(const struct os_plan *plan, struct dz_os_proc *ret_proc, struct dz_err *err)
{
    int pair[2];
    struct os_report start;
    const char *name = plan->opts->argv[0];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return dz_fail_sys(err, errno, "run %s: make a socket", name);
    pid_t reaper = fork();
    if (reaper == 0)
        reaper_main(plan, pair[1]);
    int sys = errno;
    (void)close(pair[1]);
    if (reaper < 0) {
        (void)close(pair[0]);
        return dz_fail_sys(err, sys, "run %s: start a process", name);
    }
    int rc = started(plan, pair[0], &start, err);
    int pidfd = rc == 0 ? dz_os_pidfd_open(reaper) : -1;
    if (rc == 0 && pidfd < 0)
        rc = dz_fail_sys(err, errno, "watch %s", name);
    if (rc < 0) {
        abandon(reaper, pair[0]);
        return rc;
    }
    *ret_proc =
        (struct dz_os_proc){.pid = start.pid, .pidfd = pidfd, .reaper = pair[0], .session = true};
    return 0;
}
