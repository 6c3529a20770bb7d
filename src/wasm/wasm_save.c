/* SPDX-License-Identifier: MIT
 *
 * wasm_save.c - write a process as bytes (docs/format/wasm-state.md).
 *
 * Frames are walked from the innermost out and written from the outermost in, each as function,
 * byte offset and slot. Records and the words under injected calls are written as zero, because the
 * reader computes them from the frames.
 */
#include "wasm/wasm_rt.h"
#include "wasm/wasm_state.h"

#include "base/mem.h"

#include <string.h>

int dz_wasm_state_check(const struct dz_wasm_inst *inst, const char *what, struct dz_err *err)
{
    const struct dz_wasm_store *s = inst->store;
    if (s->inst_count != 1)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "cannot %s: the store has %u instances, only a process with one can", what,
                       s->inst_count);
    if (s->in_host)
        return dz_fail(err, DZ_ESTATE, "cannot %s inside a host function", what);
    return 0;
}

const uint8_t *dz_wasm_state_image(const struct dz_wasm_inst *inst, uint32_t index, uint64_t addr)
{
    const struct dz_wasm_header *h = inst->module->header;
    if (index != 0 || addr < h->image_at || addr - h->image_at >= h->image_size)
        return NULL;
    return inst->module->image + (addr - h->image_at);
}

bool dz_wasm_state_differs(const struct dz_wasm_inst *inst, uint32_t index, uint64_t addr)
{
    const uint8_t *p = inst->mems[index]->base + addr;
    const uint8_t *image = dz_wasm_state_image(inst, index, addr);
    if (image)
        return memcmp(p, image, WASM_STATE_PAGE) != 0;
    return !dz_mem_is_zero(p, WASM_STATE_PAGE);
}

/* --- frames ---------------------------------------------------------------------------- */

struct save {
    struct dz_wasm_inst *inst;
    const struct dz_wasm_sink *to;
    struct dz_err *err;
    struct wasm_state_frame *frames; /* innermost first */
    uint32_t count, cap;
    uint32_t slots; /* alive, from the first */
};

static int put(struct save *s, const void *data, size_t size)
{
    return size ? s->to->write(s->to->ctx, data, size, s->err) : 0;
}

static int add_frame(struct save *s, struct wasm_state_frame f)
{
    if (s->count == s->cap) {
        uint32_t n = s->cap ? s->cap * 2 : 64;
        struct wasm_state_frame *p = dz_realloc(s->frames, n * sizeof *p);
        if (!p)
            return dz_fail(s->err, DZ_ENOMEM, "no memory for %u frames", n);
        s->frames = p;
        s->cap = n;
    }
    s->frames[s->count++] = f;
    return 0;
}

/* The function and offset at which the frame of the walk stands, and how many of its slots are
 * alive there. */
static int place(struct save *s, const struct wasm_walk *w, struct wasm_state_frame *f,
                 uint32_t *ret_height)
{
    const struct dz_wasm_inst *inst = s->inst;
    const struct wasm_range *r = dz_wasm_walk_range(w);
    uint32_t word = w->word;
    if (!r)
        return dz_fail(s->err, DZ_ECORRUPT, "word %u is in no function", word);
    f->func = r->func;
    f->offset = 0;
    *ret_height = inst->code->funcs[r->func].rec + 1;
    if (r->func < inst->module->header->n_imported[DZ_WASM_KIND_FUNC])
        return 0;
    const struct wasm_points_row *row = dz_wasm_points_of(inst->code, r->func);
    if (!row)
        return dz_fail(s->err, DZ_ENOMEM, "no memory for the safepoints of function %u", r->func);
    word -= r->start;
    if (inst->code->fuel && word == 2 && !w->after)
        word = 0; /* at the meter behind the entry */
    const struct wasm_point *p = dz_wasm_points_word(row, word, w->after);
    if (!p)
        return dz_fail(s->err, DZ_ESTATE, "function %u does not stand at a safepoint", r->func);
    f->offset = p->offset;
    *ret_height = p->height;
    if (w->after && p->type != WASM_NOWHERE)
        *ret_height += inst->module->types[p->type].result_slots;
    return 0;
}

