/* SPDX-License-Identifier: MIT
 *
 * `doze schedule add`, `ls`, `rm`, `run`, `history`: commands that a daemon runs in a sandbox at
 * certain times.
 */
#include "base/limits.h"
#include "cli/cli_remote.h"

#include <string.h>

static void put_text(json_t *o, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(o, key, json_string(value));
}

static int add(struct dz_cli *c, struct dz_err *err)
{
    static const char *const same[] = {"cron",   "zone",    "every", "at",
                                       "missed", "overlap", "user",  "timeout"};
    json_t *answer = NULL, *body = json_object(), *cmd = json_array();
    bool good = body && cmd;
    for (int i = 2; good && i < c->argc; i++)
        good = json_array_append_new(cmd, json_string(c->argv[i])) == 0;
    if (!good) {
        json_decref(body);
        json_decref(cmd);
        return dz_cli_usage(c, err, "COMMAND contains a word that is not valid UTF-8");
    }
    (void)json_object_set_new(body, "cmd", cmd);
    put_text(body, "name", c->argv[1]);
    put_text(body, "cwd", dz_cli_value(c, "workdir"));
    for (size_t i = 0; i < DZ_ARRAY_LEN(same); i++)
        put_text(body, same[i], dz_cli_value(c, same[i]));
    int rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/sandboxes/{}/schedules", c->argv[0]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "id", err);
}

const struct dz_cli_command dz_cmd_schedule_add = {
    .name = "schedule add",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "run a command in a sandbox at certain times",
    .args = "SANDBOX NAME COMMAND [ARGUMENT...]",
    .min_args = 3,
    .max_args = -1,
    .flags = DZ_CLI_REST,
    .lead = 2,
    .options =
        (const struct dz_cli_option[]){
            {"cron", 0, "EXPRESSION", "at these times: minute hour day month weekday"},
            {"zone", 0, "ZONE", "in this time zone, as Europe/Berlin (default: UTC)"},
            {"every", 0, "DURATION", "at this interval, from now on"},
            {"at", 0, "TIME", "once, at this time: 2030-01-31T12:00:00Z"},
            {"missed", 0, "POLICY", "times missed by the daemon: skip, once (default), all"},
            {"overlap", 0, "POLICY", "if the run before is not over: skip, queue, parallel"},
            {"workdir", 'w', "DIR", "the directory to run it in"},
            {"user", 'u', "USER", "the user to run it as: a name, or UID[:GID]"},
            {"timeout", 0, "DURATION", "kill it after this long"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = DZ_CLI_SANDBOX_HELP
    "Give one of --cron, --every and --at. A run wakes the sandbox. When the clocks\n"
    "are changed, a local time that they skip comes at the change, and a time that\n"
    "they repeat comes once.\n",
    .run = add,
};

static int ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"ID", "id", DZ_CLI_SHOW_TEXT},
        {"NAME", "name", DZ_CLI_SHOW_TEXT},
        {"SANDBOX", "sandbox_id", DZ_CLI_SHOW_TEXT},
        {"STATUS", "status", DZ_CLI_SHOW_TEXT},
        {"CRON", "cron", DZ_CLI_SHOW_TEXT},
        {"ZONE", "zone", DZ_CLI_SHOW_TEXT},
        {"NEXT", "next_at", DZ_CLI_SHOW_TIME},
    };
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL;
    if (c->argc)
        dz_client_target(&target, "/v1/sandboxes/{}/schedules", c->argv[0]);
    else
        dz_buf_adds(&target, "/v1/schedules");
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_cli_ask_list(c, client, &target, "schedules", &items, err);
    if (rc < 0)
        return rc;
    rc = dz_cli_show(c, items, shown, DZ_ARRAY_LEN(shown), err);
    json_decref(items);
    return rc;
}

const struct dz_cli_command dz_cmd_schedule_ls = {
    .name = "schedule ls",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list schedules",
    .args = "[SANDBOX]",
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Without SANDBOX: those of all sandboxes of the tenant. With --json the list has\n"
    "all members, as the interval and the command.\n",
    .run = ls,
};

static int rm(struct dz_cli *c, struct dz_err *err)
{
    int rc = dz_cli_ask(c, "DELETE", NULL, NULL, err, "/v1/sandboxes/{}/schedules/{}", c->argv[0],
                        c->argv[1]);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_schedule_rm = {
    .name = "schedule rm",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "delete a schedule and its history",
    .args = "SANDBOX SCHEDULE",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP "SCHEDULE is a name or an id. A run in progress goes on.\n",
    .run = rm,
};

static int run_now(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL;
    int rc = dz_cli_ask(c, "POST", NULL, &answer, err, "/v1/sandboxes/{}/schedules/{}/run",
                        c->argv[0], c->argv[1]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "id", err);
}

const struct dz_cli_command dz_cmd_schedule_run = {
    .name = "schedule run",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "run a schedule now, besides its times",
    .args = "SANDBOX SCHEDULE",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "SCHEDULE is a name or an id. Prints the id of the run, and does not wait for\n"
    "its end: see `doze schedule history`.\n",
    .run = run_now,
};

static int history(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"ID", "id", DZ_CLI_SHOW_TEXT},
        {"STATUS", "status", DZ_CLI_SHOW_TEXT},
        {"CAUSE", "cause", DZ_CLI_SHOW_TEXT},
        {"PLANNED", "planned_at", DZ_CLI_SHOW_TIME},
        {"STARTED", "started_at", DZ_CLI_SHOW_TIME},
        {"ENDED", "ended_at", DZ_CLI_SHOW_TIME},
        {"EXEC", "exec_id", DZ_CLI_SHOW_TEXT},
        {"ERROR", "error", DZ_CLI_SHOW_TEXT},
    };
    json_t *answer = NULL;
    int rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/sandboxes/{}/schedules/{}/runs",
                        c->argv[0], c->argv[1]);
    if (rc < 0)
        return rc;
    rc = dz_cli_show(c, json_object_get(answer, "runs"), shown, DZ_ARRAY_LEN(shown), err);
    json_decref(answer);
    return rc;
}

const struct dz_cli_command dz_cmd_schedule_history = {
    .name = "schedule history",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list the last runs of a schedule",
    .args = "SANDBOX SCHEDULE",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "SCHEDULE is a name or an id. The last 50 runs are kept, the newest first. EXEC\n"
    "is the command's id for `doze logs`.\n",
    .run = history,
};
