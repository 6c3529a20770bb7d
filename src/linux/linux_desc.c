/* SPDX-License-Identifier: MIT
 *
 * linux_desc.c - calls on descriptors: copies, flags, locks, ioctl; pipes, eventfd, timerfd,
 * signalfd, memfd; poll, select, epoll.
 *
 * Calls of the last group wait with a timeout that the kernel keeps as a deadline. From that
 * deadline, poll and select report the time left, as on Linux.
 */
#include "linux/linux_run_int.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <termios.h>

enum {
    IOCTL_MAX = 256,    /* bytes behind the pointer of a request */
    SELECT_MAX = 65536, /* descriptors in one select */
};

/* ---- copies and flags ------------------------------------------------------------------- */

LINUX_CALL(close)
{
    return dz_sys_close(LINUX_K(c), arg_int(c, 0));
}
LINUX_CALL(dup)
{
    return dz_sys_dup(LINUX_K(c), arg_int(c, 0), 0, false);
}
LINUX_CALL(dup2)
{
    return dz_sys_dup2(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}
LINUX_CALL(dup3)
{
    return dz_sys_dup3(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), arg_int(c, 2));
}

LINUX_CALL(close_range)
{
    const uint32_t first = arg_u32(c, 0), flags = arg_u32(c, 2);
    uint32_t last = arg_u32(c, 1);
    if (first > last || (flags & ~(uint32_t)(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE)))
        return -EINVAL;
    if ((flags & CLOSE_RANGE_UNSHARE) && ((const struct dz_thread *)dz_kernel_row(
                                              c->kernel, DZ_KERNEL_TABLE_THREAD, c->proc->threads))
                                             ->next)
        return -EINVAL; /* here threads always share their descriptors */
    last = last < DZ_KERNEL_FDS_MAX ? last : DZ_KERNEL_FDS_MAX - 1;
    for (uint32_t i = first; i <= last; i++) {
        if (!dz_sys_fd(LINUX_K(c), (int)i))
            continue;
        if (flags & CLOSE_RANGE_CLOEXEC)
            (void)dz_sys_fcntl(LINUX_K(c), (int)i, F_SETFD, FD_CLOEXEC);
        else
            (void)dz_sys_close(LINUX_K(c), (int)i);
    }
    return 0;
}

/* struct flock of x86-64. */
struct linux_flock {
    int16_t type, whence;
    int32_t pad;
    int64_t start, len;
    int32_t pid, pad2;
};
_Static_assert(sizeof(struct linux_flock) == 32, "the ABI's");

static int64_t lock(const linux_call *c, int cmd)
{
    struct linux_flock f;
    const bool ofd = cmd == F_OFD_GETLK || cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW;
    if (dz_linux_open_for(c, arg_int(c, 0), 0) < 0)
        return -EBADF;
    if (dz_linux_get(c, c->arg[2], &f, sizeof f) < 0)
        return -EFAULT;
    if (ofd && f.pid != 0)
        return -EINVAL;
    struct dz_flock l = {f.type, f.whence, f.pid, f.start, f.len};
    const int64_t r = dz_sys_fcntl_lock(LINUX_K(c), arg_int(c, 0), cmd, &l);
    if (r < 0 || (cmd != F_GETLK && cmd != F_OFD_GETLK))
        return r;
    f.type = l.type;
    if (l.type != F_UNLCK) {
        f.whence = l.whence;
        f.start = l.start;
        f.len = l.len;
        f.pid = ofd ? -1 : l.pid;
    }
    return dz_linux_put(c, c->arg[2], &f, sizeof f);
}

