/* SPDX-License-Identifier: MIT
 * System calls on files: bytes, paths, attributes, directories. Each with its errors and with
 * addresses at the border of the memory that there is. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The last n bytes that may be written, and the last that may be read. */
#define LAST(n)    (LRIG_RO - (n))
#define LAST_RO(n) (LRIG_END - (n))
#define NOWHERE    UINT64_C(0x7fff00000000)

static int64_t opens(struct fib *f, const char *path, int flags)
{
    const uint64_t used = lmem.used;
    const int64_t fd = CALL(f, openat, AT_FDCWD, lmem_str(path), flags, 0644);
    lmem.used = used;
    return fd;
}

/* ---- bytes --------------------------------------------------------------------------- */

static int moves(struct fib *f)
{
    const uint64_t buf = lmem_new(64), text = lmem_str("abcdefghij");
    OK(f, opens(f, "/f", O_RDWR | O_CREAT) == 3);
    GIVES(f, 10, write, 3, text, 10);
    GIVES(f, 0, lseek, 3, 0, SEEK_SET);
    GIVES(f, 4, read, 3, buf, 4);
    OK(f, memcmp(lmem_at(buf), "abcd", 4) == 0);
    GIVES(f, 3, pread64, 3, buf, 3, 7);
    OK(f, memcmp(lmem_at(buf), "hij", 3) == 0);
    GIVES(f, 4, lseek, 3, 0, SEEK_CUR);
    GIVES(f, 2, pwrite64, 3, text, 2, 20);
    GIVES(f, 22, lseek, 3, 0, SEEK_END);
    GIVES(f, 0, read, 3, buf, 64);
    GIVES(f, 0, read, 3, buf, 0);
    GIVES(f, 0, write, 3, NOWHERE, 0);
    /* the border: what is there is moved, and only if nothing is, it is EFAULT */
    GIVES(f, 4, pread64, 3, LAST(4), 10, 0);
    OK(f, memcmp(lmem_at(LAST(4)), "abcd", 4) == 0);
    GIVES(f, -EFAULT, pread64, 3, LRIG_RO, 4, 0);
    GIVES(f, -EFAULT, pread64, 3, NOWHERE, 4, 0);
    GIVES(f, -EFAULT, read, 3, buf, UINT64_MAX);
    memcpy(lmem_at(LAST_RO(2)), "yz", 2);
    GIVES(f, 2, pwrite64, 3, LAST_RO(2), 10, 0);
    GIVES(f, -EFAULT, pwrite64, 3, LRIG_END, 10, 0);
    GIVES(f, 3, pread64, 3, buf, 3, 0);
    OK(f, memcmp(lmem_at(buf), "yzc", 3) == 0);
    GIVES(f, -EINVAL, pread64, 3, buf, 3, -1);
    GIVES(f, -EINVAL, pwrite64, 3, buf, 3, -1);
    GIVES(f, -EINVAL, pread64, 9, buf, 3, -1);
    GIVES(f, -EBADF, read, 9, NOWHERE, 3);
    GIVES(f, -EBADF, write, 9, NOWHERE, 3);
    GIVES(f, -EINVAL, lseek, 3, -1, SEEK_SET);
    GIVES(f, -EINVAL, lseek, 3, 0, 9);
    return 0;
}
TEST(read_and_write_stop_at_the_first_bad_byte)
{
    CHECK_INT(lrig_run(moves, 0), 0);
}

