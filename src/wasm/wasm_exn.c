/* SPDX-License-Identifier: MIT
 *
 * wasm_exn.c - exceptions: throwing, unwinding, and the table of objects.
 *
 * A thrown exception is an object in the store's table; ctx->throwing names it while it propagates.
 * Unwinding checks one frame after the other: fp is the frame, pc its return address; the clauses
 * of the function (inner ones first) whose words contain the call decide. Unwinding polls the flag
 * now and then; between two frames the state can be saved like any other.
 *
 * Invariants of the table (assert_exns, where an object is made or the table collected):
 *   1. exn_free <= exn_count <= exn_cap.
 *   2. No free entry lies before exn_free, where the search for one begins.
 *
 * The table is bounded. When it is full, the objects that no slot, global,
 * table, payload or unwinding refers to are reused. Marking does not know the
 * types of slots: a number that looks like a reference keeps an object alive,
 * never the other way round.
 */
#include "base/mem.h"
#include "wasm/wasm_code.h"
#include "wasm/wasm_rt.h"
#include "wasm/wasm_state.h"

#include <assert.h>
#include <string.h>

enum {
    UNWIND_FRAMES = 1024, /* between two looks at the flag */
    EXN_FIRST_CAP = 16,
};

/* --- the table ----------------------------------------------------------------------- */

static void exn_drop(struct wasm_exn *e)
{
    dz_free(e->payload);
    *e = (struct wasm_exn){0};
}

void dz_wasm_exns_clear(struct dz_wasm_store *s)
{
    for (uint32_t i = 0; i < s->exn_count; i++)
        exn_drop(&s->exns[i]);
    s->exn_count = s->exn_free = 0;
    s->ctx.throwing = 0;
}

static struct wasm_exn *exn_of(const struct dz_wasm_store *s, uint64_t ref)
{
    uint64_t i = ref - WASM_EXN_REF;
    return i < s->exn_count && s->exns[i].live ? &s->exns[i] : NULL;
}

#define NO_EXN UINT32_MAX
/* The list of objects that were reached and whose payloads are not scanned yet. A list keeps the
 * time linear in the number of objects, whatever refers to whatever. */
struct marking {
    struct dz_wasm_store *s;
    uint32_t first;
};

static void mark(struct marking *k, const uint64_t *slots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct wasm_exn *e = exn_of(k->s, slots[i]);
        if (!e || e->mark)
            continue;
        e->mark = 1;
        e->link = k->first;
        k->first = (uint32_t)(e - k->s->exns);
    }
}

static void mark_marks(struct marking *k, const struct wasm_marks *marks)
{
    for (uint32_t i = 0; i < marks->count; i++)
        mark(k, marks->p[i].slots, marks->p[i].count);
}

static void mark_roots(struct marking *k)
{
    const struct dz_wasm_store *s = k->s;
    mark(k, s->slots, (size_t)(dz_wasm_frames_top(k->s) - s->slots));
    mark(k, &s->ctx.throwing, 1);
    for (uint32_t i = 0; i < s->inst_count; i++)
        mark(k, s->insts[i]->globals, s->insts[i]->module->header->global_slots);
    mark_marks(k, &s->marks);
    for (const struct dz_wasm_frames *f = s->aside; f;) {
        const struct wasm_marks *marks;
        const uint64_t *words;
        size_t count;
        f = dz_wasm_frames_look(f, &words, &count, &marks);
        mark(k, words, count);
        mark_marks(k, marks);
    }
    for (const struct wasm_table *t = s->tables; t; t = t->next)
        if (t->type == DZ_WASM_EXNREF)
            mark(k, t->elem, t->size);
}

static void assert_exns(const struct dz_wasm_store *s)
{
    assert(s->exn_free <= s->exn_count && s->exn_count <= s->exn_cap); /* 1 */
    for (uint32_t i = 0; DZ_CHECK_DEEP && i < s->exn_free; i++)
        assert(s->exns[i].live); /* 2 */
}

static void collect(struct dz_wasm_store *s)
{
    struct marking k = {s, NO_EXN};
    for (uint32_t i = 0; i < s->exn_count; i++)
        s->exns[i].mark = 0;
    mark_roots(&k);
    while (k.first != NO_EXN) {
        const struct wasm_exn *e = &s->exns[k.first];
        k.first = e->link;
        mark(&k, e->payload, e->slots);
    }
    for (uint32_t i = 0; i < s->exn_count; i++)
        if (s->exns[i].live && !s->exns[i].mark)
            exn_drop(&s->exns[i]);
    s->exn_free = 0;
}

static struct wasm_exn *find_free(struct dz_wasm_store *s)
{
    for (; s->exn_free < s->exn_count; s->exn_free++)
        if (!s->exns[s->exn_free].live)
            return &s->exns[s->exn_free++];
    return NULL;
}

static struct wasm_exn *append(struct dz_wasm_store *s)
{
    if (s->exn_count == s->exn_cap) {
        uint32_t n = s->exn_cap ? s->exn_cap * 2 : EXN_FIRST_CAP;
        if (n > s->cfg.exns_max)
            n = s->cfg.exns_max;
        struct wasm_exn *p = n > s->exn_cap ? dz_realloc(s->exns, n * sizeof *p) : NULL;
        if (!p)
            return NULL;
        s->exns = p;
        s->exn_cap = n;
    }
    s->exns[s->exn_count] = (struct wasm_exn){0};
    return &s->exns[s->exn_count++];
}

