/* SPDX-License-Identifier: MIT
 *
 * linux_cpu.c - features and extended registers, as bytes (docs/format/linux-state.md).
 *
 *     features:   u64 AT_HWCAP, AT_HWCAP2, XCR0; { u32 leaf, subleaf, eax, ebx, ecx, edx }*
 *     registers:  u64 components in use; 416 bytes of FXSAVE; { u32 number, u32 size, bytes }*
 *
 * Whole registers of cpuid are saved, but only named bits are compared: those that a program can
 * base a decision on. A later doze may compare more of them.
 *
 * With a baseline, features above it are neither shown (/proc/cpuinfo) nor saved, and variables of
 * the environment tell the common libraries not to use them. cpuid itself cannot be intercepted
 * everywhere, so a program that ignores these variables may use them all the same. Registers that
 * it holds at the sleep are saved and demanded, whatever the baseline says.
 */
#include "linux/linux_cpu.h"

#include "linux/linux_run_int.h"

#include <cpuid.h>

/* ---- features --------------------------------------------------------------------------- */

enum reg {
    EAX,
    EBX,
    ECX,
    EDX,
};
struct leaf {
    uint32_t leaf, subleaf, regs[4];
};
_Static_assert(sizeof(struct leaf) == 24, "as in the file");

/* The lowest baseline that has the feature. */
enum rank {
    ALWAYS = DZ_LINUX_CPU_HOST, /* no baseline hides it: programs cannot be told not to use it */
    V2 = DZ_LINUX_CPU_V2,
    V3 = DZ_LINUX_CPU_V3,
    V4 = DZ_LINUX_CPU_V4,
    BEYOND, /* every baseline hides it */
};
/* Names as in /proc/cpuinfo. */
static const struct {
    uint32_t leaf, subleaf;
    enum reg reg;
    uint32_t bit;
    const char *name;
    enum rank rank;
} features[] = {
    {1, 0, ECX, 0, "pni", V2},
    {1, 0, ECX, 1, "pclmulqdq", V3},
    {1, 0, ECX, 9, "ssse3", V2},
    {1, 0, ECX, 12, "fma", V3},
    {1, 0, ECX, 13, "cx16", V2},
    {1, 0, ECX, 19, "sse4_1", V2},
    {1, 0, ECX, 20, "sse4_2", V2},
    {1, 0, ECX, 22, "movbe", V3},
    {1, 0, ECX, 23, "popcnt", V2},
    {1, 0, ECX, 25, "aes", V3},
    {1, 0, ECX, 26, "xsave", ALWAYS},
    {1, 0, ECX, 27, "osxsave", ALWAYS},
    {1, 0, ECX, 28, "avx", V3},
    {1, 0, ECX, 29, "f16c", V3},
    {1, 0, ECX, 30, "rdrand", V3},
    {1, 0, EDX, 0, "fpu", ALWAYS},
    {1, 0, EDX, 4, "tsc", ALWAYS},
    {1, 0, EDX, 8, "cx8", ALWAYS},
    {1, 0, EDX, 15, "cmov", ALWAYS},
    {1, 0, EDX, 19, "clflush", ALWAYS},
    {1, 0, EDX, 23, "mmx", ALWAYS},
    {1, 0, EDX, 24, "fxsr", ALWAYS},
    {1, 0, EDX, 25, "sse", ALWAYS},
    {1, 0, EDX, 26, "sse2", ALWAYS},
    {7, 0, EBX, 0, "fsgsbase", ALWAYS},
    {7, 0, EBX, 3, "bmi1", V3},
    {7, 0, EBX, 4, "hle", BEYOND},
    {7, 0, EBX, 5, "avx2", V3},
    {7, 0, EBX, 8, "bmi2", V3},
    {7, 0, EBX, 9, "erms", BEYOND},
    {7, 0, EBX, 11, "rtm", BEYOND},
    {7, 0, EBX, 16, "avx512f", V4},
    {7, 0, EBX, 17, "avx512dq", V4},
    {7, 0, EBX, 18, "rdseed", BEYOND},
    {7, 0, EBX, 19, "adx", BEYOND},
    {7, 0, EBX, 21, "avx512ifma", BEYOND},
    {7, 0, EBX, 23, "clflushopt", BEYOND},
    {7, 0, EBX, 24, "clwb", BEYOND},
    {7, 0, EBX, 28, "avx512cd", V4},
    {7, 0, EBX, 29, "sha_ni", BEYOND},
    {7, 0, EBX, 30, "avx512bw", V4},
    {7, 0, EBX, 31, "avx512vl", V4},
    {7, 0, ECX, 1, "avx512vbmi", BEYOND},
    {7, 0, ECX, 4, "ospke", BEYOND},
    {7, 0, ECX, 6, "avx512_vbmi2", BEYOND},
    {7, 0, ECX, 8, "gfni", BEYOND},
    {7, 0, ECX, 9, "vaes", BEYOND},
    {7, 0, ECX, 10, "vpclmulqdq", BEYOND},
    {7, 0, ECX, 11, "avx512_vnni", BEYOND},
    {7, 0, ECX, 12, "avx512_bitalg", BEYOND},
    {7, 0, ECX, 14, "avx512_vpopcntdq", BEYOND},
    {7, 0, ECX, 22, "rdpid", BEYOND},
    {7, 0, ECX, 27, "movdiri", BEYOND},
    {7, 0, ECX, 28, "movdir64b", BEYOND},
    {7, 0, EDX, 2, "avx512_4vnniw", BEYOND},
    {7, 0, EDX, 3, "avx512_4fmaps", BEYOND},
    {7, 0, EDX, 4, "fsrm", BEYOND},
    {7, 0, EDX, 8, "avx512_vp2intersect", BEYOND},
    {7, 0, EDX, 14, "serialize", BEYOND},
    {7, 0, EDX, 22, "amx_bf16", BEYOND},
    {7, 0, EDX, 23, "avx512_fp16", BEYOND},
    {7, 0, EDX, 24, "amx_tile", BEYOND},
    {7, 0, EDX, 25, "amx_int8", BEYOND},
    {7, 1, EAX, 0, "sha512", BEYOND},
    {7, 1, EAX, 1, "sm3", BEYOND},
    {7, 1, EAX, 2, "sm4", BEYOND},
    {7, 1, EAX, 4, "avx_vnni", BEYOND},
    {7, 1, EAX, 5, "avx512_bf16", BEYOND},
    {7, 1, EAX, 10, "fzrm", BEYOND},
    {7, 1, EAX, 11, "fsrs", BEYOND},
    {7, 1, EAX, 12, "fsrc", BEYOND},
    {7, 1, EAX, 21, "amx_fp16", BEYOND},
    {7, 1, EAX, 23, "avx_ifma", BEYOND},
    {7, 1, EDX, 4, "avx_vnni_int8", BEYOND},
    {7, 1, EDX, 5, "avx_ne_convert", BEYOND},
    {7, 1, EDX, 8, "amx_complex", BEYOND},
    {7, 1, EDX, 10, "avx_vnni_int16", BEYOND},
    {0xd, 1, EAX, 0, "xsaveopt", ALWAYS},
    {0xd, 1, EAX, 1, "xsavec", ALWAYS},
    {0xd, 1, EAX, 2, "xgetbv1", ALWAYS},
    {0x80000001, 0, ECX, 0, "lahf_lm", V2},
    {0x80000001, 0, ECX, 5, "abm", V3},
    {0x80000001, 0, ECX, 6, "sse4a", BEYOND},
    {0x80000001, 0, ECX, 7, "misalignsse", BEYOND},
    {0x80000001, 0, ECX, 8, "3dnowprefetch", ALWAYS},
    {0x80000001, 0, ECX, 11, "xop", BEYOND},
    {0x80000001, 0, ECX, 16, "fma4", BEYOND},
    {0x80000001, 0, ECX, 21, "tbm", BEYOND},
    {0x80000001, 0, EDX, 27, "rdtscp", ALWAYS},
    {0x80000008, 0, EBX, 0, "clzero", BEYOND},
    {0x80000008, 0, EBX, 4, "rdpru", BEYOND},
};
static const struct {
    uint32_t leaf, subleaf;
} leaves[] = {{1, 0}, {7, 0}, {7, 1}, {0xd, 1}, {0x80000001, 0}, {0x80000008, 0}};

