/* SPDX-License-Identifier: MIT
 *
 * mm_row.c - an address space as bytes, and back.
 *
 * Numbers are little-endian. A head of 104 bytes, then 56 bytes for each VMA; the format is in
 * docs/design/mm.md. Input is not trusted: each number is checked against invariants 1, 2 and 4 of
 * mm_vma.c, and the sums (3) are recomputed.
 */
#include "mm/mm_int.h"

enum {
    ROW_MAGIC = 0x31766d6d, /* "mmv1" */
    HEAD_BYTES = 8 + 8 * 12,
    VMA_BYTES = 56,
};

static void put(struct dz_buf *to, uint64_t n, size_t bytes)
{
    uint8_t b[8];
    for (size_t i = 0; i < bytes; i++)
        b[i] = (uint8_t)(n >> (8 * i));
    dz_buf_add(to, b, bytes);
}

static uint64_t get(const uint8_t **at, size_t bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n |= (uint64_t)(*at)[i] << (8 * i);
    *at += bytes;
    return n;
}

void dz_mm_encode(const struct dz_mm *mm, struct dz_buf *to)
{
    put(to, ROW_MAGIC, 4);
    put(to, mm->vmas.n, 4);
    const uint64_t head[12] = {
        mm->limits.as, mm->limits.data, mm->limits.stack, mm->limits.vmas, mm->mmap_base,
        mm->stack_top, mm->brk_start,   mm->brk,          mm->data_size, /* the rest: 0, for a later
                                                                            version */
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(head); i++)
        put(to, head[i], 8);
    for (size_t i = 0; i < mm->vmas.n; i++) {
        const struct dz_mm_vma *v = &mm->vmas.p[i];
        put(to, v->start, 8);
        put(to, v->end, 8);
        put(to, v->back.id, 8);
        put(to, v->back.offset, 8);
        put(to, v->back.generation, 4);
        put(to, v->back.kind, 4);
        put(to, v->flags, 4);
        put(to, v->prot, 1);
        put(to, v->may, 1);
        put(to, 0, 8);
        put(to, 0, 2);
    }
}

static bool head_is_sound(const struct dz_mm *mm, uint64_t vmas_limit)
{
    const uint64_t max = DZ_MM_ADDRESS_MAX;
    if (vmas_limit > DZ_MM_VMAS_MAX)
        return false;
    if (!dz_mm_aligned(mm->mmap_base) || mm->mmap_base > max ||
        mm->mmap_base <= DZ_MM_ADDRESS_MIN || mm->stack_top > max ||
        !dz_mm_aligned(mm->stack_top) || mm->data_size > max)
        return false;
    return dz_mm_aligned(mm->brk_start) && mm->brk_start <= mm->brk && mm->brk <= max;
}

static bool vma_is_sound(const struct dz_mm *mm, const struct dz_mm_vma *v, uint64_t kind)
{
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    uint64_t end_offset;
    if (v->start >= v->end || !dz_mm_aligned(v->start) || !dz_mm_aligned(v->end) ||
        v->start < DZ_MM_ADDRESS_MIN || v->end > DZ_MM_ADDRESS_MAX ||
        dz_mm_is_reserved(mm, v->start, v->end))
        return false;
    if ((v->prot & ~v->may) || (v->may & ~all) || (v->flags & ~(uint32_t)DZ_MM_FLAGS_ALL))
        return false;
    if (kind > DZ_MM_PACK || !dz_mm_aligned(v->back.offset) ||
        __builtin_add_overflow(v->back.offset, v->end - v->start, &end_offset))
        return false;
    const bool shared = v->flags & DZ_MM_SHARED, grows = v->flags & DZ_MM_GROWSDOWN;
    if (kind == DZ_MM_ANON)
        return !shared && !(v->flags & DZ_MM_CHARGED) && v->back.id == 0 &&
               v->back.generation == 0 && v->back.offset == 0;
    /* all sandboxes share the image's pack, so it is never writable */
    return !grows && !(v->flags & DZ_MM_WIPEONFORK) &&
           (kind != DZ_MM_PACK || !shared || !(v->may & PROT_WRITE));
}

static int get_vma(struct dz_mm *mm, const uint8_t **at, struct dz_err *err)
{
    struct dz_mm_vma v = {.start = get(at, 8), .end = 0};
    v.end = get(at, 8);
    v.back.id = get(at, 8);
    v.back.offset = get(at, 8);
    v.back.generation = (uint32_t)get(at, 4);
    const uint64_t kind = get(at, 4);
    v.back.kind = (enum dz_mm_kind)(kind <= DZ_MM_PACK ? kind : 0);
    v.flags = (uint32_t)get(at, 4);
    v.prot = (uint8_t)get(at, 1);
    v.may = (uint8_t)get(at, 1);
    const uint64_t rest = get(at, 8) | get(at, 2);
    const size_t count = mm->vmas.n;
    if (rest != 0 || !vma_is_sound(mm, &v, kind) ||
        (count > 0 && mm->vmas.p[count - 1].end > v.start))
        return dz_fail(err, DZ_ECORRUPT, "VMA %zu of a saved address space is not valid", count);
    dz_mm_insert(mm, &v);
    if (mm->vmas.n != count + 1)
        return dz_fail(err, DZ_ECORRUPT,
                       "VMA %zu of a saved address space belongs to the one below", count);
    return 0;
}

int dz_mm_decode(const uint8_t *bytes, size_t size, const struct dz_mm_range *reserved,
                 uint32_t reserved_count, struct dz_mm *ret_mm, struct dz_err *err)
{
    struct dz_mm_limits limits = {0};
    struct dz_mm mm;
    const uint8_t *at = bytes;
    if (size < HEAD_BYTES || (size - HEAD_BYTES) % VMA_BYTES != 0 || size > DZ_MM_ROW_MAX)
        return dz_fail(err, DZ_ECORRUPT, "a saved address space has %zu bytes", size);
    dz_mm_init(&mm, 0, &limits, reserved, reserved_count);
    const bool known = get(&at, 4) == ROW_MAGIC;
    const uint64_t count = get(&at, 4);
    mm.limits.as = get(&at, 8);
    mm.limits.data = get(&at, 8);
    mm.limits.stack = get(&at, 8);
    const uint64_t vmas_limit = get(&at, 8);
    mm.limits.vmas = (uint32_t)vmas_limit;
    mm.mmap_base = get(&at, 8);
    mm.stack_top = get(&at, 8);
    mm.brk_start = get(&at, 8);
    mm.brk = get(&at, 8);
    mm.data_size = get(&at, 8);
    const uint64_t rest = get(&at, 8) | get(&at, 8) | get(&at, 8);
    if (!known || rest != 0 || count != (size - HEAD_BYTES) / VMA_BYTES ||
        count > DZ_MM_VMAS_MAX + 1 || !head_is_sound(&mm, vmas_limit))
        return dz_fail(err, DZ_ECORRUPT, "the head of a saved address space is not valid");
    if (dz_vec_reserve(&mm.vmas, (size_t)count) != 0)
        return dz_fail(err, DZ_ENOMEM, "no memory for an address space of %zu VMAs", (size_t)count);
    for (uint64_t i = 0; i < count; i++) {
        int rc = get_vma(&mm, &at, err);
        if (rc < 0) {
            dz_mm_release(&mm);
            return rc;
        }
    }
    *ret_mm = mm;
    return 0;
}
