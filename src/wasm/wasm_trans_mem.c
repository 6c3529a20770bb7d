/* SPDX-License-Identifier: MIT
 *
 * wasm_trans_mem.c - translation of variables, memory, tables and vectors.
 *
 * Setting a local redirects the cell that made the value, where it is the last one: it writes the
 * local instead of its operand's slot. An access of memory takes its address from a constant, an
 * addition or a scaled index right before it (fuse_address). Long operations on memories and
 * tables are one cell that runs in parts (wasm_bulk.c).
 */
#include "wasm/wasm_rt.h"
#include "wasm/wasm_trans.h"

/* --- variables ---------------------------------------------------------------------- */

/* Before the local changes, store the operands that still refer to it. */
static bool flush_local(struct wasm_trans *t, uint32_t slot)
{
    uint32_t before = t->cell_count;
    uint32_t from = t->blocks[t->block_count - 1].height;
    for (uint32_t i = from; i < t->depth; i++)
        if (entry_kind(t->stack[i]) == ENTRY_LOCAL && t->stack[i].bits == slot)
            dz_trans_settle_entry(t, i);
    return t->cell_count != before;
}

/* The cell that made the operand writes the local instead. */
static bool redirect(struct wasm_trans *t, struct entry e, uint32_t slot)
{
    if (entry_kind(e) != ENTRY_TEMP || t->def_cell == WASM_NOWHERE ||
        t->def_cell != t->cell_count - 1 || t->def_slot != entry_slot(e) || t->failed)
        return false;
    uint64_t *word = &t->words[t->cells[t->def_cell].word + 1];
    *word = (*word & ~UINT64_C(0xffff)) | slot;
    enum acc_no n = ACC_COUNT;
    for (unsigned i = 0; i < ACC_COUNT; i++)
        if (t->acc.slot[i] == entry_slot(e) && t->acc.by[i].pos == t->cells[t->def_cell].word)
            n = i;
    dz_trans_wrote(t, slot);
    if (entry_type(e) == DZ_WASM_V128)
        dz_trans_wrote(t, slot + 1);
    if (n != ACC_COUNT) {
        t->acc.slot[n] = slot;
        t->acc.by[n] = (struct acc_by){0};
    }
    t->def_cell = WASM_NOWHERE;
    t->cmp.cell = WASM_NOWHERE;
    return true;
}

static bool fits16(int32_t v)
{
    return v == (int16_t)v;
}

/* The last cell has just been made to write a local: join it with the addition before it. */
static void fuse_pair(struct wasm_trans *t)
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

void dz_trans_set_local(struct wasm_trans *t, uint32_t index, bool keep)
{
    uint32_t slot = (uint32_t)t->locals[index].bits;
    struct entry e = dz_trans_pop(t);
    bool moved = flush_local(t, slot);
    bool is_it = entry_kind(e) == ENTRY_LOCAL && e.bits == slot;
    if (!moved && redirect(t, e, slot)) {
        e = entry_at(entry_of(ENTRY_LOCAL, entry_type(e), slot), entry_slot(e));
        if (!keep)
            fuse_pair(t);
    } else if (!is_it) {
        dz_trans_move(t, slot, e);
    }
    if (keep)
        dz_trans_push(t, e);
}

/* How a global is reached: an imported mutable one by its index, any other by its slot. */
struct global_at {
    uint8_t type;
    bool at, wide;
    uint32_t imm;
};
static struct global_at global_at(struct wasm_trans *t)
{
    uint32_t index = dz_trans_u32(t);
    const struct dz_wasm_global *g = &t->module->globals[index];
    bool at = g->mutable && index < t->module->header->n_imported[DZ_WASM_KIND_GLOBAL];
    return (struct global_at){
        .type = g->type, .at = at, .wide = g->type == DZ_WASM_V128, .imm = at ? index : g->slot};
}

void dz_trans_global_get(struct wasm_trans *t, unsigned op)
{
    struct global_at g = global_at(t);
    unsigned h = g.wide ? (g.at ? H_GLOBAL_GET_AT_V : H_GLOBAL_GET_V)
                        : (g.at ? H_GLOBAL_GET_AT : H_GLOBAL_GET);
    (void)op;
    uint32_t pos = dz_trans_emit(t, h, dz_trans_imm(t->top, 0, g.imm));
    dz_trans_result_new(t, pos, g.type, g.wide ? ACC_NONE : ACC_INT, g.wide || g.at ? 0 : 1);
}

