/* SPDX-License-Identifier: MIT
 *
 * net_host.c - see net_host.h.
 */
#include "net/net_host.h"

#include "base/fd.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

enum {
    V4_AT = 12, /* of the address of IPv4 in one of IPv6 */
    BITS = 128,
};

int dz_net_host_open(struct dz_net_host *h, struct dz_err *err)
{
    const struct sockaddr_nl groups = {.nl_family = AF_NETLINK,
                                       .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    *h = (struct dz_net_host){.stale = true};
    h->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (h->fd < 0)
        return dz_fail_sys(err, errno, "watch the addresses of this host");
    if (bind(h->fd, (const struct sockaddr *)&groups, sizeof groups) < 0) {
        const int e = errno;
        dz_fd_close(&h->fd);
        return dz_fail_sys(err, e, "watch the addresses of this host");
    }
    return 0;
}

/* Has the kernel reported a change of addresses? The messages are not parsed, because the caller
 * then reads the whole list again. Lost messages (ENOBUFS) count as a change. */
static bool has_changed(const struct dz_net_host *h)
{
    char message[4096];
    bool changed = false;
    while (recv(h->fd, message, sizeof message, MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
        changed = true;
    return changed;
}

static int add(struct dz_net_rules *rules, const struct sockaddr *sa)
{
    struct dz_net_cidr c = {.bits = BITS};
    if (sa && sa->sa_family == AF_INET) {
        c.addr.bytes[V4_AT - 2] = c.addr.bytes[V4_AT - 1] = 0xff;
        memcpy(c.addr.bytes + V4_AT, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
    } else if (sa && sa->sa_family == AF_INET6) {
        memcpy(c.addr.bytes, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr,
               sizeof c.addr.bytes);
    } else {
        return 0;
    }
    return dz_vec_push(&rules->cidrs[DZ_NET_HOST_CIDRS], c);
}

int dz_net_host_update(struct dz_net_host *h, struct dz_net_rules *rules, struct dz_err *err)
{
    struct ifaddrs *all;
    int rc = 0;
    if (has_changed(h))
        h->stale = true;
    if (!h->stale)
        return 0;
    if (getifaddrs(&all) < 0)
        return dz_fail_sys(err, errno, "read the addresses of this host");
    dz_vec_reset(&rules->cidrs[DZ_NET_HOST_CIDRS]);
    for (const struct ifaddrs *i = all; rc == 0 && i; i = i->ifa_next) {
        rc = add(rules, i->ifa_addr);
        if (rc == 0 && (i->ifa_flags & IFF_BROADCAST))
            rc = add(rules, i->ifa_broadaddr);
    }
    freeifaddrs(all);
    h->stale = rc < 0;
    return rc < 0 ? dz_fail(err, rc, "this host has more than %d addresses", DZ_NET_RULES_MAX) : 0;
}

void dz_net_host_close(struct dz_net_host *h)
{
    dz_fd_close(&h->fd);
}
