/* SPDX-License-Identifier: MIT
 * Bodies and answers that come piece by piece, events. */
#include "http_rig.h"

/* --- a body into a sink ------------------------------------------------------------- */

static struct upload {
    uint64_t id, bytes, sum, offers;
    struct dz_timer *timer;
    bool hungry, refuse;
} up;

static ssize_t push(void *arg, const char *p, size_t n)
{
    (void)arg;
    up.offers++;
    if (up.refuse)
        return DZ_EINVAL;
    if (!up.hungry) {
        dz_timer_after(up.timer, 1); /* the rest is for later */
        up.hungry = true;
        return 0;
    }
    up.hungry = false;
    size_t take = n > 5000 ? 5000 : n;
    for (size_t i = 0; i < take; i++)
        up.sum += (unsigned char)p[i];
    up.bytes += take;
    if (take < n) {
        up.hungry = true;
        dz_http_more(rig_now.http, up.id); /* from the inside: asked again at once */
    }
    return (ssize_t)take;
}

static void end(void *arg)
{
    struct dz_http_req *r = dz_http_find(rig_now.http, up.id);
    struct dz_buf b = DZ_BUF_INIT(100);
    (void)arg;
    CHECK(r != NULL);
    dz_buf_addf(&b, "bytes=%llu sum=%llu", (unsigned long long)up.bytes,
                (unsigned long long)up.sum);
    dz_http_send(r, 201, DZ_HTTP_TEXT, &b);
    dz_timer_free(up.timer);
}

static const struct dz_http_sink sink = {.push = push, .end = end};

static void on_time(void *arg)
{
    (void)arg;
    dz_http_more(rig_now.http, up.id);
}

static void begin_upload(struct dz_http_req *r, void *user)
{
    (void)user;
    up = (struct upload){.id = dz_http_id(r)};
    CHECK_INT(dz_timer_new(rig_now.loop, on_time, NULL, &up.timer, NULL), 0);
}

static void upload(struct dz_http_req *r, void *user)
{
    begin_upload(r, user);
    dz_http_receive(r, &sink, NULL);
}

/* Takes the body only a moment later. */
static void start_later(void *arg)
{
    struct dz_http_req *r = dz_http_find(rig_now.http, up.id);
    (void)arg;
    CHECK_INT(up.offers, 0);
    dz_timer_free(up.timer);
    CHECK_INT(dz_timer_new(rig_now.loop, on_time, NULL, &up.timer, NULL), 0);
    dz_http_receive(r, &sink, NULL);
}

static void upload_later(struct dz_http_req *r, void *user)
{
    (void)user;
    up = (struct upload){.id = dz_http_id(r)};
    CHECK_INT(dz_timer_new(rig_now.loop, start_later, NULL, &up.timer, NULL), 0);
    dz_timer_after(up.timer, 20);
}

static void upload_refused(struct dz_http_req *r, void *user)
{
    (void)user;
    dz_http_fail(r, &(struct dz_err){.code = DZ_ENOENT, .msg = "no such file"});
}

static void refuse_later(void *arg)
{
    struct dz_http_req *r = dz_http_find(rig_now.http, up.id);
    (void)arg;
    dz_timer_free(up.timer);
    upload_refused(r, NULL);
}

static void upload_refused_later(struct dz_http_req *r, void *user)
{
    (void)user;
    up = (struct upload){.id = dz_http_id(r)};
    CHECK_INT(dz_timer_new(rig_now.loop, refuse_later, NULL, &up.timer, NULL), 0);
    dz_timer_after(up.timer, 20);
}

/* Answers in the middle: the sink is of no use, the body goes on. */
static void upload_broken(struct dz_http_req *r, void *user)
{
    begin_upload(r, user);
    dz_timer_free(up.timer);
    up.refuse = true;
    dz_http_receive(r, &sink, NULL);
    CHECK_INT(dz_timer_new(rig_now.loop, refuse_later, NULL, &up.timer, NULL), 0);
    dz_timer_after(up.timer, 20);
}

/* --- answers from a source --------------------------------------------------------------- */

static struct download {
    uint64_t id, left, at;
    struct dz_timer *timer;
    int waits;
    bool cut;
} down;

