/* SPDX-License-Identifier: MIT
 *
 * wasm_trans_ctl.c - translation of blocks, branches, calls and exceptions.
 *
 * A label has a place for its operands: the slots from its block's height on.
 * A branch moves its operands there and jumps; operands in between are dropped
 * by doing nothing. Branches to loops look at the flag; their target is a
 * safepoint. A branch to the function's label is a return.
 */
#include "wasm/wasm_rt.h"
#include "wasm/wasm_trans.h"

/* --- types of blocks -------------------------------------------------------------- */

static const struct dz_wasm_type *block_type(const struct wasm_trans *t, const struct block *b)
{
    return b->type == WASM_NOWHERE ? NULL : &t->module->types[b->type];
}
static uint32_t param_count(const struct wasm_trans *t, const struct block *b)
{
    const struct dz_wasm_type *y = block_type(t, b);
    return b->op == 0 || !y ? 0 : y->n_params;
}
static uint32_t result_count(const struct wasm_trans *t, const struct block *b)
{
    const struct dz_wasm_type *y = block_type(t, b);
    return y ? y->n_results : b->result != 0;
}
static unsigned result_type(const struct wasm_trans *t, const struct block *b, uint32_t i)
{
    const struct dz_wasm_type *y = block_type(t, b);
    return y ? t->module->valtypes[y->params + y->n_params + i] : b->result;
}
/* Operands of a branch to the label. */
static uint32_t label_count(const struct wasm_trans *t, const struct block *b)
{
    return b->op == DZ_WASM_OP_loop ? param_count(t, b) : result_count(t, b);
}
static struct block *label(struct wasm_trans *t, uint32_t depth)
{
    return &t->blocks[t->block_count - 1 - depth];
}

/* --- patches ------------------------------------------------------------------------- */

static void patch_at(struct wasm_trans *t, const struct patch *p, uint32_t to)
{
    if (p->what == PATCH_CATCH) {
        t->catches[p->at].target = to;
        return;
    }
    uint32_t distance = to - p->base;
    uint32_t half = p->what == PATCH_IMM ? 1 : p->half;
    uint64_t *word = &t->words[p->what == PATCH_IMM ? p->at + 1 : p->at];
    *word = half ? (*word & 0xffffffff) | (uint64_t)distance << 32
                 : (*word & ~UINT64_C(0xffffffff)) | distance;
}
static void add_patch(struct wasm_trans *t, uint32_t *list, struct patch p)
{
    if (!trans_grow(t, &t->patches, &t->patch_cap, t->patch_count + 1, sizeof *t->patches))
        return;
    p.next = *list;
    *list = t->patch_count;
    t->patches[t->patch_count++] = p;
}
/* Make the cell at `at` branch to the block's label. */
static void branch_to(struct wasm_trans *t, struct block *b, uint32_t at)
{
    struct patch p = {.what = PATCH_IMM, .at = at, .base = at};
    if (t->failed)
        return;
    if ((t->words[at] >= H_COUNT_EQ_S && t->words[at] <= H_COUNT_GE_U_C) ||
        t->words[at] == H_MOVE2_JUMP || t->words[at] == H_MOVE2_JUMP_BACK)
        p = (struct patch){.what = PATCH_TABLE, .at = at + 2, .base = at};
    if (b->op == DZ_WASM_OP_loop)
        patch_at(t, &p, b->start);
    else
        add_patch(t, &b->patches, p);
}
static void bind(struct wasm_trans *t, uint32_t list)
{
    for (; list != WASM_NOWHERE && !t->failed; list = t->patches[list].next)
        patch_at(t, &t->patches[list], t->count);
    dz_trans_forget(t);
}

/* --- safepoints and fuel ---------------------------------------------------------------- */

