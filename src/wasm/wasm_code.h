/* SPDX-License-Identifier: MIT
 *
 * wasm_code.h - translated code of a module, and the way back from cells to
 * places in the program.
 */
#ifndef DZ_WASM_CODE_H
#define DZ_WASM_CODE_H

#include "wasm/wasm_int.h"
#include "wasm/wasm_trans.h"

/* The code of this module for a dispatch (GOTO or SWITCH) and with or without
 * fuel; made when there is none yet. It belongs to the module. */
struct dz_wasm_code *dz_wasm_code_get(struct dz_wasm_module *m, const struct dz_wasm_config *cfg,
                                      struct dz_err *err);

/* Make sure that func has an entry. DZ_WASM_TRAP_NONE or why not. */
enum dz_wasm_trap_kind dz_wasm_code_translate(struct dz_wasm_code *c, uint32_t func);

/* The function whose words hold this word of the arena; NULL: a pseudo frame. */
const struct wasm_range *dz_wasm_code_range(const struct dz_wasm_code *c, uint32_t word);

/* Offset in the binary of the instruction that made the cell at this word. */
uint32_t dz_wasm_code_offset(struct dz_wasm_code *c, uint32_t word);

/* --- safepoints ------------------------------------------------------------------------
 *
 * A function's table is made by translating it once more. Tables that were asked for are kept with
 * the code, WASM_POINTS_ROWS of them: traces, marks and states that are taken of the same machine
 * again ask for the same ones. */

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

/* By word from the function's start; by offset in the binary (after: behind a
 * call or throw, else a place to go on at; a loop that follows a call begins at the same
 * word). NULL: none there. */
const struct wasm_point *dz_wasm_points_word(const struct wasm_points_row *r, uint32_t word,
                                             bool after);
const struct wasm_point *dz_wasm_points_offset(const struct wasm_points_row *r, uint32_t offset,
                                               bool after);

/* --- wasm_trans.c ------------------------------------------------------------------- */

struct wasm_trans *dz_wasm_trans_new(void);
void dz_wasm_trans_free(struct wasm_trans *t);
/* Free the memory that an unusually large function needed, with its cells. */
void dz_wasm_trans_trim(struct wasm_trans *t);
/* Fills t->words (handler numbers in words 0), t->cells, t->catches, and with
 * t->mapping t->points. false: t->trap says why. */
bool dz_wasm_trans_function(struct wasm_trans *t, struct dz_wasm_code *c, uint32_t func);

#endif
