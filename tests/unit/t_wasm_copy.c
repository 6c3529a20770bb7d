/* SPDX-License-Identifier: MIT
 *
 * t_wasm_copy.c - copying a process, marking and returning, injecting a call: at
 * any safepoint, refused where they must be, and when memory fails.
 */
#include "base/vm.h"
#include "wasm/wasm_rt.h"
#include "wasm/wasm_state.h"
#include "wasm_rig.h"

static struct dz_err err;
static struct tape tape;

enum {
    SPIN = 2,
    HANDLER = 6, /* functions of rich() */
};

static struct dz_wasm_copy how_to(void)
{
    return (struct dz_wasm_copy){.host = rich_host, .host_count = DZ_ARRAY_LEN(rich_host)};
}
static struct rig of(struct dz_wasm_inst *inst)
{
    return (struct rig){.store = dz_wasm_inst_store(inst), .inst = inst};
}

/* --- copy ------------------------------------------------------------------------------ */

TEST(a_copy_at_any_safepoint_ends_alike)
{
    const struct dz_wasm_copy how = how_to();
    for (int way = 0; way < RIG_WAYS; way++) {
        struct dz_wasm_config cfg = rig_way(way);
        enum dz_wasm_stop stop;
        struct rig r;
        bool open = false;
        CHECK_INT(rich_open(&r, &cfg, &err), 0);
        CHECK_INT(rig_begin(&r, SPIN), 0);
        rich_park = 0;
        while (rig_waits(stop = rig_step(&r))) {
            struct dz_wasm_inst *inst;
            CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), 0);
            struct rig copy = of(inst);
            CHECK_INT(rich_finish(&copy), DZ_WASM_DONE);
            CHECK_INT(dz_wasm_results(copy.store)[0], RICH_RESULT);
            rig_close(&copy);
            open |= stop == DZ_WASM_BLOCKED;
            rich_park = open ? 3 : 0;
        }
        CHECK_INT(stop, DZ_WASM_DONE);
        CHECK_INT(dz_wasm_results(r.store)[0], RICH_RESULT);
        rig_close(&r);
    }
}

/* Each goes its own way: memory, globals and tables are two. */
TEST(a_copy_shares_nothing)
{
    const struct dz_wasm_copy how = how_to();
    struct dz_wasm_config cfg = rig_way(0);
    struct dz_wasm_inst *inst;
    struct rig r;
    CHECK_INT(rich_open(&r, &cfg, &err), 0);
    *dz_wasm_mem(r.inst, 0, 4096, 1) = 1;
    *dz_wasm_global(r.inst, 0) = 5;
    CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), 0);
    CHECK_INT(*dz_wasm_mem(inst, 0, 4096, 1), 1);
    CHECK_INT(*dz_wasm_global(inst, 0), 5);
    *dz_wasm_mem(r.inst, 0, 4096, 1) = 2;
    *dz_wasm_global(r.inst, 0) = 6;
    CHECK_INT(*dz_wasm_mem(inst, 0, 4096, 1), 1);
    CHECK_INT(*dz_wasm_global(inst, 0), 5);
    dz_wasm_store_free(dz_wasm_inst_store(inst));
    rig_close(&r);
}

/* Only what the caller says has changed is looked at. */
struct changes {
    uint64_t at, size;
    int calls;
};
static int one_change(void *ctx, uint32_t index, uint64_t *addr, uint64_t *size, struct dz_err *e)
{
    struct changes *c = ctx;
    (void)index, (void)e;
    c->calls++;
    if (*addr > c->at)
        return 0;
    *addr = c->at;
    *size = c->size;
    return 1;
}

TEST(a_copy_of_what_changed)
{
    struct changes c = {.at = 8192, .size = 4096};
    struct dz_wasm_copy how = how_to();
    struct dz_wasm_config cfg = rig_way(0);
    struct dz_wasm_inst *inst;
    struct rig r;
    how.changed = one_change;
    how.changed_ctx = &c;
    CHECK_INT(rich_open(&r, &cfg, &err), 0);
    *dz_wasm_mem(r.inst, 0, 8200, 1) = 1;
    *dz_wasm_mem(r.inst, 0, 70000, 1) = 1;
    CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), 0);
    CHECK_INT(c.calls, 2);
    CHECK_INT(*dz_wasm_mem(inst, 0, 8200, 1), 1);
    CHECK_INT(*dz_wasm_mem(inst, 0, 70000, 1), 0);
    dz_wasm_store_free(dz_wasm_inst_store(inst));
    c = (struct changes){.at = 0, .size = UINT64_C(1) << 40};
    CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "changed bytes outside of memory 0") != NULL);
    rig_close(&r);
}

