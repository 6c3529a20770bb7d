/* SPDX-License-Identifier: MIT
 *
 * local_control.c - see local_control.h. An abstract unix socket preserves message boundaries and
 * passes descriptors; the kernel tells who the peer is.
 */
#include "cli/local_control.h"

#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    ANSWER_MS = 60000, /* time to copy a large machine */
    ASK_MS = 1000,     /* time from a connection to its request */
};

struct answer {
    uint64_t bytes;
    int32_t code;
    char text[500];
};

/* "\0doze-DEVICE-INODE" */
static socklen_t name_of(int fd, struct sockaddr_un *ret)
{
    struct stat st;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (dz_fd_stat(fd, &st) < 0)
        return 0;
    int n = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "doze-%llx-%llx",
                     (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}

/* --- the process that runs the file -------------------------------------------------- */

void dz_cli_control_listen(struct dz_cli_control *c, int fd)
{
    struct sockaddr_un name;
    socklen_t n = name_of(fd, &name);
    c->listener = n ? open_socket() : -1;
    if (c->listener < 0)
        return;
    if (bind(c->listener, (struct sockaddr *)&name, n) < 0 || listen(c->listener, 4) < 0)
        dz_fd_close(&c->listener);
}

static int receive_fds(int socket, int ret_fds[static 2])
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    char byte;
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control};
    if (!readable(socket, ASK_MS) || recvmsg(socket, &m, MSG_CMSG_CLOEXEC) < 0)
        return 0;
    const struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
        return 0;
    size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(ret_fds, CMSG_DATA(h), count * sizeof(int));
    for (size_t i = 0; count != 2 && i < count; i++)
        (void)close(ret_fds[i]);
    return count == 2;
}

int dz_cli_control_accept(struct dz_cli_control *c, int ret_fds[static 2])
{
    DZ_AUTO(dz_fd_close) int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 || !is_ours(fd) || !receive_fds(fd, ret_fds))
        return 0;
    c->client = DZ_TAKE_FD(fd);
    return 1;
}

void dz_cli_control_answer(struct dz_cli_control *c, uint64_t bytes, int code, const char *text)
{
    struct answer a = {.bytes = bytes, .code = code};
    (void)snprintf(a.text, sizeof a.text, "%s", text);
    if (c->client >= 0)
        (void)send(c->client, &a, sizeof a, MSG_NOSIGNAL | MSG_DONTWAIT);
    dz_fd_close(&c->client);
}

void dz_cli_control_release(struct dz_cli_control *c)
{
    dz_fd_close(&c->listener);
    dz_fd_close(&c->client);
}

/* --- requests for a copy --------------------------------------------------------------- */

static int send_fds(int socket, int db_fd, int wal_fd, struct dz_err *err)
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    const int fds[2] = {db_fd, wal_fd};
    char byte = 's';
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(h), fds, sizeof fds);
    return sendmsg(socket, &m, MSG_NOSIGNAL) < 0
               ? dz_fail_sys(err, errno, "request a copy from the doze process that runs the file")
               : 0;
}

int dz_cli_control_snapshot(int fd, int db_fd, int wal_fd, struct dz_err *err)
{
    struct sockaddr_un name;
    struct answer a = {0};
    socklen_t n = name_of(fd, &name);
    DZ_AUTO(dz_fd_close) int s = n ? open_socket() : -1;
    if (s < 0 || connect(s, (struct sockaddr *)&name, n) < 0 || !is_ours(s))
        return DZ_ENOENT;
    int rc = send_fds(s, db_fd, wal_fd, err);
    if (rc < 0)
        return rc;
    if (!readable(s, ANSWER_MS))
        return dz_fail(err, DZ_ETIMEOUT,
                       "the doze process that runs the file made no copy within a minute");
    if (recv(s, &a, sizeof a, 0) != (ssize_t)sizeof a)
        return dz_fail(err, DZ_EBUSY, "the sandbox exited or was suspended before it was copied");
    a.text[sizeof a.text - 1] = '\0';
    return a.code < 0 ? dz_fail(err, a.code, "%s", a.text) : 0;
}
