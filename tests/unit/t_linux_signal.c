/* SPDX-License-Identifier: MIT
 * System calls on signals, sleeping and interval timers, and the end of a process. */
#include "../lib/linux_rig.h"
#include "tap.h"

#define LAST(n) (LRIG_RO - (n))
#define NOWHERE UINT64_C(0x7fff00000000)
#define MS      INT64_C(1000000)

static int64_t get64(uint64_t at)
{
    int64_t v;
    memcpy(&v, lmem_at(at), sizeof v);
    return v;
}
static void set64(uint64_t at, uint64_t v)
{
    memcpy(lmem_at(at), &v, sizeof v);
}

static int masks(struct fib *f)
{
    const uint64_t set = lmem_new(8), old = lmem_new(8);
    set64(set, DZ_K_BIT(SIGUSR1));
    GIVES(f, 0, rt_sigprocmask, SIG_BLOCK, set, 0, 8);
    GIVES(f, 0, rt_sigprocmask, 9, 0, old, 8); /* how does not matter then */
    OK(f, get64(old) == (int64_t)DZ_K_BIT(SIGUSR1));
    GIVES(f, 0, kill, f->p->pid, SIGUSR1);
    GIVES(f, 0, rt_sigpending, old, 8);
    OK(f, get64(old) == (int64_t)DZ_K_BIT(SIGUSR1));
    GIVES(f, 0, rt_sigpending, LAST(4), 4);
    GIVES(f, -EFAULT, rt_sigpending, LAST(4), 8);
    GIVES(f, -EINVAL, rt_sigpending, old, 9);
    GIVES(f, -EINVAL, rt_sigprocmask, SIG_BLOCK, set, 0, 4);
    GIVES(f, -EINVAL, rt_sigprocmask, 9, set, 0, 8);
    GIVES(f, -EFAULT, rt_sigprocmask, SIG_BLOCK, NOWHERE, 0, 8);
    GIVES(f, -EFAULT, rt_sigprocmask, SIG_BLOCK, set, LAST(7), 8);
    return 0;
}
TEST(masks_and_pending_signals)
{
    CHECK_INT(lrig_run(masks, 0), 0);
}

static int actions(struct fib *f)
{
    const uint64_t want[4] = {3, SA_RESTART | SA_SIGINFO, 0x1234, DZ_K_BIT(SIGUSR2)};
    const uint64_t at = lmem_put(want, sizeof want), old = lmem_new(32);
    GIVES(f, 0, rt_sigaction, SIGUSR1, at, old, 8);
    OK(f, get64(old) == 0);
    GIVES(f, 0, rt_sigaction, SIGUSR1, 0, old, 8);
    OK(f, memcmp(lmem_at(old), want, sizeof want) == 0);
    GIVES(f, -EINVAL, rt_sigaction, SIGKILL, at, 0, 8);
    GIVES(f, 0, rt_sigaction, SIGKILL, 0, old, 8);
    GIVES(f, -EINVAL, rt_sigaction, 65, 0, old, 8);
    GIVES(f, -EINVAL, rt_sigaction, SIGUSR1, at, 0, 16);
    GIVES(f, -EFAULT, rt_sigaction, SIGUSR1, LRIG_END - 31, 0, 8);
    GIVES(f, -EFAULT, rt_sigaction, SIGUSR1, 0, LAST(31), 8);
    GIVES(f, -EINVAL, tkill, 0, SIGUSR1);
    GIVES(f, -EINVAL, tgkill, 0, f->p->pid, SIGUSR1);
    GIVES(f, -EINVAL, tgkill, f->p->pid, -1, SIGUSR1);
    GIVES(f, -ESRCH, tgkill, f->p->pid, 999, 0);
    GIVES(f, 0, tkill, f->p->pid, 0);
    GIVES(f, 0, tgkill, f->p->pid, f->p->pid, 0);
    GIVES(f, -ESRCH, kill, 999, 0);
    return 0;
}
TEST(actions_have_the_layout_of_linux)
{
    CHECK_INT(lrig_run(actions, 0), 0);
}

