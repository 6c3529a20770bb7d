/* SPDX-License-Identifier: MIT
 *
 * `doze registry ls`, `doze registry get`: print the rows.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli_table.h"
#include "cli/local_registry.h"

#include <inttypes.h>
#include <string.h>

enum {
    TEXT_MAX = 64 << 20, /* bytes of a list as JSON */
};

/* --- ls -------------------------------------------------------------------------- */

static const struct dz_cli_column columns[] = {
    {"ID", false}, {"TENANT", false}, {"STATE", false}, {"STATUS", false}, {"UPDATED", false}};

struct listing {
    struct dz_cli *c;
    struct dz_cli_table table;
    struct dz_buf text;
    struct dz_json json;
};

/* Exactly these five columns in this order: they are the stable interface to a registry. */
static void add_json(struct dz_json *j, const struct dz_instance *row)
{
    dz_json_object(j);
    dz_json_put_strz(j, "id", row->id);
    dz_json_put_strz(j, "tenant", row->tenant);
    dz_json_put_strz(j, "state", row->state);
    dz_json_put_strz(j, "vfs_path", row->vfs_path);
    dz_json_put_i64(j, "updated", row->updated);
    dz_json_end(j);
}

static void add_row(struct listing *l, const struct dz_instance *row)
{
    char when[DZ_RFC3339_TEXT];
    if (l->c->json) {
        add_json(&l->json, row);
        return;
    }
    dz_cli_table_cell(&l->table, DZ_CLI_PLAIN, dz_str(row->id));
    if (l->c->quiet)
        return;
    dz_cli_table_cell(&l->table, DZ_CLI_PLAIN, dz_str(row->tenant));
    dz_cli_table_cell(&l->table, DZ_CLI_PLAIN, dz_str(row->state));
    dz_cli_table_cell(&l->table, DZ_CLI_PLAIN, dz_str(row->status));
    dz_cli_table_cell(&l->table, DZ_CLI_DIM, dz_str(dz_rfc3339_print(row->updated * 1000, when)));
}

static int add_all(struct listing *l, struct dz_registry *r, struct dz_err *err)
{
    struct dz_registry_filter f = {.tenant = dz_cli_value(l->c, "tenant"),
                                   .state = dz_cli_value(l->c, "state")};
    char after[256] = "";
    for (size_t n = 1; n > 0;) {
        DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        f.after = after;
        int rc = dz_registry_list(r, &f, &rows, err);
        if (rc < 0)
            return rc;
        n = rows.n;
        for (size_t i = 0; i < n; i++)
            add_row(l, &rows.p[i]);
        if (n > 0)
            (void)snprintf(after, sizeof after, "%s", rows.p[n - 1].id);
    }
    return 0;
}

static int ls(struct dz_cli *c, struct dz_err *err)
{
    struct listing l = {.c = c, .text = DZ_BUF_INIT(TEXT_MAX)};
    struct dz_cli_registry r;
    enum dz_state state;
    const char *wanted = dz_cli_value(c, "state");
    struct dz_err why;
    if (wanted && dz_state_parse(dz_str(wanted), &state, &why) < 0)
        return dz_cli_usage(c, err, "--state: %s", why.msg);
    dz_cli_table_init(&l.table, columns, c->quiet ? 1 : DZ_ARRAY_LEN(columns));
    dz_json_init(&l.json, &l.text, c->out_tty);
    dz_json_array(&l.json);
    int rc = dz_cli_registry_open(c, false, false, &r, err);
    if (rc == 0)
        rc = add_all(&l, r.registry, err);
    dz_json_end(&l.json);
    if (rc == 0)
        rc = c->json ? dz_cli_print_json(c, &l.text, dz_json_finish(&l.json), err)
                     : dz_cli_table_print(&l.table, c, err);
    dz_cli_table_release(&l.table);
    dz_buf_release(&l.text);
    return dz_cli_registry_close(&r, rc, err);
}

const struct dz_cli_command dz_cmd_registry_ls = {
    .name = "registry ls",
    .group = DZ_CLI_GROUP_REGISTRY,
    .summary = "list sandboxes as the registry has them",
    .args = "",
    .max_args = 0,
    .options =
        (const struct dz_cli_option[]){{"tenant", 0, "NAME", "list only sandboxes of this tenant"},
                                       {"state", 0, "STATE", "list only sandboxes in this state"},
                                       DZ_CLI_OPTIONS_REGISTRY,
                                       DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET,
                                       DZ_CLI_OPTION_END},
    .help = "Lists by id. As JSON, each entry has exactly id, tenant, state, vfs_path and\n"
            "updated (in seconds since 1970); `doze registry get` shows all of one sandbox.\n"
            "-q prints ids only.\n"
            "\n"
            "The registry is the one given by --registry, else DOZE_REGISTRY, else\n"
            "WB_REGISTRY, else registry.db in the data directory (--data, DOZE_DATA).\n",
    .run = ls,
};

/* --- get ------------------------------------------------------------------------- */

static int print_json(struct dz_cli *c, const struct dz_instance *row, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(TEXT_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
#define T(name) dz_json_put_strz(&j, #name, row->name[0] ? row->name : NULL);
#define I(name) dz_json_put_i64(&j, #name, row->name);
    DZ_INSTANCE_COLUMNS(T, I)
#undef T
#undef I
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static void print_text(struct dz_cli *c, const char *name, const char *value)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(TEXT_MAX);
    if (!value[0])
        return;
    dz_cli_escape(&text, dz_str(value));
    fprintf(c->out, "%-16s %s\n", name, text.p);
}

static void print_number(struct dz_cli *c, const char *name, int64_t value)
{
    char when[DZ_RFC3339_TEXT];
    if (value == 0)
        return;
    /* A number above one day since 1970 that is not a size, count or duration is a time. */
    bool time = strcmp(name, "created") == 0 || strcmp(name, "last_active") == 0 ||
                strcmp(name, "suspended_at") == 0 || strcmp(name, "wake_at") == 0 ||
                strcmp(name, "expires") == 0 || strcmp(name, "hold_until") == 0 ||
                strcmp(name, "retry_at") == 0 || strcmp(name, "due") == 0;
    if (time || strcmp(name, "updated") == 0)
        fprintf(c->out, "%-16s %s\n", name, dz_rfc3339_print(time ? value : value * 1000, when));
    else
        fprintf(c->out, "%-16s %" PRId64 "\n", name, value);
}

static void print_row(struct dz_cli *c, const struct dz_instance *row)
{
#define T(name) print_text(c, #name, row->name);
#define I(name) print_number(c, #name, row->name);
    DZ_INSTANCE_COLUMNS(T, I)
#undef T
#undef I
}

static int get(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_cli_registry r;
    int rc = dz_cli_registry_open(c, false, false, &r, err);
    if (rc == 0)
        rc = dz_registry_find(r.registry, NULL, NULL, c->argv[0], &row, err);
    if (rc == 0 && c->json)
        rc = print_json(c, &row, err);
    else if (rc == 0)
        print_row(c, &row);
    return dz_cli_registry_close(&r, rc, err);
}

const struct dz_cli_command dz_cmd_registry_get = {
    .name = "registry get",
    .group = DZ_CLI_GROUP_REGISTRY,
    .summary = "show everything the registry records of a sandbox",
    .args = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_REGISTRY, DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_END},
    .help = "SANDBOX is a name, an id, or a unique prefix of an id. Without --json, empty\n"
            "and zero fields are left out, and times are printed as dates.\n",
    .run = get,
};
