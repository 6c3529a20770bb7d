/* SPDX-License-Identifier: MIT
 *
 * wasm_decode.c - decodes a module section by section into the arrays of the prepared form, and
 * hands each function body to the validator.
 *
 * One pass: when the code section comes, everything that a body can refer to has been read, except
 * the data segments, whose number the data count section gives. Order, sizes and counts of the
 * sections are checked as the specification requires.
 *
 * Bounds: an array grows by what was really read, never by a count that the input claims; each
 * count has its limit.
 */
#include "wasm/wasm_load.h"

#include "base/str.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* --- primitives, and the errors of the whole front end ----------------------------------- */

/* LEB128 is strict: no more bytes than the width needs (5 for 32 bits, 10 for 64), and in the last
 * byte the bits beyond the width are zeros, or copies of the sign. */

void dz_wasm_load_fail(struct wasm_load *l, const uint8_t *at, int code, const char *fmt, ...)
{
    char reason[160], where[32] = "";
    va_list ap;

    if (l->code)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    if (l->func != DZ_WASM_NONE)
        (void)snprintf(where, sizeof where, " in function %" PRIu32, l->func);
    l->code = dz_fail(l->err, code, "at byte 0x%zx%s: %s", (size_t)(at - l->base), where, reason);
    l->p = l->end;
}

void dz_wasm_load_limit(struct wasm_load *l, const uint8_t *at, uint64_t found, uint32_t limit,
                        const char *what)
{
    dz_wasm_load_fail(l, at, DZ_ELIMIT, "%" PRIu64 " %s are more than the limit of %" PRIu32, found,
                      what, limit);
}

void dz_wasm_load_need(struct wasm_load *l, const uint8_t *at, uint32_t feature)
{
#define X(name, bit, text)                                                                  \
    if (feature & ~l->features & (1u << (bit))) {                                           \
        dz_wasm_load_fail(l, at, DZ_EUNSUPPORTED, "needs %s, which is switched off", text); \
        return;                                                                             \
    }
    DZ_WASM_FEATURE_MAP(X)
#undef X
}

bool dz_wasm_index_ok(struct wasm_load *l, const uint8_t *at, uint64_t index, size_t count,
                      const char *what)
{
    if (dz_likely(index < count))
        return true;
    dz_wasm_load_fail(l, at, DZ_EINVAL, "unknown %s %" PRIu64 " (there are %zu)", what, index,
                      count);
    return false;
}

uint32_t dz_wasm_read_u32_slow(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        uint8_t b = wasm_read_byte(l);
        if (shift == 28 && b & 0xf0) {
            dz_wasm_load_fail(l, at, DZ_EINVAL,
                              b & 0x80 ? "integer representation too long" : "integer too large");
            return 0;
        }
        value |= (uint32_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return value;
    }
    return 0;
}

int64_t dz_wasm_read_signed(struct wasm_load *l, unsigned bits)
{
    const uint8_t *at = l->p;
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t b = wasm_read_byte(l);
        value |= (uint64_t)(b & 0x7f) << shift;
        assert(shift < bits);    /* the last byte below ends it */
        if (shift + 7 >= bits) { /* the last byte there can be: bits - shift of it count */
            uint8_t sign = (uint8_t)(0x7fu << (bits - shift - 1) & 0x7f);
            if (b & 0x80)
                dz_wasm_load_fail(l, at, DZ_EINVAL, "integer representation too long");
            else if ((b & sign) != 0 && (b & sign) != sign)
                dz_wasm_load_fail(l, at, DZ_EINVAL, "integer too large");
        }
        if (l->code)
            return 0;
        if (!(b & 0x80)) {
            if (b & 0x40 && shift + 7 < 64)
                value |= ~(uint64_t)0 << (shift + 7);
            return (int64_t)value;
        }
    }
}

const uint8_t *dz_wasm_read_bytes(struct wasm_load *l, size_t n)
{
    if (n > (size_t)(l->end - l->p)) {
        dz_wasm_load_fail(l, l->p, DZ_EINVAL, "unexpected end: %zu bytes wanted, %zu left", n,
                          (size_t)(l->end - l->p));
        return NULL;
    }
    const uint8_t *at = l->p;
    l->p += n;
    return at;
}

/* UTF-8 */
static struct dz_wasm_name read_name(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint32_t size = wasm_read_u32(l);
    if (size > l->limits->name_bytes)
        dz_wasm_load_limit(l, at, size, l->limits->name_bytes, "bytes of a name");
    const uint8_t *p = dz_wasm_read_bytes(l, size);
    if (!p || l->code)
        return (struct dz_wasm_name){0, 0};
    if (!dz_str_is_utf8(dz_str_n((const char *)p, size)))
        dz_wasm_load_fail(l, p, DZ_EINVAL, "malformed UTF-8 encoding of a name");
    return (struct dz_wasm_name){(uint32_t)(p - l->base), size};
}

