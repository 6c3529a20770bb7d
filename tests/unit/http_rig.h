/* SPDX-License-Identifier: MIT
 *
 * http_rig.h - a server in this thread, a client that blocks in another.
 *
 *     RIG(name, routes)           TEST with `static void name##_client(struct rig *g)` below
 *     {
 *         struct dz_buf b = ask(g, "GET /x HTTP/1.1\r\nHost: t\r\n" CLOSE "\r\n");
 *     }
 */
#ifndef DZ_HTTP_RIG_H
#define DZ_HTTP_RIG_H

#include "base/fd.h"
#include "base/limits.h"
#include "http/http.h"
#include "loop/loop.h"
#include "tap.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define CLOSE "Connection: close\r\n"
#define HEAD  " HTTP/1.1\r\nHost: t\r\n"

struct rig {
    struct dz_loop *loop;
    struct dz_http *http;
    char dir[DZ_TEMP_DIR_TEXT];
    char path[DZ_TEMP_DIR_TEXT + 16];
    int stop[2];
    struct dz_poll *stop_poll;
    void (*client)(struct rig *g);
    atomic_int gone, done, closed; /* what the server saw */
    atomic_int last_status;
};
static struct rig rig_now;

static void rig_done(const struct dz_http_req *r, int status, int64_t ns, void *user)
{
    (void)r;
    (void)user;
    CHECK(ns >= 0);
    rig_now.done++;
    rig_now.last_status = status;
}

static void rig_stop(void *arg, int events)
{
    struct rig *g = arg;
    (void)events;
    dz_loop_stop(g->loop);
}

static void *rig_thread(void *arg)
{
    struct rig *g = arg;
    g->client(g);
    CHECK(write(g->stop[1], "x", 1) == 1);
    return NULL;
}

static void rig_run(const struct dz_http_opts *more, void (*client)(struct rig *g))
{
    struct rig *g = &rig_now;
    struct dz_err err = {0};
    pthread_t thread;
    struct dz_http_opts opts = *more;
    *g = (struct rig){.client = client};
    CHECK_INT(dz_loop_new(&g->loop, &err), 0);
    CHECK_INT(dz_fd_temp_dir("t-http", g->dir, &err), 0);
    (void)snprintf(g->path, sizeof g->path, "%.500s/sock", g->dir);
    opts.loop = g->loop;
    opts.done = rig_done;
    CHECK_INT(dz_http_new(&opts, &g->http, &err), 0);
    CHECK_INT(dz_http_listen_unix(g->http, g->path, &err), 0);
    CHECK_INT(pipe(g->stop), 0);
    CHECK_INT(dz_poll_new(g->loop, g->stop[0], rig_stop, g, &g->stop_poll, &err), 0);
    CHECK_INT(dz_poll_set(g->stop_poll, DZ_POLL_READ, &err), 0);
    CHECK_INT(pthread_create(&thread, NULL, rig_thread, g), 0);
    CHECK_INT(dz_loop_run(g->loop, &err), 0);
    (void)pthread_join(thread, NULL);
    dz_http_free(g->http);
    CHECK(access(g->path, F_OK) != 0);
    dz_poll_free(g->stop_poll);
    dz_loop_free(g->loop);
    (void)close(g->stop[0]);
    (void)close(g->stop[1]);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, g->dir, &err), 0);
}

#define RIG_OPTS(id, ...)                               \
    static void id##_client(struct rig *g);             \
    TEST(id)                                            \
    {                                                   \
        const struct dz_http_opts opts = {__VA_ARGS__}; \
        rig_run(&opts, id##_client);                    \
    }                                                   \
    static void id##_client(struct rig *g)
#define RIG(id, table) RIG_OPTS(id, .routes = (table), .route_count = DZ_ARRAY_LEN(table))

/* --- the client ------------------------------------------------------------------------ */

static int dial(struct rig *g)
{
    struct dz_err err = {0};
    int fd = dz_fd_unix_connect(g->path, &err);
    CHECK(fd >= 0);
    int flags = fcntl(fd, F_GETFL);
    CHECK_INT(fcntl(fd, F_SETFL, flags & ~O_NONBLOCK), 0);
    const struct timeval limit = {.tv_sec = 30};
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    size_t n = strlen(text);
    while (n > 0) {
        ssize_t put = send(fd, text, n, MSG_NOSIGNAL);
        if (put <= 0)
            return;
        text += put;
        n -= (size_t)put;
    }
}

/* Until `end` is seen, or the connection ends. */
static void hear(int fd, struct dz_buf *b, const char *end)
{
    char piece[4096];
    while (!end || !strstr(b->p, end)) {
        ssize_t n = recv(fd, piece, end ? 1 : sizeof piece, 0);
        if (n <= 0)
            return;
        dz_buf_add(b, piece, (size_t)n);
    }
}

static inline struct dz_buf ask(struct rig *g, const char *text)
{
    struct dz_buf b = DZ_BUF_INIT(64 << 20);
    int fd = dial(g);
    say(fd, text);
    hear(fd, &b, NULL);
    (void)close(fd);
    return b;
}

static bool has(const struct dz_buf *b, const char *text)
{
    if (strstr(b->p, text))
        return true;
    printf("# no \"%s\" in:\n# %.600s\n", text, b->p);
    return false;
}

static inline const char *body_of(const struct dz_buf *b)
{
    const char *p = strstr(b->p, "\r\n\r\n");
    return p ? p + 4 : "";
}

static inline void wait_for(atomic_int *what, int value)
{
    for (int i = 0; i < 20000 && *what != value; i++)
        (void)usleep(1000);
    CHECK_INT(*what, value);
}

#endif
