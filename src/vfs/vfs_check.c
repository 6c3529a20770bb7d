/* SPDX-License-Identifier: MIT
 *
 * vfs_check.c - check a whole disk against docs/format/disk.md.
 *
 * Two passes. First the tree as a guest sees it, image and all: every directory
 * from the root, one by one, counting in a map how many names and subdirectories
 * each inode has; then each inode of the map against its row. Second the rows of this file, table
 * by table: the rows that they refer to must exist, and their sizes must fit. The invariants'
 * numbers (I1...) are those of the document.
 *
 * Damage is a finding, not an error: only a failure of the check itself (I/O, memory) is one.
 */
#include "vfs/vfs_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

enum {
    REPORT_MAX = 1000
};

/* The walk's counts for one inode, packed into a map's value. */
struct seen {
    uint32_t names;
    uint32_t subdirs : 28;
    uint32_t type : 4;
};
_Static_assert(sizeof(struct seen) == sizeof(uint64_t), "a map's value");

struct visit {
    uint64_t ino, parent;
};

struct check {
    const struct dz_vfs_check_opts *o;
    struct dz_vfs *v;
    struct dz_map seen;
    struct visit *queue;
    size_t head, tail, cap;
    uint64_t dir; /* being scanned */
    uint64_t findings, done, total, packed;
    int rc; /* of a callback, -errno */
    struct dz_err *err;
    uint8_t chunk[DZ_VFS_CHUNK];
};

DZ_PRINTF(4, 5)
static void damage(struct check *c, const char *what, uint64_t ino, const char *fmt, ...)
{
    struct dz_vfs_damage d = {.what = what, .ino = ino};
    va_list ap;
    if (++c->findings > REPORT_MAX || !c->o->damage)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(d.text, sizeof d.text, fmt, ap);
    va_end(ap);
    c->o->damage(c->o->arg, &d);
}

static unsigned long long llu(uint64_t n)
{
    return n;
}

/* A read failed: report it if the cause is damage, else end the check. */
static int trouble(struct check *c, const char *what, int r)
{
    if (r != DZ_ECORRUPT && r != DZ_EINVAL)
        return r;
    damage(c, "sqlite", 0, "%s: %s", what, c->err ? c->err->msg : dz_err_text(r));
    return 0;
}

static void progress(struct check *c)
{
    if (++c->done % 1024 == 0 && c->o->progress)
        c->o->progress(c->o->arg, c->done, c->total > c->done ? c->total : c->done);
}

/* ---- the walk -------------------------------------------------------------------------- */

static struct seen seen_get(const struct check *c, uint64_t ino)
{
    void *p = dz_map_get64(&c->seen, ino);
    struct seen s;
    memcpy(&s, &p, sizeof s);
    return s;
}

static int seen_put(struct check *c, uint64_t ino, struct seen s)
{
    void *p;
    memcpy(&p, &s, sizeof p);
    return dz_map_put64(&c->seen, ino, p, NULL) < 0 ? -ENOMEM : 0;
}

