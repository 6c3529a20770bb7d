/* SPDX-License-Identifier: MIT
 *
 * http_conn.c - a connection: its bytes, by TLS or not, and its stages; http_int.h has the picture.
 *
 * While a request waits for its answer, or a stream for something to send, nothing is read, and
 * the poll watches for the peer's hang-up, which it reports even behind bytes that nobody has
 * read. Over TCP a client that shuts only its sending side cannot be told from one that left; it
 * counts as gone on every kind of socket.
 *
 * Deadlines: a client has a limited time for a head, for each piece of a body, for reading each
 * piece of an answer, and between requests. `moved` counts bytes, so one byte now and then does
 * not extend the deadline.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <unistd.h>

/* --- bytes ------------------------------------------------------------------------------- */

enum {
    IN_MAX = DZ_HTTP_HEAD_MAX + DZ_IO_PIECE,
};

/* The result of a TLS call as an I/O result. TLS may need to write while it reads, so note what to
 * poll for. */
static ssize_t of_tls(struct dz_http_conn *c, ssize_t n)
{
    if (n == DZ_TLS_WANT_READ || n == DZ_TLS_WANT_WRITE) {
        c->want |= n == DZ_TLS_WANT_READ ? DZ_POLL_READ : DZ_POLL_WRITE;
        return DZ_HTTP_IO_LATER;
    }
    return n < 0 ? DZ_HTTP_IO_BROKEN : n;
}

static ssize_t of_socket(ssize_t n)
{
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? DZ_HTTP_IO_LATER : DZ_HTTP_IO_BROKEN;
}

static ssize_t receive(struct dz_http_conn *c, void *p, size_t n)
{
    ssize_t got =
        c->tls ? of_tls(c, dz_tls_read(c->tls, p, n)) : of_socket(recv(c->fd, p, n, MSG_DONTWAIT));
    c->moved += got > 0 ? (uint64_t)got : 0;
    return got;
}

void dz_http_in_release(struct dz_http_conn *c)
{
    dz_free(c->in.p);
    c->in = (struct dz_http_in){NULL, 0, 0, 0};
}

ssize_t dz_http_read(struct dz_http_conn *c, void *p, size_t n)
{
    size_t have = c->in.end - c->in.at;
    if (have == 0)
        return receive(c, p, n);
    n = n < have ? n : have;
    memcpy(p, c->in.p + c->in.at, n);
    c->in.at += n;
    if (c->in.at == c->in.end)
        dz_http_in_release(c);
    return (ssize_t)n;
}

ssize_t dz_http_write(struct dz_http_conn *c, const void *p, size_t n, bool more)
{
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
    ssize_t put =
        c->tls ? of_tls(c, dz_tls_write(c->tls, p, n)) : of_socket(send(c->fd, p, n, flags));
    c->moved += put > 0 ? (uint64_t)put : 0;
    return put;
}

/* Room for n bytes behind c->in.end; false: out of memory. */
static bool make_room(struct dz_http_in *in, size_t n)
{
    if (in->at > 0) {
        memmove(in->p, in->p + in->at, in->end - in->at);
        in->end -= in->at;
        in->at = 0;
    }
    if (in->size - in->end >= n)
        return true;
    size_t size = in->end + n < IN_MAX ? in->end + n : IN_MAX;
    char *p = dz_realloc(in->p, size);
    if (!p)
        return false;
    in->p = p;
    in->size = size;
    return true;
}

ssize_t dz_http_fill(struct dz_http_conn *c, size_t room)
{
    struct dz_http_in *in = &c->in;
    if (in->size - in->end < room / 4 && !make_room(in, room))
        return DZ_HTTP_IO_BROKEN;
    assert(in->size > in->end);
    ssize_t n = receive(c, in->p + in->end, in->size - in->end);
    if (n > 0)
        in->end += (size_t)n;
    else if (in->at == in->end)
        dz_http_in_release(c);
    return n;
}

enum {
    ROOM = 4096, /* bytes read at a time while the head is incomplete */
    LINGER_MS = 2000,
    BODY_PIECE = 16 << 10, /* bytes that extend the deadline by body_ms */
    SEND_PIECE = 64 << 10, /* bytes that extend the deadline by send_ms; for an answer in memory: */
    HELD_PIECES = 20,      /* at least this fraction of it */
};

/* --- the loop's side ------------------------------------------------------------------------ */

