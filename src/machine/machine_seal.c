/* SPDX-License-Identifier: MIT
 *
 * machine_seal.c - a sandbox and the image below it as one file that stands on none, its
 * sleeping machine included: an image for others.
 *
 * Rows of the sandbox first, then those of the image that it does not replace
 * (docs/format/disk.md, "The image below"). Numbers of inodes stay, for the machine
 * names them. What nothing leads to any more is left out at the end, but for
 * files without a name that the machine has open.
 */
#include "machine/machine_copy.h"

#include "db/db.h"
#include "machine/machine_rows.h"
#include "vfs/vfs.h"

#include <string.h>

#define NODE_COLUMNS "ino,mode,uid,gid,nlink,size,rdev,atime,mtime,ctime,base_size,data"
#define INTO_NODE    "INSERT INTO node(" NODE_COLUMNS ")VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)"

/* Does the row that `st` stands on have a key that `to` has already? */
static int has(struct dz_db *to, struct dz_stmt *st, const char *sql, int keys, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *q = dz_db_stmt(to, sql);
    for (int i = 0; i < keys; i++) {
        size_t size;
        const void *p = NULL;
        if (dz_col_type(st, i) == DZ_DB_BLOB)
            p = dz_col_blob(st, i, &size);
        if (p)
            dz_bind_blob(q, i + 1, p, size);
        else
            dz_bind_int(q, i + 1, dz_col_int(st, i));
    }
    return dz_stmt_step(q, err);
}

struct table {
    const char *query, *has, *into;
    int keys;
};
static const struct table below[] = {
    {"SELECT " NODE_COLUMNS " FROM node", "SELECT 1 FROM node WHERE ino=?1", INTO_NODE, 1},
    {"SELECT parent,name,ino,type FROM dentry", "SELECT 1 FROM dentry WHERE parent=?1 AND name=?2",
     "INSERT INTO dentry(parent,name,ino,type)VALUES(?1,?2,?3,?4)", 2},
    {"SELECT ino,name,value FROM xattr", "SELECT 1 FROM xattr WHERE ino=?1 AND name=?2",
     "INSERT INTO xattr(ino,name,value)VALUES(?1,?2,?3)", 2},
};

