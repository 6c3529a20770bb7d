/* SPDX-License-Identifier: MIT
 * Sockets: calls that wait, what is charged, garbage, and rows that are saved or lie. What can be
 * tried without waiting is compared with Linux by t_kernel_sock_walk. */
#include "../lib/sock_world.h"
#include "tap.h"

#include <sys/epoll.h>

static int run(fib_main program, uint32_t uid)
{
    static struct krig r;
    int status = krig_main_as(program, uid, &r);
    if (r.k->tab[DZ_KERNEL_TABLE_SOCKET].used || r.k->tab[DZ_KERNEL_TABLE_MESSAGE].used ||
        r.k->in_flight || r.k->socket_bytes)
        status = -2; /* something is left */
    return krig_stop(&r) ? -3 : status;
}

static int64_t pair(struct fib *f, int type, int fds[2])
{
    const struct world w = {.f = f};
    return w_pair(&w, type, fds);
}
static int64_t put(struct fib *f, int fd, const char *text)
{
    const struct world w = {.f = f};
    return w_write(&w, fd, text, 0);
}
static int64_t get(struct fib *f, int fd, char *buf, size_t n, int flags)
{
    const struct world w = {.f = f};
    return w_read(&w, fd, buf, n, flags);
}
/* One byte with a descriptor. */
static int64_t put_fd(struct fib *f, int fd, int what)
{
    const struct world w = {.f = f};
    const struct iovec iov = {(void *)(uintptr_t)"x", 1};
    return w_send(&w, fd,
                  &(struct dz_msg){.iov = &iov, .iov_count = 1, .fds = &what, .fd_count = 1},
                  MSG_DONTWAIT);
}
/* The descriptor that came, -1: none. */
static int get_fd(struct fib *f, int fd)
{
    const struct world w = {.f = f};
    char c;
    int what = -1;
    struct dz_msg_got got;
    const struct iovec iov = {&c, 1};
    const struct dz_msg m = {.iov = &iov, .iov_count = 1, .ret_fds = &what, .fds_max = 1};
    return w_recv(&w, fd, &m, 0, &got) == 1 ? what : -1;
}

/* ---- waiting --------------------------------------------------------------- */

static int writes_late(struct fib *f)
{
    fib_sleep(f, 10);
    OK(f, put(f, (int)f->note[1], "hel") == 3);
    fib_sleep(f, 10);
    OK(f, put(f, (int)f->note[1], "lo") == 2);
    return 0;
}
static int reads_all(struct fib *f)
{
    int two[2], status;
    char buf[8] = {0};
    OK(f, pair(f, SOCK_STREAM, two) == 0);
    f->note[1] = two[1];
    int64_t pid = fib_fork(f, writes_late);
    OK(f, get(f, two[0], buf, 5, MSG_WAITALL) == 5 && strcmp(buf, "hello") == 0);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    pid = fib_fork(f, writes_late);
    OK(f, get(f, two[0], buf, 5, 0) == 3);
    OK(f, dz_sys_close(FK(f), two[1]) == 0);
    OK(f, get(f, two[0], buf, 5, MSG_WAITALL) == 2); /* the last end goes with the child */
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    return get(f, two[0], buf, 5, 0) == 0 ? 0 : 98;
}
TEST(sock_read_waits_for_all_or_the_end)
{
    CHECK_INT(run(reads_all, 0), 0);
}

static int times_out(struct fib *f)
{
    const struct world w = {.f = f};
    int two[2];
    char buf[4];
    OK(f, pair(f, SOCK_STREAM, two) == 0);
    OK(f, w_set(&w, two[0], SO_RCVTIMEO, 50000000) == 0);
    int64_t before = dz_kernel_now(f->k);
    OK(f, get(f, two[0], buf, 4, 0) == -EAGAIN);
    OK(f, dz_kernel_now(f->k) - before == 50000000);
    OK(f, put(f, two[1], "ab") == 2);
    OK(f, get(f, two[0], buf, 4, MSG_WAITALL) == 2); /* and then what there is */
    OK(f, w_set(&w, two[1], SO_SNDTIMEO, 70000000) == 0);
    static char big[100000];
    const struct iovec iov = {big, sizeof big};
    const struct dz_msg m = {.iov = &iov, .iov_count = 1};
    before = dz_kernel_now(f->k);
    int64_t r = 0, sum = 0;
    while ((r = w_send(&w, two[1], &m, 0)) == (int64_t)sizeof big)
        sum += r;
    OK(f, r > 0 && dz_kernel_now(f->k) - before == 70000000); /* some of it */
    OK(f, w_send(&w, two[1], &m, 0) == -EAGAIN);
    struct pollfd p = {two[1], POLLOUT, 0};
    OK(f, w_poll(&w, &p, 1) == 0);
    return 0;
}
TEST(sock_timeouts_end_a_wait)
{
    CHECK_INT(run(times_out, 0), 0);
}

