/* SPDX-License-Identifier: MIT
 *
 * machine_copy.c - copy the rows of a disk into another: all of them (an archive), or the files
 * without /tmp (a clone, an archive of files); and copy a tree of one disk into another (a share).
 *
 * For a copy of files, the inodes with names in /tmp are found first, and the number of those
 * names. An inode without any other name is left out with its content; the link count of the
 * others is lowered. The reader of the copy checks the content.
 */
#include "machine/machine_copy.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "db/db.h"
#include "machine/machine_int.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- one row, all rows of a query -------------------------------------------------------- */

static void bind_column(struct dz_stmt *to, int i, struct dz_stmt *from)
{
    size_t size;
    const void *p;
    switch (dz_col_type(from, i)) {
    case DZ_DB_INT:
        dz_bind_int(to, i + 1, dz_col_int(from, i));
        break;
    case DZ_DB_TEXT:
        dz_bind_text(to, i + 1, dz_col_text(from, i));
        break;
    case DZ_DB_BLOB:
        p = dz_col_blob(from, i, &size);
        dz_bind_blob(to, i + 1, p ? p : "", size);
        break;
    case DZ_DB_REAL:
    case DZ_DB_NULL:
        dz_bind_null(to, i + 1);
        break;
    }
}

int dz_machine_row_copy(struct dz_db *to, struct dz_stmt *from, const char *sql, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(to, sql);
    for (int i = 0; i < dz_col_count(from); i++)
        bind_column(st, i, from);
    return dz_stmt_run(st, err);
}

