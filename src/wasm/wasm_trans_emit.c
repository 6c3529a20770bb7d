/* SPDX-License-Identifier: MIT
 *
 * wasm_trans_emit.c - the translator's symbolic stack and the writing of cells.
 *
 * Words 0 hold handler numbers until the function is finished. See
 * wasm_trans.h for the rules.
 */
#include "wasm/wasm_trans.h"

#include "base/mem.h"

bool dz_trans_grow_slow(struct wasm_trans *t, void *pp, uint32_t *cap, uint32_t want, size_t size)
{
    uint32_t n = *cap < 64 ? 64 : *cap + *cap / 2;
    if (n < want)
        n = want;
    void *p = NULL;
    memcpy(&p, pp, sizeof p);
    void *q = dz_realloc(p, n * size);
    if (!q) {
        t->failed = true;
        t->trap = DZ_WASM_TRAP_NOMEM;
        return false;
    }
    memcpy(pp, &q, sizeof q);
    *cap = n;
    return true;
}

uint64_t dz_trans_fields(uint32_t c, uint32_t a, uint32_t b, uint32_t d)
{
    return (uint64_t)(c & 0xffff) | (uint64_t)(a & 0xffff) << 16 | (uint64_t)(b & 0xffff) << 32 |
           (uint64_t)(d & 0xffff) << 48;
}
uint64_t dz_trans_imm(uint32_t c, uint32_t a, uint32_t imm)
{
    return (uint64_t)(c & 0xffff) | (uint64_t)(a & 0xffff) << 16 | (uint64_t)imm << 32;
}

uint32_t dz_trans_emit(struct wasm_trans *t, unsigned handler, uint64_t word)
{
    if (!trans_grow(t, &t->words, &t->cap, t->count + 4, sizeof *t->words) ||
        !trans_grow(t, &t->cells, &t->cell_cap, t->cell_count + 1, sizeof *t->cells))
        return 0;
    uint32_t at = t->count;
    t->cells[t->cell_count++] = (struct cell_pos){at, t->offset};
    t->words[at] = handler;
    t->words[at + 1] = word;
    t->count = at + 2;
    return at;
}
void dz_trans_word(struct wasm_trans *t, uint64_t word)
{
    if (trans_grow(t, &t->words, &t->cap, t->count + 1, sizeof *t->words))
        t->words[t->count++] = word;
}
uint32_t dz_trans_emit3(struct wasm_trans *t, unsigned handler, uint64_t word, uint64_t third)
{
    uint32_t at = dz_trans_emit(t, handler, word);
    dz_trans_word(t, third);
    return at;
}

/* --- the stack ----------------------------------------------------------------- */

void dz_trans_push(struct wasm_trans *t, struct entry e)
{
    if (!trans_grow(t, &t->stack, &t->stack_cap, t->depth + 1, sizeof *t->stack))
        return;
    e.slot = t->top;
    t->stack[t->depth++] = e;
    t->top += dz_wasm_valtype_slots(e.type);
    if (t->top > t->max_slot)
        t->max_slot = t->top;
}
void dz_trans_push_temp(struct wasm_trans *t, unsigned type)
{
    dz_trans_push(t, (struct entry){.kind = ENTRY_TEMP, .type = (uint8_t)type});
}
struct entry dz_trans_pop(struct wasm_trans *t)
{
    if (t->depth == 0 || t->failed) /* only after a failure: the body is valid */
        return (struct entry){.kind = ENTRY_CONST, .type = DZ_WASM_I32};
    struct entry e = t->stack[--t->depth];
    t->top = e.slot;
    return e;
}

/* --- accumulators ------------------------------------------------------------------ */

