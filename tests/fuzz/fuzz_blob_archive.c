/* SPDX-License-Identifier: MIT
 * Archives: any bytes are read without harm, and what was compressed comes back
 * as it was, with the same hash. */
#include "../lib/blob_memory.h"
#include "blob/blob_cold.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_in in = MEMORY_IN(data, size);
    struct memory_out packed = MEMORY_OUT, out = MEMORY_OUT;
    uint8_t first[DZ_SHA256_BYTES], second[DZ_SHA256_BYTES];
    struct dz_err err;
    if (dz_cold_expand(&in.head, &out.head, NULL, first, &err) < 0)
        assert(err.msg[0]);
    dz_buf_reset(&out.bytes);
    int rc = dz_cold_compress(&in.head, &packed.head, NULL, first, &err);
    assert(rc == 0);
    struct memory_in back = MEMORY_IN(packed.bytes.p, packed.bytes.len);
    rc = dz_cold_expand(&back.head, &out.head, NULL, second, &err);
    assert(rc == 0 && memcmp(first, second, sizeof first) == 0);
    assert(out.bytes.len == size && (size == 0 || memcmp(out.bytes.p, data, size) == 0));
    dz_buf_release(&packed.bytes);
    dz_buf_release(&out.bytes);
    return 0;
}
