/* SPDX-License-Identifier: MIT
 *
 * t_wasm_num.c - the scalar numeric instructions: the edges by name, then
 * random bit patterns against a slower second definition (libm, 128 bits).
 */
#include "tap.h"
#include "wasm/wasm_num.h"

#include <math.h>

#define CHECK_BITS(got, want)                                                              \
    do {                                                                                   \
        unsigned long long g_ = (got), w_ = (want);                                        \
        if (g_ != w_) {                                                                    \
            printf("# %s:%d: %s is %#llx, not %#llx\n", __FILE__, __LINE__, #got, g_, w_); \
            tap_bad++;                                                                     \
        }                                                                                  \
    } while (0)
#define BITS32(x) dz_f32_bits(x)
#define BITS64(x) dz_f64_bits(x)

#define SNAN32  UINT32_C(0x7fa00001)
#define SNAN64  UINT64_C(0x7ff4000000000001)
#define CANON32 UINT32_C(0x7fc00000)
#define CANON64 UINT64_C(0x7ff8000000000000)

static uint64_t rng_state = 0x9e3779b97f4a7c15;

/* Random bits, half the time with few distinct exponents so that values near
 * the limits of the conversions come up. */
static uint64_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state * UINT64_C(0x2545f4914f6cdd1d);
}
static float rng_f32(void)
{
    uint64_t r = rng();
    uint32_t bits = (uint32_t)r;
    if (r >> 63)
        bits = (bits & 0x807fffff) | (uint32_t)(120 + (r >> 32) % 70) << 23;
    return dz_f32_of(bits);
}
static double rng_f64(void)
{
    uint64_t bits = rng(), r = rng();
    if (r >> 63)
        bits = (bits & 0x800fffffffffffff) | (1016 + (r >> 32) % 70) << 52;
    return dz_f64_of(bits);
}
#define ROUNDS 200000

TEST(num_counts_bits)
{
    CHECK_INT(dz_i32_clz(0), 32);
    CHECK_INT(dz_i32_ctz(0), 32);
    CHECK_INT(dz_i64_clz(0), 64);
    CHECK_INT(dz_i64_ctz(0), 64);
    CHECK_INT(dz_i32_clz(1), 31);
    CHECK_INT(dz_i32_ctz(0x80000000), 31);
    CHECK_INT(dz_i64_clz(0xffffffff), 32);
    CHECK_INT(dz_i64_ctz(UINT64_C(1) << 40), 40);
    CHECK_INT(dz_i32_popcnt(UINT32_MAX), 32);
    CHECK_INT(dz_i64_popcnt(UINT64_MAX), 64);
}

TEST(num_shifts_take_their_count_modulo_the_width)
{
    CHECK_INT(dz_i32_shl(1, 33), 2);
    CHECK_INT(dz_i32_shr_u(0x80000000, 63), 1);
    CHECK_INT(dz_i32_shr_s(0x80000000, 31), UINT32_MAX);
    CHECK_INT(dz_i64_shl(1, 65), 2);
    CHECK_BITS(dz_i64_shr_s(UINT64_C(1) << 63, 63), UINT64_MAX);
    CHECK_INT(dz_i32_rotl(0xabcd9876, 32), 0xabcd9876);
    CHECK_INT(dz_i32_rotl(0x80000001, 1), 3);
    CHECK_INT(dz_i32_rotr(0x80000001, 33), 0xc0000000);
    CHECK_BITS(dz_i64_rotl(1, 64 + 63), UINT64_C(1) << 63);
    CHECK_BITS(dz_i64_rotr(1, 0), 1);
    for (uint32_t n = 0; n < 200; n++)
        CHECK_INT(dz_i32_rotl(dz_i32_rotr(0x12345678, n), n), 0x12345678);
}

TEST(num_divides_like_the_specification)
{
    CHECK(!dz_i32_div_s_ok(1, 0));
    CHECK(!dz_i32_div_s_ok(0x80000000, UINT32_MAX));
    CHECK(dz_i32_div_s_overflows(0x80000000, UINT32_MAX));
    CHECK(!dz_i32_div_s_overflows(0x80000000, 0));
    CHECK(dz_i32_div_s_ok(0x80000000, 1));
    CHECK(!dz_i64_div_s_ok(UINT64_C(1) << 63, UINT64_MAX));
    CHECK_INT((int32_t)dz_i32_div_s((uint32_t)-7, 2), -3);
    CHECK_INT((int32_t)dz_i32_rem_s((uint32_t)-7, 2), -1);
    CHECK_INT((int32_t)dz_i32_rem_s(7, (uint32_t)-2), 1);
    CHECK_INT(dz_i32_rem_s(0x80000000, UINT32_MAX), 0);
    CHECK_INT((int64_t)dz_i64_div_s((uint64_t)-7, 2), -3);
    CHECK_INT(dz_i64_rem_s(UINT64_C(1) << 63, UINT64_MAX), 0);
}

