/* SPDX-License-Identifier: MIT
 *
 * map.h - a hash map from bytes, or from 64-bit integers, to pointers.
 *
 *     struct dz_map m;
 *     dz_map_init(&m, DZ_SANDBOXES_MAX);
 *     rc = dz_map_put(&m, dz_str(s->id), s, NULL);
 *     s = dz_map_get(&m, id);
 *     DZ_MAP_FOREACH (it, &m)
 *         use(it->value);
 *     dz_map_release(&m);
 *
 * The map owns neither keys nor values: a byte key must live, unchanged, as
 * long as its entry (usually it is part of the value). Values are never NULL,
 * so NULL means "not there". The two kinds of key never equal one another; a
 * map normally has one kind.
 *
 * The hash is keyed with random bits that are drawn once per process, so that nobody can choose
 * keys that collide. Therefore the order of iteration differs in each process; a test that needs
 * a fixed order calls dz_map_seed first.
 */
#ifndef DZ_BASE_MAP_H
#define DZ_BASE_MAP_H

#include "base/attr.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct dz_map_entry { /* read only, outside map.c */
    uint64_t hash;    /* 0 = this slot is free */
    const char *p;    /* bytes of the key; NULL = the key is the integer n */
    uint64_t n;
    void *value;
};

struct dz_map {
    struct dz_map_entry *slots;
    size_t count; /* entries */
    size_t cap;   /* slots: 0 or a power of two */
    size_t max;   /* the most entries */
    uint64_t key[2];
};

void dz_map_init(struct dz_map *m, size_t max); /* allocates nothing */
void dz_map_release(struct dz_map *m);          /* remove all, free; for DZ_AUTO too */
void dz_map_clear(struct dz_map *m);            /* remove all, keep the memory */

/* Add or replace an entry. The replaced value, or NULL, goes to *ret_old unless ret_old is NULL;
 * the entry then refers to the new key's bytes. DZ_ELIMIT if the map has max entries, DZ_ENOMEM; on
 * failure nothing is changed. */
DZ_NODISCARD int dz_map_put(struct dz_map *m, struct dz_str key, void *value, void **ret_old);
DZ_NODISCARD int dz_map_put64(struct dz_map *m, uint64_t key, void *value, void **ret_old);

/* The value, or NULL. */
void *dz_map_get(const struct dz_map *m, struct dz_str key);
void *dz_map_get64(const struct dz_map *m, uint64_t key);

/* Remove an entry and return its value, or NULL. */
void *dz_map_remove(struct dz_map *m, struct dz_str key);
void *dz_map_remove64(struct dz_map *m, uint64_t key);

/* All entries, in no order. The map must not be changed in the loop. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a variable is declared by its bare name */
#define DZ_MAP_FOREACH(it, map)                                                \
    for (const struct dz_map_entry *it = dz_map_next((map), NULL); it != NULL; \
         it = dz_map_next((map), it))
/* NOLINTEND(bugprone-macro-parentheses) */
const struct dz_map_entry *dz_map_next(const struct dz_map *m, const struct dz_map_entry *it);

static inline struct dz_str dz_map_key(const struct dz_map_entry *it) /* of a byte key */
{
    return dz_str_n(it->p, (size_t)it->n);
}

/* For tests: maps made by dz_map_init from now on use this key. */
void dz_map_seed(uint64_t a, uint64_t b);

#endif
