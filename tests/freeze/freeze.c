/* SPDX-License-Identifier: MIT
 *
 * freeze.c - freeze anywhere: a program is stopped at many safepoints; at
 * each its state is saved and finished by a fresh process in the other
 * dispatch, and must end as if nothing had happened: same result, same output,
 * same memory.
 *
 * A first run steps from safepoint to safepoint and notes where each distinct
 * place (function, offset) is met first, and each distinct stack (the places of
 * its innermost DEPTH frames). Tried are: every place; then moments whose stacks
 * are distinct, then moments spread evenly, until POINTS are reached; fewer only
 * if the whole program has fewer. What was met and tried is printed, for a small
 * program has few places: its functions, its loops, its host calls.
 * FREEZE_POINTS in the environment changes the number.
 */
#include "freeze_tap.h"

#ifdef __SANITIZE_ADDRESS__
#define POINTS 12 /* a process under ASan starts slowly */
#else
#define POINTS 200
#endif

enum {
    PLACES = 200, /* that each program must have, by itself or inside another */
    STEPS_MAX = 2000000,
    SET_MAX = 1 << 16, /* a power of two */
    DEPTH = 12,        /* frames that make a stack distinct */
};

/* Open addressing; no key is 0. */
struct set {
    uint64_t *keys;
    uint32_t count;
};
enum moment {
    MOMENT_ALIKE,
    MOMENT_STACK, /* a stack that was not met before */
    MOMENT_PLACE, /* a place that was not met before */
    MOMENT_WANTED,
};

/* Where a program can stop, and the moments to try. */
struct plan {
    struct set places, stacks;
    uint32_t steps;
    uint8_t *moments; /* by step: enum moment */
    uint32_t wanted, wanted_stacks;
};

static uint32_t points(void)
{
    const char *text = getenv("FREEZE_POINTS");
    return text ? (uint32_t)strtoul(text, NULL, 10) : POINTS;
}

/* Is it new? A full set knows everything. */
static bool set_add(struct set *s, uint64_t key)
{
    uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 48;
    while (s->keys[at % SET_MAX] && s->keys[at % SET_MAX] != key)
        at++;
    if (s->keys[at % SET_MAX] == key || s->count == SET_MAX / 2)
        return false;
    s->keys[at % SET_MAX] = key;
    s->count++;
    return true;
}

static enum moment moment_of(struct plan *p, const struct world *w)
{
    struct dz_wasm_pos pos[DEPTH] = {0};
    size_t n = dz_wasm_trace(w->store, pos, DEPTH);
    uint64_t stack = n;
    for (size_t i = 0; i < n && i < DEPTH; i++) {
        stack =
            (stack ^ ((uint64_t)pos[i].func << 32 | pos[i].offset)) * UINT64_C(0x9e3779b97f4a7c15);
        stack ^= stack >> 29;
    }
    bool new_stack = set_add(&p->stacks, stack | 1);
    if (set_add(&p->places, ((uint64_t)pos[0].func << 32 | pos[0].offset) + 1))
        return MOMENT_PLACE;
    return new_stack ? MOMENT_STACK : MOMENT_ALIKE;
}

static void want(struct plan *p, uint32_t step)
{
    p->wanted += p->moments[step] != MOMENT_WANTED;
    p->wanted_stacks += p->moments[step] == MOMENT_PLACE || p->moments[step] == MOMENT_STACK;
    p->moments[step] = MOMENT_WANTED;
}

/* Of the moments of this kind so many that POINTS are reached, from all of the run. */
static void want_some(struct plan *p, enum moment kind, uint32_t of)
{
    uint32_t n = points(), met = 0;
    uint32_t missing = p->wanted < n ? n - p->wanted : 0;
    uint32_t every = missing && of > missing ? of / missing : 1;
    for (uint32_t i = 0; i < p->steps && p->wanted < n; i++)
        if (p->moments[i] == kind && met++ % every == 0)
            want(p, i);
}

/* Step through the whole program once. Returns how it ended. */
static struct outcome make_plan(struct plan *p, struct world *w)
{
    enum dz_wasm_stop stop = DZ_WASM_TRAPPED;
    uint32_t kinds[MOMENT_WANTED] = {0};
    *p = (struct plan){.places.keys = calloc(SET_MAX, sizeof(uint64_t)),
                       .stacks.keys = calloc(SET_MAX, sizeof(uint64_t)),
                       .moments = calloc(STEPS_MAX, 1)};
    if (!p->places.keys || !p->stacks.keys || !p->moments)
        abort();
    while (!stop_is_final(stop = world_step(w)) && p->steps < STEPS_MAX) {
        enum moment kind = moment_of(p, w);
        p->moments[p->steps++] = (uint8_t)kind;
        kinds[kind]++;
        if (stop == DZ_WASM_BLOCKED)
            w->host.park_open = 1;
    }
    for (uint32_t i = 0; i < p->steps; i++)
        if (p->moments[i] == MOMENT_PLACE)
            want(p, i);
    want_some(p, MOMENT_STACK, kinds[MOMENT_STACK]);
    want_some(p, MOMENT_ALIKE, kinds[MOMENT_ALIKE]);
    return world_outcome(w, stop);
}

