/* SPDX-License-Identifier: MIT
 *
 * Answers: bytes, files, streams, errors.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>
#include <unistd.h>

/* --- handing over --------------------------------------------------------------------- */

void dz_http_queue(struct dz_http_req *r)
{
    struct MHD_Response *response = DZ_TAKE_PTR(r->response);
    if (!response)
        return;
    r->queued = MHD_queue_response(r->mhd, (unsigned)r->status, response) == MHD_YES;
    MHD_destroy_response(response); /* it holds its own reference */
}

/* In HEAD: is the answer to wait for the end of the body? libmicrohttpd closes a connection
 * that is answered before, which without a body is a waste; and a client that sends one
 * without having asked may find the connection closed while it writes, and never read the
 * answer. A long one is not waited for. */
static bool read_on(const struct dz_http_req *r)
{
    return r->phase == DZ_HTTP_PHASE_HEAD && r->body_size >= 0 &&
           (r->body_size == 0 ||
            (r->body_size <= DZ_HTTP_DISCARD_MAX && !dz_http_header(r, "Expect")));
}

void dz_http_answer(struct dz_http_req *r, int status, struct MHD_Response *response)
{
    assert(!r->answered && (!r->gone || r->kept));
    if (r->gone) { /* its client has left: only who keeps answers was told */
        bool over = !r->mhd;
        r->answered = true;
        r->status = status;
        (void)dz_map_remove64(&r->http->waiting, r->id);
        if (response)
            MHD_destroy_response(response);
        if (over)
            dz_http_req_over(r);
        return;
    }
    r->answered = true;
    r->on_gone = NULL;
    r->status = status;
    r->response = response;
    (void)dz_map_remove64(&r->http->waiting, r->id);
    if (response)
        (void)MHD_add_response_header(response, "Request-Id", r->request_id);
    if (response && r->http->quiesced && status != 101)
        (void)MHD_add_response_header(response, "Connection", "close");
    for (const struct dz_http_set *set = r->headers; response && set; set = set->next)
        (void)MHD_add_response_header(response, set->name, set->value);
    if (!response) {
        r->gone = true; /* nothing can be said: the connection is cut */
    } else if (read_on(r)) {
        r->head_again = r->suspended;
        r->phase = DZ_HTTP_PHASE_BODY;
    } else if (r->phase != DZ_HTTP_PHASE_BODY || r->head_again) {
        dz_http_queue(r);
    }
    dz_http_req_resume(r);
}

void dz_http_set(struct dz_http_req *r, const char *name, const char *value)
{
    struct dz_http_set *set = dz_arena_alloc(&r->arena, sizeof *set), **at = &r->headers;
    struct dz_str name_copy = dz_arena_str(&r->arena, dz_str(name));
    struct dz_str value_copy = dz_arena_str(&r->arena, dz_str(value));
    if (!set || !name_copy.p || !value_copy.p)
        return; /* an answer without it is better than none */
    *set = (struct dz_http_set){name_copy.p, value_copy.p, NULL};
    while (*at)
        at = &(*at)->next;
    *at = set;
}

static void set_type(struct MHD_Response *response, const char *type)
{
    if (response && type)
        (void)MHD_add_response_header(response, "Content-Type", type);
}

/* --- bytes and files -------------------------------------------------------------------- */

void dz_http_send(struct dz_http_req *r, int status, const char *type, struct dz_buf *body)
{
    struct MHD_Response *response = NULL;
    size_t n = 0;
    char *p = NULL;
    bool empty = !body || (body->len == 0 && !body->err);
    if (r->kept && r->http->opts.kept && !(body && body->err))
        r->http->opts.kept(r, status, empty ? DZ_STR("") : dz_str_n(body->p, body->len),
                           r->http->opts.user);
    if (!empty && !body->err)
        p = dz_buf_detach(body, &n);
    if (empty)
        response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    else if (p)
        response = MHD_create_response_from_buffer_with_free_callback(n, p, dz_free);
    if (!response)
        dz_free(p);
    set_type(response, empty ? NULL : type);
    dz_http_answer(r, status, response);
}

void dz_http_send_fd(struct dz_http_req *r, int status, const char *type, int fd, uint64_t at,
                     uint64_t size)
{
    struct MHD_Response *response = MHD_create_response_from_fd_at_offset64(size, fd, at);
    if (!response)
        dz_fd_close(&fd);
    set_type(response, type);
    dz_http_answer(r, status, response);
}

/* --- errors ------------------------------------------------------------------------------ */

void dz_http_problem_text(const struct dz_http_req *r, const struct dz_http_problem *p,
                          struct dz_buf *out)
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
    dz_json_put_strz(&j, "sandbox_id", p->sandbox_id);
    dz_json_put_strz(&j, "request_id", r ? r->request_id : NULL);
    dz_json_end(&j);
    dz_json_end(&j);
}

void dz_http_refuse(struct dz_http_req *r, const struct dz_http_problem *p)
{
    struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_http_problem_text(r, p, &text);
    dz_http_send(r, p->status ? p->status : dz_err_http(p->code), DZ_HTTP_JSON, &text);
    dz_buf_release(&text);
}

void dz_http_fail(struct dz_http_req *r, const struct dz_err *err)
{
    const struct dz_http_problem p = {.code = err->code, .message = err->msg};
    dz_http_refuse(r, &p);
}

/* --- streams ------------------------------------------------------------------------------ */

static ssize_t pull(void *arg, uint64_t at, char *p, size_t n)
{
    struct dz_http_req *r = arg;
    ssize_t got = DZ_HTTP_WAIT;
    (void)at;
    if (r->gone || r->http->ending)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    do {
        r->nudged = false;
        got = r->source->pull(r->source_arg, p, n);
    } while (got == DZ_HTTP_WAIT && r->nudged && !r->gone);
    if (got == DZ_HTTP_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (got == DZ_HTTP_WAIT && !r->gone) {
        dz_http_req_suspend(r);
        return 0;
    }
    assert(got <= (ssize_t)n);
    return got > 0 ? got : MHD_CONTENT_READER_END_WITH_ERROR;
}

void dz_http_stream(struct dz_http_req *r, int status, const char *type, int64_t size,
                    const struct dz_http_source *source, void *arg)
{
    struct MHD_Response *response = NULL;
    uint64_t total = size < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)size;
    if (dz_map_put64(&r->http->streaming, r->id, r, NULL) == 0)
        response = MHD_create_response_from_callback(total, DZ_IO_PIECE, pull, r, NULL);
    if (!response) {
        (void)dz_map_remove64(&r->http->streaming, r->id);
        dz_http_answer(r, 503, NULL);
        source->done(arg);
        return;
    }
    r->source = source;
    r->source_arg = arg;
    set_type(response, type);
    (void)MHD_set_connection_option(r->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                                    (unsigned)DZ_HTTP_STALL_S);
    dz_http_answer(r, status, response);
}
