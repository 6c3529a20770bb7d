/* SPDX-License-Identifier: MIT
 *
 * kernel_sock_netlink.c - AF_NETLINK, NETLINK_ROUTE: lists of interfaces and of addresses, as
 * getifaddrs(3), if_nameindex(3) and getaddrinfo(3) ask for them.
 *
 * A request is answered in the same call, by datagrams in the sender's own queue, which are charged
 * to its SO_RCVBUF. RTM_GETLINK and RTM_GETADDR are answered; requests that change something are
 * refused with EPERM, all others with EOPNOTSUPP. Groups of events can be joined and are silent,
 * because the interfaces never change while a machine runs.
 *
 * dz_socket.local.port is the socket's number (nl_pid); 0 is the kernel.
 */
#include "kernel/kernel_sock.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>

#include "base/buf.h"

enum {
    REQUEST_MAX = 65536, /* bytes of one send */
    SCOPE_GLOBAL = 0,
    SCOPE_HOST = 254,
};

/* ---- names ----------------------------------------------------------------- */

static int netlink_create(int *type, int *protocol)
{
    if (*type != SOCK_RAW && *type != SOCK_DGRAM)
        return -ESOCKTNOSUPPORT;
    return *protocol == NETLINK_ROUTE ? 0 : -EPROTONOSUPPORT;
}

static int name_of(const struct dz_sockaddr *a, struct sockaddr_nl *ret)
{
    if (a->size < sizeof *ret)
        return -EINVAL;
    memcpy(ret, a->bytes, sizeof *ret);
    return ret->nl_family == AF_NETLINK ? 0 : -EINVAL;
}

static bool is_taken(const struct dz_kernel *k, uint32_t number)
{
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    if (s->family == AF_NETLINK && !s->dead && s->local.port == number)
        return true;
    return false;
}

/* The number of the process, or one that no process has. */
static int choose(const struct dz_k_sock_call *call, uint32_t wanted)
{
    struct dz_socket *s = call->s;
    uint32_t number = wanted ? wanted : (uint32_t)call->p->pid;
    if (s->local.port)
        return wanted && wanted != s->local.port ? -EINVAL : 0;
    if (wanted && is_taken(call->k, wanted))
        return -EADDRINUSE;
    for (uint32_t i = 0; is_taken(call->k, number); i++)
        number = UINT32_MAX - s->index - i;
    s->local.port = number;
    return 0;
}

static int netlink_bind(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    struct sockaddr_nl a;
    const int e = name_of(to, &a);
    return e ? e : choose(call, a.nl_pid);
}

static int netlink_listen(const struct dz_k_sock_call *call, uint32_t backlog)
{
    (void)call, (void)backlog;
    return -EOPNOTSUPP;
}

/* Only the kernel answers. */
static int64_t netlink_connect(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    struct sockaddr_nl a;
    uint16_t family = AF_NETLINK;
    if (to->size >= sizeof family)
        memcpy(&family, to->bytes, sizeof family);
    if (family == AF_UNSPEC)
        return dz_k_sock_end(call, 0);
    int e = name_of(to, &a);
    if (!e && a.nl_pid != 0)
        e = -ECONNREFUSED;
    return dz_k_sock_end(call, e ? e : choose(call, 0));
}

static int netlink_shutdown(const struct dz_k_sock_call *call, uint32_t how)
{
    (void)call, (void)how;
    return -EOPNOTSUPP;
}

static void put_name(uint32_t number, struct dz_sockaddr *ret_name)
{
    const struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_pid = number};
    *ret_name = (struct dz_sockaddr){.size = sizeof a};
    memcpy(ret_name->bytes, &a, sizeof a);
}

