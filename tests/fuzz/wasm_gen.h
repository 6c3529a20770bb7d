/* SPDX-License-Identifier: MIT
 *
 * wasm_gen.h - any bytes become a valid WebAssembly module.
 *
 * The bytes are a stream of choices; when they are used up every choice is 0,
 * which always leads to something short. The module has a memory, a table, two
 * tags, a global of each type and some functions of fixed types that call each
 * other; their bodies are expressions by type, from the engine's own table of
 * instructions, and statements. A float result is made canonical when it is a
 * NaN, so that every build must compute the same bits.
 */
#ifndef DZ_FUZZ_WASM_GEN_H
#define DZ_FUZZ_WASM_GEN_H

#include "wasm/wasm_opcode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    GEN_MAX = 60000, /* bytes of a module */
    GEN_BODY_MAX = 6000,
    GEN_FUNCS = 6,
    GEN_DEPTH = 6,
    GEN_LOCALS = 10, /* declared ones of each function, two of each type */
    GEN_LABELS = 24,
};

struct gen {
    const uint8_t *in;
    size_t in_size;
    uint8_t out[GEN_MAX];
    size_t size;
    /* the function under way */
    const uint8_t *params;
    unsigned param_count;
    uint8_t result; /* 0: none */
    size_t body_start;
    unsigned depth;
    struct {
        uint8_t result; /* what a branch to it must carry; 0: nothing */
    } labels[GEN_LABELS];
    unsigned label_count;
};

static const uint8_t gen_types[5] = {DZ_WASM_I32, DZ_WASM_I64, DZ_WASM_F32, DZ_WASM_F64,
                                     DZ_WASM_V128};
/* Functions: number i has type i. */
static const struct {
    uint8_t params[3], count, result;
} gen_funcs[GEN_FUNCS] = {
    {{0}, 0, 0},
    {{DZ_WASM_I32}, 1, DZ_WASM_I32},
    {{DZ_WASM_I32, DZ_WASM_I64}, 2, DZ_WASM_I64},
    {{DZ_WASM_F64, DZ_WASM_F32}, 2, DZ_WASM_F64},
    {{DZ_WASM_V128, DZ_WASM_I32}, 2, DZ_WASM_V128},
    {{DZ_WASM_F32, DZ_WASM_V128, DZ_WASM_I64}, 3, DZ_WASM_F32},
};

static unsigned gen_pick(struct gen *g, unsigned n)
{
    unsigned x = 0;
    for (unsigned range = 1; range < n; range *= 256) {
        x = x * 256 + (g->in_size ? *g->in : 0);
        if (g->in_size) {
            g->in++;
            g->in_size--;
        }
    }
    return x % n;
}

static void gen_byte(struct gen *g, unsigned b)
{
    if (g->size < GEN_MAX)
        g->out[g->size++] = (uint8_t)b;
}
static void gen_u32(struct gen *g, uint32_t x)
{
    for (; x >= 128; x >>= 7)
        gen_byte(g, x | 128);
    gen_byte(g, x);
}
static void gen_s64(struct gen *g, int64_t x)
{
    while (x < -64 || x > 63) {
        gen_byte(g, (unsigned)(x & 127) | 128);
        x >>= 7;
    }
    gen_byte(g, (unsigned)(x & 127));
}
static void gen_op(struct gen *g, unsigned op)
{
    if (op < 0x100) {
        gen_byte(g, op);
        return;
    }
    gen_byte(g, op < 0x200 ? 0xfc : 0xfd);
    gen_u32(g, op < 0x200 ? op - 0x100 : op - 0x200);
}

/* A number that is interesting more often than not. */
static int64_t gen_number(struct gen *g)
{
    static const int64_t numbers[] = {0,         1,         -1,         2,         31,       32,
                                      63,        64,        127,        255,       65535,    65536,
                                      INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN};
    unsigned i = gen_pick(g, 32);
    if (i < sizeof numbers / sizeof numbers[0])
        return numbers[i];
    uint64_t x = 0;
    for (int k = 0; k < 8; k++)
        x = x << 8 | gen_pick(g, 256);
    return (int64_t)x;
}

