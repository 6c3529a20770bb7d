/* SPDX-License-Identifier: MIT
 *
 * wasm_decode.c - decodes a module section by section into the arrays of the
 * prepared form, and hands each function body to the validator.
 *
 * One pass: when the code section comes, everything a body can refer to has
 * been read, apart from the data segments, of which the data count section
 * tells the number. Order, sizes and counts of the sections are checked as the
 * specification wants. Imports, tables, memories, globals, tags and segments are
 * in wasm_decode_part.c.
 *
 * Bounds: an array is grown by what is really read, never by a count that the
 * input claims; each count has its limit.
 */
#include "wasm/wasm_load.h"

#include <assert.h>
#include <inttypes.h>

#include "base/str.h"

enum section {
    SEC_CUSTOM,
    SEC_TYPE,
    SEC_IMPORT,
    SEC_FUNCTION,
    SEC_TABLE,
    SEC_MEMORY,
    SEC_GLOBAL,
    SEC_EXPORT,
    SEC_START,
    SEC_ELEMENT,
    SEC_CODE,
    SEC_DATA,
    SEC_DATA_COUNT,
    SEC_TAG,
    SEC_COUNT
};

/* --- types ------------------------------------------------------------------------ */

static uint32_t slots_of(const uint8_t *types, uint32_t n)
{
    uint32_t slots = 0;
    for (uint32_t i = 0; i < n; i++)
        slots += dz_wasm_valtype_slots(types[i]);
    return slots;
}

static uint32_t read_valtypes(struct wasm_load *l, const char *what)
{
    const uint8_t *at = l->p;
    uint32_t n = wasm_read_u32(l);
    if (n > l->limits->params)
        dz_wasm_load_limit(l, at, n, l->limits->params, what);
    for (uint32_t i = 0; i < n && !l->code; i++) {
        uint8_t type = dz_wasm_read_valtype(l); /* read it also when there is no room */
        dz_vec_push(&l->valtypes, type);
    }
    return n;
}

/* The form byte of a type that is not a function type. */
static void refuse_form(struct wasm_load *l, const uint8_t *at, unsigned form)
{
    if (form == 0x5f || form == 0x5e || form == 0x50 || form == 0x4f || form == 0x4e)
        dz_wasm_load_fail(l, at, DZ_EUNSUPPORTED,
                          "uses garbage-collected types, which doze does not support");
    else if (form == 0x5d)
        dz_wasm_load_fail(l, at, DZ_EUNSUPPORTED,
                          "uses stack switching, which doze does not support");
    else
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed type form 0x%02x", form);
}

static void read_type(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    unsigned form = wasm_read_byte(l);
    if (!l->code && form != 0x60)
        refuse_form(l, at, form);
    struct dz_wasm_type t = {.params = (uint32_t)l->valtypes.n};
    t.n_params = read_valtypes(l, "parameters");
    t.n_results = read_valtypes(l, "results");
    if (l->code || l->valtypes.err)
        return;
    if (t.n_results > 1)
        (void)wasm_need(l, at, DZ_WASM_F_MULTI_VALUE);
    const uint8_t *types = l->valtypes.p + t.params;
    t.param_slots = slots_of(types, t.n_params);
    t.result_slots = slots_of(types + t.n_params, t.n_results);
    dz_vec_push(&l->types, t);
}

static bool same_type(const struct wasm_load *l, uint32_t i, uint32_t k)
{
    const struct dz_wasm_type *a = &l->types.p[i], *b = &l->types.p[k];
    size_t n = a->n_params + a->n_results;
    return a->n_params == b->n_params && a->n_results == b->n_results &&
           memcmp(l->valtypes.p + a->params, l->valtypes.p + b->params, n) == 0;
}

/* Give each type the lowest index of its structure, by a hash table. */
static int number_types(struct wasm_load *l)
{
    size_t size = 16;
    while (size < 2 * l->types.n)
        size *= 2;
    uint32_t *table = dz_alloc(size * sizeof *table);
    if (!table)
        return DZ_ENOMEM;
    memset(table, 0xff, size * sizeof *table);
    for (uint32_t i = 0; i < l->types.n; i++) {
        struct dz_wasm_type *t = &l->types.p[i];
        size_t n = t->n_params + t->n_results;
        uint64_t h = dz_wasm_sum(t->n_params, l->valtypes.p + t->params, n);
        size_t at = h & (size - 1);
        while (table[at] != DZ_WASM_NONE && !same_type(l, table[at], i))
            at = (at + 1) & (size - 1);
        if (table[at] == DZ_WASM_NONE)
            table[at] = i;
        t->canon = table[at];
    }
    dz_free(table);
    return 0;
}

