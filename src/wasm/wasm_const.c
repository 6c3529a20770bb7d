/* SPDX-License-Identifier: MIT
 *
 * wasm_const.c - decodes and validates constant expressions.
 *
 * They are kept as instructions (struct dz_wasm_const) and run at
 * instantiation, because globals may be imported. A stack of
 * DZ_WASM_CONST_DEPTH types is enough to check them and to run them.
 *
 * Without extended-const, an expression may read only imported globals; with
 * it, every immutable global before it, as WebAssembly 3.0 has it.
 */
#include "wasm/wasm_load.h"

#include <inttypes.h>

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

static void read_ref_func(struct expr *e, const uint8_t *at, struct dz_wasm_const *c)
{
    struct wasm_load *l = e->l;
    c->index = wasm_read_u32(l);
    if (l->code || !wasm_need(l, at, DZ_WASM_F_REFERENCE_TYPES) ||
        !dz_wasm_index_ok(l, at, c->index, l->funcs.n, "function"))
        return;
    dz_wasm_declare(l, c->index);
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

void dz_wasm_decode_const(struct wasm_load *l, unsigned type, uint32_t *ret_first, uint32_t *ret_n)
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