/* Copies are made in the pages of a process that has ended, whatever was in them. */
static void fill_memory(struct dz_wasm_inst *inst, int byte)
{
    size_t size = dz_wasm_mem_size(inst, 0);
    memset(dz_wasm_mem(inst, 0, 0, size), byte, size);
}

TEST(a_copy_has_nothing_of_a_process_that_ended)
{
    struct changes c = {.at = 8192, .size = 4096};
    struct dz_wasm_config cfg = rig_way(0);
    struct dz_wasm_inst *inst;
    struct rig r;
    CHECK_INT(rich_open(&r, &cfg, &err), 0);
    size_t size = dz_wasm_mem_size(r.inst, 0);
    *dz_wasm_mem(r.inst, 0, 8200, 1) = 1;
    *dz_wasm_mem(r.inst, 0, size - 1, 1) = 2;
    for (int with_changes = 0; with_changes < 2; with_changes++) {
        struct dz_wasm_copy how = how_to();
        CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), 0);
        fill_memory(inst, 0xa5);
        dz_wasm_store_free(dz_wasm_inst_store(inst));
        how.changed = with_changes ? one_change : NULL;
        how.changed_ctx = &c;
        CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), 0);
        uint8_t *got = dz_wasm_mem(inst, 0, 0, size);
        CHECK_INT(got[size - 1], with_changes ? 0 : 2);
        got[size - 1] = 2;
        CHECK(memcmp(got, dz_wasm_mem(r.inst, 0, 0, size), size) == 0);
        dz_wasm_store_free(dz_wasm_inst_store(inst));
    }
    dz_wasm_mem_trim();
    rig_close(&r);
}

/* What is left of a larger memory becomes zeros when the copy grows; a new one has none
 * but zeros. */
TEST(old_pages_are_zero_behind_the_end_of_a_copy)
{
    enum {
        PAGES = 8,
        MORE = PAGES << 16,
    };
    const struct dz_wasm_copy how = {.changed = NULL};
    struct dz_wasm_config cfg = rig_way(0);
    struct dz_wasm_inst *inst;
    struct rig r;
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 5, "\x01\x00\x01"); /* one page */
    CHECK_INT(rig_make(&r, &m, &cfg, NULL, 0, &err), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), 0);
        struct wasm_ctx *ctx = &dz_wasm_inst_store(inst)->ctx;
        dz_wasm_ctx_enter(ctx, inst);
        CHECK_INT(dz_wasm_mem_grow(ctx, 0, PAGES), 1);
        const uint8_t *more = dz_wasm_mem(inst, 0, 1 << 16, MORE);
        CHECK(more && more[0] == 0 && memcmp(more, more + 1, MORE - 1) == 0);
        fill_memory(inst, 0x5a);
        dz_wasm_store_free(dz_wasm_inst_store(inst));
    }
    dz_wasm_store_free(r.store);
    CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), 0);
    const uint8_t *fresh = dz_wasm_mem(r.inst, 0, 0, 1 << 16);
    CHECK(fresh[0] == 0 && memcmp(fresh, fresh + 1, (1 << 16) - 1) == 0);
    rig_close(&r);
}

/* Runs of changed pages that begin and end anywhere below, in and behind the image, over
 * pages of a process that ended and over new ones, which come by dz_vm_fill(). */
TEST(a_copy_is_whole_whatever_pages_changed)
{
    enum {
        SIZE = 2 << 16,
        PAGES = SIZE / WASM_STATE_PAGE,
        ROUNDS = 64,
    };
    const struct dz_wasm_copy how = {.changed = NULL};
    struct dz_wasm_config cfg = rig_way(0);
    struct dz_wasm_inst *inst;
    struct rig r;
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 5, "\x01\x00\x02"); /* two pages; data at 4096 and 12288: the image */
    MOD_SECTION(&m, 11, "\x02\x00\x41\x80\x20\x0b\x02no\x00\x41\x80\xe0\x00\x0b\x02on");
    dz_vm_fill_open();
    uint32_t dice = 1;
    CHECK_INT(rig_make(&r, &m, &cfg, NULL, 0, &err), 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint8_t *from = dz_wasm_mem(r.inst, 0, 0, SIZE);
        for (unsigned i = 0; i < PAGES; i++) {
            dice = dice * 1664525 + 1013904223;
            if (dice >> 28 < 5) /* or as it is: runs are short and long */
                memset(from + i * WASM_STATE_PAGE, (int)(dice >> 20 & 3), WASM_STATE_PAGE);
        }
        if (round % 3 == 0)
            dz_wasm_mem_trim();
        CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), 0);
        uint8_t *to = dz_wasm_mem(inst, 0, 0, SIZE);
        CHECK(memcmp(from, to, SIZE) == 0);
        memset(to, 0x5a, SIZE);
        dz_wasm_store_free(dz_wasm_inst_store(inst));
    }
    rig_close(&r);
    dz_vm_fill_close();
}

