/* SPDX-License-Identifier: MIT
 *
 * linux_clone.c - calls that make processes and threads: fork, vfork, clone, clone3.
 *
 * All of them use dz_sys_clone(). The runner handles registers and address spaces: its copy() gets
 * struct dz_clone with the stack, the thread area, and the addresses to store numbers at. In the
 * new thread the same call returns 0, which the runner writes.
 */
#include "linux/linux_int.h"

#include <linux/sched.h>
#include <signal.h>

/* pidfd: the address for the descriptor of CLONE_PIDFD. */
static int64_t make(const linux_call *c, const struct dz_clone *how, uint64_t pidfd)
{
    const bool told = (how->flags & CLONE_PIDFD) != 0;
    int fd = -1;
    if (told && c->mem->room(c->mem->arg, pidfd, sizeof fd) != sizeof fd)
        return -EFAULT; /* check this before a child exists */
    const int64_t r = dz_sys_clone(LINUX_K(c), how, told ? &fd : NULL);
    if (fd >= 0) /* also when a vfork waits now: the next issue does not get it again */
        (void)dz_linux_put(c, pidfd, &fd, sizeof fd);
    return r;
}

LINUX_CALL(fork)
{
    const struct dz_clone how = {.exit_signal = SIGCHLD};
    return make(c, &how, 0);
}
LINUX_CALL(vfork)
{
    const struct dz_clone how = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
    return make(c, &how, 0);
}

/* The signal is the lowest byte of the flags; the descriptor is stored where the number would
 * be. */
LINUX_CALL(clone)
{
    const uint64_t flags = (uint32_t)c->arg[0];
    const struct dz_clone how = {
        .flags = flags & ~(uint64_t)CSIGNAL,
        .exit_signal = (int)(flags & CSIGNAL),
        .stack = c->arg[1],
        .parent_tid = c->arg[2],
        .child_tid = c->arg[3],
        .tls = c->arg[4],
    };
    if ((flags & CLONE_PIDFD) && (flags & CLONE_PARENT_SETTID))
        return -EINVAL;
    return make(c, &how, how.parent_tid);
}

/* The kernel supports neither chosen numbers (set_tid, which needs privilege) nor cgroups. */
LINUX_CALL(clone3)
{
    struct clone_args a = {0};
    uint8_t more[64];
    const uint64_t size = c->arg[1];
    if (size > 4096)
        return -E2BIG;
    if (size < CLONE_ARGS_SIZE_VER0)
        return -EINVAL;
    if (dz_linux_get(c, c->arg[0], &a, size < sizeof a ? (size_t)size : sizeof a) < 0)
        return -EFAULT;
    /* Fields of a later Linux: must be 0. */
    for (uint64_t at = sizeof a; at < size; at += sizeof more) {
        const size_t n = size - at < sizeof more ? (size_t)(size - at) : sizeof more;
        if (dz_linux_get(c, c->arg[0] + at, more, n) < 0)
            return -EFAULT;
        for (size_t i = 0; i < n; i++)
            if (more[i])
                return -E2BIG;
    }
    if (a.set_tid || a.set_tid_size)
        return !a.set_tid || !a.set_tid_size || a.set_tid_size > 32 ? -EINVAL : -EPERM;
    if ((a.flags & (CSIGNAL | CLONE_DETACHED)) || a.exit_signal > CSIGNAL)
        return -EINVAL;
    if ((a.stack == 0) != (a.stack_size == 0))
        return -EINVAL;
    if ((a.flags & (CLONE_THREAD | CLONE_PARENT)) && a.exit_signal)
        return -EINVAL;
    const struct dz_clone how = {
        .flags = a.flags,
        .exit_signal = (int)a.exit_signal,
        .stack = a.stack,
        .stack_size = a.stack_size,
        .parent_tid = a.parent_tid,
        .child_tid = a.child_tid,
        .tls = a.tls,
    };
    return make(c, &how, a.pidfd);
}
