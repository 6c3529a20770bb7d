/* SPDX-License-Identifier: MIT
 *
 * t_wasm_simd.c - the vector instructions: edges by hand (the specification's
 * own 25,004 assertions run in tests/spec), and the fixed results that the
 * relaxed instructions have here.
 */
#include "tap.h"
#include "wasm/wasm_simd.h"
#include "wasm/wasm_simd_map.h"

#include <math.h>

typedef dz_v128 (*binary_fn)(dz_v128, dz_v128);

static dz_v128 v_of(uint64_t high, uint64_t low)
{
    return (dz_v128){low, high};
}
static dz_v128 f32s(float a, float b, float c, float d)
{
    return (dz_v128)(dz_f32x4){a, b, c, d};
}
static dz_v128 f64s(double a, double b)
{
    return (dz_v128)(dz_f64x2){a, b};
}

#define CHECK_V(got, want)                                                                      \
    do {                                                                                        \
        dz_v128 g_ = (got), w_ = (want);                                                        \
        if (g_[0] != w_[0] || g_[1] != w_[1]) {                                                 \
            printf("# %s:%d: %s is %016llx_%016llx, not %016llx_%016llx\n", __FILE__, __LINE__, \
                   #got, (unsigned long long)g_[1], (unsigned long long)g_[0],                  \
                   (unsigned long long)w_[1], (unsigned long long)w_[0]);                       \
            tap_bad++;                                                                          \
        }                                                                                       \
    } while (0)

TEST(simd_map_has_each_instruction_once)
{
    bool seen[276] = {[0] = true, [11] = true, [12] = true, [13] = true};
    int count = 4;
#define X(code, ...)    \
    CHECK(!seen[code]); \
    seen[code] = true;  \
    count++;
    DZ_SIMD_UNARY_MAP(X)
    DZ_SIMD_BINARY_MAP(X)
    DZ_SIMD_TERNARY_MAP(X)
    DZ_SIMD_SHIFT_MAP(X)
    DZ_SIMD_TEST_MAP(X)
    DZ_SIMD_SPLAT_MAP(X)
    DZ_SIMD_EXTRACT_MAP(X)
    DZ_SIMD_REPLACE_MAP(X)
    DZ_SIMD_LOAD_MAP(X)
    DZ_SIMD_LOAD_LANE_MAP(X)
    DZ_SIMD_STORE_LANE_MAP(X)
#undef X
    CHECK_INT(count, 236 + 20);
}

TEST(simd_integers_wrap_and_saturate)
{
    static const struct {
        binary_fn fn;
        uint64_t a, b, want; /* each in both halves */
    } rows[] = {
        {dz_i8x16_add, 0x7fff00807f017f80, 0x01010180ff0101ff, 0x800001007e02807f},
        {dz_i8x16_add_sat_s, 0x7fff00807f017f80, 0x01010180ff0101ff, 0x7f0001807e027f80},
        {dz_i8x16_add_sat_u, 0xff010203fe050607, 0x0101010101010101, 0xff020304ff060708},
        {dz_i8x16_sub_sat_s, 0x807f000000000000, 0x01ff000000000001, 0x807f0000000000ff},
        {dz_i8x16_sub_sat_u, 0x00ff100000000000, 0x01010f0000000000, 0x00fe010000000000},
        {dz_i16x8_add_sat_s, 0x7fff800012340000, 0x0001ffff00010000, 0x7fff800012350000},
        {dz_i16x8_sub_sat_u, 0x0000ffff00050000, 0x0001000100030000, 0x0000fffe00020000},
        {dz_i16x8_mul, 0xffffffff00028000, 0xffff000200030002, 0x0001fffe00060000},
        {dz_i32x4_mul, 0xffffffff80000000, 0xffffffff00000002, 0x0000000100000000},
        {dz_i64x2_mul, 0xffffffffffffffff, 3, 0xfffffffffffffffd},
        {dz_i16x8_q15mulr_sat_s, 0x80007fff40000001, 0x80007fff40000001, 0x7fff7ffe20000000},
        {dz_i16x8_relaxed_q15mulr_s, 0x80007fff40000001, 0x80007fff40000001, 0x7fff7ffe20000000},
        {dz_i32x4_dot_i16x8_s, 0x8000800000010002, 0x80008000ffff0003, 0x8000000000000005},
        {dz_i16x8_relaxed_dot_i8x16_i7x16_s, 0x808001027f7f0000, 0x8080ff037f7f0000,
         0x800000057e020000},
        {dz_i8x16_avgr_u, 0xff00fe0100000000, 0xff01ff0100000000, 0xff01ff0100000000},
        {dz_i8x16_min_s, 0x80017fff00000000, 0x7f0280fe00000000, 0x800180fe00000000},
        {dz_i8x16_max_u, 0x80017fff00000000, 0x7f0280fe00000000, 0x800280ff00000000},
        {dz_i64x2_lt_s, 0x8000000000000000, 0, UINT64_MAX},
        {dz_i8x16_gt_u, 0xff00800100000000, 0x0100010200000000, 0xff00ff0000000000},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++) {
        dz_v128 got = rows[i].fn(v_of(rows[i].a, rows[i].a), v_of(rows[i].b, rows[i].b));
        if (got[0] != rows[i].want || got[1] != rows[i].want)
            printf("# row %zu\n", i);
        CHECK_V(got, v_of(rows[i].want, rows[i].want));
    }
    CHECK_V(dz_i8x16_abs(v_of(0x80ff017f, 0)), v_of(0x8001017f, 0));
    CHECK_V(dz_i64x2_neg(v_of(1, UINT64_C(1) << 63)), v_of(UINT64_MAX, UINT64_C(1) << 63));
    CHECK_V(dz_i8x16_popcnt(v_of(0xff01, 0x7f00)), v_of(0x0801, 0x0700));
}

