/* SPDX-License-Identifier: MIT
 *
 * wasm_restore.c - read a state that wasm_save.c wrote; every byte may be hostile.
 *
 * Conditions that are checked before the program may resume:
 *   1. the state is of this very module, and every count is that of the module;
 *   2. frames begin with slot 0, each next one where the function before it
 *      says that a callee (or an injected call) begins, and the call's results
 *      have the types of the callee's;
 *   3. each position is a safepoint of its function, found by translating it;
 *   4. no frame could outgrow the stack;
 *   5. references in globals, tables and payloads name functions and exceptions
 *      that are there. Those in slots are checked when used: stores into
 *      function tables check their operand, exceptions are looked up.
 * Plain values may be anything.
 */
#include "wasm/wasm_state.h"

#include "base/mem.h"
#include "wasm/wasm_rt.h"

#include <assert.h>
#include <string.h>

struct load {
    struct dz_wasm_inst *inst;
    const struct dz_wasm_source *from;
    struct dz_err *err;
    struct wasm_state_header h;
    struct wasm_state_frame *frames; /* outermost first */
};

static int get(struct load *l, void *data, size_t size)
{
    return size ? l->from->read(l->from->ctx, data, size, l->err) : 0;
}
#define BAD(l, ...) dz_fail((l)->err, DZ_ECORRUPT, __VA_ARGS__)

/* --- header, globals, tables, exceptions --------------------------------------------------- */

static int get_header(struct load *l)
{
    const struct dz_wasm_module *m = l->inst->module;
    struct wasm_state_header *h = &l->h;
    int rc = get(l, h, sizeof *h);
    if (rc < 0)
        return rc;
    if (memcmp(h->magic, "dozestat", 8) != 0)
        return BAD(l, "this is not the state of a WebAssembly process");
    if (h->version < 1 || h->version > WASM_STATE_VERSION)
        return dz_fail(l->err, DZ_EUNSUPPORTED, "state of version %u, %d is the newest known",
                       h->version, WASM_STATE_VERSION);
    if (h->version == 1)
        h->marks = 0;
    if (memcmp(h->sha256, m->header->sha256, sizeof h->sha256) != 0)
        return BAD(l, "the state belongs to another module");
    if (h->global_slots != m->header->global_slots || h->tables != m->n_tables ||
        h->memories != m->n_memories || h->datas != m->n_datas || h->elems != m->n_elems)
        return BAD(l, "the state counts other globals, tables, memories or segments");
    if (h->exns > l->inst->store->cfg.exns_max)
        return dz_fail(l->err, DZ_ELIMIT, "the state has %u exceptions, the limit is %u", h->exns,
                       l->inst->store->cfg.exns_max);
    if (h->flags & ~(uint32_t)WASM_STATE_MEMORY || h->running > 1 || h->stop > DZ_WASM_UNCAUGHT ||
        h->fuel > INT64_MAX || h->slots > l->inst->store->cfg.stack_slots || h->frames > h->slots ||
        (h->frames == 0) != (h->running == 0) ||
        (h->frames == 0 && (h->slots || h->throwing || h->injected || h->marks)))
        return BAD(l, "the state's header contradicts itself");
    return 0;
}

/* Is it null, or does it name something? */
static bool reference_good(const struct load *l, unsigned type, uint64_t v)
{
    if (v == 0 || type == DZ_WASM_EXTERNREF)
        return true;
    if (type == DZ_WASM_FUNCREF)
        return v - 1 < l->inst->module->n_funcs;
    return v - WASM_EXN_REF < l->h.exns;
}

/* An immutable global must equal that of a fresh instance, because saved tables are relative to it.
 * An externref may hold any value of the host. */
static int get_global(struct load *l, uint32_t i)
{
    const struct dz_wasm_global *d = &l->inst->module->globals[i];
    size_t size = dz_wasm_valtype_slots(d->type) * sizeof(uint64_t);
    uint64_t *g = l->inst->globals + d->slot, fresh[2];
    memcpy(fresh, g, size);
    int rc = get(l, g, size);
    if (rc == 0 && !d->mutable && d->type != DZ_WASM_EXTERNREF && memcmp(fresh, g, size) != 0)
        return BAD(l, "global %u is not what it always is", i);
    if (rc == 0 && dz_wasm_valtype_is_ref(d->type) && !reference_good(l, d->type, *g))
        return BAD(l, "global %u refers to nothing", i);
    return rc;
}

