/* SPDX-License-Identifier: MIT
 *
 * wasm_inst.c - instantiation: from a module and its imports to an instance.
 *
 * Order as in the specification: imports, globals, tables, memories, then
 * active element segments, then data segments; the first that does not fit ends
 * it, and what was written before stays written.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "wasm/wasm_code.h"
#include "wasm/wasm_link.h"
#include "wasm/wasm_rt.h"

#include <assert.h>
#include <string.h>

enum {
    CONST_STACK = 64,
};

/* --- constant expressions -------------------------------------------------------------- */

static void const_arith(uint32_t op, uint64_t *a, uint64_t b)
{
    switch (op) {
    case DZ_WASM_OP_i32_add:
        *a = (uint32_t)(*a + b);
        break;
    case DZ_WASM_OP_i32_sub:
        *a = (uint32_t)(*a - b);
        break;
    case DZ_WASM_OP_i32_mul:
        *a = (uint32_t)(*a * b);
        break;
    case DZ_WASM_OP_i64_add:
        *a += b;
        break;
    case DZ_WASM_OP_i64_sub:
        *a -= b;
        break;
    default:
        *a *= b;
        break;
    }
}

/* Two slots of result. The stack is small for real programs; longer
 * expressions take it from the heap. */
static int const_eval(const struct dz_wasm_inst *inst, uint32_t first, uint32_t n, uint64_t ret[2],
                      struct dz_err *err)
{
    uint64_t small[CONST_STACK][2];
    uint64_t(*stack)[2] = small;
    void *big = NULL;
    uint32_t depth = 0;
    if (n > CONST_STACK) {
        big = dz_alloc(n * sizeof *stack);
        if (!big)
            return dz_fail(err, DZ_ENOMEM, "no memory for a constant expression");
        stack = big;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct dz_wasm_const *k = &inst->module->consts[first + i];
        switch (k->op) {
        case DZ_WASM_OP_ref_null:
            stack[depth][0] = stack[depth][1] = 0;
            depth++;
            break;
        case DZ_WASM_OP_ref_func:
            stack[depth][0] = ((uint64_t)inst->no << 32 | k->index) + 1;
            depth++;
            break;
        case DZ_WASM_OP_global_get:
            stack[depth][0] = inst->global_at[k->index][0];
            if (inst->module->globals[k->index].type == DZ_WASM_V128)
                stack[depth][1] = inst->global_at[k->index][1];
            depth++;
            break;
        case DZ_WASM_OP_i32_const:
        case DZ_WASM_OP_i64_const:
        case DZ_WASM_OP_f32_const:
        case DZ_WASM_OP_f64_const:
        case DZ_WASM_OP_v128_const:
            memcpy(stack[depth++], k->bits, sizeof k->bits);
            break;
        default:
            assert(depth >= 2);
            depth--;
            const_arith(k->op, &stack[depth - 1][0], stack[depth][0]);
            break;
        }
    }
    assert(depth == 1);
    memcpy(ret, stack[0], sizeof stack[0]);
    dz_free(big);
    return 0;
}

/* --- own definitions ----------------------------------------------------------------------- */

static int make_globals(struct dz_wasm_inst *inst, struct dz_err *err)
{
    const struct dz_wasm_module *m = inst->module;
    for (uint32_t i = 0; i < m->n_globals; i++) {
        const struct dz_wasm_global *g = &m->globals[i];
        uint64_t *own = inst->globals + g->slot;
        size_t size = dz_wasm_valtype_slots(g->type) * sizeof *own;
        if (i < m->header->n_imported[DZ_WASM_KIND_GLOBAL]) {
            if (!g->mutable) /* never changes: a copy is as good and nearer */
                memcpy(own, inst->global_at[i], size);
            continue;
        }
        uint64_t value[2];
        inst->global_at[i] = own;
        int rc = const_eval(inst, g->init, g->n_init, value, err);
        if (rc < 0)
            return rc;
        memcpy(own, value, size);
    }
    return 0;
}

/* References name the instance: the image's are those of the first in a store, and a process
 * is the only one. */
