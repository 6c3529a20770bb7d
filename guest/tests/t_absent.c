/* SPDX-License-Identifier: MIT
 * What is missing in a sandbox, and says so; what needs no network. */
#include "check.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

TEST(addresses_as_text)
{
    struct in_addr a = {.s_addr = htonl(0x7f000001)};
    CHECK_STR(inet_ntoa(a), "127.0.0.1");
    CHECK(gai_strerror(EAI_NONAME) != NULL && *gai_strerror(EAI_NONAME));
    CHECK_STR(hstrerror(HOST_NOT_FOUND), "Unknown host");
}

#ifdef __doze__
#include <net/if.h>
#include <pthread.h>
#include <sys/reboot.h>
#include <sys/time.h>

static void *nothing(void *arg)
{
    return arg;
}

TEST(no_sockets)
{
    int fds[2];
    struct addrinfo *found = NULL;
    CHECK_ERR(socket(AF_INET, SOCK_STREAM, 0), ENOSYS);
    CHECK_ERR(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ENOSYS);
    h_errno = 0;
    CHECK(gethostbyname("localhost") == NULL);
    CHECK_INT(h_errno, HOST_NOT_FOUND);
    CHECK(getaddrinfo("localhost", NULL, NULL, &found) != 0);
    CHECK(getservbyname("http", "tcp") == NULL);
    struct sockaddr a = {0};
    socklen_t size = sizeof a;
    char text[16];
    int one = 1;
    CHECK_ERR(bind(0, &a, size), ENOSYS);
    CHECK_ERR(connect(0, &a, size), ENOSYS);
    CHECK_ERR(listen(0, 1), ENOSYS);
    CHECK_ERR(getsockname(0, &a, &size), ENOSYS);
    CHECK_ERR(getpeername(0, &a, &size), ENOSYS);
    CHECK_ERR(setsockopt(0, 1, 2, &one, sizeof one), ENOSYS);
    CHECK_ERR(sendto(0, "x", 1, 0, &a, size), ENOSYS);
    CHECK_ERR(recvfrom(0, text, 1, 0, &a, &size), ENOSYS);
    CHECK(getnameinfo(&a, size, text, sizeof text, NULL, 0, 0) != 0);
    CHECK_INT(if_nametoindex("lo"), 0);
    freeaddrinfo(NULL);
}

TEST(no_threads_no_clock_no_power)
{
    pthread_t t;
    struct timespec now = {1, 0};
    CHECK_INT(pthread_create(&t, NULL, nothing, NULL), EAGAIN);
    CHECK_ERR(clock_settime(CLOCK_REALTIME, &now), EPERM);
    CHECK(reboot(0) == -1);
    struct timeval tv = {1, 0};
    CHECK(settimeofday(&tv, NULL) == -1 && sethostname("x", 1) == -1);
}
#endif
