/* SPDX-License-Identifier: MIT
 *
 * wasm_trans.h - the translator: from the stack machine of WebAssembly to cells on slots.
 *
 * One pass over a validated body. The translator runs the operand stack symbolically. An entry
 * says where the operand is: in its own slot (TEMP), still in a local (LOCAL), or nowhere yet
 * because it is a constant (CONST). local.get and const emit nothing; the instruction that
 * consumes them names the local's slot or holds the constant in its own cell:
 *
 *     binary           symbolic stack                      cells
 *     local.get 0      LOCAL slot 0
 *     i32.const 4      LOCAL slot 0, CONST 4
 *     i32.add          TEMP slot 5                         I32_ADD_SC  FC=5 FA=0 IMM=4
 *     i32.load         TEMP slot 5                         LOAD32_U_A  FC=5 FA=0 IMM=4
 *
 * The slot of an operand follows from the types of the operands below it, so both ways into a
 * label leave an operand in the same slot and merges of control flow need no moves.
 *
 * Accumulators. A handler leaves its result in a register as well as in its slot. The translator
 * remembers which slot each register mirrors. A consumer then takes the register; if the operand
 * was a TEMP (consumed once, by definition), the producer is changed to its variant that writes no
 * slot. A mirror ends where the register or the slot is written, at labels and at calls.
 *
 * Fusion. Where a pair of cells is frequent enough to have a handler of its own, the second
 * instruction replaces the first's cell, as i32.load does above. Only the very last cell may be
 * replaced, and only when no label lies behind it; trans_last() checks both. The new cell reads
 * its operands before it writes its result, or does its parts in the order of the cells that it
 * replaces. No safepoint lies between the parts. Removing a cell restores what its accumulator
 * mirrored before (trans_take_back).
 *
 * Wide functions. A field of a cell names one of 65,536 slots. Nearly every function needs fewer;
 * one that needs more is translated a second time, by these rules:
 *   - Nothing is folded or fused: after each instruction every operand lies in its slot and no
 *     accumulator is used.
 *   - An instruction on operands gets a window: a SHIFT cell before it moves fp up to its lowest
 *     operand, another behind it moves fp back, and the translator shifts the slots of the topmost
 *     operands likewise. A trap in between undoes the shift (ctx->shift); no safepoint lies in
 *     between.
 *   - Moves name both slots by 32 bits; conditions come through the accumulator; a call has a cell
 *     with all it needs in whole words.
 * The layout of a wide frame is that of every frame, so saved states do not differ.
 *
 * Invariants:
 *   1. The entries' slots are consecutive: each begins where the one below it ends, and `top` is
 *      where the next will begin (assert_stack).
 *   2. At every label, call, loop head and long operation, all operands of the innermost block lie
 *      in their slots (dz_trans_settle, assert_settled).
 *   3. Cells are in order of their words, without gaps; an accumulator mirrors a slot of the frame
 *      (assert_cells).
 *
 * wasm_trans.c reads and dispatches, wasm_trans_ctl.c has blocks, branches and calls,
 * wasm_trans_num.c numbers, wasm_trans_mem.c variables, memory, tables and vectors.
 */
#ifndef DZ_WASM_TRANS_H
#define DZ_WASM_TRANS_H

#include <assert.h>

#include "wasm/wasm_exec.h"

#define WASM_NOWHERE UINT32_MAX

enum entry_kind {
    ENTRY_TEMP,
    ENTRY_LOCAL,
    ENTRY_CONST,
};
/* Two words, so that it travels in two registers and is written as it is read: where
 * fields are stored one by one and read together, the processor waits. */
