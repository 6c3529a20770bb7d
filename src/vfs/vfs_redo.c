/* SPDX-License-Identifier: MIT
 *
 * vfs_redo.c - the rows written since the last commit, in memory.
 *
 * SQLite gives a transaction up as a whole when the disk is full, when I/O fails
 * or memory is short. The guest was told long ago that its writes succeeded, so
 * they must not be lost: the same rows are written again from here.
 *
 * Entries lie one behind another in blocks: struct dz_row, then its name, then
 * its data, padded to 8 bytes. The pointers inside a stored row are of no
 * meaning; dz_redo_each() computes them anew. A mark is a position; cutting
 * back to it frees the blocks behind.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include "base/mem.h"

enum {
    BLOCK_BYTES = 16 << 10
};

struct dz_redo_block {
    struct dz_redo_block *next;
    size_t used, cap;
    alignas(8) uint8_t bytes[];
};

static size_t entry_bytes(const struct dz_row *row)
{
    return (sizeof *row + row->name_len + row->data_len + 7) & ~(size_t)7;
}

static struct dz_redo_block *block_for(struct dz_redo *r, size_t need)
{
    struct dz_redo_block *b = r->last;
    if (b && b->cap - b->used >= need)
        return b;
    size_t cap = need > BLOCK_BYTES ? need : BLOCK_BYTES;
    b = dz_alloc(sizeof *b + cap);
    if (!b)
        return NULL;
    *b = (struct dz_redo_block){.cap = cap};
    if (r->last)
        r->last->next = b;
    else
        r->first = b;
    r->last = b;
    return b;
}

int dz_redo_add(struct dz_redo *r, const struct dz_row *row)
{
    size_t need = entry_bytes(row);
    struct dz_redo_block *b = block_for(r, need);
    if (!b)
        return -ENOMEM;
    uint8_t *p = b->bytes + b->used;
    memcpy(p, row, sizeof *row);
    if (row->name_len)
        memcpy(p + sizeof *row, row->name, row->name_len);
    if (row->data_len)
        memcpy(p + sizeof *row + row->name_len, row->data, row->data_len);
    b->used += need;
    r->bytes += need;
    r->count++;
    return 0;
}

struct dz_redo_mark dz_redo_mark(const struct dz_redo *r)
{
    return (struct dz_redo_mark){r->last, r->last ? r->last->used : 0, r->bytes, r->count};
}

static void free_chain(struct dz_redo_block *b)
{
    while (b) {
        struct dz_redo_block *next = b->next;
        dz_free(b);
        b = next;
    }
}

void dz_redo_cut(struct dz_redo *r, struct dz_redo_mark mark)
{
    assert(mark.count <= r->count);
    if (!mark.last) { /* back to nothing: keep one block for the next transaction */
        struct dz_redo_block *keep = r->first;
        if (keep && keep->cap == BLOCK_BYTES) {
            free_chain(keep->next);
            keep->next = NULL;
            keep->used = 0;
        } else {
            free_chain(keep);
            keep = NULL;
        }
        *r = (struct dz_redo){.first = keep, .last = keep};
        return;
    }
    free_chain(mark.last->next);
    mark.last->next = NULL;
    mark.last->used = mark.used;
    r->last = mark.last;
    r->bytes = mark.bytes;
    r->count = mark.count;
}

void dz_redo_release(struct dz_redo *r)
{
    free_chain(r->first);
    *r = (struct dz_redo){0};
}

int dz_redo_each(const struct dz_redo *r, int (*fn)(void *arg, const struct dz_row *row), void *arg)
{
    for (const struct dz_redo_block *b = r->first; b; b = b->next) {
        for (size_t at = 0; at < b->used;) {
            struct dz_row row;
            const uint8_t *p = b->bytes + at;
            memcpy(&row, p, sizeof row);
            row.name = p + sizeof row;
            row.data = row.data ? p + sizeof row + row.name_len : NULL;
            int rc = fn(arg, &row);
            if (rc)
                return rc;
            at += entry_bytes(&row);
        }
    }
    return 0;
}
