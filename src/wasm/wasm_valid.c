/* SPDX-License-Identifier: MIT
 *
 * wasm_valid.c - validates a function body: locals, stacks and the loop over its instructions.
 *
 * The algorithm is that of the specification's appendix: a stack of operand types and a stack of
 * control frames. In code that cannot be reached the operand stack below the frame's height gives
 * whatever type an instruction wants; WASM_UNKNOWN is the type of such a value.
 *
 *     ctrls   [ body | height 0 ][ block | height 1 ][ loop | height 3 ]
 *     stack   [ i32 | i32 f64 | i64 i64 ]
 *                             ^ floor = 3   ^ n = 5
 *
 * An instruction of fixed signature is checked from its row of the table. Blocks and branches, and
 * the few instructions whose types depend on their immediates, have functions of their own. One
 * struct wasm_valid serves all bodies of a module, so its stacks are allocated once.
 *
 * Invariants, after each instruction (assert_stack):
 *   1. floor is the height of the innermost control frame, and n >= floor.
 *   2. wide is how many of stack[0..n) are v128, and max_slots >= n + wide.
 *   3. stack[0..n) holds value types or WASM_UNKNOWN. Not asserted: pushing is the only way in.
 */
#include "wasm/wasm_load.h"

#include <assert.h>
#include <inttypes.h>

enum {
    WASM_UNKNOWN = 0,
    WASM_NEAR_LOCALS = 4096, /* locals whose type is found without a search */
};

struct wasm_types { /* a sequence of value types */
    const uint8_t *p;
    uint32_t n;
};

struct wasm_ctrl {
    struct wasm_types params, results;
    uint32_t height; /* of the operand stack below the params */
    uint32_t wide;   /* v128s below */
    uint16_t op;     /* block, loop, if, else, try_table; the body itself is a block */
    bool unreachable;
};

struct wasm_group { /* locals up to index end have this type */
    uint32_t end;
    uint8_t type;
};

struct wasm_valid {
    struct wasm_load *l;
    const uint8_t *at; /* the instruction */
    uint8_t *stack;
    uint32_t n, cap;
    uint32_t floor, wide, max_slots;
    DZ_VEC(, struct wasm_ctrl) ctrls;
    DZ_VEC(, struct wasm_group) groups;
    uint32_t n_locals;         /* params and declared */
    struct wasm_types results; /* of the function */
    uint8_t near[WASM_NEAR_LOCALS];
};

/* The frame that a label names, or NULL. */
static struct wasm_ctrl *valid_label(struct wasm_valid *v, uint32_t label)
{
    if (v->l->code || !dz_wasm_index_ok(v->l, v->at, label, v->ctrls.n, "label"))
        return NULL;
    return &v->ctrls.p[v->ctrls.n - 1 - label];
}

/* --- the operand stack ------------------------------------------------------------ */

static bool grow(struct wasm_valid *v)
{
    struct wasm_load *l = v->l;
    if (v->cap >= l->limits->stack_slots) {
        dz_wasm_load_limit(l, v->at, (uint64_t)v->cap + 1, l->limits->stack_slots,
                           "operands on the stack");
        return false;
    }
    uint32_t cap = v->cap ? v->cap * 2 : 256;
    if (cap > l->limits->stack_slots)
        cap = l->limits->stack_slots;
    uint8_t *p = dz_realloc(v->stack, cap);
    if (!p) {
        dz_wasm_load_fail(l, v->at, DZ_ENOMEM, "out of memory");
        return false;
    }
    v->stack = p;
    v->cap = cap;
    return true;
}

static uint8_t pop_slow(struct wasm_valid *v, unsigned type)
{
    if (v->l->code)
        return WASM_UNKNOWN;
    if (v->n == v->floor) {
        if (!v->ctrls.p[v->ctrls.n - 1].unreachable)
            dz_wasm_load_fail(v->l, v->at, DZ_EINVAL,
                              "type mismatch: expected %s, found nothing on the stack",
                              type ? dz_wasm_valtype_text(type) : "a value");
        return (uint8_t)type;
    }
    uint8_t found = v->stack[--v->n];
    v->wide -= found == DZ_WASM_V128;
    if (type != WASM_UNKNOWN && found != WASM_UNKNOWN && found != type)
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL, "type mismatch: expected %s, found %s",
                          dz_wasm_valtype_text(type), dz_wasm_valtype_text(found));
    return found == WASM_UNKNOWN ? (uint8_t)type : found;
}

