/* SPDX-License-Identifier: MIT
 *
 * wasm_inst.c - instantiation: from a module and its imports to an instance.
 *
 * The order is that of the specification: imports, globals, tables, memories, then active element
 * segments, then data segments. The first segment that does not fit ends the instantiation, and
 * the segments before it stay written.
 *
 * A function is imported from the host's table, or like any other thing from the exports of the
 * instance that was registered under the import's module name. A message names every import that
 * is missing; for one of another type it shows both types.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "wasm/wasm_code.h"
#include "wasm/wasm_rt.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    CONST_STACK = 64,
    INSTS_MAX = 1 << 20,
};

/* --- imports: types -------------------------------------------------------------------- */

static bool same_name(const struct dz_wasm_module *m, struct dz_wasm_name n, const char *s)
{
    return strlen(s) == n.size && memcmp(m->wasm + n.offset, s, n.size) == 0;
}

static unsigned letter_type(char c)
{
    switch (c) {
    case 'i':
        return DZ_WASM_I32;
    case 'I':
        return DZ_WASM_I64;
    case 'f':
        return DZ_WASM_F32;
    case 'F':
        return DZ_WASM_F64;
    case 'v':
        return DZ_WASM_V128;
    case 'r':
        return DZ_WASM_FUNCREF;
    case 'e':
        return DZ_WASM_EXTERNREF;
    case 'x':
        return DZ_WASM_EXNREF;
    default:
        return 0;
    }
}

/* Is the signature "ii>i" this type? */
static bool sig_is(const struct dz_wasm_module *m, const struct dz_wasm_type *y, const char *sig)
{
    const uint8_t *types = m->valtypes + y->params;
    uint32_t n = y->n_params;
    for (uint32_t i = 0; i < n; i++)
        if (letter_type(*sig) != types[i] || *sig++ == '\0')
            return false;
    if (*sig++ != '>')
        return false;
    for (uint32_t i = 0; i < y->n_results; i++)
        if (letter_type(*sig) != types[n + i] || *sig++ == '\0')
            return false;
    return *sig == '\0';
}

/* --- words for what does not fit ------------------------------------------------------------ */

static const char *const kind_text[] = {"function", "table", "memory", "global", "tag"};

enum {
    NAME_SHOWN = 60, /* bytes of each half of a name */
    TYPE_TEXT = 80,
};

/* A type in words, cut to fit. */
struct text {
    char s[TYPE_TEXT];
    size_t n;
};
static DZ_PRINTF(2, 3) void add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int k = vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, ap);
    va_end(ap);
    if (k > 0)
        t->n = t->n + (size_t)k < sizeof t->s ? t->n + (size_t)k : sizeof t->s - 1;
}

static void add_func(struct text *t, const struct dz_wasm_module *m, uint32_t type)
{
    const struct dz_wasm_type *y = &m->types[type];
    add(t, "(");
    for (uint32_t i = 0; i < y->n_params + y->n_results; i++)
        add(t, "%s%s",
            i == y->n_params ? ") -> ("
            : i              ? ", "
                             : "",
            dz_wasm_valtype_text(m->valtypes[y->params + i]));
    add(t, y->n_results ? ")" : ") -> ()");
}

/* The signature of a host function, "ii>i". */
static void add_sig(struct text *t, const char *sig)
{
    const char *between = "";
    add(t, "(");
    for (; *sig; sig++) {
        if (*sig == '>')
            add(t, ") -> (");
        else
            add(t, "%s%s", between, dz_wasm_valtype_text(letter_type(*sig)));
        between = *sig == '>' ? "" : ", ";
    }
    add(t, ")");
}

static void add_range(struct text *t, uint32_t min, bool has_max, uint32_t max)
{
    add(t, "%u", min);
    if (has_max)
        add(t, " to %u", max);
}

