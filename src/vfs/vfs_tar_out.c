/* SPDX-License-Identifier: MIT
 *
 * vfs_tar_out.c - a tree of the disk as a tar stream.
 *
 * Depth first, names of a directory in byte order; headers by vfs_tar_head.c. A second name of an
 * inode is a hard link to its first.
 */
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "vfs/vfs_tar_head.h"
#include "vfs/vfs_tar_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    PIECE_BYTES = DZ_VFS_CHUNK,
    NAMES_MAX = 64 << 20, /* bytes of all names of one directory */
    NOTE_MAX = 320,
    RECORD_BYTES = 10240, /* archives are multiples of it, for tapes and for GNU tar */
};

struct level {
    uint64_t ino;
    size_t path_len;     /* of export.path when in this directory */
    struct dz_buf names; /* sorted, each with a terminator */
    size_t at;
};

struct export
{
    const struct dz_tar_out *out;
    struct dz_vfs *v;
    struct dz_tar_stats stats;
    struct dz_buf path, pax, head, target, map;
    struct dz_map first; /* ino -> its first name, owned */
    DZ_VEC(, struct level) levels;
    uint64_t written;
    char *piece, *list;
};

static int no_memory(struct dz_err *err)
{
    return dz_fail(err, DZ_ENOMEM, "write an archive: out of memory");
}

static int disk_error(struct export *x, int sys, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    return dz_fail_sys(err, -sys, "write %s into an archive (%s)",
                       dz_str_quote(dz_str_n(x->path.p, x->path.len), quoted), dz_vfs_why(x->v));
}

static int emit(struct export *x, const void *p, size_t n, struct dz_err *err)
{
    const struct dz_tar_out *out = x->out;
    if (out->stop && out->stop(out->arg))
        return dz_fail(err, DZ_ECANCELED, "write an archive: interrupted");
    int r = out->write(out->arg, p, n);
    if (r < 0)
        return dz_fail_sys(err, -r, "write an archive, at byte %llu",
                           (unsigned long long)x->written);
    x->written += n;
    if (out->progress)
        out->progress(out->arg, x->written);
    return 0;
}

static int pad(struct export *x, uint64_t multiple, struct dz_err *err)
{
    static const char zeros[RECORD_BYTES];
    uint64_t over = x->written % multiple;
    return over ? emit(x, zeros, (size_t)(multiple - over), err) : 0;
}

/* --- headers ----------------------------------------------------------------- */

static int add_xattrs(struct export *x, uint64_t ino, struct dz_err *err)
{
    char key[DZ_VFS_NAME_MAX + 32];
    ssize_t n = dz_vfs_listxattr(x->v, ino, x->list, DZ_VFS_XATTR_LIST_MAX);
    if (n == -EOPNOTSUPP)
        return 0;
    if (n < 0)
        return disk_error(x, (int)n, err);
    char *value = n ? dz_alloc(DZ_VFS_XATTR_MAX) : NULL;
    if (n && !value)
        return no_memory(err);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(x->list + at) + 1) {
        const char *name = x->list + at;
        ssize_t len = dz_vfs_getxattr(x->v, ino, name, value, DZ_VFS_XATTR_MAX);
        if (len < 0) {
            dz_free(value);
            return disk_error(x, (int)len, err);
        }
        (void)snprintf(key, sizeof key, "SCHILY.xattr.%s", name);
        dz_tar_pax_add(&x->pax, key, value, (size_t)len);
    }
    dz_free(value);
    return 0;
}

struct member {
    const struct dz_vfs_attr *attr;
    char type;
    struct dz_str path, link;
    uint64_t size; /* of the data that follows */
};

static int emit_header(struct export *x, const struct member *m, struct dz_err *err)
{
    const struct dz_vfs_attr *a = m->attr;
    const struct dz_tar_head h = {.type = m->type,
                                  .path = m->path,
                                  .link = m->link,
                                  .mode = a->mode & 07777,
                                  .uid = a->uid,
                                  .gid = a->gid,
                                  .size = m->size,
                                  .mtime_ns = a->mtime_ns,
                                  .major = major(a->rdev),
                                  .minor = minor(a->rdev)};
    dz_buf_reset(&x->head);
    dz_tar_head_add(&x->head, &x->pax, &h);
    if (x->pax.err || x->head.err)
        return dz_fail(err, x->pax.err ? x->pax.err : x->head.err, "write an archive: %s",
                       dz_err_text(x->pax.err ? x->pax.err : x->head.err));
    return emit(x, x->head.p, x->head.len, err);
}

