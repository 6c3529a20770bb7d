/* SPDX-License-Identifier: MIT
 *
 * wasm_trans_access.c - memory accesses that take in the cell before them.
 *
 * When an address was made by the last cell for the access alone, an addition of
 * two slots or of a slot and a constant, that cell is taken back and the access
 * adds (wasm_exec_access.inc); a constant address needs no cell in the first
 * place. Likewise float arithmetic takes in the load of one operand. Nothing can
 * stop between the two halves, so no safepoint is lost.
 *
 * Taking a cell back brings back what its accumulator mirrored before.
 */
#include "wasm/wasm_trans.h"

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
