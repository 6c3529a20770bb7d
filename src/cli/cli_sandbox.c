/* SPDX-License-Identifier: MIT
 *
 * `doze create`, `ls`, `get`, `rm`: the sandboxes of a daemon.
 */
#include "base/clock.h"
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_pull.h"
#include "cli/cli_remote.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_IMAGE "code" /* images/code.ini */

/* --- create -------------------------------------------------------------------------------- */

static int put_pairs(struct dz_cli *c, json_t *o, const char *option, const char *key,
                     struct dz_err *err)
{
    const char *given;
    json_t *pairs = NULL;
    for (int i = 0; (given = dz_cli_value_at(c, option, i)); i++) {
        char name[256];
        const char *equals = strchr(given, '=');
        size_t n = equals ? (size_t)(equals - given) : 0;
        if (n == 0 || n >= sizeof name) {
            json_decref(pairs);
            return dz_cli_usage(c, err, "--%s must be NAME=VALUE, not %s", option, given);
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)n, given);
        pairs = pairs ? pairs : json_object();
        (void)json_object_set_new(pairs, name, json_string(equals + 1));
    }
    if (pairs)
        (void)json_object_set_new(o, key, pairs);
    return 0;
}

/* Options that become fields of the request unchanged. */
static const char *const fields[] = {"name", "image", "snapshot", "memory", "disk",
                                     "size", "kind",  "policy",   "keep",   "durability"};

static int put_idle(struct dz_cli *c, json_t *o, struct dz_err *err)
{
    const char *given = dz_cli_value(c, "idle");
    int64_t ms;
    if (!given)
        return 0;
    if (strcmp(given, "never") == 0 || strcmp(given, "connections") == 0) {
        (void)json_object_set_new(o, "idle", json_pack("{s:s}", "mode", given));
        return 0;
    }
    if (dz_duration_parse(dz_str(given), 1, INT64_MAX, &ms, NULL) < 0)
        return dz_cli_usage(
            c, err, "--idle must be a duration such as 15m, connections or never, not %s", given);
    (void)json_object_set_new(o, "idle", json_pack("{s:s}", "timeout", given));
    return 0;
}

static int put_timeout(struct dz_cli *c, json_t *o, struct dz_err *err)
{
    const char *after = dz_cli_value(c, "timeout"), *action = dz_cli_value(c, "timeout-action");
    int64_t ms;
    if (!after && !action)
        return 0;
    if (!after || dz_duration_parse(dz_str(after), 1, INT64_MAX, &ms, NULL) < 0)
        return dz_cli_usage(c, err, "--timeout must be a duration such as 15m%s%s",
                            after ? ", not " : "", after ? after : "");
    json_t *t = json_pack("{s:s}", "after", after);
    if (action)
        (void)json_object_set_new(t, "action", json_string(action));
    (void)json_object_set_new(o, "timeout", t);
    return 0;
}

int dz_cli_expiry(struct dz_cli *c, json_t **ret_expiry, struct dz_err *err)
{
    static const char *const options[][2] = {
        {"ttl-max-age", "ttl_max_age"}, {"ttl-idle", "ttl_idle"}, {"expires", "date"}};
    json_t *e = json_object();
    int64_t at;
    for (size_t i = 0; i < DZ_ARRAY_LEN(options); i++) {
        const char *given = dz_cli_value(c, options[i][0]);
        bool date = i == DZ_ARRAY_LEN(options) - 1;
        if (!given)
            continue;
        if ((date ? dz_rfc3339_parse(dz_str(given), &at, NULL)
                  : dz_duration_parse(dz_str(given), 1, INT64_MAX, &at, NULL)) < 0) {
            json_decref(e);
            return dz_cli_usage(c, err, "--%s must be a %s, not %s", options[i][0],
                                date ? "time such as 2030-01-31T12:00:00Z" : "duration such as 24h",
                                given);
        }
        (void)json_object_set_new(e, options[i][1], json_string(given));
    }
    *ret_expiry = json_object_size(e) ? e : NULL;
    if (!*ret_expiry)
        json_decref(e);
    return 0;
}

