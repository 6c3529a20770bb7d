/* SPDX-License-Identifier: MIT
 *
 * `doze service add`, `ls`, `status`, `rm`, `start`, `stop`, `restart`: commands that start with a
 * sandbox.
 */
#include "cli/cli_remote.h"

#include "base/limits.h"
#include "base/num.h"

#include <string.h>

static void put_text(json_t *o, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(o, key, json_string(value));
}

int dz_cli_services(struct dz_cli *c, json_t *body, struct dz_err *err)
{
    const char *path = dz_cli_value(c, "services");
    json_error_t bad;
    if (!path)
        return 0;
    json_t *list = json_load_file(path, JSON_REJECT_DUPLICATES, &bad);
    if (!json_is_array(list)) {
        json_decref(list);
        return dz_cli_usage(c, err, "--services: %s is not a file with a JSON array: %s", path,
                            list ? "it has something else" : bad.text);
    }
    return json_object_set_new(body, "services", list) == 0
               ? 0
               : dz_fail(err, DZ_ENOMEM, "read %s: out of memory", path);
}

/* The options --ready-*, as the member `ready`. */
static int put_ready(struct dz_cli *c, json_t *body, struct dz_err *err)
{
    static const char *const same[][2] = {
        {"ready-log", "log"}, {"ready-shell", "shell"}, {"ready-timeout", "timeout"}};
    json_t *ready = json_object();
    const char *port = dz_cli_value(c, "ready-port"), *http = dz_cli_value(c, "ready-http");
    for (size_t i = 0; i < DZ_ARRAY_LEN(same); i++)
        put_text(ready, same[i][1], dz_cli_value(c, same[i][0]));
    uint64_t n = 0;
    const char *slash = http ? strchr(http, '/') : NULL;
    const struct dz_str head = http ? dz_str_n(http, slash ? (size_t)(slash - http) : strlen(http))
                                    : dz_str(port ? port : "1");
    if (dz_num_u64(head, 1, 65535, &n, NULL) < 0) {
        json_decref(ready);
        return dz_cli_usage(c, err,
                            http ? "--ready-http must be PORT[/PATH], not %s"
                                 : "--ready-port must be a port, not %s",
                            http ? http : port);
    }
    if (port)
        (void)json_object_set_new(ready, "port", json_integer((json_int_t)n));
    if (http)
        (void)json_object_set_new(
            ready, "http",
            json_pack("{s:I,s:s}", "port", (json_int_t)n, "path", slash ? slash : "/"));
    if (json_object_size(ready))
        (void)json_object_set(body, "ready", ready);
    json_decref(ready);
    return 0;
}

static int put_env(struct dz_cli *c, json_t *body, struct dz_err *err)
{
    json_t *env = json_object();
    const char *given;
    for (int i = 0; (given = dz_cli_value_at(c, "env", i)); i++) {
        const char *eq = strchr(given, '=');
        char key[256];
        if (!eq || eq == given || (size_t)(eq - given) >= sizeof key) {
            json_decref(env);
            return dz_cli_usage(c, err, "--env must be KEY=VALUE, not %s", given);
        }
        memcpy(key, given, (size_t)(eq - given));
        key[eq - given] = '\0';
        (void)json_object_set_new(env, key, json_string(eq + 1));
    }
    if (json_object_size(env))
        (void)json_object_set(body, "env", env);
    json_decref(env);
    return 0;
}

static int add(struct dz_cli *c, struct dz_err *err)
{
    static const char *const same[][2] = {{"workdir", "cwd"},
                                          {"user", "user"},
                                          {"restart", "restart"},
                                          {"stop-signal", "stop_signal"},
                                          {"grace", "grace"}};
    json_t *answer = NULL, *body = json_object(), *cmd = json_array(), *needs = json_array();
    const char *need;
    bool good = body && cmd && needs;
    for (int i = 2; good && i < c->argc; i++)
        good = json_array_append_new(cmd, json_string(c->argv[i])) == 0;
    if (!good) {
        json_decref(body);
        json_decref(cmd);
        json_decref(needs);
        return dz_cli_usage(c, err, "COMMAND contains a word that is not valid UTF-8");
    }
    for (int i = 0; (need = dz_cli_value_at(c, "needs", i)); i++)
        (void)json_array_append_new(needs, json_string(need));
    (void)json_object_set_new(body, "cmd", cmd);
    (void)json_object_set_new(body, "needs", needs);
    put_text(body, "name", c->argv[1]);
    for (size_t i = 0; i < DZ_ARRAY_LEN(same); i++)
        put_text(body, same[i][1], dz_cli_value(c, same[i][0]));
    int rc = put_ready(c, body, err);
    if (rc == 0)
        rc = put_env(c, body, err);
    if (rc < 0) {
        json_decref(body);
        return rc;
    }
    rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/sandboxes/{}/services", c->argv[0]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "name", err);
}

