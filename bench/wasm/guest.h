/* SPDX-License-Identifier: MIT
 *
 * guest.h - what the bench programs are compiled with.
 *
 * Each is one file with one export, `int run(int n)`: n is the amount of work,
 * the result a checksum that every engine must agree on. No imports and no
 * libc, so any engine can run the same file; with BENCH_NATIVE the same lines
 * are a program of the host's, which prints the checksum.
 */
#ifndef BENCH_GUEST_H
#define BENCH_GUEST_H

#include <stddef.h>
#include <stdint.h>

#ifdef BENCH_NATIVE
#define EXPORT __attribute__((noinline))
#else
#define EXPORT __attribute__((export_name("run")))
#endif

EXPORT int run(int n);

#ifndef BENCH_NATIVE
/* The compiler may call these for loops and assignments. */
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memset(void *to, int byte, size_t n);

__attribute__((weak, no_builtin)) void *memcpy(void *restrict to, const void *restrict from,
                                               size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    while (n--)
        *t++ = *f++;
    return to;
}
__attribute__((weak, no_builtin)) void *memset(void *to, int byte, size_t n)
{
    unsigned char *t = to;
    while (n--)
        *t++ = (unsigned char)byte;
    return to;
}
#endif

/* xorshift32: deterministic, the same everywhere. */
static inline uint32_t next_random(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

#endif
