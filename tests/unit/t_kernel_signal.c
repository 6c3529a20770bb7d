/* SPDX-License-Identifier: MIT
 * Signals and timers: actions, masks, handlers, EINTR, stop and continue. */
#include "../lib/kernel_rig.h"
#include "tap.h"

static void notes(struct fib *f, int signo)
{
    char text[32];
    (void)snprintf(text, sizeof text, "<%d ", signo);
    krig_log(f->r, text);
    f->note[7]++;
    if (f->note[6] == signo) { /* sleep in the handler: others may come meanwhile */
        f->note[6] = 0;
        fib_sleep(f, 100);
    }
    krig_log(f->r, ">");
}

static int64_t act(struct fib *f, int signo, uint32_t handler, uint32_t flags, uint64_t mask)
{
    const struct dz_sigact a = {.handler = handler, .flags = flags, .mask = mask};
    f->handler[2] = notes;
    return dz_sys_sigaction(FK(f), signo, &a, NULL);
}

static int64_t mask(struct fib *f, int how, uint64_t set)
{
    return SYS(f, dz_sys_sigprocmask(FK(f), how, &set, NULL));
}

static int handles(struct fib *f)
{
    uint64_t set = DZ_K_BIT(SIGUSR1), pending = 0;
    OK(f, act(f, SIGUSR1, 2, 0, 0) == 0);
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR1)) == 0);
    OK(f, f->note[7] == 1); /* before kill returned */
    OK(f, mask(f, 0, set) == 0);
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR1)) == 0 && f->note[7] == 1);
    OK(f, dz_sys_sigpending(FK(f), &pending) == 0 && pending == set);
    OK(f, mask(f, 1, set) == 0 && f->note[7] == 2);
    OK(f, act(f, SIGUSR1, 2, SA_RESETHAND, 0) == 0);
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR1)) == 0 && f->note[7] == 3);
    OK(f, f->p->act[SIGUSR1 - 1].handler == 0);
    OK(f, act(f, SIGKILL, 2, 0, 0) == -EINVAL && act(f, 65, 2, 0, 0) == -EINVAL);
    OK(f, mask(f, 2, UINT64_MAX) == 0);
    OK(f, dz_k_me(FK(f))->sig_mask == ~(DZ_K_BIT(SIGKILL) | DZ_K_BIT(SIGSTOP)));
    OK(f, dz_k_me(FK(f))->depth == 0);
    (void)SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGKILL));
    return 1;
}
TEST(signal_handlers_run_before_the_call_returns)
{
    struct krig r;
    CHECK_INT(krig_main_as(handles, 0, &r), SIGKILL);
    CHECK_STR(r.log, "<10 ><10 ><10 >");
    CHECK_INT(krig_stop(&r), 0);
}

