/* SPDX-License-Identifier: MIT
 *
 * api_stream.c - a command as a stream: server-sent events, or a WebSocket.
 *
 * Output is acknowledged to the control plane only when the client has read it, so a slow client
 * holds up its command and nothing else. Input goes to the control plane message by message; while
 * too much input is pending there, the socket is not read.
 *
 * A session is held by its connection, until `closed`, and by each message that the control plane
 * has not answered (session.sending). The last holder frees it. Only let_go() ends the control
 * plane's watch. It also kills the command if the session failed, or if the session started the
 * command and its client never learned the command's id.
 */
#include "api/api_exec.h"

#include "base/num.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    CLOSE_NORMAL = 1000,
    CLOSE_PROTOCOL = 1008,
    CLOSE_INTERNAL = 1011,
};

struct session {
    struct dz_api *api;
    struct dz_control_target target; /* by id (of.sandbox_id), because a name may be reassigned */
    struct dz_sse *sse;              /* either sse or ws */
    struct dz_ws *ws;
    struct dz_exec_watch *watch;
    bool over, full; /* ended; the client has not caught up */
    bool waits;      /* for the first message, which names the command to run */
    bool closed;     /* the connection has ended */
    size_t sending;  /* messages that the control plane has not answered yet */
    size_t untaken;
    char exec_id[DZ_CONTROL_VALUE_MAX + 1];
    struct dz_api_stream_of of;
};

/* NULL: the request has been refused; nothing was streamed. */
static struct session *make_session(struct dz_api *a, struct dz_http_req *r)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why = {0};
    const struct dz_http_problem busy = {.code = DZ_ENOMEM, .message = "out of memory"};
    if (dz_control_get(a->control, dz_api_target(r, a, "id"), &row, &why) < 0) {
        dz_api_refuse(r, &why);
        return NULL;
    }
    struct session *s = dz_zalloc(sizeof *s);
    if (!s) {
        dz_http_refuse(r, &busy);
        return NULL;
    }
    s->api = a;
    s->target = (struct dz_control_target){dz_api_caller(r, a), s->of.sandbox_id};
    dz_api_stream_is(&s->of, r, row.id);
    return s;
}

/* --- to the client ------------------------------------------------------------------------ */

static void send_json(struct session *s, const char *event, const char *id,
                      const struct dz_buf *text)
{
    struct dz_str data = dz_str_n(text->p, text->len);
    int rc = s->sse ? dz_sse_send(s->sse, event, id, data) : dz_ws_send(s->ws, true, data);
    s->full = s->full || rc == 1;
}

/* End the watch, unless the control plane has ended it already. */
static void let_go(struct session *s, bool failed)
{
    struct dz_exec_watch *w = s->watch;
    s->watch = NULL;
    if (failed || !s->exec_id[0])
        dz_exec_watch_abort(w);
    else
        dz_exec_watch_end(w);
}

static void finish(struct session *s, int code)
{
    s->over = true;
    if (s->sse)
        dz_sse_end(s->sse);
    else if (s->ws)
        dz_ws_close(s->ws, code, NULL);
}

static void begin_message(struct session *s, struct dz_json *j, struct dz_buf *text,
                          const char *type)
{
    dz_json_init(j, text, false);
    dz_json_object(j);
    if (s->ws)
        dz_json_put_strz(j, "type", type);
}

static void on_started(void *arg, const char *exec_id, int64_t pid)
{
    struct session *s = arg;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    (void)snprintf(s->exec_id, sizeof s->exec_id, "%s", exec_id);
    begin_message(s, &j, &text, "start");
    dz_json_put_strz(&j, "exec_id", exec_id);
    dz_json_put_i64(&j, "pid", pid);
    dz_json_end(&j);
    send_json(s, "start", NULL, &text);
}

static void on_output(void *arg, unsigned stream, uint64_t offset, const void *data, size_t n)
{
    struct session *s = arg;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    struct dz_json j;
    char id[24];
    if (s->sse) {
        dz_json_init(&j, &text, false);
        dz_api_put_bytes(&j, dz_str_n(data, n));
        (void)snprintf(id, sizeof id, "%llu", (unsigned long long)offset + n);
        send_json(s, dz_api_stream_names[stream - 1], id, &text);
    } else {
        const char number = (char)stream;
        dz_buf_add(&text, &number, 1);
        dz_buf_add(&text, data, n);
        s->full = dz_ws_send(s->ws, false, dz_str_n(text.p, text.len)) == 1 || s->full;
    }
    if (s->full)
        s->untaken += n;
    else
        dz_exec_watch_ack(s->watch, n);
}

