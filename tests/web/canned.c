/* SPDX-License-Identifier: MIT
 *
 * canned SOCKET: a daemon that keeps nothing. It answers the API with what the tests of the
 * client and the commands want to see, over the daemon's own HTTP module: a list of two
 * pages, errors, files, event streams, and commands whose names say what they do:
 *
 *     echo WORDS   prints them          fail     prints on both streams, exits with 3
 *     cat          gives back           trap     prints the signal that it gets, dies by it
 *     size         prints each size     drop     prints "one", loses its client, goes on
 *     env          prints the request   none     is no program
 *     flood        prints 3,000,000 bytes
 *
 * It prints each request's method and target, and lives until it is killed.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "http/http.h"
#include "loop/loop.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct dz_http *http;

static void say(struct dz_http_req *r, int status, const char *text)
{
    struct dz_buf b = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_buf_adds(&b, text);
    dz_http_send(r, status, DZ_HTTP_JSON, &b);
}

static void refuse(struct dz_http_req *r, int code, const char *message)
{
    dz_http_refuse(r, &(struct dz_http_problem){.code = code, .message = message});
}

/* What the route has as its data. */
static void fixed(struct dz_http_req *r, void *user)
{
    (void)user;
    const char *text = dz_http_route_of(r)->data;
    say(r, text[0] ? 200 : 204, text);
}

/* --- sandboxes ------------------------------------------------------------------------------ */

#define WEB                                                                                \
    "{\"id\":\"sbx_1\",\"name\":\"web\",\"state\":\"suspended\",\"status\":\"suspended\"," \
    "\"image\":\"python\",\"file_bytes\":2048,\"labels\":{\"a\":\"b\"},\"error\":null,"    \
    "\"last_active_at\":\"2020-01-01T00:00:00.000Z\"}"

static void list(struct dz_http_req *r, void *user)
{
    const char *cursor = dz_http_query(r, "cursor"), *state = dz_http_query(r, "state");
    (void)user;
    if (state && strcmp(state, "none") == 0)
        say(r, 200, "{\"sandboxes\":[],\"next_cursor\":null}");
    else if (!cursor)
        say(r, 200, "{\"sandboxes\":[" WEB "],\"next_cursor\":\"a/b\"}");
    else if (strcmp(cursor, "a/b") == 0)
        say(r, 200,
            "{\"sandboxes\":[{\"id\":\"sbx_2\",\"name\":\"evil\\u001b[31m\",\"state\":"
            "\"active\"}],\"next_cursor\":null}");
    else
        refuse(r, DZ_EINVAL, "cursor: not one of ours");
}

static void get(struct dz_http_req *r, void *user)
{
    (void)user;
    if (strcmp(dz_http_param(r, "id"), "web") == 0)
        say(r, 200, WEB);
    else
        refuse(r, DZ_ENOENT, "no sandbox has this name or id");
}

/* Gives the request's body back, with an id. */
static void create(struct dz_http_req *r, void *user)
{
    json_t *o = json_loadb(dz_http_body(r).p, dz_http_body(r).n, 0, NULL);
    (void)user;
    (void)json_object_set_new(o, "id", json_string("sbx_new"));
    char *text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    say(r, 201, text);
    free(text);
}

static void hop(struct dz_http_req *r, void *user)
{
    struct dz_str path = dz_http_path(r);
    struct dz_str verb = dz_str_sub(path, dz_str_rfind_char(path, '/') + 1, path.n);
    char after[256];
    (void)user;
    (void)snprintf(after, sizeof after, "after %.*s %.*s", DZ_STR_ARG(verb),
                   DZ_STR_ARG(dz_http_body(r)));
    json_t *o = json_pack("{s:s}", "state", after);
    char *text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (dz_str_eqz(verb, "wake"))
        say(r, 200, "{\"result\":\"cold\",\"rung\":\"local\",\"ms\":0.84}");
    else if (dz_str_eqz(verb, "archive"))
        refuse(r, DZ_ESTATE, "archive: it is suspended, and only a frozen one can be archived");
    else
        say(r, 200, text);
    free(text);
}

static void fork_it(struct dz_http_req *r, void *user)
{
    (void)user;
    say(r, 201,
        strstr(dz_http_body(r).n ? dz_http_body(r).p : "", "count")
            ? "{\"id\":\"frk_1\",\"sandboxes\":[{\"id\":\"sbx_3\"},{\"id\":\"sbx_4\"}]}"
            : "{\"id\":\"frk_1\",\"sandboxes\":[]}");
}

/* --- files ------------------------------------------------------------------------------------ */

static struct dz_buf file = DZ_BUF_INIT(64 << 20);
static char file_mode[8] = "0640";

