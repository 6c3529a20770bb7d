/* SPDX-License-Identifier: MIT
 *
 * wasm_proc.c - copy a process, and inject a call into it; both are possible because its state is
 * data. Marks and jumps are in wasm_mark.c.
 *
 * The frame of an injected call lies above the frame that it interrupts. Between them are three
 * slots that say how to resume: see wasm_state.h. The RESUME cell reads them.
 */
#include "base/mem.h"
#include "base/vm.h"
#include "wasm/wasm_rt.h"
#include "wasm/wasm_state.h"

#include <string.h>

/* --- inject ------------------------------------------------------------------------------- */

int dz_wasm_inject(struct dz_wasm_inst *inst, uint32_t func, const uint64_t *args, size_t arg_count,
                   struct dz_err *err)
{
    struct dz_wasm_store *s = inst->store;
    struct wasm_ctx *ctx = &s->ctx;
    uint32_t params;
    uint32_t results;
    int rc = dz_wasm_state_check(inst, "inject a call", err);
    if (rc < 0)
        return rc;
    if (!s->running)
        return dz_fail(err, DZ_ESTATE, "cannot inject a call: nothing runs");
    if (dz_wasm_func_slots(inst, func, &params, &results) < 0 || params != arg_count)
        return dz_fail(err, DZ_EINVAL, "cannot inject: no function %u with %zu argument slots",
                       func, arg_count);
    enum dz_wasm_trap_kind kind = dz_wasm_code_translate(inst->code, func);
    if (kind != DZ_WASM_TRAP_NONE)
        return dz_fail(err, DZ_ELIMIT, "cannot translate function %u: %s", func,
                       dz_wasm_trap_text(kind));
    bool after = ctx->throwing || ctx->after;
    uint32_t rec = wasm_rec(params, results);
    uint64_t *held = dz_wasm_frames_top(s);
    uint64_t *nf = held + WASM_HELD_SLOTS;
    if (nf + rec + 2 > s->limit)
        return dz_fail(err, DZ_ELIMIT, "cannot inject a call: the stack is full");
    held[0] = (uint64_t)(ctx->pc - ctx->arena) << 32 | (uint64_t)(held - ctx->fp);
    if (after)
        held[0] |= WASM_HELD_AFTER;
    held[1] = ctx->throwing;
    held[2] = ctx->acc;
    if (arg_count)
        memcpy(nf, args, arg_count * sizeof *nf);
    nf[rec] = (uint64_t)WASM_CELL_RESUME << 32 | WASM_HELD_SLOTS;
    ctx->fp = nf;
    ctx->pc = inst->code->funcs[func].entry;
    ctx->throwing = 0;
    ctx->after = false;
    s->held = false;
    s->injected++;
    return 0;
}

uint32_t dz_wasm_injected(const struct dz_wasm_inst *inst)
{
    return inst->store->injected;
}

bool dz_wasm_injected_done(struct wasm_ctx *ctx)
{
    const uint64_t *held = ctx->fp;
    wasm_store_of(ctx)->injected--;
    ctx->acc = held[2];
    ctx->throwing = held[1];
    ctx->pc = ctx->arena + (held[0] >> 32);
    ctx->fp -= held[0] & WASM_HELD_DELTA;
    return ctx->throwing == 0;
}

/* --- copy --------------------------------------------------------------------------------- */

/* The copy of one memory into another; the first `done` bytes are complete. */
struct copying {
    const struct dz_wasm_inst *from;
    const struct wasm_mem *a;
    struct wasm_mem *b;
    const struct dz_wasm_store *store; /* of b */
    uint32_t index;
    uint64_t done;
};

/* Make the memory fresh up to `to`: the image is mapped already, everything else that is old
 * becomes zero. */
static int copy_skip(struct copying *c, uint64_t to, struct dz_err *err)
{
    uint64_t end = to < c->b->old ? to : c->b->old;
    while (c->done < end) {
        uint64_t at = c->done;
        if (dz_wasm_state_image(c->from, c->index, at)) {
            c->done += WASM_STATE_PAGE;
            continue;
        }
        while (c->done < end && !dz_wasm_state_image(c->from, c->index, c->done))
            c->done += WASM_STATE_PAGE;
        int rc = c->store->mem_ops->clear(c->store->cfg.mem_ctx, c->b->base, at, c->done, err);
        if (rc < 0)
            return rc;
    }
    if (c->done < to)
        c->done = to;
    return 0;
}