static int in_pieces(struct fib *f)
{
    const uint64_t buf = lmem_new(64), text = lmem_str("abcdefghij");
    const uint64_t out[3][2] = {{text, 3}, {NOWHERE, 0}, {text + 5, 2}};
    const uint64_t in[2][2] = {{buf, 2}, {buf + 32, 8}};
    const uint64_t half[2][2] = {{text, 3}, {NOWHERE, 2}};
    const uint64_t over[2][2] = {{text, 5}, {text, UINT64_MAX}};
    const uint64_t o = lmem_put(out, sizeof out), i = lmem_put(in, sizeof in);
    const uint64_t h = lmem_put(half, sizeof half), v = lmem_put(over, sizeof over);
    OK(f, opens(f, "/f", O_RDWR | O_CREAT) == 3);
    GIVES(f, 5, writev, 3, o, 3);
    GIVES(f, 0, lseek, 3, 0, SEEK_SET);
    GIVES(f, 5, readv, 3, i, 2);
    OK(f, memcmp(lmem_at(buf), "ab", 2) == 0 && memcmp(lmem_at(buf + 32), "cfg", 3) == 0);
    GIVES(f, 3, pwritev, 3, h, 2, 100);
    GIVES(f, 103, lseek, 3, 0, SEEK_END);
    GIVES(f, 3, preadv, 3, h, 2, 100);
    GIVES(f, -EINVAL, writev, 3, v, 2);
    GIVES(f, -EINVAL, readv, 3, i, 1025);
    GIVES(f, -EINVAL, readv, 3, i, -1);
    GIVES(f, 0, readv, 3, NOWHERE, 0);
    GIVES(f, -EFAULT, readv, 3, LRIG_END - 8, 1);
    GIVES(f, -EFAULT, writev, 3, NOWHERE, 1);
    GIVES(f, -EINVAL, preadv, 3, i, 2, -1);
    GIVES(f, -EBADF, readv, 9, i, 2);
    GIVES(f, 103, lseek, 3, 0, SEEK_CUR);
    return 0;
}
TEST(vectors_are_gathered_and_scattered)
{
    CHECK_INT(lrig_run(in_pieces, 0), 0);
}

static int flagged(struct fib *f)
{
    const uint64_t text = lmem_str("abc");
    const uint64_t piece[1][2] = {{text, 3}};
    const uint64_t v = lmem_put(piece, sizeof piece);
    OK(f, opens(f, "/f", O_RDWR | O_CREAT) == 3);
    GIVES(f, 3, pwritev2, 3, v, 1, -1, 0, 2); /* at the file's own offset */
    GIVES(f, 3, lseek, 3, 0, SEEK_CUR);
    GIVES(f, 0, preadv2, 3, v, 1, -1, 0, 0);
    GIVES(f, 3, preadv2, 3, v, 1, 0, 0, 0);
    GIVES(f, -EINVAL, preadv2, 3, v, 1, -2, 0, 0);
    GIVES(f, -EOPNOTSUPP, preadv2, 3, v, 1, 0, 0, 8);
    GIVES(f, -EOPNOTSUPP, pwritev2, 3, v, 1, 0, 0, 0x40);
    return 0;
}
TEST(vectors_with_flags)
{
    CHECK_INT(lrig_run(flagged, 0), 0);
}

/* A write to a pipe that waits for its reader: the same data again, and all of it arrives. */
enum {
    MUCH = DZ_KERNEL_PIPE_SIZE + 5000
};
static int reader(struct fib *f)
{
    static uint8_t got[MUCH];
    int64_t sum = 0;
    while (sum < MUCH) {
        int64_t n = SYS(f, dz_sys_read(FK(f), 3, got + sum, 7000));
        OK(f, n > 0);
        sum += n;
    }
    for (size_t i = 0; i < MUCH; i++)
        OK(f, got[i] == (uint8_t)(i % LRIG_PAGE * 7));
    return 0;
}
static int writer(struct fib *f)
{
    uint64_t v[32][2];
    int status = -1;
    for (size_t i = 0; i < LRIG_PAGE; i++)
        lmem.bytes[i] = (uint8_t)(i * 7);
    lmem.used = LRIG_PAGE;
    size_t n = 0;
    for (size_t left = MUCH; left > 0; n++) {
        v[n][0] = LRIG_AT;
        v[n][1] = left < LRIG_PAGE ? left : LRIG_PAGE;
        left -= v[n][1];
    }
    const uint64_t fds = lmem_new(8), at = lmem_put(v, sizeof v);
    GIVES(f, 0, pipe2, fds, 0);
    int64_t pid = fib_fork(f, reader);
    GIVES(f, MUCH, writev, 4, at, n);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    return 0;
}
TEST(a_write_that_waits_goes_on_where_it_stood)
{
    CHECK_INT(lrig_run(writer, 0), 0);
}

