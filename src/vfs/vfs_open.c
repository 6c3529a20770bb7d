/* SPDX-License-Identifier: MIT
 *
 * vfs_open.c - from two databases to a disk and back; counters and volumes.
 *
 * The table `meta` is read once, here. If the last process died without a quiesce, the counters are
 * computed again. Inodes that were unlinked while open are removed.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

static int64_t clock_ns(void *arg)
{
    struct timespec ts;
    (void)arg;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- meta ------------------------------------------------------------------------------- */

enum {
    SHA_LEN = DZ_VFS_IMAGE_TEXT - 1
};

struct meta {
    char image[SHA_LEN + 1]; /* empty: no image */
    int64_t chunk, seed, counters, used_bytes, used_inodes, orphans, xattrs, cut, untar, packed;
    int64_t max_ino; /* not a key of meta: the highest ino in node */
};

static void meta_take(struct meta *m, struct dz_stmt *st)
{
    static const struct {
        const char *key;
        size_t at;
    } numbers[] = {
        {"chunk", offsetof(struct meta, chunk)},
        {"seed", offsetof(struct meta, seed)},
        {"counters", offsetof(struct meta, counters)},
        {"used_bytes", offsetof(struct meta, used_bytes)},
        {"used_inodes", offsetof(struct meta, used_inodes)},
        {"orphans", offsetof(struct meta, orphans)},
        {"xattrs", offsetof(struct meta, xattrs)},
        {"untar", offsetof(struct meta, untar)},
        {"cut", offsetof(struct meta, cut)},
        {"packed", offsetof(struct meta, packed)},
        {"max_ino", offsetof(struct meta, max_ino)},
    };
    const char *key = dz_col_text(st, 0);
    if (strcmp(key, "image") == 0) {
        const char *sha = dz_col_text(st, 1);
        size_t n = strnlen(sha, SHA_LEN);
        memcpy(m->image, sha, n);
        m->image[n] = '\0';
    }
    for (size_t i = 0; i < DZ_ARRAY_LEN(numbers); i++) {
        if (strcmp(key, numbers[i].key) == 0) {
            int64_t value = dz_col_int(st, 1);
            memcpy((char *)m + numbers[i].at, &value, sizeof value);
        }
    }
}

static const char select_meta[] = /* one to compile */
    "SELECT k,v FROM meta UNION ALL SELECT 'max_ino',max(ino)FROM node";

static int meta_read(struct dz_db *db, const char *what, struct meta *m, struct dz_err *err)
{
    *m = (struct meta){0};
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, select_meta);
    int r;
    while ((r = dz_stmt_step(st, err)) > 0)
        meta_take(m, st);
    if (r < 0)
        return dz_wrap(err, r, "%s", what);
    if (m->max_ino < 0 || (uint64_t)m->max_ino > DZ_VFS_INO_MAX)
        return dz_fail(err, DZ_ECORRUPT, "%s: the highest inode is %lld", what,
                       (long long)m->max_ino);
    if (m->chunk != DZ_VFS_CHUNK)
        return dz_fail(err, DZ_ECORRUPT,
                       "%s: chunks of %lld bytes instead of %d: not a disk of doze", what,
                       (long long)m->chunk, DZ_VFS_CHUNK);
    return 0;
}

static int one_int(struct dz_db *db, const char *sql, int64_t *ret_value, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, sql);
    int r = dz_stmt_step(st, err);
    if (r < 0)
        return r;
    *ret_value = r > 0 ? dz_col_int(st, 0) : 0;
    return 0;
}

static const char count_bytes[] =
    "SELECT(SELECT coalesce(sum(length(data)),0)FROM chunk)"
    "+(SELECT coalesce(sum(length(data)),0)FROM node)"
    "+(SELECT coalesce(sum(length(name)+coalesce(length(value),0)),0)FROM xattr)";
static const char count_inodes[] = "SELECT count(*)FROM node";
/* of binding to an image */
static const char count_dentries[] = "SELECT count(*)FROM dentry";
static const char drop_dentries[] = "DELETE FROM dentry";
static const char drop_nodes[] = "DELETE FROM node";
static const char put_counters[] =
    "INSERT OR REPLACE INTO meta VALUES('counters',1),('used_bytes',0),('used_inodes',0)";
static const char put_image[] = "INSERT INTO meta VALUES('image',?1)";

/* Refuse values that doze cannot have stored. */
static bool noted(const struct meta *m)
{
    return m->counters == 1 && m->used_bytes >= 0 && m->used_bytes < INT64_MAX / 2 &&
           m->used_inodes >= 0 && (uint64_t)m->used_inodes <= DZ_VFS_INO_MAX;
}

