/* SPDX-License-Identifier: MIT
 *
 * What `doze mcp` offers: the tools as one table, and files of sandboxes as resources.
 *
 * A tool's arguments are checked against the JSON schema in its row before it runs. What goes wrong
 * in a tool is a result with isError, which the agent reads; only a tool that does not exist is an
 * error of the protocol. Resources have no such result: their errors are the protocol's.
 */
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_mcp.h"
#include "cli/cli_signal.h"

#include <stdlib.h>
#include <string.h>

enum {
    COMMAND_SECONDS = 120,    /* the time limit of a command that sets none */
    OUTPUT_DEFAULT = 64 << 10 /* bytes of each stream in an answer */
};

/* --- requests to the daemon ------------------------------------------------------------------- */

/* Send a request; takes body. */
#define ask(call, method, body, ret_answer, err, ...)                                   \
    ({                                                                                  \
        DZ_AUTO(dz_buf_release) struct dz_buf target_ = DZ_BUF_INIT(DZ_CLI_TARGET_MAX); \
        dz_client_target(&target_, __VA_ARGS__);                                        \
        ask_target((call), (method), &target_, (body), (ret_answer), (err));            \
    })

static int ask_target(struct dz_mcp_call *call, const char *method, const struct dz_buf *target,
                      json_t *body, json_t **ret_answer, struct dz_err *err)
{
    if (target->err) {
        json_decref(body);
        return dz_fail(err, DZ_ELIMIT, "the names are too long");
    }
    return dz_client_json(call->client, method, target->p, body, ret_answer, err);
}

static const char *text_of(const json_t *args, const char *name)
{
    return json_string_value(json_object_get(args, name));
}

/* Copy a member of args into a body, under the name that the API has for it. */
static void pass(json_t *body, const json_t *args, const char *name, const char *as)
{
    json_t *value = json_object_get(args, name);
    if (value)
        (void)json_object_set_new(body, as, json_deep_copy(value));
}

/* The members of a sandbox that an agent can use. */
static json_t *brief(const json_t *sandbox)
{
    static const char *const shown[] = {"id",         "name",      "state",          "image",
                                        "kind",       "labels",    "metadata",       "memory_bytes",
                                        "created_at", "timeout",   "last_active_at", "ports",
                                        "volumes",    "expires_at"};
    json_t *o = json_object();
    for (size_t i = 0; i < DZ_ARRAY_LEN(shown); i++) {
        json_t *value = json_object_get(sandbox, shown[i]);
        if (value && !json_is_null(value))
            (void)json_object_set_new(o, shown[i], json_deep_copy(value));
    }
    return o;
}

static json_t *brief_all(const json_t *list)
{
    json_t *out = json_array(), *item;
    size_t i;
    json_array_foreach(list, i, item)(void) json_array_append_new(out, brief(item));
    return out;
}

/* --- tools --------------------------------------------------------------------------------------
 */

/* A tool's result: `object` for programs, and `text` for the model; without text, the object is
 * both. */
struct result {
    json_t *object;
    json_t *text;
};

/* Takes answer. */
static void set_brief(struct result *r, json_t *answer)
{
    r->object = brief(answer);
    json_decref(answer);
}

static int create_sandbox(struct dz_mcp_call *call, const json_t *args, struct result *r,
                          struct dz_err *err)
{
    static const char *const same[] = {"image", "snapshot", "name",   "memory",
                                       "env",   "labels",   "volumes"};
    json_t *body = json_object(), *answer = NULL, *port;
    const char *after = text_of(args, "timeout"), *action = text_of(args, "on_timeout");
    size_t i;
    for (i = 0; i < DZ_ARRAY_LEN(same); i++)
        pass(body, args, same[i], same[i]);
    if (!json_object_get(body, "image") && !json_object_get(body, "snapshot"))
        (void)json_object_set_new(body, "image", json_string("base"));
    if (after)
        (void)json_object_set_new(
            body, "timeout",
            json_pack("{s:s,s:s}", "after", after, "action", action ? action : "destroy"));
    if (json_object_get(args, "ports"))
        (void)json_object_set_new(body, "ports", json_array());
    json_array_foreach(json_object_get(args, "ports"), i, port)(void)
        json_array_append_new(json_object_get(body, "ports"), json_pack("{s:O}", "target", port));
    int rc = ask(call, "POST", body, &answer, err, "/v1/sandboxes");
    if (rc >= 0)
        set_brief(r, answer);
    return rc < 0 ? rc : 0;
}

static int list_sandboxes(struct dz_mcp_call *call, const json_t *args, struct result *r,
                          struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *answer = NULL;
    dz_buf_adds(&target, "/v1/sandboxes?limit=100");
    dz_client_target_add(&target, "state", text_of(args, "state"));
    dz_client_target_add(&target, "label", text_of(args, "label"));
    dz_client_target_add(&target, "cursor", text_of(args, "cursor"));
    int rc = ask_target(call, "GET", &target, NULL, &answer, err);
    if (rc < 0)
        return rc;
    r->object = json_pack("{s:o,s:O}", "sandboxes", brief_all(json_object_get(answer, "sandboxes")),
                          "next_cursor", json_object_get(answer, "next_cursor"));
    json_decref(answer);
    return 0;
}

