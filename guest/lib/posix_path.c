/* SPDX-License-Identifier: MIT
 *
 * posix_path.c - every call that names a file, but for opening it.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

static struct timespec ns(int64_t t)
{
    struct timespec s;

    s.tv_sec = (time_t)(t / 1000000000);
    s.tv_nsec = (long)(t % 1000000000);
    if (s.tv_nsec < 0) { /* before 1970: the nanoseconds still count upwards */
        s.tv_sec--;
        s.tv_nsec += 1000000000;
    }
    return s;
}

int fstatat(int d, const char *p, struct stat *s, int fl)
{
    struct doze_stat k;
    int r = posix_ret(doze_stat(d, p, fl, &k));

    if (r)
        return r;
    memset(s, 0, sizeof *s);
    s->st_dev = k.dev;
    s->st_ino = k.ino;
    s->st_nlink = k.nlink;
    s->st_mode = k.mode;
    s->st_uid = k.uid;
    s->st_gid = k.gid;
    s->st_rdev = k.rdev;
    s->st_size = (off_t)k.size;
    s->st_blksize = (blksize_t)k.blksize;
    s->st_blocks = (blkcnt_t)k.blocks;
    s->st_atim = ns(k.atime_ns);
    s->st_mtim = ns(k.mtime_ns);
    s->st_ctim = ns(k.ctime_ns);
    return 0;
}

/* A null path means the descriptor itself. */
int stat(const char *p, struct stat *s)
{
    return fstatat(AT_FDCWD, p, s, 0);
}

