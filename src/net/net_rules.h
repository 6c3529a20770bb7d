/* SPDX-License-Identifier: MIT
 *
 * net_rules.h - egress rules: may a sandbox connect to this address?
 *
 * Rules are judged on the address that a connection will have, never on a name that is resolved
 * again afterwards. A rule on a name counts for an address only while the broker's resolver has
 * given that address for the name: the caller passes these names.
 *
 * Rules come in lists of text. An order, first match wins:
 *   1. An address that nobody may reach by default: the host's own, loopback, link-local, metadata,
 *      multicast, reserved, 100.64.0.0/10 (other sandboxes). Refused in every mode, unless a
 *      CIDR of the operator holds it; then the rules below decide.
 *   2. A denied CIDR, or a denied name: refused.
 *   3. Mode allow_all: allowed.
 *   4. Mode deny_all: allowed if an allowed CIDR holds the address, or an allowed name fits, and
 *      the port is an allowed TCP port, if there are any.
 *
 * An address of IPv4 in one of IPv6 (mapped, compatible, 6to4, NAT64) is judged as the address of
 * IPv4, because that is where packets may go.
 */
#ifndef DZ_NET_NET_RULES_H
#define DZ_NET_NET_RULES_H

#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_NET_RULES_MAX = 256, /* entries of a list */
    DZ_NET_NAME_MAX = 253,  /* bytes of a domain name */
    DZ_NET_CIDR_TEXT = 64,  /* bytes of the text of a CIDR, with its NUL */
    DZ_NET_BITS_OF_V4 = 96, /* bits of ::ffff:0:0/96 */
};

struct dz_net_addr { /* in the order of the net; IPv4 as ::ffff:a.b.c.d */
    uint8_t bytes[16];
};
struct dz_net_cidr {
    struct dz_net_addr addr;
    uint32_t bits; /* 0 to 128 */
};
struct dz_net_domain {
    bool wild;                      /* "*.": names below, not the name itself */
    char name[DZ_NET_NAME_MAX + 1]; /* in lower case; "": with wild, every name */
};

enum dz_net_mode {
    DZ_NET_DENY_ALL,
    DZ_NET_ALLOW_ALL,
};
enum dz_net_list {
    DZ_NET_ALLOW_CIDRS,
    DZ_NET_DENY_CIDRS,
    DZ_NET_OPERATOR_CIDRS, /* of the daemon's settings, never of a sandbox */
    DZ_NET_HOST_CIDRS,     /* the host's own addresses */
    DZ_NET_CIDR_LISTS,
    DZ_NET_ALLOW_DOMAINS = DZ_NET_CIDR_LISTS,
    DZ_NET_DENY_DOMAINS,
    DZ_NET_ALLOW_PORTS,
};
struct dz_net_rules {
    enum dz_net_mode mode;
    bool mode_given;
    bool
        reserved_elsewhere; /* other rules refuse reserved addresses: skip the order's first step */
    DZ_VEC(, struct dz_net_cidr) cidrs[DZ_NET_CIDR_LISTS];
    DZ_VEC(, struct dz_net_domain) allow_domains, deny_domains;
    DZ_VEC(, uint16_t) allow_ports;
};

/* normal: the mode if none is given. */
void dz_net_rules_init(struct dz_net_rules *r, enum dz_net_mode normal);
void dz_net_rules_release(struct dz_net_rules *r);
/* "allow_all", "deny_all". DZ_EINVAL. */
int dz_net_rules_set_mode(struct dz_net_rules *r, const char *mode, struct dz_err *err);
/* Add an entry to a list: a CIDR or an address, a name or "*.name" or "*", a port. DZ_EINVAL,
 * DZ_ELIMIT, DZ_ENOMEM. */
int dz_net_rules_add(struct dz_net_rules *r, enum dz_net_list list, const char *text,
                     struct dz_err *err);
/* Call this after the last entry. An allowed CIDR or name implies deny_all, and is refused together
 * with allow_all; so are allowed ports, which also need an allowed CIDR or name. */
int dz_net_rules_complete(struct dz_net_rules *r, struct dz_err *err);

enum dz_net_verdict {
    DZ_NET_ALLOWED,
    DZ_NET_RESERVED,  /* refused in every mode */
    DZ_NET_FORBIDDEN, /* by a denied CIDR or name */
    DZ_NET_UNLISTED,  /* deny_all, and nothing allows it */
};
struct dz_net_to {
    struct dz_net_addr addr;
    uint16_t port;
    bool udp;
    const char *const *names; /* that the resolver has given this address for */
    size_t name_count;
};
enum dz_net_verdict dz_net_rules_judge(const struct dz_net_rules *r, const struct dz_net_to *to);

/* May the sandbox ask for the addresses of this name? In mode deny_all only if an allowed name
 * fits, because a query itself carries bytes to the name's owner. */
enum dz_net_verdict dz_net_rules_judge_name(const struct dz_net_rules *r, const char *name);

/* "1.2.3.4", "::1". DZ_EINVAL. */
int dz_net_addr_parse(const char *text, struct dz_net_addr *ret_addr);
enum {
    DZ_NET_ADDR_TEXT = 46,
};
const char *dz_net_addr_print(const struct dz_net_addr *a, char ret_text[static DZ_NET_ADDR_TEXT]);
bool dz_net_addr_is_v4(const struct dz_net_addr *a);
/* The name in lower case, without the dot at its end. DZ_EINVAL: no host can have such a name. */
int dz_net_name_parse(const char *text, char ret_name[static DZ_NET_NAME_MAX + 1]);

#endif
