/* SPDX-License-Identifier: MIT
 *
 * wasm_bulk.c - growing, and the long operations on memories and tables.
 *
 * A long operation is done in parts of DZ_WASM_BULK_CHUNK bytes. Its operands lie in three slots;
 * after each part they are rewritten so that the rest is the same operation again:
 *
 *     memory.fill   { at, value, n }   ->   { at + part, value, n - part }   ->   ... n = 0
 *
 * Bounds are checked for the whole operation before each part; the rest of an operation that fits
 * fits as well.
 *
 * Invariants (assert_mem, assert_table, where one grows):
 *   1. A memory has `pages` pages of DZ_WASM_PAGE bytes, at most pages_max and its reservation.
 *   2. A table has room for its size, at most size_max; elements from size to cap are null.
 */
#include "base/mem.h"
#include "wasm/wasm_rt.h"

#include <assert.h>
#include <string.h>

/* Ranges of bytes or of table elements. */
struct span {
    uint8_t *base;
    uint64_t count; /* elements */
};

static struct span memory_span(const struct wasm_ctx *ctx, uint32_t index)
{
    return (struct span){ctx->mems[index]->base, ctx->mems[index]->size};
}
static struct span table_span(const struct wasm_ctx *ctx, uint32_t index)
{
    return (struct span){(uint8_t *)ctx->tables[index]->elem, ctx->tables[index]->size};
}

static enum wasm_bulk_result trap(struct wasm_ctx *ctx, enum dz_wasm_trap_kind kind)
{
    ctx->trap = kind;
    return WASM_BULK_TRAP;
}
static bool outside(uint64_t at, uint64_t n, uint64_t count)
{
    return at > count || n > count - at;
}

/* to = { destination, source, count }; from the end when that is the safe way. */
static enum wasm_bulk_result copy_part(uint64_t *to, struct span d, struct span s, unsigned size)
{
    uint64_t part = DZ_WASM_BULK_CHUNK / size;
    uint64_t n = to[2] < part ? to[2] : part;
    bool backwards = d.base == s.base && to[0] > to[1];
    uint64_t skip = backwards ? to[2] - n : 0;
    if (n)
        memmove(d.base + (to[0] + skip) * size, s.base + (to[1] + skip) * size, n * size);
    to[2] -= n;
    if (!backwards) {
        to[0] += n;
        to[1] += n;
    }
    return to[2] ? WASM_BULK_MORE : WASM_BULK_DONE;
}

static enum wasm_bulk_result fill_memory(uint64_t *to, struct span d)
{
    uint64_t n = to[2] < DZ_WASM_BULK_CHUNK ? to[2] : DZ_WASM_BULK_CHUNK;
    if (n)
        memset(d.base + to[0], (int)(to[1] & 255), n);
    to[0] += n;
    to[2] -= n;
    return to[2] ? WASM_BULK_MORE : WASM_BULK_DONE;
}

static enum wasm_bulk_result fill_table(uint64_t *to, struct wasm_table *t)
{
    uint64_t part = DZ_WASM_BULK_CHUNK / sizeof *t->elem;
    uint64_t n = to[2] < part ? to[2] : part;
    for (uint64_t i = 0; i < n; i++)
        t->elem[to[0] + i] = to[1];
    to[0] += n;
    to[2] -= n;
    return to[2] ? WASM_BULK_MORE : WASM_BULK_DONE;
}

void dz_wasm_elem_items(const struct dz_wasm_inst *inst, uint64_t *to, const uint32_t *items,
                        uint64_t count)
{
    uint64_t funcs = ((uint64_t)inst->no << 32) + 1;
    for (uint64_t i = 0; i < count; i++)
        if (dz_likely(!(items[i] & DZ_WASM_ITEM_GLOBAL)))
            to[i] = funcs + items[i];
        else
            to[i] = items[i] == DZ_WASM_ITEM_NULL
                        ? 0
                        : *inst->global_at[items[i] & ~DZ_WASM_ITEM_GLOBAL];
}

static enum wasm_bulk_result init_table(struct wasm_ctx *ctx, uint64_t *to, struct wasm_table *t,
                                        uint32_t segment)
{
    const struct dz_wasm_elem *e = &ctx->inst->module->elems[segment];
    uint64_t have = ctx->inst->elem_dropped[segment] ? 0 : e->n_items;
    if (outside(to[0], to[2], t->size) || outside(to[1], to[2], have))
        return trap(ctx, DZ_WASM_TRAP_OOB_TABLE);
    const uint32_t *items = ctx->inst->module->elem_items + e->items;
    uint64_t part = DZ_WASM_BULK_CHUNK / sizeof *t->elem;
    uint64_t n = to[2] < part ? to[2] : part;
    if (n)
        dz_wasm_elem_items(ctx->inst, t->elem + to[0], items + to[1], n);
    to[0] += n;
    to[1] += n;
    to[2] -= n;
    return to[2] ? WASM_BULK_MORE : WASM_BULK_DONE;
}

