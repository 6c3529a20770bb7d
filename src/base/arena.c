/* SPDX-License-Identifier: MIT
 *
 * arena.c - chunks from the heap, cut from the front.
 *
 *     chunks -> [header|######....] -> [header|##########] -> NULL
 *                      at^    ^end
 *
 * A chunk holds CHUNK_BYTES, or just one piece when that is larger than a
 * quarter of it; such a chunk goes behind the one in use, whose rest stays
 * usable. Invariants: at <= size for each chunk; used is the sum of all chunks
 * and never above max. Chunks are zeroed when a piece is cut, not before.
 */
#include "base/arena.h"

#include "base/err.h"
#include "base/mem.h"

#include <assert.h>

enum {
    ALIGN = 16,
    CHUNK_BYTES = 8192, /* what a usual chunk takes from the heap, header included */
};

struct dz_arena_chunk {
    struct dz_arena_chunk *next;
    size_t at, size; /* bytes cut, bytes there */
    _Alignas(ALIGN) char data[];
};

struct dz_arena_defer {
    struct dz_arena_defer *next;
    void (*fn)(void *arg);
    void *arg;
};

static void *fail(struct dz_arena *a, int err)
{
    a->err = err;
    return NULL;
}

/* A chunk with room for n bytes, put where the file head says. */
static struct dz_arena_chunk *add_chunk(struct dz_arena *a, size_t n)
{
    const size_t usual = CHUNK_BYTES - sizeof(struct dz_arena_chunk);
    bool large = n > usual / 4;
    size_t left = a->max - a->used;

    if (left < sizeof(struct dz_arena_chunk) || n > left - sizeof(struct dz_arena_chunk))
        return fail(a, DZ_ELIMIT);
    size_t size = large ? n : usual;
    if (size > left - sizeof(struct dz_arena_chunk))
        size = left - sizeof(struct dz_arena_chunk); /* the last one, up to the ceiling */
    struct dz_arena_chunk *c = dz_alloc(sizeof *c + size);
    if (!c)
        return fail(a, DZ_ENOMEM);
    struct dz_arena_chunk **where = large && a->chunks ? &a->chunks->next : &a->chunks;
    *c = (struct dz_arena_chunk){.next = *where, .size = size};
    *where = c;
    a->used += sizeof *c + size;
    return c;
}

void *dz_arena_alloc(struct dz_arena *a, size_t n)
{
    struct dz_arena_chunk *c = a->chunks;
    size_t need;

    assert(a->used <= a->max);
    if (a->err)
        return NULL;
    if (__builtin_add_overflow(n ? n : 1, (size_t)ALIGN - 1, &need))
        return fail(a, DZ_ELIMIT);
    need &= ~((size_t)ALIGN - 1);
    if (!c || need > c->size - c->at)
        c = add_chunk(a, need);
    if (!c)
        return NULL;
    char *p = c->data + c->at;
    c->at += need;
    memset(p, 0, n);
    return p;
}

void *dz_arena_array(struct dz_arena *a, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        return a->err ? NULL : fail(a, DZ_ELIMIT);
    return dz_arena_alloc(a, n);
}

struct dz_str dz_arena_str(struct dz_arena *a, struct dz_str s)
{
    size_t n;
    if (__builtin_add_overflow(s.n, 1u, &n))
        n = s.n; /* SIZE_MAX bytes are refused below */
    char *p = dz_arena_alloc(a, n);
    if (!p)
        return dz_str_n(NULL, 0);
    if (s.n)
        memcpy(p, s.p, s.n);
    return dz_str_n(p, s.n);
}

int dz_arena_defer(struct dz_arena *a, void (*fn)(void *arg), void *arg)
{
    struct dz_arena_defer *d = dz_arena_alloc(a, sizeof *d);
    if (!d) {
        fn(arg);
        return a->err;
    }
    *d = (struct dz_arena_defer){a->defers, fn, arg};
    a->defers = d;
    return 0;
}

static void run_defers(struct dz_arena *a)
{
    while (a->defers) {
        struct dz_arena_defer *d = a->defers;
        a->defers = d->next;
        d->fn(d->arg);
    }
}

void dz_arena_reset(struct dz_arena *a)
{
    run_defers(a);
    struct dz_arena_chunk *keep = NULL;
    for (struct dz_arena_chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        if (!keep && sizeof *c + c->size <= CHUNK_BYTES)
            keep = c;
        else
            dz_free(c);
    }
    a->chunks = keep;
    a->used = 0;
    a->err = 0;
    if (keep) {
        keep->next = NULL;
        keep->at = 0;
        a->used = sizeof *keep + keep->size;
    }
}

void dz_arena_release(struct dz_arena *a)
{
    dz_arena_reset(a);
    dz_free(a->chunks);
    *a = (struct dz_arena)DZ_ARENA_INIT(a->max);
}
