/* SPDX-License-Identifier: MIT
 *
 * posix_poll.c - poll and select: one host call.
 */
#include "posix_int.h"

#include <poll.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/time.h>

int poll(struct pollfd *f, nfds_t n, int ms)
{
    return posix_ret(doze_poll(f, (int)n, ms < 0 ? -1 : ms * 1000LL, 0));
}

int ppoll(struct pollfd *f, nfds_t n, const struct timespec *t, const sigset_t *m)
{
    return posix_ret(doze_poll(f, (int)n, t ? t->tv_sec * 1000000LL + t->tv_nsec / 1000 : -1,
                               (const uint64_t *)m));
}

static int sel(int n, fd_set *r, fd_set *w, fd_set *x, int64_t us, const sigset_t *m)
{
    struct pollfd p[n > 0 ? n : 1];
    int i, k = 0, c = 0, e;

    for (i = 0; i < n; i++) {
        short ev = 0;

        if (r && FD_ISSET(i, r))
            ev |= POLLIN;
        if (w && FD_ISSET(i, w))
            ev |= POLLOUT;
        if (x && FD_ISSET(i, x))
            ev |= POLLPRI;
        if (ev)
            p[k++] = (struct pollfd){i, ev, 0};
    }
    e = posix_ret(doze_poll(p, k, us, (const uint64_t *)m));
    if (e < 0)
        return e;
    if (r)
        FD_ZERO(r);
    if (w)
        FD_ZERO(w);
    if (x)
        FD_ZERO(x);
    for (i = 0; i < k; i++) {
        short ev = p[i].revents;

        if ((p[i].events & POLLIN) && (ev & (POLLIN | POLLHUP | POLLERR))) {
            FD_SET(p[i].fd, r);
            c++;
        }
        if ((p[i].events & POLLOUT) && (ev & (POLLOUT | POLLERR))) {
            FD_SET(p[i].fd, w);
            c++;
        }
        if ((p[i].events & POLLPRI) && (ev & POLLPRI)) {
            FD_SET(p[i].fd, x);
            c++;
        }
    }
    return c;
}

int select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *t)
{
    return sel(n, r, w, x, t ? t->tv_sec * 1000000LL + t->tv_usec : -1, 0);
}

int pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *t, const sigset_t *m)
{
    return sel(n, r, w, x, t ? t->tv_sec * 1000000LL + t->tv_nsec / 1000 : -1, m);
}
