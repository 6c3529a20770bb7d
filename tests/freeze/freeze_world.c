/* SPDX-License-Identifier: MIT
 *
 * freeze_world.c - a world: open, run, save, load, copy, compare.
 *
 * What must work for a test to mean anything aborts when it does not; what is
 * being tested is compared by outcome_same().
 */
#include "freeze.h"

#include "../lib/wasm_marks.h"
#include "base/mem.h"

#include <inttypes.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)

static uint64_t fnv(uint64_t h, const void *data, size_t size)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* A word at a time: memories are large. */
static uint64_t hash_memory(const uint8_t *p, size_t size)
{
    uint64_t h = FNV_START, word;
    for (size_t i = 0; i + 8 <= size; i += 8) {
        memcpy(&word, p + i, 8);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 31;
    }
    return h;
}

static void check(int rc, const char *what, const struct dz_err *err)
{
    if (rc >= 0)
        return;
    printf("# %s: %s\n", what, err->msg);
    (void)fflush(stdout);
    abort();
}

/* --- bytes ---------------------------------------------------------------------- */

void bytes_add(struct bytes *b, const void *data, size_t size)
{
    if (b->cap - b->size < size) {
        b->cap = b->size + size + (b->cap >> 1) + 4096;
        b->p = realloc(b->p, b->cap);
        if (!b->p)
            abort();
    }
    if (size)
        memcpy(b->p + b->size, data, size);
    b->size += size;
}
void bytes_free(struct bytes *b)
{
    free(b->p);
    *b = (struct bytes){0};
}
bool bytes_file(struct bytes *b, const char *path)
{
    char part[65536];
    size_t got;
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    while ((got = fread(part, 1, sizeof part, f)) > 0)
        bytes_add(b, part, got);
    return fclose(f) == 0;
}

static int sink_write(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    (void)err;
    bytes_add(ctx, data, size);
    return 0;
}
static int source_read(void *ctx, void *data, size_t size, struct dz_err *err)
{
    struct bytes *b = ctx;
    if (b->size - b->at < size)
        return dz_fail(err, DZ_ECORRUPT, "the state ends early");
    memcpy(data, b->p + b->at, size);
    b->at += size;
    return 0;
}

/* --- the host ---------------------------------------------------------------------- */

static enum dz_wasm_host_result host_emit(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    struct world *w = user;
    uint32_t value = (uint32_t)slots[0];
    (void)inst;
    w->host.output = fnv(w->host.output ? w->host.output : FNV_START, &value, sizeof value);
    w->host.emitted++;
    return DZ_WASM_HOST_DONE;
}

static enum dz_wasm_host_result host_park(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    struct world *w = user;
    (void)inst;
    if (!w->host.park_open)
        return DZ_WASM_HOST_BLOCK;
    w->host.park_open = 0;
    slots[0] = ++w->host.parks;
    return DZ_WASM_HOST_DONE;
}

static enum dz_wasm_host_result host_fork(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    struct world *w = user;
    (void)inst;
    if (!w->host.fork_known) {
        w->host.forking = 1;
        return DZ_WASM_HOST_BLOCK;
    }
    slots[0] = (uint32_t)w->host.fork_result;
    w->host.fork_known = w->host.forking = 0;
    return DZ_WASM_HOST_DONE;
}

static enum dz_wasm_host_result host_nothing(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    (void)user, (void)inst, (void)slots;
    return DZ_WASM_HOST_DONE;
}

