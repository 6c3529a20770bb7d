/* SPDX-License-Identifier: MIT
 *
 * wasm_opcode.h - every instruction of WebAssembly that doze knows, as one table.
 *
 * WebAssembly 2.0 with SIMD, and of 3.0 exceptions, tail calls and relaxed
 * SIMD. The validator, the translator and the printers of instructions expand the same rows, so
 * each number, name and type is defined in one place only.
 *
 * A row is X(name, text, number, immediates, signature, feature, arg):
 *   name        the text with '.' as '_', for token pasting: DZ_WASM_OP_##name
 *   text        as in the specification; "select_t" is the select with types
 *   number      the opcode byte; 0x100 + n for the instruction n behind the
 *               prefix 0xFC, 0x200 + n behind 0xFD (relaxed SIMD: 0x300...)
 *   immediates  DZ_WASM_IMM_*: what follows in the code
 *   signature   DZ_WASM_SIG_*: operands, '_', result, by letters i = i32,
 *               l = i64, f = f32, d = f64, v = v128, r = funcref. "none" has
 *               neither; "special" depends on immediates and is written by hand
 *   feature     DZ_WASM_F_* without which the instruction is unknown
 *   arg         memory accesses: log2 of the natural alignment; lane
 *               instructions: the number of lanes; else 0
 */
#ifndef DZ_WASM_OPCODE_H
#define DZ_WASM_OPCODE_H

#include <stdint.h>

/* Features: X(name, bit, text). MVP is always on. The text is what an error or
 * `doze wasm info` calls it. */
#define DZ_WASM_FEATURE_MAP(X)                  \
    X(MUTABLE_GLOBALS, 0, "mutable-globals")    \
    X(SIGN_EXTENSION, 1, "sign-extension")      \
    X(SATURATING, 2, "saturating-float-to-int") \
    X(MULTI_VALUE, 3, "multi-value")            \
    X(BULK_MEMORY, 4, "bulk-memory")            \
    X(REFERENCE_TYPES, 5, "reference-types")    \
    X(SIMD, 6, "simd")                          \
    X(EXCEPTIONS, 7, "exception-handling")      \
    X(TAIL_CALLS, 8, "tail-calls")              \
    X(EXTENDED_CONST, 9, "extended-const")      \
    X(MULTI_MEMORY, 10, "multi-memory")         \
    X(RELAXED_SIMD, 11, "relaxed-simd")         \
    X(TABLE_INIT, 12, "table-initializers")

enum dz_wasm_feature {
    DZ_WASM_F_MVP = 0,
#define X(name, bit, text) DZ_WASM_F_##name = 1 << (bit),
    DZ_WASM_FEATURE_MAP(X)
#undef X
    DZ_WASM_F_2_0 = (1 << 7) - 1, /* WebAssembly 2.0, SIMD included */
    DZ_WASM_F_ALL = (1 << 13) - 1,
};

/* Value types, by their byte in the binary format. */
enum dz_wasm_valtype {
    DZ_WASM_I32 = 0x7f,
    DZ_WASM_I64 = 0x7e,
    DZ_WASM_F32 = 0x7d,
    DZ_WASM_F64 = 0x7c,
    DZ_WASM_V128 = 0x7b, /* two slots; every other type has one */
    DZ_WASM_FUNCREF = 0x70,
    DZ_WASM_EXTERNREF = 0x6f,
    DZ_WASM_EXNREF = 0x69,
};

/* The immediates of an opcode. "u32", "s32", "s64" are LEB128; an index is a u32. */
enum dz_wasm_imm {
    DZ_WASM_IMM_NONE,
    DZ_WASM_IMM_BLOCK,       /* block type: s33, 0x40 = empty, a value type, or a type index */
    DZ_WASM_IMM_TRY_TABLE,   /* block type, count, then per clause: kind, tag if 0 or 1, label */
    DZ_WASM_IMM_LABEL,       /* label */
    DZ_WASM_IMM_LABELS,      /* count, that many labels, the default label */
    DZ_WASM_IMM_FUNC,        /* function */
    DZ_WASM_IMM_TYPE_TABLE,  /* type, table */
    DZ_WASM_IMM_TAG,         /* tag */
    DZ_WASM_IMM_SELECT,      /* count, which must be 1, and a value type */
    DZ_WASM_IMM_LOCAL,       /* local */
    DZ_WASM_IMM_GLOBAL,      /* global */
    DZ_WASM_IMM_TABLE,       /* table */
    DZ_WASM_IMM_TABLE2,      /* destination table, source table */
    DZ_WASM_IMM_ELEM,        /* element segment */
    DZ_WASM_IMM_ELEM_TABLE,  /* element segment, table */
    DZ_WASM_IMM_MEMORY,      /* memory */
    DZ_WASM_IMM_MEMORY2,     /* destination memory, source memory */
    DZ_WASM_IMM_DATA,        /* data segment */
    DZ_WASM_IMM_DATA_MEMORY, /* data segment, memory */
    DZ_WASM_IMM_MEMARG,      /* flags: log2 alignment, bit 6 = a memory index follows; offset */
    DZ_WASM_IMM_MEMARG_LANE, /* the same, then a lane byte */
    DZ_WASM_IMM_LANE,        /* lane byte */
    DZ_WASM_IMM_SHUFFLE,     /* 16 lane bytes */
    DZ_WASM_IMM_V128,        /* 16 bytes */
    DZ_WASM_IMM_I32,         /* s32 */
    DZ_WASM_IMM_I64,         /* s64 */
    DZ_WASM_IMM_F32,         /* 4 bytes */
    DZ_WASM_IMM_F64,         /* 8 bytes */
    DZ_WASM_IMM_REFTYPE,     /* a reference type */
};

/* Signatures: X(name, first operand, second, third, result), 0 = there is none. */
#define DZ_WASM_SIG_MAP(X)                               \
    X(special, 0, 0, 0, 0)                               \
    X(none, 0, 0, 0, 0)                                  \
    X(_d, 0, 0, 0, DZ_WASM_F64)                          \
    X(_f, 0, 0, 0, DZ_WASM_F32)                          \
    X(_i, 0, 0, 0, DZ_WASM_I32)                          \
    X(_l, 0, 0, 0, DZ_WASM_I64)                          \
    X(_r, 0, 0, 0, DZ_WASM_FUNCREF)                      \
    X(_v, 0, 0, 0, DZ_WASM_V128)                         \
    X(d_d, DZ_WASM_F64, 0, 0, DZ_WASM_F64)               \
    X(d_f, DZ_WASM_F64, 0, 0, DZ_WASM_F32)               \
    X(d_i, DZ_WASM_F64, 0, 0, DZ_WASM_I32)               \
    X(d_l, DZ_WASM_F64, 0, 0, DZ_WASM_I64)               \
    X(d_v, DZ_WASM_F64, 0, 0, DZ_WASM_V128)              \
    X(dd_d, DZ_WASM_F64, DZ_WASM_F64, 0, DZ_WASM_F64)    \
    X(dd_i, DZ_WASM_F64, DZ_WASM_F64, 0, DZ_WASM_I32)    \
    X(f_d, DZ_WASM_F32, 0, 0, DZ_WASM_F64)               \
    X(f_f, DZ_WASM_F32, 0, 0, DZ_WASM_F32)               \
    X(f_i, DZ_WASM_F32, 0, 0, DZ_WASM_I32)               \
    X(f_l, DZ_WASM_F32, 0, 0, DZ_WASM_I64)               \
    X(f_v, DZ_WASM_F32, 0, 0, DZ_WASM_V128)              \
    X(ff_f, DZ_WASM_F32, DZ_WASM_F32, 0, DZ_WASM_F32)    \
    X(ff_i, DZ_WASM_F32, DZ_WASM_F32, 0, DZ_WASM_I32)    \
    X(i_d, DZ_WASM_I32, 0, 0, DZ_WASM_F64)               \
    X(i_f, DZ_WASM_I32, 0, 0, DZ_WASM_F32)               \
    X(i_i, DZ_WASM_I32, 0, 0, DZ_WASM_I32)               \
    X(i_l, DZ_WASM_I32, 0, 0, DZ_WASM_I64)               \
    X(i_v, DZ_WASM_I32, 0, 0, DZ_WASM_V128)              \
    X(id_, DZ_WASM_I32, DZ_WASM_F64, 0, 0)               \
    X(if_, DZ_WASM_I32, DZ_WASM_F32, 0, 0)               \
    X(ii_, DZ_WASM_I32, DZ_WASM_I32, 0, 0)               \
    X(ii_i, DZ_WASM_I32, DZ_WASM_I32, 0, DZ_WASM_I32)    \
    X(iii_, DZ_WASM_I32, DZ_WASM_I32, DZ_WASM_I32, 0)    \
    X(il_, DZ_WASM_I32, DZ_WASM_I64, 0, 0)               \
    X(iv_, DZ_WASM_I32, DZ_WASM_V128, 0, 0)              \
    X(iv_v, DZ_WASM_I32, DZ_WASM_V128, 0, DZ_WASM_V128)  \
    X(l_d, DZ_WASM_I64, 0, 0, DZ_WASM_F64)               \
    X(l_f, DZ_WASM_I64, 0, 0, DZ_WASM_F32)               \
    X(l_i, DZ_WASM_I64, 0, 0, DZ_WASM_I32)               \
    X(l_l, DZ_WASM_I64, 0, 0, DZ_WASM_I64)               \
    X(l_v, DZ_WASM_I64, 0, 0, DZ_WASM_V128)              \
    X(ll_i, DZ_WASM_I64, DZ_WASM_I64, 0, DZ_WASM_I32)    \
    X(ll_l, DZ_WASM_I64, DZ_WASM_I64, 0, DZ_WASM_I64)    \
    X(v_d, DZ_WASM_V128, 0, 0, DZ_WASM_F64)              \
    X(v_f, DZ_WASM_V128, 0, 0, DZ_WASM_F32)              \
    X(v_i, DZ_WASM_V128, 0, 0, DZ_WASM_I32)              \
    X(v_l, DZ_WASM_V128, 0, 0, DZ_WASM_I64)              \
    X(v_v, DZ_WASM_V128, 0, 0, DZ_WASM_V128)             \
    X(vd_v, DZ_WASM_V128, DZ_WASM_F64, 0, DZ_WASM_V128)  \
    X(vf_v, DZ_WASM_V128, DZ_WASM_F32, 0, DZ_WASM_V128)  \
    X(vi_v, DZ_WASM_V128, DZ_WASM_I32, 0, DZ_WASM_V128)  \
    X(vl_v, DZ_WASM_V128, DZ_WASM_I64, 0, DZ_WASM_V128)  \
    X(vv_v, DZ_WASM_V128, DZ_WASM_V128, 0, DZ_WASM_V128) \
    X(vvv_v, DZ_WASM_V128, DZ_WASM_V128, DZ_WASM_V128, DZ_WASM_V128)