static void on_ended(void *arg, const struct dz_exec_exit *how)
{
    struct session *s = arg;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    s->watch = NULL;
    begin_message(s, &j, &text, "exit");
    dz_api_exec_put_exit(&j, s->exec_id, how, false);
    dz_json_end(&j);
    send_json(s, "exit", NULL, &text);
    finish(s, CLOSE_NORMAL);
}

static void on_failed(void *arg, const struct dz_why *why)
{
    struct session *s = arg;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    s->watch = NULL;
    begin_message(s, &j, &text, "error");
    dz_api_put_error(&j, why, &s->of);
    dz_json_end(&j);
    send_json(s, "error", NULL, &text);
    finish(s, s->exec_id[0] ? CLOSE_INTERNAL : CLOSE_PROTOCOL);
}

static const struct dz_exec_watch_ops ops = {on_started, on_output, on_ended, on_failed};

static void on_room(void *arg)
{
    struct session *s = arg;
    size_t n = s->untaken;
    s->full = false;
    s->untaken = 0;
    if (s->watch && n > 0)
        dz_exec_watch_ack(s->watch, n);
}

static void session_free_unheld(struct session *s)
{
    if (s->closed && s->sending == 0)
        dz_free(s);
}

static void session_gone(struct session *s)
{
    s->sending++; /* the control plane may answer a message from inside this call */
    s->over = s->closed = true;
    let_go(s, false);
    s->sending--;
    session_free_unheld(s);
}

/* --- events ---------------------------------------------------------------------------------- */

static void sse_closed(void *arg)
{
    session_gone(arg);
}

static const struct dz_sse_ops sse_ops = {on_room, sse_closed};

void dz_api_exec_events(struct dz_api *a, struct dz_http_req *r, const struct dz_exec_request *exec,
                        const char *exec_id, uint64_t offset)
{
    struct dz_why why = {0};
    char id[DZ_CONTROL_VALUE_MAX + 1] = "";
    struct session *s = make_session(a, r);
    if (!s)
        return;
    if (exec_id)
        (void)snprintf(id, sizeof id, "%s", exec_id);
    s->sse = dz_http_sse(r, &sse_ops, s);
    if (!s->sse) {
        dz_free(s);
        return;
    }
    const struct dz_exec_listener me = {&ops, s, offset};
    int rc = exec ? dz_control_exec(a->control, s->target, exec, me, &s->watch, &why)
                  : dz_control_exec_watch(a->control, s->target, id, me, &s->watch, &why);
    if (rc < 0)
        on_failed(s, &why);
}

/* --- the WebSocket
 * ------------------------------------------------------------------------------- */

static void ws_fail(struct session *s, struct dz_why *why, const char *text)
{
    if (text)
        (void)dz_fail(&why->err, DZ_EINVAL, "%s", text);
    let_go(s, true);
    on_failed(s, why);
}

/* Several messages may be pending, because messages read ahead still arrive after a pause. */
static void on_sent(void *arg, const struct dz_sandbox_result *result)
{
    struct session *s = arg;
    (void)result; /* the command has ended or does not read; its end event reports that */
    s->sending--;
    if (!s->over && s->sending == 0)
        dz_ws_pause(s->ws, false);
    session_free_unheld(s);
}

static void send_message(struct session *s, struct dz_exec_send what)
{
    struct dz_why why;
    if (s->sending++ == 0)
        dz_ws_pause(s->ws, true);
    what.exec_id = s->exec_id;
    int rc = dz_control_exec_send(s->api->control, s->target, &what, on_sent, s, &why);
    if (rc == DZ_ERATE) { /* else input would be lost silently */
        let_go(s, false);
        on_failed(s, &why);
    }
    if (rc < 0)
        on_sent(s, NULL);
}