/* A child that sends its parent a signal after 10 ms. */
static int sends(struct fib *f)
{
    fib_sleep(f, 10);
    GIVES(f, 0, kill, f->p->ppid, SIGUSR1);
    return 0;
}
static void notes(struct fib *f, int signo)
{
    f->note[0] = signo;
}

static int takes(struct fib *f)
{
    const uint64_t set = lmem_new(8), info = lmem_new(128), ts = lmem_new(16);
    int32_t v[8];
    set64(set, DZ_K_BIT(SIGUSR1) | DZ_K_BIT(SIGCHLD));
    GIVES(f, 0, rt_sigprocmask, SIG_BLOCK, set, 0, 8);
    set64(set, DZ_K_BIT(SIGUSR1));
    int64_t pid = fib_fork(f, sends);
    GIVES(f, SIGUSR1, rt_sigtimedwait, set, info, 0, 8);
    memcpy(v, lmem_at(info), sizeof v);
    OK(f, v[0] == SIGUSR1 && v[1] == 0 && v[2] == SI_USER && v[4] == pid && v[5] == 1000);
    set64(ts + 8, 5 * MS);
    int64_t t = f->r->now;
    GIVES(f, -EAGAIN, rt_sigtimedwait, set, 0, ts, 8);
    OK(f, f->r->now == t + 5 * MS);
    set64(set, DZ_K_BIT(SIGUSR1) | DZ_K_BIT(SIGCHLD));
    GIVES(f, SIGCHLD, rt_sigtimedwait, set, info, 0, 8);
    memcpy(v, lmem_at(info), sizeof v);
    OK(f, v[0] == SIGCHLD && v[2] == CLD_EXITED && v[4] == pid && v[6] == 0);
    GIVES(f, 0, kill, f->p->pid, SIGUSR1);
    GIVES(f, -EFAULT, rt_sigtimedwait, set, LAST(127), ts, 8);
    GIVES(f, -EINVAL, rt_sigtimedwait, set, info, ts, 4);
    GIVES(f, -EFAULT, rt_sigtimedwait, NOWHERE, info, ts, 8);
    GIVES(f, -EFAULT, rt_sigtimedwait, set, info, NOWHERE, 8);
    return 0;
}
TEST(a_signal_is_taken_with_what_it_tells)
{
    CHECK_INT(lrig_run(takes, 1000), 0);
}

static int interrupted(struct fib *f)
{
    const uint64_t act[4] = {3, SA_RESTART, 0, 0}, at = lmem_put(act, sizeof act);
    const uint64_t ts = lmem_new(16), left = lmem_new(16), none = lmem_new(8);
    f->handler[3] = notes;
    GIVES(f, 0, rt_sigaction, SIGUSR1, at, 0, 8);
    set64(ts, 1);
    OK(f, fib_fork(f, sends) > 0);
    GIVES(f, -EINTR, nanosleep, ts, left);
    OK(f, f->note[0] == SIGUSR1 && get64(left) == 0 && get64(left + 8) == 990 * MS);
    OK(f, fib_fork(f, sends) > 0);
    GIVES(f, -EFAULT, nanosleep, ts, LAST(15));
    OK(f, fib_fork(f, sends) > 0);
    GIVES(f, -EINTR, nanosleep, ts, 0);
    OK(f, fib_fork(f, sends) > 0);
    set64(ts, 1000000);
    GIVES(f, -EINTR, clock_nanosleep, CLOCK_MONOTONIC, 1, ts, NOWHERE); /* nothing to tell */
    OK(f, fib_fork(f, sends) > 0);
    GIVES(f, -EINTR, pause);
    OK(f, fib_fork(f, sends) > 0);
    GIVES(f, -EINTR, rt_sigsuspend, none, 8);
    GIVES(f, -EINVAL, rt_sigsuspend, none, 4);
    GIVES(f, -EFAULT, rt_sigsuspend, NOWHERE, 8);
    return 0;
}
TEST(a_handler_ends_a_sleep_that_tells_what_is_left)
{
    CHECK_INT(lrig_run(interrupted, 0), 0);
}

