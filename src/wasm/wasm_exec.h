/* SPDX-License-Identifier: MIT
 *
 * wasm_exec.h - the macros in which handlers are written.
 *
 * wasm_exec_handlers.inc has each handler exactly once, as
 *
 *     OP2(NAME, statements)         a cell of two words; continues after it
 *     OP3(NAME, statements)         of three
 *     OP4(NAME, statements)         of four
 *     OPX(NAME, statements)         chooses the next cell: must end by GO(words), NEXT or EXIT
 *
 * and is included several times: for the numbers (H_NAME), for the table of addresses, for the loop
 * itself. The statements are a block of their own.
 *
 * A cell:   word 0  address or number of the handler
 *           word 1  16-bit fields FC (bits 0-15), FA (16-31), FB (32-47),
 *                   FD (48-63); IMM/UIMM = the upper half, where FB, FD lie
 *           word 2, 3 when the handler has them: pc[2], pc[3]; G(0) to G(3)
 *           are the 16-bit fields of word 2, sign16() extends one
 * By convention FC is the slot of the result (the translator redirects it), FA,
 * FB, FD those of the operands from left to right. A memory access has its
 * offset in UIMM and its address in slot FA; a store its value in slot FC.
 *
 * Registers of the loop: pc, fp, mem (base of memory 0), ctx, acc (integer
 * accumulator), facc (f64), gacc (f32). Handlers that write an integer result
 * go through PUT(), which leaves the value in acc too: the translator counts
 * on it. Handlers that do not produce an integer leave acc alone, and the same
 * holds for facc and gacc.
 *
 *     SLOT(T, i)         slot i of the frame, read or written as T (8 bytes at
 *                        most; write whole slots by PUT)
 *     PUT(i, v)          write integer v, zero-extended from its own type
 *                        (cast to uint32_t or uint64_t first)
 *     PUT_F32(i, v) PUT_F64(i, v)   and gacc, facc
 *     VGET(i) VPUT(i, v) a dz_v128 from/to slots i, i+1
 *     ADDR(a, n)         start of an access: declares `ea`, the effective
 *                        address of n bytes at 32-bit address a plus UIMM, or traps
 *     LOAD(T) STORE(T, v)   at ea
 *     TRAP(KIND)         DZ_WASM_TRAP_KIND at this cell
 *     ctx, mem           as above
 *
 * Another memory than 0: the translator puts a MEM_USE cell before and another
 * after, which change what mem and ctx->msize mean; handlers need not care.
 */
#ifndef DZ_WASM_EXEC_H
#define DZ_WASM_EXEC_H

#include "wasm/wasm_int.h"
#include "wasm/wasm_simd_map.h"

enum wasm_handler {
#define OP2(name, ...) H_##name,
#define OP3(name, ...) H_##name,
#define OP4(name, ...) H_##name,
#define OPX(name, ...) H_##name,
#include "wasm/wasm_exec_handlers.inc"
#undef OP2
#undef OP3
#undef OP4
#undef OPX
    H_COUNT
};

#endif
