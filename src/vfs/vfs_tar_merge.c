/* SPDX-License-Identifier: MIT
 *
 * vfs_tar_merge.c - an unpacked archive comes into its place, as a whole.
 *
 * An archive is unpacked into a directory of its own, the stage. Both that and the
 * moving into place may take many transactions, so a note in the file says how
 * far it is (meta.untar), and who opens the disk next brings it to an end:
 *
 *     -ino   the stage `ino` is being filled          -> remove it
 *      ino   it is whole, and wanted in its parent    -> move what is left of it
 *
 * The moving needs nothing but the stage. A directory on both sides gives its mode,
 * owner and time to the other if the archive named it; one that it did not name is
 * marked by an owner that cannot be (NOBODY); and the time that is meant is the
 * stage's access time, which moving does not change. So every step can be done again.
 *
 * What cannot be moved (the name became a directory meanwhile: only possible when a
 * process went on after a failure) stays in the stage, which is then nobody's.
 */
#include "vfs/vfs_tar_int.h"

#include "base/vec.h"
#include "vfs/vfs_int.h"

#include <string.h>

enum {
    BATCH_BYTES = 64 << 10, /* names of a directory looked at together */
};

struct frame {
    uint64_t from, to, cookie;
};

struct merge {
    struct dz_vfs *v;
    DZ_VEC(, struct frame) frames;
    struct dz_tar_names names;
    uint32_t moved; /* since the last commit */
    bool rest;      /* something stays */
};

/* --- the note ---------------------------------------------------------------- */

static int note(struct dz_vfs *v, int64_t value)
{
    int rc = dz_op_begin(v);
    if (!rc)
        rc = dz_op_end(v, dz_row_put_meta(v, "untar", value));
    if (!rc)
        v->untar = value;
    return rc;
}

static int commit(struct dz_vfs *v)
{
    struct dz_err e = {0};
    return dz_vfs_commit(v, &e) < 0 ? dz_vfs_errno(v, &e) : 0;
}

int dz_tar_stage_make(struct dz_vfs *v, uint64_t dir, uint64_t *ret_stage)
{
    const struct dz_vfs_new spec = {.mode = S_IFDIR | 0700};
    struct dz_err e = {0};
    if (v->untar && dz_tar_resume(v, &e) < 0) /* what failed before comes first */
        return dz_vfs_errno(v, &e);
    int rc = dz_vfs_remove_tree(v, dir, DZ_TAR_STAGE, strlen(DZ_TAR_STAGE));
    if (!rc || rc == -ENOENT)
        rc = commit(v); /* so that the next two are one transaction */
    if (!rc)
        rc = dz_vfs_create(v, dir, DZ_TAR_STAGE, strlen(DZ_TAR_STAGE), &spec, ret_stage);
    return rc ? rc : note(v, -(int64_t)*ret_stage);
}

int dz_tar_stage_drop(struct dz_vfs *v, uint64_t dir)
{
    int rc = dz_vfs_remove_tree(v, dir, DZ_TAR_STAGE, strlen(DZ_TAR_STAGE));
    return rc && rc != -ENOENT ? rc : note(v, 0);
}

/* --- names of a directory ------------------------------------------------------ */

static int take_name(void *arg, const struct dz_vfs_entry *e)
{
    struct dz_tar_names *n = arg;
    unsigned char len = (unsigned char)e->len;
    bool dots =
        (e->len == 1 && e->name[0] == '.') || (e->len == 2 && memcmp(e->name, "..", 2) == 0);
    if (!dots) {
        if (n->text.len + e->len + 1 > BATCH_BYTES)
            return 1;
        dz_buf_add(&n->text, &len, 1);
        dz_buf_add(&n->text, e->name, e->len);
    }
    n->cookie = e->cookie;
    return n->text.err;
}

void dz_tar_names_init(struct dz_tar_names *n)
{
    *n = (struct dz_tar_names){.text = DZ_BUF_INIT(BATCH_BYTES)};
}

