/* SPDX-License-Identifier: MIT
 *
 * `doze port ls`, `open`, `close` and `doze preview url`, `token`, `ls`, `rm`: ports of a sandbox
 * that are open to the outside, and who may visit them.
 */
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_remote.h"

#include <stdlib.h>
#include <string.h>

static int port_of(struct dz_cli *c, const char *word, uint64_t *ret_port, struct dz_err *err)
{
    if (dz_num_u64(dz_str(word), 1, 65535, ret_port, NULL) < 0)
        return dz_cli_usage(c, err, "PORT must be a number from 1 to 65535, not %s", word);
    return 0;
}

int dz_cli_put_ports(struct dz_cli *c, json_t *o, struct dz_err *err)
{
    json_t *list = NULL;
    const char *given;
    uint64_t port = 0;
    for (int i = 0; (given = dz_cli_value_at(c, "port", i)); i++) {
        struct dz_str rest = dz_str(given), number, more = DZ_STR("");
        (void)dz_str_split(&rest, ':', &number);
        more = rest;
        if (dz_num_u64(number, 1, 65535, &port, NULL) < 0 ||
            (strchr(given, ':') && !dz_str_eqz(more, "public"))) {
            json_decref(list);
            return dz_cli_usage(c, err, "--port must be PORT or PORT:public, not %s", given);
        }
        list = list ? list : json_array();
        (void)json_array_append_new(
            list, json_pack("{s:I,s:b}", "target", (json_int_t)port, "public", more.n > 0));
    }
    if (list)
        (void)json_object_set_new(o, "ports", list);
    return 0;
}

static int port_ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"PORT", "target", DZ_CLI_SHOW_TEXT},        {"PROTOCOL", "protocol", DZ_CLI_SHOW_TEXT},
        {"PUBLIC", "public", DZ_CLI_SHOW_TEXT},      {"LISTENING", "listening", DZ_CLI_SHOW_TEXT},
        {"CREATED", "created_at", DZ_CLI_SHOW_TIME}, {"URL", "url", DZ_CLI_SHOW_TEXT},
    };
    json_t *answer = NULL;
    int rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/sandboxes/{}/ports", c->argv[0]);
    if (rc < 0)
        return rc;
    rc = dz_cli_show(c, json_object_get(answer, "ports"), shown, DZ_ARRAY_LEN(shown), err);
    json_decref(answer);
    return rc;
}

const struct dz_cli_command dz_cmd_port_ls = {
    .name = "port ls",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list the ports that are open to the outside",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "LISTENING says whether a program listens; a sandbox that sleeps has none there.\n",
    .run = port_ls,
};

static int port_open(struct dz_cli *c, struct dz_err *err)
{
    const char *protocol = dz_cli_value(c, "protocol");
    json_t *answer = NULL;
    uint64_t port = 0;
    int rc = port_of(c, c->argv[1], &port, err);
    if (rc < 0)
        return rc;
    json_t *body =
        json_pack("{s:I,s:b}", "target", (json_int_t)port, "public", dz_cli_flag(c, "public"));
    if (protocol)
        (void)json_object_set_new(body, "protocol", json_string(protocol));
    rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/sandboxes/{}/ports", c->argv[0]);
    if (rc < 0)
        return rc;
    const char *url = json_string_value(json_object_get(answer, "url"));
    return dz_cli_show_one(c, answer, url ? "url" : "path", err);
}

const struct dz_cli_command dz_cmd_port_open = {
    .name = "port open",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "open a port of a sandbox to visitors by HTTP",
    .args = "SANDBOX PORT",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"public", 0, NULL, "let everybody in; otherwise a visitor needs a token"},
            {"protocol", 0, "NAME", "http (default) or ws; both carry WebSockets"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = DZ_CLI_SANDBOX_HELP
    "Prints the address of the preview: its URL, or, if the daemon has no\n"
    "preview.domain, its path on the daemon. `doze preview token` makes tokens.\n"
    "A visit wakes the sandbox.\n",
    .run = port_open,
};

