/* SPDX-License-Identifier: MIT
 *
 * db_create.c - new databases are copies of a template.
 *
 * The template is made in memory and serialised. Switching a file to WAL mode is
 * the change of two header bytes, which SQLite does in a transaction with a
 * rollback journal; in an image that nobody has open yet, we set them.
 */
#include "db/db_int.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_WRITE_VERSION = 18,
    HEADER_READ_VERSION = 19,
    VERSION_WAL = 2,
};

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
        r = dz_fail(err, DZ_ENOMEM, "make a template: out of memory");
    if (image) {
        image[HEADER_WRITE_VERSION] = VERSION_WAL;
        image[HEADER_READ_VERSION] = VERSION_WAL;
        dz_buf_add(out, image, (size_t)size);
        if (out->err)
            r = dz_fail(err, out->err, "make a template: %s", dz_err_text(out->err));
    }
    sqlite3_free(image);
    (void)sqlite3_close(db.h);
    return r;
}

int dz_db_create_fd(int fd, const void *template, size_t size_bytes, bool sync, struct dz_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "look at a new database file");
    if (st.st_size != 0)
        return dz_fail(err, DZ_EEXIST, "make a database: the file is not empty");
    for (size_t done = 0; done < size_bytes;) {
        ssize_t n = pwrite(fd, (const char *)template + done, size_bytes - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int sys = n < 0 ? errno : ENOSPC;
            int cut = ftruncate(fd, 0); /* half a template is worse than an empty file */
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
