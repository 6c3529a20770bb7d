/* SPDX-License-Identifier: MIT
 *
 * wasi_doze_file.c - the process ABI: descriptors and paths.
 * docs/format/abi.md says what each call means.
 */
#include "wasi/wasi_int.h"

#include "vfs/vfs_at.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    ABI_AT_FDCWD = -2,
    ABI_NOFOLLOW = 1,
    ABI_FOLLOW = 2,
    ABI_EACCESS = 0x200,
    ABI_NONBLOCK = 4,
    ABI_CLOEXEC = 0x20000000,
    ABI_NOCTTY = 0x40000000,
    IOCTL_SIZE_MAX = 256,
};

static int dirfd_arg(const struct call *c, int i)
{
    int fd = arg_i32(c, i);
    return fd == ABI_AT_FDCWD ? AT_FDCWD : fd < 0 ? -1 : fd;
}

/* dirfd and path in arguments i and i + 1; a null path is the descriptor. */
static int64_t at_arg(const struct call *c, int i, struct dz_at *ret)
{
    *ret = (struct dz_at){.dirfd = dirfd_arg(c, i)};
    if (arg_u32(c, i + 1) == 0)
        return 0;
    return dz_wasi_cstr(c, arg_u32(c, i + 1), PATH_MAX, &ret->path);
}

/* The same for calls that make or remove a name: there must be one. */
static int64_t name_arg(const struct call *c, int i, struct dz_at *ret)
{
    int64_t r = at_arg(c, i, ret);
    return r == 0 && !ret->path ? -EFAULT : r;
}

/* --- descriptors ------------------------------------------------------------ */

WASI_DOZE(dup)
{
    int fd = arg_i32(c, 0), to = arg_i32(c, 1);
    bool cloexec = arg_u32(c, 2) != 0;
    if (!arg_u32(c, 3))
        return dz_sys_dup(c->k, c->p, fd, to, cloexec);
    return cloexec ? dz_sys_dup3(c->k, c->p, fd, to, O_CLOEXEC) : dz_sys_dup2(c->k, c->p, fd, to);
}

WASI_DOZE(pipe)
{
    int fds[2];
    uint32_t flags = arg_u32(c, 1);
    uint8_t *out = guest(c, arg_u32(c, 0), sizeof fds);
    if (!out)
        return -EFAULT;
    if (flags & ~(uint32_t)(ABI_CLOEXEC | ABI_NONBLOCK))
        return -EINVAL;
    int64_t r = dz_sys_pipe2(
        c->k, c->p, (flags & ABI_CLOEXEC ? O_CLOEXEC : 0) | (flags & ABI_NONBLOCK ? O_NONBLOCK : 0),
        fds);
    if (r >= 0)
        memcpy(out, fds, sizeof fds);
    return r;
}

/* Open flags, ours and Linux's. The access mode is two bits of its own in ours. */
static const struct {
    uint32_t abi;
    int host;
} flag_map[] = {
    {0x1, O_APPEND},          {0x2, O_DSYNC},         {ABI_NONBLOCK, O_NONBLOCK},
    {0x10, O_SYNC},           {0x1000, O_CREAT},      {0x2000, O_DIRECTORY},
    {0x4000, O_EXCL},         {0x8000, O_TRUNC},      {0x01000000, O_NOFOLLOW},
    {ABI_CLOEXEC, O_CLOEXEC}, {ABI_NOCTTY, O_NOCTTY},
};
enum {
    ABI_RSYNC = 8,
    ABI_EXEC = 0x02000000,
    ABI_RDONLY = 0x04000000,
    ABI_SEARCH = 0x08000000,
    ABI_WRONLY = 0x10000000,
};

static int open_flags(uint32_t abi)
{
    int host = O_RDONLY;
    if ((abi & ABI_WRONLY) && (abi & ABI_RDONLY))
        host = O_RDWR;
    else if (abi & ABI_WRONLY)
        host = O_WRONLY;
    else if (abi & (ABI_EXEC | ABI_SEARCH))
        host = O_PATH;
    for (size_t i = 0; i < DZ_ARRAY_LEN(flag_map); i++)
        if (abi & flag_map[i].abi)
            host |= flag_map[i].host;
    return host;
}

