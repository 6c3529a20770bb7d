/* SPDX-License-Identifier: MIT
 *
 * wasm_rt.h - what the handlers call: all that is rare, long or looks at frames.
 *
 * Unless said otherwise these take the registers from ctx->pc and ctx->fp
 * (SAVE) and may change them (RELOAD). false = a trap, its kind in ctx->trap.
 */
#ifndef DZ_WASM_RT_H
#define DZ_WASM_RT_H

#include "wasm/wasm_int.h"

/* --- calls: wasm_call.c ----------------------------------------------------------- */

/* At a CALL_LAZY cell: translate the callee and make the cell a CALL or CALL_HOST. */
bool dz_wasm_call_resolve(struct wasm_ctx *ctx);
/* At a CALL_INDIRECT cell: the callee is null, not translated, or elsewhere. */
bool dz_wasm_call_far(struct wasm_ctx *ctx, uint64_t ref);
bool dz_wasm_tail_call(struct wasm_ctx *ctx);
bool dz_wasm_tail_call_indirect(struct wasm_ctx *ctx);
/* At a CALL_WIDE cell: any call of a function whose operands lie far from fp. */
enum wasm_wide {
    WASM_WIDE_INDIRECT = 1,
    WASM_WIDE_TAIL = 2,
};
bool dz_wasm_call_wide(struct wasm_ctx *ctx);
/* At a HOST cell: a host call, or entering another instance. -1: go on, else
 * why the loop must end. */
int dz_wasm_call_import(struct wasm_ctx *ctx);
/* At an XRET cell: back into the instance that called. */
void dz_wasm_call_return(struct wasm_ctx *ctx);
/* At a RESUME cell: go back to the interrupted frame. false: by unwinding. */
bool dz_wasm_injected_done(struct wasm_ctx *ctx);

/* At a DEPTH cell: number this frame by its caller's. The limit is a trap. */
bool dz_wasm_depth_enter(struct wasm_ctx *ctx);
/* Number the frames of a stack that came from elsewhere; DZ_ELIMIT: too many. */
int dz_wasm_depth_count(struct dz_wasm_store *s, struct dz_err *err);

/* --- exceptions: wasm_exn.c --------------------------------------------------------- */

/* At a THROW or THROW_REF cell: set ctx->throwing, and pc to the next cell. */
bool dz_wasm_throw(struct wasm_ctx *ctx);
bool dz_wasm_throw_ref(struct wasm_ctx *ctx);
/* Unwind from ctx->fp, ctx->pc (a return address) to the frame that catches. -1: go on there, else
 * why the loop must end. */
int dz_wasm_unwind(struct wasm_ctx *ctx);

/* --- long and rare operations: wasm_bulk.c -------------------------------------------- */

enum wasm_bulk_op {
    WASM_MEMORY_COPY, /* index 0 destination, index 1 source */
    WASM_MEMORY_FILL,
    WASM_MEMORY_INIT, /* index 0 memory, index 1 segment */
    WASM_TABLE_COPY,
    WASM_TABLE_FILL,
    WASM_TABLE_INIT,
};
enum wasm_bulk_result {
    WASM_BULK_DONE,
    WASM_BULK_MORE,
    WASM_BULK_TRAP,
};
/* One part of an operation whose operands are to[0..2]. indices: first | second << 32. */
enum wasm_bulk_result dz_wasm_bulk(struct wasm_ctx *ctx, unsigned op, uint64_t indices,
                                   uint64_t *to);

/* The references that items of an element segment stand for. */
void dz_wasm_elem_items(const struct dz_wasm_inst *inst, uint64_t *to, const uint32_t *items,
                        uint64_t count);

/* The old size, or UINT32_MAX when it cannot grow. */
uint32_t dz_wasm_mem_grow(struct wasm_ctx *ctx, uint32_t index, uint32_t pages);
/* May this go into the table? Slots that were loaded may hold anything. */
bool dz_wasm_ref_good(const struct wasm_ctx *ctx, const struct wasm_table *t, uint64_t ref);
/* The first elements of the table in a fresh instance: as many as its declared minimum. */
int dz_wasm_table_fresh(const struct dz_wasm_inst *inst, uint32_t index, uint64_t *elem,
                        struct dz_err *err);
/* Grow by null references. Returns the old size, or UINT32_MAX. Takes about as long as a part of a
 * long operation, whatever count is. */
uint32_t dz_wasm_table_grow(struct wasm_table *t, uint32_t count);
/* to = { value, count } becomes { result, first, value, count }: the result of table.grow
 * and the operands of the table.fill that is left to do. */
void dz_wasm_table_grow_filled(struct wasm_table *t, uint64_t *to);
/* Begin a table with the module's image of it. DZ_ENOMEM, or what mapping says. */
int dz_wasm_table_lay(const struct dz_wasm_module *m, struct wasm_table *t, struct dz_err *err);
/* Elements [at, at + count) become `from`. Pages of the module's that hold the same already
 * are left as they are, so that they stay shared. */
void dz_wasm_table_put(struct wasm_table *t, uint32_t at, const uint64_t *from, uint32_t count);
void dz_wasm_table_release(struct wasm_table *t); /* its elements */

#endif