/* In a virtual machine cpuid takes tens of microseconds, so each process asks once, and a zygote
 * asks for its cells. */
enum {
    XSAVE_LEAF = 0xd, /* subleaf: a component; eax, ebx: its size and place */
    COMPONENTS = 63,
};
static struct {
    bool known;
    struct leaf leaves[DZ_ARRAY_LEN(leaves)];
    uint32_t size[COMPONENTS], at[COMPONENTS]; /* 0: the processor does not have the component */
    uint64_t xcr0;
} host_cpu;

static struct leaf ask(uint32_t leaf, uint32_t subleaf)
{
    struct leaf l = {.leaf = leaf, .subleaf = subleaf};
    if (!__get_cpuid_count(leaf, subleaf, &l.regs[EAX], &l.regs[EBX], &l.regs[ECX], &l.regs[EDX]))
        memset(l.regs, 0, sizeof l.regs);
    return l;
}

/* A leaf that is not in the table: zeros. */
static struct leaf leaf_of_host(uint32_t leaf, uint32_t subleaf)
{
    dz_linux_cpu_ask();
    for (size_t i = 0; i < DZ_ARRAY_LEN(leaves); i++)
        if (leaves[i].leaf == leaf && leaves[i].subleaf == subleaf)
            return host_cpu.leaves[i];
    return (struct leaf){.leaf = leaf, .subleaf = subleaf};
}