int dz_tar_names_next(struct dz_vfs *v, uint64_t dir, uint64_t cookie, struct dz_tar_names *n)
{
    dz_buf_reset(&n->text);
    n->cookie = cookie;
    int rc = dz_vfs_readdir(v, dir, cookie, take_name, n);
    return rc ? rc : n->text.err ? -ENOMEM : 0;
}

/* --- moving -------------------------------------------------------------------- */

static int attr_of(struct dz_vfs *v, uint64_t dir, const char *name, size_t len,
                   struct dz_vfs_attr *ret_attr)
{
    uint64_t ino;
    int rc = dz_vfs_lookup(v, dir, name, len, &ino);
    return rc ? rc : dz_vfs_getattr(v, ino, ret_attr);
}

static int move(struct merge *m, const struct frame *f, const char *name, size_t len)
{
    const struct dz_vfs_name a = {f->from, name, len}, b = {f->to, name, len};
    int rc = dz_vfs_rename(m->v, &a, &b, 0);
    if (!rc && ++m->moved >= m->v->step_chunks) {
        m->moved = 0;
        rc = commit(m->v);
    }
    return rc;
}

static int merge_name(struct merge *m, const struct frame *f, const char *name, size_t len)
{
    struct dz_vfs_attr from, to;
    int rc = attr_of(m->v, f->from, name, len, &from);
    if (rc)
        return rc;
    rc = attr_of(m->v, f->to, name, len, &to);
    if (rc == -ENOENT && S_ISDIR(from.mode) && from.uid == DZ_TAR_NOBODY) {
        from.uid = from.gid = 0;
        rc = dz_vfs_setattr(m->v, from.ino, DZ_VFS_SET_UID | DZ_VFS_SET_GID, &from);
        return rc ? rc : move(m, f, name, len);
    }
    if (rc == -ENOENT)
        return move(m, f, name, len);
    if (rc)
        return rc;
    if (S_ISDIR(from.mode) != S_ISDIR(to.mode)) {
        m->rest = true;
        return 0;
    }
    if (!S_ISDIR(from.mode))
        return move(m, f, name, len);
    const struct frame below = {.from = from.ino, .to = to.ino};
    struct dz_inode *ip;
    rc = dz_iget(m->v, from.ino, &ip);
    if (rc || ip->rdev != f->from) /* as dz_dir_empty: no circles */
        return rc ? rc : -EIO;
    return dz_vec_push(&m->frames, below) < 0 ? -ENOMEM : 0;
}

/* The target takes what the archive says of the directory, if it says anything. */
static int adopt(struct dz_vfs *v, const struct dz_vfs_attr *from, uint64_t to)
{
    struct dz_vfs_attr attr = *from;
    if (from->uid == DZ_TAR_NOBODY)
        return 0;
    attr.mtime_ns = from->atime_ns;
    unsigned set = DZ_VFS_SET_MTIME;
    if (!dz_ino_fixed(to)) /* the roots keep their modes */
        set |= DZ_VFS_SET_MODE | DZ_VFS_SET_UID | DZ_VFS_SET_GID;
    return dz_vfs_setattr(v, to, set, &attr);
}

static int finish_dir(struct merge *m)
{
    struct dz_vfs_attr from;
    const struct frame done = dz_vec_pop(&m->frames);
    if (m->frames.n == 0)
        return 0; /* the stage itself comes last */
    int rc = dz_vfs_getattr(m->v, done.from, &from);
    return rc ? rc : adopt(m->v, &from, done.to);
}

