/* SPDX-License-Identifier: MIT
 *
 * Input: a saved address space (docs/design/mm.md). It is refused, or it is sound: then it is
 * written as it was read, and every operation on each of its VMAs keeps it sound. */
#include "mm/mm.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct dz_mm *mm, struct dz_mm_calls *calls, uint64_t at, uint64_t bytes)
{
    const struct dz_mm_map anon = {.at = at,
                                   .size = DZ_MM_PAGE,
                                   .prot = PROT_READ | PROT_WRITE,
                                   .flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED};
    const struct dz_mm_remap grow = {at, bytes, bytes + DZ_MM_PAGE, MREMAP_MAYMOVE, 0};
    (void)dz_mm_madvise(mm, at, DZ_MM_PAGE, MADV_DONTFORK, calls);
    (void)dz_mm_fault(mm, at - 1, PROT_READ, calls);
    (void)dz_mm_mremap(mm, &grow, calls);
    (void)dz_mm_mprotect(mm, at, bytes, PROT_READ, calls);
    (void)dz_mm_mmap(mm, &anon, calls);
    (void)dz_mm_brk(mm, mm->brk + DZ_MM_PAGE, calls);
    dz_mm_assert(mm);
    (void)dz_mm_munmap(mm, at, bytes, calls);
    dz_mm_assert(mm);
    dz_vec_reset(calls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct dz_mm_range ours = {UINT64_C(0x70000000), UINT64_C(0x70100000)};
    struct dz_mm_calls calls = DZ_VEC_INIT(DZ_MM_CALLS_MAX);
    struct dz_buf again = DZ_BUF_INIT(DZ_MM_ROW_MAX);
    struct dz_mm mm, copy;
    struct dz_err err;
    if (dz_mm_decode(data, size, &ours, 1, &mm, &err) < 0)
        return 0;
    dz_mm_assert(&mm);
    dz_mm_encode(&mm, &again);
    assert(!again.err && again.len == size && memcmp(again.p, data, size) == 0);
    if (dz_mm_fork(&mm, &copy) == 0) {
        dz_mm_assert(&copy);
        dz_mm_release(&copy);
    }
    uint64_t at = 0;
    for (int i = 0; i < 64; i++) {
        const struct dz_mm_vma *v = dz_mm_find(&mm, at);
        if (!v)
            break;
        const uint64_t start = v->start, bytes = v->end - v->start;
        at = v->end;
        use(&mm, &calls, start, bytes);
    }
    dz_buf_release(&again);
    dz_vec_release(&calls);
    dz_mm_release(&mm);
    return 0;
}
