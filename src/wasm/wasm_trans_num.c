/* SPDX-License-Identifier: MIT
 *
 * wasm_trans_num.c - translation of arithmetic on scalars.
 *
 * The table `numerics` gives the first handler of each scalar instruction and the pattern in which
 * its variants follow (see wasm_exec_handlers.inc). The functions choose the variant by where the
 * operands are, and fuse the operation with a shift, load or product right before it.
 */
#include "wasm/wasm_trans.h"

enum shape {
    SHAPE_NONE,
    SHAPE_INT4C, /* SS SC RS RC, commutative */
    SHAPE_INT4,  /* the same, not commutative */
    SHAPE_INT7,  /* and SR CS CR */
    SHAPE_CMP,   /* like SHAPE_INT4; swapping operands mirrors the comparison */
    SHAPE_INT1,
    SHAPE_F4C,
    SHAPE_F4,
    SHAPE_F7,
    SHAPE_FCMP,
    SHAPE_F1,
    SHAPE_I2F,
    SHAPE_F2I,
    SHAPE_KEEP, /* reinterpret: the slot is the same */
};

struct numeric {
    uint16_t handler;
    uint8_t shape;
};

#define INT_BOTH(n)                                                     \
    [DZ_WASM_OP_i##n##_add] = {H_I##n##_ADD_SS, SHAPE_INT4C},           \
    [DZ_WASM_OP_i##n##_mul] = {H_I##n##_MUL_SS, SHAPE_INT4C},           \
    [DZ_WASM_OP_i##n##_and] = {H_I##n##_AND_SS, SHAPE_INT4C},           \
    [DZ_WASM_OP_i##n##_or] = {H_I##n##_OR_SS, SHAPE_INT4C},             \
    [DZ_WASM_OP_i##n##_xor] = {H_I##n##_XOR_SS, SHAPE_INT4C},           \
    [DZ_WASM_OP_i##n##_sub] = {H_I##n##_SUB_SS, SHAPE_INT7},            \
    [DZ_WASM_OP_i##n##_shl] = {H_I##n##_SHL_SS, SHAPE_INT7},            \
    [DZ_WASM_OP_i##n##_shr_s] = {H_I##n##_SHR_S_SS, SHAPE_INT7},        \
    [DZ_WASM_OP_i##n##_shr_u] = {H_I##n##_SHR_U_SS, SHAPE_INT7},        \
    [DZ_WASM_OP_i##n##_rotl] = {H_I##n##_ROTL_SS, SHAPE_INT7},          \
    [DZ_WASM_OP_i##n##_rotr] = {H_I##n##_ROTR_SS, SHAPE_INT7},          \
    [DZ_WASM_OP_i##n##_div_s] = {H_I##n##_DIV_S_SS, SHAPE_INT4},        \
    [DZ_WASM_OP_i##n##_div_u] = {H_I##n##_DIV_U_SS, SHAPE_INT4},        \
    [DZ_WASM_OP_i##n##_rem_s] = {H_I##n##_REM_S_SS, SHAPE_INT4},        \
    [DZ_WASM_OP_i##n##_rem_u] = {H_I##n##_REM_U_SS, SHAPE_INT4},        \
    [DZ_WASM_OP_i##n##_eq] = {H_I##n##_EQ_SS, SHAPE_CMP},               \
    [DZ_WASM_OP_i##n##_ne] = {H_I##n##_NE_SS, SHAPE_CMP},               \
    [DZ_WASM_OP_i##n##_lt_s] = {H_I##n##_LT_S_SS, SHAPE_CMP},           \
    [DZ_WASM_OP_i##n##_lt_u] = {H_I##n##_LT_U_SS, SHAPE_CMP},           \
    [DZ_WASM_OP_i##n##_gt_s] = {H_I##n##_GT_S_SS, SHAPE_CMP},           \
    [DZ_WASM_OP_i##n##_gt_u] = {H_I##n##_GT_U_SS, SHAPE_CMP},           \
    [DZ_WASM_OP_i##n##_le_s] = {H_I##n##_LE_S_SS, SHAPE_CMP},           \
    [DZ_WASM_OP_i##n##_le_u] = {H_I##n##_LE_U_SS, SHAPE_CMP},           \
    [DZ_WASM_OP_i##n##_ge_s] = {H_I##n##_GE_S_SS, SHAPE_CMP},           \
    [DZ_WASM_OP_i##n##_ge_u] = {H_I##n##_GE_U_SS, SHAPE_CMP},           \
    [DZ_WASM_OP_i##n##_eqz] = {H_I##n##_EQZ_S, SHAPE_INT1},             \
    [DZ_WASM_OP_i##n##_clz] = {H_I##n##_CLZ_S, SHAPE_INT1},             \
    [DZ_WASM_OP_i##n##_ctz] = {H_I##n##_CTZ_S, SHAPE_INT1},             \
    [DZ_WASM_OP_i##n##_popcnt] = {H_I##n##_POPCNT_S, SHAPE_INT1},       \
    [DZ_WASM_OP_i##n##_extend8_s] = {H_I##n##_EXTEND8_S_S, SHAPE_INT1}, \
    [DZ_WASM_OP_i##n##_extend16_s] = {H_I##n##_EXTEND16_S_S, SHAPE_INT1}

#define FLOAT_BOTH(n)                                                          \
    [DZ_WASM_OP_f##n##_add] = {H_F##n##_ADD_SS, SHAPE_F4C},                    \
    [DZ_WASM_OP_f##n##_mul] = {H_F##n##_MUL_SS, SHAPE_F4C},                    \
    [DZ_WASM_OP_f##n##_sub] = {H_F##n##_SUB_SS, SHAPE_F7},                     \
    [DZ_WASM_OP_f##n##_div] = {H_F##n##_DIV_SS, SHAPE_F7},                     \
    [DZ_WASM_OP_f##n##_min] = {H_F##n##_MIN_SS, SHAPE_F4},                     \
    [DZ_WASM_OP_f##n##_max] = {H_F##n##_MAX_SS, SHAPE_F4},                     \
    [DZ_WASM_OP_f##n##_copysign] = {H_F##n##_COPYSIGN_SS, SHAPE_F4},           \
    [DZ_WASM_OP_f##n##_abs] = {H_F##n##_ABS_S, SHAPE_F1},                      \
    [DZ_WASM_OP_f##n##_neg] = {H_F##n##_NEG_S, SHAPE_F1},                      \
    [DZ_WASM_OP_f##n##_ceil] = {H_F##n##_CEIL_S, SHAPE_F1},                    \
    [DZ_WASM_OP_f##n##_floor] = {H_F##n##_FLOOR_S, SHAPE_F1},                  \
    [DZ_WASM_OP_f##n##_trunc] = {H_F##n##_TRUNC_S, SHAPE_F1},                  \
    [DZ_WASM_OP_f##n##_nearest] = {H_F##n##_NEAREST_S, SHAPE_F1},              \
    [DZ_WASM_OP_f##n##_sqrt] = {H_F##n##_SQRT_S, SHAPE_F1},                    \
    [DZ_WASM_OP_f##n##_eq] = {H_F##n##_EQ_SS, SHAPE_FCMP},                     \
    [DZ_WASM_OP_f##n##_ne] = {H_F##n##_NE_SS, SHAPE_FCMP},                     \
    [DZ_WASM_OP_f##n##_lt] = {H_F##n##_LT_SS, SHAPE_FCMP},                     \
    [DZ_WASM_OP_f##n##_gt] = {H_F##n##_GT_SS, SHAPE_FCMP},                     \
    [DZ_WASM_OP_f##n##_le] = {H_F##n##_LE_SS, SHAPE_FCMP},                     \
    [DZ_WASM_OP_f##n##_ge] = {H_F##n##_GE_SS, SHAPE_FCMP},                     \
    [DZ_WASM_OP_f##n##_convert_i32_s] = {H_F##n##_CONVERT_I32_S_S, SHAPE_I2F}, \
    [DZ_WASM_OP_f##n##_convert_i32_u] = {H_F##n##_CONVERT_I32_U_S, SHAPE_I2F}, \
    [DZ_WASM_OP_f##n##_convert_i64_s] = {H_F##n##_CONVERT_I64_S_S, SHAPE_I2F}, \
    [DZ_WASM_OP_f##n##_convert_i64_u] = {H_F##n##_CONVERT_I64_U_S, SHAPE_I2F}

#define TO_INT(i, I, f, F, s, S)                                                   \
    [DZ_WASM_OP_##i##_trunc_##f##_##s] = {H_##I##_TRUNC_##F##_##S##_S, SHAPE_F2I}, \
    [DZ_WASM_OP_##i##_trunc_sat_##f##_##s] = {H_##I##_TRUNC_##F##_##S##_SAT_S, SHAPE_F2I}

static const struct numeric numerics[0x108] = {
    INT_BOTH(32),
    INT_BOTH(64),
    [DZ_WASM_OP_i64_extend32_s] = {H_I64_EXTEND32_S_S, SHAPE_INT1},
    [DZ_WASM_OP_i32_wrap_i64] = {H_I32_WRAP_S, SHAPE_INT1},
    [DZ_WASM_OP_i64_extend_i32_s] = {H_I64_EXTEND_S_S, SHAPE_INT1},
    [DZ_WASM_OP_i64_extend_i32_u] = {H_I64_EXTEND_U_S, SHAPE_INT1},
    FLOAT_BOTH(32),
    FLOAT_BOTH(64),
    [DZ_WASM_OP_f32_demote_f64] = {H_F32_DEMOTE_S, SHAPE_F1},
    [DZ_WASM_OP_f64_promote_f32] = {H_F64_PROMOTE_S, SHAPE_F1},
    TO_INT(i32, I32, f32, F32, s, S),
    TO_INT(i32, I32, f32, F32, u, U),
    TO_INT(i32, I32, f64, F64, s, S),
    TO_INT(i32, I32, f64, F64, u, U),
    TO_INT(i64, I64, f32, F32, s, S),
    TO_INT(i64, I64, f32, F32, u, U),
    TO_INT(i64, I64, f64, F64, s, S),
    TO_INT(i64, I64, f64, F64, u, U),
    [DZ_WASM_OP_i32_reinterpret_f32] = {0, SHAPE_KEEP},
    [DZ_WASM_OP_i64_reinterpret_f64] = {0, SHAPE_KEEP},
    [DZ_WASM_OP_f32_reinterpret_i32] = {0, SHAPE_KEEP},
    [DZ_WASM_OP_f64_reinterpret_i64] = {0, SHAPE_KEEP},
    [DZ_WASM_OP_ref_is_null] = {H_I64_EQZ_S, SHAPE_INT1},
};

/* --- operand kinds -------------------------------------------------------------------- */

enum {
    SS,
    SC,
    RS,
    RC,
    SR,
    CS,
    CR,
};

/* Does the constant fit the 32 bits of a cell? */
static bool fits(struct entry e)
{
    return entry_kind(e) == ENTRY_CONST &&
           (entry_type(e) == DZ_WASM_I32 || (int64_t)e.bits == (int32_t)e.bits);
}

/* Choose among the first four kinds; *word gets word 1 without FC. */
static unsigned pick4(struct wasm_trans *t, struct entry a, struct entry b, uint64_t *word)
{
    if (dz_trans_in_acc(t, a, ACC_INT)) {
        dz_trans_take_acc(t, a, ACC_INT);
        if (fits(b)) {
            *word = dz_trans_imm(0, 0, (uint32_t)b.bits);
            return RC;
        }
        *word = dz_trans_fields(0, 0, dz_trans_slot(t, b), 0);
        return RS;
    }
    uint32_t s = dz_trans_slot(t, a);
    if (fits(b)) {
        *word = dz_trans_imm(0, s, (uint32_t)b.bits);
        return SC;
    }
    *word = dz_trans_fields(0, s, dz_trans_slot(t, b), 0);
    return SS;
}
static unsigned pick7(struct wasm_trans *t, struct entry a, struct entry b, uint64_t *word)
{
    if (dz_trans_in_acc(t, b, ACC_INT) && !dz_trans_in_acc(t, a, ACC_INT)) {
        dz_trans_take_acc(t, b, ACC_INT);
        if (fits(a)) {
            *word = dz_trans_imm(0, 0, (uint32_t)a.bits);
            return CR;
        }
        *word = dz_trans_fields(0, dz_trans_slot(t, a), 0, 0);
        return SR;
    }
    if (fits(a) && !fits(b) && !dz_trans_in_acc(t, b, ACC_INT)) {
        *word = dz_trans_imm(0, dz_trans_slot(t, b), (uint32_t)a.bits);
        return CS;
    }
    return pick4(t, a, b, word);
}

/* Is it better to swap the operands? */
static bool better_swapped(const struct wasm_trans *t, struct entry a, struct entry b,
                           enum acc_no n)
{
    if (entry_kind(a) == ENTRY_CONST)
        return entry_kind(b) != ENTRY_CONST;
    return dz_trans_in_acc(t, b, n) && !dz_trans_in_acc(t, a, n);
}
static void swap(struct entry *a, struct entry *b)
{
    struct entry c = *a;
    *a = *b;
    *b = c;
}

/* --- shifts ------------------------------------------------------------------------ */

enum {
    SHIFTS = 5,                         /* SHL SHR_S SHR_U ROTL ROTR, */
    SHIFT_KINDS = 14,                   /* handlers each, */
    SHIFT_COUNT = SHIFTS * SHIFT_KINDS, /* of a width */
};

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

/* --- integers and loads ------------------------------------------------------------------- */

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

/* Fuse with the load that made the first operand and nothing else. All these operations are
 * commutative, and the operand in the accumulator stands first. */
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

/* Only a shift or a load can be fused with the operation behind it, and few cells are. */
static inline bool may_fuse_binary(const struct wasm_trans *t)
{
    unsigned last = trans_last_handler(t);
    return last - H_I32_SHL_SS < SHIFT_COUNT || last - H_I64_SHL_SS < SHIFT_COUNT ||
           last == H_LOAD32_U_S || last == H_LOAD64_S;
}

/* Both operands are popped and the result belongs to slot `to`; handler is that of kind SS. */
static bool fuse_binary(struct wasm_trans *t, unsigned handler, struct entry a, struct entry b,
                        uint32_t to)
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

void dz_trans_int_binary(struct wasm_trans *t, unsigned op)
{
    struct numeric n = numerics[op];
    unsigned result = op >= DZ_WASM_OP_i64_add ? DZ_WASM_I64 : DZ_WASM_I32;
    struct entry b = dz_trans_pop(t);
    struct entry a = dz_trans_pop(t);
    uint32_t to = entry_slot(a);
    uint64_t word;
    unsigned kind;
    if (n.shape == SHAPE_INT4C && better_swapped(t, a, b, ACC_INT))
        swap(&a, &b);
    if (may_fuse_binary(t) && fuse_binary(t, n.handler, a, b, to))
        return;
    kind = n.shape == SHAPE_INT7 ? pick7(t, a, b, &word) : pick4(t, a, b, &word);
    uint32_t pos = dz_trans_emit(t, n.handler + kind, word | to);
    dz_trans_result(t, pos, result, ACC_INT, n.shape == SHAPE_INT7 ? 7 : 4);
}

static const uint8_t mirrored[] = {0, 1, 4, 5, 2, 3, 8, 9, 6, 7}; /* EQ NE LT GT LE GE, s and u */
static const uint8_t mirrored_float[] = {0, 1, 3, 2, 5, 4};       /* EQ NE LT GT LE GE */

void dz_trans_int_compare(struct wasm_trans *t, unsigned op)
{
    struct numeric n = numerics[op];
    struct entry b = dz_trans_pop(t);
    struct entry a = dz_trans_pop(t);
    uint32_t to = entry_slot(a);
    unsigned wide = n.handler >= H_I64_EQ_SS ? 10 : 0;
    unsigned index = (n.handler - H_I32_EQ_SS) / 8u - wide;
    if (better_swapped(t, a, b, ACC_INT)) {
        swap(&a, &b);
        index = mirrored[index];
    }
    uint64_t word;
    unsigned kind = pick4(t, a, b, &word);
    struct compare c = {.family = 0, .index = (uint8_t)(index + wide), .kind = (uint8_t)kind};
    c.word = word;
    uint32_t pos = dz_trans_emit(t, H_I32_EQ_SS + (index + wide) * 8 + kind, word | to);
    dz_trans_result(t, pos, DZ_WASM_I32, ACC_INT, 4);
    c.cell = t->cell_count - 1;
    t->cmp = c;
}

/* i32.eqz of an integer comparison is the opposite comparison. */
static bool invert_compare(struct wasm_trans *t, unsigned op)
{
    struct compare *c = &t->cmp;
    if (op != DZ_WASM_OP_i32_eqz || t->depth == 0 || c->cell == WASM_NOWHERE ||
        c->cell != t->cell_count - 1 || c->family != 0)
        return false;
    struct entry e = t->stack[t->depth - 1];
    uint32_t at = t->cells[c->cell].word;
    if (entry_kind(e) != ENTRY_TEMP || t->def_cell != c->cell || t->def_slot != entry_slot(e))
        return false;
    unsigned wide = c->index >= 10 ? 10 : 0;
    c->index = (uint8_t)(trans_opposite[c->index - wide] + wide);
    t->words[at] = H_I32_EQ_SS + c->index * 8u + c->kind;
    return true;
}

void dz_trans_int_unary(struct wasm_trans *t, unsigned op)
{
    struct numeric n = numerics[op];
    unsigned result = op == DZ_WASM_OP_ref_is_null ? DZ_WASM_I32 : dz_wasm_op_table[op].type[3];
    if (invert_compare(t, op))
        return;
    struct entry a = dz_trans_pop(t);
    struct compare c = {.family = op == DZ_WASM_OP_i32_eqz ? 2 : 3};
    unsigned kind = dz_trans_in_acc(t, a, ACC_INT);
    uint64_t word = 0;
    if (kind)
        dz_trans_take_acc(t, a, ACC_INT);
    else
        word = dz_trans_fields(0, dz_trans_slot(t, a), 0, 0);
    c.kind = kind ? RS : SS;
    c.word = word;
    uint32_t pos = dz_trans_emit(t, n.handler + kind, word | entry_slot(a));
    dz_trans_result(t, pos, result, ACC_INT, 2);
    if (n.handler == H_I32_EQZ_S || n.handler == H_I64_EQZ_S) {
        c.cell = t->cell_count - 1;
        t->cmp = c;
    }
}

/* --- floats ---------------------------------------------------------------------------- */

/* SS SK FS FK, then SF KS KF: word 1, and whether a constant follows. */
static unsigned pick_float(struct wasm_trans *t, struct entry *a, struct entry *b, bool seven,
                           uint64_t *word, const uint64_t **constant)
{
    enum acc_no n = acc_of(entry_type(*a));
    *constant = NULL;
    bool a_in = dz_trans_in_acc(t, *a, n);
    bool b_in = dz_trans_in_acc(t, *b, n) && !a_in;
    if (seven && entry_kind(*a) == ENTRY_CONST && entry_kind(*b) != ENTRY_CONST) {
        *constant = &a->bits;
        *word = b_in ? 0 : dz_trans_fields(0, dz_trans_slot(t, *b), 0, 0);
        if (b_in)
            dz_trans_take_acc(t, *b, n);
        return b_in ? CR : CS;
    }
    if (seven && b_in) {
        dz_trans_take_acc(t, *b, n);
        *word = dz_trans_fields(0, dz_trans_slot(t, *a), 0, 0);
        return SR;
    }
    uint32_t s = 0;
    if (a_in)
        dz_trans_take_acc(t, *a, n);
    else
        s = dz_trans_slot(t, *a);
    if (entry_kind(*b) == ENTRY_CONST) {
        *constant = &b->bits;
        *word = dz_trans_fields(0, s, 0, 0);
        return a_in ? RC : SC;
    }
    *word = dz_trans_fields(0, s, dz_trans_slot(t, *b), 0);
    return a_in ? RS : SS;
}

/* --- products ------------------------------------------------------------------------ */

/* + - * of a product and another operand; the product's two factors are rounded first. */
static bool fuse_product(struct wasm_trans *t, unsigned op, struct entry a, struct entry b)
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

/* Emit a binary operation of which one operand is the load right before it. */
static bool fuse_float(struct wasm_trans *t, unsigned op, struct entry a, struct entry b)
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
void dz_trans_float_binary(struct wasm_trans *t, unsigned op)
{
    struct numeric n = numerics[op];
    unsigned result = dz_wasm_op_table[op].type[3];
    struct entry b = dz_trans_pop(t);
    struct entry a = dz_trans_pop(t);
    if (fuse_float(t, op, a, b) || fuse_product(t, op, a, b))
        return;
    uint32_t to = entry_slot(a);
    unsigned index = 0;
    unsigned wide = n.handler >= H_F64_EQ_SS ? 6 : 0;
    if (n.shape == SHAPE_FCMP)
        index = (n.handler - H_F32_EQ_SS) / 8u - wide;
    if ((n.shape == SHAPE_F4C || n.shape == SHAPE_FCMP) &&
        better_swapped(t, a, b, acc_of(entry_type(a)))) {
        swap(&a, &b);
        index = mirrored_float[index];
    }
    uint64_t word;
    const uint64_t *constant;
    unsigned kind = pick_float(t, &a, &b, n.shape == SHAPE_F7, &word, &constant);
    struct compare c = {.family = 1, .index = (uint8_t)(index + wide), .kind = (uint8_t)kind};
    c.word = word;
    unsigned handler = n.shape == SHAPE_FCMP ? H_F32_EQ_SS + (index + wide) * 8 : n.handler;
    uint32_t pos = dz_trans_emit(t, handler + kind, word | to);
    if (constant)
        dz_trans_word(t, *constant);
    dz_trans_result(t, pos, result, acc_of(result), n.shape == SHAPE_F7 ? 7 : 4);
    if (n.shape == SHAPE_FCMP && !constant) {
        c.cell = t->cell_count - 1;
        t->cmp = c;
    }
}

/* One operand: read from the accumulator of its type if it is there. */
void dz_trans_convert(struct wasm_trans *t, unsigned op)
{
    unsigned handler = numerics[op].handler;
    unsigned result = dz_wasm_op_table[op].type[3];
    struct entry a = dz_trans_pop(t);
    enum acc_no n = acc_of(entry_type(a));
    unsigned kind = dz_trans_in_acc(t, a, n);
    uint64_t word = 0;
    if (kind)
        dz_trans_take_acc(t, a, n);
    else
        word = dz_trans_fields(0, dz_trans_slot(t, a), 0, 0);
    uint32_t pos = dz_trans_emit(t, handler + kind, word | entry_slot(a));
    dz_trans_result(t, pos, result, acc_of(result), 2);
}

void dz_trans_reinterpret(struct wasm_trans *t, unsigned op)
{
    struct entry *e = &t->stack[t->depth - 1];
    *e = entry_at(entry_of(entry_kind(*e), dz_wasm_op_table[op].type[3], e->bits), entry_slot(*e));
}
