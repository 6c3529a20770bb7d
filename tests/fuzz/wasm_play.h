/* SPDX-License-Identifier: MIT
 *
 * wasm_play.h - run every export of a module in several ways that must agree.
 *
 * The same calls with the same fuel: in one go; stopped at its first safepoints
 * and moved there, through a saved state, to a new store; and, when the module's
 * NaNs are canonical, in the other dispatch and with wide frames. How each call ends, its results,
 * the memory and the fuel left must be the same. Limits are small, so that a wild module is cheap.
 */
#ifndef DZ_FUZZ_WASM_PLAY_H
#define DZ_FUZZ_WASM_PLAY_H

#include "base/mem.h"
#include "wasm/wasm.h"
#include "wasm/wasm_module.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLAY_FUEL = 5000,
    PLAY_EXPORTS = 6,
    PLAY_SLOTS = 32, /* of arguments and results at most */
    PLAY_STOPS = 40, /* safepoints of one call at which it is stopped */
    PLAY_SWAPS = 4,  /* of them, at which it is saved and loaded */
    PLAY_STATE = 4 << 20,
};

struct play_end {
    uint64_t hash; /* of everything */
    uint32_t stop[PLAY_EXPORTS + 1], trap[PLAY_EXPORTS + 1];
    uint64_t fuel[PLAY_EXPORTS + 1];
};

struct play {
    struct dz_wasm_module *module;
    struct dz_wasm_store *store;
    struct dz_wasm_inst *inst;
    enum dz_wasm_dispatch dispatch;
    bool wide;     /* translated as functions with huge frames are */
    bool stopping; /* stop and move */
    uint32_t swaps;
    uint32_t blocks; /* answers of the host */
};

static enum dz_wasm_host_result play_host(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    struct play *p = user;
    (void)inst;
    slots[0] = 1;
    return ++p->blocks % 3 == 1 ? DZ_WASM_HOST_BLOCK : DZ_WASM_HOST_DONE;
}
static const struct dz_wasm_host play_table[] = {
    {"spectest", "print", ">", play_host},      {"spectest", "print_i32", "i>", play_host},
    {"spectest", "print_i64", "I>", play_host}, {"spectest", "print_f32", "f>", play_host},
    {"spectest", "print_f64", "F>", play_host}, {"test", "emit", "i>", play_host},
    {"test", "ask", ">i", play_host},
};

static bool play_open(struct play *p, enum dz_wasm_dispatch dispatch)
{
    struct dz_wasm_config cfg = {.dispatch = dispatch,
                                 .memory_pages_max = 16,
                                 .table_max = 2000,
                                 .stack_slots = 8192,
                                 .exns_max = 16,
                                 .code_max = 16 << 20,
                                 .fuel = true,
                                 .wide_frames = p->wide};
    p->dispatch = dispatch;
    if (dz_wasm_store_new(&cfg, &p->store, NULL) < 0)
        return false;
    if (dz_wasm_instantiate(p->store, p->module,
                            &(struct dz_wasm_imports){play_table, DZ_ARRAY_LEN(play_table), p},
                            &p->inst, NULL) == 0)
        return true;
    dz_wasm_store_free(p->store);
    return false;
}

struct play_state {
    uint8_t *p;
    size_t size, at;
};
static int play_write(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    struct play_state *s = ctx;
    if (size > PLAY_STATE - s->size)
        return dz_fail(err, DZ_ELIMIT, "too large");
    memcpy(s->p + s->size, data, size);
    s->size += size;
    return 0;
}
static int play_read(void *ctx, void *data, size_t size, struct dz_err *err)
{
    struct play_state *s = ctx;
    if (size > s->size - s->at)
        return dz_fail(err, DZ_ECORRUPT, "ends early");
    memcpy(data, s->p + s->at, size);
    s->at += size;
    return 0;
}

/* What was saved must load: in a new store, of the other dispatch and translated the
 * other way (wide or not) if `other`. */
static void play_swap(struct play *p, bool other)
{
    static uint8_t bytes[PLAY_STATE];
    struct play_state state = {.p = bytes};
    struct dz_wasm_sink sink = {.write = play_write, .ctx = &state};
    struct dz_wasm_source source = {.read = play_read, .ctx = &state};
    struct dz_err err = {0};
    uint64_t fuel = dz_wasm_fuel(p->store);
    if (dz_wasm_save(p->inst, true, &sink, &err) == 0) {
        dz_wasm_store_free(p->store);
        p->wide ^= other;
        bool opened = play_open(p, !other                                 ? p->dispatch
                                   : p->dispatch == DZ_WASM_DISPATCH_GOTO ? DZ_WASM_DISPATCH_SWITCH
                                                                          : DZ_WASM_DISPATCH_GOTO);
        int rc = opened ? dz_wasm_load(p->inst, &source, &err) : -1;
        if (rc < 0) {
            (void)fprintf(stderr, "a saved state does not load: %s\n", err.msg);
            abort();
        }
        dz_wasm_fuel_set(p->store, fuel);
    }
}

