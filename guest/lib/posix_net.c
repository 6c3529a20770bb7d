/* SPDX-License-Identifier: MIT
 *
 * posix_net.c - names of hosts and services: /etc/hosts and /etc/services, in the
 * order of their lines, then a name server (posix_resolve.c). "localhost" is known
 * without a file, and no server is asked for it.
 */
#include "posix_net.h"
#include "posix_int.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int h_errno;

int posix_net_line(FILE *f, char line[POSIX_NET_LINE], char *words[POSIX_NET_WORDS])
{
    while (fgets(line, POSIX_NET_LINE, f)) {
        int n = 0;
        char *save, *w;

        line[strcspn(line, "#")] = 0;
        for (w = strtok_r(line, " \t\r\n", &save); w && n < POSIX_NET_WORDS;
             w = strtok_r(NULL, " \t\r\n", &save))
            words[n++] = w;
        if (n > 0)
            return n;
    }
    return 0;
}

int posix_net_numeric(const char *s, struct posix_address *ret)
{
    ret->family = strchr(s, ':') ? AF_INET6 : AF_INET;
    return inet_pton(ret->family, s, ret->bytes) == 1;
}

static size_t bytes_of(int family)
{
    return family == AF_INET ? 4 : 16;
}

void posix_net_add(struct posix_addresses *f, const struct posix_address *a)
{
    if (f->count < POSIX_NET_ADDRESSES)
        f->at[f->count++] = *a;
}

static void add(struct posix_addresses *f, int family, const struct posix_address *a,
                const char *canon)
{
    if (family != AF_UNSPEC && family != a->family)
        return;
    if (f->count == 0)
        snprintf(f->canon, sizeof f->canon, "%s", canon);
    posix_net_add(f, a);
}

/* The addresses of a name; returns whether the name is known, in any family. */
static int hosts_by_name(const char *name, int family, struct posix_addresses *ret)
{
    char line[POSIX_NET_LINE], *w[POSIX_NET_WORDS];
    struct posix_address a;
    FILE *f = fopen("/etc/hosts", "re");
    int known = 0, n;

    ret->count = 0;
    while (f && (n = posix_net_line(f, line, w)) > 0)
        for (int i = 1; i < n; i++)
            if (strcasecmp(w[i], name) == 0 && posix_net_numeric(w[0], &a)) {
                known = 1;
                add(ret, family, &a, w[1]);
                break;
            }
    if (f)
        fclose(f);
    if (ret->count == 0 && strcasecmp(name, "localhost") == 0) {
        known = posix_net_numeric("127.0.0.1", &a);
        add(ret, family, &a, name);
        (void)posix_net_numeric("::1", &a);
        add(ret, family, &a, name);
    }
    return known;
}

static int hosts_by_address(const struct posix_address *of, char *ret, size_t size)
{
    char line[POSIX_NET_LINE], *w[POSIX_NET_WORDS];
    struct posix_address a;
    FILE *f = fopen("/etc/hosts", "re");
    int n, known = 0;

    while (f && !known && (n = posix_net_line(f, line, w)) > 0)
        if (n > 1 && posix_net_numeric(w[0], &a) && a.family == of->family &&
            memcmp(a.bytes, of->bytes, bytes_of(a.family)) == 0)
            known = snprintf(ret, size, "%s", w[1]) < (int)size ? 1 : -1;
    if (f)
        fclose(f);
    return known;
}

/* --- services -------------------------------------------------------------------- */

/* By name, or by port if name is null; protocol null: any. */
static struct servent *service(const char *name, int port, const char *protocol)
{
    static char line[POSIX_NET_LINE];
    static char *w[POSIX_NET_WORDS], *aliases[POSIX_NET_WORDS];
    static struct servent found;
    FILE *f = fopen("/etc/services", "re");
    int n, ok = 0;

    while (f && !ok && (n = posix_net_line(f, line, w)) > 0) {
        char *slash = n > 1 ? strchr(w[1], '/') : NULL;
        int count = 0;

        if (!slash || (protocol && strcmp(slash + 1, protocol) != 0))
            continue;
        *slash = 0;
        found = (struct servent){w[0], aliases, htons((uint16_t)atoi(w[1])), slash + 1};
        ok = name ? strcmp(w[0], name) == 0 : found.s_port == port;
        for (int i = 2; i < n; i++) {
            ok = ok || (name && strcmp(w[i], name) == 0);
            aliases[count++] = w[i];
        }
        aliases[count] = NULL;
    }
    if (f)
        fclose(f);
    return ok ? &found : NULL;
}

struct servent *getservbyname(const char *name, const char *protocol)
{
    return service(name, 0, protocol);
}

struct servent *getservbyport(int port, const char *protocol)
{
    return service(NULL, port, protocol);
}

/* --- getaddrinfo ------------------------------------------------------------------ */

static const struct kind {
    int type, protocol;
    const char *name; /* in /etc/services; NULL: ports only by number */
} kinds[] = {
    {SOCK_STREAM, IPPROTO_TCP, "tcp"}, {SOCK_DGRAM, IPPROTO_UDP, "udp"}, {SOCK_RAW, 0, NULL}};
