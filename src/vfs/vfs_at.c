/* SPDX-License-Identifier: MIT
 *
 * vfs_at.c - the *at family: a path, who asks, and the permission to do it.
 *
 * Nothing here touches a row: each call walks the path, checks, and calls the
 * inode operation, which checks everything else again.
 */
#include "vfs/vfs_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum how {
    FOLLOW,
    NOFOLLOW,
    NAME,   /* the call changes the last component itself */
    CREATE, /* as FOLLOW, and may make a file there */
    CREATE_NOFOLLOW,
};

static int walk(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at, enum how how,
                struct dz_vfs_walked *ret)
{
    const struct dz_vfs_walk req = {
        .root = who->root,
        .start = at.dir,
        .cred = &who->cred,
        .nofollow = how == NOFOLLOW || how == NAME || how == CREATE_NOFOLLOW,
        .keep_last = how == NAME,
        .create = how == CREATE || how == CREATE_NOFOLLOW,
    };
    return dz_vfs_walk(v, &req, at.path, ret);
}

static int resolve(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                   bool follow, uint64_t *ret_ino)
{
    struct dz_vfs_walked end;
    int rc = walk(v, who, at, follow ? FOLLOW : NOFOLLOW, &end);
    if (!rc && end.ino == 0)
        return -ENOENT;
    if (!rc)
        *ret_ino = end.ino;
    return rc;
}

/* ---- new names ---------------------------------------------------------------------------- */

/* The owner of what is made in dir: if dir has set-group-id, its group. */
static int owner(struct dz_vfs *v, const struct dz_vfs_who *who, uint64_t dir,
                 struct dz_vfs_new *spec)
{
    struct dz_vfs_attr a;
    int rc = dz_vfs_getattr(v, dir, &a);
    if (rc)
        return rc;
    spec->uid = who->cred.uid;
    spec->gid = a.mode & S_ISGID ? a.gid : who->cred.gid;
    if (a.mode & S_ISGID && S_ISDIR(spec->mode))
        spec->mode |= S_ISGID;
    return 0;
}

static int make(struct dz_vfs *v, const struct dz_vfs_who *who, const struct dz_vfs_walked *end,
                struct dz_vfs_new *spec, uint64_t *ret_ino)
{
    int rc = dz_vfs_access(v, end->dir, &who->cred, W_OK | X_OK);
    if (!rc)
        rc = owner(v, who, end->dir, spec);
    return rc ? rc : dz_vfs_create(v, end->dir, end->name, end->len, spec, ret_ino);
}

/* Walk to a name that must be free. */
static int walk_free(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                     bool dir, struct dz_vfs_walked *ret)
{
    int rc = walk(v, who, at, NAME, ret);
    if (!rc && (ret->ino || ret->dot))
        return -EEXIST;
    return !rc && ret->slash && !dir ? -ENOENT : rc;
}

int dz_vfs_mkdir_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                    uint32_t mode)
{
    struct dz_vfs_walked end;
    struct dz_vfs_new spec = {.mode = S_IFDIR | (mode & 01777 & ~who->umask)};
    int rc = walk_free(v, who, at, true, &end);
    return rc ? rc : make(v, who, &end, &spec, NULL);
}

int dz_vfs_mknod_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                    uint32_t mode, uint64_t rdev)
{
    struct dz_vfs_walked end;
    struct dz_vfs_new spec = {.mode = (mode & S_IFMT) | (mode & 07777 & ~who->umask), .rdev = rdev};
    if ((mode & S_IFMT) == 0)
        spec.mode |= S_IFREG;
    if (S_ISDIR(spec.mode) || S_ISLNK(spec.mode))
        return S_ISDIR(spec.mode) ? -EPERM : -EINVAL;
    if ((S_ISCHR(spec.mode) || S_ISBLK(spec.mode)) && !dz_vfs_cred_is_root(&who->cred))
        return -EPERM;
    int rc = walk_free(v, who, at, false, &end);
    return rc ? rc : make(v, who, &end, &spec, NULL);
}

int dz_vfs_symlink_at(struct dz_vfs *v, const struct dz_vfs_who *who, const char *target,
                      struct dz_vfs_path at)
{
    struct dz_vfs_walked end;
    struct dz_vfs_new spec = {.mode = S_IFLNK | 0777, .target = target};
    spec.target_len = strnlen(target, DZ_VFS_PATH_MAX);
    if (spec.target_len == 0)
        return -ENOENT;
    if (spec.target_len == DZ_VFS_PATH_MAX)
        return -ENAMETOOLONG;
    int rc = walk_free(v, who, at, false, &end);
    return rc ? rc : make(v, who, &end, &spec, NULL);
}

