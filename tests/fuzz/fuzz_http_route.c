/* SPDX-License-Identifier: MIT
 * Request targets against routes: the method up to a space, then the target. What is
 * matched must be made of the target's segments again. */
#include "http/http_route.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct dz_http_route routes[] = {
    {.method = "GET", .pattern = "/v1/sandboxes"},
    {.method = "POST", .pattern = "/v1/sandboxes"},
    {.method = "GET", .pattern = "/v1/sandboxes/{id}"},
    {.method = "DELETE", .pattern = "/v1/sandboxes/{id}"},
    {.method = "GET", .pattern = "/v1/sandboxes/{id}/files/list"},
    {.method = "POST", .pattern = "/v1/sandboxes/{id}/exec/{exec_id}/stdin"},
    {.method = "GET", .pattern = "/v1/sandboxes/{id}/exec/{exec_id}"},
    {.method = "GET", .pattern = "/healthz"},
};

/* As many segments as the pattern, the fixed ones equal, each parameter no longer than
 * its segment and without NUL inside. */
static void check_match(const struct dz_http_match *m, struct dz_str path)
{
    struct dz_str want = dz_str(m->route->pattern), a, b;
    size_t param = 0;
    while (dz_str_split(&want, '/', &a)) {
        assert(dz_str_split(&path, '/', &b));
        if (a.n == 0 || a.p[0] != '{') {
            assert(dz_str_eq(a, b));
            continue;
        }
        assert(b.n > 0 && strlen(m->params[param]) <= b.n && m->params[param][0]);
        if (dz_str_find_char(b, '%') == DZ_STR_NONE)
            assert(dz_str_eqz(b, m->params[param]));
        param++;
    }
    assert(!path.p);
}

static void check_query(struct dz_str query, struct dz_arena *arena)
{
    struct dz_http_query q;
    struct dz_err e = {0};
    size_t total = 0;
    if (dz_http_query_parse(query, arena, &q, &e) < 0) {
        assert(e.code && e.msg[0]);
        return;
    }
    assert(q.count <= DZ_HTTP_QUERY_MAX);
    for (size_t i = 0; i < q.count; i++)
        total += strlen(q.pairs[i].name) + strlen(q.pairs[i].value);
    assert(total <= query.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_str target = dz_str_n((const char *)data, size), method = DZ_STR("GET"), path, query;
    struct dz_arena arena = DZ_ARENA_INIT(1 << 20);
    struct dz_http_match m;
    struct dz_err e = {0};

    if (dz_str_find_char(target, ' ') != DZ_STR_NONE)
        (void)dz_str_split(&target, ' ', &method);
    (void)dz_http_is_token(method);
    if (dz_http_target_split(target, &path, &query, &e) < 0) {
        assert(e.code == DZ_EINVAL);
        return 0;
    }
    assert(path.n > 0 && path.p[0] == '/' && dz_str_find_char(path, '?') == DZ_STR_NONE);
    int rc = dz_http_match(&(struct dz_http_wanted){routes, DZ_ARRAY_LEN(routes), method, path},
                           &arena, &m, &e);
    if (rc == 0)
        check_match(&m, path);
    else
        assert(e.msg[0] && (rc != DZ_ESTATE || m.allow[0]));
    check_query(query, &arena);
    dz_arena_release(&arena);
    return 0;
}
