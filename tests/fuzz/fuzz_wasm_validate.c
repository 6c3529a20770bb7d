/* SPDX-License-Identifier: MIT
 *
 * Bytes that begin with "dozewasm" are opened as a prepared module, with the
 * checksum made right first, so that the checks behind it are reached. All
 * others are a WebAssembly binary: decode, validate, prepare, open. What was
 * accepted must open, and what WebAssembly 2.0 accepts must also be accepted
 * with everything switched on. */
#include "base/mem.h"
#include "wasm/wasm_load.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

static void look_around(struct dz_wasm_module *m)
{
    char name[40];
    const uint8_t *body;
    unsigned seen = 0;
    for (uint32_t i = 0; i < m->n_funcs; i++) {
        if (i < 3)
            (void)dz_wasm_module_func_name(m, i, name, sizeof name);
        if (i >= m->header->n_imported[DZ_WASM_KIND_FUNC])
            seen += dz_wasm_module_body(m, i, &body, NULL) == 0;
        (void)dz_wasm_type_eq(m, m->funcs[i].type, m, 0);
    }
    for (uint32_t i = 0; i < m->n_exports && i < 100; i++)
        (void)dz_wasm_module_export(m, (const char *)m->wasm + m->exports[i].name.offset,
                                    m->exports[i].name.size);
    assert(seen <= m->n_funcs);
}

static void open_flat(const uint8_t *data, size_t size)
{
    struct dz_wasm_module *m = NULL;
    struct dz_wasm_header h;
    uint8_t *copy = dz_alloc(size);
    memcpy(copy, data, size);
    if (size >= sizeof h) {
        memcpy(&h, copy, sizeof h);
        h.meta_sum = 0;
        uint64_t sum = dz_wasm_sum(0, &h, sizeof h);
        bool inside = true;
#define X(field, type)                                                       \
    if (h.array[DZ_WASM_ARRAY_##field].offset > size ||                      \
        h.array[DZ_WASM_ARRAY_##field].count >                               \
            (size - h.array[DZ_WASM_ARRAY_##field].offset) / sizeof(type))   \
        inside = false;                                                      \
    else                                                                     \
        sum = dz_wasm_sum(sum, copy + h.array[DZ_WASM_ARRAY_##field].offset, \
                          h.array[DZ_WASM_ARRAY_##field].count * sizeof(type));
        DZ_WASM_ARRAY_MAP(X)
#undef X
        h.meta_sum = sum;
        h.total_size = size;
        if (inside)
            memcpy(copy, &h, sizeof h);
    }
    if (dz_wasm_module_open(copy, size, &m, NULL) == 0)
        look_around(m);
    dz_wasm_module_close(m);
    dz_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 8 && memcmp(data, "dozewasm", 8) == 0) {
        open_flat(data, size);
        return 0;
    }
    int narrow = dz_wasm_validate(data, size, DZ_WASM_F_2_0, NULL, NULL);
    int wide = dz_wasm_validate(data, size, DZ_WASM_F_ALL, NULL, NULL);
    assert(narrow != 0 || wide == 0);
    if (wide != 0)
        return 0;
    void *flat;
    size_t n;
    struct dz_wasm_module *m;
    int r = dz_wasm_prepare_alloc(data, size, DZ_WASM_F_ALL, &flat, &n, NULL);
    assert(r == 0);
    r = dz_wasm_module_open(flat, n, &m, NULL);
    assert(r == 0);
    look_around(m);
    dz_wasm_module_close(m);
    dz_free(flat);
    return 0;
}
