/* SPDX-License-Identifier: MIT
 *
 * kernel_sock_inet.c - AF_INET and AF_INET6: TCP and UDP over the loopback of this machine.
 *
 * Nothing is ever a packet: sending appends to the receiver's queue, and closing, resetting and
 * refusing change the other socket's row in the same call. So a connection has no state of its own,
 * and none of TIME_WAIT, LAST_ACK and CLOSING lasts.
 *
 * connect(2) makes the server's end at once and puts it into the listener's queue, like AF_UNIX; if
 * the queue is full, the socket is CONNECTING until accept(2) makes room. A non-blocking connect
 * returns EINPROGRESS and a second call reports how it ended, as on Linux, where the answer arrives
 * only when the call has ended.
 *
 * A socket that was reset, or whose both directions have ended, is CLOSED. It keeps its queue, so
 * that its bytes can still be read, its error, and its names.
 *
 * The other end of a connection may be outside of the machine (kernel_sock_outside.c): its socket
 * has a channel instead of a peer.
 *
 * A datagram is charged to the socket that receives it (SO_RCVBUF), because a sender of UDP never
 * waits: a datagram that does not fit is dropped.
 *
 * Errors are checked in Linux's order (net/ipv4/af_inet.c, tcp.c, udp.c), because programs see it.
 */
#include "kernel/kernel_sock.h"

#include <linux/capability.h>
#include <netinet/in.h>
#include <stdio.h>

enum {
    RESERVED = 1024,  /* ports below are root's */
    UDP4_MAX = 65507, /* bytes of a datagram */
    UDP6_MAX = 65527,
    UDP_LENGTH = 65535,
    WAITING_MAX = 1024, /* sockets of a machine that wait for room in listeners' queues */
};

static bool is_datagram(const struct dz_socket *s)
{
    return s->type == SOCK_DGRAM;
}

/* ---- creation --------------------------------------------------------------------------------
 */

static int inet_create(int *type, int *protocol)
{
    const int normal = *type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
    if (*protocol < 0 || *protocol >= IPPROTO_MAX)
        return -EINVAL;
    if (*type == SOCK_RAW)
        return *protocol == 0 ? -EPROTONOSUPPORT : -EPERM;
    if (*type != SOCK_STREAM && *type != SOCK_DGRAM)
        return -ESOCKTNOSUPPORT;
    if (*protocol == 0)
        *protocol = normal;
    return *protocol == normal ? 0 : -EPROTONOSUPPORT;
}

/* ---- binding ------------------------------------------------------------------------------------
 */

static uint16_t family_of(const struct dz_sockaddr *a)
{
    uint16_t family;
    memcpy(&family, a->bytes, sizeof family);
    return family;
}

/* A port that the kernel chooses. */
static int autobind(const struct dz_kernel *k, struct dz_socket *s, int none)
{
    if (dz_k_inet_has_port(s))
        return 0;
    s->local.port = dz_k_inet_free_port(k, s);
    s->inet |= s->local.port ? DZ_INET_HAS_PORT : 0u;
    return s->local.port ? 0 : none;
}