bool dz_wasm_valtype_ok(struct wasm_load *l, const uint8_t *at, unsigned byte)
{
    switch (byte) {
    case DZ_WASM_I32:
    case DZ_WASM_I64:
    case DZ_WASM_F32:
    case DZ_WASM_F64:
        return true;
    case DZ_WASM_V128:
        return wasm_need(l, at, DZ_WASM_F_SIMD);
    case DZ_WASM_FUNCREF:
    case DZ_WASM_EXTERNREF:
        return wasm_need(l, at, DZ_WASM_F_REFERENCE_TYPES);
    case DZ_WASM_EXNREF:
        return wasm_need(l, at, DZ_WASM_F_EXCEPTIONS);
    default:
        break;
    }
    if (byte == 0x63 || byte == 0x64)
        dz_wasm_load_fail(l, at, DZ_EUNSUPPORTED,
                          "uses typed references, which doze does not support");
    else if (byte >= 0x68 && byte <= 0x74)
        dz_wasm_load_fail(l, at, DZ_EUNSUPPORTED,
                          "uses garbage-collected types, which doze does not support");
    else
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed value type 0x%02x", byte);
    return false;
}

uint8_t dz_wasm_read_valtype(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint8_t byte = wasm_read_byte(l);
    return !l->code && dz_wasm_valtype_ok(l, at, byte) ? byte : 0;
}

uint8_t dz_wasm_read_reftype(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint8_t byte = dz_wasm_read_valtype(l);
    if (!l->code && !dz_wasm_valtype_is_ref(byte)) {
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed reference type: %s",
                          dz_wasm_valtype_text(byte));
        return 0;
    }
    return byte;
}

const char *dz_wasm_valtype_text(unsigned type)
{
    switch (type) {
    case DZ_WASM_I32:
        return "i32";
    case DZ_WASM_I64:
        return "i64";
    case DZ_WASM_F32:
        return "f32";
    case DZ_WASM_F64:
        return "f64";
    case DZ_WASM_V128:
        return "v128";
    case DZ_WASM_FUNCREF:
        return "funcref";
    case DZ_WASM_EXTERNREF:
        return "externref";
    case DZ_WASM_EXNREF:
        return "exnref";
    default:
        return "?";
    }
}

/* --- constant expressions ---------------------------------------------------------------- */

/* Constant expressions are kept as instructions (struct dz_wasm_const) and run at instantiation,
 * because globals may be imported. A stack of DZ_WASM_CONST_DEPTH types is enough to check them and
 * to run them.
 *
 * Without extended-const, an expression may read only imported globals; with it, every immutable
 * global before it, as in WebAssembly 3.0. */

struct expr {
    struct wasm_load *l;
    uint8_t stack[DZ_WASM_CONST_DEPTH];
    uint32_t depth;
};

static void push(struct expr *e, const uint8_t *at, uint8_t type)
{
    if (e->depth == DZ_WASM_CONST_DEPTH)
        dz_wasm_load_limit(e->l, at, e->depth + 1, DZ_WASM_CONST_DEPTH,
                           "operands in a constant expression");
    else
        e->stack[e->depth++] = type;
}

static void pop(struct expr *e, const uint8_t *at, uint8_t type)
{
    if (e->depth == 0)
        dz_wasm_load_fail(e->l, at, DZ_EINVAL,
                          "type mismatch: expected %s, found nothing in a constant expression",
                          dz_wasm_valtype_text(type));
    else if (e->stack[--e->depth] != type)
        dz_wasm_load_fail(e->l, at, DZ_EINVAL,
                          "type mismatch: expected %s, found %s in a constant expression",
                          dz_wasm_valtype_text(type), dz_wasm_valtype_text(e->stack[e->depth]));
}

static void read_global_get(struct expr *e, const uint8_t *at, struct dz_wasm_const *c)
{
    struct wasm_load *l = e->l;
    size_t known =
        l->features & DZ_WASM_F_EXTENDED_CONST ? l->globals.n : l->n_imported[DZ_WASM_KIND_GLOBAL];
    c->index = wasm_read_u32(l);
    if (l->code || !dz_wasm_index_ok(l, at, c->index, known, "global"))
        return;
    if (l->globals.p[c->index].mutable)
        dz_wasm_load_fail(l, at, DZ_EINVAL,
                          "constant expression required: global %" PRIu32 " is mutable", c->index);
    push(e, at, l->globals.p[c->index].type);
}