void dz_http_conn_watch(struct dz_http_conn *c, int events)
{
    if (c->polled != events)
        dz_http_poll_set(c->poll, events);
    c->polled = events;
}

void dz_http_conn_kick(struct dz_http_conn *c)
{
    if (c->running) {
        c->again = true;
        return;
    }
    if (!dz_list_empty(&c->ready))
        return;
    dz_list_push_back(&c->http->ready, &c->ready);
    if (!c->http->ending)
        dz_timer_after(c->http->soon, 0);
}

void dz_http_conn_end(struct dz_http_conn *c)
{
    c->dead = true;
    dz_http_conn_kick(c);
}

void dz_http_conn_allow(struct dz_http_conn *c, int64_t ms)
{
    c->deadline_ms = ms ? dz_clock_mono_ms() + ms : 0;
    c->moved = 0;
}

static bool is_watching(const struct dz_http_conn *c)
{
    return c->polled == DZ_POLL_HANGUP;
}

static void on_poll(void *arg, int events)
{
    struct dz_http_conn *c = arg;
    if (c->ws)
        dz_http_ws_poll(c->ws, events);
    else if (is_watching(c) && (events & DZ_POLL_HANGUP))
        c->dead = true;
    dz_http_conn_run(c);
}

/* --- the stages ------------------------------------------------------------------------------- */

/* Queue for a step of the handshake: the loop decides when it runs, not the client's bytes. */
static void stand_in_line(struct dz_http_conn *c)
{
    struct dz_http *h = c->http;
    if (!dz_list_empty(&c->shaking))
        return;
    if (dz_list_empty(&h->shaking) && !h->ending)
        dz_timer_after(h->shake, 0);
    dz_list_push_back(&h->shaking, &c->shaking);
}

void dz_http_conn_shake(void *http)
{
    struct dz_http *h = http;
    if (dz_list_empty(&h->shaking))
        return;
    struct dz_http_conn *c = DZ_LIST_FIRST(struct dz_http_conn, &h->shaking, shaking);
    dz_list_remove(&c->shaking);
    if (!dz_list_empty(&h->shaking))
        dz_timer_after(h->shake, 0);
    c->may_shake = true;
    dz_http_conn_run(c);
}

static bool handshake(struct dz_http_conn *c)
{
    if (!c->may_shake) {
        stand_in_line(c);
        return false;
    }
    c->may_shake = false;
    int rc = dz_tls_handshake(c->tls);
    if (rc == 0) {
        c->stage = DZ_HTTP_AT_HEAD;
        dz_http_conn_allow(c, 2 * (int64_t)c->http->opts.head_ms);
    } else if (rc == DZ_TLS_BROKEN)
        c->dead = true;
    else
        c->want |= rc == DZ_TLS_WANT_READ ? DZ_POLL_READ : DZ_POLL_WRITE;
    return rc == 0;
}

static struct dz_http_req *begin_request(struct dz_http_conn *c)
{
    c->request = dz_http_req_new(c);
    if (!c->request)
        c->dead = true;
    c->scanned = 0;
    c->skipped = false;
    dz_http_conn_allow(c, 0);
    return c->request;
}

/* Answer a head that cannot become a request, and close the connection after it. */
static void refuse_head(struct dz_http_conn *c, int code, int status, const char *message)
{
    struct dz_http_req *r = begin_request(c);
    c->close = true;
    if (r)
        dz_http_req_refuse(r, code, status, message);
}

/* Look for a head in the bytes that were read. True: one was found or refused. */
static bool take_head(struct dz_http_conn *c)
{
    struct dz_err err = {0};
    size_t n = c->in.end - c->in.at;
    const char *p = n ? c->in.p + c->in.at : ""; /* there is no buffer before the first byte */
    int status = 400;
    if (n >= 2 && !c->skipped && p[0] == '\r' && p[1] == '\n') { /* RFC 9112, 2.2 */
        c->skipped = true;
        c->scanned = 0;
        c->in.at += 2;
        return true;
    }
    ssize_t size = n ? dz_http_head_end(p, n, &c->scanned, &status, &err) : 0;
    if (size < 0) {
        refuse_head(c, err.code, status, err.msg);
    } else if (size > 0) {
        struct dz_http_req *r = begin_request(c);
        c->in.at += (size_t)size;
        if (r)
            dz_http_req_head(r, p, (size_t)size);
    }
    return size != 0;
}

