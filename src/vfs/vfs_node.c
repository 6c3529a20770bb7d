/* SPDX-License-Identifier: MIT
 *
 * vfs_node.c - inodes and names in memory, and how the image shows through.
 *
 * A row of this file replaces the image's row with the same key. So an inode is looked up here
 * first, then in the image; a name likewise, where ino 0 hides the image's. The first change of
 * an inode of the image marks it dirty, and the commit writes its whole row here: that is all of
 * copy-up, except for chunks (vfs_file.c).
 *
 * Two bit sets over the image's inodes say which of them may have rows here, so that a lookup in
 * an untouched part of the image reads the image only.
 *
 * Inodes and names are cached in an intrusive hash table that remembers the order of use:
 *
 *     bucket[hash & mask] -> node -> node        chain
 *     newest -> node <-> node <-> node <- oldest order of use
 *
 * Rows are not trusted: anybody may have written a sandbox's file. dz_vfs_check() has the
 * invariants of rows; those of memory are:
 *   1. A cache's buckets and its order of use hold the same nodes, each in the bucket of its hash;
 *      count and bytes are the sums over them (dz_assert_caches, with DZ_CHECK_DEEP).
 *   2. An inode in the cache has the number that its hash says, and is plausible if its row was
 *      read; one that is dirty or referenced is not evicted (dz_iforget).
 */
#include "vfs/vfs_int.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* --- the cache --------------------------------------------------------------------------- */

/* The cache knows neither inodes nor names: the owner embeds a struct dz_vfs_hnode, walks a bucket
 * itself, and decides which nodes may be evicted. The table doubles when it holds as many nodes
 * as buckets; when memory is short it stays as it is and its chains grow, so adding cannot fail. */

enum {
    BUCKETS_FIRST = 64,
    BUCKETS_MAX = 1 << 20,
};

/* Eight bytes at a time through a multiply and a fold. Good enough to spread names
 * over buckets and directory cookies; not a defence against someone who knows
 * the seed. */
uint64_t dz_vfs_hash(uint64_t seed, const void *p, size_t n)
{
    const uint8_t *s = p;
    uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15u);
    while (n > 0) {
        uint64_t w = 0;
        size_t step = n < 8 ? n : 8;
        memcpy(&w, s, step);
        __uint128_t m = (__uint128_t)(h ^ w) * 0xD6E8FEB86659FD93u;
        h = (uint64_t)m ^ (uint64_t)(m >> 64) ^ 0x2545F4914F6CDD1Du;
        s += step;
        n -= step;
    }
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return h ^ h >> 29;
}

int dz_vfs_cache_init(struct dz_vfs_cache *c)
{
    *c = (struct dz_vfs_cache){.mask = BUCKETS_FIRST - 1};
    c->bucket = dz_zalloc(BUCKETS_FIRST * sizeof *c->bucket);
    return c->bucket ? 0 : -ENOMEM;
}

void dz_vfs_cache_release(struct dz_vfs_cache *c)
{
    assert(c->count == 0);
    dz_free(c->bucket);
    *c = (struct dz_vfs_cache){0};
}

static struct dz_vfs_hnode *cache_bucket(const struct dz_vfs_cache *c, uint64_t hash)
{
    return c->bucket[hash & c->mask];
}

static void grow(struct dz_vfs_cache *c)
{
    size_t size = (c->mask + 1) * 2;
    if (size > BUCKETS_MAX)
        return;
    struct dz_vfs_hnode **fresh = dz_zalloc(size * sizeof *fresh);
    if (!fresh)
        return;
    for (size_t i = 0; i <= c->mask; i++) {
        struct dz_vfs_hnode *h = c->bucket[i];
        while (h) {
            struct dz_vfs_hnode *chain = h->chain;
            h->chain = fresh[h->hash & (size - 1)];
            fresh[h->hash & (size - 1)] = h;
            h = chain;
        }
    }
    dz_free(c->bucket);
    c->bucket = fresh;
    c->mask = size - 1;
}

static void lru_push(struct dz_vfs_cache *c, struct dz_vfs_hnode *h)
{
    h->newer = NULL;
    h->older = c->newest;
    if (c->newest)
        c->newest->newer = h;
    else
        c->oldest = h;
    c->newest = h;
}

