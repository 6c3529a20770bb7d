/* SPDX-License-Identifier: MIT
 *
 * t_wasm_host.c - binding of imports, host calls that block, interrupts, and a
 * state that goes through bytes, with modules made by hand.
 */
#include "tap.h"
#include "wasm/wasm.h"
#include "wasm_mod.h"

struct rig {
    void *flat;
    struct dz_wasm_module *module;
    struct dz_wasm_store *store;
    struct dz_wasm_inst *inst;
};

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
    struct dz_wasm_config cfg = {.dispatch = dispatch, .stack_slots = 4096};
    size_t size;
    *r = (struct rig){0};
    int rc = dz_wasm_prepare_alloc(m->p, m->n, DZ_WASM_F_ALL, &r->flat, &size, err);
    if (rc == 0)
        rc = dz_wasm_module_open(r->flat, size, &r->module, err);
    if (rc == 0)
        rc = dz_wasm_store_new(&cfg, &r->store, err);
    if (rc == 0)
        rc = dz_wasm_instantiate(r->store, r->module, host, count, NULL, &r->inst, err);
    return rc;
}
static void rig_close(struct rig *r)
{
    dz_wasm_store_free(r->store);
    dz_wasm_module_close(r->module);
    dz_free(r->flat);
}
static int rig_begin(struct rig *r, uint64_t arg)
{
    return dz_wasm_begin(r->inst, (uint32_t)dz_wasm_export(r->inst, "run", DZ_WASM_KIND_FUNC), &arg,
                         1, NULL);
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
    CHECK(strstr(err.msg, "env.a") && strstr(err.msg, "env.b"));
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
    CHECK(strstr(err.msg, "env.b") != NULL);
    rig_close(&r);
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

struct tape {
    uint8_t p[16384];
    size_t n, at;
};
static int tape_write(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    struct tape *t = ctx;
    if (size > sizeof t->p - t->n)
        return dz_fail(err, DZ_ELIMIT, "the tape is full");
    memcpy(t->p + t->n, data, size);
    t->n += size;
    return 0;
}
static int tape_read(void *ctx, void *data, size_t size, struct dz_err *err)
{
    struct tape *t = ctx;
    if (size > t->n - t->at)
        return dz_fail(err, DZ_ECORRUPT, "the tape is at its end");
    memcpy(data, t->p + t->at, size);
    t->at += size;
    return 0;
}

TEST(an_interrupted_loop_goes_on_elsewhere)
{
    static struct tape tape;
    struct dz_wasm_sink sink = {.write = tape_write, .ctx = &tape};
    struct dz_wasm_source source = {.read = tape_read, .ctx = &tape};
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
    CHECK_INT(dz_wasm_save(a.inst, true, &sink, NULL), 0);
    CHECK_INT(rig_open(&b, &m, DZ_WASM_DISPATCH_SWITCH, NULL, 0, NULL), 0);
    CHECK_INT(dz_wasm_load(b.inst, &source, NULL), 0);
    CHECK_INT(tape.at, tape.n);
    CHECK_INT(dz_wasm_run(b.store), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(b.store)[0], 0);
    rig_close(&a);
    rig_close(&b);
}

/* Any one byte of a state changed: an error or a state that runs, never more. */
TEST(a_damaged_state_does_no_harm)
{
    static struct tape tape;
    struct dz_wasm_sink sink = {.write = tape_write, .ctx = &tape};
    struct dz_wasm_source source = {.read = tape_read, .ctx = &tape};
    struct rig a;
    struct mod m = MOD_INIT;
    int refused = 0;
    counting(&m);
    CHECK_INT(rig_open(&a, &m, DZ_WASM_DISPATCH_SWITCH, NULL, 0, NULL), 0);
    CHECK_INT(rig_begin(&a, UINT32_MAX - 4), 0);
    for (int i = 0; i < 3; i++) {
        dz_wasm_interrupt(a.store);
        CHECK_INT(dz_wasm_run(a.store), DZ_WASM_INTERRUPTED);
    }
    CHECK_INT(dz_wasm_save(a.inst, true, &sink, NULL), 0);
    for (size_t i = 0; i < tape.n; i++) {
        struct rig b;
        tape.at = 0;
        tape.p[i] ^= 0x41;
        CHECK_INT(rig_open(&b, &m, DZ_WASM_DISPATCH_SWITCH, NULL, 0, NULL), 0);
        if (dz_wasm_load(b.inst, &source, NULL) < 0) {
            refused++;
        } else {
            dz_wasm_interrupt(b.store);
            (void)dz_wasm_run(b.store);
        }
        tape.p[i] ^= 0x41;
        rig_close(&b);
    }
    CHECK(refused > 60);
    rig_close(&a);
}

TORTURE(instantiating_and_saving)
{
    struct tape tape = {.n = 0};
    struct dz_wasm_sink sink = {.write = tape_write, .ctx = &tape};
    struct rig r;
    struct mod m = MOD_INIT;
    counting(&m);
    if (rig_open(&r, &m, DZ_WASM_DISPATCH_SWITCH, NULL, 0, NULL) == 0 &&
        rig_begin(&r, UINT32_MAX - 4) == 0) {
        dz_wasm_interrupt(r.store);
        if (dz_wasm_run(r.store) == DZ_WASM_INTERRUPTED)
            (void)dz_wasm_save(r.inst, true, &sink, NULL);
    }
    rig_close(&r);
}