static uint32_t place(const struct entry *e)
{
    return e->kind == ENTRY_TEMP ? e->slot : e->kind == ENTRY_LOCAL ? e->local : WASM_NOWHERE - 1;
}
bool dz_trans_in_acc(const struct wasm_trans *t, const struct entry *e, enum acc_no n)
{
    return n < ACC_COUNT && t->acc[n].slot == place(e);
}
void dz_trans_take_acc(struct wasm_trans *t, const struct entry *e, enum acc_no n)
{
    struct acc_state *a = &t->acc[n];
    if (e->kind != ENTRY_TEMP || t->failed)
        return;
    if (a->delta) {
        t->words[a->pos] += a->delta;
        a->slot = WASM_NOWHERE;
    }
}
void dz_trans_pin(struct wasm_trans *t, uint32_t slot)
{
    for (int n = 0; n < ACC_COUNT; n++)
        if (t->acc[n].slot == slot)
            t->acc[n].delta = 0;
}
void dz_trans_wrote(struct wasm_trans *t, uint32_t slot)
{
    for (int n = 0; n < ACC_COUNT; n++)
        if (t->acc[n].slot == slot)
            t->acc[n].slot = WASM_NOWHERE;
}
void dz_trans_forget(struct wasm_trans *t)
{
    for (int n = 0; n < ACC_COUNT; n++)
        t->acc[n].slot = WASM_NOWHERE;
    t->def_cell = WASM_NOWHERE;
    t->cmp.cell = WASM_NOWHERE;
    t->barrier = t->count;
}
void dz_trans_result(struct wasm_trans *t, uint32_t pos, unsigned type, enum acc_no n,
                     uint32_t delta)
{
    memcpy(t->acc_before, t->acc, sizeof t->acc);
    dz_trans_wrote(t, t->top);
    if (type == DZ_WASM_V128)
        dz_trans_wrote(t, t->top + 1);
    if (n != ACC_NONE)
        t->acc[n] = (struct acc_state){t->top, pos, delta};
    t->def_cell = t->cell_count - 1;
    t->def_slot = t->top;
    dz_trans_push_temp(t, type);
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
    uint32_t last = t->cell_count ? t->cells[t->cell_count - 1].word : WASM_NOWHERE;
    if (last != WASM_NOWHERE && last + 2 == t->count && t->words[last] == H_MOVE &&
        t->def_cell == t->cell_count - 1) {
        t->words[last] = H_MOVE2;
        t->words[last + 1] =
            (t->words[last + 1] & 0xffffffff) | (uint64_t)from << 32 | (uint64_t)to << 48;
        t->def_cell = WASM_NOWHERE;
        return;
    }
    (void)dz_trans_emit(t, H_MOVE, dz_trans_fields(to, from, 0, 0));
    t->def_cell = t->cell_count - 1; /* no label since: may become a MOVE2 */
    t->def_slot = WASM_NOWHERE;
}

void dz_trans_move(struct wasm_trans *t, uint32_t to, const struct entry *e)
{
    uint32_t from = place(e);
    if (dz_unlikely(t->wide)) {
        dz_trans_wide_move(t, to, e);
        return;
    }
    if (e->kind == ENTRY_CONST) {
        move_const(t, to, e->bits);
        t->def_cell = WASM_NOWHERE;
    } else if (from != to) {
        dz_trans_pin(t, from);
        if (e->type == DZ_WASM_V128) {
            (void)dz_trans_emit(t, H_MOVE_V, dz_trans_fields(to, from, 0, 0));
            t->def_cell = WASM_NOWHERE;
        } else {
            move_slot(t, to, from);
        }
    } else {
        return;
    }
    dz_trans_wrote(t, to);
    if (e->type == DZ_WASM_V128)
        dz_trans_wrote(t, to + 1);
    t->cmp.cell = WASM_NOWHERE;
}

uint32_t dz_trans_slot(struct wasm_trans *t, const struct entry *e)
{
    if (e->kind != ENTRY_CONST)
        return place(e);
    dz_trans_move(t, e->slot, e);
    return e->slot;
}

void dz_trans_settle_entry(struct wasm_trans *t, uint32_t index)
{
    struct entry *e = &t->stack[index];
    if (e->kind == ENTRY_TEMP)
        return;
    dz_trans_move(t, e->slot, e);
    e->kind = ENTRY_TEMP;
}
void dz_trans_settle(struct wasm_trans *t, uint32_t from)
{
    for (uint32_t i = from; i < t->depth; i++)
        dz_trans_settle_entry(t, i);
}