void dz_trans_global_set(struct wasm_trans *t, unsigned op)
{
    struct global_at g = global_at(t);
    struct entry e = dz_trans_pop(t);
    (void)op;
    if (!g.at && !g.wide && dz_trans_in_acc(t, e, ACC_INT)) {
        dz_trans_take_acc(t, e, ACC_INT);
        (void)dz_trans_emit(t, H_GLOBAL_SET_R, dz_trans_imm(0, 0, g.imm));
        return;
    }
    unsigned h = g.wide ? (g.at ? H_GLOBAL_SET_AT_V : H_GLOBAL_SET_V)
                        : (g.at ? H_GLOBAL_SET_AT : H_GLOBAL_SET_S);
    uint32_t s = dz_trans_slot(t, e);
    (void)dz_trans_emit(t, h, dz_trans_imm(0, s, g.imm));
}

void dz_trans_select(struct wasm_trans *t, unsigned op)
{
    (void)op;
    struct entry c = dz_trans_pop(t);
    struct entry b = dz_trans_pop(t);
    struct entry a = dz_trans_pop(t);
    if (entry_type(a) == DZ_WASM_V128) {
        uint64_t word = dz_trans_fields(entry_slot(a), dz_trans_slot(t, a), dz_trans_slot(t, b),
                                        dz_trans_slot(t, c));
        uint32_t pos = dz_trans_emit(t, H_SELECT_V, word);
        dz_trans_result(t, pos, entry_type(a), ACC_NONE, 0);
        return;
    }
    bool in = dz_trans_in_acc(t, c, ACC_INT);
    uint32_t s = 0;
    if (in)
        dz_trans_take_acc(t, c, ACC_INT);
    else
        s = dz_trans_slot(t, c);
    uint32_t sb = dz_trans_slot(t, b);
    uint32_t sa = dz_trans_slot(t, a);
    uint32_t pos =
        dz_trans_emit(t, in ? H_SELECT_R : H_SELECT_S, dz_trans_fields(entry_slot(a), sa, sb, s));
    dz_trans_result(t, pos, entry_type(a), ACC_INT, 2);
}

/* --- memory ----------------------------------------------------------------------------- */

