/* SPDX-License-Identifier: MIT
 *
 * mm_int.h - shared by the files of mm/: the table of VMAs.
 *
 * Every change has two halves: dz_mm_reserve(), which may fail and changes nothing, then the
 * functions below, which allocate nothing and cannot fail.
 */
#ifndef DZ_MM_MM_INT_H
#define DZ_MM_MM_INT_H

#include "mm/mm.h"

#include <sys/mman.h>

enum {
    DZ_MM_SPARE = 8, /* VMAs and calls that one operation adds at most */
};

static inline uint64_t dz_mm_round(uint64_t n) /* up to whole pages; 0 when that overflows */
{
    return (n + DZ_MM_PAGE - 1) & ~(uint64_t)(DZ_MM_PAGE - 1);
}
static inline bool dz_mm_aligned(uint64_t n)
{
    return n % DZ_MM_PAGE == 0;
}
static inline bool dz_mm_is_data(const struct dz_mm_vma *v)
{
    return (v->prot & PROT_WRITE) && !(v->flags & (DZ_MM_SHARED | DZ_MM_GROWSDOWN));
}

/* Reserve room for one operation: 0 or -ENOMEM. */
DZ_NODISCARD int dz_mm_reserve(struct dz_mm *mm, struct dz_mm_calls *calls);
void dz_mm_emit(struct dz_mm_calls *calls, struct dz_mm_call call);
/* Append the calls that map the part [start, end) of v. */
void dz_mm_emit_map(struct dz_mm_calls *calls, const struct dz_mm_vma *v, struct dz_mm_range part,
                    int more_flags);

size_t dz_mm_index(const struct dz_mm *mm, uint64_t at); /* of the first VMA that ends above it */
bool dz_mm_mapped(const struct dz_mm *mm, uint64_t start, uint64_t end); /* any part of it? */
bool dz_mm_is_reserved(const struct dz_mm *mm, uint64_t start, uint64_t end);
struct dz_mm_vma dz_mm_part(const struct dz_mm_vma *v, uint64_t start, uint64_t end);
uint64_t dz_mm_bottom(const struct dz_mm_vma *v); /* its start, less the gap of a growing stack */
bool dz_mm_may_expand(const struct dz_mm *mm, const struct dz_mm_vma *like, uint64_t more,
                      uint64_t less);

void dz_mm_split(struct dz_mm *mm, uint64_t at); /* afterwards no VMA crosses `at` */
void dz_mm_remove(struct dz_mm *mm, uint64_t start, uint64_t end); /* all VMAs there */
/* Into a hole; merges it with its neighbours. */
void dz_mm_insert(struct dz_mm *mm, const struct dz_mm_vma *v);
void dz_mm_set(struct dz_mm *mm, size_t i, uint8_t prot, uint32_t flags);
void dz_mm_merge(struct dz_mm *mm, uint64_t start, uint64_t end); /* neighbours in and at it */

#endif
