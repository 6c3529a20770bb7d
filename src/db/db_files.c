/* SPDX-License-Identifier: MIT
 *
 * db_files.c - a database's descriptors, for a process that gets them and can open
 * nothing itself. Not a byte of the files is looked at here.
 */
#include "db/db_int.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

int dz_db_refuse_log(const char *wal, struct dz_err *err)
{
    struct stat st;
    if (stat(wal, &st) == 0 && st.st_size > 0)
        return dz_fail(err, DZ_ESTATE,
                       "%s holds changes that are not in the file yet: open it for writing once",
                       wal);
    return 0;
}

/* A log that is new must not vanish when power fails once SQLite relies on it. */
static int sync_entry(const char *wal, struct dz_err *err)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(wal, '/');
    (void)snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - wal) + 1 : 1, slash ? wal : ".");
    return dz_fd_sync_dir(AT_FDCWD, dir, err);
}

static int open_wal(struct dz_db_files *f, enum dz_db_files_how how, struct dz_err *err)
{
    int rc = 0;
    f->wal_fd = open(f->wal, O_RDWR | O_CLOEXEC);
    bool is_new = f->wal_fd < 0 && errno == ENOENT;
    if (is_new)
        f->wal_fd = open(f->wal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (f->wal_fd < 0)
        return dz_fail_sys(err, errno, "open %s", f->wal);
    if (is_new && how == DZ_DB_FILES_WRITE)
        rc = sync_entry(f->wal, err);
    return rc;
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
        only_read = true; /* nobody can write what we may not */
        f.db_fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (f.db_fd < 0)
        return dz_fail_sys(err, errno, "open %s", path);
    int rc = only_read ? dz_db_refuse_log(f.wal, err) : open_wal(&f, how, err);
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
        /* An empty log goes, while nobody else can begin to use it. */
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
