/* SPDX-License-Identifier: MIT
 *
 * wasm_anon.c - address space from anonymous mappings, for code arenas, slot arrays and, by
 * default, memories.
 *
 * The last memory that was released is kept, with the contents of its first pages, for the
 * next copy of a process. There is one such spare for all threads; a thread that finds it locked
 * does without it.
 */
#include "base/vm.h"
#include "wasm/wasm.h"

#include <stdatomic.h>

enum {
    SPARE_MAX = 2 << 20, /* bytes of pages that are kept */
};
static struct {
    atomic_flag busy;
    void *base; /* NULL: none */
    size_t size, committed;
} spare = {.busy = ATOMIC_FLAG_INIT};

static bool spare_lock(void)
{
    return !atomic_flag_test_and_set_explicit(&spare.busy, memory_order_acquire);
}
static void spare_unlock(void)
{
    atomic_flag_clear_explicit(&spare.busy, memory_order_release);
}

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

static void anon_keep(void *ctx, void *base, size_t size, size_t committed)
{
    if (committed > SPARE_MAX)
        committed = SPARE_MAX;
    if (committed == 0 || !spare_lock()) {
        anon_release(ctx, base, size);
        return;
    }
    if (size > committed && dz_vm_decommit((char *)base + committed, size - committed, NULL) < 0) {
        anon_release(ctx, base, size);
    } else {
        dz_vm_release(spare.base, spare.size);
        spare.base = base;
        spare.size = size;
        spare.committed = committed;
    }
    spare_unlock();
}

static bool anon_reuse(void *ctx, size_t size, void **ret_base, size_t *ret_old)
{
    (void)ctx;
    if (!spare_lock())
        return false;
    bool found = spare.base && spare.size == size;
    if (found) {
        *ret_base = spare.base;
        *ret_old = spare.committed;
        spare.base = NULL;
    }
    spare_unlock();
    return found;
}

/* Map new pages: madvise() would bring back the file that may be mapped there. */
static int anon_clear(void *ctx, void *base, size_t from, size_t to, struct dz_err *err)
{
    (void)ctx;
    int rc = dz_vm_decommit((char *)base + from, to - from, err);
    return rc == 0 ? dz_vm_commit((char *)base + from, to - from, err) : rc;
}

void dz_wasm_mem_trim(void)
{
    if (!spare_lock())
        return;
    dz_vm_release(spare.base, spare.size);
    spare.base = NULL;
    spare_unlock();
}

const struct dz_wasm_mem_ops dz_wasm_mem_anon = {
    .reserve = anon_reserve,
    .commit = anon_commit,
    .release = anon_release,
    .keep = anon_keep,
    .reuse = anon_reuse,
    .clear = anon_clear,
};
