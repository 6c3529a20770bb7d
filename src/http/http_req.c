/* SPDX-License-Identifier: MIT
 *
 * http_req.c - the life of a request: check its head, find its route, buffer its body or pass it to
 * a sink, call its handler. http_int.h has the picture.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "http/http_int.h"

#include <arpa/inet.h>
#include <assert.h>
#include <strings.h>

/* --- birth and death ------------------------------------------------------------------- */

struct dz_http_req *dz_http_req_new(struct dz_http_conn *c)
{
    struct dz_http *h = c->http;
    struct dz_http_req *r = dz_zalloc(sizeof *r);
    if (!r)
        return NULL;
    *r = (struct dz_http_req){
        .http = h,
        .conn = c,
        .id = ++h->last_id,
        .began_ns = dz_clock_mono_ns(),
        .arena = DZ_ARENA_INIT(DZ_HTTP_ARENA_MAX),
        .body = DZ_BUF_INIT(DZ_HTTP_BODY_MAX),
        .head = {.method = "", .target = "/"},
        .whole = true,
        .fd = -1,
    };
    if (dz_id_new("req", r->request_id, NULL) < 0 ||
        dz_map_put64(&h->waiting, r->id, r, NULL) < 0) {
        dz_free(r);
        return NULL;
    }
    dz_list_init(&r->link);
    h->request_count++;
    return r;
}

/* The only place that ends a handler's work on an unanswered request: from here on, neither the
 * sink nor dz_http_find reaches the request. */
static void stop_waiting(struct dz_http_req *r)
{
    void (*fn)(void *arg) = r->on_gone;
    r->on_gone = NULL;
    r->sink = NULL;
    if (!r->answered && dz_map_remove64(&r->http->waiting, r->id) && fn)
        fn(r->gone_arg);
}

void dz_http_req_over(struct dz_http_req *r)
{
    struct dz_http *h = r->http;
    r->gone = true;
    stop_waiting(r);
    (void)dz_map_remove64(&h->streaming, r->id);
    if (r->source)
        r->source->done(r->source_arg);
    if (r->ws) /* not opened yet */
        dz_http_ws_drop(r->ws);
    if (h->opts.hold)
        (void)h->opts.hold(r, &r->held, 0, true, h->opts.user);
    dz_http_req_learn(r);
    struct dz_log_context before =
        dz_log_enter((struct dz_log_context){r->request_id, r->sandbox_id, NULL});
    if (h->opts.done)
        h->opts.done(r, r->status, dz_clock_mono_ns() - r->began_ns, h->opts.user);
    (void)dz_log_enter(before);
    if (r->fd >= 0)
        dz_fd_close(&r->fd);
    dz_list_remove(&r->link);
    h->request_count--;
    dz_free(r->bytes);
    dz_arena_release(&r->arena);
    dz_buf_release(&r->body);
    dz_free(r);
}

void dz_http_req_left(struct dz_http_req *r)
{
    if (!r->kept || r->answered || r->http->ending) {
        dz_http_req_over(r);
        return;
    }
    r->gone = true; /* the client has left, but the answer is still wanted */
    r->conn = NULL;
    dz_list_push_back(&r->http->orphans, &r->link);
}

void dz_http_keep(struct dz_http_req *r)
{
    r->kept = true;
}

/* --- from the head to the handler ---------------------------------------------------------- */

void dz_http_req_refuse(struct dz_http_req *r, int code, int status, const char *message)
{
    const struct dz_http_problem p = {.code = code, .status = status, .message = message};
    stop_waiting(r); /* a handler that receives the body would wait for its end */
    dz_http_refuse(r, &p);
}

static void refuse(struct dz_http_req *r, const struct dz_err *err, int status, bool close)
{
    r->conn->close = r->conn->close || close;
    dz_http_req_refuse(r, err->code, status, err->msg);
}