static int sends_much(struct fib *f)
{
    static char big[1000000];
    const struct iovec iov = {big, sizeof big};
    const struct world w = {.f = f};
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7 ^ i >> 9);
    OK(f, w_send(&w, (int)f->note[1], &(struct dz_msg){.iov = &iov, .iov_count = 1}, 0) ==
              (int64_t)sizeof big);
    return 0;
}
static int takes_much(struct fib *f)
{
    int two[2], status;
    char buf[3001];
    size_t at = 0;
    OK(f, pair(f, SOCK_STREAM, two) == 0);
    f->note[1] = two[1];
    int64_t pid = fib_fork(f, sends_much);
    OK(f, dz_sys_close(FK(f), two[1]) == 0);
    for (int64_t n; (n = get(f, two[0], buf, sizeof buf, 0)) != 0; at += (size_t)n) {
        OK(f, n > 0 && f->k->socket_bytes <= 2 * DZ_SOCKET_BUF);
        for (size_t i = 0; i < (size_t)n; i++)
            OK(f, buf[i] == (char)((at + i) * 7 ^ (at + i) >> 9));
    }
    OK(f, at == 1000000 && fib_wait(f, pid, &status) == pid && status == 0);
    return 0;
}
TEST(sock_writer_waits_for_its_reader)
{
    CHECK_INT(run(takes_much, 0), 0);
}

/* The pieces of a call that waits; the memory of a program may change meanwhile. */
static struct iovec pieces;

static int makes_less_room(struct fib *f)
{
    static char taken[1000000];
    fib_sleep(f, 10);
    OK(f, f->note[2] || put(f, (int)f->note[1], "hel") == 3);
    fib_sleep(f, 10);
    pieces.iov_len = 1;
    return f->note[2] ? get(f, (int)f->note[1], taken, sizeof taken, 0) > 100000 ? 0 : 97
           : put(f, (int)f->note[1], "lo") == 2 ? 0
                                                : 96;
}
static int has_less_room(struct fib *f)
{
    static char big[1000000];
    int two[2], status;
    const struct world w = {.f = f};
    const struct dz_msg m = {.iov = &pieces, .iov_count = 1};
    struct dz_sockaddr a = {.size = 16, .bytes = {AF_INET, 0, 0, 0, 127, 0, 0, 1}};
    struct dz_msg_got got;
    OK(f, pair(f, SOCK_STREAM, two) == 0);
    f->note[1] = two[1];
    f->note[2] = 0;
    pieces = (struct iovec){big, 5};
    int64_t pid = fib_fork(f, makes_less_room);
    OK(f, w_recv(&w, two[0], &m, MSG_WAITALL, &got) == 3 && memcmp(big, "hel", 4) == 0);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    const int l = (int)SYS(f, dz_sys_socket(FK(f), AF_INET, SOCK_STREAM, 0));
    const int c = (int)SYS(f, dz_sys_socket(FK(f), AF_INET, SOCK_STREAM, 0));
    OK(f, dz_sys_bind(FK(f), l, &a) == 0 && dz_sys_listen(FK(f), l, 1) == 0);
    OK(f, dz_sys_getsockname(FK(f), l, &a) == 0 && SYS(f, dz_sys_connect(FK(f), c, &a)) == 0);
    f->note[1] = (int)SYS(f, dz_sys_accept4(FK(f), l, 0, NULL));
    f->note[2] = 1;
    pieces = (struct iovec){big, sizeof big};
    pid = fib_fork(f, makes_less_room);
    const int64_t sent = w_send(&w, c, &m, 0);
    OK(f, sent > 100000 && sent < (int64_t)sizeof big);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    return 0;
}
TEST(sock_calls_whose_memory_shrinks_while_they_wait_are_over)
{
    CHECK_INT(run(has_less_room, 0), 0);
}

