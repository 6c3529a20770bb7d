/* SPDX-License-Identifier: MIT
 *
 * wasm_num.h - the numeric instructions of WebAssembly as C functions.
 *
 * One function for each scalar instruction whose meaning is not that of one C
 * operator. They are named after the instruction (i32.trunc_sat_f32_s is
 * dz_i32_trunc_sat_f32_s), take and give integers as unsigned and never have
 * undefined behaviour. Instructions that are not here (add, mul, and, eq, f32.add, ...) are the C
 * operator on uint32_t, uint64_t, float or double.
 *
 * Traps: an instruction that can trap comes in pairs. dz_X_ok() says whether
 * the operands have a result, and only then dz_X() may be called; the caller
 * raises the trap. dz_i32_div_s_overflows() tells the two traps of a signed
 * division apart.
 *
 * NaN: min, max and the roundings turn a NaN operand into a quiet one with the
 * same payload, so a canonical NaN stays canonical, which is what the
 * specification allows. neg, abs and copysign change the sign bit and nothing
 * else, even of a signalling NaN. Built with -ffp-contract=off -fno-math-errno,
 * never with -ffast-math, in the default rounding mode.
 */
#ifndef DZ_WASM_NUM_H
#define DZ_WASM_NUM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* --- bits ------------------------------------------------------------------ */

static inline uint32_t dz_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline uint64_t dz_f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float dz_f32_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static inline double dz_f64_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* --- integers, for N bits ---------------------------------------------------- */