struct command {
    const char *type, *signal;
    int64_t cols, rows;
};
static const struct dz_api_field command_fields[] = {
    {"type", DZ_API_STR, offsetof(struct command, type), NULL, 0},
    {"signal", DZ_API_STR, offsetof(struct command, signal), NULL, 0},
    {"cols", DZ_API_INT, offsetof(struct command, cols), NULL, 0},
    {"rows", DZ_API_INT, offsetof(struct command, rows), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

static void on_command(struct session *s, struct dz_str text)
{
    DZ_AUTO(dz_arena_release) struct dz_arena arena = DZ_ARENA_INIT(DZ_LINE_MAX);
    struct dz_why why = {0};
    struct command c = {.type = ""};
    int number = 0;
    if (dz_api_read(&arena, text, command_fields, &c, &why) < 0)
        ws_fail(s, &why, NULL);
    else if (strcmp(c.type, "close_stdin") == 0)
        send_message(s, (struct dz_exec_send){.what = DZ_EXEC_SEND_INPUT_END});
    else if (strcmp(c.type, "signal") == 0 && c.signal && (number = dz_api_signal(c.signal)) > 0)
        send_message(s, (struct dz_exec_send){.what = DZ_EXEC_SEND_SIGNAL, .number = number});
    else if (strcmp(c.type, "resize") == 0 && c.cols > 0 && c.cols <= 4096 && c.rows > 0 &&
             c.rows <= 4096)
        send_message(s, (struct dz_exec_send){.what = DZ_EXEC_SEND_RESIZE,
                                              .rows = (uint16_t)c.rows,
                                              .cols = (uint16_t)c.cols});
    else
        ws_fail(s, &why,
                "type: must be resize (with cols and rows), signal (with signal) or close_stdin");
}

static void on_first(struct session *s, bool text, struct dz_str data)
{
    DZ_AUTO(dz_arena_release) struct dz_arena arena = DZ_ARENA_INIT(DZ_API_EXEC_MAX);
    struct dz_why why = {0};
    struct dz_exec_request exec;
    struct dz_api_exec b;
    s->waits = false;
    if (!text) {
        ws_fail(s, &why, "the first message must be a text message: the exec request as JSON");
        return;
    }
    if (dz_api_exec_read(&arena, data, &b, &exec, &why) < 0) {
        ws_fail(s, &why, NULL);
        return;
    }
    exec.background = false;
    /* a WebSocket always has input */
    if (!b.input.text.p)
        exec.keep_input = true;
    if (dz_control_exec(s->api->control, s->target, &exec, (struct dz_exec_listener){&ops, s, 0},
                        &s->watch, &why) < 0)
        ws_fail(s, &why, NULL);
}

static void on_message(void *arg, bool text, struct dz_str data)
{
    struct session *s = arg;
    struct dz_why why = {0};
    if (s->over)
        return;
    if (s->waits)
        on_first(s, text, data);
    else if (!s->exec_id[0])
        ws_fail(s, &why, "the command has not started yet; wait for \"start\"");
    else if (text)
        on_command(s, data);
    else
        send_message(s, (struct dz_exec_send){.what = DZ_EXEC_SEND_INPUT, .data = data});
}

static void ws_closed(void *arg, int code)
{
    (void)code;
    session_gone(arg);
}

static void on_alive(void *arg)
{
    struct session *s = arg;
    if (s->watch)
        dz_exec_watch_alive(s->watch);
}

static const struct dz_ws_ops ws_ops = {
    .message = on_message, .room = on_room, .alive = on_alive, .closed = ws_closed};

void dz_api_exec_talk(struct dz_api *a, struct dz_http_req *r, const char *exec_id, uint64_t offset)
{
    struct dz_why why = {0};
    struct session *s = make_session(a, r);
    char id[DZ_CONTROL_VALUE_MAX + 1] = "";
    if (!s)
        return;
    if (exec_id)
        (void)snprintf(id, sizeof id, "%s", exec_id);
    s->waits = !exec_id;
    s->ws = dz_http_ws(r, &ws_ops, s);
    if (!s->ws) {
        dz_free(s);
        return;
    }
    const struct dz_exec_listener me = {&ops, s, offset};
    if (exec_id && dz_control_exec_watch(a->control, s->target, id, me, &s->watch, &why) < 0)
        ws_fail(s, &why, NULL);
}
