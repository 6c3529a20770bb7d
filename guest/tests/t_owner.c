/* SPDX-License-Identifier: MIT
 * Owners, times and kinds of files, and names that are exchanged. */
#include "check.h"

#include <sys/sysmacros.h>
#include <sys/time.h>
#include <utime.h>

static struct stat of(const char *path)
{
    struct stat st;
    CHECK_INT(lstat(path, &st), 0);
    return st;
}

TEST(owners_change_for_root_only)
{
    write_file("f", "x");
    CHECK_INT(symlink("f", "l"), 0);
    int fd = open("f", O_RDONLY);
    CHECK_INT(chown("f", (uid_t)-1, (gid_t)-1), 0);
    CHECK_INT(fchown(fd, geteuid(), (gid_t)-1), 0);
    if (geteuid() != 0) {
        CHECK_ERR(chown("f", 0, 0), EPERM);
        return;
    }
    CHECK_INT(chown("l", 11, 12), 0); /* what it leads to */
    CHECK_INT(of("f").st_uid, 11);
    CHECK_INT(lchown("l", 21, 22), 0); /* itself */
    CHECK_INT(of("l").st_gid, 22);
    CHECK_INT(of("f").st_gid, 12);
    CHECK_INT(fchown(fd, (uid_t)-1, 13), 0);
    CHECK_INT(fchownat(AT_FDCWD, "l", 31, 32, AT_SYMLINK_NOFOLLOW), 0);
    CHECK(of("f").st_uid == 11 && of("f").st_gid == 13 && of("l").st_uid == 31);
    CHECK_INT(chmod("f", 04755), 0);
    CHECK_INT(chown("f", 11, 13), 0); /* and the bit goes */
    CHECK_INT(of("f").st_mode & 07777, 0755);
    CHECK_ERR(chown("none", 1, 1), ENOENT);
    CHECK_ERR(fchown(99, 1, 1), EBADF);
}

TEST(times_by_every_call)
{
    struct timeval v[2] = {{100, 5}, {200, 7}};
    struct utimbuf u = {300, 400};
    write_file("f", "");
    CHECK_INT(symlink("f", "l"), 0);
    CHECK_INT(utimes("f", v), 0);
    CHECK(of("f").st_atime == 100 && of("f").st_mtim.tv_nsec == 7000);
    CHECK_INT(utime("l", &u), 0);
    CHECK(of("f").st_atime == 300 && of("f").st_mtime == 400);
    v[1].tv_sec = 201;
    CHECK_INT(lutimes("l", v), 0);
    CHECK(of("l").st_mtime == 201 && of("f").st_mtime == 400);
    int fd = open("f", O_RDWR);
    CHECK_INT(futimes(fd, v), 0);
    CHECK_INT(of("f").st_mtime, 201);
    CHECK_INT(utime("f", NULL), 0);
    CHECK(of("f").st_mtime > 1000000);
    v[0].tv_usec = 1000000;
    CHECK_ERR(utimes("f", v), EINVAL);
    CHECK_ERR(utime("none", &u), ENOENT);
}

TEST(nodes_of_other_kinds)
{
    CHECK_INT(mkfifoat(AT_FDCWD, "p", 0640), 0);
    CHECK(S_ISFIFO(of("p").st_mode));
    CHECK_INT(mknod("r", S_IFREG | 0600, 0), 0);
    CHECK(S_ISREG(of("r").st_mode));
    CHECK_INT(mknodat(AT_FDCWD, "q", S_IFIFO | 0600, 0), 0);
    CHECK_ERR(mkfifo("p", 0600), EEXIST);
    if (geteuid() != 0)
        return;
    CHECK_INT(mknod("z", S_IFCHR | 0666, makedev(1, 5)), 0);
    CHECK(S_ISCHR(of("z").st_mode));
    CHECK(major(of("z").st_rdev) == 1 && minor(of("z").st_rdev) == 5);
}

TEST(access_by_the_effective_user)
{
    write_file("f", "");
    CHECK_INT(chmod("f", 0600), 0);
    CHECK_INT(euidaccess("f", R_OK | W_OK), 0);
    CHECK_INT(eaccess("f", F_OK), 0);
    CHECK_ERR(eaccess("f", X_OK), EACCES);
    CHECK_ERR(euidaccess("none", F_OK), ENOENT);
}

TEST(names_are_exchanged)
{
    write_file("a", "A");
    write_file("b", "B");
    CHECK_ERR(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE), EEXIST);
    CHECK_INT(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE), 0);
    CHECK_STR(read_file("a"), "B");
    CHECK_STR(read_file("b"), "A");
    CHECK_INT(renameat2(AT_FDCWD, "a", AT_FDCWD, "c", RENAME_NOREPLACE), 0);
    CHECK_ERR(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE), ENOENT);
}

TEST(where_we_are)
{
    char buf[4096];
    char *p = get_current_dir_name();
    CHECK_STR(p, getcwd(buf, sizeof buf));
    free(p);
    if (geteuid() != 0)
        return;
    CHECK_INT(mkdir("new", 0755), 0);
    write_file("new/in", "");
    pid_t pid = fork();
    if (pid == 0)
        _exit(chroot("new") == 0 && chdir("/") == 0 && access("/in", F_OK) == 0 &&
                      chdir("..") == 0 && access("in", F_OK) == 0 && access("/tmp", F_OK) != 0
                  ? 0
                  : 1);
    CHECK_INT(wait_for(pid), 0);
}

TEST(temporary_names)
{
    char a[] = "x-XXXXXX.c";
    int fd = mkostemps(a, 2, O_CLOEXEC);
    CHECK(fd >= 0 && strcmp(a + 8, ".c") == 0 && strcmp(a, "x-XXXXXX.c") != 0);
    CHECK_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
    char bad[] = "x-XXXXX";
    CHECK_ERR(mkostemps(bad, 0, 0), EINVAL);
    creat("made", 0600);
    CHECK_INT(of("made").st_mode & 0777, 0600);
}

TEST(modes_of_links)
{
    write_file("f", "x");
    CHECK_INT(symlink("f", "l"), 0);
    CHECK_INT(lchmod("f", 0640), 0);
    CHECK_INT(of("f").st_mode & 0777, 0640);
    CHECK_ERR(lchmod("l", 0600), EOPNOTSUPP);
    CHECK_INT(of("f").st_mode & 0777, 0640);
}

#ifdef __doze__ /* elsewhere the linker warns of whoever calls them */
TEST(names_that_are_only_made_up)
{
    char a[] = "n-XXXXXX", bad[] = "n-XXX", b[L_tmpnam];
    CHECK(mktemp(a) == a && strncmp(a, "n-", 2) == 0 && strcmp(a + 2, "XXXXXX") != 0);
    CHECK(access(a, F_OK) < 0);
    CHECK(mktemp(bad) == bad && bad[0] == 0);
    CHECK(tmpnam(b) == b && strncmp(b, "/tmp/", 5) == 0);
    char *c = tmpnam(NULL);
    CHECK(c && strcmp(b, c) != 0);
    char *d = tempnam(".", "longprefix");
    CHECK(d && strncmp(d, "./longp", 7) == 0 && access(d, F_OK) < 0);
    free(d);
}
#endif
