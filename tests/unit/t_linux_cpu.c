/* SPDX-License-Identifier: MIT
 * Features of the processor: what a saved machine demands, with and without a baseline. */
#include "linux/linux_cpu.h"
#include "linux/linux_run_int.h"

#include "tap.h"

#include <string.h>

enum {
    HEAD = 24,  /* AT_HWCAP, AT_HWCAP2, XCR0 */
    LEAF = 24,  /* a leaf, which has leaf, subleaf, eax, ebx, ecx, edx */
    LEAF_7 = 1, /* its place among the leaves */
    AVX2 = 5,   /* bits of ebx in leaf 7, */
    SHA = 29,
    SSE4_2 = 20, /* and of ecx in leaf 1 */
};

static struct dz_err err;

static uint32_t *reg_of(struct dz_buf *saved, size_t leaf, size_t reg)
{
    return (uint32_t *)(void *)(saved->p + HEAD + leaf * LEAF + 8 + 4 * reg);
}
static uint64_t *xcr0_of(struct dz_buf *saved)
{
    return (uint64_t *)(void *)(saved->p + 16);
}
static void save(const struct dz_linux *l, struct dz_buf *to)
{
    *to = (struct dz_buf)DZ_BUF_INIT(4096);
    dz_linux_cpu_save(l, to);
    CHECK_INT(to->len, HEAD + DZ_LINUX_CPU_LEAVES * LEAF);
}

TEST(a_host_has_what_was_saved_there)
{
    struct dz_linux l = {.hwcap2 = 2}, other = {.hwcap2 = 0};
    struct dz_buf saved;
    save(&l, &saved);
    CHECK_INT(dz_linux_cpu_check(&l, (uint8_t *)saved.p, saved.len, &err), 0);
    CHECK_INT(dz_linux_cpu_check(&other, (uint8_t *)saved.p, saved.len, &err), DZ_EUNSUPPORTED);
    CHECK(strstr(err.msg, "\"fsgsbase\"") && strstr(err.msg, "keep=files"));
    *reg_of(&saved, 0, 2) |= UINT32_C(1) << 11; /* a bit that no program decides on */
    *reg_of(&saved, 5, 1) |= UINT32_C(1) << 4;  /* rdpru */
    const int rc = dz_linux_cpu_check(&l, (uint8_t *)saved.p, saved.len, &err);
    CHECK(rc == 0 || strstr(err.msg, "\"rdpru\""));
    *xcr0_of(&saved) |= UINT64_C(1) << 19;
    CHECK_INT(dz_linux_cpu_check(&l, (uint8_t *)saved.p, saved.len, &err), DZ_EUNSUPPORTED);
    CHECK_INT(dz_linux_cpu_check(&l, (uint8_t *)saved.p, saved.len - 1, &err), DZ_ECORRUPT);
    dz_buf_release(&saved);
}

TEST(a_baseline_hides_what_is_above_it)
{
    struct dz_linux l = {.hwcap2 = 0};
    struct dz_buf all, few, env = DZ_BUF_INIT(4096), text = DZ_BUF_INIT(4096);
    char cpuinfo[] = "model\t: x\nflags\t\t: fpu sse4_2 avx2 sha_ni unheard avx\nbugs\t: avx2\n";
    CHECK_INT(dz_linux_baseline("x86-64-v1", &err), DZ_EINVAL);
    dz_linux_baseline_env(&env);
    CHECK_INT(env.len, 0);
    save(&l, &all);
    if (dz_linux_baseline("x86-64-v2", &err) != 0)
        SKIP(err.msg);
    CHECK_INT(dz_linux_baseline_get(), DZ_LINUX_CPU_V2);
    save(&l, &few);
    CHECK_INT(*reg_of(&few, LEAF_7, 1) & (UINT32_C(1) << AVX2 | UINT32_C(1) << SHA), 0);
    CHECK(*reg_of(&few, 0, 2) & UINT32_C(1) << SSE4_2);
    CHECK_INT(*xcr0_of(&few), 3);
    CHECK_INT(dz_linux_cpu_text((uint8_t *)few.p, few.len, &text, &err), 0);
    CHECK_STR(text.p, "x86-64-v2");

    dz_linux_cpu_used((uint8_t *)few.p, 7); /* a thread holds AVX registers all the same */
    CHECK_INT(*xcr0_of(&few), 7);

    dz_linux_cpuinfo_hide(cpuinfo);
    CHECK_STR(cpuinfo, "model\t: x\nflags\t\t: fpu sse4_2 unheard\nbugs\t: avx2\n");

    dz_linux_baseline_env(&env);
    const char *variables = env.p;
    CHECK(strncmp(variables, "GLIBC_TUNABLES=glibc.cpu.hwcaps=", 32) == 0 &&
          strstr(variables, ",-AVX2,"));
    CHECK_INT(env.p[env.len - 1], 0);
    const char *last = env.p + env.len - 2;
    while (last[-1])
        last--;
    CHECK(strncmp(last, "OPENSSL_ia32cap=~0x", 19) == 0);

    /* A machine that began without the baseline keeps its needs when it sleeps again under one. */
    CHECK_INT(dz_linux_cpu_check(&l, (uint8_t *)all.p, all.len, &err), 0);
    dz_buf_release(&few);
    save(&l, &few);
    for (size_t i = 0; i < DZ_LINUX_CPU_LEAVES; i++)
        for (size_t r = 0; r < 4; r++)
            CHECK((*reg_of(&all, i, r) & ~*reg_of(&few, i, r)) == 0);
    CHECK_INT(*xcr0_of(&few), *xcr0_of(&all));
    dz_linux_baseline_told(77);
    CHECK_INT(dz_linux_baseline_get(), DZ_LINUX_CPU_HOST);
    dz_buf_release(&all);
    dz_buf_release(&few);
    dz_buf_release(&env);
    dz_buf_release(&text);
}
