/* SPDX-License-Identifier: MIT
 * WebSockets, spoken byte by byte by the client. */
#include "http_rig.h"

static struct socket {
    struct dz_ws *w;
    int code, rooms, sent, messages, alive;
} ws;

static void message(void *arg, bool text, struct dz_str data)
{
    (void)arg;
    ws.messages++;
    if (dz_str_eqz(data, "bye")) {
        CHECK_INT(dz_ws_send(ws.w, true, DZ_STR("last words")), 0);
        dz_ws_close(ws.w, 1008, "policy");
        CHECK_INT(dz_ws_send(ws.w, true, DZ_STR("too late")), DZ_ESTATE);
    } else
        CHECK(dz_ws_send(ws.w, text, data) >= 0);
}

static void on_alive(void *arg)
{
    (void)arg;
    ws.alive++;
}

static void no_room(void *arg)
{
    (void)arg;
    ws.rooms++;
}

static void closed(void *arg, int code)
{
    (void)arg;
    ws.w = NULL;
    ws.code = code;
    rig_now.closed++;
}

static const struct dz_ws_ops echo_ops = {
    .message = message, .room = no_room, .alive = on_alive, .closed = closed};

static void echo(struct dz_http_req *r, void *user)
{
    (void)user;
    ws = (struct socket){.code = 0};
    if (!dz_http_wants_ws(r)) {
        dz_http_fail(r, &(struct dz_err){.code = DZ_EINVAL, .msg = "a WebSocket is wanted"});
        return;
    }
    ws.w = dz_http_ws(r, &echo_ops, NULL);
    CHECK(ws.w != NULL);
    CHECK_INT(dz_ws_send(ws.w, true, DZ_STR("hi")), 0); /* before the upgrade */
}

/* Sends until it is told to wait, five times. */
static void flood_room(void *arg)
{
    static char piece[10000];
    (void)arg;
    memset(piece, 'p', sizeof piece);
    if (++ws.rooms == 5) {
        dz_ws_close(ws.w, 1000, NULL);
        return;
    }
    do
        ws.sent++;
    while (dz_ws_send(ws.w, false, dz_str_n(piece, sizeof piece)) == 0);
}

static const struct dz_ws_ops flood_ops = {
    .message = message, .room = flood_room, .closed = closed};

static void flood(struct dz_http_req *r, void *user)
{
    (void)user;
    ws = (struct socket){.w = dz_http_ws(r, &flood_ops, NULL)};
    flood_room(NULL);
}

static struct dz_timer *timer;

static void go_on(void *arg)
{
    (void)arg;
    dz_timer_free(timer);
    timer = NULL;
    CHECK_INT(ws.messages, 0);
    if (ws.w)
        dz_ws_pause(ws.w, false);
}

static void pause_first(struct dz_http_req *r, void *user)
{
    (void)user;
    ws = (struct socket){.w = dz_http_ws(r, &echo_ops, NULL)};
    dz_ws_pause(ws.w, true);
    CHECK_INT(dz_timer_new(rig_now.loop, go_on, NULL, &timer, NULL), 0);
    dz_timer_after(timer, 50);
}

/* Messages that are taken before anybody else has a turn of the loop. */
static struct {
    int run, most;
    struct dz_timer *other;
} turns;

static void count_turn(void *arg, bool text, struct dz_str data)
{
    (void)arg, (void)text, (void)data;
    ws.messages++;
    if (++turns.run > turns.most)
        turns.most = turns.run;
}

static void other_turn(void *arg)
{
    (void)arg;
    turns.run = 0;
    dz_timer_after(turns.other, 0);
}

static void turns_closed(void *arg, int code)
{
    dz_timer_free(turns.other);
    closed(arg, code);
}

static const struct dz_ws_ops turn_ops = {
    .message = count_turn, .room = no_room, .closed = turns_closed};

static void take_turns(struct dz_http_req *r, void *user)
{
    (void)user;
    ws = (struct socket){.w = dz_http_ws(r, &turn_ops, NULL)};
    dz_ws_pause(ws.w, true); /* until much has come */
    CHECK_INT(dz_timer_new(rig_now.loop, go_on, NULL, &timer, NULL), 0);
    dz_timer_after(timer, 100);
    CHECK_INT(dz_timer_new(rig_now.loop, other_turn, NULL, &turns.other, NULL), 0);
    other_turn(NULL);
}

