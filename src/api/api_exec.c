/* SPDX-License-Identifier: MIT
 *
 * api_exec.c - commands: run and wait, run in the background, write to stdin, signal, resize.
 * Streams are in api_stream.c.
 */
#include "api/api_exec.h"

#include "base/clock.h"
#include "base/num.h"
#include "runtime/runtime_op.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    OUTPUT_DEFAULT = 1 << 20, /* bytes of each stream in one answer */
    OUTPUT_MAX = 16 << 20,
};
#define TIMEOUT_MAX_MS ((int64_t)7 * 24 * 3600 * 1000)

const char *const dz_api_stream_names[3] = {"stdout", "stderr", "trace"};

/* --- words ---------------------------------------------------------------------------------- */

static const char *signal_name(int number)
{
    return number > 0 ? sigabbrev_np(number) : NULL;
}

int dz_api_signal(const char *name)
{
    uint64_t n;
    if (dz_num_u64(dz_str(name), 1, 64, &n, NULL) == 0)
        return (int)n;
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; i < 65; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

void dz_api_put_bytes(struct dz_json *j, struct dz_str data)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    dz_json_object(j);
    if (dz_str_is_utf8(data)) {
        dz_json_put_str(j, "text", data);
    } else {
        dz_buf_add_base64(&b, data.p, data.n);
        dz_json_put_str(j, "base64", dz_str_n(b.p, b.len));
    }
    dz_json_end(j);
}

void dz_api_stream_is(struct dz_api_stream_of *of, const struct dz_http_req *r,
                      const char *sandbox_id)
{
    (void)snprintf(of->sandbox_id, sizeof of->sandbox_id, "%s", sandbox_id);
    (void)snprintf(of->request_id, sizeof of->request_id, "%s", dz_http_request_id(r));
}

void dz_api_put_error(struct dz_json *j, const struct dz_why *why,
                      const struct dz_api_stream_of *of)
{
    int code = why->err.code;
    dz_json_key(j, "error");
    dz_json_object(j);
    dz_json_put_strz(j, "code", dz_err_wire(code));
    dz_json_put_strz(j, "reason", dz_why_reason(why));
    dz_json_put_strz(j, "message", why->err.msg);
    dz_json_put_bool(j, "retry", dz_err_retry(code));
    dz_json_put_strz(j, "field", why->field[0] ? why->field : NULL);
    dz_json_put_strz(j, "sandbox_id", of->sandbox_id);
    dz_json_put_strz(j, "request_id", of->request_id);
    dz_json_end(j);
}

void dz_api_exec_put_exit(struct dz_json *j, const char *exec_id, const struct dz_exec_exit *how,
                          bool truncated)
{
    dz_json_put_strz(j, "exec_id", exec_id);
    if (how->exit_code >= 0)
        dz_json_put_i64(j, "exit_code", how->exit_code);
    else
        dz_json_put_null(j, "exit_code");
    dz_json_put_strz(j, "signal", signal_name(how->signal));
    dz_json_put_bool(j, "truncated", truncated);
    dz_json_put_bool(j, "timed_out", how->timed_out);
    dz_json_put_strz(j, "reason", how->text && how->text[0] ? how->text : NULL);
    dz_json_put_i64(j, "duration_ms", how->duration_ms);
}

/* --- the body -------------------------------------------------------------------------------- */

