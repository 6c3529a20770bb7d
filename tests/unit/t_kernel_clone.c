/* SPDX-License-Identifier: MIT
 * Processes and threads as native programs make them, wait for them and signal them. What Linux
 * answers to the same arguments the tests ask it, where that changes nothing. */
#define KRIG_NATIVE
#include "../lib/kernel_rig.h"
#include "tap.h"

#include <sys/syscall.h>
#include <unistd.h>

#define THREAD                                                                          \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | \
     CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

static int64_t clones(struct fib *f, fib_main child, const struct dz_clone *how)
{
    int pidfd = -1;
    f->child = child;
    int64_t r = SYS(f, dz_sys_clone(FK(f), how, &pidfd));
    f->note[7] = pidfd;
    return r;
}

static int run(fib_main does, uint32_t uid)
{
    struct krig r;
    int status = krig_main_as(does, uid, &r);
    return krig_stop(&r) == 0 ? status : -2;
}

/* ---- threads ---------------------------------------------------------------------------- */

static int joined(struct fib *f)
{
    const struct dz_thread *t = dz_k_me(FK(f));
    OK(f, t->tid != f->p->pid && t->alt_size == 0 && t->sig_mask == DZ_K_BIT(SIGUSR2));
    OK(f, f->r->words[5] == (uint32_t)t->tid); /* CLONE_PARENT_SETTID */
    fib_sleep(f, 10);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 3));
    return 90;
}
static int joins(struct fib *f)
{
    const uint64_t usr = DZ_K_BIT(SIGUSR2);
    const struct dz_altstack alt = {.at = 0x1000, .size = 8192};
    const struct dz_clone how = {.flags = THREAD, .parent_tid = 20, .child_tid = 20};
    OK(f, dz_sys_sigprocmask(FK(f), 0, &usr, NULL) == 0);
    OK(f, dz_sys_sigaltstack(FK(f), 0, &alt, NULL) == 0);
    int64_t tid = clones(f, joined, &how);
    OK(f, tid > 0 && f->r->words[5] == (uint32_t)tid && dz_k_me(FK(f))->next != 0);
    while (f->r->words[5] != 0) { /* as pthread_join does: CLONE_CHILD_CLEARTID wakes it */
        struct dz_futex w = {.at = 20};
        int64_t r = SYS(f, dz_sys_futex_wait(FK(f), w, (uint32_t)tid, 1, INT64_MAX));
        OK(f, r == 0 || r == -EAGAIN);
    }
    OK(f, dz_k_me(FK(f))->next == 0);
    return 0;
}
TEST(clone_makes_a_thread_that_can_be_joined)
{
    CHECK_INT(run(joins, 1000), 0);
}

static int goes_on(struct fib *f)
{
    fib_sleep(f, 5);
    return 4; /* exit(2) of the last thread */
}
static int last_thread(struct fib *f)
{
    fib_sleep(f, 10);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 3));
    return 90;
}
static int leader(struct fib *f)
{
    const struct dz_clone how = {.flags = THREAD};
    OK(f, clones(f, last_thread, &how) > 0);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 7));
    return 90;
}
static int group_leader(struct fib *f)
{
    const struct dz_clone how = {.flags = THREAD};
    OK(f, clones(f, goes_on, &how) > 0);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 7));
    return 90;
}
static int waits_for_leaders(struct fib *f)
{
    int status;
    int64_t pid = fib_fork(f, leader);
    OK(f, fib_wait(f, pid, &status) == pid && WEXITSTATUS(status) == 7);
    pid = fib_fork(f, group_leader);
    OK(f, fib_wait(f, pid, &status) == pid && WEXITSTATUS(status) == 4);
    return 0;
}
TEST(exit_status_is_the_first_threads_or_that_of_exit_group)
{
    CHECK_INT(run(waits_for_leaders, 0), 0);
}