static int enqueue(struct check *c, uint64_t ino, uint64_t parent)
{
    if (c->tail == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 64;
        struct visit *p = dz_realloc(c->queue, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        c->queue = p;
        c->cap = cap;
    }
    c->queue[c->tail++] = (struct visit){ino, parent};
    return 0;
}

static int count_name(void *arg, const struct dz_vfs_entry *e)
{
    struct check *c = arg;
    struct seen s = seen_get(c, e->ino);
    uint32_t type = e->type >> 12;
    progress(c);
    if (dz_name_check(e->name, e->len))
        damage(c, "dentry", e->ino, "directory %llu holds an invalid name", llu(c->dir));
    if (s.names && s.type != type) /* I4 */
        damage(c, "dentry", e->ino, "the names of inode %llu disagree about its type", llu(e->ino));
    if (s.names && type == S_IFDIR >> 12) { /* I3 */
        damage(c, "cycle", e->ino, "directory %llu has a second name in directory %llu",
               llu(e->ino), llu(c->dir));
        return 0;
    }
    s.names++;
    s.type = type & 15;
    int rc = seen_put(c, e->ino, s);
    if (!rc && type == S_IFDIR >> 12) {
        struct seen up = seen_get(c, c->dir);
        up.subdirs++;
        rc = seen_put(c, c->dir, up);
        if (!rc)
            rc = enqueue(c, e->ino, c->dir);
    }
    c->rc = rc;
    return rc;
}

static int visit_dir(struct check *c, const struct visit *at)
{
    struct dz_inode *dir;
    int rc = dz_read_begin(c->v);
    if (!rc)
        rc = dz_iget(c->v, at->ino, &dir);
    if (rc == -ENOENT || rc == -EIO || (!rc && !dz_is_dir(dir)))
        return 0; /* reported when the map is read through */
    if (rc)
        return rc;
    if (dir->rdev != at->parent) /* I5 */
        damage(c, "parent", at->ino,
               "directory %llu lies in %llu, but its row names the parent %llu", llu(at->ino),
               llu(at->parent), llu(dir->rdev));
    c->dir = at->ino;
    rc = dz_dir_scan(c->v, dir, NULL, 0, count_name, c);
    if (rc == -EIO && !c->rc) {
        damage(c, "sqlite", at->ino, "directory %llu cannot be read: %s", llu(at->ino),
               dz_vfs_why(c->v));
        rc = 0;
    }
    return rc;
}

static int check_seen(struct check *c, uint64_t ino, struct seen s)
{
    struct dz_inode *ip;
    int rc = dz_read_begin(c->v);
    if (!rc)
        rc = dz_iget(c->v, ino, &ip);
    if (rc == -ENOENT) { /* I2 */
        damage(c, "dentry", ino, "%u names lead to inode %llu, which does not exist", s.names,
               llu(ino));
        return 0;
    }
    if (rc == -EIO) {
        damage(c, "node", ino, "inode %llu: %s", llu(ino), dz_vfs_why(c->v));
        return 0;
    }
    if (rc)
        return rc;
    if (ip->mode >> 12 != s.type)
        damage(c, "dentry", ino, "inode %llu has the type %u, but its names have the type %u",
               llu(ino), ip->mode >> 12, (unsigned)s.type);
    uint32_t want = dz_is_dir(ip) ? 2u + s.subdirs : s.names;
    if (ip->nlink != want) /* I6 */
        damage(c, "nlink", ino, "inode %llu records %u links, but there are %u", llu(ino),
               ip->nlink, want);
    return 0;
}

static int walk_tree(struct check *c)
{
    struct seen root = {.names = 1, .type = S_IFDIR >> 12};
    int rc = seen_put(c, DZ_VFS_ROOT, root);
    if (!rc)
        rc = enqueue(c, DZ_VFS_ROOT, DZ_VFS_ROOT);
    while (!rc && c->head < c->tail) {
        struct visit at = c->queue[c->head++];
        rc = visit_dir(c, &at);
    }
    if (rc)
        return rc;
    DZ_MAP_FOREACH(it, &c->seen) {
        struct seen s;
        memcpy(&s, &it->value, sizeof s);
        rc = check_seen(c, it->n, s);
        if (rc)
            return rc;
    }
    for (uint64_t ino = DZ_VFS_ROOT; ino <= DZ_VFS_TMP; ino++)
        if (seen_get(c, ino).type != S_IFDIR >> 12) /* I1 */
            damage(c, "root", ino, "the fixed directory %llu is missing", llu(ino));
    return 0;
}

/* ---- the rows ---------------------------------------------------------------------------- */

typedef int row_fn(struct check *c, struct dz_stmt *st);

static int each_row(struct check *c, const char *what, const char *sql, row_fn *fn)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(c->o->db, sql);
    int r;
    while ((r = dz_stmt_step(st, c->err)) > 0) {
        progress(c);
        int rc = fn(c, st);
        if (rc)
            return dz_fail(c->err, rc == -ENOMEM ? DZ_ENOMEM : DZ_EIO, "check %s: %s", what,
                           dz_vfs_why(c->v));
    }
    return r < 0 ? trouble(c, what, r) : 0;
}

/* The inode of a row, NULL (and *ret_rc 0) when it does not exist. */
static struct dz_inode *inode_of(struct check *c, uint64_t ino, int *ret_rc)
{
    struct dz_inode *ip = NULL;
    *ret_rc = dz_read_begin(c->v);
    if (!*ret_rc)
        *ret_rc = dz_iget(c->v, ino, &ip);
    if (*ret_rc == -ENOENT || *ret_rc == -EIO)
        *ret_rc = 0;
    return ip;
}

