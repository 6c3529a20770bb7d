/* SPDX-License-Identifier: MIT
 *
 * vfs_dir.c - names: lookup, create, link, unlink, rmdir, rename, and removal of trees.
 *
 * A directory's row keeps its parent in rdev, so that ".." and the path to the root need no
 * search. Its nlink is 2 plus the number of its subdirectories, as everywhere; a removed
 * directory has 0, holds no names and accepts none.
 */
#include "vfs/vfs_int.h"

#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- lookup --------------------------------------------------------------------------- */

/* The inode of a name that exists. A name without an inode is damage. */
static int iget_named(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip)
{
    int rc = dz_iget(v, ino, ret_ip);
    if (rc != -ENOENT)
        return rc;
    (void)dz_fail(&v->why, DZ_ECORRUPT, "a name leads to inode %llu, which does not exist",
                  (unsigned long long)ino);
    return -EIO;
}

static int lookup(struct dz_vfs *v, uint64_t dir, const char *name, size_t len, uint64_t *ret_ino)
{
    struct dz_inode *dp = NULL, *ip = NULL;
    uint64_t ino = dir;
    uint32_t type;
    int rc = dz_read_begin(v);
    if (!rc)
        rc = dz_iget_dir(v, dir, &dp);
    if (!rc)
        rc = dz_name_check(name, len);
    if (rc == -EEXIST) { /* "." or ".." */
        assert(dp);
        *ret_ino = len == 1 ? dir : dp->rdev;
        return 0;
    }
    if (!rc)
        rc = dz_name_find(v, dp, name, len, &ino, &type);
    if (!rc)
        rc = iget_named(v, ino, &ip);
    if (rc)
        return rc;
    assert(ip);
    ip->via = dir;
    *ret_ino = ino;
    return 0;
}

int dz_vfs_lookup(struct dz_vfs *v, uint64_t dir, const char *name, size_t len, uint64_t *ret_ino)
{
    struct dz_vfs *in = v;
    uint64_t at = dir, ino;
    if (dz_likely(!v->mounts && !dz_mounted(dir)))
        return lookup(v, dir, name, len, ret_ino);
    if (len == 2 && memcmp(name, "..", 2) == 0)
        return dz_mount_up(v, dir, ret_ino);
    int rc = dz_mount_enter(&in, &at);
    if (!rc)
        rc = lookup(in, at, name, len, &ino);
    if (!rc)
        *ret_ino = dz_mount_down(v, dir, ino);
    return rc;
}

int dz_vfs_readlink(struct dz_vfs *v, uint64_t ino, char *buf, size_t size)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = dz_read_inode(v, ino, &ip);
    if (rc)
        return rc;
    if (!S_ISLNK(ip->mode))
        return -EINVAL;
    size_t n = ip->data_len < size ? ip->data_len : size;
    memcpy(buf, ip->data, n);
    return (int)n;
}

/* ---- volumes --------------------------------------------------------------------------- */

const char *dz_vfs_volume_name(uint64_t volume)
{
    static const char *const names[] = {
        [DZ_VFS_WORKSPACE] = "workspace", [DZ_VFS_MEMORY] = "memory", [DZ_VFS_TMP] = "tmp"};
    return volume < DZ_ARRAY_LEN(names) ? names[volume] : NULL;
}

bool dz_vfs_volume_public(uint64_t volume)
{
    return volume == DZ_VFS_WORKSPACE;
}

/* ---- the way up -------------------------------------------------------------------------- */

/* Renames can nest directories without end, and a damaged disk can have a circle. So one directory
 * on the way is remembered, twice as late each time (Brent's algorithm): to meet it again means a
 * circle. */
struct climb {
    uint64_t dir, mark, steps, stride; /* stride starts as 8, mark and steps as 0 */
};
/* One step towards the root; EIO when the way is a circle. */
static int climb_up(struct dz_vfs *v, struct climb *c)
{
    struct dz_inode *ip;
    int rc = dz_iget(v, c->dir, &ip);
    if (rc)
        return rc;
    if (!dz_is_dir(ip) || ip->rdev == c->mark)
        return -EIO;
    if (c->steps-- == 0) {
        c->mark = ip->rdev;
        c->steps = c->stride *= 2;
    }
    c->dir = ip->rdev;
    return 0;
}

int dz_dir_below(struct dz_vfs *v, uint64_t dir, uint64_t top)
{
    struct climb c = {.dir = dir, .stride = 8};
    int rc = 0;
    while (!rc && c.dir != top && c.dir != DZ_VFS_ROOT)
        rc = climb_up(v, &c);
    return rc ? rc : c.dir == top;
}