enum {
    KINDS = sizeof kinds / sizeof *kinds
};

static int wanted(const struct kind *k, const struct addrinfo *h)
{
    return (h->ai_socktype == 0 || h->ai_socktype == k->type) &&
           (h->ai_protocol == 0 || k->protocol == 0 || h->ai_protocol == k->protocol);
}

/* The ports of a service for each kind, -1: not for this one. 0 or EAI_*. */
static int ports_of(const char *name, const struct addrinfo *h, int ports[KINDS])
{
    char *end = NULL;
    long number = name ? strtol(name, &end, 10) : 0;
    const int by_number = !name || (*name && isdigit((unsigned char)*name) && !*end);
    int any = 0, matching = 0;

    if (!by_number && (h->ai_flags & AI_NUMERICSERV))
        return EAI_NONAME;
    if (by_number && (number < 0 || number > 65535))
        return EAI_SERVICE;
    for (int i = 0; i < KINDS; i++) {
        ports[i] = -1;
        if (!wanted(&kinds[i], h))
            continue;
        matching = 1;
        if (by_number) {
            ports[i] = (int)number;
        } else if (kinds[i].name) {
            struct servent *s = getservbyname(name, kinds[i].name);

            ports[i] = s ? ntohs((uint16_t)s->s_port) : -1;
        }
        any = any || ports[i] >= 0;
    }
    return !matching ? EAI_SOCKTYPE : any ? 0 : EAI_SERVICE;
}

/* IPv4 comes first, because it is what reaches most hosts. */
static int ask_server(const char *node, int family, struct posix_addresses *ret)
{
    int e = EAI_NONAME, other = EAI_NONAME;

    snprintf(ret->canon, sizeof ret->canon, "%s", node);
    if (family != AF_INET6)
        e = posix_net_resolve(node, AF_INET, ret);
    if (family != AF_INET && e != EAI_AGAIN)
        other = posix_net_resolve(node, AF_INET6, ret);
    return ret->count > 0 ? 0 : e == EAI_AGAIN || other == EAI_AGAIN ? EAI_AGAIN : EAI_NONAME;
}

static int addresses_of(const char *node, const struct addrinfo *h, struct posix_addresses *ret)
{
    struct posix_address a;

    ret->count = 0;
    if (!node) {
        const int passive = h->ai_flags & AI_PASSIVE;

        (void)posix_net_numeric(passive ? "0.0.0.0" : "127.0.0.1", &a);
        add(ret, h->ai_family, &a, "");
        (void)posix_net_numeric(passive ? "::" : "::1", &a);
        add(ret, h->ai_family, &a, "");
        return 0;
    }
    if (posix_net_numeric(node, &a)) {
        add(ret, h->ai_family, &a, node);
        return ret->count ? 0 : EAI_FAMILY;
    }
    if ((h->ai_flags & AI_NUMERICHOST) || strlen(node) >= sizeof ret->canon)
        return EAI_NONAME;
    if (hosts_by_name(node, h->ai_family, ret))
        return ret->count ? 0 : EAI_NONAME;
    return ask_server(node, h->ai_family, ret);
}

/* One block for each result: the addrinfo, its address, its name. */
struct result {
    struct addrinfo info;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } addr;
    char canon[];
};

static struct addrinfo *result(const struct posix_address *a, const struct kind *k,
                               const struct addrinfo *h, int port, const char *canon)
{
    struct result *r = calloc(1, sizeof *r + (canon ? strlen(canon) + 1 : 0));

    if (!r)
        return NULL;
    r->info = (struct addrinfo){.ai_family = a->family,
                                .ai_socktype = k->type,
                                .ai_protocol = k->protocol ? k->protocol : h->ai_protocol,
                                .ai_addrlen =
                                    a->family == AF_INET ? sizeof r->addr.v4 : sizeof r->addr.v6,
                                .ai_addr = &r->addr.any,
                                .ai_canonname = canon ? strcpy(r->canon, canon) : NULL};
    if (a->family == AF_INET) {
        r->addr.v4.sin_family = AF_INET;
        r->addr.v4.sin_port = htons((uint16_t)port);
        memcpy(&r->addr.v4.sin_addr, a->bytes, 4);
    } else {
        r->addr.v6.sin6_family = AF_INET6;
        r->addr.v6.sin6_port = htons((uint16_t)port);
        memcpy(&r->addr.v6.sin6_addr, a->bytes, 16);
    }
    return &r->info;
}

