/* SPDX-License-Identifier: MIT
 *
 * vfs_chunk.c - the bytes of one chunk of a file.
 *
 * A chunk is a row of at most DZ_VFS_CHUNK bytes; what a row lacks at its end reads
 * as zeros, and so does a chunk without row. Where a chunk comes from:
 *
 *     row here                  -> that row, whatever is below
 *     else row in the image     -> its bytes before the inode's base_size
 *     else                      -> zeros
 *
 * So writing into a chunk of the image copies this chunk up and nothing else, and
 * cutting base_size hides what a truncation took away. A row of length 0 hides
 * the image's with zeros.
 *
 * A row that grows at its end doubles, so that appending a little at a time does
 * not copy the chunk each time; bytes at and after the file's size are zero.
 * Bytes inside a row are changed through a blob handle, which touches only the
 * pages in question.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <string.h>

/* ---- lengths of rows ---------------------------------------------------------------- */

static size_t lens_slot(uint64_t id)
{
    return (id ^ id >> DZ_VFS_CHUNK_BITS) % DZ_VFS_LENS;
}

static void len_set(struct dz_vfs *v, uint64_t id, int64_t len)
{
    v->lens[0][lens_slot(id)].id = id;
    v->lens[0][lens_slot(id)].len = (int32_t)len;
}

void dz_chunk_lens_forget(struct dz_vfs *v)
{
    memset(v->lens[0], 0, sizeof v->lens[0]);
}

static int len_by_statement(struct dz_vfs *v, bool image, uint64_t id, int64_t *ret_len)
{
    struct dz_err e = {0};
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(image ? v->image : v->db, "SELECT length(data) FROM chunk WHERE id=?1");
    dz_bind_int(st, 1, (int64_t)id);
    int r = dz_stmt_step(st, &e);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    *ret_len = r > 0 ? dz_col_int(st, 0) : -1;
    return 0;
}

/* Most chunks that are asked for are there and read next, so the handle goes there at
 * once; but one that is sent to a missing row is lost, and costs a new one. */
static int len_by_handle(struct dz_vfs *v, bool image, uint64_t id, int64_t *ret_len)
{
    struct dz_blob **slot = image ? &v->blob_image : &v->blob_read;
    struct dz_err e = {0};
    int r = dz_blob_on(v, slot, id, &e);
    if (r == DZ_ESTATE)
        r = dz_blob_on(v, slot, id, &e);
    if (r < 0)
        return len_by_statement(v, image, id, ret_len); /* it knows what is wrong, if anything */
    *ret_len = (int64_t)dz_blob_size(*slot);
    return 0;
}

int dz_chunk_len(struct dz_vfs *v, bool image, uint64_t id, int32_t *ret_len)
{
    size_t slot = lens_slot(id);
    int64_t len = -1;
    if (v->lens[image][slot].id == id) {
        *ret_len = v->lens[image][slot].len;
        return 0;
    }
    int rc =
        v->holes[image] ? len_by_statement(v, image, id, &len) : len_by_handle(v, image, id, &len);
    if (rc)
        return rc;
    v->holes[image] = len < 0;
    if (len > DZ_VFS_CHUNK) {
        (void)dz_fail(&v->why, DZ_ECORRUPT, "chunk %llu of inode %llu is too long",
                      (unsigned long long)(id & ((1u << DZ_VFS_CHUNK_BITS) - 1)),
                      (unsigned long long)(id >> DZ_VFS_CHUNK_BITS));
        return -EIO;
    }
    v->lens[image][slot].id = id;
    v->lens[image][slot].len = (int32_t)len;
    *ret_len = (int32_t)len;
    return 0;
}

static int len_here(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index, int32_t *ret_len)
{
    *ret_len = -1;
    return ip->here ? dz_chunk_len(v, false, dz_chunk_id(ip->ino, index), ret_len) : 0;
}

/* How many bytes of the image's chunk show: -1 when it has none or all are hidden. */
static int len_below(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index, int32_t *ret_len)
{
    uint64_t start = index * DZ_VFS_CHUNK;
    *ret_len = -1;
    if (!ip->below || start >= ip->base_size)
        return 0;
    int rc = dz_chunk_len(v, true, dz_chunk_id(ip->ino, index), ret_len);
    if (!rc && *ret_len > 0 && (uint64_t)*ret_len > ip->base_size - start)
        *ret_len = (int32_t)(ip->base_size - start);
    return rc;
}

/* ---- reading ------------------------------------------------------------------------- */

struct span {
    void *buf;
    size_t off, n;
};

static int blob_read(struct dz_vfs *v, bool image, uint64_t id, struct span s)
{
    struct dz_blob **slot = image ? &v->blob_image : &v->blob_read;
    struct dz_err e = {0};
    for (int attempt = 0;; attempt++) {
        int r = dz_blob_on(v, slot, id, &e);
        if (!r)
            r = dz_blob_read(*slot, s.buf, s.n, s.off, &e);
        if (!r)
            return 0;
        dz_blob_close(*slot);
        *slot = NULL;
        if (attempt || r != DZ_ESTATE)
            return dz_vfs_errno(v, &e);
    }
}