static int get_sandbox(struct dz_mcp_call *call, const json_t *args, struct result *r,
                       struct dz_err *err)
{
    json_t *answer = NULL;
    int rc = ask(call, "GET", NULL, &answer, err, "/v1/sandboxes/{}", text_of(args, "sandbox"));
    if (rc >= 0)
        set_brief(r, answer);
    return rc < 0 ? rc : 0;
}

static int delete_sandbox(struct dz_mcp_call *call, const json_t *args, struct result *r,
                          struct dz_err *err)
{
    int rc = ask(call, "DELETE", NULL, NULL, err, "/v1/sandboxes/{}?force=true",
                 text_of(args, "sandbox"));
    if (rc >= 0)
        r->object = json_pack("{s:s}", "deleted", text_of(args, "sandbox"));
    return rc < 0 ? rc : 0;
}

static int sleep_sandbox(struct dz_mcp_call *call, const json_t *args, struct result *r,
                         struct dz_err *err)
{
    json_t *answer = NULL;
    int rc = ask(call, "POST", json_object(), &answer, err, "/v1/sandboxes/{}/suspend",
                 text_of(args, "sandbox"));
    if (rc >= 0)
        set_brief(r, answer);
    return rc < 0 ? rc : 0;
}

static int wake_sandbox(struct dz_mcp_call *call, const json_t *args, struct result *r,
                        struct dz_err *err)
{
    int rc = ask(call, "POST", json_object(), &r->object, err, "/v1/sandboxes/{}/wake",
                 text_of(args, "sandbox"));
    if (rc >= 0)
        (void)json_object_del(r->object, "vfs_path"); /* a path of the daemon's machine */
    return rc < 0 ? rc : 0;
}

static int fork_sandbox(struct dz_mcp_call *call, const json_t *args, struct result *r,
                        struct dz_err *err)
{
    json_t *body = json_pack("{s:i}", "count", 1), *answer = NULL;
    pass(body, args, "count", "count");
    int rc =
        ask(call, "POST", body, &answer, err, "/v1/sandboxes/{}/fork", text_of(args, "sandbox"));
    if (rc < 0)
        return rc;
    r->object = json_pack("{s:o}", "sandboxes", brief_all(json_object_get(answer, "sandboxes")));
    json_decref(answer);
    return 0;
}

static int snapshot_sandbox(struct dz_mcp_call *call, const json_t *args, struct result *r,
                            struct dz_err *err)
{
    json_t *body = json_object();
    pass(body, args, "name", "name");
    pass(body, args, "expires_in", "expires_in");
    int rc = ask(call, "POST", body, &r->object, err, "/v1/sandboxes/{}/snapshot",
                 text_of(args, "sandbox"));
    return rc < 0 ? rc : 0;
}

/* Open the port unless it is open, and make a token unless it is public. */
static int preview_url(struct dz_mcp_call *call, const json_t *args, struct result *r,
                       struct dz_err *err)
{
    const char *sandbox = text_of(args, "sandbox");
    const json_int_t port = json_integer_value(json_object_get(args, "port"));
    json_t *body = json_pack("{s:I}", "target", port), *open = NULL, *token = NULL, *item;
    char number[24];
    size_t i;
    (void)snprintf(number, sizeof number, "%lld", (long long)port);
    pass(body, args, "public", "public");
    int rc = ask(call, "POST", body, &open, err, "/v1/sandboxes/{}/ports", sandbox);
    if (rc == DZ_EEXIST) {
        json_t *all = NULL;
        rc = ask(call, "GET", NULL, &all, err, "/v1/sandboxes/{}/ports", sandbox);
        json_array_foreach(json_object_get(all, "ports"), i,
                           item) if (json_integer_value(json_object_get(item, "target")) == port)
            open = json_incref(item);
        json_decref(all);
        if (rc >= 0 && !open)
            rc = dz_fail(err, DZ_ENOENT, "port %s was closed meanwhile", number);
    }
    if (rc >= 0 && !json_is_true(json_object_get(open, "public")))
        rc = ask(call, "POST", json_object(), &token, err, "/v1/sandboxes/{}/previews/{}/tokens",
                 sandbox, number);
    if (rc >= 0) {
        r->object = json_deep_copy(open);
        pass(r->object, token, "token", "token");
        if (token)
            (void)json_object_set_new(
                r->object, "note",
                json_string("visitors send the token in the header Doze-Preview-Token, or once as "
                            "?doze_token=TOKEN; path is below any address of the daemon"));
    }
    json_decref(open);
    json_decref(token);
    return rc < 0 ? rc : 0;
}

/* --- run_command
 * ---------------------------------------------------------------------------------- */

