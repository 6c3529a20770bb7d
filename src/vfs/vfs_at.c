/* SPDX-License-Identifier: MIT
 *
 * vfs_at.c - paths: permission, the walk from a path to an inode, and the *at family of calls.
 *
 * The walk is one loop over components. A symbolic link puts its target in front of what is left
 * of the path, so nothing recurses, and 40 links bound the whole walk:
 *
 *     rest   "a/link/b"   at a:     "link/b"
 *                         at link:  "target/of/link" + "/b"
 *
 * "/" and ".." never lead above the walk's root: ".." there is the root itself.
 *
 * The calls touch no row. Each walks the path, checks the caller's permission, and calls the inode
 * operation, which checks everything else again.
 */
#include "vfs/vfs_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vfs/vfs_int.h"

/* ---- permission -------------------------------------------------------------------------- */

static bool in_group(const struct dz_vfs_cred *cred, uint32_t gid)
{
    if (cred->gid == gid)
        return true;
    for (uint32_t i = 0; i < cred->group_count; i++)
        if (cred->groups[i] == gid)
            return true;
    return false;
}

/* May be written to on a file system that is mounted read-only. */
static bool is_special(uint32_t mode)
{
    return S_ISFIFO(mode) || S_ISSOCK(mode) || S_ISCHR(mode) || S_ISBLK(mode);
}

int dz_vfs_access(struct dz_vfs *v, uint64_t ino, const struct dz_vfs_cred *cred, int mask)
{
    struct dz_inode *ip;
    int rc = dz_mount_enter(&v, &ino);
    if (!rc)
        rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    if (mask & W_OK && v->is_mounted && v->readonly && !is_special(ip->mode))
        return -EROFS;
    unsigned want = (unsigned)mask & 7; /* R_OK 4, W_OK 2, X_OK 1, as the mode's bits */
    if (!cred || dz_vfs_cred_is_root(cred))
        return want & X_OK && !dz_is_dir(ip) && !(ip->mode & 0111) ? -EACCES : 0;
    unsigned shift = cred->uid == ip->uid ? 6 : in_group(cred, ip->gid) ? 3 : 0;
    return (ip->mode >> shift & want) == want ? 0 : -EACCES;
}

/* May cred remove or rename ino out of dir: W and X on dir, and the sticky bit. */
static int may_remove(struct dz_vfs *v, uint64_t dir, uint64_t ino, const struct dz_vfs_cred *cred)
{
    struct dz_inode *dp, *ip;
    int rc = dz_vfs_access(v, dir, cred, W_OK | X_OK);
    if (!rc)
        rc = dz_iget_any(v, dir, &dp);
    if (!rc)
        rc = dz_iget_any(v, ino, &ip);
    if (rc || !cred || dz_vfs_cred_is_root(cred) || !(dp->mode & S_ISVTX))
        return rc;
    return cred->uid == ip->uid || cred->uid == dp->uid ? 0 : -EPERM;
}

/* ---- the walk ----------------------------------------------------------------------------- */

struct walker {
    struct dz_vfs *v;
    const struct dz_vfs_walk *req;
    uint64_t cur; /* a directory */
    size_t at, links;
    char rest[2 * DZ_VFS_PATH_MAX]; /* the rest of the path begins at `at` */
};

/* The next component of the path. last: it is the last one; slash: a slash follows it. */
struct component {
    const char *name;
    size_t len;
    bool last, slash;
};

static struct component next(struct walker *w)
{
    struct component c = {0};
    w->at += strspn(w->rest + w->at, "/");
    c.name = w->rest + w->at;
    c.len = strcspn(c.name, "/");
    w->at += c.len;
    size_t slashes = strspn(w->rest + w->at, "/");
    c.slash = slashes > 0;
    c.last = w->rest[w->at + slashes] == '\0';
    return c;
}

static int follow(struct walker *w, uint64_t link)
{
    DZ_UNINIT char target[DZ_VFS_PATH_MAX];
    if (++w->links > DZ_VFS_SYMLINK_MAX)
        return -ELOOP;
    int len = dz_vfs_readlink(w->v, link, target, sizeof target);
    if (len < 0)
        return len;
    size_t left = strlen(w->rest + w->at);
    if ((size_t)len + left >= sizeof w->rest)
        return -ENAMETOOLONG;
    memmove(w->rest + len, w->rest + w->at, left + 1);
    memcpy(w->rest, target, (size_t)len);
    w->at = 0;
    if (w->rest[0] == '/')
        w->cur = w->req->root;
    return 0;
}

static int up(struct walker *w)
{
    return w->cur == w->req->root ? 0 : dz_mount_up(w->v, w->cur, &w->cur);
}

static bool is_dots(const struct component *c)
{
    return c->len <= 2 && memcmp(c->name, "..", c->len) == 0;
}