TEST(num_extends_signs)
{
    CHECK_INT(dz_i32_extend8_s(0x180), 0xffffff80);
    CHECK_INT(dz_i32_extend16_s(0x17fff), 0x7fff);
    CHECK_BITS(dz_i64_extend8_s(0xff), UINT64_MAX);
    CHECK_BITS(dz_i64_extend16_s(0x8000), 0xffffffffffff8000);
    CHECK_BITS(dz_i64_extend32_s(0x180000000), 0xffffffff80000000);
    CHECK_BITS(dz_i64_extend_i32_s(0x80000000), 0xffffffff80000000);
}

TEST(num_min_and_max_order_zeros)
{
    CHECK_BITS(BITS32(dz_f32_min(0.0f, -0.0f)), 0x80000000);
    CHECK_BITS(BITS32(dz_f32_min(-0.0f, 0.0f)), 0x80000000);
    CHECK_BITS(BITS32(dz_f32_max(0.0f, -0.0f)), 0);
    CHECK_BITS(BITS64(dz_f64_min(0.0, -0.0)), UINT64_C(1) << 63);
    CHECK_BITS(BITS64(dz_f64_max(-0.0, 0.0)), 0);
    CHECK(dz_f32_min(1.5f, -2.5f) == -2.5f && dz_f32_max(1.5f, -2.5f) == 1.5f);
    CHECK(dz_f64_min(-HUGE_VAL, 2) == -HUGE_VAL && dz_f64_max(2, HUGE_VAL) == HUGE_VAL);
    CHECK_BITS(BITS32(dz_f32_min(-3, -3)), BITS32(-3));
}

TEST(num_nan_operands_become_quiet_and_canonical_ones_stay_canonical)
{
    float s = dz_f32_of(SNAN32), c = dz_f32_of(CANON32);
    double s64 = dz_f64_of(SNAN64), c64 = dz_f64_of(CANON64);
    float (*const two[])(float, float) = {dz_f32_min, dz_f32_max};
    for (int i = 0; i < 2; i++) {
        CHECK_BITS(BITS32(two[i](c, 1)) & INT32_MAX, CANON32);
        CHECK_BITS(BITS32(two[i](-1, c)) & INT32_MAX, CANON32);
        CHECK_BITS(BITS32(two[i](c, c)) & INT32_MAX, CANON32);
        CHECK_BITS(BITS32(two[i](s, 1)), SNAN32 | 0x400000);
    }
    float (*const one[])(float) = {dz_f32_ceil, dz_f32_floor, dz_f32_trunc, dz_f32_nearest,
                                   dz_f32_sqrt};
    for (int i = 0; i < 5; i++) {
        CHECK_BITS(BITS32(one[i](s)), SNAN32 | 0x400000);
        CHECK_BITS(BITS32(one[i](c)), CANON32);
    }
    double (*const one64[])(double) = {dz_f64_ceil, dz_f64_floor, dz_f64_trunc, dz_f64_nearest,
                                       dz_f64_sqrt};
    for (int i = 0; i < 5; i++) {
        CHECK_BITS(BITS64(one64[i](s64)), SNAN64 | UINT64_C(1) << 51);
        CHECK_BITS(BITS64(one64[i](c64)), CANON64);
    }
    CHECK_BITS(BITS32(dz_f32_demote_f64(c64)), CANON32);
    CHECK_BITS(BITS64(dz_f64_promote_f32(c)), CANON64);
    CHECK_BITS(BITS64(dz_f64_promote_f32(s)) >> 51, 0x7ff8000000000000 >> 51);
    CHECK_BITS(BITS32(dz_f32_sqrt(-1)) & INT32_MAX, CANON32);
}

TEST(num_sign_operations_leave_a_signalling_nan_alone)
{
    float s = dz_f32_of(SNAN32);
    double s64 = dz_f64_of(SNAN64);
    CHECK_BITS(BITS32(dz_f32_neg(s)), SNAN32 | 0x80000000);
    CHECK_BITS(BITS32(dz_f32_abs(dz_f32_of(SNAN32 | 0x80000000))), SNAN32);
    CHECK_BITS(BITS32(dz_f32_copysign(s, -0.0f)), SNAN32 | 0x80000000);
    CHECK_BITS(BITS64(dz_f64_neg(s64)), SNAN64 | UINT64_C(1) << 63);
    CHECK_BITS(BITS64(dz_f64_abs(dz_f64_of(SNAN64 | UINT64_C(1) << 63))), SNAN64);
    CHECK_BITS(BITS64(dz_f64_copysign(1, s64)), BITS64(1.0));
}

TEST(num_roundings_agree_with_libm)
{
    for (int i = 0; i < ROUNDS; i++) {
        float a = rng_f32();
        double d = rng_f64();
        if (a == a) {
            CHECK_BITS(BITS32(dz_f32_ceil(a)), BITS32(ceilf(a)));
            CHECK_BITS(BITS32(dz_f32_floor(a)), BITS32(floorf(a)));
            CHECK_BITS(BITS32(dz_f32_trunc(a)), BITS32(truncf(a)));
            CHECK_BITS(BITS32(dz_f32_nearest(a)), BITS32(nearbyintf(a)));
        }
        if (d == d) {
            CHECK_BITS(BITS64(dz_f64_ceil(d)), BITS64(ceil(d)));
            CHECK_BITS(BITS64(dz_f64_floor(d)), BITS64(floor(d)));
            CHECK_BITS(BITS64(dz_f64_trunc(d)), BITS64(trunc(d)));
            CHECK_BITS(BITS64(dz_f64_nearest(d)), BITS64(nearbyint(d)));
        }
    }
    CHECK_BITS(BITS32(dz_f32_nearest(-0.5f)), 0x80000000);
    CHECK(dz_f32_nearest(2.5f) == 2 && dz_f64_nearest(3.5) == 4);
    CHECK_BITS(BITS64(dz_f64_ceil(-0.1)), UINT64_C(1) << 63);
}