static int sleeps(struct fib *f)
{
    const uint64_t ts = lmem_new(16);
    int64_t t = f->r->now;
    set64(ts + 8, 30 * MS);
    GIVES(f, 0, nanosleep, ts, 0);
    OK(f, f->r->now == t + 30 * MS);
    GIVES(f, 0, clock_nanosleep, CLOCK_REALTIME, 0, ts, 0);
    OK(f, f->r->now == t + 60 * MS);
    GIVES(f, 0, clock_nanosleep, CLOCK_MONOTONIC, 1, ts, 0); /* has been */
    OK(f, f->r->now == t + 60 * MS);
    GIVES(f, -EOPNOTSUPP, clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, ts, 0);
    GIVES(f, -EFAULT, nanosleep, 0, 0);
    GIVES(f, -EFAULT, nanosleep, LRIG_END - 15, 0);
    set64(ts + 8, 1000 * MS);
    GIVES(f, -EINVAL, nanosleep, ts, 0);
    set64(ts + 8, UINT64_MAX);
    GIVES(f, -EINVAL, nanosleep, ts, 0);
    return 0;
}
TEST(sleeps_last_as_long_as_they_say)
{
    CHECK_INT(lrig_run(sleeps, 0), 0);
}

static int timers(struct fib *f)
{
    const uint64_t set = lmem_new(32), old = lmem_new(32);
    set64(set, 2); /* interval 2.000003 s */
    set64(set + 8, 3);
    set64(set + 16, 5); /* in 5.7 s */
    set64(set + 24, 700000);
    GIVES(f, 0, setitimer, ITIMER_REAL, set, old);
    OK(f, get64(old) == 0 && get64(old + 16) == 0 && get64(old + 24) == 0);
    f->r->now += 1;
    GIVES(f, 0, getitimer, ITIMER_REAL, old);
    OK(f, get64(old) == 2 && get64(old + 8) == 3 && get64(old + 16) == 5);
    OK(f, get64(old + 24) == 700000);
    GIVES(f, 6, alarm, 7);
    f->r->now += 6800 * MS;
    GIVES(f, 1, alarm, 1); /* 0.2 s */
    GIVES(f, 1, alarm, 0);
    GIVES(f, 0, alarm, 0);
    GIVES(f, 0, setitimer, ITIMER_REAL, set, 0);
    GIVES(f, 0, setitimer, ITIMER_REAL, 0, old); /* off */
    OK(f, get64(old + 16) == 5);
    GIVES(f, 0, alarm, 0);
    set64(set, INT64_MAX); /* as long as time is */
    GIVES(f, 0, setitimer, ITIMER_REAL, set, 0);
    GIVES(f, 0, setitimer, ITIMER_REAL, 0, old);
    OK(f, get64(old) == 9223372036 && get64(old + 8) == 854775);
    GIVES(f, -EINVAL, setitimer, 3, set, 0);
    GIVES(f, -EINVAL, getitimer, 3, old);
    GIVES(f, -EFAULT, getitimer, ITIMER_REAL, 0);
    GIVES(f, -EFAULT, getitimer, ITIMER_REAL, LAST(31));
    GIVES(f, -EFAULT, setitimer, ITIMER_REAL, LRIG_END - 31, 0);
    set64(set + 24, 1000000);
    GIVES(f, -EINVAL, setitimer, ITIMER_REAL, set, 0);
    return 0;
}
TEST(interval_timers_and_alarm)
{
    CHECK_INT(lrig_run(timers, 0), 0);
}

static int ends(struct fib *f)
{
    (void)CALL(f, exit_group, 0x107);
    return 90;
}
static int ends_thread(struct fib *f)
{
    (void)CALL(f, exit, 9);
    return 90;
}
TEST(exit_has_a_code)
{
    CHECK_INT(WEXITSTATUS(lrig_run(ends, 0)), 7);
    CHECK_STR(lrig_line, "exit_group(263) = ?");
    CHECK_INT(WEXITSTATUS(lrig_run(ends_thread, 0)), 9);
}
