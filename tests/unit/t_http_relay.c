/* SPDX-License-Identifier: MIT
 * A request and its answer through the relay, by their bytes, at every cut; and messages by which
 * one side could make the other read a different message. */
#include "http/http_relay.h"
#include "tap.h"

#define GET "GET / HTTP/1.1\r\nHost: h\r\n"
#define OK  "HTTP/1.1 200 OK\r\n"

static const struct dz_http_relay_opts by_host = {.peer = "192.0.2.7"};

struct rig {
    struct dz_http_relay r;
    struct dz_buf to_guest, to_client;
    int status;
    struct dz_err err;
};

static int begin(struct rig *x, const char *request, const struct dz_http_relay_opts *opts)
{
    static char copy[DZ_HTTP_HEAD_MAX];
    struct dz_http_head head;
    *x = (struct rig){.to_guest = DZ_BUF_INIT(1 << 20), .to_client = DZ_BUF_INIT(1 << 20)};
    snprintf(copy, sizeof copy, "%s", request);
    int rc = dz_http_head_parse(copy, strlen(copy), &head, &x->status, &x->err);
    return rc < 0 ? rc : dz_http_relay_begin(&x->r, &head, opts, &x->to_guest, &x->status, &x->err);
}
static void end(struct rig *x)
{
    dz_http_relay_release(&x->r);
    dz_buf_release(&x->to_guest);
    dz_buf_release(&x->to_client);
}
static const char *text(struct dz_buf *b)
{
    dz_buf_add(b, "", 1);
    b->len--;
    return b->p;
}

/* The answer in pieces of `step` bytes, then the end of the connection: 0 or the error. */
static int answer(struct rig *x, const char *bytes, size_t step)
{
    const size_t n = strlen(bytes);
    for (size_t at = 0; at < n && (!x->r.answer_over || x->r.tunnel);) {
        size_t piece = n - at < step ? n - at : step;
        ssize_t took = dz_http_relay_answer(&x->r, bytes + at, piece, &x->to_client, &x->err);
        if (took < 0)
            return (int)took;
        CHECK(took > 0 || x->r.answer_over);
        at += (size_t)took;
    }
    return dz_http_relay_end(&x->r, &x->to_client, &x->err);
}

static void check_request(const char *request, const struct dz_http_relay_opts *opts,
                          const char *want)
{
    struct rig x;
    CHECK_INT(begin(&x, request, opts), 0);
    CHECK_STR(text(&x.to_guest), want);
    end(&x);
}

#define FORWARDED                                                                  \
    "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h" \
    "\r\nVia: 1.1 doze\r\n"

