/* SPDX-License-Identifier: MIT
 * Directories: making, reading, walking, the working directory. */
#include "check.h"

#include <dirent.h>
#include <ftw.h>
#include <glob.h>

static int count(const char *path)
{
    int n = 0;
    struct dirent *e;
    DIR *d = opendir(path);
    if (!d)
        return -1;
    while ((e = readdir(d)))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

TEST(make_and_remove)
{
    struct stat st;
    umask(022);
    CHECK_INT(mkdir("d", 0777), 0);
    CHECK_INT(stat("d", &st), 0);
    CHECK_INT(st.st_mode, S_IFDIR | 0755);
    CHECK_ERR(mkdir("d", 0777), EEXIST);
    CHECK_ERR(mkdir("x/y", 0777), ENOENT);
    write_file("d/f", "");
    CHECK_ERR(mkdir("d/f/x", 0777), ENOTDIR);
    CHECK_ERR(rmdir("d"), ENOTEMPTY);
    CHECK_ERR(rmdir("d/f"), ENOTDIR);
    CHECK_ERR(unlink("d"), EISDIR);
    CHECK_INT(unlink("d/f"), 0);
    CHECK_ERR(rmdir("d/."), EINVAL);
    CHECK_INT(remove("d"), 0);
    CHECK_ERR(rmdir("d"), ENOENT);
}

TEST(link_count_of_directories)
{
    struct stat st;
    CHECK_INT(mkdir("d", 0755), 0);
    CHECK_INT(mkdir("d/e", 0755), 0);
    CHECK_INT(stat("d/..", &st), 0);
    ino_t parent = st.st_ino;
    CHECK_INT(stat(".", &st), 0);
    CHECK_INT(st.st_ino, parent);
}

TEST(reading_sees_every_name_once)
{
    char name[16], seen[200] = "";
    struct dirent *e;
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "n%d", i);
        write_file(name, "");
    }
    DIR *d = opendir(".");
    int dots = 0;
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.')
            dots++;
        else
            seen[atoi(e->d_name + 1)]++;
    }
    CHECK_INT(dots, 2);
    for (int i = 0; i < 200; i++)
        CHECK_INT(seen[i], 1);
    rewinddir(d);
    CHECK(readdir(d) != NULL);
    CHECK(fcntl(dirfd(d), F_GETFD) == FD_CLOEXEC);
    CHECK_INT(closedir(d), 0);
    CHECK_INT(count("."), 200);
    errno = 0;
    CHECK(opendir("n1") == NULL && errno == ENOTDIR);
    CHECK(opendir("none") == NULL && errno == ENOENT);
}

TEST(removing_while_reading)
{
    char name[16];
    struct dirent *e;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "n%d", i);
        write_file(name, "");
    }
    DIR *d = opendir(".");
    int n = 0;
    while ((e = readdir(d)))
        if (e->d_name[0] != '.')
            n += unlink(e->d_name) == 0;
    closedir(d);
    CHECK_INT(n, 100);
    CHECK_INT(count("."), 0);
}

TEST(types_and_inodes_of_entries)
{
    struct dirent *e;
    struct stat st;
    CHECK_INT(mkdir("dir", 0755), 0);
    write_file("file", "");
    CHECK_INT(symlink("file", "link"), 0);
    DIR *d = opendir(".");
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        CHECK_INT(lstat(e->d_name, &st), 0);
        CHECK_INT(st.st_ino, e->d_ino);
        CHECK(e->d_type == DT_UNKNOWN || e->d_type == (*e->d_name == 'd'   ? DT_DIR
                                                       : *e->d_name == 'f' ? DT_REG
                                                                           : DT_LNK));
    }
    closedir(d);
}

static int only_b(const struct dirent *e)
{
    return e->d_name[0] == 'b';
}

TEST(scandir_sorts_and_selects)
{
    struct dirent **list;
    write_file("b2", "");
    write_file("a", "");
    write_file("b1", "");
    CHECK_INT(scandir(".", &list, only_b, alphasort), 2);
    CHECK_STR(list[0]->d_name, "b1");
    CHECK_STR(list[1]->d_name, "b2");
    free(list[0]);
    free(list[1]);
    free(list);
    CHECK_ERR(scandir("none", &list, NULL, NULL), ENOENT);
}

static int walked, depth_max;
static int visit(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)path;
    (void)st;
    walked += type == FTW_D || type == FTW_F;
    if (f->level > depth_max)
        depth_max = f->level;
    return 0;
}

TEST(walking_and_globbing)
{
    glob_t g;
    CHECK_INT(mkdir("d", 0755), 0);
    CHECK_INT(mkdir("d/e", 0755), 0);
    write_file("d/e/x.c", "");
    write_file("d/e/y.c", "");
    CHECK_INT(nftw("d", visit, 8, FTW_PHYS), 0);
    CHECK_INT(walked, 4);
    CHECK_INT(depth_max, 2);
    CHECK_INT(glob("d/*/*.c", 0, NULL, &g), 0);
    CHECK_INT(g.gl_pathc, 2);
    CHECK_STR(g.gl_pathv[0], "d/e/x.c");
    globfree(&g);
    CHECK_INT(glob("nothing*", 0, NULL, &g), GLOB_NOMATCH);
}

TEST(changing_directory)
{
    char here[4096], there[4096];
    CHECK_INT(mkdir("d", 0755), 0);
    int back = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(getcwd(here, sizeof here) != NULL);
    CHECK_INT(chdir("d"), 0);
    CHECK(getcwd(there, sizeof there) != NULL);
    strcat(here, "/d");
    CHECK_STR(there, here);
    write_file("in-d", "");
    CHECK_INT(fchdir(back), 0);
    CHECK_INT(access("d/in-d", F_OK), 0);
    CHECK_ERR(chdir("none"), ENOENT);
    CHECK_ERR(chdir("d/in-d"), ENOTDIR);
    CHECK_ERR(fchdir(99), EBADF);
    char *own = getcwd(NULL, 0);
    CHECK(own != NULL);
    free(own);
    errno = 0;
    CHECK(getcwd(here, 0) == NULL && errno == EINVAL);
}

TEST(calls_relative_to_a_directory)
{
    struct stat st;
    char buf[8];
    CHECK_INT(mkdir("d", 0755), 0);
    int d = open("d", O_RDONLY | O_DIRECTORY);
    int fd = openat(d, "f", O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0);
    CHECK_INT(mkdirat(d, "e", 0700), 0);
    CHECK_INT(symlinkat("f", d, "l"), 0);
    CHECK_INT(readlinkat(d, "l", buf, sizeof buf), 1);
    CHECK_INT(fstatat(d, "l", &st, AT_SYMLINK_NOFOLLOW), 0);
    CHECK(S_ISLNK(st.st_mode));
    CHECK_INT(linkat(d, "f", d, "g", 0), 0);
    CHECK_INT(renameat(d, "g", AT_FDCWD, "out"), 0);
    CHECK_INT(faccessat(d, "f", R_OK, 0), 0);
    CHECK_INT(unlinkat(d, "e", AT_REMOVEDIR), 0);
    CHECK_ERR(unlinkat(d, "e", 12345678), EINVAL);
    CHECK_ERR(fstatat(99, "f", &st, 0), EBADF);
    CHECK_ERR(fstatat(fd, "f", &st, 0), ENOTDIR);
    CHECK_INT(stat("out", &st), 0);
    CHECK_INT(st.st_nlink, 2);
}
