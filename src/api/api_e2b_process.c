/* SPDX-License-Identifier: MIT
 *
 * api_e2b_process.c - E2B's service process.Process: commands and terminals of a sandbox.
 *
 * A process of E2B is a command of doze (sandbox_exec.h). Its client names it by its pid in the
 * sandbox, or by a tag; the records in the sandbox's file lead from there to the command's id. So
 * processes are found again after a sleep and after a restart of the daemon.
 *
 * A process outlives the stream that started it. Its deadline (Connect-Timeout-Ms) is the command's
 * own, so it holds even if the client leaves. Output is acknowledged when the client has read it: a
 * slow client holds up its command and nothing else.
 */
#include "api/api_e2b.h"

#include "base/num.h"
#include "loop/loop.h"
#include "runtime/runtime_op.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 32 << 10, /* bytes of output in one event */
    BEAT_S = 90,      /* pause after which a silent stream gets a keepalive event */
    BEAT_MAX_S = 3600,
    RECORDS = 1000, /* of commands: more than a file keeps */
};

/* --- a stream of events --------------------------------------------------------------------- */

struct events {
    struct dz_api *api;
    uint64_t id; /* of the request */
    struct dz_exec_watch *watch;
    struct dz_timer *beat;
    int64_t beat_ms;
    struct dz_buf out;
    size_t at;      /* bytes of out that were sent */
    size_t untaken; /* bytes of output to acknowledge once out is empty */
    bool tty, begun, over, cut;
};

static void events_free(struct events *s)
{
    dz_timer_free(s->beat);
    dz_buf_release(&s->out);
    dz_free(s);
}

static ssize_t pull(void *arg, char *p, size_t n)
{
    struct events *s = arg;
    size_t have = s->out.len - s->at, part = have < n ? have : n;
    if (s->cut || s->out.err)
        return DZ_HTTP_CUT;
    if (part > 0) {
        memcpy(p, s->out.p + s->at, part);
        s->at += part;
        return (ssize_t)part;
    }
    dz_buf_reset(&s->out);
    s->at = 0;
    if (s->watch && s->untaken > 0) {
        size_t untaken = s->untaken;
        s->untaken = 0;
        dz_exec_watch_ack(s->watch, untaken);
    }
    return s->over ? DZ_HTTP_END : DZ_HTTP_WAIT;
}

/* The stream is over, or its client has left: the process goes on. */
static void pulled(void *arg)
{
    struct events *s = arg;
    dz_exec_watch_end(s->watch);
    events_free(s);
}

static const struct dz_http_source source = {pull, pulled};

static void gone(void *arg)
{
    pulled(arg);
}

/* Begin the answer. Without memory this frees s. */
static void begin(struct events *s)
{
    struct dz_http_req *r = dz_http_find(s->api->http, s->id);
    assert(r && !s->begun); /* if the client leaves before, gone() is called */
    s->begun = true;
    dz_http_on_gone(r, NULL, NULL);
    dz_http_stream(r, 200, DZ_E2B_STREAM, -1, &source, s);
}

static void more(struct events *s)
{
    if (s->over)
        dz_timer_stop(s->beat);
    else
        dz_timer_after(s->beat, s->beat_ms);
    dz_http_more(s->api->http, s->id);
}

static void put_event(struct events *s, const struct dz_buf *text)
{
    dz_e2b_put_envelope(&s->out, 0, dz_str_n(text->p, text->len));
}

static void on_beat(void *arg)
{
    struct events *s = arg;
    dz_e2b_put_envelope(&s->out, 0, DZ_STR("{\"event\":{\"keepalive\":{}}}"));
    more(s);
}

static void on_started(void *arg, const char *exec_id, int64_t pid)
{
    struct events *s = arg;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    (void)exec_id;
    dz_buf_addf(&text, "{\"event\":{\"start\":{\"pid\":%lld}}}", (long long)pid);
    put_event(s, &text);
    dz_timer_after(s->beat, s->beat_ms);
    begin(s);
}

