/* SPDX-License-Identifier: MIT
 *
 * api_preview.c - visits of previews: requests from anywhere for a port of a sandbox.
 *
 *     http://<port>-<id>.<domain>/…      by the name of the host
 *     http://<any host>/preview/<id>/<port>/…
 *
 * A visit needs no token of the API. The port must be open, and either public, or the visitor has a
 * token of it: in a header, in the query, or in a cookie. A browser that comes with a token in the
 * query gets the cookie and is sent to the same address without the token. By path several
 * sandboxes share one host, so there are no cookies there (http_relay.h).
 *
 * The sandbox wakes for a visit, and the request is forwarded once, when the port accepts the
 * connection. Whatever fails is a status and a page without content of the guest or the visitor.
 */
#include "api/api_int.h"

#include "base/fd.h"
#include "base/num.h"
#include "http/http_head.h"
#include "http/http_relay.h"

#include <string.h>
#include <unistd.h>

struct place {
    struct dz_control_visit visit;
    struct dz_str prefix; /* of the path; empty: by host */
};

/* Read "/preview/<id>/<port>", the start of a path. */
static bool by_path(const char *target, struct place *p)
{
    struct dz_str rest = dz_str(target), id, port;
    uint64_t number = 0;
    const size_t query = dz_str_find_char(rest, '?');
    if (query != DZ_STR_NONE)
        rest = dz_str_sub(rest, 0, query);
    if (!dz_str_eat(&rest, DZ_STR(DZ_API_PREVIEW)) || !dz_str_split(&rest, '/', &id) ||
        !dz_str_split(&rest, '/', &port) || port.n == 0 || port.p[0] == '0' ||
        dz_num_u64(port, 1, 65535, &number, NULL) < 0)
        return false;
    p->visit.sandbox = id;
    p->visit.port = (uint32_t)number;
    p->prefix = dz_str_n(target, (size_t)(port.p + port.n - target));
    return true;
}

static bool by_host(const struct dz_api *a, const struct dz_http_head *head, struct place *p)
{
    const char *host = dz_http_head_get(head, "Host");
    struct dz_str domain = dz_str(a->preview.domain);
    const size_t colon = dz_str_find_char(domain, ':');
    if (colon != DZ_STR_NONE)
        domain = dz_str_sub(domain, 0, colon);
    return host && dz_http_preview_host(dz_str(host), domain, &p->visit.port, &p->visit.sandbox);
}

static bool find_place(const struct dz_api *a, const struct dz_http_req *r, struct place *ret)
{
    const struct dz_http_head *head = dz_http_head(r);
    *ret = (struct place){.prefix = DZ_STR("")};
    return by_host(a, head, ret) || by_path(head->target, ret);
}

/* --- refusals -----------------------------------------------------------------------------------
 */