static enum dz_wasm_stop play_run(struct play *p, bool other)
{
    enum dz_wasm_stop stop;
    uint32_t stops = 0;
    do {
        if (p->stopping && stops < PLAY_STOPS)
            dz_wasm_interrupt(p->store);
        stop = dz_wasm_run(p->store);
        bool waits = stop == DZ_WASM_INTERRUPTED || stop == DZ_WASM_BLOCKED;
        if (!waits)
            return stop;
        if (p->stopping && stops % 9 == 2 && p->swaps++ < PLAY_SWAPS)
            play_swap(p, other);
    } while (++stops < 100000);
    return stop;
}

static uint64_t play_mix(uint64_t h, uint64_t x)
{
    return (h ^ x ^ h >> 29) * UINT64_C(0x9e3779b97f4a7c15);
}

static void play_note(struct play *p, struct play_end *end, size_t i, enum dz_wasm_stop stop,
                      uint32_t results)
{
    end->stop[i] = stop;
    end->trap[i] = stop == DZ_WASM_TRAPPED ? dz_wasm_trap_get(p->store).kind : 0;
    end->fuel[i] = dz_wasm_fuel(p->store);
    if (stop == DZ_WASM_DONE)
        for (uint32_t k = 0; k < results; k++)
            end->hash = play_mix(end->hash, dz_wasm_results(p->store)[k]);
    struct dz_wasm_pos pos[8];
    (void)dz_wasm_trace(p->store, pos, DZ_ARRAY_LEN(pos));
    dz_wasm_abandon(p->store);
}

static void play_call(struct play *p, struct play_end *end, size_t i, uint32_t func, bool other)
{
    uint32_t params = 0, results = 0;
    uint64_t args[PLAY_SLOTS];
    if (dz_wasm_func_slots(p->inst, func, &params, &results) < 0 || params > PLAY_SLOTS)
        return;
    for (uint32_t k = 0; k < params; k++)
        args[k] = 0; /* null for every reference */
    if (dz_wasm_begin(p->inst, func, args, params, NULL) < 0)
        return;
    dz_wasm_fuel_set(p->store, PLAY_FUEL);
    play_note(p, end, i, play_run(p, other), results);
}

/* One way through the module; `other` without stopping: with wide frames. False: it
 * cannot be instantiated. */
static bool play_once(struct dz_wasm_module *m, enum dz_wasm_dispatch dispatch, bool stopping,
                      bool other, struct play_end *end)
{
    struct play p = {.module = m, .stopping = stopping, .wide = other && !stopping};
    size_t n = 0;
    memset(end, 0, sizeof *end);
    if (!play_open(&p, dispatch))
        return false;
    dz_wasm_fuel_set(p.store, PLAY_FUEL);
    if (dz_wasm_begin_start(p.inst, NULL) > 0)
        play_note(&p, end, PLAY_EXPORTS, play_run(&p, other), 0);
    for (uint32_t i = 0; i < m->n_exports && n < PLAY_EXPORTS; i++)
        if (m->exports[i].kind == DZ_WASM_KIND_FUNC)
            play_call(&p, end, n++, m->exports[i].index, other);
    for (uint32_t i = 0; i < dz_wasm_mem_count(p.inst); i++) {
        uint64_t size = dz_wasm_mem_size(p.inst, i), word;
        const uint8_t *bytes = dz_wasm_mem(p.inst, i, 0, size);
        end->hash = play_mix(end->hash, size);
        for (uint64_t k = 0; bytes && k < size; k += 8) {
            memcpy(&word, bytes + k, 8);
            end->hash = play_mix(end->hash, word);
        }
    }
    dz_wasm_store_free(p.store);
    return true;
}

static void play_compare(const struct play_end *a, const struct play_end *b, const char *what)
{
    if (memcmp(a, b, sizeof *a) == 0)
        return;
    for (size_t i = 0; i <= PLAY_EXPORTS; i++)
        (void)fprintf(stderr, "%zu: stop %u trap %u fuel %llu, %u %u %llu\n", i, a->stop[i],
                      a->trap[i], (unsigned long long)a->fuel[i], b->stop[i], b->trap[i],
                      (unsigned long long)b->fuel[i]);
    (void)fprintf(stderr, "not the same: %s\n", what);
    abort();
}

/* All ways. `canonical`: NaNs have one bit pattern, so both dispatches agree on them. */
static void play(const uint8_t *wasm, size_t size, bool canonical)
{
    struct play_end whole, parts;
    struct dz_wasm_module *m = NULL;
    void *flat = NULL;
    size_t flat_size = 0;
    if (dz_wasm_prepare_alloc(wasm, size, DZ_WASM_F_ALL, &flat, &flat_size, NULL) < 0)
        return;
    if (dz_wasm_module_open(flat, flat_size, &m, NULL) < 0)
        abort();
    if (play_once(m, DZ_WASM_DISPATCH_SWITCH, false, false, &whole)) {
        if (!play_once(m, DZ_WASM_DISPATCH_SWITCH, true, canonical, &parts))
            abort();
        play_compare(&whole, &parts, "in one go, and stopped");
        if (canonical && play_once(m, DZ_WASM_DISPATCH_GOTO, false, false, &parts))
            play_compare(&whole, &parts, "switch, and goto");
        if (canonical && play_once(m, DZ_WASM_DISPATCH_SWITCH, false, true, &parts))
            play_compare(&whole, &parts, "narrow, and wide");
    }
    dz_wasm_module_close(m);
    dz_free(flat);
}

#endif
