/* SPDX-License-Identifier: MIT
 *
 * http.c - the server: listeners, limits of connections, deadlines, creation and end.
 *
 * At the limit, new connections wait in the kernel. Some places are reserved for unix sockets, so
 * that the operator can connect even if strangers have taken all others.
 *
 * Invariants (assert_server, where a connection comes or goes):
 *   1. connection_count is the number of connections in the list; each address's count is the
 *      number of its TCP connections.
 *   2. While there are connections, the clock of deadlines runs. Not asserted: a timer does not
 *      tell whether it is set.
 */
#include "http/http.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"
#include "http/http_int.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    RESERVED = 64,    /* connections reserved for unix sockets */
    TICK_MS = 1000,   /* between two checks of the deadlines, at most */
    TICK_MIN_MS = 10, /* and at least */
    TICK_PARTS = 4,   /* of the shortest deadline */
};

/* Connections from one address. */
struct address {
    uint8_t key[16];
    size_t key_size, count;
};

/* --- running ------------------------------------------------------------------------------- */

/* Run the connections that were kicked. Those kicked meanwhile run in the next turn. */
static void on_soon(void *arg)
{
    struct dz_http *h = arg;
    struct dz_list now = DZ_LIST_INIT(now);
    dz_list_splice_back(&now, &h->ready);
    while (!dz_list_empty(&now)) {
        struct dz_http_conn *c = DZ_LIST_FIRST(struct dz_http_conn, &now, ready);
        dz_list_remove(&c->ready);
        dz_http_conn_run(c);
    }
    if (!dz_list_empty(&h->ready))
        dz_timer_after(h->soon, 0);
}

static void on_clock(void *arg)
{
    struct dz_http *h = arg;
    int64_t now = dz_clock_mono_ms();
    DZ_LIST_FOREACH(struct dz_http_conn, c, &h->connections, link)
        if (c->deadline_ms && c->deadline_ms <= now)
            dz_http_conn_late(c);
    if (h->connection_count > 0)
        dz_timer_after(h->clock, h->clock_ms);
}

/* --- accepting ----------------------------------------------------------------------------- */

static size_t places(const struct dz_http_listener *l)
{
    size_t max = l->http->opts.connections_max;
    return l->tcp && max > (size_t)2 * RESERVED ? max - RESERVED : max;
}

static void listen_again(struct dz_http *h)
{
    h->full = false;
    for (size_t i = 0; i < h->listener_count; i++) {
        bool room = h->connection_count < places(&h->listeners[i]);
        dz_http_poll_set(h->listeners[i].poll, room ? DZ_POLL_READ : 0);
        h->full = h->full || !room;
    }
}

static void on_retry(void *arg)
{
    struct dz_http *h = arg;
    if (h->full && !h->ending)
        listen_again(h);
}

size_t dz_http_address_key(const struct dz_http_conn *c, uint8_t out[static 16])
{
    memcpy(out, c->address.s6_addr, 16);
    return IN6_IS_ADDR_V4MAPPED(&c->address) ? 16
                                             : 8; /* one client usually has a whole IPv6 network */
}

/* Count a connection of this address; false: the address has too many. */
static bool count_in(struct dz_http *h, const struct dz_http_conn *c)
{
    uint8_t key[16];
    size_t n = dz_http_address_key(c, key);
    struct address *a = dz_map_get(&h->addresses, dz_str_n((char *)key, n));
    if (!a && !(a = dz_zalloc(sizeof *a)))
        return false;
    if (a->count == 0) {
        memcpy(a->key, key, n);
        a->key_size = n;
        if (dz_map_put(&h->addresses, dz_str_n((char *)a->key, n), a, NULL) < 0) {
            dz_free(a);
            return false;
        }
    }
    return ++a->count <= h->opts.address_max;
}

static void count_out(struct dz_http *h, const struct dz_http_conn *c)
{
    uint8_t key[16];
    size_t n = dz_http_address_key(c, key);
    struct address *a = dz_map_get(&h->addresses, dz_str_n((char *)key, n));
    if (a && --a->count == 0) {
        (void)dz_map_remove(&h->addresses, dz_str_n((char *)key, n));
        dz_free(a);
    }
}

static void assert_server(const struct dz_http *h)
{
    size_t tcp = 0, counted = 0;
    if (!DZ_CHECK_DEEP)
        return;
    assert(h->connection_count == dz_list_count(&h->connections));
    DZ_LIST_FOREACH(struct dz_http_conn, c, &h->connections, link)
        tcp += c->tcp;
    DZ_MAP_FOREACH(it, &h->addresses)
        counted += ((const struct address *)it->value)->count;
    assert(tcp == counted);
}

