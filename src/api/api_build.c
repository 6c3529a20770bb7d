/* SPDX-License-Identifier: MIT
 *
 * api_build.c - build images from a recipe's text or from an archive, or pull them from a registry;
 * follow a build's status, progress and log; cancel a build.
 *
 * A follower is an offset in the build's log. It sends the bytes after that offset as fast as
 * the client reads them. A follower that starts or resumes late misses the bytes that the build
 * has already dropped.
 */
#include "api/api_exec.h"

#include "base/num.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    PIECE = 16384, /* bytes of a log in one event */
};

void dz_api_put_progress(struct dz_json *j, const char *what, uint64_t done, uint64_t total)
{
    dz_json_object(j);
    dz_json_put_strz(j, "what", what);
    dz_json_put_u64(j, "done_bytes", done);
    dz_json_put_u64(j, "total_bytes", total);
    dz_json_end(j);
}

static void put_build(struct dz_json *j, const struct dz_control_build_state *s)
{
    char ref[DZ_IMAGE_REF];
    dz_json_put_strz(j, "build_id", s->id);
    dz_json_put_strz(j, "name", s->name);
    dz_json_put_strz(j, "status", s->status);
    dz_json_put_strz(j, "image_id", s->image_sha256 ? dz_image_ref(s->image_sha256, ref) : NULL);
    dz_json_put_strz(j, "error", s->error);
    dz_json_put_bool(j, "over", s->over);
    dz_json_put_u64(j, "log_bytes", s->log_at + s->log.n);
    dz_json_key(j, "progress");
    if (s->what)
        dz_api_put_progress(j, s->what, s->done, s->total);
    else
        dz_json_null(j);
    dz_api_put_time(j, "created_at", s->created);
    dz_api_put_time(j, "ended_at", s->ended);
}

/* --- following -------------------------------------------------------------------------- */

struct follower {
    struct dz_api *api;
    struct dz_sse *sse;
    struct dz_control_build *build;
    struct dz_control_listener *listener;
    uint64_t at; /* offset in the log */
    const char *status;
    uint64_t done; /* bytes of the last event about progress */
    bool full, over;
};

static void send(struct follower *f, const char *event, const char *id, struct dz_buf *text)
{
    f->full = dz_sse_send(f->sse, event, id, dz_str_n(text->p, text->len)) != 0 || f->full;
}

static void send_state(struct follower *f, const char *event,
                       const struct dz_control_build_state *s)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, false);
    dz_json_object(&j);
    put_build(&j, s);
    dz_json_end(&j);
    send(f, event, NULL, &text);
}

static void send_log(struct follower *f, const struct dz_control_build_state *s)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT((size_t)PIECE * 8);
    struct dz_json j;
    char id[24];
    f->at = f->at < s->log_at ? s->log_at : f->at;
    size_t from = (size_t)(f->at - s->log_at), n = s->log.n - from;
    n = n < PIECE ? n : PIECE;
    dz_json_init(&j, &text, false);
    dz_api_put_bytes(&j, dz_str_n(s->log.p + from, n));
    f->at += n;
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)f->at);
    send(f, "log", id, &text);
}

static void go_on(void *arg)
{
    struct follower *f = arg;
    struct dz_control_build_state s;
    dz_control_build_get(f->build, &s);
    while (!f->full && !f->over && f->at < s.log_at + s.log.n)
        send_log(f, &s);
    if (!f->full && !f->over && !s.over && f->status != s.status) {
        f->status = s.status;
        send_state(f, "status", &s);
    }
    if (!f->full && !f->over && !s.over && s.what && f->done != s.done) {
        f->done = s.done;
        send_state(f, "progress", &s);
    }
    if (f->full || f->over || !s.over)
        return;
    f->over = true;
    send_state(f, "end", &s);
    dz_sse_end(f->sse);
}

static void on_room(void *arg)
{
    struct follower *f = arg;
    f->full = false;
    go_on(f);
}

static void on_closed(void *arg)
{
    struct follower *f = arg;
    dz_control_unlisten(f->listener);
    dz_free(f);
}