enum dz_wasm_sig {
#define X(name, a, b, c, r) DZ_WASM_SIG_##name,
    DZ_WASM_SIG_MAP(X)
#undef X
    DZ_WASM_SIG_COUNT
};

/* clang-format off */
/* --- one byte ---------------------------------------------------------------- */
#define DZ_WASM_OP_PLAIN_MAP(X) \
    X(unreachable, "unreachable", 0x00, NONE, special, MVP, 0) \
    X(nop, "nop", 0x01, NONE, none, MVP, 0) \
    X(block, "block", 0x02, BLOCK, special, MVP, 0) \
    X(loop, "loop", 0x03, BLOCK, special, MVP, 0) \
    X(if, "if", 0x04, BLOCK, special, MVP, 0) \
    X(else, "else", 0x05, NONE, special, MVP, 0) \
    X(throw, "throw", 0x08, TAG, special, EXCEPTIONS, 0) \
    X(throw_ref, "throw_ref", 0x0a, NONE, special, EXCEPTIONS, 0) \
    X(end, "end", 0x0b, NONE, special, MVP, 0) \
    X(br, "br", 0x0c, LABEL, special, MVP, 0) \
    X(br_if, "br_if", 0x0d, LABEL, special, MVP, 0) \
    X(br_table, "br_table", 0x0e, LABELS, special, MVP, 0) \
    X(return, "return", 0x0f, NONE, special, MVP, 0) \
    X(call, "call", 0x10, FUNC, special, MVP, 0) \
    X(call_indirect, "call_indirect", 0x11, TYPE_TABLE, special, MVP, 0) \
    X(return_call, "return_call", 0x12, FUNC, special, TAIL_CALLS, 0) \
    X(return_call_indirect, "return_call_indirect", 0x13, TYPE_TABLE, special, TAIL_CALLS, 0) \
    X(drop, "drop", 0x1a, NONE, special, MVP, 0) \
    X(select, "select", 0x1b, NONE, special, MVP, 0) \
    X(select_t, "select_t", 0x1c, SELECT, special, REFERENCE_TYPES, 0) \
    X(try_table, "try_table", 0x1f, TRY_TABLE, special, EXCEPTIONS, 0) \
    X(local_get, "local.get", 0x20, LOCAL, special, MVP, 0) \
    X(local_set, "local.set", 0x21, LOCAL, special, MVP, 0) \
    X(local_tee, "local.tee", 0x22, LOCAL, special, MVP, 0) \
    X(global_get, "global.get", 0x23, GLOBAL, special, MVP, 0) \
    X(global_set, "global.set", 0x24, GLOBAL, special, MVP, 0) \
    X(table_get, "table.get", 0x25, TABLE, special, REFERENCE_TYPES, 0) \
    X(table_set, "table.set", 0x26, TABLE, special, REFERENCE_TYPES, 0) \
    X(i32_load, "i32.load", 0x28, MEMARG, i_i, MVP, 2) \
    X(i64_load, "i64.load", 0x29, MEMARG, i_l, MVP, 3) \
    X(f32_load, "f32.load", 0x2a, MEMARG, i_f, MVP, 2) \
    X(f64_load, "f64.load", 0x2b, MEMARG, i_d, MVP, 3) \
    X(i32_load8_s, "i32.load8_s", 0x2c, MEMARG, i_i, MVP, 0) \
    X(i32_load8_u, "i32.load8_u", 0x2d, MEMARG, i_i, MVP, 0) \
    X(i32_load16_s, "i32.load16_s", 0x2e, MEMARG, i_i, MVP, 1) \
    X(i32_load16_u, "i32.load16_u", 0x2f, MEMARG, i_i, MVP, 1) \
    X(i64_load8_s, "i64.load8_s", 0x30, MEMARG, i_l, MVP, 0) \
    X(i64_load8_u, "i64.load8_u", 0x31, MEMARG, i_l, MVP, 0) \
    X(i64_load16_s, "i64.load16_s", 0x32, MEMARG, i_l, MVP, 1) \
    X(i64_load16_u, "i64.load16_u", 0x33, MEMARG, i_l, MVP, 1) \
    X(i64_load32_s, "i64.load32_s", 0x34, MEMARG, i_l, MVP, 2) \
    X(i64_load32_u, "i64.load32_u", 0x35, MEMARG, i_l, MVP, 2) \
    X(i32_store, "i32.store", 0x36, MEMARG, ii_, MVP, 2) \
    X(i64_store, "i64.store", 0x37, MEMARG, il_, MVP, 3) \
    X(f32_store, "f32.store", 0x38, MEMARG, if_, MVP, 2) \
    X(f64_store, "f64.store", 0x39, MEMARG, id_, MVP, 3) \
    X(i32_store8, "i32.store8", 0x3a, MEMARG, ii_, MVP, 0) \
    X(i32_store16, "i32.store16", 0x3b, MEMARG, ii_, MVP, 1) \
    X(i64_store8, "i64.store8", 0x3c, MEMARG, il_, MVP, 0) \
    X(i64_store16, "i64.store16", 0x3d, MEMARG, il_, MVP, 1) \
    X(i64_store32, "i64.store32", 0x3e, MEMARG, il_, MVP, 2) \
    X(memory_size, "memory.size", 0x3f, MEMORY, _i, MVP, 0) \
    X(memory_grow, "memory.grow", 0x40, MEMORY, i_i, MVP, 0) \
    X(i32_const, "i32.const", 0x41, I32, _i, MVP, 0) \
    X(i64_const, "i64.const", 0x42, I64, _l, MVP, 0) \
    X(f32_const, "f32.const", 0x43, F32, _f, MVP, 0) \
    X(f64_const, "f64.const", 0x44, F64, _d, MVP, 0) \
    X(i32_eqz, "i32.eqz", 0x45, NONE, i_i, MVP, 0) \
    X(i32_eq, "i32.eq", 0x46, NONE, ii_i, MVP, 0) \
    X(i32_ne, "i32.ne", 0x47, NONE, ii_i, MVP, 0) \
    X(i32_lt_s, "i32.lt_s", 0x48, NONE, ii_i, MVP, 0) \
    X(i32_lt_u, "i32.lt_u", 0x49, NONE, ii_i, MVP, 0) \
    X(i32_gt_s, "i32.gt_s", 0x4a, NONE, ii_i, MVP, 0) \
    X(i32_gt_u, "i32.gt_u", 0x4b, NONE, ii_i, MVP, 0) \
    X(i32_le_s, "i32.le_s", 0x4c, NONE, ii_i, MVP, 0) \
    X(i32_le_u, "i32.le_u", 0x4d, NONE, ii_i, MVP, 0) \
    X(i32_ge_s, "i32.ge_s", 0x4e, NONE, ii_i, MVP, 0) \
    X(i32_ge_u, "i32.ge_u", 0x4f, NONE, ii_i, MVP, 0) \
    X(i64_eqz, "i64.eqz", 0x50, NONE, l_i, MVP, 0) \
    X(i64_eq, "i64.eq", 0x51, NONE, ll_i, MVP, 0) \
    X(i64_ne, "i64.ne", 0x52, NONE, ll_i, MVP, 0) \
    X(i64_lt_s, "i64.lt_s", 0x53, NONE, ll_i, MVP, 0) \
    X(i64_lt_u, "i64.lt_u", 0x54, NONE, ll_i, MVP, 0) \
    X(i64_gt_s, "i64.gt_s", 0x55, NONE, ll_i, MVP, 0) \
    X(i64_gt_u, "i64.gt_u", 0x56, NONE, ll_i, MVP, 0) \
    X(i64_le_s, "i64.le_s", 0x57, NONE, ll_i, MVP, 0) \
    X(i64_le_u, "i64.le_u", 0x58, NONE, ll_i, MVP, 0) \
    X(i64_ge_s, "i64.ge_s", 0x59, NONE, ll_i, MVP, 0) \
    X(i64_ge_u, "i64.ge_u", 0x5a, NONE, ll_i, MVP, 0) \
    X(f32_eq, "f32.eq", 0x5b, NONE, ff_i, MVP, 0) \
    X(f32_ne, "f32.ne", 0x5c, NONE, ff_i, MVP, 0) \
    X(f32_lt, "f32.lt", 0x5d, NONE, ff_i, MVP, 0) \
    X(f32_gt, "f32.gt", 0x5e, NONE, ff_i, MVP, 0) \
    X(f32_le, "f32.le", 0x5f, NONE, ff_i, MVP, 0) \
    X(f32_ge, "f32.ge", 0x60, NONE, ff_i, MVP, 0) \
    X(f64_eq, "f64.eq", 0x61, NONE, dd_i, MVP, 0) \
    X(f64_ne, "f64.ne", 0x62, NONE, dd_i, MVP, 0) \
    X(f64_lt, "f64.lt", 0x63, NONE, dd_i, MVP, 0) \
    X(f64_gt, "f64.gt", 0x64, NONE, dd_i, MVP, 0) \
    X(f64_le, "f64.le", 0x65, NONE, dd_i, MVP, 0) \
    X(f64_ge, "f64.ge", 0x66, NONE, dd_i, MVP, 0) \
    X(i32_clz, "i32.clz", 0x67, NONE, i_i, MVP, 0) \
    X(i32_ctz, "i32.ctz", 0x68, NONE, i_i, MVP, 0) \
    X(i32_popcnt, "i32.popcnt", 0x69, NONE, i_i, MVP, 0) \
    X(i32_add, "i32.add", 0x6a, NONE, ii_i, MVP, 0) \
    X(i32_sub, "i32.sub", 0x6b, NONE, ii_i, MVP, 0) \
    X(i32_mul, "i32.mul", 0x6c, NONE, ii_i, MVP, 0) \
    X(i32_div_s, "i32.div_s", 0x6d, NONE, ii_i, MVP, 0) \
    X(i32_div_u, "i32.div_u", 0x6e, NONE, ii_i, MVP, 0) \
    X(i32_rem_s, "i32.rem_s", 0x6f, NONE, ii_i, MVP, 0) \
    X(i32_rem_u, "i32.rem_u", 0x70, NONE, ii_i, MVP, 0) \
    X(i32_and, "i32.and", 0x71, NONE, ii_i, MVP, 0) \
    X(i32_or, "i32.or", 0x72, NONE, ii_i, MVP, 0) \
    X(i32_xor, "i32.xor", 0x73, NONE, ii_i, MVP, 0) \
    X(i32_shl, "i32.shl", 0x74, NONE, ii_i, MVP, 0) \
    X(i32_shr_s, "i32.shr_s", 0x75, NONE, ii_i, MVP, 0) \
    X(i32_shr_u, "i32.shr_u", 0x76, NONE, ii_i, MVP, 0) \
    X(i32_rotl, "i32.rotl", 0x77, NONE, ii_i, MVP, 0) \
    X(i32_rotr, "i32.rotr", 0x78, NONE, ii_i, MVP, 0) \
    X(i64_clz, "i64.clz", 0x79, NONE, l_l, MVP, 0) \
    X(i64_ctz, "i64.ctz", 0x7a, NONE, l_l, MVP, 0) \
    X(i64_popcnt, "i64.popcnt", 0x7b, NONE, l_l, MVP, 0) \
    X(i64_add, "i64.add", 0x7c, NONE, ll_l, MVP, 0) \
    X(i64_sub, "i64.sub", 0x7d, NONE, ll_l, MVP, 0) \
    X(i64_mul, "i64.mul", 0x7e, NONE, ll_l, MVP, 0) \
    X(i64_div_s, "i64.div_s", 0x7f, NONE, ll_l, MVP, 0) \
    X(i64_div_u, "i64.div_u", 0x80, NONE, ll_l, MVP, 0) \
    X(i64_rem_s, "i64.rem_s", 0x81, NONE, ll_l, MVP, 0) \
    X(i64_rem_u, "i64.rem_u", 0x82, NONE, ll_l, MVP, 0) \
    X(i64_and, "i64.and", 0x83, NONE, ll_l, MVP, 0) \
    X(i64_or, "i64.or", 0x84, NONE, ll_l, MVP, 0) \
    X(i64_xor, "i64.xor", 0x85, NONE, ll_l, MVP, 0) \
    X(i64_shl, "i64.shl", 0x86, NONE, ll_l, MVP, 0) \
    X(i64_shr_s, "i64.shr_s", 0x87, NONE, ll_l, MVP, 0) \
    X(i64_shr_u, "i64.shr_u", 0x88, NONE, ll_l, MVP, 0) \
    X(i64_rotl, "i64.rotl", 0x89, NONE, ll_l, MVP, 0) \
    X(i64_rotr, "i64.rotr", 0x8a, NONE, ll_l, MVP, 0) \
    X(f32_abs, "f32.abs", 0x8b, NONE, f_f, MVP, 0) \
    X(f32_neg, "f32.neg", 0x8c, NONE, f_f, MVP, 0) \
    X(f32_ceil, "f32.ceil", 0x8d, NONE, f_f, MVP, 0) \
    X(f32_floor, "f32.floor", 0x8e, NONE, f_f, MVP, 0) \
    X(f32_trunc, "f32.trunc", 0x8f, NONE, f_f, MVP, 0) \
    X(f32_nearest, "f32.nearest", 0x90, NONE, f_f, MVP, 0) \
    X(f32_sqrt, "f32.sqrt", 0x91, NONE, f_f, MVP, 0) \
    X(f32_add, "f32.add", 0x92, NONE, ff_f, MVP, 0) \
    X(f32_sub, "f32.sub", 0x93, NONE, ff_f, MVP, 0) \
    X(f32_mul, "f32.mul", 0x94, NONE, ff_f, MVP, 0) \
    X(f32_div, "f32.div", 0x95, NONE, ff_f, MVP, 0) \
    X(f32_min, "f32.min", 0x96, NONE, ff_f, MVP, 0) \
    X(f32_max, "f32.max", 0x97, NONE, ff_f, MVP, 0) \
    X(f32_copysign, "f32.copysign", 0x98, NONE, ff_f, MVP, 0) \
    X(f64_abs, "f64.abs", 0x99, NONE, d_d, MVP, 0) \
    X(f64_neg, "f64.neg", 0x9a, NONE, d_d, MVP, 0) \
    X(f64_ceil, "f64.ceil", 0x9b, NONE, d_d, MVP, 0) \
    X(f64_floor, "f64.floor", 0x9c, NONE, d_d, MVP, 0) \
    X(f64_trunc, "f64.trunc", 0x9d, NONE, d_d, MVP, 0) \
    X(f64_nearest, "f64.nearest", 0x9e, NONE, d_d, MVP, 0) \
    X(f64_sqrt, "f64.sqrt", 0x9f, NONE, d_d, MVP, 0) \
    X(f64_add, "f64.add", 0xa0, NONE, dd_d, MVP, 0) \
    X(f64_sub, "f64.sub", 0xa1, NONE, dd_d, MVP, 0) \
    X(f64_mul, "f64.mul", 0xa2, NONE, dd_d, MVP, 0) \
    X(f64_div, "f64.div", 0xa3, NONE, dd_d, MVP, 0) \
    X(f64_min, "f64.min", 0xa4, NONE, dd_d, MVP, 0) \
    X(f64_max, "f64.max", 0xa5, NONE, dd_d, MVP, 0) \
    X(f64_copysign, "f64.copysign", 0xa6, NONE, dd_d, MVP, 0) \
    X(i32_wrap_i64, "i32.wrap_i64", 0xa7, NONE, l_i, MVP, 0) \
    X(i32_trunc_f32_s, "i32.trunc_f32_s", 0xa8, NONE, f_i, MVP, 0) \
    X(i32_trunc_f32_u, "i32.trunc_f32_u", 0xa9, NONE, f_i, MVP, 0) \
    X(i32_trunc_f64_s, "i32.trunc_f64_s", 0xaa, NONE, d_i, MVP, 0) \
    X(i32_trunc_f64_u, "i32.trunc_f64_u", 0xab, NONE, d_i, MVP, 0) \
    X(i64_extend_i32_s, "i64.extend_i32_s", 0xac, NONE, i_l, MVP, 0) \
    X(i64_extend_i32_u, "i64.extend_i32_u", 0xad, NONE, i_l, MVP, 0) \
    X(i64_trunc_f32_s, "i64.trunc_f32_s", 0xae, NONE, f_l, MVP, 0) \
    X(i64_trunc_f32_u, "i64.trunc_f32_u", 0xaf, NONE, f_l, MVP, 0) \
    X(i64_trunc_f64_s, "i64.trunc_f64_s", 0xb0, NONE, d_l, MVP, 0) \
    X(i64_trunc_f64_u, "i64.trunc_f64_u", 0xb1, NONE, d_l, MVP, 0) \
    X(f32_convert_i32_s, "f32.convert_i32_s", 0xb2, NONE, i_f, MVP, 0) \
    X(f32_convert_i32_u, "f32.convert_i32_u", 0xb3, NONE, i_f, MVP, 0) \
    X(f32_convert_i64_s, "f32.convert_i64_s", 0xb4, NONE, l_f, MVP, 0) \
    X(f32_convert_i64_u, "f32.convert_i64_u", 0xb5, NONE, l_f, MVP, 0) \
    X(f32_demote_f64, "f32.demote_f64", 0xb6, NONE, d_f, MVP, 0) \
    X(f64_convert_i32_s, "f64.convert_i32_s", 0xb7, NONE, i_d, MVP, 0) \
    X(f64_convert_i32_u, "f64.convert_i32_u", 0xb8, NONE, i_d, MVP, 0) \
    X(f64_convert_i64_s, "f64.convert_i64_s", 0xb9, NONE, l_d, MVP, 0) \
    X(f64_convert_i64_u, "f64.convert_i64_u", 0xba, NONE, l_d, MVP, 0) \
    X(f64_promote_f32, "f64.promote_f32", 0xbb, NONE, f_d, MVP, 0) \
    X(i32_reinterpret_f32, "i32.reinterpret_f32", 0xbc, NONE, f_i, MVP, 0) \
    X(i64_reinterpret_f64, "i64.reinterpret_f64", 0xbd, NONE, d_l, MVP, 0) \
    X(f32_reinterpret_i32, "f32.reinterpret_i32", 0xbe, NONE, i_f, MVP, 0) \
    X(f64_reinterpret_i64, "f64.reinterpret_i64", 0xbf, NONE, l_d, MVP, 0) \
    X(i32_extend8_s, "i32.extend8_s", 0xc0, NONE, i_i, SIGN_EXTENSION, 0) \
    X(i32_extend16_s, "i32.extend16_s", 0xc1, NONE, i_i, SIGN_EXTENSION, 0) \
    X(i64_extend8_s, "i64.extend8_s", 0xc2, NONE, l_l, SIGN_EXTENSION, 0) \
    X(i64_extend16_s, "i64.extend16_s", 0xc3, NONE, l_l, SIGN_EXTENSION, 0) \
    X(i64_extend32_s, "i64.extend32_s", 0xc4, NONE, l_l, SIGN_EXTENSION, 0) \
    X(ref_null, "ref.null", 0xd0, REFTYPE, special, REFERENCE_TYPES, 0) \
    X(ref_is_null, "ref.is_null", 0xd1, NONE, special, REFERENCE_TYPES, 0) \
    X(ref_func, "ref.func", 0xd2, FUNC, _r, REFERENCE_TYPES, 0)

