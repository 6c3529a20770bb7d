/* SPDX-License-Identifier: MIT
 *
 * client_ws.c - WebSocket, the client's side: the upgrade over the client's connection, libwslay's
 * frames.
 */
#include "base/id.h"
#include "base/mem.h"
#include "client/client_int.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

struct dz_client_ws {
    struct dz_client *c;
    wslay_event_context_ptr ctx;
    const struct dz_client_ws_ops *ops;
    void *arg;
    struct dz_err *err; /* error of the call in progress */
    int rc;             /* result of message() */
    bool ended;         /* the connection */
    char reason[124];
};

/* --- frames ------------------------------------------------------------------------------- */

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *p, size_t n, int flags, void *arg)
{
    struct dz_client_ws *w = arg;
    struct dz_client *c = w->c;
    size_t have = c->in_end - c->in_at;
    (void)flags;
    if (w->rc != 0) { /* message() ended the call: read no more */
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    if (have > 0) {
        n = n < have ? n : have;
        memcpy(p, c->in + c->in_at, n);
        c->in_at += n;
        return (ssize_t)n;
    }
    ssize_t got = dz_client_recv(c, p, n);
    if (got > 0)
        return got;
    bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
    w->ended = !later;
    wslay_event_set_error(ctx, later ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *p, size_t n, int flags,
                       void *arg)
{
    struct dz_client_ws *w = arg;
    (void)flags;
    ssize_t put = dz_client_send(w->c, p, n);
    if (put >= 0)
        return put;
    bool later = errno == EAGAIN || errno == EINTR;
    w->ended = !later;
    wslay_event_set_error(ctx, later ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static int on_mask(wslay_event_context_ptr ctx, uint8_t *p, size_t n, void *arg)
{
    (void)ctx;
    (void)arg;
    return dz_random(p, n, NULL) < 0 ? -1 : 0;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
                       void *arg)
{
    struct dz_client_ws *w = arg;
    (void)ctx;
    if (m->opcode == WSLAY_CONNECTION_CLOSE && m->msg_length > 2)
        (void)snprintf(w->reason, sizeof w->reason, "%.*s", (int)(m->msg_length - 2), m->msg + 2);
    if (!wslay_is_ctrl_frame(m->opcode) && w->rc == 0)
        w->rc = w->ops->message(w->arg, m->opcode == WSLAY_TEXT_FRAME,
                                dz_str_n((const char *)m->msg, m->msg_length), w->err);
}

/* --- opening and closing ------------------------------------------------------------------ */

static int upgrade(struct dz_client *c, const char *target, struct dz_err *err)
{
    /* The key guards against caches and proxies. There are none on our own connection, so any key
     * will do. */
    const struct dz_client_req req = {
        .method = "GET",
        .target = target,
        .timeout_ms = -1,
        .headers = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                   "Sec-WebSocket-Key: ZG96ZS1jbGllbnQta2V5LQ==\r\n"};
    int rc = dz_client_begin(c, &req, err);
    return rc == 101 ? 0
           : rc < 0  ? rc
                     : dz_fail(err, DZ_EIO, "%s did not accept the WebSocket", c->url);
}

int dz_client_ws_open(struct dz_client *c, const char *target, const struct dz_client_ws_ops *ops,
                      void *arg, struct dz_client_ws **ret_ws, struct dz_err *err)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = on_recv,
                                                           .send_callback = on_send,
                                                           .genmask_callback = on_mask,
                                                           .on_msg_recv_callback = on_message};
    int rc = upgrade(c, target, err);
    if (rc < 0)
        return rc;
    struct dz_client_ws *w = dz_zalloc(sizeof *w);
    if (!w || wslay_event_context_client_init(&w->ctx, &callbacks, w) != 0) {
        dz_free(w);
        dz_client_drop(c);
        return dz_fail(err, DZ_ENOMEM, "open a WebSocket: out of memory");
    }
    w->c = c;
    w->ops = ops;
    w->arg = arg;
    wslay_event_config_set_max_recv_msg_length(w->ctx, DZ_CLIENT_BODY_MAX);
    *ret_ws = w;
    return 0;
}

void dz_client_ws_close(struct dz_client_ws *w)
{
    if (!w)
        return;
    if (!w->ended && wslay_event_queue_close(w->ctx, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0) == 0)
        (void)wslay_event_send(w->ctx);
    wslay_event_context_free(w->ctx);
    dz_client_drop(w->c);
    dz_free(w);
}

/* --- use ---------------------------------------------------------------------------------- */

int dz_client_ws_fd(const struct dz_client_ws *w)
{
    return w->c->fd;
}

short dz_client_ws_events(const struct dz_client_ws *w)
{
    return (short)(POLLIN | (wslay_event_want_write(w->ctx) ? POLLOUT : 0));
}

size_t dz_client_ws_queued(const struct dz_client_ws *w)
{
    return wslay_event_get_queued_msg_length(w->ctx);
}

int dz_client_ws_send(struct dz_client_ws *w, bool text, struct dz_str data, struct dz_err *err)
{
    const struct wslay_event_msg m = {.opcode = text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
                                      .msg = (const uint8_t *)data.p,
                                      .msg_length = data.n};
    int rc = wslay_event_queue_msg(w->ctx, &m);
    if (rc == WSLAY_ERR_NO_MORE_MSG)
        return 0; /* it is being closed: io() tells */
    if (rc != 0)
        return dz_fail(err, DZ_ENOMEM, "send to %s: out of memory", w->c->url);
    return 0;
}

int dz_client_ws_io(struct dz_client_ws *w, struct dz_err *err)
{
    w->err = err;
    w->rc = 0;
    bool broken = wslay_event_want_read(w->ctx) && wslay_event_recv(w->ctx) != 0;
    broken = (wslay_event_want_write(w->ctx) && wslay_event_send(w->ctx) != 0) || broken;
    w->err = NULL;
    if (w->rc != 0)
        return w->rc;
    bool closed = wslay_event_get_close_received(w->ctx);
    if (!broken && !w->ended && !closed && wslay_event_want_read(w->ctx))
        return 0;
    w->ended = w->ended || broken;
    return dz_fail(err, DZ_EGONE, "%s closed the connection%s%s", w->c->url,
                   w->reason[0] ? ": " : "", w->reason);
}
