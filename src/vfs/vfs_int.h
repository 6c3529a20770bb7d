/* SPDX-License-Identifier: MIT
 *
 * vfs_int.h - what the files of the disk share. Not for other modules.
 *
 *   vfs_at                                     paths, permission, credentials
 *   vfs_mount                                  other disks at directories of this one
 *   vfs_dir  vfs_file  vfs_attr  vfs_readdir   operations on inodes and names
 *   vfs_lock  vfs_watch                        record locks, events about changes
 *   vfs_node                                   inodes and names in memory; image below file
 *   vfs_buffer                                 chunks that were changed since the last commit
 *   vfs_tx                                     rows, the transaction, and its memory
 *   vfs_open  vfs_schema  vfs_check            opening, tables, checking a whole disk
 *   vfs_tar_in  vfs_tar_out  vfs_tar_read  vfs_tar_head   archives
 *
 * The rule that makes operations atomic: an operation first finds out whether it is allowed, then
 * writes its rows, and only when all of them are written does it change anything in memory, which
 * cannot fail. If a row fails, the transaction is rolled back and built again from the redo log up
 * to the operation's start.
 */
#ifndef DZ_VFS_VFS_INT_H
#define DZ_VFS_VFS_INT_H

#include "vfs/vfs.h"

#include <errno.h>
#include <sys/stat.h>

#include "db/db.h"

enum {
    DZ_VFS_CACHE_BYTES = 1 << 20, /* default of opts.cache_bytes */
    DZ_VFS_REDO_MAX = 4 << 20,    /* bytes of changes that wait for a commit */
    DZ_VFS_DIRTY_MAX = 2048,      /* changed inodes that wait for a commit */
    DZ_VFS_LAZY_MAX = 512,        /* inodes with no change but the access time */
    DZ_VFS_STEP_CHUNKS = 1024,    /* default of opts.step_chunks: 32 MiB */
    DZ_VFS_LENS = 512,            /* remembered chunk lengths */
    DZ_VFS_BUFFER_BUCKETS = 512,
    DZ_VFS_CHUNK_BITS = 24,          /* chunk.id = ino << 24 | index */
    DZ_VFS_WINDOWS = 4,              /* directory listings under way */
    DZ_VFS_WINDOW_ENTRIES = 1 << 16, /* names in one of them */
    DZ_VFS_WINDOW_BYTES = 2 << 20,
    DZ_VFS_ABOVE_MAX = 1 << 23, /* an image with more inodes does without the bit sets */
};
#define DZ_VFS_INO_MAX (((uint64_t)1 << (63 - DZ_VFS_CHUNK_BITS)) - 1)

/* ---- vfs_node.c: a bounded hash table with the least recently used last ----- */

struct dz_vfs_hnode {
    struct dz_vfs_hnode *chain, *newer, *older;
    uint64_t hash;
    size_t bytes; /* counted against the cache's limit */
};

struct dz_vfs_cache {
    struct dz_vfs_hnode **bucket, *newest, *oldest;
    size_t mask, count, bytes;
};

uint64_t dz_vfs_hash(uint64_t seed, const void *p, size_t n);
int dz_vfs_cache_init(struct dz_vfs_cache *c);
void dz_vfs_cache_release(struct dz_vfs_cache *c); /* of an empty cache */

/* ---- vfs_node.c: inodes and names in memory ------------------------------------ */

enum {
    DZ_DIRTY_ROW = 1,   /* must reach the file with the next commit */
    DZ_DIRTY_ATIME = 2, /* only with another change, or at the end */
};

/* An inode in memory. It stays where it is while it is dirty or has refs; any other pointer is
 * valid until the next dz_op_begin() or dz_read_begin(). */
struct dz_inode {
    struct dz_vfs_hnode h;
    struct dz_inode *dirty_prev, *dirty_next;
    /* rdev of a directory: its parent; of a regular file: where it is in the pack, or 0 */
    uint64_t ino, size, rdev, base_size;
    uint32_t mode, uid, gid, nlink;
    int64_t atime_ns, mtime_ns, ctime_ns;
    uint8_t *data;     /* a symlink's target or a small file's content, else NULL */
    uint32_t data_len; /* <= size; the rest reads as zeros */
    uint32_t refs;
    uint64_t via;              /* directory it was last found in, or 0 */
    uint64_t version;          /* of a directory: changes with its names */
    struct dz_buffer *buffers; /* circular list of its changed chunks, or NULL */
    uint8_t dirty;
    bool here;   /* has a row in this file, or will have one with the next commit */
    bool stored; /* has a row in this file, or in the transaction */
    bool rows;   /* may have rows of chunks there */
    bool below;  /* exists in the image */
};

