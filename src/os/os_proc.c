/* SPDX-License-Identifier: MIT
 *
 * os_proc.c - starting a process, watching it, ending it, and running a program to its end.
 *
 * A program is started by posix_spawn, which is a vfork inside: its cost does not grow with our
 * memory. What the child shall be is prepared before (struct plan). The descriptors that it shall
 * have are first duplicated to numbers above all that it wants (close-on-exec), so that no dup2 in
 * the child can overwrite the source of a later one. Then the child changes its directory, calls
 * dup2 for each, and closes the gaps and everything above.
 *
 * The pidfd is opened after the start. That is no race: the child is ours and nobody else waits
 * for it, so its pid cannot be given to another.
 *
 * The reaper is a fork of us that stands between us and a child started as a tree. It is a
 * subreaper: each orphan among the child's descendants becomes its own child, and `while (there
 * are children) kill, wait` finds them all.
 *
 *     we ──socket── reaper ── child ── grandchildren
 *                      └───── orphans, whatever session they made
 *
 * With a reaper, the pidfd is the reaper's, and the child's status comes through the socket.
 * Between fork and _exit the reaper calls only what is safe in the child of a process with
 * threads: system calls, and posix_spawnp with everything made ready. Its invariants:
 *   1. every signal is blocked: only SIGKILL ends it early. Ctrl-C reaches us;
 *      when that ends us, the reaper sees the end of file on its socket;
 *   2. it holds no descriptor but its own two, so pipes of the child see their
 *      end when the last real holder goes;
 *   3. a pid that it signals is an unwaited child of its own, or the group of
 *      one, so it cannot have been given to a stranger.
 * assert_alone() checks 1 and 2. The third cannot be asserted, because the kernel does not tell
 * to whom it gives a number.
 *
 * dz_os_run() is one poll loop over two pipes and the pidfd. The program is a tree, so when the
 * pidfd answers, no process is left that could write, and the pipes hold all that will ever come:
 * a background process that keeps standard output open cannot delay us. The input is a file in
 * memory rather than a pipe, so there is nothing to write while we read, and no SIGPIPE when the
 * child does not want it.
 *
 *     RUNNING ──deadline──▶ ASKED (SIGTERM, when grace_ms > 0) ──grace──▶ KILLED
 */
#include "os/os_proc.h"

#include "base/clock.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SOCKET_FD = 0,       /* where the reaper keeps its descriptors, */
    CHILDREN_FD = 1,     /* of which this is a signalfd */
    LOOKED_AT = 16,      /* descriptors that assert_alone() looks at */
    READ_SIZE = 16384,   /* bytes of a program's output read at once, */
    READS_PER_TURN = 16, /* so often before the other stream has its turn */
    LAST_TURNS = 8,      /* enough for the largest pipe, 1 MiB by default */
};

/* A timeout of more than thirty years counts as infinite, so that no sum can overflow. */
#define TIMEOUT_MAX_MS (1LL << 40)

/* All that posix_spawn needs, prepared before any fork. */
struct plan {
    const struct dz_os_spawn_opts *opts;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int cwd;                  /* descriptor of opts->cwd, or -1 */
    int moved[DZ_OS_FDS_MAX]; /* our descriptors, moved above every number the child wants */
    size_t moved_count;
};

/* Requests to the reaper are single bytes: a signal for the child's group, or REAPER_KILL to end
 * everything. Its end of file means REAPER_KILL, too. */
enum {
    REAPER_KILL = 0xff
};

/* A report of the reaper, which makes one after the start and one at the end. */
struct report {
    int sys;     /* start: errno, 0 = it runs */
    pid_t pid;   /* start */
    int wstatus; /* end: as waitpid gives it */
};

/* --- the plan of a start --- */

int dz_os_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void plan_release(struct plan *plan)
{
    (void)posix_spawn_file_actions_destroy(&plan->actions);
    (void)posix_spawnattr_destroy(&plan->attr);
    if (plan->cwd >= 0)
        (void)close(plan->cwd);
    for (size_t i = 0; i < plan->moved_count; i++)
        (void)close(plan->moved[i]);
}