static int inet_bind(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    struct dz_socket *s = call->s;
    struct dz_sockaddr name = *to;
    struct dz_inet a;
    const uint16_t inet = AF_INET;
    if (s->family == AF_INET && to->size >= sizeof(struct sockaddr_in) &&
        family_of(to) == AF_UNSPEC && name.bytes[4] == 0 && name.bytes[5] == 0 &&
        name.bytes[6] == 0 && name.bytes[7] == 0)
        memcpy(name.bytes, &inet, sizeof inet);
    int e = dz_k_inet_get(s->family, &name, &a);
    const bool mapped = s->family == AF_INET6 && dz_k_is_v4(&a);
    const bool there = dz_k_inet_is_any(&a) || dz_k_inet_is_local(&a);
    if (!e && s->family == AF_INET && !there)
        e = -EADDRNOTAVAIL;
    if (!e && a.port != 0 && a.port < RESERVED && !dz_k_capable(call->p, CAP_NET_BIND_SERVICE))
        e = -EACCES;
    if (!e && (dz_k_inet_has_port(s) || (!is_datagram(s) && s->state != DZ_SOCKET_CLOSED) ||
               (is_datagram(s) && s->state == DZ_SOCKET_CONNECTED)))
        e = -EINVAL;
    if (!e && !is_datagram(s) && s->family == AF_INET6 && a.hi >> 56 == 0xff) /* a group */
        e = -EINVAL;
    if (!e && mapped && (s->options & DZ_SOCKET_V6ONLY))
        e = -EINVAL;
    if (!e && !there)
        e = -EADDRNOTAVAIL;
    if (e)
        return e;
    const uint32_t wanted = a.port;
    a.port = wanted ? wanted : dz_k_inet_free_port(call->k, s);
    e = a.port ? dz_k_inet_conflict(call->k, s, &a) : -EADDRINUSE;
    if (e)
        return e;
    s->local = a;
    s->remote = dz_k_inet_any(s->family);
    s->inet |= DZ_INET_HAS_PORT;
    s->inet |= (dz_k_inet_is_any(&a) ? 0u : DZ_INET_ADDR_LOCK) | (wanted ? DZ_INET_PORT_LOCK : 0u);
    return 0;
}

/* ---- ends of connections ----------------------------------------------------------------------
 */

/* Nothing more is sent either way. */
static void end(struct dz_kernel *k, struct dz_socket *s)
{
    struct dz_socket *peer = dz_k_socket(k, s->peer);
    s->state = DZ_SOCKET_CLOSED;
    s->shut = DZ_SOCKET_SHUT_BOTH;
    s->peer = 0;
    dz_k_outside_close(k, s, false);
    if (!(s->inet & DZ_INET_PORT_LOCK))
        s->inet &= ~(uint32_t)DZ_INET_HAS_PORT;
    if (peer)
        dz_k_sock_unref(k, peer);
    dz_k_sock_wake(k, s);
}

/* The peer of s has sent a reset. NULL: s is outside. */
static void reset(struct dz_kernel *k, struct dz_socket *s)
{
    if (!s || s->dead || s->state != DZ_SOCKET_CONNECTED)
        return;
    s->error = s->inet & DZ_INET_FIN_SEEN ? EPIPE : ECONNRESET;
    end(k, s);
}

/* The peer of s has sent its last byte. */
void dz_k_inet_finished(struct dz_kernel *k, struct dz_socket *s)
{
    if (s->dead || s->state != DZ_SOCKET_CONNECTED)
        return;
    s->inet |= DZ_INET_FIN_SEEN;
    s->shut |= DZ_SOCKET_SHUT_RD;
    if (s->inet & DZ_INET_FIN_SENT)
        end(k, s);
    dz_k_sock_wake(k, s);
}

static void send_fin(struct dz_kernel *k, struct dz_socket *s)
{
    struct dz_socket *peer = dz_k_socket(k, s->peer);
    if (s->inet & DZ_INET_FIN_SENT)
        return;
    s->inet |= DZ_INET_FIN_SENT;
    if (peer)
        dz_k_inet_finished(k, peer);
    else
        dz_k_outside_finish(k, s);
    if (s->inet & DZ_INET_FIN_SEEN)
        end(k, s);
}

static void refuse(struct dz_kernel *k, struct dz_socket *s, int error)
{
    s->error = (uint32_t)error;
    end(k, s);
}

void dz_k_inet_lost(struct dz_kernel *k, struct dz_socket *s, int error)
{
    if (s->state == DZ_SOCKET_CONNECTED || s->state == DZ_SOCKET_CONNECTING)
        refuse(k, s, error);
}

