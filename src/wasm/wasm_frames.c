/* SPDX-License-Identifier: MIT
 *
 * wasm_frames.c - the frames of a program: walking them, where they stand, how deep they are, and
 * keeping them aside.
 *
 * A walk goes from the innermost frame out. Each frame's record (wasm_int.h) says where its
 * caller's frame begins and at which word of the arena the caller continues:
 *
 *     slots   [ main's frame     [ f's frame        [ g's frame
 *              HALT <- record     main <- record     f <- record
 *                                                    ^ fp
 *
 * Pseudo frames are stepped over: the three words below an injected call (RESUME) lead to the
 * frame that it interrupted, the word between two instances (XRET) to the calling instance.
 *
 * Frames are kept aside for vfork, while another program runs in the same instance. Kept are the
 * slots in use, registers, globals (C's stack pointer is one), marks and the count of injected
 * calls. Memory, tables and exceptions are shared. Frames that lie aside refer to exceptions too,
 * so the store lists them, innermost first.
 */
#include "base/mem.h"
#include "wasm/wasm_rt.h"
#include "wasm/wasm_state.h"

#include <assert.h>
#include <string.h>

/* --- the walk --------------------------------------------------------------------------- */

struct wasm_walk dz_wasm_walk(struct dz_wasm_store *s)
{
    const struct wasm_ctx *ctx = &s->ctx;
    return (struct wasm_walk){.inst = ctx->inst,
                              .fp = ctx->fp,
                              .word = (uint32_t)(ctx->pc - ctx->arena),
                              .after = ctx->throwing || ctx->after};
}

const struct wasm_range *dz_wasm_walk_range(const struct wasm_walk *w)
{
    return dz_wasm_code_range(w->inst->code, w->after ? w->word - 1 : w->word);
}

bool dz_wasm_walk_out(const struct dz_wasm_store *s, struct wasm_walk *w, uint32_t func)
{
    uint64_t record = w->fp[w->inst->code->funcs[func].rec];
    w->held = false;
    for (;;) {
        w->fp -= (uint32_t)record;
        w->word = (uint32_t)(record >> 32);
        w->after = true;
        if (w->word == WASM_CELL_HALT)
            return false;
        if (w->word == WASM_CELL_RESUME) {
            uint64_t held = w->fp[0];
            w->held = true;
            w->after = (held & WASM_HELD_AFTER) != 0;
            w->fp -= held & WASM_HELD_DELTA;
            w->word = (uint32_t)(held >> 32);
            return true;
        }
        if (w->word != WASM_CELL_XRET)
            return true;
        uint64_t far = w->fp[0];
        record = w->fp[-1];
        w->inst = s->insts[far >> 40];
        w->fp -= 1 + ((far >> 20) & 0xfffff);
    }
}

uint64_t *dz_wasm_frames_top(struct dz_wasm_store *s)
{
    struct wasm_walk w = dz_wasm_walk(s);
    const struct wasm_range *r = dz_wasm_walk_range(&w);
    if (!r)
        return w.fp + 1;
    if (r->func < w.inst->module->header->n_imported[DZ_WASM_KIND_FUNC])
        return w.fp + w.inst->code->funcs[r->func].rec + 1;
    return w.fp + wasm_imm(w.inst->code->arena + r->start); /* the ENTRY cell has its size */
}

#if DZ_CHECK_DEEP
/* Invariant 3 of wasm_run.c. */
void dz_wasm_assert_frames(struct dz_wasm_store *s)
{
    struct wasm_walk w = dz_wasm_walk(s);
    uint32_t injected = 0;
    for (;;) {
        const uint64_t *fp = w.fp;
        const struct wasm_range *r = dz_wasm_walk_range(&w);
        assert(r && fp >= s->slots && fp + w.inst->code->funcs[r->func].rec < s->limit);
        if (!dz_wasm_walk_out(s, &w, r->func))
            break;
        assert(w.fp < fp);
        injected += w.held;
    }
    assert(w.fp == s->slots && injected == s->injected);
}
#endif

