/* SPDX-License-Identifier: MIT
 *
 * wasm_prepare.c - writes the prepared form of a module that decoding accepted.
 *
 * Order: header, the arrays (each at a multiple of 8), the binary, zeros up to
 * a multiple of DZ_WASM_PAGE_ALIGN, the memory image, the table image. The whole
 * layout is known before the first byte is written, so the sink never seeks.
 *
 * The memory image holds the longest run of active data segments, from the
 * first on, that have a constant offset, fit the memory and do not lie too far
 * apart; the others are listed in datas_left, in order, so that the bytes of
 * overlapping segments end up as the specification says. A memory that is
 * imported has no image.
 *
 * The table image is all of table 0 or nothing: it is there when the module is like
 * those that compilers make, and large enough to be worth a mapping.
 */
#include "wasm/wasm_load.h"

#include "base/hash.h"
#include "base/mem.h"

/* docs/format/wasm-prepared.md states these. */
_Static_assert(sizeof(struct dz_wasm_header) == 440, "prepared format");
_Static_assert(offsetof(struct dz_wasm_header, array) == 152, "prepared format");
_Static_assert(sizeof(struct dz_wasm_type) == 24 && sizeof(struct dz_wasm_import) == 24 &&
                   sizeof(struct dz_wasm_func) == 32 && sizeof(struct dz_wasm_table) == 24 &&
                   sizeof(struct dz_wasm_memory) == 12 && sizeof(struct dz_wasm_global) == 16,
               "prepared format");
_Static_assert(sizeof(struct dz_wasm_export) == 16 && sizeof(struct dz_wasm_const) == 24 &&
                   sizeof(struct dz_wasm_elem) == 28 && sizeof(struct dz_wasm_data) == 24 &&
                   sizeof(struct dz_wasm_section) == 20 && sizeof(struct dz_wasm_tag) == 4,
               "prepared format");

/* --- the image --------------------------------------------------------------------- */

enum {
    IMAGE_FREE = 16 << 20, /* an image may have holes of this many bytes, */
    IMAGE_RATIO = 64,      /* and of this many for each byte of data */
};

struct span {
    uint64_t low, high; /* of what is not empty, in memory 0; low > high: nothing yet */
    uint64_t bytes;     /* of all segments */
};

/* Can the segment be applied now? Then the span takes it in. */
static bool take(const struct wasm_load *l, const struct dz_wasm_data *d, struct span *s)
{
    uint64_t memory_size = (uint64_t)l->memories.p[0].min * DZ_WASM_PAGE;
    const struct dz_wasm_const *c = &l->consts.p[d->offset];
    if (d->n_offset != 1 || c->op != DZ_WASM_OP_i32_const || c->bits[0] + d->n_bytes > memory_size)
        return false;
    if (d->n_bytes == 0)
        return true;
    uint64_t low = c->bits[0] < s->low ? c->bits[0] : s->low;
    uint64_t high = c->bits[0] + d->n_bytes > s->high ? c->bits[0] + d->n_bytes : s->high;
    uint64_t bytes = s->bytes + d->n_bytes;
    low -= low % DZ_WASM_PAGE_ALIGN;
    if (high - low > l->limits->image_bytes || high - low > IMAGE_FREE + IMAGE_RATIO * bytes)
        return false;
    *s = (struct span){low, high, bytes};
    return true;
}

/* Segments [0, n) of memory 0 into l->image, then cut the zeros at its end. */
static void fill(struct wasm_load *l, size_t n, const struct span *s)
{
    if (s->high <= s->low)
        return;
    uint64_t size = s->high - s->low;
    uint64_t room = (size + DZ_WASM_PAGE_ALIGN - 1) / DZ_WASM_PAGE_ALIGN * DZ_WASM_PAGE_ALIGN;
    l->image = dz_zalloc(room);
    if (!l->image) {
        dz_wasm_load_fail(l, l->p, DZ_ENOMEM, "out of memory");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct dz_wasm_data *d = &l->datas.p[i];
        if (d->mode == DZ_WASM_ACTIVE && d->memory == 0 && d->n_bytes > 0)
            memcpy(l->image + (l->consts.p[d->offset].bits[0] - s->low), l->base + d->bytes,
                   d->n_bytes);
    }
    while (size > 0 && l->image[size - 1] == 0)
        size--;
    l->image_size = (size + DZ_WASM_PAGE_ALIGN - 1) / DZ_WASM_PAGE_ALIGN * DZ_WASM_PAGE_ALIGN;
    l->image_at = l->image_size ? s->low : 0;
}

