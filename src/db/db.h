/* SPDX-License-Identifier: MIT
 *
 * db.h - one SQLite database, opened one way.
 *
 * Every database of doze is opened by the same profile: one connection, held
 * exclusively (no -shm file, standard SQLite locks on the database file, so
 * that a stranger's sqlite3 says "database is locked"), in WAL mode, with our
 * own checkpoint policy, a small page cache and a read-only mapping of the
 * file. Nothing below needs a path: a database is two open descriptors, the
 * file and its log, and using them takes no system call that names a file.
 *
 *     statements, values      db_stmt.c     dz_db_stmt(), dz_blob_open()
 *     transactions            db_txn.c      dz_db_begin(), dz_db_checkpoint()
 *     SQLite                  db_init.c     configured once; small blocks by db_heap.c
 *     one VFS                 db_vfs.c      gathers the log's frames, maps the file
 *     a disk: two files       db_fd.c       descriptors; db_sim.c: memory that fails, for tests
 *
 * A handle belongs to one thread at a time. Everything reached through it
 * (statements, blobs) dies with it. All integers are host order, all sizes
 * bytes. Errors: negative DZ_E* with a sentence in err (which may be NULL):
 *   DZ_EBUSY     somebody else has the file open
 *   DZ_ECORRUPT  not a database, or damaged
 *   DZ_ESTATE    a doze database of another kind or of a newer doze
 *   DZ_ENOSPC    disk full, or a limit on the file's size
 *   DZ_EEXIST    a UNIQUE or PRIMARY KEY constraint
 *   DZ_EINVAL    any other constraint, or SQL that does not compile
 *   DZ_ENOMEM, DZ_EIO, DZ_ELIMIT (a value too big), DZ_EDENIED (read-only)
 * An error inside a transaction may have rolled all of it back (disk full and
 * out of memory do): dz_db_in_txn tells.
 */
#ifndef DZ_DB_DB_H
#define DZ_DB_DB_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_DB_PAGE_BYTES = 4096,
    DZ_DB_STMT_MAX = 256,            /* statements cached for one handle */
    DZ_DB_CACHE_KB = 1024,           /* default page cache */
    DZ_DB_CHECKPOINT_PAGES = 4000,   /* dz_db_maintain checkpoints from here on */
    DZ_DB_WAL_KEEP_BYTES = 16 << 20, /* a longer log is emptied by any checkpoint */
    DZ_DB_FOLLOW_PAGES = 65536,      /* of a log, for which a checkpoint waits for a follower */
    DZ_DB_FOLLOW_MS = 250,           /* and as long a close waits */
    DZ_DB_VALUE_MAX = 64 << 20,      /* one row or value */
    DZ_DB_TEMPLATE_MAX = 1 << 20,
};
#define DZ_DB_MMAP_BYTES ((int64_t)1 << 30)

struct dz_db;
struct dz_stmt;
struct dz_blob;
struct dz_db_disk; /* db_disk.h */
struct dz_buf;

/* --- schema ------------------------------------------------------------------ */

/* Step i (from 0) takes a database of version i to version i + 1; step 0
 * makes the first version from nothing. SQL text, run in one transaction. */
struct dz_db_schema {
    const char *what;        /* "sandbox file": names the kind in messages */
    uint32_t application_id; /* bytes of the file header */
    const char *const *steps;
    int version; /* number of steps = user_version of a current file */
    int reads;   /* the oldest version that an immutable file may have: it is not migrated, so its
                    readers must know how it differs. 0: only the current one */
};

/* The bytes of an empty database of this schema, already in WAL mode, appended
 * to *out (DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX)). Made in memory: no file is
 * touched. Takes some 0.3 ms: make it once. */
DZ_NODISCARD int dz_db_template(const struct dz_db_schema *schema, struct dz_buf *out,
                                struct dz_err *err);

/* Write a template to an empty file. With sync, it is on disk on return (its
 * directory entry is the caller's). DZ_EEXIST if the file is not empty. */
DZ_NODISCARD int dz_db_create_fd(int fd, const void *template, size_t size_bytes, bool sync,
                                 struct dz_err *err);

/* The same at a path that must not exist, mode 0600. Removed again on failure. */
DZ_NODISCARD int dz_db_create_path(const char *path, const void *template, size_t size_bytes,
                                   bool sync, struct dz_err *err);

/* --- open and close ---------------------------------------------------------- */

