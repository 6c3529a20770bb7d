/* SPDX-License-Identifier: MIT
 *
 * vfs_tar_in.c - a tar stream into the disk, all of it or nothing.
 *
 * Members are unpacked into a fresh directory, the stage, which holds only what this archive
 * made: no name of the archive is ever looked up through a symbolic link, so nothing is written
 * outside. When the whole archive has been read, the stage is merged into the target by renames;
 * conflicts are looked for before the first rename. If anything fails earlier, the stage is
 * removed.
 *
 * A member function returns 0 (done), BAD (imp->why has the reason: skip or refuse), or a
 * negative DZ_E* (the whole import has failed).
 */
#include "vfs/vfs_tar_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "vfs/vfs_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* --- the stage, and the merge into its place --------------------------------------------- */

/* Filling the stage and moving its content may both take many transactions, so a note in the
 * file says how far the import is (meta.untar). The next process that opens the disk finishes it:
 *
 *     -ino   the stage `ino` is being filled           -> remove it
 *      ino   it is complete, and wanted in its parent  -> move what is left of it
 *
 * Moving needs nothing but the stage. Where both sides have a directory, the target's takes mode,
 * owner and time from the archive if the archive named that directory; a directory that it did
 * not name is marked by an impossible owner (NOBODY). The directory's time is kept as the stage's
 * access time, which moving does not change. So every step can be repeated.
 *
 * An entry that cannot be moved (its name became a directory meanwhile, which is possible only if
 * the process continued after a failure) stays in the stage, which is then an ordinary directory.
 */

#define STAGE  DZ_TAR_STAGE
#define NOBODY UINT32_MAX /* owner of a directory that the archive does not name */

/* Some names of a directory, each after a byte with its length; none: the end. */
struct names {
    struct dz_buf text;
    uint64_t cookie; /* where the next call continues */
};

enum {
    BATCH_BYTES = 64 << 10, /* names of a directory looked at together */
};

struct frame {
    uint64_t from, to, cookie;
};

struct merge {
    struct dz_vfs *v;
    DZ_VEC(, struct frame) frames;
    struct names names;
    uint32_t moved; /* since the last commit */
    bool rest;      /* entries stayed in the stage */
};

/* --- the note ---------------------------------------------------------------- */

static int put_note(struct dz_vfs *v, int64_t value)
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

/* Make an empty stage in dir, noted as unfinished. Whatever had that name is removed. Commits. */
static int stage_make(struct dz_vfs *v, uint64_t dir, uint64_t *ret_stage)
{
    const struct dz_vfs_new spec = {.mode = S_IFDIR | 0700};
    struct dz_err e = {0};
    if (v->untar && dz_tar_resume(v, &e) < 0) /* finish an earlier import first */
        return dz_vfs_errno(v, &e);
    int rc = dz_vfs_remove_tree(v, dir, STAGE, strlen(STAGE));
    if (!rc || rc == -ENOENT)
        rc = commit(v); /* so that the next two are one transaction */
    if (!rc)
        rc = dz_vfs_create(v, dir, STAGE, strlen(STAGE), &spec, ret_stage);
    return rc ? rc : put_note(v, -(int64_t)*ret_stage);
}

static int stage_drop(struct dz_vfs *v, uint64_t dir)
{
    int rc = dz_vfs_remove_tree(v, dir, STAGE, strlen(STAGE));
    return rc && rc != -ENOENT ? rc : put_note(v, 0);
}

/* --- names of a directory ------------------------------------------------------ */