struct running {
    struct dz_mcp_call *call;
    struct dz_buf out[2]; /* standard output, error */
    size_t most;
    char exec_id[64];
    json_t *exit;
    bool truncated;
};

/* The digits of RFC 4648, -1 for others. */
static int digit64(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static int decode64(struct dz_str text, struct dz_buf *out, struct dz_err *err)
{
    unsigned bits = 0, value = 0;
    while (text.n && text.p[text.n - 1] == '=')
        text.n--;
    for (size_t i = 0; i < text.n; i++) {
        int digit = digit64(text.p[i]);
        if (digit < 0)
            return dz_fail(err, DZ_EINVAL, "content: is not base64");
        value = (value << 6) | (unsigned)digit;
        bits += 6;
        if (bits >= 8) {
            const char byte = (char)(value >> (bits -= 8));
            dz_buf_add(out, &byte, 1);
        }
        value &= 0xffff;
    }
    return out->err ? dz_fail(err, out->err, "content: is too large") : 0;
}

static int on_output(struct running *x, int stream, const json_t *data, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf raw = DZ_BUF_INIT(DZ_MCP_LINE_MAX);
    const json_t *encoded = json_object_get(data, "base64"), *text = json_object_get(data, "text");
    struct dz_str bytes = dz_str_n(json_string_value(text), json_string_length(text));
    if (encoded) {
        int rc = decode64(dz_str(json_string_value(encoded)), &raw, err);
        if (rc < 0)
            return rc;
        bytes = dz_str_n(raw.p, raw.len);
    }
    struct dz_buf *kept = &x->out[stream];
    size_t room = x->most - kept->len;
    dz_buf_add(kept, bytes.p, bytes.n < room ? bytes.n : room);
    x->truncated = x->truncated || bytes.n > room;
    dz_mcp_progress(x->call, bytes);
    return 0;
}

static int on_event(void *arg, const struct dz_client_event *e, struct dz_err *err)
{
    struct running *x = arg;
    json_t *data = json_loadb(e->data.p, e->data.n, JSON_ALLOW_NUL, NULL);
    int rc = 0;
    if (strcmp(e->event, "start") == 0)
        (void)snprintf(x->exec_id, sizeof x->exec_id, "%s", dz_cli_text(data, "exec_id"));
    else if (strcmp(e->event, "stdout") == 0)
        rc = on_output(x, 0, data, err);
    else if (strcmp(e->event, "stderr") == 0)
        rc = on_output(x, 1, data, err);
    else if (strcmp(e->event, "exit") == 0)
        x->exit = json_incref(data);
    else if (strcmp(e->event, "error") == 0)
        rc = dz_client_problem_of(x->call->client, data, 0, err);
    json_decref(data);
    return rc;
}

/* Text for the model: the output, then what is unusual about the end. */
static json_t *say_result(const struct running *x)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_MCP_LINE_MAX);
    const json_t *code = json_object_get(x->exit, "exit_code");
    dz_buf_add(&text, x->out[0].p, x->out[0].len);
    if (x->out[1].len)
        dz_buf_addf(&text, "%s[stderr]\n", text.len && text.p[text.len - 1] != '\n' ? "\n" : "");
    dz_buf_add(&text, x->out[1].p, x->out[1].len);
    if (text.len && text.p[text.len - 1] != '\n')
        dz_buf_adds(&text, "\n");
    if (x->truncated)
        dz_buf_adds(&text, "[output cut: redirect it to a file and read parts]\n");
    if (json_is_true(json_object_get(x->exit, "timed_out")))
        dz_buf_adds(&text, "[killed: the time limit is over]\n");
    else if (!json_is_integer(code))
        dz_buf_addf(&text, "[ended by signal %s]\n", dz_cli_text(x->exit, "signal"));
    else
        dz_buf_addf(&text, "[exit code %lld]\n", (long long)json_integer_value(code));
    return dz_mcp_string(dz_str_n(text.p, text.len));
}

/* The request was cancelled: so is its command. */
static void kill_command(struct dz_mcp_call *call, const char *sandbox, const char *exec_id)
{
    struct dz_err err;
    dz_client_stop(call->client, NULL);
    int rc = ask(call, "POST", json_pack("{s:s}", "signal", "KILL"), NULL, &err,
                 "/v1/sandboxes/{}/exec/{}/signal", sandbox, exec_id);
    (void)rc; /* the command may have ended already */
}

static json_t *command_request(const json_t *args, struct dz_err *err)
{
    static const char *const same[] = {"cwd", "env", "user", "stdin", "background"};
    json_t *body = json_object(), *line = json_object_get(args, "command"),
           *words = json_object_get(args, "args"), *seconds = json_object_get(args, "timeout");
    if (!line == !words) {
        (void)dz_fail(err, DZ_EINVAL, "give either command, a line for the shell, or args");
        json_decref(body);
        return NULL;
    }
    pass(body, args, line ? "command" : "args", line ? "shell" : "cmd");
    for (size_t i = 0; i < DZ_ARRAY_LEN(same); i++)
        pass(body, args, same[i], same[i]);
    if (seconds)
        (void)json_object_set_new(body, "timeout", json_incref(seconds));
    else if (!json_is_true(json_object_get(args, "background")))
        (void)json_object_set_new(body, "timeout", json_integer(COMMAND_SECONDS));
    return body;
}

