/* SPDX-License-Identifier: MIT
 *
 * http_head.c - heads of requests (RFC 9112, 2 to 6) and bodies in chunks (7.1), read to the
 * letter.
 */
#include "http/http_head.h"

#include "base/num.h"
#include "base/str.h"
#include "http/http_route.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

enum {
    METHOD_MAX = 16,
    HOST_MAX = 255 + 8, /* a name of the DNS, and a port */
};

/* --- where it ends ------------------------------------------------------------------------- */

static ssize_t bad(int *ret_status, int status, struct dz_err *err, const char *text)
{
    *ret_status = status;
    return dz_fail(err, status == 431 || status == 414 ? DZ_ELIMIT : DZ_EINVAL, "%s", text);
}

/* Why a byte may not stand in a head: a control character but a tab, a CR without LF, or, unless
 * bare_lf, an LF without CR; NULL: it may. */
static const char *misplaced(const char *p, size_t i, bool bare_lf)
{
    unsigned char c = (unsigned char)p[i];
    if (c == '\n')
        return bare_lf || (i > 0 && p[i - 1] == '\r') ? NULL
                                                      : "a header line ends in LF without CR";
    if (i > 0 && p[i - 1] == '\r')
        return "a header contains a CR without LF";
    if (c == '\r' || c == '\t' || (c >= ' ' && c != 0x7f))
        return NULL;
    return "a header contains a control character";
}

static ssize_t head_end(const char *p, size_t n, size_t *at, bool bare_lf, int *ret_status,
                        struct dz_err *err)
{
    for (size_t i = *at; i < n; i++) {
        const char *why = misplaced(p, i, bare_lf);
        if (why)
            return bad(ret_status, 400, err, why);
        if (i >= DZ_HTTP_HEAD_MAX)
            return bad(ret_status, 431, err, "the first line and headers are too large");
        if (p[i] != '\n')
            continue;
        const size_t line = i > 0 && p[i - 1] == '\r' ? i - 1 : i; /* the end of its text */
        if (line == 0)
            return bad(ret_status, 400, err, "a head must begin with its first line");
        if (p[line - 1] == '\n')
            return (ssize_t)i + 1;
    }
    *at = n;
    return 0;
}

ssize_t dz_http_head_end(const char *p, size_t n, size_t *at, int *ret_status, struct dz_err *err)
{
    return head_end(p, n, at, false, ret_status, err);
}

ssize_t dz_http_answer_end(const char *p, size_t n, size_t *at, struct dz_err *err)
{
    int status;
    return head_end(p, n, at, true, &status, err);
}

/* --- the request line ------------------------------------------------------------------------ */

static int read_version(const char *s, struct dz_http_head *h, int *ret_status, struct dz_err *err)
{
    if (strncmp(s, "HTTP/1.", 7) == 0 && (s[7] == '0' || s[7] == '1') && !s[8]) {
        h->minor = s[7] - '0';
        return 0;
    }
    bool other = strlen(s) == 8 && strncmp(s, "HTTP/", 5) == 0 && s[6] == '.';
    return (int)bad(ret_status, other ? 505 : 400, err,
                    other ? "only HTTP/1.1 and 1.0 are supported"
                          : "the request line does not end in HTTP/1.1");
}

/* METHOD SP TARGET SP VERSION; each space is one. */
static int read_request_line(char *line, struct dz_http_head *h, int *ret_status,
                             struct dz_err *err)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version)
        return (int)bad(ret_status, 400, err,
                        "a request line must have a method, a target and a version");
    *target++ = '\0';
    *version++ = '\0';
    h->method = line;
    h->target = target;
    if (strlen(line) > METHOD_MAX || !dz_http_is_token(dz_str(line)))
        return (int)bad(ret_status, 400, err, "the method is not a valid token");
    if (version - target - 1 > DZ_HTTP_TARGET_MAX) {
        h->target = "/";
        return (int)bad(ret_status, 414, err, "the target of the request is too long");
    }
    if (!*target)
        return (int)bad(ret_status, 400, err, "the target of the request is missing");
    for (const char *s = target; *s; s++)
        if (*s <= ' ' || *s >= 0x7f)
            return (int)bad(ret_status, 400, err,
                            "the target of a request must be printable ASCII");
    return read_version(version, h, ret_status, err);
}

/* --- headers ------------------------------------------------------------------------------ */

