/* SPDX-License-Identifier: MIT
 * Sockets on loopback and of AF_UNIX, and names from /etc/hosts and /etc/services. */
#include "check.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

/* A listener on a port that the kernel chose. */
static int listener(struct sockaddr_in *ret)
{
    socklen_t size = sizeof *ret;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *ret = loopback(0);
    CHECK_INT(bind(fd, (struct sockaddr *)ret, sizeof *ret), 0);
    CHECK_INT(listen(fd, 5), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)ret, &size), 0);
    CHECK_INT(size, 16);
    CHECK(ret->sin_family == AF_INET && ret->sin_port != 0);
    return fd;
}

static void connected(int fd[2])
{
    struct sockaddr_in a;
    int l = listener(&a);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(connect(fd[0], (struct sockaddr *)&a, sizeof a), 0);
    fd[1] = accept(l, NULL, NULL);
    CHECK(fd[1] >= 0);
    close(l);
}

TEST(a_server_in_another_process)
{
    struct sockaddr_in a, from, own;
    socklen_t size = sizeof from;
    char text[32] = "";
    int l = listener(&a);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = accept(l, NULL, NULL);
        ssize_t n = read(fd, text, sizeof text);
        if (n > 0)
            text[0] = 'J';
        _exit(write(fd, text, (size_t)n) == n ? 0 : 1);
    }
    close(l);
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
    CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    CHECK_INT(getpeername(fd, (struct sockaddr *)&from, &size), 0);
    CHECK(from.sin_port == a.sin_port && from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    size = sizeof own;
    CHECK_INT(getsockname(fd, (struct sockaddr *)&own, &size), 0);
    CHECK(own.sin_port != a.sin_port);
    CHECK_INT(send(fd, "hello", 5, 0), 5);
    CHECK_INT(recv(fd, text, sizeof text, 0), 5);
    CHECK_STR(text, "Jello");
    CHECK_INT(recv(fd, text, sizeof text, 0), 0);
    CHECK_INT(wait_for(pid), 0);
}

TEST(accept_names_the_peer)
{
    struct sockaddr_in a, from = {0}, own = {0};
    socklen_t size = sizeof from, own_size = sizeof own;
    int l = listener(&a), fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    int got = accept4(l, (struct sockaddr *)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    CHECK(got >= 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&own, &own_size), 0);
    CHECK(size == 16 && from.sin_family == AF_INET && from.sin_port == own.sin_port);
    CHECK(fcntl(got, F_GETFD) & FD_CLOEXEC);
    CHECK(fcntl(got, F_GETFL) & O_NONBLOCK);
    char byte;
    CHECK_ERR(recv(got, &byte, 1, 0), EAGAIN);
    CHECK_ERR(accept4(l, NULL, NULL, 1), EINVAL);
}

