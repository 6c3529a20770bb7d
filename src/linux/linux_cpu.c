/* SPDX-License-Identifier: MIT
 *
 * linux_cpu.c - features and extended registers, as bytes (docs/format/linux-state.md).
 *
 *     features:   u64 AT_HWCAP, AT_HWCAP2, XCR0; { u32 leaf, subleaf, eax, ebx, ecx, edx }*
 *     registers:  u64 components in use; 416 bytes of FXSAVE; { u32 number, u32 size, bytes }*
 *
 * Whole registers of cpuid are saved, but only named bits are compared: those that a program can
 * base a decision on. A later doze may compare more of them.
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

/* Names as in /proc/cpuinfo. */
static const struct {
    uint32_t leaf, subleaf;
    enum reg reg;
    uint32_t bit;
    const char *name;
} features[] = {
    {1, 0, ECX, 0, "pni"},
    {1, 0, ECX, 1, "pclmulqdq"},
    {1, 0, ECX, 9, "ssse3"},
    {1, 0, ECX, 12, "fma"},
    {1, 0, ECX, 13, "cx16"},
    {1, 0, ECX, 19, "sse4_1"},
    {1, 0, ECX, 20, "sse4_2"},
    {1, 0, ECX, 22, "movbe"},
    {1, 0, ECX, 23, "popcnt"},
    {1, 0, ECX, 25, "aes"},
    {1, 0, ECX, 26, "xsave"},
    {1, 0, ECX, 27, "osxsave"},
    {1, 0, ECX, 28, "avx"},
    {1, 0, ECX, 29, "f16c"},
    {1, 0, ECX, 30, "rdrand"},
    {1, 0, EDX, 0, "fpu"},
    {1, 0, EDX, 4, "tsc"},
    {1, 0, EDX, 8, "cx8"},
    {1, 0, EDX, 15, "cmov"},
    {1, 0, EDX, 19, "clflush"},
    {1, 0, EDX, 23, "mmx"},
    {1, 0, EDX, 24, "fxsr"},
    {1, 0, EDX, 25, "sse"},
    {1, 0, EDX, 26, "sse2"},
    {7, 0, EBX, 0, "fsgsbase"},
    {7, 0, EBX, 3, "bmi1"},
    {7, 0, EBX, 4, "hle"},
    {7, 0, EBX, 5, "avx2"},
    {7, 0, EBX, 8, "bmi2"},
    {7, 0, EBX, 9, "erms"},
    {7, 0, EBX, 11, "rtm"},
    {7, 0, EBX, 16, "avx512f"},
    {7, 0, EBX, 17, "avx512dq"},
    {7, 0, EBX, 18, "rdseed"},
    {7, 0, EBX, 19, "adx"},
    {7, 0, EBX, 21, "avx512ifma"},
    {7, 0, EBX, 23, "clflushopt"},
    {7, 0, EBX, 24, "clwb"},
    {7, 0, EBX, 28, "avx512cd"},
    {7, 0, EBX, 29, "sha_ni"},
    {7, 0, EBX, 30, "avx512bw"},
    {7, 0, EBX, 31, "avx512vl"},
    {7, 0, ECX, 1, "avx512vbmi"},
    {7, 0, ECX, 4, "ospke"},
    {7, 0, ECX, 6, "avx512_vbmi2"},
    {7, 0, ECX, 8, "gfni"},
    {7, 0, ECX, 9, "vaes"},
    {7, 0, ECX, 10, "vpclmulqdq"},
    {7, 0, ECX, 11, "avx512_vnni"},
    {7, 0, ECX, 12, "avx512_bitalg"},
    {7, 0, ECX, 14, "avx512_vpopcntdq"},
    {7, 0, ECX, 22, "rdpid"},
    {7, 0, ECX, 27, "movdiri"},
    {7, 0, ECX, 28, "movdir64b"},
    {7, 0, EDX, 2, "avx512_4vnniw"},
    {7, 0, EDX, 3, "avx512_4fmaps"},
    {7, 0, EDX, 4, "fsrm"},
    {7, 0, EDX, 8, "avx512_vp2intersect"},
    {7, 0, EDX, 14, "serialize"},
    {7, 0, EDX, 22, "amx_bf16"},
    {7, 0, EDX, 23, "avx512_fp16"},
    {7, 0, EDX, 24, "amx_tile"},
    {7, 0, EDX, 25, "amx_int8"},
    {7, 1, EAX, 0, "sha512"},
    {7, 1, EAX, 1, "sm3"},
    {7, 1, EAX, 2, "sm4"},
    {7, 1, EAX, 4, "avx_vnni"},
    {7, 1, EAX, 5, "avx512_bf16"},
    {7, 1, EAX, 10, "fzrm"},
    {7, 1, EAX, 11, "fsrs"},
    {7, 1, EAX, 12, "fsrc"},
    {7, 1, EAX, 21, "amx_fp16"},
    {7, 1, EAX, 23, "avx_ifma"},
    {7, 1, EDX, 4, "avx_vnni_int8"},
    {7, 1, EDX, 5, "avx_ne_convert"},
    {7, 1, EDX, 8, "amx_complex"},
    {7, 1, EDX, 10, "avx_vnni_int16"},
    {0xd, 1, EAX, 0, "xsaveopt"},
    {0xd, 1, EAX, 1, "xsavec"},
    {0xd, 1, EAX, 2, "xgetbv1"},
    {0x80000001, 0, ECX, 0, "lahf_lm"},
    {0x80000001, 0, ECX, 5, "abm"},
    {0x80000001, 0, ECX, 6, "sse4a"},
    {0x80000001, 0, ECX, 7, "misalignsse"},
    {0x80000001, 0, ECX, 8, "3dnowprefetch"},
    {0x80000001, 0, ECX, 11, "xop"},
    {0x80000001, 0, ECX, 16, "fma4"},
    {0x80000001, 0, ECX, 21, "tbm"},
    {0x80000001, 0, EDX, 27, "rdtscp"},
    {0x80000008, 0, EBX, 0, "clzero"},
    {0x80000008, 0, EBX, 4, "rdpru"},
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

void dz_linux_cpu_save(const struct dz_linux *l, struct dz_buf *to)
{
    const uint64_t head[3] = {l->hwcap, l->hwcap2, xcr0()};
    dz_buf_add(to, head, sizeof head);
    for (size_t i = 0; i < DZ_ARRAY_LEN(leaves); i++) {
        const struct leaf leaf = leaf_of_host(leaves[i].leaf, leaves[i].subleaf);
        dz_buf_add(to, &leaf, sizeof leaf);
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

int dz_linux_cpu_check(const struct dz_linux *l, const uint8_t *bytes, size_t size,
                       struct dz_err *err)
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
    return missing ? lacks(component_name((uint32_t)__builtin_ctzll(missing)), err) : 0;
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

void dz_linux_xstate_save(const uint8_t *xstate, size_t size, struct dz_buf *to)
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
