/* SPDX-License-Identifier: MIT
 *
 * vfs_attr.c - attributes, permission, references, and inodes without names.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

/* ---- attributes ------------------------------------------------------------------------ */

int dz_vfs_getattr(struct dz_vfs *v, uint64_t ino, struct dz_vfs_attr *ret_attr)
{
    struct dz_inode *ip;
    int rc = dz_read_begin(v);
    if (!rc)
        rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    *ret_attr = (struct dz_vfs_attr){
        .ino = ino,
        .mode = ip->mode,
        .uid = ip->uid,
        .gid = ip->gid,
        .nlink = ip->nlink,
        .size = ip->size,
        .rdev = dz_is_dir(ip) ? 0 : ip->rdev,
        .atime_ns = ip->atime_ns,
        .mtime_ns = ip->mtime_ns,
        .ctime_ns = ip->ctime_ns,
    };
    return 0;
}

static int set(struct dz_vfs *v, struct dz_inode *ip, unsigned mask, const struct dz_vfs_attr *a)
{
    int rc = ip->here ? 0 : dz_quota(v, ip->data_len, 1);
    if (!rc && mask & DZ_VFS_SET_SIZE)
        rc = dz_file_truncate(v, ip, a->size);
    if (rc)
        return rc;
    if (mask & DZ_VFS_SET_MODE)
        ip->mode = (ip->mode & S_IFMT) | (a->mode & 07777);
    if (mask & DZ_VFS_SET_UID)
        ip->uid = a->uid;
    if (mask & DZ_VFS_SET_GID)
        ip->gid = a->gid;
    if (mask & DZ_VFS_SET_ATIME)
        ip->atime_ns = a->atime_ns;
    if (mask & DZ_VFS_SET_MTIME)
        ip->mtime_ns = a->mtime_ns;
    ip->ctime_ns = dz_now(v);
    dz_idirty(v, ip, DZ_DIRTY_ROW);
    return 0;
}

int dz_vfs_setattr(struct dz_vfs *v, uint64_t ino, unsigned mask, const struct dz_vfs_attr *attr)
{
    struct dz_inode *ip;
    int rc = v->readonly ? -EROFS : dz_read_begin(v);
    if (!rc)
        rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    ip->refs++; /* making room is an operation of its own */
    if (mask & DZ_VFS_SET_SIZE)
        rc = dz_file_resizable(v, ip, attr->size);
    if (!rc)
        rc = dz_op_begin(v);
    if (!rc)
        rc = dz_op_end(v, set(v, ip, mask, attr));
    if (!rc && v->cut)
        (void)dz_cut_finish(v); /* it is noted: when it fails now, the next change does it */
    ip->refs--;
    if (!rc && mask & DZ_VFS_SET_SIZE)
        dz_watch_inode(v, DZ_VFS_EV_WRITE, ip);
    if (!rc && mask & ~(unsigned)DZ_VFS_SET_SIZE)
        dz_watch_inode(v, DZ_VFS_EV_ATTR, ip);
    return rc;
}

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
    int32_t here = -1;
    int rc = ip->here ? dz_chunk_len(v, false, dz_chunk_id(ip->ino, index), &here) : 0;
    return rc ? rc : here < 0 && index * DZ_VFS_CHUNK < ip->base_size;
}

int dz_vfs_allocated(struct dz_vfs *v, uint64_t ino, uint64_t *ret_bytes)
{
    struct dz_inode *ip;
    int rc = dz_read_begin(v);
    if (!rc)
        rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    uint64_t total = ip->data_len;
    if (S_ISREG(ip->mode) && !ip->data && ip->here)
        rc = sum_chunks(v, v->db, ip, NULL, &total);
    if (!rc && S_ISREG(ip->mode) && !ip->data && ip->below && ip->base_size)
        rc = sum_chunks(v, v->image, ip, shows_below, &total);
    if (!rc)
        *ret_bytes = total;
    return rc;
}

/* ---- permission -------------------------------------------------------------------------- */

static bool in_group(const struct dz_vfs_cred *cred, uint32_t gid)
{
    if (cred->gid == gid)
        return true;
    for (uint32_t i = 0; i < cred->group_count; i++)
        if (cred->groups[i] == gid)
            return true;
    return false;
}

int dz_vfs_access(struct dz_vfs *v, uint64_t ino, const struct dz_vfs_cred *cred, int mask)
{
    struct dz_inode *ip;
    int rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    unsigned want = (unsigned)mask & 7; /* R_OK 4, W_OK 2, X_OK 1, as the mode's bits */
    if (!cred || dz_vfs_cred_is_root(cred))
        return want & X_OK && !dz_is_dir(ip) && !(ip->mode & 0111) ? -EACCES : 0;
    unsigned shift = cred->uid == ip->uid ? 6 : in_group(cred, ip->gid) ? 3 : 0;
    return (ip->mode >> shift & want) == want ? 0 : -EACCES;
}