TEST(errors)
{
    struct sockaddr_in a;
    socklen_t size = sizeof a;
    int fds[2], l = listener(&a), fd = socket(AF_INET, SOCK_STREAM, 0);
    int file = open("f", O_CREAT | O_RDWR, 0600);
    CHECK_ERR(socket(99, SOCK_STREAM, 0), EAFNOSUPPORT);
    CHECK_ERR(socket(AF_INET, 99, 0), EINVAL);
    CHECK_ERR(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
    CHECK_ERR(socketpair(AF_INET, SOCK_STREAM, 0, fds), EOPNOTSUPP);
    CHECK_ERR(bind(file, (struct sockaddr *)&a, sizeof a), ENOTSOCK);
    CHECK_ERR(bind(99, (struct sockaddr *)&a, sizeof a), EBADF);
    CHECK_ERR(bind(fd, (struct sockaddr *)&a, sizeof a), EADDRINUSE);
    CHECK_ERR(bind(fd, (struct sockaddr *)&a, 4), EINVAL);
    CHECK_ERR(bind(fd, (struct sockaddr *)&a, 1000), EINVAL);
    CHECK_ERR(accept(fd, NULL, NULL), EINVAL);
    CHECK_ERR(getpeername(fd, (struct sockaddr *)&a, &size), ENOTCONN);
    CHECK_ERR(shutdown(fd, SHUT_WR), ENOTCONN);
    CHECK_ERR(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
    close(l);
    CHECK_ERR(connect(fd, (struct sockaddr *)&a, sizeof a), ECONNREFUSED);
    CHECK_ERR(shutdown(file, SHUT_RD), ENOTSOCK);
    CHECK_ERR(setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &size, sizeof size), ENOTSOCK);
}

TEST(an_end_in_each_direction)
{
    char byte;
    int fd[2];
    connected(fd);
    CHECK_INT(shutdown(fd[0], SHUT_WR), 0);
    CHECK_INT(read(fd[1], &byte, 1), 0);
    CHECK_INT(write(fd[1], "x", 1), 1);
    CHECK_INT(read(fd[0], &byte, 1), 1);
    CHECK_INT(shutdown(fd[1], SHUT_RDWR), 0);
    CHECK_INT(read(fd[0], &byte, 1), 0);
    CHECK_ERR(shutdown(fd[1], 3), EINVAL);
    signal(SIGPIPE, SIG_IGN);
    CHECK_ERR(write(fd[1], "x", 1), EPIPE);
}

TEST(flags_of_receiving)
{
    char text[8] = "";
    int fd[2];
    connected(fd);
    CHECK_INT(send(fd[0], "abcdef", 6, 0), 6);
    CHECK_INT(recv(fd[1], text, 3, MSG_PEEK), 3);
    CHECK_INT(recv(fd[1], text, 6, MSG_WAITALL), 6);
    CHECK_STR(text, "abcdef");
    CHECK_ERR(recv(fd[1], text, 1, MSG_DONTWAIT), EAGAIN);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 6; i++) {
            nap_ms(2);
            if (write(fd[0], &"123456"[i], 1) != 1)
                _exit(1);
        }
        _exit(0);
    }
    CHECK_INT(recv(fd[1], text, 6, MSG_WAITALL), 6);
    CHECK_STR(text, "123456");
    CHECK_INT(wait_for(pid), 0);
}

TEST(polling_a_connection)
{
    struct sockaddr_in a;
    int n = 0, l = listener(&a), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct pollfd p = {.fd = l, .events = POLLIN};
    CHECK_INT(poll(&p, 1, 0), 0);
    CHECK_ERR(accept4(l, NULL, NULL, 99), EINVAL);
    CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) == 0 || errno == EINPROGRESS);
    CHECK_INT(poll(&p, 1, 5000), 1);
    CHECK_INT(p.revents, POLLIN);
    int got = accept(l, NULL, NULL);
    p = (struct pollfd){.fd = fd, .events = POLLIN | POLLOUT};
    CHECK_INT(poll(&p, 1, 5000), 1);
    CHECK_INT(p.revents, POLLOUT);
    socklen_t size = sizeof n;
    CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_ERROR, &n, &size), 0);
    CHECK_INT(n, 0);
    CHECK_INT(write(got, "abc", 3), 3);
    CHECK_INT(poll(&p, 1, 5000), 1);
    CHECK_INT(p.revents, POLLIN | POLLOUT);
    CHECK_INT(ioctl(fd, FIONREAD, &n), 0);
    CHECK_INT(n, 3);
}

TEST(datagrams)
{
    struct sockaddr_in a = loopback(0), from = {0};
    socklen_t size = sizeof a;
    char text[8] = "";
    int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK_INT(bind(in, (struct sockaddr *)&a, sizeof a), 0);
    CHECK_INT(getsockname(in, (struct sockaddr *)&a, &size), 0);
    CHECK_INT(sendto(out, "one", 3, 0, (struct sockaddr *)&a, sizeof a), 3);
    CHECK_INT(sendto(out, "longer", 6, 0, (struct sockaddr *)&a, sizeof a), 6);
    size = sizeof from;
    CHECK_INT(recvfrom(in, text, sizeof text, 0, (struct sockaddr *)&from, &size), 3);
    CHECK(size == 16 && from.sin_family == AF_INET && from.sin_port != 0);
    CHECK_INT(recv(in, text, 2, MSG_TRUNC), 6);
    CHECK_INT(sendto(in, "back", 4, 0, (struct sockaddr *)&from, size), 4);
    CHECK_INT(recv(out, text, sizeof text, 0), 4);
    CHECK_ERR(sendto(out, "x", 1, 0, NULL, 0), EDESTADDRREQ);
    struct iovec v = {text, 2};
    _Alignas(struct cmsghdr) char control[64];
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK_INT(sendto(out, "long", 4, 0, (struct sockaddr *)&a, sizeof a), 4);
    CHECK_INT(recvmsg(in, &m, 0), 2);
    CHECK((m.msg_flags & MSG_TRUNC) && m.msg_controllen == 0);
}