/* More than a chunk of a file, through pieces that are the same memory again and again. */
static int much(struct fib *f)
{
    uint64_t v[300][2];
    for (size_t i = 0; i < DZ_ARRAY_LEN(v); i++) {
        v[i][0] = LRIG_AT;
        v[i][1] = LRIG_PAGE;
    }
    lmem.used = LRIG_PAGE;
    memset(lmem.bytes, 'x', LRIG_PAGE);
    const uint64_t at = lmem_put(v, sizeof v);
    const int64_t size = 300 * LRIG_PAGE;
    OK(f, size > DZ_LINUX_CHUNK && opens(f, "/f", O_RDWR | O_CREAT) == 3);
    GIVES(f, size, writev, 3, at, 300);
    GIVES(f, size, lseek, 3, 0, SEEK_END);
    GIVES(f, size, preadv, 3, at, 300, 0);
    GIVES(f, size - 5, preadv, 3, at, 300, 5);
    return 0;
}
TEST(a_file_is_moved_in_chunks)
{
    CHECK_INT(lrig_run(much, 0), 0);
}

static int sends(struct fib *f)
{
    const uint64_t text = lmem_str("abcdefghij"), buf = lmem_new(64), fds = lmem_new(8);
    const int64_t three = 3, minus = -1;
    const uint64_t off = lmem_put(&three, 8), neg = lmem_put(&minus, 8);
    OK(f, opens(f, "/f", O_RDWR | O_CREAT) == 3);
    GIVES(f, 10, write, 3, text, 10);
    GIVES(f, 0, pipe2, fds, O_NONBLOCK); /* 4, 5 */
    GIVES(f, 7, sendfile, 5, 3, off, 100);
    int64_t now;
    memcpy(&now, lmem_at(off), 8);
    OK(f, now == 10);
    GIVES(f, 7, read, 4, buf, 64);
    OK(f, memcmp(lmem_at(buf), "defghij", 7) == 0);
    GIVES(f, 10, lseek, 3, 0, SEEK_CUR); /* where it was */
    GIVES(f, 0, sendfile, 5, 3, 0, 100);
    GIVES(f, 2, lseek, 3, 2, SEEK_SET);
    GIVES(f, 4, sendfile, 5, 3, 0, 4);
    GIVES(f, 6, lseek, 3, 0, SEEK_CUR);
    GIVES(f, -EINVAL, sendfile, 5, 4, 0, 4); /* from a pipe */
    GIVES(f, -EBADF, sendfile, 9, 3, 0, 4);
    GIVES(f, -EBADF, sendfile, 5, 9, 0, 4);
    GIVES(f, -EFAULT, sendfile, 5, 3, NOWHERE, 4);
    GIVES(f, -EINVAL, sendfile, 5, 3, neg, 4);

    OK(f, opens(f, "/g", O_RDWR | O_CREAT) == 6);
    GIVES(f, 0, lseek, 3, 0, SEEK_SET);
    GIVES(f, 10, copy_file_range, 3, 0, 6, 0, 1000, 0);
    GIVES(f, 10, lseek, 3, 0, SEEK_CUR);
    GIVES(f, 10, lseek, 6, 0, SEEK_CUR);
    memcpy(lmem_at(off), &three, 8);
    GIVES(f, 4, copy_file_range, 3, off, 6, 0, 4, 0);
    GIVES(f, 4, pread64, 6, buf, 64, 10);
    OK(f, memcmp(lmem_at(buf), "defg", 4) == 0);
    GIVES(f, -EINVAL, copy_file_range, 3, 0, 6, 0, 4, 1);
    memcpy(lmem_at(off), &three, 8);
    GIVES(f, -EINVAL, copy_file_range, 3, off, 3, off, 4, 0); /* onto itself */
    GIVES(f, -EINVAL, copy_file_range, 4, 0, 6, 0, 4, 0);
    GIVES(f, -EBADF, copy_file_range, 9, 0, 6, 0, 4, 0);
    GIVES(f, -EFAULT, copy_file_range, 3, NOWHERE, 6, 0, 4, 0);
    OK(f, opens(f, "/g", O_WRONLY | O_APPEND) == 7);
    GIVES(f, -EBADF, copy_file_range, 3, off, 7, 0, 4, 0);
    GIVES(f, -EBADF, copy_file_range, 7, 0, 6, 0, 4, 0);
    OK(f, opens(f, "/", O_RDONLY) == 8);
    GIVES(f, -EISDIR, copy_file_range, 8, 0, 6, 0, 4, 0);
    GIVES(f, -EINVAL, sendfile, 5, 8, 0, 4);
    return 0;
}
TEST(bytes_go_from_descriptor_to_descriptor)
{
    CHECK_INT(lrig_run(sends, 0), 0);
}

