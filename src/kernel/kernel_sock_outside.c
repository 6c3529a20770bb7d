/* SPDX-License-Identifier: MIT
 *
 * kernel_sock_outside.c - TCP connections to the outside (kernel_outside.h).
 *
 * A row with a channel is CONNECTING or CONNECTED and has no peer; when it ends, the channel is
 * given back to the embedder and the row is like any other socket that has ended. Its flag
 * DZ_INET_OUTSIDE stays with its addresses, because only such a row may have an address that is not
 * loopback.
 *
 * The bytes of both directions are in the host's socket, so the state of a stream is found where
 * the stream is read: an end of file is FIN_SEEN when the guest reads it, and an error is seen by
 * the call that meets it, or when the embedder reports the socket as ready.
 */
#include "kernel/kernel_outside.h"
#include "kernel/kernel_sock.h"

#include <netinet/in.h>

enum {
    PIECES = 16, /* pieces of memory that one call of an op takes */
};

static struct dz_socket *by_channel(struct dz_kernel *k, uint32_t channel)
{
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    if (channel && s->channel == channel)
        return s;
    return NULL;
}

bool dz_k_outside_reaches(const struct dz_kernel *k, const struct dz_inet *to)
{
    const bool v4 = dz_k_is_v4(to);
    const bool group = v4 ? (uint32_t)to->lo >> 28 == 0xe : to->hi >> 56 == 0xff;
    return k->net && !group && !dz_k_inet_is_any(v4 ? &k->net->own4 : &k->net->own6);
}

/* ---- beginning ---------------------------------------------------------------------------------
 */

static void take_channel(struct dz_kernel *k, struct dz_socket *s)
{
    do
        k->next_channel = k->next_channel == UINT32_MAX ? 1 : k->next_channel + 1;
    while (by_channel(k, k->next_channel));
    s->channel = k->next_channel;
    s->generation = 0;
    s->inet |= DZ_INET_OUTSIDE;
}

int dz_k_outside_open(struct dz_kernel *k, struct dz_socket *s)
{
    take_channel(k, s);
    const int e = k->net->open(k->net->arg, s->channel, &s->remote);
    if (e)
        s->channel = 0;
    return e;
}

int dz_kernel_net_opened(struct dz_kernel *k, uint32_t channel, uint64_t generation)
{
    struct dz_socket *s = by_channel(k, channel);
    if (!s || (s->state == DZ_SOCKET_CONNECTED && s->generation != generation))
        return DZ_ENOENT;
    s->generation = generation;
    s->state = DZ_SOCKET_CONNECTED;
    dz_k_sock_wake(k, s);
    return 0;
}

int dz_kernel_net_incoming(struct dz_kernel *k, const struct dz_inet *from,
                           const struct dz_inet *to, uint64_t generation, uint32_t *ret_channel)
{
    if (!k->net || from->port == 0 || from->port > UINT16_MAX || to->port == 0 ||
        to->port > UINT16_MAX || dz_k_inet_is_any(from) || dz_k_is_v4(from) != dz_k_is_v4(to))
        return DZ_EINVAL;
    if (!dz_k_inet_is_local(to) &&
        !dz_k_inet_same(to, dz_k_is_v4(to) ? &k->net->own4 : &k->net->own6))
        return DZ_EINVAL;
    struct dz_socket *listener = dz_k_inet_find(k, SOCK_STREAM, from, to);
    if (!listener)
        return DZ_ENOENT;
    if (dz_k_sock_backlogged(listener)) {
        k->net_waits = true;
        return DZ_EBUSY;
    }
    struct dz_socket *s = dz_k_inet_accepted(k, listener, from, to);
    if (!s)
        return DZ_ENOMEM;
    take_channel(k, s);
    s->generation = generation;
    s->state = DZ_SOCKET_CONNECTED;
    *ret_channel = s->channel;
    return 0;
}

/* ---- ending ------------------------------------------------------------------------------------
 */

void dz_k_outside_close(struct dz_kernel *k, struct dz_socket *s, bool abort)
{
    const uint32_t channel = s->channel;
    s->channel = 0;
    s->generation = 0;
    if (channel && k->net)
        k->net->close(k->net->arg, channel, abort);
}

void dz_k_outside_finish(struct dz_kernel *k, const struct dz_socket *s)
{
    k->net->finish(k->net->arg, s->channel);
}

void dz_kernel_net_lost(struct dz_kernel *k, uint32_t channel, int error)
{
    struct dz_socket *s = by_channel(k, channel);
    if (!s)
        return;
    s->channel = 0;
    s->generation = 0;
    dz_k_inet_lost(k, s, error);
}