static bool read_head(struct dz_http_conn *c)
{
    bool had = c->in.end > c->in.at;
    if (take_head(c))
        return true;
    ssize_t got = dz_http_fill(c, ROOM);
    if (got == 0 || got == DZ_HTTP_IO_BROKEN)
        c->dead = true;
    if (got > 0 && !had) /* the first bytes of a head start its deadline */
        dz_http_conn_allow(c, c->http->opts.head_ms);
    return got > 0;
}

/* Set the deadline for the next piece of a body. */
static void allow_body(struct dz_http_conn *c, const struct dz_http_req *r)
{
    const struct dz_http_opts *o = &c->http->opts;
    bool streamed = r->match.route && (r->match.route->flags & DZ_HTTP_STREAMED);
    if (r->blocked)
        dz_http_conn_allow(c, 0);
    else if (streamed && (c->moved > 0 || !c->deadline_ms))
        dz_http_conn_allow(c, (int64_t)o->stall_s * 1000);
    else if (!streamed && (c->moved >= BODY_PIECE || !c->deadline_ms))
        dz_http_conn_allow(c, o->body_ms);
}

static bool read_body(struct dz_http_conn *c)
{
    struct dz_http_req *r = c->request;
    if (r->whole || (r->blocked && !r->nudged && !r->answered))
        return false;
    if (c->in.at == c->in.end) {
        ssize_t got = dz_http_fill(c, DZ_IO_PIECE);
        if ((got == 0 || got == DZ_HTTP_IO_BROKEN) && !r->answered)
            c->dead = true;
        else if (got == 0 || got == DZ_HTTP_IO_BROKEN)
            c->close = true; /* the client may still read the answer */
        if (got <= 0)
            return false;
    }
    size_t left = c->in.end - c->in.at;
    ssize_t used = dz_http_req_body(r, left ? c->in.p + c->in.at : "", left);
    if (used < 0) {
        c->close = true;
        return r->answered;
    }
    c->in.at += (size_t)used;
    if (c->stage == DZ_HTTP_AT_BODY)
        allow_body(c, r);
    return used > 0 || r->whole;
}

static bool in_body(struct dz_http_conn *c)
{
    if (c->out_at < c->out.len) { /* 100 Continue */
        ssize_t n = dz_http_write(c, c->out.p + c->out_at, c->out.len - c->out_at, false);
        if (n == DZ_HTTP_IO_BROKEN)
            c->dead = true;
        else if (n == DZ_HTTP_IO_LATER)
            c->want |= DZ_POLL_WRITE;
        else
            c->out_at += (size_t)n;
        if (n < 0)
            return false;
        if (c->out_at == c->out.len) {
            dz_buf_release(&c->out);
            c->out_at = 0;
        }
    }
    return read_body(c);
}

/* The answer is out. */
static void finish(struct dz_http_conn *c)
{
    struct dz_http_req *r = c->request;
    dz_http_conn_allow(c, 0);
    if (r->ws) {
        c->stage = DZ_HTTP_AT_SOCKET;
        dz_http_ws_open(r->ws, c);
        return;
    }
    c->request = NULL;
    dz_http_req_over(r);
    dz_buf_release(&c->out);
    c->out_at = 0;
    if (!c->close) {
        c->stage = DZ_HTTP_AT_HEAD;
        dz_http_conn_allow(c, c->in.at < c->in.end ? c->http->opts.head_ms
                                                   : (int64_t)c->http->opts.idle_s * 1000);
        return;
    }
    if (c->tls)
        dz_tls_goodbye(c->tls);
    (void)shutdown(c->fd, SHUT_WR);
    dz_http_in_release(c);
    c->stage = DZ_HTTP_AT_LINGER; /* closing with unread input would discard the answer */
    dz_http_conn_allow(c, LINGER_MS);
}

static void allow_send(struct dz_http_conn *c, const struct dz_http_req *r)
{
    const struct dz_http_opts *o = &c->http->opts;
    if (r->source && (c->moved > 0 || !c->deadline_ms))
        dz_http_conn_allow(c, (int64_t)o->stall_s * 1000);
    else if (!r->source &&
             (c->moved >= (r->answer_held / HELD_PIECES > SEND_PIECE ? r->answer_held / HELD_PIECES
                                                                     : SEND_PIECE) ||
              !c->deadline_ms))
        dz_http_conn_allow(c, o->send_ms);
}

