/* SPDX-License-Identifier: MIT
 * Names: rename, links, symbolic links, realpath, how paths are resolved. */
#include "check.h"

#include <limits.h>

static ino_t inode(const char *path)
{
    struct stat st;
    return lstat(path, &st) < 0 ? 0 : st.st_ino;
}

TEST(rename_replaces)
{
    write_file("a", "A");
    write_file("b", "B");
    ino_t i = inode("a");
    CHECK_INT(rename("a", "b"), 0);
    CHECK_STR(read_file("b"), "A");
    CHECK_INT(inode("b"), i);
    CHECK_ERR(rename("a", "c"), ENOENT);
    CHECK_INT(rename("b", "b"), 0);
    CHECK_INT(link("b", "b2"), 0);
    CHECK_INT(rename("b", "b2"), 0); /* one file: nothing happens */
    CHECK_INT(access("b", F_OK), 0);
}

TEST(rename_of_directories)
{
    CHECK_INT(mkdir("d", 0755), 0);
    CHECK_INT(mkdir("d/e", 0755), 0);
    CHECK_INT(mkdir("empty", 0755), 0);
    write_file("f", "");
    CHECK_ERR(rename("d", "d/e/x"), EINVAL);
    CHECK_ERR(rename("d", "f"), ENOTDIR);
    CHECK_ERR(rename("f", "d"), EISDIR);
    CHECK_ERR(rename("empty", "d"), ENOTEMPTY);
    CHECK_INT(rename("d", "empty"), 0);
    CHECK_INT(access("empty/e", F_OK), 0);
    CHECK_ERR(rename("f", "none/x"), ENOENT);
    CHECK_ERR(rename("f/", "g"), ENOTDIR);
}

TEST(hard_links)
{
    struct stat st;
    write_file("a", "x");
    CHECK_INT(link("a", "b"), 0);
    CHECK_INT(stat("b", &st), 0);
    CHECK_INT(st.st_nlink, 2);
    CHECK_INT(st.st_ino, inode("a"));
    CHECK_ERR(link("a", "b"), EEXIST);
    CHECK_ERR(link("none", "c"), ENOENT);
    CHECK_ERR(link(".", "c"), EPERM);
    CHECK_INT(unlink("a"), 0);
    CHECK_STR(read_file("b"), "x");
    CHECK_INT(symlink("b", "s"), 0);
    CHECK_INT(linkat(AT_FDCWD, "s", AT_FDCWD, "s2", 0), 0);
    CHECK_INT(inode("s2"), inode("s"));
    CHECK_INT(linkat(AT_FDCWD, "s", AT_FDCWD, "b2", AT_SYMLINK_FOLLOW), 0);
    CHECK_INT(inode("b2"), inode("b"));
}