/* ---- attributes ------------------------------------------------------------------------ */

static struct stat stat_at(uint64_t at)
{
    struct stat st; /* this machine is an x86-64 one: its own struct */
    memcpy(&st, lmem_at(at), sizeof st);
    return st;
}

static int stats(struct fib *f)
{
    const uint64_t text = lmem_str("abc"), path = lmem_str("/f"), link = lmem_str("/l");
    const uint64_t to = lmem_new(sizeof(struct stat)), empty = lmem_str("");
    const int64_t times[2][2] = {{1000, 5}, {-1, 999999999}};
    const uint64_t ts = lmem_put(times, sizeof times);
    OK(f, opens(f, "/f", O_RDWR | O_CREAT) == 3);
    GIVES(f, 0, fchown, 3, 1000, 2000);
    GIVES(f, 3, write, 3, text, 3);
    GIVES(f, 0, symlink, path, link);
    GIVES(f, 0, utimensat, AT_FDCWD, path, ts, 0);
    GIVES(f, 0, stat, link, to);
    struct stat st = stat_at(to);
    OK(f, S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0644 && st.st_size == 3);
    OK(f, st.st_nlink == 1 && st.st_uid == 1000 && st.st_gid == 2000 && st.st_blksize > 0);
    OK(f, st.st_atim.tv_sec == 1000 && st.st_atim.tv_nsec == 5);
    OK(f, st.st_mtim.tv_sec == -1 && st.st_mtim.tv_nsec == 999999999);
    const ino_t ino = st.st_ino;
    GIVES(f, 0, lstat, link, to);
    st = stat_at(to);
    OK(f, S_ISLNK(st.st_mode) && st.st_size == 2 && st.st_ino != ino);
    GIVES(f, 0, fstat, 3, to);
    OK(f, stat_at(to).st_ino == ino);
    GIVES(f, 0, newfstatat, AT_FDCWD, link, to, AT_SYMLINK_NOFOLLOW);
    OK(f, S_ISLNK(stat_at(to).st_mode));
    GIVES(f, 0, newfstatat, 3, empty, to, AT_EMPTY_PATH);
    OK(f, stat_at(to).st_ino == ino);
    GIVES(f, 0, newfstatat, 3, 0, to, AT_EMPTY_PATH);
    GIVES(f, 0, newfstatat, AT_FDCWD, empty, to, AT_EMPTY_PATH);
    OK(f, S_ISDIR(stat_at(to).st_mode));
    GIVES(f, 0, fstat, 0, to); /* an eventfd */
    OK(f, !S_ISREG(stat_at(to).st_mode));
    GIVES(f, -ENOENT, newfstatat, 3, empty, to, 0);
    GIVES(f, -EINVAL, newfstatat, 3, path, to, 0x20000);
    GIVES(f, -EBADF, newfstatat, 9, empty, to, AT_EMPTY_PATH);
    GIVES(f, -ENOTDIR, newfstatat, 3, text, to, 0);
    GIVES(f, -EBADF, fstat, AT_FDCWD, to); /* no descriptor, whatever the kernel calls it */
    GIVES(f, -EFAULT, stat, NOWHERE, to);
    GIVES(f, -EFAULT, stat, path, LAST(sizeof(struct stat) - 1));
    GIVES(f, 0, stat, path, LAST(sizeof(struct stat)));
    GIVES(f, -EFAULT, fstat, 3, 0);
    GIVES(f, -ENOENT, stat, empty, to);
    return 0;
}
TEST(stat_has_the_layout_of_linux)
{
    CHECK_INT(lrig_run(stats, 0), 0);
}

