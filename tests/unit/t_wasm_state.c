/* SPDX-License-Identifier: MIT
 *
 * t_wasm_state.c - states: what is saved at any safepoint goes on elsewhere and
 * is saved again as the same bytes; a damaged or hostile one is refused in words
 * or runs like any program, and does no harm.
 */
#include "wasm/wasm_rt.h"
#include "wasm_rig.h"

static struct dz_err err;
static struct tape tape;

enum {
    FUEL = 5000,
    SPIN = 2,
};

/* Small, metered, by the switch: what a hostile state is loaded into. */
static struct dz_wasm_config cage(void)
{
    return (struct dz_wasm_config){.dispatch = DZ_WASM_DISPATCH_SWITCH,
                                   .stack_slots = 1024,
                                   .memory_pages_max = 64,
                                   .table_max = 512,
                                   .exns_max = 8,
                                   .call_depth = 40,
                                   .fuel = true};
}

/* Run what was loaded for a while, looking at it from all sides. */
static void use(const struct rig *r)
{
    struct dz_wasm_pos pos[8];
    static struct tape again;
    enum dz_wasm_stop stop;
    int rounds = 0;
    dz_wasm_fuel_set(r->store, FUEL);
    CHECK_INT(rig_save_part(r, false, &again, &err), 0);
    do {
        dz_wasm_interrupt(r->store);
        stop = dz_wasm_run(r->store);
        (void)dz_wasm_trace(r->store, pos, DZ_ARRAY_LEN(pos));
    } while (rig_waits(stop) && stop != DZ_WASM_OUT_OF_FUEL && ++rounds < 200);
    dz_wasm_abandon(r->store);
}

/* --- what is good --------------------------------------------------------------------- */

/* What the tape holds goes on in a fresh store, which takes r's place. */
static void move_on(struct rig *r, const struct rig *first, const struct dz_wasm_config *cfg)
{
    struct rig next;
    CHECK_INT(rich_again(&next, first, cfg), 0);
    CHECK_INT(rig_load(&next, &tape, &err), 0);
    rig_close(r);
    *r = next;
}

/* At every safepoint: into a fresh store in another way, saved there again, on. */
static void move_everywhere(int first_way, bool handler)
{
    static struct tape second;
    struct dz_wasm_config cfg = rig_way(first_way);
    struct rig first, r;
    uint32_t moves = 0;
    enum dz_wasm_stop stop;
    CHECK_INT(rich_open(&first, &cfg, &err), 0);
    CHECK_INT(rich_again(&r, &first, &cfg), 0);
    CHECK_INT(rig_begin(&r, SPIN), 0);
    rich_park = 0;
    while (rig_waits(stop = rig_step(&r))) {
        uint64_t arg = SPIN;
        if (stop == DZ_WASM_BLOCKED)
            rich_park = 3;
        if (handler && dz_wasm_injected(r.inst) == 0 && moves % 5 == 0)
            CHECK_INT(dz_wasm_inject(r.inst, 6, &arg, 1, &err), 0);
        CHECK_INT(rig_save(&r, &tape, &err), 0);
        cfg = rig_way((int)(++moves % RIG_WAYS));
        move_on(&r, &first, &cfg);
        CHECK_INT(tape.at, tape.n);
        CHECK_INT(rig_save(&r, &second, &err), 0);
        CHECK_INT(second.n, tape.n);
        CHECK(memcmp(second.p, tape.p, tape.n) == 0);
    }
    CHECK_INT(stop, DZ_WASM_DONE);
    CHECK_INT(dz_wasm_results(r.store)[0], RICH_RESULT);
    CHECK(moves > 20);
    rig_close(&r);
    rig_close(&first);
}

TEST(a_state_goes_on_elsewhere_at_any_safepoint)
{
    for (int way = 0; way < RIG_WAYS; way++)
        move_everywhere(way, false);
}