struct dz_db_opts {
    const struct dz_db_schema *schema; /* checked and migrated; NULL: neither */
    const char *label;                 /* the file's name in messages; may be NULL */
    bool immutable;                    /* read-only, shared, never locked, no log: an image file */
    bool strict;                       /* each commit is on disk before it returns (FULL) */
    bool wary;    /* the file may be hostile: check every page that is read, including its unused
                   * parts */
    bool views;   /* allow views (a stranger's file may hide things in them) */
    int cache_kb; /* 0: DZ_DB_CACHE_KB */
    int64_t mmap_bytes; /* 0: DZ_DB_MMAP_BYTES; negative: do not map. At most that */
};

/* Both descriptors are open for reading and writing; an immutable database
 * needs only a readable db_fd, and wal_fd -1. They belong to the handle on
 * success and stay the caller's on failure. An empty log is a log. A log with
 * commits in it (a crash) is recovered. The file must exist and not be empty
 * (dz_db_create_*). Makes no system call but pread, pwrite, ftruncate,
 * fdatasync, fstat, fcntl (OFD locks), mmap, munmap, getrandom, clock_gettime
 * and what the C library's heap needs. */
DZ_NODISCARD int dz_db_open_fds(struct dz_db **ret_db, int db_fd, int wal_fd,
                                const struct dz_db_opts *opts, struct dz_err *err);

/* Wait at most `ms` until no process has the database open. The descriptor must be open for writing
 * and have no handle. Nothing is locked afterwards, so another process may open it first. Negative
 * errno; -EINTR: the time is over, or a signal came whose handler has no SA_RESTART. Until it
 * returns it uses the process's ITIMER_REAL and SIGALRM, so only one thread may call it. */
int dz_db_lock_within(int db_fd, int64_t ms);

/* Opens path and path-wal first. On close the empty log is removed. */
DZ_NODISCARD int dz_db_open_path(struct dz_db **ret_db, const char *path,
                                 const struct dz_db_opts *opts, struct dz_err *err);

/* Files that one process opens and passes to another process, perhaps a jailed one, for
 * dz_db_open_fds(). No byte of them is read. */
enum dz_db_files_how {
    DZ_DB_FILES_READ,  /* read-only (wal_fd -1) if this process may not write */
    DZ_DB_FILES_WRITE, /* a new log's name is synced to the disk */
    DZ_DB_FILES_IMAGE, /* read-only; DZ_ESTATE when its log holds something */
};
struct dz_db_files {
    int db_fd, wal_fd; /* -1: none */
    char wal[4096];    /* the path of the log */
};
#define DZ_DB_FILES_NONE {.db_fd = -1, .wal_fd = -1}
DZ_NODISCARD int dz_db_files_open(struct dz_db_files *ret_files, const char *path,
                                  enum dz_db_files_how how, struct dz_err *err);
/* After the other process has closed its database: close the descriptors, and remove an empty log
 * that nobody uses. DZ_DB_FILES_NONE is fine. */
void dz_db_files_close(struct dz_db_files *f);

/* On any disk, for tests (db_sim.h). The disk is the caller's, and outlives
 * the handle. */
DZ_NODISCARD int dz_db_open_disk(struct dz_db **ret_db, struct dz_db_disk *disk,
                                 const struct dz_db_opts *opts, struct dz_err *err);

/* A handle made ahead, by a process that will open a file of this kind and does not know yet which
 * one. It is connected, with profile and schema, as if it had an empty file (template: from
 * dz_db_template). dz_db_stmt can compile statements on it, but they cannot run. It has no
 * descriptor and no lock, so it can be made before a fork and be used once in each child.
 * dz_db_close ends it, too. */
DZ_NODISCARD int dz_db_prepare(struct dz_db **ret_db, const struct dz_db_opts *opts,
                               const void *template, size_t size_bytes, struct dz_err *err);

/* Like dz_db_open_fds, with a prepared handle, which becomes *ret_db, or is closed on failure. What
 * was prepared is used only if the file's schema is byte for byte the template's and its log is
 * empty; otherwise a new connection is made. */
DZ_NODISCARD int dz_db_open_prepared(struct dz_db **ret_db, struct dz_db *prepared, int db_fd,
                                     int wal_fd, struct dz_err *err);

/* Roll back an open transaction, finish statements and blobs, checkpoint, empty the log, release.
 * The handle is gone whatever is returned. After an error the log still holds the commits, and the
 * next open recovers them. NULL: 0. With keep_log nothing is checkpointed and the log stays as it
 * is. The log stays, too, if a follower has not read all of it within DZ_DB_FOLLOW_MS, or died. */
int dz_db_close(struct dz_db *db, bool keep_log, struct dz_err *err);

/* dz_db_close that ignores errors, for DZ_AUTO. */
void dz_db_closep(struct dz_db **db);

/* Borrowed, for copying a quiet database; -1 when there is none. Closing another
 * descriptor of the same file is harmless: the locks are of the description. */
