/* SPDX-License-Identifier: MIT
 *
 * api_event.c - events: as a list, and as a live stream.
 *
 * A stream is a position in the stored events. It sends the events after that position as
 * fast as the client reads them, and is notified when there are more. So it needs no queue,
 * and a client that reconnects with Last-Event-ID misses nothing.
 */
#include "api/api_int.h"

#include "base/clock.h"
#include "base/num.h"

#include <stdio.h>
#include <string.h>

enum {
    BATCH = 256, /* events read at a time */
};

struct stream {
    struct dz_api *api;
    struct dz_sse *sse;
    struct dz_control_listener *listener;
    const struct dz_control_caller *who;
    int64_t after;
    bool full;                         /* the client must read before more is sent */
    char id[DZ_CONTROL_VALUE_MAX + 1]; /* only this sandbox's events; "": all */
};

static void put_event(struct dz_json *j, const struct dz_registry_event *e)
{
    dz_json_object(j);
    dz_json_put_i64(j, "id", e->seq);
    dz_json_put_strz(j, "type", e->what);
    dz_json_put_strz(j, "sandbox_id", e->sandbox_id[0] ? e->sandbox_id : NULL);
    dz_api_put_time(j, "at", e->at);
    dz_json_key(j, "detail");
    dz_json_object(j);
    if (e->detail[0])
        dz_json_put_strz(j, "text", e->detail);
    dz_json_end(j);
    dz_json_end(j);
}

/* --- the stream ---------------------------------------------------------------------------- */

static int send_event(void *arg, const struct dz_registry_event *e)
{
    struct stream *s = arg;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT((size_t)DZ_REGISTRY_TEXT_MAX * 2);
    struct dz_json j;
    char id[24];
    dz_json_init(&j, &text, false);
    put_event(&j, e);
    (void)snprintf(id, sizeof id, "%lld", (long long)e->seq);
    s->after = e->seq;
    if (dz_json_finish(&j) < 0)
        return 0;
    s->full = dz_sse_send(s->sse, e->what, id, dz_str_n(text.p, text.len)) != 0;
    return s->full;
}

static void go_on(void *arg)
{
    struct stream *s = arg;
    struct dz_why why;
    int rc = 1;
    while (rc == 1 && !s->full) {
        const struct dz_control_event_filter f = {
            .sandbox_id = s->id[0] ? s->id : NULL, .after = s->after, .limit = BATCH};
        rc = dz_control_events(s->api->control, s->who, &f, send_event, s, &why);
    }
}

static void on_room(void *arg)
{
    struct stream *s = arg;
    s->full = false;
    go_on(s);
}

static void on_closed(void *arg)
{
    struct stream *s = arg;
    dz_control_unlisten(s->listener);
    dz_free(s);
}

static const struct dz_sse_ops stream_ops = {on_room, on_closed};

static void start_stream(struct dz_api *a, struct dz_http_req *r, const char *id, int64_t after)
{
    struct stream *s = dz_zalloc(sizeof *s);
    struct dz_why why = {0};
    const struct dz_http_problem busy = {.code = DZ_ENOMEM, .message = "out of memory"};
    if (!s) {
        dz_http_refuse(r, &busy);
        return;
    }
    s->api = a;
    s->who = dz_api_caller(r, a);
    s->after = after;
    (void)snprintf(s->id, sizeof s->id, "%s", id ? id : "");
    if (dz_control_listen(a->control, go_on, s, &s->listener, &why) < 0) {
        dz_free(s);
        dz_api_refuse(r, &why);
        return;
    }
    s->sse = dz_http_sse(r, &stream_ops, s);
    if (!s->sse) {
        on_closed(s);
        return;
    }
    go_on(s);
}

/* --- the list -------------------------------------------------------------------------------- */

struct listing {
    struct dz_api_out out;
    int64_t last;
};

static int list_event(void *arg, const struct dz_registry_event *e)
{
    struct listing *l = arg;
    put_event(&l->out.json, e);
    l->last = e->seq;
    return 0;
}

static void list_events(struct dz_api *a, struct dz_http_req *r, const char *id, int64_t after,
                        size_t limit)
{
    const struct dz_control_event_filter f = {.sandbox_id = id, .after = after, .limit = limit};
    struct listing l = {.last = after};
    struct dz_why why = {0};
    char cursor[24];
    dz_api_begin(&l.out);
    dz_json_key(&l.out.json, "events");
    dz_json_array(&l.out.json);
    int rc = dz_control_events(a->control, dz_api_caller(r, a), &f, list_event, &l, &why);
    if (rc < 0) {
        dz_buf_release(&l.out.text);
        dz_api_refuse(r, &why);
        return;
    }
    dz_json_end(&l.out.json);
    (void)snprintf(cursor, sizeof cursor, "%lld", (long long)l.last);
    dz_json_put_strz(&l.out.json, "next_cursor", rc == 1 ? cursor : NULL);
    dz_api_send(r, 200, &l.out);
}

/* --- list and stream ---------------------------------------------------------------------------
 */

static int read_id(const char *text, const char *name, int64_t *ret_after, struct dz_why *why)
{
    int rc = text ? dz_num_i64(dz_str(text), 0, INT64_MAX, ret_after, &why->err) : 0;
    if (rc < 0)
        (void)snprintf(why->field, sizeof why->field, "%s", name);
    return rc;
}

/* The position to start after. Last-Event-ID overrides cursor, which overrides after; each one
 * given must be valid. */
static int read_after(const struct dz_http_req *r, const char *cursor, int64_t *ret_after,
                      struct dz_why *why)
{
    int rc = read_id(dz_http_query(r, "after"), "after", ret_after, why);
    if (rc == 0)
        rc = read_id(cursor, "cursor", ret_after, why);
    return rc < 0 ? rc : read_id(dz_http_last_event_id(r), "Last-Event-ID", ret_after, why);
}

static void events(struct dz_api *a, struct dz_http_req *r, const char *id)
{
    static const char *const names[] = {"after", NULL};
    struct dz_why why = {0};
    struct dz_api_page page;
    int64_t after = 0;
    int rc = dz_api_page(r, DZ_API_CURSOR_NUMBER, names, &page, &why);
    if (rc == 0)
        rc = read_after(r, page.cursor, &after, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    else if (dz_http_accepts(r, "text/event-stream"))
        start_stream(a, r, id, after);
    else
        list_events(a, r, id, after, page.limit);
}

void dz_api_events(struct dz_http_req *r, void *api)
{
    events(api, r, NULL);
}

void dz_api_sandbox_events(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    int rc = dz_control_get(a->control, dz_api_target(r, a, "id"), &row, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    else
        events(a, r, row.id);
}
