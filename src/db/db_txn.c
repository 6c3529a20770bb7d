/* SPDX-License-Identifier: MIT
 *
 * db_txn.c - transactions, savepoints and checkpoints.
 *
 * Savepoints all have one name: SQLite takes the innermost. A checkpoint needs
 * no lock of ours (one connection) and is never started by a commit: the hook
 * in db.c only counts. A follower of the log (base/follow.h) may delay it.
 *
 * The statements that undo are compiled before those that begin: ROLLBACK before BEGIN, ROLLBACK TO
 * and RELEASE before SAVEPOINT. So an undo after a failed allocation needs no memory.
 */
#include "db/db_int.h"

#include "base/follow.h"

#include <assert.h>
#include <poll.h>

enum {
    WAL_SALT = 16,
    LAG_MS = 20, /* a follower of a log that never rests is behind by a commit: let it catch up */
};

/* Each literal appears only once, because the cache uses its address as the key. */
static const char sql_begin[] = "BEGIN IMMEDIATE";
static const char sql_commit[] = "COMMIT";
static const char sql_rollback[] = "ROLLBACK";
static const char sql_rollback_to[] = "ROLLBACK TO op";
static const char sql_release[] = "RELEASE op";

static int have(struct dz_db *db, const char *sql, struct dz_err *err)
{
    struct dz_stmt *st = dz_db_stmt(db, sql);
    return st == &db->bad ? dz_stmt_step(st, err) : 0;
}

void dz_db_txn_prepare(struct dz_db *db)
{
    (void)dz_db_stmt(db, sql_rollback);
    (void)dz_db_stmt(db, sql_begin);
    (void)dz_db_stmt(db, sql_commit);
}

int dz_db_begin(struct dz_db *db, struct dz_err *err)
{
    assert(!dz_db_in_txn(db));
    db->savepoints = 0;
    int r = have(db, sql_rollback, err);
    if (r < 0)
        return r;
    return dz_stmt_run(dz_db_stmt(db, sql_begin), err);
}

int dz_db_commit(struct dz_db *db, struct dz_err *err)
{
    assert(dz_db_in_txn(db));
    int r = dz_stmt_run(dz_db_stmt(db, sql_commit), err);
    if (r < 0 && r != DZ_EBUSY)
        dz_db_rollback(db);
    if (r == 0)
        db->savepoints = 0;
    return r;
}

void dz_db_rollback(struct dz_db *db)
{
    db->savepoints = 0;
    if (dz_db_in_txn(db) && dz_stmt_run(dz_db_stmt(db, sql_rollback), NULL) < 0)
        (void)sqlite3_exec(db->h, "ROLLBACK", NULL, NULL, NULL);
}

bool dz_db_in_txn(const struct dz_db *db)
{
    return !sqlite3_get_autocommit(db->h);
}

int dz_db_savepoint(struct dz_db *db, struct dz_err *err)
{
    assert(dz_db_in_txn(db) && db->savepoints < DB_SAVEPOINT_MAX);
    int r = have(db, sql_rollback_to, err);
    if (r == 0)
        r = have(db, sql_release, err);
    if (r == 0)
        r = dz_stmt_run(dz_db_stmt(db, "SAVEPOINT op"), err);
    if (r == 0)
        db->savepoints++;
    return r;
}

int dz_db_release(struct dz_db *db, struct dz_err *err)
{
    if (!dz_db_in_txn(db))
        return dz_fail(err, DZ_ESTATE, "commit a change to %s: its transaction was rolled back",
                       db->label);
    assert(db->savepoints > 0);
    int r = dz_stmt_run(dz_db_stmt(db, sql_release), err);
    if (r == 0)
        db->savepoints--;
    return r;
}

void dz_db_undo(struct dz_db *db)
{
    if (!dz_db_in_txn(db)) {
        db->savepoints = 0;
        return;
    }
    assert(db->savepoints > 0);
    int r = dz_stmt_run(dz_db_stmt(db, sql_rollback_to), NULL);
    if (r == 0)
        r = dz_db_release(db, NULL);
    if (r < 0)
        dz_db_rollback(db); /* undo the whole transaction rather than keep half an operation */
}