/* I17: a file's place in the pack. A place outside the pack needs no check here, because reading
 * the inode has failed already. */
static int check_packed(struct check *c, const struct dz_inode *ip)
{
    int64_t below = -1;
    if (!c->o->image) {
        c->packed += ip->rdev ? ip->size : 0;
        if (!ip->rdev)
            return 0;
        if (ip->data)
            damage(c, "pack", ip->ino, "inode %llu has its content in its row and in the pack",
                   llu(ip->ino));
        return 0;
    }
    if (!ip->here || !ip->below || (!c->v->pack.at && !c->v->pack_unknown))
        return 0;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(c->o->image, "SELECT rdev FROM node WHERE ino=?1");
    dz_bind_int(st, 1, (int64_t)ip->ino);
    int r = dz_stmt_step(st, c->err);
    if (r > 0)
        below = dz_col_int(st, 0);
    if (r >= 0 && below != (int64_t)ip->rdev)
        damage(c, "pack", ip->ino, "inode %llu is elsewhere in the pack than the image says",
               llu(ip->ino));
    return r < 0 ? -EIO : 0;
}

static int check_node(struct check *c, struct dz_stmt *st)
{
    uint64_t ino = (uint64_t)dz_col_int(st, 0);
    uint32_t nlink = (uint32_t)dz_col_int(st, 1);
    bool reached = seen_get(c, ino).names > 0;
    struct dz_inode *ip;
    int rc = dz_read_begin(c->v);
    if (!rc)
        rc = dz_iget(c->v, ino, &ip);
    if (rc == -EIO || rc == -ENOENT) /* I7 */
        damage(c, "node", ino, "inode %llu: %s", llu(ino), dz_vfs_why(c->v));
    if (!reached && nlink > 0) /* I8 */
        damage(c, "orphan", ino, "inode %llu records %u links, but no name leads to it", llu(ino),
               nlink);
    if (!reached && nlink == 0 && !c->v->orphans_noted)
        damage(c, "orphan", ino,
               "inode %llu has no name and is not recorded as unlinked while open", llu(ino));
    if (!rc && S_ISREG(ip->mode))
        rc = check_packed(c, ip);
    return rc == -EIO || rc == -ENOENT ? 0 : rc;
}

static int check_dentry(struct check *c, struct dz_stmt *st)
{
    uint64_t parent = (uint64_t)dz_col_int(st, 0), ino = (uint64_t)dz_col_int(st, 1);
    int rc;
    struct dz_inode *ip = inode_of(c, parent, &rc);
    if (rc)
        return rc;
    if (!ip || !dz_is_dir(ip)) { /* I9 */
        damage(c, "dentry", parent, "a name lies in inode %llu, which is not a directory",
               llu(parent));
        return 0;
    }
    if (seen_get(c, parent).names == 0 && ip->nlink > 0)
        damage(c, "dentry", parent, "a name lies in directory %llu, which has no name itself",
               llu(parent));
    if (ip->nlink == 0 && ino != 0)
        damage(c, "dentry", parent, "the removed directory %llu holds a name", llu(parent));
    if (!dz_col_int(st, 2)) /* the size is compared as text, so it is never found */
        damage(c, "dentry", parent, "a name in directory %llu is not a blob", llu(parent));
    if (ino == 0 && !ip->below) /* I10 */
        damage(c, "dentry", parent, "a whiteout in directory %llu hides nothing", llu(parent));
    return 0;
}

/* Bytes at and after the file's end must be zero, because a growing file relies on that. */
static int check_tail(struct check *c, const struct dz_inode *ip, uint64_t index, size_t len)
{
    DZ_AUTO(dz_blob_closep) struct dz_blob *b = NULL;
    size_t in = (size_t)(ip->size - index * DZ_VFS_CHUNK);
    uint8_t *p = c->chunk;
    const struct dz_blob_at at = {
        .table = "chunk", .column = "data", .rowid = (int64_t)dz_chunk_id(ip->ino, index)};
    if (ip->size >= index * DZ_VFS_CHUNK + len)
        return 0;
    int r = dz_blob_open(c->o->db, &at, &b, c->err);
    if (!r)
        r = dz_blob_read(b, p, len - in, in, c->err);
    if (r < 0)
        return trouble(c, "chunk", r) ? -EIO : 0;
    for (size_t i = 0; i < len - in; i++) {
        if (p[i]) {
            damage(c, "chunk", ip->ino, "inode %llu has bytes after its end", llu(ip->ino));
            break;
        }
    }
    return 0;
}

