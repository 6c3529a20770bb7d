/* SPDX-License-Identifier: MIT
 *
 * vfs_file.c - content: read, write, truncate, holes.
 *
 * A small file (DZ_VFS_INLINE_MAX) lies in its node row and, while in memory, in its inode;
 * writing it costs no statement before the commit. A file that outgrows this is spilled into
 * chunk 0, in an operation of its own that guests cannot notice, and stays in chunks until it is
 * truncated to nothing.
 *
 * A write of several chunks is one operation per chunk: when the disk or the quota ends in the
 * middle, the chunks written so far stay and the count says how much.
 */
#include "vfs/vfs_int.h"

#include "base/mem.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

/* --- chunks ------------------------------------------------------------------------------ */

/* A chunk is a row of at most DZ_VFS_CHUNK bytes. Bytes beyond the row's end read as zeros, and
 * so does a chunk without a row. A chunk comes from:
 *
 *     row here                  -> that row, whatever the image has
 *     else row in the image     -> its bytes before the inode's base_size
 *     else the image's pack     -> likewise (vfs_pack.c)
 *     else                      -> zeros
 *
 * So writing into a chunk of the image copies this chunk up and nothing else, and lowering
 * base_size hides the bytes that a truncation removed. A row of length 0 hides the image's with
 * zeros.
 *
 * A row that grows at its end doubles, so that appending a little at a time does not copy the
 * chunk each time; bytes at and after the file's size are zero. Bytes inside a row are changed
 * through a blob handle, which touches only the pages in question. */

/* ---- lengths of rows ---------------------------------------------------------------- */

static size_t lens_slot(uint64_t id)
{
    return (id ^ id >> DZ_VFS_CHUNK_BITS) % DZ_VFS_LENS;
}

void dz_chunk_len_set(struct dz_vfs *v, uint64_t id, int64_t len)
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

/* Most requested chunks exist and are read next, so move the handle there at once. A handle that is
 * moved to a missing row is lost, though, and a new one is expensive. */
static int len_by_handle(struct dz_vfs *v, bool image, uint64_t id, int64_t *ret_len)
{
    struct dz_blob **slot = image ? &v->blob_image : &v->blob_read;
    struct dz_err e = {0};
    int r = dz_blob_on(v, slot, id, &e);
    if (r == DZ_ESTATE)
        r = dz_blob_on(v, slot, id, &e);
    if (r < 0)
        return len_by_statement(v, image, id,
                                ret_len); /* the statement reports the error, if there is one */
    *ret_len = (int64_t)dz_blob_size(*slot);
    return 0;
}

/* Length of the row with this id in this file or in the image; -1: there is none. */
static int chunk_len(struct dz_vfs *v, bool image, uint64_t id, int32_t *ret_len)
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

/* Length of the chunk in this file, with changes that wait for the commit. */
static int len_here(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index, int32_t *ret_len)
{
    const struct dz_buffer *b = dz_buffer_find(v, ip, index);
    *ret_len = b ? (int32_t)b->len : -1;
    if (b || !ip->rows || index * DZ_VFS_CHUNK >= ip->size)
        return 0;
    return chunk_len(v, false, dz_chunk_id(ip->ino, index), ret_len);
}

