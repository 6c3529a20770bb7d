/* SPDX-License-Identifier: MIT
 *
 * t_wasm_exec.c - running: traps and where they are, limits, the depth of calls,
 * frames of any size, fuel, long operations, tables with a first element. What
 * instructions compute is the specification's own tests' matter (make spec).
 */
#define TAP_ALARM_S 90 /* functions of 65,536 slots, under sanitizers */
#include "wasm_rig.h"

static struct dz_err err;

/* run: i32 -> i32 from one body, with a page of memory and a table of two, the
 * second element null. */
static void one_body(struct mod *m, const void *body, size_t size)
{
    struct mod_bodies code = {0};
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1, "\x02\x60\x01\x7f\x01\x7f\x60\x01\x7e\x01\x7e");
    MOD_SECTION(m, 3, "\x01\x00");
    MOD_SECTION(m, 4, "\x01\x70\x01\x02\x04");
    MOD_SECTION(m, 5, "\x01\x01\x01\x03");
    MOD_SECTION(m, 7, "\x01\x03run\x00\x00");
    MOD_SECTION(m, 9, "\x01\x00\x41\x00\x0b\x01\x00");
    mod_body(&code, body, size);
    mod_bodies(m, &code);
}
#define ONE_BODY(m, literal) one_body((m), literal, sizeof(literal) - 1)

static enum dz_wasm_stop run_to_end(const struct rig *r)
{
    enum dz_wasm_stop stop;
    do
        stop = dz_wasm_run(r->store);
    while (rig_waits(stop));
    return stop;
}

/* run(arg) in every way; the result, or 1000 + the trap's kind. */
static uint64_t result_of(const struct mod *m, uint64_t arg, const struct dz_wasm_config *like)
{
    uint64_t answer[RIG_WAYS];
    for (int way = 0; way < RIG_WAYS; way++) {
        struct dz_wasm_config cfg = rig_way(way);
        struct rig r;
        if (like) {
            cfg.stack_slots = like->stack_slots ? like->stack_slots : cfg.stack_slots;
            cfg.call_depth = like->call_depth;
            cfg.memory_pages_max = like->memory_pages_max;
            cfg.table_max = like->table_max;
            cfg.exns_max = like->exns_max;
        }
        CHECK_INT(rig_make(&r, m, &cfg, NULL, 0, &err), 0);
        CHECK_INT(rig_begin(&r, arg), 0);
        answer[way] = run_to_end(&r) == DZ_WASM_DONE
                          ? dz_wasm_results(r.store)[0]
                          : 1000 + (uint64_t)dz_wasm_trap_get(r.store).kind;
        rig_close(&r);
    }
    CHECK_INT(answer[1], answer[0]);
    CHECK_INT(answer[2], answer[0]);
    return answer[0];
}

/* --- traps ----------------------------------------------------------------------------- */

TEST(a_trap_says_what_and_where)
{
    static const struct {
        const char *code; /* after "local.get 0" as operand where there is one */
        size_t size, at;  /* of the body; where in it the trap is */
        enum dz_wasm_trap_kind kind;
    } rows[] = {
#define ROW(literal, at, kind) {literal, sizeof(literal) - 1, at, DZ_WASM_TRAP_##kind}
        ROW("\x00\x00", 1, UNREACHABLE),
        ROW("\x00\x20\x00\x41\x00\x6d", 5, DIV_ZERO),
        ROW("\x00\x41\x80\x80\x80\x80\x78\x41\x7f\x6d", 9, INT_OVERFLOW),
        ROW("\x00\x20\x00\x28\x02\xfd\xff\x03", 3, OOB_MEMORY),
        ROW("\x00\x20\x00\x20\x00\x36\x02\xfd\xff\x03\x41\x00", 5, OOB_MEMORY),
        ROW("\x00\x43\x00\x00\xc0\x7f\xa8", 6, BAD_CONVERSION),
        ROW("\x00\x43\x00\x00\x00\x4f\xa8", 6, INT_OVERFLOW),
        ROW("\x00\x20\x00\x41\x02\x11\x00\x00", 5, UNDEFINED_ELEMENT),
        ROW("\x00\x20\x00\x41\x01\x11\x00\x00", 5, NULL_ELEMENT),
        ROW("\x00\x42\x00\x41\x00\x11\x01\x00\xa7", 5, BAD_SIGNATURE),
        ROW("\x00\x41\x09\x25\x00\xd1", 3, OOB_TABLE),
        ROW("\x00\xd0\x69\x0a", 3, NULL_EXN),
        ROW("\x00\x41\x00\x41\x00\x41\x81\x80\x04\xfc\x0b\x00\x41\x00", 9, OOB_MEMORY),
        ROW("\x00\x20\x00\x41\x02\x13\x00\x00", 5, UNDEFINED_ELEMENT),
#undef ROW
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++)
        for (int way = 0; way < RIG_WAYS; way++) {
            struct dz_wasm_config cfg = rig_way(way);
            struct dz_wasm_pos pos[2];
            struct mod m;
            struct rig r;
            one_body(&m, rows[i].code, rows[i].size);
            CHECK_INT(rig_make(&r, &m, &cfg, NULL, 0, &err), 0);
            CHECK_INT(rig_begin(&r, 0), 0);
            CHECK_INT(run_to_end(&r), DZ_WASM_TRAPPED);
            struct dz_wasm_trap trap = dz_wasm_trap_get(r.store);
            CHECK_INT(trap.kind, rows[i].kind);
            CHECK_INT(trap.at.func, 0);
            CHECK_INT(trap.at.offset, r.module->funcs[0].body + rows[i].at);
            CHECK_INT(dz_wasm_trace(r.store, pos, 2), 1);
            rig_close(&r);
        }
}