struct dz_dentry {
    struct dz_vfs_hnode h;
    uint64_t dir, ino; /* ino 0: known not to exist */
    uint32_t type;     /* mode >> 12 */
    uint32_t len;
    char name[];
};

static inline bool dz_is_dir(const struct dz_inode *ip)
{
    return S_ISDIR(ip->mode);
}

int dz_iget(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip);
int dz_iget_dir(struct dz_vfs *v, uint64_t ino,
                struct dz_inode **ret_ip); /* ENOTDIR, ENOENT when removed */
/* A new inode in memory with the next free number; dz_iundo() undoes both. */
int dz_inew(struct dz_vfs *v, uint32_t mode, struct dz_inode **ret_ip);
void dz_iundo(struct dz_vfs *v, struct dz_inode *ip);
void dz_iforget(struct dz_vfs *v, struct dz_inode *ip);
void dz_idirty(struct dz_vfs *v, struct dz_inode *ip, uint8_t how);
void dz_iclean(struct dz_vfs *v, struct dz_inode *ip);
bool dz_iplausible(const struct dz_inode *ip); /* do type, sizes and data fit each other? */
/* Give ip this content, copied unless it is NULL, and account for it. -ENOMEM. */
int dz_iset_data(struct dz_vfs *v, struct dz_inode *ip, const void *data, size_t len);
/* The same with memory from dz_alloc(), which ip then owns; NULL: not inline. Cannot fail. */
void dz_iadopt_data(struct dz_vfs *v, struct dz_inode *ip, uint8_t *data, size_t len);

enum {
    DZ_ABOVE_NODE,
    DZ_ABOVE_NAMES
};
void dz_node_prepare(struct dz_db *db);
void dz_dir_prepare(struct dz_db *db);
bool dz_above(const struct dz_vfs *v, int what, uint64_t ino); /* may this file have rows of it? */
int dz_above_load(struct dz_vfs *v, bool any, struct dz_err *err); /* any: rows at all */

/* 0 and the entry, or -ENOENT; dir is a live directory. */
int dz_name_find(struct dz_vfs *v, struct dz_inode *dir, const char *name, size_t len,
                 uint64_t *ret_ino, uint32_t *ret_type);
/* Update the cache with what was just written; ino 0 = removed. When memory is short it forgets the
 * name instead. */
void dz_name_set(struct dz_vfs *v, uint64_t dir, const char *name, size_t len, uint64_t ino,
                 uint32_t type);
/* Write the rows that make name mean ino, or nothing. Memory is not changed. */
int dz_name_put(struct dz_vfs *v, struct dz_inode *dir, const char *name, size_t len, uint64_t ino,
                uint32_t type);
int dz_name_del(struct dz_vfs *v, struct dz_inode *dir, const char *name, size_t len);
int dz_name_check(const char *name, size_t len); /* ENAMETOOLONG, EINVAL, EEXIST for dots */
void dz_caches_shrink(struct dz_vfs *v, size_t bytes);
#if DZ_CHECK_DEEP
void dz_assert_caches(const struct dz_vfs *v);
#else
static inline void dz_assert_caches(const struct dz_vfs *v)
{
    (void)v;
}
#endif

/* ---- vfs_tx.c: the changes of the open transaction, kept until it is committed -- */

enum dz_row_kind {
    DZ_ROW_PUT_NODE,
    DZ_ROW_DEL_NODE,
    DZ_ROW_PUT_DENTRY,
    DZ_ROW_DEL_DENTRY,
    DZ_ROW_DEL_DENTRIES,
    DZ_ROW_PUT_CHUNK,
    DZ_ROW_PATCH_CHUNK,
    DZ_ROW_DEL_CHUNKS,
    DZ_ROW_PUT_XATTR,
    DZ_ROW_DEL_XATTR,
    DZ_ROW_DEL_XATTRS,
    DZ_ROW_PUT_META,
    DZ_ROW_KINDS,
};

/* One statement's worth: integers first, then name, then data. */
struct dz_row {
    enum dz_row_kind kind;
    int64_t n[11];
    const void *name, *data; /* data NULL: SQL NULL */
    size_t name_len, data_len;
};

struct dz_redo_block;
struct dz_redo {
    struct dz_redo_block *first, *last;
    size_t bytes, count;
};
struct dz_redo_mark {
    struct dz_redo_block *last;
    size_t used, bytes, count;
};
void dz_redo_release(struct dz_redo *r);

/* ---- vfs_tx.c --------------------------------------------------------------------- */

