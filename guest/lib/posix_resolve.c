/* SPDX-License-Identifier: MIT
 *
 * posix_resolve.c - names of hosts by a name server: queries for A and AAAA records over UDP
 * (RFC 1035, 4), to the servers of /etc/resolv.conf, or to 127.0.0.1 where it names none.
 *
 * Each server is asked in turn, TRIES times; the first that answers is believed. An answer must
 * come from the server that was asked, with the number and the question of the query. Everything
 * in it is checked against its end, because a name server may send anything. Answers that were cut
 * off are used as far as they go. There is no list of domains to search.
 */
#include "posix_int.h"
#include "posix_net.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum {
    SERVERS_MAX = 3,
    TRIES = 2,
    WAIT_MS = 5000, /* for an answer */
    QUERY_MAX = 512,
    ANSWER_MAX = 4096,
    HEAD = 12, /* bytes of a message's head */
    RECORD = 10,
    LABEL_MAX = 63,
    TYPE_A = 1,
    TYPE_AAAA = 28,
    CLASS_IN = 1,
    NXDOMAIN = 3,
};

struct server {
    struct sockaddr_storage at;
    socklen_t size;
};

static unsigned word_at(const unsigned char *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static void add_server(struct server *s, const struct posix_address *a)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(53)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(53)};

    memset(s, 0, sizeof *s);
    if (a->family == AF_INET) {
        memcpy(&v4.sin_addr, a->bytes, sizeof v4.sin_addr);
        memcpy(&s->at, &v4, s->size = sizeof v4);
    } else {
        memcpy(&v6.sin6_addr, a->bytes, sizeof v6.sin6_addr);
        memcpy(&s->at, &v6, s->size = sizeof v6);
    }
}

static int read_servers(struct server ret[SERVERS_MAX])
{
    char line[POSIX_NET_LINE], *w[POSIX_NET_WORDS];
    struct posix_address a;
    FILE *f = fopen("/etc/resolv.conf", "re");
    int n, count = 0;

    while (f && count < SERVERS_MAX && (n = posix_net_line(f, line, w)) > 0)
        if (n > 1 && strcmp(w[0], "nameserver") == 0 && posix_net_numeric(w[1], &a))
            add_server(&ret[count++], &a);
    if (f)
        fclose(f);
    if (count == 0 && posix_net_numeric("127.0.0.1", &a))
        add_server(&ret[count++], &a);
    return count;
}

/* Returns the size of the query, or 0: this cannot be a name. */
static size_t write_query(unsigned char to[QUERY_MAX], const char *name, unsigned type)
{
    static const unsigned char counts[] = {1, 0, 0, 1, 0,
                                           0, 0, 0, 0, 0}; /* recursion; a question */
    size_t at = HEAD;

    if (getentropy(to, 2) < 0 || strlen(name) > 254)
        return 0;
    memcpy(to + 2, counts, sizeof counts);
    while (*name) {
        const size_t n = strcspn(name, ".");

        if (n == 0 || n > LABEL_MAX)
            return 0;
        to[at++] = (unsigned char)n;
        memcpy(to + at, name, n);
        at += n;
        name += n + (name[n] == '.');
    }
    if (at == HEAD)
        return 0;
    to[at++] = 0;
    to[at++] = 0;
    to[at++] = (unsigned char)type;
    to[at++] = 0;
    to[at++] = CLASS_IN;
    return at;
}

/* The end of the name at `at`, which may end in a pointer; 0: it is not whole. */
static size_t skip_name(const unsigned char *p, size_t n, size_t at)
{
    while (at < n && p[at] != 0 && p[at] <= LABEL_MAX)
        at += 1u + p[at];
    if (at >= n)
        return 0;
    if (p[at] == 0)
        return at + 1;
    return p[at] >= 0xc0 && at + 2 <= n ? at + 2 : 0;
}

/* Is this an answer to the query? Names are compared without regard to case. */
static int answers(const unsigned char *a, size_t n, const unsigned char *query, size_t size)
{
    return n >= size && memcmp(a, query, 2) == 0 && (a[2] & 0xf8) == 0x80 && word_at(a + 4) == 1 &&
           strcasecmp((const char *)a + HEAD, (const char *)query + HEAD) == 0 &&
           memcmp(a + size - 4, query + size - 4, 4) == 0;
}

/* The addresses of an answer. 0: the server could not answer. */
static int read_answer(const unsigned char *a, size_t n, size_t at, unsigned type,
                       struct posix_addresses *ret, int *known)
{
    const unsigned code = a[3] & 15;

    if (code != 0 && code != NXDOMAIN)
        return 0;
    *known = code == 0;
    for (unsigned left = word_at(a + 6); code == 0 && left > 0; left--) {
        struct posix_address found = {.family = type == TYPE_A ? AF_INET : AF_INET6};
        const size_t length = type == TYPE_A ? 4 : 16;

        at = skip_name(a, n, at);
        if (at == 0 || at + RECORD > n || at + RECORD + word_at(a + at + 8) > n)
            break;
        if (word_at(a + at) == type && word_at(a + at + 2) == CLASS_IN &&
            word_at(a + at + 8) == length) {
            memcpy(found.bytes, a + at + RECORD, length);
            posix_net_add(ret, &found);
        }
        at += RECORD + word_at(a + at + 8);
    }
    return 1;
}

static long now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

/* Ask one server once. Returns the size of the answer, or 0. */
static size_t ask(const struct server *s, const unsigned char *query, size_t size,
                  unsigned char answer[ANSWER_MAX])
{
    const int fd = socket(s->at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const long until = now_ms() + WAIT_MS;
    size_t got = 0;
    long left;

    if (fd < 0)
        return 0;
    if (connect(fd, (const struct sockaddr *)&s->at, s->size) == 0 &&
        send(fd, query, size, 0) == (ssize_t)size)
        while (got == 0 && (left = until - now_ms()) > 0) {
            struct pollfd p = {.fd = fd, .events = POLLIN};
            const int r = poll(&p, 1, (int)left);
            const ssize_t n = r > 0 ? recv(fd, answer, ANSWER_MAX, 0) : 0;

            if (n < 0)
                break; /* no server is there */
            if (n >= HEAD && answers(answer, (size_t)n, query, size))
                got = (size_t)n;
        }
    close(fd);
    return got;
}

int posix_net_resolve(const char *name, int family, struct posix_addresses *ret)
{
    const unsigned type = family == AF_INET ? TYPE_A : TYPE_AAAA;
    unsigned char query[QUERY_MAX], answer[ANSWER_MAX];
    struct server servers[SERVERS_MAX];
    const int count = read_servers(servers);
    const size_t size = write_query(query, name, type);
    int known = 0;

    if (size == 0)
        return EAI_NONAME;
    for (int i = 0; i < TRIES * count; i++) {
        const size_t n = ask(&servers[i % count], query, size, answer);

        if (n > 0 && read_answer(answer, n, size, type, ret, &known))
            return known ? 0 : EAI_NONAME;
    }
    return EAI_AGAIN;
}
