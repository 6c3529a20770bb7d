/* SPDX-License-Identifier: MIT
 *
 * api_file.c - directories and names: list, make, move, remove, watch; and SQL over the
 * sandbox's file. api_transfer.c moves the contents of files.
 */
#include "api/api_exec.h"

#include "base/clock.h"
#include "base/num.h"
#include "cell/cell_op_json.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    ENTRIES = 1000,       /* entries listed by default */
    ENTRIES_MAX = 100000, /* largest number of entries listed */
    DEPTH_MAX = 64,
    ROWS = 1000,
    ROWS_MAX = 100000,
};

const char *dz_api_path(struct dz_http_req *r, const char *const *names, struct dz_why *why)
{
    const char *path = dz_http_query(r, "path");
    if (dz_api_only(r, names, why) < 0)
        return NULL;
    if (path && path[0] == '/')
        return path;
    (void)snprintf(why->field, sizeof why->field, "path");
    (void)dz_fail(&why->err, DZ_EINVAL, "path: must be an absolute path");
    return NULL;
}

/* --- an operation that ends in one answer ------------------------------------------------------
 */

struct asking {
    struct dz_api *api;
    uint64_t id;
    struct dz_file_op *op;
    void (*data)(struct asking *s, struct dz_cell_view *v);
    void (*finish)(struct asking *s, struct dz_http_req *r, uint64_t count);
    struct dz_api_out out;
    size_t rows_max;               /* SQL: limit on the rows */
    struct dz_cell_json_rows rows; /* SQL */
};

static void asking_free(struct asking *s)
{
    dz_buf_release(&s->out.text);
    dz_cell_json_rows_release(&s->rows);
    dz_free(s);
}

static bool has_room(const struct asking *s)
{
    struct dz_http_req *r = dz_http_find(s->api->http, s->id);
    size_t bytes = s->out.text.len + s->rows.value.len;
    return !r || bytes <= DZ_HELD_FREE || dz_http_reserve(r, bytes);
}

/* Refuse: the tenant is over its memory limit. Only reads have long answers, so nothing changed. */
static void give_up(struct asking *s)
{
    struct dz_http_req *r = dz_http_find(s->api->http, s->id);
    dz_http_on_gone(r, NULL, NULL);
    dz_file_op_cancel(s->op);
    asking_free(s);
    dz_http_refuse_held(r);
}

static void on_data(void *arg, const void *data, size_t n)
{
    struct asking *s = arg;
    struct dz_cell_view v = {data, n};
    if (s->data)
        s->data(s, &v);
    if (has_room(s))
        dz_file_op_ack(s->op, n);
    else
        give_up(s);
}

static void on_done(void *arg, const struct dz_why *why, uint64_t count)
{
    struct asking *s = arg;
    struct dz_http_req *r = dz_http_find(s->api->http, s->id);
    if (r)
        dz_http_on_gone(r, NULL, NULL);
    if (r && why)
        dz_api_refuse(r, why);
    else if (r && s->finish)
        s->finish(s, r, count);
    else if (r)
        dz_http_send(r, 204, NULL, NULL);
    asking_free(s);
}

static const struct dz_file_op_ops ask_ops = {.data = on_data, .done = on_done};

static void ask_gone(void *arg)
{
    struct asking *s = arg;
    dz_file_op_cancel(s->op);
    asking_free(s);
}

static struct asking *make_asking(struct dz_api *a, struct dz_http_req *r)
{
    struct asking *s = dz_zalloc(sizeof *s);
    const struct dz_http_problem busy = {.code = DZ_ENOMEM, .message = "out of memory"};
    if (!s) {
        dz_http_refuse(r, &busy);
        return NULL;
    }
    s->api = a;
    s->id = dz_http_id(r);
    dz_api_begin(&s->out);
    return s;
}