int dz_db_fd(const struct dz_db *db);
int dz_db_wal_fd(const struct dz_db *db);

/* After fork: SQLite's random state must not be its parent's. */
void dz_db_reseed(void);

/* Reserve memory now, in a huge page if the system has them, for a transaction of `pages` pages;
 * own_bytes of it (at most 1 MiB) are returned for the caller. Meant for the last transaction of a
 * process, on the same thread: the memory is never given back, and only the first call gets any.
 * NULL: none was reserved, and everything works without it. */
DZ_NODISCARD void *dz_db_ahead(size_t pages, size_t own_bytes);

/* --- transactions ------------------------------------------------------------ */

/* BEGIN IMMEDIATE. Nested transactions are savepoints: use those. */
DZ_NODISCARD int dz_db_begin(struct dz_db *db, struct dz_err *err);
/* Fails with DZ_EBUSY, and the transaction stays, while a blob is open for writing: close it first.
 * After any other error nothing of the transaction remains. */
DZ_NODISCARD int dz_db_commit(struct dz_db *db, struct dz_err *err);
void dz_db_rollback(struct dz_db *db); /* nothing to do is not an error */
bool dz_db_in_txn(const struct dz_db *db);

/* Inside a transaction, nested to any depth below 32. Each one ends with release (keep) or undo (as
 * if nothing had happened since). The pages that a savepoint may have to restore are kept in
 * memory: split big operations. */
DZ_NODISCARD int dz_db_savepoint(struct dz_db *db, struct dz_err *err);
DZ_NODISCARD int dz_db_release(struct dz_db *db, struct dz_err *err);
void dz_db_undo(struct dz_db *db); /* does nothing when the transaction is gone */

/* Wait until all that is committed so far is on the disk. It may run on another thread while the
 * handle's own thread uses the handle, but not while that one closes it. */
DZ_NODISCARD int dz_db_sync(struct dz_db *db, struct dz_err *err);

/* Copy all that is committed into an empty file that needs no log. Not in a transaction. The copy
 * is not synced. */
DZ_NODISCARD int dz_db_copy(struct dz_db *db, int fd, uint64_t *ret_bytes, struct dz_err *err);

/* --- checkpoint -------------------------------------------------------------- */

/* Free the memory that is kept from one transaction to the next. Call it when nothing will happen
 * for a while. */
void dz_db_trim(struct dz_db *db);

/* Pages in the log that the database file does not have yet. */
int dz_db_wal_pages(const struct dz_db *db);

/* Call it between replies, never on the way to one. It checkpoints when the log has
 * DZ_DB_CHECKPOINT_PAGES, or when idle says that nobody waits and there is anything to move; but
 * only if no transaction is open, and, up to DZ_DB_FOLLOW_PAGES, if a follower of the log
 * (base/follow.h) has read all of it. 1: it did; 0: not now. */
DZ_NODISCARD int dz_db_maintain(struct dz_db *db, bool idle, struct dz_err *err);

enum dz_db_checkpoint {
    DZ_DB_CHECKPOINT_MOVE,  /* copy the pages; the log is reused from its start */
    DZ_DB_CHECKPOINT_EMPTY, /* and truncate the WAL */
};
/* Now, whatever a follower has read. DZ_EBUSY inside a transaction. */
DZ_NODISCARD int dz_db_checkpoint(struct dz_db *db, enum dz_db_checkpoint mode, struct dz_err *err);

/* --- statements -------------------------------------------------------------- */

/* The prepared statement for sql, from the cache or compiled now. The key is
 * the pointer: pass a literal or another string that outlives the handle, and
 * always the same one. Borrowed; it must not be in use already (a row pending),
 * so reset it before anybody can come back for it. Never NULL: when it cannot
 * be had, the result takes bindings and the first step returns the error.
 *
 *     DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, "SELECT ...");
 *     dz_bind_int(st, 1, ino);
 *     int r = dz_stmt_step(st, err);
 */
struct dz_stmt *dz_db_stmt(struct dz_db *db, const char *sql);

/* A statement that is not cached, for SQL that comes from outside; release it with dz_stmt_free.
 * Only the first statement of sql; *ret_rest (if not NULL) points behind it. DZ_EINVAL when sql
 * holds none. */
DZ_NODISCARD int dz_stmt_new(struct dz_stmt **ret_st, struct dz_db *db, const char *sql,
                             const char **ret_rest, struct dz_err *err);
void dz_stmt_free(struct dz_stmt *st);

/* Run SQL whose result does not matter; may be several statements; not cached. */
DZ_NODISCARD int dz_db_exec(struct dz_db *db, const char *sql, struct dz_err *err);