void dz_trans_point(struct wasm_trans *t, enum point_kind kind, uint32_t word, uint32_t height)
{
    if (!t->mapping ||
        !trans_grow(t, &t->points, &t->point_cap, t->point_count + 1, sizeof *t->points))
        return;
    uint32_t at = (uint32_t)(t->at - t->base);
    t->points[t->point_count++] = (struct wasm_point){
        .kind = (uint8_t)kind,
        .word = word,
        .offset = kind == POINT_BULK    ? at
                  : kind == POINT_GROWN ? at + 1
                                        : dz_trans_here(t),
        .height = height,
        .callee = WASM_NOWHERE,
        .type = WASM_NOWHERE,
    };
}
static void call_point(struct wasm_trans *t, uint32_t slot, uint32_t callee, uint32_t type)
{
    dz_trans_point(t, POINT_RETURN, t->count, slot);
    if (t->mapping && !t->failed) {
        t->points[t->point_count - 1].callee = callee;
        t->points[t->point_count - 1].type = type;
    }
}
static void meter(struct wasm_trans *t)
{
    if (!t->code->fuel)
        return;
    if (t->fuel_cell != WASM_NOWHERE && !t->failed)
        t->words[t->fuel_cell + 1] = dz_trans_imm(0, 0, t->fuel_count);
    t->fuel_cell = dz_trans_emit(t, H_FUEL, 0);
    t->fuel_count = 0;
}

/* --- returns and branches ------------------------------------------------------------------ */

/* Results to where the caller wants them; they never lie over the record. */
static void wide_return(struct wasm_trans *t)
{
    uint32_t to = 0;
    for (uint32_t i = t->depth - t->type->n_results; i < t->depth; i++) {
        dz_trans_move(t, to, t->stack[i]);
        to += dz_wasm_valtype_slots(entry_type(t->stack[i]));
    }
    (void)dz_trans_emit(t, H_RETURN, dz_trans_fields(t->rec, 0, 0, 0));
}

static void emit_return(struct wasm_trans *t)
{
    uint32_t n = t->type->n_results;
    uint32_t rec = t->rec;
    if (dz_unlikely(t->wide)) {
        wide_return(t);
    } else if (n == 0) {
        (void)dz_trans_emit(t, H_RETURN, dz_trans_fields(rec, 0, 0, 0));
    } else if (n > 1 || entry_type(t->stack[t->depth - 1]) == DZ_WASM_V128) {
        struct entry *first = &t->stack[t->depth - n];
        for (uint32_t i = t->depth - n; i < t->depth; i++)
            dz_trans_move(t, entry_slot(t->stack[i]), t->stack[i]);
        (void)dz_trans_emit(t, H_RETURN_MANY,
                            dz_trans_imm(rec, entry_slot(*first), t->type->result_slots));
    } else {
        struct entry e = t->stack[t->depth - 1];
        if (entry_kind(e) == ENTRY_CONST && e.bits >> 32 == 0) {
            (void)dz_trans_emit(t, H_RETURN_C, dz_trans_imm(rec, 0, (uint32_t)e.bits));
        } else if (dz_trans_in_acc(t, e, ACC_INT)) {
            dz_trans_take_acc(t, e, ACC_INT);
            (void)dz_trans_emit(t, H_RETURN_R, dz_trans_fields(rec, 0, 0, 0));
        } else {
            (void)dz_trans_emit(t, H_RETURN_S, dz_trans_fields(rec, dz_trans_slot(t, e), 0, 0));
        }
    }
}

/* Move the top n operands to the label's place. They stay on the symbolic stack. */
static void move_operands(struct wasm_trans *t, const struct block *b, uint32_t n)
{
    uint32_t to = b->slot;
    for (uint32_t i = t->depth - n; i < t->depth; i++) {
        dz_trans_move(t, to, t->stack[i]);
        to += dz_wasm_valtype_slots(entry_type(t->stack[i]));
    }
}
/* Are they there already? */
static bool operands_in_place(const struct wasm_trans *t, const struct block *b)
{
    uint32_t n = label_count(t, b);
    for (uint32_t i = t->depth - n; i < t->depth; i++)
        if (entry_kind(t->stack[i]) != ENTRY_TEMP)
            return false;
    return n == 0 || entry_slot(t->stack[t->depth - n]) == b->slot;
}

/* The last cells are moves and a jump follows: its word with them in it, or WASM_NOWHERE. */
static uint32_t fuse_jump(struct wasm_trans *t, bool back)
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

