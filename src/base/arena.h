/* SPDX-License-Identifier: MIT
 *
 * arena.h - memory that is freed all at once.
 *
 * For data with one common lifetime: a parsed request, a decoded module. Pieces are aligned to 16
 * bytes and never move. The arena gets its limit when it is made. Like a buffer it is sticky: after
 * an allocation fails, err has the reason (DZ_ELIMIT, DZ_ENOMEM) and every later call returns NULL,
 * so a parser needs only one check.
 *
 * Other resources (a descriptor, a library's object) can be tied to the arena by dz_arena_defer:
 * these functions run at reset or release, the last registered first, while all the arena's memory
 * is still valid.
 */
#ifndef DZ_BASE_ARENA_H
#define DZ_BASE_ARENA_H

#include "base/attr.h"
#include "base/str.h"

#include <stddef.h>

struct dz_arena_chunk;
struct dz_arena_defer;

struct dz_arena {
    struct dz_arena_chunk *chunks; /* the one in use first */
    struct dz_arena_chunk *large;  /* of one piece each */
    struct dz_arena_defer *defers; /* the last registered first */
    size_t used;                   /* bytes of all chunks, headers included */
    size_t max;
    int err;
};

#define DZ_ARENA_INIT(limit) {.max = (limit)}

/* n bytes, zeroed; n may be 0, which still returns a distinct pointer. */
DZ_NODISCARD void *dz_arena_alloc(struct dz_arena *a, size_t n);

/* count * size bytes, zeroed; a product that overflows is DZ_ELIMIT. */
DZ_NODISCARD void *dz_arena_array(struct dz_arena *a, size_t count, size_t size);

/* Copy the bytes and a terminator; p is NULL if there was no room. */
DZ_NODISCARD struct dz_str dz_arena_str(struct dz_arena *a, struct dz_str s);

/* Run fn(arg) at reset or release. If there is no memory to register it, fn(arg) runs at once and
 * the error is returned, so arg is released in either case. */
int dz_arena_defer(struct dz_arena *a, void (*fn)(void *arg), void *arg);

void dz_arena_reset(struct dz_arena *a);   /* empty; one chunk is kept, err cleared */
void dz_arena_release(struct dz_arena *a); /* empty; usable again after. For DZ_AUTO too */

#endif
