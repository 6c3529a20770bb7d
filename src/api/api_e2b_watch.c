/* SPDX-License-Identifier: MIT
 *
 * api_e2b_watch.c - watches of directories for E2B's clients: as a stream (WatchDir), and as
 * watchers whose events are fetched (CreateWatcher, GetWatcherEvents, RemoveWatcher).
 *
 * Both check first that the path is a directory, because a watch says nothing until something
 * changes. A stream has the events that its client reads in time; a slow client holds up the watch,
 * which then loses events (sandbox_file.h). A watcher keeps the events that wait, up to KEEP_MAX
 * bytes and the memory of its tenant; beyond that it fails, instead of leaving some out. Watchers
 * live in the daemon's memory: they end with it, with their sandbox and by RemoveWatcher.
 */
#include "api/api_e2b.h"

#include "loop/loop.h"
#include "runtime/runtime_op.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    KEEP_MAX = 256 << 10,
    BEAT_MS = 90000, /* pause after which a silent stream gets a keepalive event */
};

/* A watch of one directory; either a stream, or a watcher with an id. */
struct watch {
    struct dz_api *api;
    struct dz_list link; /* of a watcher: in api->e2b_watchers */
    uint64_t id;         /* of the request that begins it */
    struct dz_control_own_caller own;
    struct dz_file_op *op;
    struct dz_timer *beat;
    struct dz_buf out; /* envelopes, or events as JSON with commas between */
    size_t at;         /* bytes of out that were sent */
    size_t untaken;    /* bytes to acknowledge once out is empty */
    size_t held;       /* bytes of a watcher's events that dz_control_account() counts */
    bool stream, deep, begun, cut, directory;
    char sandbox_id[DZ_ID_TEXT], watcher_id[DZ_ID_TEXT], path[DZ_E2B_PATH];
};

/* Count the events that a watcher keeps as memory of its tenant. */
static bool account(struct watch *w, size_t bytes)
{
    return dz_control_account(w->api->control, w->own.who.tenant, &w->held, bytes, false);
}

static void watch_free(struct watch *w)
{
    (void)account(w, 0);
    dz_file_op_cancel(w->op);
    dz_timer_free(w->beat);
    dz_list_remove(&w->link);
    dz_buf_release(&w->out);
    dz_free(w);
}

static void watch_gone(void *arg)
{
    watch_free(arg);
}

/* --- events -------------------------------------------------------------------------------------
 */