/* The host's socket has failed. */
static void fail(struct dz_kernel *k, struct dz_socket *s, int error)
{
    dz_k_outside_close(k, s, true);
    dz_k_inet_lost(k, s, error == EPIPE ? ECONNRESET : error);
}

void dz_k_outside_revived(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    {
        if (s->channel && !k->net)
            dz_kernel_net_lost(k, s->channel, ECONNRESET);
        k->next_channel = s->channel > k->next_channel ? s->channel : k->next_channel;
    }
}

/* ---- readiness ---------------------------------------------------------------------------------
 */

void dz_kernel_net_ready(struct dz_kernel *k, uint32_t channel)
{
    struct dz_socket *s = by_channel(k, channel);
    uint8_t byte;
    const struct iovec one = {&byte, 1};
    if (!s || s->state != DZ_SOCKET_CONNECTED)
        return;
    if (k->net->ready(k->net->arg, channel) & POLLERR) { /* SO_ERROR must report the reset */
        const ssize_t n = k->net->receive(k->net->arg, channel, &one, 1, MSG_PEEK);
        if (n < 0 && n != -EAGAIN)
            fail(k, s, (int)-n);
    }
    dz_k_sock_wake(k, s);
}

short dz_k_outside_ready(const struct dz_kernel *k, const struct dz_socket *s)
{
    const int asked = POLLIN | POLLOUT | POLLRDHUP | POLLHUP | POLLERR;
    int r = k->net->ready(k->net->arg, s->channel) & asked;
    if (r & POLLIN)
        r |= POLLRDNORM;
    if (s->shut & DZ_SOCKET_SHUT_WR)
        r |= POLLOUT;
    if (r & POLLOUT)
        r |= POLLWRNORM;
    return (short)r;
}

int64_t dz_k_outside_waiting(const struct dz_kernel *k, const struct dz_socket *s)
{
    const size_t n = k->net->waiting(k->net->arg, s->channel);
    return n < INT32_MAX ? (int64_t)n : INT32_MAX;
}

/* ---- bytes -------------------------------------------------------------------------------------
 */

/* The pieces from byte `skip` on. Returns how many of them fit; *ret_size is their size. */
static size_t rest_of(const struct dz_msg *m, uint64_t skip, struct iovec to[static PIECES],
                      size_t *ret_size)
{
    size_t n = 0, size = 0;
    for (size_t i = 0; i < m->iov_count && n < PIECES; i++) {
        struct iovec v = m->iov[i];
        const size_t cut = skip < v.iov_len ? (size_t)skip : v.iov_len;
        skip -= cut;
        v.iov_base = (uint8_t *)v.iov_base + cut;
        v.iov_len -= cut;
        if (v.iov_len == 0)
            continue;
        size += v.iov_len;
        to[n++] = v;
    }
    *ret_size = size;
    return n;
}

int64_t dz_k_outside_recv(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                          int flags)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s;
    const bool peek = flags & MSG_PEEK;
    const uint64_t target = (flags & MSG_WAITALL) && total > 0 ? total : 1;
    uint64_t done = call->c->done;
    struct iovec pieces[PIECES];
    while (done < total && s->channel) {
        size_t size;
        const size_t n = rest_of(m, peek ? 0 : done, pieces, &size);
        const ssize_t got =
            k->net->receive(k->net->arg, s->channel, pieces, n, flags & (MSG_PEEK | MSG_TRUNC));
        if (got == 0) {
            dz_k_inet_finished(k, s);
            break;
        }
        if (got < 0 && got != -EAGAIN) {
            fail(k, s, (int)-got);
            break;
        }
        if (got > 0 && peek)
            done = (uint64_t)got;
        else if (got > 0)
            call->c->done = done += (uint64_t)got;
        if (got > 0 && !peek && (size_t)got == size)
            continue;
        if (done >= target ||
            (peek && done > 0)) /* a peek does not wait for more, as on loopback */
            break;
        const int64_t r = dz_k_family(s->family)->dry(call, done, target);
        if (r == DZ_K_KEEP)
            break;
        return r;
    }
    if (done == 0 && total > 0 && s->error)
        return dz_k_sock_end(call, dz_k_sock_error(s));
    return dz_k_end(k, call->p, (int64_t)done);
}

