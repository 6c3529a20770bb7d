/* SPDX-License-Identifier: MIT
 *
 * posix_absent.c - what a sandbox does not have. Each is defined, so that programs
 * which can do without it build unchanged, and fails: sockets with ENOSYS, names
 * of hosts as ones that nobody knows.
 */
#include "posix_int.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>

#define ABSENT(result, name, ...)          \
    result name(__VA_ARGS__)               \
    {                                      \
        return (result)posix_fail(ENOSYS); \
    }
#pragma clang diagnostic ignored "-Wunused-parameter"

ABSENT(int, socket, int domain, int type, int protocol)
ABSENT(int, socketpair, int domain, int type, int protocol, int fds[2])
ABSENT(int, bind, int fd, const struct sockaddr *to, socklen_t size)
ABSENT(int, connect, int fd, const struct sockaddr *to, socklen_t size)
ABSENT(int, listen, int fd, int backlog)
ABSENT(int, getsockname, int fd, struct sockaddr *ret, socklen_t *size)
ABSENT(int, getpeername, int fd, struct sockaddr *ret, socklen_t *size)
ABSENT(int, setsockopt, int fd, int level, int name, const void *value, socklen_t size)
ABSENT(ssize_t, sendto, int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
       socklen_t size)
ABSENT(ssize_t, recvfrom, int fd, void *buf, size_t n, int flags, struct sockaddr *from,
       socklen_t *size)
ABSENT(int, reboot, int how)

int h_errno;

struct hostent *gethostbyname(const char *name)
{
    h_errno = HOST_NOT_FOUND;
    return NULL;
}

struct servent *getservbyname(const char *name, const char *protocol)
{
    return NULL;
}

const char *hstrerror(int error)
{
    return error == HOST_NOT_FOUND ? "Unknown host" : "Resolver internal error";
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    return EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list) {}

int getnameinfo(const struct sockaddr *sa, socklen_t size, char *host, socklen_t host_size,
                char *service, socklen_t service_size, int flags)
{
    return EAI_NONAME;
}

const char *gai_strerror(int error)
{
    return error == EAI_NONAME ? "Name or service not known" : "Resolver internal error";
}

unsigned if_nametoindex(const char *name)
{
    errno = ENODEV;
    return 0;
}

/* A process has the name of its program, and keeps it. */
int prctl(int option, ...)
{
    return option == PR_SET_NAME ? 0 : posix_fail(EINVAL);
}

char *inet_ntoa(struct in_addr in)
{
    static char text[INET_ADDRSTRLEN];

    return (char *)inet_ntop(AF_INET, &in, text, sizeof text);
}