static int follow_command(struct dz_mcp_call *call, const json_t *args, const json_t *body,
                          struct running *x, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    struct dz_client_req req = {.method = "POST", .timeout_ms = -1};
    char *text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return dz_fail(err, DZ_ENOMEM, "write a request: out of memory");
    dz_client_target(&target, "/v1/sandboxes/{}/exec", text_of(args, "sandbox"));
    req.target = target.p;
    req.body = dz_str(text);
    int rc = target.err ? dz_fail(err, target.err, "sandbox: the name is too long")
                        : dz_client_events(call->client, &req, on_event, x, err);
    free(text); /* jansson's */
    if (rc == DZ_ECANCELED && x->exec_id[0])
        kill_command(call, text_of(args, "sandbox"), x->exec_id);
    if (rc == 0 && !x->exit)
        rc = dz_fail(err, DZ_EGONE, "the daemon closed the connection before the command ended");
    return rc;
}

static int run_command(struct dz_mcp_call *call, const json_t *args, struct result *r,
                       struct dz_err *err)
{
    json_t *most = json_object_get(args, "max_output_bytes");
    struct running x = {.call = call,
                        .out = {DZ_BUF_INIT(DZ_MCP_OUTPUT_MAX), DZ_BUF_INIT(DZ_MCP_OUTPUT_MAX)},
                        .most = most ? (size_t)json_integer_value(most) : OUTPUT_DEFAULT};
    json_t *body = command_request(args, err);
    if (!body)
        return DZ_EINVAL;
    if (json_is_true(json_object_get(body, "background"))) {
        int started = ask(call, "POST", body, &r->object, err, "/v1/sandboxes/{}/exec",
                          text_of(args, "sandbox"));
        return started < 0 ? started : 0;
    }
    int rc = follow_command(call, args, body, &x, err);
    json_decref(body);
    if (rc == 0) {
        r->object = json_deep_copy(x.exit);
        (void)json_object_set_new(r->object, "truncated", json_boolean(x.truncated));
        (void)json_object_set_new(r->object, "stdout",
                                  dz_mcp_string(dz_str_n(x.out[0].p, x.out[0].len)));
        (void)json_object_set_new(r->object, "stderr",
                                  dz_mcp_string(dz_str_n(x.out[1].p, x.out[1].len)));
        r->text = say_result(&x);
    }
    json_decref(x.exit);
    dz_buf_release(&x.out[0]);
    dz_buf_release(&x.out[1]);
    return rc;
}

/* --- files
 * ---------------------------------------------------------------------------------------- */

/* A part of a file. */
struct part {
    const char *sandbox, *path;
    int64_t offset, length; /* length 0: to the end of the file */
};

static int fetch(struct dz_mcp_call *call, const struct part *f, struct dz_buf *out,
                 struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    char range[80] = "";
    dz_client_target(&target, "/v1/sandboxes/{}/files?path={}", f->sandbox, f->path);
    if (target.err)
        return dz_fail(err, target.err, "path: is too long");
    if (f->length)
        (void)snprintf(range, sizeof range, "Range: bytes=%lld-%lld\r\n", (long long)f->offset,
                       (long long)(f->offset + f->length - 1));
    else if (f->offset)
        (void)snprintf(range, sizeof range, "Range: bytes=%lld-\r\n", (long long)f->offset);
    const struct dz_client_req req = {
        .method = "GET", .target = target.p, .accept = "*/*", .headers = range, .timeout_ms = -1};
    int rc = dz_client_begin(call->client, &req, err);
    if (rc < 0)
        return rc;
    if (dz_client_size(call->client) > DZ_MCP_FILE_MAX)
        return dz_fail(err, DZ_ELIMIT,
                       "%s has %lld bytes, and an answer at most %d: read parts of it with offset "
                       "and length",
                       f->path, (long long)dz_client_size(call->client), DZ_MCP_FILE_MAX);
    rc = dz_client_read_all(call->client, out, err);
    return rc < 0 ? rc : 0;
}

static json_t *encode64(const struct dz_buf *data)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_MCP_LINE_MAX);
    dz_buf_add_base64(&text, data->p, data->len);
    return text.err ? NULL : json_stringn(text.p, text.len);
}

static bool is_text(const struct dz_buf *data)
{
    return dz_str_is_utf8(dz_str_n(data->p, data->len)) && !memchr(data->p, 0, data->len);
}