/* As much of WASI as printf needs: what is written is output. */
static enum dz_wasm_host_result host_write(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    struct world *w = user;
    const uint8_t *list = dz_wasm_mem(inst, 0, (uint32_t)slots[1], 8 * (uint32_t)slots[2]);
    uint8_t *written = dz_wasm_mem(inst, 0, (uint32_t)slots[3], 4);
    uint32_t total = 0, part[2];
    if (!list || !written)
        return DZ_WASM_HOST_TRAP;
    for (uint32_t i = 0; i < (uint32_t)slots[2]; i++) {
        memcpy(part, list + i * sizeof part, sizeof part);
        const uint8_t *bytes = dz_wasm_mem(inst, 0, part[0], part[1]);
        if (!bytes)
            return DZ_WASM_HOST_TRAP;
        w->host.output = fnv(w->host.output ? w->host.output : FNV_START, bytes, part[1]);
        total += part[1];
    }
    w->host.emitted += total;
    memcpy(written, &total, sizeof total);
    slots[0] = 0;
    return DZ_WASM_HOST_DONE;
}
static enum dz_wasm_host_result host_not_there(void *user, struct dz_wasm_inst *inst,
                                               uint64_t *slots)
{
    (void)user, (void)inst;
    slots[0] = 8; /* errno badf */
    return DZ_WASM_HOST_DONE;
}

static const struct dz_wasm_host host_table[] = {
    {"wasi_snapshot_preview1", "fd_write", "iiii>i", host_write},
    {"wasi_snapshot_preview1", "fd_seek", "iIii>i", host_not_there},
    {"wasi_snapshot_preview1", "fd_close", "i>i", host_not_there},
    {"wasi_snapshot_preview1", "fd_fdstat_get", "ii>i", host_not_there},
    {"test", "emit", "i>", host_emit},
    {"test", "park", ">i", host_park},
    {"test", "fork", ">i", host_fork},
    {"test", "mark", "i>i", host_mark},
    {"test", "jump", "ii>", host_jump},
    {"spectest", "print", ">", host_nothing},
    {"spectest", "print_i32", "i>", host_nothing},
    {"spectest", "print_i64", "I>", host_nothing},
    {"spectest", "print_f32", "f>", host_nothing},
    {"spectest", "print_f64", "F>", host_nothing},
    {"spectest", "print_i32_f32", "if>", host_nothing},
    {"spectest", "print_f64_f64", "FF>", host_nothing},
};

/* --- a world ------------------------------------------------------------------------ */

enum dz_wasm_dispatch other_dispatch(enum dz_wasm_dispatch d)
{
    return d == DZ_WASM_DISPATCH_GOTO ? DZ_WASM_DISPATCH_SWITCH : DZ_WASM_DISPATCH_GOTO;
}

static void open_instance(struct world *w, enum dz_wasm_dispatch dispatch)
{
    struct dz_err err = {0};
    struct dz_wasm_config cfg = {.dispatch = dispatch};
    w->dispatch = dispatch;
    check(dz_wasm_store_new(&cfg, &w->store, &err), "store", &err);
    check(dz_wasm_instantiate(w->store, w->module,
                              &(struct dz_wasm_imports){host_table, DZ_ARRAY_LEN(host_table), w},
                              &w->inst, &err),
          "instantiate", &err);
}

void world_open(struct world *w, const void *wasm, size_t size, enum dz_wasm_dispatch dispatch)
{
    struct dz_err err = {0};
    size_t flat_size = 0;
    *w = (struct world){0};
    check(dz_wasm_prepare_alloc(wasm, size, DZ_WASM_F_ALL, &w->flat, &flat_size, &err), "prepare",
          &err);
    check(dz_wasm_module_open(w->flat, flat_size, &w->module, &err), "open", &err);
    open_instance(w, dispatch);
}

void world_close(struct world *w)
{
    dz_wasm_store_free(w->store);
    if (w->flat) {
        dz_wasm_module_close(w->module);
        dz_free(w->flat);
    }
    *w = (struct world){0};
}

void world_begin(struct world *w, const char *name, const uint64_t *args, size_t count)
{
    struct dz_err err = {0};
    uint32_t e = dz_wasm_module_export(w->module, name, strlen(name));
    check(e == DZ_WASM_NONE ? -1 : 0, name, &err);
    check(dz_wasm_begin(w->inst, w->module->exports[e].index, args, count, &err), name, &err);
}
void world_begin1(struct world *w, const char *name, uint32_t arg)
{
    uint64_t slot = arg;
    world_begin(w, name, &slot, 1);
}

