/* SPDX-License-Identifier: MIT
 * The client against a server that says exactly what the test wants. */
#include "base/fd.h"
#include "client/client.h"

#include "tap.h"

#include <pthread.h>
#include <sys/socket.h>

/* What the server does with each connection, one after the other: for each line of the
 * script, read until `until` is seen, then say `say`; then close. */
struct line {
    const char *until, *say;
};

static struct server {
    char dir[DZ_TEMP_DIR_TEXT], url[DZ_TEMP_DIR_TEXT + 16];
    int fd;
    const struct line *lines; /* a connection ends at a NULL `until`, all at two */
    struct dz_buf heard;
    pthread_t thread;
} srv;

static void *serve(void *arg)
{
    const struct line *l = srv.lines;
    (void)arg;
    while (l->until) {
        int fd = -1;
        while ((fd = accept4(srv.fd, NULL, NULL, SOCK_CLOEXEC)) < 0)
            (void)usleep(1000);
        size_t from = srv.heard.len;
        for (; l->until; l++) {
            char c;
            while (!strstr(srv.heard.p + from, l->until) && recv(fd, &c, 1, 0) == 1)
                dz_buf_add(&srv.heard, &c, 1);
            from = srv.heard.len;
            (void)send(fd, l->say, strlen(l->say), MSG_NOSIGNAL);
        }
        l++;
        (void)close(fd);
    }
    return NULL;
}

static void start(const struct line *lines)
{
    struct dz_err err = {0};
    char path[DZ_TEMP_DIR_TEXT + 8];
    srv.lines = lines;
    srv.heard = (struct dz_buf)DZ_BUF_INIT(8 << 20);
    CHECK_INT(dz_fd_temp_dir("t-client", srv.dir, &err), 0);
    (void)snprintf(path, sizeof path, "%.500s/s", srv.dir);
    (void)snprintf(srv.url, sizeof srv.url, "unix:%.500s/s", srv.dir);
    srv.fd = dz_fd_unix_listen(path, 0600, &err);
    CHECK(srv.fd >= 0);
    CHECK_INT(pthread_create(&srv.thread, NULL, serve, NULL), 0);
}

static void stop(void)
{
    (void)pthread_join(srv.thread, NULL);
    (void)close(srv.fd);
    dz_buf_release(&srv.heard);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, srv.dir, NULL), 0);
}

static bool heard(const char *text)
{
    if (strstr(srv.heard.p, text))
        return true;
    printf("# no \"%s\" in: %.500s\n", text, srv.heard.p);
    return false;
}

static struct dz_client *dial(void)
{
    struct dz_client *c = NULL;
    struct dz_err err = {0};
    CHECK_INT(dz_client_open(srv.url, NULL, &c, &err), 0);
    return c;
}

#define END {NULL, NULL}
#define OK  "HTTP/1.1 200 OK\r\n"

TEST(urls_are_read)
{
    struct dz_client *c;
    struct dz_err err = {0};
    CHECK_INT(dz_client_open("unix:/nonexistent/s", NULL, &c, &err), DZ_ENOENT);
    CHECK(strstr(err.msg, "nothing listens at /nonexistent/s"));
    CHECK_INT(dz_client_open("unix:", NULL, &c, &err), DZ_EINVAL);
    CHECK_INT(dz_client_open("http://127.0.0.1:1", NULL, &c, &err), DZ_ENOENT);
    CHECK_INT(dz_client_open("http://[::1]:1/", NULL, &c, &err), DZ_ENOENT);
    CHECK_INT(dz_client_open("http://h:99999", NULL, &c, &err), DZ_EINVAL);
    CHECK_INT(dz_client_open("http://h/path", NULL, &c, &err), DZ_EINVAL);
    CHECK_INT(dz_client_open("http://:80", NULL, &c, &err), DZ_EINVAL);
    CHECK_INT(dz_client_open("https://h", NULL, &c, &err), DZ_ENOENT);
    CHECK_INT(dz_client_open("ftp://h", NULL, &c, &err), DZ_EINVAL);
}

TEST(targets_are_encoded)
{
    struct dz_buf b = DZ_BUF_INIT(1000);
    dz_client_target(&b, "/v1/x/{}/y/{}", "a/b", "c d?");
    dz_client_target_add(&b, "path", "/ä");
    dz_client_target_add(&b, "none", NULL);
    dz_client_target_add(&b, "more", "1&2");
    CHECK_STR(b.p, "/v1/x/a%2Fb/y/c%20d%3F?path=%2F%C3%A4&more=1%262");
    dz_buf_release(&b);
}

