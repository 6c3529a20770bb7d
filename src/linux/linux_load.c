/* SPDX-License-Identifier: MIT
 *
 * linux_load.c - exec: maps the segments of a program and builds its first stack.
 *
 * The stack as the program finds it, from high to low addresses:
 *
 *     stack_top    8 zero bytes
 *                  path, strings of the environment, strings of the arguments
 *                  "x86_64", 16 random bytes
 *                  auxiliary vector, its last pair AT_NULL
 *                  pointers to the environment, 0
 *                  pointers to the arguments, 0
 *     sp           number of the arguments; sp is a multiple of 16
 */
#include "linux/linux.h"

#include "linux/linux_vdso.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
    ZEROS_MAX = 2 * DZ_ELF_SEGMENTS_MAX, /* of a program and its interpreter */
    TOP_BYTES = 8,                       /* zeros above the strings */
    CLOCK_TICKS = 100,                   /* per second, for times(2) */
};
static const char PLATFORM[] = "x86_64";
static const int ALL = PROT_READ | PROT_WRITE | PROT_EXEC;

static uint64_t page_down(uint64_t n)
{
    return n & ~(uint64_t)(DZ_MM_PAGE - 1);
}
static uint64_t page_up(uint64_t n)
{
    return page_down(n + DZ_MM_PAGE - 1);
}

/* ---- segments ---------------------------------------------------------------------- */

struct lay {
    struct dz_mm *mm;
    struct dz_mm_calls *calls;
    struct dz_linux_start *start;
};
/* The load offset of each file, and the address of the vDSO's image. */
struct places {
    uint64_t program, interp, vdso;
};

/* A range that is mapped again is no longer the end of an earlier file. */
static void forget_zeros(struct dz_linux_zeros *zeros, uint64_t start, uint64_t end)
{
    size_t kept = 0;
    for (size_t i = 0; i < zeros->n; i++) {
        if (zeros->p[i].end <= start || zeros->p[i].start >= end)
            zeros->p[kept++] = zeros->p[i];
    }
    zeros->n = kept;
}

static int map(struct lay *l, const struct dz_mm_map *m)
{
    forget_zeros(&l->start->zeros, m->at, m->at + m->size);
    const int64_t rc = dz_mm_mmap(l->mm, m, l->calls);
    return rc < 0 ? (int)rc : 0;
}

/* One segment, `bias` above the addresses of its file. */
static int map_segment(struct lay *l, const struct dz_linux_file *file,
                       const struct dz_elf_segment *s, uint64_t bias, int fixed)
{
    const uint64_t start = s->start + bias, file_end = start + s->file_size;
    uint64_t zeros = page_down(start); /* start of the anonymous memory */
    int rc = 0;
    if (s->file_size > 0) {
        struct dz_mm_map m = {.at = zeros,
                              .size = page_up(file_end) - zeros,
                              .prot = s->prot,
                              .flags = MAP_PRIVATE | fixed,
                              .may = (uint8_t)ALL,
                              .back = file->back};
        m.back.offset += page_down(s->offset);
        rc = map(l, &m);
        zeros = page_up(file_end);
        const struct dz_mm_range tail = {file_end, zeros};
        if (rc == 0 && s->size > s->file_size && tail.start < tail.end && (s->prot & PROT_WRITE))
            rc = dz_vec_push(&l->start->zeros, tail) == 0 ? 0 : -ENOMEM;
    }
    const uint64_t end = page_up(start + s->size);
    if (rc == 0 && end > zeros) {
        const struct dz_mm_map m = {
            .at = zeros,
            .size = end - zeros,
            .prot = PROT_READ | PROT_WRITE | (s->prot & PROT_EXEC),
            .flags = MAP_PRIVATE | MAP_ANONYMOUS | (s->file_size > 0 ? MAP_FIXED : fixed),
        };
        rc = map(l, &m);
    }
    return rc;
}

/* The lowest page for a file that can be loaded anywhere: at `hint`, or as high as there is
 * room. */
static int place(const struct dz_mm *mm, const struct dz_elf *elf, uint64_t hint, uint64_t *ret_at)
{
    const uint64_t size = elf->high - elf->low;
    if (hint) {
        *ret_at = hint & ~(elf->align - 1);
        return *ret_at && size <= DZ_MM_ADDRESS_MAX - *ret_at ? 0 : -ENOMEM;
    }
    const uint64_t room = size + elf->align - DZ_MM_PAGE; /* neither can overflow 64 bits */
    const uint64_t at = room <= DZ_MM_ADDRESS_MAX ? dz_mm_place(mm, 0, room, 0) : 0;
    if (!at)
        return -ENOMEM;
    /* The alignment applies to the address less the file's own; the lowest page may not be
     * aligned. */
    *ret_at = at + ((elf->low - at) & (elf->align - 1));
    return 0;
}

