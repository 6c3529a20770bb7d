/* SPDX-License-Identifier: MIT
 *
 * http_relay.c - a request and its answer through a reverse proxy (RFC 9110, 7.6; RFC 9112, 6).
 *
 * Headers that only concern one connection are not passed on: those that Connection names, and the
 * known ones. Headers that this proxy writes itself (Host, lengths, X-Forwarded-*, Via) are never
 * copied, so a client can neither remove them through Connection nor forge them.
 *
 * The only upgrade is to WebSocket. Other protocols, h2c first of all, would let a client send
 * requests that nobody checks; an Upgrade to them is dropped, as the standard allows.
 *
 * Invariant (assert_relay): in a tunnel both messages are over; a body of known size has bytes left
 * until it is over; a head is buffered only before the answer's body.
 */
#include "http/http_relay.h"

#include "base/num.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

enum {
    INTERIM_MAX = 16, /* answers 1xx to one request */
    PORT_MAX = 65535,
};
enum body { /* of the answer */
    HEAD,   /* it has not begun */
    SIZED,
    CHUNKED,
    UNTIL_CLOSE,
};

static void assert_relay(const struct dz_http_relay *r)
{
    assert(!r->tunnel || (r->answer_over && r->request_over));
    assert(r->answer_over || r->body != SIZED || r->left > 0);
    assert(r->body == HEAD || r->head.len == 0);
}

/* ---- names of previews -------------------------------------------------------------------- */

static bool same(struct dz_str a, const char *b)
{
    return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0;
}

/* The value of "name=value". Blanks around both are no part of them (RFC 6265, 5.2), so a filter
 * that kept them would miss a cookie that a browser accepts. */
static bool is_pair(struct dz_str pair, const char *name, struct dz_str *ret_value)
{
    const size_t eq = dz_str_find_char(pair, '=');
    if (eq == DZ_STR_NONE || !dz_str_eqz(dz_str_trim(dz_str_sub(pair, 0, eq)), name))
        return false;
    *ret_value = dz_str_trim(dz_str_sub(pair, eq + 1, pair.n));
    return true;
}

/* Does "name=value" set our cookie? Some clients take "=name=value" for a cookie with that name. */
static bool is_our_cookie(struct dz_str pair)
{
    struct dz_str value;
    pair = dz_str_trim(pair);
    if (pair.n > 0 && pair.p[0] == '=')
        pair = dz_str_sub(pair, 1, pair.n);
    return is_pair(pair, DZ_HTTP_PREVIEW_COOKIE, &value);
}

static bool find_pair(struct dz_str rest, char separator, const char *name, struct dz_str *ret)
{
    struct dz_str part;
    while (dz_str_split(&rest, separator, &part))
        if (is_pair(dz_str_trim(part), name, ret))
            return true;
    return false;
}

enum dz_http_preview_from dz_http_preview_token(const struct dz_http_head *head,
                                                struct dz_str *ret_token)
{
    const char *header = dz_http_head_get(head, DZ_HTTP_PREVIEW_HEADER);
    if (header) {
        *ret_token = dz_str(header);
        return DZ_HTTP_PREVIEW_BY_HEADER;
    }
    for (size_t i = 0; i < head->count; i++)
        if (strcasecmp(head->headers[i].name, "Cookie") == 0 &&
            find_pair(dz_str(head->headers[i].value), ';', DZ_HTTP_PREVIEW_COOKIE, ret_token))
            return DZ_HTTP_PREVIEW_BY_COOKIE;
    const char *query = strchr(head->target, '?');
    if (query && find_pair(dz_str(query + 1), '&', DZ_HTTP_PREVIEW_QUERY, ret_token))
        return DZ_HTTP_PREVIEW_BY_QUERY;
    return DZ_HTTP_PREVIEW_NONE;
}