static uint64_t between(uint64_t least, uint64_t v, uint64_t most)
{
    return v < least ? least : v > most ? most : v;
}

/* Bytes that differ: over pages that hold another memory's, over the image, which may be
 * a file's, and in pages that are new. */
static int copy_bytes(struct copying *c, uint64_t at, uint64_t size, struct dz_err *err)
{
    int rc = copy_skip(c, at, err);
    if (rc < 0)
        return rc;
    const struct dz_wasm_header *h = c->from->module->header;
    uint64_t end = at + size;
    uint64_t old = between(at, c->b->old, end);
    uint64_t fresh = between(old, c->index == 0 ? h->image_at + h->image_size : 0, end);
    memcpy(c->b->base + at, c->a->base + at, old - at);
    dz_vm_fill(c->b->base + old, c->a->base + old, fresh - old);
    dz_vm_fill(c->b->base + fresh, c->a->base + fresh, end - fresh);
    c->done = end;
    return 0;
}

static int copy_compared(struct copying *c, struct dz_err *err)
{
    uint64_t start = 0; /* of a run of pages that differ */
    for (uint64_t at = 0; at <= c->a->size; at += WASM_STATE_PAGE) {
        if (at < c->a->size && dz_wasm_state_differs(c->from, c->index, at))
            continue;
        int rc = at > start ? copy_bytes(c, start, at - start, err) : 0;
        if (rc < 0)
            return rc;
        start = at + WASM_STATE_PAGE;
    }
    return 0;
}

static int copy_changed(struct copying *c, const struct dz_wasm_copy *how, struct dz_err *err)
{
    for (uint64_t at = 0;;) {
        uint64_t size = 0;
        int rc = how->changed(how->changed_ctx, c->index, &at, &size, err);
        if (rc <= 0)
            return rc;
        if (at < c->done || at > c->a->size || size > c->a->size - at ||
            (at | size) % WASM_STATE_PAGE != 0)
            return dz_fail(err, DZ_EINVAL,
                           "changed bytes outside of memory %u, out of order or not whole pages",
                           c->index);
        rc = copy_bytes(c, at, size, err);
        if (rc < 0)
            return rc;
        at += size;
    }
}

/* The pages of one memory that are not as in a fresh instance. */
static int copy_memory(const struct dz_wasm_inst *from, struct dz_wasm_inst *to, uint32_t index,
                       const struct dz_wasm_copy *how, struct dz_err *err)
{
    struct copying c = {
        .from = from, .a = from->mems[index], .b = to->mems[index], .store = to->store};
    c.index = index;
    int rc = 0;
    if (c.a->size > c.b->reserved)
        return dz_fail(err, DZ_ELIMIT, "memory %u has %u pages, too many for the copy", index,
                       c.a->pages);
    if (c.a->size > c.b->size)
        rc = c.store->mem_ops->commit(c.store->cfg.mem_ctx, c.b->base, c.b->size, c.a->size, err);
    if (rc < 0)
        return rc;
    c.b->size = c.a->size;
    c.b->pages = c.a->pages;
    rc = how->changed ? copy_changed(&c, how, err) : copy_compared(&c, err);
    if (rc == 0)
        rc = copy_skip(&c, c.a->size > c.b->old ? c.a->size : c.b->old, err);
    c.b->old = 0;
    return rc;
}

static int copy_tables(const struct dz_wasm_inst *from, struct dz_wasm_inst *to, struct dz_err *err)
{
    for (uint32_t i = 0; i < from->module->n_tables; i++) {
        const struct wasm_table *a = from->tables[i];
        struct wasm_table *b = to->tables[i];
        if (a->size > b->size_max)
            return dz_fail(err, DZ_ELIMIT, "table %u has %u elements, too many for the copy", i,
                           a->size);
        if (a->size > b->size && dz_wasm_table_grow(b, a->size - b->size) == UINT32_MAX)
            return dz_fail(err, DZ_ENOMEM, "no memory for table %u", i);
        b->size = a->size;
        dz_wasm_table_put(b, 0, a->elem, a->size);
    }
    return 0;
}

