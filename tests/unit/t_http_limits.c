/* SPDX-License-Identifier: MIT
 * Clients that are slow, or too many, and requests that are cut off. */
#include "base/buf.h"
#include "http_rig.h"

#include <netinet/in.h>
#include <unistd.h>

static void hello(struct dz_http_req *r, void *user)
{
    struct dz_buf b = DZ_BUF_INIT(100);
    (void)user;
    dz_buf_adds(&b, "hello");
    dz_http_send(r, 200, DZ_HTTP_TEXT, &b);
    dz_buf_release(&b);
}

static void large(struct dz_http_req *r, void *user)
{
    struct dz_buf b = DZ_BUF_INIT(64 << 20);
    static const char piece[4096];
    (void)user;
    for (int i = 0; i < 8 << 10; i++)
        dz_buf_add(&b, piece, sizeof piece);
    dz_http_send(r, 200, DZ_HTTP_BYTES, &b);
}

static void count_gone(void *arg)
{
    ((struct rig *)arg)->gone++;
}

static void never(struct dz_http_req *r, void *user)
{
    (void)user;
    dz_http_on_gone(r, count_gone, &rig_now);
}

static void sse_closed(void *arg)
{
    ((struct rig *)arg)->closed++;
}

static void events(struct dz_http_req *r, void *user)
{
    static const struct dz_sse_ops ops = {.room = count_gone, .closed = sse_closed};
    (void)user;
    CHECK(dz_http_sse(r, &ops, &rig_now));
}

static bool is_never(const struct dz_http_req *r, void *arg)
{
    return strcmp(dz_http_route_of(r)->pattern, arg) == 0;
}

static void cut(struct dz_http_req *r, void *user)
{
    char what[] = "/never", stream[] = "/events", own[] = "/cut";
    hello(r, user);
    dz_http_cut(rig_now.http, is_never, what);
    dz_http_cut(rig_now.http, is_never, stream);
    dz_http_cut(rig_now.http, is_never, own);
}

static const struct dz_http_route routes[] = {
    {.method = "GET", .pattern = "/hello", .handle = hello},
    {.method = "POST", .pattern = "/hello", .handle = hello},
    {.method = "GET", .pattern = "/large", .handle = large},
    {.method = "GET", .pattern = "/never", .handle = never},
    {.method = "GET", .pattern = "/events", .handle = events},
    {.method = "GET", .pattern = "/cut", .handle = cut},
};
#define ROUTES .routes = routes, .route_count = DZ_ARRAY_LEN(routes)

RIG_OPTS(a_head_that_does_not_end_is_given_up, ROUTES, .head_ms = 200)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = dial(g);
    for (int i = 0; i < 100 && send(fd, i ? "x" : "GET /", 1, MSG_NOSIGNAL) > 0; i++)
        (void)usleep(10000); /* a byte now and then buys no time */
    hear(fd, &b, NULL);
    CHECK(has(&b, "HTTP/1.1 408 ") && has(&b, "Request-Id: ") && has(&b, "\"code\":\"timeout\""));
    dz_buf_release(&b);
    (void)close(fd);
}

RIG_OPTS(nor_is_a_body_waited_for_without_end, ROUTES, .body_ms = 200)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = dial(g);
    say(fd, "POST /hello" HEAD "Content-Length: 100000\r\n\r\n");
    for (int i = 0; i < 100 && send(fd, "x", 1, MSG_NOSIGNAL) > 0; i++)
        (void)usleep(10000);
    hear(fd, &b, NULL);
    CHECK(has(&b, "HTTP/1.1 408 ") && has(&b, "Connection: close"));
    dz_buf_release(&b);
    (void)close(fd);
}

RIG_OPTS(who_does_not_read_his_answer_is_dropped, ROUTES, .send_ms = 200)
{
    int slow = dial(g), fast = dial(g);
    struct dz_buf b = DZ_BUF_INIT(64 << 20);
    say(slow, "GET /large" HEAD "\r\n");
    wait_for(&g->done, 1);
    for (int i = 0; i < 1000 && dz_http_connections(g->http) > 1; i++)
        (void)usleep(1000);
    CHECK_INT(dz_http_connections(g->http), 1);
    say(fast, "GET /large" HEAD CLOSE "\r\n");
    hear(fast, &b, NULL);
    CHECK(b.len > 32 << 20);
    dz_buf_release(&b);
    (void)close(slow);
    (void)close(fast);
}

static size_t waiting;

static bool hold(struct dz_http_req *r, size_t *held, size_t now, bool must, void *user)
{
    bool room = now < *held || waiting - *held + now <= 40 << 20;
    (void)r, (void)user;
    if (!room && !must)
        return false;
    waiting = waiting - *held + now;
    *held = now;
    return room;
}

RIG_OPTS(an_answer_for_which_there_is_no_room_is_refused, ROUTES, .hold = hold)
{
    int slow = dial(g), second = dial(g);
    struct dz_buf b = DZ_BUF_INIT(64 << 20);
    say(slow, "GET /large" HEAD "\r\n");
    for (int i = 0; i < 1000 && waiting == 0; i++)
        (void)usleep(1000);
    CHECK_INT(waiting, 32 << 20);
    say(second, "GET /large" HEAD CLOSE "\r\n");
    hear(second, &b, NULL);
    CHECK(has(&b, "HTTP/1.1 429 ") && has(&b, "rate_limited"));
    dz_buf_reset(&b);
    (void)close(second);
    second = dial(g);
    say(second, "GET /hello" HEAD CLOSE "\r\n"); /* a small one is not asked about */
    hear(second, &b, NULL);
    CHECK(has(&b, "HTTP/1.1 200 "));
    dz_buf_release(&b);
    (void)close(slow);
    (void)close(second);
}