static ssize_t push(void *arg, const char *p, size_t n)
{
    (void)arg;
    dz_buf_add(&file, p, n);
    return (ssize_t)n;
}

static void pushed(void *arg)
{
    uint64_t *id = arg;
    struct dz_http_req *r = dz_http_find(http, *id);
    dz_free(id);
    if (r)
        dz_http_send(r, 201, NULL, NULL);
}

static void put(struct dz_http_req *r, void *user)
{
    static const struct dz_http_sink sink = {.push = push, .end = pushed};
    const char *mode = dz_http_query(r, "mode"), *path = dz_http_query(r, "path");
    uint64_t *id = dz_zalloc(sizeof *id);
    (void)user;
    if (path && strstr(path, "full")) {
        dz_free(id);
        refuse(r, DZ_ENOSPC, "write: the disk is full");
        return;
    }
    *id = dz_http_id(r);
    dz_buf_reset(&file);
    (void)snprintf(file_mode, sizeof file_mode, "%s", mode ? mode : "0600");
    dz_http_receive(r, &sink, id);
}

static void get_file(struct dz_http_req *r, void *user)
{
    struct dz_buf b = DZ_BUF_INIT(64 << 20);
    (void)user;
    const char *path = dz_http_query(r, "path");
    if (path && strcmp(path, "/missing") == 0) {
        refuse(r, DZ_ENOENT, "/missing: no such file");
        return;
    }
    dz_buf_add(&b, file.p, file.len);
    dz_http_set(r, "X-Mode", file_mode);
    dz_http_send(r, 200, DZ_HTTP_BYTES, &b);
}

/* --- events -------------------------------------------------------------------------------------
 */

static void nothing(void *arg)
{
    (void)arg;
}

static void events(struct dz_http_req *r, void *user)
{
    static const struct dz_sse_ops ops = {.room = nothing, .closed = nothing};
    const char *text = dz_http_route_of(r)->data;
    (void)user;
    if (!dz_http_accepts(r, "text/event-stream")) {
        say(r, 200,
            "{\"events\":[{\"id\":7,\"type\":\"suspended\",\"sandbox_id\":\"sbx_1\",\"at\":"
            "\"2026-01-01T00:00:00.000Z\"}],\"next_cursor\":null}");
        return;
    }
    struct dz_sse *s = dz_http_sse(r, &ops, NULL);
    if (strcmp(text, "output") == 0) {
        (void)dz_sse_send(s, "stdout", "4", DZ_STR("{\"text\":\"out\\n\"}"));
        (void)dz_sse_send(s, "stderr", "7", DZ_STR("{\"base64\":\"/wBh\"}"));
        (void)dz_sse_send(s, "exit", NULL, DZ_STR("{\"exit_code\":0}"));
    } else {
        (void)dz_sse_send(s, "woken", "8",
                          DZ_STR("{\"id\":8,\"type\":\"woken\",\"sandbox_id\":\"sbx_1\",\"at\":"
                                 "\"2026-01-01T00:00:01.000Z\",\"detail\":{\"ms\":1}}"));
    }
    dz_sse_end(s);
}

/* --- commands
 * --------------------------------------------------------------------------------------- */

struct command {
    struct dz_ws *ws;
    char name[32];
    int rooms;
};

static void tell(struct command *m, const char *text)
{
    (void)dz_ws_send(m->ws, true, dz_str(text));
}

static void out(struct command *m, char stream, const char *p, size_t n)
{
    struct dz_buf b = DZ_BUF_INIT(2 << 20);
    dz_buf_add(&b, &stream, 1);
    dz_buf_add(&b, p, n);
    (void)dz_ws_send(m->ws, false, dz_str_n(b.p, b.len));
    dz_buf_release(&b);
}

static void ended(struct command *m, int code, const char *name)
{
    char text[128];
    if (name)
        (void)snprintf(text, sizeof text,
                       "{\"type\":\"exit\",\"exit_code\":null,\"signal\":\"%s\"}", name);
    else
        (void)snprintf(text, sizeof text, "{\"type\":\"exit\",\"exit_code\":%d,\"signal\":null}",
                       code);
    tell(m, text);
    dz_ws_close(m->ws, 1000, NULL);
}

static void flood(struct command *m)
{
    static char piece[30000];
    memset(piece, 'f', sizeof piece);
    while (m->rooms < 100 && ++m->rooms) {
        struct dz_buf b = DZ_BUF_INIT(DZ_LINE_MAX);
        dz_buf_add(&b, "\1", 1);
        dz_buf_add(&b, piece, sizeof piece);
        int rc = dz_ws_send(m->ws, false, dz_str_n(b.p, b.len));
        dz_buf_release(&b);
        if (rc != 0)
            return;
    }
    ended(m, 0, NULL);
}

