/* SPDX-License-Identifier: MIT
 * System calls on children, futexes, descriptors of processes, and signals with a value. Futexes
 * are words of the rig, whose addresses are below 256. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <linux/futex.h>
#include <linux/kcmp.h>

#define LAST(n) (LRIG_RO - (n))
#define NOWHERE UINT64_C(0x7fff00000000)
#define MS      INT64_C(1000000)

static void get(uint64_t at, void *to, size_t n)
{
    memcpy(to, lmem_at(at), n);
}
static void set_time(uint64_t at, int64_t s, int64_t ns)
{
    const int64_t v[2] = {s, ns};
    memcpy(lmem_at(at), v, sizeof v);
}

static int ends_with_7(struct fib *f)
{
    fib_burn(f, 3000 * MS);
    return 7;
}
static int waits(struct fib *f)
{
    const uint64_t status = lmem_new(4), usage = lmem_new(144);
    int32_t was = 99;
    int64_t u[18];
    GIVES(f, -ECHILD, wait4, -1, status, 0, 0);
    const int64_t pid = fib_fork(f, ends_with_7);
    memcpy(lmem_at(status), &was, sizeof was);
    GIVES(f, 0, wait4, -1, status, WNOHANG, usage);
    get(status, &was, sizeof was);
    OK(f, was == 99); /* nothing to tell */
    GIVES(f, -EINVAL, wait4, -1, status, WNOWAIT, 0);
    GIVES(f, pid, wait4, pid, status, 0, usage);
    get(status, &was, sizeof was);
    get(usage, u, sizeof u);
    OK(f, WIFEXITED(was) && WEXITSTATUS(was) == 7 && u[0] + u[2] == 3);
    const int64_t next = fib_fork(f, ends_with_7);
    GIVES(f, next, wait4, -1, 0, __WALL, 0);
    OK(f, fib_fork(f, ends_with_7) > 0);
    GIVES(f, -EFAULT, wait4, -1, LAST(3), 0, 0);
    OK(f, fib_fork(f, ends_with_7) > 0);
    GIVES(f, -EFAULT, wait4, -1, status, 0, LAST(143));
    GIVES(f, -ECHILD, wait4, -1, 0, 0, 0); /* they are gone all the same */
    GIVES(f, -ESRCH, wait4, INT32_MIN, 0, 0, 0);
    return 0;
}
TEST(wait4_tells_status_and_usage)
{
    CHECK_INT(lrig_run(waits, 1000), 0);
}

static int waits_id(struct fib *f)
{
    const uint64_t info = lmem_new(128), usage = lmem_new(144);
    int32_t v[8], zero[7] = {0};
    int64_t u[18];
    const int64_t pid = fib_fork(f, ends_with_7);
    memset(lmem_at(info), 0xee, 128);
    memset(lmem_at(usage), 0xee, 144);
    GIVES(f, 0, waitid, P_ALL, 0, info, WEXITED | WNOHANG, usage);
    get(info, v, sizeof v);
    OK(f, memcmp(v, zero, sizeof zero) == 0 && v[7] == (int32_t)0xeeeeeeee);
    get(usage, u, sizeof u);
    OK(f, u[0] == (int64_t)0xeeeeeeeeeeeeeeee && u[17] == u[0]); /* nobody's */
    GIVES(f, 0, waitid, P_PID, pid, info, WEXITED | WNOWAIT, 0);
    GIVES(f, 0, waitid, P_PID, pid, info, WEXITED, usage);
    get(info, v, sizeof v);
    OK(f, v[0] == SIGCHLD && v[1] == 0 && v[2] == CLD_EXITED && v[4] == pid);
    OK(f, v[5] == 1000 && v[6] == 7 && v[7] == (int32_t)0xeeeeeeee);
    get(usage, u, sizeof u);
    OK(f, u[0] + u[2] == 3);
    GIVES(f, -ECHILD, waitid, P_PID, pid, info, WEXITED, 0);
    GIVES(f, -EINVAL, waitid, 77, pid, info, WEXITED, 0);
    GIVES(f, -EINVAL, waitid, P_ALL, 0, info, 0, 0);
    OK(f, fib_fork(f, ends_with_7) > 0);
    GIVES(f, -EFAULT, waitid, P_ALL, 0, LAST(27), WEXITED, 0);
    OK(f, fib_fork(f, ends_with_7) > 0);
    GIVES(f, -EFAULT, waitid, P_ALL, 0, info, WEXITED, LAST(143));
    OK(f, fib_fork(f, ends_with_7) > 0);
    GIVES(f, 0, waitid, P_ALL, 0, 0, WEXITED, 0);
    return 0;
}
TEST(waitid_tells_what_sigchld_would)
{
    CHECK_INT(lrig_run(waits_id, 1000), 0);
}