int dz_vfs_volume_of(struct dz_vfs *v, uint64_t dir, uint64_t *ret_volume)
{
    struct climb c = {.dir = dz_mounted(dir) ? DZ_VFS_ROOT : dir, .stride = 8};
    int rc = dz_read_begin(v);
    while (!rc && c.dir > DZ_VFS_TMP)
        rc = climb_up(v, &c);
    if (!rc)
        *ret_volume = c.dir;
    return rc;
}

static int dir_depth(struct dz_vfs *v, uint64_t dir, size_t *ret_depth)
{
    size_t depth = 0;
    for (; dir != DZ_VFS_ROOT; depth++) {
        struct dz_inode *ip;
        int rc = depth > DZ_VFS_DEPTH_MAX ? -ENAMETOOLONG : dz_iget(v, dir, &ip);
        if (rc)
            return rc;
        dir = ip->rdev;
    }
    *ret_depth = depth;
    return 0;
}

/* ---- create ------------------------------------------------------------------------------- */

/* Set ctime, mtime and version of a directory whose names changed. */
static void dir_changed(struct dz_vfs *v, struct dz_inode *dir, int64_t now)
{
    dir->mtime_ns = dir->ctime_ns = now;
    dir->version = ++v->version;
    dz_idirty(v, dir, DZ_DIRTY_ROW);
}

/* A change of a name. */
static struct dz_vfs_event name_event(enum dz_vfs_event_type type, const struct dz_vfs_name *n,
                                      const struct dz_inode *ip)
{
    struct dz_vfs_event ev = {
        .type = type, .dir = n->dir, .ino = ip->ino, .mode = ip->mode & S_IFMT, .len = n->len};
    memcpy(ev.name, n->name, n->len);
    return ev;
}

/* Notify watchers of a change of a name; cookie links the two events of a move. */
static void notify(struct dz_vfs *v, enum dz_vfs_event_type type, const struct dz_vfs_name *n,
                   const struct dz_inode *ip, uint32_t cookie)
{
    if (dz_likely(!v->watches))
        return;
    struct dz_vfs_event ev = name_event(type, n, ip);
    ev.cookie = cookie;
    dz_watch_name(v, &ev);
}

/* May this new name be made? If so, *ret_dir is its directory. */
static int new_name(struct dz_vfs *v, const struct dz_vfs_name *n, struct dz_inode **ret_dir)
{
    uint64_t ino;
    uint32_t type;
    struct dz_inode *dir;
    int rc = dz_iget_dir(v, n->dir, &dir);
    if (!rc)
        rc = dz_name_check(n->name, n->len);
    if (!rc)
        rc = dz_name_find(v, dir, n->name, n->len, &ino, &type);
    if (rc != -ENOENT || n->len == 0)
        return rc ? rc : -EEXIST;
    *ret_dir = dir;
    return 0;
}

/* May `dir` have one more subdirectory? */
static int check_subdir(struct dz_vfs *v, const struct dz_inode *dir)
{
    size_t depth;
    if (dir->nlink >= DZ_VFS_LINK_MAX)
        return -EMLINK;
    int rc = dir_depth(v, dir->ino, &depth);
    return rc ? rc : depth >= DZ_VFS_DEPTH_MAX ? -ENAMETOOLONG : 0;
}

static int check_spec(struct dz_vfs *v, const struct dz_inode *dir, const struct dz_vfs_new *spec)
{
    switch (spec->mode & S_IFMT) {
    case S_IFLNK:
        if (spec->target_len == 0)
            return -ENOENT;
        if (spec->target_len >= DZ_VFS_PATH_MAX)
            return -ENAMETOOLONG;
        if (memchr(spec->target, '\0', spec->target_len))
            return -EINVAL;
        return dz_quota(v, (int64_t)spec->target_len, 1);
    case S_IFDIR:
        return check_subdir(v, dir);
    case S_IFREG:
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFCHR:
    case S_IFBLK:
        return 0;
    default:
        return -EINVAL;
    }
}

static int fill_new(struct dz_vfs *v, struct dz_inode *ip, const struct dz_vfs_new *spec,
                    const struct dz_inode *dir)
{
    ip->uid = spec->uid;
    ip->gid = spec->gid;
    ip->nlink = dz_is_dir(ip) ? 2 : 1;
    ip->rdev = dz_is_dir(ip) ? dir->ino : S_ISCHR(ip->mode) || S_ISBLK(ip->mode) ? spec->rdev : 0;
    ip->via = dir->ino;
    if (S_ISLNK(ip->mode)) {
        ip->size = spec->target_len;
        return dz_iset_data(v, ip, spec->target, spec->target_len);
    }
    return S_ISREG(ip->mode) ? dz_iset_data(v, ip, NULL, 0) : 0;
}