static bool has_table_image(const struct dz_wasm_inst *inst)
{
    return inst->no == 0 && inst->module->header->table_elems > 0;
}

static int make_table(struct dz_wasm_inst *inst, uint32_t i, struct dz_err *err)
{
    const struct dz_wasm_table *d = &inst->module->tables[i];
    uint32_t limit = inst->store->cfg.table_max;
    if (d->min > limit)
        return dz_fail(err, DZ_ELIMIT, "table %u wants %u elements, the limit is %u", i, d->min,
                       limit);
    struct wasm_table *t = dz_zalloc(sizeof *t);
    if (!t)
        return dz_fail(err, DZ_ENOMEM, "no memory for table %u", i);
    t->store = inst->store;
    t->next = inst->store->tables;
    inst->store->tables = t;
    inst->tables[i] = t;
    t->declared_max = d->has_max ? d->max : UINT32_MAX;
    t->size_max = t->declared_max < limit ? t->declared_max : limit;
    t->type = (uint8_t)d->type;
    if (i == 0 && has_table_image(inst)) {
        int rc = dz_wasm_table_lay(inst->module, t, err);
        if (rc < 0)
            return rc;
    }
    if (dz_wasm_table_grow(t, d->min) == UINT32_MAX)
        return dz_fail(err, DZ_ENOMEM, "no memory for the %u elements of table %u", d->min, i);
    if (d->n_init == 0)
        return 0;
    uint64_t first[2] = {0};
    int rc = const_eval(inst, d->init, d->n_init, first, err);
    for (uint32_t k = 0; rc == 0 && k < d->min; k++)
        t->elem[k] = first[0];
    return rc;
}

static int make_memory(struct dz_wasm_inst *inst, uint32_t i, struct dz_err *err)
{
    const struct dz_wasm_memory *d = &inst->module->memories[i];
    struct dz_wasm_store *s = inst->store;
    uint32_t limit = s->cfg.memory_pages_max;
    if (d->min > limit)
        return dz_fail(err, DZ_ELIMIT, "memory %u wants %u pages, the limit is %u", i, d->min,
                       limit);
    struct wasm_mem *m = dz_zalloc(sizeof *m);
    if (!m)
        return dz_fail(err, DZ_ENOMEM, "no memory for memory %u", i);
    m->next = s->mems;
    s->mems = m;
    inst->mems[i] = m;
    m->declared_max = d->has_max ? d->max : UINT32_MAX;
    m->pages_max = m->declared_max < limit ? m->declared_max : limit;
    m->pages = d->min;
    m->reserved = (uint64_t)(m->pages_max ? m->pages_max : 1) * DZ_WASM_PAGE;
    void *base = NULL;
    size_t old = 0;
    int rc = 0;
    if (!inst->bare || !s->mem_ops->reuse ||
        !s->mem_ops->reuse(s->cfg.mem_ctx, m->reserved, &base, &old))
        rc = s->mem_ops->reserve(s->cfg.mem_ctx, m->reserved, &base, err);
    if (rc < 0)
        return dz_wrap(err, rc, "memory %u", i);
    m->base = base;
    m->old = old;
    uint64_t size = (uint64_t)d->min * DZ_WASM_PAGE;
    if (size)
        rc = s->mem_ops->commit(s->cfg.mem_ctx, base, 0, size, err);
    if (rc < 0)
        return rc;
    m->size = size;
    return 0;
}

/* --- segments -------------------------------------------------------------------------------- */

/* Active element segment i, into a table of `size` elements. */
static int fill_table(const struct dz_wasm_inst *inst, uint32_t i, uint64_t *elem, uint32_t size,
                      struct dz_err *err)
{
    const struct dz_wasm_elem *e = &inst->module->elems[i];
    uint64_t at[2] = {0};
    int rc = const_eval(inst, e->offset, e->n_offset, at, err);
    if (rc < 0)
        return rc;
    if ((uint32_t)at[0] > size || e->n_items > size - (uint32_t)at[0])
        return dz_fail(err, DZ_ESTATE,
                       "out of bounds table access: element segment %u does not fit", i);
    dz_wasm_elem_items(inst, elem + (uint32_t)at[0], inst->module->elem_items + e->items,
                       e->n_items);
    return 0;
}

