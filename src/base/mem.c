/* SPDX-License-Identifier: MIT
 *
 * mem.c - the heap's door: counting and failing on command around malloc.
 *
 * The counters are atomic and relaxed: each is right by itself once the threads
 * that allocate are done, and nothing depends on their memory order. Sizes are those of
 * malloc_usable_size, at allocation and at free, so the sum returns to zero without a header of our
 * own.
 */
#include "base/mem.h"

#include "base/vm.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct {
    atomic_long fail_at; /* allocations until one fails; < 0 = none will */
    atomic_bool sticky;
    atomic_bool failed;
    atomic_long live;
    atomic_size_t bytes;
    atomic_size_t peak;
} mem = {.fail_at = -1};

#define RELAXED memory_order_relaxed

bool dz_mem_inject(void)
{
    long at = atomic_load_explicit(&mem.fail_at, RELAXED), next;
    do {
        if (at < 0)
            return false;
        next = at > 0 ? at - 1 : atomic_load_explicit(&mem.sticky, RELAXED) ? 0 : -1;
    } while (!atomic_compare_exchange_weak_explicit(&mem.fail_at, &at, next, RELAXED, RELAXED));
    if (at > 0)
        return false;
    atomic_store_explicit(&mem.failed, true, RELAXED);
    return true;
}

static void count_in(size_t size)
{
    size_t now = atomic_fetch_add_explicit(&mem.bytes, size, RELAXED) + size;
    size_t peak = atomic_load_explicit(&mem.peak, RELAXED);
    while (now > peak &&
           !atomic_compare_exchange_weak_explicit(&mem.peak, &peak, now, RELAXED, RELAXED))
        ;
}

static void count_out(size_t size)
{
    (void)atomic_fetch_sub_explicit(&mem.bytes, size, RELAXED);
}

void dz_free(void *p)
{
    if (!p)
        return;
    count_out(malloc_usable_size(p));
    (void)atomic_fetch_sub_explicit(&mem.live, 1, RELAXED);
    free(p);
}

void *dz_alloc(size_t n)
{
    void *p = dz_mem_inject() ? NULL : malloc(n ? n : 1);
    if (!p)
        return NULL;
    (void)atomic_fetch_add_explicit(&mem.live, 1, RELAXED);
    count_in(malloc_usable_size(p));
    return p;
}

void *dz_zalloc(size_t n)
{
    return dz_zarray(1, n);
}

void *dz_zarray(size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n) || dz_mem_inject())
        return NULL; /* here, not in calloc: sanitizers abort there */
    void *p = calloc(1, n ? n : 1);
    if (!p)
        return NULL;
    (void)atomic_fetch_add_explicit(&mem.live, 1, RELAXED);
    count_in(malloc_usable_size(p));
    return p;
}

char *dz_strndup(const char *s, size_t n)
{
    char *p = n < SIZE_MAX ? dz_alloc(n + 1) : NULL;
    if (!p)
        return NULL;
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

void *dz_realloc(void *p, size_t n)
{
    if (dz_mem_inject())
        return NULL;
    size_t before = p ? malloc_usable_size(p) : 0;
    void *q = realloc(p, n ? n : 1);
    if (!q)
        return NULL;
    if (!p)
        (void)atomic_fetch_add_explicit(&mem.live, 1, RELAXED);
    count_out(before);
    count_in(malloc_usable_size(q));
    return q;
}

void dz_vm_heap_ahead(int bytes)
{
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 10);
    (void)mallopt(M_TOP_PAD, bytes);
    (void)mallopt(M_TRIM_THRESHOLD, bytes * 2);
}

void dz_mem_one_heap(void)
{
    (void)mallopt(M_ARENA_MAX, 1);
}

void dz_mem_trim(void)
{
    (void)malloc_trim(0);
}

long dz_mem_live(void)
{
    return atomic_load_explicit(&mem.live, RELAXED);
}

size_t dz_mem_bytes(void)
{
    return atomic_load_explicit(&mem.bytes, RELAXED);
}

size_t dz_mem_peak(void)
{
    return atomic_load_explicit(&mem.peak, RELAXED);
}

void dz_mem_fail_at(long n, bool sticky)
{
    atomic_store_explicit(&mem.sticky, sticky, RELAXED);
    atomic_store_explicit(&mem.fail_at, n, RELAXED);
}

bool dz_mem_failed(void)
{
    return atomic_exchange_explicit(&mem.failed, false, RELAXED);
}