static int get_globals(struct load *l)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < l->inst->module->n_globals; i++)
        rc = get_global(l, i);
    return rc;
}

static int get_dropped(struct load *l, uint8_t *to, uint32_t n)
{
    int rc = get(l, to, n);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        if (to[i] > 1)
            rc = BAD(l, "segment %u is neither dropped nor not", i);
    return rc;
}

enum {
    TABLE_PART = DZ_WASM_PAGE_ALIGN / sizeof(uint64_t), /* elements that are read at once */
};

static int get_elements(struct load *l, uint32_t index, struct wasm_state_run run)
{
    struct wasm_table *t = l->inst->tables[index];
    uint64_t part[TABLE_PART] = {0}; /* which the analyser does not see filled */
    int rc = 0;
    for (uint32_t at = run.first, end = at + run.count, n; rc == 0 && at < end; at += n) {
        n = end - at < TABLE_PART ? end - at : TABLE_PART;
        rc = get(l, part, n * sizeof *part);
        for (uint32_t i = 0; rc == 0 && i < n; i++)
            if (!reference_good(l, t->type, part[i]))
                rc = BAD(l, "element %u of table %u refers to nothing", at + i, index);
        if (rc == 0)
            dz_wasm_table_put(t, at, part, n);
    }
    return rc;
}

