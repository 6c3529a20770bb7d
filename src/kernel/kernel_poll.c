/* SPDX-License-Identifier: MIT
 *
 * kernel_poll.c - poll, and through it select and WASI's poll_oneoff.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>

#define ALWAYS (POLLERR | POLLHUP | POLLNVAL)

static size_t look(struct dz_kernel *k, const struct dz_proc *p, struct pollfd *fds, size_t n)
{
    size_t ready = 0;
    for (size_t i = 0; i < n; i++) {
        const struct dz_file *f = dz_k_fd_file(k, p, fds[i].fd);
        short r = 0;
        if (fds[i].fd >= 0 && (!f || (f->flags & O_PATH)))
            r = POLLNVAL;
        else if (f)
            r = dz_k_ops(f)->ready(k, f) & (short)(fds[i].events | ALWAYS);
        fds[i].revents = r;
        ready += r != 0;
    }
    return ready;
}

static int wait_for_all(struct dz_kernel *k, struct dz_proc *p, const struct pollfd *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct dz_file *f = dz_k_fd_file(k, p, fds[i].fd);
        if (!f || !dz_k_ops(f)->wait)
            continue;
        int e = dz_k_ops(f)->wait(k, p, f, fds[i].events);
        if (e)
            return e;
    }
    return 0;
}

int64_t dz_sys_poll(struct dz_kernel *k, struct dz_proc *p, struct pollfd *fds, size_t n,
                    int64_t timeout_ns, const uint64_t *mask)
{
    struct dz_call *c = dz_k_call(k, p);
    if (n > DZ_KERNEL_POLL_MAX)
        return dz_k_end(k, p, -EINVAL);
    int64_t now = dz_kernel_now(k);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        c->flags = DZ_CALL_BEGUN | DZ_CALL_NORESTART;
        if (timeout_ns >= 0 && timeout_ns < INT64_MAX - now)
            c->deadline = now + timeout_ns;
        if (mask) {
            c->masked = 1;
            c->mask = p->sig_mask;
            p->sig_mask = *mask & ~(DZ_K_BIT(9) | DZ_K_BIT(19));
        }
    }
    size_t ready = look(k, p, fds, n);
    if (ready > 0 || now >= c->deadline)
        return dz_k_end(k, p, (int64_t)ready);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    int e = wait_for_all(k, p, fds, n);
    return e ? dz_k_end(k, p, e) : dz_k_block(k, p);
}
