/* SPDX-License-Identifier: MIT
 *
 * api_routes.c - the table of routes, made from the rows of api_routes.inc.
 */
#include "api/api_int.h"

#define NOTHING              .body = NULL
#define BYTES                .body = OCTETS
#define JSON(name, schema)   .body = schema, .fields = dz_api_##name##_fields
#define NEEDED(name, schema) .body = schema, .fields = dz_api_##name##_fields, .needed = true
#define NONE                 NULL
#define S                    DZ_API_SANDBOX
#define E                    DZ_API_SANDBOX "/exec/{exec}"
#define H                    DZ_API_SANDBOX "/schedules/{schedule}"
#define V                    DZ_API_SANDBOX "/services/{service}"
#define TEXT                 "text/plain"
#define OCTETS               "application/octet-stream"
#define TAR                  "application/x-tar"

/* Error codes of groups of routes. FINDS: routes that look up a sandbox; conflict means that a name
 * is ambiguous. USES: routes that need the sandbox's file or machine. */
#define FINDS   "not_found gone conflict"
#define CHANGES FINDS " quota_exceeded storage_full"
#define USES    FINDS " invalid_transition restoring sandbox_unavailable quota_exceeded storage_full"
#define CREATES FINDS " sandbox_unavailable quota_exceeded storage_full"
/* LOOKS: routes that open a volume; conflict: a sandbox or another request excludes them. */
#define LOOKS  "not_found conflict sandbox_unavailable"
#define DROPS  FINDS " invalid_transition storage_full"
#define BUILDS "not_found conflict quota_exceeded storage_full"

/* clang-format off */
static const struct dz_api_route routes[] = {
#define ROUTE(m, p, h, b, i, t, s, q, a, e, f, x)                                        \
    {.method = m, .path = p, .handle = dz_api_##h, b, .id = i, .tag = t, .summary = s,   \
     .parameters = q, .answers = a, .errors = e, .flags = f, .body_max = x},
#define LATER(m, p, word)                                                                \
    {.method = m, .path = p, .handle = dz_api_later, .tag = "later", .summary = word, .errors = "sandbox_unavailable"},
#include "api/api_routes.inc"
};
/* clang-format on */

const char dz_api_errors_any[] = "invalid_argument unauthenticated permission_denied too_large "
                                 "rate_limited timeout busy internal";

const struct dz_api_route *dz_api_routes(size_t *ret_count)
{
    *ret_count = DZ_ARRAY_LEN(routes);
    return routes;
}

static void put_routes(struct dz_http_route *to, const struct dz_api_route *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (struct dz_http_route){
            .method = from[i].method,
            .pattern = from[i].path,
            .handle = from[i].handle,
            .flags = from[i].flags,
            .body_max = from[i].body_max,
            .data = &from[i],
        };
}

struct dz_http_route *dz_api_http_routes(bool e2b, size_t *ret_count)
{
    size_t count = 0;
    const struct dz_api_route *more = dz_e2b_routes(&count);
    count = e2b ? count : 0;
    struct dz_http_route *all = dz_alloc(sizeof *all * (DZ_ARRAY_LEN(routes) + count));
    if (all) {
        put_routes(all, routes, DZ_ARRAY_LEN(routes));
        put_routes(all + DZ_ARRAY_LEN(routes), more, count);
    }
    *ret_count = DZ_ARRAY_LEN(routes) + count;
    return all;
}

const struct dz_api_route *dz_api_route_of(const struct dz_http_req *r)
{
    return dz_http_route_of(r)->data;
}