static void emit_jump(struct wasm_trans *t, struct block *b)
{
    if (b->op == 0) {
        emit_return(t);
        return;
    }
    bool back = b->op == DZ_WASM_OP_loop;
    move_operands(t, b, label_count(t, b));
    uint32_t at = fuse_jump(t, back);
    if (at == WASM_NOWHERE)
        at = dz_trans_emit(t, back ? H_JUMP_BACK : H_JUMP, 0);
    branch_to(t, b, at);
}

/* Take the comparison's cell back; its operands are as they were before it. t->cmp
 * still describes it. */
static bool take_compare(struct wasm_trans *t, struct entry e)
{
    const struct compare *c = &t->cmp;
    if (entry_kind(e) != ENTRY_TEMP || c->cell == WASM_NOWHERE || c->cell != t->cell_count - 1 ||
        t->def_cell != c->cell || t->def_slot != entry_slot(e) || t->failed)
        return false;
    /* constants that do not fit the branch's 16 bits */
    if (c->family == 0 && (c->kind & 1) && (int32_t)(c->word >> 32) != (int16_t)(c->word >> 32))
        return false;
    if (c->family == 1 && (c->kind & 1))
        return false;
    trans_take_back(t, t->cells[c->cell].word);
    return true;
}

/* Fuse x = y + constant with a backward branch that compares x. The comparison's cell has been
 * taken back already; its first operand is in the accumulator. */
static uint32_t fuse_count(struct wasm_trans *t, unsigned index, bool constant, unsigned other)
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

/* The operand into the accumulator. */
static void wide_get(struct wasm_trans *t, struct entry e)
{
    (void)dz_trans_emit(t, H_GET_FAR, dz_trans_imm(0, 0, entry_slot(e)));
}

static uint32_t emit_compare_branch(struct wasm_trans *t, const struct compare *c, bool sense,
                                    bool back)
{
    unsigned a = (unsigned)(c->word >> 16) & 0xffff;
    unsigned b = (unsigned)(c->word >> 32) & 0xffff; /* slot or constant */
    if (c->family == 0) {
        unsigned wide = c->index >= 10 ? 10 : 0;
        unsigned index = sense ? c->index : trans_opposite[c->index - wide] + wide;
        if (back && !wide && c->kind >= 2) {
            uint32_t at = fuse_count(t, index, c->kind == 3, b);
            if (at != WASM_NOWHERE)
                return at;
        }
        return dz_trans_emit(t, (back ? H_BR_I32_EQ_SS_BACK : H_BR_I32_EQ_SS) + index * 4 + c->kind,
                             dz_trans_fields(b, a, 0, 0));
    }
    if (c->family == 1)
        return dz_trans_emit(t,
                             (back ? H_BR_F32_EQ_SS_BACK : H_BR_F32_EQ_SS) + c->index * 4u +
                                 (sense ? 0u : 2u) + (c->kind ? 1u : 0u),
                             dz_trans_fields(b, a, 0, 0));
    bool wide = c->family == 3;
    unsigned h = sense ? (wide ? H_BR_Z64_S : H_BR_Z32_S) : (wide ? H_BR_NZ64_S : H_BR_NZ32_S);
    return dz_trans_emit(t, h + (c->kind ? 1u : 0u) + (back ? 2u : 0u),
                         dz_trans_fields(0, a, 0, 0));
}

/* Pop the condition; a cell that branches when it is `sense`. Returns it. */
static uint32_t emit_branch_if(struct wasm_trans *t, struct entry e, bool sense, bool back)
{
    if (take_compare(t, e))
        return emit_compare_branch(t, &t->cmp, sense, back);
    t->cmp.cell = WASM_NOWHERE;
    unsigned h = (sense ? H_BR_NZ32_S : H_BR_Z32_S) + (back ? 2u : 0u);
    if (dz_unlikely(t->wide)) {
        wide_get(t, e);
        return dz_trans_emit(t, h + 1, 0);
    }
    if (dz_trans_in_acc(t, e, ACC_INT)) {
        uint32_t at = back && entry_kind(e) == ENTRY_LOCAL
                          ? fuse_count(t, sense ? 1 : 0, true, 0) /* != 0, == 0 */
                          : WASM_NOWHERE;
        if (at != WASM_NOWHERE)
            return at;
        dz_trans_take_acc(t, e, ACC_INT);
        return dz_trans_emit(t, h + 1, 0);
    }
    return dz_trans_emit(t, h, dz_trans_fields(0, dz_trans_slot(t, e), 0, 0));
}

