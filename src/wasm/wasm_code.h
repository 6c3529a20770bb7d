/* SPDX-License-Identifier: MIT
 *
 * wasm_code.h - translated code of a module, and the mapping from cells back to positions in the
 * program.
 */
#ifndef DZ_WASM_CODE_H
#define DZ_WASM_CODE_H

#include "wasm/wasm_int.h"
#include "wasm/wasm_trans.h"

/* The module's code for this dispatch (GOTO or SWITCH), with or without fuel; made on first use. It
 * belongs to the module. */
struct dz_wasm_code *dz_wasm_code_get(struct dz_wasm_module *m, const struct dz_wasm_config *cfg,
                                      struct dz_err *err);

/* Translate func if it has no entry yet. DZ_WASM_TRAP_NONE, or the reason of a failure. */
enum dz_wasm_trap_kind dz_wasm_code_translate(struct dz_wasm_code *c, uint32_t func);

/* The function whose words hold this word of the arena; NULL: a pseudo frame. */
const struct wasm_range *dz_wasm_code_range(const struct dz_wasm_code *c, uint32_t word);

/* Offset in the binary of the instruction that made the cell at this word. */
uint32_t dz_wasm_code_offset(struct dz_wasm_code *c, uint32_t word);

/* --- safepoints ------------------------------------------------------------------------
 *
 * A function's table is made by translating the function once more. Up to WASM_POINTS_ROWS tables
 * are kept with the code, because repeated traces, marks and saves of one machine need the same
 * ones. */

enum {
    WASM_POINTS_ROWS = 512,
};

struct wasm_points_row {
    uint32_t func;
    uint32_t count : 31, told : 1;
    struct wasm_point *points; /* in order of words and of offsets */
};

/* The table of a function that is not imported, valid until the next call; NULL: no memory. */
const struct wasm_points_row *dz_wasm_points_of(struct dz_wasm_code *c, uint32_t func);

/* Find the safepoint at a word, counted from the function's start, or at an offset in the binary.
 * after: the one behind a call or throw; else one where execution can resume. (A loop that follows
 * a call begins at the same word.) NULL: there is none. */
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