TEST(simd_shift_counts_are_modulo_the_lane)
{
    dz_v128 a = v_of(0x8081828384858687, 0x0102030405060708);
    CHECK_V(dz_i8x16_shl(a, 9), v_of(0x00020406080a0c0e, 0x020406080a0c0e10));
    CHECK_V(dz_i8x16_shr_s(a, 15), v_of(UINT64_MAX, 0));
    CHECK_V(dz_i16x8_shr_u(a, 24), v_of(0x0080008200840086, 0x0001000300050007));
    CHECK_V(dz_i32x4_shr_s(a, 32 + 31), v_of(UINT64_MAX, 0));
    CHECK_V(dz_i64x2_shl(a, 64 + 4), v_of(0x0818283848586870, 0x1020304050607080));
    CHECK_V(dz_i64x2_shr_s(a, 63), v_of(UINT64_MAX, 0));
}

TEST(simd_widens_and_narrows)
{
    dz_v128 a = v_of(0x80ff7f0100000000, 0x00010203fffefdfc);
    CHECK_V(dz_i16x8_extend_low_i8x16_s(a), v_of(0x0000000100020003, 0xfffffffefffdfffc));
    CHECK_V(dz_i16x8_extend_high_i8x16_u(a), v_of(0x008000ff007f0001, 0));
    CHECK_V(dz_i64x2_extend_low_i32x4_s(a), v_of(0x00010203, 0xfffffffffffefdfc));
    CHECK_V(dz_i16x8_extmul_high_i8x16_s(a, a), v_of(0x400000013f010001, 0));
    dz_v128 max = v_of(UINT64_MAX, UINT64_MAX);
    CHECK_V(dz_i32x4_extmul_low_i16x8_u(max, max), v_of(0xfffe0001fffe0001, 0xfffe0001fffe0001));
    CHECK_V(dz_i16x8_extadd_pairwise_i8x16_u(max), v_of(0x01fe01fe01fe01fe, 0x01fe01fe01fe01fe));
    dz_v128 n = v_of(0x7fff800000800001, 0xff7f00ffffff0000);
    CHECK_V(dz_i8x16_narrow_i16x8_s(n, n), v_of(0x7f807f01807fff00, 0x7f807f01807fff00));
    CHECK_V(dz_i8x16_narrow_i16x8_u(n, n), v_of(0xff00800100ff0000, 0xff00800100ff0000));
    CHECK_V(dz_v128_load8x8_s(0x80ff7f0100000001), v_of(0xff80ffff007f0001, 1));
    CHECK_V(dz_v128_load32x2_u(0xffffffff00000001), v_of(0xffffffff, 1));
    CHECK_V(dz_v128_load16_splat(0x1234), v_of(0x1234123412341234, 0x1234123412341234));
    CHECK_V(dz_v128_load32_zero(UINT64_MAX), v_of(0, UINT32_MAX));
}

