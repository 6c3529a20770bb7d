/* SPDX-License-Identifier: MIT
 *
 * db_prepare.c - handles made before their file is known.
 *
 * Two thirds of the time of an open is SQLite's reading of the schema, and most of
 * the rest its making of a connection and our first statements. None of that
 * depends on the file, when all files begin as copies of one template. So a
 * process that waits for work connects to the template itself, lying in memory
 * behind the same disk (db_fd.c's stand-in), and when the file comes, its descriptors
 * take the place of those bytes.
 *
 * For SQLite nothing unusual happens: it holds no lock between two statements, and
 * at the next one finds a file that another process has changed meanwhile. It is not
 * asked to notice by itself, though:
 *   1. The stand-in says that it has a rollback journal, so that SQLite opens no log
 *      for it; it opens the file's when it reads there that there is one.
 *   2. No page of the stand-in survives: the cache is emptied.
 *   3. SQLite goes by a counter in the header to tell whether the schema that it
 *      knows is still right. That is not enough for files of strangers: when the
 *      counter is the template's, the whole first page, where the schema
 *      lies, must be too, or the handle is connected anew. When it is another, SQLite reads the
 *      schema again, and compiles statements again.
 */
#include "db/db_int.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* Offsets in the header of an SQLite file. */
enum {
    HEADER_WRITE_VERSION = 18,
    HEADER_READ_VERSION = 19,
    HEADER_CHANGES = 24, /* counter, pages, free list: of no account */
    HEADER_COOKIE = 40,
    HEADER_FORMAT = 44,
    HEADER_END = 92, /* then who wrote it last */
    VERSION_JOURNAL = 1,
};

static const char sql_first_read[] = "PRAGMA schema_version";

static int connect_standin(struct dz_db *db, struct dz_err *err)
{
    unsigned char *standin = dz_db_fd_disk_bytes(db->disk);
    standin[HEADER_WRITE_VERSION] = standin[HEADER_READ_VERSION] = VERSION_JOURNAL;
    memset(standin + HEADER_CHANGES, 0xff, 4); /* no file has that many: a changed one */
    memset(standin + HEADER_END, 0xff, 4);
    int rc = dz_db_connect(db, &db->opts, true);
    if (rc != SQLITE_OK)
        return dz_db_fail(db, rc, err, "prepare");
    dz_db_txn_prepare(db);
    (void)dz_db_stmt(db, sql_first_read);
    return 0;
}

int dz_db_prepare(struct dz_db **ret_db, const struct dz_db_opts *opts, const void *template,
                  size_t size_bytes, struct dz_err *err)
{
    assert(opts->schema && !opts->immutable && size_bytes >= DZ_DB_PAGE_BYTES);
    int r = dz_db_init(err);
    if (r < 0)
        return r;
    struct dz_db *db = dz_zalloc(sizeof *db);
    struct dz_db_disk *disk = db ? dz_db_fd_disk_standin(template, size_bytes) : NULL;
    if (!disk) {
        dz_free(db);
        return dz_fail(err, DZ_ENOMEM, "prepare a database: out of memory");
    }
    db->disk = disk;
    db->own_disk = db->prepared = true;
    db->bad.db = db;
    db->opts = *opts;
    db->opts.label = NULL;
    (void)snprintf(db->label, sizeof db->label, "%s", opts->label ? opts->label : "the database");
    dz_db_vfs_add(disk);
    r = connect_standin(db, err);
    if (r < 0) {
        dz_db_free(db, false);
        return r;
    }
    *ret_db = db;
    return 0;
}

/* Is what the handle knows of the schema right for the file, or sure to be noticed
 * as wrong? The lock is held. */
static bool fits(struct dz_db *db)
{
    unsigned char page[DZ_DB_PAGE_BYTES];
    const unsigned char *standin = dz_db_fd_disk_bytes(db->disk);
    if (db->disk->ops->size(db->disk, DZ_DB_FILE_WAL) != 0 ||
        db->disk->ops->read(db->disk, DZ_DB_FILE_MAIN, page, sizeof page, 0) != sizeof page)
        return false;
    if (memcmp(page + HEADER_FORMAT, standin + HEADER_FORMAT, HEADER_END - HEADER_FORMAT) != 0 ||
        memcmp(page, standin, HEADER_WRITE_VERSION) != 0)
        return false;
    if (memcmp(page + HEADER_COOKIE, standin + HEADER_COOKIE, 4) != 0)
        return true;
    return memcmp(page + DB_HEADER_BYTES, standin + DB_HEADER_BYTES,
                  sizeof page - DB_HEADER_BYTES) == 0;
}

/* From the template to the file, and its lock taken. */
static int change_over(struct dz_db *db, struct dz_err *err)
{
    int rc = sqlite3_db_release_memory(db->h);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->h, "PRAGMA locking_mode=EXCLUSIVE", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return dz_db_fail(db, rc, err, "open");
    return dz_stmt_run(dz_db_stmt(db, sql_first_read), err);
}

static int open_file(struct dz_db *db, struct dz_err *err)
{
    bool wal_mode = false;
    int r = dz_db_header_check(db, db->opts.schema, &wal_mode, err);
    if (r < 0)
        return r;
    r = wal_mode ? change_over(db, err) : 0;
    if (r < 0)
        return r;
    if (!wal_mode || !fits(db)) {
        dz_db_disconnect(db);
        int rc = dz_db_connect(db, &db->opts, wal_mode);
        if (rc != SQLITE_OK)
            return dz_db_fail(db, rc, err, "open");
    }
    return dz_db_settle(db, &db->opts, err);
}

int dz_db_open_prepared(struct dz_db **ret_db, struct dz_db *db, int db_fd, int wal_fd,
                        struct dz_err *err)
{
    assert(db->prepared && db_fd >= 0 && wal_fd >= 0);
    dz_db_fd_disk_give(db->disk, db_fd, wal_fd);
    db->prepared = false;
    int r = open_file(db, err);
    if (r < 0) {
        dz_db_disconnect(db);
        dz_db_free(db, false);
        return r;
    }
    *ret_db = db;
    return 0;
}