struct entry {
    uint64_t head; /* kind | type << 8 | its own slot << 32 */
    uint64_t bits; /* CONST: the value, never of a v128; LOCAL: the slot of the local */
};
static inline struct entry entry_of(enum entry_kind kind, unsigned type, uint64_t bits)
{
    return (struct entry){(uint64_t)kind | (uint64_t)type << 8, bits};
}
static inline struct entry entry_at(struct entry e, uint32_t slot)
{
    return (struct entry){(uint32_t)e.head | (uint64_t)slot << 32, e.bits};
}
static inline enum entry_kind entry_kind(struct entry e)
{
    /* NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): entry_of() put one there */
    return (enum entry_kind)(e.head & 0xff);
}
static inline unsigned entry_type(struct entry e)
{
    return (unsigned)(e.head >> 8) & 0xff;
}
static inline uint32_t entry_slot(struct entry e)
{
    return (uint32_t)(e.head >> 32);
}

enum acc_no {
    ACC_INT,
    ACC_F64,
    ACC_F32,
    ACC_COUNT,
    ACC_NONE = ACC_COUNT,
};
/* The slots that accumulators mirror. Two arrays, not one of pairs: a pair would be copied by
 * one load of 8 bytes right after two stores of 4, for which the processor waits. */
struct acc_by {
    uint32_t pos : 28;  /* word of the cell that made it */
    uint32_t delta : 4; /* added to the handler's number, it writes no slot; 0: it must write */
};
struct acc_state {
    uint32_t slot[ACC_COUNT + 1]; /* WASM_NOWHERE: none. The last is no accumulator's */
    struct acc_by by[ACC_COUNT + 1];
};

/* The accumulator of results of this type. */
static inline enum acc_no acc_of(unsigned type)
{
    return type == DZ_WASM_F32    ? ACC_F32
           : type == DZ_WASM_F64  ? ACC_F64
           : type == DZ_WASM_V128 ? ACC_NONE
                                  : ACC_INT;
}

/* The opposite of an integer comparison: EQ NE LT GT LE GE, from LT on s and u. */
static const uint8_t trans_opposite[] = {1, 0, 8, 9, 6, 7, 4, 5, 2, 3};

/* A comparison whose cell is the last one: may become part of a branch. */
struct compare {
    uint32_t cell;  /* number of its cell, or WASM_NOWHERE */
    uint8_t family; /* 0: i32, i64 comparisons; 1: f32, f64; 2: eqz of i32; 3: of i64 */
    uint8_t index;  /* in its family */
    uint8_t kind;   /* SS SC RS RC */
    uint64_t word;  /* word 1 */
};

enum {
    PATCH_IMM,   /* IMM of the cell at `at`, relative to it */
    PATCH_TABLE, /* half `half` of word `at`, relative to `base` */
    PATCH_CATCH, /* target of catch number `at` of this function */
};
struct patch {
    uint8_t what, half;
    uint32_t at, base;
    uint32_t next; /* of the same label, or WASM_NOWHERE */
};

struct block {
    uint8_t op;       /* enum dz_wasm_op: block loop if else try_table; 0 = the function */
    uint32_t height;  /* entries below its parameters */
    uint32_t slot;    /* of its first parameter and result */
    uint32_t type;    /* index in the module, or WASM_NOWHERE: no parameters and `result` */
    uint8_t result;   /* value type or 0 */
    uint32_t start;   /* loop: word of its head; try_table: of its body */
    uint32_t patches; /* branches to its end */
    uint32_t else_at; /* if: branch to the else part, or WASM_NOWHERE */
    uint32_t detour;  /* scratch of br_table: word of the detour for this label */
    uint32_t detour_table;
    uint32_t catch_first, catch_count; /* try_table: in wasm_trans.catches */
};

struct cell_pos {
    uint32_t word, offset;
};

/* A safepoint, where a state may be saved or resumed; recorded only when wasm_trans.mapping. */
enum point_kind {
    POINT_ENTRY,  /* first cell of the function; only the parameters live */
    POINT_LOOP,   /* head of a loop */
    POINT_RETURN, /* behind a call or throw: word 1 of the callee's record */
    POINT_BULK,   /* at a long operation, operands in their slots */
    POINT_GROWN,  /* in table.grow, before its fill. Its offset is that of the second byte,
                   * because a loop's head may have that of the first */
};
struct wasm_point {
    uint8_t kind;
    uint32_t word;   /* from the function's first */
    uint32_t offset; /* in the binary */
    uint32_t height; /* slots of the frame that are alive; RETURN: up to the callee's frame */
    uint32_t callee; /* RETURN: function called, or WASM_NOWHERE: indirect */
    uint32_t type;   /* RETURN: canonical type of the callee; throw: WASM_NOWHERE */
};