/* --- content ----------------------------------------------------------------- */

static int emit_range(struct export *x, uint64_t ino, uint64_t off, uint64_t n, struct dz_err *err)
{
    while (n) {
        size_t want = n < PIECE_BYTES ? (size_t)n : PIECE_BYTES;
        ssize_t got = dz_vfs_read(x->v, ino, off, x->piece, want);
        if (got <= 0)
            return disk_error(x, got < 0 ? (int)got : -EIO, err);
        int r = emit(x, x->piece, (size_t)got, err);
        if (r < 0)
            return r;
        off += (uint64_t)got;
        n -= (uint64_t)got;
        x->stats.bytes += (uint64_t)got;
    }
    return 0;
}

DZ_VEC(pieces, struct dz_tar_piece);

/* The stretches that hold data. An empty list: the file is one hole. */
static int find_pieces(struct export *x, uint64_t ino, uint64_t size, struct pieces *out,
                       struct dz_err *err)
{
    uint64_t at = 0, data = 0, hole = 0;
    while (at < size) {
        int r = dz_vfs_seek(x->v, ino, at, SEEK_DATA, &data);
        if (r == -ENXIO)
            break;
        if (r == 0)
            r = dz_vfs_seek(x->v, ino, data, SEEK_HOLE, &hole);
        if (r < 0)
            return disk_error(x, r, err);
        if (dz_vec_push(out, ((struct dz_tar_piece){data, hole - data})) < 0)
            return dz_fail(err, out->err, "write an archive: %s", dz_err_text(out->err));
        at = hole;
    }
    /* Like GNU tar: an empty piece at the end gives the size to readers that use the map. */
    if (at < size && dz_vec_push(out, ((struct dz_tar_piece){size, 0})) < 0)
        return dz_fail(err, out->err, "write an archive: %s", dz_err_text(out->err));
    return 0;
}

static int emit_sparse(struct export *x, struct member *m, const struct pieces *pieces,
                       struct dz_err *err)
{
    uint64_t stored =
        dz_tar_sparse_add(&x->map, &x->pax, pieces->p, pieces->n, m->path, m->attr->size);
    if (x->map.err)
        return no_memory(err);
    m->path = DZ_STR(DZ_TAR_SPARSE_NAME);
    m->size = stored + x->map.len;
    int r = emit_header(x, m, err);
    if (r == 0)
        r = emit(x, x->map.p, x->map.len, err);
    for (size_t i = 0; r == 0 && i < pieces->n; i++)
        r = emit_range(x, m->attr->ino, pieces->p[i].off, pieces->p[i].len, err);
    return r;
}

static int emit_file(struct export *x, struct member *m, struct dz_err *err)
{
    struct pieces pieces = DZ_VEC_INIT(DZ_TAR_SPARSE_MAX);
    int r = x->out->sparse ? find_pieces(x, m->attr->ino, m->attr->size, &pieces, err) : 0;
    bool whole = !x->out->sparse || (pieces.n == 1 && pieces.p[0].len == m->attr->size) ||
                 m->attr->size == 0;
    m->size = m->attr->size;
    if (r == 0 && !whole) {
        r = emit_sparse(x, m, &pieces, err);
    } else if (r == 0) {
        r = emit_header(x, m, err);
        if (r == 0)
            r = emit_range(x, m->attr->ino, 0, m->attr->size, err);
    }
    dz_vec_release(&pieces);
    return r < 0 ? r : pad(x, DZ_TAR_BLOCK, err);
}

/* --- members ----------------------------------------------------------------- */

