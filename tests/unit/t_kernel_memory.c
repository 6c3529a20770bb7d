/* SPDX-License-Identifier: MIT
 * What programs have beside their linear memory counts against the machine's memory: large
 * tables. */
#include "kernel/kernel_int.h"
#include "kernel/kernel_wasm.h"
#include "tap.h"
#include "wasm_rig.h"

#include <sys/resource.h>

enum {
    MIB = 1 << 20,
    FREE = 1 << 20, /* bytes of tables that are not counted */
};
static struct dz_err err;
static struct dz_kernel kernel;
static struct dz_kernel_wasm wasm;

/* _start: its table of no elements grows by so many. */
static void grows(struct mod *m, uint32_t elements)
{
    struct mod body = {0};
    struct mod_bodies code = {0};
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1, "\x01\x60\x00\x00");
    MOD_SECTION(m, 3, "\x01\x00");
    MOD_SECTION(m, 4, "\x01\x6f\x00\x00");
    MOD_SECTION(m, 7, "\x01\x06_start\x00\x00");
    mod_add(&body, "\x00\xd0\x6f\x41", 4);
    mod_u32(&body, elements);
    mod_add(&body, "\xfc\x0f\x00\x1a", 4);
    mod_body(&code, body.p, body.n);
    mod_bodies(m, &code);
}

static struct dz_proc proc_with(uint64_t bytes)
{
    struct dz_proc p = {0};
    p.rlimit[RLIMIT_AS][0] = bytes;
    return p;
}

/* What the machine counts when the program has run, and twice of it. */
static uint64_t counts(uint32_t elements, uint64_t limit, uint64_t *ret_copied)
{
    struct dz_proc p = proc_with(limit), q = p;
    const struct dz_kernel_runner *r1 = &dz_kernel_runner_wasm;
    struct dz_task t = {.kernel = &kernel, .proc = &p, .runner = r1};
    struct dz_task child = {.kernel = &kernel, .proc = &q, .runner = r1};
    const struct dz_load from = {.path = "/bin/x"};
    struct rig r;
    struct mod m;
    int sig;
    grows(&m, elements);
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    t.program.handle = r.module;
    CHECK_INT(r1->load(&wasm, &t, &from), 0);
    CHECK_INT(r1->run(&wasm, &t, &sig), DZ_RUN_DONE);
    uint64_t used = kernel.memory_used;
    CHECK_INT(p.mem_bytes, used);
    int e = r1->copy(&wasm, &t, &child, NULL);
    CHECK(e == 0 || e == -ENOMEM);
    *ret_copied = kernel.memory_used;
    if (e == 0)
        r1->unload(&wasm, &child);
    r1->unload(&wasm, &t);
    CHECK_INT(kernel.memory_used, 0);
    rig_close(&r);
    return used;
}

TEST(large_tables_are_memory_of_the_machine)
{
    uint64_t copied;
    kernel.limits.memory_bytes = 64 * MIB;
    CHECK_INT(counts(FREE / 8, UINT64_MAX, &copied), 0);
    CHECK_INT(copied, 0);
    CHECK_INT(counts(3 * MIB / 8, UINT64_MAX, &copied), 2 * MIB);
    CHECK_INT(copied, 4 * MIB);
    CHECK_INT(counts(3 * MIB / 8, 2 * MIB, &copied), 2 * MIB);
    CHECK_INT(counts(3 * MIB / 8, 2 * MIB - 1, &copied), 0); /* it could not grow */
    CHECK_INT(counts(65 * MIB / 8, UINT64_MAX, &copied), 64 * MIB);
    CHECK_INT(copied, 64 * MIB); /* for a copy there is none left */
    CHECK_INT(counts(65 * MIB / 8 + 1, UINT64_MAX, &copied), 0);
}