static void gen_const(struct gen *g, unsigned type)
{
    int64_t x = gen_number(g);
    switch (type) {
    case DZ_WASM_I32:
        gen_op(g, DZ_WASM_OP_i32_const);
        gen_s64(g, (int32_t)x);
        break;
    case DZ_WASM_I64:
        gen_op(g, DZ_WASM_OP_i64_const);
        gen_s64(g, x);
        break;
    case DZ_WASM_F32:
    case DZ_WASM_F64: {
        double d = (double)x / 256;
        float f = (float)d;
        uint8_t bytes[8];
        size_t n = type == DZ_WASM_F32 ? 4 : 8;
        gen_op(g, type == DZ_WASM_F32 ? DZ_WASM_OP_f32_const : DZ_WASM_OP_f64_const);
        if (n == 4)
            memcpy(bytes, &f, n);
        else
            memcpy(bytes, &d, n);
        for (size_t i = 0; i < n; i++)
            gen_byte(g, bytes[i]);
        break;
    }
    default:
        gen_op(g, DZ_WASM_OP_v128_const);
        for (int i = 0; i < 16; i++)
            gen_byte(g, (unsigned)((uint64_t)x >> i % 8 * 8) & (i & 1 ? 0x3f : 0xff));
        break;
    }
}

/* The number of local k (0 or 1) of this type among the declared ones, or a parameter. */
static unsigned gen_local(struct gen *g, unsigned type)
{
    unsigned k = gen_pick(g, 4);
    if (k < g->param_count && g->params[k] == type)
        return k;
    for (unsigned i = 0; i < 5; i++)
        if (gen_types[i] == type)
            return g->param_count + 2 * i + (k & 1);
    return 0;
}
static unsigned gen_global(unsigned type)
{
    for (unsigned i = 0; i < 5; i++)
        if (gen_types[i] == type)
            return i;
    return 0;
}

static bool gen_full(const struct gen *g)
{
    return g->size - g->body_start > GEN_BODY_MAX || g->depth >= GEN_DEPTH || g->in_size == 0;
}

static void gen_expr(struct gen *g, unsigned type);
static void gen_stmts(struct gen *g);

/* x != x ? canonical : x, with x in a local. */
static void gen_canonical(struct gen *g, unsigned type)
{
    unsigned local = g->param_count + GEN_LOCALS + (type == DZ_WASM_F32 ? 0 : 1);
    gen_op(g, DZ_WASM_OP_local_tee);
    gen_u32(g, local);
    if (type == DZ_WASM_F32) {
        gen_op(g, DZ_WASM_OP_f32_const);
        for (int i = 0; i < 4; i++)
            gen_byte(g, (unsigned)(UINT32_C(0x7fc00000) >> 8 * i));
    } else {
        gen_op(g, DZ_WASM_OP_f64_const);
        for (int i = 0; i < 8; i++)
            gen_byte(g, (unsigned)(UINT64_C(0x7ff8000000000000) >> 8 * i));
    }
    gen_op(g, DZ_WASM_OP_local_get);
    gen_u32(g, local);
    gen_op(g, DZ_WASM_OP_local_get);
    gen_u32(g, local);
    gen_op(g, type == DZ_WASM_F32 ? DZ_WASM_OP_f32_eq : DZ_WASM_OP_f64_eq);
    gen_op(g, DZ_WASM_OP_select);
}

/* The same by lanes: x & (x == x). */
static void gen_canonical_v(struct gen *g, bool wide)
{
    unsigned local = g->param_count + GEN_LOCALS + 2;
    gen_op(g, DZ_WASM_OP_local_tee);
    gen_u32(g, local);
    for (int i = 0; i < 2; i++) {
        gen_op(g, DZ_WASM_OP_local_get);
        gen_u32(g, local);
    }
    gen_op(g, wide ? DZ_WASM_OP_f64x2_eq : DZ_WASM_OP_f32x4_eq);
    gen_op(g, DZ_WASM_OP_v128_and);
}