/* f(n) = n ? f(n - 1) : 1 / 0 */
TEST(a_trap_is_traced_to_the_first_frame)
{
    for (int way = 0; way < RIG_WAYS; way++) {
        struct dz_wasm_config cfg = rig_way(way);
        struct dz_wasm_pos pos[10];
        struct mod m;
        struct rig r;
        ONE_BODY(&m, "\x00\x20\x00\x45\x04\x7f\x41\x01\x41\x00\x6d\x05\x20\x00\x41\x01\x6b"
                     "\x10\x00\x0b");
        CHECK_INT(rig_make(&r, &m, &cfg, NULL, 0, &err), 0);
        CHECK_INT(rig_begin(&r, 6), 0);
        CHECK_INT(run_to_end(&r), DZ_WASM_TRAPPED);
        CHECK_INT(dz_wasm_trace(r.store, pos, 10), 7);
        CHECK_INT(pos[0].offset, r.module->funcs[0].body + 10);
        CHECK_INT(pos[6].offset, r.module->funcs[0].body + 19);
        rig_close(&r);
    }
}

/* --- limits ---------------------------------------------------------------------------- */

/* deep(n) = n ? deep(n - 1) : 5 */
static void deep(struct mod *m)
{
    ONE_BODY(m, "\x00\x20\x00\x45\x04\x7f\x41\x05\x05\x20\x00\x41\x01\x6b\x10\x00\x0b");
}
/* the same by a tail call */
static void flat(struct mod *m)
{
    ONE_BODY(m, "\x00\x20\x00\x45\x04\x7f\x41\x05\x05\x20\x00\x41\x01\x6b\x12\x00\x0b");
}

TEST(the_stack_ends_in_a_trap)
{
    struct mod m;
    deep(&m);
    CHECK_INT(result_of(&m, 100, NULL), 5);
    CHECK_INT(result_of(&m, 5000, NULL), 1000 + DZ_WASM_TRAP_STACK);
    flat(&m);
    CHECK_INT(result_of(&m, 50000, NULL), 5);
}

TEST(calls_have_a_depth)
{
    const struct dz_wasm_config ten = {.call_depth = 10};
    struct mod m;
    deep(&m);
    CHECK_INT(result_of(&m, 9, &ten), 5);
    CHECK_INT(result_of(&m, 10, &ten), 1000 + DZ_WASM_TRAP_STACK);
    flat(&m);
    CHECK_INT(result_of(&m, 1000, &ten), 5);
}

/* After frames have gone, by a return, by an exception or by a jump, their places
 * count for nothing; frames that came with a state or a copy count. */