static int create(struct dz_vfs *v, const struct dz_vfs_name *n, const struct dz_vfs_new *spec,
                  struct dz_inode **ret_ip)
{
    struct dz_inode *dir, *ip;
    int rc = new_name(v, n, &dir);
    if (!rc)
        rc = check_spec(v, dir, spec);
    if (!rc)
        rc = dz_inew(v, spec->mode, &ip);
    if (rc)
        return rc;
    rc = fill_new(v, ip, spec, dir);
    if (!rc)
        rc = dz_name_put(v, dir, n->name, n->len, ip->ino, ip->mode >> 12);
    if (rc) {
        dz_iundo(v, ip);
        return rc;
    }
    dz_idirty(v, ip, DZ_DIRTY_ROW);
    dir->nlink += dz_is_dir(ip);
    dir_changed(v, dir, ip->mtime_ns);
    dz_name_set(v, dir->ino, n->name, n->len, ip->ino, ip->mode >> 12);
    notify(v, DZ_VFS_EV_CREATE, n, ip, 0);
    *ret_ip = ip;
    return 0;
}

int dz_vfs_create(struct dz_vfs *v, uint64_t dir, const char *name, size_t len,
                  const struct dz_vfs_new *spec, uint64_t *ret_ino)
{
    struct dz_vfs_name n = {dir, name, len};
    struct dz_inode *ip = NULL;
    int rc = dz_mount_enter(&v, &n.dir);
    if (!rc)
        rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = dz_op_end(v, create(v, &n, spec, &ip));
    if (!rc && ret_ino) {
        assert(ip);
        *ret_ino = dz_mount_like(dir, ip->ino);
    }
    return rc;
}

static int make_link(struct dz_vfs *v, uint64_t ino, const struct dz_vfs_name *n)
{
    struct dz_inode *dir, *ip;
    int rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    if (dz_is_dir(ip))
        return -EPERM;
    rc = new_name(v, n, &dir);
    if (rc)
        return rc;
    if (ip->nlink >= DZ_VFS_LINK_MAX)
        return -EMLINK;
    if (ip->nlink == 0 && ip->refs == 0)
        return -ENOENT;
    rc = dz_name_put(v, dir, n->name, n->len, ino, ip->mode >> 12);
    if (rc)
        return rc;
    if (ip->nlink++ == 0)
        v->orphans--;
    ip->ctime_ns = dz_now(v);
    ip->via = dir->ino;
    dz_idirty(v, ip, DZ_DIRTY_ROW);
    dir_changed(v, dir, ip->ctime_ns);
    dz_name_set(v, dir->ino, n->name, n->len, ino, ip->mode >> 12);
    dz_watch_links(v, DZ_VFS_EV_LINKS, ip);
    notify(v, DZ_VFS_EV_CREATE, n, ip, 0);
    return 0;
}

int dz_vfs_link(struct dz_vfs *v, uint64_t ino, uint64_t dir, const char *name, size_t len)
{
    struct dz_vfs_name n = {dir, name, len};
    struct dz_vfs *there = v;
    int rc = dz_mount_enter(&v, &ino);
    if (!rc)
        rc = dz_mount_enter(&there, &n.dir);
    if (!rc && there != v)
        rc = -EXDEV;
    if (!rc)
        rc = dz_op_begin(v);
    return rc ? rc : dz_op_end(v, make_link(v, ino, &n));
}

/* ---- the end of an inode -------------------------------------------------------------------- */

/* Remove all rows of an inode that nothing refers to any more. Inside an op; accounts. */
static int delete_rows(struct dz_vfs *v, const struct dz_inode *ip)
{
    struct dz_row row = {.kind = DZ_ROW_DEL_NODE, .n = {(int64_t)ip->ino}};
    int rc = 0;
    if (!ip->here)
        return 0;
    if (S_ISREG(ip->mode) && !ip->data)
        rc = dz_chunks_delete(v, ip, 0, DZ_VFS_LAST_INDEX);
    if (!rc && ip->stored)
        rc = dz_row_write(v, &row);
    if (!rc)
        rc = dz_xattrs_delete(v, ip);
    if (!rc && dz_is_dir(ip) && ip->below) { /* what hid the image's names */
        row.kind = DZ_ROW_DEL_DENTRIES;
        rc = dz_row_write(v, &row);
    }
    v->used_inodes--;
    v->used_bytes -= ip->data_len;
    return rc;
}

