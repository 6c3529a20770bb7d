/* SPDX-License-Identifier: MIT
 *
 * http_ws.c - WebSockets: after its 101 a connection belongs to its WebSocket. libwslay encodes
 * and decodes the frames; the connection's poll tells when.
 *
 *     new ──▶ (101 is sent) ──▶ open ──▶ closing ──▶ ended
 *      └─────────────▶ dropped with its request   └─ broken ──▶ ended
 *
 * Only end() ends a WebSocket. It runs from the loop (a poll or the timer), never inside a call of
 * the user: a call that finds the socket broken notes that and sets the timer to now. Otherwise
 * the timer is for the next ping or, after a closing frame was sent, for the end of the wait for
 * the client's closing frame.
 *
 * Invariants (assert_ws, after each turn): the connection and its WebSocket point at each other,
 * and a turn reads no more than its budget.
 */
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <wslay/wslay.h>

enum {
    KEY_TEXT = 24,    /* 16 bytes in base 64 */
    ACCEPT_TEXT = 29, /* 20 bytes, with the terminator */
    PINGS_MISSED = 2,
    ROOM_TURNS = 4,
    READS = 2,      /* of 4096 bytes in one turn: they may hold many messages */
    PONGS_MAX = 64, /* unsent pongs at which reading stops */
    REASON_MAX = 123,
    GONE = 1006, /* no closing frame came */
};

struct dz_ws {
    struct dz_http *http;
    struct dz_http_conn *conn; /* NULL before the upgrade */
    struct dz_list link;
    wslay_event_context_ptr ctx;
    const struct dz_ws_ops *ops;
    void *arg;
    struct dz_timer *timer;
    unsigned pings, pongs, stalled_ms;
    unsigned reads; /* left in this turn */
    int code;       /* code of the server's closing frame; 0: none */
    bool in_io;     /* io() is running; it checks the state at its end */
    bool paused, behind, broken;
    bool more; /* its turn ended before all was read: TLS may hold bytes that no poll reports */
    bool closing, close_queued; /* queued late, because libwslay sends a closing frame before
                                 * queued messages */
    char reason[REASON_MAX + 1];
};

/* --- the handshake ----------------------------------------------------------------------- */

static bool is_key(const char *s)
{
    return s && strlen(s) == KEY_TEXT && s[KEY_TEXT - 1] == '=' && s[KEY_TEXT - 2] == '=';
}

bool dz_http_wants_ws(const struct dz_http_req *r)
{
    const char *version = dz_http_header(r, "Sec-WebSocket-Version");
    return strcmp(r->head.method, "GET") == 0 &&
           dz_http_head_lists(&r->head, "Connection", "upgrade") &&
           dz_http_head_lists(&r->head, "Upgrade", "websocket") && version &&
           strcmp(version, "13") == 0 && is_key(dz_http_header(r, "Sec-WebSocket-Key"));
}