/* The offsets of the segments in the image become plain numbers; their constant
 * expressions, the last ones of l->consts, go, the others close up. */
static void fold_offsets(struct wasm_load *l, size_t n_in_image)
{
    size_t to = l->consts.n;
    for (size_t i = 0; i < l->datas.n; i++) {
        struct dz_wasm_data *d = &l->datas.p[i];
        if (d->mode != DZ_WASM_ACTIVE)
            continue;
        if (d->offset < to)
            to = d->offset; /* the first expression of a segment */
        if (i < n_in_image && d->memory == 0) {
            d->offset = (uint32_t)l->consts.p[d->offset].bits[0];
            d->n_offset = 0;
        } else {
            memmove(l->consts.p + to, l->consts.p + d->offset, d->n_offset * sizeof *l->consts.p);
            d->offset = (uint32_t)to;
            to += d->n_offset;
        }
    }
    l->consts.n = to;
}

static void build_image(struct wasm_load *l)
{
    struct span s = {.low = UINT64_MAX};
    bool open = l->memories.n > 0 && l->n_imported[DZ_WASM_KIND_MEMORY] == 0;
    size_t in_image = 0;
    for (uint32_t i = 0; i < l->datas.n; i++) {
        const struct dz_wasm_data *d = &l->datas.p[i];
        if (d->mode != DZ_WASM_ACTIVE)
            continue;
        if (d->memory == 0 && open)
            open = take(l, d, &s);
        if (d->memory == 0 && open)
            in_image = i + 1;
        else
            dz_vec_push(&l->datas_left, i);
    }
    if (l->datas_left.err)
        dz_wasm_load_fail(l, l->p, l->datas_left.err, "out of memory");
    else
        fill(l, in_image, &s);
    if (!l->code)
        fold_offsets(l, in_image);
}

/* --- the table ----------------------------------------------------------------------- */

enum {
    TABLE_MIN = 2048, /* elements: less is not worth a mapping in each process */
    TABLE_RATIO = 2,  /* elements for each item of a segment, at most */
};

/* Elements that the active segments fill when they are all of table 0, in order, without
 * overlap, at places that are known, and of functions; else 0. */
static uint64_t table_end(const struct wasm_load *l)
{
    uint64_t end = 0, items = 0;
    for (size_t i = 0; i < l->elems.n; i++) {
        const struct dz_wasm_elem *e = &l->elems.p[i];
        if (e->mode != DZ_WASM_ACTIVE)
            continue;
        const struct dz_wasm_const *at = &l->consts.p[e->offset];
        if (e->table != 0 || e->n_offset != 1 || at->op != DZ_WASM_OP_i32_const ||
            (uint32_t)at->bits[0] < end)
            return 0;
        for (uint32_t k = 0; k < e->n_items; k++)
            if (l->elem_items.p[e->items + k] >= DZ_WASM_ITEM_GLOBAL)
                return 0;
        end = (uint64_t)(uint32_t)at->bits[0] + e->n_items;
        items += e->n_items;
    }
    return end >= TABLE_MIN && end <= items * TABLE_RATIO ? end : 0;
}

static void build_table(struct wasm_load *l)
{
    const struct dz_wasm_table *t = l->tables.p;
    if (l->tables.n == 0 || l->n_imported[DZ_WASM_KIND_TABLE] > 0 || t->type != DZ_WASM_FUNCREF ||
        t->n_init > 0)
        return;
    uint64_t end = table_end(l);
    if (end == 0 || end > t->min)
        return;
    l->table_elems = (uint32_t)end;
    l->table = dz_zarray(end, sizeof *l->table);
    if (!l->table) {
        dz_wasm_load_fail(l, l->p, DZ_ENOMEM, "out of memory");
        return;
    }
    for (size_t i = 0; i < l->elems.n; i++) {
        const struct dz_wasm_elem *e = &l->elems.p[i];
        if (e->mode != DZ_WASM_ACTIVE)
            continue;
        uint64_t *to = l->table + (uint32_t)l->consts.p[e->offset].bits[0];
        for (uint32_t k = 0; k < e->n_items; k++)
            to[k] = (uint64_t)l->elem_items.p[e->items + k] + 1;
    }
}

