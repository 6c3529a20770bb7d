/* SPDX-License-Identifier: MIT
 *
 * wasm_call.c - calls that are not just a jump: the first call of a function,
 * tail calls, host functions, and calls into another instance.
 *
 * A call into another instance makes two frames. The caller sees the first,
 * the callee the second; between them lies one word that says how to get back:
 *
 *     nf -> [ args / results ][ record to the caller ][ word ][ args ... callee's frame
 *
 *     word = number of the calling instance << 40 | rec << 20 | result slots
 *
 * The callee's record points to the XRET cell with a distance of one slot.
 */
#include "wasm/wasm_code.h"
#include "wasm/wasm_rt.h"

#include <string.h>

static bool fail(struct wasm_ctx *ctx, enum dz_wasm_trap_kind kind)
{
    ctx->trap = kind;
    return false;
}

static bool translated(struct wasm_ctx *ctx, struct dz_wasm_inst *inst, uint32_t func)
{
    enum dz_wasm_trap_kind kind = dz_wasm_code_translate(inst->code, func);
    return kind == DZ_WASM_TRAP_NONE || fail(ctx, kind);
}

bool dz_wasm_call_resolve(struct wasm_ctx *ctx)
{
    struct dz_wasm_code *c = ctx->inst->code;
    uint32_t func = wasm_imm(ctx->pc);
    if (!translated(ctx, ctx->inst, func))
        return false;
    bool import = func < c->module->header->n_imported[DZ_WASM_KIND_FUNC];
    unsigned handler = import ? H_CALL_HOST : H_CALL;
    wasm_word *cell = c->arena + (ctx->pc - c->arena);
    cell[0] = c->by_index ? handler : c->handlers[handler];
    cell[2] = (wasm_word)(uintptr_t)c->funcs[func].entry;
    return true;
}

/* nf holds the arguments and, at nf[rec], the record to the caller. */
static bool enter_far(struct wasm_ctx *ctx, uint64_t *nf, struct dz_wasm_inst *inst, uint32_t func)
{
    if (!translated(ctx, inst, func))
        return false;
    const struct dz_wasm_type *y = &inst->module->types[inst->module->funcs[func].type];
    const struct wasm_func *f = &inst->code->funcs[func];
    uint64_t *word = nf + f->rec + 1;
    if (word + 1 + f->rec + 2 > wasm_store_of(ctx)->limit)
        return fail(ctx, DZ_WASM_TRAP_STACK);
    word[0] = (uint64_t)ctx->inst_no << 40 | (uint64_t)f->rec << 20 | y->result_slots;
    memcpy(word + 1, nf, y->param_slots * sizeof *nf);
    word[1 + f->rec] = (uint64_t)WASM_CELL_XRET << 32 | 1;
    dz_wasm_ctx_enter(ctx, inst);
    ctx->pc = f->entry;
    ctx->fp = word + 1;
    return true;
}

void dz_wasm_call_return(struct wasm_ctx *ctx)
{
    uint64_t *word = ctx->fp;
    uint32_t rec = (uint32_t)(word[0] >> 20) & 0xfffff;
    uint32_t results = (uint32_t)word[0] & 0xfffff;
    uint64_t *nf = word - 1 - rec;
    uint64_t record = word[-1];
    dz_wasm_ctx_enter(ctx, wasm_store_of(ctx)->insts[word[0] >> 40]);
    memmove(nf, word + 1, results * sizeof *nf);
    ctx->acc = nf[0];
    ctx->fp = nf - (uint32_t)record;
    ctx->pc = ctx->arena + (record >> 32);
}

/* The instance that a reference leads to; NULL and a trap when it is null or of another type. */
static struct dz_wasm_inst *callee_of(struct wasm_ctx *ctx, uint64_t ref, uint32_t type)
{
    if (ref == 0) {
        ctx->trap = DZ_WASM_TRAP_NULL_ELEMENT;
        return NULL;
    }
    struct dz_wasm_inst *inst = wasm_store_of(ctx)->insts[(ref - 1) >> 32];
    uint32_t func = (uint32_t)(ref - 1);
    if (!dz_wasm_type_eq(ctx->inst->module, type, inst->module, inst->module->funcs[func].type)) {
        ctx->trap = DZ_WASM_TRAP_BAD_SIGNATURE;
        return NULL;
    }
    return inst;
}

bool dz_wasm_call_far(struct wasm_ctx *ctx, uint64_t ref)
{
    const wasm_word *pc = ctx->pc;
    struct dz_wasm_inst *inst = callee_of(ctx, ref, (uint32_t)pc[2]);
    if (!inst)
        return false;
    if (inst == ctx->inst) /* not translated until now: run the same cell again */
        return translated(ctx, inst, (uint32_t)(ref - 1));
    uint64_t *nf = ctx->fp + wasm_field(pc, 0);
    nf[wasm_field(pc, 1)] = (uint64_t)(pc + 3 - ctx->arena) << 32 | wasm_field(pc, 0);
    return enter_far(ctx, nf, inst, (uint32_t)(ref - 1));
}