/* Overruns a client that reads nothing. */
static void rude(struct dz_http_req *r, void *user)
{
    static char piece[100000];
    int rc = 0;
    (void)user;
    ws = (struct socket){.w = dz_http_ws(r, &echo_ops, NULL)};
    while (rc >= 0)
        rc = dz_ws_send(ws.w, false, dz_str_n(piece, sizeof piece));
    CHECK_INT(rc, DZ_ELIMIT);
}

static const struct dz_http_route routes[] = {
    {.method = "GET", .pattern = "/echo", .handle = echo},
    {.method = "GET", .pattern = "/flood", .handle = flood},
    {.method = "GET", .pattern = "/pause", .handle = pause_first},
    {.method = "GET", .pattern = "/rude", .handle = rude},
    {.method = "GET", .pattern = "/turns", .handle = take_turns},
};

/* --- the client ------------------------------------------------------------------------- */

#define UPGRADE                                                                                   \
    HEAD "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" \
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static int upgrade_with(struct rig *g, const char *path, const char *behind, size_t n)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = dial(g);
    dz_buf_addf(&b, "GET %s" UPGRADE "\r\n", path);
    dz_buf_add(&b, behind, n);
    CHECK_INT(write(fd, b.p, b.len), b.len);
    dz_buf_reset(&b);
    hear(fd, &b, "\r\n\r\n");
    CHECK(has(&b, "HTTP/1.1 101 "));
    CHECK(has(&b, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n")); /* RFC 6455, 1.3 */
    CHECK(has(&b, "Request-Id: req_"));
    dz_buf_release(&b);
    return fd;
}

static int upgrade(struct rig *g, const char *path)
{
    return upgrade_with(g, path, "", 0);
}

/* A frame from a client, masked with zeros. */
static void frame(int fd, int first, const char *data, size_t n)
{
    unsigned char head[14] = {(unsigned char)first};
    size_t at = 2;
    if (n < 126) {
        head[1] = (unsigned char)(0x80 | n);
    } else if (n < 65536) {
        head[1] = 0x80 | 126;
        head[at++] = (unsigned char)(n >> 8);
        head[at++] = (unsigned char)n;
    } else {
        head[1] = 0x80 | 127;
        for (int i = 7; i >= 0; i--)
            head[at++] = (unsigned char)((uint64_t)n >> (8 * i));
    }
    CHECK_INT(write(fd, head, at + 4), at + 4);
    for (size_t put = 0; put < n;) {
        ssize_t done = send(fd, data + put, n - put, MSG_NOSIGNAL);
        if (done <= 0)
            return;
        put += (size_t)done;
    }
}

static bool exactly(int fd, void *p, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t rc = recv(fd, (char *)p + got, n - got, 0);
        if (rc <= 0)
            return false;
        got += (size_t)rc;
    }
    return true;
}

/* The next frame: its first byte, or -1 at the end. */
static int heard(int fd, struct dz_buf *b)
{
    unsigned char head[2], more[8];
    uint64_t n;
    dz_buf_reset(b);
    if (!exactly(fd, head, 2))
        return -1;
    CHECK(!(head[1] & 0x80)); /* a server does not mask */
    n = head[1];
    size_t extra = n == 126 ? 2 : n == 127 ? 8 : 0;
    if (extra) {
        CHECK(exactly(fd, more, extra));
        n = 0;
        for (size_t i = 0; i < extra; i++)
            n = n << 8 | more[i];
    }
    char *text = malloc(n + 1);
    CHECK(exactly(fd, text, n));
    dz_buf_add(b, text, n);
    free(text);
    return head[0];
}

static int close_code(const struct dz_buf *b)
{
    return b->len < 2 ? 0 : (unsigned char)b->p[0] << 8 | (unsigned char)b->p[1];
}