static int statxs(struct fib *f)
{
    const uint64_t path = lmem_str("/f"), empty = lmem_str("");
    const uint64_t to = lmem_new(sizeof(struct statx));
    const uint64_t null = lmem_str("/dev/null");
    struct statx x;
    OK(f, opens(f, "/f", O_RDWR | O_CREAT) == 3);
    GIVES(f, 0, ftruncate, 3, 12345);
    GIVES(f, 0, statx, AT_FDCWD, path, 0, STATX_BASIC_STATS, to);
    memcpy(&x, lmem_at(to), sizeof x);
    OK(f, x.stx_mask == STATX_BASIC_STATS && x.stx_size == 12345 && x.stx_nlink == 1);
    OK(f, S_ISREG(x.stx_mode) && x.stx_ino != 0 && x.stx_mtime.tv_sec > 0);
    GIVES(f, 0, statx, 3, empty, AT_EMPTY_PATH, STATX_ALL, to);
    GIVES(f, 0, statx, AT_FDCWD, null, AT_STATX_DONT_SYNC, 0, to);
    memcpy(&x, lmem_at(to), sizeof x);
    OK(f, S_ISCHR(x.stx_mode) && x.stx_rdev_major == 1 && x.stx_rdev_minor == 3);
    GIVES(f, -EINVAL, statx, AT_FDCWD, path, AT_STATX_SYNC_TYPE, 0, to);
    GIVES(f, -EINVAL, statx, AT_FDCWD, path, 0, 1u << 31, to);
    GIVES(f, -EINVAL, statx, AT_FDCWD, path, 1, 0, to);
    GIVES(f, -EFAULT, statx, AT_FDCWD, path, 0, 0, LAST(255));
    GIVES(f, -EBADF, statx, 9, empty, AT_EMPTY_PATH, 0, to);
    return 0;
}
TEST(statx_has_the_layout_of_linux)
{
    CHECK_INT(lrig_run(statxs, 0), 0);
}

