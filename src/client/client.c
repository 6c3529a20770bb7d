/* SPDX-License-Identifier: MIT
 *
 * client.c - the connection: finds the daemon, and sends and receives bytes with a limit on
 * waiting.
 */
#include "client/client.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"
#include "client/client_int.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

enum {
    DEFAULT_PORT = 7390,
    CONNECT_MS = 10000,
};

/* --- where ----------------------------------------------------------------------------- */

static int parse_host(struct dz_client *c, struct dz_str s, struct dz_err *err)
{
    uint64_t port = DEFAULT_PORT;
    size_t slash = dz_str_find_char(s, '/'), colon;
    if (slash != DZ_STR_NONE && slash + 1 < s.n)
        return dz_fail(err, DZ_EINVAL, "%s: the URL of a daemon must have no path", c->url);
    s = dz_str_sub(s, 0, slash);
    size_t bracket = dz_str_rfind_char(s, ']');
    colon = dz_str_rfind_char(s, ':');
    if (colon != DZ_STR_NONE && (bracket == DZ_STR_NONE || colon > bracket)) {
        int rc = dz_num_u64(dz_str_sub(s, colon + 1, s.n), 1, 65535, &port, NULL);
        if (rc < 0)
            return dz_fail(err, DZ_EINVAL, "%s: the port must be a number up to 65535", c->url);
        s = dz_str_sub(s, 0, colon);
    }
    if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
        s = dz_str_sub(s, 1, s.n - 2);
    if (s.n == 0)
        return dz_fail(err, DZ_EINVAL, "%s: the host is missing", c->url);
    (void)snprintf(c->port, sizeof c->port, "%u", (unsigned)port);
    c->host = dz_str_dup(s);
    return c->host ? 0 : dz_fail(err, DZ_ENOMEM, "open %s: out of memory", c->url);
}

static int parse(struct dz_client *c, struct dz_err *err)
{
    struct dz_str rest = dz_str(c->url);
    if (dz_str_eat(&rest, DZ_STR("unix:"))) {
        if (dz_str_starts(rest, DZ_STR("//"))) /* unix:///path too */
            rest = dz_str_sub(rest, 2, rest.n);
        if (rest.n == 0)
            return dz_fail(err, DZ_EINVAL, "%s: the path of the socket is missing", c->url);
        c->path = dz_str_dup(rest);
        return c->path ? 0 : dz_fail(err, DZ_ENOMEM, "open %s: out of memory", c->url);
    }
    if (dz_str_eat(&rest, DZ_STR("http://")))
        return parse_host(c, rest, err);
    if (dz_str_eat(&rest, DZ_STR("https://"))) {
        int rc = dz_tls_client(NULL, &c->trust, err);
        return rc < 0 ? rc : parse_host(c, rest, err);
    }
    return dz_fail(
        err, DZ_EINVAL,
        "%s: the URL of a daemon must be unix:PATH, https://HOST:PORT or http://HOST:PORT", c->url);
}

/* --- connecting -------------------------------------------------------------------------- */

/* poll(2) that SIGINT and SIGTERM interrupt. A signal that came before stop() was called is seen by
 * stop(). */
static int poll_or_stop(const struct dz_client *c, struct pollfd *p, int ms, struct dz_err *err)
{
    sigset_t mine, before;
    const struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    int rc = 0;
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGINT);
    (void)sigaddset(&mine, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &mine, &before);
    if (c->stop && c->stop())
        rc = dz_fail(err, DZ_ECANCELED, "interrupted");
    else if ((rc = ppoll(p, 1, ms < 0 ? NULL : &ts, &before)) < 0)
        rc = errno == EINTR ? DZ_EBUSY : dz_fail_sys(err, errno, "wait for %s", c->url);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static int wait_for(const struct dz_client *c, short events, int64_t ms, struct dz_err *err)
{
    const int64_t until = ms < 0 ? INT64_MAX : dz_clock_mono_ms() + ms;
    struct pollfd p = {.fd = c->fd, .events = events};
    for (int64_t left = ms;;) {
        bool tick = c->tick && (left < 0 || left > DZ_CLIENT_TICK_MS);
        int rc = poll_or_stop(c, &p,
                              tick               ? DZ_CLIENT_TICK_MS
                              : left < 0         ? -1
                              : left > INT32_MAX ? INT32_MAX
                                                 : (int)left,
                              err);
        if (rc > 0 || (rc < 0 && rc != DZ_EBUSY))
            return rc > 0 ? 0 : rc;
        if (rc == 0 && tick)
            c->tick(c->tick_arg);
        if (ms < 0)
            continue;
        left = until - dz_clock_mono_ms();
        if (left <= 0)
            return dz_fail(err, DZ_ETIMEOUT, "%s did not answer within %lld seconds", c->url,
                           (long long)(ms / 1000));
    }
}