/* --- checksum -------------------------------------------------------------------------- */

#define ODD 0x9e3779b97f4a7c15u

static uint64_t mix(uint64_t sum, const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return ((sum ^ word) << 29 | (sum ^ word) >> 35) * ODD;
}

/* Four sums side by side, then the rest in one: each step is a bijection of the
 * sum, so a changed word always changes the result. */
uint64_t dz_wasm_sum(uint64_t seed, const void *data, size_t size)
{
    const uint8_t *p = data;
    uint64_t sum = (seed ^ size) * ODD, a = sum + 1, b = sum + 2, c = sum + 3;
    uint8_t rest[8] = {0};
    if (size >= 32) {
        for (; size >= 32; size -= 32, p += 32) {
            sum = mix(sum, p);
            a = mix(a, p + 8);
            b = mix(b, p + 16);
            c = mix(c, p + 24);
        }
        sum = ((sum * ODD ^ a) * ODD ^ b) * ODD ^ c;
    }
    for (; size >= 8; size -= 8, p += 8)
        sum = mix(sum, p);
    if (size > 0)
        memcpy(rest, p, size);
    sum = mix(sum, rest);
    return (sum ^ sum >> 32) * ODD;
}

/* --- the layout -------------------------------------------------------------------------- */

static uint64_t align_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static int make_header(const struct wasm_load *l, struct dz_wasm_header *h, struct dz_err *err)
{
    *h = (struct dz_wasm_header){
        .magic = {'d', 'o', 'z', 'e', 'w', 'a', 's', 'm'},
        .version = DZ_WASM_PREPARED_VERSION,
        .header_size = sizeof *h,
        .features = l->features,
        .features_used = l->used,
        .start = l->start,
        .name_section = l->name_section,
        .name_size = l->name_size,
        .global_slots = l->global_slots,
        .wasm_size = l->size,
        .image_size = l->image_size,
        .image_at = l->image_at,
        .table_elems = l->table_elems,
    };
    uint64_t at = sizeof *h;
    memcpy(h->n_imported, l->n_imported, sizeof h->n_imported);
#define X(field, type)                                  \
    h->array[DZ_WASM_ARRAY_##field].offset = at;        \
    h->array[DZ_WASM_ARRAY_##field].count = l->field.n; \
    at = align_up(at + l->field.n * sizeof(type), 8);
    DZ_WASM_ARRAY_MAP(X)
#undef X
    h->wasm_offset = at;
    h->image_offset = align_up(at + l->size, DZ_WASM_PAGE_ALIGN);
    h->total_size = h->image_offset + h->image_size + dz_wasm_table_bytes(h);
    int r = dz_sha256(l->base, l->size, h->sha256, err);
    if (r < 0)
        return r;
    uint64_t sum = dz_wasm_sum(0, h, sizeof *h);
#define X(field, type) sum = dz_wasm_sum(sum, l->field.p, l->field.n * sizeof(type));
    DZ_WASM_ARRAY_MAP(X)
#undef X
    h->meta_sum = sum;
    return 0;
}

struct out {
    const struct dz_wasm_sink *sink;
    uint64_t at;
    struct dz_err *err;
};

static int out_bytes(struct out *o, const void *p, uint64_t n)
{
    o->at += n;
    return n ? o->sink->write(o->sink->ctx, p, n, o->err) : 0;
}

static int out_zeros(struct out *o, uint64_t n)
{
    static const uint8_t zeros[DZ_WASM_PAGE_ALIGN];
    int r = 0;
    if (n >= sizeof zeros && o->sink->zeros) {
        o->at += n;
        return o->sink->zeros(o->sink->ctx, n, o->err);
    }
    for (; n > 0 && r == 0; n -= n < sizeof zeros ? n : sizeof zeros)
        r = out_bytes(o, zeros, n < sizeof zeros ? n : sizeof zeros);
    return r;
}

/* Page by page: runs of empty pages are holes. */
static int out_image(struct out *o, const uint8_t *image, uint64_t size)
{
    int r = 0;
    for (uint64_t at = 0, end; at < size && r == 0; at = end) {
        bool empty = dz_mem_is_zero(image + at, DZ_WASM_PAGE_ALIGN);
        end = at + DZ_WASM_PAGE_ALIGN;
        while (end < size && dz_mem_is_zero(image + end, DZ_WASM_PAGE_ALIGN) == empty)
            end += DZ_WASM_PAGE_ALIGN;
        r = empty ? out_zeros(o, end - at) : out_bytes(o, image + at, end - at);
    }
    return r;
}

static int emit(const struct wasm_load *l, const struct dz_wasm_header *h, struct out *o)
{
    int r = out_bytes(o, h, sizeof *h);
#define X(field, type)                                                    \
    if (r == 0)                                                           \
        r = out_zeros(o, h->array[DZ_WASM_ARRAY_##field].offset - o->at); \
    if (r == 0)                                                           \
        r = out_bytes(o, l->field.p, l->field.n * sizeof(type));
    DZ_WASM_ARRAY_MAP(X)
#undef X
    if (r == 0)
        r = out_zeros(o, h->wasm_offset - o->at);
    if (r == 0)
        r = out_bytes(o, l->base, l->size);
    if (r == 0)
        r = out_zeros(o, h->image_offset - o->at);
    if (r == 0)
        r = out_image(o, l->image, l->image_size);
    if (r == 0)
        r = out_bytes(o, l->table, l->table_elems * sizeof *l->table);
    if (r == 0)
        r = out_zeros(o, h->total_size - o->at);
    return r;
}

/* --- the calls --------------------------------------------------------------------------- */

/* Decode and validate; 0 or l->code. The caller releases l either way. */
static int load(struct wasm_load *l, const void *wasm, size_t size, uint32_t features,
                const struct dz_wasm_limits *limits, struct dz_err *err)
{
    *l = (struct wasm_load){
        .base = wasm,
        .p = wasm,
        .end = (const uint8_t *)wasm + size,
        .size = size,
        .features = features & DZ_WASM_F_ALL,
        .limits = limits ? limits : &dz_wasm_default_limits,
        .err = err,
    };
    dz_wasm_load_init(l);
    if (size > l->limits->module_bytes)
        dz_wasm_load_limit(l, l->base, size, l->limits->module_bytes, "bytes of a module");
    else
        dz_wasm_decode(l);
    return l->code;
}

int dz_wasm_validate(const void *wasm, size_t size, uint32_t features,
                     const struct dz_wasm_limits *limits, struct dz_err *err)
{
    struct wasm_load l;
    int r = load(&l, wasm, size, features, limits, err);
    dz_wasm_load_release(&l);
    return r;
}

int dz_wasm_prepare(const void *wasm, size_t size, uint32_t features,
                    const struct dz_wasm_limits *limits, const struct dz_wasm_sink *sink,
                    struct dz_err *err)
{
    struct wasm_load l;
    struct dz_wasm_header header;
    int r = load(&l, wasm, size, features, limits, err);
    if (r == 0)
        build_image(&l);
    if (r == 0 && l.code == 0)
        build_table(&l);
    if (r == 0 && l.code == 0)
        r = make_header(&l, &header, err);
    if (r == 0 && l.code == 0)
        r = emit(&l, &header, &(struct out){.sink = sink, .err = err});
    r = l.code ? l.code : r;
    dz_wasm_load_release(&l);
    return r;
}

/* A sink into one block, allocated when the header, the first piece, comes. */
struct block {
    uint8_t *p;
    uint64_t at;
};

static int block_write(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    struct block *b = ctx;
    if (!b->p) {
        const struct dz_wasm_header *h = data;
        b->p = dz_zalloc(h->total_size);
        if (!b->p)
            return dz_fail(err, DZ_ENOMEM, "no memory for a prepared module of %llu bytes",
                           (unsigned long long)h->total_size);
    }
    memcpy(b->p + b->at, data, size);
    b->at += size;
    return 0;
}

static int block_zeros(void *ctx, uint64_t size, struct dz_err *err)
{
    struct block *b = ctx;
    b->at += size;
    (void)err;
    return 0;
}

int dz_wasm_prepare_alloc(const void *wasm, size_t size, uint32_t features, void **ret_flat,
                          size_t *ret_size, struct dz_err *err)
{
    struct block b = {0};
    struct dz_wasm_sink sink = {block_write, block_zeros, &b};
    int r = dz_wasm_prepare(wasm, size, features, NULL, &sink, err);
    if (r < 0) {
        dz_free(b.p);
        return r;
    }
    *ret_flat = b.p;
    *ret_size = b.at;
    return 0;
}
