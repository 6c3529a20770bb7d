/* SPDX-License-Identifier: MIT
 *
 * sandbox_net.h - connections between programs of a sandbox and the outside.
 *
 * The daemon gives a connected socket, and keeps a descriptor of it until the connection is over.
 * While the sandbox is suspended with its memory, new bytes or a hang-up on a kept connection wake
 * it, unless auto_resume is off or the sandbox is archived. A connection ends (the other side sees
 * a reset) when the memory of the sandbox is lost or dropped, and when the sandbox is frozen,
 * archived or deleted.
 */
#ifndef DZ_SANDBOX_SANDBOX_NET_H
#define DZ_SANDBOX_SANDBOX_NET_H

#include "runtime/runtime_net.h"
#include "sandbox/sandbox.h"

/* --- in: a connection to a port of the guest ----------------------------------------------- */

struct dz_net_delivery; /* in progress */
struct dz_net_deliver {
    uint32_t port;
    struct dz_cell_address from; /* what getpeername(2) returns in the guest */
    /* A connected stream socket that does not block: TCP, or one end of a socketpair. Taken over
     * unless dz_net_deliver() fails; closed if the delivery fails. */
    int fd;
    /* How long to wait until a program listens on the port and its queue has room, once the sandbox
     * is awake. 0: do not wait. */
    int64_t wait_ms;
    /* The daemon itself connects, to the machine as it runs now: this wakes no sandbox, does not
     * count as a connection, and ends when the machine is suspended. done may be called before
     * dz_net_deliver() returns 0. */
    bool here;
    /* Called once, from the loop, unless the delivery was canceled. why NULL: a listener has the
     * connection. Reasons: "not_listening", "backlog", "connections"; or as of a wake. */
    void (*done)(void *arg, const struct dz_why *why);
    void *arg;
};
/* Wake the sandbox if it sleeps, and deliver. Negative: refused, and done is not called. */
DZ_NODISCARD int dz_net_deliver(struct dz_sandboxes *all, const struct dz_instance *row,
                                const struct dz_net_deliver *request,
                                struct dz_net_delivery **ret_delivery, struct dz_why *why);
/* NULL is fine. Not after done was called. */
void dz_net_delivery_cancel(struct dz_net_delivery *d);

/* The ports on which programs listen, valid until the loop's next turn; none while it sleeps. The
 * host's function net_ports (sandbox.h) is called when they have changed. */
const struct dz_cell_port *dz_net_ports(const struct dz_sandbox *s, size_t *ret_count);

/* --- out: a program connects ----------------------------------------------------------------- */

/* Answers to the host's function net_connect (sandbox.h). fd: a connected TCP socket that does not
 * block; taken over in any case. A ticket that is over is ignored. */
void dz_net_connected(struct dz_sandboxes *all, uint64_t ticket, int fd);
void dz_net_refused(struct dz_sandboxes *all, uint64_t ticket, int error); /* an errno of Linux */

/* --- names ----------------------------------------------------------------------------------- */

/* A query that a program has sent to its name server (127.0.0.1, port 53), as a packet of DNS. */
struct dz_net_query {
    uint64_t cell, number; /* to be kept for the answer */
    const uint8_t *bytes;  /* borrowed, at most DZ_CELL_QUERY_MAX; not used by dz_net_reply() */
    size_t size;
};
/* Answer a query of the host's function net_query (sandbox.h), with at most DZ_CELL_REPLY_MAX
 * bytes. The answer is dropped if the cell is not the one that asked. */
void dz_net_reply(struct dz_sandboxes *all, const char *id, const struct dz_net_query *query,
                  const void *bytes, size_t size);

/* --- bytes ------------------------------------------------------------------------------------ */

/* The bytes of one sandbox's connections; with s NULL, of all sandboxes since the daemon began. */
void dz_net_traffic(const struct dz_sandboxes *all, const struct dz_sandbox *s,
                    struct dz_net_traffic *ret_traffic);

/* --- all connections of a sandbox ------------------------------------------------------------ */

struct dz_net_view {
    uint64_t ticket;
    bool out, open;              /* open false: not connected yet */
    struct dz_cell_address peer; /* out: what the program connects to */
};
/* Call fn for each connection. True from fn: end it, both sides see a reset. */
void dz_net_each(struct dz_sandbox *s, bool (*fn)(void *arg, const struct dz_net_view *view),
                 void *arg);

#endif