/* --- the simple sections ------------------------------------------------------------ */

static void read_function(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    dz_wasm_add_func(l, wasm_read_u32(l), at);
}

static size_t count_of_kind(const struct wasm_load *l, unsigned kind)
{
    const size_t n[] = {l->funcs.n, l->tables.n, l->memories.n, l->globals.n, l->tags.n};
    return n[kind];
}

static void read_export(struct wasm_load *l)
{
    static const char *const what[] = {"function", "table", "memory", "global", "tag"};
    struct dz_wasm_export e = {.name = dz_wasm_read_name(l)};
    const uint8_t *at = l->p;
    e.kind = wasm_read_byte(l);
    e.index = wasm_read_u32(l);
    if (l->code)
        return;
    if (e.kind > DZ_WASM_KIND_TAG) {
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed export kind 0x%02x", e.kind);
        return;
    }
    if (!dz_wasm_index_ok(l, at, e.index, count_of_kind(l, e.kind), what[e.kind]))
        return;
    if (e.kind == DZ_WASM_KIND_FUNC)
        dz_wasm_declare(l, e.index);
    if (e.kind == DZ_WASM_KIND_GLOBAL && l->globals.p[e.index].mutable)
        (void)wasm_need(l, at, DZ_WASM_F_MUTABLE_GLOBALS);
    dz_vec_push(&l->exports, e);
}

static int cmp_name(const struct wasm_load *l, uint32_t i, uint32_t k)
{
    struct dz_wasm_name a = l->exports.p[i].name, b = l->exports.p[k].name;
    return dz_str_cmp(dz_str_n((const char *)l->base + a.offset, a.size),
                      dz_str_n((const char *)l->base + b.offset, b.size));
}

/* Let v[at] sink in the heap v[0..n). */
static void sift(const struct wasm_load *l, uint32_t *v, size_t at, size_t n)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && cmp_name(l, v[child], v[child + 1]) < 0)
            child++;
        if (cmp_name(l, v[at], v[child]) >= 0)
            return;
        uint32_t t = v[at];
        v[at] = v[child];
        v[child] = t;
    }
}

/* exports_by_name by heap sort (no recursion, no bad case), and no name twice. */
static void sort_exports(struct wasm_load *l, const uint8_t *at)
{
    size_t n = l->exports.n;
    for (uint32_t i = 0; i < n; i++)
        dz_vec_push(&l->exports_by_name, i);
    if (l->exports_by_name.err || n == 0)
        return;
    uint32_t *v = l->exports_by_name.p;
    for (size_t i = n / 2; i-- > 0;)
        sift(l, v, i, n);
    for (size_t i = n; i-- > 1;) {
        uint32_t t = v[0];
        v[0] = v[i];
        v[i] = t;
        sift(l, v, 0, i);
    }
    for (size_t i = 1; i < n; i++) {
        struct dz_wasm_name name = l->exports.p[v[i]].name;
        char quoted[DZ_STR_QUOTED];
        if (cmp_name(l, v[i - 1], v[i]) == 0)
            dz_wasm_load_fail(
                l, at, DZ_EINVAL, "duplicate export name %s",
                dz_str_quote(dz_str_n((const char *)l->base + name.offset, name.size), quoted));
    }
}

static void read_start(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint32_t func = wasm_read_u32(l);
    if (l->code || !dz_wasm_index_ok(l, at, func, l->funcs.n, "function"))
        return;
    const struct dz_wasm_type *t = &l->types.p[l->funcs.p[func].type];
    if (t->n_params || t->n_results)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "start function %" PRIu32 " has parameters or results",
                          func);
    l->start = func;
}

static void read_body(struct wasm_load *l)
{
    const uint8_t *at = l->p, *end = l->end;
    uint32_t size = wasm_read_u32(l);
    if (size > l->limits->body_bytes)
        dz_wasm_load_limit(l, at, size, l->limits->body_bytes, "bytes of a function body");
    const uint8_t *body = dz_wasm_read_bytes(l, size);
    if (!body || l->code)
        return;
    uint32_t func = l->n_imported[DZ_WASM_KIND_FUNC] + l->n_codes++;
    l->func = func;
    l->p = body;
    l->end = body + size;
    dz_wasm_valid_body(l, func);
    l->func = DZ_WASM_NONE;
    l->end = end;
    l->p = l->code ? end : body + size;
}

/* --- sections ------------------------------------------------------------------------- */

