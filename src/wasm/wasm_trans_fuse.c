/* SPDX-License-Identifier: MIT
 *
 * wasm_trans_fuse.c - two cells into one, where the pair is frequent enough to have a handler of
 * its own (wasm_exec_handlers.inc).
 *
 * Only the very last cell may be rewritten, and only when no label lies behind it: trans_last()
 * checks both. The new cell reads its operands before it writes its result, or does its parts in
 * the order of the cells that it replaces; nothing can stop between them.
 */
#include "wasm/wasm_trans.h"

static bool fits16(int32_t v)
{
    return v == (int16_t)v;
}

/* --- shifts ------------------------------------------------------------------------ */

enum {
    SHIFTS = 5,      /* SHL SHR_S SHR_U ROTL ROTR, */
    SHIFT_KINDS = 14 /* handlers each */
};
_Static_assert(SHIFTS *SHIFT_KINDS == TRANS_SHIFTS, "as trans_may_fuse() has it");

/* (x shifted by a constant) + ^ | another operand. */
static bool shift_op(struct wasm_trans *t, unsigned handler, struct entry shifted,
                     struct entry other)
{
    bool wide = handler >= H_I64_ADD_SS;
    unsigned outer = handler == (wide ? H_I64_ADD_SS : H_I32_ADD_SS)   ? 0
                     : handler == (wide ? H_I64_XOR_SS : H_I32_XOR_SS) ? 1
                                                                       : 2;
    uint32_t at = trans_producer(t, shifted);
    if (at == WASM_NOWHERE || entry_kind(other) == ENTRY_CONST)
        return false;
    unsigned from = (unsigned)t->words[at] - (wide ? H_I64_SHL_SC : H_I32_SHL_SC);
    unsigned inner = from / SHIFT_KINDS;
    if (from % SHIFT_KINDS != 0 || inner >= SHIFTS)
        return false;
    unsigned bits = wide ? 63 : 31;
    unsigned shift = (unsigned)trans_imm_of(t, at) & bits;
    unsigned slot = trans_field(t, at, 1);
    if (inner == SHIFTS - 1) { /* to the right as to the left */
        shift = (bits + 1 - shift) & bits;
        inner--;
    }
    trans_take_back(t, at);
    bool in = dz_trans_in_acc(t, other, ACC_INT);
    if (in)
        dz_trans_take_acc(t, other, ACC_INT);
    unsigned h = (wide ? H_I64_SHL_ADD_S : H_I32_SHL_ADD_S) + (inner * 3 + outer) * 4;
    at = dz_trans_emit(t, h + (in ? 2u : 0u),
                       dz_trans_fields(t->top, slot, in ? 0 : dz_trans_slot(t, other), shift));
    dz_trans_result(t, at, wide ? DZ_WASM_I64 : DZ_WASM_I32, ACC_INT, 1);
    return true;
}

/* (x >> constant) & constant. */
static bool bits_of(struct wasm_trans *t, struct entry a, struct entry b)
{
    uint32_t at = trans_producer(t, a);
    if (at == WASM_NOWHERE || t->words[at] != H_I32_SHR_U_SC || entry_kind(b) != ENTRY_CONST ||
        b.bits > UINT16_MAX)
        return false;
    unsigned shift = (unsigned)trans_imm_of(t, at) & 31;
    unsigned slot = trans_field(t, at, 1);
    trans_take_back(t, at);
    at = dz_trans_emit(t, H_I32_BITS, dz_trans_fields(t->top, slot, (uint32_t)b.bits, shift));
    dz_trans_result(t, at, DZ_WASM_I32, ACC_INT, 1);
    return true;
}

/* --- loads ------------------------------------------------------------------------- */

struct load_op {
    unsigned op, load, fused; /* handlers: SS of the operation, S of the load */
    uint8_t type;
};
static const struct load_op load_ops[] = {
    {H_I32_ADD_SS, H_LOAD32_U_S, H_I32_ADD_MS, DZ_WASM_I32},
    {H_I32_AND_SS, H_LOAD32_U_S, H_I32_AND_MS, DZ_WASM_I32},
    {H_I32_OR_SS, H_LOAD32_U_S, H_I32_OR_MS, DZ_WASM_I32},
    {H_I32_XOR_SS, H_LOAD32_U_S, H_I32_XOR_MS, DZ_WASM_I32},
    {H_I64_ADD_SS, H_LOAD64_S, H_I64_ADD_MS, DZ_WASM_I64},
    {H_I64_AND_SS, H_LOAD64_S, H_I64_AND_MS, DZ_WASM_I64},
    {H_I64_OR_SS, H_LOAD64_S, H_I64_OR_MS, DZ_WASM_I64},
    {H_I64_XOR_SS, H_LOAD64_S, H_I64_XOR_MS, DZ_WASM_I64},
};