/* Flags that nobody may combine: Linux refuses the same, before it makes anybody. */
static int combines(struct fib *f)
{
    static const uint64_t bad[] = {
        CLONE_THREAD,
        CLONE_THREAD | CLONE_SIGHAND,
        CLONE_SIGHAND,
        CLONE_SIGHAND | CLONE_FILES,
        CLONE_PIDFD | CLONE_DETACHED,
        CLONE_NEWNS | CLONE_FS,
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        const struct dz_clone how = {.flags = bad[i], .exit_signal = SIGCHLD};
        int64_t ours = clones(f, goes_on, &how);
        long theirs = syscall(SYS_clone, bad[i] | SIGCHLD, NULL, NULL, NULL, 0);
        if (theirs == 0)
            _exit(0);
        OK(f, theirs == -1 && errno == EINVAL);
        OK(f, ours == -EINVAL);
    }
    const struct dz_clone some = {.flags = CLONE_VM | CLONE_FILES}; /* we have no such sharing */
    OK(f, clones(f, goes_on, &some) == -EINVAL);
    const struct dz_clone huge = {.exit_signal = 65};
    OK(f, clones(f, goes_on, &huge) == -EINVAL);
    const struct dz_clone user = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    OK(f, clones(f, goes_on, &user) == -EPERM);
    OK(f, f->k->forks == 0);
    return 0;
}
TEST(clone_refuses_flags_as_linux_does)
{
    CHECK_INT(run(combines, 0), 0);
}

/* ---- vfork --------------------------------------------------------------------------------- */

static int borrows(struct fib *f)
{
    fib_sleep(f, 10);
    krig_log(f->r, "child ");
    return 6;
}
static int never_ends(struct fib *f)
{
    fib_sleep(f, 1000000);
    return 1;
}
static int waits_in_vfork(struct fib *f)
{
    const struct dz_clone how = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
    (void)clones(f, never_ends, &how);
    return 1;
}
static int lends(struct fib *f)
{
    const struct dz_clone how = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
    int status;
    int64_t pid = clones(f, borrows, &how);
    krig_log(f->r, "parent ");
    OK(f, fib_wait(f, pid, &status) == pid && WEXITSTATUS(status) == 6);
    pid = fib_fork(f, waits_in_vfork);
    fib_sleep(f, 10);
    const struct dz_thread *t = dz_k_thread_find(f->k, (int32_t)pid);
    OK(f, t && t->state == DZ_THREAD_VFORK);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGTERM)) == 0); /* waits until it has its memory */
    fib_sleep(f, 10);
    OK(f, t->state == DZ_THREAD_VFORK && t->tid == pid);
    int64_t before = f->r->now;
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGKILL)) == 0);
    OK(f, fib_wait(f, pid, &status) == pid && WTERMSIG(status) == SIGKILL);
    OK(f, f->r->now == before); /* not only when the child has ended */
    return 0;
}
TEST(vfork_of_clone_waits_and_can_be_killed)
{
    struct krig r;
    CHECK_INT(krig_main_as(lends, 0, &r), 0);
    CHECK(strcmp(r.log, "child parent ") == 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- waitid --------------------------------------------------------------------------------- */

static int64_t wait_id(struct fib *f, int idtype, int64_t id, int options, struct dz_siginfo *info)
{
    const struct dz_waitid w = {idtype, (int)id, options};
    return SYS(f, dz_sys_waitid(FK(f), &w, info, NULL));
}

static int waits_by_id(struct fib *f)
{
    struct dz_siginfo i;
    int64_t pid = fib_fork(f, goes_on);
    OK(f, wait_id(f, P_PID, pid, 0, &i) == -EINVAL);
    OK(f, wait_id(f, 77, pid, WEXITED, &i) == -EINVAL);
    OK(f, wait_id(f, P_PID, 0, WEXITED, &i) == -EINVAL);
    OK(f, wait_id(f, P_PIDFD, 99, WEXITED, &i) == -EBADF);
    OK(f, wait_id(f, P_PID, pid, WEXITED | WNOHANG, &i) == 0 && i.signo == 0 && i.pid == 0);
    OK(f, wait_id(f, P_ALL, 0, WEXITED | WNOWAIT, &i) == 0);
    OK(f, i.signo == SIGCHLD && i.code == CLD_EXITED && i.pid == pid && i.status == 4);
    OK(f, wait_id(f, P_PID, pid, WSTOPPED | WNOHANG, &i) == 0 && i.signo == 0);
    OK(f, wait_id(f, P_PGID, 0, WEXITED, &i) == 0 && i.pid == pid);
    OK(f, wait_id(f, P_PID, pid, WEXITED, &i) == -ECHILD);

    pid = fib_fork(f, never_ends);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGSTOP)) == 0);
    OK(f, wait_id(f, P_PID, pid, WSTOPPED, &i) == 0 && i.code == CLD_STOPPED);
    OK(f, i.status == SIGSTOP && SYS(f, dz_sys_kill(FK(f), (int)pid, SIGCONT)) == 0);
    OK(f, wait_id(f, P_PID, pid, WCONTINUED, &i) == 0 && i.code == CLD_CONTINUED);
    OK(f, i.status == SIGCONT);
    int64_t fd = dz_sys_pidfd_open(FK(f), (int)pid, O_NONBLOCK);
    OK(f, fd >= 0 && wait_id(f, P_PIDFD, fd, WEXITED, &i) == -EAGAIN);
    struct pollfd poll = {.fd = (int)fd, .events = POLLIN};
    OK(f, dz_sys_poll(FK(f), &poll, 1, 0, NULL) == 0);
    OK(f, dz_sys_pidfd_send_signal(FK(f), (int)fd, NULL, SIGTERM) == 0);
    OK(f, SYS(f, dz_sys_poll(FK(f), &poll, 1, -1, NULL)) == 1 && poll.revents == POLLIN);
    OK(f, wait_id(f, P_PIDFD, fd, WEXITED, &i) == 0 && i.code == CLD_KILLED);
    OK(f, i.status == SIGTERM && i.pid == pid);
    f->k->next_pid =
        (uint32_t)pid - 1; /* its number comes again, but the descriptor is of the old */
    OK(f, fib_fork(f, goes_on) == pid);
    OK(f, dz_sys_pidfd_send_signal(FK(f), (int)fd, NULL, SIGTERM) == -ESRCH);
    OK(f, wait_id(f, P_PIDFD, fd, WEXITED, &i) == -ECHILD);
    OK(f, dz_sys_pidfd_open(FK(f), 12345, 0) == -ESRCH);
    OK(f, dz_sys_pidfd_open(FK(f), 1, O_APPEND) == -EINVAL);
    return 0;
}
TEST(waitid_tells_what_a_child_did_and_a_pidfd_names_it)
{
    CHECK_INT(run(waits_by_id, 0), 0);
}

