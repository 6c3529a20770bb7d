/* SPDX-License-Identifier: MIT
 *
 * `doze token create`, `ls`, `revoke`: secrets with which clients use the daemon over the network.
 */
#include "base/limits.h"
#include "cli/cli_remote.h"

#include <string.h>

/* Read the quota options; NULL if none is given. */
static int read_quotas(struct dz_cli *c, json_t **ret_quotas, struct dz_err *err)
{
    json_t *quotas = NULL;
    const char *given;
    int rc = 0;
    for (int i = 0; rc == 0 && (given = dz_cli_value_at(c, "quota", i)); i++) {
        quotas = quotas ? quotas : json_object();
        rc = dz_cli_put_quota(c, quotas, "quota", given, err);
    }
    if (rc < 0)
        json_decref(quotas);
    else
        *ret_quotas = quotas;
    return rc;
}

static int create(struct dz_cli *c, struct dz_err *err)
{
    const char *tenant = dz_cli_value(c, "tenant"), *expires = dz_cli_value(c, "expires");
    json_t *quotas = NULL, *answer = NULL;
    int rc = read_quotas(c, &quotas, err);
    if (rc < 0)
        return rc;
    json_t *body = json_pack("{s:s}", "name", c->argv[0]);
    if (quotas)
        (void)json_object_set_new(body, "quotas", quotas);
    if (tenant)
        (void)json_object_set_new(body, "tenant", json_string(tenant));
    if (expires)
        (void)json_object_set_new(body, "expires_in", json_string(expires));
    if (dz_cli_flag(c, "operator"))
        (void)json_object_set_new(body, "scope", json_string("operator"));
    rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/tokens");
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "token", err);
}

const struct dz_cli_command dz_cmd_token_create = {
    .name = "token create",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "create a token for a tenant and print it",
    .args = "NAME",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            {"tenant", 0, "TENANT", "the tenant that the token acts for (default: default)"},
            {"expires", 0, "DURATION", "expire the token after this long (default: never)"},
            {"quota", 0, "QUOTA=VALUE", "limit what can be created with this token (repeatable)"},
            {"operator", 0, NULL, "give all rights of the daemon's owner, for all tenants"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = "The token is printed once and cannot be shown again: the daemon keeps only a\n"
            "hash of it. Give it to a client as DOZE_TOKEN, or in the header Authorization:\n"
            "Bearer. Quotas of a token limit what is created with it, in addition to those\n"
            "of its tenant; they cannot be changed later.\n",
    .run = create,
};

static int ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"ID", "id", DZ_CLI_SHOW_TEXT},
        {"NAME", "name", DZ_CLI_SHOW_TEXT},
        {"TENANT", "tenant", DZ_CLI_SHOW_TEXT},
        {"SCOPE", "scope", DZ_CLI_SHOW_TEXT},
        {"CREATED", "created_at", DZ_CLI_SHOW_TIME},
        {"USED", "last_used_at", DZ_CLI_SHOW_TIME},
        {"EXPIRES", "expires_at", DZ_CLI_SHOW_TIME},
    };
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL;
    dz_buf_adds(&target, "/v1/tokens");
    dz_client_target_add(&target, "tenant", dz_cli_value(c, "tenant"));
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_cli_ask_list(c, client, &target, "tokens", &items, err);
    if (rc < 0)
        return rc;
    rc = dz_cli_show(c, items, shown, DZ_ARRAY_LEN(shown), err);
    json_decref(items);
    return rc;
}

const struct dz_cli_command dz_cmd_token_ls = {
    .name = "token ls",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "list tokens",
    .args = "",
    .options =
        (const struct dz_cli_option[]){{"tenant", 0, "TENANT", "list only tokens of this tenant"},
                                       DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET,
                                       DZ_CLI_OPTION_END},
    .help = "Expired tokens are not listed. The time of last use is recorded to the minute.\n",
    .run = ls,
};

static int revoke(struct dz_cli *c, struct dz_err *err)
{
    int rc = dz_cli_ask(c, "DELETE", NULL, NULL, err, "/v1/tokens/{}", c->argv[0]);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_token_revoke = {
    .name = "token revoke",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "revoke a token immediately",
    .args = "TOKEN",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_END},
    .help = "TOKEN is an id or a name, not the secret. Connections that use the token are\n"
            "closed.\n",
    .run = revoke,
};