static int highest_fd(const struct dz_os_spawn_opts *o)
{
    int highest = STDERR_FILENO;
    for (size_t i = 0; i < o->fd_count; i++) {
        assert(o->fds[i].child >= 0 && o->fds[i].child <= DZ_OS_CHILD_FD_MAX);
        if (o->fds[i].child > highest)
            highest = o->fds[i].child;
    }
    return highest;
}

static bool wants_fd(const struct dz_os_spawn_opts *o, int fd)
{
    for (size_t i = 0; i < o->fd_count; i++)
        if (o->fds[i].child == fd)
            return true;
    return false;
}

/* Each action returns an errno. Only ENOMEM is possible, so they are added up. */
static int plan_fds(struct plan *plan, struct dz_err *err)
{
    const struct dz_os_spawn_opts *o = plan->opts;
    int highest = highest_fd(o), sys = 0;

    for (size_t i = 0; i < o->fd_count; i++) {
        int moved = fcntl(o->fds[i].ours, F_DUPFD_CLOEXEC, highest + 1);
        if (moved < 0)
            return dz_fail_sys(err, errno, "hand descriptor %d to %s", o->fds[i].ours, o->argv[0]);
        plan->moved[plan->moved_count++] = moved;
        sys |= posix_spawn_file_actions_adddup2(&plan->actions, moved, o->fds[i].child);
    }
    for (int fd = STDERR_FILENO + 1; fd < highest; fd++)
        if (!wants_fd(o, fd))
            sys |= posix_spawn_file_actions_addclose(&plan->actions, fd);
    sys |= posix_spawn_file_actions_addclosefrom_np(&plan->actions, highest + 1);
    return sys ? dz_fail_sys(err, ENOMEM, "start %s", o->argv[0]) : 0;
}

static int plan_attr(struct plan *plan, struct dz_err *err)
{
    const struct dz_os_spawn_opts *o = plan->opts;
    short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    sigset_t all, none;

    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    if (o->session || o->tree)
        flags |= POSIX_SPAWN_SETSID;
    int sys = posix_spawnattr_setflags(&plan->attr, flags);
    sys |= posix_spawnattr_setsigdefault(&plan->attr, &all);
    sys |= posix_spawnattr_setsigmask(&plan->attr, &none);
    return sys ? dz_fail_sys(err, sys, "start %s", o->argv[0]) : 0;
}