static const struct dz_api_field tty_fields[] = {
    {"cols", DZ_API_INT, offsetof(struct dz_api_exec, cols), NULL, 0},
    {"rows", DZ_API_INT, offsetof(struct dz_api_exec, rows), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
const struct dz_api_field dz_api_exec_fields[] = {
    {"cmd", DZ_API_WORDS, offsetof(struct dz_api_exec, cmd), NULL, 0},
    {"shell", DZ_API_STR, offsetof(struct dz_api_exec, shell), NULL, 0},
    {"cwd", DZ_API_STR, offsetof(struct dz_api_exec, cwd), NULL, 0},
    {"user", DZ_API_STR, offsetof(struct dz_api_exec, user), NULL, 0},
    {"env", DZ_API_OBJECT, offsetof(struct dz_api_exec, env), NULL, 0},
    {"stdin", DZ_API_INPUT, offsetof(struct dz_api_exec, input), NULL, 0},
    {"tty", DZ_API_SUB, 0, tty_fields, offsetof(struct dz_api_exec, tty)},
    {"timeout", DZ_API_DURATION, offsetof(struct dz_api_exec, timeout_ms), NULL, 0},
    {"background", DZ_API_BOOL, offsetof(struct dz_api_exec, background), NULL, 0},
    {"main", DZ_API_BOOL, offsetof(struct dz_api_exec, main), NULL, 0},
    {"trace", DZ_API_BOOL, offsetof(struct dz_api_exec, trace), NULL, 0},
    {"max_output", DZ_API_SIZE, offsetof(struct dz_api_exec, max_output), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

static int wrong(struct dz_why *why, const char *field, const char *text)
{
    (void)snprintf(why->field, sizeof why->field, "%s", field);
    return dz_fail(&why->err, DZ_EINVAL, "%s: %s", field, text);
}

int dz_api_exec_read(struct dz_arena *arena, struct dz_str text, struct dz_api_exec *b,
                     struct dz_exec_request *ret_exec, struct dz_why *why)
{
    *b = (struct dz_api_exec){.cols = 80, .rows = 24, .max_output = OUTPUT_DEFAULT};
    int rc = dz_api_read(arena, text, dz_api_exec_fields, b, why);
    if (rc < 0)
        return rc;
    if (b->cols < 1 || b->cols > 4096 || b->rows < 1 || b->rows > 4096)
        return wrong(why, "tty", "cols and rows must be from 1 to 4096");
    if (b->timeout_ms > TIMEOUT_MAX_MS)
        return wrong(why, "timeout", "must be at most 7d");
    if (b->max_output > OUTPUT_MAX)
        return wrong(why, "max_output", "must be at most 16MiB; a stream has no such limit");
    *ret_exec = (struct dz_exec_request){
        .argv = b->cmd,
        .shell = b->shell,
        .cwd = b->cwd,
        .user = b->user,
        .env_json = b->env,
        .input = b->input.text,
        .keep_input = b->input.keep,
        .tty = b->tty,
        .rows = (uint16_t)b->rows,
        .cols = (uint16_t)b->cols,
        .background = b->background,
        .main = b->main,
        .trace = b->trace,
        .timeout_ms = b->timeout_ms,
    };
    return dz_control_exec_check(ret_exec, why);
}

/* --- run and wait: one answer at the end -------------------------------------------------------
 */

struct run {
    struct dz_api *api;
    uint64_t id; /* id of the request */
    struct dz_exec_watch *watch;
    struct dz_timer *timer;
    struct dz_buf out[3]; /* by stream, from 1 */
    size_t reserved;      /* bytes that dz_http_reserve() holds for out and err */
    bool truncated, background, gone;
    int64_t pid;
    char exec_id[DZ_CONTROL_VALUE_MAX + 1];
};

static void run_free(struct run *run)
{
    dz_timer_free(run->timer);
    for (size_t i = 0; i < DZ_ARRAY_LEN(run->out); i++)
        dz_buf_release(&run->out[i]);
    dz_free(run);
}

static struct dz_http_req *run_request(const struct run *run)
{
    struct dz_http_req *r = dz_http_find(run->api->http, run->id);
    if (r)
        dz_http_on_gone(r, NULL, NULL);
    return r;
}

static void send_started(const struct run *run)
{
    struct dz_http_req *r = run_request(run);
    struct dz_api_out o;
    if (!r)
        return;
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "exec_id", run->exec_id);
    dz_json_put_i64(&o.json, "pid", run->pid);
    dz_api_send(r, 201, &o);
}

static void on_started(void *arg, const char *exec_id, int64_t pid)
{
    struct run *run = arg;
    run->pid = pid;
    (void)snprintf(run->exec_id, sizeof run->exec_id, "%s", exec_id);
    if (!run->background)
        return;
    send_started(run);
    dz_exec_watch_end(run->watch);
    run_free(run);
}

/* Is there room for n more bytes of output in memory? Reserves it. */
static bool has_room(struct run *run, size_t n)
{
    struct dz_http_req *r = dz_http_find(run->api->http, run->id);
    size_t bytes = run->out[0].len + run->out[1].len + run->out[2].len + n;
    if (bytes <= run->reserved || !r)
        return true;
    bytes = (bytes + DZ_HELD_FREE - 1) / DZ_HELD_FREE * DZ_HELD_FREE;
    if (!dz_http_reserve(r, bytes))
        return false;
    run->reserved = bytes;
    return true;
}

static void on_output(void *arg, unsigned stream, uint64_t offset, const void *data, size_t n)
{
    struct run *run = arg;
    struct dz_buf *b = &run->out[stream - 1];
    size_t room = b->max - b->len, part = n < room ? n : room;
    (void)offset;
    if (!has_room(run, part))
        part = 0;
    dz_buf_add(b, data, part);
    run->truncated = run->truncated || part < n || b->err;
    if (part < n) /* drop all later output too: it would leave a gap */
        b->max = b->len;
    dz_exec_watch_ack(run->watch, n);
}

static void on_ended(void *arg, const struct dz_exec_exit *how)
{
    struct run *run = arg;
    struct dz_http_req *r = run_request(run);
    struct dz_api_out o;
    if (r) {
        dz_api_begin(&o);
        dz_json_put_i64(&o.json, "pid", run->pid);
        dz_api_exec_put_exit(&o.json, run->exec_id, how, run->truncated);
        for (size_t i = 0; i < DZ_ARRAY_LEN(run->out); i++)
            if (i < 2 || run->out[i].len) /* without a trace there is no such field */
                dz_json_put_bytes(&o.json, dz_api_stream_names[i],
                                  dz_str_n(run->out[i].p, run->out[i].len));
        dz_api_send(r, 200, &o);
    }
    run_free(run);
}

static void on_failed(void *arg, const struct dz_why *why)
{
    struct run *run = arg;
    struct dz_http_req *r = run_request(run);
    if (r)
        dz_api_refuse(r, why);
    run_free(run);
}

static const struct dz_exec_watch_ops run_ops = {on_started, on_output, on_ended, on_failed};
static const struct dz_exec_watch_ops quiet_ops = {on_started, NULL, on_ended, on_failed};

/* The client disconnected; its command keeps running. */
static void on_gone(void *arg)
{
    struct run *run = arg;
    dz_exec_watch_end(run->watch);
    run_free(run);
}

static void on_timeout(void *arg)
{
    struct run *run = arg;
    struct dz_http_req *r = run_request(run);
    const struct dz_http_problem late = {.code = DZ_ETIMEOUT,
                                         .message = "the command is still running"};
    if (r)
        dz_http_refuse(r, &late);
    dz_exec_watch_end(run->watch);
    run_free(run);
}

/* Reserve memory for the answer before the command starts, so that a refusal has no effect.
 * A max_output above the default is reserved in full. Otherwise the output grows within what is
 * left of the tenant's limit and is truncated when that is used up. */
static struct run *make_run(struct dz_api *a, struct dz_http_req *r, uint64_t max_output)
{
    size_t reserve = max_output > OUTPUT_DEFAULT ? (size_t)max_output : DZ_HELD_FREE;
    if (!dz_http_reserve(r, reserve)) {
        dz_http_refuse_held(r);
        return NULL;
    }
    struct run *run = dz_zalloc(sizeof *run);
    const struct dz_http_problem busy = {.code = DZ_ENOMEM, .message = "out of memory"};
    if (!run) {
        dz_http_refuse(r, &busy);
        return NULL;
    }
    run->api = a;
    run->id = dz_http_id(r);
    run->reserved = reserve;
    for (size_t i = 0; i < DZ_ARRAY_LEN(run->out); i++)
        run->out[i] = (struct dz_buf)DZ_BUF_INIT((size_t)max_output);
    dz_http_on_gone(r, on_gone, run);
    return run;
}

static void run_refuse(struct run *run, struct dz_http_req *r, const struct dz_why *why)
{
    dz_http_on_gone(r, NULL, NULL);
    run_free(run);
    dz_api_refuse(r, why);
}

void dz_api_exec(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    DZ_AUTO(dz_arena_release) struct dz_arena arena = DZ_ARENA_INIT(DZ_API_EXEC_MAX);
    struct dz_exec_request exec;
    struct dz_api_exec b;
    if (dz_api_exec_read(&arena, dz_http_body(r), &b, &exec, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    if (!exec.background && dz_http_accepts(r, "text/event-stream")) {
        dz_api_exec_events(a, r, &exec, NULL, 0);
        return;
    }
    struct run *run = make_run(a, r, b.max_output);
    if (!run)
        return;
    run->background = exec.background;
    const struct dz_exec_listener me = {exec.background ? &quiet_ops : &run_ops, run, 0};
    if (dz_control_exec(a->control, dz_api_target(r, a, "id"), &exec, me, &run->watch, &why) < 0)
        run_refuse(run, r, &why);
}

struct wait {
    int64_t timeout_ms;
    uint64_t max_output;
};
const struct dz_api_field dz_api_wait_fields[] = {
    {"timeout", DZ_API_DURATION, offsetof(struct wait, timeout_ms), NULL, 0},
    {"max_output", DZ_API_SIZE, offsetof(struct wait, max_output), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_exec_wait(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct wait b = {.timeout_ms = -1, .max_output = OUTPUT_DEFAULT};
    if (!dz_api_body(r, &b))
        return;
    if (b.max_output > OUTPUT_MAX) {
        (void)wrong(&why, "max_output", "must be at most 16MiB; a stream has no such limit");
        dz_api_refuse(r, &why);
        return;
    }
    struct run *run = make_run(a, r, b.max_output);
    if (!run)
        return;
    int rc = 0;
    if (b.timeout_ms >= 0)
        rc = dz_timer_new(a->loop, on_timeout, run, &run->timer, &why.err);
    if (rc == 0 && run->timer)
        dz_timer_after(run->timer, b.timeout_ms);
    if (rc == 0)
        rc = dz_control_exec_watch(a->control, dz_api_target(r, a, "id"), dz_http_param(r, "exec"),
                                   (struct dz_exec_listener){&run_ops, run, 0}, &run->watch, &why);
    if (rc < 0)
        run_refuse(run, r, &why);
}

void dz_api_exec_output(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"offset", NULL};
    struct dz_api *a = api;
    struct dz_why why = {0};
    const char *text = dz_http_query(r, "offset");
    const char *last = dz_http_last_event_id(r);
    uint64_t offset = 0;
    int rc = dz_api_only(r, names, &why);
    if (rc == 0 && (text || last))
        rc = dz_num_u64(dz_str(last ? last : text), 0, INT64_MAX, &offset, &why.err);
    if (rc < 0) {
        if (!why.field[0])
            (void)snprintf(why.field, sizeof why.field, "offset");
        dz_api_refuse(r, &why);
    } else if (dz_http_wants_ws(r)) {
        dz_api_exec_talk(a, r, dz_http_param(r, "exec"), offset);
    } else {
        dz_api_exec_events(a, r, NULL, dz_http_param(r, "exec"), offset);
    }
}

/* --- input, signals, the terminal's size
 * ---------------------------------------------------------- */

static void send_message(struct dz_api *a, struct dz_http_req *r, struct dz_exec_send what)
{
    struct dz_why why = {0};
    struct dz_api_call *c = dz_api_wait(a, r, 204);
    if (!c)
        return;
    what.exec_id = dz_http_param(r, "exec");
    if (dz_control_exec_send(a->control, dz_api_target(r, a, "id"), &what, dz_api_done_sandbox, c,
                             &why) < 0)
        dz_api_refused(c, r, &why);
}

void dz_api_exec_stdin(struct dz_http_req *r, void *api)
{
    send_message(api, r,
                 (struct dz_exec_send){.what = DZ_EXEC_SEND_INPUT, .data = dz_http_body(r)});
}

void dz_api_exec_close(struct dz_http_req *r, void *api)
{
    send_message(api, r, (struct dz_exec_send){.what = DZ_EXEC_SEND_INPUT_END});
}

struct message_body {
    const char *signal;
    int64_t cols, rows;
};
const struct dz_api_field dz_api_signal_fields[] = {
    {"signal", DZ_API_STR, offsetof(struct message_body, signal), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
const struct dz_api_field dz_api_resize_fields[] = {
    {"cols", DZ_API_INT, offsetof(struct message_body, cols), NULL, 0},
    {"rows", DZ_API_INT, offsetof(struct message_body, rows), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_exec_signal(struct dz_http_req *r, void *api)
{
    struct dz_why why = {0};
    struct message_body b = {0};
    if (!dz_api_body(r, &b))
        return;
    int number = b.signal ? dz_api_signal(b.signal) : 0;
    if (number > 0 || !b.signal) {
        send_message(api, r, (struct dz_exec_send){.what = DZ_EXEC_SEND_SIGNAL, .number = number});
        return;
    }
    (void)wrong(&why, "signal", "must be a name such as TERM, or a number from 1 to 64");
    dz_api_refuse(r, &why);
}

void dz_api_exec_resize(struct dz_http_req *r, void *api)
{
    struct dz_why why = {0};
    struct message_body b = {0};
    if (!dz_api_body(r, &b))
        return;
    if (b.cols >= 1 && b.cols <= 4096 && b.rows >= 1 && b.rows <= 4096) {
        send_message(api, r,
                     (struct dz_exec_send){.what = DZ_EXEC_SEND_RESIZE,
                                           .rows = (uint16_t)b.rows,
                                           .cols = (uint16_t)b.cols});
        return;
    }
    (void)wrong(&why, "cols", "cols and rows must be from 1 to 4096");
    dz_api_refuse(r, &why);
}

/* --- records of commands -----------------------------------------------------------------------
 */

struct reading {
    struct dz_api *api;
    uint64_t id; /* id of the request */
    struct dz_file_op *op;
    struct dz_api_out out;
    bool one; /* one record; else a list */
    size_t count, limit;
    uint64_t last; /* number of the last command listed so far */
};

static void put_words(struct dz_json *j, const struct dz_cell_exec_row *row)
{
    const char *at = row->argv;
    dz_json_key(j, "cmd");
    dz_json_array(j);
    for (uint32_t i = 0; i < row->argc; i++, at += strlen(at) + 1)
        dz_json_str(j, dz_str(at));
    dz_json_end(j);
}

static void put_row(struct dz_json *j, const struct dz_cell_exec_row *row)
{
    bool over = strcmp(row->state, "running") != 0;
    dz_json_put_strz(j, "exec_id", row->id);
    dz_json_put_strz(j, "state", row->state);
    if (over && row->exit_code >= 0 && strcmp(row->state, "ended") == 0)
        dz_json_put_i64(j, "exit_code", row->exit_code);
    else
        dz_json_put_null(j, "exit_code");
    dz_json_put_strz(j, "signal", signal_name(row->signal));
    dz_json_put_bool(j, "timed_out", row->timed_out);
    dz_api_put_time(j, "started_at", row->started_ns / DZ_NS_PER_MS);
    dz_api_put_time(j, "ended_at", over ? row->ended_ns / DZ_NS_PER_MS : 0);
    dz_json_put_i64(j, "cpu_ms", row->cpu_ns / DZ_NS_PER_MS);
    dz_json_put_u64(j, "output_bytes", row->output_bytes);
    dz_json_put_u64(j, "first_offset", row->first_offset);
    dz_json_put_u64(j, "kept_bytes", row->output_bytes - row->first_offset);
    dz_json_put_bool(j, "tty", row->tty);
    dz_json_put_i64(j, "pid", row->pid);
    put_words(j, row);
}

static void on_data(void *arg, const void *data, size_t n)
{
    struct reading *s = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_exec_row row;
    while (dz_cell_exec_row_next(&v, &row, NULL) == 1) {
        /* one row beyond the limit means that there are more */
        if (s->count++ >= s->limit)
            continue;
        s->last = row.number;
        if (!s->one)
            dz_json_object(&s->out.json);
        put_row(&s->out.json, &row);
        if (!s->one)
            dz_json_end(&s->out.json);
    }
    dz_file_op_ack(s->op, n);
}

static void reading_free(struct reading *s)
{
    dz_buf_release(&s->out.text);
    dz_free(s);
}

static void on_done(void *arg, const struct dz_why *why, uint64_t count)
{
    struct reading *s = arg;
    struct dz_http_req *r = dz_http_find(s->api->http, s->id);
    struct dz_why missing = {0};
    char cursor[24];
    (void)count;
    if (r)
        dz_http_on_gone(r, NULL, NULL);
    if (!why && s->one && s->count == 0) {
        (void)dz_fail(&missing.err, DZ_ENOENT, "the sandbox has no exec with this id");
        why = &missing;
    }
    if (r && why) {
        dz_api_refuse(r, why);
    } else if (r) {
        if (!s->one) {
            dz_json_end(&s->out.json);
            (void)snprintf(cursor, sizeof cursor, "%llu", (unsigned long long)s->last);
            dz_json_put_strz(&s->out.json, "next_cursor", s->count > s->limit ? cursor : NULL);
        }
        dz_api_send(r, 200, &s->out);
    }
    reading_free(s);
}

static const struct dz_file_op_ops ops = {on_data, NULL, on_done};

static void on_reading_gone(void *arg)
{
    struct reading *s = arg;
    dz_file_op_cancel(s->op);
    reading_free(s);
}

static void start(struct dz_api *a, struct dz_http_req *r, const struct dz_cell_op *op, bool one,
                  size_t limit)
{
    struct reading *s = dz_zalloc(sizeof *s);
    struct dz_why why = {0};
    if (!s) {
        (void)dz_fail(&why.err, DZ_ENOMEM, "out of memory");
        dz_api_refuse(r, &why);
        return;
    }
    s->api = a;
    s->id = dz_http_id(r);
    s->one = one;
    s->limit = limit;
    dz_api_begin(&s->out);
    if (!one) {
        dz_json_key(&s->out.json, "execs");
        dz_json_array(&s->out.json);
    }
    dz_http_on_gone(r, on_reading_gone, s);
    const struct dz_file_op_request request = {op, false, DZ_ACTIVITY_READ_STATUS, &ops, s};
    if (dz_control_op(a->control, dz_api_target(r, a, "id"), &request, &s->op, &why) < 0) {
        dz_http_on_gone(r, NULL, NULL);
        reading_free(s);
        dz_api_refuse(r, &why);
    }
}

void dz_api_execs(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_page page = {0};
    struct dz_cell_op op = {.type = DZ_CELL_OP_EXECS};
    if (dz_http_wants_ws(r)) {
        dz_api_exec_talk(a, r, NULL, 0);
        return;
    }
    int rc = dz_api_page(r, DZ_API_CURSOR_NUMBER, NULL, &page, &why);
    if (rc == 0 && page.cursor)
        rc = dz_num_u64(dz_str(page.cursor), 0, INT64_MAX, &op.offset, &why.err);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    op.limit = page.limit + 1;
    start(a, r, &op, false, page.limit);
}

void dz_api_exec_get(struct dz_http_req *r, void *api)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_EXEC, .text = dz_http_param(r, "exec")};
    start(api, r, &op, true, 1);
}