TEST(the_depth_of_calls_is_kept_everywhere)
{
    static struct tape tape;
    struct dz_wasm_config cfg = rig_way(1);
    struct rig r, again;
    struct dz_wasm_inst *copy;
    cfg.call_depth = 3; /* run, throws, spin */
    CHECK_INT(rich_open(&r, &cfg, &err), 0);
    for (int round = 0; round < 3; round++) {
        CHECK_INT(rig_begin(&r, 2), 0);
        CHECK_INT(rich_finish(&r), DZ_WASM_DONE);
        CHECK_INT(dz_wasm_results(r.store)[0], RICH_RESULT);
    }
    cfg.call_depth = 2;
    CHECK_INT(rich_again(&again, &r, &cfg), 0);
    CHECK_INT(rig_begin(&again, 2), 0);
    CHECK_INT(rich_finish(&again), DZ_WASM_TRAPPED);
    CHECK_INT(dz_wasm_trap_get(again.store).kind, DZ_WASM_TRAP_STACK);

    CHECK_INT(rig_begin(&r, 2), 0);
    struct dz_wasm_pos pos[4];
    do
        CHECK(rig_waits(rig_step(&r)));
    while (dz_wasm_trace(r.store, pos, 4) < 3);
    CHECK_INT(rig_save(&r, &tape, &err), 0);
    dz_wasm_abandon(again.store);
    CHECK_INT(rig_load(&again, &tape, &err), DZ_ELIMIT);
    CHECK(strstr(err.msg, "3 calls are under way, the limit is 2") != NULL);
    rig_close(&again);
    const struct dz_wasm_copy how = {.host = rich_host, .host_count = 3};
    CHECK_INT(dz_wasm_copy(r.inst, &how, &copy, &err), 0);
    struct rig of_copy = {.store = dz_wasm_inst_store(copy), .inst = copy};
    CHECK_INT(rich_finish(&of_copy), DZ_WASM_DONE);
    /* one more above three is one too many, wherever it comes from */
    uint64_t one = 1;
    CHECK_INT(dz_wasm_inject(r.inst, 6, &one, 1, &err), 0);
    CHECK_INT(rich_finish(&r), DZ_WASM_TRAPPED);
    dz_wasm_store_free(of_copy.store);
    rig_close(&r);
}

TEST(memories_and_tables_have_limits)
{
    const struct dz_wasm_config two = {.memory_pages_max = 2, .table_max = 3};
    struct mod m;
    struct rig r;
    ONE_BODY(&m, "\x00\x20\x00\x40\x00"); /* memory.grow: 1 of at most 3 pages */
    CHECK_INT(result_of(&m, 1, NULL), 1);
    CHECK_INT(result_of(&m, 2, NULL), 1);
    CHECK_INT(result_of(&m, 3, NULL), UINT32_MAX);
    CHECK_INT(result_of(&m, 1, &two), 1);
    CHECK_INT(result_of(&m, 2, &two), UINT32_MAX);
    ONE_BODY(&m, "\x00\x20\x00\x40\x00\x1a" /* what has grown is there at once */
                 "\x41\x80\x80\x04\x41\x09\x36\x02\x00\x41\x80\x80\x04\x28\x02\x00");
    CHECK_INT(result_of(&m, 0, NULL), 1000 + DZ_WASM_TRAP_OOB_MEMORY);
    CHECK_INT(result_of(&m, 1, NULL), 9);
    ONE_BODY(&m, "\x00\xd0\x70\x20\x00\xfc\x0f\x00"); /* table.grow: 2 of at most 4 */
    CHECK_INT(result_of(&m, 2, NULL), 2);
    CHECK_INT(result_of(&m, 3, NULL), UINT32_MAX);
    CHECK_INT(result_of(&m, 1, &two), 2);
    CHECK_INT(result_of(&m, 2, &two), UINT32_MAX);
    const struct dz_wasm_config one = {.table_max = 1};
    CHECK_INT(rig_make(&r, &m, &one, NULL, 0, &err), DZ_ELIMIT);
    CHECK(strstr(err.msg, "table 0 wants 2 elements, the limit is 1") != NULL);
    rig_close(&r);
    const struct dz_wasm_config wild = {.stack_slots = 3};
    struct dz_wasm_store *store;
    CHECK_INT(dz_wasm_store_new(&wild, &store, &err), DZ_EINVAL);
}