struct dz_socket *dz_k_inet_accepted(struct dz_kernel *k, struct dz_socket *listener,
                                     const struct dz_inet *from, const struct dz_inet *to)
{
    struct dz_socket *server = dz_k_sock_incoming(k, listener);
    if (!server)
        return NULL;
    server->local = *to;
    server->remote = *from;
    server->inet = DZ_INET_ATTACHED | DZ_INET_HAS_PORT | (listener->inet & DZ_INET_ADDR_LOCK);
    server->uid = listener->uid;
    server->options = listener->options;
    server->linger = listener->linger;
    server->sndbuf = listener->sndbuf;
    server->rcvbuf = listener->rcvbuf;
    server->rcvtimeo = listener->rcvtimeo;
    server->sndtimeo = listener->sndtimeo;
    memcpy(server->values, listener->values, sizeof server->values);
    return server;
}

/* Make both ends of a connection. false: no room. */
static bool establish(struct dz_kernel *k, struct dz_socket *s, struct dz_socket *listener)
{
    struct dz_socket *server = dz_k_inet_accepted(k, listener, &s->local, &s->remote);
    if (!server)
        return false;
    dz_k_sock_attach(s, server);
    dz_k_sock_attach(server, s);
    dz_k_sock_wake(k, s);
    return true;
}

/* Do as many sockets as may wait for room in a listener's queue already do so? Each accept looks at
 * all of them. */
static bool too_many_wait(const struct dz_kernel *k)
{
    uint32_t n = 0;
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    n += s->state == DZ_SOCKET_CONNECTING && !s->channel;
    return n > WAITING_MAX;
}

/* Connect, wait for room in the queue or for the outside, or be refused. */
static void try_connect(struct dz_kernel *k, struct dz_socket *s)
{
    if (!dz_k_inet_is_local(&s->remote)) {
        const int e = dz_k_outside_open(k, s);
        if (e)
            refuse(k, s, -e);
        return;
    }
    struct dz_socket *listener = dz_k_inet_find(k, SOCK_STREAM, &s->local, &s->remote);
    bool refused = !listener;
    if (listener && dz_k_sock_backlogged(listener))
        refused = too_many_wait(k);
    else if (listener)
        refused = !establish(k, s, listener);
    if (refused)
        refuse(k, s, ECONNREFUSED);
}

/* A listener has room, or is gone: those that wait for it go on, first come, first served. */
static void retry(struct dz_kernel *k, uint32_t port)
{
    for (;;) {
        struct dz_socket *first = NULL;
        DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
        {
            if (s->state != DZ_SOCKET_CONNECTING || s->channel || s->remote.port != port)
                continue;
            const struct dz_socket *l = dz_k_inet_find(k, SOCK_STREAM, &s->local, &s->remote);
            if (!l) /* those of a closed listener all go in one pass */
                refuse(k, s, ECONNREFUSED);
            else if (!dz_k_sock_backlogged(l) && (!first || s->order < first->order))
                first = s;
        }
        if (!first)
            return;
        try_connect(k, first);
    }
}

static void inet_accepted(struct dz_kernel *k, struct dz_socket *listener)
{
    if (k->net_waits)
        dz_k_outside_listening(k);
    retry(k, listener->local.port);
}

static void die(struct dz_kernel *k, struct dz_socket *s, bool unaccepted);

/* End the connections of a listener's queue, which has none of them any more. */
static void drop_waiting(struct dz_kernel *k, uint32_t first)
{
    while (first) {
        struct dz_socket *server = dz_k_socket(k, first);
        first = server->next;
        server->next = 0;
        die(k, server, true);
    }
}