/* ---- the baseline ------------------------------------------------------------------------ */

static enum dz_linux_cpu baseline; /* of this process and its forks */

static bool is_hidden(enum rank rank)
{
    return baseline != DZ_LINUX_CPU_HOST && (int)rank > (int)baseline;
}

static const char *const levels[] = {"host", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

int dz_linux_baseline(const char *level, struct dz_err *err)
{
    size_t n = 0;
    while (n < DZ_ARRAY_LEN(levels) && strcmp(level, levels[n]) != 0)
        n++;
    if (n == DZ_ARRAY_LEN(levels))
        return dz_fail(
            err, DZ_EINVAL,
            "\"%s\" is no baseline of processors: host, x86-64-v2, x86-64-v3 or x86-64-v4", level);
    for (size_t i = 0; n != DZ_LINUX_CPU_HOST && i < DZ_ARRAY_LEN(features); i++) {
        const struct leaf is = leaf_of_host(features[i].leaf, features[i].subleaf);
        if (features[i].rank <= n && features[i].rank != ALWAYS &&
            !(is.regs[features[i].reg] >> features[i].bit & 1))
            return dz_fail(
                err, DZ_EUNSUPPORTED,
                "the baseline %s needs \"%s\" of the processor, which this host does not have: choose a lower one",
                level, features[i].name);
    }
    baseline = (enum dz_linux_cpu)n;
    return 0;
}
enum dz_linux_cpu dz_linux_baseline_get(void)
{
    return baseline;
}
void dz_linux_baseline_told(uint32_t is)
{
    baseline = is < DZ_ARRAY_LEN(levels) ? (enum dz_linux_cpu)is : DZ_LINUX_CPU_HOST;
}

/* The host's registers without features above the baseline. */
static struct leaf leaf_shown(uint32_t leaf, uint32_t subleaf)
{
    struct leaf l = leaf_of_host(leaf, subleaf);
    for (size_t i = 0; i < DZ_ARRAY_LEN(features); i++)
        if (features[i].leaf == leaf && features[i].subleaf == subleaf &&
            is_hidden(features[i].rank))
            l.regs[features[i].reg] &= ~(UINT32_C(1) << features[i].bit);
    return l;
}

void dz_linux_cpuinfo_hide(char *text)
{
    char *flags = baseline == DZ_LINUX_CPU_HOST ? NULL : strstr(text, "\nflags"), *word, *to;
    word = flags ? strchr(flags, ':') : NULL;
    if (!word || !strchr(word, '\n'))
        return;
    for (to = ++word; *word != '\n';) {
        const size_t blank = strspn(word, " "), n = strcspn(word + blank, " \n");
        bool hidden = false;
        for (size_t i = 0; i < DZ_ARRAY_LEN(features) && n > 0; i++)
            hidden = hidden || (is_hidden(features[i].rank) && strlen(features[i].name) == n &&
                                memcmp(word + blank, features[i].name, n) == 0);
        if (!hidden) {
            memmove(to, word, blank + n);
            to += blank + n;
        }
        word += blank + n;
    }
    memmove(to, word, strlen(word) + 1);
}

/* The hidden bits of two registers, as one number of 64 bits. */
static uint64_t hidden_bits(uint32_t leaf, enum reg low, enum reg high)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(features); i++)
        if (features[i].leaf == leaf && features[i].subleaf == 0 && is_hidden(features[i].rank))
            bits |= features[i].reg == low    ? UINT64_C(1) << features[i].bit
                    : features[i].reg == high ? UINT64_C(1) << (features[i].bit + 32)
                                              : 0;
    return bits;
}