static int pidfds(struct fib *f)
{
    const uint64_t info = lmem_new(128), set = lmem_new(8);
    int32_t v[8] = {SIGUSR1, 0, SI_QUEUE};
    const uint64_t bit = DZ_K_BIT(SIGUSR1);
    memcpy(lmem_at(set), &bit, sizeof bit);
    GIVES(f, 0, rt_sigprocmask, SIG_BLOCK, set, 0, 8);
    const int64_t pid = fib_fork(f, ends_with_7), self = f->p->pid;
    GIVES(f, 3, pidfd_open, pid, 0);
    GIVES(f, 4, pidfd_open, self, O_NONBLOCK);
    GIVES(f, -EINVAL, pidfd_open, pid, 1);
    GIVES(f, -EINVAL, pidfd_open, 0, 0);
    GIVES(f, -ESRCH, pidfd_open, 999, 0);
    v[6] = 0x1234;
    memcpy(lmem_at(info), v, sizeof v);
    GIVES(f, 0, pidfd_send_signal, 4, SIGUSR1, info, 0);
    memset(lmem_at(info), 0, 128);
    GIVES(f, SIGUSR1, rt_sigtimedwait, set, info, 0, 8);
    get(info, v, sizeof v);
    OK(f, v[2] == SI_QUEUE && v[4] == self && v[6] == 0x1234);
    GIVES(f, 0, pidfd_send_signal, 4, SIGUSR1, 0, 0);
    GIVES(f, SIGUSR1, rt_sigtimedwait, set, info, 0, 8);
    get(info, v, sizeof v);
    OK(f, v[2] == SI_USER);
    GIVES(f, -EINVAL, pidfd_send_signal, 4, SIGUSR2, info, 0); /* says another */
    GIVES(f, -EINVAL, pidfd_send_signal, 4, SIGUSR1, 0, 1);
    GIVES(f, -EBADF, pidfd_send_signal, 0, SIGUSR1, 0, 0);
    GIVES(f, -EFAULT, pidfd_send_signal, 4, SIGUSR1, NOWHERE, 0);
    GIVES(f, 0, waitid, P_PIDFD, 3, 0, WEXITED, 0);
    GIVES(f, -ESRCH, pidfd_send_signal, 3, 0, 0, 0);
    return 0;
}
TEST(descriptors_stand_for_processes)
{
    CHECK_INT(lrig_run(pidfds, 1000), 0);
}

