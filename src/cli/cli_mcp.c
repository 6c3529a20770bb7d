/* SPDX-License-Identifier: MIT
 *
 * `doze mcp`: a server of the Model Context Protocol on standard input and output, so that an agent
 * can use sandboxes as tools.
 *
 * Messages are JSON-RPC 2.0, one a line. This process reads them and answers what needs no daemon.
 * Each other request is carried out by a child of its own, made by fork(2) and connected by a pipe:
 * requests run at the same time, a cancellation is a SIGTERM, and a request that hangs hangs
 * nothing else. Lines of children are passed on whole, so messages never mix.
 *
 * At the end of input, requests in progress are finished first. SIGINT and SIGTERM cancel them.
 */
#include "cli/cli_mcp.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/cli_signal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CHILDREN_MAX = 64,
    PIECE = 65536,
    PROGRESS_MS = 1000,
};

/* Newest first: what a client that requests another version is offered is the first. */
static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

#define INSTRUCTIONS                                                                            \
    "doze keeps sandboxes: small Unix machines, each in one file. Create one with "             \
    "create_sandbox, then run commands and read and write files in it. A sandbox that is idle " \
    "goes to sleep with its processes and wakes with the next command. Fork or snapshot it "    \
    "before a risky step. Delete it when it is not needed any more. A sandbox is named by its " \
    "id or its name."

struct child {
    pid_t pid; /* 0: free */
    int fd;    /* what it writes */
    bool canceled;
    json_t *id;
    struct dz_buf line;
};

struct server {
    struct dz_cli *cli;
    bool over, initialized;
    struct child children[CHILDREN_MAX];
    struct dz_buf in;
};

/* --- messages ----------------------------------------------------------------------------- */

json_t *dz_mcp_string(struct dz_str bytes)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_MCP_LINE_MAX);
    for (size_t i = 0; i < bytes.n;) {
        size_t n = dz_utf8_len(bytes.p + i, bytes.n - i);
        dz_buf_add(&text, n ? bytes.p + i : "\xef\xbf\xbd", n ? n : 3);
        i += n ? n : 1;
    }
    return text.err ? NULL : json_stringn(text.len ? text.p : "", text.len);
}

int dz_mcp_put(int fd, json_t *message, struct dz_err *err)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    json_decref(message);
    if (!text)
        return dz_fail(err, DZ_ENOMEM, "write a message: out of memory");
    int rc = dz_fd_write(fd, text, strlen(text), err);
    free(text); /* jansson's */
    return rc < 0 ? rc : dz_fd_write(fd, "\n", 1, err);
}

static json_t *make_error(const json_t *id, int code, const char *text)
{
    return json_pack("{s:s,s:o,s:{s:i,s:o}}", "jsonrpc", "2.0", "id",
                     id ? json_deep_copy(id) : json_null(), "error", "code", code, "message",
                     dz_mcp_string(dz_str(text)));
}

static json_t *make_result(const json_t *id, json_t *result)
{
    return result ? json_pack("{s:s,s:o,s:o}", "jsonrpc", "2.0", "id", json_deep_copy(id), "result",
                              result)
                  : NULL;
}

void dz_mcp_progress(struct dz_mcp_call *call, struct dz_str text)
{
    struct dz_err err;
    if (!call->token)
        return;
    call->told_ms = dz_clock_mono_ms();
    int rc = dz_mcp_put(call->out,
                        json_pack("{s:s,s:s,s:{s:o,s:f,s:o}}", "jsonrpc", "2.0", "method",
                                  "notifications/progress", "params", "progressToken",
                                  json_deep_copy(call->token), "progress",
                                  (double)(call->told_ms - call->started_ms) / 1000.0 + 0.001,
                                  "message", dz_mcp_string(text)),
                        &err);
    (void)rc; /* the answer will fail, too */
}

/* --- a request's own process ------------------------------------------------------------------ */

