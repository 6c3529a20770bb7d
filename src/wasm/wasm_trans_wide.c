/* SPDX-License-Identifier: MIT
 *
 * wasm_trans_wide.c - functions whose frame has more slots than 16 bits can name.
 *
 * Fields of cells name 65,536 slots. Nearly every function needs fewer; one that
 * needs more is translated a second time, *wide*, by these rules:
 *
 *   1. Nothing is folded: after each instruction every operand lies in its slot,
 *      and no accumulator is believed.
 *   2. An instruction on operands gets a window: a SHIFT cell before it moves fp up
 *      to its lowest operand, another behind it moves fp back. The translator does
 *      the same with the slots of the topmost operands. A trap in between takes the
 *      shift back (ctx->shift); no safepoint lies in between.
 *   3. Moves name both slots by 32 bits; conditions come through the accumulator;
 *      calls have a cell of their own, with all they need in words.
 *
 * The frame's layout is that of every function, so saved states do not know.
 */
#include "wasm/wasm_rt.h"
#include "wasm/wasm_trans.h"

enum {
    WINDOW = 3, /* operands that one instruction takes at most */
};

/* Does the instruction take its operands from a window? */
static bool has_window(unsigned op)
{
    switch (op) {
    case DZ_WASM_OP_i32_const:
    case DZ_WASM_OP_i64_const:
    case DZ_WASM_OP_f32_const:
    case DZ_WASM_OP_f64_const:
    case DZ_WASM_OP_ref_null:
    case DZ_WASM_OP_local_get:
    case DZ_WASM_OP_local_set:
    case DZ_WASM_OP_local_tee:
    case DZ_WASM_OP_try_table:
    case DZ_WASM_OP_memory_copy:
    case DZ_WASM_OP_memory_fill:
    case DZ_WASM_OP_memory_init:
    case DZ_WASM_OP_table_copy:
    case DZ_WASM_OP_table_fill:
    case DZ_WASM_OP_table_init:
    case DZ_WASM_OP_table_grow:
        return false;
    default:
        return op >= DZ_WASM_OP_select; /* below it: control, and drop */
    }
}

static void rebase(struct wasm_trans *t, uint32_t from, uint32_t delta)
{
    for (uint32_t i = from; i < t->depth; i++)
        t->stack[i] = entry_at(t->stack[i], entry_slot(t->stack[i]) + delta);
    t->top += delta;
}

void dz_trans_wide_open(struct wasm_trans *t, unsigned op)
{
    t->window = 0;
    if (!has_window(op) || t->failed)
        return;
    t->window_from = t->depth > WINDOW ? t->depth - WINDOW : 0;
    t->window = t->window_from < t->depth ? entry_slot(t->stack[t->window_from]) : t->top;
    (void)dz_trans_emit(t, H_SHIFT, dz_trans_imm(0, 0, t->window));
    dz_trans_forget(t);
    rebase(t, t->window_from, 0 - t->window);
}

void dz_trans_wide_close(struct wasm_trans *t)
{
    if (t->failed)
        return;
    if (t->window) {
        rebase(t, t->window_from, t->window);
        if (t->top > t->max_slot)
            t->max_slot = t->top;
        (void)dz_trans_emit(t, H_SHIFT, dz_trans_imm(0, 0, 0 - t->window));
    }
    if (!t->dead && t->depth > t->blocks[t->block_count - 1].height)
        dz_trans_settle_entry(t, t->depth - 1);
    dz_trans_forget(t);
}

void dz_trans_wide_move(struct wasm_trans *t, uint32_t to, struct entry e)
{
    uint32_t from = trans_place(e);
    if (entry_kind(e) == ENTRY_CONST)
        (void)dz_trans_emit3(t, H_MOVE_FAR_C, dz_trans_imm(0, 0, to), e.bits);
    else if (from != to)
        (void)dz_trans_emit3(t, entry_type(e) == DZ_WASM_V128 ? H_MOVE_FAR_V : H_MOVE_FAR,
                             dz_trans_imm(0, 0, to), from);
}

void dz_trans_wide_get(struct wasm_trans *t, struct entry e)
{
    (void)dz_trans_emit(t, H_GET_FAR, dz_trans_imm(0, 0, entry_slot(e)));
}

/* Results to where the caller wants them; they never lie over the record. */
void dz_trans_wide_return(struct wasm_trans *t)
{
    uint32_t to = 0;
    for (uint32_t i = t->depth - t->type->n_results; i < t->depth; i++) {
        dz_trans_wide_move(t, to, t->stack[i]);
        to += dz_wasm_valtype_slots(entry_type(t->stack[i]));
    }
    (void)dz_trans_emit(t, H_RETURN, dz_trans_fields(t->rec, 0, 0, 0));
}

void dz_trans_wide_call(struct wasm_trans *t, const struct wide_call *c)
{
    uint64_t word = dz_trans_imm(c->flags, c->rec, c->func);
    (void)dz_trans_emit3(t, H_CALL_WIDE, word, c->base | (uint64_t)c->index << 32);
    dz_trans_word(t, c->type | (uint64_t)c->table << 32);
    dz_trans_word(t, t->rec | (uint64_t)c->params << 32);
}

void dz_trans_wide_entry(struct wasm_trans *t)
{
    (void)dz_trans_emit(t, H_ZERO_FAR, dz_trans_imm(t->rec + 1, 0, t->temp_base - t->rec - 1));
}