/* --- behind 0xFC ------------------------------------------------------------- */
#define DZ_WASM_OP_FC_MAP(X) \
    X(i32_trunc_sat_f32_s, "i32.trunc_sat_f32_s", 0x100, NONE, f_i, SATURATING, 0) \
    X(i32_trunc_sat_f32_u, "i32.trunc_sat_f32_u", 0x101, NONE, f_i, SATURATING, 0) \
    X(i32_trunc_sat_f64_s, "i32.trunc_sat_f64_s", 0x102, NONE, d_i, SATURATING, 0) \
    X(i32_trunc_sat_f64_u, "i32.trunc_sat_f64_u", 0x103, NONE, d_i, SATURATING, 0) \
    X(i64_trunc_sat_f32_s, "i64.trunc_sat_f32_s", 0x104, NONE, f_l, SATURATING, 0) \
    X(i64_trunc_sat_f32_u, "i64.trunc_sat_f32_u", 0x105, NONE, f_l, SATURATING, 0) \
    X(i64_trunc_sat_f64_s, "i64.trunc_sat_f64_s", 0x106, NONE, d_l, SATURATING, 0) \
    X(i64_trunc_sat_f64_u, "i64.trunc_sat_f64_u", 0x107, NONE, d_l, SATURATING, 0) \
    X(memory_init, "memory.init", 0x108, DATA_MEMORY, iii_, BULK_MEMORY, 0) \
    X(data_drop, "data.drop", 0x109, DATA, none, BULK_MEMORY, 0) \
    X(memory_copy, "memory.copy", 0x10a, MEMORY2, iii_, BULK_MEMORY, 0) \
    X(memory_fill, "memory.fill", 0x10b, MEMORY, iii_, BULK_MEMORY, 0) \
    X(table_init, "table.init", 0x10c, ELEM_TABLE, iii_, BULK_MEMORY, 0) \
    X(elem_drop, "elem.drop", 0x10d, ELEM, none, BULK_MEMORY, 0) \
    X(table_copy, "table.copy", 0x10e, TABLE2, iii_, BULK_MEMORY, 0) \
    X(table_grow, "table.grow", 0x10f, TABLE, special, REFERENCE_TYPES, 0) \
    X(table_size, "table.size", 0x110, TABLE, _i, REFERENCE_TYPES, 0) \
    X(table_fill, "table.fill", 0x111, TABLE, special, REFERENCE_TYPES, 0)

