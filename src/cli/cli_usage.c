/* SPDX-License-Identifier: MIT
 *
 * `doze usage`: what a sandbox or a tenant has occupied, and what that costs.
 *
 * The table is made from the CSV answer, because its numbers are text and stay exact.
 */
#include "base/limits.h"
#include "cli/cli_remote.h"
#include "cli/cli_table.h"

#include <stdio.h>

enum {
    COLUMNS = 8,
    ANSWER_MAX = 64 << 20,
};

/* The currency, the last value, is the only one in quotes, and may contain commas. */
static struct dz_str next_value(struct dz_str *rest, bool last)
{
    struct dz_str value = *rest;
    if (last || !dz_str_split(rest, ',', &value))
        *rest = dz_str_n("", 0);
    return last && value.n >= 2 ? dz_str_sub(value, 1, value.n - 2) : value;
}

static int show_table(struct dz_cli *c, struct dz_str text, struct dz_err *err)
{
    static const struct dz_cli_column columns[COLUMNS] = {
        {"FROM", false},  {"TO", false},     {"STATE", false}, {"SECONDS", true},
        {"MEMORY", true}, {"STORAGE", true}, {"AMOUNT", true}, {"CURRENCY", false},
    };
    struct dz_cli_table t;
    struct dz_str line;
    dz_cli_table_init(&t, columns, COLUMNS);
    for (bool head = true; dz_str_split(&text, '\n', &line); head = false) {
        struct dz_str rest = dz_str_trim(line);
        if (head || rest.n == 0)
            continue;
        for (int i = 0; i < COLUMNS; i++)
            dz_cli_table_cell(&t, DZ_CLI_PLAIN, next_value(&rest, i == COLUMNS - 1));
    }
    int rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

static int usage(struct dz_cli *c, struct dz_err *err)
{
    static const char *const same[] = {"from", "to", "step"};
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf answer = DZ_BUF_INIT(ANSWER_MAX);
    const char *tenant = dz_cli_value(c, "tenant");
    if (c->argc && tenant)
        return dz_cli_usage(c, err, "give SANDBOX or --tenant, not both");
    if (c->argc)
        dz_client_target(&target, "/v1/sandboxes/{}/usage", c->argv[0]);
    else
        dz_client_target(&target, "/v1/tenants/{}/usage", tenant ? tenant : "self");
    for (size_t i = 0; i < DZ_ARRAY_LEN(same); i++)
        dz_client_target_add(&target, same[i], dz_cli_value(c, same[i]));
    dz_client_target_add(&target, "format", c->json ? "json" : "csv");
    const struct dz_client_req req = {
        .method = "GET", .target = target.p, .accept = c->json ? NULL : "text/csv"};
    int rc = target.err ? dz_fail(err, target.err, "the request is too long")
                        : dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_client_call(client, &req, &answer, err);
    if (rc < 0)
        return rc;
    struct dz_str text = dz_str_n(answer.p, answer.len);
    if (!c->json && !dz_cli_flag(c, "csv"))
        return show_table(c, text, err);
    dz_cli_put_json(c, dz_str_trim(text));
    return DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_usage = {
    .name = "usage",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "show what was used, and what it costs",
    .args = "[SANDBOX]",
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            {"from", 0, "TIME", "from this time on (default: 30 days before --to)"},
            {"to", 0, "TIME", "up to this time: 2030-01-31T12:00:00Z (default: now)"},
            {"step", 0, "DURATION", "in periods of this length, as 1h or 1d"},
            {"tenant", 0, "TENANT", "of this tenant (default: your own)"},
            {"csv", 0, NULL, "print comma-separated values"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_END,
        },
    .help = "Memory and storage are in GB-seconds; a GB is 10^9 bytes. Memory counts while a\n"
            "sandbox is active, storage always; `snapshot` is its snapshots. Without\n"
            "SANDBOX: of all sandboxes of the tenant. A deleted sandbox is known by its id.\n"
            "Amounts need the daemon's settings prices.*.\n",
    .run = usage,
};
