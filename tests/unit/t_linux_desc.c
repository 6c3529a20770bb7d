/* SPDX-License-Identifier: MIT
 * System calls on descriptors and on what is nothing but one; waiting for many. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <linux/close_range.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LAST(n) (LRIG_RO - (n))
#define NOWHERE UINT64_C(0x7fff00000000)
#define MS      INT64_C(1000000)

static int64_t opens(struct fib *f, const char *path, int flags)
{
    const uint64_t used = lmem.used;
    const int64_t fd = CALL(f, openat, AT_FDCWD, lmem_str(path), flags, 0644);
    lmem.used = used;
    return fd;
}
static int64_t get64(uint64_t at)
{
    int64_t v;
    memcpy(&v, lmem_at(at), sizeof v);
    return v;
}
static void set64(uint64_t at, int64_t v)
{
    memcpy(lmem_at(at), &v, sizeof v);
}

/* ---- copies, flags, locks -------------------------------------------------------------- */

static int copies(struct fib *f)
{
    GIVES(f, 3, dup, 0);
    GIVES(f, 7, dup2, 0, 7);
    GIVES(f, 7, dup2, 7, 7);
    GIVES(f, 8, dup3, 0, 8, O_CLOEXEC);
    GIVES(f, FD_CLOEXEC, fcntl, 8, F_GETFD, 0);
    GIVES(f, 0, fcntl, 7, F_GETFD, 0);
    GIVES(f, 10, fcntl, 0, F_DUPFD_CLOEXEC, 10);
    GIVES(f, -EINVAL, fcntl, 0, F_DUPFD, -1);
    GIVES(f, 0, close_range, 7, 8, CLOSE_RANGE_CLOEXEC);
    GIVES(f, FD_CLOEXEC, fcntl, 7, F_GETFD, 0);
    GIVES(f, 0, close_range, 4, 8, 0);
    GIVES(f, -EBADF, close, 7);
    GIVES(f, 0, fcntl, 3, F_GETFD, 0);
    GIVES(f, 0, close_range, 9, UINT32_MAX, CLOSE_RANGE_UNSHARE);
    GIVES(f, -EBADF, close, 10);
    GIVES(f, -EINVAL, close_range, 5, 4, 0);
    GIVES(f, -EINVAL, close_range, 0, 4, 1);
    GIVES(f, 0, close, 3);
    GIVES(f, -EBADF, close, -1);
    GIVES(f, -EBADF, dup, 3);
    return 0;
}
TEST(descriptors_are_copied_and_closed)
{
    CHECK_INT(lrig_run(copies, 0), 0);
}

struct lock { /* struct flock */
    int16_t type, whence;
    int32_t pad;
    int64_t start, len;
    int32_t pid, pad2;
};
static int locked_by_other(struct fib *f)
{
    const struct lock want = {.type = F_WRLCK, .len = 5}, un = {.type = F_WRLCK, .start = 50};
    const uint64_t at = lmem_put(&want, sizeof want), free_at = lmem_put(&un, sizeof un);
    struct lock got;
    GIVES(f, 0, fcntl, 3, F_GETLK, at);
    memcpy(&got, lmem_at(at), sizeof got);
    OK(f, got.type == F_WRLCK && got.start == 2 && got.len == 3 && got.pid == f->p->ppid);
    GIVES(f, 0, fcntl, 3, F_GETLK, free_at);
    memcpy(&got, lmem_at(free_at), sizeof got);
    OK(f, got.type == F_UNLCK && got.start == 50); /* else as it was */
    memcpy(lmem_at(at), &want, sizeof want);
    GIVES(f, -EAGAIN, fcntl, 3, F_SETLK, at);
    return 0;
}
static int locks(struct fib *f)
{
    const struct lock own = {.type = F_WRLCK, .start = 2, .len = 3}, owned = {.pid = 3};
    const uint64_t at = lmem_put(&own, sizeof own), ofd = lmem_put(&owned, sizeof owned);
    int status = -1;
    OK(f, opens(f, "/f", O_RDWR | O_CREAT) == 3);
    GIVES(f, 0, fcntl, 3, F_SETLK, at);
    int64_t pid = fib_fork(f, locked_by_other);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    GIVES(f, -EINVAL, fcntl, 3, F_OFD_SETLK, ofd);
    GIVES(f, -EFAULT, fcntl, 3, F_SETLK, LRIG_END - 31);
    GIVES(f, -EFAULT, fcntl, 3, F_GETLK, LRIG_RO);
    GIVES(f, -EBADF, fcntl, 9, F_SETLK, NOWHERE);
    GIVES(f, 0, flock, 3, LOCK_EX | LOCK_NB);
    GIVES(f, 0, flock, 3, LOCK_UN);
    GIVES(f, -EINVAL, flock, 3, 0);
    return 0;
}
TEST(locks_have_the_layout_of_linux)
{
    CHECK_INT(lrig_run(locks, 0), 0);
}

