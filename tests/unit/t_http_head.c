/* SPDX-License-Identifier: MIT
 * Heads and chunks by their bytes: what is read, what is refused and with which status. */
#include "http/http_head.h"
#include "tap.h"

#define GET "GET / HTTP/1.1\r\nHost: t\r\n"

static int read_whole(const char *text, size_t n, struct dz_http_head *h, int *status)
{
    static char copy[DZ_HTTP_HEAD_MAX + 16];
    struct dz_err err = {0};
    size_t at = 0;
    *status = 0;
    CHECK(n <= sizeof copy);
    ssize_t size = dz_http_head_end(text, n, &at, status, &err);
    if (size <= 0) {
        CHECK(size == 0 || (err.msg[0] && *status >= 400));
        return size < 0 ? (int)size : -1000;
    }
    memcpy(copy, text, (size_t)size);
    int rc = dz_http_head_parse(copy, (size_t)size, h, status, &err);
    CHECK(rc == 0 || (err.msg[0] && *status >= 400));
    return rc;
}

static int parse(const char *text, struct dz_http_head *h, int *status)
{
    return read_whole(text, strlen(text), h, status);
}

TEST(a_head_is_read)
{
    struct dz_http_head h;
    int status;
    CHECK_INT(parse("POST /a?b HTTP/1.1\r\nHost: [::1]:80\r\nX:\t y z \t\r\nCONTENT-length: 12\r\n"
                    "Expect: 100-Continue\r\nConnection: a, Close\r\n\r\nbody",
                    &h, &status),
              0);
    CHECK_STR(h.method, "POST");
    CHECK_STR(h.target, "/a?b");
    CHECK_INT(h.minor, 1);
    CHECK_STR(dz_http_head_get(&h, "x"), "y z");
    CHECK(!dz_http_head_get(&h, "y"));
    CHECK_INT(h.body_size, 12);
    CHECK(h.expects && h.close);
    CHECK_INT(parse("GET / HTTP/1.0\r\n\r\n", &h, &status), 0);
    CHECK(h.close && h.body_size == 0);
    CHECK_INT(parse(GET "Transfer-Encoding: Chunked\r\n\r\n", &h, &status), 0);
    CHECK(h.body_size == -1 && !h.close);
    CHECK_INT(parse(GET "\xc3\xa4: x\r\n\r\n", &h, &status), DZ_EINVAL);
    CHECK_INT(parse(GET "x: \xc3\xa4\r\n\r\n", &h, &status), 0);
}

TEST(its_end_is_found_at_any_cut)
{
    static const char text[] = GET "A: b\r\n\r\n";
    struct dz_err err;
    int status;
    for (size_t cut = 0; cut < sizeof text - 1; cut++) {
        size_t at = 0;
        CHECK_INT(dz_http_head_end(text, cut, &at, &status, &err), 0);
        CHECK_INT(dz_http_head_end(text, sizeof text - 1, &at, &status, &err), sizeof text - 1);
    }
}

