/* SPDX-License-Identifier: MIT
 * Signals: actions, masks, restart, stop and continue, timers, jumps. */
#include "check.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt, that is */

#include <poll.h>
#include <setjmp.h>
#include <sys/time.h>

static volatile sig_atomic_t hits, last_sig;
static void on(int s)
{
    hits++;
    last_sig = s;
}

static void handle(int s, int flags)
{
    struct sigaction a = {.sa_handler = on, .sa_flags = flags};
    CHECK_INT(sigaction(s, &a, NULL), 0);
}

TEST(handler_runs_and_program_goes_on)
{
    handle(SIGUSR1, 0);
    CHECK_INT(raise(SIGUSR1), 0);
    CHECK_INT(hits, 1);
    CHECK_INT(last_sig, SIGUSR1);
}

TEST(handler_interrupts_a_busy_loop)
{
    handle(SIGALRM, 0);
    struct itimerval t = {.it_value = {0, 20000}};
    CHECK_INT(setitimer(ITIMER_REAL, &t, NULL), 0);
    volatile unsigned long n = 0;
    while (!hits)
        n++;
    CHECK(n > 0);
}

static int end_to_close;
static void closes(int s)
{
    (void)s;
    hits++;
    close(end_to_close);
}

/* The wait of a call whose descriptor a handler closes is over, and the next call is not
 * taken for it. */
TEST(handler_closes_what_is_waited_for)
{
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction a = {.sa_handler = closes, .sa_flags = restart ? SA_RESTART : 0};
        struct itimerval t = {.it_value = {0, 20000}};
        int p[2], q[2];
        char c;
        CHECK_INT(sigaction(SIGALRM, &a, NULL), 0);
        CHECK(pipe(p) == 0 && pipe(q) == 0);
        end_to_close = p[0];
        CHECK_INT(setitimer(ITIMER_REAL, &t, NULL), 0);
        CHECK_ERR(read(p[0], &c, 1), restart ? EBADF : EINTR);
        struct pollfd none = {q[0], POLLIN, 0};
        CHECK_INT(poll(&none, 1, 1), 0);
        CHECK_INT(write(q[1], "x", 1), 1);
        CHECK_INT(read(q[0], &c, 1), 1);
    }
    CHECK_INT(hits, 2);
}

TEST(interval_timer_ticks)
{
    handle(SIGALRM, 0);
    struct itimerval t = {.it_interval = {0, 5000}, .it_value = {0, 5000}}, old;
    CHECK_INT(setitimer(ITIMER_REAL, &t, NULL), 0);
    while (hits < 5)
        pause();
    struct itimerval off = {0};
    CHECK_INT(setitimer(ITIMER_REAL, &off, &old), 0);
    CHECK_INT(old.it_interval.tv_usec, 5000);
}