static int plan_cwd(struct plan *plan, struct dz_err *err)
{
    const struct dz_os_spawn_opts *o = plan->opts;
    if (!o->cwd)
        return 0;
    plan->cwd = open(o->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (plan->cwd < 0)
        return dz_fail_sys(err, errno, "start %s in directory %s", o->argv[0], o->cwd);
    if (posix_spawn_file_actions_addfchdir_np(&plan->actions, plan->cwd) != 0)
        return dz_fail_sys(err, ENOMEM, "start %s", o->argv[0]);
    return 0;
}

static int plan_init(struct plan *plan, const struct dz_os_spawn_opts *o, struct dz_err *err)
{
    *plan = (struct plan){.opts = o, .cwd = -1};
    if (posix_spawn_file_actions_init(&plan->actions) != 0)
        return dz_fail_sys(err, ENOMEM, "start %s", o->argv[0]);
    (void)posix_spawnattr_init(&plan->attr); /* cannot fail here: it clears a struct */
    int rc = plan_cwd(plan, err);
    if (rc == 0)
        rc = plan_attr(plan, err);
    if (rc == 0)
        rc = plan_fds(plan, err);
    if (rc < 0)
        plan_release(plan);
    return rc;
}

/* Start by the plan: 0 or an errno. It takes no lock and allocates nothing of ours, so the reaper
 * may call it after a fork. */
static int plan_spawn(const struct plan *plan, pid_t *ret_pid)
{
    const struct dz_os_spawn_opts *o = plan->opts;
    /* The interface is older than const; it writes to neither. */
    union {
        const char *const *in;
        char *const *out;
    } argv = {o->argv}, env = {o->env};
    return posix_spawnp(ret_pid, o->argv[0], &plan->actions, &plan->attr, argv.out,
                        o->env ? env.out : environ);
}

/* The error for a program that could not be started. */
static int spawn_failed(const struct dz_os_spawn_opts *o, int sys, struct dz_err *err)
{
    char name[DZ_STR_QUOTED];
    bool path = strchr(o->argv[0], '/') != NULL;
    int code;

    (void)dz_str_quote(dz_str(o->argv[0]), name);
    if (sys == ENOENT && path && !o->cwd && access(o->argv[0], F_OK) == 0)
        code = dz_fail(err, DZ_ENOENT, "run %s: its interpreter does not exist", name);
    else if (sys == ENOENT)
        code = dz_fail(err, DZ_ENOENT, "run %s: %s", name,
                       path ? "no such file" : "not found in PATH");
    else if (sys == ENOEXEC)
        code = dz_fail(err, DZ_EINVAL, "run %s: it is not a program", name);
    else
        code = dz_fail_sys(err, sys, "run %s", name);
    if (err)
        err->sys = sys;
    return code;
}

struct reaper {
    pid_t child;
    bool child_gone;
    int wstatus;
};

/* --- the reaper's side --- */

static void report(int sock, const struct report *r)
{
    /* A failure means that our parent is gone, and then nobody needs the report. */
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
    if (n != 1 || request == REAPER_KILL)
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

static void reaper_main(const struct plan *plan, int sock)
{
    struct reaper r = {0};
    struct report start = {0};

    int children = watch_children();
    int high_sock = above_standard(sock);
    (void)prctl(PR_SET_NAME, "doze-reaper");
    bool ready = children >= 0 && high_sock >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    start.sys = ready ? plan_spawn(plan, &r.child) : errno;
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
    report(SOCKET_FD, &(struct report){.pid = r.child, .wstatus = r.wstatus});
    _exit(0);
}

/* --- our side of a reaper --- */

static void abandon(pid_t reaper, int sock)
{
    (void)close(sock); /* its end of file: the reaper ends everything, then itself */
    while (waitpid(reaper, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Wait for the report that the child runs, or the errno why not. */
static int started(const struct plan *plan, int sock, struct report *ret_report, struct dz_err *err)
{
    ssize_t n;
    do
        n = recv(sock, ret_report, sizeof *ret_report, MSG_WAITALL);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof *ret_report)
        return dz_fail(err, DZ_EIO, "run %s: its supervising process died at once",
                       plan->opts->argv[0]);
    if (ret_report->sys != 0)
        return spawn_failed(plan->opts, ret_report->sys, err);
    return 0;
}

/* Start by the plan with a reaper above. */
static int start_tree(const struct plan *plan, struct dz_os_proc *ret_proc, struct dz_err *err)
{
    int pair[2];
    struct report start;
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

/* --- starting --- */

static int start_plain(const struct plan *plan, struct dz_os_proc *ret_proc, struct dz_err *err)
{
    pid_t pid;
    int sys = plan_spawn(plan, &pid);
    if (sys != 0)
        return spawn_failed(plan->opts, sys, err);
    int pidfd = dz_os_pidfd_open(pid);
    if (pidfd < 0) {
        sys = errno;
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return dz_fail_sys(err, sys, "watch %s", plan->opts->argv[0]);
    }
    *ret_proc = (struct dz_os_proc){
        .pid = pid, .pidfd = pidfd, .reaper = -1, .session = plan->opts->session};
    return 0;
}

int dz_os_spawn(const struct dz_os_spawn_opts *o, struct dz_os_proc *ret_proc, struct dz_err *err)
{
    struct plan plan;
    assert(o->argv && o->argv[0] && o->fd_count <= DZ_OS_FDS_MAX);
    int rc = plan_init(&plan, o, err);
    if (rc < 0)
        return rc;
    rc = o->tree ? start_tree(&plan, ret_proc, err) : start_plain(&plan, ret_proc, err);
    plan_release(&plan);
    return rc;
}

/* --- watching and ending --- */

/* The time on the monotonic clock at which a timeout is over, -1: never. */
static int64_t deadline_of(int64_t timeout_ms)
{
    if (timeout_ms < 0 || timeout_ms > TIMEOUT_MAX_MS)
        return -1;
    return dz_clock_mono_ms() + timeout_ms;
}

/* How many milliseconds poll may wait until then. */
static int poll_timeout(int64_t deadline_ms)
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

/* The reaper has ended; its last report is the child's status. */
static int last_word(int sock, struct dz_os_status *ret_status)
{
    struct report end;
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
        n = poll(&poll_fd, 1, poll_timeout(deadline_ms));
    while (n < 0 && errno == EINTR);
    return n;
}

int dz_os_proc_wait(struct dz_os_proc *p, int64_t timeout_ms, struct dz_os_status *ret_status,
                    struct dz_err *err)
{
    struct dz_os_status status;
    pid_t pid = p->pid;
    assert(p->pidfd >= 0);
    int n = wait_readable(p->pidfd, deadline_of(timeout_ms));
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

/* `request` is a signal; for a reaper also REAPER_KILL. */
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
    assert(p->pidfd >= 0 && sig > 0 && sig < REAPER_KILL);
    if (tell(p, sig) < 0 && errno != ESRCH && errno != EPIPE && errno != ECONNRESET)
        return dz_fail_sys(err, errno, "send signal %d to process %d", sig, (int)p->pid);
    return 0;
}

void dz_os_proc_kill(struct dz_os_proc *p)
{
    if (p->pidfd >= 0)
        (void)tell(p, p->reaper >= 0 ? REAPER_KILL : SIGKILL);
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

/* --- running to the end, keeping what it prints --- */

enum phase {
    RUNNING,
    ASKED,
    KILLED,
};

struct stream {
    int read_fd; /* -1: at its end */
    int write_fd;
    struct dz_buf *kept;
    bool *truncated;
};

struct run {
    const struct dz_os_run_opts *opts;
    struct dz_os_run_result *result;
    int input;
    struct stream out;
    struct stream err; /* unused when merged */
    struct dz_os_proc proc;
    enum phase phase;
    int64_t deadline_ms;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void release(struct run *r)
{
    dz_os_proc_close(&r->proc);
    close_fd(&r->input);
    close_fd(&r->out.read_fd);
    close_fd(&r->out.write_fd);
    close_fd(&r->err.read_fd);
    close_fd(&r->err.write_fd);
}

static int open_stream(struct stream *s, struct dz_err *err)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return dz_fail_sys(err, errno, "make a pipe");
    s->read_fd = pair[0];
    s->write_fd = pair[1];
    if (fcntl(s->read_fd, F_SETFL, O_NONBLOCK) < 0)
        return dz_fail_sys(err, errno, "set up a pipe");
    return 0;
}

static int open_input(struct run *r, struct dz_err *err)
{
    const char *data = r->opts->input;
    size_t left = r->opts->input_size;
    assert(left <= DZ_OS_INPUT_MAX);
    r->input =
        data ? memfd_create("doze-input", MFD_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (r->input < 0)
        return dz_fail_sys(err, errno, "open the input of a program");
    while (data && left > 0) {
        ssize_t n = write(r->input, data, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dz_fail_sys(err, errno, "write the input of a program");
        data += n;
        left -= (size_t)n;
    }
    if (data && lseek(r->input, 0, SEEK_SET) < 0)
        return dz_fail_sys(err, errno, "rewind the input of a program");
    return 0;
}

static int start(struct run *r, struct dz_err *err)
{
    const struct dz_os_run_opts *o = r->opts;
    int rc = open_input(r, err);
    if (rc == 0)
        rc = open_stream(&r->out, err);
    if (rc == 0 && !o->merge)
        rc = open_stream(&r->err, err);
    if (rc < 0)
        return rc;
    struct dz_os_fd fds[] = {{STDIN_FILENO, r->input},
                             {STDOUT_FILENO, r->out.write_fd},
                             {STDERR_FILENO, o->merge ? r->out.write_fd : r->err.write_fd}};
    struct dz_os_spawn_opts spawn = {.argv = o->argv,
                                     .env = o->env,
                                     .cwd = o->cwd,
                                     .fds = fds,
                                     .fd_count = DZ_ARRAY_LEN(fds),
                                     .tree = true};
    rc = dz_os_spawn(&spawn, &r->proc, err);
    close_fd(&r->input);
    close_fd(&r->out.write_fd);
    close_fd(&r->err.write_fd);
    return rc;
}

/* Keep what fits, drop the rest. */
static int keep(struct stream *s, const char *data, size_t n)
{
    size_t room = s->kept->max - s->kept->len;
    if (n > room) {
        *s->truncated = true;
        n = room;
    }
    dz_buf_add(s->kept, data, n);
    return s->kept->err;
}

/* Read what is there now, but no more than that from a child that writes faster than we read.
 * Closes the stream at its end. */
static int drain(struct stream *s)
{
    char data[READ_SIZE];
    for (int turn = 0; turn < READS_PER_TURN && s->read_fd >= 0; turn++) {
        ssize_t n = read(s->read_fd, data, sizeof data);
        if (n > 0) {
            int rc = keep(s, data, (size_t)n);
            if (rc < 0)
                return rc;
        } else if (n < 0 && errno == EAGAIN) {
            break;
        } else if (n == 0 || errno != EINTR) {
            close_fd(&s->read_fd);
        }
    }
    return 0;
}

static void time_is_up(struct run *r)
{
    r->result->timed_out = true;
    if (r->phase == RUNNING && r->opts->grace_ms > 0 &&
        dz_os_proc_signal(&r->proc, SIGTERM, NULL) == 0) {
        r->phase = ASKED;
        r->deadline_ms = deadline_of(r->opts->grace_ms);
    } else {
        r->phase = KILLED;
        r->deadline_ms = -1;
        dz_os_proc_kill(&r->proc);
    }
}

static int pump(struct run *r, struct dz_err *err)
{
    bool ended = false;
    while (!ended) {
        struct pollfd fds[] = {{.fd = r->out.read_fd, .events = POLLIN},
                               {.fd = r->err.read_fd, .events = POLLIN},
                               {.fd = r->proc.pidfd, .events = POLLIN}};
        int n = poll(fds, DZ_ARRAY_LEN(fds), poll_timeout(r->deadline_ms));
        if (n < 0 && errno != EINTR)
            return dz_fail_sys(err, errno, "wait for %s", r->opts->argv[0]);
        if (r->deadline_ms >= 0 && dz_clock_mono_ms() >= r->deadline_ms)
            time_is_up(r);
        if (drain(&r->out) < 0 || drain(&r->err) < 0)
            return dz_fail(err, DZ_ENOMEM, "run %s: no memory for its output", r->opts->argv[0]);
        ended = n > 0 && fds[2].revents;
    }
    return 0;
}

/* All processes are dead: read what the pipes still hold. There is a limit in case a program with
 * more rights than ours has escaped and goes on writing. */
static int drain_rest(struct run *r, struct dz_err *err)
{
    for (int turn = 0; turn < LAST_TURNS; turn++)
        if (drain(&r->out) < 0 || drain(&r->err) < 0)
            return dz_fail(err, DZ_ENOMEM, "run %s: no memory for its output", r->opts->argv[0]);
    return 0;
}

int dz_os_run(const struct dz_os_run_opts *o, struct dz_os_run_result *ret_result,
              struct dz_err *err)
{
    struct dz_os_run_result result = {.out = DZ_BUF_INIT(o->out_max),
                                      .err = DZ_BUF_INIT(o->err_max)};
    struct run r = {.opts = o,
                    .result = &result,
                    .input = -1,
                    .out = {-1, -1, &result.out, &result.out_truncated},
                    .err = {-1, -1, &result.err, &result.err_truncated},
                    .proc = DZ_OS_PROC_NONE,
                    .deadline_ms = -1};
    assert(o->argv && o->argv[0]);
    int rc = start(&r, err);
    if (o->timeout_ms > 0)
        r.deadline_ms = deadline_of(o->timeout_ms);
    if (rc == 0)
        rc = pump(&r, err);
    if (rc == 0)
        rc = drain_rest(&r, err);
    if (rc == 0)
        rc = dz_os_proc_wait(&r.proc, -1, &result.status, err);
    release(&r);
    if (rc < 0)
        dz_os_run_result_release(&result);
    else
        *ret_result = result;
    return rc;
}

void dz_os_run_result_release(struct dz_os_run_result *r)
{
    dz_buf_release(&r->out);
    dz_buf_release(&r->err);
}
