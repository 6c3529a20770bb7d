/* SPDX-License-Identifier: MIT
 *
 * wasm_mark.c - marking a position and returning to it: setjmp and longjmp.
 *
 * A token is two words that the guest keeps:
 *
 *     word 0   the frame's first slot << 32 | function
 *     word 1   byte offset behind the call << 32 | mark << 16 | generation << 8 | pattern
 *
 * Jumping walks the frames from the innermost one out until it finds that
 * frame: it must be of that function, and the offset must be a return point of a
 * call with one result. So a token that the guest made up gets an error, or a jump
 * that the guest could have done by itself.
 *
 * When the program continues after the call, it consumes the operands below the call and overwrites
 * their slots. A second return needs them again. So if there are any, the store keeps a copy of
 * them, a *mark*, and the token has its number (0: none). Marks are a stack ordered by frame: a
 * mark is dropped when a frame further out sets a mark or is jumped to, because then the mark's own
 * frame has returned. A frame has at most SAME_FRAME_MAX marks; beyond that its oldest is dropped,
 * and a jump by its token fails.
 *
 * Invariants of the marks (assert_marks, where one is made, loaded or found):
 *   1. They are ordered by fp, and each has operands.
 *   2. `slots` is the sum of their operands and within the store's slots.
 */
#include "base/mem.h"
#include "wasm/wasm_rt.h"
#include "wasm/wasm_state.h"

#include <assert.h>
#include <string.h>

enum {
    TOKEN_PATTERN = 0x4d,
    SAME_FRAME_MAX = 256,
    FIRST_CAP = 16,
};

/* --- return points ------------------------------------------------------------------------ */

/* The return point at a word of the arena; NULL: none. */
static const struct wasm_point *point_of_word(struct dz_wasm_inst *inst, const struct wasm_range *r,
                                              uint32_t word)
{
    const struct wasm_points_row *row = dz_wasm_points_of(inst->code, r->func);
    return row ? dz_wasm_points_word(row, word - r->start, true) : NULL;
}

static const struct wasm_point *point_of_offset(struct dz_wasm_inst *inst, uint32_t func,
                                                uint32_t offset)
{
    const struct wasm_points_row *row = dz_wasm_points_of(inst->code, func);
    return row ? dz_wasm_points_offset(row, offset, true) : NULL;
}

/* Where a frame's operands begin. */
static uint32_t operands_at(const struct dz_wasm_module *m, uint32_t func)
{
    const struct dz_wasm_func *f = &m->funcs[func];
    const struct dz_wasm_type *y = &m->types[f->type];
    uint32_t rec = wasm_rec(y->param_slots, y->result_slots);
    return rec + 1 + f->local_slots - y->param_slots;
}

/* How many operands lie below a call whose callee's frame begins at height. */
static uint32_t operands_below(const struct dz_wasm_module *m, uint32_t func, uint32_t height)
{
    uint32_t at = operands_at(m, func);
    return height > at ? height - at : 0;
}

/* --- the marks ------------------------------------------------------------------------------ */

static void assert_marks(const struct wasm_marks *k)
{
    uint64_t slots = 0;
    assert(k->count <= k->cap && k->count <= WASM_MARKS_MAX && k->slots >= k->count);
    for (uint32_t i = 0; DZ_CHECK_DEEP && i < k->count; i++) {
        assert(k->p[i].count > 0 && (i == 0 || k->p[i].fp >= k->p[i - 1].fp)); /* 1 */
        slots += k->p[i].count;
    }
    assert(!DZ_CHECK_DEEP || slots == k->slots); /* 2 */
}

static void pop_mark(struct wasm_marks *k)
{
    struct wasm_mark *e = &k->p[--k->count];
    k->slots -= e->count;
    dz_free(e->slots);
}

/* Drop the marks of frames above fp: those frames have returned. */
static void pop_behind(struct wasm_marks *k, uint32_t fp)
{
    while (k->count && k->p[k->count - 1].fp > fp)
        pop_mark(k);
}

void dz_wasm_marks_release(struct wasm_marks *k)
{
    while (k->count)
        pop_mark(k);
    dz_free(k->p);
    *k = (struct wasm_marks){0};
}

static struct wasm_mark *push_mark(struct wasm_marks *k)
{
    if (k->count == WASM_MARKS_MAX)
        return NULL;
    if (k->count == k->cap) {
        uint32_t n = k->cap ? k->cap * 2 : FIRST_CAP;
        struct wasm_mark *p = dz_realloc(k->p, n * sizeof *p);
        if (!p)
            return NULL;
        k->p = p;
        k->cap = n;
    }
    k->p[k->count] = (struct wasm_mark){0};
    return &k->p[k->count++];
}