static void gen_immediates(struct gen *g, const struct dz_wasm_op_info *info)
{
    switch (info->imm) {
    case DZ_WASM_IMM_MEMARG:
    case DZ_WASM_IMM_MEMARG_LANE: {
        unsigned second = gen_pick(g, 8) == 1 ? 0x40 : 0;
        gen_u32(g, gen_pick(g, info->imm == DZ_WASM_IMM_MEMARG_LANE ? 1 : info->arg + 1u) | second);
        if (second)
            gen_u32(g, 1);
        gen_u32(g, gen_pick(g, 4) ? gen_pick(g, 64) : (uint32_t)gen_number(g));
        if (info->imm == DZ_WASM_IMM_MEMARG_LANE)
            gen_byte(g, gen_pick(g, 16u >> info->arg));
        break;
    }
    case DZ_WASM_IMM_LANE:
        gen_byte(g, gen_pick(g, info->arg));
        break;
    case DZ_WASM_IMM_SHUFFLE:
        for (int i = 0; i < 16; i++)
            gen_byte(g, gen_pick(g, 32));
        break;
    case DZ_WASM_IMM_MEMORY:
    case DZ_WASM_IMM_TABLE:
        gen_u32(g, info->imm == DZ_WASM_IMM_MEMORY ? gen_pick(g, 2) : 0);
        break;
    default:
        break;
    }
}

/* Can gen_immediates write what follows this instruction? */
static bool gen_plain(const struct dz_wasm_op_info *info)
{
    return info->imm == DZ_WASM_IMM_NONE || info->imm == DZ_WASM_IMM_MEMARG ||
           info->imm == DZ_WASM_IMM_LANE || info->imm == DZ_WASM_IMM_SHUFFLE ||
           info->imm == DZ_WASM_IMM_MEMORY || info->imm == DZ_WASM_IMM_MEMARG_LANE ||
           info->imm == DZ_WASM_IMM_TABLE;
}

/* An address: mostly a small one. */
static void gen_operand(struct gen *g, const struct dz_wasm_op_info *info, unsigned i)
{
    gen_expr(g, info->type[i]);
    bool address =
        i == 0 && (info->imm == DZ_WASM_IMM_MEMARG || info->imm == DZ_WASM_IMM_MEMARG_LANE);
    if (address && gen_pick(g, 16) != 1) {
        gen_op(g, DZ_WASM_OP_i32_const);
        gen_s64(g, 0xffff);
        gen_op(g, DZ_WASM_OP_i32_and);
    }
}

static void gen_simple(struct gen *g, unsigned op)
{
    const struct dz_wasm_op_info *info = &dz_wasm_op_table[op];
    unsigned result = info->type[3];
    for (unsigned i = 0; i < info->pops; i++)
        gen_operand(g, info, i);
    gen_op(g, op);
    gen_immediates(g, info);
    if (result == DZ_WASM_F32 || result == DZ_WASM_F64)
        gen_canonical(g, result);
    if (result == DZ_WASM_V128 && info->text[0] == 'f')
        gen_canonical_v(g, info->text[1] == '6');
}

/* From a random place in the table, the next instruction with this result; 0: none. */
static unsigned gen_find(struct gen *g, unsigned type)
{
    unsigned start = gen_pick(g, DZ_WASM_OP_LIMIT);
    for (unsigned i = 0; i < DZ_WASM_OP_LIMIT; i++) {
        unsigned op = (start + i) % DZ_WASM_OP_LIMIT;
        const struct dz_wasm_op_info *info = &dz_wasm_op_table[op];
        bool mine = info->text && info->sig != DZ_WASM_SIG_special &&
                    info->sig != DZ_WASM_SIG_none && info->type[3] == type && gen_plain(info);
        for (unsigned k = 0; mine && k < info->pops; k++)
            mine = info->type[k] != DZ_WASM_FUNCREF;
        if (mine)
            return op;
    }
    return 0;
}