bool dz_http_preview_host(struct dz_str host, struct dz_str domain, uint32_t *ret_port,
                          struct dz_str *ret_id)
{
    const size_t colon = dz_str_find_char(host, ':');
    uint64_t port;
    if (colon != DZ_STR_NONE)
        host = dz_str_sub(host, 0, colon);
    const size_t dot = dz_str_find_char(host, '.'), dash = dz_str_find_char(host, '-');
    if (dot == DZ_STR_NONE || dash == DZ_STR_NONE || dash == 0 || dash + 1 >= dot || domain.n == 0)
        return false;
    const struct dz_str rest = dz_str_sub(host, dot + 1, host.n);
    if (rest.n != domain.n || strncasecmp(rest.p, domain.p, rest.n) != 0 || host.p[0] == '0' ||
        dz_num_u64(dz_str_sub(host, 0, dash), 1, PORT_MAX, &port, NULL) < 0)
        return false;
    *ret_port = (uint32_t)port;
    *ret_id = dz_str_sub(host, dash + 1, dot - dash - 1);
    return true;
}

/* ---- headers ------------------------------------------------------------------------------ */

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Is this header about one connection only? */
static bool is_hop(const struct dz_http_head *h, const char *name)
{
    static const char *const hops[] = {"Connection",
                                       "Keep-Alive",
                                       "Proxy-Connection",
                                       "Proxy-Authorization",
                                       "Proxy-Authenticate",
                                       "Proxy-Authentication-Info",
                                       "TE",
                                       "Upgrade",
                                       "Transfer-Encoding",
                                       "Content-Length"};
    return is_one_of(name, hops, DZ_ARRAY_LEN(hops)) || dz_http_head_lists(h, "Connection", name);
}

static void put(struct dz_buf *to, const char *name, const char *value)
{
    dz_buf_addf(to, "%s: %s\r\n", name, value);
}

/* The value of a Cookie header without our cookie; nothing if no other is there. */
static void put_cookies(struct dz_buf *to, const char *value)
{
    struct dz_str rest = dz_str(value), part;
    bool any = false;
    while (dz_str_split(&rest, ';', &part)) {
        part = dz_str_trim(part);
        if (part.n == 0 || is_our_cookie(part))
            continue;
        dz_buf_adds(to, any ? "; " : "Cookie: ");
        dz_buf_add(to, part.p, part.n);
        any = true;
    }
    if (any)
        dz_buf_adds(to, "\r\n");
}

bool dz_http_relay_target(struct dz_buf *to, const struct dz_http_head *head, struct dz_str prefix)
{
    struct dz_str target = dz_str(head->target), part, ours;
    if (dz_str_eqz(target, "*")) {
        dz_buf_adds(to, "*");
        return strcmp(head->method, "OPTIONS") == 0 && prefix.n == 0;
    }
    if (strncasecmp(head->target, "http://", 7) == 0 ||
        strncasecmp(head->target, "https://", 8) == 0) { /* the absolute form */
        const size_t skip = head->target[4] == ':' ? 7 : 8;
        const char *path = head->target + skip + strcspn(head->target + skip, "/?");
        const char *host = dz_http_head_get(head, "Host");
        if (!host ||
            !same(dz_str_n(head->target + skip, (size_t)(path - head->target) - skip), host))
            return false; /* the caller has chosen the sandbox by Host */
        target = dz_str(path);
        if (target.n == 0 || target.p[0] == '?')
            dz_buf_adds(to, "/");
    } else if (target.n == 0 || target.p[0] != '/') {
        return false;
    }
    const size_t mark = dz_str_find_char(target, '?');
    struct dz_str path = mark == DZ_STR_NONE ? target : dz_str_sub(target, 0, mark);
    if (!dz_str_eat(&path, prefix) || (prefix.n && path.n && path.p[0] != '/'))
        return false;
    if (prefix.n && path.n == 0)
        dz_buf_adds(to, "/");
    dz_buf_add(to, path.p, path.n);
    if (mark == DZ_STR_NONE)
        return true;
    struct dz_str query = dz_str_sub(target, mark + 1, target.n);
    bool any = query.n == 0;
    if (any)
        dz_buf_adds(to, "?");
    while (query.n && dz_str_split(&query, '&', &part)) {
        if (is_pair(part, DZ_HTTP_PREVIEW_QUERY, &ours))
            continue;
        dz_buf_adds(to, any ? "&" : "?");
        dz_buf_add(to, part.p, part.n);
        any = true;
    }
    return true;
}

static bool wants_websocket(const struct dz_http_head *h)
{
    const char *to = dz_http_head_get(h, "Upgrade");
    return h->minor > 0 && to && strcasecmp(to, "websocket") == 0 && h->body_size == 0 &&
           dz_http_head_lists(h, "Connection", "upgrade");
}