/* The type that the module requires. */
static void add_import(struct text *t, const struct dz_wasm_module *m,
                       const struct dz_wasm_import *im)
{
    uint32_t i = im->index;
    switch ((enum dz_wasm_kind)im->kind) {
    case DZ_WASM_KIND_FUNC:
        add_func(t, m, m->funcs[i].type);
        break;
    case DZ_WASM_KIND_TABLE:
        add(t, "%s, ", dz_wasm_valtype_text(m->tables[i].type));
        add_range(t, m->tables[i].min, m->tables[i].has_max, m->tables[i].max);
        break;
    case DZ_WASM_KIND_MEMORY:
        add_range(t, m->memories[i].min, m->memories[i].has_max, m->memories[i].max);
        add(t, " pages");
        break;
    case DZ_WASM_KIND_GLOBAL:
        add(t, "%s%s", m->globals[i].mutable ? "mut " : "",
            dz_wasm_valtype_text(m->globals[i].type));
        break;
    case DZ_WASM_KIND_TAG:
        add_func(t, m, m->tags[i].type);
        break;
    }
}

/* The type of the export, as the message shows it. */
static void add_export(struct text *t, const struct dz_wasm_inst *from,
                       const struct dz_wasm_export *x)
{
    const struct dz_wasm_module *o = from->module;
    const struct wasm_table *table;
    const struct wasm_mem *mem;
    add(t, "a %s: ", kind_text[x->kind]);
    switch ((enum dz_wasm_kind)x->kind) {
    case DZ_WASM_KIND_FUNC:
        add_func(t, o, o->funcs[x->index].type);
        break;
    case DZ_WASM_KIND_TABLE:
        table = from->tables[x->index];
        add(t, "%s, ", dz_wasm_valtype_text(table->type));
        add_range(t, table->size, table->declared_max != UINT32_MAX, table->declared_max);
        break;
    case DZ_WASM_KIND_MEMORY:
        mem = from->mems[x->index];
        add_range(t, mem->pages, mem->declared_max != UINT32_MAX, mem->declared_max);
        add(t, " pages");
        break;
    case DZ_WASM_KIND_GLOBAL:
        add(t, "%s%s", o->globals[x->index].mutable ? "mut " : "",
            dz_wasm_valtype_text(o->globals[x->index].type));
        break;
    case DZ_WASM_KIND_TAG:
        add_func(t, o, o->tags[x->index].type);
        break;
    }
}

static int shown(uint32_t size)
{
    return size < NAME_SHOWN ? (int)size : NAME_SHOWN;
}

static int wrong_type(const struct dz_wasm_module *m, const struct dz_wasm_import *im,
                      const struct text *found, struct dz_err *err)
{
    struct text want = {0};
    add_import(&want, m, im);
    return dz_fail(
        err, DZ_EINVAL, "incompatible import type: %s %.*s.%.*s: the module wants %s, found %s",
        kind_text[im->kind], shown(im->module.size), (const char *)m->wasm + im->module.offset,
        shown(im->name.size), (const char *)m->wasm + im->name.offset, want.s, found->s);
}

/* --- one import ---------------------------------------------------------------------------- */

static bool is_host(const struct dz_wasm_module *m, const struct dz_wasm_import *im,
                    const struct dz_wasm_host *h)
{
    return same_name(m, im->name, h->name) && same_name(m, im->module, h->module);
}

static const struct dz_wasm_host *find_host(const struct dz_wasm_module *m,
                                            const struct dz_wasm_import *im,
                                            const struct dz_wasm_host *host, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_host(m, im, &host[i]))
            return &host[i];
    return NULL;
}

/* The same, looking first at the row where it was found the last time. */
static const struct dz_wasm_host *find_again(struct dz_wasm_code *c,
                                             const struct dz_wasm_import *im,
                                             const struct dz_wasm_host *host, size_t count)
{
    const struct dz_wasm_module *m = c->module;
    size_t at = (size_t)(im - m->imports);
    if (!c->hosts)
        c->hosts = dz_zalloc(m->n_imports * sizeof *c->hosts);
    if (c->hosts && c->hosts[at] < count && is_host(m, im, &host[c->hosts[at]]))
        return &host[c->hosts[at]];
    const struct dz_wasm_host *h = find_host(m, im, host, count);
    if (c->hosts && h)
        c->hosts[at] = (uint32_t)(h - host);
    return h;
}

static bool limits_fit(uint32_t size, uint32_t have_max, uint32_t min, bool has_max, uint32_t max)
{
    return size >= min && (!has_max || (have_max != UINT32_MAX && have_max <= max));
}