TEST(a_request_is_written_again)
{
    check_request(GET "A: 1\r\na: 2\r\n\r\n", &by_host,
                  "GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\na: 2\r\n" FORWARDED
                  "Connection: close\r\n\r\n");
    /* what concerns one connection stays there; nobody forges or removes what the proxy says */
    check_request("POST /a?b HTTP/1.1\r\nHost: h\r\nKeep-Alive: 1\r\nProxy-Connection: x\r\n"
                  "TE: gzip, trailers\r\nTrailer: T\r\nX: x\r\nY: y\r\nContent-Length: 2\r\n"
                  "Connection: x, keep-alive, Content-Length, X-Forwarded-For, Host\r\n"
                  "X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\n"
                  "Proxy-Authorization: z\r\nExpect: 100-continue\r\nVia: 1.0 old\r\n\r\n",
                  &by_host,
                  "POST /a?b HTTP/1.1\r\nHost: h\r\nTrailer: T\r\nY: y\r\n"
                  "Expect: 100-continue\r\nVia: 1.0 old\r\n" FORWARDED
                  "TE: trailers\r\nContent-Length: 2\r\nConnection: close\r\n\r\n");
    check_request("GET / HTTP/1.0\r\n\r\n", &by_host,
                  "GET / HTTP/1.0\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\n"
                  "Via: 1.0 doze\r\nConnection: close\r\n\r\n");
    check_request("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", &by_host,
                  "PUT / HTTP/1.1\r\nHost: h\r\n" FORWARDED
                  "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
}

/* A tunnel to another protocol would carry requests that nobody checks. */
TEST(only_websockets_are_upgraded)
{
    check_request(GET "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                      "HTTP2-Settings: x\r\n\r\n",
                  &by_host, GET FORWARDED "Connection: close\r\n\r\n");
    check_request(GET "Upgrade: websocket\r\n\r\n", &by_host,
                  GET FORWARDED "Connection: close\r\n\r\n");
}

TEST(targets)
{
    static const struct {
        const char *target, *prefix, *want; /* want NULL: refused */
    } cases[] = {
        {"/a/b?c", "", "/a/b?c"},
        {"/", "", "/"},
        {"/a?", "", "/a?"},
        {"http://h/a?b", "", "/a?b"},
        {"https://H?b", "", "/?b"},
        {"http://h", "", "/"},
        {"http://other/a", "", NULL},
        {"http://u@h/a", "", NULL},
        {"ftp://h/a", "", NULL},
        {"a", "", NULL},
        {"*", "", NULL},
        {"/p/80/x", "/p/80", "/x"},
        {"/p/80", "/p/80", "/"},
        {"/p/80?q", "/p/80", "/?q"},
        {"/p/800", "/p/80", NULL},
        {"/q/80/x", "/p/80", NULL},
        {"/?doze_token=t", "", "/"},
        {"/?a=1&doze_token=t&b=2", "", "/?a=1&b=2"},
        {"/?doze_token=t&b", "", "/?b"},
        {"/?xdoze_token=t", "", "/?xdoze_token=t"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        struct dz_http_relay_opts opts = {.peer = "p", .prefix = dz_str(cases[i].prefix)};
        char request[128], want[64];
        struct rig x;
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", cases[i].target);
        int rc = begin(&x, request, &opts);
        CHECK_INT(rc, cases[i].want ? 0 : DZ_EINVAL);
        CHECK_INT(x.status, 400);
        if (rc == 0 && cases[i].want) {
            snprintf(want, sizeof want, "GET %s HTTP/1.1\r\n", cases[i].want);
            CHECK(strncmp(text(&x.to_guest), want, strlen(want)) == 0);
        }
        end(&x);
    }
    check_request("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", &by_host,
                  "OPTIONS * HTTP/1.1\r\nHost: h\r\n" FORWARDED "Connection: close\r\n\r\n");
    struct rig x;
    CHECK_INT(begin(&x, "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", &by_host), DZ_EINVAL);
    CHECK_INT(x.status, 405);
    end(&x);
}

TEST(tokens_are_found_and_not_passed_on)
{
    static const struct {
        const char *head, *token;
        enum dz_http_preview_from from;
    } cases[] = {
        {GET "doze-preview-token: abc\r\n\r\n", "abc", DZ_HTTP_PREVIEW_BY_HEADER},
        {GET "Cookie: a=b; __Host-doze_preview=c1\r\n\r\n", "c1", DZ_HTTP_PREVIEW_BY_COOKIE},
        {GET "Cookie: a\r\nCookie: __Host-doze_preview=\r\n\r\n", "", DZ_HTTP_PREVIEW_BY_COOKIE},
        {GET "Cookie: x__Host-doze_preview=c; __host-doze_preview=d; doze_preview=e\r\n\r\n", "",
         DZ_HTTP_PREVIEW_NONE},
        {"GET /?a&doze_token=q1 HTTP/1.1\r\nHost: h\r\n\r\n", "q1", DZ_HTTP_PREVIEW_BY_QUERY},
        {"GET /doze_token=q1 HTTP/1.1\r\nHost: h\r\n\r\n", "", DZ_HTTP_PREVIEW_NONE},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        char copy[256];
        struct dz_http_head head;
        struct dz_str token = DZ_STR("");
        int status;
        snprintf(copy, sizeof copy, "%s", cases[i].head);
        CHECK_INT(dz_http_head_parse(copy, strlen(copy), &head, &status, NULL), 0);
        CHECK_INT(dz_http_preview_token(&head, &token), cases[i].from);
        CHECK(dz_str_eqz(token, cases[i].token));
    }
    check_request(GET "Doze-Preview-Token: s\r\nCookie: __Host-doze_preview=s\r\n"
                      "Cookie: a=1; __Host-doze_preview=s;b=2\r\n\r\n",
                  &by_host, GET "Cookie: a=1; b=2\r\n" FORWARDED "Connection: close\r\n\r\n");
}

/* Browsers strip blanks around a cookie's name, and some read "=name=value" as a name, too. */
TEST(a_guest_cannot_set_the_cookie)
{
    static const char *const cookies[] = {
        "__Host-doze_preview=x", "__Host-doze_preview =x; Path=/", " \t__Host-doze_preview\t=x",
        "=__Host-doze_preview=x; Secure", "= __Host-doze_preview = x"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(cookies); i++) {
        char bytes[256], want[256];
        struct rig x;
        (void)snprintf(bytes, sizeof bytes, OK "Set-Cookie: %s\r\nContent-Length: 0\r\n\r\n",
                       cookies[i]);
        CHECK_INT(begin(&x, GET "\r\n", &by_host), 0);
        CHECK_INT(answer(&x, bytes, 7), 0);
        CHECK_STR(text(&x.to_client), OK "Content-Length: 0\r\n\r\n");
        end(&x);
        (void)snprintf(bytes, sizeof bytes, GET "Cookie: a=1;%s\r\n\r\n", cookies[i]);
        (void)snprintf(want, sizeof want,
                       GET "Cookie: a=1\r\n" FORWARDED "Connection: close\r\n\r\n");
        if (!strchr(cookies[i], ';'))
            check_request(bytes, &by_host, want);
    }
}

/* Sandboxes that are reached by path share a host: its cookies are nobody's, and a page has no
 * rights on the host. */
TEST(a_shared_host)
{
    const struct dz_http_relay_opts opts = {.peer = "p", .prefix = DZ_STR("/p")};
    struct rig x;
    CHECK_INT(begin(&x, "GET /p/a HTTP/1.1\r\nHost: h\r\nCookie: a=1\r\n\r\n", &opts), 0);
    CHECK(!strstr(text(&x.to_guest), "Cookie"));
    CHECK_INT(answer(&x, OK "Set-Cookie: a=2\r\nContent-Length: 0\r\n\r\n", 9), 0);
    CHECK(!strstr(text(&x.to_client), "Set-Cookie"));
    CHECK(strstr(text(&x.to_client), "\r\nContent-Security-Policy: sandbox ") != NULL);
    end(&x);
}

TEST(hosts_of_previews)
{
    static const struct {
        const char *host, *id;
        uint32_t port;
    } cases[] = {
        {"3000-sbx_a1.run.example", "sbx_a1", 3000},
        {"3000-SBX.RUN.Example:8443", "SBX", 3000},
        {"65535-a-b.run.example", "a-b", 65535},
        {"65536-a.run.example", NULL, 0},
        {"0-a.run.example", NULL, 0},
        {"080-a.run.example", NULL, 0},
        {"-a.run.example", NULL, 0},
        {"80-.run.example", NULL, 0},
        {"80-a.run.example.org", NULL, 0},
        {"80-a.b.run.example", NULL, 0},
        {"80-arun.example", NULL, 0},
        {"run.example", NULL, 0},
        {"", NULL, 0},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        uint32_t port = 0;
        struct dz_str id = DZ_STR("");
        bool is = dz_http_preview_host(dz_str(cases[i].host), DZ_STR("run.example"), &port, &id);
        CHECK_INT(is, cases[i].id != NULL);
        if (is && cases[i].id)
            CHECK(port == cases[i].port && dz_str_eqz(id, cases[i].id));
    }
}

TEST(bodies_of_requests)
{
    struct rig x;
    const char *chunks = "3;ext=1\r\nabc\r\n0\r\nT: t\r\n\r\nGET /next";
    CHECK_INT(begin(&x, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", &by_host), 0);
    dz_buf_reset(&x.to_guest);
    CHECK_INT(dz_http_relay_body(&x.r, "ab", 2, &x.to_guest, NULL), 2);
    CHECK(!x.r.request_over);
    CHECK_INT(dz_http_relay_body(&x.r, "cdeGET", 6, &x.to_guest, NULL), 3);
    CHECK(x.r.request_over);
    CHECK_INT(dz_http_relay_body(&x.r, "GET", 3, &x.to_guest, NULL), 0);
    CHECK_STR(text(&x.to_guest), "abcde");
    end(&x);
    for (size_t step = 1; step <= strlen(chunks); step++) {
        CHECK_INT(
            begin(&x, "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", &by_host),
            0);
        dz_buf_reset(&x.to_guest);
        for (size_t at = 0; at < strlen(chunks) && !x.r.request_over;) {
            size_t n = strlen(chunks) - at < step ? strlen(chunks) - at : step;
            ssize_t took = dz_http_relay_body(&x.r, chunks + at, n, &x.to_guest, NULL);
            CHECK(took > 0);
            at += (size_t)took;
        }
        CHECK_STR(text(&x.to_guest), "3;ext=1\r\nabc\r\n0\r\nT: t\r\n\r\n");
        end(&x);
    }
    CHECK_INT(
        begin(&x, "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", &by_host), 0);
    CHECK_INT(dz_http_relay_body(&x.r, "3\r\nabcd\r\n", 9, &x.to_guest, &x.err), DZ_EINVAL);
    end(&x);
}

TEST(answers)
{
    static const struct {
        const char *request, *answer, *want;
        bool close;
    } cases[] = {
        {GET "\r\n", OK "Content-Length: 3\r\nA: b\r\n\r\nabcextra",
         OK "A: b\r\nContent-Length: 3\r\n\r\nabc", false},
        {GET "\r\n", OK "Content-Length: 0\r\nConnection: close, x\r\nX: y\r\n\r\n",
         OK "Content-Length: 0\r\n\r\n", false},
        {GET "Connection: close\r\n\r\n", OK "Content-Length: 1\r\n\r\na",
         OK "Content-Length: 1\r\nConnection: close\r\n\r\na", true},
        {GET "\r\n", "HTTP/1.0 404\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", false},
        {GET "\r\n",
         OK "Transfer-Encoding: chunked\r\nKeep-Alive: 5\r\n\r\n2\r\nab\r\n0\r\nT: t\r\n\r\n",
         OK "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: t\r\n\r\n", false},
        {"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", OK "Content-Length: 9\r\n\r\n",
         OK "Content-Length: 9\r\n\r\n", false},
        {GET "\r\n", "HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 204 No\r\n\r\n",
         false},
        {GET "\r\n", "HTTP/1.1 304 Not\r\nETag: e\r\n\r\n", "HTTP/1.1 304 Not\r\nETag: e\r\n\r\n",
         false},
        {GET "\r\n", "HTTP/1.1 103 Hints\r\nLink: l\r\n\r\n" OK "Content-Length: 0\r\n\r\n",
         "HTTP/1.1 103 Hints\r\nLink: l\r\n\r\n" OK "Content-Length: 0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 100 C\r\n\r\n" OK "\r\nto the end",
         OK "Connection: close\r\n\r\nto the end", true},
        {GET "\r\n",
         OK
         "Set-Cookie: __Host-doze_preview=evil; Path=/\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n",
         OK "Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n", false},
        {GET "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\n\r\n",
         OK "Content-Length: 0\r\n\r\n", OK "Content-Length: 0\r\n\r\n", false},
        /* lines of CGI programs: what the client gets ends in CRLF */
        {GET "\r\n", "HTTP/1.0 200 OK\r\nA: b\nContent-Length: 2\n\nab",
         OK "A: b\r\nContent-Length: 2\r\n\r\nab", false},
        {GET "\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\r\nA:\n\n",
         OK "A: \r\nContent-Length: 0\r\n\r\n", false},
        /* answered before the request was complete */
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n",
         "HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 413 Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", true},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++)
        for (size_t step = 1; step <= strlen(cases[i].answer); step++) {
            struct rig x;
            CHECK_INT(begin(&x, cases[i].request, &by_host), 0);
            CHECK_INT(answer(&x, cases[i].answer, step), 0);
            CHECK_STR(text(&x.to_client), cases[i].want);
            CHECK(x.r.answer_over && x.r.close == cases[i].close && x.r.status >= 200);
            end(&x);
        }
}

TEST(an_answer_until_the_connection_ends_is_sent_in_chunks)
{
    struct rig x;
    CHECK_INT(begin(&x, GET "\r\n", &by_host), 0);
    CHECK_INT(answer(&x, OK "\r\nabcdef", 100), 0);
    CHECK_STR(text(&x.to_client), OK "Transfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n");
    end(&x);
}

/* Each is refused, and not a byte of its head reaches the client. */
TEST(answers_that_two_parsers_would_read_differently)
{
    static const char *const bad[] = {
        OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        OK "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
        OK "Content-Length: 1, 1\r\n\r\n",
        OK "Content-Length: +1\r\n\r\n",
        OK "Content-Length: 0x1\r\n\r\n",
        OK "Content-Length:\r\n\r\n",
        OK "Content-Length: 99999999999999999999\r\n\r\n",
        OK "Content-Length : 1\r\n\r\n",
        OK "Transfer-Encoding: gzip, chunked\r\n\r\n",
        OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK "Transfer-Encoding: xchunked\r\n\r\n",
        OK "Transfer-Encoding : chunked\r\n\r\n",
        OK "Transfer-Encoding:\x0b"
           "chunked\r\n\r\n",
        OK "A: b\r\n folded\r\n\r\n",
        OK "A: b\rC: d\r\n\r\n",
        OK "A: b\r\r\n\r\n",
        OK "A: b\n folded\n\n",
        OK "Content-Length: 1\nContent-Length: 2\n\n",
        OK "Content-Length: 1\nTransfer-Encoding: chunked\n\n",
        "\n" OK "\r\n",
        OK "A b\r\n\r\n",
        OK ": b\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 600 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "\r\n" OK "\r\n",
        "<html>\r\n\r\n",
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        struct rig x;
        CHECK_INT(begin(&x, GET "\r\n", &by_host), 0);
        if (answer(&x, bad[i], 1000) != DZ_EINVAL)
            printf("# accepted: %s\n", bad[i]);
        CHECK_INT(answer(&x, bad[i], 1000) < 0, 1);
        CHECK(x.to_client.len == 0 && x.r.status == 0);
        end(&x);
    }
}

TEST(requests_that_two_parsers_would_read_differently)
{
    static const char *const bad[] = {
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "Content-Length: 1, 1\r\n\r\n",
        "Content-Length: -1\r\n\r\n",
        "Content-Length : 1\r\n\r\n",
        "Transfer-Encoding: gzip, chunked\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n",
        " Transfer-Encoding: chunked\r\n\r\n",
        "Host: other\r\n\r\n",
        "Expect: 200-ok\r\n\r\n",
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        char request[256];
        struct rig x;
        snprintf(request, sizeof request, "POST / HTTP/1.1\r\nHost: h\r\n%s", bad[i]);
        CHECK(begin(&x, request, &by_host) < 0);
        CHECK_INT(x.to_guest.len, 0);
        end(&x);
    }
}

TEST(an_answer_that_breaks_off)
{
    static const struct {
        const char *answer;
        int status;
    } cases[] = {
        {"", 0},
        {"HTTP/1.1 200", 0},
        {OK "Content-Length: 3\r\n\r\nab", 200},
        {OK "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", 200},
        {"HTTP/1.1 100 Continue\r\n\r\n", 0},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        struct rig x;
        CHECK_INT(begin(&x, GET "\r\n", &by_host), 0);
        CHECK_INT(answer(&x, cases[i].answer, 1000), DZ_EIO);
        CHECK_INT(x.r.status, cases[i].status);
        end(&x);
    }
    struct rig x;
    CHECK_INT(begin(&x, GET "\r\n", &by_host), 0);
    CHECK_INT(answer(&x, OK "Transfer-Encoding: chunked\r\n\r\n2\r\nabc", 1000), DZ_EINVAL);
    end(&x);
    CHECK_INT(begin(&x, "GET / HTTP/1.0\r\n\r\n", &by_host), 0);
    CHECK_INT(answer(&x, OK "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1000), DZ_EINVAL);
    CHECK_INT(x.to_client.len, 0);
    end(&x);
}

TEST(heads_have_a_limit)
{
    struct rig x;
    CHECK_INT(begin(&x, GET "\r\n", &by_host), 0);
    CHECK_INT(answer(&x, OK "A: ", 100), DZ_EIO);
    char filler[1024];
    memset(filler, 'a', sizeof filler);
    ssize_t took = 1;
    for (size_t sent = 0; took > 0 && sent < 2 * DZ_HTTP_HEAD_MAX; sent += sizeof filler)
        took = dz_http_relay_answer(&x.r, filler, sizeof filler, &x.to_client, &x.err);
    CHECK_INT(took, DZ_ELIMIT);
    end(&x);
    CHECK_INT(begin(&x, GET "\r\n", &by_host), 0);
    int rc = 0;
    for (int i = 0; rc >= 0 && i < 100; i++)
        rc = (int)dz_http_relay_answer(&x.r, "HTTP/1.1 100 \r\n\r\n", 17, &x.to_client, &x.err);
    CHECK_INT(rc, DZ_ELIMIT);
    end(&x);
}

#define WEBSOCKET GET "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\r\n"
#define SWITCH    "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"

TEST(a_websocket_becomes_a_tunnel)
{
    struct rig x;
    CHECK_INT(begin(&x, WEBSOCKET, &by_host), 0);
    CHECK_STR(text(&x.to_guest), GET FORWARDED "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    dz_buf_reset(&x.to_guest);
    CHECK_INT(dz_http_relay_body(&x.r, "early", 5, &x.to_guest, NULL), 0);
    CHECK(!x.r.request_over); /* they wait for the guest */
    CHECK_INT(answer(&x, SWITCH "Sec-WebSocket-Accept: k\r\n\r\nframe", 7), 0);
    CHECK_STR(text(&x.to_client),
              "HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: k\r\nConnection: Upgrade\r\n"
              "Upgrade: websocket\r\n\r\nframe");
    CHECK(x.r.tunnel && x.r.status == 101);
    CHECK_INT(dz_http_relay_body(&x.r, "early", 5, &x.to_guest, NULL), 5);
    CHECK_STR(text(&x.to_guest), "early");
    end(&x);
    /* refused: what follows in the client's stream is its next request */
    CHECK_INT(begin(&x, WEBSOCKET, &by_host), 0);
    dz_buf_reset(&x.to_guest);
    CHECK_INT(answer(&x, "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n", 100), 0);
    CHECK(x.r.request_over && !x.r.tunnel && !x.r.close);
    CHECK_INT(dz_http_relay_body(&x.r, "GET", 3, &x.to_guest, NULL), 0);
    end(&x);
    CHECK_INT(begin(&x, WEBSOCKET, &by_host), 0);
    CHECK_INT(answer(&x, "HTTP/1.1 101 S\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", 100),
              DZ_EINVAL);
    end(&x);
}
