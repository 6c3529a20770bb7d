/* SPDX-License-Identifier: MIT
 *
 * Connections: each has a poll of its own beside libmicrohttpd's. While that sleeps on a
 * connection (its request waits for an answer, its stream for something to send), it
 * watches nothing, so a client that hangs up would go unnoticed; the poll sees it, also
 * behind bytes that nobody has read. Later the poll is the WebSocket's.
 *
 * A client that shuts only its sending side cannot be told from one that left, over TCP;
 * it counts as gone on every kind of socket.
 */
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>
#include <sys/socket.h>

static void on_poll(void *arg, int events)
{
    struct dz_http_conn *c = arg;
    if (c->ws)
        dz_http_ws_poll(c->ws, events);
    else if (c->request && (events & DZ_POLL_HANGUP))
        dz_http_req_gone(c->request);
}

void dz_http_conn_watch(struct dz_http_conn *c, int events)
{
    dz_http_poll_set(c->poll, events);
}

static int64_t peer_uid(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid == 0)
        return -1;
    return peer.uid;
}

static struct dz_http_conn *begin(struct dz_http *h, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct dz_http_conn *c = dz_zalloc(sizeof *c);
    if (!c)
        return NULL;
    *c = (struct dz_http_conn){.http = h, .fd = info->connect_fd};
    if (dz_poll_new(h->opts.loop, c->fd, on_poll, c, &c->poll, NULL) < 0) {
        dz_free(c);
        return NULL;
    }
    c->peer_uid = peer_uid(c->fd);
    dz_list_init(&c->link);
    dz_list_push_back(&h->connections, &c->link);
    return c;
}

void dz_http_on_connection(void *http, struct MHD_Connection *mhd, void **socket_context,
                           enum MHD_ConnectionNotificationCode code)
{
    struct dz_http *h = http;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        h->connection_count++;
        *socket_context = begin(h, mhd); /* NULL: its first request is refused */
        return;
    }
    struct dz_http_conn *c = *socket_context;
    h->connection_count--;
    if (c) {
        assert(!c->request);
        dz_poll_free(c->poll);
        dz_list_remove(&c->link);
        dz_free(c);
    }
    dz_http_refill(h);
}
