/* SPDX-License-Identifier: MIT
 *
 * control_ready.c - preallocated files for new sandboxes: a few have their content on the disk
 * already, under temporary names, and get their final name when a sandbox is created. After a crash
 * they are removed with all other temporary files.
 *
 * Workers take files; one worker makes new ones when there is nothing else to do.
 */
#include "control/control_int.h"

#include "base/log.h"
#include "db/db.h"
#include "vfs/vfs.h"

#include <assert.h>

int dz_prealloc_write(struct dz_blob_out *out, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    int rc = dz_vfs_template_sleeper(&t, err);
    return rc < 0 ? rc : dz_blob_out_write(out, t.p, t.len, err);
}

int dz_prealloc_init(struct dz_prealloc *r, struct dz_err *err)
{
    int e = pthread_mutex_init(&r->lock, NULL);
    r->made = e == 0;
    return e ? dz_fail_sys(err, e, "make a lock") : 0;
}

void dz_prealloc_release(struct dz_prealloc *r)
{
    assert(!r->filling);
    for (size_t i = 0; i < r->count; i++)
        dz_blob_out_close(r->outs[i]);
    r->count = 0;
    if (r->made)
        (void)pthread_mutex_destroy(&r->lock);
    r->made = false;
}

struct dz_blob_out *dz_prealloc_take(struct dz_prealloc *r)
{
    (void)pthread_mutex_lock(&r->lock);
    struct dz_blob_out *out = r->count > 0 ? r->outs[--r->count] : NULL;
    (void)pthread_mutex_unlock(&r->lock);
    return out;
}

size_t dz_prealloc_count(struct dz_prealloc *r)
{
    (void)pthread_mutex_lock(&r->lock);
    size_t n = r->count;
    (void)pthread_mutex_unlock(&r->lock);
    return n;
}

static int make_one(struct dz_control *e, struct dz_err *err)
{
    struct dz_blob_out *out = NULL;
    int rc = dz_blob_out_open(e->cold.live, "ready", &out, err);
    if (rc == 0)
        rc = dz_prealloc_write(out, err);
    if (rc == 0)
        rc = dz_blob_out_sync(out, err);
    if (rc < 0) {
        dz_blob_out_close(out);
        return rc;
    }
    (void)pthread_mutex_lock(&e->prealloc.lock);
    e->prealloc.outs[e->prealloc.count++] = out;
    (void)pthread_mutex_unlock(&e->prealloc.lock);
    return 0;
}

/* Only this function adds files, so there is room. */
static void work_fill(void *arg)
{
    struct dz_control *e = arg;
    struct dz_err err;
    int rc = 0;
    while (rc == 0 && dz_prealloc_count(&e->prealloc) < DZ_CONTROL_PREALLOC_MAX)
        rc = make_one(e, &err);
    if (rc < 0) /* the files are then made on demand, and that reports the error */
        dz_log(DZ_LOG_DEBUG, "ready_failed", dz_log_err(&err));
}

static void on_filled(void *arg)
{
    ((struct dz_control *)arg)->prealloc.filling = false;
}

void dz_prealloc_fill(struct dz_control *e)
{
    struct dz_prealloc *r = &e->prealloc;
    if (!e->recovered || dz_sandboxes_draining(e->sandboxes) ||
        e->space.now.level >= DZ_SPACE_FULL || r->filling ||
        dz_prealloc_count(r) == DZ_CONTROL_PREALLOC_MAX)
        return;
    r->filling = dz_loop_work(e->loop, work_fill, on_filled, e, NULL) == 0;
}
