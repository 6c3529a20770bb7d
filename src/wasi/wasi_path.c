/* SPDX-License-Identifier: MIT
 *
 * wasi_path.c - preview 1's calls on paths.
 *
 * A path is bytes with a length, relative to a directory's descriptor, and may
 * never leave that directory (DZ_AT_BENEATH). It must be UTF-8 without NUL.
 */
#include "wasi/wasi_int.h"

#include "base/str.h"
#include "vfs/vfs_at.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

struct path {
    char text[PATH_MAX];
};

/* Copy and check a path; *ret_at is then good for the kernel. */
static int64_t path_arg(const struct call *c, int i, struct path *buf)
{
    uint32_t len = arg_u32(c, i + 1);
    const uint8_t *s = guest(c, arg_u32(c, i), len);
    if (!s)
        return -EFAULT;
    if (len >= sizeof buf->text)
        return -ENAMETOOLONG;
    if (memchr(s, 0, len))
        return -EINVAL;
    memcpy(buf->text, s, len);
    buf->text[len] = '\0';
    if (!dz_str_is_utf8((struct dz_str){buf->text, len}))
        return -EILSEQ;
    return len ? 0 : -ENOENT;
}

/* The directory descriptor in argument `dir`, which needs `right`, and a path in
 * the two arguments from `i` on. */
static int64_t at_arg(const struct call *c, int dir, int i, enum wasi_right right, struct path *buf,
                      struct dz_at *ret)
{
    uint32_t type = 0;
    int64_t r = dz_wasi_check_type(c, arg_i32(c, dir), right, &type);
    if (r == 0 && type != S_IFDIR)
        r = -ENOTDIR;
    if (r == 0)
        r = path_arg(c, i, buf);
    if (r == 0)
        *ret = (struct dz_at){.dirfd = arg_i32(c, dir), .path = buf->text, .flags = DZ_AT_BENEATH};
    return r;
}

static int follow(uint32_t lookup)
{
    return lookup & 1 ? 0 : DZ_AT_NOFOLLOW;
}

WASI_P1(path_create_directory)
{
    struct path path;
    struct dz_at at = {0};
    int64_t r = at_arg(c, 0, 1, RIGHT_PATH_CREATE_DIRECTORY, &path, &at);
    return r < 0 ? r : dz_sys_mkdirat(c->k, c->p, at, 0777);
}

WASI_P1(path_filestat_get)
{
    struct path path;
    struct dz_at at = {0};
    struct dz_kstat st = {0};
    uint8_t *out = guest(c, arg_u32(c, 4), 64);
    int64_t r = at_arg(c, 0, 2, RIGHT_PATH_FILESTAT_GET, &path, &at);
    if (r < 0)
        return r;
    if (!out)
        return -EFAULT;
    at.flags |= follow(arg_u32(c, 1));
    r = dz_sys_fstatat(c->k, c->p, at, &st);
    if (r < 0)
        return r;
    dz_wasi_put_filestat(out, &st);
    return 0;
}

int64_t dz_wasi_times(uint64_t atime, uint64_t mtime, uint32_t flags, int64_t ret[2])
{
    if ((flags & ~15u) || (flags & 3) == 3 || (flags & 12) == 12)
        return -EINVAL;
    if (((flags & 1) && (int64_t)atime < 0) || ((flags & 4) && (int64_t)mtime < 0))
        return -EINVAL;
    ret[0] = flags & 1 ? (int64_t)atime : flags & 2 ? DZ_VFS_TIME_NOW : DZ_VFS_TIME_OMIT;
    ret[1] = flags & 4 ? (int64_t)mtime : flags & 8 ? DZ_VFS_TIME_NOW : DZ_VFS_TIME_OMIT;
    return 0;
}

WASI_P1(path_filestat_set_times)
{
    struct path path;
    struct dz_at at = {0};
    int64_t times[2] = {0};
    int64_t r = at_arg(c, 0, 2, RIGHT_PATH_FILESTAT_SET_TIMES, &path, &at);
    if (r == 0)
        r = dz_wasi_times(c->slots[4], c->slots[5], arg_u32(c, 6), times);
    if (r < 0)
        return r;
    at.flags |= follow(arg_u32(c, 1));
    return dz_sys_utimensat(c->k, c->p, at, times);
}

WASI_P1(path_link)
{
    struct path from_path, to_path;
    struct dz_at from = {0}, to = {0};
    int64_t r = at_arg(c, 0, 2, RIGHT_PATH_LINK_SOURCE, &from_path, &from);
    if (r == 0)
        r = at_arg(c, 4, 5, RIGHT_PATH_LINK_TARGET, &to_path, &to);
    if (r < 0)
        return r;
    from.flags |= follow(arg_u32(c, 1));
    return dz_sys_linkat(c->k, c->p, from, to);
}

enum {
    OFLAG_CREAT = 1,
    OFLAG_DIRECTORY = 2,
    OFLAG_EXCL = 4,
    OFLAG_TRUNC = 8,
};

