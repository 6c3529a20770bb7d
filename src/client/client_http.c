/* SPDX-License-Identifier: MIT
 *
 * client_http.c - requests and answers (RFC 9112), as far as a server of ours speaks it: bodies by
 * length, in chunks, or to the end of the connection; interim answers; kept connections.
 *
 * A body that comes from a reader is announced with Expect and sent when the daemon asks for it.
 * If the daemon answers in the middle of a body, it has decided: the client does not send the rest.
 */
#include "base/mem.h"
#include "base/num.h"
#include "client/client_int.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

/* --- sending -------------------------------------------------------------------------------- */

static void put_head(const struct dz_client *c, struct dz_buf *out, const struct dz_client_req *req)
{
    dz_buf_addf(out, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: doze/%s\r\n", req->method,
                req->target, c->host ? c->host : "doze", DZ_VERSION);
    if (c->token)
        dz_buf_addf(out, "Authorization: Bearer %s\r\n", c->token);
    if (req->headers)
        dz_buf_adds(out, req->headers);
}

static void put_request(const struct dz_client *c, struct dz_buf *out,
                        const struct dz_client_req *req)
{
    put_head(c, out, req);
    dz_buf_addf(out, "Accept: %s\r\n", req->accept ? req->accept : "application/json");
    if (req->read || req->body.n > 0)
        dz_buf_addf(out, "Content-Type: %s\r\n", req->type ? req->type : "application/json");
    if (req->read && req->read_size < 0)
        dz_buf_adds(out, "Transfer-Encoding: chunked\r\n");
    else if (req->read)
        dz_buf_addf(out, "Content-Length: %lld\r\n", (long long)req->read_size);
    else if (req->body.n > 0 || strcmp(req->method, "GET") != 0)
        dz_buf_addf(out, "Content-Length: %zu\r\n", req->body.n);
    if (req->read)
        dz_buf_adds(out, "Expect: 100-continue\r\n");
    dz_buf_adds(out, "\r\n");
    dz_buf_add(out, req->body.p, req->body.n);
}

/* Send the body that the reader gives, until the daemon answers. */
static int send_body(struct dz_client *c, const struct dz_client_req *req, struct dz_err *err)
{
    DZ_AUTO(dz_freep) char *p = dz_alloc(DZ_CLIENT_IN);
    uint64_t sent = 0;
    int rc = 0;
    if (!p)
        return dz_fail(err, DZ_ENOMEM, "send to %s: out of memory", c->url);
    for (;;) {
        char size[20];
        ssize_t n = req->read(req->read_arg, p, DZ_CLIENT_IN, err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        sent += (uint64_t)n;
        if (req->read_size >= 0 && sent > (uint64_t)req->read_size)
            return dz_fail(err, DZ_EIO, "the file grew while it was being sent");
        (void)snprintf(size, sizeof size, "%zx\r\n", (size_t)n);
        if (req->read_size < 0)
            rc = dz_client_write(c, size, strlen(size), err);
        if (rc == 0)
            rc = dz_client_write(c, p, (size_t)n, err);
        if (rc == 0 && req->read_size < 0)
            rc = dz_client_write(c, "\r\n", 2, err);
        if (rc < 0 || dz_client_readable(c))
            return rc;
    }
    if (req->read_size >= 0 && sent < (uint64_t)req->read_size)
        return dz_fail(err, DZ_EIO, "the file shrank while it was being sent");
    return req->read_size < 0 ? dz_client_write(c, "0\r\n\r\n", 5, err) : 0;
}

/* --- the head of an answer -------------------------------------------------------------------- */

/* Append the next line to c->head, without its line end and with a NUL. */
static int read_line(struct dz_client *c, struct dz_err *err)
{
    for (;;) {
        char *p = c->in + c->in_at, *end = memchr(p, '\n', c->in_end - c->in_at);
        size_t n = (end ? (size_t)(end - p) : c->in_end - c->in_at);
        dz_buf_add(&c->head, p, n);
        c->in_at += n + (end != NULL);
        if (c->head.err)
            return dz_fail(err, DZ_EIO, "%s: the head of the answer is too large", c->url);
        if (end)
            break;
        bool first = c->head.len == 0;
        ssize_t got = dz_client_fill(c, err);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return first ? dz_fail(err, DZ_EGONE, "%s closed the connection without an answer",
                                   c->url)
                         : dz_fail(err, DZ_EIO,
                                   "%s closed the connection in the middle of its answer", c->url);
    }
    if (c->head.len > 0 && c->head.p[c->head.len - 1] == '\r')
        c->head.p[--c->head.len] = '\0';
    dz_buf_add(&c->head, "", 1);
    return c->head.err ? dz_fail(err, DZ_EIO, "%s: the head of the answer is too large", c->url)
                       : 0;
}

const char *dz_client_header(struct dz_client *c, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = c->head.p; *line; line += strlen(line) + 1)
        if (strncasecmp(line, name, n) == 0 && line[n] == ':')
            return line + n + 1 + strspn(line + n + 1, " \t");
    return NULL;
}