static const char *heading(int status)
{
    static const struct {
        int status;
        const char *text;
    } all[] = {
        {400, "This request cannot be forwarded"},
        {401, "This preview needs a token"},
        {404, "There is no preview here"},
        {405, "This method is not forwarded"},
        {410, "This sandbox is gone"},
        {413, "This request is too large"},
        {429, "There are too many requests"},
        {502, "The program gives no valid answer"},
        {503, "This sandbox is not available"},
        {504, "This sandbox did not answer in time"},
        {507, "This sandbox is not available"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        if (all[i].status == status)
            return all[i].text;
    return "This preview failed";
}

static void refuse(struct dz_http_req *r, int status, const struct dz_why *why)
{
    struct dz_buf page = DZ_BUF_INIT(DZ_LINE_MAX);
    char seconds[16];
    status = status ? status : dz_err_http(why->err.code);
    dz_http_set(r, "Cache-Control", "no-store");
    (void)snprintf(seconds, sizeof seconds, "%u", why->retry_s);
    if (why->retry_s)
        dz_http_set(r, "Retry-After", seconds);
    if (status == 401)
        dz_http_set(r, "WWW-Authenticate", "Doze-Preview");
    if (!dz_http_accepts(r, "text/html")) {
        const struct dz_http_problem p = {.code = why->err.code,
                                          .status = status,
                                          .message = why->err.msg,
                                          .reason = dz_why_reason(why)};
        dz_http_refuse(r, &p);
        return;
    }
    dz_buf_addf(&page,
                "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n"
                "<title>%d %s</title>\n<h1>%s</h1>\n<p>Status %d, request %s.</p>\n</html>\n",
                status, heading(status), heading(status), status, dz_http_request_id(r));
    dz_http_set(r, "Content-Security-Policy", "default-src 'none'");
    dz_http_send(r, status, "text/html; charset=utf-8", &page);
    dz_buf_release(&page);
}

/* The status for a connection that did not come about. */
static int status_of(const struct dz_why *why)
{
    return why->reason && strcmp(why->reason, "not_listening") == 0 ? 502 : 0;
}

void dz_api_preview_unanswered(struct dz_http_req *r, const struct dz_err *err, void *api)
{
    const struct dz_why why = {.err = *err};
    (void)api;
    refuse(r, 502, &why);
}

/* --- a visit ------------------------------------------------------------------------------------
 */

struct visiting {
    struct dz_api *api;
    uint64_t id; /* of the request */
    struct dz_control_connecting *connecting;
    struct dz_str prefix;
    const char *tag; /* both in the request's memory */
};

static void on_connected(void *arg, int fd, const struct dz_why *why)
{
    struct visiting v = *(struct visiting *)arg;
    struct dz_http_req *r = dz_http_find(v.api->http, v.id);
    struct dz_why late = {0};
    int status = 0;
    dz_free(arg);
    if (!r) {
        dz_fd_close(&fd);
        return;
    }
    dz_http_on_gone(r, NULL, NULL);
    if (why) {
        refuse(r, status_of(why), why);
        return;
    }
    const struct dz_http_pass_opts opts = {.fd = fd, .prefix = v.prefix, .tag = v.tag};
    if (dz_http_pass(r, &opts, &status, &late.err) < 0)
        refuse(r, status, &late);
}

static void on_gone(void *arg)
{
    struct visiting *v = arg;
    dz_control_connect_cancel(v->connecting);
    dz_free(v);
}

static void connect(struct dz_api *a, struct dz_http_req *r, const struct place *p,
                    const struct dz_control_visited *visited)
{
    const struct dz_control_caller owner = {.tenant = visited->tenant};
    struct dz_why why = {0};
    char tag[DZ_API_PREVIEW_TAG];
    (void)snprintf(tag, sizeof tag, "%s/%u/%s", visited->sandbox_id, p->visit.port,
                   visited->token_id);
    const struct dz_str kept = dz_arena_str(dz_http_arena(r), dz_str(tag));
    struct visiting *v = dz_zalloc(sizeof *v);
    if (!v || !kept.p) {
        dz_free(v);
        (void)dz_why(&why, DZ_ENOMEM, NULL, "out of memory");
        refuse(r, 0, &why);
        return;
    }
    *v = (struct visiting){.api = a, .id = dz_http_id(r), .prefix = p->prefix, .tag = kept.p};
    struct dz_control_connect request = {
        .port = p->visit.port, .wait_ms = a->preview.wait_ms, .done = on_connected, .arg = v};
    dz_http_peer_address(r, request.from);
    dz_http_on_gone(r, on_gone, v);
    if (dz_control_connect(a->control, (struct dz_control_target){&owner, visited->sandbox_id},
                           &request, &v->connecting, &why) == 0)
        return;
    dz_http_on_gone(r, NULL, NULL);
    dz_free(v);
    refuse(r, status_of(&why), &why);
}

/* Give a browser the cookie, and send it to the same address without the token. False: the request
 * is to be forwarded as it is. */
static bool give_cookie(struct dz_http_req *r, struct dz_str token)
{
    DZ_AUTO(dz_buf_release) struct dz_buf place = DZ_BUF_INIT(DZ_HTTP_TARGET_MAX + 1);
    char cookie[256];
    const char *method = dz_http_method(r);
    if ((strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) ||
        !dz_http_accepts(r, "text/html") ||
        !dz_http_relay_target(&place, dz_http_head(r), DZ_STR("")) || place.err || place.len < 1 ||
        place.p[0] != '/' || place.p[1] == '/' || place.p[1] == '\\')
        return false; /* "//name" would be another host */
    (void)snprintf(cookie, sizeof cookie,
                   DZ_HTTP_PREVIEW_COOKIE "=%.*s; Path=/; Secure; HttpOnly; SameSite=Lax",
                   DZ_STR_ARG(token));
    dz_http_set(r, "Set-Cookie", cookie);
    dz_http_set(r, "Location", place.p);
    dz_http_set(r, "Cache-Control", "no-store");
    dz_http_set(r, "Referrer-Policy", "no-referrer");
    dz_http_send(r, 303, NULL, NULL);
    return true;
}

static void visit(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_control_visited visited = {.token_id = ""};
    struct dz_str token = DZ_STR("");
    struct dz_why why = {0};
    struct place p;
    if (!find_place(a, r, &p)) {
        (void)dz_why(&why, DZ_ENOENT, NULL, "the path of a preview is " DZ_API_PREVIEW "ID/PORT/");
        refuse(r, 0, &why);
        return;
    }
    if (dz_control_check_ready(a->control, &why.err) < 0) {
        why.retry_s = 1;
        refuse(r, 0, &why);
        return;
    }
    const enum dz_http_preview_from from = dz_http_preview_token(dz_http_head(r), &token);
    if (from != DZ_HTTP_PREVIEW_BY_COOKIE || p.prefix.n == 0)
        p.visit.token = token;
    if (dz_control_visit(a->control, &p.visit, &visited, &why) < 0) {
        refuse(r, 0, &why);
        return;
    }
    dz_http_about(r, visited.sandbox_id);
    if (from == DZ_HTTP_PREVIEW_BY_QUERY && p.prefix.n == 0 && visited.token_id[0] &&
        give_cookie(r, token))
        return;
    connect(a, r, &p, &visited);
}

const struct dz_http_route *dz_api_preview_divert(struct dz_http_req *r, void *api)
{
    static const struct dz_http_route route = {
        .method = "*", .pattern = "/preview", .handle = visit, .flags = DZ_HTTP_STREAMED};
    struct place p;
    const bool is = find_place(api, r, &p) ||
                    dz_str_starts(dz_str(dz_http_head(r)->target), DZ_STR(DZ_API_PREVIEW));
    return is ? &route : NULL;
}