TEST(simd_shuffles_and_lanes)
{
    dz_v128 a = v_of(0x0f0e0d0c0b0a0908, 0x0706050403020100);
    dz_v128 b = v_of(0x1f1e1d1c1b1a1918, 0x1716151413121110);
    static const uint8_t pick[16] = {31, 0, 16, 15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 30};
    CHECK_V(dz_i8x16_shuffle(a, b, pick), v_of(0x1e0b0a0908070605, 0x040302010f10001f));
    CHECK_V(dz_i8x16_swizzle(b, v_of(0x0f10ff8000010203, 0)),
            v_of(0x1f00000010111213, 0x1010101010101010));
    CHECK_V(dz_i8x16_relaxed_swizzle(b, v_of(0x0f10ff8000010203, 0)),
            v_of(0x1f00000010111213, 0x1010101010101010));
    CHECK_INT(dz_i8x16_extract_lane_s(v_of(0x80, 0), 8), 0xffffff80);
    CHECK_INT(dz_i16x8_extract_lane_u(v_of(0x8000, 0), 4), 0x8000);
    CHECK_V(dz_i16x8_replace_lane(a, 0xabcdef, 7), v_of(0xcdef0d0c0b0a0908, 0x0706050403020100));
    CHECK_V(dz_v128_load32_lane(0x99999999, a, 1), v_of(0x0f0e0d0c0b0a0908, 0x9999999903020100));
    CHECK_INT(dz_v128_store16_lane(a, 5), 0x0b0a);
    CHECK_INT(dz_i8x16_bitmask(v_of(0x8000000000000080, 0x7f80)), 0x8101);
    CHECK_INT(dz_i8x16_all_true(v_of(UINT64_MAX, 0x0101010101010100)), 0);
    CHECK_INT(dz_i64x2_all_true(v_of(1, 1)), 1);
    CHECK_INT(dz_v128_any_true(v_of(0, 0)), 0);
    CHECK_INT(dz_v128_any_true(v_of(1, 0)), 1);
}

TEST(simd_floats)
{
    float nan = dz_f32_of(0x7fc00000), snan = dz_f32_of(0x7fa00001);
    CHECK_V(dz_f32x4_min(f32s(0, -1, 2, -INFINITY), f32s(-0.0f, 1, 1, 0)),
            f32s(-0.0f, -1, 1, -INFINITY));
    CHECK_V(dz_f32x4_pmin(f32s(0, nan, 1, 2), f32s(-0.0f, 1, nan, 1)), f32s(0, nan, 1, 1));
    CHECK_V(dz_f32x4_pmax(f32s(-0.0f, nan, 1, 2), f32s(0, 1, nan, 3)), f32s(-0.0f, nan, 1, 3));
    CHECK_V(dz_f32x4_neg(f32s(snan, 0, 1, -1)), v_of(0x3f800000bf800000, 0x80000000ffa00001));
    CHECK_V(dz_f64x2_abs(f64s(-0.0, -3)), f64s(0, 3));
    CHECK_V(dz_f32x4_ne(f32s(nan, 0, 1, 2), f32s(nan, -0.0f, 1, 3)),
            v_of(0xffffffff00000000, UINT32_MAX));
    CHECK_V(dz_f64x2_nearest(f64s(2.5, -0.5)), f64s(2, -0.0));
    CHECK_V(dz_i32x4_trunc_sat_f32x4_s(f32s(nan, 3e9f, -3e9f, -1.9f)),
            v_of(0xffffffff80000000, 0x7fffffff00000000));
    CHECK_V(dz_i32x4_trunc_sat_f64x2_u_zero(f64s(-5, 4294967295.5)), v_of(0, 0xffffffff00000000));
    CHECK_V(dz_f32x4_demote_f64x2_zero(f64s(1.5, -2)), f32s(1.5f, -2, 0, 0));
    CHECK_V(dz_f64x2_promote_low_f32x4(f32s(1.5f, -2, 7, 7)), f64s(1.5, -2));
    CHECK_V(dz_f64x2_convert_low_i32x4_u(v_of(7, UINT64_MAX)), f64s(4294967295.0, 4294967295.0));
}

TEST(simd_relaxed_results_are_fixed)
{
    /* (1 + 2^-23)^2 - 1 is 2^-22 in two roundings, 2^-22 + 2^-46 in one */
    dz_v128 a = f32s(0x1.000002p0f, 2, 3, 4), c = f32s(-1, 1, 1, 1);
    CHECK_V(dz_f32x4_relaxed_madd(a, a, c), f32s(0x1p-22f, 5, 10, 17));
    CHECK_V(dz_f32x4_relaxed_nmadd(a, a, dz_f32x4_neg(c)), f32s(-0x1p-22f, -5, -10, -17));
    CHECK_V(
        dz_i8x16_relaxed_laneselect(v_of(~UINT64_C(0), 0), v_of(0, ~UINT64_C(0)), v_of(0xf0, 0x80)),
        v_of(0xf0, ~UINT64_C(0x80)));
    CHECK_V(dz_i32x4_relaxed_trunc_f32x4_u(f32s(-1, 5e9f, dz_f32_of(0x7fc00000), 1)),
            v_of(0x0000000100000000, 0xffffffff00000000));
    CHECK_V(dz_f32x4_relaxed_max(f32s(0, 1, 2, 3), f32s(-0.0f, 2, 1, 4)), f32s(0, 2, 2, 4));
    CHECK_V(dz_i32x4_relaxed_dot_i8x16_i7x16_add_s(v_of(0, 0x01020304), v_of(0, 0x01010101),
                                                   v_of(0, 0xffffffff00000001)),
            v_of(0, 0xffffffff0000000b));
}