static int clone_child(struct fib *f)
{
    const uint64_t usr = DZ_K_BIT(SIGUSR1);
    struct dz_siginfo i;
    int status;
    const struct dz_clone how = {.flags = CLONE_PIDFD, .exit_signal = SIGUSR1};
    OK(f, dz_sys_sigprocmask(FK(f), 0, &usr, NULL) == 0);
    int64_t pid = clones(f, goes_on, &how);
    OK(f, pid > 0 && f->note[7] == 0 && dz_sys_fd(FK(f), 0)->flags == DZ_FD_CLOEXEC);
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), usr, -1, &i)) == SIGUSR1);
    OK(f, i.pid == pid && i.code == CLD_EXITED && i.status == 4);
    OK(f, fib_wait(f, pid, &status) == -ECHILD); /* it is no child of fork */
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -1, (int)__WCLONE, &status, NULL)) == pid);
    const struct dz_clone silent = {.exit_signal = 0};
    pid = clones(f, goes_on, &silent);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -1, __WALL, &status, NULL)) == pid);
    OK(f, WEXITSTATUS(status) == 4);
    return 0;
}
TEST(clone_chooses_the_signal_of_a_childs_end)
{
    CHECK_INT(run(clone_child, 0), 0);
}

static int sibling_maker(struct fib *f)
{
    const struct dz_clone how = {.flags = CLONE_PARENT | CLONE_CLEAR_SIGHAND, .exit_signal = 0};
    return clones(f, goes_on, &how) > 0 ? 0 : 1;
}
static int has_siblings(struct fib *f)
{
    int status;
    int64_t pid = fib_fork(f, sibling_maker);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    OK(f, fib_wait(f, -1, &status) > pid && WEXITSTATUS(status) == 4);
    return 0;
}
TEST(clone_can_give_its_child_to_its_own_parent)
{
    CHECK_INT(run(has_siblings, 0), 0);
}

/* ---- signals ------------------------------------------------------------------------------- */

