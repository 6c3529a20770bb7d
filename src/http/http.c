/* SPDX-License-Identifier: MIT
 *
 * The server: listeners, and libmicrohttpd run by our loop.
 *
 * libmicrohttpd has no thread here. It watches its connections by an epoll descriptor of
 * its own; when that is readable, or a deadline of its is due, or somebody resumed a
 * connection, MHD_run does what there is to do without waiting. It must not be called
 * from its own callbacks, nor from what a handler calls, so a resumed connection is run
 * by a timer of zero milliseconds: the loop comes to it before it waits.
 *
 * Connections are accepted here and not there: so there may be several listeners, and
 * at the limit they wait in the kernel instead of being thrown out.
 */
#include "http/http.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- running ----------------------------------------------------------------------- */

static void run(struct dz_http *h)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    h->running = true;
    h->again = false;
    (void)MHD_run(h->mhd);
    h->running = false;
    if (h->again)
        dz_timer_after(h->timer, 0);
    else if (MHD_get_timeout(h->mhd, &ms) == MHD_YES)
        dz_timer_after(h->timer, ms > INT32_MAX ? INT32_MAX : (int64_t)ms);
    else
        dz_timer_stop(h->timer);
}

static void on_timer(void *arg)
{
    run(arg);
}

static void on_epoll(void *arg, int events)
{
    (void)events;
    run(arg);
}

void dz_http_kick(struct dz_http *h)
{
    if (!h->again && !h->running && !h->ending)
        dz_timer_after(h->timer, 0);
    h->again = true;
}

void dz_http_poll_set(struct dz_poll *poll, int events)
{
    int rc = dz_poll_set(poll, events, NULL); /* fails only for want of kernel memory */
    (void)rc;
}

/* --- accepting ---------------------------------------------------------------------- */

static void listen_for(struct dz_http *h, bool on)
{
    h->full = !on;
    for (size_t i = 0; i < h->listener_count; i++)
        dz_http_poll_set(h->listeners[i].poll, on ? DZ_POLL_READ : 0);
}

void dz_http_refill(struct dz_http *h)
{
    if (h->full && !h->ending && h->connection_count < h->opts.connections_max)
        listen_for(h, true);
}

static void on_retry(void *arg)
{
    dz_http_refill(arg);
}

static void on_listener(void *arg, int events)
{
    struct dz_http_listener *l = arg;
    struct dz_http *h = l->http;
    (void)events;
    for (int i = 0; i < DZ_HTTP_ACCEPT_BATCH; i++) {
        struct sockaddr_storage addr;
        socklen_t len = sizeof addr;
        if (h->connection_count >= h->opts.connections_max) {
            listen_for(h, false);
            break;
        }
        int fd = accept4(l->fd, (struct sockaddr *)&addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            listen_for(h, false); /* it would stay readable and spin */
            dz_timer_after(h->retry, DZ_HTTP_ACCEPT_PAUSE_MS);
        }
        if (fd < 0)
            break;
        (void)MHD_add_connection(h->mhd, fd, (struct sockaddr *)&addr, len); /* closes it if not */
    }
    run(h);
}

int dz_http_listen_fd(struct dz_http *h, int fd, struct dz_err *err)
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
    l->fd = fd;
    l->http = h;
    h->listener_count++;
    return dz_poll_set(l->poll, h->full ? 0 : DZ_POLL_READ, err);
}

int dz_http_listen_unix(struct dz_http *h, const char *path, struct dz_err *err)
{
    DZ_AUTO(dz_freep) char *copy = dz_str_dup(dz_str(path));
    if (!copy)
        return dz_fail(err, DZ_ENOMEM, "listen at %s: out of memory", path);
    int fd = dz_fd_unix_listen(path, 0600, err);
    if (fd < 0)
        return fd;
    int rc = dz_http_listen_fd(h, fd, err);
    if (rc < 0)
        (void)unlink(path);
    else
        h->listeners[h->listener_count - 1].path = DZ_TAKE_PTR(copy);
    return rc;
}