static int queued(struct fib *f)
{
    const uint64_t info = lmem_new(128), set = lmem_new(8);
    const uint64_t bit = DZ_K_BIT(34);
    const int32_t self = f->p->pid;
    int32_t v[8] = {1, 0, SI_QUEUE};
    memcpy(lmem_at(set), &bit, sizeof bit);
    GIVES(f, 0, rt_sigprocmask, SIG_BLOCK, set, 0, 8);
    for (int i = 1; i <= 2; i++) {
        v[6] = 10 * i;
        v[7] = i;
        memcpy(lmem_at(info), v, sizeof v);
        if (i == 1)
            GIVES(f, 0, rt_sigqueueinfo, self, 34, info);
        else
            GIVES(f, 0, rt_tgsigqueueinfo, self, self, 34, info);
    }
    int seen = 0;
    for (int i = 1; i <= 2; i++) { /* of the thread's and the process's either may come first */
        GIVES(f, 34, rt_sigtimedwait, set, info, 0, 8);
        get(info, v, sizeof v);
        OK(f, v[0] == 34 && v[2] == SI_QUEUE && v[4] == self && v[6] == 10 * v[7]);
        seen |= v[7];
    }
    OK(f, seen == 3);
    GIVES(f, -ESRCH, rt_sigqueueinfo, 0, 34, info);
    GIVES(f, -ESRCH, rt_sigqueueinfo, 999, 34, info);
    GIVES(f, -EINVAL, rt_sigqueueinfo, self, 65, info);
    GIVES(f, -EFAULT, rt_sigqueueinfo, self, 34, LRIG_END - 127);
    GIVES(f, -EINVAL, rt_tgsigqueueinfo, 0, self, 34, info);
    GIVES(f, -EINVAL, rt_tgsigqueueinfo, self, 0, 34, info);
    GIVES(f, -ESRCH, rt_tgsigqueueinfo, self, 999, 34, info);
    GIVES(f, -EFAULT, rt_tgsigqueueinfo, self, self, 34, NOWHERE);
    return 0;
}
TEST(signals_carry_a_value)
{
    CHECK_INT(lrig_run(queued, 1000), 0);
}

/* ---- futexes ---------------------------------------------------------------------------- */

enum {
    A = 16, /* addresses of words */
    B = 32,
    PRIVATE = FUTEX_PRIVATE_FLAG,
};
static uint32_t *word(struct fib *f, int at)
{
    return &f->r->words[at / 4];
}

static int timeouts(struct fib *f)
{
    const uint64_t ts = lmem_new(16);
    const int until = FUTEX_WAIT_BITSET, all = -1;
    *word(f, A) = 5;
    GIVES(f, -EAGAIN, futex, A, FUTEX_WAIT, 4, 0, 0, 0);
    set_time(ts, 0, 30 * MS);
    int64_t t = f->r->now;
    GIVES(f, -ETIMEDOUT, futex, A, FUTEX_WAIT | PRIVATE, 5, ts, 0, 0);
    OK(f, f->r->now == t + 30 * MS);
    static const struct {
        int flag, clock;
    } clocks[] = {{PRIVATE, CLOCK_MONOTONIC}, {FUTEX_CLOCK_REALTIME, CLOCK_REALTIME}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(clocks); i++) { /* the other one says until when */
        int64_t end;
        OK(f, dz_sys_clock_gettime(FK(f), clocks[i].clock, &end) == 0);
        end += 40 * MS;
        set_time(ts, end / (1000 * MS), end % (1000 * MS));
        t = f->r->now;
        GIVES(f, -ETIMEDOUT, futex, A, until | clocks[i].flag, 5, ts, 0, all);
        OK(f, f->r->now == t + 40 * MS);
    }
    set_time(ts, 0, 0); /* has been */
    GIVES(f, -ETIMEDOUT, futex, A, until, 5, ts, 0, all);
    GIVES(f, -EINVAL, futex, A, until, 5, 0, 0, 0); /* no bits */
    set_time(ts, 0, 1000 * MS);
    GIVES(f, -EINVAL, futex, A, FUTEX_WAIT, 5, ts, 0, 0);
    GIVES(f, -EFAULT, futex, A, FUTEX_WAIT, 5, LRIG_END - 15, 0, 0);
    GIVES(f, -EFAULT, futex, 4096, FUTEX_WAIT, 5, 0, 0, 0);
    GIVES(f, -EINVAL, futex, A + 1, FUTEX_WAIT, 5, 0, 0, 0);
    GIVES(f, -ENOSYS, futex, A, FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 5, 0, 0, 0);
    GIVES(f, -ENOSYS, futex, A, FUTEX_FD, 0, 0, 0, 0);
    GIVES(f, -ENOSYS, futex, A, 99, 0, 0, 0, 0);
    return 0;
}
TEST(futex_waits_have_an_end)
{
    CHECK_INT(lrig_run(timeouts, 0), 0);
}

