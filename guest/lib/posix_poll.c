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

enum {
    INVALID = -2
};

/* A span as the host takes it, rounded up: µs, -1 for ever, or INVALID. */
static int64_t span_us(int forever, int64_t sec, long ns)
{
    if (forever || sec > INT64_MAX / 1000000 - 1)
        return -1;
    if (sec < 0 || ns < 0 || ns > 999999999)
        return INVALID;
    return sec * 1000000 + (ns + 999) / 1000;
}

int ppoll(struct pollfd *f, nfds_t n, const struct timespec *t, const sigset_t *m)
{
    int64_t us = span_us(!t, t ? t->tv_sec : 0, t ? t->tv_nsec : 0);

    if (us == INVALID)
        return posix_fail(EINVAL);
    return posix_ret(doze_poll(f, (int)n, us, (const uint64_t *)m));
}

static int sel(int n, fd_set *r, fd_set *w, fd_set *x, int64_t us, const sigset_t *m)
{
    struct pollfd p[FD_SETSIZE];
    int i, k = 0, c = 0, e;

    if (n < 0 || n > FD_SETSIZE || us == INVALID)
        return posix_fail(EINVAL);
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
    for (i = 0; i < k; i++)
        if (p[i].revents & POLLNVAL)
            return posix_fail(EBADF);
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
    if (t && t->tv_usec >= 1000000)
        return sel(n, r, w, x,
                   span_us(0, t->tv_sec + t->tv_usec / 1000000, t->tv_usec % 1000000 * 1000), NULL);
    return sel(n, r, w, x, span_us(!t, t ? t->tv_sec : 0, t ? (long)t->tv_usec * 1000 : 0), NULL);
}

int pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *t, const sigset_t *m)
{
    return sel(n, r, w, x, span_us(!t, t ? t->tv_sec : 0, t ? t->tv_nsec : 0), m);
}