TEST(symbolic_links)
{
    char buf[16] = "................";
    struct stat st;
    CHECK_INT(symlink("target", "l"), 0);
    CHECK_INT(readlink("l", buf, sizeof buf), 6);
    CHECK(memcmp(buf, "target..", 8) == 0);
    CHECK_INT(readlink("l", buf, 3), 3);
    CHECK_ERR(readlink("l", buf, 0), EINVAL);
    CHECK_INT(lstat("l", &st), 0);
    CHECK(S_ISLNK(st.st_mode) && st.st_size == 6);
    CHECK_ERR(stat("l", &st), ENOENT);
    CHECK_ERR(symlink("x", "l"), EEXIST);
    CHECK_ERR(symlink("", "e"), ENOENT);
    CHECK_ERR(readlink(".", buf, 3), EINVAL);
    write_file("l", "through"); /* makes the target */
    CHECK_STR(read_file("target"), "through");
    CHECK_ERR(open("l", O_RDONLY | O_NOFOLLOW), ELOOP);
    CHECK_ERR(open("l", O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST);
    CHECK_INT(unlink("l"), 0);
    CHECK_INT(access("target", F_OK), 0);
}

TEST(loops_end)
{
    CHECK_INT(symlink("b", "a"), 0);
    CHECK_INT(symlink("a", "b"), 0);
    CHECK_ERR(open("a", O_RDONLY), ELOOP);
    CHECK_ERR(open("a/x", O_RDONLY), ELOOP);
    errno = 0;
    CHECK(realpath("a", NULL) == NULL && errno == ELOOP);
}

TEST(dots_and_slashes)
{
    CHECK_INT(mkdir("d", 0755), 0);
    CHECK_INT(symlink("d", "l"), 0);
    write_file("f", "");
    CHECK_INT(access("d/../f", F_OK), 0);
    CHECK_INT(access(".//d///.././f", F_OK), 0);
    CHECK_ERR(access("f/.", F_OK), ENOTDIR);
    CHECK_ERR(access("f/..", F_OK), ENOTDIR);
    CHECK_ERR(access("f/", F_OK), ENOTDIR);
    CHECK_ERR(access("none/../f", F_OK), ENOENT);
    CHECK_INT(access("l/", F_OK), 0);
    CHECK_INT(access("/../../..", F_OK), 0);
    CHECK_ERR(unlink("l/"), ENOTDIR);
}

TEST(names_that_are_too_long)
{
    char name[NAME_MAX + 2], path[PATH_MAX + 10];
    memset(name, 'n', sizeof name);
    name[NAME_MAX] = 0;
    write_file(name, "");
    CHECK_INT(unlink(name), 0);
    name[NAME_MAX] = 'n';
    name[NAME_MAX + 1] = 0;
    CHECK_ERR(open(name, O_CREAT | O_WRONLY, 0600), ENAMETOOLONG);
    memset(path, '/', sizeof path);
    path[sizeof path - 1] = 0;
    CHECK_ERR(access(path, F_OK), ENAMETOOLONG);
}

TEST(realpath_resolves)
{
    char here[PATH_MAX], want[PATH_MAX + 16], got[PATH_MAX];
    CHECK(realpath(".", here) != NULL);
    CHECK_INT(mkdir("d", 0755), 0);
    CHECK_INT(mkdir("d/e", 0755), 0);
    write_file("d/e/f", "");
    CHECK_INT(symlink("d/e", "l"), 0);
    CHECK_INT(symlink("../../l/f", "d/e/back"), 0);
    snprintf(want, sizeof want, "%s/d/e/f", here);
    CHECK_STR(realpath("l/../e//./f", got), want);
    CHECK_STR(realpath("d/e/back", got), want);
    CHECK_STR(realpath("/", got), "/");
    CHECK_STR(realpath("/..", got), "/");
    CHECK(realpath("d/none", got) == NULL && errno == ENOENT);
    CHECK(realpath("d/e/f/", got) == NULL && errno == ENOTDIR);
    CHECK(realpath("d/e/f/..", got) == NULL && errno == ENOTDIR);
    CHECK(realpath("", got) == NULL && errno == ENOENT);
    char *own = realpath("l", NULL);
    snprintf(want, sizeof want, "%s/d/e", here);
    CHECK_STR(own, want);
    free(own);
}

TEST(fifo_has_a_name)
{
    struct stat st;
    char buf[4] = "";
    CHECK_INT(mkfifo("p", 0600), 0);
    CHECK_INT(stat("p", &st), 0);
    CHECK(S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode));
    CHECK_ERR(mkfifo("p", 0600), EEXIST);
    CHECK_ERR(open("p", O_WRONLY | O_NONBLOCK), ENXIO);
    pid_t pid = fork();
    if (pid == 0) {
        int w = open("p", O_WRONLY);
        _exit(write(w, "abc", 3) != 3);
    }
    int r = open("p", O_RDONLY);
    CHECK_INT(read(r, buf, 4), 3);
    CHECK_STR(buf, "abc");
    CHECK_INT(wait_for(pid), 0);
    CHECK_INT(read(r, buf, 4), 0);
}
