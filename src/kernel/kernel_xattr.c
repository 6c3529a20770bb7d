/* SPDX-License-Identifier: MIT
 *
 * kernel_xattr.c - extended attributes of files of the disk.
 *
 * The disk stores them. This file checks permissions, by the namespace that a name begins with:
 *
 *     user.      of regular files and directories; with the permissions of the content
 *     trusted.   for CAP_SYS_ADMIN only; hidden from others
 *     security.  everybody reads, CAP_SYS_ADMIN writes (security.capability: CAP_SETFCAP)
 *     system.    nothing: there are no access control lists
 *
 * Other file systems (/proc, /dev, /sys) have none.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* The error, as if the attribute did not exist. mask: R_OK or W_OK. */
static int refusal(int mask)
{
    return mask == W_OK ? -EPERM : -ENODATA;
}

/* The node. A descriptor without attributes (a pipe, a socket) counts as a node that may not have
 * user. attributes. */
static int node_of(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, const char *name,
                   int mask, struct dz_node *ret)
{
    if (!(k->caps & DZ_CAP_DISK))
        return -ENOSYS;
    const struct dz_file *f = at.path ? NULL : dz_k_fd_file(k, p, at.dirfd);
    if (f && (f->flags & O_PATH))
        return -EBADF;
    if (f && f->node.ino == 0)
        return begins(name, "user.") ? refusal(mask) : -EOPNOTSUPP;
    if (f)
        *ret = f->node;
    const int e = f ? 0 : dz_k_resolve(k, p, at, ret);
    return e ? e : ret->fs != DZ_KERNEL_FS_DISK ? -EOPNOTSUPP : 0;
}

static int permitted(struct dz_kernel *k, const struct dz_proc *p, uint64_t ino, const char *name,
                     int mask)
{
    struct dz_vfs_attr a;
    if (begins(name, "system."))
        return -EOPNOTSUPP;
    if (begins(name, "trusted."))
        return dz_k_capable(p, CAP_SYS_ADMIN) ? 0 : refusal(mask);
    if (begins(name, "security.")) {
        const int cap = strcmp(name, "security.capability") == 0 ? CAP_SETFCAP : CAP_SYS_ADMIN;
        return mask == R_OK || dz_k_capable(p, cap) ? 0 : -EPERM;
    }
    if (!begins(name, "user."))
        return -EOPNOTSUPP;
    const int e = dz_vfs_getattr(k->vfs, ino, &a);
    if (e)
        return e;
    if (!S_ISREG(a.mode) && !S_ISDIR(a.mode))
        return refusal(mask);
    const struct dz_vfs_cred cred = dz_k_who(p).cred;
    if (S_ISDIR(a.mode) && (a.mode & S_ISVTX) && mask == W_OK && dz_k_fsuid(p) != a.uid &&
        !dz_k_capable(p, CAP_FOWNER))
        return -EPERM;
    return dz_vfs_access(k->vfs, ino, &cred, mask);
}

int64_t dz_sys_setxattr(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                        const struct dz_xattr *x)
{
    struct dz_node n;
    int e = node_of(k, p, at, x->name, W_OK, &n);
    e = e ? e : permitted(k, p, n.ino, x->name, W_OK);
    return e ? e : dz_vfs_setxattr(k->vfs, n.ino, x->name, x->value, x->size, x->flags);
}

int64_t dz_sys_getxattr(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                        const struct dz_xattr *x)
{
    struct dz_node n;
    int e = node_of(k, p, at, x->name, R_OK, &n);
    e = e ? e : permitted(k, p, n.ino, x->name, R_OK);
    return e ? e : dz_vfs_getxattr(k->vfs, n.ino, x->name, x->value, x->size);
}

int64_t dz_sys_removexattr(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                           const char *name)
{
    struct dz_node n;
    int e = node_of(k, p, at, name, W_OK, &n);
    e = e ? e : permitted(k, p, n.ino, name, W_OK);
    return e ? e : dz_vfs_removexattr(k->vfs, n.ino, name);
}

int64_t dz_sys_listxattr(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, char *ret_names)
{
    struct dz_node n;
    const int e = node_of(k, p, at, "", R_OK, &n);
    if (e)
        return e == -EOPNOTSUPP ? 0 : e;
    const int64_t size = dz_vfs_listxattr(k->vfs, n.ino, ret_names, DZ_VFS_XATTR_LIST_MAX);
    if (size <= 0 || dz_k_capable(p, CAP_SYS_ADMIN))
        return size;
    int64_t kept = 0;
    for (int64_t i = 0; i < size;) {
        const size_t len = strlen(ret_names + i) + 1;
        if (!begins(ret_names + i, "trusted.")) {
            memmove(ret_names + kept, ret_names + i, len);
            kept += (int64_t)len;
        }
        i += (int64_t)len;
    }
    return kept;
}
