/* SPDX-License-Identifier: MIT
 *
 * vfs_cache.c - an intrusive hash table that remembers the order of use.
 *
 * Knows neither inodes nor names: the owner embeds a struct dz_vfs_hnode, walks a
 * bucket itself, and decides what may be evicted. The table doubles when it
 * holds as many nodes as buckets; when memory is short it stays as it is and its
 * chains grow, so adding cannot fail.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum {
    BUCKETS_FIRST = 64,
    BUCKETS_MAX = 1 << 20,
};

/* Eight bytes at a time through a multiply and a fold. Good enough to spread names
 * over buckets and directory cookies; not a defence against someone who knows
 * the seed. */
uint64_t dz_vfs_hash(uint64_t seed, const void *p, size_t n)
{
    const uint8_t *s = p;
    uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15u);
    while (n > 0) {
        uint64_t w = 0;
        size_t step = n < 8 ? n : 8;
        memcpy(&w, s, step);
        __uint128_t m = (__uint128_t)(h ^ w) * 0xD6E8FEB86659FD93u;
        h = (uint64_t)m ^ (uint64_t)(m >> 64) ^ 0x2545F4914F6CDD1Du;
        s += step;
        n -= step;
    }
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return h ^ h >> 29;
}

int dz_vfs_cache_init(struct dz_vfs_cache *c)
{
    *c = (struct dz_vfs_cache){.mask = BUCKETS_FIRST - 1};
    c->bucket = dz_zalloc(BUCKETS_FIRST * sizeof *c->bucket);
    return c->bucket ? 0 : -ENOMEM;
}

void dz_vfs_cache_release(struct dz_vfs_cache *c)
{
    assert(c->count == 0);
    dz_free(c->bucket);
    *c = (struct dz_vfs_cache){0};
}

struct dz_vfs_hnode *dz_vfs_cache_bucket(const struct dz_vfs_cache *c, uint64_t hash)
{
    return c->bucket[hash & c->mask];
}

static void grow(struct dz_vfs_cache *c)
{
    size_t size = (c->mask + 1) * 2;
    if (size > BUCKETS_MAX)
        return;
    struct dz_vfs_hnode **fresh = dz_zalloc(size * sizeof *fresh);
    if (!fresh)
        return;
    for (size_t i = 0; i <= c->mask; i++) {
        struct dz_vfs_hnode *h = c->bucket[i];
        while (h) {
            struct dz_vfs_hnode *chain = h->chain;
            h->chain = fresh[h->hash & (size - 1)];
            fresh[h->hash & (size - 1)] = h;
            h = chain;
        }
    }
    dz_free(c->bucket);
    c->bucket = fresh;
    c->mask = size - 1;
}

static void lru_push(struct dz_vfs_cache *c, struct dz_vfs_hnode *h)
{
    h->newer = NULL;
    h->older = c->newest;
    if (c->newest)
        c->newest->newer = h;
    else
        c->oldest = h;
    c->newest = h;
}

static void lru_pull(struct dz_vfs_cache *c, const struct dz_vfs_hnode *h)
{
    if (h->newer)
        h->newer->older = h->older;
    else
        c->newest = h->older;
    if (h->older)
        h->older->newer = h->newer;
    else
        c->oldest = h->newer;
}

void dz_vfs_cache_add(struct dz_vfs_cache *c, struct dz_vfs_hnode *h)
{
    if (c->count > c->mask)
        grow(c);
    h->chain = c->bucket[h->hash & c->mask];
    c->bucket[h->hash & c->mask] = h;
    lru_push(c, h);
    c->count++;
    c->bytes += h->bytes;
}

void dz_vfs_cache_remove(struct dz_vfs_cache *c, struct dz_vfs_hnode *h)
{
    struct dz_vfs_hnode **at = &c->bucket[h->hash & c->mask];
    while (*at != h) {
        assert(*at);
        at = &(*at)->chain;
    }
    *at = h->chain;
    lru_pull(c, h);
    c->count--;
    c->bytes -= h->bytes;
}

void dz_vfs_cache_touch(struct dz_vfs_cache *c, struct dz_vfs_hnode *h)
{
    if (c->newest == h)
        return;
    lru_pull(c, h);
    lru_push(c, h);
}