TEST(blocked_signal_waits_until_unblocked)
{
    sigset_t set, pending, old;
    handle(SIGUSR1, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK_INT(sigprocmask(SIG_BLOCK, &set, &old), 0);
    raise(SIGUSR1);
    raise(SIGUSR1);
    CHECK_INT(hits, 0);
    CHECK_INT(sigpending(&pending), 0);
    CHECK(sigismember(&pending, SIGUSR1));
    CHECK_INT(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    CHECK_INT(hits, 1); /* standard signals do not queue */
}

static void nested(int s)
{
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    if (sigismember(&now, s) && sigismember(&now, SIGUSR2))
        hits++;
}

TEST(mask_during_handler_is_restored)
{
    struct sigaction a = {.sa_handler = nested};
    sigset_t now;
    sigaddset(&a.sa_mask, SIGUSR2);
    CHECK_INT(sigaction(SIGUSR1, &a, NULL), 0);
    raise(SIGUSR1);
    CHECK_INT(hits, 1);
    sigprocmask(SIG_SETMASK, NULL, &now);
    CHECK(!sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2));
}

TEST(resethand_and_ignore)
{
    struct sigaction now;
    handle(SIGUSR1, SA_RESETHAND);
    raise(SIGUSR1);
    CHECK_INT(hits, 1);
    CHECK_INT(sigaction(SIGUSR1, NULL, &now), 0);
    CHECK(now.sa_handler == SIG_DFL);
    CHECK(signal(SIGUSR2, SIG_IGN) == SIG_DFL);
    raise(SIGUSR2);
    CHECK(signal(SIGUSR2, on) == SIG_IGN);
    CHECK_ERR(sigaction(SIGKILL, &now, NULL), EINVAL);
    CHECK_ERR(sigaction(0, &now, NULL), EINVAL);
}

static pid_t signal_me_later(int sig, long ms)
{
    pid_t me = getpid(), pid = fork();
    if (pid == 0) {
        nap_ms(ms);
        kill(me, sig);
        nap_ms(ms);
        kill(me, sig);
        _exit(0);
    }
    return pid;
}

TEST(read_is_interrupted_or_restarted)
{
    int fd[2];
    char c;
    CHECK_INT(pipe(fd), 0);
    handle(SIGUSR1, 0);
    pid_t pid = signal_me_later(SIGUSR1, 10);
    CHECK_ERR(read(fd[0], &c, 1), EINTR);
    CHECK_INT(wait_for(pid), 0);
    hits = 0;
    handle(SIGUSR1, SA_RESTART);
    pid_t me = getpid();
    pid = fork();
    if (pid == 0) {
        nap_ms(10);
        kill(me, SIGUSR1);
        nap_ms(10);
        (void)!write(fd[1], "z", 1);
        _exit(0);
    }
    CHECK_INT(read(fd[0], &c, 1), 1);
    CHECK_INT(hits, 1);
    CHECK_INT(wait_for(pid), 0);
}

TEST(nanosleep_reports_what_is_left)
{
    struct timespec t = {5, 0}, left = {0, 0};
    handle(SIGALRM, SA_RESTART);
    struct itimerval it = {.it_value = {0, 30000}};
    setitimer(ITIMER_REAL, &it, NULL);
    CHECK_ERR(nanosleep(&t, &left), EINTR);
    CHECK(left.tv_sec >= 3 && left.tv_sec < 5);
}

TEST(sigsuspend_lets_one_in)
{
    sigset_t all, none, old;
    handle(SIGUSR1, 0);
    sigfillset(&all);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &all, &old);
    pid_t pid = signal_me_later(SIGUSR1, 5);
    CHECK_ERR(sigsuspend(&none), EINTR);
    CHECK(hits >= 1);
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    CHECK(sigismember(&now, SIGUSR1));
    CHECK_INT(wait_for(pid), 0);
}

TEST(sigwait_takes_without_a_handler)
{
    sigset_t set;
    int sig = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR2);
    CHECK_INT(sigwait(&set, &sig), 0);
    CHECK_INT(sig, SIGUSR2);
    struct timespec t = {0, 5000000};
    CHECK_ERR(sigtimedwait(&set, NULL, &t), EAGAIN);
}

