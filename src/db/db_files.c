/* SPDX-License-Identifier: MIT
 *
 * db_files.c - the files of databases: new ones as copies of a template, files opened by path, and
 * descriptors for a process that can open nothing itself.
 *
 * The template is made in memory and serialised. Switching a file to WAL mode is the change of two
 * header bytes, which SQLite does in a transaction with a rollback journal; in bytes that nobody
 * has open yet, we set them.
 *
 * A database "x" has its log in "x-wal". The log's directory entry must not vanish when power
 * fails after SQLite began to rely on it, so it is synced: at once for descriptors that are handed
 * over, before the log's first sync for a database opened by path (db_fd.c).
 */
#include "db/db_int.h"

#include "base/buf.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- new files --------------------------------------------------------------------------- */

static int make_schema(sqlite3 *h, const struct dz_db_schema *schema)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "PRAGMA page_size=%d;PRAGMA auto_vacuum=NONE;PRAGMA application_id=%u;"
                   "PRAGMA user_version=%d",
                   DZ_DB_PAGE_BYTES, schema->application_id, schema->version);
    int rc = sqlite3_exec(h, sql, NULL, NULL, NULL);
    for (int i = 0; rc == SQLITE_OK && i < schema->version; i++)
        rc = sqlite3_exec(h, schema->steps[i], NULL, NULL, NULL);
    return rc;
}

int dz_db_template(const struct dz_db_schema *schema, struct dz_buf *out, struct dz_err *err)
{
    struct dz_db db = {.label = "a template"};
    int r = dz_db_init(err);
    if (r < 0)
        return r;
    int rc = sqlite3_open_v2(
        ":memory:", &db.h, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = make_schema(db.h, schema);
    if (rc != SQLITE_OK)
        r = dz_db_fail(&db, rc, err, "make");
    sqlite3_int64 size = 0;
    unsigned char *image = r == 0 ? sqlite3_serialize(db.h, "main", &size, 0) : NULL;
    if (r == 0 && !image)
        r = dz_fail(err, DZ_ENOMEM, "create a template: out of memory");
    if (image) {
        image[DB_HEADER_WRITE_VERSION] = DB_VERSION_WAL;
        image[DB_HEADER_READ_VERSION] = DB_VERSION_WAL;
        dz_buf_add(out, image, (size_t)size);
        if (out->err)
            r = dz_fail(err, out->err, "create a template: %s", dz_err_text(out->err));
    }
    sqlite3_free(image);
    (void)sqlite3_close(db.h);
    return r;
}

int dz_db_create_fd(int fd, const void *template, size_t size_bytes, bool sync, struct dz_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "stat a new database file");
    if (st.st_size != 0)
        return dz_fail(err, DZ_EEXIST, "create a database: the file is not empty");
    for (size_t done = 0; done < size_bytes;) {
        ssize_t n = pwrite(fd, (const char *)template + done, size_bytes - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int sys = n < 0 ? errno : ENOSPC;
            int cut = ftruncate(fd, 0); /* an empty file is better than half a template */
            return dz_fail_sys(err, sys, "write a new database file%s",
                               cut < 0 ? ", and empty it again" : "");
        }
        done += (size_t)n;
    }
    if (sync && fdatasync(fd) < 0)
        return dz_fail_sys(err, errno, "sync a new database file");
    return 0;
}

int dz_db_create_path(const char *path, const void *template, size_t size_bytes, bool sync,
                      struct dz_err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return dz_fail_sys(err, errno, "make %s", path);
    int r = dz_db_create_fd(fd, template, size_bytes, sync, err);
    (void)close(fd);
    if (r < 0) {
        (void)unlink(path);
        return dz_wrap(err, r, "make %s", path);
    }
    return 0;
}

/* --- logs -------------------------------------------------------------------------------- */

/* DZ_ESTATE when the log at this path is not empty: a reader without a log would miss its changes.
 */
static int refuse_log(const char *wal, struct dz_err *err)
{
    struct stat st;
    if (stat(wal, &st) == 0 && st.st_size > 0)
        return dz_fail(err, DZ_ESTATE,
                       "%s holds changes that are not in the file yet: open it for writing once",
                       wal);
    return 0;
}