static int sends(struct fib *f)
{
    fib_sleep(f, 20);
    (void)SYS(f, dz_sys_kill(FK(f), f->p->ppid, (int)f->note[0]));
    fib_sleep(f, 20);
    (void)SYS(f, dz_sys_write(FK(f), (int)f->note[1], "x", 1));
    fib_sleep(f, 1000);
    return 0;
}
static int interrupted(struct fib *f)
{
    int fds[2];
    char c;
    int64_t left = 0;
    f->note[0] = SIGUSR1;
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    f->note[1] = fds[1];
    OK(f, act(f, SIGUSR1, 2, 0, 0) == 0);
    OK(f, fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], &c, 1)) == -EINTR);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], &c, 1)) == 1);
    OK(f, act(f, SIGUSR1, 2, SA_RESTART, 0) == 0);
    OK(f, fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], &c, 1)) == 1); /* went on after the handler */
    OK(f, f->note[7] == 2);
    OK(f, fib_fork(f, sends) > 0);
    int64_t r = SYS(f, dz_sys_clock_nanosleep(FK(f), CLOCK_MONOTONIC, false, 50000000, &left));
    OK(f, r == -EINTR && left == 30000000); /* sleeping never restarts */
    OK(f, SYS(f, dz_sys_waitpid(FK(f), 30000, 0, NULL, NULL)) == -ECHILD);
    OK(f, act(f, SIGUSR1, 2, 0, 0) == 0);
    OK(f, fib_fork(f, sends) > 0);
    int64_t pid = fib_fork(f, sends);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, 0, NULL, NULL)) == -EINTR);
    OK(f, dz_k_me(FK(f))->depth == 0 && dz_k_me(FK(f))->sig_mask == 0);
    return 0;
}
TEST(signal_interrupts_calls_or_restarts_them)
{
    struct krig r;
    CHECK_INT(krig_main_as(interrupted, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int partial(struct fib *f)
{
    int fds[2];
    static char data[100000];
    f->note[0] = SIGUSR1;
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    f->note[1] = 99;
    OK(f, act(f, SIGUSR1, 2, 0, 0) == 0 && fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], data, sizeof data)) == DZ_KERNEL_PIPE_SIZE);
    return 0;
}
TEST(signal_ends_a_write_that_went_half)
{
    struct krig r;
    CHECK_INT(krig_main_as(partial, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int two_signals(struct fib *f)
{
    fib_sleep(f, 10);
    (void)SYS(f, dz_sys_kill(FK(f), f->p->ppid, SIGUSR1));
    fib_sleep(f, 10);
    (void)SYS(f, dz_sys_kill(FK(f), f->p->ppid, SIGUSR1)); /* blocked in its own handler */
    (void)SYS(f, dz_sys_kill(FK(f), f->p->ppid, SIGUSR2)); /* nests */
    (void)SYS(f, dz_sys_kill(FK(f), f->p->ppid, SIGTERM)); /* in the mask of USR1 */
    return 0;
}
static int nests(struct fib *f)
{
    f->note[6] = SIGUSR1;
    OK(f, act(f, SIGUSR1, 2, 0, DZ_K_BIT(SIGTERM)) == 0);
    OK(f, act(f, SIGUSR2, 2, 0, 0) == 0 && act(f, SIGTERM, 2, 0, 0) == 0);
    OK(f, fib_fork(f, two_signals) > 0);
    fib_sleep(f, 1000);
    OK(f, SYS(f, dz_sys_getpid(FK(f))) > 0); /* what a mask held back comes with the next call */
    dz_k_sig_sync(FK(f));
    OK(f, f->note[7] == 4 && dz_k_me(FK(f))->sig_mask == 0 && dz_k_me(FK(f))->depth == 0);
    return 0;
}
TEST(signal_handlers_nest_and_give_the_mask_back)
{
    struct krig r;
    CHECK_INT(krig_main_as(nests, 0, &r), 0);
    /* USR2 runs inside USR1; then the second USR1, and after it TERM, which it held back */
    CHECK_STR(r.log, "<10 <12 >><10 ><15 >");
    CHECK_INT(krig_stop(&r), 0);
}

static int suspends(struct fib *f)
{
    f->note[0] = SIGUSR1;
    f->note[1] = 99;
    OK(f, act(f, SIGUSR1, 2, SA_RESTART, 0) == 0);
    OK(f, mask(f, 0, DZ_K_BIT(SIGUSR1) | DZ_K_BIT(SIGUSR2)) == 0);
    OK(f, fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_sigsuspend(FK(f), 0)) == -EINTR);
    OK(f, f->note[7] == 1);
    OK(f, dz_k_me(FK(f))->sig_mask == (DZ_K_BIT(SIGUSR1) | DZ_K_BIT(SIGUSR2)));
    OK(f, fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(SIGUSR1), -1, NULL)) == SIGUSR1);
    OK(f, f->note[7] == 1);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(SIGUSR1), 5000000, NULL)) == -EAGAIN);
    struct pollfd none = {-1, 0, 0};
    const uint64_t empty = 0;
    OK(f, fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_poll(FK(f), &none, 1, -1, &empty)) == -EINTR && f->note[7] == 2);
    OK(f, dz_k_me(FK(f))->sig_mask == (DZ_K_BIT(SIGUSR1) | DZ_K_BIT(SIGUSR2)));
    return 0;
}
TEST(signal_suspend_takes_its_mask_for_the_wait_only)
{
    struct krig r;
    CHECK_INT(krig_main_as(suspends, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int counts_ticks(struct fib *f)
{
    for (int i = 0; i < 10; i++)
        fib_sleep(f, 10);
    return 4;
}
static int stops_child(struct fib *f)
{
    int status;
    int64_t pid = fib_fork(f, counts_ticks);
    fib_sleep(f, 15);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGSTOP)) == 0);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WUNTRACED, &status, NULL)) == pid);
    OK(f, WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WUNTRACED | WNOHANG, &status, NULL)) == 0);
    fib_sleep(f, 5000);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WNOHANG, &status, NULL)) == 0); /* it stands */
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGCONT)) == 0);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WCONTINUED, &status, NULL)) == pid);
    OK(f, WIFCONTINUED(status));
    OK(f, fib_wait(f, pid, &status) == pid && WEXITSTATUS(status) == 4);
    pid = fib_fork(f, counts_ticks);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGSTOP)) == 0);
    fib_sleep(f, 5);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGKILL)) == 0); /* reaches the stopped too */
    OK(f, fib_wait(f, pid, &status) == pid && WTERMSIG(status) == SIGKILL);
    return 0;
}
TEST(signal_stops_and_continues)
{
    struct krig r;
    CHECK_INT(krig_main_as(stops_child, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int chld(struct fib *f)
{
    OK(f, act(f, SIGCHLD, 2, SA_NOCLDSTOP, 0) == 0);
    int64_t pid = fib_fork(f, counts_ticks);
    fib_sleep(f, 5);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGSTOP)) == 0);
    fib_sleep(f, 5);
    OK(f, f->note[7] == 0); /* no signal for a stop */
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGCONT)) == 0);
    fib_sleep(f, 1000); /* ends early, by the signal */
    OK(f, f->note[7] == 1);
    return fib_wait(f, pid, NULL) == pid ? 0 : 1;
}
TEST(signal_chld_tells_of_an_end)
{
    struct krig r;
    CHECK_INT(krig_main_as(chld, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int timers(struct fib *f)
{
    int64_t t[2], set[2] = {20000000, 10000000}, off[2] = {0, 0};
    OK(f, act(f, SIGALRM, 2, 0, 0) == 0 && act(f, SIGVTALRM, 2, 0, 0) == 0);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, set, NULL) == 0);
    fib_sleep(f, 1000);
    OK(f, f->note[7] == 1);
    fib_sleep(f, 1000);
    OK(f, f->note[7] == 2);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, off, t) == 0);
    OK(f, t[0] == 20000000 && t[1] > 0 && t[1] <= 20000000);
    int64_t before = f->r->now;
    fib_sleep(f, 100);
    OK(f, f->note[7] == 2 && f->r->now - before == 100000000);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_VIRTUAL, set, NULL) == 0);
    fib_sleep(f, 100); /* uses no CPU */
    OK(f, f->note[7] == 2);
    fib_burn(f, 11000000);
    OK(f, f->note[7] == 3);
    return 0;
}
static int timers_for_ever(struct fib *f)
{
    int64_t t[2];
    const int64_t set[2] = {INT64_MAX, 1}, most[2] = {1, INT64_MAX};
    OK(f, act(f, SIGALRM, 2, 0, 0) == 0 && act(f, SIGVTALRM, 2, 0, 0) == 0);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, set, NULL) == 0);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_VIRTUAL, set, NULL) == 0);
    fib_sleep(f, 10);
    fib_burn(f, 1000000);
    OK(f, f->note[7] == 2); /* each once, and again when the time is up */
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, most, t) == 0 && t[0] == INT64_MAX && t[1] > 0);
    OK(f, SYS(f, dz_sys_clock_nanosleep(FK(f), CLOCK_MONOTONIC, true, 1, NULL)) == 0);
    return f->note[7] == 2 ? 0 : 1;
}
TEST(timer_of_centuries_does_not_wrap)
{
    struct krig r;
    CHECK_INT(krig_main_as(timers_for_ever, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

TEST(timer_expires_by_time_or_by_cpu)
{
    struct krig r;
    CHECK_INT(krig_main_as(timers, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int permissions(struct fib *f)
{
    OK(f, dz_sys_kill(FK(f), 1, SIGTERM) == -EPERM);
    OK(f, dz_sys_kill(FK(f), 30000, SIGTERM) == -ESRCH);
    OK(f, dz_sys_kill(FK(f), f->p->pid, 0) == 0);
    OK(f, dz_sys_kill(FK(f), f->p->pid, 65) == -EINVAL);
    OK(f, dz_sys_kill(FK(f), INT32_MIN, 1) == -EINVAL);
    OK(f, dz_sys_kill(FK(f), -1, 0) == -ESRCH);
    return 0;
}
TEST(signal_needs_permission)
{
    struct krig r;
    CHECK_INT(krig_main_as(permissions, 1000, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

#ifndef KRIG_NATIVE /* frames on the guest's own stack have an end of their own */
/* A handler that never returns, hit again and again: bounded, and killable. */
static void forever(struct fib *f, int signo)
{
    (void)signo;
    f->note[7]++;
    for (;;)
        fib_sleep(f, 10);
}
static int buried(struct fib *f)
{
    const struct dz_sigact a = {.handler = 3, .flags = SA_NODEFER, .mask = 0};
    f->handler[3] = forever;
    OK(f, dz_sys_sigaction(FK(f), SIGUSR1, &a, NULL) == 0);
    fib_sleep(f, 100000);
    return 1;
}
static int buries(struct fib *f)
{
    int status;
    int64_t pid = fib_fork(f, buried);
    for (int i = 0; i < 40; i++) {
        fib_sleep(f, 10);
        OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGUSR1)) == 0);
    }
    const struct dz_thread *c = dz_k_thread_find(f->k, (int32_t)pid);
    OK(f, c && c->depth == DZ_KERNEL_HANDLERS_MAX);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGKILL)) == 0);
    OK(f, fib_wait(f, pid, &status) == pid && WTERMSIG(status) == SIGKILL);
    return 0;
}
TEST(signal_handlers_that_never_return_are_bounded)
{
    struct krig r;
    CHECK_INT(krig_main_as(buries, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}
#endif

/* ---- the scheduler -------------------------------------------------------------------- */

static int burner(struct fib *f)
{
    int64_t *turns = f->r->arg;
    (void)dz_sys_setpriority(FK(f), PRIO_PROCESS, 0, (int)f->note[1]);
    while (f->r->cpu < 2000000000) {
        int64_t slice = f->p->nice <= 0 ? 5000000 : 5000000 * (20 - f->p->nice) / 20;
        turns[f->note[0]] += slice;
        fib_burn(f, slice);
    }
    return 0;
}
static int starts_burners(struct fib *f)
{
    static const int nice[4] = {0, 0, 10, 19};
    for (int i = 0; i < 4; i++) {
        f->note[0] = i;
        f->note[1] = nice[i];
        OK(f, fib_fork(f, burner) > 0);
    }
    int64_t most = 0;
    for (int i = 0; i < 100; i++) { /* an interactive process among them */
        int64_t before = f->r->now;
        fib_sleep(f, 3);
        int64_t late = f->r->now - before - 3000000;
        most = late > most ? late : most;
    }
    f->r->log[0] = (char)(most <= 5000000 ? 'y' : 'n');
    for (int i = 0; i < 4; i++)
        (void)fib_wait(f, -1, NULL);
    return 0;
}
TEST(sched_shares_by_nice_and_answers_who_wakes)
{
    if (KRIG_IS_AWAY) /* there the host shares the processor */
        return;
    struct krig r;
    struct dz_job job = {0};
    int64_t turns[4] = {0};
    krig_start(&r);
    r.arg = turns;
    krig_prog(&r, "main", starts_burners);
    (void)krig_spawn(&r, "main", 0, NULL, 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_STR(r.log, "y"); /* never waits longer than one slice of another */
    int64_t all = turns[0] + turns[1] + turns[2] + turns[3];
    CHECK(llabs(turns[0] - turns[1]) <= all / 50);
    CHECK(turns[2] * 10 > turns[0] * 4 && turns[2] * 10 < turns[0] * 6);
    CHECK(turns[3] > 0 && turns[3] * 10 < turns[0]);
    CHECK_INT(krig_stop(&r), 0);
}

static int ponger(struct fib *f)
{
    char c;
    while (SYS(f, dz_sys_read(FK(f), (int)f->note[0], &c, 1)) == 1) {
        f->r->cpu += 100000;
        f->r->now += 100000;
        if (SYS(f, dz_sys_write(FK(f), (int)f->note[1], &c, 1)) != 1)
            break;
        if (f->r->cpu > 1000000000)
            return 0;
    }
    return 0;
}
static int ping_pong(struct fib *f)
{
    int a[2], b[2];
    OK(f, dz_sys_pipe2(FK(f), 0, a) == 0 && dz_sys_pipe2(FK(f), 0, b) == 0);
    f->note[0] = 2;
    f->note[1] = 0;
    OK(f, fib_fork(f, burner) > 0);
    f->note[0] = a[0];
    f->note[1] = b[1];
    OK(f, fib_fork(f, ponger) > 0);
    f->note[0] = b[0];
    f->note[1] = a[1];
    OK(f, fib_fork(f, ponger) > 0);
    OK(f, SYS(f, dz_sys_write(FK(f), a[1], "x", 1)) == 1);
    fib_sleep(f, 900);
    return 0;
}
TEST(sched_lets_nobody_starve)
{
    if (KRIG_IS_AWAY) /* there the host shares the processor */
        return;
    struct krig r;
    struct dz_job job = {0};
    int64_t turns[4] = {0};
    krig_start(&r);
    r.arg = turns;
    krig_prog(&r, "main", ping_pong);
    (void)krig_spawn(&r, "main", 0, NULL, 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK(turns[2] > 300000000 && turns[2] < 600000000); /* about half beside the pair */
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- calls that a handler comes into -------------------------------------------------------- */

/* Its parent gets a signal at 20 ms; it reads all that comes from 40 ms on. */
static int signals_then_reads(struct fib *f)
{
    static char buf[4096];
    OK(f, dz_sys_close(FK(f), (int)f->note[1]) == 0);
    fib_sleep(f, 20);
    (void)SYS(f, dz_sys_kill(FK(f), f->p->ppid, SIGUSR1));
    fib_sleep(f, 20);
    int64_t sum = 0, n;
    while ((n = SYS(f, dz_sys_read(FK(f), (int)f->note[0], buf, sizeof buf))) > 0)
        sum += n;
    return n == 0 ? (int)(sum / 10000) : 99;
}
/* As Linux: a write that has moved bytes ends with their number, one that has not goes on. */
static int writes_over_a_handler(struct fib *f)
{
    int fds[2], status = 0;
    static char data[DZ_KERNEL_PIPE_SIZE + 5000];
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    f->note[0] = fds[0];
    f->note[1] = fds[1];
    OK(f, act(f, SIGUSR1, 2, SA_RESTART, 0) == 0);
    int64_t pid = fib_fork(f, signals_then_reads);
    OK(f, dz_sys_close(FK(f), fds[0]) == 0);
    if (f->r->quiet) /* full already */
        OK(f, SYS(f, dz_sys_write(FK(f), fds[1], data, DZ_KERNEL_PIPE_SIZE)) > 0);
    int64_t n = SYS(f, dz_sys_write(FK(f), fds[1], data, sizeof data));
    OK(f, n == (f->r->quiet ? (int64_t)sizeof data : DZ_KERNEL_PIPE_SIZE) && f->note[7] == 1);
    OK(f, dz_sys_close(FK(f), fds[1]) == 0 && fib_wait(f, pid, &status) == pid);
    OK(f, WEXITSTATUS(status) == (f->r->quiet ? 13 : 6));
    return 0;
}
TEST(signal_ends_a_write_that_went_half_with_sa_restart_too)
{
    struct krig r;
    CHECK_INT(krig_main_as(writes_over_a_handler, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}
TEST(signal_restarts_a_write_that_has_moved_nothing)
{
    struct krig r;
    struct dz_job job = {0};
    krig_start(&r);
    r.quiet = true; /* the program looks at it: the pipe is full before */
    krig_prog(&r, "main", writes_over_a_handler);
    (void)krig_spawn(&r, "main", 0, NULL, 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int signals_then_opens(struct fib *f)
{
    fib_sleep(f, 20);
    (void)SYS(f, dz_sys_kill(FK(f), f->p->ppid, SIGUSR1));
    fib_sleep(f, 20);
    OK(f, fib_open(f, "/tmp/q", O_WRONLY) >= 0);
    fib_sleep(f, 20);
    return 0;
}
static int opens_over_a_handler(struct fib *f)
{
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = "/tmp/q"};
    OK(f, SYS(f, dz_sys_mknodat(FK(f), at, S_IFIFO | 0644, 0)) == 0);
    OK(f, act(f, SIGUSR1, 2, SA_RESTART, 0) == 0);
    int64_t pid = fib_fork(f, signals_then_opens);
    OK(f, fib_open(f, "/", O_RDONLY) == 0);
    int64_t t0 = f->r->now, fd = fib_open(f, "/tmp/q", O_RDONLY);
    OK(f, fd == 1 && f->note[7] == 1 && f->r->now - t0 == 40000000);
    OK(f, dz_sys_close(FK(f), 1) == 0 && fib_wait(f, pid, NULL) == pid);
    OK(f, act(f, SIGUSR1, 2, 0, 0) == 0);
    pid = fib_fork(f, signals_then_opens);
    OK(f, fib_open(f, "/tmp/q", O_RDONLY) == -EINTR && f->note[7] == 2);
    OK(f, dz_sys_fd(FK(f), 1) == NULL || dz_sys_fd(FK(f), 1)->file == 0); /* nothing is left */
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGKILL)) == 0);
    OK(f, fib_wait(f, pid, NULL) == pid);
    return f->k->tab[DZ_KERNEL_TABLE_PIPE].used == 0 ? 0 : 1;
}
TEST(signal_restarts_an_open_that_waits_for_its_peer)
{
    struct krig r;
    CHECK_INT(krig_main_as(opens_over_a_handler, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* The handler of 3 runs in the middle of its own signal, or not. */
static int nodefer(struct fib *f)
{
    OK(f, act(f, SIGUSR1, 2, SA_NODEFER, DZ_K_BIT(SIGUSR2)) == 0);
    f->note[6] = SIGUSR1; /* the first one sleeps 100 ms */
    f->note[0] = SIGUSR1;
    f->note[1] = 99;
    OK(f, fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR1)) == 0);
    dz_k_sig_sync(FK(f));
    OK(f, f->note[7] == 2 && dz_k_me(FK(f))->sig_mask == 0);
    return 0;
}
TEST(signal_nodefer_lets_itself_in)
{
    struct krig r;
    CHECK_INT(krig_main_as(nodefer, 0, &r), 0);
    CHECK_STR(r.log, "<10 <10 >>");
    CHECK_INT(krig_stop(&r), 0);
}

static int waits_long(struct fib *f)
{
    fib_sleep(f, 1000);
    return 0;
}
/* What a stop and a continue take from each other; an ignored signal that was pending. */
static int cancels(struct fib *f)
{
    uint64_t all = DZ_K_BIT(SIGCONT) | DZ_K_BIT(SIGTSTP) | DZ_K_BIT(SIGUSR1), pending = 0;
    OK(f, act(f, SIGCONT, 2, 0, 0) == 0 && mask(f, 0, all) == 0);
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGTSTP)) == 0);
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGCONT)) == 0);
    OK(f, dz_sys_sigpending(FK(f), &pending) == 0 && pending == DZ_K_BIT(SIGCONT));
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGTSTP)) == 0);
    OK(f, dz_sys_sigpending(FK(f), &pending) == 0 && pending == DZ_K_BIT(SIGTSTP));
    OK(f, act(f, SIGTSTP, 1, 0, 0) == 0);
    OK(f, dz_sys_sigpending(FK(f), &pending) == 0 && pending == 0);
    OK(f, act(f, SIGUSR1, 1, 0, 0) == 0); /* blocked: kept although it is ignored, as Linux does */
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR1)) == 0);
    OK(f, dz_sys_sigpending(FK(f), &pending) == 0 && pending == DZ_K_BIT(SIGUSR1));
    return 0;
}
TEST(signal_stop_and_continue_cancel_each_other)
{
    struct krig r;
    CHECK_INT(krig_main_as(cancels, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int asks_for_stops(struct fib *f)
{
    OK(f, act(f, SIGCHLD, 2, 0, 0) == 0); /* without SA_NOCLDSTOP */
    int64_t pid = fib_fork(f, waits_long);
    fib_sleep(f, 5);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGSTOP)) == 0);
    fib_sleep(f, 5);
    OK(f, f->note[7] == 1);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGCONT)) == 0);
    fib_sleep(f, 5);
    OK(f, f->note[7] == 2);
    OK(f, act(f, SIGCHLD, 0, 0, 0) == 0);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGSTOP)) == 0);
    fib_sleep(f, 5);
    int status = 0;
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGTERM)) == 0); /* kept until it goes on */
    fib_sleep(f, 5);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WNOHANG, NULL, NULL)) == 0);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGKILL)) == 0);
    OK(f, fib_wait(f, pid, &status) == pid && WTERMSIG(status) == SIGKILL);
    OK(f, dz_k_pgrp_orphaned(f->k, f->p->pgid, NULL)); /* a stop of the terminal does nothing */
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGTSTP)) == 0);
    return (f->p->flags & DZ_PROC_STOPPED) ? 1 : 0;
}
TEST(signal_chld_tells_of_stops)
{
    struct krig r;
    CHECK_INT(krig_main_as(asks_for_stops, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int keeps_its_mask(struct fib *f)
{
    f->note[0] = SIGUSR1;
    f->note[1] = 99;
    f->note[6] = SIGUSR1;
    OK(f, act(f, SIGUSR1, 2, 0, 0) == 0 && mask(f, 0, DZ_K_BIT(SIGUSR1)) == 0);
    OK(f, fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_sigsuspend(FK(f), 0)) == -EINTR);
    OK(f, dz_k_me(FK(f))->sig_mask ==
              DZ_K_BIT(SIGUSR1)); /* that of before the call, not of the wait */
    OK(f, act(f, SIGUSR2, 2, SA_RESETHAND, 0) == 0);
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR2)) == 0);
    return f->p->act[SIGUSR2 - 1].handler == 0 ? 0 : 1;
}
TEST(signal_suspend_gives_back_the_mask_of_before)
{
    struct krig r;
    CHECK_INT(krig_main_as(keeps_its_mask, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- who may ----------------------------------------------------------------------------------
 */

static int other_user(struct fib *f)
{
    OK(f, dz_sys_setuid(FK(f), 1001) == 0);
    fib_sleep(f, 50);
    return 0;
}
static int family(struct fib *f)
{
    int64_t pid = fib_fork(f, other_user);
    OK(f, fib_fork(f, waits_long) > 0);
    fib_sleep(f, 5);
    OK(f, dz_sys_setuid(FK(f), 1000) == 0);
    OK(f, dz_sys_kill(FK(f), (int)pid, SIGTERM) == -EPERM);
    OK(f, dz_sys_kill(FK(f), (int)pid, SIGCONT) == 0); /* one session */
    OK(f, dz_sys_kill(FK(f), -f->p->pgid, 0) == 0);    /* one of the group may be signalled */
    OK(f, dz_sys_kill(FK(f), -1, 0) == -EPERM);        /* none of the others, and not itself */
    fib_sleep(f, 5);
    return 0;
}
TEST(signal_reaches_who_may_be_reached)
{
    struct krig r;
    CHECK_INT(krig_main_as(family, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- at the very nanosecond ------------------------------------------------------------------ */

static int ticks_in_step(struct fib *f)
{
    int64_t t[2], set[2] = {10000000, 10000000}, left = 0;
    OK(f, act(f, SIGALRM, 2, SA_RESTART, 0) == 0);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, set, NULL) == 0);
    fib_burn(f, 35000000); /* three are missed: one signal, and the next one at 40 ms */
    (void)SYS(f, dz_sys_getpid(FK(f)));
    OK(f, f->note[7] == 1);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, NULL, t) == 0 && t[1] == 5000000);
    fib_burn(f, 5000000); /* at it exactly */
    (void)SYS(f, dz_sys_getpid(FK(f)));
    OK(f, f->note[7] == 2);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, NULL, t) == 0 && t[1] == 10000000);
    int64_t at = f->r->now + 30000000;
    OK(f, SYS(f, dz_sys_clock_nanosleep(FK(f), CLOCK_REALTIME, true, at, &left)) == -EINTR);
    OK(f, left == 20000000);
    set[0] = set[1] = 0;
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, set, NULL) == 0);
    OK(f, SYS(f, dz_sys_clock_nanosleep(FK(f), CLOCK_REALTIME, true, at, NULL)) == 0);
    return f->r->now == at ? 0 : 1;
}
TEST(timer_keeps_step_and_expires_at_its_time)
{
    struct krig r;
    CHECK_INT(krig_main_as(ticks_in_step, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- what a call leaves behind
 * -------------------------------------------------------------------- */

static int masks_for_a_poll(struct fib *f)
{
    struct pollfd none = {-1, 0, 0};
    const uint64_t usr2 = DZ_K_BIT(SIGUSR2);
    OK(f, mask(f, 2, DZ_K_BIT(SIGUSR1)) == 0);
    OK(f, SYS(f, dz_sys_poll(FK(f), &none, 1, 5000000, &usr2)) == 0);
    OK(f, dz_k_me(FK(f))->sig_mask == DZ_K_BIT(SIGUSR1)); /* when its time is up, too */
    int64_t t[2], set[2] = {0, 10000000};
    OK(f, mask(f, 2, DZ_K_BIT(SIGALRM)) == 0 && act(f, SIGALRM, 2, 0, 0) == 0);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, set, NULL) == 0);
    f->r->now += 30000000; /* it is over, and nobody has seen that */
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, NULL, t) == 0 && t[1] == 1);
    return 0;
}
TEST(signal_mask_of_a_poll_goes_with_it)
{
    struct krig r;
    CHECK_INT(krig_main_as(masks_for_a_poll, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static void closes(struct fib *f, int signo)
{
    (void)signo;
    (void)dz_sys_close(FK(f), (int)f->note[2]);
    f->note[7]++;
}
static int reads_what_a_handler_closes(struct fib *f)
{
    const struct dz_sigact a = {.handler = 3, .flags = 0, .mask = 0};
    int fds[2];
    char c;
    f->handler[3] = closes;
    f->note[0] = SIGUSR1;
    f->note[1] = 99;
    OK(f, dz_sys_sigaction(FK(f), SIGUSR1, &a, NULL) == 0);
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    f->note[2] = fds[0];
    OK(f, fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], &c, 1)) == -EINTR && f->note[7] == 1);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], &c, 1)) == -EBADF);
    return 0;
}
TEST(signal_that_closes_what_is_read_interrupts_the_read)
{
    struct krig r;
    CHECK_INT(krig_main_as(reads_what_a_handler_closes, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* What the call of a host function left parked when it was answered. A failure after a handler ran
 * is EINTR (a handler may have closed the descriptor); what was done is never hidden by it. */
static int64_t answered(struct fib *f, bool handled, int64_t r)
{
    struct dz_call *c = dz_k_my_call(FK(f));
    c->parked = 1;
    c->intr = handled;
    r = dz_kernel_call_end(FK(f), r);
    OK(f, !c->parked && !c->intr);
    return r;
}
static int ends_parked_calls(struct fib *f)
{
    OK(f, answered(f, true, 5) == 5);
    OK(f, answered(f, true, 0) == 0);
    OK(f, answered(f, true, -EBADF) == -EINTR);
    OK(f, answered(f, false, 5) == 5);
    OK(f, answered(f, false, -EBADF) == -EBADF);
    OK(f, dz_kernel_call_end(FK(f), -EBADF) == -EBADF); /* nothing is parked */
    return 0;
}
TEST(signal_hides_no_result_of_a_call)
{
    struct krig r;
    CHECK_INT(krig_main_as(ends_parked_calls, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}