static int connects(struct fib *f)
{
    const struct world w = {.f = f};
    const struct dz_sockaddr a = w_addr("/tmp/srv", 8);
    char buf[8];
    fib_sleep(f, 5);
    for (int i = 0; i < 4; i++) { /* the fourth waits for room in the queue */
        int fd = (int)w_socket(&w, SOCK_STREAM);
        OK(f, w_connect(&w, fd, &a) == 0 && put(f, fd, "hi") == 2);
        OK(f, i < 3 || get(f, fd, buf, 8, 0) == 3);
    }
    int fd = (int)w_socket(&w, SOCK_STREAM | SOCK_NONBLOCK);
    while (w_connect(&w, fd, &a) == 0)
        fd = (int)w_socket(&w, SOCK_STREAM | SOCK_NONBLOCK);
    OK(f, w_connect(&w, fd, &a) == -EAGAIN);
    return 0;
}
static int serves(struct fib *f)
{
    const struct world w = {.f = f};
    struct dz_sockaddr a = w_addr("/tmp/srv", 8);
    struct dz_sockopt v;
    char buf[8];
    int status, fd = (int)w_socket(&w, SOCK_STREAM);
    OK(f, w_bind(&w, fd, &a) == 0 && w_listen(&w, fd, 1) == 0);
    int64_t pid = fib_fork(f, connects);
    for (int i = 0; i < 4; i++) {
        int c = (int)w_accept(&w, fd, 0, &a); /* the first waits */
        OK(f, c > 0 && a.size == 2 && get(f, c, buf, 8, 0) == 2);
        OK(f, w_get(&w, c, SO_PEERCRED, &v) == 0 && v.cred.pid == pid && v.cred.uid == 7);
        OK(f, put(f, c, "yes") == 3);
        fib_sleep(f, 20);
    }
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    return 0;
}
TEST(sock_server_and_clients_wait_for_each_other)
{
    CHECK_INT(run(serves, 7), 0);
}

static int notes_signal_log;
static void notes_signal(struct fib *f, int signo)
{
    (void)f;
    notes_signal_log = signo;
}
static int signals(struct fib *f)
{
    const struct world w = {.f = f};
    const struct iovec iov = {(void *)(uintptr_t)"x", 1};
    const struct dz_msg m = {.iov = &iov, .iov_count = 1};
    struct dz_sigact a = {.handler = 2};
    int two[2];
    f->handler[2] = notes_signal;
    OK(f, dz_sys_sigaction(FK(f), SIGPIPE, &a, NULL) == 0);
    OK(f, dz_sys_sigaction(FK(f), SIGALRM, &a, NULL) == 0);
    OK(f, pair(f, SOCK_STREAM, two) == 0 && dz_sys_close(FK(f), two[1]) == 0);
    OK(f, w_send(&w, two[0], &m, MSG_NOSIGNAL) == -EPIPE && notes_signal_log == 0);
    OK(f, w_send(&w, two[0], &m, 0) == -EPIPE && notes_signal_log == SIGPIPE);
    OK(f, SYS(f, dz_sys_write(FK(f), two[0], "x", 1)) == -EPIPE);
    OK(f, pair(f, SOCK_STREAM, two) == 0);
    const int64_t soon[2] = {0, 1000000};
    char c;
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, soon, NULL) == 0);
    OK(f, get(f, two[0], &c, 1, 0) == -EINTR && notes_signal_log == SIGALRM);
    return 0;
}
TEST(sock_signals_end_a_wait_and_tell_of_a_broken_pipe)
{
    notes_signal_log = 0;
    CHECK_INT(run(signals, 0), 0);
}

