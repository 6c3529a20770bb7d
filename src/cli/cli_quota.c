/* SPDX-License-Identifier: MIT
 *
 * `doze quota`, `doze tenant ls`: quotas and usage of tenants.
 */
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_remote.h"

#include <stdio.h>
#include <string.h>

int dz_cli_put_quota(struct dz_cli *c, json_t *quotas, const char *option, const char *given,
                     struct dz_err *err)
{
    const char *equals = strchr(given, '=');
    char name[64];
    uint64_t n;
    if (!equals || equals == given || equals - given >= (ptrdiff_t)sizeof name)
        return dz_cli_usage(c, err, "--%s must be QUOTA=VALUE, not %s", option, given);
    (void)snprintf(name, sizeof name, "%.*s", (int)(equals - given), given);
    bool bytes = dz_str_ends(dz_str(name), DZ_STR("_bytes"));
    int rc = bytes ? dz_size_parse(dz_str(equals + 1), 0, INT64_MAX, &n, NULL)
                   : dz_num_u64(dz_str(equals + 1), 0, INT64_MAX, &n, NULL);
    (void)json_object_set_new(quotas, name,
                              rc == 0 ? json_integer((json_int_t)n) : json_string(equals + 1));
    return 0;
}

static json_t *text_of(const json_t *v, bool bytes)
{
    char text[32];
    if (!json_is_integer(v))
        return json_string(json_is_null(v) ? "-" : "");
    (void)snprintf(text, sizeof text, "%lld%s", (long long)json_integer_value(v),
                   bytes ? " B" : "");
    return json_string(text);
}

static int show(struct dz_cli *c, const json_t *answer, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {{"QUOTA", "quota", DZ_CLI_SHOW_TEXT},
                                                {"LIMIT", "limit", DZ_CLI_SHOW_TEXT},
                                                {"USED", "used", DZ_CLI_SHOW_TEXT}};
    json_t *quotas = json_object_get(answer, "quotas"), *usage = json_object_get(answer, "usage");
    json_t *items = json_array(), *limit;
    const char *name;
    json_object_foreach(quotas, name, limit)
    {
        bool bytes = dz_str_ends(dz_str(name), DZ_STR("_bytes"));
        json_t *row = json_pack("{s:s}", "quota", name);
        (void)json_object_set_new(row, "limit", text_of(limit, bytes));
        (void)json_object_set_new(row, "used", text_of(json_object_get(usage, name), bytes));
        (void)json_array_append_new(items, row);
    }
    int rc = dz_cli_show(c, items, shown, DZ_ARRAY_LEN(shown), err);
    json_decref(items);
    return rc;
}

static int quota(struct dz_cli *c, struct dz_err *err)
{
    const char *tenant = c->argc > 0 ? c->argv[0] : "self", *given;
    json_t *answer = NULL, *quotas = NULL;
    int rc = 0;
    for (int i = 0; rc == 0 && (given = dz_cli_value_at(c, "set", i)); i++) {
        quotas = quotas ? quotas : json_object();
        rc = dz_cli_put_quota(c, quotas, "set", given, err);
    }
    if (rc < 0) {
        json_decref(quotas);
        return rc;
    }
    rc = quotas ? dz_cli_ask(c, "PATCH", json_pack("{s:o}", "quotas", quotas), &answer, err,
                             "/v1/tenants/{}", tenant)
                : dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/tenants/{}", tenant);
    if (rc < 0)
        return rc;
    if (dz_cli_flag(c, "json"))
        return dz_cli_show_one(c, answer, "id", err);
    rc = show(c, answer, err);
    json_decref(answer);
    return rc;
}

const struct dz_cli_command dz_cmd_quota = {
    .name = "quota",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "show or set a tenant's quotas",
    .args = "[TENANT]",
    .max_args = 1,
    .options = (const struct dz_cli_option[]){{"set", 0, "QUOTA=VALUE",
                                               "a number, unlimited or default (repeatable)"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_END},
    .help = "Without TENANT, shows your own. Quotas are sandboxes, warm_sandboxes,\n"
            "creations, creations_per_minute, memory_bytes, disk_bytes and schedules; -\n"
            "means no limit, or not yet known. Only the operator can set them; the defaults\n"
            "are settings of the daemon.\n",
    .run = quota,
};

/* Put usage and value of one quota, as "3 of 100". */
static void put_pair(json_t *row, const json_t *tenant, const char *quota)
{
    const json_t *limit = json_object_get(json_object_get(tenant, "quotas"), quota);
    const json_t *used = json_object_get(json_object_get(tenant, "usage"), quota);
    char text[64];
    if (json_is_integer(limit))
        (void)snprintf(text, sizeof text, "%lld of %lld", (long long)json_integer_value(used),
                       (long long)json_integer_value(limit));
    else
        (void)snprintf(text, sizeof text, "%lld", (long long)json_integer_value(used));
    (void)json_object_set_new(row, quota, json_string(text));
}

static int show_tenants(struct dz_cli *c, json_t *items, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"TENANT", "id", DZ_CLI_SHOW_TEXT},
        {"SANDBOXES", "sandboxes", DZ_CLI_SHOW_TEXT},
        {"AWAKE", "warm_sandboxes", DZ_CLI_SHOW_TEXT},
        {"MEMORY", "memory_bytes", DZ_CLI_SHOW_SIZE},
        {"DISK", "disk_bytes", DZ_CLI_SHOW_SIZE},
    };
    json_t *rows, *tenant;
    size_t i;
    if (dz_cli_flag(c, "json"))
        return dz_cli_show(c, items, shown, DZ_ARRAY_LEN(shown), err);
    rows = json_array();
    json_array_foreach(items, i, tenant)
    {
        json_t *usage = json_object_get(tenant, "usage"), *row = json_object();
        (void)json_object_set(row, "id", json_object_get(tenant, "id"));
        put_pair(row, tenant, "sandboxes");
        put_pair(row, tenant, "warm_sandboxes");
        (void)json_object_set(row, "memory_bytes", json_object_get(usage, "memory_bytes"));
        (void)json_object_set(row, "disk_bytes", json_object_get(usage, "disk_bytes"));
        (void)json_array_append_new(rows, row);
    }
    int rc = dz_cli_show(c, rows, shown, DZ_ARRAY_LEN(shown), err);
    json_decref(rows);
    return rc;
}

static int tenant_ls(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL;
    dz_buf_adds(&target, "/v1/tenants");
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_cli_ask_list(c, client, &target, "tenants", &items, err);
    if (rc < 0)
        return rc;
    rc = show_tenants(c, items, err);
    json_decref(items);
    return rc;
}

const struct dz_cli_command dz_cmd_tenant_ls = {
    .name = "tenant ls",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "list tenants with their usage and quotas",
    .args = "",
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Lists the tenants that have a token or quotas of their own, and yours; for the\n"
            "operator. DISK is measured at the first request and shown by the next. `doze\n"
            "quota` shows and sets the quotas of one tenant.\n",
    .run = tenant_ls,
};