int dz_machine_rows_copy(struct dz_db *from, const char *query, struct dz_db *to, const char *sql,
                         struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(from, query);
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        rc = dz_machine_row_copy(to, st, sql, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

enum {
    NAMES_MAX = 4000000, /* in /tmp */
    COMMIT_BYTES = 16 << 20,
};

struct in_tmp {
    uint64_t ino;
    int64_t names;
    bool dir;
};
struct clone {
    struct dz_db *from, *to;
    DZ_VEC(, struct in_tmp) found;
    struct dz_map by_ino; /* index in found + 1 */
    struct dz_map is_gone;
    bool image, same; /* same: the copy is the same sandbox, not a new one */
    uint64_t since_commit;
    struct dz_copied *copied;
};

/* --- what is in /tmp ------------------------------------------------------------------- */

static const char tmp_sql[] =
    "WITH RECURSIVE t(ino,type)AS(SELECT 4,4 UNION SELECT d.ino,d.type FROM t JOIN dentry d ON "
    "d.parent=t.ino WHERE t.type=4 AND d.ino>0)"
    "SELECT d.ino,count(*),max(d.type=4)FROM t JOIN dentry d ON d.parent=t.ino WHERE t.type=4 AND "
    "d.ino>0 GROUP BY d.ino";

static int find_tmp(struct clone *c, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(c->from, tmp_sql);
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        struct in_tmp t = {(uint64_t)dz_col_int(st, 0), dz_col_int(st, 1), dz_col_int(st, 2) != 0};
        if (dz_vec_push(&c->found, t) < 0)
            return dz_fail(err, c->found.err, "clone: too many files in /tmp");
    }
    for (size_t i = 0; rc == 0 && i < c->found.n; i++)
        if (dz_map_put64(&c->by_ino, c->found.p[i].ino, &c->found.p[i], NULL) < 0)
            return dz_fail(err, DZ_ENOMEM, "clone: out of memory");
    return rc;
}

static bool below_tmp(const struct clone *c, uint64_t parent)
{
    const struct in_tmp *t = dz_map_get64(&c->by_ino, parent);
    return parent == DZ_VFS_TMP || (t && t->dir);
}

/* --- rows -------------------------------------------------------------------------------- */

/* Commit from time to time, so that the log and the cache of the copy stay small. */
static int breathe(struct clone *c, uint64_t bytes, struct dz_err *err)
{
    c->since_commit += bytes;
    c->copied->bytes += bytes;
    if (c->since_commit < COMMIT_BYTES)
        return 0;
    c->since_commit = 0;
    int rc = dz_db_commit(c->to, err);
    if (rc == 0)
        rc = dz_db_checkpoint(c->to, DZ_DB_CHECKPOINT_MOVE, err);
    return rc < 0 ? rc : dz_db_begin(c->to, err);
}

enum verdict {
    COPY,
    SKIP,
    LESS, /* fewer names */
};

static int forget(struct clone *c, uint64_t ino, struct dz_err *err)
{
    static char here;
    return dz_map_put64(&c->is_gone, ino, &here, NULL) < 0
               ? dz_fail(err, DZ_ENOMEM, "clone: out of memory")
               : 0;
}

static int judge_node(struct clone *c, struct dz_stmt *st, enum verdict *ret, struct dz_err *err)
{
    uint64_t ino = (uint64_t)dz_col_int(st, 0);
    const struct in_tmp *t = dz_map_get64(&c->by_ino, ino);
    int64_t nlink = dz_col_int(st, 4);
    bool gone = nlink <= 0 || (t && (t->dir || t->names >= nlink)) ||
                (ino == DZ_VFS_TMP && c->image); /* then the directory of the image is used again */
    *ret = gone ? SKIP : t || ino == DZ_VFS_TMP ? LESS : COPY;
    return gone ? forget(c, ino, err) : 0;
}

static const char into_node[] =
    "INSERT INTO node(ino,mode,uid,gid,nlink,size,rdev,atime,mtime,ctime,base_size,data)"
    "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)";

static int copy_nodes(struct clone *c, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(c->from, "SELECT ino,mode,uid,gid,nlink,size,rdev,atime,mtime,"
                                             "ctime,base_size,data FROM node");
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        enum verdict v;
        size_t size;
        rc = judge_node(c, st, &v, err);
        if (rc < 0)
            return rc;
        if (v == SKIP)
            continue;
        rc = dz_machine_row_copy(c->to, st, into_node, err);
        if (rc == 0 && v == LESS) {
            uint64_t ino = (uint64_t)dz_col_int(st, 0);
            const struct in_tmp *t = dz_map_get64(&c->by_ino, ino);
            DZ_AUTO(dz_stmt_resetp)
            struct dz_stmt *less = dz_db_stmt(c->to, "UPDATE node SET nlink=?2 WHERE ino=?1");
            dz_bind_int(less, 1, (int64_t)ino);
            dz_bind_int(less, 2, t ? dz_col_int(st, 4) - t->names : 2);
            rc = dz_stmt_run(less, err);
        }
        (void)dz_col_blob(st, 11, &size);
        if (rc == 0)
            rc = breathe(c, size, err);
        if (rc < 0)
            return rc;
        c->copied->nodes++;
    }
    return rc;
}