struct access {
    uint16_t handler;
    uint8_t type; /* of the value */
    uint8_t log2; /* bytes */
};
#define ACCESS(op, handler, type, log2) \
    [DZ_WASM_OP_##op - DZ_WASM_OP_i32_load] = {H_##handler, DZ_WASM_##type, log2}
static const struct access accesses[] = {
    ACCESS(i32_load, LOAD32_U_S, I32, 2),       ACCESS(i64_load, LOAD64_S, I64, 3),
    ACCESS(f32_load, LOADF32_S, F32, 2),        ACCESS(f64_load, LOADF64_S, F64, 3),
    ACCESS(i32_load8_s, LOAD8_S32_S, I32, 0),   ACCESS(i32_load8_u, LOAD8_U_S, I32, 0),
    ACCESS(i32_load16_s, LOAD16_S32_S, I32, 1), ACCESS(i32_load16_u, LOAD16_U_S, I32, 1),
    ACCESS(i64_load8_s, LOAD8_S64_S, I64, 0),   ACCESS(i64_load8_u, LOAD8_U_S, I64, 0),
    ACCESS(i64_load16_s, LOAD16_S64_S, I64, 1), ACCESS(i64_load16_u, LOAD16_U_S, I64, 1),
    ACCESS(i64_load32_s, LOAD32_S64_S, I64, 2), ACCESS(i64_load32_u, LOAD32_U_S, I64, 2),
    ACCESS(i32_store, STORE32_SS, I32, 2),      ACCESS(i64_store, STORE64_SS, I64, 3),
    ACCESS(f32_store, STORE32_SS, F32, 2),      ACCESS(f64_store, STORE64_SS, F64, 3),
    ACCESS(i32_store8, STORE8_SS, I32, 0),      ACCESS(i32_store16, STORE16_SS, I32, 1),
    ACCESS(i64_store8, STORE8_SS, I64, 0),      ACCESS(i64_store16, STORE16_SS, I64, 1),
    ACCESS(i64_store32, STORE32_SS, I64, 2),
};

/* Flags, memory and offset. */
struct memarg {
    uint32_t memory, offset;
};
static inline struct memarg memarg(struct wasm_trans *t)
{
    struct memarg m = {0, 0};
    const uint8_t *p = t->p;
    if (dz_likely(t->end - p >= 2 && p[0] < 64 && p[1] < 128)) {
        m.offset = p[1];
        t->p = p + 2;
        return m;
    }
    if (dz_trans_u32(t) & 64)
        m.memory = dz_trans_u32(t);
    m.offset = dz_trans_u32(t);
    return m;
}
static void use_memory(struct wasm_trans *t, uint32_t index)
{
    (void)dz_trans_emit(t, H_MEM_USE, dz_trans_imm(0, 0, index));
}

/* --- accesses that compute their address ---------------------------------------------------- */

/* When the last cell made an address for this access alone (an addition of two slots, or of a slot
 * and a constant), that cell is removed and the access adds. A constant address needs no cell. */
enum fused_kind {
    FUSED_ADD_CONST = 0, /* in the order of LOAD_FUSED and STORE_FUSED */
    FUSED_ADD_SLOT = 2,
    FUSED_CONST = 4,
    FUSED_SCALED = 6, /* loads only */
    FUSED_STEP = 8,
    FUSED_NOT,
};
struct fused_address {
    unsigned kind;
    uint64_t word; /* word 1 but for FC */
};
static const struct fused_address fused_not = {FUSED_NOT, 0};

/* How the access itself can make this address; the cell that made it, if any, is taken back. */
static struct fused_address fuse_address(struct wasm_trans *t, struct entry e, uint32_t offset)
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

/* The address is a local that the last cell advanced by a constant. */
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

/* The same for a load of 1 << log2 bytes, which can also make base + (index << log2). */
static struct fused_address fuse_load(struct wasm_trans *t, struct entry e, uint32_t offset,
                                      unsigned log2)
{
    if (entry_kind(e) == ENTRY_LOCAL)
        return fuse_step(t, e, offset);
    struct fused_address f = fuse_address(t, e, offset);
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

/* Both operands are popped. If the value is the sum of the accumulator and the memory that it is
 * stored to, emit one cell that adds in memory. */
static bool fuse_add_to(struct wasm_trans *t, struct entry address, struct entry value,
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

/* May fuse_load() succeed? Not for a local, unless the last cell added to it. */
static inline bool may_fuse(const struct wasm_trans *t, struct entry e)
{
    return entry_kind(e) != ENTRY_LOCAL ||
           t->words[t->cells[t->cell_count - 1].word] == H_I32_ADD_SC;
}

void dz_trans_load(struct wasm_trans *t, unsigned op)
{
    struct access k = accesses[op - DZ_WASM_OP_i32_load];
    struct memarg m = memarg(t);
    struct entry a = dz_trans_pop(t);
    if (!m.memory && may_fuse(t, a)) {
        struct fused_address f = fuse_load(t, a, m.offset, k.log2);
        if (f.kind != FUSED_NOT) {
            unsigned h = H_LOAD8_S32_A + (k.handler - H_LOAD8_S32_S) / 4u * 10 + f.kind;
            uint32_t at = dz_trans_emit(t, h, f.word | entry_slot(a));
            dz_trans_result(t, at, k.type, acc_of(k.type), 1);
            return;
        }
    }
    bool in = dz_trans_in_acc(t, a, ACC_INT);
    uint32_t s = 0;
    if (in)
        dz_trans_take_acc(t, a, ACC_INT);
    else
        s = dz_trans_slot(t, a);
    if (dz_unlikely(m.memory))
        use_memory(t, m.memory);
    uint32_t pos =
        dz_trans_emit(t, k.handler + (in ? 1u : 0u), dz_trans_imm(entry_slot(a), s, m.offset));
    dz_trans_result(t, pos, k.type, acc_of(k.type), 2);
    if (dz_unlikely(m.memory))
        use_memory(t, 0);
}

/* A store whose address is a constant, or an addition right before the value. */
static bool store_fused(struct wasm_trans *t, struct access k, uint32_t offset)
{
    struct entry v = t->stack[t->depth - 1], a = t->stack[t->depth - 2];
    if (entry_kind(v) == ENTRY_CONST ||
        (entry_kind(a) != ENTRY_CONST && entry_kind(v) != ENTRY_LOCAL))
        return false;
    struct fused_address f = fuse_address(t, a, offset);
    if (f.kind == FUSED_NOT)
        return false;
    enum acc_no n = acc_of(k.type);
    (void)dz_trans_pop(t);
    (void)dz_trans_pop(t);
    unsigned size = (k.handler - H_STORE8_SS) / 5u;
    unsigned base = n == ACC_F32   ? H_STOREF32_AS
                    : n == ACC_F64 ? H_STOREF64_AS
                                   : H_STORE8_AS + size * 6;
    bool in = dz_trans_in_acc(t, v, n);
    if (in)
        dz_trans_take_acc(t, v, n);
    uint32_t slot = in ? 0 : dz_trans_slot(t, v);
    (void)dz_trans_emit(t, base + f.kind + (in ? 1u : 0u), f.word | slot);
    return true;
}

/* Kinds SS RS SR SC RC follow each other. */
void dz_trans_store(struct wasm_trans *t, unsigned op)
{
    struct access k = accesses[op - DZ_WASM_OP_i32_load];
    enum {
        SS,
        RS,
        SR,
        SC,
        RC
    };
    unsigned handler = k.handler;
    struct memarg m = memarg(t);
    if (!m.memory && t->depth >= 2 && store_fused(t, k, m.offset))
        return;
    struct entry v = dz_trans_pop(t);
    struct entry a = dz_trans_pop(t);
    enum acc_no n = acc_of(k.type);
    if (n != ACC_INT && !m.memory && fuse_add_to(t, a, v, m.offset))
        return;
    bool v_in = n != ACC_INT && dz_trans_in_acc(t, v, n);
    bool v_int = !v_in && dz_trans_in_acc(t, v, ACC_INT);
    bool a_in = !v_int && dz_trans_in_acc(t, a, ACC_INT);
    if (v_in)
        dz_trans_take_acc(t, v, n);
    if (v_int)
        dz_trans_take_acc(t, v, ACC_INT);
    if (a_in)
        dz_trans_take_acc(t, a, ACC_INT);
    uint32_t sa = a_in ? 0 : dz_trans_slot(t, a);
    uint32_t sv = v_in || v_int || entry_kind(v) == ENTRY_CONST ? 0 : dz_trans_slot(t, v);
    if (dz_unlikely(m.memory))
        use_memory(t, m.memory);
    if (v_in)
        (void)dz_trans_emit(t, (n == ACC_F32 ? H_STOREF32_SF : H_STOREF64_SF) + (a_in ? 1u : 0u),
                            dz_trans_imm(0, sa, m.offset));
    else if (v_int)
        (void)dz_trans_emit(t, handler + SR, dz_trans_imm(0, sa, m.offset));
    else if (entry_kind(v) == ENTRY_CONST)
        (void)dz_trans_emit3(t, handler + (a_in ? RC : SC), dz_trans_imm(0, sa, m.offset), v.bits);
    else
        (void)dz_trans_emit(t, handler + (a_in ? RS : SS), dz_trans_imm(sv, sa, m.offset));
    if (dz_unlikely(m.memory))
        use_memory(t, 0);
}

/* Store the three operands into their slots, then emit one cell that can run again and again. */
static void bulk(struct wasm_trans *t, enum wasm_bulk_op op, uint32_t first, uint32_t second)
{
    static const unsigned quick[] = {
        [WASM_MEMORY_COPY] = H_MEM_COPY, [WASM_MEMORY_FILL] = H_MEM_FILL};
    uint32_t base = entry_slot(t->stack[t->depth - 3]);
    uint32_t height = t->top;
    dz_trans_settle(t);
    if (op <= WASM_MEMORY_FILL && first == 0 && second == 0 && !t->wide)
        (void)dz_trans_emit(t, quick[op], dz_trans_fields(base, base, base + 1, base + 2));
    uint32_t at =
        dz_trans_emit3(t, H_BULK, dz_trans_imm(0, op, base), first | (uint64_t)second << 32);
    dz_trans_point(t, POINT_BULK, at, height);
    for (int i = 0; i < 3; i++)
        (void)dz_trans_pop(t);
    dz_trans_forget(t);
}

static void memory_grow(struct wasm_trans *t)
{
    uint32_t index = dz_trans_u32(t);
    struct entry a = dz_trans_pop(t);
    uint32_t s = dz_trans_slot(t, a);
    uint32_t pos = dz_trans_emit(t, H_MEM_GROW, dz_trans_imm(entry_slot(a), s, index));
    dz_trans_result(t, pos, DZ_WASM_I32, ACC_INT, 0);
}

bool dz_trans_memory(struct wasm_trans *t, unsigned op)
{
    uint32_t x;
    switch (op) {
    case DZ_WASM_OP_memory_size:
        x = dz_trans_emit(t, H_MEM_SIZE, dz_trans_imm(t->top, 0, dz_trans_u32(t)));
        dz_trans_result_new(t, x, DZ_WASM_I32, ACC_INT, 0);
        return true;
    case DZ_WASM_OP_memory_grow:
        memory_grow(t);
        return true;
    case DZ_WASM_OP_memory_copy:
        x = dz_trans_u32(t);
        bulk(t, WASM_MEMORY_COPY, x, dz_trans_u32(t));
        return true;
    case DZ_WASM_OP_memory_fill:
        bulk(t, WASM_MEMORY_FILL, dz_trans_u32(t), 0);
        return true;
    case DZ_WASM_OP_memory_init:
        x = dz_trans_u32(t);
        bulk(t, WASM_MEMORY_INIT, dz_trans_u32(t), x);
        return true;
    case DZ_WASM_OP_data_drop:
        (void)dz_trans_emit(t, H_DATA_DROP, dz_trans_imm(0, 0, dz_trans_u32(t)));
        return true;
    default:
        return false;
    }
}

/* --- tables ----------------------------------------------------------------------------- */

static void table_get(struct wasm_trans *t, uint32_t index)
{
    struct entry i = dz_trans_pop(t);
    uint32_t s = dz_trans_slot(t, i);
    uint32_t pos = dz_trans_emit(t, H_TABLE_GET, dz_trans_imm(entry_slot(i), s, index));
    dz_trans_result(t, pos, t->module->tables[index].type, ACC_INT, 0);
}
static void table_set(struct wasm_trans *t, uint32_t index)
{
    struct entry v = dz_trans_pop(t);
    struct entry i = dz_trans_pop(t);
    uint32_t sv = dz_trans_slot(t, v);
    (void)dz_trans_emit(t, H_TABLE_SET, dz_trans_imm(sv, dz_trans_slot(t, i), index));
}
/* Value and count become the result and the operands of a fill, which a BULK cell does in parts. */
static void table_grow(struct wasm_trans *t, uint32_t index)
{
    uint32_t base = entry_slot(t->stack[t->depth - 2]);
    uint32_t height = base + 4;
    if (height > t->max_slot)
        t->max_slot = height;
    dz_trans_settle(t);
    (void)dz_trans_emit3(t, H_TABLE_GROW, dz_trans_imm(0, 0, base), index);
    uint32_t at = dz_trans_emit3(t, H_BULK, dz_trans_imm(0, WASM_TABLE_FILL, base + 1), index);
    dz_trans_point(t, POINT_GROWN, at, height);
    (void)dz_trans_pop(t);
    (void)dz_trans_pop(t);
    dz_trans_forget(t);
    dz_trans_push_temp(t, DZ_WASM_I32);
}

bool dz_trans_table(struct wasm_trans *t, unsigned op)
{
    uint32_t x;
    switch (op) {
    case DZ_WASM_OP_table_get:
        table_get(t, dz_trans_u32(t));
        return true;
    case DZ_WASM_OP_table_set:
        table_set(t, dz_trans_u32(t));
        return true;
    case DZ_WASM_OP_table_size:
        x = dz_trans_emit(t, H_TABLE_SIZE, dz_trans_imm(t->top, 0, dz_trans_u32(t)));
        dz_trans_result_new(t, x, DZ_WASM_I32, ACC_INT, 0);
        return true;
    case DZ_WASM_OP_table_grow:
        table_grow(t, dz_trans_u32(t));
        return true;
    case DZ_WASM_OP_table_fill:
        bulk(t, WASM_TABLE_FILL, dz_trans_u32(t), 0);
        return true;
    case DZ_WASM_OP_table_copy:
        x = dz_trans_u32(t);
        bulk(t, WASM_TABLE_COPY, x, dz_trans_u32(t));
        return true;
    case DZ_WASM_OP_table_init:
        x = dz_trans_u32(t);
        bulk(t, WASM_TABLE_INIT, dz_trans_u32(t), x);
        return true;
    case DZ_WASM_OP_elem_drop:
        (void)dz_trans_emit(t, H_ELEM_DROP, dz_trans_imm(0, 0, dz_trans_u32(t)));
        return true;
    case DZ_WASM_OP_ref_func:
        x = dz_trans_emit(t, H_REF_FUNC, dz_trans_imm(t->top, 0, dz_trans_u32(t)));
        dz_trans_result_new(t, x, DZ_WASM_FUNCREF, ACC_INT, 0);
        return true;
    case DZ_WASM_OP_ref_null:
        x = *t->p++;
        dz_trans_push(t, entry_of(ENTRY_CONST, x, 0));
        return true;
    default:
        return false;
    }
}

/* --- vectors ---------------------------------------------------------------------------- */

static const uint16_t vectors[] = {
#define X(name, text, number, imm, sig, feature, arg) [number - 0x200] = H_SIMD_##name,
    DZ_WASM_OP_FD_MAP(X)
#undef X
};

static void vector_wide(struct wasm_trans *t, unsigned handler, unsigned op)
{
    uint64_t half[2];
    memcpy(half, t->p, sizeof half);
    t->p += sizeof half;
    uint64_t word;
    if (op == DZ_WASM_OP_v128_const) {
        word = dz_trans_fields(t->top, 0, 0, 0);
    } else {
        struct entry b = dz_trans_pop(t);
        struct entry a = dz_trans_pop(t);
        word = dz_trans_fields(entry_slot(a), dz_trans_slot(t, a), dz_trans_slot(t, b), 0);
    }
    uint32_t pos = dz_trans_emit3(t, handler, word, half[0]);
    dz_trans_word(t, half[1]);
    dz_trans_result_new(t, pos, DZ_WASM_V128, ACC_NONE, 0);
}

static void vector_access(struct wasm_trans *t, unsigned handler,
                          const struct dz_wasm_op_info *info)
{
    struct memarg m = memarg(t);
    bool lanes = info->imm == DZ_WASM_IMM_MEMARG_LANE;
    uint32_t lane = lanes ? *t->p++ : 0;
    struct entry v = {0};
    if (info->pops == 2)
        v = dz_trans_pop(t);
    struct entry a = dz_trans_pop(t);
    uint32_t sv = info->pops == 2 ? dz_trans_slot(t, v) : 0;
    uint32_t sa = dz_trans_slot(t, a);
    if (m.memory)
        use_memory(t, m.memory);
    uint32_t c = info->type[3] ? entry_slot(a) : sv;
    uint32_t pos = dz_trans_emit(t, handler, dz_trans_imm(c, sa, m.offset));
    if (lanes)
        dz_trans_word(t, lane | (uint64_t)sv << 16);
    if (info->type[3])
        dz_trans_result(t, pos, info->type[3], ACC_NONE, 0);
    if (m.memory)
        use_memory(t, 0);
}

bool dz_trans_vector(struct wasm_trans *t, unsigned op)
{
    if (op < 0x200 || op - 0x200 >= DZ_ARRAY_LEN(vectors))
        return false;
    const struct dz_wasm_op_info *info = &dz_wasm_op_table[op];
    unsigned handler = vectors[op - 0x200];
    if (info->imm == DZ_WASM_IMM_V128 || info->imm == DZ_WASM_IMM_SHUFFLE) {
        vector_wide(t, handler, op);
        return true;
    }
    if (info->imm == DZ_WASM_IMM_MEMARG || info->imm == DZ_WASM_IMM_MEMARG_LANE) {
        vector_access(t, handler, info);
        return true;
    }
    uint32_t slot[3] = {0, 0, 0};
    struct entry e[3];
    uint32_t to = t->top;
    for (unsigned i = info->pops; i-- > 0;)
        e[i] = dz_trans_pop(t);
    for (unsigned i = 0; i < info->pops; i++)
        slot[i] = dz_trans_slot(t, e[i]);
    if (info->pops)
        to = entry_slot(e[0]);
    if (info->imm == DZ_WASM_IMM_LANE)
        slot[2] = *t->p++;
    uint32_t pos = dz_trans_emit(t, handler, dz_trans_fields(to, slot[0], slot[1], slot[2]));
    dz_trans_result(t, pos, info->type[3], acc_of(info->type[3]), 0);
    return true;
}