void dz_http_conn_over(struct dz_http *h, const struct dz_http_conn *c)
{
    h->connection_count--;
    if (c->tcp)
        count_out(h, c);
    assert_server(h);
    if (h->full && !h->ending)
        listen_again(h);
}

static void take_in(struct dz_http_listener *l, int fd, const struct sockaddr_storage *from)
{
    struct dz_http *h = l->http;
    struct dz_http_conn *c = dz_http_conn_new(l, fd, from);
    if (!c)
        return;
    if (h->connection_count++ == 0)
        dz_timer_after(h->clock, h->clock_ms);
    if (l->tcp && !count_in(h, c)) {
        dz_http_conn_free(c);
        return;
    }
    assert_server(h);
    dz_http_conn_run(c); /* its first request has often arrived already */
}

static void on_listener(void *arg, int events)
{
    struct dz_http_listener *l = arg;
    struct dz_http *h = l->http;
    (void)events;
    for (int i = 0; i < DZ_HTTP_ACCEPT_BATCH; i++) {
        struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
        socklen_t len = sizeof from;
        if (h->connection_count >= places(l)) {
            h->full = true;
            dz_http_poll_set(l->poll, 0);
            return;
        }
        int fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            h->full = true; /* otherwise it stays readable and the loop spins */
            dz_http_poll_set(l->poll, 0);
            dz_timer_after(h->retry, DZ_HTTP_ACCEPT_PAUSE_MS);
        }
        if (fd < 0)
            return;
        take_in(l, fd, &from);
    }
}

/* Add a listening socket. Takes ownership of the descriptor, also on failure. */
static int listen_fd(struct dz_http *h, int fd, struct dz_err *err)
{
    struct dz_http_listener *l = &h->listeners[h->listener_count];
    int rc = 0;
    if (h->listener_count == DZ_HTTP_LISTENERS_MAX)
        rc = dz_fail(err, DZ_ELIMIT, "listen: at most %d sockets", DZ_HTTP_LISTENERS_MAX);
    if (rc == 0)
        rc = dz_poll_new(h->opts.loop, fd, on_listener, l, &l->poll, err);
    if (rc < 0) {
        dz_fd_close(&fd);
        return rc;
    }
    *l = (struct dz_http_listener){.fd = fd, .poll = l->poll, .http = h};
    h->listener_count++;
    return dz_poll_set(l->poll, DZ_POLL_READ, err);
}

int dz_http_listen_unix(struct dz_http *h, const char *path, struct dz_err *err)
{
    DZ_AUTO(dz_freep) char *copy = dz_str_dup(dz_str(path));
    if (!copy)
        return dz_fail(err, DZ_ENOMEM, "listen at %s: out of memory", path);
    int fd = dz_fd_unix_listen(path, 0600, err);
    if (fd < 0)
        return fd;
    struct stat st = {0};
    int rc = lstat(path, &st) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0
                 ? dz_fail_sys(err, errno, "listen at %s", path)
                 : 0;
    if (rc < 0)
        dz_fd_close(&fd);
    else
        rc = listen_fd(h, fd, err);
    if (rc < 0) {
        (void)unlink(path);
        return rc;
    }
    struct dz_http_listener *l = &h->listeners[h->listener_count - 1];
    l->path = DZ_TAKE_PTR(copy);
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    return 0;
}

void dz_http_quiesce(struct dz_http *h)
{
    h->quiesced = true;
}

static void unlisten(struct dz_http *h)
{
    for (; h->listener_count > 0; h->listener_count--) {
        struct dz_http_listener *l = &h->listeners[h->listener_count - 1];
        struct stat st;
        if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
            (void)unlink(l->path); /* unlink before closing, so that no process takes the socket
                                    * for a stale one */
        dz_poll_free(l->poll);
        dz_fd_close(&l->fd);
        dz_free(l->path);
    }
}

void dz_http_cut(struct dz_http *h, bool (*find)(const struct dz_http_req *r, void *arg), void *arg)
{
    DZ_LIST_FOREACH(struct dz_http_conn, c, &h->connections, link) {
        struct dz_http_req *r = c->request;
        if (!r || !r->match.route || !find(r, arg))
            continue;
        c->close = true;
        if (!r->answered || r->source || c->ws || c->pass)
            dz_http_conn_end(c);
    }
}

size_t dz_http_connections(const struct dz_http *h)
{
    return h->connection_count;
}