static int read_file(struct dz_mcp_call *call, const json_t *args, struct result *r,
                     struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf data = DZ_BUF_INIT(DZ_MCP_FILE_MAX);
    const struct part part = {.sandbox = text_of(args, "sandbox"),
                              .path = text_of(args, "path"),
                              .offset = json_integer_value(json_object_get(args, "offset")),
                              .length = json_integer_value(json_object_get(args, "length"))};
    int rc = fetch(call, &part, &data, err);
    if (rc < 0)
        return rc;
    bool text = is_text(&data);
    r->object = json_pack("{s:s,s:s,s:I,s:o}", "path", text_of(args, "path"), "encoding",
                          text ? "utf-8" : "base64", "size_bytes", (json_int_t)data.len, "content",
                          text ? dz_mcp_string(dz_str_n(data.p, data.len)) : encode64(&data));
    if (text)
        r->text = dz_mcp_string(dz_str_n(data.p, data.len));
    return 0;
}

static int write_file(struct dz_mcp_call *call, const json_t *args, struct result *r,
                      struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf raw = DZ_BUF_INIT(DZ_MCP_LINE_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf none = DZ_BUF_INIT(DZ_LINE_MAX);
    const json_t *content = json_object_get(args, "content");
    const char *encoding = text_of(args, "encoding");
    struct dz_client_req req = {
        .method = "PUT", .type = "application/octet-stream", .timeout_ms = -1};
    req.body = dz_str_n(json_string_value(content), json_string_length(content));
    if (encoding && strcmp(encoding, "base64") == 0) {
        int rc = decode64(req.body, &raw, err);
        if (rc < 0)
            return rc;
        req.body = dz_str_n(raw.p, raw.len);
    }
    dz_client_target(&target, "/v1/sandboxes/{}/files?path={}", text_of(args, "sandbox"),
                     text_of(args, "path"));
    dz_client_target_add(&target, "mode", text_of(args, "mode"));
    req.target = target.p;
    if (json_is_true(json_object_get(args, "exclusive")))
        req.headers = "If-None-Match: *\r\n";
    int rc = target.err ? dz_fail(err, target.err, "path: is too long")
                        : dz_client_call(call->client, &req, &none, err);
    if (rc >= 0)
        r->object = json_pack("{s:s,s:I}", "path", text_of(args, "path"), "written_bytes",
                              (json_int_t)req.body.n);
    return rc < 0 ? rc : 0;
}

static int list_directory(struct dz_mcp_call *call, const char *sandbox, const char *path,
                          json_int_t depth, json_t **ret_list, struct dz_err *err)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)(depth ? depth : 1));
    int rc = ask(call, "GET", NULL, ret_list, err,
                 "/v1/sandboxes/{}/files/list?path={}&depth={}&limit=2000", sandbox, path, text);
    return rc < 0 ? rc : 0;
}

static int list_files(struct dz_mcp_call *call, const json_t *args, struct result *r,
                      struct dz_err *err)
{
    const char *path = text_of(args, "path");
    return list_directory(call, text_of(args, "sandbox"), path ? path : "/workspace",
                          json_integer_value(json_object_get(args, "depth")), &r->object, err);
}

/* --- the table
 * --------------------------------------------------------------------------------------- */

#define SANDBOX      "\"sandbox\":{\"type\":\"string\",\"description\":\"id or name of the sandbox\"}"
#define PATH         "\"path\":{\"type\":\"string\",\"description\":\"absolute path\"}"
#define STRINGS      "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}"
#define ONLY_SANDBOX "{" SANDBOX "},\"required\":[\"sandbox\"]"
#define CREATE                                                                                     \
    "{\"image\":{\"type\":\"string\",\"description\":\"image to start from; default: base\"},"     \
    "\"snapshot\":{\"type\":\"string\",\"description\":\"snapshot to start from, instead of an "   \
    "image\"},"                                                                                    \
    "\"name\":{\"type\":\"string\",\"description\":\"unique name\"},"                              \
    "\"memory\":{\"type\":\"string\",\"description\":\"limit, for instance 512MB\"},"              \
    "\"env\":" STRINGS ",\"description\":\"variables of its commands\"},"                          \
    "\"labels\":" STRINGS "},"                                                                     \
    "\"ports\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"description\":\"ports to "   \
    "open to visitors\"},"                                                                         \
    "\"volumes\":{\"type\":\"array\",\"items\":{\"type\":\"object\"},\"description\":\"mounts: "   \
    "{name, path, mode}\"},"                                                                       \
    "\"timeout\":{\"type\":\"string\",\"description\":\"how long it may run, for instance 30m\"}," \
    "\"on_timeout\":{\"type\":\"string\",\"enum\":[\"destroy\",\"pause\"]}}"
#define RUN                                                                                   \
    "{" SANDBOX ",\"command\":{\"type\":\"string\",\"description\":\"line for /bin/sh -c\"}," \
    "\"args\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"program " \
    "and arguments, instead of command\"},"                                                   \
    "\"cwd\":{\"type\":\"string\"},\"env\":" STRINGS "},\"user\":{\"type\":\"string\"},"      \
    "\"stdin\":{\"type\":\"string\",\"description\":\"text of its standard input\"},"         \
    "\"timeout\":{\"type\":\"number\",\"minimum\":0.1,\"maximum\":604800,\"description\":"    \
    "\"seconds after which it is killed; default: 120\"},"                                    \
    "\"background\":{\"type\":\"boolean\",\"description\":\"return at once, for servers\"},"  \
    "\"max_output_bytes\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":1048576,"           \
    "\"description\":\"of each stream; default: 65536\"}},\"required\":[\"sandbox\"]"
