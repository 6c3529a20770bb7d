/* SPDX-License-Identifier: MIT
 *
 * wasm_simd_map.h - the 0xFD instructions of WebAssembly by shape.
 *
 * One row for each instruction: the number after the 0xFD byte, the name with
 * '.' written as '_', and what its shape needs more. dz_NAME() of wasm_simd.h
 * does the work; the executor makes a handler and the translator a case of
 * each row. 236 instructions of WebAssembly 2.0 and the 20 relaxed ones.
 *
 * Not here, because nothing else has their shape: v128.load (0), v128.store
 * (11), v128.const (12) and i8x16.shuffle (13).
 */
#ifndef DZ_WASM_SIMD_MAP_H
#define DZ_WASM_SIMD_MAP_H

/* v128 -> v128 */
#define DZ_SIMD_UNARY_MAP(X)                 \
    X(77, v128_not)                          \
    X(94, f32x4_demote_f64x2_zero)           \
    X(95, f64x2_promote_low_f32x4)           \
    X(96, i8x16_abs)                         \
    X(97, i8x16_neg)                         \
    X(98, i8x16_popcnt)                      \
    X(103, f32x4_ceil)                       \
    X(104, f32x4_floor)                      \
    X(105, f32x4_trunc)                      \
    X(106, f32x4_nearest)                    \
    X(116, f64x2_ceil)                       \
    X(117, f64x2_floor)                      \
    X(122, f64x2_trunc)                      \
    X(124, i16x8_extadd_pairwise_i8x16_s)    \
    X(125, i16x8_extadd_pairwise_i8x16_u)    \
    X(126, i32x4_extadd_pairwise_i16x8_s)    \
    X(127, i32x4_extadd_pairwise_i16x8_u)    \
    X(128, i16x8_abs)                        \
    X(129, i16x8_neg)                        \
    X(135, i16x8_extend_low_i8x16_s)         \
    X(136, i16x8_extend_high_i8x16_s)        \
    X(137, i16x8_extend_low_i8x16_u)         \
    X(138, i16x8_extend_high_i8x16_u)        \
    X(148, f64x2_nearest)                    \
    X(160, i32x4_abs)                        \
    X(161, i32x4_neg)                        \
    X(167, i32x4_extend_low_i16x8_s)         \
    X(168, i32x4_extend_high_i16x8_s)        \
    X(169, i32x4_extend_low_i16x8_u)         \
    X(170, i32x4_extend_high_i16x8_u)        \
    X(192, i64x2_abs)                        \
    X(193, i64x2_neg)                        \
    X(199, i64x2_extend_low_i32x4_s)         \
    X(200, i64x2_extend_high_i32x4_s)        \
    X(201, i64x2_extend_low_i32x4_u)         \
    X(202, i64x2_extend_high_i32x4_u)        \
    X(224, f32x4_abs)                        \
    X(225, f32x4_neg)                        \
    X(227, f32x4_sqrt)                       \
    X(236, f64x2_abs)                        \
    X(237, f64x2_neg)                        \
    X(239, f64x2_sqrt)                       \
    X(248, i32x4_trunc_sat_f32x4_s)          \
    X(249, i32x4_trunc_sat_f32x4_u)          \
    X(250, f32x4_convert_i32x4_s)            \
    X(251, f32x4_convert_i32x4_u)            \
    X(252, i32x4_trunc_sat_f64x2_s_zero)     \
    X(253, i32x4_trunc_sat_f64x2_u_zero)     \
    X(254, f64x2_convert_low_i32x4_s)        \
    X(255, f64x2_convert_low_i32x4_u)        \
    X(257, i32x4_relaxed_trunc_f32x4_s)      \
    X(258, i32x4_relaxed_trunc_f32x4_u)      \
    X(259, i32x4_relaxed_trunc_f64x2_s_zero) \
    X(260, i32x4_relaxed_trunc_f64x2_u_zero)

