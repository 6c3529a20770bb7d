/* SPDX-License-Identifier: MIT
 *
 * wasm_decode_part.c - decodes what makes up the index spaces: imports, tables,
 * memories, globals, tags, and the element and data segments.
 */
#include "wasm/wasm_load.h"

#include <inttypes.h>

enum {
    MAX_PAGES = 65536, /* 4 GiB of 64 KiB pages */
};

/* The next entry of an index space is an import: count it. Returns false when
 * the index space is full. */
static bool room(struct wasm_load *l, const uint8_t *at, size_t n, uint32_t limit, const char *what)
{
    if (n < limit)
        return true;
    dz_wasm_load_limit(l, at, (uint64_t)n + 1, limit, what);
    return false;
}

void dz_wasm_add_func(struct wasm_load *l, uint32_t type, const uint8_t *at)
{
    if (l->code || !dz_wasm_index_ok(l, at, type, l->types.n, "type") ||
        !room(l, at, l->funcs.n, l->limits->functions, "functions"))
        return;
    dz_vec_push(&l->funcs, (struct dz_wasm_func){.type = type});
    dz_vec_push(&l->declared, 0);
}

void dz_wasm_declare(struct wasm_load *l, uint32_t func)
{
    if (func < l->declared.n)
        l->declared.p[func] = 1;
}

/* min, and max when there is one; the byte before says so. */
static uint32_t read_limits(struct wasm_load *l, uint32_t bound, uint32_t *ret_min,
                            uint32_t *ret_max)
{
    const uint8_t *at = l->p;
    unsigned flags = wasm_read_byte(l);
    if (flags & 4 && flags < 8)
        dz_wasm_load_fail(l, at, DZ_EUNSUPPORTED, "uses memory64, which doze does not support");
    else if (flags & 2 && flags < 8)
        dz_wasm_load_fail(l, at, DZ_EUNSUPPORTED,
                          "uses shared memory (threads), which doze does not support");
    else if (flags > 1)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed limits flags 0x%02x", flags);
    at = l->p;
    uint32_t min = wasm_read_u32(l);
    uint32_t max = flags & 1 ? wasm_read_u32(l) : bound;
    if (l->code)
        return 0;
    if (min > bound || max > bound)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "memory size must be at most 65536 pages (4 GiB)");
    else if (min > max)
        dz_wasm_load_fail(l, at, DZ_EINVAL,
                          "size minimum %" PRIu32 " must not be greater than maximum %" PRIu32, min,
                          max);
    *ret_min = min;
    *ret_max = max;
    return flags & 1;
}

/* The type of a table, from its element type on. */
static void read_table_type(struct wasm_load *l, struct dz_wasm_table *t)
{
    if (l->p < l->end && *l->p == DZ_WASM_FUNCREF) /* what every table was once: no feature */
        t->type = *l->p++;
    else
        t->type = dz_wasm_read_reftype(l);
    t->has_max = read_limits(l, UINT32_MAX, &t->min, &t->max);
}

static void add_table(struct wasm_load *l, const struct dz_wasm_table *t, const uint8_t *at)
{
    if (l->code || !room(l, at, l->tables.n, l->limits->tables, "tables"))
        return;
    if (l->tables.n == 1)
        (void)wasm_need(l, at, DZ_WASM_F_REFERENCE_TYPES);
    dz_vec_push(&l->tables, *t);
}

/* 0x40 0x00, the type, and an expression for every first element; or only the type. */
void dz_wasm_decode_table(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    struct dz_wasm_table t = {0};
    bool init = l->p < l->end && *l->p == 0x40;
    if (init) {
        l->p++;
        if (wasm_read_byte(l) != 0)
            dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed table: 0x40 without 0x00");
        (void)wasm_need(l, at, DZ_WASM_F_TABLE_INIT);
    }
    read_table_type(l, &t);
    if (init && !l->code)
        dz_wasm_decode_const(l, t.type, &t.init, &t.n_init);
    add_table(l, &t, at);
}

static void import_table(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    struct dz_wasm_table t = {0};
    read_table_type(l, &t);
    add_table(l, &t, at);
}

