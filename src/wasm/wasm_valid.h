/* SPDX-License-Identifier: MIT
 *
 * wasm_valid.h - the validator's two stacks, shared by wasm_valid*.c.
 *
 * The algorithm is that of the specification's appendix: a stack of operand
 * types and a stack of control frames. In code that cannot be reached the
 * operand stack below the frame's height gives whatever is asked for;
 * WASM_UNKNOWN is the type of such a value.
 *
 * Invariants: floor is the height of the innermost frame; stack[0..n) holds
 * value types or WASM_UNKNOWN, n >= floor; wide is how many of them are v128;
 * max_slots >= n + wide at any time (assert_stack, after each instruction).
 */
#ifndef DZ_WASM_VALID_H
#define DZ_WASM_VALID_H

#include "wasm/wasm_load.h"

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

/* --- operands ------------------------------------------------------------------ */

bool dz_wasm_valid_grow(struct wasm_valid *v);
uint8_t dz_wasm_valid_pop_slow(struct wasm_valid *v, unsigned type);

static inline void wasm_push(struct wasm_valid *v, unsigned type)
{
    if (dz_unlikely(v->n == v->cap) && !dz_wasm_valid_grow(v))
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
        return dz_wasm_valid_pop_slow(v, type);
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

/* --- instructions ---------------------------------------------------------------- */

static inline struct wasm_types wasm_label_types(const struct wasm_ctrl *c)
{
    return c->op == DZ_WASM_OP_loop ? c->params : c->results;
}

#endif
