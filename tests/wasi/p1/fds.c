/* SPDX-License-Identifier: MIT
 * Descriptors: preopened ones, renumbering, streams, sockets that are none. */
#include "p1.h"

struct prestat {
    uint8_t tag;
    uint32_t len;
};

static void preopened(void)
{
    struct prestat p;
    char name[8] = "........";
    IS(p1_fd_prestat_get(ROOT, &p), OK);
    IS(p.tag, 0);
    IS(p.len, 1);
    IS(p1_fd_prestat_dir_name(ROOT, name, 0), E_NAMETOOLONG);
    IS(p1_fd_prestat_dir_name(ROOT, name, 2), OK);
    IS(memcmp(name, "/.......", 8), 0);
    IS(p1_fd_prestat_dir_name(ROOT, (void *)0xffffffffu, 8), E_FAULT);
    IS(p1_fd_prestat_get(4, &p), E_BADF);
    IS(p1_fd_prestat_dir_name(4, name, 8), E_BADF);
    for (int fd = 0; fd < 3; fd++)
        IS(p1_fd_prestat_get(fd, &p), E_BADF);
    int dir = OPEN(".", O_DIRECTORY, 0);
    IS(p1_fd_prestat_get(dir, &p), E_BADF); /* the same directory, but not preopened */
    IS(p1_fd_close(dir), OK);
}

static void renumbering(void)
{
    struct fdstat was, is;
    int from = OPEN("a", O_CREAT, R_READ | R_WRITE | R_SEEK), to = OPEN("b", O_CREAT, R_READ);
    IS(write_(from, "abc"), 3);
    IS(p1_fd_fdstat_get(from, &was), OK);
    IS(p1_fd_renumber(from, to), OK);
    IS(p1_fd_close(from), E_BADF);
    IS(p1_fd_fdstat_get(to, &is), OK);
    IS(memcmp(&was, &is, sizeof is), 0);
    uint64_t at;
    IS(p1_fd_seek(to, 0, 1, &at), OK);
    IS(at, 3);
    IS(p1_fd_renumber(to, from), E_BADF);
    IS(p1_fd_renumber(99, to), E_BADF);
    IS(p1_fd_renumber(to, to), OK);
    IS(p1_fd_close(to), OK);
}

static void closing(void)
{
    int dir = -1;
    struct fdstat st;
    struct filestat a, b;
    IS(p1_fd_fdstat_get(ROOT, &st), OK);
    IS(p1_path_open(ROOT, 0, ".", 1, O_DIRECTORY, st.base, st.inherit, 0, &dir), OK);
    IS(p1_fd_filestat_get(dir, &a), OK);
    IS(p1_fd_renumber(dir, ROOT), OK);
    IS(p1_fd_fdstat_get(dir, &st), E_BADF);
    IS(p1_fd_filestat_get(ROOT, &b), OK);
    IS(a.dev == b.dev && a.ino == b.ino, 1);
    IS(p1_path_open(ROOT, 0, ".", 1, O_DIRECTORY, st.base, st.inherit, 0, &dir), OK);
    IS(p1_fd_close(ROOT), OK);
    IS(p1_fd_fdstat_get(ROOT, &st), E_BADF);
    IS(p1_fd_fdstat_get(dir, &st), OK);
    IS(st.type, TYPE_DIR);
    IS(p1_fd_close(99), E_BADF);
    for (int fd = -300; fd < 0; fd++) { /* some system's AT_FDCWD among them */
        IS(p1_fd_close(fd), E_BADF);
        IS(p1_fd_fdstat_get(fd, &st), E_BADF);
        IS(p1_fd_fdstat_set_rights(fd, 0, 0), E_BADF);
        IS(p1_fd_filestat_get(fd, &a), E_BADF);
        IS(open_with(fd, ".", 0, 0, &dir), E_BADF);
    }
}

static void streams(void)
{
    struct fdstat st;
    char c;
    IS(read_(0, &c, 1), 0); /* at its end */
    IS(p1_fd_fdstat_get(0, &st), OK);
    IS(st.base & R_SEEK, 0); /* as who asks for a terminal looks for it */
    for (int fd = 0; fd < 3; fd++) {
        int to = OPEN("c", O_CREAT, 0);
        if (fd == 2)
            break; /* what failed is told there */
        IS(p1_fd_renumber(fd, to), OK);
        IS(p1_fd_fdstat_get(to, &st), OK);
        IS(p1_fd_fdstat_get(fd, &st), E_BADF);
    }
}

static void sockets(void)
{
    struct iov v = {"x", 1};
    uint32_t n;
    uint16_t flags;
    int fd = OPEN("d", O_CREAT, R_READ | R_WRITE);
    IS(p1_sock_accept(fd, 0, &n), E_NOTSOCK);
    IS(p1_sock_recv(fd, &v, 1, 0, &n, &flags), E_NOTSOCK);
    IS(p1_sock_send(fd, &v, 1, 0, &n), E_NOTSOCK);
    IS(p1_sock_shutdown(fd, 3), E_NOTSOCK);
    IS(p1_sock_shutdown(99, 3), E_BADF);
    IS(p1_sock_send(99, &v, 1, 0, &n), E_BADF);
    IS(p1_fd_close(fd), OK);
}

int main(void)
{
    preopened();
    renumbering();
    sockets();
    streams();
    closing();
    return bad;
}