static int controls(struct fib *f)
{
    const uint64_t fds = lmem_new(8), n = lmem_new(8), text = lmem_str("abc");
    GIVES(f, 0, pipe2, fds, 0);
    GIVES(f, 3, write, 4, text, 3);
    GIVES(f, 0, ioctl, 3, FIONREAD, n);
    OK(f, (int32_t)get64(n) == 3);
    GIVES(f, -EFAULT, ioctl, 3, FIONREAD, LRIG_RO);
    GIVES(f, -EFAULT, ioctl, 3, FIONREAD, LRIG_END - 3);
    GIVES(f, 0, ioctl, 3, FIOCLEX, 0);
    GIVES(f, FD_CLOEXEC, fcntl, 3, F_GETFD, 0);
    memset(lmem_at(LRIG_END - 4), 1, 1);
    GIVES(f, 0, ioctl, 3, FIONBIO, LRIG_END - 4); /* it only reads */
    GIVES(f, O_NONBLOCK, fcntl, 3, F_GETFL, 0);
    GIVES(f, -EBADF, ioctl, 9, FIONBIO, n);
    GIVES(f, -ENOTTY, ioctl, 3, 0x12345678, NOWHERE);
    GIVES(f, -EFAULT, pipe2, LAST(7), 0);
    GIVES(f, 5, dup, 0); /* the two are closed again */
    GIVES(f, 6, dup, 0);
    GIVES(f, 0, pipe, LAST(8));
    GIVES(f, -EINVAL, pipe2, fds, 1);
    return 0;
}
TEST(requests_read_and_write_their_argument)
{
    CHECK_INT(lrig_run(controls, 0), 0);
}

/* ---- eventfd and its like ------------------------------------------------------------------ */