#define WRITE                                                                                       \
    "{" SANDBOX "," PATH ",\"content\":{\"type\":\"string\"},"                                      \
    "\"encoding\":{\"type\":\"string\",\"enum\":[\"utf-8\",\"base64\"]},"                           \
    "\"mode\":{\"type\":\"string\",\"pattern\":\"^[0-7]{3,4}$\",\"description\":\"such as 0755\"}," \
    "\"exclusive\":{\"type\":\"boolean\",\"description\":\"fail if the file exists\"}},"            \
    "\"required\":[\"sandbox\",\"path\",\"content\"]"

enum {
    READS = 1,    /* changes nothing */
    DESTROYS = 2, /* what it changes cannot be had back */
};

static const struct tool {
    const char *name, *description;
    const char *schema; /* its properties, and what follows them in the schema */
    unsigned flags;
    int (*run)(struct dz_mcp_call *call, const json_t *args, struct result *r, struct dz_err *err);
} tools[] = {
    {"create_sandbox", "Create a sandbox and start it. It stays until it is deleted.", CREATE, 0,
     create_sandbox},
    {"list_sandboxes", "List sandboxes, a hundred at a time.",
     "{\"state\":{\"type\":\"string\",\"enum\":[\"created\",\"active\",\"suspended\",\"frozen\","
     "\"archived\"]},\"label\":{\"type\":\"string\",\"description\":\"KEY=VALUE, or KEY\"},"
     "\"cursor\":{\"type\":\"string\",\"description\":\"next_cursor of the page before\"}}",
     READS, list_sandboxes},
    {"get_sandbox", "Show a sandbox.", ONLY_SANDBOX, READS, get_sandbox},
    {"run_command",
     "Run a command in a sandbox, wake it if it sleeps, and return output and exit code.", RUN,
     DESTROYS, run_command},
    {"read_file", "Read a file of a sandbox: text, or base64 if it is not text.",
     "{" SANDBOX "," PATH ",\"offset\":{\"type\":\"integer\",\"minimum\":0},\"length\":{\"type\":"
     "\"integer\",\"minimum\":1,\"maximum\":2097152}},\"required\":[\"sandbox\",\"path\"]",
     READS, read_file},
    {"write_file", "Create or replace a file of a sandbox, with missing directories.", WRITE,
     DESTROYS, write_file},
    {"list_files", "List a directory of a sandbox; default: /workspace.",
     "{" SANDBOX "," PATH ",\"depth\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":64}},"
     "\"required\":[\"sandbox\"]",
     READS, list_files},
    {"fork_sandbox", "Start copies of a sandbox that continue from this instant.",
     "{" SANDBOX ",\"count\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100}},"
     "\"required\":[\"sandbox\"]",
     0, fork_sandbox},
    {"snapshot_sandbox", "Store a sandbox as it is now. create_sandbox starts others from it.",
     "{" SANDBOX ",\"name\":{\"type\":\"string\"},\"expires_in\":{\"type\":\"string\","
     "\"description\":\"delete it after this long, for instance 7d\"}},\"required\":[\"sandbox\"]",
     0, snapshot_sandbox},
    {"sleep_sandbox", "Suspend a sandbox with its processes. Its next use wakes it.", ONLY_SANDBOX,
     0, sleep_sandbox},
    {"wake_sandbox", "Wake a sandbox now.", ONLY_SANDBOX, 0, wake_sandbox},
    {"preview_url",
     "Open a port of a sandbox to visitors, and return its URL, and a token unless it is public.",
     "{" SANDBOX ",\"port\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":65535},\"public\":{"
     "\"type\":\"boolean\"}},\"required\":[\"sandbox\",\"port\"]",
     0, preview_url},
    {"delete_sandbox", "Delete a sandbox with all its files. Snapshots of it stay.", ONLY_SANDBOX,
     DESTROYS, delete_sandbox},
};

static json_t *schema_of(const struct tool *t)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_IO_PIECE);
    dz_buf_addf(&text, "{\"type\":\"object\",\"properties\":%s,\"additionalProperties\":false}",
                t->schema);
    return json_loadb(text.p, text.len, 0, NULL);
}

json_t *dz_mcp_tools(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < DZ_ARRAY_LEN(tools); i++) {
        const struct tool *t = &tools[i];
        (void)json_array_append_new(
            list, json_pack("{s:s,s:s,s:o,s:{s:b,s:b,s:b}}", "name", t->name, "description",
                            t->description, "inputSchema", schema_of(t), "annotations",
                            "readOnlyHint", (int)(t->flags & READS), "destructiveHint",
                            (int)(t->flags & DESTROYS), "openWorldHint", t->run == run_command));
    }
    return json_pack("{s:o}", "tools", list);
}

