/* SPDX-License-Identifier: MIT
 *
 * Writing answers out: the head, then bytes, a file, or what a source gives, in its size or in
 * chunks. What is on its way through libraries and chunks stands in c->out.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>
#include <errno.h>
#include <sys/sendfile.h>
#include <unistd.h>

enum {
    PIECES = 16,             /* of an answer before other connections have their turn */
    FILE_PIECE = 128 << 10,  /* bytes of one sendfile */
    WITH_HEAD_MAX = 8 << 10, /* bytes of a body that are copied behind the head */
};

/* --- the head ------------------------------------------------------------------------------- */

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

/* size < 0: of a source that does not know. */
void dz_http_send_head(struct dz_http_req *r, const char *type, int64_t size)
{
    struct dz_buf *b = &r->conn->out;
    bool bodyless = r->status == 204 || r->status == 304 || r->status < 200;
    r->no_body = bodyless || strcmp(r->head.method, "HEAD") == 0;
    dz_buf_addf(b, "HTTP/1.1 %d %s\r\nDate: %s\r\nRequest-Id: %s\r\n", r->status, reason(r->status),
                dz_http_date(r->http), r->request_id);
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

/* What stands in c->out. */
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
    if (c->tls) { /* what could not be sent must be sent again as it was: it stands in out */
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

/* The next of a source into c->out. */
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