/* The conversion by way of an exact 128-bit integer; ok tells whether there is one. */
static uint64_t slow_trunc(double a, bool is_signed, int bits, bool *ok)
{
    __int128 low = is_signed ? -((__int128)1 << (bits - 1)) : 0;
    __int128 high = ((__int128)1 << (is_signed ? bits - 1 : bits)) - 1;
    *ok = false;
    if (a != a)
        return 0;
    if (fabs(a) < 0x1p100) {
        __int128 v = (__int128)a;
        *ok = v >= low && v <= high;
        if (*ok)
            return bits == 32 ? (uint32_t)v : (uint64_t)v;
    }
    uint64_t end = (uint64_t)(a < 0 ? low : high);
    return bits == 32 ? (uint32_t)end : end;
}

#define CHECK_TRUNC(i, from, a, is_signed, bits)                         \
    do {                                                                 \
        bool ok_;                                                        \
        uint64_t want_ = slow_trunc((double)(a), is_signed, bits, &ok_); \
        CHECK_INT(dz_##i##_trunc_##from##_ok(a), ok_);                   \
        CHECK_BITS(dz_##i##_trunc_sat_##from(a), want_);                 \
        if (ok_)                                                         \
            CHECK_BITS(dz_##i##_trunc_##from(a), want_);                 \
    } while (0)

static void check_truncs(float a, double d)
{
    CHECK_TRUNC(i32, f32_s, a, true, 32);
    CHECK_TRUNC(i32, f32_u, a, false, 32);
    CHECK_TRUNC(i32, f64_s, d, true, 32);
    CHECK_TRUNC(i32, f64_u, d, false, 32);
    CHECK_TRUNC(i64, f32_s, a, true, 64);
    CHECK_TRUNC(i64, f32_u, a, false, 64);
    CHECK_TRUNC(i64, f64_s, d, true, 64);
    CHECK_TRUNC(i64, f64_u, d, false, 64);
}

TEST(num_truncations_know_their_range)
{
    static const double edges[] = {
        0,      -0.9999999,    -1,           0x1p31,       -0x1p31,     0x1p32,   0x1p63,   -0x1p63,
        0x1p64, -2147483648.9, 2147483647.9, 4294967295.9, (double)NAN, HUGE_VAL, -HUGE_VAL};
    for (size_t i = 0; i < DZ_ARRAY_LEN(edges); i++)
        for (int step = -1; step <= 1; step++) {
            double d = edges[i];
            float a = (float)d;
            double to = step < 0 ? -HUGE_VAL : HUGE_VAL;
            if (step)
                check_truncs(nextafterf(a, (float)to), nextafter(d, to));
            else
                check_truncs(a, d);
        }
    for (int i = 0; i < ROUNDS; i++)
        check_truncs(rng_f32(), rng_f64());
}

TEST(num_conversions_round_to_nearest_even)
{
    CHECK_BITS(BITS32(dz_f32_convert_i32_s(0x80000000)), BITS32(-0x1p31f));
    CHECK_BITS(BITS32(dz_f32_convert_i32_u(UINT32_MAX)), BITS32(0x1p32f));
    CHECK_BITS(BITS32(dz_f32_convert_i32_u(16777217)), BITS32(16777216.0f));
    CHECK_BITS(BITS32(dz_f32_convert_i32_u(16777219)), BITS32(16777220.0f));
    CHECK_BITS(BITS32(dz_f32_convert_i64_u(UINT64_MAX)), BITS32(0x1p64f));
    CHECK_BITS(BITS32(dz_f32_convert_i64_u(0x8000008000000001)), BITS32(0x1.000002p63f));
    CHECK_BITS(BITS32(dz_f32_convert_i64_s(UINT64_MAX)), BITS32(-1.0f));
    CHECK_BITS(BITS64(dz_f64_convert_i32_s(UINT32_MAX)), BITS64(-1.0));
    CHECK_BITS(BITS64(dz_f64_convert_i32_u(UINT32_MAX)), BITS64(4294967295.0));
    CHECK_BITS(BITS64(dz_f64_convert_i64_s(UINT64_C(1) << 63)), BITS64(-0x1p63));
    CHECK_BITS(BITS64(dz_f64_convert_i64_u(0x8000000000000401)), BITS64(0x1.0000000000001p63));
    CHECK_BITS(BITS32(dz_f32_demote_f64(0x1.000001p0)), BITS32(1.0f));
    CHECK_BITS(BITS64(dz_f64_promote_f32(0x1p-149f)), BITS64(0x1p-149));
}
