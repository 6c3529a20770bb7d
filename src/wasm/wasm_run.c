/* SPDX-License-Identifier: MIT
 *
 * wasm_run.c - running: the first frame and the driver around the loop.
 *
 * The flag. An interrupt raises ctx->flag, which branches backwards look at, and takes the stack
 * limit away, which every function entry looks at anyway. The driver lowers both once the program
 * has stopped at a safepoint.
 *
 * Invariants (assert_registers, before and after each run):
 *   1. While a program runs, pc is a word that was translated for the current instance, fp a slot
 *      of the stack, and the registers' view of memory 0 is the memory's.
 *   2. The stack limit is the store's or, while the flag is up, gone; a program that is held runs.
 *   3. A record leads from each frame to its caller's, which lies below it, and at last to the
 * first slot (dz_wasm_assert_frames, in builds with DZ_CHECK_DEEP).
 */
#include "wasm/wasm_code.h"
#include "wasm/wasm_rt.h"
#include "wasm/wasm_state.h"

#include <assert.h>
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
    if (atomic_load(&s->ctx.flag)) /* raised again meanwhile: remove the limit, too */
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
    uint32_t rec = wasm_rec(params, results);
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

/* A program that is interrupted repeatedly must still make progress: the safepoint where it stopped
 * must not stop it again. Loop heads and long operations make progress before they check the flag;
 * the safepoints handled here do not. */
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

static void assert_registers(struct dz_wasm_store *s)
{
    const struct wasm_ctx *ctx = &s->ctx;
    const uint64_t *limit = atomic_load(&ctx->limit);
    assert((limit == s->limit || !limit) && (!s->held || s->running)); /* 2 */
    if (!s->running)
        return;
    const struct dz_wasm_code *c = ctx->inst->code;
    const wasm_word *cell = ctx->pc - (ctx->throwing || ctx->after); /* or a word of it */
    assert(ctx->arena == c->arena && cell >= c->arena && cell < c->arena + c->used); /* 1 */
    assert(ctx->fp >= s->slots && ctx->fp < s->limit && ctx->shift == 0);
    assert(ctx->msize == (ctx->inst->module->n_memories ? ctx->inst->mems[0]->size : 0));
    dz_wasm_assert_frames(s); /* 3 */
}

enum dz_wasm_stop dz_wasm_run(struct dz_wasm_store *s)
{
    if (!s->running)
        return s->stop;
    assert_registers(s);
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
    assert_registers(s);
    return s->stop;
}