static int64_t abi_flags(int64_t host)
{
    uint32_t abi = ABI_RDONLY;
    if ((host & O_ACCMODE) == O_RDWR)
        abi = ABI_RDONLY | ABI_WRONLY;
    else if ((host & O_ACCMODE) == O_WRONLY)
        abi = ABI_WRONLY;
    else if (host & O_PATH)
        abi = ABI_SEARCH;
    for (size_t i = 0; i < DZ_ARRAY_LEN(flag_map); i++)
        if ((host & flag_map[i].host) == flag_map[i].host)
            abi |= flag_map[i].abi;
    return abi;
}

WASI_DOZE(fcntl)
{
    int fd = arg_i32(c, 0), cmd = arg_i32(c, 1);
    int64_t r;
    switch (cmd) {
    case F_GETFD:
    case F_SETFD:
        return dz_sys_fcntl(c->k, c->p, fd, cmd, arg_i32(c, 2));
    case F_GETFL:
        r = dz_sys_fcntl(c->k, c->p, fd, cmd, 0);
        return r < 0 ? r : abi_flags(r);
    case F_SETFL:
        return dz_sys_fcntl(c->k, c->p, fd, cmd, open_flags(arg_u32(c, 2)) & ~O_ACCMODE);
    default:
        return -EINVAL;
    }
}

WASI_DOZE(lock)
{
    static const int record[] = {F_GETLK, F_SETLK, F_SETLKW};
    int fd = arg_i32(c, 0);
    uint32_t how = arg_u32(c, 1);
    int16_t type, whence;
    uint8_t *at = guest(c, arg_u32(c, 2), 24);
    if (!at)
        return -EFAULT;
    if (how > 4)
        return -EINVAL;
    memcpy(&type, at + 20, 2);
    memcpy(&whence, at + 22, 2);
    if (type < F_RDLCK || type > F_UNLCK)
        return -EINVAL;
    if (how > 2) {
        int op = type == F_RDLCK ? LOCK_SH : type == F_WRLCK ? LOCK_EX : LOCK_UN;
        return dz_sys_flock(c->k, c->p, fd, op | (how == 3 ? LOCK_NB : 0));
    }
    struct dz_flock l = {.type = type,
                         .whence = whence,
                         .start = (int64_t)get_u64(at),
                         .len = (int64_t)get_u64(at + 8)};
    int64_t r = dz_sys_fcntl_lock(c->k, c->p, fd, record[how], &l);
    if (r >= 0 && how == 0) {
        put_u64(at, (uint64_t)l.start);
        put_u64(at + 8, (uint64_t)l.len);
        put_u32(at + 16, (uint32_t)l.pid);
        memcpy(at + 20, &l.type, 2);
    }
    return r;
}

WASI_DOZE(ioctl)
{
    _Alignas(8) uint8_t arg[IOCTL_SIZE_MAX];
    int fd = arg_i32(c, 0);
    uint32_t req = arg_u32(c, 1);
    int size = dz_ioctl_size(req);
    if (!dz_sys_fd(c->k, c->p, fd))
        return -EBADF;
    if (size < 0 || size > IOCTL_SIZE_MAX)
        return -ENOTTY;
    if (size == 0)
        return dz_sys_ioctl(c->k, c->p, fd, req, (void *)(uintptr_t)arg_u32(c, 2));
    uint8_t *at = guest(c, arg_u32(c, 2), (uint64_t)size);
    if (!at)
        return -EFAULT;
    memcpy(arg, at, (size_t)size);
    int64_t r = dz_sys_ioctl(c->k, c->p, fd, req, arg);
    if (r >= 0)
        memcpy(at, arg, (size_t)size);
    return r;
}