TEST(a_copy_that_does_not_fit_is_refused)
{
    struct dz_wasm_copy how = how_to();
    struct dz_wasm_config cfg = rig_way(0), small;
    struct dz_wasm_inst *inst;
    struct rig r;
    CHECK_INT(rich_open(&r, &cfg, &err), 0);
    CHECK_INT(rig_begin(&r, SPIN), 0);
    CHECK(rig_waits(rig_step(&r)));
    how.cfg = &small;
    small = (struct dz_wasm_config){.memory_pages_max = 47};
    CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), DZ_ELIMIT);
    small = (struct dz_wasm_config){.table_max = 2};
    CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), DZ_ELIMIT);
    small = (struct dz_wasm_config){.stack_slots = 1};
    CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), DZ_EINVAL);
    struct wasm_table *t = r.inst->tables[0]; /* it was larger, or shall be smaller */
    CHECK(t->size_max > 3 && dz_wasm_table_grow(t, 2) == 3);
    small = (struct dz_wasm_config){.table_max = 4};
    CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), DZ_ELIMIT);
    CHECK(strstr(err.msg, "table 0 has 5 elements") != NULL);
    rich_park = 3;
    CHECK_INT(rich_finish(&r), DZ_WASM_DONE);
    rig_close(&r);
}

/* --- mark and return --------------------------------------------------------------------- */

/* What the guest does not do by itself: tokens kept by the test. */
static uint64_t tokens[400][2];
static uint32_t token_count;
static int mark_rc;

static enum dz_wasm_host_result keep_token(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    (void)user;
    mark_rc = dz_wasm_mark(inst, tokens[token_count], &err);
    token_count += mark_rc == 0;
    slots[0] = 0;
    return mark_rc < 0 ? DZ_WASM_HOST_TRAP : DZ_WASM_HOST_DONE;
}
static const struct dz_wasm_host keep_host[] = {{"env", "mark", ">i", keep_token}};

/* run(n): for i in n..1: sum = sum * 3 + (i + (i * i * mark())), with i * i and i on
 * the stack below the call; then waits in a loop for sum to change nothing. */
static void marking(struct mod *m)
{
    struct mod_bodies code = {0};
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1, "\x02\x60\x01\x7f\x01\x7f\x60\x00\x01\x7f");
    MOD_SECTION(m, 2,
                "\x01\x03"
                "env\x04mark\x00\x01");
    MOD_SECTION(m, 3, "\x01\x00");
    MOD_SECTION(m, 7, "\x01\x03run\x00\x01");
    MOD_BODY(&code, "\x01\x01\x7f"                 /* i32 sum */
                    "\x03\x40\x20\x01\x41\x03\x6c" /* loop: sum * 3, */
                    "\x20\x00\x20\x00\x20\x00\x6c" /* i, i * i, */
                    "\x10\x00\x6c\x6a\x6a\x21\x01" /* mark() * + + */
                    "\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x20\x01");
    mod_bodies(m, &code);
}

static void open_marking(struct rig *r, int way, uint32_t n)
{
    struct dz_wasm_config cfg = rig_way(way);
    struct mod m;
    marking(&m);
    token_count = 0;
    CHECK_INT(rig_make(r, &m, &cfg, keep_host, 1, &err), 0);
    CHECK_INT(rig_begin(r, n), 0);
}

/* Until n marks have been set, at a safepoint. */
static void step_to_mark(const struct rig *r, uint32_t n)
{
    while (token_count < n)
        CHECK_INT(rig_step(r), DZ_WASM_INTERRUPTED);
    CHECK_INT(rig_step(r), DZ_WASM_INTERRUPTED);
}

/* run(n) from the mark of round `at` (1: the first) on, where i has since become
 * `i`: the operands are those of the mark, the local goes on from what it is. */