/* How many bytes of the image's chunk are visible: -1 when it has none, or when all are hidden. */
static int len_below(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index, int32_t *ret_len)
{
    uint64_t start = index * DZ_VFS_CHUNK;
    *ret_len = -1;
    if (dz_is_packed(v, ip)) {
        const uint64_t visible = dz_pack_visible(v, ip);
        if (start < visible)
            *ret_len = visible - start < DZ_VFS_CHUNK ? (int32_t)(visible - start) : DZ_VFS_CHUNK;
        return 0;
    }
    if (!ip->below || start >= ip->base_size)
        return 0;
    int rc = chunk_len(v, true, dz_chunk_id(ip->ino, index), ret_len);
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

/* The buffer or row that holds a chunk's bytes, and how many. */
struct source {
    uint64_t index; /* of the chunk */
    int32_t len;    /* -1: nowhere */
    bool image;
    struct dz_buffer *buffer;
};

static int find_source(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index,
                       struct source *ret_source)
{
    *ret_source = (struct source){index, -1, false, dz_buffer_find(v, ip, index)};
    int rc = len_here(v, ip, index, &ret_source->len);
    if (rc || ret_source->len >= 0)
        return rc;
    ret_source->image = true;
    return len_below(v, ip, index, &ret_source->len);
}

/* Bytes of a chunk that its source has. */
static int source_read(struct dz_vfs *v, const struct dz_inode *ip, const struct source *src,
                       struct span s)
{
    if (src->buffer) {
        memcpy(s.buf, src->buffer->data + s.off, s.n);
        return 0;
    }
    if (!src->image || !dz_is_packed(v, ip))
        return blob_read(v, src->image, dz_chunk_id(ip->ino, src->index), s);
    if (!v->pack.at) {
        (void)dz_fail(&v->why, DZ_ENOENT, "the image's pack was not given");
        return -EIO;
    }
    return dz_pack_read(v, ip, src->index * DZ_VFS_CHUNK + s.off, s.buf, s.n);
}

/* [off, off + n) lies in chunk `index` of a file that is not inline. */
static int chunk_read(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index, size_t off,
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
        rc = source_read(v, ip, &src, s);
        if (rc)
            return rc;
    }
    memset((uint8_t *)buf + have, 0, n - have);
    return 0;
}

/* Has the chunk bytes of its own, in this file or in the image? 1, 0 or -errno. */
static int chunk_exists(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index)
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

int dz_chunk_next_here(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index,
                       uint64_t *ret_index)
{
    int rc = 0;
    *ret_index = UINT64_MAX;
    if (ip->rows)
        rc = next_row(v, v->db, dz_chunk_id(ip->ino, index), ret_index);
    const uint64_t changed = dz_buffers_next(ip, index);
    if (!rc && changed < *ret_index)
        *ret_index = changed;
    return rc;
}

/* The first chunk >= index with content in this file or in the image; UINT64_MAX: none. */
static int chunk_next(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index,
                      uint64_t *ret_index)
{
    uint64_t above = UINT64_MAX, below = UINT64_MAX;
    if (index >> DZ_VFS_CHUNK_BITS) {
        *ret_index = UINT64_MAX;
        return 0;
    }
    int rc = dz_chunk_next_here(v, ip, index, &above);
    if (dz_is_packed(v, ip))
        below = index * DZ_VFS_CHUNK < dz_pack_visible(v, ip) ? index : UINT64_MAX;
    else if (!rc && ip->below && index * DZ_VFS_CHUNK < ip->base_size)
        rc = next_row(v, v->image, dz_chunk_id(ip->ino, index), &below);
    if (rc)
        return rc;
    if (below != UINT64_MAX && !dz_is_packed(v, ip) && below * DZ_VFS_CHUNK >= ip->base_size)
        below = UINT64_MAX;
    *ret_index = above < below ? above : below;
    return 0;
}

/* ---- writing -------------------------------------------------------------------------- */

static size_t grown(size_t need)
{
    size_t size = 512;
    while (size < need)
        size *= 2;
    return size;
}

/* A buffer with the first `have` bytes of a chunk and room for `size`. It is not the chunk yet. */
static int load(struct dz_vfs *v, const struct dz_inode *ip, const struct source *src, size_t have,
                size_t size, struct dz_buffer **ret_buffer)
{
    struct dz_buffer *b = dz_buffer_new(size);
    if (!b)
        return -ENOMEM;
    const struct span s = {b->data, 0, have};
    const int rc = have ? source_read(v, ip, src, s) : 0;
    if (rc) {
        dz_buffer_free(b);
        return rc;
    }
    b->row_len = src->image ? -1 : src->len;
    *ret_buffer = b;
    return 0;
}

