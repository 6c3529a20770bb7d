/* SPDX-License-Identifier: MIT
 * Directories: reading them by cookies, making and removing, slashes at the end. */
#include "p1.h"

#include <stdlib.h>

/* The entry at *at of a buffer; false when it is cut off. */
static int next(const char *buf, uint32_t used, uint32_t *at, struct dirent *d, char name[256])
{
    if (used - *at < sizeof *d)
        return 0;
    memcpy(d, buf + *at, sizeof *d);
    if (used - *at - sizeof *d < d->len)
        return 0;
    memcpy(name, buf + *at + sizeof *d, d->len);
    name[d->len] = 0;
    *at += (uint32_t)sizeof *d + d->len;
    return 1;
}

static void an_empty_one(int dir)
{
    struct filestat st;
    struct dirent d;
    char buf[256], name[256];
    uint32_t used = 0, at = 0;
    IS(p1_fd_filestat_get(dir, &st), OK);
    IS(p1_fd_readdir(dir, buf, sizeof buf, 0, &used), OK);
    IS(used, 2 * sizeof d + 3);
    IS(next(buf, used, &at, &d, name), 1);
    IS(strcmp(name, "."), 0);
    IS(d.type, TYPE_DIR);
    IS(d.ino, st.ino);
    IS(next(buf, used, &at, &d, name), 1);
    IS(strcmp(name, ".."), 0);
    IS(d.type, TYPE_DIR);
    IS(next(buf, used, &at, &d, name), 0);
    IS(p1_fd_readdir(dir, buf, sizeof buf, d.next, &used), OK);
    IS(used, 0);
}

static void cookies(int dir)
{
    struct filestat st;
    struct dirent d[3];
    char buf[256], name[3][256], again[256];
    uint32_t used = 0, at = 0;
    IS(make("dir/file"), OK);
    IS(stat_("dir/file", 0, &st), OK);
    IS(p1_fd_readdir(dir, buf, sizeof buf, 0, &used), OK);
    for (int i = 0; i < 3; i++)
        IS(next(buf, used, &at, &d[i], name[i]), 1);
    IS(strcmp(name[2], "file"), 0);
    IS(d[2].type, TYPE_FILE);
    IS(d[2].ino, st.ino);
    at = 0;
    IS(p1_fd_readdir(dir, buf, sizeof buf, d[1].next, &used), OK);
    IS(next(buf, used, &at, d, again), 1);
    IS(strcmp(again, "file"), 0);
    IS(at, used);
    IS(unlink_("dir/file"), OK);
}

/* An entry that does not fit is cut at the end of the buffer, also in its head. */
static void cut_off(int dir)
{
    char all[256], part[256];
    uint32_t used = 0, n = 0;
    IS(p1_fd_readdir(dir, all, sizeof all, 0, &used), OK);
    for (uint32_t size = 0; size < used; size++) {
        memset(part, 0, sizeof part);
        IS(p1_fd_readdir(dir, part, (int)size, 0, &n), OK);
        IS(n, size);
        IS(memcmp(part, all, size), 0);
        IS(part[size], 0);
    }
    IS(p1_fd_readdir(dir, (void *)0xfffffff0u, 64, 0, &n), E_FAULT);
    IS(p1_fd_readdir(99, all, 64, 0, &n), E_BADF);
}

enum {
    MANY = 1000
};

static void many(int dir)
{
    static char seen[MANY];
    char buf[256], name[256];
    struct dirent d;
    uint64_t cookie = 0;
    uint32_t used, total = 0;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "dir/f.%d", i);
        IS(make(name), OK);
    }
    do {
        uint32_t at = 0;
        IS(p1_fd_readdir(dir, buf, sizeof buf, cookie, &used), OK);
        while (next(buf, used, &at, &d, name)) {
            total++;
            if (name[0] == 'f')
                seen[atoi(name + 2)]++;
            cookie = d.next;
        }
    } while (used == sizeof buf);
    IS(total, MANY + 2);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "dir/f.%d", i);
        IS(seen[i], 1);
        IS(unlink_(name), OK);
    }
}

static void slashes(void)
{
    IS(mkdir_("d/"), OK);
    IS(mkdir_("d"), E_EXIST);
    IS(mkdir_("d/"), E_EXIST);
    IS(unlink_("d"), E_ISDIR);
    IS(unlink_("d/"), E_ISDIR);
    IS(mkdir_("d/e"), OK);
    IS(rmdir_("d"), E_NOTEMPTY);
    IS(rmdir_("d/e/"), OK);
    IS(rmdir_("d/."), E_INVAL);
    IS(rmdir_("d/.."), E_NOTEMPTY);
    IS(rmdir_("d/"), OK);
    IS(rmdir_("d"), E_NOENT);
    IS(make("f"), OK);
    IS(mkdir_("f"), E_EXIST);
    IS(mkdir_("f/x"), E_NOTDIR);
    IS(rmdir_("f"), E_NOTDIR);
    IS(rmdir_("f/"), E_NOTDIR);
    IS(unlink_("f/"), E_NOTDIR);
    IS(unlink_("f"), OK);
    IS(unlink_("f"), E_NOENT);
    IS(mkdir_("../x"), E_PERM);
    IS(mkdir_("/x"), E_PERM);
    IS(rmdir_(".."), E_PERM);
    IS(mkdir_(""), E_NOENT);
}

/* What is removed while it is open stays until it is closed. */
static void dangling(void)
{
    char c = 0;
    uint32_t n;
    int fd = OPEN("gone", O_CREAT, R_READ | R_WRITE | R_SEEK);
    struct iov v = {&c, 1};
    IS(write_(fd, "x"), 1);
    IS(unlink_("gone"), OK);
    IS(p1_fd_pread(fd, &v, 1, 0, &n), OK);
    IS(c, 'x');
    IS(make("gone"), OK);
    IS(p1_fd_close(fd), OK);
    IS(unlink_("gone"), OK);
    IS(mkdir_("gone"), OK);
    fd = OPEN("gone", O_DIRECTORY, R_OPEN | R_CREATE);
    IS(rmdir_("gone"), OK);
    IS(open_with(fd, "x", O_CREAT, 0, &(int){0}), E_NOENT);
    IS(mkdir_("gone"), OK);
    IS(p1_fd_close(fd), OK);
    IS(rmdir_("gone"), OK);
}

int main(void)
{
    IS(mkdir_("dir"), OK);
    int dir = OPEN("dir", O_DIRECTORY, R_READDIR | R_STAT);
    an_empty_one(dir);
    cookies(dir);
    cut_off(dir);
    many(dir);
    slashes();
    dangling();
    return bad;
}
