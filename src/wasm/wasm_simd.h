/* SPDX-License-Identifier: MIT
 *
 * wasm_simd.h - the vector instructions of WebAssembly as C functions.
 *
 * dz_v128 is the value; one function for each row of wasm_simd_map.h, named
 * after the instruction, plus load, store and shuffle. Lanes are numbered from
 * the least significant byte, as in memory; doze runs on little-endian hosts
 * only. Written with the vector extensions that gcc and clang share: no
 * intrinsics, so every host and every sanitizer builds the same lines. Where C
 * has no operator for a whole vector, a loop over the lanes says what is meant
 * and the compiler decides.
 *
 * No function has undefined behaviour: sums and products are made in unsigned
 * or in a wider type, shift counts are taken modulo the lane's width, a lane
 * index must have been checked by the validator.
 *
 * Relaxed instructions give one fixed result here, on every host, so that a
 * program suspended on one machine resumes alike on another: an out-of-range
 * swizzle index selects 0, truncations saturate, madd and nmadd round twice,
 * laneselect selects bit by bit, min and max are those of f32x4.min and max,
 * q15mulr saturates, the dot products take both operands as signed and wrap.
 * The float instructions are in wasm_simd_float.h.
 */
#ifndef DZ_WASM_SIMD_H
#define DZ_WASM_SIMD_H

#include "wasm/wasm_num.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "lanes are laid out as in memory");

#define DZ_VECTOR(T) __attribute__((vector_size(16))) T
typedef DZ_VECTOR(int8_t) dz_i8x16;
typedef DZ_VECTOR(uint8_t) dz_u8x16;
typedef DZ_VECTOR(int16_t) dz_i16x8;
typedef DZ_VECTOR(uint16_t) dz_u16x8;
typedef DZ_VECTOR(int32_t) dz_i32x4;
typedef DZ_VECTOR(uint32_t) dz_u32x4;
typedef DZ_VECTOR(int64_t) dz_i64x2;
typedef DZ_VECTOR(uint64_t) dz_u64x2;
typedef DZ_VECTOR(float) dz_f32x4;
typedef DZ_VECTOR(double) dz_f64x2;

/* A cast between two of these keeps the bits. */
typedef dz_u64x2 dz_v128;

/* The vector whose N lanes of type R are EXPR, which sees the lane's number as i. */
#define DZ_LANES(R, N, EXPR)          \
    ({                                \
        DZ_VECTOR(R) lanes_ = {0};    \
        for (int i = 0; i < (N); i++) \
            lanes_[i] = (R)(EXPR);    \
        (dz_v128) lanes_;             \
    })

/* --- memory, whole vectors ------------------------------------------------------ */

