/* SPDX-License-Identifier: MIT
 *
 * wasi_fd.c - preview 1's calls on descriptors, and rights.
 *
 * A descriptor has the rights of its kind of file, without those that fd_fdstat_set_rights removed
 * or path_open did not request. The kernel stores the bits; only this file knows their meaning.
 */
#include "wasi/wasi_int.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BIT(right) ((uint64_t)1 << RIGHT_##right)
#define RIGHTS_ANY                                                                       \
    (BIT(FD_FDSTAT_SET_FLAGS) | BIT(FD_FILESTAT_GET) | BIT(FD_SYNC) | BIT(FD_DATASYNC) | \
     BIT(FD_FILESTAT_SET_TIMES) | BIT(POLL_FD_READWRITE))
#define RIGHTS_PATHS                                                                         \
    (BIT(PATH_CREATE_DIRECTORY) | BIT(PATH_CREATE_FILE) | BIT(PATH_LINK_SOURCE) |            \
     BIT(PATH_LINK_TARGET) | BIT(PATH_OPEN) | BIT(PATH_READLINK) | BIT(PATH_RENAME_SOURCE) | \
     BIT(PATH_RENAME_TARGET) | BIT(PATH_FILESTAT_GET) | BIT(PATH_FILESTAT_SET_SIZE) |        \
     BIT(PATH_FILESTAT_SET_TIMES) | BIT(PATH_SYMLINK) | BIT(PATH_REMOVE_DIRECTORY) |         \
     BIT(PATH_UNLINK_FILE) | BIT(FD_READDIR))

static uint64_t rights_of_type(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return RIGHTS_ANY | RIGHTS_PATHS;
    case S_IFREG:
    case S_IFBLK:
        return RIGHTS_ANY | BIT(FD_READ) | BIT(FD_WRITE) | BIT(FD_SEEK) | BIT(FD_TELL) |
               BIT(FD_ADVISE) | BIT(FD_ALLOCATE) | BIT(FD_FILESTAT_SET_SIZE);
    case S_IFSOCK:
        return RIGHTS_ANY | BIT(FD_READ) | BIT(FD_WRITE) | BIT(SOCK_SHUTDOWN) | BIT(SOCK_ACCEPT);
    default: /* no FD_SEEK: C libraries recognise a terminal by that */
        return RIGHTS_ANY | BIT(FD_READ) | BIT(FD_WRITE);
    }
}

static uint8_t filetype(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFBLK:
        return 1;
    case S_IFCHR:
        return 2;
    case S_IFDIR:
        return 3;
    case S_IFREG:
        return 4;
    case S_IFSOCK:
        return 6;
    case S_IFLNK:
        return 7;
    default:
        return 0;
    }
}

static int64_t stat_fd(const struct call *c, int fd, struct dz_kstat *ret)
{
    if (!dz_sys_fd(c->k, c->p, fd)) /* AT_FDCWD of the kernel is a guest's number, too */
        return -EBADF;
    return dz_sys_fstatat(c->k, c->p, dz_at_fd(fd), ret);
}

int64_t dz_wasi_check(const struct call *c, int fd, enum wasi_right right)
{
    const struct dz_fd *slot = dz_sys_fd(c->k, c->p, fd);
    if (!slot)
        return -EBADF;
    return slot->rights >> right & 1 ? 0 : -WASI_ENOTCAPABLE;
}

int64_t dz_wasi_check_type(const struct call *c, int fd, enum wasi_right right, uint32_t *ret_type)
{
    struct dz_kstat st = {0};
    int64_t r = dz_wasi_check(c, fd, right);
    if (r == 0)
        r = stat_fd(c, fd, &st);
    if (r == 0)
        *ret_type = st.mode & S_IFMT;
    return r;
}

void dz_wasi_put_filestat(uint8_t *at, const struct dz_kstat *st)
{
    memset(at, 0, 64);
    put_u64(at, st->dev);
    put_u64(at + 8, st->ino);
    at[16] = filetype(st->mode);
    put_u64(at + 24, st->nlink);
    put_u64(at + 32, st->size);
    put_u64(at + 40, (uint64_t)st->atime);
    put_u64(at + 48, (uint64_t)st->mtime);
    put_u64(at + 56, (uint64_t)st->ctime);
}