/* Flags for open(2): the access mode follows from the requested rights. */
static int open_flags(uint32_t oflags, uint64_t rights, uint32_t fdflags)
{
    const uint64_t reading = (uint64_t)1 << RIGHT_FD_READ | (uint64_t)1 << RIGHT_FD_READDIR;
    uint64_t writing = (uint64_t)1 << RIGHT_FD_WRITE;
    if (!(oflags & OFLAG_DIRECTORY)) /* for directories some request all rights */
        writing |= (uint64_t)1 << RIGHT_FD_ALLOCATE | (uint64_t)1 << RIGHT_FD_FILESTAT_SET_SIZE;
    int flags = rights & writing ? (rights & reading ? O_RDWR : O_WRONLY) : O_RDONLY;
    flags |= (oflags & OFLAG_CREAT ? O_CREAT : 0) | (oflags & OFLAG_DIRECTORY ? O_DIRECTORY : 0);
    flags |= (oflags & OFLAG_EXCL ? O_EXCL : 0) | (oflags & OFLAG_TRUNC ? O_TRUNC : 0);
    flags |= (fdflags & 1 ? O_APPEND : 0) | (fdflags & 4 ? O_NONBLOCK : 0);
    flags |= fdflags & 24 ? O_SYNC : fdflags & 2 ? O_DSYNC : 0;
    return flags;
}

/* May this descriptor open with these flags and hand on these rights? */
static int64_t may_open(const struct dz_fd *dir, uint32_t oflags, uint64_t base, uint64_t inherit)
{
    if ((oflags & OFLAG_CREAT) && !(dir->rights >> RIGHT_PATH_CREATE_FILE & 1))
        return -WASI_ENOTCAPABLE;
    if ((oflags & OFLAG_TRUNC) && !(dir->rights >> RIGHT_PATH_FILESTAT_SET_SIZE & 1))
        return -WASI_ENOTCAPABLE;
    return (base | inherit) & RIGHTS_ALL & ~dir->inherit ? -WASI_ENOTCAPABLE : 0;
}

WASI_P1(path_open)
{
    struct path path;
    struct dz_at at = {0};
    uint32_t oflags = arg_u32(c, 4), fdflags = arg_u32(c, 7);
    uint64_t base = c->slots[5], inherit = c->slots[6];
    uint8_t *out = guest(c, arg_u32(c, 8), 4);
    int64_t r = at_arg(c, 0, 2, RIGHT_PATH_OPEN, &path, &at);
    if (r < 0)
        return r;
    if (!out)
        return -EFAULT;
    if ((oflags & ~15u) || (fdflags & ~31u))
        return -EINVAL;
    if ((oflags & OFLAG_CREAT) && (oflags & OFLAG_DIRECTORY))
        return -EINVAL;
    r = may_open(dz_sys_fd(c->k, c->p, at.dirfd), oflags, base, inherit);
    if (r < 0)
        return r;
    at.flags |= follow(arg_u32(c, 1));
    int flags = open_flags(oflags, base, fdflags) | (at.flags & DZ_AT_NOFOLLOW ? O_NOFOLLOW : 0);
    int64_t fd = dz_sys_openat(c->k, c->p, at, flags | O_NOCTTY, 0666);
    if (fd < 0)
        return fd;
    struct dz_fd *slot = dz_sys_fd(c->k, c->p, (int)fd);
    slot->rights = base & RIGHTS_ALL;
    slot->inherit = inherit & RIGHTS_ALL;
    put_u32(out, (uint32_t)fd);
    return 0;
}

WASI_P1(path_readlink)
{
    struct path path;
    struct dz_at at = {0};
    uint32_t size = arg_u32(c, 4);
    uint8_t *buf = guest(c, arg_u32(c, 3), size), *out = guest(c, arg_u32(c, 5), 4);
    int64_t r = at_arg(c, 0, 1, RIGHT_PATH_READLINK, &path, &at);
    if (r < 0)
        return r;
    if (!buf || !out)
        return -EFAULT;
    at.flags |= DZ_AT_NOFOLLOW;
    char target[PATH_MAX];
    r = dz_sys_readlinkat(c->k, c->p, at, target, sizeof target);
    if (r < 0)
        return r;
    r = r < size ? r : size;
    memcpy(buf, target, (size_t)r);
    put_u32(out, (uint32_t)r);
    return 0;
}

WASI_P1(path_remove_directory)
{
    struct path path;
    struct dz_at at = {0};
    int64_t r = at_arg(c, 0, 1, RIGHT_PATH_REMOVE_DIRECTORY, &path, &at);
    return r < 0 ? r : dz_sys_unlinkat(c->k, c->p, at, true);
}

WASI_P1(path_unlink_file)
{
    struct path path;
    struct dz_at at = {0};
    int64_t r = at_arg(c, 0, 1, RIGHT_PATH_UNLINK_FILE, &path, &at);
    return r < 0 ? r : dz_sys_unlinkat(c->k, c->p, at, false);
}

WASI_P1(path_rename)
{
    struct path from_path, to_path;
    struct dz_at from = {0}, to = {0};
    int64_t r = at_arg(c, 0, 1, RIGHT_PATH_RENAME_SOURCE, &from_path, &from);
    if (r == 0)
        r = at_arg(c, 3, 4, RIGHT_PATH_RENAME_TARGET, &to_path, &to);
    return r < 0 ? r : dz_sys_renameat(c->k, c->p, from, to, 0);
}

WASI_P1(path_symlink)
{
    struct path target, path;
    struct dz_at at = {0};
    int64_t r = path_arg(c, 0, &target);
    if (r == 0)
        r = at_arg(c, 2, 3, RIGHT_PATH_SYMLINK, &path, &at);
    if (r < 0)
        return r;
    if (target.text[0] == '/' && !dz_kernel_is_root(c->k, c->p, at.dirfd)) /* it leads out */
        return -EPERM;
    return dz_sys_symlinkat(c->k, c->p, target.text, at);
}
