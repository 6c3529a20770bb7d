/* SPDX-License-Identifier: MIT
 *
 * wasm_points.h - safepoints of functions, looked up again and again.
 *
 * A function's table is made by translating it once more; this keeps the
 * tables of all functions that a stack has, for as long as it is being looked
 * at.
 */
#ifndef DZ_WASM_POINTS_H
#define DZ_WASM_POINTS_H

#include "wasm/wasm_code.h"

struct wasm_points_row {
    uint32_t func;
    uint32_t count;
    struct wasm_point *points; /* in order of words and of offsets */
};
struct wasm_points {
    struct dz_wasm_code *code;
    struct wasm_points_row *rows; /* open addressing, cap a power of two */
    uint32_t count, cap;
};

/* The table of a function that is not imported; NULL: no memory. */
const struct wasm_points_row *dz_wasm_points_of(struct wasm_points *p, uint32_t func);
void dz_wasm_points_release(struct wasm_points *p);

/* By word from the function's start; by offset in the binary (after: behind a
 * call or throw, else a place to go on at). NULL: none there. */
const struct wasm_point *dz_wasm_points_word(const struct wasm_points_row *r, uint32_t word);
const struct wasm_point *dz_wasm_points_offset(const struct wasm_points_row *r, uint32_t offset,
                                               bool after);

#endif