void dz_trans_br_if(struct wasm_trans *t, unsigned op)
{
    struct block *b = label(t, dz_trans_u32(t));
    (void)op;
    struct entry e = dz_trans_pop(t);
    if (b->op != 0 && label_count(t, b) && !operands_in_place(t, b) &&
        entry_slot(t->stack[t->depth - label_count(t, b)]) == b->slot) {
        /* only constants and locals are in the way; the condition may lose its comparison */
        for (uint32_t i = t->depth - label_count(t, b); i < t->depth; i++)
            dz_trans_settle_entry(t, i);
    }
    if (b->op != 0 && operands_in_place(t, b)) {
        branch_to(t, b, emit_branch_if(t, e, true, b->op == DZ_WASM_OP_loop));
        for (uint32_t i = t->depth - label_count(t, b); i < t->depth; i++)
            dz_trans_pin(
                t, entry_slot(t->stack[i])); /* only now: taking a comparison back undoes it */
        t->def_cell = WASM_NOWHERE;
        return;
    }
    uint32_t over = emit_branch_if(t, e, false, false);
    t->def_cell = WASM_NOWHERE;
    for (unsigned n = 0; n < ACC_COUNT; n++)
        t->acc.by[n].delta = 0; /* the operands live on behind the branch */
    struct acc_state acc = t->acc;
    emit_jump(t, b);
    struct patch p = {.what = PATCH_IMM, .at = over, .base = over};
    if (!t->failed)
        patch_at(t, &p, t->count);
    dz_trans_forget(t);
    t->acc = acc; /* as it was at the branch: moves leave it alone */
}

/* One entry of a br_table: straight to the label, or to a detour that does what
 * a branch to it needs. Detours come behind the table and are shared. */
static void table_entry(struct wasm_trans *t, uint32_t base, uint32_t at, uint32_t half,
                        struct block *b)
{
    struct patch p = {.what = PATCH_TABLE, .half = (uint8_t)half, .at = at, .base = base};
    if (t->failed)
        return;
    if (b->op != 0 && b->op != DZ_WASM_OP_loop && label_count(t, b) == 0) {
        add_patch(t, &b->patches, p);
        return;
    }
    if (b->detour_table != base + 1) {
        b->detour_table = base + 1;
        b->detour = t->count;
        dz_trans_forget(t);
        emit_jump(t, b);
    }
    if (!t->failed)
        patch_at(t, &p, b->detour);
}

static void br_table(struct wasm_trans *t)
{
    struct entry e = dz_trans_pop(t);
    uint32_t n = dz_trans_u32(t);
    uint32_t base;
    for (uint32_t i = t->blocks[t->block_count - 1].height; i < t->depth; i++)
        dz_trans_pin(t, entry_slot(t->stack[i]));
    if (dz_unlikely(t->wide)) {
        wide_get(t, e);
        base = dz_trans_emit(t, H_BR_TABLE_R, dz_trans_imm(0, 0, n));
    } else if (dz_trans_in_acc(t, e, ACC_INT)) {
        dz_trans_take_acc(t, e, ACC_INT);
        base = dz_trans_emit(t, H_BR_TABLE_R, dz_trans_imm(0, 0, n));
    } else {
        uint32_t s = dz_trans_slot(t, e);
        base = dz_trans_emit(t, H_BR_TABLE_S, dz_trans_imm(0, s, n));
    }
    uint32_t table = t->count;
    for (uint32_t i = 0; i < (n + 2) / 2 && !t->failed; i++)
        dz_trans_word(t, 0);
    for (uint32_t i = 0; i <= n && !t->failed; i++) {
        uint32_t depth = dz_trans_u32(t);
        table_entry(t, base, table + i / 2, i % 2, label(t, depth));
    }
    t->dead = true;
}

/* --- blocks ----------------------------------------------------------------------------- */

