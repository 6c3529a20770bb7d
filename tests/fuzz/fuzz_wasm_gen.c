/* SPDX-License-Identifier: MIT
 *
 * Valid modules made from the input: every way of running one must agree. */
#include "wasm_gen.h"
#include "wasm_play.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gen g;
    struct dz_err err = {0};
    size_t n = gen_module(&g, data, size);
    if (dz_wasm_validate(g.out, n, DZ_WASM_F_ALL, NULL, &err) < 0) {
        (void)fprintf(stderr, "the generator made an invalid module: %s\n", err.msg);
        abort();
    }
    play(g.out, n, true);
    return 0;
}