static int connect_one(struct dz_client *c, const struct addrinfo *a, struct dz_err *err)
{
    int sys = 0;
    socklen_t len = sizeof sys;
    c->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return dz_fail_sys(err, errno, "connect to %s", c->url);
    if (connect(c->fd, a->ai_addr, a->ai_addrlen) == 0)
        return 0;
    sys = errno;
    if (sys == EINPROGRESS) {
        int rc = wait_for(c, POLLOUT, CONNECT_MS, err);
        if (rc < 0)
            return rc;
        (void)getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &sys, &len);
    }
    if (sys == ECONNREFUSED)
        return dz_fail(err, DZ_ENOENT, "nothing listens at %s", c->url);
    return sys ? dz_fail_sys(err, sys, "connect to %s", c->url) : 0;
}

static int connect_tcp(struct dz_client *c, struct dz_err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(c->host, c->port, &hints, &list);
    if (rc != 0)
        return dz_fail(err, DZ_ENOENT, "%s: %s", c->url, gai_strerror(rc));
    rc = dz_fail(err, DZ_ENOENT, "%s has no address", c->url);
    for (const struct addrinfo *a = list; a && rc < 0; a = a->ai_next) {
        dz_fd_close(&c->fd);
        rc = connect_one(c, a, err);
    }
    freeaddrinfo(list);
    return rc;
}

static int shake_hands(struct dz_client *c, struct dz_err *err)
{
    char why[128];
    int rc = dz_tls_new(c->trust, c->fd, c->host, &c->tls, err);
    while (rc == 0 && (rc = dz_tls_handshake(c->tls)) < 0 && rc != DZ_TLS_BROKEN)
        rc = wait_for(c, rc == DZ_TLS_WANT_READ ? POLLIN : POLLOUT, CONNECT_MS, err);
    if (rc != DZ_TLS_BROKEN)
        return rc;
    dz_tls_why(c->tls, why, sizeof why);
    return dz_fail(err, DZ_EDENIED,
                   "%s: TLS handshake failed: %s (SSL_CERT_FILE sets the CAs to trust)", c->url,
                   why);
}

int dz_client_connect(struct dz_client *c, struct dz_err *err)
{
    if (c->fd >= 0)
        return 0;
    c->in_at = c->in_end = 0;
    c->over = c->keep = true;
    int rc = 0;
    if (!c->path) {
        rc = connect_tcp(c, err);
        if (rc == 0 && c->trust)
            rc = shake_hands(c, err);
        if (rc < 0)
            dz_client_drop(c);
        return rc;
    }
    rc = dz_fd_unix_connect(c->path, err);
    if (rc < 0)
        return rc;
    c->fd = rc;
    return 0;
}

void dz_client_drop(struct dz_client *c)
{
    dz_tls_free(c->tls);
    c->tls = NULL;
    dz_fd_close(&c->fd);
    c->in_at = c->in_end = 0;
    c->over = true;
}

int dz_client_open(const char *url, const char *token, struct dz_client **ret_client,
                   struct dz_err *err)
{
    struct dz_client *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_fail(err, DZ_ENOMEM, "open %s: out of memory", url);
    c->fd = -1;
    c->over = true;
    c->head = (struct dz_buf)DZ_BUF_INIT(DZ_CLIENT_HEAD_MAX);
    c->url = dz_str_dup(dz_str(url));
    c->token = token ? dz_str_dup(dz_str(token)) : NULL;
    int rc = !c->url || (token && !c->token)
                 ? dz_fail(err, DZ_ENOMEM, "open %s: out of memory", url)
                 : parse(c, err);
    if (rc == 0)
        rc = dz_client_connect(c, err);
    if (rc < 0) {
        dz_client_close(c);
        return rc;
    }
    *ret_client = c;
    return 0;
}