static void begin(struct command *m, const json_t *request, struct dz_str text)
{
    const json_t *cmd = json_object_get(request, "cmd");
    const char *word = json_string_value(json_array_get(cmd, 0));
    (void)snprintf(m->name, sizeof m->name, "%s", word ? word : "");
    if (strcmp(m->name, "none") == 0) {
        tell(m, "{\"type\":\"error\",\"error\":{\"code\":\"not_found\",\"reason\":\"no_program\","
                "\"message\":\"none: no such program\"}}");
        dz_ws_close(m->ws, 1011, NULL);
        return;
    }
    tell(m, "{\"type\":\"start\",\"exec_id\":\"exe_1\",\"pid\":2}");
    if (strcmp(m->name, "echo") == 0) {
        for (size_t i = 1; i < json_array_size(cmd); i++) {
            word = json_string_value(json_array_get(cmd, i));
            out(m, 1, word, strlen(word));
            out(m, 1, i + 1 < json_array_size(cmd) ? " " : "\n", 1);
        }
        ended(m, 0, NULL);
    } else if (strcmp(m->name, "env") == 0) {
        out(m, 1, text.p, text.n);
        ended(m, 0, NULL);
    } else if (strcmp(m->name, "fail") == 0) {
        out(m, 1, "out\n", 4);
        out(m, 2, "err\n", 4);
        ended(m, 3, NULL);
    } else if (strcmp(m->name, "drop") == 0) {
        out(m, 1, "one\n", 4);
        dz_ws_close(m->ws, 1001, "the daemon ends");
    } else if (strcmp(m->name, "trap") == 0) {
        out(m, 1, "ready\n", 6);
    } else if (strcmp(m->name, "flood") == 0) {
        flood(m);
    }
}

static void message(void *arg, bool text, struct dz_str data)
{
    struct command *m = arg;
    json_t *o = text ? json_loadb(data.p, data.n, 0, NULL) : NULL;
    const char *type = json_string_value(json_object_get(o, "type"));
    if (!m->name[0]) {
        begin(m, o, data);
    } else if (!text && strcmp(m->name, "cat") == 0) {
        out(m, 1, data.p, data.n);
    } else if (text && strcmp(type, "close_stdin") == 0 && strcmp(m->name, "cat") == 0) {
        ended(m, 0, NULL);
    } else if (text && strcmp(type, "signal") == 0) {
        const char *name = json_string_value(json_object_get(o, "signal"));
        out(m, 1, name, strlen(name));
        ended(m, 0, name);
    } else if (text && strcmp(type, "resize") == 0 && strcmp(m->name, "size") == 0) {
        out(m, 1, data.p, data.n);
        ended(m, 0, NULL);
    }
    json_decref(o);
}

static void room(void *arg)
{
    struct command *m = arg;
    if (strcmp(m->name, "flood") == 0)
        flood(m);
}

static void closed(void *arg, int code)
{
    (void)code;
    dz_free(arg);
}

static const struct dz_ws_ops command_ops = {.message = message, .room = room, .closed = closed};

static void exec_socket(struct dz_http_req *r, void *user)
{
    (void)user;
    if (!dz_http_wants_ws(r)) {
        say(r, 200,
            "{\"execs\":[{\"exec_id\":\"exe_1\",\"pid\":2,\"state\":\"running\",\"cmd\":[\"sleep\","
            "\"9\"],\"output_bytes\":7},{\"exec_id\":\"exe_0\",\"state\":\"exited\",\"exit_code\":1,"
            "\"cmd\":[\"false\"]}],\"next_cursor\":null}");
        return;
    }
    if (strcmp(dz_http_param(r, "id"), "web") != 0) {
        refuse(r, DZ_ENOENT, "no sandbox has this name or id");
        return;
    }
    struct command *m = dz_zalloc(sizeof *m);
    m->ws = dz_http_ws(r, &command_ops, m);
}

static void attach(struct dz_http_req *r, void *user)
{
    const char *offset = dz_http_query(r, "offset");
    if (!dz_http_wants_ws(r)) {
        events(r, user);
        return;
    }
    struct command *m = dz_zalloc(sizeof *m);
    (void)snprintf(m->name, sizeof m->name, "attached");
    m->ws = dz_http_ws(r, &command_ops, m);
    if (strcmp(offset, "0") == 0)
        out(m, 1, "one\n", 4);
    out(m, 1, "two\n", 4);
    ended(m, 4, NULL);
}

/* --- the table
 * ----------------------------------------------------------------------------------------- */

#define S "/v1/sandboxes/{id}"