static inline void wasm_push(struct wasm_valid *v, unsigned type)
{
    if (dz_unlikely(v->n == v->cap) && !grow(v))
        return;
    v->stack[v->n++] = (uint8_t)type;
    v->wide += type == DZ_WASM_V128;
    if (v->n + v->wide > v->max_slots)
        v->max_slots = v->n + v->wide;
}

/* Pop a value of a type, or of any when type is WASM_UNKNOWN; returns its type. */
static inline uint8_t wasm_pop(struct wasm_valid *v, unsigned type)
{
    if (dz_unlikely(v->n == v->floor || v->stack[v->n - 1] != type))
        return pop_slow(v, type);
    v->n--;
    v->wide -= type == DZ_WASM_V128;
    return (uint8_t)type;
}

static inline bool wasm_same_types(struct wasm_types a, struct wasm_types b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline struct wasm_types wasm_params_of(const struct wasm_load *l, uint32_t type)
{
    const struct dz_wasm_type *t = &l->types.p[type];
    return (struct wasm_types){l->valtypes.p + t->params, t->n_params};
}

static inline struct wasm_types wasm_results_of(const struct wasm_load *l, uint32_t type)
{
    const struct dz_wasm_type *t = &l->types.p[type];
    return (struct wasm_types){l->valtypes.p + t->params + t->n_params, t->n_results};
}

static inline struct wasm_types wasm_label_types(const struct wasm_ctrl *c)
{
    return c->op == DZ_WASM_OP_loop ? c->params : c->results;
}

static void valid_push_types(struct wasm_valid *v, struct wasm_types t)
{
    for (uint32_t i = 0; i < t.n && !v->l->code; i++)
        wasm_push(v, t.p[i]);
}

static void valid_pop_types(struct wasm_valid *v, struct wasm_types t)
{
    for (uint32_t i = t.n; i-- > 0 && !v->l->code;)
        (void)wasm_pop(v, t.p[i]);
}

/* The code behind this instruction cannot be reached. */
static void valid_unreachable(struct wasm_valid *v)
{
    struct wasm_ctrl *c = &v->ctrls.p[v->ctrls.n - 1];
    v->n = c->height;
    v->wide = c->wide;
    c->unreachable = true;
}

/* --- locals -------------------------------------------------------------------------- */

/* `count` more locals of a type. */
static void add_locals(struct wasm_valid *v, uint32_t count, uint8_t type)
{
    if (count == 0)
        return;
    if (count > v->l->limits->locals - v->n_locals) {
        dz_wasm_load_limit(v->l, v->at, (uint64_t)v->n_locals + count, v->l->limits->locals,
                           "locals");
        return;
    }
    for (uint32_t i = v->n_locals; i < v->n_locals + count && i < WASM_NEAR_LOCALS; i++)
        v->near[i] = type;
    v->n_locals += count;
    dz_vec_push(&v->groups, ((struct wasm_group){v->n_locals, type}));
}

/* its type; 0: failed */
static uint8_t valid_local(struct wasm_valid *v, uint32_t index)
{
    if (!dz_wasm_index_ok(v->l, v->at, index, v->n_locals, "local"))
        return 0;
    if (index < WASM_NEAR_LOCALS)
        return v->near[index];
    size_t low = 0, high = v->groups.n - 1; /* the first group that ends above index */
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (v->groups.p[mid].end > index)
            high = mid;
        else
            low = mid + 1;
    }
    return v->groups.p[low].type;
}

static void read_locals(struct wasm_valid *v, struct dz_wasm_func *f)
{
    struct wasm_load *l = v->l;
    struct wasm_types params = wasm_params_of(l, f->type);
    v->n_locals = 0;
    dz_vec_reset(&v->groups);
    for (uint32_t i = 0; i < params.n; i++)
        add_locals(v, 1, params.p[i]);
    uint32_t slots = l->types.p[f->type].param_slots;
    uint32_t n_groups = wasm_read_u32(l);
    for (uint32_t i = 0; i < n_groups && !l->code; i++) {
        v->at = l->p;
        uint32_t count = wasm_read_u32(l);
        uint8_t type = dz_wasm_read_valtype(l);
        if (l->code)
            return;
        add_locals(v, count, type);
        slots += l->code ? 0 : count * dz_wasm_valtype_slots(type);
    }
    if (v->groups.err)
        dz_wasm_load_fail(l, v->at, v->groups.err, "out of memory");
    f->n_locals = v->n_locals - params.n;
    f->local_slots = slots;
}

/* --- immediates ------------------------------------------------------------------------ */