static inline dz_v128 dz_v128_load(const void *p)
{
    dz_v128 v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void dz_v128_store(void *p, dz_v128 v)
{
    memcpy(p, &v, sizeof v);
}

static inline dz_v128 dz_v128_not(dz_v128 a)
{
    return ~a;
}
static inline dz_v128 dz_v128_and(dz_v128 a, dz_v128 b)
{
    return a & b;
}
static inline dz_v128 dz_v128_andnot(dz_v128 a, dz_v128 b)
{
    return a & ~b;
}
static inline dz_v128 dz_v128_or(dz_v128 a, dz_v128 b)
{
    return a | b;
}
static inline dz_v128 dz_v128_xor(dz_v128 a, dz_v128 b)
{
    return a ^ b;
}
static inline dz_v128 dz_v128_bitselect(dz_v128 a, dz_v128 b, dz_v128 mask)
{
    return (a & mask) | (b & ~mask);
}
static inline uint32_t dz_v128_any_true(dz_v128 a)
{
    return (a[0] | a[1]) != 0;
}

/* --- loads that widen, splat or pad; lanes in memory ------------------------------- */

/* BYTES holds what was read, first byte lowest. */
#define DZ_SIMD_LOAD_WIDEN(NAME, FROM, TO, N)                    \
    static inline dz_v128 dz_v128_##NAME(uint64_t bytes)         \
    {                                                            \
        return DZ_LANES(TO, N, (FROM)(bytes >> i * (64 / (N)))); \
    }
DZ_SIMD_LOAD_WIDEN(load8x8_s, int8_t, int16_t, 8)
DZ_SIMD_LOAD_WIDEN(load8x8_u, uint8_t, uint16_t, 8)
DZ_SIMD_LOAD_WIDEN(load16x4_s, int16_t, int32_t, 4)
DZ_SIMD_LOAD_WIDEN(load16x4_u, uint16_t, uint32_t, 4)
DZ_SIMD_LOAD_WIDEN(load32x2_s, int32_t, int64_t, 2)
DZ_SIMD_LOAD_WIDEN(load32x2_u, uint32_t, uint64_t, 2)
#undef DZ_SIMD_LOAD_WIDEN

static inline dz_v128 dz_v128_load32_zero(uint64_t bytes)
{
    return (dz_v128){(uint32_t)bytes, 0};
}
static inline dz_v128 dz_v128_load64_zero(uint64_t bytes)
{
    return (dz_v128){bytes, 0};
}

#define DZ_SIMD_MEMORY_LANE(BITS, V)                                                          \
    static inline dz_v128 dz_v128_load##BITS##_splat(uint64_t bytes)                          \
    {                                                                                         \
        return DZ_LANES(uint##BITS##_t, 128 / BITS, bytes);                                   \
    }                                                                                         \
    static inline dz_v128 dz_v128_load##BITS##_lane(uint64_t bytes, dz_v128 v, unsigned lane) \
    {                                                                                         \
        V a = (V)v;                                                                           \
        a[lane] = (uint##BITS##_t)bytes;                                                      \
        return (dz_v128)a;                                                                    \
    }                                                                                         \
    static inline uint64_t dz_v128_store##BITS##_lane(dz_v128 v, unsigned lane)               \
    {                                                                                         \
        return ((V)v)[lane];                                                                  \
    }
DZ_SIMD_MEMORY_LANE(8, dz_u8x16)
DZ_SIMD_MEMORY_LANE(16, dz_u16x8)
DZ_SIMD_MEMORY_LANE(32, dz_u32x4)
DZ_SIMD_MEMORY_LANE(64, dz_u64x2)
#undef DZ_SIMD_MEMORY_LANE

/* --- shuffles ------------------------------------------------------------------------ */

/* Byte i of the result is byte pick[i] of a followed by b; pick[i] < 32. */
static inline dz_v128 dz_i8x16_shuffle(dz_v128 a, dz_v128 b, const uint8_t pick[16])
{
    uint8_t both[32];
    dz_v128_store(both, a);
    dz_v128_store(both + 16, b);
    return DZ_LANES(uint8_t, 16, both[pick[i] & 31]);
}
static inline dz_v128 dz_i8x16_swizzle(dz_v128 a, dz_v128 b)
{
    uint8_t from[16];
    dz_u8x16 pick = (dz_u8x16)b;
    dz_v128_store(from, a);
    return DZ_LANES(uint8_t, 16, pick[i] < 16 ? from[pick[i]] : 0);
}
static inline dz_v128 dz_i8x16_relaxed_swizzle(dz_v128 a, dz_v128 b)
{
    return dz_i8x16_swizzle(a, b);
}

/* --- scalars in and out --------------------------------------------------------------- */

/* EXT is the type through which a narrow lane widens to the result. */
#define DZ_SIMD_EXTRACT(NAME, V, EXT, R)                \
    static inline R dz_##NAME(dz_v128 a, unsigned lane) \
    {                                                   \
        return (R)(EXT)((V)a)[lane];                    \
    }
DZ_SIMD_EXTRACT(i8x16_extract_lane_s, dz_i8x16, int32_t, uint32_t)
DZ_SIMD_EXTRACT(i8x16_extract_lane_u, dz_u8x16, uint32_t, uint32_t)
DZ_SIMD_EXTRACT(i16x8_extract_lane_s, dz_i16x8, int32_t, uint32_t)
DZ_SIMD_EXTRACT(i16x8_extract_lane_u, dz_u16x8, uint32_t, uint32_t)
DZ_SIMD_EXTRACT(i32x4_extract_lane, dz_u32x4, uint32_t, uint32_t)
DZ_SIMD_EXTRACT(i64x2_extract_lane, dz_u64x2, uint64_t, uint64_t)
DZ_SIMD_EXTRACT(f32x4_extract_lane, dz_f32x4, float, float)
DZ_SIMD_EXTRACT(f64x2_extract_lane, dz_f64x2, double, double)
#undef DZ_SIMD_EXTRACT

#define DZ_SIMD_INSERT(SHAPE, V, LANE, N, T)                                       \
    static inline dz_v128 dz_##SHAPE##_splat(T x)                                  \
    {                                                                              \
        return DZ_LANES(LANE, N, x);                                               \
    }                                                                              \
    static inline dz_v128 dz_##SHAPE##_replace_lane(dz_v128 v, T x, unsigned lane) \
    {                                                                              \
        V a = (V)v;                                                                \
        a[lane] = (LANE)x;                                                         \
        return (dz_v128)a;                                                         \
    }
DZ_SIMD_INSERT(i8x16, dz_u8x16, uint8_t, 16, uint32_t)
DZ_SIMD_INSERT(i16x8, dz_u16x8, uint16_t, 8, uint32_t)
DZ_SIMD_INSERT(i32x4, dz_u32x4, uint32_t, 4, uint32_t)
DZ_SIMD_INSERT(i64x2, dz_u64x2, uint64_t, 2, uint64_t)
DZ_SIMD_INSERT(f32x4, dz_f32x4, float, 4, float)
DZ_SIMD_INSERT(f64x2, dz_f64x2, double, 2, double)
#undef DZ_SIMD_INSERT

/* --- integers: what every lane width has ---------------------------------------------- */

/* SHAPE, its signed and unsigned vectors, lane types and count, bits of a lane. */
#define DZ_SIMD_INT_MAP(X)                                 \
    X(i8x16, dz_i8x16, dz_u8x16, int8_t, uint8_t, 16, 8)   \
    X(i16x8, dz_i16x8, dz_u16x8, int16_t, uint16_t, 8, 16) \
    X(i32x4, dz_i32x4, dz_u32x4, int32_t, uint32_t, 4, 32) \
    X(i64x2, dz_i64x2, dz_u64x2, int64_t, uint64_t, 2, 64)

#define X(SHAPE, S, U, LS, LU, N, BITS)                                                       \
    static inline dz_v128 dz_##SHAPE##_add(dz_v128 a, dz_v128 b)                              \
    {                                                                                         \
        return (dz_v128)((U)a + (U)b);                                                        \
    }                                                                                         \
    static inline dz_v128 dz_##SHAPE##_sub(dz_v128 a, dz_v128 b)                              \
    {                                                                                         \
        return (dz_v128)((U)a - (U)b);                                                        \
    }                                                                                         \
    static inline dz_v128 dz_##SHAPE##_neg(dz_v128 a)                                         \
    {                                                                                         \
        return (dz_v128)((U){0} - (U)a);                                                      \
    }                                                                                         \
    static inline dz_v128 dz_##SHAPE##_abs(dz_v128 a)                                         \
    {                                                                                         \
        U sign = (U)((S)a < (S){0});                                                          \
        return (dz_v128)(((U)a ^ sign) - sign);                                               \
    }                                                                                         \
    static inline dz_v128 dz_##SHAPE##_shl(dz_v128 a, uint32_t n)                             \
    {                                                                                         \
        return (dz_v128)((U)a << (LU)(n & (BITS - 1)));                                       \
    }                                                                                         \
    static inline dz_v128 dz_##SHAPE##_shr_u(dz_v128 a, uint32_t n)                           \
    {                                                                                         \
        return (dz_v128)((U)a >> (LU)(n & (BITS - 1)));                                       \
    }                                                                                         \
    static inline dz_v128 dz_##SHAPE##_shr_s(dz_v128 a, uint32_t n)                           \
    {                                                                                         \
        return (dz_v128)((S)a >> (LS)(n & (BITS - 1)));                                       \
    }                                                                                         \
    static inline uint32_t dz_##SHAPE##_all_true(dz_v128 a)                                   \
    {                                                                                         \
        return !dz_v128_any_true((dz_v128)((U)a == (U){0}));                                  \
    }                                                                                         \
    static inline uint32_t dz_##SHAPE##_bitmask(dz_v128 a)                                    \
    {                                                                                         \
        uint32_t mask = 0;                                                                    \
        for (int i = 0; i < N; i++)                                                           \
            mask |= (uint32_t)(((S)a)[i] < 0) << i;                                           \
        return mask;                                                                          \
    }                                                                                         \
    static inline dz_v128 dz_##SHAPE##_relaxed_laneselect(dz_v128 a, dz_v128 b, dz_v128 mask) \
    {                                                                                         \
        return dz_v128_bitselect(a, b, mask);                                                 \
    }
DZ_SIMD_INT_MAP(X)
#undef X

/* A comparison sets every bit of a lane, or none. */
#define DZ_SIMD_COMPARE(NAME, V, OP)                      \
    static inline dz_v128 dz_##NAME(dz_v128 a, dz_v128 b) \
    {                                                     \
        return (dz_v128)((V)a OP(V) b);                   \
    }
#define X(SHAPE, S, U, LS, LU, N, BITS)  \
    DZ_SIMD_COMPARE(SHAPE##_eq, U, ==)   \
    DZ_SIMD_COMPARE(SHAPE##_ne, U, !=)   \
    DZ_SIMD_COMPARE(SHAPE##_lt_s, S, <)  \
    DZ_SIMD_COMPARE(SHAPE##_lt_u, U, <)  \
    DZ_SIMD_COMPARE(SHAPE##_gt_s, S, >)  \
    DZ_SIMD_COMPARE(SHAPE##_gt_u, U, >)  \
    DZ_SIMD_COMPARE(SHAPE##_le_s, S, <=) \
    DZ_SIMD_COMPARE(SHAPE##_le_u, U, <=) \
    DZ_SIMD_COMPARE(SHAPE##_ge_s, S, >=) \
    DZ_SIMD_COMPARE(SHAPE##_ge_u, U, >=)
DZ_SIMD_INT_MAP(X)
#undef X

/* i64x2 has neither min nor max; i8x16 has no mul. The instruction set decides
 * through wasm_simd_map.h; a function without a row costs nothing. */
#define X(SHAPE, S, U, LS, LU, N, BITS)                            \
    static inline dz_v128 dz_##SHAPE##_min_s(dz_v128 a, dz_v128 b) \
    {                                                              \
        return dz_v128_bitselect(a, b, dz_##SHAPE##_lt_s(a, b));   \
    }                                                              \
    static inline dz_v128 dz_##SHAPE##_min_u(dz_v128 a, dz_v128 b) \
    {                                                              \
        return dz_v128_bitselect(a, b, dz_##SHAPE##_lt_u(a, b));   \
    }                                                              \
    static inline dz_v128 dz_##SHAPE##_max_s(dz_v128 a, dz_v128 b) \
    {                                                              \
        return dz_v128_bitselect(a, b, dz_##SHAPE##_gt_s(a, b));   \
    }                                                              \
    static inline dz_v128 dz_##SHAPE##_max_u(dz_v128 a, dz_v128 b) \
    {                                                              \
        return dz_v128_bitselect(a, b, dz_##SHAPE##_gt_u(a, b));   \
    }
DZ_SIMD_INT_MAP(X)
#undef X

/* uint16_t would become int, whose product of two can overflow. */
static inline dz_v128 dz_i16x8_mul(dz_v128 a, dz_v128 b)
{
    return (dz_v128)((dz_u16x8)a * (dz_u16x8)b);
}
static inline dz_v128 dz_i32x4_mul(dz_v128 a, dz_v128 b)
{
    return (dz_v128)((dz_u32x4)a * (dz_u32x4)b);
}
static inline dz_v128 dz_i64x2_mul(dz_v128 a, dz_v128 b)
{
    return a * b;
}

static inline dz_v128 dz_i8x16_popcnt(dz_v128 a)
{
    const dz_u8x16 v = (dz_u8x16)a;
    return DZ_LANES(uint8_t, 16, __builtin_popcount(v[i]));
}

/* --- integers: saturating, averaging, narrowing, 8 and 16 bits --------------------------- */

#define DZ_SIMD_CLAMP(X, LOW, HIGH) ((X) < (LOW) ? (LOW) : (X) > (HIGH) ? (HIGH) : (X))

/* The lanes of a function of two vectors, computed as int. */
#define DZ_SIMD_LANEWISE(NAME, V, R, N, EXPR)               \
    static inline dz_v128 dz_##NAME(dz_v128 va, dz_v128 vb) \
    {                                                       \
        const V a = (V)va, b = (V)vb;                       \
        return DZ_LANES(R, N, EXPR);                        \
    }
DZ_SIMD_LANEWISE(i8x16_add_sat_s, dz_i8x16, int8_t, 16, DZ_SIMD_CLAMP(a[i] + b[i], -128, 127))
DZ_SIMD_LANEWISE(i8x16_add_sat_u, dz_u8x16, uint8_t, 16, DZ_SIMD_CLAMP(a[i] + b[i], 0, 255))
DZ_SIMD_LANEWISE(i8x16_sub_sat_s, dz_i8x16, int8_t, 16, DZ_SIMD_CLAMP(a[i] - b[i], -128, 127))
DZ_SIMD_LANEWISE(i8x16_sub_sat_u, dz_u8x16, uint8_t, 16, DZ_SIMD_CLAMP(a[i] - b[i], 0, 255))
DZ_SIMD_LANEWISE(i16x8_add_sat_s, dz_i16x8, int16_t, 8, DZ_SIMD_CLAMP(a[i] + b[i], -32768, 32767))
DZ_SIMD_LANEWISE(i16x8_add_sat_u, dz_u16x8, uint16_t, 8, DZ_SIMD_CLAMP(a[i] + b[i], 0, 65535))
DZ_SIMD_LANEWISE(i16x8_sub_sat_s, dz_i16x8, int16_t, 8, DZ_SIMD_CLAMP(a[i] - b[i], -32768, 32767))
DZ_SIMD_LANEWISE(i16x8_sub_sat_u, dz_u16x8, uint16_t, 8, DZ_SIMD_CLAMP(a[i] - b[i], 0, 65535))
DZ_SIMD_LANEWISE(i8x16_avgr_u, dz_u8x16, uint8_t, 16, (a[i] + b[i] + 1) >> 1)
DZ_SIMD_LANEWISE(i16x8_avgr_u, dz_u16x8, uint16_t, 8, (a[i] + b[i] + 1) >> 1)
DZ_SIMD_LANEWISE(i16x8_q15mulr_sat_s, dz_i16x8, int16_t, 8,
                 DZ_SIMD_CLAMP((a[i] * b[i] + 0x4000) >> 15, -32768, 32767))

/* Narrowing reads both operands as signed: the low half of the result is a. */
#define DZ_SIMD_NARROW(NAME, V, R, N, LOW, HIGH) \
    DZ_SIMD_LANEWISE(NAME, V, R, N, DZ_SIMD_CLAMP(i < (N) / 2 ? a[i] : b[i - (N) / 2], LOW, HIGH))
DZ_SIMD_NARROW(i8x16_narrow_i16x8_s, dz_i16x8, int8_t, 16, -128, 127)
DZ_SIMD_NARROW(i8x16_narrow_i16x8_u, dz_i16x8, uint8_t, 16, 0, 255)
DZ_SIMD_NARROW(i16x8_narrow_i32x4_s, dz_i32x4, int16_t, 8, -32768, 32767)
DZ_SIMD_NARROW(i16x8_narrow_i32x4_u, dz_i32x4, uint16_t, 8, 0, 65535)
#undef DZ_SIMD_NARROW

/* --- integers: widening ------------------------------------------------------------------ */

/* R lanes twice as wide as those of V; SIGN is s or u. */
#define DZ_SIMD_WIDEN(TO, FROM, SIGN, V, R, N)                                    \
    static inline dz_v128 dz_##TO##_extend_low_##FROM##_##SIGN(dz_v128 va)        \
    {                                                                             \
        const V a = (V)va;                                                        \
        return DZ_LANES(R, N, a[i]);                                              \
    }                                                                             \
    static inline dz_v128 dz_##TO##_extend_high_##FROM##_##SIGN(dz_v128 va)       \
    {                                                                             \
        const V a = (V)va;                                                        \
        return DZ_LANES(R, N, a[i + (N)]);                                        \
    }                                                                             \
    DZ_SIMD_LANEWISE(TO##_extmul_low_##FROM##_##SIGN, V, R, N, (R)a[i] * (R)b[i]) \
    DZ_SIMD_LANEWISE(TO##_extmul_high_##FROM##_##SIGN, V, R, N, (R)a[i + (N)] * (R)b[i + (N)])
DZ_SIMD_WIDEN(i16x8, i8x16, s, dz_i8x16, int16_t, 8)
DZ_SIMD_WIDEN(i16x8, i8x16, u, dz_u8x16, uint16_t, 8)
DZ_SIMD_WIDEN(i32x4, i16x8, s, dz_i16x8, int32_t, 4)
DZ_SIMD_WIDEN(i32x4, i16x8, u, dz_u16x8, uint32_t, 4)
DZ_SIMD_WIDEN(i64x2, i32x4, s, dz_i32x4, int64_t, 2)
DZ_SIMD_WIDEN(i64x2, i32x4, u, dz_u32x4, uint64_t, 2)
#undef DZ_SIMD_WIDEN

#define DZ_SIMD_PAIRWISE(NAME, V, R, N)                       \
    static inline dz_v128 dz_##NAME(dz_v128 va)               \
    {                                                         \
        const V a = (V)va;                                    \
        return DZ_LANES(R, N, (R)a[2 * i] + (R)a[2 * i + 1]); \
    }
DZ_SIMD_PAIRWISE(i16x8_extadd_pairwise_i8x16_s, dz_i8x16, int16_t, 8)
DZ_SIMD_PAIRWISE(i16x8_extadd_pairwise_i8x16_u, dz_u8x16, uint16_t, 8)
DZ_SIMD_PAIRWISE(i32x4_extadd_pairwise_i16x8_s, dz_i16x8, int32_t, 4)
DZ_SIMD_PAIRWISE(i32x4_extadd_pairwise_i16x8_u, dz_u16x8, uint32_t, 4)
#undef DZ_SIMD_PAIRWISE

/* The sum of two products of -32768 is 2^31: it wraps. */
DZ_SIMD_LANEWISE(i32x4_dot_i16x8_s, dz_i16x8, uint32_t, 4,
                 (uint32_t)(a[2 * i] * b[2 * i]) + (uint32_t)(a[2 * i + 1] * b[2 * i + 1]))
DZ_SIMD_LANEWISE(i16x8_relaxed_dot_i8x16_i7x16_s, dz_i8x16, uint16_t, 8,
                 a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1])
#undef DZ_SIMD_LANEWISE

static inline dz_v128 dz_i16x8_relaxed_q15mulr_s(dz_v128 a, dz_v128 b)
{
    return dz_i16x8_q15mulr_sat_s(a, b);
}
static inline dz_v128 dz_i32x4_relaxed_dot_i8x16_i7x16_add_s(dz_v128 a, dz_v128 b, dz_v128 c)
{
    dz_v128 dot = dz_i16x8_relaxed_dot_i8x16_i7x16_s(a, b);
    return dz_i32x4_add(dz_i32x4_extadd_pairwise_i16x8_s(dot), c);
}

#include "wasm/wasm_simd_float.h"

#endif