const struct dz_cli_command dz_cmd_service_add = {
    .name = "service add",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "run a command whenever the sandbox runs",
    .args = "SANDBOX NAME COMMAND [ARGUMENT...]",
    .min_args = 3,
    .max_args = -1,
    .flags = DZ_CLI_REST,
    .lead = 2,
    .options =
        (const struct dz_cli_option[]){
            {"needs", 0, "NAME", "start it when this service is ready; may be repeated"},
            {"restart", 0, "POLICY", "when it ends: no, on-failure (default), always"},
            {"ready-port", 0, "PORT", "it is ready when a program listens on PORT"},
            {"ready-http", 0, "PORT[/PATH]", "it is ready when GET answers with status 200"},
            {"ready-shell", 0, "COMMAND", "it is ready when COMMAND exits with status 0"},
            {"ready-log", 0, "TEXT", "it is ready when its output has TEXT"},
            {"ready-timeout", 0, "DURATION", "stop it if it is not ready by then (60s)"},
            {"stop-signal", 0, "NAME", "asks it to end (default: the image's, or TERM)"},
            {"grace", 0, "DURATION", "from the stop signal to the kill (default: 10s)"},
            {"workdir", 'w', "DIR", "the directory to run it in"},
            {"user", 'u', "USER", "the user to run it as: a name, or UID[:GID]"},
            {"env", 'e', "KEY=VALUE", "an environment variable; may be repeated"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = DZ_CLI_SANDBOX_HELP
    "It starts at once if the sandbox runs, otherwise when the sandbox wakes. It\n"
    "sleeps with the sandbox, and goes on when that wakes with its memory.\n"
    "`doze logs SANDBOX NAME` prints its output.\n",
    .run = add,
};

/* --- looking ---------------------------------------------------------------------------------- */

static int ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"NAME", "name", DZ_CLI_SHOW_TEXT},         {"STATUS", "status", DZ_CLI_SHOW_TEXT},
        {"RESTARTS", "restarts", DZ_CLI_SHOW_TEXT}, {"STARTED", "started_at", DZ_CLI_SHOW_TIME},
        {"EXEC", "exec_id", DZ_CLI_SHOW_TEXT},      {"ERROR", "error", DZ_CLI_SHOW_TEXT},
    };
    json_t *answer = NULL;
    int rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/sandboxes/{}/services", c->argv[0]);
    if (rc < 0)
        return rc;
    rc = dz_cli_show(c, json_object_get(answer, "services"), shown, DZ_ARRAY_LEN(shown), err);
    json_decref(answer);
    return rc;
}

const struct dz_cli_command dz_cmd_service_ls = {
    .name = "service ls",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list the services of a sandbox",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "This does not wake the sandbox. With --json the list has all members.\n",
    .run = ls,
};

static int status(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL;
    int rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/sandboxes/{}/services/{}", c->argv[0],
                        c->argv[1]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "status", err);
}

const struct dz_cli_command dz_cmd_service_status = {
    .name = "service status",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "print the status of a service",
    .args = "SANDBOX SERVICE",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "One of stopped, waiting (for what it needs), starting, ready, stopping,\n"
    "backoff, crash_loop, done, failed and asleep. --json prints all that is known.\n",
    .run = status,
};

/* --- changing --------------------------------------------------------------------------------- */

static int rm(struct dz_cli *c, struct dz_err *err)
{
    int rc = dz_cli_ask(c, "DELETE", NULL, NULL, err, "/v1/sandboxes/{}/services/{}", c->argv[0],
                        c->argv[1]);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_service_rm = {
    .name = "service rm",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "delete a service and stop it",
    .args = "SANDBOX SERVICE",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP "A service that others need cannot be deleted.\n",
    .run = rm,
};

static int order(struct dz_cli *c, const char *what, struct dz_err *err)
{
    json_t *answer = NULL;
    int rc = dz_cli_ask(c, "POST", NULL, &answer, err, "/v1/sandboxes/{}/services/{}/{}",
                        c->argv[0], c->argv[1], what);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "status", err);
}

static int start(struct dz_cli *c, struct dz_err *err)
{
    return order(c, "start", err);
}

static int stop(struct dz_cli *c, struct dz_err *err)
{
    return order(c, "stop", err);
}

static int restart(struct dz_cli *c, struct dz_err *err)
{
    return order(c, "restart", err);
}

const struct dz_cli_command dz_cmd_service_start = {
    .name = "service start",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "start a service",
    .args = "SANDBOX SERVICE",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help =
        DZ_CLI_SANDBOX_HELP "Wakes the sandbox, and prints the service's status at that moment.\n",
    .run = start,
};

const struct dz_cli_command dz_cmd_service_stop = {
    .name = "service stop",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "stop a service until it is started again",
    .args = "SANDBOX SERVICE",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Sends the stop signal, and kills it after its grace. It does not start with the\n"
    "sandbox any more.\n",
    .run = stop,
};

const struct dz_cli_command dz_cmd_service_restart = {
    .name = "service restart",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "stop a service and start it again",
    .args = "SANDBOX SERVICE",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help =
        DZ_CLI_SANDBOX_HELP "Wakes the sandbox, and prints the service's status at that moment.\n",
    .run = restart,
};
