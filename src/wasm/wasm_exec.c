/* SPDX-License-Identifier: MIT
 *
 * wasm_exec.c - the interpreter's loop, built from the handlers.
 *
 * One function that holds every handler; compiled twice. By itself, as a
 * portable switch over handler numbers: dz_wasm_exec_switch(). Included by
 * wasm_exec_goto.c with WASM_EXEC_GOTO, as gcc's labels as values:
 * dz_wasm_exec_goto(), in which each handler ends by its own indirect jump, which helps the branch
 * predictor (scripts/check-dispatch counts them; clang merges them, so this build is left out
 * there). Both run the same cells, except for word 0, and leave the same state.
 *
 * Invariants:
 *   1. Between cells, all that lives is in the slots, the instances and the
 *      registers pc, fp and the three accumulators; at a safepoint the
 *      accumulators are dead.
 *   2. Before anything that may stop, trap or look at frames, pc and fp are
 *      written back to ctx (SAVE), pc being the address of the cell at work.
 * An assertion in a handler would be in the loop that all guests run in. Instead make spec runs
 * both loops, and make freeze stops, saves and compares at any safepoint.
 */
#include "wasm/wasm_exec.h"
#include "wasm/wasm_rt.h"
#include "wasm/wasm_simd.h"

#include <string.h>

#define FC   (((const uint16_t *)(const void *)(pc + 1))[0])
#define FA   (((const uint16_t *)(const void *)(pc + 1))[1])
#define FB   (((const uint16_t *)(const void *)(pc + 1))[2])
#define FD   (((const uint16_t *)(const void *)(pc + 1))[3])
#define IMM  (((const int32_t *)(const void *)(pc + 1))[1])
#define UIMM (((const uint32_t *)(const void *)(pc + 1))[1])
#define G(n) (((const uint16_t *)(const void *)(pc + 2))[n])

static inline uint32_t sign16(uint16_t v)
{
    return (uint32_t)(int32_t)(int16_t)v;
}

#define SLOT(T, i)        (*(T *)(void *)(fp + (i)))
#define PUT(i, v)         (acc = (v), fp[i] = acc)
#define PUT_ACC(i, v)     (acc = (v))
#define PUT_F32(i, v)     (gacc = (v), fp[i] = dz_f32_bits(gacc))
#define PUT_F32_ACC(i, v) (gacc = (v))
#define PUT_F64(i, v)     (facc = (v), fp[i] = dz_f64_bits(facc))
#define PUT_F64_ACC(i, v) (facc = (v))
#define VGET(i)           dz_v128_load(fp + (i))
#define VPUT(i, v)        dz_v128_store(fp + (i), (v))

#define ADDR(a, n)                                \
    uint64_t ea = (uint64_t)(uint32_t)(a) + UIMM; \
    if (dz_unlikely(ea + (n) > ctx->msize))       \
        goto oob_memory;
#define LOAD(T)                           \
    ({                                    \
        T v_;                             \
        memcpy(&v_, mem + ea, sizeof v_); \
        v_;                               \
    })
#define STORE(T, v)                       \
    do {                                  \
        T v_ = (v);                       \
        memcpy(mem + ea, &v_, sizeof v_); \
    } while (0)

#define TRAP(KIND)                       \
    do {                                 \
        ctx->trap = DZ_WASM_TRAP_##KIND; \
        goto trapped;                    \
    } while (0)
#define SAVE   (ctx->pc = pc, ctx->fp = fp, ctx->acc = acc)
#define RELOAD (pc = ctx->pc, fp = ctx->fp, mem = ctx->mem, acc = ctx->acc)
#define EXIT(WHY)               \
    do {                        \
        SAVE;                   \
        return WASM_EXIT_##WHY; \
    } while (0)
#define GO(words)      \
    do {               \
        pc += (words); \
        NEXT;          \
    } while (0)
#define GO_BACK(words)                                                           \
    do {                                                                         \
        pc += (words);                                                           \
        if (dz_unlikely(atomic_load_explicit(&ctx->flag, memory_order_relaxed))) \
            goto flagged;                                                        \
        NEXT;                                                                    \
    } while (0)

#ifdef WASM_EXEC_GOTO
#define NEXT               goto *(const void *)(uintptr_t)*pc
#define HANDLER(name, ...) L_##name : __VA_ARGS__
#define NAME               dz_wasm_exec_goto
#else
#define NEXT goto next
#define HANDLER(name, ...) \
    case H_##name:         \
        __VA_ARGS__
#define NAME dz_wasm_exec_switch
#endif

#define OP2(name, ...) HANDLER(name, {__VA_ARGS__} GO(2);)
#define OP3(name, ...) HANDLER(name, {__VA_ARGS__} GO(3);)
#define OP4(name, ...) HANDLER(name, {__VA_ARGS__} GO(4);)
#define OPX(name, ...) HANDLER(name, {__VA_ARGS__})

#ifdef WASM_EXEC_GOTO
/* Labels have addresses only inside the function. */
static wasm_word handler_table[H_COUNT];
#endif

enum wasm_exit NAME(struct wasm_ctx *ctx) /* NOLINT(readability-function-size): all handlers */
{
#ifdef WASM_EXEC_GOTO
    if (!ctx) {
#undef OP2
#undef OP3
#undef OP4
#undef OPX
#define OP2(name, ...) [H_##name] = &&L_##name,
#define OP3(name, ...) [H_##name] = &&L_##name,
#define OP4(name, ...) [H_##name] = &&L_##name,
#define OPX(name, ...) [H_##name] = &&L_##name,
        static const void *const labels[H_COUNT] = {
#include "wasm/wasm_exec_handlers.inc"
        };
        for (int i = 0; i < H_COUNT; i++)
            handler_table[i] = (wasm_word)(uintptr_t)labels[i];
        return WASM_EXIT_HALT;
#undef OP2
#undef OP3
#undef OP4
#undef OPX
#define OP2(name, ...) HANDLER(name, {__VA_ARGS__} GO(2);)
#define OP3(name, ...) HANDLER(name, {__VA_ARGS__} GO(3);)
#define OP4(name, ...) HANDLER(name, {__VA_ARGS__} GO(4);)
#define OPX(name, ...) HANDLER(name, {__VA_ARGS__})
    }
#endif
    const wasm_word *pc = ctx->pc;
    uint64_t *fp = ctx->fp;
    uint8_t *mem = ctx->mem;
    uint64_t acc = ctx->acc;
    double facc = 0;
    float gacc = 0;
    int exit;

#ifdef WASM_EXEC_GOTO
    NEXT;
#include "wasm/wasm_exec_handlers.inc"
#else
next:
    switch ((enum wasm_handler) * pc) {
#include "wasm/wasm_exec_handlers.inc"
    case H_COUNT:
        break;
    }
    TRAP(UNREACHABLE); /* unreachable: every word 0 comes from the translator */
#endif

flagged:
    EXIT(FLAG);
no_room: /* Room but no flag: an interrupt took the limit while the driver was lowering the flag.
          * Stop. */
    if (atomic_load_explicit(&ctx->flag, memory_order_relaxed) ||
        fp + UIMM <= wasm_store_of(ctx)->limit)
        goto flagged;
    TRAP(STACK);
oob_memory:
    TRAP(OOB_MEMORY);
trapped:
    EXIT(TRAP);
}

#ifdef WASM_EXEC_GOTO
const wasm_word *dz_wasm_exec_goto_handlers(void)
{
    if (handler_table[0] == 0)
        (void)dz_wasm_exec_goto(NULL);
    return handler_table;
}
#endif
