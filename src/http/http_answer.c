/* SPDX-License-Identifier: MIT
 *
 * http_answer.c - answers: bytes, files, streams, errors; and writing them out.
 *
 * An answer is a head, then bytes, a file, or what a source gives, in its size or in chunks. Its
 * handler hands it over from any callback; the head and, if that calls nothing back, the first
 * pieces are written at once, and the loop writes the rest (dz_http_send_some). Bytes that wait
 * for a library or for the framing of a chunk stand in c->out.
 *
 * Bytes that wait are counted against their tenant by opts.hold. Invariant (assert_held): what a
 * request holds is the sum of its body, of what its handler reserved and of its answer.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>
#include <errno.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

#define HELD                                                                                  \
    "the daemon buffers too much data of this tenant: read the pending answers, or send and " \
    "request less at a time"

enum {
    PIECES = 16,             /* pieces of an answer before other connections have their turn */
    FILE_PIECE = 128 << 10,  /* bytes of one sendfile */
    WITH_HEAD_MAX = 8 << 10, /* bytes of a body that are copied behind the head */
};

/* --- bytes that wait ------------------------------------------------------------------- */

static void assert_held(const struct dz_http_req *r)
{
    assert(r->held == r->body_held + r->reserved + r->answer_held);
}

bool dz_http_hold(struct dz_http_req *r, size_t *had, size_t now, bool must)
{
    size_t want = r->held - *had + now;
    bool room = true;
    if (want == r->held)
        return true;
    if (r->http->opts.hold)
        room = r->http->opts.hold(r, &r->held, want, must, r->http->opts.user);
    else
        r->held = want;
    if (r->held == want)
        *had = now;
    assert_held(r);
    return room;
}

bool dz_http_reserve(struct dz_http_req *r, size_t bytes)
{
    return dz_http_hold(r, &r->reserved, bytes, false);
}

void dz_http_refuse_held(struct dz_http_req *r)
{
    dz_http_refuse(r, &(struct dz_http_problem){.code = DZ_ERATE, .message = HELD});
}

/* --- the head ------------------------------------------------------------------------------- */

