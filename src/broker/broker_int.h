/* SPDX-License-Identifier: MIT
 *
 * broker_int.h - the records between the daemon and the broker.
 *
 * Each packet of a SOCK_SEQPACKET socket is one record of fixed size. A packet of another size, or
 * with an impossible field, ends the broker on either side. Only an answer CONNECTED has a
 * descriptor. The daemon chooses the ids, and uses none twice.
 *
 *     daemon -> broker   CONNECT  addr, port          broker -> daemon   READY      once, jailed
 *                        RESOLVE  name, ipv6                             FAILED     text: no jail
 *                        CANCEL   id                                     CONNECTED  descriptor
 *                                                                        REFUSED    error
 *                                                                        RESOLVED   error, addrs
 */
#ifndef DZ_BROKER_BROKER_INT_H
#define DZ_BROKER_BROKER_INT_H

#include "broker/broker.h"

enum dz_broker_request_type {
    DZ_BROKER_CONNECT = 1,
    DZ_BROKER_RESOLVE,
    DZ_BROKER_CANCEL,
};
struct dz_broker_request {
    uint32_t type;
    uint32_t port;
    uint64_t id;
    struct dz_net_addr addr;
    uint32_t ipv6; /* 0 or 1 */
    char name[DZ_NET_NAME_MAX + 1];
    uint8_t zero[6];
};
_Static_assert(sizeof(struct dz_broker_request) == 296, "without gaps");

enum dz_broker_answer_type {
    DZ_BROKER_READY = 1,
    DZ_BROKER_NO_JAIL,
    DZ_BROKER_CONNECTED,
    DZ_BROKER_REFUSED,
    DZ_BROKER_RESOLVED,
};
struct dz_broker_answer {
    uint32_t type;
    uint32_t error; /* REFUSED: an errno; RESOLVED: enum dz_broker_name */
    uint64_t id;
    uint32_t ttl_s;
    uint32_t count;
    union {
        struct dz_net_addr addrs[DZ_BROKER_ADDRS_MAX];
        char text[DZ_BROKER_ADDRS_MAX * sizeof(struct dz_net_addr)]; /* NO_JAIL: with its NUL */
    };
};
_Static_assert(sizeof(struct dz_broker_answer) == 280, "without gaps");

enum {
    DZ_BROKER_ERROR_MAX = 133, /* the largest errno of Linux */
};

/* Is the record possible? */
bool dz_broker_request_sound(const struct dz_broker_request *r, size_t size);
bool dz_broker_answer_sound(const struct dz_broker_answer *a, size_t size, size_t fds);

/* The arguments of the broker's process. */
#define DZ_BROKER_PROGRAM "/proc/self/exe"
#define DZ_BROKER_WORD    "doze-broker"
enum {
    DZ_BROKER_ARG_PROGRAM,
    DZ_BROKER_ARG_WORD,
    DZ_BROKER_ARG_FENCES,
    DZ_BROKER_ARG_USER, /* and the first id and the number of ids of the range */
    DZ_BROKER_ARG_FIRST,
    DZ_BROKER_ARG_COUNT,
    DZ_BROKER_ARG_TIMEOUT,
    DZ_BROKER_ARG_RESOLVERS,
    DZ_BROKER_ARGS,
    DZ_BROKER_FD = 3, /* its socket */
};

/* Be the broker. */
DZ_NORETURN void dz_broker_begin(char *const *argv);

#endif
