/* SPDX-License-Identifier: MIT
 *
 * vfs_tx.c - rows, operations, the commit; and the redo log, the rows written since the last
 * commit.
 *
 * One SQLite transaction holds everything since the last commit. It begins with the first row.
 * SQLite rolls a transaction back as a whole when the disk is full, when I/O fails or memory is
 * short, and the guest was already told that its writes succeeded. So every row is also kept in
 * the redo log in memory, from which the transaction is built again.
 *
 *     a change                           commit
 *    ----------> row ---> transaction ----------> file
 *                 |            ^
 *                 v            | built again after a rollback
 *             redo log --------'
 *
 * Invariants between operations, unless `stale`:
 *   1. The open transaction holds exactly the rows of the redo log, in order. assert_committed
 *      checks the empty case; alive() repairs a transaction that SQLite rolled back.
 *   2. File + transaction + dirty inodes + their buffers = what the guest sees. No assertion can
 * look at what the guest has seen: tests/model compares it, with a crash after any step.
 *   3. dz_op_begin() and dz_op_end() come in pairs that do not nest (in_op).
 *   4. bytes and count of the log are the sums over its entries (assert_log).
 *   5. The list `dirty` holds the dirty_rows inodes whose row must be written, `lazy` the
 *      lazy_count inodes of which only the access time changed (assert_dirty). A row that is
 *      written is one that reading accepts (put_node).
 * When a transaction could not be built again (no memory, the disk cannot even be read), `stale`
 * is set: the log still has everything; every operation first tries to rebuild and fails until
 * that works.
 */
#include "vfs/vfs_int.h"

#include "base/mem.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/* --- the redo log ------------------------------------------------------------------------ */

/* Entries lie one behind another in blocks: struct dz_row, then its name, then its data, padded
 * to 8 bytes. The pointers inside a stored row have no meaning; redo_each() computes them anew.
 * A mark is a position; cutting back to it frees the blocks behind. */

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

/* copies; -ENOMEM */
static int redo_add(struct dz_redo *r, const struct dz_row *row)
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

static struct dz_redo_mark redo_mark(const struct dz_redo *r)
{
    return (struct dz_redo_mark){r->last, r->last ? r->last->used : 0, r->bytes, r->count};
}

static void assert_log(const struct dz_redo *r)
{
    size_t bytes = 0, count = 0;
    for (const struct dz_redo_block *b = r->first; DZ_CHECK_DEEP && b; b = b->next) {
        for (size_t at = 0; at < b->used; count++) {
            struct dz_row row;
            memcpy(&row, b->bytes + at, sizeof row);
            at += entry_bytes(&row);
        }
        bytes += b->used;
        assert(b->used <= b->cap && (b->next || b == r->last));
    }
    assert(!DZ_CHECK_DEEP || (bytes == r->bytes && count == r->count));
}

static void free_chain(struct dz_redo_block *b)
{
    while (b) {
        struct dz_redo_block *next = b->next;
        dz_free(b);
        b = next;
    }
}