void dz_tx_prepare(struct dz_db *db);
/* A change begins: restores a lost transaction, commits a full one, shrinks the caches, sets the
 * mark. EROFS, or the reason why the commit failed. */
int dz_op_begin(struct dz_vfs *v);
/* A change ends: with rc < 0 its rows are undone. Returns rc. */
int dz_op_end(struct dz_vfs *v, int rc);
int dz_read_begin(struct dz_vfs *v);
/* Begin a read of one inode. */
int dz_read_inode(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip);
int dz_row_write(struct dz_vfs *v, const struct dz_row *row);
int dz_row_put_meta(struct dz_vfs *v, const char *key, int64_t value);
int dz_vfs_errno(struct dz_vfs *v, const struct dz_err *e); /* remembers the sentence */
void dz_blobs_close(struct dz_vfs *v);
/* A handle on chunk `id`, moved from wherever it is; on failure it is closed. DZ_E*. */
int dz_blob_on(struct dz_vfs *v, struct dz_blob **slot, uint64_t id, struct dz_err *e);

/* ---- vfs_buffer.c: chunks that were changed since the last commit --------------------- */

struct dz_buffer {
    struct dz_buffer *chain, *prev, *next; /* of a bucket; of the inode */
    uint64_t id;                           /* of the chunk */
    uint8_t *data;
    uint32_t len, cap;   /* bytes of the chunk, and of data */
    uint32_t from, upto; /* bytes that differ from the row; upto 0: none */
    int32_t row_len;     /* -1: no row in this file */
};

struct dz_buffer *dz_buffer_find(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index);
struct dz_buffer *dz_buffer_new(size_t size); /* room for size bytes; NULL: no memory */
void dz_buffer_free(struct dz_buffer *b);     /* of one that was not added */
int dz_buffer_grow(struct dz_vfs *v, struct dz_buffer *b, size_t size); /* of one that was added */
/* From now on b is the chunk. The caller sets len and row_len, accounts, and makes ip dirty. */
void dz_buffer_add(struct dz_vfs *v, struct dz_inode *ip, uint64_t index, struct dz_buffer *b);
void dz_buffer_changed(struct dz_buffer *b, size_t from, size_t upto);
/* Forget the changes of chunks [first, last], and account for that. */
void dz_buffers_drop(struct dz_vfs *v, struct dz_inode *ip, uint64_t first, uint64_t last);
/* Write all of them as rows and free them. */
int dz_buffers_write(struct dz_vfs *v, struct dz_inode *ip);
/* The bytes that the chunks have more than their rows. */
int64_t dz_buffers_beyond_rows(const struct dz_inode *ip);
/* The first chunk >= index that has one, UINT64_MAX: none. */
uint64_t dz_buffers_next(const struct dz_inode *ip, uint64_t index);

/* ---- vfs_file.c ------------------------------------------------------------------- */

enum {
    DZ_VFS_LAST_INDEX = (1 << DZ_VFS_CHUNK_BITS) - 1
};
void dz_chunk_lens_forget(struct dz_vfs *v);
void dz_chunk_len_set(struct dz_vfs *v, uint64_t id, int64_t len);
/* Remove rows [first, last] of this file, and account for that; changed chunks stay. */
int dz_chunks_delete(struct dz_vfs *v, const struct dz_inode *ip, uint64_t first, uint64_t last);
/* The last of the rows from chunk id `from` on, of one inode: at most opts.step_chunks.
 * *ret_more: there are others. */
int dz_chunks_delete_some(struct dz_vfs *v, uint64_t from, bool *ret_more);
/* Has the file more chunks, counted from `first`, than one transaction should remove? */
bool dz_chunks_many(const struct dz_vfs *v, const struct dz_inode *ip, uint64_t first);

/* Compute meta's counters from the rows. */
int dz_vfs_count(struct dz_db *db, int64_t *ret_bytes, int64_t *ret_inodes, struct dz_err *err);

/* The first chunk >= index of this file, not of the image; UINT64_MAX: none. */
int dz_chunk_next_here(struct dz_vfs *v, const struct dz_inode *ip, uint64_t index,
                       uint64_t *ret_index);

/* ---- vfs_pack.c --------------------------------------------------------------------- */

/* Can a file of this size lie there in the pack? */
bool dz_pack_fits(const struct dz_vfs_pack *p, uint64_t at, uint64_t size);
/* Is the file's content in the image's pack? */
bool dz_is_packed(const struct dz_vfs *v, const struct dz_inode *ip);
/* The number of these bytes that are still visible, from the file's start. */
uint64_t dz_pack_visible(const struct dz_vfs *v, const struct dz_inode *ip);
/* Read some of these bytes. */
int dz_pack_read(struct dz_vfs *v, const struct dz_inode *ip, uint64_t off, void *buf, size_t n);