bool stop_is_final(enum dz_wasm_stop stop)
{
    return stop != DZ_WASM_INTERRUPTED && stop != DZ_WASM_BLOCKED && stop != DZ_WASM_OUT_OF_FUEL;
}

enum dz_wasm_stop world_step(struct world *w)
{
    dz_wasm_interrupt(w->store);
    return dz_wasm_run(w->store);
}

struct outcome world_outcome(struct world *w, enum dz_wasm_stop stop)
{
    struct outcome o = {
        .stop = stop, .output = w->host.output, .emitted = w->host.emitted, .parks = w->host.parks};
    if (stop == DZ_WASM_TRAPPED)
        o.trap = dz_wasm_trap_get(w->store).kind;
    if (stop == DZ_WASM_DONE)
        memcpy(o.result, dz_wasm_results(w->store), sizeof o.result[0]);
    for (uint32_t i = 0; i < dz_wasm_mem_count(w->inst); i++) {
        uint64_t size = dz_wasm_mem_size(w->inst, i);
        const uint8_t *p = dz_wasm_mem(w->inst, i, 0, size);
        o.memory = o.memory * 31 + (p ? hash_memory(p, size) : 1);
        o.memory_size = o.memory_size * 31 + size;
    }
    return o;
}

struct outcome world_finish(struct world *w)
{
    enum dz_wasm_stop stop;
    while (!stop_is_final(stop = dz_wasm_run(w->store)))
        if (stop == DZ_WASM_BLOCKED)
            w->host.park_open = 1;
    return world_outcome(w, stop);
}

bool outcome_same(const struct outcome *a, const struct outcome *b, const char *what)
{
    if (memcmp(a, b, sizeof *a) == 0)
        return true;
    printf("# %s: stop %u trap %u result %" PRIx64 " output %" PRIx64 " (%u) memory %" PRIx64
           " size %" PRIx64 " parks %u, not stop %u trap %u result %" PRIx64 " output %" PRIx64
           " (%u) memory %" PRIx64 " size %" PRIx64 " parks %u\n",
           what, a->stop, a->trap, a->result[0], a->output, a->emitted, a->memory, a->memory_size,
           a->parks, b->stop, b->trap, b->result[0], b->output, b->emitted, b->memory,
           b->memory_size, b->parks);
    return false;
}

/* --- saving and copying ----------------------------------------------------------------- */

void world_save(struct world *w, struct bytes *to)
{
    struct dz_err err = {0};
    struct dz_wasm_sink sink = {.write = sink_write, .ctx = to};
    bytes_add(to, &w->host, sizeof w->host);
    check(dz_wasm_save(w->inst, true, &sink, &err), "save", &err);
}

void world_load(struct world *w, struct bytes *from)
{
    struct dz_err err = {0};
    struct dz_wasm_source source = {.read = source_read, .ctx = from};
    check(source_read(from, &w->host, sizeof w->host, &err), "load", &err);
    check(dz_wasm_load(w->inst, &source, &err), "load", &err);
}

void world_copy(struct world *w, struct world *ret_copy)
{
    struct dz_err err = {0};
    struct dz_wasm_copy how = {
        .host = host_table, .host_count = DZ_ARRAY_LEN(host_table), .user = ret_copy};
    *ret_copy = (struct world){.module = w->module, .host = w->host, .dispatch = w->dispatch};
    check(dz_wasm_copy(w->inst, &how, &ret_copy->inst, &err), "copy", &err);
    ret_copy->store = dz_wasm_inst_store(ret_copy->inst);
}

void world_swap(struct world *w)
{
    struct bytes state = {0};
    world_save(w, &state);
    dz_wasm_store_free(w->store);
    open_instance(w, other_dispatch(w->dispatch));
    world_load(w, &state);
    bytes_free(&state);
}
