/* SPDX-License-Identifier: MIT
 *
 * `doze snapshot ls|rm`, `doze fork ls|rm`, `doze ref`, `doze ref ls|rm`: the handles of a
 * daemon. cli_branch.c creates snapshots and forks.
 */
#include "base/limits.h"
#include "cli/cli_remote.h"

/* List one kind of handle: /v1/PLURAL. */
static int list(struct dz_cli *c, const char *plural, const struct dz_cli_shown *shown,
                size_t count, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL;
    dz_client_target(&target, "/v1/{}", plural);
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_cli_ask_list(c, client, &target, plural, &items, err);
    if (rc == 0)
        rc = dz_cli_show(c, items, shown, count, err);
    json_decref(items);
    return rc;
}

/* Remove each operand; a failure does not stop the others. */
static int remove_all(struct dz_cli *c, const char *plural, const char *sandbox, struct dz_err *err)
{
    int status = DZ_EXIT_OK;
    for (int i = 0; i < c->argc; i++) {
        DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
        dz_client_target(&target, "/v1/{}/{}", plural, c->argv[i]);
        dz_client_target_add(&target, "sandbox", sandbox);
        int rc = dz_cli_ask_target(c, "DELETE", &target, NULL, NULL, err);
        if (rc < 0 && c->argc == 1)
            return rc;
        if (rc < 0) {
            dz_cli_warn(c, "%s: %s", c->argv[i], err->msg);
            status = DZ_EXIT_FAILURE;
        } else if (!c->quiet) {
            dz_cli_put(c, c->argv[i]);
        }
    }
    return status;
}

static const struct dz_cli_option list_options[] = {DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET,
                                                    DZ_CLI_OPTION_END};
static const struct dz_cli_option remove_options[] = {DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END};

/* --- snapshots ---------------------------------------------------------------------------- */

static int snapshot_ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"ID", "id", DZ_CLI_SHOW_TEXT},
        {"NAME", "name", DZ_CLI_SHOW_TEXT},
        {"KIND", "kind", DZ_CLI_SHOW_TEXT},
        {"SANDBOX", "sandbox_id", DZ_CLI_SHOW_TEXT},
        {"TENANT", "tenant", DZ_CLI_SHOW_TEXT},
        {"SIZE", "bytes", DZ_CLI_SHOW_SIZE},
        {"CREATED", "created_at", DZ_CLI_SHOW_TIME},
        {"EXPIRES", "expires_at", DZ_CLI_SHOW_TIME},
    };
    return list(c, "snapshots", shown, DZ_ARRAY_LEN(shown), err);
}

const struct dz_cli_command dz_cmd_snapshot_ls = {
    .name = "snapshot ls",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list snapshots",
    .args = "",
    .options = list_options,
    .help = "KIND is snapshot (made by `doze snapshot`), fork (used by a fork and removed\n"
            "with it) or pause (a paused sandbox). -q prints ids only.\n",
    .run = snapshot_ls,
};

static int snapshot_rm(struct dz_cli *c, struct dz_err *err)
{
    return remove_all(c, "snapshots", NULL, err);
}

const struct dz_cli_command dz_cmd_snapshot_rm = {
    .name = "snapshot rm",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "remove snapshots",
    .args = "SNAPSHOT...",
    .min_args = 1,
    .max_args = -1,
    .options = remove_options,
    .help = "SNAPSHOT is a full id, a name, or TENANT/NAME. Sandboxes made from it stay. A\n"
            "snapshot that a fork uses is removed by `doze fork rm`.\n",
    .run = snapshot_rm,
};

/* --- forks --------------------------------------------------------------------------------- */

static int fork_ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"ID", "id", DZ_CLI_SHOW_TEXT},
        {"LABEL", "label", DZ_CLI_SHOW_TEXT},
        {"SANDBOX", "sandbox_id", DZ_CLI_SHOW_TEXT},
        {"TENANT", "tenant", DZ_CLI_SHOW_TEXT},
        {"BRANCHES", "attached", DZ_CLI_SHOW_TEXT},
        {"CREATED", "created_at", DZ_CLI_SHOW_TIME},
        {"EXPIRES", "expires_at", DZ_CLI_SHOW_TIME},
    };
    return list(c, "forks", shown, DZ_ARRAY_LEN(shown), err);
}

const struct dz_cli_command dz_cmd_fork_ls = {
    .name = "fork ls",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list forks",
    .args = "",
    .options = list_options,
    .help = "BRANCHES is how many sandboxes were started from it. -q prints ids only.\n",
    .run = fork_ls,
};

static int fork_rm(struct dz_cli *c, struct dz_err *err)
{
    return remove_all(c, "forks", NULL, err);
}

const struct dz_cli_command dz_cmd_fork_rm = {
    .name = "fork rm",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "remove forks",
    .args = "FORK...",
    .min_args = 1,
    .max_args = -1,
    .options = remove_options,
    .help = "FORK is a full id (frk_...). Its file is deleted; sandboxes started from it\n"
            "stay.\n",
    .run = fork_rm,
};

/* --- references ---------------------------------------------------------------------------- */

static int ref(struct dz_cli *c, struct dz_err *err)
{
    const char *name = dz_cli_value(c, "name"), *expires = dz_cli_value(c, "expires");
    json_t *body = json_object(), *answer = NULL;
    if (name)
        (void)json_object_set_new(body, "name", json_string(name));
    if (expires)
        (void)json_object_set_new(body, "expires_in", json_string(expires));
    int rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/sandboxes/{}/refs", c->argv[0]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "id", err);
}

const struct dz_cli_command dz_cmd_ref = {
    .name = "ref",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "make a reference to a sandbox for others in its tenant",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){{"name", 'n', "NAME", "name the reference"},
                                              {"expires", 0, "DURATION",
                                               "remove the reference after this long"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "Prints its id (ref_...), with which `doze attach` reaches the sandbox without\n"
            "owning it. Whoever attaches may do everything that the tenant may. To give\n"
            "public files to anybody, use `doze share`.\n",
    .run = ref,
};

static int ref_ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"ID", "id", DZ_CLI_SHOW_TEXT},
        {"NAME", "name", DZ_CLI_SHOW_TEXT},
        {"SANDBOX", "sandbox_id", DZ_CLI_SHOW_TEXT},
        {"TENANT", "tenant", DZ_CLI_SHOW_TEXT},
        {"ALIVE", "alive", DZ_CLI_SHOW_TEXT},
        {"ATTACHED", "attached", DZ_CLI_SHOW_TEXT},
        {"CREATED", "created_at", DZ_CLI_SHOW_TIME},
        {"EXPIRES", "expires_at", DZ_CLI_SHOW_TIME},
    };
    return list(c, "refs", shown, DZ_ARRAY_LEN(shown), err);
}

const struct dz_cli_command dz_cmd_ref_ls = {
    .name = "ref ls",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list references",
    .args = "",
    .options = list_options,
    .help = "ATTACHED is how many are attached. A reference whose sandbox was deleted is\n"
            "listed for one more day, as not alive. -q prints ids only.\n",
    .run = ref_ls,
};

static int ref_rm(struct dz_cli *c, struct dz_err *err)
{
    return remove_all(c, "refs", "keep", err);
}

const struct dz_cli_command dz_cmd_ref_rm = {
    .name = "ref rm",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "remove references",
    .args = "REF...",
    .min_args = 1,
    .max_args = -1,
    .options = remove_options,
    .help = "REF is a full id (ref_...), a name, or TENANT/NAME. The sandbox stays: `doze\n"
            "rm` deletes it.\n",
    .run = ref_rm,
};
