/* SPDX-License-Identifier: MIT
 *
 * http_route.c - routes: a path is compared with each pattern, segment by segment, before anything
 * is decoded, so that an escaped slash stays inside its segment. There are some eighty patterns and
 * paths are short; a table by first segment would save a microsecond.
 */
#include "http/http_route.h"

#include "base/num.h"

#include <assert.h>
#include <string.h>

/* --- decoding --------------------------------------------------------------------- */

/* A copy of s in the arena, without escapes and terminated. */
static int decode(struct dz_str s, bool plus, struct dz_arena *arena, const char **ret,
                  struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    char *out = dz_arena_alloc(arena, s.n + 1);
    size_t n = 0;
    if (!out)
        return dz_fail(err, arena->err, "keep a part of the request: %s", dz_err_text(arena->err));
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '\0')
            return dz_fail(err, DZ_EINVAL, "%s: a target must not contain a NUL",
                           dz_str_quote(s, quoted));
        if (c == '%') {
            int high = i + 2 < s.n ? dz_hex_digit(s.p[i + 1]) : -1,
                low = high < 0 ? -1 : dz_hex_digit(s.p[i + 2]);
            if (low < 0 || high * 16 + low == 0)
                return dz_fail(err, DZ_EINVAL,
                               "%s: a %% must be followed by two hexadecimal digits, not 00",
                               dz_str_quote(s, quoted));
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        out[n++] = c;
    }
    out[n] = '\0';
    *ret = out;
    return 0;
}

int dz_http_target_split(struct dz_str target, struct dz_str *ret_path, struct dz_str *ret_query,
                         struct dz_err *err)
{
    struct dz_str path = target;
    if (dz_str_eat(&path, DZ_STR("http://")) || dz_str_eat(&path, DZ_STR("https://"))) {
        size_t slash = dz_str_find_char(path, '/');
        path = slash == DZ_STR_NONE ? DZ_STR("/") : dz_str_sub(path, slash, path.n);
    }
    if (path.n == 0 || path.p[0] != '/')
        return dz_fail(err, DZ_EINVAL, "the target of a request must be a path that begins with /");
    size_t mark = dz_str_find_char(path, '?');
    *ret_query = mark == DZ_STR_NONE ? DZ_STR("") : dz_str_sub(path, mark + 1, path.n);
    *ret_path = dz_str_sub(path, 0, mark);
    return 0;
}

int dz_http_query_parse(struct dz_str query, struct dz_arena *arena,
                        struct dz_http_query *ret_query, struct dz_err *err)
{
    struct dz_str rest = query, part;
    ret_query->count = 0;
    while (dz_str_split(&rest, '&', &part)) {
        struct dz_str value = part, name;
        int rc;
        if (part.n == 0)
            continue;
        if (ret_query->count == DZ_HTTP_QUERY_MAX)
            return dz_fail(err, DZ_ELIMIT, "a query may have at most %d parameters",
                           DZ_HTTP_QUERY_MAX);
        (void)dz_str_split(&value, '=', &name);
        if (!value.p)
            value = DZ_STR("");
        size_t i = ret_query->count;
        rc = decode(name, true, arena, &ret_query->pairs[i].name, err);
        if (rc == 0)
            rc = decode(value, true, arena, &ret_query->pairs[i].value, err);
        if (rc < 0)
            return rc;
        ret_query->count++;
    }
    return 0;
}

bool dz_http_is_token(struct dz_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return s.n > 0;
}

/* --- matching ---------------------------------------------------------------------- */

/* The next "/segment" of *rest; false at the end. */
static bool next_segment(struct dz_str *rest, struct dz_str *ret_segment)
{
    if (!dz_str_eat(rest, DZ_STR("/")))
        return false;
    size_t n = dz_str_find_char(*rest, '/');
    *ret_segment = dz_str_sub(*rest, 0, n);
    *rest = dz_str_sub(*rest, ret_segment->n, rest->n);
    return true;
}

static bool is_variable(struct dz_str segment)
{
    return segment.n > 2 && segment.p[0] == '{' && segment.p[segment.n - 1] == '}';
}

/* Does the path have the pattern's shape? Its variable segments go to params. */
static bool fits(const char *pattern, struct dz_str path, struct dz_str params[], size_t *ret_count)
{
    struct dz_str want = dz_str(pattern), wanted, segment;
    size_t count = 0;
    while (next_segment(&want, &wanted)) {
        if (!next_segment(&path, &segment))
            return false;
        if (is_variable(wanted) && segment.n > 0) {
            assert(count < DZ_HTTP_PARAMS_MAX);
            params[count++] = segment;
        } else if (!dz_str_eq(wanted, segment)) {
            return false;
        }
    }
    *ret_count = count;
    return path.n == 0;
}

static void allow(struct dz_http_match *m, const char *method)
{
    size_t n = strlen(m->allow);
    if (!strstr(m->allow, method))
        (void)snprintf(m->allow + n, sizeof m->allow - n, "%s%s", n ? ", " : "", method);
}

int dz_http_match(const struct dz_http_wanted *want, struct dz_arena *arena,
                  struct dz_http_match *ret_match, struct dz_err *err)
{
    const struct dz_str method = want->method, path = want->path;
    struct dz_str params[DZ_HTTP_PARAMS_MAX], found[DZ_HTTP_PARAMS_MAX];
    const struct dz_http_route *route = NULL;
    const char *pattern = NULL;
    size_t found_count = 0, n;
    char quoted[DZ_STR_QUOTED];

    *ret_match = (struct dz_http_match){.route = NULL};
    for (size_t i = 0; i < want->count; i++) {
        const struct dz_http_route *r = &want->routes[i];
        bool same = dz_str_eqz(method, r->method);
        bool head = dz_str_eqz(method, "HEAD") && strcmp(r->method, "GET") == 0;
        if ((pattern && strcmp(pattern, r->pattern) != 0) || !fits(r->pattern, path, params, &n))
            continue;
        pattern = r->pattern; /* the first pattern that fits decides, for every method */
        allow(ret_match, r->method);
        if (strcmp(r->method, "GET") == 0)
            allow(ret_match, "HEAD");
        if (!same && !(head && !route))
            continue;
        route = r;
        found_count = n;
        memcpy(found, params, n * sizeof found[0]);
        if (same)
            break;
    }
    if (!ret_match->allow[0])
        return dz_fail(err, DZ_ENOENT, "no route matches the path %s", dz_str_quote(path, quoted));
    if (!route)
        return dz_fail(err, DZ_ESTATE, "%s does not support this method, only %s",
                       dz_str_quote(path, quoted), ret_match->allow);
    ret_match->route = route;
    for (size_t i = 0; i < found_count; i++) {
        int rc = decode(found[i], false, arena, &ret_match->params[i], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}
