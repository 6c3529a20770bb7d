/* SPDX-License-Identifier: MIT
 *
 * p1.h - preview 1 as a program sees it, for our own tests of it.
 *
 * The imports are declared as the module has them, with lengths and offsets, so
 * that a test can pass what no library would. Each program has the preopened
 * directory "/" at 3, empty. It prints the line of each check that failed and
 * exits with 1 if there was one.
 */
#ifndef P1_H
#define P1_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define P1(name) \
    __attribute__((import_module("wasi_snapshot_preview1"), import_name(#name))) int p1_##name

P1(args_get)(void *argv, void *buf);
P1(args_sizes_get)(void *count, void *size);
P1(environ_get)(void *env, void *buf);
P1(environ_sizes_get)(void *count, void *size);
P1(clock_res_get)(int clock, void *ret);
P1(clock_time_get)(int clock, uint64_t precision, void *ret);
P1(fd_advise)(int fd, uint64_t off, uint64_t len, int advice);
P1(fd_allocate)(int fd, uint64_t off, uint64_t len);
P1(fd_close)(int fd);
P1(fd_datasync)(int fd);
P1(fd_fdstat_get)(int fd, void *ret);
P1(fd_fdstat_set_flags)(int fd, int flags);
P1(fd_fdstat_set_rights)(int fd, uint64_t base, uint64_t inherit);
P1(fd_filestat_get)(int fd, void *ret);
P1(fd_filestat_set_size)(int fd, uint64_t size);
P1(fd_filestat_set_times)(int fd, uint64_t atim, uint64_t mtim, int flags);
P1(fd_pread)(int fd, const void *iov, int count, uint64_t off, void *ret);
P1(fd_prestat_get)(int fd, void *ret);
P1(fd_prestat_dir_name)(int fd, void *buf, int size);
P1(fd_pwrite)(int fd, const void *iov, int count, uint64_t off, void *ret);
P1(fd_read)(int fd, const void *iov, int count, void *ret);
P1(fd_readdir)(int fd, void *buf, int size, uint64_t cookie, void *ret);
P1(fd_renumber)(int fd, int to);
P1(fd_seek)(int fd, int64_t off, int whence, void *ret);
P1(fd_sync)(int fd);
P1(fd_tell)(int fd, void *ret);
P1(fd_write)(int fd, const void *iov, int count, void *ret);
P1(path_create_directory)(int fd, const char *path, int len);
P1(path_filestat_get)(int fd, int follow, const char *path, int len, void *ret);
P1(path_filestat_set_times)(int fd, int follow, const char *path, int len, uint64_t atim,
                            uint64_t mtim, int flags);
P1(path_link)(int fd, int follow, const char *path, int len, int to_fd, const char *to, int to_len);
P1(path_open)(int fd, int follow, const char *path, int len, int oflags, uint64_t base,
              uint64_t inherit, int fdflags, void *ret);
P1(path_readlink)(int fd, const char *path, int len, void *buf, int size, void *ret);
P1(path_remove_directory)(int fd, const char *path, int len);
P1(path_rename)(int fd, const char *path, int len, int to_fd, const char *to, int to_len);
P1(path_symlink)(const char *target, int target_len, int fd, const char *path, int len);
P1(path_unlink_file)(int fd, const char *path, int len);
P1(poll_oneoff)(const void *in, void *out, int count, void *ret);
P1(proc_raise)(int signo);
P1(random_get)(void *buf, int size);
P1(sched_yield)(void);
P1(sock_accept)(int fd, int flags, void *ret);
P1(sock_recv)(int fd, const void *iov, int count, int flags, void *size, void *ret_flags);
P1(sock_send)(int fd, const void *iov, int count, int flags, void *size);
P1(sock_shutdown)(int fd, int how);

enum {
    OK = 0,
    E_BADF = 8,
    E_EXIST = 20,
    E_FAULT = 21,
    E_FBIG = 22,
    E_ILSEQ = 25,
    E_INVAL = 28,
    E_ISDIR = 31,
    E_LOOP = 32,
    E_NAMETOOLONG = 37,
    E_NOENT = 44,
    E_NOTDIR = 54,
    E_NOTEMPTY = 55,
    E_NOTSOCK = 57,
    E_NOTSUP = 58,
    E_PERM = 63,
    E_SPIPE = 70,
    E_NOTCAPABLE = 76,
};
enum {
    O_CREAT = 1,
    O_DIRECTORY = 2,
    O_EXCL = 4,
    O_TRUNC = 8,
    FD_APPEND = 1,
    FD_DSYNC = 2,
    FD_NONBLOCK = 4,
    FD_RSYNC = 8,
    FD_SYNC = 16,
    TYPE_CHAR = 2,
    TYPE_DIR = 3,
    TYPE_FILE = 4,
    TYPE_LINK = 7,
    TIME_ATIM = 1,
    TIME_ATIM_NOW = 2,
    TIME_MTIM = 4,
    TIME_MTIM_NOW = 8,
    ROOT = 3,
};
#define R(bit)          ((uint64_t)1 << (bit))
#define R_DATASYNC      R(0)
#define R_READ          R(1)
#define R_SEEK          R(2)
#define R_SET_FLAGS     R(3)
#define R_SYNC          R(4)
#define R_TELL          R(5)
#define R_WRITE         R(6)
#define R_ADVISE        R(7)
#define R_ALLOCATE      R(8)
#define R_MKDIR         R(9)
#define R_CREATE        R(10)
#define R_LINK_SOURCE   R(11)
#define R_LINK_TARGET   R(12)
#define R_OPEN          R(13)
#define R_READDIR       R(14)
#define R_READLINK      R(15)
#define R_RENAME_SOURCE R(16)
#define R_RENAME_TARGET R(17)
#define R_PATH_STAT     R(18)
#define R_PATH_SIZE     R(19)
#define R_PATH_TIMES    R(20)
#define R_STAT          R(21)
#define R_SIZE          R(22)
#define R_TIMES         R(23)
#define R_SYMLINK       R(24)
#define R_RMDIR         R(25)
#define R_UNLINK        R(26)
#define R_POLL          R(27)

struct iov {
    const void *at;
    uint32_t size;
};
struct fdstat {
    uint8_t type;
    uint16_t flags;
    uint64_t base, inherit;
};
struct filestat {
    uint64_t dev, ino;
    uint8_t type;
    uint64_t nlink, size, atim, mtim, ctim;
};
struct dirent {
    uint64_t next, ino;
    uint32_t len;
    uint8_t type;
};
_Static_assert(sizeof(struct fdstat) == 24 && sizeof(struct filestat) == 64 &&
                   sizeof(struct dirent) == 24,
               "as the interface has them");

static int bad;
static inline void check(int line, const char *what, long long got, long long want)
{
    if (got == want)
        return;
    fprintf(stderr, "line %d: %s is %lld, not %lld\n", line, what, got, want);
    bad = 1;
}
#define IS(got, want) check(__LINE__, #got, (long long)(got), (long long)(want))

/* Short forms of what nearly every check does: paths are C strings, below `fd`. */
static inline int open_with(int fd, const char *path, int oflags, uint64_t base, int *ret)
{
    return p1_path_open(fd, 0, path, (int)strlen(path), oflags, base, base, 0, ret);
}
/* A new descriptor; -1 and a failed check when there is none. */
static inline int opened_at(int line, int fd, const char *path, int oflags, uint64_t base)
{
    int ret = -1;
    check(line, path, open_with(fd, path, oflags, base, &ret), OK);
    return ret;
}
#define OPEN(path, oflags, base) opened_at(__LINE__, ROOT, path, oflags, base)
static inline int make(const char *path)
{
    int fd = -1, e = open_with(ROOT, path, O_CREAT | O_EXCL, R_WRITE, &fd);
    return e ? e : p1_fd_close(fd);
}
static inline int mkdir_(const char *path)
{
    return p1_path_create_directory(ROOT, path, (int)strlen(path));
}
static inline int rmdir_(const char *path)
{
    return p1_path_remove_directory(ROOT, path, (int)strlen(path));
}
static inline int unlink_(const char *path)
{
    return p1_path_unlink_file(ROOT, path, (int)strlen(path));
}
static inline int symlink_(const char *target, const char *path)
{
    return p1_path_symlink(target, (int)strlen(target), ROOT, path, (int)strlen(path));
}
static inline int link_(const char *from, const char *to)
{
    return p1_path_link(ROOT, 0, from, (int)strlen(from), ROOT, to, (int)strlen(to));
}
static inline int rename_(const char *from, const char *to)
{
    return p1_path_rename(ROOT, from, (int)strlen(from), ROOT, to, (int)strlen(to));
}
static inline int stat_(const char *path, int follow, struct filestat *ret)
{
    return p1_path_filestat_get(ROOT, follow, path, (int)strlen(path), ret);
}
/* Bytes moved, or minus the errno. */
static inline int write_(int fd, const char *text)
{
    struct iov v = {text, (uint32_t)strlen(text)};
    uint32_t n = 0;
    int e = p1_fd_write(fd, &v, 1, &n);
    return e ? -e : (int)n;
}
static inline int read_(int fd, void *buf, uint32_t size)
{
    struct iov v = {buf, size};
    uint32_t n = 0;
    int e = p1_fd_read(fd, &v, 1, &n);
    return e ? -e : (int)n;
}

#endif
