/* SPDX-License-Identifier: MIT */
#ifndef __wasilibc___typedef_sigset_t_h
#define __wasilibc___typedef_sigset_t_h
/* Bit n-1 is signal n; the kernel reads and writes exactly these 8 bytes. */
typedef struct {
    unsigned long long __bits;
} sigset_t;
#define __DEFINED_sigset_t
#endif
