/* SPDX-License-Identifier: MIT
 *
 * Definitions in the program go before those of libc, also for the libraries that
 * it is linked with; so all of ours, and SQLite through our VFS, come here.
 */
#include "kill_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long left = -1, done;

void kill_at(long n)
{
    atomic_store(&done, 0);
    atomic_store(&left, n);
}

long kill_calls(void)
{
    return atomic_load(&done);
}

static void count(void)
{
    atomic_fetch_add(&done, 1);
    if (atomic_load(&left) >= 0 && atomic_fetch_sub(&left, 1) == 0)
        (void)syscall(SYS_kill, getpid(), SIGKILL);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    count();
    return syscall(SYS_pwrite64, fd, data, n, at);
}

ssize_t write(int fd, const void *data, size_t n)
{
    if (fd > 2)
        count();
    return syscall(SYS_write, fd, data, n);
}

int fsync(int fd)
{
    count();
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    count();
    return (int)syscall(SYS_fdatasync, fd);
}

int ftruncate(int fd, off_t size)
{
    count();
    return (int)syscall(SYS_ftruncate, fd, size);
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
    count();
    return (int)syscall(SYS_fallocate, fd, mode, at, size);
}

ssize_t copy_file_range(int in, off_t *in_at, int out, off_t *out_at, size_t n, unsigned flags)
{
    count();
    /* in small steps, so that it is also cut in the middle of a file */
    return syscall(SYS_copy_file_range, in, in_at, out, out_at, n > 20000 ? 20000 : n, flags);
}

int renameat(int from, const char *old, int to, const char *new)
{
    count();
    return (int)syscall(SYS_renameat2, from, old, to, new, 0);
}

int unlinkat(int dir, const char *path, int flags)
{
    count();
    return (int)syscall(SYS_unlinkat, dir, path, flags);
}

int unlink(const char *path)
{
    count();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int openat(int dir, const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list ap;
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
        count();
    }
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}