static uint32_t answer(uint32_t n, uint32_t at, uint32_t value, uint32_t i)
{
    uint32_t sum = 0, k = n;
    for (uint32_t round = 1; round < at; round++, k--)
        sum = sum * 3 + k;
    sum = sum * 3 + k + k * k * value;
    while (--i)
        sum = sum * 3 + i;
    return sum;
}

TEST(operands_below_a_mark_come_back)
{
    for (int way = 0; way < RIG_WAYS; way++) {
        struct rig r;
        open_marking(&r, way, 5);
        step_to_mark(&r, 3); /* i is 2 now */
        CHECK_INT(dz_wasm_jump(r.inst, tokens[1], 10, &err), 0);
        CHECK_INT(dz_wasm_run(r.store), DZ_WASM_DONE);
        CHECK_INT(dz_wasm_results(r.store)[0], answer(5, 2, 10, 2));
        rig_close(&r);
    }
}

TEST(operands_below_a_mark_are_saved_and_copied)
{
    for (int way = 0; way < RIG_WAYS; way++) {
        const struct dz_wasm_copy how = {.host = keep_host, .host_count = 1};
        struct dz_wasm_config cfg = rig_way((way + 1) % RIG_WAYS);
        struct dz_wasm_inst *inst;
        struct rig r, again;
        open_marking(&r, way, 6);
        step_to_mark(&r, 3);
        CHECK_INT(rig_save(&r, &tape, &err), 0);
        CHECK_INT(dz_wasm_copy(r.inst, &how, &inst, &err), 0);
        again = (struct rig){.module = r.module};
        CHECK_INT(rig_instantiate(&again, &cfg, keep_host, 1, &err), 0);
        CHECK_INT(rig_load(&again, &tape, &err), 0);
        struct rig all[] = {r, of(inst), again};
        for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++) {
            CHECK_INT(dz_wasm_jump(all[i].inst, tokens[0], 4, &err), 0);
            CHECK_INT(dz_wasm_run(all[i].store), DZ_WASM_DONE);
            CHECK_INT(dz_wasm_results(all[i].store)[0], answer(6, 1, 4, 3));
        }
        dz_wasm_store_free(all[1].store);
        rig_close(&again);
        rig_close(&r);
    }
}

/* While frames are aside (vfork), another program marks in their place. */
TEST(marks_stay_with_frames_that_are_aside)
{
    struct dz_wasm_frames *frames;
    struct rig r;
    open_marking(&r, 0, 6);
    step_to_mark(&r, 3);
    CHECK_INT(dz_wasm_frames_save(r.inst, &frames, &err), 0);
    CHECK_INT(dz_wasm_run(r.store), DZ_WASM_DONE);
    CHECK_INT(rig_begin(&r, 9), 0);
    CHECK_INT(dz_wasm_run(r.store), DZ_WASM_DONE);
    dz_wasm_frames_restore(r.inst, frames);
    CHECK_INT(dz_wasm_jump(r.inst, tokens[0], 4, &err), 0);
    CHECK_INT(dz_wasm_run(r.store), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(r.store)[0], answer(6, 1, 4, 3));
    rig_close(&r);
}

/* Exceptions that only frames aside refer to live on while another program throws. */
TEST(exceptions_stay_with_frames_that_are_aside)
{
    const struct dz_wasm_config cfg = {
        .dispatch = DZ_WASM_DISPATCH_SWITCH, .stack_slots = 4096, .exns_max = 6};
    struct dz_wasm_frames *frames[2];
    struct dz_wasm_pos pos[2];
    struct rig r;
    rich_park = 3;
    CHECK_INT(rich_open(&r, &cfg, &err), 0);
    CHECK_INT(rig_begin(&r, SPIN), 0);
    int spins = 0;
    do { /* to spin() below jump(): what was caught lies in a local */
        CHECK_INT(rig_step(&r), DZ_WASM_INTERRUPTED);
        spins += dz_wasm_trace(r.store, pos, 2) == 2 && pos[0].func == 3;
    } while (spins < 1 || pos[0].func != 3);
    for (int depth = 0; depth < 2; depth++) {
        CHECK_INT(dz_wasm_frames_save(r.inst, &frames[depth], &err), 0);
        dz_wasm_abandon(r.store);
        for (int round = 0; round < 20; round++) {
            CHECK_INT(rig_begin(&r, SPIN), 0);
            CHECK_INT(rich_finish(&r), DZ_WASM_DONE);
            CHECK_INT(dz_wasm_results(r.store)[0], RICH_RESULT);
        }
        CHECK_INT(rig_begin(&r, SPIN), 0);
        CHECK(rig_waits(rig_step(&r)));
    }
    for (int depth = 2; depth-- > 0;)
        dz_wasm_frames_restore(r.inst, frames[depth]);
    CHECK_INT(rich_finish(&r), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(r.store)[0], RICH_RESULT);
    rig_close(&r);
}