static void ask(struct asking *s, struct dz_http_req *r, const struct dz_cell_op *op, bool writes,
                enum dz_activity activity)
{
    struct dz_why why = {0};
    struct dz_api *a = s->api;
    dz_http_on_gone(r, ask_gone, s);
    const struct dz_file_op_request request = {op, writes, activity, &ask_ops, s};
    if (dz_api_op(a, r, dz_api_op_target(r, a), &request, &s->op, &why) < 0) {
        dz_http_on_gone(r, NULL, NULL);
        asking_free(s);
        dz_api_refuse(r, &why);
    }
}

/* --- list
 * ----------------------------------------------------------------------------------------- */

static void put_entries(struct asking *s, struct dz_cell_view *v)
{
    dz_cell_json_entries(&s->out.json, v);
}

static void finish_list(struct asking *s, struct dz_http_req *r, uint64_t count)
{
    dz_json_end(&s->out.json);
    dz_json_put_bool(&s->out.json, "truncated", count == 1);
    dz_api_send(r, 200, &s->out);
}

/* Read a number from the query; false: the request has been refused. */
static bool number(struct dz_http_req *r, const char *name, uint64_t max, uint64_t *value)
{
    struct dz_why why = {0};
    const char *text = dz_http_query(r, name);
    if (!text || dz_num_u64(dz_str(text), 1, max, value, &why.err) == 0)
        return true;
    (void)snprintf(why.field, sizeof why.field, "%s", name);
    dz_api_refuse(r, &why);
    return false;
}

void dz_api_file_list(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"path", "depth", "limit", NULL};
    struct dz_why why = {0};
    uint64_t depth = 1;
    struct dz_cell_op op = {.type = DZ_CELL_OP_LIST, .limit = ENTRIES};
    op.path = dz_api_path(r, names, &why);
    if (!op.path) {
        dz_api_refuse(r, &why);
        return;
    }
    if (!number(r, "depth", DEPTH_MAX, &depth) || !number(r, "limit", ENTRIES_MAX, &op.limit))
        return;
    op.depth = (uint32_t)depth;
    struct asking *s = make_asking(api, r);
    if (!s)
        return;
    s->data = put_entries;
    s->finish = finish_list;
    dz_json_key(&s->out.json, "entries");
    dz_json_array(&s->out.json);
    ask(s, r, &op, false, DZ_ACTIVITY_LIST_DIRECTORY);
}

/* --- usage -------------------------------------------------------------------------------------
 */

static void put_usage(struct asking *s, struct dz_cell_view *v)
{
    struct dz_cell_usage u;
    while (dz_cell_usage_next(v, &u, NULL) > 0) {
        dz_json_put_u64(&s->out.json, "stored_bytes", u.stored);
        dz_json_put_u64(&s->out.json, "size_bytes", u.size);
        dz_json_put_u64(&s->out.json, "names", u.names);
    }
}

static void finish_usage(struct asking *s, struct dz_http_req *r, uint64_t count)
{
    (void)count;
    dz_api_send(r, 200, &s->out);
}

void dz_api_file_usage(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"path", NULL};
    struct dz_why why = {0};
    struct dz_cell_op op = {.type = DZ_CELL_OP_USAGE};
    op.path = dz_api_path(r, names, &why);
    if (!op.path) {
        dz_api_refuse(r, &why);
        return;
    }
    struct asking *s = make_asking(api, r);
    if (!s)
        return;
    s->data = put_usage;
    s->finish = finish_usage;
    ask(s, r, &op, false, DZ_ACTIVITY_LIST_DIRECTORY);
}

/* --- make, move, remove
 * ------------------------------------------------------------------------------ */