int64_t dz_k_outside_send(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                          int flags)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s;
    uint64_t *done = &call->c->done;
    struct iovec pieces[PIECES];
    size_t size;
    while (*done < total) {
        if (*done == 0) { /* nothing leaves before what it may tell of is on the disk */
            struct dz_err err = {0};
            const int rc = dz_kernel_commit(k, &err);
            if (rc < 0)
                return dz_k_sock_end(call, rc == DZ_ENOSPC ? -ENOBUFS : -EIO);
        }
        const size_t n = rest_of(m, *done, pieces, &size);
        const ssize_t sent = k->net->send(k->net->arg, s->channel, pieces, n);
        if (sent == -EAGAIN || sent == 0)
            return dz_k_sock_wait(call, &s->wait_w);
        if (sent < 0) {
            const bool gone = sent == -EPIPE;
            fail(k, s, (int)-sent);
            if (gone && *done == 0) {
                s->error = 0;
                return dz_k_broken_pipe(call, flags);
            }
            return dz_k_sock_end(call, *done ? 0 : dz_k_sock_error(s));
        }
        *done += (uint64_t)sent;
    }
    return dz_k_sock_end(call, 0);
}

/* ---- names -------------------------------------------------------------------------------------
 */

enum {
    NAME_PORT = 53,
};

/* A query is named by its socket, by a part of the socket's number, because the row may become
 * another socket's, and by the address 127.x.y.z that the answer comes from. */
enum {
    NUMBER_BITS = 24,
    ADDRESS_BITS = 24,
};
static uint64_t query_of(const struct dz_socket *s, const struct dz_inet *server)
{
    return ((uint64_t)s->index << NUMBER_BITS | (s->number & ((1u << NUMBER_BITS) - 1)))
               << ADDRESS_BITS |
           (server->lo & ((1u << ADDRESS_BITS) - 1));
}

bool dz_k_outside_query(struct dz_kernel *k, const struct dz_socket *s, const struct dz_inet *to,
                        const struct dz_k_parcel *what)
{
    uint8_t bytes[DZ_NET_QUERY_MAX];
    if (!k->net || !k->net->query || to->port != NAME_PORT || !dz_k_is_v4(to))
        return false;
    if (what->size > sizeof bytes || dz_kernel_commit(k, NULL) < 0) /* before it leaves */
        return true;
    dz_k_pieces_get(what->iov, what->skip, bytes, what->size);
    k->net->query(k->net->arg, query_of(s, to), bytes, what->size);
    return true;
}

void dz_kernel_net_reply(struct dz_kernel *k, uint64_t query, const uint8_t *bytes, size_t size)
{
    const struct dz_inet from = {.lo = UINT64_C(0xffff) << 32 |
                                       (uint32_t)INADDR_LOOPBACK >> 24 << 24 |
                                       (query & ((1u << ADDRESS_BITS) - 1)),
                                 .port = NAME_PORT};
    struct dz_socket *s = NULL;
    DZ_K_FOREACH(dz_socket, o, k, DZ_KERNEL_TABLE_SOCKET)
    if (dz_k_is_inet(o) && o->type == SOCK_DGRAM && dz_k_inet_has_port(o) &&
        query_of(o, &from) == query)
        s = o;
    const bool other = s && s->state == DZ_SOCKET_CONNECTED &&
                       (!dz_k_inet_same(&s->remote, &from) || s->remote.port != NAME_PORT);
    if (!s || other || size > DZ_NET_REPLY_MAX || s->wmem >= s->rcvbuf)
        return;
    union { /* dz_k_message_put() does not write to it */
        const uint8_t *in;
        void *out;
    } body = {.in = bytes};
    const struct iovec iov = {body.out, size};
    const struct dz_k_parcel what = {&iov, 1, 0, size, NULL, 0, dz_k_nobody};
    if (dz_k_message_put(k, NULL, s, s, &what) != 0)
        return;
    struct dz_message *m = dz_k_message(k, s->tail);
    m->from = from;
    m->to = s->local;
    dz_k_wake(k, &s->wait_r);
}

/* ---- listening ports ---------------------------------------------------------------------------
 */

void dz_k_outside_listening(struct dz_kernel *k)
{
    k->net_waits = false;
    if (k->net && k->net->listening)
        k->net->listening(k->net->arg);
}

size_t dz_kernel_net_ports(struct dz_kernel *k, struct dz_net_port *ret_ports, size_t max)
{
    size_t n = 0;
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    {
        if (!dz_k_is_inet(s) || s->state != DZ_SOCKET_LISTENING)
            continue;
        if (n < max)
            ret_ports[n] = (struct dz_net_port){
                .at = s->local, .uid = s->uid, .v6only = s->options & DZ_SOCKET_V6ONLY ? 1 : 0};
        n++;
    }
    return n;
}