/* The inode has lost its last name (nlink is 0): forget it, or keep it while it has references, or
 * while it has more content than one operation removes. */
static void unlinked(struct dz_vfs *v, struct dz_inode *ip)
{
    assert(ip->nlink == 0);
    if (ip->refs == 0 && !dz_chunks_many(v, ip, 0)) {
        dz_iforget(v, ip);
        return;
    }
    if (ip->refs == 0) {
        ip->refs = 1;
        v->burial = ip;
    }
    v->orphans++;
    dz_idirty(v, ip, DZ_DIRTY_ROW);
}

/* The inode loses one name, or for a directory its only one. */
static void lose_name(struct dz_vfs *v, struct dz_inode *ip, int64_t now)
{
    bool last = dz_is_dir(ip) || ip->nlink <= 1;
    ip->ctime_ns = now;
    ip->nlink = last ? 0 : ip->nlink - 1;
    if (last)
        unlinked(v, ip);
    else
        dz_idirty(v, ip, DZ_DIRTY_ROW);
}

/* ---- references ---------------------------------------------------------------------------- */

int dz_vfs_ref(struct dz_vfs *v, uint64_t ino)
{
    struct dz_inode *ip;
    if (dz_mount_enter(&v, &ino))
        return 0; /* a stale file has nothing that a reference keeps */
    int rc = dz_read_inode(v, ino, &ip);
    if (rc)
        return rc;
    if (ip->refs == UINT32_MAX / 2)
        return -ENFILE;
    if (ip->refs++ == 0 && ip->nlink == 0)
        v->orphans++; /* a resumed machine takes its references again */
    return 0;
}

/* Remove an inode without names. Much content goes first, in transactions of its own, which is safe
 * because no name or reference leads to it. */
static int bury(struct dz_vfs *v, struct dz_inode *ip)
{
    bool more = dz_chunks_many(v, ip, 0);
    int rc = 0;
    dz_buffers_drop(v, ip, 0, DZ_VFS_LAST_INDEX);
    while (!rc && more) {
        struct dz_err e = {0};
        rc = dz_op_begin(v);
        if (rc)
            return rc;
        rc = dz_op_end(v, dz_chunks_delete_some(v, dz_chunk_id(ip->ino, 0), &more));
        if (!rc && more && dz_vfs_commit(v, &e) < 0)
            rc = dz_vfs_errno(v, &e);
    }
    if (!rc)
        rc = dz_op_begin(v);
    return rc ? rc : dz_op_end(v, delete_rows(v, ip));
}

/* After such an operation: remove the content that it kept. */
static void finish_burial(struct dz_vfs *v)
{
    struct dz_inode *ip = v->burial;
    v->burial = NULL;
    if (ip)
        dz_vfs_unref(v, ip->ino);
}

void dz_vfs_unref(struct dz_vfs *v, uint64_t ino)
{
    struct dz_inode *ip;
    if (dz_mount_enter(&v, &ino) || dz_iget(v, ino, &ip))
        return;
    assert(ip->refs > 0);
    if (ip->refs > 1 || ip->nlink > 0 || v->readonly) {
        ip->refs--;
        return;
    }
    dz_watch_links(v, DZ_VFS_EV_GONE, ip);
    int rc = bury(v, ip); /* still referenced, so that the inode stays in memory */
    ip->refs--;
    if (rc)
        return; /* the row stays in the file without a name, until dz_vfs_reap() */
    v->orphans--;
    dz_iforget(v, ip);
}

int dz_vfs_create_nameless(struct dz_vfs *v, uint64_t dir, const struct dz_vfs_new *spec,
                           uint64_t *ret_ino)
{
    struct dz_inode *ip;
    const uint64_t outside = dir;
    if (!S_ISREG(spec->mode))
        return -EINVAL;
    int rc = dz_mount_enter(&v, &dir);
    if (!rc)
        rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = dz_inew(v, spec->mode, &ip);
    if (!rc) {
        rc = dz_iset_data(v, ip, NULL, 0);
        if (rc)
            dz_iundo(v, ip);
    }
    if (rc)
        return dz_op_end(v, rc);
    ip->uid = spec->uid;
    ip->gid = spec->gid;
    ip->refs = 1;
    unlinked(v, ip);
    *ret_ino = dz_mount_like(outside, ip->ino);
    return dz_op_end(v, 0);
}

enum {
    REAP_BATCH = 256
};
static const char select_orphans[] = "SELECT ino FROM node WHERE nlink=0 AND ino>?1 ORDER BY ino";