void dz_wasm_decode_memory(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    struct dz_wasm_memory m = {0};
    m.has_max = read_limits(l, MAX_PAGES, &m.min, &m.max);
    if (l->code || !room(l, at, l->memories.n, l->limits->memories, "memories"))
        return;
    if (l->memories.n == 1 && !(l->features & DZ_WASM_F_MULTI_MEMORY))
        dz_wasm_load_fail(l, at, DZ_EINVAL, "multiple memories (multi-memory is switched off)");
    else if (l->memories.n == 1)
        l->used |= DZ_WASM_F_MULTI_MEMORY;
    dz_vec_push(&l->memories, m);
}

static void read_global_type(struct wasm_load *l, struct dz_wasm_global *g)
{
    g->type = dz_wasm_read_valtype(l);
    const uint8_t *at = l->p;
    g->mutable = wasm_read_byte(l);
    if (g->mutable > 1)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed mutability 0x%02x", g->mutable);
}

static void add_global(struct wasm_load *l, struct dz_wasm_global *g, const uint8_t *at)
{
    if (l->code || !room(l, at, l->globals.n, l->limits->globals, "globals"))
        return;
    g->slot = l->global_slots;
    l->global_slots += dz_wasm_valtype_slots(g->type);
    dz_vec_push(&l->globals, *g);
}

void dz_wasm_decode_global(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    struct dz_wasm_global g = {0};
    read_global_type(l, &g);
    if (!l->code)
        dz_wasm_decode_const(l, g.type, &g.init, &g.n_init);
    add_global(l, &g, at);
}

void dz_wasm_decode_tag(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    unsigned attribute = wasm_read_byte(l);
    if (!l->code && attribute != 0)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed tag attribute 0x%02x", attribute);
    at = l->p;
    struct dz_wasm_tag tag = {wasm_read_u32(l)};
    if (l->code || !dz_wasm_index_ok(l, at, tag.type, l->types.n, "type") ||
        !room(l, at, l->tags.n, l->limits->tags, "tags"))
        return;
    if (l->types.p[tag.type].n_results)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "non-empty tag result type");
    dz_vec_push(&l->tags, tag);
}

static void import_global(struct wasm_load *l, const uint8_t *at)
{
    struct dz_wasm_global g = {0};
    read_global_type(l, &g);
    if (!l->code && g.mutable)
        (void)wasm_need(l, at, DZ_WASM_F_MUTABLE_GLOBALS);
    add_global(l, &g, at);
}

void dz_wasm_decode_import(struct wasm_load *l)
{
    struct dz_wasm_import im = {.module = dz_wasm_read_name(l)};
    im.name = dz_wasm_read_name(l);
    const uint8_t *at = l->p;
    im.kind = wasm_read_byte(l);
    if (l->code)
        return;
    switch (im.kind) {
    case DZ_WASM_KIND_FUNC:
        im.index = (uint32_t)l->funcs.n;
        dz_wasm_add_func(l, wasm_read_u32(l), at);
        break;
    case DZ_WASM_KIND_TABLE:
        im.index = (uint32_t)l->tables.n;
        import_table(l);
        break;
    case DZ_WASM_KIND_MEMORY:
        im.index = (uint32_t)l->memories.n;
        dz_wasm_decode_memory(l);
        break;
    case DZ_WASM_KIND_GLOBAL:
        im.index = (uint32_t)l->globals.n;
        import_global(l, at);
        break;
    case DZ_WASM_KIND_TAG:
        im.index = (uint32_t)l->tags.n;
        if (wasm_need(l, at, DZ_WASM_F_EXCEPTIONS))
            dz_wasm_decode_tag(l);
        break;
    default:
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed import kind 0x%02x", im.kind);
        return;
    }
    l->n_imported[im.kind]++;
    dz_vec_push(&l->imports, im);
}

/* --- element segments ------------------------------------------------------------------ */

/* An element that is an expression: one instruction is all there can be. */
static void read_item_expr(struct wasm_load *l, unsigned type)
{
    uint32_t first, n;
    dz_wasm_decode_const(l, type, &first, &n);
    if (l->code || l->consts.err)
        return;
    const struct dz_wasm_const *c = &l->consts.p[first];
    uint32_t item = c->op == DZ_WASM_OP_ref_func   ? c->index
                    : c->op == DZ_WASM_OP_ref_null ? DZ_WASM_ITEM_NULL
                                                   : DZ_WASM_ITEM_GLOBAL + c->index;
    l->consts.n = first; /* it is in the item */
    dz_vec_push(&l->elem_items, item);
}