/* A new object; NULL: a trap. */
static struct wasm_exn *exn_new(struct dz_wasm_store *s, uint64_t tag, const uint64_t *payload,
                                uint32_t slots, uint64_t *ret_ref)
{
    struct wasm_exn *e = find_free(s);
    if (!e && s->exn_count < s->cfg.exns_max)
        e = append(s);
    if (!e) {
        collect(s);
        e = find_free(s);
    }
    if (!e) {
        s->ctx.trap = s->exn_count < s->cfg.exns_max ? DZ_WASM_TRAP_NOMEM : DZ_WASM_TRAP_EXN_LIMIT;
        return NULL;
    }
    uint64_t *copy = NULL;
    if (slots) {
        copy = dz_alloc(slots * sizeof *copy);
        if (!copy) {
            s->exn_free = (uint32_t)(e - s->exns);
            s->ctx.trap = DZ_WASM_TRAP_NOMEM;
            return NULL;
        }
        memcpy(copy, payload, slots * sizeof *copy);
    }
    *e = (struct wasm_exn){.tag = tag, .payload = copy, .slots = slots, .live = 1};
    *ret_ref = WASM_EXN_REF + (uint64_t)(e - s->exns);
    assert_exns(s);
    return e;
}

/* --- throwing ---------------------------------------------------------------------------- */

bool dz_wasm_throw(struct wasm_ctx *ctx)
{
    const struct dz_wasm_module *m = ctx->inst->module;
    uint32_t tag = wasm_imm(ctx->pc);
    const struct dz_wasm_type *y = &m->types[m->tags[tag].type];
    uint64_t ref;
    if (!exn_new(wasm_store_of(ctx), ctx->inst->tags[tag], ctx->fp + (uint32_t)ctx->pc[2],
                 y->param_slots, &ref))
        return false;
    ctx->throwing = ref;
    ctx->pc += 3;
    return true;
}

bool dz_wasm_throw_ref(struct wasm_ctx *ctx)
{
    uint64_t ref = ctx->fp[(uint32_t)ctx->pc[2]];
    if (!exn_of(wasm_store_of(ctx), ref)) {
        ctx->trap = DZ_WASM_TRAP_NULL_EXN;
        return false;
    }
    ctx->throwing = ref;
    ctx->pc += 3;
    return true;
}

/* --- unwinding ----------------------------------------------------------------------------- */

/* If the function at this return address catches the exception, continue at its handler. */
static bool catches(struct wasm_ctx *ctx, const struct wasm_range *r, uint32_t site)
{
    const struct wasm_exn *e = exn_of(wasm_store_of(ctx), ctx->throwing);
    assert(e);
    const struct dz_wasm_code *c = ctx->inst->code;
    for (uint32_t i = 0; i < r->catch_count; i++) {
        const struct wasm_catch *k = &c->catches[r->catch_first + i];
        bool all = k->tag == WASM_CATCH_ALL;
        if (site < k->start || site >= k->end || (!all && ctx->inst->tags[k->tag] != e->tag))
            continue;
        uint64_t *to = ctx->fp + k->slot;
        if (!all && e->slots)
            memcpy(to, e->payload, e->slots * sizeof *to);
        if (k->ref)
            to[all ? 0 : e->slots] = ctx->throwing;
        ctx->throwing = 0;
        ctx->pc = c->arena + k->target;
        return true;
    }
    return false;
}

/* Move the registers one frame out, from that of function `func`. Returns a word of the cell that
 * was under way there, WASM_NOWHERE at the end; pc is its return address unless *at, when it is
 * that cell. */
static uint32_t up(struct wasm_ctx *ctx, uint32_t func, bool *at)
{
    struct dz_wasm_store *s = wasm_store_of(ctx);
    struct wasm_walk w = {.inst = ctx->inst, .fp = ctx->fp};
    bool more = dz_wasm_walk_out(s, &w, func);
    if (w.inst != ctx->inst)
        dz_wasm_ctx_enter(ctx, w.inst);
    s->injected -= w.held;
    ctx->fp = w.fp;
    ctx->pc = ctx->arena + w.word;
    *at = !w.after;
    return !more ? WASM_NOWHERE : w.after ? w.word - 1 : w.word;
}

int dz_wasm_unwind(struct wasm_ctx *ctx)
{
    uint32_t site = (uint32_t)(ctx->pc - ctx->arena) - 1;
    bool at = false;
    if (!exn_of(wasm_store_of(ctx), ctx->throwing)) { /* only after loading a hostile state */
        ctx->trap = DZ_WASM_TRAP_NULL_EXN;
        return WASM_EXIT_TRAP;
    }
    bool grace = ctx->grace;
    ctx->grace = false;
    for (uint32_t n = grace; site != WASM_NOWHERE; n++) {
        if (n % UNWIND_FRAMES == 0 && !at && atomic_load_explicit(&ctx->flag, memory_order_relaxed))
            return WASM_EXIT_FLAG;
        const struct wasm_range *r = dz_wasm_code_range(ctx->inst->code, site);
        if (!r)
            break;
        if (catches(ctx, r, site))
            return -1;
        site = up(ctx, r->func, &at);
    }
    return WASM_EXIT_UNCAUGHT;
}