/* ---- the request -------------------------------------------------------------------------- */

static void put_forwarded(struct dz_buf *to, const struct dz_http_head *head,
                          const struct dz_http_relay_opts *opts)
{
    const char *host = dz_http_head_get(head, "Host");
    put(to, "X-Forwarded-For", opts->peer);
    put(to, "X-Forwarded-Proto", opts->tls ? "https" : "http");
    if (host)
        put(to, "X-Forwarded-Host", host);
    if (opts->prefix.n)
        dz_buf_addf(to, "X-Forwarded-Prefix: %.*s\r\n", (int)opts->prefix.n, opts->prefix.p);
}

static void put_request_headers(struct dz_buf *to, const struct dz_http_head *head,
                                const struct dz_http_relay_opts *opts)
{
    static const char *const ours[] = {"Host",
                                       "X-Forwarded-For",
                                       "X-Forwarded-Proto",
                                       "X-Forwarded-Host",
                                       "Forwarded",
                                       "X-Forwarded-Prefix",
                                       DZ_HTTP_PREVIEW_HEADER,
                                       "HTTP2-Settings",
                                       "X-Forwarded-Port",
                                       "X-Real-IP"};
    for (size_t i = 0; i < head->count; i++) {
        const char *name = head->headers[i].name;
        if (strcasecmp(name, "Cookie") == 0 && opts->prefix.n > 0)
            continue; /* of a host that several sandboxes share */
        if (strcasecmp(name, "Cookie") == 0 && !is_hop(head, name))
            put_cookies(to, head->headers[i].value);
        else if (!is_hop(head, name) && !is_one_of(name, ours, DZ_ARRAY_LEN(ours)))
            put(to, name, head->headers[i].value);
    }
}

int dz_http_relay_begin(struct dz_http_relay *r, const struct dz_http_head *head,
                        const struct dz_http_relay_opts *opts, struct dz_buf *to_guest,
                        int *ret_status, struct dz_err *err)
{
    const char *host = dz_http_head_get(head, "Host");
    *r =
        (struct dz_http_relay){.head = DZ_BUF_INIT(DZ_HTTP_HEAD_MAX + 1),
                               .upgrades = wants_websocket(head),
                               .head_only = strcmp(head->method, "HEAD") == 0,
                               .old_client = head->minor == 0,
                               .shared_host = opts->prefix.n > 0,
                               .close = head->close,
                               .request_chunked = head->body_size < 0,
                               .request_left = head->body_size > 0 ? (uint64_t)head->body_size : 0};
    r->request_over = !r->request_chunked && r->request_left == 0 && !r->upgrades;
    *ret_status = 400;
    if (strcmp(head->method, "CONNECT") == 0 || strcmp(head->method, "TRACE") == 0) {
        *ret_status = 405;
        return dz_fail(err, DZ_EINVAL, "%s is not forwarded to a sandbox", head->method);
    }
    dz_buf_addf(to_guest, "%s ", head->method);
    if (!dz_http_relay_target(to_guest, head, opts->prefix))
        return dz_fail(err, DZ_EINVAL, "the target of the request cannot be forwarded");
    dz_buf_addf(to_guest, " HTTP/1.%d\r\n", head->minor);
    if (host)
        put(to_guest, "Host", host);
    put_request_headers(to_guest, head, opts);
    put_forwarded(to_guest, head, opts);
    dz_buf_addf(to_guest, "Via: 1.%d doze\r\n", head->minor);
    if (dz_http_head_lists(head, "TE", "trailers") && !r->upgrades)
        put(to_guest, "TE", "trailers");
    if (r->request_chunked)
        put(to_guest, "Transfer-Encoding", "chunked");
    else if (dz_http_head_get(head, "Content-Length"))
        dz_buf_addf(to_guest, "Content-Length: %lld\r\n", (long long)head->body_size);
    dz_buf_adds(to_guest, r->upgrades ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                                      : "Connection: close\r\n\r\n");
    return to_guest->err ? dz_fail(err, to_guest->err, "forwarding a request: out of room") : 0;
}

void dz_http_relay_release(struct dz_http_relay *r)
{
    dz_buf_release(&r->head);
}

