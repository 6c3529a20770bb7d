/* SPDX-License-Identifier: MIT
 *
 * A request's life; http_int.h has the picture.
 *
 * libmicrohttpd calls dz_http_on_request once with the headers, once for each piece of the
 * body, and once at its end. When it was suspended in the first or the last of these, it
 * repeats that call after the resume; `head_again` tells a repeated first one from a last.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>
#include <strings.h>

/* --- birth ------------------------------------------------------------------------- */

static struct dz_http_conn *conn_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static int born(struct dz_http *h, struct dz_http_req *r, const char *uri)
{
    int rc = dz_id_new("req", r->request_id, NULL);
    r->target = dz_str_dup(dz_str(uri));
    if (rc < 0 || !r->target)
        return DZ_ENOMEM;
    return dz_map_put64(&h->waiting, r->id, r, NULL);
}

void *dz_http_on_target(void *http, const char *uri, struct MHD_Connection *c)
{
    struct dz_http *h = http;
    struct dz_http_req *r = h->ending || !conn_of(c) ? NULL : dz_zalloc(sizeof *r);
    if (!r)
        return NULL; /* the connection is closed at the next call */
    *r = (struct dz_http_req){
        .http = h,
        .conn = conn_of(c),
        .mhd = c,
        .id = ++h->last_id,
        .began_ns = dz_clock_mono_ns(),
        .arena = DZ_ARENA_INIT(DZ_HTTP_ARENA_MAX),
        .body = DZ_BUF_INIT(DZ_HTTP_BODY_MAX),
    };
    dz_list_init(&r->link);
    if (born(h, r, uri) < 0) {
        dz_free(r->target);
        dz_free(r);
        return NULL;
    }
    dz_list_push_back(&h->requests, &r->link);
    h->request_count++;
    return r;
}

/* --- standing still ------------------------------------------------------------------ */

void dz_http_req_suspend(struct dz_http_req *r)
{
    assert(!r->suspended);
    r->suspended = true;
    r->conn->request = r;
    MHD_suspend_connection(r->mhd);
    dz_http_conn_watch(r->conn, DZ_POLL_HANGUP);
}

void dz_http_req_resume(struct dz_http_req *r)
{
    if (!r->suspended)
        return;
    r->suspended = false;
    r->conn->request = NULL;
    dz_http_conn_watch(r->conn, 0);
    MHD_resume_connection(r->mhd);
    dz_http_kick(r->http);
}

/* --- the end ------------------------------------------------------------------------- */

static void stop_waiting(struct dz_http_req *r)
{
    void (*fn)(void *arg) = r->on_gone;
    r->on_gone = NULL;
    if (!r->answered && dz_map_remove64(&r->http->waiting, r->id) && fn)
        fn(r->gone_arg);
}

void dz_http_req_gone(struct dz_http_req *r)
{
    if (r->gone)
        return;
    r->gone = true;
    if (!r->kept || r->http->ending)
        stop_waiting(r);
    dz_http_req_resume(r);
}

void dz_http_on_completed(void *http, struct MHD_Connection *c, void **context,
                          enum MHD_RequestTerminationCode code)
{
    struct dz_http_req *r = *context;
    struct dz_http *h = http;
    if (!r)
        return;
    *context = NULL;
    r->gone = true;
    if (r->conn->request == r)
        r->conn->request = NULL;
    if (r->kept && !r->answered && !h->ending) { /* nobody is there, and the answer counts */
        r->mhd = NULL;
        r->conn = NULL;
        r->suspended = false;
        return;
    }
    stop_waiting(r);
    (void)dz_map_remove64(&h->streaming, r->id);
    if (r->source && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        (void)MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, h->opts.idle_s);
    if (r->source)
        r->source->done(r->source_arg);
    if (r->ws)
        dz_http_ws_drop(r->ws);
    dz_http_req_over(r);
}

void dz_http_req_over(struct dz_http_req *r)
{
    struct dz_http *h = r->http;
    if (h->opts.done)
        h->opts.done(r, r->status, dz_clock_mono_ns() - r->began_ns, h->opts.user);
    if (r->response)
        MHD_destroy_response(r->response);
    dz_list_remove(&r->link);
    h->request_count--;
    dz_arena_release(&r->arena);
    dz_buf_release(&r->body);
    dz_free(r->target);
    dz_free(r);
}

/* --- the calls ------------------------------------------------------------------------ */

static void refuse(struct dz_http_req *r, const struct dz_err *err, int status, bool close)
{
    const struct dz_http_problem p = {
        .code = err->code, .status = status, .message = err->msg, .reason = NULL};
    if (close)
        dz_http_set(r, "Connection", "close");
    dz_http_refuse(r, &p);
}

/* Looks the route up. When that fails it is answered. */
static bool find_route(struct dz_http_req *r)
{
    struct dz_http *h = r->http;
    struct dz_str query;
    struct dz_err err;
    size_t n = strlen(r->target);
    int rc = dz_http_check(r, &err);
    if (rc < 0) {
        refuse(r, &err, rc == DZ_ELIMIT ? 431 : 0, true);
        return false;
    }
    rc = n > DZ_HTTP_TARGET_MAX
             ? dz_fail(&err, DZ_ELIMIT, "the target is longer than %d bytes", DZ_HTTP_TARGET_MAX)
             : dz_http_target_split(dz_str(r->target), &r->path, &query, &err);
    if (rc < 0) {
        refuse(r, &err, rc == DZ_ELIMIT ? 414 : 0, false);
        return false;
    }
    rc = dz_http_match(h->opts.routes, h->opts.route_count, dz_str(r->method), r->path, &r->arena,
                       &r->match, &err);
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
    return rc == 0;
}