void dz_dir_prepare(struct dz_db *db)
{
    (void)dz_db_stmt(db, select_orphans);
}

static int reap_batch(struct dz_vfs *v, uint64_t *after, size_t *ret_count, struct dz_err *err)
{
    uint64_t ino[REAP_BATCH];
    size_t n = 0;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(v->db, select_orphans);
    dz_bind_int(st, 1, (int64_t)*after);
    int r = 0;
    while (n < REAP_BATCH && (r = dz_stmt_step(st, err)) > 0)
        ino[n++] = (uint64_t)dz_col_int(st, 0);
    dz_stmt_reset(st);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        struct dz_inode *ip;
        int rc = dz_iget(v, ino[i], &ip);
        *after = ino[i];
        if (rc == 0 && ip->refs == 0 && ip->nlink == 0) {
            ip->refs++;
            rc = bury(v, ip);
            ip->refs--;
            if (!rc)
                dz_iforget(v, ip);
        }
        if (rc && rc != -ENOENT)
            return dz_fail(err, v->why.code ? v->why.code : DZ_EIO,
                           "remove what was unlinked while open: %s", v->why.msg);
    }
    *ret_count = n;
    return 0;
}

int dz_vfs_reap(struct dz_vfs *v, struct dz_err *err)
{
    uint64_t after = 0;
    size_t n = REAP_BATCH;
    int r = dz_mounts_each(v, dz_vfs_reap, err);
    if (!r && !v->readonly)
        r = dz_vfs_commit(v, err);
    while (!r && n == REAP_BATCH && !v->readonly && v->orphans_noted)
        r = reap_batch(v, &after, &n, err);
    return r ? r : dz_vfs_commit(v, err);
}

/* ---- unlink, rmdir ----------------------------------------------------------------------- */

/* The directory and the inode of a name that is to be removed. */
static int old_name(struct dz_vfs *v, const struct dz_vfs_name *n, struct dz_inode **ret_dir,
                    struct dz_inode **ret_ip)
{
    uint64_t ino;
    uint32_t type;
    int rc = dz_iget_dir(v, n->dir, ret_dir);
    if (!rc)
        rc = dz_name_check(n->name, n->len);
    if (rc == -EEXIST)
        return -EINVAL;
    if (!rc)
        rc = dz_name_find(v, *ret_dir, n->name, n->len, &ino, &type);
    if (!rc)
        rc = iget_named(v, ino, ret_ip);
    return rc;
}

static int remove_name(struct dz_vfs *v, const struct dz_vfs_name *n, struct dz_inode *dir,
                       struct dz_inode *ip)
{
    bool last = dz_is_dir(ip) || ip->nlink <= 1;
    int rc = dz_name_del(v, dir, n->name, n->len);
    if (!rc && last && ip->refs == 0 && !dz_chunks_many(v, ip, 0))
        rc = delete_rows(v, ip);
    if (rc)
        return rc;
    int64_t now = dz_now(v);
    if (!dz_is_dir(ip))
        dz_watch_links(v, DZ_VFS_EV_LINKS, ip);
    if (last && ip->refs == 0)
        dz_watch_links(v, DZ_VFS_EV_GONE, ip);
    notify(v, DZ_VFS_EV_REMOVE, n, ip, 0);
    dir->nlink -= dz_is_dir(ip);
    dir_changed(v, dir, now);
    dz_name_set(v, dir->ino, n->name, n->len, 0, 0);
    lose_name(v, ip, now);
    return 0;
}

int dz_vfs_unlink(struct dz_vfs *v, uint64_t dir, const char *name, size_t len)
{
    struct dz_vfs_name n = {dir, name, len};
    struct dz_inode *dp, *ip;
    int rc = dz_mount_enter(&v, &n.dir);
    if (!rc)
        rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = old_name(v, &n, &dp, &ip);
    if (!rc && dz_is_dir(ip))
        rc = -EISDIR;
    if (!rc)
        rc = remove_name(v, &n, dp, ip);
    rc = dz_op_end(v, rc);
    finish_burial(v);
    return rc;
}

static int check_rmdir(struct dz_vfs *v, struct dz_inode *ip)
{
    if (!dz_is_dir(ip))
        return -ENOTDIR;
    if (dz_ino_fixed(ip->ino) || dz_mount_point(v, ip->ino))
        return -EBUSY;
    int rc = dz_dir_occupied(v, ip); /* nlink is not asked: a directory with a wrong one could
                                      * never be removed */
    return rc > 0 ? -ENOTEMPTY : rc;
}

