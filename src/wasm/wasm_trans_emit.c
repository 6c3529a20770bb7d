/* SPDX-License-Identifier: MIT
 *
 * wasm_trans_emit.c - the translator's symbolic stack and the writing of cells.
 *
 * Words 0 hold handler numbers until the function is finished. See
 * wasm_trans.h for the rules.
 */
#include "wasm/wasm_trans.h"

#include "base/mem.h"

enum {
    WORDS_MAX = 1 << 28, /* of one function: accumulators name words in 28 bits */
};

bool dz_trans_grow_slow(struct wasm_trans *t, void *pp, uint32_t *cap, uint32_t want, size_t size)
{
    uint32_t n = *cap < 64 ? 64 : *cap + *cap / 2;
    if (n < want)
        n = want;
    void *p = NULL;
    memcpy(&p, pp, sizeof p);
    void *q = dz_realloc(p, n * size);
    if (!q) {
        trans_fail(t, DZ_WASM_TRAP_NOMEM);
        return false;
    }
    memcpy(pp, &q, sizeof q);
    *cap = n;
    return true;
}

bool dz_trans_room(struct wasm_trans *t)
{
    if (t->count + 4 > WORDS_MAX) {
        trans_fail(t, DZ_WASM_TRAP_CODE_LIMIT);
        return false;
    }
    if (!trans_grow(t, &t->words, &t->cap, t->count + 4, sizeof *t->words) ||
        !trans_grow(t, &t->cells, &t->cell_cap, t->cap / 2, sizeof *t->cells)) {
        t->cap = t->count; /* the cells that there are: see the header */
        return false;
    }
    if (t->cap > WORDS_MAX)
        t->cap = WORDS_MAX;
    return true;
}
void dz_trans_word(struct wasm_trans *t, uint64_t word)
{
    if (t->count < t->cap || dz_trans_room(t))
        t->words[t->count++] = word;
}
uint32_t dz_trans_emit3(struct wasm_trans *t, unsigned handler, uint64_t word, uint64_t third)
{
    uint32_t at = dz_trans_emit(t, handler, word);
    dz_trans_word(t, third);
    return at;
}

/* --- operands in slots --------------------------------------------------------------- */

static void move_const(struct wasm_trans *t, uint32_t to, uint64_t bits)
{
    if (bits >> 32 == 0)
        (void)dz_trans_emit(t, H_MOVE_U32, dz_trans_imm(to, 0, (uint32_t)bits));
    else if ((int64_t)bits == (int32_t)bits)
        (void)dz_trans_emit(t, H_MOVE_S32, dz_trans_imm(to, 0, (uint32_t)bits));
    else
        (void)dz_trans_emit3(t, H_MOVE_C64, dz_trans_imm(to, 0, 0), bits);
}

static void move_slot(struct wasm_trans *t, uint32_t to, uint32_t from)
{
    uint32_t last = t->cells[t->cell_count - 1].word;
    wasm_word *w = &t->words[last];
    t->def_cell = WASM_NOWHERE;
    if (last < t->barrier || t->failed) {
        (void)dz_trans_emit(t, H_MOVE, dz_trans_fields(to, from, 0, 0));
        return;
    }
    switch (w[0]) {
    case H_MOVE:
        w[0] = H_MOVE2;
        w[1] = (w[1] & 0xffffffff) | dz_trans_fields(0, 0, from, to);
        break;
    case H_MOVE2:
        w[0] = H_MOVE3;
        dz_trans_word(t, dz_trans_fields(to, from, 0, 0));
        break;
    case H_MOVE3:
        w[0] = H_MOVE4;
        w[2] |= dz_trans_fields(0, 0, to, from);
        break;
    case H_I32_ADD_SC: /* of what it has just made */
        if ((w[1] & 0xffff) == from && (int64_t)w[1] >> 32 == (int16_t)(w[1] >> 32)) {
            w[0] = H_ADD_TWICE;
            w[1] = (w[1] & 0xffffffffffff) | (uint64_t)to << 48;
            break;
        }
        __attribute__((fallthrough));
    default:
        (void)dz_trans_emit(t, H_MOVE, dz_trans_fields(to, from, 0, 0));
        break;
    }
}

void dz_trans_move(struct wasm_trans *t, uint32_t to, struct entry e)
{
    uint32_t from = trans_place(e);
    if (dz_unlikely(t->wide)) {
        dz_trans_wide_move(t, to, e);
        return;
    }
    if (entry_kind(e) == ENTRY_CONST) {
        move_const(t, to, e.bits);
        t->def_cell = WASM_NOWHERE;
    } else if (from != to) {
        dz_trans_pin(t, from);
        if (entry_type(e) == DZ_WASM_V128) {
            (void)dz_trans_emit(t, H_MOVE_V, dz_trans_fields(to, from, 0, 0));
            t->def_cell = WASM_NOWHERE;
        } else {
            move_slot(t, to, from);
        }
    } else {
        return;
    }
    dz_trans_wrote(t, to);
    if (entry_type(e) == DZ_WASM_V128)
        dz_trans_wrote(t, to + 1);
    t->cmp.cell = WASM_NOWHERE;
}

uint32_t dz_trans_slot_slow(struct wasm_trans *t, struct entry e)
{
    dz_trans_move(t, entry_slot(e), e);
    return entry_slot(e);
}

void dz_trans_settle_entry(struct wasm_trans *t, uint32_t index)
{
    struct entry *e = &t->stack[index];
    if (entry_kind(*e) == ENTRY_TEMP)
        return;
    dz_trans_move(t, entry_slot(*e), *e);
    *e = entry_at(entry_of(ENTRY_TEMP, entry_type(*e), 0), entry_slot(*e));
}