/* Sections that are a count and that many items. */
static void read_items(struct wasm_load *l, unsigned id)
{
    static const struct {
        void (*read)(struct wasm_load *l);
        size_t limit; /* offset in struct dz_wasm_limits */
        const char *what;
    } items[SEC_COUNT] = {
#define ROW(reader, field) {reader, offsetof(struct dz_wasm_limits, field), #field}
        [SEC_TYPE] = ROW(read_type, types),
        [SEC_FUNCTION] = ROW(read_function, functions),
        [SEC_TABLE] = ROW(dz_wasm_decode_table, tables),
        [SEC_MEMORY] = ROW(dz_wasm_decode_memory, memories),
        [SEC_GLOBAL] = ROW(dz_wasm_decode_global, globals),
        [SEC_EXPORT] = ROW(read_export, exports),
        [SEC_ELEMENT] = ROW(dz_wasm_decode_elem, elems),
        [SEC_IMPORT] = ROW(dz_wasm_decode_import, imports),
        [SEC_CODE] = ROW(read_body, functions),
        [SEC_DATA] = ROW(dz_wasm_decode_data, datas),
        [SEC_TAG] = ROW(dz_wasm_decode_tag, tags),
#undef ROW
    };
    const uint8_t *at = l->p;
    uint32_t n = wasm_read_u32(l);
    uint32_t limit;
    assert(items[id].read);
    memcpy(&limit, (const char *)l->limits + items[id].limit, sizeof limit);
    if (n > limit)
        dz_wasm_load_limit(l, at, n, limit, items[id].what);
    if (!l->code && id == SEC_CODE && n != l->funcs.n - l->n_imported[DZ_WASM_KIND_FUNC])
        dz_wasm_load_fail(l, at, DZ_EINVAL,
                          "function and code section have inconsistent lengths: %zu and %" PRIu32,
                          l->funcs.n - l->n_imported[DZ_WASM_KIND_FUNC], n);
    if (!l->code && id == SEC_DATA && l->n_data_count != DZ_WASM_NONE && n != l->n_data_count)
        dz_wasm_load_fail(l, at, DZ_EINVAL,
                          "data count and data section have inconsistent lengths: %" PRIu32
                          " and %" PRIu32,
                          l->n_data_count, n);
    for (uint32_t i = 0; i < n && !l->code; i++)
        items[id].read(l);
}

static void read_section(struct wasm_load *l, unsigned id)
{
    const uint8_t *at = l->p;
    switch (id) {
    case SEC_START:
        read_start(l);
        break;
    case SEC_DATA_COUNT:
        l->n_data_count = wasm_read_u32(l);
        if (l->n_data_count > l->limits->datas)
            dz_wasm_load_limit(l, at, l->n_data_count, l->limits->datas, "datas");
        (void)wasm_need(l, at, DZ_WASM_F_BULK_MEMORY);
        break;
    default:
        l->has_code |= id == SEC_CODE;
        read_items(l, id);
        if (id == SEC_TYPE && !l->code && number_types(l) < 0)
            dz_wasm_load_fail(l, at, DZ_ENOMEM, "out of memory");
        if (id == SEC_EXPORT && !l->code)
            sort_exports(l, at);
        break;
    }
    if (!l->code && l->p != l->end)
        dz_wasm_load_fail(l, l->p, DZ_EINVAL, "section size mismatch: %zu bytes too many",
                          (size_t)(l->end - l->p));
}

static void read_custom(struct wasm_load *l, struct dz_wasm_section *s)
{
    const uint8_t *at = l->p;
    s->name = dz_wasm_read_name(l);
    if (++l->n_customs > l->limits->customs)
        dz_wasm_load_limit(l, at, l->n_customs, l->limits->customs, "custom sections");
    if (l->code)
        return;
    s->offset = (uint32_t)(l->p - l->base);
    s->size = (uint32_t)(l->end - l->p);
    if (s->name.size == 4 && memcmp(l->base + s->name.offset, "name", 4) == 0 &&
        l->name_size == 0) {
        l->name_section = s->offset;
        l->name_size = s->size;
    }
    l->p = l->end;
}

/* Sections stand in this order, each at most once; custom ones anywhere. */
static const uint8_t section_rank[SEC_COUNT] = {
    [SEC_TYPE] = 1,   [SEC_IMPORT] = 2,   [SEC_FUNCTION] = 3,    [SEC_TABLE] = 4,
    [SEC_MEMORY] = 5, [SEC_TAG] = 6,      [SEC_GLOBAL] = 7,      [SEC_EXPORT] = 8,
    [SEC_START] = 9,  [SEC_ELEMENT] = 10, [SEC_DATA_COUNT] = 11, [SEC_CODE] = 12,
    [SEC_DATA] = 13,
};

