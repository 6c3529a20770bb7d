/* SPDX-License-Identifier: MIT
 *
 * wasm_rt.h - functions that the handlers call for work that is rare, long or looks at frames.
 *
 * Unless stated otherwise they read the registers from ctx->pc and ctx->fp (SAVE) and may change
 * them (RELOAD). false: a trap, its kind is in ctx->trap.
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
/* At a HOST cell: make a host call, or enter another instance. -1: continue; else the reason (enum
 * wasm_exit) why the loop must end. */
int dz_wasm_call_import(struct wasm_ctx *ctx);
/* At an XRET cell: return into the calling instance. */
void dz_wasm_call_return(struct wasm_ctx *ctx);
/* At a RESUME cell: return to the interrupted frame. false: that frame must be unwound. */
bool dz_wasm_injected_done(struct wasm_ctx *ctx);

/* At a DEPTH cell: number this frame from its caller's number. Beyond the limit: a trap. */
bool dz_wasm_depth_enter(struct wasm_ctx *ctx);
/* Number the frames of a stack that came from elsewhere; DZ_ELIMIT: too many. */
int dz_wasm_depth_count(struct dz_wasm_store *s, struct dz_err *err);

/* --- exceptions: wasm_exn.c --------------------------------------------------------- */

/* At a THROW or THROW_REF cell: set ctx->throwing, and pc to the next cell. */
bool dz_wasm_throw(struct wasm_ctx *ctx);
bool dz_wasm_throw_ref(struct wasm_ctx *ctx);
/* Unwind from ctx->fp, ctx->pc (a return address) to the frame that catches. -1: continue there;
 * else the reason why the loop must end. */
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
/* Do one part of an operation with the operands to[0..2]. indices: first | second << 32. */
enum wasm_bulk_result dz_wasm_bulk(struct wasm_ctx *ctx, unsigned op, uint64_t indices,
                                   uint64_t *to);

/* Convert items of an element segment to references. */
void dz_wasm_elem_items(const struct dz_wasm_inst *inst, uint64_t *to, const uint32_t *items,
                        uint64_t count);

/* Grow a memory. Returns the old size, or UINT32_MAX if it cannot grow. */
uint32_t dz_wasm_mem_grow(struct wasm_ctx *ctx, uint32_t index, uint32_t pages);
/* May this reference be stored in the table? Slots of a loaded state may hold anything. */
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
/* Initialise a table with the module's image of it. DZ_ENOMEM, or the error of mapping it. */
int dz_wasm_table_lay(const struct dz_wasm_module *m, struct wasm_table *t, struct dz_err *err);
/* Set the elements [at, at + count) to `from`. Mapped pages of the module that already have these
 * elements are not written, so that they stay shared. */
void dz_wasm_table_put(struct wasm_table *t, uint32_t at, const uint64_t *from, uint32_t count);
void dz_wasm_table_release(struct wasm_table *t); /* frees its elements */

#endif