/* The first operand's value was made by the last cell, a load, for it alone: all of
 * these are commutative, and the one in the accumulator stands first. */
static bool load_op(struct wasm_trans *t, unsigned handler, struct entry a, struct entry b,
                    uint32_t to)
{
    uint32_t last = trans_last(t);
    if (last == WASM_NOWHERE || t->failed || entry_kind(b) == ENTRY_CONST ||
        entry_kind(a) != ENTRY_TEMP || !dz_trans_in_acc(t, a, ACC_INT) ||
        t->acc.by[ACC_INT].delta == 0 || t->acc.by[ACC_INT].pos != last)
        return false;
    for (size_t i = 0; i < DZ_ARRAY_LEN(load_ops); i++) {
        const struct load_op *k = &load_ops[i];
        if (k->op != handler || k->load != t->words[last])
            continue;
        uint32_t offset = (uint32_t)(t->words[last + 1] >> 32);
        if (offset > 0xffff)
            return false;
        t->words[last] = k->fused;
        t->words[last + 1] =
            dz_trans_fields(to, trans_field(t, last, 1), dz_trans_slot(t, b), offset);
        dz_trans_result(t, last, k->type, ACC_INT, 1);
        return true;
    }
    return false;
}

bool dz_trans_fuse_binary_slow(struct wasm_trans *t, unsigned handler, struct entry a,
                               struct entry b, uint32_t to)
{
    switch (handler) {
    case H_I32_ADD_SS:
    case H_I32_XOR_SS:
    case H_I32_OR_SS:
    case H_I64_ADD_SS:
    case H_I64_XOR_SS:
    case H_I64_OR_SS:
        if (shift_op(t, handler, b, a) || shift_op(t, handler, a, b))
            return true;
        break;
    case H_I32_AND_SS:
        if (bits_of(t, a, b))
            return true;
        break;
    case H_I64_AND_SS:
        break;
    default:
        return false;
    }
    return load_op(t, handler, a, b, to);
}

/* --- products ------------------------------------------------------------------------ */

/* + - * of a product and another operand; the product's two factors are rounded first. */
bool dz_trans_fuse_product(struct wasm_trans *t, unsigned op, struct entry a, struct entry b)
{
    enum {
        ADD = 0, /* rows of PRODUCTS, six handlers each */
        MUL = 6,
        SUB = 12,
        RSUB = 18,
        ROW = 6,
    };
    bool wide = op >= DZ_WASM_OP_f64_abs;
    unsigned row = op == DZ_WASM_OP_f32_add || op == DZ_WASM_OP_f64_add   ? ADD
                   : op == DZ_WASM_OP_f32_mul || op == DZ_WASM_OP_f64_mul ? MUL
                   : op == DZ_WASM_OP_f32_sub || op == DZ_WASM_OP_f64_sub ? SUB
                                                                          : RSUB + ROW;
    unsigned mul = wide ? H_F64_MUL_SS : H_F32_MUL_SS;
    struct entry other = a;
    uint32_t at = trans_producer(t, b);
    if (at == WASM_NOWHERE) {
        at = trans_producer(t, a);
        other = b;
        row = row == SUB ? RSUB : row;
    }
    if (row > RSUB || at == WASM_NOWHERE || entry_kind(other) == ENTRY_CONST ||
        (t->words[at] != mul && t->words[at] != mul + 2))
        return false;
    unsigned kind = t->words[at] == mul ? 0 : 1;
    uint64_t factors = t->words[at + 1] & UINT64_C(0x0000ffffffff0000);
    enum acc_no n = wide ? ACC_F64 : ACC_F32;
    trans_take_back(t, at);
    uint32_t slot = 0;
    if (kind == 0 && dz_trans_in_acc(t, other, n)) {
        dz_trans_take_acc(t, other, n);
        kind = 2;
    } else {
        slot = dz_trans_slot(t, other);
    }
    unsigned base = wide ? H_F64_MUL_ADD_SS : H_F32_MUL_ADD_SS;
    at = dz_trans_emit(t, base + row + kind, factors | t->top | (uint64_t)(slot & 0xffff) << 48);
    dz_trans_result(t, at, wide ? DZ_WASM_F64 : DZ_WASM_F32, n, 3);
    return true;
}

/* --- additions and moves, and what follows them ---------------------------------------- */