/* Free a socket without a description: it was closed, or was never accepted. */
static void die(struct dz_kernel *k, struct dz_socket *s, bool unaccepted)
{
    struct dz_socket *peer = dz_k_socket(k, s->peer);
    const bool was_listening = s->state == DZ_SOCKET_LISTENING;
    const bool abort = unaccepted || (!was_listening && s->head) ||
                       ((s->options & DZ_SOCKET_LINGER) && s->linger == 0);
    const uint32_t port = s->local.port;
    uint32_t waiting = was_listening ? s->head : 0;
    if (was_listening)
        s->head = s->tail = s->count = 0;
    if (s->channel) /* the host sends the end of the stream, or a reset */
        dz_k_outside_close(k, s, abort);
    else if (s->state == DZ_SOCKET_CONNECTED && !is_datagram(s) && abort)
        reset(k, peer);
    else if (s->state == DZ_SOCKET_CONNECTED && !is_datagram(s))
        send_fin(k, s);
    s->dead = 1;
    s->inet &= ~(uint32_t)(DZ_INET_HAS_PORT | DZ_INET_PORT_LOCK);
    s->shut = DZ_SOCKET_SHUT_BOTH;
    s->state = DZ_SOCKET_CLOSED;
    s->listener = 0;
    peer = dz_k_socket(k, s->peer); /* the last byte of both may have parted them */
    s->peer = 0;
    dz_k_sock_wake(k, s); /* wake other threads, whose descriptor was closed */
    if (peer)
        dz_k_sock_unref(k, peer);
    drop_waiting(k, waiting);
    if (was_listening) {
        retry(k, port);
        dz_k_outside_listening(k);
    } else {
        dz_k_queue_purge(k, s);
    }
    dz_k_sock_unref(k, s);
}

static void inet_close(struct dz_kernel *k, struct dz_socket *s)
{
    die(k, s, false);
}

/* connect(2) to AF_UNSPEC, and the end of a failed one: as new, but for what bind(2) named. */
static void disconnect(struct dz_kernel *k, struct dz_socket *s)
{
    const bool was_listening = s->state == DZ_SOCKET_LISTENING;
    struct dz_socket *peer = dz_k_socket(k, s->peer);
    const uint32_t port = s->local.port;
    if (s->state == DZ_SOCKET_CONNECTED && !is_datagram(s)) {
        reset(k, peer);
        s->error = ECONNRESET;
    } else if (s->state == DZ_SOCKET_CONNECTING) {
        s->error = ECONNRESET;
    }
    const uint32_t waiting = was_listening ? s->head : 0;
    if (was_listening)
        s->head = s->tail = s->count = 0;
    dz_k_outside_close(k, s, true);
    end(k, s);
    drop_waiting(k, waiting);
    if (!was_listening && !is_datagram(s))
        dz_k_queue_purge(k, s);
    if (is_datagram(s) && !(s->inet & DZ_INET_PORT_LOCK))
        s->local.port = 0;
    if (!(s->inet & DZ_INET_ADDR_LOCK)) {
        const struct dz_inet any = dz_k_inet_any(s->family);
        s->local.hi = any.hi;
        s->local.lo = any.lo;
    }
    s->remote = dz_k_inet_any(s->family);
    s->inet &= DZ_INET_ADDR_LOCK | DZ_INET_PORT_LOCK | DZ_INET_HAS_PORT;
    s->shut = 0;
    if (was_listening) {
        retry(k, port);
        dz_k_outside_listening(k);
    }
}

/* ---- connections --------------------------------------------------------------------------------
 */

static int inet_listen(const struct dz_k_sock_call *call, uint32_t backlog)
{
    struct dz_socket *s = call->s;
    if (is_datagram(s))
        return -EOPNOTSUPP;
    if ((s->inet & (DZ_INET_PENDING | DZ_INET_ATTACHED)) ||
        (s->state != DZ_SOCKET_CLOSED && s->state != DZ_SOCKET_LISTENING))
        return -EINVAL;
    int e = autobind(call->k, s, -EADDRINUSE);
    if (!e && s->state == DZ_SOCKET_CLOSED)
        e = dz_k_inet_conflict(call->k, s, &s->local);
    if (e)
        return e;
    const bool was_listening = s->state == DZ_SOCKET_LISTENING;
    const bool more = was_listening && backlog > s->backlog;
    s->backlog = backlog;
    s->state = DZ_SOCKET_LISTENING;
    s->shut = 0;
    if (more)
        retry(call->k, s->local.port);
    if (!was_listening || more)
        dz_k_outside_listening(call->k);
    return 0;
}

