/* SPDX-License-Identifier: MIT
 *
 * native_netif.c - what programs may learn about the interfaces of a network that has only lo: by
 * getifaddrs, ioctl, netlink. It prints a line for each case; t_native_net compares the lines of a
 * sandbox with those of a new network namespace of this machine. */
#include "native_net.h"

#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>

/* ---- interfaces
 * ------------------------------------------------------------------------------------ */

/* Go to a new network on this machine, where lo is to be made ready; in a sandbox lo is. */
static void enter(void)
{
    struct ifreq r = {.ifr_name = "lo"};
    (void)!unshare(CLONE_NEWNET);
    const int fd = udp();
    (void)!ioctl(fd, SIOCGIFFLAGS, &r);
    r.ifr_flags |= IFF_UP;
    (void)!ioctl(fd, SIOCSIFFLAGS, &r);
    close(fd);
}

static void tell_ioctls(const char *name)
{
    static const struct {
        const char *what;
        unsigned long request;
    } asks[] = {
        {"flags", SIOCGIFFLAGS},       {"address", SIOCGIFADDR},    {"netmask", SIOCGIFNETMASK},
        {"broadcast", SIOCGIFBRDADDR}, {"peer", SIOCGIFDSTADDR},    {"mtu", SIOCGIFMTU},
        {"metric", SIOCGIFMETRIC},     {"hardware", SIOCGIFHWADDR}, {"queue", SIOCGIFTXQLEN}};
    const int fds[2] = {tcp(), socket(AF_UNIX, SOCK_STREAM, 0)};
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++)
        for (int f = 0; f < 2; f++) {
            struct ifreq r = {0};
            (void)snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
            const int e = ioctl(fds[f], asks[i].request, &r);
            printf("%s of %s by %d: %s", asks[i].what, name, f,
                   e < 0 ? strerrorname_np(errno) : "");
            for (size_t b = 0; e == 0 && b < sizeof(struct sockaddr); b++)
                if (asks[i].request != SIOCGIFFLAGS || b < 2)
                    printf(" %02x", ((uint8_t *)&r.ifr_addr)[b]);
            printf(" %s\n", r.ifr_name);
            cases++;
        }
    close(fds[0]);
    close(fds[1]);
}

static void interfaces(void)
{
    struct ifaddrs *all = NULL;
    enter();
    T("getifaddrs", getifaddrs(&all));
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        printf("  %s %d %x %s\n", i->ifa_name, i->ifa_addr->sa_family, i->ifa_flags & 0xffff,
               i->ifa_netmask ? "mask" : "");
        if (i->ifa_addr->sa_family != AF_PACKET)
            tell_name("  address", (const union name *)(const void *)i->ifa_addr, 0);
    }
    freeifaddrs(all);
    T("if_nametoindex", if_nametoindex("lo"));
    T("if_nametoindex of none", if_nametoindex("eth7") == 0 ? -1 : 0);
    char name[IF_NAMESIZE] = "";
    printf("if_indextoname: %s\n", if_indextoname(1, name) ? name : "none");
    printf("if_indextoname of none: %s\n", if_indextoname(9, name) ? name : strerrorname_np(errno));
    struct if_nameindex *names = if_nameindex();
    for (const struct if_nameindex *n = names; n && n->if_index; n++)
        printf("  %u %s\n", n->if_index, n->if_name);
    if_freenameindex(names);
    tell_ioctls("lo");
    tell_ioctls("eth7");
    struct ifreq rooms[4];
    struct ifconf c = {.ifc_len = sizeof rooms, .ifc_req = rooms};
    const int fd = tcp();
    T("SIOCGIFCONF", ioctl(fd, SIOCGIFCONF, &c));
    printf("  %d %s\n", c.ifc_len, rooms[0].ifr_name);
    c = (struct ifconf){0};
    T("SIOCGIFCONF, no room", ioctl(fd, SIOCGIFCONF, &c));
    T("  size", c.ifc_len);
    T("SIOCGIFCONF, nowhere", ioctl(fd, SIOCGIFCONF, NULL));
    T("SIOCGIFCONF of a file", ioctl(0, SIOCGIFCONF, &c));
    T("SIOCGIFFLAGS, nowhere", ioctl(fd, SIOCGIFFLAGS, NULL));
    T("connect to another machine", reach(fd, v4("192.0.2.1", 80)));
    T("  of IPv6", reach(socket(AF_INET6, SOCK_STREAM, 0), v6("2001:db8::1", 80)));
    T("  by UDP", send_to(udp(), "x", 1, 0, v4("192.0.2.1", 80)));
    T("  by UDP of IPv6",
      send_to(socket(AF_INET6, SOCK_DGRAM, 0), "x", 1, 0, v6("2001:db8::1", 80)));
    T("  to all", send_to(udp(), "x", 1, 0, v4("255.255.255.255", 80)));
    close(fd);
}