/* v128 v128 -> v128 */
#define DZ_SIMD_BINARY_MAP(X)         \
    X(14, i8x16_swizzle)              \
    X(35, i8x16_eq)                   \
    X(36, i8x16_ne)                   \
    X(37, i8x16_lt_s)                 \
    X(38, i8x16_lt_u)                 \
    X(39, i8x16_gt_s)                 \
    X(40, i8x16_gt_u)                 \
    X(41, i8x16_le_s)                 \
    X(42, i8x16_le_u)                 \
    X(43, i8x16_ge_s)                 \
    X(44, i8x16_ge_u)                 \
    X(45, i16x8_eq)                   \
    X(46, i16x8_ne)                   \
    X(47, i16x8_lt_s)                 \
    X(48, i16x8_lt_u)                 \
    X(49, i16x8_gt_s)                 \
    X(50, i16x8_gt_u)                 \
    X(51, i16x8_le_s)                 \
    X(52, i16x8_le_u)                 \
    X(53, i16x8_ge_s)                 \
    X(54, i16x8_ge_u)                 \
    X(55, i32x4_eq)                   \
    X(56, i32x4_ne)                   \
    X(57, i32x4_lt_s)                 \
    X(58, i32x4_lt_u)                 \
    X(59, i32x4_gt_s)                 \
    X(60, i32x4_gt_u)                 \
    X(61, i32x4_le_s)                 \
    X(62, i32x4_le_u)                 \
    X(63, i32x4_ge_s)                 \
    X(64, i32x4_ge_u)                 \
    X(65, f32x4_eq)                   \
    X(66, f32x4_ne)                   \
    X(67, f32x4_lt)                   \
    X(68, f32x4_gt)                   \
    X(69, f32x4_le)                   \
    X(70, f32x4_ge)                   \
    X(71, f64x2_eq)                   \
    X(72, f64x2_ne)                   \
    X(73, f64x2_lt)                   \
    X(74, f64x2_gt)                   \
    X(75, f64x2_le)                   \
    X(76, f64x2_ge)                   \
    X(78, v128_and)                   \
    X(79, v128_andnot)                \
    X(80, v128_or)                    \
    X(81, v128_xor)                   \
    X(101, i8x16_narrow_i16x8_s)      \
    X(102, i8x16_narrow_i16x8_u)      \
    X(110, i8x16_add)                 \
    X(111, i8x16_add_sat_s)           \
    X(112, i8x16_add_sat_u)           \
    X(113, i8x16_sub)                 \
    X(114, i8x16_sub_sat_s)           \
    X(115, i8x16_sub_sat_u)           \
    X(118, i8x16_min_s)               \
    X(119, i8x16_min_u)               \
    X(120, i8x16_max_s)               \
    X(121, i8x16_max_u)               \
    X(123, i8x16_avgr_u)              \
    X(130, i16x8_q15mulr_sat_s)       \
    X(133, i16x8_narrow_i32x4_s)      \
    X(134, i16x8_narrow_i32x4_u)      \
    X(142, i16x8_add)                 \
    X(143, i16x8_add_sat_s)           \
    X(144, i16x8_add_sat_u)           \
    X(145, i16x8_sub)                 \
    X(146, i16x8_sub_sat_s)           \
    X(147, i16x8_sub_sat_u)           \
    X(149, i16x8_mul)                 \
    X(150, i16x8_min_s)               \
    X(151, i16x8_min_u)               \
    X(152, i16x8_max_s)               \
    X(153, i16x8_max_u)               \
    X(155, i16x8_avgr_u)              \
    X(156, i16x8_extmul_low_i8x16_s)  \
    X(157, i16x8_extmul_high_i8x16_s) \
    X(158, i16x8_extmul_low_i8x16_u)  \
    X(159, i16x8_extmul_high_i8x16_u) \
    X(174, i32x4_add)                 \
    X(177, i32x4_sub)                 \
    X(181, i32x4_mul)                 \
    X(182, i32x4_min_s)               \
    X(183, i32x4_min_u)               \
    X(184, i32x4_max_s)               \
    X(185, i32x4_max_u)               \
    X(186, i32x4_dot_i16x8_s)         \
    X(188, i32x4_extmul_low_i16x8_s)  \
    X(189, i32x4_extmul_high_i16x8_s) \
    X(190, i32x4_extmul_low_i16x8_u)  \
    X(191, i32x4_extmul_high_i16x8_u) \
    X(206, i64x2_add)                 \
    X(209, i64x2_sub)                 \
    X(213, i64x2_mul)                 \
    X(214, i64x2_eq)                  \
    X(215, i64x2_ne)                  \
    X(216, i64x2_lt_s)                \
    X(217, i64x2_gt_s)                \
    X(218, i64x2_le_s)                \
    X(219, i64x2_ge_s)                \
    X(220, i64x2_extmul_low_i32x4_s)  \
    X(221, i64x2_extmul_high_i32x4_s) \
    X(222, i64x2_extmul_low_i32x4_u)  \
    X(223, i64x2_extmul_high_i32x4_u) \
    X(228, f32x4_add)                 \
    X(229, f32x4_sub)                 \
    X(230, f32x4_mul)                 \
    X(231, f32x4_div)                 \
    X(232, f32x4_min)                 \
    X(233, f32x4_max)                 \
    X(234, f32x4_pmin)                \
    X(235, f32x4_pmax)                \
    X(240, f64x2_add)                 \
    X(241, f64x2_sub)                 \
    X(242, f64x2_mul)                 \
    X(243, f64x2_div)                 \
    X(244, f64x2_min)                 \
    X(245, f64x2_max)                 \
    X(246, f64x2_pmin)                \
    X(247, f64x2_pmax)                \
    X(256, i8x16_relaxed_swizzle)     \
    X(269, f32x4_relaxed_min)         \
    X(270, f32x4_relaxed_max)         \
    X(271, f64x2_relaxed_min)         \
    X(272, f64x2_relaxed_max)         \
    X(273, i16x8_relaxed_q15mulr_s)   \
    X(274, i16x8_relaxed_dot_i8x16_i7x16_s)