static int netlink_name(const struct dz_kernel *k, const struct dz_socket *s, enum dz_k_name which,
                        struct dz_sockaddr *ret_name)
{
    (void)k;
    put_name(which == DZ_K_NAME_OWN ? s->local.port : 0, ret_name);
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------
 */

static void put_attribute(struct dz_buf *to, uint16_t type, const void *data, size_t n)
{
    const struct rtattr head = {.rta_len = (unsigned short)RTA_LENGTH(n), .rta_type = type};
    const uint8_t zeros[RTA_ALIGNTO] = {0};
    dz_buf_add(to, &head, sizeof head);
    dz_buf_add(to, data, n);
    dz_buf_add(to, zeros, RTA_ALIGN(n) - n);
}
static void put_number(struct dz_buf *to, uint16_t type, uint32_t v)
{
    put_attribute(to, type, &v, sizeof v);
}

/* Begin a message of the answer; finish() writes its size. */
static size_t start(struct dz_buf *to, const struct nlmsghdr *request, uint16_t type,
                    uint16_t flags, uint32_t number)
{
    const size_t at = to->len;
    const struct nlmsghdr h = {.nlmsg_type = type,
                               .nlmsg_flags = flags,
                               .nlmsg_seq = request->nlmsg_seq,
                               .nlmsg_pid = number};
    dz_buf_add(to, &h, sizeof h);
    return at;
}
static void finish(struct dz_buf *to, size_t at)
{
    const uint32_t size = (uint32_t)(to->len - at);
    if (!to->err)
        memcpy(to->p + at + offsetof(struct nlmsghdr, nlmsg_len), &size, sizeof size);
}

static void put_link(struct dz_buf *to, const struct nlmsghdr *request, uint16_t flags,
                     uint32_t number, const struct dz_k_link *l)
{
    const size_t at = start(to, request, RTM_NEWLINK, flags, number);
    const bool loops = l->flags & IFF_LOOPBACK;
    const struct ifinfomsg i = {
        .ifi_type = l->type, .ifi_index = (int)l->number, .ifi_flags = l->flags | IFF_LOWER_UP};
    const uint8_t all[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, none = 0, up = 6; /* IF_OPER_UP */
    dz_buf_add(to, &i, sizeof i);
    put_attribute(to, IFLA_IFNAME, l->name, strlen(l->name) + 1);
    put_number(to, IFLA_TXQLEN, DZ_K_NET_QUEUE);
    put_attribute(to, IFLA_OPERSTATE, loops ? &none : &up, 1);
    put_attribute(to, IFLA_LINKMODE, &none, 1);
    put_number(to, IFLA_MTU, l->mtu);
    put_attribute(to, IFLA_QDISC, "noqueue", sizeof "noqueue");
    put_attribute(to, IFLA_ADDRESS, l->mac, sizeof l->mac);
    put_attribute(to, IFLA_BROADCAST, loops ? l->mac : all, sizeof l->mac);
    const struct rtnl_link_stats64 stats = {0};
    put_attribute(to, IFLA_STATS64, &stats, sizeof stats);
    const struct rtnl_link_stats short_stats = {0};
    put_attribute(to, IFLA_STATS, &short_stats, sizeof short_stats);
    finish(to, at);
}

static void put_one_address(struct dz_buf *to, const struct nlmsghdr *request, uint32_t number,
                            const struct dz_k_link *l, uint8_t family)
{
    const size_t at = start(to, request, RTM_NEWADDR, NLM_F_MULTI, number);
    const bool loops = l->flags & IFF_LOOPBACK;
    const struct ifaddrmsg a = {.ifa_family = family,
                                .ifa_prefixlen =
                                    family == AF_INET ? (uint8_t)l->prefix : (uint8_t)128,
                                .ifa_flags = IFA_F_PERMANENT,
                                .ifa_scope = loops ? SCOPE_HOST : SCOPE_GLOBAL,
                                .ifa_index = l->number};
    const uint8_t four[4] = {(uint8_t)(l->address >> 24), (uint8_t)(l->address >> 16),
                             (uint8_t)(l->address >> 8), (uint8_t)l->address};
    const uint8_t six[16] = {[15] = 1};
    const struct ifa_cacheinfo ever = {.ifa_prefered = UINT32_MAX, .ifa_valid = UINT32_MAX};
    dz_buf_add(to, &a, sizeof a);
    if (family == AF_INET) {
        put_attribute(to, IFA_ADDRESS, four, sizeof four);
        put_attribute(to, IFA_LOCAL, four, sizeof four);
        put_attribute(to, IFA_LABEL, l->name, strlen(l->name) + 1);
    } else {
        put_attribute(to, IFA_ADDRESS, six, sizeof six);
    }
    put_attribute(to, IFA_CACHEINFO, &ever, sizeof ever);
    put_number(to, IFA_FLAGS, IFA_F_PERMANENT);
    finish(to, at);
}

static void put_error(struct dz_buf *to, const struct nlmsghdr *request, uint32_t number, int error)
{
    const size_t at = start(to, request, NLMSG_ERROR, error ? 0 : NLM_F_CAPPED, number);
    dz_buf_add(to, &error, sizeof error);
    dz_buf_add(to, request, sizeof *request);
    finish(to, at);
}

/* Does a request for one link mean this one? By number or by name. */
static bool means(const struct dz_k_link *l, const uint8_t *body, size_t n)
{
    struct ifinfomsg i;
    const size_t size = strlen(l->name) + 1;
    if (n < sizeof i)
        return false;
    memcpy(&i, body, sizeof i);
    if (i.ifi_index)
        return i.ifi_index == (int)l->number;
    for (size_t at = sizeof i; at + sizeof(struct rtattr) <= n;) {
        struct rtattr a;
        memcpy(&a, body + at, sizeof a);
        if (a.rta_len < sizeof a || a.rta_len > n - at)
            return false;
        if (a.rta_type == IFLA_IFNAME)
            return a.rta_len >= RTA_LENGTH(size) &&
                   memcmp(body + at + sizeof a, l->name, size) == 0;
        at += RTA_ALIGN(a.rta_len);
    }
    return false;
}

/* Append the answer to one request: 0, or the error to report. */
static int answer(const struct dz_kernel *k, struct dz_buf *to, const struct nlmsghdr *h,
                  const uint8_t *body, size_t n, uint32_t number)
{
    struct dz_k_link links[DZ_K_NET_LINKS];
    const size_t count = dz_k_net_links(k, links);
    const bool dump = (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    const uint8_t family = n > 0 ? body[0] : AF_UNSPEC;
    const int done = 0;
    if (h->nlmsg_type < RTM_BASE)
        return 0; /* control messages mean nothing here */
    if (h->nlmsg_type != RTM_GETLINK && h->nlmsg_type != RTM_GETADDR)
        return (h->nlmsg_type & 3) == 2 ? -EOPNOTSUPP : -EPERM; /* 2: a request that only asks */
    if (n < 1)
        return -EINVAL;
    if (!dump) {
        if (h->nlmsg_type != RTM_GETLINK)
            return -EOPNOTSUPP;
        for (size_t i = 0; i < count; i++)
            if (means(&links[i], body, n)) {
                put_link(to, h, 0, number, &links[i]);
                return 0;
            }
        return -ENODEV;
    }
    const bool four = family == AF_UNSPEC || family == AF_INET;
    const bool six = family == AF_UNSPEC || family == AF_INET6;
    for (size_t i = 0; i < count; i++)
        if (h->nlmsg_type == RTM_GETLINK)
            put_link(to, h, NLM_F_MULTI, number, &links[i]);
        else if (four)
            put_one_address(to, h, number, &links[i], AF_INET);
    for (size_t i = 0; i < count; i++)
        if (h->nlmsg_type == RTM_GETADDR && six && links[i].six)
            put_one_address(to, h, number, &links[i], AF_INET6);
    const size_t at = start(to, h, NLMSG_DONE, NLM_F_MULTI, number);
    dz_buf_add(to, &done, sizeof done);
    finish(to, at);
    return 0;
}

/* Put what was written so far into the socket's own queue. */
static void deliver(const struct dz_k_sock_call *call, struct dz_buf *b)
{
    struct dz_socket *s = call->s;
    const struct iovec iov = {b->p, b->len};
    const struct dz_k_parcel what = {&iov, 1, 0, b->len, NULL, 0, dz_k_nobody};
    const bool fits = !b->err && s->wmem < s->rcvbuf;
    if (b->len > 0 && (!fits || dz_k_message_put(call->k, call->p, s, s, &what) != 0))
        s->error = ENOBUFS; /* the answer is lost, and the reader must know */
    dz_buf_reset(b);
    dz_k_sock_wake(call->k, s);
}

static int64_t netlink_send(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                            int flags)
{
    struct sockaddr_nl to = {0};
    int e = flags & MSG_OOB ? -EOPNOTSUPP : 0;
    if (!e && m->to)
        e = name_of(m->to, &to);
    if (!e && to.nl_pid != 0)
        e = -ECONNREFUSED;
    e = e ? e : choose(call, 0);
    if (!e && (total > REQUEST_MAX || total > call->s->sndbuf - 32))
        e = -EMSGSIZE;
    uint8_t *bytes = !e && total ? dz_zarray(total, 1) : NULL;
    if (e || total == 0)
        return dz_k_sock_end(call, e ? e : -ENODATA);
    if (!bytes)
        return dz_k_sock_end(call, -ENOBUFS);
    dz_k_pieces_get(m->iov, 0, bytes, total);
    struct dz_buf b = DZ_BUF_INIT(DZ_SOCKET_BUF / 2);
    for (size_t at = 0; total - at >= sizeof(struct nlmsghdr);) {
        struct nlmsghdr h;
        memcpy(&h, bytes + at, sizeof h);
        if (h.nlmsg_len < sizeof h || h.nlmsg_len > total - at)
            break;
        const uint32_t number = call->s->local.port;
        int error = 0;
        if (h.nlmsg_flags & NLM_F_REQUEST)
            error = answer(call->k, &b, &h, bytes + at + sizeof h, h.nlmsg_len - sizeof h, number);
        deliver(call, &b);
        if (error || (h.nlmsg_flags & NLM_F_ACK))
            put_error(&b, &h, number, error);
        deliver(call, &b);
        const size_t next = NLMSG_ALIGN((size_t)h.nlmsg_len);
        at = next < total - at ? at + next : total;
    }
    dz_buf_release(&b);
    dz_free(bytes);
    return dz_k_sock_end(call, (int64_t)total);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static int64_t netlink_recv(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                            int flags, struct dz_msg_got *got)
{
    return flags & MSG_OOB ? dz_k_sock_end(call, -EOPNOTSUPP)
                           : dz_k_recv_datagram(call, m, total, flags, got);
}

static void netlink_from(const struct dz_k_sock_call *call, const struct dz_message *msg,
                         struct dz_msg_got *got)
{
    (void)call, (void)msg;
    put_name(0, &got->from);
}

static short netlink_ready(const struct dz_kernel *k, const struct dz_socket *s)
{
    (void)k;
    return (short)((s->error ? POLLERR : 0) | (s->head ? POLLIN | POLLRDNORM : 0) | POLLOUT |
                   POLLWRNORM | POLLWRBAND);
}

static int64_t netlink_none(const struct dz_kernel *k, const struct dz_socket *s)
{
    (void)k, (void)s;
    return -EOPNOTSUPP;
}

static void netlink_taken(struct dz_kernel *k, struct dz_socket *s)
{
    (void)k, (void)s; /* no sender waits */
}

static void netlink_close(struct dz_kernel *k, struct dz_socket *s)
{
    s->dead = 1;
    dz_k_sock_wake(k, s);
    dz_k_queue_purge(k, s);
    dz_k_sock_unref(k, s);
}

const struct dz_k_family dz_k_netlink = {
    .family = AF_NETLINK,
    .create = netlink_create,
    .bind = netlink_bind,
    .listen = netlink_listen,
    .connect = netlink_connect,
    .shutdown = netlink_shutdown,
    .name = netlink_name,
    .send = netlink_send,
    .recv = netlink_recv,
    .from = netlink_from,
    .taken = netlink_taken,
    .ready = netlink_ready,
    .waiting = netlink_none,
    .unsent = netlink_none,
    .close = netlink_close,
};