static int nothing_but(struct fib *f)
{
    const uint64_t v = lmem_new(8), old = lmem_new(32), buf = lmem_new(128);
    const int64_t spec[2][2] = {{0, 10 * MS}, {1, 0}}, bad[2][2] = {{0, 0}, {0, 1000000000}};
    const uint64_t s = lmem_put(spec, sizeof spec), b = lmem_put(bad, sizeof bad);
    const uint64_t set = DZ_K_BIT(SIGUSR1), mask = lmem_put(&set, sizeof set);
    GIVES(f, 3, eventfd2, 5, EFD_NONBLOCK | EFD_SEMAPHORE);
    GIVES(f, 8, read, 3, v, 8);
    OK(f, get64(v) == 1);
    GIVES(f, 4, eventfd, 7);
    GIVES(f, 8, read, 4, v, 8);
    OK(f, get64(v) == 7);
    GIVES(f, -EINVAL, read, 4, v, 4);
    GIVES(f, -EINVAL, eventfd2, 0, 0x10);

    GIVES(f, 5, timerfd_create, CLOCK_MONOTONIC, TFD_NONBLOCK);
    GIVES(f, 0, timerfd_settime, 5, 0, s, old);
    OK(f, get64(old) == 0 && get64(old + 16) == 0);
    GIVES(f, 0, timerfd_gettime, 5, old);
    OK(f, get64(old) == 0 && get64(old + 8) == 10 * MS && get64(old + 16) == 1);
    f->r->now += 1015 * MS;
    GIVES(f, 8, read, 5, v, 8);
    OK(f, get64(v) == 2);
    GIVES(f, -EAGAIN, read, 5, v, 8);
    GIVES(f, -EINVAL, timerfd_settime, 5, 0, b, 0);
    GIVES(f, -EFAULT, timerfd_settime, 5, 0, 0, 0);
    GIVES(f, -EFAULT, timerfd_settime, 5, 0, LRIG_END - 31, 0);
    GIVES(f, -EFAULT, timerfd_gettime, 5, LAST(31));
    GIVES(f, -EFAULT, timerfd_gettime, 5, 0);
    GIVES(f, -EBADF, timerfd_gettime, 9, old);
    GIVES(f, -EINVAL, timerfd_gettime, 3, old);

    GIVES(f, 6, signalfd4, -1, mask, 8, O_NONBLOCK);
    OK(f, dz_sys_sigprocmask(FK(f), 0, &set, NULL) == 0);
    OK(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR1) == 0);
    GIVES(f, 128, read, 6, buf, 128);
    OK(f, (uint32_t)get64(buf) == SIGUSR1);
    GIVES(f, -EINVAL, signalfd4, -1, mask, 4, 0);
    GIVES(f, -EFAULT, signalfd4, -1, LRIG_END - 7, 8, 0);
    GIVES(f, -EINVAL, signalfd, 3, mask, 8);
    GIVES(f, 6, signalfd, 6, mask, 8);

    GIVES(f, 7, memfd_create, lmem_str("name"), 1);
    GIVES(f, FD_CLOEXEC, fcntl, 7, F_GETFD, 0);
    GIVES(f, 0, ftruncate, 7, 5000);
    const uint64_t name = lmem_new(400);
    memset(lmem_at(name), 'n', 300);
    GIVES(f, -EINVAL, memfd_create, name, 0);
    GIVES(f, -EFAULT, memfd_create, NOWHERE, 0);
    return 0;
}
TEST(things_that_are_descriptors_only)
{
    CHECK_INT(lrig_run(nothing_but, 0), 0);
}

/* ---- poll and select ------------------------------------------------------------------------- */

static int polls(struct fib *f)
{
    const uint64_t fds = lmem_new(8), ts = lmem_new(16), mask = lmem_new(8);
    const struct pollfd want[3] = {{3, POLLIN, 0}, {4, POLLOUT, 0}, {-1, POLLIN, 7}};
    const uint64_t p = lmem_put(want, sizeof want);
    GIVES(f, 0, pipe2, fds, 0);
    GIVES(f, 1, poll, p, 3, -1);
    struct pollfd got[3];
    memcpy(got, lmem_at(p), sizeof got);
    OK(f, got[0].revents == 0 && got[1].revents == POLLOUT && got[2].revents == 0);
    int64_t t = f->r->now;
    GIVES(f, 0, poll, p, 1, 20);
    OK(f, f->r->now == t + 20 * MS);
    set64(ts, 0);
    set64(ts + 8, 30 * MS);
    GIVES(f, 0, ppoll, p, 1, ts, mask, 8);
    OK(f, f->r->now == t + 50 * MS && get64(ts) == 0 && get64(ts + 8) == 0);
    set64(ts, 5);
    GIVES(f, 1, ppoll, p, 2, ts, 0, 0);
    OK(f, get64(ts) == 5 && get64(ts + 8) == 0); /* all of it is left */
    set64(LRIG_RO, 0);
    GIVES(f, 0, ppoll, p, 1, LRIG_RO, 0, 0); /* read only, but fine */
    set64(ts + 8, 1000 * MS);
    GIVES(f, -EINVAL, ppoll, p, 1, ts, 0, 0);
    set64(ts + 8, 0);
    GIVES(f, -EINVAL, ppoll, p, 1, ts, mask, 4);
    GIVES(f, -EFAULT, ppoll, p, 1, ts, NOWHERE, 8);
    GIVES(f, -EFAULT, ppoll, p, 1, NOWHERE, 0, 0);
    GIVES(f, -EFAULT, poll, NOWHERE, 1, 0);
    GIVES(f, -EFAULT, poll, LRIG_END - 15, 2, 0);
    GIVES(f, 0, poll, NOWHERE, 0, 0);
    GIVES(f, -EINVAL, poll, p, 70000, 0);
    GIVES(f, -EINVAL, poll, p, -1, 0);
    lmem.used = 0;
    const uint64_t many = lmem_new(100 * sizeof *want);
    struct pollfd bad[100];
    for (int i = 0; i < 100; i++)
        bad[i] = (struct pollfd){.fd = 50 + i, .events = POLLIN};
    memcpy(lmem_at(many), bad, sizeof bad);
    GIVES(f, 100, poll, many, 100, 0);
    memcpy(bad, lmem_at(many), sizeof bad);
    OK(f, bad[99].revents == POLLNVAL);
    return 0;
}
TEST(poll_waits_and_tells_what_is_left)
{
    CHECK_INT(lrig_run(polls, 0), 0);
}