void dz_trans_fuse_pair(struct wasm_trans *t)
{
    uint32_t last = trans_last(t);
    if (last == WASM_NOWHERE || t->words[last] != H_I32_ADD_SC || t->cell_count < 2)
        return;
    uint32_t first = t->cells[t->cell_count - 2].word;
    if (first + 2 != last || first < t->barrier || t->words[first] != H_I32_ADD_SC ||
        !fits16(trans_imm_of(t, first)) || !fits16(trans_imm_of(t, last)))
        return;
    uint64_t third =
        dz_trans_fields(trans_field(t, first, 1), (uint32_t)trans_imm_of(t, first), 0, 0);
    t->words[first] = H_ADD_PAIR;
    t->words[first + 1] =
        dz_trans_fields(trans_field(t, last, 0), trans_field(t, last, 1),
                        (uint32_t)trans_imm_of(t, last), trans_field(t, first, 0));
    t->words[first + 2] = third;
    t->count = first + 3;
    t->cell_count--;
}

uint32_t dz_trans_fuse_jump(struct wasm_trans *t, bool back)
{
    uint32_t last = trans_last(t);
    if (last == WASM_NOWHERE || t->failed)
        return WASM_NOWHERE;
    if (t->words[last] == H_MOVE) {
        t->words[last] = back ? H_MOVE_JUMP_BACK : H_MOVE_JUMP;
    } else if (t->words[last] == H_MOVE2) {
        t->words[last] = back ? H_MOVE2_JUMP_BACK : H_MOVE2_JUMP;
        dz_trans_word(t, 0);
    } else {
        return WASM_NOWHERE;
    }
    return last;
}

/* x = y + constant, and a branch backwards that compares x: the comparison's
 * cell is gone already, its first operand is in the accumulator. */
uint32_t dz_trans_fuse_count(struct wasm_trans *t, unsigned index, bool constant, unsigned other)
{
    uint32_t last = trans_last(t);
    if (last == WASM_NOWHERE || t->failed ||
        (t->words[last] != H_I32_ADD_SC && t->words[last] != H_I32_SUB_SC))
        return WASM_NOWHERE;
    int32_t by = trans_imm_of(t, last);
    if (by < -0x7fff || by > 0x7fff)
        return WASM_NOWHERE;
    unsigned step = (unsigned)(t->words[last] == H_I32_ADD_SC ? by : -by) & 0xffff;
    t->words[last] = H_COUNT_EQ_S + index * 2 + (constant ? 1 : 0);
    t->words[last + 1] =
        dz_trans_fields(trans_field(t, last, 0), trans_field(t, last, 1), other, step);
    dz_trans_word(t, 0);
    return last;
}

/* --- accesses that absorb the cell before them ------------------------------------------- */

/* When the last cell made an address for this access alone (an addition of two slots, or of a slot
 * and a constant), that cell is removed and the access adds; a constant address needs no cell at
 * all. Likewise float arithmetic absorbs the load of one operand. Nothing can stop between the two
 * halves, so no safepoint is lost.
 *
 * Removing a cell restores what its accumulator mirrored before. */

static const struct fused_address fused_not = {FUSED_NOT, 0};

struct fused_address dz_trans_fuse_address(struct wasm_trans *t, struct entry e, uint32_t offset)
{
    if (entry_kind(e) == ENTRY_CONST) {
        uint64_t at = (e.bits & UINT32_MAX) + offset;
        return at <= UINT32_MAX ? (struct fused_address){FUSED_CONST, at << 32} : fused_not;
    }
    uint32_t at = trans_producer(t, e);
    if (at == WASM_NOWHERE)
        return fused_not;
    uint64_t word = t->words[at + 1];
    struct fused_address f;
    if (t->words[at] == H_I32_ADD_SC && offset == 0)
        f = (struct fused_address){FUSED_ADD_CONST, word & ~UINT64_C(0xffff)};
    else if (t->words[at] == H_I32_ADD_SS && offset <= UINT16_MAX)
        f = (struct fused_address){FUSED_ADD_SLOT,
                                   (word & UINT64_C(0xffffffff0000)) | (uint64_t)offset << 48};
    else
        return fused_not;
    trans_take_back(t, at);
    return f;
}

/* A local that the last cell has stepped on. */
static struct fused_address fuse_step(struct wasm_trans *t, struct entry e, uint32_t offset)
{
    uint32_t at = trans_last(t);
    if (at == WASM_NOWHERE || t->words[at] != H_I32_ADD_SC || trans_field(t, at, 0) != e.bits ||
        offset != 0 || t->failed)
        return fused_not;
    int32_t step = trans_imm_of(t, at);
    if (step != (int16_t)step)
        return fused_not;
    t->count = at; /* it still leaves the local in its slot and in the accumulator */
    t->cell_count--;
    t->def_cell = WASM_NOWHERE;
    t->cmp.cell = WASM_NOWHERE;
    return (struct fused_address){
        FUSED_STEP, dz_trans_fields(0, trans_field(t, at, 1), (uint32_t)step, (uint32_t)e.bits)};
}