static int put_expiry(struct dz_cli *c, json_t *o, struct dz_err *err)
{
    json_t *e = NULL;
    int rc = dz_cli_expiry(c, &e, err);
    if (e)
        (void)json_object_set_new(o, "expiry", e);
    return rc;
}

/* Start the command in the background; unless persistent, the sandbox ends with it. */
static int start_command(struct dz_cli *c, const char *id, int first, bool persistent,
                         struct dz_err *err)
{
    json_t *answer = NULL, *cmd = json_array();
    for (int i = first; i < c->argc; i++)
        (void)json_array_append_new(cmd, json_string(c->argv[i]));
    json_t *o = json_pack("{s:o, s:b}", "cmd", cmd, "background", 1);
    if (!persistent)
        (void)json_object_set_new(o, "main", json_true());
    int rc = dz_cli_ask(c, "POST", o, &answer, err, "/v1/sandboxes/{}/exec", id);
    json_decref(answer);
    return rc;
}

/* An image of a registry is pulled if the daemon does not have it, or in any case: here, where the
 * progress can be shown, or by the daemon that DOZE_URL names. */
static int pull_image(struct dz_cli *c, json_t *o, struct dz_err *err)
{
    enum dz_cli_pull when = DZ_CLI_PULL_NO;
    const char *image = json_string_value(json_object_get(o, "image"));
    const char *url = getenv("DOZE_URL"), *given = dz_cli_value(c, "pull");
    json_t *answer = NULL;
    int rc = dz_cli_pull_when(c, image, &when, err);
    if (rc == 0 && image && (given || !url || !url[0]))
        (void)json_object_set_new(o, "pull", json_string(url && url[0] ? given : "never"));
    if (rc < 0 || when == DZ_CLI_PULL_NO)
        return rc;
    if (when == DZ_CLI_PULL_MISSING) {
        rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/images/{}", image);
        json_decref(answer);
    }
    return when == DZ_CLI_PULL_FIRST || rc == DZ_ENOENT ? dz_cli_pull(c, image, err) : rc;
}

/* Has the daemon the image that is used if none is named? */
static int find_default(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL;
    int rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/images/{}", DEFAULT_IMAGE);
    json_decref(answer);
    return rc == DZ_ENOENT
               ? dz_cli_usage(c, err,
                              "IMAGE is missing, and the default image " DEFAULT_IMAGE
                              " is not there: `make image-code` in doze's source builds it; "
                              "`doze image ls` lists the images")
           : rc < 0 ? rc
                    : 0;
}

static int make(struct dz_cli *c, bool persistent, json_t **ret_answer, struct dz_err *err)
{
    bool named = dz_cli_value(c, "image") || dz_cli_value(c, "snapshot");
    int rc = named || c->argc > 0 ? 0 : find_default(c, err);
    if (rc < 0)
        return rc;
    json_t *o = json_object();
    if (!named)
        (void)json_object_set_new(o, "image",
                                  json_string(c->argc > 0 ? c->argv[0] : DEFAULT_IMAGE));
    for (size_t i = 0; i < DZ_ARRAY_LEN(fields); i++)
        if (dz_cli_value(c, fields[i]))
            (void)json_object_set_new(o, fields[i], json_string(dz_cli_value(c, fields[i])));
    rc = put_pairs(c, o, "env", "env", err);
    if (rc == 0)
        rc = put_pairs(c, o, "label", "labels", err);
    if (rc == 0)
        rc = dz_cli_put_ports(c, o, err);
    if (rc == 0)
        rc = put_idle(c, o, err);
    if (rc == 0)
        rc = put_timeout(c, o, err);
    if (rc == 0)
        rc = put_expiry(c, o, err);
    if (rc == 0)
        rc = dz_cli_volumes(c, o, err);
    if (rc == 0)
        rc = dz_cli_services(c, o, err);
    if (rc == 0)
        rc = dz_cli_put_egress(c, o, err);
    if (!persistent)
        (void)json_object_set_new(o, "persistent", json_false());
    if (dz_cli_flag(c, "no-start"))
        (void)json_object_set_new(o, "start", json_false());
    if (dz_cli_flag(c, "no-resume"))
        (void)json_object_set_new(o, "auto_resume", json_false());
    if (rc == 0)
        rc = pull_image(c, o, err);
    if (rc < 0) {
        json_decref(o);
        return rc;
    }
    return dz_cli_ask(c, "POST", o, ret_answer, err, "/v1/sandboxes");
}

