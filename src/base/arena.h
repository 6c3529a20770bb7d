/* SPDX-License-Identifier: MIT
 *
 * arena.h - memory that is freed all at once.
 *
 * For data of one life: a parsed request, a decoded module. Pieces are aligned
 * to 16 bytes and never move. The arena has its ceiling at birth; like a buffer
 * it is sticky: once a piece cannot be had, err says why (DZ_ELIMIT, DZ_ENOMEM)
 * and every later call gives NULL, so that a parser may check once.
 *
 * What is not memory (a descriptor, a library's object) can be tied to the
 * arena by dz_arena_defer: those functions run at reset or release, the last
 * registered first, while all the arena's memory is still there.
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

/* n bytes, zeroed; n may be 0 (a pointer of its own, to nothing). */
DZ_NODISCARD void *dz_arena_alloc(struct dz_arena *a, size_t n);

/* count * size bytes, zeroed; a product that overflows is DZ_ELIMIT. */
DZ_NODISCARD void *dz_arena_array(struct dz_arena *a, size_t count, size_t size);

/* A copy with a terminator behind it; p NULL when there was no room. */
DZ_NODISCARD struct dz_str dz_arena_str(struct dz_arena *a, struct dz_str s);

/* Run fn(arg) at the end. When there is no memory to note that, fn(arg) runs at
 * once and the error is returned: arg is taken care of either way. */
int dz_arena_defer(struct dz_arena *a, void (*fn)(void *arg), void *arg);

void dz_arena_reset(struct dz_arena *a);   /* empty; one chunk is kept, err cleared */
void dz_arena_release(struct dz_arena *a); /* empty; usable again after. For DZ_AUTO too */

#endif