/* run(n) throws n, catches it and keeps the reference in a local while spin(n) counts down; then
 * throws it again and answers what it carries. */
static void keeping(struct mod *m)
{
    struct mod_bodies code = {0};
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1,
                "\x05\x60\x01\x7f\x01\x7f\x60\x00\x00\x60\x00\x02\x7f\x69"
                "\x60\x01\x7f\x00\x60\x02\x7f\x7f\x00");
    MOD_SECTION(m, 2,
                "\x02\x03"
                "env\x04mark\x00\x00\x03"
                "env\x04jump\x00\x04");
    MOD_SECTION(m, 3, "\x02\x00\x00"); /* 2 spin, 3 run */
    MOD_SECTION(m, 13, "\x01\x00\x03");
    MOD_SECTION(m, 7, "\x01\x03run\x00\x03");
    MOD_BODY(&code, "\x00\x03\x40\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x41\x07");
#define CATCH(throws) "\x02\x02\x1f\x40\x01\x01\x00\x00" throws "\x0b\x00\x0b"
    MOD_BODY(&code, "\x01\x01\x69" CATCH("\x20\x00\x08\x00") "\x21\x01\x1a"
                                                             "\x20\x00\x10\x02\x1a" CATCH(
                                                                 "\x20\x01\x0a") "\x1a");
    mod_bodies(m, &code);
}

/* The place of an exception that was forgotten is taken by another one of the same tag: what it
 * carries shows whose it is. */
TEST(an_exception_that_only_frames_aside_name_keeps_what_it_carries)
{
    const struct dz_wasm_config cfg = {
        .dispatch = DZ_WASM_DISPATCH_SWITCH, .stack_slots = 4096, .exns_max = 6};
    struct dz_wasm_frames *frames;
    struct dz_wasm_pos pos[2];
    struct mod m;
    struct rig r;
    keeping(&m);
    CHECK_INT(rig_make(&r, &m, &cfg, rich_host, DZ_ARRAY_LEN(rich_host), &err), 0);
    CHECK_INT(rig_begin(&r, 50), 0);
    CHECK_INT(rich_finish(&r), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(r.store)[0], 50);
    CHECK_INT(rig_begin(&r, 50), 0);
    for (int spins = 0; spins < 20;) {
        CHECK_INT(rig_step(&r), DZ_WASM_INTERRUPTED);
        spins += dz_wasm_trace(r.store, pos, 2) == 2 && pos[0].func == 2;
    }
    CHECK_INT(dz_wasm_frames_save(r.inst, &frames, &err), 0);
    dz_wasm_abandon(r.store);
    for (int round = 0; round < 20; round++) {
        CHECK_INT(rig_begin(&r, 1), 0);
        CHECK_INT(rich_finish(&r), DZ_WASM_DONE);
        CHECK_INT(dz_wasm_results(r.store)[0], 1);
    }
    CHECK_INT(rig_begin(&r, 1), 0);
    CHECK(rig_waits(rig_step(&r)));
    dz_wasm_frames_restore(r.inst, frames);
    CHECK_INT(rich_finish(&r), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(r.store)[0], 50);
    rig_close(&r);
}

/* run(n) throws n and catches it. The payload and the reference are operands below mark(): no
 * local has the reference. Then run() catches n other exceptions in the same two slots and answers
 * 7. After a jump that makes mark() answer 1, run() throws the reference again and answers its
 * payload. Frames aside and running frames name two exceptions each; the one that is being made is
 * the fifth, so a limit of four would trap. */
