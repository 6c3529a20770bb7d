/* SPDX-License-Identifier: MIT
 *
 * control_egress.h - connections of sandboxes to other machines: settings and counts.
 */
#ifndef DZ_CONTROL_CONTROL_EGRESS_H
#define DZ_CONTROL_CONTROL_EGRESS_H

#include "control/control_why.h"

#include <stdbool.h>
#include <stdint.h>

/* The server's rules. Lists are separated by commas; NULL and "" are empty lists. */
struct dz_control_egress_opts {
    const char *mode;        /* "deny_all", "allow_all": of a sandbox without rules of its own;
                                NULL, "off": no sandbox connects to other machines */
    const char *allow_cidrs; /* with the next two: at most these, whatever a sandbox's rules are */
    const char *allow_domains;
    const char *allow_ports;
    const char *deny_cidrs, *deny_domains;
    const char *local_cidrs; /* reserved addresses that the rules of sandboxes may allow */
    const char *resolvers;   /* as in struct dz_broker_opts */
    int64_t connect_timeout_ms;
    uint64_t connections; /* of one sandbox at a time */
};

struct dz_control_egress_counts {
    uint64_t open, opened, failed; /* connections: now, all, that could not be made */
    uint64_t shut;                 /* by a change of rules */
    uint64_t refused[3];           /* by reason, as dz_control_egress_reasons */
    uint64_t received, sent;       /* bytes, as struct dz_net_traffic */
    uint64_t names, names_refused; /* queries */
    uint64_t restarts;             /* of the broker */
};
extern const char *const dz_control_egress_reasons[3];

/* May sandboxes of this server connect to other machines at all? */
bool dz_control_egress_on(const struct dz_control *e);
void dz_control_egress_counts(const struct dz_control *e,
                              struct dz_control_egress_counts *ret_counts);

#endif
