/* SPDX-License-Identifier: MIT
 *
 * `doze exec`, `doze shell`, `doze attach`: commands in a sandbox that a daemon keeps.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define KEPT_MAX       ((size_t)1 << 20) /* bytes of each stream in --json */
#define TIMEOUT_MAX_MS ((int64_t)7 * 24 * 3600 * 1000)

/* --- what to run -------------------------------------------------------------------------- */

static void put_text(json_t *o, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(o, key, json_string(value));
}

static int put_env(struct dz_cli *c, json_t *o, struct dz_err *err)
{
    json_t *env = json_object();
    const char *given;
    (void)json_object_set_new(o, "env", env);
    for (int i = 0; (given = dz_cli_value_at(c, "env", i)); i++) {
        const char *equals = strchr(given, '='), *value = equals ? equals + 1 : getenv(given);
        char name[DZ_PATH_MAX];
        size_t n = equals ? (size_t)(equals - given) : strlen(given);
        if (n == 0 || n >= sizeof name)
            return dz_cli_usage(c, err, "--env must be NAME=VALUE or NAME, not %s", given);
        (void)snprintf(name, sizeof name, "%.*s", (int)n, given);
        put_text(env, name, value);
    }
    return 0;
}

static void put_tty(json_t *o)
{
    struct winsize w = {0};
    const char *term = getenv("TERM");
    (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &w);
    (void)json_object_set_new(
        o, "tty",
        json_pack("{s:i,s:i}", "cols", w.ws_col ? w.ws_col : 80, "rows", w.ws_row ? w.ws_row : 24));
    json_t *env = json_object_get(o, "env");
    if (!json_object_get(env, "TERM"))
        put_text(env, "TERM", term ? term : "xterm");
}

/* The request's body from the options that exec and shell share. */
static int make_request(struct dz_cli *c, char *const *words, bool input, bool tty,
                        json_t **ret_request, struct dz_err *err)
{
    const char *timeout = dz_cli_value(c, "timeout");
    int64_t ms = 0;
    if (timeout && dz_duration_parse(dz_str(timeout), 1, TIMEOUT_MAX_MS, &ms, NULL) < 0)
        return dz_cli_usage(c, err, "--timeout must be a duration such as 30s, not %s", timeout);
    json_t *o = json_object(), *cmd = json_array();
    if (!o || !cmd)
        return dz_fail(err, DZ_ENOMEM, "write a request: out of memory");
    for (; *words; words++)
        if (json_array_append_new(cmd, json_string(*words)) < 0) {
            json_decref(o);
            json_decref(cmd);
            return dz_cli_usage(c, err, "COMMAND contains a word that is not valid UTF-8: %s",
                                *words);
        }
    (void)json_object_set_new(o, "cmd", cmd);
    put_text(o, "cwd", dz_cli_value(c, "workdir"));
    put_text(o, "user", dz_cli_value(c, "user"));
    put_text(o, "timeout", timeout);
    int rc = put_env(c, o, err);
    if (rc < 0) {
        json_decref(o);
        return rc;
    }
    (void)json_object_set_new(o, "stdin", json_boolean(input));
    if (tty)
        put_tty(o);
    *ret_request = o;
    return 0;
}

static int in_background(struct dz_cli *c, json_t *request, struct dz_err *err)
{
    json_t *answer = NULL;
    (void)json_object_set_new(request, "background", json_true());
    int rc = dz_cli_ask(c, "POST", json_incref(request), &answer, err, "/v1/sandboxes/{}/exec",
                        c->argv[0]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "exec_id", err);
}

