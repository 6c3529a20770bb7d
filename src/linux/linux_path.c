/* SPDX-License-Identifier: MIT
 *
 * linux_path.c - calls on paths: opening, the stat family, making and removing names, attributes.
 * Most exist in two or three historical forms, all of which end in the *at form.
 */
#include "linux/linux_int.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "vfs/vfs_at.h"

_Static_assert(sizeof(struct statx) == 256, "the ABI's");
_Static_assert(sizeof(struct statfs) == 120, "the ABI's");

enum {
    NO_DIR = -1, /* of dz_linux_at */
};

/* ---- open ---------------------------------------------------------------------------- */

static int64_t open_at(const linux_call *c, int dir, int path, int flags, uint32_t mode)
{
    char text[PATH_MAX];
    struct dz_at at;
    const bool nameless = (flags & O_TMPFILE & ~O_DIRECTORY) != 0;
    if (((flags & O_CREAT) && (flags & O_DIRECTORY)) ||
        (nameless && ((flags & O_TMPFILE) != O_TMPFILE || (flags & O_ACCMODE) == O_RDONLY)))
        return -EINVAL; /* before the path is looked at */
    int e = dz_linux_at(c, dir, path, 0, text, &at);
    return e < 0 ? e : dz_sys_openat(LINUX_K(c), at, flags, mode);
}
LINUX_CALL(open)
{
    return open_at(c, NO_DIR, 0, arg_int(c, 1), arg_u32(c, 2));
}
LINUX_CALL(openat)
{
    return open_at(c, 0, 1, arg_int(c, 2), arg_u32(c, 3));
}
/* struct open_how, as long as the caller knows it. */
LINUX_CALL(openat2)
{
    struct {
        uint64_t flags, mode, resolve;
    } how;
    static const struct {
        uint64_t resolve;
        int flag;
    } map[] = {{RESOLVE_NO_XDEV, DZ_AT_NO_XDEV},
               {RESOLVE_NO_MAGICLINKS, DZ_AT_NO_MAGIC},
               {RESOLVE_NO_SYMLINKS, DZ_AT_NO_LINKS},
               {RESOLVE_BENEATH, DZ_AT_BENEATH},
               {RESOLVE_IN_ROOT, DZ_AT_IN_ROOT}};
    const uint64_t known = O_ACCMODE | O_APPEND | O_CREAT | O_EXCL | O_TRUNC | O_DIRECTORY |
                           O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_SYNC | O_DSYNC | O_CLOEXEC |
                           O_PATH | O_TMPFILE | O_NOATIME | O_DIRECT | O_ASYNC | 0100000;
    const uint64_t resolves = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS |
                              RESOLVE_BENEATH | RESOLVE_IN_ROOT | RESOLVE_CACHED;
    char text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_struct(c, c->arg[2], c->arg[3], &how, sizeof how, sizeof how);
    if (e < 0)
        return e;
    const bool makes = (how.flags & O_CREAT) || (how.flags & O_TMPFILE) == O_TMPFILE;
    if ((how.flags & ~known) || (how.resolve & ~resolves) || (how.mode & ~UINT64_C(07777)) ||
        (how.mode && !makes) ||
        ((how.resolve & RESOLVE_BENEATH) && (how.resolve & RESOLVE_IN_ROOT)) ||
        ((how.flags & O_PATH) &&
         (how.flags & ~(uint64_t)(O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC))))
        return -EINVAL;
    if (how.resolve & RESOLVE_CACHED) /* any path may need a lookup */
        return -EAGAIN;
    e = dz_linux_at(c, 0, 1, 0, text, &at);
    if (e < 0)
        return e;
    for (size_t i = 0; i < DZ_ARRAY_LEN(map); i++)
        at.flags |= how.resolve & map[i].resolve ? map[i].flag : 0;
    const int64_t r = dz_sys_openat(LINUX_K(c), at, (int)how.flags, (uint32_t)how.mode);
    return r == -EPERM && (how.resolve & RESOLVE_BENEATH) ? -EXDEV : r;
}
LINUX_CALL(creat)
{
    return open_at(c, NO_DIR, 0, O_CREAT | O_WRONLY | O_TRUNC, arg_u32(c, 1));
}

