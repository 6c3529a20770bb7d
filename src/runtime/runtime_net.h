/* SPDX-License-Identifier: MIT
 *
 * runtime_net.h - TCP connections between programs of a cell and the outside.
 *
 * The host has a connected socket and passes a duplicate of it to the cell, which reads and writes
 * it directly (kernel/kernel_outside.h). The host keeps its own descriptor as long as the
 * connection lasts: so the connection survives a suspend, and the next cell of the sandbox gets
 * another duplicate. Each connection has a *generation*, a number that the host never uses twice; a
 * saved machine names its connections by generation, so a copy of the machine finds none of them.
 *
 *   in:   incoming -> DZ_CELL_NET_ANSWER
 *   out:  DZ_CELL_NET_CONNECT (channel) -> connected or refused
 *   end:  DZ_CELL_NET_CLOSED by the guest; lost by the host
 *   wake: resume for each connection that the host kept, then resumed: a connection of the machine
 *         that was not named is over for the guest (ECONNRESET)
 */
#ifndef DZ_RUNTIME_RUNTIME_NET_H
#define DZ_RUNTIME_RUNTIME_NET_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_cell;

enum {
    DZ_CELL_NET_MAX = 1024,   /* connections to the outside of one machine */
    DZ_CELL_PORTS_MAX = 1024, /* listening ports that a cell reports */
    DZ_CELL_QUERY_MAX = 512,  /* bytes of a query of DNS, */
    DZ_CELL_REPLY_MAX = 4096, /* and of its answer */
};

/* An address of IPv6, in network order; IPv4 is mapped (::ffff:0:0/96). */
struct dz_cell_address {
    uint8_t ip[16];
    uint32_t port;
};

/* A port on which a program listens. */
struct dz_cell_port {
    struct dz_cell_address
        at;       /* ::: all addresses, of IPv4, too, unless v6only; 0.0.0.0: of IPv4 */
    uint32_t uid; /* of the socket's creator, in the sandbox */
    uint32_t v6only;
};

/* A connection at the moment of the suspend. What its host finds beyond this is new to the guest.
 */
struct dz_cell_rest {
    uint64_t generation;
    uint32_t waiting; /* bytes that the guest has not read */
    uint32_t events;  /* of POLLOUT, POLLRDHUP, POLLHUP and POLLERR: what was so already */
};

/* Descriptors are duplicated before return. */
struct dz_cell_net_ops {
    /* Deliver a connection from `from` to a port on which a program listens. One
     * DZ_CELL_NET_ANSWER follows: 0, or DZ_ENOENT (no program listens), DZ_EBUSY (the queue of the
     * listener is full), DZ_ELIMIT (no room for another connection). */
    int (*incoming)(struct dz_cell *c, uint64_t generation, int fd, uint32_t port,
                    const struct dz_cell_address *from, struct dz_err *err);
    /* Answer a DZ_CELL_NET_CONNECT. The generation names the connection from then on. */
    int (*connected)(struct dz_cell *c, uint32_t channel, uint64_t generation, int fd,
                     struct dz_err *err);
    /* error: an errno of Linux */
    int (*refused)(struct dz_cell *c, uint32_t channel, int error, struct dz_err *err);
    /* The connection is over: the guest gets this errno. */
    int (*lost)(struct dz_cell *c, uint64_t generation, int error, struct dz_err *err);
    /* After begin() or go(): pass a kept connection again; then, once, end the list. */
    int (*resume)(struct dz_cell *c, uint64_t generation, int fd, struct dz_err *err);
    int (*resumed)(struct dz_cell *c, struct dz_err *err);
    /* The answer to a DZ_CELL_NET_QUERY. There may be none: programs ask again. */
    int (*reply)(struct dz_cell *c, uint64_t query, const void *bytes, size_t size,
                 struct dz_err *err);
};

#endif
