/* SPDX-License-Identifier: MIT
 *
 * wasm_trans.c - from the body of one function to cells in its module's arena.
 *
 * One pass; wasm_trans.h has the rules of the symbolic stack. Word 0 of a cell holds the number of
 * its handler until the function is finished. The same pass with `mapping` set and nothing
 * committed gives the table of safepoints (dz_wasm_points_of), so running code needs no memory for
 * it.
 *
 * Bodies come validated; reading does not check again, apart from the limits of this translator:
 * slots of a frame and words of the arena. A function with more slots than the fields of cells can
 * name is translated again, wide.
 */
#include "wasm/wasm_trans.h"

#include "base/mem.h"
#include "wasm/wasm_code.h"

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

static void wide_move(struct wasm_trans *t, uint32_t to, struct entry e)
{
    uint32_t from = trans_place(e);
    if (entry_kind(e) == ENTRY_CONST)
        (void)dz_trans_emit3(t, H_MOVE_FAR_C, dz_trans_imm(0, 0, to), e.bits);
    else if (from != to)
        (void)dz_trans_emit3(t, entry_type(e) == DZ_WASM_V128 ? H_MOVE_FAR_V : H_MOVE_FAR,
                             dz_trans_imm(0, 0, to), from);
}

void dz_trans_move(struct wasm_trans *t, uint32_t to, struct entry e)
{
    uint32_t from = trans_place(e);
    if (dz_unlikely(t->wide)) {
        wide_move(t, to, e);
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

/* --- reading --------------------------------------------------------------------------- */

enum {
    LEB_WORD = 8,
};
/* Decode a LEB128 number of at most eight bytes without a branch for each byte, which would be
 * mispredicted for every second number. *ret_bits is the number of its bits; 0: it is longer, or
 * the body ends before. */
static inline uint64_t leb_word(struct wasm_trans *t, unsigned *ret_bits)
{
    uint64_t w;
    *ret_bits = 0;
    if (dz_unlikely(t->end - t->p < LEB_WORD))
        return 0;
    memcpy(&w, t->p, sizeof w);
    uint64_t last = ~w & UINT64_C(0x8080808080808080);
    if (dz_unlikely(last == 0))
        return 0;
    unsigned bytes = (unsigned)__builtin_ctzll(last) / 8 + 1;
    w &= (last ^ (last - 1)) & UINT64_C(0x7f7f7f7f7f7f7f7f);
    w = (w & UINT64_C(0x007f007f007f007f)) | (w & UINT64_C(0x7f007f007f007f00)) >> 1;
    w = (w & UINT64_C(0x00003fff00003fff)) | (w & UINT64_C(0x3fff00003fff0000)) >> 2;
    w = (w & UINT64_C(0x000000000fffffff)) | (w & UINT64_C(0x0fffffff00000000)) >> 4;
    *ret_bits = bytes * 7;
    t->p += bytes;
    return w;
}

uint32_t dz_trans_u32_slow(struct wasm_trans *t)
{
    unsigned bits;
    uint32_t v = (uint32_t)leb_word(t, &bits);
    if (dz_likely(bits != 0))
        return v;
    for (unsigned shift = 0; t->p < t->end; shift += 7) {
        uint8_t b = *t->p++;
        v |= (uint32_t)(b & 127) << (shift & 31);
        if (b < 128)
            break;
    }
    return v;
}
int64_t dz_trans_s64(struct wasm_trans *t)
{
    unsigned bits;
    uint64_t v = leb_word(t, &bits);
    if (dz_likely(bits != 0))
        return (int64_t)(v << (64 - bits)) >> (64 - bits);
    for (unsigned shift = 0; t->p < t->end;) {
        uint8_t b = *t->p++;
        v |= (uint64_t)(b & 127) << (shift & 63);
        shift += 7;
        if (b < 128) {
            if (shift < 64 && (b & 64))
                v |= ~UINT64_C(0) << shift;
            break;
        }
    }
    return (int64_t)v;
}

/* The instruction number behind a prefix, 0xfc or 0xfd. */
static unsigned prefixed_op(struct wasm_trans *t, unsigned prefix)
{
    unsigned op = (prefix - 0xfb) * 0x100 + dz_trans_u32(t);
    return op < DZ_WASM_OP_LIMIT ? op : DZ_WASM_OP_nop; /* unreachable */
}

static void skip_labels(struct wasm_trans *t)
{
    for (uint32_t n = dz_trans_u32(t) + 1; n != 0; n--)
        (void)dz_trans_u32(t);
}
static void skip_catches(struct wasm_trans *t)
{
    (void)dz_trans_s64(t);
    for (uint32_t n = dz_trans_u32(t); n != 0; n--) {
        if (*t->p++ < 2)
            (void)dz_trans_u32(t);
        (void)dz_trans_u32(t);
    }
}
static void skip_memarg(struct wasm_trans *t)
{
    if (dz_trans_u32(t) & 64)
        (void)dz_trans_u32(t);
    (void)dz_trans_u32(t);
}

/* Step over what follows an instruction in dead code. */
static void skip_immediates(struct wasm_trans *t, unsigned op)
{
    switch ((enum dz_wasm_imm)dz_wasm_op_table[op].imm) {
    case DZ_WASM_IMM_NONE:
        break;
    case DZ_WASM_IMM_BLOCK:
    case DZ_WASM_IMM_I32:
    case DZ_WASM_IMM_I64:
        (void)dz_trans_s64(t);
        break;
    case DZ_WASM_IMM_TRY_TABLE:
        skip_catches(t);
        break;
    case DZ_WASM_IMM_LABELS:
        skip_labels(t);
        break;
    case DZ_WASM_IMM_TYPE_TABLE:
    case DZ_WASM_IMM_TABLE2:
    case DZ_WASM_IMM_ELEM_TABLE:
    case DZ_WASM_IMM_MEMORY2:
    case DZ_WASM_IMM_DATA_MEMORY:
    case DZ_WASM_IMM_SELECT:
        (void)dz_trans_u32(t);
        (void)dz_trans_u32(t);
        break;
    case DZ_WASM_IMM_LABEL:
    case DZ_WASM_IMM_FUNC:
    case DZ_WASM_IMM_TAG:
    case DZ_WASM_IMM_LOCAL:
    case DZ_WASM_IMM_GLOBAL:
    case DZ_WASM_IMM_TABLE:
    case DZ_WASM_IMM_ELEM:
    case DZ_WASM_IMM_MEMORY:
    case DZ_WASM_IMM_DATA:
        (void)dz_trans_u32(t);
        break;
    case DZ_WASM_IMM_MEMARG:
        skip_memarg(t);
        break;
    case DZ_WASM_IMM_MEMARG_LANE:
        skip_memarg(t);
        t->p++;
        break;
    case DZ_WASM_IMM_LANE:
    case DZ_WASM_IMM_REFTYPE:
        t->p++;
        break;
    case DZ_WASM_IMM_F32:
        t->p += 4;
        break;
    case DZ_WASM_IMM_F64:
        t->p += 8;
        break;
    case DZ_WASM_IMM_SHUFFLE:
    case DZ_WASM_IMM_V128:
        t->p += 16;
        break;
    }
}

/* --- instructions ------------------------------------------------------------------------- */

static void local_get(struct wasm_trans *t, unsigned op)
{
    (void)op;
    dz_trans_push(t, t->locals[dz_trans_u32(t)]);
}
static void local_set(struct wasm_trans *t, unsigned op)
{
    dz_trans_set_local(t, dz_trans_u32(t), op == DZ_WASM_OP_local_tee);
}

static uint32_t short_i32(uint8_t byte) /* 7 bits, signed */
{
    return (uint32_t)((int32_t)((uint32_t)byte << 25) >> 25);
}
static void constant_i32(struct wasm_trans *t, unsigned op)
{
    (void)op;
    uint32_t v = (uint32_t)dz_trans_s64(t);
    dz_trans_push(t, entry_of(ENTRY_CONST, DZ_WASM_I32, v));
}
static void constant_i64(struct wasm_trans *t, unsigned op)
{
    (void)op;
    uint64_t v = (uint64_t)dz_trans_s64(t);
    dz_trans_push(t, entry_of(ENTRY_CONST, DZ_WASM_I64, v));
}
/* A float's bits, in a slot: the rest of it is 0. */
static uint64_t bits(struct wasm_trans *t, size_t size)
{
    uint64_t v = 0;
    memcpy(&v, t->p, size);
    t->p += size;
    return v;
}
static void constant_f32(struct wasm_trans *t, unsigned op)
{
    (void)op;
    dz_trans_push(t, entry_of(ENTRY_CONST, DZ_WASM_F32, bits(t, sizeof(float))));
}
static void constant_f64(struct wasm_trans *t, unsigned op)
{
    (void)op;
    dz_trans_push(t, entry_of(ENTRY_CONST, DZ_WASM_F64, bits(t, sizeof(double))));
}

static void drop(struct wasm_trans *t, unsigned op)
{
    (void)op;
    (void)dz_trans_pop(t);
}
static void select_typed(struct wasm_trans *t, unsigned op)
{
    (void)dz_trans_u32(t); /* one type follows */
    (void)dz_trans_u32(t);
    dz_trans_select(t, op);
}

static void rare_instruction(struct wasm_trans *t, unsigned op)
{
    if (!dz_trans_control(t, op) && !dz_trans_memory(t, op) && !dz_trans_vector(t, op) &&
        !dz_trans_table(t, op))
        trans_fail(t, DZ_WASM_TRAP_UNREACHABLE); /* unreachable: the validator has the same table */
}

static void prefixed(struct wasm_trans *t, unsigned op)
{
    op = prefixed_op(t, op);
    if (op >= DZ_WASM_OP_i32_trunc_sat_f32_s && op <= DZ_WASM_OP_i64_trunc_sat_f64_u)
        dz_trans_convert(t, op);
    else
        rare_instruction(t, op);
}

/* The function for each first byte. One indirect jump for an instruction, because a mispredicted
 * one costs as much as the work that follows. */
#define OP(name)          [DZ_WASM_OP_##name]
#define OPS(name, end)    [DZ_WASM_OP_##name... DZ_WASM_OP_##end]
#define RARE(first, last) [(first)...(last)] = rare_instruction /* or no instruction */
static void (*const by_byte[256])(struct wasm_trans *t, unsigned op) = {
    RARE(0x00, 0x01), /* unreachable, nop */
    OPS(block, loop) = dz_trans_block,
    OP(if) = dz_trans_if,
    OP(else) = dz_trans_else,
    RARE(0x06, 0x0a), /* throw, throw_ref */
    OP(end) = dz_trans_end,
    OP(br) = dz_trans_br,
    OP(br_if) = dz_trans_br_if,
    RARE(0x0e, 0x0e), /* br_table */
    OP(return) = dz_trans_return,
    OP(call) = dz_trans_call,
    OP(call_indirect) = dz_trans_call_indirect,
    RARE(0x12, 0x19), /* tail calls */
    OP(drop) = drop,
    OP(select) = dz_trans_select,
    OP(select_t) = select_typed,
    RARE(0x1d, 0x1f), /* try_table */
    OP(local_get) = local_get,
    OPS(local_set, local_tee) = local_set,
    OP(global_get) = dz_trans_global_get,
    OP(global_set) = dz_trans_global_set,
    RARE(0x25, 0x27), /* table.get, table.set */
    OPS(i32_load, i64_load32_u) = dz_trans_load,
    OPS(i32_store, i64_store32) = dz_trans_store,
    RARE(0x3f, 0x40), /* memory.size, memory.grow */
    OP(i32_const) = constant_i32,
    OP(i64_const) = constant_i64,
    OP(f32_const) = constant_f32,
    OP(f64_const) = constant_f64,
    OP(i32_eqz) = dz_trans_int_unary,
    OPS(i32_eq, i32_ge_u) = dz_trans_int_compare,
    OP(i64_eqz) = dz_trans_int_unary,
    OPS(i64_eq, i64_ge_u) = dz_trans_int_compare,
    OPS(f32_eq, f64_ge) = dz_trans_float_binary,
    OPS(i32_clz, i32_popcnt) = dz_trans_int_unary,
    OPS(i32_add, i32_rotr) = dz_trans_int_binary,
    OPS(i64_clz, i64_popcnt) = dz_trans_int_unary,
    OPS(i64_add, i64_rotr) = dz_trans_int_binary,
    OPS(f32_abs, f32_sqrt) = dz_trans_convert,
    OPS(f32_add, f32_copysign) = dz_trans_float_binary,
    OPS(f64_abs, f64_sqrt) = dz_trans_convert,
    OPS(f64_add, f64_copysign) = dz_trans_float_binary,
    OP(i32_wrap_i64) = dz_trans_int_unary,
    OPS(i32_trunc_f32_s, i32_trunc_f64_u) = dz_trans_convert,
    OPS(i64_extend_i32_s, i64_extend_i32_u) = dz_trans_int_unary,
    OPS(i64_trunc_f32_s, f64_promote_f32) = dz_trans_convert,
    OPS(i32_reinterpret_f32, f64_reinterpret_i64) = dz_trans_reinterpret,
    OPS(i32_extend8_s, i64_extend32_s) = dz_trans_int_unary,
    RARE(0xc5, 0xd0), /* ref.null */
    OP(ref_is_null) = dz_trans_int_unary,
    RARE(0xd2, 0xfb), /* ref.func */
    [0xfc ... 0xfd] = prefixed,
    RARE(0xfe, 0xff),
};
#undef OP
#undef RARE
#undef OPS

static uint32_t slots_max(const struct wasm_trans *t)
{
    return t->wide ? DZ_WASM_FRAME_SLOTS_MAX : WASM_FIELD_MAX;
}

/* Skip an instruction of dead code: only blocks matter there. */
static void dead_instruction(struct wasm_trans *t, unsigned op)
{
    switch (op) {
    case DZ_WASM_OP_block:
    case DZ_WASM_OP_loop:
    case DZ_WASM_OP_if:
    case DZ_WASM_OP_try_table:
        t->dead_depth++;
        break;
    case DZ_WASM_OP_else:
        if (t->dead_depth == 0)
            dz_trans_else(t, op);
        return;
    case DZ_WASM_OP_end:
        if (t->dead_depth == 0)
            dz_trans_end(t, op);
        else
            t->dead_depth--;
        return;
    default:
        break;
    }
    skip_immediates(t, op);
}

/* Skip from an unconditional branch to the next reachable instruction. */
static void dead_code(struct wasm_trans *t)
{
    while (t->dead && t->p < t->end) {
        t->fuel_count++;
        t->at = t->p;
        unsigned op = *t->p++;
        dead_instruction(t, op >= 0xfc ? prefixed_op(t, op) : op);
    }
}

/* --- wide functions: a window around each instruction ------------------------------------- */

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

static void wide_open(struct wasm_trans *t, unsigned op)
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

static void wide_close(struct wasm_trans *t)
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

/* --- bodies ------------------------------------------------------------------------------- */

/* One instruction of a function that is wide or metered. */
static void counted(struct wasm_trans *t, unsigned op)
{
    const uint8_t *p = t->p;
    bool window = t->wide && op != DZ_WASM_OP_end && op != DZ_WASM_OP_else;
    t->fuel_count++;
    if (window)
        wide_open(t, op < 0xfc ? op : prefixed_op(t, op));
    t->p = p;
    by_byte[op](t, op);
    if (window)
        wide_close(t);
}

/* A run of local.get and i32.const with one-byte operands, four of ten instructions. Pushing them
 * here costs less than a mispredicted jump. */
static inline const uint8_t *short_pushes(struct wasm_trans *t, const uint8_t *p)
{
    struct entry *at = t->stack + t->depth;
    const struct entry *full = t->stack + t->stack_cap;
    const uint8_t *last = t->end - 1;
    uint32_t top = t->top;
    for (; p < last && p[1] < 128 && at < full; p += 2) {
        struct entry e;
        if (*p == DZ_WASM_OP_local_get)
            e = t->locals[p[1]];
        else if (*p == DZ_WASM_OP_i32_const)
            e = entry_of(ENTRY_CONST, DZ_WASM_I32, short_i32(p[1]));
        else
            break;
        *at++ = entry_at(e, top);
        top += dz_wasm_valtype_slots(entry_type(e));
    }
    t->depth = (uint32_t)(at - t->stack);
    t->top = top;
    if (top > t->max_slot)
        t->max_slot = top;
    return p;
}

/* A failure ends the loop by moving t->end back to t->p; so does the last `end`. Compiled twice,
 * because most functions are neither wide nor metered. */
static inline __attribute__((always_inline)) void instructions(struct wasm_trans *t, bool plain)
{
    for (const uint8_t *p; (p = t->p) < t->end;) {
        if (plain && (*p == DZ_WASM_OP_local_get || *p == DZ_WASM_OP_i32_const))
            p = short_pushes(t, p);
        t->at = p;
        unsigned op = *p;
        t->p = p + 1;
        if (plain)
            by_byte[op](t, op);
        else
            counted(t, op);
        if (dz_unlikely(t->dead))
            dead_code(t);
    }
}

static void body(struct wasm_trans *t)
{
    if (dz_unlikely(t->wide || t->code->fuel))
        instructions(t, false);
    else
        instructions(t, true);
    if (t->failed)
        return;
    if (t->block_count != 0)
        trans_fail(t, DZ_WASM_TRAP_UNREACHABLE); /* unreachable */
    else if (t->max_slot > slots_max(t))
        trans_fail(t, DZ_WASM_TRAP_FRAME_LIMIT);
}

/* --- functions ------------------------------------------------------------------------------ */

static bool add_locals(struct wasm_trans *t, uint32_t n, uint8_t type, uint32_t *slot)
{
    if (n > slots_max(t) - *slot) {
        trans_fail(t, DZ_WASM_TRAP_FRAME_LIMIT);
        return false;
    }
    if (!trans_grow(t, &t->locals, &t->local_cap, t->local_count + n, sizeof *t->locals))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        t->locals[t->local_count++] = entry_of(ENTRY_LOCAL, type, *slot);
        *slot += dz_wasm_valtype_slots(type);
    }
    return *slot <= slots_max(t);
}

static bool read_locals(struct wasm_trans *t)
{
    uint32_t slot = 0;
    t->local_count = 0;
    for (uint32_t i = 0; i < t->type->n_params; i++)
        if (!add_locals(t, 1, t->module->valtypes[t->type->params + i], &slot))
            return false;
    t->rec = wasm_rec(t->type->param_slots, t->type->result_slots);
    slot = t->rec + 1;
    for (uint32_t groups = dz_trans_u32(t); groups != 0; groups--) {
        uint32_t n = dz_trans_u32(t);
        if (!add_locals(t, n, *t->p++, &slot)) {
            if (!t->failed)
                t->trap = DZ_WASM_TRAP_FRAME_LIMIT;
            t->failed = true;
            return false;
        }
    }
    t->temp_base = slot;
    return true;
}

enum {
    AHEAD_MAX = 32 << 10,   /* bytes of a body: what they prefetch must stay in the cache */
    AHEAD_FUNCS_MIN = 1024, /* with fewer functions, their tables fit the cache */
};
/* Prefetch what translating a call reads of its callee. It lies anywhere in the megabytes of a
 * large module's tables, and waiting for it is an eighth of all time. Any byte that looks like a
 * call counts; a false one costs little. */
static void foresee_calls(const struct wasm_trans *t)
{
    const uint8_t *p = t->p;
    size_t left = (size_t)(t->end - p);
    uint32_t n_funcs = t->module->n_funcs;
    if (n_funcs < AHEAD_FUNCS_MIN)
        return;
    if (left > AHEAD_MAX)
        left = AHEAD_MAX;
    const uint8_t *end = p + left;
    while ((p = memchr(p, DZ_WASM_OP_call, (size_t)(end - p))) != NULL && end - p > 4) {
        uint32_t w;
        memcpy(&w, ++p, sizeof w);
        uint32_t last = ~w & 0x80808080u;
        w &= (last ^ (last - 1)) & 0x7f7f7f7fu;
        w = (w & 0x7f007fu) | (w & 0x7f007f00u) >> 1;
        w = (w & 0x3fffu) | (w & 0x3fff0000u) >> 2;
        if (w < n_funcs) {
            __builtin_prefetch(&t->module->funcs[w].type);
            __builtin_prefetch(&t->code->funcs[w]);
        }
    }
}

static void start(struct wasm_trans *t, struct dz_wasm_code *c, uint32_t func)
{
    t->code = c;
    t->module = c->module;
    t->base = c->module->wasm;
    t->func = func;
    t->failed = false;
    t->type = &c->module->types[c->module->funcs[func].type];
    t->depth = t->block_count = t->count = t->cell_count = 0;
    t->patch_count = t->catch_count = t->point_count = 0;
    t->dead = false;
    t->dead_depth = 0;
    t->fuel_cell = WASM_NOWHERE;
    t->fuel_count = 0;
    t->acc.slot[ACC_NONE] = WASM_NOWHERE;
    dz_trans_forget(t);
}

/* Invariant 3. */
static void assert_cells(const struct wasm_trans *t)
{
    for (uint32_t i = 1; DZ_CHECK_DEEP && i < t->cell_count; i++)
        assert(t->cells[i - 1].word < t->cells[i].word && t->cells[i].word < t->count);
    for (unsigned n = 0; n < ACC_COUNT; n++)
        assert(t->acc.slot[n] == WASM_NOWHERE || t->acc.slot[n] < t->max_slot);
    assert(t->cells[0].word == 0 && t->count <= t->cap);
}

static bool translate(struct wasm_trans *t, struct dz_wasm_code *c, uint32_t func)
{
    start(t, c, func);
    const struct dz_wasm_func *f = &c->module->funcs[func];
    if (dz_wasm_module_body(c->module, func, &t->p, NULL) < 0) {
        t->trap = DZ_WASM_TRAP_DAMAGED;
        return false;
    }
    t->end = t->p + f->body_size;
    foresee_calls(t);
    if (!read_locals(t))
        return false;
    t->top = t->max_slot = t->temp_base;
    t->at = t->p;
    if (!trans_grow(t, &t->blocks, &t->block_cap, 1, sizeof *t->blocks) ||
        !trans_grow(t, &t->stack, &t->stack_cap, 1, sizeof *t->stack))
        return false;
    t->blocks[t->block_count++] = (struct block){
        .type = f->type, .slot = t->temp_base, .patches = WASM_NOWHERE, .else_at = WASM_NOWHERE};
    uint32_t entry = dz_trans_emit(t, H_ENTRY, 0);
    dz_trans_point(t, POINT_ENTRY, 0, t->rec + 1);
    if (c->fuel)
        t->fuel_cell = dz_trans_emit(t, H_FUEL, 0);
    if (c->depth)
        (void)dz_trans_emit(t, H_DEPTH, 0);
    if (t->wide)
        (void)dz_trans_emit(t, H_ZERO_FAR, dz_trans_imm(t->rec + 1, 0, t->temp_base - t->rec - 1));
    body(t);
    if (t->failed)
        return false;
    if (c->fuel)
        t->words[t->fuel_cell + 1] = dz_trans_imm(0, 0, t->fuel_count);
    assert_cells(t);
    uint32_t fours = t->wide ? 0 : (t->temp_base - t->rec - 1 + 3) / 4;
    /* ENTRY may zero three slots too many; a call's record may lie behind the operands */
    t->words[entry + 1] = dz_trans_imm(t->rec + 1, fours, t->max_slot + 4);
    return true;
}

bool dz_wasm_trans_function(struct wasm_trans *t, struct dz_wasm_code *c, uint32_t func)
{
    t->wide = c->wide;
    if (dz_likely(translate(t, c, func)))
        return true;
    if (t->trap != DZ_WASM_TRAP_FRAME_LIMIT || t->wide)
        return false;
    t->wide = true;
    return translate(t, c, func);
}

struct wasm_trans *dz_wasm_trans_new(void)
{
    return dz_zalloc(sizeof(struct wasm_trans));
}
enum {
    TRIM_WORDS = 8192, /* of a function: most have a few hundred */
};

void dz_wasm_trans_trim(struct wasm_trans *t)
{
    if (t->cap <= TRIM_WORDS)
        return;
    dz_free(t->words);
    dz_free(t->cells);
    t->words = NULL;
    t->cells = NULL;
    t->count = t->cap = t->cell_count = t->cell_cap = 0;
}

void dz_wasm_trans_free(struct wasm_trans *t)
{
    if (!t)
        return;
    dz_free(t->locals);
    dz_free(t->stack);
    dz_free(t->blocks);
    dz_free(t->words);
    dz_free(t->cells);
    dz_free(t->patches);
    dz_free(t->catches);
    dz_free(t->points);
    dz_free(t);
}