int dz_vfs_link_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path from,
                   struct dz_vfs_path to, bool follow)
{
    struct dz_vfs_walked end;
    struct dz_vfs_attr a;
    uint64_t ino;
    int rc = resolve(v, who, from, follow, &ino);
    if (!rc)
        rc = dz_vfs_getattr(v, ino, &a);
    if (!rc)
        rc = walk_free(v, who, to, false, &end);
    if (!rc && S_ISDIR(a.mode))
        rc = -EPERM;
    if (!rc)
        rc = dz_vfs_access(v, end.dir, &who->cred, W_OK | X_OK);
    return rc ? rc : dz_vfs_link(v, ino, end.dir, end.name, end.len);
}

/* ---- open ---------------------------------------------------------------------------------- */

static int open_new(struct dz_vfs *v, const struct dz_vfs_who *who, const struct dz_vfs_walked *end,
                    int flags, uint32_t mode, uint64_t *ret_ino)
{
    struct dz_vfs_new spec = {.mode = S_IFREG | (mode & 07777 & ~who->umask)};
    if (!(flags & O_CREAT))
        return -ENOENT;
    return make(v, who, end, &spec, ret_ino);
}

static int want_of(int flags)
{
    int want = (flags & O_ACCMODE) == O_RDONLY   ? R_OK
               : (flags & O_ACCMODE) == O_WRONLY ? W_OK
                                                 : R_OK | W_OK;
    return flags & O_TRUNC ? want | W_OK : want;
}

/* May this inode be opened in this way? */
static int check_open(struct dz_vfs *v, const struct dz_vfs_who *who, const struct dz_vfs_attr *a,
                      int flags)
{
    if (flags & O_CREAT && flags & O_EXCL)
        return -EEXIST;
    if (flags & O_DIRECTORY && !S_ISDIR(a->mode))
        return -ENOTDIR;
    if (flags & O_PATH)
        return 0;
    if (S_ISLNK(a->mode))
        return -ELOOP;
    if (S_ISDIR(a->mode) && (flags & O_CREAT || want_of(flags) & W_OK))
        return -EISDIR;
    if (S_ISSOCK(a->mode))
        return -ENXIO;
    if (flags & O_NOATIME && !dz_vfs_cred_is_root(&who->cred) && who->cred.uid != a->uid)
        return -EPERM;
    return dz_vfs_access(v, a->ino, &who->cred, want_of(flags));
}

static int open_old(struct dz_vfs *v, const struct dz_vfs_who *who, uint64_t ino, int flags)
{
    struct dz_vfs_attr a;
    int rc = dz_vfs_getattr(v, ino, &a);
    if (!rc)
        rc = check_open(v, who, &a, flags);
    if (rc || !(flags & O_TRUNC) || flags & O_PATH || !S_ISREG(a.mode))
        return rc;
    a.size = 0;
    return dz_vfs_setattr(v, ino, DZ_VFS_SET_SIZE, &a);
}

static int open_nameless(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                         int flags, uint32_t mode, uint64_t *ret_ino)
{
    struct dz_vfs_new spec = {.mode = S_IFREG | (mode & 07777 & ~who->umask)};
    struct dz_vfs_attr a;
    uint64_t dir;
    if (!(want_of(flags) & W_OK))
        return -EINVAL;
    int rc = resolve(v, who, at, true, &dir);
    if (!rc)
        rc = dz_vfs_getattr(v, dir, &a);
    if (!rc && !S_ISDIR(a.mode))
        rc = -ENOTDIR;
    if (!rc)
        rc = dz_vfs_access(v, dir, &who->cred, W_OK | X_OK);
    if (!rc)
        rc = owner(v, who, dir, &spec);
    return rc ? rc : dz_vfs_create_nameless(v, &spec, ret_ino);
}

int dz_vfs_open_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at, int flags,
                   uint32_t mode, uint64_t *ret_ino)
{
    struct dz_vfs_walked end;
    if (flags & O_PATH)
        flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW;
    if ((flags & O_TMPFILE) == O_TMPFILE)
        return open_nameless(v, who, at, flags, mode, ret_ino);
    if (flags & O_CREAT && flags & O_DIRECTORY)
        return -EINVAL;
    bool keep = flags & O_NOFOLLOW || (flags & O_CREAT && flags & O_EXCL);
    enum how how = flags & O_CREAT ? keep ? CREATE_NOFOLLOW : CREATE : keep ? NOFOLLOW : FOLLOW;
    int rc = walk(v, who, at, how, &end);
    if (rc)
        return rc;
    if (end.ino == 0)
        rc = open_new(v, who, &end, flags, mode, &end.ino);
    else
        rc = open_old(v, who, end.ino, flags);
    if (!rc)
        rc = dz_vfs_ref(v, end.ino);
    if (!rc)
        *ret_ino = end.ino;
    return rc;
}