/* Print the object with which the daemon answers POST .../exec. */
static int print_kept(struct dz_cli *c, const char *exec_id, const struct dz_cli_kept *k,
                      struct dz_err *err)
{
    static const char *const fields[] = {"exit_code", "signal", "timed_out", "reason",
                                         "duration_ms"};
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(KEPT_MAX * 32);
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_strz(&j, "exec_id", exec_id);
    for (size_t i = 0; i < DZ_ARRAY_LEN(fields); i++) {
        const json_t *v = json_object_get(k->exit, fields[i]);
        char *value = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        dz_json_key(&j, fields[i]);
        dz_json_raw(&j, value ? dz_str(value) : DZ_STR("null"));
        free(value); /* jansson's */
    }
    dz_json_put_bool(&j, "truncated", k->truncated);
    dz_json_put_bytes(&j, "stdout", dz_str_n(k->out[0].p, k->out[0].len));
    dz_json_put_bytes(&j, "stderr", dz_str_n(k->out[1].p, k->out[1].len));
    if (k->out[2].len)
        dz_json_put_bytes(&j, "trace", dz_str_n(k->out[2].p, k->out[2].len));
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

/* Run the session until the command ends; with --json, print its output then. */
static int carry(struct dz_cli *c, struct dz_cli_session *s, struct dz_err *err)
{
    struct dz_cli_kept kept = {
        .out = {DZ_BUF_INIT(KEPT_MAX), DZ_BUF_INIT(KEPT_MAX), DZ_BUF_INIT(KEPT_MAX)}};
    s->kept = c->json ? &kept : NULL;
    int rc = dz_cli_session(c, s, err);
    if (rc >= 0 && c->json) {
        int printed = print_kept(c, s->exec_id, &kept, err);
        rc = printed < 0 ? printed : rc;
    }
    json_decref(kept.exit);
    for (size_t i = 0; i < DZ_ARRAY_LEN(kept.out); i++)
        dz_buf_release(&kept.out[i]);
    return rc;
}

static int in_foreground(struct dz_cli *c, json_t *request, bool input, bool tty, int trace_fd,
                         struct dz_err *err)
{
    struct dz_cli_session s = {.sandbox = c->argv[0],
                               .request = request,
                               .input = input,
                               .tty = tty,
                               .trace_fd = trace_fd};
    int rc = carry(c, &s, err);
    if (rc < 0) /* not 1, because the command may exit with 1 */
        c->usage_status = s.failed ? s.failed : DZ_EXIT_RUN_FAILED;
    return rc;
}

/* --- exec ------------------------------------------------------------------------------------ */

/* --trace, or --trace=FILE. */
static int add_trace(struct dz_cli *c, json_t *request, bool detach, int *ret_fd,
                     struct dz_err *err)
{
    const char *file = dz_cli_value(c, "trace");
    if (file && (detach || c->json))
        return dz_cli_usage(c, err, "--trace=FILE cannot be combined with --%s: use --trace%s",
                            detach ? "detach" : "json",
                            detach ? ", and `doze logs` shows the calls" : "");
    if (dz_cli_flag(c, "trace"))
        (void)json_object_set_new(request, "trace", json_true());
    if (file)
        *ret_fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return file && *ret_fd < 0 ? dz_fail_sys(err, errno, "open %s for the trace", file) : 0;
}

static int exec(struct dz_cli *c, struct dz_err *err)
{
    bool tty = dz_cli_flag(c, "tty"), input = dz_cli_flag(c, "interactive"),
         detach = dz_cli_flag(c, "detach");
    DZ_AUTO(dz_fd_close) int trace_fd = -1;
    json_t *request = NULL;
    if (tty && input && !isatty(STDIN_FILENO))
        return dz_cli_usage(c, err, "-t with -i requires a terminal as standard input");
    int rc = make_request(c, c->argv + 1, input && !detach, tty, &request, err);
    if (rc == 0)
        rc = add_trace(c, request, detach, &trace_fd, err);
    if (rc == 0)
        rc = detach ? in_background(c, request, err)
                    : in_foreground(c, request, input, tty, trace_fd, err);
    json_decref(request);
    return rc;
}

#define OPTIONS_EXEC                                                           \
    {"env", 'e', "K[=V]", "set a variable, or pass on your own (repeatable)"}, \
        {"workdir", 'w', "DIR", "start in this directory of the sandbox"},     \
        {"user", 'u', "USER", "run as this user: a name, or UID[:GID]"},       \
        {"timeout", 0, "DURATION", "kill it after this long, for instance 30s, and exit with 124"}

static const struct dz_cli_option exec_options[] = {
    {"interactive", 'i', NULL, "pass standard input on; without -i it is /dev/null"},
    {"tty", 't', NULL, "give the command a terminal"},
    {"detach", 'd', NULL, "start the command, print its id and return"},
    OPTIONS_EXEC,
    {"trace", 0, "[=FILE]", "print the system calls of native programs, to stderr or FILE"},
    DZ_CLI_OPTION_JSON,
    DZ_CLI_OPTION_QUIET,
    DZ_CLI_OPTION_END,
};

#define HELP_EXEC                                                                       \
    "SANDBOX is a name, an id, a unique prefix of an id, or TENANT/NAME; it is woken\n" \
    "if it sleeps. COMMAND is looked up in the sandbox's PATH. Options may stand\n"     \
    "before and after SANDBOX; from COMMAND or -- on, all words belong to the\n"        \
    "command.\n"                                                                        \
    "\n"                                                                                \
    "Standard input is /dev/null unless -i is given:\n"                                 \
    "\n"                                                                                \
    "    echo hi | doze exec -i web -- cat\n"                                           \
    "\n"                                                                                \
    "The exit status is that of the command. It is 128 plus the signal's number if a\n" \
    "signal killed it, 124 if --timeout expired, 125 if doze failed, 126 if COMMAND\n"  \
    "is not executable and 127 if it was not found. Signals that doze receives are\n"   \
    "passed on to the command. A signal that comes before the command has started is\n" \
    "delivered once it has; a second one ends doze and cancels the start. If the\n"     \
    "connection is lost, doze reconnects and continues the output where it stopped.\n"  \
    "With -d, `doze attach` shows the output later.\n"                                  \
    "\n"                                                                                \
    "--json prints one object when the command exits: exec_id, exit_code, signal,\n"    \
    "timed_out, reason, duration_ms, truncated, stdout, stderr. It holds the first\n"   \
    "megabyte of each stream. Bytes that are not valid UTF-8 appear as U+FFFD there,\n" \
    "and unchanged in stdout_base64 and stderr_base64. The exit status is the same.\n"  \
    "\n"                                                                                \
    "With --trace, each system call of native Linux programs that the command starts\n" \
    "is printed as a line, as `doze run --trace` does (`doze help run`); with --json\n" \
    "it has a field trace. The command waits while the lines are not read.\n"

const struct dz_cli_command dz_cmd_exec = {
    .name = "exec",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "run a command in a sandbox",
    .args = "SANDBOX [--] COMMAND [ARG...]",
    .min_args = 2,
    .max_args = -1,
    .flags = DZ_CLI_REST,
    .lead = 1,
    .options = exec_options,
    .help = HELP_EXEC,
    .run = exec,
};

const struct dz_cli_command dz_cmd_sandbox_exec = {
    .name = "sandbox exec",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "the same as `doze exec`",
    .args = "SANDBOX [--] COMMAND [ARG...]",
    .min_args = 2,
    .max_args = -1,
    .flags = DZ_CLI_REST,
    .lead = 1,
    .options = exec_options,
    .help = HELP_EXEC,
    .run = exec,
};

/* --- shell ------------------------------------------------------------------------------------ */

static int shell(struct dz_cli *c, struct dz_err *err)
{
    static char name[] = "sh", login[] = "-l";
    char *words[] = {name, login, NULL};
    bool tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    json_t *request = NULL;
    int rc = make_request(c, words, true, tty, &request, err);
    if (rc == 0)
        rc = in_foreground(c, request, true, tty, -1, err);
    json_decref(request);
    return rc;
}

const struct dz_cli_command dz_cmd_shell = {
    .name = "shell",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "open a shell in a sandbox",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){OPTIONS_EXEC, DZ_CLI_OPTION_END},
    .help = "Like `doze exec -it SANDBOX -- sh -l`. Without a terminal, the shell runs what\n"
            "it reads from standard input. Closing the window ends the shell. If the sandbox\n"
            "is suspended meanwhile, the shell stays: the next key wakes the sandbox.\n",
    .run = shell,
};