/* One section; *rank is that of the last one that was not custom. */
static void next_section(struct wasm_load *l, unsigned *rank)
{
    const uint8_t *at = l->p, *end = l->end;
    unsigned id = wasm_read_byte(l);
    uint32_t size = wasm_read_u32(l);
    if (!l->code && id >= SEC_COUNT)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed section id %u", id);
    const uint8_t *payload = dz_wasm_read_bytes(l, size);
    if (l->code || !payload)
        return;
    struct dz_wasm_section s = {id, {0, 0}, (uint32_t)(payload - l->base), size};
    if (id != SEC_CUSTOM) {
        if (section_rank[id] <= *rank)
            dz_wasm_load_fail(l, at, DZ_EINVAL,
                              "unexpected content after last section: section "
                              "%u stands too late or twice",
                              id);
        *rank = section_rank[id];
    }
    if (id == SEC_TAG)
        (void)wasm_need(l, at, DZ_WASM_F_EXCEPTIONS);
    if (l->code)
        return;
    l->p = payload;
    l->end = payload + size;
    if (id == SEC_CUSTOM)
        read_custom(l, &s);
    else
        read_section(l, id);
    dz_vec_push(&l->sections, s);
    l->end = end;
    l->p = l->code ? end : payload + size;
}

/* Vectors are sticky too; the first that failed decides. */
static void check_vectors(struct wasm_load *l)
{
#define X(field, type)                                                           \
    if (l->field.err)                                                            \
        dz_wasm_load_fail(l, l->p, l->field.err, "%s of the module: %s", #field, \
                          dz_err_text(l->field.err));
    DZ_WASM_ARRAY_MAP(X)
#undef X
    if (l->declared.err)
        dz_wasm_load_fail(l, l->p, l->declared.err, "out of memory");
}

static void read_head(struct wasm_load *l)
{
    static const uint8_t magic[8] = {0, 'a', 's', 'm', 1, 0, 0, 0};
    const uint8_t *head = l->p;
    if (memcmp(head, magic, l->size < 4 ? l->size : 4) != 0) {
        dz_wasm_load_fail(l, head, DZ_EINVAL, "magic header not detected: this is no WebAssembly");
        return;
    }
    if (!dz_wasm_read_bytes(l, 8) || memcmp(head, magic, 8) == 0)
        return;
    dz_wasm_load_fail(l, head + 4, DZ_EINVAL,
                      head[6] == 1 ? "this is a component, not a module"
                                   : "unknown binary version");
}

void dz_wasm_decode(struct wasm_load *l)
{
    unsigned rank = 0;
    (void)dz_vec_reserve(&l->valtypes, 1); /* so that a type without any has an address too */
    read_head(l);
    while (!l->code && l->p < l->end) {
        next_section(l, &rank);
        check_vectors(l);
    }
    size_t n_bodies = l->funcs.n - l->n_imported[DZ_WASM_KIND_FUNC];
    if (!l->code && !l->has_code && n_bodies > 0)
        dz_wasm_load_fail(l, l->p, DZ_EINVAL,
                          "function and code section have inconsistent lengths: %zu and 0",
                          n_bodies);
    if (!l->code && l->n_data_count != DZ_WASM_NONE && l->n_data_count != l->datas.n)
        dz_wasm_load_fail(l, l->p, DZ_EINVAL,
                          "data count and data section have inconsistent lengths: %" PRIu32
                          " and %zu",
                          l->n_data_count, l->datas.n);
}

/* --- life ---------------------------------------------------------------------------- */

const struct dz_wasm_limits dz_wasm_default_limits = {
#define X(name, value, text) .name = (value),
    DZ_WASM_LIMIT_MAP(X)
#undef X
};

void dz_wasm_load_init(struct wasm_load *l)
{
    l->func = l->start = l->n_data_count = DZ_WASM_NONE;
    /* counts are checked where they are read; this is what they can add up to */
#define X(field, type) l->field.max = UINT32_MAX / sizeof(type);
    DZ_WASM_ARRAY_MAP(X)
#undef X
    l->consts.max = l->limits->consts;
    l->elem_items.max = l->limits->elem_items;
    l->declared.max = UINT32_MAX;
}

void dz_wasm_load_release(struct wasm_load *l)
{
#define X(field, type) dz_vec_release(&l->field);
    DZ_WASM_ARRAY_MAP(X)
#undef X
    dz_vec_release(&l->declared);
    dz_wasm_valid_free(l->valid);
    dz_free(l->image);
    dz_free(l->table);
}
