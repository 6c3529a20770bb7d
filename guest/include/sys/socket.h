/* SPDX-License-Identifier: MIT */
/* Sockets with Linux's numbers: what a program writes is what the kernel reads. wasi-libc's own
 * numbers differ, and give MSG_PEEK and MSG_TRUNC one bit. */
#pragma GCC system_header
#include <doze_types.h>
#include_next <sys/socket.h>
#ifndef DOZE_SOCKET_H
#define DOZE_SOCKET_H
#include <sys/uio.h>
#undef SHUT_RD
#undef SHUT_WR
#undef SHUT_RDWR
#define SHUT_RD   0
#define SHUT_WR   1
#define SHUT_RDWR 2
#undef AF_INET
#undef AF_INET6
#undef AF_UNIX
#define AF_UNIX   1
#define AF_LOCAL  AF_UNIX
#define AF_INET   2
#define AF_INET6  10
#define PF_UNSPEC AF_UNSPEC
#define PF_UNIX   AF_UNIX
#define PF_LOCAL  AF_UNIX
#define PF_INET   AF_INET
#define PF_INET6  AF_INET6
#undef SOCK_STREAM
#undef SOCK_DGRAM
#undef SOCK_CLOEXEC
#undef SOCK_NONBLOCK
#define SOCK_STREAM    1
#define SOCK_DGRAM     2
#define SOCK_RAW       3
#define SOCK_RDM       4
#define SOCK_SEQPACKET 5
#define SOCK_NONBLOCK  04000
#define SOCK_CLOEXEC   02000000
#undef MSG_PEEK
#undef MSG_WAITALL
#undef MSG_TRUNC
#define MSG_OOB          0x1
#define MSG_PEEK         0x2
#define MSG_DONTROUTE    0x4
#define MSG_CTRUNC       0x8
#define MSG_TRUNC        0x20
#define MSG_DONTWAIT     0x40
#define MSG_EOR          0x80
#define MSG_WAITALL      0x100
#define MSG_NOSIGNAL     0x4000
#define MSG_MORE         0x8000
#define MSG_CMSG_CLOEXEC 0x40000000
#undef SOL_SOCKET
#define SOL_SOCKET    1
#define SO_DEBUG      1
#define SO_REUSEADDR  2
#define SO_ERROR      4
#define SO_DONTROUTE  5
#define SO_BROADCAST  6
#define SO_SNDBUF     7
#define SO_RCVBUF     8
#define SO_KEEPALIVE  9
#define SO_OOBINLINE  10
#define SO_PRIORITY   12
#define SO_LINGER     13
#define SO_REUSEPORT  15
#define SO_PASSCRED   16
#define SO_PEERCRED   17
#define SO_RCVTIMEO   20
#define SO_SNDTIMEO   21
#define SO_ACCEPTCONN 30
#define SO_PROTOCOL   38
#define SO_DOMAIN     39
#ifndef SOMAXCONN
#define SOMAXCONN 128
#endif
#define SCM_RIGHTS      1
#define SCM_CREDENTIALS 2
struct cmsghdr {
    socklen_t cmsg_len;
    int cmsg_level, cmsg_type;
};
#define CMSG_ALIGN(n) (((n) + sizeof(long) - 1) & ~(sizeof(long) - 1))
#define CMSG_LEN(n)   (sizeof(struct cmsghdr) + (n))
#define CMSG_SPACE(n) (sizeof(struct cmsghdr) + CMSG_ALIGN(n))
#define CMSG_DATA(c)  ((unsigned char *)((c) + 1))
#define CMSG_FIRSTHDR(m)                                                                \
    ((m)->msg_controllen >= sizeof(struct cmsghdr) ? (struct cmsghdr *)(m)->msg_control \
                                                   : (struct cmsghdr *)0)
#define CMSG_NXTHDR(m, c) __cmsg_next(m, c)
#ifdef __cplusplus
extern "C" {
#endif
struct cmsghdr *__cmsg_next(const struct msghdr *, const struct cmsghdr *);
int socket(int, int, int);
int socketpair(int, int, int, int[2]);
int bind(int, const struct sockaddr *, socklen_t);
int connect(int, const struct sockaddr *, socklen_t);
int listen(int, int);
int getsockname(int, struct sockaddr *, socklen_t *);
int getpeername(int, struct sockaddr *, socklen_t *);
ssize_t sendto(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
ssize_t recvfrom(int, void *, size_t, int, struct sockaddr *, socklen_t *);
ssize_t sendmsg(int, const struct msghdr *, int);
ssize_t recvmsg(int, struct msghdr *, int);
int setsockopt(int, int, int, const void *, socklen_t);
#ifdef __cplusplus
}
#endif
#endif
