/* SPDX-License-Identifier: MIT
 * Bytes in and out of a file: positions, pieces, sizes, appending, wild pointers. */
#include "p1.h"

#define ALL \
    (R_READ | R_WRITE | R_SEEK | R_TELL | R_STAT | R_SIZE | R_ALLOCATE | R_ADVISE | R_SET_FLAGS)

static uint64_t size_of(int fd)
{
    struct filestat st = {0};
    IS(p1_fd_filestat_get(fd, &st), OK);
    return st.size;
}

static int64_t seek(int fd, int64_t off, int whence)
{
    uint64_t at = 0;
    int e = p1_fd_seek(fd, off, whence, &at);
    return e ? -e : (int64_t)at;
}

static void positions(void)
{
    int fd = OPEN("pos", O_CREAT, ALL);
    uint64_t at = 7;
    char buf[200];
    memset(buf, 'x', sizeof buf);
    buf[100] = 0;
    IS(p1_fd_tell(fd, &at), OK);
    IS(at, 0);
    IS(write_(fd, buf), 100);
    IS(p1_fd_tell(fd, &at), OK);
    IS(at, 100);
    IS(seek(fd, -50, 1), 50);
    IS(seek(fd, 0, 0), 0);
    IS(seek(fd, 1000, 1), 1000);
    IS(read_(fd, buf, 10), 0);
    IS(seek(fd, -2000, 1), -E_INVAL);
    IS(seek(fd, -1, 0), -E_INVAL);
    IS(seek(fd, 0, 3), -E_INVAL);
    IS(seek(fd, -10, 2), 90);
    IS(read_(fd, buf, 100), 10);
    IS(seek(fd, 0, 0), 0);
    IS(read_(fd, buf, 100), 100);
    IS(p1_fd_tell(fd, &at), OK);
    IS(at, 100);
    IS(p1_fd_seek(fd, 0, 0, (void *)0xfffffffcu), E_FAULT);
    IS(p1_fd_seek(1, 0, 1, &at) != OK, 1); /* a stream has no position */
    IS(p1_fd_close(fd), OK);
}

static void pieces(void)
{
    int fd = OPEN("pieces", O_CREAT, ALL);
    char a[2], b[4] = "....";
    struct iov out[3] = {{"ab", 2}, {"", 0}, {"cd", 2}}, in[2] = {{a, 2}, {b, 4}};
    uint32_t n = 0;
    IS(p1_fd_pwrite(fd, out, 3, 1, &n), OK);
    IS(n, 4);
    IS(size_of(fd), 5);
    IS(p1_fd_pread(fd, in, 2, 1, &n), OK);
    IS(n, 4);
    IS(memcmp(a, "ab", 2) || memcmp(b, "cd..", 4), 0);
    IS(p1_fd_pread(fd, in, 2, 4, &n), OK);
    IS(n, 1);
    IS(p1_fd_pread(fd, in, 2, 5, &n), OK);
    IS(n, 0);
    IS(p1_fd_pread(fd, in, 2, (uint64_t)-1, &n), E_INVAL);
    IS(p1_fd_pwrite(fd, out, 3, (uint64_t)1 << 63, &n), E_INVAL);
    IS(seek(fd, 0, 1), 0); /* none of these moved it */
    IS(p1_fd_write(fd, out, 3, &n), OK);
    IS(n, 4);
    IS(p1_fd_write(fd, out, 0, &n), OK);
    IS(n, 0);
    IS(p1_fd_close(fd), OK);
}

static void wild(void)
{
    int fd = OPEN("wild", O_CREAT, ALL);
    struct iov v = {(void *)0xffffff00u, 0x200}, ok = {"abc", 3}, huge[2];
    uint32_t n;
    IS(p1_fd_write(fd, &v, 1, &n), E_FAULT);
    IS(p1_fd_read(fd, &v, 1, &n), E_FAULT);
    IS(p1_fd_write(fd, (void *)0xfffffff8u, 2, &n), E_FAULT);
    IS(p1_fd_write(fd, &ok, 1, (void *)0xfffffffeu), E_FAULT);
    IS(p1_fd_write(fd, &ok, -1, &n), E_INVAL);
    huge[0] = huge[1] = (struct iov){"abc", 0x7fffffff};
    IS(p1_fd_write(fd, huge, 2, &n) != OK, 1);
    IS(size_of(fd), 0);
    IS(p1_fd_close(fd), OK);
}

