/* SPDX-License-Identifier: MIT
 *
 * wasm_valid_ctrl.c - validates blocks, branches and what makes code
 * unreachable.
 */
#include "wasm/wasm_valid.h"

#include <inttypes.h>

struct wasm_ctrl *dz_wasm_valid_label(struct wasm_valid *v, uint32_t label)
{
    if (v->l->code || !dz_wasm_index_ok(v->l, v->at, label, v->ctrls.n, "label"))
        return NULL;
    return &v->ctrls.p[v->ctrls.n - 1 - label];
}

/* --- blocks ------------------------------------------------------------------------- */

void dz_wasm_valid_enter(struct wasm_valid *v, unsigned op, struct wasm_types params,
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
    dz_wasm_valid_push_types(v, params);
}

/* Pop what the frame must leave; then nothing may be left. */
static void check_end(struct wasm_valid *v, const struct wasm_ctrl *c)
{
    dz_wasm_valid_pop_types(v, c->results);
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
        dz_wasm_valid_push_types(v, c.results);
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
    dz_wasm_valid_enter(v, DZ_WASM_OP_else, c.params, c.results);
}

/* One byte of its own for each value type, so that a block type can point to it. */
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
    const struct wasm_ctrl *c = dz_wasm_valid_label(v, wasm_read_u32(l));
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
    dz_wasm_valid_pop_types(v, params);
    dz_wasm_valid_enter(v, op, params, results);
}

/* --- branches ------------------------------------------------------------------------- */

static void op_br(struct wasm_valid *v, unsigned op)
{
    const struct wasm_ctrl *c = dz_wasm_valid_label(v, wasm_read_u32(v->l));
    if (!c)
        return;
    struct wasm_types t = wasm_label_types(c);
    if (op == DZ_WASM_OP_br_if)
        (void)wasm_pop(v, DZ_WASM_I32);
    dz_wasm_valid_pop_types(v, t);
    if (op == DZ_WASM_OP_br_if)
        dz_wasm_valid_push_types(v, t);
    else
        dz_wasm_valid_unreachable(v);
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
        const struct wasm_ctrl *c = dz_wasm_valid_label(v, wasm_read_u32(l));
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
    dz_wasm_valid_unreachable(v);
}

void dz_wasm_valid_control(struct wasm_valid *v, unsigned op)
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
        dz_wasm_valid_pop_types(v, v->results);
        dz_wasm_valid_unreachable(v);
        break;
    case DZ_WASM_OP_throw_ref:
        (void)wasm_pop(v, DZ_WASM_EXNREF);
        dz_wasm_valid_unreachable(v);
        break;
    case DZ_WASM_OP_unreachable:
        dz_wasm_valid_unreachable(v);
        break;
    default:
        dz_wasm_valid_special(v, op);
        break;
    }
}