/* The address and port of both ends, for a socket that connects. */
static int choose_ends(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    struct dz_socket *s = call->s;
    struct dz_inet remote, local;
    const uint32_t family = is_datagram(s) && s->family == AF_INET6 &&
                                    to->size >= sizeof(uint16_t) && family_of(to) == AF_INET
                                ? AF_INET
                                : s->family;
    if (family != s->family && (s->options & DZ_SOCKET_V6ONLY))
        return -EAFNOSUPPORT;
    int e = dz_k_inet_get(family, to, &remote);
    e = e ? e : dz_k_inet_route(call->k, s, &remote, &local);
    e = e ? e : autobind(call->k, s, is_datagram(s) ? -EAGAIN : -EADDRNOTAVAIL);
    if (e)
        return e;
    local.port = s->local.port;
    DZ_K_FOREACH(dz_socket, o, call->k, DZ_KERNEL_TABLE_SOCKET)
    if (!is_datagram(s) && o != s && dz_k_is_inet(o) && o->type == s->type &&
        (o->state == DZ_SOCKET_CONNECTED || o->state == DZ_SOCKET_CONNECTING) &&
        o->local.port == local.port && o->remote.port == remote.port &&
        dz_k_inet_same(&o->local, &local) && dz_k_inet_same(&o->remote, &remote))
        return -EADDRNOTAVAIL;
    s->local = local;
    s->remote = remote;
    return 0;
}

static int64_t connect_datagrams(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    struct dz_socket *s = call->s;
    if (family_of(to) == AF_UNSPEC) {
        const uint32_t shut = s->shut, error = s->error;
        disconnect(call->k, s);
        s->shut = shut;
        s->error = error;
        return dz_k_sock_end(call, 0);
    }
    const int e = choose_ends(call, to);
    if (!e) /* port 0 is a peer, too: nothing can be sent to it */
        s->state = s->remote.port ? DZ_SOCKET_CONNECTED : s->state;
    return dz_k_sock_end(call, e);
}

static int64_t inet_connect(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s;
    const bool begun = (s->inet & DZ_INET_PENDING) != 0;
    if (to->size < sizeof(uint16_t))
        return dz_k_sock_end(call, -EINVAL);
    if (is_datagram(s))
        return connect_datagrams(call, to);
    if (family_of(to) == AF_UNSPEC) {
        disconnect(k, s);
        return dz_k_sock_end(call, 0);
    }
    if ((s->inet & DZ_INET_ATTACHED) || (!begun && s->state != DZ_SOCKET_CLOSED))
        return dz_k_sock_end(call, -EISCONN);
    if (!begun) {
        const int e = choose_ends(call, to);
        if (e)
            return dz_k_sock_end(call, e);
        s->inet |= DZ_INET_PENDING;
        s->state = DZ_SOCKET_CONNECTING;
        s->shut = 0;
        s->order = ++k->next_message;
        if (s->remote.port)
            try_connect(k, s);
        else
            refuse(k, s, ECONNREFUSED);
        if (call->nonblock)
            return dz_k_sock_end(call, -EINPROGRESS);
    }
    if (s->state == DZ_SOCKET_CONNECTING) {
        if (call->nonblock || dz_kernel_now(k) >= call->c->deadline)
            return dz_k_sock_end(call, call->nonblock ? -EALREADY : -EINPROGRESS);
        return dz_k_sock_wait(call, &s->wait_w);
    }
    s->inet &= ~(uint32_t)DZ_INET_PENDING;
    if (s->state == DZ_SOCKET_CLOSED) {
        const int e = dz_k_sock_error(s);
        disconnect(k, s);
        return dz_k_sock_end(call, e ? e : -ECONNABORTED);
    }
    s->inet |= DZ_INET_ATTACHED;
    return dz_k_sock_end(call, 0);
}

