/* SPDX-License-Identifier: MIT
 *
 * posix_net.h - what the files that know names of hosts share.
 */
#ifndef POSIX_NET_H
#define POSIX_NET_H

#include <netdb.h>
#include <stdio.h>

enum {
    POSIX_NET_ADDRESSES = 32, /* of one name */
    POSIX_NET_LINE = 1024,    /* bytes of a line of /etc/hosts and the like */
    POSIX_NET_WORDS = 32,
};

struct posix_address {
    int family;
    unsigned char bytes[16];
};
struct posix_addresses {
    int count;
    char canon[NI_MAXHOST]; /* the first name of the line */
    struct posix_address at[POSIX_NET_ADDRESSES];
};

/* The words of the next line that has any, without its comment; 0 at the end of the file. */
int posix_net_line(FILE *f, char line[POSIX_NET_LINE], char *words[POSIX_NET_WORDS]);
/* Is the text an address? */
int posix_net_numeric(const char *text, struct posix_address *ret);
/* Add an address; further ones than fit are dropped. */
void posix_net_add(struct posix_addresses *to, const struct posix_address *a);

/* Add the addresses of a family that a name server knows. 0: the name exists; EAI_NONAME: it does
 * not; EAI_AGAIN: no server has answered. */
int posix_net_resolve(const char *name, int family, struct posix_addresses *ret);

#endif