static int changes(struct fib *f)
{
    const uint64_t path = lmem_str("/d/f"), dir = lmem_str("/d"), name = lmem_str("f");
    const uint64_t other = lmem_str("g"), to = lmem_new(256);
    const uint64_t link = lmem_str("/d/l"), empty = lmem_str(""), root = lmem_str("/");
    struct statfs fs;
    GIVES(f, 0, mkdir, dir, 0755);
    GIVES(f, -EEXIST, mkdir, dir, 0755);
    OK(f, opens(f, "/d/f", O_RDWR | O_CREAT) == 3);
    OK(f, opens(f, "/d", O_RDONLY | O_DIRECTORY) == 4);
    GIVES(f, 5, openat, 4, name, O_RDONLY, 0);
    GIVES(f, 6, creat, path, 0600);
    GIVES(f, -ENOENT, openat, 4, other, O_RDONLY, 0);
    GIVES(f, 0, chmod, path, 0600);
    GIVES(f, 0, fchmod, 3, 0640);
    GIVES(f, 0, fchmodat, 4, name, 0604);
    GIVES(f, 0, stat, path, to);
    OK(f, (stat_at(to).st_mode & 07777) == 0604);
    GIVES(f, 0, chown, path, 7, -1);
    GIVES(f, 0, fchown, 3, -1, 8);
    GIVES(f, 0, stat, path, to);
    OK(f, stat_at(to).st_uid == 7 && stat_at(to).st_gid == 8);
    GIVES(f, 0, symlinkat, name, 4, link);
    GIVES(f, 0, lchown, link, 9, 9);
    GIVES(f, 0, fchownat, 4, name, 1, 1, AT_SYMLINK_NOFOLLOW);
    GIVES(f, 0, lstat, link, to);
    OK(f, stat_at(to).st_uid == 9);
    GIVES(f, 1, readlink, link, to, 100);
    GIVES(f, 1, readlinkat, 4, link, LAST(1), 100);
    OK(f, *(char *)lmem_at(LAST(1)) == 'f');
    GIVES(f, -EFAULT, readlink, link, LRIG_RO, 100);
    GIVES(f, -EINVAL, readlink, link, to, 0);
    GIVES(f, -EINVAL, readlink, link, to, -1);
    GIVES(f, -EINVAL, readlink, path, to, 100);
    GIVES(f, -ENOENT, readlink, empty, to, 100);
    GIVES(f, 0, linkat, 4, name, 4, other, 0);
    GIVES(f, -EEXIST, link, path, link);
    GIVES(f, -EINVAL, linkat, 4, name, 4, other, 1);
    GIVES(f, 0, renameat, 4, other, AT_FDCWD, lmem_str("/h"));
    GIVES(f, -EEXIST, renameat2, 4, name, AT_FDCWD, lmem_str("/h"), RENAME_NOREPLACE);
    GIVES(f, -EINVAL, renameat2, 4, name, 4, other, 8);
    GIVES(f, -EINVAL, renameat2, 4, name, 4, other, RENAME_NOREPLACE | RENAME_EXCHANGE);
    GIVES(f, 0, rename, path, lmem_str("/d/i"));
    GIVES(f, -ENOTEMPTY, rmdir, dir);
    GIVES(f, -EISDIR, unlink, dir);
    GIVES(f, 0, unlinkat, 4, lmem_str("i"), 0);
    GIVES(f, 0, unlink, link);
    GIVES(f, 0, faccessat, 4, lmem_str("."), X_OK);
    GIVES(f, 0, faccessat2, 4, empty, R_OK, AT_EMPTY_PATH | AT_EACCESS);
    GIVES(f, -EINVAL, faccessat2, 4, empty, R_OK, 1);
    GIVES(f, -EINVAL, access, dir, 8);
    GIVES(f, 0, unlinkat, AT_FDCWD, dir, AT_REMOVEDIR);
    GIVES(f, -ENOENT, chdir, dir);
    GIVES(f, 0, mkdirat, AT_FDCWD, dir, 0700);
    GIVES(f, 0, chdir, dir);
    GIVES(f, 3, getcwd, to, 3);
    OK(f, strcmp(lmem_at(to), "/d") == 0);
    GIVES(f, -ERANGE, getcwd, to, 2);
    GIVES(f, -EFAULT, getcwd, LAST(2), 100);
    GIVES(f, 3, getcwd, LAST(3), 100);
    GIVES(f, 0, mknod, lmem_str("fifo"), S_IFIFO | 0644, 0);
    GIVES(f, -EINVAL, mknodat, AT_FDCWD, lmem_str("x"), S_IFLNK | 0644, 0);
    GIVES(f, -EPERM, mknodat, AT_FDCWD, lmem_str("x"), S_IFDIR | 0644, 0);
    GIVES(f, 0, statfs, root, to);
    memcpy(&fs, lmem_at(to), sizeof fs);
    OK(f, fs.f_bsize == 4096 && fs.f_namelen == 255 && fs.f_blocks > 0);
    GIVES(f, 0, fstatfs, 3, to);
    GIVES(f, -EFAULT, statfs, root, LAST(sizeof fs - 1));
    GIVES(f, -EBADF, fstatfs, 99, to);
    OK(f, opens(f, "/", O_RDONLY) == 7);
    GIVES(f, 0, fchdir, 7);
    GIVES(f, -ENOTDIR, fchdir, 3);
    GIVES(f, -EBADF, fchdir, AT_FDCWD);
    GIVES(f, 0, chroot, dir);
    GIVES(f, 022, umask, 077);
    GIVES(f, 077, umask, 022);
    return 0;
}
TEST(names_and_attributes_change)
{
    CHECK_INT(lrig_run(changes, 0), 0);
}

static int sizes(struct fib *f)
{
    const uint64_t path = lmem_str("/f"), fifo = lmem_str("/p"), root = lmem_str("/");
    OK(f, opens(f, "/f", O_RDWR | O_CREAT) == 3);
    GIVES(f, 0, truncate, path, 100);
    GIVES(f, 100, lseek, 3, 0, SEEK_END);
    GIVES(f, 0, ftruncate, 3, 50);
    GIVES(f, 0, fallocate, 3, 0, 60, 10);
    GIVES(f, 70, lseek, 3, 0, SEEK_END);
    GIVES(f, -EINVAL, ftruncate, 3, -1);
    GIVES(f, -EINVAL, truncate, path, -1);
    GIVES(f, -EISDIR, truncate, root, 0);
    GIVES(f, 0, mknod, fifo, S_IFIFO | 0644, 0);
    GIVES(f, -EINVAL, truncate, fifo, 0); /* and does not wait for a reader */
    GIVES(f, -ENOENT, truncate, lmem_str("/none"), 0);
    GIVES(f, -EOPNOTSUPP, fallocate, 3, 2, 0, 10);
    GIVES(f, 0, fallocate, 3, 1, 0, 100);
    GIVES(f, 70, lseek, 3, 0, SEEK_END);
    GIVES(f, -EINVAL, fallocate, 3, 0, 0, 0);
    GIVES(f, -EINVAL, fallocate, 3, 0, -1, 5);
    GIVES(f, -EBADF, fallocate, 9, 1, 0, 10);
    GIVES(f, 4, dup, 3); /* truncate closed what it opened */
    GIVES(f, 0, fsync, 3);
    GIVES(f, 0, fdatasync, 3);
    GIVES(f, -EINVAL, fsync, 0);
    GIVES(f, 0, syncfs, 0);
    GIVES(f, 0, sync);
    GIVES(f, 0, fadvise64, 3, 0, 0, 1);
    GIVES(f, -EINVAL, fadvise64, 3, 0, 0, 9);
    GIVES(f, 0, fadvise64, 0, 0, 0, 1);
    GIVES(f, -EBADF, fadvise64, 9, 0, 0, 1);
    GIVES(f, 0, readahead, 3, 0, 10);
    GIVES(f, -EINVAL, readahead, 0, 0, 10);
    return 0;
}
TEST(sizes_change)
{
    CHECK_INT(lrig_run(sizes, 0), 0);
}