size_t dz_http_requests(const struct dz_http *h)
{
    return h->request_count;
}

/* --- birth and death ------------------------------------------------------------------ */

static void set_defaults(struct dz_http *h)
{
    struct dz_http_opts *o = &h->opts;
#define DEFAULT(field, value) o->field = o->field ? o->field : (value)
    DEFAULT(connections_max, DZ_HTTP_CONNECTIONS_MAX);
    DEFAULT(address_max, DZ_HTTP_ADDRESS_MAX);
    DEFAULT(idle_s, DZ_HTTP_IDLE_S);
    DEFAULT(stall_s, DZ_HTTP_STALL_S);
    DEFAULT(head_ms, DZ_HTTP_TIME_HEAD_MS);
    DEFAULT(body_ms, DZ_HTTP_TIME_BODY_MS);
    DEFAULT(send_ms, DZ_HTTP_TIME_SEND_MS);
    DEFAULT(sse_comment_ms, DZ_HTTP_SSE_COMMENT_MS);
    DEFAULT(ws_ping_ms, DZ_HTTP_WS_PING_MS);
#undef DEFAULT
    unsigned least = o->head_ms < o->body_ms ? o->head_ms : o->body_ms;
    least = least < o->send_ms ? least : o->send_ms;
    least = least < o->idle_s * 1000 ? least : o->idle_s * 1000;
    h->clock_ms = least / TICK_PARTS;
    h->clock_ms = h->clock_ms > TICK_MS       ? TICK_MS
                  : h->clock_ms < TICK_MIN_MS ? TICK_MIN_MS
                                              : h->clock_ms;
}

int dz_http_new(const struct dz_http_opts *opts, struct dz_http **ret_http, struct dz_err *err)
{
    struct dz_http *h = dz_zalloc(sizeof *h);
    if (!h)
        return dz_fail(err, DZ_ENOMEM, "start the HTTP server: out of memory");
    h->opts = *opts;
    set_defaults(h);
    dz_list_init(&h->connections);
    dz_list_init(&h->ready);
    dz_list_init(&h->sockets);
    dz_list_init(&h->streams);
    dz_list_init(&h->orphans);
    dz_list_init(&h->shaking);
    dz_map_init(&h->waiting, h->opts.connections_max);
    dz_map_init(&h->streaming, h->opts.connections_max);
    dz_map_init(&h->addresses, h->opts.connections_max);
    int rc = dz_timer_new(opts->loop, on_soon, h, &h->soon, err);
    if (rc == 0)
        rc = dz_timer_new(opts->loop, on_retry, h, &h->retry, err);
    if (rc == 0)
        rc = dz_timer_new(opts->loop, on_clock, h, &h->clock, err);
    if (rc == 0)
        rc = dz_timer_new(opts->loop, dz_http_conn_shake, h, &h->shake, err);
    if (rc < 0) {
        dz_http_free(h);
        return rc;
    }
    *ret_http = h;
    return 0;
}

void dz_http_free(struct dz_http *h)
{
    if (!h)
        return;
    h->ending = true;
    unlisten(h);
    dz_http_ws_end_all(h);
    DZ_LIST_FOREACH(struct dz_http_conn, c, &h->connections, link)
        dz_http_conn_free(c);
    DZ_LIST_FOREACH(struct dz_http_req, r, &h->orphans, link) {
        (void)dz_map_remove64(&h->waiting, r->id); /* removed first, so that on_gone is not
                                                    * called */
        dz_http_req_over(r);
    }
    assert(h->request_count == 0 && h->connection_count == 0);
    dz_timer_free(h->soon);
    dz_timer_free(h->retry);
    dz_timer_free(h->clock);
    dz_timer_free(h->tick);
    dz_timer_free(h->shake);
    dz_map_release(&h->waiting);
    dz_map_release(&h->streaming);
    dz_map_release(&h->addresses);
    dz_tls_context_free(h->tls);
    dz_free(h);
}

/* --- listeners on TCP, with TLS or on local addresses ------------------------------------ */

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

/* Split HOST:PORT into its parts. */
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
        return dz_fail(err, DZ_EINVAL, "listen at %s: put an IPv6 address in brackets",
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
    int rc = listen_fd(h, fd, err);
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
            rc = dz_fail(
                err, DZ_EDENIED,
                "listen at %s: without TLS others could read the traffic, tokens included: set tls.certificate and tls.key, or listen.plain if a proxy does TLS",
                address);
        else
            rc = listen_one(h, address, a, err);
    }
    freeaddrinfo(list);
    return rc;
}
