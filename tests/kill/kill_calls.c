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
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Shared with the jailed processes that it forks. One of those cannot kill its
 * parent: it ends, and the parent dies at its own next call, having changed nothing
 * in between. */
static struct {
    atomic_long left, done;
    atomic_bool over;
    pid_t main;
} *counts;

void kill_at(long n)
{
    if (!counts)
        counts =
            mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        abort();
    counts->main = getpid();
    atomic_store(&counts->over, false);
    atomic_store(&counts->done, 0);
    atomic_store(&counts->left, n);
}

long kill_calls(void)
{
    return atomic_load(&counts->done);
}

static void count(void)
{
    if (!counts)
        return;
    atomic_fetch_add(&counts->done, 1);
    if (atomic_load(&counts->left) >= 0 && atomic_fetch_sub(&counts->left, 1) == 0)
        atomic_store(&counts->over, true);
    if (!atomic_load(&counts->over))
        return;
    if (getpid() != counts->main)
        _exit(0);
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