/* --- arguments
 * ---------------------------------------------------------------------------------------- */

static bool has_type(const json_t *value, const char *type)
{
    return strcmp(type, "string") == 0    ? json_is_string(value)
           : strcmp(type, "integer") == 0 ? json_is_integer(value)
           : strcmp(type, "number") == 0  ? json_is_number(value)
           : strcmp(type, "boolean") == 0 ? json_is_boolean(value)
           : strcmp(type, "array") == 0   ? json_is_array(value)
                                          : json_is_object(value);
}

static int check_value(const char *name, const json_t *value, const json_t *schema,
                       struct dz_err *err)
{
    const char *type = dz_cli_text(schema, "type");
    const json_t *least = json_object_get(schema, "minimum"),
                 *most = json_object_get(schema, "maximum"), *word,
                 *words = json_object_get(schema, "enum"), *item,
                 *items = json_object_get(schema, "items");
    double number = json_number_value(value);
    bool found = !words;
    size_t i;
    if (!has_type(value, type))
        return dz_fail(err, DZ_EINVAL, "%s: must be of the type %s", name, type);
    if (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value) &&
        strcmp(name, "content") != 0 && strcmp(name, "stdin") != 0)
        return dz_fail(err, DZ_EINVAL, "%s: must not contain a NUL character", name);
    if ((least && number < json_number_value(least)) || (most && number > json_number_value(most)))
        return dz_fail(err, DZ_EINVAL, "%s: must be from %g to %g", name, json_number_value(least),
                       json_number_value(most));
    json_array_foreach(words, i, word) found = found || json_equal(word, value);
    if (!found)
        return dz_fail(err, DZ_EINVAL, "%s: must be one of the words in the tool's schema", name);
    json_array_foreach(value, i, item)
    {
        int rc = check_value(name, item, items, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int check_args(const struct tool *t, json_t *args, struct dz_err *err)
{
    json_t *schema = schema_of(t), *properties = json_object_get(schema, "properties"), *value;
    const json_t *name;
    const char *key;
    size_t i;
    int rc = schema ? 0 : dz_fail(err, DZ_ENOMEM, "check the arguments: out of memory");
    if (rc == 0 && args && !json_is_object(args))
        rc = dz_fail(err, DZ_EINVAL, "arguments: must be an object");
    json_object_foreach(args, key, value)
    {
        const json_t *wanted = json_object_get(properties, key);
        if (rc == 0)
            rc = wanted ? check_value(key, value, wanted, err)
                        : dz_fail(err, DZ_EINVAL, "%.60s: unknown argument", key);
    }
    json_array_foreach(json_object_get(schema, "required"), i,
                       name) if (rc == 0 && !json_object_get(args, json_string_value(name))) rc =
        dz_fail(err, DZ_EINVAL, "%s: is missing", json_string_value(name));
    json_decref(schema);
    return rc;
}

/* --- tools/call
 * ---------------------------------------------------------------------------------------- */

static json_t *failure(const struct dz_mcp_call *call, int rc, const char *text)
{
    DZ_AUTO(dz_buf_release) struct dz_buf line = DZ_BUF_INIT(DZ_LINE_MAX);
    const struct dz_client_problem *p = dz_client_problem(call->client);
    const char *code = p->code[0] ? p->code : dz_err_wire(rc);
    dz_buf_addf(&line, "%s%s%s: %s", code, p->reason[0] ? ", " : "", p->reason, text);
    return json_pack("{s:[{s:s,s:o}],s:b}", "content", "type", "text", "text",
                     dz_mcp_string(dz_str_n(line.p, line.len)), "isError", 1);
}

static json_t *success(struct result *r)
{
    if (!r->text) {
        char *text = json_dumps(r->object, JSON_COMPACT);
        r->text = text ? json_string(text) : NULL;
        free(text); /* jansson's */
    }
    return json_pack("{s:[{s:s,s:o}],s:o}", "content", "type", "text", "text", r->text,
                     "structuredContent", r->object);
}

static int call_tool(struct dz_mcp_call *call, json_t **ret_result, struct dz_err *err)
{
    const char *name = dz_cli_text(call->params, "name");
    json_t *args = json_object_get(call->params, "arguments");
    struct result r = {0};
    const struct tool *t = NULL;
    for (size_t i = 0; i < DZ_ARRAY_LEN(tools); i++)
        if (strcmp(tools[i].name, name) == 0)
            t = &tools[i];
    if (!t) {
        (void)dz_fail(err, DZ_ENOENT, "there is no tool %.60s", name);
        return DZ_MCP_PARAMS;
    }
    int rc = check_args(t, args, err);
    if (rc == 0)
        rc = t->run(call, args, &r, err);
    *ret_result = rc < 0 ? failure(call, rc, err->msg) : success(&r);
    return 0;
}

/* --- resources
 * ------------------------------------------------------------------------------------------ */

static int list_resources(struct dz_mcp_call *call, json_t **ret_result, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *answer = NULL, *list = json_array(), *sandbox;
    size_t i;
    dz_buf_adds(&target, "/v1/sandboxes?limit=100");
    dz_client_target_add(&target, "cursor", text_of(call->params, "cursor"));
    int rc = ask_target(call, "GET", &target, NULL, &answer, err);
    json_array_foreach(json_object_get(answer, "sandboxes"), i, sandbox)
    {
        DZ_AUTO(dz_buf_release) struct dz_buf uri = DZ_BUF_INIT(DZ_LINE_MAX);
        const char *name = dz_cli_text(sandbox, "name"), *id = dz_cli_text(sandbox, "id");
        dz_client_target(&uri, "doze://{}/workspace", id);
        (void)json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s}", "uri", uri.p, "name",
                                                    name[0] ? name : id, "description",
                                                    "the directory /workspace of this sandbox",
                                                    "mimeType", "application/json"));
    }
    if (rc < 0) {
        json_decref(list);
        return rc == DZ_EINVAL ? DZ_MCP_PARAMS : DZ_MCP_INTERNAL;
    }
    *ret_result = json_pack("{s:o}", "resources", list);
    const char *next = text_of(answer, "next_cursor");
    if (next)
        (void)json_object_set_new(*ret_result, "nextCursor", json_string(next));
    json_decref(answer);
    return 0;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool decode_percent(struct dz_str s, struct dz_buf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '%') {
            if (i + 2 >= s.n || hex(s.p[i + 1]) < 0 || hex(s.p[i + 2]) < 0)
                return false;
            c = (char)(hex(s.p[i + 1]) << 4 | hex(s.p[i + 2]));
            i += 2;
        }
        if (c == '\0')
            return false;
        dz_buf_add(out, &c, 1);
    }
    return out->err == 0;
}

