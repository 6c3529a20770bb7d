/* SPDX-License-Identifier: MIT
 *
 * kernel_open.c - from a path to a node, on the disk and the file systems mounted on it; and the
 * calls that take a path.
 *
 * The disk knows neither /proc nor /dev, so the kernel walks paths itself, one component at a time:
 * a directory of the disk that a file system of the kernel covers becomes the root of that mount;
 * ".." at such a root is the parent of the covered directory. Links of /proc that lead to a node
 * (cwd, exe, root) are followed to the node, all others by their text. The walk never leaves the
 * process's root, nor, with DZ_AT_BENEATH, the directory it began in.
 *
 * Each call walks to the node and then lets the disk's *at function act on the last component, with
 * its permission checks. Calls that /proc and /dev do not support are refused here: their nodes can
 * only be opened, read and listed.
 *
 * Bounds: PATH_MAX for each text, DZ_VFS_SYMLINK_MAX links.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* --- the walk ---------------------------------------------------------------------------- */

/* A path walk in progress. rest points into the last PATH_MAX bytes of buf. */
struct walker {
    struct dz_kernel *k;
    struct dz_proc *p;
    struct dz_vfs_who who;
    struct dz_node at, base; /* base: DZ_AT_BENEATH may not leave it */
    struct dz_node root;     /* of the process, or with DZ_AT_IN_ROOT the base */
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

/* Map a covered node to the root of its mount. */
static struct dz_node uncover(const struct dz_kernel *k, struct dz_node n)
{
    if (n.fs == DZ_KERNEL_FS_DISK && n.ino != 0) {
        if (n.ino == k->mount[DZ_K_PROC_MOUNT])
            return (struct dz_node){.ino = DZ_K_SYNTH_ROOT, .fs = DZ_KERNEL_FS_PROC};
        if (n.ino == k->mount[DZ_K_DEV_MOUNT])
            return (struct dz_node){.ino = DZ_K_SYNTH_ROOT, .fs = DZ_KERNEL_FS_DEV};
        if (n.ino == k->mount[DZ_K_SYS_MOUNT])
            return (struct dz_node){.ino = DZ_K_SYNTH_ROOT, .fs = DZ_KERNEL_FS_SYS};
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
    if (same(&w->at, &w->root)) {
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

/* Put a link's text before the rest of the path. */
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
    if ((w->flags & DZ_AT_BENEATH) && !same(&w->base, &w->root))
        return -EPERM;
    if ((w->flags & DZ_AT_NO_XDEV) && w->at.fs != w->root.fs)
        return -EXDEV;
    w->at = w->root;
    return 0;
}

static int follow(struct walker *w, const struct dz_node *link)
{
    struct dz_node to;
    if (++w->links > DZ_VFS_SYMLINK_MAX || (w->flags & DZ_AT_NO_LINKS))
        return -ELOOP;
    const struct dz_k_fs *fs = link->fs == DZ_KERNEL_FS_DISK ? NULL : dz_k_fs_of(link->fs);
    if (fs && fs->follow && fs->follow(w->k, w->p, link->ino, &to) == 0) {
        if (w->flags & DZ_AT_BENEATH)
            return -EPERM;
        if (w->flags & DZ_AT_NO_MAGIC)
            return -ELOOP;
        if ((w->flags & DZ_AT_IN_ROOT) || ((w->flags & DZ_AT_NO_XDEV) && to.fs != link->fs))
            return -EXDEV;
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
    if (at.path && at.path[0] == '/' && !(at.flags & DZ_AT_IN_ROOT)) {
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

/* Is b on another file system than a? */
static bool leaves(const struct dz_node *a, const struct dz_node *b)
{
    return a->fs != b->fs ||
           (a->fs == DZ_KERNEL_FS_DISK && dz_vfs_mount_of(a->ino) != dz_vfs_mount_of(b->ino));
}

/* Walk one component; *ret_done: it was the last. */
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
    if (!e && (w->flags & DZ_AT_NO_XDEV) && leaves(&w->at, &n))
        return -EXDEV;
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
    w->root = at.flags & DZ_AT_IN_ROOT ? w->base : w->p->root;
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

static struct dz_vfs_path vfs_path(const struct dz_k_walk *w)
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

int64_t dz_k_path_by(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                     const struct dz_node *n, char *buf, size_t size)
{
    struct dz_k_walk w;
    if (dz_k_walk(k, p, at, &w) < 0 || w.dot || w.node.fs != n->fs || w.node.ino != n->ino)
        return dz_k_node_path(k, p, n, buf, size);
    const int64_t len = dz_k_node_path(k, p, &w.dir, buf, size);
    if (len < 0)
        return len;
    const size_t room = size - (size_t)len;
    const int more = snprintf(buf + len, room, len == 1 ? "%s" : "/%s", w.name);
    return (size_t)more < room ? len + more : -ERANGE;
}

/* --- the calls --------------------------------------------------------------------------- */

enum {
    OPEN_FLAGS = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_DIRECTORY | O_NOFOLLOW | O_PATH |
                 O_NOATIME | O_TMPFILE,
    PLAIN = -0x10020, /* no errno: a plain file or directory of the disk */
};

/* ---- open ---------------------------------------------------------------------------- */

int64_t dz_k_rdev_open(struct dz_kernel *k, struct dz_proc *p, uint64_t rdev, int flags)
{
    static const struct {
        unsigned ma, mi;
        uint32_t device;
    } known[] = {{1, 3, DZ_DEVICE_NULL},
                 {1, 5, DZ_DEVICE_ZERO},
                 {1, 7, DZ_DEVICE_FULL},
                 {1, 8, DZ_DEVICE_RANDOM},
                 {1, 9, DZ_DEVICE_URANDOM}};
    unsigned ma = major(rdev), mi = minor(rdev);
    for (size_t i = 0; i < DZ_ARRAY_LEN(known); i++)
        if (known[i].ma == ma && known[i].mi == mi)
            return dz_k_device_open(k, p, known[i].device, flags);
    if (ma == 5 && (mi == 0 || mi == 1))
        return dz_k_pty_open(k, p, p->tty, flags | O_NOCTTY);
    if (ma == 5 && mi == 2)
        return dz_k_ptmx_open(k, p, flags);
    return ma == 136 ? dz_k_pty_open(k, p, mi + 1, flags) : -ENXIO;
}

static int access_mask(int flags)
{
    int mode = flags & O_ACCMODE;
    return (mode != O_WRONLY ? R_OK : 0) | (mode != O_RDONLY ? W_OK : 0);
}

/* The disk has opened a file: make its description and number. */
static int64_t disk_opened(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags,
                           const char *path)
{
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_DISK, (uint32_t)flags);
    if (!f) {
        dz_vfs_unref(k->vfs, ino);
        return -ENFILE;
    }
    f->node = (struct dz_node){.ino = ino};
    f->path = path ? dz_k_blob_new(k, path, strlen(path) + 1) : 0;
    f->seals = k->memfds ? dz_k_seals_of(k, ino) : 0;
    if (!(flags & O_PATH))
        dz_k_report(k, DZ_VFS_EV_OPEN, ino);
    return dz_k_install(k, p, f, flags);
}

/* Open a node that is not a plain file or directory of the disk; PLAIN for one that is. */
static int64_t open_special(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *n,
                            int flags)
{
    struct dz_vfs_attr a;
    if (n->fs != DZ_KERNEL_FS_DISK)
        return dz_k_fs_of(n->fs)->open(k, p, n->ino, flags);
    int e = dz_vfs_getattr(k->vfs, n->ino, &a);
    if (e)
        return e;
    if ((flags & O_PATH) ||
        !(S_ISFIFO(a.mode) || S_ISCHR(a.mode) || S_ISBLK(a.mode) || S_ISSOCK(a.mode)))
        return PLAIN;
    if ((flags & O_CREAT) && (flags & O_EXCL))
        return -EEXIST;
    if (flags & O_DIRECTORY)
        return -ENOTDIR;
    struct dz_vfs_who who = dz_k_who(p);
    e = dz_vfs_access(k->vfs, n->ino, &who.cred, access_mask(flags));
    if (e)
        return e;
    if (S_ISFIFO(a.mode))
        return dz_k_fifo_open(k, p, n, flags);
    return S_ISCHR(a.mode) ? dz_k_rdev_open(k, p, a.rdev, flags) : -ENXIO;
}

/* Open a file or directory of the disk that only a link of /proc leads to, as open(2) would. */
static int64_t open_inode(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags)
{
    struct dz_vfs_who who = dz_k_who(p);
    struct dz_vfs_attr a;
    int e = dz_vfs_getattr(k->vfs, ino, &a);
    if (!e && S_ISDIR(a.mode)) {
        struct dz_vfs_path at = {.dir = ino, .path = "."};
        e = dz_vfs_open_at(k->vfs, &who, at, flags & OPEN_FLAGS, 0, &ino);
        return e ? e : disk_opened(k, p, ino, flags, NULL);
    }
    if (!e && (flags & O_CREAT) && (flags & O_EXCL))
        e = -EEXIST;
    if (!e && (flags & O_DIRECTORY))
        e = -ENOTDIR;
    bool emptied = (flags & O_TRUNC) && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH);
    if (!e && !(flags & O_PATH))
        e = dz_vfs_access(k->vfs, ino, &who.cred, access_mask(flags));
    e = e ? e : dz_vfs_ref(k->vfs, ino);
    if (!e && emptied) {
        a.size = 0;
        (void)dz_vfs_setattr(k->vfs, ino, DZ_VFS_SET_SIZE, &a);
        dz_k_disk_cut(k, ino);
    }
    return e ? e : disk_opened(k, p, ino, flags, NULL);
}

/* Open a description's file again: /dev/fd/N and /proc/PID/fd/N. */
int64_t dz_k_reopen(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, int flags)
{
    struct dz_pipe *q;
    switch ((enum dz_file_kind)f->kind) {
    case DZ_FILE_DISK:
        return open_inode(k, p, f->node.ino, flags);
    case DZ_FILE_PIPE: {
        struct dz_file *g = dz_k_file_new(k, DZ_FILE_PIPE, (uint32_t)flags);
        if (!g)
            return -ENFILE;
        q = dz_k_pipe(k, f->obj);
        g->obj = f->obj;
        g->node = f->node;
        g->pos = f->pos;
        q->readers += (flags & O_ACCMODE) != O_WRONLY;
        q->writers += (flags & O_ACCMODE) != O_RDONLY;
        if (q->fifo)
            (void)dz_vfs_ref(k->vfs, q->ino);
        return dz_k_install(k, p, g, flags);
    }
    case DZ_FILE_PTS:
        return dz_k_pty_open(k, p, f->obj, flags);
    case DZ_FILE_DEVICE:
        return dz_k_device_open(k, p, f->obj, flags);
    case DZ_FILE_SYNTH:
    case DZ_FILE_HINT:
    case DZ_FILE_DIR:
        return dz_k_fs_of(f->node.fs)->open(k, p, f->node.ino, flags);
    case DZ_FILE_STREAM: { /* it exists only once: share it */
        int fd = dz_k_fd_free(k, p, 0);
        int e = fd < 0 ? fd : dz_k_fd_put(k, p, fd, f, flags & O_CLOEXEC ? DZ_FD_CLOEXEC : 0);
        return e ? e : fd;
    }
    case DZ_FILE_PTM:
    case DZ_FILE_PIDFD:
    case DZ_FILE_EPOLL:
    case DZ_FILE_EVENTFD:
    case DZ_FILE_TIMERFD:
    case DZ_FILE_SIGNALFD:
    case DZ_FILE_SOCKET:
    case DZ_FILE_INOTIFY:
    case DZ_FILE_MQUEUE:
    case DZ_FILE_NONE:
        break;
    }
    return -ENXIO;
}

/* Before a file of the disk is opened, which the caller may do. */
static int64_t break_leases(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags)
{
    const struct dz_vfs_who who = dz_k_who(p);
    if ((flags & O_PATH) || ((flags & O_CREAT) && (flags & O_EXCL)) ||
        dz_vfs_access(k->vfs, ino, &who.cred, access_mask(flags)) != 0)
        return 0; /* the open fails */
    return dz_k_lease_break(k, p, ino, flags & O_TRUNC ? flags | O_RDWR : flags);
}

/* Open a path, or wait for leases on its file. */
static int64_t open_walked(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, int flags,
                           uint32_t mode)
{
    struct dz_k_walk w;
    uint64_t ino;
    bool nofollow = (flags & O_NOFOLLOW) || ((flags & O_CREAT) && (flags & O_EXCL));
    at.flags |= nofollow ? DZ_AT_NOFOLLOW : 0;
    int e = dz_k_walk(k, p, at, &w);
    if (e)
        return e;
    if (w.node.ino != 0) {
        int64_t r = open_special(k, p, &w.node, flags);
        if (r != PLAIN)
            return r;
    } else if (w.dir.fs != DZ_KERNEL_FS_DISK) {
        return flags & O_CREAT ? -EACCES : -ENOENT;
    }
    if (w.node.ino != 0 && k->leases > 0) {
        const int64_t r = break_leases(k, p, w.node.ino, flags);
        if (r)
            return r;
    }
    if (w.dot)
        return open_inode(k, p, w.node.ino, flags);
    int fd = dz_k_fd_free(k, p, 0); /* create nothing that cannot be opened afterwards */
    if (fd < 0)
        return fd;
    struct dz_vfs_who who = dz_k_who(p);
    e = dz_vfs_open_at(k->vfs, &who, vfs_path(&w), flags & OPEN_FLAGS, mode & 07777, &ino);
    if (!e && (flags & O_TRUNC))
        dz_k_disk_cut(k, ino);
    return e ? e : disk_opened(k, p, ino, flags, at.path);
}

int64_t dz_sys_openat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, int flags,
                      uint32_t mode)
{
    if (!(k->caps & DZ_CAP_DISK))
        return -ENOSYS;
    if (!at.path)
        return -EFAULT;
    dz_k_sig_sync(k, p);
    const struct dz_call *c = dz_k_my_call(k, p);
    if (c->parked && !(c->flags & DZ_CALL_LEASE)) /* it opens a FIFO, whose name may be gone now */
        return dz_k_fifo_wait(k, p, flags);
    return dz_k_lease_end(k, p, open_walked(k, p, at, flags, mode));
}

int64_t dz_kernel_listed(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint64_t *ret_dir)
{
    struct dz_k_walk w;
    /* what a link of /proc leads to can change without a change of the disk */
    at.flags |= DZ_AT_NOFOLLOW | DZ_AT_NO_MAGIC;
    const int e = dz_k_walk(k, p, at, &w);
    if (e)
        return e;
    if (w.dot || w.slash || w.dir.fs != DZ_KERNEL_FS_DISK || w.node.fs != DZ_KERNEL_FS_DISK)
        return -EAGAIN;
    *ret_dir = w.dir.ino;
    return dz_vfs_listed(k->vfs, &(struct dz_vfs_name){w.dir.ino, w.name, w.len}, NULL, NULL);
}

int dz_kernel_steady(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                     struct dz_kstat *ret_stat)
{
    struct dz_next_file file;
    struct dz_vfs_attr a;
    struct dz_k_walk w;
    if (!at.path || at.path[0] != '/' || p->root.fs != DZ_KERNEL_FS_DISK)
        return -EAGAIN;
    at.flags = (at.flags & DZ_AT_NOFOLLOW) | DZ_AT_NO_XDEV | DZ_AT_NO_MAGIC;
    const int e = dz_k_walk(k, p, at, &w);
    if (e || w.node.ino == 0)
        return !e || e == -ENOENT ? -ENOENT : -EAGAIN;
    if (w.node.fs != DZ_KERNEL_FS_DISK || dz_vfs_getattr(k->vfs, w.node.ino, &a) < 0)
        return -EAGAIN;
    if (S_ISDIR(a.mode))
        dz_k_stat_attr(k, &a, ret_stat);
    else if (dz_kernel_next_file(k, p, w.node.ino, &file) &&
             dz_vfs_read_ahead(k->vfs, w.node.ino, NULL, 0) == 0) /* its access time stays */
        *ret_stat = file.stat;
    else
        return -EAGAIN;
    return 0;
}

int64_t dz_kernel_open_next(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags,
                            const char *path)
{
    const int e = dz_vfs_ref(k->vfs, ino);
    return e ? e : disk_opened(k, p, ino, flags, path);
}

/* ---- what a node is ---------------------------------------------------------------------- */

int64_t dz_sys_fstatat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                       struct dz_kstat *ret_stat)
{
    struct dz_node n;
    const struct dz_file *f = at.path ? NULL : dz_k_fd_file(k, p, at.dirfd);
    if (f) {
        dz_k_ops(f)->stat(k, f, ret_stat);
        return 0;
    }
    int e = dz_k_resolve(k, p, at, &n);
    f = e || (at.flags & DZ_AT_NOFOLLOW) ? NULL : dz_k_proc_file(k, &n);
    if (f) { /* /dev/stdin and similar links lead to an open file, which may have no node */
        dz_k_ops(f)->stat(k, f, ret_stat);
        return 0;
    }
    return e ? e : dz_k_node_stat(k, p, &n, ret_stat);
}

/* Permission on a node of /proc or /dev, by its mode. */
static int synth_access(const struct dz_kstat *st, const struct dz_vfs_cred *c, int mask)
{
    uint32_t bits = c->uid == st->uid   ? st->mode >> 6
                    : c->gid == st->gid ? st->mode >> 3
                                        : st->mode;
    if (dz_vfs_cred_is_root(c))
        bits |= R_OK | W_OK | (st->mode & 0111 ? X_OK : 0);
    return (bits & (uint32_t)mask) == (uint32_t)mask ? 0 : -EACCES;
}

int64_t dz_sys_faccessat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, int mode)
{
    struct dz_node n;
    struct dz_kstat st;
    if (mode & ~(R_OK | W_OK | X_OK))
        return -EINVAL;
    int e = dz_k_resolve(k, p, at, &n);
    e = e ? e : dz_k_node_stat(k, p, &n, &st);
    if (e)
        return e;
    struct dz_vfs_cred cred = dz_k_who(p).cred;
    if (!(at.flags & DZ_AT_EACCESS)) {
        cred.uid = p->uid;
        cred.gid = p->gid;
        cred.plain =
            (p->flags & DZ_PROC_CAPS) && !(p->caps.permitted & UINT64_C(1) << CAP_DAC_OVERRIDE);
    }
    if (n.fs != DZ_KERNEL_FS_DISK)
        return synth_access(&st, &cred, mode);
    return mode ? dz_vfs_access(k->vfs, n.ino, &cred, mode) : 0;
}

int64_t dz_sys_readlinkat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, char *buf,
                          size_t size)
{
    struct dz_node n;
    struct dz_kstat st;
    at.flags |= DZ_AT_NOFOLLOW;
    int e = dz_k_resolve(k, p, at, &n);
    e = e ? e : dz_k_node_stat(k, p, &n, &st);
    if (e)
        return e;
    if (!S_ISLNK(st.mode))
        return -EINVAL;
    if (n.fs != DZ_KERNEL_FS_DISK)
        return dz_k_fs_of(n.fs)->readlink(k, p, n.ino, buf, size);
    return dz_vfs_readlink(k->vfs, n.ino, buf, size);
}