/* ---- others -------------------------------------------------------------------------- */

/* Can the file have this size? It first makes room, as an operation of its own: the caller holds
 * ip. */
int dz_file_resizable(struct dz_vfs *v, struct dz_inode *ip, uint64_t size);
int dz_file_truncate(struct dz_vfs *v, struct dz_inode *ip, uint64_t size); /* inside an op */
int dz_xattrs_delete(struct dz_vfs *v, const struct dz_inode *ip);          /* inside an op */
/* Remove what an unfinished truncation has left (v->cut). 0 when nothing is left, or -errno. */
int dz_cut_finish(struct dz_vfs *v);
/* Is this a valid record of an unfinished truncation? */
bool dz_cut_fits(const struct dz_inode *ip, uint64_t cut);
static inline bool dz_ino_fixed(uint64_t ino)
{
    return ino <= DZ_VFS_TMP;
}
/* Is there a visible name in dir? 1, 0 or -errno. */
int dz_dir_occupied(struct dz_vfs *v, struct dz_inode *dir);
/* Remove everything in it, as dz_vfs_remove_tree(). */
int dz_dir_empty(struct dz_vfs *v, uint64_t dir);
/* Walk the visible names of dir above `after` (len 0 = all) in byte order. */
int dz_dir_scan(struct dz_vfs *v, struct dz_inode *dir, const char *after, size_t len,
                int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg);
/* The (first) name of ino in dir. */
int dz_dir_name_of(struct dz_vfs *v, uint64_t dir, uint64_t ino, char *name, size_t *ret_len);
void dz_windows_release(struct dz_vfs *v);
/* Is `dir` equal to or below `top`? 1, 0 or -errno. */
int dz_dir_below(struct dz_vfs *v, uint64_t dir, uint64_t top);

/* vfs_tar_in.c: finish an import that was cut off (v->untar); is that note valid? */
DZ_NODISCARD int dz_tar_resume(struct dz_vfs *v, struct dz_err *err);
bool dz_tar_note_fits(struct dz_vfs *v, int64_t value);

/* ---- vfs_mount.c --------------------------------------------------------------------- */

enum {
    DZ_MOUNT_SHIFT = 40, /* an inode's number for users: mount << 40 | number in its own file */
};
static inline bool dz_mounted(uint64_t ino)
{
    return ino > DZ_VFS_INO_MAX;
}
int dz_mount_cross(struct dz_vfs **v, uint64_t *ino);
/* Replace the disk and the inode by those that the mount of the inode has. -ESTALE: it has none. */
static inline int dz_mount_enter(struct dz_vfs **v, uint64_t *ino)
{
    return dz_likely(!dz_mounted(*ino)) ? 0 : dz_mount_cross(v, ino);
}
bool dz_mount_point(const struct dz_vfs *v, uint64_t ino); /* is it a covered directory? */
/* Is a covered directory, which may be dir itself, in the tree at dir? 1, 0 or -errno. */
int dz_mount_below(struct dz_vfs *v, uint64_t dir);
/* `ino` of a mounted file, for users: in the mount of `like`. */
uint64_t dz_mount_like(uint64_t like, uint64_t ino);
/* A name in dir has the inode ino in dir's own file. Returns the inode to which the name leads: the
 * root of a mounted disk if one is mounted there. */
uint64_t dz_mount_down(const struct dz_vfs *v, uint64_t dir, uint64_t ino);
int dz_mount_up(struct dz_vfs *v, uint64_t dir, uint64_t *ret_parent);
int dz_iget_any(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip); /* to look at */
/* dz_vfs_readdir(), dz_vfs_listed(), dz_vfs_getcwd() and dz_vfs_find_path() of mounted inodes. */
int dz_mount_readdir(struct dz_vfs *v, uint64_t dir, uint64_t cookie,
                     int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg);
int64_t dz_mount_listed(struct dz_vfs *v, const struct dz_vfs_name *name,
                        int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg);
int dz_mount_path(struct dz_vfs *v, uint64_t root, uint64_t ino, bool dir, char *buf, size_t size);
int dz_mounts_observe(struct dz_vfs *v, const struct dz_vfs_observer *o);
struct dz_vfs *dz_mounts_next(const struct dz_vfs *v, size_t *i); /* NULL: no other */
int dz_mounts_each(struct dz_vfs *v, int (*fn)(struct dz_vfs *fs, struct dz_err *err),
                   struct dz_err *err);

