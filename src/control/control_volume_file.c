/* SPDX-License-Identifier: MIT
 *
 * control_volume_file.c - the files of a volume without a sandbox: operations on them, each by a
 * cell of its own (sandbox_lone.c), and copies of whole volumes.
 *
 * Such a request holds the volume while it runs, for reading or for writing, beside the leases of
 * sandboxes: many readers or one writer. A hold is in the daemon's memory, because it cannot
 * outlive the daemon's request. Reading a file that a killed writer left with a WAL is held like
 * writing, because the WAL is moved into the file first. A request that writes makes the files
 * stale that sleeping sandboxes have open, as a lease for writing does.
 */
#include "control/control_int.h"
#include "control/control_volume.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "cell/cell.h"
#include "cell/cell_disk.h"
#include "kernel/kernel.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* --- holds ------------------------------------------------------------------------------------ */

enum {
    HOLDS_TENANT_MAX = 16, /* requests of a tenant that run at a time, so that others get theirs */
};

struct hold {
    struct dz_list link; /* in control.volume_holds */
    char id[DZ_ID_TEXT], tenant[DZ_CONTROL_VALUE_MAX + 1];
    bool writes;
};

bool dz_volume_held(const struct dz_control *e, const char *id, bool writes)
{
    DZ_LIST_FOREACH(struct hold, h, &e->volume_holds, link)
        if (strcmp(h->id, id) == 0 && (writes || h->writes))
            return true;
    return false;
}

struct excluding {
    bool writes, found;
    char sandbox_id[DZ_COLD_KEY];
    bool sandbox_writes;
};

static int exclude(void *arg, const struct dz_registry_holder *h)
{
    struct excluding *x = arg;
    if (!x->writes && !h->writes)
        return 0;
    x->found = true;
    x->sandbox_writes = h->writes;
    (void)snprintf(x->sandbox_id, sizeof x->sandbox_id, "%s", h->sandbox_id);
    return 1;
}

