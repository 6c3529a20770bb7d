/* SPDX-License-Identifier: MIT
 *
 * mm_vma.c - the table of VMAs: find, split, merge, holes, and the list of calls.
 *
 * A sorted array: a lookup is a binary search, a change moves the entries above, which for a few
 * hundred VMAs costs less than a system call.
 *
 * Invariants (dz_mm_assert):
 *  1. VMAs are sorted, disjoint, not empty, of whole pages, within the addresses of a guest,
 *     and none lies in a reserved range.
 *  2. No two neighbours can be merged.
 *  3. total and data are the sums over the VMAs.
 *  4. ANON has offset, id and generation 0; prot is a part of may.
 */
#include "mm/mm_int.h"

#include <errno.h>

/* ---- calls ------------------------------------------------------------------------- */

int dz_mm_reserve(struct dz_mm *mm, struct dz_mm_calls *calls)
{
    if (dz_vec_reserve(&mm->vmas, DZ_MM_SPARE) != 0) {
        mm->vmas.err = 0; /* the VMAs that are there are whole */
        return -ENOMEM;
    }
    return dz_vec_reserve(calls, DZ_MM_SPARE) == 0 ? 0 : -ENOMEM;
}

void dz_mm_emit(struct dz_mm_calls *calls, struct dz_mm_call call)
{
    assert(calls->n < calls->cap); /* dz_mm_reserve was called */
    calls->p[calls->n++] = call;
}

void dz_mm_emit_map(struct dz_mm_calls *calls, const struct dz_mm_vma *v, struct dz_mm_range part,
                    int more_flags)
{
    const struct dz_mm_vma p = dz_mm_part(v, part.start, part.end);
    const uint64_t size = part.end - part.start;
    dz_mm_emit(calls,
               (struct dz_mm_call){
                   .op = DZ_MM_MMAP,
                   .at = part.start,
                   .size = size,
                   .prot = v->prot,
                   .flags = MAP_FIXED | (v->flags & DZ_MM_SHARED ? MAP_SHARED : MAP_PRIVATE) |
                            (v->back.kind == DZ_MM_ANON ? MAP_ANONYMOUS : 0) |
                            (v->flags & DZ_MM_NORESERVE ? MAP_NORESERVE : 0) | more_flags,
                   .back = p.back,
               });
    if (v->flags & DZ_MM_DONTFORK)
        dz_mm_emit(calls, (struct dz_mm_call){.op = DZ_MM_MADVISE,
                                              .at = part.start,
                                              .size = size,
                                              .advice = MADV_DONTFORK});
    if (v->flags & DZ_MM_WIPEONFORK)
        dz_mm_emit(calls, (struct dz_mm_call){.op = DZ_MM_MADVISE,
                                              .at = part.start,
                                              .size = size,
                                              .advice = MADV_WIPEONFORK});
}

int dz_mm_rebase(struct dz_mm *mm, int (*fn)(void *arg, uint64_t size, struct dz_mm_back *back),
                 void *arg)
{
    int rc = 0;
    for (size_t i = 0; i < mm->vmas.n && rc == 0; i++) {
        struct dz_mm_vma *v = &mm->vmas.p[i];
        rc = fn(arg, v->end - v->start, &v->back);
    }
    if (rc == 0)
        dz_mm_merge(mm, 0, DZ_MM_ADDRESS_MAX);
    return rc;
}

int dz_mm_lay(const struct dz_mm *mm, size_t i, struct dz_mm_calls *calls)
{
    assert(i < mm->vmas.n);
    const struct dz_mm_vma *v = &mm->vmas.p[i];
    if (dz_vec_reserve(calls, DZ_MM_SPARE) != 0)
        return -ENOMEM;
    dz_mm_emit_map(calls, v, (struct dz_mm_range){v->start, v->end}, 0);
    return 0;
}

/* ---- looking ----------------------------------------------------------------------- */