/* ---- what a file is ------------------------------------------------------------------- */

void dz_linux_stat(const struct dz_kstat *st, struct linux_stat *ret_stat)
{
    *ret_stat = (struct linux_stat){
        .dev = st->dev,
        .ino = st->ino,
        .nlink = st->nlink,
        .mode = st->mode,
        .uid = st->uid,
        .gid = st->gid,
        .rdev = st->rdev,
        .size = (int64_t)st->size,
        .blksize = st->blksize,
        .blocks = (int64_t)st->blocks,
    };
    dz_linux_split(st->atime, ret_stat->atime);
    dz_linux_split(st->mtime, ret_stat->mtime);
    dz_linux_split(st->ctime, ret_stat->ctime);
}
static int64_t put_stat(const linux_call *c, uint64_t to, const struct dz_kstat *st)
{
    struct linux_stat s;
    dz_linux_stat(st, &s);
    return dz_linux_put_last(c, to, &s, sizeof s);
}

static int64_t kstat_at(const linux_call *c, int dir, int path, int flags, struct dz_kstat *ret)
{
    char text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_at(c, dir, path, flags, text, &at);
    return e < 0 ? e : dz_sys_fstatat(LINUX_K(c), at, ret);
}

static int64_t stat_at(const linux_call *c, int dir, int path, int flags, uint64_t to)
{
    struct dz_kstat st;
    const int64_t r = kstat_at(c, dir, path, flags, &st);
    return r < 0 ? r : put_stat(c, to, &st);
}
LINUX_CALL(stat)
{
    return stat_at(c, NO_DIR, 0, 0, c->arg[1]);
}
LINUX_CALL(lstat)
{
    return stat_at(c, NO_DIR, 0, AT_SYMLINK_NOFOLLOW, c->arg[1]);
}
LINUX_CALL(newfstatat)
{
    enum {
        KNOWN = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT
    };
    const int flags = arg_int(c, 3);
    return flags & ~KNOWN ? -EINVAL : stat_at(c, 0, 1, flags, c->arg[2]);
}
LINUX_CALL(fstat)
{
    struct dz_kstat st;
    struct dz_at at;
    int64_t r = dz_linux_at_fd(c, arg_int(c, 0), &at);
    r = r < 0 ? r : dz_sys_fstatat(LINUX_K(c), at, &st);
    return r < 0 ? r : put_stat(c, c->arg[1], &st);
}

static struct statx_timestamp statx_time(int64_t ns)
{
    int64_t t[2];
    dz_linux_split(ns, t);
    return (struct statx_timestamp){.tv_sec = t[0], .tv_nsec = (uint32_t)t[1]};
}

