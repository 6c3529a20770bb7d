/* SPDX-License-Identifier: MIT
 *
 * linux_wait.c - calls by which processes and threads wait for each other: children, futexes,
 * descriptors of processes, and signals that carry a value.
 */
#include "linux/linux_frame.h"
#include "linux/linux_run_int.h"

#include <linux/futex.h>
#include <linux/kcmp.h>
#include <sys/wait.h>
#include <time.h>

/* ---- children ---------------------------------------------------------------------- */

static int put_usage(const linux_call *c, uint64_t at, const struct dz_kusage *u)
{
    int64_t out[DZ_LINUX_RUSAGE];
    dz_linux_rusage(u, out);
    return at == 0 ? 0 : dz_linux_put(c, at, out, sizeof out);
}

LINUX_CALL(wait4)
{
    const int known = WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD | __WALL | (int)__WCLONE;
    struct dz_kusage u;
    int status;
    if (arg_int(c, 2) & ~known) /* waitpid of the kernel knows more */
        return -EINVAL;
    const int64_t r = dz_sys_waitpid(LINUX_K(c), arg_int(c, 0), arg_int(c, 2), &status, &u);
    if (r <= 0)
        return r;
    if (put_usage(c, c->arg[3], &u) < 0)
        return -EFAULT;
    return dz_linux_give(c, r, c->arg[1], &status, sizeof status);
}

enum {
    WAITID_BYTES = 28, /* of a siginfo_t: up to the status */
};
/* Only the fields of siginfo_t that apply are written: zeros if no child has ended. */
LINUX_CALL(waitid)
{
    const struct dz_waitid w = {arg_int(c, 0), arg_int(c, 1), arg_int(c, 3)};
    struct dz_siginfo info;
    struct dz_kusage u;
    const int64_t r = dz_sys_waitid(LINUX_K(c), &w, &info, &u);
    if (r == DZ_KBLOCK)
        return r;
    uint8_t out[DZ_LINUX_SIGINFO] = {0};
    if (r < 0) /* Linux writes zeros then */
        return c->arg[2] && dz_linux_put(c, c->arg[2], out, WAITID_BYTES) < 0 ? -EFAULT : r;
    if (info.signo != 0) {
        dz_linux_siginfo_put(&info, out);
        if (put_usage(c, c->arg[4], &u) < 0)
            return -EFAULT;
    }
    return dz_linux_give(c, r, c->arg[2], out, WAITID_BYTES);
}

/* ---- descriptors of processes, signals with a value ----------------------------------- */

/* A siginfo_t from the guest: the kernel uses its code and its value. */
static int get_info(const linux_call *c, uint64_t at, int signo, struct dz_siginfo *ret_info)
{
    uint8_t bytes[DZ_LINUX_SIGINFO];
    struct dz_siginfo info = {.signo = signo};
    if (dz_linux_get(c, at, bytes, sizeof bytes) < 0)
        return -EFAULT;
    memcpy(&info.code, bytes + 8, 4);
    memcpy(&info.value, bytes + 24, 8);
    *ret_info = info;
    return 0;
}

LINUX_CALL(rt_sigqueueinfo)
{
    struct dz_siginfo info;
    const int e = get_info(c, c->arg[2], arg_int(c, 1), &info);
    if (e < 0)
        return e;
    if (arg_int(c, 0) <= 0) /* no groups here */
        return info.code >= 0 || info.code == SI_TKILL ? -EPERM : -ESRCH;
    return dz_sys_sigqueue(LINUX_K(c), arg_int(c, 0), 0, &info);
}
LINUX_CALL(rt_tgsigqueueinfo)
{
    struct dz_siginfo info;
    const int e = get_info(c, c->arg[3], arg_int(c, 2), &info);
    if (e < 0)
        return e;
    if (arg_int(c, 0) <= 0 || arg_int(c, 1) <= 0)
        return -EINVAL;
    return dz_sys_sigqueue(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), &info);
}