/* Is this another name of an inode that was written already? */
static int earlier_name(struct export *x, const struct dz_vfs_attr *a, const char **ret_name,
                        struct dz_err *err)
{
    *ret_name = NULL;
    if (a->nlink < 2 || S_ISDIR(a->mode))
        return 0;
    *ret_name = dz_map_get64(&x->first, a->ino);
    if (*ret_name)
        return 0;
    char *name = dz_str_dup(dz_str_n(x->path.p, x->path.len));
    void *old = NULL;
    if (!name || dz_map_put64(&x->first, a->ino, name, &old) < 0) {
        dz_free(name);
        return no_memory(err);
    }
    return 0;
}

static int read_target(struct export *x, uint64_t ino, struct dz_str *ret_target,
                       struct dz_err *err)
{
    int n = dz_vfs_readlink(x->v, ino, x->piece, PIECE_BYTES);
    if (n < 0)
        return disk_error(x, n, err);
    dz_buf_reset(&x->target);
    dz_buf_add(&x->target, x->piece, (size_t)n);
    if (x->target.err)
        return no_memory(err);
    *ret_target = dz_str_n(x->target.p, x->target.len);
    return 0;
}

static char type_of(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return '0';
    case S_IFLNK:
        return '2';
    case S_IFCHR:
        return '3';
    case S_IFBLK:
        return '4';
    case S_IFDIR:
        return '5';
    case S_IFIFO:
        return '6';
    default:
        return 0;
    }
}

/* x->path names it, with a slash at the end of a directory. */
static int emit_member(struct export *x, const struct dz_vfs_attr *a, struct dz_err *err)
{
    struct member m = {.attr = a, .type = type_of(a->mode)};
    const char *earlier = NULL;
    if (m.type == 0) {
        char quoted[DZ_STR_QUOTED], text[NOTE_MAX];
        m.path = dz_str_n(x->path.p, x->path.len);
        (void)snprintf(text, sizeof text, "%s is a socket: left out", dz_str_quote(m.path, quoted));
        if (x->out->note)
            x->out->note(x->out->arg, text);
        x->stats.skipped++;
        return 0;
    }
    dz_buf_reset(&x->pax);
    int r = earlier_name(x, a, &earlier, err);
    if (r == 0 && !earlier)
        r = add_xattrs(x, a->ino, err);
    if (r == 0 && m.type == '2' && !earlier)
        r = read_target(x, a->ino, &m.link, err);
    if (r < 0)
        return r;
    if (++x->stats.members > DZ_TAR_MEMBERS_MAX) /* also ends the walk on a damaged disk with a
                                                  * circle */
        return dz_fail(err, DZ_ELIMIT, "write an archive: more than %d members",
                       DZ_TAR_MEMBERS_MAX);
    m.path = dz_str_n(x->path.p, x->path.len);
    if (earlier) {
        m.type = '1';
        m.link = dz_str(earlier);
    }
    return m.type == '0' ? emit_file(x, &m, err) : emit_header(x, &m, err);
}

/* --- the walk ---------------------------------------------------------------- */