static void on_tick(void *arg)
{
    struct dz_mcp_call *call = arg;
    if (dz_clock_mono_ms() - call->told_ms >= PROGRESS_MS)
        dz_mcp_progress(call, DZ_STR("in progress"));
}

static int answer(struct dz_mcp_call *call, const json_t *id)
{
    struct dz_err err = {0};
    json_t *result = NULL;
    int rc = dz_cli_remote(call->cli, &call->client, &err);
    if (rc < 0) {
        rc = DZ_MCP_INTERNAL;
    } else {
        dz_client_stop(call->client, dz_cli_interrupted);
        dz_client_tick(call->client, on_tick, call);
        rc = dz_mcp_carry_out(call, &result, &err);
    }
    json_t *message = rc == 0 ? make_result(id, result) : make_error(id, rc, err.msg);
    rc = dz_mcp_put(call->out, message, &err);
    dz_client_close(call->client);
    return rc < 0 ? DZ_EXIT_FAILURE : DZ_EXIT_OK;
}

static int start_child(struct server *s, struct child *child, const char *method,
                       const json_t *params, const json_t *id)
{
    const json_t *token = json_object_get(json_object_get(params, "_meta"), "progressToken");
    int ends[2];
    if (pipe(ends) < 0)
        return -errno;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* the parent has been killed: cancel */
        if (getppid() != parent)
            (void)raise(SIGTERM);
        (void)close(ends[0]);
        for (size_t i = 0; i < CHILDREN_MAX; i++)
            if (s->children[i].pid)
                (void)close(s->children[i].fd);
        struct dz_mcp_call call = {.cli = s->cli,
                                   .method = method,
                                   .params = params,
                                   .token = token,
                                   .started_ms = dz_clock_mono_ms(),
                                   .told_ms = dz_clock_mono_ms(),
                                   .out = ends[1]};
        _exit(answer(&call, id));
    }
    int sys = errno;
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return -sys;
    }
    *child = (struct child){
        .pid = pid, .fd = ends[0], .id = json_deep_copy(id), .line = DZ_BUF_INIT(DZ_MCP_LINE_MAX)};
    return 0;
}

/* The child has ended. If it could not answer its request, the answer is an error. */
static int end_child(struct child *child, struct dz_err *err)
{
    int status = 0, rc = 0;
    (void)close(child->fd);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    bool whole = child->line.err == 0 && child->line.len == 0; /* all it wrote has been passed on */
    if (!(whole && WIFEXITED(status) && WEXITSTATUS(status) == DZ_EXIT_OK) && !child->canceled)
        rc = dz_mcp_put(
            STDOUT_FILENO,
            make_error(child->id, DZ_MCP_INTERNAL, "the request ended without an answer"), err);
    json_decref(child->id);
    dz_buf_release(&child->line);
    *child = (struct child){0};
    return rc;
}

/* Remove the first n bytes. */
static void drop(struct dz_buf *b, size_t n)
{
    memmove(b->p, b->p + n, b->len - n + 1); /* with the terminator */
    b->len -= n;
}

/* Pass on the whole lines of a child; the last one is its answer. */
static int hear_child(struct child *child, struct dz_err *err)
{
    char piece[PIECE];
    ssize_t n = read(child->fd, piece, sizeof piece);
    if (n < 0 && errno == EINTR)
        return 0;
    const struct dz_str new = dz_str_n(piece, n > 0 ? (size_t)n : 0);
    const size_t before = child->line.len;
    dz_buf_add(&child->line, new.p, new.n);
    if (child->line.err)
        (void)kill(child->pid, SIGKILL);
    if (n <= 0 || child->line.err)
        return end_child(child, err);
    const size_t at = dz_str_rfind_char(new, '\n');
    if (at == DZ_STR_NONE)
        return 0;
    const size_t lines = before + at + 1;
    int rc = child->canceled ? 0 : dz_fd_write(STDOUT_FILENO, child->line.p, lines, err);
    drop(&child->line, lines);
    return rc;
}