WASI_P1(fd_advise)
{
    uint32_t type = 0;
    int64_t r = dz_wasi_check_type(c, arg_i32(c, 0), RIGHT_FD_ADVISE, &type);
    if (r < 0)
        return r;
    if (arg_u32(c, 3) > 5 || arg_i64(c, 1) < 0 || arg_i64(c, 2) < 0)
        return -EINVAL;
    return type == S_IFDIR ? -EBADF : 0;
}

WASI_P1(fd_allocate)
{
    int64_t r = dz_wasi_check(c, arg_i32(c, 0), RIGHT_FD_ALLOCATE);
    if (r < 0)
        return r;
    if (arg_i64(c, 1) < 0 || arg_i64(c, 2) <= 0)
        return -EINVAL;
    return dz_sys_fallocate(c->k, c->p, arg_i32(c, 0), 0, (uint64_t)arg_i64(c, 1),
                            (uint64_t)arg_i64(c, 2));
}

WASI_P1(fd_close)
{
    return dz_sys_close(c->k, c->p, arg_i32(c, 0));
}

WASI_P1(fd_datasync)
{
    int64_t r = dz_wasi_check(c, arg_i32(c, 0), RIGHT_FD_DATASYNC);
    return r < 0 ? r : dz_sys_fsync(c->k, c->p, arg_i32(c, 0));
}

WASI_P1(fd_sync)
{
    int64_t r = dz_wasi_check(c, arg_i32(c, 0), RIGHT_FD_SYNC);
    return r < 0 ? r : dz_sys_fsync(c->k, c->p, arg_i32(c, 0));
}

/* O_APPEND and its like, as the bits of an fdflags. */
static uint16_t fdflags_of(int64_t flags)
{
    uint16_t out = 0;
    if (flags & O_APPEND)
        out |= 1;
    if ((flags & O_SYNC) == O_SYNC)
        out |= 16;
    else if (flags & O_DSYNC)
        out |= 2;
    if (flags & O_NONBLOCK)
        out |= 4;
    return out;
}

WASI_P1(fd_fdstat_get)
{
    struct dz_kstat st = {0};
    int fd = arg_i32(c, 0);
    uint8_t *out = guest(c, arg_u32(c, 1), 24);
    if (!out)
        return -EFAULT;
    int64_t r = stat_fd(c, fd, &st);
    if (r < 0)
        return r;
    const struct dz_fd *slot = dz_sys_fd(c->k, c->p, fd);
    int64_t flags = dz_sys_fcntl(c->k, c->p, fd, F_GETFL, 0);
    uint64_t most = rights_of_type(st.mode);
    memset(out, 0, 24);
    out[0] = filetype(st.mode);
    put_u16(out + 2, fdflags_of(flags));
    put_u64(out + 8, slot->rights & most);
    put_u64(out + 16, S_ISDIR(st.mode) ? slot->inherit & RIGHTS_ALL : 0);
    return 0;
}

WASI_P1(fd_fdstat_set_flags)
{
    uint32_t want = arg_u32(c, 1);
    int64_t r = dz_wasi_check(c, arg_i32(c, 0), RIGHT_FD_FDSTAT_SET_FLAGS);
    if (r < 0)
        return r;
    if (want & ~31u)
        return -EINVAL;
    if (want & 26u) /* a file is synchronous from its opening, or never */
        return -EOPNOTSUPP;
    int flags = (want & 1 ? O_APPEND : 0) | (want & 4 ? O_NONBLOCK : 0);
    return dz_sys_fcntl(c->k, c->p, arg_i32(c, 0), F_SETFL, flags);
}

WASI_P1(fd_fdstat_set_rights)
{
    struct dz_kstat st = {0};
    int fd = arg_i32(c, 0);
    uint64_t base = c->slots[1], inherit = c->slots[2];
    int64_t r = stat_fd(c, fd, &st);
    if (r < 0)
        return r;
    struct dz_fd *slot = dz_sys_fd(c->k, c->p, fd);
    uint64_t have = slot->rights & rights_of_type(st.mode);
    uint64_t give = S_ISDIR(st.mode) ? slot->inherit & RIGHTS_ALL : 0;
    if ((base & ~have) || (inherit & ~give))
        return -WASI_ENOTCAPABLE;
    slot->rights = base;
    slot->inherit = inherit;
    return 0;
}

