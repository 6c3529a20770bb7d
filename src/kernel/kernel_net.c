/* SPDX-License-Identifier: MIT
 *
 * kernel_net.c - what programs may learn about the net: the interfaces by ioctl(2), and the texts
 * of /proc/net. kernel_sock_netlink.c tells the same by messages.
 *
 * There is lo, and eth0 where the machine has an address outside. They are always up and cannot be
 * changed (EPERM). They count no packets, because nothing is one.
 */
#include "kernel/kernel_outside.h"
#include "kernel/kernel_sock.h"

#include <arpa/inet.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <sys/stat.h>

#include "base/buf.h"

/* ---- interfaces ------------------------------------------------------------ */

size_t dz_k_net_links(const struct dz_kernel *k, struct dz_k_link ret[static DZ_K_NET_LINKS])
{
    ret[0] = (struct dz_k_link){.name = "lo",
                                .number = 1,
                                .flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING,
                                .mtu = 65536,
                                .type = ARPHRD_LOOPBACK,
                                .address = INADDR_LOOPBACK,
                                .prefix = 8,
                                .six = true};
    if (!k->net || dz_k_inet_is_any(&k->net->own4))
        return 1;
    const uint32_t own = (uint32_t)k->net->own4.lo;
    ret[1] = (struct dz_k_link){.name = "eth0",
                                .number = 2,
                                .flags = IFF_UP | IFF_BROADCAST | IFF_RUNNING | IFF_MULTICAST,
                                .mtu = 1500,
                                .type = ARPHRD_ETHER,
                                .mac = {2, 0, (uint8_t)(own >> 24), (uint8_t)(own >> 16),
                                        (uint8_t)(own >> 8), (uint8_t)own},
                                .address = own,
                                .prefix = 32};
    return 2;
}

/* ---- ioctl ----------------------------------------------------------------- */

static void put_address(struct ifreq *r, uint32_t address)
{
    const struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    memcpy(&r->ifr_addr, &a, sizeof a);
}

static const struct dz_k_link *link_of(const struct dz_k_link *links, size_t count, uint32_t req,
                                       const struct ifreq *r)
{
    for (size_t i = 0; i < count; i++)
        if (req == SIOCGIFNAME ? r->ifr_ifindex == (int)links[i].number
                               : strcmp(r->ifr_name, links[i].name) == 0)
            return &links[i];
    return NULL;
}

int64_t dz_k_net_ioctl(const struct dz_kernel *k, const struct dz_socket *s, uint32_t req,
                       void *arg)
{
    struct dz_k_link links[DZ_K_NET_LINKS];
    struct ifreq r;
    memcpy(&r, arg, sizeof r);
    r.ifr_name[IFNAMSIZ - 1] = '\0';
    char *colon = strchr(r.ifr_name, ':'); /* of an alias */
    if (req != SIOCGIFNAME && colon)
        *colon = '\0';
    const struct dz_k_link *l = link_of(links, dz_k_net_links(k, links), req, &r);
    const bool of_inet = req == SIOCGIFADDR || req == SIOCGIFNETMASK || req == SIOCGIFBRDADDR ||
                         req == SIOCGIFDSTADDR;
    if (of_inet && s->family == AF_UNIX)
        return -ENOTTY;
    if (!l)
        return -ENODEV;
    switch (req) {
    case SIOCGIFNAME:
        memset(r.ifr_name, 0, sizeof r.ifr_name);
        memcpy(r.ifr_name, l->name, strlen(l->name) + 1);
        break;
    case SIOCGIFINDEX:
        r.ifr_ifindex = (int)l->number;
        break;
    case SIOCGIFFLAGS:
        r.ifr_flags = (short)l->flags;
        break;
    case SIOCGIFMTU:
        r.ifr_mtu = (int)l->mtu;
        break;
    case SIOCGIFMETRIC:
        r.ifr_metric = 0;
        break;
    case SIOCGIFTXQLEN:
        r.ifr_qlen = DZ_K_NET_QUEUE;
        break;
    case SIOCGIFHWADDR:
        memset(&r.ifr_hwaddr, 0, sizeof r.ifr_hwaddr);
        r.ifr_hwaddr.sa_family = l->type;
        memcpy(r.ifr_hwaddr.sa_data, l->mac, sizeof l->mac);
        break;
    case SIOCGIFADDR:
    case SIOCGIFDSTADDR:
        put_address(&r, l->address);
        break;
    case SIOCGIFNETMASK:
        put_address(&r, ~0u << (32 - l->prefix));
        break;
    case SIOCGIFBRDADDR:
        put_address(&r, l->flags & IFF_BROADCAST ? l->address : INADDR_ANY);
        break;
    default:
        return -EPERM; /* the requests that set */
    }
    memcpy(arg, &r, sizeof r);
    if (colon) /* the name comes back as it was given */
        ((char *)arg)[colon - r.ifr_name] = ':';
    return 0;
}

/* ---- /proc/net --------------------------------------------------------------------------------
 */

enum { /* states of TCP that Linux prints */
    ESTABLISHED = 1,
    SYN_SENT = 2,
    FIN_WAIT2 = 5,
    CLOSED = 7,
    CLOSE_WAIT = 8,
    LISTEN = 10,
};

