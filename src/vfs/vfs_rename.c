/* SPDX-License-Identifier: MIT
 *
 * vfs_rename.c - rename: move, replace, exchange.
 *
 * One tree, so a rename between volumes is a rename like any other. All names are
 * written in one operation: two rows for a move, two for an exchange, and the
 * rows of an inode that lost its last name.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

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

/* May a directory come to lie in `dir`? Not in itself, and not too deep. */
static int check_dir_move(struct dz_vfs *v, const struct dz_inode *what, const struct dz_inode *dir,
                          bool leaves)
{
    size_t depth;
    int rc = dz_dir_below(v, dir->ino, what->ino);
    if (rc)
        return rc < 0 ? rc : -EINVAL;
    if (!leaves)
        return 0;
    if (dir->nlink >= DZ_VFS_LINK_MAX)
        return -EMLINK;
    rc = dz_dir_depth(v, dir->ino, &depth);
    return rc ? rc : depth >= DZ_VFS_DEPTH_MAX ? -ENAMETOOLONG : 0;
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

static void tell(struct dz_vfs *v, enum dz_vfs_event_type type, const struct dz_vfs_name *n,
                 const struct dz_inode *ip, uint32_t cookie)
{
    struct dz_vfs_event ev = {.type = type,
                              .cookie = cookie,
                              .dir = n->dir,
                              .ino = ip->ino,
                              .mode = ip->mode & S_IFMT,
                              .len = n->len};
    memcpy(ev.name, n->name, n->len);
    dz_watch_name(v, &ev);
}

static void tell_move(struct dz_vfs *v, const struct dz_vfs_name *from,
                      const struct dz_vfs_name *to, const struct dz_inode *ip)
{
    if (dz_likely(!v->watches))
        return;
    uint32_t cookie = dz_watch_cookie(v);
    tell(v, DZ_VFS_EV_MOVED_FROM, from, ip, cookie);
    tell(v, DZ_VFS_EV_MOVED_TO, to, ip, cookie);
}

/* ip now lies in `dir`: no rows, they go with the commit. */
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
    dz_dir_changed(v, m->from_dir, now);
    dz_dir_changed(v, m->to_dir, now);
    dz_name_set(v, m->to_dir->ino, m->to->name, m->to->len, m->what->ino, m->what->mode >> 12);
    dz_name_set(v, m->from_dir->ino, m->from->name, m->from->len, m->there->ino,
                m->there->mode >> 12);
    tell_move(v, m->from, m->to, m->what);
    tell_move(v, m->to, m->from, m->there);
    return 0;
}

/* The inode that the new name had loses it. */
static void replaced(struct dz_vfs *v, const struct move *m, int64_t now)
{
    struct dz_inode *ip = m->there;
    if (dz_unlikely(v->watches))
        tell(v, DZ_VFS_EV_REMOVE, m->to, ip, 0);
    m->to_dir->nlink -= dz_is_dir(ip);
    dz_inode_lose_name(v, ip, now);
}

static int move(struct dz_vfs *v, const struct move *m)
{
    struct dz_inode *there = m->there;
    int rc = dz_name_put(v, m->to_dir, m->to->name, m->to->len, m->what->ino, m->what->mode >> 12);
    if (!rc)
        rc = dz_name_del(v, m->from_dir, m->from->name, m->from->len);
    if (!rc && there && (dz_is_dir(there) || there->nlink <= 1) && there->refs == 0 &&
        !dz_chunks_many(v, there, 0))
        rc = dz_inode_delete_rows(v, there);
    if (rc)
        return rc;
    int64_t now = dz_now(v);
    if (there)
        replaced(v, m, now);
    moved(v, m->what, m->from_dir, m->to_dir, now);
    dz_dir_changed(v, m->from_dir, now);
    dz_dir_changed(v, m->to_dir, now);
    dz_name_set(v, m->from_dir->ino, m->from->name, m->from->len, 0, 0);
    dz_name_set(v, m->to_dir->ino, m->to->name, m->to->len, m->what->ino, m->what->mode >> 12);
    tell_move(v, m->from, m->to, m->what);
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
    rc = check(v, m, flags);
    if (rc)
        return rc;
    return flags & RENAME_EXCHANGE ? exchange(v, m) : move(v, m);
}

int dz_vfs_rename(struct dz_vfs *v, const struct dz_vfs_name *from, const struct dz_vfs_name *to,
                  unsigned flags)
{
    struct move m = {.from = from, .to = to};
    if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE) ||
        flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
        return -EINVAL;
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = dz_op_end(v, rename_in_op(v, &m, flags));
    dz_inode_bury(v);
    return rc;
}