/* (tag) (table 8 exnref) run(n): throw n times, keep each in the table */
TEST(exceptions_that_live_have_a_limit)
{
    const struct dz_wasm_config few = {.exns_max = 4};
    struct mod_bodies code = {0};
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 1, "\x02\x60\x01\x7f\x01\x7f\x60\x00\x00");
    MOD_SECTION(&m, 3, "\x01\x00");
    MOD_SECTION(&m, 4, "\x01\x69\x00\x08");
    MOD_SECTION(&m, 13, "\x01\x00\x01");
    MOD_SECTION(&m, 7, "\x01\x03run\x00\x00");
    MOD_BODY(&code, "\x00\x03\x40\x20\x00\x41\x07\x71"                 /* loop: n & 7 */
                    "\x02\x69\x1f\x40\x01\x03\x00\x08\x00\x0b\x00\x0b" /* throw, catch */
                    "\x26\x00\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x41\x01");
    mod_bodies(&m, &code);
    CHECK_INT(result_of(&m, 4, &few), 1);
    CHECK_INT(result_of(&m, 5, &few), 1000 + DZ_WASM_TRAP_EXN_LIMIT);
    CHECK_INT(result_of(&m, 3000, NULL), 1); /* what is overwritten is used again */
}

/* (tag exnref) run(n): n times throw what carries the one before, which is forgotten when
 * four hang together */
TEST(an_exception_keeps_those_it_carries)
{
    const struct dz_wasm_config eight = {.exns_max = 8}, three = {.exns_max = 3};
    struct mod_bodies code = {0};
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 1, "\x03\x60\x01\x7f\x01\x7f\x60\x01\x69\x00\x60\x00\x02\x69\x69");
    MOD_SECTION(&m, 3, "\x01\x00");
    MOD_SECTION(&m, 13, "\x01\x00\x01");
    MOD_SECTION(&m, 7, "\x01\x03run\x00\x00");
    MOD_BODY(&code, "\x01\x01\x69\x03\x40\x02\x02\x1f\x40\x01\x01\x00\x00" /* catch_ref */
                    "\x20\x01\x08\x00\x0b\x00\x0b\x21\x01\x1a"             /* e = throw (e) */
                    "\x20\x00\x41\x03\x71\x45\x04\x40\xd0\x69\x21\x01\x0b" /* n & 3 == 0 */
                    "\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x41\x01");
    mod_bodies(&m, &code);
    CHECK_INT(result_of(&m, 3000, &eight), 1); /* what slots still name may live, too */
    CHECK_INT(result_of(&m, 3000, &three), 1000 + DZ_WASM_TRAP_EXN_LIMIT);
}

/* (tag i32) (global exnref) run(n): throw 50 and keep the exception in the global alone; throw and
 * forget n others; throw what the global names and answer what it carries. */
TEST(an_exception_that_only_a_global_names_is_kept)
{
    const struct dz_wasm_config four = {.exns_max = 4};
    struct mod_bodies code = {0};
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 1, "\x03\x60\x01\x7f\x01\x7f\x60\x01\x7f\x00\x60\x00\x02\x7f\x69");
    MOD_SECTION(&m, 3, "\x01\x00");
    MOD_SECTION(&m, 13, "\x01\x00\x01");
    MOD_SECTION(&m, 6, "\x01\x69\x01\xd0\x69\x0b");
    MOD_SECTION(&m, 7, "\x01\x03run\x00\x00");
    MOD_BODY(&code,
             "\x00\x02\x02\x1f\x40\x01\x01\x00\x00\x41\x32\x08\x00\x0b\x00\x0b" /* catch 50 */
             "\x24\x00\x1a"                                                     /* global = e */
             "\x03\x40\x02\x02\x1f\x40\x01\x01\x00\x00\x41\x01\x08\x00\x0b\x00\x0b\x1a\x1a"
             "\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b" /* n times: catch 1, drop it */
             "\x02\x02\x1f\x40\x01\x01\x00\x00\x23\x00\x0a\x0b\x00\x0b\x1a"); /* throw global */
    mod_bodies(&m, &code);
    CHECK_INT(result_of(&m, 20, &four), 50);
}

/* --- frames of any size ------------------------------------------------------------------ */

enum {
    FAR = 66000, /* locals, and operands: more than 16 bits can name */
};