static int map_file(struct lay *l, const struct dz_elf *elf, const struct dz_linux_file *file,
                    uint64_t hint, uint64_t *ret_bias)
{
    uint64_t bias = 0;
    if (elf->moves) {
        uint64_t at = 0;
        const int rc = place(l->mm, elf, hint, &at);
        if (rc < 0)
            return rc;
        bias = at - elf->low;
    }
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const int fixed = i == 0 ? MAP_FIXED | MAP_FIXED_NOREPLACE : MAP_FIXED;
        const int rc = map_segment(l, file, &elf->segments[i], bias, fixed);
        if (rc < 0)
            return rc;
    }
    *ret_bias = bias;
    return 0;
}

static void set_brk(struct dz_mm *mm, const struct dz_linux_program *program, uint64_t bias)
{
    const struct dz_elf *elf = program->elf;
    uint64_t start = 0, file_end = 0;
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const struct dz_elf_segment *s = &elf->segments[i];
        start = s->start > start ? s->start : start;
        file_end = s->start + s->file_size > file_end ? s->start + s->file_size : file_end;
    }
    /* A static program that can be moved is placed among the mappings, where a heap cannot grow. */
    const bool apart = elf->moves && !program->interp;
    dz_mm_set_brk(mm, apart ? program->base : elf->high + bias,
                  file_end > start ? file_end - start : 0, program->seed);
}

/* The page of data and the image of the vDSO, one after the other; *ret_image: where that is. */
static int map_vdso(struct lay *l, const struct dz_linux_program *p, uint64_t *ret_image)
{
    const uint64_t at = p->vdso_size ? dz_mm_place(l->mm, 0, p->vdso_size, 0) : 0;
    if (!at)
        return p->vdso_size ? -ENOMEM : 0;
    struct dz_mm_map m = {.at = at,
                          .size = DZ_VDSO_IMAGE_AT,
                          .prot = PROT_READ,
                          .flags = MAP_PRIVATE | MAP_FIXED,
                          .may = PROT_READ,
                          .back = p->vdso};
    int rc = map(l, &m);
    m.at += m.size;
    m.back.offset += m.size;
    m.size = p->vdso_size - m.size;
    m.prot = m.may = PROT_READ | PROT_EXEC;
    rc = rc == 0 ? map(l, &m) : rc;
    *ret_image = m.at;
    return rc;
}

/* ---- the stack --------------------------------------------------------------------- */

struct stack {
    uint64_t sp;
    uint8_t *bytes; /* from sp on */
};

static void put_word(struct stack *s, uint64_t *at, uint64_t word)
{
    memcpy(s->bytes + (*at - s->sp), &word, sizeof word);
    *at += sizeof word;
}
static void put_bytes(struct stack *s, uint64_t at, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(s->bytes + (at - s->sp), bytes, n);
}
/* Pointers to consecutive strings from `string` on, and 0. */
static void put_pointers(struct stack *s, uint64_t *at, const struct dz_strings *strings,
                         uint64_t string)
{
    const char *p = strings->bytes;
    for (uint32_t i = 0; i < strings->count; i++) {
        const size_t n = strlen(p) + 1;
        put_word(s, at, string);
        string += n;
        p += n;
    }
    put_word(s, at, 0);
}

static int check_strings(const struct dz_strings *strings)
{
    size_t used = 0;
    for (uint32_t i = 0; i < strings->count; i++) {
        assert(used < strings->size);
        const size_t n = strnlen(strings->bytes + used, strings->size - used) + 1;
        assert(n <= strings->size - used);
        if (n > DZ_LINUX_STRING_MAX)
            return -E2BIG;
        used += n;
    }
    assert(used == strings->size);
    return 0;
}

/* The auxiliary vector in Linux's order; returns the number of pairs. */
static size_t make_aux(const struct dz_linux_program *p, const struct places *at,
                       Elf64_auxv_t aux[static DZ_LINUX_AUX_MAX])
{
    const uint64_t bias = at->program;
    size_t n = 0;
#define AUX(type, value) (aux[n++] = (Elf64_auxv_t){.a_type = (type), .a_un.a_val = (value)})
    if (at->vdso)
        AUX(AT_SYSINFO_EHDR, at->vdso);
    if (p->aux.signal_size)
        AUX(AT_MINSIGSTKSZ, p->aux.signal_size);
    AUX(AT_HWCAP, p->aux.hwcap);
    AUX(AT_PAGESZ, DZ_MM_PAGE);
    AUX(AT_CLKTCK, CLOCK_TICKS);
    AUX(AT_PHDR, p->elf->heads ? p->elf->heads + bias : 0);
    AUX(AT_PHENT, sizeof(Elf64_Phdr));
    AUX(AT_PHNUM, p->elf->head_count);
    AUX(AT_BASE, p->interp ? at->interp : 0);
    AUX(AT_FLAGS, 0);
    AUX(AT_ENTRY, p->elf->entry + bias);
    AUX(AT_UID, p->aux.uid);
    AUX(AT_EUID, p->aux.euid);
    AUX(AT_GID, p->aux.gid);
    AUX(AT_EGID, p->aux.egid);
    AUX(AT_SECURE, p->aux.secure);
    AUX(AT_RANDOM, 0); /* put_stack() fills in this 0 and the next two */
    AUX(AT_HWCAP2, p->aux.hwcap2);
    AUX(AT_EXECFN, 0);
    AUX(AT_PLATFORM, 0);
    AUX(AT_NULL, 0);
#undef AUX
    assert(n <= DZ_LINUX_AUX_MAX);
    return n;
}