/* --- behind 0xFD ------------------------------------------------------------- */
#define DZ_WASM_OP_FD_MAP(X) \
    X(v128_load, "v128.load", 0x200, MEMARG, i_v, SIMD, 4) \
    X(v128_load8x8_s, "v128.load8x8_s", 0x201, MEMARG, i_v, SIMD, 3) \
    X(v128_load8x8_u, "v128.load8x8_u", 0x202, MEMARG, i_v, SIMD, 3) \
    X(v128_load16x4_s, "v128.load16x4_s", 0x203, MEMARG, i_v, SIMD, 3) \
    X(v128_load16x4_u, "v128.load16x4_u", 0x204, MEMARG, i_v, SIMD, 3) \
    X(v128_load32x2_s, "v128.load32x2_s", 0x205, MEMARG, i_v, SIMD, 3) \
    X(v128_load32x2_u, "v128.load32x2_u", 0x206, MEMARG, i_v, SIMD, 3) \
    X(v128_load8_splat, "v128.load8_splat", 0x207, MEMARG, i_v, SIMD, 0) \
    X(v128_load16_splat, "v128.load16_splat", 0x208, MEMARG, i_v, SIMD, 1) \
    X(v128_load32_splat, "v128.load32_splat", 0x209, MEMARG, i_v, SIMD, 2) \
    X(v128_load64_splat, "v128.load64_splat", 0x20a, MEMARG, i_v, SIMD, 3) \
    X(v128_store, "v128.store", 0x20b, MEMARG, iv_, SIMD, 4) \
    X(v128_const, "v128.const", 0x20c, V128, _v, SIMD, 0) \
    X(i8x16_shuffle, "i8x16.shuffle", 0x20d, SHUFFLE, vv_v, SIMD, 32) \
    X(i8x16_swizzle, "i8x16.swizzle", 0x20e, NONE, vv_v, SIMD, 0) \
    X(i8x16_splat, "i8x16.splat", 0x20f, NONE, i_v, SIMD, 0) \
    X(i16x8_splat, "i16x8.splat", 0x210, NONE, i_v, SIMD, 0) \
    X(i32x4_splat, "i32x4.splat", 0x211, NONE, i_v, SIMD, 0) \
    X(i64x2_splat, "i64x2.splat", 0x212, NONE, l_v, SIMD, 0) \
    X(f32x4_splat, "f32x4.splat", 0x213, NONE, f_v, SIMD, 0) \
    X(f64x2_splat, "f64x2.splat", 0x214, NONE, d_v, SIMD, 0) \
    X(i8x16_extract_lane_s, "i8x16.extract_lane_s", 0x215, LANE, v_i, SIMD, 16) \
    X(i8x16_extract_lane_u, "i8x16.extract_lane_u", 0x216, LANE, v_i, SIMD, 16) \
    X(i8x16_replace_lane, "i8x16.replace_lane", 0x217, LANE, vi_v, SIMD, 16) \
    X(i16x8_extract_lane_s, "i16x8.extract_lane_s", 0x218, LANE, v_i, SIMD, 8) \
    X(i16x8_extract_lane_u, "i16x8.extract_lane_u", 0x219, LANE, v_i, SIMD, 8) \
    X(i16x8_replace_lane, "i16x8.replace_lane", 0x21a, LANE, vi_v, SIMD, 8) \
    X(i32x4_extract_lane, "i32x4.extract_lane", 0x21b, LANE, v_i, SIMD, 4) \
    X(i32x4_replace_lane, "i32x4.replace_lane", 0x21c, LANE, vi_v, SIMD, 4) \
    X(i64x2_extract_lane, "i64x2.extract_lane", 0x21d, LANE, v_l, SIMD, 2) \
    X(i64x2_replace_lane, "i64x2.replace_lane", 0x21e, LANE, vl_v, SIMD, 2) \
    X(f32x4_extract_lane, "f32x4.extract_lane", 0x21f, LANE, v_f, SIMD, 4) \
    X(f32x4_replace_lane, "f32x4.replace_lane", 0x220, LANE, vf_v, SIMD, 4) \
    X(f64x2_extract_lane, "f64x2.extract_lane", 0x221, LANE, v_d, SIMD, 2) \
    X(f64x2_replace_lane, "f64x2.replace_lane", 0x222, LANE, vd_v, SIMD, 2) \
    X(i8x16_eq, "i8x16.eq", 0x223, NONE, vv_v, SIMD, 0) \
    X(i8x16_ne, "i8x16.ne", 0x224, NONE, vv_v, SIMD, 0) \
    X(i8x16_lt_s, "i8x16.lt_s", 0x225, NONE, vv_v, SIMD, 0) \
    X(i8x16_lt_u, "i8x16.lt_u", 0x226, NONE, vv_v, SIMD, 0) \
    X(i8x16_gt_s, "i8x16.gt_s", 0x227, NONE, vv_v, SIMD, 0) \
    X(i8x16_gt_u, "i8x16.gt_u", 0x228, NONE, vv_v, SIMD, 0) \
    X(i8x16_le_s, "i8x16.le_s", 0x229, NONE, vv_v, SIMD, 0) \
    X(i8x16_le_u, "i8x16.le_u", 0x22a, NONE, vv_v, SIMD, 0) \
    X(i8x16_ge_s, "i8x16.ge_s", 0x22b, NONE, vv_v, SIMD, 0) \
    X(i8x16_ge_u, "i8x16.ge_u", 0x22c, NONE, vv_v, SIMD, 0) \
    X(i16x8_eq, "i16x8.eq", 0x22d, NONE, vv_v, SIMD, 0) \
    X(i16x8_ne, "i16x8.ne", 0x22e, NONE, vv_v, SIMD, 0) \
    X(i16x8_lt_s, "i16x8.lt_s", 0x22f, NONE, vv_v, SIMD, 0) \
    X(i16x8_lt_u, "i16x8.lt_u", 0x230, NONE, vv_v, SIMD, 0) \
    X(i16x8_gt_s, "i16x8.gt_s", 0x231, NONE, vv_v, SIMD, 0) \
    X(i16x8_gt_u, "i16x8.gt_u", 0x232, NONE, vv_v, SIMD, 0) \
    X(i16x8_le_s, "i16x8.le_s", 0x233, NONE, vv_v, SIMD, 0) \
    X(i16x8_le_u, "i16x8.le_u", 0x234, NONE, vv_v, SIMD, 0) \
    X(i16x8_ge_s, "i16x8.ge_s", 0x235, NONE, vv_v, SIMD, 0) \
    X(i16x8_ge_u, "i16x8.ge_u", 0x236, NONE, vv_v, SIMD, 0) \
    X(i32x4_eq, "i32x4.eq", 0x237, NONE, vv_v, SIMD, 0) \
    X(i32x4_ne, "i32x4.ne", 0x238, NONE, vv_v, SIMD, 0) \
    X(i32x4_lt_s, "i32x4.lt_s", 0x239, NONE, vv_v, SIMD, 0) \
    X(i32x4_lt_u, "i32x4.lt_u", 0x23a, NONE, vv_v, SIMD, 0) \
    X(i32x4_gt_s, "i32x4.gt_s", 0x23b, NONE, vv_v, SIMD, 0) \
    X(i32x4_gt_u, "i32x4.gt_u", 0x23c, NONE, vv_v, SIMD, 0) \
    X(i32x4_le_s, "i32x4.le_s", 0x23d, NONE, vv_v, SIMD, 0) \
    X(i32x4_le_u, "i32x4.le_u", 0x23e, NONE, vv_v, SIMD, 0) \
    X(i32x4_ge_s, "i32x4.ge_s", 0x23f, NONE, vv_v, SIMD, 0) \
    X(i32x4_ge_u, "i32x4.ge_u", 0x240, NONE, vv_v, SIMD, 0) \
    X(f32x4_eq, "f32x4.eq", 0x241, NONE, vv_v, SIMD, 0) \
    X(f32x4_ne, "f32x4.ne", 0x242, NONE, vv_v, SIMD, 0) \
    X(f32x4_lt, "f32x4.lt", 0x243, NONE, vv_v, SIMD, 0) \
    X(f32x4_gt, "f32x4.gt", 0x244, NONE, vv_v, SIMD, 0) \
    X(f32x4_le, "f32x4.le", 0x245, NONE, vv_v, SIMD, 0) \
    X(f32x4_ge, "f32x4.ge", 0x246, NONE, vv_v, SIMD, 0) \
    X(f64x2_eq, "f64x2.eq", 0x247, NONE, vv_v, SIMD, 0) \
    X(f64x2_ne, "f64x2.ne", 0x248, NONE, vv_v, SIMD, 0) \
    X(f64x2_lt, "f64x2.lt", 0x249, NONE, vv_v, SIMD, 0) \
    X(f64x2_gt, "f64x2.gt", 0x24a, NONE, vv_v, SIMD, 0) \
    X(f64x2_le, "f64x2.le", 0x24b, NONE, vv_v, SIMD, 0) \
    X(f64x2_ge, "f64x2.ge", 0x24c, NONE, vv_v, SIMD, 0) \
    X(v128_not, "v128.not", 0x24d, NONE, v_v, SIMD, 0) \
    X(v128_and, "v128.and", 0x24e, NONE, vv_v, SIMD, 0) \
    X(v128_andnot, "v128.andnot", 0x24f, NONE, vv_v, SIMD, 0) \
    X(v128_or, "v128.or", 0x250, NONE, vv_v, SIMD, 0) \
    X(v128_xor, "v128.xor", 0x251, NONE, vv_v, SIMD, 0) \
    X(v128_bitselect, "v128.bitselect", 0x252, NONE, vvv_v, SIMD, 0) \
    X(v128_any_true, "v128.any_true", 0x253, NONE, v_i, SIMD, 0) \
    X(v128_load8_lane, "v128.load8_lane", 0x254, MEMARG_LANE, iv_v, SIMD, 0) \
    X(v128_load16_lane, "v128.load16_lane", 0x255, MEMARG_LANE, iv_v, SIMD, 1) \
    X(v128_load32_lane, "v128.load32_lane", 0x256, MEMARG_LANE, iv_v, SIMD, 2) \
    X(v128_load64_lane, "v128.load64_lane", 0x257, MEMARG_LANE, iv_v, SIMD, 3) \
    X(v128_store8_lane, "v128.store8_lane", 0x258, MEMARG_LANE, iv_, SIMD, 0) \
    X(v128_store16_lane, "v128.store16_lane", 0x259, MEMARG_LANE, iv_, SIMD, 1) \
    X(v128_store32_lane, "v128.store32_lane", 0x25a, MEMARG_LANE, iv_, SIMD, 2) \
    X(v128_store64_lane, "v128.store64_lane", 0x25b, MEMARG_LANE, iv_, SIMD, 3) \
    X(v128_load32_zero, "v128.load32_zero", 0x25c, MEMARG, i_v, SIMD, 2) \
    X(v128_load64_zero, "v128.load64_zero", 0x25d, MEMARG, i_v, SIMD, 3) \
    X(f32x4_demote_f64x2_zero, "f32x4.demote_f64x2_zero", 0x25e, NONE, v_v, SIMD, 0) \
    X(f64x2_promote_low_f32x4, "f64x2.promote_low_f32x4", 0x25f, NONE, v_v, SIMD, 0) \
    X(i8x16_abs, "i8x16.abs", 0x260, NONE, v_v, SIMD, 0) \
    X(i8x16_neg, "i8x16.neg", 0x261, NONE, v_v, SIMD, 0) \
    X(i8x16_popcnt, "i8x16.popcnt", 0x262, NONE, v_v, SIMD, 0) \
    X(i8x16_all_true, "i8x16.all_true", 0x263, NONE, v_i, SIMD, 0) \
    X(i8x16_bitmask, "i8x16.bitmask", 0x264, NONE, v_i, SIMD, 0) \
    X(i8x16_narrow_i16x8_s, "i8x16.narrow_i16x8_s", 0x265, NONE, vv_v, SIMD, 0) \
    X(i8x16_narrow_i16x8_u, "i8x16.narrow_i16x8_u", 0x266, NONE, vv_v, SIMD, 0) \
    X(f32x4_ceil, "f32x4.ceil", 0x267, NONE, v_v, SIMD, 0) \
    X(f32x4_floor, "f32x4.floor", 0x268, NONE, v_v, SIMD, 0) \
    X(f32x4_trunc, "f32x4.trunc", 0x269, NONE, v_v, SIMD, 0) \
    X(f32x4_nearest, "f32x4.nearest", 0x26a, NONE, v_v, SIMD, 0) \
    X(i8x16_shl, "i8x16.shl", 0x26b, NONE, vi_v, SIMD, 0) \
    X(i8x16_shr_s, "i8x16.shr_s", 0x26c, NONE, vi_v, SIMD, 0) \
    X(i8x16_shr_u, "i8x16.shr_u", 0x26d, NONE, vi_v, SIMD, 0) \
    X(i8x16_add, "i8x16.add", 0x26e, NONE, vv_v, SIMD, 0) \
    X(i8x16_add_sat_s, "i8x16.add_sat_s", 0x26f, NONE, vv_v, SIMD, 0) \
    X(i8x16_add_sat_u, "i8x16.add_sat_u", 0x270, NONE, vv_v, SIMD, 0) \
    X(i8x16_sub, "i8x16.sub", 0x271, NONE, vv_v, SIMD, 0) \
    X(i8x16_sub_sat_s, "i8x16.sub_sat_s", 0x272, NONE, vv_v, SIMD, 0) \
    X(i8x16_sub_sat_u, "i8x16.sub_sat_u", 0x273, NONE, vv_v, SIMD, 0) \
    X(f64x2_ceil, "f64x2.ceil", 0x274, NONE, v_v, SIMD, 0) \
    X(f64x2_floor, "f64x2.floor", 0x275, NONE, v_v, SIMD, 0) \
    X(i8x16_min_s, "i8x16.min_s", 0x276, NONE, vv_v, SIMD, 0) \
    X(i8x16_min_u, "i8x16.min_u", 0x277, NONE, vv_v, SIMD, 0) \
    X(i8x16_max_s, "i8x16.max_s", 0x278, NONE, vv_v, SIMD, 0) \
    X(i8x16_max_u, "i8x16.max_u", 0x279, NONE, vv_v, SIMD, 0) \
    X(f64x2_trunc, "f64x2.trunc", 0x27a, NONE, v_v, SIMD, 0) \
    X(i8x16_avgr_u, "i8x16.avgr_u", 0x27b, NONE, vv_v, SIMD, 0) \
    X(i16x8_extadd_pairwise_i8x16_s, "i16x8.extadd_pairwise_i8x16_s", 0x27c, NONE, v_v, SIMD, 0) \
    X(i16x8_extadd_pairwise_i8x16_u, "i16x8.extadd_pairwise_i8x16_u", 0x27d, NONE, v_v, SIMD, 0) \
    X(i32x4_extadd_pairwise_i16x8_s, "i32x4.extadd_pairwise_i16x8_s", 0x27e, NONE, v_v, SIMD, 0) \
    X(i32x4_extadd_pairwise_i16x8_u, "i32x4.extadd_pairwise_i16x8_u", 0x27f, NONE, v_v, SIMD, 0) \
    X(i16x8_abs, "i16x8.abs", 0x280, NONE, v_v, SIMD, 0) \
    X(i16x8_neg, "i16x8.neg", 0x281, NONE, v_v, SIMD, 0) \
    X(i16x8_q15mulr_sat_s, "i16x8.q15mulr_sat_s", 0x282, NONE, vv_v, SIMD, 0) \
    X(i16x8_all_true, "i16x8.all_true", 0x283, NONE, v_i, SIMD, 0) \
    X(i16x8_bitmask, "i16x8.bitmask", 0x284, NONE, v_i, SIMD, 0) \
    X(i16x8_narrow_i32x4_s, "i16x8.narrow_i32x4_s", 0x285, NONE, vv_v, SIMD, 0) \
    X(i16x8_narrow_i32x4_u, "i16x8.narrow_i32x4_u", 0x286, NONE, vv_v, SIMD, 0) \
    X(i16x8_extend_low_i8x16_s, "i16x8.extend_low_i8x16_s", 0x287, NONE, v_v, SIMD, 0) \
    X(i16x8_extend_high_i8x16_s, "i16x8.extend_high_i8x16_s", 0x288, NONE, v_v, SIMD, 0) \
    X(i16x8_extend_low_i8x16_u, "i16x8.extend_low_i8x16_u", 0x289, NONE, v_v, SIMD, 0) \
    X(i16x8_extend_high_i8x16_u, "i16x8.extend_high_i8x16_u", 0x28a, NONE, v_v, SIMD, 0) \
    X(i16x8_shl, "i16x8.shl", 0x28b, NONE, vi_v, SIMD, 0) \
    X(i16x8_shr_s, "i16x8.shr_s", 0x28c, NONE, vi_v, SIMD, 0) \
    X(i16x8_shr_u, "i16x8.shr_u", 0x28d, NONE, vi_v, SIMD, 0) \
    X(i16x8_add, "i16x8.add", 0x28e, NONE, vv_v, SIMD, 0) \
    X(i16x8_add_sat_s, "i16x8.add_sat_s", 0x28f, NONE, vv_v, SIMD, 0) \
    X(i16x8_add_sat_u, "i16x8.add_sat_u", 0x290, NONE, vv_v, SIMD, 0) \
    X(i16x8_sub, "i16x8.sub", 0x291, NONE, vv_v, SIMD, 0) \
    X(i16x8_sub_sat_s, "i16x8.sub_sat_s", 0x292, NONE, vv_v, SIMD, 0) \
    X(i16x8_sub_sat_u, "i16x8.sub_sat_u", 0x293, NONE, vv_v, SIMD, 0) \
    X(f64x2_nearest, "f64x2.nearest", 0x294, NONE, v_v, SIMD, 0) \
    X(i16x8_mul, "i16x8.mul", 0x295, NONE, vv_v, SIMD, 0) \
    X(i16x8_min_s, "i16x8.min_s", 0x296, NONE, vv_v, SIMD, 0) \
    X(i16x8_min_u, "i16x8.min_u", 0x297, NONE, vv_v, SIMD, 0) \
    X(i16x8_max_s, "i16x8.max_s", 0x298, NONE, vv_v, SIMD, 0) \
    X(i16x8_max_u, "i16x8.max_u", 0x299, NONE, vv_v, SIMD, 0) \
    X(i16x8_avgr_u, "i16x8.avgr_u", 0x29b, NONE, vv_v, SIMD, 0) \
    X(i16x8_extmul_low_i8x16_s, "i16x8.extmul_low_i8x16_s", 0x29c, NONE, vv_v, SIMD, 0) \
    X(i16x8_extmul_high_i8x16_s, "i16x8.extmul_high_i8x16_s", 0x29d, NONE, vv_v, SIMD, 0) \
    X(i16x8_extmul_low_i8x16_u, "i16x8.extmul_low_i8x16_u", 0x29e, NONE, vv_v, SIMD, 0) \
    X(i16x8_extmul_high_i8x16_u, "i16x8.extmul_high_i8x16_u", 0x29f, NONE, vv_v, SIMD, 0) \
    X(i32x4_abs, "i32x4.abs", 0x2a0, NONE, v_v, SIMD, 0) \
    X(i32x4_neg, "i32x4.neg", 0x2a1, NONE, v_v, SIMD, 0) \
    X(i32x4_all_true, "i32x4.all_true", 0x2a3, NONE, v_i, SIMD, 0) \
    X(i32x4_bitmask, "i32x4.bitmask", 0x2a4, NONE, v_i, SIMD, 0) \
    X(i32x4_extend_low_i16x8_s, "i32x4.extend_low_i16x8_s", 0x2a7, NONE, v_v, SIMD, 0) \
    X(i32x4_extend_high_i16x8_s, "i32x4.extend_high_i16x8_s", 0x2a8, NONE, v_v, SIMD, 0) \
    X(i32x4_extend_low_i16x8_u, "i32x4.extend_low_i16x8_u", 0x2a9, NONE, v_v, SIMD, 0) \
    X(i32x4_extend_high_i16x8_u, "i32x4.extend_high_i16x8_u", 0x2aa, NONE, v_v, SIMD, 0) \
    X(i32x4_shl, "i32x4.shl", 0x2ab, NONE, vi_v, SIMD, 0) \
    X(i32x4_shr_s, "i32x4.shr_s", 0x2ac, NONE, vi_v, SIMD, 0) \
    X(i32x4_shr_u, "i32x4.shr_u", 0x2ad, NONE, vi_v, SIMD, 0) \
    X(i32x4_add, "i32x4.add", 0x2ae, NONE, vv_v, SIMD, 0) \
    X(i32x4_sub, "i32x4.sub", 0x2b1, NONE, vv_v, SIMD, 0) \
    X(i32x4_mul, "i32x4.mul", 0x2b5, NONE, vv_v, SIMD, 0) \
    X(i32x4_min_s, "i32x4.min_s", 0x2b6, NONE, vv_v, SIMD, 0) \
    X(i32x4_min_u, "i32x4.min_u", 0x2b7, NONE, vv_v, SIMD, 0) \
    X(i32x4_max_s, "i32x4.max_s", 0x2b8, NONE, vv_v, SIMD, 0) \
    X(i32x4_max_u, "i32x4.max_u", 0x2b9, NONE, vv_v, SIMD, 0) \
    X(i32x4_dot_i16x8_s, "i32x4.dot_i16x8_s", 0x2ba, NONE, vv_v, SIMD, 0) \
    X(i32x4_extmul_low_i16x8_s, "i32x4.extmul_low_i16x8_s", 0x2bc, NONE, vv_v, SIMD, 0) \
    X(i32x4_extmul_high_i16x8_s, "i32x4.extmul_high_i16x8_s", 0x2bd, NONE, vv_v, SIMD, 0) \
    X(i32x4_extmul_low_i16x8_u, "i32x4.extmul_low_i16x8_u", 0x2be, NONE, vv_v, SIMD, 0) \
    X(i32x4_extmul_high_i16x8_u, "i32x4.extmul_high_i16x8_u", 0x2bf, NONE, vv_v, SIMD, 0) \
    X(i64x2_abs, "i64x2.abs", 0x2c0, NONE, v_v, SIMD, 0) \
    X(i64x2_neg, "i64x2.neg", 0x2c1, NONE, v_v, SIMD, 0) \
    X(i64x2_all_true, "i64x2.all_true", 0x2c3, NONE, v_i, SIMD, 0) \
    X(i64x2_bitmask, "i64x2.bitmask", 0x2c4, NONE, v_i, SIMD, 0) \
    X(i64x2_extend_low_i32x4_s, "i64x2.extend_low_i32x4_s", 0x2c7, NONE, v_v, SIMD, 0) \
    X(i64x2_extend_high_i32x4_s, "i64x2.extend_high_i32x4_s", 0x2c8, NONE, v_v, SIMD, 0) \
    X(i64x2_extend_low_i32x4_u, "i64x2.extend_low_i32x4_u", 0x2c9, NONE, v_v, SIMD, 0) \
    X(i64x2_extend_high_i32x4_u, "i64x2.extend_high_i32x4_u", 0x2ca, NONE, v_v, SIMD, 0) \
    X(i64x2_shl, "i64x2.shl", 0x2cb, NONE, vi_v, SIMD, 0) \
    X(i64x2_shr_s, "i64x2.shr_s", 0x2cc, NONE, vi_v, SIMD, 0) \
    X(i64x2_shr_u, "i64x2.shr_u", 0x2cd, NONE, vi_v, SIMD, 0) \
    X(i64x2_add, "i64x2.add", 0x2ce, NONE, vv_v, SIMD, 0) \
    X(i64x2_sub, "i64x2.sub", 0x2d1, NONE, vv_v, SIMD, 0) \
    X(i64x2_mul, "i64x2.mul", 0x2d5, NONE, vv_v, SIMD, 0) \
    X(i64x2_eq, "i64x2.eq", 0x2d6, NONE, vv_v, SIMD, 0) \
    X(i64x2_ne, "i64x2.ne", 0x2d7, NONE, vv_v, SIMD, 0) \
    X(i64x2_lt_s, "i64x2.lt_s", 0x2d8, NONE, vv_v, SIMD, 0) \
    X(i64x2_gt_s, "i64x2.gt_s", 0x2d9, NONE, vv_v, SIMD, 0) \
    X(i64x2_le_s, "i64x2.le_s", 0x2da, NONE, vv_v, SIMD, 0) \
    X(i64x2_ge_s, "i64x2.ge_s", 0x2db, NONE, vv_v, SIMD, 0) \
    X(i64x2_extmul_low_i32x4_s, "i64x2.extmul_low_i32x4_s", 0x2dc, NONE, vv_v, SIMD, 0) \
    X(i64x2_extmul_high_i32x4_s, "i64x2.extmul_high_i32x4_s", 0x2dd, NONE, vv_v, SIMD, 0) \
    X(i64x2_extmul_low_i32x4_u, "i64x2.extmul_low_i32x4_u", 0x2de, NONE, vv_v, SIMD, 0) \
    X(i64x2_extmul_high_i32x4_u, "i64x2.extmul_high_i32x4_u", 0x2df, NONE, vv_v, SIMD, 0) \
    X(f32x4_abs, "f32x4.abs", 0x2e0, NONE, v_v, SIMD, 0) \
    X(f32x4_neg, "f32x4.neg", 0x2e1, NONE, v_v, SIMD, 0) \
    X(f32x4_sqrt, "f32x4.sqrt", 0x2e3, NONE, v_v, SIMD, 0) \
    X(f32x4_add, "f32x4.add", 0x2e4, NONE, vv_v, SIMD, 0) \
    X(f32x4_sub, "f32x4.sub", 0x2e5, NONE, vv_v, SIMD, 0) \
    X(f32x4_mul, "f32x4.mul", 0x2e6, NONE, vv_v, SIMD, 0) \
    X(f32x4_div, "f32x4.div", 0x2e7, NONE, vv_v, SIMD, 0) \
    X(f32x4_min, "f32x4.min", 0x2e8, NONE, vv_v, SIMD, 0) \
    X(f32x4_max, "f32x4.max", 0x2e9, NONE, vv_v, SIMD, 0) \
    X(f32x4_pmin, "f32x4.pmin", 0x2ea, NONE, vv_v, SIMD, 0) \
    X(f32x4_pmax, "f32x4.pmax", 0x2eb, NONE, vv_v, SIMD, 0) \
    X(f64x2_abs, "f64x2.abs", 0x2ec, NONE, v_v, SIMD, 0) \
    X(f64x2_neg, "f64x2.neg", 0x2ed, NONE, v_v, SIMD, 0) \
    X(f64x2_sqrt, "f64x2.sqrt", 0x2ef, NONE, v_v, SIMD, 0) \
    X(f64x2_add, "f64x2.add", 0x2f0, NONE, vv_v, SIMD, 0) \
    X(f64x2_sub, "f64x2.sub", 0x2f1, NONE, vv_v, SIMD, 0) \
    X(f64x2_mul, "f64x2.mul", 0x2f2, NONE, vv_v, SIMD, 0) \
    X(f64x2_div, "f64x2.div", 0x2f3, NONE, vv_v, SIMD, 0) \
    X(f64x2_min, "f64x2.min", 0x2f4, NONE, vv_v, SIMD, 0) \
    X(f64x2_max, "f64x2.max", 0x2f5, NONE, vv_v, SIMD, 0) \
    X(f64x2_pmin, "f64x2.pmin", 0x2f6, NONE, vv_v, SIMD, 0) \
    X(f64x2_pmax, "f64x2.pmax", 0x2f7, NONE, vv_v, SIMD, 0) \
    X(i32x4_trunc_sat_f32x4_s, "i32x4.trunc_sat_f32x4_s", 0x2f8, NONE, v_v, SIMD, 0) \
    X(i32x4_trunc_sat_f32x4_u, "i32x4.trunc_sat_f32x4_u", 0x2f9, NONE, v_v, SIMD, 0) \
    X(f32x4_convert_i32x4_s, "f32x4.convert_i32x4_s", 0x2fa, NONE, v_v, SIMD, 0) \
    X(f32x4_convert_i32x4_u, "f32x4.convert_i32x4_u", 0x2fb, NONE, v_v, SIMD, 0) \
    X(i32x4_trunc_sat_f64x2_s_zero, "i32x4.trunc_sat_f64x2_s_zero", 0x2fc, NONE, v_v, SIMD, 0) \
    X(i32x4_trunc_sat_f64x2_u_zero, "i32x4.trunc_sat_f64x2_u_zero", 0x2fd, NONE, v_v, SIMD, 0) \
    X(f64x2_convert_low_i32x4_s, "f64x2.convert_low_i32x4_s", 0x2fe, NONE, v_v, SIMD, 0) \
    X(f64x2_convert_low_i32x4_u, "f64x2.convert_low_i32x4_u", 0x2ff, NONE, v_v, SIMD, 0) \
    X(i8x16_relaxed_swizzle, "i8x16.relaxed_swizzle", 0x300, NONE, vv_v, RELAXED_SIMD, 0) \
    X(i32x4_relaxed_trunc_f32x4_s, "i32x4.relaxed_trunc_f32x4_s", 0x301, NONE, v_v, RELAXED_SIMD, 0) \
    X(i32x4_relaxed_trunc_f32x4_u, "i32x4.relaxed_trunc_f32x4_u", 0x302, NONE, v_v, RELAXED_SIMD, 0) \
    X(i32x4_relaxed_trunc_f64x2_s_zero, "i32x4.relaxed_trunc_f64x2_s_zero", 0x303, NONE, v_v, RELAXED_SIMD, 0) \
    X(i32x4_relaxed_trunc_f64x2_u_zero, "i32x4.relaxed_trunc_f64x2_u_zero", 0x304, NONE, v_v, RELAXED_SIMD, 0) \
    X(f32x4_relaxed_madd, "f32x4.relaxed_madd", 0x305, NONE, vvv_v, RELAXED_SIMD, 0) \
    X(f32x4_relaxed_nmadd, "f32x4.relaxed_nmadd", 0x306, NONE, vvv_v, RELAXED_SIMD, 0) \
    X(f64x2_relaxed_madd, "f64x2.relaxed_madd", 0x307, NONE, vvv_v, RELAXED_SIMD, 0) \
    X(f64x2_relaxed_nmadd, "f64x2.relaxed_nmadd", 0x308, NONE, vvv_v, RELAXED_SIMD, 0) \
    X(i8x16_relaxed_laneselect, "i8x16.relaxed_laneselect", 0x309, NONE, vvv_v, RELAXED_SIMD, 0) \
    X(i16x8_relaxed_laneselect, "i16x8.relaxed_laneselect", 0x30a, NONE, vvv_v, RELAXED_SIMD, 0) \
    X(i32x4_relaxed_laneselect, "i32x4.relaxed_laneselect", 0x30b, NONE, vvv_v, RELAXED_SIMD, 0) \
    X(i64x2_relaxed_laneselect, "i64x2.relaxed_laneselect", 0x30c, NONE, vvv_v, RELAXED_SIMD, 0) \
    X(f32x4_relaxed_min, "f32x4.relaxed_min", 0x30d, NONE, vv_v, RELAXED_SIMD, 0) \
    X(f32x4_relaxed_max, "f32x4.relaxed_max", 0x30e, NONE, vv_v, RELAXED_SIMD, 0) \
    X(f64x2_relaxed_min, "f64x2.relaxed_min", 0x30f, NONE, vv_v, RELAXED_SIMD, 0) \
    X(f64x2_relaxed_max, "f64x2.relaxed_max", 0x310, NONE, vv_v, RELAXED_SIMD, 0) \
    X(i16x8_relaxed_q15mulr_s, "i16x8.relaxed_q15mulr_s", 0x311, NONE, vv_v, RELAXED_SIMD, 0) \
    X(i16x8_relaxed_dot_i8x16_i7x16_s, "i16x8.relaxed_dot_i8x16_i7x16_s", 0x312, NONE, vv_v, RELAXED_SIMD, 0) \
    X(i32x4_relaxed_dot_i8x16_i7x16_add_s, "i32x4.relaxed_dot_i8x16_i7x16_add_s", 0x313, NONE, vvv_v, RELAXED_SIMD, 0)
/* clang-format on */

#define DZ_WASM_OP_MAP(X) DZ_WASM_OP_PLAIN_MAP(X) DZ_WASM_OP_FC_MAP(X) DZ_WASM_OP_FD_MAP(X)

enum dz_wasm_op {
#define X(name, text, number, imm, sig, feature, arg) DZ_WASM_OP_##name = (number),
    DZ_WASM_OP_MAP(X)
#undef X
    DZ_WASM_OP_LIMIT = 0x314 /* above every number */
};

/* A row of the table at run time. A number that is no instruction has text NULL. */
struct dz_wasm_op_info {
    const char *text;
    uint8_t imm; /* enum dz_wasm_imm */
    uint8_t sig; /* enum dz_wasm_sig */
    uint8_t arg;
    uint8_t pops;     /* operands; 0 for special */
    uint8_t type[4];  /* operands in order, then the result in type[3]; 0 = none */
    uint16_t feature; /* enum dz_wasm_feature */
};

extern const struct dz_wasm_op_info dz_wasm_op_table[DZ_WASM_OP_LIMIT];

#endif