static void redo_cut(struct dz_redo *r, struct dz_redo_mark mark)
{
    assert(mark.count <= r->count);
    if (!mark.last) { /* an empty log keeps one block for the next transaction */
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
    assert_log(r);
}

void dz_redo_release(struct dz_redo *r)
{
    free_chain(r->first);
    *r = (struct dz_redo){0};
}

/* In order, until fn returns non-zero. */
static int redo_each(const struct dz_redo *r, int (*fn)(void *arg, const struct dz_row *row),
                     void *arg)
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

/* --- the transaction --------------------------------------------------------------------- */

static const struct {
    const char *sql;
    int ints;
    bool name, data;
} statements[DZ_ROW_KINDS] = {
    [DZ_ROW_PUT_NODE] =
        {"INSERT INTO node(ino,mode,uid,gid,nlink,size,rdev,atime,mtime,ctime,base_size,data)"
         "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)ON CONFLICT(ino)DO UPDATE SET mode=?2,uid=?3,"
         "gid=?4,nlink=?5,size=?6,rdev=?7,atime=?8,mtime=?9,ctime=?10,base_size=?11,data=?12",
         11, false, true},
    [DZ_ROW_DEL_NODE] = {"DELETE FROM node WHERE ino=?1", 1, false, false},
    [DZ_ROW_PUT_DENTRY] = {"INSERT INTO dentry(parent,ino,type,name)VALUES(?1,?2,?3,?4)"
                           "ON CONFLICT(parent,name)DO UPDATE SET ino=?2,type=?3",
                           3, true, false},
    [DZ_ROW_DEL_DENTRY] = {"DELETE FROM dentry WHERE parent=?1 AND name=?2", 1, true, false},
    [DZ_ROW_DEL_DENTRIES] = {"DELETE FROM dentry WHERE parent=?1", 1, false, false},
    [DZ_ROW_PUT_CHUNK] = {"INSERT INTO chunk(id,data)VALUES(?1,?2)"
                          "ON CONFLICT(id)DO UPDATE SET data=?2",
                          1, false, true},
    [DZ_ROW_PATCH_CHUNK] = {NULL, 2, false, true}, /* id, offset: by blob handle */
    [DZ_ROW_DEL_CHUNKS] = {"DELETE FROM chunk WHERE id BETWEEN ?1 AND ?2", 2, false, false},
    [DZ_ROW_PUT_XATTR] = {"INSERT INTO xattr(ino,name,value)VALUES(?1,?2,?3)"
                          "ON CONFLICT(ino,name)DO UPDATE SET value=?3",
                          1, true, true},
    [DZ_ROW_DEL_XATTR] = {"DELETE FROM xattr WHERE ino=?1 AND name=?2", 1, true, false},
    [DZ_ROW_DEL_XATTRS] = {"DELETE FROM xattr WHERE ino=?1", 1, false, false},
    [DZ_ROW_PUT_META] = {"INSERT INTO meta(k,v)VALUES(CAST(?2 AS TEXT),?1)"
                         "ON CONFLICT(k)DO UPDATE SET v=?1",
                         1, true, false},
};

void dz_tx_prepare(struct dz_db *db)
{
    static const enum dz_row_kind first[] = {DZ_ROW_PUT_NODE, DZ_ROW_PUT_DENTRY, DZ_ROW_PUT_META};
    for (size_t i = 0; i < DZ_ARRAY_LEN(first); i++)
        (void)dz_db_stmt(db, statements[first[i]].sql);
}

int dz_vfs_errno(struct dz_vfs *v, const struct dz_err *e)
{
    v->why = *e;
    switch (e->code) {
    case DZ_ENOMEM:
        return -ENOMEM;
    case DZ_ENOSPC:
        return -ENOSPC;
    case DZ_EDENIED:
        return -EROFS;
    default:
        return -EIO;
    }
}

void dz_blobs_close(struct dz_vfs *v)
{
    dz_blob_close(v->blob_read);
    dz_blob_close(v->blob_write);
    v->blob_read = NULL;
    v->blob_write = NULL;
}

int dz_blob_on(struct dz_vfs *v, struct dz_blob **slot, uint64_t id, struct dz_err *e)
{
    uint64_t *on = slot == &v->blob_read    ? &v->read_id
                   : slot == &v->blob_write ? &v->write_id
                                            : &v->image_id;
    struct dz_db *db = slot == &v->blob_image ? v->image : v->db;
    const struct dz_blob_at at = {
        .table = "chunk", .column = "data", .rowid = (int64_t)id, .write = slot == &v->blob_write};
    int r = 0;
    if (!*slot)
        r = dz_blob_open(db, &at, slot, e);
    else if (*on != id)
        r = dz_blob_move(*slot, (int64_t)id, e);
    *on = id;
    if (r < 0) {
        dz_blob_close(*slot);
        *slot = NULL;
    }
    return r;
}

static int patch_chunk(struct dz_vfs *v, const struct dz_row *row, struct dz_err *err)
{
    for (int attempt = 0;; attempt++) {
        int r = dz_blob_on(v, &v->blob_write, (uint64_t)row->n[0], err);
        if (!r)
            r = dz_blob_write(v->blob_write, row->data, row->data_len, (size_t)row->n[1], err);
        if (!r)
            return 0;
        dz_blob_close(v->blob_write);
        v->blob_write = NULL;
        if (attempt || r != DZ_ESTATE)
            return r;
    }
}

static int run(struct dz_vfs *v, const struct dz_row *row, struct dz_err *err)
{
    if (row->kind == DZ_ROW_PATCH_CHUNK)
        return patch_chunk(v, row, err);
    if (row->kind == DZ_ROW_PUT_CHUNK || row->kind == DZ_ROW_DEL_CHUNKS)
        v->read_id = v->write_id = 0; /* the handles would keep the old row: reposition them */
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(v->db, statements[row->kind].sql);
    int i = 1;
    for (; i <= statements[row->kind].ints; i++)
        dz_bind_int(st, i, row->n[i - 1]);
    if (statements[row->kind].name)
        dz_bind_blob(st, i++, row->name, row->name_len);
    if (statements[row->kind].data && row->data)
        dz_bind_blob(st, i, row->data, row->data_len);
    else if (statements[row->kind].data)
        dz_bind_null(st, i);
    return dz_stmt_run(st, err);
}

static int rerun(void *arg, const struct dz_row *row)
{
    struct dz_vfs *v = arg;
    struct dz_err e = {0};
    return run(v, row, &e) < 0 ? dz_vfs_errno(v, &e) : 0;
}

/* Discard the transaction, and build it again from the log. */
static int recover(struct dz_vfs *v)
{
    struct dz_err e = {0};
    dz_blobs_close(v);
    dz_db_rollback(v->db);
    dz_chunk_lens_forget(v);
    v->stale = false;
    if (!v->redo.count)
        return 0;
    int rc = dz_db_begin(v->db, &e) < 0 ? dz_vfs_errno(v, &e) : 0;
    if (!rc)
        rc = redo_each(&v->redo, rerun, v);
    if (rc) {
        dz_blobs_close(v);
        dz_db_rollback(v->db);
        v->stale = true;
    }
    return rc;
}

/* Does the transaction that the log describes exist? If not, make it. */
static int alive(struct dz_vfs *v)
{
    if (dz_likely(!v->stale && (!v->redo.count || dz_db_in_txn(v->db))))
        return 0;
    return recover(v);
}

int dz_row_write(struct dz_vfs *v, const struct dz_row *row)
{
    struct dz_err e = {0};
    struct dz_redo_mark mark = redo_mark(&v->redo);
    bool in_txn = dz_db_in_txn(v->db);

    v->wrote = true;
    if (dz_unlikely(!in_txn && v->redo.count)) {
        v->stale = true;
        return -EIO;
    }
    int rc = redo_add(&v->redo, row);
    if (rc)
        return rc;
    int r = in_txn ? 0 : dz_db_begin(v->db, &e);
    if (!r)
        r = run(v, row, &e);
    if (dz_unlikely(r < 0)) {
        redo_cut(&v->redo, mark);
        v->stale = true; /* until dz_op_end() or flush() has built it again */
        return dz_vfs_errno(v, &e);
    }
    return 0;
}

static int put_node(struct dz_vfs *v, const struct dz_inode *ip)
{
    assert(ip->here && dz_iplausible(ip));
    struct dz_row row = {
        .kind = DZ_ROW_PUT_NODE,
        .n = {(int64_t)ip->ino, ip->mode, ip->uid, ip->gid, ip->nlink, (int64_t)ip->size,
              (int64_t)ip->rdev, ip->atime_ns, ip->mtime_ns, ip->ctime_ns, (int64_t)ip->base_size},
        .data = ip->data,
        .data_len = ip->data ? ip->data_len : 0,
    };
    return dz_row_write(v, &row);
}

int dz_row_put_meta(struct dz_vfs *v, const char *key, int64_t value)
{
    struct dz_row row = {
        .kind = DZ_ROW_PUT_META, .n = {value}, .name = key, .name_len = strlen(key)};
    return dz_row_write(v, &row);
}

int dz_read_begin(struct dz_vfs *v)
{
    int rc = alive(v);
    if (!rc && v->inodes.bytes + v->names.bytes > v->shrink_at)
        dz_caches_shrink(v, v->cache_bytes);
    return rc;
}

int dz_read_inode(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip)
{
    int rc = dz_read_begin(v);
    return rc ? rc : dz_iget(v, ino, ret_ip);
}

/* --- the host's disk ------------------------------------------------------------------- */

enum {
    LOOK_SHARE = 64,         /* this share of the free space may be written until the next look */
    TIGHT_LOG = 64,          /* pages: a longer log is moved into the file when space is short */
    FREE_MARGIN = 256 << 10, /* a transaction's own need: pages of indexes, frames of the log */
};

static int64_t freed_inside(struct dz_vfs *v)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(v->db, "PRAGMA freelist_count");
    return dz_stmt_step(st, NULL) == 1 ? dz_col_int(st, 0) * DZ_DB_PAGE_BYTES : 0;
}