TEST(one_connection_serves_many_requests)
{
    static const struct line script[] = {
        {"\r\n\r\n", OK "Content-Length: 9\r\n\r\n{\"a\": 1}\n"},
        {"{\"b\":2}", "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "4;x=y\r\n[1, \r\nA\r\n2, 3,4,5,6\r\n1\r\n]\r\n0\r\nTrailer: x\r\n\r\n"},
        {"\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"},
        {"\r\n\r\n", OK "Content-Length: 0\r\nX-Mode: 0644\r\n\r\n"},
        END,
        END,
    };
    struct dz_err err = {0};
    json_t *j = NULL;
    start(script);
    struct dz_client *c = dial();
    CHECK_INT(dz_client_json(c, "GET", "/one", NULL, &j, &err), 200);
    CHECK_INT(json_integer_value(json_object_get(j, "a")), 1);
    json_decref(j);
    CHECK_INT(dz_client_json(c, "POST", "/two", json_pack("{s:i}", "b", 2), &j, &err), 201);
    CHECK_INT(json_array_size(j), 6);
    json_decref(j);
    CHECK_INT(dz_client_json(c, "DELETE", "/three", NULL, &j, &err), 204);
    CHECK(j == NULL);
    CHECK_INT(dz_client_json(c, "POST", "/four", NULL, NULL, &err), 200);
    CHECK_STR(dz_client_header(c, "x-mode"), "0644");
    CHECK(dz_client_header(c, "x-none") == NULL);
    dz_client_close(c);
    CHECK(heard("GET /one HTTP/1.1\r\nHost: doze\r\n"));
    CHECK(heard("Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"b\":2}"));
    CHECK(heard("POST /four HTTP/1.1"));
    stop();
}

TEST(an_error_is_the_daemons_own)
{
    static const struct line script[] = {
        {"\r\n\r\n",
         "HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n7c\r\n"
         "{\"error\":{\"code\":\"sandbox_unavailable\",\"reason\":\"asleep\",\"message\":"
         "\"it sleeps\",\"field\":null,\"sandbox_id\":\"sbx_1\",\"retry\":0}}\r\n0\r\n\r\n"},
        {"\r\n\r\n", "HTTP/1.1 404 x\r\nContent-Length: 3\r\n\r\nno!"},
        {"\r\n\r\n", "HTTP/1.1 503 x\r\nContent-Length: 42\r\n\r\n"
                     "{\"error\":{\"code\":\"busy\",\"message\":\"wait\"}}  "},
        END,
        END,
    };
    struct dz_err err = {0};
    start(script);
    struct dz_client *c = dial();
    CHECK_INT(dz_client_json(c, "GET", "/", NULL, NULL, &err), DZ_EUNAVAIL);
    CHECK_STR(err.msg, "it sleeps");
    CHECK_STR(dz_client_problem(c)->reason, "asleep");
    CHECK_STR(dz_client_problem(c)->sandbox_id, "sbx_1");
    CHECK_STR(dz_client_problem(c)->field, "");
    CHECK_INT(dz_client_problem(c)->status, 503);
    CHECK_INT(dz_client_json(c, "GET", "/", NULL, NULL, &err), DZ_ENOENT);
    CHECK(strstr(err.msg, "answered with the status 404 and no reason"));
    CHECK_INT(dz_client_json(c, "GET", "/", NULL, NULL, &err), DZ_EBUSY);
    dz_client_close(c);
    stop();
}

TEST(a_connection_that_was_closed_is_made_again)
{
    static const struct line script[] = {
        {"\r\n\r\n", OK "Content-Length: 3\r\n\r\n[1]"},
        END,
        {"\r\n\r\n", OK "Content-Length: 3\r\nConnection: close\r\n\r\n[2]"},
        END,
        {"\r\n\r\n", OK "\r\n[33]"},
        END, /* to the end of the connection */
        {"\r\n\r\n", ""},
        END,
        END,
    };
    struct dz_err err = {0};
    json_t *j = NULL;
    start(script);
    struct dz_client *c = dial();
    for (int i = 1; i <= 3; i++) {
        CHECK_INT(dz_client_json(c, "GET", "/", NULL, NULL, &err), 200);
        (void)usleep(20000);
    }
    CHECK_INT(dz_client_json(c, "GET", "/", NULL, &j, &err), DZ_EGONE); /* not one more time */
    dz_client_close(c);
    stop();
}

TEST(what_is_no_http_is_refused)
{
    static const char *const says[] = {
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        OK "Content-Length: x\r\n\r\n",
        OK "Content-Length: 10\r\n\r\n[1]",
        OK "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n-5\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        OK "Content-Length: 3\r\n\r\n{[}",
        OK "A: b",
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(says); i++) {
        const struct line script[] = {{"\r\n\r\n", says[i]}, END, END};
        struct dz_err err = {0};
        start(script);
        struct dz_client *c = dial();
        CHECK_INT(dz_client_json(c, "GET", "/", NULL, NULL, &err), DZ_EIO);
        dz_client_close(c);
        stop();
    }
}

/* --- bodies from a reader ------------------------------------------------------------------ */

static int reads;

static ssize_t letters(void *arg, char *p, size_t n, struct dz_err *err)
{
    (void)err;
    CHECK(n >= 3);
    if (reads++ >= *(int *)arg)
        return 0;
    memcpy(p, "abc", 3);
    return 3;
}

TEST(a_body_is_sent_once_it_is_wanted)
{
    static const struct line script[] = {
        {"\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"},
        {"abcabc", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"},
        {"\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"},
        {"\r\n0\r\n\r\n", "HTTP/1.1 204 x\r\n\r\n"},
        {"\r\n\r\n", "HTTP/1.1 404 x\r\nContent-Length: 44\r\n\r\n"
                     "{\"error\":{\"code\":\"not_found\",\"message\":\"no\"}}"},
        END,
        END,
    };
    struct dz_buf out = DZ_BUF_INIT(100);
    struct dz_err err = {0};
    int count = 2;
    struct dz_client_req req = {.method = "PUT",
                                .target = "/up",
                                .type = "application/octet-stream",
                                .read = letters,
                                .read_arg = &count,
                                .read_size = 6};
    start(script);
    struct dz_client *c = dial();
    CHECK_INT(dz_client_call(c, &req, &out, &err), 201);
    reads = 0;
    req.read_size = -1;
    CHECK_INT(dz_client_call(c, &req, &out, &err), 204);
    reads = 0;
    CHECK_INT(dz_client_call(c, &req, &out, &err), DZ_ENOENT);
    CHECK_INT(reads, 0); /* not a byte of it */
    dz_client_close(c);
    CHECK(heard("Content-Length: 6\r\nExpect: 100-continue\r\n\r\nabcabc"));
    CHECK(heard("\r\n\r\n3\r\nabc\r\n3\r\nabc\r\n0\r\n\r\n"));
    dz_buf_release(&out);
    stop();
}

TEST(an_answer_in_the_middle_of_a_body_is_read)
{
    static const struct line script[] = {
        {"\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"},
        {"abc\r\n3\r\nabc", "HTTP/1.1 507 x\r\nContent-Length: 49\r\n\r\n"
                            "{\"error\":{\"code\":\"storage_full\",\"message\":\"full\"}}"},
        END,
        END,
    };
    struct dz_err err = {0};
    struct dz_buf out = DZ_BUF_INIT(100);
    int count = 100000000;
    reads = 0;
    start(script);
    struct dz_client *c = dial();
    const struct dz_client_req req = {
        .method = "PUT", .target = "/", .read = letters, .read_arg = &count, .read_size = -1};
    CHECK_INT(dz_client_call(c, &req, &out, &err), DZ_ENOSPC);
    dz_client_close(c);
    dz_buf_release(&out);
    stop();
}

TEST(a_silent_daemon_is_not_waited_for_without_end)
{
    static const struct line script[] = {{"\r\n\r\n", ""}, {"never", ""}, END, END};
    struct dz_err err = {0};
    struct dz_buf out = DZ_BUF_INIT(100);
    start(script);
    struct dz_client *c = dial();
    const struct dz_client_req req = {.method = "GET", .target = "/", .timeout_ms = 50};
    CHECK_INT(dz_client_call(c, &req, &out, &err), DZ_ETIMEOUT);
    dz_client_close(c);
    dz_buf_release(&out);
    stop();
}

/* --- events ------------------------------------------------------------------------------------
 */

static int take(void *arg, const struct dz_client_event *e, struct dz_err *err)
{
    struct dz_buf *b = arg;
    dz_buf_addf(b, "%s#%s(%.*s) ", e->event, e->id, DZ_STR_ARG(e->data));
    return dz_str_eqz(e->data, "stop")   ? 7
           : dz_str_eqz(e->data, "fail") ? dz_fail(err, DZ_EINVAL, "failed")
                                         : 0;
}

TEST(events_are_read)
{
    static const struct line script[] = {
        {"\r\n\r\n", OK "Transfer-Encoding: chunked\r\n\r\n"
                        "14\r\n:\n\nid: 1\nevent: a\nda\r\n"
                        "19\r\nta: x\ndata:y\n\ndata: z\r\n\r\n\r\n0\r\n\r\n"},
        {"\r\n\r\n", OK "Transfer-Encoding: chunked\r\n\r\n14\r\ndata: stop\n\ndata: x\n\r\n"},
        END,
        {"\r\n\r\n", OK "Transfer-Encoding: chunked\r\n\r\nc\r\ndata: fail\n\n\r\n"},
        END,
        END,
    };
    struct dz_buf b = DZ_BUF_INIT(1000);
    struct dz_err err = {0};
    const struct dz_client_req req = {.method = "GET", .target = "/e"};
    start(script);
    struct dz_client *c = dial();
    CHECK_INT(dz_client_events(c, &req, take, &b, &err), 0);
    CHECK_STR(b.p, "a#1(x\ny) message#1(z) ");
    CHECK_INT(dz_client_events(c, &req, take, &b, &err), 7);
    CHECK_INT(dz_client_events(c, &req, take, &b, &err), DZ_EINVAL);
    dz_client_close(c);
    CHECK(heard("Accept: text/event-stream\r\n"));
    dz_buf_release(&b);
    stop();
}

TORTURE(memory_may_be_short)
{
    struct dz_client *c = NULL;
    struct dz_err err = {0};
    int rc = dz_client_open("unix:/nonexistent", "token", &c, &err);
    CHECK(rc == DZ_ENOMEM || rc == DZ_ENOENT);
    rc = dz_client_open("http://[::1]:1", NULL, &c, &err);
    CHECK(rc == DZ_ENOMEM || rc == DZ_ENOENT);
}