/* Arguments over this frame, its record behind them. */
static void replace_frame(struct wasm_ctx *ctx)
{
    const wasm_word *pc = ctx->pc;
    uint64_t *fp = ctx->fp;
    uint64_t record = fp[(uint32_t)pc[3]];
    memmove(fp, fp + wasm_field(pc, 0), (pc[3] >> 32) * sizeof *fp);
    fp[wasm_field(pc, 1)] = record;
}

bool dz_wasm_tail_call(struct wasm_ctx *ctx)
{
    uint32_t func = wasm_imm(ctx->pc);
    if (!translated(ctx, ctx->inst, func))
        return false;
    replace_frame(ctx);
    ctx->pc = ctx->funcs[func].entry;
    return true;
}

bool dz_wasm_tail_call_indirect(struct wasm_ctx *ctx)
{
    const wasm_word *pc = ctx->pc;
    const struct wasm_table *t = ctx->tables[pc[2] >> 32];
    uint32_t i = (uint32_t)ctx->fp[wasm_field(pc, 2)];
    if (i >= t->size)
        return fail(ctx, DZ_WASM_TRAP_UNDEFINED_ELEMENT);
    struct dz_wasm_inst *inst = callee_of(ctx, t->elem[i], (uint32_t)pc[2]);
    uint32_t func = (uint32_t)(t->elem[i] - 1);
    if (!inst || !translated(ctx, inst, func))
        return false;
    replace_frame(ctx);
    if (inst != ctx->inst)
        return enter_far(ctx, ctx->fp, inst, func);
    ctx->pc = inst->code->funcs[func].entry;
    return true;
}

bool dz_wasm_call_wide(struct wasm_ctx *ctx)
{
    const wasm_word *pc = ctx->pc;
    uint32_t flags = wasm_field(pc, 0), func = wasm_imm(pc), base = (uint32_t)pc[2];
    struct dz_wasm_inst *inst = ctx->inst;
    uint64_t *nf = ctx->fp;
    if (flags & WASM_WIDE_INDIRECT) {
        const struct wasm_table *t = ctx->tables[pc[3] >> 32];
        uint32_t i = (uint32_t)ctx->fp[pc[2] >> 32];
        if (i >= t->size)
            return fail(ctx, DZ_WASM_TRAP_UNDEFINED_ELEMENT);
        inst = callee_of(ctx, t->elem[i], (uint32_t)pc[3]);
        func = (uint32_t)(t->elem[i] - 1);
    }
    if (!inst || !translated(ctx, inst, func))
        return false;
    uint64_t record = (uint64_t)(pc + 5 - ctx->arena) << 32 | base;
    if (flags & WASM_WIDE_TAIL) {
        record = nf[(uint32_t)pc[4]];
        memmove(nf, nf + base, (pc[4] >> 32) * sizeof *nf);
    } else {
        nf += base;
    }
    nf[wasm_field(pc, 1)] = record;
    if (inst != ctx->inst)
        return enter_far(ctx, nf, inst, func);
    ctx->fp = nf;
    ctx->pc = inst->code->funcs[func].entry;
    return true;
}

/* The import at the HOST cell returned: results are at fp. */
static void leave_import(struct wasm_ctx *ctx)
{
    uint64_t record = ctx->fp[wasm_field(ctx->pc, 0)];
    ctx->acc = ctx->fp[0];
    ctx->fp -= (uint32_t)record;
    ctx->pc = ctx->arena + (record >> 32);
}

int dz_wasm_call_import(struct wasm_ctx *ctx)
{
    struct dz_wasm_store *s = wasm_store_of(ctx);
    struct dz_wasm_inst *inst = ctx->inst;
    const struct wasm_binding *b = &inst->imports[wasm_imm(ctx->pc)];
    if (!b->fn) {
        if (enter_far(ctx, ctx->fp, b->inst, b->func))
            return -1;
        return WASM_EXIT_TRAP;
    }
    if (atomic_load_explicit(&ctx->flag, memory_order_relaxed) && !ctx->grace)
        return WASM_EXIT_FLAG;
    ctx->grace = false;
    s->in_host = true;
    enum dz_wasm_host_result r = b->fn(inst->user, inst, ctx->fp);
    s->in_host = false;
    switch (r) {
    case DZ_WASM_HOST_DONE:
        leave_import(ctx);
        return -1;
    case DZ_WASM_HOST_STOP:
        leave_import(ctx);
        if (ctx->pc - ctx->arena < WASM_CELL_FIRST) { /* the caller is a pseudo frame, which is
                                                       * no place to stop */
            dz_wasm_interrupt(s);
            return -1;
        }
        ctx->after = true;
        return WASM_EXIT_FLAG;
    case DZ_WASM_HOST_JUMP: /* dz_wasm_jump() has set the registers */
        ctx->after = false;
        return -1;
    case DZ_WASM_HOST_BLOCK:
        return WASM_EXIT_BLOCK;
    case DZ_WASM_HOST_EXIT:
        return WASM_EXIT_EXIT;
    case DZ_WASM_HOST_TRAP:
        break;
    }
    ctx->trap = DZ_WASM_TRAP_HOST;
    return WASM_EXIT_TRAP;
}