static int read_header(char *line, struct dz_http_head *h, int *ret_status, struct dz_err *err)
{
    char *colon = strchr(line, ':');
    if (line[0] == ' ' || line[0] == '\t')
        return (int)bad(ret_status, 400, err, "a header is folded over several lines");
    if (!colon)
        return (int)bad(ret_status, 400, err, "a header has no colon");
    if (h->count == DZ_HTTP_HEADERS_MAX) {
        *ret_status = 431;
        return dz_fail(err, DZ_ELIMIT, "a request may have at most %d headers",
                       DZ_HTTP_HEADERS_MAX);
    }
    *colon = '\0';
    if (!dz_http_is_token(dz_str(line)))
        return (int)bad(ret_status, 400, err, "the name of a header has an invalid character");
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t n = strlen(value);
    while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'))
        value[--n] = '\0';
    h->headers[h->count].name = line;
    h->headers[h->count++].value = value;
    return 0;
}

const char *dz_http_head_get(const struct dz_http_head *h, const char *name)
{
    for (size_t i = 0; i < h->count; i++)
        if (strcasecmp(h->headers[i].name, name) == 0)
            return h->headers[i].value;
    return NULL;
}

/* Headers that may occur once: a proxy that reads the first and a server that reads the last must
 * not differ. */
static int check_single(const struct dz_http_head *h, int *ret_status, struct dz_err *err)
{
    static const char *const single[] = {
        "Host",         "Content-Length", "Transfer-Encoding", "Authorization",
        "Content-Type", "Expect",         "Idempotency-Key",   "Last-Event-ID",
        "Range",        "If-None-Match",  "Sec-WebSocket-Key", "Sec-WebSocket-Version",
    };
    for (size_t k = 0; k < DZ_ARRAY_LEN(single); k++) {
        size_t n = 0;
        for (size_t i = 0; i < h->count; i++)
            n += strcasecmp(h->headers[i].name, single[k]) == 0;
        if (n > 1) {
            *ret_status = 400;
            return dz_fail(err, DZ_EINVAL, "a request must have exactly one %s, not %zu", single[k],
                           n);
        }
    }
    return 0;
}

static bool is_host_name(struct dz_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && c != '.' && c != '-' && c != '_')
            return false;
    }
    return true;
}

/* name, name:port, [IPv6], [IPv6]:port; empty when the target has no authority. */
static bool is_host(struct dz_str s)
{
    size_t colon = dz_str_rfind_char(s, ':'), bracket = dz_str_rfind_char(s, ']');
    if (s.n > HOST_MAX)
        return false;
    if (colon != DZ_STR_NONE && (bracket == DZ_STR_NONE || colon > bracket)) {
        uint64_t port;
        if (colon + 1 < s.n && dz_num_u64(dz_str_sub(s, colon + 1, s.n), 0, 65535, &port, NULL) < 0)
            return false;
        s = dz_str_sub(s, 0, colon);
    }
    if (!dz_str_starts(s, DZ_STR("[")))
        return is_host_name(s);
    if (s.n < 4 || s.p[s.n - 1] != ']')
        return false;
    for (size_t i = 1; i + 1 < s.n; i++)
        if (!s.p[i] || !strchr("0123456789abcdefABCDEF:.", s.p[i]))
            return false;
    return true;
}

static int check_host(const struct dz_http_head *h, int *ret_status, struct dz_err *err)
{
    const char *host = dz_http_head_get(h, "Host");
    if (!host && h->minor > 0)
        return (int)bad(ret_status, 400, err, "an HTTP/1.1 request must have a Host header");
    if (host && !is_host(dz_str(host)))
        return (int)bad(ret_status, 400, err, "Host is not a valid host name");
    return 0;
}

bool dz_http_head_lists(const struct dz_http_head *h, const char *name, const char *word)
{
    for (size_t i = 0; i < h->count; i++) {
        struct dz_str rest = dz_str(h->headers[i].value), part;
        if (strcasecmp(h->headers[i].name, name) != 0)
            continue;
        while (dz_str_split(&rest, ',', &part)) {
            part = dz_str_trim(part);
            if (part.n == strlen(word) && strncasecmp(part.p, word, part.n) == 0)
                return true;
        }
    }
    return false;
}