static int times(struct fib *f)
{
    const uint64_t path = lmem_str("/f"), to = lmem_new(sizeof(struct stat));
    const int64_t v[2][2] = {{5, 7}, {6, UTIME_OMIT}}, bad[2][2] = {{5, -1}, {6, 0}};
    const int64_t omit[2][2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}}, us[2][2] = {{8, 9}, {10, 11}};
    const int64_t seconds[2] = {20, 21}, far[2][2] = {{INT64_MAX, 0}, {INT64_MIN, 0}};
    const uint64_t t = lmem_put(v, sizeof v), b = lmem_put(bad, sizeof bad);
    const uint64_t o = lmem_put(omit, sizeof omit), u = lmem_put(us, sizeof us);
    const uint64_t s = lmem_put(seconds, sizeof seconds), x = lmem_put(far, sizeof far);
    OK(f, opens(f, "/f", O_RDWR | O_CREAT) == 3);
    GIVES(f, 0, utimes, path, u);
    GIVES(f, 0, utimensat, 3, 0, t, 0);
    GIVES(f, 0, stat, path, to);
    OK(f, stat_at(to).st_atim.tv_sec == 5 && stat_at(to).st_atim.tv_nsec == 7);
    OK(f, stat_at(to).st_mtim.tv_sec == 10 && stat_at(to).st_mtim.tv_nsec == 11000);
    GIVES(f, 0, utime, path, s);
    GIVES(f, 0, stat, path, to);
    OK(f, stat_at(to).st_atim.tv_sec == 20 && stat_at(to).st_mtim.tv_sec == 21);
    GIVES(f, 0, futimesat, 3, 0, u);
    GIVES(f, 0, futimesat, AT_FDCWD, path, u);
    GIVES(f, 0, utimensat, AT_FDCWD, path, x, 0); /* as far as a file can say */
    GIVES(f, 0, stat, path, to);
    OK(f, stat_at(to).st_atim.tv_sec > 9000000000 && stat_at(to).st_mtim.tv_sec < -9000000000);
    GIVES(f, 0, utimensat, AT_FDCWD, path, 0, 0);
    GIVES(f, 0, stat, path, to);
    OK(f, stat_at(to).st_atim.tv_sec == stat_at(to).st_mtim.tv_sec);
    GIVES(f, 0, utimensat, AT_FDCWD, NOWHERE, o, 0); /* nothing to do: nothing is looked at */
    GIVES(f, -EINVAL, utimensat, AT_FDCWD, path, b, 0);
    GIVES(f, -EINVAL, utimensat, AT_FDCWD, path, t, 1);
    GIVES(f, -EINVAL, utimensat, 3, 0, t, AT_SYMLINK_NOFOLLOW);
    GIVES(f, -EFAULT, utimensat, AT_FDCWD, 0, t, 0);
    GIVES(f, -EFAULT, utimensat, AT_FDCWD, path, LRIG_END - 31, 0);
    GIVES(f, -EFAULT, utime, path, LRIG_END - 15);
    GIVES(f, -EBADF, utimensat, 9, 0, t, 0);
    return 0;
}
TEST(times_of_files_are_set)
{
    CHECK_INT(lrig_run(times, 0), 0);
}