struct wasm_trans {
    struct dz_wasm_code *code;
    const struct dz_wasm_module *module;
    uint32_t func;
    const uint8_t *p, *end; /* reading */
    const uint8_t *at;      /* the instruction at work */
    const uint8_t *base;    /* of the binary */
    bool mapping;
    bool wide;   /* more slots than the fields of cells can name */
    bool failed; /* memory, or a limit; kind in trap */
    enum dz_wasm_trap_kind trap;

    /* the function */
    const struct dz_wasm_type *type;
    uint32_t rec, temp_base, max_slot;
    uint32_t window, window_from; /* wide: by how much fp is shifted, and the first operand in
                                   * the window */
    struct entry *locals;         /* what local.get pushes */
    uint32_t local_count, local_cap;

    /* the symbolic stack */
    struct entry *stack;
    uint32_t depth, stack_cap;
    uint32_t top; /* first free slot */
    struct block *blocks;
    uint32_t block_count, block_cap;
    bool dead;
    uint32_t dead_depth;

    /* cells */
    wasm_word *words;
    uint32_t count, cap;
    struct cell_pos *cells;
    uint32_t cell_count, cell_cap;
    uint32_t barrier;  /* word of the last label: cells before it stay as they are */
    uint32_t def_cell; /* cell whose FC may be redirected, or WASM_NOWHERE */
    uint32_t def_slot;
    struct acc_state acc;
    enum acc_no undo_acc; /* of the last result, and what it was before */
    uint32_t undo_slot;
    struct acc_by undo_by;
    struct compare cmp;
    struct patch *patches;
    uint32_t patch_count, patch_cap;
    struct wasm_catch *catches;
    uint32_t catch_count, catch_cap;
    struct wasm_point *points;
    uint32_t point_count, point_cap;
    uint32_t fuel_cell; /* word of the FUEL cell being counted, or WASM_NOWHERE */
    uint32_t fuel_count;
};

/* Give up this function: the loop over its instructions ends. */
static inline void trans_fail(struct wasm_trans *t, enum dz_wasm_trap_kind trap)
{
    t->failed = true;
    t->trap = trap;
    t->end = t->p;
}

/* --- cells ------------------------------------------------------------------------------- */

/* Room for `want` elements in the array at *pp; false: no memory, t->failed. */
bool dz_trans_grow_slow(struct wasm_trans *t, void *pp, uint32_t *cap, uint32_t want, size_t size);
static inline bool trans_grow(struct wasm_trans *t, void *pp, uint32_t *cap, uint32_t want,
                              size_t size)
{
    return dz_likely(want <= *cap) || dz_trans_grow_slow(t, pp, cap, want, size);
}

static inline uint64_t dz_trans_fields(uint32_t c, uint32_t a, uint32_t b, uint32_t d)
{
    return (uint64_t)(c & 0xffff) | (uint64_t)(a & 0xffff) << 16 | (uint64_t)(b & 0xffff) << 32 |
           (uint64_t)(d & 0xffff) << 48;
}
static inline uint64_t dz_trans_imm(uint32_t c, uint32_t a, uint32_t imm)
{
    return (uint64_t)(c & 0xffff) | (uint64_t)(a & 0xffff) << 16 | (uint64_t)imm << 32;
}

/* Room for one more cell. There is always room for half as many cells as words, so one check is
 * enough. */