WASI_DOZE(poll)
{
    struct pollfd fds[DZ_KERNEL_POLL_MAX];
    uint32_t n = arg_u32(c, 1);
    int64_t us = arg_i64(c, 2);
    uint8_t *mask_at;
    uint64_t mask = 0;
    if (n > DZ_KERNEL_POLL_MAX)
        return -EINVAL;
    uint8_t *at = guest(c, arg_u32(c, 0), (uint64_t)n * sizeof fds[0]);
    if (!at || !guest_opt(c, arg_u32(c, 3), 8, &mask_at))
        return -EFAULT;
    memcpy(fds, at, n * sizeof fds[0]);
    if (mask_at)
        mask = get_u64(mask_at);
    int64_t ns = us < 0 || us > INT64_MAX / 1000 ? -1 : us * 1000;
    int64_t r = dz_sys_poll(c->k, c->p, fds, n, ns, mask_at ? &mask : NULL);
    if (r >= 0)
        memcpy(at, fds, n * sizeof fds[0]);
    return r;
}

/* --- paths -------------------------------------------------------------------- */

WASI_DOZE(open)
{
    struct dz_at at = {0};
    int64_t r = name_arg(c, 0, &at);
    return r < 0 ? r
                 : dz_sys_openat(c->k, c->p, at, open_flags(arg_u32(c, 2)), arg_u32(c, 3) & 07777);
}

WASI_DOZE(stat)
{
    struct dz_at at = {0};
    struct dz_kstat st = {0};
    uint8_t *out = guest(c, arg_u32(c, 3), 88);
    int64_t r = at_arg(c, 0, &at);
    if (r == 0 && !out)
        r = -EFAULT;
    at.flags = arg_u32(c, 2) & ABI_NOFOLLOW ? DZ_AT_NOFOLLOW : 0;
    if (r == 0)
        r = dz_sys_fstatat(c->k, c->p, at, &st);
    if (r < 0)
        return r;
    const uint64_t wide[6] = {st.dev, st.ino, st.nlink, st.rdev, st.size, st.blocks};
    const uint32_t narrow[4] = {st.mode, st.uid, st.gid, st.blksize};
    const int64_t times[3] = {st.atime, st.mtime, st.ctime};
    memcpy(out, wide, sizeof wide);
    memcpy(out + 48, narrow, sizeof narrow);
    memcpy(out + 64, times, sizeof times);
    return 0;
}

WASI_DOZE(access)
{
    struct dz_at at = {0};
    int64_t r = name_arg(c, 0, &at);
    if (r < 0)
        return r;
    at.flags = (arg_u32(c, 3) & ABI_NOFOLLOW ? DZ_AT_NOFOLLOW : 0) |
               (arg_u32(c, 3) & ABI_EACCESS ? DZ_AT_EACCESS : 0);
    return dz_sys_faccessat(c->k, c->p, at, arg_i32(c, 2));
}

WASI_DOZE(readlink)
{
    struct dz_at at = {0};
    uint32_t size = arg_u32(c, 3);
    uint8_t *out = guest(c, arg_u32(c, 2), size);
    int64_t r = name_arg(c, 0, &at);
    if (r < 0)
        return r;
    if (size == 0 || size > INT32_MAX)
        return -EINVAL;
    if (!out)
        return -EFAULT;
    at.flags = DZ_AT_NOFOLLOW;
    return dz_sys_readlinkat(c->k, c->p, at, (char *)out, size);
}

WASI_DOZE(unlink)
{
    struct dz_at at = {0};
    int64_t r = name_arg(c, 0, &at);
    return r < 0 ? r : dz_sys_unlinkat(c->k, c->p, at, arg_u32(c, 2) != 0);
}

WASI_DOZE(mkdir)
{
    struct dz_at at = {0};
    int64_t r = name_arg(c, 0, &at);
    return r < 0 ? r : dz_sys_mkdirat(c->k, c->p, at, arg_u32(c, 2) & 07777);
}

WASI_DOZE(mknod)
{
    struct dz_at at = {0};
    int64_t r = name_arg(c, 0, &at);
    return r < 0 ? r : dz_sys_mknodat(c->k, c->p, at, arg_u32(c, 2), arg_u32(c, 3));
}

