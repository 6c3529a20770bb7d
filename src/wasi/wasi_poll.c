/* SPDX-License-Identifier: MIT
 *
 * wasi_poll.c - poll_oneoff over the kernel's poll.
 *
 * Subscriptions become one poll whose timeout is the nearest of their clocks. The timeout is
 * computed again each time the call is reissued, which is harmless, because the kernel keeps the
 * deadline of a waiting call.
 */
#include "wasi/wasi.h"
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
    struct pollfd fds[DZ_KERNEL_POLL_MAX]; /* fd -1: a clock, or no right to poll the fd */
    int64_t due_ns[DZ_KERNEL_POLL_MAX];    /* clocks: when it expires, relative to now; else -1 */
    int64_t timeout_ns;                    /* time until the nearest clock expires; -1: none */
    bool refused;                          /* some descriptor lacks the right to poll */
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

static bool is_absolute(const uint8_t *sub)
{
    return sub[40] & 1;
}

static int64_t read_clock(const struct call *c, struct subscriptions *s, uint32_t i)
{
    int64_t ns = due_in(c, s->at + (size_t)i * SUBSCRIPTION_SIZE);
    if (ns < 0)
        return ns;
    s->due_ns[i] = ns;
    if (s->timeout_ns < 0 || ns < s->timeout_ns)
        s->timeout_ns = ns;
    return 0;
}

static void read_file(const struct call *c, struct subscriptions *s, uint32_t i)
{
    const uint8_t *sub = s->at + (size_t)i * SUBSCRIPTION_SIZE;
    int fd = (int)get_u32(sub + 16);
    s->fds[i].events = sub[8] == EVENT_READ ? POLLIN : POLLOUT;
    if (dz_wasi_check(c, fd, RIGHT_POLL_FD_READWRITE) == -WASI_ENOTCAPABLE)
        s->refused = true;
    else
        s->fds[i].fd = fd < 0 ? INT32_MAX : fd; /* poll(2) ignores negative ones */
}

static int64_t read_subscriptions(const struct call *c, struct subscriptions *s)
{
    int64_t r = 0;
    s->timeout_ns = -1;
    for (uint32_t i = 0; r == 0 && i < s->count; i++) {
        uint8_t tag = s->at[(size_t)i * SUBSCRIPTION_SIZE + 8];
        s->fds[i] = (struct pollfd){.fd = -1};
        s->due_ns[i] = -1;
        if (tag == EVENT_CLOCK)
            r = read_clock(c, s, i);
        else if (tag <= EVENT_WRITE)
            read_file(c, s, i);
        else
            r = -EINVAL;
    }
    if (s->refused)
        s->timeout_ns = 0;
    return r;
}

/* The number of readable bytes, for the event; 0 if it is unknown. */
static uint64_t readable(const struct call *c, int fd)
{
    int n = 0;
    return dz_sys_ioctl(c->k, c->p, fd, 0x541B /* FIONREAD */, &n) == 0 && n > 0 ? (uint64_t)n : 0;
}

static void put_event(uint8_t *at, const uint8_t *sub, uint16_t error, uint64_t bytes, bool hangup)
{
    memset(at, 0, EVENT_SIZE);
    memcpy(at, sub, 8); /* userdata */
    put_u16(at + 8, error);
    at[10] = sub[8];
    put_u64(at + 16, bytes);
    put_u16(at + 24, hangup);
}

/* The clocks that ended the wait. A restarted call does not know how long it has waited. An
 * absolute clock shows by itself whether it is due; if none is, the nearest relative clock ended
 * the wait. */
static uint32_t clock_events(const struct subscriptions *s, uint8_t *out)
{
    uint32_t n = 0;
    for (int pass = 0; n == 0 && pass < 2; pass++) {
        for (uint32_t i = 0; i < s->count; i++) {
            const uint8_t *sub = s->at + (size_t)i * SUBSCRIPTION_SIZE;
            bool absolute = s->due_ns[i] >= 0 && is_absolute(sub);
            if (s->due_ns[i] < 0 || absolute != (pass == 0) ||
                s->due_ns[i] > (absolute ? 0 : s->timeout_ns))
                continue;
            put_event(out + (size_t)n++ * EVENT_SIZE, sub, 0, 0, false);
        }
    }
    return n;
}

static uint32_t file_events(const struct call *c, const struct subscriptions *s, uint8_t *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct pollfd *f = &s->fds[i];
        int64_t error = f->fd < 0 ? WASI_ENOTCAPABLE : f->revents & POLLNVAL ? EBADF : 0;
        if (s->due_ns[i] >= 0 || (f->fd >= 0 && !f->revents))
            continue;
        uint64_t bytes = !error && (f->events & POLLIN) ? readable(c, f->fd) : 0;
        put_event(out + (size_t)n++ * EVENT_SIZE, s->at + (size_t)i * SUBSCRIPTION_SIZE,
                  dz_wasi_errno((int)error), bytes, f->revents & POLLHUP);
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
    uint32_t n = file_events(c, &s, out);
    put_u32(ret_count, n ? n : clock_events(&s, out));
    return 0;
}
