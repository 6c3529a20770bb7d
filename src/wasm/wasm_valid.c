/* SPDX-License-Identifier: MIT
 *
 * wasm_valid.c - validates a function body: locals, stacks and the loop over
 * its instructions.
 *
 * An instruction of fixed signature is checked from its row of the table; the
 * few whose types depend on what surrounds them are in wasm_valid_ctrl.c and
 * wasm_valid_op.c. One struct wasm_valid serves all bodies of a module, so
 * that its stacks are allocated once.
 */
#include "wasm/wasm_valid.h"

#include <inttypes.h>

/* --- the operand stack ------------------------------------------------------------ */

bool dz_wasm_valid_grow(struct wasm_valid *v)
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

uint8_t dz_wasm_valid_pop_slow(struct wasm_valid *v, unsigned type)
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

void dz_wasm_valid_push_types(struct wasm_valid *v, struct wasm_types t)
{
    for (uint32_t i = 0; i < t.n && !v->l->code; i++)
        wasm_push(v, t.p[i]);
}

void dz_wasm_valid_pop_types(struct wasm_valid *v, struct wasm_types t)
{
    for (uint32_t i = t.n; i-- > 0 && !v->l->code;)
        (void)wasm_pop(v, t.p[i]);
}

void dz_wasm_valid_unreachable(struct wasm_valid *v)
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

uint8_t dz_wasm_valid_local(struct wasm_valid *v, uint32_t index)
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
            dz_wasm_valid_control(v, op);
        else
            dz_wasm_valid_special(v, op);
        return;
    }
    if (info->imm != DZ_WASM_IMM_NONE)
        dz_wasm_valid_imm(v, info);
    for (unsigned i = info->pops; i-- > 0;)
        (void)wasm_pop(v, info->type[i]);
    if (info->type[3])
        wasm_push(v, info->type[3]);
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
            wasm_push(v, dz_wasm_valid_local(v, wasm_read_u32(l)));
            break;
        case DZ_WASM_OP_local_set:
            (void)wasm_pop(v, dz_wasm_valid_local(v, wasm_read_u32(l)));
            break;
        case DZ_WASM_OP_local_tee:
            type = dz_wasm_valid_local(v, wasm_read_u32(l));
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
    dz_wasm_valid_enter(v, DZ_WASM_OP_block, (struct wasm_types){NULL, 0}, v->results);
    run(v);
    if (!l->code && l->p != l->end)
        dz_wasm_load_fail(l, l->p, DZ_EINVAL, "code behind the last end of the body");
    f->stack_slots = v->max_slots;
}