static void tell_request(const char *what, int type, int flags, const void *body, size_t n)
{
    struct {
        struct nlmsghdr h;
        uint8_t body[64];
    } r = {.h = {.nlmsg_type = (uint16_t)type,
                 .nlmsg_flags = (uint16_t)flags,
                 .nlmsg_seq = 7,
                 .nlmsg_len = (uint32_t)(sizeof r.h + n)}};
    static _Alignas(8) uint8_t room[32768];
    const int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    memcpy(r.body, body, n);
    T(what, send(fd, &r, r.h.nlmsg_len, 0) == (ssize_t)r.h.nlmsg_len);
    bool more = true;
    while (more) {
        await(fd, POLLIN);
        int left = (int)recv(fd, room, sizeof room, MSG_DONTWAIT);
        more = left > 0;
        for (struct nlmsghdr *h = (void *)room; more && NLMSG_OK(h, (unsigned)left);
             h = NLMSG_NEXT(h, left)) {
            const int e = h->nlmsg_type == NLMSG_ERROR ? *(int *)NLMSG_DATA(h) : 0;
            printf("  %u seq %u %s\n", h->nlmsg_type, h->nlmsg_seq, e ? strerrorname_np(-e) : "");
            if (!(h->nlmsg_flags & NLM_F_MULTI) || h->nlmsg_type == NLMSG_DONE)
                more = false;
        }
    }
    close(fd);
}

static void netlinks(void)
{
    const struct ifinfomsg link = {.ifi_index = 1}, none = {.ifi_index = 9};
    const struct ifaddrmsg both = {0}, four = {.ifa_family = AF_INET},
                           six = {.ifa_family = AF_INET6};
    struct sockaddr_nl a = {.nl_family = AF_NETLINK};
    socklen_t size = sizeof a;
    T("netlink of another protocol", socket(AF_NETLINK, SOCK_RAW, 4000) < 0 ? -1 : 0);
    T("netlink stream", socket(AF_NETLINK, SOCK_STREAM, 0));
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    T("bind, short", bind(fd, (struct sockaddr *)&a, 8));
    T("bind", bind(fd, (struct sockaddr *)&a, sizeof a));
    T("name", getsockname(fd, (struct sockaddr *)&a, &size));
    T("  size", size);
    T("  family", a.nl_family);
    T("  own process", a.nl_pid == (uint32_t)getpid());
    T("accept", accept(fd, NULL, NULL));
    T("listen", listen(fd, 1));
    T("shutdown", shutdown(fd, SHUT_RDWR));
    T("recv nothing", recv(fd, &a, sizeof a, MSG_DONTWAIT));
    events("  events", fd);
    close(fd);
    tell_request("links", RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, &link, sizeof link);
    tell_request("link 1", RTM_GETLINK, NLM_F_REQUEST, &link, sizeof link);
    tell_request("link 9", RTM_GETLINK, NLM_F_REQUEST, &none, sizeof none);
    tell_request("addresses", RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, &both, sizeof both);
    tell_request("addresses of IPv4", RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, &four, sizeof four);
    tell_request("addresses of IPv6", RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, &six, sizeof six);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, on_pipe);
    interfaces();
    netlinks();
    printf("%d cases\n", cases);
    return 0;
}