/* Bytes of changes that wait for the commit. */
static size_t pending(const struct dz_vfs *v)
{
    return v->redo.bytes + v->buffer_bytes;
}

/* Bytes that may be written until keep_free is reached. Uncommitted changes go to the log, and the
 * log goes to the file. Negative: less is free already. */
static int64_t left_on_host(struct dz_vfs *v)
{
    struct statfs fs;
    int fd = dz_db_fd(v->db);
    if (fd < 0 || fstatfs(fd, &fs) < 0)
        return INT64_MAX;
    int64_t owed = 2 * (int64_t)pending(v) + (int64_t)dz_db_wal_pages(v->db) * DZ_DB_PAGE_BYTES;
    return (int64_t)fs.f_bavail * (int64_t)fs.f_bsize - (int64_t)v->keep_free - owed - FREE_MARGIN;
}

/* Check the host's free space before a change. When it is short, the SQLite log is kept short. */
static int look_at_host(struct dz_vfs *v)
{
    size_t seen = v->look_seen <= pending(v) ? v->look_seen : 0, since = pending(v) - seen;
    struct dz_err e = {0};
    v->look_seen = pending(v);
    v->look_budget = since < v->look_budget ? v->look_budget - since : 0;
    if (v->look_budget > 0)
        return 0;
    int64_t left = left_on_host(v);
    if (left <= 0 && (dz_db_wal_pages(v->db) > TIGHT_LOG || pending(v) > FREE_MARGIN)) {
        if (dz_vfs_commit(v, &e) < 0)
            return dz_vfs_errno(v, &e);
        dz_blobs_close(v);
        if (dz_db_checkpoint(v->db, DZ_DB_CHECKPOINT_EMPTY, &e) < 0)
            return dz_vfs_errno(v, &e);
        v->look_seen = 0;
        left = left_on_host(v);
    }
    if (left <= 0 && left > -(int64_t)v->keep_free / 2)
        left = freed_inside(v) - FREE_MARGIN;
    v->host_full = left <= 0;
    left = left > 0 ? left / LOOK_SHARE : 0;
    v->look_budget = left < DZ_VFS_LOOK_BYTES ? (size_t)left : DZ_VFS_LOOK_BYTES;
    return 0;
}

