/* SPDX-License-Identifier: MIT
 *
 * broker.h - connections and names of the outside, got from a jailed process, the *broker*.
 *
 *     dz_broker_new(&opts, &b, err);
 *     dz_broker_connect(b, &addr, 443, on_connected, arg, &id);
 *     dz_broker_resolve(b, "example.com", false, on_resolved, arg, &id);
 *     dz_broker_cancel(b, id);
 *     dz_broker_free(b);
 *
 * The broker opens TCP connections to addresses, and sends the connected socket to the daemon; it
 * asks name servers for the addresses of a name. It decides nothing: the caller applies its rules
 * to the address before it asks for a connection. It is a process of its own because it parses what
 * name servers send. It is restarted when it dies; requests that were pending end with an error.
 *
 * The daemon checks what it gets: a socket that is not a TCP socket connected to the requested
 * address, or a record with an impossible field, ends the broker.
 *
 * Only the loop's thread may call these functions. No call blocks. `done` is called later, exactly
 * once, unless the request is cancelled.
 */
#ifndef DZ_BROKER_BROKER_H
#define DZ_BROKER_BROKER_H

#include "base/attr.h"
#include "base/err.h"
#include "loop/loop.h"
#include "net/net_rules.h"
#include "os/os_jail.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    DZ_BROKER_PENDING_MAX = 1024, /* requests at a time */
    DZ_BROKER_ADDRS_MAX = 16,     /* addresses of a name; further ones are dropped */
    /* Linux gives up after 6 retries of the first packet, which takes 127 s. */
    DZ_BROKER_TIMEOUT_MAX_MS = 127000,
};

struct dz_broker;

struct dz_broker_opts {
    struct dz_loop *loop;
    struct dz_os_users users; /* count 0: the broker runs as the daemon's user */
    uint32_t user;            /* of that range; no other process has it */
    uint32_t fences;          /* that its jail must have, but for `net`: bits of enum dz_os_fence */
    const char *resolvers; /* "ADDRESS[:PORT],..."; NULL or "": those of /etc/resolv.conf when the
                              broker starts */
    int64_t connect_timeout_ms;
};

/* Start the broker. What goes wrong in the process itself is logged, and it is started again. */
DZ_NODISCARD int dz_broker_new(const struct dz_broker_opts *opts, struct dz_broker **ret_broker,
                               struct dz_err *err);
/* Ends the process. The pending requests are dropped, and their `done` is not called. Not to be
 * called by a `done`. */
void dz_broker_free(struct dz_broker *b);

/* fd: a connected, non-blocking socket, which is the callee's; or -1, and error is an errno:
 * ECONNREFUSED (also when the broker has died), ETIMEDOUT, ENETUNREACH, EHOSTUNREACH, ... */
typedef void dz_broker_connected_fn(void *arg, int fd, int error);
/* DZ_EBUSY: DZ_BROKER_PENDING_MAX requests are pending, or the broker does not run now. */
DZ_NODISCARD int dz_broker_connect(struct dz_broker *b, const struct dz_net_addr *addr,
                                   uint16_t port, dz_broker_connected_fn *done, void *arg,
                                   uint64_t *ret_id);

enum dz_broker_name {
    DZ_BROKER_FOUND,   /* also without addresses: the name has none of this version of IP */
    DZ_BROKER_NO_NAME, /* the name does not exist */
    DZ_BROKER_FAILED,  /* no name server has answered, or the broker has died */
};
struct dz_broker_addrs {
    enum dz_broker_name status;
    uint32_t ttl_s; /* the least of all records */
    size_t count;
    struct dz_net_addr addrs[DZ_BROKER_ADDRS_MAX];
};
typedef void dz_broker_resolved_fn(void *arg, const struct dz_broker_addrs *addrs);
/* The addresses of a name that dz_net_name_parse() has returned. DZ_EBUSY as above. */
DZ_NODISCARD int dz_broker_resolve(struct dz_broker *b, const char *name, bool ipv6,
                                   dz_broker_resolved_fn *done, void *arg, uint64_t *ret_id);

/* Drop a pending request. Unknown ids are ignored. */
void dz_broker_cancel(struct dz_broker *b, uint64_t id);

pid_t dz_broker_pid(const struct dz_broker *b); /* 0: it does not run now */
uint64_t dz_broker_restarts(const struct dz_broker *b);

#endif