static enum wasm_bulk_result init_memory(struct wasm_ctx *ctx, uint64_t *to, struct span d,
                                         uint32_t segment)
{
    const struct dz_wasm_data *e = &ctx->inst->module->datas[segment];
    uint64_t have = ctx->inst->data_dropped[segment] ? 0 : e->n_bytes;
    if (outside(to[0], to[2], d.count) || outside(to[1], to[2], have))
        return trap(ctx, DZ_WASM_TRAP_OOB_MEMORY);
    const uint8_t *bytes = ctx->inst->module->wasm + e->bytes;
    uint64_t n = to[2] < DZ_WASM_BULK_CHUNK ? to[2] : DZ_WASM_BULK_CHUNK;
    if (n)
        memcpy(d.base + to[0], bytes + to[1], n);
    to[0] += n;
    to[1] += n;
    to[2] -= n;
    return to[2] ? WASM_BULK_MORE : WASM_BULK_DONE;
}

enum wasm_bulk_result dz_wasm_bulk(struct wasm_ctx *ctx, unsigned op, uint64_t indices,
                                   uint64_t *to)
{
    uint32_t first = (uint32_t)indices;
    uint32_t second = (uint32_t)(indices >> 32);
    struct span d;
    struct span s;
    to[0] = (uint32_t)to[0]; /* all are i32, but for the value of table.fill */
    to[2] = (uint32_t)to[2];
    switch ((enum wasm_bulk_op)op) {
    case WASM_MEMORY_COPY:
        d = memory_span(ctx, first);
        s = memory_span(ctx, second);
        if (outside(to[0], to[2], d.count) || outside(to[1], to[2], s.count))
            return trap(ctx, DZ_WASM_TRAP_OOB_MEMORY);
        return copy_part(to, d, s, 1);
    case WASM_MEMORY_FILL:
        d = memory_span(ctx, first);
        if (outside(to[0], to[2], d.count))
            return trap(ctx, DZ_WASM_TRAP_OOB_MEMORY);
        return fill_memory(to, d);
    case WASM_MEMORY_INIT:
        return init_memory(ctx, to, memory_span(ctx, first), second);
    case WASM_TABLE_COPY:
        d = table_span(ctx, first);
        s = table_span(ctx, second);
        if (outside(to[0], to[2], d.count) || outside(to[1], to[2], s.count))
            return trap(ctx, DZ_WASM_TRAP_OOB_TABLE);
        return copy_part(to, d, s, sizeof(uint64_t));
    case WASM_TABLE_FILL:
        if (outside(to[0], to[2], ctx->tables[first]->size))
            return trap(ctx, DZ_WASM_TRAP_OOB_TABLE);
        if (!dz_wasm_ref_good(ctx, ctx->tables[first], to[1]))
            return trap(ctx, DZ_WASM_TRAP_UNDEFINED_ELEMENT);
        return fill_table(to, ctx->tables[first]);
    case WASM_TABLE_INIT:
        return init_table(ctx, to, ctx->tables[first], second);
    }
    return trap(ctx, DZ_WASM_TRAP_UNREACHABLE);
}

/* --- growing --------------------------------------------------------------------------- */

static void assert_mem(const struct wasm_mem *m)
{
    assert(m->size == (uint64_t)m->pages * DZ_WASM_PAGE && m->size <= m->reserved);
    assert(m->pages <= m->pages_max);
}

static void assert_table(const struct wasm_table *t)
{
    assert(t->size <= t->cap && t->size <= t->size_max && t->elem);
    for (uint32_t i = t->size; DZ_CHECK_DEEP && i < t->cap; i++)
        assert(t->elem[i] == 0);
}

uint32_t dz_wasm_mem_grow(struct wasm_ctx *ctx, uint32_t index, uint32_t pages)
{
    struct dz_wasm_store *s = wasm_store_of(ctx);
    struct wasm_mem *m = ctx->mems[index];
    uint32_t old = m->pages;
    if (pages > m->pages_max - old)
        return UINT32_MAX;
    uint64_t size = m->size + (uint64_t)pages * DZ_WASM_PAGE;
    if (pages && s->mem_ops->commit(s->cfg.mem_ctx, m->base, m->size, size, NULL) < 0)
        return UINT32_MAX;
    m->pages += pages;
    m->size = size;
    if (ctx->mems[0] == m)
        ctx->msize = size;
    assert_mem(m);
    return old;
}

bool dz_wasm_ref_good(const struct wasm_ctx *ctx, const struct wasm_table *t, uint64_t ref)
{
    if (t->type != DZ_WASM_FUNCREF || ref == 0)
        return true;
    const struct dz_wasm_store *s = (const struct dz_wasm_store *)(const void *)ctx;
    uint64_t inst = (ref - 1) >> 32;
    return inst < s->inst_count && (uint32_t)(ref - 1) < s->insts[inst]->module->n_funcs;
}