static struct block *open_block(struct wasm_trans *t, unsigned op)
{
    if (!trans_grow(t, &t->blocks, &t->block_cap, t->block_count + 1, sizeof *t->blocks))
        return NULL;
    struct block b = {.op = (uint8_t)op,
                      .type = WASM_NOWHERE,
                      .patches = WASM_NOWHERE,
                      .else_at = WASM_NOWHERE,
                      .catch_first = t->catch_count};
    int64_t y = dz_trans_s64(t);
    if (y >= 0)
        b.type = (uint32_t)y;
    else if (y != -64)
        b.result = (uint8_t)(y & 0x7f);
    t->blocks[t->block_count] = b;
    return &t->blocks[t->block_count]; /* not counted yet: labels of catches are outside */
}
static void enter_block(struct wasm_trans *t, struct block *b)
{
    b->height = t->depth - param_count(t, b);
    b->slot = b->height < t->depth ? entry_slot(t->stack[b->height]) : t->top;
    t->block_count++;
}

void dz_trans_block(struct wasm_trans *t, unsigned op)
{
    struct block *b = open_block(t, op);
    if (!b)
        return;
    dz_trans_settle(t);
    dz_trans_forget(t);
    enter_block(t, b);
    if (op != DZ_WASM_OP_loop)
        return;
    b->start = t->count;
    dz_trans_point(t, POINT_LOOP, t->count, t->top);
    meter(t);
}

void dz_trans_if(struct wasm_trans *t, unsigned op)
{
    struct block *b = open_block(t, op);
    if (!b)
        return;
    struct entry e = dz_trans_pop(t);
    dz_trans_settle(t);
    b->else_at = emit_branch_if(t, e, false, false);
    dz_trans_forget(t);
    enter_block(t, b);
}

static void start_try(struct wasm_trans *t)
{
    struct block *b = open_block(t, DZ_WASM_OP_try_table);
    if (!b)
        return;
    dz_trans_settle(t);
    dz_trans_forget(t);
    uint32_t n = dz_trans_u32(t);
    b->catch_count = n;
    for (uint32_t i = 0; i < n && !t->failed; i++) {
        if (!trans_grow(t, &t->catches, &t->catch_cap, t->catch_count + 1, sizeof *t->catches))
            return;
        unsigned kind = *t->p++;
        struct wasm_catch c = {.tag = WASM_CATCH_ALL, .ref = kind & 1};
        if (kind < 2)
            c.tag = dz_trans_u32(t);
        struct block *to = label(t, dz_trans_u32(t));
        c.slot = to->slot;
        c.target = to->start;
        c.start = WASM_NOWHERE; /* open: set at the end */
        struct patch p = {.what = PATCH_CATCH, .at = t->catch_count};
        t->catches[t->catch_count++] = c;
        if (to->op != DZ_WASM_OP_loop)
            add_patch(t, &to->patches, p);
    }
    b->start = t->count;
    enter_block(t, b);
}

/* Leave the symbolic stack as it is behind the block. */
static void close_stack(struct wasm_trans *t, const struct block *b)
{
    while (t->depth > b->height)
        (void)dz_trans_pop(t);
    t->top = b->slot;
}

void dz_trans_else(struct wasm_trans *t, unsigned op)
{
    (void)op;
    struct block *b = &t->blocks[t->block_count - 1];
    if (!t->dead)
        emit_jump(t, b);
    if (t->failed)
        return;
    struct patch p = {.what = PATCH_IMM, .at = b->else_at, .base = b->else_at};
    patch_at(t, &p, t->count);
    b->else_at = WASM_NOWHERE;
    dz_trans_forget(t);
    close_stack(t, b);
    const struct dz_wasm_type *y = block_type(t, b);
    for (uint32_t i = 0; i < param_count(t, b); i++)
        dz_trans_push_temp(t, t->module->valtypes[y->params + i]);
    t->dead = false;
}

static void close_try(struct wasm_trans *t, const struct block *b)
{
    for (uint32_t i = 0; i < b->catch_count && !t->failed; i++) {
        t->catches[b->catch_first + i].start = b->start;
        t->catches[b->catch_first + i].end = t->count;
    }
}