int dz_vfs_may_remove(struct dz_vfs *v, uint64_t dir, uint64_t ino, const struct dz_vfs_cred *cred)
{
    struct dz_inode *dp, *ip;
    int rc = dz_vfs_access(v, dir, cred, W_OK | X_OK);
    if (!rc)
        rc = dz_iget(v, dir, &dp);
    if (!rc)
        rc = dz_iget(v, ino, &ip);
    if (rc || !cred || dz_vfs_cred_is_root(cred) || !(dp->mode & S_ISVTX))
        return rc;
    return cred->uid == ip->uid || cred->uid == dp->uid ? 0 : -EPERM;
}

/* ---- references ---------------------------------------------------------------------------- */

int dz_vfs_ref(struct dz_vfs *v, uint64_t ino)
{
    struct dz_inode *ip;
    int rc = dz_read_begin(v);
    if (!rc)
        rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    if (ip->refs == UINT32_MAX / 2)
        return -ENFILE;
    if (ip->refs++ == 0 && ip->nlink == 0)
        v->orphans++; /* a machine that thaws takes its own again */
    return 0;
}

/* Much content is removed first, in transactions of its own: nobody can see it any more. */
static int bury(struct dz_vfs *v, struct dz_inode *ip)
{
    bool more = dz_chunks_many(v, ip, 0);
    int rc = 0;
    while (!rc && more) {
        struct dz_err e = {0};
        rc = dz_op_begin(v);
        if (rc)
            return rc;
        rc = dz_op_end(v, dz_chunks_delete_some(v, dz_chunk_id(ip->ino, 0), &more));
        if (!rc && more && dz_vfs_commit(v, &e) < 0)
            rc = dz_vfs_errno(v, &e);
    }
    if (!rc)
        rc = dz_op_begin(v);
    return rc ? rc : dz_op_end(v, dz_inode_delete_rows(v, ip));
}

void dz_inode_bury(struct dz_vfs *v)
{
    struct dz_inode *ip = v->burial;
    v->burial = NULL;
    if (ip)
        dz_vfs_unref(v, ip->ino);
}

void dz_vfs_unref(struct dz_vfs *v, uint64_t ino)
{
    struct dz_inode *ip;
    if (dz_iget(v, ino, &ip))
        return;
    assert(ip->refs > 0);
    if (ip->refs > 1 || ip->nlink > 0 || v->readonly) {
        ip->refs--;
        return;
    }
    int rc = bury(v, ip); /* with its reference: it must stay where it is */
    ip->refs--;
    if (rc)
        return; /* stays in the file without a name, until dz_vfs_reap() */
    v->orphans--;
    dz_iforget(v, ip);
}

int dz_vfs_create_nameless(struct dz_vfs *v, const struct dz_vfs_new *spec, uint64_t *ret_ino)
{
    struct dz_inode *ip;
    if (!S_ISREG(spec->mode))
        return -EINVAL;
    int rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = dz_inew(v, spec->mode, &ip);
    if (!rc) {
        rc = dz_iset_data(v, ip, NULL, 0);
        if (rc)
            dz_iundo(v, ip);
    }
    if (rc)
        return dz_op_end(v, rc);
    ip->uid = spec->uid;
    ip->gid = spec->gid;
    ip->refs = 1;
    dz_inode_unlinked(v, ip);
    *ret_ino = ip->ino;
    return dz_op_end(v, 0);
}

enum {
    REAP_BATCH = 256
};
static const char select_orphans[] = "SELECT ino FROM node WHERE nlink=0 AND ino>?1 ORDER BY ino";

void dz_attr_prepare(struct dz_db *db)
{
    (void)dz_db_stmt(db, select_orphans);
}

static int reap_batch(struct dz_vfs *v, uint64_t *after, size_t *ret_count, struct dz_err *err)
{
    uint64_t ino[REAP_BATCH];
    size_t n = 0;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(v->db, select_orphans);
    dz_bind_int(st, 1, (int64_t)*after);
    int r = 0;
    while (n < REAP_BATCH && (r = dz_stmt_step(st, err)) > 0)
        ino[n++] = (uint64_t)dz_col_int(st, 0);
    dz_stmt_reset(st);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        struct dz_inode *ip;
        int rc = dz_iget(v, ino[i], &ip);
        *after = ino[i];
        if (rc == 0 && ip->refs == 0 && ip->nlink == 0) {
            ip->refs++;
            rc = bury(v, ip);
            ip->refs--;
            if (!rc)
                dz_iforget(v, ip);
        }
        if (rc && rc != -ENOENT)
            return dz_fail(err, v->why.code ? v->why.code : DZ_EIO,
                           "remove what was unlinked while open: %s", v->why.msg);
    }
    *ret_count = n;
    return 0;
}

int dz_vfs_reap(struct dz_vfs *v, struct dz_err *err)
{
    uint64_t after = 0;
    size_t n = REAP_BATCH;
    int r = v->readonly ? 0 : dz_vfs_commit(v, err);
    while (!r && n == REAP_BATCH && !v->readonly && v->orphans_noted)
        r = reap_batch(v, &after, &n, err);
    return r ? r : dz_vfs_commit(v, err);
}