static int inet_shutdown(const struct dz_k_sock_call *call, uint32_t how)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s;
    if (is_datagram(s)) {
        s->shut |= how;
        dz_k_sock_wake(k, s);
        return s->state == DZ_SOCKET_CONNECTED ? 0 : -ENOTCONN;
    }
    if ((s->inet & DZ_INET_PENDING) && s->state == DZ_SOCKET_CONNECTED)
        s->inet ^= DZ_INET_PENDING | DZ_INET_ATTACHED;
    if (s->state == DZ_SOCKET_CONNECTING ||
        (s->state == DZ_SOCKET_LISTENING && (how & DZ_SOCKET_SHUT_RD))) {
        disconnect(k, s);
        return 0;
    }
    if (s->state == DZ_SOCKET_LISTENING)
        return 0;
    s->shut |= how;
    dz_k_sock_wake(k, s);
    if (s->state == DZ_SOCKET_CLOSED)
        return -ENOTCONN;
    if (how & DZ_SOCKET_SHUT_WR)
        send_fin(k, s);
    return 0;
}

static int inet_name(const struct dz_kernel *k, const struct dz_socket *s, enum dz_k_name which,
                     struct dz_sockaddr *ret_name)
{
    (void)k;
    if (which != DZ_K_NAME_OWN && s->remote.port == 0)
        return -ENOTCONN;
    if (which == DZ_K_NAME_PEER && s->state != DZ_SOCKET_CONNECTED)
        return -ENOTCONN;
    dz_k_inet_put(s->family, which == DZ_K_NAME_OWN ? &s->local : &s->remote, ret_name);
    return 0;
}

/* ---- readiness ----------------------------------------------------------------------------------
 */

static short inet_ready(const struct dz_kernel *k, const struct dz_socket *s)
{
    int r = s->error ? POLLERR : 0;
    if (s->state == DZ_SOCKET_LISTENING)
        return s->head ? POLLIN | POLLRDNORM : 0;
    if (s->shut & DZ_SOCKET_SHUT_RD)
        r |= POLLRDHUP | POLLIN | POLLRDNORM;
    if (s->shut == DZ_SOCKET_SHUT_BOTH || (!is_datagram(s) && s->state == DZ_SOCKET_CLOSED))
        r |= POLLHUP;
    if (s->channel && s->state == DZ_SOCKET_CONNECTED)
        return (short)(r | dz_k_outside_ready(k, s));
    if (s->head)
        r |= POLLIN | POLLRDNORM;
    if (is_datagram(s))
        return (short)(r | POLLOUT | POLLWRNORM | POLLWRBAND);
    if (s->state != DZ_SOCKET_CONNECTING &&
        ((s->shut & DZ_SOCKET_SHUT_WR) || s->wmem <= s->sndbuf / 4))
        r |= POLLOUT | POLLWRNORM;
    return (short)r;
}

static int64_t inet_waiting(const struct dz_kernel *k, const struct dz_socket *s)
{
    return s->channel && s->state == DZ_SOCKET_CONNECTED ? dz_k_outside_waiting(k, s)
                                                         : dz_k_sock_waiting(k, s);
}

/* A byte that is in the receiver's queue, or in the host's socket, has been sent. */
static int64_t inet_unsent(const struct dz_kernel *k, const struct dz_socket *s)
{
    (void)k;
    return s->state == DZ_SOCKET_LISTENING ? -EINVAL : 0;
}

/* ---- sending ------------------------------------------------------------------------------------
 */