static void call_handler(struct dz_http_req *r)
{
    assert(!r->called);
    r->called = true;
    if (r->phase != DZ_HTTP_PHASE_HEAD && !(r->match.route->flags & DZ_HTTP_STREAMED) &&
        r->http->opts.before && r->http->opts.before(r, r->http->opts.user))
        return;
    r->match.route->handle(r, r->http->opts.user);
}

/* After the handler had its turn: wait unless it has answered, or the body is still to come. */
static enum MHD_Result wait_for_answer(struct dz_http_req *r)
{
    if (r->gone)
        return MHD_NO;
    if (r->phase == DZ_HTTP_PHASE_BODY)
        return MHD_YES;
    if (!r->answered)
        dz_http_req_suspend(r);
    else if (!r->queued)
        dz_http_queue(r);
    return r->answered && !r->queued ? MHD_NO : MHD_YES;
}

static size_t body_max(const struct dz_http_req *r)
{
    return r->match.route->body_max ? r->match.route->body_max : DZ_HTTP_BODY_MAX;
}

static void refuse_size(struct dz_http_req *r)
{
    struct dz_err err;
    (void)dz_fail(&err, DZ_ELIMIT, "the body may have at most %zu bytes here", body_max(r));
    refuse(r, &err, 0, true);
}

/* The first call: everything but the body is known. */
static enum MHD_Result begin(struct dz_http_req *r)
{
    r->begun = true;
    if (!find_route(r))
        return wait_for_answer(r);
    r->body.max = body_max(r);
    bool streamed = r->match.route->flags & DZ_HTTP_STREAMED;
    if (r->body_size > 0 && !streamed && (uint64_t)r->body_size > body_max(r))
        refuse_size(r);
    else if (r->body_size != 0 && streamed)
        call_handler(r);
    else
        r->phase = DZ_HTTP_PHASE_BODY; /* which may have no pieces */
    if (!r->answered && r->phase == DZ_HTTP_PHASE_HEAD)
        r->head_again = true;
    return wait_for_answer(r);
}

/* A piece of the body: how many of the n bytes were taken. */
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
        return n;
    }
    ssize_t taken = r->sink->push(r->sink_arg, p, n);
    assert(taken <= (ssize_t)n);
    r->useless = taken < 0;
    return taken < 0 ? n : (size_t)taken;
}

static enum MHD_Result piece(struct dz_http_req *r, const char *p, size_t *size)
{
    size_t n = *size, taken = 0;
    do {
        r->nudged = false;
        taken += take(r, p + taken, n - taken);
    } while (taken < n && r->nudged && !r->gone);
    *size = n - taken;
    if (r->gone || r->discarded > DZ_HTTP_DISCARD_MAX)
        return MHD_NO;
    if (taken < n)
        dz_http_req_suspend(r);
    return MHD_YES;
}

static enum MHD_Result whole(struct dz_http_req *r)
{
    if (r->phase == DZ_HTTP_PHASE_BODY) {
        r->phase = DZ_HTTP_PHASE_WHOLE;
        if (!r->answered && !r->called)
            call_handler(r);
        else if (!r->answered && r->sink && !r->useless)
            r->sink->end(r->sink_arg);
    }
    return wait_for_answer(r);
}

enum MHD_Result dz_http_on_request(void *http, struct MHD_Connection *c, const char *url,
                                   const char *method, const char *version, const char *data,
                                   size_t *data_size, void **context)
{
    struct dz_http_req *r = *context;
    (void)http;
    (void)c;
    (void)url;
    (void)version;
    if (!r || r->gone || r->http->ending)
        return MHD_NO;
    if (!r->begun) {
        r->method = method;
        return begin(r);
    }
    if (*data_size > 0)
        return piece(r, data, data_size);
    if (r->head_again) {
        r->head_again = false;
        if (r->phase == DZ_HTTP_PHASE_BODY)
            return MHD_YES;
    }
    return whole(r);
}

void dz_http_keep(struct dz_http_req *r)
{
    r->method = r->match.route->method; /* what libmicrohttpd has goes with the connection */
    r->kept = true;
}

/* --- what a handler asks ---------------------------------------------------------------- */

void dz_http_receive(struct dz_http_req *r, const struct dz_http_sink *sink, void *arg)
{
    assert(r->match.route->flags & DZ_HTTP_STREAMED);
    assert(!r->sink && !r->answered);
    r->sink = sink;
    r->sink_arg = arg;
    if (r->phase != DZ_HTTP_PHASE_HEAD) {
        sink->end(arg); /* there is no body */
        return;
    }
    r->phase = DZ_HTTP_PHASE_BODY;
    dz_http_req_resume(r);
}

void dz_http_more(struct dz_http *h, uint64_t id)
{
    struct dz_http_req *r = dz_map_get64(&h->streaming, id);
    if (!r)
        r = dz_map_get64(&h->waiting, id);
    if (r && (r->source || (r->phase == DZ_HTTP_PHASE_BODY && !r->head_again))) {
        r->nudged = true; /* for a pull or push that this comes from the inside of */
        dz_http_req_resume(r);
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

const char *dz_http_method(const struct dz_http_req *r)
{
    return r->method ? r->method : "";
}

struct dz_str dz_http_path(const struct dz_http_req *r)
{
    return r->path;
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
    return MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
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

int64_t dz_http_body_size(const struct dz_http_req *r)
{
    return r->body_size;
}

int64_t dz_http_peer_uid(const struct dz_http_req *r)
{
    return r->conn->peer_uid;
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