static const struct dz_sse_ops follow_ops = {on_room, on_closed};

static void follow(struct dz_api *a, struct dz_http_req *r, struct dz_control_build *b, uint64_t at)
{
    struct dz_why why = {0};
    struct follower *f = dz_zalloc(sizeof *f);
    int rc = f ? 0 : dz_fail(&why.err, DZ_ENOMEM, "out of memory");
    if (rc == 0) {
        *f = (struct follower){.api = a, .build = b, .at = at};
        rc = dz_control_build_listen(b, go_on, f, &f->listener, &why);
    }
    if (rc < 0) {
        dz_free(f);
        dz_api_refuse(r, &why);
        return;
    }
    f->sse = dz_http_sse(r, &follow_ops, f);
    if (!f->sse)
        on_closed(f);
    else
        go_on(f);
}

static void answer(struct dz_http_req *r, int status, const struct dz_control_build *b)
{
    struct dz_control_build_state s;
    struct dz_api_out o;
    dz_control_build_get(b, &s);
    dz_api_begin(&o);
    put_build(&o.json, &s);
    dz_api_send(r, status, &o);
}

static void begun(struct dz_api *a, struct dz_http_req *r, struct dz_control_build *b)
{
    dz_control_build_go(b);
    if (dz_http_accepts(r, "text/event-stream"))
        follow(a, r, b, 0);
    else
        answer(r, 202, b);
}

/* --- an archive --------------------------------------------------------------------------------
 */

struct sending {
    struct dz_api *api;
    uint64_t id;
    struct dz_control_build *build;
    struct dz_why why;
};

static void sending_gone(void *arg)
{
    struct sending *s = arg;
    dz_control_build_drop(s->build);
    dz_free(s);
}

static ssize_t push(void *arg, const char *p, size_t n)
{
    struct sending *s = arg;
    struct dz_http_req *r = dz_http_find(s->api->http, s->id);
    if (dz_control_build_put(s->build, p, n, &s->why) == 0)
        return (ssize_t)n;
    if (r) {
        dz_http_on_gone(r, NULL, NULL);
        dz_api_refuse(r, &s->why);
    }
    sending_gone(s);
    return -1;
}

static void pushed(void *arg)
{
    struct sending *s = arg;
    struct dz_http_req *r = dz_http_find(s->api->http, s->id);
    struct dz_control_build *b = s->build;
    struct dz_api *a = s->api;
    dz_free(s);
    if (r) {
        dz_http_on_gone(r, NULL, NULL);
        begun(a, r, b);
    } else {
        dz_control_build_drop(b);
    }
}

static const struct dz_http_sink sink = {push, pushed};

void dz_api_image_upload(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"name", "recipe", "from", "fresh", NULL};
    struct dz_api *a = api;
    const char *fresh = dz_http_query(r, "fresh");
    struct dz_why why = {0};
    struct sending *s = NULL;
    const struct dz_control_build_spec spec = {.name = dz_http_query(r, "name"),
                                               .recipe = dz_http_query(r, "recipe"),
                                               .from = dz_http_query(r, "from"),
                                               .fresh = fresh && strcmp(fresh, "true") == 0};
    int rc = dz_api_only(r, names, &why);
    if (rc == 0 && fresh && !spec.fresh && strcmp(fresh, "false") != 0) {
        rc = dz_fail(&why.err, DZ_EINVAL, "fresh: must be true or false");
        (void)snprintf(why.field, sizeof why.field, "fresh");
    }
    if (rc == 0 && !(s = dz_zalloc(sizeof *s)))
        rc = dz_fail(&why.err, DZ_ENOMEM, "out of memory");
    if (rc == 0)
        rc = dz_control_build_open(a->control, dz_api_caller(r, a), &spec, &s->build, &why);
    if (rc < 0) {
        dz_free(s);
        dz_api_refuse(r, &why);
        return;
    }
    assert(s);
    s->api = a;
    s->id = dz_http_id(r);
    dz_http_on_gone(r, sending_gone, s);
    dz_http_receive(r, &sink, s);
}

