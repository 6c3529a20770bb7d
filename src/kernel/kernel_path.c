/* SPDX-License-Identifier: MIT
 *
 * kernel_path.c - from a path to a node, over the disk and what is mounted on it.
 *
 * The disk knows nothing of /proc and /dev, so the kernel walks itself, one
 * component at a time: a directory of the disk that is covered by one of ours
 * becomes the top of that; ".." at such a top is the parent of what it covers.
 * Links of /proc that lead to a node (cwd, exe, root) are followed to the node,
 * all others by their text. The walk never goes above the process's root, nor,
 * with DZ_AT_BENEATH, above the directory it began in.
 *
 * Bounds: PATH_MAX for each text, DZ_VFS_SYMLINK_MAX links.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A walk under way. rest points into the last PATH_MAX bytes of buf. */
struct walker {
    struct dz_kernel *k;
    struct dz_proc *p;
    struct dz_vfs_who who;
    struct dz_node at, base; /* base: DZ_AT_BENEATH may not leave it */
    int flags;
    int links;
    char *rest;
    char buf[DZ_VFS_PATH_MAX];
    char link[DZ_VFS_PATH_MAX];
};

static bool same(const struct dz_node *a, const struct dz_node *b)
{
    return a->ino == b->ino && a->fs == b->fs;
}

/* The node as walks see it: the top of what is mounted there, if something is. */
static struct dz_node uncover(const struct dz_kernel *k, struct dz_node n)
{
    if (n.fs == DZ_KERNEL_FS_DISK && n.ino != 0) {
        if (n.ino == k->mount[DZ_K_PROC_MOUNT])
            return (struct dz_node){.ino = DZ_K_SYNTH_ROOT, .fs = DZ_KERNEL_FS_PROC};
        if (n.ino == k->mount[DZ_K_DEV_MOUNT])
            return (struct dz_node){.ino = DZ_K_SYNTH_ROOT, .fs = DZ_KERNEL_FS_DEV};
    }
    return n;
}

static int mode_of(struct walker *w, const struct dz_node *n, uint32_t *ret_mode)
{
    struct dz_vfs_attr a;
    struct dz_kstat st;
    if (n->fs == DZ_KERNEL_FS_DISK) {
        int e = dz_vfs_getattr(w->k->vfs, n->ino, &a);
        if (!e)
            *ret_mode = a.mode;
        return e;
    }
    int e = dz_k_fs_of(n->fs)->stat(w->k, w->p, n->ino, &st);
    if (!e)
        *ret_mode = st.mode;
    return e;
}

static int parent_of(struct walker *w, struct dz_node *ret)
{
    if (same(&w->at, &w->p->root)) {
        *ret = w->at;
        return w->flags & DZ_AT_BENEATH ? -EPERM : 0;
    }
    if ((w->flags & DZ_AT_BENEATH) && same(&w->at, &w->base))
        return -EPERM;
    if (w->at.fs != DZ_KERNEL_FS_DISK && w->at.ino == DZ_K_SYNTH_ROOT) {
        *ret = (struct dz_node){.ino = DZ_VFS_ROOT};
        return 0;
    }
    ret->fs = w->at.fs;
    if (w->at.fs != DZ_KERNEL_FS_DISK) {
        ret->ino = dz_k_fs_of(w->at.fs)->parent(w->at.ino);
        return 0;
    }
    return dz_vfs_lookup(w->k->vfs, w->at.ino, "..", 2, &ret->ino);
}

/* The entry `name` of the directory w->at. */
static int enter(struct walker *w, const char *name, size_t len, struct dz_node *ret)
{
    uint32_t mode = 0;
    int e = mode_of(w, &w->at, &mode);
    if (e)
        return e;
    if (!S_ISDIR(mode))
        return -ENOTDIR;
    if (w->at.fs == DZ_KERNEL_FS_DISK) {
        e = dz_vfs_access(w->k->vfs, w->at.ino, &w->who.cred, X_OK);
        if (e)
            return e;
    }
    if (len == 1 && name[0] == '.') {
        *ret = w->at;
        return 0;
    }
    if (len == 2 && name[0] == '.' && name[1] == '.')
        return parent_of(w, ret);
    ret->fs = w->at.fs;
    if (w->at.fs != DZ_KERNEL_FS_DISK)
        return dz_k_fs_of(w->at.fs)->lookup(w->k, w->p, w->at.ino, name, len, &ret->ino);
    e = dz_vfs_lookup(w->k->vfs, w->at.ino, name, len, &ret->ino);
    if (!e)
        *ret = uncover(w->k, *ret);
    return e;
}

/* Put a link's text before what is left of the path. */
static int put_before(struct walker *w, const struct dz_node *link)
{
    int64_t n;
    if (link->fs == DZ_KERNEL_FS_DISK)
        n = dz_vfs_readlink(w->k->vfs, link->ino, w->link, sizeof w->link);
    else
        n = dz_k_fs_of(link->fs)->readlink(w->k, w->p, link->ino, w->link, sizeof w->link);
    if (n < 0)
        return (int)n;
    size_t room = (size_t)(w->rest - w->buf);
    if (n == 0)
        return -ENOENT;
    if ((size_t)n > room)
        return -ENAMETOOLONG;
    w->rest -= n;
    memcpy(w->rest, w->link, (size_t)n);
    if (*w->rest != '/')
        return 0;
    if ((w->flags & DZ_AT_BENEATH) && !same(&w->base, &w->p->root))
        return -EPERM;
    w->at = w->p->root;
    return 0;
}