TEST(a_state_goes_on_elsewhere_with_handlers_in_between)
{
    move_everywhere(0, true);
}

TEST(a_state_without_memory_leaves_it_to_the_caller)
{
    const struct dz_wasm_config cfg = cage();
    struct rig a, b;
    CHECK_INT(rich_open(&a, &cfg, &err), 0);
    CHECK_INT(rich_again(&b, &a, &cfg), 0);
    memset(dz_wasm_mem(a.inst, 0, 5000, 3), 7, 3);
    CHECK_INT(rig_save_part(&a, false, &tape, &err), 0);
    CHECK_INT(rig_load(&b, &tape, &err), 0);
    CHECK_INT(*dz_wasm_mem(b.inst, 0, 5000, 1), 0);
    CHECK_INT(rig_save(&a, &tape, &err), 0);
    CHECK_INT(rig_load(&b, &tape, &err), 0);
    CHECK_INT(*dz_wasm_mem(b.inst, 0, 5002, 1), 7);
    rig_close(&b);
    rig_close(&a);
}

/* (table 2 funcref) run(n): a loop whose head is at table.grow itself, by n of run's
 * references; answers the old size, + 1 when the last element is run. */
static void growing(struct mod *m)
{
    struct mod_bodies code = {0};
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1, "\x02\x60\x01\x7f\x01\x7f\x60\x02\x70\x7f\x01\x7f");
    MOD_SECTION(m, 3, "\x01\x00");
    MOD_SECTION(m, 4, "\x01\x70\x00\x02");
    MOD_SECTION(m, 7, "\x01\x03run\x00\x00");
    MOD_SECTION(m, 9, "\x01\x03\x00\x01\x00"); /* run may be referred to */
    MOD_BODY(&code, "\x00\xd2\x00\x20\x00\x03\x01\xfc\x0f\x00\x0b"
                    "\xfc\x10\x00\x41\x01\x6b\x25\x00\xd1\x45\x6a");
    mod_bodies(m, &code);
}

/* A part is 2^15 elements: at each stop into a fresh store in another way. */
TEST(growing_a_table_is_stopped_in_the_middle)
{
    enum {
        COUNT = 100000
    };
    for (int way = 0; way < RIG_WAYS; way++) {
        struct dz_wasm_config cfg = rig_way(way);
        struct rig first, r;
        struct mod m;
        uint32_t moves = 0, inside = 0;
        enum dz_wasm_stop stop;
        growing(&m);
        CHECK_INT(rig_make(&first, &m, &cfg, NULL, 0, &err), 0);
        CHECK_INT(rich_again(&r, &first, &cfg), 0);
        CHECK_INT(rig_begin(&r, COUNT), 0);
        while (rig_waits(stop = rig_step(&r))) {
            CHECK_INT(rig_save(&r, &tape, &err), 0);
            inside += tape.n > COUNT * sizeof(uint64_t); /* it has them already */
            cfg = rig_way((int)(++moves % RIG_WAYS));
            move_on(&r, &first, &cfg);
        }
        CHECK_INT(stop, DZ_WASM_DONE);
        CHECK_INT(dz_wasm_results(r.store)[0], 2 + 1);
        CHECK_INT(inside, 3);
        rig_close(&r);
        rig_close(&first);
    }
}

/* --- what is not ----------------------------------------------------------------------- */

enum { /* in the header: docs/format/wasm-state.md */
    AT_VERSION = 8,
    AT_SHA = 16,
    AT_THROWING = 56,
    AT_RUNNING = 64,
    AT_STOP = 68,
    AT_FRAMES = 96,
    AT_SLOTS = 100,
    AT_INJECTED = 104,
    AT_MARKS = 108,
    HEADER = 112,
};

static void poke32(size_t at, uint32_t v)
{
    memcpy(tape.p + at, &v, sizeof v);
}
static uint32_t peek32(size_t at)
{
    uint32_t v;
    memcpy(&v, tape.p + at, sizeof v);
    return v;
}

