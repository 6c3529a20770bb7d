/* SPDX-License-Identifier: MIT
 *
 * `doze wake`, `suspend`, `freeze`, `archive`, `revive`, `prefetch`, `hold`: one hop each
 * from one state of a sandbox to the next.
 */
#include "base/num.h"
#include "cli/cli_remote.h"

#include <string.h>

#define NAME_HELP "SANDBOX is an id, the unique beginning of one, a name, or TENANT/NAME.\n"

static const struct dz_cli_option plain_options[] = {DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET,
                                                     DZ_CLI_OPTION_END};

/* The state after the hop, for people; -q: nothing but errors. */
static int show_state(struct dz_cli *c, json_t *answer, struct dz_err *err)
{
    if (!c->json && c->quiet) {
        json_decref(answer);
        return DZ_EXIT_OK;
    }
    return dz_cli_show_one(c, answer, "state", err);
}

static int hop(struct dz_cli *c, const char *verb, json_t *body, struct dz_err *err)
{
    json_t *answer = NULL;
    int rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/sandboxes/{}/{}", c->argv[0], verb);
    return rc < 0 ? rc : show_state(c, answer, err);
}

/* --- wake --------------------------------------------------------------------------------------
 */

static int wake(struct dz_cli *c, struct dz_err *err)
{
    json_t *body = json_object(), *answer = NULL;
    if (dz_cli_value(c, "keep"))
        (void)json_object_set_new(body, "keep", json_string(dz_cli_value(c, "keep")));
    if (dz_cli_value(c, "policy"))
        (void)json_object_set_new(body, "policy", json_string(dz_cli_value(c, "policy")));
    int rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/sandboxes/{}/wake", c->argv[0]);
    if (rc < 0)
        return rc;
    if (c->json || c->quiet)
        return show_state(c, answer, err);
    if (strcmp(dz_cli_text(answer, "result"), "warm") == 0)
        fprintf(c->out, "was awake\n");
    else
        fprintf(c->out, "awake in %.1f ms (%s)\n", json_number_value(json_object_get(answer, "ms")),
                dz_cli_text(answer, "rung"));
    json_decref(answer);
    return DZ_EXIT_OK;
}

static const struct dz_cli_option wake_options[] = {
    {"keep", 0, "WHAT", "keep memory, or only files, when it sleeps again"},
    {"policy", 0, "NAME", "limit it: minimal, network, posix, compute"},
    DZ_CLI_OPTION_JSON,
    DZ_CLI_OPTION_QUIET,
    DZ_CLI_OPTION_END,
};

#define HELP_WAKE                                                                           \
    NAME_HELP "Any command on a sandbox wakes it; this one only that. It says where the\n"  \
              "machine was: local (its file was here), cold (fetched from cold storage),\n" \
              "fresh (there was no memory to go on with).\n"

const struct dz_cli_command dz_cmd_wake = {
    .name = "wake",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "wake a sandbox",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = wake_options,
    .help = HELP_WAKE,
    .run = wake,
};

const struct dz_cli_command dz_cmd_sandbox_wake = {
    .name = "sandbox wake",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "the same as `doze wake`",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = wake_options,
    .help = HELP_WAKE,
    .run = wake,
};

/* --- the other hops ------------------------------------------------------------------------------
 */

static int suspend(struct dz_cli *c, struct dz_err *err)
{
    json_t *body = NULL;
    if (dz_cli_value(c, "keep"))
        body = json_pack("{s:s}", "keep", dz_cli_value(c, "keep"));
    return hop(c, "suspend", body, err);
}

static int archive(struct dz_cli *c, struct dz_err *err)
{
    json_t *body = NULL;
    if (dz_cli_value(c, "keep"))
        body = json_pack("{s:s}", "keep", dz_cli_value(c, "keep"));
    return hop(c, "archive", body, err);
}

const struct dz_cli_command dz_cmd_archive = {
    .name = "archive",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "put a sandbox away, compressed",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){{"keep", 0, "WHAT", "keep memory (default), or only files"},
                                       DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET,
                                       DZ_CLI_OPTION_END},
    .help = NAME_HELP
    "SANDBOX is active or frozen; an active one is put to sleep first. The archive\n"
    "holds its files, its sleeping processes with their memory, and the records of\n"
    "its commands, compacted, compressed and read back. With --keep files processes,\n"
    "memory, /tmp and records are dropped, and an event says so. Requests do not\n"
    "wake an archived sandbox: `doze revive` brings it back.\n",
    .run = archive,
};