static int copy_below(struct dz_db *image, struct dz_db *to, struct dz_err *err)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(below); i++) {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(image, below[i].query);
        int rc;
        while ((rc = dz_stmt_step(st, err)) > 0) {
            rc = has(to, st, below[i].has, below[i].keys, err);
            if (rc == 0)
                rc = dz_machine_row_copy(to, st, below[i].into, err);
            if (rc < 0)
                return rc;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* How many bytes of this inode may come from the image; negative: none do. */
static int from_image(struct dz_db *to, int64_t ino, int64_t *ret_limit, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(to, "SELECT base_size,data IS NULL FROM node WHERE ino=?1");
    dz_bind_int(st, 1, ino);
    int rc = dz_stmt_step(st, err);
    *ret_limit = rc > 0 && dz_col_int(st, 1) ? dz_col_int(st, 0) : -1;
    return rc < 0 ? rc : 0;
}

static int copy_content_below(struct dz_db *image, struct dz_db *to, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(image, "SELECT id,data FROM chunk");
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        int64_t id = dz_col_int(st, 0), limit;
        size_t size;
        const void *p = dz_col_blob(st, 1, &size);
        rc = from_image(to, id >> 24, &limit, err);
        limit -= (id & 0xffffff) * DZ_VFS_CHUNK;
        if (rc == 0 && limit > 0)
            rc = has(to, st, "SELECT 1 FROM chunk WHERE id=?1", 1, err);
        else if (rc == 0)
            continue;
        if (rc < 0)
            return rc;
        if (rc > 0)
            continue;
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *in = dz_db_stmt(to, "INSERT INTO chunk(id,data)VALUES(?1,?2)");
        dz_bind_int(in, 1, id);
        dz_bind_blob(in, 2, p ? p : "", size < (size_t)limit ? size : (size_t)limit);
        rc = dz_stmt_run(in, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static const struct {
    const char *query, *into;
} above[] = {
    {"SELECT " NODE_COLUMNS " FROM node", INTO_NODE},
    {"SELECT parent,name,ino,type FROM dentry",
     "INSERT INTO dentry(parent,name,ino,type)VALUES(?1,?2,?3,?4)"},
    {"SELECT id,data FROM chunk", "INSERT INTO chunk(id,data)VALUES(?1,?2)"},
    {"SELECT ino,name,value FROM xattr", "INSERT INTO xattr(ino,name,value)VALUES(?1,?2,?3)"},
    {"SELECT ns,k,v,mtime FROM kv", "INSERT INTO kv(ns,k,v,mtime)VALUES(?1,?2,?3,?4)"},
    {"SELECT k,v FROM meta WHERE k IN('chunk','seed','xattrs','orphans','machine','machine_live')",
     "INSERT INTO meta(k,v)VALUES(?1,?2)ON CONFLICT(k)DO UPDATE SET v=?2"},
};

/* The image's own rows say how much of a file is theirs by its size. */
static const char whole_below[] =
    "UPDATE node SET base_size=size WHERE base_size=0 AND data IS NULL AND mode>>12=8 AND ino NOT IN"
    "(SELECT ino FROM temp.own)";
static const char tidy[] =
    "DELETE FROM dentry WHERE ino=0;"
    "DELETE FROM dentry WHERE parent NOT IN(SELECT ino FROM node);"
    "DELETE FROM node WHERE nlink>0 AND ino<>1 AND ino NOT IN(SELECT ino FROM dentry);"
    "DELETE FROM dentry WHERE parent NOT IN(SELECT ino FROM node);"
    "DELETE FROM chunk WHERE length(data)=0 OR id>>24 NOT IN(SELECT ino FROM node WHERE data IS NULL);"
    "DELETE FROM xattr WHERE value IS NULL OR ino NOT IN(SELECT ino FROM node);"
    "INSERT INTO meta(k,v)SELECT 'xattrs',1 WHERE EXISTS(SELECT 1 FROM xattr)"
    " ON CONFLICT(k)DO UPDATE SET v=1;"
    "UPDATE node SET base_size=0;"
    "DROP TABLE temp.own";

/* Rows as they are, unless they stand on the image's. A file in which nothing ever slept
 * has no table of memory. */
static int copy_machine(struct dz_db *from, struct dz_db *image, struct dz_db *to,
                        struct dz_err *err)
{
    int merged = dz_machine_merge(from, image, to, err);
    if (merged != 0)
        return merged < 0 ? merged : 0;
    int done = dz_machine_rows_copy(from, "SELECT part,key,value FROM machine", to,
                                    "INSERT INTO machine(part,key,value)VALUES(?1,?2,?3)", err);
    if (done < 0)
        return done;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(from, "SELECT 1 FROM sqlite_schema WHERE name='mem'");
    int rc = dz_stmt_step(st, err);
    return rc <= 0 ? rc
                   : dz_machine_rows_copy(from, "SELECT gen,seq,data FROM mem", to,
                                          "INSERT INTO mem(gen,seq,data)VALUES(?1,?2,?3)", err);
}

static int seal(struct dz_db *from, struct dz_db *image, struct dz_db *to, struct dz_err *err)
{
    int rc = dz_db_exec(to, dz_vfs_schema_mem, err);
    if (rc == 0)
        rc = dz_db_exec(to,
                        "DELETE FROM node; DELETE FROM dentry; DELETE FROM meta WHERE k IN("
                        "'counters','used_bytes','used_inodes');"
                        "CREATE TEMP TABLE own(ino INTEGER PRIMARY KEY)",
                        err);
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(above); i++)
        rc = dz_machine_rows_copy(from, above[i].query, to, above[i].into, err);
    if (rc == 0)
        rc = copy_machine(from, image, to, err);
    if (rc == 0)
        rc = dz_db_exec(to, "INSERT INTO temp.own SELECT ino FROM node", err);
    if (rc == 0 && image)
        rc = copy_below(image, to, err);
    if (rc == 0 && image)
        rc = dz_db_exec(to, whole_below, err);
    if (rc == 0 && image)
        rc = copy_content_below(image, to, err);
    return rc < 0 ? rc : dz_db_exec(to, tidy, err);
}

int dz_machine_seal(struct dz_db *from, struct dz_db *image, struct dz_db *to, struct dz_err *err)
{
    int rc = dz_db_begin(to, err);
    if (rc == 0)
        rc = seal(from, image, to, err);
    if (rc == 0)
        rc = dz_db_commit(to, err);
    if (rc < 0)
        dz_db_rollback(to);
    return rc;
}