static void lru_pull(struct dz_vfs_cache *c, const struct dz_vfs_hnode *h)
{
    if (h->newer)
        h->newer->older = h->older;
    else
        c->newest = h->older;
    if (h->older)
        h->older->newer = h->newer;
    else
        c->oldest = h->newer;
}

static void cache_add(struct dz_vfs_cache *c, struct dz_vfs_hnode *h)
{
    if (c->count > c->mask)
        grow(c);
    h->chain = c->bucket[h->hash & c->mask];
    c->bucket[h->hash & c->mask] = h;
    lru_push(c, h);
    c->count++;
    c->bytes += h->bytes;
}

static void cache_remove(struct dz_vfs_cache *c, struct dz_vfs_hnode *h)
{
    struct dz_vfs_hnode **at = &c->bucket[h->hash & c->mask];
    while (*at != h) {
        assert(*at);
        at = &(*at)->chain;
    }
    *at = h->chain;
    lru_pull(c, h);
    c->count--;
    c->bytes -= h->bytes;
}

#if DZ_CHECK_DEEP
static void assert_cache(const struct dz_vfs_cache *c)
{
    size_t count = 0, bytes = 0;
    for (const struct dz_vfs_hnode *h = c->newest; h; h = h->older) {
        const struct dz_vfs_hnode *at = c->bucket[h->hash & c->mask];
        while (at && at != h)
            at = at->chain;
        assert(at && (h->older ? h->older->newer == h : c->oldest == h));
        count++;
        bytes += h->bytes;
    }
    for (size_t i = 0; i <= c->mask; i++)
        for (const struct dz_vfs_hnode *h = c->bucket[i]; h; h = h->chain)
            count--;
    assert(count == 0 && bytes == c->bytes);
}

void dz_assert_caches(const struct dz_vfs *v)
{
    assert_cache(&v->inodes);
    assert_cache(&v->names);
}
#endif

static void cache_touch(struct dz_vfs_cache *c, struct dz_vfs_hnode *h)
{
    if (c->newest == h)
        return;
    lru_pull(c, h);
    lru_push(c, h);
}

/* --- inodes ------------------------------------------------------------------------------ */

enum {
    EVICT_TRIES = 64
}; /* inodes considered in one go; those in use only move to the front */

static const char select_node[] =
    "SELECT mode,uid,gid,nlink,size,rdev,atime,mtime,ctime,base_size,data FROM node WHERE ino=?1";
static const char select_dentry[] = "SELECT ino,type FROM dentry WHERE parent=?1 AND name=?2";

void dz_node_prepare(struct dz_db *db)
{
    (void)dz_db_stmt(db, select_node);
    (void)dz_db_stmt(db, select_dentry);
}

/* ---- what this file has of the image's inodes ------------------------------------ */

bool dz_above(const struct dz_vfs *v, int what, uint64_t ino)
{
    if (ino > v->image_max || !v->above[what])
        return true;
    return v->above[what][ino / 8] >> (ino % 8) & 1;
}

static void above_set(struct dz_vfs *v, int what, uint64_t ino)
{
    if (ino <= v->image_max && v->above[what])
        v->above[what][ino / 8] |= (uint8_t)(1u << (ino % 8));
}

static int load_bits(struct dz_vfs *v, int what, const char *sql, struct dz_err *err)
{
    v->above[what] = dz_zalloc(v->image_max / 8 + 1);
    if (!v->above[what])
        return dz_fail(err, DZ_ENOMEM, "no memory for the inodes of the image");
    if (!sql)
        return 0;
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(v->db, sql);
    dz_bind_int(st, 1, (int64_t)v->image_max);
    int r;
    while ((r = dz_stmt_step(st, err)) > 0)
        above_set(v, what, (uint64_t)dz_col_int(st, 0));
    return r;
}

int dz_above_load(struct dz_vfs *v, bool any, struct dz_err *err)
{
    static const char nodes[] = "SELECT ino FROM node WHERE ino BETWEEN 1 AND ?1";
    static const char names[] = "SELECT DISTINCT parent FROM dentry WHERE parent BETWEEN 1 AND ?1";
    if (!v->image || v->image_max > DZ_VFS_ABOVE_MAX)
        return 0;
    int r = load_bits(v, DZ_ABOVE_NODE, any ? nodes : NULL, err);
    return r < 0 ? r : load_bits(v, DZ_ABOVE_NAMES, any ? names : NULL, err);
}

