/* SPDX-License-Identifier: MIT
 *
 * kernel_sock_opt.c - options of sockets: one table for all levels and families.
 *
 * An option is a bit of dz_socket.options, a number of dz_socket.values, or one of the cases of
 * get() and set(). A number is stored less its default, so a new row has all defaults. Options
 * whose effect only a wire could show (keepalive, TTL, Nagle's algorithm) are stored and returned;
 * all other options of Linux are refused with ENOPROTOOPT.
 */
#include "kernel/kernel_sock.h"

#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

enum { /* which sockets have an option */
    ANY,
    TCP,
    IP, /* of both versions, because an IPv6 socket may send IPv4 */
    V6,
};
enum slot { /* of dz_socket.values; NONE: no number */
    NONE = -1,
    KEEP_IDLE,
    KEEP_INTERVAL,
    KEEP_COUNT,
    SYN_COUNT,
    LINGER2,
    USER_TIMEOUT,
    MAX_SEGMENT,
    QUICK_ACK,
    TOS,
    TTL,
    MULTICAST_TTL,
    MTU_DISCOVER,
    HOPS,
    MULTICAST_HOPS,
    TRAFFIC_CLASS,
    PRIORITY,
    SLOTS,
};
_Static_assert((int)SLOTS == (int)DZ_SOCKET_VALUES, "as kernel_state.h says");

static const struct option {
    int level, name, of;
    enum dz_sockopt_form form;
    bool settable;
    uint32_t bit; /* in dz_socket.options */
    enum slot slot;
    int32_t least, most, normal;
    int32_t unset; /* number that means the default; 0: none does */
} options[] = {
#define BIT(level, name, of, bit) {level, name, of, DZ_SOCKOPT_INT, true, bit, NONE, 0, 0, 0, 0}
#define NUMBER(level, name, of, slot, least, most, normal, unset) \
    {level, name, of, DZ_SOCKOPT_INT, true, 0, slot, least, most, normal, unset}
#define OTHER(name, form, settable) {SOL_SOCKET, name, ANY, form, settable, 0, NONE, 0, 0, 0, 0}
    OTHER(SO_TYPE, DZ_SOCKOPT_INT, false),
    OTHER(SO_DOMAIN, DZ_SOCKOPT_INT, false),
    OTHER(SO_PROTOCOL, DZ_SOCKOPT_INT, false),
    OTHER(SO_ERROR, DZ_SOCKOPT_INT, false),
    OTHER(SO_ACCEPTCONN, DZ_SOCKOPT_INT, false),
    OTHER(SO_PEERCRED, DZ_SOCKOPT_CRED, false),
    OTHER(SO_SNDBUF, DZ_SOCKOPT_INT, true),
    OTHER(SO_RCVBUF, DZ_SOCKOPT_INT, true),
    OTHER(SO_RCVTIMEO, DZ_SOCKOPT_TIME, true),
    OTHER(SO_SNDTIMEO, DZ_SOCKOPT_TIME, true),
    OTHER(SO_LINGER, DZ_SOCKOPT_LINGER, true),
    BIT(SOL_SOCKET, SO_PASSCRED, ANY, DZ_SOCKET_PASSCRED),
    BIT(SOL_SOCKET, SO_REUSEADDR, ANY, DZ_SOCKET_REUSEADDR),
    BIT(SOL_SOCKET, SO_REUSEPORT, ANY, DZ_SOCKET_REUSEPORT),
    BIT(SOL_SOCKET, SO_KEEPALIVE, ANY, DZ_SOCKET_KEEPALIVE),
    BIT(SOL_SOCKET, SO_BROADCAST, ANY, DZ_SOCKET_BROADCAST),
    BIT(SOL_SOCKET, SO_OOBINLINE, ANY, DZ_SOCKET_OOBINLINE),
    BIT(SOL_SOCKET, SO_DONTROUTE, ANY, DZ_SOCKET_DONTROUTE),
    NUMBER(SOL_SOCKET, SO_PRIORITY, ANY, PRIORITY, 0, 6, 0, 0),
    BIT(IPPROTO_TCP, TCP_NODELAY, TCP, DZ_SOCKET_NODELAY),
    BIT(IPPROTO_TCP, TCP_CORK, TCP, DZ_SOCKET_CORK),
    NUMBER(IPPROTO_TCP, TCP_KEEPIDLE, TCP, KEEP_IDLE, 1, 32767, 7200, 0),
    NUMBER(IPPROTO_TCP, TCP_KEEPINTVL, TCP, KEEP_INTERVAL, 1, 32767, 75, 0),
    NUMBER(IPPROTO_TCP, TCP_KEEPCNT, TCP, KEEP_COUNT, 1, 127, 9, 0),
    NUMBER(IPPROTO_TCP, TCP_SYNCNT, TCP, SYN_COUNT, 1, 127, 6, 0),
    NUMBER(IPPROTO_TCP, TCP_LINGER2, TCP, LINGER2, 1, 120, 60, 0),
    NUMBER(IPPROTO_TCP, TCP_USER_TIMEOUT, TCP, USER_TIMEOUT, 0, INT32_MAX, 0, 0),
    NUMBER(IPPROTO_TCP, TCP_MAXSEG, TCP, MAX_SEGMENT, 88, 32767, 536, 0),
    NUMBER(IPPROTO_TCP, TCP_QUICKACK, TCP, QUICK_ACK, 0, 1, 1, 0),
    BIT(IPPROTO_IP, IP_PKTINFO, IP, DZ_SOCKET_PKTINFO),
    BIT(IPPROTO_IP, IP_RECVERR, IP, DZ_SOCKET_RECVERR),
    NUMBER(IPPROTO_IP, IP_TOS, IP, TOS, 0, 255, 0, 0),
    NUMBER(IPPROTO_IP, IP_TTL, IP, TTL, 1, 255, 64, -1),
    NUMBER(IPPROTO_IP, IP_MULTICAST_TTL, IP, MULTICAST_TTL, 0, 255, 1, -1),
    NUMBER(IPPROTO_IP, IP_MTU_DISCOVER, IP, MTU_DISCOVER, 0, 5, 1, 0),
    BIT(IPPROTO_IPV6, IPV6_V6ONLY, V6, DZ_SOCKET_V6ONLY),
    BIT(IPPROTO_IPV6, IPV6_RECVPKTINFO, V6, DZ_SOCKET_PKTINFO6),
    BIT(IPPROTO_IPV6, IPV6_RECVERR, V6, DZ_SOCKET_RECVERR6),
    NUMBER(IPPROTO_IPV6, IPV6_UNICAST_HOPS, V6, HOPS, 0, 255, 64, -1),
    NUMBER(IPPROTO_IPV6, IPV6_MULTICAST_HOPS, V6, MULTICAST_HOPS, 0, 255, 1, -1),
    NUMBER(IPPROTO_IPV6, IPV6_TCLASS, V6, TRAFFIC_CLASS, 0, 255, 0, -1),
#undef BIT
#undef NUMBER
#undef OTHER
};