static int64_t send_stream(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                           int flags)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s;
    uint64_t *done = &call->c->done;
    if (s->state == DZ_SOCKET_CONNECTING)
        return dz_k_sock_wait(call, &s->wait_w);
    do {
        struct dz_socket *other = dz_k_socket(k, s->peer);
        if (s->error || (s->shut & DZ_SOCKET_SHUT_WR) || s->state != DZ_SOCKET_CONNECTED) {
            const int e = *done > 0 ? 0 : dz_k_sock_error(s);
            return e && e != -EPIPE ? dz_k_sock_end(call, e) : dz_k_broken_pipe(call, flags);
        }
        if (*done == total)
            break;
        if (s->channel)
            return dz_k_outside_send(call, m, total, flags);
        if (s->wmem >= s->sndbuf)
            return dz_k_sock_wait(call, &s->wait_w);
        const bool deaf = (other->inet & DZ_INET_FIN_SENT) && (other->shut & DZ_SOCKET_SHUT_RD) &&
                          !(other->inet & DZ_INET_FIN_SEEN);
        if (other->dead || deaf) { /* the bytes that fit are sent, and a reset is the answer */
            const uint64_t fits = *done + (s->sndbuf - s->wmem);
            reset(k, other);
            reset(k, s);
            return dz_k_sock_end(call, (int64_t)dz_k_min64(total, fits));
        }
        struct dz_k_parcel what = {m->iov, m->iov_count, *done, 0, NULL, 0, dz_k_nobody};
        what.size = dz_k_min64(total - *done, s->sndbuf / 2);
        what.size = dz_k_min64(what.size, DZ_SOCKET_CHUNK);
        const int e = dz_k_message_put(k, call->p, s, other, &what);
        if (e)
            return dz_k_sock_end(call, e);
        *done += what.size;
        dz_k_wake(k, &other->wait_r);
    } while (*done < total);
    return dz_k_sock_end(call, 0);
}

/* The receiver's address, and the sender's own. */
static int ends_of(const struct dz_k_sock_call *call, const struct dz_msg *m,
                   struct dz_inet *ret_to, struct dz_inet *ret_from)
{
    struct dz_socket *s = call->s;
    struct dz_inet to = s->remote, from;
    int e = m->to || s->state == DZ_SOCKET_CONNECTED ? 0 : -EDESTADDRREQ;
    if (m->to) {
        struct dz_sockaddr name = *m->to;
        const uint16_t given = name.size >= sizeof given ? family_of(&name) : AF_UNSPEC;
        uint16_t family = (uint16_t)s->family;
        if (s->family == AF_INET6 && given == AF_INET)
            family = AF_INET;
        else if (s->family == AF_INET && given == AF_UNSPEC)
            memcpy(name.bytes, &family, sizeof family);
        e = dz_k_inet_get(family, &name, &to);
        if (e == -EAFNOSUPPORT && s->family == AF_INET6)
            e = -EINVAL;
        if (!e && to.port == 0)
            e = -EINVAL;
    }
    if (!e && s->remote.port == 0 && !m->to)
        e = -EINVAL;
    e = e ? e : dz_k_inet_route(call->k, s, &to, &from);
    if (!e && m->src && !dz_k_inet_is_any(m->src)) {
        if (!dz_k_inet_is_local(m->src) || dz_k_is_v4(m->src) != dz_k_is_v4(&to))
            return -EINVAL;
        from.hi = m->src->hi;
        from.lo = m->src->lo;
    }
    if (e)
        return e;
    *ret_to = to;
    *ret_from = from;
    return 0;
}

static int64_t send_datagram(const struct dz_k_sock_call *call, const struct dz_msg *m,
                             size_t total, int flags)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s;
    struct dz_inet to, from;
    int e = autobind(k, s, -EAGAIN);
    if (!e && (flags & MSG_MORE)) /* a part of a datagram */
        e = -EOPNOTSUPP;
    if (!e && total > UDP_LENGTH)
        e = -EMSGSIZE;
    e = e ? e : ends_of(call, m, &to, &from);
    if (!e && total > (dz_k_is_v4(&to) ? (size_t)UDP4_MAX : (size_t)UDP6_MAX))
        e = -EMSGSIZE;
    e = e ? e : dz_k_sock_error(s);
    if (!e && (s->shut & DZ_SOCKET_SHUT_WR))
        e = -EPIPE;
    if (e)
        return dz_k_sock_end(call, e);
    struct dz_socket *other = dz_k_inet_find(k, SOCK_DGRAM, &from, &to);
    const struct dz_k_parcel what = {m->iov, m->iov_count, 0, total, NULL, 0, dz_k_nobody};
    const uint32_t told = s->family == AF_INET ? DZ_SOCKET_RECVERR : DZ_SOCKET_RECVERR6;
    if (!other && dz_k_outside_query(k, s, &to, &what))
        return dz_k_sock_end(call, (int64_t)total);
    if (!other && (s->state == DZ_SOCKET_CONNECTED || (s->options & told))) {
        s->error = ECONNREFUSED;
        dz_k_sock_wake(k, s);
    }
    /* No room: the datagram is lost. */
    if (other && other->wmem < other->rcvbuf &&
        dz_k_message_put(k, call->p, other, other, &what) == 0) {
        struct dz_message *msg = dz_k_message(k, other->tail);
        msg->from = from;
        msg->to = to;
        dz_k_wake(k, &other->wait_r);
    }
    return dz_k_sock_end(call, (int64_t)total);
}

