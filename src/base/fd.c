/* SPDX-License-Identifier: MIT
 *
 * fd.c - whole reads and writes, replacing a file, locks.
 *
 * read(2) and write(2) may transfer less than requested; the loops here continue until everything
 * is transferred, the file ends or an error occurs. One step moves at most IO_MAX bytes.
 */
#include "base/fd.h"

#include "base/id.h"
#include "base/limits.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    IO_MAX = 1 << 30, /* the kernel moves less than 2 GiB in one call */
};

void dz_fd_close(int *fd)
{
    int saved = errno;
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
    errno = saved;
}

int dz_fd_open(int dir, const char *path, int flags, mode_t mode, struct dz_err *err)
{
    int fd;
    do
        fd = openat(dir, path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd >= 0 ? fd : dz_fail_sys(err, errno, "open %s", path);
}

int dz_fd_reopen(int fd, struct dz_err *err)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int anew = open(path, O_RDONLY | O_CLOEXEC);
    return anew < 0 ? dz_fail_sys(err, errno, "open a file anew") : anew;
}

int dz_fd_stat(int fd, struct stat *ret_stat)
{
    _Static_assert(sizeof(struct stat) == 144, "the kernel's struct stat on x86-64");
    return (int)syscall(SYS_fstat, fd, ret_stat);
}

int dz_fd_read_all(int fd, struct dz_buf *b, struct dz_err *err)
{
    char piece[DZ_IO_PIECE];
    for (;;) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dz_fail_sys(err, errno, "read descriptor %d", fd);
        if (n == 0)
            return 0;
        dz_buf_add(b, piece, (size_t)n);
        if (b->err)
            return dz_fail(err, b->err, "read descriptor %d: %s (at most %zu bytes)", fd,
                           dz_err_text(b->err), b->max);
    }
}

int dz_fd_read_file(int dir, const char *path, struct dz_buf *b, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(dir, path, O_RDONLY, 0, err);
    if (fd < 0)
        return fd;
    int rc = dz_fd_read_all(fd, b, err);
    return rc < 0 ? dz_wrap(err, rc, "read %s", path) : 0;
}

static size_t at_most(size_t n)
{
    return n < IO_MAX ? n : IO_MAX;
}

int dz_fd_pread(int fd, void *ret_data, size_t n, uint64_t at, struct dz_err *err)
{
    char *p = ret_data;
    assert(at <= INT64_MAX && n <= INT64_MAX - at);
    while (n > 0) {
        ssize_t got = pread(fd, p, at_most(n), (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dz_fail_sys(err, errno, "read descriptor %d at %ju", fd, (uintmax_t)at);
        if (got == 0)
            return dz_fail(err, DZ_EIO, "read descriptor %d: it ends at %ju, %zu bytes too early",
                           fd, (uintmax_t)at, n);
        p += got;
        n -= (size_t)got;
        at += (uint64_t)got;
    }
    return 0;
}

/* at < 0: use the descriptor's offset. */
static int write_loop(int fd, const char *p, size_t n, off_t at, struct dz_err *err)
{
    while (n > 0) {
        ssize_t done = at < 0 ? write(fd, p, at_most(n)) : pwrite(fd, p, at_most(n), at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return dz_fail_sys(err, errno, "write to descriptor %d", fd);
        p += done;
        n -= (size_t)done;
        if (at >= 0)
            at += done;
    }
    return 0;
}

int dz_fd_write(int fd, const void *data, size_t n, struct dz_err *err)
{
    return write_loop(fd, data, n, -1, err);
}

int dz_fd_pwrite(int fd, const void *data, size_t n, uint64_t at, struct dz_err *err)
{
    assert(at <= INT64_MAX && n <= INT64_MAX - at);
    return write_loop(fd, data, n, (off_t)at, err);
}

bool dz_fd_put(const char *path, const char *text)
{
    DZ_AUTO(dz_fd_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = (ssize_t)strlen(text);
    return fd >= 0 && write(fd, text, (size_t)n) == n;
}

static int sync_fd(int fd, const char *what, struct dz_err *err)
{
    int rc;
    do
        rc = fsync(fd);
    while (rc < 0 && errno == EINTR);
    return rc == 0 ? 0 : dz_fail_sys(err, errno, "fsync %s", what);
}

int dz_fd_sync_dir(int dir, const char *path, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(dir, path, O_RDONLY | O_DIRECTORY, 0, err);
    return fd < 0 ? fd : sync_fd(fd, path, err);
}

/* Open the parent directory of path; *ret_name is the last component. */
static int open_parent(int dir, const char *path, const char **ret_name, struct dz_err *err)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0; /* with the slash: "/x" is in "/" */

    if (n >= sizeof parent || (slash ? slash + 1 : path)[0] == '\0')
        return dz_fail(err, DZ_EINVAL, "replace %.100s: not a path of a file", path);
    memcpy(parent, path, n);
    parent[n] = '\0';
    int fd = dz_fd_open(dir, n ? parent : ".", O_RDONLY | O_DIRECTORY, 0, err);
    if (fd >= 0)
        *ret_name = slash ? slash + 1 : path;
    return fd;
}

/* Write the contents of the temp file, set its mode and sync it. */
static int fill_temp(int fd, const void *data, size_t n, mode_t mode, struct dz_err *err)
{
    int rc = dz_fd_write(fd, data, n, err);
    if (rc == 0 && fchmod(fd, mode) < 0)
        rc = dz_fail_sys(err, errno, "set mode %04o", (unsigned)mode);
    return rc < 0 ? rc : sync_fd(fd, "the new file", err);
}

int dz_fd_replace(int dir, const char *path, const void *data, size_t n, mode_t mode,
                  struct dz_err *err)
{
    char temp[40];
    const char *name = path;
    uint64_t bits;

    DZ_AUTO(dz_fd_close) int parent = open_parent(dir, path, &name, err);
    if (parent < 0)
        return parent;
    int rc = dz_random(&bits, sizeof bits, err);
    if (rc < 0)
        return rc;
    (void)snprintf(temp, sizeof temp, ".dz-%016jx.tmp", (uintmax_t)bits);
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(parent, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    if (fd < 0)
        return dz_wrap(err, fd, "replace %s", path);
    rc = fill_temp(fd, data, n, mode, err);
    if (rc == 0 && renameat(parent, temp, parent, name) < 0)
        rc = dz_fail_sys(err, errno, "rename to %s", name);
    if (rc < 0) {
        (void)unlinkat(parent, temp, 0);
        return dz_wrap(err, rc, "replace %s", path);
    }
    return sync_fd(parent, "the directory", err);
}

int dz_fd_lock(int fd, enum dz_fd_lock kind, struct dz_err *err)
{
    static const short types[] = {
        [DZ_FD_LOCK_NONE] = F_UNLCK,
        [DZ_FD_LOCK_SHARED] = F_RDLCK,
        [DZ_FD_LOCK_EXCLUSIVE] = F_WRLCK,
    };
    struct flock lock = {.l_type = types[kind], .l_whence = SEEK_SET};
    int rc;

    do
        rc = fcntl(fd, F_OFD_SETLK, &lock);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return 0;
    if (errno == EAGAIN || errno == EACCES)
        return dz_fail(err, DZ_EBUSY, "lock descriptor %d: another process holds a lock", fd);
    return dz_fail_sys(err, errno, "lock descriptor %d", fd);
}