/* Note that function index may be named by ref.func. */
static void declare(struct wasm_load *l, uint32_t func)
{
    if (func < l->declared.n)
        l->declared.p[func] = 1;
}

static void read_ref_func(struct expr *e, const uint8_t *at, struct dz_wasm_const *c)
{
    struct wasm_load *l = e->l;
    c->index = wasm_read_u32(l);
    if (l->code || !wasm_need(l, at, DZ_WASM_F_REFERENCE_TYPES) ||
        !dz_wasm_index_ok(l, at, c->index, l->funcs.n, "function"))
        return;
    declare(l, c->index);
    push(e, at, DZ_WASM_FUNCREF);
}

static void read_raw(struct wasm_load *l, void *bits, size_t size)
{
    const uint8_t *p = dz_wasm_read_bytes(l, size);
    if (p)
        memcpy(bits, p, size);
}

/* The opcode behind 0xFD must be that of v128.const. */
static void read_v128(struct expr *e, const uint8_t *at, struct dz_wasm_const *c)
{
    if (wasm_read_u32(e->l) != DZ_WASM_OP_v128_const - 0x200) {
        dz_wasm_load_fail(e->l, at, DZ_EINVAL, "constant expression required");
        return;
    }
    c->op = DZ_WASM_OP_v128_const;
    (void)wasm_need(e->l, at, DZ_WASM_F_SIMD);
    read_raw(e->l, c->bits, 16);
    push(e, at, DZ_WASM_V128);
}

static void read_arithmetic(struct expr *e, const uint8_t *at, uint8_t type)
{
    if (!wasm_need(e->l, at, DZ_WASM_F_EXTENDED_CONST))
        return;
    pop(e, at, type);
    pop(e, at, type);
    push(e, at, type);
}

/* One instruction; c->op is its byte already. */
static void read_instruction(struct expr *e, const uint8_t *at, struct dz_wasm_const *c)
{
    switch (c->op) {
    case DZ_WASM_OP_i32_const:
        c->bits[0] = (uint32_t)dz_wasm_read_signed(e->l, 32);
        push(e, at, DZ_WASM_I32);
        break;
    case DZ_WASM_OP_i64_const:
        c->bits[0] = (uint64_t)dz_wasm_read_signed(e->l, 64);
        push(e, at, DZ_WASM_I64);
        break;
    case DZ_WASM_OP_f32_const:
        read_raw(e->l, c->bits, 4);
        push(e, at, DZ_WASM_F32);
        break;
    case DZ_WASM_OP_f64_const:
        read_raw(e->l, c->bits, 8);
        push(e, at, DZ_WASM_F64);
        break;
    case 0xfd:
        read_v128(e, at, c);
        break;
    case DZ_WASM_OP_global_get:
        read_global_get(e, at, c);
        break;
    case DZ_WASM_OP_ref_func:
        read_ref_func(e, at, c);
        break;
    case DZ_WASM_OP_ref_null:
        c->index = dz_wasm_read_reftype(e->l);
        push(e, at, (uint8_t)c->index);
        break;
    case DZ_WASM_OP_i32_add:
    case DZ_WASM_OP_i32_sub:
    case DZ_WASM_OP_i32_mul:
        read_arithmetic(e, at, DZ_WASM_I32);
        break;
    case DZ_WASM_OP_i64_add:
    case DZ_WASM_OP_i64_sub:
    case DZ_WASM_OP_i64_mul:
        read_arithmetic(e, at, DZ_WASM_I64);
        break;
    default:
        dz_wasm_load_fail(e->l, at, DZ_EINVAL, "constant expression required, found opcode 0x%02x",
                          c->op);
        break;
    }
}

/* A constant expression of a type, with its `end`, appended to l->consts. */
static void decode_const(struct wasm_load *l, unsigned type, uint32_t *ret_first, uint32_t *ret_n)
{
    struct expr e = {.l = l};
    const uint8_t *at = l->p;
    *ret_first = (uint32_t)l->consts.n;
    while (!l->code && !l->consts.err) {
        at = l->p;
        struct dz_wasm_const c = {.op = wasm_read_byte(l)};
        if (l->code || c.op == DZ_WASM_OP_end)
            break;
        read_instruction(&e, at, &c);
        dz_vec_push(&l->consts, c);
    }
    if (l->consts.err == DZ_ELIMIT)
        dz_wasm_load_limit(l, at, (uint64_t)l->consts.n + 1, l->limits->consts,
                           "instructions of constant expressions");
    else if (l->consts.err)
        dz_wasm_load_fail(l, at, l->consts.err, "out of memory");
    if (l->code)
        return;
    pop(&e, at, (uint8_t)type);
    if (e.depth > 0)
        dz_wasm_load_fail(l, at, DZ_EINVAL,
                          "type mismatch: a constant expression leaves %" PRIu32 " values too many",
                          e.depth);
    *ret_n = (uint32_t)l->consts.n - *ret_first;
}

