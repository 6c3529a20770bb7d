/* SPDX-License-Identifier: MIT
 *
 * The rig: cells in this process, and real file-only cells for what looks into files.
 */
#include "kill_rig.h"

#include "base/buf.h"
#include "base/mem.h"
#include "cell/cell_disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- cells ----------------------------------------------------------------------- */

static struct rig_cell *find_cell(struct rig *r, const char *id)
{
    for (int i = 0; i < RIG_CELLS; i++)
        if (strcmp(r->cells[i].id, id) == 0)
            return &r->cells[i];
    return NULL;
}

static void live_path(const struct rig *r, const char *id, char out[static DZ_PATH_MAX])
{
    (void)snprintf(out, DZ_PATH_MAX, "%s/live/%s.doze", r->dir, id);
}

static int open_disk(const char *path, struct dz_db **ret_db, struct dz_vfs **ret_vfs,
                     struct dz_err *err)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = path};
    int rc = dz_db_open_path(ret_db, path, &opts, err);
    if (rc < 0)
        return rc;
    const struct dz_vfs_opts vopts = {.db = *ret_db};
    rc = dz_vfs_open(&vopts, ret_vfs, err);
    if (rc < 0) {
        (void)dz_db_close(*ret_db, true, NULL);
        *ret_db = NULL;
    }
    return rc;
}

/* Is a machine asleep in the file? From now on it runs, and the file has none. */
static bool wake_machine(struct dz_db *db)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, "SELECT 1 FROM meta m,machine WHERE m.k='machine' AND "
                                        "m.v=1 AND part='state' AND value=x'01'");
    bool found = dz_stmt_step(st, NULL) > 0;
    dz_stmt_reset(st);
    if (found && dz_db_exec(db, "DELETE FROM machine;DELETE FROM meta WHERE k='machine'", NULL) < 0)
        abort();
    return found;
}

static int sleep_machine(struct dz_db *db, bool keep, struct dz_err *err)
{
    return !keep ? 0
                 : dz_db_exec(db,
                              "INSERT INTO meta VALUES('machine',1)ON CONFLICT(k)DO UPDATE SET v=1;"
                              "INSERT INTO machine(part,key,value)VALUES('state',0,x'01')",
                              err);
}

static int cell_wake(void *arg, struct dz_cell *cell, struct dz_err *err)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct rig *r = arg;
    struct rig_cell *c = find_cell(r, "");
    char path[DZ_PATH_MAX];
    live_path(r, cell->id, path);
    int rc = dz_registry_get(r->registry, cell->id, &row, err);
    if (rc == 0)
        rc = open_disk(path, &c->db, &c->vfs, err);
    if (rc == 0 && strcmp(row.keep, "files") == 0 &&
        (dz_vfs_clear(c->vfs, DZ_VFS_TMP) < 0 || dz_vfs_commit(c->vfs, err) < 0))
        rc = DZ_EIO;
    if (rc < 0)
        return rc;
    r->had_memory = wake_machine(c->db);
    (void)snprintf(c->id, sizeof c->id, "%s", cell->id);
    played_up(cell);
    return 0;
}

static void cell_suspend(void *arg, struct dz_cell *cell, bool files_only)
{
    struct rig_cell *c = find_cell(arg, cell->id);
    struct dz_err err = {0};
    int rc = dz_vfs_close(c->vfs, &err);
    if (rc == 0)
        rc = sleep_machine(c->db, !files_only, &err);
    int closed = dz_db_close(c->db, false, &err);
    *c = (struct rig_cell){0};
    rc = rc < 0 ? rc : closed;
    if (rc < 0)
        played_fails(cell, rc, err.msg);
    else
        played_sleeps(cell, INT64_MAX, false);
}

static void end_cell(struct rig_cell *c)
{
    dz_vfs_abandon(c->vfs);
    (void)dz_db_close(c->db, true, NULL);
    *c = (struct rig_cell){0};
}

static void cell_killed(void *arg, struct dz_cell *cell)
{
    struct rig_cell *c = find_cell(arg, cell->id);
    if (c)
        end_cell(c);
}

/* --- files ----------------------------------------------------------------------- */

static int make(void *arg, const struct dz_instance *row, struct dz_blob_out *out,
                struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    (void)arg, (void)row;
    int rc = dz_db_template(&dz_vfs_schema, &t, err);
    return rc < 0 ? rc : dz_db_create_fd(out->fd, t.p, t.len, false, err);
}