/* Down into directories that both sides have; what stays of those is empty. */
static int move_all(struct merge *m)
{
    int rc = 0;
    while (!rc && m->frames.n) {
        size_t last = m->frames.n - 1;
        struct frame f = m->frames.p[last];
        rc = dz_tar_names_next(m->v, f.from, f.cookie, &m->names);
        m->frames.p[last].cookie = m->names.cookie;
        if (!rc && m->names.text.len == 0)
            rc = finish_dir(m);
        for (size_t at = 0; !rc && at < m->names.text.len;) {
            size_t len = (unsigned char)m->names.text.p[at];
            rc = merge_name(m, &f, m->names.text.p + at + 1, len);
            at += len + 1;
        }
    }
    return rc;
}

/* The stage goes, its parent gets the time that is meant, the note goes: one transaction. */
static int end(struct merge *m, uint64_t stage, uint64_t to)
{
    struct dz_vfs_attr top;
    int rc = dz_dir_empty(m->v, stage);
    if (!rc)
        rc = dz_vfs_getattr(m->v, stage, &top);
    if (!rc)
        rc = commit(m->v);
    if (!rc)
        rc = dz_vfs_rmdir(m->v, to, DZ_TAR_STAGE, strlen(DZ_TAR_STAGE));
    if (!rc)
        rc = adopt(m->v, &top, to);
    return rc;
}

static int merge(struct dz_vfs *v, uint64_t stage)
{
    struct merge m = {.v = v, .frames = DZ_VEC_INIT(DZ_TAR_MEMBERS_MAX)};
    struct dz_inode *ip;
    int rc = dz_iget_dir(v, stage, &ip);
    if (rc)
        return rc;
    const struct frame top = {.from = stage, .to = ip->rdev};
    dz_tar_names_init(&m.names);
    rc = dz_vec_push(&m.frames, top) < 0 ? -ENOMEM : move_all(&m);
    if (!rc && !m.rest)
        rc = end(&m, stage, top.to);
    if (!rc)
        rc = note(v, 0);
    dz_vec_release(&m.frames);
    dz_buf_release(&m.names.text);
    return rc;
}

static int tell(struct dz_vfs *v, int rc, const char *what, struct dz_err *err)
{
    return rc ? dz_fail_sys(err, -rc, "%s (%s)", what, dz_vfs_why(v)) : 0;
}

int dz_tar_merge(struct dz_vfs *v, uint64_t stage, struct dz_err *err)
{
    int rc = note(v, (int64_t)stage);
    if (!rc)
        rc = commit(v);
    if (!rc)
        rc = merge(v, stage);
    if (!rc)
        rc = commit(v);
    return tell(v, rc, "move what was unpacked into place; the next open goes on with it", err);
}

/* --- after a crash --------------------------------------------------------------- */

bool dz_tar_note_fits(struct dz_vfs *v, int64_t value)
{
    uint64_t ino = value < 0 ? -(uint64_t)value : (uint64_t)value, named = 0;
    struct dz_inode *ip;
    if (dz_iget_dir(v, ino, &ip) || dz_ino_fixed(ino) || dz_dir_below(v, ino, DZ_VFS_ROOT) <= 0)
        return false;
    return dz_vfs_lookup(v, ip->rdev, DZ_TAR_STAGE, strlen(DZ_TAR_STAGE), &named) == 0 &&
           named == ino;
}

/* Also on a disk that is opened for reading: what is half in its place must not be seen. */
int dz_tar_resume(struct dz_vfs *v, struct dz_err *err)
{
    bool readonly = v->readonly;
    struct dz_inode *ip;
    int64_t value = v->untar;
    int rc = 0;
    v->readonly = false;
    if (!dz_tar_note_fits(v, value))
        rc = note(v, 0); /* it was gone already, or never was */
    else if (value > 0)
        rc = merge(v, (uint64_t)value);
    else if (!(rc = dz_iget_dir(v, -(uint64_t)value, &ip)))
        rc = dz_tar_stage_drop(v, ip->rdev);
    if (!rc)
        rc = commit(v);
    v->readonly = readonly;
    return tell(v, rc,
                rc == -EROFS ? "an import was cut off: open the disk for writing once"
                             : "finish the import of an archive that was cut off",
                err);
}