TEST(version_6)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    socklen_t size = sizeof a;
    char byte = 0;
    int one = 1, l = socket(AF_INET6, SOCK_STREAM, 0), fd = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK_INT(setsockopt(l, IPPROTO_IPV6, 26 /* IPV6_V6ONLY */, &one, sizeof one), 0);
    CHECK_INT(bind(l, (struct sockaddr *)&a, sizeof a), 0);
    CHECK_INT(listen(l, 1), 0);
    CHECK_INT(getsockname(l, (struct sockaddr *)&a, &size), 0);
    CHECK(size == 28 && a.sin6_family == AF_INET6);
    CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    int got = accept(l, NULL, NULL);
    CHECK_INT(write(fd, "6", 1), 1);
    CHECK_INT(read(got, &byte, 1), 1);
    CHECK_INT(byte, '6');
}

TEST(options)
{
    int n = 0, fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    socklen_t size = sizeof n;
    CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_TYPE, &n, &size), 0);
    CHECK_INT(n, SOCK_STREAM);
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &n, &size), 0);
    CHECK_INT(n, 1);
    CHECK_INT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
    CHECK_INT(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &n, &size), 0);
    CHECK_INT(n, 1);
    struct timeval t = {1, 250000}, got = {0};
    size = sizeof got;
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t), 0);
    CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &size), 0);
    CHECK(size == sizeof got && got.tv_sec == 1 && got.tv_usec >= 250000 && got.tv_usec < 260000);
    t.tv_usec = 1000000;
    CHECK_ERR(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t), EDOM);
    CHECK_ERR(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, 4), EINVAL);
    struct linger l = {1, 7}, seen = {0};
    size = sizeof seen;
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l), 0);
    CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_LINGER, &seen, &size), 0);
    CHECK(seen.l_onoff == 1 && seen.l_linger == 7);
    CHECK_ERR(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, 1), EINVAL);
    CHECK_ERR(setsockopt(fd, IPPROTO_TCP, 9999, &one, sizeof one), ENOPROTOOPT);
}

TEST(a_receive_with_a_timeout)
{
    char byte;
    int fd[2];
    struct timeval t = {0, 20000};
    connected(fd);
    CHECK_INT(setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t), 0);
    CHECK_ERR(recv(fd[0], &byte, 1, 0), EAGAIN);
}

TEST(unix_sockets_have_paths)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "socket"}, got = {0};
    socklen_t size = sizeof got;
    struct stat st;
    char byte;
    int l = socket(AF_UNIX, SOCK_STREAM, 0), fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_INT(bind(l, (struct sockaddr *)&a, sizeof a), 0);
    CHECK_INT(listen(l, 1), 0);
    CHECK_INT(stat("socket", &st), 0);
    CHECK(S_ISSOCK(st.st_mode));
    CHECK_INT(getsockname(l, (struct sockaddr *)&got, &size), 0);
    CHECK_INT(size, offsetof(struct sockaddr_un, sun_path) + sizeof "socket");
    CHECK_STR(got.sun_path, "socket");
    CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    int in = accept(l, NULL, NULL);
    CHECK_INT(write(in, "x", 1), 1);
    CHECK_INT(read(fd, &byte, 1), 1);
    uint32_t cred[3] = {0};
    size = sizeof cred;
    CHECK_INT(getsockopt(in, SOL_SOCKET, SO_PEERCRED, cred, &size), 0);
    CHECK(size == sizeof cred && (pid_t)cred[0] == getpid() && cred[1] == getuid());
    unlink("socket");
    int other = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_ERR(connect(other, (struct sockaddr *)&a, sizeof a), ENOENT);
}