/* [off, off + n) as for chunk_read(). */
static int chunk_write(struct dz_vfs *v, struct dz_inode *ip, uint64_t index, size_t off,
                       const void *buf, size_t n)
{
    const size_t end = off + n;
    struct source src;
    assert(end <= DZ_VFS_CHUNK && n > 0 && !ip->data);
    int rc = find_source(v, ip, index, &src);
    if (rc)
        return rc;
    const size_t have = src.len > 0 ? (size_t)src.len : 0, old_len = src.image ? 0 : have;
    const size_t len = end <= have ? have : off > 0 && old_len > 0 ? grown(end) : end;
    const int64_t more = (int64_t)len - (int64_t)old_len;
    struct dz_buffer *b = src.buffer;
    rc = dz_quota(v, more, 0);
    if (!rc && b)
        rc = dz_buffer_grow(v, b, len);
    else if (!rc)
        rc = load(v, ip, &src, off == 0 && end >= have ? 0 : have, len, &b);
    if (rc)
        return rc;
    if (len > have) { /* it may get the length of its row again, which has other bytes there */
        memset(b->data + have, 0, len - have);
        dz_buffer_changed(b, have, len);
    }
    memcpy(b->data + off, buf, n);
    b->len = (uint32_t)len;
    dz_buffer_changed(b, off, end);
    if (!src.buffer)
        dz_buffer_add(v, ip, index, b);
    v->used_bytes += more;
    return 0;
}

/* Make the whole chunk read as zeros. */
static int chunk_zero(struct dz_vfs *v, struct dz_inode *ip, uint64_t index)
{
    struct source src;
    int32_t below = -1;
    int rc = find_source(v, ip, index, &src);
    if (!rc)
        rc = len_below(v, ip, index, &below);
    const int32_t here = src.image ? -1 : src.len;
    if (rc || (below <= 0 && here < 0) || (below > 0 && here == 0))
        return rc;
    struct dz_buffer *b = src.buffer;
    if (below <= 0) {
        rc = dz_chunks_delete(v, ip, index, index);
        if (!rc)
            dz_buffers_drop(v, ip, index, index);
        return rc;
    }
    rc = b ? 0 : load(v, ip, &src, 0, 0, &b); /* an empty row hides that of the image */
    if (rc)
        return rc;
    if (!src.buffer)
        dz_buffer_add(v, ip, index, b);
    b->len = b->from = b->upto = 0;
    v->used_bytes -= here > 0 ? here : 0;
    return 0;
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
    if (!ip->rows || first > last)
        return 0;
    return delete_rows(v, dz_chunk_id(ip->ino, first), dz_chunk_id(ip->ino, last));
}

/* ---- much content ------------------------------------------------------------------------ */

bool dz_chunks_many(const struct dz_vfs *v, const struct dz_inode *ip, uint64_t first)
{
    if (!S_ISREG(ip->mode) || ip->data || !ip->rows || first * DZ_VFS_CHUNK >= ip->size)
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

/* Remove the cut-off chunks, one transaction per step. A step that fails stays noted, and no
 * operation changes anything before it is done, because the file might grow over the old chunks. */
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

/* --- content ----------------------------------------------------------------------------- */

static int64_t const DAY_NS = (int64_t)86400 * 1000000000;

/* Begin a read of one regular file. */
static int read_file(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip)
{
    struct dz_inode *ip;
    int rc = dz_read_inode(v, ino, &ip);
    if (rc)
        return rc;
    if (dz_is_dir(ip))
        return -EISDIR;
    if (!S_ISREG(ip->mode))
        return -EINVAL;
    *ret_ip = ip;
    return 0;
}

/* Like relatime: update atime only if the file changed since, or once a day. */
static bool access_counts(const struct dz_vfs *v, const struct dz_inode *ip)
{
    if (v->noatime || v->readonly || !ip->here) /* reading must not copy an inode up */
        return false;
    return ip->atime_ns <= ip->mtime_ns || ip->atime_ns <= ip->ctime_ns ||
           dz_now(v) - ip->atime_ns >= DAY_NS;
}
static void accessed(struct dz_vfs *v, struct dz_inode *ip)
{
    if (!access_counts(v, ip))
        return;
    v->changes += ip->atime_ns > ip->mtime_ns && ip->atime_ns > ip->ctime_ns; /* a day is over */
    ip->atime_ns = dz_now(v);
    dz_idirty(v, ip, DZ_DIRTY_ATIME);
}

/* ---- read --------------------------------------------------------------------------- */

static void read_inline(const struct dz_inode *ip, uint64_t off, uint8_t *buf, size_t n)
{
    size_t have = off < ip->data_len ? ip->data_len - (size_t)off : 0;
    if (have > n)
        have = n;
    if (have)
        memcpy(buf, ip->data + off, have);
    memset(buf + have, 0, n - have);
}

ssize_t dz_vfs_read(struct dz_vfs *v, uint64_t ino, uint64_t off, void *buf, size_t n)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = read_file(v, ino, &ip);
    if (rc)
        return rc;
    if (off >= ip->size || n == 0)
        return 0;
    if (n > ip->size - off)
        n = (size_t)(ip->size - off);
    if (n > SSIZE_MAX)
        n = SSIZE_MAX;
    accessed(v, ip);
    if (ip->data) {
        read_inline(ip, off, buf, n);
        return (ssize_t)n;
    }
    for (size_t done = 0; done < n;) {
        size_t in = (size_t)((off + done) % DZ_VFS_CHUNK);
        size_t step = DZ_VFS_CHUNK - in < n - done ? DZ_VFS_CHUNK - in : n - done;
        rc = chunk_read(v, ip, (off + done) / DZ_VFS_CHUNK, in, (uint8_t *)buf + done, step);
        if (rc)
            return done ? (ssize_t)done : rc;
        done += step;
    }
    return (ssize_t)n;
}

