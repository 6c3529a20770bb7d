/* SPDX-License-Identifier: MIT
 *
 * db.c - opening a database by the profile, and closing it.
 *
 * Opening reads the header itself (SQLite's message about a foreign file would help nobody),
 * connects, sets the profile, reads the version and migrates. locking_mode=EXCLUSIVE comes before
 * anything that reads the file, because SQLite decides at its first look at the log whether the
 * index of the log lives on the heap, and our VFS has no shared memory to offer.
 *
 * docs/design/db.md explains the profile.
 */
#include "db/db_int.h"

#include "base/buf.h"
#include "base/follow.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* --- open -------------------------------------------------------------------- */

static int header_check(struct dz_db *db, const struct dz_db_schema *schema, bool *ret_wal_mode,
                        struct dz_err *err)
{
    unsigned char h[DB_HEADER_BYTES];
    const char *what = schema ? schema->what : "database";
    int64_t n = db->disk->ops->read(db->disk, DZ_DB_FILE_MAIN, h, sizeof h, 0);
    if (n < 0)
        return dz_fail_sys(err, (int)-n, "read the header of %s", db->label);
    if (n == 0)
        return dz_fail(err, DZ_ECORRUPT, "%s is empty: not a %s of doze", db->label, what);
    if (n < (int64_t)sizeof h || memcmp(h, "SQLite format 3", 16) != 0)
        return dz_fail(err, DZ_ECORRUPT, "%s is not a %s of doze (nor any SQLite database)",
                       db->label, what);
    uint32_t id = dz_db_big32(h + DB_HEADER_APPLICATION_ID);
    if (schema && id != schema->application_id)
        return dz_fail(err, DZ_ESTATE, "%s is not a %s of doze: an SQLite database of another kind",
                       db->label, what);
    *ret_wal_mode =
        h[DB_HEADER_WRITE_VERSION] == DB_VERSION_WAL && h[DB_HEADER_READ_VERSION] == DB_VERSION_WAL;
    return 0;
}

static int set_options(struct dz_db *db, const struct dz_db_opts *opts)
{
    const struct {
        int op, value;
    } config[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, opts->views},
        {SQLITE_DBCONFIG_DQS_DML, 0},        {SQLITE_DBCONFIG_DQS_DDL, 0},
    };
    db->views = opts->views;
    for (size_t i = 0; i < DZ_ARRAY_LEN(config); i++) {
        int rc = sqlite3_db_config(db->h, config[i].op, config[i].value, NULL);
        if (rc != SQLITE_OK)
            return rc;
    }
    (void)sqlite3_extended_result_codes(db->h, 1);
    (void)sqlite3_limit(db->h, SQLITE_LIMIT_LENGTH, DZ_DB_VALUE_MAX);
    (void)sqlite3_limit(db->h, SQLITE_LIMIT_ATTACHED, 0);
    return SQLITE_OK;
}

static int pragmas(struct dz_db *db, const struct dz_db_opts *opts, bool wal_mode)
{
    char sql[512], map[64] = "";
    if (opts->mmap_bytes)
        (void)snprintf(map, sizeof map, "PRAGMA mmap_size=%" PRId64 ";",
                       opts->mmap_bytes > 0 ? opts->mmap_bytes : 0);
    (void)snprintf(sql, sizeof sql,
                   "%s"
                   "%s" /* the map: DZ_DB_MMAP_BYTES is configured in db_init.c */
                   "PRAGMA temp_store=MEMORY;"
                   "PRAGMA secure_delete=FAST;"
                   "%s"
                   "%s" /* set again, because others may have left WAL mode; without a journal
                         * file */
                   "PRAGMA synchronous=%s;"
                   "PRAGMA cache_size=-%d",
                   db->prepared ? "" : "PRAGMA locking_mode=EXCLUSIVE;", map,
                   opts->wary ? "PRAGMA cell_size_check=ON;" : "",
                   wal_mode || opts->immutable ? ""
                                               : "PRAGMA journal_mode=MEMORY;"
                                                 "PRAGMA journal_mode=WAL;",
                   opts->strict ? "FULL" : "NORMAL",
                   opts->cache_kb > 0 ? opts->cache_kb : DZ_DB_CACHE_KB);
    return sqlite3_exec(db->h, sql, NULL, NULL, NULL);
}