/* Without multi-memory the index is a byte that must be 0. */
static void memory_index(struct wasm_valid *v)
{
    struct wasm_load *l = v->l;
    uint32_t index = 0;
    if (l->features & DZ_WASM_F_MULTI_MEMORY)
        index = wasm_read_u32(l);
    else if (wasm_read_byte(l) != 0)
        dz_wasm_load_fail(l, v->at, DZ_EINVAL, "zero byte expected");
    if (!l->code)
        (void)dz_wasm_index_ok(l, v->at, index, l->memories.n, "memory");
}

static void memarg(struct wasm_valid *v, unsigned natural)
{
    struct wasm_load *l = v->l;
    uint32_t flags = wasm_read_u32(l), index = 0;
    if (flags & 0x40 && l->features & DZ_WASM_F_MULTI_MEMORY) {
        flags &= ~0x40u;
        index = wasm_read_u32(l);
    }
    if (!l->code && flags > 0x3f)
        dz_wasm_load_fail(l, v->at, DZ_EINVAL, "malformed memop flags 0x%" PRIx32, flags);
    (void)wasm_read_u32(l); /* offset */
    if (l->code || !dz_wasm_index_ok(l, v->at, index, l->memories.n, "memory"))
        return;
    if (flags > natural)
        dz_wasm_load_fail(l, v->at, DZ_EINVAL,
                          "alignment must not be larger than natural: 2^%" PRIu32
                          " for an access of 2^%u bytes",
                          flags, natural);
}

static void lane(struct wasm_valid *v, unsigned limit)
{
    unsigned index = wasm_read_byte(v->l);
    if (!v->l->code && index >= limit)
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL, "invalid lane index %u of %u", index, limit);
}

static uint32_t table_index(struct wasm_valid *v)
{
    uint32_t index = wasm_read_u32(v->l);
    if (v->l->code || !dz_wasm_index_ok(v->l, v->at, index, v->l->tables.n, "table"))
        return 0;
    if (index > 0)
        v->l->used |= DZ_WASM_F_REFERENCE_TYPES;
    return index;
}

static uint32_t elem_index(struct wasm_valid *v)
{
    uint32_t index = wasm_read_u32(v->l);
    if (v->l->code || !dz_wasm_index_ok(v->l, v->at, index, v->l->elems.n, "elem segment"))
        return 0;
    return index;
}

static void data_index(struct wasm_valid *v)
{
    struct wasm_load *l = v->l;
    uint32_t index = wasm_read_u32(l);
    if (l->n_data_count == DZ_WASM_NONE)
        dz_wasm_load_fail(l, v->at, DZ_EINVAL, "data count section required");
    if (!l->code)
        (void)dz_wasm_index_ok(l, v->at, index, l->n_data_count, "data segment");
}

static void same_reference(struct wasm_valid *v, unsigned a, unsigned b)
{
    if (a != b)
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL, "type mismatch: expected %s, found %s",
                          dz_wasm_valtype_text(a), dz_wasm_valtype_text(b));
}

static void tables(struct wasm_valid *v, bool from_elem)
{
    struct wasm_load *l = v->l;
    uint32_t a = from_elem ? elem_index(v) : table_index(v);
    uint32_t b = table_index(v);
    if (l->code)
        return;
    same_reference(v, l->tables.p[b].type, from_elem ? l->elems.p[a].type : l->tables.p[a].type);
}

static void ref_func(struct wasm_valid *v)
{
    struct wasm_load *l = v->l;
    uint32_t index = wasm_read_u32(l);
    if (!l->code && dz_wasm_index_ok(l, v->at, index, l->funcs.n, "function") &&
        !l->declared.p[index])
        dz_wasm_load_fail(l, v->at, DZ_EINVAL, "undeclared function reference %" PRIu32, index);
}

/* Constants, lanes and addresses: nothing of the module but its memories. */
static void imm_value(struct wasm_valid *v, const struct dz_wasm_op_info *info)
{
    struct wasm_load *l = v->l;
    unsigned imm = info->imm;
    if (imm == DZ_WASM_IMM_MEMARG || imm == DZ_WASM_IMM_MEMARG_LANE)
        memarg(v, info->arg);
    if (imm == DZ_WASM_IMM_MEMARG_LANE)
        lane(v, 16u >> info->arg);
    else if (imm == DZ_WASM_IMM_LANE)
        lane(v, info->arg);
    else if (imm == DZ_WASM_IMM_I32)
        (void)dz_wasm_read_signed(l, 32);
    else if (imm == DZ_WASM_IMM_I64)
        (void)dz_wasm_read_signed(l, 64);
    else if (imm == DZ_WASM_IMM_F32)
        (void)dz_wasm_read_bytes(l, 4);
    else if (imm == DZ_WASM_IMM_F64)
        (void)dz_wasm_read_bytes(l, 8);
    else if (imm == DZ_WASM_IMM_V128)
        (void)dz_wasm_read_bytes(l, 16);
    else if (imm == DZ_WASM_IMM_SHUFFLE)
        for (int i = 0; i < 16; i++)
            lane(v, info->arg);
}

