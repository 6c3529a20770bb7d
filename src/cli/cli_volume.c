/* SPDX-License-Identifier: MIT
 *
 * `doze volume create`, `ls`, `get`, `rm`: named file trees that sandboxes mount, and
 * --volume of `doze create`.
 */
#include "base/limits.h"
#include "cli/cli_remote.h"

#include <string.h>

/* --- --volume NAME:PATH[:ro|rw][:SUBPATH] ----------------------------------------------------- */

static json_t *mount_of(const char *given)
{
    char part[4][DZ_PATH_MAX] = {"", "", "", ""};
    const char *at = given;
    size_t n = 0;
    for (; n < DZ_ARRAY_LEN(part); n++) {
        size_t len = n == DZ_ARRAY_LEN(part) - 1 ? strlen(at) : strcspn(at, ":");
        if (len >= sizeof part[n])
            return NULL;
        memcpy(part[n], at, len);
        at += len;
        if (*at++ != ':')
            break;
    }
    if (!part[0][0] || !part[1][0])
        return NULL;
    json_t *o = json_pack("{s:s, s:s}", "name", part[0], "path", part[1]);
    if (o && part[2][0])
        (void)json_object_set_new(o, "mode", json_string(part[2]));
    if (o && part[3][0])
        (void)json_object_set_new(o, "subpath", json_string(part[3]));
    return o;
}

int dz_cli_volumes(struct dz_cli *c, json_t *body, struct dz_err *err)
{
    const char *given;
    json_t *list = NULL;
    for (int i = 0; (given = dz_cli_value_at(c, "volume", i)); i++) {
        json_t *o = mount_of(given);
        list = list ? list : json_array();
        if (!o || json_array_append_new(list, o) < 0) {
            json_decref(list);
            return dz_cli_usage(c, err, "--volume must be NAME:PATH[:MODE[:SUBPATH]], not %s",
                                given);
        }
    }
    if (list)
        (void)json_object_set_new(body, "volumes", list);
    return 0;
}

/* --- commands --------------------------------------------------------------------------------- */

static int create(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL, *body = json_pack("{s:s}", "name", c->argv[0]);
    const char *size = dz_cli_value(c, "size");
    if (size)
        (void)json_object_set_new(body, "size", json_string(size));
    int rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/volumes");
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "name", err);
}

const struct dz_cli_command dz_cmd_volume_create = {
    .name = "volume create",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "make a volume, which sandboxes can mount",
    .args = "NAME",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            {"size", 0, "SIZE", "what its files may take (default: 1GiB)"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = "A volume outlives the sandboxes that mount it: doze create --volume NAME:/PATH.\n"
            "One running sandbox may write to it, or many may read it.\n",
    .run = create,
};

static int list(struct dz_cli *c, const struct dz_cli_shown *shown, size_t count,
                struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL;
    dz_buf_adds(&target, "/v1/volumes");
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_cli_ask_list(c, client, &target, "volumes", &items, err);
    if (rc < 0)
        return rc;
    rc = dz_cli_show(c, items, shown, count, err);
    json_decref(items);
    return rc;
}

static int ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_shown shown[] = {
        {"ID", "id", DZ_CLI_SHOW_TEXT},
        {"NAME", "name", DZ_CLI_SHOW_TEXT},
        {"SIZE", "size_bytes", DZ_CLI_SHOW_SIZE},
        {"USED", "used_bytes", DZ_CLI_SHOW_SIZE},
        {"CREATED", "created_at", DZ_CLI_SHOW_TIME},
    };
    return list(c, shown, DZ_ARRAY_LEN(shown), err);
}

const struct dz_cli_command dz_cmd_volume_ls = {
    .name = "volume ls",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list volumes",
    .args = "",
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "SIZE is what the files of a volume may take, USED what its file takes on the\n"
            "host. With --json the list also has the sandboxes that have it mounted.\n",
    .run = ls,
};

static int get(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL;
    int rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/volumes/{}", c->argv[0]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "id", err);
}

const struct dz_cli_command dz_cmd_volume_get = {
    .name = "volume get",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "show a volume, and the sandboxes that have it mounted",
    .args = "VOLUME",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "VOLUME is a name or an id. With --json: all members, as the leases.\n",
    .run = get,
};

static int rm(struct dz_cli *c, struct dz_err *err)
{
    int rc = 0;
    for (int i = 0; i < c->argc && rc >= 0; i++)
        rc = dz_cli_ask(c, "DELETE", NULL, NULL, err, "/v1/volumes/{}", c->argv[i]);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_volume_rm = {
    .name = "volume rm",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "delete volumes with their files",
    .args = "VOLUME...",
    .min_args = 1,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_END},
    .help = "VOLUME is a name or an id. A volume that a running sandbox has mounted is not\n"
            "deleted. One that only sleeping sandboxes mount is; they cannot wake then.\n",
    .run = rm,
};
