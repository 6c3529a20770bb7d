/* SPDX-License-Identifier: MIT
 * Requests and answers over real sockets. */
#include "http_rig.h"

#include <sys/stat.h>

static void hello(struct dz_http_req *r, void *user)
{
    struct dz_buf b = DZ_BUF_INIT(100);
    (void)user;
    dz_buf_adds(&b, "hello");
    dz_http_set(r, "X-Mode", "0644");
    dz_http_send(r, 200, DZ_HTTP_TEXT, &b);
}

static void show(struct dz_http_req *r, void *user)
{
    static const char *const known[] = {"q", NULL};
    struct dz_buf b = DZ_BUF_INIT(1000);
    const char *q = dz_http_query(r, "q"), *unknown = dz_http_query_unknown(r, known);
    (void)user;
    dz_buf_addf(&b, "%s %.*s id=%s part=%s q=%s unknown=%s uid=%d json=%d", dz_http_method(r),
                DZ_STR_ARG(dz_http_path(r)), dz_http_param(r, "id"), dz_http_param(r, "part"),
                q ? q : "-", unknown ? unknown : "-", dz_http_peer_uid(r) == (int64_t)getuid(),
                dz_http_accepts(r, DZ_HTTP_JSON));
    dz_http_send(r, 200, DZ_HTTP_TEXT, &b);
}

static void echo(struct dz_http_req *r, void *user)
{
    struct dz_str body = dz_http_body(r);
    struct dz_buf b = DZ_BUF_INIT(8 << 20);
    (void)user;
    dz_buf_add(&b, body.p, body.n);
    dz_http_send(r, 200, DZ_HTTP_BYTES, &b);
}

/* --- answers that come later --- */

static struct dz_timer *later_timer;
static uint64_t later_id;
static atomic_bool not_yet; /* the answer waits for longer */

static void answer_now(void *arg)
{
    struct dz_buf b = DZ_BUF_INIT(100);
    struct dz_http_req *r = dz_http_find(rig_now.http, later_id);
    (void)arg;
    if (not_yet) {
        dz_timer_after(later_timer, 5);
        return;
    }
    dz_timer_free(later_timer);
    later_timer = NULL;
    if (!r)
        return;
    CHECK_INT(dz_http_id(r), later_id);
    dz_buf_adds(&b, "later");
    dz_http_send(r, 201, DZ_HTTP_TEXT, &b);
    CHECK(dz_http_find(rig_now.http, later_id) == NULL);
}

static void later(struct dz_http_req *r, void *user)
{
    (void)user;
    later_id = dz_http_id(r);
    CHECK_INT(dz_timer_new(rig_now.loop, answer_now, NULL, &later_timer, NULL), 0);
    dz_timer_after(later_timer, 20);
}

static void count_gone(void *arg)
{
    CHECK(dz_http_find(rig_now.http, later_id) == NULL);
    ((struct rig *)arg)->gone++;
}

static void never(struct dz_http_req *r, void *user)
{
    (void)user;
    later_id = dz_http_id(r);
    dz_http_on_gone(r, count_gone, &rig_now);
}

static void refuse(struct dz_http_req *r, void *user)
{
    (void)user;
    dz_http_about(r, "sbx_1");
    dz_http_refuse(r, &(struct dz_http_problem){
                          .code = DZ_EUNAVAIL, .message = "it \"sleeps\"", .reason = "asleep"});
}

static void quiesce(struct dz_http_req *r, void *user)
{
    dz_http_quiesce(rig_now.http);
    hello(r, user);
}

static const struct dz_http_route routes[] = {
    {.method = "GET", .pattern = "/quiesce", .handle = quiesce},
    {.method = "GET", .pattern = "/hello", .handle = hello},
    {.method = "GET", .pattern = "/things/{id}/parts/{part}", .handle = show},
    {.method = "POST", .pattern = "/echo", .handle = echo, .body_max = 4 << 20},
    {.method = "PUT", .pattern = "/small", .handle = echo, .body_max = 10},
    {.method = "GET", .pattern = "/later", .handle = later},
    {.method = "POST", .pattern = "/later", .handle = later},
    {.method = "GET", .pattern = "/never", .handle = never},
    {.method = "GET", .pattern = "/refuse", .handle = refuse},
};