/* Copy a body in chunks, checking its framing; returns the bytes taken. */
static ssize_t copy_chunks(struct dz_http_chunks *c, const char *p, size_t n, struct dz_buf *to,
                           bool *ret_end, struct dz_err *err)
{
    size_t at = 0, data;
    *ret_end = false;
    while (at < n && !*ret_end) {
        const ssize_t framing = dz_http_chunks_next(c, p + at, n - at, &data, ret_end, err);
        if (framing < 0)
            return framing;
        dz_buf_add(to, p + at, (size_t)framing + data);
        at += (size_t)framing + data;
        if (data > 0)
            dz_http_chunks_took(c, data);
    }
    return (ssize_t)at;
}

static size_t least(size_t n, uint64_t left)
{
    return n < left ? n : (size_t)left;
}

ssize_t dz_http_relay_body(struct dz_http_relay *r, const char *p, size_t n,
                           struct dz_buf *to_guest, struct dz_err *err)
{
    ssize_t took = 0;
    if (r->tunnel) {
        dz_buf_add(to_guest, p, n);
        took = (ssize_t)n;
    } else if (r->request_over || r->upgrades) {
        return 0; /* the next request; or frames, if the guest accepts the upgrade */
    } else if (r->request_chunked) {
        took = copy_chunks(&r->request_chunks, p, n, to_guest, &r->request_over, err);
    } else {
        took = (ssize_t)least(n, r->request_left);
        dz_buf_add(to_guest, p, (size_t)took);
        r->request_left -= (uint64_t)took;
        r->request_over = r->request_left == 0;
    }
    if (took >= 0 && to_guest->err)
        return dz_fail(err, to_guest->err, "forwarding a body: out of room");
    return took;
}

/* ---- the answer --------------------------------------------------------------------------- */

static void put_answer_headers(const struct dz_http_relay *r, struct dz_buf *to,
                               const struct dz_http_head *head)
{
    for (size_t i = 0; i < head->count; i++) {
        const char *name = head->headers[i].name, *value = head->headers[i].value;
        struct dz_str pair = dz_str(value), first;
        if (is_hop(head, name))
            continue;
        /* A guest must not hand out tokens of previews, nor cookies for a host that it shares. */
        if (strcasecmp(name, "Set-Cookie") == 0 &&
            (r->shared_host || (dz_str_split(&pair, ';', &first) && is_our_cookie(first))))
            continue;
        put(to, name, value);
    }
    /* Pages of a host that several sandboxes share get an origin of their own each. */
    if (r->shared_host)
        put(to, "Content-Security-Policy",
            "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts");
}

/* How the body of a final answer ends. */
static int begin_body(struct dz_http_relay *r, const struct dz_http_answer *a, struct dz_buf *to,
                      struct dz_err *err)
{
    const bool none = r->head_only || a->status == 204 || a->status == 304;
    const char *length = dz_http_head_get(&a->head, "Content-Length");
    const int64_t size = a->head.body_size;
    r->close = r->close || r->old_client;
    if (length && a->status != 204)
        dz_buf_addf(to, "Content-Length: %lld\r\n", (long long)size);
    if (none) {
        r->answer_over = true;
    } else if (a->until_close) {
        r->body = UNTIL_CLOSE;
        r->close = r->close || r->old_client;
    } else if (size < 0) {
        r->body = CHUNKED;
        if (r->old_client)
            return dz_fail(err, DZ_EINVAL, "the answer to an HTTP/1.0 request has chunks");
    } else {
        r->body = SIZED;
        r->left = (uint64_t)size;
        r->answer_over = size == 0;
    }
    if (!none && !r->old_client && (r->body == UNTIL_CLOSE || r->body == CHUNKED))
        put(to, "Transfer-Encoding", "chunked");
    return 0;
}