static bool header_is(struct dz_client *c, const char *name, const char *value)
{
    const char *is = dz_client_header(c, name);
    return is && strcasecmp(is, value) == 0;
}

static int read_framing(struct dz_client *c, bool no_body, struct dz_err *err)
{
    const char *length = dz_client_header(c, "Content-Length");
    uint64_t size = 0;
    c->size = -1;
    c->left = 0;
    c->in_chunks = false;
    c->keep = !header_is(c, "Connection", "close");
    c->framing = DZ_CLIENT_TO_THE_END;
    if (length) {
        if (dz_num_u64(dz_str(length), 0, INT64_MAX, &size, NULL) < 0)
            return dz_fail(err, DZ_EIO, "%s: Content-Length is not a number", c->url);
        c->framing = DZ_CLIENT_SIZED;
        c->size = (int64_t)size;
        c->left = size;
    }
    if (header_is(c, "Transfer-Encoding", "chunked"))
        c->framing = DZ_CLIENT_CHUNKED;
    if (no_body || c->status == 204 || c->status == 304 || c->status < 200)
        c->framing = DZ_CLIENT_NO_BODY;
    if (c->framing == DZ_CLIENT_TO_THE_END)
        c->keep = false;
    c->over = c->framing == DZ_CLIENT_NO_BODY || (c->framing == DZ_CLIENT_SIZED && c->left == 0);
    return 0;
}

/* The head of an answer into c->status and the rest; DZ_EGONE: the connection ended before its
 * first byte. */
static int read_head(struct dz_client *c, bool no_body, struct dz_err *err)
{
    uint64_t status = 0;
    size_t at;
    dz_buf_reset(&c->head);
    do {
        at = c->head.len;
        int rc = read_line(c, err);
        if (rc < 0)
            return rc;
    } while (c->head.p[at]);
    struct dz_str line = dz_str(c->head.p);
    if (!dz_str_starts(line, DZ_STR("HTTP/1.")) || line.n < 12 ||
        dz_num_u64(dz_str_sub(line, 9, 3), 100, 599, &status, NULL) < 0)
        return dz_fail(err, DZ_EIO, "%s does not speak HTTP", c->url);
    c->status = (int)status;
    return read_framing(c, no_body, err);
}

/* --- the body of an answer ---------------------------------------------------------------- */

static void cut_head(struct dz_client *c, size_t at)
{
    c->head.len = at;
    c->head.p[at] = '\0';
}

/* Read the size of the next chunk into c->left. The last chunk ends the body. */
static int next_chunk(struct dz_client *c, struct dz_err *err)
{
    char text[DZ_NUM_TEXT_MAX];
    size_t at = c->head.len;
    int rc = c->in_chunks ? read_line(c, err) : 0; /* the end of the one before */
    cut_head(c, at);
    if (rc == 0)
        rc = read_line(c, err);
    if (rc < 0)
        return rc;
    struct dz_str size = dz_str(c->head.p + at);
    size = dz_str_trim(dz_str_sub(size, 0, dz_str_find_char(size, ';')));
    (void)snprintf(text, sizeof text, "0x%.*s", (int)(size.n < 32 ? size.n : 32), size.p);
    rc = dz_num_u64(dz_str(text), 0, INT64_MAX, &c->left, NULL);
    cut_head(c, at);
    if (rc < 0)
        return dz_fail(err, DZ_EIO, "%s: the size of a chunk is not a number", c->url);
    c->in_chunks = true;
    if (c->left > 0)
        return 0;
    c->over = true;
    do { /* trailers */
        cut_head(c, at);
        rc = read_line(c, err);
    } while (rc == 0 && c->head.p[at]);
    cut_head(c, at);
    return rc;
}

