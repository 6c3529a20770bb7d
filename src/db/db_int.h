/* SPDX-License-Identifier: MIT
 *
 * db_int.h - shared inside src/db only.
 */
#ifndef DZ_DB_DB_INT_H
#define DZ_DB_DB_INT_H

#include "db/db.h"
#include "db/db_disk.h"

#include <sqlite3.h>

enum {
    DB_STMT_BUCKETS = 64, /* a power of two */
    DB_SAVEPOINT_MAX = 32,
    DB_LABEL_MAX = 96,
    DB_NAME_MAX = 32, /* "doze/<id>" as SQLite sees it */
    DB_HEADER_BYTES = 100,
};

struct dz_stmt {
    sqlite3_stmt *st; /* NULL in the one that only tells an error */
    struct dz_db *db;
    const char *sql;
    struct dz_stmt *next;
};

struct dz_blob {
    sqlite3_blob *blob;
    struct dz_db *db;
    size_t size; /* of the value; SQLite forgets it when the handle expires */
    struct dz_blob *next, **link;
};

struct dz_db {
    sqlite3 *h;
    struct dz_db_disk *disk;
    bool own_disk; /* made by dz_db_open_fds or _path */
    bool restricted;
    bool out_of_ops;
    int savepoints;
    int wal_pages;
    int stmt_count;
    int64_t ops_left;
    dz_db_grant_fn *grant;
    void *grant_ctx;
    struct dz_blob *blobs;
    struct dz_stmt *buckets[DB_STMT_BUCKETS];
    struct dz_stmt bad;    /* what dz_db_stmt returns when it cannot compile */
    struct dz_err bad_err; /* and why */
    char label[DB_LABEL_MAX];
};

/* Turn a result code of SQLite into an error of ours, with SQLite's sentence.
 * h may be NULL when there is no connection. */
DZ_COLD int dz_db_fail(const struct dz_db *db, int rc, struct dz_err *err, const char *what);
int dz_db_code(int rc, int sys);

/* db_init.c: SQLite configured and our VFS registered, once per process. */
DZ_NODISCARD int dz_db_init(struct dz_err *err);
void dz_db_set_heap(const sqlite3_mem_methods *heap); /* before; NULL: SQLite's own */

/* db_vfs.c */
int dz_db_vfs_register(void); /* SQLITE_OK or an SQLite error */
void dz_db_vfs_unregister(void);
void dz_db_vfs_add(struct dz_db_disk *disk); /* gives it an id: SQLite may open its name */
void dz_db_vfs_remove(struct dz_db_disk *disk);
void dz_db_vfs_name(const struct dz_db_disk *disk, char name[static DB_NAME_MAX]);

/* db_fd.c. wal_path (copied) is the log's, to be removed when it is done with;
 * NULL: only emptied. wal_new: its directory entry is not on disk yet. */
struct dz_db_disk *dz_db_fd_disk_new(int db_fd, int wal_fd, bool immutable, const char *wal_path,
                                     bool wal_new);
void dz_db_fd_disk_free(struct dz_db_disk *disk, bool close_fds);
int dz_db_fd_disk_fd(const struct dz_db_disk *disk, enum dz_db_file f);

/* db_stmt.c */
void dz_db_stmts_release(struct dz_db *db);
/* db_blob.c */
void dz_db_blobs_release(struct dz_db *db);

#endif
