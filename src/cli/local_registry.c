/* SPDX-License-Identifier: MIT
 *
 * local_registry.c - open a registry and the directories of its files.
 *
 * The sandboxes have no cells, so the registry can be recovered and checked, and nothing starts.
 */
#include "cli/local_registry.h"

#include "base/buf.h"
#include "base/fd.h"
#include "cell/cell_disk.h"
#include "cli/cli_env.h"
#include "cli/local_config.h"
#include "cli/local_image.h"
#include "daemon/daemon.h"
#include "db/db.h"
#include "vfs/vfs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Recovery may have to finish an operation: the functions below do that in file-only cells. No cell
 * can be started or stopped. */
static int make(void *arg, const struct dz_instance *row, struct dz_blob_out *out,
                struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    (void)arg, (void)row;
    int rc = dz_vfs_template(&t, err);
    return rc < 0 ? rc : dz_blob_out_write(out, t.p, t.len, err);
}

static int checkpoint(void *arg, const char *id, struct dz_err *err)
{
    const struct dz_cli_registry *r = arg;
    char path[DZ_PATH_MAX], key[DZ_COLD_KEY];
    int n = snprintf(path, sizeof path, "%s/%s", r->live, dz_cold_key(id, DZ_COLD_LIVE, key));
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of %s's file is too long", id);
    return dz_cell_disk_checkpoint(path, err);
}

static int transfer(void *arg, const struct dz_sandbox_transfer *c, struct dz_err *err)
{
    static const enum dz_cell_transfer kinds[] = {
        [DZ_SANDBOX_TRANSFER_COMPACT] = DZ_CELL_TRANSFER_COMPACT,
        [DZ_SANDBOX_TRANSFER_CLONE] = DZ_CELL_TRANSFER_CLONE,
        [DZ_SANDBOX_TRANSFER_SHARE] = DZ_CELL_TRANSFER_SHARE,
    };
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    struct dz_image info = {0};
    DZ_AUTO(dz_fd_close) int image = -1, pack = -1;
    char sha256[DZ_SHA256_HEX];
    bool below = c->what == DZ_SANDBOX_TRANSFER_SHARE && c->row->image[0];
    int rc = below ? dz_cli_image_store(&s, err) : 0;
    if (rc == 0 && below)
        rc = dz_image_find(s, c->row->image, sha256, err);
    if (rc == 0 && below)
        rc = image = dz_image_open(s, sha256, err);
    if (rc >= 0 && below)
        rc = dz_image_load(s, sha256, &info, err);
    if (rc >= 0 && below)
        rc = dz_image_open_pack(s, &info, &pack, err);
    dz_image_release(&info);
    (void)arg;
    const struct dz_cell_disk d = {.from = c->from,
                                   .to = c->to,
                                   .image_fd = image,
                                   .pack_fd = pack,
                                   .image_sha256 = below ? sha256 : NULL,
                                   .label = c->row->id,
                                   .cancel = c->cancel};
    return rc < 0 ? rc : dz_cell_disk_transfer(&d, kinds[c->what], err);
}

static const struct dz_sandbox_files disks = {
    .make = make,
    .checkpoint = checkpoint,
    .transfer = transfer,
};

static int open_dir(const char *data, const char *name, char path[static DZ_PATH_MAX],
                    struct dz_blobs **ret_store, struct dz_err *err)
{
    int n = snprintf(path, DZ_PATH_MAX, "%s/%s", data, name);
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    return dz_blobs_open_dir(path, ret_store, err);
}

/* Open the cold storage of this data directory. The settings name it, unless they are those of
 * another data directory. */
static int open_cold(struct dz_cli *c, const char *data, struct dz_cli_registry *r,
                     struct dz_err *err)
{
    struct dz_config config;
    int rc = dz_cli_config(c, false, &config, err);
    if (rc < 0)
        return rc;
    bool ours = strcmp(config.doze_data, data) == 0;
    const struct dz_blobs_place place = ours ? dz_daemon_cold(&config) : (struct dz_blobs_place){0};
    rc = dz_blobs_open_cold(&place, data, &r->cold.store, err);
    dz_config_release(&config);
    return rc;
}

static int open_files(struct dz_cli *c, const char *data, struct dz_cli_registry *r,
                      struct dz_err *err)
{
    int rc = open_cold(c, data, r, err);
    if (rc == 0)
        rc = open_dir(data, "live", r->live, &r->cold.live, err);
    r->cold.expand = dz_cell_expand;
    if (rc == 0)
        rc = dz_loop_new(&r->loop, err);
    if (rc < 0)
        return rc;
    const struct dz_sandboxes_opts opts = {
        .loop = r->loop,
        .registry = r->registry,
        .cold = r->cold,
        .files = &disks,
        .files_arg = r,
        .live_path = r->live,
        .idle_policy = {DZ_IDLE_INHERIT, DZ_IDLE_INHERIT},
    };
    return dz_sandboxes_new(&opts, &r->k, err);
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
    if (rc == DZ_ENOENT)
        return dz_fail(err, rc,
                       "there is no registry %s yet; doze registry register adds a first sandbox, "
                       "--data names another directory",
                       name);
    if (rc == DZ_EBUSY)
        return dz_fail(err, rc, "%s is in use by a daemon; use that daemon, or stop it", name);
    return rc < 0 || !files ? rc : open_files(c, data, r, err);
}

int dz_cli_registry_close(struct dz_cli_registry *r, int rc, struct dz_err *err)
{
    struct dz_err late;
    dz_sandboxes_free(r->k);
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
