/* SPDX-License-Identifier: MIT
 * epoll, eventfd, timerfd, signalfd, memfd. Where time plays no part the same calls are made of
 * Linux too, and must answer the same. */
#define KRIG_NATIVE
#include "../lib/kernel_rig.h"
#include "tap.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int run(fib_main does, uint32_t uid)
{
    struct krig r;
    int status = krig_main_as(does, uid, &r);
    return krig_stop(&r) == 0 ? status : -2;
}

/* ---- two worlds ---------------------------------------------------------------------------- */

/* The same descriptors, ours and Linux's: two eventfds, a pipe's ends, an epoll, one above it. */
enum {
    SEM,
    COUNT,
    READ,
    WRITE,
    EPOLL,
    ABOVE,
    FDS,
};
struct pair {
    int ours[FDS], theirs[FDS];
};

static int64_t host(long r)
{
    return r < 0 ? -errno : r;
}

static int64_t ctl(struct fib *f, int epfd, int op, int fd, uint32_t events)
{
    const struct dz_epoll_ctl c = {op, fd, {events, (uint64_t)fd + 100}};
    return dz_sys_epoll_ctl(FK(f), epfd, &c);
}

static int64_t both_ctl(struct fib *f, const struct pair *w, int which, int op, uint32_t events,
                        int64_t *ret_theirs)
{
    int ep = which == EPOLL ? ABOVE : EPOLL;
    if (which == EPOLL || which == WRITE)
        events &= ~(uint32_t)EPOLLET;
    struct epoll_event e = {.events = events, .data.u64 = (uint64_t)which};
    const struct dz_epoll_ctl c = {op, w->ours[which], {events, (uint64_t)which}};
    *ret_theirs = host(epoll_ctl(w->theirs[ep], op, w->theirs[which], &e));
    return dz_sys_epoll_ctl(FK(f), w->ours[ep], &c);
}

/* Events of each, by what was registered: all that one call tells. */
static bool same_events(struct fib *f, const struct pair *w, int ep)
{
    struct dz_epoll_event got[8];
    struct epoll_event theirs[8];
    uint32_t mine[FDS] = {0}, other[FDS] = {0};
    const struct dz_epoll_wait how = {.ret_events = got, .max = 8, .timeout_ns = 0};
    int64_t n = SYS(f, dz_sys_epoll_wait(FK(f), w->ours[ep], &how));
    int m = epoll_wait(w->theirs[ep], theirs, 8, 0);
    for (int64_t i = 0; i < n; i++)
        mine[got[i].data] = got[i].events;
    for (int i = 0; i < m; i++)
        other[theirs[i].data.u64] = theirs[i].events;
    if (n != m || memcmp(mine, other, sizeof mine) != 0) {
        for (int i = 0; i < FDS; i++)
            printf("# %d: %x, Linux %x\n", i, mine[i], other[i]);
        return false;
    }
    return true;
}

static int64_t both_move(struct fib *f, const struct pair *w, uint64_t random, int64_t *ret_theirs)
{
    static const int from[] = {SEM, COUNT, READ}, to[] = {SEM, COUNT, WRITE};
    uint64_t v = 1 + (random >> 8) % 3, ours = v, theirs = v;
    int which = (int)(random % 3);
    if (random & 128) {
        *ret_theirs = host(write(w->theirs[to[which]], &v, 8));
        return SYS(f, dz_sys_write(FK(f), w->ours[to[which]], &v, 8));
    }
    *ret_theirs = host(read(w->theirs[from[which]], &theirs, 8));
    int64_t r = SYS(f, dz_sys_read(FK(f), w->ours[from[which]], &ours, 8));
    return ours == theirs ? r : -1000;
}

