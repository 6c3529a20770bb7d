/* SPDX-License-Identifier: MIT
 *
 * kernel_sock_addr.c - addresses and ports of the net: conversion, conflicts, who receives.
 *
 * The net is the loopback of this machine: 127.0.0.0/8 and ::1, and for TCP what the embedder
 * reaches outside (kernel_outside.h). No other address is reachable (ENETUNREACH), and only
 * loopback can be bound (EADDRNOTAVAIL). The machine's own address outside, eth0's, means 127.0.0.1
 * where a program connects to it.
 *
 * Ports of TCP and of UDP are separate; both versions of IP share them, because an IPv6 socket that
 * is bound to :: also receives IPv4, unless IPV6_V6ONLY is set.
 */
#include "kernel/kernel_outside.h"
#include "kernel/kernel_sock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

enum {
    SIN_SIZE = 16,      /* struct sockaddr_in */
    SIN6_SIZE = 28,     /* struct sockaddr_in6, */
    SIN6_LEAST = 24,    /* and without its scope */
    SIN6_ADDR_AT = 8,   /* in struct sockaddr_in6 */
    PORT_FIRST = 32768, /* ports that the kernel chooses: net.ipv4.ip_local_port_range */
    PORT_LAST = 60999,
    PORTS = PORT_LAST - PORT_FIRST + 1,
};

/* ---- addresses ------------------------------------------------------------- */

bool dz_k_inet_is_any(const struct dz_inet *a)
{
    return a->hi == 0 && (a->lo == 0 || (dz_k_is_v4(a) && (uint32_t)a->lo == 0));
}

bool dz_k_inet_same(const struct dz_inet *a, const struct dz_inet *b)
{
    return a->hi == b->hi && a->lo == b->lo;
}

bool dz_k_inet_is_local(const struct dz_inet *a)
{
    return dz_k_is_v4(a) ? (uint32_t)a->lo >> 24 == IN_LOOPBACKNET : a->hi == 0 && a->lo == 1;
}

static uint64_t get_u64(const uint8_t *from)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | from[i];
    return v;
}

static void put_u64(uint8_t *to, uint64_t v)
{
    for (int i = 7; i >= 0; i--, v >>= 8)
        to[i] = (uint8_t)v;
}

int dz_k_inet_get(uint32_t family, const struct dz_sockaddr *from, struct dz_inet *ret_addr)
{
    const uint8_t *b = from->bytes;
    uint16_t named;
    memcpy(&named, b, sizeof named);
    if (from->size < (family == AF_INET ? SIN_SIZE : SIN6_LEAST))
        return -EINVAL;
    if (named != family)
        return -EAFNOSUPPORT;
    *ret_addr = (struct dz_inet){.port = (uint32_t)b[2] << 8 | b[3]};
    if (family == AF_INET) {
        ret_addr->lo = UINT64_C(0xffff) << 32 | get_u64(b) % (UINT64_C(1) << 32);
        return 0;
    }
    ret_addr->hi = get_u64(b + SIN6_ADDR_AT);
    ret_addr->lo = get_u64(b + SIN6_ADDR_AT + 8);
    return 0;
}

void dz_k_inet_put(uint32_t family, const struct dz_inet *from, struct dz_sockaddr *ret_addr)
{
    const uint16_t named = (uint16_t)family;
    *ret_addr = (struct dz_sockaddr){.size = family == AF_INET ? SIN_SIZE : SIN6_SIZE};
    uint8_t *b = ret_addr->bytes;
    if (family == AF_INET) {
        put_u64(b, from->lo); /* the address; what comes before it is written below */
    } else {
        put_u64(b + SIN6_ADDR_AT, from->hi);
        put_u64(b + SIN6_ADDR_AT + 8, from->lo);
    }
    memcpy(b, &named, sizeof named);
    b[2] = (uint8_t)(from->port >> 8);
    b[3] = (uint8_t)from->port;
}

void dz_inet_text(const struct dz_inet *a, char ret_text[static DZ_INET_TEXT])
{
    char address[INET6_ADDRSTRLEN], port[8] = "*";
    uint8_t bytes[16];
    const bool v4 = dz_k_is_v4(a);
    put_u64(bytes, a->hi);
    put_u64(bytes + 8, a->lo);
    if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? bytes + 12 : bytes, address, sizeof address))
        address[0] = '\0';
    if (a->port)
        (void)snprintf(port, sizeof port, "%u", a->port & UINT16_MAX);
    (void)snprintf(ret_text, DZ_INET_TEXT, v4 ? "%s:%s" : "[%s]:%s", address, port);
}