ssize_t dz_vfs_read_ahead(struct dz_vfs *v, uint64_t ino, void *buf, size_t n)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    const int rc = read_file(v, ino, &ip);
    if (rc)
        return rc;
    return access_counts(v, ip) ? -EAGAIN : dz_vfs_read(v, ino, 0, buf, n);
}

/* ---- write -------------------------------------------------------------------------- */

static void modified(struct dz_vfs *v, struct dz_inode *ip)
{
    ip->mtime_ns = ip->ctime_ns = dz_now(v);
    if (ip->mode & (S_ISUID | S_ISGID))
        ip->mode &= ip->mode & S_IXGRP ? ~(uint32_t)(S_ISUID | S_ISGID) : ~(uint32_t)S_ISUID;
    dz_idirty(v, ip, DZ_DIRTY_ROW);
}

static int copy_up_allowed(const struct dz_vfs *v, const struct dz_inode *ip)
{
    return ip->here ? 0 : dz_quota(v, ip->data_len, 1);
}

static ssize_t write_inline(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, const void *buf,
                            size_t n)
{
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    size_t end = (size_t)off + n, old = ip->data_len;
    rc = copy_up_allowed(v, ip);
    if (!rc && end > old) {
        rc = dz_quota(v, (int64_t)(end - old), 0);
        if (!rc)
            rc = dz_iset_data(v, ip, NULL, end);
        if (!rc && off > old)
            memset(ip->data + old, 0, (size_t)off - old);
    }
    if (!rc) {
        memcpy(ip->data + off, buf, n);
        if (end > ip->size)
            ip->size = end;
        modified(v, ip);
    }
    rc = dz_op_end(v, rc);
    return rc ? rc : (ssize_t)n;
}

/* Move the content from the node row into chunk 0: a reader sees no difference. */
static int spill(struct dz_vfs *v, struct dz_inode *ip)
{
    struct dz_buffer *b = NULL;
    const size_t len = ip->data_len;
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    if (len) {
        rc = copy_up_allowed(v, ip);
        b = rc ? NULL : dz_buffer_new(len);
        if (!rc && !b)
            rc = -ENOMEM;
    }
    if (!rc) {
        if (b) {
            memcpy(b->data, ip->data, len);
            b->len = (uint32_t)len;
        }
        dz_idirty(v, ip, DZ_DIRTY_ROW);
        dz_iadopt_data(v, ip, NULL, 0);
        if (b)
            dz_buffer_add(v, ip, 0, b);
        v->used_bytes += (int64_t)len;
    }
    return dz_op_end(v, rc);
}

static int write_chunk(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, const void *buf,
                       size_t n)
{
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = copy_up_allowed(v, ip);
    if (!rc)
        rc = chunk_write(v, ip, off / DZ_VFS_CHUNK, (size_t)(off % DZ_VFS_CHUNK), buf, n);
    if (!rc) {
        if (off + n > ip->size)
            ip->size = off + n;
        modified(v, ip);
    }
    return dz_op_end(v, rc);
}