static int copy_exns(const struct dz_wasm_store *from, struct dz_wasm_store *to, struct dz_err *err)
{
    if (from->exn_count == 0)
        return 0;
    to->exns = dz_zalloc(from->exn_count * sizeof *to->exns);
    if (!to->exns)
        return dz_fail(err, DZ_ENOMEM, "no memory for %u exceptions", from->exn_count);
    to->exn_cap = from->exn_count;
    for (uint32_t i = 0; i < from->exn_count; i++) {
        const struct wasm_exn *e = &from->exns[i];
        to->exns[i] = *e;
        to->exns[i].payload = NULL;
        to->exn_count = i + 1;
        if (e->slots == 0)
            continue;
        to->exns[i].payload = dz_alloc(e->slots * sizeof *e->payload);
        if (!to->exns[i].payload)
            return dz_fail(err, DZ_ENOMEM, "no memory for exception %u", i);
        memcpy(to->exns[i].payload, e->payload, e->slots * sizeof *e->payload);
    }
    to->exn_free = from->exn_free;
    return 0;
}

/* Copy the slots as they are, because both run the same code. */
static int copy_frames(const struct dz_wasm_inst *from, struct dz_wasm_inst *to, struct dz_err *err)
{
    const struct dz_wasm_store *a = from->store;
    struct dz_wasm_store *b = to->store;
    b->stop = a->stop;
    b->ctx.fuel = a->ctx.fuel;
    if (!a->running)
        return 0;
    size_t n = (size_t)(dz_wasm_frames_top(from->store) - a->slots);
    if (n + 2 > b->cfg.stack_slots)
        return dz_fail(err, DZ_ELIMIT, "%zu slots of stack, too many for the copy", n);
    memcpy(b->slots, a->slots, n * sizeof *b->slots);
    dz_wasm_ctx_enter(&b->ctx, to);
    b->ctx.pc = a->ctx.pc;
    b->ctx.fp = b->slots + (a->ctx.fp - a->slots);
    b->ctx.acc = a->ctx.acc;
    b->ctx.throwing = a->ctx.throwing;
    b->ctx.after = a->ctx.after;
    b->running = true;
    b->held = a->held;
    b->injected = a->injected;
    if (dz_wasm_marks_copy(&b->marks, &a->marks) < 0)
        return dz_fail(err, DZ_ENOMEM, "no memory for %u marks", a->marks.count);
    return dz_wasm_depth_count(b, err);
}

static int copy_into(const struct dz_wasm_inst *from, struct dz_wasm_inst *to,
                     const struct dz_wasm_copy *how, struct dz_err *err)
{
    const struct dz_wasm_module *m = from->module;
    memcpy(to->globals, from->globals, m->header->global_slots * sizeof *to->globals);
    memcpy(to->data_dropped, from->data_dropped, m->n_datas);
    memcpy(to->elem_dropped, from->elem_dropped, m->n_elems);
    if (!how->host)
        memcpy(to->imports, from->imports,
               m->header->n_imported[DZ_WASM_KIND_FUNC] * sizeof *to->imports);
    int rc = copy_tables(from, to, err);
    for (uint32_t i = 0; rc == 0 && i < m->n_memories; i++)
        rc = copy_memory(from, to, i, how, err);
    if (rc == 0)
        rc = copy_exns(from->store, to->store, err);
    if (rc == 0)
        rc = copy_frames(from, to, err);
    return rc;
}

int dz_wasm_copy(struct dz_wasm_inst *inst, const struct dz_wasm_copy *how,
                 struct dz_wasm_inst **ret_inst, struct dz_err *err)
{
    int rc = dz_wasm_state_check(inst, "copy", err);
    if (rc < 0)
        return rc;
    struct dz_wasm_config cfg = how->cfg ? *how->cfg : inst->store->cfg;
    cfg.dispatch = inst->store->cfg.dispatch; /* positions stay as they are */
    cfg.fuel = inst->store->cfg.fuel;
    cfg.call_depth = inst->store->cfg.call_depth;
    cfg.wide_frames = inst->store->cfg.wide_frames;
    struct dz_wasm_store *s;
    rc = dz_wasm_store_new(&cfg, &s, err);
    if (rc < 0)
        return rc;
    struct dz_wasm_inst *to;
    rc = dz_wasm_inst_bare(s, inst, how, &to, err);
    if (rc == 0)
        rc = copy_into(inst, to, how, err);
    if (rc < 0) {
        dz_wasm_store_free(s);
        return rc;
    }
    *ret_inst = to;
    return 0;
}