struct bytes {
    uint8_t *p;
    size_t n;
};
static void put(struct bytes *b, const void *p, size_t n)
{
    b->p = dz_realloc(b->p, b->n + n);
    memcpy(b->p + b->n, p, n);
    b->n += n;
}
#define PUT(b, literal) put((b), literal, sizeof(literal) - 1)
static void put_u32(struct bytes *b, uint32_t v)
{
    uint8_t leb[5] = {(uint8_t)(v | 0x80), (uint8_t)(v >> 7 | 0x80), (uint8_t)(v >> 14 | 0x80),
                      (uint8_t)(v >> 21 | 0x80), (uint8_t)(v >> 28)};
    put(b, leb, sizeof leb);
}
static void put_section(struct bytes *b, uint8_t id, struct bytes *payload)
{
    put(b, &id, 1);
    put_u32(b, (uint32_t)payload->n);
    put(b, payload->p, payload->n);
    dz_free(payload->p);
    *payload = (struct bytes){0};
}
/* run: i32 -> i32, spin: (i32 i64) -> i64; a tag with an i64; memory; a table {run, spin} */
static struct bytes far_module(struct bytes *body)
{
    struct bytes m = {0}, part = {0};
    PUT(&m, "\0asm\x01\0\0\0");
    PUT(&m, "\x01\x10\x03\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7e\x01\x7e\x60\x01\x7e\x00");
    PUT(&m, "\x03\x03\x02\x00\x01\x04\x04\x01\x70\x00\x02\x05\x03\x01\x00\x30");
    PUT(&m, "\x0d\x03\x01\x00\x02\x07\x07\x01\x03run\x00\x00");
    PUT(&m, "\x09\x08\x01\x00\x41\x00\x0b\x02\x00\x01");
    PUT(&part, "\x02");
    put_u32(&part, (uint32_t)body->n);
    put(&part, body->p, body->n);
    /* spin: for (i = p0; i; i--) p1 += 3; answer p1 */
    PUT(&part, "\x17\x00\x03\x40\x20\x01\x42\x03\x7c\x21\x01\x20\x00\x41\x01\x6b\x22\x00\x0d\x00"
               "\x0b\x20\x01\x0b");
    put_section(&m, 10, &part);
    dz_free(body->p);
    return m;
}

/* Finish in one go; then again, stopped at every safepoint and moved to a new
 * store, of the other dispatch, each time. */
static void far_run(struct bytes *body, uint64_t arg, uint64_t want)
{
    struct bytes m = far_module(body);
    static struct tape tape;
    struct dz_wasm_config cfg = {.stack_slots = 1 << 18, .call_depth = 2};
    struct rig r;
    uint32_t stops = 0;
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), 0);
    CHECK_INT(rig_begin(&r, arg), 0);
    CHECK_INT(run_to_end(&r), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(r.store)[0], want);
    CHECK_INT(rig_begin(&r, arg), 0);
    while (rig_waits(rig_step(&r))) {
        if (stops++ % 5)
            continue;
        CHECK_INT(rig_save(&r, &tape, &err), 0);
        dz_wasm_store_free(r.store);
        cfg.dispatch = stops % 2 ? DZ_WASM_DISPATCH_SWITCH : DZ_WASM_DISPATCH_GOTO;
        CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), 0);
        CHECK_INT(rig_load(&r, &tape, &err), 0);
    }
    CHECK(stops > 8);
    CHECK_INT(dz_wasm_results(r.store)[0], want);
    rig_close(&r);
    dz_free(m.p);
}

/* Its first cell is the one that the call returns to. */
TEST(a_loop_right_behind_a_call)
{
    struct bytes m = {0};
    static struct tape tape;
    struct dz_wasm_config cfg = {.stack_slots = 1024};
    struct rig r;
    int stops = 0;
    PUT(&m, "\0asm\x01\0\0\0\x01\x09\x02\x60\x01\x7f\x01\x7f\x60\x00\x00");
    PUT(&m, "\x03\x03\x02\x00\x01\x07\x07\x01\x03run\x00\x00");
    /* call f; do { p0-- } while (p0); answer 42 */
    PUT(&m, "\x0a\x17\x02\x12\x00\x10\x01\x03\x40\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b"
            "\x41\x2a\x0b\x02\x00\x0b");
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), 0);
    CHECK_INT(rig_begin(&r, 20), 0);
    while (rig_waits(rig_step(&r))) {
        CHECK_INT(rig_save(&r, &tape, &err), 0);
        dz_wasm_store_free(r.store);
        cfg.dispatch = ++stops % 2 ? DZ_WASM_DISPATCH_SWITCH : DZ_WASM_DISPATCH_GOTO;
        CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), 0);
        CHECK_INT(rig_load(&r, &tape, &err), 0);
    }
    CHECK(stops > 18);
    CHECK_INT(dz_wasm_results(r.store)[0], 42);
    rig_close(&r);
    dz_free(m.p);
}