/* v128 v128 v128 -> v128 */
#define DZ_SIMD_TERNARY_MAP(X)       \
    X(82, v128_bitselect)            \
    X(261, f32x4_relaxed_madd)       \
    X(262, f32x4_relaxed_nmadd)      \
    X(263, f64x2_relaxed_madd)       \
    X(264, f64x2_relaxed_nmadd)      \
    X(265, i8x16_relaxed_laneselect) \
    X(266, i16x8_relaxed_laneselect) \
    X(267, i32x4_relaxed_laneselect) \
    X(268, i64x2_relaxed_laneselect) \
    X(275, i32x4_relaxed_dot_i8x16_i7x16_add_s)

/* v128 i32 -> v128 */
#define DZ_SIMD_SHIFT_MAP(X) \
    X(107, i8x16_shl)        \
    X(108, i8x16_shr_s)      \
    X(109, i8x16_shr_u)      \
    X(139, i16x8_shl)        \
    X(140, i16x8_shr_s)      \
    X(141, i16x8_shr_u)      \
    X(171, i32x4_shl)        \
    X(172, i32x4_shr_s)      \
    X(173, i32x4_shr_u)      \
    X(203, i64x2_shl)        \
    X(204, i64x2_shr_s)      \
    X(205, i64x2_shr_u)

/* v128 -> i32 */
#define DZ_SIMD_TEST_MAP(X) \
    X(83, v128_any_true)    \
    X(99, i8x16_all_true)   \
    X(100, i8x16_bitmask)   \
    X(131, i16x8_all_true)  \
    X(132, i16x8_bitmask)   \
    X(163, i32x4_all_true)  \
    X(164, i32x4_bitmask)   \
    X(195, i64x2_all_true)  \
    X(196, i64x2_bitmask)

/* X(code, name, operand type): scalar -> v128 */
#define DZ_SIMD_SPLAT_MAP(X) \
    X(15, i8x16_splat, i32)  \
    X(16, i16x8_splat, i32)  \
    X(17, i32x4_splat, i32)  \
    X(18, i64x2_splat, i64)  \
    X(19, f32x4_splat, f32)  \
    X(20, f64x2_splat, f64)

/* X(code, name, result type, lanes): v128 -> scalar, the lane in the instruction */
#define DZ_SIMD_EXTRACT_MAP(X)           \
    X(21, i8x16_extract_lane_s, i32, 16) \
    X(22, i8x16_extract_lane_u, i32, 16) \
    X(24, i16x8_extract_lane_s, i32, 8)  \
    X(25, i16x8_extract_lane_u, i32, 8)  \
    X(27, i32x4_extract_lane, i32, 4)    \
    X(29, i64x2_extract_lane, i64, 2)    \
    X(31, f32x4_extract_lane, f32, 4)    \
    X(33, f64x2_extract_lane, f64, 2)

/* X(code, name, operand type, lanes): v128 scalar -> v128, the lane in the instruction */
#define DZ_SIMD_REPLACE_MAP(X)         \
    X(23, i8x16_replace_lane, i32, 16) \
    X(26, i16x8_replace_lane, i32, 8)  \
    X(28, i32x4_replace_lane, i32, 4)  \
    X(30, i64x2_replace_lane, i64, 2)  \
    X(32, f32x4_replace_lane, f32, 4)  \
    X(34, f64x2_replace_lane, f64, 2)

/* X(code, name, bytes read): address -> v128; dz_NAME() takes the bytes as one uint64_t */
#define DZ_SIMD_LOAD_MAP(X)     \
    X(1, v128_load8x8_s, 8)     \
    X(2, v128_load8x8_u, 8)     \
    X(3, v128_load16x4_s, 8)    \
    X(4, v128_load16x4_u, 8)    \
    X(5, v128_load32x2_s, 8)    \
    X(6, v128_load32x2_u, 8)    \
    X(7, v128_load8_splat, 1)   \
    X(8, v128_load16_splat, 2)  \
    X(9, v128_load32_splat, 4)  \
    X(10, v128_load64_splat, 8) \
    X(92, v128_load32_zero, 4)  \
    X(93, v128_load64_zero, 8)

/* X(code, name, bytes, lanes): address v128 -> v128, the lane in the instruction */
#define DZ_SIMD_LOAD_LANE_MAP(X)  \
    X(84, v128_load8_lane, 1, 16) \
    X(85, v128_load16_lane, 2, 8) \
    X(86, v128_load32_lane, 4, 4) \
    X(87, v128_load64_lane, 8, 2)

/* X(code, name, bytes, lanes): address v128 ->, the lane in the instruction */
#define DZ_SIMD_STORE_LANE_MAP(X)  \
    X(88, v128_store8_lane, 1, 16) \
    X(89, v128_store16_lane, 2, 8) \
    X(90, v128_store32_lane, 4, 4) \
    X(91, v128_store64_lane, 8, 2)

#endif