static int count(struct dz_db *db, const struct meta *m, int64_t *ret_bytes, int64_t *ret_inodes,
                 struct dz_err *err)
{
    if (noted(m)) {
        *ret_bytes = m->used_bytes;
        *ret_inodes = m->used_inodes;
        return 0;
    }
    int r = one_int(db, count_bytes, ret_bytes, err);
    return r < 0 ? r : one_int(db, count_inodes, ret_inodes, err);
}

int dz_vfs_count(struct dz_db *db, int64_t *ret_bytes, int64_t *ret_inodes, struct dz_err *err)
{
    const struct meta none = {0};
    return count(db, &none, ret_bytes, ret_inodes, err);
}

int dz_vfs_recount(struct dz_db *db, struct dz_err *err)
{
    int64_t bytes = 0, inodes = 0;
    int rc = dz_vfs_count(db, &bytes, &inodes, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(
        db,
        "INSERT OR REPLACE INTO meta VALUES('counters',1),('used_bytes',?1),('used_inodes',?2)");
    dz_bind_int(st, 1, bytes);
    dz_bind_int(st, 2, inodes);
    return dz_stmt_run(st, err);
}

/* ---- the image --------------------------------------------------------------------------- */

static int check_image(const struct dz_vfs_opts *o, const struct meta *m, struct meta *below,
                       struct dz_err *err)
{
    if (!m->image[0])
        return o->image ? dz_fail(err, DZ_ECORRUPT,
                                  "the disk has no image below it, but an image was given; open it "
                                  "without")
                        : 0;
    if (!o->image)
        return dz_fail(err, DZ_ENOENT, "the disk needs the image %s below it, which was not given",
                       m->image);
    if (!o->image_sha256 || strcmp(o->image_sha256, m->image) != 0)
        return dz_fail(err, DZ_ECORRUPT, "the disk needs the image %s below it, not the given %s",
                       m->image, o->image_sha256 ? o->image_sha256 : "image without a hash");
    int r = meta_read(o->image, "image", below, err);
    if (r < 0)
        return r;
    if (below->image[0])
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "the image %s has another image below it; flatten it first", m->image);
    if (below->max_ino < DZ_VFS_TMP)
        return dz_fail(err, DZ_ECORRUPT, "the image %s lacks the fixed directories", m->image);
    return 0;
}

/* A disk with a pack is never changed: that is for disks above it. */
static int check_pack(const struct dz_vfs_opts *o, const struct meta *image, struct dz_err *err)
{
    if (image->packed <= 0)
        return 0;
    if (!o->image && !o->readonly)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "this is an image with a pack, which cannot be changed: build another one "
                       "from it");
    if (!o->pack.at && !o->as_is)
        return dz_fail(err, DZ_ENOENT,
                       "content of the image is in its pack, which was not given: import the image "
                       "(doze image import)");
    return 0;
}

static bool is_sha256(const char *s)
{
    return s && strlen(s) == SHA_LEN && strspn(s, "0123456789abcdef") == SHA_LEN;
}

int dz_vfs_image_of(struct dz_db *db, char ret_sha256[static DZ_VFS_IMAGE_TEXT], struct dz_err *err)
{
    struct meta m;
    int r = meta_read(db, "disk", &m, err);
    if (!r)
        memcpy(ret_sha256, m.image, sizeof m.image);
    return r;
}

int dz_vfs_bind_image(struct dz_db *db, const char *sha256, struct dz_err *err)
{
    struct meta m;
    int64_t names = 0, nodes = 0;
    if (!is_sha256(sha256))
        return dz_fail(err, DZ_EINVAL, "the id of an image must be 64 hexadecimal digits");
    int r = meta_read(db, "disk", &m, err);
    if (!r && m.image[0])
        return strcmp(m.image, sha256) == 0
                   ? 0
                   : dz_fail(err, DZ_ESTATE, "the disk already has the image %s below it", m.image);
    if (!r)
        r = one_int(db, count_dentries, &names, err);
    if (!r)
        r = one_int(db, count_inodes, &nodes, err);
    if (r < 0)
        return r;
    if (names != 3 || nodes != 4)
        return dz_fail(err, DZ_ESTATE, "the disk holds files; only an empty disk can get an image");
    r = dz_db_begin(db, err);
    if (!r)
        r = dz_stmt_run(dz_db_stmt(db, drop_dentries), err);
    if (!r)
        r = dz_stmt_run(dz_db_stmt(db, drop_nodes), err);
    if (!r)
        r = dz_stmt_run(dz_db_stmt(db, put_counters), err);
    if (!r) {
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *st = dz_db_stmt(db, put_image);
        dz_bind_text(st, 1, sha256);
        r = dz_stmt_run(st, err);
    }
    if (!r)
        r = dz_db_commit(db, err);
    if (r < 0)
        dz_db_rollback(db);
    return r;
}