static void sizes(void)
{
    int fd = OPEN("sizes", O_CREAT, ALL);
    IS(p1_fd_filestat_set_size(fd, 100), OK);
    IS(size_of(fd), 100);
    IS(p1_fd_filestat_set_size(fd, (uint64_t)-1), E_INVAL);
    IS(p1_fd_advise(fd, 10, 50, 0), OK);
    IS(p1_fd_advise(fd, 10, 50, 5), OK);
    IS(p1_fd_advise(fd, 10, 50, 6), E_INVAL);
    IS(p1_fd_advise(fd, 0, 0, 4), OK);
    IS(size_of(fd), 100);
    IS(p1_fd_allocate(fd, 100, 100), OK);
    IS(size_of(fd), 200);
    IS(p1_fd_allocate(fd, 10, 10), OK);
    IS(size_of(fd), 200);
    IS(p1_fd_allocate(fd, 190, 20), OK);
    IS(size_of(fd), 210);
    IS(p1_fd_allocate(fd, 0, 0), E_INVAL);
    IS(p1_fd_allocate(fd, (uint64_t)1 << 62, (uint64_t)1 << 62), E_FBIG);
    IS(p1_fd_filestat_set_size(fd, 0), OK);
    IS(size_of(fd), 0);
    IS(p1_fd_close(fd), OK);
}

static void appending(void)
{
    int fd = -1;
    char buf[8] = "";
    struct fdstat st;
    IS(p1_path_open(ROOT, 0, "app", 3, O_CREAT, ALL, 0, FD_APPEND, &fd), OK);
    IS(write_(fd, "one"), 3);
    IS(seek(fd, 0, 0), 0);
    IS(write_(fd, "two"), 3);
    IS(seek(fd, 0, 0), 0);
    IS(read_(fd, buf, 6), 6);
    IS(memcmp(buf, "onetwo", 6), 0);
    IS(p1_fd_fdstat_set_flags(fd, 0), OK);
    IS(p1_fd_fdstat_get(fd, &st), OK);
    IS(st.flags, 0);
    IS(seek(fd, 0, 0), 0);
    IS(write_(fd, "ONE"), 3);
    IS(seek(fd, 0, 0), 0);
    IS(read_(fd, buf, 6), 6);
    IS(memcmp(buf, "ONEtwo", 6), 0);
    IS(p1_fd_fdstat_set_flags(fd, FD_APPEND | FD_NONBLOCK), OK);
    IS(p1_fd_fdstat_set_flags(fd, 32), E_INVAL);
    IS(p1_fd_close(fd), OK);
}

/* Two descriptors of one file see each other's bytes at once. */
static void unbuffered(void)
{
    int in = OPEN("un", O_CREAT, R_READ), out = OPEN("un", 0, R_WRITE | R_SYNC | R_DATASYNC);
    char c = 0;
    IS(write_(out, "z"), 1);
    IS(p1_fd_sync(out), OK);
    IS(p1_fd_datasync(out), OK);
    IS(read_(in, &c, 1), 1);
    IS(c, 'z');
    IS(write_(in, "y"), -E_NOTCAPABLE);
    IS(read_(out, &c, 1), -E_NOTCAPABLE);
    IS(p1_fd_close(in), OK);
    IS(p1_fd_close(out), OK);
    out = OPEN("un", O_CREAT | O_TRUNC, R_WRITE | R_READ);
    IS(read_(out, &c, 1), 0);
    IS(p1_fd_close(out), OK);
    IS(p1_fd_close(out), E_BADF);
}

int main(void)
{
    positions();
    pieces();
    wild();
    sizes();
    appending();
    unbuffered();
    return bad;
}
