/* SPDX-License-Identifier: MIT
 *
 * cell_base.c - see cell_base.h. Rows of memory, states and modules are read in a jail.
 */
#include "cell/cell_base.h"

#include "base/hash.h"
#include "cell/cell_call.h"
#include "cell/cell_int.h"
#include "db/db.h"
#include "machine/machine.h"
#include "machine/machine_base.h"
#include "vfs/vfs.h"

enum {
    MODULES_MAX = 60, /* a call passes at most 64 descriptors */
};
_Static_assert(MODULES_MAX + 2 <= DZ_CALL_FDS_MAX, "with the image and the file");

static int on_module_get(void *arg, const struct dz_machine_program *program,
                         struct dz_wasm_module **ret_module, struct dz_err *err)
{
    return dz_modules_thaw(arg, program, ret_module, err);
}

static void on_module_put(void *arg, struct dz_wasm_module *module)
{
    dz_modules_put(arg, module);
}

struct work {
    const struct dz_cell_base *base;
    size_t modules;
    struct dz_db *db;
    struct dz_vfs *vfs;
    struct dz_modules *found;
};

static int open_image(struct work *w, struct dz_err *err)
{
    const struct dz_db_opts opts = {
        .schema = &dz_vfs_schema, .label = "the image", .immutable = true};
    int rc = dz_db_open_fds(&w->db, w->base->image_fd, -1, &opts, err);
    struct dz_vfs_opts disk = {.db = w->db, .readonly = true, .noatime = true};
    int pack_fd = -1;
    if (rc == 0)
        rc = dz_pack_among(w->base->module_fds, w->modules, 0, &disk.pack, &pack_fd, err);
    if (rc == 0)
        rc = dz_vfs_open(&disk, &w->vfs, err);
    return rc < 0 ? rc
                  : dz_modules_new(w->base->module_fds, w->modules,
                                   &(struct dz_modules_of){w->vfs, w->db, pack_fd}, &w->found, err);
}

/* The process of the call ends afterwards, which closes everything. */
static int write_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct work *w = arg;
    uint8_t sha256[DZ_SHA256_BYTES];
    struct dz_machine *m = NULL;
    (void)call;
    int rc = dz_sha256_parse(dz_str(w->base->image_sha256), sha256, err);
    if (rc == 0)
        rc = open_image(w, err);
    const struct dz_machine_ops ops = {
        .module_get = on_module_get, .module_put = on_module_put, .arg = w->found};
    const struct dz_machine_opts opts = {.db = w->db, .ops = &ops};
    if (rc == 0)
        rc = dz_machine_open(&opts, &m, err);
    return rc < 0 ? rc : dz_machine_base_write(m, w->vfs, sha256, w->base->out_fd, err);
}

int dz_cell_base_write(const struct dz_cell_base *base, struct dz_err *err)
{
    struct work w = {.base = base};
    int fds[DZ_CALL_FDS_MAX] = {base->image_fd, base->out_fd};
    w.modules = base->module_count < MODULES_MAX ? base->module_count : MODULES_MAX;
    for (size_t i = 0; i < w.modules; i++)
        fds[2 + i] = base->module_fds[i];
    const struct dz_call_opts opts = {.what = "map the memory of the image's machine",
                                      .run = write_inside,
                                      .arg = &w,
                                      .fds = fds,
                                      .fd_count = 2 + w.modules,
                                      .timeout_ms = base->timeout_ms};
    return dz_cell_call(&opts, NULL, err);
}