static const struct option *option(int level, int name)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(options); i++)
        if (options[i].level == level && options[i].name == name)
            return &options[i];
    return NULL;
}

int dz_sockopt_form(int level, int name)
{
    const struct option *o = option(level, name);
    return o ? (int)o->form : -ENOPROTOOPT;
}

bool dz_k_sock_values_ok(const struct dz_socket *s)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(options); i++) {
        const struct option *o = &options[i];
        const int64_t v = o->slot == NONE ? 0 : (int64_t)s->values[o->slot] + o->normal;
        if (o->slot != NONE && (v < o->least || v > o->most))
            return false;
    }
    return true;
}

/* The option, if this socket has it. -ENOPROTOOPT, -EOPNOTSUPP. */
static int of_socket(const struct dz_socket *s, const int what[2], bool get,
                     const struct option **ret)
{
    const struct option *o = option(what[0], what[1]);
    const bool inet = dz_k_is_inet(s);
    if (what[0] != SOL_SOCKET && !inet)
        return -EOPNOTSUPP;
    const int own = s->type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
    if (s->family == AF_INET && what[0] != SOL_SOCKET && what[0] != IPPROTO_IP && what[0] != own)
        return get ? -EOPNOTSUPP : -ENOPROTOOPT;
    if (!o || (o->of == TCP && s->type != SOCK_STREAM) || (o->of == V6 && s->family != AF_INET6))
        return -ENOPROTOOPT;
    if (o->name == SO_PASSCRED && o->level == SOL_SOCKET && inet)
        return -EOPNOTSUPP;
    *ret = o;
    return 0;
}

static int64_t get(const struct option *o, struct dz_socket *s)
{
    if (o->slot != NONE)
        return s->values[o->slot] + o->normal;
    if (o->bit)
        return (s->options & o->bit) != 0;
    switch (o->name) {
    case SO_TYPE:
        return s->type;
    case SO_DOMAIN:
        return s->family;
    case SO_PROTOCOL:
        return s->protocol;
    case SO_ERROR:
        return -dz_k_sock_error(s);
    case SO_ACCEPTCONN:
        return s->state == DZ_SOCKET_LISTENING;
    case SO_SNDBUF:
        return s->sndbuf;
    case SO_RCVBUF:
        return s->rcvbuf;
    case SO_RCVTIMEO:
        return s->rcvtimeo;
    case SO_SNDTIMEO:
        return s->sndtimeo;
    default:
        assert(o->name == SO_LINGER || o->name == SO_PEERCRED);
        return s->options & DZ_SOCKET_LINGER ? (int64_t)s->linger : ~(int64_t)s->linger;
    }
}