static void read_item_func(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint32_t func = wasm_read_u32(l);
    if (l->code || !dz_wasm_index_ok(l, at, func, l->funcs.n, "function"))
        return;
    dz_wasm_declare(l, func);
    dz_vec_push(&l->elem_items, func);
}

static void read_items(struct wasm_load *l, struct dz_wasm_elem *e, bool exprs)
{
    e->items = (uint32_t)l->elem_items.n;
    e->n_items = wasm_read_u32(l);
    for (uint32_t i = 0; i < e->n_items && !l->code && !l->elem_items.err; i++) {
        if (exprs)
            read_item_expr(l, e->type);
        else
            read_item_func(l);
    }
}

/* Table and offset of an active segment. */
static void read_elem_place(struct wasm_load *l, struct dz_wasm_elem *e, bool explicit)
{
    const uint8_t *at = l->p;
    e->table = explicit ? wasm_read_u32(l) : 0;
    if (!l->code && dz_wasm_index_ok(l, at, e->table, l->tables.n, "table"))
        dz_wasm_decode_const(l, DZ_WASM_I32, &e->offset, &e->n_offset);
}

void dz_wasm_decode_elem(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint32_t flags = wasm_read_u32(l); /* 1 passive or declared, 2 table or declared, 4 exprs */
    struct dz_wasm_elem e = {.type = DZ_WASM_FUNCREF};
    if (flags > 7)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed elements segment kind %" PRIu32, flags);
    else if (flags != 0)
        (void)wasm_need(l, at, DZ_WASM_F_BULK_MEMORY);
    if (flags & 1)
        e.mode = flags & 2 ? DZ_WASM_DECLARED : DZ_WASM_PASSIVE;
    else
        read_elem_place(l, &e, flags & 2);
    at = l->p;
    if (flags & 3 && flags & 4)
        e.type = dz_wasm_read_reftype(l);
    else if (flags & 3 && wasm_read_byte(l) != 0)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed element kind 0x%02x", *at);
    if (!l->code && e.mode == DZ_WASM_ACTIVE && l->tables.p[e.table].type != e.type)
        dz_wasm_load_fail(
            l, at, DZ_EINVAL, "type mismatch: table %" PRIu32 " has %s, the segment %s", e.table,
            dz_wasm_valtype_text(l->tables.p[e.table].type), dz_wasm_valtype_text(e.type));
    read_items(l, &e, flags & 4);
    if (l->elem_items.err == DZ_ELIMIT)
        dz_wasm_load_limit(l, at, (uint64_t)l->elem_items.n + 1, l->limits->elem_items, "elements");
    else if (l->elem_items.err)
        dz_wasm_load_fail(l, at, l->elem_items.err, "out of memory");
    if (l->code)
        return;
    if (l->elems.n % 64 == 0)
        dz_vec_push(&l->elems_dropped, 0);
    if (e.mode != DZ_WASM_PASSIVE && !l->elems_dropped.err)
        l->elems_dropped.p[l->elems.n / 64] |= (uint64_t)1 << l->elems.n % 64;
    dz_vec_push(&l->elems, e);
}

/* --- data segments ----------------------------------------------------------------------- */

void dz_wasm_decode_data(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint32_t flags = wasm_read_u32(l);
    struct dz_wasm_data d = {0};
    if (flags > 2)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed data segment kind %" PRIu32, flags);
    else if (flags != 0)
        (void)wasm_need(l, at, DZ_WASM_F_BULK_MEMORY);
    d.mode = flags == 1 ? DZ_WASM_PASSIVE : DZ_WASM_ACTIVE;
    if (d.mode == DZ_WASM_ACTIVE) {
        d.memory = flags == 2 ? wasm_read_u32(l) : 0;
        if (!l->code && dz_wasm_index_ok(l, at, d.memory, l->memories.n, "memory"))
            dz_wasm_decode_const(l, DZ_WASM_I32, &d.offset, &d.n_offset);
    }
    d.n_bytes = wasm_read_u32(l);
    const uint8_t *bytes = dz_wasm_read_bytes(l, d.n_bytes);
    if (l->code || !bytes)
        return;
    d.bytes = (uint32_t)(bytes - l->base);
    if (l->datas.n % 64 == 0)
        dz_vec_push(&l->datas_dropped, 0);
    if (d.mode == DZ_WASM_ACTIVE && !l->datas_dropped.err)
        l->datas_dropped.p[l->datas.n / 64] |= (uint64_t)1 << l->datas.n % 64;
    dz_vec_push(&l->datas, d);
}