void dz_linux_baseline_env(struct dz_buf *to)
{
/* those of each level are those that the level above hides, too, and more */
#define BEYOND_GLIBC "-ERMS,-FSRM,-RTM,-HLE,-FMA4,-XOP,-AVX512_VBMI,-AVX512_VBMI2"
#define V4_GLIBC     ",-AVX512F,-AVX512DQ,-AVX512CD,-AVX512BW,-AVX512VL"
#define V3_GLIBC     ",-AVX,-AVX2,-BMI1,-BMI2,-F16C,-FMA,-LZCNT,-MOVBE"
#define V4_NUMPY     "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
#define V3_NUMPY     "AVX F16C FMA3 AVX2 "
    static const struct {
        const char *glibc, *go, *blas, *numpy;
    } by[] = {
        [DZ_LINUX_CPU_V2] =
            {BEYOND_GLIBC V4_GLIBC V3_GLIBC,
             "cpu.adx=off,cpu.erms=off,cpu.avx2=off,cpu.avx=off,cpu.bmi1=off,cpu.bmi2=off,"
             "cpu.fma=off,cpu.aes=off,cpu.pclmulqdq=off",
             "Nehalem", V3_NUMPY V4_NUMPY},
        [DZ_LINUX_CPU_V3] = {BEYOND_GLIBC V4_GLIBC, "cpu.adx=off,cpu.erms=off", "Haswell",
                             V4_NUMPY},
        [DZ_LINUX_CPU_V4] = {BEYOND_GLIBC, "cpu.adx=off,cpu.erms=off", "SkylakeX",
                             "AVX512_CLX AVX512_CNL AVX512_ICL"},
    };
    if (baseline == DZ_LINUX_CPU_HOST)
        return;
    const struct {
        const char *name, *value;
    } all[] = {{"GLIBC_TUNABLES=glibc.cpu.hwcaps", by[baseline].glibc},
               {"GODEBUG", by[baseline].go},
               {"OPENBLAS_CORETYPE", by[baseline].blas},
               {"NPY_DISABLE_CPU_FEATURES", by[baseline].numpy}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++) {
        dz_buf_addf(to, "%s=%s", all[i].name, all[i].value);
        dz_buf_add(to, "", 1);
    }
    dz_buf_addf(to, "OPENSSL_ia32cap=~0x%llx:~0x%llx", (unsigned long long)hidden_bits(1, EDX, ECX),
                (unsigned long long)hidden_bits(7, EBX, ECX));
    dz_buf_add(to, "", 1);
}

/* ---- saved features ---------------------------------------------------------------------- */

/* The components that the host's kernel has enabled; 0: it has no XSAVE. */
static uint64_t ask_xcr0(uint32_t ecx_of_leaf_1)
{
    uint32_t low, high;
    if (!(ecx_of_leaf_1 >> 27 & 1))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}
static uint64_t xcr0(void)
{
    dz_linux_cpu_ask();
    return host_cpu.xcr0;
}