TEST(descriptors_and_credentials_travel)
{
    int pair[2], out[2], got[2] = {-1, -1}, one = 1;
    char byte = 'x';
    _Alignas(struct cmsghdr) char control[256];
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = CMSG_SPACE(sizeof got)};
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    CHECK_INT(pipe(out), 0);
    CHECK_INT(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one), 0);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof out);
    memcpy(CMSG_DATA(c), out, sizeof out);
    CHECK_INT(sendmsg(pair[0], &m, 0), 1);
    memset(control, 0, sizeof control);
    m.msg_controllen = sizeof control;
    CHECK_INT(recvmsg(pair[1], &m, 0), 1);
    int items = 0;
    for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c), items++) {
        int cred[3];
        if (c->cmsg_type == SCM_RIGHTS) {
            CHECK_INT(c->cmsg_len, CMSG_LEN(sizeof got));
            memcpy(got, CMSG_DATA(c), sizeof got);
        } else {
            CHECK_INT(c->cmsg_type, SCM_CREDENTIALS);
            memcpy(cred, CMSG_DATA(c), sizeof cred);
            CHECK_INT(cred[1], getuid());
        }
    }
    CHECK_INT(items, 2);
    CHECK_INT(write(got[1], "y", 1), 1);
    CHECK_INT(read(out[0], &byte, 1), 1);
    CHECK_INT(byte, 'y');
    CHECK_INT(m.msg_flags & ~MSG_CMSG_CLOEXEC, 0);
    m.msg_control = control;
    m.msg_controllen = CMSG_SPACE(sizeof got);
    c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof got), .cmsg_level = SOL_SOCKET, .cmsg_type = 77};
    CHECK_ERR(sendmsg(pair[0], &m, 0), EINVAL);
}

TEST(names_of_this_machine)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    CHECK_INT(getaddrinfo("localhost", "80", &hints, &found), 0);
    struct sockaddr_in *a = (struct sockaddr_in *)found->ai_addr;
    CHECK(found->ai_addrlen == 16 && a->sin_port == htons(80));
    CHECK(a->sin_addr.s_addr == htonl(INADDR_LOOPBACK) && found->ai_protocol == IPPROTO_TCP);
    freeaddrinfo(found);
    hints.ai_family = AF_INET6;
    CHECK_INT(getaddrinfo("::1", NULL, &hints, &found), 0);
    CHECK_INT(found->ai_family, AF_INET6);
    CHECK(found->ai_next == NULL);
    freeaddrinfo(found);
    hints = (struct addrinfo){.ai_flags = AI_PASSIVE, .ai_family = AF_INET};
    CHECK_INT(getaddrinfo(NULL, "7", &hints, &found), 0);
    CHECK_INT(((struct sockaddr_in *)found->ai_addr)->sin_addr.s_addr, 0);
    freeaddrinfo(found);
    hints = (struct addrinfo){.ai_flags = AI_NUMERICHOST};
    CHECK_INT(getaddrinfo("localhost", NULL, &hints, &found), EAI_NONAME);
    CHECK_INT(getaddrinfo(NULL, NULL, NULL, &found), EAI_NONAME);
    hints = (struct addrinfo){.ai_family = 77};
    CHECK_INT(getaddrinfo("localhost", NULL, &hints, &found), EAI_FAMILY);
    hints = (struct addrinfo){.ai_socktype = SOCK_STREAM};
    CHECK_INT(getaddrinfo("127.0.0.1", "no-such-service", &hints, &found), EAI_SERVICE);
    CHECK(*gai_strerror(EAI_NONAME));
    struct hostent *h = gethostbyname("localhost");
    CHECK(h && h->h_addrtype == AF_INET && h->h_length == 4);
    CHECK(h && memcmp(h->h_addr_list[0], "\177\0\0\1", 4) == 0);
    struct sockaddr_in of = loopback(9999);
    char host[64], port[8];
    CHECK_INT(getnameinfo((struct sockaddr *)&of, sizeof of, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV),
              0);
    CHECK_STR(host, "127.0.0.1");
    CHECK_STR(port, "9999");
    CHECK_INT(getnameinfo((struct sockaddr *)&of, sizeof of, host, 3, NULL, 0, NI_NUMERICHOST),
              EAI_OVERFLOW);
}

