/* SPDX-License-Identifier: MIT
 * Rights: they only shrink, are handed on as the directory says, and each call
 * asks for its own. */
#include "p1.h"

static void narrowing(void)
{
    int fd = OPEN("f", O_CREAT, R_READ | R_WRITE | R_SEEK | R_TELL);
    struct fdstat st;
    char buf[4];
    uint64_t at;
    IS(write_(fd, "abcd"), 4);
    IS(p1_fd_seek(fd, 0, 0, &at), OK);
    IS(read_(fd, buf, 4), 4);
    IS(p1_fd_fdstat_get(fd, &st), OK);
    IS(st.base, R_READ | R_WRITE | R_SEEK | R_TELL);
    IS(st.inherit, 0);
    IS(p1_fd_fdstat_set_rights(fd, st.base, st.inherit), OK);
    IS(p1_fd_fdstat_set_rights(fd, R_SEEK, 0), OK);
    IS(p1_fd_fdstat_get(fd, &st), OK);
    IS(st.base, R_SEEK);
    IS(read_(fd, buf, 4), -E_NOTCAPABLE);
    IS(write_(fd, "x"), -E_NOTCAPABLE);
    IS(p1_fd_tell(fd, &at), E_NOTCAPABLE);
    IS(p1_fd_seek(fd, 0, 0, &at), OK);
    IS(p1_fd_fdstat_set_rights(fd, R_SEEK | R_READ, 0), E_NOTCAPABLE);
    IS(p1_fd_fdstat_set_rights(fd, R_SEEK, R_READ), E_NOTCAPABLE);
    IS(p1_fd_fdstat_set_rights(99, 0, 0), E_BADF);
    IS(p1_fd_close(fd), OK);
}

/* Every call on a descriptor that may nothing. */
static void nothing(void)
{
    int fd = OPEN("f", 0, 0);
    uint64_t at;
    char buf[64];
    uint32_t n;
    struct iov v = {buf, 1};
    IS(p1_fd_advise(fd, 0, 1, 0), E_NOTCAPABLE);
    IS(p1_fd_allocate(fd, 0, 1), E_NOTCAPABLE);
    IS(p1_fd_datasync(fd), E_NOTCAPABLE);
    IS(p1_fd_sync(fd), E_NOTCAPABLE);
    IS(p1_fd_fdstat_set_flags(fd, 0), E_NOTCAPABLE);
    IS(p1_fd_filestat_get(fd, buf), E_NOTCAPABLE);
    IS(p1_fd_filestat_set_size(fd, 0), E_NOTCAPABLE);
    IS(p1_fd_filestat_set_times(fd, 0, 0, TIME_MTIM), E_NOTCAPABLE);
    IS(p1_fd_pread(fd, &v, 1, 0, &n), E_NOTCAPABLE);
    IS(p1_fd_pwrite(fd, &v, 1, 0, &n), E_NOTCAPABLE);
    IS(p1_fd_read(fd, &v, 1, &n), E_NOTCAPABLE);
    IS(p1_fd_write(fd, &v, 1, &n), E_NOTCAPABLE);
    IS(p1_fd_seek(fd, 0, 0, &at), E_NOTCAPABLE);
    IS(p1_fd_tell(fd, &at), E_NOTCAPABLE);
    IS(p1_fd_readdir(fd, buf, 64, 0, &n), E_NOTCAPABLE);
    IS(p1_fd_close(fd), OK);
    int seek_only = OPEN("f", 0, R_READ | R_WRITE);
    IS(p1_fd_pread(seek_only, &v, 1, 0, &n), E_NOTCAPABLE);
    IS(p1_fd_pwrite(seek_only, &v, 1, 0, &n), E_NOTCAPABLE);
    IS(p1_fd_close(seek_only), OK);
}