LINUX_CALL(pidfd_open)
{
    return dz_sys_pidfd_open(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}
LINUX_CALL(pidfd_send_signal)
{
    struct dz_siginfo info;
    int32_t signo;
    const bool told = c->arg[2] != 0;
    if (arg_u32(c, 3) != 0)
        return -EINVAL;
    const int e = told ? get_info(c, c->arg[2], arg_int(c, 1), &info) : 0;
    if (e < 0)
        return e;
    if (told) { /* the kernel compares it with the argument */
        if (dz_linux_get(c, c->arg[2], &signo, sizeof signo) < 0)
            return -EFAULT;
        info.signo = signo;
    }
    return dz_sys_pidfd_send_signal(LINUX_K(c), arg_int(c, 0), told ? &info : NULL, arg_int(c, 1));
}

/* ---- futexes ------------------------------------------------------------------------------ */

/* The deadline of a wait in kernel time; INT64_MAX: none. FUTEX_WAIT has a duration, the others an
 * absolute time. The kernel keeps the deadline of the call's first issue. */
static int64_t deadline(const linux_call *c, bool absolute, int clock, int64_t *ret_deadline)
{
    int64_t ns, clock_ns;
    const int e = dz_linux_timespec(c, c->arg[3], &ns);
    if (e < 0)
        return e;
    if (ns < 0) {
        *ret_deadline = INT64_MAX;
        return 0;
    }
    if (absolute) {
        const int64_t r = dz_sys_clock_gettime(LINUX_K(c), clock, &clock_ns);
        if (r < 0)
            return r;
        ns = ns > clock_ns ? ns - clock_ns : 0;
    }
    const int64_t now = dz_kernel_now(c->kernel);
    *ret_deadline = ns < INT64_MAX - now ? now + ns : INT64_MAX;
    return 0;
}

static int64_t futex_wait(const linux_call *c, struct dz_futex f, bool bitset, int clock)
{
    int64_t until;
    const int64_t e = deadline(c, bitset, clock, &until);
    if (e < 0)
        return e;
    return dz_sys_futex_wait(LINUX_K(c), f, arg_u32(c, 2), bitset ? arg_u32(c, 5) : UINT32_MAX,
                             until);
}

/* A number of waiters to wake: 0 and less is one, as on Linux. */
static uint32_t to_wake(const linux_call *c, int i)
{
    return arg_int(c, i) > 0 ? arg_u32(c, i) : 1;
}

static int64_t futex_lock(const linux_call *c, struct dz_futex f, int clock)
{
    int64_t until;
    const int64_t e = deadline(c, true, clock, &until);
    return e < 0 ? e : dz_sys_futex_lock(LINUX_K(c), f, false, until);
}

static int64_t futex_wait_requeue(const linux_call *c, const struct dz_futex f[2], int clock)
{
    int64_t until;
    const int64_t e = deadline(c, true, clock, &until);
    return e < 0 ? e : dz_sys_futex_wait_requeue(LINUX_K(c), f, arg_u32(c, 2), until);
}

LINUX_CALL(futex)
{
    const uint32_t op = arg_u32(c, 1);
    const int command = (int)(op & (uint32_t)FUTEX_CMD_MASK);
    const bool real_time = (op & FUTEX_CLOCK_REALTIME) != 0, shared = !(op & FUTEX_PRIVATE_FLAG);
    const struct dz_futex f[2] = {{c->arg[0], shared}, {c->arg[4], shared}};
    const uint32_t moves[2] = {arg_u32(c, 2), arg_u32(c, 3)}, expect = arg_u32(c, 5);
    const uint32_t wakes[2] = {to_wake(c, 2), to_wake(c, 3)};
    const int clock = real_time ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    if (real_time && command != FUTEX_WAIT_BITSET && command != FUTEX_WAIT_REQUEUE_PI &&
        command != FUTEX_LOCK_PI2)
        return -ENOSYS;
    switch (command) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
        return futex_wait(c, f[0], command == FUTEX_WAIT_BITSET, clock);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
        return dz_sys_futex_wake(LINUX_K(c), f[0], wakes[0],
                                 command == FUTEX_WAKE ? UINT32_MAX : expect);
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
        if (arg_int(c, 2) < 0 || arg_int(c, 3) < 0)
            return -EINVAL;
        return dz_sys_futex_requeue(LINUX_K(c), f, moves,
                                    command == FUTEX_CMP_REQUEUE ? &expect : NULL);
    case FUTEX_WAKE_OP:
        return dz_sys_futex_wake_op(LINUX_K(c), f, wakes, expect);
    case FUTEX_LOCK_PI:
        return futex_lock(c, f[0], CLOCK_REALTIME);
    case FUTEX_LOCK_PI2:
        return futex_lock(c, f[0], clock);
    case FUTEX_TRYLOCK_PI:
        return dz_sys_futex_lock(LINUX_K(c), f[0], true, INT64_MAX);
    case FUTEX_UNLOCK_PI:
        return dz_sys_futex_unlock(LINUX_K(c), f[0]);
    case FUTEX_WAIT_REQUEUE_PI:
        return futex_wait_requeue(c, f, clock);
    case FUTEX_CMP_REQUEUE_PI:
        if (arg_int(c, 2) != 1 || arg_int(c, 3) < 0 || f[0].at == f[1].at)
            return -EINVAL;
        return dz_sys_futex_requeue_lock(LINUX_K(c), f, moves[1], expect);
    default:
        return -ENOSYS;
    }
}

