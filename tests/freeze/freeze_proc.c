/* SPDX-License-Identifier: MIT
 *
 * freeze_proc.c - what a kernel builds fork, setjmp and signals on: copying a
 * process, returning to a mark, injecting a call. Each also with the process
 * moved to another store and dispatch in between, at every safepoint or every
 * few, so that what these operations leave in the state is saved too.
 */
#include "freeze_tap.h"

enum {
    LEVELS = 5, /* of the tree: 2^5 processes */
    ENDS_MAX = 1 << LEVELS,
};

static void open_guest(struct world *w, const char *name, enum dz_wasm_dispatch dispatch)
{
    char path[256];
    struct bytes wasm = {0};
    snprintf(path, sizeof path, "build/guests/%s.wasm", name);
    if (!bytes_file(&wasm, path))
        SKIP("no guests: make guests needs clang-19 and lld-19");
    world_open(w, wasm.p, wasm.size, dispatch);
    bytes_free(&wasm);
}

/* Run with a swap of store and dispatch at every `every`-th safepoint, 0: never. */
static struct outcome finish_swapping(struct world *w, uint32_t every)
{
    enum dz_wasm_stop stop;
    uint32_t step = 0;
    if (!every)
        return world_finish(w);
    while (!stop_is_final(stop = world_step(w))) {
        if (stop == DZ_WASM_BLOCKED)
            w->host.park_open = 1;
        if (++step % every == 0)
            world_swap(w);
    }
    return world_outcome(w, stop);
}

/* --- copy ----------------------------------------------------------------------------- */

struct ends {
    struct outcome all[ENDS_MAX];
    int count;
};

/* Depth first: the child runs to its end before the parent goes on. */
static void run_tree(struct world *w, struct ends *ends, uint32_t every)
{
    enum dz_wasm_stop stop;
    uint32_t step = 0;
    for (;;) {
        stop = every ? world_step(w) : dz_wasm_run(w->store);
        if (stop_is_final(stop))
            break;
        if (every && ++step % every == 0)
            world_swap(w);
        if (stop != DZ_WASM_BLOCKED || !w->host.forking)
            continue;
        struct world child;
        world_copy(w, &child);
        child.host.fork_result = 0;
        w->host.fork_result = 100 + ends->count;
        child.host.fork_known = w->host.fork_known = 1;
        run_tree(&child, ends, every ? every + 1 : 0);
        world_close(&child);
    }
    if (ends->count < ENDS_MAX)
        ends->all[ends->count] = world_outcome(w, stop);
    ends->count++;
}

static void grow_tree(struct ends *ends, enum dz_wasm_dispatch dispatch, uint32_t every)
{
    struct world w;
    ends->count = 0;
    open_guest(&w, "tree", dispatch);
    world_begin1(&w, "run", LEVELS);
    run_tree(&w, ends, every);
    world_close(&w);
    CHECK_INT(ends->count, ENDS_MAX);
}

TEST(copy_makes_a_tree_whose_branches_diverge)
{
    static struct ends ends;
    grow_tree(&ends, DZ_WASM_DISPATCH_GOTO, 0);
    for (int i = 0; i < ENDS_MAX; i++) {
        CHECK_INT(ends.all[i].stop, DZ_WASM_DONE);
        CHECK_INT(ends.all[i].emitted, LEVELS + 1);
        for (int k = 0; k < i; k++) {
            CHECK(ends.all[i].result[0] != ends.all[k].result[0]);
            CHECK(ends.all[i].memory != ends.all[k].memory);
            CHECK(ends.all[i].output != ends.all[k].output);
        }
    }
}

TEST(copy_is_the_same_in_both_dispatches_and_when_frozen_in_between)
{
    static struct ends plain, other;
    static const uint32_t every[] = {0, 1, 7, 50};
    grow_tree(&plain, DZ_WASM_DISPATCH_GOTO, 0);
    for (size_t e = 0; e < DZ_ARRAY_LEN(every); e++) {
        grow_tree(&other, DZ_WASM_DISPATCH_SWITCH, every[e]);
        for (int i = 0; i < ENDS_MAX; i++)
            CHECK(outcome_same(&other.all[i], &plain.all[i], "an end of the tree"));
    }
}

/* A copy taken at any safepoint ends like the original, and does not touch it. */
TEST(copy_at_any_safepoint)
{
    struct world w, copy;
    open_guest(&w, "ticks", DZ_WASM_DISPATCH_GOTO);
    world_begin1(&w, "run", 70);
    struct outcome whole = world_finish(&w);
    world_close(&w);

    open_guest(&w, "ticks", DZ_WASM_DISPATCH_SWITCH);
    world_begin1(&w, "run", 70);
    enum dz_wasm_stop stop;
    for (uint32_t step = 0; !stop_is_final(stop = world_step(&w)); step++) {
        if (step % 16 == 0) {
            world_copy(&w, &copy);
            struct outcome o = world_finish(&copy);
            CHECK(outcome_same(&o, &whole, "a copy"));
            world_close(&copy);
        }
        if (stop == DZ_WASM_BLOCKED)
            w.host.park_open = 1;
    }
    struct outcome o = world_outcome(&w, stop);
    CHECK(outcome_same(&o, &whole, "the original"));
    world_close(&w);
}

/* --- mark and return ---------------------------------------------------------------------- */