const struct dz_cli_command dz_cmd_suspend = {
    .name = "suspend",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "put a sandbox to sleep now",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){{"keep", 0, "WHAT", "keep memory, or only files"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help =
        NAME_HELP "Its processes stop where they are and go into its file; the next request has\n"
                  "them back. With --keep files only its files stay.\n",
    .run = suspend,
};

#define HOP(id, text, what)                             \
    static int id(struct dz_cli *c, struct dz_err *err) \
    {                                                   \
        return hop(c, #id, NULL, err);                  \
    }                                                   \
    const struct dz_cli_command dz_cmd_##id = {         \
        .name = #id,                                    \
        .group = DZ_CLI_GROUP_SANDBOX,                  \
        .summary = text,                                \
        .args = "SANDBOX",                              \
        .min_args = 1,                                  \
        .max_args = 1,                                  \
        .options = plain_options,                       \
        .help = NAME_HELP what,                         \
        .run = id,                                      \
    }

HOP(freeze, "move a sleeping sandbox to cold storage",
    "Its file goes to the cold directory, with its hash. Waking it brings it back.\n");
HOP(revive, "take a sandbox out of the archive",
    "The sandbox is active then. Its processes resume where they stopped, as after\n"
    "any sleep. A sandbox archived with --keep files starts from its files.\n");
HOP(prefetch, "bring a frozen sandbox's file here",
    "So that its next wake need not wait for cold storage. It stays frozen.\n");

/* --- hold
 * ------------------------------------------------------------------------------------------ */

static int hold(struct dz_cli *c, struct dz_err *err)
{
    const char *length = dz_cli_value(c, "for");
    json_t *answer = NULL;
    int64_t ms;
    if (dz_cli_flag(c, "release")) {
        if (length)
            return dz_cli_usage(c, err, "--for or --release, not both");
        int rc = dz_cli_ask(c, "DELETE", NULL, &answer, err, "/v1/sandboxes/{}/hold", c->argv[0]);
        return rc < 0 ? rc : show_state(c, answer, err);
    }
    length = length ? length : "1h";
    if (dz_duration_parse(dz_str(length), 1, INT64_MAX, &ms, NULL) < 0)
        return dz_cli_usage(c, err, "--for wants a duration such as 1h, not %s", length);
    return hop(c, "hold", json_pack("{s:s}", "for", length), err);
}

const struct dz_cli_command dz_cmd_hold = {
    .name = "hold",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "keep a sandbox from falling asleep",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){{"for", 0, "DURATION", "for so long (default 1h)"},
                                              {"release", 0, NULL, "no longer"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help =
        NAME_HELP "However idle it is. One that sleeps is woken. `doze suspend` still puts it to\n"
                  "sleep.\n",
    .run = hold,
};

/* --- timeout -------------------------------------------------------------------------------- */

static int timeout(struct dz_cli *c, struct dz_err *err)
{
    const char *after = c->argc > 1 ? c->argv[1] : NULL, *action = dz_cli_value(c, "action");
    json_t *answer = NULL;
    int64_t ms;
    if (dz_cli_flag(c, "release")) {
        if (after || action)
            return dz_cli_usage(c, err, "DURATION or --release, not both");
        int rc =
            dz_cli_ask(c, "DELETE", NULL, &answer, err, "/v1/sandboxes/{}/timeout", c->argv[0]);
        return rc < 0 ? rc : show_state(c, answer, err);
    }
    if (!after || dz_duration_parse(dz_str(after), 1, INT64_MAX, &ms, NULL) < 0)
        return dz_cli_usage(c, err, "after which time? A duration such as 15m%s%s",
                            after ? ", not " : "", after ? after : "");
    json_t *body = json_pack("{s:s}", "after", after);
    if (action)
        (void)json_object_set_new(body, "action", json_string(action));
    return hop(c, "timeout", body, err);
}

const struct dz_cli_command dz_cmd_timeout = {
    .name = "timeout",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "let a sandbox be awake for so long only",
    .args = "SANDBOX [DURATION]",
    .min_args = 1,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){{"action", 0, "ACTION",
                                               "then destroy it (default), or pause"},
                                              {"release", 0, NULL, "no longer"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help =
        NAME_HELP "From now on, however busy it is; the time stands still while it sleeps. One\n"
                  "that was paused begins anew when it is woken.\n",
    .run = timeout,
};
