/* SPDX-License-Identifier: MIT
 * Connections to the outside: the kernel's side with sockets of this host, and an outside that
 * opens, refuses, resets and delivers connections. Saved rows: t_kernel_sock_walk. */
#include "../lib/sock_world.h"

#include "kernel/kernel_outside.h"
#include "kernel/kernel_sock.h"
#include "tap.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    CHANNELS = 16
};

/* What the outside has, by channel, and what it was asked for. */
static struct {
    int near[CHANNELS], far[CHANNELS];
    uint32_t opened, closed, aborted, finished, listening; /* counts */
    uint32_t last;                                         /* channel */
    struct dz_inet to;
    int refuse; /* what open returns */
} out;

/* Both ends of a connection of this host. */
static void tcp_pair(int *near, int *far)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    const int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), size = 65536;
    (void)setsockopt(l, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    CHECK(bind(l, (struct sockaddr *)&a, n) == 0 && listen(l, 1) == 0);
    CHECK_INT(getsockname(l, (struct sockaddr *)&a, &n), 0);
    *near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(*near, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    CHECK_INT(connect(*near, (struct sockaddr *)&a, n), 0);
    *far = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    CHECK(*far >= 0 && fcntl(*near, F_SETFL, O_NONBLOCK) == 0);
    (void)close(l);
}

static int near_of(uint32_t channel)
{
    return channel < CHANNELS ? out.near[channel] : -1;
}
static int on_open(void *arg, uint32_t channel, const struct dz_inet *to)
{
    (void)arg;
    out.opened++;
    out.last = channel;
    out.to = *to;
    return out.refuse;
}
static ssize_t on_receive(void *arg, uint32_t channel, const struct iovec *iov, size_t n, int flags)
{
    struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n};
    (void)arg;
    const ssize_t got = near_of(channel) < 0 ? -1 : recvmsg(near_of(channel), &m, flags);
    return near_of(channel) < 0 ? -EAGAIN : got < 0 ? -errno : got;
}
static ssize_t on_send(void *arg, uint32_t channel, const struct iovec *iov, size_t n)
{
    const struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n};
    (void)arg;
    const ssize_t put = near_of(channel) < 0 ? -1 : sendmsg(near_of(channel), &m, MSG_NOSIGNAL);
    return near_of(channel) < 0 ? -EAGAIN : put < 0 ? -errno : put;
}
static short on_ready(void *arg, uint32_t channel)
{
    struct pollfd p = {near_of(channel), POLLIN | POLLOUT | POLLRDHUP, 0};
    (void)arg;
    return poll(&p, 1, 0) == 1 ? p.revents : 0;
}
static size_t on_waiting(void *arg, uint32_t channel)
{
    int n = 0;
    (void)arg;
    return ioctl(near_of(channel), FIONREAD, &n) == 0 ? (size_t)n : 0;
}
static void on_finish(void *arg, uint32_t channel)
{
    (void)arg;
    out.finished++;
    (void)shutdown(near_of(channel), SHUT_WR);
}
static void on_close(void *arg, uint32_t channel, bool abort)
{
    const struct linger now = {.l_onoff = 1};
    (void)arg;
    out.closed++;
    out.aborted += abort;
    if (near_of(channel) < 0)
        return;
    if (abort)
        (void)setsockopt(near_of(channel), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(near_of(channel));
    out.near[channel] = -1;
}
static struct {
    uint64_t number;
    uint8_t bytes[DZ_NET_QUERY_MAX];
    size_t size;
    int count;
} query;
static void on_query(void *arg, uint64_t number, const uint8_t *bytes, size_t size)
{
    (void)arg;
    query.number = number;
    query.size = size;
    query.count++;
    memcpy(query.bytes, bytes, size);
}
static void on_listening(void *arg)
{
    (void)arg;
    out.listening++;
}
static const struct dz_net_ops net = {
    .own4 = {.lo = UINT64_C(0xffff64400002)}, /* 100.64.0.2 */
    .open = on_open,
    .receive = on_receive,
    .send = on_send,
    .ready = on_ready,
    .waiting = on_waiting,
    .finish = on_finish,
    .close = on_close,
    .listening = on_listening,
    .query = on_query,
};

static const struct dz_sockaddr there = {.size = 16, .bytes = {AF_INET, 0, 0, 80, 192, 0, 2, 7}};
static const struct dz_inet from = {.lo = UINT64_C(0xffffc0000207), .port = 5000};

static int run_with(fib_main program, const struct dz_net_ops *ops)
{
    static struct krig r;
    struct dz_job job = {0};
    memset(&out, 0, sizeof out);
    for (int i = 0; i < CHANNELS; i++)
        out.near[i] = out.far[i] = -1;
    krig_net = ops;
    krig_start(&r);
    krig_prog(&r, "main", program);
    (void)krig_spawn(&r, "main", 0, NULL, 0);
    int status = krig_run(&r, 1, &job) == 1 ? job.status : -1;
    if (r.k->tab[DZ_KERNEL_TABLE_SOCKET].used)
        status = -2; /* something is left */
    for (int i = 0; i < CHANNELS; i++) {
        if (out.near[i] >= 0)
            status = -4; /* the kernel has not closed it */
        if (out.far[i] >= 0)
            (void)close(out.far[i]);
    }
    return krig_stop(&r) ? -3 : status;
}
static int run(fib_main program)
{
    return run_with(program, &net);
}

/* ---- the outside ------------------------------------------------------------ */

static void comes(struct fib *f, uint32_t channel)
{
    tcp_pair(&out.near[channel], &out.far[channel]);
    CHECK_INT(dz_kernel_net_opened(f->k, channel, 70 + channel), 0);
}
/* Wait until the host's socket shows one of the events, and report it. */
static void shows(struct fib *f, uint32_t channel, short events)
{
    struct pollfd p = {near_of(channel), events, 0};
    CHECK(poll(&p, 1, -1) == 1);
    dz_kernel_net_ready(f->k, channel);
}
static void far_writes(struct fib *f, uint32_t channel, const char *text)
{
    int n = 0;
    const int had = (int)on_waiting(NULL, channel);
    CHECK_INT(write(out.far[channel], text, strlen(text)), (int64_t)strlen(text));
    while (n < had + (int)strlen(text)) /* the bytes of one write come together, but not at once */
        (void)ioctl(near_of(channel), FIONREAD, &n);
    dz_kernel_net_ready(f->k, channel);
}
static void far_resets(struct fib *f, uint32_t channel)
{
    const struct linger now = {.l_onoff = 1};
    (void)setsockopt(out.far[channel], SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(out.far[channel]);
    out.far[channel] = -1;
    shows(f, channel, 0);
}

/* ---- the guest ----------------------------------------------------------------- */

static int tcp(struct fib *f, int flags)
{
    return (int)SYS(f, dz_sys_socket(FK(f), AF_INET, SOCK_STREAM | flags, 0));
}
/* A socket that is connected by the next channel, which is in f->note[1]. */
static int connected(struct fib *f)
{
    const struct world w = {.f = f};
    const int s = tcp(f, SOCK_NONBLOCK);
    CHECK_INT(w_connect(&w, s, &there), -EINPROGRESS);
    f->note[1] = out.last;
    comes(f, out.last);
    CHECK_INT(w_connect(&w, s, &there), 0);
    CHECK_INT(SYS(f, dz_sys_fcntl(FK(f), s, F_SETFL, O_RDWR)), 0);
    return s;
}
static int64_t put(struct fib *f, int fd, const char *text, int flags)
{
    const struct world w = {.f = f};
    return w_write(&w, fd, text, flags);
}
static int64_t get(struct fib *f, int fd, char *buf, size_t n, int flags)
{
    const struct world w = {.f = f};
    memset(buf, 0, n);
    return w_read(&w, fd, buf, n, flags);
}
static int events(struct fib *f, int fd)
{
    const struct world w = {.f = f};
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    return w_poll(&w, &p, 1) == 1 ? p.revents : 0;
}
static int error_of(struct fib *f, int fd)
{
    struct dz_sockopt v = {0};
    const int what[2] = {SOL_SOCKET, SO_ERROR};
    return SYS(f, dz_sys_getsockopt(FK(f), fd, what, &v)) ? -1 : (int)v.value;
}

static int opens_late(struct fib *f)
{
    fib_sleep(f, 10);
    comes(f, out.last);
    fib_sleep(f, 10);
    far_writes(f, out.last, "hel");
    fib_sleep(f, 10);
    far_writes(f, out.last, "lo");
    return 0;
}
static int talks(struct fib *f)
{
    const struct world w = {.f = f};
    struct dz_sockaddr a;
    char buf[16];
    int status, n = 0;
    const int s = tcp(f, 0);
    const int64_t pid = fib_fork(f, opens_late);
    OK(f, w_connect(&w, s, &there) == 0 && out.opened == 1);
    OK(f, out.to.lo == UINT64_C(0xffffc0000207) && out.to.port == 80);
    const uint32_t c = out.last;
    OK(f, w_name(&w, s, true, &a) == 0 && memcmp(a.bytes, there.bytes, 16) == 0);
    OK(f, w_name(&w, s, false, &a) == 0 && memcmp(a.bytes + 4, "\x64\x40\0\2", 4) == 0);
    OK(f, get(f, s, buf, 5, MSG_WAITALL) == 5 && strcmp(buf, "hello") == 0);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    OK(f, events(f, s) == POLLOUT && get(f, s, buf, 5, MSG_DONTWAIT) == -EAGAIN);
    far_writes(f, c, "more");
    OK(f, events(f, s) == (POLLIN | POLLOUT));
    OK(f, SYS(f, dz_sys_ioctl(FK(f), s, FIONREAD, &n)) == 0 && n == 4);
    OK(f, get(f, s, buf, 3, MSG_PEEK) == 3 && strcmp(buf, "mor") == 0);
    OK(f, get(f, s, buf, 9, MSG_PEEK | MSG_WAITALL) == 4); /* does not wait for more */
    OK(f, get(f, s, buf, 1, MSG_TRUNC) == 1 && buf[0] == 0);
    OK(f, get(f, s, buf, 16, 0) == 3 && strcmp(buf, "ore") == 0);
    OK(f, put(f, s, "from inside", 0) == 11);
    OK(f, read(out.far[c], buf, sizeof buf) == 11 && memcmp(buf, "from inside", 11) == 0);
    OK(f, w_connect(&w, s, &there) == -EISCONN);
    OK(f, w_shutdown(&w, s, SHUT_WR) == 0 && out.finished == 1);
    OK(f, read(out.far[c], buf, sizeof buf) == 0 && put(f, s, "x", MSG_NOSIGNAL) == -EPIPE);
    far_writes(f, c, "last");
    OK(f, shutdown(out.far[c], SHUT_WR) == 0);
    shows(f, c, POLLRDHUP);
    OK(f, (events(f, s) & (POLLIN | POLLRDHUP | POLLHUP)) == (POLLIN | POLLRDHUP | POLLHUP));
    OK(f, out.closed == 0 && get(f, s, buf, 16, 0) == 4 && get(f, s, buf, 16, 0) == 0);
    OK(f, out.closed == 1 && get(f, s, buf, 16, 0) == 0 && w_close(&w, s) == 0);
    return out.closed == 1 && out.aborted == 0 ? 0 : 98;
}
TEST(outside_bytes_go_both_ways)
{
    CHECK_INT(run(talks), 0);
}

static int connects_without_waiting(struct fib *f)
{
    const struct world w = {.f = f};
    const int s = tcp(f, SOCK_NONBLOCK);
    OK(f, w_connect(&w, s, &there) == -EINPROGRESS && events(f, s) == 0);
    OK(f, w_connect(&w, s, &there) == -EALREADY && out.opened == 1);
    comes(f, out.last);
    OK(f, dz_kernel_net_opened(f->k, out.last, 999) == DZ_ENOENT); /* another generation */
    OK(f, dz_kernel_net_opened(f->k, out.last + 1, 1) == DZ_ENOENT);
    OK(f, events(f, s) == POLLOUT && error_of(f, s) == 0);
    OK(f, w_connect(&w, s, &there) == 0 && w_close(&w, s) == 0 && out.closed == 1);
    const int t = tcp(f, SOCK_NONBLOCK);
    OK(f, w_connect(&w, t, &there) == -EINPROGRESS);
    const uint32_t c = out.last;
    OK(f, w_close(&w, t) == 0 && out.closed == 2);
    return dz_kernel_net_opened(f->k, c, 1) == DZ_ENOENT ? 0 : 98;
}
TEST(outside_connect_does_not_wait)
{
    CHECK_INT(run(connects_without_waiting), 0);
}

static int loses_late(struct fib *f)
{
    fib_sleep(f, 10);
    dz_kernel_net_lost(f->k, out.last, ETIMEDOUT);
    return 0;
}
static int is_refused(struct fib *f)
{
    const struct world w = {.f = f};
    int status;
    const int s = tcp(f, 0);
    out.refuse = -EACCES;
    OK(f, w_connect(&w, s, &there) == -EACCES);
    out.refuse = 0;
    int64_t pid = fib_fork(f, loses_late);
    OK(f, w_connect(&w, s, &there) == -ETIMEDOUT); /* the same socket again */
    OK(f, fib_wait(f, pid, &status) == pid && status == 0 && out.closed == 0);
    const int t = tcp(f, SOCK_NONBLOCK);
    OK(f, w_connect(&w, t, &there) == -EINPROGRESS);
    dz_kernel_net_lost(f->k, out.last, ECONNREFUSED);
    OK(f, events(f, t) & POLLERR && error_of(f, t) == ECONNREFUSED);
    return w_close(&w, t) == 0 && w_close(&w, s) == 0 && out.closed == 0 ? 0 : 98;
}
TEST(outside_refusals_are_errors_of_connect)
{
    CHECK_INT(run(is_refused), 0);
}

static int looks_around(struct fib *f)
{
    const struct world w = {.f = f};
    const struct dz_sockaddr group = {.size = 16, .bytes = {AF_INET, 0, 0, 80, 224, 0, 0, 1}};
    const struct dz_sockaddr lo = {.size = 16, .bytes = {AF_INET, 0, 0, 0, 127, 0, 0, 1}};
    struct dz_sockaddr six = {.size = 28, .bytes = {AF_INET6, 0, 0, 80, 0, 0, 0, 0, 0x20, 1}};
    struct dz_sockaddr own = there;
    const int s = tcp(f, 0);
    OK(f, w_connect(&w, s, &group) == -ENETUNREACH);
    const int u = (int)SYS(f, dz_sys_socket(FK(f), AF_INET, SOCK_DGRAM, 0));
    OK(f, w_connect(&w, u, &there) == -ENETUNREACH);
    const int v6 = (int)SYS(f, dz_sys_socket(FK(f), AF_INET6, SOCK_STREAM, 0));
    OK(f, w_connect(&w, v6, &six) == -ENETUNREACH); /* own6 is none */
    OK(f, w_bind(&w, s, &own) == -EADDRNOTAVAIL && w_bind(&w, s, &lo) == 0);
    OK(f, w_connect(&w, s, &there) == (f->k->net ? -EINVAL : -ENETUNREACH) && out.opened == 0);
    const int t = tcp(f, 0);
    if (!f->k->net)
        return w_connect(&w, t, &there) == -ENETUNREACH ? 0 : 98;
    memset(six.bytes + 8, 0, 20);
    six.bytes[18] = six.bytes[19] = 0xff; /* an address of IPv4 in IPv6 */
    memcpy(six.bytes + 20, there.bytes + 4, 4);
    out.refuse = -EACCES;
    return w_connect(&w, v6, &six) == -EACCES && out.to.lo == UINT64_C(0xffffc0000207) ? 0 : 97;
}
TEST(outside_is_unreachable_without_an_address_of_our_own)
{
    CHECK_INT(run(looks_around), 0);
    CHECK_INT(run_with(looks_around, NULL), 0);
}

static char big[3000000];
static int reads_far(struct fib *f)
{
    char buf[70000];
    size_t at = 0;
    while (at < sizeof big) {
        const ssize_t n = read(out.far[f->note[1]], buf, sizeof buf);
        OK(f, n > 0 && memcmp(buf, big + at, (size_t)n) == 0);
        at += (size_t)n;
        dz_kernel_net_ready(f->k, (uint32_t)f->note[1]);
        fib_sleep(f, 1);
    }
    return 0;
}
static int sends_much(struct fib *f)
{
    const struct world w = {.f = f};
    int status;
    const int s = connected(f);
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7 ^ i >> 9);
    const struct iovec iov[3] = {{big, 1}, {big + 1, 0}, {big + 1, sizeof big - 1}};
    const struct dz_msg m = {.iov = iov, .iov_count = 3};
    const int64_t some = w_send(&w, s, &m, MSG_DONTWAIT);
    OK(f, some > 0 && some < (int64_t)sizeof big); /* as much as the host takes */
    OK(f, w_send(&w, s, &m, MSG_DONTWAIT) == -EAGAIN && !(events(f, s) & POLLOUT));
    const struct iovec rest = {big + some, sizeof big - (size_t)some};
    const int64_t pid = fib_fork(f, reads_far);
    OK(f, w_send(&w, s, &(struct dz_msg){.iov = &rest, .iov_count = 1}, 0) ==
              (int64_t)sizeof big - some);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    return (int)w_close(&w, s);
}
TEST(outside_writers_wait_for_the_host)
{
    CHECK_INT(run(sends_much), 0);
}

static int is_reset(struct fib *f)
{
    const struct world w = {.f = f};
    char buf[8];
    const int s = connected(f);
    far_resets(f, (uint32_t)f->note[1]);
    OK(f, (events(f, s) & (POLLERR | POLLHUP)) == (POLLERR | POLLHUP));
    OK(f, error_of(f, s) == ECONNRESET && out.closed == 1 && get(f, s, buf, 8, 0) == 0);
    OK(f, put(f, s, "x", MSG_NOSIGNAL) == -EPIPE);
    const int t = connected(f);
    far_writes(f, (uint32_t)f->note[1], "bye");
    far_resets(f, (uint32_t)f->note[1]);
    OK(f, get(f, t, buf, 8, 0) == 3 && get(f, t, buf, 8, 0) == -ECONNRESET);
    const int u = connected(f);
    dz_kernel_net_lost(f->k, (uint32_t)f->note[1], ECONNRESET); /* a rule has changed */
    (void)close(out.near[f->note[1]]);
    out.near[f->note[1]] = -1;
    OK(f, get(f, u, buf, 8, 0) == -ECONNRESET && out.closed == 2);
    const int v = connected(f);
    OK(f, w_set(&w, v, SO_RCVTIMEO, 50000000) == 0 && get(f, v, buf, 8, 0) == -EAGAIN);
    OK(f, w_close(&w, s) == 0 && w_close(&w, t) == 0 && w_close(&w, u) == 0);
    return (int)w_close(&w, v);
}
TEST(outside_resets_are_seen)
{
    CHECK_INT(run(is_reset), 0);
}

/* ---- from outside ----------------------------------------------------------------- */

static int arrives(struct fib *f, uint32_t port, uint32_t *ret_channel)
{
    const struct dz_inet to = {.lo = UINT64_C(0xffff64400002), .port = port};
    return dz_kernel_net_incoming(f->k, &from, &to, 9, ret_channel);
}
static int comes_late(struct fib *f)
{
    uint32_t c;
    fib_sleep(f, 10);
    OK(f, arrives(f, 8080, &c) == 0);
    tcp_pair(&out.near[c], &out.far[c]);
    far_writes(f, c, "GET");
    return 0;
}
static int serves(struct fib *f)
{
    const struct world w = {.f = f};
    struct dz_sockaddr a = {.size = 16, .bytes = {AF_INET, 0, 0x1f, 0x90}}, got;
    struct dz_net_port ports[4];
    struct dz_inet to = {.lo = 1, .port = 8080};
    uint32_t c = 0;
    char buf[8];
    int status;
    const int l = tcp(f, 0);
    OK(f, arrives(f, 8080, &c) == DZ_ENOENT && dz_kernel_net_ports(f->k, ports, 4) == 0);
    OK(f, w_bind(&w, l, &a) == 0 && out.listening == 0);
    OK(f, w_listen(&w, l, 1) == 0 && out.listening == 1);
    OK(f, dz_kernel_net_ports(f->k, ports, 4) == 1 && ports[0].at.port == 8080);
    OK(f, dz_kernel_net_ports(f->k, ports, 0) == 1 && dz_k_inet_is_any(&ports[0].at));
    OK(f, dz_kernel_net_incoming(f->k, &from, &to, 9, &c) == DZ_EINVAL); /* both versions of IP */
    to.lo = UINT64_C(0xffff01020304);
    OK(f, dz_kernel_net_incoming(f->k, &from, &to, 9, &c) == DZ_EINVAL); /* not our address */
    const int64_t pid = fib_fork(f, comes_late);
    const int s = (int)w_accept(&w, l, 0, &got);
    OK(f, s >= 0 && memcmp(got.bytes + 2, "\x13\x88\xc0\0\2\7", 6) == 0);
    OK(f, w_name(&w, s, false, &got) == 0 && memcmp(got.bytes + 2, "\x1f\x90\x64\x40\0\2", 6) == 0);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    OK(f, get(f, s, buf, 8, 0) == 3 && strcmp(buf, "GET") == 0);
    OK(f, arrives(f, 8080, &c) == 0 && arrives(f, 8080, &c) == 0); /* one more than the backlog */
    OK(f, arrives(f, 8080, &c) == DZ_EBUSY && out.listening == 1);
    const int t = (int)w_accept(&w, l, 0, &got);
    OK(f, t >= 0 && out.listening == 2 && arrives(f, 8080, &c) == 0);
    dz_kernel_net_lost(f->k, c, ECONNRESET); /* one that waits in the queue */
    OK(f, w_close(&w, l) == 0 && out.listening == 3 && out.aborted == 1);
    OK(f, arrives(f, 8080, &c) == DZ_ENOENT && dz_kernel_net_ports(f->k, ports, 4) == 0);
    return w_close(&w, s) == 0 && w_close(&w, t) == 0 && out.closed == 3 ? 0 : 98;
}
TEST(outside_connections_are_accepted)
{
    CHECK_INT(run(serves), 0);
}

static const struct dz_sockaddr server = {.size = 16, .bytes = {AF_INET, 0, 0, 53, 127, 0, 0, 53}};

static int asks(struct fib *f)
{
    const struct world w = {.f = f};
    struct dz_msg_got got;
    char buf[DZ_NET_QUERY_MAX + 1] = "name?";
    struct iovec iov = {buf, 5};
    const struct dz_msg m = {.iov = &iov, .iov_count = 1, .to = &server};
    query.count = 0;
    const int s = (int)SYS(f, dz_sys_socket(FK(f), AF_INET, SOCK_DGRAM, 0));
    OK(f, w_send(&w, s, &m, 0) == 5 && query.count == 1 && query.size == 5);
    OK(f, memcmp(query.bytes, "name?", 5) == 0);
    dz_kernel_net_reply(f->k, query.number + (UINT64_C(1) << 24), (const uint8_t *)"no", 2);
    dz_kernel_net_reply(f->k, query.number, (const uint8_t *)"here", 4);
    iov.iov_len = sizeof buf;
    OK(f, w_recv(&w, s, &(struct dz_msg){.iov = &iov, .iov_count = 1}, MSG_DONTWAIT, &got) == 4);
    OK(f, memcmp(buf, "here", 4) == 0 && memcmp(got.from.bytes, server.bytes, 8) == 0);
    OK(f,
       w_recv(&w, s, &(struct dz_msg){.iov = &iov, .iov_count = 1}, MSG_DONTWAIT, &got) == -EAGAIN);
    OK(f, w_send(&w, s, &m, 0) == (int64_t)sizeof buf && query.count == 1); /* too long: lost */
    /* a connected socket; then one that is closed before the answer */
    const int t = (int)SYS(f, dz_sys_socket(FK(f), AF_INET, SOCK_DGRAM, 0));
    OK(f, w_connect(&w, t, &server) == 0 && put(f, t, "q", 0) == 1 && query.count == 2);
    dz_kernel_net_reply(f->k, query.number, (const uint8_t *)"yes", 3);
    OK(f, get(f, t, buf, 8, 0) == 3 && put(f, t, "q", 0) == 1);
    OK(f, w_close(&w, t) == 0);
    dz_kernel_net_reply(f->k, query.number, (const uint8_t *)"yes", 3);
    /* a program that is a name server itself */
    const int u = (int)SYS(f, dz_sys_socket(FK(f), AF_INET, SOCK_DGRAM, 0));
    OK(f, w_bind(&w, u, &server) == 0);
    iov.iov_len = 5;
    OK(f, w_send(&w, s, &m, 0) == 5 && query.count == 3 && get(f, u, buf, 8, 0) == 5);
    return w_close(&w, s) == 0 && w_close(&w, u) == 0 ? 0 : 98;
}
TEST(queries_go_to_the_name_server)
{
    CHECK_INT(run(asks), 0);
}

static int asks_nobody(struct fib *f)
{
    const struct world w = {.f = f};
    const int s = (int)SYS(f, dz_sys_socket(FK(f), AF_INET, SOCK_DGRAM, 0));
    OK(f, w_connect(&w, s, &server) == 0 && put(f, s, "q", 0) == 1);
    OK(f, put(f, s, "q", 0) == -ECONNREFUSED);
    return (int)w_close(&w, s);
}
TEST(no_name_server_without_an_embedder)
{
    CHECK_INT(run_with(asks_nobody, NULL), 0);
}
