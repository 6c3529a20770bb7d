/* SPDX-License-Identifier: MIT
 *
 * mm_map.c - making an address space; mmap, munmap, mprotect, brk, growing stacks.
 *
 * The order of the checks is Linux's, because it decides which errno a call with two
 * mistakes gets.
 */
#include "mm/mm_int.h"

#include <errno.h>

/* The random bits of each address, as on x86-64 Linux. */
enum {
    MMAP_BITS = 28,
    STACK_BITS = 22,
    BRK_BITS = 13,
    PROGRAM_BITS = 28,
};
static const uint64_t PROGRAM_MIN = UINT64_C(0x555555554000); /* two thirds of user memory */
static const uint64_t STACK_GAP_MIN = UINT64_C(128) << 20;    /* between mmap_base and the stack */

static uint64_t mix(uint64_t seed, uint64_t n) /* splitmix64: a number for each n */
{
    uint64_t z = seed + n * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t random_pages(uint64_t seed, uint64_t n, int bits) /* in bytes */
{
    return seed ? (mix(seed, n) >> (64 - bits)) * DZ_MM_PAGE : 0;
}

void dz_mm_init(struct dz_mm *mm, uint64_t seed, const struct dz_mm_limits *limits,
                const struct dz_mm_range *reserved, uint32_t reserved_count)
{
    assert(reserved_count <= DZ_MM_RESERVED_MAX && limits->vmas <= DZ_MM_VMAS_MAX);
    *mm = (struct dz_mm){
        .vmas = DZ_VEC_INIT(DZ_MM_VMAS_MAX + 2 * DZ_MM_SPARE),
        .limits = *limits,
        .reserved_count = reserved_count,
    };
    for (uint32_t i = 0; i < reserved_count; i++) {
        assert(reserved[i].start < reserved[i].end && dz_mm_aligned(reserved[i].start) &&
               dz_mm_aligned(reserved[i].end));
        assert(i == 0 || reserved[i - 1].end <= reserved[i].start);
        mm->reserved[i] = reserved[i];
    }
    uint64_t gap = limits->stack < DZ_MM_ADDRESS_MAX / 6 * 5 ? limits->stack : STACK_GAP_MIN;
    gap =
        gap > STACK_GAP_MIN ? (gap + DZ_MM_PAGE - 1) & ~(uint64_t)(DZ_MM_PAGE - 1) : STACK_GAP_MIN;
    mm->stack_top = DZ_MM_ADDRESS_MAX - random_pages(seed, 1, STACK_BITS);
    mm->mmap_base = DZ_MM_ADDRESS_MAX - ((uint64_t)DZ_MM_PAGE << STACK_BITS) - DZ_MM_GUARD_GAP -
                    gap - random_pages(seed, 2, MMAP_BITS);
}

void dz_mm_release(struct dz_mm *mm)
{
    dz_vec_release(&mm->vmas);
}

int dz_mm_fork(const struct dz_mm *mm, struct dz_mm *ret_copy)
{
    struct dz_mm copy = *mm;
    copy.vmas = (struct dz_mm_vmas)DZ_VEC_INIT(mm->vmas.max);
    copy.total = copy.data = 0;
    if (dz_vec_reserve(&copy.vmas, mm->vmas.n) != 0)
        return -ENOMEM;
    for (size_t i = 0; i < mm->vmas.n; i++) {
        const struct dz_mm_vma *v = &mm->vmas.p[i];
        if (v->flags & DZ_MM_DONTFORK)
            continue;
        copy.vmas.p[copy.vmas.n++] = *v;
        copy.total += v->end - v->start;
        copy.data += dz_mm_is_data(v) ? v->end - v->start : 0;
    }
    *ret_copy = copy;
    return 0;
}

void dz_mm_set_brk(struct dz_mm *mm, uint64_t program_end, uint64_t data_size, uint64_t seed)
{
    mm->brk_start = dz_mm_round(program_end) + random_pages(seed, 3, BRK_BITS);
    mm->brk = mm->brk_start;
    mm->data_size = data_size;
}

uint64_t dz_mm_program_base(uint64_t seed)
{
    return PROGRAM_MIN + random_pages(seed, 4, PROGRAM_BITS);
}

/* ---- mmap -------------------------------------------------------------------------- */

/* Address and size of a mapping: 0 or an errno. */
static int choose(const struct dz_mm *mm, const struct dz_mm_map *m, int flags, uint64_t *ret_at,
                  uint64_t *ret_size)
{
    const bool fixed = flags & MAP_FIXED;
    uint64_t at = m->at, size = dz_mm_round(m->size), end_offset;
    if (!fixed) { /* make the hint usable */
        at &= ~(uint64_t)(DZ_MM_PAGE - 1);
        at = at && at < DZ_MM_ADDRESS_MIN ? DZ_MM_ADDRESS_MIN : at;
    }
    if (size == 0)
        return -ENOMEM;
    if (__builtin_add_overflow(m->back.offset, size, &end_offset))
        return -EOVERFLOW;
    if (mm->vmas.n > mm->limits.vmas || size > DZ_MM_ADDRESS_MAX)
        return -ENOMEM;
    if (!fixed) {
        at = dz_mm_place(mm, at, size, flags);
        if (at == 0)
            return -ENOMEM;
    }
    if (at > DZ_MM_ADDRESS_MAX - size)
        return -ENOMEM;
    if (!dz_mm_aligned(at))
        return -EINVAL;
    if (at < DZ_MM_ADDRESS_MIN)
        return -EPERM;
    const bool reserved = dz_mm_is_reserved(mm, at, at + size);
    if ((flags & MAP_FIXED_NOREPLACE) == MAP_FIXED_NOREPLACE &&
        (reserved || dz_mm_mapped(mm, at, at + size)))
        return -EEXIST;
    if (reserved)
        return -ENOMEM;
    *ret_at = at;
    *ret_size = size;
    return 0;
}

/* Check type and protection against the descriptor's access: fills flags and may of v. */
static int permit(const struct dz_mm_map *m, int flags, struct dz_mm_vma *v)
{
    const int type = flags & MAP_TYPE, all = PROT_READ | PROT_WRITE | PROT_EXEC;
    const int known = MAP_TYPE | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_ANONYMOUS | MAP_32BIT |
                      MAP_GROWSDOWN | MAP_DENYWRITE | MAP_EXECUTABLE | MAP_LOCKED | MAP_NORESERVE |
                      MAP_POPULATE | MAP_NONBLOCK | MAP_STACK | MAP_HUGETLB;
    const bool shared = type == MAP_SHARED || type == MAP_SHARED_VALIDATE;
    v->may = (uint8_t)all;
    v->flags = (flags & MAP_NORESERVE ? DZ_MM_NORESERVE : 0u) | (shared ? DZ_MM_SHARED : 0u);
    if (flags & MAP_ANONYMOUS) {
        if (type != MAP_SHARED && type != MAP_PRIVATE)
            return -EINVAL;
        if (shared && (flags & MAP_GROWSDOWN))
            return -EINVAL;
        v->flags |= flags & MAP_GROWSDOWN ? DZ_MM_GROWSDOWN : 0u;
        return 0;
    }
    if (!shared && type != MAP_PRIVATE)
        return -EINVAL;
    if (type == MAP_SHARED_VALIDATE && (flags & ~known))
        return -EOPNOTSUPP;
    if (shared && (m->prot & PROT_WRITE) && !(m->may & PROT_WRITE))
        return -EACCES;
    if (!(m->may & PROT_READ))
        return -EACCES;
    if (!(m->may & PROT_EXEC)) {
        if (m->prot & PROT_EXEC)
            return -EPERM;
        v->may &= (uint8_t)~PROT_EXEC;
    }
    if (flags & MAP_GROWSDOWN)
        return -EINVAL;
    if (shared && !(m->may & PROT_WRITE))
        v->may &= (uint8_t)~PROT_WRITE;
    if (!shared && (m->prot & PROT_WRITE) && !(flags & MAP_NORESERVE))
        v->flags |= DZ_MM_CHARGED;
    return 0;
}

static uint64_t mapped_bytes(const struct dz_mm *mm, uint64_t start, uint64_t end)
{
    uint64_t sum = 0;
    for (size_t i = dz_mm_index(mm, start); i < mm->vmas.n && mm->vmas.p[i].start < end; i++) {
        const struct dz_mm_vma *v = &mm->vmas.p[i];
        sum += (v->end < end ? v->end : end) - (v->start > start ? v->start : start);
    }
    return sum;
}

/* Would removing [start, end) split a VMA when the maximum number exists? */
static bool cut_too_many(const struct dz_mm *mm, uint64_t start, uint64_t end)
{
    const struct dz_mm_vma *v = dz_mm_find(mm, start);
    return v && v->start < start && v->end > end && mm->vmas.n >= mm->limits.vmas;
}

int64_t dz_mm_mmap(struct dz_mm *mm, const struct dz_mm_map *m, struct dz_mm_calls *calls)
{
    struct dz_mm_vma v = {.prot = m->prot & (PROT_READ | PROT_WRITE | PROT_EXEC), .back = m->back};
    int flags = m->flags;
    uint64_t at, size;
    if (!dz_mm_aligned(m->back.offset) || m->size == 0)
        return -EINVAL;
    if (flags & MAP_FIXED_NOREPLACE)
        flags |= MAP_FIXED | MAP_FIXED_NOREPLACE;
    int rc = choose(mm, m, flags, &at, &size);
    if (rc == 0)
        rc = permit(m, flags, &v);
    if (rc < 0)
        return rc;
    if (flags & MAP_HUGETLB)
        return -ENOMEM; /* like a host without huge pages in its pool */
    v.start = at;
    v.end = at + size;
    assert((v.back.kind == DZ_MM_ANON) == ((flags & MAP_ANONYMOUS) && !(v.flags & DZ_MM_SHARED)));
    if (v.back.kind == DZ_MM_ANON)
        v.back = (struct dz_mm_back){.kind = DZ_MM_ANON};
    if (!dz_mm_may_expand(mm, &v, size, mapped_bytes(mm, at, v.end)) || cut_too_many(mm, at, v.end))
        return -ENOMEM;
    rc = dz_mm_reserve(mm, calls);
    if (rc < 0)
        return rc;
    dz_mm_remove(mm, v.start, v.end);
    dz_mm_insert(mm, &v);
    dz_mm_emit_map(calls, &v, (struct dz_mm_range){at, at + size}, flags & MAP_POPULATE);
    return (int64_t)at;
}

/* ---- munmap, mprotect -------------------------------------------------------------- */

int dz_mm_munmap(struct dz_mm *mm, uint64_t at, uint64_t size, struct dz_mm_calls *calls)
{
    if (!dz_mm_aligned(at) || at > DZ_MM_ADDRESS_MAX || size > DZ_MM_ADDRESS_MAX - at)
        return -EINVAL;
    const uint64_t end = at + dz_mm_round(size);
    if (end == at || dz_mm_is_reserved(mm, at, end))
        return -EINVAL;
    if (!dz_mm_mapped(mm, at, end))
        return 0;
    if (cut_too_many(mm, at, end))
        return -ENOMEM;
    int rc = dz_mm_reserve(mm, calls);
    if (rc < 0)
        return rc;
    dz_mm_remove(mm, at, end);
    dz_mm_emit(calls, (struct dz_mm_call){.op = DZ_MM_MUNMAP, .at = at, .size = end - at});
    return 0;
}

/* One VMA of an mprotect, [start, end) of VMA i: 0 or an errno. */
static int protect(struct dz_mm *mm, uint64_t start, uint64_t end, uint8_t prot)
{
    size_t i = dz_mm_index(mm, start);
    const struct dz_mm_vma *v = &mm->vmas.p[i];
    struct dz_mm_vma like = *v;
    if (prot & ~v->may)
        return -EACCES;
    if (prot == v->prot)
        return 0;
    like.prot = prot;
    if (prot & PROT_WRITE) {
        if (!dz_mm_is_data(v) && dz_mm_is_data(&like) && mm->data + (end - start) > mm->limits.data)
            return -ENOMEM;
        if (v->back.kind != DZ_MM_ANON && !(v->flags & (DZ_MM_SHARED | DZ_MM_NORESERVE)))
            like.flags |= DZ_MM_CHARGED;
    }
    if ((v->start < start || v->end > end) && mm->vmas.n >= mm->limits.vmas)
        return -ENOMEM;
    dz_mm_split(mm, start);
    dz_mm_split(mm, end);
    dz_mm_set(mm, dz_mm_index(mm, start), prot, like.flags);
    dz_mm_merge(mm, start, end);
    return 0;
}

int dz_mm_mprotect(struct dz_mm *mm, uint64_t at, uint64_t size, int prot,
                   struct dz_mm_calls *calls)
{
    const int grows = prot & (PROT_GROWSDOWN | PROT_GROWSUP);
    uint64_t done = at, end = at + dz_mm_round(size);
    prot &= ~(PROT_GROWSDOWN | PROT_GROWSUP);
    if (grows == (PROT_GROWSDOWN | PROT_GROWSUP) || !dz_mm_aligned(at))
        return -EINVAL;
    if (size == 0)
        return 0;
    if (end <= at)
        return -ENOMEM;
    if (prot & ~(PROT_READ | PROT_WRITE | PROT_EXEC | 8 /* PROT_SEM */))
        return -EINVAL;
    prot &= PROT_READ | PROT_WRITE | PROT_EXEC;
    const struct dz_mm_vma *v = dz_mm_find(mm, at);
    if (!v)
        return -ENOMEM;
    if (grows == PROT_GROWSDOWN) {
        if (v->start >= end)
            return -ENOMEM;
        if (!(v->flags & DZ_MM_GROWSDOWN))
            return -EINVAL;
        at = done = v->start;
    } else if (v->start > at) {
        return -ENOMEM;
    } else if (grows == PROT_GROWSUP) {
        return -EINVAL; /* no memory grows up here */
    }
    int rc = dz_mm_reserve(mm, calls);
    while (rc == 0 && done < end) { /* each turn ends at a VMA's end */
        v = dz_mm_find(mm, done);
        if (!v || v->start > done) {
            rc = -ENOMEM;
            break;
        }
        uint64_t next = v->end < end ? v->end : end;
        rc = protect(mm, done, next, (uint8_t)prot);
        done = rc == 0 ? next : done;
    }
    if (done > at)
        dz_mm_emit(calls, (struct dz_mm_call){
                              .op = DZ_MM_MPROTECT, .at = at, .size = done - at, .prot = prot});
    return rc;
}

/* ---- the heap and stacks ----------------------------------------------------------- */

static bool grow_heap(struct dz_mm *mm, uint64_t from, uint64_t to, struct dz_mm_calls *calls)
{
    const struct dz_mm_vma v = {
        .start = from,
        .end = to,
        .prot = PROT_READ | PROT_WRITE,
        .may = PROT_READ | PROT_WRITE | PROT_EXEC,
    };
    const struct dz_mm_vma *next = dz_mm_find(mm, from);
    if (to > DZ_MM_ADDRESS_MAX || (next && to + DZ_MM_PAGE > dz_mm_bottom(next)) ||
        dz_mm_is_reserved(mm, from, to))
        return false;
    if (!dz_mm_may_expand(mm, &v, to - from, 0) || mm->vmas.n > mm->limits.vmas ||
        dz_mm_reserve(mm, calls) < 0)
        return false;
    dz_mm_insert(mm, &v);
    dz_mm_emit_map(calls, &v, (struct dz_mm_range){from, to}, 0);
    return true;
}

uint64_t dz_mm_brk(struct dz_mm *mm, uint64_t brk, struct dz_mm_calls *calls)
{
    if (brk < mm->brk_start || mm->brk_start == 0 || brk > DZ_MM_ADDRESS_MAX)
        return mm->brk;
    if (mm->limits.data != UINT64_MAX && brk - mm->brk_start + mm->data_size > mm->limits.data)
        return mm->brk;
    const uint64_t from = dz_mm_round(mm->brk), to = dz_mm_round(brk);
    if (to < from) {
        const struct dz_mm_vma *v = dz_mm_find(mm, to);
        if (!v || v->start >= from || dz_mm_munmap(mm, to, from - to, calls) < 0)
            return mm->brk;
    } else if (to > from && !grow_heap(mm, from, to, calls)) {
        return mm->brk;
    }
    return mm->brk = brk;
}

/* Grow the stack of VMA i down to `at`, and further if nothing prevents it. */
static int grow_stack(struct dz_mm *mm, size_t i, uint64_t at, struct dz_mm_calls *calls)
{
    const struct dz_mm_vma v = mm->vmas.p[i];
    const struct dz_mm_vma *below = i > 0 ? &mm->vmas.p[i - 1] : NULL;
    const uint64_t page = at & ~(uint64_t)(DZ_MM_PAGE - 1);
    uint64_t low = DZ_MM_ADDRESS_MIN, to = page & ~(uint64_t)(DZ_MM_STACK_STEP - 1);
    if (below) /* an inaccessible mapping needs no gap: it is the program's own guard page */
        low = below->end +
              (below->prot && !(below->flags & DZ_MM_GROWSDOWN) ? (uint64_t)DZ_MM_GUARD_GAP : 0);
    if (page < low || dz_mm_is_reserved(mm, page, v.start))
        return -ENOMEM;
    struct dz_mm_vma more = dz_mm_part(&v, to, v.start);
    for (;; more.start = page) { /* a step, else the page alone */
        if (more.start >= low && !dz_mm_is_reserved(mm, more.start, v.start) &&
            v.end - more.start <= mm->limits.stack &&
            dz_mm_may_expand(mm, &v, v.start - more.start, 0))
            break;
        if (more.start == page)
            return -ENOMEM;
    }
    if (dz_mm_reserve(mm, calls) < 0)
        return -ENOMEM;
    dz_mm_insert(mm, &more);
    dz_mm_emit_map(calls, &more, (struct dz_mm_range){more.start, more.end}, 0);
    return 0;
}

int dz_mm_fault(struct dz_mm *mm, uint64_t at, int access, struct dz_mm_calls *calls)
{
    size_t i = dz_mm_index(mm, at);
    if (i == mm->vmas.n)
        return -EFAULT;
    const struct dz_mm_vma *v = &mm->vmas.p[i];
    if (v->start > at) { /* Linux checks the access after the growth, with the same result */
        if (!(v->flags & DZ_MM_GROWSDOWN) || grow_stack(mm, i, at, calls) < 0)
            return -EFAULT;
        return (v = dz_mm_find(mm, at))->prot & access ? 0 : -EACCES;
    }
    /* the processor can read pages that are writable or executable */
    const int allowed = v->prot | (v->prot ? PROT_READ : 0);
    return allowed & access ? 1 : -EACCES;
}