RIG(an_answer_at_once, routes)
{
    struct stat st;
    CHECK_INT(stat(g->path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    struct dz_buf b = ask(g, "GET /hello" HEAD CLOSE "\r\n");
    CHECK(has(&b, "HTTP/1.1 200 OK\r\n"));
    CHECK(has(&b, "Request-Id: req_"));
    CHECK(has(&b, "X-Mode: 0644\r\n"));
    CHECK(has(&b, "Content-Type: text/plain; charset=utf-8\r\n"));
    CHECK(has(&b, "Content-Length: 5\r\n"));
    CHECK_STR(body_of(&b), "hello");
    dz_buf_release(&b);
    b = ask(g, "HEAD /hello" HEAD CLOSE "\r\n");
    CHECK(has(&b, "Content-Length: 5\r\n"));
    CHECK_STR(body_of(&b), "");
    dz_buf_release(&b);
    wait_for(&g->done, 2);
    CHECK_INT(g->last_status, 200);
}

RIG(parameters_of_path_and_query, routes)
{
    struct dz_buf b = ask(g, "GET /things/a%20b/parts/c?q=1%2B&r" HEAD
                             "Accept: text/html, application/json;q=0.5\r\n" CLOSE "\r\n");
    CHECK_STR(body_of(&b), "GET /things/a%20b/parts/c id=a b part=c q=1+ unknown=r uid=1 json=1");
    dz_buf_release(&b);
}

RIG(bodies_are_gathered, routes)
{
    struct dz_buf text = DZ_BUF_INIT(8 << 20), b;
    b = ask(g, "POST /echo" HEAD CLOSE "Content-Length: 5\r\n\r\n12345");
    CHECK_STR(body_of(&b), "12345");
    dz_buf_release(&b);
    b = ask(g, "POST /echo" HEAD CLOSE
               "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    CHECK_STR(body_of(&b), "abcde");
    dz_buf_release(&b);
    b = ask(g, "POST /echo" HEAD CLOSE "\r\n");
    CHECK(has(&b, "200 OK"));
    CHECK_STR(body_of(&b), "");
    dz_buf_release(&b);
    dz_buf_adds(&text, "POST /echo" HEAD CLOSE "Content-Length: 3000000\r\n\r\n");
    for (int i = 0; i < 300000; i++)
        dz_buf_adds(&text, "0123456789");
    b = ask(g, text.p);
    CHECK_INT(strlen(body_of(&b)), 3000000);
    dz_buf_release(&b);
    dz_buf_release(&text);
}

RIG(connections_are_kept_and_requests_may_be_pipelined, routes)
{
    struct dz_buf b = ask(g, "GET /later" HEAD "\r\nGET /hello" HEAD "\r\nPOST /later" HEAD
                             "Content-Length: 3\r\n\r\nabcGET /hello" HEAD CLOSE "\r\n");
    const char *first = strstr(b.p, "later"), *second = first ? strstr(first, "hello") : NULL;
    CHECK(second && strstr(second, "later"));
    CHECK(has(&b, "201 Created"));
    dz_buf_release(&b);
    CHECK_INT(dz_http_requests(g->http), 0);
}

RIG(a_client_that_leaves_is_noticed, routes)
{
    int fd = dial(g);
    say(fd, "GET /never" HEAD "\r\nGET /hello" HEAD "\r\n"); /* unread bytes behind it */
    (void)usleep(50000);
    CHECK_INT(g->gone, 0);
    (void)close(fd);
    wait_for(&g->gone, 1);
    wait_for(&g->done, 1);
    CHECK_INT(g->last_status, 0);
}

RIG(the_end_of_the_server_is_the_end_of_requests, routes)
{
    int fd = dial(g);
    say(fd, "GET /never" HEAD "\r\n");
    (void)usleep(50000); /* the socket is still open when the server is freed; gone comes */
    CHECK_INT(dz_http_requests(g->http), 1);
}

RIG(after_quiesce_each_connection_has_one_answer, routes)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int open = dial(g);
    say(open, "GET /hello" HEAD "\r\n");
    hear(open, &b, "hello");
    dz_buf_release(&b);
    b = ask(g, "GET /quiesce" HEAD "\r\n"); /* ends although the client keeps it open */
    CHECK(has(&b, "Connection: close\r\n"));
    dz_buf_release(&b);
    b = ask(g, "GET /hello" HEAD "\r\n"); /* of one who comes now, too */
    CHECK(has(&b, "200 OK"));
    CHECK(has(&b, "Connection: close\r\n"));
    dz_buf_reset(&b);
    say(open, "GET /hello" HEAD "\r\n");
    hear(open, &b, NULL);
    CHECK(has(&b, "200 OK"));
    (void)close(open);
    dz_buf_release(&b);
}

RIG(errors_have_one_form, routes)
{
    struct dz_buf b = ask(g, "GET /refuse" HEAD CLOSE "\r\n");
    CHECK(has(&b, "503 Service Unavailable"));
    CHECK(has(&b, "{\"error\":{\"code\":\"sandbox_unavailable\",\"reason\":\"asleep\",\"message\":"
                  "\"it \\\"sleeps\\\"\",\"retry\":false,\"field\":null,\"sandbox_id\":\"sbx_1\","
                  "\"request_id\":\"req_"));
    dz_buf_release(&b);
    b = ask(g, "GET /nothing" HEAD CLOSE "\r\n");
    CHECK(has(&b, "404 Not Found"));
    CHECK(has(&b, "\"code\":\"not_found\""));
    dz_buf_release(&b);
    b = ask(g, "DELETE /hello" HEAD CLOSE "\r\n");
    CHECK(has(&b, "405 Method Not Allowed"));
    CHECK(has(&b, "Allow: GET, HEAD\r\n"));
    CHECK(has(&b, "\"code\":\"invalid_argument\""));
    dz_buf_release(&b);
    b = ask(g, "GET /hello?a=%" HEAD CLOSE "\r\n");
    CHECK(has(&b, "400 Bad Request"));
    dz_buf_release(&b);
}

RIG(limits_are_kept, routes)
{
    struct dz_buf text = DZ_BUF_INIT(8 << 20), b;
    b = ask(g, "PUT /small" HEAD CLOSE "Content-Length: 10\r\n\r\n0123456789");
    CHECK(has(&b, "200 OK"));
    dz_buf_release(&b);
    b = ask(g, "PUT /small" HEAD "Content-Length: 11\r\n\r\n0123456789x");
    CHECK(has(&b, "413 "));
    CHECK(has(&b, "Connection: close"));
    dz_buf_release(&b);
    b = ask(g, "PUT /small" HEAD "Transfer-Encoding: chunked\r\n\r\nb\r\n0123456789x\r\n0\r\n\r\n");
    CHECK(has(&b, "413 "));
    dz_buf_release(&b);
    b = ask(g, "PUT /small" HEAD "Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n");
    CHECK(has(&b, "HTTP/1.1 413 ")); /* and no 100 before it */
    dz_buf_release(&b);
    dz_buf_adds(&text, "GET /hello?");
    for (int i = 0; i < DZ_HTTP_TARGET_MAX; i++)
        dz_buf_adds(&text, "x");
    dz_buf_adds(&text, HEAD CLOSE "\r\n");
    b = ask(g, text.p);
    CHECK(has(&b, "HTTP/1.1 414 "));
    dz_buf_release(&b);
    dz_buf_reset(&text);
    dz_buf_adds(&text, "GET /hello" HEAD);
    for (int i = 0; i < DZ_HTTP_HEADERS_MAX; i++)
        dz_buf_addf(&text, "a%d: b\r\n", i);
    dz_buf_adds(&text, "\r\n");
    b = ask(g, text.p);
    CHECK(has(&b, "HTTP/1.1 431 "));
    dz_buf_release(&b);
    dz_buf_release(&text);
}

RIG(a_request_cannot_hide_in_another, routes)
{
    const char *const bad[] = {
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        ("Transfer-Encoding: \x0b"
         "chunked\r\n"),
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length : 5\r\n",
        "Host: other\r\n",
        "b@d: x\r\n",
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "POST /echo" HEAD "%s\r\n0\r\n\r\nGET /hello" HEAD CLOSE "\r\n", bad[i]);
        struct dz_buf b = ask(g, text);
        CHECK(strncmp(b.p, "HTTP/1.1 4", 10) == 0 || b.len == 0);
        if (strstr(b.p, "hello") || strstr(b.p, "200 OK"))
            printf("# went through: %s\n", bad[i]);
        CHECK(!strstr(b.p, "200 OK"));
        dz_buf_release(&b);
    }
}

static int admit(struct dz_http_req *r, void *user, struct dz_err *err)
{
    const char *token = dz_http_header(r, "Authorization");
    CHECK_INT(*(int *)user, 7);
    if (!token)
        return dz_fail(err, DZ_EUNAUTH, "a token is needed");
    dz_http_set_context(r, user);
    CHECK(dz_http_context(r) == user);
    return 0;
}

static int seven = 7;

RIG_OPTS(who_is_not_admitted_stays_outside, .routes = routes, .route_count = DZ_ARRAY_LEN(routes),
         .admit = admit, .user = &seven)
{
    struct dz_buf b = ask(g, "GET /hello" HEAD CLOSE "\r\n");
    CHECK(has(&b, "401 Unauthorized"));
    CHECK(has(&b, "a token is needed"));
    dz_buf_release(&b);
    b = ask(g, "GET /hello" HEAD "Authorization: x\r\n" CLOSE "\r\n");
    CHECK(has(&b, "200 OK"));
    dz_buf_release(&b);
}

RIG_OPTS(more_connections_than_allowed_wait, .routes = routes, .route_count = DZ_ARRAY_LEN(routes),
         .connections_max = 2)
{
    int a = dial(g), b = dial(g), c = dial(g);
    struct dz_buf text = DZ_BUF_INIT(10000);
    say(a, "GET /hello" HEAD "\r\n");
    hear(a, &text, "hello");
    say(b, "GET /never" HEAD "\r\n");
    say(c, "GET /hello" HEAD CLOSE "\r\n");
    (void)usleep(50000);
    CHECK_INT(dz_http_connections(g->http), 2);
    dz_buf_reset(&text);
    (void)close(a);
    hear(c, &text, NULL);
    CHECK(has(&text, "200 OK"));
    dz_buf_release(&text);
    (void)close(b);
    (void)close(c);
}

RIG_OPTS(who_says_nothing_is_dropped, .routes = routes, .route_count = DZ_ARRAY_LEN(routes),
         .idle_s = 1)
{
    struct dz_buf b = DZ_BUF_INIT(1000);
    int fd = dial(g);
    say(fd, "GET /hel");
    hear(fd, &b, NULL); /* ends by the server's doing */
    CHECK_INT(dz_http_requests(g->http), 0);
    dz_buf_release(&b);
    (void)close(fd);
}

TEST(a_listener_takes_over_what_nobody_uses)
{
    struct rig *g = &rig_now;
    struct dz_http *other;
    struct dz_err err = {0};
    char dir[DZ_TEMP_DIR_TEXT], path[4 * DZ_TEMP_DIR_TEXT];
    CHECK_INT(dz_fd_temp_dir("t-http", dir, &err), 0);
    (void)snprintf(path, sizeof path, "%s/%0150d", dir, 1); /* longer than an address */
    CHECK_INT(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/%0150d/s", dir, 1);
    CHECK_INT(dz_loop_new(&g->loop, &err), 0);
    const struct dz_http_opts opts = {
        .loop = g->loop, .routes = routes, .route_count = DZ_ARRAY_LEN(routes)};
    int left = dz_fd_unix_listen(path, 0600, &err);
    CHECK(left >= 0);
    (void)close(left);
    CHECK_INT(dz_fd_unix_connect(path, &err), DZ_ENOENT);
    CHECK_INT(dz_http_new(&opts, &g->http, &err), 0);
    CHECK_INT(dz_http_new(&opts, &other, &err), 0);
    CHECK_INT(dz_http_listen_unix(g->http, path, &err), 0);
    CHECK_INT(dz_http_listen_unix(other, path, &err), DZ_EBUSY);
    dz_http_free(g->http);
    CHECK_INT(dz_http_listen_unix(other, path, &err), 0);
    dz_http_free(other);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    CHECK(file >= 0 && close(file) == 0);
    CHECK_INT(dz_fd_unix_listen(path, 0600, &err), DZ_EEXIST);
    dz_loop_free(g->loop);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, dir, &err), 0);
}