static bool hold_little(struct dz_http_req *r, size_t *held, size_t now, bool must, void *user)
{
    bool room = now < *held || waiting - *held + now <= 1 << 20;
    (void)r, (void)user;
    if (!room && !must)
        return false;
    waiting = waiting - *held + now;
    *held = now;
    return room;
}

static void until_waiting(size_t n)
{
    for (int i = 0; i < 5000 && waiting != n; i++)
        (void)usleep(1000);
    CHECK_INT(waiting, n);
}

RIG_OPTS(a_body_for_which_there_is_no_room_is_refused_unread, ROUTES, .hold = hold_little)
{
    int first = dial(g), second = dial(g), small = dial(g), chunked = dial(g);
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(1 << 20);
    static char piece[200000];
    say(first, "POST /hello" HEAD "Content-Length: 700000\r\n\r\n");
    until_waiting(700000); /* before any of it has come */
    say(second, "POST /hello" HEAD "Content-Length: 700000\r\n\r\n");
    hear(second, &b, NULL); /* nothing is sent, and it is answered */
    CHECK(has(&b, "HTTP/1.1 429 ") && has(&b, "rate_limited"));
    dz_buf_reset(&b);
    say(small, "POST /hello" HEAD CLOSE "Content-Length: 5\r\n\r\nhello");
    hear(small, &b, NULL);
    CHECK(has(&b, "HTTP/1.1 200 "));
    dz_buf_reset(&b);
    memset(piece, 'x', sizeof piece);
    say(chunked, "POST /hello" HEAD "Transfer-Encoding: chunked\r\n\r\n61a80\r\n"); /* 400,000 */
    (void)!write(chunked, piece, sizeof piece);
    (void)!write(chunked, piece, sizeof piece);
    hear(chunked, &b, NULL);
    CHECK(has(&b, "HTTP/1.1 429 "));
    (void)close(first);
    until_waiting(0); /* the requests' ends have given all back */
    (void)close(second);
    (void)close(small);
    (void)close(chunked);
}

RIG(what_is_cut_ends_and_a_plain_answer_still_goes_out, routes)
{
    int waits = dial(g), stream = dial(g);
    struct dz_buf b = DZ_BUF_INIT(10000);
    say(waits, "GET /never" HEAD "\r\n");
    say(stream, "GET /events" HEAD "\r\n");
    hear(stream, &b, ":\n\n");
    dz_buf_reset(&b);
    int fd = dial(g);
    say(fd, "GET /cut" HEAD "\r\n");
    hear(fd, &b, NULL);
    CHECK(has(&b, "hello"));
    wait_for(&g->gone, 1);
    wait_for(&g->closed, 1);
    dz_buf_reset(&b);
    hear(waits, &b, NULL);
    CHECK_INT(b.len, 0);
    hear(stream, &b, NULL);
    dz_buf_release(&b);
    (void)close(fd);
    (void)close(waits);
    (void)close(stream);
}

/* Over TCP: a listener of our own, so that nobody else's port is needed. */
static int listen_here(struct rig *g, struct sockaddr_in *at)
{
    struct dz_err err;
    socklen_t len = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)at, len) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)at, &len), 0);
    (void)close(fd);
    char address[64];
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at->sin_port));
    return dz_http_listen_tcp(g->http, address, false, &err);
}

TEST(an_address_has_so_many_connections_and_no_more)
{
    struct rig *g = &rig_now;
    struct dz_err err;
    struct sockaddr_in at;
    struct dz_timer *stop;
    int fds[6];
    char c;
    CHECK_INT(dz_loop_new(&g->loop, &err), 0);
    const struct dz_http_opts opts = {.loop = g->loop, ROUTES, .address_max = 4};
    CHECK_INT(dz_http_new(&opts, &g->http, &err), 0);
    CHECK_INT(listen_here(g, &at), 0);
    for (int i = 0; i < 6; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_INT(connect(fds[i], (struct sockaddr *)&at, sizeof at), 0);
    }
    CHECK_INT(dz_timer_new(g->loop, (void (*)(void *))dz_loop_stop, g->loop, &stop, &err), 0);
    dz_timer_after(stop, 50);
    CHECK_INT(dz_loop_run(g->loop, &err), 0);
    CHECK_INT(dz_http_connections(g->http), 4);
    CHECK_INT(recv(fds[5], &c, 1, MSG_DONTWAIT), 0); /* closed */
    CHECK_INT(recv(fds[0], &c, 1, MSG_DONTWAIT), -1);
    for (int i = 0; i < 6; i++)
        (void)close(fds[i]);
    CHECK_INT(dz_http_listen_tcp(g->http, "0.0.0.0:0", false, &err), DZ_EDENIED);
    CHECK_INT(dz_http_listen_tcp(g->http, "[::]:0", false, &err), DZ_EDENIED);
    CHECK_INT(dz_http_listen_tcp(g->http, ":0", false, &err), DZ_EDENIED);
    CHECK_INT(dz_http_listen_tcp(g->http, "::1:0", false, &err), DZ_EINVAL);
    CHECK_INT(dz_http_listen_tcp(g->http, "127.0.0.1", false, &err), DZ_EINVAL);
    CHECK_INT(dz_http_listen_tcp(g->http, "127.0.0.1:x", false, &err), DZ_EINVAL);
    CHECK_INT(dz_http_listen_tcp(g->http, "0.0.0.0:0", true, &err), 0);
    dz_http_free(g->http);
    dz_timer_free(stop);
    dz_loop_free(g->loop);
}