/* F_SETOWN and F_GETOWN name a process, or a group by its negative number. */
static int64_t owner(const linux_call *c, int cmd)
{
    const int id = arg_int(c, 2);
    struct dz_owner o = {F_OWNER_PID, id};
    if (cmd == F_SETOWN && id == INT32_MIN)
        return -EINVAL;
    if (cmd == F_SETOWN && id < 0)
        o = (struct dz_owner){F_OWNER_PGRP, -id};
    if (cmd == F_SETOWN_EX && dz_linux_get(c, c->arg[2], &o, sizeof o) < 0)
        return dz_sys_fd(LINUX_K(c), arg_int(c, 0)) ? -EFAULT : -EBADF;
    const bool sets = cmd == F_SETOWN || cmd == F_SETOWN_EX;
    const int64_t r = dz_sys_owner(LINUX_K(c), arg_int(c, 0), sets ? &o : NULL, &o);
    if (r < 0 || sets)
        return r;
    if (cmd == F_GETOWN_EX)
        return dz_linux_put(c, c->arg[2], &o, sizeof o);
    return o.kind == F_OWNER_PGRP ? -o.id : o.id;
}
_Static_assert(sizeof(struct dz_owner) == 8, "struct f_owner_ex");

LINUX_CALL(fcntl)
{
    const int cmd = arg_int(c, 1);
    switch (cmd) {
    case F_SETOWN:
    case F_GETOWN:
    case F_SETOWN_EX:
    case F_GETOWN_EX:
        return owner(c, cmd);
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
        return lock(c, cmd);
    default:
        return dz_sys_fcntl(LINUX_K(c), arg_int(c, 0), cmd, arg_long(c, 2));
    }
}
LINUX_CALL(flock)
{
    if (arg_int(c, 1) & LOCK_MAND) /* such locks are no more: accepted, without an effect */
        return 0;
    return dz_sys_flock(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}

/* Terminal modes are longer in C libraries, and in the kernel, than in the calls, where they have
 * 19 characters, and speeds only in the requests of struct termios2. */
enum {
    TERMIOS_CC = 19,
    TERMIOS_SIZE = 4 * 4 + 1 + TERMIOS_CC,
    TERMIOS2_SIZE = TERMIOS_SIZE + 2 * 4,
    TERMIOS2_SET = 0x402c542b, /* TCSETS2; TCSETSW2 and TCSETSF2 follow */
};
#define TERMIOS2_GET UINT32_C(0x802c542a) /* TCGETS2, which glibc's headers do not have */
_Static_assert(offsetof(struct dz_termios, cc) == TERMIOS_SIZE - TERMIOS_CC, "begins as Linux's");

/* Bits per second of a mode. No line has a speed here: the speed in struct termios2 is that of the
 * mode. */
static uint32_t speed_of(uint32_t cflag)
{
    static const uint32_t slow[] = {0,   50,   75,   110,  134,  150,  200,   300,
                                    600, 1200, 1800, 2400, 4800, 9600, 19200, 38400};
    static const uint32_t fast[] = {0,       57600,   115200,  230400,  460800,  500000,
                                    576000,  921600,  1000000, 1152000, 1500000, 2000000,
                                    2500000, 3000000, 3500000, 4000000};
    return (cflag & CBAUDEX ? fast : slow)[cflag & CBAUD & 15];
}

static int64_t modes(const linux_call *c, uint32_t request)
{
    uint8_t bytes[TERMIOS2_SIZE];
    struct dz_termios t;
    const bool two = request >= TERMIOS2_SET, read = request == TCGETS || request == TERMIOS2_GET;
    const size_t size = two ? TERMIOS2_SIZE : TERMIOS_SIZE;
    const int64_t r = dz_sys_ioctl(LINUX_K(c), arg_int(c, 0), TCGETS, &t);
    if (r < 0)
        return r;
    if (read) {
        memcpy(bytes, &t, TERMIOS_SIZE);
        const uint32_t speed[2] = {speed_of(t.cflag), speed_of(t.cflag)};
        memcpy(bytes + TERMIOS_SIZE, speed, sizeof speed);
        return dz_linux_put(c, c->arg[2], bytes, size);
    }
    if (dz_linux_get(c, c->arg[2], bytes, size) < 0)
        return -EFAULT;
    memcpy(&t, bytes, TERMIOS_SIZE);
    request = two ? TCSETS + (request - TERMIOS2_SET) : request;
    return dz_sys_ioctl(LINUX_K(c), arg_int(c, 0), request, &t);
}

LINUX_CALL(ioctl)
{
    _Alignas(8) uint8_t arg[IOCTL_MAX];
    const uint32_t request = arg_u32(c, 1);
    const int size = dz_ioctl_size(request);
    const int64_t flags = dz_sys_fcntl(LINUX_K(c), arg_int(c, 0), F_GETFL, 0);
    if (flags < 0 || (flags & O_PATH))
        return -EBADF;
    if ((request >= TCGETS && request <= TCSETSF) || request == TERMIOS2_GET ||
        (request >= TERMIOS2_SET && request <= TERMIOS2_SET + 2))
        return modes(c, request);
    if (request == SIOCGIFCONF)
        return dz_linux_ifconf(c);
    if (size < 0 || size > IOCTL_MAX)
        return -ENOTTY;
    if (size == 0)
        return dz_sys_ioctl(LINUX_K(c), arg_int(c, 0), request, (void *)(uintptr_t)c->arg[2]);
    /* A write-only request may have any argument, but it must be readable. */
    if (c->mem->read(c->mem->arg, c->arg[2], arg, (size_t)size) < (size_t)size)
        return -EFAULT;
    uint8_t before[IOCTL_MAX];
    memcpy(before, arg, (size_t)size);
    const int64_t r = dz_sys_ioctl(LINUX_K(c), arg_int(c, 0), request, arg);
    if (r < 0 || memcmp(before, arg, (size_t)size) == 0) /* a request that only reads */
        return r;
    return dz_linux_give(c, r, c->arg[2], arg, (size_t)size);
}

/* ---- new ones ---------------------------------------------------------------------------- */

static int64_t pipes(const linux_call *c, int flags)
{
    int fds[2];
    const int64_t r = dz_sys_pipe2(LINUX_K(c), flags, fds);
    if (r < 0 || dz_linux_put(c, c->arg[0], fds, sizeof fds) == 0)
        return r;
    (void)dz_sys_close(LINUX_K(c), fds[0]);
    (void)dz_sys_close(LINUX_K(c), fds[1]);
    return -EFAULT;
}
LINUX_CALL(pipe)
{
    return pipes(c, 0);
}
LINUX_CALL(pipe2)
{
    return pipes(c, arg_int(c, 1));
}

LINUX_CALL(eventfd)
{
    return dz_sys_eventfd(LINUX_K(c), arg_u32(c, 0), 0);
}
LINUX_CALL(eventfd2)
{
    return dz_sys_eventfd(LINUX_K(c), arg_u32(c, 0), arg_int(c, 1));
}

static int64_t signalfd(const linux_call *c, int flags)
{
    uint64_t mask;
    if (c->arg[2] != sizeof mask)
        return -EINVAL;
    if (dz_linux_get(c, c->arg[1], &mask, sizeof mask) < 0)
        return -EFAULT;
    return dz_sys_signalfd(LINUX_K(c), arg_int(c, 0), mask, flags);
}
LINUX_CALL(signalfd)
{
    return signalfd(c, 0);
}
LINUX_CALL(signalfd4)
{
    return signalfd(c, arg_int(c, 3));
}

LINUX_CALL(memfd_create)
{
    char name[256]; /* 249 bytes at most, which the kernel checks */
    const int e = dz_linux_string(c, c->arg[0], name, sizeof name);
    if (e < 0)
        return e == -ENAMETOOLONG ? -EINVAL : e;
    return dz_sys_memfd_create(LINUX_K(c), name, arg_int(c, 1));
}

LINUX_CALL(timerfd_create)
{
    return dz_sys_timerfd_create(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}
LINUX_CALL(timerfd_settime)
{
    int64_t set[2], old[2];
    const int e = dz_linux_itimerspec(c, c->arg[2], set);
    if (e < 0)
        return e;
    const int64_t r = dz_sys_timerfd_settime(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), set, old);
    return dz_linux_give_itimerspec(c, r, c->arg[3], old);
}
LINUX_CALL(timerfd_gettime)
{
    int64_t now[2] = {0, 0};
    const int64_t r = dz_sys_timerfd_gettime(LINUX_K(c), arg_int(c, 0), now);
    if (r == 0 && c->arg[1] == 0)
        return -EFAULT;
    return dz_linux_give_itimerspec(c, r, c->arg[1], now);
}

LINUX_CALL(inotify_init)
{
    return dz_sys_inotify_init(LINUX_K(c), 0);
}
LINUX_CALL(inotify_init1)
{
    return dz_sys_inotify_init(LINUX_K(c), arg_int(c, 0));
}
LINUX_CALL(inotify_add_watch)
{
    char text[PATH_MAX];
    const int e = dz_linux_string(c, c->arg[1], text, sizeof text);
    const struct dz_at at = {AT_FDCWD, e < 0 ? NULL : text, 0};
    if (c->thread) /* a watch reports reads, which a stub does not */
        dz_linux_ahead_settle(c->thread->l);
    /* Linux looks at the other arguments first. */
    const int64_t r = dz_sys_inotify_add_watch(LINUX_K(c), arg_int(c, 0), at, arg_u32(c, 2));
    return r == -EFAULT && e < 0 ? e : r;
}
LINUX_CALL(inotify_rm_watch)
{
    return dz_sys_inotify_rm_watch(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}

/* ---- poll and select ----------------------------------------------------------------------- */

/* The deadline of a wait that begins now with this timeout, or that began before: kernel time. */
static int64_t deadline_of(const linux_call *c, int64_t timeout_ns)
{
    const struct dz_thread *t = dz_kernel_row(c->kernel, DZ_KERNEL_TABLE_THREAD, c->proc->thread);
    if (t->call[t->depth].parked)
        return t->call[t->depth].deadline;
    const int64_t now = dz_kernel_now(c->kernel);
    return timeout_ns < 0 || timeout_ns >= INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

/* Write the time left until then, as a timespec (unit 1) or timeval (1000). That memory may be
 * read-only: Linux ignores the error. */
static void put_left(const linux_call *c, uint64_t at, int64_t deadline, int64_t unit)
{
    int64_t v[2];
    if (at == 0 || deadline == INT64_MAX ||
        (dz_sys_personality(LINUX_K(c), UINT32_MAX) & STICKY_TIMEOUTS))
        return;
    const int64_t left = deadline - dz_kernel_now(c->kernel);
    dz_linux_split(left > 0 ? left : 0, v);
    v[1] /= unit;
    (void)dz_linux_put(c, at, v, sizeof v);
}

static int64_t poll_for(const linux_call *c, int64_t timeout_ns, const uint64_t *mask)
{
    struct pollfd few[64], *fds = few;
    const uint32_t n = arg_u32(c, 1);
    const size_t size = n * sizeof *fds;
    if (n > DZ_KERNEL_FDS_MAX || n > c->proc->rlimit[RLIMIT_NOFILE][0])
        return -EINVAL;
    if (n > DZ_ARRAY_LEN(few))
        fds = dz_alloc(size);
    if (!fds)
        return -ENOMEM;
    int64_t r = dz_linux_get(c, c->arg[0], fds, size);
    r = r < 0 ? r : dz_sys_poll(LINUX_K(c), fds, n, timeout_ns, mask);
    if (r >= 0 && n > 0)
        r = dz_linux_give(c, r, c->arg[0], fds, size);
    if (fds != few)
        dz_free(fds);
    return r;
}
LINUX_CALL(poll)
{
    const int ms = arg_int(c, 2);
    return poll_for(c, ms < 0 ? -1 : ms * INT64_C(1000000), NULL);
}
LINUX_CALL(ppoll)
{
    uint64_t mask;
    const uint64_t *set;
    int64_t timeout;
    int e = dz_linux_timespec(c, c->arg[2], &timeout);
    e = e < 0 ? e : dz_linux_mask(c, c->arg[3], c->arg[4], &mask, &set);
    if (e < 0)
        return e;
    const int64_t deadline = deadline_of(c, timeout);
    const int64_t r = poll_for(c, timeout, set);
    if (r != DZ_KBLOCK)
        put_left(c, c->arg[2], deadline, 1);
    return r;
}

/* The events that each of the three sets requests, and those that count as ready. */
static const struct {
    short wants, counts;
} sets[3] = {
    {POLLIN | POLLRDNORM | POLLRDBAND, POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR},
    {POLLOUT | POLLWRNORM | POLLWRBAND, POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR},
    {POLLPRI, POLLPRI},
};

/* The bits of descriptors below n, in words of 64. */
struct bits {
    uint32_t n;
    uint64_t in[3][SELECT_MAX / 64], out[3][SELECT_MAX / 64];
};
static bool is_in(uint64_t set[3][SELECT_MAX / 64], size_t s, uint32_t fd)
{
    return set[s][fd / 64] >> fd % 64 & 1;
}

/* Convert select's sets for poll: the number of descriptors, or -EBADF. */
static int64_t select_fds(const linux_call *c, struct bits *b, struct pollfd *fds)
{
    int64_t count = 0;
    for (uint32_t fd = 0; fd < b->n; fd++) {
        short events = 0;
        for (size_t s = 0; s < 3; s++)
            if (is_in(b->in, s, fd))
                events = (short)(events | sets[s].wants);
        if (events == 0)
            continue;
        if (!dz_sys_fd(LINUX_K(c), (int)fd))
            return -EBADF;
        fds[count++] = (struct pollfd){.fd = (int)fd, .events = events};
    }
    return count;
}

static int64_t select_bits(struct bits *b, const struct pollfd *fds, size_t count)
{
    int64_t r = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t fd = (uint32_t)fds[i].fd;
        for (size_t s = 0; s < 3; s++)
            if (is_in(b->in, s, fd) && (fds[i].revents & sets[s].counts)) {
                b->out[s][fd / 64] |= UINT64_C(1) << fd % 64;
                r++;
            }
    }
    return r;
}

static int64_t select_for(const linux_call *c, int64_t timeout_ns, const uint64_t *mask)
{
    struct bits b;
    struct pollfd few[64], *fds = few;
    b.n = arg_u32(c, 0);
    if (b.n > INT32_MAX)
        return -EINVAL;
    b.n = b.n < SELECT_MAX ? b.n : SELECT_MAX; /* no process has more descriptors */
    const size_t size = (b.n + 63) / 64 * sizeof(uint64_t);
    for (size_t s = 0; s < 3; s++) {
        memset(b.in[s], 0, size);
        memset(b.out[s], 0, size);
        if (c->arg[1 + s] && dz_linux_get(c, c->arg[1 + s], b.in[s], size) < 0)
            return -EFAULT;
    }
    if (b.n > DZ_ARRAY_LEN(few))
        fds = dz_alloc(b.n * sizeof *fds);
    int64_t count = fds ? select_fds(c, &b, fds) : -ENOMEM;
    int64_t r = count < 0 ? count : dz_sys_poll(LINUX_K(c), fds, (size_t)count, timeout_ns, mask);
    if (r >= 0)
        r = select_bits(&b, fds, (size_t)count);
    if (fds != few)
        dz_free(fds);
    for (size_t s = 0; s < 3 && r >= 0; s++) /* in this order, because they may be the same */
        if (c->arg[1 + s] && dz_linux_put(c, c->arg[1 + s], b.out[s], size) < 0)
            r = -EFAULT;
    return r;
}
LINUX_CALL(select)
{
    int64_t v[2], timeout = -1;
    if (c->arg[4] != 0) {
        if (dz_linux_get(c, c->arg[4], v, sizeof v) < 0)
            return -EFAULT;
        int64_t us; /* more than a second of them is fine */
        if (v[0] < 0 || v[1] < 0)
            return -EINVAL;
        if (__builtin_mul_overflow(v[0], 1000000, &us) || __builtin_add_overflow(us, v[1], &us) ||
            __builtin_mul_overflow(us, 1000, &timeout))
            timeout = INT64_MAX;
    }
    const int64_t deadline = deadline_of(c, timeout);
    const int64_t r = select_for(c, timeout, NULL);
    if (r != DZ_KBLOCK)
        put_left(c, c->arg[4], deadline, 1000);
    return r;
}
LINUX_CALL(pselect6)
{
    uint64_t mask, pair[2] = {0, 0}; /* address and size of the mask */
    const uint64_t *set;
    int64_t timeout;
    if (c->arg[5] != 0 && dz_linux_get(c, c->arg[5], pair, sizeof pair) < 0)
        return -EFAULT;
    int e = dz_linux_timespec(c, c->arg[4], &timeout);
    e = e < 0 ? e : dz_linux_mask(c, pair[0], pair[1], &mask, &set);
    if (e < 0)
        return e;
    const int64_t deadline = deadline_of(c, timeout);
    const int64_t r = select_for(c, timeout, set);
    if (r != DZ_KBLOCK)
        put_left(c, c->arg[4], deadline, 1);
    return r;
}

/* ---- epoll ------------------------------------------------------------------------------------
 */

/* struct epoll_event of x86-64 is packed. */
enum {
    EVENT = 12,
    EVENTS_AT_ONCE = 256,
};

LINUX_CALL(epoll_create)
{
    return arg_int(c, 0) <= 0 ? -EINVAL : dz_sys_epoll_create(LINUX_K(c), 0);
}
LINUX_CALL(epoll_create1)
{
    return dz_sys_epoll_create(LINUX_K(c), arg_int(c, 0));
}
LINUX_CALL(epoll_ctl)
{
    uint8_t event[EVENT];
    struct dz_epoll_ctl ctl = {.op = arg_int(c, 1), .fd = arg_int(c, 2)};
    if (ctl.op != EPOLL_CTL_DEL) {
        if (dz_linux_get(c, c->arg[3], event, sizeof event) < 0)
            return -EFAULT;
        memcpy(&ctl.event.events, event, 4);
        memcpy(&ctl.event.data, event + 4, 8);
    }
    return dz_sys_epoll_ctl(LINUX_K(c), arg_int(c, 0), &ctl);
}

/* Events that do not fit here wait for the next call, as they may on Linux. */
static int64_t epoll_for(const linux_call *c, int64_t timeout_ns, const uint64_t *mask)
{
    struct dz_epoll_event got[EVENTS_AT_ONCE];
    uint8_t out[EVENTS_AT_ONCE * EVENT];
    const int max = arg_int(c, 2);
    if (max <= 0 || max > INT32_MAX / EVENT)
        return -EINVAL;
    size_t n = (size_t)max < EVENTS_AT_ONCE ? (size_t)max : EVENTS_AT_ONCE;
    const size_t room = c->mem->room(c->mem->arg, c->arg[1], n * EVENT) / EVENT;
    if (room == 0)
        return dz_sys_fd(LINUX_K(c), arg_int(c, 0)) ? -EFAULT : -EBADF;
    n = n < room ? n : room;
    const struct dz_epoll_wait w = {got, n, timeout_ns, mask};
    const int64_t r = dz_sys_epoll_wait(LINUX_K(c), arg_int(c, 0), &w);
    for (int64_t i = 0; i < r; i++) {
        memcpy(out + i * EVENT, &got[i].events, 4);
        memcpy(out + i * EVENT + 4, &got[i].data, 8);
    }
    return r <= 0 ? r : dz_linux_give(c, r, c->arg[1], out, (size_t)r * EVENT);
}
LINUX_CALL(epoll_wait)
{
    const int ms = arg_int(c, 3);
    return epoll_for(c, ms < 0 ? -1 : ms * INT64_C(1000000), NULL);
}
LINUX_CALL(epoll_pwait)
{
    uint64_t mask;
    const uint64_t *set;
    const int ms = arg_int(c, 3);
    const int e = dz_linux_mask(c, c->arg[4], c->arg[5], &mask, &set);
    return e < 0 ? e : epoll_for(c, ms < 0 ? -1 : ms * INT64_C(1000000), set);
}
LINUX_CALL(epoll_pwait2)
{
    uint64_t mask;
    const uint64_t *set;
    int64_t timeout;
    int e = dz_linux_timespec(c, c->arg[3], &timeout);
    e = e < 0 ? e : dz_linux_mask(c, c->arg[4], c->arg[5], &mask, &set);
    return e < 0 ? e : epoll_for(c, timeout, set);
}