static int hold(struct dz_control *e, const struct dz_volume_row *row, bool writes,
                struct hold **ret, struct dz_why *why)
{
    struct excluding x = {.writes = writes};
    char quoted[DZ_STR_QUOTED];
    size_t count = 0;
    struct dz_err err;
    (void)dz_str_quote(dz_str(row->name), quoted);
    int rc = dz_registry_lease_holders(e->registry, row->id, exclude, &x, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    if (x.found)
        return dz_why(why, DZ_EVOLUME, NULL,
                      "volume %s: sandbox %s has it mounted for %s; suspend that sandbox first, or "
                      "use the files through it",
                      quoted, x.sandbox_id, x.sandbox_writes ? "writing" : "reading");
    if (dz_volume_held(e, row->id, writes))
        return dz_why(why, DZ_EVOLUME, NULL,
                      "volume %s: another request is using its files; try again", quoted);
    DZ_LIST_FOREACH(struct hold, other, &e->volume_holds, link)
        count += strcmp(other->tenant, row->tenant) == 0;
    if (count >= HOLDS_TENANT_MAX)
        return dz_why(why, DZ_EBUSY, NULL,
                      "volume %s: %d requests for files of volumes run already; try again", quoted,
                      HOLDS_TENANT_MAX);
    struct hold *h = dz_zalloc(sizeof *h);
    if (!h)
        return dz_why(why, DZ_ENOMEM, NULL, "volume %s: out of memory", quoted);
    h->writes = writes;
    (void)snprintf(h->tenant, sizeof h->tenant, "%s", row->tenant);
    (void)snprintf(h->id, sizeof h->id, "%s", row->id);
    dz_list_init(&h->link);
    dz_list_push_back(&e->volume_holds, &h->link);
    *ret = h;
    return 0;
}

static void unhold(void *arg)
{
    struct hold *h = arg;
    if (!h)
        return;
    dz_list_remove(&h->link);
    dz_free(h);
}

/* --- operations --------------------------------------------------------------------------------
 */

int dz_control_volume_op(struct dz_control *e, struct dz_control_target target,
                         const struct dz_file_op_request *request, struct dz_file_op **ret_op,
                         struct dz_why *why)
{
    static const char *const no_env[] = {NULL};
    DZ_AUTO(dz_control_volume_release) struct dz_control_volume v = {0};
    struct dz_cell_volume file = {.readonly = !request->writes};
    struct hold *h = NULL;
    struct dz_err err;
    file.fd = file.wal_fd = file.again_fd = -1;
    int rc = dz_control_volume_get(e, target, &v, why);
    if (rc < 0)
        return rc;
    uint32_t user = 0;
    rc = dz_volume_open(e, v.row.id, &file, &err);
    if (rc == 0)
        rc = dz_control_user_of(e, v.row.tenant, &user, &err);
    rc = rc < 0 ? dz_why_err(why, rc, &err) : hold(e, &v.row, file.wal_fd >= 0, &h, why);
    if (rc == 0 && h->writes &&
        (rc = dz_registry_volume_written(e->registry, v.row.id, &err)) < 0) {
        unhold(h);
        rc = dz_why_err(why, rc, &err);
    }
    if (rc == 0) {
        const struct dz_lone_opts opts = {.start = {.disk_fd = file.fd,
                                                    .wal_fd = file.wal_fd,
                                                    .image_fd = -1,
                                                    .env = no_env,
                                                    .policy = dz_policy_find("posix"),
                                                    .readonly = file.wal_fd < 0,
                                                    .host_user = user,
                                                    .label = v.row.id},
                                          .keep_free = e->space.now.mark_bytes,
                                          .limit_bytes = (uint64_t)v.row.limit_bytes,
                                          .over = unhold,
                                          .arg = h};
        rc = dz_file_op_lone(e->sandboxes, &opts, request, ret_op, why);
        if (rc < 0)
            unhold(h);
        dz_control_pool_used(e);
    }
    dz_volume_close(&file);
    return rc;
}

/* --- copies ------------------------------------------------------------------------------------
 */

struct dz_volume_copy {
    struct dz_control *e;
    struct hold *hold;
    dz_control_volume_fn *done; /* NULL: it was canceled */
    void *arg;
    _Atomic bool cancel;
    bool recover; /* move the WAL into the file first */
    char dir[DZ_PATH_MAX];
    char from[DZ_ID_TEXT], id[DZ_ID_TEXT];
    char name[DZ_CONTROL_VALUE_MAX + 1], tenant[DZ_CONTROL_VALUE_MAX + 1];
    int64_t limit_bytes;
    int rc; /* result of the worker */
    struct dz_err err;
};

static int copy_object(struct dz_volume_copy *c, struct dz_blobs *files, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    const struct dz_blob_copy how = {.cancel = &c->cancel, .no_hash = true};
    struct dz_blob_copied copied;
    char key[DZ_COLD_KEY];
    int rc = dz_blob_in_open(files, dz_cold_key(c->from, DZ_COLD_LIVE, key), &in, err);
    if (rc == 0)
        rc = dz_blob_out_open(files, dz_cold_key(c->id, DZ_COLD_LIVE, key), &out, err);
    if (rc == 0)
        rc = dz_blob_copy(in, out, &how, &copied, err);
    return rc == 0 ? dz_blob_out_commit(out, err) : rc;
}

static int copy_file(struct dz_volume_copy *c, struct dz_err *err)
{
    struct dz_blobs *files = NULL;
    char from[DZ_PATH_MAX], key[DZ_COLD_KEY];
    int n = snprintf(from, sizeof from, "%s/%s", c->dir, dz_cold_key(c->from, DZ_COLD_LIVE, key));
    if (n < 0 || (size_t)n >= sizeof from)
        return dz_fail(err, DZ_ELIMIT, "the path of the volume's file is too long");
    int rc = c->recover ? dz_cell_disk_checkpoint(from, err) : 0;
    if (rc == 0)
        rc = dz_blobs_find_dir(c->dir, &files, err);
    if (rc == 0)
        rc = copy_object(c, files, err);
    dz_blobs_free(files);
    return rc;
}

static void work_copy(void *arg)
{
    struct dz_volume_copy *c = arg;
    c->rc = copy_file(c, &c->err);
}

static void on_copied(void *arg)
{
    DZ_AUTO(dz_control_volume_release) struct dz_control_volume v = {0};
    struct dz_volume_copy *c = arg;
    struct dz_why why = {0};
    const struct dz_volume_row row = {.id = c->id,
                                      .tenant = c->tenant,
                                      .status = "ready",
                                      .name = c->name,
                                      .limit_bytes = c->limit_bytes,
                                      .created = dz_clock_real_ms()};
    unhold(c->hold);
    int rc = c->rc < 0 ? dz_why_err(&why, c->rc, &c->err)
             : c->done ? dz_volume_register(c->e, &row, &v, &why)
                       : dz_why(&why, DZ_ECANCELED, NULL, "canceled");
    if (rc < 0)
        dz_volume_remove_files(c->e, c->id);
    if (c->done)
        c->done(c->arg, rc, &v, &why);
    else if (c->rc < 0 && c->rc != DZ_ECANCELED)
        dz_log(DZ_LOG_WARN, "volume_not_copied", dz_log_strz("id", c->from), dz_log_err(&c->err));
    dz_free(c);
}

int dz_control_volume_copy(struct dz_control *e, struct dz_control_target target, const char *name,
                           const struct dz_control_volume_done *done,
                           struct dz_volume_copy **ret_copy, struct dz_why *why)
{
    DZ_AUTO(dz_control_volume_release) struct dz_control_volume v = {0};
    struct dz_cell_volume file = {.readonly = true};
    struct dz_err err;
    file.fd = file.wal_fd = file.again_fd = -1;
    int rc = dz_volume_check_new(e, target.who, name, why);
    if (rc == 0)
        rc = dz_control_volume_get(e, target, &v, why);
    if (rc == 0)
        rc = dz_space_check_for(e, v.bytes, why);
    if (rc < 0)
        return rc;
    struct dz_volume_copy *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_why(why, DZ_ENOMEM, NULL, "copy a volume: out of memory");
    *c = (struct dz_volume_copy){
        .e = e, .done = done->fn, .arg = done->arg, .limit_bytes = v.row.limit_bytes};
    (void)snprintf(c->dir, sizeof c->dir, "%s/volumes", e->data_path);
    (void)snprintf(c->from, sizeof c->from, "%s", v.row.id);
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    (void)snprintf(c->tenant, sizeof c->tenant, "%s", target.who->tenant);
    rc = dz_volume_open(e, v.row.id, &file, &err);
    if (rc == 0)
        rc = dz_id_new("vol", c->id, &err);
    c->recover = file.wal_fd >= 0;
    dz_volume_close(&file);
    rc = rc < 0 ? dz_why_err(why, rc, &err) : hold(e, &v.row, c->recover, &c->hold, why);
    if (rc == 0)
        rc = dz_loop_work(e->loop, work_copy, on_copied, c, &why->err);
    if (rc < 0) {
        unhold(c->hold);
        dz_free(c);
        return rc;
    }
    *ret_copy = c;
    return 0;
}

void dz_control_volume_copy_cancel(struct dz_volume_copy *c)
{
    c->done = NULL;
    atomic_store(&c->cancel, true);
}