static bool make_pair(struct fib *f, struct pair *w)
{
    bool ok = pipe2(&w->theirs[READ], O_NONBLOCK) == 0;
    w->theirs[SEM] = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);
    w->theirs[COUNT] = eventfd(0, EFD_NONBLOCK);
    w->theirs[EPOLL] = epoll_create1(0);
    w->theirs[ABOVE] = epoll_create1(0);
    ok = ok && dz_sys_pipe2(FK(f), O_NONBLOCK, &w->ours[READ]) == 0;
    w->ours[SEM] = (int)dz_sys_eventfd(FK(f), 2, EFD_SEMAPHORE | EFD_NONBLOCK);
    w->ours[COUNT] = (int)dz_sys_eventfd(FK(f), 0, EFD_NONBLOCK);
    w->ours[EPOLL] = (int)dz_sys_epoll_create(FK(f), 0);
    w->ours[ABOVE] = (int)dz_sys_epoll_create(FK(f), O_CLOEXEC);
    return ok;
}

/* Random operations on both. A pipe's writer and an epoll are not watched for edges: a read of a
 * pipe that was not full is one here, and none on Linux. */
static int random_walk(struct fib *f)
{
    static const uint32_t kinds[] = {EPOLLIN,
                                     EPOLLOUT,
                                     EPOLLIN | EPOLLOUT,
                                     EPOLLIN | EPOLLET,
                                     EPOLLIN | EPOLLONESHOT,
                                     EPOLLOUT | EPOLLET | EPOLLONESHOT,
                                     EPOLLIN | EPOLLRDHUP,
                                     0};
    uint64_t seed = 1;
    for (int round = 0; round < 20; round++) {
        struct pair w;
        OK(f, make_pair(f, &w));
        for (int i = 0; i < 300; i++) {
            int64_t ours = 0, theirs = 0;
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint64_t random = seed >> 33;
            int which = (int)(random >> 4) % 5, op = 1 + (int)(random >> 8) % 3;
            if (random % 4 == 0)
                ours = both_ctl(f, &w, which, op, kinds[(random >> 12) % DZ_ARRAY_LEN(kinds)],
                                &theirs);
            else if (random % 4 == 1)
                OK(f, same_events(f, &w, random & 64 ? ABOVE : EPOLL));
            else
                ours = both_move(f, &w, random >> 4, &theirs);
            if (ours != theirs)
                printf("# step %d of round %d: %lld, Linux %lld\n", i, round, (long long)ours,
                       (long long)theirs);
            OK(f, ours == theirs);
        }
        for (int i = 0; i < FDS; i++) {
            OK(f, dz_sys_close(FK(f), w.ours[i]) == 0);
            (void)close(w.theirs[i]);
        }
        OK(f, dz_kernel_rows(f->k, DZ_KERNEL_TABLE_EPITEM) == 0 && f->k->waiters.used == 0);
    }
    return 0;
}
TEST(epoll_tells_what_linux_tells)
{
    CHECK_INT(run(random_walk, 0), 0);
}

/* ---- by itself ------------------------------------------------------------------------------- */

static int64_t wait_for(struct fib *f, int epfd, struct dz_epoll_event *ret, int64_t ms)
{
    const struct dz_epoll_wait how = {.ret_events = ret, .max = 4, .timeout_ns = ms * 1000000};
    return SYS(f, dz_sys_epoll_wait(FK(f), epfd, &how));
}