static int read_framing(struct dz_http_head *h, int *ret_status, struct dz_err *err)
{
    const char *length = dz_http_head_get(h, "Content-Length");
    const char *coding = dz_http_head_get(h, "Transfer-Encoding");
    const char *expect = dz_http_head_get(h, "Expect");
    uint64_t size = 0;
    if (length && coding)
        return (int)bad(ret_status, 400, err,
                        "a request must not have both Content-Length and Transfer-Encoding");
    if (coding && (h->minor == 0 || strcasecmp(coding, "chunked") != 0))
        return (int)bad(ret_status, 400, err, "the only supported Transfer-Encoding is chunked");
    if (length && (!length[0] || length[strspn(length, "0123456789")] ||
                   dz_num_u64(dz_str(length), 0, INT64_MAX, &size, NULL) < 0))
        return (int)bad(ret_status, 400, err, "Content-Length must be a number of bytes");
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return (int)bad(ret_status, 417, err, "the only supported Expect is 100-continue");
    h->body_size = coding ? -1 : (int64_t)size;
    h->expects = expect && h->minor > 0 && h->body_size != 0;
    h->close = h->minor == 0 || dz_http_head_lists(h, "Connection", "close");
    return 0;
}

int dz_http_head_parse(char *p, size_t n, struct dz_http_head *ret_head, int *ret_status,
                       struct dz_err *err)
{
    char *line = p, *end = p + n;
    int rc = 0;
    *ret_head = (struct dz_http_head){.method = "", .target = "/", .close = true};
    for (size_t i = 0; rc == 0 && line < end; i++) {
        char *next = memchr(line, '\n', (size_t)(end - line));
        if (!next || next == line || next[-1] != '\r')
            return (int)bad(ret_status, 400, err, "a header line ends in LF without CR");
        next[-1] = '\0';
        if (i == 0)
            rc = read_request_line(line, ret_head, ret_status, err);
        else if (line[0])
            rc = read_header(line, ret_head, ret_status, err);
        line = next + 1;
    }
    if (rc == 0)
        rc = check_single(ret_head, ret_status, err);
    if (rc == 0)
        rc = check_host(ret_head, ret_status, err);
    return rc < 0 ? rc : read_framing(ret_head, ret_status, err);
}

/* --- answers --------------------------------------------------------------------------------- */