static void gen_label(struct gen *g, unsigned op, unsigned type, unsigned branch_type)
{
    gen_op(g, op);
    gen_byte(g, type ? type : 0x40);
    g->labels[g->label_count++].result = (uint8_t)branch_type;
}
static void gen_end(struct gen *g)
{
    gen_op(g, DZ_WASM_OP_end);
    g->label_count--;
}

static void gen_call(struct gen *g, unsigned f)
{
    for (unsigned i = 0; i < gen_funcs[f].count; i++)
        gen_expr(g, gen_funcs[f].params[i]);
    if (gen_pick(g, 3) == 1) {
        gen_op(g, DZ_WASM_OP_i32_const);
        gen_s64(g, gen_pick(g, 8) ? (int)f : (int)gen_pick(g, GEN_FUNCS + 2));
        gen_op(g, DZ_WASM_OP_call_indirect);
        gen_u32(g, f);
        gen_u32(g, 0);
    } else {
        gen_op(g, DZ_WASM_OP_call);
        gen_u32(g, f + 1); /* behind the import */
    }
}

/* try_table around an expression; the handler gets the payload of tag 0 (i32)
 * or tag 1 (i64 v128), and drops it or makes it the value. */
static void gen_try(struct gen *g, unsigned type)
{
    bool any = gen_pick(g, 2) == 1;
    gen_label(g, DZ_WASM_OP_block, type, type);
    gen_label(g, DZ_WASM_OP_block, any ? DZ_WASM_EXNREF : DZ_WASM_I32, 0);
    g->labels[g->label_count - 1].result = 0xff; /* nobody branches here */
    gen_label(g, DZ_WASM_OP_try_table, type, type);
    gen_u32(g, 1);
    gen_byte(g, any ? 3 : 0); /* catch_all_ref, or catch tag 0 */
    if (!any)
        gen_u32(g, 0);
    gen_u32(g, 0); /* the block around */
    gen_stmts(g);
    if (type)
        gen_expr(g, type);
    gen_end(g);
    gen_op(g, DZ_WASM_OP_br);
    gen_u32(g, 1);
    gen_end(g);
    if (any && gen_pick(g, 4) == 1)
        gen_op(g, DZ_WASM_OP_throw_ref);
    else
        gen_op(g, DZ_WASM_OP_drop);
    if (type)
        gen_expr(g, type);
    gen_end(g);
}

static void gen_if(struct gen *g, unsigned type)
{
    gen_expr(g, DZ_WASM_I32);
    gen_label(g, DZ_WASM_OP_if, type, type);
    if (type)
        gen_expr(g, type);
    else
        gen_stmts(g);
    gen_op(g, DZ_WASM_OP_else);
    if (type)
        gen_expr(g, type);
    else
        gen_stmts(g);
    gen_end(g);
}

/* A branch to a label of the right type; the code behind is unreachable or not taken. */
static void gen_branch(struct gen *g, unsigned type)
{
    unsigned at = gen_pick(g, g->label_count), want = g->labels[at].result;
    if (want != type)
        return;
    if (type)
        gen_expr(g, type);
    gen_expr(g, DZ_WASM_I32);
    if (gen_pick(g, 3) == 1) {
        gen_op(g, DZ_WASM_OP_br_table);
        gen_u32(g, 2);
        for (int i = 0; i < 3; i++)
            gen_u32(g, g->label_count - 1 - at);
        return;
    }
    gen_op(g, DZ_WASM_OP_br_if);
    gen_u32(g, g->label_count - 1 - at);
    if (type)
        gen_op(g, DZ_WASM_OP_drop);
}