/* statfs(2): the size to which the disk may grow. Without a limit, a terabyte. */
int64_t dz_sys_statfs(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                      struct dz_kstatfs *ret_statfs)
{
    struct dz_node n = {.ino = DZ_VFS_ROOT};
    struct dz_vfs_usage u;
    const struct dz_file *f = at.path ? NULL : dz_k_fd_file(k, p, at.dirfd);
    int e = f ? 0 : dz_k_resolve(k, p, at, &n);
    if (e)
        return e;
    if (f)
        n = f->node;
    if (n.fs != DZ_KERNEL_FS_DISK) {
        static const uint64_t types[] = {[DZ_KERNEL_FS_PROC] = 0x9fa0,
                                         [DZ_KERNEL_FS_DEV] = 0x01021994,
                                         [DZ_KERNEL_FS_SYS] = 0x62656572};
        *ret_statfs = (struct dz_kstatfs){.type = types[n.fs], .bsize = 4096, .namemax = 255};
        return 0;
    }
    e = dz_vfs_usage_at(k->vfs, n.ino, &u);
    if (e)
        return e;
    uint64_t used = u.bytes + u.image_bytes, nodes = u.inodes + u.image_inodes;
    uint64_t all = u.limit_bytes ? u.limit_bytes + u.image_bytes : UINT64_C(1) << 40;
    uint64_t most = u.limit_inodes ? u.limit_inodes + u.image_inodes : UINT64_C(1) << 30;
    uint64_t left = all > used ? (all - used) / 4096 : 0;
    *ret_statfs = (struct dz_kstatfs){.type = 0x646f7a65, /* "doze" */
                                      .bsize = 4096,
                                      .blocks = all / 4096,
                                      .bfree = left,
                                      .bavail = left,
                                      .files = most,
                                      .ffree = most > nodes ? most - nodes : 0,
                                      .namemax = DZ_VFS_NAME_MAX};
    return 0;
}