static int copy_names(struct clone *c, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(c->from, "SELECT parent,name,ino,type FROM dentry");
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        uint64_t parent = (uint64_t)dz_col_int(st, 0);
        if (below_tmp(c, parent) || dz_map_get64(&c->is_gone, parent))
            continue;
        rc = dz_machine_row_copy(
            c->to, st, "INSERT INTO dentry(parent,name,ino,type)VALUES(?1,?2,?3,?4)", err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int copy_content(struct clone *c, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(c->from, "SELECT id,data FROM chunk");
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        size_t size;
        if (dz_map_get64(&c->is_gone, (uint64_t)dz_col_int(st, 0) >> 24))
            continue;
        (void)dz_col_blob(st, 1, &size);
        rc = dz_machine_row_copy(c->to, st, "INSERT INTO chunk(id,data)VALUES(?1,?2)", err);
        if (rc == 0)
            rc = breathe(c, size, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int copy_rest(struct clone *c, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *xattr = dz_db_stmt(c->from, "SELECT ino,name,value FROM xattr");
    int rc;
    while ((rc = dz_stmt_step(xattr, err)) > 0) {
        if (dz_map_get64(&c->is_gone, (uint64_t)dz_col_int(xattr, 0)))
            continue;
        rc = dz_machine_row_copy(c->to, xattr, "INSERT INTO xattr(ino,name,value)VALUES(?1,?2,?3)",
                                 err);
        if (rc < 0)
            return rc;
    }
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *kv = dz_db_stmt(c->from, "SELECT ns,k,v,mtime FROM kv");
    while (rc == 0 && (rc = dz_stmt_step(kv, err)) > 0)
        rc = dz_machine_row_copy(c->to, kv, "INSERT INTO kv(ns,k,v,mtime)VALUES(?1,?2,?3,?4)", err);
    return rc;
}

/* The value 0 for "machine" keeps a wake from resuming the machine that sleeps in the image. */
static int without_machine(struct dz_db *to, struct dz_err *err)
{
    return dz_db_exec(to, "INSERT INTO meta(k,v)VALUES('machine',0)", err);
}

/* `cut` and `untar` note operations that a crash interrupted. They are copied, and whoever opens
 * the copy completes them, as in the source. */
static int copy_meta(struct clone *c, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        c->same
            ? dz_db_stmt(c->from, "SELECT k,v FROM meta WHERE k NOT IN('machine','machine_live',"
                                  "'counters','used_bytes','used_inodes','orphans')")
            : dz_db_stmt(c->from, "SELECT k,v FROM meta WHERE k IN('chunk','image','xattrs',"
                                  "'cut','untar')");
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        c->image |= strcmp(dz_col_text(st, 0), "image") == 0;
        rc = dz_machine_row_copy(
            c->to, st, "INSERT INTO meta(k,v)VALUES(?1,?2)ON CONFLICT(k)DO UPDATE SET v=?2", err);
        if (rc < 0)
            return rc;
    }
    return rc == 0 && c->same ? without_machine(c->to, err) : rc;
}

static int copy_all(struct clone *c, struct dz_err *err)
{
    int rc = find_tmp(c, err);
    if (rc == 0)
        rc = dz_db_exec(c->to,
                        "DELETE FROM node; DELETE FROM dentry; DELETE FROM meta WHERE k IN("
                        "'counters','used_bytes','used_inodes')",
                        err);
    if (rc == 0)
        rc = copy_meta(c, err);
    if (rc == 0)
        rc = copy_nodes(c, err);
    if (rc == 0)
        rc = copy_names(c, err);
    if (rc == 0)
        rc = copy_content(c, err);
    return rc < 0 ? rc : copy_rest(c, err);
}

/* --- the whole sandbox ------------------------------------------------------------------- */

#define ASLEEP " WHERE NOT EXISTS(SELECT 1 FROM meta WHERE k='machine_live'AND v<>0)"

static const struct whole {
    const char *name, *query, *into;
} whole[] = {
    {"meta", "SELECT k,v FROM meta", "INSERT INTO meta(k,v)VALUES(?1,?2)"},
    {"node", "SELECT ino,mode,uid,gid,nlink,size,rdev,atime,mtime,ctime,base_size,data FROM node",
     into_node},
    {"dentry", "SELECT parent,name,ino,type FROM dentry",
     "INSERT INTO dentry(parent,name,ino,type)VALUES(?1,?2,?3,?4)"},
    {"chunk", "SELECT id,data FROM chunk", "INSERT INTO chunk(id,data)VALUES(?1,?2)"},
    {"xattr", "SELECT ino,name,value FROM xattr",
     "INSERT INTO xattr(ino,name,value)VALUES(?1,?2,?3)"},
    {"kv", "SELECT ns,k,v,mtime FROM kv", "INSERT INTO kv(ns,k,v,mtime)VALUES(?1,?2,?3,?4)"},
    {"exec",
     "SELECT number,id,state,code,started,ended,flags,pid,cpu,kill_at,keep,printed,argv,own "
     "FROM exec",
     "INSERT INTO exec(number,id,state,code,started,ended,flags,pid,cpu,kill_at,keep,printed,argv,"
     "own)VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)"},
    {"exec_output", "SELECT id,exec,stream,at,data FROM exec_output",
     "INSERT INTO exec_output(id,exec,stream,at,data)VALUES(?1,?2,?3,?4,?5)"},
    {"machine", "SELECT part,key,value FROM machine" ASLEEP,
     "INSERT INTO machine(part,key,value)VALUES(?1,?2,?3)"},
    {"mem", "SELECT gen,seq,data FROM mem" ASLEEP " ORDER BY gen,seq",
     "INSERT INTO mem(gen,seq,data)VALUES(?1,?2,?3)"},
};

/* Version 1 stored the records of commands in another form; a file that can only be read has not
 * been converted. */
static int query_of(const struct clone *c, const struct whole *t, const char **ret_query,
                    struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(c->from, "PRAGMA user_version");
    int rc = dz_stmt_step(st, err);
    bool old = rc > 0 && dz_col_int(st, 0) == 1 && strcmp(t->name, "exec") == 0;
    *ret_query = old ? dz_vfs_exec_of_1 : t->query;
    return rc < 0 ? rc : 0;
}

static int copy_table(struct clone *c, const struct whole *t, struct dz_err *err)
{
    const char *query = NULL;
    int rc = query_of(c, t, &query, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(c->from, query);
    while ((rc = dz_stmt_step(st, err)) > 0) {
        size_t size = 0;
        int last = dz_col_count(st) - 1;
        if (dz_col_type(st, last) == DZ_DB_BLOB)
            (void)dz_col_blob(st, last, &size);
        rc = dz_machine_row_copy(c->to, st, t->into, err);
        if (rc == 0)
            rc = breathe(c, size, err);
        if (rc < 0)
            return rc;
        c->copied->nodes += strcmp(t->name, "node") == 0;
    }
    return rc;
}

/* A file in which no machine ever slept has no table of memory, and a file from an early version
 * has no tables of records. */
static int copy_whole(struct clone *c, struct dz_err *err)
{
    int rc = dz_db_exec(c->to, "DELETE FROM node; DELETE FROM dentry; DELETE FROM meta", err);
    if (rc == 0)
        rc = dz_db_exec(c->to, dz_vfs_schema_sleeper, err);
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(whole); i++) {
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *has = dz_db_stmt(c->from, "SELECT 1 FROM sqlite_schema WHERE name=?1");
        dz_bind_text(has, 1, whole[i].name);
        rc = dz_stmt_step(has, err);
        if (rc > 0)
            rc = copy_table(c, &whole[i], err);
    }
    return rc;
}

/* --- all --------------------------------------------------------------------------------- */

enum how {
    CLONE,
    FILES,
    WHOLE,
};

static int copy_disk(struct dz_db *from, struct dz_db *to, enum how how,
                     struct dz_copied *ret_copied, struct dz_err *err)
{
    struct dz_copied copied = {0};
    struct clone c = {
        .from = from, .to = to, .same = how == FILES, .found.max = NAMES_MAX, .copied = &copied};
    dz_map_init(&c.by_ino, NAMES_MAX);
    dz_map_init(&c.is_gone, NAMES_MAX);
    int rc = dz_db_begin(to, err);
    if (rc == 0)
        rc = how == WHOLE ? copy_whole(&c, err) : copy_all(&c, err);
    if (rc == 0)
        rc = dz_db_commit(to, err);
    if (rc < 0)
        dz_db_rollback(to);
    dz_vec_release(&c.found);
    dz_map_release(&c.by_ino);
    dz_map_release(&c.is_gone);
    if (rc == 0)
        *ret_copied = copied;
    return rc;
}

int dz_machine_clone(struct dz_db *from, struct dz_db *to, struct dz_copied *ret_copied,
                     struct dz_err *err)
{
    return copy_disk(from, to, CLONE, ret_copied, err);
}

int dz_machine_compact(struct dz_db *from, struct dz_db *to, struct dz_copied *ret_copied,
                       struct dz_err *err)
{
    return copy_disk(from, to, WHOLE, ret_copied, err);
}

int dz_machine_compact_files(struct dz_db *from, struct dz_db *to, struct dz_copied *ret_copied,
                             struct dz_err *err)
{
    return copy_disk(from, to, FILES, ret_copied, err);
}

/* --- a share: a tree through the file system --------------------------------------------- */

/* The copy holds what a guest would see, whether it comes from the sandbox's layer or the image's.
 * Directories that are still to be copied are kept in a list, so a deep tree needs no deep stack. A
 * file with several names is copied once; names outside of the tree do not count. */

enum {
    DIRS_MAX = 4000000,
    LINKS_MAX = 4000000,
    DIR_NAMES_MAX = 256 << 20, /* bytes of all names of one directory */
    STEP = 1 << 20,
    NODE_BYTES = 1024, /* approximate bytes of log for an inode and its name */
};

struct dir {
    uint64_t from, to;
};
struct share {
    struct dz_vfs *from, *to;
    DZ_VEC(, struct dir) dirs;
    DZ_VEC(, uint64_t) made; /* inodes in the copy, by their index in `links` */
    struct dz_map links;     /* inode in the source -> index in `made`, plus 1 */
    struct dz_buf names;     /* entries of a directory: for each name its inode, length, bytes */
    uint8_t *step;
    uint64_t since_commit;
    struct dz_copied copied;
};

/* Commit from time to time, as breathe() does. */
static int breathe_out(struct share *s, uint64_t bytes)
{
    struct dz_err err = {0};
    s->since_commit += bytes;
    if (s->since_commit < COMMIT_BYTES)
        return 0;
    s->since_commit = 0;
    int rc = dz_vfs_maintain(s->to, false, &err);
    return rc >= 0 ? 0 : err.sys ? -err.sys : -EIO;
}

static int failed(const struct share *s, int sys, const char *what, struct dz_err *err)
{
    const char *why = sys == -EIO || sys == -ENOMEM ? dz_vfs_why(s->to) : "";
    return dz_fail_sys(err, -sys, "share: copy %s %s", what, why);
}

/* --- one inode --------------------------------------------------------------------------- */

static int copy_bytes(struct share *s, uint64_t from, uint64_t to, uint64_t size)
{
    uint64_t at = 0;
    while (at < size) {
        uint64_t data = at;
        int e = dz_vfs_seek(s->from, from, at, SEEK_DATA, &data);
        if (e == -ENXIO)
            break; /* a hole to the end */
        if (e)
            return e;
        ssize_t n = dz_vfs_read(s->from, from, data, s->step, STEP);
        ssize_t put = n > 0 ? dz_vfs_write(s->to, to, data, s->step, (size_t)n) : n;
        if (put <= 0)
            return put < 0 ? (int)put : -EIO;
        at = data + (uint64_t)put;
        s->copied.bytes += (uint64_t)put;
        e = breathe_out(s, (uint64_t)put);
        if (e)
            return e;
    }
    struct dz_vfs_attr end = {.size = size};
    return dz_vfs_setattr(s->to, to, DZ_VFS_SET_SIZE, &end);
}

static int copy_xattrs(struct share *s, uint64_t from, uint64_t to)
{
    static char names[DZ_VFS_XATTR_LIST_MAX], value[DZ_VFS_XATTR_MAX];
    ssize_t n = dz_vfs_listxattr(s->from, from, names, sizeof names);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
        ssize_t size = dz_vfs_getxattr(s->from, from, names + at, value, sizeof value);
        int e =
            size < 0 ? (int)size : dz_vfs_setxattr(s->to, to, names + at, value, (size_t)size, 0);
        if (e)
            return e;
    }
    return n < 0 ? (int)n : 0;
}

static int copy_inode(struct share *s, const struct dz_vfs_attr *a, uint64_t parent,
                      const char *name, size_t len, uint64_t *ret_ino)
{
    char target[DZ_VFS_PATH_MAX];
    struct dz_vfs_new spec = {.mode = a->mode, .uid = a->uid, .gid = a->gid, .rdev = a->rdev};
    if (S_ISLNK(a->mode)) {
        int n = dz_vfs_readlink(s->from, a->ino, target, sizeof target);
        if (n < 0)
            return n;
        spec.target = target;
        spec.target_len = (size_t)n;
    }
    if (S_ISDIR(a->mode))
        spec.rdev = 0;
    int e = dz_vfs_create(s->to, parent, name, len, &spec, ret_ino);
    if (!e && S_ISREG(a->mode))
        e = copy_bytes(s, a->ino, *ret_ino, a->size);
    if (!e)
        e = copy_xattrs(s, a->ino, *ret_ino);
    if (!e)
        e = dz_vfs_setattr(s->to, *ret_ino, DZ_VFS_SET_ATIME | DZ_VFS_SET_MTIME, a);
    s->copied.nodes += !e;
    return e ? e : breathe_out(s, NODE_BYTES);
}

/* --- names ----------------------------------------------------------------------------------- */

static int remember(struct share *s, uint64_t from, uint64_t to)
{
    if (dz_vec_push(&s->made, to) < 0)
        return -ENOMEM;
    uintptr_t number = s->made.n;
    return dz_map_put64(&s->links, from, (void *)number, NULL) < 0 ? -ENOMEM : 0;
}

static int copy_name(struct share *s, uint64_t ino, uint64_t parent, const char *name, size_t len)
{
    struct dz_vfs_attr a;
    uint64_t to = 0;
    uintptr_t known = (uintptr_t)dz_map_get64(&s->links, ino);
    if (known)
        return dz_vfs_link(s->to, s->made.p[known - 1], parent, name, len);
    int e = dz_vfs_getattr(s->from, ino, &a);
    if (!e)
        e = copy_inode(s, &a, parent, name, len, &to);
    if (!e && !S_ISDIR(a.mode) && a.nlink > 1)
        e = remember(s, ino, to);
    if (!e && S_ISDIR(a.mode) && dz_vec_push(&s->dirs, ((struct dir){ino, to})) < 0)
        e = -ENOMEM;
    return e;
}

struct entry {
    uint64_t ino;
    size_t len;
};

static int on_entry(void *arg, const struct dz_vfs_entry *e)
{
    struct share *s = arg;
    struct entry head = {e->ino, e->len};
    if ((e->len == 1 && e->name[0] == '.') || (e->len == 2 && memcmp(e->name, "..", 2) == 0))
        return 0;
    dz_buf_add(&s->names, &head, sizeof head);
    dz_buf_add(&s->names, e->name, e->len);
    return 0;
}

static int copy_dir(struct share *s, struct dir d, struct dz_err *err)
{
    struct dz_vfs_attr a;
    dz_buf_reset(&s->names);
    int e = dz_vfs_readdir(s->from, d.from, 0, on_entry, s);
    if (!e && s->names.err)
        e = -ENOMEM;
    for (size_t at = 0; !e && at < s->names.len;) {
        struct entry head;
        memcpy(&head, s->names.p + at, sizeof head);
        at += sizeof head;
        e = copy_name(s, head.ino, d.to, s->names.p + at, head.len);
        at += head.len;
    }
    if (!e) /* making names in the directory has changed its time, so set it now */
        e = dz_vfs_getattr(s->from, d.from, &a);
    if (!e)
        e = dz_vfs_setattr(s->to, d.to,
                           DZ_VFS_SET_ATIME | DZ_VFS_SET_MTIME | DZ_VFS_SET_MODE | DZ_VFS_SET_UID |
                               DZ_VFS_SET_GID,
                           &a);
    return e ? failed(s, e, "a directory", err) : 0;
}

int dz_machine_share(struct dz_vfs *from, struct dz_vfs *to, struct dz_copied *ret_copied,
                     struct dz_err *err)
{
    struct share s = {.from = from,
                      .to = to,
                      .dirs.max = DIRS_MAX,
                      .made.max = LINKS_MAX,
                      .names = DZ_BUF_INIT(DIR_NAMES_MAX),
                      .step = dz_alloc(STEP)};
    int rc = s.step && dz_vec_push(&s.dirs, ((struct dir){DZ_VFS_WORKSPACE, DZ_VFS_WORKSPACE})) == 0
                 ? 0
                 : dz_fail(err, DZ_ENOMEM, "share: out of memory");
    dz_map_init(&s.links, LINKS_MAX);
    while (rc == 0 && s.dirs.n)
        rc = copy_dir(&s, dz_vec_pop(&s.dirs), err);
    if (rc == 0)
        rc = dz_vfs_commit(to, err);
    dz_map_release(&s.links);
    dz_vec_release(&s.dirs);
    dz_vec_release(&s.made);
    dz_buf_release(&s.names);
    dz_free(s.step);
    if (rc == 0)
        *ret_copied = s.copied;
    return rc;
}