int dz_k_inet_route(const struct dz_kernel *k, const struct dz_socket *s, struct dz_inet *to,
                    struct dz_inet *ret_from)
{
    const struct dz_inet lo4 = {.lo = UINT64_C(0xffff) << 32 | INADDR_LOOPBACK}, lo6 = {.lo = 1};
    const uint32_t port = to->port;
    const bool v4 = dz_k_is_v4(to);
    if (dz_k_inet_is_any(to) || (k->net && v4 && dz_k_inet_same(to, &k->net->own4)))
        *to = v4 ? lo4 : lo6;
    to->port = port;
    const bool outside = !dz_k_inet_is_local(to);
    if (v4 && (s->options & DZ_SOCKET_V6ONLY))
        return -ENETUNREACH;
    if (outside && (s->type != SOCK_STREAM || !dz_k_outside_reaches(k, to)))
        return -ENETUNREACH;
    if (!dz_k_inet_is_any(&s->local) && dz_k_is_v4(&s->local) != v4)
        return -ENETUNREACH;
    if (outside && !dz_k_inet_is_any(&s->local)) /* from loopback */
        return v4 ? -EINVAL : -ENETUNREACH;
    if (outside)
        *ret_from = v4 ? k->net->own4 : k->net->own6;
    else
        *ret_from = !dz_k_inet_is_any(&s->local) ? s->local : v4 ? lo4 : lo6;
    ret_from->port = s->local.port;
    return 0;
}

/* ---- ports ----------------------------------------------------------------- */

bool dz_k_inet_has_port(const struct dz_socket *s)
{
    return !s->dead && (s->inet & DZ_INET_HAS_PORT);
}

/* Does a socket that is bound to :: receive this address? */
static bool spans(const struct dz_inet *any, bool v6only, const struct dz_inet *a)
{
    if (!dz_k_inet_is_any(any))
        return false;
    return dz_k_is_v4(any) ? dz_k_is_v4(a) : !(v6only && dz_k_is_v4(a));
}

/* Could one packet be for both? */
static bool overlaps(const struct dz_inet *a, bool a_v6only, const struct dz_socket *o)
{
    return dz_k_inet_same(a, &o->local) || spans(a, a_v6only, &o->local) ||
           spans(&o->local, o->options & DZ_SOCKET_V6ONLY, a);
}

int dz_k_inet_conflict(const struct dz_kernel *k, const struct dz_socket *s,
                       const struct dz_inet *a)
{
    DZ_K_FOREACH(dz_socket, o, k, DZ_KERNEL_TABLE_SOCKET)
    {
        const uint32_t both = s->options & o->options;
        if (o == s || !dz_k_is_inet(o) || o->type != s->type || !dz_k_inet_has_port(o) ||
            o->local.port != a->port || !overlaps(a, s->options & DZ_SOCKET_V6ONLY, o))
            continue;
        const bool reuse = (both & DZ_SOCKET_REUSEADDR) && o->state != DZ_SOCKET_LISTENING;
        if (!reuse && !((both & DZ_SOCKET_REUSEPORT) && o->uid == s->uid))
            return -EADDRINUSE;
    }
    return 0;
}

uint32_t dz_k_inet_free_port(const struct dz_kernel *k, const struct dz_socket *s)
{
    uint8_t used[(PORTS + 7) / 8] = {0};
    DZ_K_FOREACH(dz_socket, o, k, DZ_KERNEL_TABLE_SOCKET)
    if (dz_k_is_inet(o) && o->type == s->type && dz_k_inet_has_port(o) &&
        o->local.port >= PORT_FIRST && o->local.port <= PORT_LAST)
        used[(o->local.port - PORT_FIRST) / 8] |= (uint8_t)(1u << (o->local.port - PORT_FIRST) % 8);
    /* Neighbouring sockets get ports that are far apart, so that a port is not reused at once. */
    const uint64_t start = s->number * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (uint32_t i = 0; i < PORTS; i++) {
        const uint32_t at = (uint32_t)((start + i) % PORTS);
        if (!(used[at / 8] >> at % 8 & 1))
            return PORT_FIRST + at;
    }
    return 0;
}

/* ---- receivers ------------------------------------------------------------- */

/* How well a socket fits a packet; 0: not at all. As Linux counts: a peer, then the address, then
 * the version. */
static int fit(const struct dz_socket *o, uint32_t type, const struct dz_inet *from,
               const struct dz_inet *to)
{
    const bool same = dz_k_inet_same(&o->local, to);
    if (!dz_k_is_inet(o) || o->type != type || !dz_k_inet_has_port(o) || o->local.port != to->port)
        return 0;
    if (!same && !spans(&o->local, o->options & DZ_SOCKET_V6ONLY, to))
        return 0;
    if (type == SOCK_STREAM && o->state != DZ_SOCKET_LISTENING)
        return 0;
    const bool connected = o->state == DZ_SOCKET_CONNECTED;
    if (connected && (!dz_k_inet_same(&o->remote, from) || o->remote.port != from->port))
        return 0;
    return 1 + (o->family == (dz_k_is_v4(to) ? AF_INET : AF_INET6)) + (same ? 2 : 0) +
           (connected ? 4 : 0);
}

