/* SPDX-License-Identifier: MIT
 *
 * kernel_table.c - tables of rows, blobs, rings.
 *
 * A table gives out the lowest free index, so numbers stay small and a saved machine is compact.
 * Rows are allocated in chunks of CHUNK_BYTES and never move; chunks are kept until the kernel is
 * freed.
 *
 * Invariants:
 *   1. row index i lies in chunks[(i-1) / chunk_rows]; row->index == i while used
 *      (dz_k_row_free, and dz_k_assert_all of every row);
 *   2. every index below hint is used; no index above high is (assert_table sees what
 *      follows from that for the counts, dz_k_assert_all looks at every index).
 */
#include "kernel/kernel_int.h"

#include "base/vm.h"

enum {
    CHUNKS_FIRST = 4,
    CHUNK_BYTES = 8192, /* most machines have few rows of a large kind */
    CHUNK_ROWS_MAX = 32,
    CHUNK_ROWS_MIN = 4,
};

/* The first members of every row. */
struct row {
    uint32_t used, index;
};

void dz_k_table_init(struct dz_k_table *t, size_t elem, uint32_t max)
{
    uint32_t rows = (uint32_t)(CHUNK_BYTES / elem);
    rows = rows > CHUNK_ROWS_MAX ? CHUNK_ROWS_MAX : rows < CHUNK_ROWS_MIN ? CHUNK_ROWS_MIN : rows;
    *t = (struct dz_k_table){.elem = (uint32_t)elem, .chunk_rows = rows, .max = max, .hint = 1};
}

void dz_k_table_release(struct dz_k_table *t)
{
    for (uint32_t c = 0; c < t->chunk_count; c++)
        dz_free(t->chunks[c]);
    dz_free(t->chunks);
    *t = (struct dz_k_table){0};
}

static void assert_table(const struct dz_k_table *t)
{
    assert(t->hint >= 1 && t->hint <= t->high + 1);
    assert(t->used >= t->hint - 1 && t->used <= t->high && t->high <= t->max);
}

static struct row *row_at(const struct dz_k_table *t, uint32_t index)
{
    uint32_t c = (index - 1) / t->chunk_rows;
    char *chunk = c < t->chunk_count ? t->chunks[c] : NULL;
    return chunk ? (struct row *)(void *)(chunk + (size_t)((index - 1) % t->chunk_rows) * t->elem)
                 : NULL;
}

/* The place of a row's chunk; NULL: no memory. Most machines need only the first one. */
static void **chunk_of(struct dz_k_table *t, uint32_t index)
{
    uint32_t c = (index - 1) / t->chunk_rows, n = t->chunk_count ? t->chunk_count : CHUNKS_FIRST;
    while (n <= c)
        n *= 2;
    if (n > t->chunk_count) {
        void **p = dz_realloc(t->chunks, n * sizeof *p);
        if (!p)
            return NULL;
        memset(p + t->chunk_count, 0, (n - t->chunk_count) * sizeof *p);
        t->chunks = p;
        t->chunk_count = n;
    }
    return &t->chunks[c];
}

void *dz_k_row(const struct dz_k_table *t, uint32_t index)
{
    if (index == 0 || index > t->high)
        return NULL;
    struct row *r = row_at(t, index);
    return r && r->used ? r : NULL;
}

void *dz_k_row_new_at(struct dz_k_table *t, uint32_t index)
{
    if (index == 0 || index > t->max || dz_k_row(t, index))
        return NULL;
    void **chunk = chunk_of(t, index);
    if (!chunk)
        return NULL;
    if (!*chunk && !(*chunk = dz_zalloc((size_t)t->chunk_rows * t->elem)))
        return NULL;
    struct row *r = row_at(t, index);
    assert(r);
    memset(r, 0, t->elem);
    r->used = 1;
    r->index = index;
    t->used++;
    if (index > t->high)
        t->high = index;
    assert_table(t);
    return r;
}

void *dz_k_row_new(struct dz_k_table *t)
{
    uint32_t i = t->hint;
    while (i <= t->high && dz_k_row(t, i))
        i++;
    if (i > t->max)
        return NULL;
    void *r = dz_k_row_new_at(t, i);
    if (r)
        t->hint = i + 1;
    return r;
}

void dz_k_row_free(struct dz_k_table *t, uint32_t index)
{
    struct row *r = dz_k_row(t, index);
    assert(r && r->index == index);
    r->used = 0;
    t->used--;
    if (index < t->hint)
        t->hint = index;
    while (t->high > 0 && !dz_k_row(t, t->high))
        t->high--;
    assert_table(t);
}

/* ---- total memory, blobs ----------------------------------------------------- */