/* Threads that wait: for A with bit 0, bit 1, and without bits. */
static int waits_bits(struct fib *f, uint32_t bits)
{
    const int64_t r = CALL(f, futex, A, FUTEX_WAIT_BITSET | PRIVATE, 0, 0, 0, bits);
    *word(f, 64) += r == 0 ? bits : 1000;
    (void)CALL(f, exit, 0);
    return 1;
}
static int waits_1(struct fib *f)
{
    return waits_bits(f, 1);
}
static int waits_2(struct fib *f)
{
    return waits_bits(f, 2);
}
static int wakes(struct fib *f)
{
    OK(f, fib_thread(f, waits_1) > 0 && fib_thread(f, waits_2) > 0 && fib_thread(f, waits_2) > 0);
    fib_sleep(f, 1);
    GIVES(f, 0, futex, A, FUTEX_WAKE, INT32_MAX, 0, 0, 0); /* shared: another one */
    GIVES(f, 0, futex, B, FUTEX_WAKE | PRIVATE, INT32_MAX, 0, 0, 0);
    GIVES(f, 0, futex, A, FUTEX_WAKE_BITSET | PRIVATE, INT32_MAX, 0, 0, 4);
    GIVES(f, -EINVAL, futex, A, FUTEX_WAKE_BITSET | PRIVATE, INT32_MAX, 0, 0, 0);
    GIVES(f, 1, futex, A, FUTEX_WAKE_BITSET | PRIVATE, 1, 0, 0, 2);
    GIVES(f, 1, futex, A, FUTEX_WAKE_BITSET | PRIVATE, INT32_MAX, 0, 0, 1);
    fib_sleep(f, 1);
    OK(f, *word(f, 64) == 3);
    GIVES(f, 1, futex, A, FUTEX_WAKE | PRIVATE, 0, 0, 0, 0); /* at least one */
    fib_sleep(f, 1);
    OK(f, *word(f, 64) == 5);
    OK(f, fib_thread(f, waits_1) > 0 && fib_thread(f, waits_1) > 0);
    fib_sleep(f, 1);
    GIVES(f, 1, futex, A, FUTEX_WAKE | PRIVATE, -1, 0, 0, 0);
    GIVES(f, 1, futex, A, FUTEX_WAKE | PRIVATE, INT32_MAX, 0, 0, 0);
    return 0;
}
TEST(futex_wakes_whom_it_names)
{
    CHECK_INT(lrig_run(wakes, 0), 0);
}

static int moves(struct fib *f)
{
    *word(f, B) = 7;
    for (int i = 0; i < 4; i++)
        OK(f, fib_thread(f, waits_1) > 0);
    fib_sleep(f, 1);
    GIVES(f, -EAGAIN, futex, A, FUTEX_CMP_REQUEUE | PRIVATE, 1, 1, B, 5);
    GIVES(f, -EINVAL, futex, A, FUTEX_REQUEUE | PRIVATE, -1, 1, B, 0);
    GIVES(f, -EINVAL, futex, A, FUTEX_REQUEUE | PRIVATE, 1, -1, B, 0);
    GIVES(f, 1, futex, A, FUTEX_CMP_REQUEUE | PRIVATE, 0, 1, B, 0); /* moved */
    GIVES(f, 2, futex, A, FUTEX_REQUEUE | PRIVATE, 1, 1, B, 5);     /* one of each */
    /* B += 3, from 7: wake all of A, and of B because 7 > 6 */
    GIVES(f, 2, futex, A, FUTEX_WAKE_OP | PRIVATE, 1, 1, B,
          FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_GT, 6));
    OK(f, *word(f, B) == 10);
    GIVES(f, 0, futex, A, FUTEX_WAKE_OP | PRIVATE, 1, 1, B,
          FUTEX_OP(FUTEX_OP_SET, 1, FUTEX_OP_CMP_LT, 10));
    OK(f, *word(f, B) == 1);
    GIVES(f, 1, futex, B, FUTEX_WAKE | PRIVATE, INT32_MAX, 0, 0, 0); /* the last one */
    fib_sleep(f, 1);
    OK(f, *word(f, 64) == 4);
    GIVES(f, -ENOSYS, futex, A, FUTEX_WAKE_OP | PRIVATE, 1, 1, B, FUTEX_OP(7, 1, 0, 0));
    return 0;
}
TEST(futex_waiters_move)
{
    CHECK_INT(lrig_run(moves, 0), 0);
}