/* local.get, local.set or local.tee of a far local */
static void put_local(struct bytes *b, uint8_t op, uint32_t index)
{
    put(b, &op, 1);
    put_u32(b, index);
}
enum {
    GET = 0x20,
    SET = 0x21,
    TEE = 0x22,
};
static void put_far_locals(struct bytes *b)
{
    PUT(b, "\x02");
    put_u32(b, FAR);
    PUT(b, "\x7e");
    put_u32(b, 1);
    PUT(b, "\x7f");
}

/* In a module of many functions the translator looks ahead for bytes that look like calls:
 * numbers that are none, of every length and right before the end. */
TEST(bytes_that_look_like_calls_change_nothing)
{
    struct bytes m = {0}, part = {0};
    enum {
        FUNCS = 1100, /* 0x44c */
    };
    PUT(&m, "\0asm\x01\0\0\0\x01\x05\x01\x60\x00\x01\x7f");
    put_u32(&part, FUNCS);
    for (int i = 0; i < FUNCS; i++)
        PUT(&part, "\x00");
    put_section(&m, 3, &part);
    PUT(&m, "\x07\x07\x01\x03run\x00\x00");
    put_u32(&part, FUNCS);
    PUT(&part, "\x15\x00\x10\xcb\x08\x10\x10\x6a\x10\xcb\x88\x80\x00\x6a"
               "\x41\x90\xa0\xc0\x80\x01\x6a\x0b"); /* f1099 + f16 + f1099 + 0x10101010 */
    for (int i = 1; i < FUNCS; i++)
        PUT(&part, "\x04\x00\x41\x10\x0b");
    put_section(&m, 10, &part);
    for (int way = 0; way < RIG_WAYS; way++) {
        struct dz_wasm_config cfg = rig_way(way);
        struct rig r;
        CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
        CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), 0);
        CHECK_INT(rig_call(&r, "run", NULL, 0), 0);
        CHECK_INT(run_to_end(&r), DZ_WASM_DONE);
        CHECK_INT(dz_wasm_results(r.store)[0], 0x10101010 + 48);
        rig_close(&r);
    }
    dz_free(m.p);
}

TEST(locals_that_16_bits_cannot_name)
{
    struct bytes b = {0};
    put_far_locals(&b);
    PUT(&b, "\x20\x00\xad"); /* the last i64 = n */
    put_local(&b, SET, FAR);
    PUT(&b, "\x41\x00\x41\x00\x41\x80\x80\x28\xfc\x0b\x00\x41\x05"); /* fill; i32 = 5 */
    put_local(&b, SET, FAR + 1);
    PUT(&b, "\x03\x40"); /* five times: + 1 */
    put_local(&b, GET, FAR);
    PUT(&b, "\x42\x01\x7c");
    put_local(&b, SET, FAR);
    put_local(&b, GET, FAR + 1);
    PUT(&b, "\x41\x01\x6b");
    put_local(&b, TEE, FAR + 1);
    PUT(&b, "\x0d\x00\x0b\x41\x04"); /* spin(4): + 12 */
    put_local(&b, GET, FAR);
    PUT(&b, "\x10\x01");
    put_local(&b, SET, FAR - 1);
    PUT(&b, "\x41\x02"); /* spin(2) through the table: + 6 */
    put_local(&b, GET, FAR - 1);
    PUT(&b, "\x41\x01\x11\x01\x00");
    put_local(&b, SET, FAR - 2);
    PUT(&b, "\x02\x7e\x1f\x40\x01\x00\x00\x00"); /* thrown, caught */
    put_local(&b, GET, FAR - 2);
    PUT(&b, "\x08\x00\x0b\x00\x0b");
    put_local(&b, SET, FAR - 3);
    PUT(&b, "\x02\x7e"); /* through a br_table */
    put_local(&b, GET, FAR - 3);
    PUT(&b, "\x20\x00\x0e\x01\x00\x00\x0b");
    PUT(&b, "\x20\x00\x04\x7e\x42\x01\x05\x42\x02\x0b\x7c\xa7\x0b"); /* + (n ? 1 : 2) */
    struct bytes again = {0};
    put(&again, b.p, b.n);
    far_run(&b, 1000, 1000 + 5 + 12 + 6 + 1);
    far_run(&again, 0, 5 + 12 + 6 + 2);
}