static void cancel(struct child *child)
{
    child->canceled = true;
    (void)kill(child->pid, SIGTERM);
}

/* --- requests -----------------------------------------------------------------------------------
 */

static json_t *initialize(struct server *s, const json_t *params)
{
    const char *wanted = dz_cli_text(params, "protocolVersion"), *given = versions[0];
    for (size_t i = 0; i < DZ_ARRAY_LEN(versions); i++)
        if (strcmp(wanted, versions[i]) == 0)
            given = versions[i];
    s->initialized = true;
    return json_pack("{s:s,s:{s:{},s:{}},s:{s:s,s:s,s:s},s:s}", "protocolVersion", given,
                     "capabilities", "tools", "resources", "serverInfo", "name", "doze", "title",
                     "doze sandboxes", "version", DZ_VERSION, "instructions", INSTRUCTIONS);
}

static json_t *templates(void)
{
    return json_pack("{s:[{s:s,s:s,s:s,s:s}]}", "resourceTemplates", "uriTemplate",
                     "doze://{sandbox}/{+path}", "name", "file", "title", "A file of a sandbox",
                     "description",
                     "A file, or the entries of a directory, of the sandbox with this id or name");
}

static int refuse(const json_t *id, int code, const char *text, struct dz_err *err)
{
    return dz_mcp_put(STDOUT_FILENO, make_error(id, code, text), err);
}

static int delegate(struct server *s, const char *method, const json_t *params, const json_t *id,
                    struct dz_err *err)
{
    struct child *unused = NULL;
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        struct child *child = &s->children[i];
        if (!child->pid)
            unused = unused ? unused : child;
        else if (json_equal(child->id, id))
            return refuse(id, DZ_MCP_REQUEST, "id: a request with this id is in progress", err);
    }
    if (!unused)
        return refuse(id, DZ_MCP_INTERNAL, "64 requests are in progress; wait for one to end", err);
    int rc = start_child(s, unused, method, params, id);
    return rc < 0 ? refuse(id, DZ_MCP_INTERNAL, strerror(-rc), err) : 0;
}

static int on_request(struct server *s, const char *method, const json_t *params, const json_t *id,
                      struct dz_err *err)
{
    json_t *result = NULL;
    if (!json_is_string(id) && !json_is_integer(id))
        return refuse(NULL, DZ_MCP_REQUEST, "id: must be a string or an integer", err);
    if (params && !json_is_object(params))
        return refuse(id, DZ_MCP_PARAMS, "params: must be an object", err);
    if (strcmp(method, "initialize") == 0)
        result = initialize(s, params);
    else if (strcmp(method, "ping") == 0)
        result = json_object();
    else if (!s->initialized)
        return refuse(id, DZ_MCP_REQUEST, "the first request must be initialize", err);
    else if (strcmp(method, "tools/list") == 0)
        result = dz_mcp_tools();
    else if (strcmp(method, "resources/templates/list") == 0)
        result = templates();
    else if (dz_mcp_needs_daemon(method))
        return delegate(s, method, params, id, err);
    else
        return refuse(id, DZ_MCP_METHOD, "this method is not known", err);
    return dz_mcp_put(STDOUT_FILENO, make_result(id, result), err);
}

static void on_notification(struct server *s, const char *method, const json_t *params)
{
    const json_t *id = json_object_get(params, "requestId");
    if (strcmp(method, "notifications/cancelled") != 0 || !id)
        return;
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (s->children[i].pid && json_equal(s->children[i].id, id))
            cancel(&s->children[i]);
}

