/* SPDX-License-Identifier: MIT
 *
 * wasm_trans_fuse.c - two cells into one, where the pair is frequent enough to
 * have a handler of its own (wasm_exec_fused.inc).
 *
 * Only the very last cell may be rewritten, and only when no label lies behind
 * it: trans_last() says so. All operands of the new cell are read before its
 * result is written, and nothing stands between the two halves, so their order
 * does not matter.
 */
#include "wasm/wasm_trans.h"

/* The last cell if it has two words, this handler, and no label behind it. */
static bool is_last(const struct wasm_trans *t, uint32_t word, unsigned handler)
{
    return !t->failed && t->cell_count != 0 && t->cells[t->cell_count - 1].word == word &&
           word >= t->barrier && t->count == word + 2 && t->words[word] == handler;
}

static unsigned field(const struct wasm_trans *t, uint32_t word, unsigned n)
{
    return (unsigned)(t->words[word + 1] >> (16 * n)) & 0xffff;
}

/* The operand's value was made by the last cell, for it alone. */
static bool made_last(const struct wasm_trans *t, const struct entry *e, enum acc_no n,
                      unsigned handler)
{
    return e->kind == ENTRY_TEMP && dz_trans_in_acc(t, e, n) && t->acc[n].delta != 0 &&
           is_last(t, t->acc[n].pos, handler);
}

/* (x << constant) + slot. */
static bool shift_add(struct wasm_trans *t, const struct entry *a, const struct entry *b,
                      uint32_t to)
{
    if (b->kind == ENTRY_CONST || !made_last(t, a, ACC_INT, H_I32_SHL_SC))
        return false;
    uint32_t pos = t->acc[ACC_INT].pos;
    unsigned shift = field(t, pos, 2) & 31;
    unsigned from = field(t, pos, 1);
    t->words[pos] = H_SHIFT_ADD;
    t->words[pos + 1] = dz_trans_fields(to, from, dz_trans_slot(t, b), shift);
    dz_trans_result(t, pos, DZ_WASM_I32, ACC_INT, 1);
    return true;
}

struct load_op {
    unsigned op, load, fused; /* handlers: SS of the operation, S of the load */
    enum acc_no acc;
    uint8_t type;
    bool swapped; /* the loaded operand is the second */
};
static const struct load_op load_ops[] = {
    {H_I32_ADD_SS, H_LOAD32_U_S, H_I32_ADD_MS, ACC_INT, DZ_WASM_I32, false},
    {H_I32_AND_SS, H_LOAD32_U_S, H_I32_AND_MS, ACC_INT, DZ_WASM_I32, false},
    {H_I32_OR_SS, H_LOAD32_U_S, H_I32_OR_MS, ACC_INT, DZ_WASM_I32, false},
    {H_I32_XOR_SS, H_LOAD32_U_S, H_I32_XOR_MS, ACC_INT, DZ_WASM_I32, false},
    {H_I64_ADD_SS, H_LOAD64_S, H_I64_ADD_MS, ACC_INT, DZ_WASM_I64, false},
    {H_I64_AND_SS, H_LOAD64_S, H_I64_AND_MS, ACC_INT, DZ_WASM_I64, false},
    {H_I64_OR_SS, H_LOAD64_S, H_I64_OR_MS, ACC_INT, DZ_WASM_I64, false},
    {H_I64_XOR_SS, H_LOAD64_S, H_I64_XOR_MS, ACC_INT, DZ_WASM_I64, false},
};

static bool load_op(struct wasm_trans *t, unsigned handler, const struct entry *a,
                    const struct entry *b, uint32_t to)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(load_ops); i++) {
        const struct load_op *k = &load_ops[i];
        const struct entry *loaded = k->swapped ? b : a;
        const struct entry *other = k->swapped ? a : b;
        if (k->op != handler || other->kind == ENTRY_CONST ||
            !made_last(t, loaded, k->acc, k->load))
            continue;
        uint32_t pos = t->acc[k->acc].pos;
        uint32_t offset = (uint32_t)(t->words[pos + 1] >> 32);
        if (offset > 0xffff)
            return false;
        t->words[pos] = k->fused;
        t->words[pos + 1] = dz_trans_fields(to, field(t, pos, 1), dz_trans_slot(t, other), offset);
        dz_trans_result(t, pos, k->type, k->acc, 1);
        return true;
    }
    return false;
}

bool dz_trans_fuse_binary(struct wasm_trans *t, unsigned handler, const struct entry *a,
                          const struct entry *b, uint32_t to)
{
    if (handler == H_I32_ADD_SS && shift_add(t, a, b, to))
        return true;
    return load_op(t, handler, a, b, to);
}

/* x = y + constant, and a branch backwards that compares x: the comparison's
 * cell is gone already, its first operand is in the accumulator. */
uint32_t dz_trans_fuse_count(struct wasm_trans *t, unsigned index, bool constant, unsigned other)
{
    uint32_t last = t->cell_count ? t->cells[t->cell_count - 1].word : 0;
    bool add = is_last(t, last, H_I32_ADD_SC);
    if (!add && !is_last(t, last, H_I32_SUB_SC))
        return WASM_NOWHERE;
    int32_t by = (int32_t)(t->words[last + 1] >> 32);
    if (by < -0x7fff || by > 0x7fff)
        return WASM_NOWHERE;
    unsigned step = (unsigned)(add ? by : -by) & 0xffff;
    t->words[last] = H_COUNT_EQ_S + index * 2 + (constant ? 1 : 0);
    t->words[last + 1] = dz_trans_fields(field(t, last, 0), field(t, last, 1), other, step);
    dz_trans_word(t, 0);
    return last;
}
