/* SPDX-License-Identifier: MIT
 *
 * Listeners on TCP, with TLS or on this machine's own addresses.
 */
#include "base/fd.h"
#include "base/num.h"
#include "http/http_int.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>

enum {
    HOST_TEXT = 256,
    PORT_TEXT = 8,
};

int dz_http_tls(struct dz_http *h, const char *certificate, const char *key, struct dz_err *err)
{
    struct dz_tls_context *now = NULL;
    int rc = dz_tls_server(certificate, key, &now, err);
    if (rc < 0)
        return rc;
    dz_tls_context_free(h->tls);
    h->tls = now;
    return 0;
}

/* HOST:PORT into its parts. */
static int split(const char *address, char host[static HOST_TEXT], char port[static PORT_TEXT],
                 struct dz_err *err)
{
    struct dz_str s = dz_str(address);
    size_t colon = dz_str_rfind_char(s, ':');
    uint64_t number = 0;
    char quoted[DZ_STR_QUOTED];
    if (colon == DZ_STR_NONE ||
        dz_num_u64(dz_str_sub(s, colon + 1, s.n), 0, 65535, &number, NULL) < 0)
        return dz_fail(err, DZ_EINVAL, "listen at %s: it must be HOST:PORT",
                       dz_str_quote(s, quoted));
    s = dz_str_sub(s, 0, colon);
    if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
        s = dz_str_sub(s, 1, s.n - 2);
    else if (dz_str_find_char(s, ':') != DZ_STR_NONE || s.n >= HOST_TEXT)
        return dz_fail(err, DZ_EINVAL, "listen at %s: an IPv6 address stands in brackets",
                       dz_str_quote(dz_str(address), quoted));
    (void)snprintf(host, HOST_TEXT, "%.*s", DZ_STR_ARG(s));
    (void)snprintf(port, PORT_TEXT, "%u", (unsigned)number);
    return 0;
}

static bool is_loopback(const struct addrinfo *a)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (a->ai_family == AF_INET) {
        memcpy(&v4, a->ai_addr, sizeof v4);
        return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
    }
    if (a->ai_family != AF_INET6)
        return false;
    memcpy(&v6, a->ai_addr, sizeof v6);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

static int listen_one(struct dz_http *h, const char *address, const struct addrinfo *a,
                      struct dz_err *err)
{
    const int on = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return dz_fail_sys(err, errno, "listen at %s", address);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0) {
        int sys = errno;
        dz_fd_close(&fd);
        return dz_fail_sys(err, sys, "listen at %s", address);
    }
    int rc = dz_http_listen_fd(h, fd, err);
    if (rc == 0) {
        h->listeners[h->listener_count - 1].tcp = true;
        h->listeners[h->listener_count - 1].tls = h->tls != NULL;
    }
    return rc;
}

int dz_http_listen_tcp(struct dz_http *h, const char *address, bool plain, struct dz_err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    char host[HOST_TEXT], port[PORT_TEXT];
    struct addrinfo *list = NULL;
    int rc = split(address, host, port, err);
    if (rc < 0)
        return rc;
    int failed = getaddrinfo(host[0] ? host : NULL, port, &hints, &list);
    if (failed != 0)
        return dz_fail(err, DZ_ENOENT, "listen at %s: %s", address, gai_strerror(failed));
    for (const struct addrinfo *a = list; a && rc == 0; a = a->ai_next) {
        if (!h->tls && !plain && !is_loopback(a))
            rc = dz_fail(err, DZ_EDENIED,
                         "listen at %s: others could read along what is sent there, tokens too: "
                         "set tls.certificate and tls.key, or listen.plain if a proxy does TLS",
                         address);
        else
            rc = listen_one(h, address, a, err);
    }
    freeaddrinfo(list);
    return rc;
}