/* --- attach ----------------------------------------------------------------------------------- */

/* Find the sandbox that has this command. */
static int find_exec(struct dz_cli *c, const char *id, char ret_sandbox[static 64],
                     struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf list = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL, *item;
    size_t i;
    dz_buf_adds(&list, "/v1/sandboxes");
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_cli_ask_list(c, client, &list, "sandboxes", &items, err);
    if (rc < 0)
        return rc;
    ret_sandbox[0] = '\0';
    json_array_foreach(items, i, item)
    {
        DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
        dz_client_target(&target, "/v1/sandboxes/{}/exec/{}", dz_cli_text(item, "id"), id);
        if (dz_client_json(client, "GET", target.p, NULL, NULL, NULL) < 0)
            continue;
        (void)snprintf(ret_sandbox, 64, "%s", dz_cli_text(item, "id"));
        break;
    }
    json_decref(items);
    return ret_sandbox[0] ? 0 : dz_fail(err, DZ_ENOENT, "no sandbox has a command %s", id);
}

static int attach_exec(struct dz_cli *c, const char *sandbox, const char *id, struct dz_err *err)
{
    char found[64];
    struct dz_cli_session s = {
        .sandbox = sandbox, .input = !dz_cli_flag(c, "no-stdin"), .trace_fd = -1};
    s.tty = s.input && isatty(STDIN_FILENO) && dz_cli_flag(c, "tty");
    (void)snprintf(s.exec_id, sizeof s.exec_id, "%s", id);
    int rc = sandbox ? 0 : find_exec(c, id, found, err);
    if (!sandbox)
        s.sandbox = found;
    return rc < 0 ? rc : carry(c, &s, err);
}