/* Each text, and the text that its address has; NULL: no address. */
TEST(addresses_as_text)
{
    static const char *const v6[][2] = {
        {"::", "::"},
        {"::1", "::1"},
        {"1::", "1::"},
        {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
        {"1:0:0:2:0:0:0:3", "1:0:0:2::3"},
        {"1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"},
        {"2001:DB8::0:1", "2001:db8::1"},
        {"::ffff:1.2.3.4", "::ffff:1.2.3.4"},
        {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
        {"1:2:3:4:5:6:7", NULL},
        {"1:2:3:4:5:6:7:8:9", NULL},
        {"1::2::3", NULL},
        {":1", NULL},
        {"1:", NULL},
        {":::", NULL},
        {"12345::", NULL},
        {"::1.2.3", NULL},
        {"::g", NULL},
        {"", NULL},
    };
    static const char *const bad4[] = {"",         "1.2.3",  "1.2.3.4.5", "256.1.1.1", "01.2.3.4",
                                       "1.2.3.4 ", "1..2.3", "a.b.c.d",   "1.2.3.1000"};
    unsigned char b[16];
    char text[INET6_ADDRSTRLEN];
    for (size_t i = 0; i < sizeof v6 / sizeof *v6; i++) {
        int ok = inet_pton(AF_INET6, v6[i][0], b);
        if (ok != (v6[i][1] != NULL))
            printf("# %s\n", v6[i][0]);
        CHECK_INT(ok, v6[i][1] != NULL);
        if (ok && v6[i][1])
            CHECK_STR(inet_ntop(AF_INET6, b, text, sizeof text), v6[i][1]);
    }
    for (size_t i = 0; i < sizeof bad4 / sizeof *bad4; i++)
        CHECK_INT(inet_pton(AF_INET, bad4[i], b), 0);
    CHECK_INT(inet_pton(AF_INET, "10.0.0.255", b), 1);
    CHECK_STR(inet_ntop(AF_INET, b, text, sizeof text), "10.0.0.255");
    CHECK(inet_ntop(AF_INET, b, text, 5) == NULL && errno == ENOSPC);
    CHECK_ERR(inet_pton(99, "1", b), EAFNOSUPPORT);
    struct in_addr a = {.s_addr = htonl(0x7f000001)};
    CHECK_STR(inet_ntoa(a), "127.0.0.1");
    CHECK(*gai_strerror(EAI_NONAME));
    CHECK_STR(hstrerror(HOST_NOT_FOUND), "Unknown host");
}

#ifdef __doze__
#include <doze.h>
#include <wasi/api.h>

/* Preview 1's four calls, with its own numbers. */
TEST(calls_of_preview_1)
{
    struct sockaddr_in a;
    char text[8] = "";
    int l = listener(&a), fd = socket(AF_INET, SOCK_STREAM, 0);
    __wasi_fd_t in;
    __wasi_size_t n;
    __wasi_roflags_t out;
    __wasi_iovec_t to = {(uint8_t *)text, 4};
    __wasi_ciovec_t from = {(const uint8_t *)"abcd", 4};
    CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    CHECK_INT(__wasi_sock_accept((__wasi_fd_t)l, 1, &in), __WASI_ERRNO_INVAL);
    CHECK_INT(__wasi_sock_accept((__wasi_fd_t)l, __WASI_FDFLAGS_NONBLOCK, &in), 0);
    CHECK_INT(__wasi_sock_recv(in, &to, 1, 0, &n, &out), __WASI_ERRNO_AGAIN);
    CHECK_INT(__wasi_sock_send((__wasi_fd_t)fd, &from, 1, 0, &n), 0);
    CHECK_INT(n, 4);
    CHECK_INT(__wasi_sock_send((__wasi_fd_t)fd, &from, 1, 1, &n), __WASI_ERRNO_INVAL);
    CHECK_INT(__wasi_sock_recv(in, &to, 1, __WASI_RIFLAGS_RECV_PEEK, &n, &out), 0);
    CHECK_INT(__wasi_sock_recv(in, &to, 1, __WASI_RIFLAGS_RECV_WAITALL, &n, &out), 0);
    CHECK(n == 4 && out == 0 && memcmp(text, "abcd", 4) == 0);
    CHECK_INT(__wasi_sock_recv(in, &to, 1, 4, &n, &out), __WASI_ERRNO_INVAL);
    CHECK_INT(__wasi_sock_shutdown((__wasi_fd_t)fd, 4), __WASI_ERRNO_INVAL);
    CHECK_INT(__wasi_sock_shutdown((__wasi_fd_t)fd, 0), __WASI_ERRNO_INVAL);
    CHECK_INT(__wasi_sock_shutdown((__wasi_fd_t)fd, __WASI_SDFLAGS_WR), 0);
    CHECK_INT(__wasi_sock_recv(in, &to, 1, 0, &n, &out), 0);
    CHECK_INT(n, 0);
    CHECK_INT(__wasi_sock_shutdown(99, __WASI_SDFLAGS_WR), __WASI_ERRNO_BADF);
    int pipes[2];
    CHECK_INT(pipe(pipes), 0);
    CHECK_INT(__wasi_sock_shutdown((__wasi_fd_t)pipes[0], 1), __WASI_ERRNO_NOTSOCK);
}

/* Pointers that leave the memory: EFAULT, and nothing has happened. */
TEST(pointers_out_of_memory)
{
    struct sockaddr_in a;
    void *bad = (void *)0xfffffff0;
    uint32_t size = sizeof a, huge = UINT32_MAX;
    struct iovec v = {bad, 64};
    int pair[2], l = listener(&a), fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    CHECK_INT(doze_bind(fd, bad, 32), -EFAULT);
    CHECK_INT(doze_bind(fd, &a, -1), -EINVAL);
    CHECK_INT(doze_connect(fd, bad, 32), -EFAULT);
    CHECK_INT(doze_socketpair(AF_UNIX, SOCK_STREAM, 0, bad), -EFAULT);
    CHECK_INT(doze_accept(l, 0, bad, &size), -EFAULT);
    CHECK_INT(doze_accept(l, 0, &a, bad), -EFAULT);
    CHECK_INT(doze_accept(l, 0, &a, &huge), -EINVAL);
    CHECK(doze_accept(l, 0, &a, &size) >= 0); /* the connection is still there */
    CHECK_INT(doze_sockname(fd, 1, bad, &size), -EFAULT);
    CHECK_INT(doze_getsockopt(fd, SOL_SOCKET, SO_TYPE, bad), -EFAULT);
    CHECK_INT(doze_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, bad), -EFAULT);
    struct doze_sockopt o = {.value = INT64_MAX};
    CHECK_INT(doze_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &o), -EINVAL);
    CHECK_INT(doze_setsockopt(fd, SOL_SOCKET, SO_LINGER, &o), -EINVAL);
    CHECK_INT(doze_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &o), 0); /* for ever */
    o.value = -1;
    CHECK_INT(doze_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &o), -EDOM);
    CHECK_INT(doze_setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &o), -ENOPROTOOPT);
    CHECK_INT(write(pair[0], "x", 1), 1);
    CHECK_INT(doze_recvmsg(pair[1], bad, 0), -EFAULT);
    struct doze_msg m = {.iov = &v, .iov_count = 1};
    CHECK_INT(doze_recvmsg(pair[1], &m, 0), -EFAULT);
    CHECK_INT(doze_sendmsg(pair[1], &m, 0), -EFAULT);
    m = (struct doze_msg){.iov = &v, .iov_count = UINT32_MAX};
    CHECK_INT(doze_recvmsg(pair[1], &m, 0), -EMSGSIZE);
    m = (struct doze_msg){.fds = bad, .fd_count = 100};
    CHECK_INT(doze_recvmsg(pair[1], &m, 0), -EFAULT);
    m = (struct doze_msg){.fds = pair, .fd_count = 254};
    CHECK_INT(doze_sendmsg(pair[1], &m, 0), -EINVAL);
    m = (struct doze_msg){.name = bad, .name_size = 16};
    CHECK_INT(doze_sendmsg(pair[1], &m, 0), -EFAULT);
    CHECK_INT(read(pair[1], &size, 1), 1);
}
#endif