static ssize_t pull(void *arg, char *p, size_t n)
{
    (void)arg;
    if (down.waits > 0) {
        down.waits--;
        dz_timer_after(down.timer, 2);
        return DZ_HTTP_WAIT;
    }
    if (down.left == 0)
        return down.cut ? DZ_HTTP_CUT : DZ_HTTP_END;
    n = n < down.left ? n : down.left;
    for (size_t i = 0; i < n; i++)
        p[i] = (char)('a' + (down.at + i) % 26);
    down.at += n;
    down.left -= n;
    down.waits = down.left % 3 == 0 ? 1 : 0;
    return (ssize_t)n;
}

static void downloaded(void *arg)
{
    (void)arg;
    dz_timer_free(down.timer);
    rig_now.closed++;
}

static const struct dz_http_source source = {.pull = pull, .done = downloaded};

static void more_down(void *arg)
{
    (void)arg;
    dz_http_more(rig_now.http, down.id);
}

static void begin_download(struct dz_http_req *r, uint64_t size)
{
    down = (struct download){.id = dz_http_id(r), .left = size, .waits = 1};
    CHECK_INT(dz_timer_new(rig_now.loop, more_down, NULL, &down.timer, NULL), 0);
}

static void download(struct dz_http_req *r, void *user)
{
    uint64_t size = strtoull(dz_http_param(r, "size"), NULL, 10);
    (void)user;
    begin_download(r, size);
    dz_http_stream(r, 200, DZ_HTTP_BYTES, dz_http_query(r, "chunked") ? -1 : (int64_t)size, &source,
                   NULL);
}

static void endless(struct dz_http_req *r, void *user)
{
    (void)user;
    begin_download(r, UINT64_MAX);
    dz_http_stream(r, 200, DZ_HTTP_BYTES, -1, &source, NULL);
}

static void cut(struct dz_http_req *r, void *user)
{
    (void)user;
    begin_download(r, 1000);
    down.cut = true;
    dz_http_stream(r, 200, DZ_HTTP_BYTES, 5000, &source, NULL);
}

static void file(struct dz_http_req *r, void *user)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    (void)user;
    dz_http_send_fd(r, 200, DZ_HTTP_BYTES, fd, 1, 3);
}

/* --- events ---------------------------------------------------------------------------------- */

static struct events {
    struct dz_sse *s;
    struct dz_timer *timer;
    int sent, rooms, fill;
} ev;

static void event_timer(void *arg)
{
    char id[16];
    (void)arg;
    if (!ev.s)
        return;
    if (++ev.sent > 3) {
        dz_sse_end(ev.s);
        return;
    }
    (void)snprintf(id, sizeof id, "%d", ev.sent);
    CHECK_INT(dz_sse_send(ev.s, "tick", id, DZ_STR("{\"a\":1}\nmore")), 0);
    dz_timer_after(ev.timer, 5);
}

static void room(void *arg)
{
    (void)arg;
    ev.rooms++;
    if (ev.rooms == 3)
        dz_sse_end(ev.s);
    else
        while (dz_sse_send(ev.s, NULL, NULL, DZ_STR("0123456789012345678901234567890123456789")) ==
               0)
            ev.sent++;
}

static void closed(void *arg)
{
    (void)arg;
    ev.s = NULL;
    dz_timer_free(ev.timer);
    ev.timer = NULL;
    rig_now.closed++;
}

static const struct dz_sse_ops sse = {.room = room, .closed = closed};

static void begin_events(struct dz_http_req *r)
{
    const char *last = dz_http_last_event_id(r);
    ev = (struct events){.sent = last ? atoi(last) : 0};
    CHECK_INT(dz_timer_new(rig_now.loop, event_timer, NULL, &ev.timer, NULL), 0);
    ev.s = dz_http_sse(r, &sse, NULL);
}

static void events(struct dz_http_req *r, void *user)
{
    (void)user;
    begin_events(r);
    dz_timer_after(ev.timer, 5);
}

static void silence(struct dz_http_req *r, void *user)
{
    (void)user;
    begin_events(r);
}

/* As much as may be, three times. */
static void flood(struct dz_http_req *r, void *user)
{
    (void)user;
    begin_events(r);
    room(NULL);
}

/* Does not listen to anybody. */
static void rude(struct dz_http_req *r, void *user)
{
    static char big[100000];
    int rc = 0;
    (void)user;
    begin_events(r);
    memset(big, 'x', sizeof big);
    while (rc >= 0)
        rc = dz_sse_send(ev.s, NULL, NULL, dz_str_n(big, sizeof big));
    CHECK_INT(rc, DZ_ELIMIT);
    CHECK_INT(dz_sse_send(ev.s, NULL, NULL, DZ_STR("x")), DZ_ELIMIT);
}

