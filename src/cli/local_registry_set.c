/* SPDX-License-Identifier: MIT
 *
 * `doze registry register`, `doze registry set-state`: add and change rows by hand.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/local_cell.h"
#include "cli/local_config.h"
#include "cli/local_registry.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* --- register -------------------------------------------------------------------- */

/* Copy a file to the place of a sandbox that is about to be registered, so that the original stays
 * with its owner. */
static int copy_file(const struct dz_cold *cold, const char *path, const char *id,
                     struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, path, O_RDONLY, 0, err);
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    char key[DZ_COLD_KEY], piece[DZ_IO_PIECE];
    ssize_t n = 0;
    if (fd < 0)
        return fd;
    int rc = dz_blob_out_open(cold->live, dz_cold_key(id, DZ_COLD_LIVE, key), &out, err);
    while (rc == 0 && (n = read(fd, piece, sizeof piece)) > 0)
        rc = dz_blob_out_write(out, piece, (size_t)n, err);
    if (rc == 0 && n < 0)
        rc = dz_fail_sys(err, errno, "read %s", path);
    return rc < 0 ? rc : dz_blob_out_commit(out, err);
}

static int register_run(struct dz_cli *c, struct dz_err *err)
{
    const char *id = c->argv[0], *file = c->argc > 2 ? c->argv[2] : NULL;
    char image[DZ_SHA256_HEX] = "";
    struct dz_instance row = {
        .id = id,
        .tenant = c->argv[1],
        .name = dz_cli_value(c, "name"),
        .keep = dz_cli_value(c, "keep"),
        .vfs_path = file && strcmp(file, ":memory:") == 0 ? file : NULL,
    };
    struct dz_cli_registry r;
    if (row.keep && strcmp(row.keep, "memory") != 0 && strcmp(row.keep, "files") != 0)
        return dz_cli_usage(c, err, "--keep must be memory or files");
    if (strlen(id) > DZ_COLD_ID_MAX)
        return dz_cli_usage(c, err, "an id has at most %d bytes", DZ_COLD_ID_MAX);
    if (file && !row.vfs_path) {
        int looked = dz_cli_file_image(file, image, err);
        if (looked < 0)
            return looked;
        row.image = image;
        row.generation = 1; /* not a new disk: the file may have been used before */
    }
    int rc = dz_cli_registry_open(c, true, true, &r, err);
    if (rc == 0 && file && !row.vfs_path) {
        struct dz_instance known = {0};
        rc = dz_registry_get(r.registry, id, &known, NULL);
        dz_instance_release(&known);
        rc = rc == DZ_ENOENT ? copy_file(&r.cold, file, id, err)
                             : dz_fail(err, DZ_EEXIST, "register %s: the id is already in use", id);
    }
    if (rc == 0)
        rc = dz_sandbox_register(r.k, &row, err);
    if (rc == 0 && !c->quiet)
        fprintf(c->out, "%s\n", id);
    return dz_cli_registry_close(&r, rc, err);
}

const struct dz_cli_command dz_cmd_registry_register = {
    .name = "registry register",
    .group = DZ_CLI_GROUP_REGISTRY,
    .summary = "add a sandbox to the registry, in the state created",
    .args = "ID TENANT [FILE]",
    .min_args = 2,
    .max_args = 3,
    .options =
        (const struct dz_cli_option[]){
            {"name", 0, "NAME", "name it; names are unique within a tenant"},
            {"keep", 0, "WHAT", "keep memory or only files when suspended"},
            DZ_CLI_OPTIONS_REGISTRY,
            DZ_CLI_OPTION_CONFIG,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = "FILE, a disk, is copied into the live directory as the sandbox's own, with the\n"
            "processes that may sleep in it; this moves a sandbox from one data directory to\n"
            "another. The image below the disk must exist there when the sandbox wakes.\n"
            "Without FILE, or with \":memory:\", the first wake makes an empty disk.\n",
    .run = register_run,
};

/* --- set-state ------------------------------------------------------------------- */

static int set_state(struct dz_registry *registry, const struct dz_instance *row,
                     enum dz_state state, struct dz_err *err)
{
    enum dz_state from;
    int64_t now = dz_clock_real_ms();
    const struct dz_instance to = {
        .state = dz_state_name(state),
        .suspended_at = state == DZ_STATE_SUSPENDED ? now : row->suspended_at,
        .due =
            now, /* 1970: the daemon looks at this sandbox first and computes the real due time */
    };
    const struct dz_registry_change change = {
        .id = row->id,
        .version = row->version,
        .epoch = row->epoch,
        .set = DZ_COLUMN(state) | DZ_COLUMN(status) | DZ_COLUMN(error) | DZ_COLUMN(due) |
               DZ_COLUMN(suspended_at),
        .to = &to,
        .durable = true,
        .event = "set_state",
        .detail = to.state,
    };
    if (row->op[0])
        return dz_fail(err, DZ_ESTATE,
                       "the operation \"%s\" of %s was interrupted; run doze registry repair first",
                       row->op, row->id);
    int rc = dz_state_parse(dz_str(row->state), &from, err);
    if (rc == 0)
        rc = dz_lifecycle_next(from, state, err);
    return rc < 0 ? rc : dz_registry_change(registry, &change, err);
}

static int set_state_run(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_cli_registry r;
    enum dz_state state;
    struct dz_err why;
    if (dz_state_parse(dz_str(c->argv[1]), &state, &why) < 0)
        return dz_cli_usage(c, err, "%s", why.msg);
    int rc = dz_cli_registry_open(c, false, false, &r, err);
    if (rc == 0)
        rc = dz_registry_find(r.registry, NULL, NULL, c->argv[0], &row, err);
    if (rc == 0)
        rc = set_state(r.registry, &row, state, err);
    if (rc == 0 && !c->quiet)
        fprintf(c->out, "%s %s\n", row.id, dz_state_name(state));
    return dz_cli_registry_close(&r, rc, err);
}

const struct dz_cli_command dz_cmd_registry_set_state = {
    .name = "registry set-state",
    .group = DZ_CLI_GROUP_REGISTRY,
    .summary = "set a sandbox's state in the registry",
    .args = "SANDBOX STATE",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_REGISTRY, DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "Allows only transitions of the state machine: created to active; active to\n"
            "suspended or archived; suspended to active or frozen; frozen to active or\n"
            "archived; archived to active or deleted. It moves no file and starts nothing:\n"
            "it is for repairing a row by hand. A row that says active is suspended when the\n"
            "daemon starts.\n",
    .run = set_state_run,
};
