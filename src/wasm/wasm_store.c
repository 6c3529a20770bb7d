/* SPDX-License-Identifier: MIT
 *
 * wasm_store.c - stores: making, emptying, the names for imports; a host's view of an instance.
 */
#include "base/mem.h"
#include "wasm/wasm_code.h"
#include "wasm/wasm_rt.h"
#include "wasm/wasm_state.h"

#include <string.h>

enum {
    SLOTS_DEFAULT = 1 << 20,
    SLOTS_MIN = 64,
    EXNS_DEFAULT = 4096,
    NAMES_MAX = 1 << 16,
};

struct wasm_name {
    char *name;
    struct dz_wasm_inst *inst;
};

static struct dz_wasm_watcher watcher;

void dz_wasm_watch(const struct dz_wasm_watcher *w)
{
    watcher = w ? *w : (struct dz_wasm_watcher){0};
}

const char *dz_wasm_trap_text(enum dz_wasm_trap_kind kind)
{
    static const char *const text[] = {
#define X(name, words) words,
        DZ_WASM_TRAP_MAP(X)
#undef X
    };
    return kind < DZ_WASM_TRAP_COUNT ? text[kind] : "unknown trap";
}

static int check_config(struct dz_wasm_config *c, struct dz_err *err)
{
    if (c->memory_pages_max == 0)
        c->memory_pages_max = DZ_WASM_PAGES_MAX;
    if (c->table_max == 0)
        c->table_max = DZ_WASM_TABLE_MAX;
    if (c->stack_slots == 0)
        c->stack_slots = SLOTS_DEFAULT;
    if (c->exns_max == 0)
        c->exns_max = EXNS_DEFAULT;
    if (c->memory_pages_max > DZ_WASM_PAGES_MAX || c->stack_slots > DZ_WASM_STACK_SLOTS_MAX ||
        c->stack_slots < SLOTS_MIN || c->exns_max > DZ_WASM_EXNS_MAX)
        return dz_fail(err, DZ_EINVAL,
                       "limits of a store out of range: %u pages, %u slots, %u exceptions",
                       c->memory_pages_max, c->stack_slots, c->exns_max);
    return 0;
}

static int make_depths(struct dz_wasm_store *s, struct dz_err *err)
{
    void *base = NULL;
    s->depths_bytes = s->slots_bytes / sizeof *s->slots * sizeof *s->depths;
    s->depths_bytes = (s->depths_bytes + DZ_WASM_PAGE - 1) / DZ_WASM_PAGE * DZ_WASM_PAGE;
    int rc = dz_wasm_mem_anon.reserve(NULL, s->depths_bytes, &base, err);
    if (rc < 0)
        return rc;
    s->depths = base;
    return dz_wasm_mem_anon.commit(NULL, base, 0, s->depths_bytes, err);
}

int dz_wasm_store_new(const struct dz_wasm_config *cfg, struct dz_wasm_store **ret_store,
                      struct dz_err *err)
{
    struct dz_wasm_config c = cfg ? *cfg : (struct dz_wasm_config){0};
    int rc = check_config(&c, err);
    if (rc < 0)
        return rc;
    struct dz_wasm_store *s = dz_zalloc(sizeof *s);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "no memory for a store");
    s->cfg = c;
    s->mem_ops = c.mem_ops ? c.mem_ops : &dz_wasm_mem_anon;
    s->slots_bytes =
        ((size_t)c.stack_slots * sizeof(uint64_t) + DZ_WASM_PAGE - 1) / DZ_WASM_PAGE * DZ_WASM_PAGE;
    void *base = NULL;
    rc = dz_wasm_mem_anon.reserve(NULL, s->slots_bytes, &base, err);
    if (rc == 0) {
        s->slots = base;
        rc = dz_wasm_mem_anon.commit(NULL, base, 0, s->slots_bytes, err);
    }
    if (rc == 0 && c.call_depth)
        rc = make_depths(s, err);
    if (rc < 0) {
        dz_wasm_store_free(s);
        return rc;
    }
    s->limit = s->slots + c.stack_slots;
    atomic_init(&s->ctx.limit, s->limit);
    *ret_store = s;
    return 0;
}

/* Remove all instances, frames and exceptions from the store (exec). */
static void store_reset(struct dz_wasm_store *s)
{
    dz_wasm_abandon(s);
    dz_wasm_exns_clear(s);
    dz_free(s->exns);
    s->exns = NULL;
    s->exn_cap = 0;
    for (uint32_t i = 0; i < s->inst_count; i++)
        dz_wasm_inst_free(s->insts[i]);
    dz_free(s->insts);
    s->insts = NULL;
    s->inst_count = s->inst_cap = 0;
    for (uint32_t i = 0; i < s->name_count; i++)
        dz_free(s->names[i].name);
    dz_free(s->names);
    s->names = NULL;
    s->name_count = 0;
    while (s->mems) {
        struct wasm_mem *m = s->mems;
        s->mems = m->next;
        if (m->base && watcher.gone)
            watcher.gone(watcher.arg, m->base);
        if (m->base && s->mem_ops->keep)
            s->mem_ops->keep(s->cfg.mem_ctx, m->base, m->reserved, m->size);
        else if (m->base)
            s->mem_ops->release(s->cfg.mem_ctx, m->base, m->reserved);
        dz_free(m);
    }
    while (s->tables) {
        struct wasm_table *t = s->tables;
        s->tables = t->next;
        dz_wasm_table_release(t);
        dz_free(t);
    }
    s->table_bytes = 0;
}