/* What a thread leaves behind when it ends: a cleared number, and a lock whose owner died. */
static int dies(struct fib *f)
{
    const int64_t tid = f->note[0] = CALL(f, set_tid_address, A);
    const uint64_t list[3] = {80, (uint64_t)B - 80, 0}; /* at 96: one entry, whose word is B */
    *word(f, A) = *word(f, B) = (uint32_t)tid;
    memcpy(word(f, 96), list, sizeof list);
    const uint64_t back = 96;
    memcpy(word(f, 80), &back, sizeof back);
    GIVES(f, -EINVAL, set_robust_list, 96, 23);
    GIVES(f, 0, set_robust_list, 96, 24);
    (void)CALL(f, exit, 0);
    return 1;
}
static int survives(struct fib *f)
{
    const int32_t tid = fib_thread(f, dies);
    *word(f, A) = 1;
    GIVES(f, 0, futex, A, FUTEX_WAIT, 1, 0, 0, 0); /* as pthread_join does */
    OK(f, tid > 0 && *word(f, A) == 0 && *word(f, B) == FUTEX_OWNER_DIED);
    return 0;
}
TEST(threads_leave_their_locks)
{
    CHECK_INT(lrig_run(survives, 0), 0);
}

/* ---- several futexes, and what processes share --------------------------------------------------
 */

struct waiter {
    uint64_t value, at;
    uint32_t flags, reserved;
};

static uint64_t two_waiters(uint32_t flags)
{
    const struct waiter w[2] = {{0, A, flags, 0}, {0, B, flags, 0}};
    return lmem_put(w, sizeof w);
}

static int waits_for_any(struct fib *f)
{
    GIVES(f, 1, futex_waitv, two_waiters(2 | PRIVATE), 2, 0, 0, 0);
    GIVES(f, 0, futex_waitv, two_waiters(2 | PRIVATE), 2, 0, 0, 0);
    return 0;
}
static int any(struct fib *f)
{
    const int64_t past[2] = {0, 1}, bad[2] = {0, -1};
    const uint64_t over = lmem_put(past, sizeof past), no_time = lmem_put(bad, sizeof bad);
    const uint64_t good = two_waiters(2 | PRIVATE);
    GIVES(f, -EINVAL, futex_waitv, good, 2, 1, 0, 0);
    GIVES(f, -EINVAL, futex_waitv, good, 0, 0, 0, 0);
    GIVES(f, -EINVAL, futex_waitv, good, 129, 0, 0, 0);
    GIVES(f, -EINVAL, futex_waitv, 0, 2, 0, 0, 0);
    GIVES(f, -EINVAL, futex_waitv, good, 2, 0, over, CLOCK_BOOTTIME);
    GIVES(f, -EINVAL, futex_waitv, good, 2, 0, no_time, CLOCK_MONOTONIC);
    GIVES(f, -EFAULT, futex_waitv, LAST(40), 2, 0, 1, CLOCK_MONOTONIC);
    GIVES(f, -EFAULT, futex_waitv, LRIG_END - 40, 2, 0, 0, 0);
    GIVES(f, -EINVAL, futex_waitv, two_waiters(PRIVATE), 2, 0, 0, 0);
    GIVES(f, -EINVAL, futex_waitv, two_waiters(2 | 4), 2, 0, 0, 0);
    GIVES(f, -ETIMEDOUT, futex_waitv, good, 2, 0, over, CLOCK_MONOTONIC);
    GIVES(f, -ETIMEDOUT, futex_waitv, good, 2, 0, over, CLOCK_REALTIME);
    ((struct waiter *)lmem_at(good))[1].value = 1;
    GIVES(f, -EAGAIN, futex_waitv, good, 2, 0, 0, 0);
    ((struct waiter *)lmem_at(good))[1].at = B + 1;
    GIVES(f, -EINVAL, futex_waitv, good, 2, 0, 0, 0);
    OK(f, fib_thread(f, waits_for_any) > 0);
    fib_sleep(f, 1);
    GIVES(f, 0, futex, B, FUTEX_WAKE, 9, 0, 0, 0); /* shared: another one */
    GIVES(f, 1, futex, B, FUTEX_WAKE | PRIVATE, 9, 0, 0, 0);
    GIVES(f, 0, futex, A, FUTEX_WAKE | PRIVATE, 9, 0, 0, 0); /* it waits no longer */
    fib_sleep(f, 1);
    GIVES(f, 1, futex, A, FUTEX_WAKE | PRIVATE, 1, 0, 0, 0);
    fib_sleep(f, 1);
    return 0;
}
TEST(one_of_several_futexes_ends_the_wait)
{
    CHECK_INT(lrig_run(any, 1000), 0);
}

