/* SPDX-License-Identifier: MIT
 *
 * t_wasm_host.c - binding of imports, host calls that block, interrupts, with modules
 * made by hand.
 */
#include "base/buf.h"
#include "base/limits.h"
#include "wasm/wasm_int.h"
#include "wasm_rig.h"

/* run(i32) -> i32 calls the first of two imports, env.a and env.b. */
static void calling(struct mod *m)
{
    MOD_SECTION(m, 1, "\x01\x60\x01\x7f\x01\x7f");
    MOD_SECTION(m, 2,
                "\x02\x03"
                "env\x01"
                "a\x00\x00\x03"
                "env\x01"
                "b\x00\x00");
    MOD_SECTION(m, 3, "\x01\x00");
    MOD_SECTION(m, 7, "\x01\x03run\x00\x02");
    MOD_SECTION(m, 10, "\x01\x06\x00\x20\x00\x10\x00\x0b");
}

/* run(i32) -> i32 counts its local up until it is 0 again. */
static void counting(struct mod *m)
{
    MOD_SECTION(m, 1, "\x01\x60\x01\x7f\x01\x7f");
    MOD_SECTION(m, 3, "\x01\x00");
    MOD_SECTION(m, 5, "\x01\x00\x01");
    MOD_SECTION(m, 7, "\x01\x03run\x00\x00");
    MOD_SECTION(m, 10, "\x01\x10\x00\x03\x40\x20\x00\x41\x01\x6a\x22\x00\x0d\x00\x0b\x20\x00\x0b");
}

static int rig_open(struct rig *r, const struct mod *m, enum dz_wasm_dispatch dispatch,
                    const struct dz_wasm_host *host, size_t count, struct dz_err *err)
{
    const struct dz_wasm_config cfg = {.dispatch = dispatch, .stack_slots = 4096};
    return rig_make(r, m, &cfg, host, count, err);
}

static int tries;
static enum dz_wasm_host_result late(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    (void)user;
    (void)inst;
    CHECK_INT(slots[0], 20);
    if (++tries < 3)
        return DZ_WASM_HOST_BLOCK;
    slots[0] = 22;
    return DZ_WASM_HOST_DONE;
}

TEST(every_missing_import_is_named)
{
    struct rig r;
    struct mod m = MOD_INIT;
    struct dz_err err = {0};
    calling(&m);
    CHECK_INT(rig_open(&r, &m, DZ_WASM_DISPATCH_DEFAULT, NULL, 0, &err), DZ_ENOENT);
    CHECK_STR(err.msg, "unknown import (2 missing): env.a, env.b");
    rig_close(&r);
}

/* More than a message holds: it says how many more, dz_wasm_missing() names all. */
TEST(many_missing_imports_are_counted_and_listed)
{
    static const struct dz_wasm_host host[] = {{"env", "f07", ">", NULL}};
    DZ_AUTO(dz_buf_release) struct dz_buf names = DZ_BUF_INIT(DZ_LINE_MAX);
    struct mod imports = {0};
    struct mod m = MOD_INIT;
    struct dz_err err = {0};
    struct rig r;
    MOD_SECTION(&m, 1, "\x01\x60\x00\x00");
    mod_byte(&imports, 60);
    for (unsigned i = 0; i < 60; i++) {
        char entry[] = "\x03"
                       "env\x03"
                       "f00\x00\x00";
        entry[6] = (char)('0' + i / 10);
        entry[7] = (char)('0' + i % 10);
        mod_add(&imports, entry, sizeof entry - 1);
    }
    mod_section(&m, 2, imports.p, imports.n);
    CHECK_INT(rig_open(&r, &m, DZ_WASM_DISPATCH_DEFAULT, host, 1, &err), DZ_ENOENT);
    CHECK(strstr(err.msg, "unknown import (59 missing): env.f00, env.f01, ") != NULL);
    CHECK(strstr(err.msg, " more") != NULL && !strstr(err.msg, "f07"));
    CHECK_INT(dz_wasm_missing(r.store, r.module, host, 1, &names), 59);
    CHECK(strstr(names.p, "env.f06\nenv.f08\n") && strstr(names.p, "env.f59\n"));
    rig_close(&r);
}

TEST(an_import_of_another_type_is_refused)
{
    static const struct dz_wasm_host host[] = {{"env", "a", "i>i", late},
                                               {"env", "b", "I>i", late}};
    struct rig r;
    struct mod m = MOD_INIT;
    struct dz_err err = {0};
    calling(&m);
    CHECK_INT(rig_open(&r, &m, DZ_WASM_DISPATCH_DEFAULT, host, 2, &err), DZ_EINVAL);
    CHECK_STR(err.msg, "incompatible import type: function env.b: the module wants (i32) -> (i32), "
                       "found (i64) -> (i32)");
    rig_close(&r);
}

