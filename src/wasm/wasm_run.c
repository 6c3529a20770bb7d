/* SPDX-License-Identifier: MIT
 *
 * wasm_run.c - running: the first frame, the driver around the loop, stops,
 * traps and traces.
 *
 * The flag. An interrupt raises ctx->flag, which branches backwards look at,
 * and takes the stack limit away, which every function entry looks at anyway.
 * Who stops the program at a safepoint lowers both.
 */
#include "wasm/wasm_code.h"
#include "wasm/wasm_rt.h"
#include "wasm/wasm_state.h"

#include <string.h>

/* --- the flag ------------------------------------------------------------------------ */

void dz_wasm_interrupt(struct dz_wasm_store *s)
{
    atomic_store(&s->ctx.flag, 1);
    atomic_store(&s->ctx.limit, NULL);
}
static void lower_flag(struct dz_wasm_store *s)
{
    atomic_store(&s->ctx.flag, 0);
    atomic_store(&s->ctx.limit, s->limit);
    if (atomic_load(&s->ctx.flag)) /* raised again just now: the limit must go, too */
        atomic_store(&s->ctx.limit, NULL);
}

void dz_wasm_fuel_set(struct dz_wasm_store *s, uint64_t fuel)
{
    s->ctx.fuel = fuel > INT64_MAX ? INT64_MAX : (int64_t)fuel;
}
uint64_t dz_wasm_fuel(const struct dz_wasm_store *s)
{
    return (uint64_t)s->ctx.fuel;
}

/* --- begin ----------------------------------------------------------------------------- */

void dz_wasm_abandon(struct dz_wasm_store *s)
{
    s->running = false;
    s->held = false;
    s->injected = 0;
    s->ctx.throwing = 0;
    s->ctx.grace = false;
    s->ctx.after = false;
    s->ctx.pc = NULL;
    s->ctx.fp = s->slots;
    dz_wasm_marks_release(&s->marks);
}

int dz_wasm_begin(struct dz_wasm_inst *inst, uint32_t func, const uint64_t *args, size_t arg_count,
                  struct dz_err *err)
{
    struct dz_wasm_store *s = inst->store;
    uint32_t params;
    uint32_t results;
    if (s->running)
        return dz_fail(err, DZ_ESTATE, "cannot call function %u: another call is under way", func);
    if (dz_wasm_func_slots(inst, func, &params, &results) < 0)
        return dz_fail(err, DZ_EINVAL, "no function %u in this module", func);
    if (arg_count != params)
        return dz_fail(err, DZ_EINVAL, "function %u takes %u argument slots, not %zu", func, params,
                       arg_count);
    uint32_t rec = params > results ? params : results;
    if (s->slots + rec + 2 > s->limit)
        return dz_fail(err, DZ_ELIMIT, "no room on the stack for the arguments of function %u",
                       func);
    dz_wasm_abandon(s);
    enum dz_wasm_trap_kind kind = dz_wasm_code_translate(inst->code, func);
    if (kind != DZ_WASM_TRAP_NONE)
        return dz_fail(err, DZ_ELIMIT, "cannot translate function %u: %s", func,
                       dz_wasm_trap_text(kind));
    dz_wasm_ctx_enter(&s->ctx, inst);
    if (arg_count)
        memcpy(s->slots, args, arg_count * sizeof *args);
    s->slots[rec] = (uint64_t)WASM_CELL_HALT << 32;
    s->ctx.fp = s->slots;
    s->ctx.pc = inst->code->funcs[func].entry;
    s->ctx.trap = DZ_WASM_TRAP_NONE;
    s->running = true;
    return 0;
}

int dz_wasm_begin_start(struct dz_wasm_inst *inst, struct dz_err *err)
{
    if (inst->module->header->start == DZ_WASM_NONE)
        return 0;
    int rc = dz_wasm_begin(inst, inst->module->header->start, NULL, 0, err);
    return rc < 0 ? rc : 1;
}

const uint64_t *dz_wasm_results(const struct dz_wasm_store *s)
{
    return s->slots;
}

/* --- run ---------------------------------------------------------------------------------- */

static bool at_cell(const struct wasm_ctx *ctx, unsigned handler)
{
    const struct dz_wasm_code *c = ctx->inst->code;
    return ctx->pc[0] == (c->by_index ? handler : c->handlers[handler]);
}

/* A program that is stopped again and again must get on: the safepoint where
 * it stands does not stop it a second time. Loop heads and long operations do
 * something before they look at the flag; these do not. */
static bool get_over(struct dz_wasm_store *s)
{
    struct wasm_ctx *ctx = &s->ctx;
    ctx->grace = ctx->throwing != 0 || at_cell(ctx, H_HOST);
    if (ctx->throwing || !at_cell(ctx, H_ENTRY))
        return true;
    if (ctx->fp + wasm_imm(ctx->pc) > s->limit) {
        ctx->trap = DZ_WASM_TRAP_STACK;
        return false;
    }
    memset(ctx->fp + wasm_field(ctx->pc, 0), 0, 4 * sizeof *ctx->fp * wasm_field(ctx->pc, 1));
    ctx->pc += 2;
    return true;
}

