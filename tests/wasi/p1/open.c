/* SPDX-License-Identifier: MIT
 * path_open: what may be named, with which flags, and what comes of it. */
#include "p1.h"

static int try_open(const char *path, int follow, int oflags, uint64_t base)
{
    int fd = -1, e = p1_path_open(ROOT, follow, path, (int)strlen(path), oflags, base, 0, 0, &fd);
    if (e)
        return e;
    if (fd <= 2)
        return -1;
    return p1_fd_close(fd);
}

static void names(void)
{
    char text[5000];
    int fd;
    IS(mkdir_("dir"), OK);
    IS(mkdir_("dir/nested"), OK);
    IS(make("dir/nested/file"), OK);
    IS(try_open("/dir/nested/file", 0, 0, 0), E_PERM);
    IS(try_open("dir/.//nested/../../dir/nested/../nested///./file", 0, 0, 0), OK);
    IS(try_open("dir/nested/file/", 0, 0, 0), E_NOTDIR);
    IS(try_open("dir/nested/file///", 0, 0, 0), E_NOTDIR);
    IS(try_open("dir/nested/file/x", 0, 0, 0), E_NOTDIR);
    IS(try_open("dir/nested/", 0, 0, 0), OK);
    IS(try_open("dir/nested///", 0, 0, 0), OK);
    IS(try_open("dir/nested/../../../dir/nested/file", 0, 0, 0), E_PERM);
    IS(try_open("..", 0, 0, 0), E_PERM);
    IS(try_open("dir/../..", 0, 0, 0), E_PERM);
    IS(try_open("", 0, 0, 0), E_NOENT);
    IS(try_open("missing", 0, 0, 0), E_NOENT);
    IS(try_open("missing/file", 0, O_CREAT, 0), E_NOENT);
    IS(p1_path_open(ROOT, 0, "dir/nested/file\0", 16, 0, 0, 0, 0, &fd), E_INVAL);
    IS(p1_path_open(ROOT, 0, "dir/nes\377ed", 10, 0, 0, 0, 0, &fd), E_ILSEQ);
    IS(p1_path_open(ROOT, 0, (const char *)0xfffffff0u, 15, 0, 0, 0, 0, &fd), E_FAULT);
    IS(p1_path_open(ROOT, 0, "dir", 3, 0, 0, 0, 0, (void *)0xfffffffeu), E_FAULT);
    memset(text, 'n', sizeof text);
    IS(p1_path_open(ROOT, 0, text, 255, 0, 0, 0, 0, &fd), E_NOENT);
    IS(p1_path_open(ROOT, 0, text, 256, 0, 0, 0, 0, &fd), E_NAMETOOLONG);
    IS(p1_path_open(ROOT, 0, text, sizeof text, 0, 0, 0, 0, &fd), E_NAMETOOLONG);
}

static void flags(void)
{
    int fd = -1, other = -1;
    struct fdstat st;
    IS(make("f"), OK);
    IS(try_open("f", 0, O_CREAT | O_EXCL, 0), E_EXIST);
    IS(try_open("f", 0, O_CREAT, 0), OK);
    IS(try_open("f", 0, O_DIRECTORY, 0), E_NOTDIR);
    IS(try_open("new", 0, O_CREAT | O_DIRECTORY, 0), E_INVAL);
    IS(try_open("f", 0, 16, 0), E_INVAL);
    IS(p1_path_open(ROOT, 0, "f", 1, 0, 0, 0, 32, &fd), E_INVAL);
    IS(p1_path_open(ROOT, 0, "f", 1, 0, R_WRITE, 0, FD_APPEND | FD_SYNC, &fd), OK);
    IS(p1_fd_fdstat_get(fd, &st), OK);
    IS(st.flags, FD_APPEND | FD_SYNC);
    IS(st.type, TYPE_FILE);
    IS(write_(fd, "abc"), 3);
    IS(p1_fd_close(fd), OK);
    IS(try_open("f", 0, O_TRUNC, 0), OK);
    struct filestat fs;
    IS(stat_("f", 0, &fs), OK);
    IS(fs.size, 0);
    IS(p1_path_open(99, 0, "f", 1, 0, 0, 0, 0, &fd), E_BADF);
    IS(p1_path_open(ROOT, 0, "f", 1, 0, R_OPEN, 0, 0, &fd), OK);
    IS(p1_path_open(fd, 0, "x", 1, O_CREAT, 0, 0, 0, &other), E_NOTDIR);
    IS(p1_fd_close(fd), OK);
    IS(p1_path_open(ROOT, 0, "f", 1, 0, 0, 0, 0, &fd), OK);
    IS(p1_path_open(fd, 0, "x", 1, O_CREAT, 0, 0, 0, &other), E_NOTCAPABLE);
    IS(p1_fd_close(fd), OK);
    IS(p1_path_open(ROOT, 0, ".", 1, 0, 0, 0, FD_NONBLOCK, &fd), OK);
    IS(p1_fd_close(fd), OK);
}

