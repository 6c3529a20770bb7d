/* SPDX-License-Identifier: MIT
 *
 * api.c - create the server, check what every request must satisfy, begin and end answers.
 */
#include "api/api_int.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/log.h"
#include "base/num.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void dz_api_later(struct dz_http_req *r, void *api)
{
    char text[128];
    (void)api;
    (void)snprintf(text, sizeof text, "%s: not available yet", dz_api_route_of(r)->summary);
    const struct dz_http_problem p = {
        .code = DZ_EUNSUPPORTED, .message = text, .reason = "unsupported"};
    dz_http_refuse(r, &p);
}

/* --- waiting ----------------------------------------------------------------------------- */

struct dz_api_call *dz_api_wait(struct dz_api *a, struct dz_http_req *r, unsigned flags)
{
    struct dz_api_call *c = dz_alloc(sizeof *c);
    const struct dz_http_problem busy = {.code = DZ_ENOMEM, .message = "out of memory"};
    if (c)
        *c = (struct dz_api_call){a, dz_http_id(r), flags};
    else
        dz_http_refuse(r, &busy);
    return c;
}

struct dz_http_req *dz_api_over(struct dz_api_call *c)
{
    struct dz_http_req *r = dz_http_find(c->api->http, c->id);
    dz_free(c);
    return r;
}

void dz_api_refused(struct dz_api_call *c, struct dz_http_req *r, const struct dz_why *why)
{
    dz_free(c);
    dz_api_refuse(r, why);
}

void dz_api_done(struct dz_http_req *r, int rc, const struct dz_why *why)
{
    if (rc < 0)
        dz_api_refuse(r, why);
    else
        dz_http_send(r, 204, NULL, NULL);
}

/* Name the sandbox in the path for a request that was refused before its handler looked it up. */
static void about_path(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_str rest = dz_str(dz_http_route_of(r)->pattern);
    struct dz_why why = {0};
    const struct dz_api *a = api;
    if (dz_str_eat(&rest, DZ_STR(DZ_API_SANDBOX)) &&
        dz_control_get(a->control, dz_api_target(r, a, "id"), &row, &why) == 0)
        dz_http_about(r, row.id);
}

/* Refuse unknown query parameters by name. Handlers that take parameters check them themselves;
 * open routes (probes) and routes that are not available yet accept any. */
static bool before(struct dz_http_req *r, void *api)
{
    static const char *const none[] = {NULL};
    const struct dz_api_route *route = dz_api_route_of(r);
    struct dz_why why = {0};
    if (route->id && !route->parameters && !(route->flags & DZ_API_OPEN) &&
        dz_api_only(r, none, &why) < 0) {
        dz_api_refuse(r, &why);
        return true;
    }
    return dz_api_key_before(r, api);
}

/* --- answers ------------------------------------------------------------------------------ */

void dz_api_refuse_about(struct dz_http_req *r, const struct dz_why *why, const char *sandbox_id)
{
    const struct dz_http_problem p = {
        .code = why->err.code,
        .message = why->err.msg,
        .reason = dz_why_reason(why),
        .field = why->field[0] ? why->field : NULL,
    };
    if (sandbox_id)
        dz_http_about(r, sandbox_id);
    char seconds[16];
    (void)snprintf(seconds, sizeof seconds, "%u", why->retry_s);
    if (why->retry_s)
        dz_http_set(r, "Retry-After", seconds);
    dz_http_refuse(r, &p);
}

void dz_api_refuse(struct dz_http_req *r, const struct dz_why *why)
{
    dz_api_refuse_about(r, why, NULL);
}

void dz_api_begin(struct dz_api_out *o)
{
    o->text = (struct dz_buf)DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    dz_json_init(&o->json, &o->text, false);
    dz_json_object(&o->json);
}