#define DZ_NUM_INT(N, CLZ, CTZ, POPCOUNT)                                                 \
    static inline uint##N##_t dz_i##N##_clz(uint##N##_t a)                                \
    {                                                                                     \
        return a ? (uint##N##_t)CLZ(a) : N;                                               \
    }                                                                                     \
    static inline uint##N##_t dz_i##N##_ctz(uint##N##_t a)                                \
    {                                                                                     \
        return a ? (uint##N##_t)CTZ(a) : N;                                               \
    }                                                                                     \
    static inline uint##N##_t dz_i##N##_popcnt(uint##N##_t a)                             \
    {                                                                                     \
        return (uint##N##_t)POPCOUNT(a);                                                  \
    }                                                                                     \
    static inline uint##N##_t dz_i##N##_shl(uint##N##_t a, uint##N##_t b)                 \
    {                                                                                     \
        return a << (b & (N - 1));                                                        \
    }                                                                                     \
    static inline uint##N##_t dz_i##N##_shr_u(uint##N##_t a, uint##N##_t b)               \
    {                                                                                     \
        return a >> (b & (N - 1));                                                        \
    }                                                                                     \
    static inline uint##N##_t dz_i##N##_shr_s(uint##N##_t a, uint##N##_t b)               \
    {                                                                                     \
        return (uint##N##_t)((int##N##_t)a >> (b & (N - 1)));                             \
    }                                                                                     \
    static inline uint##N##_t dz_i##N##_rotl(uint##N##_t a, uint##N##_t b)                \
    {                                                                                     \
        return a << (b & (N - 1)) | a >> (-b & (N - 1));                                  \
    }                                                                                     \
    static inline uint##N##_t dz_i##N##_rotr(uint##N##_t a, uint##N##_t b)                \
    {                                                                                     \
        return a >> (b & (N - 1)) | a << (-b & (N - 1));                                  \
    }                                                                                     \
    /* the divisions: ok is b != 0 && !overflows for div_s, b != 0 for the other three */ \
    static inline bool dz_i##N##_div_s_overflows(uint##N##_t a, uint##N##_t b)            \
    {                                                                                     \
        return a == (uint##N##_t)INT##N##_MIN && b == UINT##N##_MAX;                      \
    }                                                                                     \
    static inline bool dz_i##N##_div_s_ok(uint##N##_t a, uint##N##_t b)                   \
    {                                                                                     \
        return b != 0 && !dz_i##N##_div_s_overflows(a, b);                                \
    }                                                                                     \
    static inline uint##N##_t dz_i##N##_div_s(uint##N##_t a, uint##N##_t b)               \
    {                                                                                     \
        return (uint##N##_t)((int##N##_t)a / (int##N##_t)b);                              \
    }                                                                                     \
    static inline uint##N##_t dz_i##N##_rem_s(uint##N##_t a, uint##N##_t b)               \
    {                                                                                     \
        return b == UINT##N##_MAX ? 0 : (uint##N##_t)((int##N##_t)a % (int##N##_t)b);     \
    }

DZ_NUM_INT(32, __builtin_clz, __builtin_ctz, __builtin_popcount)
DZ_NUM_INT(64, __builtin_clzll, __builtin_ctzll, __builtin_popcountll)
#undef DZ_NUM_INT

static inline uint32_t dz_i32_extend8_s(uint32_t a)
{
    return (uint32_t)(int32_t)(int8_t)a;
}
static inline uint32_t dz_i32_extend16_s(uint32_t a)
{
    return (uint32_t)(int32_t)(int16_t)a;
}
static inline uint64_t dz_i64_extend8_s(uint64_t a)
{
    return (uint64_t)(int64_t)(int8_t)a;
}
static inline uint64_t dz_i64_extend16_s(uint64_t a)
{
    return (uint64_t)(int64_t)(int16_t)a;
}
static inline uint64_t dz_i64_extend32_s(uint64_t a)
{
    return (uint64_t)(int64_t)(int32_t)a;
}
static inline uint64_t dz_i64_extend_i32_s(uint32_t a)
{
    return (uint64_t)(int64_t)(int32_t)a;
}

/* --- floats ------------------------------------------------------------------ */

/* Without SSE4.1 a libm call would do the roundings; they are short enough to
 * stand here. From LIMIT (2 to the number of fraction bits) on every float is
 * an integer. Adding and taking away LIMIT rounds a smaller one to nearest,
 * ties to even. The quiet bit is set by hand, since x + 0 may be folded to x. */
#define DZ_NUM_FLOAT(F, T, I, LIMIT, QUIET, S)                         \
    static inline T dz_##F##_neg(T a)                                  \
    {                                                                  \
        return -a;                                                     \
    }                                                                  \
    static inline T dz_##F##_abs(T a)                                  \
    {                                                                  \
        return __builtin_fabs##S(a);                                   \
    }                                                                  \
    static inline T dz_##F##_copysign(T a, T b)                        \
    {                                                                  \
        return __builtin_copysign##S(a, b);                            \
    }                                                                  \
    static inline T dz_##F##_sqrt(T a)                                 \
    {                                                                  \
        return __builtin_sqrt##S(a);                                   \
    }                                                                  \
    static inline T dz_##F##_min(T a, T b)                             \
    {                                                                  \
        if (a < b)                                                     \
            return a;                                                  \
        if (b < a)                                                     \
            return b;                                                  \
        if (a == b) /* zeros of either sign, or the same bits */       \
            return dz_##F##_of(dz_##F##_bits(a) | dz_##F##_bits(b));   \
        return a + b;                                                  \
    }                                                                  \
    static inline T dz_##F##_max(T a, T b)                             \
    {                                                                  \
        if (a > b)                                                     \
            return a;                                                  \
        if (b > a)                                                     \
            return b;                                                  \
        if (a == b)                                                    \
            return dz_##F##_of(dz_##F##_bits(a) & dz_##F##_bits(b));   \
        return a + b;                                                  \
    }                                                                  \
    static inline T dz_##F##_trunc(T a)                                \
    {                                                                  \
        if (!(__builtin_fabs##S(a) < LIMIT))                           \
            return a == a ? a : dz_##F##_of(dz_##F##_bits(a) | QUIET); \
        return __builtin_copysign##S((T)(I)a, a);                      \
    }                                                                  \
    static inline T dz_##F##_floor(T a)                                \
    {                                                                  \
        T t = dz_##F##_trunc(a);                                       \
        return t > a ? t - 1 : t;                                      \
    }                                                                  \
    static inline T dz_##F##_ceil(T a)                                 \
    {                                                                  \
        T t = dz_##F##_trunc(a);                                       \
        return t < a ? t + 1 : t;                                      \
    }                                                                  \
    static inline T dz_##F##_nearest(T a)                              \
    {                                                                  \
        T m = __builtin_fabs##S(a);                                    \
        if (!(m < LIMIT))                                              \
            return a == a ? a : dz_##F##_of(dz_##F##_bits(a) | QUIET); \
        return __builtin_copysign##S((m + LIMIT) - LIMIT, a);          \
    }

DZ_NUM_FLOAT(f32, float, int32_t, 0x1p23f, UINT32_C(0x400000), f)
DZ_NUM_FLOAT(f64, double, int64_t, 0x1p52, UINT64_C(1) << 51, )
#undef DZ_NUM_FLOAT

static inline float dz_f32_demote_f64(double a)
{
    return (float)a;
}
static inline double dz_f64_promote_f32(float a)
{
    return (double)a;
}

/* --- float to integer -------------------------------------------------------- */

/* X(name, result, C type to cast to, operand, at least or above, low, high, value below, value
 * above): the operand has a result when it is LOW_OP low and < high. Both ends are exact in the
 * operand's type; where INT_MIN - 1 is not, INT_MIN itself is the lowest. */
#define DZ_NUM_TRUNC_MAP(X)                                                                  \
    X(i32, f32_s, uint32_t, int32_t, float, >=, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX)     \
    X(i32, f32_u, uint32_t, uint32_t, float, >, -1.0f, 0x1p32f, 0, UINT32_MAX)               \
    X(i32, f64_s, uint32_t, int32_t, double, >, -2147483649.0, 0x1p31, INT32_MIN, INT32_MAX) \
    X(i32, f64_u, uint32_t, uint32_t, double, >, -1.0, 0x1p32, 0, UINT32_MAX)                \
    X(i64, f32_s, uint64_t, int64_t, float, >=, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX)     \
    X(i64, f32_u, uint64_t, uint64_t, float, >, -1.0f, 0x1p64f, 0, UINT64_MAX)               \
    X(i64, f64_s, uint64_t, int64_t, double, >=, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)      \
    X(i64, f64_u, uint64_t, uint64_t, double, >, -1.0, 0x1p64, 0, UINT64_MAX)

/* dz_i32_trunc_f32_s_ok(x): false for NaN (trap "invalid conversion to integer") and for a
 * number out of range (trap "integer overflow"); the caller tells them apart by x != x. */
#define X(I, FROM, U, C, F, AT, LOW, HIGH, BELOW, ABOVE)    \
    static inline bool dz_##I##_trunc_##FROM##_ok(F a)      \
    {                                                       \
        return a AT LOW && a < HIGH;                        \
    }                                                       \
    static inline U dz_##I##_trunc_##FROM(F a)              \
    {                                                       \
        return (U)(C)a;                                     \
    }                                                       \
    static inline U dz_##I##_trunc_sat_##FROM(F a)          \
    {                                                       \
        if (dz_##I##_trunc_##FROM##_ok(a))                  \
            return (U)(C)a;                                 \
        return a < 0 ? (U)(BELOW) : a > 0 ? (U)(ABOVE) : 0; \
    }
DZ_NUM_TRUNC_MAP(X)
#undef X
#undef DZ_NUM_TRUNC_MAP

/* --- integer to float -------------------------------------------------------- */

static inline float dz_f32_convert_i32_s(uint32_t a)
{
    return (float)(int32_t)a;
}
static inline float dz_f32_convert_i32_u(uint32_t a)
{
    return (float)a;
}
static inline float dz_f32_convert_i64_s(uint64_t a)
{
    return (float)(int64_t)a;
}
static inline float dz_f32_convert_i64_u(uint64_t a)
{
    return (float)a;
}
static inline double dz_f64_convert_i32_s(uint32_t a)
{
    return (double)(int32_t)a;
}
static inline double dz_f64_convert_i32_u(uint32_t a)
{
    return (double)a;
}
static inline double dz_f64_convert_i64_s(uint64_t a)
{
    return (double)(int64_t)a;
}
static inline double dz_f64_convert_i64_u(uint64_t a)
{
    return (double)a;
}

#endif