/* RFC 6455, 4.2.2: the hash of the key and a constant. */
static bool accept_text(const char *key, char out[static ACCEPT_TEXT])
{
    char text[KEY_TEXT + 40];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    (void)snprintf(text, sizeof text, "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    if (EVP_Digest(text, strlen(text), digest, &n, EVP_sha1(), NULL) != 1)
        return false;
    (void)EVP_EncodeBlock((unsigned char *)out, digest, (int)n);
    return true;
}

/* --- frames ------------------------------------------------------------------------------- */

/* Stop reading from a client that sends pings and reads no pongs: it would fill the queue. */
static bool is_choked(const struct dz_ws *w)
{
    return w->pongs >= PONGS_MAX && wslay_event_want_write(w->ctx);
}

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *p, size_t n, int flags, void *arg)
{
    struct dz_ws *w = arg;
    (void)flags;
    if (w->paused || w->broken || is_choked(w)) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    if (w->reads == 0) { /* others have their turn first */
        w->more = true;
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    w->reads--;
    ssize_t got = dz_http_read(w->conn, p, n);
    if (got > 0)
        return got;
    bool later = got == DZ_HTTP_IO_LATER;
    w->broken = !later;
    wslay_event_set_error(ctx, later ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *p, size_t n, int flags,
                       void *arg)
{
    struct dz_ws *w = arg;
    ssize_t sent = dz_http_write(w->conn, p, n, flags & WSLAY_MSG_MORE);
    if (sent >= 0) {
        w->stalled_ms = 0;
        return sent;
    }
    bool later = sent == DZ_HTTP_IO_LATER;
    w->broken = !later;
    wslay_event_set_error(ctx, later ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static void on_frame(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *arg)
{
    struct dz_ws *w = arg;
    w->pings = 0; /* any frame shows that the client is alive */
    if (!wslay_event_want_write(ctx))
        w->pongs = 0;
    w->pongs += frame->opcode == WSLAY_PING;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
                       void *arg)
{
    struct dz_ws *w = arg;
    (void)ctx;
    if (m->opcode == WSLAY_PING && w->ops->alive && !w->closing)
        w->ops->alive(w->arg);
    if (!wslay_is_ctrl_frame(m->opcode) && !w->closing)
        w->ops->message(w->arg, m->opcode == WSLAY_TEXT_FRAME,
                        dz_str_n((const char *)m->msg, m->msg_length));
}

/* --- the end -------------------------------------------------------------------------------- */

static void release(struct dz_ws *w)
{
    dz_list_remove(&w->link);
    dz_timer_free(w->timer);
    wslay_event_context_free(w->ctx);
    dz_free(w);
}

static int closing_code(const struct dz_ws *w)
{
    if (wslay_event_get_close_received(w->ctx)) {
        int code = wslay_event_get_status_code_received(w->ctx);
        return code ? code : 1005;
    }
    return w->code ? w->code : GONE;
}

static void end(struct dz_ws *w)
{
    const struct dz_ws_ops *ops = w->ops;
    void *arg = w->arg;
    int code = closing_code(w);
    if (w->conn) {
        w->conn->ws = NULL;
        if (w->conn->tls)
            dz_tls_goodbye(w->conn->tls);
        dz_http_conn_end(w->conn);
    }
    release(w);
    ops->closed(arg, code);
}

static bool is_over(const struct dz_ws *w)
{
    bool sent = wslay_event_get_close_sent(w->ctx);
    return w->broken || (sent && (wslay_event_get_close_received(w->ctx) ||
                                  !wslay_event_get_read_enabled(w->ctx)));
}

static void watch(struct dz_ws *w)
{
    bool read = wslay_event_want_read(w->ctx) && !is_choked(w);
    int events = w->paused ? DZ_POLL_HANGUP : read ? DZ_POLL_READ : 0;
    bool write = wslay_event_want_write(w->ctx) || w->behind || (w->more && read && !w->paused) ||
                 w->closing != w->close_queued;
    dz_http_conn_watch(w->conn, events | w->conn->want | (write ? DZ_POLL_WRITE : 0));
}

static void flush(struct dz_ws *w)
{
    if (wslay_event_want_write(w->ctx) && wslay_event_send(w->ctx) != 0)
        w->broken = true;
    if (!w->closing || w->close_queued || w->broken || wslay_event_want_write(w->ctx))
        return;
    w->close_queued = true;
    if (wslay_event_queue_close(w->ctx, (uint16_t)w->code, (const uint8_t *)w->reason,
                                strlen(w->reason)) == 0)
        w->broken = wslay_event_send(w->ctx) != 0;
    else
        w->broken = !wslay_event_get_close_received(w->ctx);
}

/* Count the queue against the tenant; false: over its limit. Nothing is counted before the upgrade
 * and after the request. */
static bool count(struct dz_ws *w)
{
    struct dz_http_req *r = w->conn ? w->conn->request : NULL;
    size_t n = wslay_event_get_queued_msg_length(w->ctx);
    return !r || dz_http_hold(r, &r->answer_held, n > DZ_HELD_FREE ? n : 0, true);
}

/* The client has caught up: call room(). A fast client may catch up again at once, so after some
 * rounds other connections get their turn (watch). */
static void give_room(struct dz_ws *w)
{
    for (int i = 0; i < ROOM_TURNS && w->behind && !w->broken && !w->closing; i++) {
        if (wslay_event_get_queued_msg_length(w->ctx) > 0)
            return;
        w->behind = false;
        w->ops->room(w->arg);
        flush(w);
    }
}

static void assert_ws(const struct dz_ws *w)
{
    assert(w->conn && w->conn->ws == w && w->conn->stage == DZ_HTTP_AT_SOCKET);
    assert(w->reads <= READS && w->in_io);
}

static void io(struct dz_ws *w)
{
    w->in_io = true;
    w->conn->want = 0;
    w->more = false;
    w->reads = READS;
    if (!w->paused && wslay_event_want_read(w->ctx) && wslay_event_recv(w->ctx) != 0)
        w->broken = true;
    flush(w);
    give_room(w);
    (void)count(w);
    assert_ws(w);
    w->in_io = false;
    if (is_over(w))
        end(w);
    else
        watch(w);
}

void dz_http_ws_poll(struct dz_ws *w, int events)
{
    if (w->paused && (events & DZ_POLL_HANGUP))
        w->broken = true;
    io(w);
}

/* Send a ping, or end a WebSocket whose client has not answered in time. */
static void on_timer(void *arg)
{
    struct dz_ws *w = arg;
    unsigned ms = w->closing ? DZ_HTTP_WS_CLOSE_MS : w->http->opts.ws_ping_ms;
    if (!w->conn) { /* before the upgrade the request ends it */
        dz_timer_after(w->timer, ms);
        return;
    }
    if (w->broken) {
        end(w);
        return;
    }
    if (wslay_event_want_write(w->ctx)) {
        w->stalled_ms += ms;
        w->broken = w->stalled_ms > DZ_HTTP_STALL_S * 1000u;
    } else if (w->closing) {
        w->broken = true; /* it has had its time */
    } else if (!w->paused) {
        const struct wslay_event_msg ping = {.opcode = WSLAY_PING};
        w->broken = ++w->pings > PINGS_MISSED;
        if (!w->broken)
            (void)wslay_event_queue_msg(w->ctx, &ping);
    }
    dz_timer_after(w->timer, ms);
    io(w);
}

static void soon(struct dz_ws *w)
{
    if (!w->in_io)
        dz_timer_after(w->timer, 0);
}

/* --- the beginning ---------------------------------------------------------------------------- */

void dz_http_ws_open(struct dz_ws *w, struct dz_http_conn *c)
{
    c->request->ws = NULL;
    w->conn = c;
    c->ws = w;
    if (w->broken)
        soon(w);
    else /* run at once, because bytes behind the request may have been read already */
        dz_http_conn_watch(c, DZ_POLL_READ | DZ_POLL_WRITE);
}

void dz_http_ws_drop(struct dz_ws *w)
{
    w->conn = NULL; /* it is being taken apart */
    end(w);
}

void dz_http_ws_end_all(struct dz_http *h)
{
    while (!dz_list_empty(&h->sockets)) {
        struct dz_ws *w = DZ_LIST_FIRST(struct dz_ws, &h->sockets, link);
        if (w->conn) {
            if (wslay_event_queue_close(w->ctx, WSLAY_CODE_GOING_AWAY, NULL, 0) == 0)
                (void)wslay_event_send(w->ctx);
            w->code = WSLAY_CODE_GOING_AWAY;
            end(w);
        } else { /* its request ends it */
            dz_list_remove(&w->link);
        }
    }
}

static struct dz_ws *new_socket(struct dz_http *h)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv,
        .send_callback = on_send,
        .on_frame_recv_start_callback = on_frame,
        .on_msg_recv_callback = on_message,
    };
    struct dz_ws *w = dz_zalloc(sizeof *w);
    if (!w)
        return NULL;
    *w = (struct dz_ws){.http = h};
    dz_list_init(&w->link);
    if (dz_mem_inject() || wslay_event_context_server_init(&w->ctx, &callbacks, w) != 0) {
        dz_free(w);
        return NULL;
    }
    wslay_event_config_set_max_recv_msg_length(w->ctx, DZ_HTTP_WS_MESSAGE_MAX);
    if (dz_timer_new(h->opts.loop, on_timer, w, &w->timer, NULL) < 0) {
        release(w);
        return NULL;
    }
    return w;
}

struct dz_ws *dz_http_ws(struct dz_http_req *r, const struct dz_ws_ops *ops, void *arg)
{
    char text[ACCEPT_TEXT];
    assert(dz_http_wants_ws(r));
    struct dz_ws *w = new_socket(r->http);
    if (!w || !accept_text(dz_http_header(r, "Sec-WebSocket-Key"), text)) {
        if (w)
            release(w);
        dz_http_cut_off(r);
        return NULL;
    }
    w->ops = ops;
    w->arg = arg;
    r->ws = w;
    dz_list_push_back(&r->http->sockets, &w->link);
    dz_timer_after(w->timer, r->http->opts.ws_ping_ms);
    dz_http_set(r, "Upgrade", "websocket");
    dz_http_set(r, "Sec-WebSocket-Accept", text);
    dz_http_switch(r);
    return w;
}

/* --- what the user does ------------------------------------------------------------------- */

static int broken(struct dz_ws *w, int rc)
{
    w->broken = true;
    soon(w);
    return rc;
}

int dz_ws_send(struct dz_ws *w, bool text, struct dz_str data)
{
    const struct wslay_event_msg m = {.opcode = text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
                                      .msg = (const uint8_t *)data.p,
                                      .msg_length = data.n};
    if (w->broken || w->closing)
        return DZ_ESTATE;
    if (wslay_event_get_queued_msg_length(w->ctx) + data.n > DZ_HTTP_WS_QUEUE_MAX)
        return broken(w, DZ_ELIMIT);
    int rc = wslay_event_queue_msg(w->ctx, &m);
    if (rc == WSLAY_ERR_NO_MORE_MSG)
        return DZ_ESTATE; /* the client has closed */
    if (rc != 0)
        return broken(w, DZ_ENOMEM);
    if (w->conn && !w->in_io) {
        flush(w);
        if (is_over(w))
            soon(w);
        else
            watch(w);
    }
    size_t queued = wslay_event_get_queued_msg_length(w->ctx);
    w->behind = (!count(w) && queued > 0) || w->behind || queued >= DZ_HTTP_WS_MARK;
    return w->behind;
}

void dz_ws_pause(struct dz_ws *w, bool paused)
{
    w->paused = paused;
    if (w->conn && !w->in_io && paused)
        watch(w);
    else if (w->conn && !w->in_io) /* no poll reports bytes that were read ahead */
        dz_http_conn_watch(w->conn, DZ_POLL_READ | DZ_POLL_WRITE);
}

void dz_ws_close(struct dz_ws *w, int code, const char *reason)
{
    if (w->closing || w->broken)
        return;
    w->closing = true;
    w->paused = false;
    w->code = code;
    (void)snprintf(w->reason, sizeof w->reason, "%s", reason ? reason : "");
    dz_timer_after(w->timer, DZ_HTTP_WS_CLOSE_MS);
    if (w->conn && !w->in_io)
        dz_http_conn_watch(w->conn, DZ_POLL_READ | DZ_POLL_WRITE);
}