/* --- where it is ------------------------------------------------------------------------- */

static struct dz_wasm_pos position(const struct dz_wasm_inst *inst, uint32_t word)
{
    const struct wasm_range *r = dz_wasm_code_range(inst->code, word);
    struct dz_wasm_pos p = {.inst = inst->no};
    if (r) {
        p.func = r->func;
        p.offset = dz_wasm_code_offset(inst->code, word);
    }
    return p;
}

struct dz_wasm_trap dz_wasm_trap_get(const struct dz_wasm_store *s)
{
    struct dz_wasm_trap t = {.kind = (enum dz_wasm_trap_kind)s->ctx.trap};
    if (s->ctx.pc && s->ctx.inst)
        t.at = position(s->ctx.inst, (uint32_t)(s->ctx.pc - s->ctx.arena));
    return t;
}

static struct dz_wasm_pos walk_pos(const struct wasm_walk *w, const struct wasm_range *r)
{
    struct dz_wasm_pos p = {w->inst->no, r->func, 0};
    if (r->func < w->inst->module->header->n_imported[DZ_WASM_KIND_FUNC])
        return p;
    const struct wasm_points_row *row = dz_wasm_points_of(w->inst->code, r->func);
    const struct wasm_point *point =
        row ? dz_wasm_points_word(row, w->word - r->start, w->after) : NULL;
    p.offset = point ? point->offset : dz_wasm_code_offset(w->inst->code, w->word);
    return p;
}

size_t dz_wasm_trace(struct dz_wasm_store *s, struct dz_wasm_pos *ret_pos, size_t max)
{
    const struct wasm_ctx *ctx = &s->ctx;
    if (!ctx->pc || !ctx->inst)
        return 0;
    struct wasm_walk w = dz_wasm_walk(s);
    for (size_t n = 0;; n++) {
        const struct wasm_range *r = dz_wasm_walk_range(&w);
        if (!r)
            return n;
        if (n < max)
            ret_pos[n] = walk_pos(&w, r);
        if (!dz_wasm_walk_out(s, &w, r->func))
            return n + 1;
    }
}

/* --- how deep it is ------------------------------------------------------------------------ */

static bool is_import(const struct wasm_walk *w, const struct wasm_range *r)
{
    return r->func < w->inst->module->header->n_imported[DZ_WASM_KIND_FUNC];
}

/* The frames of functions that are not imported; with `depths` they are written there, the
 * innermost being number `n`. */
static uint32_t count_frames(struct dz_wasm_store *s, uint32_t n, uint32_t *depths)
{
    struct wasm_walk w = dz_wasm_walk(s);
    uint32_t count = 0;
    const struct wasm_range *r;
    do {
        r = dz_wasm_walk_range(&w);
        if (!r)
            break;
        if (!is_import(&w, r)) {
            if (depths)
                depths[w.fp - s->slots] = n - count;
            count++;
        }
    } while (dz_wasm_walk_out(s, &w, r->func));
    return count;
}

int dz_wasm_depth_count(struct dz_wasm_store *s, struct dz_err *err)
{
    if (!s->depths)
        return 0;
    uint32_t n = count_frames(s, 0, NULL);
    (void)count_frames(s, n, s->depths);
    if (n > s->cfg.call_depth)
        return dz_fail(err, DZ_ELIMIT, "%u calls are under way, the limit is %u", n,
                       s->cfg.call_depth);
    return 0;
}

bool dz_wasm_depth_enter(struct wasm_ctx *ctx)
{
    struct dz_wasm_store *s = wasm_store_of(ctx);
    struct wasm_walk w = dz_wasm_walk(s);
    const struct wasm_range *r = dz_wasm_walk_range(&w);
    uint32_t depth = 0;
    while (r && dz_wasm_walk_out(s, &w, r->func)) {
        r = dz_wasm_walk_range(&w);
        if (r && !is_import(&w, r)) {
            depth = s->depths[w.fp - s->slots];
            break;
        }
    }
    s->depths[ctx->fp - s->slots] = depth + 1;
    if (depth < s->cfg.call_depth)
        return true;
    ctx->trap = DZ_WASM_TRAP_STACK;
    return false;
}