static int on_commit(void *ctx, sqlite3 *h, const char *name, int pages)
{
    struct dz_db *db = ctx;
    (void)h;
    (void)name;
    db->wal_pages = db->wal_frames = pages;
    return SQLITE_OK;
}

static int connect_db(struct dz_db *db, const struct dz_db_opts *opts, bool wal_mode)
{
    char name[DB_NAME_MAX];
    int flags = opts->immutable ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    dz_db_vfs_name(db->disk, name);
    int rc = sqlite3_open_v2(name, &db->h, flags | SQLITE_OPEN_NOMUTEX, "doze");
    if (rc == SQLITE_OK)
        rc = set_options(db, opts);
    if (rc == SQLITE_OK)
        rc = pragmas(db, opts, wal_mode);
    if (rc != SQLITE_OK)
        return rc;
    (void)sqlite3_wal_hook(db->h, on_commit, db); /* replaces SQLite's automatic checkpoints */
    return SQLITE_OK;
}

/* The most pages that a log left by a crash can hold. */
static int count_wal_pages(const struct dz_db *db)
{
    if (db->disk->immutable)
        return 0;
    int64_t size = db->disk->ops->size(db->disk, DZ_DB_FILE_WAL);
    if (size <= WAL_HEADER_BYTES)
        return 0;
    int64_t pages = (size - WAL_HEADER_BYTES) / (DZ_DB_PAGE_BYTES + WAL_FRAME_HEADER_BYTES);
    return pages > INT_MAX ? INT_MAX : (int)pages;
}

static int migrate(struct dz_db *db, const struct dz_db_schema *schema, int version,
                   struct dz_err *err)
{
    char pragma[64];
    int r = dz_db_begin(db, err);
    for (int v = version; r == 0 && v < schema->version; v++) {
        (void)snprintf(pragma, sizeof pragma, "PRAGMA user_version=%d", v + 1);
        r = dz_db_exec(db, schema->steps[v], err);
        if (r == 0)
            r = dz_db_exec(db, pragma, err);
    }
    if (r == 0)
        r = dz_db_commit(db, err);
    if (r == 0)
        return 0;
    dz_db_rollback(db);
    return dz_wrap(err, r, "migrate %s from format %d to %d", db->label, version, schema->version);
}

/* Under the lock, with an empty log, the header has the version; a statement would cost more. */
static int read_version(struct dz_db *db, int64_t *ret_version, struct dz_err *err)
{
    unsigned char h[DB_HEADER_BYTES];
    if (db->wal_pages == 0) {
        int64_t n = db->disk->ops->read(db->disk, DZ_DB_FILE_MAIN, h, sizeof h, 0);
        if (n != (int64_t)sizeof h)
            return dz_fail_sys(err, n < 0 ? (int)-n : EIO, "read the header of %s", db->label);
        *ret_version = (int32_t)dz_db_big32(h + DB_HEADER_USER_VERSION);
        return 0;
    }
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, "PRAGMA user_version");
    int r = dz_stmt_step(st, err);
    *ret_version = r == 1 ? dz_col_int(st, 0) : 0;
    return r < 0 ? r : 0;
}

static int check_version(struct dz_db *db, const struct dz_db_opts *opts, struct dz_err *err)
{
    const struct dz_db_schema *schema = opts->schema;
    int64_t version = 0;
    int r = read_version(db, &version, err);
    if (r < 0)
        return r;
    if (!schema || version == schema->version)
        return 0;
    if (version > schema->version)
        return dz_fail(err, DZ_ESTATE,
                       "%s was made by a newer doze: format %" PRId64 ", this one knows up to %d; "
                       "use a newer doze",
                       db->label, version, schema->version);
    if (version < 1)
        return dz_fail(err, DZ_ECORRUPT, "%s has no format version: its creation did not finish",
                       db->label);
    if (opts->immutable && schema->reads > 0 && version >= schema->reads)
        return 0;
    if (opts->immutable)
        return dz_fail(err, DZ_ESTATE,
                       "%s has the old format %" PRId64 " and is read-only; make it again with "
                       "this doze",
                       db->label, version);
    return migrate(db, schema, (int)version, err);
}

static int read_versions(struct dz_db *db, const struct dz_db_opts *opts, struct dz_err *err)
{
    db->wal_pages = count_wal_pages(db);
    db->wal_frames = db->wal_pages ? -1 : 0;
    return check_version(db, opts, err);
}

