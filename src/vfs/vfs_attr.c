/* SPDX-License-Identifier: MIT
 *
 * vfs_attr.c - attributes of inodes, ordinary and extended.
 *
 * Ordinary attributes are columns of the inode's row; a change copies the row up like any other.
 * Extended attributes are rows of their own. They merge with the image's by (ino, name), as
 * everything does; a row with NULL for a value hides the image's. Names and values count against
 * the quota.
 */
#include "vfs/vfs_int.h"

#include <string.h>
#include <sys/xattr.h>

#include "base/mem.h"

/* ---- attributes ------------------------------------------------------------------------ */

int dz_vfs_getattr(struct dz_vfs *v, uint64_t ino, struct dz_vfs_attr *ret_attr)
{
    struct dz_inode *ip;
    const uint64_t outside = ino;
    int rc = dz_mount_enter(&v, &ino);
    if (!rc)
        rc = dz_read_inode(v, ino, &ip);
    if (rc)
        return rc;
    *ret_attr = (struct dz_vfs_attr){
        .ino = outside,
        .mode = ip->mode,
        .uid = ip->uid,
        .gid = ip->gid,
        .nlink = ip->nlink,
        .size = ip->size,
        .rdev = S_ISCHR(ip->mode) || S_ISBLK(ip->mode) ? ip->rdev : 0,
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
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = v->readonly ? -EROFS : dz_read_inode(v, ino, &ip);
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
        (void)dz_cut_finish(v); /* the truncation is noted: if finishing it fails now, the next
                                 * change does it */
    ip->refs--;
    if (!rc && mask & DZ_VFS_SET_SIZE)
        dz_watch_inode(v, DZ_VFS_EV_WRITE, ip);
    if (!rc && mask & ~(unsigned)DZ_VFS_SET_SIZE)
        dz_watch_inode(v, DZ_VFS_EV_ATTR, ip);
    return rc;
}

/* ---- extended attributes ----------------------------------------------------------------- */

static int check_name(const char *name)
{
    static const char *const prefix[] = {"user.", "trusted.", "security.", "system."};
    size_t len = strnlen(name, DZ_VFS_NAME_MAX + 1);
    if (len == 0 || len > DZ_VFS_NAME_MAX)
        return -ERANGE;
    for (size_t i = 0; i < DZ_ARRAY_LEN(prefix); i++) {
        size_t n = strlen(prefix[i]);
        if (strncmp(name, prefix[i], n) == 0)
            return name[n] ? 0 : -EINVAL;
    }
    return -EOPNOTSUPP;
}

/* The attribute in one of the two files. `row` false: none. */
struct value {
    bool row, removed;
    size_t len;
    void *buf; /* receives the value if `size` bytes are enough; may be NULL */
    size_t size;
};

static int select_value(struct dz_vfs *v, bool image, uint64_t ino, const char *name,
                        struct value *to)
{
    struct dz_err e = {0};
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(image ? v->image : v->db, "SELECT value FROM xattr WHERE ino=?1 AND name=?2");
    *to = (struct value){.buf = to->buf, .size = to->size};
    dz_bind_int(st, 1, (int64_t)ino);
    dz_bind_blob(st, 2, name, strlen(name));
    int r = dz_stmt_step(st, &e);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    if (r == 0)
        return 0;
    to->row = true;
    to->removed = dz_col_type(st, 0) == DZ_DB_NULL;
    const void *p = dz_col_blob(st, 0, &to->len);
    if (to->buf && to->len && to->size >= to->len)
        memcpy(to->buf, p, to->len);
    return 0;
}

/* 0, -ENODATA or another error; *here and *low describe the rows of both files. */
static int find_value(struct dz_vfs *v, const struct dz_inode *ip, const char *name,
                      struct value *here, struct value *low)
{
    *here = *low = (struct value){0};
    int rc = select_value(v, false, ip->ino, name, here);
    if (!rc && ip->below && v->image_xattrs)
        rc = select_value(v, true, ip->ino, name, low);
    if (rc)
        return rc;
    return (here->row ? !here->removed : low->row) ? 0 : -ENODATA;
}

ssize_t dz_vfs_getxattr(struct dz_vfs *v, uint64_t ino, const char *name, void *buf, size_t size)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    struct value val = {.buf = buf, .size = size};
    int rc = check_name(name);
    if (!rc)
        rc = dz_read_begin(v);
    if (!rc)
        rc = dz_iget(v, ino, &ip);
    if (!rc)
        rc = select_value(v, false, ino, name, &val);
    if (!rc && !val.row && ip->below && v->image_xattrs)
        rc = select_value(v, true, ino, name, &val);
    if (rc)
        return rc;
    if (!val.row || val.removed)
        return -ENODATA;
    return size && size < val.len ? -ERANGE : (ssize_t)val.len;
}

struct listing {
    char *buf;
    size_t size, len;
};

static int list_side(struct dz_vfs *v, bool image, uint64_t ino, struct listing *l)
{
    struct dz_err e = {0};
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(image ? v->image : v->db,
                   "SELECT name,value IS NULL FROM xattr WHERE ino=?1 ORDER BY name");
    dz_bind_int(st, 1, (int64_t)ino);
    int r;
    while ((r = dz_stmt_step(st, &e)) > 0) {
        size_t len;
        const void *p = dz_col_blob(st, 0, &len);
        char name[DZ_VFS_NAME_MAX + 1] = {0};
        struct value above = {0};
        if (dz_col_int(st, 1) || len > DZ_VFS_NAME_MAX || len == 0)
            continue;
        memcpy(name, p, len);
        if (image) {
            int rc = select_value(v, false, ino, name, &above);
            if (rc)
                return rc;
        }
        if (above.row)
            continue;
        if (l->size && l->len + len + 1 > l->size)
            return -ERANGE;
        if (l->size)
            memcpy(l->buf + l->len, name, len + 1);
        l->len += len + 1;
    }
    return r < 0 ? dz_vfs_errno(v, &e) : 0;
}

