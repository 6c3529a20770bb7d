/* SPDX-License-Identifier: MIT
 *
 * free_port.h - a TCP port for a server that a test or a bench starts: free now, and below the
 * kernel's ephemeral ports (net.ipv4.ip_local_port_range), because any connection on this machine
 * may take a port of that range at any time. free_port.py is the same for scripts.
 */
#ifndef DZ_TESTS_FREE_PORT_H
#define DZ_TESTS_FREE_PORT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FREE_PORT_FIRST = 10000,
    FREE_PORT_END = 32768,
    FREE_PORT_TRIES = 1000
};

/* < 0: none is free */
static inline int free_port(void)
{
    for (int i = 0; i < FREE_PORT_TRIES; i++) {
        uint32_t dice;
        if (getrandom(&dice, sizeof dice, 0) != sizeof dice)
            return -1;
        int port = FREE_PORT_FIRST + (int)(dice % (FREE_PORT_END - FREE_PORT_FIRST));
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return -1;
        int r = bind(fd, (struct sockaddr *)&at, sizeof at);
        (void)close(fd);
        if (r == 0)
            return port;
    }
    return -1;
}

#endif