/* A whole head of the guest. */
static int take_head(struct dz_http_relay *r, size_t n, struct dz_buf *to, struct dz_err *err)
{
    struct dz_http_answer a;
    int rc = dz_http_answer_parse(r->head.p, n, &a, err);
    if (rc < 0)
        return rc;
    if (a.status == 101 && (!r->upgrades || !dz_http_head_lists(&a.head, "Upgrade", "websocket") ||
                            !dz_http_head_lists(&a.head, "Connection", "upgrade")))
        return dz_fail(err, DZ_EINVAL, "the guest switched to a protocol that was not requested");
    const bool interim = a.status < 200 && a.status != 101;
    if (interim && ++r->interim > INTERIM_MAX)
        return dz_fail(err, DZ_ELIMIT, "the guest sent too many answers 1xx");
    if (!interim || !r->old_client) {
        dz_buf_addf(to, "HTTP/1.1 %d %s\r\n", a.status, a.reason);
        put_answer_headers(r, to, &a.head);
    }
    if (interim) {
        dz_buf_adds(to, r->old_client ? "" : "\r\n");
    } else if (a.status == 101) {
        dz_buf_adds(to, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        r->status = a.status;
        r->tunnel = r->request_over = r->answer_over = r->close = true;
    } else {
        rc = begin_body(r, &a, to, err);
        if (rc < 0)
            return rc;
        r->status = a.status;
        r->request_over = r->request_over || r->upgrades; /* the guest refused the upgrade */
        r->close = r->close || (r->answer_over && !r->request_over);
        dz_buf_adds(to, r->close ? "Connection: close\r\n\r\n" : "\r\n");
    }
    dz_buf_reset(&r->head);
    r->scanned = 0;
    return 0;
}

/* Collect a head; returns the bytes taken. */
static ssize_t collect(struct dz_http_relay *r, const char *p, size_t n, struct dz_buf *to,
                       struct dz_err *err)
{
    const size_t before = r->head.len;
    n = least(n, DZ_HTTP_HEAD_MAX + 1 - before);
    dz_buf_add(&r->head, p, n);
    if (r->head.err)
        return dz_fail(err, r->head.err, "an answer's head: out of room");
    const ssize_t size = dz_http_answer_end(r->head.p, r->head.len, &r->scanned, err);
    if (size <= 0)
        return size < 0 ? size : (ssize_t)n;
    /* Nothing of a head that is refused may reach the client. */
    const size_t mark = to->len;
    const int rc = take_head(r, (size_t)size, to, err);
    if (rc < 0 && to->len > mark) {
        to->len = mark;
        to->p[mark] = '\0';
    }
    if (rc < 0)
        return rc;
    return size - (ssize_t)before;
}

static ssize_t answer_body(struct dz_http_relay *r, const char *p, size_t n, struct dz_buf *to,
                           struct dz_err *err)
{
    if (r->body == CHUNKED)
        return copy_chunks(&r->chunks, p, n, to, &r->answer_over, err);
    if (r->body == UNTIL_CLOSE && !r->old_client)
        dz_buf_addf(to, "%zx\r\n", n);
    if (r->body == SIZED) {
        n = least(n, r->left);
        r->left -= n;
        r->answer_over = r->left == 0;
    }
    dz_buf_add(to, p, n);
    if (r->body == UNTIL_CLOSE && !r->old_client)
        dz_buf_adds(to, "\r\n");
    return (ssize_t)n;
}

ssize_t dz_http_relay_answer(struct dz_http_relay *r, const char *p, size_t n,
                             struct dz_buf *to_client, struct dz_err *err)
{
    size_t at = 0;
    while (at < n && (r->tunnel || !r->answer_over)) {
        ssize_t took = (ssize_t)(n - at);
        if (r->tunnel)
            dz_buf_add(to_client, p + at, n - at);
        else if (r->body == HEAD)
            took = collect(r, p + at, n - at, to_client, err);
        else
            took = answer_body(r, p + at, n - at, to_client, err);
        if (took < 0)
            return took;
        at += (size_t)took;
        assert_relay(r);
    }
    if (to_client->err)
        return dz_fail(err, to_client->err, "forwarding an answer: out of room");
    return (ssize_t)at;
}

int dz_http_relay_end(struct dz_http_relay *r, struct dz_buf *to_client, struct dz_err *err)
{
    if (r->answer_over)
        return 0;
    if (r->body != UNTIL_CLOSE)
        return dz_fail(err, DZ_EIO,
                       r->status ? "the guest closed its connection within an answer"
                                 : "the guest closed its connection without an answer");
    if (!r->old_client)
        dz_buf_adds(to_client, "0\r\n\r\n");
    r->answer_over = true;
    return to_client->err ? dz_fail(err, to_client->err, "forwarding an answer: out of room") : 0;
}