static int writes_later(struct fib *f)
{
    uint64_t one = 1;
    fib_sleep(f, 10);
    OK(f, SYS(f, dz_sys_write(FK(f), 0, &one, 8)) == 8);
    return 0;
}
static void nothing(struct fib *f, int signo)
{
    (void)f, (void)signo;
}
static int uses_epoll(struct fib *f)
{
    struct dz_epoll_event got[4];
    uint64_t v;
    int64_t ev = dz_sys_eventfd(FK(f), 0, 0), ep = dz_sys_epoll_create(FK(f), 0);
    OK(f, ctl(f, (int)ep, EPOLL_CTL_ADD, (int)ev, EPOLLIN | EPOLLET) == 0);
    OK(f, ctl(f, (int)ep, EPOLL_CTL_ADD, (int)ev, EPOLLIN) == -EEXIST);
    OK(f, ctl(f, (int)ep, EPOLL_CTL_ADD, 40, EPOLLIN) == -EBADF);
    OK(f, ctl(f, (int)ep, EPOLL_CTL_ADD, (int)ep, EPOLLIN) == -EINVAL);
    OK(f, ctl(f, (int)ep, 9, (int)ev, EPOLLIN) == -EINVAL);
    int64_t file = fib_open(f, "/bin/main", O_RDONLY);
    OK(f, ctl(f, (int)ep, EPOLL_CTL_ADD, (int)file, EPOLLIN) == -EPERM);
    OK(f, wait_for(f, (int)ep, got, 5) == 0);
    OK(f, fib_fork(f, writes_later) > 0);
    OK(f, wait_for(f, (int)ep, got, -1) == 1 && got[0].events == EPOLLIN && got[0].data == 100);
    OK(f, wait_for(f, (int)ep, got, 5) == 0); /* an edge is told once */
    OK(f, fib_wait(f, -1, NULL) > 0);
    /* the item lives as long as its description, whatever number it has */
    OK(f, dz_sys_dup2(FK(f), (int)ev, 30) == 30 && dz_sys_close(FK(f), (int)ev) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), 30, &(uint64_t){1}, 8)) == 8);
    OK(f, wait_for(f, (int)ep, got, 0) == 1);
    OK(f, SYS(f, dz_sys_read(FK(f), 30, &v, 8)) == 8 && v == 2);
    OK(f, dz_sys_close(FK(f), 30) == 0);
    OK(f, dz_kernel_rows(f->k, DZ_KERNEL_TABLE_EPITEM) == 0);
    /* a handler ends the wait, and the mask is put back */
    const struct dz_sigact act = {.handler = 2, .flags = SA_RESTART};
    const int64_t each[2] = {0, 5000000};
    const uint64_t open = 0, alarm = DZ_K_BIT(SIGALRM);
    f->handler[2] = nothing;
    OK(f, dz_sys_sigaction(FK(f), SIGALRM, &act, NULL) == 0);
    OK(f, dz_sys_sigprocmask(FK(f), 0, &alarm, NULL) == 0);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, each, NULL) == 0);
    const struct dz_epoll_wait how = {got, 4, -1, &open};
    OK(f, SYS(f, dz_sys_epoll_wait(FK(f), (int)ep, &how)) == -EINTR);
    OK(f, dz_k_me(FK(f))->sig_mask == alarm);
    return 0;
}
TEST(epoll_waits_wakes_and_lets_go)
{
    CHECK_INT(run(uses_epoll, 0), 0);
}

static int nests(struct fib *f)
{
    struct dz_epoll_event got[4];
    int ep[8];
    int64_t ev = dz_sys_eventfd(FK(f), 1, 0);
    for (int i = 0; i < 8; i++)
        ep[i] = (int)dz_sys_epoll_create(FK(f), 0);
    OK(f, ctl(f, ep[0], EPOLL_CTL_ADD, (int)ev, EPOLLIN) == 0);
    for (int i = 1; i < DZ_KERNEL_EPOLL_DEPTH; i++)
        OK(f, ctl(f, ep[i], EPOLL_CTL_ADD, ep[i - 1], EPOLLIN) == 0);
    OK(f, ctl(f, ep[0], EPOLL_CTL_ADD, ep[4], EPOLLIN) == -ELOOP);
    OK(f, ctl(f, ep[5], EPOLL_CTL_ADD, ep[4], EPOLLIN) == -ELOOP);
    OK(f, wait_for(f, ep[4], got, 0) == 1 && got[0].data == (uint64_t)ep[3] + 100);
    OK(f, dz_sys_close(FK(f), ep[2]) == 0 && wait_for(f, ep[4], got, 0) == 0);
    /* 60 ways from each level to the next: all are told, in the time of one */
    int level[4][60];
    for (int l = 0; l < 4; l++)
        for (int i = 0; i < 60; i++) {
            level[l][i] = (int)dz_sys_epoll_create(FK(f), 0);
            for (int j = 0; l > 0 && j < 60; j++)
                OK(f, ctl(f, level[l][i], EPOLL_CTL_ADD, level[l - 1][j], EPOLLIN) == 0);
            if (l == 0)
                OK(f, ctl(f, level[0][i], EPOLL_CTL_ADD, (int)ev, EPOLLIN | EPOLLET) == 0);
        }
    OK(f, ctl(f, ep[7], EPOLL_CTL_ADD, level[3][0], EPOLLIN) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), (int)ev, &(uint64_t){1}, 8)) == 8);
    OK(f, wait_for(f, ep[7], got, 0) == 1);
    return 0;
}
TEST(epoll_watches_epolls_to_a_depth)
{
    CHECK_INT(run(nests, 0), 0);
}