/* --- kept aside ---------------------------------------------------------------------------- */

struct dz_wasm_frames {
    const wasm_word *pc;
    size_t fp, count; /* slots */
    uint64_t acc;
    uint32_t injected;
    bool after, held;
    enum dz_wasm_stop stop;
    struct wasm_marks marks;
    struct dz_wasm_frames *outer; /* that were put aside before */
    size_t words;                 /* in slots */
    uint64_t slots[];             /* of the stack, then the globals */
};

int dz_wasm_frames_save(struct dz_wasm_inst *inst, struct dz_wasm_frames **ret_frames,
                        struct dz_err *err)
{
    struct dz_wasm_store *s = inst->store;
    int rc = dz_wasm_state_check(inst, "keep frames", err);
    if (rc < 0)
        return rc;
    if (!s->running || s->ctx.throwing)
        return dz_fail(err, DZ_EUNSUPPORTED, "cannot keep frames: %s",
                       s->running ? "an exception is on its way" : "nothing runs");
    size_t count = (size_t)(dz_wasm_frames_top(s) - s->slots),
           globals = inst->module->header->global_slots;
    struct dz_wasm_frames *f = dz_alloc(sizeof *f + (count + globals) * sizeof f->slots[0]);
    if (!f)
        return dz_fail(err, DZ_ENOMEM, "no memory to keep %zu slots of frames", count);
    f->marks = (struct wasm_marks){0};
    if (dz_wasm_marks_copy(&f->marks, &s->marks) < 0) {
        dz_free(f);
        return dz_fail(err, DZ_ENOMEM, "no memory to keep %u marks", s->marks.count);
    }
    f->pc = s->ctx.pc;
    f->fp = (size_t)(s->ctx.fp - s->slots);
    f->count = count;
    f->acc = s->ctx.acc;
    f->injected = s->injected;
    f->after = s->ctx.after;
    f->held = s->held;
    f->stop = s->stop;
    memcpy(f->slots, s->slots, count * sizeof f->slots[0]);
    memcpy(f->slots + count, inst->globals, globals * sizeof f->slots[0]);
    f->words = count + globals;
    f->outer = s->aside;
    s->aside = f;
    *ret_frames = f;
    return 0;
}

const struct dz_wasm_frames *dz_wasm_frames_look(const struct dz_wasm_frames *f,
                                                 const uint64_t **ret_words, size_t *ret_count,
                                                 const struct wasm_marks **ret_marks)
{
    *ret_words = f->slots;
    *ret_count = f->words;
    *ret_marks = &f->marks;
    return f->outer;
}

struct dz_wasm_frames *dz_wasm_frames_restore(struct dz_wasm_inst *inst, struct dz_wasm_frames *f)
{
    struct dz_wasm_store *s = inst->store;
    struct dz_wasm_frames *outer = f->outer;
    assert(s->aside == f);
    s->aside = outer;
    dz_wasm_abandon(s);
    memcpy(s->slots, f->slots, f->count * sizeof f->slots[0]);
    memcpy(inst->globals, f->slots + f->count,
           inst->module->header->global_slots * sizeof f->slots[0]);
    dz_wasm_ctx_enter(&s->ctx, inst);
    s->ctx.trap = DZ_WASM_TRAP_NONE;
    s->ctx.pc = f->pc;
    s->ctx.fp = s->slots + f->fp;
    s->ctx.acc = f->acc;
    s->ctx.after = f->after;
    s->held = f->held;
    s->stop = f->stop;
    s->injected = f->injected;
    s->running = true;
    s->marks = f->marks;                /* those of the other program went with it */
    (void)dz_wasm_depth_count(s, NULL); /* they were within the limit */
    dz_free(f);
    return outer;
}