static int checkpoint(void *arg, const char *id, struct dz_err *err)
{
    char path[DZ_PATH_MAX];
    live_path(arg, id, path);
    return dz_cell_disk_checkpoint(path, err);
}

static int transfer(void *arg, const struct dz_sandbox_transfer *c, struct dz_err *err)
{
    static const enum dz_cell_transfer kinds[] = {
        [DZ_SANDBOX_TRANSFER_COMPACT] = DZ_CELL_TRANSFER_COMPACT,
        [DZ_SANDBOX_TRANSFER_FILES] = DZ_CELL_TRANSFER_FILES,
        [DZ_SANDBOX_TRANSFER_CLONE] = DZ_CELL_TRANSFER_CLONE,
        [DZ_SANDBOX_TRANSFER_SHARE] = DZ_CELL_TRANSFER_SHARE,
    };
    const struct dz_cell_disk d = {
        .from = c->from, .to = c->to, .image_fd = -1, .label = c->row->id, .cancel = c->cancel};
    (void)arg;
    return dz_cell_disk_transfer(&d, kinds[c->what], err);
}

static const struct dz_sandbox_files files = {
    .make = make,
    .checkpoint = checkpoint,
    .transfer = transfer,
};

/* --- the rig --------------------------------------------------------------------- */

int rig_open(struct rig *r, const char *dir)
{
    char path[DZ_PATH_MAX];
    *r = (struct rig){.clock.real_ns = 1700000000 * DZ_NS_PER_S};
    (void)snprintf(r->dir, sizeof r->dir, "%s", dir);
    (void)snprintf(path, sizeof path, "%s/live", dir);
    int rc = dz_blobs_open_dir(path, &r->cold.live, &r->err);
    (void)snprintf(path, sizeof path, "%s/cold", dir);
    if (rc == 0)
        rc = dz_blobs_open_dir(path, &r->cold.store, &r->err);
    r->cold.expand = dz_cell_expand;
    (void)snprintf(path, sizeof path, "%s/registry.db", dir);
    if (rc == 0)
        rc = dz_registry_open(path, true, &r->registry, &r->err);
    if (rc == 0)
        rc = dz_loop_sim_new(&r->clock, NULL, NULL, &r->loop, &r->err);
    (void)snprintf(path, sizeof path, "%s/live", dir);
    r->played = (struct played){.loop = r->loop,
                                .ops = played_ops("wasm"),
                                .arg = r,
                                .wake = cell_wake,
                                .suspend = cell_suspend,
                                .killed = cell_killed};
    dz_list_init(&r->played.cells);
    const struct dz_sandboxes_opts opts = {
        .loop = r->loop,
        .registry = r->registry,
        .cold = r->cold,
        .runtimes = {{&r->played.ops, &r->played}},
        .host = &played_host,
        .files = &files,
        .files_arg = r,
        .live_path = path,
        .idle_policy = {DZ_IDLE_OFF, DZ_IDLE_OFF},
    };
    if (rc == 0)
        rc = dz_sandboxes_new(&opts, &r->k, &r->err);
    return rc < 0 ? rc : dz_sandboxes_recover(r->k, &r->err);
}

void rig_close(struct rig *r)
{
    for (int i = 0; i < RIG_CELLS; i++)
        if (r->cells[i].id[0])
            end_cell(&r->cells[i]);
    if (r->loop)
        dz_loop_sim_forget(r->loop);
    dz_sandboxes_free(r->k);
    (void)dz_registry_close(r->registry, NULL);
    dz_loop_free(r->loop);
    dz_blobs_free(r->cold.live);
    dz_blobs_free(r->cold.store);
}

static void on_done(void *arg, const struct dz_sandbox_reply *result)
{
    *(struct dz_sandbox_reply *)arg = *result;
}

static void pass(struct rig *r, int64_t ms)
{
    int64_t until = dz_clock_real_ms() + ms;
    while (dz_loop_sim_step(r->loop, until))
        continue;
}

static int ask(struct rig *r, struct dz_sandbox_request *request)
{
    struct dz_sandbox_reply result = {.code = 1};
    request->done = on_done;
    request->arg = &result;
    int rc = dz_sandbox_submit(r->k, request, NULL, &r->err);
    if (rc == 0)
        pass(r, 10000);
    if (rc == 0 && result.code < 0)
        r->err = result.err;
    return rc < 0 ? rc : result.code;
}

int rig_do(struct rig *r, enum dz_request what, const char *id)
{
    struct dz_sandbox_request request = {.what = what, .id = id};
    return ask(r, &request);
}

