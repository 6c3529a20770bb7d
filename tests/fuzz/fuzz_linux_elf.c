/* SPDX-License-Identifier: MIT
 *
 * Input: an ELF file, which is both the program and its interpreter. It is refused, or it is
 * loaded: then the address space is sound and the bytes to write lie in it. */
#include "linux/linux.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bytes {
    const uint8_t *p;
    size_t size;
};

static int64_t read_bytes(void *arg, uint64_t offset, void *to, size_t n)
{
    const struct bytes *b = arg;
    if (offset >= b->size)
        return 0;
    n = n < b->size - offset ? n : b->size - offset;
    memcpy(to, b->p + offset, n);
    return (int64_t)n;
}

static void load(const struct dz_linux_program *program)
{
    static const struct dz_mm_range ours = {UINT64_C(0x600000000000), UINT64_C(0x600014000000)};
    static const struct dz_mm_limits limits = {UINT64_MAX, UINT64_MAX, 8 << 20, DZ_MM_VMAS_MAX};
    struct dz_mm_calls calls = DZ_VEC_INIT(DZ_MM_CALLS_MAX);
    struct dz_linux_start start = {0};
    struct dz_mm mm;
    dz_mm_init(&mm, program->seed, &limits, &ours, 1);
    const int rc = dz_linux_load(program, &mm, &calls, &start);
    dz_mm_assert(&mm);
    if (rc == 0) {
        assert(start.sp % 16 == 0 && start.sp + start.stack_size == mm.stack_top);
        for (size_t i = 0; i < start.zeros.n; i++) {
            const struct dz_mm_range *z = &start.zeros.p[i];
            const struct dz_mm_vma *v = dz_mm_find(&mm, z->start);
            assert(z->start < z->end && v && v->start <= z->start && v->end >= z->end);
        }
    }
    dz_linux_start_release(&start);
    dz_vec_release(&calls);
    dz_mm_release(&mm);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {data, size};
    const struct dz_linux_file file = {
        .back = {.kind = DZ_MM_FILE, .id = 3}, .read = read_bytes, .arg = &b};
    struct dz_elf elf;
    if (dz_elf_read(&file, &elf) < 0)
        return 0;
    struct dz_linux_program program = {.elf = &elf,
                                       .elf_file = &file,
                                       .interp_file = &file,
                                       .seed = 7,
                                       .base = dz_mm_program_base(7),
                                       .path = "/x",
                                       .argv = {"x", 2, 1}};
    load(&program);
    program.interp = &elf;
    load(&program);
    return 0;
}