/* VERSION SP three digits, and SP with a reason, which may be empty or missing. */
static int read_status_line(char *line, struct dz_http_answer *ret, struct dz_err *err)
{
    uint64_t status;
    if (strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') || line[8] != ' ')
        return dz_fail(err, DZ_EINVAL, "an answer does not begin with HTTP/1.1 or 1.0");
    if (strspn(line + 9, "0123456789") != 3 || (line[12] && line[12] != ' ') ||
        dz_num_u64(dz_str_n(line + 9, 3), 100, 599, &status, NULL) < 0)
        return dz_fail(err, DZ_EINVAL, "an answer's status is not a number from 100 to 599");
    ret->head.minor = line[7] - '0';
    ret->status = (int)status;
    ret->reason = line[12] ? line + 13 : "";
    return 0;
}

int dz_http_answer_parse(char *p, size_t n, struct dz_http_answer *ret_answer, struct dz_err *err)
{
    struct dz_http_head *h = &ret_answer->head;
    char *line = p, *end = p + n;
    int status, rc = 0;
    *ret_answer = (struct dz_http_answer){.reason = "", .head = {.method = "", .target = ""}};
    for (size_t i = 0; rc == 0 && line < end; i++) {
        char *next = memchr(line, '\n', (size_t)(end - line));
        if (!next)
            return dz_fail(err, DZ_EINVAL, "a head must end in an empty line");
        *next = '\0';
        if (next > line && next[-1] == '\r')
            next[-1] = '\0';
        if (i == 0)
            rc = read_status_line(line, ret_answer, err);
        else if (line[0])
            rc = read_header(line, h, &status, err);
        line = next + 1;
    }
    if (rc == 0)
        rc = check_single(h, &status, err);
    if (rc == 0 && dz_http_head_get(h, "Transfer-Encoding") && h->minor == 0)
        rc = dz_fail(err, DZ_EINVAL, "an answer of HTTP/1.0 has a Transfer-Encoding");
    if (rc == 0)
        rc = read_framing(h, &status, err);
    ret_answer->until_close = h->body_size == 0 && !dz_http_head_get(h, "Content-Length");
    return rc;
}

/* --- bodies in chunks ------------------------------------------------------------------------
 *
 * A chunk is its size in hexadecimal, perhaps extensions, CRLF, the bytes, CRLF. A chunk of size 0
 * ends the body; trailers and an empty line follow. Extensions and trailers are read and thrown
 * away, as the standard wants, up to a limit. Every line ends in CRLF.
 *
 *     SIZE ──▶ [EXTENSION] ──▶ SIZE_LF ──▶ DATA ──▶ DATA_CR ──▶ DATA_LF ──▶ SIZE
 *                                     └──▶ TRAILER ──▶ ... ──▶ END_LF ──▶ OVER    (a chunk of 0)
 *
 * Invariant (assert_chunks, after each step): only DATA has bytes left besides the states that
 * read a size; the counts of digits, lines and all lines are within their limits. */

enum {
    SIZE, /* digits */
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER, /* the first byte of a line */
    TRAILER_TEXT,
    TRAILER_LF,
    END_LF,
    OVER,
};

enum {
    DIGITS_MAX = 15,  /* of a size: below 2^60 */
    LINE_MAX_ = 256,  /* bytes of extensions of a chunk, or of a trailer */
    TOTAL_MAX = 8192, /* of them all */
};

static bool is_text(char c)
{
    return c == '\t' || (unsigned char)c >= ' ';
}

/* Another byte of an extension or a trailer. */
static int count_line(struct dz_http_chunks *c, struct dz_err *err)
{
    if (++c->line > LINE_MAX_ || ++c->total > TOTAL_MAX)
        return dz_fail(err, DZ_ELIMIT, "the extensions and trailers of a body are too long");
    return 0;
}

static void assert_chunks(const struct dz_http_chunks *c)
{
    assert(c->left == 0 || c->state <= DATA);
    assert(c->digits <= DIGITS_MAX && c->line <= LINE_MAX_ && c->total <= TOTAL_MAX);
}

static int in_size(struct dz_http_chunks *c, char b)
{
    int digit = dz_hex_digit(b);
    if (digit >= 0 && c->digits < DIGITS_MAX) {
        c->left = c->left * 16 + (uint64_t)digit;
        c->digits++;
        return 0;
    }
    if (c->digits == 0 || (b != '\r' && b != ';'))
        return DZ_EINVAL;
    c->state = b == ';' ? EXTENSION : SIZE_LF;
    return 0;
}

/* One byte of the framing. */
static int chunk_step(struct dz_http_chunks *c, char b, struct dz_err *err)
{
    int rc = 0;
    switch (c->state) {
    case SIZE:
        return in_size(c, b);
    case EXTENSION:
        c->state = b == '\r' ? SIZE_LF : EXTENSION;
        return b == '\r' ? 0 : is_text(b) ? count_line(c, err) : DZ_EINVAL;
    case SIZE_LF:
        c->state = c->left ? DATA : TRAILER;
        c->line = c->digits = 0;
        return b == '\n' ? 0 : DZ_EINVAL;
    case DATA_CR:
        c->state = DATA_LF;
        return b == '\r' ? 0 : DZ_EINVAL;
    case DATA_LF:
        c->state = SIZE;
        return b == '\n' ? 0 : DZ_EINVAL;
    case TRAILER:
        c->state = b == '\r' ? END_LF : TRAILER_TEXT;
        return b == '\r' ? 0 : is_text(b) && b != ' ' && b != '\t' ? count_line(c, err) : DZ_EINVAL;
    case TRAILER_TEXT:
        c->state = b == '\r' ? TRAILER_LF : TRAILER_TEXT;
        return b == '\r' ? 0 : is_text(b) ? count_line(c, err) : DZ_EINVAL;
    case TRAILER_LF:
        c->state = TRAILER;
        c->line = 0;
        return b == '\n' ? 0 : DZ_EINVAL;
    case END_LF:
        c->state = OVER;
        return b == '\n' ? 0 : DZ_EINVAL;
    default:
        rc = DZ_EINVAL;
    }
    return rc;
}

ssize_t dz_http_chunks_next(struct dz_http_chunks *c, const char *p, size_t n, size_t *ret_data,
                            bool *ret_end, struct dz_err *err)
{
    size_t i = 0;
    *ret_data = 0;
    while (i < n && c->state != DATA && c->state != OVER) {
        int rc = chunk_step(c, p[i++], err);
        if (rc == DZ_ELIMIT)
            return rc;
        if (rc < 0)
            return dz_fail(err, DZ_EINVAL, "the chunks of the body are malformed");
    }
    assert_chunks(c);
    if (c->state == DATA)
        *ret_data = n - i < c->left ? n - i : (size_t)c->left;
    *ret_end = c->state == OVER;
    return (ssize_t)i;
}

void dz_http_chunks_took(struct dz_http_chunks *c, size_t n)
{
    assert(c->state == DATA && n <= c->left);
    c->left -= n;
    if (c->left == 0)
        c->state = DATA_CR;
}