static int create(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL;
    if (c->argc > 0 && (dz_cli_value(c, "image") || dz_cli_value(c, "snapshot")))
        return dz_cli_usage(c, err, "give only one of IMAGE, --image and --snapshot");
    int rc = make(c, !dz_cli_flag(c, "ephemeral"), &answer, err);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "id", err);
}

static int sandbox_create(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL;
    bool persistent = dz_cli_flag(c, "persistent");
    int first = dz_cli_value(c, "image") || dz_cli_value(c, "snapshot") ? 0 : 1;
    int rc = make(c, persistent, &answer, err);
    if (rc >= 0 && first < c->argc)
        rc = start_command(c, dz_cli_text(answer, "id"), first, persistent, err);
    if (rc < 0) {
        json_decref(answer);
        return rc;
    }
    return dz_cli_show_one(c, answer, "id", err);
}

#define CREATE_OPTIONS                                                                            \
    {"name", 'n', "NAME", "name it"}, {"image", 'I', "IMAGE", "create it from this image"},       \
        {"snapshot", 0, "ID", "create it from this snapshot"},                                    \
        {"memory", 'm', "SIZE", "limit its memory, for instance 512MB"},                          \
        {"disk", 0, "SIZE", "limit its files, for instance 2GiB (default: disk.sandbox)"},        \
        {"size", 0, "SIZE", "limit it by a named size, for instance shared-cpu-1x"},              \
        {"kind", 0, "KIND", "refuse an image of another kind: wasm or linux"},                    \
        {"policy", 0, "NAME", "apply a policy: minimal, network, posix (default), compute"},      \
        {"keep", 0, "WHAT", "keep memory (default) or only files when it sleeps"},                \
        {"durability", 0, "HOW",                                                                  \
         "normal (default) or strict: strict loses nothing in a power cut"},                      \
        {"idle", 0, "DURATION", "suspend after this long without use; or connections, or never"}, \
        {"timeout", 't', "DURATION", "limit how long it may run; afterwards:"},                   \
        {"timeout-action", 0, "ACTION", "destroy it (default) or pause it"},                      \
        DZ_CLI_OPTIONS_EXPIRY{"env", 'e', "K=V", "set a variable for its commands (repeatable)"}, \
        {"port", 0, "PORT[:public]", "open a port to visitors by HTTP (repeatable)"},             \
        {"label", 'l', "K=V", "add a label (repeatable)"},                                        \
        {"volume", 0, "NAME:PATH[:MODE[:SUBPATH]]", "mount a volume; MODE: rw (default) or ro"},  \
        {"services", 0, "FILE", "commands that start with it: a JSON array of services"},         \
        DZ_CLI_OPTIONS_EGRESS{"no-start", 0, NULL, "create it without starting it"},              \
        {"no-resume", 0, NULL, "wake it by `doze wake` only, not by requests"},                   \
        DZ_CLI_OPTION_PULL,

static const struct dz_cli_option create_options[] = {
    CREATE_OPTIONS{"ephemeral", 0, NULL, "never suspend it; delete it when its main command exits"},
    DZ_CLI_OPTION_JSON,
    DZ_CLI_OPTION_QUIET,
    DZ_CLI_OPTION_END,
};
static const struct dz_cli_option sandbox_create_options[] = {
    CREATE_OPTIONS{"persistent", 'p', NULL, "suspend it when idle, and keep it when COMMAND exits"},
    DZ_CLI_OPTION_JSON,
    DZ_CLI_OPTION_QUIET,
    DZ_CLI_OPTION_END,
};

