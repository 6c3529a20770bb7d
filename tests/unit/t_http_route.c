/* SPDX-License-Identifier: MIT
 * Which route a request means, without any connection. */
#include "http/http_route.h"

#include "tap.h"

static const struct dz_http_route routes[] = {
    {.method = "GET", .pattern = "/v1/things"},
    {.method = "POST", .pattern = "/v1/things"},
    {.method = "GET", .pattern = "/v1/things/self"},
    {.method = "GET", .pattern = "/v1/things/{id}"},
    {.method = "DELETE", .pattern = "/v1/things/{id}"},
    {.method = "POST", .pattern = "/v1/things/{id}/parts/{part}"},
    {.method = "HEAD", .pattern = "/v1/head"},
    {.method = "GET", .pattern = "/v1/head"},
};

static struct dz_arena arena = DZ_ARENA_INIT(1 << 20);
static struct dz_http_match m;
static struct dz_err err;

static int match(const char *method, const char *path)
{
    return dz_http_match(
        &(struct dz_http_wanted){routes, DZ_ARRAY_LEN(routes), dz_str(method), dz_str(path)},
        &arena, &m, &err);
}

TEST(a_route_is_found_by_method_and_path)
{
    CHECK_INT(match("GET", "/v1/things"), 0);
    CHECK(m.route == &routes[0]);
    CHECK_INT(match("POST", "/v1/things"), 0);
    CHECK(m.route == &routes[1]);
    CHECK_INT(match("GET", "/v1/things/a%2Fb%20c"), 0);
    CHECK(m.route == &routes[3]);
    CHECK_STR(m.params[0], "a/b c");
    CHECK_INT(match("POST", "/v1/things/x/parts/7"), 0);
    CHECK_STR(m.params[0], "x");
    CHECK_STR(m.params[1], "7");
    dz_arena_release(&arena);
}

TEST(the_first_pattern_that_fits_counts_and_get_answers_head)
{
    CHECK_INT(match("GET", "/v1/things/self"), 0);
    CHECK(m.route == &routes[2]);
    CHECK_INT(match("DELETE", "/v1/things/self"), DZ_ESTATE); /* it is no {id} */
    CHECK_STR(m.allow, "GET, HEAD");
    CHECK_INT(match("DELETE", "/v1/things/selfish"), 0);
    CHECK(m.route == &routes[4]);
    CHECK_INT(match("HEAD", "/v1/things/self"), 0);
    CHECK(m.route == &routes[2]);
    CHECK_INT(match("HEAD", "/v1/head"), 0);
    CHECK(m.route == &routes[6]);
    dz_arena_release(&arena);
}

TEST(what_does_not_fit_is_told_apart)
{
    const char *const nowhere[] = {"/",
                                   "/v1",
                                   "/v1/things/",
                                   "/v1//things",
                                   "/v1/things/x/",
                                   "/V1/things",
                                   "/v1/things/x/parts",
                                   "/v1/thing",
                                   "/v1/things/x/parts/"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(nowhere); i++)
        CHECK_INT(match("GET", nowhere[i]), DZ_ENOENT);
    CHECK_INT(match("PUT", "/v1/things"), DZ_ESTATE);
    CHECK_STR(m.allow, "GET, HEAD, POST");
    CHECK_INT(match("get", "/v1/things/self"), DZ_ESTATE);
    CHECK_STR(m.allow, "GET, HEAD");
    CHECK_INT(match("GET", "/v1/things/a%2"), DZ_EINVAL);
    CHECK_INT(match("GET", "/v1/things/a%zz"), DZ_EINVAL);
    CHECK_INT(match("GET", "/v1/things/a%00b"), DZ_EINVAL);
    CHECK_INT(dz_http_match(&(struct dz_http_wanted){routes, DZ_ARRAY_LEN(routes), DZ_STR("GET"),
                                                     DZ_STR("/v1/things/a\0b")},
                            &arena, &m, &err),
              DZ_EINVAL);
    dz_arena_release(&arena);
}

TEST(a_target_is_split)
{
    struct dz_str path, query;
    CHECK_INT(dz_http_target_split(DZ_STR("/a/b?c=d?e"), &path, &query, &err), 0);
    CHECK(dz_str_eqz(path, "/a/b") && dz_str_eqz(query, "c=d?e"));
    CHECK_INT(dz_http_target_split(DZ_STR("http://h:1/a?x"), &path, &query, &err), 0);
    CHECK(dz_str_eqz(path, "/a") && dz_str_eqz(query, "x"));
    CHECK_INT(dz_http_target_split(DZ_STR("http://host"), &path, &query, &err), 0);
    CHECK(dz_str_eqz(path, "/") && query.n == 0);
    CHECK_INT(dz_http_target_split(DZ_STR("*"), &path, &query, &err), DZ_EINVAL);
    CHECK_INT(dz_http_target_split(DZ_STR(""), &path, &query, &err), DZ_EINVAL);
}

TEST(a_query_is_decoded)
{
    struct dz_http_query q;
    char many[200] = "a";
    CHECK_INT(dz_http_query_parse(DZ_STR("a=1&b=x+y%3D&&c&=d&a=2"), &arena, &q, &err), 0);
    CHECK_INT(q.count, 5);
    CHECK_STR(q.pairs[0].name, "a");
    CHECK_STR(q.pairs[1].value, "x y=");
    CHECK_STR(q.pairs[2].name, "c");
    CHECK_STR(q.pairs[2].value, "");
    CHECK_STR(q.pairs[3].name, "");
    CHECK_INT(dz_http_query_parse(DZ_STR("a=%"), &arena, &q, &err), DZ_EINVAL);
    for (int i = 0; i < DZ_HTTP_QUERY_MAX; i++)
        (void)strcat(many, "&a");
    CHECK_INT(dz_http_query_parse(dz_str(many), &arena, &q, &err), DZ_ELIMIT);
    dz_arena_release(&arena);
}

TEST(a_token_is_a_token)
{
    CHECK(dz_http_is_token(DZ_STR("X-Header_1")));
    CHECK(!dz_http_is_token(DZ_STR("")));
    CHECK(!dz_http_is_token(DZ_STR("a b")));
    CHECK(!dz_http_is_token(DZ_STR("a:")));
    CHECK(!dz_http_is_token(DZ_STR("a\xc3\xa4")));
}

TORTURE(memory_may_be_short_in_a_match)
{
    struct dz_http_query q;
    struct dz_arena a = DZ_ARENA_INIT(1 << 20);
    const struct dz_http_wanted want = {routes, DZ_ARRAY_LEN(routes), DZ_STR("POST"),
                                        DZ_STR("/v1/things/x/parts/7")};
    int rc = dz_http_match(&want, &a, &m, &err);
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    rc = dz_http_query_parse(DZ_STR("a=1&b=2"), &a, &q, &err);
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    dz_arena_release(&a);
}

TEST(a_query_has_as_many_parameters_as_it_may)
{
    static struct dz_http_query q;
    char text[8 * (DZ_HTTP_QUERY_MAX + 1)] = "";
    for (size_t i = 0; i <= DZ_HTTP_QUERY_MAX; i++) {
        size_t n = strlen(text);
        (void)snprintf(text + n, sizeof text - n, "%sa%zu=b", i ? "&" : "", i % 100);
        CHECK_INT(dz_http_query_parse(dz_str(text), &arena, &q, &err),
                  i < DZ_HTTP_QUERY_MAX ? 0 : DZ_ELIMIT);
    }
    dz_arena_release(&arena);
}