int64_t dz_sys_getsockopt(struct dz_kernel *k, struct dz_proc *p, int fd, const int what[2],
                          struct dz_sockopt *ret_value)
{
    struct dz_k_sock_call call;
    const struct option *o = NULL;
    int e = dz_k_sock_begin(&call, k, p, fd);
    if (e)
        return e;
    e = of_socket(call.s, what, true, &o);
    if (e)
        return dz_k_end(k, p, e);
    *ret_value = (struct dz_sockopt){.cred = call.s->peer_cred};
    ret_value->value = get(o, call.s);
    return dz_k_end(k, p, 0);
}

/* Linux doubles the requested size, for its own bookkeeping. */
static uint32_t buffer_size(int64_t value, uint32_t least)
{
    uint32_t v = value < 0 || value > DZ_SOCKET_BUF ? DZ_SOCKET_BUF : (uint32_t)value;
    return 2 * v > least ? 2 * v : least;
}

static int set_number(const struct option *o, const struct dz_proc *p, struct dz_socket *s,
                      int64_t v)
{
    if (o->slot == PRIORITY && (v < 0 || v > o->most))
        return dz_k_capable(p, CAP_NET_ADMIN) ? -EINVAL : -EPERM;
    if (o->slot == QUICK_ACK)
        v = v != 0;
    if (s->type == SOCK_STREAM && (o->slot == MULTICAST_TTL || o->slot == MULTICAST_HOPS))
        return o->slot == MULTICAST_TTL ? -EINVAL : -ENOPROTOOPT;
    if (o->slot == TOS)
        v &= 0xff;
    if (s->type == SOCK_STREAM && v > 0 && v < 256 && (o->slot == TOS || o->slot == TRAFFIC_CLASS))
        v &= ~INT64_C(3);                             /* the bits of congestion belong to TCP */
    if (o->slot == LINGER2 && (v < 0 || v > o->most)) /* Linux cuts both */
        v = v < 0 ? o->least : o->most;
    else if (o->slot == LINGER2 && v == 0)
        v = o->normal;
    if (o->slot == MAX_SEGMENT && v == 0)
        v = o->normal;
    if (o->unset && v == o->unset)
        v = o->normal;
    if (v < o->least || v > o->most)
        return -EINVAL;
    s->values[o->slot] = (int32_t)v - o->normal;
    return 0;
}

int64_t dz_sys_setsockopt(struct dz_kernel *k, struct dz_proc *p, int fd, const int what[2],
                          const struct dz_sockopt *value)
{
    struct dz_k_sock_call call;
    const struct option *o = NULL;
    int e = dz_k_sock_begin(&call, k, p, fd);
    if (e)
        return e;
    e = of_socket(call.s, what, false, &o);
    if (!e && !o->settable)
        e = -ENOPROTOOPT;
    struct dz_socket *s = call.s;
    if (!e && o->bit == DZ_SOCKET_V6ONLY && dz_k_inet_has_port(s))
        e = -EINVAL;
    if (e)
        return dz_k_end(k, p, e);
    const int64_t v = value->value;
    if (o->slot != NONE) {
        e = set_number(o, p, s, v);
    } else if (o->bit) {
        s->options = v ? s->options | o->bit : s->options & ~o->bit;
    } else if (o->name == SO_SNDBUF) {
        s->sndbuf = buffer_size(v, DZ_SOCKET_SNDBUF_MIN);
        dz_k_wake(k, &s->wait_w);
    } else if (o->name == SO_RCVBUF) {
        s->rcvbuf = buffer_size(v, DZ_SOCKET_RCVBUF_MIN);
    } else if (o->form == DZ_SOCKOPT_TIME) {
        *(o->name == SO_RCVTIMEO ? &s->rcvtimeo : &s->sndtimeo) = v < 0 ? 0 : v;
    } else {
        assert(o->form == DZ_SOCKOPT_LINGER);
        s->options =
            v < 0 ? s->options & ~(uint32_t)DZ_SOCKET_LINGER : s->options | DZ_SOCKET_LINGER;
        s->linger = v < 0 ? s->linger : (uint32_t)v;
    }
    return dz_k_end(k, p, e);
}