#define HELP_CREATE                                                                     \
    "IMAGE is an image of `doze image ls`, or one of a registry (HOST/NAME:TAG),\n"     \
    "which is pulled if it is missing. Without IMAGE, it is the image code.\n"          \
    "Prints the id of the new sandbox. `doze image ls` lists the available images.\n"   \
    "An idle sandbox suspends itself and wakes with the next request. It stays until\n" \
    "`doze rm`.\n"

const struct dz_cli_command dz_cmd_create = {
    .name = "create",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "create a sandbox",
    .args = "[IMAGE]",
    .max_args = 1,
    .options = create_options,
    .help = HELP_CREATE,
    .run = create,
};

const struct dz_cli_command dz_cmd_sandbox_create = {
    .name = "sandbox create",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "create a sandbox for one command",
    .args = "[IMAGE] [--] [COMMAND [ARG...]]",
    .max_args = -1,
    .flags = DZ_CLI_REST,
    .lead = 1,
    .instead_of_lead = (const char *const[]){"image", "snapshot", NULL},
    .options = sandbox_create_options,
    .help = "Prints the id of the new sandbox and runs COMMAND in it in the background.\n"
            "Without --persistent, the sandbox is never suspended; it is destroyed when\n"
            "COMMAND exits, when its --timeout expires, or with the daemon. With --image or\n"
            "--snapshot, all words belong to COMMAND.\n",
    .run = sandbox_create,
};

/* --- ls -------------------------------------------------------------------------------------- */

static const struct dz_cli_shown columns[] = {
    {"ID", "id", DZ_CLI_SHOW_TEXT},
    {"TENANT", "tenant", DZ_CLI_SHOW_TEXT}, /* shown when the list has several tenants */
    {"NAME", "name", DZ_CLI_SHOW_TEXT},
    {"STATE", "state", DZ_CLI_SHOW_TEXT},
    {"STATUS", "status", DZ_CLI_SHOW_TEXT},
    {"IMAGE", "image", DZ_CLI_SHOW_TEXT},
    {"FILE", "file_bytes", DZ_CLI_SHOW_SIZE},
    {"USED", "last_active_at", DZ_CLI_SHOW_TIME},
    {"CREATED", "created_at", DZ_CLI_SHOW_TIME},
};

static bool one_tenant(const json_t *items)
{
    const char *first = dz_cli_text(json_array_get(items, 0), "tenant");
    size_t i;
    json_t *item;
    json_array_foreach(items, i,
                       item) if (strcmp(dz_cli_text(item, "tenant"), first) != 0) return false;
    return true;
}

static int ls(struct dz_cli *c, struct dz_err *err)
{
    struct dz_cli_shown shown[DZ_ARRAY_LEN(columns)];
    size_t count = 0;
    static const char *const filters[] = {"state", "kind", "image", "label"};
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL;
    dz_buf_adds(&target, "/v1/sandboxes");
    for (size_t i = 0; i < DZ_ARRAY_LEN(filters); i++)
        dz_client_target_add(&target, filters[i], dz_cli_value(c, filters[i]));
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_cli_ask_list(c, client, &target, "sandboxes", &items, err);
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(columns); i++)
        if (strcmp(columns[i].key, "tenant") != 0 || !one_tenant(items))
            shown[count++] = columns[i];
    if (rc == 0)
        rc = dz_cli_show(c, items, shown, count, err);
    json_decref(items);
    return rc;
}