bool dz_vfs_pristine(const struct dz_vfs *v, uint64_t ino)
{
    return v->image && !dz_mounted(ino) && !dz_above(v, DZ_ABOVE_NODE, ino);
}

/* ---- inodes ----------------------------------------------------------------------- */

static uint64_t ino_hash(uint64_t ino)
{
    uint64_t h = ino * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static struct dz_inode *cached(struct dz_vfs *v, uint64_t ino)
{
    for (struct dz_vfs_hnode *h = cache_bucket(&v->inodes, ino_hash(ino)); h; h = h->chain) {
        struct dz_inode *ip = (struct dz_inode *)h;
        if (ip->ino == ino) {
            cache_touch(&v->inodes, h);
            return ip;
        }
    }
    return NULL;
}

static struct dz_inode *inode_alloc(uint64_t ino)
{
    struct dz_inode *ip = dz_zalloc(sizeof *ip);
    if (ip) {
        ip->h.hash = ino_hash(ino);
        ip->h.bytes = sizeof *ip;
        ip->ino = ino;
    }
    return ip;
}

bool dz_iplausible(const struct dz_inode *ip)
{
    switch (ip->mode & S_IFMT) {
    case S_IFREG:
        if (ip->size > DZ_VFS_FILE_MAX || ip->base_size > ip->size)
            return false;
        return !ip->data || (ip->data_len <= ip->size && ip->size <= DZ_VFS_INLINE_MAX);
    case S_IFLNK:
        return ip->data && ip->size == ip->data_len && ip->size > 0 && ip->size < DZ_VFS_PATH_MAX;
    case S_IFDIR:
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFCHR:
    case S_IFBLK:
        return !ip->data && ip->size == 0;
    default:
        return false;
    }
}

static int read_columns(struct dz_inode *ip, struct dz_stmt *st)
{
    ip->mode = (uint32_t)dz_col_int(st, 0);
    ip->uid = (uint32_t)dz_col_int(st, 1);
    ip->gid = (uint32_t)dz_col_int(st, 2);
    ip->nlink = (uint32_t)dz_col_int(st, 3);
    ip->size = (uint64_t)dz_col_int(st, 4);
    ip->rdev = (uint64_t)dz_col_int(st, 5);
    ip->atime_ns = dz_col_int(st, 6);
    ip->mtime_ns = dz_col_int(st, 7);
    ip->ctime_ns = dz_col_int(st, 8);
    ip->base_size = (uint64_t)dz_col_int(st, 9);
    if (dz_col_type(st, 10) == DZ_DB_NULL)
        return 0;
    size_t len = 0;
    const void *data = dz_col_blob(st, 10, &len);
    if (len > DZ_VFS_PATH_MAX)
        return -EIO;
    ip->data = dz_alloc(len);
    if (!ip->data)
        return -ENOMEM;
    if (len)
        memcpy(ip->data, data, len);
    ip->data_len = (uint32_t)len;
    ip->h.bytes += len;
    return 0;
}

/* Is what the row says about the pack possible? */
static bool pack_plausible(const struct dz_vfs *v, struct dz_inode *ip)
{
    if (S_ISREG(ip->mode) && v->image && !ip->below)
        ip->rdev = 0; /* not of the image */
    return !dz_is_packed(v, ip) || v->pack_unknown ||
           dz_pack_fits(&v->pack, ip->rdev, dz_pack_visible(v, ip));
}

/* 0, -ENOENT, or another error. */
static int inode_read(struct dz_vfs *v, struct dz_db *db, struct dz_inode *ip)
{
    struct dz_err e = {0};
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, select_node);
    dz_bind_int(st, 1, (int64_t)ip->ino);
    int r = dz_stmt_step(st, &e);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    if (r == 0)
        return -ENOENT;
    int rc = read_columns(ip, st);
    if (rc)
        return rc;
    bool here = db == v->db;
    if (!here) /* all of the image's content is visible, whatever its own column says */
        ip->base_size = S_ISREG(ip->mode) && !ip->data ? ip->size : 0;
    if (!dz_iplausible(ip) || (here && ip->base_size && !ip->below) || !pack_plausible(v, ip)) {
        (void)dz_fail(&v->why, DZ_ECORRUPT, "the row of inode %llu is invalid",
                      (unsigned long long)ip->ino);
        return -EIO;
    }
    ip->here = ip->stored = here;
    ip->rows = here && S_ISREG(ip->mode) && !ip->data;
    return 0;
}