/* ---- open, close ------------------------------------------------------------------------- */

static void release(struct dz_vfs *v)
{
    dz_blobs_close(v);
    dz_blob_close(v->blob_image);
    dz_windows_release(v);
    dz_watch_release(v);
    while (v->inodes.oldest) {
        struct dz_inode *ip = (struct dz_inode *)v->inodes.oldest;
        dz_iforget(v, ip);
    }
    if (v->names.bucket)
        dz_caches_shrink(v, 0);
    dz_vfs_cache_release(&v->inodes);
    dz_vfs_cache_release(&v->names);
    dz_redo_release(&v->redo);
    dz_free(v->locks.lock);
    dz_free(v->above[0]);
    dz_free(v->above[1]);
    dz_free(v);
}

static struct dz_vfs *vfs_alloc(const struct dz_vfs_opts *o)
{
    struct dz_vfs *v = dz_zalloc(sizeof *v);
    if (!v)
        return NULL;
    v->db = o->db;
    v->image = o->image;
    v->pack = o->pack;
    v->readonly = o->readonly;
    v->noatime = o->noatime;
    v->limit_bytes = o->limit_bytes;
    v->limit_inodes = o->limit_inodes;
    v->cache_bytes = o->cache_bytes ? o->cache_bytes : DZ_VFS_CACHE_BYTES;
    v->shrink_at = v->cache_bytes;
    v->step_chunks = o->step_chunks ? o->step_chunks : DZ_VFS_STEP_CHUNKS;
    v->now_ns = o->now_ns ? o->now_ns : clock_ns;
    v->before_commit = o->before_commit;
    v->arg = o->arg;
    if (dz_vfs_cache_init(&v->inodes) || dz_vfs_cache_init(&v->names)) {
        release(v);
        return NULL;
    }
    return v;
}

static int open_disk(struct dz_vfs *v, const struct meta *m, const struct meta *below,
                     struct dz_err *err)
{
    int r = count(v->db, m, &v->used_bytes, &v->used_inodes, err);
    if (r < 0)
        return r;
    v->image_max = v->image ? (uint64_t)below->max_ino : 0;
    v->image_xattrs = v->image && below->xattrs;
    v->has_xattrs = v->xattrs_noted = m->xattrs != 0;
    v->next_ino = ((uint64_t)m->max_ino > v->image_max ? (uint64_t)m->max_ino : v->image_max) + 1;
    v->seed = (uint64_t)m->seed;
    v->counters_noted = m->counters == 1;
    v->orphans_noted = m->orphans != 0;
    v->cut = (uint64_t)m->cut;
    v->untar = m->untar;
    v->packed_bytes = v->image || m->packed < 0 ? 0 : (uint64_t)m->packed;
    v->pack_unknown = !v->pack.at && (v->image ? below : m)->packed > 0;
    return dz_above_load(v, m->max_ino > 0, err);
}

/* Finish a truncation that was interrupted. On a full disk it has to wait, which no reader can
 * notice. */
static int resume_cut(struct dz_vfs *v, struct dz_err *err)
{
    struct dz_inode *ip;
    int rc = dz_iget(v, v->cut >> DZ_VFS_CHUNK_BITS, &ip);
    if (rc == -ENOENT || rc == -EIO || (!rc && !dz_cut_fits(ip, v->cut)))
        return dz_fail(err, DZ_ECORRUPT,
                       "the record of a truncation, %llu, belongs to no file; run doze disk check",
                       (unsigned long long)v->cut);
    if (rc)
        return dz_fail(err, DZ_ENOMEM, "no memory to open the disk");
    (void)dz_cut_finish(v);
    return 0;
}