/* base + (index << log2) too. */
struct fused_address dz_trans_fuse_load(struct wasm_trans *t, struct entry e, uint32_t offset,
                                        unsigned log2)
{
    if (entry_kind(e) == ENTRY_LOCAL)
        return fuse_step(t, e, offset);
    struct fused_address f = dz_trans_fuse_address(t, e, offset);
    if (f.kind != FUSED_NOT)
        return f;
    uint32_t at = trans_producer(t, e);
    if (at == WASM_NOWHERE || t->words[at] != H_I32_SHL_ADD_S || offset > UINT16_MAX ||
        trans_field(t, at, 3) != log2)
        return fused_not;
    /* the index stands first there, the base first here */
    f = (struct fused_address){
        FUSED_SCALED, dz_trans_fields(0, trans_field(t, at, 2), trans_field(t, at, 1), offset)};
    trans_take_back(t, at);
    return f;
}

bool dz_trans_fuse_add_to(struct wasm_trans *t, struct entry address, struct entry value,
                          uint32_t offset)
{
    bool wide = entry_type(value) == DZ_WASM_F64;
    uint32_t at = trans_producer(t, value);
    if (at == WASM_NOWHERE || entry_kind(address) == ENTRY_CONST || trans_field(t, at, 3) != offset)
        return false;
    unsigned add = wide ? H_F64_ADD_MEM_F_S : H_F32_ADD_MEM_F_S;
    unsigned slot = trans_field(t, at, 1);
    unsigned kind;
    if (t->words[at] == add && trans_place(address) == slot)
        kind = 0;
    else if (t->words[at] == add + 2 && dz_trans_in_acc(t, address, ACC_INT))
        kind = 1; /* floats have not touched it since */
    else
        return false;
    trans_take_back(t, at);
    (void)dz_trans_emit(t, (wide ? H_F64_ADD_TO_S : H_F32_ADD_TO_S) + kind,
                        dz_trans_fields(0, slot, 0, offset));
    return true;
}

/* The load behind e as address kind (0: slot, 2: accumulator) and word. */
static bool loaded(struct wasm_trans *t, struct entry e, unsigned load, unsigned *ret_kind,
                   uint64_t *ret_word)
{
    uint32_t at = trans_producer(t, e);
    if (at == WASM_NOWHERE || (t->words[at] != load && t->words[at] != load + 1))
        return false;
    uint64_t word = t->words[at + 1];
    uint64_t offset = word >> 32;
    if (offset > UINT16_MAX)
        return false;
    *ret_kind = t->words[at] == load ? 0 : 2;
    *ret_word = (word & 0xffff0000) | offset << 48;
    trans_take_back(t, at);
    return true;
}

/* x op m and m op x as rows of FUSED_FLOATS; 0: there is none. */
struct float_rows {
    uint8_t straight, reversed, wide;
};
static struct float_rows rows_of(unsigned op)
{
    switch (op) {
    case DZ_WASM_OP_f32_add:
        return (struct float_rows){1, 1, 0};
    case DZ_WASM_OP_f64_add:
        return (struct float_rows){1, 1, 1};
    case DZ_WASM_OP_f32_mul:
        return (struct float_rows){2, 2, 0};
    case DZ_WASM_OP_f64_mul:
        return (struct float_rows){2, 2, 1};
    case DZ_WASM_OP_f32_sub:
        return (struct float_rows){3, 4, 0};
    case DZ_WASM_OP_f64_sub:
        return (struct float_rows){3, 4, 1};
    default:
        return (struct float_rows){0, 0, 0};
    }
}

bool dz_trans_fuse_float(struct wasm_trans *t, unsigned op, struct entry a, struct entry b)
{
    struct float_rows rows = rows_of(op);
    if (!rows.straight || entry_kind(a) == ENTRY_CONST || entry_kind(b) == ENTRY_CONST)
        return false;
    unsigned load = rows.wide ? H_LOADF64_S : H_LOADF32_S;
    unsigned kind = 0, row = rows.straight;
    uint64_t word = 0;
    struct entry x = a;
    if (!loaded(t, b, load, &kind, &word)) {
        if (!loaded(t, a, load, &kind, &word))
            return false;
        row = rows.reversed;
        x = b;
    }
    enum acc_no n = rows.wide ? ACC_F64 : ACC_F32;
    unsigned from = 0;
    if (dz_trans_in_acc(t, x, n)) {
        dz_trans_take_acc(t, x, n);
        from = 4;
    } else {
        word |= (uint64_t)(dz_trans_slot(t, x) & 0xffff) << 32;
    }
    unsigned base = rows.wide ? H_F64_ADD_MEM_S_S : H_F32_ADD_MEM_S_S;
    uint32_t at = dz_trans_emit(t, base + (row - 1) * 8 + from + kind, word | entry_slot(a));
    dz_trans_result(t, at, rows.wide ? DZ_WASM_F64 : DZ_WASM_F32, n, 1);
    return true;
}
