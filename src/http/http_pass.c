/* SPDX-License-Identifier: MIT
 *
 * http_pass.c - a request that a program of a guest answers: bytes between the client's connection
 * and the guest's, through a relay (http_relay.h), which checks and rewrites both messages.
 *
 *     client ── c->in ──▶ relay ──▶ to_guest ──▶ fd
 *     client ◀── c->out ◀── relay ◀──────────── fd
 *
 * Each direction holds one piece at most: a side is read only when everything for the other side is
 * written. So a slow reader slows down the writer at the other end, and an idle connection holds no
 * buffer.
 *
 * Invariants (assert_pass): the connection and its pass point at each other; the request is
 * unanswered exactly until the relay has a final head.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "http/http_int.h"
#include "http/http_relay.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

enum {
    PIECE = 32 << 10, /* bytes read from the guest at a time */
    ROUNDS = 16,      /* pieces in one turn of the loop */
};
_Static_assert(PIECE + 2 * DZ_HTTP_HEAD_MAX <= DZ_HTTP_OUT_MAX, "a head and a piece fit c->out");

struct dz_http_pass {
    struct dz_http_conn *conn;
    struct dz_poll *poll; /* of fd */
    int fd, polled;
    struct dz_http_relay relay;
    struct dz_buf to_guest;
    size_t sent;     /* bytes of to_guest that are out */
    bool guest_over; /* the guest has closed its side */
    bool deaf;       /* the guest does not read the rest of the request */
    const char *tag;
    struct dz_err err; /* of a relay that failed */
};

static void assert_pass(const struct dz_http_pass *p)
{
    const struct dz_http_conn *c = p->conn;
    assert(c->pass == p && c->stage == DZ_HTTP_AT_PASS && c->request);
    assert(c->request->answered == (p->relay.status != 0));
}

/* --- the beginning and the end --------------------------------------------------------------- */

void dz_http_pass_free(struct dz_http_pass *p)
{
    p->conn->pass = NULL;
    dz_poll_free(p->poll);
    dz_fd_close(&p->fd);
    dz_http_relay_release(&p->relay);
    dz_buf_release(&p->to_guest);
    dz_free(p);
}

static void on_guest(void *arg, int events)
{
    struct dz_http_pass *p = arg;
    (void)events;
    p->polled = 0; /* an error clears what is set */
    dz_http_conn_run(p->conn);
}

int dz_http_pass(struct dz_http_req *r, const struct dz_http_pass_opts *opts, int *ret_status,
                 struct dz_err *err)
{
    struct dz_http_conn *c = r->conn;
    char peer[DZ_HTTP_PEER];
    struct dz_http_pass *p = dz_zalloc(sizeof *p);
    int fd = opts->fd;
    assert(!r->answered && !r->sink && c);
    *ret_status = 503;
    if (!p) {
        dz_fd_close(&fd);
        return dz_fail(err, DZ_ENOMEM, "forward a request: out of memory");
    }
    *p = (struct dz_http_pass){
        .conn = c, .fd = fd, .to_guest = DZ_BUF_INIT(DZ_HTTP_OUT_MAX), .tag = opts->tag};
    const struct dz_http_relay_opts relay = {
        .peer = dz_http_peer(r, peer), .tls = c->tls != NULL, .prefix = opts->prefix};
    int rc = dz_http_relay_begin(&p->relay, &r->head, &relay, &p->to_guest, ret_status, err);
    if (rc == 0) {
        *ret_status = 503;
        rc = dz_poll_new(r->http->opts.loop, fd, on_guest, p, &p->poll, err);
    }
    if (rc < 0) {
        dz_http_pass_free(p);
        return rc;
    }
    p->relay.close = p->relay.close || c->close || r->http->quiesced;
    r->on_gone = NULL;
    r->blocked = false;
    r->whole = true; /* the rest of the body is the relay's */
    c->pass = p;
    c->stage = DZ_HTTP_AT_PASS;
    dz_http_conn_allow(c, 0);
    dz_http_conn_kick(c);
    return 0;
}

const char *dz_http_pass_tag(const struct dz_http_req *r)
{
    return r->conn && r->conn->pass ? r->conn->pass->tag : NULL;
}

/* --- one direction each ------------------------------------------------------------------------
 */

static enum dz_http_passed fail(struct dz_http_pass *p)
{
    struct dz_http_conn *c = p->conn;
    /* the rest of a body that was not read would be taken for the next request */
    c->close = c->close || !p->relay.request_over;
    return p->relay.status ? DZ_HTTP_PASS_BROKEN : DZ_HTTP_PASS_FAILED;
}

/* Write what waits for the client. */
static enum dz_http_passed to_client(struct dz_http_conn *c)
{
    if (c->out.err)
        return DZ_HTTP_PASS_BROKEN;
    while (c->out_at < c->out.len) {
        ssize_t n = dz_http_write(c, c->out.p + c->out_at, c->out.len - c->out_at, false);
        if (n < 0)
            return n == DZ_HTTP_IO_LATER ? DZ_HTTP_PASS_WAITS : DZ_HTTP_PASS_BROKEN;
        c->out_at += (size_t)n;
    }
    c->out_at = 0;
    dz_buf_reset(&c->out);
    return DZ_HTTP_PASS_MOVED;
}