struct names {
    const char *path, *from, *to;
    int parents, replace;
};
const struct dz_api_field dz_api_mkdir_fields[] = {
    {"path", DZ_API_STR, offsetof(struct names, path), NULL, 0},
    {"parents", DZ_API_BOOL, offsetof(struct names, parents), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
const struct dz_api_field dz_api_move_fields[] = {
    {"from", DZ_API_STR, offsetof(struct names, from), NULL, 0},
    {"to", DZ_API_STR, offsetof(struct names, to), NULL, 0},
    {"replace", DZ_API_BOOL, offsetof(struct names, replace), NULL, 0},
    {"parents", DZ_API_BOOL, offsetof(struct names, parents), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

static bool absolute(struct dz_http_req *r, const char *field, const char *path)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%s: must be an absolute path", field);
    const struct dz_http_problem p = {.code = DZ_EINVAL, .message = text, .field = field};
    if (path && path[0] == '/')
        return true;
    dz_http_refuse(r, &p);
    return false;
}

void dz_api_file_mkdir(struct dz_http_req *r, void *api)
{
    struct names b = {0};
    if (!dz_api_body(r, &b) || !absolute(r, "path", b.path))
        return;
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_MKDIR, .path = b.path, .flags = b.parents ? DZ_CELL_OP_PARENTS : 0};
    struct asking *s = make_asking(api, r);
    if (s)
        ask(s, r, &op, true, DZ_ACTIVITY_UPLOAD);
}

void dz_api_file_move(struct dz_http_req *r, void *api)
{
    struct names b = {.replace = 1};
    if (!dz_api_body(r, &b) || !absolute(r, "from", b.from) || !absolute(r, "to", b.to))
        return;
    const struct dz_cell_op op = {.type = DZ_CELL_OP_MOVE,
                                  .path = b.from,
                                  .to = b.to,
                                  .flags = (b.replace ? 0 : DZ_CELL_OP_NEW) |
                                           (b.parents ? DZ_CELL_OP_PARENTS : 0)};
    struct asking *s = make_asking(api, r);
    if (s)
        ask(s, r, &op, true, DZ_ACTIVITY_UPLOAD);
}

/* Read "true" or "false" from the query; negative: the request has been refused. */
static int boolean(struct dz_http_req *r, const char *name)
{
    char text[48];
    const char *given = dz_http_query(r, name);
    if (!given || strcmp(given, "false") == 0)
        return 0;
    if (strcmp(given, "true") == 0)
        return 1;
    (void)snprintf(text, sizeof text, "%s: must be true or false", name);
    const struct dz_http_problem p = {.code = DZ_EINVAL, .message = text, .field = name};
    dz_http_refuse(r, &p);
    return -1;
}

void dz_api_file_delete(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"path", "recursive", NULL};
    struct dz_why why = {0};
    const char *path = dz_api_path(r, names, &why);
    if (!path) {
        dz_api_refuse(r, &why);
        return;
    }
    int deep = boolean(r, "recursive");
    if (deep < 0)
        return;
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_REMOVE, .path = path, .flags = deep ? DZ_CELL_OP_DEEP : 0};
    struct asking *s = make_asking(api, r);
    if (s)
        ask(s, r, &op, true, DZ_ACTIVITY_UPLOAD);
}

/* --- watch
 * --------------------------------------------------------------------------------------------- */

struct watching {
    struct dz_api *api;
    struct dz_sse *sse;
    struct dz_file_op *op;
    size_t untaken;
    bool full;
    struct dz_api_stream_of of;
};

static void put_changes(void *arg, const void *data, size_t n)
{
    struct watching *w = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_change c;
    while (dz_cell_change_next(&v, &c, NULL) == 1) {
        DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
        struct dz_json j;
        dz_json_init(&j, &text, false);
        dz_json_object(&j);
        dz_json_put_strz(&j, "path", c.path[0] ? c.path : NULL);
        dz_json_put_strz(&j, "type", dz_cell_type_name(c.mode));
        if (c.cookie)
            dz_json_put_u64(&j, "cookie", c.cookie);
        dz_json_end(&j);
        w->full = dz_sse_send(w->sse, c.what, NULL, dz_str_n(text.p, text.len)) != 0 || w->full;
    }
    if (w->full)
        w->untaken += n;
    else
        dz_file_op_ack(w->op, n);
}

static void watch_room(void *arg)
{
    struct watching *w = arg;
    w->full = false;
    if (w->op)
        dz_file_op_ack(w->op, w->untaken);
    w->untaken = 0;
}