/* Committed bytes of a reserved table with room for `cap` elements. */
static size_t committed(const struct wasm_table *t, uint32_t cap)
{
    size_t size = (size_t)cap * sizeof *t->elem;
    size = (size + DZ_WASM_BULK_CHUNK - 1) / DZ_WASM_BULK_CHUNK * DZ_WASM_BULK_CHUNK;
    return size < t->reserved ? size : t->reserved;
}

/* Commit a part at a time: writable pages count against the limits of a process even if it never
 * touches them. */
static bool table_commit(struct wasm_table *t, uint32_t want)
{
    size_t old = t->cap ? committed(t, t->cap) : 0, size = committed(t, want);
    if (size > old && dz_wasm_mem_anon.commit(NULL, t->elem, old, size, NULL) < 0)
        return false;
    t->cap =
        size / sizeof *t->elem < t->size_max ? (uint32_t)(size / sizeof *t->elem) : t->size_max;
    return true;
}

/* A table of more than a part's elements lies in a reservation for its largest size, so growing
 * never copies more than a part. */
static bool table_reserve(struct wasm_table *t, uint32_t want)
{
    struct wasm_table was = *t;
    size_t size = (size_t)t->size_max * sizeof *t->elem;
    void *p;
    t->reserved = (size + DZ_WASM_PAGE - 1) / DZ_WASM_PAGE * DZ_WASM_PAGE;
    t->cap = 0;
    if (dz_wasm_mem_anon.reserve(NULL, t->reserved, &p, NULL) < 0) {
        *t = was;
        return false;
    }
    t->elem = p;
    if (!table_commit(t, want)) {
        dz_wasm_mem_anon.release(NULL, p, t->reserved);
        *t = was;
        return false;
    }
    if (was.elem)
        memcpy(p, was.elem, t->size * sizeof *t->elem);
    dz_free(was.elem);
    return true;
}

static bool table_room(struct wasm_table *t, uint32_t want)
{
    const uint32_t part = DZ_WASM_BULK_CHUNK / sizeof *t->elem;
    if (want <= t->cap && t->elem)
        return true;
    if (t->reserved)
        return table_commit(t, want);
    if (want > part)
        return table_reserve(t, want);
    uint32_t cap = t->cap > part / 2 ? part : t->cap * 2;
    if (cap < want)
        cap = want;
    if (cap == 0)
        cap = 1;
    uint64_t *p = dz_realloc(t->elem, cap * sizeof *p);
    if (!p)
        return false;
    memset(p + t->cap, 0, (cap - t->cap) * sizeof *p);
    t->elem = p;
    t->cap = cap;
    return true;
}

uint32_t dz_wasm_table_grow(struct wasm_table *t, uint32_t count)
{
    struct dz_wasm_store *s = t->store;
    uint32_t old = t->size;
    uint64_t bytes = s->table_bytes + (uint64_t)count * sizeof *t->elem;
    if (count > t->size_max - old || !table_room(t, old + count) ||
        (s->mem_ops->tables && s->mem_ops->tables(s->cfg.mem_ctx, s->table_bytes, bytes) < 0))
        return UINT32_MAX;
    s->table_bytes = bytes;
    t->size += count;
    assert_table(t);
    return old;
}

void dz_wasm_table_grow_filled(struct wasm_table *t, uint64_t *to)
{
    uint64_t value = to[0];
    uint32_t count = (uint32_t)to[1];
    uint32_t old = dz_wasm_table_grow(t, count);
    bool fill = old != UINT32_MAX && value != 0;
    to[0] = old;
    to[1] = fill ? old : 0;
    to[2] = value;
    to[3] = fill ? count : 0;
}

int dz_wasm_table_lay(const struct dz_wasm_module *m, struct wasm_table *t, struct dz_err *err)
{
    const struct dz_wasm_store *s = t->store;
    uint64_t size = dz_wasm_table_bytes(m->header);
    assert(t->size == 0 && !t->elem);
    if (!table_reserve(t, m->header->table_elems))
        return dz_fail(err, DZ_ENOMEM, "no memory for a table of %u elements", t->size_max);
    t->shared = m->header->table_elems;
    if (s->mem_ops->map_image)
        return s->mem_ops->map_image(s->cfg.mem_ctx, t->elem, DZ_WASM_NONE,
                                     (const uint8_t *)m->table, size, err);
    memcpy(t->elem, m->table, size);
    return 0;
}

void dz_wasm_table_put(struct wasm_table *t, uint32_t at, const uint64_t *from, uint32_t count)
{
    const uint32_t page = DZ_WASM_PAGE_ALIGN / sizeof *from;
    for (uint32_t n; count > 0; at += n, from += n, count -= n) {
        n = at < t->shared ? page - at % page : count;
        n = n < count ? n : count;
        if (at >= t->shared || memcmp(t->elem + at, from, n * sizeof *from) != 0)
            memcpy(t->elem + at, from, n * sizeof *from);
    }
}

void dz_wasm_table_release(struct wasm_table *t)
{
    if (t->reserved)
        dz_wasm_mem_anon.release(NULL, t->elem, t->reserved);
    else
        dz_free(t->elem);
}