static int selects(struct fib *f)
{
    const uint64_t fds = lmem_new(8), in = lmem_new(16), out = lmem_new(16), ex = lmem_new(16);
    const uint64_t tv = lmem_new(16), pair = lmem_new(16), mask = lmem_new(8);
    GIVES(f, 0, pipe2, fds, 0);
    set64(in, 1 << 3);
    set64(out, 1 << 4);
    set64(ex, 1 << 3);
    GIVES(f, 1, select, 5, in, out, ex, 0);
    OK(f, get64(in) == 0 && get64(out) == 1 << 4 && get64(ex) == 0);
    GIVES(f, 1, write, 4, fds, 1);
    set64(in, 1 << 3);
    GIVES(f, 2, select, 5, in, out, 0, 0);
    OK(f, get64(in) == 1 << 3 && get64(out) == 1 << 4);
    GIVES(f, 1, read, 3, fds, 8);
    int64_t t = f->r->now;
    set64(tv, 0);
    set64(tv + 8, 20000); /* us */
    GIVES(f, 0, select, 5, in, 0, 0, tv);
    OK(f, f->r->now == t + 20 * MS && get64(tv + 8) == 0 && get64(in) == 0);
    set64(tv + 8, 1500000);
    GIVES(f, 1, select, 5, 0, out, 0, tv);
    OK(f, get64(tv) == 1 && get64(tv + 8) == 500000);
    set64(tv + 8, -1);
    GIVES(f, -EINVAL, select, 5, 0, out, 0, tv);
    GIVES(f, -EINVAL, select, -1, 0, out, 0, 0);
    set64(in, 1 << 9);
    GIVES(f, -EBADF, select, 10, in, 0, 0, 0);
    set64(tv, 0);
    set64(tv + 8, 0);
    GIVES(f, 0, select, 9, in, 0, 0, tv); /* that one is not looked at */
    GIVES(f, -EFAULT, select, 5, NOWHERE, 0, 0, tv);
    GIVES(f, -EFAULT, select, 65, LRIG_END - 15, 0, 0, tv);
    GIVES(f, -EFAULT, select, 5, 0, 0, 0, NOWHERE);
    set64(LRIG_RO, 1 << 4);
    GIVES(f, -EFAULT, select, 5, 0, LRIG_RO, 0, tv);
    set64(out, 1 << 4);
    set64(pair, (int64_t)mask);
    set64(pair + 8, 8);
    t = f->r->now;
    set64(tv + 8, 5 * MS);
    set64(in, 1 << 3);
    GIVES(f, 0, pselect6, 5, in, 0, 0, tv, pair);
    OK(f, f->r->now == t + 5 * MS && get64(tv + 8) == 0);
    GIVES(f, 1, pselect6, 5, 0, out, 0, 0, 0);
    set64(pair + 8, 4);
    GIVES(f, -EINVAL, pselect6, 5, 0, out, 0, 0, pair);
    GIVES(f, -EFAULT, pselect6, 5, 0, out, 0, 0, LRIG_END - 15);
    GIVES(f, 4, dup2, 4, 4);
    GIVES(f, 100, dup2, 4, 100); /* more than the first word, more than a few */
    const uint64_t wide = lmem_new(16);
    set64(wide + 8, INT64_C(1) << 36);
    GIVES(f, 1, select, 101, 0, wide, 0, 0);
    OK(f, get64(wide) == 0 && get64(wide + 8) == INT64_C(1) << 36);
    return 0;
}
TEST(select_waits_and_tells_what_is_left)
{
    CHECK_INT(lrig_run(selects, 0), 0);
}