TEST(operands_that_16_bits_cannot_name)
{
    struct bytes b = {0};
    PUT(&b, "\x00");
    for (int i = 0; i < FAR; i++)
        PUT(&b, "\x41\x01");
    PUT(&b, "\x41\x09\x42\x05\x10\x01\xa7"); /* spin(9, 5) above them: 32 */
    for (int i = 0; i < FAR; i++)
        PUT(&b, "\x6a");
    PUT(&b, "\x20\x00\x6a\x0b");
    far_run(&b, 8, FAR + 32 + 8);
}

TEST(tail_calls_of_frames_that_16_bits_cannot_name)
{
    struct bytes b = {0};
    put_far_locals(&b);
    PUT(&b, "\x20\x00\x04\x40\x20\x00\x41\x01\x71\x04\x40\x20\x00\x41\x01\x6b\x12\x00\x0b"
            "\x20\x00\x41\x01\x6b\x41\x00\x13\x00\x00\x0b\x41\xcd\x00\x0b");
    far_run(&b, 15, 77);
}

TEST(a_frame_too_large_for_the_stack_traps)
{
    struct bytes b = {0}, m;
    struct dz_wasm_config cfg = {.stack_slots = 4096};
    struct rig r;
    put_far_locals(&b);
    PUT(&b, "\x41\x00\x0b");
    m = far_module(&b);
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), 0);
    CHECK_INT(rig_begin(&r, 0), 0);
    CHECK_INT(run_to_end(&r), DZ_WASM_TRAPPED);
    CHECK_INT(dz_wasm_trap_get(r.store).kind, DZ_WASM_TRAP_STACK);
    rig_close(&r);
    dz_free(m.p);
}

/* --- fuel ------------------------------------------------------------------------------------ */

TEST(fuel_ends_at_the_same_place_everywhere)
{
    struct dz_wasm_pos place[RIG_WAYS][8];
    size_t depth[RIG_WAYS];
    struct mod m;
    deep(&m);
    for (int way = 0; way < RIG_WAYS; way++) {
        struct dz_wasm_config cfg = rig_way(way);
        struct rig r;
        int stops = 0;
        cfg.fuel = true;
        CHECK_INT(rig_make(&r, &m, &cfg, NULL, 0, &err), 0);
        CHECK_INT(rig_begin(&r, 200), 0);
        dz_wasm_fuel_set(r.store, 40);
        CHECK_INT(dz_wasm_run(r.store), DZ_WASM_OUT_OF_FUEL);
        CHECK_INT(dz_wasm_run(r.store), DZ_WASM_OUT_OF_FUEL); /* without more it stays */
        depth[way] = dz_wasm_trace(r.store, place[way], 8);
        CHECK_INT(depth[way], depth[0]);
        CHECK(memcmp(place[way], place[0], sizeof place[0][0]) == 0);
        enum dz_wasm_stop stop;
        do {
            dz_wasm_fuel_set(r.store, 100);
            stop = dz_wasm_run(r.store);
            stops++;
        } while (stop == DZ_WASM_OUT_OF_FUEL);
        CHECK_INT(stop, DZ_WASM_DONE);
        CHECK_INT(dz_wasm_results(r.store)[0], 5);
        CHECK(stops > 10 && dz_wasm_fuel(r.store) < 100);
        rig_close(&r);
    }
}

/* --- long operations ----------------------------------------------------------------------------
 */

TEST(a_long_operation_stops_in_the_middle)
{
    for (int way = 0; way < RIG_WAYS; way++) {
        struct dz_wasm_config cfg = rig_way(way);
        struct dz_wasm_pos pos;
        struct rig r;
        uint32_t offset = 0;
        int met = 0;
        CHECK_INT(rich_open(&r, &cfg, &err), 0);
        CHECK_INT(rig_begin(&r, 1), 0);
        for (enum dz_wasm_stop stop; (stop = rig_step(&r)) == DZ_WASM_INTERRUPTED;) {
            CHECK(dz_wasm_trace(r.store, &pos, 1) > 0);
            if (pos.func == 5 && pos.offset > r.module->funcs[5].code) {
                offset = pos.offset;
                met++;
            }
        }
        CHECK_INT(met, 2); /* 2.5 MiB by the MiB */
        CHECK_INT(r.module->wasm[offset], 0xfc);
        rig_close(&r);
    }
}

/* --- tables with a first element
 * ------------------------------------------------------------------ */

