/* SPDX-License-Identifier: MIT
 *
 * `doze ps`, `logs`, `kill`: the commands of a sandbox; `doze events`: the events of sandboxes.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_remote.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- ps --------------------------------------------------------------------------------------- */

static const struct dz_cli_shown exec_columns[] = {
    {"ID", "exec_id", DZ_CLI_SHOW_TEXT},        {"PID", "pid", DZ_CLI_SHOW_TEXT},
    {"STATE", "state", DZ_CLI_SHOW_TEXT},       {"EXIT", "exit_code", DZ_CLI_SHOW_TEXT},
    {"SIGNAL", "signal", DZ_CLI_SHOW_TEXT},     {"STARTED", "started_at", DZ_CLI_SHOW_TIME},
    {"OUTPUT", "kept_bytes", DZ_CLI_SHOW_SIZE}, {"COMMAND", "cmd", DZ_CLI_SHOW_WORDS},
};

static int list_execs(struct dz_cli *c, struct dz_client *client, json_t **ret_items,
                      struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    dz_client_target(&target, "/v1/sandboxes/{}/exec", c->argv[0]);
    return dz_cli_ask_list(c, client, &target, "execs", ret_items, err);
}

static int ps(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    json_t *items = NULL, *shown = NULL, *item;
    bool all = dz_cli_flag(c, "all");
    size_t i;
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = list_execs(c, client, &items, err);
    if (rc < 0)
        return rc;
    shown = json_array();
    json_array_foreach(items, i, item) if (all || strcmp(dz_cli_text(item, "state"), "running") ==
                                                      0)(void) json_array_append(shown, item);
    rc = dz_cli_show(c, shown, exec_columns, DZ_ARRAY_LEN(exec_columns), err);
    json_decref(shown);
    json_decref(items);
    return rc;
}

const struct dz_cli_command dz_cmd_ps = {
    .name = "ps",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list the commands run in a sandbox",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){{"all", 'a', NULL, "include commands that have exited"},
                                       DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET,
                                       DZ_CLI_OPTION_END},
    .help = "Lists running commands, newest first; for a suspended sandbox, those that will\n"
            "resume. This does not wake the sandbox. -q prints ids only.\n",
    .run = ps,
};

/* --- logs ------------------------------------------------------------------------------------- */

enum {
    TAIL_MAX = 32 << 20, /* bytes that --tail looks through; a command keeps at most 16 MiB */
};
struct logs {
    struct dz_cli *c;
    struct dz_client *client;
    uint64_t until; /* the offset to stop at, UINT64_MAX: never */
    uint64_t at;
    /* --tail: output up to this offset is kept in `held`, with the descriptor of each byte, until
     * its last lines are printed. 0: none is kept */
    uint64_t hold_until, lines;
    struct dz_buf held, fds;
};

/* Print the last lines of what was held. */
static int print_tail(struct logs *l, struct dz_err *err)
{
    size_t at = l->held.len, end;
    uint64_t lines = 0;
    int rc = 0;
    l->hold_until = 0;
    /* a newline at the end belongs to the last line */
    while (at > 0 && (at == l->held.len || l->held.p[at - 1] != '\n' || ++lines < l->lines))
        at--;
    for (; rc == 0 && l->lines > 0 && at < l->held.len; at = end) {
        for (end = at; end < l->held.len && l->fds.p[end] == l->fds.p[at];)
            end++;
        rc = dz_cli_put_guest(l->c, l->fds.p[at], dz_str_n(l->held.p + at, end - at), err);
    }
    return rc;
}

static int put_output(struct logs *l, int fd, struct dz_str bytes, struct dz_err *err)
{
    const char byte = (char)fd;
    l->at += bytes.n;
    if (!l->hold_until)
        return dz_cli_put_guest(l->c, fd, bytes, err);
    dz_buf_add(&l->held, bytes.p, bytes.n);
    for (size_t i = 0; i < bytes.n; i++)
        dz_buf_add(&l->fds, &byte, 1);
    if (l->held.err || l->fds.err)
        return dz_fail(err, DZ_ELIMIT, "more output is kept than --tail can look through");
    return l->at >= l->hold_until ? print_tail(l, err) : 0;
}