static ssize_t write_chunks(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, const void *buf,
                            size_t n)
{
    int rc = ip->data ? spill(v, ip) : 0;
    size_t done = 0;
    while (!rc && done < n) {
        size_t in = (size_t)((off + done) % DZ_VFS_CHUNK);
        size_t step = DZ_VFS_CHUNK - in < n - done ? DZ_VFS_CHUNK - in : n - done;
        rc = write_chunk(v, ip, off + done, (const uint8_t *)buf + done, step);
        if (!rc)
            done += step;
    }
    return done ? (ssize_t)done : rc;
}

static ssize_t write_at(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, const void *buf,
                        size_t n)
{
    if (off >= DZ_VFS_FILE_MAX)
        return -EFBIG;
    if (n > DZ_VFS_FILE_MAX - off)
        n = (size_t)(DZ_VFS_FILE_MAX - off);
    ip->refs++; /* keeps the inode in memory over several operations */
    ssize_t done = ip->data && off + n <= DZ_VFS_INLINE_MAX ? write_inline(v, ip, off, buf, n)
                                                            : write_chunks(v, ip, off, buf, n);
    ip->refs--;
    if (done > 0)
        dz_watch_inode(v, DZ_VFS_EV_WRITE, ip);
    return done;
}

ssize_t dz_vfs_write(struct dz_vfs *v, uint64_t ino, uint64_t off, const void *buf, size_t n)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = v->readonly ? -EROFS : read_file(v, ino, &ip);
    if (rc)
        return rc;
    return n ? write_at(v, ip, off, buf, n) : 0;
}

ssize_t dz_vfs_append(struct dz_vfs *v, uint64_t ino, const void *buf, size_t n, uint64_t *ret_off)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = v->readonly ? -EROFS : read_file(v, ino, &ip);
    if (rc)
        return rc;
    uint64_t off = ip->size;
    ssize_t done = n ? write_at(v, ip, off, buf, n) : 0;
    if (done >= 0 && ret_off)
        *ret_off = off;
    return done;
}

/* ---- truncate ------------------------------------------------------------------------ */

static int truncate_chunks(struct dz_vfs *v, struct dz_inode *ip, uint64_t size)
{
    uint64_t index = size / DZ_VFS_CHUNK;
    size_t keep = (size_t)(size % DZ_VFS_CHUNK);
    DZ_AUTO(dz_freep) uint8_t *empty = NULL;
    if (size == 0) {
        empty = dz_alloc(1);
        if (!empty)
            return -ENOMEM;
    }
    struct source cut = {.len = -1}; /* the chunk that keeps its first bytes */
    int rc = keep ? find_source(v, ip, index, &cut) : 0;
    struct dz_buffer *b = cut.buffer;
    const bool shorter = keep && !cut.image && cut.len > (int32_t)keep;
    if (!rc && shorter && !b)
        rc = load(v, ip, &cut, keep, keep, &b);
    if (rc)
        return rc;
    uint64_t first = keep ? index + 1 : index;
    bool many = dz_chunks_many(v, ip, first);
    rc = many ? dz_row_put_meta(v, "cut", (int64_t)dz_chunk_id(ip->ino, first))
              : dz_chunks_delete(v, ip, first, DZ_VFS_LAST_INDEX);
    if (rc) {
        if (!cut.buffer)
            dz_buffer_free(b);
        return rc;
    }
    if (shorter) {
        if (!cut.buffer)
            dz_buffer_add(v, ip, index, b);
        b->len = (uint32_t)keep;
        dz_buffer_changed(b, 0, keep);
        b->upto = (uint32_t)keep;
        v->used_bytes -= cut.len - (int64_t)keep;
    }
    dz_buffers_drop(v, ip, first, DZ_VFS_LAST_INDEX);
    v->cut = many ? dz_chunk_id(ip->ino, first) : 0;
    if (ip->base_size > size)
        ip->base_size = size;
    if (empty) {
        ip->rows = many;
        dz_iadopt_data(v, ip, DZ_TAKE_PTR(empty), 0);
    }
    return 0;
}

