/* SPDX-License-Identifier: MIT
 *
 * linux_vdso_guest.c - the image: a shared object for the C libraries of guests, without a library
 * of its own and without data. linux_vdso.lds gives it its one segment and the page before it.
 *
 * Nothing here waits: during an update, however long it takes, the image makes the system call.
 */
#include "linux/linux_vdso_page.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

extern const struct dz_vdso_page dz_vdso_data __attribute__((visibility("hidden")));

#define EXPORT(name) __asm__(name) __attribute__((visibility("default"), used))
#define NS           INT64_C(1000000000)

enum { /* clocks of Linux, as the kernel's side has them: two */
    REAL = 1 << 0 | 1 << 5 | 1 << 11,
    MONO = 1 << 1 | 1 << 4 | 1 << 6 | 1 << 7,
};

static inline long call(long number, long a, long b, long c)
{
    long r;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return r;
}

static inline int is(int clock, unsigned clocks)
{
    return clock >= 0 && clock < 32 && (clocks >> clock & 1);
}

/* -1: no line is valid. */
static inline int64_t read_line(int real)
{
    const struct dz_vdso_page *p = &dz_vdso_data;
    for (;;) {
        const uint64_t seq = atomic_load_explicit(&p->seq, memory_order_acquire);
        const uint64_t ticks =
            dz_vdso_ticks() - atomic_load_explicit(&p->tsc, memory_order_relaxed);
        const uint64_t most = atomic_load_explicit(&p->most, memory_order_relaxed);
        const uint64_t mult = atomic_load_explicit(&p->mult, memory_order_relaxed);
        const int64_t ns =
            atomic_load_explicit(real ? &p->real_ns : &p->mono_ns, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&p->seq, memory_order_relaxed) != seq)
            continue;
        if ((seq & 1) || ticks + most > 2 * most) /* either way */
            return -1;
        return dz_vdso_line(ns, ticks, mult);
    }
}

struct time {
    int64_t s, part; /* nanoseconds, or microseconds of a struct timeval */
};

int dz_vdso_clock_gettime(int clock, struct time *to) EXPORT("__vdso_clock_gettime");
int dz_vdso_clock_getres(int clock, struct time *to) EXPORT("__vdso_clock_getres");
int dz_vdso_gettimeofday(struct time *to, int32_t zone[2]) EXPORT("__vdso_gettimeofday");
long dz_vdso_time(long *to) EXPORT("__vdso_time");
int dz_vdso_getcpu(unsigned *cpu, unsigned *node, void *unused) EXPORT("__vdso_getcpu");

int dz_vdso_clock_gettime(int clock, struct time *to)
{
    const int real = is(clock, REAL);
    const int64_t ns = real || is(clock, MONO) ? read_line(real) : -1;
    if (ns < 0)
        return (int)call(SYS_clock_gettime, clock, (long)to, 0);
    to->s = ns / NS;
    to->part = ns % NS;
    return 0;
}

int dz_vdso_clock_getres(int clock, struct time *to)
{
    if (!is(clock, REAL | MONO))
        return (int)call(SYS_clock_getres, clock, (long)to, 0);
    if (to) {
        to->s = 0;
        to->part = 1;
    }
    return 0;
}

int dz_vdso_gettimeofday(struct time *to, int32_t zone[2])
{
    const int64_t ns = to ? read_line(1) : 0;
    if (ns < 0)
        return (int)call(SYS_gettimeofday, (long)to, (long)zone, 0);
    if (to) {
        to->s = ns / NS;
        to->part = ns % NS / 1000;
    }
    if (zone)
        zone[0] = zone[1] = 0;
    return 0;
}

long dz_vdso_time(long *to)
{
    const int64_t ns = read_line(1);
    if (ns < 0)
        return call(SYS_time, (long)to, 0, 0);
    if (to)
        *to = ns / NS;
    return ns / NS;
}

/* As the system call: threads do not learn their processor. */
int dz_vdso_getcpu(unsigned *cpu, unsigned *node, void *unused)
{
    (void)unused;
    if (cpu)
        *cpu = 0;
    if (node)
        *node = 0;
    return 0;
}
