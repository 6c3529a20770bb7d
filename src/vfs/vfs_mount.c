/* SPDX-License-Identifier: MIT
 *
 * vfs_mount.c - other disks at directories of this one (volumes of a sandbox).
 *
 * Users of a disk see one number space. An inode of a mounted disk has the number of its mount in
 * the bits from DZ_MOUNT_SHIFT on, and the inode of its own file below:
 *
 *     ino 17                   inode 17 of this disk
 *     ino 3 << 40 | 17         inode 17 of the disk that is mounted as number 3
 *
 * Functions that take an inode call dz_mount_enter() first: it replaces the disk and the inode by
 * those of the mount. From there on a mounted disk works as if it were alone; it has no mounts, so
 * nothing recurses. Results get the number of their mount again on the way out.
 *
 * A directory with a mount is covered: a lookup of its name leads to the mount's root. ".." of that
 * root leads to the parent of the covered directory. Names cannot be moved or linked from one disk
 * to another (EXDEV), and a covered directory cannot be removed, renamed or replaced (EBUSY).
 *
 * The number of a mount is chosen by the caller. An inode of a mount that is not there is stale:
 * every use is ESTALE. So the memory of a suspended machine may refer to files of a volume that has
 * changed meanwhile, if the volume is then mounted under another number.
 *
 * Record locks of all disks are in the table of the one that they are mounted on.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define INO_OF(ino)    ((ino) & (((uint64_t)1 << DZ_MOUNT_SHIFT) - 1))
#define NUMBER_OF(ino) ((uint32_t)((ino) >> DZ_MOUNT_SHIFT))

struct dz_mount {
    struct dz_vfs *fs;
    uint64_t point, root; /* in the disk below; in fs */
    uint32_t number;
    const struct dz_mounts *all;
    struct dz_vfs_mounted about;
};

struct dz_mounts {
    struct dz_mount mount[DZ_VFS_MOUNT_MAX];
    size_t count;
    struct dz_vfs_observer observer; /* of the disk below; event NULL: none */
};

_Static_assert(DZ_VFS_INO_MAX < (uint64_t)1 << DZ_MOUNT_SHIFT, "an inode leaves the bits free");

static const struct dz_mount *find(const struct dz_vfs *v, uint64_t ino)
{
    for (size_t i = 0; v->mounts && i < v->mounts->count; i++)
        if (v->mounts->mount[i].number == NUMBER_OF(ino))
            return &v->mounts->mount[i];
    return NULL;
}

static const struct dz_mount *at_point(const struct dz_vfs *v, uint64_t ino)
{
    for (size_t i = 0; v->mounts && i < v->mounts->count; i++)
        if (v->mounts->mount[i].point == ino)
            return &v->mounts->mount[i];
    return NULL;
}

/* The number of one of the mount's own inodes for users of the disk below. */
static uint64_t outside(const struct dz_mount *m, uint64_t ino)
{
    return ino ? (uint64_t)m->number << DZ_MOUNT_SHIFT | ino : 0;
}

int dz_mount_cross(struct dz_vfs **v, uint64_t *ino)
{
    const struct dz_mount *m = find(*v, *ino);
    if (!m)
        return -ESTALE;
    *v = m->fs;
    *ino = INO_OF(*ino);
    return 0;
}

bool dz_mount_point(const struct dz_vfs *v, uint64_t ino)
{
    return at_point(v, ino) != NULL;
}

int dz_mount_below(struct dz_vfs *v, uint64_t dir)
{
    int rc = 0;
    for (size_t i = 0; v->mounts && i < v->mounts->count && rc == 0; i++)
        rc = dz_dir_below(v, v->mounts->mount[i].point, dir);
    return rc;
}

uint64_t dz_mount_like(uint64_t like, uint64_t ino)
{
    return ino ? like >> DZ_MOUNT_SHIFT << DZ_MOUNT_SHIFT | ino : 0;
}

uint64_t dz_mount_down(const struct dz_vfs *v, uint64_t dir, uint64_t ino)
{
    if (dz_mounted(dir))
        return dz_mount_like(dir, ino);
    const struct dz_mount *m = at_point(v, ino);
    return m ? outside(m, m->root) : ino;
}

