/* SPDX-License-Identifier: MIT
 *
 * `doze registry check`, `doze registry repair`: compare the registry with the files.
 */
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli_remote.h"
#include "cli/cli_term.h"
#include "cli/local_config.h"
#include "cli/local_registry.h"

#include <inttypes.h>

struct findings {
    struct dz_cli *c;
    struct dz_json json;
    struct dz_buf text;
    bool repair;
};

static void on_finding(void *arg, const struct dz_sandbox_finding *f)
{
    struct findings *s = arg;
    bool repaired = s->repair && f->repairable;
    if (s->c->json) {
        dz_json_object(&s->json);
        dz_json_put_strz(&s->json, "what", f->what);
        dz_json_put_strz(&s->json, "id", f->id[0] ? f->id : NULL);
        dz_json_put_strz(&s->json, "text", f->text);
        dz_json_put_bool(&s->json, "repaired", repaired);
        dz_json_end(&s->json);
        return;
    }
    DZ_AUTO(dz_buf_release) struct dz_buf line = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_cli_escape(&line, dz_str(f->text));
    fprintf(s->c->out, "%s%s%s: %s%s\n", f->what, f->id[0] ? " " : "", f->id, line.p,
            repaired ? "; removed" : "");
}

static int run(struct dz_cli *c, bool repair, struct dz_err *err)
{
    struct findings s = {.c = c, .text = DZ_BUF_INIT(64 << 20), .repair = repair};
    struct dz_cli_registry r;
    uint64_t left = 0;
    dz_json_init(&s.json, &s.text, c->out_tty);
    dz_json_object(&s.json);
    dz_json_key(&s.json, "findings");
    dz_json_array(&s.json);
    int rc = dz_cli_registry_open(c, false, true, &r, err);
    if (rc == 0 && repair)
        rc = dz_sandboxes_recover(r.k, err);
    if (rc == 0)
        dz_loop_settle(r.loop); /* operations may still wait for a bucket */
    if (rc == 0 && dz_sandboxes_busy(r.k) > 0)
        rc = dz_fail(err, DZ_EIO,
                     "repair: some files cannot be removed; check the disk, and repair again");
    if (rc == 0)
        rc = dz_sandboxes_check(r.k, repair, on_finding, &s, &left, err);
    dz_json_end(&s.json);
    dz_json_put_u64(&s.json, "left", left);
    dz_json_put_bool(&s.json, "ok", left == 0);
    dz_json_end(&s.json);
    if (rc == 0 && c->json)
        rc = dz_cli_print_json(c, &s.text, dz_json_finish(&s.json), err);
    else if (rc == 0 && !c->quiet && left == 0)
        fprintf(c->out, "registry and files agree\n");
    dz_buf_release(&s.text);
    rc = dz_cli_registry_close(&r, rc, err);
    return rc < 0 ? rc : left ? DZ_EXIT_FAILURE : DZ_EXIT_OK;
}

/* The options name files, so this process reads them. */
static int check(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    bool here = dz_cli_flag(c, "local") || dz_cli_value(c, "data") || dz_cli_value(c, "registry");
    int rc = here ? 0 : dz_cli_remote_running(&client, err);
    if (rc < 0 || client)
        return rc < 0 ? rc : dz_cli_remote_registry_check(c, client, err);
    return run(c, false, err);
}

static int repair(struct dz_cli *c, struct dz_err *err)
{
    return run(c, true, err);
}

const struct dz_cli_command dz_cmd_registry_check = {
    .name = "registry check",
    .group = DZ_CLI_GROUP_REGISTRY,
    .summary = "compare the registry with the files",
    .args = "",
    .max_args = 0,
    .options =
        (const struct dz_cli_option[]){
            DZ_CLI_OPTIONS_REGISTRY,
            DZ_CLI_OPTION_CONFIG,
            {"local", 0, NULL, "open the registry in this process; no daemon may be using it"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = "Prints one line for each finding: a file that belongs to no sandbox (orphan,\n"
            "stray), a sandbox whose file is missing or cut off (missing), an interrupted\n"
            "operation (unfinished), an unknown state (state). Changes nothing. Exits with 1\n"
            "if there are findings.\n\n"
            "If a daemon runs, it does the work, unless --data, --registry or --local is\n"
            "given. The daemon reports sandboxes with an operation in progress (busy), which\n"
            "it neither compares nor counts. Only without a daemon is the registry's own\n"
            "file checked for damage.\n",
    .run = check,
};

const struct dz_cli_command dz_cmd_registry_repair = {
    .name = "registry repair",
    .group = DZ_CLI_GROUP_REGISTRY,
    .summary = "finish interrupted operations and remove orphaned files",
    .args = "",
    .max_args = 0,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTIONS_REGISTRY, DZ_CLI_OPTION_CONFIG,
                                       DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "First does what the daemon does when it starts: interrupted operations are\n"
            "undone or finished, and running sandboxes are suspended. Then removes orphaned\n"
            "files, and marks sandboxes whose file is missing. Make sure that this is the\n"
            "right registry: for another one, all files are orphans. Exits with 1 if\n"
            "anything is left.\n",
    .run = repair,
};
