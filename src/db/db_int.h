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
    WAL_HEADER_BYTES = 32,
    WAL_FRAME_HEADER_BYTES = 24,
};

/* Offsets in the header of an SQLite file (https://www.sqlite.org/fileformat2.html). */
enum {
    DB_HEADER_WRITE_VERSION = 18,
    DB_HEADER_READ_VERSION = 19,
    DB_HEADER_CHANGES = 24, /* counter, pages, free list */
    DB_HEADER_COOKIE = 40,
    DB_HEADER_FORMAT = 44,
    DB_HEADER_USER_VERSION = 60,
    DB_HEADER_APPLICATION_ID = 68,
    DB_HEADER_END = 92, /* then the version of SQLite that wrote it last */
    DB_VERSION_JOURNAL = 1,
    DB_VERSION_WAL = 2,
};

struct dz_stmt {
    sqlite3_stmt *st; /* NULL in dz_db.bad, which only reports an error */
    struct dz_db *db;
    const char *sql;
    struct dz_stmt *next;
};

struct dz_blob {
    sqlite3_blob *blob;
    struct dz_db *db;
    size_t
        size; /* bytes of the value; kept here because SQLite forgets it when the handle expires */
    struct dz_blob *next, **link;
};

struct dz_db {
    sqlite3 *h;
    struct dz_db_disk *disk;
    bool own_disk; /* made by dz_db_open_fds or _path */
    bool restricted, views;
    bool prepared;          /* it uses a stand-in disk, because it has no file yet */
    struct dz_db_opts opts; /* of a prepared handle, without the label */
    bool out_of_ops;
    int savepoints;
    int wal_pages;
    int wal_frames; /* in the log; -1: not known, because nothing was committed since the open */
    bool followed;  /* a follower was seen: if it is gone now, it died */
    int stmt_count;
    int64_t ops_left;
    struct dz_blob *blobs;
    struct dz_stmt *buckets[DB_STMT_BUCKETS];
    struct dz_stmt bad;    /* stands in for a statement that cannot be compiled */
    struct dz_err bad_err; /* the error that it reports */
    char label[DB_LABEL_MAX];
};

/* A number in SQLite's file format (big-endian). */
static inline uint32_t dz_db_big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Turn a result code of SQLite into an error of ours, with SQLite's sentence.
 * h may be NULL when there is no connection. */
DZ_COLD int dz_db_fail(const struct dz_db *db, int rc, struct dz_err *err, const char *what);

/* db_init.c: SQLite configured and our VFS registered, once per process. */
DZ_NODISCARD int dz_db_init(struct dz_err *err);
void dz_db_set_heap(const sqlite3_mem_methods *heap); /* call before; NULL: db_heap.c's */

/* db_heap.c: make SQLite take its small blocks from there, before SQLite starts. SQLITE_OK or an
 * error */
int dz_db_heap_use(void);
/* Allocate from the memory of dz_db_ahead(), aligned to 64 bytes; NULL: none is left. The second
 * call gives a block back: false when p is not part of that memory. */
void *dz_db_lent_alloc(size_t size);
bool dz_db_lent_back(const void *p);

/* db_vfs.c */
int dz_db_vfs_register(void); /* SQLITE_OK or an SQLite error */
void dz_db_vfs_unregister(void);
void dz_db_vfs_add(struct dz_db_disk *disk); /* give the disk an id, so that SQLite can open its
                                              * name */
void dz_db_vfs_remove(struct dz_db_disk *disk);
/* Release what an open file keeps for its next transaction. */
void dz_db_vfs_trim(sqlite3_file *file);
void dz_db_vfs_name(const struct dz_db_disk *disk, char name[static DB_NAME_MAX]);

/* db_files.c: sync the directory entry of a log. */
DZ_NODISCARD int dz_db_sync_entry(const char *wal, struct dz_err *err);

/* db_fd.c. wal_path (copied): the log's path, removed when it is not needed any more; NULL: it is
 * only emptied. wal_new: the log's directory entry is not on the disk yet. */
struct dz_db_disk *dz_db_fd_disk_new(int db_fd, int wal_fd, bool immutable, const char *wal_path,
                                     bool wal_new);
void dz_db_fd_disk_free(struct dz_db_disk *disk, bool close_fds);
int dz_db_fd_disk_fd(const struct dz_db_disk *disk, enum dz_db_file f);
/* A disk that shows these bytes as its main file, read only, until it is given descriptors. */
struct dz_db_disk *dz_db_fd_disk_standin(const void *bytes, size_t size);
void dz_db_fd_disk_set(struct dz_db_disk *disk, int db_fd, int wal_fd);
unsigned char *dz_db_fd_disk_bytes(struct dz_db_disk *disk); /* of a stand-in, also after */

/* db.c: open the database on a disk, which belongs to it from now on if own_disk; on failure the
 * disk's descriptors stay open. */
DZ_NODISCARD int dz_db_open_on(struct dz_db **ret_db, struct dz_db_disk *disk, bool own_disk,
                               const struct dz_db_opts *opts, struct dz_err *err);
/* db_txn.c: compile what begins and ends transactions. */
void dz_db_txn_prepare(struct dz_db *db);
/* db_txn.c: has a follower read all of the log? True if there is none. Waits at most this long. */
bool dz_db_is_copied(struct dz_db *db, int wait_ms);

/* db_stmt.c */
void dz_db_stmts_release(struct dz_db *db);
void dz_db_blobs_release(struct dz_db *db);

#endif
