/* SPDX-License-Identifier: MIT
 *
 * `doze rename`, `doze label`: the name and the labels of a sandbox.
 */
#include "base/limits.h"
#include "cli/cli_remote.h"

#include <string.h>

static int rename_one(struct dz_cli *c, struct dz_err *err)
{
    bool none = dz_cli_flag(c, "none");
    json_t *answer = NULL;
    if (none == (c->argc > 1))
        return dz_cli_usage(c, err,
                            none ? "give either NAME or --none, not both" : "NAME is missing");
    json_t *body = json_object();
    (void)json_object_set_new(body, "name", none ? json_null() : json_string(c->argv[1]));
    int rc = dz_cli_ask(c, "PATCH", body, &answer, err, "/v1/sandboxes/{}", c->argv[0]);
    if (rc >= 0 && c->quiet && !c->json) {
        json_decref(answer);
        return DZ_EXIT_OK;
    }
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "id", err);
}

const struct dz_cli_command dz_cmd_rename = {
    .name = "rename",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "rename a sandbox",
    .args = "SANDBOX [NAME]",
    .min_args = 1,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){{"none", 0, NULL, "remove its name"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Prints its id, which stays the same. Names are unique within a tenant.\n",
    .run = rename_one,
};

/* "k=v" sets a label, "k-" removes one. */
static int change(struct dz_cli *c, json_t *labels, const char *word, struct dz_err *err)
{
    char key[256];
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    bool removes = !equals && n > 1 && word[n - 1] == '-';
    n -= removes;
    if ((!equals && !removes) || n == 0 || n >= sizeof key)
        return dz_cli_usage(c, err,
                            "%s is neither KEY=VALUE, which sets a label, nor KEY-, which removes "
                            "one",
                            word);
    (void)snprintf(key, sizeof key, "%.*s", (int)n, word);
    if (!removes)
        return json_object_set_new(labels, key, json_string(equals + 1)) < 0
                   ? dz_cli_usage(c, err, "the label %s is not valid UTF-8", key)
                   : 0;
    return json_object_del(labels, key) < 0
               ? dz_fail(err, DZ_ENOENT, "%s has no label %s", c->argv[0], key)
               : 0;
}

static int show(struct dz_cli *c, json_t *labels, struct dz_err *err)
{
    const char *key;
    json_t *v;
    if (c->json)
        return dz_cli_show_json(c, labels, err);
    json_object_foreach(labels, key, v)
    {
        DZ_AUTO(dz_buf_release) struct dz_buf line = DZ_BUF_INIT(DZ_LINE_MAX);
        dz_buf_addf(&line, "%s=%s", key, json_string_value(v) ? json_string_value(v) : "");
        dz_cli_put(c, line.p);
    }
    return DZ_EXIT_OK;
}

static int label(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *answer = NULL, *changed = NULL;
    int rc = dz_cli_remote(c, &client, err);
    dz_client_target(&target, "/v1/sandboxes/{}", c->argv[0]);
    if (rc == 0)
        rc = dz_client_json(client, "GET", target.p, NULL, &answer, err);
    json_t *labels = json_object_get(answer, "labels");
    for (int i = 1; rc >= 0 && i < c->argc; i++)
        rc = change(c, labels, c->argv[i], err);
    if (rc >= 0 && c->argc > 1)
        rc = dz_client_json(client, "PATCH", target.p, json_pack("{s:O}", "labels", labels),
                            &changed, err);
    if (rc >= 0)
        rc = c->argc > 1 && c->quiet && !c->json ? DZ_EXIT_OK : show(c, labels, err);
    json_decref(answer);
    json_decref(changed);
    return rc;
}

const struct dz_cli_command dz_cmd_label = {
    .name = "label",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "show, set and remove the labels of a sandbox",
    .args = "SANDBOX [KEY=VALUE|KEY-]...",
    .min_args = 1,
    .max_args = -1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "KEY=VALUE sets a label and KEY- removes one; all changes are made in one step.\n"
    "Prints the labels that the sandbox has afterwards. `doze ls --label` lists\n"
    "sandboxes by label.\n"
    "\n"
    "    doze label web team=red temporary-\n",
    .run = label,
};
