/* SPDX-License-Identifier: MIT
 *
 * Answers: bytes, files, streams, errors.
 */
#include "base/json.h"
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>

#define HELD                                                                               \
    "the daemon buffers too much data of this tenant: read the open answers, or send and " \
    "request less at a time"

/* --- bytes that wait ------------------------------------------------------------------- */

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

/* Start sending the answer in r; size as in dz_http_send_head. */
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
    dz_http_send_head(r, type, size);
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
    struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    r->refused = dz_err_wire(p->code);
    put_problem(r, p, &text);
    dz_http_send(r, p->status ? p->status : dz_err_http(p->code), DZ_HTTP_JSON, &text);
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
