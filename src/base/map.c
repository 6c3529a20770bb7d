/* SPDX-License-Identifier: MIT
 *
 * map.c - open addressing with linear probing.
 *
 * An entry lives at the first free slot at or after (hash & (cap - 1)). The
 * table is at most three quarters full and doubles beyond that. Removal moves
 * later entries of the run back instead of leaving a tombstone, so look-ups
 * never slow down with age.
 *
 * Invariants:
 *   1. cap is 0 or a power of two, and count * 4 <= cap * 3: there is always a
 *      free slot, which ends every probe;
 *   2. between an entry's home slot and the entry no slot is free;
 *   3. no two entries have equal keys.
 * assert_map() checks them after an entry was added or removed; 2 and 3 only in builds with
 * DZ_CHECK_DEEP, and only for the run of entries around it.
 */
#include "base/map.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/random.h>

enum {
    CAP_MIN = 8
};

static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static uint64_t seed[2];

static void draw_seed(void)
{
    if (getrandom(seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return;
    /* The kernel's pool is not ready: use the 16 random bytes that exec passes to a program. */
    const void *bytes = (const void *)getauxval(AT_RANDOM); /* NOLINT(performance-no-int-to-ptr) */
    if (bytes)
        memcpy(seed, bytes, sizeof seed);
}

void dz_map_seed(uint64_t a, uint64_t b)
{
    (void)pthread_once(&seed_once, draw_seed);
    seed[0] = a;
    seed[1] = b;
}

void dz_map_init(struct dz_map *m, size_t max)
{
    (void)pthread_once(&seed_once, draw_seed);
    *m = (struct dz_map){.max = max, .key = {seed[0], seed[1]}};
}

void dz_map_release(struct dz_map *m)
{
    dz_free(m->slots);
    m->slots = NULL;
    m->cap = m->count = 0;
}

void dz_map_clear(struct dz_map *m)
{
    if (m->cap)
        memset(m->slots, 0, m->cap * sizeof *m->slots);
    m->count = 0;
}

/* A key of either kind in the form of an entry without value. */
static struct dz_map_entry key_of_str(const struct dz_map *m, struct dz_str key)
{
    const char *p = key.p ? key.p : "";
    uint64_t h = dz_siphash(m->key, p, key.n);
    return (struct dz_map_entry){h ? h : 1, p, key.n, NULL};
}

static struct dz_map_entry key_of_u64(const struct dz_map *m, uint64_t key)
{
    uint64_t h = dz_siphash(m->key, &key, sizeof key);
    return (struct dz_map_entry){h ? h : 1, NULL, key, NULL};
}

static bool same_key(const struct dz_map_entry *a, const struct dz_map_entry *b)
{
    if (a->hash != b->hash || a->n != b->n)
        return false;
    if (!a->p || !b->p)
        return !a->p && !b->p;
    return memcmp(a->p, b->p, (size_t)a->n) == 0;
}

/* The slot that holds k, or the free one where it would go. */
static struct dz_map_entry *find_slot(const struct dz_map *m, const struct dz_map_entry *k)
{
    size_t mask = m->cap - 1, i = (size_t)k->hash & mask;
    while (m->slots[i].hash != 0 && !same_key(&m->slots[i], k))
        i = (i + 1) & mask;
    return &m->slots[i];
}

/* The entries from slot `at` up to the next free one. */
static void assert_map(const struct dz_map *m, size_t at)
{
    assert((m->cap & (m->cap - 1)) == 0 && m->count * 4 <= m->cap * 3);
    for (size_t i = at; DZ_CHECK_DEEP && m->slots[i].hash; i = (i + 1) & (m->cap - 1))
        assert(find_slot(m, &m->slots[i]) == &m->slots[i]);
}

static struct dz_map_entry *find(const struct dz_map *m, const struct dz_map_entry *k)
{
    struct dz_map_entry *e = m->cap ? find_slot(m, k) : NULL;
    return e && e->hash ? e : NULL;
}

/* Make room for one entry more. */
static int grow(struct dz_map *m)
{
    if (m->count >= m->max)
        return DZ_ELIMIT;
    if ((m->count + 1) * 4 <= m->cap * 3)
        return 0;
    struct dz_map bigger = *m;
    bigger.cap = m->cap ? m->cap * 2 : CAP_MIN;
    if (bigger.cap > SIZE_MAX / sizeof *bigger.slots)
        return DZ_ENOMEM;
    bigger.slots = dz_zalloc(bigger.cap * sizeof *bigger.slots);
    if (!bigger.slots)
        return DZ_ENOMEM;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].hash)
            *find_slot(&bigger, &m->slots[i]) = m->slots[i];
    dz_free(m->slots);
    *m = bigger;
    return 0;
}

static int put(struct dz_map *m, struct dz_map_entry k, void *value, void **ret_old)
{
    assert(value);
    k.value = value;
    struct dz_map_entry *e = find(m, &k);
    void *old = e ? e->value : NULL;
    if (!e) {
        int rc = grow(m);
        if (rc < 0)
            return rc;
        e = find_slot(m, &k);
        m->count++;
    }
    *e = k;
    assert_map(m, (size_t)(e - m->slots));
    if (ret_old)
        *ret_old = old;
    return 0;
}

static void *take(struct dz_map *m, struct dz_map_entry k)
{
    struct dz_map_entry *e = find(m, &k);
    if (!e)
        return NULL;
    void *value = e->value;
    size_t mask = m->cap - 1, at = (size_t)(e - m->slots), hole = at;
    /* Move back each later entry of the run whose home is not behind the hole. */
    for (size_t i = (hole + 1) & mask; m->slots[i].hash; i = (i + 1) & mask) {
        size_t home = (size_t)m->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct dz_map_entry){0};
    m->count--;
    assert_map(m, at);
    assert_map(m, (hole + 1) & mask); /* behind what was closed up */
    return value;
}

int dz_map_put(struct dz_map *m, struct dz_str key, void *value, void **ret_old)
{
    return put(m, key_of_str(m, key), value, ret_old);
}

int dz_map_put64(struct dz_map *m, uint64_t key, void *value, void **ret_old)
{
    return put(m, key_of_u64(m, key), value, ret_old);
}

void *dz_map_get(const struct dz_map *m, struct dz_str key)
{
    struct dz_map_entry k = key_of_str(m, key);
    const struct dz_map_entry *e = find(m, &k);
    return e ? e->value : NULL;
}

void *dz_map_get64(const struct dz_map *m, uint64_t key)
{
    struct dz_map_entry k = key_of_u64(m, key);
    const struct dz_map_entry *e = find(m, &k);
    return e ? e->value : NULL;
}

void *dz_map_remove(struct dz_map *m, struct dz_str key)
{
    return take(m, key_of_str(m, key));
}

void *dz_map_remove64(struct dz_map *m, uint64_t key)
{
    return take(m, key_of_u64(m, key));
}

const struct dz_map_entry *dz_map_next(const struct dz_map *m, const struct dz_map_entry *it)
{
    size_t i = it ? (size_t)(it - m->slots) + 1 : 0;
    for (; i < m->cap; i++)
        if (m->slots[i].hash)
            return &m->slots[i];
    return NULL;
}