bool dz_trans_room(struct wasm_trans *t);
/* A cell of two words; returns the first's index. */
static inline uint32_t dz_trans_emit(struct wasm_trans *t, unsigned handler, uint64_t word)
{
    uint32_t at = t->count;
    if (dz_unlikely(at + 4 > t->cap) && !dz_trans_room(t))
        return 0;
    struct cell_pos *cell = &t->cells[t->cell_count++];
    wasm_word *words = &t->words[at];
    cell->word = at;
    cell->offset = (uint32_t)(t->at - t->base);
    words[0] = handler;
    words[1] = word;
    t->count = at + 2;
    return at;
}
uint32_t dz_trans_emit3(struct wasm_trans *t, unsigned handler, uint64_t word, uint64_t third);
void dz_trans_word(struct wasm_trans *t, uint64_t word);

/* --- the stack --------------------------------------------------------------------------- */

static inline void dz_trans_push(struct wasm_trans *t, struct entry e) /* its slot is set here */
{
    if (!trans_grow(t, &t->stack, &t->stack_cap, t->depth + 1, sizeof *t->stack))
        return;
    e = entry_at(e, t->top);
    t->stack[t->depth++] = e;
    t->top += dz_wasm_valtype_slots(entry_type(e));
    if (t->top > t->max_slot)
        t->max_slot = t->top;
}
static inline void dz_trans_push_temp(struct wasm_trans *t, unsigned type)
{
    dz_trans_push(t, entry_of(ENTRY_TEMP, type, 0));
}
static inline struct entry dz_trans_pop(struct wasm_trans *t)
{
    if (dz_unlikely(t->depth == 0)) /* only after a failure: the body is valid */
        return entry_of(ENTRY_CONST, DZ_WASM_I32, 0);
    struct entry e = t->stack[--t->depth];
    t->top = entry_slot(e);
    return e;
}

/* --- accumulators ---------------------------------------------------------------------------- */

/* The slot where the operand lies now; for a constant one that nothing mirrors. */
static inline uint32_t trans_place(struct entry e)
{
    return entry_kind(e) == ENTRY_TEMP    ? entry_slot(e)
           : entry_kind(e) == ENTRY_LOCAL ? (uint32_t)e.bits
                                          : WASM_NOWHERE - 1;
}
static inline bool dz_trans_in_acc(const struct wasm_trans *t, struct entry e, enum acc_no n)
{
    return t->acc.slot[n] == trans_place(e);
}
/* Use up the operand from the accumulator: its producer need not write. */
static inline void dz_trans_take_acc(struct wasm_trans *t, struct entry e, enum acc_no n)
{
    struct acc_by by = t->acc.by[n];
    if (entry_kind(e) == ENTRY_TEMP && by.delta && !t->failed) {
        t->words[by.pos] += by.delta;
        t->acc.slot[n] = WASM_NOWHERE;
    }
}
/* The operand is read from its slot but stays on the stack. */
static inline void dz_trans_pin(struct wasm_trans *t, uint32_t slot)
{
    for (int n = 0; n < ACC_COUNT; n++)
        if (t->acc.slot[n] == slot)
            t->acc.by[n].delta = 0;
}
/* A cell wrote this slot, other than through the accumulator that mirrors it. */
static inline void dz_trans_wrote(struct wasm_trans *t, uint32_t slot)
{
    for (int n = 0; n < ACC_COUNT; n++)
        if (t->acc.slot[n] == slot)
            t->acc.slot[n] = WASM_NOWHERE;
}
/* The common part of dz_trans_result() and dz_trans_result_new(): everything but the push. */
static inline void trans_made(struct wasm_trans *t, uint32_t pos, unsigned type, enum acc_no n,
                              uint32_t delta)
{
    uint32_t slot = t->top;
    t->undo_acc = n;
    t->undo_slot = t->acc.slot[n];
    t->undo_by = t->acc.by[n];
    dz_trans_wrote(t, slot);
    if (n == ACC_NONE) {
        if (type == DZ_WASM_V128)
            dz_trans_wrote(t, slot + 1);
    } else {
        t->acc.slot[n] = slot;
        t->acc.by[n] = (struct acc_by){pos & 0xfffffff, delta & 15};
    }
    t->def_cell = t->cell_count - 1;
    t->def_slot = slot;
}
/* The cell at pos wrote its result to slot (FC) and to the accumulator, which
 * handler + delta would do alone; then push it. An operand at least has been
 * popped before, so there is room for it. */