static int follow(struct walker *w, const struct dz_node *link)
{
    struct dz_node to;
    if (++w->links > DZ_VFS_SYMLINK_MAX)
        return -ELOOP;
    const struct dz_k_fs *fs = link->fs == DZ_KERNEL_FS_DISK ? NULL : dz_k_fs_of(link->fs);
    if (fs && fs->follow && fs->follow(w->k, w->p, link->ino, &to) == 0) {
        if (w->flags & DZ_AT_BENEATH)
            return -EPERM;
        w->at = to;
        return 0;
    }
    return put_before(w, link);
}

bool dz_kernel_is_root(struct dz_kernel *k, struct dz_proc *p, int fd)
{
    const struct dz_file *f = dz_k_fd_file(k, p, fd);
    return f && same(&f->node, &p->root);
}

/* A descriptor's directory, or its own node when there is no path. */
static int start(struct walker *w, struct dz_at at)
{
    if (at.path && at.path[0] == '/') {
        w->at = w->p->root;
        return at.flags & DZ_AT_BENEATH ? -EPERM : 0;
    }
    if (at.dirfd == AT_FDCWD) {
        w->at = w->p->cwd;
        return 0;
    }
    const struct dz_file *f = dz_k_fd_file(w->k, w->p, at.dirfd);
    if (!f)
        return -EBADF;
    w->at = f->node;
    return f->node.ino == 0 || (f->kind != DZ_FILE_DISK && f->kind != DZ_FILE_DIR) ? -ENOTDIR : 0;
}

/* One component; *ret_done when it was the last. */
static int step(struct walker *w, struct dz_k_walk *r, bool *ret_done)
{
    char *s = w->rest + strspn(w->rest, "/");
    size_t len = strcspn(s, "/");
    const char *after = s + len;
    bool last = after[strspn(after, "/")] == '\0';
    if (len == 0) { /* "/", or a magic link at the end */
        *r = (struct dz_k_walk){.dir = w->at, .node = w->at, .dot = true};
        *ret_done = true;
        return 0;
    }
    if (len > DZ_VFS_NAME_MAX)
        return -ENAMETOOLONG;
    w->rest = s + len;
    struct dz_node n = {0};
    int e = enter(w, s, len, &n);
    if (e && !(e == -ENOENT && last))
        return e;
    bool slash = last && *after == '/';
    uint32_t mode = 0;
    if (!e && (e = mode_of(w, &n, &mode)) != 0)
        return e;
    bool keep = last && (w->flags & DZ_AT_NAME || (w->flags & DZ_AT_NOFOLLOW && !slash));
    if (!e && S_ISLNK(mode) && !keep)
        return follow(w, &n);
    if (!last) {
        w->at = n;
        return 0;
    }
    *r = (struct dz_k_walk){.dir = w->at, .node = e ? (struct dz_node){0} : n, .slash = slash};
    r->dot = s[0] == '.' && (len == 1 || (len == 2 && s[1] == '.'));
    r->len = len;
    memcpy(r->name, s, len);
    if (slash)
        r->name[len] = '/';
    if (n.ino != 0 && slash && !S_ISDIR(mode) && !(w->flags & DZ_AT_NAME))
        return -ENOTDIR;
    *ret_done = true;
    return 0;
}

static int walk(struct walker *w, struct dz_at at, struct dz_k_walk *r)
{
    size_t len = strnlen(at.path, DZ_VFS_PATH_MAX);
    if (len == 0)
        return -ENOENT;
    if (len >= DZ_VFS_PATH_MAX)
        return -ENAMETOOLONG;
    int e = start(w, at);
    if (e)
        return e;
    w->base = w->at;
    w->rest = w->buf + sizeof w->buf - len - 1;
    memcpy(w->rest, at.path, len + 1);
    bool done = false;
    while (!e && !done)
        e = step(w, r, &done);
    return e;
}

int dz_k_walk(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, struct dz_k_walk *ret)
{
    DZ_UNINIT struct walker w;
    if (!at.path) {
        const struct dz_file *f = at.dirfd == AT_FDCWD ? NULL : dz_k_fd_file(k, p, at.dirfd);
        if (at.dirfd != AT_FDCWD && !f)
            return -EBADF;
        *ret = (struct dz_k_walk){.node = f ? f->node : p->cwd, .dot = true};
        ret->dir = ret->node;
        return ret->node.ino ? 0 : -EINVAL;
    }
    w.k = k;
    w.p = p;
    w.who = dz_k_who(p);
    w.flags = at.flags;
    w.links = 0;
    return walk(&w, at, ret);
}

int dz_k_resolve(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, struct dz_node *ret_node)
{
    struct dz_k_walk w;
    int e = dz_k_walk(k, p, at, &w);
    if (e)
        return e;
    if (w.node.ino == 0)
        return -ENOENT;
    *ret_node = w.node;
    return 0;
}

struct dz_vfs_path dz_k_vfs_path(const struct dz_k_walk *w)
{
    if (w->dot)
        return (struct dz_vfs_path){.dir = w->node.ino, .path = "."};
    return (struct dz_vfs_path){.dir = w->dir.ino, .path = w->name};
}

int dz_k_node_stat(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *n,
                   struct dz_kstat *st)
{
    if (n->fs != DZ_KERNEL_FS_DISK)
        return dz_k_fs_of(n->fs)->stat(k, p, n->ino, st);
    struct dz_vfs_attr a;
    int e = dz_vfs_getattr(k->vfs, n->ino, &a);
    if (!e)
        dz_k_stat_attr(k, &a, st);
    return e;
}

int64_t dz_k_node_path(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *n, char *buf,
                       size_t size)
{
    if (n->fs != DZ_KERNEL_FS_DISK)
        return dz_k_fs_of(n->fs)->path(k, n->ino, buf, size);
    return dz_vfs_find_path(k->vfs, p->root.fs == DZ_KERNEL_FS_DISK ? p->root.ino : DZ_VFS_ROOT,
                            n->ino, buf, size);
}
