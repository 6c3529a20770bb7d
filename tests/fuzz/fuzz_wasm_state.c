/* SPDX-License-Identifier: MIT
 *
 * Input: the size of a module (u32), the module, a saved state. The state's
 * hash is made that of the module, so that what is behind it is reached. A
 * state that loads must save again, that one must load too, into code with wide
 * frames, and both must run to the same end. */
#include "../lib/wasm_marks.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "wasm/wasm.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum {
    FUEL = 20000,
    SHA_AT = 16, /* in the state's header */
    STATE_MAX = 64 << 20,
};

struct input {
    const uint8_t *p;
    size_t n;
};

static int read_input(void *ctx, void *data, size_t size, struct dz_err *err)
{
    struct input *in = ctx;
    if (size > in->n)
        return dz_fail(err, DZ_ECORRUPT, "the state ends too early");
    memcpy(data, in->p, size);
    in->p += size;
    in->n -= size;
    return 0;
}

static int write_state(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    struct dz_buf *b = ctx;
    (void)err;
    dz_buf_add(b, data, size);
    return b->err;
}

/* The host of tests/unit/wasm_rig.h, so that states with marks can be run. */
static enum dz_wasm_host_result park(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    (void)user, (void)inst;
    slots[0] = 3;
    return DZ_WASM_HOST_DONE;
}
static const struct dz_wasm_host host[] = {
    {"env", "park", ">i", park},
    {"env", "mark", "i>i", host_mark},
    {"env", "jump", "ii>", host_jump},
};

/* A store with an instance in this state; NULL when it is refused. */
static struct dz_wasm_inst *restore(struct dz_wasm_module *m, const void *state, size_t size,
                                    bool wide)
{
    const struct dz_wasm_config config = {
        .dispatch = DZ_WASM_DISPATCH_SWITCH,
        .memory_pages_max = 48,
        .table_max = 10000,
        .stack_slots = 20000,
        .exns_max = 64,
        .code_max = 16 << 20,
        .fuel = true,
        .wide_frames = wide,
    };
    struct input in = {state, size};
    const struct dz_wasm_source source = {read_input, &in};
    struct dz_wasm_store *store;
    struct dz_wasm_inst *inst;
    int rc = dz_wasm_store_new(&config, &store, NULL);
    assert(rc == 0);
    if (dz_wasm_instantiate(store, m, &(struct dz_wasm_imports){host, DZ_ARRAY_LEN(host), NULL},
                            &inst, NULL) == 0 &&
        dz_wasm_load(inst, &source, NULL) == 0)
        return inst;
    dz_wasm_store_free(store);
    return NULL;
}

/* Run it with the same fuel; a hash of how it ended. */
static uint64_t finish(struct dz_wasm_inst *inst)
{
    struct dz_wasm_store *store = dz_wasm_inst_store(inst);
    uint64_t key[2] = {0, 0};
    dz_wasm_fuel_set(store, FUEL);
    do
        key[0] = dz_wasm_run(store);
    while (key[0] == DZ_WASM_INTERRUPTED);
    if (key[0] == DZ_WASM_TRAPPED)
        key[1] = dz_wasm_trap_get(store).kind;
    uint64_t size = dz_wasm_mem_count(inst) ? dz_wasm_mem_size(inst, 0) : 0;
    return size ? dz_siphash(key, dz_wasm_mem(inst, 0, 0, size), size)
                : dz_siphash(key, &size, sizeof size);
}

static void check(struct dz_wasm_module *m, const void *state, size_t size)
{
    struct dz_wasm_inst *first = restore(m, state, size, false);
    if (!first)
        return;
    DZ_AUTO(dz_buf_release) struct dz_buf saved = DZ_BUF_INIT(STATE_MAX);
    const struct dz_wasm_sink sink = {.write = write_state, .ctx = &saved};
    int rc = dz_wasm_save(first, true, &sink, NULL);
    assert(rc == 0);
    struct dz_wasm_inst *second = restore(m, saved.p, saved.len, true);
    assert(second);
    uint64_t a = finish(first), b = finish(second);
    assert(a == b);
    dz_wasm_store_free(dz_wasm_inst_store(first));
    dz_wasm_store_free(dz_wasm_inst_store(second));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t n;
    void *flat;
    size_t flat_size;
    struct dz_wasm_module *m;
    if (size < sizeof n)
        return 0;
    memcpy(&n, data, sizeof n);
    data += sizeof n;
    size -= sizeof n;
    if (n > size || dz_wasm_prepare_alloc(data, n, DZ_WASM_F_ALL, &flat, &flat_size, NULL) < 0)
        return 0;
    int rc = dz_wasm_module_open(flat, flat_size, &m, NULL);
    assert(rc == 0);
    size -= n;
    uint8_t *state = dz_alloc(size);
    memcpy(state, data + n, size);
    if (size >= SHA_AT + DZ_WASM_SHA256)
        memcpy(state + SHA_AT, m->header->sha256, DZ_WASM_SHA256);
    check(m, state, size);
    dz_free(state);
    dz_wasm_module_close(m);
    dz_free(flat);
    return 0;
}
