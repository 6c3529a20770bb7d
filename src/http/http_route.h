/* SPDX-License-Identifier: MIT
 *
 * http_route.h - which route a request means. Text only: no connection is needed.
 */
#ifndef DZ_HTTP_ROUTE_H
#define DZ_HTTP_ROUTE_H

#include "base/limits.h"
#include "http/http.h"

enum {
    DZ_HTTP_ALLOW_TEXT = 64,
};

struct dz_http_match {
    const struct dz_http_route *route;
    const char *params[DZ_HTTP_PARAMS_MAX]; /* in the order of the pattern */
    char allow[DZ_HTTP_ALLOW_TEXT];         /* after DZ_ESTATE: the methods of this path */
};

struct dz_http_query {
    struct {
        const char *name, *value;
    } pairs[DZ_HTTP_QUERY_MAX];
    size_t count;
};

/* A request target into path and query, both undecoded. The absolute form (RFC 9112,
 * 3.2.2) loses its scheme and authority. DZ_EINVAL: neither begins with '/'. */
DZ_NODISCARD int dz_http_target_split(struct dz_str target, struct dz_str *ret_path,
                                      struct dz_str *ret_query, struct dz_err *err);

/* Parameters are decoded into the arena. DZ_ENOENT: no route has this path; DZ_ESTATE:
 * some do, with other methods; DZ_EINVAL: a malformed escape, or one for a NUL. */
struct dz_http_wanted {
    const struct dz_http_route *routes;
    size_t count;
    struct dz_str method, path; /* the path undecoded */
};
DZ_NODISCARD int dz_http_match(const struct dz_http_wanted *want, struct dz_arena *arena,
                               struct dz_http_match *ret_match, struct dz_err *err);

/* "a=b&c": names and values decoded, '+' too, into the arena. DZ_EINVAL as above;
 * DZ_ELIMIT: more than DZ_HTTP_QUERY_MAX. */
DZ_NODISCARD int dz_http_query_parse(struct dz_str query, struct dz_arena *arena,
                                     struct dz_http_query *ret_query, struct dz_err *err);

/* Is it made of the characters of a method or a header's name (RFC 9110, 5.6.2)? */
bool dz_http_is_token(struct dz_str s);

#endif
