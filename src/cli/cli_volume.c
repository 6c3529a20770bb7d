/* SPDX-License-Identifier: MIT
 *
 * `doze volume create`, `ls`, `get`, `rm`, `cp`, `export`, `import`, `du`: named file trees that
 * sandboxes mount, and --volume of `doze create`.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "cli/cli_remote.h"
#include "cli/cli_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* --- copies and archives ---------------------------------------------------------------------- */

static int cp(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL, *body = json_pack("{s:s}", "name", c->argv[1]);
    int rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/volumes/{}/copy", c->argv[0]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "name", err);
}

const struct dz_cli_command dz_cmd_volume_cp = {
    .name = "volume cp",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "copy a volume into a new one",
    .args = "VOLUME NAME",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "The new volume NAME has the same files and the same size limit. A volume that a\n"
            "running sandbox has mounted for writing is not copied: suspend that sandbox.\n"
            "Ctrl-C ends the copy and leaves nothing.\n",
    .run = cp,
};

/* Print a number of the answer, or all of it with --json. Takes answer. */
static int show_number(struct dz_cli *c, json_t *answer, const char *key, struct dz_err *err)
{
    char text[24];
    if (c->json)
        return dz_cli_show_one(c, answer, key, err);
    (void)snprintf(text, sizeof text, "%lld",
                   (long long)json_integer_value(json_object_get(answer, key)));
    dz_cli_put(c, text);
    json_decref(answer);
    return DZ_EXIT_OK;
}

/* Write beside the target first, so that an export which breaks off leaves what was there. */
static int receive_file(struct dz_cli *c, struct dz_client *client, const char *file,
                        struct dz_err *err)
{
    char temp[DZ_PATH_MAX];
    int n = snprintf(temp, sizeof temp, "%s.doze-%d", file, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof temp)
        return dz_fail(err, DZ_ELIMIT, "the path %s is too long", file);
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(AT_FDCWD, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    if (fd < 0)
        return fd;
    int rc = dz_cli_receive(c, client, file, fd, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = dz_fail_sys(err, errno, "write %s", file);
    if (rc == 0 && rename(temp, file) < 0)
        rc = dz_fail_sys(err, errno, "make %s", file);
    if (rc < 0)
        (void)unlink(temp);
    return rc;
}

static int export(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    const char *path = dz_cli_value(c, "path"), *file = c->argv[1];
    dz_client_target(&target, "/v1/volumes/{}/files/tar", c->argv[0]);
    dz_client_target_add(&target, "path", path ? path : "/");
    const struct dz_client_req req = {
        .method = "GET", .target = target.p, .accept = "*/*", .timeout_ms = -1};
    dz_cli_catch_interrupts(); /* an interrupted export leaves what was there */
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_client_begin(client, &req, err);
    if (rc < 0)
        return rc;
    rc = strcmp(file, "-") == 0 ? dz_cli_receive(c, client, "export", STDOUT_FILENO, err)
                                : receive_file(c, client, file, err);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_volume_export = {
    .name = "volume export",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "write the files of a volume as a tar archive",
    .args = "VOLUME FILE",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"path", 0, "PATH", "a directory or file of the volume (default: /)"},
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = "FILE is - for standard output. No sandbox is needed or woken. A volume that a\n"
            "running sandbox has mounted for writing is not exported; one that waits for the\n"
            "export to end cannot be mounted for writing meanwhile.\n",
    .run = export,
};

static int import(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf dir = DZ_BUF_INIT(DZ_PATH_MAX);
    const char *path = dz_cli_value(c, "path"), *file = c->argv[1];
    bool input = strcmp(file, "-") == 0;
    struct stat st;
    DZ_AUTO(dz_fd_close)
    int fd = input ? dup(STDIN_FILENO) : dz_fd_open(AT_FDCWD, file, O_RDONLY, 0, err);
    if (fd < 0)
        return input ? dz_fail_sys(err, errno, "read standard input") : fd;
    if (fstat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "stat %s", file);
    struct dz_cli_sending sending = {.fd = fd, .from = input ? "standard input" : file};
    int64_t size = S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
    /* a / at the end: the last directory is made, too */
    dz_buf_addf(&dir, "%s/", path ? path : "");
    if (dir.err)
        return dz_fail(err, dir.err, "the path is too long");
    dz_client_target(&target, "/v1/volumes/{}/files/tar", c->argv[0]);
    dz_client_target_add(&target, "path", dir.p);
    const struct dz_client_req req = {.method = "PUT",
                                      .target = target.p,
                                      .type = "application/x-tar",
                                      .read = dz_cli_send_some,
                                      .read_arg = &sending,
                                      .read_size = size,
                                      .timeout_ms = -1};
    dz_cli_catch_interrupts(); /* an interrupted import leaves nothing */
    int rc = dz_cli_remote(c, &client, err);
    if (rc < 0)
        return rc;
    dz_cli_progress_start(&sending.progress, c, "import", size > 0 ? (uint64_t)size : 0,
                          DZ_CLI_BYTES);
    rc = dz_client_call(client, &req, &text, err);
    dz_cli_progress_end(&sending.progress);
    return rc < 0 ? rc : show_number(c, json_loads(text.p, 0, NULL), "members", err);
}

const struct dz_cli_command dz_cmd_volume_import = {
    .name = "volume import",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "unpack a tar archive into a volume",
    .args = "VOLUME FILE",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"path", 0, "PATH", "the directory to unpack into, made if missing (default: /)"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = "FILE is - for standard input. All of the archive is unpacked or nothing, also\n"
            "after Ctrl-C. Prints the number of its members. No running sandbox may have the\n"
            "volume mounted.\n",
    .run = import,
};

static int du(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *answer = NULL;
    dz_client_target(&target, "/v1/volumes/{}/files/usage", c->argv[0]);
    dz_client_target_add(&target, "path", c->argc > 1 ? c->argv[1] : "/");
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_client_json(client, "GET", target.p, NULL, &answer, err);
    return rc < 0 ? rc : show_number(c, answer, "stored_bytes", err);
}

const struct dz_cli_command dz_cmd_volume_du = {
    .name = "volume du",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "show how much a directory of a volume takes",
    .args = "VOLUME [PATH]",
    .min_args = 1,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Prints the bytes that are stored at and below PATH (default: /), without holes;\n"
            "with --json also the sizes of the files and the number of names.\n",
    .run = du,
};