static int reads_first(struct fib *f)
{
    char c;
    OK(f, get(f, 0, &c, 1, 0) == -EBADF);
    return 0;
}
static int closes_its_own(struct fib *f)
{
    int two[2], more[2];
    OK(f, pair(f, SOCK_DGRAM, two) == 0 && two[0] == 0);
    (void)fib_thread(f, reads_first);
    fib_sleep(f, 1);
    OK(f, f->k->waiters.used == 1);
    OK(f, dz_sys_close(FK(f), 0) == 0 && dz_sys_close(FK(f), 1) == 0);
    OK(f, f->k->waiters.used == 0);
    fib_sleep(f, 1);
    OK(f, pair(f, SOCK_DGRAM, more) == 0);
    return 0;
}
TEST(sock_closed_under_a_thread_that_waits)
{
    CHECK_INT(run(closes_its_own, 0), 0);
}

/* ---- read, write, and other calls on descriptors --------------------------- */

static int plain_calls(struct fib *f)
{
    int two[2];
    char buf[32] = {0}, more[4];
    struct iovec out[3] = {
        {(void *)(uintptr_t)"ab", 2}, {(void *)(uintptr_t)"", 0}, {(void *)(uintptr_t)"cde", 3}};
    struct iovec in[2] = {{buf, 2}, {more, 4}};
    struct dz_kstat st;
    OK(f, pair(f, SOCK_DGRAM | SOCK_CLOEXEC, two) == 0);
    OK(f, dz_sys_fcntl(FK(f), two[0], F_GETFD, 0) == FD_CLOEXEC);
    OK(f, SYS(f, dz_sys_writev(FK(f), two[0], out, 3)) == 5); /* one datagram */
    OK(f, SYS(f, dz_sys_write(FK(f), two[0], "", 0)) == 0);   /* an empty one */
    OK(f, SYS(f, dz_sys_write(FK(f), two[0], "z", 1)) == 1);
    OK(f, SYS(f, dz_sys_readv(FK(f), two[1], in, 2)) == 5 && memcmp(buf, "ab", 2) == 0 &&
              memcmp(more, "cde", 3) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), two[1], buf, 0)) == 0); /* takes nothing */
    OK(f, SYS(f, dz_sys_read(FK(f), two[1], buf, 9)) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), two[1], buf, 9)) == 1 && buf[0] == 'z');
    OK(f, dz_sys_lseek(FK(f), two[0], 0, SEEK_SET) == -ESPIPE);
    OK(f, dz_sys_pread(FK(f), two[0], buf, 1, 0) == -ESPIPE);
    OK(f, dz_sys_fstatat(FK(f), (struct dz_at){.dirfd = two[0]}, &st) == 0 && S_ISSOCK(st.mode));
    struct dz_at link = {.dirfd = AT_FDCWD, .path = "/proc/self/fd/0"};
    int64_t n = dz_sys_readlinkat(FK(f), link, buf, sizeof buf);
    OK(f, n > 9 && memcmp(buf, "socket:[", 8) == 0);
    OK(f, fib_open(f, "/proc/self/fd/0", O_RDWR) == -ENXIO);
    OK(f, dz_sys_listen(FK(f), 77, 1) == -EBADF);
    int fd = (int)fib_open(f, "/f", O_CREAT | O_RDWR);
    OK(f, dz_sys_listen(FK(f), fd, 1) == -ENOTSOCK);
    OK(f, put(f, fd, "x") == -ENOTSOCK);
    return 0;
}
TEST(sock_is_a_descriptor_like_others)
{
    CHECK_INT(run(plain_calls, 0), 0);
}