/* ---- epoll ----------------------------------------------------------------------------------- */

static int epolls(struct fib *f)
{
    const uint64_t fds = lmem_new(8), out = lmem_new(12 * 4), ts = lmem_new(16);
    uint8_t event[12];
    const uint32_t events = EPOLLOUT;
    const uint64_t data = UINT64_C(0x1122334455667788);
    memcpy(event, &events, 4);
    memcpy(event + 4, &data, 8);
    const uint64_t e = lmem_put(event, sizeof event), mask = lmem_new(8);
    GIVES(f, 0, pipe2, fds, 0); /* 3, 4 */
    GIVES(f, 5, epoll_create1, EPOLL_CLOEXEC);
    GIVES(f, 6, epoll_create, 1);
    GIVES(f, -EINVAL, epoll_create, 0);
    GIVES(f, -EINVAL, epoll_create1, 1);
    GIVES(f, 0, epoll_ctl, 5, EPOLL_CTL_ADD, 4, e);
    GIVES(f, -EEXIST, epoll_ctl, 5, EPOLL_CTL_ADD, 4, e);
    GIVES(f, 1, epoll_wait, 5, out, 4, -1);
    OK(f, memcmp(lmem_at(out), event, 12) == 0);
    GIVES(f, 1, epoll_wait, 5, LAST(12), 4, -1);
    GIVES(f, 0, epoll_ctl, 5, EPOLL_CTL_ADD, 0, e);
    GIVES(f, 2, epoll_wait, 5, out, 4, -1);
    GIVES(f, 1, epoll_wait, 5, LAST(12), 4, -1); /* no more than there is room for */
    GIVES(f, 0, epoll_ctl, 5, EPOLL_CTL_DEL, 0, 0);
    GIVES(f, -EFAULT, epoll_wait, 5, LAST(11), 4, -1);
    GIVES(f, -EFAULT, epoll_ctl, 5, EPOLL_CTL_MOD, 4, LRIG_END - 11);
    GIVES(f, 0, epoll_ctl, 5, EPOLL_CTL_DEL, 4, 0);
    GIVES(f, -ENOENT, epoll_ctl, 5, EPOLL_CTL_DEL, 4, 0);
    int64_t t = f->r->now;
    GIVES(f, 0, epoll_wait, 5, out, 4, 20);
    OK(f, f->r->now == t + 20 * MS);
    GIVES(f, 0, epoll_pwait, 5, out, 4, 20, mask, 8);
    GIVES(f, -EINVAL, epoll_pwait, 5, out, 4, 20, mask, 4);
    set64(ts + 8, 7 * MS);
    GIVES(f, 0, epoll_pwait2, 5, out, 4, ts, 0, 0);
    OK(f, f->r->now == t + 47 * MS);
    GIVES(f, -EFAULT, epoll_pwait2, 5, out, 4, NOWHERE, 0, 0);
    GIVES(f, -EINVAL, epoll_wait, 5, out, 0, 0);
    GIVES(f, -EINVAL, epoll_wait, 5, out, -1, 0);
    GIVES(f, -EBADF, epoll_wait, 9, NOWHERE, 4, 0);
    GIVES(f, -EINVAL, epoll_wait, 3, out, 4, 0);
    return 0;
}
TEST(epoll_events_are_packed)
{
    CHECK_INT(lrig_run(epolls, 0), 0);
}