/* --- entries of the index spaces: imports, tables, memories, globals, tags --------------- */

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

static void add_func(struct wasm_load *l, uint32_t type, const uint8_t *at)
{
    if (l->code || !dz_wasm_index_ok(l, at, type, l->types.n, "type") ||
        !room(l, at, l->funcs.n, l->limits->functions, "functions"))
        return;
    dz_vec_push(&l->funcs, (struct dz_wasm_func){.type = type});
    dz_vec_push(&l->declared, 0);
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
    if (l->p < l->end && *l->p == DZ_WASM_FUNCREF) /* the type of every table in version 1.0:
                                                    * needs no feature */
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
static void decode_table(struct wasm_load *l)
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
        decode_const(l, t.type, &t.init, &t.n_init);
    add_table(l, &t, at);
}

static void import_table(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    struct dz_wasm_table t = {0};
    read_table_type(l, &t);
    add_table(l, &t, at);
}

static void decode_memory(struct wasm_load *l)
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

static void decode_global(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    struct dz_wasm_global g = {0};
    read_global_type(l, &g);
    if (!l->code)
        decode_const(l, g.type, &g.init, &g.n_init);
    add_global(l, &g, at);
}

/* One entry each of a section. */
static void decode_tag(struct wasm_load *l)
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

static void decode_import(struct wasm_load *l)
{
    struct dz_wasm_import im = {.module = read_name(l)};
    im.name = read_name(l);
    const uint8_t *at = l->p;
    im.kind = wasm_read_byte(l);
    if (l->code)
        return;
    switch (im.kind) {
    case DZ_WASM_KIND_FUNC:
        im.index = (uint32_t)l->funcs.n;
        add_func(l, wasm_read_u32(l), at);
        break;
    case DZ_WASM_KIND_TABLE:
        im.index = (uint32_t)l->tables.n;
        import_table(l);
        break;
    case DZ_WASM_KIND_MEMORY:
        im.index = (uint32_t)l->memories.n;
        decode_memory(l);
        break;
    case DZ_WASM_KIND_GLOBAL:
        im.index = (uint32_t)l->globals.n;
        import_global(l, at);
        break;
    case DZ_WASM_KIND_TAG:
        im.index = (uint32_t)l->tags.n;
        if (wasm_need(l, at, DZ_WASM_F_EXCEPTIONS))
            decode_tag(l);
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
    decode_const(l, type, &first, &n);
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
    declare(l, func);
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
        decode_const(l, DZ_WASM_I32, &e->offset, &e->n_offset);
}

static void decode_elem(struct wasm_load *l)
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

static void decode_data(struct wasm_load *l)
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
            decode_const(l, DZ_WASM_I32, &d.offset, &d.n_offset);
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
    add_func(l, wasm_read_u32(l), at);
}

static size_t count_of_kind(const struct wasm_load *l, unsigned kind)
{
    const size_t n[] = {l->funcs.n, l->tables.n, l->memories.n, l->globals.n, l->tags.n};
    return n[kind];
}

static void read_export(struct wasm_load *l)
{
    static const char *const what[] = {"function", "table", "memory", "global", "tag"};
    struct dz_wasm_export e = {.name = read_name(l)};
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
        declare(l, e.index);
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

/* Sift v[at] down in the heap v[0..n). */
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
static void read_entries(struct wasm_load *l, unsigned id)
{
    static const struct {
        void (*read)(struct wasm_load *l);
        size_t limit; /* offset in struct dz_wasm_limits */
        const char *what;
    } items[SEC_COUNT] = {
#define ROW(reader, field) {reader, offsetof(struct dz_wasm_limits, field), #field}
        [SEC_TYPE] = ROW(read_type, types),         [SEC_FUNCTION] = ROW(read_function, functions),
        [SEC_TABLE] = ROW(decode_table, tables),    [SEC_MEMORY] = ROW(decode_memory, memories),
        [SEC_GLOBAL] = ROW(decode_global, globals), [SEC_EXPORT] = ROW(read_export, exports),
        [SEC_ELEMENT] = ROW(decode_elem, elems),    [SEC_IMPORT] = ROW(decode_import, imports),
        [SEC_CODE] = ROW(read_body, functions),     [SEC_DATA] = ROW(decode_data, datas),
        [SEC_TAG] = ROW(decode_tag, tags),
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
        read_entries(l, id);
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
    s->name = read_name(l);
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
