/* SPDX-License-Identifier: MIT
 *
 * wasm_open.c - check a prepared module and make a view of it.
 *
 * The checks cost one pass over the metadata, nothing for code and image: the
 * layout, the checksum, then every index and offset against what it points
 * into, so that users of the view need no checks of their own. Instructions,
 * which these checks cannot see, are covered by a checksum per body.
 */
#include "wasm/wasm_load.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/str.h"

typedef const struct dz_wasm_module view;

static bool name_ok(view *m, struct dz_wasm_name n)
{
    return (uint64_t)n.offset + n.size <= m->wasm_size;
}

static bool range_ok(uint64_t first, uint64_t n, uint64_t count)
{
    return first <= count && n <= count - first;
}

static bool valtype_ok(unsigned type)
{
    return (type >= DZ_WASM_V128 && type <= DZ_WASM_I32) || dz_wasm_valtype_is_ref(type);
}

static uint32_t count_of_kind(view *m, unsigned kind)
{
    const uint32_t n[] = {m->n_funcs, m->n_tables, m->n_memories, m->n_globals, m->n_tags};
    return n[kind];
}

/* --- one check for each array --------------------------------------------------------- */

static bool types_ok(view *m)
{
    for (uint32_t i = 0; i < m->n_valtypes; i++)
        if (!valtype_ok(m->valtypes[i]))
            return false;
    for (uint32_t i = 0; i < m->n_types; i++) {
        const struct dz_wasm_type *t = &m->types[i];
        uint32_t slots[2] = {0, 0};
        if (!range_ok(t->params, (uint64_t)t->n_params + t->n_results, m->n_valtypes) ||
            t->canon > i)
            return false;
        for (uint32_t k = 0; k < t->n_params + t->n_results; k++)
            slots[k >= t->n_params] += dz_wasm_valtype_slots(m->valtypes[t->params + k]);
        if (slots[0] != t->param_slots || slots[1] != t->result_slots)
            return false;
    }
    return true;
}

static bool imports_ok(view *m)
{
    uint32_t seen[5] = {0};
    for (uint32_t i = 0; i < m->n_imports; i++) {
        const struct dz_wasm_import *im = &m->imports[i];
        if (im->kind > DZ_WASM_KIND_TAG || im->index != seen[im->kind]++ ||
            !name_ok(m, im->module) || !name_ok(m, im->name))
            return false;
    }
    for (unsigned k = 0; k <= DZ_WASM_KIND_TAG; k++)
        if (seen[k] != m->header->n_imported[k] || seen[k] > count_of_kind(m, k))
            return false;
    return true;
}

static bool funcs_ok(view *m)
{
    const struct dz_wasm_func *funcs = m->funcs;
    uint32_t n_imported = m->header->n_imported[DZ_WASM_KIND_FUNC];
    for (uint32_t i = 0; i < n_imported && i < m->n_funcs; i++)
        if (funcs[i].type >= m->n_types)
            return false;
    bool good = true; /* hundred thousand: one branch for each */
    for (uint32_t i = n_imported; i < m->n_funcs; i++) {
        const struct dz_wasm_func *f = &funcs[i];
        if (f->type >= m->n_types)
            return false;
        good &= (uint64_t)f->body + f->body_size <= m->wasm_size;
        good &= f->code >= f->body;
        good &= f->code - f->body < f->body_size;
        good &= f->local_slots >= m->types[f->type].param_slots;
    }
    return good;
}

static bool exports_ok(view *m)
{
    if (m->n_exports_by_name != m->n_exports)
        return false;
    for (uint32_t i = 0; i < m->n_exports; i++) {
        const struct dz_wasm_export *e = &m->exports[i];
        if (e->kind > DZ_WASM_KIND_TAG || e->index >= count_of_kind(m, e->kind) ||
            !name_ok(m, e->name) || m->exports_by_name[i] >= m->n_exports)
            return false;
    }
    return true;
}

/* The type that one instruction of an expression leaves, 0 when it is damaged;
 * *ret_pops how many operands of that type it takes. Globals from n_globals on
 * may not be read. */