static const struct dz_http_route routes[] = {
    {.method = "PUT", .pattern = "/up", .handle = upload, .flags = DZ_HTTP_STREAMED},
    {.method = "PUT", .pattern = "/later", .handle = upload_later, .flags = DZ_HTTP_STREAMED},
    {.method = "PUT", .pattern = "/no", .handle = upload_refused, .flags = DZ_HTTP_STREAMED},
    {.method = "PUT",
     .pattern = "/nolater",
     .handle = upload_refused_later,
     .flags = DZ_HTTP_STREAMED},
    {.method = "PUT", .pattern = "/broken", .handle = upload_broken, .flags = DZ_HTTP_STREAMED},
    {.method = "GET", .pattern = "/down/{size}", .handle = download},
    {.method = "GET", .pattern = "/endless", .handle = endless},
    {.method = "GET", .pattern = "/cut", .handle = cut},
    {.method = "GET", .pattern = "/file", .handle = file},
    {.method = "GET", .pattern = "/events", .handle = events},
    {.method = "GET", .pattern = "/silence", .handle = silence},
    {.method = "GET", .pattern = "/flood", .handle = flood},
    {.method = "GET", .pattern = "/rude", .handle = rude},
};

enum {
    BIG = 3000000,
};

static struct dz_buf put(struct rig *g, const char *path, const char *headers, size_t size)
{
    struct dz_buf text = DZ_BUF_INIT(8 << 20), b;
    dz_buf_addf(&text, "PUT %s" HEAD "%sContent-Length: %zu\r\n\r\n", path, headers, size);
    for (size_t i = 0; i < size; i += 10)
        dz_buf_adds(&text, "abcdefghij");
    b = ask(g, text.p);
    dz_buf_release(&text);
    return b;
}

RIG(a_body_is_taken_at_the_pace_of_its_sink, routes)
{
    char want[64];
    (void)snprintf(want, sizeof want, "bytes=%d sum=%d", BIG, BIG / 10 * 1015);
    for (int i = 0; i < 2; i++) {
        struct dz_buf b = put(g, i ? "/later" : "/up", CLOSE, BIG);
        CHECK(has(&b, "201 Created"));
        CHECK_STR(body_of(&b), want);
        CHECK(up.offers > BIG / 5000);
        dz_buf_release(&b);
    }
    struct dz_buf b = ask(g, "PUT /later" HEAD CLOSE "\r\n"); /* a body of nothing */
    CHECK_STR(body_of(&b), "bytes=0 sum=0");
    dz_buf_release(&b);
}