bool dz_k_charge(struct dz_kernel *k, uint64_t bytes)
{
    if (bytes > k->limits.memory_bytes || k->memory_used > k->limits.memory_bytes - bytes)
        return false;
    k->memory_used += bytes;
    return true;
}

void dz_k_uncharge(struct dz_kernel *k, uint64_t bytes)
{
    assert(k->memory_used >= bytes);
    k->memory_used -= bytes;
}

/* Buffers of pipes, streams and terminals are mapped pages: they are mostly almost empty, and
 * reused heap would have to be cleared. */
static bool has_pages(size_t size)
{
    return size >= DZ_KERNEL_STREAM_SIZE && size % dz_vm_page() == 0;
}

void *dz_k_blob_bytes(size_t size)
{
    return has_pages(size) ? dz_vm_fresh(size) : dz_zalloc(size ? size : 1);
}

static void blob_release(void *p, size_t size)
{
    if (has_pages(size))
        dz_vm_release(p, size);
    else
        dz_free(p);
}

static void *blob_realloc(void *p, size_t old, size_t size)
{
    if (!has_pages(old) && !has_pages(size))
        return dz_realloc(p, size ? size : 1);
    void *to = dz_k_blob_bytes(size);
    if (!to)
        return NULL;
    memcpy(to, p, old < size ? old : size);
    blob_release(p, old);
    return to;
}

uint32_t dz_k_blob_new(struct dz_kernel *k, const void *data, size_t size)
{
    if (!dz_k_charge(k, size))
        return 0;
    struct dz_k_blob *b = dz_k_row_new(&k->blobs);
    if (b)
        b->p = dz_k_blob_bytes(size);
    if (!b || !b->p) {
        if (b)
            dz_k_row_free(&k->blobs, b->index);
        dz_k_uncharge(k, size);
        return 0;
    }
    b->size = size;
    if (data && size)
        memcpy(b->p, data, size);
    return b->index;
}

void dz_k_blob_free(struct dz_kernel *k, uint32_t blob)
{
    struct dz_k_blob *b = dz_k_row(&k->blobs, blob);
    if (!b)
        return;
    dz_k_uncharge(k, b->size);
    blob_release(b->p, b->size);
    b->p = NULL;
    dz_k_row_free(&k->blobs, blob);
}

void *dz_k_blob(const struct dz_kernel *k, uint32_t blob, size_t *ret_size)
{
    const struct dz_k_blob *b = dz_k_row(&k->blobs, blob);
    if (b && ret_size)
        *ret_size = b->size;
    return b ? b->p : NULL;
}

int dz_k_blob_resize(struct dz_kernel *k, uint32_t blob, size_t size)
{
    struct dz_k_blob *b = dz_k_row(&k->blobs, blob);
    assert(b);
    if (size > b->size && !dz_k_charge(k, size - b->size))
        return -ENOMEM;
    uint8_t *p = blob_realloc(b->p, b->size, size);
    if (!p) {
        if (size > b->size)
            dz_k_uncharge(k, size - b->size);
        return -ENOMEM;
    }
    if (size > b->size)
        memset(p + b->size, 0, size - b->size);
    else
        dz_k_uncharge(k, b->size - size);
    b->p = p;
    b->size = size;
    return 0;
}

uint32_t dz_k_blob_dup(struct dz_kernel *k, uint32_t blob)
{
    size_t size = 0;
    const void *p = dz_k_blob(k, blob, &size);
    return p ? dz_k_blob_new(k, p, size) : 0;
}

/* ---- rings ----------------------------------------------------------------------- */

size_t dz_k_ring_put(uint8_t *ring, uint32_t cap, uint32_t head, uint32_t *len, const void *data,
                     size_t n)
{
    assert(*len <= cap && head < cap);
    size_t room = cap - *len, tail = (head + *len) % cap;
    if (n > room)
        n = room;
    size_t first = dz_k_min64(n, cap - tail);
    memcpy(ring + tail, data, first);
    memcpy(ring, (const uint8_t *)data + first, n - first);
    *len += (uint32_t)n;
    return n;
}

size_t dz_k_ring_get(const uint8_t *ring, uint32_t cap, uint32_t *head, uint32_t *len, void *data,
                     size_t n)
{
    assert(*len <= cap && (*head < cap || cap == 0));
    if (n > *len)
        n = *len;
    size_t first = dz_k_min64(n, cap - *head);
    memcpy(data, ring + *head, first);
    memcpy((uint8_t *)data + first, ring, n - first);
    *head = (uint32_t)((*head + n) % cap);
    *len -= (uint32_t)n;
    return n;
}