WASI_P1(fd_filestat_get)
{
    struct dz_kstat st = {0};
    int fd = arg_i32(c, 0);
    uint8_t *out = guest(c, arg_u32(c, 1), 64);
    int64_t r = dz_wasi_check(c, fd, RIGHT_FD_FILESTAT_GET);
    if (r == 0 && !out)
        r = -EFAULT;
    if (r == 0)
        r = stat_fd(c, fd, &st);
    if (r < 0)
        return r;
    dz_wasi_put_filestat(out, &st);
    return 0;
}

WASI_P1(fd_filestat_set_size)
{
    int64_t r = dz_wasi_check(c, arg_i32(c, 0), RIGHT_FD_FILESTAT_SET_SIZE);
    if (r < 0)
        return r;
    if (arg_i64(c, 1) < 0)
        return -EINVAL;
    return dz_sys_ftruncate(c->k, c->p, arg_i32(c, 0), (uint64_t)arg_i64(c, 1));
}

WASI_P1(fd_filestat_set_times)
{
    int64_t times[2];
    int64_t r = dz_wasi_check(c, arg_i32(c, 0), RIGHT_FD_FILESTAT_SET_TIMES);
    if (r == 0)
        r = dz_wasi_times(c->slots[1], c->slots[2], arg_u32(c, 3), times);
    return r < 0 ? r : dz_sys_utimensat(c->k, c->p, dz_at_fd(arg_i32(c, 0)), times);
}

enum direction {
    READING,
    WRITING
};

/* fd, iovs, count, [offset,] result: the four ways of moving bytes. */
static int64_t move(struct call *c, enum direction dir, bool positioned)
{
    struct iovec iov[DZ_KERNEL_IOV_MAX];
    int fd = arg_i32(c, 0);
    uint32_t count = arg_u32(c, 2);
    int64_t r = dz_wasi_check(c, fd, dir == READING ? RIGHT_FD_READ : RIGHT_FD_WRITE);
    if (r == 0 && positioned)
        r = dz_wasi_check(c, fd, RIGHT_FD_SEEK);
    if (r == 0)
        r = dz_wasi_iov(c, arg_u32(c, 1), count, iov);
    if (r < 0)
        return r;
    uint8_t *out = guest(c, arg_u32(c, positioned ? 4 : 3), 4);
    if (!out)
        return -EFAULT;
    if (!positioned) {
        r = dir == READING ? dz_sys_readv(c->k, c->p, fd, iov, count)
                           : dz_sys_writev(c->k, c->p, fd, iov, count);
    } else {
        uint64_t off = c->slots[3];
        int64_t sum = 0;
        if ((int64_t)off < 0)
            return -EINVAL;
        for (uint32_t i = 0; i < count; i++) {
            r = dir == READING
                    ? dz_sys_pread(c->k, c->p, fd, iov[i].iov_base, iov[i].iov_len, off)
                    : dz_sys_pwrite(c->k, c->p, fd, iov[i].iov_base, iov[i].iov_len, off);
            if (r < 0)
                break;
            sum += r;
            off += (uint64_t)r;
            if ((size_t)r < iov[i].iov_len)
                break;
        }
        r = sum > 0 || r >= 0 ? sum : r;
    }
    if (r < 0)
        return r;
    put_u32(out, (uint32_t)r);
    return 0;
}

WASI_P1(fd_read)
{
    return move(c, READING, false);
}

WASI_P1(fd_write)
{
    return move(c, WRITING, false);
}

WASI_P1(fd_pread)
{
    return move(c, READING, true);
}

WASI_P1(fd_pwrite)
{
    return move(c, WRITING, true);
}

/* The name of a preopen. C libraries ask for all descriptors from 3 on until they get EBADF. So an
 * inherited descriptor before a preopen gets a name, too, which no path begins with. */
static const char *preopen_name(const struct call *c, int fd)
{
    const char *name = dz_sys_preopen(c->k, c->p, fd);
    if (name || fd < 3 || !dz_sys_fd(c->k, c->p, fd))
        return name;
    for (int above = fd + 1; above < DZ_KERNEL_FDS_MAX; above++)
        if (dz_sys_preopen(c->k, c->p, above))
            return "/dev/fd/-";
    return NULL;
}