static int port_close(struct dz_cli *c, struct dz_err *err)
{
    int rc = dz_cli_ask(c, "DELETE", NULL, NULL, err, "/v1/sandboxes/{}/ports/{}", c->argv[0],
                        c->argv[1]);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_port_close = {
    .name = "port close",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "close a port, and revoke the tokens of its preview",
    .args = "SANDBOX PORT",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP "Connections of visitors end at once.\n",
    .run = port_close,
};

/* --- previews ------------------------------------------------------------------------------ */

static int preview_url(struct dz_cli *c, struct dz_err *err)
{
    const char *daemon = getenv("DOZE_URL");
    json_t *answer = NULL, *item, *found = NULL;
    uint64_t port = 0;
    size_t i;
    int rc = port_of(c, c->argv[1], &port, err);
    if (rc == 0)
        rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/sandboxes/{}/previews", c->argv[0]);
    if (rc < 0)
        return rc;
    json_array_foreach(json_object_get(answer, "previews"), i,
                       item) if (json_integer_value(json_object_get(item, "port")) ==
                                 (json_int_t)port) found = item;
    if (!found) {
        json_decref(answer);
        return dz_fail(err, DZ_ENOENT, "%s has no open port %s; `doze port open` opens it",
                       c->argv[0], c->argv[1]);
    }
    const char *url = json_string_value(json_object_get(found, "url"));
    struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    if (!url && daemon && strncmp(daemon, "http", 4) == 0)
        dz_buf_adds(&text, daemon);
    dz_buf_adds(&text, url ? url : dz_cli_text(found, "path"));
    dz_cli_put(c, text.p);
    dz_buf_release(&text);
    json_decref(answer);
    return DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_preview_url = {
    .name = "preview url",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "print where an open port can be visited",
    .args = "SANDBOX PORT",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Without a preview.domain this is a path on the daemon, after DOZE_URL if that\n"
    "is set to an address of HTTP.\n",
    .run = preview_url,
};

static int preview_token(struct dz_cli *c, struct dz_err *err)
{
    const char *name = dz_cli_value(c, "name");
    json_t *answer = NULL, *body = json_object();
    if (name)
        (void)json_object_set_new(body, "name", json_string(name));
    int rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/sandboxes/{}/previews/{}/tokens",
                        c->argv[0], c->argv[1]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "token", err);
}

const struct dz_cli_command dz_cmd_preview_token = {
    .name = "preview token",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "make a token for the preview of a port",
    .args = "SANDBOX PORT",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"name", 'n', "NAME", "name it, so that it can be revoked by name"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = DZ_CLI_SANDBOX_HELP
    "Prints the token, which is not stored and not shown again. A program sends it\n"
    "in the header Doze-Preview-Token; for a browser append ?doze_token=TOKEN once.\n",
    .run = preview_token,
};

static int preview_ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"ID", "id", DZ_CLI_SHOW_TEXT},
        {"PORT", "port", DZ_CLI_SHOW_TEXT},
        {"NAME", "name", DZ_CLI_SHOW_TEXT},
        {"CREATED", "created_at", DZ_CLI_SHOW_TIME},
    };
    json_t *answer = NULL, *item, *token, *tokens = json_array();
    size_t i, k;
    int rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/sandboxes/{}/previews", c->argv[0]);
    json_array_foreach(json_object_get(answer, "previews"), i, item)
        json_array_foreach(json_object_get(item, "tokens"), k, token)(void)
            json_array_append(tokens, token);
    if (rc >= 0)
        rc = dz_cli_show(c, tokens, shown, DZ_ARRAY_LEN(shown), err);
    json_decref(tokens);
    json_decref(answer);
    return rc;
}

const struct dz_cli_command dz_cmd_preview_ls = {
    .name = "preview ls",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list the tokens of previews",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP "`doze port ls` lists the ports.\n",
    .run = preview_ls,
};

static int preview_rm(struct dz_cli *c, struct dz_err *err)
{
    int rc = dz_cli_ask(c, "DELETE", NULL, NULL, err, "/v1/sandboxes/{}/previews/{}/tokens/{}",
                        c->argv[0], c->argv[1], c->argv[2]);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_preview_rm = {
    .name = "preview rm",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "revoke a token of a preview",
    .args = "SANDBOX PORT TOKEN",
    .min_args = 3,
    .max_args = 3,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "TOKEN is a name or an id. Connections that were let in by it end at once.\n",
    .run = preview_rm,
};