/* The date header's text, made once for each second. */
static const char *date(struct dz_http *h)
{
    static const char days[] = "SunMonTueWedThuFriSat",
                      months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = (time_t)(dz_clock_real_ms() / 1000);
    struct tm t;
    if (now == h->date_s && h->date[0])
        return h->date;
    h->date_s = now;
    (void)gmtime_r(&now, &t);
    (void)snprintf(h->date, sizeof h->date, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
                   days + 3 * (size_t)t.tm_wday, t.tm_mday, months + 3 * (size_t)t.tm_mon,
                   t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    return h->date;
}

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {101, "Switching Protocols"},
        {303, "See Other"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Other";
}

/* The head of an answer. size < 0: the source does not know it. */
static void put_head(struct dz_http_req *r, const char *type, int64_t size)
{
    struct dz_buf *b = &r->conn->out;
    bool bodyless = r->status == 204 || r->status == 304 || r->status < 200;
    r->no_body = bodyless || strcmp(r->head.method, "HEAD") == 0;
    dz_buf_addf(b, "HTTP/1.1 %d %s\r\nDate: %s\r\nRequest-Id: %s\r\n", r->status, reason(r->status),
                date(r->http), r->request_id);
    for (const struct dz_http_set *set = r->headers; set; set = set->next)
        dz_buf_addf(b, "%s: %s\r\n", set->name, set->value);
    if (type)
        dz_buf_addf(b, "Content-Type: %s\r\n", type);
    if (size >= 0 && !bodyless) {
        dz_buf_addf(b, "Content-Length: %lld\r\n", (long long)size);
    } else if (!bodyless && r->head.minor > 0) {
        dz_buf_adds(b, "Transfer-Encoding: chunked\r\n");
        r->chunked = true;
    } else if (!bodyless) {
        r->conn->close = true; /* which ends it */
    }
    dz_buf_adds(b, r->status == 101 ? "Connection: Upgrade\r\n\r\n"
                   : r->conn->close ? "Connection: close\r\n\r\n"
                                    : "\r\n");
    if (r->bytes && !r->no_body && r->left <= WITH_HEAD_MAX) {
        dz_buf_add(b, r->bytes, (size_t)r->left);
        r->left = 0;
    }
}

/* --- pieces ------------------------------------------------------------------------------- */

static enum dz_http_sent of_write(ssize_t n)
{
    return n > 0 ? DZ_HTTP_SENT : n == DZ_HTTP_IO_LATER ? DZ_HTTP_SENT_SOME : DZ_HTTP_SENT_BROKEN;
}

static bool has_more(const struct dz_http_req *r)
{
    if (r->no_body)
        return false;
    return r->source ? !r->source_over : r->left > 0;
}

/* Write the bytes in c->out. */
static enum dz_http_sent flush(struct dz_http_conn *c)
{
    if (c->out.err)
        return DZ_HTTP_SENT_BROKEN;
    while (c->out_at < c->out.len) {
        bool more = c->request->left > 0 && has_more(c->request);
        ssize_t n = dz_http_write(c, c->out.p + c->out_at, c->out.len - c->out_at, more);
        if (n < 0)
            return of_write(n);
        c->out_at += (size_t)n;
    }
    c->out_at = 0;
    dz_buf_reset(&c->out);
    return DZ_HTTP_SENT;
}

static enum dz_http_sent send_bytes(struct dz_http_conn *c, struct dz_http_req *r)
{
    ssize_t n = dz_http_write(c, r->bytes + r->at, (size_t)r->left, false);
    if (n > 0) {
        r->at += (uint64_t)n;
        r->left -= (uint64_t)n;
    }
    return of_write(n);
}

static enum dz_http_sent send_file(struct dz_http_conn *c, struct dz_http_req *r)
{
    size_t n = r->left < FILE_PIECE ? (size_t)r->left : FILE_PIECE;
    off_t at = (off_t)r->at;
    ssize_t got;
    if (c->tls) { /* TLS must repeat a write with the same bytes, so they stay in out */
        char piece[DZ_IO_PIECE];
        got = pread(r->fd, piece, n < sizeof piece ? n : sizeof piece, at);
        if (got > 0)
            dz_buf_add(&c->out, piece, (size_t)got);
    } else {
        got = sendfile(c->fd, r->fd, &at, n);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return DZ_HTTP_SENT_SOME;
        c->moved += got > 0 ? (uint64_t)got : 0;
    }
    if (got <= 0)
        return DZ_HTTP_SENT_BROKEN; /* it has become shorter */
    r->at += (uint64_t)got;
    r->left -= (uint64_t)got;
    return DZ_HTTP_SENT;
}

/* Pull the source's next piece into c->out. */
static enum dz_http_sent pull(struct dz_http_conn *c, struct dz_http_req *r)
{
    char piece[DZ_IO_PIECE];
    size_t n = r->sized && r->left < sizeof piece ? (size_t)r->left : sizeof piece;
    ssize_t got;
    do {
        r->nudged = false;
        got = n ? r->source->pull(r->source_arg, piece, n) : DZ_HTTP_END;
    } while (got == DZ_HTTP_WAIT && r->nudged && !c->dead);
    if (got == DZ_HTTP_WAIT)
        return DZ_HTTP_SENT_WAIT;
    if (got < 0 || (got == DZ_HTTP_END && r->sized && r->left > 0))
        return DZ_HTTP_SENT_BROKEN;
    assert(got <= (ssize_t)n);
    r->source_over = got == DZ_HTTP_END;
    if (r->chunked)
        dz_buf_addf(&c->out, "%zx\r\n", (size_t)got);
    dz_buf_add(&c->out, piece, (size_t)got);
    if (r->chunked)
        dz_buf_adds(&c->out, "\r\n");
    r->left -= r->sized ? (uint64_t)got : 0;
    r->source_over = r->source_over || (r->sized && r->left == 0);
    return DZ_HTTP_SENT;
}

enum dz_http_sent dz_http_send_some(struct dz_http_conn *c)
{
    struct dz_http_req *r = c->request;
    for (int i = 0; i < PIECES; i++) {
        enum dz_http_sent rc = flush(c);
        if (rc != DZ_HTTP_SENT || !has_more(r))
            return rc;
        rc = r->source ? pull(c, r) : r->bytes ? send_bytes(c, r) : send_file(c, r);
        if (rc == DZ_HTTP_SENT_WAIT)
            dz_buf_release(&c->out);
        if (rc != DZ_HTTP_SENT)
            return rc;
    }
    return DZ_HTTP_SENT_TURN;
}

/* --- handing over --------------------------------------------------------------------- */

/* Out of memory, even for an error answer: cut the connection. */
static void give_up(struct dz_http_req *r)
{
    r->answered = true;
    dz_http_req_learn(r);
    r->on_gone = NULL;
    (void)dz_map_remove64(&r->http->waiting, r->id);
    if (r->conn)
        dz_http_conn_end(r->conn);
    else
        dz_http_req_over(r);
}

/* Is the rest of the body too long to discard? Then the connection must be closed. */
static bool too_long(const struct dz_http_req *r)
{
    return !r->whole && (!r->asked || r->body_left > DZ_HTTP_DISCARD_MAX);
}

/* Start sending the answer in r; size as in put_head(). */
static void answer(struct dz_http_req *r, int status, const char *type, int64_t size)
{
    struct dz_http_conn *c = r->conn;
    assert(!r->answered && (!r->gone || r->kept));
    r->answered = true;
    dz_http_req_learn(r);
    r->on_gone = NULL;
    r->status = status;
    (void)dz_map_remove64(&r->http->waiting, r->id);
    if (!c) { /* its client has left; opts.kept has the answer */
        dz_http_req_over(r);
        return;
    }
    c->close = (c->close || r->http->quiesced || too_long(r)) && status != 101;
    c->stage = DZ_HTTP_AT_SEND;
    dz_http_conn_allow(c, 0);
    put_head(r, type, size);
    /* Send at once if that calls no callback; the loop sends the rest. */
    if (!c->running && !r->source) {
        enum dz_http_sent rc = dz_http_send_some(c);
        r->sent = rc == DZ_HTTP_SENT;
        c->dead = c->dead || rc == DZ_HTTP_SENT_BROKEN;
    }
    dz_http_conn_kick(c);
}

static bool is_line(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' && *s != '\t')
            return false;
    return true;
}

void dz_http_set(struct dz_http_req *r, const char *name, const char *value)
{
    struct dz_http_set *set = dz_arena_alloc(&r->arena, sizeof *set), **at = &r->headers;
    struct dz_str name_copy = dz_arena_str(&r->arena, dz_str(name));
    struct dz_str value_copy = dz_arena_str(&r->arena, dz_str(value));
    if (!set || !name_copy.p || !value_copy.p || !is_line(value))
        return; /* an answer without this header is better than none, or two */
    *set = (struct dz_http_set){name_copy.p, value_copy.p, NULL};
    while (*at)
        at = &(*at)->next;
    *at = set;
}

void dz_http_close(struct dz_http_req *r)
{
    if (r->conn)
        r->conn->close = true;
}

/* --- bytes and files -------------------------------------------------------------------- */

void dz_http_send(struct dz_http_req *r, int status, const char *type, struct dz_buf *body)
{
    size_t n = 0;
    bool empty = !body || (body->len == 0 && !body->err);
    if (r->kept && r->http->opts.kept && !(body && body->err))
        r->http->opts.kept(r, status, empty ? DZ_STR("") : dz_str_n(body->p, body->len),
                           r->http->opts.user);
    if (!empty)
        r->bytes = body->err ? NULL : dz_buf_detach(body, &n);
    if (!empty && !r->bytes) {
        give_up(r);
        return;
    }
    bool promised = r->reserved > 0;
    (void)dz_http_hold(r, &r->reserved, 0, true);
    if (n > DZ_HELD_FREE && !dz_http_hold(r, &r->answer_held, n, promised) && !promised) {
        dz_free(r->bytes);
        r->bytes = NULL;
        dz_http_refuse_held(r);
        return;
    }
    r->left = n;
    answer(r, status, empty ? NULL : type, (int64_t)n);
}

void dz_http_send_fd(struct dz_http_req *r, int status, const char *type, int fd, uint64_t at,
                     uint64_t size)
{
    r->fd = fd;
    r->at = at;
    r->left = size;
    answer(r, status, type, (int64_t)size);
}

/* --- errors ------------------------------------------------------------------------------ */

/* The sandbox that the request concerns; NULL: none, or unknown. */
static const char *sandbox_of(struct dz_http_req *r)
{
    const struct dz_http_opts *o = &r->http->opts;
    dz_http_req_learn(r);
    if (!r->sandbox_id[0] && r->admitted && o->about)
        o->about(r, o->user);
    return r->sandbox_id[0] ? r->sandbox_id : NULL;
}

static void put_problem(struct dz_http_req *r, const struct dz_http_problem *p, struct dz_buf *out)
{
    struct dz_json j;
    dz_json_init(&j, out, false);
    dz_json_object(&j);
    dz_json_key(&j, "error");
    dz_json_object(&j);
    dz_json_put_strz(&j, "code", dz_err_wire(p->code));
    dz_json_put_strz(&j, "reason", p->reason);
    dz_json_put_strz(&j, "message", p->message);
    dz_json_put_bool(&j, "retry", dz_err_retry(p->code));
    dz_json_put_strz(&j, "field", p->field);
    dz_json_put_strz(&j, "sandbox_id", sandbox_of(r));
    dz_json_put_strz(&j, "request_id", r->request_id);
    dz_json_end(&j);
    dz_json_end(&j);
}

void dz_http_refuse(struct dz_http_req *r, const struct dz_http_problem *p)
{
    const struct dz_http_opts *o = &r->http->opts;
    struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    r->refused = dz_err_wire(p->code);
    int status = o->problem ? o->problem(r, p, &text, o->user) : 0;
    if (!status) {
        put_problem(r, p, &text);
        status = p->status ? p->status : dz_err_http(p->code);
    }
    dz_http_send(r, status, DZ_HTTP_JSON, &text);
    dz_buf_release(&text);
}

void dz_http_fail(struct dz_http_req *r, const struct dz_err *err)
{
    const struct dz_http_problem p = {.code = err->code, .message = err->msg};
    dz_http_refuse(r, &p);
}

/* --- streams ------------------------------------------------------------------------------ */

void dz_http_stream(struct dz_http_req *r, int status, const char *type, int64_t size,
                    const struct dz_http_source *source, void *arg)
{
    if (dz_map_put64(&r->http->streaming, r->id, r, NULL) < 0) {
        give_up(r);
        source->done(arg);
        return;
    }
    r->source = source;
    r->source_arg = arg;
    r->sized = size >= 0;
    r->left = size >= 0 ? (uint64_t)size : 0;
    answer(r, status, type, size);
}

void dz_http_switch(struct dz_http_req *r)
{
    answer(r, 101, NULL, 0);
}

void dz_http_cut_off(struct dz_http_req *r)
{
    give_up(r);
}