/* A descriptor of the log; *ret_new: it did not exist before. */
static int open_wal(const char *wal, bool *ret_new, struct dz_err *err)
{
    *ret_new = false;
    int fd = open(wal, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        fd = open(wal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        *ret_new = fd >= 0;
    }
    return fd < 0 ? dz_fail_sys(err, errno, "open %s", wal) : fd;
}

int dz_db_sync_entry(const char *wal, struct dz_err *err)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(wal, '/');
    (void)snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - wal) + 1 : 1, slash ? wal : ".");
    return dz_fd_sync_dir(AT_FDCWD, dir, err);
}

/* --- a database by path ---------------------------------------------------------------------- */

int dz_db_open_path(struct dz_db **ret_db, const char *path, const struct dz_db_opts *opts,
                    struct dz_err *err)
{
    char wal[PATH_MAX];
    struct dz_db_opts o = *opts;
    bool wal_new = false;
    int wal_fd = -1;
    if (!o.label)
        o.label = path;
    if (snprintf(wal, sizeof wal, "%s-wal", path) >= (int)sizeof wal)
        return dz_fail(err, DZ_ELIMIT, "open %.64s...: the path is too long", path);
    int r = dz_db_init(err);
    if (r < 0)
        return r;
    int db_fd = open(path, (o.immutable ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    if (db_fd < 0)
        return dz_fail_sys(err, errno, "open %s", path);
    if (o.immutable) {
        r = refuse_log(wal, err);
    } else {
        r = wal_fd = open_wal(wal, &wal_new, err);
    }
    if (r >= 0) {
        struct dz_db_disk *disk =
            dz_db_fd_disk_new(db_fd, wal_fd, o.immutable, o.immutable ? NULL : wal, wal_new);
        r = disk ? dz_db_open_on(ret_db, disk, true, &o, err)
                 : dz_fail(err, DZ_ENOMEM, "open %s: out of memory", path);
    }
    if (r < 0) {
        if (wal_new)
            (void)unlink(wal);
        if (wal_fd >= 0)
            (void)close(wal_fd);
        (void)close(db_fd);
    }
    return r;
}

/* --- descriptors to hand over ------------------------------------------------------------ */

static int take_wal(struct dz_db_files *f, enum dz_db_files_how how, struct dz_err *err)
{
    bool is_new = false;
    f->wal_fd = open_wal(f->wal, &is_new, err);
    if (f->wal_fd < 0)
        return f->wal_fd;
    return is_new && how == DZ_DB_FILES_WRITE ? dz_db_sync_entry(f->wal, err) : 0;
}

int dz_db_files_open(struct dz_db_files *ret_files, const char *path, enum dz_db_files_how how,
                     struct dz_err *err)
{
    struct dz_db_files f = DZ_DB_FILES_NONE;
    if (snprintf(f.wal, sizeof f.wal, "%s-wal", path) >= (int)sizeof f.wal)
        return dz_fail(err, DZ_ELIMIT, "open %.64s...: the path is too long", path);
    bool only_read = how == DZ_DB_FILES_IMAGE;
    f.db_fd = open(path, (only_read ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    if (f.db_fd < 0 && how == DZ_DB_FILES_READ && (errno == EACCES || errno == EROFS)) {
        only_read = true; /* no writer exists for a file that this process may not write */
        f.db_fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (f.db_fd < 0)
        return dz_fail_sys(err, errno, "open %s", path);
    int rc = only_read ? refuse_log(f.wal, err) : take_wal(&f, how, err);
    if (rc < 0) {
        dz_db_files_close(&f);
        return rc;
    }
    *ret_files = f;
    return 0;
}

void dz_db_files_close(struct dz_db_files *f)
{
    struct stat st;
    if (f->wal_fd >= 0) {
        struct dz_db_disk *d = dz_db_fd_disk_new(f->db_fd, f->wal_fd, false, NULL, false);
        /* Remove an empty log while the lock keeps others from using it. */
        if (d && d->ops->lock(d, DZ_DB_UNLOCKED, DZ_DB_EXCLUSIVE) == 0) {
            if (dz_fd_stat(f->wal_fd, &st) == 0 && st.st_size == 0)
                (void)unlink(f->wal);
            (void)d->ops->lock(d, DZ_DB_EXCLUSIVE, DZ_DB_UNLOCKED);
        }
        if (d)
            dz_db_fd_disk_free(d, false);
    }
    dz_fd_close(&f->wal_fd);
    dz_fd_close(&f->db_fd);
}