static void gen_expr_deep(struct gen *g, unsigned type)
{
    unsigned op, f;
    switch (gen_pick(g, 12)) {
    case 0:
        gen_const(g, type);
        break;
    case 1:
        gen_expr(g, type);
        gen_op(g, DZ_WASM_OP_local_tee);
        gen_u32(g, gen_local(g, type));
        break;
    case 2:
        gen_if(g, type);
        break;
    case 3:
        gen_label(g, DZ_WASM_OP_block, type, type);
        gen_stmts(g);
        gen_expr(g, type);
        gen_end(g);
        break;
    case 4:
        gen_expr(g, type);
        gen_expr(g, type);
        gen_expr(g, DZ_WASM_I32);
        gen_op(g, DZ_WASM_OP_select);
        break;
    case 5:
        f = gen_pick(g, GEN_FUNCS);
        if (gen_funcs[f].result == type)
            gen_call(g, f);
        else
            gen_const(g, type);
        break;
    case 6:
        gen_try(g, type);
        break;
    default:
        op = gen_find(g, type);
        if (op)
            gen_simple(g, op);
        else
            gen_const(g, type);
        break;
    }
}

static void gen_expr(struct gen *g, unsigned type)
{
    if (gen_full(g) || g->label_count + 6 > GEN_LABELS) {
        gen_const(g, type);
        return;
    }
    g->depth++;
    unsigned choice = gen_pick(g, 8);
    if (choice == 0) {
        gen_op(g, DZ_WASM_OP_local_get);
        gen_u32(g, gen_local(g, type));
    } else if (choice == 1) {
        gen_op(g, DZ_WASM_OP_global_get);
        gen_u32(g, gen_global(type));
    } else {
        gen_expr_deep(g, type);
    }
    g->depth--;
}

/* memory.copy, .fill, .init: three operands, mostly small. */
static void gen_bulk(struct gen *g)
{
    static const unsigned ops[] = {DZ_WASM_OP_memory_copy, DZ_WASM_OP_memory_fill,
                                   DZ_WASM_OP_memory_init, DZ_WASM_OP_table_copy,
                                   DZ_WASM_OP_table_init,  DZ_WASM_OP_data_drop};
    unsigned op = ops[gen_pick(g, 6)];
    if (op != DZ_WASM_OP_data_drop)
        for (int i = 0; i < 3; i++) {
            gen_expr(g, DZ_WASM_I32);
            gen_op(g, DZ_WASM_OP_i32_const);
            gen_s64(g, op == DZ_WASM_OP_table_copy || op == DZ_WASM_OP_table_init ? 3 : 0xfff);
            gen_op(g, DZ_WASM_OP_i32_and);
        }
    gen_op(g, op);
    if (op == DZ_WASM_OP_memory_copy) {
        gen_u32(g, gen_pick(g, 2));
        gen_u32(g, gen_pick(g, 2));
    } else if (op == DZ_WASM_OP_memory_init) {
        gen_u32(g, 0);
        gen_u32(g, gen_pick(g, 2));
    } else if (op == DZ_WASM_OP_memory_fill) {
        gen_u32(g, gen_pick(g, 2));
    } else {
        gen_u32(g, 0);
        if (op != DZ_WASM_OP_data_drop)
            gen_u32(g, 0);
    }
}

static void gen_throw(struct gen *g)
{
    gen_expr(g, DZ_WASM_I32);
    gen_label(g, DZ_WASM_OP_if, 0, 0);
    if (gen_pick(g, 2)) {
        gen_expr(g, DZ_WASM_I64);
        gen_expr(g, DZ_WASM_V128);
        gen_op(g, DZ_WASM_OP_throw);
        gen_u32(g, 1);
    } else {
        gen_expr(g, DZ_WASM_I32);
        gen_op(g, DZ_WASM_OP_throw);
        gen_u32(g, 0);
    }
    gen_end(g);
}

