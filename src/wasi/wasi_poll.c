/* SPDX-License-Identifier: MIT
 *
 * wasi_poll.c - poll_oneoff over the kernel's poll.
 *
 * Subscriptions become one poll with the nearest of their clocks as timeout. The
 * kernel remembers the deadline of a call that waits, so computing the timeout
 * anew each time the call is issued again changes nothing.
 */
#include "wasi/wasi_int.h"

#include <time.h>

enum {
    SUBSCRIPTION_SIZE = 48,
    EVENT_SIZE = 32,
    EVENT_CLOCK = 0,
    EVENT_READ = 1,
    EVENT_WRITE = 2,
};

struct subscriptions {
    const uint8_t *at;
    uint32_t count;
    struct pollfd fds[DZ_KERNEL_POLL_MAX]; /* fd -1 for a clock */
    int64_t timeout_ns;                    /* of the nearest clock, -1: none */
    uint32_t clock;                        /* its index */
};

static int clock_of(uint32_t id)
{
    static const int map[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID,
                              CLOCK_THREAD_CPUTIME_ID};
    return id < 4 ? map[id] : -1;
}

/* Nanoseconds from now until this clock subscription is due, or -errno. */
static int64_t due_in(const struct call *c, const uint8_t *sub)
{
    int64_t now = 0;
    uint64_t timeout = get_u64(sub + 24);
    uint16_t flags;
    int clock = clock_of(get_u32(sub + 16));
    memcpy(&flags, sub + 40, 2);
    if (clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
        return -EINVAL;
    if (timeout > INT64_MAX)
        timeout = INT64_MAX;
    if (!(flags & 1))
        return (int64_t)timeout;
    int64_t r = dz_sys_clock_gettime(c->k, c->p, clock, &now);
    if (r < 0)
        return r;
    return (int64_t)timeout > now ? (int64_t)timeout - now : 0;
}

static int64_t read_subscriptions(const struct call *c, struct subscriptions *s)
{
    s->timeout_ns = -1;
    for (uint32_t i = 0; i < s->count; i++) {
        const uint8_t *sub = s->at + (size_t)i * SUBSCRIPTION_SIZE;
        s->fds[i] = (struct pollfd){.fd = -1};
        if (sub[8] == EVENT_CLOCK) {
            int64_t ns = due_in(c, sub);
            if (ns < 0)
                return ns;
            if (s->timeout_ns < 0 || ns < s->timeout_ns) {
                s->timeout_ns = ns;
                s->clock = i;
            }
        } else if (sub[8] <= EVENT_WRITE) {
            s->fds[i].fd = (int)get_u32(sub + 16);
            s->fds[i].events = sub[8] == EVENT_READ ? POLLIN : POLLOUT;
            if (s->fds[i].fd < 0)
                s->fds[i].fd = INT32_MAX; /* poll(2) passes over negative ones */
        } else {
            return -EINVAL;
        }
    }
    return 0;
}

/* Bytes that can be read at once, for the event; 0 where that is not known. */
static uint64_t readable(const struct call *c, int fd)
{
    int n = 0;
    return dz_sys_ioctl(c->k, c->p, fd, 0x541B /* FIONREAD */, &n) == 0 && n > 0 ? (uint64_t)n : 0;
}

static void put_event(uint8_t *at, const uint8_t *sub, int64_t error, uint64_t bytes, bool hangup)
{
    memset(at, 0, EVENT_SIZE);
    memcpy(at, sub, 8); /* userdata */
    put_u16(at + 8, (uint16_t)error);
    at[10] = sub[8];
    put_u64(at + 16, bytes);
    put_u16(at + 24, hangup);
}

static uint32_t write_events(const struct call *c, const struct subscriptions *s, int64_t ready,
                             uint8_t *out)
{
    uint32_t n = 0;
    if (ready == 0 && s->timeout_ns >= 0) {
        put_event(out, s->at + (size_t)s->clock * SUBSCRIPTION_SIZE, 0, 0, false);
        return 1;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        const struct pollfd *f = &s->fds[i];
        if (f->fd < 0 || !f->revents)
            continue;
        int64_t error = f->revents & POLLNVAL ? 8 : 0;
        uint64_t bytes = !error && (f->events & POLLIN) ? readable(c, f->fd) : 0;
        put_event(out + (size_t)n * EVENT_SIZE, s->at + (size_t)i * SUBSCRIPTION_SIZE, error, bytes,
                  f->revents & POLLHUP);
        n++;
    }
    return n;
}

WASI_P1(poll_oneoff)
{
    struct subscriptions s = {.count = arg_u32(c, 2)};
    if (s.count == 0 || s.count > DZ_KERNEL_POLL_MAX)
        return -EINVAL;
    s.at = guest(c, arg_u32(c, 0), (uint64_t)s.count * SUBSCRIPTION_SIZE);
    uint8_t *out = guest(c, arg_u32(c, 1), (uint64_t)s.count * EVENT_SIZE);
    uint8_t *ret_count = guest(c, arg_u32(c, 3), 4);
    if (!s.at || !out || !ret_count)
        return -EFAULT;
    int64_t r = read_subscriptions(c, &s);
    if (r == 0)
        r = dz_sys_poll(c->k, c->p, s.fds, s.count, s.timeout_ns, NULL);
    if (r < 0)
        return r;
    put_u32(ret_count, write_events(c, &s, r, out));
    return 0;
}