/* The parts of doze://SANDBOX/PATH. */
static int split_uri(const char *uri, struct dz_buf *sandbox, struct dz_buf *path,
                     struct dz_err *err)
{
    struct dz_str rest = dz_str(uri);
    bool ours = dz_str_eat(&rest, DZ_STR("doze://"));
    size_t at = ours ? dz_str_find_char(rest, '/') : DZ_STR_NONE;
    if (at == DZ_STR_NONE || at == 0 || !decode_percent(dz_str_sub(rest, 0, at), sandbox) ||
        !decode_percent(dz_str_sub(rest, at, rest.n), path))
        return dz_fail(err, DZ_EINVAL, "uri: must be doze://SANDBOX/PATH");
    return 0;
}

static int read_resource(struct dz_mcp_call *call, json_t **ret_result, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf sandbox = DZ_BUF_INIT(DZ_LINE_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf path = DZ_BUF_INIT(DZ_PATH_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf data = DZ_BUF_INIT(DZ_MCP_FILE_MAX);
    const char *uri = text_of(call->params, "uri");
    json_t *list = NULL, *entry = NULL;
    if (split_uri(uri ? uri : "", &sandbox, &path, err) < 0)
        return DZ_MCP_PARAMS;
    const struct part whole = {.sandbox = sandbox.p, .path = path.p};
    int rc = fetch(call, &whole, &data, err);
    if (rc == DZ_EINVAL && list_directory(call, sandbox.p, path.p, 1, &list, err) == 0) {
        char *text = json_dumps(list, JSON_COMPACT);
        json_decref(list);
        entry = json_pack("{s:s,s:s,s:s}", "uri", uri, "mimeType", "application/json", "text",
                          text ? text : "");
        free(text); /* jansson's */
    } else if (rc < 0) {
        return rc == DZ_ENOENT ? DZ_MCP_NO_RESOURCE : DZ_MCP_INTERNAL;
    } else if (is_text(&data)) {
        entry = json_pack("{s:s,s:s,s:o}", "uri", uri, "mimeType", "text/plain", "text",
                          dz_mcp_string(dz_str_n(data.p, data.len)));
    } else {
        entry = json_pack("{s:s,s:s,s:o}", "uri", uri, "mimeType", "application/octet-stream",
                          "blob", encode64(&data));
    }
    *ret_result = json_pack("{s:[o]}", "contents", entry);
    return 0;
}

/* --- */

static const struct {
    const char *method;
    int (*run)(struct dz_mcp_call *call, json_t **ret_result, struct dz_err *err);
} methods[] = {
    {"tools/call", call_tool},
    {"resources/list", list_resources},
    {"resources/read", read_resource},
};

bool dz_mcp_needs_daemon(const char *method)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(methods); i++)
        if (strcmp(methods[i].method, method) == 0)
            return true;
    return false;
}

int dz_mcp_carry_out(struct dz_mcp_call *call, json_t **ret_result, struct dz_err *err)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(methods); i++)
        if (strcmp(methods[i].method, call->method) == 0)
            return methods[i].run(call, ret_result, err);
    (void)dz_fail(err, DZ_EINVAL, "this method is not known");
    return DZ_MCP_METHOD;
}