static void open_throwing(struct rig *r)
{
    const struct dz_wasm_config cfg = {
        .dispatch = DZ_WASM_DISPATCH_SWITCH, .stack_slots = 4096, .exns_max = 6};
    struct mod_bodies code = {0};
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 1,
                "\x06\x60\x00\x01\x7f"       /* 0: -> i32 */
                "\x60\x01\x7f\x01\x7f"       /* 1: i32 -> i32 */
                "\x60\x01\x7f\x00"           /* 2: i32 -> */
                "\x60\x00\x02\x7f\x69"       /* 3: -> i32 exnref */
                "\x60\x01\x69\x00"           /* 4: exnref -> */
                "\x60\x01\x69\x02\x7f\x69"); /* 5: exnref -> i32 exnref */
    MOD_SECTION(&m, 2,
                "\x01\x03"
                "env\x04mark\x00\x00");
    MOD_SECTION(&m, 3, "\x01\x01");
    MOD_SECTION(&m, 13, "\x01\x00\x02");
    MOD_SECTION(&m, 7, "\x01\x03run\x00\x01");
    MOD_BODY(&code,
             "\x01\x01\x7f"
             "\x02\x03\x1f\x40\x01\x01\x00\x00\x20\x00\x08\x00\x0b\x00\x0b" /* catch n */
             "\x10\x00\x21\x01\x20\x01\x04\x04"                             /* if mark(): */
             "\x02\x05\x1f\x04\x01\x01\x00\x00\x0a\x0b\x00\x0b\x1a\x0f"     /* throw it, return */
             "\x05\x1a\x0b\x1a"                                             /* else drop both */
             "\x03\x40\x02\x03\x1f\x40\x01\x01\x00\x00\x41\x01\x08\x00\x0b\x00\x0b\x1a\x1a"
             "\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x41\x07");
    mod_bodies(&m, &code);
    token_count = 0;
    CHECK_INT(rig_make(r, &m, &cfg, keep_host, 1, &err), 0);
    CHECK_INT(rig_begin(r, 50), 0);
}

static void step_often(const struct rig *r, int times)
{
    for (int i = 0; i < times; i++)
        CHECK_INT(rig_step(r), DZ_WASM_INTERRUPTED);
}

static void jump_for_payload(const struct rig *r)
{
    CHECK_INT(dz_wasm_jump(r->inst, tokens[0], 1, &err), 0);
    CHECK_INT(dz_wasm_run(r->store), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(r->store)[0], 50);
}

TEST(an_exception_that_only_a_mark_names_is_kept)
{
    struct rig r;
    open_throwing(&r);
    step_to_mark(&r, 1);
    step_often(&r, 30);
    jump_for_payload(&r);
    rig_close(&r);
}

TEST(an_exception_that_only_a_mark_of_frames_aside_names_is_kept)
{
    struct dz_wasm_frames *frames;
    struct rig r;
    open_throwing(&r);
    step_to_mark(&r, 1);
    step_often(&r, 4); /* the slots of the operands name another exception now */
    CHECK_INT(dz_wasm_frames_save(r.inst, &frames, &err), 0);
    dz_wasm_abandon(r.store);
    CHECK_INT(rig_begin(&r, 20), 0);
    CHECK_INT(rich_finish(&r), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(r.store)[0], 7);
    CHECK_INT(rig_begin(&r, 20), 0);
    CHECK(rig_waits(rig_step(&r)));
    dz_wasm_frames_restore(r.inst, frames);
    jump_for_payload(&r);
    rig_close(&r);
}

/* The tape's mark of tokens[0]; the tests damage it. */
static struct wasm_state_mark *mark_on_tape(size_t *ret_at)
{
    static struct wasm_state_mark row;
    for (size_t at = 0; at + sizeof row <= tape.n; at++) {
        memcpy(&row, tape.p + at, sizeof row);
        *ret_at = at;
        if (row.func == (uint32_t)tokens[0][0] && row.fp == tokens[0][0] >> 32 &&
            row.offset == tokens[0][1] >> 32 && row.count == 3)
            return &row;
    }
    return NULL;
}

/* A state whose mark has an operand less, or one more, than lies below its call. */
TEST(a_mark_with_another_number_of_operands_is_refused)
{
    for (int more = -1; more <= 1; more++) {
        struct dz_wasm_config cfg = rig_way(1);
        struct rig r, again;
        size_t at = 0;
        open_marking(&r, 1, 6);
        step_to_mark(&r, 1);
        CHECK_INT(rig_save(&r, &tape, &err), 0);
        struct wasm_state_mark *row = mark_on_tape(&at);
        CHECK(row != NULL);
        row->count += (uint32_t)more;
        memcpy(tape.p + at, row, sizeof *row);
        uint8_t *behind = tape.p + at + sizeof *row + sizeof(uint64_t);
        memmove(behind + more * (int)sizeof(uint64_t), behind, tape.n - (size_t)(behind - tape.p));
        tape.n += (size_t)(more * (int)sizeof(uint64_t));
        again = (struct rig){.module = r.module};
        CHECK_INT(rig_instantiate(&again, &cfg, keep_host, 1, &err), 0);
        CHECK_INT(rig_load(&again, &tape, &err), more ? DZ_ECORRUPT : 0);
        rig_close(&again);
        rig_close(&r);
    }
}