static int lives(struct fib *f)
{
    fib_sleep(f, 1000);
    return 0;
}
static int shares(struct fib *f)
{
    const int64_t me = f->p->pid, child = fib_fork(f, lives);
    struct epoll_event e = {.events = EPOLLIN};
    uint32_t slot[3] = {4, 0, 0};
    GIVES(f, 3, dup, 0);
    GIVES(f, 0, kcmp, me, me, KCMP_FILE, 0, 3);
    GIVES(f, 1, kcmp, me, me, KCMP_FILE, 0, 1);
    GIVES(f, 2, kcmp, me, me, KCMP_FILE, 1, 0);
    GIVES(f, 0, kcmp, me, child, KCMP_FILE, 2, 2);
    GIVES(f, -EBADF, kcmp, me, child, KCMP_FILE, 0, 9);
    GIVES(f, -EBADF, kcmp, me, child, KCMP_FILE, UINT64_MAX, 0);
    for (int type = KCMP_VM; type <= KCMP_SYSVSEM; type++) {
        GIVES(f, 0, kcmp, me, me, type, 0, 0);
        GIVES(f, 1, kcmp, me, child, type, 0, 0);
    }
    GIVES(f, -EINVAL, kcmp, me, me, KCMP_TYPES, 0, 0);
    GIVES(f, -ESRCH, kcmp, me, 9999, KCMP_VM, 0, 0);
    GIVES(f, -EPERM, kcmp, me, 1, KCMP_VM, 0, 0);
    GIVES(f, 4, epoll_create1, 0);
    GIVES(f, 0, epoll_ctl, 4, EPOLL_CTL_ADD, 0, lmem_put(&e, sizeof e));
    GIVES(f, 0, kcmp, me, me, KCMP_EPOLL_TFD, 3, lmem_put(slot, sizeof slot));
    slot[1] = 1;
    GIVES(f, -ENOENT, kcmp, me, me, KCMP_EPOLL_TFD, 3, lmem_put(slot, sizeof slot));
    slot[0] = 1;
    GIVES(f, -EINVAL, kcmp, me, me, KCMP_EPOLL_TFD, 3, lmem_put(slot, sizeof slot));
    GIVES(f, -EFAULT, kcmp, me, me, KCMP_EPOLL_TFD, 3, 1);
    return 0;
}
TEST(kcmp_knows_what_processes_share)
{
    CHECK_INT(lrig_run(shares, 1000), 0);
}