static int times(struct fib *f)
{
    const int64_t every[2] = {10000000, 25000000}, off[2] = {0, 0};
    int64_t now[2];
    uint64_t n;
    int64_t t = dz_sys_timerfd_create(FK(f), CLOCK_MONOTONIC, O_NONBLOCK);
    OK(f, t >= 0 && dz_sys_timerfd_create(FK(f), 77, 0) == -EINVAL);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)t, &n, 8)) == -EAGAIN);
    OK(f, dz_sys_timerfd_settime(FK(f), (int)t, 0, every, NULL) == 0);
    OK(f, dz_sys_timerfd_gettime(FK(f), (int)t, now) == 0);
    OK(f, now[0] == 10000000 && now[1] == 25000000);
    fib_sleep(f, 20);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)t, &n, 8)) == -EAGAIN);
    fib_sleep(f, 30); /* at 25, 35, 45 ms */
    OK(f, SYS(f, dz_sys_read(FK(f), (int)t, &n, 8)) == 8 && n == 3);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)t, &n, 4)) == -EINVAL);
    struct pollfd poll = {.fd = (int)t, .events = POLLIN};
    OK(f, SYS(f, dz_sys_poll(FK(f), &poll, 1, -1, NULL)) == 1); /* wakes at 55 */
    OK(f, dz_sys_timerfd_settime(FK(f), (int)t, 0, off, now) == 0 && now[1] == 10000000);
    OK(f, SYS(f, dz_sys_poll(FK(f), &poll, 1, 30000000, NULL)) == 0);
    const int64_t at[2] = {0, dz_kernel_now(f->k) - 1};
    OK(f, dz_sys_timerfd_settime(FK(f), (int)t, TFD_TIMER_ABSTIME, at, NULL) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)t, &n, 8)) == 8 && n == 1);
    OK(f, dz_sys_timerfd_settime(FK(f), (int)t, 64, at, NULL) == -EINVAL);
    OK(f, dz_sys_timerfd_gettime(FK(f), 0, now) == 0 && dz_sys_close(FK(f), (int)t) == 0);
    OK(f, f->k->timerfds == 0 && dz_sys_timerfd_gettime(FK(f), 0, now) == -EBADF);
    return 0;
}
TEST(timerfd_counts_expiries)
{
    CHECK_INT(run(times, 0), 0);
}

static int sends_later(struct fib *f)
{
    fib_sleep(f, 10);
    const struct dz_siginfo info = {.signo = SIGRTMIN, .code = SI_QUEUE, .value = 77};
    OK(f, dz_sys_sigqueue(FK(f), f->p->ppid, 0, &info) == 0);
    fib_sleep(f, 10);
    return 0;
}
static int takes_signals(struct fib *f)
{
    const uint64_t set = DZ_K_BIT(SIGRTMIN) | DZ_K_BIT(SIGCHLD), some = DZ_K_BIT(SIGCHLD);
    struct signalfd_siginfo got[3];
    OK(f, dz_sys_sigprocmask(FK(f), 0, &set, NULL) == 0);
    int64_t fd = dz_sys_signalfd(FK(f), -1, set, 0);
    int64_t pid = fib_fork(f, sends_later);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)fd, got, 100)) == -EINVAL);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)fd, got, sizeof got[0])) == sizeof got[0]);
    OK(f, got[0].ssi_signo == (uint32_t)SIGRTMIN && got[0].ssi_ptr == 77);
    OK(f, got[0].ssi_pid == (uint32_t)pid && got[0].ssi_code == SI_QUEUE);
    struct pollfd poll = {.fd = (int)fd, .events = POLLIN};
    OK(f, SYS(f, dz_sys_poll(FK(f), &poll, 1, -1, NULL)) == 1);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)fd, got, sizeof got)) == sizeof got[0]);
    OK(f, got[0].ssi_signo == SIGCHLD && got[0].ssi_code == CLD_EXITED);
    OK(f, dz_sys_kill(FK(f), f->p->pid, SIGRTMIN) == 0);
    OK(f, dz_sys_signalfd(FK(f), (int)fd, some, 0) == fd); /* not any more */
    OK(f, SYS(f, dz_sys_poll(FK(f), &poll, 1, 0, NULL)) == 0);
    OK(f, dz_sys_signalfd(FK(f), 99, some, 0) == -EBADF);
    OK(f, dz_sys_signalfd(FK(f), -1, some, O_APPEND) == -EINVAL);
    return 0;
}
TEST(signalfd_reads_signals)
{
    CHECK_INT(run(takes_signals, 0), 0);
}