static int check_chunk(struct check *c, struct dz_stmt *st)
{
    uint64_t id = (uint64_t)dz_col_int(st, 0), index = id & ((1u << DZ_VFS_CHUNK_BITS) - 1);
    uint64_t ino = id >> DZ_VFS_CHUNK_BITS;
    int64_t len = dz_col_int(st, 1);
    int rc;
    struct dz_inode *ip = inode_of(c, ino, &rc);
    if (rc)
        return rc;
    if (ip && id >= c->v->cut && ino == c->v->cut >> DZ_VFS_CHUNK_BITS &&
        dz_cut_fits(ip, c->v->cut))
        return 0; /* the next open removes it */
    if (dz_col_int(st, 0) < 0 || !ip || !ip->here || !S_ISREG(ip->mode)) /* I11 */
        damage(c, "chunk", ino,
               "chunk %llu belongs to inode %llu, which is not a file of this disk", llu(index),
               llu(ino));
    else if (ip->data)
        damage(c, "chunk", ino, "inode %llu has its content both in its row and in chunks",
               llu(ino));
    else if (!c->o->image && ip->rdev && S_ISREG(ip->mode)) /* I17 */
        damage(c, "chunk", ino, "inode %llu has its content in the pack and chunks besides",
               llu(ino));
    else if (index * DZ_VFS_CHUNK >= ip->size) /* I12 */
        damage(c, "chunk", ino, "chunk %llu lies after the end of inode %llu (%llu bytes)",
               llu(index), llu(ino), llu(ip->size));
    else if (len < 0 || len > DZ_VFS_CHUNK || dz_col_type(st, 2) != DZ_DB_TEXT ||
             strcmp(dz_col_text(st, 2), "blob") != 0)
        damage(c, "chunk", ino, "chunk %llu of inode %llu is not a blob of at most %d bytes",
               llu(index), llu(ino), DZ_VFS_CHUNK);
    else
        return check_tail(c, ip, index, (size_t)len);
    return 0;
}

static int check_xattr(struct check *c, struct dz_stmt *st)
{
    uint64_t ino = (uint64_t)dz_col_int(st, 0);
    int rc;
    struct dz_inode *ip = inode_of(c, ino, &rc);
    if (rc)
        return rc;
    if (!ip || !ip->here) /* I13 */
        damage(c, "xattr", ino, "an attribute belongs to inode %llu, which is not on this disk",
               llu(ino));
    else if (!c->v->xattrs_noted)
        damage(c, "xattr", ino,
               "there are attributes, but the disk does not record that it has any");
    else if (dz_col_int(st, 1) > DZ_VFS_NAME_MAX || dz_col_int(st, 1) < 1 ||
             dz_col_int(st, 2) > DZ_VFS_XATTR_MAX)
        damage(c, "xattr", ino, "an attribute of inode %llu is too long", llu(ino));
    return 0;
}

static int check_notes(struct check *c)
{
    int rc = 0;
    struct dz_inode *ip = c->v->cut ? inode_of(c, c->v->cut >> DZ_VFS_CHUNK_BITS, &rc) : NULL;
    if (c->v->cut && !rc && (!ip || !dz_cut_fits(ip, c->v->cut))) /* I15 */
        damage(c, "cut", c->v->cut >> DZ_VFS_CHUNK_BITS,
               "an unfinished truncation is recorded from chunk id %llu on, which belongs to no "
               "file",
               llu(c->v->cut));
    if (c->v->untar && !dz_tar_note_fits(c->v, c->v->untar)) /* I16 */
        damage(c, "untar", 0,
               "an unfinished import into inode %lld is recorded, which is not a staging directory",
               (long long)c->v->untar);
    return rc ? dz_fail(c->err, DZ_EIO, "check the record of a truncation: %s", dz_vfs_why(c->v))
              : 0;
}

