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

/* Translate once more for its tables: cells and points of the result are valid
 * until the next translation. NULL: a limit or no memory. */
const struct wasm_trans *dz_wasm_code_map(struct dz_wasm_code *c, uint32_t func);

/* Offset in the binary of the instruction that made the cell at this word. */
uint32_t dz_wasm_code_offset(struct dz_wasm_code *c, uint32_t word);

/* --- wasm_trans.c ------------------------------------------------------------------- */

struct wasm_trans *dz_wasm_trans_new(void);
void dz_wasm_trans_free(struct wasm_trans *t);
/* Give back what an unusually large function needed; its cells are gone then. */
void dz_wasm_trans_trim(struct wasm_trans *t);
/* Fills t->words (handler numbers in words 0), t->cells, t->catches, and with
 * t->mapping t->points. false: t->trap says why. */
bool dz_wasm_trans_function(struct wasm_trans *t, struct dz_wasm_code *c, uint32_t func);

#endif