static unsigned const_type(view *m, const struct dz_wasm_const *c, uint32_t n_globals,
                           unsigned *ret_pops)
{
    *ret_pops = 0;
    switch (c->op) {
    case DZ_WASM_OP_i32_add:
    case DZ_WASM_OP_i32_sub:
    case DZ_WASM_OP_i32_mul:
        *ret_pops = 2;
        return DZ_WASM_I32;
    case DZ_WASM_OP_i32_const:
        return DZ_WASM_I32;
    case DZ_WASM_OP_i64_add:
    case DZ_WASM_OP_i64_sub:
    case DZ_WASM_OP_i64_mul:
        *ret_pops = 2;
        return DZ_WASM_I64;
    case DZ_WASM_OP_i64_const:
        return DZ_WASM_I64;
    case DZ_WASM_OP_f32_const:
        return DZ_WASM_F32;
    case DZ_WASM_OP_f64_const:
        return DZ_WASM_F64;
    case DZ_WASM_OP_v128_const:
        return DZ_WASM_V128;
    case DZ_WASM_OP_ref_null:
        return dz_wasm_valtype_is_ref(c->index) ? c->index : 0;
    case DZ_WASM_OP_ref_func:
        return c->index < m->n_funcs ? DZ_WASM_FUNCREF : 0;
    case DZ_WASM_OP_global_get:
        return c->index < n_globals ? m->globals[c->index].type : 0;
    default:
        return 0;
    }
}

/* Consts [first, first + n) leave one value of a type. */
static bool expr_ok(view *m, uint32_t first, uint32_t n, unsigned type, uint32_t n_globals)
{
    uint8_t stack[DZ_WASM_CONST_DEPTH];
    uint32_t depth = 0;
    if (!range_ok(first, n, m->n_consts))
        return false;
    for (uint32_t i = first; i < first + n; i++) {
        unsigned pops, result = const_type(m, &m->consts[i], n_globals, &pops);
        if (!result || depth < pops || depth == DZ_WASM_CONST_DEPTH)
            return false;
        for (; pops > 0; pops--)
            if (stack[--depth] != result)
                return false;
        stack[depth++] = (uint8_t)result;
    }
    return depth == 1 && stack[0] == type;
}

static bool spaces_ok(view *m)
{
    for (uint32_t i = 0; i < m->n_tables; i++) {
        const struct dz_wasm_table *t = &m->tables[i];
        if (!dz_wasm_valtype_is_ref(t->type) || t->min > t->max ||
            (t->n_init && (i < m->header->n_imported[DZ_WASM_KIND_TABLE] ||
                           !expr_ok(m, t->init, t->n_init, t->type,
                                    m->header->n_imported[DZ_WASM_KIND_GLOBAL]))))
            return false;
    }
    for (uint32_t i = 0; i < m->n_memories; i++)
        if (m->memories[i].min > m->memories[i].max || m->memories[i].max > 65536)
            return false;
    for (uint32_t i = 0; i < m->n_tags; i++)
        if (m->tags[i].type >= m->n_types)
            return false;
    return true;
}

static bool globals_ok(view *m)
{
    uint32_t slot = 0;
    for (uint32_t i = 0; i < m->n_globals; i++) {
        const struct dz_wasm_global *g = &m->globals[i];
        bool imported = i < m->header->n_imported[DZ_WASM_KIND_GLOBAL];
        if (!valtype_ok(g->type) || g->mutable > 1 || g->slot != slot ||
            (!imported && !expr_ok(m, g->init, g->n_init, g->type, i)))
            return false;
        slot += dz_wasm_valtype_slots(g->type);
    }
    return slot == m->header->global_slots;
}

static bool item_ok(view *m, uint32_t item, unsigned type)
{
    if (item == DZ_WASM_ITEM_NULL)
        return true;
    if (item < DZ_WASM_ITEM_GLOBAL)
        return item < m->n_funcs && type == DZ_WASM_FUNCREF;
    item -= DZ_WASM_ITEM_GLOBAL;
    return item < m->n_globals && m->globals[item].type == type;
}

static bool elems_ok(view *m)
{
    uint32_t at = 0; /* the items of the segments follow each other */
    for (uint32_t i = 0; i < m->n_elems; i++) {
        const struct dz_wasm_elem *e = &m->elems[i];
        if (e->mode > DZ_WASM_DECLARED || !dz_wasm_valtype_is_ref(e->type) || e->items != at ||
            e->n_items > m->n_elem_items - at)
            return false;
        for (; at < e->items + e->n_items; at++)
            if (!item_ok(m, m->elem_items[at], e->type))
                return false;
        if (e->mode == DZ_WASM_ACTIVE &&
            (e->table >= m->n_tables || m->tables[e->table].type != e->type ||
             !expr_ok(m, e->offset, e->n_offset, DZ_WASM_I32, m->n_globals)))
            return false;
    }
    return at == m->n_elem_items && m->n_elems_dropped == m->n_elems / 64 + (m->n_elems % 64 != 0);
}