static const struct dz_http_route routes[] = {
    {.method = "GET", .pattern = "/readyz", .handle = fixed, .data = "{\"ready\":true}"},
    {.method = "GET", .pattern = "/v1/sandboxes", .handle = list},
    {.method = "POST", .pattern = "/v1/sandboxes", .handle = create},
    {.method = "GET", .pattern = S, .handle = get},
    {.method = "DELETE", .pattern = S, .handle = fixed, .data = ""},
    {.method = "DELETE", .pattern = S "/hold", .handle = fixed, .data = "{\"state\":\"free\"}"},
    {.method = "POST", .pattern = S "/hold", .handle = hop},
    {.method = "GET", .pattern = S "/exec", .handle = exec_socket},
    {.method = "POST", .pattern = S "/exec", .handle = fixed, .data = "{\"exec_id\":\"exe_9\"}"},
    {.method = "GET",
     .pattern = S "/exec/{exec}",
     .handle = fixed,
     .data = "{\"exec_id\":\"exe_1\",\"state\":\"exited\",\"output_bytes\":7}"},
    {.method = "GET", .pattern = S "/exec/{exec}/output", .handle = attach, .data = "output"},
    {.method = "POST", .pattern = S "/exec/{exec}/signal", .handle = fixed, .data = ""},
    {.method = "POST", .pattern = S "/fork", .handle = fork_it},
    {.method = "POST", .pattern = "/v1/forks/{id}/attach", .handle = create},
    {.method = "POST", .pattern = "/v1/refs/{id}/attach", .handle = create},
    {.method = "POST", .pattern = S "/refs", .handle = fixed, .data = "{\"id\":\"ref_1\"}"},
    {.method = "POST", .pattern = S "/snapshot", .handle = fixed, .data = "{\"id\":\"snap_1\"}"},
    {.method = "POST", .pattern = S "/clone", .handle = create},
    {.method = "GET", .pattern = S "/share", .handle = get_file},
    {.method = "GET", .pattern = S "/files", .handle = get_file},
    {.method = "PUT", .pattern = S "/files", .handle = put, .flags = DZ_HTTP_STREAMED},
    {.method = "DELETE", .pattern = S "/files", .handle = fixed, .data = ""},
    {.method = "GET", .pattern = S "/files/tar", .handle = get_file},
    {.method = "PUT", .pattern = S "/files/tar", .handle = put, .flags = DZ_HTTP_STREAMED},
    {.method = "POST", .pattern = S "/files/mkdir", .handle = fixed, .data = ""},
    {.method = "POST", .pattern = S "/files/move", .handle = fixed, .data = ""},
    {.method = "GET",
     .pattern = S "/files/list",
     .handle = fixed,
     .data = "{\"entries\":[{\"name\":\"a.py\",\"type\":\"file\",\"size\":5,\"mode\":\"0644\"}]}"},
    {.method = "POST",
     .pattern = S "/sql",
     .handle = fixed,
     .data = "{\"columns\":[\"path\",\"n\"],\"rows\":[[\"/a\\tb\",1],[null,2.5]],"
             "\"truncated\":true}"},
    {.method = "GET", .pattern = "/v1/events", .handle = events, .data = ""},
    {.method = "GET", .pattern = S "/events", .handle = events, .data = ""},
    {.method = "GET",
     .pattern = "/v1/images",
     .handle = fixed,
     .data = "{\"images\":[{\"name\":\"python\",\"id\":\"img_1\",\"size_bytes\":4096}]}"},
    {.method = "POST", .pattern = S "/{verb}", .handle = hop},
};

static void log_request(const struct dz_http_req *r, int status, int64_t ns, void *user)
{
    (void)ns;
    (void)user;
    printf("%s %.*s %d\n", dz_http_method(r), DZ_STR_ARG(dz_http_path(r)), status);
    (void)fflush(stdout);
}

static int admit(struct dz_http_req *r, void *user, struct dz_err *err)
{
    const char *token = dz_http_header(r, "Authorization");
    const char *want = getenv("CANNED_TOKEN");
    (void)user;
    if (want && (!token || strcmp(token, want) != 0))
        return dz_fail(err, DZ_EUNAUTH, "a token is needed");
    return 0;
}

int main(int argc, char **argv)
{
    struct dz_loop *loop = NULL;
    struct dz_err err = {0};
    struct dz_http_opts opts = {
        .routes = routes, .route_count = DZ_ARRAY_LEN(routes), .admit = admit, .done = log_request};
    int rc =
        argc == 2 ? dz_loop_new(&loop, &err) : dz_fail(&err, DZ_EINVAL, "usage: canned SOCKET");
    opts.loop = loop;
    if (rc == 0)
        rc = dz_http_new(&opts, &http, &err);
    if (rc == 0)
        rc = dz_http_listen_unix(http, argv[1], &err);
    if (rc == 0)
        rc = dz_loop_run(loop, &err);
    if (rc < 0)
        fprintf(stderr, "canned: %s\n", err.msg);
    return rc < 0;
}