/* Decode base64 (RFC 4648). The daemon encoded it, so invalid input needs no error. */
static void decode(struct dz_buf *out, const char *s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int have = 0;
    for (; *s && *s != '='; s++) {
        const char *at = strchr(digits, *s);
        if (!at)
            continue;
        bits = bits << 6 | (uint32_t)(at - digits);
        have += 6;
        if (have >= 8) {
            const char byte = (char)(bits >> (have - 8) & 0xff);
            have -= 8;
            dz_buf_add(out, &byte, 1);
        }
    }
}

static int on_output(void *arg, const struct dz_client_event *e, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_CLIENT_EVENT_MAX);
    struct logs *l = arg;
    json_t *m = json_loadb(e->data.p, e->data.n, JSON_ALLOW_NUL, NULL);
    const json_t *text = json_object_get(m, "text");
    const bool error = strcmp(e->event, "stderr") == 0 || strcmp(e->event, "trace") == 0;
    int rc = 0;
    if (json_is_string(text))
        dz_buf_add(&b, json_string_value(text), json_string_length(text));
    else
        decode(&b, dz_cli_text(m, "base64"));
    if (error || strcmp(e->event, "stdout") == 0) {
        rc = put_output(l, error ? STDERR_FILENO : STDOUT_FILENO, dz_str_n(b.p, b.len), err);
    }
    if (strcmp(e->event, "error") == 0)
        rc = dz_client_problem_of(l->client, m, 0, err);
    json_decref(m);
    return rc < 0 ? rc : strcmp(e->event, "exit") == 0 || l->at >= l->until;
}

/* Find the requested command, the newest one of a service, or the newest one of all. */
static int find_exec(struct dz_cli *c, struct dz_client *client, json_t **ret_exec,
                     struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL, *item;
    size_t i;
    if (c->argc > 1 && dz_str_starts(dz_str(c->argv[1]), DZ_STR("exe_"))) {
        dz_client_target(&target, "/v1/sandboxes/{}/exec/{}", c->argv[0], c->argv[1]);
        int rc = dz_client_json(client, "GET", target.p, NULL, ret_exec, err);
        return rc < 0 ? rc : 0;
    }
    int rc = list_execs(c, client, &items, err);
    if (rc < 0)
        return rc;
    /* the id of a service's command ends with its name; the program of an image's machine is "main"
     */
    json_array_foreach(items, i, item)
    {
        const char *id = dz_cli_text(item, "exec_id"), *dot = strchr(id, '.');
        if (*ret_exec || (c->argc > 1 && strcmp(dot ? dot + 1 : id, c->argv[1]) != 0))
            continue;
        *ret_exec = json_incref(item);
    }
    json_decref(items);
    if (!*ret_exec && c->argc > 1)
        return dz_fail(err, DZ_ENOENT, "%s has no command and no service %s that has run",
                       c->argv[0], c->argv[1]);
    return *ret_exec ? 0 : dz_fail(err, DZ_ENOENT, "no command has run in %s yet", c->argv[0]);
}

