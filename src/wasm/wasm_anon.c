/* SPDX-License-Identifier: MIT
 *
 * wasm_anon.c - address space from anonymous mappings: the default for
 * memories, and where code arenas and slot arrays lie. The only file of the
 * engine that asks the system for anything.
 */
#include "wasm/wasm.h"

#include <errno.h>
#include <sys/mman.h>

static int anon_reserve(void *ctx, size_t size, void **ret_base, struct dz_err *err)
{
    (void)ctx;
    void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return dz_fail_sys(err, errno, "cannot reserve %zu bytes of address space", size);
    *ret_base = p;
    return 0;
}

static int anon_commit(void *ctx, void *base, size_t old, size_t size, struct dz_err *err)
{
    (void)ctx;
    if (mprotect((char *)base + old, size - old, PROT_READ | PROT_WRITE) < 0)
        return dz_fail_sys(err, errno, "cannot use %zu more bytes of a reservation", size - old);
    return 0;
}

static void anon_release(void *ctx, void *base, size_t size)
{
    (void)ctx;
    (void)munmap(base, size);
}

const struct dz_wasm_mem_ops dz_wasm_mem_anon = {
    .reserve = anon_reserve,
    .commit = anon_commit,
    .release = anon_release,
};
