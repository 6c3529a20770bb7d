/* SPDX-License-Identifier: MIT
 *
 * control_image.c - images from which cells are started: opened once, with the prepared modules,
 * and kept open while cells use them and for a while after that.
 *
 * An open image is locked against removal. The lock belongs to the descriptor, which the image's
 * zygote and its cells share; the zygote outlives the last sandbox of its image and would hold the
 * lock. So when an image is removed, which the registry allows only if nothing uses it, the lock is
 * released and the zygote ended (forget_unused). A cell that is still exiting keeps the file's
 * bytes, not its name.
 */
#include "cell/cell_pool.h"
#include "control/control_int.h"
#include "kernel/kernel.h"
#include "registry/registry_record.h"

#include "base/fd.h"
#include "base/log.h"

#include <string.h>

static void image_free(struct engine_image *i)
{
    dz_fd_close(&i->fd);
    for (size_t m = 0; m < i->module_count; m++)
        dz_fd_close(&i->module_fds[m]);
    dz_image_release(&i->info);
    dz_free(i);
}

static void unref(struct engine_image *i)
{
    if (--i->refs == 0)
        image_free(i);
}

void dz_control_image_put(struct dz_control *e, struct engine_image *i)
{
    (void)e;
    if (i)
        unref(i);
}

void dz_control_images_forget(struct dz_control *e, const char *sha256)
{
    struct engine_image *i = sha256 ? dz_map_remove(&e->image_cache, dz_str(sha256)) : NULL;
    if (i)
        unref(i);
    if (sha256)
        return;
    DZ_MAP_FOREACH(it, &e->image_cache)
        unref(it->value);
    dz_map_clear(&e->image_cache);
}

/* The registry says that no sandbox and no snapshot uses the image. */
static void forget_unused(struct dz_control *e, const char *sha256)
{
    const struct engine_image *i = dz_map_get(&e->image_cache, dz_str(sha256));
    struct dz_err err;
    if (i && dz_fd_lock(i->fd, DZ_FD_LOCK_NONE, &err) < 0)
        dz_log(DZ_LOG_WARN, "image_unlock_failed", dz_log_err(&err));
    dz_cell_pool_forget(e->pool, sha256);
    dz_control_images_forget(e, sha256);
}

static int load(struct dz_control *e, const char *sha256, struct engine_image *i,
                struct dz_err *err)
{
    size_t missing = 0;
    int rc = dz_image_load(e->images, sha256, &i->info, err);
    if (rc == 0)
        rc = i->fd = dz_image_open(e->images, sha256, err);
    if (rc >= 0)
        rc = dz_image_modules(e->images, &i->info, i->module_fds, &i->module_count, &missing, err);
    return rc < 0 ? rc : 0;
}

/* Make room for one more: forget an image that no cell uses, and end its zygote, which would keep
 * it locked. */
static void make_room(struct dz_control *e)
{
    const struct engine_image *idle = NULL;
    if (e->image_cache.count < DZ_CONTROL_IMAGES_MAX)
        return;
    DZ_MAP_FOREACH(it, &e->image_cache) {
        const struct engine_image *i = it->value;
        idle = i->refs == 1 ? i : idle;
    }
    if (idle)
        forget_unused(e, idle->info.sha256);
}

int dz_control_image_get(struct dz_control *e, const char *sha256, struct engine_image **ret_image,
                         struct dz_err *err)
{
    struct engine_image *i = dz_map_get(&e->image_cache, dz_str(sha256));
    if (!i) {
        make_room(e);
        i = dz_zalloc(sizeof *i);
        if (!i)
            return dz_fail(err, DZ_ENOMEM, "open an image: out of memory");
        i->fd = -1;
        i->refs = 1;
        int rc = load(e, sha256, i, err);
        if (rc == 0 && dz_map_put(&e->image_cache, dz_str(i->info.sha256), i, NULL) < 0)
            rc = dz_fail(err, DZ_EBUSY,
                         "open an image: %d others are in use, which is the limit; try again later",
                         DZ_CONTROL_IMAGES_MAX);
        if (rc < 0) {
            image_free(i);
            return rc;
        }
    }
    i->refs++;
    *ret_image = i;
    return 0;
}

int dz_control_image_find(struct dz_control *e, const char *name,
                          char ret_sha256[static DZ_SHA256_HEX], struct dz_why *why)
{
    struct dz_err err;
    int rc = dz_image_find(e->images, name, ret_sha256, &err);
    if (rc < 0)
        return dz_why(why, rc == DZ_ENOENT ? DZ_EINVAL : rc, "image", "%s", err.msg);
    return 0;
}

/* --- for clients ------------------------------------------------------------------------------ */

struct listing {
    struct dz_control *e;
    struct dz_control_images_page *page;
    size_t left;
    dz_control_image_fn *fn;
    void *arg;
    bool more;
};

static int list_one(void *arg, const char *sha256, const char *tags, struct dz_err *err)
{
    struct listing *l = arg;
    struct dz_image image;
    (void)err;
    if (l->more || (l->page->after && strcmp(sha256, l->page->after) <= 0))
        return 0;
    if (l->left == 0) {
        l->more = true;
        return 0;
    }
    l->left--;
    memcpy(l->page->last, sha256, DZ_SHA256_HEX);
    bool known = dz_image_load(l->e->images, sha256, &image, NULL) == 0;
    int rc = l->fn(l->arg, sha256, tags, known ? &image : NULL);
    if (known)
        dz_image_release(&image);
    return rc;
}