static enum wasm_exit loop(struct dz_wasm_store *s)
{
    struct wasm_ctx *ctx = &s->ctx;
    if (s->held && !get_over(s))
        return WASM_EXIT_TRAP;
    s->held = false;
    if (ctx->throwing) { /* stopped between throw and catch */
        int exit = dz_wasm_unwind(ctx);
        if (exit >= 0)
            return (enum wasm_exit)exit;
    }
    return ctx->inst->code->by_index ? dz_wasm_exec_switch(ctx) : dz_wasm_exec_goto(ctx);
}

enum dz_wasm_stop dz_wasm_run(struct dz_wasm_store *s)
{
    if (!s->running)
        return s->stop;
    s->ctx.after = false; /* its value is in the accumulator, too */
    switch (loop(s)) {
    case WASM_EXIT_HALT:
        s->running = false;
        s->stop = DZ_WASM_DONE;
        break;
    case WASM_EXIT_TRAP:
        s->ctx.fp -= s->ctx.shift;
        s->ctx.shift = 0;
        s->running = false;
        s->stop = DZ_WASM_TRAPPED;
        break;
    case WASM_EXIT_FLAG:
        lower_flag(s);
        s->held = true;
        s->stop = DZ_WASM_INTERRUPTED;
        break;
    case WASM_EXIT_FUEL:
        s->stop = DZ_WASM_OUT_OF_FUEL;
        break;
    case WASM_EXIT_BLOCK:
        s->stop = DZ_WASM_BLOCKED;
        break;
    case WASM_EXIT_EXIT:
        s->running = false;
        s->stop = DZ_WASM_EXITED;
        break;
    case WASM_EXIT_UNCAUGHT:
        s->running = false;
        s->stop = DZ_WASM_UNCAUGHT;
        break;
    }
    return s->stop;
}

/* --- where it is ------------------------------------------------------------------------------ */

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

/* A frame on the way outwards: registers of its own. */
struct walk {
    const struct dz_wasm_inst *inst;
    const uint64_t *fp;
    uint32_t word;
    bool after; /* word is a return address */
};

/* To the caller; false at the first frame. */
static bool walk_out(const struct dz_wasm_store *s, struct walk *w, uint32_t func)
{
    uint64_t record = w->fp[w->inst->code->funcs[func].rec];
    for (;;) {
        w->fp -= (uint32_t)record;
        w->word = (uint32_t)(record >> 32);
        w->after = true;
        if (w->word == WASM_CELL_HALT)
            return false;
        if (w->word == WASM_CELL_RESUME) {
            uint64_t held = w->fp[0];
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

static struct dz_wasm_pos walk_pos(const struct walk *w, const struct wasm_range *r)
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
    struct walk w = {ctx->inst, ctx->fp, (uint32_t)(ctx->pc - ctx->arena),
                     ctx->throwing || ctx->after};
    for (size_t n = 0;; n++) {
        const struct wasm_range *r =
            dz_wasm_code_range(w.inst->code, w.after ? w.word - 1 : w.word);
        if (!r)
            return n;
        if (n < max)
            ret_pos[n] = walk_pos(&w, r);
        if (!walk_out(s, &w, r->func))
            return n + 1;
    }
}

/* --- how deep it is -----------------------------------------------------------------------------
 */

static bool is_import(const struct walk *w, const struct wasm_range *r)
{
    return r->func < w->inst->module->header->n_imported[DZ_WASM_KIND_FUNC];
}

/* The frames of functions that are not imported; with `depths` they are written there, the
 * innermost being number `n`. */
static uint32_t count_frames(const struct dz_wasm_store *s, uint32_t n, uint32_t *depths)
{
    const struct wasm_ctx *ctx = &s->ctx;
    struct walk w = {ctx->inst, ctx->fp, (uint32_t)(ctx->pc - ctx->arena),
                     ctx->throwing || ctx->after};
    uint32_t count = 0;
    const struct wasm_range *r;
    do {
        r = dz_wasm_code_range(w.inst->code, w.after ? w.word - 1 : w.word);
        if (!r)
            break;
        if (!is_import(&w, r)) {
            if (depths)
                depths[w.fp - s->slots] = n - count;
            count++;
        }
    } while (walk_out(s, &w, r->func));
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
    struct walk w = {ctx->inst, ctx->fp, (uint32_t)(ctx->pc - ctx->arena), false};
    const struct wasm_range *r = dz_wasm_code_range(w.inst->code, w.word);
    uint32_t depth = 0;
    while (r && walk_out(s, &w, r->func)) {
        r = dz_wasm_code_range(w.inst->code, w.after ? w.word - 1 : w.word);
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