/* struct futex_waitv. */
struct waiter {
    uint64_t value, at;
    uint32_t flags, reserved;
};
enum {
    WAITER_32 = 2, /* FUTEX_32: the only size that futexes have */
};

LINUX_CALL(futex_waitv)
{
    struct waiter w[DZ_KERNEL_FUTEXES_MAX];
    struct dz_futex f[DZ_KERNEL_FUTEXES_MAX];
    uint32_t values[DZ_KERNEL_FUTEXES_MAX];
    const uint32_t n = arg_u32(c, 1);
    const int clock = arg_int(c, 4);
    int64_t until;
    if (arg_u32(c, 2) != 0 || n == 0 || n > DZ_KERNEL_FUTEXES_MAX || c->arg[0] == 0)
        return -EINVAL;
    if (c->arg[3] != 0 && clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)
        return -EINVAL;
    const int64_t e = deadline(c, true, clock, &until);
    if (e < 0)
        return e;
    if (dz_linux_get(c, c->arg[0], w, n * sizeof *w) < 0)
        return -EFAULT;
    for (uint32_t i = 0; i < n; i++) {
        if ((w[i].flags & ~(uint32_t)FUTEX_PRIVATE_FLAG) != WAITER_32 || w[i].reserved != 0)
            return -EINVAL;
        f[i] = (struct dz_futex){w[i].at, !(w[i].flags & FUTEX_PRIVATE_FLAG)};
        values[i] = (uint32_t)w[i].value;
    }
    return dz_sys_futex_waitv(LINUX_K(c), f, values, n, until);
}

LINUX_CALL(kcmp)
{
    struct {
        uint32_t epoll, watched, nth;
    } slot; /* struct kcmp_epoll_slot */
    struct dz_kcmp k = {
        .pid = {arg_int(c, 0), arg_int(c, 1)}, .type = arg_int(c, 2), .fd = {c->arg[3], c->arg[4]}};
    if (k.type == KCMP_EPOLL_TFD) {
        if (dz_linux_get(c, c->arg[4], &slot, sizeof slot) < 0)
            return -EFAULT;
        k.fd[1] = slot.epoll;
        k.watched = slot.watched;
        k.nth = slot.nth;
    }
    return dz_sys_kcmp(LINUX_K(c), &k);
}

LINUX_CALL(set_tid_address)
{
    return dz_sys_set_tid_address(LINUX_K(c), c->arg[0]);
}
LINUX_CALL(pidfd_getfd)
{
    if (c->thread) /* it may take a descriptor of a thread that answers reads by itself */
        dz_linux_ahead_settle(c->thread->l);
    return arg_u32(c, 2) ? -EINVAL : dz_sys_pidfd_getfd(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}

LINUX_CALL(get_robust_list)
{
    const uint64_t size = 3 * sizeof(uint64_t);
    uint64_t head;
    const int64_t r = dz_sys_get_robust_list(LINUX_K(c), arg_int(c, 0), &head);
    if (r < 0)
        return r;
    return dz_linux_put(c, c->arg[2], &size, sizeof size) < 0
               ? -EFAULT
               : dz_linux_put(c, c->arg[1], &head, sizeof head);
}
LINUX_CALL(set_robust_list)
{
    return dz_sys_set_robust_list(LINUX_K(c), c->arg[0], c->arg[1]);
}
