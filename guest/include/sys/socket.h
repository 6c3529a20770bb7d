/* SPDX-License-Identifier: MIT */
#pragma GCC system_header
#include <doze_types.h>
#include_next <sys/socket.h>
#ifndef SO_REUSEADDR
#define SO_REUSEADDR 2
#define SO_ERROR     4
#define SO_BROADCAST 6
#define SO_KEEPALIVE 9
#endif
#ifndef SOCK_RAW
#define SOCK_RAW       3
#define SOCK_RDM       4
#define SOCK_SEQPACKET 5
#endif
#ifndef DOZE_SOCKET_H
#define DOZE_SOCKET_H
#ifdef __cplusplus
extern "C" {
#endif
int socket(int, int, int);
int socketpair(int, int, int, int[2]);
int bind(int, const struct sockaddr *, socklen_t);
int connect(int, const struct sockaddr *, socklen_t);
int listen(int, int);
int getsockname(int, struct sockaddr *, socklen_t *);
int getpeername(int, struct sockaddr *, socklen_t *);
ssize_t sendto(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
ssize_t recvfrom(int, void *, size_t, int, struct sockaddr *, socklen_t *);
int setsockopt(int, int, int, const void *, socklen_t);
#ifdef __cplusplus
}
#endif
#endif
