/* SPDX-License-Identifier: MIT
 *
 * linux_xattr.c - extended attributes, by a path, by a link itself, by a descriptor.
 */
#include "linux/linux_int.h"

#include "vfs/vfs.h"

#include <fcntl.h>
#include <sys/xattr.h>

enum {
    FOLLOW = 0,
    LINK = AT_SYMLINK_NOFOLLOW,
    DESCRIPTOR = -1, /* the first argument is a descriptor */
    NO_DIR = -1,
};

/* A call, and the data that all of them share. */
struct attr {
    char path[PATH_MAX];
    char name[DZ_VFS_NAME_MAX + 1];
    struct dz_at at;
};

static int where(const linux_call *c, int how, struct attr *a)
{
    return how == DESCRIPTOR ? dz_linux_at_fd(c, arg_int(c, 0), &a->at)
                             : dz_linux_at(c, NO_DIR, 0, how, a->path, &a->at);
}

static int name(const linux_call *c, struct attr *a)
{
    const int e = dz_linux_string(c, c->arg[1], a->name, sizeof a->name);
    return e == -ENAMETOOLONG || (e == 0 && a->name[0] == '\0') ? -ERANGE : e;
}

static int64_t set(const linux_call *c, int how)
{
    struct attr a;
    struct dz_linux_bounce b;
    const size_t size = c->arg[3];
    const int flags = arg_int(c, 4);
    if (flags & ~(XATTR_CREATE | XATTR_REPLACE))
        return -EINVAL;
    int64_t r = name(c, &a);
    if (r == 0 && size > DZ_VFS_XATTR_MAX)
        r = -E2BIG;
    if (r < 0)
        return r;
    uint8_t *value = dz_linux_bounce_get(&b, size);
    r = !value ? -ENOMEM : size ? dz_linux_get(c, c->arg[2], value, size) : 0;
    r = r < 0 ? r : where(c, how, &a);
    if (r == 0)
        r = dz_sys_setxattr(
            LINUX_K(c), a.at,
            &(struct dz_xattr){.name = a.name, .value = value, .size = size, .flags = flags});
    dz_linux_bounce_put(&b);
    return r;
}
LINUX_CALL(setxattr)
{
    return set(c, FOLLOW);
}
LINUX_CALL(lsetxattr)
{
    return set(c, LINK);
}
LINUX_CALL(fsetxattr)
{
    return set(c, DESCRIPTOR);
}

static int64_t get(const linux_call *c, int how)
{
    struct attr a;
    struct dz_linux_bounce b;
    const size_t size = c->arg[3] < DZ_VFS_XATTR_MAX ? c->arg[3] : DZ_VFS_XATTR_MAX;
    int64_t r = name(c, &a);
    r = r < 0 ? r : where(c, how, &a);
    if (r < 0)
        return r;
    uint8_t *value = dz_linux_bounce_get(&b, size);
    r = value ? dz_sys_getxattr(LINUX_K(c), a.at,
                                &(struct dz_xattr){.name = a.name, .value = value, .size = size})
              : -ENOMEM;
    if (r > 0 && size > 0 && dz_linux_put(c, c->arg[2], value, (size_t)r) < 0)
        r = -EFAULT;
    dz_linux_bounce_put(&b);
    return r;
}
LINUX_CALL(getxattr)
{
    return get(c, FOLLOW);
}
LINUX_CALL(lgetxattr)
{
    return get(c, LINK);
}
LINUX_CALL(fgetxattr)
{
    return get(c, DESCRIPTOR);
}

static int64_t list(const linux_call *c, int how)
{
    struct attr a;
    struct dz_linux_bounce b;
    int64_t r = where(c, how, &a);
    if (r < 0)
        return r;
    char *names = (char *)dz_linux_bounce_get(&b, DZ_VFS_XATTR_LIST_MAX);
    r = names ? dz_sys_listxattr(LINUX_K(c), a.at, names) : -ENOMEM;
    if (r > 0 && c->arg[2] > 0)
        r = (uint64_t)r > c->arg[2]                            ? -ERANGE
            : dz_linux_put(c, c->arg[1], names, (size_t)r) < 0 ? -EFAULT
                                                               : r;
    dz_linux_bounce_put(&b);
    return r;
}
LINUX_CALL(listxattr)
{
    return list(c, FOLLOW);
}
LINUX_CALL(llistxattr)
{
    return list(c, LINK);
}
LINUX_CALL(flistxattr)
{
    return list(c, DESCRIPTOR);
}

static int64_t unset(const linux_call *c, int how)
{
    struct attr a;
    int64_t r = name(c, &a);
    r = r < 0 ? r : where(c, how, &a);
    return r < 0 ? r : dz_sys_removexattr(LINUX_K(c), a.at, a.name);
}
LINUX_CALL(removexattr)
{
    return unset(c, FOLLOW);
}
LINUX_CALL(lremovexattr)
{
    return unset(c, LINK);
}
LINUX_CALL(fremovexattr)
{
    return unset(c, DESCRIPTOR);
}