struct dz_socket *dz_k_inet_find(const struct dz_kernel *k, uint32_t type,
                                 const struct dz_inet *from, const struct dz_inet *to)
{
    struct dz_socket *best = NULL;
    int most = 0;
    uint32_t group = 0, nth; /* sockets of SO_REUSEPORT that fit as well */
    DZ_K_FOREACH(dz_socket, o, k, DZ_KERNEL_TABLE_SOCKET)
    {
        const int n = fit(o, type, from, to);
        if (n == 0 || n < most)
            continue;
        group = n > most ? 1 : group + 1;
        if (n > most || o->number > best->number) /* the newest, as on Linux */
            best = o;
        most = n;
    }
    if (group < 2 || !(best->options & DZ_SOCKET_REUSEPORT))
        return best;
    nth = (from->port ^ from->port >> 8) % group; /* one sender always has the same receiver */
    DZ_K_FOREACH(dz_socket, o, k, DZ_KERNEL_TABLE_SOCKET)
    if (fit(o, type, from, to) == most && nth-- == 0)
        return o;
    return best;
}

/* ---- invariants of rows ---------------------------------------------------- */

static bool same_end(const struct dz_inet *a, const struct dz_inet *b)
{
    return dz_k_inet_same(a, b) && a->port == b->port;
}

bool dz_k_inet_pair_ok(const struct dz_socket *s, const struct dz_socket *peer)
{
    const bool sent = s->inet & DZ_INET_FIN_SENT, seen = s->inet & DZ_INET_FIN_SEEN;
    if (peer->dead)
        return seen && !sent && (s->shut & DZ_SOCKET_SHUT_RD);
    return sent == ((peer->inet & DZ_INET_FIN_SEEN) != 0) &&
           seen == ((peer->inet & DZ_INET_FIN_SENT) != 0) && same_end(&s->local, &peer->remote) &&
           same_end(&s->remote, &peer->local);
}

static bool address_ok(const struct dz_inet *a, const struct dz_socket *s)
{
    const bool outside = s->inet & DZ_INET_OUTSIDE;
    return a->port <= UINT16_MAX && (outside || dz_k_inet_is_any(a) || dz_k_inet_is_local(a)) &&
           (s->family != AF_INET || dz_k_is_v4(a));
}

bool dz_k_inet_ok(const struct dz_socket *s)
{
    const uint32_t needs_remote = s->inet & (DZ_INET_PENDING | DZ_INET_ATTACHED);
    if (!dz_k_is_inet(s))
        return s->inet == 0 && s->state != DZ_SOCKET_CONNECTING && s->channel == 0;
    bool ok = address_ok(&s->local, s) && address_ok(&s->remote, s);
    ok = ok && s->inet <= DZ_INET_FLAGS && !s->bound && s->name == 0;
    if (s->inet & DZ_INET_HAS_PORT)
        ok = ok && s->local.port != 0;
    else
        ok = ok && s->state == DZ_SOCKET_CLOSED && !(s->inet & DZ_INET_PORT_LOCK);
    if (needs_remote || s->state >= DZ_SOCKET_CONNECTED)
        ok = ok && s->remote.port != 0 && !dz_k_inet_is_any(&s->remote);
    if (s->channel)
        ok = ok && (s->inet & DZ_INET_OUTSIDE) && s->state >= DZ_SOCKET_CONNECTED && s->peer == 0;
    else
        ok = ok && s->generation == 0;
    if (s->inet & DZ_INET_OUTSIDE)
        ok = ok && s->state != DZ_SOCKET_LISTENING && (s->channel || s->state == DZ_SOCKET_CLOSED);
    if (s->type == SOCK_DGRAM)
        return ok &&
               !(s->inet & ~(uint32_t)(DZ_INET_ADDR_LOCK | DZ_INET_PORT_LOCK | DZ_INET_HAS_PORT));
    if (s->state == DZ_SOCKET_CONNECTED)
        ok = ok && needs_remote && s->inet != (s->inet | DZ_INET_FIN_SENT | DZ_INET_FIN_SEEN);
    else if (s->state == DZ_SOCKET_CONNECTING)
        ok = ok && (s->inet & DZ_INET_PENDING);
    else if (s->state == DZ_SOCKET_LISTENING)
        ok = ok && !needs_remote;
    return ok;
}