void dz_http_quiesce(struct dz_http *h)
{
    h->quiesced = true;
    for (; h->listener_count > 0; h->listener_count--) {
        struct dz_http_listener *l = &h->listeners[h->listener_count - 1];
        dz_poll_free(l->poll);
        dz_fd_close(&l->fd);
        if (l->path)
            (void)unlink(l->path);
        dz_free(l->path);
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

static size_t unescape_nothing(void *cls, struct MHD_Connection *c, char *s)
{
    (void)cls;
    (void)c;
    return strlen(s); /* http_route.c decodes, segment by segment */
}

/* libmicrohttpd's own answers (a malformed request line) end here as text to nobody. */
static void no_log(void *cls, const char *fmt, va_list args)
{
    (void)cls;
    (void)fmt;
    (void)args;
}

static int start(struct dz_http *h, struct dz_err *err)
{
    const union MHD_DaemonInfo *info;
    if (dz_mem_inject())
        return dz_fail(err, DZ_ENOMEM, "start the HTTP server: out of memory");
    h->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE, 0,
        NULL, NULL, dz_http_on_request, h, MHD_OPTION_EXTERNAL_LOGGER, no_log, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, dz_http_on_target, h, MHD_OPTION_UNESCAPE_CALLBACK,
        unescape_nothing, NULL, MHD_OPTION_NOTIFY_COMPLETED, dz_http_on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, dz_http_on_connection, h, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_CONNECTION_LIMIT, h->opts.connections_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)DZ_HTTP_HEAD_MAX, MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)4096,
        MHD_OPTION_CONNECTION_TIMEOUT, h->opts.idle_s, MHD_OPTION_END);
    if (!h->mhd)
        return dz_fail_sys(err, errno ? errno : ENOMEM, "start the HTTP server");
    info = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    int rc = dz_poll_new(h->opts.loop, info->epoll_fd, on_epoll, h, &h->poll, err);
    return rc < 0 ? rc : dz_poll_set(h->poll, DZ_POLL_READ, err);
}

int dz_http_new(const struct dz_http_opts *opts, struct dz_http **ret_http, struct dz_err *err)
{
    struct dz_http *h = dz_zalloc(sizeof *h);
    if (!h)
        return dz_fail(err, DZ_ENOMEM, "start the HTTP server: out of memory");
    h->opts = *opts;
    if (!h->opts.connections_max)
        h->opts.connections_max = DZ_HTTP_CONNECTIONS_MAX;
    if (!h->opts.idle_s)
        h->opts.idle_s = DZ_HTTP_IDLE_S;
    if (!h->opts.sse_comment_ms)
        h->opts.sse_comment_ms = DZ_HTTP_SSE_COMMENT_MS;
    if (!h->opts.ws_ping_ms)
        h->opts.ws_ping_ms = DZ_HTTP_WS_PING_MS;
    dz_list_init(&h->connections);
    dz_list_init(&h->requests);
    dz_list_init(&h->sockets);
    dz_list_init(&h->streams);
    dz_map_init(&h->waiting, h->opts.connections_max);
    dz_map_init(&h->streaming, h->opts.connections_max);
    int rc = dz_timer_new(opts->loop, on_timer, h, &h->timer, err);
    if (rc == 0)
        rc = dz_timer_new(opts->loop, on_retry, h, &h->retry, err);
    if (rc == 0)
        rc = dz_http_mhd_load(err);
    if (rc == 0)
        rc = start(h, err);
    if (rc < 0) {
        dz_http_free(h);
        return rc;
    }
    *ret_http = h;
    return 0;
}

/* Suspended connections must be resumed before libmicrohttpd may end. */
static void end_requests(struct dz_http *h)
{
    dz_http_ws_end_all(h);
    DZ_LIST_FOREACH(struct dz_http_req, r, &h->requests, link)
        dz_http_req_gone(r);
    (void)MHD_run(h->mhd);
}

void dz_http_free(struct dz_http *h)
{
    if (!h)
        return;
    h->ending = true;
    dz_http_quiesce(h);
    if (h->mhd) {
        end_requests(h);
        dz_poll_free(h->poll);
        MHD_stop_daemon(h->mhd);
    }
    DZ_LIST_FOREACH(struct dz_http_req, r, &h->requests, link) { /* kept, without a client */
        (void)dz_map_remove64(&h->waiting, r->id);
        dz_http_req_over(r);
    }
    assert(h->request_count == 0 && h->connection_count == 0);
    dz_timer_free(h->timer);
    dz_timer_free(h->retry);
    dz_timer_free(h->tick);
    dz_map_release(&h->waiting);
    dz_map_release(&h->streaming);
    dz_free(h);
}
