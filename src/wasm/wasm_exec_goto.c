/* SPDX-License-Identifier: MIT
 *
 * wasm_exec_goto.c - the loop of wasm_exec.c with gcc's labels as values. This loop is left out
 * with clang, which would merge the indirect jumps, and in builds with sanitizers, which would
 * take minutes to compile it.
 */
#if defined(__GNUC__) && !defined(__clang__) && !defined(DZ_WASM_NO_GOTO)
#define WASM_EXEC_GOTO 1
#include "wasm/wasm_exec.c"
#else
#include "wasm/wasm_int.h"

enum wasm_exit dz_wasm_exec_goto(struct wasm_ctx *ctx)
{
    return dz_wasm_exec_switch(ctx);
}
const wasm_word *dz_wasm_exec_goto_handlers(void)
{
    return NULL;
}
#endif