void dz_wasm_store_free(struct dz_wasm_store *s)
{
    if (!s)
        return;
    store_reset(s);
    if (s->slots)
        dz_wasm_mem_anon.release(NULL, s->slots, s->slots_bytes);
    if (s->depths)
        dz_wasm_mem_anon.release(NULL, s->depths, s->depths_bytes);
    dz_free(s);
}

int dz_wasm_register(struct dz_wasm_store *s, const char *name, struct dz_wasm_inst *inst,
                     struct dz_err *err)
{
    for (uint32_t i = 0; i < s->name_count; i++) {
        if (strcmp(s->names[i].name, name) == 0) {
            s->names[i].inst = inst;
            return 0;
        }
    }
    if (s->name_count >= NAMES_MAX)
        return dz_fail(err, DZ_ELIMIT, "more than %d names in a store", NAMES_MAX);
    char *copy = dz_strndup(name, strlen(name));
    struct wasm_name *p = dz_realloc(s->names, (s->name_count + 1) * sizeof *p);
    if (p)
        s->names = p;
    if (!copy || !p) {
        dz_free(copy);
        return dz_fail(err, DZ_ENOMEM, "no memory to register the name '%s'", name);
    }
    s->names[s->name_count++] = (struct wasm_name){copy, inst};
    return 0;
}

struct dz_wasm_inst *dz_wasm_store_named(const struct dz_wasm_store *s, const char *name,
                                         size_t size)
{
    for (uint32_t i = 0; i < s->name_count; i++)
        if (strlen(s->names[i].name) == size && memcmp(s->names[i].name, name, size) == 0)
            return s->names[i].inst;
    return NULL;
}

/* --- instances from outside ------------------------------------------------------------- */

struct dz_wasm_store *dz_wasm_inst_store(const struct dz_wasm_inst *inst)
{
    return inst->store;
}
struct dz_wasm_module *dz_wasm_inst_module(const struct dz_wasm_inst *inst)
{
    return inst->module;
}
void dz_wasm_inst_set_user(struct dz_wasm_inst *inst, void *user)
{
    inst->user = user;
}

int64_t dz_wasm_export(const struct dz_wasm_inst *inst, const char *name, enum dz_wasm_kind kind)
{
    uint32_t i = dz_wasm_module_export(inst->module, name, strlen(name));
    if (i == DZ_WASM_NONE || inst->module->exports[i].kind != (uint32_t)kind)
        return DZ_ENOENT;
    return inst->module->exports[i].index;
}

int dz_wasm_func_slots(const struct dz_wasm_inst *inst, uint32_t func, uint32_t *ret_params,
                       uint32_t *ret_results)
{
    if (func >= inst->module->n_funcs)
        return DZ_ENOENT;
    const struct dz_wasm_type *y = &inst->module->types[inst->module->funcs[func].type];
    *ret_params = y->param_slots;
    *ret_results = y->result_slots;
    return 0;
}

uint64_t *dz_wasm_global(struct dz_wasm_inst *inst, uint32_t index)
{
    return index < inst->module->n_globals ? inst->global_at[index] : NULL;
}

uint8_t *dz_wasm_mem(struct dz_wasm_inst *inst, uint32_t index, uint64_t addr, uint64_t size)
{
    if (index >= inst->module->n_memories)
        return NULL;
    const struct wasm_mem *m = inst->mems[index];
    if (addr > m->size || size > m->size - addr)
        return NULL;
    if (watcher.need)
        watcher.need(watcher.arg, m->base + addr, size);
    return m->base + addr;
}
uint8_t *dz_wasm_mem_base(struct dz_wasm_inst *inst, uint32_t index)
{
    return index < inst->module->n_memories ? inst->mems[index]->base : NULL;
}
uint64_t dz_wasm_mem_size(const struct dz_wasm_inst *inst, uint32_t index)
{
    return index < inst->module->n_memories ? inst->mems[index]->size : 0;
}
uint32_t dz_wasm_mem_count(const struct dz_wasm_inst *inst)
{
    return inst->module->n_memories;
}

void dz_wasm_ctx_enter(struct wasm_ctx *ctx, struct dz_wasm_inst *inst)
{
    ctx->inst = inst;
    ctx->inst_no = inst->no;
    ctx->globals = inst->globals;
    ctx->global_at = inst->global_at;
    ctx->arena = inst->code->arena;
    ctx->funcs = inst->code->funcs;
    ctx->tables = inst->tables;
    ctx->mems = inst->mems;
    ctx->mem = inst->module->n_memories ? inst->mems[0]->base : NULL;
    ctx->msize = inst->module->n_memories ? inst->mems[0]->size : 0;
}