/* Where the chunk's bytes are and how many. */
struct source {
    int32_t len; /* -1: nowhere */
    bool image;
};

static int find_source(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index,
                       struct source *ret_source)
{
    *ret_source = (struct source){-1, false};
    int rc = len_here(v, ip, index, &ret_source->len);
    if (rc || ret_source->len >= 0)
        return rc;
    ret_source->image = true;
    return len_below(v, ip, index, &ret_source->len);
}

int dz_chunk_read(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index, size_t off,
                  void *buf, size_t n)
{
    struct source src;
    int rc = find_source(v, ip, index, &src);
    if (rc)
        return rc;
    size_t have = src.len > 0 && (size_t)src.len > off ? (size_t)src.len - off : 0;
    if (have > n)
        have = n;
    if (have) {
        struct span s = {buf, off, have};
        rc = blob_read(v, src.image, dz_chunk_id(ip->ino, index), s);
        if (rc)
            return rc;
    }
    memset((uint8_t *)buf + have, 0, n - have);
    return 0;
}

int dz_chunk_exists(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index)
{
    struct source src;
    int rc = find_source(v, ip, index, &src);
    return rc ? rc : src.len > 0;
}

static int next_row(struct dz_vfs *v, struct dz_db *db, uint64_t first, uint64_t *ret_index)
{
    struct dz_err e = {0};
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(db, "SELECT id FROM chunk WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT 1");
    uint64_t mask = (1u << DZ_VFS_CHUNK_BITS) - 1;
    dz_bind_int(st, 1, (int64_t)first);
    dz_bind_int(st, 2, (int64_t)(first | mask));
    int r = dz_stmt_step(st, &e);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    *ret_index = r > 0 ? (uint64_t)dz_col_int(st, 0) & mask : UINT64_MAX;
    return 0;
}

int dz_chunk_next(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index, uint64_t *ret_index)
{
    uint64_t above = UINT64_MAX, below = UINT64_MAX;
    int rc = 0;
    if (index >> DZ_VFS_CHUNK_BITS) {
        *ret_index = UINT64_MAX;
        return 0;
    }
    if (ip->here)
        rc = next_row(v, v->db, dz_chunk_id(ip->ino, index), &above);
    if (!rc && ip->below && index * DZ_VFS_CHUNK < ip->base_size)
        rc = next_row(v, v->image, dz_chunk_id(ip->ino, index), &below);
    if (rc)
        return rc;
    if (below != UINT64_MAX && below * DZ_VFS_CHUNK >= ip->base_size)
        below = UINT64_MAX;
    *ret_index = above < below ? above : below;
    return 0;
}

/* ---- writing -------------------------------------------------------------------------- */

/* Replace the row by n bytes at data. */
static int put(struct dz_vfs *v, uint64_t id, const void *data, size_t n, int32_t old_len)
{
    int64_t more = (int64_t)n - (old_len > 0 ? old_len : 0);
    int rc = dz_quota(v, more, 0);
    if (rc)
        return rc;
    struct dz_row row = {.kind = DZ_ROW_PUT_CHUNK, .n = {(int64_t)id}, .data = data, .data_len = n};
    rc = dz_row_write(v, &row);
    if (rc)
        return rc;
    v->used_bytes += more;
    len_set(v, id, (int64_t)n);
    return 0;
}

static int patch(struct dz_vfs *v, uint64_t id, const struct span *s)
{
    struct dz_row row = {.kind = DZ_ROW_PATCH_CHUNK,
                         .n = {(int64_t)id, (int64_t)s->off},
                         .data = s->buf,
                         .data_len = s->n};
    return dz_row_write(v, &row);
}

static size_t grown(size_t need)
{
    size_t size = 512;
    while (size < need)
        size *= 2;
    return size;
}

int dz_chunk_write(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index, size_t off,
                   const void *buf, size_t n)
{
    uint64_t id = dz_chunk_id(ip->ino, index);
    size_t end = off + n;
    struct source src;
    assert(end <= DZ_VFS_CHUNK && n > 0 && !ip->data);
    int rc = find_source(v, ip, index, &src);
    if (rc)
        return rc;
    int32_t old_len = src.image ? -1 : src.len;
    if (old_len >= 0 && end <= (size_t)old_len) {
        const struct span s = {(void *)(uintptr_t)buf, off, n};
        return patch(v, id, &s);
    }
    size_t have = src.len > 0 ? (size_t)src.len : 0;
    if (off == 0 && end >= have)
        return put(v, id, buf, n, old_len);

    struct span s = {v->scratch, 0, have};
    rc = have ? blob_read(v, src.image, id, s) : 0;
    if (rc)
        return rc;
    size_t len = end <= have ? have : old_len > 0 ? grown(end) : end;
    memset(v->scratch + have, 0, len - have);
    memcpy(v->scratch + off, buf, n);
    return put(v, id, v->scratch, len, old_len);
}