static bool send_answer(struct dz_http_conn *c)
{
    struct dz_http_req *r = c->request;
    bool moved = !c->close && read_body(c);
    const enum dz_http_sent sent = r->sent ? DZ_HTTP_SENT : dz_http_send_some(c);
    switch (sent) {
    case DZ_HTTP_SENT:
        r->sent = true;
        break;
    case DZ_HTTP_SENT_SOME:
        c->want |= c->tls ? 0 : DZ_POLL_WRITE;
        allow_send(c, r);
        return moved;
    case DZ_HTTP_SENT_WAIT:
        dz_http_conn_allow(c, 0);
        return moved || r->nudged;
    case DZ_HTTP_SENT_TURN:
        c->turn = true;
        return false;
    case DZ_HTTP_SENT_BROKEN:
        c->dead = true;
        return false;
    }
    if (!r->whole && !c->close) {
        allow_body(c, r);
        return moved;
    }
    finish(c);
    return true;
}

static bool linger(struct dz_http_conn *c)
{
    char piece[DZ_IO_PIECE];
    ssize_t n = recv(c->fd, piece, sizeof piece, MSG_DONTWAIT);
    c->moved += n > 0 ? (uint64_t)n : 0;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || c->moved > DZ_HTTP_DISCARD_MAX)
        c->dead = true;
    return n > 0;
}

static bool pass(struct dz_http_conn *c)
{
    const struct dz_http *h = c->http;
    struct dz_http_req *r = c->request;
    struct dz_err err;
    switch (dz_http_pass_some(c)) {
    case DZ_HTTP_PASS_WAITS:
    case DZ_HTTP_PASS_MOVED:
        return false;
    case DZ_HTTP_PASS_TURN:
        c->turn = true;
        return false;
    case DZ_HTTP_PASS_OVER:
        dz_http_pass_free(c->pass);
        finish(c);
        return true;
    case DZ_HTTP_PASS_FAILED:
        err = *dz_http_pass_error(c);
        dz_http_pass_free(c->pass);
        h->opts.unanswered(r, &err, h->opts.user);
        return true;
    case DZ_HTTP_PASS_BROKEN:
        break;
    }
    c->dead = true;
    return false;
}

static bool step(struct dz_http_conn *c)
{
    switch (c->stage) {
    case DZ_HTTP_AT_HANDSHAKE:
        return handshake(c);
    case DZ_HTTP_AT_HEAD:
        return read_head(c);
    case DZ_HTTP_AT_BODY:
        return in_body(c);
    case DZ_HTTP_AT_SEND:
        return send_answer(c);
    case DZ_HTTP_AT_LINGER:
        return linger(c);
    case DZ_HTTP_AT_PASS:
        return pass(c);
    case DZ_HTTP_AT_WAIT:
    case DZ_HTTP_AT_SOCKET:
        break;
    }
    return false;
}

/* The events to poll for. */
static int events_of(struct dz_http_conn *c)
{
    const struct dz_http_req *r = c->request;
    int events = c->want;
    switch (c->stage) {
    case DZ_HTTP_AT_HANDSHAKE:
    case DZ_HTTP_AT_SOCKET:
        break;
    case DZ_HTTP_AT_HEAD:
    case DZ_HTTP_AT_LINGER:
        events |= DZ_POLL_READ;
        break;
    case DZ_HTTP_AT_BODY:
        events |= r->blocked ? 0 : DZ_POLL_READ;
        break;
    case DZ_HTTP_AT_SEND:
        events |= !r->whole && !c->close ? DZ_POLL_READ : 0;
        break;
    case DZ_HTTP_AT_PASS:
        events |= dz_http_pass_watch(c);
        break;
    case DZ_HTTP_AT_WAIT:
        break;
    }
    return events ? events : DZ_POLL_HANGUP;
}

static void assert_conn(const struct dz_http_conn *c)
{
    const struct dz_http_req *r = c->request;
    bool waits = r && dz_map_get64(&c->http->waiting, r->id) == r;
    assert(!r || waits == (!r->answered && !r->gone));
    assert(!r || waits || !r->on_gone);
    if (c->stage == DZ_HTTP_AT_HEAD)
        assert(!r && c->out.cap == 0 && (c->in.at < c->in.end || !c->in.p || c->turn));
}