static const char *type_of(const char *what)
{
    static const char *const all[][2] = {
        {"create", "EVENT_TYPE_CREATE"},     {"moved_to", "EVENT_TYPE_CREATE"},
        {"write", "EVENT_TYPE_WRITE"},       {"remove", "EVENT_TYPE_REMOVE"},
        {"moved_from", "EVENT_TYPE_RENAME"}, {"attr", "EVENT_TYPE_CHMOD"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        if (strcmp(all[i][0], what) == 0)
            return all[i][1];
    return NULL;
}

/* Write {"name","type"}; the name is relative to the watched directory. */
static void put_change(const struct watch *w, const char *path, const char *type,
                       struct dz_buf *out)
{
    struct dz_str name = dz_str(path);
    struct dz_json j;
    if (strcmp(w->path, "/") == 0 || dz_str_eat(&name, dz_str(w->path)))
        (void)dz_str_eat(&name, DZ_STR("/"));
    else /* the path leads there by a symbolic link */
        name = dz_str(strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    dz_json_init(&j, out, false);
    dz_json_object(&j);
    dz_json_put_str(&j, "name", name);
    dz_json_put_strz(&j, "type", type);
    dz_json_end(&j);
}

static void on_changes(void *arg, const void *data, size_t n)
{
    struct watch *w = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_change c;
    while (dz_cell_change_next(&v, &c, NULL) == 1) {
        DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
        const char *type = type_of(c.what);
        if (!type) {
            w->cut = w->cut || strcmp(c.what, "overflow") == 0;
            continue;
        }
        if (w->stream) {
            dz_buf_adds(&text, "{\"filesystem\":");
            put_change(w, c.path, type, &text);
            dz_buf_adds(&text, "}");
            dz_e2b_put_envelope(&w->out, 0, dz_str_n(text.p, text.len));
        } else {
            put_change(w, c.path, type, &text);
            if (w->out.len > 0)
                dz_buf_adds(&w->out, ",");
            dz_buf_add(&w->out, text.p, text.len);
        }
    }
    if (!w->stream) {
        w->cut = w->cut || !account(w, w->out.len);
        dz_file_op_ack(w->op, n);
        return;
    }
    w->untaken += n;
    dz_timer_after(w->beat, BEAT_MS);
    dz_http_more(w->api->http, w->id);
}

static void on_beat(void *arg)
{
    struct watch *w = arg;
    dz_e2b_put_envelope(&w->out, 0, DZ_STR("{\"keepalive\":{}}"));
    dz_timer_after(w->beat, BEAT_MS);
    dz_http_more(w->api->http, w->id);
}

/* The watch has ended, with its sandbox. */
static void on_over(void *arg, const struct dz_why *why, uint64_t count)
{
    struct watch *w = arg;
    (void)why;
    (void)count;
    w->op = NULL;
    if (!w->stream) {
        watch_free(w);
        return;
    }
    w->cut = true;
    dz_http_more(w->api->http, w->id);
}

static const struct dz_file_op_ops watch_ops = {.data = on_changes, .done = on_over};

static ssize_t pull(void *arg, char *p, size_t n)
{
    struct watch *w = arg;
    size_t have = w->out.len - w->at, part = have < n ? have : n;
    if (w->cut || w->out.err)
        return DZ_HTTP_CUT;
    if (part > 0) {
        memcpy(p, w->out.p + w->at, part);
        w->at += part;
        return (ssize_t)part;
    }
    dz_buf_reset(&w->out);
    w->at = 0;
    if (w->op && w->untaken > 0) {
        size_t untaken = w->untaken;
        w->untaken = 0;
        dz_file_op_ack(w->op, untaken);
    }
    return DZ_HTTP_WAIT;
}

static const struct dz_http_source source = {pull, watch_gone};

/* --- begin ---------------------------------------------------------------------------------------
 */

static void watch_fail(struct watch *w, struct dz_http_req *r, const struct dz_err *err)
{
    int status;
    const char *code = dz_e2b_code(err->code, &status);
    bool stream = w->stream;
    struct dz_err copy = *err;
    dz_http_on_gone(r, NULL, NULL);
    watch_free(w);
    if (stream)
        dz_e2b_stream_fail(r, code, copy.msg);
    else
        dz_http_fail(r, &copy);
}

static void on_stat(void *arg, const void *data, size_t n)
{
    struct watch *w = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_stat st;
    w->directory = dz_cell_stat_next(&v, &st, NULL) == 1 && S_ISDIR(st.mode);
    dz_file_op_ack(w->op, n);
}

/* Answer that the watch has begun. */
static void begun(struct watch *w, struct dz_http_req *r)
{
    struct dz_api_out o;
    dz_http_on_gone(r, NULL, NULL);
    if (w->stream) {
        dz_e2b_put_envelope(&w->out, 0, DZ_STR("{\"start\":{}}"));
        dz_timer_after(w->beat, BEAT_MS);
        dz_http_stream(r, 200, DZ_E2B_STREAM, -1, &source, w); /* may free w */
        return;
    }
    dz_list_push_back(&w->api->e2b_watchers, &w->link);
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "watcherId", w->watcher_id);
    dz_api_send(r, 200, &o);
}

static void on_checked(void *arg, const struct dz_why *why, uint64_t count)
{
    struct watch *w = arg;
    struct dz_http_req *r = dz_http_find(w->api->http, w->id);
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_WATCH, .path = w->path, .flags = w->deep ? DZ_CELL_OP_DEEP : 0};
    const struct dz_file_op_request request = {&op, false, DZ_ACTIVITY_EVENT_STREAM, &watch_ops, w};
    const struct dz_control_target target = {&w->own.who, w->sandbox_id};
    struct dz_why wrong = {0};
    (void)count;
    w->op = NULL;
    int rc = why ? why->err.code
             : w->directory
                 ? dz_control_op(w->api->control, target, &request, &w->op, &wrong)
                 : dz_fail(&wrong.err, DZ_EINVAL, "path %.150s is not a directory", w->path);
    if (rc < 0)
        watch_fail(w, r, why ? &why->err : &wrong.err);
    else
        begun(w, r);
}

static const struct dz_file_op_ops check_ops = {.data = on_stat, .done = on_checked};

static size_t watchers_of(const struct dz_api *a, const char *sandbox_id)
{
    size_t n = 0;
    DZ_LIST_FOREACH(const struct watch, w, &a->e2b_watchers, link)
        n += strcmp(w->sandbox_id, sandbox_id) == 0;
    return n;
}

/* Refuse a call before it has become a watch. */
static void wrong(struct dz_http_req *r, bool stream, int code, const char *text)
{
    int status;
    if (stream)
        dz_e2b_stream_fail(r, dz_e2b_code(code, &status), text);
    else
        dz_e2b_refuse(r, code, 0, "%s", text);
}

static void watch(struct dz_api *a, struct dz_http_req *r, const json_t *o, bool stream)
{
    const char *path = json_string_value(json_object_get(o, "path"));
    struct dz_control_target target;
    char resolved[DZ_E2B_PATH];
    struct dz_why why = {0};
    if (!path || !path[0]) {
        wrong(r, stream, DZ_EINVAL, "path: must be given");
        return;
    }
    if (!dz_e2b_use(a, r, &target) || !dz_e2b_path(r, path, resolved))
        return;
    if (!stream && watchers_of(a, target.ref) >= DZ_E2B_WATCHERS_MAX) {
        wrong(r, stream, DZ_ERATE, "the sandbox has too many watchers; remove some");
        return;
    }
    struct watch *w = dz_zalloc(sizeof *w);
    if (!w) {
        wrong(r, stream, DZ_ENOMEM, "out of memory");
        return;
    }
    w->api = a;
    w->id = dz_http_id(r);
    w->stream = stream;
    w->deep = json_is_true(json_object_get(o, "recursive"));
    w->out = (struct dz_buf)DZ_BUF_INIT(stream ? DZ_API_ANSWER_MAX : KEEP_MAX);
    dz_list_init(&w->link);
    dz_control_caller_keep(&w->own, target.who);
    (void)snprintf(w->sandbox_id, sizeof w->sandbox_id, "%s", target.ref);
    (void)snprintf(w->path, sizeof w->path, "%s", resolved);
    for (size_t n = strlen(w->path); n > 1 && w->path[n - 1] == '/'; n--)
        w->path[n - 1] = '\0';
    const struct dz_cell_op op = {.type = DZ_CELL_OP_STAT, .path = w->path};
    const struct dz_file_op_request request = {&op, false, DZ_ACTIVITY_REQUEST, &check_ops, w};
    int rc = dz_timer_new(a->loop, on_beat, w, &w->beat, &why.err);
    if (rc == 0)
        rc = dz_id_new("wat", w->watcher_id, &why.err);
    dz_http_on_gone(r, watch_gone, w);
    if (rc == 0)
        rc = dz_control_op(a->control, target, &request, &w->op, &why);
    if (rc < 0)
        watch_fail(w, r, &why.err);
}

void dz_e2b_watch_dir(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_envelope(r);
    if (o)
        watch(api, r, o, true);
}

void dz_e2b_watcher_make(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    if (o)
        watch(api, r, o, false);
}

/* --- watchers
 * ------------------------------------------------------------------------------------- */

/* The watcher of this sandbox that a body names; NULL: the request has been refused. */
static struct watch *watcher_of(struct dz_api *a, struct dz_http_req *r)
{
    json_t *o = dz_e2b_body(r);
    const char *id = json_string_value(json_object_get(o, "watcherId"));
    const char *sandbox = dz_api_access(r);
    if (!o)
        return NULL;
    DZ_LIST_FOREACH(struct watch, w, &a->e2b_watchers, link)
        if (id && sandbox && strcmp(w->watcher_id, id) == 0 && strcmp(w->sandbox_id, sandbox) == 0)
            return w;
    dz_e2b_refuse(r, DZ_ENOENT, 0, "watcher with id %.60s not found", id ? id : "");
    return NULL;
}

void dz_e2b_watcher_events(struct dz_http_req *r, void *api)
{
    struct watch *w = watcher_of(api, r);
    struct dz_buf text = DZ_BUF_INIT(2 * KEEP_MAX);
    if (!w)
        return;
    if (w->out.err || w->cut) {
        watch_free(w);
        dz_e2b_refuse(r, DZ_ELIMIT, 0, "more events have come than a watcher keeps; it is removed");
        return;
    }
    dz_buf_adds(&text, "{\"events\":[");
    dz_buf_add(&text, w->out.p, w->out.len);
    dz_buf_adds(&text, "]}");
    dz_buf_reset(&w->out);
    (void)account(w, 0);
    dz_http_send(r, 200, DZ_HTTP_JSON, &text);
    dz_buf_release(&text);
}

void dz_e2b_watcher_remove(struct dz_http_req *r, void *api)
{
    struct watch *w = watcher_of(api, r);
    struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    if (!w)
        return;
    watch_free(w);
    dz_buf_adds(&text, "{}");
    dz_http_send(r, 200, DZ_HTTP_JSON, &text);
    dz_buf_release(&text);
}

void dz_e2b_watchers_end(struct dz_api *a)
{
    while (!dz_list_empty(&a->e2b_watchers))
        watch_free(DZ_LIST_FIRST(struct watch, &a->e2b_watchers, link));
}