int getaddrinfo(const char *restrict node, const char *restrict name,
                const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
    static const struct addrinfo none;
    const struct addrinfo *h = hints ? hints : &none;
    const int known = AI_PASSIVE | AI_CANONNAME | AI_NUMERICHOST | AI_V4MAPPED | AI_ALL |
                      AI_ADDRCONFIG | AI_NUMERICSERV;
    struct posix_addresses hosts;
    struct addrinfo *list = NULL, **tail = &list;
    int ports[KINDS], e;

    if (!node && !name)
        return EAI_NONAME;
    if ((h->ai_flags & ~known) || ((h->ai_flags & AI_CANONNAME) && !node))
        return EAI_BADFLAGS;
    if (h->ai_family != AF_UNSPEC && h->ai_family != AF_INET && h->ai_family != AF_INET6)
        return EAI_FAMILY;
    e = ports_of(name, h, ports);
    if (e == 0)
        e = addresses_of(node, h, &hosts);
    if (e)
        return e;
    for (int i = 0; i < hosts.count; i++)
        for (int j = 0; j < KINDS; j++) {
            if (ports[j] < 0)
                continue;
            *tail = result(&hosts.at[i], &kinds[j], h, ports[j],
                           (h->ai_flags & AI_CANONNAME) && !list ? hosts.canon : NULL);
            if (!*tail) {
                freeaddrinfo(list);
                return EAI_MEMORY;
            }
            tail = &(*tail)->ai_next;
        }
    *ret = list;
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;

        free(list); /* the first member of its block */
        list = next;
    }
}

int getnameinfo(const struct sockaddr *restrict sa, socklen_t size, char *restrict host,
                socklen_t host_size, char *restrict serv, socklen_t serv_size, int flags)
{
    const struct sockaddr_in *v4 = (const void *)sa;
    const struct sockaddr_in6 *v6 = (const void *)sa;
    struct posix_address a = {.family = sa->sa_family};
    int port, known = 0;

    if (size >= 16 && a.family == AF_INET) {
        memcpy(a.bytes, &v4->sin_addr, 4);
        port = v4->sin_port;
    } else if (size >= 24 && a.family == AF_INET6) {
        memcpy(a.bytes, &v6->sin6_addr, 16);
        port = v6->sin6_port;
    } else {
        return EAI_FAMILY;
    }
    if (host && host_size) {
        if (!(flags & NI_NUMERICHOST))
            known = hosts_by_address(&a, host, host_size);
        if (known == 0 && (flags & NI_NAMEREQD))
            return EAI_NONAME;
        if (known < 0 || (known == 0 && !inet_ntop(a.family, a.bytes, host, host_size)))
            return EAI_OVERFLOW;
    }
    if (serv && serv_size) {
        struct servent *s =
            flags & NI_NUMERICSERV ? NULL : getservbyport(port, flags & NI_DGRAM ? "udp" : "tcp");
        int n = s ? snprintf(serv, serv_size, "%s", s->s_name)
                  : snprintf(serv, serv_size, "%d", ntohs((uint16_t)port));

        if (n >= (int)serv_size)
            return EAI_OVERFLOW;
    }
    return 0;
}

const char *gai_strerror(int error)
{
    switch (error) {
    case 0:
        return "Success";
    case EAI_BADFLAGS:
        return "Invalid flags";
    case EAI_NONAME:
        return "Name or service not known";
    case EAI_FAMILY:
        return "Address family not supported";
    case EAI_SOCKTYPE:
        return "Socket type not supported";
    case EAI_SERVICE:
        return "Service not known for this socket type";
    case EAI_MEMORY:
        return "Out of memory";
    case EAI_SYSTEM:
        return "System error";
    case EAI_OVERFLOW:
        return "Buffer too small";
    default:
        return "Resolver internal error";
    }
}

/* --- gethostbyname ----------------------------------------------------------------- */

static struct hostent *host_entry(const struct posix_addresses *f)
{
    static char name[NI_MAXHOST];
    static unsigned char bytes[POSIX_NET_ADDRESSES][16];
    static char *none[1], *list[POSIX_NET_ADDRESSES + 1];
    static struct hostent found;
    int i;

    for (i = 0; i < f->count; i++) {
        memcpy(bytes[i], f->at[i].bytes, sizeof bytes[i]);
        list[i] = (char *)bytes[i];
    }
    list[i] = NULL;
    strcpy(name, f->canon);
    found = (struct hostent){name, none, f->at[0].family, (int)bytes_of(f->at[0].family), list};
    return &found;
}

struct hostent *gethostbyname(const char *name)
{
    const struct addrinfo v4 = {.ai_family = AF_INET};
    struct posix_addresses f;
    const int e = addresses_of(name, &v4, &f);

    h_errno = e == EAI_AGAIN ? TRY_AGAIN : e ? HOST_NOT_FOUND : 0;
    return e ? NULL : host_entry(&f);
}

struct hostent *gethostbyaddr(const void *addr, socklen_t size, int family)
{
    struct posix_addresses f = {.count = 1, .at = {{.family = family}}};

    h_errno = HOST_NOT_FOUND;
    if ((family != AF_INET && family != AF_INET6) || size < bytes_of(family))
        return NULL;
    memcpy(f.at[0].bytes, addr, bytes_of(family));
    if (hosts_by_address(&f.at[0], f.canon, sizeof f.canon) <= 0)
        return NULL;
    h_errno = 0;
    return host_entry(&f);
}

const char *hstrerror(int error)
{
    return error == 0                ? "Resolver Error 0 (no error)"
           : error == HOST_NOT_FOUND ? "Unknown host"
           : error == TRY_AGAIN      ? "Host name lookup failure"
                                     : "Resolver internal error";
}