struct dz_watches;
void dz_watch_release(struct dz_vfs *v);
uint32_t dz_watch_cookie(struct dz_vfs *v);
void dz_watch_name(struct dz_vfs *v, const struct dz_vfs_event *ev); /* dir, name known */
void dz_watch_inode(struct dz_vfs *v, enum dz_vfs_event_type type, struct dz_inode *ip);
/* LINKS or GONE: for the observer only. */
void dz_watch_links(struct dz_vfs *v, enum dz_vfs_event_type type, const struct dz_inode *ip);

struct dz_window;
struct dz_locks {
    struct dz_vfs_lock *lock;
    size_t count, cap;
};

struct dz_vfs {
    struct dz_db *db, *image;
    struct dz_vfs_pack pack; /* of the image, or of db */
    bool pack_unknown;       /* for a check: there is one and it was not given */
    uint64_t
        packed_bytes; /* of the files in it, as the disk's own note says; 0 of an image below */
    bool readonly, noatime, stale, wrote, has_xattrs, image_xattrs;
    uint64_t changes;    /* operations begun */
    bool in_op;          /* between dz_op_begin() and dz_op_end() */
    bool xattrs_noted;   /* meta says that there may be extended attributes */
    bool orphans_noted;  /* meta says that there may be orphans */
    bool counters_noted; /* meta's counters are right */
    bool image_counted;
    uint64_t limit_bytes, limit_inodes;
    uint64_t keep_free;              /* bytes to leave free on the host's file system; 0: not
                                      * checked */
    size_t look_budget;              /* bytes of changes until the next look, */
    size_t look_seen;                /* the redo log's bytes at the last look */
    bool host_full;                  /* at the last look there was no space: nothing may grow */
    int64_t used_bytes, used_inodes; /* of this file, with what is dirty */
    uint64_t image_bytes, image_inodes;
    uint64_t next_ino, image_max, seed;
    uint8_t *above[2]; /* bit sets over the image's inodes: may this file have rows for the node, or
                          names in the directory? NULL: assume that it may */
    size_t cache_bytes;
    int64_t (*now_ns)(void *arg);
    int (*before_commit)(void *arg, struct dz_db *db, struct dz_err *err);
    void *arg;

    struct dz_vfs_cache inodes, names;
    struct dz_inode *dirty, *lazy; /* circular lists, NULL when empty; lazy: only DZ_DIRTY_ATIME */
    size_t dirty_rows, lazy_count, orphans;
    size_t shrink_at; /* size of the caches, in bytes, at which to try and evict */
    uint64_t version; /* source of directory versions */
    uint32_t step_chunks;
    uint64_t cut;            /* meta.cut: chunks from this id on are to be removed; 0: none */
    bool cutting;            /* they are being removed now */
    int64_t untar;           /* meta.untar: the stage of an import under way */
    struct dz_inode *burial; /* an inode with much content that lost its last name in this
                              * operation */

    struct dz_buffer *buffer[DZ_VFS_BUFFER_BUCKETS];
    size_t buffer_bytes;
    struct dz_redo redo;
    struct dz_redo_mark op_mark;
    int64_t op_bytes, op_inodes; /* counters at the mark */
    struct dz_blob *blob_read, *blob_write, *blob_image;
    uint64_t read_id, write_id, image_id; /* the chunk that each of the handles is on */
    bool holes[2]; /* the last requested chunk had no row: look the next one up by statement */
    struct {
        uint64_t id; /* 0: empty */
        int32_t len;
    } lens[2][DZ_VFS_LENS];
    struct dz_window *window[DZ_VFS_WINDOWS];
    uint64_t window_clock;
    struct dz_locks locks;
    struct dz_watches *watches; /* NULL without */
    struct dz_mounts *mounts;   /* NULL without */
    bool is_mounted;            /* on another disk */
    struct dz_err why;
};

static inline int64_t dz_now(const struct dz_vfs *v)
{
    return v->now_ns(v->arg);
}

/* Would this much more go beyond the limits, or is the host's disk full? 0, -EDQUOT, -ENOSPC. */
static inline int dz_quota(const struct dz_vfs *v, int64_t bytes, int64_t inodes)
{
    if (v->host_full && (bytes > 0 || inodes > 0))
        return -ENOSPC;
    if (v->limit_bytes && bytes > 0 && v->used_bytes + bytes > (int64_t)v->limit_bytes)
        return -EDQUOT;
    if (v->limit_inodes && inodes > 0 && v->used_inodes + inodes > (int64_t)v->limit_inodes)
        return -EDQUOT;
    return 0;
}

static inline uint64_t dz_chunk_id(uint64_t ino, uint64_t index)
{
    return ino << DZ_VFS_CHUNK_BITS | index;
}

#endif
