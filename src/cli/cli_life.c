/* SPDX-License-Identifier: MIT
 *
 * `doze wake`, `suspend`, `freeze`, `archive`, `revive`, `prefetch`, `hold`: each is one
 * transition between states of a sandbox.
 */
#include "base/num.h"
#include "cli/cli_remote.h"

#include <poll.h>
#include <string.h>

enum {
    AGAIN_MS = 20, /* between requests while another wake is under way */
};

static const struct dz_cli_option plain_options[] = {DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET,
                                                     DZ_CLI_OPTION_END};

/* Print the state after the transition; with -q, print only errors. */
static int show_state(struct dz_cli *c, json_t *answer, struct dz_err *err)
{
    if (!c->json && c->quiet) {
        json_decref(answer);
        return DZ_EXIT_OK;
    }
    return dz_cli_show_one(c, answer, "state", err);
}

static int change_state(struct dz_cli *c, const char *verb, json_t *body, struct dz_err *err)
{
    json_t *answer = NULL;
    char pattern[64];
    (void)snprintf(pattern, sizeof pattern, "/v1/sandboxes/{}/%s", verb);
    int rc = dz_cli_ask_long(c, pattern, c->argv[0], body, &answer, err);
    return rc < 0 ? rc : show_state(c, answer, err);
}

/* --- wake ------------------------------------------------------------------------------------- */

static int wake(struct dz_cli *c, struct dz_err *err)
{
    json_t *body = json_object(), *answer = NULL;
    if (dz_cli_value(c, "keep"))
        (void)json_object_set_new(body, "keep", json_string(dz_cli_value(c, "keep")));
    if (dz_cli_value(c, "policy"))
        (void)json_object_set_new(body, "policy", json_string(dz_cli_value(c, "policy")));
    int rc;
    /* The daemon refuses an explicit wake beside another one, for instance by a connection. The
     * next request finds the sandbox awake, or wakes it if the other wake has failed. */
    while ((rc = dz_cli_ask_long(c, "/v1/sandboxes/{}/wake", c->argv[0], json_incref(body), &answer,
                                 err)) == DZ_ERESTORING)
        (void)poll(NULL, 0, AGAIN_MS);
    json_decref(body);
    if (rc < 0)
        return rc;
    if (c->json || c->quiet)
        return show_state(c, answer, err);
    if (strcmp(dz_cli_text(answer, "result"), "warm") == 0)
        fprintf(c->out, "was already awake\n");
    else
        fprintf(c->out, "awake in %.1f ms (%s)\n", json_number_value(json_object_get(answer, "ms")),
                dz_cli_text(answer, "rung"));
    json_decref(answer);
    return DZ_EXIT_OK;
}

static const struct dz_cli_option wake_options[] = {
    {"keep", 0, "WHAT", "keep memory or only files at its next suspend"},
    {"policy", 0, "NAME", "apply a policy: minimal, network, posix, compute"},
    DZ_CLI_OPTION_JSON,
    DZ_CLI_OPTION_QUIET,
    DZ_CLI_OPTION_END,
};

#define HELP_WAKE                                                                    \
    DZ_CLI_SANDBOX_HELP                                                              \
    "Any command on a sandbox wakes it; this command does nothing else. It prints\n" \
    "where the sandbox came from: local (its file was here), cold (its file was\n"   \
    "fetched from cold storage) or fresh (there was no memory to resume).\n"         \
    "Beside a wake that is under way it waits for that one.\n"

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

/* --- the other transitions -------------------------------------------------------------------- */

static int suspend(struct dz_cli *c, struct dz_err *err)
{
    json_t *body = NULL;
    if (dz_cli_value(c, "keep"))
        body = json_pack("{s:s}", "keep", dz_cli_value(c, "keep"));
    return change_state(c, "suspend", body, err);
}

static int archive(struct dz_cli *c, struct dz_err *err)
{
    json_t *body = NULL;
    if (dz_cli_value(c, "keep"))
        body = json_pack("{s:s}", "keep", dz_cli_value(c, "keep"));
    return change_state(c, "archive", body, err);
}

const struct dz_cli_command dz_cmd_archive = {
    .name = "archive",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "compress a sandbox and put it away",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){{"keep", 0, "WHAT", "keep memory (default) or only files"},
                                       DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET,
                                       DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "SANDBOX must be active or frozen; an active one is suspended first. The archive\n"
    "holds its files, its sleeping processes with their memory, and its command\n"
    "records, compacted, compressed and verified. --keep files drops processes,\n"
    "memory, /tmp and records, and an event says so. Requests do not wake an\n"
    "archived sandbox: `doze revive` brings it back.\n",
    .run = archive,
};