WASI_DOZE(link)
{
    struct dz_at from = {0}, to = {0};
    int64_t r = name_arg(c, 0, &from);
    if (r == 0)
        r = name_arg(c, 2, &to);
    if (r < 0)
        return r;
    from.flags = arg_u32(c, 4) & ABI_FOLLOW ? 0 : DZ_AT_NOFOLLOW;
    return dz_sys_linkat(c->k, c->p, from, to);
}

WASI_DOZE(symlink)
{
    struct dz_at at = {0};
    const char *target;
    int64_t r = dz_wasi_cstr(c, arg_u32(c, 0), PATH_MAX, &target);
    if (r == 0)
        r = name_arg(c, 1, &at);
    return r < 0 ? r : dz_sys_symlinkat(c->k, c->p, target, at);
}

WASI_DOZE(rename)
{
    struct dz_at from = {0}, to = {0};
    int64_t r = name_arg(c, 0, &from);
    if (r == 0)
        r = name_arg(c, 2, &to);
    if (r == 0 && arg_u32(c, 4) > 2)
        r = -EINVAL;
    return r < 0 ? r : dz_sys_renameat(c->k, c->p, from, to, arg_u32(c, 4));
}

WASI_DOZE(chmod)
{
    struct dz_at at = {0};
    int64_t r = at_arg(c, 0, &at);
    if (r < 0)
        return r;
    at.flags = arg_u32(c, 3) & ABI_NOFOLLOW ? DZ_AT_NOFOLLOW : 0;
    return dz_sys_fchmodat(c->k, c->p, at, arg_u32(c, 2) & 07777);
}

WASI_DOZE(chown)
{
    struct dz_at at = {0};
    int64_t r = at_arg(c, 0, &at);
    if (r < 0)
        return r;
    at.flags = arg_u32(c, 4) & ABI_NOFOLLOW ? DZ_AT_NOFOLLOW : 0;
    return dz_sys_fchownat(c->k, c->p, at, arg_u32(c, 2), arg_u32(c, 3));
}

WASI_DOZE(utimes)
{
    struct dz_at at = {0};
    int64_t times[2];
    const uint8_t *in = guest(c, arg_u32(c, 2), sizeof times);
    int64_t r = at_arg(c, 0, &at);
    if (r < 0)
        return r;
    if (!in)
        return -EFAULT;
    memcpy(times, in, sizeof times);
    at.flags = arg_u32(c, 3) & ABI_NOFOLLOW ? DZ_AT_NOFOLLOW : 0;
    return dz_sys_utimensat(c->k, c->p, at, times);
}

WASI_DOZE(chdir)
{
    struct dz_at at = {0};
    int64_t r = at_arg(c, 0, &at);
    return r < 0 ? r : dz_sys_chdir(c->k, c->p, at);
}

WASI_DOZE(chroot)
{
    struct dz_at at = {.dirfd = AT_FDCWD};
    int64_t r = dz_wasi_cstr(c, arg_u32(c, 0), PATH_MAX, &at.path);
    return r < 0 ? r : dz_sys_chroot(c->k, c->p, at);
}

WASI_DOZE(umask)
{
    return dz_sys_umask(c->k, c->p, arg_u32(c, 0) & 0777);
}

WASI_DOZE(statfs)
{
    struct dz_at at = {0};
    struct dz_kstatfs st = {0};
    uint8_t *out = guest(c, arg_u32(c, 2), 72);
    int64_t r = at_arg(c, 0, &at);
    if (r == 0 && !out)
        r = -EFAULT;
    if (r == 0)
        r = dz_sys_statfs(c->k, c->p, at, &st);
    if (r < 0)
        return r;
    const uint64_t values[9] = {st.type,  st.bsize, st.blocks,  st.bfree, st.bavail,
                                st.files, st.ffree, st.namemax, st.flags};
    memcpy(out, values, sizeof values);
    return 0;
}