/* ---- changing the tree ------------------------------------------------------------------------
 */

/* The last component, walked to with `flags` too: on the disk and not covered. */
static int disk_target(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, int flags,
                       struct dz_k_walk *w)
{
    if (!(k->caps & DZ_CAP_DISK))
        return -ENOSYS;
    if (!at.path)
        return -EFAULT;
    at.flags |= flags;
    int e = dz_k_walk(k, p, at, w);
    if (e)
        return e;
    if (w->dir.fs != DZ_KERNEL_FS_DISK)
        return w->node.ino ? -EPERM : -EACCES;
    return 0;
}

/* A name that must not exist. */
static int free_name(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, struct dz_k_walk *w)
{
    w->node.ino = 0;
    int e = disk_target(k, p, at, DZ_AT_NAME, w);
    return w->node.ino != 0 ? -EEXIST : e;
}

/* Is a file system of the kernel mounted there? Then it can be neither removed nor renamed. */
static bool covered(const struct dz_k_walk *w)
{
    return w->node.fs != DZ_KERNEL_FS_DISK;
}

int64_t dz_sys_unlinkat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, bool dir)
{
    struct dz_k_walk w;
    struct dz_vfs_who who = dz_k_who(p);
    int e = disk_target(k, p, at, DZ_AT_NAME, &w);
    if (e)
        return e;
    if (covered(&w))
        return dir ? -EBUSY : -EISDIR;
    if (w.dot)
        return !dir ? -EISDIR : w.len == 1 ? -EINVAL : w.len == 2 ? -ENOTEMPTY : -EBUSY;
    return dir ? dz_vfs_rmdir_at(k->vfs, &who, vfs_path(&w))
               : dz_vfs_unlink_at(k->vfs, &who, vfs_path(&w));
}