int dz_chunk_cut(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index, size_t keep)
{
    int32_t len;
    int rc = len_here(v, ip, index, &len);
    if (rc || len <= (int32_t)keep)
        return rc;
    uint64_t id = dz_chunk_id(ip->ino, index);
    struct span s = {v->scratch, 0, keep};
    assert(keep > 0);
    rc = blob_read(v, false, id, s);
    return rc ? rc : put(v, id, v->scratch, keep, len);
}

int dz_chunk_zero(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index)
{
    int32_t here, below;
    int rc = len_here(v, ip, index, &here);
    if (!rc)
        rc = len_below(v, ip, index, &below);
    if (rc)
        return rc;
    if (below > 0)
        return here == 0 ? 0 : put(v, dz_chunk_id(ip->ino, index), v->scratch, 0, here);
    return here < 0 ? 0 : dz_chunks_delete(v, ip, index, index);
}

static int delete_rows(struct dz_vfs *v, uint64_t first, uint64_t last)
{
    struct dz_row row = {.kind = DZ_ROW_DEL_CHUNKS, .n = {(int64_t)first, (int64_t)last}};
    struct dz_err e = {0};
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(
        v->db,
        "SELECT count(*),coalesce(sum(length(data)),0)FROM chunk WHERE id BETWEEN ?1 AND ?2");
    dz_bind_int(st, 1, row.n[0]);
    dz_bind_int(st, 2, row.n[1]);
    int r = dz_stmt_step(st, &e);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    int64_t count = r > 0 ? dz_col_int(st, 0) : 0, bytes = r > 0 ? dz_col_int(st, 1) : 0;
    dz_stmt_reset(st);
    if (count == 0)
        return 0;
    int rc = dz_row_write(v, &row);
    if (rc)
        return rc;
    v->used_bytes -= bytes;
    dz_chunk_lens_forget(v);
    return 0;
}

int dz_chunks_delete(struct dz_vfs *v, const struct dz_inode *ip, uint64_t first, uint64_t last)
{
    if (!ip->here || first > last)
        return 0;
    return delete_rows(v, dz_chunk_id(ip->ino, first), dz_chunk_id(ip->ino, last));
}

/* ---- much content ------------------------------------------------------------------------ */

bool dz_chunks_many(const struct dz_vfs *v, const struct dz_inode *ip, uint64_t first)
{
    if (!S_ISREG(ip->mode) || ip->data || !ip->here || first * DZ_VFS_CHUNK >= ip->size)
        return false;
    return (ip->size - first * DZ_VFS_CHUNK) / DZ_VFS_CHUNK > v->step_chunks;
}

int dz_chunks_delete_some(struct dz_vfs *v, uint64_t from, bool *ret_more)
{
    uint64_t last = from | ((1u << DZ_VFS_CHUNK_BITS) - 1), first = from;
    struct dz_err e = {0};
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(v->db, "SELECT id FROM chunk WHERE id BETWEEN ?1 AND ?2 "
                                           "ORDER BY id DESC LIMIT 1 OFFSET ?3");
    dz_bind_int(st, 1, (int64_t)from);
    dz_bind_int(st, 2, (int64_t)last);
    dz_bind_int(st, 3, v->step_chunks - 1);
    int r = dz_stmt_step(st, &e);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    if (r > 0)
        first = (uint64_t)dz_col_int(st, 0);
    dz_stmt_reset(st);
    int rc = delete_rows(v, first, last);
    if (!rc)
        *ret_more = first > from;
    return rc;
}

bool dz_cut_fits(const struct dz_inode *ip, uint64_t cut)
{
    uint64_t index = cut & ((1u << DZ_VFS_CHUNK_BITS) - 1);
    return S_ISREG(ip->mode) && ip->here && index * DZ_VFS_CHUNK >= ip->size;
}

/* Each step is a transaction of its own. What cannot be removed now stays noted; no
 * operation changes anything before it is gone, for the file might grow over it. */
int dz_cut_finish(struct dz_vfs *v)
{
    bool more = true;
    int rc = 0;
    v->cutting = true;
    while (!rc && v->cut) {
        rc = dz_op_begin(v);
        if (rc)
            break;
        rc = dz_chunks_delete_some(v, v->cut, &more);
        if (!rc && !more)
            rc = dz_row_put_meta(v, "cut", 0);
        rc = dz_op_end(v, rc);
        if (!rc && !more)
            v->cut = 0;
        struct dz_err e = {0};
        if (!rc && more && dz_vfs_commit(v, &e) < 0)
            rc = dz_vfs_errno(v, &e);
    }
    v->cutting = false;
    return rc;
}