/* What another instance exports: each kind, with what it is and what was wanted. */
TEST(an_export_of_another_type_is_refused)
{
    static const struct {
        const char *import; /* behind m.x */
        size_t size;
        const char *export; /* kind and index */
        const char *words;
    } rows[] = {
#define ROW(import, export, words) {import, sizeof(import) - 1, export, words}
        ROW("\x00\x01", "\x00\x00",
            "function m.x: the module wants (i32, i64) -> (), found a "
            "function: () -> (v128, i32)"),
        ROW("\x00\x00", "\x02\x00",
            "the module wants () -> (v128, i32), found a memory: 1 to 2 pages"),
        ROW("\x01\x70\x01\x04\x05", "\x01\x00", "wants funcref, 4 to 5, found a table: funcref, 3"),
        ROW("\x01\x6f\x00\x01", "\x01\x00", "wants externref, 1, found a table: funcref, 3"),
        ROW("\x02\x01\x01\x01", "\x02\x00", "wants 1 to 1 pages, found a memory: 1 to 2 pages"),
        ROW("\x03\x7f\x00", "\x03\x00",
            "global m.x: the module wants i32, found a global: mut i32"),
        ROW("\x04\x00\x02", "\x04\x00",
            "tag m.x: the module wants () -> (), found a tag: (i32, i64) "
            "-> ()"),
#undef ROW
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++) {
        struct mod give = MOD_INIT, take = MOD_INIT, part = {0};
        struct dz_wasm_inst *inst;
        struct dz_err err = {0};
        struct rig a, b;
        MOD_SECTION(&give, 1, "\x02\x60\x00\x02\x7b\x7f\x60\x02\x7f\x7e\x00");
        MOD_SECTION(&give, 3, "\x01\x00");
        MOD_SECTION(&give, 4, "\x01\x70\x00\x03");
        MOD_SECTION(&give, 5, "\x01\x01\x01\x02");
        MOD_SECTION(&give, 13, "\x01\x00\x01");
        MOD_SECTION(&give, 6, "\x01\x7f\x01\x41\x00\x0b");
        mod_add(&part, "\x01\x01x", 3);
        mod_add(&part, rows[i].export, 2);
        mod_section(&give, 7, part.p, part.n);
        MOD_CODE(&give, "\x00");
        MOD_SECTION(&take, 1, "\x03\x60\x00\x02\x7b\x7f\x60\x02\x7f\x7e\x00\x60\x00\x00");
        part = (struct mod){0};
        mod_add(&part, "\x01\x01m\x01x", 5);
        mod_add(&part, rows[i].import, rows[i].size);
        mod_section(&take, 2, part.p, part.n);
        CHECK_INT(rig_make(&a, &give, NULL, NULL, 0, &err), 0);
        CHECK_INT(dz_wasm_register(a.store, "m", a.inst, &err), 0);
        CHECK_INT(rig_prepare(&b, take.p, take.n, &err), 0);
        CHECK_INT(dz_wasm_instantiate(a.store, b.module, NULL, &inst, &err), DZ_EINVAL);
        if (!strstr(err.msg, rows[i].words))
            printf("# %s\n", err.msg);
        CHECK(strstr(err.msg, rows[i].words) != NULL);
        rig_close(&a);
        rig_close(&b);
    }
}

TEST(a_call_that_blocks_is_tried_again_unchanged)
{
    static const struct dz_wasm_host host[] = {{"env", "a", "i>i", late},
                                               {"env", "b", "i>i", late}};
    for (int d = DZ_WASM_DISPATCH_GOTO; d <= DZ_WASM_DISPATCH_SWITCH; d++) {
        struct rig r;
        struct mod m = MOD_INIT;
        calling(&m);
        tries = 0;
        CHECK_INT(rig_open(&r, &m, (enum dz_wasm_dispatch)d, host, 2, NULL), 0);
        CHECK_INT(rig_begin(&r, 20), 0);
        CHECK_INT(dz_wasm_run(r.store), DZ_WASM_BLOCKED);
        CHECK_INT(dz_wasm_run(r.store), DZ_WASM_BLOCKED);
        CHECK_INT(dz_wasm_run(r.store), DZ_WASM_DONE);
        CHECK_INT(dz_wasm_results(r.store)[0], 22);
        rig_close(&r);
    }
}

/* --- stops and states --------------------------------------------------------------- */

TEST(an_interrupted_loop_goes_on_elsewhere)
{
    static struct tape tape;
    struct rig a, b;
    struct mod m = MOD_INIT;
    struct dz_wasm_pos pos;
    counting(&m);
    CHECK_INT(rig_open(&a, &m, DZ_WASM_DISPATCH_GOTO, NULL, 0, NULL), 0);
    CHECK_INT(rig_begin(&a, UINT32_MAX - 4), 0);
    for (int i = 0; i < 4; i++) { /* the entry, then the loop's head again and again */
        dz_wasm_interrupt(a.store);
        CHECK_INT(dz_wasm_run(a.store), DZ_WASM_INTERRUPTED);
    }
    CHECK_INT(dz_wasm_trace(a.store, &pos, 1), 1);
    CHECK_INT(rig_save(&a, &tape, NULL), 0);
    CHECK_INT(rig_open(&b, &m, DZ_WASM_DISPATCH_SWITCH, NULL, 0, NULL), 0);
    CHECK_INT(rig_load(&b, &tape, NULL), 0);
    CHECK_INT(tape.at, tape.n);
    CHECK_INT(dz_wasm_run(b.store), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(b.store)[0], 0);
    rig_close(&a);
    rig_close(&b);
}

/* Raised by another thread while a stop lowers it: the flag is down again, the stack's limit
 * is still away. That is a stop, not the end of the stack. */
TEST(an_interrupt_that_meets_the_end_of_another_is_no_trap)
{
    for (int way = 0; way < RIG_WAYS; way++) {
        const struct dz_wasm_config cfg = rig_way(way);
        struct rig r;
        struct mod m = MOD_INIT;
        counting(&m);
        CHECK_INT(rig_make(&r, &m, &cfg, NULL, 0, NULL), 0);
        CHECK_INT(rig_begin(&r, UINT32_MAX - 4), 0);
        atomic_store(&r.store->ctx.limit, NULL);
        CHECK_INT(dz_wasm_run(r.store), DZ_WASM_INTERRUPTED);
        CHECK_INT(dz_wasm_run(r.store), DZ_WASM_DONE);
        CHECK_INT(dz_wasm_results(r.store)[0], 0);
        rig_close(&r);
    }
}