/* A call keeps the operands of its last 256 marks. */
TEST(marks_of_one_frame_are_bounded)
{
    struct rig r;
    open_marking(&r, 0, 350);
    step_to_mark(&r, 300);
    CHECK_INT(dz_wasm_jump(r.inst, tokens[0], 4, &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "a mark that was given up") != NULL);
    CHECK_INT(dz_wasm_jump(r.inst, tokens[43], 4, &err), DZ_EINVAL);
    CHECK_INT(dz_wasm_jump(r.inst, tokens[44], 4, &err), 0);
    CHECK_INT(dz_wasm_run(r.store), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(r.store)[0], answer(350, 45, 4, 50));
    rig_close(&r);
}

TEST(a_token_is_checked)
{
    static const uint64_t wrong[][2] = {
        {0, 1},                   /* another pattern */
        {0, UINT64_C(1) << 32},   /* another function */
        {UINT64_C(9) << 32, 0},   /* no frame there */
        {UINT64_C(1) << 62, 0},   /* outside of the stack */
        {1, 0},                   /* that is the import */
        {0, UINT64_C(1) << 16},   /* another mark */
        {0, UINT64_C(255) << 16}, /* none there */
        {0, UINT64_C(1) << 8},    /* another generation */
    };
    struct rig r;
    open_marking(&r, 0, 6);
    CHECK_INT(dz_wasm_mark(r.inst, tokens[9], &err), DZ_ESTATE); /* not in a host call */
    step_to_mark(&r, 2);
    for (size_t i = 0; i < DZ_ARRAY_LEN(wrong); i++) {
        uint64_t token[2] = {tokens[1][0] ^ wrong[i][0], tokens[1][1] ^ wrong[i][1]};
        CHECK_INT(dz_wasm_jump(r.inst, token, 1, &err), DZ_EINVAL);
        CHECK(strstr(err.msg, "jump to ") != NULL);
    }
    CHECK_INT(dz_wasm_run(r.store), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_jump(r.inst, tokens[1], 1, &err), DZ_ESTATE);
    CHECK_INT(rig_begin(&r, 3), 0); /* the frame has gone, another stands there */
    CHECK_INT(rig_step(&r), DZ_WASM_INTERRUPTED);
    CHECK_INT(dz_wasm_jump(r.inst, tokens[1], 1, &err), DZ_EINVAL);
    rig_close(&r);
}

/* --- inject ------------------------------------------------------------------------------- */

TEST(a_call_injected_at_any_safepoint_changes_nothing)
{
    for (int way = 0; way < RIG_WAYS; way++) {
        struct dz_wasm_config cfg = rig_way(way);
        uint32_t handlers = 0, running = 0;
        enum dz_wasm_stop stop;
        struct rig r;
        CHECK_INT(rich_open(&r, &cfg, &err), 0);
        CHECK_INT(rig_begin(&r, SPIN), 0);
        rich_park = 3;
        while (rig_waits(stop = rig_step(&r))) {
            uint64_t arg = 1;
            /* right behind a handler what it interrupted has not gone on yet */
            bool ended = dz_wasm_injected(r.inst) < running;
            running = dz_wasm_injected(r.inst);
            if (!ended && running < 2) {
                CHECK_INT(dz_wasm_inject(r.inst, HANDLER, &arg, 1, &err), 0);
                running++;
                handlers++;
            }
        }
        CHECK_INT(stop, DZ_WASM_DONE);
        CHECK_INT(dz_wasm_results(r.store)[0], RICH_RESULT);
        CHECK_INT(dz_wasm_injected(r.inst), 0);
        CHECK(handlers > 20);
        rig_close(&r);
    }
}

/* run(n): a try_table around a call, and right behind its end a loop that counts n down. What a
 * handler throws while the loop runs was not thrown inside of the try_table. */