static void inode_free(struct dz_inode *ip)
{
    dz_free(ip->data);
    dz_free(ip);
}

static int inode_load(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip)
{
    struct dz_inode *ip = inode_alloc(ino);
    if (!ip)
        return -ENOMEM;
    ip->below = v->image && ino <= v->image_max;
    ip->version = ++v->version; /* listings of an earlier inode with this number are stale */
    int rc = dz_above(v, DZ_ABOVE_NODE, ino) ? inode_read(v, v->db, ip) : -ENOENT;
    if (rc == -ENOENT && ip->below)
        rc = inode_read(v, v->image, ip);
    if (rc) {
        inode_free(ip);
        return rc;
    }
    cache_add(&v->inodes, &ip->h);
    *ret_ip = ip;
    return 0;
}

int dz_iget(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip)
{
    struct dz_inode *ip = cached(v, ino);
    if (ip) {
        *ret_ip = ip;
        return 0;
    }
    if (ino == 0 || ino > DZ_VFS_INO_MAX)
        return -ENOENT;
    return inode_load(v, ino, ret_ip);
}

int dz_iget_dir(struct dz_vfs *v, uint64_t ino, struct dz_inode **ret_ip)
{
    struct dz_inode *ip;
    int rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    if (!dz_is_dir(ip))
        return -ENOTDIR;
    if (ip->nlink == 0)
        return -ENOENT;
    *ret_ip = ip;
    return 0;
}

int dz_inew(struct dz_vfs *v, uint32_t mode, struct dz_inode **ret_ip)
{
    int rc = dz_quota(v, 0, 1);
    if (rc)
        return rc;
    if (v->next_ino > DZ_VFS_INO_MAX)
        return -ENOSPC;
    struct dz_inode *ip = inode_alloc(v->next_ino);
    if (!ip)
        return -ENOMEM;
    ip->mode = mode;
    ip->atime_ns = ip->mtime_ns = ip->ctime_ns = dz_now(v);
    cache_add(&v->inodes, &ip->h);
    v->next_ino++;
    *ret_ip = ip;
    return 0;
}

void dz_iforget(struct dz_vfs *v, struct dz_inode *ip)
{
    dz_buffers_drop(v, ip, 0, DZ_VFS_LAST_INDEX);
    dz_iclean(v, ip);
    cache_remove(&v->inodes, &ip->h);
    inode_free(ip);
}

void dz_iundo(struct dz_vfs *v, struct dz_inode *ip)
{
    assert(ip->ino == v->next_ino - 1 && !ip->dirty);
    dz_iforget(v, ip);
    v->next_ino--;
}

static void list_add(struct dz_inode **list, struct dz_inode *ip)
{
    if (*list) {
        ip->dirty_next = *list;
        ip->dirty_prev = (*list)->dirty_prev;
        ip->dirty_prev->dirty_next = ip;
        ip->dirty_next->dirty_prev = ip;
    } else {
        *list = ip->dirty_next = ip->dirty_prev = ip;
    }
}

static void list_remove(struct dz_inode **list, struct dz_inode *ip)
{
    ip->dirty_prev->dirty_next = ip->dirty_next;
    ip->dirty_next->dirty_prev = ip->dirty_prev;
    if (*list == ip)
        *list = ip->dirty_next == ip ? NULL : ip->dirty_next;
    ip->dirty_next = ip->dirty_prev = NULL;
}

void dz_iclean(struct dz_vfs *v, struct dz_inode *ip)
{
    if (ip->dirty & DZ_DIRTY_ROW) {
        list_remove(&v->dirty, ip);
        v->dirty_rows--;
    } else if (ip->dirty) {
        list_remove(&v->lazy, ip);
        v->lazy_count--;
    }
    ip->dirty = 0;
}