static int seals(struct fib *f)
{
    static const uint32_t steps[] = {F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_WRITE, F_SEAL_SEAL};
    int theirs = memfd_create("x", MFD_ALLOW_SEALING);
    int ours = (int)dz_sys_memfd_create(FK(f), "x", MFD_ALLOW_SEALING);
    char buf[16] = "0123456789", link[64];
    OK(f, ours >= 0 && SYS(f, dz_sys_write(FK(f), ours, buf, 10)) == 10);
    OK(f, write(theirs, buf, 10) == 10);
    OK(f, dz_sys_readlinkat(FK(f), (struct dz_at){AT_FDCWD, "/proc/self/fd/0", 0}, link, 64) == 18);
    OK(f, memcmp(link, "/memfd:x (deleted)", 18) == 0);
    int again = (int)fib_open(f, "/proc/self/fd/0", O_RDWR);
    OK(f, again >= 0);
    for (size_t i = 0; i <= DZ_ARRAY_LEN(steps); i++) {
        int64_t r = dz_sys_fcntl(FK(f), again, F_GET_SEALS, 0);
        OK(f, r == host(fcntl(theirs, F_GET_SEALS)));
        r = dz_sys_ftruncate(FK(f), ours, 20);
        OK(f, r == host(ftruncate(theirs, 20)));
        r = dz_sys_ftruncate(FK(f), again, 5);
        OK(f, r == host(ftruncate(theirs, 5)));
        r = SYS(f, dz_sys_pwrite(FK(f), ours, "ab", 2, 0));
        OK(f, r == host(pwrite(theirs, "ab", 2, 0)));
        if (i == DZ_ARRAY_LEN(steps))
            break;
        r = dz_sys_fcntl(FK(f), ours, F_ADD_SEALS, steps[i]);
        OK(f, r == host(fcntl(theirs, F_ADD_SEALS, (int)steps[i])));
    }
    OK(f, dz_sys_fcntl(FK(f), ours, F_ADD_SEALS, F_SEAL_GROW) == -EPERM);
    int64_t plain = fib_open(f, "/bin/main", O_RDWR);
    OK(f, dz_sys_fcntl(FK(f), (int)plain, F_GET_SEALS, 0) == -EINVAL);
    (void)close(theirs);
    return 0;
}
TEST(memfd_is_a_file_without_a_name_and_can_be_sealed)
{
    CHECK_INT(run(seals, 0), 0);
}

/* ---- many descriptors ------------------------------------------------------------------------ */

static int opens_many(struct fib *f)
{
    const uint64_t all[2] = {DZ_KERNEL_FDS_MAX, DZ_KERNEL_FDS_MAX};
    uint64_t had[2];
    int64_t ev = dz_sys_eventfd(FK(f), 0, 0);
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_NOFILE, NULL, had) == 0);
    OK(f, had[0] == 1024 && had[1] == 65536);
    OK(f, dz_sys_dup2(FK(f), (int)ev, 1024) == -EBADF);
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_NOFILE, all, NULL) == 0);
    for (int fd = 1; fd < DZ_KERNEL_FDS_MAX; fd++)
        OK(f, dz_sys_dup(FK(f), (int)ev, 0, false) == fd);
    OK(f, dz_sys_dup(FK(f), (int)ev, 0, false) == -EMFILE);
    OK(f, dz_sys_close(FK(f), 70) == 0 && dz_sys_close(FK(f), 60000) == 0);
    OK(f, dz_sys_dup(FK(f), (int)ev, 71, false) == 60000);
    OK(f, dz_sys_dup(FK(f), (int)ev, 0, false) == 70);
    struct dz_kstat st;
    const struct dz_at link = {AT_FDCWD, "/proc/self/fd/65535", DZ_AT_NOFOLLOW};
    OK(f, dz_sys_fstatat(FK(f), link, &st) == 0);
    char to[64];
    OK(f, dz_sys_readlinkat(FK(f), link, to, sizeof to) == 20);
    return 0;
}
TEST(process_may_have_65536_descriptors)
{
    CHECK_INT(run(opens_many, 0), 0);
}

