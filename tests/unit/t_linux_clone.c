/* SPDX-License-Identifier: MIT
 * System calls that make processes and threads. Numbers that clone stores are words of the rig. */
#include "../lib/linux_rig.h"
#include "tap.h"

#define LAST(n) (LRIG_RO - (n))
#define NOWHERE UINT64_C(0x7fff00000000)
#define THREAD                                                                          \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | \
     CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

static int64_t status_of(struct fib *f, int64_t pid)
{
    int status;
    return fib_wait(f, pid, &status) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static int ends_with_7(struct fib *f)
{
    fib_sleep(f, 10);
    return 7;
}

static int forks(struct fib *f)
{
    f->child = ends_with_7;
    int64_t t = f->r->now, pid = CALL(f, fork);
    OK(f, pid > 0 && f->r->now == t && status_of(f, pid) == 7);
    t = f->r->now;
    pid = CALL(f, vfork); /* waits for it */
    OK(f, pid > 0 && f->r->now == t + 10 * 1000000 && status_of(f, pid) == 7);
    pid = CALL(f, clone, CLONE_PARENT_SETTID | SIGCHLD, 0, 20, 0, 0);
    OK(f, pid > 0 && f->r->words[5] == (uint32_t)pid && status_of(f, pid) == 7);
    pid = CALL(f, clone, SIGUSR1 | CLONE_CHILD_SETTID, 0, 0, 24, 0);
    OK(f, pid > 0 && f->r->words[6] == (uint32_t)pid);
    GIVES(f, -ECHILD, wait4, -1, 0, 0, 0); /* tells by another signal */
    return 0;
}
TEST(processes_are_made)
{
    CHECK_INT(lrig_run(forks, 1000), 0);
}

static int joined(struct fib *f)
{
    fib_sleep(f, 10);
    (void)CALL(f, exit, 3);
    return 90;
}
static int joins(struct fib *f)
{
    const struct clone_args a = {
        .flags = THREAD, .parent_tid = 24, .child_tid = 24, .stack = 4096, .stack_size = 4096};
    const uint64_t at = lmem_put(&a, sizeof a);
    f->child = joined;
    const int64_t tid = CALL(f, clone, THREAD, 0x8000, 20, 20, 0);
    OK(f, tid > 0 && f->r->words[5] == (uint32_t)tid);
    const int64_t other = CALL(f, clone3, at, sizeof a);
    OK(f, other > 0 && other != tid && f->r->words[6] == (uint32_t)other);
    GIVES(f, 0, futex, 20, 0, tid, 0, 0, 0);
    OK(f, f->r->words[5] == 0);
    while (f->r->words[6])
        (void)CALL(f, futex, 24, 0, other, 0, 0, 0);
    return 0;
}
TEST(threads_are_made_and_joined)
{
    CHECK_INT(lrig_run(joins, 1000), 0);
}

static int pidfds(struct fib *f)
{
    const uint64_t at = lmem_new(4);
    struct clone_args a = {.flags = CLONE_PIDFD | CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
    int32_t fd = -1;
    f->child = ends_with_7;
    OK(f, CALL(f, clone, CLONE_PIDFD | SIGCHLD, 0, at, 0, 0) > 0);
    memcpy(&fd, lmem_at(at), sizeof fd);
    OK(f, fd == 3);
    GIVES(f, 0, waitid, P_PIDFD, 3, 0, WEXITED, 0);
    a.pidfd = at;
    OK(f, CALL(f, clone3, lmem_put(&a, sizeof a), sizeof a) > 0); /* as posix_spawn */
    memcpy(&fd, lmem_at(at), sizeof fd);
    OK(f, fd == 4);
    GIVES(f, 0, waitid, P_PIDFD, 4, 0, WEXITED, 0);
    GIVES(f, -EFAULT, clone, CLONE_PIDFD | SIGCHLD, 0, LAST(3), 0, 0);
    GIVES(f, -EINVAL, clone, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, 0, at, 0, 0);
    GIVES(f, -ECHILD, wait4, -1, 0, 0, 0); /* nobody was made */
    GIVES(f, -EBADF, close, 5);
    return 0;
}
TEST(a_child_comes_with_a_descriptor)
{
    CHECK_INT(lrig_run(pidfds, 1000), 0);
}

/* What clone3 refuses, and what Linux says to the same. */
static int refuses(struct fib *f)
{
    static const struct {
        struct clone_args a;
        int error;
    } bad[] = {
        {{.flags = SIGCHLD}, EINVAL},
        {{.flags = CLONE_DETACHED}, EINVAL},
        {{.exit_signal = 256}, EINVAL},
        {{.exit_signal = 65}, EINVAL},
        {{.stack = 4096}, EINVAL},
        {{.stack_size = 4096}, EINVAL},
        {{.flags = CLONE_PARENT, .exit_signal = SIGCHLD}, EINVAL},
        {{.set_tid = 4096}, EINVAL},
        {{.set_tid_size = 1}, EINVAL},
        {{.set_tid = 4096, .set_tid_size = 33}, EINVAL},
        {{.flags = CLONE_THREAD}, EINVAL},
    };
    const uint64_t at = lmem_new(256);
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        memcpy(lmem_at(at), &bad[i].a, sizeof bad[i].a);
        GIVES(f, -bad[i].error, clone3, at, sizeof bad[i].a);
        const long theirs = syscall(SYS_clone3, &bad[i].a, sizeof bad[i].a);
        if (theirs == 0)
            _exit(0);
        OK(f, theirs == -1 && (errno == bad[i].error || errno == ENOSYS));
    }
    memset(lmem_at(at), 0, 256);
    GIVES(f, -EINVAL, clone3, at, 63);
    GIVES(f, -E2BIG, clone3, at, 4097);
    GIVES(f, -EFAULT, clone3, NOWHERE, 88);
    GIVES(f, -EFAULT, clone3, LRIG_END - 87, 88);
    GIVES(f, -EFAULT, clone3, LRIG_END - 88, 89);
    *((uint8_t *)lmem_at(at) + 199) = 1;
    GIVES(f, -E2BIG, clone3, at, 200);
    f->child = ends_with_7;
    OK(f, CALL(f, clone3, at, 199) > 0);
    OK(f, CALL(f, clone3, at, 64) > 0);
    GIVES(f, -EPERM, clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    const struct clone_args chosen = {.set_tid = 4096, .set_tid_size = 1};
    GIVES(f, -EPERM, clone3, lmem_put(&chosen, sizeof chosen), sizeof chosen);
    return 0;
}
TEST(clone3_refuses_what_linux_refuses)
{
    CHECK_INT(lrig_run(refuses, 1000), 0);
}