static void plan_free(struct plan *p)
{
    free(p->places.keys);
    free(p->stacks.keys);
    free(p->moments);
}

static void begin(struct world *w, const struct bytes *wasm, enum dz_wasm_dispatch d, uint32_t n)
{
    world_open(w, wasm->p, wasm->size, d);
    world_begin1(w, "run", n);
}

/* Freeze at every wanted moment of one run; each is finished elsewhere. */
static void try_plan(const struct plan *p, struct world *w, const struct bytes *wasm,
                     const struct outcome *whole)
{
    char what[64];
    int bad = 0;
    for (uint32_t step = 0; step < p->steps && bad < 5; step++) {
        enum dz_wasm_stop stop = world_step(w);
        CHECK(!stop_is_final(stop));
        if (p->moments[step] == MOMENT_WANTED) {
            struct outcome o = fresh_finish(w, wasm->p, wasm->size);
            snprintf(what, sizeof what, "frozen at safepoint %u of %u", step, p->steps);
            bad += !outcome_same(&o, whole, what);
        }
        if (stop == DZ_WASM_BLOCKED)
            w->host.park_open = 1;
    }
    CHECK_INT(bad, 0);
}

/* The program goes on in another store and dispatch at every `every`-th safepoint. */
static void leap(const struct bytes *wasm, uint32_t n, uint32_t every, const struct outcome *whole)
{
    struct world w;
    enum dz_wasm_stop stop;
    uint32_t step = 0;
    begin(&w, wasm, DZ_WASM_DISPATCH_SWITCH, n);
    while (!stop_is_final(stop = world_step(&w))) {
        if (step++ % every == 0)
            world_swap(&w);
        if (stop == DZ_WASM_BLOCKED)
            w.host.park_open = 1;
    }
    struct outcome o = world_outcome(&w, stop);
    CHECK(outcome_same(&o, whole, "leaping between dispatches"));
    world_close(&w);
}

static void freeze_anywhere(const struct bytes *wasm, uint32_t n, uint32_t min_places)
{
    struct plan plan;
    struct world w;
    begin(&w, wasm, DZ_WASM_DISPATCH_GOTO, n);
    struct outcome whole = world_finish(&w);
    CHECK_INT(whole.stop, DZ_WASM_DONE);
    world_close(&w);

    begin(&w, wasm, DZ_WASM_DISPATCH_SWITCH, n);
    struct outcome stepped = make_plan(&plan, &w);
    CHECK(outcome_same(&stepped, &whole, "stopped at every safepoint"));
    world_close(&w);
    printf("# %u safepoints at %u distinct places, all tried; %u moments tried, %u with distinct "
           "stacks\n",
           plan.steps, plan.places.count, plan.wanted, plan.wanted_stacks);
    CHECK(plan.wanted >= points() || plan.wanted == plan.steps);
    CHECK(plan.places.count >= min_places);

    begin(&w, wasm, DZ_WASM_DISPATCH_GOTO, n);
    try_plan(&plan, &w, wasm, &whole);
    world_close(&w);
    leap(wasm, n, plan.steps / points() + 1, &whole);
    plan_free(&plan);
}

static void freeze_file(const char *name, uint32_t n, uint32_t min_places)
{
    char path[256];
    struct bytes wasm = {0};
    snprintf(path, sizeof path, "build/guests/%s.wasm", name);
    if (!bytes_file(&wasm, path))
        SKIP("no guests: make guests needs clang-19 and lld-19");
    freeze_anywhere(&wasm, n, min_places);
    bytes_free(&wasm);
}

/* The bench programs with less work. Alone each has only as many places as it has
 * functions and loops, 3 to 20; so each also runs inside a C program of wasi-libc
 * (guest_libc.c), where there are hundreds. How many is given by the code, and is
 * asked for so that a lost safepoint is noticed. */
static void freeze_bench(const char *name, uint32_t n, uint32_t min_places)
{
    char path[64];
    snprintf(path, sizeof path, "bench/%s", name);
    freeze_file(path, n, min_places);
    snprintf(path, sizeof path, "libc/%s", name);
    freeze_file(path, n, PLACES);
}
TEST(freeze_fib)
{
    freeze_bench("fib", 14, 2);
}
TEST(freeze_sha256)
{
    freeze_bench("sha256", 1, 3);
}
TEST(freeze_quicksort)
{
    freeze_bench("quicksort", 2000, 8);
}
TEST(freeze_nbody)
{
    freeze_bench("nbody", 100, 3);
}
TEST(freeze_matrix)
{
    freeze_bench("matrix", 24, 5);
}
TEST(freeze_mix)
{
    freeze_bench("mix", 1, 15);
}
TEST(freeze_bytecode)
{
    freeze_bench("bytecode", 1, 3);
}