int64_t dz_sys_mkdirat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint32_t mode)
{
    struct dz_k_walk w;
    struct dz_vfs_who who = dz_k_who(p);
    int e = free_name(k, p, at, &w);
    return e ? e : dz_vfs_mkdir_at(k->vfs, &who, vfs_path(&w), mode & 07777);
}

int64_t dz_sys_mknodat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint32_t mode,
                       uint64_t rdev)
{
    struct dz_k_walk w;
    struct dz_vfs_who who = dz_k_who(p);
    int e = free_name(k, p, at, &w);
    if (e)
        return e;
    if (S_ISDIR(mode))
        return -EPERM;
    if ((mode & S_IFMT) == 0)
        mode |= S_IFREG;
    return dz_vfs_mknod_at(k->vfs, &who, vfs_path(&w), mode, rdev);
}

int64_t dz_sys_symlinkat(struct dz_kernel *k, struct dz_proc *p, const char *target,
                         struct dz_at at)
{
    struct dz_k_walk w;
    struct dz_vfs_who who = dz_k_who(p);
    int e = free_name(k, p, at, &w);
    return e ? e : dz_vfs_symlink_at(k->vfs, &who, target, vfs_path(&w));
}

int64_t dz_sys_linkat(struct dz_kernel *k, struct dz_proc *p, struct dz_at from, struct dz_at to)
{
    struct dz_k_walk a = {0}, b;
    struct dz_vfs_who who = dz_k_who(p);
    int e = disk_target(k, p, from, 0, &a);
    if (!e && a.node.ino == 0)
        e = -ENOENT;
    const bool other = e == -EPERM && a.dir.fs != DZ_KERNEL_FS_DISK;
    if (e == -EACCES && a.dir.fs != DZ_KERNEL_FS_DISK && a.node.ino == 0)
        e = -ENOENT;
    if (e && !other)
        return e;
    const int to_e = free_name(k, p, to, &b);
    if (to_e)
        return to_e;
    if (other)
        return -EXDEV;
    if (covered(&a))
        return -EPERM;
    return dz_vfs_link_at(k->vfs, &who, vfs_path(&a), vfs_path(&b), false);
}