/* ---- paths at the border ----------------------------------------------------------------- */

static int strings_end(struct fib *f)
{
    memcpy(lmem_at(LRIG_END - 2), "/", 2);
    GIVES(f, 0, access, LRIG_END - 2, F_OK); /* its NUL is the last byte */
    memcpy(lmem_at(LRIG_END - 2), "//", 2);
    GIVES(f, -EFAULT, access, LRIG_END - 2, F_OK);
    GIVES(f, -EFAULT, access, UINT64_MAX, F_OK);
    lmem.used = 0;
    const uint64_t at = lmem_new(PATH_MAX + 1);
    memset(lmem_at(at), '/', PATH_MAX);
    GIVES(f, -ENAMETOOLONG, access, at, F_OK);
    memset(lmem_at(at + PATH_MAX - 1), 0, 1);
    GIVES(f, 0, access, at, F_OK);
    memset(lmem_at(at), '/', 1000); /* in pieces, from an odd address */
    memset(lmem_at(at + 1000), 0, 1);
    GIVES(f, 0, access, at + 13, F_OK);
    return 0;
}
TEST(strings_end_in_memory_that_is_there)
{
    CHECK_INT(lrig_run(strings_end, 0), 0);
}

/* ---- directories ------------------------------------------------------------------------- */

struct dent {
    uint64_t ino;
    int64_t off;
    uint16_t size;
    uint8_t type;
    char name[];
} __attribute__((packed));

static int lists(struct fib *f)
{
    const uint64_t buf = lmem_new(1024);
    int names = 0, dots = 0;
    GIVES(f, 0, mkdir, lmem_str("/d"), 0755);
    GIVES(f, 0, mkdir, lmem_str("/d/sub"), 0755);
    for (int i = 0; i < 20; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "/d/file%02d", i);
        OK(f, opens(f, path, O_RDWR | O_CREAT) == 3);
        GIVES(f, 0, close, 3);
    }
    OK(f, opens(f, "/d", O_RDONLY | O_DIRECTORY) == 3);
    for (int64_t n; (n = CALL(f, getdents64, 3, buf, 100)) != 0;) {
        OK(f, n > 0 && n <= 100);
        for (int64_t i = 0; i < n;) {
            const struct dent *d = lmem_at(buf + (uint64_t)i);
            OK(f, d->ino != 0 && d->size % 8 == 0 && d->size >= 24);
            dots += d->name[0] == '.';
            OK(f, d->type == (strncmp(d->name, "file", 4) == 0 ? DT_REG : DT_DIR));
            names++;
            i += d->size;
        }
    }
    OK(f, names == 23 && dots == 2);
    GIVES(f, 0, lseek, 3, 0, SEEK_SET);
    const int64_t n = CALL(f, getdents, 3, buf, 1024);
    names = 0;
    for (int64_t i = 0; i < n; names++) {
        uint16_t size;
        memcpy(&size, lmem_at(buf + (uint64_t)i + 16), 2);
        const char *name = lmem_at(buf + (uint64_t)i + 18);
        const uint8_t type = *(uint8_t *)lmem_at(buf + (uint64_t)i + size - 1);
        OK(f, type == (strncmp(name, "file", 4) == 0 ? DT_REG : DT_DIR));
        i += size;
    }
    OK(f, names == 23);
    GIVES(f, 0, lseek, 3, 0, SEEK_SET);
    GIVES(f, -EINVAL, getdents64, 3, buf, 20);
    GIVES(f, -EFAULT, getdents64, 3, LRIG_RO, 100);
    GIVES(f, 24, getdents64, 3, LAST(24), 24); /* nothing was lost */
    OK(f, strcmp(((struct dent *)lmem_at(LAST(24)))->name, ".") == 0);
    GIVES(f, -ENOTDIR, getdents64, 0, buf, 100);
    GIVES(f, -EBADF, getdents64, 9, buf, 100);
    OK(f, opens(f, "/d/file00", O_RDONLY) == 4);
    GIVES(f, -ENOTDIR, getdents64, 4, buf, 100);
    return 0;
}
TEST(directories_are_listed_in_pieces)
{
    CHECK_INT(lrig_run(lists, 0), 0);
}
