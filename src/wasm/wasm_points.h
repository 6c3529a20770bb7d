/* SPDX-License-Identifier: MIT
 *
 * wasm_points.h - safepoints of functions, looked up again and again.
 *
 * A function's table is made by translating it once more. Those that were asked
 * for are kept with the code, WASM_POINTS_ROWS of them: traces, marks and states
 * that are taken of the same machine again ask for the same ones.
 */
#ifndef DZ_WASM_POINTS_H
#define DZ_WASM_POINTS_H

#include "wasm/wasm_code.h"

enum {
    WASM_POINTS_ROWS = 512,
};

struct wasm_points_row {
    uint32_t func;
    uint32_t count : 31, told : 1;
    struct wasm_point *points; /* in order of words and of offsets */
};

/* The table of a function that is not imported, good until the next call; NULL: no
 * memory. */
const struct wasm_points_row *dz_wasm_points_of(struct dz_wasm_code *c, uint32_t func);
void dz_wasm_points_release(struct wasm_points *p);

/* By word from the function's start; by offset in the binary (after: behind a
 * call or throw, else a place to go on at; a loop that follows a call begins at the same
 * word). NULL: none there. */
const struct wasm_point *dz_wasm_points_word(const struct wasm_points_row *r, uint32_t word,
                                             bool after);
const struct wasm_point *dz_wasm_points_offset(const struct wasm_points_row *r, uint32_t offset,
                                               bool after);

#endif
