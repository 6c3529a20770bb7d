/* SPDX-License-Identifier: MIT
 *
 * wasm_simd_float.h - the float part of wasm_simd.h, which includes it.
 *
 * A lane obeys the scalar instruction of the same name (wasm_num.h), NaNs
 * included. Signs are changed on the bits, so a signalling NaN stays one.
 */
#ifndef DZ_WASM_SIMD_FLOAT_H
#define DZ_WASM_SIMD_FLOAT_H

#include "wasm/wasm_simd.h"

/* SHAPE, scalar type's name, C type, lanes, float and integer vectors, sign bit. */
#define DZ_SIMD_FLOAT_MAP(X)                                       \
    X(f32x4, f32, float, 4, dz_f32x4, dz_u32x4, UINT32_C(1) << 31) \
    X(f64x2, f64, double, 2, dz_f64x2, dz_u64x2, UINT64_C(1) << 63)

#define DZ_SIMD_FLOAT_BINARY(NAME, F, OP)                 \
    static inline dz_v128 dz_##NAME(dz_v128 a, dz_v128 b) \
    {                                                     \
        return (dz_v128)((F)a OP(F) b);                   \
    }
#define DZ_SIMD_FLOAT_LANES_1(SHAPE, S, OP, T, N, F)   \
    static inline dz_v128 dz_##SHAPE##_##OP(dz_v128 a) \
    {                                                  \
        const F v = (F)a;                              \
        return DZ_LANES(T, N, dz_##S##_##OP(v[i]));    \
    }
#define DZ_SIMD_FLOAT_LANES_2(SHAPE, S, OP, T, N, F)                      \
    static inline dz_v128 dz_##SHAPE##_##OP(dz_v128 a, dz_v128 b)         \
    {                                                                     \
        const F va = (F)a, vb = (F)b;                                     \
        return DZ_LANES(T, N, dz_##S##_##OP(va[i], vb[i]));               \
    }                                                                     \
    static inline dz_v128 dz_##SHAPE##_relaxed_##OP(dz_v128 a, dz_v128 b) \
    {                                                                     \
        return dz_##SHAPE##_##OP(a, b);                                   \
    }

#define X(SHAPE, S, T, N, F, U, SIGN)                                                 \
    DZ_SIMD_COMPARE(SHAPE##_eq, F, ==)                                                \
    DZ_SIMD_COMPARE(SHAPE##_ne, F, !=)                                                \
    DZ_SIMD_COMPARE(SHAPE##_lt, F, <)                                                 \
    DZ_SIMD_COMPARE(SHAPE##_gt, F, >)                                                 \
    DZ_SIMD_COMPARE(SHAPE##_le, F, <=)                                                \
    DZ_SIMD_COMPARE(SHAPE##_ge, F, >=)                                                \
    DZ_SIMD_FLOAT_BINARY(SHAPE##_add, F, +)                                           \
    DZ_SIMD_FLOAT_BINARY(SHAPE##_sub, F, -)                                           \
    DZ_SIMD_FLOAT_BINARY(SHAPE##_mul, F, *)                                           \
    DZ_SIMD_FLOAT_BINARY(SHAPE##_div, F, /)                                           \
    DZ_SIMD_FLOAT_LANES_1(SHAPE, S, ceil, T, N, F)                                    \
    DZ_SIMD_FLOAT_LANES_1(SHAPE, S, floor, T, N, F)                                   \
    DZ_SIMD_FLOAT_LANES_1(SHAPE, S, trunc, T, N, F)                                   \
    DZ_SIMD_FLOAT_LANES_1(SHAPE, S, nearest, T, N, F)                                 \
    DZ_SIMD_FLOAT_LANES_1(SHAPE, S, sqrt, T, N, F)                                    \
    DZ_SIMD_FLOAT_LANES_2(SHAPE, S, min, T, N, F)                                     \
    DZ_SIMD_FLOAT_LANES_2(SHAPE, S, max, T, N, F)                                     \
    static inline dz_v128 dz_##SHAPE##_neg(dz_v128 a)                                 \
    {                                                                                 \
        return (dz_v128)((U)a ^ (SIGN));                                              \
    }                                                                                 \
    static inline dz_v128 dz_##SHAPE##_abs(dz_v128 a)                                 \
    {                                                                                 \
        return (dz_v128)((U)a & ~(SIGN));                                             \
    }                                                                                 \
    /* pmin and pmax choose an operand whole: NaN and -0 as the comparison has it */  \
    static inline dz_v128 dz_##SHAPE##_pmin(dz_v128 a, dz_v128 b)                     \
    {                                                                                 \
        return dz_v128_bitselect(b, a, dz_##SHAPE##_lt(b, a));                        \
    }                                                                                 \
    static inline dz_v128 dz_##SHAPE##_pmax(dz_v128 a, dz_v128 b)                     \
    {                                                                                 \
        return dz_v128_bitselect(b, a, dz_##SHAPE##_lt(a, b));                        \
    }                                                                                 \
    static inline dz_v128 dz_##SHAPE##_relaxed_madd(dz_v128 a, dz_v128 b, dz_v128 c)  \
    {                                                                                 \
        return dz_##SHAPE##_add(dz_##SHAPE##_mul(a, b), c);                           \
    }                                                                                 \
    static inline dz_v128 dz_##SHAPE##_relaxed_nmadd(dz_v128 a, dz_v128 b, dz_v128 c) \
    {                                                                                 \
        return dz_##SHAPE##_add(dz_##SHAPE##_mul(dz_##SHAPE##_neg(a), b), c);         \
    }
DZ_SIMD_FLOAT_MAP(X)
#undef X

/* --- conversions ------------------------------------------------------------------------ */

/* NAME, vector of the operand, lane type and count of the result, EXPR of v and i */
#define DZ_SIMD_CONVERT(NAME, V, R, N, EXPR)   \
    static inline dz_v128 dz_##NAME(dz_v128 a) \
    {                                          \
        const V v = (V)a;                      \
        return DZ_LANES(R, N, EXPR);           \
    }
DZ_SIMD_CONVERT(i32x4_trunc_sat_f32x4_s, dz_f32x4, uint32_t, 4, dz_i32_trunc_sat_f32_s(v[i]))
DZ_SIMD_CONVERT(i32x4_trunc_sat_f32x4_u, dz_f32x4, uint32_t, 4, dz_i32_trunc_sat_f32_u(v[i]))
DZ_SIMD_CONVERT(i32x4_trunc_sat_f64x2_s_zero, dz_f64x2, uint32_t, 4,
                i < 2 ? dz_i32_trunc_sat_f64_s(v[i]) : 0)
DZ_SIMD_CONVERT(i32x4_trunc_sat_f64x2_u_zero, dz_f64x2, uint32_t, 4,
                i < 2 ? dz_i32_trunc_sat_f64_u(v[i]) : 0)
DZ_SIMD_CONVERT(f32x4_convert_i32x4_s, dz_u32x4, float, 4, dz_f32_convert_i32_s(v[i]))
DZ_SIMD_CONVERT(f32x4_convert_i32x4_u, dz_u32x4, float, 4, dz_f32_convert_i32_u(v[i]))
DZ_SIMD_CONVERT(f64x2_convert_low_i32x4_s, dz_u32x4, double, 2, dz_f64_convert_i32_s(v[i]))
DZ_SIMD_CONVERT(f64x2_convert_low_i32x4_u, dz_u32x4, double, 2, dz_f64_convert_i32_u(v[i]))
DZ_SIMD_CONVERT(f32x4_demote_f64x2_zero, dz_f64x2, float, 4, i < 2 ? dz_f32_demote_f64(v[i]) : 0)
DZ_SIMD_CONVERT(f64x2_promote_low_f32x4, dz_f32x4, double, 2, dz_f64_promote_f32(v[i]))
#undef DZ_SIMD_CONVERT

#define DZ_SIMD_RELAXED_TRUNC(FROM)                                \
    static inline dz_v128 dz_i32x4_relaxed_trunc_##FROM(dz_v128 a) \
    {                                                              \
        return dz_i32x4_trunc_sat_##FROM(a);                       \
    }
DZ_SIMD_RELAXED_TRUNC(f32x4_s)
DZ_SIMD_RELAXED_TRUNC(f32x4_u)
DZ_SIMD_RELAXED_TRUNC(f64x2_s_zero)
DZ_SIMD_RELAXED_TRUNC(f64x2_u_zero)
#undef DZ_SIMD_RELAXED_TRUNC

#endif