void dz_api_send(struct dz_http_req *r, int status, struct dz_api_out *o)
{
    dz_json_end(&o->json);
    int rc = dz_json_finish(&o->json);
    const struct dz_http_problem large = {.code = rc, .message = "the answer is too large"};
    if (rc < 0)
        dz_http_refuse(r, &large);
    else
        dz_http_send(r, status, DZ_HTTP_JSON, &o->text);
    dz_buf_release(&o->text);
}

void dz_api_list_begin(struct dz_api_out *o, const char *name)
{
    dz_api_begin(o);
    dz_json_key(&o->json, name);
    dz_json_array(&o->json);
}

void dz_api_list_send(struct dz_http_req *r, struct dz_api_out *o, const char *next)
{
    dz_json_end(&o->json);
    dz_json_put_strz(&o->json, "next_cursor", next);
    dz_api_send(r, 200, o);
}

void dz_api_put_time(struct dz_json *j, const char *key, int64_t unix_ms)
{
    char text[DZ_RFC3339_TEXT];
    dz_json_put_strz(j, key, unix_ms > 0 ? dz_rfc3339_print(unix_ms, text) : NULL);
}

/* --- query parameters ------------------------------------------------------------------------ */

bool dz_api_body(struct dz_http_req *r, void *ret)
{
    const struct dz_api_route *route = dz_api_route_of(r);
    struct dz_why why = {0};
    assert(route->fields);
    int rc = dz_api_read(dz_http_arena(r), dz_http_body(r), route->fields, ret, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    return rc == 0;
}

static int unknown_parameter(const char *name, struct dz_why *why)
{
    char quoted[DZ_STR_QUOTED];
    (void)snprintf(why->field, sizeof why->field, "%s", name);
    return dz_fail(&why->err, DZ_EINVAL, "%s: unknown query parameter",
                   dz_str_quote(dz_str(name), quoted));
}

int dz_api_only(struct dz_http_req *r, const char *const *names, struct dz_why *why)
{
    const char *other = dz_http_query_unknown(r, names);
    return other ? unknown_parameter(other, why) : 0;
}

/* A cursor must be a next_cursor of this kind of list; clients cannot make one themselves. */
static int check_cursor(const char *text, enum dz_api_cursor kind, struct dz_why *why)
{
    static const char *const prefixes[] = {
        [DZ_API_CURSOR_SANDBOX] = "sbx", [DZ_API_CURSOR_SNAPSHOT] = "snap",
        [DZ_API_CURSOR_FORK] = "frk",    [DZ_API_CURSOR_REF] = "ref",
        [DZ_API_CURSOR_TOKEN] = "tok",   [DZ_API_CURSOR_SCHEDULE] = "sch",
        [DZ_API_CURSOR_VOLUME] = "vol"};
    char quoted[DZ_STR_QUOTED];
    uint8_t digest[DZ_SHA256_BYTES];
    uint64_t n;
    bool good = kind == DZ_API_CURSOR_NUMBER ? dz_num_u64(dz_str(text), 0, INT64_MAX, &n, NULL) == 0
                : kind == DZ_API_CURSOR_IMAGE ? dz_sha256_parse(dz_str(text), digest, NULL) == 0
                : kind == DZ_API_CURSOR_TENANT
                    ? strncmp(text, DZ_API_TENANT_CURSOR, sizeof DZ_API_TENANT_CURSOR - 1) == 0
                    : dz_id_parse(dz_str(text), prefixes[kind], NULL, NULL) == 0;
    if (good)
        return 0;
    (void)snprintf(why->field, sizeof why->field, "cursor");
    return dz_fail(&why->err, DZ_EINVAL, "cursor: %s is not a next_cursor of this list",
                   dz_str_quote(dz_str(text), quoted));
}

int dz_api_page(struct dz_http_req *r, enum dz_api_cursor kind, const char *const *more,
                struct dz_api_page *ret_page, struct dz_why *why)
{
    const char *names[16] = {"limit", "cursor"}, *limit = dz_http_query(r, "limit");
    uint64_t n = DZ_API_LIMIT;
    size_t count = 2;
    for (; more && *more && count + 1 < DZ_ARRAY_LEN(names); more++)
        names[count++] = *more;
    int rc = dz_api_only(r, names, why);
    if (rc == 0 && limit)
        rc = dz_num_u64(dz_str(limit), 1, DZ_API_LIMIT_MAX, &n, &why->err);
    if (rc < 0) {
        if (limit && !why->field[0])
            (void)snprintf(why->field, sizeof why->field, "limit");
        return rc;
    }
    *ret_page = (struct dz_api_page){(size_t)n, dz_http_query(r, "cursor")};
    return ret_page->cursor ? check_cursor(ret_page->cursor, kind, why) : 0;
}

/* --- the server ------------------------------------------------------------------------------ */

static void on_done(const struct dz_http_req *r, int status, int64_t duration_ns, void *user)
{
    struct dz_str path = dz_http_path(r);
    char peer[DZ_HTTP_PEER];
    const char *code = dz_http_refused(r);
    dz_log(status == 500 ? DZ_LOG_WARN : DZ_LOG_DEBUG, "request",
           dz_log_strz("peer", dz_http_peer(r, peer)), dz_log_strz("method", dz_http_method(r)),
           dz_log_str("path", path), dz_log_int("status", status),
           dz_log_strz("code", code ? code : "-"), dz_log_int("us", duration_ns / 1000));
    dz_api_count(user, r, status, duration_ns);
    dz_api_key_over(user, r);
    dz_api_admitted_over(r, user);
}

int dz_api_new(const struct dz_api_opts *opts, struct dz_api **ret_api, struct dz_err *err)
{
    struct dz_api *a = dz_zalloc(sizeof *a);
    if (!a)
        return dz_fail(err, DZ_ENOMEM, "start the API: out of memory");
    a->control = opts->control;
    a->loop = opts->loop;
    a->preview = opts->preview;
    if (!a->preview.domain)
        a->preview.domain = "";
    dz_api_auth_open(a, opts->tenant_requests);
    dz_map_init(&a->keyed, DZ_CONTROL_KEYS_UNDER_WAY);
    a->owner = (struct dz_control_caller){opts->tenant, true, NULL};
    size_t route_count;
    a->routes = dz_api_http_routes(opts->e2b.on, &route_count);
    const struct dz_http_opts http = {
        .loop = opts->loop,
        .routes = a->routes,
        .route_count = route_count,
        .user = a,
        .connections_max = opts->connections,
        .address_max = opts->address_connections,
        .divert = dz_api_preview_divert,
        .unanswered = dz_api_preview_unanswered,
        .admit = dz_api_admit,
        .before = before,
        .about = about_path,
        .kept = dz_api_key_kept,
        .problem = dz_e2b_problem,
        .hold = dz_api_account,
        .done = on_done,
    };
    int rc = a->routes ? dz_timer_new(opts->loop, dz_api_auth_expire, a, &a->expiry, err)
                       : dz_fail(err, DZ_ENOMEM, "start the API: out of memory");
    if (rc == 0 && opts->e2b.on)
        rc = dz_e2b_open(a, &opts->e2b, err);
    if (rc == 0)
        rc = dz_api_metrics_open(a, err);
    if (rc == 0)
        rc = dz_http_new(&http, &a->http, err);
    if (rc < 0) {
        dz_api_free(a);
        return rc;
    }
    *ret_api = a;
    return 0;
}

struct dz_http *dz_api_http(struct dz_api *a)
{
    return a->http;
}

void dz_api_free(struct dz_api *a)
{
    if (!a)
        return;
    dz_http_free(a->http);
    dz_free(a->routes);
    dz_timer_free(a->expiry);
    dz_api_auth_close(a);
    dz_api_key_close(a);
    dz_e2b_close(a);
    dz_api_metrics_close(a);
    dz_free(a);
}