/* The same stacks for us and for Linux, which looks at none of their bytes. */
static int alt_stacks(struct fib *f)
{
    static const struct dz_altstack tried[] = {
        {0x10000, 8192, 0},          {0x10000, 8192, SS_ONSTACK},
        {0x10000, 2047, 0},          {0x10000, 100000, SS_AUTODISARM},
        {0x10000, 8192, SS_DISABLE}, {0x20000, 65536, 5},
        {0x20000, 65536, 0},         {0, 0, SS_DISABLE | SS_AUTODISARM},
        {0, 0, SS_DISABLE},
    };
    stack_t old = {0}, before;
    struct dz_altstack ours;
    (void)sigaltstack(NULL, &before);
    for (size_t i = 0; i < DZ_ARRAY_LEN(tried); i++) {
        const stack_t s = {.ss_sp = (void *)(uintptr_t)tried[i].at,
                           .ss_flags = (int)tried[i].flags,
                           .ss_size = tried[i].size};
        int theirs = (int)syscall(SYS_sigaltstack, &s, NULL) ? -errno : 0;
        OK(f, dz_sys_sigaltstack(FK(f), 0x7f0000000000, &tried[i], NULL) == theirs);
        (void)sigaltstack(NULL, &old);
        OK(f, dz_sys_sigaltstack(FK(f), 0x7f0000000000, NULL, &ours) == 0);
        OK(f, ours.size == old.ss_size && ours.flags == (uint32_t)old.ss_flags);
        OK(f, ours.at == (uint64_t)(uintptr_t)old.ss_sp);
    }
    (void)sigaltstack(&before, NULL);
    OK(f, dz_sys_sigaltstack(FK(f), 0, &tried[0], NULL) == 0);
    OK(f, dz_sys_sigaltstack(FK(f), 0x10800, &tried[6], &ours) == -EPERM);
    OK(f, dz_sys_sigaltstack(FK(f), 0x10800, NULL, &ours) == 0 && ours.flags == SS_ONSTACK);
    return 0;
}
TEST(sigaltstack_answers_as_linux_does)
{
    CHECK_INT(run(alt_stacks, 0), 0);
}

static void caught(struct fib *f, int signo)
{
    f->note[signo == SIGSEGV ? 1 : 2]++;
}
static int faults(struct fib *f)
{
    const struct dz_siginfo info = {.signo = SIGSEGV, .code = SEGV_MAPERR, .addr = 0x123};
    const struct dz_sigact act = {.handler = 2, .mask = DZ_K_BIT(SIGUSR1)};
    struct dz_task *t = f->k->task[dz_k_me(FK(f))->index];
    f->handler[2] = caught;
    OK(f, dz_sys_sigaction(FK(f), SIGSEGV, &act, NULL) == 0);
    dz_kernel_force(t, &info);
    fib_yield(f, DZ_RUN_READY);
    OK(f, f->note[1] == 1 && f->info[SIGSEGV].addr == 0x123);
    OK(f, dz_k_me(FK(f))->sig_mask == 0);          /* put back by the frame */
    const struct dz_sigact other = {.handler = 9}; /* for which there is no room on the stack */
    OK(f, dz_sys_sigaction(FK(f), SIGUSR2, &other, NULL) == 0);
    OK(f, SYS(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR2)) == 0);
    OK(f, f->note[1] == 2 && f->info[SIGSEGV].code == SI_KERNEL);
    if (f->note[0] == 1) {
        const uint64_t segv = DZ_K_BIT(SIGSEGV);
        OK(f, dz_sys_sigprocmask(FK(f), 0, &segv, NULL) == 0);
    } else {
        const struct dz_sigact ignore = {.handler = 1};
        OK(f, dz_sys_sigaction(FK(f), SIGSEGV, &ignore, NULL) == 0);
    }
    dz_kernel_force(t, &info);
    fib_yield(f, DZ_RUN_READY);
    return 95;
}
static int has_faulty_children(struct fib *f)
{
    int status;
    for (f->note[0] = 0; f->note[0] < 2; f->note[0]++) {
        int64_t pid = fib_fork(f, faults);
        OK(f, fib_wait(f, pid, &status) == pid && WTERMSIG(status) == SIGSEGV);
    }
    return 0;
}
TEST(fault_is_told_to_its_handler_or_kills)
{
    CHECK_INT(run(has_faulty_children, 0), 0);
}