static int logs(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    const char *from = dz_cli_value(c, "offset"), *tail = dz_cli_value(c, "tail");
    struct logs l = {
        .c = c, .until = UINT64_MAX, .held = DZ_BUF_INIT(TAIL_MAX), .fds = DZ_BUF_INIT(TAIL_MAX)};
    json_t *exec = NULL;
    if (tail && dz_num_u64(dz_str(tail), 0, INT64_MAX, &l.lines, NULL) < 0)
        return dz_cli_usage(c, err, "--tail must be a number of lines, not %s", tail);
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = find_exec(c, client, &exec, err);
    if (rc < 0)
        return rc;
    const json_t *bytes = json_object_get(exec, "output_bytes");
    const json_t *first = json_object_get(exec, "first_offset");
    l.at = json_is_integer(first) ? (uint64_t)json_integer_value(first) : 0;
    if (!dz_cli_flag(c, "follow") && strcmp(dz_cli_text(exec, "state"), "running") == 0)
        l.until = json_is_integer(bytes) ? (uint64_t)json_integer_value(bytes) : 0;
    dz_client_target(&target, "/v1/sandboxes/{}/exec/{}/output", c->argv[0],
                     dz_cli_text(exec, "exec_id"));
    dz_client_target_add(&target, "offset", from ? from : "0");
    const struct dz_client_req req = {.method = "GET", .target = target.p, .timeout_ms = -1};
    uint64_t begin = 0, missing = l.at;
    if (from && dz_num_u64(dz_str(from), 0, INT64_MAX, &begin, NULL) < 0)
        begin = 0; /* the daemon will report the error */
    (void)fflush(c->out);
    if (begin < missing && !tail)
        dz_cli_warn(c, "the output begins at byte %llu; earlier output is no longer kept",
                    (unsigned long long)missing);
    l.at = begin > missing ? begin : missing;
    l.client = client;
    if (tail && json_is_integer(bytes) && (uint64_t)json_integer_value(bytes) > l.at)
        l.hold_until = (uint64_t)json_integer_value(bytes);
    if (l.at < l.until)
        rc = dz_client_events(client, &req, on_output, &l, err);
    if (rc >= 0 && l.hold_until)
        rc = print_tail(&l, err);
    dz_buf_release(&l.held);
    dz_buf_release(&l.fds);
    json_decref(exec);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_logs = {
    .name = "logs",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "print the output of a command",
    .args = "SANDBOX [EXEC|SERVICE]",
    .min_args = 1,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"follow", 'f', NULL, "follow the output until the command exits"},
            DZ_CLI_OPTION_RAW,
            {"offset", 0, "BYTES", "start at this offset"},
            {"tail", 'n', "LINES", "begin with the last lines of the output so far"},
            DZ_CLI_OPTION_END},
    .help = "EXEC is the id that `doze exec -d` printed; the default is the newest command.\n"
            "With a service, prints the output of its newest process.\n"
            "The last 256 KiB of a long output are kept; a warning says how much is missing.\n"
            "Standard output goes to standard output, standard error to standard error. On a\n"
            "terminal, control characters are escaped; --raw prints them unchanged.\n",
    .run = logs,
};

/* --- kill ------------------------------------------------------------------------------------- */

static int kill_exec(struct dz_cli *c, struct dz_err *err)
{
    const char *given = dz_cli_value(c, "signal");
    struct dz_str name = dz_str(given ? given : "");
    (void)dz_str_eat(&name, DZ_STR("SIG"));
    json_t *body = given ? json_pack("{s:s}", "signal", name.p) : json_object();
    int rc = dz_cli_ask(c, "POST", body, NULL, err, "/v1/sandboxes/{}/exec/{}/signal", c->argv[0],
                        c->argv[1]);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_kill = {
    .name = "kill",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "send a signal to a command in a sandbox",
    .args = "SANDBOX EXEC",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){{"signal", 's', "NAME", "the signal to send"},
                                              DZ_CLI_OPTION_END},
    .help = "EXEC is an id from `doze ps`. A sleeping sandbox is woken. The default is\n"
            "the stop signal of the sandbox's image, otherwise TERM.\n",
    .run = kill_exec,
};

/* --- events ----------------------------------------------------------------------------------- */

static const struct dz_cli_shown event_columns[] = {
    {"ID", "id", DZ_CLI_SHOW_TEXT},
    {"AT", "at", DZ_CLI_SHOW_TEXT},
    {"SANDBOX", "sandbox_id", DZ_CLI_SHOW_TEXT},
    {"EVENT", "type", DZ_CLI_SHOW_TEXT},
};

