/* SPDX-License-Identifier: MIT
 *
 * `doze egress show`, `set`, `clear`: which other machines a sandbox may reach. The options
 * --egress-* are those of `doze create`, too.
 */
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_remote.h"

#include <string.h>

static const struct {
    const char *option, *key;
} lists[] = {{"egress-allow-cidr", "allow_cidrs"},
             {"egress-allow-domain", "allow_domains"},
             {"egress-allow-port", "allow_ports"},
             {"egress-deny-cidr", "deny_cidrs"},
             {"egress-deny-domain", "deny_domains"}};

static int put_list(struct dz_cli *c, size_t which, json_t *e, struct dz_err *err)
{
    const bool ports = strcmp(lists[which].key, "allow_ports") == 0;
    const char *given;
    uint64_t port = 0;
    for (int i = 0; (given = dz_cli_value_at(c, lists[which].option, i)); i++) {
        if (i == 0)
            (void)json_object_set_new(e, lists[which].key, json_array());
        if (ports && dz_num_u64(dz_str(given), 1, UINT16_MAX, &port, NULL) < 0)
            return dz_cli_usage(c, err, "--egress-allow-port must be a port, not %s", given);
        (void)json_array_append_new(json_object_get(e, lists[which].key),
                                    ports ? json_integer((json_int_t)port) : json_string(given));
    }
    return 0;
}

/* The daemon checks what the rules say. */
int dz_cli_put_egress(struct dz_cli *c, json_t *o, struct dz_err *err)
{
    json_t *e = json_object();
    const char *mode = dz_cli_value(c, "egress-mode");
    int rc = 0;
    if (mode)
        (void)json_object_set_new(e, "mode", json_string(mode));
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(lists); i++)
        rc = put_list(c, i, e, err);
    if (rc == 0 && json_object_size(e) > 0)
        (void)json_object_set_new(o, "network", json_pack("{s:O}", "egress", e));
    json_decref(e);
    return rc;
}

/* The options that would make these rules, one a line; `null` has none. */
static int print_rules(struct dz_cli *c, json_t *answer, struct dz_err *err)
{
    const json_t *network = json_object_get(answer, "network");
    const json_t *e = json_object_get(network, "egress"), *item;
    const char *mode = json_string_value(json_object_get(e, "mode"));
    size_t k;
    int rc = DZ_EXIT_OK;
    DZ_AUTO(dz_buf_release) struct dz_buf line = DZ_BUF_INIT(DZ_LINE_MAX);
    if (c->json) {
        rc = dz_cli_show_json(c, network, err);
    } else if (!c->quiet && json_object_size(e) == 0) {
        dz_cli_note(c, "%s has no egress rules; the mode is the daemon's setting egress.mode",
                    c->argv[0]);
    } else if (!c->quiet) {
        if (mode) {
            dz_buf_addf(&line, "--egress-mode %s", mode);
            dz_cli_put(c, line.p);
        }
        for (size_t i = 0; i < DZ_ARRAY_LEN(lists); i++)
            json_array_foreach(json_object_get(e, lists[i].key), k, item)
            {
                dz_buf_reset(&line);
                dz_buf_addf(&line, "--%s ", lists[i].option);
                if (json_is_integer(item))
                    dz_buf_addf(&line, "%lld", (long long)json_integer_value(item));
                else
                    dz_buf_adds(&line, json_string_value(item) ? json_string_value(item) : "");
                dz_cli_put(c, line.p);
            }
    }
    json_decref(answer);
    return rc;
}

static int egress_show(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL;
    const int rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/sandboxes/{}", c->argv[0]);
    return rc < 0 ? rc : print_rules(c, answer, err);
}

const struct dz_cli_command dz_cmd_egress_show = {
    .name = "egress show",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "show the egress rules of a sandbox",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Prints the sandbox's own rules as options of `doze egress set`, one in a line.\n"
    "The rules of the daemon (`doze config`, section egress) limit them.\n",
    .run = egress_show,
};

static int change(struct dz_cli *c, json_t *body, struct dz_err *err)
{
    json_t *answer = NULL;
    const int rc = dz_cli_ask(c, "PATCH", body, &answer, err, "/v1/sandboxes/{}", c->argv[0]);
    return rc < 0 ? rc : print_rules(c, answer, err);
}

static int egress_set(struct dz_cli *c, struct dz_err *err)
{
    json_t *body = json_object();
    int rc = dz_cli_put_egress(c, body, err);
    if (rc == 0 && json_object_size(body) == 0)
        rc = dz_cli_usage(c, err,
                          "no rule was given; `doze egress clear` removes a sandbox's rules");
    if (rc < 0) {
        json_decref(body);
        return rc;
    }
    return change(c, body, err);
}

const struct dz_cli_command dz_cmd_egress_set = {
    .name = "egress set",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "replace the egress rules of a sandbox",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_EGRESS DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "The given rules replace all rules that the sandbox has, at once: open\n"
    "connections that they forbid end. An allowed CIDR or name implies the mode\n"
    "deny_all: everything else is refused. `*.example.com` is every name below\n"
    "example.com. Prints the rules as `doze egress show` does.\n",
    .run = egress_set,
};

static int egress_clear(struct dz_cli *c, struct dz_err *err)
{
    return change(c, json_pack("{s:{}}", "network"), err);
}

const struct dz_cli_command dz_cmd_egress_clear = {
    .name = "egress clear",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "remove the egress rules of a sandbox",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Afterwards only the daemon's settings count. Open connections that these forbid\n"
    "end.\n",
    .run = egress_clear,
};