static unsigned state_of(const struct dz_socket *s)
{
    if (s->type == SOCK_DGRAM)
        return s->state == DZ_SOCKET_CONNECTED ? ESTABLISHED : CLOSED;
    switch (s->state) {
    case DZ_SOCKET_LISTENING:
        return LISTEN;
    case DZ_SOCKET_CONNECTING:
        return SYN_SENT;
    default:
        return s->inet & DZ_INET_FIN_SEEN   ? CLOSE_WAIT
               : s->inet & DZ_INET_FIN_SENT ? FIN_WAIT2
                                            : ESTABLISHED;
    }
}

/* Words of the address in the order of the net, as numbers of this machine. */
static void put_end(const struct dz_inet *a, bool six, struct dz_buf *out)
{
    const uint32_t words[4] = {(uint32_t)(a->hi >> 32), (uint32_t)a->hi, (uint32_t)(a->lo >> 32),
                               (uint32_t)a->lo};
    for (int i = six ? 0 : 3; i < 4; i++)
        dz_buf_addf(out, "%08X", htonl(words[i]));
    dz_buf_addf(out, ":%04X ", a->port);
}

/* The lines are those of net/ipv4/tcp_ipv4.c and udp.c, padded as there. */
static void put_sockets(struct dz_kernel *k, uint32_t family, uint32_t type, struct dz_buf *out)
{
    const bool six = family == AF_INET6, udp = type == SOCK_DGRAM;
    const size_t width = six ? 0 : udp ? 127 : 149;
    unsigned n = 0;
    const char *end = six ? "local_address                         remote_address             "
                            "           st"
                          : "local_address rem_address   st";
    size_t start = out->len;
    dz_buf_addf(out, "%s  sl  %s tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode%s",
                udp && !six ? " " : "", end, udp ? " ref pointer drops" : "");
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    {
        if (s->family != family || s->type != type || !dz_k_inet_has_port(s) ||
            (!udp && s->state == DZ_SOCKET_CLOSED))
            continue;
        dz_buf_addf(out, "%*s\n", out->len - start < width ? (int)(width - (out->len - start)) : 0,
                    "");
        start = out->len;
        const bool listens = s->state == DZ_SOCKET_LISTENING;
        const int64_t waiting = listens ? s->count : dz_k_family(family)->waiting(k, s);
        dz_buf_addf(out, udp ? "%5u: " : "%4u: ", n++);
        put_end(&s->local, six, out);
        put_end(&s->remote, six, out);
        dz_buf_addf(out, "%02X %08X:%08X 00:00000000 00000000 %5u        0 %llu %u %016x",
                    state_of(s), 0u, (unsigned)waiting, s->uid,
                    s->file ? (unsigned long long)s->number : 0ull, s->refs, 0u);
        dz_buf_adds(out, udp ? " 0" : listens ? " 100 0 0 10 0" : " 20 4 30 10 -1");
    }
    dz_buf_addf(out, "%*s\n", out->len - start < width ? (int)(width - (out->len - start)) : 0, "");
}

static void text_tcp(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    put_sockets(k, AF_INET, SOCK_STREAM, out);
}
static void text_tcp6(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    put_sockets(k, AF_INET6, SOCK_STREAM, out);
}
static void text_udp(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    put_sockets(k, AF_INET, SOCK_DGRAM, out);
}
static void text_udp6(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    put_sockets(k, AF_INET6, SOCK_DGRAM, out);
}

static void text_dev(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    struct dz_k_link links[DZ_K_NET_LINKS];
    const size_t count = dz_k_net_links(k, links);
    (void)of;
    dz_buf_adds(out,
                "Inter-|   Receive                                                |  Transmit\n"
                " face |bytes    packets errs drop fifo frame compressed multicast|"
                "bytes    packets errs drop fifo colls carrier compressed\n");
    for (size_t i = 0; i < count; i++)
        dz_buf_addf(out,
                    "%6s:       0       0    0    0    0     0          0         0"
                    "        0       0    0    0    0     0       0          0\n",
                    links[i].name);
}

static void text_route(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    struct dz_k_link links[DZ_K_NET_LINKS];
    (void)of;
    dz_buf_addf(
        out, "%-127s\n",
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT");
    if (dz_k_net_links(k, links) > 1) /* everything outside, without a gateway */
        dz_buf_addf(out, "%-127s\n", "eth0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0");
}

static void text_if_inet6(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k, (void)of;
    dz_buf_adds(out, "00000000000000000000000000000001 01 80 10 80       lo\n");
}

#define TEXT(name, fn) {name, S_IFREG | 0444, fn, NULL, NULL}
const struct dz_k_text dz_k_net_texts[] = {
    TEXT("unix", dz_k_sock_text), TEXT("tcp", text_tcp),           TEXT("tcp6", text_tcp6),
    TEXT("udp", text_udp),        TEXT("udp6", text_udp6),         TEXT("dev", text_dev),
    TEXT("route", text_route),    TEXT("if_inet6", text_if_inet6),
};
_Static_assert(DZ_ARRAY_LEN(dz_k_net_texts) == DZ_K_NET_TEXTS, "as kernel_int.h says");