static int64_t inet_send(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                         int flags)
{
    if (flags & (MSG_OOB | MSG_FASTOPEN))
        return dz_k_sock_end(call, -EOPNOTSUPP);
    return is_datagram(call->s) ? send_datagram(call, m, total, flags)
                                : send_stream(call, m, total, flags);
}

/* ---- receiving ----------------------------------------------------------------------------------
 */

static void inet_from(const struct dz_k_sock_call *call, const struct dz_message *msg,
                      struct dz_msg_got *got)
{
    const struct dz_socket *s = call->s;
    const uint32_t told = s->family == AF_INET ? DZ_SOCKET_PKTINFO : DZ_SOCKET_PKTINFO6;
    if (!msg)
        return; /* Linux names nobody for a stream */
    dz_k_inet_put(s->family, &msg->from, &got->from);
    got->to = msg->to;
    got->has_to = (s->options & told) != 0;
}

static void inet_taken(struct dz_kernel *k, struct dz_socket *s)
{
    (void)k, (void)s; /* no sender waits */
}

static int64_t inet_dry(const struct dz_k_sock_call *call, uint64_t done, uint64_t target)
{
    struct dz_socket *s = call->s;
    const bool over = (s->shut & DZ_SOCKET_SHUT_RD) || s->state == DZ_SOCKET_CLOSED;
    if (done >= target || (done > 0 && (over || s->error || call->nonblock)))
        return DZ_K_KEEP;
    if (s->inet & DZ_INET_FIN_SEEN)
        return DZ_K_KEEP;
    const int e = dz_k_sock_error(s);
    if (e)
        return dz_k_sock_end(call, e);
    if (s->shut & DZ_SOCKET_SHUT_RD)
        return DZ_K_KEEP;
    return over ? dz_k_sock_end(call, -ENOTCONN) : dz_k_sock_wait(call, &s->wait_r);
}

static int64_t inet_recv(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                         int flags, struct dz_msg_got *got)
{
    const struct dz_socket *s = call->s;
    if (flags & MSG_ERRQUEUE) /* errors are in SO_ERROR */
        return dz_k_sock_end(call, -EAGAIN);
    if (is_datagram(s))
        return dz_k_recv_datagram(call, m, total, flags, got);
    if (s->state == DZ_SOCKET_LISTENING)
        return dz_k_sock_end(call, -ENOTCONN);
    if (flags & MSG_OOB)
        return dz_k_sock_end(call, -EINVAL);
    if (s->channel && s->state == DZ_SOCKET_CONNECTED)
        return dz_k_outside_recv(call, m, total, flags);
    return dz_k_recv_stream(call, m, total, flags, got);
}

#define FAMILY(number)             \
    {                              \
        .family = (number),        \
        .create = inet_create,     \
        .bind = inet_bind,         \
        .listen = inet_listen,     \
        .accepted = inet_accepted, \
        .connect = inet_connect,   \
        .shutdown = inet_shutdown, \
        .name = inet_name,         \
        .send = inet_send,         \
        .recv = inet_recv,         \
        .from = inet_from,         \
        .taken = inet_taken,       \
        .dry = inet_dry,           \
        .ready = inet_ready,       \
        .waiting = inet_waiting,   \
        .unsent = inet_unsent,     \
        .close = inet_close,       \
    }
const struct dz_k_family dz_k_inet = FAMILY(AF_INET), dz_k_inet6 = FAMILY(AF_INET6);
