/* SPDX-License-Identifier: MIT
 *
 * posix_fd.c - duplicating, pipes, fcntl, locks, ioctl.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

int dup(int fd)
{
    return posix_ret(doze_dup(fd, 0, 0, 0));
}

int dup2(int a, int b)
{
    return posix_ret(doze_dup(a, b, 0, 1));
}

int dup3(int a, int b, int f)
{
    if (a == b || (f & ~O_CLOEXEC))
        return posix_fail(EINVAL);
    return posix_ret(doze_dup(a, b, !!(f & O_CLOEXEC), 1));
}

int pipe(int fd[2])
{
    return posix_ret(doze_pipe(fd, 0));
}

int pipe2(int fd[2], int f)
{
    return posix_ret(doze_pipe(fd, f));
}

/* Record locks: one host call for fcntl's three commands. */
static int record_lock(int fd, int cmd, struct flock *l)
{
    struct doze_flock k = {
        .start = l->l_start, .len = l->l_len, .type = l->l_type, .whence = l->l_whence};
    int how = cmd == F_GETLK ? DOZE_LOCK_TEST : cmd == F_SETLK ? DOZE_LOCK_TRY : DOZE_LOCK_WAIT;

    if (posix_ret(doze_lock(fd, how, &k)) < 0)
        return -1;
    if (cmd == F_GETLK) {
        l->l_type = k.type;
        if (k.type != F_UNLCK) {
            l->l_whence = SEEK_SET;
            l->l_start = k.start;
            l->l_len = k.len;
            l->l_pid = k.pid;
        }
    }
    return 0;
}

int fcntl(int fd, int cmd, ...)
{
    va_list ap;
    union {
        int number;
        struct flock *lock;
    } arg;

    arg.lock = NULL;
    va_start(ap, cmd);
    if (cmd != F_GETFD && cmd != F_GETFL)
        arg.lock = va_arg(ap, struct flock *); /* one word, whichever it is */
    va_end(ap);
    switch (cmd) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
        return posix_ret(doze_dup(fd, arg.number, cmd == F_DUPFD_CLOEXEC, 0));
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
        return record_lock(fd, cmd, arg.lock);
    default:
        return posix_ret(doze_fcntl(fd, cmd, arg.number));
    }
}

int flock(int fd, int op)
{
    struct doze_flock k = {.type = F_UNLCK};

    if ((op & ~LOCK_NB) == LOCK_SH)
        k.type = F_RDLCK;
    else if ((op & ~LOCK_NB) == LOCK_EX)
        k.type = F_WRLCK;
    else if ((op & ~LOCK_NB) != LOCK_UN)
        return posix_fail(EINVAL);
    return posix_ret(doze_lock(fd, op & LOCK_NB ? DOZE_LOCK_FLOCK_TRY : DOZE_LOCK_FLOCK_WAIT, &k));
}

int lockf(int fd, int cmd, off_t len)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = len};

    switch (cmd) {
    case F_LOCK:
        return record_lock(fd, F_SETLKW, &l);
    case F_TLOCK:
        return record_lock(fd, F_SETLK, &l);
    case F_ULOCK:
        l.l_type = F_UNLCK;
        return record_lock(fd, F_SETLK, &l);
    case F_TEST:
        if (record_lock(fd, F_GETLK, &l) < 0)
            return -1;
        return l.l_type == F_UNLCK || l.l_pid == getpid() ? 0 : posix_fail(EACCES);
    default:
        return posix_fail(EINVAL);
    }
}

int ioctl(int fd, int req, ...)
{
    va_list ap;
    void *arg;

    va_start(ap, req);
    arg = va_arg(ap, void *);
    va_end(ap);
    return posix_ret(doze_ioctl(fd, req, arg));
}
