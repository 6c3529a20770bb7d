/* SPDX-License-Identifier: MIT
 *
 * `doze replicate`: where a sandbox is replicated to, and how far that is; `doze restore SANDBOX`.
 */
#include "cli/cli_replicate.h"

#include "cli/cli_remote.h"
#include "cli/cli_table.h"

#include <string.h>

static int64_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static int show(struct dz_cli *c, json_t *s, struct dz_err *err)
{
    char size[DZ_CLI_SIZE_TEXT];
    if (c->json)
        return dz_cli_show_json(c, s, err);
    if (c->quiet)
        return DZ_EXIT_OK;
    fprintf(c->out, "%s", dz_cli_text(s, "state"));
    if (dz_cli_text(s, "url")[0])
        fprintf(c->out, ", %s", dz_cli_text(s, "url"));
    if (dz_cli_text(s, "replica_txid")[0])
        fprintf(c->out, ", TXID %s of %s", dz_cli_text(s, "replica_txid"),
                dz_cli_text(s, "replicated_at"));
    if (number(s, "lag_ms") > 0)
        fprintf(c->out, ", %lld ms behind", (long long)number(s, "lag_ms"));
    fprintf(c->out, "\n");
    if (number(s, "uploads") > 0)
        fprintf(c->out, "%lld uploads, %s, %lld errors since the daemon started\n",
                (long long)number(s, "uploads"), dz_cli_size((uint64_t)number(s, "bytes"), size),
                (long long)number(s, "errors"));
    if (dz_cli_text(s, "error")[0])
        fprintf(c->out, "last error: %s\n", dz_cli_text(s, "error"));
    return DZ_EXIT_OK;
}

static int change(struct dz_cli *c, struct dz_err *err)
{
    const char *every = dz_cli_value(c, "every");
    json_t *body = json_object(), *answer = NULL;
    if (c->argc > 1)
        (void)json_object_set_new(body, "replica", json_string(c->argv[1]));
    if (every)
        (void)json_object_set_new(body, "replica_every", json_string(every));
    int rc = dz_cli_ask(c, "PATCH", body, &answer, err, "/v1/sandboxes/{}", c->argv[0]);
    json_decref(answer);
    return rc;
}

/* The setting of a tenant: show it, or set it first. */
static int replicate_tenant(struct dz_cli *c, const char *tenant, struct dz_err *err)
{
    json_t *answer = NULL;
    if (c->argc > 1 || dz_cli_value(c, "every") || dz_cli_flag(c, "take"))
        return dz_cli_usage(c, err, "with --tenant, only URL, off or default may be given");
    int rc = c->argc > 0 ? dz_cli_ask(c, "PATCH", json_pack("{s:s}", "replica", c->argv[0]),
                                      &answer, err, "/v1/tenants/{}", tenant)
                         : dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/tenants/{}", tenant);
    if (rc < 0)
        return rc;
    rc = DZ_EXIT_OK;
    if (c->json)
        rc = dz_cli_show_json(c, answer, err);
    else if (!c->quiet)
        fprintf(c->out, "%s\n", dz_cli_text(answer, "replica"));
    json_decref(answer);
    return rc;
}

static int replicate(struct dz_cli *c, struct dz_err *err)
{
    const char *tenant = dz_cli_value(c, "tenant");
    json_t *s = NULL;
    int rc = 0;
    if (tenant)
        return replicate_tenant(c, tenant, err);
    if (c->argc == 0)
        return dz_cli_usage(c, err, "name a sandbox, or a tenant with --tenant");
    if (c->argc > 1 || dz_cli_value(c, "every"))
        rc = change(c, err);
    if (rc >= 0 && dz_cli_flag(c, "take"))
        rc = dz_cli_ask(c, "POST", NULL, &s, err, "/v1/sandboxes/{}/replica/take", c->argv[0]);
    else if (rc >= 0)
        rc = dz_cli_ask(c, "GET", NULL, &s, err, "/v1/sandboxes/{}/replica", c->argv[0]);
    if (rc >= 0)
        rc = show(c, s, err);
    json_decref(s);
    return rc;
}

const struct dz_cli_command dz_cmd_replicate = {
    .name = "replicate",
    .group = DZ_CLI_GROUP_REPLICA,
    .summary = "replicate a sandbox continuously, or show its replica",
    .args = "SANDBOX|--tenant TENANT [URL|off|default]",
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"every", 0, "DURATION", "pause between uploads (0: the daemon's replica.every)"},
            {"tenant", 0, "TENANT", "all sandboxes of TENANT without a setting of their own"},
            {"take", 0, NULL, "take the replica over from another daemon"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Without URL, prints the state of the replica. With a URL, the daemon keeps a\n"
    "replica at URL/ID: each commit of the sandbox becomes a file there within\n"
    "milliseconds. off: do not replicate; default: as the tenant's setting says,\n"
    "or the daemon's replica.url. Only operators may set a URL.\n"
    "\n"
    "A daemon that finds that another one writes to a replica stops, with the event\n"
    "replica_fenced; --take makes this daemon the writer.\n",
    .run = replicate,
};

/* --- restore -----------------------------------------------------------------------------------
 */

int dz_cli_replica_url(struct dz_cli *c, const char *sandbox, char **ret_url, struct dz_err *err)
{
    json_t *s = NULL;
    int rc = dz_cli_ask(c, "GET", NULL, &s, err, "/v1/sandboxes/{}/replica", sandbox);
    if (rc < 0)
        return rc;
    const char *url = dz_cli_text(s, "url");
    rc = 0; /* not the status of the answer */
    if (strcmp(dz_cli_text(s, "state"), "off") == 0)
        rc = dz_fail(err, DZ_ESTATE, "%s is not replicated", sandbox);
    else if (!url[0])
        rc =
            dz_fail(err, DZ_EDENIED, "only operators may know where the replica of %s is", sandbox);
    else if (!(*ret_url = dz_str_dup(dz_str(url))))
        rc = dz_fail(err, DZ_ENOMEM, "restore %s: out of memory", sandbox);
    json_decref(s);
    return rc;
}

int dz_cli_restore_sandbox(struct dz_cli *c, struct dz_err *err)
{
    static const char *const members[] = {"name", "at", "txid"};
    json_t *body = json_object(), *s = NULL;
    for (size_t i = 0; i < DZ_ARRAY_LEN(members); i++)
        if (dz_cli_value(c, members[i]))
            (void)json_object_set_new(body, members[i], json_string(dz_cli_value(c, members[i])));
    int rc = dz_cli_ask_long(c, "/v1/sandboxes/{}/restore", c->argv[0], body, &s, err);
    return rc < 0 ? rc : dz_cli_show_one(c, s, "id", err);
}