/* A tail call or return behind a condition. */
static void gen_leave(struct gen *g)
{
    gen_expr(g, DZ_WASM_I32);
    gen_label(g, DZ_WASM_OP_if, 0, 0);
    unsigned f = gen_pick(g, GEN_FUNCS);
    if (gen_funcs[f].result == g->result && gen_pick(g, 2)) {
        for (unsigned i = 0; i < gen_funcs[f].count; i++)
            gen_expr(g, gen_funcs[f].params[i]);
        gen_op(g, DZ_WASM_OP_return_call);
        gen_u32(g, f + 1);
    } else {
        if (g->result)
            gen_expr(g, g->result);
        gen_op(g, DZ_WASM_OP_return);
    }
    gen_end(g);
}

static void gen_store(struct gen *g)
{
    unsigned start = gen_pick(g, DZ_WASM_OP_LIMIT);
    for (unsigned i = 0; i < DZ_WASM_OP_LIMIT; i++) {
        unsigned op = (start + i) % DZ_WASM_OP_LIMIT;
        const struct dz_wasm_op_info *info = &dz_wasm_op_table[op];
        if (info->text && info->pops == 2 && info->type[3] == 0 && gen_plain(info)) {
            gen_simple(g, op);
            return;
        }
    }
}

static void gen_loop(struct gen *g)
{
    gen_label(g, DZ_WASM_OP_loop, 0, 0);
    gen_stmts(g);
    gen_expr(g, DZ_WASM_I32);
    gen_op(g, DZ_WASM_OP_br_if);
    gen_u32(g, 0);
    gen_end(g);
}

static void gen_stmt(struct gen *g)
{
    unsigned type = gen_types[gen_pick(g, 5)];
    switch (gen_pick(g, 12)) {
    case 0:
    case 1:
    case 2:
        gen_expr(g, type);
        gen_op(g, DZ_WASM_OP_local_set);
        gen_u32(g, gen_local(g, type));
        break;
    case 3:
        gen_expr(g, type);
        gen_op(g, DZ_WASM_OP_global_set);
        gen_u32(g, gen_global(type));
        break;
    case 4:
    case 5:
        gen_store(g);
        break;
    case 6:
        gen_if(g, 0);
        break;
    case 7:
        gen_loop(g);
        break;
    case 8:
        gen_branch(g, gen_pick(g, 2) ? type : 0);
        break;
    case 9:
        gen_bulk(g);
        break;
    case 10:
        gen_throw(g);
        break;
    default:
        gen_leave(g);
        break;
    }
}

static void gen_stmts(struct gen *g)
{
    if (gen_full(g) || g->label_count + 6 > GEN_LABELS)
        return;
    g->depth++;
    for (unsigned n = gen_pick(g, 4); n > 0; n--)
        gen_stmt(g);
    if (gen_pick(g, 12) == 1) {
        gen_expr(g, DZ_WASM_I32);
        gen_op(g, DZ_WASM_OP_call);
        gen_u32(g, 0); /* the import: test.emit */
    }
    g->depth--;
}

/* A section or body: its size is put before what was written since `at`. */
static void gen_close(struct gen *g, size_t at)
{
    size_t n = g->size - at;
    uint8_t size[5];
    for (int i = 0; i < 5; i++)
        size[i] = (uint8_t)((n >> 7 * i & 127) | (i < 4 ? 128 : 0));
    if (g->size + 5 > GEN_MAX)
        return;
    memmove(g->out + at + 5, g->out + at, n);
    memcpy(g->out + at, size, 5);
    g->size += 5;
}
static size_t gen_section(struct gen *g, unsigned id)
{
    gen_byte(g, id);
    return g->size;
}
static void gen_raw(struct gen *g, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gen_byte(g, ((const uint8_t *)bytes)[i]);
}