static inline void dz_trans_result(struct wasm_trans *t, uint32_t pos, unsigned type, enum acc_no n,
                                   uint32_t delta)
{
    trans_made(t, pos, type, n, delta);
    t->stack[t->depth++] = entry_at(entry_of(ENTRY_TEMP, type, 0), t->top);
    t->top += dz_wasm_valtype_slots(type);
    if (type == DZ_WASM_V128 && t->top > t->max_slot)
        t->max_slot = t->top;
}
/* The same for a cell without operands. */
static inline void dz_trans_result_new(struct wasm_trans *t, uint32_t pos, unsigned type,
                                       enum acc_no n, uint32_t delta)
{
    trans_made(t, pos, type, n, delta);
    dz_trans_push_temp(t, type);
}
/* The word of the last cell if it has two words and no label behind it. */
static inline uint32_t trans_last(const struct wasm_trans *t)
{
    uint32_t at = t->count - 2;
    if (t->cell_count == 0 || t->cells[t->cell_count - 1].word != at || at < t->barrier)
        return WASM_NOWHERE;
    return at;
}
/* The handler of the last cell, with or without a label behind it. Every function has a cell. */
static inline unsigned trans_last_handler(const struct wasm_trans *t)
{
    return (unsigned)t->words[t->cells[t->cell_count - 1].word];
}
/* The same if it made e and nothing else knows of it: then it may be taken back. */
static inline uint32_t trans_producer(const struct wasm_trans *t, struct entry e)
{
    if (entry_kind(e) != ENTRY_TEMP || t->def_cell != t->cell_count - 1 ||
        t->def_slot != entry_slot(e) || t->failed)
        return WASM_NOWHERE;
    return trans_last(t);
}
static inline unsigned trans_field(const struct wasm_trans *t, uint32_t at, unsigned n)
{
    return (unsigned)(t->words[at + 1] >> (16 * n)) & 0xffff;
}
static inline int32_t trans_imm_of(const struct wasm_trans *t, uint32_t at)
{
    return (int32_t)(t->words[at + 1] >> 32);
}
/* Take the last cell back, which made a result and is at word `at`. */
static inline void trans_take_back(struct wasm_trans *t, uint32_t at)
{
    t->count = at;
    t->cell_count--;
    t->acc.slot[t->undo_acc] = t->undo_slot;
    t->acc.by[t->undo_acc] = t->undo_by;
    t->def_cell = WASM_NOWHERE;
    t->cmp.cell = WASM_NOWHERE;
}
/* A label, or something that leaves nothing in the accumulators. */
static inline void dz_trans_forget(struct wasm_trans *t)
{
    for (int n = 0; n < ACC_COUNT; n++)
        t->acc.slot[n] = WASM_NOWHERE;
    t->def_cell = WASM_NOWHERE;
    t->cmp.cell = WASM_NOWHERE;
    t->barrier = t->count;
}

/* --- wasm_trans.c: operands in slots --------------------------------------------------------- */

