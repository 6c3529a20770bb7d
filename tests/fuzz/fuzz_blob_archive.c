/* SPDX-License-Identifier: MIT
 * Archives: any bytes are read without harm, and what was compressed comes back
 * as it was, with the same hash. */
#include "base/buf.h"
#include "blob/blob_cold.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory_in {
    struct dz_blob_in head;
    const uint8_t *data;
};
static int memory_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    (void)err;
    memcpy(buf, ((struct memory_in *)in)->data + at, n);
    return 0;
}
static const struct dz_blob_in_ops in_ops = {memory_read, NULL};

struct memory_out {
    struct dz_blob_out head;
    struct dz_buf bytes;
};
static int memory_write(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *err)
{
    (void)err;
    dz_buf_add(&((struct memory_out *)out)->bytes, data, n);
    return ((struct memory_out *)out)->bytes.err;
}
static const struct dz_blob_out_ops out_ops = {.write = memory_write};

static struct memory_out make_out(void)
{
    return (struct memory_out){{.ops = &out_ops, .fd = -1}, DZ_BUF_INIT(64 << 20)};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_in in = {{&in_ops, size, -1}, data};
    struct memory_out packed = make_out(), out = make_out();
    uint8_t first[DZ_SHA256_BYTES], second[DZ_SHA256_BYTES];
    struct dz_err err;
    if (dz_cold_expand(&in.head, &out.head, NULL, first, &err) < 0)
        assert(err.msg[0]);
    dz_buf_reset(&out.bytes);
    int rc = dz_cold_compress(&in.head, &packed.head, NULL, first, &err);
    assert(rc == 0);
    struct memory_in back = {{&in_ops, packed.bytes.len, -1}, (const uint8_t *)packed.bytes.p};
    rc = dz_cold_expand(&back.head, &out.head, NULL, second, &err);
    assert(rc == 0 && memcmp(first, second, sizeof first) == 0);
    assert(out.bytes.len == size && (size == 0 || memcmp(out.bytes.p, data, size) == 0));
    dz_buf_release(&packed.bytes);
    dz_buf_release(&out.bytes);
    return 0;
}
