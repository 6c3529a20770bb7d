/* SPDX-License-Identifier: MIT */
/* With the names for its halves and words that programs for Linux use. */
#ifndef __wasilibc___struct_in6_addr_h
#define __wasilibc___struct_in6_addr_h
#include <stdint.h>
struct in6_addr {
    union {
        uint8_t __s6_bytes[16];
        uint16_t __s6_halves[8];
        uint32_t __s6_words[4];
    } __in6_u;
};
#define s6_addr   __in6_u.__s6_bytes
#define s6_addr16 __in6_u.__s6_halves
#define s6_addr32 __in6_u.__s6_words
#endif