int dz_file_truncate(struct dz_vfs *v, struct dz_inode *ip, uint64_t size)
{
    int rc = copy_up_allowed(v, ip);
    if (rc)
        return rc;
    assert(!ip->data || size <= DZ_VFS_INLINE_MAX);
    if (ip->data && size < ip->data_len)
        rc = dz_iset_data(v, ip, NULL, (size_t)size);
    else if (!ip->data && size < ip->size)
        rc = truncate_chunks(v, ip, size);
    if (rc)
        return rc;
    ip->size = size;
    modified(v, ip);
    return 0;
}

int dz_file_resizable(struct dz_vfs *v, struct dz_inode *ip, uint64_t size)
{
    if (dz_is_dir(ip))
        return -EISDIR;
    if (!S_ISREG(ip->mode))
        return -EINVAL;
    if (size > DZ_VFS_FILE_MAX)
        return -EFBIG;
    return ip->data && size > DZ_VFS_INLINE_MAX ? spill(v, ip) : 0;
}

/* ---- holes ---------------------------------------------------------------------------- */

static int punch_chunk(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, size_t n)
{
    static const uint8_t zeros[DZ_VFS_CHUNK];
    uint64_t index = off / DZ_VFS_CHUNK, end = off + n;
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = copy_up_allowed(v, ip);
    if (!rc && n < DZ_VFS_CHUNK && end < ip->size) {
        rc = chunk_exists(v, ip, index);
        if (rc > 0)
            rc = chunk_write(v, ip, index, (size_t)(off % DZ_VFS_CHUNK), zeros, n);
    } else if (!rc && off % DZ_VFS_CHUNK == 0) {
        rc = chunk_zero(v, ip, index);
    } else if (!rc) { /* to the end of the file, from inside its last chunk */
        rc = chunk_exists(v, ip, index);
        if (rc > 0)
            rc = chunk_write(v, ip, index, (size_t)(off % DZ_VFS_CHUNK), zeros, n);
    }
    if (!rc)
        modified(v, ip);
    return dz_op_end(v, rc);
}

static int punch_inline(struct dz_vfs *v, struct dz_inode *ip, uint64_t off, uint64_t n)
{
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = copy_up_allowed(v, ip);
    if (!rc) {
        if (off < ip->data_len)
            memset(ip->data + off, 0, (size_t)(n < ip->data_len - off ? n : ip->data_len - off));
        modified(v, ip);
    }
    return dz_op_end(v, rc);
}

/* Advance *at to the next chunk that has bytes, at most to `end`. */
static int skip_hole(struct dz_vfs *v, const struct dz_inode *ip, uint64_t end, uint64_t *at)
{
    uint64_t index;
    int rc = dz_read_begin(v);
    if (!rc)
        rc = chunk_next(v, ip, *at / DZ_VFS_CHUNK, &index);
    if (rc)
        return rc;
    if (index == UINT64_MAX || index * DZ_VFS_CHUNK >= end)
        *at = end;
    else if (index * DZ_VFS_CHUNK > *at)
        *at = index * DZ_VFS_CHUNK;
    return 0;
}

int dz_vfs_punch(struct dz_vfs *v, uint64_t ino, uint64_t off, uint64_t n)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = v->readonly ? -EROFS : read_file(v, ino, &ip);
    if (rc)
        return rc;
    if (n == 0)
        return -EINVAL;
    if (off >= ip->size)
        return 0;
    uint64_t end = n < ip->size - off ? off + n : ip->size;
    ip->refs++;
    if (ip->data)
        rc = punch_inline(v, ip, off, end - off);
    for (uint64_t at = off; !rc && !ip->data && at < end;) {
        rc = skip_hole(v, ip, end, &at);
        if (rc || at >= end)
            break;
        uint64_t in = at % DZ_VFS_CHUNK;
        size_t step = (size_t)(DZ_VFS_CHUNK - in < end - at ? DZ_VFS_CHUNK - in : end - at);
        rc = punch_chunk(v, ip, at, step);
        at += step;
    }
    ip->refs--;
    if (!rc)
        dz_watch_inode(v, DZ_VFS_EV_WRITE, ip);
    return rc;
}