/* Bind to export `index` of another instance. false: wrong type. */
static bool bind_export(struct dz_wasm_inst *inst, const struct dz_wasm_import *im,
                        struct dz_wasm_inst *from, uint32_t index)
{
    const struct dz_wasm_module *m = inst->module;
    const struct dz_wasm_module *o = from->module;
    switch ((enum dz_wasm_kind)im->kind) {
    case DZ_WASM_KIND_FUNC:
        inst->imports[im->index] = (struct wasm_binding){.inst = from, .func = index};
        return dz_wasm_type_eq(m, m->funcs[im->index].type, o, o->funcs[index].type);
    case DZ_WASM_KIND_TABLE: {
        const struct dz_wasm_table *want = &m->tables[im->index];
        const struct wasm_table *t = from->tables[index];
        inst->tables[im->index] = from->tables[index];
        return t->type == want->type &&
               limits_fit(t->size, t->declared_max, want->min, want->has_max, want->max);
    }
    case DZ_WASM_KIND_MEMORY: {
        const struct dz_wasm_memory *want = &m->memories[im->index];
        const struct wasm_mem *mem = from->mems[index];
        inst->mems[im->index] = from->mems[index];
        return limits_fit(mem->pages, mem->declared_max, want->min, want->has_max, want->max);
    }
    case DZ_WASM_KIND_GLOBAL:
        inst->global_at[im->index] = from->global_at[index];
        return m->globals[im->index].type == o->globals[index].type &&
               m->globals[im->index].mutable == o->globals[index].mutable;
    case DZ_WASM_KIND_TAG:
        inst->tags[im->index] = from->tags[index];
        return dz_wasm_type_eq(m, m->tags[im->index].type, o, o->tags[index].type);
    }
    return false;
}

/* 0, DZ_ENOENT, or DZ_EINVAL with the message. */
static int link_one(struct dz_wasm_inst *inst, const struct dz_wasm_import *im,
                    const struct dz_wasm_host *host, size_t host_count, struct dz_err *err)
{
    const struct dz_wasm_module *m = inst->module;
    if (im->kind == DZ_WASM_KIND_FUNC) {
        const struct dz_wasm_host *h = find_again(inst->code, im, host, host_count);
        if (h) {
            inst->imports[im->index] = (struct wasm_binding){.fn = h->fn};
            if (sig_is(m, &m->types[m->funcs[im->index].type], h->sig))
                return 0;
            struct text found = {0};
            add_sig(&found, h->sig);
            return wrong_type(m, im, &found, err);
        }
    }
    struct dz_wasm_inst *from = dz_wasm_store_named(
        inst->store, (const char *)m->wasm + im->module.offset, im->module.size);
    if (!from)
        return DZ_ENOENT;
    uint32_t e =
        dz_wasm_module_export(from->module, (const char *)m->wasm + im->name.offset, im->name.size);
    if (e == DZ_WASM_NONE)
        return DZ_ENOENT;
    const struct dz_wasm_export *x = &from->module->exports[e];
    if (x->kind == im->kind && bind_export(inst, im, from, x->index))
        return 0;
    struct text found = {0};
    add_export(&found, from, x);
    return wrong_type(m, im, &found, err);
}

/* --- missing imports ---------------------------------------------------------------------- */

/* "env.a, env.b" as long as there is room. */
struct missing {
    char s[150];
    size_t n;
    uint32_t count, shown;
};

static void add_missing(struct missing *t, const struct dz_wasm_module *m,
                        const struct dz_wasm_import *im)
{
    if (t->shown != t->count++) /* the first name without room ends the list */
        return;
    int k = snprintf(t->s + t->n, sizeof t->s - t->n, "%s%.*s.%.*s", t->shown ? ", " : "",
                     shown(im->module.size), (const char *)m->wasm + im->module.offset,
                     shown(im->name.size), (const char *)m->wasm + im->name.offset);
    if (k < 0 || (size_t)k >= sizeof t->s - t->n) {
        t->s[t->n] = '\0';
        return;
    }
    t->n += (size_t)k;
    t->shown++;
}