void dz_client_close(struct dz_client *c)
{
    if (!c)
        return;
    dz_client_drop(c);
    dz_tls_context_free(c->trust);
    dz_buf_release(&c->head);
    dz_free(c->url);
    dz_free(c->path);
    dz_free(c->host);
    dz_free(c->token);
    dz_free(c);
}

void dz_client_stop(struct dz_client *c, bool (*asked)(void))
{
    c->stop = asked;
}

void dz_client_tick(struct dz_client *c, void (*fn)(void *arg), void *arg)
{
    c->tick = fn;
    c->tick_arg = arg;
}

void dz_client_closep(struct dz_client **c)
{
    dz_client_close(*c);
    *c = NULL;
}

/* --- bytes --------------------------------------------------------------------------------- */

/* As errno has it. */
static ssize_t of_tls(struct dz_client *c, ssize_t n)
{
    if (n >= 0)
        return n;
    c->want = n == DZ_TLS_WANT_WRITE ? POLLOUT : POLLIN;
    errno = n == DZ_TLS_BROKEN ? ECONNRESET : EAGAIN;
    return -1;
}

ssize_t dz_client_recv(struct dz_client *c, void *p, size_t n)
{
    c->want = POLLIN;
    return c->tls ? of_tls(c, dz_tls_read(c->tls, p, n)) : recv(c->fd, p, n, MSG_DONTWAIT);
}

ssize_t dz_client_send(struct dz_client *c, const void *p, size_t n)
{
    c->want = POLLOUT;
    return c->tls ? of_tls(c, dz_tls_write(c->tls, p, n))
                  : send(c->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int dz_client_write(struct dz_client *c, const char *p, size_t n, struct dz_err *err)
{
    while (n > 0) {
        ssize_t put = dz_client_send(c, p, n);
        if (put >= 0) {
            p += put;
            n -= (size_t)put;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno == EPIPE || errno == ECONNRESET)
            return dz_fail(err, DZ_EGONE, "%s closed the connection", c->url);
        if (errno != EAGAIN)
            return dz_fail_sys(err, errno, "send to %s", c->url);
        int rc = wait_for(c, c->want, c->timeout_ms, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

ssize_t dz_client_fill(struct dz_client *c, struct dz_err *err)
{
    assert(c->in_at == c->in_end);
    for (;;) {
        ssize_t n = dz_client_recv(c, c->in, sizeof c->in);
        if (n >= 0) {
            c->in_at = 0;
            c->in_end = (size_t)n;
            return n;
        }
        if (errno == ECONNRESET)
            return 0;
        if (errno != EAGAIN && errno != EINTR)
            return dz_fail_sys(err, errno, "read from %s", c->url);
        int rc = wait_for(c, c->want, c->timeout_ms, err);
        if (rc < 0)
            return rc;
    }
}

/* With TLS, bytes on the socket are not always bytes of the answer. */
bool dz_client_readable(struct dz_client *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    if (c->in_at < c->in_end || poll(&p, 1, 0) <= 0 || !c->tls)
        return c->in_at < c->in_end || p.revents;
    ssize_t n = dz_client_recv(c, c->in, sizeof c->in);
    c->in_at = 0;
    c->in_end = n > 0 ? (size_t)n : 0;
    return n >= 0 || errno != EAGAIN;
}

/* --- targets --------------------------------------------------------------------------------- */

/* Encode all characters but the unreserved ones of RFC 3986. */
static void encode(struct dz_buf *out, const char *s)
{
    for (; *s; s++) {
        char c = *s;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (plain)
            dz_buf_add(out, &c, 1);
        else
            dz_buf_addf(out, "%%%02X", (unsigned char)c);
    }
}

void dz_client_target(struct dz_buf *out, const char *pattern, ...)
{
    va_list args;
    const char *hole;
    va_start(args, pattern);
    while ((hole = strstr(pattern, "{}"))) {
        dz_buf_add(out, pattern, (size_t)(hole - pattern));
        encode(out, va_arg(args, const char *));
        pattern = hole + 2;
    }
    dz_buf_adds(out, pattern);
    va_end(args);
}

void dz_client_target_add(struct dz_buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    dz_buf_addf(out, "%c%s=", strchr(out->p, '?') ? '&' : '?', name);
    encode(out, value);
}
