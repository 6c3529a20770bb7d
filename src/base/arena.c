/* SPDX-License-Identifier: MIT
 *
 * arena.c - chunks from the heap, cut from the front.
 *
 *     chunks -> [header|######....] -> [header|##########] -> NULL
 *                          at^    ^size
 *     large  -> [header|######################] -> NULL
 *
 * A chunk takes CHUNK_BYTES from the heap. A piece that is larger than a quarter of a chunk and
 * does not fit into the present one gets a chunk of its own, so that the rest of the present chunk
 * stays usable. Invariants: at <= size for each
 * chunk; used is the sum of all chunks and never above max (assert_arena). Bytes are zeroed
 * when a piece is cut, not before.
 */
#include "base/arena.h"

#include "base/err.h"
#include "base/mem.h"

#include <assert.h>

enum {
    ALIGN = 16,
    CHUNK_BYTES = 8192,
};

struct dz_arena_chunk {
    struct dz_arena_chunk *next;
    size_t at, size; /* bytes used, bytes allocated */
    _Alignas(ALIGN) char data[];
};

#define CHUNK_DATA (CHUNK_BYTES - sizeof(struct dz_arena_chunk))

struct dz_arena_defer {
    struct dz_arena_defer *next;
    void (*fn)(void *arg);
    void *arg;
};

static size_t all_bytes(const struct dz_arena_chunk *c)
{
    size_t n = 0;
    for (; c; c = c->next) {
        assert(c->at <= c->size);
        n += sizeof *c + c->size;
    }
    return n;
}

static void assert_arena(const struct dz_arena *a)
{
    assert(a->used <= a->max);
    assert(!DZ_CHECK_DEEP || a->used == all_bytes(a->chunks) + all_bytes(a->large));
}

static void *fail(struct dz_arena *a, int err)
{
    a->err = err;
    return NULL;
}

/* A chunk of at least n and at most `want` bytes, as the ceiling allows. */
static struct dz_arena_chunk *new_chunk(struct dz_arena *a, size_t n, size_t want)
{
    size_t left = a->max - a->used;

    if (left < sizeof(struct dz_arena_chunk) || n > left - sizeof(struct dz_arena_chunk))
        return fail(a, DZ_ELIMIT);
    size_t size = left - sizeof(struct dz_arena_chunk);
    if (size > want)
        size = want;
    struct dz_arena_chunk *c = dz_alloc(sizeof *c + size);
    if (!c)
        return fail(a, DZ_ENOMEM);
    *c = (struct dz_arena_chunk){.size = size};
    a->used += sizeof *c + size;
    return c;
}

static void *cut(struct dz_arena_chunk *c, size_t n)
{
    char *p = c->data + c->at;
    c->at += n;
    return memset(p, 0, n);
}

void *dz_arena_alloc(struct dz_arena *a, size_t n)
{
    struct dz_arena_chunk *c = a->chunks;
    size_t need;

    assert_arena(a);
    if (a->err)
        return NULL;
    if (__builtin_add_overflow(n ? n : 1, (size_t)ALIGN - 1, &need))
        return fail(a, DZ_ELIMIT);
    need &= ~((size_t)ALIGN - 1);
    if (c && need <= c->size - c->at)
        return cut(c, need);
    bool large = need > CHUNK_DATA / 4;
    c = new_chunk(a, need, large ? need : CHUNK_DATA);
    if (!c)
        return NULL;
    if (large) {
        c->next = a->large;
        a->large = c;
    } else {
        c->next = a->chunks;
        a->chunks = c;
    }
    return cut(c, need);
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

static void free_chunks(struct dz_arena_chunk *c)
{
    for (struct dz_arena_chunk *next; c; c = next) {
        next = c->next;
        dz_free(c);
    }
}

void dz_arena_reset(struct dz_arena *a)
{
    run_defers(a);
    struct dz_arena_chunk *keep = a->chunks;
    free_chunks(a->large);
    if (keep)
        free_chunks(keep->next);
    *a = (struct dz_arena){.chunks = keep, .max = a->max};
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