static void dirty_row(struct dz_vfs *v, struct dz_inode *ip)
{
    assert(ip);
    if (ip->dirty & DZ_DIRTY_ROW)
        return;
    dz_iclean(v, ip);
    list_add(&v->dirty, ip);
    v->dirty_rows++;
    ip->dirty = DZ_DIRTY_ROW;
    if (ip->here)
        return;
    ip->here = true;
    above_set(v, DZ_ABOVE_NODE, ip->ino);
    v->used_inodes++;
    v->used_bytes += ip->data_len;
}

void dz_idirty(struct dz_vfs *v, struct dz_inode *ip, uint8_t how)
{
    if (how & DZ_DIRTY_ROW) {
        dirty_row(v, ip);
    } else if (!ip->dirty) {
        while (v->lazy_count >= DZ_VFS_LAZY_MAX) /* enough of them to be worth writing */
            dirty_row(v, v->lazy);
        list_add(&v->lazy, ip);
        v->lazy_count++;
        ip->dirty = how;
    }
}

static void account_data(struct dz_vfs *v, struct dz_inode *ip, size_t old_len)
{
    if (ip->here)
        v->used_bytes += (int64_t)ip->data_len - (int64_t)old_len;
    ip->h.bytes += ip->data_len - old_len;
    v->inodes.bytes += ip->data_len - old_len;
}

void dz_iadopt_data(struct dz_vfs *v, struct dz_inode *ip, uint8_t *data, size_t len)
{
    size_t old = ip->data_len;
    dz_free(ip->data);
    ip->data = data;
    ip->data_len = (uint32_t)len;
    account_data(v, ip, old);
}

int dz_iset_data(struct dz_vfs *v, struct dz_inode *ip, const void *data, size_t len)
{
    uint8_t *p = dz_realloc(ip->data, len ? len : 1);
    if (!p)
        return -ENOMEM;
    size_t old = ip->data ? ip->data_len : 0;
    ip->data = p;
    if (data && len)
        memcpy(p, data, len);
    ip->data_len = (uint32_t)len;
    account_data(v, ip, old);
    return 0;
}

/* ---- names ------------------------------------------------------------------------- */

static uint64_t name_hash(const struct dz_vfs *v, uint64_t dir, const char *name, size_t len)
{
    return dz_vfs_hash(v->seed ^ dir * 0x9E3779B97F4A7C15u, name, len);
}

static struct dz_dentry *name_cached(const struct dz_vfs *v, uint64_t hash, uint64_t dir,
                                     const char *name, size_t len)
{
    struct dz_vfs_hnode *h = cache_bucket(&v->names, hash);
    for (; h; h = h->chain) {
        struct dz_dentry *d = (struct dz_dentry *)h;
        if (h->hash == hash && d->dir == dir && d->len == len && memcmp(d->name, name, len) == 0)
            return d;
    }
    return NULL;
}

static void name_forget(struct dz_vfs *v, struct dz_dentry *d)
{
    cache_remove(&v->names, &d->h);
    dz_free(d);
}

void dz_name_set(struct dz_vfs *v, uint64_t dir, const char *name, size_t len, uint64_t ino,
                 uint32_t type)
{
    uint64_t hash = name_hash(v, dir, name, len);
    struct dz_dentry *d = name_cached(v, hash, dir, name, len);
    if (!d) {
        d = dz_alloc(sizeof *d + len);
        if (!d)
            return;
        *d = (struct dz_dentry){
            .h = {.hash = hash, .bytes = sizeof *d + len}, .dir = dir, .len = (uint32_t)len};
        memcpy(d->name, name, len);
        cache_add(&v->names, &d->h);
    }
    d->ino = ino;
    d->type = type;
}

/* 1 and the row, 0: no row, or an error. */
static int name_select(struct dz_vfs *v, struct dz_db *db, uint64_t dir,
                       const struct dz_vfs_name *n, struct dz_vfs_entry *ret_entry)
{
    struct dz_err e = {0};
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, select_dentry);
    dz_bind_int(st, 1, (int64_t)dir);
    dz_bind_blob(st, 2, n->name, n->len);
    int r = dz_stmt_step(st, &e);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    if (r > 0) {
        ret_entry->ino = (uint64_t)dz_col_int(st, 0);
        ret_entry->type = (uint32_t)dz_col_int(st, 1);
    }
    return r;
}

