/* SPDX-License-Identifier: MIT
 *
 * api.c - the table of routes, who asks, and how answers are begun and ended.
 */
#include "api/api_int.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/log.h"
#include "base/num.h"

#include <stdio.h>
#include <string.h>

#define S "/v1/sandboxes/{id}"

static const struct dz_http_route routes[] = {
    {"POST", "/v1/sandboxes", dz_api_create, 0, 0, NULL},
    {"GET", "/v1/sandboxes", dz_api_list, 0, 0, NULL},
    {"GET", S, dz_api_get, 0, 0, NULL},
    {"PATCH", S, dz_api_patch, 0, 0, NULL},
    {"DELETE", S, dz_api_delete, 0, 0, NULL},
    {"POST", S "/wake", dz_api_wake, 0, 0, NULL},
    {"POST", S "/suspend", dz_api_suspend, 0, 0, NULL},
    {"POST", S "/pause", dz_api_suspend, 0, 0, NULL},
    {"POST", S "/hibernate", dz_api_suspend, 0, 0, NULL},
    {"POST", S "/freeze", dz_api_freeze, 0, 0, NULL},
    {"POST", S "/archive", dz_api_archive, 0, 0, NULL},
    {"POST", S "/revive", dz_api_revive, 0, 0, NULL},
    {"POST", S "/prefetch", dz_api_prefetch, 0, 0, NULL},
    {"POST", S "/hold", dz_api_hold, 0, 0, NULL},
    {"DELETE", S "/hold", dz_api_unhold, 0, 0, NULL},
    {"POST", S "/timeout", dz_api_set_timeout, 0, 0, NULL},
    {"DELETE", S "/timeout", dz_api_no_timeout, 0, 0, NULL},
    {"POST", S "/exec", dz_api_exec, 0, 4 << 20, NULL},
    {"GET", S "/exec", dz_api_execs, 0, 0, NULL},
    {"GET", S "/exec/{exec}", dz_api_exec_get, 0, 0, NULL},
    {"GET", S "/exec/{exec}/output", dz_api_exec_output, 0, 0, NULL},
    {"POST", S "/exec/{exec}/stdin", dz_api_exec_stdin, 0, DZ_ENGINE_INPUT_MAX, NULL},
    {"POST", S "/exec/{exec}/close-stdin", dz_api_exec_close, 0, 0, NULL},
    {"POST", S "/exec/{exec}/signal", dz_api_exec_signal, 0, 0, NULL},
    {"POST", S "/exec/{exec}/resize", dz_api_exec_resize, 0, 0, NULL},
    {"POST", S "/exec/{exec}/wait", dz_api_exec_wait, 0, 0, NULL},
    {"GET", S "/events", dz_api_sandbox_events, 0, 0, NULL},
    {"GET", "/v1/events", dz_api_events, 0, 0, NULL},
    {"GET", "/v1/images", dz_api_images, 0, 0, NULL},
    {"POST", "/v1/images", dz_api_image_build, DZ_API_OPERATOR, 4 << 20, NULL},
    {"POST", "/v1/images/upload", dz_api_image_upload, DZ_API_OPERATOR | DZ_HTTP_STREAMED, 0, NULL},
    {"GET", "/v1/images/builds", dz_api_builds, DZ_API_OPERATOR, 0, NULL},
    {"GET", "/v1/images/builds/{build}", dz_api_build, DZ_API_OPERATOR, 0, NULL},
    {"DELETE", "/v1/images/builds/{build}", dz_api_build_cancel, DZ_API_OPERATOR, 0, NULL},
    {"GET", "/v1/images/builds/{build}/log", dz_api_build_log, DZ_API_OPERATOR, 0, NULL},
    {"POST", "/v1/images/gc", dz_api_image_gc, DZ_API_OPERATOR, 0, NULL},
    {"POST", "/v1/images/verify", dz_api_image_verify, DZ_API_OPERATOR, 0, NULL},
    {"GET", "/v1/images/{image}", dz_api_image, 0, 0, NULL},
    {"DELETE", "/v1/images/{image}", dz_api_image_delete, DZ_API_OPERATOR, 0, NULL},
    {"GET", S "/files", dz_api_file_get, 0, 0, NULL},
    {"PUT", S "/files", dz_api_file_put, DZ_HTTP_STREAMED, 0, NULL},
    {"DELETE", S "/files", dz_api_file_delete, 0, 0, NULL},
    {"GET", S "/files/list", dz_api_file_list, 0, 0, NULL},
    {"POST", S "/files/mkdir", dz_api_file_mkdir, 0, 0, NULL},
    {"POST", S "/files/move", dz_api_file_move, 0, 0, NULL},
    {"GET", S "/files/tar", dz_api_tar_get, 0, 0, NULL},
    {"PUT", S "/files/tar", dz_api_tar_put, DZ_HTTP_STREAMED, 0, NULL},
    {"GET", S "/files/watch", dz_api_file_watch, 0, 0, NULL},
    {"POST", S "/sql", dz_api_sql, 0, 0, NULL},
    {"POST", "/v1/tokens", dz_api_token_create, DZ_API_OPERATOR | DZ_API_SECRET, 0, NULL},
    {"GET", "/v1/tokens", dz_api_tokens, DZ_API_OPERATOR, 0, NULL},
    {"DELETE", "/v1/tokens/{token}", dz_api_token_revoke, DZ_API_OPERATOR, 0, NULL},
    {"GET", "/instances", dz_api_instances, DZ_API_OPERATOR, 0, NULL},
    {"GET", "/healthz", dz_api_healthz, DZ_API_OPEN, 0, NULL},
    {"GET", "/readyz", dz_api_readyz, DZ_API_OPEN, 0, NULL},
    {"GET", "/metrics", dz_api_metrics, DZ_API_OPERATOR, 0, NULL},
    {"POST", "/v1/registry/check", dz_api_registry_check, DZ_API_OPERATOR, 0, NULL},
    {"GET", "/v1/stats", dz_api_stats, DZ_API_OPERATOR, 0, NULL},
    /* Known, and refused by name. */
    {"POST", S "/snapshot", dz_api_snapshot, 0, 0, NULL},
    {"POST", S "/fork", dz_api_fork, 0, 0, NULL},
    {"POST", S "/clone", dz_api_clone, 0, 0, NULL},
    {"POST", S "/refs", dz_api_refs, 0, 0, NULL},
    {"GET", S "/share", dz_api_share, 0, 0, NULL},
    {"GET", S "/usage", dz_api_later, 0, 0, "usage"},
    {"GET", S "/services", dz_api_later, 0, 0, "services"},
    {"GET", S "/previews", dz_api_later, 0, 0, "previews"},
    {"GET", "/v1/snapshots", dz_api_snapshots, 0, 0, NULL},
    {"POST", "/v1/snapshots/{snapshot}/resume", dz_api_snapshot_resume, 0, 0, NULL},
    {"DELETE", "/v1/snapshots/{snapshot}", dz_api_snapshot_delete, 0, 0, NULL},
    {"GET", "/v1/forks", dz_api_forks, 0, 0, NULL},
    {"POST", "/v1/forks/{fork}/attach", dz_api_fork_attach, 0, 0, NULL},
    {"DELETE", "/v1/forks/{fork}", dz_api_fork_delete, 0, 0, NULL},
    {"GET", "/v1/refs", dz_api_ref_list, 0, 0, NULL},
    {"POST", "/v1/refs/{ref}/attach", dz_api_ref_attach, 0, 0, NULL},
    {"DELETE", "/v1/refs/{ref}/attachments/{n}", dz_api_ref_detach, 0, 0, NULL},
    {"DELETE", "/v1/refs/{ref}", dz_api_ref_delete, 0, 0, NULL},
    {"GET", "/v1/volumes", dz_api_later, 0, 0, "volumes"},
    {"GET", "/v1/workbooks", dz_api_later, 0, 0, "workbooks"},
    {"GET", "/v1/schedules", dz_api_later, 0, 0, "schedules"},
    {"GET", "/v1/tenants", dz_api_tenants, DZ_API_OPERATOR, 0, NULL},
    {"GET", "/v1/tenants/{tenant}", dz_api_tenant, 0, 0, NULL},
    {"PATCH", "/v1/tenants/{tenant}", dz_api_tenant_set, DZ_API_OPERATOR, 0, NULL},
    {"GET", "/openapi.json", dz_api_openapi, DZ_API_OPEN, 0, NULL},
};

