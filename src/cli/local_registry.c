/* SPDX-License-Identifier: MIT
 *
 * local_registry.c - open a registry and the directories of its files.
 *
 * A keeper without cells: it can recover and check, which starts nothing.
 */
#include "cli/local_registry.h"

#include "base/fd.h"
#include "cli/cli_env.h"

#include <stdio.h>
#include <unistd.h>

static void kill_none(void *arg, const char *id)
{
    (void)arg, (void)id;
}

static const struct dz_keeper_ops no_cells = {.kill = kill_none};

static int open_dir(const char *data, const char *name, char path[static DZ_PATH_MAX],
                    struct dz_blobs **ret_store, struct dz_err *err)
{
    int n = snprintf(path, DZ_PATH_MAX, "%s/%s", data, name);
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    return dz_blobs_open_dir(path, ret_store, err);
}

static int open_files(const char *data, struct dz_cli_registry *r, struct dz_err *err)
{
    char live[DZ_PATH_MAX], cold[DZ_PATH_MAX];
    int rc = open_dir(data, "cold", cold, &r->cold.store, err);
    if (rc == 0)
        rc = open_dir(data, "live", live, &r->cold.live, err);
    if (rc == 0)
        rc = dz_loop_new(&r->loop, err);
    if (rc < 0)
        return rc;
    const struct dz_keeper_opts opts = {
        .loop = r->loop,
        .registry = r->registry,
        .cold = r->cold,
        .ops = &no_cells,
        .live_path = live,
        .ladder = {DZ_LADDER_INHERIT, DZ_LADDER_INHERIT},
    };
    return dz_keeper_new(&opts, &r->k, err);
}

int dz_cli_registry_open(struct dz_cli *c, bool create, bool files, struct dz_cli_registry *ret,
                         struct dz_err *err)
{
    char data[DZ_PATH_MAX], name[DZ_PATH_MAX];
    struct dz_cli_registry *r = ret;
    *r = (struct dz_cli_registry){0};
    int rc = dz_cli_data_dir(dz_cli_value(c, "data"), data, err);
    if (rc == 0)
        rc = dz_registry_locate(dz_cli_value(c, "registry"), data, name, err);
    if (rc == 0 && create)
        rc = dz_fd_mkdirs(AT_FDCWD, data, 0700, err);
    if (rc == 0)
        rc = dz_registry_open(name, create, &r->registry, err);
    if (rc == DZ_EBUSY)
        return dz_fail(err, rc, "%s is in use: a daemon runs on it; ask that one, or stop it",
                       name);
    return rc < 0 || !files ? rc : open_files(data, r, err);
}

int dz_cli_registry_close(struct dz_cli_registry *r, int rc, struct dz_err *err)
{
    struct dz_err late;
    dz_keeper_free(r->k);
    dz_loop_free(r->loop);
    dz_blobs_free(r->cold.live);
    dz_blobs_free(r->cold.store);
    int closed = dz_registry_close(r->registry, &late);
    if (closed < 0 && rc >= 0) {
        *err = late;
        rc = closed;
    }
    *r = (struct dz_cli_registry){0};
    return rc;
}