/* ---- files that are mapped ------------------------------------------------------------------- */

static struct {
    uint64_t ino, cut;
    char bytes[64];
    int synced;
} mapped;

static bool page_covers(void *arg, uint64_t ino)
{
    (void)arg;
    return ino == mapped.ino;
}
static int page_read(void *arg, uint64_t ino, uint64_t off, void *buf, size_t n)
{
    (void)arg, (void)ino;
    memcpy(buf, mapped.bytes + off, n);
    return 0;
}
static int page_write(void *arg, uint64_t ino, uint64_t off, const void *buf, size_t n)
{
    (void)arg, (void)ino;
    memcpy(mapped.bytes + off, buf, n);
    return 0;
}
static void page_truncate(void *arg, uint64_t ino, uint64_t size)
{
    (void)arg, (void)ino;
    mapped.cut = size;
    memset(mapped.bytes + size, 0, sizeof mapped.bytes - size);
}
static int page_sync(void *arg, uint64_t ino)
{
    (void)arg;
    mapped.synced += ino == mapped.ino ? 1 : 100;
    return 0;
}
static int maps(struct fib *f)
{
    char got[32] = {0};
    int fd = (int)fib_open(f, "/m", O_RDWR | O_CREAT);
    OK(f, SYS(f, dz_sys_write(FK(f), fd, "0123456789", 10)) == 10);
    mapped.ino = dz_k_fd_file(FK(f), fd)->node.ino;
    memcpy(mapped.bytes, "abcdefghij????", 14); /* as a program has written there */
    OK(f, SYS(f, dz_sys_pread(FK(f), fd, got, 32, 2)) == 8 && memcmp(got, "cdefghij", 8) == 0);
    OK(f, SYS(f, dz_sys_pread(FK(f), fd, got, 32, 10)) == 0);
    OK(f, SYS(f, dz_sys_pwrite(FK(f), fd, "XY", 2, 9)) == 2);
    OK(f, memcmp(mapped.bytes, "abcdefghiXY", 11) == 0);
    ssize_t on_disk = dz_vfs_read(f->k->vfs, mapped.ino, 0, got, 32);
    OK(f, on_disk == 11 && memcmp(got, "012345678XY", 11) == 0);
    OK(f, dz_sys_ftruncate(FK(f), fd, 4) == 0 && mapped.cut == 4 && mapped.bytes[4] == 0);
    OK(f, dz_sys_fsync(FK(f), fd) == 0 && mapped.synced == 1);
    OK(f, fib_open(f, "/m", O_WRONLY | O_TRUNC) > 0 && mapped.cut == 0);
    mapped.cut = 9;
    OK(f, fib_open(f, "/proc/self/fd/0", O_WRONLY | O_TRUNC) > 0 && mapped.cut == 0);
    return 0;
}
TEST(mapped_bytes_are_what_a_file_holds)
{
    static struct krig r;
    static const struct dz_kernel_pages pages = {.covers = page_covers,
                                                 .read = page_read,
                                                 .write = page_write,
                                                 .truncate = page_truncate,
                                                 .sync = page_sync};
    struct dz_job job = {0};
    krig_start(&r);
    r.k->pages = &pages;
    krig_prog(&r, "main", maps);
    uint32_t out;
    CHECK_INT(dz_kernel_stream_new(r.k, DZ_STREAM_OUT, 1, &out, NULL), 0);
    (void)krig_spawn(&r, "main", 0, NULL, 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(krig_stop(&r), 0);
}