static void gen_body(struct gen *g, unsigned f)
{
    size_t at = g->size;
    g->params = gen_funcs[f].params;
    g->param_count = gen_funcs[f].count;
    g->result = gen_funcs[f].result;
    g->body_start = at;
    g->depth = 0;
    g->label_count = 1;
    g->labels[0].result = g->result;
    gen_u32(g, 8); /* groups of locals */
    for (int i = 0; i < 5; i++) {
        gen_u32(g, 2);
        gen_byte(g, gen_types[i]);
    }
    gen_raw(g, (const uint8_t[]){1, DZ_WASM_F32, 1, DZ_WASM_F64, 1, DZ_WASM_V128}, 6);
    gen_stmts(g);
    gen_stmts(g);
    if (g->result)
        gen_expr(g, g->result);
    gen_op(g, DZ_WASM_OP_end);
    gen_close(g, at);
}

static void gen_head(struct gen *g)
{
    gen_raw(g, "\0asm\1\0\0\0", 8);
    size_t at = gen_section(g, 1);
    gen_u32(g, GEN_FUNCS + 2);
    for (unsigned f = 0; f < GEN_FUNCS; f++) {
        gen_byte(g, 0x60);
        gen_u32(g, gen_funcs[f].count);
        gen_raw(g, gen_funcs[f].params, gen_funcs[f].count);
        gen_u32(g, gen_funcs[f].result != 0);
        if (gen_funcs[f].result)
            gen_byte(g, gen_funcs[f].result);
    }
    gen_raw(g, (const uint8_t[]){0x60, 1, DZ_WASM_I32, 0, 0x60, 2, DZ_WASM_I64, DZ_WASM_V128, 0},
            9);
    gen_close(g, at);
    at = gen_section(g, 2);
    gen_raw(g, "\1\4test\4emit\0", 12);
    gen_u32(g, GEN_FUNCS);
    gen_close(g, at);
    at = gen_section(g, 3);
    gen_u32(g, GEN_FUNCS);
    for (unsigned f = 0; f < GEN_FUNCS; f++)
        gen_u32(g, f);
    gen_close(g, at);
    gen_raw(g, "\4\4\1\x70\0\x0a", 6); /* table of 10 */
    gen_raw(g, "\5\6\2\1\1\4\0\1", 8); /* memories: 1 to 4 pages, 1 page */
    gen_raw(g, "\x0d\5\2\0\6\0\7", 7); /* tags */
}

/* The module of these choices; its size. */
static size_t gen_module(struct gen *g, const uint8_t *in, size_t in_size)
{
    g->in = in;
    g->in_size = in_size;
    g->size = 0;
    gen_head(g);
    size_t at = gen_section(g, 6);
    gen_u32(g, 5);
    for (int i = 0; i < 5; i++) {
        gen_byte(g, gen_types[i]);
        gen_byte(g, 1);
        gen_const(g, gen_types[i]);
        gen_op(g, DZ_WASM_OP_end);
    }
    gen_close(g, at);
    at = gen_section(g, 7);
    gen_u32(g, GEN_FUNCS);
    for (unsigned f = 0; f < GEN_FUNCS; f++) {
        gen_byte(g, 1);
        gen_byte(g, 'a' + f);
        gen_byte(g, 0);
        gen_u32(g, f + 1);
    }
    gen_close(g, at);
    at = gen_section(g, 9); /* functions 1.. at 0.. of the table */
    gen_raw(g, (const uint8_t[]){1, 0, 0x41, 0, 0x0b, GEN_FUNCS, 1, 2, 3, 4, 5, 6}, 12);
    gen_close(g, at);
    gen_raw(g, "\x0c\1\1", 3); /* one data segment */
    at = gen_section(g, 10);
    gen_u32(g, GEN_FUNCS);
    for (unsigned f = 0; f < GEN_FUNCS; f++)
        gen_body(g, f);
    gen_close(g, at);
    gen_raw(g, "\x0b\7\1\1\4wasm", 9); /* passive */
    return g->size;
}

#endif