RIG(a_client_that_asks_is_told_to_go_on_when_it_may, routes)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = dial(g);
    say(fd, "PUT /later" HEAD CLOSE "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    hear(fd, &b, "\r\n\r\n");
    CHECK_STR(b.p, "HTTP/1.1 100 Continue\r\n\r\n");
    say(fd, "abcd");
    hear(fd, &b, NULL);
    CHECK(has(&b, "bytes=4 sum=394"));
    (void)close(fd);
    dz_buf_reset(&b);
    fd = dial(g);
    say(fd, "PUT /nolater" HEAD "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    hear(fd, &b, NULL);
    CHECK(strncmp(b.p, "HTTP/1.1 404 ", 13) == 0);
    CHECK(has(&b, "no such file"));
    (void)close(fd);
    dz_buf_release(&b);
}

RIG(a_body_that_nobody_wants_is_thrown_away, routes)
{
    const char *const paths[] = {"/no", "/nolater", "/broken"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(paths); i++) {
        struct dz_buf b = put(g, paths[i], CLOSE, 500000);
        CHECK(has(&b, "HTTP/1.1 404 "));
        CHECK(has(&b, "no such file"));
        dz_buf_release(&b);
    }
    struct dz_buf b = put(g, "/no", "", BIG); /* too long: answered and closed */
    CHECK(b.len == 0 || has(&b, "HTTP/1.1 404 "));
    dz_buf_release(&b);
}

RIG(an_answer_comes_piece_by_piece, routes)
{
    struct dz_buf b = ask(g, "GET /down/500000" HEAD "\r\nGET /down/26" HEAD CLOSE "\r\n");
    const char *p = body_of(&b);
    CHECK(has(&b, "Content-Length: 500000\r\n"));
    for (size_t i = 0; i < 500000 && *p; i++, p++)
        if (*p != (char)('a' + i % 26))
            break;
    CHECK_INT(p - body_of(&b), 500000);
    CHECK(strstr(p, "\r\n\r\nabcdefghijklmnopqrstuvwxyz"));
    dz_buf_release(&b);
    b = ask(g, "GET /down/100000?chunked" HEAD CLOSE "\r\n");
    CHECK(has(&b, "Transfer-Encoding: chunked\r\n"));
    CHECK(b.len > 100000 && strcmp(b.p + b.len - 7, "\r\n0\r\n\r\n") == 0);
    dz_buf_release(&b);
    b = ask(g, "HEAD /down/700" HEAD CLOSE "\r\n");
    CHECK(has(&b, "Content-Length: 700\r\n"));
    CHECK_STR(body_of(&b), "");
    dz_buf_release(&b);
    b = ask(g, "GET /cut" HEAD "\r\n");
    CHECK(has(&b, "Content-Length: 5000\r\n"));
    CHECK_INT(strlen(body_of(&b)), 1000);
    dz_buf_release(&b);
    b = ask(g, "GET /file" HEAD CLOSE "\r\n");
    CHECK_STR(body_of(&b), "ELF");
    dz_buf_release(&b);
    wait_for(&g->closed, 5);
}

RIG(who_leaves_a_stream_ends_it, routes)
{
    struct dz_buf b = DZ_BUF_INIT(100000);
    int fd = dial(g);
    say(fd, "GET /endless" HEAD "\r\n");
    hear(fd, &b, "xyz");
    uint64_t at = 0;
    while (at != down.at) { /* nobody reads: it stands still */
        at = down.at;
        (void)usleep(100000);
    }
    CHECK(at < 4 << 20);
    CHECK_INT(g->closed, 0);
    (void)close(fd);
    wait_for(&g->closed, 1);
    dz_buf_release(&b);
}

RIG(events_are_sent_as_they_come, routes)
{
    struct dz_buf b = ask(g, "GET /events" HEAD CLOSE "\r\n");
    CHECK(has(&b, "Content-Type: text/event-stream\r\n"));
    CHECK(has(&b, "id: 1\nevent: tick\ndata: {\"a\":1}\ndata: more\n\n"));
    CHECK(has(&b, "id: 3\n"));
    dz_buf_release(&b);
    b = ask(g, "GET /events" HEAD CLOSE "Last-Event-ID: 2\r\n\r\n");
    CHECK(!strstr(b.p, "id: 2\n"));
    CHECK(has(&b, "id: 3\n"));
    dz_buf_release(&b);
    wait_for(&g->closed, 2);
}

RIG_OPTS(a_silent_stream_has_comments, .routes = routes, .route_count = DZ_ARRAY_LEN(routes),
         .sse_comment_ms = 60)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = dial(g);
    say(fd, "GET /silence" HEAD "\r\n");
    hear(fd, &b, ":\n\n");
    dz_buf_reset(&b);
    for (int i = 0; i < 3; i++) {
        hear(fd, &b, ":\n\n");
        CHECK(has(&b, ":\n\n"));
        dz_buf_reset(&b);
    }
    (void)close(fd);
    wait_for(&g->closed, 1);
    dz_buf_release(&b);
}

RIG(a_sender_of_events_waits_for_room, routes)
{
    struct dz_buf b = DZ_BUF_INIT(8 << 20);
    int fd = dial(g);
    say(fd, "GET /flood" HEAD CLOSE "\r\n");
    (void)usleep(100000);
    CHECK(ev.rooms < 3 || ev.sent * 48 < 1 << 20);
    hear(fd, &b, NULL);
    CHECK_INT(ev.rooms, 3);
    size_t n = 0;
    for (const char *p = b.p; (p = strstr(p, "data: 0")); p++)
        n++;
    CHECK(n >= (size_t)ev.sent && n <= (size_t)ev.sent + 3);
    (void)close(fd);
    dz_buf_release(&b);
    wait_for(&g->closed, 1);
}

RIG(a_client_that_reads_no_events_is_cut_off, routes)
{
    int fd = dial(g);
    say(fd, "GET /rude" HEAD "\r\n");
    wait_for(&g->closed, 1); /* although the connection is still open here */
    (void)close(fd);
}

RIG(open_streams_end_with_the_server, routes)
{
    struct dz_buf b = DZ_BUF_INIT(10000);
    int fd = dial(g), other = dial(g);
    say(fd, "GET /silence" HEAD "\r\n");
    hear(fd, &b, ":\n\n");
    say(other, "GET /endless" HEAD "\r\n");
    (void)usleep(20000);
    dz_buf_release(&b);
}
