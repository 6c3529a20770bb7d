/* SPDX-License-Identifier: MIT
 *
 * mm_remap.c - mremap: shrink, grow in place, move, copy a shared mapping.
 *
 * Growing is one more mmap behind the VMA, never a mremap of the host, because one VMA here may be
 * several on the host (where anonymous pages also differ by owner). A source that is several VMAs
 * is refused with EFAULT, as by every Linux before 6.17.
 */
#include "mm/mm_int.h"

#include <errno.h>

static int check_args(const struct dz_mm *mm, const struct dz_mm_remap *r, uint64_t old_size,
                      uint64_t new_size)
{
    if (r->flags & ~(MREMAP_FIXED | MREMAP_MAYMOVE | MREMAP_DONTUNMAP))
        return -EINVAL;
    if (!dz_mm_aligned(r->at) || new_size == 0 || new_size > DZ_MM_ADDRESS_MAX)
        return -EINVAL;
    if (!(r->flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)))
        return 0;
    if (r->to > DZ_MM_ADDRESS_MAX - new_size || !dz_mm_aligned(r->to))
        return -EINVAL;
    if (!(r->flags & MREMAP_MAYMOVE) || ((r->flags & MREMAP_DONTUNMAP) && old_size != new_size))
        return -EINVAL;
    if (r->at + old_size > r->to && r->to + new_size > r->at)
        return -EINVAL;
    if ((r->flags & MREMAP_FIXED) && dz_mm_is_reserved(mm, r->to, r->to + new_size))
        return -EINVAL;
    return mm->vmas.n + 5 >= mm->limits.vmas ? -ENOMEM : 0;
}

/* The VMA and its room for the new size: 0 or an errno. */
static int check_vma(const struct dz_mm *mm, const struct dz_mm_vma *v, const struct dz_mm_remap *r,
                     uint64_t old_size, uint64_t new_size)
{
    uint64_t end_offset;
    if (!v || v->start > r->at)
        return -EFAULT;
    if (old_size == 0 && !(v->flags & DZ_MM_SHARED))
        return -EINVAL;
    if (new_size <= old_size && !(r->flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)))
        return 0;
    if (old_size > v->end - r->at)
        return -EFAULT;
    if (new_size <= old_size)
        return 0;
    if (__builtin_add_overflow(dz_mm_part(v, r->at, v->end).back.offset, new_size, &end_offset))
        return -EINVAL;
    return dz_mm_may_expand(mm, v, new_size - old_size, 0) ? 0 : -ENOMEM;
}

/* Move [from, from + keep) of `v` to `at`, where `size` bytes are free, and map the rest. */
static int64_t move(struct dz_mm *mm, struct dz_mm_vma v, struct dz_mm_range from, uint64_t at,
                    uint64_t size, struct dz_mm_calls *calls)
{
    const uint64_t keep = from.end - from.start;
    struct dz_mm_vma to = dz_mm_part(&v, from.start, from.end);
    to.start = at;
    to.end = at + size;
    if (keep > 0) {
        dz_mm_remove(mm, from.start, from.end);
        dz_mm_emit(calls, (struct dz_mm_call){.op = DZ_MM_MREMAP,
                                              .at = from.start,
                                              .size = keep,
                                              .to = at,
                                              .flags = MREMAP_MAYMOVE | MREMAP_FIXED});
    }
    dz_mm_insert(mm, &to);
    if (size > keep)
        dz_mm_emit_map(calls, &to, (struct dz_mm_range){at + keep, at + size}, 0);
    return (int64_t)at;
}

/* The pages move, and the old VMA stays mapped without them: for user-space garbage collectors. */
static int64_t leave(struct dz_mm *mm, struct dz_mm_vma v, struct dz_mm_range from, uint64_t at,
                     struct dz_mm_calls *calls)
{
    struct dz_mm_vma to = dz_mm_part(&v, from.start, from.end);
    to.start = at;
    to.end = at + (from.end - from.start);
    dz_mm_insert(mm, &to);
    dz_mm_emit(calls,
               (struct dz_mm_call){.op = DZ_MM_MREMAP,
                                   .at = from.start,
                                   .size = from.end - from.start,
                                   .to = at,
                                   .flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP});
    return (int64_t)at;
}