static bool datas_ok(view *m)
{
    const struct dz_wasm_data *datas = m->datas;
    bool good = true; /* there may be ten thousand: no branch for each */
    for (uint32_t i = 0; i < m->n_datas; i++) {
        const struct dz_wasm_data *d = &datas[i];
        good &= d->mode <= DZ_WASM_PASSIVE;
        good &= (uint64_t)d->bytes + d->n_bytes <= m->wasm_size;
        good &= d->mode != DZ_WASM_ACTIVE || d->memory < m->n_memories;
    }
    if (!good)
        return false;
    for (uint32_t i = 0; i < m->n_datas_left; i++) {
        if (m->datas_left[i] >= m->n_datas)
            return false;
        const struct dz_wasm_data *d = &m->datas[m->datas_left[i]];
        if (d->mode != DZ_WASM_ACTIVE ||
            !expr_ok(m, d->offset, d->n_offset, DZ_WASM_I32, m->n_globals))
            return false;
    }
    return m->n_datas_dropped == m->n_datas / 64 + (m->n_datas % 64 != 0);
}

static bool rest_ok(view *m)
{
    const struct dz_wasm_header *h = m->header;
    for (uint32_t i = 0; i < m->n_sections; i++)
        if (m->sections[i].id >= DZ_WASM_SECTIONS || !name_ok(m, m->sections[i].name) ||
            !range_ok(m->sections[i].offset, m->sections[i].size, m->wasm_size))
            return false;
    if (h->start != DZ_WASM_NONE && h->start >= m->n_funcs)
        return false;
    if (h->image_size > 0 &&
        (m->n_memories == 0 || h->n_imported[DZ_WASM_KIND_MEMORY] > 0 ||
         !range_ok(h->image_at, h->image_size, (uint64_t)m->memories[0].min * DZ_WASM_PAGE)))
        return false;
    return range_ok(h->name_section, h->name_size, m->wasm_size);
}

/* The table image must agree with the segments, because it is mapped and calls follow it. */
static bool table_ok(view *m)
{
    const struct dz_wasm_header *h = m->header;
    uint64_t at = 0, size = dz_wasm_table_bytes(h) / sizeof *m->table;
    bool good = true;
    if (size == 0)
        return true;
    if (m->n_tables == 0 || h->n_imported[DZ_WASM_KIND_TABLE] > 0 ||
        m->tables[0].type != DZ_WASM_FUNCREF || m->tables[0].n_init > 0 ||
        h->table_elems > m->tables[0].min)
        return false;
    for (uint32_t i = 0; i < m->n_elems; i++) {
        const struct dz_wasm_elem *e = &m->elems[i];
        const uint32_t *items = m->elem_items + e->items;
        if (e->mode != DZ_WASM_ACTIVE)
            continue;
        const struct dz_wasm_const *c = &m->consts[e->offset];
        uint64_t first = (uint32_t)c->bits[0];
        if (e->table != 0 || e->n_offset != 1 || c->op != DZ_WASM_OP_i32_const || first < at ||
            !range_ok(first, e->n_items, h->table_elems))
            return false;
        for (; at < first; at++)
            good &= m->table[at] == 0;
        for (uint32_t k = 0; k < e->n_items; k++) {
            good &= items[k] < DZ_WASM_ITEM_GLOBAL;
            good &= m->table[at + k] == (uint64_t)items[k] + 1;
        }
        at += e->n_items;
    }
    good &= at == h->table_elems;
    for (; at < size; at++)
        good &= m->table[at] == 0;
    return good;
}

/* --- the layout --------------------------------------------------------------------------- */

static int damaged(struct dz_err *err, const char *what)
{
    return dz_fail(
        err, DZ_ECORRUPT,
        "the prepared module is damaged (%s); prepare it again from the WebAssembly file", what);
}