static int check_counters(struct check *c)
{
    int64_t bytes = 0, inodes = 0;
    if (!c->o->image && c->packed != c->v->packed_bytes) /* I17 */
        damage(c, "pack", 0, "noted are %llu bytes in the pack, the files there have %llu",
               llu(c->v->packed_bytes), llu(c->packed));
    if (!c->v->counters_noted)
        return 0;
    int r = dz_vfs_count(c->o->db, &bytes, &inodes, c->err);
    if (r < 0)
        return trouble(c, "counters", r);
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(c->o->db, "SELECT(SELECT v FROM meta WHERE k='used_bytes'),"
                                              "(SELECT v FROM meta WHERE k='used_inodes')");
    r = dz_stmt_step(st, c->err);
    if (r < 0)
        return trouble(c, "counters", r);
    if (bytes != dz_col_int(st, 0) || inodes != dz_col_int(st, 1)) /* I14 */
        damage(c, "counters", 0,
               "the disk records %lld bytes in %lld inodes, but there are %lld in %lld",
               (long long)dz_col_int(st, 0), (long long)dz_col_int(st, 1), (long long)bytes,
               (long long)inodes);
    return 0;
}

static int check_sqlite(struct check *c)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(c->o->db, "PRAGMA integrity_check");
    int r;
    while ((r = dz_stmt_step(st, c->err)) > 0) {
        const char *text = dz_col_text(st, 0);
        if (strcmp(text, "ok") != 0)
            damage(c, "sqlite", 0, "%.200s", text);
    }
    return r < 0 ? trouble(c, "integrity_check", r) : 0;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int check_rows(struct check *c)
{
    static const struct {
        const char *what, *sql;
        row_fn *fn;
    } tables[] = {
        {"node", "SELECT ino,nlink FROM node", check_node},
        {"dentry", "SELECT parent,ino,typeof(name)='blob' FROM dentry", check_dentry},
        {"chunk", "SELECT id,length(data),typeof(data)FROM chunk", check_chunk},
        {"xattr", "SELECT ino,length(name),length(value)FROM xattr", check_xattr},
    };
    int r = 0;
    for (size_t i = 0; !r && i < DZ_ARRAY_LEN(tables); i++)
        r = each_row(c, tables[i].what, tables[i].sql, tables[i].fn);
    return r;
}

static int check_open(struct check *c)
{
    struct dz_vfs_opts opts = {
        .db = c->o->db, .image = c->o->image, .pack = c->o->pack, .readonly = true, .as_is = true};
    char sha[65] = "";
    if (c->o->image) { /* whether it is the right image is for the opener to check */
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *st = dz_db_stmt(c->o->db, "SELECT v FROM meta WHERE k='image'");
        if (dz_stmt_step(st, NULL) > 0)
            (void)snprintf(sha, sizeof sha, "%s", dz_col_text(st, 0));
    }
    opts.image_sha256 = sha;
    int r = dz_vfs_open(&opts, &c->v, c->err);
    if (r == DZ_ECORRUPT || r == DZ_EINVAL)
        damage(c, "disk", 0, "%s", c->err ? c->err->msg : dz_err_text(r));
    return r;
}

int dz_vfs_check(const struct dz_vfs_check_opts *opts, uint64_t *ret_count, struct dz_err *err)
{
    struct dz_err own = {0};
    struct check c = {.o = opts, .err = err ? err : &own};
    dz_map_init(&c.seen, SIZE_MAX / sizeof(struct dz_map_entry));
    int r = opts->quick ? 0 : check_sqlite(&c);
    if (!r) {
        r = check_open(&c);
        if (r == DZ_ECORRUPT || r == DZ_EINVAL) { /* nothing more can be said */
            *ret_count = c.findings;
            return 0;
        }
    }
    if (!r)
        c.total = (uint64_t)c.v->used_inodes * 2;
    int rc = r ? 0 : walk_tree(&c);
    if (rc)
        r = dz_fail(c.err, rc == -ENOMEM ? DZ_ENOMEM : DZ_EIO, "check the tree: %s",
                    dz_vfs_why(c.v));
    if (!r)
        r = check_rows(&c);
    if (!r)
        r = check_notes(&c);
    if (!r)
        r = check_counters(&c);
    dz_vfs_abandon(c.v);
    dz_map_release(&c.seen);
    dz_free(c.queue);
    if (!r)
        *ret_count = c.findings;
    return r;
}