/* Stop `steps` safepoints in, save to the tape. */
static void stop_after(struct rig *first, struct rig *r, uint32_t steps)
{
    const struct dz_wasm_config cfg = cage();
    CHECK_INT(rich_open(first, &cfg, &err), 0);
    CHECK_INT(rich_again(r, first, &cfg), 0);
    CHECK_INT(rig_begin(r, SPIN), 0);
    dz_wasm_fuel_set(r->store, FUEL);
    rich_park = 3;
    for (uint32_t i = 0; i < steps; i++)
        CHECK(rig_waits(rig_step(r)));
    CHECK_INT(rig_save(r, &tape, &err), 0);
}
static uint32_t count_steps(void)
{
    struct rig first, r;
    uint32_t n = 0;
    stop_after(&first, &r, 0);
    while (rig_waits(rig_step(&r)))
        n++;
    rig_close(&r);
    rig_close(&first);
    return n;
}

/* What the tape holds, into a cage: refused with a sentence, or used. */
static bool try_tape(const struct rig *first)
{
    const struct dz_wasm_config cfg = cage();
    struct rig r;
    err.msg[0] = '\0';
    CHECK_INT(rich_again(&r, first, &cfg), 0);
    int rc = rig_load(&r, &tape, &err);
    if (rc < 0)
        CHECK(err.msg[0] != '\0');
    else
        use(&r);
    rig_close(&r);
    return rc == 0;
}

static void refused(const struct rig *first, const char *words)
{
    CHECK(!try_tape(first));
    if (!strstr(err.msg, words))
        printf("# \"%s\" does not say \"%s\"\n", err.msg, words);
    CHECK(strstr(err.msg, words) != NULL);
}

/* A word of the tape that makes it be refused in these words. */
struct row {
    size_t at;
    uint32_t value;
    const char *words;
};
static void refuse_each(const struct rig *first, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t was = peek32(rows[i].at);
        poke32(rows[i].at, rows[i].value);
        refused(first, rows[i].words);
        poke32(rows[i].at, was);
    }
    CHECK(try_tape(first)); /* as it was, it is good */
}

TEST(any_byte_changed_does_no_harm)
{
    static const uint8_t masks[] = {0x01, 0x80, 0xff};
    uint32_t steps = count_steps(), refusals = 0, tries = 0;
    for (uint32_t step = 1; step <= steps; step += 2) {
        struct rig first, r;
        stop_after(&first, &r, step);
        CHECK_INT(rig_save_part(&r, false, &tape, &err), 0);
        for (size_t i = 0; i < tape.n; i++) {
            uint8_t was = tape.p[i];
            tape.p[i] ^= masks[i % DZ_ARRAY_LEN(masks)];
            tries++;
            refusals += !try_tape(&first);
            tape.p[i] = was;
        }
        CHECK(try_tape(&first)); /* as it was, it is good */
        rig_close(&r);
        rig_close(&first);
    }
    printf("# %u of %u refused\n", refusals, tries);
    CHECK(refusals > tries / 4);
}

TEST(a_state_that_ends_early_is_refused)
{
    struct rig first, r;
    stop_after(&first, &r, count_steps() - 3);
    size_t whole = tape.n;
    for (tape.n = 0; tape.n < whole; tape.n += tape.n < 2000 ? 1 : 509)
        refused(&first, "the tape is at its end");
    rig_close(&r);
    rig_close(&first);
}

