/* SPDX-License-Identifier: MIT
 *
 * t_wasm_warm.c - functions translated ahead: nothing of their code is written when they
 * run, so that processes which were forked after that share it; and what is told of others.
 */
#include "wasm/wasm_int.h"
#include "wasm_rig.h"

static struct dz_err err;

enum {
    LEAF = 1, /* functions of program(): 0 calls it, 2 calls both */
    TOP = 2,
};

static void program(struct mod *m)
{
    struct mod_bodies b = {0};
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1, "\x01\x60\x00\x01\x7f");
    MOD_SECTION(m, 3, "\x03\x00\x00\x00");
    MOD_SECTION(m, 7,
                "\x02\x01"
                "a\x00\x00\x01"
                "b\x00\x02");
    MOD_BODY(&b, "\x00\x10\x01");
    MOD_BODY(&b, "\x00\x41\x07");
    MOD_BODY(&b, "\x00\x10\x01\x10\x00\x6a");
    mod_bodies(m, &b);
}

static uint64_t result(struct rig *r, const char *name)
{
    CHECK_INT(rig_call(r, name, NULL, 0), 0);
    CHECK_INT(dz_wasm_run(r->store), DZ_WASM_DONE);
    return dz_wasm_results(r->store)[0];
}

TEST(what_is_warm_is_only_read)
{
    static const uint32_t all[] = {TOP, 0, LEAF, 9999, 0 | DZ_WASM_WARM_POINTS};
    const struct dz_wasm_config cfg = {0};
    struct mod m;
    struct rig r;
    program(&m);
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    dz_wasm_warm(r.module, all, DZ_ARRAY_LEN(all)); /* callers before what they call */
    CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), 0);
    const struct dz_wasm_code *c = r.module->code;
    size_t size = c->used * sizeof(wasm_word);
    wasm_word *before = dz_alloc(size);
    CHECK(before);
    memcpy(before, c->arena, size);
    CHECK_INT(result(&r, "b"), 14);
    CHECK_INT(c->used * sizeof(wasm_word), size);
    CHECK(memcmp(before, c->arena, size) == 0);
    CHECK_INT(dz_wasm_fresh(r.module), 0);
    CHECK_INT(c->points.count, 1);
    dz_free(before);
    rig_close(&r);
}

TEST(what_was_not_is_told_once)
{
    static const uint32_t some[] = {LEAF};
    const struct dz_wasm_config cfg = {0};
    uint32_t told[4];
    struct mod m;
    struct rig r;
    program(&m);
    CHECK_INT(rig_make(&r, &m, &cfg, NULL, 0, &err), 0);
    dz_wasm_warm(r.module, some, DZ_ARRAY_LEN(some));
    CHECK_INT(dz_wasm_fresh(r.module), 0);
    CHECK_INT(result(&r, "a"), 7);
    CHECK_INT(dz_wasm_fresh(r.module), 1);
    CHECK_INT(result(&r, "b"), 14);
    CHECK_INT(dz_wasm_tell(r.module, told, 1), 1);
    CHECK_INT(told[0], 0);
    CHECK_INT(dz_wasm_tell(r.module, told, 4), 1);
    CHECK_INT(told[0], TOP);
    CHECK_INT(dz_wasm_tell(r.module, told, 4), 0);
    rig_close(&r);
}