TEST(jump_leaves_a_thousand_frames)
{
    static const uint32_t every[] = {0, 1, 97};
    struct outcome first = {0};
    for (size_t e = 0; e < DZ_ARRAY_LEN(every); e++) {
        for (int d = DZ_WASM_DISPATCH_GOTO; d <= DZ_WASM_DISPATCH_SWITCH; d++) {
            struct world w;
            uint32_t depth = every[e] == 1 ? 30 : 1000;
            open_guest(&w, "jumps", (enum dz_wasm_dispatch)d);
            world_begin1(&w, "run", depth);
            struct outcome o = finish_swapping(&w, every[e]);
            CHECK_INT(o.stop, DZ_WASM_DONE);
            CHECK(o.emitted > 20);
            if (depth == 1000 && first.emitted)
                CHECK(outcome_same(&o, &first, "jumps"));
            if (depth == 1000)
                first = o;
            world_close(&w);
        }
    }
}

TEST(jump_to_a_frame_that_is_gone_traps)
{
    struct world w;
    open_guest(&w, "jumps", DZ_WASM_DISPATCH_GOTO);
    world_begin1(&w, "use_stale", 3);
    CHECK_INT(world_finish(&w).stop, DZ_WASM_TRAPPED);
    world_close(&w);
}

/* The guest spins until a handler jumps out of it, n times. */
static struct outcome run_handler(enum dz_wasm_dispatch dispatch, int rounds, bool swap)
{
    struct world w;
    enum dz_wasm_stop stop;
    int calls = 0;
    open_guest(&w, "jumps", dispatch);
    world_begin1(&w, "run_handler", (uint32_t)rounds);
    uint32_t e = dz_wasm_module_export(w.module, "handler", 7);
    CHECK(e != DZ_WASM_NONE);
    uint32_t handler = w.module->exports[e].index;
    for (uint32_t step = 1; !stop_is_final(stop = world_step(&w)); step++) {
        if (swap && step % 3 == 0)
            world_swap(&w);
        if (step % 40 == 0 && dz_wasm_injected(w.inst) == 0) {
            uint64_t value = (uint64_t)(50 + ++calls);
            CHECK_INT(dz_wasm_inject(w.inst, handler, &value, 1, NULL), 0);
        }
    }
    struct outcome o = world_outcome(&w, stop);
    CHECK_INT(o.stop, DZ_WASM_DONE);
    CHECK_INT(o.emitted, rounds + 1);
    CHECK(calls >= rounds);
    world_close(&w);
    return o;
}

TEST(jump_out_of_an_injected_handler)
{
    struct outcome a = run_handler(DZ_WASM_DISPATCH_GOTO, 12, false);
    struct outcome b = run_handler(DZ_WASM_DISPATCH_SWITCH, 12, true);
    CHECK(outcome_same(&b, &a, "handler that jumps, frozen in between"));
}

/* --- inject ------------------------------------------------------------------------------ */

struct ticks {
    uint32_t every;  /* inject at every n-th safepoint of the program itself */
    uint32_t swap;   /* move at every n-th safepoint, handlers' too; 0: never */
    uint32_t nested; /* at most so many handlers at once */
};

static uint32_t tick(struct world *w, const struct ticks *how, struct outcome *ret)
{
    enum dz_wasm_stop stop;
    uint32_t injected = 0, steps = 0, running = 0;
    uint32_t handler = w->module->exports[dz_wasm_module_export(w->module, "handler", 7)].index;
    while (!stop_is_final(stop = world_step(w))) {
        steps++;
        if (how->swap && steps % how->swap == 0)
            world_swap(w);
        /* where a handler has just ended, what it interrupted has not gone on yet: one
         * more there, and one more, would keep the program in place for ever */
        bool ended = dz_wasm_injected(w->inst) < running;
        running = dz_wasm_injected(w->inst);
        if (stop == DZ_WASM_BLOCKED && running == 0)
            w->host.park_open = 1; /* also when a handler comes first */
        if (!ended && steps % how->every == 0 && running < how->nested) {
            uint64_t value = steps;
            CHECK_INT(dz_wasm_inject(w->inst, handler, &value, 1, NULL), 0);
            injected++;
            running++;
        }
    }
    *ret = world_outcome(w, stop);
    return injected;
}

static void inject_with(const struct ticks *how, const struct outcome *plain)
{
    struct world w;
    struct outcome o;
    open_guest(&w, "ticks", DZ_WASM_DISPATCH_SWITCH);
    world_begin1(&w, "run", 130);
    uint32_t injected = tick(&w, how, &o);
    CHECK_INT(o.stop, DZ_WASM_DONE);
    CHECK(o.result[0] == plain->result[0] && o.output == plain->output && o.parks == plain->parks);
    world_begin1(&w, "ticks", 0);
    CHECK_INT(world_finish(&w).result[0], injected);
    CHECK(injected > (how->every <= 3 ? 20u : 3u)); /* the rarer ways get in less often */
    world_close(&w);
}

TEST(inject_between_any_two_safepoints_changes_nothing)
{
    static const struct ticks ways[] = {
        {.every = 1, .nested = 1},
        {.every = 3, .nested = 1, .swap = 1},
        {.every = 151, .nested = 4}, /* a handler takes 178: they nest */
        {.every = 97, .nested = 3, .swap = 50},
    };
    struct world w;
    open_guest(&w, "ticks", DZ_WASM_DISPATCH_GOTO);
    world_begin1(&w, "run", 130);
    struct outcome plain = world_finish(&w);
    CHECK_INT(plain.stop, DZ_WASM_DONE);
    world_close(&w);
    for (size_t i = 0; i < DZ_ARRAY_LEN(ways); i++)
        inject_with(&ways[i], &plain);
}