static void watch_over(void *arg, const struct dz_why *why, uint64_t count)
{
    struct watching *w = arg;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    (void)count;
    w->op = NULL;
    if (why) {
        dz_json_init(&j, &text, false);
        dz_json_object(&j);
        dz_api_put_error(&j, why, &w->of);
        dz_json_end(&j);
        (void)dz_sse_send(w->sse, "error", NULL, dz_str_n(text.p, text.len));
    }
    dz_sse_end(w->sse);
}

static void watch_closed(void *arg)
{
    struct watching *w = arg;
    dz_file_op_cancel(w->op);
    dz_free(w);
}

static const struct dz_file_op_ops watch_ops = {.data = put_changes, .done = watch_over};
static const struct dz_sse_ops watch_sse = {watch_room, watch_closed};

void dz_api_file_watch(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"path", "recursive", NULL};
    struct dz_api *a = api;
    struct dz_why why = {0};
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    DZ_AUTO(dz_freep) char *path = NULL;
    const char *given = dz_api_path(r, names, &why);
    int deep = given ? boolean(r, "recursive") : 0;
    if (deep < 0)
        return;
    struct watching *w = given ? dz_zalloc(sizeof *w) : NULL;
    path = given ? dz_str_dup(dz_str(given)) : NULL;
    int rc = !given        ? why.err.code
             : !w || !path ? dz_fail(&why.err, DZ_ENOMEM, "out of memory")
                           : dz_control_get(a->control, dz_api_target(r, a, "id"), &row, &why);
    if (rc < 0 || !w) {
        dz_free(w);
        dz_api_refuse(r, &why);
        return;
    }
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_WATCH, .path = path, .flags = deep ? DZ_CELL_OP_DEEP : 0};
    const struct dz_file_op_request request = {&op, false, DZ_ACTIVITY_EVENT_STREAM, &watch_ops, w};
    const struct dz_control_target target = {&a->owner, row.id};
    w->api = a;
    dz_api_stream_is(&w->of, r, row.id);
    w->sse = dz_http_sse(r, &watch_sse, w);
    if (!w->sse)
        dz_free(w);
    else if (dz_control_op(a->control, target, &request, &w->op, &why) < 0)
        watch_over(w, &why, 0);
}

/* --- SQL
 * -------------------------------------------------------------------------------------------------
 */

static void put_rows(struct asking *s, struct dz_cell_view *v)
{
    dz_cell_json_rows_add(&s->rows, v);
}

static void finish_sql(struct asking *s, struct dz_http_req *r, uint64_t count)
{
    bool cut = count >= s->rows_max; /* the row limit was reached: there may be more */
    dz_cell_json_rows_end(&s->rows);
    dz_json_put_bool(&s->out.json, "truncated", cut);
    dz_api_send(r, 200, &s->out);
}

struct query {
    const char *query;
    int64_t limit;
};
const struct dz_api_field dz_api_sql_fields[] = {
    {"query", DZ_API_STR, offsetof(struct query, query), NULL, 0},
    {"limit", DZ_API_INT, offsetof(struct query, limit), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_sql(struct dz_http_req *r, void *api)
{
    struct query b = {.limit = ROWS};
    struct dz_http_problem p = {.code = DZ_EINVAL};
    if (!dz_api_body(r, &b))
        return;
    if (!b.query || !b.query[0]) {
        p.message = "query: one read-only SQL statement is required";
        p.field = "query";
    } else if (b.limit < 1 || b.limit > ROWS_MAX) {
        p.message = "limit: must be from 1 to 100000";
        p.field = "limit";
    }
    if (p.message) {
        dz_http_refuse(r, &p);
        return;
    }
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_SQL, .text = b.query, .limit = (uint64_t)b.limit};
    struct asking *s = make_asking(api, r);
    if (!s)
        return;
    s->data = put_rows;
    s->finish = finish_sql;
    s->rows_max = (size_t)b.limit;
    dz_cell_json_rows_begin(&s->rows, &s->out.json);
    ask(s, r, &op, false, DZ_ACTIVITY_DOWNLOAD);
}