TEST(what_a_handler_throws_right_behind_a_try_is_not_caught_there)
{
    for (int way = 0; way < RIG_WAYS; way++) {
        struct dz_wasm_config cfg = rig_way(way);
        struct mod_bodies code = {0};
        struct mod m = MOD_INIT;
        struct rig r;
        MOD_SECTION(&m, 1, "\x02\x60\x01\x7f\x01\x7f\x60\x00\x00");
        MOD_SECTION(&m, 3, "\x03\x01\x01\x00"); /* 0 handler, 1 nothing, 2 run */
        MOD_SECTION(&m, 13, "\x01\x00\x01");
        MOD_SECTION(&m, 7, "\x01\x03run\x00\x02");
        MOD_BODY(&code, "\x00\x08\x00");
        MOD_BODY(&code, "\x00");
        MOD_BODY(&code, "\x00\x02\x40\x1f\x40\x01\x02\x00\x10\x01\x0b"     /* catch_all */
                        "\x03\x40\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b" /* loop */
                        "\x41\x07\x0f\x0b\x41\x09");
        mod_bodies(&m, &code);
        CHECK_INT(rig_make(&r, &m, &cfg, NULL, 0, &err), 0);
        CHECK_INT(rig_begin(&r, 50), 0);
        step_often(&r, 8);
        CHECK_INT(dz_wasm_inject(r.inst, 0, NULL, 0, &err), 0);
        CHECK_INT(dz_wasm_run(r.store), DZ_WASM_UNCAUGHT);
        rig_close(&r);
    }
}

TEST(what_cannot_be_injected_is_refused)
{
    struct dz_wasm_config cfg = rig_way(0);
    uint64_t args[2] = {1, 2};
    struct rig r;
    CHECK_INT(rich_open(&r, &cfg, &err), 0);
    CHECK_INT(dz_wasm_inject(r.inst, HANDLER, args, 1, &err), DZ_ESTATE);
    CHECK_INT(rig_begin(&r, SPIN), 0);
    CHECK_INT(dz_wasm_inject(r.inst, HANDLER, args, 2, &err), DZ_EINVAL);
    CHECK_INT(dz_wasm_inject(r.inst, 99, args, 1, &err), DZ_EINVAL);
    int rc = 0;
    for (int i = 0; i < 4096 && rc == 0; i++)
        rc = dz_wasm_inject(r.inst, HANDLER, args, 1, &err);
    CHECK_INT(rc, DZ_ELIMIT);
    CHECK(strstr(err.msg, "the stack is full") != NULL);
    CHECK_INT(rich_finish(&r), DZ_WASM_DONE); /* all of them, then the program */
    CHECK_INT(dz_wasm_results(r.store)[0], RICH_RESULT);
    rig_close(&r);
}

/* --- memory that fails --------------------------------------------------------------------- */

TORTURE(copying)
{
    const struct dz_wasm_copy how = how_to();
    const struct dz_wasm_config cfg = {.dispatch = DZ_WASM_DISPATCH_SWITCH, .stack_slots = 4096};
    struct dz_wasm_inst *inst;
    struct rig r = {0};
    rich_park = 3;
    if (rich_open(&r, &cfg, NULL) == 0 && rig_begin(&r, SPIN) == 0) {
        for (int i = 0; i < 25 && rig_waits(rig_step(&r)); i++)
            ;
        if (dz_wasm_copy(r.inst, &how, &inst, &err) == 0) {
            struct rig copy = of(inst);
            (void)rich_finish(&copy);
            rig_close(&copy);
        }
        (void)rich_finish(&r);
    }
    rig_close(&r);
}

TORTURE(marking_and_injecting)
{
    const struct dz_wasm_config cfg = {.dispatch = DZ_WASM_DISPATCH_SWITCH, .stack_slots = 4096};
    uint64_t arg = 1;
    struct mod m;
    struct rig r = {0};
    marking(&m);
    token_count = 0;
    if (rig_make(&r, &m, &cfg, keep_host, 1, NULL) == 0 && rig_begin(&r, 40) == 0) {
        enum dz_wasm_stop stop = DZ_WASM_DONE;
        for (int i = 0; i < 30 && rig_waits(stop = rig_step(&r)); i++)
            if (i == 20)
                (void)dz_wasm_inject(r.inst, 1, &arg, 1, NULL);
        if (rig_waits(stop) && token_count > 3)
            (void)dz_wasm_jump(r.inst, tokens[2], 1, NULL);
        stop = dz_wasm_run(r.store);
        CHECK(stop == DZ_WASM_DONE || stop == DZ_WASM_TRAPPED);
    }
    rig_close(&r);
}