TEST(headers_that_contradict_themselves_are_refused)
{
    static const struct row rows[] = {
        {0, 0, "not the state of a WebAssembly process"},
        {AT_VERSION, 4, "state of version 4, 3 is the newest known"},
        {AT_VERSION, 0, "state of version 0"},
        {12, 2, "contradicts itself"},
        {AT_SHA, 0, "belongs to another module"},
        {AT_RUNNING, 2, "contradicts itself"},
        {AT_RUNNING, 0, "contradicts itself"},
        {AT_STOP, 99, "contradicts itself"},
        {72, 9, "counts other globals"},
        {92, 1000, "1000 exceptions, the limit is 8"},
        {AT_FRAMES, 0, "contradicts itself"},
        {AT_FRAMES, UINT32_MAX, "contradicts itself"},
        {AT_SLOTS, 4096, "contradicts itself"},
        {AT_INJECTED, 1, "counts 1 injected calls and has 0"},
        {AT_MARKS, 70000, "70000 marks"},
        {AT_THROWING, 5, "the exception on its way is not there"},
    };
    struct rig first, r;
    stop_after(&first, &r, 6);
    refuse_each(&first, rows, DZ_ARRAY_LEN(rows));
    rig_close(&r);
    rig_close(&first);
}

/* --- large tables ------------------------------------------------------------------------ */

enum { /* after the header and the byte of the one segment */
    LARGE = 300,
    LARGE_AT = HEADER + 1,
    LARGE_RUN = LARGE_AT + 8, /* the first */
};

/* (table 300 funcref), three of it run; run(n) counts down. */
static void large_table(struct mod *m)
{
    struct mod_bodies code = {0};
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1, "\x01\x60\x01\x7f\x01\x7f");
    MOD_SECTION(m, 3, "\x01\x00");
    MOD_SECTION(m, 4, "\x01\x70\x00\xac\x02");
    MOD_SECTION(m, 7, "\x01\x03run\x00\x00");
    MOD_SECTION(m, 9, "\x01\x00\x41\x0a\x0b\x03\x00\x00\x00");
    MOD_BODY(&code, "\x00\x03\x40\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x20\x00");
    mod_bodies(m, &code);
}

/* Stopped, on the tape; two elements and one that was added are not as in the module. */
static void stop_with_large_table(struct rig *first, struct rig *r)
{
    const struct dz_wasm_config cfg = {.dispatch = DZ_WASM_DISPATCH_SWITCH};
    struct mod m;
    large_table(&m);
    CHECK_INT(rig_make(first, &m, &cfg, NULL, 0, &err), 0);
    CHECK_INT(rich_again(r, first, &cfg), 0);
    CHECK_INT(rig_begin(r, 5), 0);
    CHECK(rig_waits(rig_step(r)));
    struct wasm_table *t = r->inst->tables[0];
    CHECK(t->elem[10] == 1 && t->elem[11] == 1 && t->elem[12] == 1);
    CHECK_INT(dz_wasm_table_grow(t, 5), LARGE);
    t->elem[10] = 0;
    t->elem[200] = t->elem[LARGE + 4] = 1;
    CHECK_INT(rig_save(r, &tape, &err), 0);
}

TEST(of_a_large_table_what_differs_is_saved)
{
    struct rig first, r;
    uint64_t want[LARGE + 5] = {[11] = 1, [12] = 1, [200] = 1, [LARGE + 4] = 1};
    struct dz_wasm_config cfg = rig_way(1);
    static struct tape second;
    stop_with_large_table(&first, &r);
    CHECK(tape.n < LARGE * sizeof *want);
    move_on(&r, &first, &cfg);
    const struct wasm_table *t = r.inst->tables[0];
    CHECK_INT(t->size, LARGE + 5);
    CHECK(memcmp(t->elem, want, sizeof want) == 0);
    CHECK_INT(rig_save(&r, &second, &err), 0);
    CHECK(second.n == tape.n && memcmp(second.p, tape.p, tape.n) == 0);
    enum dz_wasm_stop stop;
    while (rig_waits(stop = rig_step(&r)))
        ;
    CHECK_INT(stop, DZ_WASM_DONE);
    rig_close(&r);
    rig_close(&first);
}