static void hang_up(struct dz_db *db)
{
    dz_db_blobs_release(db);
    dz_db_stmts_release(db);
    if (db->h) {
        int rc = sqlite3_close(db->h);
        assert(rc == SQLITE_OK); /* else a statement that the cache does not know is open */
    }
    db->h = NULL;
}

static void disconnect(struct dz_db *db)
{
    if (db->h)
        (void)sqlite3_db_config(db->h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    hang_up(db);
}

/* Free db and its disk, and close the descriptors if close_fds. */
static void free_db(struct dz_db *db, bool close_fds)
{
    hang_up(db);
    dz_db_vfs_remove(db->disk);
    if (db->own_disk)
        dz_db_fd_disk_free(db->disk, close_fds);
    dz_free(db);
}

int dz_db_open_on(struct dz_db **ret_db, struct dz_db_disk *disk, bool own_disk,
                  const struct dz_db_opts *opts, struct dz_err *err)
{
    struct dz_db *db = dz_zalloc(sizeof *db);
    if (!db) {
        if (own_disk)
            dz_db_fd_disk_free(disk, false);
        return dz_fail(err, DZ_ENOMEM, "open %s: out of memory", opts->label ? opts->label : "");
    }
    db->disk = disk;
    db->own_disk = own_disk;
    db->bad.db = db;
    (void)snprintf(db->label, sizeof db->label, "%s", opts->label ? opts->label : "the database");
    dz_db_vfs_add(disk);

    bool wal_mode = false;
    int r = header_check(db, opts->schema, &wal_mode, err);
    if (r == 0) {
        int rc = connect_db(db, opts, wal_mode);
        if (rc != SQLITE_OK)
            r = dz_db_fail(db, rc, err, "open");
    }
    if (r == 0)
        r = read_versions(db, opts, err);
    if (r < 0) {
        disconnect(db);
        free_db(db, false);
        return r;
    }
    *ret_db = db;
    return 0;
}

int dz_db_open_disk(struct dz_db **ret_db, struct dz_db_disk *disk, const struct dz_db_opts *opts,
                    struct dz_err *err)
{
    int r = dz_db_init(err);
    if (r < 0)
        return r;
    disk->immutable = opts->immutable;
    return dz_db_open_on(ret_db, disk, false, opts, err);
}

int dz_db_open_fds(struct dz_db **ret_db, int db_fd, int wal_fd, const struct dz_db_opts *opts,
                   struct dz_err *err)
{
    assert(db_fd >= 0 && (wal_fd >= 0) == !opts->immutable);
    int r = dz_db_init(err);
    if (r < 0)
        return r;
    struct dz_db_disk *disk = dz_db_fd_disk_new(db_fd, wal_fd, opts->immutable, NULL, false);
    if (!disk)
        return dz_fail(err, DZ_ENOMEM, "open a database: out of memory");
    return dz_db_open_on(ret_db, disk, true, opts, err);
}

/* --- handles made before their file is known ------------------------------------------------
 *
 * Two thirds of the time of an open is SQLite's reading of the schema, and most of the rest its
 * making of a connection and our first statements. None of that depends on the file when all files
 * begin as copies of one template. So a process that waits for work connects to the template
 * itself, which lies in memory behind a stand-in disk (db_fd.c). When the file comes, its
 * descriptors take the place of those bytes.
 *
 *     dz_db_prepare         SQLite -> VFS -> stand-in: the template's bytes
 *     dz_db_open_prepared   SQLite -> VFS -> descriptors of the file
 *
 * For SQLite nothing unusual happens: it holds no lock between two statements, and at the next one
 * it finds a file that another process has changed meanwhile. Three things keep it from relying on
 * what it read of the template:
 *   1. The stand-in says that it has a rollback journal, so SQLite opens no log for it; it opens
 *      the file's log when the file's header says that there is one.
 *   2. No page of the stand-in survives: the cache is emptied.
 *   3. SQLite compares a counter in the header to tell whether the schema that it knows is still
 *      right. That is not enough for files of strangers: when the counter is the template's, the
 *      whole first page, where the schema lies, must equal the template's too, or the handle is
 *      connected anew. When the counter differs, SQLite reads the schema again, and compiles
 *      statements again. */

static const char sql_first_read[] = "PRAGMA schema_version";

static int connect_standin(struct dz_db *db, struct dz_err *err)
{
    unsigned char *standin = dz_db_fd_disk_bytes(db->disk);
    standin[DB_HEADER_WRITE_VERSION] = standin[DB_HEADER_READ_VERSION] = DB_VERSION_JOURNAL;
    memset(standin + DB_HEADER_CHANGES, 0xff, 4); /* a counter that no file has */
    memset(standin + DB_HEADER_END, 0xff, 4);
    int rc = connect_db(db, &db->opts, true);
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
        free_db(db, false);
        return r;
    }
    *ret_db = db;
    return 0;
}