/* Attach to a fork or a reference: both give a sandbox. */
static int attach_branch(struct dz_cli *c, const char *kind, const char *id, struct dz_err *err)
{
    json_t *answer = NULL, *body = json_object();
    put_text(body, "name", dz_cli_value(c, "name"));
    int rc = strcmp(kind, "forks") == 0
                 ? dz_cli_ask(c, "POST", body, &answer, err, "/v1/forks/{}/attach", id)
                 : dz_cli_ask(c, "POST", body, &answer, err, "/v1/refs/{}/attach", id);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "id", err);
}

static int attach(struct dz_cli *c, struct dz_err *err)
{
    const char *id = c->argv[c->argc - 1], *sandbox = c->argc > 1 ? c->argv[0] : NULL;
    struct dz_str what = dz_str(id);
    bool main = strcmp(id, "main") == 0;
    if (main && !sandbox)
        return dz_cli_usage(c, err,
                            "every sandbox of a warm image has a command main; name the sandbox: "
                            "doze attach SANDBOX main");
    if (main || dz_str_starts(what, DZ_STR("exe_")))
        return attach_exec(c, sandbox, id, err);
    if (sandbox)
        return dz_cli_usage(c, err, "%s is not the id of a command (exe_... or main)", id);
    if (dz_str_starts(what, DZ_STR("frk_")))
        return attach_branch(c, "forks", id, err);
    if (dz_str_starts(what, DZ_STR("ref_")))
        return attach_branch(c, "refs", id, err);
    return dz_cli_usage(c, err,
                        "%s is not the id of a command (exe_...), fork (frk_...) or reference "
                        "(ref_...)",
                        id);
}

const struct dz_cli_command dz_cmd_attach = {
    .name = "attach",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "attach to a command, a fork or a reference",
    .args = "[SANDBOX] ID",
    .min_args = 1,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"tty", 't', NULL, "connect this terminal to the command's"},
            {"no-stdin", 0, NULL, "show the output only; pass no input on"},
            {"name", 'n', "NAME", "name the new sandbox"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = "exe_...: shows the command's output, from the oldest byte that is kept, passes\n"
            "standard input on, and exits with the command's status. Without SANDBOX, doze\n"
            "looks for the sandbox that has it. --json prints what `doze exec --json` does.\n"
            "\n"
            "main: the same for the program that slept in a warm image (`doze image\n"
            "snapshot`): each sandbox made from the image resumes it. Requires SANDBOX.\n"
            "\n"
            "frk_...: starts a sandbox from the fork and prints its id.\n"
            "ref_...: attaches to the sandbox that the reference names and prints its id.\n",
    .run = attach,
};