const struct dz_http_route *dz_api_routes(size_t *ret_count)
{
    *ret_count = DZ_ARRAY_LEN(routes);
    return routes;
}

void dz_api_later(struct dz_http_req *r, void *api)
{
    char text[128];
    const char *what = dz_http_route_of(r)->data;
    (void)api;
    (void)snprintf(text, sizeof text, "%s: not available yet", what);
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

void dz_api_not_taken(struct dz_api_call *c, struct dz_http_req *r, const struct dz_engine_why *why)
{
    dz_free(c);
    dz_api_refuse(r, why);
}

void dz_api_done(struct dz_http_req *r, int rc, const struct dz_engine_why *why)
{
    if (rc < 0)
        dz_api_refuse(r, why);
    else
        dz_http_send(r, 204, NULL, NULL);
}

/* The sandbox of the path, of a request that was refused before anybody looked for it. */
static void about_path(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_str rest = dz_str(dz_http_route_of(r)->pattern);
    struct dz_engine_why why = {0};
    const struct dz_api *a = api;
    if (dz_str_eat(&rest, DZ_STR(S)) &&
        dz_engine_get(a->engine, dz_api_target(r, a, "id"), &row, &why) == 0)
        dz_http_about(r, row.id);
}

/* A parameter of the query is refused by name. Operations that have some look at them themselves;
 * those of strangers (probes) and those that are not there yet do not. */
static bool before(struct dz_http_req *r, void *api)
{
    static const char *const none[] = {NULL};
    const struct dz_http_route *route = dz_http_route_of(r);
    struct dz_engine_why why = {0};
    if (dz_api_only(r, none, &why) < 0 && !(route->flags & DZ_API_OPEN) &&
        dz_api_takes_nothing(route)) {
        dz_api_refuse(r, &why);
        return true;
    }
    return dz_api_key_before(r, api);
}

/* --- answers ------------------------------------------------------------------------------ */

void dz_api_refuse_about(struct dz_http_req *r, const struct dz_engine_why *why,
                         const char *sandbox_id)
{
    const struct dz_http_problem p = {
        .code = why->err.code,
        .message = why->err.msg,
        .reason = why->reason                        ? why->reason
                  : why->err.code == DZ_EUNSUPPORTED ? "unsupported"
                                                     : NULL,
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

void dz_api_refuse(struct dz_http_req *r, const struct dz_engine_why *why)
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

/* --- questions ------------------------------------------------------------------------------ */

bool dz_api_body(struct dz_http_req *r, const struct dz_api_field *fields, void *ret)
{
    struct dz_engine_why why = {0};
    int rc = dz_api_read(dz_http_arena(r), dz_http_body(r), fields, ret, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    return rc == 0;
}

static int unknown_parameter(const char *name, struct dz_engine_why *why)
{
    char quoted[DZ_STR_QUOTED];
    (void)snprintf(why->field, sizeof why->field, "%s", name);
    return dz_fail(&why->err, DZ_EINVAL, "%s: there is no such parameter",
                   dz_str_quote(dz_str(name), quoted));
}

int dz_api_only(struct dz_http_req *r, const char *const *names, struct dz_engine_why *why)
{
    const char *other = dz_http_query_unknown(r, names);
    return other ? unknown_parameter(other, why) : 0;
}

/* A cursor is what the page before gave, never something that was put together. */
static int check_cursor(const char *text, enum dz_api_cursor kind, struct dz_engine_why *why)
{
    static const char *const prefixes[] = {[DZ_API_CURSOR_SANDBOX] = "sbx",
                                           [DZ_API_CURSOR_SNAPSHOT] = "snap",
                                           [DZ_API_CURSOR_FORK] = "frk",
                                           [DZ_API_CURSOR_REF] = "ref",
                                           [DZ_API_CURSOR_TOKEN] = "tok"};
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
    return dz_fail(&why->err, DZ_EINVAL, "cursor: %s is not the next_cursor of a page of this list",
                   dz_str_quote(dz_str(text), quoted));
}

int dz_api_page(struct dz_http_req *r, enum dz_api_cursor kind, const char *const *more,
                struct dz_api_page *ret_page, struct dz_engine_why *why)
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
    a->engine = opts->engine;
    a->loop = opts->loop;
    dz_api_auth_open(a, opts->tenant_requests);
    dz_map_init(&a->keyed, DZ_ENGINE_KEYS_UNDER_WAY);
    a->owner = (struct dz_engine_caller){opts->tenant, true, NULL};
    const struct dz_http_opts http = {
        .loop = opts->loop,
        .routes = routes,
        .route_count = DZ_ARRAY_LEN(routes),
        .user = a,
        .connections_max = opts->connections,
        .address_max = opts->address_connections,
        .admit = dz_api_admit,
        .before = before,
        .about = about_path,
        .kept = dz_api_key_kept,
        .hold = dz_api_account,
        .done = on_done,
    };
    int rc = dz_timer_new(opts->loop, dz_api_auth_expire, a, &a->expiry, err);
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
    dz_timer_free(a->expiry);
    dz_api_auth_close(a);
    dz_api_key_close(a);
    dz_api_metrics_close(a);
    dz_free(a);
}
