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
    const struct dz_sigact a = {handler, flags, mask};
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
    OK(f, f->p->sig_mask == ~(DZ_K_BIT(SIGKILL) | DZ_K_BIT(SIGSTOP)));
    OK(f, f->p->depth == 0);
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
    OK(f, f->p->depth == 0 && f->p->sig_mask == 0);
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
    OK(f, f->note[7] == 4 && f->p->sig_mask == 0 && f->p->depth == 0);
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
    OK(f, f->p->sig_mask == (DZ_K_BIT(SIGUSR1) | DZ_K_BIT(SIGUSR2)));
    OK(f, fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(SIGUSR1), -1)) == SIGUSR1);
    OK(f, f->note[7] == 1);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(SIGUSR1), 5000000)) == -EAGAIN);
    struct pollfd none = {-1, 0, 0};
    const uint64_t empty = 0;
    OK(f, fib_fork(f, sends) > 0);
    OK(f, SYS(f, dz_sys_poll(FK(f), &none, 1, -1, &empty)) == -EINTR && f->note[7] == 2);
    OK(f, f->p->sig_mask == (DZ_K_BIT(SIGUSR1) | DZ_K_BIT(SIGUSR2)));
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
    const struct dz_sigact a = {3, SA_NODEFER, 0};
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
    const struct dz_proc *c = dz_k_find(f->k, (int32_t)pid);
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