const struct dz_cli_command dz_cmd_suspend = {
    .name = "suspend",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "suspend a sandbox now",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){{"keep", 0, "WHAT", "keep memory or only files"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Its processes stop where they are and are stored in its file; the next request\n"
    "resumes them. With --keep files, only its files are kept.\n",
    .run = suspend,
};

#define TRANSITION(id, text, what)                      \
    static int id(struct dz_cli *c, struct dz_err *err) \
    {                                                   \
        return change_state(c, #id, NULL, err);         \
    }                                                   \
    const struct dz_cli_command dz_cmd_##id = {         \
        .name = #id,                                    \
        .group = DZ_CLI_GROUP_SANDBOX,                  \
        .summary = text,                                \
        .args = "SANDBOX",                              \
        .min_args = 1,                                  \
        .max_args = 1,                                  \
        .options = plain_options,                       \
        .help = DZ_CLI_SANDBOX_HELP what,               \
        .run = id,                                      \
    }

TRANSITION(freeze, "move a suspended sandbox to cold storage",
           "Moves its file to the cold directory and records its hash. Waking the sandbox\n"
           "brings the file back.\n");
TRANSITION(revive, "restore an archived sandbox",
           "The sandbox is active afterwards. Its processes resume where they stopped, as\n"
           "after any suspend. A sandbox archived with --keep files starts from its files.\n");
TRANSITION(prefetch, "fetch a frozen sandbox's file from cold storage",
           "The next wake then does not wait for cold storage. The sandbox stays frozen.\n");

/* --- hold ------------------------------------------------------------------------------------- */

static int hold(struct dz_cli *c, struct dz_err *err)
{
    const char *length = dz_cli_value(c, "for");
    json_t *answer = NULL;
    int64_t ms;
    if (dz_cli_flag(c, "release")) {
        if (length)
            return dz_cli_usage(c, err, "give either --for or --release, not both");
        int rc = dz_cli_ask(c, "DELETE", NULL, &answer, err, "/v1/sandboxes/{}/hold", c->argv[0]);
        return rc < 0 ? rc : show_state(c, answer, err);
    }
    length = length ? length : "1h";
    if (dz_duration_parse(dz_str(length), 1, INT64_MAX, &ms, NULL) < 0)
        return dz_cli_usage(c, err, "--for must be a duration such as 1h, not %s", length);
    return change_state(c, "hold", json_pack("{s:s}", "for", length), err);
}

const struct dz_cli_command dz_cmd_hold = {
    .name = "hold",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "keep a sandbox awake for a time",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){{"for", 0, "DURATION", "for this long (default 1h)"},
                                              {"release", 0, NULL, "end the hold"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Idleness does not suspend the sandbox meanwhile. A sleeping sandbox is woken.\n"
    "`doze suspend` still suspends it.\n",
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
            return dz_cli_usage(c, err, "give either DURATION or --release, not both");
        int rc =
            dz_cli_ask(c, "DELETE", NULL, &answer, err, "/v1/sandboxes/{}/timeout", c->argv[0]);
        return rc < 0 ? rc : show_state(c, answer, err);
    }
    if (!after || dz_duration_parse(dz_str(after), 1, INT64_MAX, &ms, NULL) < 0)
        return dz_cli_usage(c, err, "a duration such as 15m is required%s%s", after ? ", not " : "",
                            after ? after : "");
    json_t *body = json_pack("{s:s}", "after", after);
    if (action)
        (void)json_object_set_new(body, "action", json_string(action));
    return change_state(c, "timeout", body, err);
}

const struct dz_cli_command dz_cmd_timeout = {
    .name = "timeout",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "limit how long a sandbox may run",
    .args = "SANDBOX [DURATION]",
    .min_args = 1,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){{"action", 0, "ACTION",
                                               "then destroy it (default) or pause it"},
                                              {"release", 0, NULL, "clear the timeout"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "The time runs from now on, however busy the sandbox is, and stops while the\n"
    "sandbox is suspended. After a pause, the time starts again from the beginning\n"
    "when the sandbox is woken.\n",
    .run = timeout,
};

/* --- expiry --------------------------------------------------------------------------------- */

static int expiry(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL, *e = NULL;
    int rc = dz_cli_expiry(c, &e, err);
    if (rc < 0)
        return rc;
    if (dz_cli_flag(c, "none")) {
        if (e) {
            json_decref(e);
            return dz_cli_usage(c, err, "give either --none or when it expires, not both");
        }
        e = json_object();
    }
    rc = e ? dz_cli_ask(c, "PATCH", json_pack("{s:o}", "expiry", e), &answer, err,
                        "/v1/sandboxes/{}", c->argv[0])
           : dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/sandboxes/{}", c->argv[0]);
    if (rc < 0)
        return rc;
    if (c->quiet && !c->json) {
        json_decref(answer);
        return DZ_EXIT_OK;
    }
    if (!c->json && json_is_null(json_object_get(answer, "expires_at")))
        (void)json_object_set_new(answer, "expires_at", json_string("never"));
    return dz_cli_show_one(c, answer, "expires_at", err);
}

const struct dz_cli_command dz_cmd_expiry = {
    .name = "expiry",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "show or set when a sandbox expires",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            DZ_CLI_OPTIONS_EXPIRY{"none", 0, NULL, "let it exist until `doze rm`"},
            DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "The options replace all that was set before; the earliest of them counts.\n"
    "Prints when the sandbox expires if nothing happens to it, or `never`. An\n"
    "expired sandbox is stopped at once, every use of it is refused, and five\n"
    "minutes later it is removed with all its files.\n",
    .run = expiry,
};