TEST(runs_of_a_table_are_checked)
{
    static const struct row rows[] = {
        {LARGE_AT, LARGE - 1, "table 0 cannot have 299 elements"},
        {LARGE_AT, LARGE, "lies outside of table 0"}, /* the one that was added */
        {LARGE_RUN, LARGE + 5, "lies outside of table 0"},
        {LARGE_RUN, UINT32_MAX, "lies outside of table 0"},
        {LARGE_RUN + 4, UINT32_MAX, "lies outside of table 0"},
        {LARGE_RUN + 8, 2, "element 10 of table 0 refers to nothing"},
        {LARGE_RUN + 16, 10, "lies outside of table 0"}, /* not behind the one before */
        {AT_VERSION, 2, "table 0 cannot have 9223372036854776113 elements"},
    };
    struct rig first, r;
    stop_with_large_table(&first, &r);
    CHECK(peek32(LARGE_AT) == LARGE + 5 && peek32(LARGE_AT + 4) == 0x80000000);
    CHECK(peek32(LARGE_RUN) == 10 && peek32(LARGE_RUN + 16) == 200);
    refuse_each(&first, rows, DZ_ARRAY_LEN(rows));
    rig_close(&r);
    rig_close(&first);
}

/* All of its elements, as versions before 3 wrote them: those are read, and so is that. */
TEST(a_large_table_may_be_written_whole)
{
    enum {
        RUNS = 3 * (8 + 8) + 8, /* bytes: three of one element, and the end */
        WHOLE = (LARGE + 5) * 8,
    };
    const uint64_t want[LARGE + 5] = {[11] = 1, [12] = 1, [200] = 1, [LARGE + 4] = 1};
    struct rig first, r;
    stop_with_large_table(&first, &r);
    memmove(tape.p + LARGE_RUN + WHOLE, tape.p + LARGE_RUN + RUNS, tape.n - LARGE_RUN - RUNS);
    memcpy(tape.p + LARGE_RUN, want, sizeof want);
    tape.n += WHOLE - RUNS;
    poke32(LARGE_AT + 4, 0);
    for (uint32_t version = 2; version <= 3; version++) {
        struct dz_wasm_config cfg = rig_way(1);
        poke32(AT_VERSION, version);
        move_on(&r, &first, &cfg);
        CHECK_INT(r.inst->tables[0]->size, LARGE + 5);
        CHECK(memcmp(r.inst->tables[0]->elem, want, sizeof want) == 0);
    }
    rig_close(&r);
    rig_close(&first);
}

/* (global $five externref), (table 300 externref), (table 300 (ref.func 0)), of which ten elements
 * from $at on are null; (global $at i32 10) and (global $first funcref) never change. */
static void tables_by_globals(struct mod *m)
{
    struct mod_bodies code = {0};
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1, "\x01\x60\x01\x7f\x01\x7f");
    MOD_SECTION(m, 3, "\x01\x00");
    MOD_SECTION(m, 4, "\x02\x6f\x00\xac\x02\x40\x00\x70\x00\xac\x02\xd2\x00\x0b");
    MOD_SECTION(m, 6, "\x02\x7f\x00\x41\x0a\x0b\x70\x00\xd2\x00\x0b");
    MOD_SECTION(m, 7, "\x01\x03run\x00\x00");
    MOD_SECTION(m, 9, "\x01\x06\x01\x23\x00\x0b\x70\x02\xd0\x70\x0b\x23\x01\x0b");
    MOD_BODY(&code, "\x00\x03\x40\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x20\x00");
    mod_bodies(m, &code);
}