void dz_trans_end(struct wasm_trans *t, unsigned op)
{
    (void)op;
    struct block *b = &t->blocks[t->block_count - 1];
    if (!t->dead && b->op != 0)
        move_operands(t, b, result_count(t, b));
    if (!t->dead && b->op == 0)
        emit_return(t);
    if (b->op == DZ_WASM_OP_try_table)
        close_try(t, b);
    if (b->else_at != WASM_NOWHERE && !t->failed) {
        /* no else part: the parameters are the results */
        struct patch p = {.what = PATCH_IMM, .at = b->else_at, .base = b->else_at};
        patch_at(t, &p, t->count);
    }
    bool landed = b->patches != WASM_NOWHERE;
    bool reached = !t->dead || landed || b->else_at != WASM_NOWHERE;
    bind(t, b->patches);
    close_stack(t, b);
    for (uint32_t i = 0; i < result_count(t, b) && (b->op != 0 || landed); i++)
        dz_trans_push_temp(t, result_type(t, b, i));
    if (b->op == 0 && landed) /* a catch clause names the function's label */
        emit_return(t);
    t->dead = !reached;
    if (--t->block_count == 0)
        t->end = t->p;
}

/* --- calls ---------------------------------------------------------------------------------- */

static uint32_t type_rec(const struct dz_wasm_type *y)
{
    return wasm_rec(y->param_slots, y->result_slots);
}

/* Arguments in their slots: returns where the callee's frame begins. */
static uint32_t stage(struct wasm_trans *t, const struct dz_wasm_type *y)
{
    dz_trans_settle(t);
    for (uint32_t i = 0; i < y->n_params; i++)
        (void)dz_trans_pop(t);
    if (t->top + type_rec(y) + 2 > t->max_slot)
        t->max_slot = t->top + type_rec(y) + 2;
    return t->top;
}
static void push_results(struct wasm_trans *t, const struct dz_wasm_type *y)
{
    uint32_t slot = t->top;
    for (uint32_t i = 0; i < y->n_results; i++)
        dz_trans_push_temp(t, t->module->valtypes[y->params + y->n_params + i]);
    dz_trans_forget(t);
    if (y->n_results == 1 && y->result_slots == 1) { /* a return leaves it there */
        t->acc.slot[ACC_INT] = slot;
        t->acc.by[ACC_INT] = (struct acc_by){0};
    }
}

/* A call of any kind in a wide function; the index, if any, has been popped. */
static uint32_t wide_call(struct wasm_trans *t, const struct dz_wasm_type *y, uint32_t flags,
                          uint64_t third, uint32_t func_or_index)
{
    uint32_t base = stage(t, y);
    bool indirect = (flags & WASM_WIDE_INDIRECT) != 0;
    uint32_t func = indirect ? 0 : func_or_index;
    uint64_t index = indirect ? func_or_index : 0;
    (void)dz_trans_emit3(t, H_CALL_WIDE, dz_trans_imm(flags, type_rec(y), func),
                         base | index << 32);
    dz_trans_word(t, third);
    dz_trans_word(t, t->rec | (uint64_t)y->param_slots << 32);
    return base;
}

void dz_trans_call(struct wasm_trans *t, unsigned op)
{
    (void)op;
    uint32_t func = dz_trans_u32(t);
    const struct dz_wasm_type *y = &t->module->types[t->module->funcs[func].type];
    uint32_t base;
    if (dz_unlikely(t->wide)) {
        base = wide_call(t, y, 0, 0, func);
    } else {
        base = stage(t, y);
        (void)dz_trans_emit3(t, H_CALL_LAZY, dz_trans_imm(base, type_rec(y), func), 0);
    }
    call_point(t, base, func, y->canon);
    push_results(t, y);
}