int dz_vfs_rmdir(struct dz_vfs *v, uint64_t dir, const char *name, size_t len)
{
    struct dz_vfs_name n = {dir, name, len};
    struct dz_inode *dp, *ip;
    if (len == 2 && memcmp(name, "..", 2) == 0)
        return -ENOTEMPTY;
    int rc = dz_mount_enter(&v, &n.dir);
    if (!rc)
        rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = old_name(v, &n, &dp, &ip);
    if (!rc)
        rc = check_rmdir(v, ip);
    if (!rc)
        rc = remove_name(v, &n, dp, ip);
    return dz_op_end(v, rc);
}

/* ---- removal of a tree ------------------------------------------------------------------- */

enum {
    BATCH = 64
};

struct victim {
    bool dir;
    size_t len;
    char name[DZ_VFS_NAME_MAX];
};

/* One directory that is being removed. Names before `after` are removed, except rows that hide
 * names of the image, which need not be looked at again. */
struct level {
    uint64_t ino;
    size_t after_len;
    char after[DZ_VFS_NAME_MAX];
};

struct removal {
    struct level *level;
    size_t depth, cap;
    struct victim victim[BATCH];
    size_t count;
};

static int collect(void *arg, const struct dz_vfs_entry *e)
{
    struct removal *r = arg;
    struct victim *n = &r->victim[r->count];
    n->dir = e->type == S_IFDIR;
    n->len = e->len;
    memcpy(n->name, e->name, e->len);
    return ++r->count == BATCH;
}