static void stop_with_tables(struct rig *first, struct rig *r)
{
    const struct dz_wasm_config cfg = {.dispatch = DZ_WASM_DISPATCH_SWITCH};
    struct mod m;
    tables_by_globals(&m);
    CHECK_INT(rig_make(first, &m, &cfg, NULL, 0, &err), 0);
    CHECK_INT(rich_again(r, first, &cfg), 0);
    CHECK_INT(rig_begin(r, 5), 0);
    CHECK(rig_waits(rig_step(r)));
    CHECK(r->inst->tables[1]->elem[9] == 1 && r->inst->tables[1]->elem[10] == 0);
    r->inst->tables[0]->elem[5] = 77;
    r->inst->tables[1]->elem[10] = 1; /* where a segment has null, and where it has none */
    r->inst->tables[1]->elem[299] = 0;
    CHECK_INT(rig_save(r, &tape, &err), 0);
}

TEST(what_a_fresh_table_has_is_found_by_constants)
{
    struct rig first, r;
    struct dz_wasm_config cfg = rig_way(1);
    stop_with_tables(&first, &r);
    CHECK(tape.n < HEADER + 600);
    move_on(&r, &first, &cfg);
    for (uint32_t i = 0; i < LARGE; i++) {
        CHECK(r.inst->tables[0]->elem[i] == (i == 5 ? 77 : 0));
        CHECK(r.inst->tables[1]->elem[i] == (i != 299));
    }
    rig_close(&r);
    rig_close(&first);
}

/* Else a table could be saved that is another one when it is read, or none that fits. */
TEST(a_global_that_never_changes_has_not)
{
    static const struct row rows[] = {
        {HEADER, 11, "global 0 is not what it always is"},
        {HEADER, 299, "global 0 is not what it always is"},
        {HEADER + 4, 1, "global 0 is not what it always is"},
        {HEADER + 8, 0, "global 1 is not what it always is"},
    };
    struct rig first, r;
    stop_with_tables(&first, &r);
    refuse_each(&first, rows, DZ_ARRAY_LEN(rows));
    rig_close(&r);
    rig_close(&first);
}

/* Version 1 had no marks; the word that counts them meant nothing. */
TEST(the_version_before_is_read)
{
    struct rig first, r;
    stop_after(&first, &r, 6);
    CHECK_INT(peek32(AT_MARKS), 0);
    poke32(AT_VERSION, 1);
    poke32(AT_MARKS, 77);
    CHECK(try_tape(&first));
    rig_close(&r);
    rig_close(&first);
}

/* Behind the header: 5 words of globals, the segments' bytes, tables of 3 and 2. */
enum {
    SEGMENTS = HEADER + 5 * 8,
    TABLE_0 = SEGMENTS + 3,
    TABLE_1 = TABLE_0 + 8 + 3 * 8,
    EXNS = TABLE_1 + 8 + 2 * 8,
};

TEST(references_to_nothing_are_refused)
{
    static const struct row rows[] = {
        {HEADER + 4 * 8, 8, "global 3 refers to nothing"},
        {HEADER + 4 * 8 + 4, 1, "global 3 refers to nothing"},
        {SEGMENTS, 0x02020202, "segment 0 is neither dropped nor not"},
        {TABLE_0, 9, "table 0 cannot have 9 elements"},
        {TABLE_0, 2, "table 0 cannot have 2 elements"},
        {TABLE_0 + 8, 8, "element 0 of table 0 refers to nothing"},
        {TABLE_1 + 8, 8, "element 0 of table 1 refers to nothing"},
    };
    struct rig first, r;
    stop_after(&first, &r, 6);
    refuse_each(&first, rows, DZ_ARRAY_LEN(rows));
    rig_close(&r);
    rig_close(&first);
}