int64_t dz_sys_renameat(struct dz_kernel *k, struct dz_proc *p, struct dz_at from, struct dz_at to,
                        unsigned flags)
{
    struct dz_k_walk a, b;
    struct dz_vfs_who who = dz_k_who(p);
    int e = disk_target(k, p, from, DZ_AT_NAME, &a);
    e = e ? e : disk_target(k, p, to, DZ_AT_NAME, &b);
    if (e)
        return e;
    if (a.dot || b.dot || covered(&a) || covered(&b))
        return -EBUSY;
    return dz_vfs_rename_at(k->vfs, &who, vfs_path(&a), vfs_path(&b), flags);
}

/* ---- changing a node ----------------------------------------------------------------------------
 */

static int node_of(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, struct dz_node *ret)
{
    if (!(k->caps & DZ_CAP_DISK))
        return -ENOSYS;
    const struct dz_file *f = at.path ? NULL : dz_k_fd_file(k, p, at.dirfd);
    if (f && (f->flags & O_PATH)) /* an O_PATH descriptor names a node and is not open */
        return -EBADF;
    int e = dz_k_resolve(k, p, at, ret);
    if (e)
        return e;
    return ret->fs != DZ_KERNEL_FS_DISK ? -EPERM : 0;
}

/* A descriptor of a terminal: chmod and chown act on the pty. */
static struct dz_pty *tty_of(struct dz_kernel *k, struct dz_proc *p, struct dz_at at)
{
    const struct dz_file *f = at.path ? NULL : dz_k_fd_file(k, p, at.dirfd);
    return f && f->kind == DZ_FILE_PTS ? dz_k_pty(k, f->obj) : NULL;
}