void dz_trans_move(struct wasm_trans *t, uint32_t to, struct entry e);
uint32_t dz_trans_slot_slow(struct wasm_trans *t, struct entry e);
/* The slot where the operand can be read; emits a move for a constant. */
static inline uint32_t dz_trans_slot(struct wasm_trans *t, struct entry e)
{
    return dz_likely(entry_kind(e) != ENTRY_CONST) ? trans_place(e) : dz_trans_slot_slow(t, e);
}
void dz_trans_settle_entry(struct wasm_trans *t, uint32_t index);
/* Invariant 1. A failure leaves the stack as it is. */
static inline void assert_stack(const struct wasm_trans *t)
{
    uint32_t slot = t->temp_base;
    for (uint32_t i = 0; DZ_CHECK_DEEP && !t->failed && i < t->depth; i++) {
        assert(entry_slot(t->stack[i]) == slot);
        slot += dz_wasm_valtype_slots(entry_type(t->stack[i]));
    }
    assert(!DZ_CHECK_DEEP || t->failed || (t->top == slot && slot <= t->max_slot));
}
/* Invariant 2, of the innermost block. */
static inline void assert_settled(const struct wasm_trans *t)
{
    assert_stack(t);
    for (uint32_t i = t->blocks[t->block_count - 1].height; DZ_CHECK_DEEP && i < t->depth; i++)
        assert(t->failed || entry_kind(t->stack[i]) == ENTRY_TEMP);
}
/* Store the operands of the innermost block into their slots. */
static inline void dz_trans_settle(struct wasm_trans *t)
{
    for (uint32_t i = t->blocks[t->block_count - 1].height; i < t->depth; i++)
        if (entry_kind(t->stack[i]) != ENTRY_TEMP)
            dz_trans_settle_entry(t, i);
    assert_settled(t);
}

/* --- wasm_trans_num.c: numbers. The instructions behind a table row (wasm_trans.c), all
 * of the same form; immediates follow at t->p ------------------------------------------- */

void dz_trans_int_binary(struct wasm_trans *t, unsigned op);
void dz_trans_int_compare(struct wasm_trans *t, unsigned op);
void dz_trans_int_unary(struct wasm_trans *t, unsigned op);
void dz_trans_float_binary(struct wasm_trans *t, unsigned op); /* comparisons too */
void dz_trans_convert(struct wasm_trans *t, unsigned op);      /* float to float, and between */
void dz_trans_reinterpret(struct wasm_trans *t, unsigned op);

/* --- wasm_trans_mem.c: variables, memory, tables, vectors -------------------------------- */

void dz_trans_set_local(struct wasm_trans *t, uint32_t index, bool keep);
void dz_trans_global_get(struct wasm_trans *t, unsigned op);
void dz_trans_global_set(struct wasm_trans *t, unsigned op);
void dz_trans_select(struct wasm_trans *t, unsigned op);
void dz_trans_load(struct wasm_trans *t, unsigned op);
void dz_trans_store(struct wasm_trans *t, unsigned op);
bool dz_trans_memory(struct wasm_trans *t, unsigned op); /* all others; false: not one of these */
bool dz_trans_vector(struct wasm_trans *t, unsigned op);
bool dz_trans_table(struct wasm_trans *t, unsigned op);

/* --- wasm_trans_ctl.c: blocks, branches, calls --------------------------------------------- */

void dz_trans_block(struct wasm_trans *t, unsigned op); /* and loop */
void dz_trans_if(struct wasm_trans *t, unsigned op);
void dz_trans_else(struct wasm_trans *t, unsigned op);
void dz_trans_end(struct wasm_trans *t, unsigned op);
void dz_trans_br(struct wasm_trans *t, unsigned op);
void dz_trans_br_if(struct wasm_trans *t, unsigned op);
void dz_trans_return(struct wasm_trans *t, unsigned op);
void dz_trans_call(struct wasm_trans *t, unsigned op);
void dz_trans_call_indirect(struct wasm_trans *t, unsigned op);
bool dz_trans_control(struct wasm_trans *t, unsigned op); /* all others; false: not one of these */
void dz_trans_point(struct wasm_trans *t, enum point_kind kind, uint32_t word, uint32_t height);

/* --- wasm_trans.c ---------------------------------------------------------------------- */

uint32_t dz_trans_u32_slow(struct wasm_trans *t);
static inline uint32_t dz_trans_u32(struct wasm_trans *t)
{
    return dz_likely(t->p < t->end && *t->p < 128) ? *t->p++ : dz_trans_u32_slow(t);
}
int64_t dz_trans_s64(struct wasm_trans *t);
static inline uint32_t dz_trans_here(const struct wasm_trans *t) /* offset of p in the binary */
{
    return (uint32_t)(t->p - t->base);
}

#endif