/* Is the schema that the handle knows right for the file, or certain to be found outdated? The lock
 * is held. */
static bool fits(struct dz_db *db)
{
    unsigned char page[DZ_DB_PAGE_BYTES];
    const unsigned char *standin = dz_db_fd_disk_bytes(db->disk);
    if (db->disk->ops->size(db->disk, DZ_DB_FILE_WAL) != 0 ||
        db->disk->ops->read(db->disk, DZ_DB_FILE_MAIN, page, sizeof page, 0) != sizeof page)
        return false;
    if (memcmp(page + DB_HEADER_FORMAT, standin + DB_HEADER_FORMAT,
               DB_HEADER_END - DB_HEADER_FORMAT) != 0 ||
        memcmp(page, standin, DB_HEADER_WRITE_VERSION) != 0)
        return false;
    if (memcmp(page + DB_HEADER_COOKIE, standin + DB_HEADER_COOKIE, 4) != 0)
        return true;
    return memcmp(page + DB_HEADER_BYTES, standin + DB_HEADER_BYTES,
                  sizeof page - DB_HEADER_BYTES) == 0;
}

/* Leave the template for the file, and take the file's lock. */
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
    int r = header_check(db, db->opts.schema, &wal_mode, err);
    if (r < 0)
        return r;
    r = wal_mode ? change_over(db, err) : 0;
    if (r < 0)
        return r;
    if (!wal_mode || !fits(db)) {
        disconnect(db);
        int rc = connect_db(db, &db->opts, wal_mode);
        if (rc != SQLITE_OK)
            return dz_db_fail(db, rc, err, "open");
    }
    return read_versions(db, &db->opts, err);
}

int dz_db_open_prepared(struct dz_db **ret_db, struct dz_db *db, int db_fd, int wal_fd,
                        struct dz_err *err)
{
    assert(db->prepared && db_fd >= 0 && wal_fd >= 0);
    dz_db_fd_disk_set(db->disk, db_fd, wal_fd);
    db->prepared = false;
    int r = open_file(db, err);
    if (r < 0) {
        disconnect(db);
        free_db(db, false);
        return r;
    }
    *ret_db = db;
    return 0;
}

/* --- close ------------------------------------------------------------------- */

int dz_db_close(struct dz_db *db, bool keep_log, struct dz_err *err)
{
    if (!db)
        return 0;
    int r = 0;
    dz_db_blobs_release(db);
    dz_db_rollback(db);
    if (!keep_log && !db->disk->immutable && !db->prepared) {
        /* Moving the pages says how long the log is, and keeps it: no commit follows. */
        if (db->wal_frames < 0 && dz_follow_exists(dz_db_wal_fd(db)))
            (void)sqlite3_wal_checkpoint_v2(db->h, "main", SQLITE_CHECKPOINT_PASSIVE,
                                            &db->wal_frames, NULL);
        keep_log = !dz_db_is_copied(db, DZ_DB_FOLLOW_MS);
        r = keep_log ? 0 : dz_db_checkpoint(db, DZ_DB_CHECKPOINT_EMPTY, err);
    }
    if (keep_log || r < 0 || db->prepared)
        (void)sqlite3_db_config(db->h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    free_db(db, true);
    return r;
}

void dz_db_closep(struct dz_db **db)
{
    (void)dz_db_close(*db, false, NULL);
    *db = NULL;
}

int dz_db_fd(const struct dz_db *db)
{
    return dz_db_fd_disk_fd(db->disk, DZ_DB_FILE_MAIN);
}

int dz_db_wal_fd(const struct dz_db *db)
{
    return dz_db_fd_disk_fd(db->disk, DZ_DB_FILE_WAL);
}