static int map_stack(struct lay *l, uint64_t sp, bool exec)
{
    struct dz_mm *mm = l->mm;
    const uint64_t used = page_up(mm->stack_top - sp);
    const uint64_t most = page_down(mm->limits.stack);
    uint64_t size = used + DZ_LINUX_STACK_SPARE;
    size = size > most ? most : size;
    size = size < used ? used : size;
    const struct dz_mm_map m = {
        .at = mm->stack_top - size,
        .size = size,
        .prot = PROT_READ | PROT_WRITE | (exec ? PROT_EXEC : 0),
        .flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED | MAP_FIXED_NOREPLACE,
    };
    return map(l, &m);
}

static int make_stack(struct lay *l, const struct dz_linux_program *p, const struct places *places)
{
    static const struct dz_strings one_empty = {"", 1, 1}; /* every program gets an argv[0] */
    const struct dz_strings *argv = p->argv.count > 0 ? &p->argv : &one_empty;
    const size_t path_size = strlen(p->path) + 1;
    if (check_strings(argv) < 0 || check_strings(&p->env) < 0)
        return -E2BIG;
    uint64_t most = l->mm->limits.stack / 4;
    most = most > DZ_LINUX_STRINGS_MAX ? DZ_LINUX_STRINGS_MAX : most;
    most = most < DZ_LINUX_STRINGS_MIN ? DZ_LINUX_STRINGS_MIN : most;
    const uint64_t pointers = ((uint64_t)argv->count + p->env.count) * sizeof(uint64_t);
    if (argv->size + p->env.size + path_size + pointers > most)
        return -E2BIG;

    Elf64_auxv_t aux[DZ_LINUX_AUX_MAX];
    const size_t aux_count = make_aux(p, places, aux);
    const uint64_t top = l->mm->stack_top, path = top - TOP_BYTES - path_size;
    const uint64_t env = path - p->env.size, args = env - argv->size;
    const uint64_t platform = (args & ~UINT64_C(15)) - 16, random = platform - 16;
    struct stack s = {.sp = (random - 3 * sizeof(uint64_t) - pointers - aux_count * sizeof *aux) &
                            ~UINT64_C(15)};
    s.bytes = dz_zalloc(top - s.sp);
    if (!s.bytes)
        return -ENOMEM;
    for (size_t i = 0; i < aux_count; i++) {
        const uint64_t type = aux[i].a_type;
        if (type == AT_RANDOM || type == AT_EXECFN || type == AT_PLATFORM)
            aux[i].a_un.a_val = type == AT_RANDOM ? random : type == AT_EXECFN ? path : platform;
    }
    uint64_t at = s.sp;
    put_word(&s, &at, argv->count);
    put_pointers(&s, &at, argv, args);
    put_pointers(&s, &at, &p->env, env);
    put_bytes(&s, at, aux, aux_count * sizeof *aux);
    memcpy(l->start->aux, aux, aux_count * sizeof *aux);
    l->start->aux_count = (uint32_t)aux_count;
    put_bytes(&s, random, p->aux.random, sizeof p->aux.random);
    put_bytes(&s, platform, PLATFORM, sizeof PLATFORM);
    put_bytes(&s, args, argv->bytes, argv->size);
    put_bytes(&s, env, p->env.bytes, p->env.size);
    put_bytes(&s, path, p->path, path_size);
    l->start->sp = s.sp;
    l->start->stack = s.bytes;
    l->start->stack_size = top - s.sp;
    return map_stack(l, s.sp, p->elf->exec_stack);
}

/* ---- exec -------------------------------------------------------------------------- */

void dz_linux_start_release(struct dz_linux_start *start)
{
    dz_vec_release(&start->zeros);
    dz_free(start->stack);
    *start = (struct dz_linux_start){0};
}

int dz_linux_load(const struct dz_linux_program *program, struct dz_mm *mm,
                  struct dz_mm_calls *calls, struct dz_linux_start *ret_start)
{
    assert(mm->vmas.n == 0 && program->base % DZ_MM_PAGE == 0);
    struct dz_linux_start start = {.zeros = DZ_VEC_INIT(ZEROS_MAX)};
    struct lay l = {mm, calls, &start};
    struct places at = {0, 0, 0};
    int rc = map_file(&l, program->elf, program->elf_file, program->interp ? program->base : 0,
                      &at.program);
    if (rc == 0 && program->interp)
        rc = map_file(&l, program->interp, program->interp_file, 0, &at.interp);
    if (rc == 0)
        rc = map_vdso(&l, program, &at.vdso);
    if (rc == 0) {
        set_brk(mm, program, at.program);
        rc = make_stack(&l, program, &at);
    }
    if (rc < 0) {
        dz_linux_start_release(&start);
        return rc;
    }
    start.entry =
        program->interp ? program->interp->entry + at.interp : program->elf->entry + at.program;
    *ret_start = start;
    return 0;
}