static ssize_t read_body(struct dz_client *c, char *p, size_t n, struct dz_err *err)
{
    if (c->framing == DZ_CLIENT_CHUNKED && c->left == 0) {
        int rc = next_chunk(c, err);
        if (rc < 0 || c->over)
            return rc;
    }
    if (c->in_at == c->in_end) {
        ssize_t got = dz_client_fill(c, err);
        if (got < 0)
            return got;
        if (got == 0) {
            c->over = true;
            return c->framing == DZ_CLIENT_TO_THE_END
                       ? 0
                       : dz_fail(err, DZ_EIO,
                                 "%s closed the connection in the middle of its answer", c->url);
        }
    }
    size_t have = c->in_end - c->in_at;
    n = n < have ? n : have;
    if (c->framing != DZ_CLIENT_TO_THE_END) {
        n = n < c->left ? n : (size_t)c->left;
        c->left -= n;
        c->over = c->left == 0 && c->framing == DZ_CLIENT_SIZED;
    }
    memcpy(p, c->in + c->in_at, n);
    c->in_at += n;
    return (ssize_t)n;
}

ssize_t dz_client_read(struct dz_client *c, char *p, size_t n, struct dz_err *err)
{
    assert(n > 0);
    if (c->over)
        return 0;
    ssize_t got = read_body(c, p, n, err);
    if (got < 0)
        dz_client_drop(c);
    else if (c->over && !c->keep)
        dz_client_drop(c);
    return got;
}

int dz_client_read_all(struct dz_client *c, struct dz_buf *out, struct dz_err *err)
{
    char piece[DZ_IO_PIECE];
    ssize_t n;
    while ((n = dz_client_read(c, piece, sizeof piece, err)) > 0) {
        dz_buf_add(out, piece, (size_t)n);
        if (out->err) {
            dz_client_drop(c);
            return dz_fail(err, out->err, "the answer from %s is too large", c->url);
        }
    }
    return (int)n;
}

int64_t dz_client_size(const struct dz_client *c)
{
    return c->size;
}

/* --- one request -------------------------------------------------------------------------- */

static int exchange(struct dz_client *c, const struct dz_client_req *req, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf head = DZ_BUF_INIT(DZ_CLIENT_BODY_MAX);
    bool no_body = strcmp(req->method, "HEAD") == 0, unsent = req->read != NULL;
    put_request(c, &head, req);
    if (head.err)
        return dz_fail(err, head.err, "the request to %s is too large", c->url);
    int rc = dz_client_write(c, head.p, head.len, err);
    for (;;) {
        if (rc == 0)
            rc = read_head(c, no_body, err);
        if (rc < 0 || c->status >= 200 || c->status == 101)
            break;
        if (c->status == 100 && unsent) {
            unsent = false;
            rc = send_body(c, req, err);
            if (rc == DZ_EGONE) /* it may have said why */
                rc = 0;
            else if (rc < 0)
                return rc;
        }
    }
    if (rc == 0 && req->read)
        c->keep = c->keep && !unsent;
    return rc;
}

/* Unread bytes of an answer would be taken for the beginning of the next one. */
static void finish_last(struct dz_client *c)
{
    if (!c->over || !c->keep || c->in_at != c->in_end)
        dz_client_drop(c);
}

int dz_client_begin(struct dz_client *c, const struct dz_client_req *req, struct dz_err *err)
{
    finish_last(c);
    bool kept = c->fd >= 0;
    c->timeout_ms = req->timeout_ms ? req->timeout_ms : DZ_CLIENT_WAIT_MS;
    c->problem = (struct dz_client_problem){.status = 0};
    int rc = dz_client_connect(c, err);
    if (rc == 0)
        rc = exchange(c, req, err);
    if (rc == DZ_EGONE && kept && !req->read) { /* closed since the last one: nothing was done */
        dz_client_drop(c);
        rc = dz_client_connect(c, err);
        if (rc == 0)
            rc = exchange(c, req, err);
    }
    if (rc < 0) {
        dz_client_drop(c);
        return rc;
    }
    if (c->status == 101 || (c->status >= 200 && c->status < 300))
        return c->status;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_CLIENT_BODY_MAX);
    rc = dz_client_read_all(c, &text, err);
    if (rc < 0)
        return rc;
    json_t *envelope = json_loadb(text.p, text.len, 0, NULL);
    rc = dz_client_problem_of(c, envelope, c->status, err);
    json_decref(envelope);
    return rc;
}