int dz_mount_up(struct dz_vfs *v, uint64_t dir, uint64_t *ret_parent)
{
    struct dz_inode *ip;
    struct dz_vfs *in = v;
    uint64_t at = dir;
    const struct dz_mount *m = dz_mounted(dir) ? find(v, dir) : NULL;
    const bool leaves = m && INO_OF(dir) == m->root;
    if (leaves)
        at = m->point;
    int rc = dz_mount_enter(&in, &at);
    if (!rc)
        rc = dz_iget_dir(in, at, &ip);
    if (!rc)
        *ret_parent = leaves ? ip->rdev : dz_mount_like(dir, ip->rdev);
    return rc;
}

int dz_iget_any(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip)
{
    int rc = dz_mount_enter(&v, &ino);
    return rc ? rc : dz_iget(v, ino, ret_ip);
}

/* ---- listings ------------------------------------------------------------------------------ */

struct listing {
    int (*fn)(void *arg, const struct dz_vfs_entry *e);
    void *arg;
    uint64_t dir, parent;
};

static int translate(void *arg, const struct dz_vfs_entry *e)
{
    const struct listing *l = arg;
    struct dz_vfs_entry out = *e;
    const bool up = e->len == 2 && memcmp(e->name, "..", 2) == 0;
    out.ino = up ? l->parent : dz_mount_like(l->dir, e->ino);
    return l->fn(l->arg, &out);
}

int dz_mount_readdir(struct dz_vfs *v, uint64_t dir, uint64_t cookie,
                     int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg)
{
    struct listing l = {.fn = fn, .arg = arg, .dir = dir};
    struct dz_vfs *in = v;
    uint64_t at = dir;
    int rc = dz_mount_up(v, dir, &l.parent);
    if (!rc)
        rc = dz_mount_enter(&in, &at);
    return rc ? rc : dz_vfs_readdir(in, at, cookie, translate, &l);
}

int64_t dz_mount_listed(struct dz_vfs *v, const struct dz_vfs_name *name,
                        int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg)
{
    struct listing l = {.fn = fn, .arg = arg, .dir = name->dir};
    struct dz_vfs *in = v;
    struct dz_vfs_name n = *name;
    int rc = dz_mount_up(v, name->dir, &l.parent);
    if (!rc)
        rc = dz_mount_enter(&in, &n.dir);
    return rc ? rc : dz_vfs_listed(in, &n, fn ? translate : NULL, &l);
}

