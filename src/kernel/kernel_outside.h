/* SPDX-License-Identifier: MIT
 *
 * kernel_outside.h - TCP connections whose other end is outside of the machine.
 *
 * Such a connection is a row of the sockets' table with a channel instead of a peer. The bytes of
 * both directions are in a socket of the host, which the embedder has: it sets struct dz_net_ops
 * (struct dz_kernel_opts.net) and reports with the functions below what happens outside. Without
 * dz_net_ops nothing outside is reachable (ENETUNREACH).
 *
 * Three identities. The *channel* is a number that the kernel gives to a connection and never uses
 * for two at a time. The *generation* is a number of the process that keeps the host's socket (the
 * broker): it gives each connection another one, so a channel in an old copy of a machine is not
 * taken for a newer connection. The row of the socket has both (dz_socket.channel, .generation).
 *
 * A connection begins in one of two ways:
 *   out: connect(2) -> ops.open -> dz_kernel_net_opened() or dz_kernel_net_lost();
 *   in:  dz_kernel_net_incoming() puts a connected socket into the queue of a listener. The
 *        embedder reads the listening ports with dz_kernel_net_ports(), and ops.listening says that
 *        they have changed.
 * A channel ends when ops.close was called, or by dz_kernel_net_lost(); no op names it afterwards.
 *
 * Sleep: nothing but the row is saved, because bytes that the guest has not read stay in the host's
 * socket. After a thaw the embedder looks at the rows (dz_kernel_row) and calls for each channel
 * dz_kernel_net_opened(), when it has the host's socket again, or dz_kernel_net_lost(). Until then
 * ops.receive and ops.send return -EAGAIN and ops.ready 0. A machine that is loaded without
 * dz_net_ops loses all its connections: programs get ECONNRESET.
 */
#ifndef DZ_KERNEL_KERNEL_OUTSIDE_H
#define DZ_KERNEL_KERNEL_OUTSIDE_H

#include "kernel/kernel_state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct dz_kernel;

/* What the embedder does for the kernel. No function waits, and none calls the kernel. */
struct dz_net_ops {
    /* Addresses of this machine as the outside sees them, for IPv4 and IPv6; port 0. The address
     * "any" (0.0.0.0, ::): nothing outside is reachable by this version of IP. */
    struct dz_inet own4, own6;
    /* Begin to connect to `to`. 0, or -errno: refused at once. */
    int (*open)(void *arg, uint32_t channel, const struct dz_inet *to);
    /* As recvmsg(2) and sendmsg(2) of the host's socket, which does not block: bytes, 0 at the end
     * of the stream, or -errno. flags: MSG_PEEK, MSG_TRUNC (drop the bytes). */
    ssize_t (*receive)(void *arg, uint32_t channel, const struct iovec *iov, size_t n, int flags);
    ssize_t (*send)(void *arg, uint32_t channel, const struct iovec *iov, size_t n);
    /* poll(2): POLLIN, POLLOUT, POLLRDHUP, POLLHUP, POLLERR, as they are now. */
    short (*ready)(void *arg, uint32_t channel);
    /* The bytes that can be read now. */
    size_t (*waiting)(void *arg, uint32_t channel);
    /* Send the end of the stream. */
    void (*finish)(void *arg, uint32_t channel);
    /* The connection is over for the guest, also one that is not open yet. abort: by a reset. */
    void (*close)(void *arg, uint32_t channel, bool abort);
    /* The listening ports have changed, or a queue that was full has room. NULL: not needed. */
    void (*listening)(void *arg);
    /* A program has sent a query to its name server (below). The answer is for
     * dz_kernel_net_reply(); a query without one is lost, as any datagram may be. NULL: there is no
     * name server. */
    void (*query)(void *arg, uint64_t query, const uint8_t *bytes, size_t size);
    void *arg;
};

/* The host's socket of the channel is here: connect(2) has succeeded, or the machine has woken.
 * DZ_ENOENT: the channel is not there, or has another generation: close the host's socket. */
int dz_kernel_net_opened(struct dz_kernel *k, uint32_t channel, uint64_t generation);
/* The connection is refused (before it was opened) or reset. error: an errno of Linux. */
void dz_kernel_net_lost(struct dz_kernel *k, uint32_t channel, int error);
/* The host's socket may have become readable or writable, or its peer has hung up. The embedder
 * reports a change once (EPOLLET); what is ready is asked of ops.ready. */
void dz_kernel_net_ready(struct dz_kernel *k, uint32_t channel);
/* A connection from `from` to the port and address `to` of the machine: loopback, or ops.own4/6.
 * 0: it is in the queue of the listener, and open. DZ_ENOENT: no program listens there. DZ_EBUSY:
 * the queue is full, and ops.listening will tell when it has room. DZ_ENOMEM: no row is free.
 * DZ_EINVAL: an address is impossible. */
int dz_kernel_net_incoming(struct dz_kernel *k, const struct dz_inet *from,
                           const struct dz_inet *to, uint64_t generation, uint32_t *ret_channel);

/* The name server of the machine: what is sent by UDP to port 53 of a loopback address at which no
 * socket is bound. Resolvers ask 127.0.0.1 where no /etc/resolv.conf names another server. */
enum {
    DZ_NET_QUERY_MAX = 512,  /* bytes of a query; longer ones are lost */
    DZ_NET_REPLY_MAX = 4096, /* bytes of an answer */
};
/* The answer to a query. Ignored if the socket that sent it is closed. */
void dz_kernel_net_reply(struct dz_kernel *k, uint64_t query, const uint8_t *bytes, size_t size);

/* A listening TCP socket. */
struct dz_net_port {
    struct dz_inet at; /* address ("any": all) and port */
    uint32_t uid;      /* of its creator */
    uint32_t v6only;   /* an address of IPv6 that receives no IPv4 */
};
/* The listening ports, at most `max` of them. Returns how many there are. */
size_t dz_kernel_net_ports(struct dz_kernel *k, struct dz_net_port *ret_ports, size_t max);

#endif