int lstat(const char *p, struct stat *s)
{
    return fstatat(AT_FDCWD, p, s, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat *s)
{
    return fstatat(fd, 0, s, 0);
}

int __wasilibc_nocwd_fstatat(int d, const char *p, struct stat *s, int fl)
{
    return fstatat(d, p, s, fl);
}

int faccessat(int d, const char *p, int m, int fl)
{
    return posix_ret(doze_access(d, p, m, fl));
}

int access(const char *p, int m)
{
    return faccessat(AT_FDCWD, p, m, 0);
}

int euidaccess(const char *p, int m)
{
    return faccessat(AT_FDCWD, p, m, AT_EACCESS);
}

int eaccess(const char *p, int m)
{
    return faccessat(AT_FDCWD, p, m, AT_EACCESS);
}

ssize_t readlinkat(int d, const char *p, char *b, size_t n)
{
    if (n == 0)
        return posix_fail(EINVAL);
    return posix_ret(doze_readlink(d, p, b, n > INT_MAX ? INT_MAX : (int)n));
}

ssize_t readlink(const char *p, char *b, size_t n)
{
    return readlinkat(AT_FDCWD, p, b, n);
}

int unlinkat(int d, const char *p, int fl)
{
    if (fl & ~AT_REMOVEDIR)
        return posix_fail(EINVAL);
    return posix_ret(doze_unlink(d, p, !!(fl & AT_REMOVEDIR)));
}

int unlink(const char *p)
{
    return unlinkat(AT_FDCWD, p, 0);
}

int rmdir(const char *p)
{
    return unlinkat(AT_FDCWD, p, AT_REMOVEDIR);
}

int remove(const char *p)
{
    int r = unlink(p);

    return r && errno == EISDIR ? rmdir(p) : r;
}

int mkdirat(int d, const char *p, mode_t m)
{
    return posix_ret(doze_mkdir(d, p, (int)m));
}

int mkdir(const char *p, mode_t m)
{
    return mkdirat(AT_FDCWD, p, m);
}

int mknodat(int d, const char *p, mode_t m, dev_t v)
{
    return posix_ret(doze_mknod(d, p, (int)m, (int)v));
}

int mknod(const char *p, mode_t m, dev_t v)
{
    return mknodat(AT_FDCWD, p, m, v);
}

int mkfifo(const char *p, mode_t m)
{
    return mknod(p, m | S_IFIFO, 0);
}

int mkfifoat(int d, const char *p, mode_t m)
{
    return mknodat(d, p, m | S_IFIFO, 0);
}

int linkat(int od, const char *o, int nd, const char *n, int fl)
{
    return posix_ret(doze_link(od, o, nd, n, fl));
}

int link(const char *o, const char *n)
{
    return linkat(AT_FDCWD, o, AT_FDCWD, n, 0);
}

int symlinkat(const char *t, int d, const char *p)
{
    return posix_ret(doze_symlink(t, d, p));
}

int symlink(const char *t, const char *p)
{
    return symlinkat(t, AT_FDCWD, p);
}

int renameat2(int od, const char *o, int nd, const char *n, unsigned flags)
{
    return posix_ret(doze_rename(od, o, nd, n, (int)flags));
}

int renameat(int od, const char *o, int nd, const char *n)
{
    return renameat2(od, o, nd, n, 0);
}

int rename(const char *o, const char *n)
{
    return renameat(AT_FDCWD, o, AT_FDCWD, n);
}

int fchmodat(int d, const char *p, mode_t m, int fl)
{
    return posix_ret(doze_chmod(d, p, (int)m, fl));
}

int chmod(const char *p, mode_t m)
{
    return fchmodat(AT_FDCWD, p, m, 0);
}

int lchmod(const char *p, mode_t m)
{
    return fchmodat(AT_FDCWD, p, m, AT_SYMLINK_NOFOLLOW);
}

int fchmod(int fd, mode_t m)
{
    return fchmodat(fd, 0, m, 0);
}

int fchownat(int d, const char *p, uid_t u, gid_t g, int fl)
{
    return posix_ret(doze_chown(d, p, (int)u, (int)g, fl));
}

int chown(const char *p, uid_t u, gid_t g)
{
    return fchownat(AT_FDCWD, p, u, g, 0);
}

int lchown(const char *p, uid_t u, gid_t g)
{
    return fchownat(AT_FDCWD, p, u, g, AT_SYMLINK_NOFOLLOW);
}

int fchown(int fd, uid_t u, gid_t g)
{
    return fchownat(fd, 0, u, g, 0);
}

mode_t umask(mode_t m)
{
    return (mode_t)doze_umask((int)m);
}

int utimensat(int d, const char *p, const struct timespec t[2], int fl)
{
    int64_t v[2] = {DOZE_TIME_NOW, DOZE_TIME_NOW};
    int i;

    for (i = 0; t && i < 2; i++) {
        long n = t[i].tv_nsec;
        if (n != UTIME_NOW && n != UTIME_OMIT && (n < 0 || n > 999999999))
            return posix_fail(EINVAL);
        v[i] = t[i].tv_nsec == UTIME_NOW    ? DOZE_TIME_NOW
               : t[i].tv_nsec == UTIME_OMIT ? DOZE_TIME_OMIT
                                            : t[i].tv_sec * 1000000000LL + t[i].tv_nsec;
    }
    return posix_ret(doze_utimes(d, p, v, fl));
}

int futimens(int fd, const struct timespec t[2])
{
    return utimensat(fd, 0, t, 0);
}

static int set_times(int d, const char *p, const struct timeval t[2], int fl)
{
    struct timespec s[2];
    int i;

    for (i = 0; t && i < 2; i++) {
        if (t[i].tv_usec < 0 || t[i].tv_usec > 999999)
            return posix_fail(EINVAL);
        s[i].tv_sec = t[i].tv_sec;
        s[i].tv_nsec = (long)t[i].tv_usec * 1000;
    }
    return utimensat(d, p, t ? s : NULL, fl);
}

int utimes(const char *p, const struct timeval t[2])
{
    return set_times(AT_FDCWD, p, t, 0);
}

int lutimes(const char *p, const struct timeval t[2])
{
    return set_times(AT_FDCWD, p, t, AT_SYMLINK_NOFOLLOW);
}

int futimes(int fd, const struct timeval t[2])
{
    return set_times(fd, NULL, t, 0);
}

int utime(const char *p, const struct utimbuf *u)
{
    struct timespec s[2] = {{0}};

    if (u) {
        s[0].tv_sec = u->actime;
        s[1].tv_sec = u->modtime;
    }
    return utimensat(AT_FDCWD, p, u ? s : 0, 0);
}