TEST(what_the_grammar_does_not_allow_is_refused)
{
    static const struct {
        const char *text;
        int status;
    } bad[] = {
        {"GET / HTTP/1.1\nHost: t\n\n", 400},     /* bare LF */
        {"GET / HTTP/1.1\r\nHost: t\n\r\n", 400}, /* one of them */
        {GET "A: b\rc\r\n\r\n", 400},             /* bare CR */
        {GET " folded\r\n\r\n", 400},             /* obs-fold */
        {GET "A: b\r\n\tc\r\n\r\n", 400},         /* with a tab */
        {GET "A : b\r\n\r\n", 400},               /* space before the colon */
        {GET ": b\r\n\r\n", 400},                 /* no name */
        {GET "A\r\n\r\n", 400},                   /* no colon */
        {GET "A: \x01\r\n\r\n", 400},             /* control character */
        {GET "A: \x7f\r\n\r\n", 400},             /* another */
        {"GET  / HTTP/1.1\r\n\r\n", 400},         /* two spaces */
        {"GET / HTTP/1.1 \r\n\r\n", 400},         /* one behind */
        {" GET / HTTP/1.1\r\n\r\n", 400},         /* one before */
        {"GET /\r\n\r\n", 400},                   /* HTTP/0.9 */
        {"GET /\t HTTP/1.1\r\n\r\n", 400},        /* tab in the target */
        {"GET /\xc3\xa4 HTTP/1.1\r\n\r\n", 400},  /* no ASCII */
        {"G(T / HTTP/1.1\r\n\r\n", 400},          /* no word */
        {"GGGGGGGGGGGGGGGGG / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\n\r\n", 505},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
        {"GET / HTTP/1.2\r\n\r\n", 505},
        {"GET / HTTP/01.1\r\n\r\n", 400},
        {"GET / http/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400}, /* no Host */
        {GET "Host: t\r\n\r\n", 400},    /* two */
        {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: [x]\r\n\r\n", 400},
        {GET "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},    /* CL.TE */
        {GET "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400},    /* TE.CL */
        {GET "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", 400}, /* TE.TE */
        {GET "Transfer-Encoding: chunked, chunked\r\n\r\n", 400},
        {GET "Transfer-Encoding: x\r\n\r\n", 400},
        {GET "Transfer-Encoding: \r\n\r\n", 400},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {GET "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400}, /* CL.CL */
        {GET "Content-Length: 1, 1\r\n\r\n", 400},
        {GET "Content-Length: \r\n\r\n", 400},
        {GET "Content-Length: +1\r\n\r\n", 400},
        {GET "Content-Length: 1 1\r\n\r\n", 400},
        {GET "Content-Length: 0x1\r\n\r\n", 400},
        {GET "Content-Length: 99999999999999999999\r\n\r\n", 400},
        {GET "Authorization: a\r\nauthorization: b\r\n\r\n", 400},
        {GET "Expect: 200-maybe\r\n\r\n", 417},
        {"\r\n\r\n", 400},
        {"\x16\x03\x01\x02", 400}, /* TLS */
    };
    struct dz_http_head h;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        int status, rc = parse(bad[i].text, &h, &status);
        if (rc != DZ_EINVAL || status != bad[i].status)
            printf("# %zu gives %d, %d\n", i, rc, status);
        CHECK(rc == DZ_EINVAL && status == bad[i].status);
    }
    int status;
    CHECK_INT(read_whole(GET "A: b\0c\r\n\r\n", sizeof GET + 9, &h, &status), DZ_EINVAL);
    CHECK_INT(status, 400);
}

TEST(heads_have_limits)
{
    static char text[DZ_HTTP_HEAD_MAX + 2];
    struct dz_http_head h;
    int status;
    size_t n = (size_t)snprintf(text, sizeof text, GET "A: ");
    memset(text + n, 'x', sizeof text - n);
    CHECK_INT(read_whole(text, sizeof text, &h, &status), DZ_ELIMIT);
    CHECK_INT(status, 431);
    (void)snprintf(text, sizeof text, "GET /%0*d HTTP/1.1\r\nHost: t\r\n\r\n", DZ_HTTP_TARGET_MAX,
                   1);
    CHECK_INT(parse(text, &h, &status), DZ_ELIMIT);
    CHECK_INT(status, 414);
    n = (size_t)snprintf(text, sizeof text, GET);
    for (int i = 0; i < DZ_HTTP_HEADERS_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "a: b\r\n");
    (void)snprintf(text + n, sizeof text - n, "\r\n");
    CHECK_INT(parse(text, &h, &status), DZ_ELIMIT);
    CHECK_INT(status, 431);
}

/* The body of chunks that come in pieces of `step` bytes; "!": refused, "?": not over. */
static const char *body_of_chunks(const char *text, size_t step)
{
    static char out[256];
    struct dz_http_chunks c = {0};
    struct dz_err err;
    size_t n = strlen(text), len = 0, data;
    bool end = false;
    for (size_t at = 0; at < n && !end;) {
        size_t m = n - at < step ? n - at : step;
        ssize_t used = dz_http_chunks_next(&c, text + at, m, &data, &end, &err);
        if (used < 0)
            return "!";
        memcpy(out + len, text + at + used, data);
        if (data)
            dz_http_chunks_took(&c, data);
        len += data;
        at += (size_t)used + data;
        CHECK((size_t)used + data > 0 || end);
    }
    out[len] = '\0';
    return end ? out : "?";
}

TEST(chunks_are_read_to_the_letter)
{
    static const struct {
        const char *text, *body;
    } cases[] = {
        {"3\r\nabc\r\n0\r\n\r\n", "abc"},
        {"03\r\nabc\r\n0\r\n\r\n", "abc"},
        {"A\r\n0123456789\r\n1\r\nx\r\n000\r\n\r\n", "0123456789x"},
        {"3;a=\"b\";c\r\nabc\r\n0;d\r\nTrailer: x\r\nHost: y\r\n\r\n", "abc"},
        {"0\r\n\r\n", ""},
        {"3\r\nabc\r\n0\r\n", "?"},
        {"3\r\nabcd\r\n0\r\n\r\n", "!"},
        {"3\nabc\n0\n\n", "!"},
        {"3\r\nabc\n0\r\n\r\n", "!"},
        {"3\rX", "!"},
        {"3;a\nb\r\nabc\r\n0\r\n\r\n", "!"},
        {"\r\n", "!"},
        {"g\r\n", "!"},
        {"0x3\r\nabc\r\n0\r\n\r\n", "!"},
        {"+3\r\nabc\r\n0\r\n\r\n", "!"},
        {"-3\r\nabc\r\n0\r\n\r\n", "!"},
        {" 3\r\nabc\r\n0\r\n\r\n", "!"},
        {"3 \r\nabc\r\n0\r\n\r\n", "!"},
        {"ffffffffffffffff\r\n", "!"},
        {"00000000000000000003\r\nabc", "!"},
        {"0\r\n folded\r\n\r\n", "!"},
        {"0\r\nA: b\n\r\n", "!"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++)
        for (size_t step = 1; step < 32; step++) {
            const char *body = body_of_chunks(cases[i].text, step);
            if (strcmp(body, cases[i].body) != 0)
                printf("# %zu in steps of %zu: %s\n", i, step, body);
            CHECK_STR(body, cases[i].body);
        }
    char text[1024] = "3;";
    memset(text + 2, 'x', 500);
    CHECK_STR(body_of_chunks(text, 100), "!");
}

/* --- exactly at the limits --------------------------------------------------------------- */

TEST(heads_at_their_limits_are_read)
{
    static char text[8192];
    struct dz_http_head h;
    int status;
    CHECK_INT(parse("ABCDEFGHIJKLMNOP / HTTP/1.1\r\nHost: t\r\n\r\n", &h, &status), 0);
    CHECK_INT(parse("ABCDEFGHIJKLMNOPQ / HTTP/1.1\r\nHost: t\r\n\r\n", &h, &status), DZ_EINVAL);
    CHECK_INT(parse(GET "A: b\r\n\tfolded: x\r\n\r\n", &h, &status), DZ_EINVAL);
    CHECK_INT(parse(GET "Connection: clo, c, closed\r\n\r\n", &h, &status), 0);
    CHECK(!h.close); /* no part of a word is the word */
    CHECK_INT(parse(GET "Expect: 100-continue\r\n\r\n", &h, &status), 0);
    CHECK(!h.expects); /* no body comes */
    for (int more = 0; more < 2; more++) {
        size_t n = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: t\r\n");
        for (int i = 1; i < DZ_HTTP_HEADERS_MAX + more; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "A%d: x\r\n", i);
        (void)snprintf(text + n, sizeof text - n, "\r\n");
        CHECK_INT(parse(text, &h, &status), more ? DZ_ELIMIT : 0);
        CHECK_INT(h.count, DZ_HTTP_HEADERS_MAX);
    }
}

TEST(chunks_at_their_limits_are_read)
{
    static char text[64 * 1024];
    size_t n;
    CHECK_STR(body_of_chunks("1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n", 100),
              "abcdefghijklmnopqrstuvwxyz");
    CHECK_STR(body_of_chunks("000000000000001\r\na\r\n000000000000001\r\nb\r\n0\r\n\r\n", 100),
              "ab"); /* 15 digits each */
    CHECK_STR(body_of_chunks("0000000000000001\r\na\r\n0\r\n\r\n", 100), "!");
    for (int lines = 31; lines <= 33; lines++) { /* trailers of 256 bytes: 32 are the most */
        n = (size_t)snprintf(text, sizeof text, "1\r\na\r\n0\r\n");
        for (int i = 0; i < lines; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "A:%254d\r\n", i);
        (void)snprintf(text + n, sizeof text - n, "\r\n");
        CHECK_STR(body_of_chunks(text, sizeof text), lines <= 32 ? "a" : "!");
    }
}