static void assert_list(const struct dz_inode *first, size_t count, uint8_t dirty)
{
    const struct dz_inode *ip = first;
    for (size_t i = 0; i < count; i++, ip = ip->dirty_next)
        assert(ip->dirty == dirty && ip->dirty_next->dirty_prev == ip);
    assert(ip == first && (first != NULL) == (count > 0));
}

static void assert_dirty(const struct dz_vfs *v)
{
    if (!DZ_CHECK_DEEP)
        return;
    assert_list(v->dirty, v->dirty_rows, DZ_DIRTY_ROW);
    assert_list(v->lazy, v->lazy_count, DZ_DIRTY_ATIME);
}

uint64_t dz_vfs_changes(const struct dz_vfs *v)
{
    uint64_t n = v->changes;
    const struct dz_vfs *fs;
    for (size_t i = 0; (fs = dz_mounts_next(v, &i));)
        n += fs->changes;
    return n;
}

int dz_op_begin(struct dz_vfs *v)
{
    assert(!v->in_op);
    if (v->readonly)
        return -EROFS;
    int looked = dz_unlikely(v->keep_free) ? look_at_host(v) : 0;
    if (looked)
        return looked;
    if (pending(v) > DZ_VFS_REDO_MAX || v->dirty_rows > DZ_VFS_DIRTY_MAX) {
        struct dz_err e = {0};
        if (dz_vfs_commit(v, &e) < 0)
            return dz_vfs_errno(v, &e);
    }
    int rc = dz_unlikely(v->cut && !v->cutting) ? dz_cut_finish(v) : 0;
    if (!rc)
        rc = dz_read_begin(v);
    if (rc)
        return rc;
    v->op_mark = redo_mark(&v->redo);
    v->op_bytes = v->used_bytes;
    v->op_inodes = v->used_inodes;
    v->wrote = false;
    v->changes++;
    v->in_op = true;
    return 0;
}