int rig_archive_files(struct rig *r, const char *id)
{
    struct dz_sandbox_request request = {.what = DZ_REQUEST_ARCHIVE, .id = id, .keep = "files"};
    return ask(r, &request);
}

int rig_clone(struct rig *r, const char *base, const char *id, const char *tenant)
{
    const struct dz_instance to = {.id = id, .tenant = tenant};
    struct dz_sandbox_request request = {.what = DZ_REQUEST_CLONE, .id = base, .clone = &to};
    return ask(r, &request);
}

int rig_share(struct rig *r, const char *id, const char *key)
{
    struct dz_sandbox_request request = {
        .what = DZ_REQUEST_SHARE, .id = id, .share_store = r->cold.store, .share_key = key};
    return ask(r, &request);
}

int rig_register(struct rig *r, const char *id, const char *keep)
{
    const struct dz_instance row = {.id = id, .tenant = "acme", .keep = keep};
    return dz_sandbox_register(r->k, &row, &r->err);
}

int rig_copy(struct rig *r, const char *from, const char *to)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    const struct dz_blob_copy how = {.no_hash = true};
    struct dz_blob_copied copied;
    char a[DZ_COLD_KEY], b[DZ_COLD_KEY];
    int rc = dz_blob_in_open(r->cold.live, dz_cold_key(from, DZ_COLD_LIVE, a), &in, &r->err);
    if (rc == 0)
        rc = dz_blob_out_open(r->cold.live, dz_cold_key(to, DZ_COLD_LIVE, b), &out, &r->err);
    if (rc == 0)
        rc = dz_blob_copy(in, out, &how, &copied, &r->err);
    return rc < 0 ? rc : dz_blob_out_commit(out, &r->err);
}

int rig_fork(struct rig *r, const char *id)
{
    const struct dz_instance row = {.id = id, .tenant = "acme"};
    struct dz_sandbox_reply result = {.code = 1};
    const struct dz_sandbox_request use = {
        .what = DZ_REQUEST_USE, .id = id, .done = on_done, .arg = &result};
    int rc = dz_sandbox_register_unsynced(r->k, &row, &r->err);
    if (rc == 0)
        rc = dz_sandbox_submit(r->k, &use, NULL, &r->err);
    if (rc < 0)
        return rc;
    pass(r, 1000);
    assert(result.code == 1); /* nobody is answered before the sync */
    dz_sandbox_file_synced(r->k, id);
    pass(r, 1000);
    if (result.code < 0)
        r->err = result.err;
    return result.code;
}

/* --- content --------------------------------------------------------------------- */

int rig_put(struct rig *r, const char *id, const char *path, const char *text)
{
    struct rig_cell *c = find_cell(r, id);
    const struct dz_vfs_walk walk = {.root = DZ_VFS_ROOT, .start = DZ_VFS_ROOT};
    const struct dz_vfs_new spec = {.mode = S_IFREG | 0644};
    struct dz_vfs_walked at;
    int sys = dz_vfs_walk(c->vfs, &walk, path, &at);
    if (sys == 0 && at.ino == 0)
        sys = dz_vfs_create(c->vfs, at.dir, at.name, at.len, &spec, &at.ino);
    if (sys == 0 && dz_vfs_write(c->vfs, at.ino, 0, text, strlen(text)) < 0)
        sys = -1;
    return sys < 0 ? DZ_EIO : dz_vfs_commit(c->vfs, &r->err);
}

static const char *read_text(struct dz_vfs *v, const char *path, char out[static 64])
{
    uint64_t ino;
    ssize_t n = -1;
    if (v && dz_vfs_resolve(v, path, &ino) == 0)
        n = dz_vfs_read(v, ino, 0, out, 63);
    out[n > 0 ? n : 0] = '\0';
    return out;
}

const char *rig_get(struct rig *r, const char *id, const char *path, char out[static 64])
{
    const struct rig_cell *c = find_cell(r, id);
    return read_text(c ? c->vfs : NULL, path, out);
}

const char *rig_peek(const char *file, const char *path, char out[static 64])
{
    struct dz_db *db = NULL;
    struct dz_vfs *v = NULL;
    out[0] = '\0';
    if (open_disk(file, &db, &v, NULL) < 0)
        return out;
    (void)read_text(v, path, out);
    dz_vfs_abandon(v);
    (void)dz_db_close(db, false, NULL);
    return out;
}
