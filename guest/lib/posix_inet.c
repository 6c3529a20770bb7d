/* SPDX-License-Identifier: MIT
 *
 * posix_inet.c - internet addresses as text. wasi-libc's own functions know the
 * families by other numbers.
 */
#include "posix_int.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The interface of a sandbox. */
unsigned if_nametoindex(const char *name)
{
    if (strcmp(name, "lo") == 0)
        return 1;
    errno = ENODEV;
    return 0;
}

/* Four numbers from 0 to 255, without leading zeros, to the end of the text. */
static int v4_of(const char *s, unsigned char out[4])
{
    for (int i = 0; i < 4; i++) {
        unsigned v = 0;
        int digits = 0;

        for (; *s >= '0' && *s <= '9'; s++) {
            if (digits++ > 0 && v == 0)
                return 0;
            v = v * 10 + (unsigned)(*s - '0');
            if (v > 255)
                return 0;
        }
        if (digits == 0 || *s != (i < 3 ? '.' : 0))
            return 0;
        out[i] = (unsigned char)v;
        s++;
    }
    return 1;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Groups of hexadecimal digits; "::" once, for the groups that are missing; the last two groups
 * may be an address of IPv4. */
static int v6_of(const char *s, unsigned char out[16])
{
    unsigned char got[16];
    int n = 0, gap = -1;

    if (s[0] == ':' && s[1] != ':')
        return 0;
    while (*s) {
        unsigned v = 0;
        int digits = 0;
        const char *start = s;

        if (s[0] == ':' && s[1] == ':') {
            if (gap >= 0)
                return 0;
            gap = n;
            s += 2;
            continue;
        }
        if (*s == ':' && (n == 0 || gap == n))
            return 0;
        if (*s == ':')
            start = ++s;
        for (; hex(*s) >= 0 && digits < 4; s++, digits++)
            v = v << 4 | (unsigned)hex(*s);
        if (*s == '.' && n <= 12 && v4_of(start, got + n)) {
            n += 4;
            break;
        }
        if (digits == 0 || n > 14 || (*s && *s != ':'))
            return 0;
        got[n++] = (unsigned char)(v >> 8);
        got[n++] = (unsigned char)v;
    }
    if (gap < 0 ? n != 16 : n > 14)
        return 0;
    memset(out, 0, 16);
    gap = gap < 0 ? n : gap;
    memcpy(out, got, (size_t)gap);
    memcpy(out + 16 - (n - gap), got + gap, (size_t)(n - gap));
    return 1;
}

int inet_pton(int af, const char *restrict s, void *restrict out)
{
    if (af == AF_INET)
        return v4_of(s, out);
    if (af == AF_INET6)
        return v6_of(s, out);
    return posix_fail(EAFNOSUPPORT);
}

/* RFC 5952: the longest run of two or more zero groups, the first of equal ones, is "::". */
static void v6_text(const unsigned char *b, char text[INET6_ADDRSTRLEN])
{
    static const unsigned char mapped[12] = {[10] = 0xff, 0xff};
    int best = -1, best_size = 1, at = 0;

    if (memcmp(b, mapped, sizeof mapped) == 0) {
        sprintf(text, "::ffff:%d.%d.%d.%d", b[12], b[13], b[14], b[15]);
        return;
    }
    for (int i = 0; i < 8; i++) {
        int size = 0;

        while (i + size < 8 && !b[2 * (i + size)] && !b[2 * (i + size) + 1])
            size++;
        if (size > best_size) {
            best = i;
            best_size = size;
        }
        i += size;
    }
    for (int i = 0; i < 8; i++) {
        if (i == best) {
            at += sprintf(text + at, "::");
            i += best_size - 1;
            continue;
        }
        at += sprintf(text + at, i > 0 && text[at - 1] != ':' ? ":%x" : "%x",
                      (unsigned)b[2 * i] << 8 | b[2 * i + 1]);
    }
}

const char *inet_ntop(int af, const void *restrict from, char *restrict to, socklen_t size)
{
    const unsigned char *b = from;
    char text[INET6_ADDRSTRLEN] = "";

    if (af == AF_INET) {
        sprintf(text, "%d.%d.%d.%d", b[0], b[1], b[2], b[3]);
    } else if (af == AF_INET6) {
        v6_text(b, text);
    } else {
        errno = EAFNOSUPPORT;
        return NULL;
    }
    if (strlen(text) >= size) {
        errno = ENOSPC;
        return NULL;
    }
    return strcpy(to, text);
}

char *inet_ntoa(struct in_addr in)
{
    static char text[INET_ADDRSTRLEN];

    return (char *)inet_ntop(AF_INET, &in, text, sizeof text);
}