RIG(messages_go_both_ways, routes)
{
    struct dz_buf b = DZ_BUF_INIT(4 << 20);
    int fd = upgrade(g, "/echo");
    CHECK_INT(heard(fd, &b), 0x81);
    CHECK_STR(b.p, "hi");
    frame(fd, 0x82, "a\0b", 3);
    CHECK_INT(heard(fd, &b), 0x82);
    CHECK(b.len == 3 && memcmp(b.p, "a\0b", 3) == 0);
    frame(fd, 0x01, "frag", 4); /* in parts, a ping between them */
    frame(fd, 0x89, "ping", 4);
    frame(fd, 0x80, "ments", 5);
    CHECK_INT(heard(fd, &b), 0x8a);
    CHECK_STR(b.p, "ping");
    CHECK_INT(heard(fd, &b), 0x81);
    CHECK_STR(b.p, "fragments");
    CHECK_INT(ws.alive, 1);
    char *big = calloc(1, 900000);
    frame(fd, 0x82, big, 900000);
    CHECK_INT(heard(fd, &b), 0x82);
    CHECK_INT(b.len, 900000);
    free(big);
    frame(fd, 0x88, "\x03\xe8", 2);
    CHECK_INT(heard(fd, &b), 0x88);
    CHECK_INT(heard(fd, &b), -1);
    wait_for(&g->closed, 1);
    CHECK_INT(ws.code, 1000);
    CHECK_INT(ws.messages, 3);
    (void)close(fd);
    wait_for(&g->done, 1);
    CHECK_INT(g->last_status, 101);
    dz_buf_release(&b);
}

RIG(frames_right_behind_the_request_are_not_lost, routes)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = upgrade_with(g, "/echo", "\x81\x82\0\0\0\0ok", 8);
    CHECK_INT(heard(fd, &b), 0x81);
    CHECK_INT(heard(fd, &b), 0x81);
    CHECK_STR(b.p, "ok");
    (void)close(fd);
    wait_for(&g->closed, 1);
    CHECK_INT(ws.code, 1006);
    dz_buf_release(&b);
}

RIG(who_sends_many_messages_leaves_turns_to_others, routes)
{
    enum {
        FRAMES = 20000,
        TURN_MAX = 3000 /* in two reads and what was read ahead */
    };
    static char many[FRAMES * 6];
    for (int i = 0; i < FRAMES; i++)
        memcpy(many + (size_t)i * 6, "\x82\x80\0\0\0\0", 6);
    int fd = upgrade(g, "/turns");
    for (size_t put = 0; put < sizeof many;) {
        ssize_t n = send(fd, many + put, sizeof many - put, MSG_NOSIGNAL);
        CHECK(n > 0);
        if (n <= 0)
            break;
        put += (size_t)n;
    }
    frame(fd, 0x88, "\x03\xe8", 2);
    wait_for(&g->closed, 1);
    CHECK_INT(ws.messages, FRAMES);
    CHECK(turns.most > 0 && turns.most <= TURN_MAX);
    (void)close(fd);
}

RIG(the_server_closes_with_its_code, routes)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = upgrade(g, "/echo");
    CHECK_INT(heard(fd, &b), 0x81);
    frame(fd, 0x81, "bye", 3);
    CHECK_INT(heard(fd, &b), 0x81);
    CHECK_STR(b.p, "last words"); /* what was sent before the close comes before it */
    CHECK_INT(heard(fd, &b), 0x88);
    CHECK_INT(close_code(&b), 1008);
    CHECK_STR(b.p + 2, "policy");
    wait_for(&g->closed, 1); /* without an answer too, after a while */
    CHECK_INT(ws.code, 1008);
    CHECK_INT(heard(fd, &b), -1);
    (void)close(fd);
    dz_buf_release(&b);
}

static void expect_code(struct rig *g, const char *bytes, size_t n, int code)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = upgrade(g, "/echo");
    CHECK_INT(heard(fd, &b), 0x81);
    CHECK_INT(write(fd, bytes, n), n);
    CHECK_INT(heard(fd, &b), 0x88);
    CHECK_INT(close_code(&b), code);
    (void)close(fd);
    dz_buf_release(&b);
}

RIG(what_breaks_the_protocol_is_told_so, routes)
{
    expect_code(g, "\x81\x02hi", 4, 1002);               /* not masked */
    expect_code(g, "\xf1\x82\0\0\0\0hi", 8, 1002);       /* reserved bits */
    expect_code(g, "\x81\x82\0\0\0\0\xff\xfe", 8, 1007); /* no UTF-8 */
    expect_code(g, "\x82\xff\0\0\0\0\0\x10\0\x01\0\0\0\0x", 15, 1009);
    /* too large */
    wait_for(&g->closed, 4);
}