static int link_imports(struct dz_wasm_inst *inst, const struct dz_wasm_host *host,
                        size_t host_count, struct dz_err *err)
{
    struct missing missing = {0};
    char more[32] = "";
    for (uint32_t i = 0; i < inst->module->n_imports; i++) {
        const struct dz_wasm_import *im = &inst->module->imports[i];
        int rc = link_one(inst, im, host, host_count, err);
        if (rc == DZ_ENOENT)
            add_missing(&missing, inst->module, im);
        else if (rc < 0)
            return rc;
    }
    if (missing.count == 0)
        return 0;
    if (missing.shown < missing.count)
        (void)snprintf(more, sizeof more, " and %u more", missing.count - missing.shown);
    return dz_fail(err, DZ_ENOENT, "unknown import (%u missing): %s%s", missing.count, missing.s,
                   more);
}

int dz_wasm_missing(struct dz_wasm_store *s, const struct dz_wasm_module *m,
                    const struct dz_wasm_host *host, size_t host_count, struct dz_buf *ret_names)
{
    int count = 0;
    for (uint32_t i = 0; i < m->n_imports; i++) {
        const struct dz_wasm_import *im = &m->imports[i];
        const char *module = (const char *)m->wasm + im->module.offset;
        const char *name = (const char *)m->wasm + im->name.offset;
        if (im->kind == DZ_WASM_KIND_FUNC && find_host(m, im, host, host_count))
            continue;
        const struct dz_wasm_inst *from = dz_wasm_store_named(s, module, im->module.size);
        if (from && dz_wasm_module_export(from->module, name, im->name.size) != DZ_WASM_NONE)
            continue;
        dz_buf_addf(ret_names, "%.*s.%.*s\n", (int)im->module.size, module, (int)im->name.size,
                    name);
        count++;
    }
    return count;
}

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

/* The value as two slots. The stack is small for real programs; longer expressions take it from the
 * heap. */
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
            if (!g->mutable) /* immutable: a copy is as good and nearer */
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

/* The table image holds references to instance 0, the only instance of a process. */
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

/* Constant expressions read only immutable globals, so they give the same values again. */
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

/* Map the image of memory 0: all data segments whose place was known when the module was
 * prepared. */
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

/* --- the whole ------------------------------------------------------------------------------ */

void dz_wasm_inst_free(struct dz_wasm_inst *inst)
{
    dz_free(inst->globals);
    dz_free(inst->global_at);
    dz_free(inst->mems);
    dz_free(inst->tables);
    dz_free(inst->tags);
    dz_free(inst->imports);
    dz_free(inst->data_dropped);
    dz_free(inst->elem_dropped);
    dz_free(inst);
}

/* The store owns the instance from now on; gives it its number. */
static int store_add(struct dz_wasm_store *s, struct dz_wasm_inst *inst, struct dz_err *err)
{
    if (s->inst_count == s->inst_cap) {
        uint32_t n = s->inst_cap ? s->inst_cap * 2 : 4;
        if (n > INSTS_MAX)
            return dz_fail(err, DZ_ELIMIT, "more than %d instances in a store", INSTS_MAX);
        struct dz_wasm_inst **p = dz_realloc(s->insts, n * sizeof *p);
        if (!p)
            return dz_fail(err, DZ_ENOMEM, "no memory for an instance");
        s->insts = p;
        s->inst_cap = n;
    }
    inst->no = s->inst_count;
    s->insts[s->inst_count++] = inst;
    return 0;
}

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

/* Everything but the segments; a failed instance is taken out again. */
static int make_inst(struct dz_wasm_inst *inst, const struct dz_wasm_host *host, size_t host_count,
                     struct dz_err *err)
{
    struct dz_wasm_store *s = inst->store;
    int rc = store_add(s, inst, err);
    if (rc < 0) {
        dz_free(inst);
        return rc;
    }
    inst->code = dz_wasm_code_get(inst->module, &s->cfg, err);
    rc = inst->code ? make_arrays(inst, err) : DZ_ENOMEM;
    if (rc == 0 && host)
        rc = link_imports(inst, host, host_count, err);
    if (rc == 0)
        rc = make_own(inst, err);
    if (rc < 0)
        dz_wasm_inst_free(s->insts[--s->inst_count]);
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