static int walk(struct save *s)
{
    struct dz_wasm_store *st = s->inst->store;
    struct wasm_walk w = dz_wasm_walk(st);
    uint32_t how = w.after ? WASM_STATE_AFTER : WASM_STATE_AT;
    for (bool more = true; more;) {
        struct wasm_state_frame f = {.fp = (uint32_t)(w.fp - st->slots), .how = how};
        uint32_t height = 0;
        int rc = place(s, &w, &f, &height);
        if (rc == 0)
            rc = add_frame(s, f);
        if (rc < 0)
            return rc;
        if (s->count == 1)
            s->slots = f.fp + height;
        more = dz_wasm_walk_out(st, &w, f.func);
        how = !w.held ? WASM_STATE_CALL : w.after ? WASM_STATE_HELD_AFTER : WASM_STATE_HELD_AT;
    }
    return 0;
}

/* Slots without the words that only mean something here. */
static int put_slots(struct save *s)
{
    const uint64_t *base = s->inst->store->slots;
    uint32_t at = 0;
    uint64_t zero = 0;
    for (uint32_t i = s->count; i-- > 0;) {
        const struct wasm_state_frame *f = &s->frames[i];
        uint32_t record = f->fp + s->inst->code->funcs[f->func].rec;
        bool held = i + 1 < s->count && s->frames[i + 1].how >= WASM_STATE_HELD_AT;
        uint32_t skip[2] = {held ? f->fp - WASM_HELD_SLOTS : record, record};
        for (unsigned k = held ? 0 : 1; k < 2; k++) {
            int rc = put(s, base + at, (skip[k] - at) * sizeof *base);
            if (rc == 0)
                rc = put(s, &zero, sizeof zero);
            if (rc < 0)
                return rc;
            at = skip[k] + 1;
        }
    }
    return put(s, base + at, (s->slots - at) * sizeof *base);
}

static int put_frames(struct save *s)
{
    for (uint32_t i = s->count; i-- > 0;) {
        int rc = put(s, &s->frames[i], sizeof s->frames[i]);
        if (rc < 0)
            return rc;
    }
    return put_slots(s);
}

/* --- the rest --------------------------------------------------------------------------------- */

static int put_header(struct save *s, bool with_memory)
{
    const struct dz_wasm_store *st = s->inst->store;
    const struct dz_wasm_module *m = s->inst->module;
    struct wasm_state_header h = {
        .magic = "dozestat",
        .version = WASM_STATE_VERSION,
        .flags = with_memory ? WASM_STATE_MEMORY : 0,
        .fuel = (uint64_t)st->ctx.fuel,
        .throwing = st->ctx.throwing,
        .running = st->running,
        .stop = st->stop,
        .global_slots = m->header->global_slots,
        .tables = m->n_tables,
        .memories = m->n_memories,
        .datas = m->n_datas,
        .elems = m->n_elems,
        .exns = st->exn_count,
        .frames = s->count,
        .slots = s->slots,
        .injected = st->injected,
        .marks = s->count ? st->marks.count : 0,
    };
    memcpy(h.sha256, m->header->sha256, sizeof h.sha256);
    return put(s, &h, sizeof h);
}

/* The elements that are not as in a fresh instance. `fresh` has `count`; behind them is null. */
static int put_runs(struct save *s, const struct wasm_table *t, const uint64_t *fresh,
                    uint32_t count)
{
    const struct wasm_state_run last = {0, 0};
    int rc = 0;
    for (uint32_t at = 0, start; rc == 0 && at < t->size;) {
        for (; at < t->size && t->elem[at] == (at < count ? fresh[at] : 0); at++)
            ;
        for (start = at; at < t->size && t->elem[at] != (at < count ? fresh[at] : 0); at++)
            ;
        const struct wasm_state_run run = {start, at - start};
        if (run.count)
            rc = put(s, &run, sizeof run);
        if (rc == 0 && run.count)
            rc = put(s, t->elem + start, run.count * sizeof *t->elem);
    }
    return rc < 0 ? rc : put(s, &last, sizeof last);
}

/* A table of tens of thousands of functions would be most of a process's state, but most of it is
 * equal to the module's table: write only the runs that differ. */