int dz_mount_path(struct dz_vfs *v, uint64_t root, uint64_t ino, bool dir, char *buf, size_t size)
{
    const struct dz_mount *m = find(v, ino);
    char tail[DZ_VFS_PATH_MAX];
    if (!m)
        return -ESTALE;
    const bool same = dz_mounted(root) && NUMBER_OF(root) == m->number;
    const uint64_t top = same ? INO_OF(root) : m->root;
    int n = dir ? dz_vfs_getcwd(m->fs, top, INO_OF(ino), tail, sizeof tail)
                : dz_vfs_find_path(m->fs, top, INO_OF(ino), tail, sizeof tail);
    int head = n < 0 || same ? 0 : dz_vfs_getcwd(v, root, m->point, buf, size);
    if (n < 0 || head < 0)
        return n < 0 ? n : head;
    if (head == 1) /* "/" cannot be a mount point, but a chroot may be one */
        head = 0;
    if (n == 1 && head > 0) /* the root of the mount */
        return head;
    if ((size_t)head + (size_t)n >= size)
        return -ERANGE;
    memcpy(buf + head, tail, (size_t)n + 1);
    return head + n;
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool wants(void *arg, uint64_t dir, uint64_t ino)
{
    const struct dz_mount *m = arg;
    const struct dz_vfs_observer *o = &m->all->observer;
    return o->event && o->wants(o->arg, outside(m, dir), outside(m, ino));
}

static void observed(void *arg, const struct dz_vfs_event *ev)
{
    const struct dz_mount *m = arg;
    const struct dz_vfs_observer *o = &m->all->observer;
    struct dz_vfs_event out = *ev;
    out.dir = outside(m, ev->dir);
    out.ino = outside(m, ev->ino);
    if (o->event)
        o->event(o->arg, &out);
}

static int observe_one(struct dz_mount *m, bool on)
{
    const struct dz_vfs_observer o = {.wants = wants, .event = observed, .arg = m};
    return dz_vfs_observe(m->fs, on ? &o : NULL);
}

int dz_mounts_observe(struct dz_vfs *v, const struct dz_vfs_observer *o)
{
    int rc = 0;
    v->mounts->observer = o ? *o : (struct dz_vfs_observer){0};
    for (size_t i = 0; i < v->mounts->count && !rc; i++)
        rc = observe_one(&v->mounts->mount[i], o != NULL);
    return rc;
}

/* ---- all disks at once ------------------------------------------------------------------------
 */

struct dz_vfs *dz_mounts_next(const struct dz_vfs *v, size_t *i)
{
    return v->mounts && *i < v->mounts->count ? v->mounts->mount[(*i)++].fs : NULL;
}

int dz_mounts_each(struct dz_vfs *v, int (*fn)(struct dz_vfs *fs, struct dz_err *err),
                   struct dz_err *err)
{
    int r = 0;
    for (size_t i = 0; v->mounts && i < v->mounts->count && r >= 0; i++) {
        const struct dz_mount *m = &v->mounts->mount[i];
        r = fn(m->fs, err);
        if (r < 0)
            r = dz_wrap(err, r, "volume %s", m->about.what);
    }
    return r;
}

/* ---- mount, unmount ----------------------------------------------------------------------- */

int dz_vfs_mount(struct dz_vfs *v, const struct dz_vfs_mount *req)
{
    struct dz_inode *ip;
    assert(req->number > 0 && req->number < DZ_VFS_MOUNT_NUMBERS && !req->fs->mounts);
    if (v->mounts && v->mounts->count == DZ_VFS_MOUNT_MAX)
        return -ENOSPC;
    if (req->point == DZ_VFS_ROOT || dz_mounted(req->point) || at_point(v, req->point) ||
        find(v, (uint64_t)req->number << DZ_MOUNT_SHIFT))
        return -EBUSY;
    int rc = dz_iget_dir(v, req->point, &ip);
    if (!rc)
        rc = dz_iget_dir(req->fs, req->root, &ip);
    if (rc)
        return rc;
    if (!v->mounts)
        v->mounts = dz_zalloc(sizeof *v->mounts);
    rc = v->mounts ? dz_vfs_ref(v, req->point) : -ENOMEM;
    if (rc)
        return rc;
    struct dz_mount *m = &v->mounts->mount[v->mounts->count];
    *m = (struct dz_mount){.fs = req->fs,
                           .point = req->point,
                           .root = req->root,
                           .number = req->number,
                           .all = v->mounts};
    m->about.number = req->number;
    m->about.readonly = req->fs->readonly;
    (void)snprintf(m->about.what, sizeof m->about.what, "%s", req->what);
    (void)snprintf(m->about.path, sizeof m->about.path, "%s", req->path);
    rc = v->mounts->observer.event ? observe_one(m, true) : 0;
    if (rc) {
        dz_vfs_unref(v, req->point);
        return rc;
    }
    req->fs->is_mounted = true;
    v->mounts->count++;
    return 0;
}

int dz_vfs_mounted(const struct dz_vfs *v, size_t i, struct dz_vfs_mounted *ret_mounted)
{
    if (!v->mounts || i >= v->mounts->count)
        return 0;
    *ret_mounted = v->mounts->mount[i].about;
    return 1;
}

void dz_vfs_unmount_all(struct dz_vfs *v)
{
    struct dz_mounts *all = v->mounts;
    v->mounts = NULL;
    for (size_t i = 0; all && i < all->count; i++) {
        dz_vfs_unref(v, all->mount[i].point);
        dz_vfs_abandon(all->mount[i].fs);
    }
    dz_free(all);
}

uint32_t dz_vfs_mount_of(uint64_t ino)
{
    return NUMBER_OF(ino);
}