/* Find the route. On failure the request has been answered. */
static bool find_route(struct dz_http_req *r)
{
    struct dz_http *h = r->http;
    struct dz_str query;
    struct dz_err err;
    int rc = dz_http_target_split(dz_str(r->head.target), &r->path, &query, &err);
    if (rc < 0) {
        refuse(r, &err, 0, false);
        return false;
    }
    const struct dz_http_wanted want = {.routes = h->opts.routes,
                                        .count = h->opts.route_count,
                                        .method = dz_str(r->head.method),
                                        .path = r->path};
    rc = dz_http_match(&want, &r->arena, &r->match, &err);
    if (rc == DZ_ESTATE) {
        err.code = DZ_EINVAL;
        dz_http_set(r, "Allow", r->match.allow);
        refuse(r, &err, 405, false);
        return false;
    }
    if (rc == 0)
        rc = dz_http_query_parse(query, &r->arena, &r->query, &err);
    if (rc == 0 && h->opts.admit)
        rc = h->opts.admit(r, h->opts.user, &err);
    if (rc < 0)
        refuse(r, &err, 0, false);
    r->admitted = rc == 0;
    return r->admitted;
}

static void ask_handler(struct dz_http_req *r)
{
    if (!(r->match.route->flags & DZ_HTTP_STREAMED) && r->http->opts.before &&
        r->http->opts.before(r, r->http->opts.user))
        return;
    r->match.route->handle(r, r->http->opts.user);
}

static void call_handler(struct dz_http_req *r)
{
    struct dz_http *h = r->http;
    uint64_t id = r->id;
    assert(!r->called);
    r->called = true;
    (void)snprintf(h->running.request_id, sizeof h->running.request_id, "%s", r->request_id);
    h->running.sandbox_id[0] = '\0';
    struct dz_log_context before = dz_log_enter((struct dz_log_context){
        h->running.request_id, h->running.sandbox_id, h->running.sandbox_id});
    ask_handler(r); /* the request may have been freed after this */
    (void)dz_log_enter(before);
    r = dz_http_find(h, id);
    if (r)
        dz_http_req_learn(r);
    h->running.request_id[0] = '\0';
}

static size_t body_max(const struct dz_http_req *r)
{
    return r->match.route->body_max ? r->match.route->body_max : DZ_HTTP_BODY_MAX;
}

static void refuse_size(struct dz_http_req *r)
{
    struct dz_err err;
    (void)dz_fail(&err, DZ_ELIMIT, "the body of this request may have at most %zu bytes",
                  body_max(r));
    refuse(r, &err, 0, true);
}

/* Refuse a body that opts.hold has no room for, without reading it. */
static void refuse_held(struct dz_http_req *r)
{
    r->conn->close = true;
    stop_waiting(r);
    dz_http_refuse_held(r);
}