/* Write what waits for the guest. False: it has no room. */
static bool to_guest(struct dz_http_pass *p)
{
    while (!p->deaf && p->sent < p->to_guest.len) {
        ssize_t n = send(p->fd, p->to_guest.p + p->sent, p->to_guest.len - p->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        p->deaf = n < 0; /* it may have answered before it closed */
        p->sent += n > 0 ? (size_t)n : 0;
    }
    p->sent = 0;
    dz_buf_reset(&p->to_guest);
    return true;
}

static bool wants_client(const struct dz_http_pass *p)
{
    if (p->to_guest.len > 0 || p->deaf)
        return false;
    return p->relay.tunnel || (!p->relay.request_over && !p->relay.upgrades);
}

static bool wants_guest(const struct dz_http_pass *p)
{
    return p->conn->out.len == 0 && !p->guest_over && (p->relay.tunnel || !p->relay.answer_over);
}

static enum dz_http_passed from_client(struct dz_http_pass *p)
{
    struct dz_http_conn *c = p->conn;
    if (c->in.at == c->in.end) {
        ssize_t got = dz_http_fill(c, DZ_IO_PIECE);
        if (got <= 0)
            return got == DZ_HTTP_IO_LATER ? DZ_HTTP_PASS_WAITS : DZ_HTTP_PASS_BROKEN;
    }
    ssize_t took = dz_http_relay_body(&p->relay, c->in.p + c->in.at, c->in.end - c->in.at,
                                      &p->to_guest, &p->err);
    if (took < 0)
        return fail(p);
    c->in.at += (size_t)took;
    if (c->in.at == c->in.end)
        dz_http_in_release(c);
    return DZ_HTTP_PASS_MOVED;
}

/* The relay has a final head: from now on the request counts as answered. */
static void note_answer(struct dz_http_pass *p)
{
    struct dz_http_req *r = p->conn->request;
    if (r->answered || !p->relay.status)
        return;
    r->answered = true;
    r->status = p->relay.status;
    (void)dz_map_remove64(&r->http->waiting, r->id);
}

static enum dz_http_passed from_guest(struct dz_http_pass *p)
{
    char piece[PIECE];
    ssize_t got = recv(p->fd, piece, sizeof piece, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return DZ_HTTP_PASS_WAITS;
    if (got < 0 && !p->relay.status)
        (void)dz_fail(&p->err, DZ_EIO, "the guest closed its connection without an answer");
    if (got < 0)
        return fail(p);
    p->guest_over = got == 0;
    int rc = got == 0 ? dz_http_relay_end(&p->relay, &p->conn->out, &p->err) : 0;
    if (got > 0 && dz_http_relay_answer(&p->relay, piece, (size_t)got, &p->conn->out, &p->err) < 0)
        rc = DZ_EINVAL;
    if (rc < 0)
        return fail(p);
    note_answer(p);
    return DZ_HTTP_PASS_MOVED;
}

/* --- a turn --------------------------------------------------------------------------------------
 */

/* A client must read or send something now and then, if anything is due from it. */
static void allow(struct dz_http_pass *p, bool due)
{
    struct dz_http_conn *c = p->conn;
    if (!due)
        dz_http_conn_allow(c, 0);
    else if (c->moved > 0 || !c->deadline_ms)
        dz_http_conn_allow(c, (int64_t)c->http->opts.stall_s * 1000);
}

static bool is_over(const struct dz_http_pass *p)
{
    return p->relay.tunnel ? p->guest_over : p->relay.answer_over;
}

enum dz_http_passed dz_http_pass_some(struct dz_http_conn *c)
{
    struct dz_http_pass *p = c->pass;
    for (int i = 0; i < ROUNDS; i++) {
        bool moved = false;
        const enum dz_http_passed client = to_client(c);
        if (client == DZ_HTTP_PASS_BROKEN)
            return client;
        if (client == DZ_HTTP_PASS_MOVED && is_over(p)) {
            c->close = c->close || p->relay.close || !p->relay.request_over;
            return DZ_HTTP_PASS_OVER;
        }
        const bool room = to_guest(p);
        if (room && wants_client(p)) {
            const enum dz_http_passed in = from_client(p);
            if (in > DZ_HTTP_PASS_MOVED)
                return in;
            moved = in == DZ_HTTP_PASS_MOVED;
        }
        if (client == DZ_HTTP_PASS_MOVED && wants_guest(p)) {
            const enum dz_http_passed out = from_guest(p);
            if (out > DZ_HTTP_PASS_MOVED)
                return out;
            moved = moved || out == DZ_HTTP_PASS_MOVED;
        }
        if (moved)
            continue;
        if (client == DZ_HTTP_PASS_MOVED)
            dz_buf_release(&c->out);
        if (room)
            dz_buf_release(&p->to_guest);
        allow(p, client == DZ_HTTP_PASS_WAITS || (room && !p->relay.tunnel && wants_client(p)));
        assert_pass(p);
        return DZ_HTTP_PASS_WAITS;
    }
    return DZ_HTTP_PASS_TURN;
}

int dz_http_pass_watch(struct dz_http_conn *c)
{
    struct dz_http_pass *p = c->pass;
    const int guest =
        (wants_guest(p) ? DZ_POLL_READ : 0) | (p->to_guest.len > 0 && !p->deaf ? DZ_POLL_WRITE : 0);
    if (p->polled != guest)
        dz_http_poll_set(p->poll, guest);
    p->polled = guest;
    return (wants_client(p) ? DZ_POLL_READ : 0) |
           (c->out_at < c->out.len && !c->tls ? DZ_POLL_WRITE : 0);
}

const struct dz_err *dz_http_pass_error(const struct dz_http_conn *c)
{
    return &c->pass->err;
}