static int name_load(struct dz_vfs *v, const struct dz_inode *dir, const struct dz_vfs_name *n,
                     struct dz_vfs_entry *ret_entry)
{
    int r =
        dz_above(v, DZ_ABOVE_NAMES, dir->ino) ? name_select(v, v->db, dir->ino, n, ret_entry) : 0;
    if (r == 0 && dir->below)
        r = name_select(v, v->image, dir->ino, n, ret_entry);
    if (r == 0)
        *ret_entry = (struct dz_vfs_entry){0};
    return r < 0 ? r : 0;
}

int dz_name_find(struct dz_vfs *v, struct dz_inode *dir, const char *name, size_t len,
                 uint64_t *ret_ino, uint32_t *ret_type)
{
    struct dz_vfs_entry e = {0};
    struct dz_dentry *d = name_cached(v, name_hash(v, dir->ino, name, len), dir->ino, name, len);
    if (d) {
        cache_touch(&v->names, &d->h);
        e.ino = d->ino;
        e.type = d->type;
    } else {
        struct dz_vfs_name n = {dir->ino, name, len};
        int rc = name_load(v, dir, &n, &e);
        if (rc)
            return rc;
        dz_name_set(v, dir->ino, name, len, e.ino, e.type);
    }
    if (e.ino == 0)
        return -ENOENT;
    *ret_ino = e.ino;
    *ret_type = e.type;
    return 0;
}

int dz_name_put(struct dz_vfs *v, struct dz_inode *dir, const char *name, size_t len, uint64_t ino,
                uint32_t type)
{
    struct dz_row row = {
        .kind = DZ_ROW_PUT_DENTRY,
        .n = {(int64_t)dir->ino, (int64_t)ino, type},
        .name = name,
        .name_len = len,
    };
    above_set(v, DZ_ABOVE_NAMES, dir->ino);
    return dz_row_write(v, &row);
}

int dz_name_del(struct dz_vfs *v, struct dz_inode *dir, const char *name, size_t len)
{
    struct dz_vfs_entry e = {0};
    struct dz_vfs_name n = {dir->ino, name, len};
    int r = dir->below ? name_select(v, v->image, dir->ino, &n, &e) : 0;
    if (r < 0)
        return r;
    if (r > 0) /* the image has the name too: write a row that hides it */
        return dz_name_put(v, dir, name, len, 0, 0);
    struct dz_row row = {
        .kind = DZ_ROW_DEL_DENTRY, .n = {(int64_t)dir->ino}, .name = name, .name_len = len};
    return dz_row_write(v, &row);
}

int dz_name_check(const char *name, size_t len)
{
    if (len == 0)
        return -ENOENT;
    if (len > DZ_VFS_NAME_MAX)
        return -ENAMETOOLONG;
    if (memchr(name, '/', len) || memchr(name, '\0', len))
        return -EINVAL;
    if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
        return -EEXIST;
    return 0;
}

/* ---- eviction ------------------------------------------------------------------------ */

void dz_caches_shrink(struct dz_vfs *v, size_t bytes)
{
    size_t name_bytes = bytes / 4;
    while (v->names.oldest && v->names.bytes > name_bytes)
        name_forget(v, (struct dz_dentry *)v->names.oldest);
    size_t rest = bytes > v->names.bytes ? bytes - v->names.bytes : 0;
    size_t tries = bytes == 0 || v->inodes.count < EVICT_TRIES ? v->inodes.count : EVICT_TRIES;
    for (; tries > 0 && v->inodes.bytes > rest; tries--) {
        struct dz_inode *ip = (struct dz_inode *)v->inodes.oldest;
        if (ip->dirty || ip->refs)
            cache_touch(&v->inodes, &ip->h);
        else
            dz_iforget(v, ip);
    }
    /* Nodes in use stay, so retrying at once would be useless. */
    size_t now = v->inodes.bytes + v->names.bytes;
    v->shrink_at = (now > v->cache_bytes ? now : v->cache_bytes) + v->cache_bytes / 8;
}
