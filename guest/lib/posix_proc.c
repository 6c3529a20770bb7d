/* SPDX-License-Identifier: MIT
 *
 * posix_proc.c - making processes and waiting for them.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

pid_t fork(void)
{
    return posix_ret(doze_fork());
}

pid_t _Fork(void)
{
    return posix_ret(doze_fork());
}

pid_t vfork(void)
{
    return posix_ret(doze_vfork());
}

static void usage(struct rusage *r, const uint64_t *u)
{
    memset(r, 0, sizeof *r);
    r->ru_utime.tv_sec = (time_t)(u[0] / 1000000);
    r->ru_utime.tv_usec = (suseconds_t)(u[0] % 1000000);
    r->ru_stime.tv_sec = (time_t)(u[1] / 1000000);
    r->ru_stime.tv_usec = (suseconds_t)(u[1] % 1000000);
    r->ru_maxrss = (long)(u[2] >> 10);
}

pid_t wait4(pid_t pid, int *st, int opt, struct rusage *r)
{
    uint64_t u[3] = {0};
    int p = posix_ret(doze_waitpid(pid, st, opt, r ? u : 0));

    if (p > 0 && r)
        usage(r, u);
    return p;
}

pid_t waitpid(pid_t p, int *st, int opt)
{
    return wait4(p, st, opt, 0);
}

pid_t wait(int *st)
{
    return wait4(-1, st, 0, 0);
}

pid_t wait3(int *st, int o, struct rusage *r)
{
    return wait4(-1, st, o, r);
}

/* What waitid tells, out of waitpid's status. WNOWAIT is not there. */
static void child_info(siginfo_t *si, pid_t pid, int st)
{
    memset(si, 0, sizeof *si);
    si->si_signo = SIGCHLD;
    si->si_pid = pid;
    si->si_status = WIFEXITED(st)     ? WEXITSTATUS(st)
                    : WIFSTOPPED(st)  ? WSTOPSIG(st)
                    : WIFSIGNALED(st) ? WTERMSIG(st)
                                      : SIGCONT;
    si->si_code = WIFEXITED(st)     ? CLD_EXITED
                  : WIFSTOPPED(st)  ? CLD_STOPPED
                  : WIFSIGNALED(st) ? CLD_KILLED
                                    : CLD_CONTINUED;
}

int waitid(idtype_t type, id_t id, siginfo_t *si, int opt)
{
    int st = 0;
    pid_t pid = type == P_ALL ? -1 : type == P_PGID ? (id ? -(pid_t)id : 0) : (pid_t)id;

    /* waitpid always takes the dead too, so it cannot wait for stops alone. */
    if (!(opt & WEXITED) || (opt & ~(WEXITED | WNOHANG | WSTOPPED | WCONTINUED)))
        return posix_fail(EINVAL);
    pid = waitpid(pid, &st, opt & ~WEXITED);
    if (pid < 0)
        return -1;
    if (si && pid == 0)
        memset(si, 0, sizeof *si);
    else if (si)
        child_info(si, pid, st);
    return 0;
}

int daemon(int keep_cwd, int keep_files)
{
    int fd;

    switch (fork()) {
    case -1:
        return -1;
    case 0:
        break;
    default:
        _exit(0);
    }
    if (setsid() < 0 || (!keep_cwd && chdir("/") < 0))
        return -1;
    if (keep_files)
        return 0;
    fd = open("/dev/null", O_RDWR);
    if (fd < 0)
        return -1;
    for (int i = 0; i < 3; i++)
        if (dup2(fd, i) < 0)
            return -1;
    if (fd > 2)
        close(fd);
    return 0;
}

int getrusage(int who, struct rusage *r)
{
    uint64_t u[3] = {0};
    int e = posix_ret(doze_rusage(who, u));

    if (e == 0)
        usage(r, u);
    return e;
}

clock_t times(struct tms *t)
{
    uint64_t u[3] = {0}, c[3] = {0};
    struct timespec now;

    doze_rusage(RUSAGE_SELF, u);
    doze_rusage(RUSAGE_CHILDREN, c);
    t->tms_utime = (clock_t)(u[0] / 10000);
    t->tms_stime = (clock_t)(u[1] / 10000);
    t->tms_cutime = (clock_t)(c[0] / 10000);
    t->tms_cstime = (clock_t)(c[1] / 10000);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (clock_t)(now.tv_sec * 100 + now.tv_nsec / 10000000);
}

clock_t clock(void)
{
    uint64_t u[3] = {0};

    doze_rusage(RUSAGE_SELF, u);
    return (clock_t)((u[0] + u[1]) * (CLOCKS_PER_SEC / 1000000));
}

int getrlimit(int r, struct rlimit *l)
{
    uint64_t v[2] = {RLIM_INFINITY, RLIM_INFINITY};
    int e = posix_ret(doze_rlimit(r, 0, v));

    if (e == 0)
        *l = (struct rlimit){.rlim_cur = v[0], .rlim_max = v[1]};
    return e;
}

int setrlimit(int r, const struct rlimit *l)
{
    uint64_t v[2] = {l->rlim_cur, l->rlim_max};

    return posix_ret(doze_rlimit(r, v, 0));
}

/* What CPU_COUNT calls. */
int __sched_cpucount(size_t n, const cpu_set_t *s)
{
    int count = 0;

    for (size_t i = 0; i < n; i++)
        count += __builtin_popcount(((const unsigned char *)s)[i]);
    return count;
}

int sched_getaffinity(pid_t p, size_t n, cpu_set_t *s)
{
    (void)p;
    if (n == 0)
        return posix_fail(EINVAL);
    memset(s, 0, n);
    *(char *)s = 1;
    return 0;
}

int getdtablesize(void)
{
    struct rlimit l;

    return getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur > 65536 ? 65536 : (int)l.rlim_cur;
}