/* The body is wanted: send 100 Continue if the client asked for it. */
static void go_on(struct dz_http_req *r)
{
    if (r->head.expects && !r->asked)
        dz_buf_adds(&r->conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
    r->asked = true;
}

/* The route is known: decide what to do with the body. */
static void begin_body(struct dz_http_req *r)
{
    bool streamed = r->match.route->flags & DZ_HTTP_STREAMED;
    r->body.max = body_max(r);
    if (!streamed && r->head.body_size > 0 && (uint64_t)r->head.body_size > body_max(r)) {
        refuse_size(r);
        return;
    }
    if (!streamed && r->head.body_size > DZ_HELD_FREE &&
        !dz_http_hold(r, &r->body_held, (size_t)r->head.body_size, false)) {
        refuse_held(r);
        return;
    }
    if (streamed && !r->whole)
        r->blocked = true; /* until dz_http_receive */
    else if (!r->whole)
        go_on(r);
    if (streamed || r->whole)
        call_handler(r);
}

void dz_http_req_head(struct dz_http_req *r, const char *p, size_t n)
{
    char *copy = dz_arena_alloc(&r->arena, n);
    struct dz_err err;
    int status = 0;
    if (!copy) {
        dz_http_conn_end(r->conn);
        return;
    }
    memcpy(copy, p, n);
    int rc = dz_http_head_parse(copy, n, &r->head, &status, &err);
    r->conn->close = r->head.close || r->http->quiesced;
    if (rc < 0) {
        r->conn->close = true;
        dz_http_req_refuse(r, err.code, status, err.msg);
        return;
    }
    r->body_left = r->head.body_size > 0 ? (uint64_t)r->head.body_size : 0;
    r->whole = r->head.body_size == 0;
    r->asked = !r->head.expects;
    r->conn->stage = r->whole ? DZ_HTTP_AT_WAIT : DZ_HTTP_AT_BODY;
    r->match.route = r->http->opts.divert ? r->http->opts.divert(r, r->http->opts.user) : NULL;
    if (r->match.route || find_route(r))
        begin_body(r);
}

/* --- the body --------------------------------------------------------------------------------- */

/* Consume a piece of the body; returns how many of the n bytes. */
static size_t take(struct dz_http_req *r, const char *p, size_t n)
{
    if (r->answered || r->useless) {
        r->discarded += n;
        return n;
    }
    if (!r->sink) {
        dz_buf_add(&r->body, p, n);
        if (r->body.err == DZ_ELIMIT)
            refuse_size(r);
        else if (r->body.err)
            dz_http_fail(r, &(struct dz_err){.code = DZ_ENOMEM, .msg = "keep the body: no memory"});
        else if (r->body.len > DZ_HELD_FREE && r->body.len > r->body_held &&
                 !dz_http_hold(r, &r->body_held, r->body.len, false)) /* in chunks */
            refuse_held(r);
        return n;
    }
    ssize_t taken = r->sink->push(r->sink_arg, p, n);
    assert(taken <= (ssize_t)n);
    r->useless = taken < 0;
    return taken < 0 ? n : (size_t)taken;
}

static size_t piece(struct dz_http_req *r, const char *p, size_t n)
{
    size_t taken = 0;
    do {
        r->nudged = r->blocked = false;
        taken += take(r, p + taken, n - taken);
    } while (taken < n && r->nudged && !r->answered);
    r->blocked = taken < n && !r->answered;
    return taken;
}

/* Read a piece of a chunked body: the framing, then the data behind it. */
static ssize_t chunks(struct dz_http_req *r, const char *p, size_t n)
{
    struct dz_err err;
    size_t data = 0;
    bool end = false;
    ssize_t framing = dz_http_chunks_next(&r->chunks, p, n, &data, &end, &err);
    if (framing < 0) {
        r->conn->close = true;
        if (!r->answered)
            dz_http_req_refuse(r, err.code, 0, err.msg);
        return framing;
    }
    size_t taken = data ? piece(r, p + framing, data) : 0;
    if (taken)
        dz_http_chunks_took(&r->chunks, taken);
    r->whole = end;
    return framing + (ssize_t)taken;
}

/* all of it has come */
static void req_whole(struct dz_http_req *r)
{
    if (r->answered)
        return;
    r->conn->stage = DZ_HTTP_AT_WAIT;
    dz_http_conn_allow(r->conn, 0);
    if (!r->called)
        call_handler(r);
    else if (r->sink && !r->useless)
        r->sink->end(r->sink_arg);
}

ssize_t dz_http_req_body(struct dz_http_req *r, const char *p, size_t n)
{
    ssize_t used;
    if (r->head.body_size < 0) {
        used = chunks(r, p, n);
    } else {
        n = n < r->body_left ? n : (size_t)r->body_left;
        used = (ssize_t)piece(r, p, n);
        r->body_left -= (uint64_t)used;
        r->whole = r->body_left == 0;
    }
    if (r->discarded > DZ_HTTP_DISCARD_MAX)
        return DZ_ELIMIT;
    if (used >= 0 && r->whole)
        req_whole(r);
    return used;
}

/* --- what a handler asks ---------------------------------------------------------------- */

void dz_http_receive(struct dz_http_req *r, const struct dz_http_sink *sink, void *arg)
{
    assert(r->match.route->flags & DZ_HTTP_STREAMED);
    assert(!r->sink && !r->answered);
    r->sink = sink;
    r->sink_arg = arg;
    if (r->whole) {
        sink->end(arg); /* there is no body */
        return;
    }
    r->blocked = false;
    go_on(r);
    dz_http_conn_kick(r->conn);
}

void dz_http_more(struct dz_http *h, uint64_t id)
{
    struct dz_http_req *r = dz_map_get64(&h->streaming, id);
    if (!r)
        r = dz_map_get64(&h->waiting, id);
    if (r && (r->source || r->sink)) {
        r->nudged = true; /* also seen by a pull or push that is calling this */
        dz_http_conn_kick(r->conn);
    }
}

uint64_t dz_http_id(const struct dz_http_req *r)
{
    return r->id;
}

struct dz_http_req *dz_http_find(const struct dz_http *h, uint64_t id)
{
    return dz_map_get64(&h->waiting, id);
}

void dz_http_on_gone(struct dz_http_req *r, void (*fn)(void *arg), void *arg)
{
    r->on_gone = fn;
    r->gone_arg = arg;
}

const struct dz_http_route *dz_http_route_of(const struct dz_http_req *r)
{
    return r->match.route;
}

const struct dz_http_head *dz_http_head(const struct dz_http_req *r)
{
    return &r->head;
}

const char *dz_http_method(const struct dz_http_req *r)
{
    return r->head.method;
}

struct dz_str dz_http_path(const struct dz_http_req *r)
{
    return r->path;
}

void dz_http_req_learn(struct dz_http_req *r)
{
    const struct dz_http *h = r->http;
    if (strcmp(h->running.request_id, r->request_id) == 0 && h->running.sandbox_id[0])
        dz_http_about(r, h->running.sandbox_id);
}

void dz_http_about(struct dz_http_req *r, const char *sandbox_id)
{
    (void)snprintf(r->sandbox_id, sizeof r->sandbox_id, "%s", sandbox_id);
}

const char *dz_http_refused(const struct dz_http_req *r)
{
    return r->refused;
}

const char *dz_http_request_id(const struct dz_http_req *r)
{
    return r->request_id;
}

const char *dz_http_param(const struct dz_http_req *r, const char *name)
{
    size_t i = 0, n = strlen(name);
    for (const char *p = r->match.route->pattern; (p = strchr(p, '{')); p++, i++)
        if (strncmp(p + 1, name, n) == 0 && p[1 + n] == '}')
            return r->match.params[i];
    assert(false && "a parameter that the pattern does not have");
    return NULL;
}

const char *dz_http_query(const struct dz_http_req *r, const char *name)
{
    for (size_t i = 0; i < r->query.count; i++)
        if (strcmp(r->query.pairs[i].name, name) == 0)
            return r->query.pairs[i].value;
    return NULL;
}

const char *dz_http_query_unknown(const struct dz_http_req *r, const char *const *names)
{
    for (size_t i = 0; i < r->query.count; i++) {
        size_t k = 0;
        while (names[k] && strcmp(names[k], r->query.pairs[i].name) != 0)
            k++;
        if (!names[k])
            return r->query.pairs[i].name;
    }
    return NULL;
}

const char *dz_http_header(const struct dz_http_req *r, const char *name)
{
    return dz_http_head_get(&r->head, name);
}

bool dz_http_accepts(const struct dz_http_req *r, const char *type)
{
    const char *accept = dz_http_header(r, "Accept");
    struct dz_str rest = dz_str(accept), part, name;
    while (dz_str_split(&rest, ',', &part)) {
        if (!dz_str_split(&part, ';', &name))
            continue;
        name = dz_str_trim(name);
        if (name.n == strlen(type) && strncasecmp(name.p, type, name.n) == 0)
            return true;
    }
    return false;
}

struct dz_str dz_http_body(const struct dz_http_req *r)
{
    return dz_str_n(r->body.p, r->body.len);
}

int64_t dz_http_peer_uid(const struct dz_http_req *r)
{
    return r->conn ? r->conn->peer_uid : -1;
}

const char *dz_http_peer(const struct dz_http_req *r, char out[static DZ_HTTP_PEER])
{
    if (!r->conn || !r->conn->tcp)
        return r->conn ? "unix" : "gone";
    const struct in6_addr *a = &r->conn->address;
    bool v4 = IN6_IS_ADDR_V4MAPPED(a);
    const void *from = v4 ? (const void *)&a->s6_addr[12] : a;
    return inet_ntop(v4 ? AF_INET : AF_INET6, from, out, DZ_HTTP_PEER) ? out : "?";
}

size_t dz_http_peer_key(const struct dz_http_req *r, uint8_t out[static 16])
{
    return dz_http_address_key(r->conn, out);
}

void dz_http_peer_address(const struct dz_http_req *r, uint8_t out[static 16])
{
    memcpy(out, r->conn && r->conn->tcp ? &r->conn->address : &in6addr_loopback, 16);
}

struct dz_arena *dz_http_arena(struct dz_http_req *r)
{
    return &r->arena;
}

void dz_http_set_context(struct dz_http_req *r, void *context)
{
    r->context = context;
}

void *dz_http_context(const struct dz_http_req *r)
{
    return r->context;
}