static int on_line(struct server *s, struct dz_str line, struct dz_err *err)
{
    json_error_t why;
    if (dz_str_trim(line).n == 0)
        return 0;
    json_t *m =
        json_loadb(line.p, line.n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!m)
        return refuse(NULL, DZ_MCP_PARSE, why.text, err);
    const json_t *id = json_object_get(m, "id"), *params = json_object_get(m, "params");
    const char *method = json_string_value(json_object_get(m, "method"));
    bool is_answer = json_object_get(m, "result") || json_object_get(m, "error");
    int rc = 0;
    if (!json_is_object(m) || strcmp(dz_cli_text(m, "jsonrpc"), "2.0") != 0)
        rc = refuse(NULL, DZ_MCP_REQUEST, "a message must be one object with jsonrpc 2.0", err);
    else if (!method && !is_answer)
        rc = refuse(NULL, DZ_MCP_REQUEST, "method: is missing", err);
    else if (method && id)
        rc = on_request(s, method, params, id, err);
    else if (method)
        on_notification(s, method, params);
    json_decref(m);
    return rc;
}

/* --- the loop -----------------------------------------------------------------------------------
 */

static int hear_client(struct server *s, struct dz_err *err)
{
    char piece[PIECE];
    ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : dz_fail_sys(err, errno, "read messages");
    s->over = n == 0;
    dz_buf_add(&s->in, piece, (size_t)n);
    if (s->in.err)
        return dz_fail(err, DZ_ELIMIT, "a message of the client has more than %d bytes",
                       DZ_MCP_LINE_MAX);
    size_t from = 0;
    for (int rc = 0;;) {
        struct dz_str rest = dz_str_n(s->in.p + from, s->in.len - from);
        size_t end = rest.n ? dz_str_find_char(rest, '\n') : DZ_STR_NONE;
        if (end == DZ_STR_NONE)
            break;
        rc = on_line(s, dz_str_n(rest.p, end), err);
        if (rc < 0)
            return rc;
        from += end + 1;
    }
    if (from)
        drop(&s->in, from);
    return 0;
}

/* 0: go on; 1: all is done; negative: an error. */
static int turn(struct server *s, struct dz_err *err)
{
    struct pollfd p[CHILDREN_MAX + 1];
    struct child *of[CHILDREN_MAX + 1];
    nfds_t count = 0;
    if (!s->over)
        p[count++] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (s->children[i].pid) {
            of[count] = &s->children[i];
            p[count++] = (struct pollfd){.fd = s->children[i].fd, .events = POLLIN};
        }
    if (count == 0 || dz_cli_interrupted())
        return 1;
    if (poll(p, count, -1) < 0)
        return errno == EINTR ? 0 : dz_fail_sys(err, errno, "wait for messages");
    int rc = 0;
    bool listens = !s->over;
    for (nfds_t i = listens; i < count && rc == 0; i++)
        if (p[i].revents)
            rc = hear_child(of[i], err);
    if (rc == 0 && listens && p[0].revents)
        rc = hear_client(s, err);
    return rc;
}

static int run(struct dz_cli *c, struct dz_err *err)
{
    struct server *s = dz_zalloc(sizeof *s);
    int rc = 0;
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "start the server: out of memory");
    s->cli = c;
    s->in = (struct dz_buf)DZ_BUF_INIT(DZ_MCP_LINE_MAX);
    dz_cli_catch_interrupts();
    while ((rc = turn(s, err)) == 0)
        ;
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (s->children[i].pid)
            cancel(&s->children[i]);
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (s->children[i].pid)
            (void)end_child(&s->children[i], NULL);
    dz_buf_release(&s->in);
    dz_free(s);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_mcp = {
    .name = "mcp",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "serve sandboxes as tools to an agent (MCP)",
    .args = "",
    .min_args = 0,
    .max_args = 0,
    .help = "Serves the Model Context Protocol on standard input and output: tools that\n"
            "create sandboxes, run commands and handle files in them, fork and snapshot\n"
            "them, and files as resources (doze://SANDBOX/PATH). An agent's configuration\n"
            "names it as the command `doze mcp`. Like other commands it uses the daemon of\n"
            "DOZE_URL, or that of this user, which it starts if needed.\n"
            "\n"
            "At the end of input, requests in progress are finished first. SIGINT and\n"
            "SIGTERM cancel them.\n",
    .run = run,
};