static int kinds(struct fib *f)
{
    OK(f, dz_sys_socket(FK(f), AF_UNIX, SOCK_STREAM, 9) == -EPROTONOSUPPORT);
    OK(f, dz_sys_socket(FK(f), AF_UNIX, SOCK_RDM, 0) == -ESOCKTNOSUPPORT);
    OK(f, dz_sys_socket(FK(f), AF_UNIX, 12, 0) == -EINVAL);
    OK(f, dz_sys_socket(FK(f), AF_UNIX, SOCK_STREAM | 0x100, 0) == -EINVAL);
    OK(f, dz_sys_socket(FK(f), AF_IPX, SOCK_STREAM, 0) == -EAFNOSUPPORT);
    OK(f, dz_sys_socket(FK(f), 99, SOCK_STREAM, 0) == -EAFNOSUPPORT);
    OK(f, dz_sockopt_form(SOL_SOCKET, SO_RCVTIMEO) == DZ_SOCKOPT_TIME);
    OK(f, dz_sockopt_form(SOL_SOCKET, 9999) == -ENOPROTOOPT);
    const struct world w = {.f = f};
    struct dz_sockopt v;
    int fd = (int)w_socket(&w, SOCK_RAW);
    OK(f, w_get(&w, fd, SO_TYPE, &v) == 0 && v.value == SOCK_DGRAM);
    OK(f, w_set(&w, fd, SO_SNDBUF, 1) == 0 && w_get(&w, fd, SO_SNDBUF, &v) == 0 &&
              v.value == DZ_SOCKET_SNDBUF_MIN);
    OK(f, w_set(&w, fd, SO_RCVBUF, 5000) == 0 && w_get(&w, fd, SO_RCVBUF, &v) == 0 &&
              v.value == 10000);
    OK(f, w_set(&w, fd, SO_SNDBUF, 1 << 30) == 0 && w_get(&w, fd, SO_SNDBUF, &v) == 0 &&
              v.value == 2 * DZ_SOCKET_BUF);
    OK(f,
       w_set(&w, fd, SO_KEEPALIVE, 5) == 0 && w_get(&w, fd, SO_KEEPALIVE, &v) == 0 && v.value == 1);
    OK(f, w_set(&w, fd, SO_TYPE, 5) == -ENOPROTOOPT);
    OK(f, w_set(&w, fd, SO_RCVTIMEO, 1500000000) == 0 && w_get(&w, fd, SO_RCVTIMEO, &v) == 0 &&
              v.value == 1500000000);
    return 0;
}
TEST(sock_kinds_and_options)
{
    CHECK_INT(run(kinds, 0), 0);
}

static int owns_a_socket(struct fib *f)
{
    const struct world w = {.f = f};
    const struct dz_sockaddr a = w_addr("/tmp/s", 6), b = w_addr("/tmp/t", 6);
    const struct dz_at at = {AT_FDCWD, "/tmp/s", 0};
    int fd = (int)w_socket(&w, SOCK_DGRAM), other = (int)w_socket(&w, SOCK_DGRAM);
    OK(f, w_bind(&w, fd, &a) == 0);
    OK(f, dz_sys_fchmodat(FK(f), at, 0444) == 0);
    OK(f, w_connect(&w, other, &a) == -EACCES);
    OK(f, dz_sys_fchmodat(FK(f), at, 0600) == 0);
    OK(f, w_connect(&w, other, &a) == 0 && put(f, other, "m") == 1);
    OK(f, dz_sys_renameat(FK(f), at, (struct dz_at){AT_FDCWD, "/tmp/t", 0}, 0) == 0);
    OK(f, w_connect(&w, other, &a) == -ENOENT && w_connect(&w, other, &b) == 0);
    OK(f, fib_open(f, "/tmp/t", O_RDONLY) == -ENXIO);
    OK(f, dz_sys_close(FK(f), fd) == 0 && w_connect(&w, other, &b) == -ECONNREFUSED);
    OK(f, put(f, other, "m") == -ECONNREFUSED && put(f, other, "m") == -ENOTCONN);
    return 0;
}
TEST(sock_path_is_an_inode_with_its_permissions)
{
    CHECK_INT(run(owns_a_socket, 5), 0);
}

static int lies_about_itself(struct fib *f)
{
    const struct world w = {.f = f};
    const struct iovec iov = {(void *)(uintptr_t)"x", 1};
    struct dz_ucred cred = {f->p->pid, 5, 5};
    struct dz_msg m = {.iov = &iov, .iov_count = 1, .cred = &cred, .cred_room = true};
    struct dz_msg_got got;
    char c;
    int two[2];
    OK(f, pair(f, SOCK_STREAM, two) == 0);
    OK(f, w_send(&w, two[0], &m, 0) == 1);
    cred.uid = 0;
    OK(f, w_send(&w, two[0], &m, 0) == -EPERM);
    cred.uid = 5;
    cred.pid = 1;
    OK(f, w_send(&w, two[0], &m, 0) == -EPERM);
    OK(f, w_set(&w, two[1], SO_PASSCRED, 1) == 0);
    m.iov = &(struct iovec){&c, 1};
    OK(f, w_recv(&w, two[1], &m, 0, &got) == 1 && got.has_cred && got.cred.pid == f->p->pid &&
              got.cred.uid == 5 && got.cred.gid == 5);
    return 0;
}
TEST(sock_credentials_are_the_senders_own)
{
    CHECK_INT(run(lies_about_itself, 5), 0);
}