/* ---- names that go ----------------------------------------------------------------------------
 */

/* A slash behind a name asks for a directory. */
static int only_dir(struct dz_vfs *v, uint64_t ino)
{
    struct dz_vfs_attr a;
    int rc = dz_vfs_getattr(v, ino, &a);
    return rc ? rc : S_ISDIR(a.mode) ? 0 : -ENOTDIR;
}

int dz_vfs_unlink_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at)
{
    struct dz_vfs_walked end;
    int rc = walk(v, who, at, NAME, &end);
    if (rc)
        return rc;
    if (end.dot)
        return -EISDIR;
    if (end.ino == 0)
        return -ENOENT;
    rc = end.slash ? only_dir(v, end.ino) : 0;
    if (!rc)
        rc = dz_vfs_may_remove(v, end.dir, end.ino, &who->cred);
    return rc ? rc : dz_vfs_unlink(v, end.dir, end.name, end.len);
}

int dz_vfs_rmdir_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at)
{
    struct dz_vfs_walked end;
    int rc = walk(v, who, at, NAME, &end);
    if (rc)
        return rc;
    if (end.dot)
        return end.len == 0 ? -EBUSY : end.len == 1 ? -EINVAL : -ENOTEMPTY;
    if (end.ino == 0)
        return -ENOENT;
    rc = dz_vfs_may_remove(v, end.dir, end.ino, &who->cred);
    return rc ? rc : dz_vfs_rmdir(v, end.dir, end.name, end.len);
}

/* The permission side of a rename. A directory that changes its parent is written to. */
static int may_rename(struct dz_vfs *v, const struct dz_vfs_who *who,
                      const struct dz_vfs_walked *from, const struct dz_vfs_walked *to)
{
    struct dz_vfs_attr a;
    int rc = dz_vfs_may_remove(v, from->dir, from->ino, &who->cred);
    if (!rc)
        rc = to->ino ? dz_vfs_may_remove(v, to->dir, to->ino, &who->cred)
                     : dz_vfs_access(v, to->dir, &who->cred, W_OK | X_OK);
    if (!rc)
        rc = dz_vfs_getattr(v, from->ino, &a);
    if (!rc && S_ISDIR(a.mode) && from->dir != to->dir)
        rc = dz_vfs_access(v, from->ino, &who->cred, W_OK);
    return rc;
}

/* What Linux looks at before permission, in its order. */
static int check_names(struct dz_vfs *v, const struct dz_vfs_walked *from,
                       const struct dz_vfs_walked *to, unsigned flags)
{
    bool exchange = flags & RENAME_EXCHANGE;
    if (flags > RENAME_EXCHANGE || flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
        return -EINVAL;
    if (from->dot)
        return -EBUSY;
    if (to->dot)
        return flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
    if (from->ino == 0)
        return -ENOENT;
    if (flags & RENAME_NOREPLACE && to->ino)
        return -EEXIST;
    if (exchange && to->ino == 0)
        return -ENOENT;
    int rc = exchange && to->slash ? only_dir(v, to->ino) : 0;
    if (!rc && (from->slash || (to->slash && !exchange)))
        rc = only_dir(v, from->ino);
    return rc;
}

int dz_vfs_rename_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path from,
                     struct dz_vfs_path to, unsigned flags)
{
    struct dz_vfs_walked a, b;
    int rc = walk(v, who, from, NAME, &a);
    if (!rc)
        rc = walk(v, who, to, NAME, &b);
    if (rc)
        return rc;
    rc = check_names(v, &a, &b, flags);
    if (!rc)
        rc = may_rename(v, who, &a, &b);
    if (rc)
        return rc;
    const struct dz_vfs_name old = {a.dir, a.name, a.len}, new = {b.dir, b.name, b.len};
    return dz_vfs_rename(v, &old, &new, flags);
}

/* ---- attributes
 * ----------------------------------------------------------------------------------- */

int dz_vfs_stat_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                   bool follow, struct dz_vfs_attr *ret_attr)
{
    uint64_t ino;
    int rc = resolve(v, who, at, follow, &ino);
    return rc ? rc : dz_vfs_getattr(v, ino, ret_attr);
}

int dz_vfs_access_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                     bool follow, int mask)
{
    uint64_t ino;
    int rc = resolve(v, who, at, follow, &ino);
    return rc ? rc : dz_vfs_access(v, ino, &who->cred, mask);
}

int dz_vfs_readlink_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                       char *buf, size_t size)
{
    uint64_t ino;
    int rc = resolve(v, who, at, false, &ino);
    return rc ? rc : dz_vfs_readlink(v, ino, buf, size);
}