/* The kinds that are not here belong to special instructions or are values. */
static void valid_imm(struct wasm_valid *v, const struct dz_wasm_op_info *info)
{
    switch (info->imm) {
    case DZ_WASM_IMM_MEMORY2:
        memory_index(v);
        memory_index(v);
        break;
    case DZ_WASM_IMM_MEMORY:
        memory_index(v);
        break;
    case DZ_WASM_IMM_DATA_MEMORY:
        data_index(v);
        memory_index(v);
        break;
    case DZ_WASM_IMM_DATA:
        data_index(v);
        break;
    case DZ_WASM_IMM_ELEM:
        (void)elem_index(v);
        break;
    case DZ_WASM_IMM_ELEM_TABLE:
        tables(v, true);
        break;
    case DZ_WASM_IMM_TABLE2:
        tables(v, false);
        break;
    case DZ_WASM_IMM_TABLE:
        (void)table_index(v);
        break;
    case DZ_WASM_IMM_FUNC:
        ref_func(v);
        break;
    default:
        imm_value(v, info);
        break;
    }
}

/* --- special instructions ----------------------------------------------------------------- */

static void op_call(struct wasm_valid *v, uint32_t type, bool tail)
{
    struct wasm_load *l = v->l;
    struct wasm_types results = wasm_results_of(l, type);
    if (tail && !wasm_same_types(results, v->results))
        dz_wasm_load_fail(l, v->at, DZ_EINVAL,
                          "type mismatch: a tail call must return what its function returns");
    valid_pop_types(v, wasm_params_of(l, type));
    if (tail)
        valid_unreachable(v);
    else
        valid_push_types(v, results);
}

static void op_call_direct(struct wasm_valid *v, bool tail)
{
    struct wasm_load *l = v->l;
    uint32_t func = wasm_read_u32(l);
    if (!l->code && dz_wasm_index_ok(l, v->at, func, l->funcs.n, "function"))
        op_call(v, l->funcs.p[func].type, tail);
}

static void op_call_indirect(struct wasm_valid *v, bool tail)
{
    struct wasm_load *l = v->l;
    uint32_t type = wasm_read_u32(l);
    uint32_t table = table_index(v);
    if (l->code || !dz_wasm_index_ok(l, v->at, type, l->types.n, "type"))
        return;
    same_reference(v, DZ_WASM_FUNCREF, l->tables.p[table].type);
    (void)wasm_pop(v, DZ_WASM_I32);
    op_call(v, type, tail);
}

static void op_select(struct wasm_valid *v)
{
    (void)wasm_pop(v, DZ_WASM_I32);
    uint8_t a = wasm_pop(v, WASM_UNKNOWN);
    uint8_t b = wasm_pop(v, WASM_UNKNOWN);
    if (v->l->code)
        return;
    if (dz_wasm_valtype_is_ref(a) || dz_wasm_valtype_is_ref(b))
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL,
                          "type mismatch: a select of references must state its type");
    else if (a != b && a != WASM_UNKNOWN && b != WASM_UNKNOWN)
        same_reference(v, a, b);
    else
        wasm_push(v, a == WASM_UNKNOWN ? b : a);
}

static void op_select_typed(struct wasm_valid *v)
{
    uint32_t n = wasm_read_u32(v->l);
    if (!v->l->code && n != 1)
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL, "invalid result arity of select: %" PRIu32, n);
    uint8_t type = dz_wasm_read_valtype(v->l);
    if (v->l->code)
        return;
    (void)wasm_pop(v, DZ_WASM_I32);
    (void)wasm_pop(v, type);
    (void)wasm_pop(v, type);
    wasm_push(v, type);
}

static void op_global(struct wasm_valid *v, bool set)
{
    struct wasm_load *l = v->l;
    uint32_t index = wasm_read_u32(l);
    if (l->code || !dz_wasm_index_ok(l, v->at, index, l->globals.n, "global"))
        return;
    const struct dz_wasm_global *g = &l->globals.p[index];
    if (!set)
        wasm_push(v, g->type);
    else if (!g->mutable)
        dz_wasm_load_fail(l, v->at, DZ_EINVAL, "global %" PRIu32 " is immutable", index);
    else
        (void)wasm_pop(v, g->type);
}