/* Put `like` with a copy of its slots on top. */
static struct wasm_mark *add_mark(struct wasm_marks *k, const struct wasm_mark *like)
{
    uint64_t *copy = dz_alloc(like->count * sizeof *copy);
    struct wasm_mark *e = copy ? push_mark(k) : NULL;
    if (!e) {
        dz_free(copy);
        return NULL;
    }
    memcpy(copy, like->slots, like->count * sizeof *copy);
    *e = *like;
    e->slots = copy;
    k->slots += e->count;
    return e;
}

/* The mark that equals `like`: an existing one, or a new one. NULL: a limit, or no memory. */
static struct wasm_mark *mark_for(struct dz_wasm_store *s, const struct wasm_mark *like)
{
    struct wasm_marks *k = &s->marks;
    uint32_t first = k->count, same = 0;
    pop_behind(k, like->fp);
    for (uint32_t i = k->count; i-- > 0 && k->p[i].fp == like->fp;) {
        struct wasm_mark *e = &k->p[i];
        first = i;
        same++;
        if (e->func == like->func && e->offset == like->offset && e->count == like->count &&
            memcmp(e->slots, like->slots, e->count * sizeof *e->slots) == 0)
            return e;
    }
    if (same < SAME_FRAME_MAX)
        return k->slots + like->count > s->cfg.stack_slots ? NULL : add_mark(k, like);
    struct wasm_mark *oldest = &k->p[first + k->turn++ % same];
    uint64_t *copy = dz_realloc(oldest->slots, like->count * sizeof *copy);
    if (!copy)
        return NULL;
    memcpy(copy, like->slots, like->count * sizeof *copy);
    k->slots += like->count;
    k->slots -= oldest->count;
    uint8_t generation = (uint8_t)(oldest->generation + 1);
    *oldest = *like;
    oldest->slots = copy;
    oldest->generation = generation;
    return oldest;
}

int dz_wasm_marks_copy(struct wasm_marks *to, const struct wasm_marks *from)
{
    struct wasm_marks k = {.turn = from->turn};
    for (uint32_t i = 0; i < from->count; i++) {
        if (!add_mark(&k, &from->p[i])) {
            dz_wasm_marks_release(&k);
            return DZ_ENOMEM;
        }
    }
    dz_wasm_marks_release(to);
    *to = k;
    return 0;
}

/* --- saved -------------------------------------------------------------------------------- */