static int fill_tables(struct dz_wasm_inst *inst, struct dz_err *err)
{
    const struct dz_wasm_module *m = inst->module;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < m->n_elems; i++) {
        const struct dz_wasm_elem *e = &m->elems[i];
        if (e->mode != DZ_WASM_PASSIVE)
            inst->elem_dropped[i] = 1;
        if (e->mode != DZ_WASM_ACTIVE || has_table_image(inst))
            continue;
        const struct wasm_table *t = inst->tables[e->table];
        rc = fill_table(inst, i, t->elem, t->size, err);
    }
    return rc;
}

/* What constant expressions read never changes, so it is what it was. */
int dz_wasm_table_fresh(const struct dz_wasm_inst *inst, uint32_t index, uint64_t *elem,
                        struct dz_err *err)
{
    const struct dz_wasm_module *m = inst->module;
    const struct dz_wasm_table *d = &m->tables[index];
    uint64_t first[2] = {0};
    int rc = d->n_init ? const_eval(inst, d->init, d->n_init, first, err) : 0;
    for (uint32_t k = 0; rc == 0 && k < d->min; k++)
        elem[k] = first[0];
    for (uint32_t i = 0; rc == 0 && i < m->n_elems; i++)
        if (m->elems[i].mode == DZ_WASM_ACTIVE && m->elems[i].table == index)
            rc = fill_table(inst, i, elem, d->min, err);
    return rc;
}

/* The image of memory 0 stands for all segments whose place was known beforehand. */
static int lay_image(struct dz_wasm_inst *inst, struct dz_err *err)
{
    const struct dz_wasm_module *m = inst->module;
    const struct dz_wasm_store *s = inst->store;
    if (m->header->image_size == 0)
        return 0;
    uint8_t *to = inst->mems[0]->base + m->header->image_at;
    if (s->mem_ops->map_image)
        return s->mem_ops->map_image(s->cfg.mem_ctx, to, 0, m->image, m->header->image_size, err);
    memcpy(to, m->image, m->header->image_size);
    return 0;
}

static int fill_memories(struct dz_wasm_inst *inst, struct dz_err *err)
{
    const struct dz_wasm_module *m = inst->module;
    int rc = lay_image(inst, err);
    if (rc < 0)
        return rc;
    const struct dz_wasm_data *datas = m->datas;
    uint8_t *dropped = inst->data_dropped;
    for (uint32_t i = 0; i < m->n_datas; i++)
        dropped[i] = datas[i].mode == DZ_WASM_ACTIVE;
    for (uint32_t i = 0; i < m->n_datas_left; i++) {
        const struct dz_wasm_data *d = &m->datas[m->datas_left[i]];
        uint64_t at[2] = {0};
        rc = const_eval(inst, d->offset, d->n_offset, at, err);
        if (rc < 0)
            return rc;
        const struct wasm_mem *mem = inst->mems[d->memory];
        uint32_t start = (uint32_t)at[0];
        if (start > mem->size || d->n_bytes > mem->size - start)
            return dz_fail(err, DZ_ESTATE,
                           "out of bounds memory access: data segment %u does not fit",
                           m->datas_left[i]);
        if (d->n_bytes)
            memcpy(mem->base + start, m->wasm + d->bytes, d->n_bytes);
    }
    return 0;
}

/* --- the whole ----------------------------------------------------------------------------------
 */

static void *array(uint32_t n, size_t size)
{
    return dz_zalloc((n ? n : 1) * size);
}