static int take_name(void *arg, const struct dz_vfs_entry *e)
{
    struct names *n = arg;
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

/* The caller releases .text. */
static void names_init(struct names *n)
{
    *n = (struct names){.text = DZ_BUF_INIT(BATCH_BYTES)};
}

static int names_next(struct dz_vfs *v, uint64_t dir, uint64_t cookie, struct names *n)
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
    if (rc == -ENOENT && S_ISDIR(from.mode) && from.uid == NOBODY) {
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

/* Copy mode, owner and time to the target if the archive names the directory. */
static int adopt(struct dz_vfs *v, const struct dz_vfs_attr *from, uint64_t to)
{
    struct dz_vfs_attr attr = *from;
    if (from->uid == NOBODY)
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

/* Go down into directories that both sides have; those that stay are empty. */
static int move_all(struct merge *m)
{
    int rc = 0;
    while (!rc && m->frames.n) {
        size_t last = m->frames.n - 1;
        struct frame f = m->frames.p[last];
        rc = names_next(m->v, f.from, f.cookie, &m->names);
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

/* Remove the stage and the note, and set the parent's time: one transaction. */
static int end(struct merge *m, uint64_t stage, uint64_t to)
{
    struct dz_vfs_attr top;
    int rc = dz_dir_empty(m->v, stage);
    if (!rc)
        rc = dz_vfs_getattr(m->v, stage, &top);
    if (!rc)
        rc = commit(m->v);
    if (!rc)
        rc = dz_vfs_rmdir(m->v, to, STAGE, strlen(STAGE));
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
    names_init(&m.names);
    rc = dz_vec_push(&m.frames, top) < 0 ? -ENOMEM : move_all(&m);
    if (!rc && !m.rest)
        rc = end(&m, stage, top.to);
    if (!rc)
        rc = put_note(v, 0);
    dz_vec_release(&m.frames);
    dz_buf_release(&m.names.text);
    return rc;
}

static int tell(struct dz_vfs *v, int rc, const char *what, struct dz_err *err)
{
    return rc ? dz_fail_sys(err, -rc, "%s (%s)", what, dz_vfs_why(v)) : 0;
}

/* Move the unpacked archive to the parent, where nothing may be in the way. Begins and ends with a
 * commit. */
static int merge_stage(struct dz_vfs *v, uint64_t stage, struct dz_err *err)
{
    int rc = put_note(v, (int64_t)stage);
    if (!rc)
        rc = commit(v);
    if (!rc)
        rc = merge(v, stage);
    if (!rc)
        rc = commit(v);
    return tell(v, rc, "move the unpacked files into place; the next open finishes this", err);
}

/* --- after a crash --------------------------------------------------------------- */

bool dz_tar_note_fits(struct dz_vfs *v, int64_t value)
{
    uint64_t ino = value < 0 ? -(uint64_t)value : (uint64_t)value, named = 0;
    struct dz_inode *ip;
    if (dz_iget_dir(v, ino, &ip) || dz_ino_fixed(ino) || dz_dir_below(v, ino, DZ_VFS_ROOT) <= 0)
        return false;
    return dz_vfs_lookup(v, ip->rdev, STAGE, strlen(STAGE), &named) == 0 && named == ino;
}

/* Done on a read-only disk too, because no one may see a tree that is half in place. */
int dz_tar_resume(struct dz_vfs *v, struct dz_err *err)
{
    bool readonly = v->readonly;
    struct dz_inode *ip;
    int64_t value = v->untar;
    int rc = 0;
    v->readonly = false;
    if (!dz_tar_note_fits(v, value))
        rc = put_note(v, 0); /* the stage was removed before, or never made */
    else if (value > 0)
        rc = merge(v, (uint64_t)value);
    else if (!(rc = dz_iget_dir(v, -(uint64_t)value, &ip)))
        rc = stage_drop(v, ip->rdev);
    if (!rc)
        rc = commit(v);
    v->readonly = readonly;
    return tell(v, rc,
                rc == -EROFS ? "an import was interrupted; open the disk for writing once"
                             : "finish the interrupted import of an archive",
                err);
}

/* --- members into the stage -------------------------------------------------------------- */

enum {
    BAD = 1,
    PIECE_BYTES = DZ_VFS_CHUNK,
    NOTE_MAX = 320,
};

/* The archive names this directory itself: its mode and owner count. */
struct named_dir {
    uint64_t ino;
    int64_t mtime_ns;
};

struct merge_frame {
    uint64_t from, to, cookie;
};

struct import {
    const struct dz_tar_in *in;
    struct dz_vfs *v;
    struct dz_tar_reader r;
    uint64_t stage;
    struct dz_tar_stats stats;
    struct dz_buf path, target; /* cleaned names */
    DZ_VEC(, struct named_dir) dirs;
    DZ_VEC(, struct merge_frame) frames;
    uint64_t told; /* progress */
    int why_code;
    char why[160];
    char *piece;
};

/* --- what is wrong ----------------------------------------------------------- */

DZ_PRINTF(3, 4) static int bad(struct import *imp, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(imp->why, sizeof imp->why, fmt, ap);
    va_end(ap);
    imp->why_code = code;
    return BAD;
}

/* A negative errno of the disk, while working on a member. */
static int disk_error(struct import *imp, int sys, struct dz_err *err)
{
    switch (sys) {
    case -EDQUOT:
        return bad(imp, DZ_EQUOTA, "exceeds the disk's limit");
    case -ENOSPC:
    case -EIO:
    case -ENOMEM:
    case -EROFS:
        return dz_fail_sys(err, -sys, "unpack an archive (%s)", dz_vfs_why(imp->v));
    default:
        return bad(imp, DZ_EINVAL, "%s", strerrordesc_np(-sys));
    }
}

static void warn(struct import *imp, const char *what)
{
    char quoted[DZ_STR_QUOTED], text[NOTE_MAX];
    if (!imp->in->note)
        return;
    (void)snprintf(text, sizeof text, "%s %s",
                   dz_str_quote(dz_str_n(imp->r.m.path.p, imp->r.m.path.len), quoted), what);
    imp->in->note(imp->in->arg, text);
}

static int refuse(struct import *imp, const char *name, size_t len, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    return dz_fail(err, imp->why_code, "%s %s: nothing was imported",
                   dz_str_quote(dz_str_n(name, len), quoted), imp->why);
}

/* --- names ------------------------------------------------------------------- */

/* "./a//b/" becomes "a/b". BAD when it could lead elsewhere. */
static int clean(struct import *imp, const struct dz_buf *raw, struct dz_buf *out)
{
    struct dz_str rest = dz_str_n(raw->p, raw->len), part;
    dz_buf_reset(out);
    if (raw->len && raw->p[0] == '/')
        return bad(imp, DZ_EINVAL, "is an absolute path");
    while (dz_str_split(&rest, '/', &part)) {
        if (part.n == 0 || dz_str_eqz(part, "."))
            continue;
        if (dz_str_eqz(part, ".."))
            return bad(imp, DZ_EINVAL, "holds \"..\"");
        if (part.n > DZ_VFS_NAME_MAX)
            return bad(imp, DZ_EINVAL, "has a part longer than %d bytes", DZ_VFS_NAME_MAX);
        if (out->len == 0 && dz_str_eqz(part, STAGE))
            return bad(imp, DZ_EINVAL, "has a reserved name");
        if (out->len)
            dz_buf_add(out, "/", 1);
        dz_buf_add(out, part.p, part.n);
    }
    return 0;
}

/* Does a symbolic link at path, read as text, stay inside the tree? */
static bool link_stays(const struct import *imp, struct dz_str path, struct dz_str target)
{
    struct dz_str part;
    size_t depth = 0;
    if (dz_str_starts(target, DZ_STR("/"))) {
        if (imp->in->dir != DZ_VFS_ROOT)
            return false;
    } else {
        for (size_t i = 0; i < path.n; i++)
            depth += path.p[i] == '/';
    }
    while (dz_str_split(&target, '/', &part)) {
        if (part.n == 0 || dz_str_eqz(part, "."))
            continue;
        if (!dz_str_eqz(part, ".."))
            depth++;
        else if (depth-- == 0)
            return false;
    }
    return true;
}

static int make_dir(struct import *imp, uint64_t dir, struct dz_str name, uint32_t mode,
                    uint64_t *ret_ino)
{
    const struct dz_vfs_new spec = {
        .mode = S_IFDIR | mode, .uid = imp->in->uid, .gid = imp->in->gid};
    return dz_vfs_create(imp->v, dir, name.p, name.n, &spec, ret_ino);
}

/* Walk from the stage along all components of path but the last, making missing ones. */
static int walk(struct import *imp, struct dz_str path, bool make, struct dz_vfs_name *ret_at,
                struct dz_err *err)
{
    struct dz_str rest = path, part;
    uint64_t dir = imp->stage;
    while (dz_str_split(&rest, '/', &part) && rest.p) {
        uint64_t ino = 0;
        struct dz_vfs_attr attr = {0};
        int r = dz_vfs_lookup(imp->v, dir, part.p, part.n, &ino);
        if (r == -ENOENT && make)
            r = make_dir(imp, dir, part, 0755, &ino);
        if (r == 0)
            r = dz_vfs_getattr(imp->v, ino, &attr);
        if (r < 0)
            return disk_error(imp, r, err);
        if (!S_ISDIR(attr.mode))
            return bad(imp, DZ_EINVAL, "leads through %s",
                       S_ISLNK(attr.mode) ? "a symbolic link" : "a file");
        dir = ino;
    }
    *ret_at = (struct dz_vfs_name){dir, part.p, part.n};
    return 0;
}

/* --- members ----------------------------------------------------------------- */

static uint32_t mode_of(const struct import *imp)
{
    return imp->r.m.mode & (imp->in->owners ? 07777u : 0777u);
}

static int set_attributes(struct import *imp, uint64_t ino, struct dz_err *err)
{
    const struct dz_tar_member *m = &imp->r.m;
    const struct dz_vfs_attr attr = {.mtime_ns = m->mtime_ns, .atime_ns = m->mtime_ns};
    for (unsigned i = 0; i < m->xattr_count; i++) {
        const struct dz_tar_xattr *x = &m->xattrs[i];
        const char *name = m->xattr_bytes.p + x->name;
        if (!imp->in->owners && strncmp(name, "user.", 5) != 0) {
            warn(imp, "loses an attribute outside user.");
            continue;
        }
        int r = dz_vfs_setxattr(imp->v, ino, name, m->xattr_bytes.p + x->value, x->value_len, 0);
        if (r == -EOPNOTSUPP || r == -EPERM || r == -EINVAL || r == -ERANGE || r == -E2BIG)
            warn(imp, "loses an attribute that the disk does not keep");
        else if (r < 0)
            return disk_error(imp, r, err);
    }
    int r = dz_vfs_setattr(imp->v, ino, DZ_VFS_SET_MTIME | DZ_VFS_SET_ATIME, &attr);
    return r < 0 ? disk_error(imp, r, err) : 0;
}

/* Whole chunks of zeros stay holes. */
static int put_piece(struct import *imp, uint64_t ino, uint64_t off, size_t n, struct dz_err *err)
{
    size_t done = 0;
    if (dz_mem_is_zero(imp->piece, n))
        return 0;
    imp->stats.bytes += n;
    if (imp->in->max_bytes && imp->stats.bytes > imp->in->max_bytes)
        return bad(imp, DZ_EQUOTA, "brings the archive over the limit of %llu bytes",
                   (unsigned long long)imp->in->max_bytes);
    while (done < n) {
        ssize_t put = dz_vfs_write(imp->v, ino, off + done, imp->piece + done, n - done);
        if (put <= 0)
            return disk_error(imp, put < 0 ? (int)put : -EIO, err);
        done += (size_t)put;
    }
    return 0;
}

static int report(struct import *imp, struct dz_err *err)
{
    const struct dz_tar_in *in = imp->in;
    if (in->stop && in->stop(in->arg))
        return dz_fail(err, DZ_ECANCELED, "unpack an archive: interrupted; nothing was imported");
    if (in->progress && imp->r.at != imp->told) {
        imp->told = imp->r.at;
        in->progress(in->arg, imp->told);
    }
    return 0;
}

static int put_content(struct import *imp, uint64_t ino, struct dz_err *err)
{
    const struct dz_vfs_attr whole = {.size = imp->r.m.size};
    int r = dz_vfs_setattr(imp->v, ino, DZ_VFS_SET_SIZE, &whole);
    if (r < 0)
        return disk_error(imp, r, err);
    for (;;) {
        uint64_t off = 0;
        ssize_t n = dz_tar_data(&imp->r, imp->piece, PIECE_BYTES, &off, err);
        if (n <= 0)
            return (int)n;
        r = put_piece(imp, ino, off, (size_t)n, err);
        if (r == 0)
            r = report(imp, err);
        if (r != 0)
            return r;
    }
}

/* Remove an earlier member of this name, as tar does; a directory stays. */
static int make_room(struct import *imp, const struct dz_vfs_name *at, struct dz_err *err)
{
    uint64_t ino = 0;
    struct dz_vfs_attr attr = {0};
    int r = dz_vfs_lookup(imp->v, at->dir, at->name, at->len, &ino);
    if (r == -ENOENT)
        return 0;
    if (r == 0)
        r = dz_vfs_getattr(imp->v, ino, &attr);
    if (r == 0 && S_ISDIR(attr.mode))
        return bad(imp, DZ_EINVAL, "would replace a directory of this archive");
    if (r == 0)
        r = dz_vfs_unlink(imp->v, at->dir, at->name, at->len);
    return r < 0 ? disk_error(imp, r, err) : 0;
}

static int put_dir(struct import *imp, const struct dz_vfs_name *at, struct dz_err *err)
{
    const struct dz_tar_member *m = &imp->r.m;
    struct dz_vfs_attr attr = {0};
    uint64_t ino = imp->stage;
    int r = 0;
    if (at) {
        r = dz_vfs_lookup(imp->v, at->dir, at->name, at->len, &ino);
        if (r == -ENOENT)
            r = make_dir(imp, at->dir, dz_str_n(at->name, at->len), 0755, &ino);
    }
    if (r == 0)
        r = dz_vfs_getattr(imp->v, ino, &attr);
    if (r == 0 && !S_ISDIR(attr.mode))
        return bad(imp, DZ_EINVAL, "is a directory where the archive has a file");
    attr.mode = (attr.mode & ~(uint32_t)07777) | mode_of(imp);
    attr.uid = imp->in->owners ? m->uid : imp->in->uid;
    attr.gid = imp->in->owners ? m->gid : imp->in->gid;
    if (r == 0)
        r = dz_vfs_setattr(imp->v, ino, DZ_VFS_SET_MODE | DZ_VFS_SET_UID | DZ_VFS_SET_GID, &attr);
    if (r < 0)
        return disk_error(imp, r, err);
    if (dz_vec_push(&imp->dirs, ((struct named_dir){ino, m->mtime_ns})) < 0)
        return dz_fail(err, DZ_ENOMEM, "unpack an archive: out of memory");
    return set_attributes(imp, ino, err);
}

static int put_link(struct import *imp, const struct dz_vfs_name *at, struct dz_err *err)
{
    struct dz_vfs_name to = {0};
    struct dz_vfs_attr attr = {0};
    uint64_t ino = 0;
    int r = clean(imp, &imp->r.m.link, &imp->target);
    if (r == 0 && imp->target.len == 0)
        return bad(imp, DZ_EINVAL, "is a hard link without a target");
    if (r == 0)
        r = walk(imp, dz_str_n(imp->target.p, imp->target.len), false, &to, err);
    if (r == BAD)
        return bad(imp, DZ_EINVAL, "is a hard link out of the archive");
    if (r < 0)
        return r;
    r = dz_vfs_lookup(imp->v, to.dir, to.name, to.len, &ino);
    if (r == 0)
        r = dz_vfs_getattr(imp->v, ino, &attr);
    if (r == -ENOENT)
        return bad(imp, DZ_EINVAL, "is a hard link to a file that the archive does not have");
    if (r == 0 && S_ISDIR(attr.mode))
        return bad(imp, DZ_EINVAL, "is a hard link to a directory");
    if (r == 0 && to.dir == at->dir &&
        dz_str_eq(dz_str_n(to.name, to.len), dz_str_n(at->name, at->len)))
        return bad(imp, DZ_EINVAL, "is a hard link to itself");
    if (r < 0)
        return disk_error(imp, r, err);
    r = make_room(imp, at, err);
    if (r != 0)
        return r;
    r = dz_vfs_link(imp->v, ino, at->dir, at->name, at->len);
    return r < 0 ? disk_error(imp, r, err) : 0;
}

static const struct {
    char type;
    uint32_t mode;
} node_types[] = {
    {'0', S_IFREG}, {'2', S_IFLNK}, {'3', S_IFCHR}, {'4', S_IFBLK}, {'6', S_IFIFO},
};

static int put_node(struct import *imp, const struct dz_vfs_name *at, struct dz_err *err)
{
    const struct dz_tar_member *m = &imp->r.m;
    struct dz_vfs_new spec = {.uid = imp->in->owners ? m->uid : imp->in->uid,
                              .gid = imp->in->owners ? m->gid : imp->in->gid};
    uint64_t ino = 0, bytes = imp->stats.bytes;
    for (size_t i = 0; i < DZ_ARRAY_LEN(node_types); i++)
        if (node_types[i].type == m->type)
            spec.mode = node_types[i].mode | (m->type == '2' ? 0777u : mode_of(imp));
    if (m->type == '2') {
        spec.target = m->link.p;
        spec.target_len = m->link.len;
        if (m->link.len == 0 || m->link.len >= DZ_VFS_PATH_MAX)
            return bad(imp, DZ_EINVAL, "is a symbolic link of %zu bytes", m->link.len);
        if (!imp->in->links && !link_stays(imp, dz_str_n(imp->path.p, imp->path.len),
                                           dz_str_n(m->link.p, m->link.len)))
            return bad(imp, DZ_EINVAL, "is a symbolic link out of the tree");
    }
    if (m->type == '3' || m->type == '4') {
        if (!imp->in->devices)
            return bad(imp, DZ_EINVAL, "is a device");
        spec.rdev = makedev(m->major, m->minor);
    }
    int r = make_room(imp, at, err);
    if (r != 0)
        return r;
    r = dz_vfs_create(imp->v, at->dir, at->name, at->len, &spec, &ino);
    if (r < 0)
        return disk_error(imp, r, err);
    if (m->type == '0')
        r = put_content(imp, ino, err);
    if (r == 0 && m->type == '0' && (spec.mode & 06000)) { /* writing took set-id bits away */
        const struct dz_vfs_attr attr = {.mode = spec.mode};
        r = dz_vfs_setattr(imp->v, ino, DZ_VFS_SET_MODE, &attr);
        r = r < 0 ? disk_error(imp, r, err) : 0;
    }
    if (r == 0)
        r = set_attributes(imp, ino, err);
    if (r == BAD) { /* do not keep half a file */
        (void)dz_vfs_unlink(imp->v, at->dir, at->name, at->len);
        imp->stats.bytes = bytes;
    }
    return r;
}

static int put_member(struct import *imp, struct dz_err *err)
{
    const struct dz_tar_member *m = &imp->r.m;
    struct dz_vfs_name at = {0};
    if (m->bad[0])
        return bad(imp, DZ_EINVAL, "%s", m->bad);
    int r = clean(imp, &m->path, &imp->path);
    if (r != 0)
        return r;
    if (imp->path.len == 0) /* "./" */
        return m->type == '5' ? put_dir(imp, NULL, err) : bad(imp, DZ_EINVAL, "has no name");
    r = walk(imp, dz_str_n(imp->path.p, imp->path.len), true, &at, err);
    if (r != 0)
        return r;
    if (m->type == '5')
        return put_dir(imp, &at, err);
    if (m->type == '1')
        return put_link(imp, &at, err);
    return put_node(imp, &at, err);
}

static int put_all(struct import *imp, struct dz_err *err)
{
    int r;
    while ((r = dz_tar_next(&imp->r, err)) > 0) {
        r = put_member(imp, err);
        if (r == BAD && !imp->in->skip_bad)
            r = refuse(imp, imp->r.m.path.p, imp->r.m.path.len, err);
        if (r == BAD) {
            char text[sizeof imp->why + 32];
            (void)snprintf(text, sizeof text, "%s: left out", imp->why);
            warn(imp, text);
            imp->stats.skipped++;
        } else if (r == 0) {
            imp->stats.members++;
        }
        if (r >= 0)
            r = report(imp, err);
        if (r < 0)
            return r;
        if (imp->stats.members + imp->stats.skipped > DZ_TAR_MEMBERS_MAX)
            return dz_fail(err, DZ_ELIMIT,
                           "unpack an archive: more than %d members; nothing was imported",
                           DZ_TAR_MEMBERS_MAX);
    }
    return r;
}

/* --- directories named by the archive ------------------------------------------ */

static int by_ino(const void *a, const void *b)
{
    const struct named_dir *x = a, *y = b;
    return (x->ino > y->ino) - (x->ino < y->ino);
}

static const struct named_dir *named(const struct import *imp, uint64_t ino)
{
    const struct named_dir key = {.ino = ino};
    return imp->dirs.n ? bsearch(&key, imp->dirs.p, imp->dirs.n, sizeof key, by_ino) : NULL;
}

/* Entries that were made changed the times; set those of the archive. */
static int restore_times(struct import *imp, struct dz_err *err)
{
    if (imp->dirs.n)
        qsort(imp->dirs.p, imp->dirs.n, sizeof imp->dirs.p[0], by_ino);
    for (size_t i = 0; i < imp->dirs.n; i++) {
        const struct dz_vfs_attr attr = {.mtime_ns = imp->dirs.p[i].mtime_ns};
        int r = dz_vfs_setattr(imp->v, imp->dirs.p[i].ino, DZ_VFS_SET_MTIME, &attr);
        if (r < 0)
            return dz_fail_sys(err, -r, "unpack an archive: set a directory's time");
    }
    return 0;
}

/* Both sides have the directory: note for the merge whether the archive gives its mode. */
static int mark(struct import *imp, uint64_t from)
{
    const struct dz_vfs_attr attr = {.uid = NOBODY};
    return named(imp, from) ? 0 : dz_vfs_setattr(imp->v, from, DZ_VFS_SET_UID, &attr);
}

/* --- before the merge ---------------------------------------------------------- */

static int type_of(struct import *imp, uint64_t dir, const char *name, size_t len,
                   uint64_t *ret_ino, bool *ret_dir)
{
    struct dz_vfs_attr attr = {0};
    int r = dz_vfs_lookup(imp->v, dir, name, len, ret_ino);
    if (r == 0)
        r = dz_vfs_getattr(imp->v, *ret_ino, &attr);
    if (r == 0)
        *ret_dir = S_ISDIR(attr.mode);
    return r;
}

/* Can this name of the stage go to its place? */
static int check_name(struct import *imp, const struct merge_frame *f, const char *name, size_t len)
{
    uint64_t from = 0, to = 0;
    bool from_dir = false, to_dir = false;
    int r = type_of(imp, f->from, name, len, &from, &from_dir);
    if (r < 0)
        return r;
    r = type_of(imp, f->to, name, len, &to, &to_dir);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    if (dz_mounted(to))
        return bad(imp, DZ_EINVAL, "is where a volume is mounted; unpack into the volume itself");
    if (from_dir != to_dir)
        return bad(imp, DZ_EEXIST,
                   from_dir ? "is a file on the disk and a directory in the archive"
                            : "is a directory on the disk and a file in the archive");
    if (!from_dir)
        return 0;
    const struct merge_frame below = {.from = from, .to = to};
    r = mark(imp, from);
    return r < 0 ? r : dz_vec_push(&imp->frames, below) < 0 ? -ENOMEM : 0;
}

static int leave_out(struct import *imp, uint64_t dir, const char *name, size_t len)
{
    char quoted[DZ_STR_QUOTED], text[NOTE_MAX];
    (void)snprintf(text, sizeof text, "%s %s: left out", dz_str_quote(dz_str_n(name, len), quoted),
                   imp->why);
    imp->stats.skipped++;
    if (imp->in->note)
        imp->in->note(imp->in->arg, text);
    return dz_vfs_remove_tree(imp->v, dir, name, len);
}

static int check_batch(struct import *imp, size_t frame, const struct dz_buf *names,
                       struct dz_err *err)
{
    for (size_t at = 0; at < names->len;) {
        size_t len = (unsigned char)names->p[at];
        const char *name = names->p + at + 1;
        const struct merge_frame f = imp->frames.p[frame]; /* the vector may move */
        int r = check_name(imp, &f, name, len);
        if (r == BAD && !imp->in->skip_bad)
            return refuse(imp, name, len, err);
        if (r == BAD)
            r = leave_out(imp, f.from, name, len);
        if (r < 0)
            return dz_fail_sys(err, -r, "compare the archive with the disk (%s)",
                               dz_vfs_why(imp->v));
        at += len + 1;
    }
    return 0;
}

/* Descend into directories that both sides have. */
static int check_all(struct import *imp, struct dz_err *err)
{
    const struct merge_frame top = {.from = imp->stage, .to = imp->in->dir};
    struct names names;
    int r = mark(imp, imp->stage);
    names_init(&names);
    dz_vec_reset(&imp->frames);
    if (r == 0 && dz_vec_push(&imp->frames, top) < 0)
        r = -ENOMEM;
    if (r < 0)
        r = dz_fail_sys(err, -r, "unpack an archive (%s)", dz_vfs_why(imp->v));
    while (r == 0 && imp->frames.n) {
        size_t last = imp->frames.n - 1;
        const struct merge_frame *f = &imp->frames.p[last];
        int sys = names_next(imp->v, f->from, f->cookie, &names);
        if (sys < 0)
            r = dz_fail_sys(err, -sys, "unpack an archive: list a directory (%s)",
                            dz_vfs_why(imp->v));
        imp->frames.p[last].cookie = names.cookie;
        if (r == 0 && names.text.len)
            r = check_batch(imp, last, &names.text, err);
        else
            (void)dz_vec_pop(&imp->frames);
    }
    dz_buf_release(&names.text);
    return r;
}

/* --- all of it --------------------------------------------------------------- */

static int import(struct import *imp, struct dz_err *err)
{
    int r = stage_make(imp->v, imp->in->dir, &imp->stage);
    if (r < 0) {
        r = dz_fail_sys(err, -r, "unpack an archive: make a directory for it (%s)",
                        dz_vfs_why(imp->v));
        (void)stage_drop(imp->v, imp->in->dir);
        return r;
    }
    r = put_all(imp, err);
    if (r == 0)
        r = restore_times(imp, err);
    if (r == 0)
        r = check_all(imp, err);
    if (r == 0)
        return merge_stage(imp->v, imp->stage, err);
    (void)stage_drop(imp->v, imp->in->dir); /* or the next open does */
    return r;
}

int dz_vfs_tar_in(const struct dz_tar_in *in, struct dz_tar_stats *ret_stats, struct dz_err *err)
{
    struct dz_tar_in on_disk = *in; /* in the numbers of the disk that has the directory */
    struct import imp = {
        .in = &on_disk,
        .path = DZ_BUF_INIT(DZ_TAR_PATH_MAX),
        .target = DZ_BUF_INIT(DZ_TAR_PATH_MAX),
        .dirs = DZ_VEC_INIT(DZ_TAR_MEMBERS_MAX),
        .frames = DZ_VEC_INIT(DZ_TAR_MEMBERS_MAX),
        .piece = dz_alloc(PIECE_BYTES),
    };
    dz_tar_init(&imp.r, in->read, in->arg);
    int rc = dz_mount_enter(&on_disk.vfs, &on_disk.dir);
    imp.v = on_disk.vfs;
    int r = !imp.piece ? dz_fail(err, DZ_ENOMEM, "unpack an archive: out of memory")
            : rc       ? dz_fail_sys(err, -rc, "unpack an archive")
                       : import(&imp, err);
    dz_tar_release(&imp.r);
    dz_buf_release(&imp.path);
    dz_buf_release(&imp.target);
    dz_vec_release(&imp.dirs);
    dz_vec_release(&imp.frames);
    dz_free(imp.piece);
    if (r == 0)
        *ret_stats = imp.stats;
    return r;
}
