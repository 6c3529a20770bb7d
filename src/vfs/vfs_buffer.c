/* SPDX-License-Identifier: MIT
 *
 * vfs_buffer.c - chunks that were changed since the last commit, in memory.
 *
 * A write changes a buffer and no row. The commit writes each buffer as one row, or patches the
 * bytes of a row whose length stays, and frees the buffer. So a chunk that is written in many
 * steps becomes one row, and a file that is removed before the commit costs no row at all.
 *
 *     write ---> buffer ---commit---> row ---> transaction, redo log (vfs_tx.c)
 *                  ^
 *     read --------'  else the row, else the image
 *
 * Invariants:
 *   1. A buffer holds the whole content of its chunk, `len` bytes; its row, if any, is not read.
 *   2. The inode of a buffer is dirty, so it stays in memory, and the commit reaches it.
 *   3. used_bytes counts `len` of a buffer in place of the length of its row: quotas are decided
 *      by the write, not by the commit.
 *   4. buffer_bytes is the memory of all buffers; beyond a bound the next change commits first.
 * An operation changes buffers only when nothing can fail any more, like all memory (vfs_int.h).
 */
#include "vfs/vfs_int.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

static struct dz_buffer **bucket_of(struct dz_vfs *v, uint64_t id)
{
    return &v->buffer[(id ^ id >> DZ_VFS_CHUNK_BITS) % DZ_VFS_BUFFER_BUCKETS];
}

struct dz_buffer *dz_buffer_find(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index)
{
    const uint64_t id = dz_chunk_id(ip->ino, index);
    if (!ip->buffers)
        return NULL;
    struct dz_buffer *b = *bucket_of(v, id);
    while (b && b->id != id)
        b = b->chain;
    return b;
}

/* Powers of two, so that a chunk that grows step by step is moved a few times only. */
static uint32_t room_for(size_t size)
{
    uint32_t cap = 512;
    while (cap < size)
        cap *= 2;
    return cap;
}

struct dz_buffer *dz_buffer_new(size_t size)
{
    struct dz_buffer *b = dz_zalloc(sizeof *b);
    uint8_t *data = b ? dz_alloc(size) : NULL;
    if (!data) {
        dz_free(b);
        return NULL;
    }
    b->data = data;
    b->cap = (uint32_t)size;
    b->row_len = -1;
    return b;
}

void dz_buffer_free(struct dz_buffer *b)
{
    if (b)
        dz_free(b->data);
    dz_free(b);
}

int dz_buffer_grow(struct dz_vfs *v, struct dz_buffer *b, size_t size)
{
    if (size <= b->cap)
        return 0;
    const uint32_t cap = room_for(size);
    uint8_t *data = dz_realloc(b->data, cap);
    if (!data)
        return -ENOMEM;
    v->buffer_bytes += cap - b->cap;
    b->data = data;
    b->cap = cap;
    return 0;
}

void dz_buffer_add(struct dz_vfs *v, struct dz_inode *ip, uint64_t index, struct dz_buffer *b)
{
    assert(!dz_buffer_find(v, ip, index) && !ip->data);
    b->id = dz_chunk_id(ip->ino, index);
    struct dz_buffer **at = bucket_of(v, b->id);
    b->chain = *at;
    *at = b;
    if (ip->buffers) {
        b->next = ip->buffers;
        b->prev = b->next->prev;
        b->prev->next = b->next->prev = b;
    } else {
        ip->buffers = b->next = b->prev = b;
    }
    v->buffer_bytes += sizeof *b + b->cap;
}

static void take_out(struct dz_vfs *v, struct dz_inode *ip, struct dz_buffer *b)
{
    struct dz_buffer **at = bucket_of(v, b->id);
    while (*at != b) {
        assert(*at);
        at = &(*at)->chain;
    }
    *at = b->chain;
    b->prev->next = b->next;
    b->next->prev = b->prev;
    if (ip->buffers == b)
        ip->buffers = b->next == b ? NULL : b->next;
    v->buffer_bytes -= sizeof *b + b->cap;
    dz_buffer_free(b);
}

static int64_t beyond_row(const struct dz_buffer *b)
{
    return (int64_t)b->len - (b->row_len > 0 ? b->row_len : 0);
}

static uint64_t index_of(const struct dz_buffer *b)
{
    return b->id & ((1u << DZ_VFS_CHUNK_BITS) - 1);
}

void dz_buffers_drop(struct dz_vfs *v, struct dz_inode *ip, uint64_t first, uint64_t last)
{
    struct dz_buffer *b = ip->buffers, *end = b ? b->prev : NULL;
    while (b) {
        struct dz_buffer *next = b == end ? NULL : b->next;
        if (index_of(b) >= first && index_of(b) <= last) {
            v->used_bytes -= beyond_row(b);
            take_out(v, ip, b);
        }
        b = next;
    }
}

void dz_buffer_changed(struct dz_buffer *b, size_t from, size_t upto)
{
    if (b->upto == 0 || from < b->from)
        b->from = (uint32_t)from;
    if (upto > b->upto)
        b->upto = (uint32_t)upto;
}

int dz_buffers_write(struct dz_vfs *v, struct dz_inode *ip)
{
    while (ip->buffers) {
        struct dz_buffer *b = ip->buffers;
        const bool same = b->row_len >= 0 && (uint32_t)b->row_len == b->len;
        const struct dz_row put = {
            .kind = DZ_ROW_PUT_CHUNK, .n = {(int64_t)b->id}, .data = b->data, .data_len = b->len};
        const struct dz_row patch = {.kind = DZ_ROW_PATCH_CHUNK,
                                     .n = {(int64_t)b->id, b->from},
                                     .data = b->data + b->from,
                                     .data_len = b->upto - b->from};
        int rc = !same ? dz_row_write(v, &put) : b->upto > b->from ? dz_row_write(v, &patch) : 0;
        if (rc)
            return rc;
        ip->rows = true;
        dz_chunk_len_set(v, b->id, b->len);
        take_out(v, ip, b);
    }
    return 0;
}

int64_t dz_buffers_beyond_rows(const struct dz_inode *ip)
{
    const struct dz_buffer *b = ip->buffers;
    int64_t bytes = 0;
    while (b) {
        bytes += beyond_row(b);
        b = b->next == ip->buffers ? NULL : b->next;
    }
    return bytes;
}

uint64_t dz_buffers_next(const struct dz_inode *ip, uint64_t index)
{
    const struct dz_buffer *b = ip->buffers;
    uint64_t least = UINT64_MAX;
    while (b) {
        if (index_of(b) >= index && index_of(b) < least)
            least = index_of(b);
        b = b->next == ip->buffers ? NULL : b->next;
    }
    return least;
}
