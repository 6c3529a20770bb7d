/* SPDX-License-Identifier: MIT
 *
 * A module that validates is run: its start function and each exported
 * function, with arguments made from the input, little memory and little fuel,
 * by both builds of the loop. They must stop for the same reason at the same
 * place with the same results, fuel, globals and memory. Whatever a valid module does,
 * the worst is a trap. Imports are functions that give what they got. */
#include "base/hash.h"
#include "base/mem.h"
#include "wasm/wasm.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum {
    FUEL = 20000,
    PAGES = 32,
    CALLS = 12,
    BLOCKS = 3,
};

/* What a run showed, for comparing. */
struct seen {
    uint64_t hash;
    int calls;
};

static void see(struct seen *s, const void *p, size_t n)
{
    const uint64_t key[2] = {s->hash, n};
    s->hash = dz_siphash(key, p, n);
}

static void see_state(struct seen *s, struct dz_wasm_store *store, struct dz_wasm_inst *inst,
                      const struct dz_wasm_module *m)
{
    uint64_t fuel = dz_wasm_fuel(store);
    see(s, &fuel, sizeof fuel);
    for (uint32_t i = 0; i < m->n_memories; i++) {
        uint64_t size = dz_wasm_mem_size(inst, i);
        see(s, &size, sizeof size);
        see(s, dz_wasm_mem(inst, i, 0, size), size);
    }
    for (uint32_t i = 0; i < m->n_globals; i++)
        if (!dz_wasm_valtype_is_ref(m->globals[i].type))
            see(s, dz_wasm_global(inst, i), 8 * dz_wasm_valtype_slots(m->globals[i].type));
}

/* Run what was begun to its end, interrupting it now and then. */
static bool finish(struct seen *s, struct dz_wasm_store *store, unsigned results)
{
    enum dz_wasm_stop stop;
    dz_wasm_fuel_set(store, FUEL);
    dz_wasm_interrupt(store);
    do
        stop = dz_wasm_run(store);
    while (stop == DZ_WASM_INTERRUPTED);
    see(s, &stop, sizeof stop);
    if (stop == DZ_WASM_DONE)
        see(s, dz_wasm_results(store), results * sizeof(uint64_t));
    if (stop == DZ_WASM_TRAPPED) {
        struct dz_wasm_trap trap = dz_wasm_trap_get(store);
        struct dz_wasm_pos frames[4];
        see(s, &trap.kind, sizeof trap.kind);
        see(s, &trap.at, sizeof trap.at);
        size_t n = dz_wasm_trace(store, frames, 4);
        see(s, frames, (n < 4 ? n : 4) * sizeof *frames);
    }
    dz_wasm_abandon(store);
    return stop == DZ_WASM_DONE;
}

static void call(struct seen *s, struct dz_wasm_store *store, struct dz_wasm_inst *inst,
                 const struct dz_wasm_module *m, uint32_t func)
{
    static uint64_t args[DZ_WASM_PARAM_SLOTS_MAX];
    const struct dz_wasm_type *t = &m->types[m->funcs[func].type];
    uint32_t slot = 0;
    for (uint32_t i = 0; i < t->n_params; i++) {
        unsigned type = m->valtypes[t->params + i];
        uint64_t mixed = (s->hash ^ i) * 0x9e3779b97f4a7c15u;
        bool small = mixed >> 60 < 12; /* mostly small numbers: they go further */
        args[slot] = dz_wasm_valtype_is_ref(type) ? 0 : small ? mixed >> 40 & 0xff : mixed;
        if (type == DZ_WASM_I32 || type == DZ_WASM_F32)
            args[slot] = (uint32_t)args[slot];
        if (type == DZ_WASM_V128)
            args[slot + 1] = mixed;
        slot += dz_wasm_valtype_slots(type);
    }
    if (dz_wasm_begin(inst, func, args, slot, NULL) == 0)
        (void)finish(s, store, 0);
    see_state(s, store, inst, m);
}

static struct seen run_all(struct dz_wasm_module *m, enum dz_wasm_dispatch dispatch)
{
    const struct dz_wasm_config config = {
        .dispatch = dispatch,
        .memory_pages_max = PAGES,
        .table_max = 10000,
        .stack_slots = 20000,
        .exns_max = 64,
        .code_max = 16 << 20,
        .fuel = true,
    };
    struct seen s = {0};
    struct dz_wasm_store *store;
    struct dz_wasm_inst *inst;
    int rc = dz_wasm_store_new(&config, &store, NULL);
    assert(rc == 0);
    rc = dz_wasm_instantiate(store, m, NULL, &inst, NULL);
    see(&s, &rc, sizeof rc);
    if (rc == 0) {
        if (dz_wasm_begin_start(inst, NULL) > 0)
            (void)finish(&s, store, 0);
        see_state(&s, store, inst, m);
        for (uint32_t i = 0; i < m->n_exports && s.calls < CALLS; i++)
            if (m->exports[i].kind == DZ_WASM_KIND_FUNC) {
                s.calls++;
                call(&s, store, inst, m, m->exports[i].index);
            }
    }
    dz_wasm_store_free(store);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *flat;
    size_t n;
    struct dz_wasm_module *m;
    if (dz_wasm_prepare_alloc(data, size, DZ_WASM_F_ALL, &flat, &n, NULL) < 0)
        return 0;
    int rc = dz_wasm_module_open(flat, n, &m, NULL);
    assert(rc == 0);
    struct seen a = run_all(m, DZ_WASM_DISPATCH_GOTO);
    struct seen b = run_all(m, DZ_WASM_DISPATCH_SWITCH);
    assert(a.calls == b.calls && a.hash == b.hash);
    dz_wasm_module_close(m);
    dz_free(flat);
    return 0;
}