int dz_vfs_open(const struct dz_vfs_opts *opts, struct dz_vfs **ret_vfs, struct dz_err *err)
{
    struct meta m, below = {0};
    struct dz_inode *root;
    int r = meta_read(opts->db, "disk", &m, err);
    if (!r)
        r = check_image(opts, &m, &below, err);
    if (!r)
        r = check_pack(opts, opts->image ? &below : &m, err);
    if (r < 0)
        return r;
    struct dz_vfs *v = vfs_alloc(opts);
    if (!v)
        return dz_fail(err, DZ_ENOMEM, "no memory to open the disk");
    r = open_disk(v, &m, &below, err);
    if (!r) {
        int rc = dz_iget_dir(v, DZ_VFS_ROOT, &root);
        if (rc == -ENOMEM)
            r = dz_fail(err, DZ_ENOMEM, "no memory to open the disk");
        else if (rc)
            r = dz_fail(err, v->why.code ? v->why.code : DZ_ECORRUPT,
                        "the disk has no root directory: %s", v->why.msg);
    }
    if (!r && v->cut && !opts->readonly)
        r = resume_cut(v, err);
    if (!r && v->untar && !opts->as_is)
        r = dz_tar_resume(v, err);
    if (!r && v->orphans_noted && !opts->keep_orphans && !opts->readonly)
        r = dz_vfs_reap(v, err);
    if (r < 0) {
        dz_vfs_abandon(v);
        return r;
    }
    *ret_vfs = v;
    return 0;
}

void dz_vfs_prepare(struct dz_db *db)
{
    static const char *const bind[] = {count_dentries, count_inodes, drop_dentries,
                                       drop_nodes,     put_counters, put_image};
    for (size_t i = 0; i < DZ_ARRAY_LEN(bind); i++)
        (void)dz_db_stmt(db, bind[i]);
    dz_vfs_prepare_image(db);
    dz_dir_prepare(db);
    dz_tx_prepare(db);
}

void dz_vfs_prepare_image(struct dz_db *image)
{
    (void)dz_db_stmt(image, select_meta);
    dz_node_prepare(image);
}

int dz_vfs_close(struct dz_vfs *v, struct dz_err *err)
{
    if (!v)
        return 0;
    int r = v->readonly && !v->mounts ? 0 : dz_vfs_quiesce(v, NULL, NULL, err);
    dz_vfs_abandon(v);
    return r;
}

void dz_vfs_abandon(struct dz_vfs *v)
{
    if (!v)
        return;
    dz_vfs_unmount_all(v);
    dz_blobs_close(v);
    if (!v->readonly)
        dz_db_rollback(v->db);
    release(v);
}

void dz_vfs_trim(struct dz_vfs *v)
{
    struct dz_vfs *fs;
    for (size_t i = 0; (fs = dz_mounts_next(v, &i));)
        dz_vfs_trim(fs);
    dz_blobs_close(v);
    dz_windows_release(v);
    dz_caches_shrink(v, 0);
}

const char *dz_vfs_why(const struct dz_vfs *v)
{
    return v->why.msg[0] ? v->why.msg : "no error";
}

/* ---- counters ---------------------------------------------------------------------------- */

static void count_image(struct dz_vfs *v)
{
    struct meta m;
    int64_t bytes = 0, inodes = 0;
    if (!v->image || v->image_counted)
        return;
    if (meta_read(v->image, "image", &m, NULL) == 0 &&
        count(v->image, &m, &bytes, &inodes, NULL) == 0) {
        v->image_bytes = (uint64_t)bytes + (m.packed > 0 ? (uint64_t)m.packed : 0);
        v->image_inodes = (uint64_t)inodes;
        v->image_counted = true;
    }
}

void dz_vfs_usage(struct dz_vfs *v, struct dz_vfs_usage *ret_usage)
{
    count_image(v);
    *ret_usage = (struct dz_vfs_usage){
        .bytes = v->used_bytes > 0 ? (uint64_t)v->used_bytes : 0,
        .inodes = v->used_inodes > 0 ? (uint64_t)v->used_inodes : 0,
        .limit_bytes = v->limit_bytes,
        .limit_inodes = v->limit_inodes,
        .image_bytes = v->image_bytes,
        .image_inodes = v->image_inodes,
    };
}

int dz_vfs_usage_at(struct dz_vfs *v, uint64_t ino, struct dz_vfs_usage *ret_usage)
{
    int rc = dz_mount_enter(&v, &ino);
    if (!rc)
        dz_vfs_usage(v, ret_usage);
    return rc;
}

uint64_t dz_vfs_used_bytes(const struct dz_vfs *v)
{
    return v->used_bytes > 0 ? (uint64_t)v->used_bytes : 0;
}

void dz_vfs_set_limits(struct dz_vfs *v, uint64_t bytes, uint64_t inodes)
{
    v->limit_bytes = bytes;
    v->limit_inodes = inodes;
}

void dz_vfs_keep_free(struct dz_vfs *v, uint64_t bytes)
{
    struct dz_vfs *fs;
    for (size_t i = 0; (fs = dz_mounts_next(v, &i));)
        dz_vfs_keep_free(fs, bytes);
    v->keep_free = bytes;
    v->look_budget = 0;
    v->host_full = false;
}
