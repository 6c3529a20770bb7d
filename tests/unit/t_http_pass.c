/* SPDX-License-Identifier: MIT
 * Requests that a guest answers. The guest is a thread at the other end of a socketpair, which
 * plays the part that the request's path names. */
#include "http_rig.h"

#include "http/http_head.h"

static const struct dz_http_route pass_route;

static struct guest {
    int fd;
    char part[32];
    pthread_t thread;
    bool started;
} guests[64];
static size_t guest_count;

/* Read a head; returns false at the end of the connection. */
static bool guest_head(int fd, struct dz_buf *b)
{
    hear(fd, b, "\r\n\r\n");
    return strstr(b->p, "\r\n\r\n") != NULL;
}

static void play(struct guest *g)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(1 << 20);
    static char big[1 << 20];
    char piece[4096];
    if (strcmp(g->part, "deaf") == 0)
        return;
    if (!guest_head(g->fd, &b))
        return;
    if (strcmp(g->part, "mirror") == 0) {
        char head[128];
        (void)snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", b.len);
        say(g->fd, head);
        say(g->fd, b.p);
    } else if (strcmp(g->part, "body") == 0) { /* until the request's chunks are over */
        hear(g->fd, &b, "\r\n0\r\n\r\n");
        say(g->fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    } else if (strcmp(g->part, "stream") ==
               0) { /* each piece after the client has the one before */
        say(g->fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
        (void)recv(g->fd, piece, 1, 0); /* the end of the connection */
    } else if (strcmp(g->part, "big") == 0) {
        memset(big, 'b', sizeof big);
        say(g->fd, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
        for (int i = 0; i < 8; i++)
            for (size_t at = 0; at < sizeof big;) {
                ssize_t n = send(g->fd, big + at, sizeof big - at, MSG_NOSIGNAL);
                if (n <= 0)
                    return;
                at += (size_t)n;
            }
    } else if (strcmp(g->part, "socket") == 0) {
        say(g->fd, "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello");
        for (ssize_t n; (n = recv(g->fd, piece, sizeof piece, 0)) > 0;)
            (void)send(g->fd, piece, (size_t)n, MSG_NOSIGNAL);
    } else if (strcmp(g->part, "early") == 0) { /* an answer before the request is over */
        say(g->fd, "HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n");
    } else if (strcmp(g->part, "garbage") == 0) {
        say(g->fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab");
    } else if (strcmp(g->part, "torn") == 0) {
        say(g->fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    } else if (strcmp(g->part, "continue") == 0) {
        say(g->fd, "HTTP/1.1 100 Continue\r\n\r\n");
        hear(g->fd, &b, "body");
        say(g->fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

static void *guest_thread(void *arg)
{
    struct guest *g = arg;
    play(g);
    (void)close(g->fd);
    return NULL;
}

static const struct dz_http_route *divert(struct dz_http_req *r, void *user)
{
    (void)user;
    return strcmp(dz_http_head(r)->target, "/own") == 0 ? NULL : &pass_route;
}

static void unanswered(struct dz_http_req *r, const struct dz_err *err, void *user)
{
    const struct dz_http_problem p = {.code = err->code, .status = 502, .message = err->msg};
    (void)user;
    dz_http_refuse(r, &p);
}

static void pass(struct dz_http_req *r, void *user)
{
    int fds[2], status = 0;
    struct dz_err err = {0};
    (void)user;
    const char *target = dz_http_head(r)->target;
    struct guest *g = &guests[guest_count++];
    CHECK(guest_count <= DZ_ARRAY_LEN(guests));
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    CHECK_INT(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    g->fd = fds[1];
    (void)snprintf(g->part, sizeof g->part, "%.*s", (int)strcspn(target + 1, "?"), target + 1);
    CHECK_INT(pthread_create(&g->thread, NULL, guest_thread, g), 0);
    g->started = true;
    const struct dz_http_pass_opts opts = {.fd = fds[0], .tag = "t"};
    if (dz_http_pass(r, &opts, &status, &err) < 0) {
        const struct dz_http_problem p = {.code = err.code, .status = status, .message = err.msg};
        dz_http_refuse(r, &p);
    }
}
static const struct dz_http_route pass_route = {
    .method = "*", .pattern = "/pass", .handle = pass, .flags = DZ_HTTP_STREAMED};

static void own(struct dz_http_req *r, void *user)
{
    (void)user;
    dz_http_send(r, 200, DZ_HTTP_TEXT, NULL);
}
static const struct dz_http_route routes[] = {{.method = "GET", .pattern = "/own", .handle = own}};

static void join_guests(void)
{
    for (size_t i = 0; i < guest_count; i++)
        (void)pthread_join(guests[i].thread, NULL);
    guest_count = 0;
}

#define PASS(id)                                                                          \
    RIG_OPTS(id, .routes = routes, .route_count = DZ_ARRAY_LEN(routes), .divert = divert, \
             .unanswered = unanswered)
#define GET(path) "GET /" path HEAD

PASS(the_guest_gets_the_request_and_the_client_the_answer)
{
    struct dz_buf b = ask(g, GET("mirror?a") "X: 1\r\n" CLOSE "\r\n");
    CHECK(has(&b, "HTTP/1.1 200 OK\r\n"));
    CHECK(has(&b, "GET /mirror?a HTTP/1.1\r\nHost: t\r\nX: 1\r\nX-Forwarded-For: unix\r\n"));
    dz_buf_release(&b);
    /* other requests have their routes */
    b = ask(g, GET("own") CLOSE "\r\n");
    CHECK(has(&b, "200 OK"));
    dz_buf_release(&b);
    join_guests();
    CHECK_INT(g->done, 2);
}

/* The connection stays open for the next request, which may come before the answer to the first. */
PASS(requests_follow_one_another)
{
    struct dz_buf b = ask(
        g, GET("mirror") "N: 1\r\n\r\n" GET("own") "\r\n" GET("mirror") "N: 2\r\n" CLOSE "\r\n");
    CHECK(has(&b, "N: 1"));
    CHECK(has(&b, "N: 2"));
    CHECK_INT(g->last_status, 200);
    dz_buf_release(&b);
    join_guests();
}

PASS(a_body_in_chunks_reaches_the_guest)
{
    struct dz_buf b = DZ_BUF_INIT(1 << 20);
    int fd = dial(g);
    say(fd, "POST /body" HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    say(fd, "2;x=y\r\nde\r\n0\r\n\r\n" GET("own") CLOSE "\r\n");
    hear(fd, &b, NULL);
    CHECK(has(&b, "\r\n\r\nokHTTP/1.1 200 OK\r\n"));
    (void)close(fd);
    dz_buf_release(&b);
    join_guests();
}

/* The first event comes while the answer goes on; a client that leaves ends the guest's
 * connection. */
PASS(events_come_at_once)
{
    struct dz_buf b = DZ_BUF_INIT(1 << 20);
    int fd = dial(g);
    say(fd, GET("stream") "\r\n");
    hear(fd, &b, "data: 1\n\n");
    CHECK(has(&b, "data: 1\n\n"));
    (void)close(fd);
    join_guests();
    dz_buf_release(&b);
}

/* The client reads late: the guest waits, and nothing is lost. */
PASS(a_large_answer)
{
    struct dz_buf b = DZ_BUF_INIT(16 << 20);
    int fd = dial(g);
    say(fd, GET("big") CLOSE "\r\n");
    hear(fd, &b, "\r\n\r\n");
    const size_t head = b.len;
    hear(fd, &b, NULL);
    CHECK_INT(b.len - head, 8 << 20);
    CHECK(memchr(b.p + head, 'b', 1) && !memchr(b.p + head, 'H', 8 << 20));
    (void)close(fd);
    dz_buf_release(&b);
    join_guests();
}

PASS(a_websocket)
{
    struct dz_buf b = DZ_BUF_INIT(1 << 20);
    int fd = dial(g);
    say(fd, GET("socket") "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    hear(fd, &b, "hello");
    CHECK(has(&b, "HTTP/1.1 101 S\r\n"));
    say(fd, "ping-1");
    hear(fd, &b, "ping-1");
    say(fd, "ping-2");
    hear(fd, &b, "ping-2");
    CHECK(has(&b, "helloping-1ping-2"));
    (void)close(fd);
    join_guests();
    dz_buf_release(&b);
}

PASS(failures_have_their_answers)
{
    static const struct {
        const char *request, *want;
    } cases[] = {
        {GET("deaf") CLOSE "\r\n", "HTTP/1.1 502 "},
        {GET("garbage") CLOSE "\r\n", "HTTP/1.1 502 "},
        {"PUT /early" HEAD "Content-Length: 5\r\n\r\n", "HTTP/1.1 413 Large\r\n"},
        {"TRACE /x" HEAD CLOSE "\r\n", "HTTP/1.1 405 "},
        {"PUT /body" HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 502 "},
        {"PUT /body" HEAD "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
         "HTTP/1.1 400 "},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        struct dz_buf b = ask(g, cases[i].request);
        CHECK(strncmp(b.p, cases[i].want, strlen(cases[i].want)) == 0);
        CHECK(!strstr(b.p + 1, "HTTP/1.1"));
        dz_buf_release(&b);
        join_guests();
    }
}

/* An answer that breaks off must not look whole. */
PASS(a_torn_answer_is_torn)
{
    struct dz_buf b = ask(g, GET("torn") "\r\n");
    CHECK(has(&b, "Content-Length: 10\r\n"));
    CHECK(has(&b, "\r\n\r\nabc"));
    CHECK(!has(&b, "502"));
    dz_buf_release(&b);
    join_guests();
}

PASS(the_guest_says_100_continue)
{
    struct dz_buf b = DZ_BUF_INIT(1 << 20);
    int fd = dial(g);
    say(fd, "PUT /continue" HEAD "Expect: 100-continue\r\nContent-Length: 4\r\n" CLOSE "\r\n");
    hear(fd, &b, "\r\n\r\n");
    CHECK(has(&b, "HTTP/1.1 100 Continue\r\n\r\n"));
    say(fd, "body");
    hear(fd, &b, NULL);
    CHECK(has(&b, "\r\n\r\nHTTP/1.1 200 OK\r\n"));
    (void)close(fd);
    dz_buf_release(&b);
    join_guests();
}