static int watches(struct fib *f)
{
    const struct world w = {.f = f};
    struct dz_epoll_ctl add = {.op = EPOLL_CTL_ADD, .event = {EPOLLIN | EPOLLET | EPOLLRDHUP, 3}};
    struct dz_epoll_event e;
    const struct dz_epoll_wait wait = {.ret_events = &e, .max = 1};
    char c;
    int two[2], ep = (int)dz_sys_epoll_create(FK(f), 0);
    OK(f, pair(f, SOCK_STREAM, two) == 0);
    add.fd = two[0];
    OK(f, dz_sys_epoll_ctl(FK(f), ep, &add) == 0);
    OK(f, SYS(f, dz_sys_epoll_wait(FK(f), ep, &wait)) == 0);
    OK(f, put(f, two[1], "x") == 1);
    OK(f, SYS(f, dz_sys_epoll_wait(FK(f), ep, &wait)) == 1 && e.events == EPOLLIN);
    OK(f, SYS(f, dz_sys_epoll_wait(FK(f), ep, &wait)) == 0); /* told once */
    OK(f, get(f, two[0], &c, 1, 0) == 1);
    OK(f, w_shutdown(&w, two[1], SHUT_WR) == 0);
    OK(f, SYS(f, dz_sys_epoll_wait(FK(f), ep, &wait)) == 1 && e.events == (EPOLLIN | EPOLLRDHUP));
    return 0;
}
TEST(sock_is_watched_by_epoll)
{
    CHECK_INT(run(watches, 0), 0);
}

/* ---- limits ---------------------------------------------------------------- */

static int sends_too_much(struct fib *f)
{
    const struct world w = {.f = f};
    static char data[60000];
    const struct iovec iov = {data, sizeof data};
    const struct dz_msg m = {.iov = &iov, .iov_count = 1};
    int64_t r = 0;
    int two[2];
    f->k->limits.pipe_bytes = 500000;
    while (r != -ENOBUFS) { /* each pair takes less than the sum */
        OK(f, pair(f, SOCK_DGRAM, two) == 0);
        while ((r = w_send(&w, two[0], &m, MSG_DONTWAIT)) > 0)
            OK(f, f->k->socket_bytes <= 500000);
        OK(f, r == -EAGAIN || r == -ENOBUFS);
    }
    OK(f, f->k->socket_bytes > 400000);
    OK(f, w_send(&w, two[0], &(struct dz_msg){.iov = &(struct iovec){data, 300000}, .iov_count = 1},
                 0) == -EMSGSIZE);
    return 0;
}
TEST(sock_messages_are_charged)
{
    CHECK_INT(run(sends_too_much, 0), 0);
}

static int sends_descriptors(struct fib *f)
{
    const uint64_t few[2] = {20, 20};
    int64_t r = 0;
    int two[2], many[300], n = 0;
    OK(f, pair(f, SOCK_STREAM, two) == 0);
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_NOFILE, few, NULL) == 0);
    while ((r = put_fd(f, two[0], two[1])) == 1)
        n++;
    OK(f, r == -ETOOMANYREFS && n == 21 && f->k->in_flight == 21);
    OK(f, put(f, two[0], "plain") == 5);
    for (int i = 0; i < 300; i++)
        many[i] = two[0];
    const struct world w = {.f = f};
    const struct iovec iov = {many, 1};
    OK(f, w_send(&w, two[0],
                 &(struct dz_msg){.iov = &iov, .iov_count = 1, .fds = many, .fd_count = 254},
                 0) == -EINVAL);
    many[0] = 19;
    OK(f,
       w_send(&w, two[0], &(struct dz_msg){.iov = &iov, .iov_count = 1, .fds = many, .fd_count = 1},
              0) == -EBADF);
    /* Without a number for it one that arrives is lost, and told of. */
    while (dz_sys_dup(FK(f), two[0], 0, false) >= 0)
        ;
    struct dz_msg_got got;
    char c;
    const struct dz_msg m = {
        .iov = &(struct iovec){&c, 1}, .iov_count = 1, .ret_fds = many, .fds_max = 5};
    OK(f, w_recv(&w, two[1], &m, 0, &got) == 1 && got.fd_count == 0 && got.flags == MSG_CTRUNC);
    OK(f, f->k->in_flight == 20);
    return 0;
}
TEST(sock_descriptors_in_flight_are_counted)
{
    CHECK_INT(run(sends_descriptors, 5), 0);
}