/* --- checkpoints ------------------------------------------------------------- */

/* Where the log ends, in bytes; 0: it has no frame. */
static uint64_t log_end(const struct dz_db *db)
{
    return db->wal_frames <= 0 ? 0
                               : WAL_HEADER_BYTES + (uint64_t)db->wal_frames *
                                                        (DZ_DB_PAGE_BYTES + WAL_FRAME_HEADER_BYTES);
}

/* Does a follower have all of the log? Only called if there is one. */
static bool follower_has_all(struct dz_db *db, int wal_fd)
{
    unsigned char h[WAL_HEADER_BYTES];
    uint64_t end = log_end(db);
    if (end == 0)
        return db->wal_frames == 0;
    if (db->disk->ops->read(db->disk, DZ_DB_FILE_WAL, h, sizeof h, 0) != sizeof h)
        return false;
    const uint32_t salt[2] = {dz_db_big32(h + WAL_SALT), dz_db_big32(h + WAL_SALT + 4)};
    return dz_follow_has(wal_fd, salt, end);
}

bool dz_db_is_copied(struct dz_db *db, int wait_ms)
{
    int wal_fd = dz_db_wal_fd(db);
    for (int waited = 0;; waited++) {
        bool there = dz_follow_exists(wal_fd);
        db->followed = db->followed || there;
        if (!db->followed || (there && follower_has_all(db, wal_fd)))
            return true;
        if (!there || waited >= wait_ms)
            return false;
        (void)poll(NULL, 0, 1);
    }
}

void dz_db_trim(struct dz_db *db)
{
    sqlite3_file *log = NULL;
    if (sqlite3_file_control(db->h, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK && log)
        dz_db_vfs_trim(log);
}

int dz_db_wal_pages(const struct dz_db *db)
{
    return db->wal_pages;
}

int dz_db_checkpoint(struct dz_db *db, enum dz_db_checkpoint mode, struct dz_err *err)
{
    int in_log = 0, moved = 0;
    if (db->disk->immutable)
        return 0;
    if (db->disk->ops->size(db->disk, DZ_DB_FILE_WAL) > DZ_DB_WAL_KEEP_BYTES)
        mode = DZ_DB_CHECKPOINT_EMPTY;
    int how =
        mode == DZ_DB_CHECKPOINT_EMPTY ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
    bool copied = dz_db_is_copied(db, 0);
    if (db->followed)
        dz_follow_prove(dz_db_wal_fd(db), copied ? log_end(db) : 0);
    int rc = sqlite3_wal_checkpoint_v2(db->h, "main", how, &in_log, &moved);
    if (rc != SQLITE_OK)
        return dz_db_fail(db, rc, err, "checkpoint");
    db->wal_pages = in_log > moved ? in_log - moved : 0;
    return 0;
}

int dz_db_maintain(struct dz_db *db, bool idle, struct dz_err *err)
{
    int least = idle ? 1 : DZ_DB_CHECKPOINT_PAGES;
    if (db->wal_pages < least || dz_db_in_txn(db))
        return 0;
    if (db->wal_pages < DZ_DB_FOLLOW_PAGES &&
        !dz_db_is_copied(db, db->wal_pages < DZ_DB_FOLLOW_PAGES / 4 ? 0 : LAG_MS))
        return 0;
    int r = dz_db_checkpoint(db, DZ_DB_CHECKPOINT_MOVE, err);
    return r < 0 ? r : 1;
}

/* A commit's frames are written when it returns, so syncing the log suffices. Pages that a
 * checkpoint moves out of the log meanwhile are synced by the checkpoint. */
int dz_db_sync(struct dz_db *db, struct dz_err *err)
{
    int r = db->disk->ops->sync(db->disk, DZ_DB_FILE_WAL);
    return r < 0 ? dz_fail_sys(err, -r, "sync the WAL of %s", db->label) : 0;
}