size_t dz_mm_index(const struct dz_mm *mm, uint64_t at)
{
    size_t low = 0, high = mm->vmas.n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (mm->vmas.p[mid].end > at)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

const struct dz_mm_vma *dz_mm_find(const struct dz_mm *mm, uint64_t at)
{
    size_t i = dz_mm_index(mm, at);
    return i < mm->vmas.n ? &mm->vmas.p[i] : NULL;
}

bool dz_mm_mapped(const struct dz_mm *mm, uint64_t start, uint64_t end)
{
    const struct dz_mm_vma *v = dz_mm_find(mm, start);
    return v && v->start < end;
}

/* The highest reserved range that meets [start, end); NULL. */
static const struct dz_mm_range *reserved_in(const struct dz_mm *mm, uint64_t start, uint64_t end)
{
    for (uint32_t i = mm->reserved_count; i-- > 0;)
        if (mm->reserved[i].start < end && start < mm->reserved[i].end)
            return &mm->reserved[i];
    return NULL;
}

bool dz_mm_is_reserved(const struct dz_mm *mm, uint64_t start, uint64_t end)
{
    return reserved_in(mm, start, end) != NULL;
}

struct dz_mm_vma dz_mm_part(const struct dz_mm_vma *v, uint64_t start, uint64_t end)
{
    struct dz_mm_vma part = *v;
    part.start = start;
    part.end = end;
    if (v->back.kind != DZ_MM_ANON)
        part.back.offset += start - v->start;
    return part;
}

uint64_t dz_mm_bottom(const struct dz_mm_vma *v)
{
    if (!(v->flags & DZ_MM_GROWSDOWN))
        return v->start;
    return v->start > DZ_MM_GUARD_GAP ? v->start - DZ_MM_GUARD_GAP : 0;
}

bool dz_mm_may_expand(const struct dz_mm *mm, const struct dz_mm_vma *like, uint64_t more,
                      uint64_t less)
{
    if (more > DZ_MM_ADDRESS_MAX || mm->total + more - less > mm->limits.as)
        return false;
    return !dz_mm_is_data(like) || mm->data + more - less <= mm->limits.data;
}

/* The highest hole of this size in [low, high); 0. */
static uint64_t highest_hole(const struct dz_mm *mm, uint64_t low, uint64_t high, uint64_t size)
{
    for (size_t i = dz_mm_index(mm, high - 1) + 1; i-- > 0;) {
        uint64_t top = i < mm->vmas.n ? dz_mm_bottom(&mm->vmas.p[i]) : high;
        uint64_t bottom = i > 0 ? mm->vmas.p[i - 1].end : 0;
        top = top < high ? top : high;
        bottom = bottom > low ? bottom : low;
        while (top > bottom && top - bottom >= size) {
            const struct dz_mm_range *r = reserved_in(mm, top - size, top);
            if (!r)
                return top - size;
            top = r->start;
        }
        if (bottom == low)
            break;
    }
    return 0;
}

static bool is_hole(const struct dz_mm *mm, uint64_t at, uint64_t size)
{
    if (at < DZ_MM_ADDRESS_MIN || at > DZ_MM_ADDRESS_MAX - size)
        return false;
    const struct dz_mm_vma *v = dz_mm_find(mm, at);
    return (!v || at + size <= dz_mm_bottom(v)) && !dz_mm_is_reserved(mm, at, at + size);
}

uint64_t dz_mm_place(const struct dz_mm *mm, uint64_t hint, uint64_t size, int flags)
{
    assert(size > 0 && size <= DZ_MM_ADDRESS_MAX);
    if (hint != 0 && is_hole(mm, hint, size) &&
        (!(flags & MAP_32BIT) || hint + size <= UINT64_C(0x80000000)))
        return hint;
    if (flags & MAP_32BIT)
        return highest_hole(mm, UINT64_C(0x40000000), UINT64_C(0x80000000), size);
    uint64_t at = highest_hole(mm, DZ_MM_ADDRESS_MIN, mm->mmap_base, size);
    return at ? at : highest_hole(mm, mm->mmap_base, DZ_MM_ADDRESS_MAX, size);
}

/* ---- changing ---------------------------------------------------------------------- */

static void charge(struct dz_mm *mm, const struct dz_mm_vma *v)
{
    mm->total += v->end - v->start;
    mm->data += dz_mm_is_data(v) ? v->end - v->start : 0;
}

static void discharge(struct dz_mm *mm, const struct dz_mm_vma *v)
{
    mm->total -= v->end - v->start;
    mm->data -= dz_mm_is_data(v) ? v->end - v->start : 0;
}

static void open_slot(struct dz_mm *mm, size_t i)
{
    assert(mm->vmas.n < mm->vmas.cap && i <= mm->vmas.n);
    memmove(mm->vmas.p + i + 1, mm->vmas.p + i, (mm->vmas.n - i) * sizeof *mm->vmas.p);
    mm->vmas.n++;
}

static void close_slots(struct dz_mm *mm, size_t i, size_t n)
{
    if (n == 0)
        return;
    memmove(mm->vmas.p + i, mm->vmas.p + i + n, (mm->vmas.n - i - n) * sizeof *mm->vmas.p);
    mm->vmas.n -= n;
}

void dz_mm_split(struct dz_mm *mm, uint64_t at)
{
    size_t i = dz_mm_index(mm, at);
    if (i == mm->vmas.n || mm->vmas.p[i].start >= at)
        return;
    const struct dz_mm_vma whole = mm->vmas.p[i];
    open_slot(mm, i);
    mm->vmas.p[i] = dz_mm_part(&whole, whole.start, at);
    mm->vmas.p[i + 1] = dz_mm_part(&whole, at, whole.end);
}

void dz_mm_remove(struct dz_mm *mm, uint64_t start, uint64_t end)
{
    dz_mm_split(mm, start);
    dz_mm_split(mm, end);
    size_t first = dz_mm_index(mm, start), last = first;
    for (; last < mm->vmas.n && mm->vmas.p[last].start < end; last++)
        discharge(mm, &mm->vmas.p[last]);
    close_slots(mm, first, last - first);
}

static bool could_be_one(const struct dz_mm_vma *a, const struct dz_mm_vma *b)
{
    if (a->end != b->start || a->prot != b->prot || a->flags != b->flags || a->may != b->may ||
        a->back.kind != b->back.kind)
        return false;
    return a->back.kind == DZ_MM_ANON ||
           (a->back.id == b->back.id && a->back.generation == b->back.generation &&
            a->back.offset + (a->end - a->start) == b->back.offset);
}

void dz_mm_merge(struct dz_mm *mm, uint64_t start, uint64_t end)
{
    size_t to = dz_mm_index(mm, start ? start - 1 : 0), from = to + 1;
    for (; from < mm->vmas.n && mm->vmas.p[from].start <= end; from++) {
        if (could_be_one(&mm->vmas.p[to], &mm->vmas.p[from]))
            mm->vmas.p[to].end = mm->vmas.p[from].end;
        else
            mm->vmas.p[++to] = mm->vmas.p[from];
    }
    if (to + 1 < from)
        close_slots(mm, to + 1, from - to - 1);
}

void dz_mm_insert(struct dz_mm *mm, const struct dz_mm_vma *v)
{
    const struct dz_mm_vma copy = *v;
    assert(!dz_mm_mapped(mm, v->start, v->end));
    size_t i = dz_mm_index(mm, copy.start);
    open_slot(mm, i);
    mm->vmas.p[i] = copy;
    charge(mm, &copy);
    dz_mm_merge(mm, copy.start, copy.end);
}

void dz_mm_set(struct dz_mm *mm, size_t i, uint8_t prot, uint32_t flags)
{
    discharge(mm, &mm->vmas.p[i]);
    mm->vmas.p[i].prot = prot;
    mm->vmas.p[i].flags = flags;
    charge(mm, &mm->vmas.p[i]);
}

void dz_mm_assert(const struct dz_mm *mm)
{
    uint64_t total = 0, data = 0;
    for (size_t i = 0; i < mm->vmas.n; i++) {
        const struct dz_mm_vma *v = &mm->vmas.p[i];
        assert(v->start < v->end && dz_mm_aligned(v->start) && dz_mm_aligned(v->end));
        assert(v->start >= DZ_MM_ADDRESS_MIN && v->end <= DZ_MM_ADDRESS_MAX);
        assert(!dz_mm_is_reserved(mm, v->start, v->end));
        assert((v->prot & ~v->may) == 0);
        assert(v->back.kind != DZ_MM_ANON ||
               (v->back.offset == 0 && v->back.id == 0 && v->back.generation == 0));
        assert(i == 0 || mm->vmas.p[i - 1].end <= v->start);
        assert(i == 0 || !could_be_one(v - 1, v));
        total += v->end - v->start;
        data += dz_mm_is_data(v) ? v->end - v->start : 0;
    }
    assert(total == mm->total && data == mm->data);
    (void)total, (void)data;
}