static void op_table(struct wasm_valid *v, unsigned op)
{
    struct wasm_load *l = v->l;
    uint32_t index = table_index(v);
    if (l->code)
        return;
    unsigned type = l->tables.p[index].type;
    switch (op) {
    case DZ_WASM_OP_table_get:
        (void)wasm_pop(v, DZ_WASM_I32);
        wasm_push(v, type);
        break;
    case DZ_WASM_OP_table_set:
        (void)wasm_pop(v, type);
        (void)wasm_pop(v, DZ_WASM_I32);
        break;
    case DZ_WASM_OP_table_grow:
        (void)wasm_pop(v, DZ_WASM_I32);
        (void)wasm_pop(v, type);
        wasm_push(v, DZ_WASM_I32);
        break;
    default: /* table.fill */
        (void)wasm_pop(v, DZ_WASM_I32);
        (void)wasm_pop(v, type);
        (void)wasm_pop(v, DZ_WASM_I32);
        break;
    }
}

static void op_throw(struct wasm_valid *v)
{
    struct wasm_load *l = v->l;
    uint32_t tag = wasm_read_u32(l);
    if (l->code || !dz_wasm_index_ok(l, v->at, tag, l->tags.n, "tag"))
        return;
    valid_pop_types(v, wasm_params_of(l, l->tags.p[tag].type));
    valid_unreachable(v);
}

static void op_ref_is_null(struct wasm_valid *v)
{
    uint8_t type = wasm_pop(v, WASM_UNKNOWN);
    if (!v->l->code && type != WASM_UNKNOWN && !dz_wasm_valtype_is_ref(type))
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL, "type mismatch: expected a reference, found %s",
                          dz_wasm_valtype_text(type));
    wasm_push(v, DZ_WASM_I32);
}

/* Variables, tables, references, calls: the rest of what is special. */
static void valid_special(struct wasm_valid *v, unsigned op)
{
    switch (op) {
    case DZ_WASM_OP_call:
    case DZ_WASM_OP_return_call:
        op_call_direct(v, op == DZ_WASM_OP_return_call);
        break;
    case DZ_WASM_OP_call_indirect:
    case DZ_WASM_OP_return_call_indirect:
        op_call_indirect(v, op == DZ_WASM_OP_return_call_indirect);
        break;
    case DZ_WASM_OP_drop:
        (void)wasm_pop(v, WASM_UNKNOWN);
        break;
    case DZ_WASM_OP_select:
        op_select(v);
        break;
    case DZ_WASM_OP_select_t:
        op_select_typed(v);
        break;
    case DZ_WASM_OP_global_get:
    case DZ_WASM_OP_global_set:
        op_global(v, op == DZ_WASM_OP_global_set);
        break;
    case DZ_WASM_OP_ref_null:
        wasm_push(v, dz_wasm_read_reftype(v->l));
        break;
    case DZ_WASM_OP_ref_is_null:
        op_ref_is_null(v);
        break;
    case DZ_WASM_OP_throw:
        op_throw(v);
        break;
    default:
        op_table(v, op);
        break;
    }
}

/* --- blocks ------------------------------------------------------------------------- */

/* Blocks, branches and the instructions that end them. */
static void valid_enter(struct wasm_valid *v, unsigned op, struct wasm_types params,
                        struct wasm_types results)
{
    struct wasm_ctrl c = {params, results, v->n, v->wide, (uint16_t)op, false};
    if (v->l->code)
        return;
    int err = dz_vec_push(&v->ctrls, c);
    if (err == DZ_ELIMIT)
        dz_wasm_load_limit(v->l, v->at, (uint64_t)v->ctrls.n + 1, v->l->limits->nesting,
                           "blocks within each other");
    else if (err)
        dz_wasm_load_fail(v->l, v->at, err, "out of memory");
    if (err)
        return;
    v->floor = v->n;
    valid_push_types(v, params);
}

/* Pop what the frame must leave; then nothing may be left. */
static void check_end(struct wasm_valid *v, const struct wasm_ctrl *c)
{
    valid_pop_types(v, c->results);
    if (!v->l->code && v->n != c->height)
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL,
                          "type mismatch: %" PRIu32 " values remain on the stack at the end of the "
                          "block",
                          v->n - c->height);
}

static struct wasm_ctrl leave(struct wasm_valid *v)
{
    struct wasm_ctrl c = dz_vec_pop(&v->ctrls);
    v->floor = v->ctrls.n ? v->ctrls.p[v->ctrls.n - 1].height : 0;
    return c;
}