/* A call that a handler ends, with what it moved; one that it lets be issued again, afresh. */
static int reads_twice(struct fib *f)
{
    const struct dz_sigact again = {.handler = 2, .flags = SA_RESTART}, end = {.handler = 2};
    const uint64_t usr2 = DZ_K_BIT(SIGUSR2);
    int fds[2];
    char c;
    f->handler[2] = caught;
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    OK(f, dz_sys_sigaction(FK(f), SIGUSR1, &end, NULL) == 0);
    OK(f, dz_sys_sigaction(FK(f), SIGUSR2, &again, NULL) == 0);
    const int64_t each[2] = {0, 5000000};
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, each, NULL) == 0);
    OK(f, dz_sys_sigaction(FK(f), SIGALRM, &end, NULL) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], &c, 1)) == -EINTR && f->note[2] == 1);
    OK(f, dz_k_my_call(FK(f))->parked == 0);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, each, NULL) == 0);
    OK(f, SYS(f, dz_sys_sigsuspend(FK(f), usr2)) == -EINTR && f->note[2] == 2);
    OK(f, dz_k_me(FK(f))->sig_mask == 0);
    OK(f, dz_sys_sigaction(FK(f), SIGALRM, &again, NULL) == 0);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, each, NULL) == 0);
    struct dz_futex w = {.at = 4};
    int64_t until = dz_kernel_now(f->k) + 20000000;
    OK(f, SYS(f, dz_sys_futex_wait(FK(f), w, 0, 1, until)) == -EINTR); /* it has a timeout */
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, each, NULL) == 0);
    int64_t left = 0;
    OK(f, SYS(f, dz_sys_clock_nanosleep(FK(f), CLOCK_MONOTONIC, false, 15000000, &left)) == -EINTR);
    OK(f, left == 10000000 && f->note[2] == 4);
    return 0;
}
TEST(handler_ends_a_call_or_lets_it_be_issued_again)
{
    CHECK_INT(run(reads_twice, 0), 0);
}

/* ---- kinds of programs ----------------------------------------------------------------------- */

static int loads[2], unloads[2];
static int count_load(void *arg, struct dz_task *t, const struct dz_load *from)
{
    loads[t->program.kind]++;
    if (t->program.kind == DZ_KIND_LINUX && from &&
        (strcmp(from->path, "/bin/other") != 0 || from->argv.count != 2 ||
         memcmp(from->argv.bytes, "o\0x", 4) != 0 || from->env.count != 0))
        return -EINVAL;
    return fib_load(arg, t, from);
}
static void count_unload(void *arg, struct dz_task *t)
{
    unloads[t->program.kind]++;
    fib_unload(arg, t);
}
static int get_by_name(void *arg, uint64_t ino, const struct dz_vfs_attr *attr,
                       struct dz_program *ret_program, struct dz_err *err)
{
    struct krig *r = arg;
    int rc = krig_program_get(arg, ino, attr, ret_program, err);
    if (rc == 0 && ino == r->prog[1].ino)
        ret_program->kind = DZ_KIND_LINUX;
    if (rc == 0 && ino == r->prog[2].ino)
        ret_program->kind = 7;
    return rc;
}
static int other(struct fib *f)
{
    int status, fds[2];
    OK(f, f->k->task[dz_k_me(FK(f))->index]->program.kind == DZ_KIND_LINUX);
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    int64_t pid = fib_fork(f, goes_on);
    OK(f, fib_wait(f, pid, &status) == pid && WEXITSTATUS(status) == 4);
    return 21;
}
static int becomes_other(struct fib *f)
{
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = "/bin/other"};
    const struct dz_at none = {.dirfd = AT_FDCWD, .path = "/bin/none"};
    const struct dz_strings argv = {"o\0x", 4, 2}, env = {0};
    OK(f, SYS(f, dz_sys_execve(FK(f), none, argv, env)) == -ENOEXEC);
    (void)SYS(f, dz_sys_execve(FK(f), at, argv, env));
    return 96;
}
TEST(program_is_run_by_the_runner_of_its_kind)
{
    static struct krig r;
    struct dz_kernel_runner one = fib_runner;
    struct dz_kernel_ops ops = krig_ops;
    struct dz_job job = {0};
    one.load = count_load;
    one.unload = count_unload;
    ops.program_get = get_by_name;
    ops.arg = &r;
    krig_start(&r);
    dz_kernel_free(r.k);
    const struct dz_kernel_opts opts = {
        .vfs = r.disk.v, .ops = &ops, .kinds = {{&one, &r}, {&one, &r}}};
    CHECK_INT(dz_kernel_new(&opts, &r.k, &r.disk.err), 0);
    krig_prog(&r, "main", becomes_other);
    krig_prog(&r, "other", other);
    krig_prog(&r, "none", goes_on);
    (void)krig_spawn(&r, "main", 0, NULL, 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(WEXITSTATUS(job.status), 21);
    CHECK_INT(loads[0], 1);
    CHECK_INT(loads[1], 1); /* a fork is a copy */
    CHECK_INT(unloads[0], 1);
    CHECK_INT(unloads[1], 2);
    CHECK_INT(krig_stop(&r), 0);
}