TEST(sigchld_arrives)
{
    handle(SIGCHLD, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    while (!hits)
        nap_ms(1);
    CHECK_INT(last_sig, SIGCHLD);
    CHECK_INT(wait_for(pid), 0);
}

TEST(nocldwait_leaves_no_zombie)
{
    struct sigaction a = {.sa_handler = SIG_IGN};
    CHECK_INT(sigaction(SIGCHLD, &a, NULL), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    CHECK_ERR(waitpid(pid, NULL, 0), ECHILD);
}

TEST(stop_and_continue_are_reported)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    CHECK_INT(kill(pid, SIGSTOP), 0);
    CHECK_INT(waitpid(pid, &status, WUNTRACED), pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK_INT(kill(pid, SIGCONT), 0);
    CHECK_INT(waitpid(pid, &status, WCONTINUED), pid);
    CHECK(WIFCONTINUED(status));
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(kill_checks_and_group)
{
    CHECK_ERR(kill(30000, 0), ESRCH);
    CHECK_ERR(kill(getpid(), 65), EINVAL);
    CHECK_INT(kill(getpid(), 0), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        if (fork() == 0)
            for (;;)
                pause();
        for (;;)
            pause();
    }
    setpgid(pid, pid);
    nap_ms(10);
    CHECK_INT(kill(-pid, SIGTERM), 0);
    CHECK_INT(wait_for(pid), 1000 + SIGTERM);
}

static sigjmp_buf out;
static void jump(int s)
{
    (void)s;
    siglongjmp(out, 42);
}

TEST(siglongjmp_out_of_a_handler)
{
    sigset_t now;
    signal(SIGALRM, jump);
    volatile int rounds = 0;
    int v = sigsetjmp(out, 1);
    if (v == 0 || rounds < 3) {
        rounds++;
        struct itimerval it = {.it_value = {0, 3000}};
        setitimer(ITIMER_REAL, &it, NULL);
        for (;;)
            ;
    }
    CHECK_INT(v, 42);
    CHECK_INT(rounds, 3);
    sigprocmask(SIG_SETMASK, NULL, &now);
    CHECK(!sigismember(&now, SIGALRM));
}

static jmp_buf deep;
static int dive(int n);
static int (*volatile again)(int) = dive; /* the compiler must not see through it */
static int dive(int n)
{
    volatile char pad[64];
    pad[0] = (char)n;
    if (n > 0)
        return again(n - 1) + pad[0];
    longjmp(deep, 9);
}

TEST(longjmp_out_of_a_thousand_frames)
{
    volatile int times = 0;
    int v = setjmp(deep);
    times++;
    if (v == 0)
        (void)dive(1000);
    CHECK_INT(v, 9);
    CHECK_INT(times, 2);
    if (setjmp(deep) == 0)
        longjmp(deep, 0); /* 0 becomes 1 */
    else
        times++;
    CHECK_INT(times, 3);
}

TEST(alarm_returns_the_rest)
{
    CHECK_INT(alarm(100), 20); /* the harness's own */
    unsigned rest = alarm(20);
    CHECK(rest == 100 || rest == 99);
}

static volatile int got_code, got_signo;
static void info(int s, siginfo_t *si, void *ctx)
{
    (void)s;
    (void)ctx;
    got_code = si->si_code;
    got_signo = si->si_signo;
}

TEST(siginfo_handler)
{
    struct sigaction a = {.sa_sigaction = info, .sa_flags = SA_SIGINFO}, back;
    CHECK_INT(sigaction(SIGUSR1, &a, NULL), 0);
    raise(SIGUSR1);
    CHECK_INT(got_signo, SIGUSR1);
    CHECK(got_code <= 0); /* sent by a process */
    CHECK_INT(sigaction(SIGUSR1, NULL, &back), 0);
    CHECK(back.sa_sigaction == info && (back.sa_flags & SA_SIGINFO));
}

TEST(sets_of_signals)
{
    sigset_t a, b, c;
    sigemptyset(&a);
    CHECK_INT(sigisemptyset(&a), 1);
    sigaddset(&a, SIGINT);
    sigaddset(&a, SIGTERM);
    sigfillset(&b);
    CHECK_INT(sigdelset(&b, SIGTERM), 0);
    CHECK_INT(sigandset(&c, &a, &b), 0);
    CHECK(sigismember(&c, SIGINT) == 1 && sigismember(&c, SIGTERM) == 0);
    CHECK_INT(sigorset(&c, &a, &b), 0);
    CHECK_INT(sigismember(&c, SIGTERM), 1);
    CHECK_INT(sigisemptyset(&c), 0);
    CHECK_ERR(sigdelset(&a, 0), EINVAL);
    CHECK_ERR(sigismember(&a, 1000), EINVAL);
    CHECK(SIGRTMIN > 31 && SIGRTMAX == 64);
}

static void noted(int sig)
{
    (void)sig;
}

TEST(siginterrupt_decides_about_restarting)
{
    int fd[2];
    char c;
    CHECK_INT(pipe(fd), 0);
    signal(SIGALRM, noted);
    CHECK_INT(siginterrupt(SIGALRM, 1), 0);
    ualarm(20000, 0);
    CHECK_ERR(read(fd[0], &c, 1), EINTR);
    CHECK_INT(siginterrupt(SIGALRM, 0), 0);
    pid_t pid = fork();
    if (pid == 0) {
        nap_ms(80);
        (void)!write(fd[1], "x", 1);
        _exit(0);
    }
    ualarm(20000, 0);
    CHECK_INT(read(fd[0], &c, 1), 1);
    CHECK_INT(wait_for(pid), 0);
}

TEST(groups_are_signalled_and_waits_tell_who)
{
    sigset_t set;
    siginfo_t info;
    CHECK_INT(setpgid(0, 0), 0);
    CHECK_ERR(killpg(-5, SIGTERM), EINVAL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK_INT(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    CHECK_INT(killpg(getpgrp(), SIGUSR1), 0);
    CHECK_INT(sigwaitinfo(&set, &info), SIGUSR1);
    CHECK_INT(info.si_signo, SIGUSR1);
}