int dz_op_end(struct dz_vfs *v, int rc)
{
    assert(v->in_op);
    v->in_op = false;
    if (dz_likely(rc >= 0))
        return rc;
    v->used_bytes = v->op_bytes;
    v->used_inodes = v->op_inodes;
    if (v->wrote) {
        struct dz_err why = v->why;
        redo_cut(&v->redo, v->op_mark);
        (void)recover(v); /* if it fails now, the next operation tries again */
        v->why = why;
    }
    return rc;
}

/* Write counters and notes, which only matter to the next open of the file. */
static int flush_meta(struct dz_vfs *v, bool final)
{
    bool changes = v->redo.count > 0;
    int rc = 0;
    if (v->has_xattrs && !v->xattrs_noted) {
        rc = dz_row_put_meta(v, "xattrs", 1);
        v->xattrs_noted = !rc;
    }
    if (!rc && v->orphans && !v->orphans_noted) {
        rc = dz_row_put_meta(v, "orphans", 1);
        v->orphans_noted = !rc;
    }
    if (!rc && final && changes && !v->orphans && v->orphans_noted) {
        rc = dz_row_put_meta(v, "orphans", 0);
        v->orphans_noted = rc != 0;
    }
    if (!rc && final && (changes || !v->counters_noted)) {
        rc = dz_row_put_meta(v, "used_bytes", v->used_bytes);
        if (!rc)
            rc = dz_row_put_meta(v, "used_inodes", v->used_inodes);
        if (!rc)
            rc = dz_row_put_meta(v, "counters", 1);
        v->counters_noted = !rc;
    } else if (!rc && !final && changes && v->counters_noted) {
        rc = dz_row_put_meta(v, "counters", 0);
        v->counters_noted = rc != 0;
    }
    return rc;
}

static int flush_list(struct dz_vfs *v, struct dz_inode **list)
{
    int rc = 0;
    while (*list && !rc) {
        struct dz_inode *ip = *list;
        rc = dz_buffers_write(v, ip);
        if (!rc)
            rc = put_node(v, ip);
        if (!rc) {
            ip->stored = true;
            dz_iclean(v, ip);
        }
    }
    return rc;
}

static int flush(struct dz_vfs *v, bool final)
{
    int rc = flush_list(v, &v->dirty);
    if (!rc && final)
        rc = flush_list(v, &v->lazy);
    if (!rc)
        rc = flush_meta(v, final);
    if (rc)
        (void)recover(v);
    return rc;
}

struct extra {
    int (*fn)(void *arg, struct dz_db *db, struct dz_err *err);
    void *arg;
};

static int fail_commit(struct dz_vfs *v, struct dz_err *err)
{
    return dz_fail(err, v->why.code ? v->why.code : DZ_EIO, "cannot write changes: %s", v->why.msg);
}