int dz_wasm_marks_save(const struct wasm_marks *k, const struct dz_wasm_sink *to,
                       struct dz_err *err)
{
    for (uint32_t i = 0; i < k->count; i++) {
        const struct wasm_mark *e = &k->p[i];
        struct wasm_state_mark row = {e->func, e->offset, e->fp, e->count, e->generation, 0};
        int rc = to->write(to->ctx, &row, sizeof row, err);
        if (rc == 0)
            rc = to->write(to->ctx, e->slots, e->count * sizeof *e->slots, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Does a row name a call and as many operands as lie below it? */
static bool row_good(struct dz_wasm_inst *inst, const struct wasm_state_mark *row, uint32_t last_fp)
{
    const struct dz_wasm_module *m = inst->module;
    const struct wasm_point *p;
    return row->func >= m->header->n_imported[DZ_WASM_KIND_FUNC] && row->func < m->n_funcs &&
           row->generation <= UINT8_MAX && row->fp >= last_fp && row->count > 0 &&
           dz_wasm_code_translate(inst->code, row->func) == DZ_WASM_TRAP_NONE &&
           (p = point_of_offset(inst, row->func, row->offset)) != NULL &&
           row->count == operands_below(m, row->func, p->height);
}

int dz_wasm_marks_load(struct dz_wasm_inst *inst, uint32_t count, const struct dz_wasm_source *from,
                       struct dz_err *err)
{
    struct dz_wasm_store *s = inst->store;
    struct wasm_marks *k = &s->marks;
    uint32_t last_fp = 0;
    dz_wasm_marks_release(k);
    if (count > WASM_MARKS_MAX)
        return dz_fail(err, DZ_ELIMIT, "the state has %u marks, the limit is %d", count,
                       WASM_MARKS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct wasm_state_mark row;
        int rc = from->read(from->ctx, &row, sizeof row, err);
        if (rc < 0)
            return rc;
        if (!row_good(inst, &row, last_fp) || k->slots + row.count > s->cfg.stack_slots)
            return dz_fail(err, DZ_ECORRUPT, "mark %u names no call of the module", i);
        last_fp = row.fp;
        uint64_t *slots = dz_alloc(row.count * sizeof *slots);
        struct wasm_mark *e = slots ? push_mark(k) : NULL;
        if (!e) {
            dz_free(slots);
            return dz_fail(err, DZ_ENOMEM, "no memory for mark %u", i);
        }
        *e = (struct wasm_mark){row.func, row.offset, row.fp, row.count, (uint8_t)row.generation,
                                slots};
        k->slots += row.count;
        rc = from->read(from->ctx, slots, row.count * sizeof *slots, err);
        if (rc < 0)
            return rc;
    }
    assert_marks(k);
    return 0;
}

/* --- mark and jump ------------------------------------------------------------------------ */

int dz_wasm_mark(struct dz_wasm_inst *inst, uint64_t ret_token[2], struct dz_err *err)
{
    struct dz_wasm_store *s = inst->store;
    struct wasm_ctx *ctx = &s->ctx;
    if (!s->in_host || s->inst_count != 1)
        return dz_fail(err, DZ_ESTATE, "a mark can only be set inside a host call of a process");
    uint64_t record = ctx->fp[wasm_field(ctx->pc, 0)];
    uint32_t word = (uint32_t)(record >> 32);
    const struct wasm_range *r = dz_wasm_code_range(inst->code, word ? word - 1 : 0);
    const struct wasm_point *p = r && r->func >= inst->module->header->n_imported[DZ_WASM_KIND_FUNC]
                                     ? point_of_word(inst, r, word)
                                     : NULL;
    if (!p)
        return dz_fail(err, DZ_EINVAL, "the host call to be marked has no caller");
    uint64_t *fp = ctx->fp - (uint32_t)record;
    struct wasm_mark like = {.func = r->func,
                             .offset = p->offset,
                             .fp = (uint32_t)(fp - s->slots),
                             .count = operands_below(inst->module, r->func, p->height),
                             .slots = fp + operands_at(inst->module, r->func)};
    uint64_t name = 0;
    if (like.count) {
        const struct wasm_mark *e = mark_for(s, &like);
        assert_marks(&s->marks);
        if (!e)
            return dz_fail(err, DZ_ELIMIT, "too many marks with operands (%u), or no memory",
                           s->marks.count);
        name = (uint64_t)(e - s->marks.p + 1) << 16 | (uint64_t)e->generation << 8;
    }
    ret_token[0] = (uint64_t)like.fp << 32 | like.func;
    ret_token[1] = (uint64_t)like.offset << 32 | name | TOKEN_PATTERN;
    return 0;
}

/* Operands below the call at p, as they were at the mark that the token names. */
static int put_operands(struct dz_wasm_inst *inst, const uint64_t token[2],
                        const struct wasm_point *p, uint64_t *fp, struct dz_err *err)
{
    struct wasm_marks *k = &inst->store->marks;
    uint32_t func = (uint32_t)token[0], count = operands_below(inst->module, func, p->height);
    uint32_t index = (uint32_t)(token[1] >> 16) & 0xffff;
    if (count == 0)
        return 0;
    const struct wasm_mark *e = index && index <= k->count ? &k->p[index - 1] : NULL;
    if (!e || e->fp != (uint32_t)(fp - inst->store->slots) || e->func != func ||
        e->offset != p->offset || e->count != count || e->generation != (uint8_t)(token[1] >> 8))
        return dz_fail(err, DZ_EINVAL,
                       "jump to a mark that was given up: a call keeps the operands of %d marks",
                       SAME_FRAME_MAX);
    memcpy(fp + operands_at(inst->module, func), e->slots, count * sizeof *fp);
    return 0;
}

int dz_wasm_jump(struct dz_wasm_inst *inst, const uint64_t token[2], uint64_t value,
                 struct dz_err *err)
{
    struct dz_wasm_store *s = inst->store;
    struct wasm_ctx *ctx = &s->ctx;
    if (!s->running || s->inst_count != 1)
        return dz_fail(err, DZ_ESTATE, "nothing runs that could jump");
    uint32_t func = (uint32_t)token[0];
    const uint64_t *want = s->slots + (token[0] >> 32);
    const struct wasm_point *p;
    if ((token[1] & 0xff) != TOKEN_PATTERN || token[0] >> 32 > s->cfg.stack_slots ||
        func < inst->module->header->n_imported[DZ_WASM_KIND_FUNC] ||
        func >= inst->module->n_funcs ||
        !(p = point_of_offset(inst, func, (uint32_t)(token[1] >> 32))) || p->type == WASM_NOWHERE ||
        inst->module->types[p->type].result_slots != 1)
        return dz_fail(err, DZ_EINVAL, "jump to something that never was a mark");
    struct wasm_walk w = dz_wasm_walk(s);
    uint32_t injected = 0;
    const struct wasm_range *r = dz_wasm_walk_range(&w);
    while (r && w.fp != want) {
        r = dz_wasm_walk_out(s, &w, r->func) ? dz_wasm_walk_range(&w) : NULL;
        injected += w.held;
    }
    if (!r || r->func != func)
        return dz_fail(err, DZ_EINVAL, "jump to a frame that is gone");
    uint64_t *fp = w.fp;
    int rc = put_operands(inst, token, p, fp, err);
    if (rc < 0)
        return rc;
    pop_behind(&s->marks, (uint32_t)(fp - s->slots));
    assert_marks(&s->marks);
    s->injected -= injected;
    ctx->throwing = 0;
    ctx->fp = fp;
    ctx->pc = ctx->arena + r->start + p->word;
    fp[p->height] = ctx->acc = value;
    ctx->after = true;
    s->held = false;
    return 0;
}