static void nothing_below(void)
{
    int dir = OPEN("d", O_DIRECTORY, 0), fd;
    struct filestat st;
    char buf[8];
    uint32_t n;
    IS(p1_path_create_directory(dir, "x", 1), E_NOTCAPABLE);
    IS(p1_path_filestat_get(dir, 0, "x", 1, &st), E_NOTCAPABLE);
    IS(p1_path_filestat_set_times(dir, 0, "x", 1, 0, 0, TIME_MTIM), E_NOTCAPABLE);
    IS(p1_path_link(dir, 0, "x", 1, ROOT, "y", 1), E_NOTCAPABLE);
    IS(p1_path_link(ROOT, 0, "f", 1, dir, "y", 1), E_NOTCAPABLE);
    IS(p1_path_open(dir, 0, "x", 1, 0, 0, 0, 0, &fd), E_NOTCAPABLE);
    IS(p1_path_readlink(dir, "x", 1, buf, 8, &n), E_NOTCAPABLE);
    IS(p1_path_remove_directory(dir, "x", 1), E_NOTCAPABLE);
    IS(p1_path_rename(dir, "x", 1, ROOT, "y", 1), E_NOTCAPABLE);
    IS(p1_path_rename(ROOT, "f", 1, dir, "y", 1), E_NOTCAPABLE);
    IS(p1_path_symlink("x", 1, dir, "y", 1), E_NOTCAPABLE);
    IS(p1_path_unlink_file(dir, "x", 1), E_NOTCAPABLE);
    IS(p1_fd_close(dir), OK);
}

static void handed_on(void)
{
    int dir = -1, fd = -1;
    uint64_t base = R_OPEN | R_CREATE | R_PATH_SIZE;
    IS(p1_path_open(ROOT, 0, "d", 1, O_DIRECTORY, base, R_READ | R_SEEK, 0, &dir), OK);
    IS(open_with(dir, "x", O_CREAT, R_READ, &fd), OK);
    IS(p1_fd_close(fd), OK);
    IS(open_with(dir, "x", 0, R_READ | R_WRITE, &fd), E_NOTCAPABLE);
    IS(p1_path_open(dir, 0, "x", 1, 0, R_READ, R_WRITE, 0, &fd), E_NOTCAPABLE);
    IS(open_with(dir, "x", O_TRUNC, 0, &fd), OK); /* by the path's right, not the file's */
    IS(p1_fd_close(fd), OK);
    IS(p1_fd_fdstat_set_rights(dir, base & ~R_PATH_SIZE, R_READ), OK);
    IS(open_with(dir, "x", O_TRUNC, 0, &fd), E_NOTCAPABLE);
    IS(open_with(dir, "x", 0, R_SEEK, &fd), E_NOTCAPABLE);
    IS(p1_fd_fdstat_set_rights(dir, R_OPEN, R_READ), OK);
    IS(open_with(dir, "new", O_CREAT, 0, &fd), E_NOTCAPABLE);
    IS(open_with(dir, "x", 0, R_READ, &fd), OK);
    IS(p1_fd_close(fd), OK);
    IS(p1_fd_close(dir), OK);
}

static void of_the_preopened(void)
{
    static const uint64_t base = R_MKDIR | R_CREATE | R_LINK_SOURCE | R_LINK_TARGET | R_OPEN |
                                 R_READDIR | R_READLINK | R_RENAME_SOURCE | R_RENAME_TARGET |
                                 R_SYMLINK | R_RMDIR | R_UNLINK | R_PATH_STAT | R_PATH_TIMES |
                                 R_STAT | R_TIMES;
    static const uint64_t more = R_DATASYNC | R_READ | R_SEEK | R_SET_FLAGS | R_SYNC | R_TELL |
                                 R_WRITE | R_ADVISE | R_ALLOCATE | R_SIZE | R_POLL;
    struct fdstat st;
    IS(p1_fd_fdstat_get(ROOT, &st), OK);
    IS(base & ~st.base, 0);
    IS((base | more) & ~st.inherit, 0);
}

int main(void)
{
    IS(mkdir_("d"), OK);
    of_the_preopened();
    narrowing();
    nothing();
    nothing_below();
    handed_on();
    return bad;
}