static int seek_data(struct dz_vfs *v, const struct dz_inode *ip, uint64_t off, uint64_t *ret_off)
{
    uint64_t index = off / DZ_VFS_CHUNK;
    for (;;) {
        int rc = chunk_next(v, ip, index, &index);
        if (rc)
            return rc;
        if (index == UINT64_MAX || index * DZ_VFS_CHUNK >= ip->size)
            return -ENXIO;
        rc = chunk_exists(v, ip, index);
        if (rc < 0)
            return rc;
        if (rc)
            break;
        index++; /* a row of zero length */
    }
    *ret_off = index * DZ_VFS_CHUNK > off ? index * DZ_VFS_CHUNK : off;
    return 0;
}

static int seek_hole(struct dz_vfs *v, const struct dz_inode *ip, uint64_t off, uint64_t *ret_off)
{
    uint64_t index = off / DZ_VFS_CHUNK;
    int rc = 1;
    while (index * DZ_VFS_CHUNK < ip->size && (rc = chunk_exists(v, ip, index)) > 0)
        index++;
    if (rc < 0)
        return rc;
    uint64_t at = index * DZ_VFS_CHUNK;
    if (at < off)
        at = off;
    *ret_off = at < ip->size ? at : ip->size;
    return 0;
}

int dz_vfs_seek(struct dz_vfs *v, uint64_t ino, uint64_t off, int whence, uint64_t *ret_off)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = read_file(v, ino, &ip);
    if (rc)
        return rc;
    if (whence != SEEK_DATA && whence != SEEK_HOLE)
        return -EINVAL;
    if (off >= ip->size)
        return -ENXIO;
    if (ip->data) {
        *ret_off = whence == SEEK_DATA ? off : ip->size;
        return 0;
    }
    return whence == SEEK_DATA ? seek_data(v, ip, off, ret_off) : seek_hole(v, ip, off, ret_off);
}

/* ---- space in use ------------------------------------------------------------------- */

static int sum_chunks(struct dz_vfs *v, struct dz_db *db, const struct dz_inode *ip,
                      int (*fn)(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index),
                      uint64_t *total)
{
    struct dz_err e = {0};
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(db, "SELECT id,length(data) FROM chunk WHERE id BETWEEN ?1 AND ?2");
    uint64_t mask = (1u << DZ_VFS_CHUNK_BITS) - 1;
    dz_bind_int(st, 1, (int64_t)dz_chunk_id(ip->ino, 0));
    dz_bind_int(st, 2, (int64_t)(dz_chunk_id(ip->ino, 0) | mask));
    int r;
    while ((r = dz_stmt_step(st, &e)) > 0) {
        int rc = fn ? fn(v, ip, (uint64_t)dz_col_int(st, 0) & mask) : 1;
        if (rc < 0)
            return rc;
        *total += rc ? (uint64_t)dz_col_int(st, 1) : 0;
    }
    return r < 0 ? dz_vfs_errno(v, &e) : 0;
}

/* Is the image's chunk visible, that is, not hidden by one of this file? */
static int shows_below(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index)
{
    int32_t here;
    int rc = len_here(v, ip, index, &here);
    return rc ? rc : here < 0 && index * DZ_VFS_CHUNK < ip->base_size;
}

int dz_vfs_allocated(struct dz_vfs *v, uint64_t ino, uint64_t *ret_bytes)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = dz_read_inode(v, ino, &ip);
    if (rc)
        return rc;
    uint64_t total = ip->data_len;
    if (ip->rows)
        rc = sum_chunks(v, v->db, ip, NULL, &total);
    total += (uint64_t)dz_buffers_beyond_rows(ip);
    if (!rc && S_ISREG(ip->mode) && !ip->data && ip->below && ip->base_size)
        rc = sum_chunks(v, v->image, ip, shows_below, &total);
    const uint64_t packed = rc ? 0 : dz_pack_visible(v, ip);
    for (uint64_t at = 0; !rc && at < packed; at += DZ_VFS_CHUNK) {
        int32_t here = -1;
        rc = len_here(v, ip, at / DZ_VFS_CHUNK, &here);
        if (!rc && here < 0)
            total += packed - at < DZ_VFS_CHUNK ? packed - at : DZ_VFS_CHUNK;
    }
    if (!rc)
        *ret_bytes = total;
    return rc;
}
