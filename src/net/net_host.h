/* SPDX-License-Identifier: MIT
 *
 * net_host.h - the addresses of this host, kept up to date.
 *
 *     dz_net_host_open(&h, err);
 *     dz_net_host_update(&h, &rules);     before each judgement: one system call if nothing changed
 *     dz_net_host_close(&h);
 */
#ifndef DZ_NET_NET_HOST_H
#define DZ_NET_NET_HOST_H

#include "base/attr.h"
#include "net/net_rules.h"

struct dz_net_host {
    int fd;     /* a netlink socket that gets the changes of addresses */
    bool stale; /* the list must be read again */
};

DZ_NODISCARD int dz_net_host_open(struct dz_net_host *h, struct dz_err *err);
/* Replace the list DZ_NET_HOST_CIDRS of the rules if addresses have changed. An error leaves the
 * list as it was; the caller must refuse connections then. DZ_ELIMIT: the host has more than
 * DZ_NET_RULES_MAX addresses. */
DZ_NODISCARD int dz_net_host_update(struct dz_net_host *h, struct dz_net_rules *rules,
                                    struct dz_err *err);
void dz_net_host_close(struct dz_net_host *h);

#endif