/* --- a text ------------------------------------------------------------------------------------
 */

struct request {
    struct dz_control_build_spec spec;
    int fresh;
};
const struct dz_api_field dz_api_build_fields[] = {
    {"name", DZ_API_STR, offsetof(struct request, spec.name), NULL, 0},
    {"recipe", DZ_API_STR, offsetof(struct request, spec.text), NULL, 0},
    {"from", DZ_API_STR, offsetof(struct request, spec.from), NULL, 0},
    {"pull", DZ_API_STR, offsetof(struct request, spec.pull), NULL, 0},
    {"fresh", DZ_API_BOOL, offsetof(struct request, fresh), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_image_build(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct request q = {.fresh = 0};
    struct dz_why why = {0};
    struct dz_control_build *b = NULL;
    if (!dz_api_body(r, &q))
        return;
    q.spec.fresh = q.fresh > 0;
    int rc = q.spec.text || q.spec.pull
                 ? 0
                 : dz_fail(&why.err, DZ_EINVAL,
                           "recipe: the text of a recipe is required, or pull: an image of a "
                           "registry");
    if (rc < 0)
        (void)snprintf(why.field, sizeof why.field, "recipe");
    if (rc == 0)
        rc = dz_control_build_open(a->control, dz_api_caller(r, a), &q.spec, &b, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    else
        begun(a, r, b);
}

/* --- the list of builds
 * -------------------------------------------------------------------------- */

static void list_one(void *arg, const struct dz_control_build *b)
{
    struct dz_json *j = arg;
    struct dz_control_build_state s;
    dz_control_build_get(b, &s);
    dz_json_object(j);
    put_build(j, &s);
    dz_json_end(j);
}

void dz_api_builds(struct dz_http_req *r, void *api)
{
    static const char *const none[] = {NULL};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_out o;
    int rc = dz_api_only(r, none, &why);
    dz_api_begin(&o);
    dz_json_key(&o.json, "builds");
    dz_json_array(&o.json);
    if (rc == 0)
        rc = dz_control_builds(a->control, dz_api_caller(r, a), list_one, &o.json, &why);
    if (rc < 0) {
        dz_buf_release(&o.text);
        dz_api_refuse(r, &why);
        return;
    }
    dz_json_end(&o.json);
    dz_api_send(r, 200, &o);
}

static struct dz_control_build *find(struct dz_api *a, struct dz_http_req *r)
{
    struct dz_why why = {0};
    struct dz_control_build *b = NULL;
    if (dz_control_build_find(a->control, dz_api_caller(r, a), dz_http_param(r, "build"), &b,
                              &why) < 0)
        dz_api_refuse(r, &why);
    return b;
}

void dz_api_build(struct dz_http_req *r, void *api)
{
    const struct dz_control_build *b = find(api, r);
    if (b)
        answer(r, 200, b);
}

void dz_api_build_cancel(struct dz_http_req *r, void *api)
{
    struct dz_control_build *b = find(api, r);
    if (!b)
        return;
    dz_control_build_cancel(b);
    answer(r, 202, b);
}

void dz_api_build_log(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"offset", NULL};
    const char *last = dz_http_last_event_id(r), *offset = last ? last : dz_http_query(r, "offset");
    struct dz_control_build *b = find(api, r);
    struct dz_control_build_state s;
    struct dz_why why = {0};
    uint64_t at = 0;
    if (!b)
        return;
    int rc = dz_api_only(r, names, &why);
    if (rc == 0 && offset)
        rc = dz_num_u64(dz_str(offset), 0, INT64_MAX, &at, &why.err);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    if (dz_http_accepts(r, "text/event-stream")) {
        follow(api, r, b, at);
        return;
    }
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT((size_t)1 << 20);
    dz_control_build_get(b, &s);
    at = at < s.log_at ? s.log_at : at > s.log_at + s.log.n ? s.log_at + s.log.n : at;
    dz_buf_add(&text, s.log.p + (at - s.log_at), s.log.n - (size_t)(at - s.log_at));
    dz_http_send(r, 200, DZ_HTTP_TEXT, &text);
}