/* Write over the content of the fresh instance. */
static int get_table_runs(struct load *l, uint32_t index)
{
    const struct wasm_table *t = l->inst->tables[index];
    struct wasm_state_run run;
    uint32_t at = 0;
    int rc;
    while ((rc = get(l, &run, sizeof run)) == 0 && run.count) {
        if (run.first < at || run.first >= t->size || run.count > t->size - run.first)
            return BAD(l, "a run of elements lies outside of table %u", index);
        at = run.first + run.count;
        rc = get_elements(l, index, run);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int get_table(struct load *l, uint32_t index)
{
    struct wasm_table *t = l->inst->tables[index];
    uint64_t size;
    int rc = get(l, &size, sizeof size);
    if (rc < 0)
        return rc;
    bool runs = l->h.version >= 3 && (size & WASM_STATE_RUNS);
    size &= runs ? ~WASM_STATE_RUNS : UINT64_MAX;
    if (size < l->inst->module->tables[index].min || size > t->size_max)
        return BAD(l, "table %u cannot have %llu elements", index, (unsigned long long)size);
    if (size > t->size && dz_wasm_table_grow(t, (uint32_t)size - t->size) == UINT32_MAX)
        return dz_fail(l->err, DZ_ENOMEM, "no memory for table %u", index);
    t->size = (uint32_t)size;
    return runs ? get_table_runs(l, index)
                : get_elements(l, index, (struct wasm_state_run){0, t->size});
}

static int check_payload(struct load *l, uint32_t index, const struct wasm_exn *e)
{
    const struct dz_wasm_module *m = l->inst->module;
    const struct dz_wasm_type *y = &m->types[m->tags[e->tag].type];
    uint32_t slot = 0;
    assert(y->n_params == 0 || e->payload);
    for (uint32_t i = 0; i < y->n_params; i++) {
        unsigned type = m->valtypes[y->params + i];
        if (dz_wasm_valtype_is_ref(type) && !reference_good(l, type, e->payload[slot]))
            return BAD(l, "exception %u carries a reference to nothing", index);
        slot += dz_wasm_valtype_slots(type);
    }
    return 0;
}

static int get_exn(struct load *l, uint32_t index, struct wasm_exn *e)
{
    const struct dz_wasm_module *m = l->inst->module;
    struct wasm_state_exn x;
    int rc = get(l, &x, sizeof x);
    if (rc < 0)
        return rc;
    if (x.live > 1 || (x.live == 0 && x.slots) || (x.live && x.tag >= m->n_tags) ||
        (x.live && x.slots != m->types[m->tags[x.tag].type].param_slots))
        return BAD(l, "exception %u has a tag that the module does not have", index);
    if (!x.live)
        return 0;
    e->tag = x.tag;
    e->slots = x.slots;
    if (x.slots) {
        e->payload = dz_alloc(x.slots * sizeof *e->payload);
        if (!e->payload)
            return dz_fail(l->err, DZ_ENOMEM, "no memory for exception %u", index);
        rc = get(l, e->payload, x.slots * sizeof *e->payload);
        if (rc < 0)
            return rc;
    }
    e->live = 1;
    return check_payload(l, index, e);
}

static int get_exns(struct load *l)
{
    struct dz_wasm_store *s = l->inst->store;
    dz_wasm_exns_clear(s);
    if (l->h.exns == 0)
        return 0;
    if (s->exn_cap < l->h.exns) {
        struct wasm_exn *p = dz_realloc(s->exns, l->h.exns * sizeof *p);
        if (!p)
            return dz_fail(l->err, DZ_ENOMEM, "no memory for %u exceptions", l->h.exns);
        s->exns = p;
        s->exn_cap = l->h.exns;
    }
    for (uint32_t i = 0; i < l->h.exns; i++) {
        s->exns[i] = (struct wasm_exn){0};
        s->exn_count = i + 1; /* for what frees them */
        int rc = get_exn(l, i, &s->exns[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- frames ---------------------------------------------------------------------------------- */

/* The place where a frame resumes, and how far its slots reach. */
struct place {
    const wasm_word *cell;
    uint32_t height; /* slots alive */
    uint32_t room;   /* slots it may come to use */
    uint32_t rec;
    uint32_t results;               /* AFTER: slots of the call's results behind height */
    const struct wasm_point *point; /* NULL: an import; good until the next place is found */
};

static bool is_after(uint32_t how)
{
    return how == WASM_STATE_CALL || how == WASM_STATE_AFTER || how == WASM_STATE_HELD_AFTER;
}

static int find_place(struct load *l, uint32_t index, struct place *p)
{
    const struct wasm_state_frame *f = &l->frames[index];
    const struct dz_wasm_module *m = l->inst->module;
    struct dz_wasm_code *c = l->inst->code;
    if (f->func >= m->n_funcs || f->how >= WASM_STATE_HOW_COUNT)
        return BAD(l, "frame %u is in no function", index);
    enum dz_wasm_trap_kind kind = dz_wasm_code_translate(c, f->func);
    if (kind != DZ_WASM_TRAP_NONE)
        return dz_fail(l->err, DZ_ELIMIT, "cannot translate function %u: %s", f->func,
                       dz_wasm_trap_text(kind));
    *p = (struct place){.cell = c->funcs[f->func].entry, .rec = c->funcs[f->func].rec};
    if (f->func < m->header->n_imported[DZ_WASM_KIND_FUNC]) {
        p->height = p->room = p->rec + 1;
        if (f->offset != 0 || is_after(f->how))
            return BAD(l, "frame %u stands inside an imported function", index);
        return 0;
    }
    const struct wasm_points_row *row = dz_wasm_points_of(c, f->func);
    if (!row)
        return dz_fail(l->err, DZ_ENOMEM, "no memory for the safepoints of function %u", f->func);
    p->point = dz_wasm_points_offset(row, f->offset, is_after(f->how));
    if (!p->point)
        return BAD(l, "byte %u of function %u is no safepoint", f->offset, f->func);
    p->height = p->point->height;
    p->room = wasm_imm(p->cell);
    p->cell += p->point->word;
    if (is_after(f->how) && p->point->type != WASM_NOWHERE)
        p->results = m->types[p->point->type].result_slots;
    return 0;
}

static bool same_results(const struct dz_wasm_module *m, uint32_t a, uint32_t b)
{
    const struct dz_wasm_type *x = &m->types[a];
    const struct dz_wasm_type *y = &m->types[b];
    return x->n_results == y->n_results &&
           memcmp(m->valtypes + x->params + x->n_params, m->valtypes + y->params + y->n_params,
                  x->n_results) == 0;
}

/* Frame `index` (its place p) and the one it called. Writes the record of the
 * latter. */
static int tie(struct load *l, uint32_t index, const struct place *p)
{
    const struct wasm_state_frame *f = &l->frames[index];
    const struct wasm_state_frame *next = f + 1;
    const struct dz_wasm_module *m = l->inst->module;
    uint64_t *slots = l->inst->store->slots;
    uint64_t word = (uint64_t)(p->cell - l->inst->code->arena);
    if (next->func >= m->n_funcs)
        return BAD(l, "frame %u is in no function", index + 1);
    const struct dz_wasm_type *y = &m->types[m->funcs[next->func].type];
    uint32_t rec = wasm_rec(y->param_slots, y->result_slots);
    if (next->fp >= l->h.slots || rec >= l->h.slots - next->fp)
        return BAD(l, "frame %u lies outside the slots", index + 1);
    uint64_t *record = &slots[next->fp + rec];
    if (f->how == WASM_STATE_CALL) {
        if (p->point->type == WASM_NOWHERE || next->fp != f->fp + p->height ||
            !same_results(m, p->point->type, m->funcs[next->func].type))
            return BAD(l, "frame %u is not what frame %u called", index + 1, index);
        *record = word << 32 | p->height;
        return 0;
    }
    uint32_t end = f->fp + p->height + p->results;
    if (next->fp < end + WASM_HELD_SLOTS)
        return BAD(l, "the injected frame %u lies within frame %u", index + 1, index);
    uint32_t held = next->fp - WASM_HELD_SLOTS;
    if (slots[held + 1] != 0 && !reference_good(l, DZ_WASM_EXNREF, slots[held + 1]))
        return BAD(l, "frame %u was held with an exception that is not there", index);
    *record = (uint64_t)WASM_CELL_RESUME << 32 | WASM_HELD_SLOTS;
    slots[held] = word << 32 | (held - f->fp);
    if (f->how == WASM_STATE_HELD_AFTER)
        slots[held] |= WASM_HELD_AFTER;
    return 0;
}

static int innermost(struct load *l, const struct place *p)
{
    struct dz_wasm_store *s = l->inst->store;
    const struct wasm_state_frame *f = &l->frames[l->h.frames - 1];
    uint32_t end = f->fp + p->height + p->results;
    if (end != l->h.slots)
        return BAD(l, "the innermost frame ends at slot %u of %u", end, l->h.slots);
    if (l->h.throwing &&
        (f->how != WASM_STATE_AFTER || !reference_good(l, DZ_WASM_EXNREF, l->h.throwing)))
        return BAD(l, "the exception on its way is not there");
    if (f->how == WASM_STATE_AFTER && !l->h.throwing && p->point->type == WASM_NOWHERE)
        return BAD(l, "the program stands behind a throw without an exception");
    dz_wasm_ctx_enter(&s->ctx, l->inst);
    s->ctx.pc = p->cell;
    s->ctx.fp = s->slots + f->fp;
    s->ctx.throwing = l->h.throwing;
    s->ctx.after = f->how == WASM_STATE_AFTER && !l->h.throwing;
    s->ctx.acc = s->ctx.after ? s->slots[f->fp + p->height] : 0;
    return 0;
}

static int get_frames(struct load *l)
{
    struct dz_wasm_store *s = l->inst->store;
    uint32_t n = l->h.frames;
    uint32_t held = 0;
    if (n == 0)
        return 0;
    l->frames = dz_alloc(n * sizeof *l->frames);
    if (!l->frames)
        return dz_fail(l->err, DZ_ENOMEM, "no memory for %u frames", n);
    int rc = get(l, l->frames, n * sizeof *l->frames);
    if (rc == 0)
        rc = get(l, s->slots, l->h.slots * sizeof *s->slots);
    if (rc == 0 && l->frames[0].fp != 0)
        rc = BAD(l, "the first frame does not begin with the first slot");
    struct place p = {0};
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        bool last = i + 1 == n;
        uint32_t how = l->frames[i].how;
        rc = find_place(l, i, &p);
        if (rc == 0 && last != (how == WASM_STATE_AT || how == WASM_STATE_AFTER))
            rc = BAD(l, "frame %u of %u is not where it says", i, n);
        if (rc == 0 && (l->frames[i].fp > s->cfg.stack_slots ||
                        p.room + 2 > s->cfg.stack_slots - l->frames[i].fp))
            rc = dz_fail(l->err, DZ_ELIMIT, "frame %u does not fit the stack", i);
        held += how == WASM_STATE_HELD_AT || how == WASM_STATE_HELD_AFTER;
        if (rc == 0 && i == 0)
            s->slots[p.rec] = (uint64_t)WASM_CELL_HALT << 32;
        if (rc == 0)
            rc = last ? innermost(l, &p) : tie(l, i, &p);
    }
    if (rc == 0 && held != l->h.injected)
        rc = BAD(l, "the state counts %u injected calls and has %u", l->h.injected, held);
    return rc;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Restore the content of a fresh instance where active segments outside the image were copied. */
static void wipe(struct load *l, uint32_t index)
{
    const struct wasm_mem *m = l->inst->mems[index];
    for (uint64_t at = 0; at < m->size; at += WASM_STATE_PAGE) {
        const uint8_t *image = dz_wasm_state_image(l->inst, index, at);
        if (!dz_wasm_state_differs(l->inst, index, at))
            continue;
        if (image)
            memcpy(m->base + at, image, WASM_STATE_PAGE);
        else
            memset(m->base + at, 0, WASM_STATE_PAGE);
    }
}

static int get_runs(struct load *l, uint32_t index)
{
    const struct wasm_mem *m = l->inst->mems[index];
    uint64_t pages = m->size / WASM_STATE_PAGE;
    uint64_t next = 0;
    if (l->inst->module->n_datas_left)
        wipe(l, index);
    for (;;) {
        struct wasm_state_run run;
        int rc = get(l, &run, sizeof run);
        if (rc < 0)
            return rc;
        if (run.count == 0)
            return 0;
        if (run.first < next || run.first >= pages || run.count > pages - run.first)
            return BAD(l, "pages %u and %u more are not in order, or outside of memory %u",
                       run.first, run.count, index);
        rc = get(l, m->base + (uint64_t)run.first * WASM_STATE_PAGE,
                 (size_t)run.count * WASM_STATE_PAGE);
        if (rc < 0)
            return rc;
        next = (uint64_t)run.first + run.count;
    }
}

static int get_memories(struct load *l)
{
    struct dz_wasm_store *s = l->inst->store;
    for (uint32_t i = 0; i < l->inst->module->n_memories; i++) {
        struct wasm_mem *m = l->inst->mems[i];
        uint64_t pages;
        int rc = get(l, &pages, sizeof pages);
        if (rc < 0)
            return rc;
        if (pages < m->pages || pages > m->pages_max)
            return BAD(l, "memory %u cannot have %llu pages", i, (unsigned long long)pages);
        uint64_t size = pages * DZ_WASM_PAGE;
        if (size > m->size)
            rc = s->mem_ops->commit(s->cfg.mem_ctx, m->base, m->size, size, l->err);
        if (rc < 0)
            return rc;
        m->pages = (uint32_t)pages;
        m->size = size;
        if (l->h.flags & WASM_STATE_MEMORY)
            rc = get_runs(l, i);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int dz_wasm_load(struct dz_wasm_inst *inst, const struct dz_wasm_source *from, struct dz_err *err)
{
    struct dz_wasm_store *s = inst->store;
    struct load l = {.inst = inst, .from = from, .err = err};
    int rc = dz_wasm_state_check(inst, "load", err);
    if (rc == 0 && s->running)
        rc = dz_fail(err, DZ_ESTATE, "cannot load a state over a program that runs");
    if (rc < 0)
        return rc;
    dz_wasm_abandon(s);
    rc = get_header(&l);
    if (rc == 0)
        rc = get_globals(&l);
    if (rc == 0)
        rc = get_dropped(&l, inst->data_dropped, inst->module->n_datas);
    if (rc == 0)
        rc = get_dropped(&l, inst->elem_dropped, inst->module->n_elems);
    for (uint32_t i = 0; rc == 0 && i < inst->module->n_tables; i++)
        rc = get_table(&l, i);
    if (rc == 0)
        rc = get_exns(&l);
    if (rc == 0)
        rc = get_frames(&l);
    if (rc == 0)
        rc = dz_wasm_marks_load(inst, l.h.marks, from, err);
    if (rc == 0 && l.h.running)
        rc = dz_wasm_depth_count(s, err);
    if (rc == 0)
        rc = get_memories(&l);
    dz_free(l.frames);
    if (rc < 0) {
        dz_wasm_abandon(s);
        return rc;
    }
    s->running = l.h.running;
    s->stop = (enum dz_wasm_stop)l.h.stop;
    s->injected = l.h.injected;
    s->held = s->running && s->stop == DZ_WASM_INTERRUPTED;
    s->ctx.fuel = (int64_t)l.h.fuel;
    if (s->running)
        dz_wasm_ctx_enter(&s->ctx, inst); /* memory may have grown since */
    return 0;
}
