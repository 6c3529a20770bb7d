/* SPDX-License-Identifier: MIT
 *
 * mm_advise.c - madvise and msync: walks over a range that continue behind a hole.
 *
 * Advice that Linux keeps in page tables beside the data of a page (MADV_GUARD_INSTALL) is answered
 * as by a Linux without it, because no state may live in the host's kernel. So are merging (KSM)
 * and collapsing, which would let sandboxes of one host observe one another by timing.
 */
#include "mm/mm_int.h"

#include <errno.h>

static bool is_known(int advice)
{
    switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
    case MADV_COLD:
    case MADV_PAGEOUT:
        return true;
    default:
        return false;
    }
}

/* Is this advice permitted for this VMA? */
static int check_advice(const struct dz_mm_vma *v, int advice)
{
    const bool private_anon = v->back.kind == DZ_MM_ANON;
    if ((advice == MADV_FREE || advice == MADV_WIPEONFORK) && !private_anon)
        return -EINVAL;
    if (advice == MADV_REMOVE) {
        if (private_anon)
            return -EINVAL;
        if (!(v->flags & DZ_MM_SHARED) || !(v->may & PROT_WRITE))
            return -EACCES;
    }
    return 0;
}

static uint32_t flags_after(uint32_t flags, int advice)
{
    switch (advice) {
    case MADV_NORMAL:
        return flags & ~(uint32_t)(DZ_MM_RANDOM | DZ_MM_SEQUENTIAL);
    case MADV_RANDOM:
        return (flags & ~(uint32_t)DZ_MM_SEQUENTIAL) | DZ_MM_RANDOM;
    case MADV_SEQUENTIAL:
        return (flags & ~(uint32_t)DZ_MM_RANDOM) | DZ_MM_SEQUENTIAL;
    case MADV_DONTFORK:
        return flags | DZ_MM_DONTFORK;
    case MADV_DOFORK:
        return flags & ~(uint32_t)DZ_MM_DONTFORK;
    case MADV_WIPEONFORK:
        return flags | DZ_MM_WIPEONFORK;
    case MADV_KEEPONFORK:
        return flags & ~(uint32_t)DZ_MM_WIPEONFORK;
    case MADV_DONTDUMP:
        return flags | DZ_MM_DONTDUMP;
    case MADV_DODUMP:
        return flags & ~(uint32_t)DZ_MM_DONTDUMP;
    case MADV_HUGEPAGE:
        return (flags & ~(uint32_t)DZ_MM_NOHUGE) | DZ_MM_HUGE;
    case MADV_NOHUGEPAGE:
        return (flags & ~(uint32_t)DZ_MM_HUGE) | DZ_MM_NOHUGE;
    default:
        return flags;
    }
}

static bool needs_host(int advice) /* advice that changes pages, or what a fork copies */
{
    switch (advice) {
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
        return true;
    default:
        return false;
    }
}

/* [start, end) of one VMA. */
static int advise(struct dz_mm *mm, uint64_t start, uint64_t end, int advice)
{
    const struct dz_mm_vma *v = dz_mm_find(mm, start);
    int rc = check_advice(v, advice);
    const uint32_t flags = flags_after(v->flags, advice);
    if (rc < 0 || flags == v->flags)
        return rc;
    if ((v->start < start || v->end > end) && mm->vmas.n >= mm->limits.vmas)
        return -EAGAIN; /* because for madvise, ENOMEM means a hole */
    dz_mm_split(mm, start);
    dz_mm_split(mm, end);
    size_t i = dz_mm_index(mm, start);
    dz_mm_set(mm, i, mm->vmas.p[i].prot, flags);
    dz_mm_merge(mm, start, end);
    return 0;
}

int dz_mm_madvise(struct dz_mm *mm, uint64_t at, uint64_t size, int advice,
                  struct dz_mm_calls *calls)
{
    uint64_t end = at + dz_mm_round(size);
    bool hole = false;
    if (!is_known(advice) || !dz_mm_aligned(at))
        return -EINVAL;
    if ((size > 0 && dz_mm_round(size) == 0) || end < at)
        return -EINVAL;
    int rc = dz_mm_reserve(mm, calls);
    while (rc == 0 && at < end) {
        const struct dz_mm_vma *v = dz_mm_find(mm, at);
        hole = hole || !v || v->start > at;
        if (!v || v->start >= end)
            break;
        at = v->start > at ? v->start : at;
        uint64_t next = v->end < end ? v->end : end;
        if (dz_vec_reserve(calls, 1) != 0) /* before the VMA changes */
            return -ENOMEM;
        rc = advise(mm, at, next, advice);
        if (rc == 0 && needs_host(advice))
            dz_mm_emit(calls,
                       (struct dz_mm_call){
                           .op = DZ_MM_MADVISE, .at = at, .size = next - at, .advice = advice});
        at = next;
    }
    return rc < 0 ? rc : hole ? -ENOMEM : 0;
}

int dz_mm_msync(struct dz_mm *mm, uint64_t at, uint64_t size, int flags, struct dz_mm_calls *calls)
{
    const uint64_t end = at + dz_mm_round(size);
    bool hole = false;
    if ((flags & ~(MS_ASYNC | MS_INVALIDATE | MS_SYNC)) || !dz_mm_aligned(at) ||
        ((flags & MS_ASYNC) && (flags & MS_SYNC)))
        return -EINVAL;
    if (end < at)
        return -ENOMEM;
    while (at < end) {
        const struct dz_mm_vma *v = dz_mm_find(mm, at);
        hole = hole || !v || v->start > at;
        if (!v || v->start >= end)
            break;
        at = v->start > at ? v->start : at;
        uint64_t next = v->end < end ? v->end : end;
        if ((flags & MS_SYNC) && (v->flags & DZ_MM_SHARED) && v->back.kind == DZ_MM_FILE &&
            dz_vec_push(calls, ((struct dz_mm_call){.op = DZ_MM_SYNC,
                                                    .at = at,
                                                    .size = next - at,
                                                    .back = dz_mm_part(v, at, next).back})) != 0)
            return -ENOMEM;
        at = next;
    }
    return hole ? -ENOMEM : 0;
}