static int check_header(const struct dz_wasm_header *h, size_t size, struct dz_err *err)
{
    if (size < sizeof *h || memcmp(h->magic, "dozewasm", sizeof h->magic) != 0)
        return dz_fail(err, DZ_ECORRUPT, "this is no prepared module: its first bytes are wrong");
    if (h->version != DZ_WASM_PREPARED_VERSION || h->header_size != sizeof *h)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "a prepared module of version %" PRIu32
                       ", this doze reads version %d; prepare it again",
                       h->version, DZ_WASM_PREPARED_VERSION);
    if (h->total_size != size)
        return damaged(err, "its size");
    if (h->wasm_offset % 8 != 0 || !range_ok(h->wasm_offset, h->wasm_size, size) ||
        h->wasm_size > UINT32_MAX || h->wasm_offset < sizeof *h)
        return damaged(err, "the place of the binary");
    if (h->image_offset % DZ_WASM_PAGE_ALIGN != 0 || h->image_size % DZ_WASM_PAGE_ALIGN != 0 ||
        h->image_at % DZ_WASM_PAGE_ALIGN != 0 || !range_ok(h->image_offset, h->image_size, size) ||
        h->image_offset < h->wasm_offset + h->wasm_size)
        return damaged(err, "the place of the memory image");
    if (h->total_size - h->image_offset - h->image_size < dz_wasm_table_bytes(h))
        return damaged(err, "the place of the table image");
    for (unsigned i = 0; i < DZ_WASM_ARRAY_COUNT; i++)
        if (h->array[i].offset % 8 != 0 || h->array[i].offset < sizeof *h ||
            h->array[i].offset > h->wasm_offset || h->array[i].count > UINT32_MAX)
            return damaged(err, "the place of an array");
    return 0;
}

static const void *place(const struct dz_wasm_header *h, enum dz_wasm_array array)
{
    return (const uint8_t *)h + h->array[array].offset;
}