WASI_P1(fd_prestat_get)
{
    const char *name = preopen_name(c, arg_i32(c, 0));
    uint8_t *out = guest(c, arg_u32(c, 1), 8);
    if (!name)
        return -EBADF;
    if (!out)
        return -EFAULT;
    put_u32(out, 0); /* a directory: there is no other kind */
    put_u32(out + 4, (uint32_t)strlen(name));
    return 0;
}

WASI_P1(fd_prestat_dir_name)
{
    const char *name = preopen_name(c, arg_i32(c, 0));
    uint32_t size = arg_u32(c, 2);
    if (!name)
        return -EBADF;
    size_t len = strlen(name);
    if (size < len)
        return -ENAMETOOLONG;
    uint8_t *out = guest(c, arg_u32(c, 1), len);
    if (!out)
        return -EFAULT;
    memcpy(out, name, len);
    return 0;
}

/* Where fd_readdir writes: the last entry is cut when it does not fit. */
struct listing {
    uint8_t *at;
    size_t size, used;
};

static size_t append(struct listing *l, const void *data, size_t n)
{
    size_t room = l->size - l->used;
    n = n < room ? n : room;
    memcpy(l->at + l->used, data, n);
    l->used += n;
    return n;
}

static int add_entry(void *arg, const struct dz_kdirent *e)
{
    struct listing *l = arg;
    uint8_t head[24] = {0};
    put_u64(head, e->cookie);
    put_u64(head + 8, e->ino);
    put_u32(head + 16, (uint32_t)e->len);
    head[20] = filetype(e->type);
    if (append(l, head, sizeof head) < sizeof head)
        return 1;
    return append(l, e->name, e->len) < e->len || l->used == l->size;
}

WASI_P1(fd_readdir)
{
    struct listing l = {.size = arg_u32(c, 2)};
    uint8_t *out = guest(c, arg_u32(c, 4), 4);
    uint32_t type = 0;
    int64_t r = dz_wasi_check_type(c, arg_i32(c, 0), RIGHT_FD_READDIR, &type);
    if (r < 0)
        return r;
    if (type != S_IFDIR)
        return -ENOTDIR;
    l.at = guest(c, arg_u32(c, 1), l.size);
    if (!l.at || !out)
        return -EFAULT;
    r = dz_sys_readdir(c->k, c->p, arg_i32(c, 0), c->slots[3], add_entry, &l);
    if (r < 0)
        return r;
    put_u32(out, (uint32_t)l.used);
    return 0;
}

WASI_P1(fd_renumber)
{
    int from = arg_i32(c, 0), to = arg_i32(c, 1);
    if (!dz_sys_fd(c->k, c->p, from) || !dz_sys_fd(c->k, c->p, to))
        return -EBADF;
    if (from == to)
        return 0;
    int64_t r = dz_sys_dup2(c->k, c->p, from, to);
    if (r < 0)
        return r;
    const struct dz_fd *old = dz_sys_fd(c->k, c->p, from);
    struct dz_fd *slot = dz_sys_fd(c->k, c->p, to);
    slot->rights = old->rights;
    slot->inherit = old->inherit;
    slot->flags = old->flags;
    return dz_sys_close(c->k, c->p, from);
}

static int64_t seek(struct call *c, int64_t off, uint32_t whence, uint32_t result,
                    enum wasi_right right)
{
    static const int map[] = {SEEK_SET, SEEK_CUR, SEEK_END};
    uint32_t type = 0;
    int fd = arg_i32(c, 0);
    uint8_t *out = guest(c, result, 8);
    int64_t r = dz_wasi_check_type(c, fd, right, &type);
    if (r < 0)
        return r;
    if (type == S_IFDIR)
        return -EBADF;
    if (whence >= 3)
        return -EINVAL;
    if (!out)
        return -EFAULT;
    r = dz_sys_lseek(c->k, c->p, fd, off, map[whence]);
    if (r < 0)
        return r;
    put_u64(out, (uint64_t)r);
    return 0;
}

WASI_P1(fd_seek)
{
    return seek(c, arg_i64(c, 1), arg_u32(c, 2), arg_u32(c, 3), RIGHT_FD_SEEK);
}

WASI_P1(fd_tell)
{
    return seek(c, 0, 1, arg_u32(c, 1), RIGHT_FD_TELL);
}