int dz_vfs_truncate_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                       uint64_t size)
{
    struct dz_vfs_attr a = {.size = size};
    uint64_t ino;
    int rc = resolve(v, who, at, true, &ino);
    if (!rc)
        rc = dz_vfs_access(v, ino, &who->cred, W_OK);
    return rc ? rc : dz_vfs_setattr(v, ino, DZ_VFS_SET_SIZE, &a);
}

static bool is_owner(const struct dz_vfs_who *who, const struct dz_vfs_attr *a)
{
    return dz_vfs_cred_is_root(&who->cred) || who->cred.uid == a->uid;
}

static bool member(const struct dz_vfs_who *who, uint32_t gid)
{
    bool is = dz_vfs_cred_is_root(&who->cred) || who->cred.gid == gid;
    for (uint32_t i = 0; i < who->cred.group_count && !is; i++)
        is = who->cred.groups[i] == gid;
    return is;
}

int dz_vfs_chmod(struct dz_vfs *v, const struct dz_vfs_who *who, uint64_t ino, uint32_t mode)
{
    struct dz_vfs_attr a;
    int rc = dz_vfs_getattr(v, ino, &a);
    if (rc)
        return rc;
    if (S_ISLNK(a.mode))
        return -EOPNOTSUPP;
    if (!is_owner(who, &a))
        return -EPERM;
    a.mode = mode & 07777;
    if (!member(who, a.gid))
        a.mode &= ~(uint32_t)S_ISGID;
    return dz_vfs_setattr(v, ino, DZ_VFS_SET_MODE, &a);
}

int dz_vfs_chown(struct dz_vfs *v, const struct dz_vfs_who *who, uint64_t ino, uint32_t uid,
                 uint32_t gid)
{
    struct dz_vfs_attr a;
    unsigned mask = 0;
    int rc = dz_vfs_getattr(v, ino, &a);
    if (rc)
        return rc;
    bool new_uid = uid != UINT32_MAX && uid != a.uid, new_gid = gid != UINT32_MAX && gid != a.gid;
    if (!dz_vfs_cred_is_root(&who->cred) &&
        (new_uid || (new_gid && !member(who, gid)) || !is_owner(who, &a)))
        return -EPERM;
    if (uid != UINT32_MAX) {
        a.uid = uid;
        mask |= DZ_VFS_SET_UID;
    }
    if (gid != UINT32_MAX) {
        a.gid = gid;
        mask |= DZ_VFS_SET_GID;
    }
    if (S_ISREG(a.mode) && a.mode & (S_ISUID | S_ISGID)) {
        a.mode &= a.mode & S_IXGRP ? ~(uint32_t)(S_ISUID | S_ISGID) : ~(uint32_t)S_ISUID;
        mask |= DZ_VFS_SET_MODE;
    }
    return mask ? dz_vfs_setattr(v, ino, mask, &a) : 0;
}

int dz_vfs_utimes(struct dz_vfs *v, const struct dz_vfs_who *who, uint64_t ino, int64_t atime,
                  int64_t mtime)
{
    struct dz_vfs_attr a;
    unsigned mask = 0;
    int rc = dz_vfs_getattr(v, ino, &a);
    if (rc || (atime == DZ_VFS_TIME_OMIT && mtime == DZ_VFS_TIME_OMIT))
        return rc;
    bool now = atime == DZ_VFS_TIME_NOW && mtime == DZ_VFS_TIME_NOW;
    if (!is_owner(who, &a)) {
        rc = now ? dz_vfs_access(v, ino, &who->cred, W_OK) : -EPERM;
        if (rc)
            return rc;
    }
    int64_t clock = dz_vfs_now(v);
    if (atime != DZ_VFS_TIME_OMIT) {
        a.atime_ns = atime == DZ_VFS_TIME_NOW ? clock : atime;
        mask |= DZ_VFS_SET_ATIME;
    }
    if (mtime != DZ_VFS_TIME_OMIT) {
        a.mtime_ns = mtime == DZ_VFS_TIME_NOW ? clock : mtime;
        mask |= DZ_VFS_SET_MTIME;
    }
    return dz_vfs_setattr(v, ino, mask, &a);
}

int dz_vfs_chmod_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                    uint32_t mode)
{
    uint64_t ino;
    int rc = resolve(v, who, at, true, &ino);
    return rc ? rc : dz_vfs_chmod(v, who, ino, mode);
}

int dz_vfs_chown_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                    const struct dz_vfs_attr *own, bool follow)
{
    uint64_t ino;
    int rc = resolve(v, who, at, follow, &ino);
    return rc ? rc : dz_vfs_chown(v, who, ino, own->uid, own->gid);
}

int dz_vfs_utimes_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                     const struct dz_vfs_attr *times, bool follow)
{
    uint64_t ino;
    int rc = resolve(v, who, at, follow, &ino);
    return rc ? rc : dz_vfs_utimes(v, who, ino, times->atime_ns, times->mtime_ns);
}