static void on_output(void *arg, unsigned stream, uint64_t offset, const void *data, size_t n)
{
    struct events *s = arg;
    const char *name = s->tty ? "pty" : stream == 1 ? "stdout" : "stderr", *p = data;
    (void)offset;
    for (size_t at = 0; at < n; at += PIECE) {
        DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
        dz_buf_addf(&text, "{\"event\":{\"data\":{\"%s\":\"", name);
        dz_buf_add_base64(&text, p + at, n - at < PIECE ? n - at : PIECE);
        dz_buf_adds(&text, "\"}}}");
        put_event(s, &text);
    }
    s->untaken += n;
    more(s);
}

/* The words that the clients know from Go's syscall package. */
static const char *signal_words(int number, char out[static 32])
{
    static const struct {
        int number;
        const char *text;
    } all[] = {{SIGHUP, "hangup"},
               {SIGINT, "interrupt"},
               {SIGQUIT, "quit"},
               {SIGILL, "illegal instruction"},
               {SIGTRAP, "trace/breakpoint trap"},
               {SIGABRT, "aborted"},
               {SIGBUS, "bus error"},
               {SIGFPE, "floating point exception"},
               {SIGKILL, "killed"},
               {SIGUSR1, "user defined signal 1"},
               {SIGSEGV, "segmentation fault"},
               {SIGUSR2, "user defined signal 2"},
               {SIGPIPE, "broken pipe"},
               {SIGALRM, "alarm clock"},
               {SIGTERM, "terminated"}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        if (all[i].number == number)
            return all[i].text;
    (void)snprintf(out, 32, "signal %d", number);
    return out;
}

static void on_ended(void *arg, const struct dz_exec_exit *how)
{
    struct events *s = arg;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    char status[64], other[32];
    struct dz_json j;
    s->watch = NULL;
    if (how->exit_code >= 0)
        (void)snprintf(status, sizeof status, "exit status %d", how->exit_code);
    else
        (void)snprintf(status, sizeof status, "signal: %s", signal_words(how->signal, other));
    dz_json_init(&j, &text, false);
    dz_json_object(&j);
    dz_json_key(&j, "event");
    dz_json_object(&j);
    dz_json_key(&j, "end");
    dz_json_object(&j);
    dz_json_put_i64(&j, "exitCode", how->exit_code >= 0 ? how->exit_code : -1);
    dz_json_put_bool(&j, "exited", how->exit_code >= 0);
    dz_json_put_strz(&j, "status", status);
    if (how->exit_code != 0)
        dz_json_put_strz(&j, "error", status);
    dz_json_end(&j);
    dz_json_end(&j);
    dz_json_end(&j);
    if (how->timed_out) {
        dz_e2b_put_end(&s->out, "deadline_exceeded", "the process was killed at its deadline");
    } else {
        put_event(s, &text);
        dz_e2b_put_end(&s->out, NULL, NULL);
    }
    s->over = true;
    if (s->begun)
        more(s);
    else
        begin(s); /* may free s */
}

static void on_failed(void *arg, const struct dz_why *why)
{
    struct events *s = arg;
    struct dz_http_req *r = s->begun ? NULL : dz_http_find(s->api->http, s->id);
    char text[sizeof why->err.msg];
    int status;
    s->watch = NULL;
    if (s->begun) { /* its sandbox was killed or paused */
        s->cut = true;
        more(s);
        return;
    }
    (void)snprintf(text, sizeof text, "%s", why->err.msg);
    const char *code = dz_e2b_code(why->err.code, &status);
    bool ended = why->err.code == DZ_ENOENT && !why->reason;
    events_free(s);
    if (!r)
        return;
    dz_http_on_gone(r, NULL, NULL);
    if (ended || why->err.code == DZ_EGONE || why->err.code == DZ_EDIED)
        dz_e2b_refuse(r, DZ_EDIED, 0, "%s", text);
    else
        dz_e2b_stream_fail(r, strcmp(why->field, "user") == 0 ? "unauthenticated" : code, text);
}

static const struct dz_exec_watch_ops watch_ops = {on_started, on_output, on_ended, on_failed};

/* NULL: the request has been answered. */
static struct events *events_new(struct dz_api *a, struct dz_http_req *r)
{
    const char *beat = dz_http_header(r, "Keepalive-Ping-Interval");
    struct events *s = dz_zalloc(sizeof *s);
    uint64_t seconds = BEAT_S;
    struct dz_err err;
    if (beat)
        (void)!dz_num_u64(dz_str(beat), 1, BEAT_MAX_S, &seconds, NULL);
    if (s && dz_timer_new(a->loop, on_beat, s, &s->beat, &err) < 0) {
        dz_free(s);
        s = NULL;
    }
    if (!s) {
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
        return NULL;
    }
    s->api = a;
    s->id = dz_http_id(r);
    s->beat_ms = (int64_t)seconds * 1000;
    s->out = (struct dz_buf)DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    dz_http_on_gone(r, gone, s);
    return s;
}

/* --- reading messages ------------------------------------------------------------------------ */

/* A member by its name in lower camel case. */
static json_t *member(const json_t *o, const char *name)
{
    return json_object_get(o, name);
}

static const char *text_of(const json_t *o, const char *name)
{
    return json_string_value(member(o, name));
}

/* An integer that may be a number or a text; -1: neither, or negative. */
static int64_t number_of(const json_t *v)
{
    uint64_t n;
    if (json_is_integer(v))
        return json_integer_value(v) < 0 ? -1 : json_integer_value(v);
    return json_is_string(v) &&
                   dz_num_u64(dz_str(json_string_value(v)), 0, INT64_MAX, &n, NULL) == 0
               ? (int64_t)n
               : -1;
}

/* Does a selector name a process? */
static bool is_selector(const json_t *selector)
{
    return text_of(selector, "tag") || number_of(member(selector, "pid")) > 0;
}

/* The size of a terminal; false: it is not one. */
static bool size_of(const json_t *pty, uint16_t *ret_cols, uint16_t *ret_rows)
{
    const json_t *size = member(pty, "size");
    int64_t cols = number_of(member(size, "cols")), rows = number_of(member(size, "rows"));
    if (cols < 1 || cols > 4096 || rows < 1 || rows > 4096)
        return false;
    *ret_cols = (uint16_t)cols;
    *ret_rows = (uint16_t)rows;
    return true;
}

/* --- Start ------------------------------------------------------------------------------------ */

/* The words of a command, in the request's memory. NULL: no command. */
static const char **words_of(struct dz_http_req *r, const json_t *process)
{
    const json_t *args = member(process, "args");
    size_t n = json_array_size(args);
    const char *cmd = text_of(process, "cmd");
    const char **words =
        cmd && n < DZ_EXEC_ARGS_MAX ? dz_arena_array(dz_http_arena(r), n + 2, sizeof *words) : NULL;
    if (!words)
        return NULL;
    words[0] = cmd;
    for (size_t i = 0; i < n; i++)
        if (!(words[i + 1] = json_string_value(json_array_get(args, i))))
            return NULL;
    words[n + 1] = NULL;
    return words;
}

/* The environment: what a login of the user has, then the client's. In the request's memory. */
static const char *env_of(struct dz_http_req *r, const json_t *process, const char *user)
{
    const char *name = user ? user : "user";
    char home[DZ_E2B_PATH];
    const json_t *given = member(process, "envs");
    json_t *env = json_object();
    struct dz_str text = {0};
    if (!dz_e2b_path(r, NULL, home))
        return NULL;
    (void)json_object_set_new(env, "HOME", json_string(home));
    (void)json_object_set_new(env, "USER", json_string(name));
    (void)json_object_set_new(env, "LOGNAME", json_string(name));
    if (json_is_object(given))
        (void)json_object_update(env, (json_t *)(uintptr_t)given);
    char *dumped = json_dumps(env, JSON_COMPACT);
    if (dumped)
        text = dz_arena_str(dz_http_arena(r), dz_str(dumped));
    free(dumped);
    json_decref(env);
    return text.p;
}

void dz_e2b_start(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_control_target target;
    char cwd[DZ_E2B_PATH];
    int status;
    json_t *o = dz_e2b_envelope(r);
    if (!o)
        return;
    const json_t *process = member(o, "process"), *pty = member(o, "pty");
    const char *timeout = dz_http_header(r, "Connect-Timeout-Ms"), *tag = text_of(o, "tag");
    uint64_t timeout_ms = 0;
    struct dz_exec_request exec = {.user = dz_e2b_user(r),
                                   .keep_input = !json_is_false(member(o, "stdin")),
                                   .tty = json_is_object(pty)};
    if (timeout && dz_num_u64(dz_str(timeout), 0, INT64_MAX / 2, &timeout_ms, NULL) < 0) {
        dz_e2b_stream_fail(r, "invalid_argument", "Connect-Timeout-Ms: must be a number");
        return;
    }
    exec.timeout_ms = (int64_t)timeout_ms;
    exec.argv = words_of(r, process);
    if (!exec.argv) {
        dz_e2b_stream_fail(r, "invalid_argument",
                           "process: must have a text \"cmd\" and a list of texts \"args\"");
        return;
    }
    if (tag && strlen(tag) >= DZ_EXEC_TAG_MAX) {
        dz_e2b_stream_fail(r, "invalid_argument", "tag: too long");
        return;
    }
    if (exec.tty && !size_of(pty, &exec.cols, &exec.rows)) {
        dz_e2b_stream_fail(r, "invalid_argument", "pty: must have a size of 1 to 4096");
        return;
    }
    exec.tag = tag;
    if (!dz_e2b_use(a, r, &target) || !dz_e2b_path(r, text_of(process, "cwd"), cwd))
        return;
    exec.cwd = cwd;
    exec.env_json = env_of(r, process, exec.user);
    if (!exec.env_json) {
        dz_e2b_stream_fail(r, "resource_exhausted", "process: the environment is too large");
        return;
    }
    struct events *s = events_new(a, r);
    if (!s)
        return;
    s->tty = exec.tty;
    if (dz_control_exec(a->control, target, &exec, (struct dz_exec_listener){&watch_ops, s, 0},
                        &s->watch, &why) == 0)
        return;
    dz_http_on_gone(r, NULL, NULL);
    events_free(s);
    dz_e2b_stream_fail(r, dz_e2b_code(why.err.code, &status), why.err.msg);
}

/* --- finding a process -------------------------------------------------------------------------
 */

/* What to do with the process that a call names, or with all of them. */
struct seeking {
    struct dz_api *api;
    uint64_t id;
    struct dz_file_op *op;
    const json_t *selector; /* in the request's memory; NULL: all that run */
    struct dz_control_target target;
    struct dz_exec_send send;
    bool attach; /* Connect */
    struct dz_api_out out;
    bool found, running, tty;
    char exec_id[DZ_CONTROL_VALUE_MAX + 1];
    uint64_t bytes; /* of its output so far */
    int64_t pid;
};

static void seeking_free(struct seeking *s)
{
    dz_buf_release(&s->out.text);
    dz_free(s);
}

static void put_process(struct dz_json *j, const struct dz_cell_exec_row *row)
{
    const char *at = row->argv;
    dz_json_object(j);
    dz_json_key(j, "config");
    dz_json_object(j);
    for (uint32_t i = 0; i < row->argc; i++, at += strlen(at) + 1) {
        if (i == 0) {
            dz_json_put_strz(j, "cmd", at);
            dz_json_key(j, "args");
            dz_json_array(j);
        } else {
            dz_json_str(j, dz_str(at));
        }
    }
    if (row->argc > 0)
        dz_json_end(j);
    dz_json_key(j, "envs");
    dz_json_object(j);
    dz_json_end(j);
    dz_json_end(j);
    dz_json_put_i64(j, "pid", row->pid);
    if (row->spec_size > 0)
        dz_json_put_str(j, "tag", dz_str_n((const char *)row->spec, row->spec_size));
    dz_json_end(j);
}

/* Is it the process that the call names? The newest first: a pid may have been used before. */
static bool is_named(const json_t *selector, const struct dz_cell_exec_row *row)
{
    const char *tag = text_of(selector, "tag");
    if (tag)
        return dz_str_eqz(dz_str_n((const char *)row->spec, row->spec_size), tag);
    return row->pid == number_of(member(selector, "pid"));
}

static void on_records(void *arg, const void *data, size_t n)
{
    struct seeking *s = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_exec_row row;
    while (dz_cell_exec_row_next(&v, &row, NULL) == 1) {
        bool running = strcmp(row.state, "running") == 0;
        if (!s->selector && running)
            put_process(&s->out.json, &row);
        if (!s->selector || s->found || !is_named(s->selector, &row))
            continue;
        s->found = true;
        s->running = running;
        s->tty = row.tty;
        s->bytes = row.output_bytes;
        s->pid = row.pid;
        (void)snprintf(s->exec_id, sizeof s->exec_id, "%s", row.id);
    }
    dz_file_op_ack(s->op, n);
}

static void send_done(void *arg, const struct dz_sandbox_result *result)
{
    struct dz_http_req *r = dz_api_over(arg);
    struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_buf_adds(&text, "{}");
    if (r && result->code < 0)
        dz_http_fail(r, &result->why->err);
    else if (r)
        dz_http_send(r, 200, DZ_HTTP_JSON, &text);
    dz_buf_release(&text);
}

static void attach(struct seeking *s, struct dz_http_req *r)
{
    struct dz_why why = {0};
    int status;
    struct events *e = events_new(s->api, r);
    if (!e)
        return;
    e->tty = s->tty;
    const struct dz_exec_listener me = {&watch_ops, e, s->bytes};
    if (dz_control_exec_watch(s->api->control, s->target, s->exec_id, me, &e->watch, &why) == 0)
        return;
    dz_http_on_gone(r, NULL, NULL);
    events_free(e);
    dz_e2b_stream_fail(r, dz_e2b_code(why.err.code, &status), why.err.msg);
}

static void send_found(struct seeking *s, struct dz_http_req *r)
{
    struct dz_why why = {0};
    struct dz_api_call *c = dz_api_wait(s->api, r, 0);
    if (!c)
        return;
    s->send.exec_id = s->exec_id;
    if (dz_control_exec_send(s->api->control, s->target, &s->send, send_done, c, &why) < 0) {
        dz_free(c);
        dz_http_fail(r, &why.err);
    }
}

static void not_found(const struct seeking *s, struct dz_http_req *r)
{
    const char *tag = text_of(s->selector, "tag");
    char text[160];
    if (tag)
        (void)snprintf(text, sizeof text, "process with tag %.100s not found", tag);
    else
        (void)snprintf(text, sizeof text, "process with pid %lld not found",
                       (long long)number_of(member(s->selector, "pid")));
    if (s->attach)
        dz_e2b_stream_fail(r, "not_found", text);
    else
        dz_e2b_refuse(r, DZ_ENOENT, 0, "%s", text);
}

static void on_found(void *arg, const struct dz_why *why, uint64_t count)
{
    struct seeking *s = arg;
    struct dz_http_req *r = dz_http_find(s->api->http, s->id);
    int status;
    (void)count;
    if (r)
        dz_http_on_gone(r, NULL, NULL);
    if (r && why && s->attach)
        dz_e2b_stream_fail(r, dz_e2b_code(why->err.code, &status), why->err.msg);
    else if (r && why)
        dz_http_fail(r, &why->err);
    else if (r && !s->selector) {
        dz_json_end(&s->out.json);
        dz_api_send(r, 200, &s->out);
    } else if (r && (!s->found || (!s->running && !s->attach)))
        not_found(s, r);
    else if (r && s->attach)
        attach(s, r);
    else if (r)
        send_found(s, r);
    seeking_free(s);
}

static const struct dz_file_op_ops seek_ops = {.data = on_records, .done = on_found};

static void seek_gone(void *arg)
{
    struct seeking *s = arg;
    dz_file_op_cancel(s->op);
    seeking_free(s);
}

static void seek(struct dz_api *a, struct dz_http_req *r, struct seeking want)
{
    struct dz_why why = {0};
    const struct dz_cell_op op = {.type = DZ_CELL_OP_EXECS, .limit = RECORDS};
    struct seeking *s;
    int status;
    if (!dz_e2b_use(a, r, &want.target))
        return;
    if (!(s = dz_alloc(sizeof *s))) {
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
        return;
    }
    *s = want;
    s->api = a;
    s->id = dz_http_id(r);
    dz_api_begin(&s->out);
    dz_json_key(&s->out.json, "processes");
    dz_json_array(&s->out.json);
    dz_http_on_gone(r, seek_gone, s);
    const struct dz_file_op_request request = {&op, false, DZ_ACTIVITY_REQUEST, &seek_ops, s};
    if (dz_control_op(a->control, s->target, &request, &s->op, &why) == 0)
        return;
    dz_http_on_gone(r, NULL, NULL);
    seeking_free(s);
    if (want.attach)
        dz_e2b_stream_fail(r, dz_e2b_code(why.err.code, &status), why.err.msg);
    else
        dz_http_fail(r, &why.err);
}

/* --- the unary calls, and Connect ---------------------------------------------------------------
 */

/* The selector of a body; NULL: the request has been refused. */
static const json_t *selector_of(struct dz_http_req *r, const json_t *o)
{
    const json_t *selector = member(o, "process");
    if (is_selector(selector))
        return selector;
    dz_e2b_refuse(r, DZ_EINVAL, 0, "process: must have a pid or a tag");
    return NULL;
}

void dz_e2b_processes(struct dz_http_req *r, void *api)
{
    if (dz_e2b_body(r))
        seek(api, r, (struct seeking){.selector = NULL});
}

void dz_e2b_attach(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_envelope(r);
    const json_t *selector = member(o, "process");
    if (!o)
        return;
    if (is_selector(selector))
        seek(api, r, (struct seeking){.selector = selector, .attach = true});
    else
        dz_e2b_stream_fail(r, "invalid_argument", "process: must have a pid or a tag");
}

static void tell(struct dz_http_req *r, void *api, const json_t *o, struct dz_exec_send send)
{
    const json_t *selector = selector_of(r, o);
    if (selector)
        seek(api, r, (struct seeking){.selector = selector, .send = send});
}

/* The bytes of {"stdin"} or {"pty"}, in base64. */
static bool input_of(struct dz_arena *arena, const json_t *input, struct dz_str *ret)
{
    const json_t *v = member(input, "stdin");
    size_t n = 0;
    if (!v)
        v = member(input, "pty");
    struct dz_str text = dz_str_n(json_string_value(v), json_string_length(v));
    /* from the heap, because a request's arena is smaller than the largest input */
    char *bytes = json_is_string(v) ? dz_alloc(text.n / 4 * 3 + 3) : NULL;
    if (!bytes || dz_arena_defer(arena, dz_free, bytes) < 0 || !dz_e2b_unbase64(text, bytes, &n))
        return false;
    *ret = dz_str_n(bytes, n);
    return true;
}

void dz_e2b_input(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    struct dz_exec_send send = {.what = DZ_EXEC_SEND_INPUT};
    if (!o)
        return;
    if (input_of(dz_http_arena(r), member(o, "input"), &send.data))
        tell(r, api, o, send);
    else
        dz_e2b_refuse(r, DZ_EINVAL, 0, "input: must have base64 in \"stdin\" or \"pty\"");
}

void dz_e2b_input_end(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    if (o)
        tell(r, api, o, (struct dz_exec_send){.what = DZ_EXEC_SEND_INPUT_END});
}

void dz_e2b_signal(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    const json_t *v = member(o, "signal");
    const char *name = json_string_value(v);
    int64_t number = number_of(v);
    if (!o)
        return;
    if (name && strcmp(name, "SIGNAL_SIGKILL") == 0)
        number = SIGKILL;
    else if (name && strcmp(name, "SIGNAL_SIGTERM") == 0)
        number = SIGTERM;
    if (number == SIGKILL || number == SIGTERM)
        tell(r, api, o, (struct dz_exec_send){.what = DZ_EXEC_SEND_SIGNAL, .number = (int)number});
    else
        dz_e2b_refuse(r, DZ_EINVAL, 0, "signal: must be SIGNAL_SIGKILL or SIGNAL_SIGTERM");
}

void dz_e2b_update(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    struct dz_exec_send send = {.what = DZ_EXEC_SEND_RESIZE};
    if (!o)
        return;
    if (size_of(member(o, "pty"), &send.cols, &send.rows))
        tell(r, api, o, send);
    else
        dz_e2b_refuse(r, DZ_EINVAL, 0, "pty: must have a size of 1 to 4096");
}

/* --- StreamInput: a stream of input from the client
 * ----------------------------------------------- */

/* Messages are handled one by one: while one is under way, the body is not read. */
struct feeding {
    struct seeking seek; /* must be first: on_records has its address */
    struct dz_buf in;
    json_t *message; /* the one under way */
    bool sending;    /* the command has not taken the input yet */
    bool gone;       /* the client has left */
    bool body_over;
};

static void feeding_free(struct feeding *f)
{
    json_decref(f->message);
    dz_buf_release(&f->in);
    seeking_free(&f->seek);
}

static void feed_gone(void *arg)
{
    struct feeding *f = arg;
    f->gone = true;
    dz_file_op_cancel(f->seek.op);
    f->seek.op = NULL;
    if (!f->sending)
        feeding_free(f);
}

/* Answer, and free f. code NULL: success. */
static void feed_end(struct feeding *f, const char *code, const char *message)
{
    struct dz_http_req *r = dz_http_find(f->seek.api->http, f->seek.id);
    struct dz_buf out = DZ_BUF_INIT(DZ_LINE_MAX);
    if (!code)
        dz_e2b_put_envelope(&out, 0, DZ_STR("{}"));
    dz_e2b_put_end(&out, code, message);
    dz_http_on_gone(r, NULL, NULL);
    feeding_free(f);
    dz_http_send(r, 200, DZ_E2B_STREAM, &out);
    dz_buf_release(&out);
}

static void feed_fail(struct feeding *f, const struct dz_err *err)
{
    int status;
    const char *code = dz_e2b_code(err->code, &status);
    struct dz_err copy = *err;
    feed_end(f, code, copy.msg);
}

static bool feed_on(struct feeding *f);

/* The message under way is done. */
static void fed(struct feeding *f)
{
    struct dz_http *h = f->seek.api->http;
    uint64_t id = f->seek.id;
    json_decref(f->message);
    f->message = NULL;
    if (feed_on(f))
        dz_http_more(h, id);
}

static void feed_sent(void *arg, const struct dz_sandbox_result *result)
{
    struct feeding *f = arg;
    f->sending = false;
    if (f->gone)
        feeding_free(f);
    else if (result->code < 0)
        feed_fail(f, &result->why->err);
    else
        fed(f);
}

static void feed_found(void *arg, const struct dz_why *why, uint64_t count)
{
    struct feeding *f = arg;
    struct dz_err missing;
    (void)count;
    f->seek.op = NULL;
    (void)dz_fail(&missing, DZ_ENOENT, "process with pid %lld not found",
                  (long long)number_of(member(f->seek.selector, "pid")));
    if (why || !f->seek.running)
        feed_fail(f, why ? &why->err : &missing);
    else
        fed(f);
}

static const struct dz_file_op_ops feed_ops = {.data = on_records, .done = feed_found};

/* Begin with one message; negative: it is refused. */
static int feed_message(struct feeding *f, struct dz_err *err)
{
    const json_t *start = member(f->message, "start"), *data = member(f->message, "data");
    const struct dz_cell_op op = {.type = DZ_CELL_OP_EXECS, .limit = RECORDS};
    const struct dz_file_op_request request = {&op, false, DZ_ACTIVITY_REQUEST, &feed_ops, f};
    DZ_AUTO(dz_arena_release) struct dz_arena arena = DZ_ARENA_INIT(DZ_E2B_MESSAGE_MAX);
    struct dz_exec_send send = {.what = DZ_EXEC_SEND_INPUT, .exec_id = f->seek.exec_id};
    struct dz_why why = {0};
    int rc = 0;
    if (start && !is_selector(member(start, "process"))) {
        return dz_fail(err, DZ_EINVAL, "start: must have a process with a pid or a tag");
    } else if (start) {
        f->seek.selector = member(start, "process");
        f->seek.found = f->seek.running = false;
        rc = dz_control_op(f->seek.api->control, f->seek.target, &request, &f->seek.op, &why);
    } else if (data && !f->seek.running) {
        return dz_fail(err, DZ_EINVAL, "the first message must be \"start\"");
    } else if (data && !input_of(&arena, member(data, "input"), &send.data)) {
        return dz_fail(err, DZ_EINVAL, "input: must have base64 in \"stdin\" or \"pty\"");
    } else if (data) {
        f->sending = true;
        rc = dz_control_exec_send(f->seek.api->control, f->seek.target, &send, feed_sent, f, &why);
        f->sending = rc == 0;
    } else { /* a keepalive */
        json_decref(f->message);
        f->message = NULL;
    }
    *err = why.err;
    return rc;
}

/* Handle the messages that have come. False: f is freed. */
static bool feed_on(struct feeding *f)
{
    struct dz_str text;
    struct dz_why why = {0};
    int n = 0;
    while (!f->message && (n = dz_e2b_unwrap(f->in.p, f->in.len, &text, &why.err)) > 0) {
        f->message = dz_api_load(text, 0, &why);
        f->in.len -= (size_t)n;
        memmove(f->in.p, f->in.p + n, f->in.len);
        f->in.p[f->in.len] = '\0';
        n = f->message ? feed_message(f, &why.err) : why.err.code;
        if (n < 0)
            break;
    }
    if (n < 0)
        feed_fail(f, &why.err);
    else if (f->message || !f->body_over)
        return true;
    else if (f->in.len > 0)
        feed_end(f, "invalid_argument", "the last message is not complete");
    else
        feed_end(f, NULL, NULL);
    return false;
}

static ssize_t feed_push(void *arg, const char *p, size_t n)
{
    struct feeding *f = arg;
    size_t room = f->message ? 0 : f->in.max - f->in.len, part = n < room ? n : room;
    dz_buf_add(&f->in, p, part);
    if (f->in.err) {
        feed_end(f, "unavailable", "out of memory");
        return -1;
    }
    if (f->in.len > DZ_HELD_FREE &&
        !dz_http_reserve(dz_http_find(f->seek.api->http, f->seek.id), f->in.len)) {
        feed_end(f, "resource_exhausted", "too many bytes of the tenant are in progress");
        return -1;
    }
    return feed_on(f) ? (ssize_t)part : -1;
}

static void feed_over(void *arg)
{
    struct feeding *f = arg;
    f->body_over = true;
    (void)feed_on(f);
}

static const struct dz_http_sink feed_sink = {feed_push, feed_over};

void dz_e2b_stream_input(struct dz_http_req *r, void *api)
{
    struct dz_control_target target;
    struct feeding *f;
    if (!dz_e2b_use(api, r, &target))
        return;
    if (!(f = dz_zalloc(sizeof *f))) {
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
        return;
    }
    f->seek.api = api;
    f->seek.id = dz_http_id(r);
    f->seek.target = target;
    dz_api_begin(&f->seek.out);
    f->in = (struct dz_buf)DZ_BUF_INIT(DZ_E2B_MESSAGE_MAX);
    dz_http_on_gone(r, feed_gone, f);
    dz_http_receive(r, &feed_sink, f);
}
