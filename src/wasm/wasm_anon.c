/* SPDX-License-Identifier: MIT
 *
 * wasm_anon.c - address space from anonymous mappings: the default for
 * memories, and where code arenas and slot arrays lie.
 */
#include "base/vm.h"
#include "wasm/wasm.h"

static int anon_reserve(void *ctx, size_t size, void **ret_base, struct dz_err *err)
{
    (void)ctx;
    void *p = dz_vm_reserve(size, err);
    if (!p)
        return DZ_ENOMEM;
    *ret_base = p;
    return 0;
}

static int anon_commit(void *ctx, void *base, size_t old, size_t size, struct dz_err *err)
{
    (void)ctx;
    return dz_vm_commit((char *)base + old, size - old, err);
}

static void anon_release(void *ctx, void *base, size_t size)
{
    (void)ctx;
    dz_vm_release(base, size);
}

const struct dz_wasm_mem_ops dz_wasm_mem_anon = {
    .reserve = anon_reserve,
    .commit = anon_commit,
    .release = anon_release,
};
