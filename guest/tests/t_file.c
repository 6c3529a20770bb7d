/* SPDX-License-Identifier: MIT
 * Files: open flags, offsets, sizes, attributes, times. */
#include "check.h"

#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>

TEST(open_flags)
{
    int fd = open("f", O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, "hello", 5), 5);
    CHECK_ERR(read(fd, &fd, 1), EBADF);
    CHECK_INT(close(fd), 0);
    CHECK_ERR(close(fd), EBADF);
    CHECK_ERR(open("f", O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST);
    CHECK_ERR(open("none", O_RDONLY), ENOENT);
    CHECK_ERR(open("", O_RDONLY), ENOENT);
    CHECK_ERR(open("f/x", O_RDONLY), ENOTDIR);
    CHECK_ERR(open("f", O_RDONLY | O_DIRECTORY), ENOTDIR);
    CHECK_ERR(open(".", O_WRONLY), EISDIR);
    fd = open("f", O_RDWR | O_TRUNC);
    struct stat st;
    CHECK_INT(fstat(fd, &st), 0);
    CHECK_INT(st.st_size, 0);
    CHECK_INT(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
}

TEST(append_goes_to_the_end)
{
    write_file("f", "abc");
    int fd = open("f", O_RDWR | O_APPEND);
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    CHECK_INT(write(fd, "d", 1), 1);
    CHECK_INT(lseek(fd, 0, SEEK_CUR), 4);
    CHECK_STR(read_file("f"), "abcd");
}

TEST(offsets_and_holes)
{
    char buf[8] = {1, 1, 1};
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    CHECK_INT(lseek(fd, 3, SEEK_SET), 3);
    CHECK_INT(write(fd, "x", 1), 1);
    CHECK_INT(pread(fd, buf, 8, 0), 4);
    CHECK(buf[0] == 0 && buf[2] == 0 && buf[3] == 'x');
    CHECK_INT(lseek(fd, 0, SEEK_CUR), 4);
    CHECK_INT(pwrite(fd, "yz", 2, 1), 2);
    CHECK_INT(pread(fd, buf, 8, 1), 3);
    CHECK(memcmp(buf, "yzx", 3) == 0);
    CHECK_INT(lseek(fd, -1, SEEK_END), 3);
    CHECK_ERR(lseek(fd, -9, SEEK_CUR), EINVAL);
    CHECK_ERR(lseek(fd, 0, 99), EINVAL);
    CHECK_INT(lseek(fd, 100, SEEK_SET), 100);
    CHECK_INT(read(fd, buf, 1), 0);
}

TEST(truncate_both_ways)
{
    char buf[8];
    write_file("f", "abcdef");
    CHECK_INT(truncate("f", 3), 0);
    CHECK_STR(read_file("f"), "abc");
    int fd = open("f", O_RDWR);
    CHECK_INT(ftruncate(fd, 5), 0);
    CHECK_INT(pread(fd, buf, 8, 0), 5);
    CHECK(memcmp(buf, "abc\0\0", 5) == 0);
    CHECK_ERR(ftruncate(fd, -1), EINVAL);
    CHECK_ERR(truncate("none", 1), ENOENT);
    CHECK_ERR(truncate(".", 1), EISDIR);
}

TEST(vectors)
{
    char a[3], b[4];
    struct iovec out[2] = {{"abc", 3}, {"defg", 4}}, in[2] = {{a, 3}, {b, 4}};
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    CHECK_INT(writev(fd, out, 2), 7);
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    CHECK_INT(readv(fd, in, 2), 7);
    CHECK(memcmp(a, "abc", 3) == 0 && memcmp(b, "defg", 4) == 0);
}

TEST(duplicates_share_the_offset)
{
    char c;
    write_file("f", "abc");
    int fd = open("f", O_RDONLY), other = dup(fd), own = open("f", O_RDONLY);
    CHECK_INT(read(fd, &c, 1), 1);
    CHECK_INT(read(other, &c, 1), 1);
    CHECK_INT(c, 'b');
    CHECK_INT(read(own, &c, 1), 1);
    CHECK_INT(c, 'a');
    CHECK_INT(dup2(fd, 20), 20);
    CHECK_INT(dup2(20, 20), 20);
    CHECK_ERR(dup3(20, 20, 0), EINVAL);
    CHECK_INT(dup3(fd, 21, O_CLOEXEC), 21);
    CHECK_INT(fcntl(21, F_GETFD), FD_CLOEXEC);
    CHECK_INT(fcntl(fd, F_DUPFD, 30), 30);
    CHECK_INT(fcntl(fd, F_DUPFD_CLOEXEC, 30), 31);
    CHECK_INT(fcntl(31, F_GETFD), FD_CLOEXEC);
    CHECK_ERR(dup(99), EBADF);
    CHECK_ERR(dup2(99, 5), EBADF);
    CHECK_ERR(fcntl(99, F_GETFL), EBADF);
    if (fork() == 0) {
        (void)!read(fd, &c, 1);
        _exit(0);
    }
    wait(NULL);
    CHECK_INT(read(fd, &c, 1), 0);
}

TEST(lowest_descriptor_is_taken)
{
    int a = open("/dev/null", O_RDONLY), b = open("/dev/null", O_RDONLY);
    CHECK_INT(close(a), 0);
    CHECK_INT(open("/dev/null", O_RDONLY), a);
    CHECK(b > a);
}

TEST(modes_and_umask)
{
    struct stat st;
    umask(027);
    int fd = open("f", O_WRONLY | O_CREAT, 0666);
    CHECK_INT(fstat(fd, &st), 0);
    CHECK_INT(st.st_mode, S_IFREG | 0640);
    CHECK_INT(st.st_uid, geteuid());
    CHECK_INT(st.st_nlink, 1);
    CHECK_INT(fchmod(fd, 0751), 0);
    CHECK_INT(chmod("f", 01755), 0);
    CHECK_INT(stat("f", &st), 0);
    CHECK_INT(st.st_mode & 07777, 01755);
    CHECK_INT(fchmodat(AT_FDCWD, "f", 0600, 0), 0);
    CHECK_ERR(chmod("none", 0600), ENOENT);
    CHECK_INT(chown("f", (uid_t)-1, (gid_t)-1), 0);
    CHECK_INT(access("f", R_OK | W_OK), 0);
    CHECK_ERR(access("f", X_OK), EACCES);
    CHECK_ERR(access("none", F_OK), ENOENT);
}

TEST(times)
{
    struct timespec t[2] = {{100, 5}, {-3, 999999999}};
    struct stat st;
    write_file("f", "");
    CHECK_INT(utimensat(AT_FDCWD, "f", t, 0), 0);
    CHECK_INT(stat("f", &st), 0);
    CHECK_INT(st.st_atim.tv_sec, 100);
    CHECK_INT(st.st_atim.tv_nsec, 5);
    CHECK_INT(st.st_mtim.tv_sec, -3);
    CHECK_INT(st.st_mtim.tv_nsec, 999999999);
    t[0].tv_nsec = UTIME_OMIT;
    t[1].tv_nsec = UTIME_NOW;
    CHECK_INT(utimensat(AT_FDCWD, "f", t, 0), 0);
    CHECK_INT(stat("f", &st), 0);
    CHECK_INT(st.st_atim.tv_sec, 100);
    CHECK(st.st_mtim.tv_sec > 1000000000);
    t[0].tv_nsec = 1000000000;
    CHECK_ERR(utimensat(AT_FDCWD, "f", t, 0), EINVAL);
    struct timeval v[2] = {{7, 8}, {9, 10}};
    CHECK_INT(utimes("f", v), 0);
    CHECK_INT(stat("f", &st), 0);
    CHECK_INT(st.st_mtim.tv_nsec, 10000);
    CHECK_INT(futimens(open("f", O_RDWR), NULL), 0);
    CHECK_INT(stat("f", &st), 0);
    CHECK(st.st_atim.tv_sec > 1000000000);
}

TEST(writing_changes_mtime_and_size)
{
    struct timespec old[2] = {{1, 0}, {1, 0}};
    struct stat st;
    write_file("f", "a");
    CHECK_INT(utimensat(AT_FDCWD, "f", old, 0), 0);
    write_file("f", "abc");
    CHECK_INT(stat("f", &st), 0);
    CHECK(st.st_mtim.tv_sec > 1 && st.st_size == 3);
    CHECK_INT(fsync(open("f", O_RDWR)), 0);
}

TEST(an_open_file_outlives_its_name)
{
    char buf[4];
    write_file("f", "abc");
    int fd = open("f", O_RDONLY);
    struct stat st;
    CHECK_INT(unlink("f"), 0);
    CHECK_INT(read(fd, buf, 4), 3);
    CHECK_INT(fstat(fd, &st), 0);
    CHECK_INT(st.st_nlink, 0);
}

TEST(private_mapping)
{
    write_file("f", "mapped");
    int fd = open("f", O_RDWR);
    char *p = mmap(NULL, 6, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(p != MAP_FAILED && memcmp(p, "mapped", 7) == 0);
    CHECK_INT((uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    p[0] = 'M';
    CHECK_STR(read_file("f"), "mapped");
    CHECK_INT(munmap(p, 6), 0);
    p = mmap(NULL, 100000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED && p[0] == 0 && p[99999] == 0);
    CHECK_INT(munmap(p, 100000), 0);
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EINVAL);
    CHECK(mmap(NULL, 9, PROT_READ, MAP_PRIVATE, 99, 0) == MAP_FAILED && errno == EBADF);
}

TEST(file_system_figures)
{
    struct statvfs v;
    CHECK_INT(statvfs(".", &v), 0);
    CHECK(v.f_bsize > 0 && v.f_frsize > 0 && v.f_namemax >= 255);
    CHECK(v.f_bfree <= v.f_blocks);
    CHECK_INT(fstatvfs(open(".", O_RDONLY), &v), 0);
    CHECK_ERR(statvfs("none", &v), ENOENT);
}

TEST(devices)
{
    char buf[4] = "xxx";
    struct stat st;
    int fd = open("/dev/null", O_RDWR);
    CHECK_INT(write(fd, "abc", 3), 3);
    CHECK_INT(read(fd, buf, 3), 0);
    CHECK_INT(isatty(fd), 0);
    CHECK_INT(errno, ENOTTY);
    CHECK_INT(fstat(fd, &st), 0);
    CHECK(S_ISCHR(st.st_mode));
    fd = open("/dev/zero", O_RDONLY);
    CHECK_INT(read(fd, buf, 3), 3);
    CHECK(buf[0] == 0 && buf[2] == 0);
    fd = open("/dev/urandom", O_RDONLY);
    CHECK_INT(read(fd, buf, 4), 4);
}

TEST(a_descriptor_is_opened_again_by_its_name)
{
    char path[32], buf[8];
    write_file("f", "abc");
    int fd = open("f", O_RDWR);
    CHECK_INT(read(fd, buf, 2), 2);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK_INT(unlink("f"), 0);
    int again = open(path, O_RDONLY);
    CHECK_INT(read(again, buf, sizeof buf), 3); /* from its own start */
    CHECK(memcmp(buf, "abc", 3) == 0);
    CHECK_ERR(write(again, "x", 1), EBADF);
    CHECK_ERR(open(path, O_RDONLY | O_DIRECTORY), ENOTDIR);
    CHECK_INT(truncate(path, 1), 0);
    CHECK_INT(lseek(fd, 0, SEEK_END), 1);
    close(open(path, O_WRONLY | O_TRUNC));
    CHECK_INT(lseek(fd, 0, SEEK_END), 0);
    int dir = open("/tmp", O_RDONLY | O_DIRECTORY);
    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    CHECK(open(path, O_RDONLY | O_DIRECTORY) > dir);
    CHECK_ERR(open(path, O_WRONLY), EISDIR);
}
