/* SPDX-License-Identifier: MIT
 *
 * cell_net.c - the cell's side of TCP connections to the outside.
 *
 * The guest reads and writes the host's sockets directly, by recvmsg(2) and sendmsg(2) in the calls
 * of the kernel. One epoll set (edge-triggered) says which of them have changed; the kernel then
 * asks by poll(2) what is ready. The sockets are duplicates: the daemon has the others, so a close
 * here ends nothing until the daemon closes its own, which CLOSED asks for. A shutdown here sends
 * the end of the stream at once.
 *
 * A connection of the table without a socket (fd -1) is one that the host is connecting, or, after
 * a wake, one whose socket the host has not passed yet.
 */
#include "cell/cell_net.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "cell/cell_rate.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS = 64,      /* changes that one epoll_wait() returns */
    DROPPED = 65536,  /* bytes that one call drops for MSG_TRUNC */
    PORTS_BURST = 32, /* reports of ports at once; then one every PORTS_NS */
    PORTS_NS = 10 * 1000 * 1000,
};

struct conn {
    uint32_t channel;
    int fd;              /* -1: none yet */
    uint64_t generation; /* 0: the host is connecting */
};

struct dz_cell_net {
    struct dz_frame_out *out;
    struct dz_kernel *kernel;
    struct dz_net_ops ops;
    struct dz_map conns; /* channel -> struct conn */
    int epoll;
    bool waits; /* after a wake: the host still passes connections */
    bool ports_due;
    struct dz_rate ports_rate;
    uint64_t in, sent;
};

static const struct dz_rate_of ports_rate = {PORTS_BURST, 1, PORTS_NS};

/* --- addresses --------------------------------------------------------------------------- */

static struct dz_inet inet_of(const struct dz_cell_address *a)
{
    struct dz_inet i = {.port = a->port};
    for (int n = 0; n < 8; n++) {
        i.hi = i.hi << 8 | a->ip[n];
        i.lo = i.lo << 8 | a->ip[8 + n];
    }
    return i;
}

static struct dz_cell_address address_of(const struct dz_inet *i)
{
    struct dz_cell_address a = {.port = i->port};
    for (int n = 0; n < 8; n++) {
        a.ip[n] = (uint8_t)(i->hi >> (56 - 8 * n));
        a.ip[8 + n] = (uint8_t)(i->lo >> (56 - 8 * n));
    }
    return a;
}

static struct dz_inet v4(uint32_t address)
{
    return (struct dz_inet){.lo = UINT64_C(0xffff) << 32 | address};
}

static bool is_v4(const struct dz_inet *a)
{
    return a->hi == 0 && a->lo >> 32 == 0xffff;
}

/* --- frames ------------------------------------------------------------------------------- */

static void send_frame(struct dz_cell_net *n, const struct dz_frame *f, const void *payload)
{
    (void)dz_out_add(n->out, f, payload, true);
}

static void answer(struct dz_cell_net *n, uint64_t generation, int code)
{
    send_frame(n,
               &(struct dz_frame){
                   .type = DZ_FRAME_NET_ANSWER, .stream = (uint32_t)-code, .value = generation},
               NULL);
}

static void tell_connect(struct dz_cell_net *n, uint32_t channel, const struct dz_inet *to)
{
    const struct dz_cell_address a = address_of(to);
    send_frame(
        n, &(struct dz_frame){.type = DZ_FRAME_NET_CONNECT, .stream = channel, .size = sizeof a},
        &a);
}

static void tell_closed(struct dz_cell_net *n, const struct conn *c, bool abort)
{
    send_frame(n,
               &(struct dz_frame){.type = DZ_FRAME_NET_CLOSED,
                                  .stream = c->generation ? abort : c->channel,
                                  .value = c->generation},
               NULL);
}

/* --- the table ---------------------------------------------------------------------------- */

static struct conn *by_channel(const struct dz_cell_net *n, uint32_t channel)
{
    return dz_map_get64(&n->conns, channel);
}

static struct conn *by_generation(const struct dz_cell_net *n, uint64_t generation)
{
    DZ_MAP_FOREACH(it, &n->conns)
        if (((struct conn *)it->value)->generation == generation)
            return it->value;
    return NULL;
}