LINUX_CALL(statx)
{
    enum {
        KNOWN = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_SYNC_TYPE
    };
    struct dz_kstat st;
    const int flags = arg_int(c, 2);
    const uint32_t mask = arg_u32(c, 3);
    if ((flags & ~KNOWN) || (mask & 1u << 31) || /* STATX__RESERVED */
        (flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE)
        return -EINVAL;
    const int64_t r = kstat_at(c, 0, 1, flags, &st);
    if (r < 0)
        return r;
    const struct statx s = {
        .stx_mask = STATX_BASIC_STATS,
        .stx_blksize = st.blksize,
        .stx_nlink = (uint32_t)st.nlink,
        .stx_uid = st.uid,
        .stx_gid = st.gid,
        .stx_mode = (uint16_t)st.mode,
        .stx_ino = st.ino,
        .stx_size = st.size,
        .stx_blocks = st.blocks,
        .stx_atime = statx_time(st.atime),
        .stx_mtime = statx_time(st.mtime),
        .stx_ctime = statx_time(st.ctime),
        .stx_rdev_major = major(st.rdev),
        .stx_rdev_minor = minor(st.rdev),
        .stx_dev_major = major(st.dev),
        .stx_dev_minor = minor(st.dev),
    };
    return dz_linux_put_last(c, c->arg[4], &s, sizeof s);
}

static int64_t put_statfs(const linux_call *c, struct dz_at at, uint64_t to)
{
    struct dz_kstatfs f;
    const int64_t r = dz_sys_statfs(LINUX_K(c), at, &f);
    if (r < 0)
        return r;
    const struct statfs s = {
        .f_type = (__fsword_t)f.type,
        .f_bsize = (__fsword_t)f.bsize,
        .f_blocks = f.blocks,
        .f_bfree = f.bfree,
        .f_bavail = f.bavail,
        .f_files = f.files,
        .f_ffree = f.ffree,
        .f_namelen = (__fsword_t)f.namemax,
        .f_frsize = (__fsword_t)f.bsize,
        .f_flags = (__fsword_t)f.flags,
    };
    return dz_linux_put(c, to, &s, sizeof s);
}
LINUX_CALL(statfs)
{
    char text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_at(c, NO_DIR, 0, 0, text, &at);
    return e < 0 ? e : put_statfs(c, at, c->arg[1]);
}
/* The file system by the number of its device: that of the disk. */
LINUX_CALL(ustat)
{
    struct { /* struct ustat */
        int32_t free;
        uint32_t pad;
        uint64_t inodes;
        char name[6], pack[6];
        uint32_t pad2;
    } u = {0};
    struct dz_kstatfs f;
    struct dz_kstat st;
    const struct dz_at root = {.dirfd = AT_FDCWD, .path = "/"};
    int64_t r = dz_sys_fstatat(LINUX_K(c), root, &st);
    if (r == 0 && st.dev != arg_u32(c, 0))
        return -EINVAL;
    if (r == 0)
        r = dz_sys_statfs(LINUX_K(c), root, &f);
    if (r < 0)
        return r;
    u.free = f.bfree < INT32_MAX ? (int32_t)f.bfree : INT32_MAX;
    u.inodes = f.ffree;
    return dz_linux_put(c, c->arg[1], &u, sizeof u);
}
LINUX_CALL(fstatfs)
{
    struct dz_at at;
    int e = dz_linux_at_fd(c, arg_int(c, 0), &at);
    return e < 0 ? e : put_statfs(c, at, c->arg[1]);
}

static int64_t access_at(const linux_call *c, int dir, int path, int mode, int flags)
{
    char text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_at(c, dir, path, flags, text, &at);
    return e < 0 ? e : dz_sys_faccessat(LINUX_K(c), at, mode);
}
LINUX_CALL(access)
{
    return access_at(c, NO_DIR, 0, arg_int(c, 1), 0);
}
LINUX_CALL(faccessat)
{
    return access_at(c, 0, 1, arg_int(c, 2), 0);
}
LINUX_CALL(faccessat2)
{
    enum {
        KNOWN = AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH
    };
    const int flags = arg_int(c, 3);
    return flags & ~KNOWN ? -EINVAL : access_at(c, 0, 1, arg_int(c, 2), flags);
}

/* The size is an int, in spite of its type. */
static int64_t readlink_at(const linux_call *c, int dir, int path, uint64_t to, int size)
{
    char text[PATH_MAX], target[PATH_MAX];
    struct dz_at at;
    if (size <= 0)
        return -EINVAL;
    if (c->arg[path] == 0)
        return -EFAULT;
    int64_t r = dz_linux_at(c, dir, path, AT_EMPTY_PATH, text, &at);
    if (r == 0 && text[0] == '\0' && at.dirfd == AT_FDCWD)
        return -ENOENT;
    r = r < 0 ? r
              : dz_sys_readlinkat(LINUX_K(c), at, target,
                                  size < PATH_MAX ? (size_t)size : sizeof target);
    return r < 0 ? r : dz_linux_put(c, to, target, (size_t)r) < 0 ? -EFAULT : r;
}
LINUX_CALL(readlink)
{
    return readlink_at(c, NO_DIR, 0, c->arg[1], arg_int(c, 2));
}
LINUX_CALL(readlinkat)
{
    return readlink_at(c, 0, 1, c->arg[2], arg_int(c, 3));
}

/* ---- names ----------------------------------------------------------------------------- */

static int64_t mkdir_at(const linux_call *c, int dir, int path, uint32_t mode)
{
    char text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_at(c, dir, path, 0, text, &at);
    return e < 0 ? e : dz_sys_mkdirat(LINUX_K(c), at, mode);
}
LINUX_CALL(mkdir)
{
    return mkdir_at(c, NO_DIR, 0, arg_u32(c, 1));
}
LINUX_CALL(mkdirat)
{
    return mkdir_at(c, 0, 1, arg_u32(c, 2));
}

static int64_t mknod_at(const linux_call *c, int dir, int path, uint32_t mode, uint64_t dev)
{
    char text[PATH_MAX];
    struct dz_at at;
    const uint32_t type = mode & S_IFMT;
    int e = dz_linux_at(c, dir, path, 0, text, &at);
    if (e < 0)
        return e;
    if (type != 0 && type != S_IFREG && type != S_IFIFO && type != S_IFSOCK && type != S_IFCHR &&
        type != S_IFBLK)
        return type == S_IFDIR ? -EPERM : -EINVAL;
    return dz_sys_mknodat(LINUX_K(c), at, mode, dev & UINT32_MAX);
}
LINUX_CALL(mknod)
{
    return mknod_at(c, NO_DIR, 0, arg_u32(c, 1), c->arg[2]);
}
LINUX_CALL(mknodat)
{
    return mknod_at(c, 0, 1, arg_u32(c, 2), c->arg[3]);
}

static int64_t unlink_at(const linux_call *c, int dir, int path, bool directory)
{
    char text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_at(c, dir, path, 0, text, &at);
    return e < 0 ? e : dz_sys_unlinkat(LINUX_K(c), at, directory);
}
LINUX_CALL(unlink)
{
    return unlink_at(c, NO_DIR, 0, false);
}
LINUX_CALL(rmdir)
{
    return unlink_at(c, NO_DIR, 0, true);
}
LINUX_CALL(unlinkat)
{
    const int flags = arg_int(c, 2);
    return flags & ~AT_REMOVEDIR ? -EINVAL : unlink_at(c, 0, 1, flags & AT_REMOVEDIR);
}

static int64_t link_at(const linux_call *c, const int from[2], const int to[2], int flags)
{
    char old[PATH_MAX], new[PATH_MAX];
    struct dz_at a, b;
    int e = dz_linux_at(c, from[0], from[1], flags, old, &a);
    e = e < 0 ? e : dz_linux_at(c, to[0], to[1], 0, new, &b);
    if (e < 0)
        return e;
    if (!a.path) /* AT_EMPTY_PATH requires a privilege that no program has here */
        return -ENOENT;
    if (!(flags & AT_SYMLINK_FOLLOW))
        a.flags |= DZ_AT_NOFOLLOW;
    return dz_sys_linkat(LINUX_K(c), a, b);
}
LINUX_CALL(link)
{
    return link_at(c, (const int[]){NO_DIR, 0}, (const int[]){NO_DIR, 1}, 0);
}
LINUX_CALL(linkat)
{
    const int flags = arg_int(c, 4);
    if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
        return -EINVAL;
    return link_at(c, (const int[]){0, 1}, (const int[]){2, 3}, flags);
}

static int64_t symlink_at(const linux_call *c, int dir, int path)
{
    char target[PATH_MAX], text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_string(c, c->arg[0], target, sizeof target);
    e = e < 0 ? e : dz_linux_at(c, dir, path, 0, text, &at);
    if (e < 0)
        return e;
    return target[0] ? dz_sys_symlinkat(LINUX_K(c), target, at) : -ENOENT;
}
LINUX_CALL(symlink)
{
    return symlink_at(c, NO_DIR, 1);
}
LINUX_CALL(symlinkat)
{
    return symlink_at(c, 1, 2);
}

static int64_t rename_at(const linux_call *c, const int from[2], const int to[2], uint32_t flags)
{
    char old[PATH_MAX], new[PATH_MAX];
    struct dz_at a, b;
    if ((flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE)) ||
        flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
        return -EINVAL;
    int e = dz_linux_at(c, from[0], from[1], 0, old, &a);
    e = e < 0 ? e : dz_linux_at(c, to[0], to[1], 0, new, &b);
    return e < 0 ? e : dz_sys_renameat(LINUX_K(c), a, b, flags);
}
LINUX_CALL(rename)
{
    return rename_at(c, (const int[]){NO_DIR, 0}, (const int[]){NO_DIR, 1}, 0);
}
LINUX_CALL(renameat)
{
    return rename_at(c, (const int[]){0, 1}, (const int[]){2, 3}, 0);
}
LINUX_CALL(renameat2)
{
    return rename_at(c, (const int[]){0, 1}, (const int[]){2, 3}, arg_u32(c, 4));
}

/* ---- attributes -------------------------------------------------------------------------- */

static int64_t chmod_at(const linux_call *c, int dir, int path, uint32_t mode, int flags)
{
    char text[PATH_MAX];
    struct dz_kstat st;
    struct dz_at at;
    int64_t r = dz_linux_at(c, dir, path, flags, text, &at);
    if (r == 0 && (flags & AT_SYMLINK_NOFOLLOW)) {
        r = dz_sys_fstatat(LINUX_K(c), at, &st);
        if (r == 0 && S_ISLNK(st.mode))
            return -EOPNOTSUPP;
    }
    return r < 0 ? r : dz_sys_fchmodat(LINUX_K(c), at, mode);
}
LINUX_CALL(chmod)
{
    return chmod_at(c, NO_DIR, 0, arg_u32(c, 1), 0);
}
LINUX_CALL(fchmodat)
{
    return chmod_at(c, 0, 1, arg_u32(c, 2), 0);
}
LINUX_CALL(fchmodat2)
{
    const int flags = arg_int(c, 3);
    if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
        return -EINVAL;
    return chmod_at(c, 0, 1, arg_u32(c, 2), flags);
}
LINUX_CALL(fchmod)
{
    struct dz_at at;
    int e = dz_linux_at_fd(c, arg_int(c, 0), &at);
    return e < 0 ? e : dz_sys_fchmodat(LINUX_K(c), at, arg_u32(c, 1));
}

static int64_t chown_at(const linux_call *c, int dir, int path, int ids, int flags)
{
    char text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_at(c, dir, path, flags, text, &at);
    return e < 0 ? e : dz_sys_fchownat(LINUX_K(c), at, arg_u32(c, ids), arg_u32(c, ids + 1));
}
LINUX_CALL(chown)
{
    return chown_at(c, NO_DIR, 0, 1, 0);
}
LINUX_CALL(lchown)
{
    return chown_at(c, NO_DIR, 0, 1, AT_SYMLINK_NOFOLLOW);
}
LINUX_CALL(fchownat)
{
    const int flags = arg_int(c, 4);
    if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
        return -EINVAL;
    return chown_at(c, 0, 1, 2, flags);
}
LINUX_CALL(fchown)
{
    struct dz_at at;
    int e = dz_linux_at_fd(c, arg_int(c, 0), &at);
    return e < 0 ? e : dz_sys_fchownat(LINUX_K(c), at, arg_u32(c, 1), arg_u32(c, 2));
}

/* ---- times of files ------------------------------------------------------------------------ */

/* Two struct timespec (unit 1) or timeval (1000), or none: now. */
static int file_times(const linux_call *c, uint64_t from, int64_t unit, int64_t ret[2])
{
    int64_t v[2][2];
    ret[0] = ret[1] = DZ_VFS_TIME_NOW;
    if (from == 0)
        return 0;
    if (dz_linux_get(c, from, v, sizeof v) < 0)
        return -EFAULT;
    for (int i = 0; i < 2; i++) {
        if (unit == 1 && v[i][1] == UTIME_NOW)
            continue;
        if (unit == 1 && v[i][1] == UTIME_OMIT) {
            ret[i] = DZ_VFS_TIME_OMIT;
            continue;
        }
        if (v[i][1] < 0 || v[i][1] >= 1000000000 / unit)
            return -EINVAL;
        if (__builtin_mul_overflow(v[i][0], 1000000000, &ret[i]) ||
            __builtin_add_overflow(ret[i], v[i][1] * unit, &ret[i]) || ret[i] <= DZ_VFS_TIME_OMIT)
            ret[i] = v[i][0] < 0 ? DZ_VFS_TIME_OMIT + 1 : INT64_MAX; /* as far as a file can say */
    }
    return 0;
}

static int64_t times_at(const linux_call *c, int dir, int path, const int64_t times[2], int flags)
{
    char text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_at(c, dir, path, flags, text, &at);
    return e < 0 ? e : dz_sys_utimensat(LINUX_K(c), at, times);
}
LINUX_CALL(utimensat)
{
    int64_t times[2];
    struct dz_at at;
    const int dirfd = arg_int(c, 0), flags = arg_int(c, 3);
    int e = file_times(c, c->arg[2], 1, times);
    if (e < 0)
        return e;
    if (times[0] == DZ_VFS_TIME_OMIT && times[1] == DZ_VFS_TIME_OMIT)
        return 0;
    if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
        return -EINVAL;
    if (c->arg[1] != 0 || dirfd == AT_FDCWD)
        return times_at(c, 0, 1, times, flags);
    if (flags != 0)
        return -EINVAL;
    e = dz_linux_at_fd(c, dirfd, &at);
    return e < 0 ? e : dz_sys_utimensat(LINUX_K(c), at, times);
}
LINUX_CALL(futimesat)
{
    int64_t times[2];
    struct dz_at at;
    int e = file_times(c, c->arg[2], 1000, times);
    if (e < 0)
        return e;
    if (c->arg[1] != 0)
        return times_at(c, 0, 1, times, 0);
    e = dz_linux_at_fd(c, arg_int(c, 0), &at);
    return e < 0 ? e : dz_sys_utimensat(LINUX_K(c), at, times);
}
LINUX_CALL(utimes)
{
    int64_t times[2];
    int e = file_times(c, c->arg[1], 1000, times);
    return e < 0 ? e : times_at(c, NO_DIR, 0, times, 0);
}
LINUX_CALL(utime)
{
    int64_t v[2], times[2] = {DZ_VFS_TIME_NOW, DZ_VFS_TIME_NOW};
    if (c->arg[1] != 0 && dz_linux_get(c, c->arg[1], v, sizeof v) < 0)
        return -EFAULT;
    for (int i = 0; c->arg[1] != 0 && i < 2; i++)
        if (__builtin_mul_overflow(v[i], 1000000000, &times[i]))
            times[i] = v[i] < 0 ? DZ_VFS_TIME_OMIT + 1 : INT64_MAX;
    return times_at(c, NO_DIR, 0, times, 0);
}

/* ---- where a process is --------------------------------------------------------------------- */

LINUX_CALL(chdir)
{
    char text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_at(c, NO_DIR, 0, 0, text, &at);
    return e < 0 ? e : dz_sys_chdir(LINUX_K(c), at);
}
LINUX_CALL(fchdir)
{
    struct dz_at at;
    int e = dz_linux_at_fd(c, arg_int(c, 0), &at);
    return e < 0 ? e : dz_sys_chdir(LINUX_K(c), at);
}
LINUX_CALL(chroot)
{
    char text[PATH_MAX];
    struct dz_at at;
    int e = dz_linux_at(c, NO_DIR, 0, 0, text, &at);
    return e < 0 ? e : dz_sys_chroot(LINUX_K(c), at);
}
LINUX_CALL(getcwd)
{
    char text[PATH_MAX];
    const int64_t n = dz_sys_getcwd(LINUX_K(c), text, sizeof text);
    if (n < 0)
        return n;
    if ((uint64_t)n > c->arg[1])
        return -ERANGE;
    return dz_linux_put(c, c->arg[0], text, (size_t)n) < 0 ? -EFAULT : n;
}
LINUX_CALL(umask)
{
    return dz_sys_umask(LINUX_K(c), arg_u32(c, 0));
}