/* (table 3 funcref (ref.func 0)) and (table 2 exnref (ref.null exn)); run(i): call through it */
TEST(a_table_begins_with_its_element)
{
    struct mod_bodies code = {0};
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 1, "\x02\x60\x01\x7f\x01\x7f\x60\x00\x01\x7f");
    MOD_SECTION(&m, 3, "\x02\x01\x00");
    MOD_SECTION(&m, 4, "\x02\x40\x00\x70\x00\x03\xd2\x00\x0b\x40\x00\x69\x01\x02\x05\xd0\x69\x0b");
    MOD_SECTION(&m, 7, "\x01\x03run\x00\x01");
    MOD_BODY(&code, "\x00\x41\x0b");
    MOD_BODY(&code, "\x00\x20\x00\x11\x01\x00");
    mod_bodies(&m, &code);
    CHECK_INT(result_of(&m, 0, NULL), 11);
    CHECK_INT(result_of(&m, 2, NULL), 11);
    CHECK_INT(result_of(&m, 3, NULL), 1000 + DZ_WASM_TRAP_UNDEFINED_ELEMENT);
}

/* The element may be an imported global, nothing else that comes later. */
TEST(a_table_begins_with_an_imported_global)
{
    struct mod give = MOD_INIT, take = MOD_INIT, late = MOD_INIT;
    struct mod_bodies code = {0};
    struct dz_wasm_inst *inst;
    struct rig a, b;
    MOD_SECTION(&give, 1, "\x01\x60\x00\x01\x7f");
    MOD_SECTION(&give, 3, "\x01\x00");
    MOD_SECTION(&give, 6, "\x01\x70\x00\xd2\x00\x0b");
    MOD_SECTION(&give, 7, "\x01\x01g\x03\x00");
    MOD_CODE(&give, "\x41\x0d");
    MOD_SECTION(&take, 1, "\x02\x60\x00\x01\x7f\x60\x01\x7f\x01\x7f");
    MOD_SECTION(&take, 2, "\x01\x01m\x01g\x03\x70\x00");
    MOD_SECTION(&take, 3, "\x01\x01");
    MOD_SECTION(&take, 4, "\x01\x40\x00\x70\x00\x04\x23\x00\x0b");
    MOD_SECTION(&take, 7, "\x01\x03run\x00\x00");
    MOD_BODY(&code, "\x00\x20\x00\x11\x00\x00");
    mod_bodies(&take, &code);
    CHECK_INT(rig_make(&a, &give, NULL, NULL, 0, &err), 0);
    CHECK_INT(dz_wasm_register(a.store, "m", a.inst, &err), 0);
    CHECK_INT(rig_prepare(&b, take.p, take.n, &err), 0);
    CHECK_INT(dz_wasm_instantiate(a.store, b.module, NULL, &inst, &err), 0);
    uint64_t last = 3;
    CHECK_INT(dz_wasm_begin(inst, 0, &last, 1, &err), 0);
    CHECK_INT(dz_wasm_run(a.store), DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(a.store)[0], 13);
    dz_wasm_store_free(a.store);
    a.store = NULL;
    rig_close(&b);
    rig_close(&a);

    MOD_SECTION(&late, 4, "\x01\x40\x00\x70\x00\x04\x23\x00\x0b");
    MOD_SECTION(&late, 6, "\x01\x70\x00\xd0\x70\x0b");
    CHECK_INT(dz_wasm_validate(late.p, late.n, DZ_WASM_F_ALL, NULL, &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "unknown global 0") != NULL);
}

/* --- memory that fails
 * ----------------------------------------------------------------------------- */

TORTURE(running)
{
    struct rig r;
    const struct dz_wasm_config cfg = {
        .dispatch = DZ_WASM_DISPATCH_SWITCH, .stack_slots = 4096, .call_depth = 8};
    if (rich_open(&r, &cfg, NULL) == 0 && rig_begin(&r, 3) == 0) {
        enum dz_wasm_stop stop = rich_finish(&r);
        if (stop == DZ_WASM_DONE)
            CHECK_INT(dz_wasm_results(r.store)[0], RICH_RESULT);
        else
            CHECK(stop == DZ_WASM_TRAPPED &&
                  (dz_wasm_trap_get(r.store).kind == DZ_WASM_TRAP_NOMEM ||
                   dz_wasm_trap_get(r.store).kind == DZ_WASM_TRAP_HOST));
    }
    rig_close(&r);
}