void dz_http_conn_run(struct dz_http_conn *c)
{
    assert(!c->running);
    c->running = true;
    unsigned turns = 0;
    do {
        enum dz_http_stage was = c->stage;
        c->again = c->turn = false;
        c->want = 0;
        while (!c->dead && !c->turn && step(c)) {
            c->want = 0;
            c->turn = was == DZ_HTTP_AT_SEND && c->stage == DZ_HTTP_AT_HEAD &&
                      ++turns == DZ_HTTP_TURN_MAX;
            was = c->stage;
        }
    } while (c->again && !c->dead && !c->turn);
    c->running = false;
    if (c->dead) {
        dz_http_conn_free(c);
        return;
    }
    assert_conn(c);
    if (c->turn)
        dz_http_conn_kick(c);
    if (!c->ws)
        dz_http_conn_watch(c, events_of(c));
}

void dz_http_conn_late(struct dz_http_conn *c)
{
    struct dz_http_req *r = c->request;
    bool head = c->stage == DZ_HTTP_AT_HEAD && c->in.at < c->in.end;
    bool body = c->stage == DZ_HTTP_AT_BODY && !r->answered;
    c->close = true;
    if (head)
        refuse_head(c, DZ_ETIMEOUT, 408, "the request line and headers took too long to arrive");
    else if (body)
        dz_http_req_refuse(r, DZ_ETIMEOUT, 408, "the body of the request took too long to arrive");
    if (!head && !body)
        c->dead = true;
    dz_http_conn_run(c);
}

/* --- birth and death ---------------------------------------------------------------------- */

static int64_t peer_uid(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid == 0)
        return -1;
    return peer.uid;
}

/* An IPv4 address as IPv6 writes it. */
static void keep_address(struct dz_http_conn *c, const struct sockaddr_storage *from)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (from->ss_family == AF_INET6) {
        memcpy(&v6, from, sizeof v6);
        c->address = v6.sin6_addr;
    } else if (from->ss_family == AF_INET) {
        memcpy(&v4, from, sizeof v4);
        c->address.s6_addr[10] = c->address.s6_addr[11] = 0xff;
        memcpy(&c->address.s6_addr[12], &v4.sin_addr, 4);
    }
}

static int set_up(struct dz_http_conn *c, const struct dz_http_listener *l)
{
    struct dz_http *h = c->http;
    const int on = 1;
    if (l->tcp) {
        (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    } else {
        c->peer_uid = peer_uid(c->fd);
    }
    if (l->tls && dz_tls_new(h->tls, c->fd, NULL, &c->tls, NULL) < 0)
        return DZ_ENOMEM;
    c->stage = l->tls ? DZ_HTTP_AT_HANDSHAKE : DZ_HTTP_AT_HEAD;
    return dz_poll_new(h->opts.loop, c->fd, on_poll, c, &c->poll, NULL);
}

struct dz_http_conn *dz_http_conn_new(struct dz_http_listener *l, int fd,
                                      const struct sockaddr_storage *from)
{
    struct dz_http *h = l->http;
    struct dz_http_conn *c = dz_zalloc(sizeof *c);
    if (!c) {
        (void)close(fd);
        return NULL;
    }
    *c = (struct dz_http_conn){
        .http = h, .fd = fd, .tcp = l->tcp, .peer_uid = -1, .out = DZ_BUF_INIT(DZ_HTTP_OUT_MAX)};
    dz_list_init(&c->link);
    dz_list_init(&c->ready);
    dz_list_init(&c->shaking);
    keep_address(c, from);
    if (set_up(c, l) < 0) {
        dz_tls_free(c->tls);
        dz_fd_close(&c->fd);
        dz_free(c);
        return NULL;
    }
    dz_list_push_back(&h->connections, &c->link);
    dz_http_conn_allow(c, l->tls   ? (int64_t)h->opts.head_ms
                          : l->tcp ? 2 * (int64_t)h->opts.head_ms
                                   : (int64_t)h->opts.idle_s * 1000);
    return c;
}

void dz_http_conn_free(struct dz_http_conn *c)
{
    struct dz_http *h = c->http;
    struct dz_ws *w = c->ws;
    c->dead = c->running = true; /* keeps the callbacks below from running it again */
    c->ws = NULL;
    if (w)
        dz_http_ws_drop(w);
    if (c->pass)
        dz_http_pass_free(c->pass);
    if (c->request)
        dz_http_req_left(c->request);
    c->request = NULL;
    dz_list_remove(&c->link);
    dz_list_remove(&c->ready);
    dz_list_remove(&c->shaking);
    dz_poll_free(c->poll);
    dz_tls_free(c->tls);
    dz_fd_close(&c->fd);
    dz_http_in_release(c);
    dz_buf_release(&c->out);
    dz_http_conn_over(h, c);
    dz_free(c);
}