/* Point the arrays and check the sum over header and arrays. */
static int map_arrays(struct dz_wasm_module *m, struct dz_err *err)
{
    const struct dz_wasm_header *h = m->header;
    struct dz_wasm_header bare = *h;
    bare.meta_sum = 0;
    uint64_t sum = dz_wasm_sum(0, &bare, sizeof bare);
#define X(field, type)                                                                           \
    m->field = place(h, DZ_WASM_ARRAY_##field);                                                  \
    m->n_##field = (uint32_t)h->array[DZ_WASM_ARRAY_##field].count;                              \
    if (m->n_##field > (h->wasm_offset - h->array[DZ_WASM_ARRAY_##field].offset) / sizeof(type)) \
        return damaged(err, "the size of " #field);                                              \
    sum = dz_wasm_sum(sum, m->field, m->n_##field * sizeof(type));
    DZ_WASM_ARRAY_MAP(X)
#undef X
    return sum == h->meta_sum ? 0 : damaged(err, "the checksum of its tables");
}

static int check_arrays(view *m, struct dz_err *err)
{
    static const struct {
        bool (*ok)(view *m);
        const char *what;
    } checks[] = {
        {types_ok, "types"},     {imports_ok, "imports"}, {funcs_ok, "functions"},
        {spaces_ok, "tables"},   {exports_ok, "exports"}, {globals_ok, "globals"},
        {elems_ok, "elements"},  {datas_ok, "data"},      {rest_ok, "sections"},
        {table_ok, "the table"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(checks); i++)
        if (!checks[i].ok(m))
            return damaged(err, checks[i].what);
    return 0;
}

/* --- the calls ------------------------------------------------------------------------------ */

int dz_wasm_module_open(const void *flat, size_t size, struct dz_wasm_module **ret_module,
                        struct dz_err *err)
{
    const struct dz_wasm_header *h = flat;
    assert((uintptr_t)flat % 8 == 0);
    int r = check_header(h, size, err);
    if (r < 0)
        return r;
    struct dz_wasm_module *m = dz_zalloc(sizeof *m);
    if (!m)
        return dz_fail(err, DZ_ENOMEM, "no memory to open a prepared module");
    m->header = h;
    m->wasm = (const uint8_t *)flat + h->wasm_offset;
    m->wasm_size = h->wasm_size;
    m->image = (const uint8_t *)flat + h->image_offset;
    m->table = (const uint64_t *)(const void *)(m->image + h->image_size);
    r = map_arrays(m, err);
    if (r == 0)
        r = check_arrays(m, err);
    if (r < 0) {
        dz_free(m);
        return r;
    }
    *ret_module = m;
    return 0;
}

void dz_wasm_module_close(struct dz_wasm_module *m)
{
    if (!m)
        return;
    if (m->code && m->code_free)
        m->code_free(m->code);
    dz_free(m);
}

int dz_wasm_module_body(const struct dz_wasm_module *m, uint32_t func, const uint8_t **ret_body,
                        struct dz_err *err)
{
    assert(func < m->n_funcs && func >= m->header->n_imported[DZ_WASM_KIND_FUNC]);
    const struct dz_wasm_func *f = &m->funcs[func];
    const uint8_t *body = m->wasm + f->body;
    if (wasm_sum32(body, f->body_size) != f->sum)
        return dz_fail(err, DZ_ECORRUPT,
                       "the prepared module is damaged (code of function %" PRIu32
                       "); prepare it again from the WebAssembly file",
                       func);
    *ret_body = body;
    return 0;
}

static struct dz_str name_of(view *m, struct dz_wasm_name n)
{
    return dz_str_n((const char *)m->wasm + n.offset, n.size);
}

uint32_t dz_wasm_module_export(const struct dz_wasm_module *m, const char *name, size_t size)
{
    uint32_t low = 0, high = m->n_exports;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int c =
            dz_str_cmp(name_of(m, m->exports[m->exports_by_name[mid]].name), dz_str_n(name, size));
        if (c == 0)
            return m->exports_by_name[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return DZ_WASM_NONE;
}

bool dz_wasm_type_eq(const struct dz_wasm_module *a, uint32_t type_a,
                     const struct dz_wasm_module *b, uint32_t type_b)
{
    const struct dz_wasm_type *ta = &a->types[type_a], *tb = &b->types[type_b];
    if (a == b)
        return ta->canon == tb->canon;
    return ta->n_params == tb->n_params && ta->n_results == tb->n_results &&
           memcmp(a->valtypes + ta->params, b->valtypes + tb->params,
                  ta->n_params + ta->n_results) == 0;
}

/* --- names of functions, for traces -------------------------------------------------
 *
 * The custom section "name" is not checked when a module is prepared, because the specification
 * lets it be malformed, and read only when a name is wanted: subsection 1 holds a count and pairs
 * of function index and name, ascending. Each call walks it from the start; a malformed one ends
 * the walk. */

struct cursor {
    const uint8_t *p, *end;
};

static bool read_u32(struct cursor *c, uint32_t *ret)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 35 && c->p < c->end; shift += 7) {
        uint8_t b = *c->p++;
        value |= (uint32_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static bool read_slice(struct cursor *c, struct dz_str *ret)
{
    uint32_t n;
    if (!read_u32(c, &n) || n > (size_t)(c->end - c->p))
        return false;
    *ret = dz_str_n((const char *)c->p, n);
    c->p += n;
    return true;
}

/* The name of a function in subsection 1. */
static bool find_in_map(struct dz_str map, uint32_t func, struct dz_str *ret)
{
    struct cursor c = {(const uint8_t *)map.p, (const uint8_t *)map.p + map.n};
    uint32_t n, index;
    if (!read_u32(&c, &n))
        return false;
    for (; n > 0 && read_u32(&c, &index) && read_slice(&c, ret); n--)
        if (index == func)
            return true;
    return false;
}

static bool find_name(const struct dz_wasm_module *m, uint32_t func, struct dz_str *ret)
{
    const uint8_t *p = m->wasm + m->header->name_section;
    struct cursor c = {p, p + m->header->name_size};
    struct dz_str part;
    while (c.p < c.end) {
        unsigned id = *c.p++;
        if (!read_slice(&c, &part))
            return false;
        if (id == 1)
            return find_in_map(part, func, ret);
    }
    return false;
}

static bool find_import(const struct dz_wasm_module *m, uint32_t func, struct dz_str *ret)
{
    for (uint32_t i = 0; i < m->n_imports; i++)
        if (m->imports[i].kind == DZ_WASM_KIND_FUNC && m->imports[i].index == func) {
            *ret = name_of(m, m->imports[i].name);
            return true;
        }
    return false;
}

static bool find_export(const struct dz_wasm_module *m, uint32_t func, struct dz_str *ret)
{
    for (uint32_t i = 0; i < m->n_exports; i++)
        if (m->exports[i].kind == DZ_WASM_KIND_FUNC && m->exports[i].index == func) {
            *ret = name_of(m, m->exports[i].name);
            return true;
        }
    return false;
}

/* s into buf: whole characters, as many as fit; control bytes as '?'. */
static void copy_name(struct dz_str s, char *buf, size_t size)
{
    size_t n = 0;
    while (n < s.n) {
        size_t len = dz_utf8_shown(s.p + n, s.n - n);
        size_t step = len ? len : 1;
        if (n + step >= size)
            break;
        if (len)
            memcpy(buf + n, s.p + n, len);
        else
            buf[n] = '?';
        n += step;
    }
    buf[n] = '\0';
}

char *dz_wasm_module_func_name(const struct dz_wasm_module *m, uint32_t func, char *buf,
                               size_t size)
{
    struct dz_str name;
    if (size == 0)
        return buf;
    if (find_name(m, func, &name) || find_export(m, func, &name) || find_import(m, func, &name))
        copy_name(name, buf, size);
    else
        (void)snprintf(buf, size, "function %" PRIu32, func);
    return buf;
}