static int add_name(void *arg, const struct dz_vfs_entry *e)
{
    struct dz_buf *b = arg;
    bool dots =
        (e->len == 1 && e->name[0] == '.') || (e->len == 2 && memcmp(e->name, "..", 2) == 0);
    if (!dots)
        dz_buf_add(b, e->name, e->len);
    if (!dots)
        dz_buf_add(b, "", 1);
    return b->err;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int sort_names(struct dz_buf *b)
{
    DZ_VEC(, const char *) index = DZ_VEC_INIT(NAMES_MAX);
    struct dz_buf sorted = DZ_BUF_INIT(NAMES_MAX);
    for (size_t at = 0; at < b->len; at += strlen(b->p + at) + 1)
        if (dz_vec_push(&index, b->p + at) < 0)
            break;
    if (index.n)
        qsort(index.p, index.n, sizeof index.p[0], by_name);
    for (size_t i = 0; i < index.n; i++)
        dz_buf_add(&sorted, index.p[i], strlen(index.p[i]) + 1);
    int r = index.err ? index.err : sorted.err;
    dz_vec_release(&index);
    dz_buf_release(b);
    *b = sorted;
    return r;
}

static int enter(struct export *x, uint64_t ino, struct dz_err *err)
{
    struct level l = {.ino = ino, .path_len = x->path.len, .names = DZ_BUF_INIT(NAMES_MAX)};
    int r = dz_vfs_readdir(x->v, ino, 0, add_name, &l.names);
    int rc = r < 0 ? disk_error(x, r, err) : l.names.err;
    if (rc == 0)
        rc = sort_names(&l.names);
    if (rc == 0)
        rc = dz_vec_push(&x->levels, l);
    if (rc == 0)
        return 0;
    dz_buf_release(&l.names);
    return r < 0 ? rc : dz_fail(err, rc, "write an archive: %s", dz_err_text(rc));
}

static int visit(struct export *x, uint64_t ino, struct dz_err *err)
{
    struct dz_vfs_attr attr;
    int r = dz_vfs_getattr(x->v, ino, &attr);
    if (r < 0)
        return disk_error(x, r, err);
    if (S_ISDIR(attr.mode) && x->path.len)
        dz_buf_adds(&x->path, "/");
    if (x->path.err)
        return dz_fail(err, x->path.err, "write an archive: a path is too long");
    r = x->path.len ? emit_member(x, &attr, err) : 0;
    if (r == 0 && S_ISDIR(attr.mode))
        r = enter(x, ino, err);
    return r;
}

static void cut_path(struct export *x, size_t len)
{
    x->path.len = len;
    if (x->path.cap)
        x->path.p[len] = '\0';
}

static int visit_all(struct export *x, struct dz_err *err)
{
    dz_buf_adds(&x->path, x->out->name);
    int r = visit(x, x->out->ino, err);
    while (r == 0 && x->levels.n) {
        struct level *l = &x->levels.p[x->levels.n - 1];
        cut_path(x, l->path_len);
        if (l->at >= l->names.len) {
            dz_buf_release(&l->names);
            (void)dz_vec_pop(&x->levels);
            continue;
        }
        const char *name = l->names.p + l->at;
        size_t len = strlen(name);
        uint64_t ino = 0;
        l->at += len + 1;
        dz_buf_add(&x->path, name, len);
        int sys = dz_vfs_lookup(x->v, l->ino, name, len, &ino);
        r = sys < 0 ? disk_error(x, sys, err) : visit(x, ino, err);
    }
    return r;
}

static void release(struct export *x)
{
    for (size_t i = 0; i < x->levels.n; i++)
        dz_buf_release(&x->levels.p[i].names);
    dz_vec_release(&x->levels);
    DZ_MAP_FOREACH(it, &x->first)
        dz_free(it->value);
    dz_map_release(&x->first);
    dz_buf_release(&x->path);
    dz_buf_release(&x->pax);
    dz_buf_release(&x->head);
    dz_buf_release(&x->target);
    dz_buf_release(&x->map);
    dz_free(x->piece);
    dz_free(x->list);
}

int dz_vfs_tar_out(const struct dz_tar_out *out, struct dz_tar_stats *ret_stats, struct dz_err *err)
{
    static const char end_mark[2 * DZ_TAR_BLOCK];
    struct export x = {
        .out = out,
        .v = out->vfs,
        .path = DZ_BUF_INIT(1 << 20),
        .pax = DZ_BUF_INIT(8 << 20),
        .head = DZ_BUF_INIT(9 << 20),
        .target = DZ_BUF_INIT(DZ_TAR_PATH_MAX),
        .map = DZ_BUF_INIT(16 << 20),
        .levels = DZ_VEC_INIT(DZ_VFS_DEPTH_MAX + 2),
        .piece = dz_alloc(PIECE_BYTES),
        .list = dz_alloc(DZ_VFS_XATTR_LIST_MAX),
    };
    dz_map_init(&x.first, DZ_TAR_MEMBERS_MAX);
    int r = x.piece && x.list ? visit_all(&x, err) : no_memory(err);
    if (r == 0)
        r = emit(&x, end_mark, sizeof end_mark, err);
    if (r == 0)
        r = pad(&x, RECORD_BYTES, err);
    release(&x);
    if (r == 0)
        *ret_stats = x.stats;
    return r;
}