/* ---- garbage --------------------------------------------------------------- */

static int garbage(struct fib *f)
{
    const struct world w = {.f = f};
    const struct dz_sockaddr a = w_addr("\0g", 2);
    struct dz_k_table *sockets = &f->k->tab[DZ_KERNEL_TABLE_SOCKET];
    int two[2], more[2];
    /* A pair that is in its own queues. */
    OK(f, pair(f, SOCK_STREAM, two) == 0);
    OK(f, put_fd(f, two[0], two[1]) == 1 && put_fd(f, two[1], two[0]) == 1);
    OK(f, dz_sys_close(FK(f), two[0]) == 0 && sockets->used == 2);
    OK(f, dz_sys_close(FK(f), two[1]) == 0 && sockets->used == 0 && f->k->in_flight == 0);
    /* Two that carry one another, and a pipe, of which one end is held. */
    int fds[2];
    OK(f, dz_sys_pipe2(FK(f), O_NONBLOCK, fds) == 0);
    OK(f, pair(f, SOCK_DGRAM, two) == 0 && pair(f, SOCK_SEQPACKET, more) == 0);
    OK(f, put_fd(f, two[0], more[1]) == 1 && put_fd(f, more[0], two[1]) == 1);
    OK(f, put_fd(f, two[0], fds[1]) == 1 && dz_sys_close(FK(f), fds[1]) == 0);
    for (int i = 0; i < 2; i++)
        OK(f, dz_sys_close(FK(f), two[i]) == 0 && dz_sys_close(FK(f), more[i]) == 0);
    OK(f, sockets->used == 0);
    char c;
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], &c, 1)) == 0); /* the other end is gone */
    /* A listener that only one who waits to be accepted there carries. */
    int l = (int)w_socket(&w, SOCK_STREAM), c1 = (int)w_socket(&w, SOCK_STREAM);
    OK(f, w_bind(&w, l, &a) == 0 && w_listen(&w, l, 4) == 0 && w_connect(&w, c1, &a) == 0);
    OK(f, put_fd(f, c1, l) == 1 && dz_sys_close(FK(f), l) == 0);
    OK(f, sockets->used <= 2 && put(f, c1, "x") < 0);
    OK(f, dz_sys_close(FK(f), c1) == 0 && sockets->used == 0);
    /* One who waits to be accepted is reached by the listener. */
    const struct dz_sockaddr b = w_addr("\0h", 2);
    struct dz_sockaddr from;
    char buf[8];
    l = (int)w_socket(&w, SOCK_STREAM), c1 = (int)w_socket(&w, SOCK_STREAM);
    OK(f, w_bind(&w, l, &b) == 0 && w_listen(&w, l, 4) == 0 && w_connect(&w, c1, &b) == 0);
    OK(f, pair(f, SOCK_STREAM, more) == 0 && put(f, more[0], "kept") == 4);
    OK(f, put_fd(f, c1, more[1]) == 1 && dz_sys_close(FK(f), more[1]) == 0);
    int end = (int)w_accept(&w, l, 0, &from), in = get_fd(f, end);
    OK(f, in >= 0 && get(f, in, buf, 8, 0) == 4);
    const int all[] = {l, c1, end, in, more[0]};
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        OK(f, dz_sys_close(FK(f), all[i]) == 0);
    /* What somebody can still reach stays: a socket in a queue of one in a queue. */
    OK(f, pair(f, SOCK_STREAM, two) == 0 && pair(f, SOCK_STREAM, more) == 0);
    OK(f, put(f, more[0], "kept") == 4);
    OK(f, put_fd(f, two[0], more[1]) == 1 && dz_sys_close(FK(f), more[1]) == 0);
    OK(f, dz_sys_close(FK(f), more[0]) == 0);
    int got = get_fd(f, two[1]);
    OK(f, got >= 0 && get(f, got, buf, 8, 0) == 4 && memcmp(buf, "kept", 4) == 0);
    return 0;
}
TEST(sock_garbage_is_found)
{
    CHECK_INT(run(garbage, 0), 0);
}