int64_t dz_sys_fchmodat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint32_t mode)
{
    struct dz_node n;
    struct dz_vfs_who who = dz_k_who(p);
    struct dz_pty *t = tty_of(k, p, at);
    if (t) {
        if (!dz_k_capable(p, CAP_FOWNER) && p->euid != t->uid)
            return -EPERM;
        t->mode = mode & 0777;
        return 0;
    }
    int e = node_of(k, p, at, &n);
    return e ? e : dz_vfs_chmod(k->vfs, &who, n.ino, mode & 07777);
}

int64_t dz_sys_fchownat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint32_t uid,
                        uint32_t gid)
{
    struct dz_node n;
    struct dz_vfs_who who = dz_k_who(p);
    struct dz_pty *t = tty_of(k, p, at);
    if (t) {
        if (!dz_k_capable(p, CAP_CHOWN))
            return -EPERM;
        t->uid = uid != UINT32_MAX ? uid : t->uid;
        t->gid = gid != UINT32_MAX ? gid : t->gid;
        return 0;
    }
    int e = node_of(k, p, at, &n);
    return e ? e : dz_vfs_chown(k->vfs, &who, n.ino, uid, gid);
}

int64_t dz_sys_utimensat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                         const int64_t times[2])
{
    struct dz_node n;
    struct dz_vfs_who who = dz_k_who(p);
    int e = node_of(k, p, at, &n);
    return e ? e : dz_vfs_utimes(k->vfs, &who, n.ino, times[0], times[1]);
}