const struct dz_cli_command dz_cmd_ls = {
    .name = "ls",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list sandboxes",
    .args = "",
    .options =
        (const struct dz_cli_option[]){
            {"state", 0, "STATE", "list only sandboxes in this state"},
            {"kind", 0, "KIND", "list only sandboxes of this kind"},
            {"image", 0, "IMAGE", "list only sandboxes of this image"},
            {"label", 'l', "K[=V]", "list only sandboxes with this label"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = "States: active (a process runs it), suspended (only its file is left), frozen\n"
            "(the file is in cold storage), archived. FILE is the size of its file; USED is\n"
            "when it was last used. TENANT is shown if there is more than one. -q prints ids\n"
            "only.\n",
    .run = ls,
};

/* --- get -------------------------------------------------------------------------------------- */

/* Print the members of an object as "key: value"; nested members as "above.key: value". */
static void print_fields(struct dz_cli *c, const char *above, json_t *o)
{
    const char *key;
    json_t *v;
    json_object_foreach(o, key, v)
    {
        char name[128];
        (void)snprintf(name, sizeof name, "%s%s%s", above, above[0] ? "." : "", key);
        if (json_is_object(v)) {
            print_fields(c, name, v);
            continue;
        }
        if (json_is_null(v))
            continue;
        char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        fprintf(c->out, "%-24s ", name);
        dz_cli_put(c, text ? text : dz_cli_text(o, key));
        free(text); /* jansson's */
    }
}

static int get(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL;
    int rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/sandboxes/{}", c->argv[0]);
    if (rc < 0)
        return rc;
    if (c->json || c->quiet)
        return dz_cli_show_one(c, answer, "id", err);
    print_fields(c, "", answer);
    json_decref(answer);
    return DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_get = {
    .name = "get",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "show one sandbox in full",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Fields that are not set are left out; --json prints all of them. This does not\n"
    "wake the sandbox. -q prints the id.\n",
    .run = get,
};

/* --- rm --------------------------------------------------------------------------------------- */

static int rm(struct dz_cli *c, struct dz_err *err)
{
    int status = DZ_EXIT_OK;
    for (int i = 0; i < c->argc; i++) {
        DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
        dz_client_target(&target, "/v1/sandboxes/{}", c->argv[i]);
        dz_client_target_add(&target, "force", dz_cli_flag(c, "force") ? "true" : NULL);
        int rc = dz_cli_ask_target(c, "DELETE", &target, NULL, NULL, err);
        if (rc < 0 && c->argc == 1)
            return rc;
        if (rc < 0) { /* continue with the others */
            dz_cli_warn(c, "%s: %s", c->argv[i], err->msg);
            status = DZ_EXIT_FAILURE;
        } else if (!c->quiet) {
            dz_cli_put(c, c->argv[i]);
        }
    }
    return status;
}

static const struct dz_cli_option rm_options[] = {
    {"force", 'f', NULL, "delete it in any state"}, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END};

#define HELP_RM                                                                      \
    DZ_CLI_SANDBOX_HELP                                                              \
    "Without -f, only archived sandboxes are deleted. The sandbox's files, memory\n" \
    "and command records are deleted with it; its snapshots and forks stay.\n"

const struct dz_cli_command dz_cmd_rm = {
    .name = "rm",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "delete sandboxes permanently",
    .args = "SANDBOX...",
    .min_args = 1,
    .max_args = -1,
    .options = rm_options,
    .help = HELP_RM,
    .run = rm,
};

const struct dz_cli_command dz_cmd_sandbox_destroy = {
    .name = "sandbox destroy",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "the same as `doze rm`",
    .args = "SANDBOX...",
    .min_args = 1,
    .max_args = -1,
    .options = rm_options,
    .help = HELP_RM,
    .run = rm,
};

/* --- image ls, of a daemon elsewhere ---------------------------------------------------------- */

int dz_cli_remote_images(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {{"NAME", "name", DZ_CLI_SHOW_TEXT},
                                                {"IMAGE", "id", DZ_CLI_SHOW_TEXT},
                                                {"KIND", "kind", DZ_CLI_SHOW_TEXT},
                                                {"SIZE", "size_bytes", DZ_CLI_SHOW_SIZE}};
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL;
    dz_buf_adds(&target, "/v1/images");
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_cli_ask_list(c, client, &target, "images", &items, err);
    if (rc < 0)
        return rc;
    if (c->json) { /* as for local images */
        json_t *whole = json_pack("{s:o}", "images", items);
        rc = dz_cli_show_json(c, whole, err);
        json_decref(whole);
        return rc;
    }
    rc = c->quiet ? dz_cli_show(c, items, shown + 1, 2, err)
                  : dz_cli_show(c, items, shown, DZ_ARRAY_LEN(shown), err);
    json_decref(items);
    return rc;
}