static int put_large_table(struct save *s, uint32_t index)
{
    const struct wasm_table *t = s->inst->tables[index];
    uint32_t count = s->inst->module->tables[index].min;
    uint64_t size = t->size | WASM_STATE_RUNS;
    int rc = put(s, &size, sizeof size);
    if (rc == 0 && t->shared)
        return put_runs(s, t, s->inst->module->table, t->shared);
    DZ_AUTO(dz_freep) uint64_t *fresh = dz_alloc(count * sizeof *fresh);
    if (rc == 0 && !fresh)
        return dz_fail(s->err, DZ_ENOMEM, "save table %u: out of memory", index);
    if (rc == 0)
        rc = dz_wasm_table_fresh(s->inst, index, fresh, s->err);
    return rc < 0 ? rc : put_runs(s, t, fresh, count);
}

static int put_tables(struct save *s)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < s->inst->module->n_tables; i++) {
        const struct wasm_table *t = s->inst->tables[i];
        uint64_t size = t->size;
        bool large = i >= s->inst->module->header->n_imported[DZ_WASM_KIND_TABLE] &&
                     s->inst->module->tables[i].min > WASM_STATE_TABLE;
        rc = large ? put_large_table(s, i) : put(s, &size, sizeof size);
        if (rc == 0 && !large)
            rc = put(s, t->elem, t->size * sizeof *t->elem);
    }
    return rc;
}

static int put_exns(struct save *s)
{
    const struct dz_wasm_store *st = s->inst->store;
    for (uint32_t i = 0; i < st->exn_count; i++) {
        const struct wasm_exn *e = &st->exns[i];
        struct wasm_state_exn x = {e->live, (uint32_t)e->tag, e->slots, 0};
        int rc = put(s, &x, sizeof x);
        if (rc == 0)
            rc = put(s, e->payload, e->slots * sizeof *e->payload);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int put_memory(struct save *s, uint32_t index)
{
    const struct wasm_mem *m = s->inst->mems[index];
    for (uint64_t at = 0; at < m->size;) {
        uint64_t start = at;
        while (at < m->size && dz_wasm_state_differs(s->inst, index, at))
            at += WASM_STATE_PAGE;
        if (at > start) {
            struct wasm_state_run run = {(uint32_t)(start / WASM_STATE_PAGE),
                                         (uint32_t)((at - start) / WASM_STATE_PAGE)};
            int rc = put(s, &run, sizeof run);
            if (rc == 0)
                rc = put(s, m->base + start, at - start);
            if (rc < 0)
                return rc;
        }
        while (at < m->size && !dz_wasm_state_differs(s->inst, index, at))
            at += WASM_STATE_PAGE;
    }
    struct wasm_state_run end = {0, 0};
    return put(s, &end, sizeof end);
}

static int put_memories(struct save *s, bool contents)
{
    for (uint32_t i = 0; i < s->inst->module->n_memories; i++) {
        uint64_t pages = s->inst->mems[i]->pages;
        int rc = put(s, &pages, sizeof pages);
        if (rc == 0 && contents)
            rc = put_memory(s, i);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int dz_wasm_save(struct dz_wasm_inst *inst, bool with_memory, const struct dz_wasm_sink *to,
                 struct dz_err *err)
{
    const struct dz_wasm_module *m = inst->module;
    struct save s = {.inst = inst, .to = to, .err = err};
    int rc = dz_wasm_state_check(inst, "save", err);
    if (rc == 0 && inst->store->running)
        rc = walk(&s);
    if (rc == 0)
        rc = put_header(&s, with_memory);
    if (rc == 0)
        rc = put(&s, inst->globals, m->header->global_slots * sizeof *inst->globals);
    if (rc == 0)
        rc = put(&s, inst->data_dropped, m->n_datas);
    if (rc == 0)
        rc = put(&s, inst->elem_dropped, m->n_elems);
    if (rc == 0)
        rc = put_tables(&s);
    if (rc == 0)
        rc = put_exns(&s);
    if (rc == 0 && s.count)
        rc = put_frames(&s);
    if (rc == 0 && s.count)
        rc = dz_wasm_marks_save(&inst->store->marks, to, err);
    if (rc == 0)
        rc = put_memories(&s, with_memory);
    dz_free(s.frames);
    return rc;
}