/* ---- where a process is
 * ---------------------------------------------------------------------------- */

static int directory(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, struct dz_node *ret)
{
    struct dz_kstat st;
    const struct dz_file *f = at.path ? NULL : dz_k_fd_file(k, p, at.dirfd);
    if (!at.path && !f)
        return -EBADF;
    if (f && f->kind != DZ_FILE_DISK && f->kind != DZ_FILE_DIR)
        return -ENOTDIR;
    int e = dz_k_resolve(k, p, at, ret);
    e = e ? e : dz_k_node_stat(k, p, ret, &st);
    if (e)
        return e;
    if (!S_ISDIR(st.mode))
        return -ENOTDIR;
    struct dz_vfs_who who = dz_k_who(p);
    return ret->fs == DZ_KERNEL_FS_DISK ? dz_vfs_access(k->vfs, ret->ino, &who.cred, X_OK) : 0;
}

int64_t dz_sys_chdir(struct dz_kernel *k, struct dz_proc *p, struct dz_at at)
{
    struct dz_node n;
    int e = directory(k, p, at, &n);
    if (!e)
        p->cwd = n;
    return e;
}

int64_t dz_sys_chroot(struct dz_kernel *k, struct dz_proc *p, struct dz_at at)
{
    struct dz_node n;
    int e = directory(k, p, at, &n);
    if (e)
        return e;
    if (!dz_k_capable(p, CAP_SYS_CHROOT))
        return -EPERM;
    if (n.fs != DZ_KERNEL_FS_DISK)
        return -EINVAL;
    p->root = n;
    return 0;
}