static struct conn *add(struct dz_cell_net *n, uint32_t channel, uint64_t generation)
{
    struct conn *c = dz_alloc(sizeof *c);
    if (!c)
        return NULL;
    *c = (struct conn){channel, -1, generation};
    if (dz_map_put64(&n->conns, channel, c, NULL) == 0)
        return c;
    dz_free(c);
    return NULL;
}

/* The set would keep the socket as long as the daemon's descriptor is open. */
static void drop_fd(struct dz_cell_net *n, struct conn *c)
{
    if (c->fd >= 0)
        (void)epoll_ctl(n->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    dz_fd_close(&c->fd);
}

static void remove_conn(struct dz_cell_net *n, struct conn *c)
{
    (void)dz_map_remove64(&n->conns, c->channel);
    drop_fd(n, c);
    dz_free(c);
}

/* Take over fd, in any case. */
static int give_fd(struct dz_cell_net *n, struct conn *c, int fd)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                            .data = {.u64 = c->channel}};
    c->fd = fd;
    if (epoll_ctl(n->epoll, EPOLL_CTL_ADD, fd, &e) == 0)
        return 0;
    dz_fd_close(&c->fd);
    return DZ_ENOMEM;
}

/* The connection is over for the guest, and the daemon knows or learns it. */
static void lose(struct dz_cell_net *n, struct conn *c, int error, bool tell)
{
    const uint32_t channel = c->channel;
    if (tell)
        tell_closed(n, c, true);
    remove_conn(n, c);
    dz_kernel_net_lost(n->kernel, channel, error);
}

/* --- what the kernel asks for --------------------------------------------------------------- */

static int on_open(void *arg, uint32_t channel, const struct dz_inet *to)
{
    struct dz_cell_net *n = arg;
    if (n->conns.count >= DZ_CELL_NET_MAX)
        return -EADDRNOTAVAIL;
    if (!add(n, channel, 0))
        return -ENOBUFS;
    tell_connect(n, channel, to);
    return 0;
}