TORTURE(memory_may_be_short_while_a_server_starts)
{
    struct dz_http *h = NULL;
    struct dz_loop *loop = NULL;
    struct dz_err err;
    if (dz_loop_new(&loop, &err) < 0)
        return;
    const struct dz_http_opts opts = {
        .loop = loop, .routes = routes, .route_count = DZ_ARRAY_LEN(routes)};
    if (dz_http_new(&opts, &h, &err) == 0)
        dz_http_free(h);
    dz_loop_free(loop);
}
/* --- requests that are kept for their answer --- */

static atomic_int kept_answers, begun;

static bool keep_it(struct dz_http_req *r, void *user)
{
    (void)user;
    if (dz_http_header(r, "Keep"))
        dz_http_keep(r);
    begun++;
    return false;
}

static void kept_answer(struct dz_http_req *r, int status, struct dz_str body, void *user)
{
    (void)r, (void)user;
    CHECK_INT(status, 201);
    CHECK(dz_str_eqz(body, "later"));
    kept_answers++;
}

RIG_OPTS(a_request_that_is_kept_is_answered_without_its_client, .routes = routes,
         .route_count = DZ_ARRAY_LEN(routes), .before = keep_it, .kept = kept_answer)
{
    for (int kept = 0; kept < 2; kept++) {
        int fd = dial(g), before = g->done, asked = begun;
        not_yet = true;
        say(fd, kept ? "GET /later" HEAD "Keep: 1\r\n\r\n" : "GET /later" HEAD "\r\n");
        while (begun == asked) /* its handler follows in the same turn */
            (void)usleep(2000);
        (void)usleep(10000);
        (void)close(fd);
        for (int i = 0; i < 2000 && dz_http_connections(g->http) > 0; i++)
            (void)usleep(2000);
        CHECK_INT(dz_http_connections(g->http), 0);
        for (int i = 0; !kept && i < 2000 && g->done == before; i++)
            (void)usleep(2000);
        CHECK_INT(g->done, kept ? before : before + 1); /* only one that is kept goes on */
        not_yet = false;
        for (int i = 0; i < 500 && g->done == before; i++)
            (void)usleep(2000);
        CHECK_INT(g->done, before + 1);
        (void)usleep(60000);
        CHECK_INT(kept_answers, kept);
        CHECK_INT(g->last_status, kept ? 201 : 0);
        CHECK_INT(dz_http_requests(g->http), 0);
    }
    int fd = dial(g); /* with its client it is as any other */
    struct dz_buf b = DZ_BUF_INIT(1000);
    say(fd, "GET /later" HEAD "Keep: 1\r\n" CLOSE "\r\n");
    hear(fd, &b, NULL);
    CHECK(has(&b, "201 Created") && has(&b, "later"));
    CHECK_INT(kept_answers, 2);
    dz_buf_release(&b);
    (void)close(fd);
    int never = dial(g); /* and one that is never answered ends with the server */
    say(never, "GET /never" HEAD "Keep: 1\r\n\r\n");
    (void)usleep(10000);
    (void)close(never);
    (void)usleep(20000);
    CHECK_INT(dz_http_requests(g->http), 1);
}