/* Is the working directory in the directory that chroot(2) made the root? */
static bool below_root(const struct dz_kernel *k, const struct dz_proc *p)
{
    char root[DZ_VFS_PATH_MAX], cwd[DZ_VFS_PATH_MAX];
    const int n = dz_vfs_getcwd(k->vfs, DZ_VFS_ROOT, p->root.ino, root, sizeof root);
    const int m = n < 0 ? n : dz_vfs_getcwd(k->vfs, DZ_VFS_ROOT, p->cwd.ino, cwd, sizeof cwd);
    return m >= n && n > 0 && memcmp(root, cwd, (size_t)n) == 0 && (m == n || cwd[n] == '/');
}

int64_t dz_sys_getcwd(struct dz_kernel *k, struct dz_proc *p, char *buf, size_t size)
{
    if (size == 0)
        return -EINVAL;
    int64_t n = dz_k_node_path(k, p, &p->cwd, buf, size);
    if (n < 0)
        return n;
    if (p->cwd.fs == DZ_KERNEL_FS_DISK && p->root.ino != DZ_VFS_ROOT && !below_root(k, p)) {
        char all[DZ_VFS_PATH_MAX];
        n = dz_vfs_getcwd(k->vfs, DZ_VFS_ROOT, p->cwd.ino, all, sizeof all);
        if (n < 0)
            return n;
        n = snprintf(buf, size, "(unreachable)%s", all);
    }
    if ((size_t)n + 1 > size)
        return -ERANGE;
    buf[n] = '\0';
    return n + 1;
}

int64_t dz_sys_umask(struct dz_kernel *k, struct dz_proc *p, uint32_t mask)
{
    uint32_t old = p->umask;
    (void)k;
    p->umask = mask & 0777;
    return old;
}

/* ---- directories
 * -------------------------------------------------------------------------------------- */

struct reader {
    int (*fn)(void *arg, const struct dz_kdirent *e);
    void *arg;
};

static int one_entry(void *arg, const struct dz_vfs_entry *e)
{
    const struct reader *r = arg;
    return r->fn(
        r->arg,
        &(struct dz_kdirent){
            .ino = e->ino, .cookie = e->cookie, .type = e->type, .name = e->name, .len = e->len});
}

int64_t dz_sys_readdir(struct dz_kernel *k, struct dz_proc *p, int fd, uint64_t cookie,
                       int (*fn)(void *arg, const struct dz_kdirent *e), void *arg)
{
    const struct dz_file *f = dz_k_fd_file(k, p, fd);
    struct reader r = {fn, arg};
    if (!f || (f->flags & O_PATH))
        return -EBADF;
    if (f->kind == DZ_FILE_DIR)
        return dz_k_fs_of(f->node.fs)->readdir(k, p, f->node.ino, cookie, fn, arg);
    if (f->kind != DZ_FILE_DISK)
        return -ENOTDIR;
    const int64_t n = dz_vfs_readdir(k->vfs, f->node.ino, cookie, one_entry, &r);
    if (n >= 0)
        dz_k_report(k, DZ_VFS_EV_READ, f->node.ino);
    return n;
}

static void dir_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    if (dz_k_fs_of(f->node.fs)->stat(k, NULL, f->node.ino, st) != 0)
        dz_k_stat_anon(st, S_IFDIR | 0555, f->node.ino); /* its process has ended */
}

static short dir_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    (void)k;
    (void)f;
    return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
}

const struct dz_k_file_ops dz_k_dir_ops = {
    .ready = dir_ready,
    .stat = dir_stat,
};