/* As recvmsg(2), which returns -errno. */
static ssize_t receive_some(int fd, const struct iovec *iov, size_t count, int flags)
{
    struct msghdr m = {.msg_iovlen = count};
    ssize_t got;
    memcpy(&m.msg_iov, &iov, sizeof iov); /* recvmsg(2) does not change the array */
    do
        got = recvmsg(fd, &m, flags | MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

/* A socket of AF_UNIX knows no MSG_TRUNC, so bytes that are dropped are read, too. */
static ssize_t drop_some(int fd, const struct iovec *iov, size_t count)
{
    static uint8_t bytes[DROPPED];
    struct iovec all = {bytes, 0};
    for (size_t i = 0; i < count; i++)
        all.iov_len +=
            iov[i].iov_len < DROPPED - all.iov_len ? iov[i].iov_len : DROPPED - all.iov_len;
    return receive_some(fd, &all, 1, 0);
}

static ssize_t on_receive(void *arg, uint32_t channel, const struct iovec *iov, size_t count,
                          int flags)
{
    struct dz_cell_net *n = arg;
    const struct conn *c = by_channel(n, channel);
    if (!c || c->fd < 0)
        return -EAGAIN;
    const ssize_t got = flags & MSG_TRUNC ? drop_some(c->fd, iov, count)
                                          : receive_some(c->fd, iov, count, flags & MSG_PEEK);
    if (got > 0 && !(flags & MSG_PEEK))
        n->in += (uint64_t)got;
    return got;
}

static ssize_t on_send(void *arg, uint32_t channel, const struct iovec *iov, size_t count)
{
    struct dz_cell_net *n = arg;
    const struct conn *c = by_channel(n, channel);
    struct msghdr m = {.msg_iovlen = count};
    ssize_t sent;
    if (!c || c->fd < 0)
        return -EAGAIN;
    memcpy(&m.msg_iov, &iov, sizeof iov); /* sendmsg(2) does not change the array */
    do
        sent = sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == ENOBUFS ? -EAGAIN : -errno;
    n->sent += (uint64_t)sent;
    return sent;
}

static short on_ready(void *arg, uint32_t channel)
{
    const struct conn *c = by_channel(arg, channel);
    struct pollfd p = {.fd = c ? c->fd : -1, .events = POLLIN | POLLOUT | POLLRDHUP};
    return poll(&p, 1, 0) == 1 ? p.revents : 0;
}

static size_t waiting(int fd)
{
    int size = 0;
    return ioctl(fd, FIONREAD, &size) == 0 && size > 0 ? (size_t)size : 0;
}

static size_t on_waiting(void *arg, uint32_t channel)
{
    const struct conn *c = by_channel(arg, channel);
    return c && c->fd >= 0 ? waiting(c->fd) : 0;
}

static void on_finish(void *arg, uint32_t channel)
{
    const struct conn *c = by_channel(arg, channel);
    if (c && c->fd >= 0)
        (void)shutdown(c->fd, SHUT_WR);
}

static void on_close(void *arg, uint32_t channel, bool abort)
{
    struct dz_cell_net *n = arg;
    struct conn *c = by_channel(n, channel);
    if (!c)
        return;
    if (c->fd >= 0 && !abort)
        (void)shutdown(c->fd, SHUT_WR);
    drop_fd(n, c); /* first: the daemon's descriptor must be the last for a reset to be sent */
    tell_closed(n, c, abort);
    remove_conn(n, c);
}

static void on_listening(void *arg)
{
    struct dz_cell_net *n = arg;
    n->ports_due = true;
}

static void on_query(void *arg, uint64_t query, const uint8_t *bytes, size_t size)
{
    send_frame(
        arg, &(struct dz_frame){.type = DZ_FRAME_NET_QUERY, .value = query, .size = (uint32_t)size},
        bytes);
}

_Static_assert((int)DZ_CELL_QUERY_MAX == (int)DZ_NET_QUERY_MAX &&
                   (int)DZ_CELL_REPLY_MAX == (int)DZ_NET_REPLY_MAX,
               "the kernel's limits are those of the host");

/* --- what the host sends ---------------------------------------------------------------------- */

/* Programs may listen on the address of eth0, on 127.0.0.1 or on ::1 only: find the listener that
 * is reached from the outside, in this order. */
static int find_listener(struct dz_cell_net *n, const struct dz_frame_net_in *in,
                         uint64_t generation, uint32_t *ret_channel)
{
    const struct dz_inet loop6 = {.lo = 1}, loop4 = v4(0x7f000001);
    const struct dz_inet to[] = {n->ops.own4, loop4, loop6};
    int rc = DZ_ENOENT;
    for (size_t i = (uint32_t)n->ops.own4.lo ? 0 : 1; i < DZ_ARRAY_LEN(to) && rc == DZ_ENOENT;
         i++) {
        struct dz_inet at = to[i], from = inet_of(&in->from);
        if (is_v4(&at) != is_v4(&from)) { /* the connection is of the listener's version of IP */
            from = is_v4(&at) ? loop4 : loop6;
            from.port = in->from.port;
        }
        at.port = in->port;
        rc = dz_kernel_net_incoming(n->kernel, &from, &at, generation, ret_channel);
    }
    return rc;
}

static int incoming(struct dz_cell_net *n, const struct dz_frame *f, const uint8_t *payload,
                    int *fd)
{
    struct dz_frame_net_in in;
    uint32_t channel;
    if (f->size != sizeof in || *fd < 0)
        return DZ_EINVAL;
    if (n->conns.count >= DZ_CELL_NET_MAX)
        return DZ_ELIMIT;
    memcpy(&in, payload, sizeof in);
    int rc = find_listener(n, &in, f->value, &channel);
    if (rc < 0)
        return rc;
    struct conn *c = add(n, channel, f->value);
    if (!c) {
        dz_kernel_net_lost(n->kernel, channel, ECONNRESET);
        return DZ_ENOMEM;
    }
    rc = give_fd(n, c, *fd);
    *fd = -1;
    if (rc < 0)
        lose(n, c, ECONNRESET, false);
    return rc;
}

/* A descriptor for a connection of the table. */
static void attach(struct dz_cell_net *n, struct conn *c, uint64_t generation, int *fd)
{
    if (!c || c->fd >= 0 || *fd < 0) { /* the guest has closed it, and CLOSED says so */
        if (!c && generation)
            tell_closed(n, &(struct conn){.generation = generation}, true);
        return;
    }
    const int rc = give_fd(n, c, *fd);
    *fd = -1;
    c->generation = generation;
    if (rc < 0 || dz_kernel_net_opened(n->kernel, c->channel, generation) < 0)
        lose(n, c, ECONNRESET, true);
}

/* The host has passed all that it kept: the other connections are over. */
static void resumed(struct dz_cell_net *n)
{
    uint32_t channels[DZ_CELL_NET_MAX];
    size_t count = 0;
    n->waits = false;
    DZ_MAP_FOREACH(it, &n->conns) {
        const struct conn *c = it->value;
        if (c->generation && c->fd < 0)
            channels[count++] = c->channel;
    }
    while (count > 0)
        lose(n, by_channel(n, channels[--count]), ECONNRESET, false);
}

void dz_cell_net_frame(struct dz_cell_net *n, const struct dz_frame *f, const uint8_t *payload,
                       const struct dz_frame_fds *fds)
{
    int fd = fds->count ? fds->fds[0] : -1;
    struct conn *c = NULL;
    if (n && n->kernel)
        switch (f->type) {
        case DZ_FRAME_NET_IN:
            answer(n, f->value, incoming(n, f, payload, &fd));
            break;
        case DZ_FRAME_NET_CONNECTED:
            attach(n, by_channel(n, f->stream), f->value, &fd);
            break;
        case DZ_FRAME_NET_RESUME:
            attach(n, by_generation(n, f->value), f->value, &fd);
            break;
        case DZ_FRAME_NET_RESUMED:
            if (n->waits)
                resumed(n);
            break;
        case DZ_FRAME_NET_REPLY:
            dz_kernel_net_reply(n->kernel, f->value, payload, f->size);
            break;
        case DZ_FRAME_NET_REFUSED:
            c = by_channel(n, f->stream);
            if (c && !c->generation)
                lose(n, c, (int)f->value, false);
            break;
        case DZ_FRAME_NET_LOST:
            c = f->value ? by_generation(n, f->value) : NULL;
            if (c)
                lose(n, c, (int)f->stream, false);
            break;
        default:
            break;
        }
    dz_fd_close(&fd);
    for (size_t i = 1; i < fds->count; i++) {
        fd = fds->fds[i];
        dz_fd_close(&fd);
    }
}

/* --- the machine --------------------------------------------------------------------------------
 */

int dz_cell_net_new(struct dz_frame_out *out, uint32_t own4, struct dz_cell_net **ret_net,
                    struct dz_err *err)
{
    struct epoll_event e = {.events = EPOLLIN}; /* data 0: no channel */
    struct dz_cell_net *n = dz_zalloc(sizeof *n);
    if (!n)
        return dz_fail(err, DZ_ENOMEM, "set up connections of the sandbox: out of memory");
    n->out = out;
    dz_map_init(&n->conns, DZ_CELL_NET_MAX);
    n->ops = (struct dz_net_ops){
        .own4 = v4(own4),
        .open = on_open,
        .receive = on_receive,
        .send = on_send,
        .ready = on_ready,
        .waiting = on_waiting,
        .finish = on_finish,
        .close = on_close,
        .listening = on_listening,
        .query = on_query,
        .arg = n,
    };
    n->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (n->epoll < 0 || epoll_ctl(n->epoll, EPOLL_CTL_ADD, out->fd, &e) < 0) {
        const int rc = dz_fail_sys(err, errno, "set up connections of the sandbox");
        dz_fd_close(&n->epoll);
        dz_free(n);
        return rc;
    }
    *ret_net = n;
    return 0;
}

const struct dz_net_ops *dz_cell_net_ops(const struct dz_cell_net *n)
{
    return n ? &n->ops : NULL;
}

/* Connections of the machine that has woken. Those that were connecting begin again: the daemon has
 * ended their attempts at the suspend. */
static void load(struct dz_cell_net *n)
{
    for (uint32_t i = 1; i <= dz_kernel_rows(n->kernel, DZ_KERNEL_TABLE_SOCKET); i++) {
        const struct dz_socket *s = dz_kernel_row(n->kernel, DZ_KERNEL_TABLE_SOCKET, i);
        if (!s || !s->channel)
            continue;
        if (!add(n, s->channel, s->state == DZ_SOCKET_CONNECTED ? s->generation : 0))
            dz_kernel_net_lost(n->kernel, s->channel, ECONNRESET);
        else if (s->state != DZ_SOCKET_CONNECTED)
            tell_connect(n, s->channel, &s->remote);
    }
}

void dz_cell_net_up(struct dz_cell_net *n, struct dz_kernel *k, bool waits)
{
    if (!n)
        return;
    n->kernel = k;
    n->waits = waits;
    load(n);
    n->ports_due = dz_kernel_net_ports(k, NULL, 0) > 0;
    if (!waits)
        resumed(n);
}

static void report_ports(struct dz_cell_net *n)
{
    static struct dz_net_port found[DZ_CELL_PORTS_MAX];
    static struct dz_cell_port ports[DZ_CELL_PORTS_MAX];
    size_t count = dz_kernel_net_ports(n->kernel, found, DZ_CELL_PORTS_MAX);
    count = count < DZ_CELL_PORTS_MAX ? count : DZ_CELL_PORTS_MAX;
    for (size_t i = 0; i < count; i++)
        ports[i] = (struct dz_cell_port){
            .at = address_of(&found[i].at), .uid = found[i].uid, .v6only = found[i].v6only};
    send_frame(
        n,
        &(struct dz_frame){.type = DZ_FRAME_NET_PORTS, .size = (uint32_t)(count * sizeof ports[0])},
        ports);
    n->ports_due = false;
}

void dz_cell_net_look(struct dz_cell_net *n)
{
    struct epoll_event events[EVENTS];
    int count = n && n->kernel && n->conns.count ? EVENTS : 0;
    for (int turns = 0; count == EVENTS && turns <= DZ_CELL_NET_MAX / EVENTS; turns++) {
        count = epoll_wait(n->epoll, events, EVENTS, 0);
        for (int i = 0; i < count; i++)
            if (events[i].data.u64)
                dz_kernel_net_ready(n->kernel, (uint32_t)events[i].data.u64);
    }
}

int64_t dz_cell_net_report(struct dz_cell_net *n)
{
    if (!n || !n->kernel || !n->ports_due)
        return -1;
    if (dz_rate_left(&n->ports_rate, &ports_rate, dz_clock_boot_ns()) < 1)
        return PORTS_NS;
    n->ports_rate.tokens--;
    report_ports(n);
    return -1;
}

void dz_cell_net_rest(struct dz_cell_net *n)
{
    static struct dz_cell_rest rests[DZ_CELL_NET_MAX];
    size_t count = 0;
    if (!n || !n->kernel)
        return;
    DZ_MAP_FOREACH(it, &n->conns) {
        const struct conn *c = it->value;
        if (c->fd < 0)
            continue;
        rests[count++] = (struct dz_cell_rest){c->generation, (uint32_t)waiting(c->fd),
                                               (uint32_t)on_ready(n, c->channel) &
                                                   (POLLOUT | POLLRDHUP | POLLHUP | POLLERR)};
    }
    dz_cell_net_look(n); /* after the report: a byte that comes in between wakes once too often, and
                      is not missed */
    if (count)
        send_frame(n,
                   &(struct dz_frame){.type = DZ_FRAME_NET_REST,
                                      .size = (uint32_t)(count * sizeof rests[0])},
                   rests);
}

int dz_cell_net_fd(const struct dz_cell_net *n)
{
    return n ? n->epoll : -1;
}

void dz_cell_net_bytes(const struct dz_cell_net *n, uint64_t *ret_in, uint64_t *ret_out)
{
    *ret_in = n ? n->in : 0;
    *ret_out = n ? n->sent : 0;
}
