/* SPDX-License-Identifier: MIT
 *
 * native_door.c - a guest for t_cell_net. "serve PORT": answers each connection to the port with
 * the bytes that it sends, and prints how it ended. "connect ADDRESS PORT": sends "ping", prints
 * the answer. "ask": asks the name server. "links": lists interfaces. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void say(const char *what, long number)
{
    char line[64];
    const int n = snprintf(line, sizeof line, "%s %ld\n", what, number);
    if (write(1, line, (size_t)n) != n)
        exit(9);
}

static void echo(int fd)
{
    static char buf[65536];
    long total = 0;
    for (ssize_t n, sent; (n = recv(fd, buf, sizeof buf, 0)) != 0; total += n) {
        for (ssize_t at = 0; at < n; at += sent)
            if ((sent = send(fd, buf + at, (size_t)(n - at), MSG_NOSIGNAL)) < 0) {
                say("send", errno);
                return;
            }
        if (n < 0) {
            say("receive", errno);
            return;
        }
    }
    say("end", total);
}

static int serve(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}, from;
    socklen_t size = sizeof from;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 2) < 0)
        return 1;
    say("listening", port);
    for (;;) {
        const int c = accept(fd, (struct sockaddr *)&from, &size);
        if (c < 0)
            return 2;
        say(inet_ntoa(from.sin_addr), ntohs(from.sin_port));
        echo(c);
        (void)close(c);
    }
}

static int join(const char *address, int port)
{
    char buf[64] = "";
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    (void)inet_aton(address, &to.sin_addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        say("connect", errno);
        return 1;
    }
    if (send(fd, "ping", 4, MSG_NOSIGNAL) != 4)
        say("send", errno);
    const ssize_t n = recv(fd, buf, sizeof buf - 1, 0);
    say(n < 0 ? "receive" : buf, n < 0 ? errno : n);
    return 0;
}

/* Ask the name server, again after a second without an answer. */
static int ask(void)
{
    char buf[64] = "";
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct pollfd p = {.fd = socket(AF_INET, SOCK_DGRAM, 0), .events = POLLIN};
    do
        if (p.fd < 0 || sendto(p.fd, "name?", 5, 0, (const struct sockaddr *)&to, sizeof to) != 5)
            return 3;
    while (poll(&p, 1, 1000) == 0);
    const ssize_t n = recv(p.fd, buf, sizeof buf - 1, 0);
    say(buf, n);
    return 0;
}

/* Interfaces by netlink, then by ioctl. */
static int links(void)
{
    struct ifaddrs *list;
    struct ifreq r[4];
    struct ifconf all = {.ifc_len = sizeof r, .ifc_req = r};
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (getifaddrs(&list) < 0 || ioctl(fd, SIOCGIFCONF, &all) < 0)
        return 4;
    for (const struct ifaddrs *a = list; a; a = a->ifa_next)
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET) {
            struct sockaddr_in at;
            memcpy(&at, a->ifa_addr, sizeof at);
            printf("%s %s %d\n", a->ifa_name, inet_ntoa(at.sin_addr), if_nametoindex(a->ifa_name));
        }
    for (size_t i = 0; i < (size_t)all.ifc_len / sizeof r[0]; i++)
        printf("%s %s\n", r[i].ifr_name,
               ioctl(fd, SIOCGIFFLAGS, &r[i]) == 0 && (r[i].ifr_flags & IFF_UP) ? "up" : "down");
    freeifaddrs(list);
    return fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return serve(atoi(argv[2]));
    if (argc == 2 && strcmp(argv[1], "ask") == 0)
        return ask();
    if (argc == 2 && strcmp(argv[1], "links") == 0)
        return links();
    return argc == 4 && strcmp(argv[1], "connect") == 0 ? join(argv[2], atoi(argv[3])) : 8;
}