static ssize_t list_names(struct dz_vfs *v, const struct dz_inode *ip, char *buf, size_t size)
{
    struct listing l = {buf, size, 0};
    int rc = v->has_xattrs ? list_side(v, false, ip->ino, &l) : 0;
    if (!rc && ip->below && v->image_xattrs)
        rc = list_side(v, true, ip->ino, &l);
    return rc ? rc : (ssize_t)l.len;
}

ssize_t dz_vfs_listxattr(struct dz_vfs *v, uint64_t ino, char *buf, size_t size)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = dz_read_inode(v, ino, &ip);
    return rc ? rc : list_names(v, ip, buf, size);
}

static int write_value(struct dz_vfs *v, struct dz_inode *ip, const struct dz_row *row,
                       const struct value *here)
{
    int64_t more = (int64_t)row->data_len - (int64_t)here->len;
    if (!here->row)
        more += (int64_t)row->name_len;
    int rc = dz_quota(v, more + (ip->here ? 0 : ip->data_len), !ip->here);
    if (!rc)
        rc = dz_row_write(v, row);
    if (rc)
        return rc;
    v->has_xattrs = true;
    v->used_bytes += more;
    ip->ctime_ns = dz_now(v);
    dz_idirty(v, ip, DZ_DIRTY_ROW);
    return 0;
}

static int set_value(struct dz_vfs *v, struct dz_inode *ip, const struct dz_row *row, int flags)
{
    struct value here, low;
    int rc = find_value(v, ip, row->name, &here, &low);
    if (rc == 0 && flags & XATTR_CREATE)
        return -EEXIST;
    if (rc == -ENODATA && flags & XATTR_REPLACE)
        return rc;
    if (rc && rc != -ENODATA)
        return rc;
    if (rc == -ENODATA) {
        ssize_t names = list_names(v, ip, NULL, 0);
        if (names < 0)
            return (int)names;
        if ((size_t)names + row->name_len + 1 > DZ_VFS_XATTR_LIST_MAX)
            return -ENOSPC;
    }
    return write_value(v, ip, row, &here);
}

int dz_vfs_setxattr(struct dz_vfs *v, uint64_t ino, const char *name, const void *value,
                    size_t size, int flags)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    struct dz_row row = {
        .kind = DZ_ROW_PUT_XATTR,
        .n = {(int64_t)ino},
        .name = name,
        .data = size ? value : "",
        .data_len = size,
    };
    int rc = check_name(name);
    if (rc)
        return rc;
    if (size > DZ_VFS_XATTR_MAX)
        return -E2BIG;
    if (flags & ~(XATTR_CREATE | XATTR_REPLACE))
        return -EINVAL;
    row.name_len = strlen(name);
    rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = dz_iget(v, ino, &ip);
    if (!rc)
        rc = set_value(v, ip, &row, flags);
    rc = dz_op_end(v, rc);
    if (!rc)
        dz_watch_inode(v, DZ_VFS_EV_ATTR, ip);
    return rc;
}

static int unset_value(struct dz_vfs *v, struct dz_inode *ip, const char *name)
{
    struct value here, low;
    struct dz_row row = {
        .kind = DZ_ROW_PUT_XATTR, .n = {(int64_t)ip->ino}, .name = name, .name_len = strlen(name)};
    int rc = find_value(v, ip, name, &here, &low);
    if (rc)
        return rc;
    if (low.row)
        return write_value(v, ip, &row, &here);
    row.kind = DZ_ROW_DEL_XATTR;
    rc = dz_row_write(v, &row);
    if (rc)
        return rc;
    v->used_bytes -= (int64_t)(here.len + row.name_len);
    ip->ctime_ns = dz_now(v);
    dz_idirty(v, ip, DZ_DIRTY_ROW);
    return 0;
}

int dz_vfs_removexattr(struct dz_vfs *v, uint64_t ino, const char *name)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = check_name(name);
    if (!rc)
        rc = dz_op_begin(v);
    if (rc)
        return rc;
    rc = dz_iget(v, ino, &ip);
    if (!rc)
        rc = unset_value(v, ip, name);
    rc = dz_op_end(v, rc);
    if (!rc)
        dz_watch_inode(v, DZ_VFS_EV_ATTR, ip);
    return rc;
}

int dz_xattrs_delete(struct dz_vfs *v, const struct dz_inode *ip)
{
    struct dz_err e = {0};
    struct dz_row row = {.kind = DZ_ROW_DEL_XATTRS, .n = {(int64_t)ip->ino}};
    if (!v->has_xattrs)
        return 0;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(
        v->db, "SELECT sum(length(name)+coalesce(length(value),0))FROM xattr WHERE ino=?1");
    dz_bind_int(st, 1, (int64_t)ip->ino);
    int r = dz_stmt_step(st, &e);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    int64_t bytes = r > 0 ? dz_col_int(st, 0) : 0;
    dz_stmt_reset(st);
    int rc = bytes ? dz_row_write(v, &row) : 0;
    if (!rc)
        v->used_bytes -= bytes;
    return rc;
}