/* Two exceptions are alive near the end, a mark too; their rows must be right. */
TEST(exceptions_frames_and_marks_are_checked)
{
    struct rig first, r;
    stop_after(&first, &r, count_steps() - 2);
    uint32_t exns = peek32(92), frames = peek32(AT_FRAMES), slots = peek32(AT_SLOTS);
    CHECK(exns >= 1 && frames == 2 && peek32(AT_MARKS) == 1);
    size_t frame = EXNS + exns * (16 + 2 * 8), mark = frame + frames * 16 + slots * 8ul;
    const struct row rows[] = {
        {EXNS, 2, "exception 0 has a tag that the module"},
        {EXNS + 4, 1, "exception 0 has a tag that the module"},
        {EXNS + 8, 3, "exception 0 has a tag that the module"},
        {frame, 99, "frame 0 is in no function"},
        {frame, 6, "is no safepoint"},
        {frame + 4, 0, "is no safepoint"},
        {frame + 8, 1, "does not begin with the first slot"},
        {frame + 12, 7, "frame 0 is in no function"},
        {frame + 12, 2, "frame 0 of 2 is not where it says"},
        {frame + 16 + 8, 3, "frame 1 is not what frame 0 called"},
        {frame + 16, 5, "is no safepoint"},
        {mark, 99, "mark 0 names no call"},
        {mark, 0, "mark 0 names no call"},
        {mark + 4, 1, "mark 0 names no call"},
        {mark + 12, 2, "mark 0 names no call"},
        {mark + 12, UINT32_MAX, "mark 0 names no call"},
        {mark + 16, 256, "mark 0 names no call"},
    };
    refuse_each(&first, rows, DZ_ARRAY_LEN(rows));
    rig_close(&r);
    rig_close(&first);
}

/* A reference in a slot is checked when it is used: the exception that the program
 * throws again, and the operand of table.set. */
TEST(references_in_slots_are_checked_when_used)
{
    struct rig first, r;
    const struct dz_wasm_config cfg = cage();
    stop_after(&first, &r, count_steps() - 2);
    uint32_t exns = peek32(92), slots = peek32(AT_SLOTS);
    size_t at = EXNS + exns * (16 + 2 * 8) + 2 * 16;
    int changed = 0;
    for (uint32_t i = 0; i < slots; i++)
        if (peek32(at + i * 8 + 4) == 0x45584e52) {
            poke32(at + i * 8, 500);
            changed++;
        }
    CHECK(changed > 0);
    struct rig again;
    CHECK_INT(rich_again(&again, &first, &cfg), 0);
    CHECK_INT(rig_load(&again, &tape, &err), 0);
    use(&again);
    rig_close(&again);
    rig_close(&r);
    rig_close(&first);
}

TEST(a_state_is_taken_only_of_a_process_at_a_safepoint)
{
    const struct dz_wasm_config cfg = cage();
    struct rig a;
    struct dz_wasm_inst *second;
    CHECK_INT(rich_open(&a, &cfg, &err), 0);
    CHECK_INT(rig_begin(&a, 1), 0);
    CHECK_INT(rig_save(&a, &tape, &err), 0);
    CHECK_INT(rig_load(&a, &tape, &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "over a program that runs") != NULL);
    dz_wasm_abandon(a.store);
    CHECK_INT(dz_wasm_instantiate(a.store, a.module, &(struct dz_wasm_imports){rich_host, 3, NULL},
                                  &second, &err),
              0);
    CHECK_INT(rig_save(&a, &tape, &err), DZ_EUNSUPPORTED);
    CHECK(strstr(err.msg, "the store has 2 instances") != NULL);
    rig_close(&a);
}

/* --- memory that fails -------------------------------------------------------------------- */

TORTURE(saving_and_loading)
{
    const struct dz_wasm_config cfg = cage();
    struct rig a = {0}, b = {0};
    rich_park = 3;
    if (rich_open(&a, &cfg, NULL) == 0 && rig_begin(&a, SPIN) == 0) {
        dz_wasm_fuel_set(a.store, FUEL);
        for (int i = 0; i < 25 && rig_waits(rig_step(&a)); i++)
            ;
        if (rig_save(&a, &tape, &err) == 0 && rich_again(&b, &a, &cfg) == 0 &&
            rig_load(&b, &tape, &err) == 0)
            use(&b);
        rig_close(&b);
    }
    rig_close(&a);
}
