/* SPDX-License-Identifier: MIT
 *
 * native_net.h - addresses, sockets and lines of output for native_net.c. */
#ifndef DZ_TESTS_NATIVE_NET_H
#define DZ_TESTS_NATIVE_NET_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LATE_MS = 10000, /* a SYN is sent again after a second */
    ALL = POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDNORM | POLLWRNORM | POLLWRBAND,
};

static int cases;
static volatile sig_atomic_t pipes;
static inline void on_pipe(int signo)
{
    (void)signo;
    pipes++;
}

static inline void say(const char *what, long r)
{
    cases++;
    if (r < 0)
        printf("%s: %s\n", what, strerrorname_np(errno));
    else
        printf("%s: %ld\n", what, r);
}
/* A case: the result of a call. FD: it returns a descriptor. */
#define T(what, call) say(what, (long)(call))
#define FD(what, call)                 \
    ({                                 \
        const int fd_ = (int)(call);   \
        say(what, fd_ < 0 ? -1L : 0L); \
        fd_;                           \
    })

/* ---- addresses ------------------------------------------------------------------------------- */

union name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};
static inline union name v4(const char *text, uint16_t port)
{
    union name n = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    inet_pton(AF_INET, text, &n.v4.sin_addr);
    return n;
}
static inline union name v6(const char *text, uint16_t port)
{
    union name n = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
    inet_pton(AF_INET6, text, &n.v6.sin6_addr);
    return n;
}
static inline socklen_t size_of(const union name *n)
{
    return n->any.sa_family == AF_INET6 ? sizeof n->v6 : sizeof n->v4;
}
static inline int name_it(int fd, union name n)
{
    return bind(fd, &n.any, size_of(&n));
}
static inline int reach(int fd, union name n)
{
    return connect(fd, &n.any, size_of(&n));
}
static inline ssize_t send_to(int fd, const char *data, size_t n, int flags, union name to)
{
    return sendto(fd, data, n, flags, &to.any, size_of(&to));
}
static inline uint16_t port_of(int fd)
{
    union name n = {0};
    socklen_t size = sizeof n;
    return getsockname(fd, &n.any, &size) < 0 ? 0 : ntohs(n.v4.sin_port); /* the same place */
}
static inline void tell_name(const char *what, const union name *n, socklen_t size)
{
    char text[INET6_ADDRSTRLEN] = "?";
    if (n->any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, &n->v6.sin6_addr, text, sizeof text);
    else
        inet_ntop(AF_INET, &n->v4.sin_addr, text, sizeof text);
    printf("%s: %u %s %s %u\n", what, n->any.sa_family, text, n->v4.sin_port ? "port" : "none",
           (unsigned)size);
    cases++;
}
static inline void tell_own(const char *what, int fd, bool peer)
{
    union name n = {0};
    socklen_t size = sizeof n;
    const int r = peer ? getpeername(fd, &n.any, &size) : getsockname(fd, &n.any, &size);
    if (r < 0)
        say(what, -1);
    else
        tell_name(what, &n, size);
}

/* ---- helpers --------------------------------------------------------------------------------- */

static inline int tcp(void)
{
    return socket(AF_INET, SOCK_STREAM, 0);
}
static inline int udp(void)
{
    return socket(AF_INET, SOCK_DGRAM, 0);
}
static inline void events(const char *what, int fd)
{
    struct pollfd p = {fd, ALL, 0};
    const int r = poll(&p, 1, 0);
    printf("%s: %d %x\n", what, r, (unsigned)p.revents);
    cases++;
}
/* Wait for one of these events, then tell all. */
static inline void until(const char *what, int fd, short wanted)
{
    struct pollfd p = {fd, wanted, 0};
    (void)!poll(&p, 1, LATE_MS);
    events(what, fd);
}
static inline void await(int fd, short wanted)
{
    struct pollfd p = {fd, wanted, 0};
    (void)!poll(&p, 1, LATE_MS);
}
static inline int get(int fd, int level, int name)
{
    int v = -77;
    socklen_t size = sizeof v;
    return getsockopt(fd, level, name, &v, &size) < 0 ? -1 : v;
}
static inline int set(int fd, int level, int name, int v)
{
    return setsockopt(fd, level, name, &v, sizeof v);
}
static inline void pending(const char *what, int fd)
{
    const int e = get(fd, SOL_SOCKET, SO_ERROR);
    printf("%s: %s\n", what, e > 0 ? strerrorname_np(e) : e == 0 ? "none" : "?");
    cases++;
}
static inline int listener(union name at)
{
    const int fd = socket(at.any.sa_family, SOCK_STREAM, 0);
    if (name_it(fd, at) < 0 || listen(fd, 8) < 0)
        return -1;
    return fd;
}
/* Both ends of a connection. */
static inline void joined(int ends[2])
{
    const int l = listener(v4("127.0.0.1", 0));
    ends[0] = tcp();
    (void)!reach(ends[0], v4("127.0.0.1", port_of(l)));
    ends[1] = accept(l, NULL, NULL);
    close(l);
}
static inline void close_both(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}
static inline void tell_read(const char *what, int fd, int flags)
{
    char b[32] = "";
    const ssize_t n = recv(fd, b, sizeof b - 1, flags);
    if (n < 0)
        say(what, -1);
    else
        printf("%s: %zd '%.*s'\n", what, n, (int)n, b), cases++;
}

#endif
