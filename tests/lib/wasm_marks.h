/* SPDX-License-Identifier: MIT
 *
 * wasm_marks.h - setjmp and longjmp as imports of a test's host: mark(at) stores a token at the
 * guest's address and returns 0; jump(at, value) returns to it.
 */
#ifndef DZ_TEST_WASM_MARKS_H
#define DZ_TEST_WASM_MARKS_H

#include "wasm/wasm.h"

#include <string.h>

static inline enum dz_wasm_host_result host_mark(void *user, struct dz_wasm_inst *inst,
                                                 uint64_t *slots)
{
    uint64_t token[2];
    uint8_t *at = dz_wasm_mem(inst, 0, (uint32_t)slots[0], sizeof token);
    (void)user;
    if (!at || dz_wasm_mark(inst, token, NULL) < 0)
        return DZ_WASM_HOST_TRAP;
    memcpy(at, token, sizeof token);
    slots[0] = 0;
    return DZ_WASM_HOST_DONE;
}

static inline enum dz_wasm_host_result host_jump(void *user, struct dz_wasm_inst *inst,
                                                 uint64_t *slots)
{
    uint64_t token[2];
    const uint8_t *at = dz_wasm_mem(inst, 0, (uint32_t)slots[0], sizeof token);
    (void)user;
    if (!at)
        return DZ_WASM_HOST_TRAP;
    memcpy(token, at, sizeof token);
    return dz_wasm_jump(inst, token, (uint32_t)slots[1], NULL) < 0 ? DZ_WASM_HOST_TRAP
                                                                   : DZ_WASM_HOST_JUMP;
}

#endif