/* Each socket holds the next in its queue: they end without a stack as deep. */
static int chain(struct fib *f)
{
    int last[2], next[2];
    OK(f, pair(f, SOCK_DGRAM, last) == 0);
    for (int i = 0; i < 2000; i++) {
        OK(f, pair(f, SOCK_DGRAM, next) == 0);
        OK(f, put_fd(f, next[0], last[1]) == 1);
        OK(f, dz_sys_close(FK(f), last[0]) == 0 && dz_sys_close(FK(f), last[1]) == 0);
        memcpy(last, next, sizeof last);
    }
    OK(f, f->k->in_flight == 2000);
    OK(f, dz_sys_close(FK(f), last[0]) == 0 && dz_sys_close(FK(f), last[1]) == 0);
    OK(f, f->k->in_flight == 0 && f->k->tab[DZ_KERNEL_TABLE_SOCKET].used == 0);
    return 0;
}
TEST(sock_long_chains_end)
{
    CHECK_INT(run(chain, 0), 0);
}

static int short_of_memory(struct fib *f)
{
    const struct world w = {.f = f};
    const struct dz_sockaddr a = w_addr("s", 1);
    struct dz_sockaddr from;
    char buf[8];
    int two[2], l = (int)w_socket(&w, SOCK_STREAM), c = (int)w_socket(&w, SOCK_STREAM);
    OK(f, w_bind(&w, l, &a) == 0 && w_listen(&w, l, 1) == 0 && w_connect(&w, c, &a) == 0);
    OK(f, put_fd(f, c, l) == 1 && put(f, c, "data") == 4);
    int s = (int)w_accept(&w, l, 0, &from);
    OK(f, get_fd(f, s) >= 0 && get(f, s, buf, 8, 0) == 4);
    OK(f, pair(f, SOCK_DGRAM, two) == 0 && put_fd(f, two[0], two[1]) == 1);
    return 0;
}
TEST(sock_survives_failing_allocations)
{
    CHECK(krig_torture(short_of_memory, NULL, NULL) > 10);
}

static int reads_proc(struct fib *f)
{
    const struct world w = {.f = f};
    const struct dz_sockaddr a = w_addr("\0name", 5), b = w_addr("/tmp/p", 7);
    char text[2048] = {0}, link[16];
    int l = (int)w_socket(&w, SOCK_STREAM), d = (int)w_socket(&w, SOCK_DGRAM), two[2];
    OK(f, w_bind(&w, l, &a) == 0 && w_listen(&w, l, 4) == 0 && w_bind(&w, d, &b) == 0);
    OK(f, pair(f, SOCK_SEQPACKET, two) == 0);
    struct dz_at net = {.dirfd = AT_FDCWD, .path = "/proc/net", .flags = DZ_AT_NOFOLLOW};
    OK(f,
       dz_sys_readlinkat(FK(f), net, link, sizeof link) == 8 && memcmp(link, "self/net", 8) == 0);
    int fd = (int)fib_open(f, "/proc/net/unix", O_RDONLY);
    OK(f, fd > 0 && SYS(f, dz_sys_read(FK(f), fd, text, sizeof text - 1)) > 0);
    OK(f, strstr(text, " 00010000 0001 01 ") && strstr(text, " @name\n"));
    OK(f, strstr(text, " 00000000 0002 01 ") && strstr(text, " /tmp/p\n"));
    OK(f, strstr(text, " 00000000 0005 03 "));
    OK(f, fib_open(f, "/proc/self/net/sctp", O_RDONLY) == -ENOENT);
    OK(f, fib_open(f, "/proc/self/net/unix", O_WRONLY) == -EACCES);
    OK(f, fib_open(f, "/proc/self/net/../net/unix", O_RDONLY) > 0);
    return 0;
}
TEST(sock_proc_lists_them)
{
    CHECK_INT(run(reads_proc, 0), 0);
}