int dz_control_images(struct dz_control *e, struct dz_control_images_page *page,
                      dz_control_image_fn *fn, void *arg, struct dz_why *why)
{
    struct listing l = {e, page, page->limit, fn, arg, false};
    struct dz_err err;
    int rc = dz_image_each(e->images, list_one, &l, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    page->more = l.more;
    return 0;
}

int dz_control_image(struct dz_control *e, const char *name, struct dz_image *ret_image,
                     struct dz_buf *tags, struct dz_why *why)
{
    char sha256[DZ_SHA256_HEX];
    struct dz_err err;
    int rc = dz_image_find(e->images, name, sha256, &err);
    if (rc == 0)
        rc = dz_image_names(e->images, sha256, tags, &err);
    if (rc == 0)
        rc = dz_image_load(e->images, sha256, ret_image, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* Does a sandbox or a snapshot need the image? Without the image its file is useless. */
static int sandbox_needs(const struct dz_control *e, const char *sha256, struct dz_err *err)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    const struct dz_registry_filter f = {.image = sha256, .limit = 1};
    int rc = dz_registry_list(e->registry, &f, &rows, err);
    return rc < 0 || rows.n == 0
               ? rc
               : dz_fail(err, DZ_EEXIST, "the sandbox %s uses it; delete that first", rows.p[0].id);
}

static int snapshot_needs(const struct dz_control *e, const char *sha256, struct dz_err *err)
{
    char after[DZ_CONTROL_VALUE_MAX + 1] = "";
    for (;;) {
        DZ_AUTO(dz_snapshot_rows_release)
        struct dz_snapshot_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        const struct dz_registry_record_filter f = {.after = after};
        int rc = dz_registry_snapshot_list(e->registry, &f, &rows, err);
        if (rc < 0 || rows.n == 0)
            return rc;
        for (size_t i = 0; i < rows.n; i++) {
            (void)snprintf(after, sizeof after, "%s", rows.p[i].id);
            if (strcmp(rows.p[i].image, sha256) == 0)
                return dz_fail(err, DZ_EEXIST, "the snapshot %s uses it; delete that first",
                               rows.p[i].id);
        }
    }
}

static int in_use(const struct dz_control *e, const char *sha256, struct dz_err *err)
{
    int rc = sandbox_needs(e, sha256, err);
    return rc < 0 ? rc : snapshot_needs(e, sha256, err);
}

int dz_control_image_delete(struct dz_control *e, const char *name, struct dz_why *why)
{
    char sha256[DZ_SHA256_HEX];
    struct dz_err err;
    int rc = dz_image_find(e->images, name, sha256, &err);
    if (rc == 0)
        rc = in_use(e, sha256, &err);
    if (rc == 0) {
        forget_unused(e, sha256);
        rc = dz_image_remove(e->images, name, &err);
    }
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* Hook for the store: an image may be removed if nothing in the registry needs it. Closes the
 * control plane's own descriptor of it. */
static int guard(void *arg, const char *sha256, struct dz_err *err)
{
    struct dz_control *e = arg;
    int rc = in_use(e, sha256, err);
    if (rc == 0)
        forget_unused(e, sha256);
    return rc == DZ_EEXIST ? DZ_EBUSY : rc;
}

int dz_control_image_gc(struct dz_control *e, bool cache, struct dz_image_gc *ret_gc,
                        struct dz_why *why)
{
    struct dz_err err;
    dz_image_store_guard(e->images, guard, e);
    int rc = dz_image_gc(e->images, cache, ret_gc, &err);
    dz_image_store_guard(e->images, NULL, NULL);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_control_kind_of(struct dz_control *e, const char *sha256, const char **ret_kind,
                       struct dz_err *err)
{
    struct engine_image *image = NULL;
    int rc = sha256[0] ? dz_control_image_get(e, sha256, &image, err) : 0;
    if (rc < 0)
        return rc;
    *ret_kind = dz_image_kind_text(image ? image->info.kind : DZ_IMAGE_WASM);
    dz_control_image_put(e, image);
    return 0;
}

int dz_control_memory_of(struct dz_control *e, const char *sha256, const char *policy,
                         uint64_t given_bytes, uint64_t *ret_bytes, struct dz_err *err)
{
    struct engine_image *image = NULL;
    int rc = sha256[0] ? dz_control_image_get(e, sha256, &image, err) : 0;
    if (rc < 0)
        return rc;
    const struct dz_image *info = image ? &image->info : NULL;
    const struct dz_policy *p = dz_policy_find(policy                 ? policy
                                               : info && info->policy ? info->policy
                                                                      : "posix");
    *ret_bytes = given_bytes                  ? given_bytes
                 : info && info->memory_bytes ? info->memory_bytes
                 : p                          ? p->limits.memory_bytes
                                              : 0;
    dz_control_image_put(e, image);
    return 0;
}