/* Move to an address that the caller names, or to a new one. */
static int64_t elsewhere(struct dz_mm *mm, const struct dz_mm_remap *r, uint64_t old_size,
                         uint64_t new_size, struct dz_mm_calls *calls)
{
    const bool fixed = r->flags & MREMAP_FIXED, stays = r->flags & MREMAP_DONTUNMAP;
    const struct dz_mm_vma v = *dz_mm_find(mm, r->at);
    uint64_t at = r->to;
    if (mm->vmas.n + 3 >= mm->limits.vmas)
        return -ENOMEM;
    if (fixed && at < DZ_MM_ADDRESS_MIN)
        return -EPERM;
    if (stays && !dz_mm_may_expand(mm, &v, new_size, 0))
        return -ENOMEM;
    if (!fixed) {
        at = dz_mm_place(mm, stays ? r->to : 0, new_size, 0);
        if (at == 0)
            return -ENOMEM;
    }
    if (fixed) { /* the following calls replace everything that the host has there */
        dz_mm_remove(mm, at, at + new_size);
        if (r->at == at) { /* a copy (old_size 0) over its own source, which is gone now */
            dz_mm_emit(calls, (struct dz_mm_call){.op = DZ_MM_MUNMAP, .at = at, .size = new_size});
            return -EFAULT;
        }
    }
    if (old_size > new_size) {
        dz_mm_remove(mm, r->at + new_size, r->at + old_size);
        dz_mm_emit(calls, (struct dz_mm_call){.op = DZ_MM_MUNMAP,
                                              .at = r->at + new_size,
                                              .size = old_size - new_size});
        old_size = new_size;
    }
    const struct dz_mm_range from = {r->at, r->at + old_size};
    if (stays && old_size > 0)
        return leave(mm, v, from, at, calls);
    return move(mm, v, from, at, new_size, calls);
}

static bool grows_in_place(const struct dz_mm *mm, const struct dz_mm_vma *v,
                           const struct dz_mm_remap *r, uint64_t old_size, uint64_t more)
{
    return r->at + old_size == v->end && v->end <= DZ_MM_ADDRESS_MAX - more && old_size > 0 &&
           !dz_mm_mapped(mm, v->end, v->end + more) &&
           !dz_mm_is_reserved(mm, v->end, v->end + more);
}

int64_t dz_mm_mremap(struct dz_mm *mm, const struct dz_mm_remap *r, struct dz_mm_calls *calls)
{
    const uint64_t old_size = dz_mm_round(r->old_size), new_size = dz_mm_round(r->new_size);
    int rc = check_args(mm, r, old_size, new_size);
    const struct dz_mm_vma *v = rc == 0 ? dz_mm_find(mm, r->at) : NULL;
    if (rc == 0)
        rc = check_vma(mm, v, r, old_size, new_size);
    if (rc == 0)
        rc = dz_mm_reserve(mm, calls);
    if (rc < 0)
        return rc;
    if (r->flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))
        return elsewhere(mm, r, old_size, new_size, calls);
    if (new_size <= old_size) {
        if (new_size < old_size)
            rc = dz_mm_munmap(mm, r->at + new_size, old_size - new_size, calls);
        return rc < 0 ? rc : (int64_t)r->at;
    }
    v = dz_mm_find(mm, r->at); /* the array may have moved */
    if (grows_in_place(mm, v, r, old_size, new_size - old_size)) {
        const struct dz_mm_vma more = {
            .start = v->end,
            .end = r->at + new_size,
            .back = dz_mm_part(v, v->end, r->at + new_size).back,
            .prot = v->prot,
            .may = v->may,
            .flags = v->flags,
        };
        dz_mm_insert(mm, &more);
        dz_mm_emit_map(calls, &more, (struct dz_mm_range){more.start, more.end}, 0);
        return (int64_t)r->at;
    }
    if (!(r->flags & MREMAP_MAYMOVE))
        return -ENOMEM;
    return elsewhere(mm, r, old_size, new_size, calls);
}
