/* SPDX-License-Identifier: MIT */
#ifndef _NETDB_H
#define _NETDB_H
/* No resolver is there: no name is known. */
#include <netinet/in.h>
#include <sys/socket.h>
#ifdef __cplusplus
extern "C" {
#endif
struct addrinfo {
    int ai_flags, ai_family, ai_socktype, ai_protocol;
    socklen_t ai_addrlen;
    struct sockaddr *ai_addr;
    char *ai_canonname;
    struct addrinfo *ai_next;
};
struct hostent {
    char *h_name, **h_aliases;
    int h_addrtype, h_length;
    char **h_addr_list;
};
struct servent {
    char *s_name, **s_aliases;
    int s_port;
    char *s_proto;
};
#define h_addr         h_addr_list[0]
#define AI_PASSIVE     1
#define AI_CANONNAME   2
#define AI_NUMERICHOST 4
#define NI_NUMERICHOST 1
#define NI_NUMERICSERV 2
#define NI_NAMEREQD    8
#define EAI_NONAME     -2
#define EAI_FAMILY     -6
extern int h_errno;
#define HOST_NOT_FOUND 1
struct hostent *gethostbyname(const char *);
struct servent *getservbyname(const char *, const char *);
int getaddrinfo(const char *, const char *, const struct addrinfo *, struct addrinfo **);
void freeaddrinfo(struct addrinfo *);
const char *hstrerror(int);
int getnameinfo(const struct sockaddr *, socklen_t, char *, socklen_t, char *, socklen_t, int);
const char *gai_strerror(int);
#ifdef __cplusplus
}
#endif
#endif