void dz_linux_cpu_ask(void)
{
    if (host_cpu.known)
        return;
    for (size_t i = 0; i < DZ_ARRAY_LEN(leaves); i++)
        host_cpu.leaves[i] = ask(leaves[i].leaf, leaves[i].subleaf);
    host_cpu.xcr0 = ask_xcr0(host_cpu.leaves[0].regs[ECX]);
    for (uint32_t i = 2; i < COMPONENTS; i++)
        if (host_cpu.xcr0 >> i & 1) {
            const struct leaf l = ask(XSAVE_LEAF, i);
            host_cpu.size[i] = l.regs[EAX];
            host_cpu.at[i] = l.regs[EBX];
        }
    host_cpu.known = true;
}

/* Components of registers above the baseline. */
static uint64_t xcr0_hidden(void)
{
    const uint64_t avx = 1 << 2, avx512 = 7 << 5;
    return baseline == DZ_LINUX_CPU_HOST ? 0
           : baseline == DZ_LINUX_CPU_V2 ? ~UINT64_C(3)
           : baseline == DZ_LINUX_CPU_V3 ? ~(UINT64_C(3) | avx)
                                         : ~(UINT64_C(3) | avx | avx512);
}

void dz_linux_cpu_save(const struct dz_linux *l, struct dz_buf *to)
{
    const struct dz_linux_cpu_needs *n = &l->needs;
    const uint64_t head[3] = {l->hwcap | n->hwcap, l->hwcap2 | n->hwcap2,
                              (xcr0() & ~xcr0_hidden()) | n->xcr0};
    dz_buf_add(to, head, sizeof head);
    for (size_t i = 0; i < DZ_ARRAY_LEN(leaves); i++) {
        struct leaf leaf = leaf_shown(leaves[i].leaf, leaves[i].subleaf);
        for (size_t r = 0; r < DZ_ARRAY_LEN(leaf.regs); r++)
            leaf.regs[r] |= n->regs[i][r];
        dz_buf_add(to, &leaf, sizeof leaf);
    }
}

void dz_linux_cpu_used(uint8_t *saved, uint64_t components)
{
    uint64_t head[3];
    memcpy(head, saved, sizeof head);
    head[2] |= components;
    memcpy(saved, head, sizeof head);
}

/* The machine has passed the check: its next sleep records the same needs. */
static void keep_needs(struct dz_linux_cpu_needs *n, const uint64_t head[3],
                       const uint8_t *leaf_bytes, size_t size)
{
    struct leaf was;
    *n = (struct dz_linux_cpu_needs){.hwcap = head[0], .hwcap2 = head[1], .xcr0 = head[2]};
    for (size_t at = 0; at < size; at += sizeof was) {
        memcpy(&was, leaf_bytes + at, sizeof was);
        for (size_t i = 0; i < DZ_ARRAY_LEN(leaves); i++)
            for (size_t f = 0; leaves[i].leaf == was.leaf && leaves[i].subleaf == was.subleaf &&
                               f < DZ_ARRAY_LEN(features);
                 f++)
                if (features[f].leaf == was.leaf && features[f].subleaf == was.subleaf)
                    n->regs[i][features[f].reg] |=
                        was.regs[features[f].reg] & UINT32_C(1) << features[f].bit;
    }
}

static int lacks(const char *what, struct dz_err *err)
{
    return dz_fail(err, DZ_EUNSUPPORTED,
                   "programs of the suspended machine may use \"%s\" of the processor, which this "
                   "host does not have: resume on a host that has it, or keep only the files "
                   "(keep=files)",
                   what);
}

static const char *component_name(uint32_t number);