void dz_trans_call_indirect(struct wasm_trans *t, unsigned op)
{
    (void)op;
    const struct dz_wasm_type *y = &t->module->types[dz_trans_u32(t)];
    uint64_t third = y->canon | (uint64_t)dz_trans_u32(t) << 32;
    struct entry i = dz_trans_pop(t);
    if (dz_unlikely(t->wide)) {
        uint32_t at = wide_call(t, y, WASM_WIDE_INDIRECT, third, entry_slot(i));
        call_point(t, at, WASM_NOWHERE, y->canon);
        push_results(t, y);
        return;
    }
    bool in = dz_trans_in_acc(t, i, ACC_INT);
    uint32_t s = 0;
    if (in)
        dz_trans_take_acc(t, i, ACC_INT);
    else
        s = dz_trans_slot(t, i);
    uint32_t base = stage(t, y);
    (void)dz_trans_emit3(t, in ? H_CALL_INDIRECT_R : H_CALL_INDIRECT_S,
                         dz_trans_fields(base, type_rec(y), s, 0), third);
    call_point(t, base, WASM_NOWHERE, y->canon);
    push_results(t, y);
}

static void return_call(struct wasm_trans *t, bool indirect)
{
    uint32_t func = 0;
    uint32_t s = 0;
    uint64_t third = 0;
    const struct dz_wasm_type *y;
    if (indirect) {
        y = &t->module->types[dz_trans_u32(t)];
        third = y->canon | (uint64_t)dz_trans_u32(t) << 32;
        struct entry i = dz_trans_pop(t);
        /* the index must not lie where the arguments go */
        dz_trans_move(t, entry_slot(i), i);
        s = entry_slot(i);
    } else {
        func = dz_trans_u32(t);
        y = &t->module->types[t->module->funcs[func].type];
    }
    t->dead = true;
    if (dz_unlikely(t->wide)) {
        uint32_t flags = WASM_WIDE_TAIL | (indirect ? WASM_WIDE_INDIRECT : 0);
        (void)wide_call(t, y, flags, third, indirect ? s : func);
        return;
    }
    uint32_t base = stage(t, y);
    uint64_t word =
        indirect ? dz_trans_fields(base, type_rec(y), s, 0) : dz_trans_imm(base, type_rec(y), func);
    (void)dz_trans_emit3(t, indirect ? H_RETURN_CALL_INDIRECT : H_RETURN_CALL, word, third);
    dz_trans_word(t, t->rec | (uint64_t)y->param_slots << 32);
}

static void emit_throw(struct wasm_trans *t)
{
    uint32_t tag = dz_trans_u32(t);
    uint32_t base = stage(t, &t->module->types[t->module->tags[tag].type]);
    (void)dz_trans_emit3(t, H_THROW, dz_trans_imm(0, 0, tag), base);
    call_point(t, t->top, WASM_NOWHERE, WASM_NOWHERE);
    t->dead = true;
}
static void emit_throw_ref(struct wasm_trans *t)
{
    struct entry e = dz_trans_pop(t);
    uint32_t s = dz_trans_slot(t, e);
    dz_trans_settle(t);
    (void)dz_trans_emit3(t, H_THROW_REF, 0, s);
    call_point(t, t->top, WASM_NOWHERE, WASM_NOWHERE);
    t->dead = true;
}

void dz_trans_br(struct wasm_trans *t, unsigned op)
{
    (void)op;
    emit_jump(t, label(t, dz_trans_u32(t)));
    t->dead = true;
}
void dz_trans_return(struct wasm_trans *t, unsigned op)
{
    (void)op;
    emit_return(t);
    t->dead = true;
}

bool dz_trans_control(struct wasm_trans *t, unsigned op)
{
    switch (op) {
    case DZ_WASM_OP_unreachable:
        (void)dz_trans_emit(t, H_UNREACHABLE, 0);
        t->dead = true;
        return true;
    case DZ_WASM_OP_nop:
        return true;
    case DZ_WASM_OP_try_table:
        start_try(t);
        return true;
    case DZ_WASM_OP_br_table:
        br_table(t);
        return true;
    case DZ_WASM_OP_return_call:
    case DZ_WASM_OP_return_call_indirect:
        return_call(t, op == DZ_WASM_OP_return_call_indirect);
        return true;
    case DZ_WASM_OP_throw:
        emit_throw(t);
        return true;
    case DZ_WASM_OP_throw_ref:
        emit_throw_ref(t);
        return true;
    default:
        return false;
    }
}