static void op_end(struct wasm_valid *v)
{
    const struct wasm_ctrl *top = &v->ctrls.p[v->ctrls.n - 1];
    check_end(v, top);
    if (!v->l->code && top->op == DZ_WASM_OP_if && !wasm_same_types(top->params, top->results))
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL,
                          "type mismatch: an if without else must leave what it takes");
    if (v->l->code)
        return;
    struct wasm_ctrl c = leave(v);
    if (v->ctrls.n > 0)
        valid_push_types(v, c.results);
}

static void op_else(struct wasm_valid *v)
{
    const struct wasm_ctrl *top = &v->ctrls.p[v->ctrls.n - 1];
    if (top->op != DZ_WASM_OP_if)
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL, "else without if");
    check_end(v, top);
    if (v->l->code)
        return;
    struct wasm_ctrl c = leave(v);
    valid_enter(v, DZ_WASM_OP_else, c.params, c.results);
}

/* The list of one value type. A block type points to its list, so each type has a byte that stays.
 */
static struct wasm_types one_type(unsigned byte)
{
    static const uint8_t all[] = {DZ_WASM_I32,  DZ_WASM_I64,     DZ_WASM_F32,       DZ_WASM_F64,
                                  DZ_WASM_V128, DZ_WASM_FUNCREF, DZ_WASM_EXTERNREF, DZ_WASM_EXNREF};
    for (size_t i = 0; i < sizeof all; i++)
        if (all[i] == byte)
            return (struct wasm_types){&all[i], 1};
    return (struct wasm_types){NULL, 0};
}

static void read_block_type(struct wasm_valid *v, struct wasm_types *params,
                            struct wasm_types *results)
{
    struct wasm_load *l = v->l;
    const uint8_t *at = l->p;
    *params = *results = (struct wasm_types){NULL, 0};
    if (l->p < l->end && (*l->p & 0xc0) == 0x40) { /* one byte, negative */
        unsigned byte = *l->p++;
        if (byte != 0x40 && dz_wasm_valtype_ok(l, at, byte))
            *results = one_type(byte);
        return;
    }
    int64_t type = dz_wasm_read_signed(l, 33);
    if (l->code)
        return;
    if (type < 0)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed block type");
    else if (wasm_need(l, at, DZ_WASM_F_MULTI_VALUE) &&
             dz_wasm_index_ok(l, at, (uint64_t)type, l->types.n, "type")) {
        *params = wasm_params_of(l, (uint32_t)type);
        *results = wasm_results_of(l, (uint32_t)type);
    }
}

/* A clause of a try_table: what it carries must be what its label takes. */
static void read_catch(struct wasm_valid *v)
{
    struct wasm_load *l = v->l;
    const uint8_t *at = l->p;
    unsigned kind = wasm_read_byte(l); /* 1 = with the reference, 2 = of every tag */
    struct wasm_types carried = {NULL, 0};
    if (kind > 3)
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed catch clause 0x%02x", kind);
    if (!l->code && !(kind & 2)) {
        uint32_t tag = wasm_read_u32(l);
        if (l->code || !dz_wasm_index_ok(l, at, tag, l->tags.n, "tag"))
            return;
        carried = wasm_params_of(l, l->tags.p[tag].type);
    }
    const struct wasm_ctrl *c = valid_label(v, wasm_read_u32(l));
    if (!c)
        return;
    struct wasm_types wanted = wasm_label_types(c);
    bool fits = true;
    if (kind & 1) {
        fits = wanted.n > 0 && wanted.p[wanted.n - 1] == DZ_WASM_EXNREF;
        wanted.n -= fits;
    }
    if (!fits || !wasm_same_types(carried, wanted))
        dz_wasm_load_fail(l, at, DZ_EINVAL,
                          "type mismatch: a catch clause does not carry what its label takes");
}

static void op_block(struct wasm_valid *v, unsigned op)
{
    struct wasm_types params, results;
    read_block_type(v, &params, &results);
    if (op == DZ_WASM_OP_try_table) {
        uint32_t n = wasm_read_u32(v->l);
        for (uint32_t i = 0; i < n && !v->l->code; i++)
            read_catch(v);
    }
    if (op == DZ_WASM_OP_if)
        (void)wasm_pop(v, DZ_WASM_I32);
    valid_pop_types(v, params);
    valid_enter(v, op, params, results);
}

/* --- branches ------------------------------------------------------------------------- */