int dz_linux_cpu_check(struct dz_linux *l, const uint8_t *bytes, size_t size, struct dz_err *err)
{
    uint64_t head[3];
    struct leaf was;
    if (size < sizeof head || (size - sizeof head) % sizeof was != 0)
        return dz_fail(err, DZ_ECORRUPT, "the saved features of a processor have %zu bytes", size);
    memcpy(head, bytes, sizeof head);
    for (size_t at = sizeof head; at < size; at += sizeof was) {
        memcpy(&was, bytes + at, sizeof was);
        const struct leaf is = leaf_of_host(was.leaf, was.subleaf);
        for (size_t i = 0; i < DZ_ARRAY_LEN(features); i++)
            if (features[i].leaf == was.leaf && features[i].subleaf == was.subleaf &&
                (was.regs[features[i].reg] & ~is.regs[features[i].reg]) >> features[i].bit & 1)
                return lacks(features[i].name, err);
    }
    if (head[1] & ~l->hwcap2)
        return lacks(head[1] & ~l->hwcap2 & 2 ? "fsgsbase" : "ring3mwait", err);
    const uint64_t missing = head[2] & ~xcr0();
    if (missing)
        return lacks(component_name((uint32_t)__builtin_ctzll(missing)), err);
    keep_needs(&l->needs, head, bytes + sizeof head, size - sizeof head);
    return 0;
}

int dz_linux_cpu_text(const uint8_t *bytes, size_t size, struct dz_buf *to, struct dz_err *err)
{
    struct leaf was;
    DZ_AUTO(dz_buf_release) struct dz_buf beyond = DZ_BUF_INIT(DZ_LINUX_CPU_TEXT);
    size_t level = DZ_LINUX_CPU_HOST;
    if (size < 3 * sizeof(uint64_t) || (size - 3 * sizeof(uint64_t)) % sizeof was != 0)
        return dz_fail(err, DZ_ECORRUPT, "the saved features of a processor have %zu bytes", size);
    for (size_t at = 3 * sizeof(uint64_t); at < size; at += sizeof was) {
        memcpy(&was, bytes + at, sizeof was);
        for (size_t i = 0; i < DZ_ARRAY_LEN(features); i++) {
            if (features[i].leaf != was.leaf || features[i].subleaf != was.subleaf ||
                !(was.regs[features[i].reg] >> features[i].bit & 1))
                continue;
            if (features[i].rank == BEYOND)
                dz_buf_addf(&beyond, " %s", features[i].name);
            else if (features[i].rank > level)
                level = features[i].rank;
        }
    }
    dz_buf_adds(to, level == DZ_LINUX_CPU_HOST ? "x86-64" : levels[level]);
    dz_buf_add(to, beyond.p ? beyond.p : "", beyond.len);
    return beyond.err ? dz_fail(err, beyond.err, "list features of the processor") : 0;
}

/* ---- extended registers ------------------------------------------------------------------- */

enum {
    FXSAVE_KEPT = 416, /* bytes of FXSAVE with registers */
    FXSAVE_MXCSR = 24,
    FXSAVE_MASK = 28,
    FXSAVE_SAID = 464,
    XSTATE_HEADER = 512,
    XSTATE_FIRST = 576, /* of the components from 2 on */
    MXCSR_MASK = 0xffbf,
};
#define FXSAVE_MAGIC UINT32_C(0x46505853)

/* Sizes are the architecture's. */
static const struct {
    uint32_t number, size;
    const char *name;
} components[] = {
    {2, 256, "avx"},
    {3, 64, "mpx bound registers"},
    {4, 64, "mpx configuration"},
    {5, 64, "avx512"},
    {6, 512, "avx512"},
    {7, 1024, "avx512"},
    {9, 8, "ospke"},
    {17, 64, "amx_tile"},
    {18, 8192, "amx_tile"},
    {19, 128, "apx"},
};

static const char *component_name(uint32_t number)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(components); i++)
        if (components[i].number == number)
            return components[i].name;
    return number < 2 ? "sse" : "unknown registers";
}

/* Size and offset of a component in an xstate of this host. False: the xstate has none. */
static bool component_at(const uint8_t *xstate, size_t size, uint32_t number, size_t *ret_at,
                         size_t *ret_size)
{
    uint32_t magic;
    uint64_t has;
    memcpy(&magic, xstate + FXSAVE_SAID, sizeof magic);
    memcpy(&has, xstate + FXSAVE_SAID + 8, sizeof has);
    dz_linux_cpu_ask();
    *ret_at = host_cpu.at[number];
    *ret_size = host_cpu.size[number];
    return magic == FXSAVE_MAGIC && (has >> number & 1) && *ret_at >= XSTATE_FIRST &&
           *ret_at <= size && *ret_size <= size - *ret_at;
}