static int make_arrays(struct dz_wasm_inst *inst, struct dz_err *err)
{
    const struct dz_wasm_module *m = inst->module;
    inst->globals = array(m->header->global_slots, sizeof *inst->globals);
    inst->global_at = array(m->n_globals, sizeof *inst->global_at);
    inst->mems = array(m->n_memories, sizeof *inst->mems);
    inst->tables = array(m->n_tables, sizeof *inst->tables);
    inst->tags = array(m->n_tags, sizeof *inst->tags);
    inst->imports = array(m->header->n_imported[DZ_WASM_KIND_FUNC], sizeof *inst->imports);
    inst->data_dropped = array(m->n_datas, 1);
    inst->elem_dropped = array(m->n_elems, 1);
    if (!inst->globals || !inst->global_at || !inst->mems || !inst->tables || !inst->tags ||
        !inst->imports || !inst->data_dropped || !inst->elem_dropped)
        return dz_fail(err, DZ_ENOMEM, "no memory for an instance");
    return 0;
}

static int make_own(struct dz_wasm_inst *inst, struct dz_err *err)
{
    const struct dz_wasm_module *m = inst->module;
    const uint32_t *imported = m->header->n_imported;
    for (uint32_t i = imported[DZ_WASM_KIND_TAG]; i < m->n_tags; i++)
        inst->tags[i] = (uint64_t)inst->no << 32 | i;
    int rc = make_globals(inst, err);
    for (uint32_t i = imported[DZ_WASM_KIND_TABLE]; rc == 0 && i < m->n_tables; i++)
        rc = make_table(inst, i, err);
    for (uint32_t i = imported[DZ_WASM_KIND_MEMORY]; rc == 0 && i < m->n_memories; i++)
        rc = make_memory(inst, i, err);
    return rc;
}

/* Up to the segments; after a failure it is gone again. */
static int make_inst(struct dz_wasm_inst *inst, const struct dz_wasm_host *host, size_t host_count,
                     struct dz_err *err)
{
    struct dz_wasm_store *s = inst->store;
    int rc = dz_wasm_store_add(s, inst, err);
    if (rc < 0) {
        dz_free(inst);
        return rc;
    }
    inst->code = dz_wasm_code_get(inst->module, &s->cfg, err);
    rc = inst->code ? make_arrays(inst, err) : DZ_ENOMEM;
    if (rc == 0 && host)
        rc = dz_wasm_link(inst, host, host_count, err);
    if (rc == 0)
        rc = make_own(inst, err);
    if (rc < 0)
        dz_wasm_store_drop_last(s);
    return rc;
}

static struct dz_wasm_inst *new_inst(struct dz_wasm_store *s, struct dz_wasm_module *module,
                                     void *user)
{
    struct dz_wasm_inst *inst = dz_zalloc(sizeof *inst);
    if (inst) {
        inst->store = s;
        inst->module = module;
        inst->user = user;
    }
    return inst;
}

int dz_wasm_inst_bare(struct dz_wasm_store *s, const struct dz_wasm_inst *like,
                      const struct dz_wasm_copy *how, struct dz_wasm_inst **ret_inst,
                      struct dz_err *err)
{
    struct dz_wasm_inst *inst = new_inst(s, like->module, how->user);
    if (!inst)
        return dz_fail(err, DZ_ENOMEM, "no memory for an instance");
    inst->bare = true;
    int rc = make_inst(inst, how->host, how->host_count, err);
    if (rc == 0)
        rc = lay_image(inst, err);
    if (rc == 0)
        *ret_inst = inst;
    return rc;
}

int dz_wasm_instantiate(struct dz_wasm_store *s, struct dz_wasm_module *module,
                        const struct dz_wasm_imports *imports, struct dz_wasm_inst **ret_inst,
                        struct dz_err *err)
{
    static const struct dz_wasm_host none[1];
    static const struct dz_wasm_imports nothing;
    const struct dz_wasm_imports *from = imports ? imports : &nothing;
    struct dz_wasm_inst *inst = new_inst(s, module, from->user);
    if (!inst)
        return dz_fail(err, DZ_ENOMEM, "no memory for an instance");
    int rc = make_inst(inst, from->host ? from->host : none, from->host_count, err);
    if (rc < 0)
        return rc;
    rc = fill_tables(inst, err);
    if (rc == 0)
        rc = fill_memories(inst, err);
    if (rc < 0)
        return rc; /* it stays: others may hold references to its functions now */
    *ret_inst = inst;
    return 0;
}