static void op_br(struct wasm_valid *v, unsigned op)
{
    const struct wasm_ctrl *c = valid_label(v, wasm_read_u32(v->l));
    if (!c)
        return;
    struct wasm_types t = wasm_label_types(c);
    if (op == DZ_WASM_OP_br_if)
        (void)wasm_pop(v, DZ_WASM_I32);
    valid_pop_types(v, t);
    if (op == DZ_WASM_OP_br_if)
        valid_push_types(v, t);
    else
        valid_unreachable(v);
}

/* Are the topmost operands of these types? They stay. */
static void check_top(struct wasm_valid *v, struct wasm_types t)
{
    uint32_t have = v->n - v->floor;
    bool unreachable = v->ctrls.p[v->ctrls.n - 1].unreachable;
    for (uint32_t i = 0; i < t.n; i++) { /* from the top down */
        uint8_t want = t.p[t.n - 1 - i];
        uint8_t found = i < have ? v->stack[v->n - 1 - i] : WASM_UNKNOWN;
        if (found == want || (found == WASM_UNKNOWN && (unreachable || i < have)))
            continue;
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL, "type mismatch: expected %s, found %s",
                          dz_wasm_valtype_text(want),
                          found ? dz_wasm_valtype_text(found) : "nothing on the stack");
        return;
    }
}

static void op_br_table(struct wasm_valid *v)
{
    struct wasm_load *l = v->l;
    struct wasm_types last = {NULL, 0};
    uint32_t n = wasm_read_u32(l);
    (void)wasm_pop(v, DZ_WASM_I32);
    for (uint64_t i = 0; i <= n && !l->code; i++) {
        const struct wasm_ctrl *c = valid_label(v, wasm_read_u32(l));
        if (!c)
            return;
        struct wasm_types t = wasm_label_types(c);
        if (i > 0 && t.n != last.n)
            dz_wasm_load_fail(l, v->at, DZ_EINVAL,
                              "type mismatch: the labels of br_table take %" PRIu32 " and %" PRIu32
                              " values",
                              last.n, t.n);
        if (i == 0 || t.p != last.p) /* the same as before has been checked */
            check_top(v, t);
        last = t;
    }
    valid_unreachable(v);
}

static void valid_control(struct wasm_valid *v, unsigned op)
{
    switch (op) {
    case DZ_WASM_OP_block:
    case DZ_WASM_OP_loop:
    case DZ_WASM_OP_if:
    case DZ_WASM_OP_try_table:
        op_block(v, op);
        break;
    case DZ_WASM_OP_else:
        op_else(v);
        break;
    case DZ_WASM_OP_end:
        op_end(v);
        break;
    case DZ_WASM_OP_br:
    case DZ_WASM_OP_br_if:
        op_br(v, op);
        break;
    case DZ_WASM_OP_br_table:
        op_br_table(v);
        break;
    case DZ_WASM_OP_return:
        valid_pop_types(v, v->results);
        valid_unreachable(v);
        break;
    case DZ_WASM_OP_throw_ref:
        (void)wasm_pop(v, DZ_WASM_EXNREF);
        valid_unreachable(v);
        break;
    case DZ_WASM_OP_unreachable:
        valid_unreachable(v);
        break;
    default:
        valid_special(v, op);
        break;
    }
}

/* --- instructions --------------------------------------------------------------------- */

static void unknown_op(struct wasm_valid *v, unsigned prefix, unsigned number)
{
    const char *what = NULL;
    if (prefix == 0xfb)
        what = "garbage-collected types";
    else if (prefix == 0xfe)
        what = "atomic instructions (threads)";
    else if (prefix == 0 && (number == 0x06 || number == 0x07 || number == 0x09 || number == 0x18 ||
                             number == 0x19))
        what = "the exception instructions that came before try_table";
    else if (prefix == 0 &&
             (number == 0x14 || number == 0x15 || (number >= 0xd3 && number <= 0xd6)))
        what = "typed references";
    if (what)
        dz_wasm_load_fail(v->l, v->at, DZ_EUNSUPPORTED, "uses %s, which doze does not support",
                          what);
    else if (prefix)
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL, "illegal opcode 0x%02x %u", prefix, number);
    else
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL, "illegal opcode 0x%02x", number);
}

