/* SPDX-License-Identifier: MIT
 *
 * vfs_path.c - from a path to an inode.
 *
 * One loop over components; a symbolic link puts its target in front of what is
 * left of the path. Nothing recurses, and 40 links bound the whole walk. "/" and
 * ".." never lead above the walk's root: ".." there is the root itself.
 */
#include "vfs/vfs_int.h"

#include <string.h>
#include <unistd.h>

struct walker {
    struct dz_vfs *v;
    const struct dz_vfs_walk *req;
    uint64_t cur; /* a directory */
    size_t at, links;
    char rest[2 * DZ_VFS_PATH_MAX]; /* what is left begins at `at` */
};

/* The next component. last: none follows; slash: but a slash does. */
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
    struct dz_inode *ip;
    if (w->cur == w->req->root)
        return 0;
    int rc = dz_iget_dir(w->v, w->cur, &ip);
    if (!rc)
        w->cur = ip->rdev;
    return rc;
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

/* One component. 1: the walk goes on; 0: *ret is filled. */
static int step(struct walker *w, struct dz_vfs_walked *ret)
{
    struct dz_inode *ip;
    uint64_t ino;
    struct component c = next(w);
    int rc = dz_iget_dir(w->v, w->cur, &ip);
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
        rc = dz_iget(w->v, ino, &ip);
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