RIG(without_an_upgrade_it_is_refused, routes)
{
    struct dz_buf b = ask(g, "GET /echo" HEAD CLOSE "\r\n");
    CHECK(has(&b, "400 Bad Request"));
    dz_buf_release(&b);
    b = ask(g, "GET /echo" HEAD "Connection: Upgrade\r\nUpgrade: websocket\r\n"
               "Sec-WebSocket-Version: 12\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" CLOSE
               "\r\n");
    CHECK(has(&b, "400 Bad Request"));
    dz_buf_release(&b);
}

RIG(a_sender_waits_for_room, routes)
{
    struct dz_buf b = DZ_BUF_INIT(1 << 20);
    int fd = upgrade(g, "/flood"), frames = 0, first;
    (void)usleep(100000);
    while ((first = heard(fd, &b)) == 0x82)
        frames++;
    CHECK_INT(first, 0x88);
    CHECK_INT(close_code(&b), 1000);
    CHECK_INT(ws.rooms, 5);
    CHECK_INT(frames, ws.sent);
    frame(fd, 0x88, "\x03\xe8", 2);
    wait_for(&g->closed, 1);
    (void)close(fd);
    dz_buf_release(&b);
}

RIG(a_reader_may_pause, routes)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = upgrade_with(g, "/pause", "\x81\x82\0\0\0\0ok", 8);
    frame(fd, 0x81, "second", 6);
    CHECK_INT(heard(fd, &b), 0x81);
    CHECK_STR(b.p, "ok");
    CHECK_INT(heard(fd, &b), 0x81);
    CHECK_STR(b.p, "second");
    (void)close(fd);
    fd = upgrade(g, "/pause"); /* who leaves meanwhile is noticed */
    (void)close(fd);
    wait_for(&g->closed, 2);
    for (int i = 0; i < 1000 && timer; i++)
        (void)usleep(1000);
    dz_buf_release(&b);
}

RIG(a_client_that_reads_nothing_is_cut_off, routes)
{
    int fd = upgrade(g, "/rude");
    wait_for(&g->closed, 1);
    CHECK_INT(ws.code, 1006);
    (void)close(fd);
}

RIG_OPTS(who_does_not_answer_pings_is_gone, .routes = routes, .route_count = DZ_ARRAY_LEN(routes),
         .ws_ping_ms = 50)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = upgrade(g, "/echo");
    CHECK_INT(heard(fd, &b), 0x81);
    for (int i = 0; i < 4; i++) { /* somebody who answers stays */
        CHECK_INT(heard(fd, &b), 0x89);
        frame(fd, 0x8a, "", 0);
    }
    CHECK_INT(g->closed, 0);
    CHECK_INT(heard(fd, &b), 0x89);
    CHECK_INT(heard(fd, &b), 0x89);
    CHECK_INT(heard(fd, &b), -1);
    wait_for(&g->closed, 1);
    CHECK_INT(ws.code, 1006);
    (void)close(fd);
    dz_buf_release(&b);
}

RIG(sockets_end_with_the_server, routes)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = upgrade(g, "/echo");
    CHECK_INT(heard(fd, &b), 0x81);
    dz_buf_release(&b);
}

/* Who sends pings and reads no pong is not read any more, until he does. */
RIG(pings_without_end_fill_nothing, routes)
{
    static const char payload[125];
    struct dz_buf b = DZ_BUF_INIT(1 << 20);
    int fd = upgrade(g, "/echo"), stalls = 0;
    size_t sent = 0;
    char one[6 + sizeof payload];
    CHECK_INT(heard(fd, &b), 0x81); /* "hi" */
    one[0] = (char)0x89;
    one[1] = (char)(0x80 | sizeof payload);
    memset(one + 2, 0, sizeof one - 2); /* a mask of zeroes */
    while (stalls < 20 && sent < 64 << 20) {
        ssize_t n = send(fd, one, sizeof one, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        stalls = n > 0 ? 0 : stalls + 1;
        CHECK(n == (ssize_t)sizeof one || n < 0);
        if (n < 0)
            (void)usleep(10000);
    }
    CHECK(sent < 16 << 20);
    for (size_t i = 0; i < sent / sizeof one; i++)
        CHECK_INT(heard(fd, &b), 0x8a);
    frame(fd, 0x81, "still there", 11);
    CHECK_INT(heard(fd, &b), 0x81);
    dz_buf_release(&b);
    (void)close(fd);
}