static int finish(const struct walker *w, const struct component *c, uint64_t ino, bool dot,
                  struct dz_vfs_walked *ret)
{
    ret->dir = w->cur;
    ret->ino = ino;
    ret->slash = c->slash;
    ret->dot = dot;
    ret->len = c->len;
    memcpy(ret->name, c->name, c->len);
    ret->name[c->len] = '\0';
    return 0;
}

/* Walk one component. 1: the walk continues; 0: *ret is filled. */
static int step(struct walker *w, struct dz_vfs_walked *ret)
{
    struct dz_inode *ip;
    uint64_t ino;
    struct component c = next(w);
    struct dz_vfs *in = w->v;
    uint64_t dir = w->cur;
    int rc = dz_mount_enter(&in, &dir);
    if (!rc)
        rc = dz_iget_dir(in, dir, &ip);
    if (!rc && c.len)
        rc = dz_vfs_access(w->v, w->cur, w->req->cred, X_OK);
    if (rc)
        return rc;
    if (is_dots(&c)) {
        rc = c.len == 2 ? up(w) : 0;
        return rc ? rc : c.last ? finish(w, &c, w->cur, true, ret) : 1;
    }
    if (c.last && c.slash && w->req->create)
        return -EISDIR;
    if (c.len > DZ_VFS_NAME_MAX)
        return -ENAMETOOLONG;
    rc = dz_vfs_lookup(w->v, w->cur, c.name, c.len, &ino);
    if (rc == -ENOENT && c.last)
        return finish(w, &c, 0, false, ret);
    if (!rc)
        rc = dz_iget_any(w->v, ino, &ip);
    if (rc)
        return rc;
    bool keep = w->req->keep_last || (w->req->nofollow && !c.slash);
    if (S_ISLNK(ip->mode) && !(c.last && keep)) {
        rc = follow(w, ino);
        return rc ? rc : 1;
    }
    if ((!c.last || (c.slash && !w->req->keep_last)) && !dz_is_dir(ip))
        return -ENOTDIR;
    if (c.last)
        return finish(w, &c, ino, false, ret);
    w->cur = ino;
    return 1;
}

int dz_vfs_walk(struct dz_vfs *v, const struct dz_vfs_walk *req, const char *path,
                struct dz_vfs_walked *ret_walked)
{
    DZ_UNINIT struct walker w;
    size_t len = strnlen(path, DZ_VFS_PATH_MAX);
    if (len == 0)
        return -ENOENT;
    if (len == DZ_VFS_PATH_MAX)
        return -ENAMETOOLONG;
    int rc = dz_read_begin(v);
    if (rc)
        return rc;
    w.v = v;
    w.req = req;
    w.cur = path[0] == '/' ? req->root : req->start;
    w.at = w.links = 0;
    memcpy(w.rest, path, len + 1);
    do
        rc = step(&w, ret_walked);
    while (rc > 0);
    return rc;
}

int dz_vfs_resolve(struct dz_vfs *v, const char *path, uint64_t *ret_ino)
{
    const struct dz_vfs_walk req = {.root = DZ_VFS_ROOT, .start = DZ_VFS_ROOT};
    struct dz_vfs_walked end;
    int rc = dz_vfs_walk(v, &req, path, &end);
    if (!rc && end.ino == 0)
        rc = -ENOENT;
    if (!rc)
        *ret_ino = end.ino;
    return rc;
}

/* ---- calls: the path ---------------------------------------------------------------------- */

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

/* The owner of a new inode in dir: the caller, and dir's group if dir has set-group-id. */
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
    return rc ? rc : dz_vfs_create_nameless(v, dir, &spec, ret_ino);
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

/* ---- names that go ----------------------------------------------------------------------- */

/* A slash behind a name requires a directory. */
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
        rc = may_remove(v, end.dir, end.ino, &who->cred);
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
    rc = may_remove(v, end.dir, end.ino, &who->cred);
    return rc ? rc : dz_vfs_rmdir(v, end.dir, end.name, end.len);
}

/* The permission side of a rename. A directory that changes its parent is written to. */
static int may_rename(struct dz_vfs *v, const struct dz_vfs_who *who,
                      const struct dz_vfs_walked *from, const struct dz_vfs_walked *to)
{
    struct dz_vfs_attr a;
    int rc = may_remove(v, from->dir, from->ino, &who->cred);
    if (!rc)
        rc = to->ino ? may_remove(v, to->dir, to->ino, &who->cred)
                     : dz_vfs_access(v, to->dir, &who->cred, W_OK | X_OK);
    if (!rc)
        rc = dz_vfs_getattr(v, from->ino, &a);
    if (!rc && S_ISDIR(a.mode) && from->dir != to->dir)
        rc = dz_vfs_access(v, from->ino, &who->cred, W_OK);
    return rc;
}

/* The checks that Linux makes before those of permission, in its order. */
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

/* ---- attributes -------------------------------------------------------------------------- */

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
    return dz_vfs_cred_is_root(&who->cred) || in_group(&who->cred, gid);
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
    int64_t clock = dz_now(v);
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
