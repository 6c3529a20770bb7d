/* SPDX-License-Identifier: MIT
 * Threads of one process, and signals that tell something and queue. */
#include "../lib/kernel_rig.h"
#include "tap.h"

/* The main thread is tid = pid, others have numbers that no process gets. */
static int names_itself(struct fib *f)
{
    int64_t *seen = f->r->arg;
    seen[0] = dz_sys_gettid(FK(f));
    seen[1] = dz_sys_getpid(FK(f));
    fib_sleep(f, 50);
    seen[2] = dz_sys_gettid(FK(f));
    (void)SYS(f, dz_sys_exit_thread(FK(f), 3));
    return 97; /* not reached */
}
static int nothing(struct fib *f)
{
    (void)f;
    return 0;
}
static int two_threads(struct fib *f)
{
    int64_t seen[3] = {0};
    int status;
    f->r->arg = seen;
    int32_t tid = fib_thread(f, names_itself);
    OK(f, tid > 0 && tid != f->p->pid && dz_sys_gettid(FK(f)) == f->p->pid);
    fib_sleep(f, 10);
    OK(f, seen[0] == tid && seen[1] == f->p->pid && seen[2] == 0);
    int64_t pid = fib_fork(f, nothing);
    OK(f, pid > 0 && pid != tid);
    OK(f, dz_k_find(f->k, tid) == NULL); /* no process has a thread's number */
    OK(f, dz_sys_kill(FK(f), tid, 0) == -ESRCH);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    fib_sleep(f, 100);
    OK(f, seen[2] == tid && dz_k_thread_find(f->k, tid) == NULL);
    return 0;
}
TEST(thread_has_a_number_of_its_own_and_ends_alone)
{
    struct krig r;
    CHECK_INT(krig_main_as(two_threads, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* The process ends with all of them, whoever exits or is killed. */
static int sleeps(struct fib *f)
{
    fib_sleep(f, 1000000);
    return 96;
}
static int exits_soon(struct fib *f)
{
    fib_sleep(f, 10);
    return 7;
}
static int has_sleepers(struct fib *f)
{
    (void)fib_thread(f, sleeps);
    (void)fib_thread(f, exits_soon);
    fib_sleep(f, 1000000);
    return 95;
}
static int is_killed(struct fib *f)
{
    (void)fib_thread(f, sleeps);
    fib_sleep(f, 1000000);
    return 94;
}
static int parent_of_threads(struct fib *f)
{
    int status;
    int64_t pid = fib_fork(f, has_sleepers);
    OK(f, fib_wait(f, pid, &status) == pid && WEXITSTATUS(status) == 7);
    pid = fib_fork(f, is_killed);
    fib_sleep(f, 10);
    OK(f, dz_sys_kill(FK(f), (int)pid, SIGKILL) == 0);
    OK(f, fib_wait(f, pid, &status) == pid && WTERMSIG(status) == SIGKILL);
    OK(f, f->k->tab[DZ_KERNEL_TABLE_THREAD].used == 1);
    return 0;
}
TEST(thread_that_exits_its_process_ends_the_others)
{
    struct krig r;
    CHECK_INT(krig_main_as(parent_of_threads, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- who gets a signal ------------------------------------------------------------ */

static int32_t got_by[8];
static int gots;
static void note_tid(struct fib *f, int signo)
{
    (void)signo;
    got_by[gots++ % 8] = (int32_t)dz_sys_gettid(FK(f));
}
static int waits_open(struct fib *f)
{
    while (f) /* a handler ends a sleep */
        fib_sleep(f, 1000000);
    return 93;
}
static int signals_threads(struct fib *f)
{
    const struct dz_sigact a = {.handler = 2};
    const uint64_t usr = DZ_K_BIT(SIGUSR1) | DZ_K_BIT(SIGUSR2);
    f->handler[2] = note_tid;
    gots = 0;
    OK(f, dz_sys_sigaction(FK(f), SIGUSR1, &a, NULL) == 0);
    OK(f, dz_sys_sigaction(FK(f), SIGUSR2, &a, NULL) == 0);
    int32_t one = fib_thread(f, waits_open), two = fib_thread(f, waits_open);
    OK(f, dz_sys_sigprocmask(FK(f), 0, &usr, NULL) == 0); /* of this thread only */
    fib_sleep(f, 1);
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR1)) == 0);
    fib_sleep(f, 1);
    OK(f, gots == 1 && (got_by[0] == one || got_by[0] == two)); /* who does not block it */
    OK(f, SYS(f, dz_sys_tgkill(FK(f), f->p->pid, two, SIGUSR1)) == 0);
    OK(f, SYS(f, dz_sys_tgkill(FK(f), 0, one, SIGUSR2)) == 0);
    fib_sleep(f, 1);
    OK(f, gots == 3 && got_by[1] != got_by[2]);
    OK(f, SYS(f, dz_sys_tgkill(FK(f), f->p->pid, f->p->pid, SIGUSR1)) == 0);
    uint64_t pending = 0;
    OK(f, dz_sys_sigpending(FK(f), &pending) == 0 && pending == DZ_K_BIT(SIGUSR1));
    fib_sleep(f, 1);
    OK(f, gots == 3); /* it waits for this thread, which blocks it */
    OK(f, dz_sys_sigprocmask(FK(f), 1, &usr, NULL) == 0);
    fib_sleep(f, 1);
    OK(f, gots == 4 && got_by[3] == f->p->pid);
    OK(f, dz_sys_tgkill(FK(f), f->p->pid + 1, one, 0) == -ESRCH);
    OK(f, dz_sys_tgkill(FK(f), f->p->pid, 9999, 0) == -ESRCH);
    OK(f, dz_sys_tgkill(FK(f), f->p->pid, 0, 0) == -EINVAL);
    OK(f, dz_sys_tgkill(FK(f), f->p->pid, one, 65) == -EINVAL);
    return 0;
}
TEST(thread_signals_reach_the_thread_and_those_of_a_process_whoever_is_open)
{
    struct krig r;
    CHECK_INT(krig_main_as(signals_threads, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- what a signal tells ------------------------------------------------------------ */

static int64_t told[16];
static int tolds;
static void note_value(struct fib *f, int signo)
{
    told[tolds++ % 16] = signo * 1000 + (int64_t)f->info[signo].value;
}
static int queue(struct fib *f, int signo, int value)
{
    const struct dz_siginfo info = {.signo = signo, .code = SI_QUEUE, .value = (uint64_t)value};
    return (int)dz_sys_sigqueue(FK(f), f->p->pid, 0, &info);
}
static int queues(struct fib *f)
{
    const struct dz_sigact a = {.handler = 2, .mask = UINT64_MAX};
    const uint64_t all = UINT64_MAX;
    struct dz_siginfo info = {0};
    f->handler[2] = note_value;
    tolds = 0;
    (void)dz_sys_sigprocmask(FK(f), 2, &all, NULL);
    for (int signo = 34; signo <= 36; signo++)
        OK(f, dz_sys_sigaction(FK(f), signo, &a, NULL) == 0);
    OK(f, dz_sys_sigaction(FK(f), SIGUSR1, &a, NULL) == 0);
    OK(f, queue(f, 35, 1) == 0 && queue(f, 34, 2) == 0 && queue(f, 35, 3) == 0);
    OK(f, queue(f, SIGUSR1, 4) == 0 && queue(f, SIGUSR1, 5) == 0 && queue(f, 34, 6) == 0);
    OK(f, f->k->tab[DZ_KERNEL_TABLE_SIGINFO].used == 5); /* one of SIGUSR1 */
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(35), -1, &info)) == 35);
    OK(f, info.value == 1 && info.code == SI_QUEUE && info.pid == f->p->pid);
    const uint64_t none = 0;
    (void)SYS(f, dz_sys_sigprocmask(FK(f), 2, &none, NULL));
    for (int i = 0; i < 4; i++) /* each handler blocks the others, and ends a sleep */
        fib_sleep(f, 1);
    OK(f, tolds == 4 && told[0] == SIGUSR1 * 1000 + 4);
    OK(f, told[1] == 34002 && told[2] == 34006 && told[3] == 35003);
    OK(f, f->k->tab[DZ_KERNEL_TABLE_SIGINFO].used == 0);
    return 0;
}
TEST(signal_of_real_time_queues_and_the_lowest_oldest_comes_first)
{
    struct krig r;
    CHECK_INT(krig_main_as(queues, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int limited(struct fib *f)
{
    const uint64_t all = UINT64_MAX, three[2] = {3, 3};
    struct dz_siginfo info = {0};
    (void)dz_sys_sigprocmask(FK(f), 2, &all, NULL);
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_SIGPENDING, three, NULL) == 0);
    for (int i = 0; i < 3; i++)
        OK(f, queue(f, 40, i) == 0);
    OK(f, queue(f, 40, 3) == -EAGAIN && queue(f, 41, 0) == -EAGAIN);
    OK(f, queue(f, SIGUSR2, 9) == 0);                   /* waits, but tells nothing */
    OK(f, dz_sys_kill(FK(f), f->p->pid, 42) == 0);      /* kill(2) never says EAGAIN */
    OK(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR1) == 0); /* the limit does not bind it */
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(SIGUSR2), -1, &info)) == SIGUSR2);
    OK(f, info.code == SI_USER && info.value == 0 && info.pid == 0);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(SIGUSR1), -1, &info)) == SIGUSR1);
    OK(f, info.pid == f->p->pid);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(42), -1, &info)) == 42);
    OK(f, info.pid == 0);
    for (uint64_t i = 0; i < 3; i++)
        OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(40), -1, &info)) == 40 && info.value == i);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(40), 1000, &info)) == -EAGAIN);
    const struct dz_siginfo forged = {.signo = SIGUSR1, .code = SI_USER};
    OK(f, dz_sys_sigqueue(FK(f), 1, 0, &forged) == -EPERM);
    return 0;
}
TEST(signal_queues_are_bounded_as_on_linux)
{
    struct krig r;
    CHECK_INT(krig_main_as(limited, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* What a child's end and its stop tell. */
static int seven(struct fib *f)
{
    (void)f;
    return 7;
}
static int told_of_child(struct fib *f)
{
    const uint64_t chld = DZ_K_BIT(SIGCHLD);
    struct dz_siginfo info = {0};
    (void)dz_sys_sigprocmask(FK(f), 2, &chld, NULL);
    int64_t pid = fib_fork(f, seven);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), chld, -1, &info)) == SIGCHLD);
    OK(f, info.code == CLD_EXITED && info.pid == pid && info.status == 7);
    OK(f, fib_wait(f, pid, NULL) == pid);
    pid = fib_fork(f, sleeps);
    fib_sleep(f, 1);
    OK(f, dz_sys_kill(FK(f), (int)pid, SIGSTOP) == 0);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), chld, -1, &info)) == SIGCHLD);
    OK(f, info.code == CLD_STOPPED && info.pid == pid && info.status == SIGSTOP);
    OK(f, dz_sys_kill(FK(f), (int)pid, SIGKILL) == 0);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), chld, -1, &info)) == SIGCHLD);
    OK(f, info.code == CLD_KILLED && info.status == SIGKILL);
    return 0;
}
TEST(signal_tells_which_child_and_how_it_ended)
{
    struct krig r;
    CHECK_INT(krig_main_as(told_of_child, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- at the edges --------------------------------------------------------------------- */

static int leaves_the_others(struct fib *f)
{
    (void)fib_thread(f, exits_soon);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 3)); /* the first one alone */
    return 92;
}
static int edges(struct fib *f)
{
    const uint64_t usr = DZ_K_BIT(SIGUSR1) | DZ_K_BIT(SIGUSR2) | DZ_K_BIT(SIGWINCH);
    uint64_t pending = 0;
    int status;
    int64_t pid = fib_fork(f, leaves_the_others);
    OK(f, fib_wait(f, pid, &status) == pid && WEXITSTATUS(status) == 7);
    int32_t tid = fib_thread(f, sleeps);
    f->k->next_pid = (uint32_t)tid - 1; /* as when numbers have gone round */
    pid = fib_fork(f, nothing);
    OK(f, pid > tid && fib_wait(f, pid, &status) == pid);
    OK(f, dz_sys_sigprocmask(FK(f), 0, &usr, NULL) == 0);
    OK(f, dz_sys_tgkill(FK(f), 0, f->p->pid, SIGUSR1) == 0);
    dz_k_thread_find(f->k, tid)->sig_mask = usr & ~DZ_K_BIT(SIGWINCH);
    OK(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR2) == 0);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), DZ_K_BIT(SIGUSR2), 1000, NULL)) == SIGUSR2);
    OK(f, dz_sys_tgkill(FK(f), 0, f->p->pid, SIGWINCH) == 0); /* ignored, but blocked by it */
    OK(f, dz_sys_sigpending(FK(f), &pending) == 0);
    OK(f, pending == (DZ_K_BIT(SIGUSR1) | DZ_K_BIT(SIGWINCH)));
    OK(f, dz_sys_tgkill(FK(f), 0, tid, SIGWINCH) == 0); /* and not by that one */
    OK(f, dz_k_thread_find(f->k, tid)->sig_pending == 0);
    return 0;
}
TEST(thread_signals_and_numbers_at_the_edges)
{
    struct krig r;
    CHECK_INT(krig_main_as(edges, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- exec by a thread that is not the first --------------------------------------------- */

static int is_whole(struct fib *f)
{
    OK(f, dz_sys_gettid(FK(f)) == f->p->pid);
    OK(f, f->p->threads == dz_k_me(FK(f))->index && dz_k_me(FK(f))->next == 0);
    OK(f, dz_k_thread_find(f->k, f->p->pid) == dz_k_me(FK(f)));
    return 5;
}
static int execs(struct fib *f)
{
    fib_sleep(f, 5);
    (void)SYS(f, dz_sys_execve(FK(f), (struct dz_at){.dirfd = AT_FDCWD, .path = "/bin/whole"},
                               (struct dz_strings){"whole", 6, 1}, (struct dz_strings){0}));
    return 91;
}
static int has_one_that_execs(struct fib *f)
{
    (void)fib_thread(f, sleeps);
    (void)fib_thread(f, execs);
    fib_sleep(f, 1000000);
    return 90;
}
TEST(thread_that_calls_exec_becomes_its_process)
{
    struct krig r;
    struct dz_job job = {0};
    krig_start(&r);
    krig_prog(&r, "main", has_one_that_execs);
    krig_prog(&r, "whole", is_whole);
    (void)krig_spawn(&r, "main", 0, NULL, 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(WEXITSTATUS(job.status), 5);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- stopped while they run ----------------------------------------------------------- */

static int spins(struct fib *f)
{
    for (int i = 0; i < 50; i++)
        fib_burn(f, 1000000);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 89;
}
static int spinners(struct fib *f)
{
    for (int i = 0; i < 3; i++)
        (void)fib_thread(f, spins);
    (void)spins(f);
    return 88;
}
static int stops_spinners(struct fib *f)
{
    int status;
    int64_t pid = fib_fork(f, spinners);
    for (int i = 0; i < 40; i++) {
        fib_burn(f, 1000000);
        OK(f, dz_sys_kill(FK(f), (int)pid, i % 2 ? SIGCONT : SIGSTOP) == 0);
    }
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    return 0;
}
TEST(thread_that_runs_is_stopped_and_goes_on_with_its_process)
{
    struct krig r;
    CHECK_INT(krig_main_as(stops_spinners, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int lingers(struct fib *f)
{
    for (int i = 0; i < 20; i++) {
        f->lingers = 3;
        fib_burn(f, 1000000);
    }
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 87;
}
static int has_one_that_lingers(struct fib *f)
{
    (void)fib_thread(f, lingers);
    (void)spins(f);
    return 86;
}
static int stops_one_that_is_away(struct fib *f)
{
    int status;
    int64_t pid = fib_fork(f, has_one_that_lingers);
    for (int i = 0; i < 40; i++) { /* one of its threads stops it, the other is away then */
        fib_burn(f, 1000000);
        OK(f, dz_sys_kill(FK(f), (int)pid, i % 3 == 2 ? SIGCONT : SIGSTOP) == 0);
    }
    OK(f, dz_sys_kill(FK(f), (int)pid, SIGCONT) == 0);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    return 0;
}
TEST(thread_that_is_away_when_its_process_goes_on_is_not_started_twice)
{
    struct krig r;
    CHECK_INT(krig_main_as(stops_one_that_is_away, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- clocks of processor time --------------------------------------------------------- */

/* As pthread_getcpuclockid and clock_getcpuclockid make them. */
static int clock_of(int64_t id, bool is_thread)
{
    return (int)(~(uint32_t)id << 3) | (is_thread ? 6 : 2);
}
static int64_t cpu_of(struct fib *f, int clock)
{
    int64_t ns = -1, r = dz_sys_clock_gettime(FK(f), clock, &ns);
    return r < 0 ? r : ns;
}
static int works(struct fib *f)
{
    fib_burn(f, 5000000);
    OK(f, cpu_of(f, CLOCK_THREAD_CPUTIME_ID) == 5000000);
    fib_sleep(f, 1000);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 85;
}
static int child_looks(struct fib *f)
{
    OK(f, cpu_of(f, clock_of(2, false)) == 12000000); /* the parent, which is another process */
    OK(f, cpu_of(f, clock_of(2, true)) == -EINVAL);
    return 0;
}
static int looks_at_clocks(struct fib *f)
{
    int status;
    fib_burn(f, 7000000);
    const int64_t tid = fib_thread(f, works);
    fib_sleep(f, 100);
    OK(f, cpu_of(f, CLOCK_THREAD_CPUTIME_ID) == 7000000);
    OK(f, cpu_of(f, CLOCK_PROCESS_CPUTIME_ID) == 12000000);
    OK(f, cpu_of(f, clock_of(tid, true)) == 5000000);
    OK(f, cpu_of(f, clock_of(0, true)) == 7000000);
    OK(f, cpu_of(f, clock_of(dz_sys_getpid(FK(f)), true)) == 7000000);
    OK(f, cpu_of(f, clock_of(0, false)) == 12000000);
    OK(f, cpu_of(f, clock_of(0, false) - 1) == 12000000); /* CPUCLOCK_VIRT */
    OK(f, cpu_of(f, clock_of(0, false) + 1) == -EINVAL);  /* that of a descriptor */
    OK(f, cpu_of(f, clock_of(999, true)) == -EINVAL);
    OK(f, cpu_of(f, clock_of(999, false)) == -EINVAL);
    const int64_t pid = fib_fork(f, child_looks);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    return 0;
}
TEST(thread_has_a_clock_of_its_processor_time)
{
    struct krig r;
    CHECK_INT(krig_main_as(looks_at_clocks, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}