enum {
    AGAIN_MS = 30000, /* how long to retry a lost connection */
    AGAIN_STEP_MS = 200,
};
struct following {
    struct dz_cli *c;
    char last[32]; /* the id of the last event; "": none came */
};

static int on_event(void *arg, const struct dz_client_event *e, struct dz_err *err)
{
    struct following *f = arg;
    struct dz_cli *c = f->c;
    (void)snprintf(f->last, sizeof f->last, "%s", e->id);
    DZ_AUTO(dz_buf_release) struct dz_buf line = DZ_BUF_INIT(DZ_CLIENT_EVENT_MAX);
    (void)err;
    if (c->json) { /* one object per line */
        dz_cli_put_json(c, e->data);
        return fflush(c->out) == 0 ? 0 : 1;
    }
    json_t *m = json_loadb(e->data.p, e->data.n, 0, NULL);
    json_t *detail = json_object_get(m, "detail");
    char *text = json_object_size(detail) ? json_dumps(detail, JSON_COMPACT) : NULL;
    dz_buf_addf(&line, "%s %s %s %s", dz_cli_text(m, "at"), dz_cli_text(m, "sandbox_id"), e->event,
                text ? text : "");
    dz_cli_put(c, line.p);
    free(text); /* jansson's */
    json_decref(m);
    return fflush(c->out) == 0 ? 0 : 1; /* the reader has gone away */
}

static void event_target(const struct dz_cli *c, const char *after, struct dz_buf *target)
{
    dz_buf_reset(target);
    if (c->argc > 0)
        dz_client_target(target, "/v1/sandboxes/{}/events", c->argv[0]);
    else
        dz_buf_adds(target, "/v1/events");
    dz_client_target_add(target, "after", after);
}

/* The daemon ended: wait a while for another one. Following events never starts a daemon. */
static int connect_again(struct dz_cli *c, struct dz_client **client, struct dz_err *err)
{
    int64_t until = dz_clock_mono_ms() + AGAIN_MS;
    int rc;
    dz_client_close(*client);
    *client = NULL;
    (void)setenv("DOZE_AUTOSTART", "0", 1);
    dz_cli_note(c, "the daemon has stopped; waiting until it runs again");
    while ((rc = dz_cli_remote(c, client, err)) < 0 && dz_clock_mono_ms() < until)
        (void)poll(NULL, 0, AGAIN_STEP_MS);
    return rc;
}

/* Print events as they arrive. After a lost connection, continue after the last event. */
static int follow(struct dz_cli *c, struct dz_client **client, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    struct following f = {.c = c};
    int rc = 0;
    while (rc == 0) {
        event_target(c, f.last[0] ? f.last : dz_cli_value(c, "after"), &target);
        const struct dz_client_req req = {.method = "GET", .target = target.p, .timeout_ms = -1};
        rc = dz_client_events(*client, &req, on_event, &f, err);
        if (rc == 0 || rc == DZ_EGONE || rc == DZ_EBUSY || rc == DZ_EIO)
            rc = connect_again(c, client, err);
    }
    return rc;
}

static int events(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL;
    event_target(c, dz_cli_value(c, "after"), &target);
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0 && dz_cli_flag(c, "follow"))
        rc = follow(c, &client, err);
    else if (rc == 0)
        rc = dz_cli_ask_list(c, client, &target, "events", &items, err);
    if (rc == 0 && items)
        rc = dz_cli_show(c, items, event_columns, DZ_ARRAY_LEN(event_columns), err);
    json_decref(items);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_events = {
    .name = "events",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "show the events of sandboxes",
    .args = "[SANDBOX]",
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){{"follow", 'f', NULL, "follow new events as they happen"},
                                       {"after", 0, "ID", "show only events after this one"},
                                       DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_END},
    .help = "Shows when sandboxes were created, woken and suspended, and when and why memory\n"
            "was lost. With -f and --json, prints one object per line. If the daemon\n"
            "restarts, -f continues with the new one where it stopped.\n",
    .run = events,
};
