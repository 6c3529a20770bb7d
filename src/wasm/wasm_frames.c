/* SPDX-License-Identifier: MIT
 *
 * wasm_frames.c - the frames of a program, kept aside while another runs in its
 * instance: vfork.
 *
 * Kept are slots in use, registers, globals (C's stack pointer is one), marks and the
 * count of injected calls; memory, tables and exceptions are not: they are shared. What
 * lies aside refers to exceptions too, so the store knows it, innermost first.
 */
#include "base/mem.h"
#include "wasm/wasm_link.h"
#include "wasm/wasm_rt.h"
#include "wasm/wasm_state.h"

#include <assert.h>
#include <string.h>

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
    const uint64_t *top =
        s->ctx.fp + dz_wasm_frame_room(&s->ctx, s->ctx.after ? s->ctx.pc - 1 : s->ctx.pc);
    size_t count = (size_t)(top - s->slots), globals = inst->module->header->global_slots;
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
