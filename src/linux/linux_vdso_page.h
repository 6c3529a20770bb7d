/* SPDX-License-Identifier: MIT
 *
 * linux_vdso_page.h - the page that the kernel writes and the image in a guest's process reads.
 *
 *     nanoseconds = mono_ns (or real_ns) + (counter - tsc) * mult / 2^32
 *
 * as long as counter - tsc is at most `most`. seq is odd while the fields change, and not the same
 * before and after a change.
 */
#ifndef DZ_LINUX_LINUX_VDSO_PAGE_H
#define DZ_LINUX_LINUX_VDSO_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

struct dz_vdso_page {
    _Atomic uint64_t seq;
    _Atomic uint64_t tsc;
    _Atomic uint64_t most; /* ticks; 0: no line is valid, make the call */
    _Atomic uint64_t mult;
    _Atomic int64_t mono_ns;
    _Atomic int64_t real_ns;
};

static inline uint64_t dz_vdso_ticks(void)
{
    uint32_t low, high;
    __asm__ volatile("lfence\n rdtsc\n lfence" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

/* Ticks before `tsc` count as 0: another processor's counter may be a little behind. */
static inline int64_t dz_vdso_line(int64_t ns, uint64_t ticks, uint64_t mult)
{
    if ((int64_t)ticks < 0)
        ticks = 0;
    return ns + (int64_t)(((unsigned __int128)ticks * mult) >> 32);
}

#endif