static void directories(void)
{
    int fd = -1, again = -1;
    struct fdstat st, st2;
    char buf[16];
    IS(p1_fd_fdstat_get(ROOT, &st), OK);
    IS(st.type, TYPE_DIR);
    IS(st.flags, 0);
    IS(st.base & (R_READ | R_WRITE | R_SEEK | R_TELL | R_SIZE), 0);
    IS(p1_path_open(ROOT, 0, ".", 1, 0, st.base, st.inherit, 0, &again), OK);
    IS(p1_fd_fdstat_get(again, &st2), OK);
    IS(st.base == st2.base && st.inherit == st2.inherit, 1);
    IS(p1_fd_close(again), OK);
    IS(try_open(".", 0, O_DIRECTORY, R_READ), OK);
    IS(try_open(".", 0, O_DIRECTORY, R_READ | R_WRITE), E_ISDIR);
    IS(try_open("dir", 0, 0, R_WRITE), E_ISDIR);
    IS(p1_path_open(ROOT, 0, "dir", 3, O_DIRECTORY, R_SEEK | R_READ | R_TELL, 0, 0, &fd), OK);
    uint64_t at;
    IS(p1_fd_seek(fd, 0, 1, &at), E_BADF);
    IS(p1_fd_tell(fd, &at), E_BADF);
    IS(read_(fd, buf, sizeof buf), -E_ISDIR);
    IS(p1_fd_fdstat_get(fd, &st), OK);
    IS(st.base & R_SEEK, 0);
    IS(p1_fd_filestat_set_size(fd, 0), E_NOTCAPABLE);
    IS(p1_fd_allocate(fd, 0, 1), E_NOTCAPABLE);
    IS(write_(fd, "x"), -E_NOTCAPABLE);
    IS(p1_fd_close(fd), OK);
}

static void links(void)
{
    IS(symlink_("dir", "to-dir"), OK);
    IS(symlink_("f", "to-file"), OK);
    IS(symlink_("nowhere", "dangling"), OK);
    IS(symlink_("loop", "loop"), OK);
    IS(try_open("to-dir", 0, O_DIRECTORY, 0), E_NOTDIR);
    IS(try_open("to-dir", 0, 0, 0), E_LOOP);
    IS(try_open("to-dir", 1, O_DIRECTORY, 0), OK);
    IS(try_open("to-dir/nested/file", 0, 0, 0), OK);
    IS(try_open("to-file", 0, 0, 0), E_LOOP);
    IS(try_open("to-file", 1, 0, 0), OK);
    IS(try_open("to-file", 1, O_DIRECTORY, 0), E_NOTDIR);
    IS(try_open("dangling", 0, 0, 0), E_LOOP);
    IS(try_open("dangling", 0, O_DIRECTORY, 0), E_NOTDIR);
    IS(try_open("dangling", 1, 0, 0), E_NOENT);
    IS(try_open("dangling", 0, O_CREAT | O_EXCL, 0), E_EXIST);
    IS(try_open("loop", 0, 0, 0), E_LOOP);
    IS(try_open("loop", 1, 0, 0), E_LOOP);
    IS(try_open("loop/x", 0, 0, 0), E_LOOP);
    IS(symlink_("..", "up"), OK);
    IS(try_open("up", 1, 0, 0), E_PERM);
    IS(try_open("up/x", 0, 0, 0), E_PERM);
    IS(symlink_("/", "root"), E_PERM);
    IS(symlink_("/f", "root"), E_PERM);
}

int main(void)
{
    names();
    flags();
    directories();
    links();
    return bad;
}