/* After a commit nothing waits to be written: no transaction, no row in the log, no dirty inode. */
static void assert_committed(const struct dz_vfs *v)
{
    assert(!dz_db_in_txn(v->db) && v->redo.count == 0 && !v->dirty && !v->stale && !v->in_op);
    assert(v->buffer_bytes == 0);
    assert_dirty(v);
    dz_assert_caches(v);
}

static int commit(struct dz_vfs *v, bool final, const struct extra *extra, struct dz_err *err)
{
    struct dz_err e = {0};
    if (v->readonly)
        return extra ? dz_fail(err, DZ_EDENIED, "the disk is open for reading only") : 0;
    assert_log(&v->redo);
    assert_dirty(v);
    if (alive(v) < 0 || flush(v, final) < 0)
        return fail_commit(v, err);
    int r = 0;
    if (extra && !dz_db_in_txn(v->db))
        r = dz_db_begin(v->db, &e);
    if (!r && !dz_db_in_txn(v->db))
        return 0;
    if (!r && v->before_commit)
        r = v->before_commit(v->arg, v->db, &e);
    if (!r && extra)
        r = extra->fn(extra->arg, v->db, &e);
    dz_blob_close(v->blob_write);
    v->blob_write = NULL;
    if (!r)
        r = dz_db_commit(v->db, &e);
    if (r < 0) {
        (void)recover(v);
        v->why = e;
        return fail_commit(v, err);
    }
    redo_cut(&v->redo, (struct dz_redo_mark){0});
    assert_committed(v);
    return 0;
}

/* Commit the mounted disks, which are committed before the sandbox's own. dz_vfs_maintain() also
 * moves a long WAL into a disk's file; nobody else calls it for mounted disks. */
static int commit_mounted(struct dz_vfs *fs, struct dz_err *err)
{
    return dz_vfs_maintain(fs, false, err);
}

static int quiesce_mounted(struct dz_vfs *fs, struct dz_err *err)
{
    return commit(fs, true, NULL, err);
}

int dz_vfs_commit(struct dz_vfs *v, struct dz_err *err)
{
    int r = v->mounts ? dz_mounts_each(v, commit_mounted, err) : 0;
    return r < 0 ? r : commit(v, false, NULL, err);
}

int dz_vfs_quiesce(struct dz_vfs *v, int (*fn)(void *arg, struct dz_db *db, struct dz_err *err),
                   void *arg, struct dz_err *err)
{
    struct extra extra = {fn, arg};
    int r = dz_mounts_each(v, quiesce_mounted, err);
    return r < 0 ? r : commit(v, true, fn ? &extra : NULL, err);
}

int dz_vfs_sync(struct dz_vfs *v, struct dz_err *err)
{
    int r = dz_mounts_each(v, dz_vfs_sync, err);
    if (r >= 0)
        r = dz_vfs_commit(v, err);
    if (r < 0)
        return r;
    int fd = v->readonly ? -1 : dz_db_wal_fd(v->db);
    if (fd >= 0 && fdatasync(fd) < 0)
        return dz_fail_sys(err, errno, "sync the WAL of the disk");
    return 0;
}

int dz_vfs_maintain(struct dz_vfs *v, bool idle, struct dz_err *err)
{
    int r = dz_vfs_commit(v, err);
    struct dz_vfs *fs;
    for (size_t i = 0; idle && r >= 0 && (fs = dz_mounts_next(v, &i));)
        r = dz_vfs_maintain(fs, idle, err);
    if (r < 0 || v->readonly || dz_db_wal_pages(v->db) < (idle ? 1 : DZ_DB_CHECKPOINT_PAGES))
        return r;
    dz_blobs_close(v); /* an open handle would block the checkpoint */
    return dz_db_maintain(v->db, idle, err);
}

bool dz_vfs_dirty(const struct dz_vfs *v)
{
    bool dirty = v->redo.count || v->dirty_rows;
    const struct dz_vfs *fs;
    for (size_t i = 0; !dirty && (fs = dz_mounts_next(v, &i));)
        dirty = fs->redo.count || fs->dirty_rows;
    return dirty;
}
