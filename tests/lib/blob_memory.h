/* SPDX-License-Identifier: MIT
 *
 * blob_memory.h - a reader and a writer of an object that is bytes in memory.
 */
#ifndef DZ_TESTS_BLOB_MEMORY_H
#define DZ_TESTS_BLOB_MEMORY_H

#include "base/buf.h"
#include "blob/blob.h"

#include <stdint.h>
#include <string.h>

struct memory_in {
    struct dz_blob_in head;
    const void *data;
};
static inline int memory_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at,
                              struct dz_err *err)
{
    (void)err;
    memcpy(buf, (const char *)((struct memory_in *)in)->data + at, n);
    return 0;
}
static const struct dz_blob_in_ops memory_in_ops = {memory_read, NULL};
#define MEMORY_IN(data, n) {{.ops = &memory_in_ops, .size = (n), .fd = -1}, (data)}

struct memory_out {
    struct dz_blob_out head;
    struct dz_buf bytes;
};
static inline int memory_write(struct dz_blob_out *out, const void *data, size_t n,
                               struct dz_err *err)
{
    struct dz_buf *b = &((struct memory_out *)out)->bytes;
    dz_buf_add(b, data, n);
    return b->err ? dz_fail(err, b->err, "write to memory: %s", dz_err_text(b->err)) : 0;
}
static const struct dz_blob_out_ops memory_out_ops = {.write = memory_write};
#define MEMORY_OUT {{.ops = &memory_out_ops, .fd = -1}, DZ_BUF_INIT(256 << 20)}

#endif