/* 256 functions called through a table: hundreds of different places. */
TEST(freeze_at_hundreds_of_places)
{
    freeze_file("places", 300, PLACES);
}
/* memory.copy and memory.fill stop in the middle. */
TEST(freeze_inside_bulk_operations)
{
    freeze_file("bulk", 2, 8);
}
/* Blocked in a host call, deep in recursion. */
TEST(freeze_in_a_parked_host_call)
{
    freeze_file("ticks", 200, 4);
}

/* Between throw and catch: an exnref lies in a local and on the stack while
 * loops and calls run, then it is thrown again.
 *
 *   (module
 *     (tag $t (param i32 i64))
 *     (memory 1)
 *     (func $spin (param $n i32) (result i32)            ;; 0
 *       (local $sum i32)
 *       (loop $l
 *         (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 3)) (local.get $n)))
 *         (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
 *       (local.get $sum))
 *     (func $throws (param $n i32)                       ;; 1
 *       (throw $t (call $spin (local.get $n)) (i64.extend_i32_u (local.get $n))))
 *     (func $run (export "run") (param $n i32) (result i32)   ;; 2
 *       (local $e exnref) (local $sum i32)
 *       (loop $again
 *         (block $caught (result i32 i64 exnref)
 *           (try_table (catch_ref $t $caught) (call $throws (local.get $n)))
 *           (unreachable))
 *         (local.set $e) (drop)
 *         (local.set $sum (i32.add (local.get $sum)))    ;; the payload
 *         (local.set $sum (i32.add (local.get $sum) (call $spin (i32.const 7))))
 *         (block $twice (result exnref)
 *           (try_table (catch_all_ref $twice) (throw_ref (local.get $e)))
 *           (unreachable))
 *         (call $spin (i32.const 5)) (drop)              ;; with the exnref below it
 *         (drop)
 *         (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
 *       (local.get $sum)))
 */
static const uint8_t exceptions[] = {
    0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00,       /* magic, version */
    0x01, 0x15, 0x04,                                     /* types */
    0x60, 0x01, 0x7f, 0x01, 0x7f,                         /* 0: i32 -> i32 */
    0x60, 0x01, 0x7f, 0x00,                               /* 1: i32 -> */
    0x60, 0x02, 0x7f, 0x7e, 0x00,                         /* 2: i32 i64 -> */
    0x60, 0x00, 0x03, 0x7f, 0x7e, 0x69,                   /* 3: -> i32 i64 exnref */
    0x03, 0x04, 0x03, 0x00, 0x01, 0x00,                   /* functions */
    0x05, 0x03, 0x01, 0x00, 0x01,                         /* memory 1 */
    0x0d, 0x03, 0x01, 0x00, 0x02,                         /* tag of type 2 */
    0x07, 0x07, 0x01, 0x03, 'r',  'u',  'n',  0x00, 0x02, /* export */
    0x0a, 0x72, 0x03,                                     /* code */
    0x1c, 0x01, 0x01, 0x7f,                               /* $spin: one local */
    0x03, 0x40,                                           /* loop */
    0x20, 0x01, 0x41, 0x03, 0x6c, 0x20, 0x00, 0x6a, 0x21, 0x01, 0x20, 0x00, 0x41,
    0x01, 0x6b, 0x22, 0x00, 0x0d, 0x00, 0x0b, 0x20, 0x01, 0x0b, 0x0b, 0x00, /* $throws */
    0x20, 0x00, 0x10, 0x00, 0x20, 0x00, 0xad, 0x08, 0x00, 0x0b, 0x47, 0x02, 0x01,
    0x69, 0x01, 0x7f,                                           /* $run: exnref, i32 */
    0x03, 0x40,                                                 /* loop $again */
    0x02, 0x03,                                                 /* block $caught */
    0x1f, 0x40, 0x01, 0x01, 0x00, 0x00,                         /* try_table (catch_ref $t 0) */
    0x20, 0x00, 0x10, 0x01, 0x0b, 0x00, 0x0b, 0x21, 0x01, 0x1a, /* local.set $e, drop the i64 */
    0x20, 0x02, 0x6a, 0x21, 0x02,                               /* sum += payload */
    0x20, 0x02, 0x41, 0x07, 0x10, 0x00, 0x6a, 0x21, 0x02, 0x02, 0x69, /* block $twice (result
                                                                         exnref) */
    0x1f, 0x40, 0x01, 0x03, 0x00, /* try_table (catch_all_ref 0) */
    0x20, 0x01, 0x0a, 0x0b, 0x00, 0x0b, 0x41, 0x05, 0x10, 0x00, 0x1a, 0x1a, /* spin(5), drop both */
    0x20, 0x00, 0x41, 0x01, 0x6b, 0x22, 0x00, 0x0d, 0x00, 0x0b, 0x20, 0x02, 0x0b,
};

TEST(freeze_between_throw_and_catch)
{
    struct bytes wasm = {0};
    bytes_add(&wasm, exceptions, sizeof exceptions);
    freeze_anywhere(&wasm, 12, 5);
    bytes_free(&wasm);
}