static int push_level(struct removal *r, uint64_t ino)
{
    if (r->depth == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 16;
        struct level *p = dz_realloc(r->level, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        r->level = p;
        r->cap = cap;
    }
    r->level[r->depth++] = (struct level){.ino = ino};
    return 0;
}

/* Descend into a directory, if its own row names this one as parent. Together with a way from the
 * top up to the root, that keeps a damaged disk from leading in circles. */
static int descend(struct dz_vfs *v, struct removal *r, const struct victim *n)
{
    uint64_t ino, here = r->level[r->depth - 1].ino;
    struct dz_inode *ip;
    int rc = dz_vfs_lookup(v, here, n->name, n->len, &ino);
    if (!rc)
        rc = dz_iget_dir(v, ino, &ip);
    if (!rc && ip->rdev != here)
        rc = -EIO;
    return rc ? rc : push_level(r, ino);
}

/* Remove the files of the batch; stop at the first directory that is not empty
 * and go into it. */
static int remove_batch(struct dz_vfs *v, struct removal *r)
{
    struct level *l = &r->level[r->depth - 1];
    for (size_t i = 0; i < r->count; i++) {
        const struct victim *n = &r->victim[i];
        int rc = n->dir ? dz_vfs_rmdir(v, l->ino, n->name, n->len)
                        : dz_vfs_unlink(v, l->ino, n->name, n->len);
        if (rc == -ENOTEMPTY)
            return descend(v, r, n);
        if (rc)
            return rc;
        memcpy(l->after, n->name, n->len);
        l->after_len = n->len;
    }
    return 0;
}

int dz_dir_empty(struct dz_vfs *v, uint64_t top)
{
    struct removal r = {0};
    int rc = dz_dir_below(v, top, DZ_VFS_ROOT);
    if (rc <= 0)
        return rc ? rc : -EIO;
    rc = push_level(&r, top);
    while (!rc && r.depth > 0) {
        struct level *l = &r.level[r.depth - 1];
        struct dz_inode *dir;
        r.count = 0;
        rc = dz_read_begin(v);
        if (!rc)
            rc = dz_iget_dir(v, l->ino, &dir);
        if (!rc)
            rc = dz_dir_scan(v, dir, l->after, l->after_len, collect, &r);
        if (rc < 0)
            break;
        rc = 0;
        if (r.count)
            rc = remove_batch(v, &r);
        else
            r.depth--; /* empty: its parent's next batch begins with it */
    }
    dz_free(r.level);
    return rc;
}

int dz_vfs_remove_tree(struct dz_vfs *v, uint64_t dir, const char *name, size_t len)
{
    uint64_t ino;
    struct dz_inode *ip;
    int rc = dz_mount_enter(&v, &dir);
    if (rc)
        return rc;
    if (v->readonly)
        return -EROFS;
    if (dz_name_check(name, len) == -EEXIST)
        return -EINVAL;
    rc = lookup(v, dir, name, len, &ino);
    if (!rc)
        rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    if (!dz_is_dir(ip))
        return dz_vfs_unlink(v, dir, name, len);
    if (dz_ino_fixed(ino))
        return -EBUSY;
    rc = dz_mount_below(v, ino);
    if (rc)
        return rc > 0 ? -EBUSY : rc;
    rc = dz_dir_empty(v, ino);
    return rc ? rc : dz_vfs_rmdir(v, dir, name, len);
}

int dz_vfs_clear(struct dz_vfs *v, uint64_t volume)
{
    if (v->readonly)
        return -EROFS;
    if (!dz_vfs_volume_name(volume))
        return -EINVAL;
    return dz_dir_empty(v, volume);
}

/* --- rename: move, replace, exchange ----------------------------------------------------- */

/* There is one tree, so a rename between volumes is like any other. One operation writes all names:
 * two rows for a move, two for an exchange, and the rows of an inode that lost its last name. */

/* Both ends of a rename. `there` is NULL when the new name is free. */
struct move {
    const struct dz_vfs_name *from, *to;
    struct dz_inode *from_dir, *to_dir, *what, *there;
};

static int find(struct dz_vfs *v, struct dz_inode *dir, const struct dz_vfs_name *n,
                struct dz_inode **ret_ip)
{
    uint64_t ino;
    uint32_t type;
    int rc = dz_name_find(v, dir, n->name, n->len, &ino, &type);
    if (rc)
        return rc;
    rc = dz_iget(v, ino, ret_ip);
    return rc == -ENOENT ? -EIO : rc;
}

static int find_ends(struct dz_vfs *v, struct move *m)
{
    int rc = dz_iget_dir(v, m->from->dir, &m->from_dir);
    if (!rc)
        rc = dz_iget_dir(v, m->to->dir, &m->to_dir);
    if (!rc)
        rc = dz_name_check(m->from->name, m->from->len);
    if (!rc)
        rc = dz_name_check(m->to->name, m->to->len);
    if (rc == -EEXIST)
        return -EBUSY; /* "." or "..", as Linux */
    if (!rc)
        rc = find(v, m->from_dir, m->from, &m->what);
    if (rc)
        return rc;
    m->there = NULL;
    rc = find(v, m->to_dir, m->to, &m->there);
    return rc == -ENOENT ? 0 : rc;
}

/* May the directory be moved into `dir`? Not into itself, and not too deep. A directory that keeps
 * its parent (leaves is false) needs no new place there. */
static int check_dir_move(struct dz_vfs *v, const struct dz_inode *what, const struct dz_inode *dir,
                          bool leaves)
{
    int rc = dz_dir_below(v, dir->ino, what->ino);
    if (rc)
        return rc < 0 ? rc : -EINVAL;
    return leaves ? check_subdir(v, dir) : 0;
}

static int check_replace(struct dz_vfs *v, const struct move *m)
{
    if (!dz_is_dir(m->there))
        return dz_is_dir(m->what) ? -ENOTDIR : 0;
    int rc = dz_dir_below(v, m->from_dir->ino, m->there->ino); /* before the types, as Linux */
    if (!rc && !dz_is_dir(m->what))
        return -EISDIR;
    if (!rc)
        rc = dz_dir_occupied(v, m->there);
    return rc > 0 ? -ENOTEMPTY : rc;
}

static int check(struct dz_vfs *v, const struct move *m, unsigned flags)
{
    bool leaves = m->from_dir != m->to_dir;
    int rc = 0;
    if (dz_ino_fixed(m->what->ino) || (m->there && dz_ino_fixed(m->there->ino)))
        return -EBUSY;
    if (dz_is_dir(m->what))
        rc = check_dir_move(v, m->what, m->to_dir, leaves);
    if (!rc && m->there && flags & RENAME_EXCHANGE && dz_is_dir(m->there))
        rc = check_dir_move(v, m->there, m->from_dir, leaves);
    else if (!rc && m->there && !(flags & RENAME_EXCHANGE))
        rc = check_replace(v, m);
    return rc;
}

static void notify_move(struct dz_vfs *v, const struct dz_vfs_name *from,
                        const struct dz_vfs_name *to, const struct dz_inode *ip)
{
    if (dz_likely(!v->watches))
        return;
    uint32_t cookie = dz_watch_cookie(v);
    notify(v, DZ_VFS_EV_MOVED_FROM, from, ip, cookie);
    notify(v, DZ_VFS_EV_MOVED_TO, to, ip, cookie);
}

/* ip now lies in `dir`: memory only; its rows go with the commit. */
static void moved(struct dz_vfs *v, struct dz_inode *ip, struct dz_inode *from, struct dz_inode *to,
                  int64_t now)
{
    ip->ctime_ns = now;
    ip->via = to->ino;
    if (dz_is_dir(ip)) {
        ip->rdev = to->ino;
        from->nlink--;
        to->nlink++;
    }
    dz_idirty(v, ip, DZ_DIRTY_ROW);
}

static int exchange(struct dz_vfs *v, const struct move *m)
{
    int rc = dz_name_put(v, m->to_dir, m->to->name, m->to->len, m->what->ino, m->what->mode >> 12);
    if (!rc)
        rc = dz_name_put(v, m->from_dir, m->from->name, m->from->len, m->there->ino,
                         m->there->mode >> 12);
    if (rc)
        return rc;
    int64_t now = dz_now(v);
    moved(v, m->what, m->from_dir, m->to_dir, now);
    moved(v, m->there, m->to_dir, m->from_dir, now);
    dir_changed(v, m->from_dir, now);
    dir_changed(v, m->to_dir, now);
    dz_name_set(v, m->to_dir->ino, m->to->name, m->to->len, m->what->ino, m->what->mode >> 12);
    dz_name_set(v, m->from_dir->ino, m->from->name, m->from->len, m->there->ino,
                m->there->mode >> 12);
    notify_move(v, m->from, m->to, m->what);
    notify_move(v, m->to, m->from, m->there);
    return 0;
}

static void notify_replaced(struct dz_vfs *v, const struct move *m)
{
    if (dz_likely(!v->watches))
        return;
    struct dz_vfs_event ev = name_event(DZ_VFS_EV_REMOVE, m->to, m->there);
    ev.replaced = true;
    dz_watch_name(v, &ev);
}

/* Take the new name away from the inode that had it. */
static void replaced(struct dz_vfs *v, const struct move *m, int64_t now)
{
    struct dz_inode *ip = m->there;
    dz_watch_links(v, DZ_VFS_EV_LINKS, ip);
    if ((dz_is_dir(ip) || ip->nlink <= 1) && ip->refs == 0)
        dz_watch_links(v, DZ_VFS_EV_GONE, ip);
    m->to_dir->nlink -= dz_is_dir(ip);
    lose_name(v, ip, now);
}

static int move(struct dz_vfs *v, const struct move *m)
{
    struct dz_inode *there = m->there;
    int rc = dz_name_put(v, m->to_dir, m->to->name, m->to->len, m->what->ino, m->what->mode >> 12);
    if (!rc)
        rc = dz_name_del(v, m->from_dir, m->from->name, m->from->len);
    if (!rc && there && (dz_is_dir(there) || there->nlink <= 1) && there->refs == 0 &&
        !dz_chunks_many(v, there, 0))
        rc = delete_rows(v, there);
    if (rc)
        return rc;
    int64_t now = dz_now(v);
    if (there)
        notify_replaced(v, m);
    notify_move(v, m->from, m->to, m->what);
    if (there)
        replaced(v, m, now);
    moved(v, m->what, m->from_dir, m->to_dir, now);
    dir_changed(v, m->from_dir, now);
    dir_changed(v, m->to_dir, now);
    dz_name_set(v, m->from_dir->ino, m->from->name, m->from->len, 0, 0);
    dz_name_set(v, m->to_dir->ino, m->to->name, m->to->len, m->what->ino, m->what->mode >> 12);
    return 0;
}

static int rename_in_op(struct dz_vfs *v, struct move *m, unsigned flags)
{
    int rc = find_ends(v, m);
    if (rc)
        return rc;
    if (m->there && flags & RENAME_NOREPLACE)
        return -EEXIST;
    if (!m->there && flags & RENAME_EXCHANGE)
        return -ENOENT;
    if (m->there == m->what)
        return 0;
    if (dz_mount_point(v, m->what->ino) || (m->there && dz_mount_point(v, m->there->ino)))
        return -EBUSY;
    rc = check(v, m, flags);
    if (rc)
        return rc;
    return flags & RENAME_EXCHANGE ? exchange(v, m) : move(v, m);
}

int dz_vfs_rename(struct dz_vfs *v, const struct dz_vfs_name *from, const struct dz_vfs_name *to,
                  unsigned flags)
{
    struct dz_vfs *there = v;
    struct dz_vfs_name old = *from, new = *to;
    struct move m = {.from = &old, .to = &new};
    if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE) ||
        flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
        return -EINVAL;
    int rc = dz_mount_enter(&v, &old.dir);
    if (!rc)
        rc = dz_mount_enter(&there, &new.dir);
    if (!rc && there != v)
        rc = -EXDEV;
    if (!rc)
        rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = dz_op_end(v, rename_in_op(v, &m, flags));
    finish_burial(v);
    return rc;
}
