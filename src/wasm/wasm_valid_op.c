/* SPDX-License-Identifier: MIT
 *
 * wasm_valid_op.c - validates immediates, and the instructions whose types
 * depend on them: variables, tables, references, calls, throw.
 */
#include "wasm/wasm_valid.h"

#include <inttypes.h>

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
void dz_wasm_valid_imm(struct wasm_valid *v, const struct dz_wasm_op_info *info)
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
    dz_wasm_valid_pop_types(v, wasm_params_of(l, type));
    if (tail)
        dz_wasm_valid_unreachable(v);
    else
        dz_wasm_valid_push_types(v, results);
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
    dz_wasm_valid_pop_types(v, wasm_params_of(l, l->tags.p[tag].type));
    dz_wasm_valid_unreachable(v);
}

static void op_ref_is_null(struct wasm_valid *v)
{
    uint8_t type = wasm_pop(v, WASM_UNKNOWN);
    if (!v->l->code && type != WASM_UNKNOWN && !dz_wasm_valtype_is_ref(type))
        dz_wasm_load_fail(v->l, v->at, DZ_EINVAL, "type mismatch: expected a reference, found %s",
                          dz_wasm_valtype_text(type));
    wasm_push(v, DZ_WASM_I32);
}

void dz_wasm_valid_special(struct wasm_valid *v, unsigned op)
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
