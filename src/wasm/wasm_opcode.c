/* SPDX-License-Identifier: MIT
 *
 * wasm_opcode.c - the instruction table at run time, indexed by number.
 */
#include "wasm/wasm_opcode.h"

#define COUNT(a, b, c) (((a) != 0) + ((b) != 0) + ((c) != 0))

enum {
#define X(name, a, b, c, r) POPS_##name = COUNT(a, b, c),
    DZ_WASM_SIG_MAP(X)
#undef X
};

#define X(name, a, b, c, r) \
    enum {                  \
        A_##name = (a),     \
        B_##name = (b),     \
        C_##name = (c),     \
        R_##name = (r)      \
    };
DZ_WASM_SIG_MAP(X)
#undef X

const struct dz_wasm_op_info dz_wasm_op_table[DZ_WASM_OP_LIMIT] = {
#define X(op, name, number, immediates, signature, needs, argument)           \
    [number] = {                                                              \
        .text = (name),                                                       \
        .imm = DZ_WASM_IMM_##immediates,                                      \
        .sig = DZ_WASM_SIG_##signature,                                       \
        .arg = (argument),                                                    \
        .pops = POPS_##signature,                                             \
        .type = {A_##signature, B_##signature, C_##signature, R_##signature}, \
        .feature = DZ_WASM_F_##needs,                                         \
    },
    DZ_WASM_OP_MAP(X)
#undef X
};