/* Bind parameter i, from 1. Blobs and texts are not copied: they must live
 * until the statement is reset. Binding fails only on a wrong i: an assertion. */
void dz_bind_int(struct dz_stmt *st, int i, int64_t v);
void dz_bind_blob(struct dz_stmt *st, int i, const void *p, size_t size_bytes);
void dz_bind_text(struct dz_stmt *st, int i, const char *s); /* NULL pointer binds NULL */
void dz_bind_zeros(struct dz_stmt *st, int i, size_t size_bytes);
void dz_bind_null(struct dz_stmt *st, int i);

/* 1: a row; 0: done; negative: failed. After 0 or an error it is reset. */
DZ_NODISCARD int dz_stmt_step(struct dz_stmt *st, struct dz_err *err);
/* Step to the end, ignoring rows. */
DZ_NODISCARD int dz_stmt_run(struct dz_stmt *st, struct dz_err *err);
/* Ready for the next use, parameters NULL. NULL is allowed. */
void dz_stmt_reset(struct dz_stmt *st);
void dz_stmt_resetp(struct dz_stmt **st);

enum dz_db_type {
    DZ_DB_INT = 1,
    DZ_DB_REAL = 2,
    DZ_DB_TEXT = 3,
    DZ_DB_BLOB = 4,
    DZ_DB_NULL = 5,
};
/* Columns of the row stepped to, from 0. Pointers are borrowed until the next
 * step or reset. A column of another type is converted as SQLite does (text
 * to 0); an empty blob may be a NULL pointer with size 0. */
int dz_col_count(struct dz_stmt *st);
const char *dz_col_name(struct dz_stmt *st, int i);
enum dz_db_type dz_col_type(struct dz_stmt *st, int i);
int64_t dz_col_int(struct dz_stmt *st, int i);
double dz_col_real(struct dz_stmt *st, int i);
const void *dz_col_blob(struct dz_stmt *st, int i, size_t *ret_size);
const char *dz_col_text(struct dz_stmt *st, int i); /* "" when memory is short or NULL */

int64_t dz_db_last_rowid(const struct dz_db *db);
int64_t dz_db_changes(const struct dz_db *db); /* rows changed by the last statement */

/* --- blobs ------------------------------------------------------------------- */

/* A handle on one value, to read and write parts of it without copying the
 * rest. Rules of SQLite, checked by our tests:
 *   - a handle open for writing makes COMMIT fail: close it first;
 *   - an UPDATE or REPLACE of the row expires the handle: read and write then
 *     return DZ_ESTATE, and so does move; open a new one;
 *   - a value cannot change its size through a handle. */
struct dz_blob_at {
    const char *table, *column; /* literals */
    int64_t rowid;
    bool write; /* for reading and writing; else for reading */
};
DZ_NODISCARD int dz_blob_open(struct dz_db *db, const struct dz_blob_at *at,
                              struct dz_blob **ret_blob, struct dz_err *err);
/* Move to another row of the same column; cheaper than open. DZ_ENOENT when there is none: then
 * only close is allowed. */
DZ_NODISCARD int dz_blob_move(struct dz_blob *blob, int64_t rowid, struct dz_err *err);
size_t dz_blob_size(const struct dz_blob *blob);
/* offset + size_bytes within dz_blob_size, else DZ_EINVAL. */
DZ_NODISCARD int dz_blob_read(struct dz_blob *blob, void *buf, size_t size_bytes, size_t offset,
                              struct dz_err *err);
DZ_NODISCARD int dz_blob_write(struct dz_blob *blob, const void *buf, size_t size_bytes,
                               size_t offset, struct dz_err *err);
/* Errors of a write handle were reported by write. NULL is allowed. */
void dz_blob_close(struct dz_blob *blob);
void dz_blob_closep(struct dz_blob **blob);

/* --- SQL from outside -------------------------------------------------------- */

/* From now on SQL on db also sees the immutable database `below`, as the schema `name` (a literal).
 * It is read only, and must stay open as long as db. No other file can be attached, before or
 * after. */
DZ_NODISCARD int dz_db_attach(struct dz_db *db, const struct dz_db *below, const char *name,
                              struct dz_err *err);

/* From now on this handle compiles only statements that read (no ATTACH, no
 * PRAGMA but a few that tell about tables, no writes; views are allowed), and a statement stops
 * with DZ_ELIMIT after max_ops virtual machine instructions (0: no limit; the
 * count starts again at each call of this function). */
void dz_db_restrict(struct dz_db *db, int64_t max_ops);
/* Lift the restriction from a handle that is used further. First remove the statements that were
 * compiled under it. */
void dz_db_unrestrict(struct dz_db *db);

#endif