/* The number of an instruction as the table has it, or DZ_WASM_OP_LIMIT. */
static unsigned read_prefixed(struct wasm_valid *v, unsigned prefix)
{
    unsigned number = 0;
    if (prefix == 0xfc || prefix == 0xfd)
        number = wasm_read_u32(v->l);
    unsigned first = prefix == 0xfc ? 0x100 : 0x200;
    unsigned limit = prefix == 0xfc ? 0x100 : DZ_WASM_OP_LIMIT - 0x200;
    if (v->l->code)
        return DZ_WASM_OP_LIMIT;
    if (prefix < 0xfc || prefix > 0xfd || number >= limit ||
        !dz_wasm_op_table[first + number].text) {
        unknown_op(v, prefix, number);
        return DZ_WASM_OP_LIMIT;
    }
    return first + number;
}

static void any_instruction(struct wasm_valid *v, unsigned op)
{
    const struct dz_wasm_op_info *info;
    if (op >= 0xfb && (op = read_prefixed(v, op)) == DZ_WASM_OP_LIMIT)
        return;
    info = &dz_wasm_op_table[op];
    if (dz_unlikely(!info->text)) {
        unknown_op(v, 0, op);
        return;
    }
    if (dz_unlikely(!wasm_need(v->l, v->at, info->feature)))
        return;
    if (info->sig == DZ_WASM_SIG_special) {
        if (info->imm <= DZ_WASM_IMM_LABELS)
            valid_control(v, op);
        else
            valid_special(v, op);
        return;
    }
    if (info->imm != DZ_WASM_IMM_NONE)
        valid_imm(v, info);
    for (unsigned i = info->pops; i-- > 0;)
        (void)wasm_pop(v, info->type[i]);
    if (info->type[3])
        wasm_push(v, info->type[3]);
}

/* Invariants 1 and 2. */
static void assert_stack(const struct wasm_valid *v)
{
    assert(v->n >= v->floor && v->wide <= v->n && v->max_slots >= v->n + v->wide);
    assert(v->ctrls.n == 0 || v->floor == v->ctrls.p[v->ctrls.n - 1].height);
}

/* The most frequent instructions here, the others by the table. */
static void run(struct wasm_valid *v)
{
    struct wasm_load *l = v->l;
    uint8_t type;
    while (v->ctrls.n > 0 && !l->code) {
        v->at = l->p;
        unsigned op = wasm_read_byte(l);
        switch (op) {
        case DZ_WASM_OP_local_get:
            wasm_push(v, valid_local(v, wasm_read_u32(l)));
            break;
        case DZ_WASM_OP_local_set:
            (void)wasm_pop(v, valid_local(v, wasm_read_u32(l)));
            break;
        case DZ_WASM_OP_local_tee:
            type = valid_local(v, wasm_read_u32(l));
            (void)wasm_pop(v, type);
            wasm_push(v, type);
            break;
        case DZ_WASM_OP_i32_const:
            (void)dz_wasm_read_signed(l, 32);
            wasm_push(v, DZ_WASM_I32);
            break;
        default:
            any_instruction(v, op);
            break;
        }
        if (!l->code)
            assert_stack(v);
    }
}

static struct wasm_valid *valid_of(struct wasm_load *l)
{
    if (!l->valid) {
        struct wasm_valid *v = dz_zalloc(sizeof *v);
        if (!v)
            return NULL;
        v->l = l;
        v->ctrls.max = l->limits->nesting;
        v->groups.max = UINT32_MAX;
        l->valid = v;
    }
    return l->valid;
}

void dz_wasm_valid_free(struct wasm_valid *v)
{
    if (!v)
        return;
    dz_vec_release(&v->ctrls);
    dz_vec_release(&v->groups);
    dz_free(v->stack);
    dz_free(v);
}

void dz_wasm_valid_body(struct wasm_load *l, uint32_t func)
{
    struct wasm_valid *v = valid_of(l);
    struct dz_wasm_func *f = &l->funcs.p[func];
    const uint8_t *body = l->p;
    if (!v) {
        dz_wasm_load_fail(l, body, DZ_ENOMEM, "out of memory");
        return;
    }
    v->at = body;
    f->body = (uint32_t)(body - l->base);
    f->body_size = (uint32_t)(l->end - body);
    f->sum = wasm_sum32(body, f->body_size);
    read_locals(v, f);
    f->code = (uint32_t)(l->p - l->base);
    v->n = v->floor = v->wide = v->max_slots = 0;
    dz_vec_reset(&v->ctrls);
    v->results = wasm_results_of(l, f->type);
    valid_enter(v, DZ_WASM_OP_block, (struct wasm_types){NULL, 0}, v->results);
    run(v);
    if (!l->code && l->p != l->end)
        dz_wasm_load_fail(l, l->p, DZ_EINVAL, "code behind the last end of the body");
    f->stack_slots = v->max_slots;
}