uint64_t dz_linux_xstate_save(const uint8_t *xstate, size_t size, struct dz_buf *to)
{
    assert(size >= XSTATE_FIRST);
    uint64_t used, kept;
    size_t at, n;
    memcpy(&used, xstate + XSTATE_HEADER, sizeof used);
    kept = used & 3;
    for (size_t i = 0; i < DZ_ARRAY_LEN(components); i++)
        if ((used >> components[i].number & 1) &&
            component_at(xstate, size, components[i].number, &at, &n) && n == components[i].size)
            kept |= UINT64_C(1) << components[i].number;
    dz_buf_add(to, &kept, sizeof kept);
    dz_buf_add(to, xstate, FXSAVE_MASK);
    dz_buf_add(to, &(uint32_t){0}, sizeof(uint32_t)); /* the mask is the host's */
    dz_buf_add(to, xstate + FXSAVE_MASK + 4, FXSAVE_KEPT - FXSAVE_MASK - 4);
    for (size_t i = 0; i < DZ_ARRAY_LEN(components); i++) {
        if (!(kept >> components[i].number & 1))
            continue;
        (void)component_at(xstate, size, components[i].number, &at, &n);
        const uint32_t head[2] = {components[i].number, components[i].size};
        dz_buf_add(to, head, sizeof head);
        dz_buf_add(to, xstate + at, n);
    }
    return kept;
}

/* Restore one component of the extended state, other than x87 and SSE, into xstate. */
static int restore_component(const uint32_t head[2], const uint8_t *bytes, uint8_t *xstate,
                             size_t size, struct dz_err *err)
{
    size_t at, n;
    bool known = false;
    for (size_t i = 0; i < DZ_ARRAY_LEN(components); i++)
        known = known || (components[i].number == head[0] && components[i].size == head[1]);
    if (!known)
        return dz_fail(err, DZ_ECORRUPT, "saved registers: component %u has %u bytes", head[0],
                       head[1]);
    if (!component_at(xstate, size, head[0], &at, &n) || n != head[1])
        return lacks(component_name(head[0]), err);
    memcpy(xstate + at, bytes, n);
    return 0;
}

int dz_linux_xstate_restore(const uint8_t *bytes, size_t saved, uint8_t *xstate, size_t size,
                            struct dz_err *err)
{
    uint64_t used, seen = 0;
    uint32_t mask, mxcsr, head[2];
    assert(size >= XSTATE_FIRST);
    if (saved < sizeof used + FXSAVE_KEPT)
        return dz_fail(err, DZ_ECORRUPT, "saved registers have %zu bytes", saved);
    memcpy(&used, bytes, sizeof used);
    memcpy(&mxcsr, bytes + sizeof used + FXSAVE_MXCSR, sizeof mxcsr);
    memcpy(&mask, xstate + FXSAVE_MASK, sizeof mask);
    if (mxcsr & ~(mask ? mask : MXCSR_MASK))
        return dz_fail(err, DZ_ECORRUPT, "saved registers: MXCSR is %#x", mxcsr);
    memcpy(xstate, bytes + sizeof used, FXSAVE_KEPT);
    memcpy(xstate + FXSAVE_MASK, &mask, sizeof mask);
    size_t at = sizeof used + FXSAVE_KEPT;
    for (int i = 0; i < COMPONENTS && at < saved; i++) {
        if (saved - at < sizeof head)
            break;
        memcpy(head, bytes + at, sizeof head);
        at += sizeof head;
        if (head[1] > saved - at || head[0] < 2 || head[0] >= COMPONENTS ||
            !(used >> head[0] & 1) || (seen >> head[0] & 1))
            break;
        const int rc = restore_component(head, bytes + at, xstate, size, err);
        if (rc < 0)
            return rc;
        seen |= UINT64_C(1) << head[0];
        at += head[1];
    }
    if (at != saved || (used & ~UINT64_C(3)) != seen)
        return dz_fail(err, DZ_ECORRUPT,
                       "saved registers do not have the components that they name");
    memcpy(xstate + XSTATE_HEADER, &used, sizeof used);
    return 0;
}
