/* SPDX-License-Identifier: MIT
 *
 * db_blob.c - handles on single values.
 *
 * Each open handle stands in the database's list, so that closing the database
 * closes it; the wrapper itself stays until dz_blob_close (db is NULL then).
 */
#include "db/db_int.h"

#include "base/mem.h"

#include <limits.h>

/* SQLite has one code for "no such row" and "not a blob or text". */
static int fail_open(const struct dz_db *db, int rc, int64_t rowid, struct dz_err *err)
{
    const char *why = sqlite3_errmsg(db->h);
    if (rc == SQLITE_ERROR && strncmp(why, "no such rowid", 13) == 0)
        return dz_fail(err, DZ_ENOENT, "open a value of %s: no row %lld", db->label,
                       (long long)rowid);
    if (rc == SQLITE_ERROR && strncmp(why, "cannot open value of type", 25) == 0)
        return dz_fail(err, DZ_ECORRUPT, "open a value of %s: row %lld holds no bytes: damaged",
                       db->label, (long long)rowid);
    return dz_db_fail(db, rc, err, "open a value of");
}

int dz_blob_open(struct dz_db *db, const struct dz_blob_at *at, struct dz_blob **ret_blob,
                 struct dz_err *err)
{
    struct dz_blob *b = dz_zalloc(sizeof *b);
    if (!b)
        return dz_fail(err, DZ_ENOMEM, "open a value of %s: out of memory", db->label);
    int rc =
        sqlite3_blob_open(db->h, "main", at->table, at->column, at->rowid, at->write, &b->blob);
    if (rc != SQLITE_OK) {
        (void)sqlite3_blob_close(b->blob);
        dz_free(b);
        return fail_open(db, rc, at->rowid, err);
    }
    b->db = db;
    b->size = (size_t)sqlite3_blob_bytes(b->blob);
    b->next = db->blobs;
    b->link = &db->blobs;
    if (b->next)
        b->next->link = &b->next;
    db->blobs = b;
    *ret_blob = b;
    return 0;
}

int dz_blob_move(struct dz_blob *b, int64_t rowid, struct dz_err *err)
{
    int rc = sqlite3_blob_reopen(b->blob, rowid);
    b->size = rc == SQLITE_OK ? (size_t)sqlite3_blob_bytes(b->blob) : 0;
    if (rc == SQLITE_OK)
        return 0;
    if (rc == SQLITE_ABORT)
        return dz_fail(err, DZ_ESTATE, "move a value handle of %s: its row was changed",
                       b->db->label);
    return fail_open(b->db, rc, rowid, err);
}

size_t dz_blob_size(const struct dz_blob *b)
{
    return b->size;
}

static int check_range(const struct dz_blob *b, size_t size_bytes, size_t offset,
                       struct dz_err *err)
{
    size_t have = dz_blob_size(b);
    if (offset <= have && size_bytes <= have - offset)
        return 0;
    return dz_fail(err, DZ_EINVAL, "%zu bytes from %zu on in a value of %s: it has only %zu",
                   size_bytes, offset, b->db->label, have);
}

static int fail_io(const struct dz_blob *b, int rc, struct dz_err *err, const char *what)
{
    if (rc == SQLITE_ABORT)
        return dz_fail(err, DZ_ESTATE, "%s %s: its row was changed", what, b->db->label);
    return dz_db_fail(b->db, rc, err, what);
}

int dz_blob_read(struct dz_blob *b, void *buf, size_t size_bytes, size_t offset, struct dz_err *err)
{
    int r = check_range(b, size_bytes, offset, err);
    if (r < 0)
        return r;
    int rc = sqlite3_blob_read(b->blob, buf, (int)size_bytes, (int)offset);
    return rc == SQLITE_OK ? 0 : fail_io(b, rc, err, "read a value of");
}

int dz_blob_write(struct dz_blob *b, const void *buf, size_t size_bytes, size_t offset,
                  struct dz_err *err)
{
    int r = check_range(b, size_bytes, offset, err);
    if (r < 0)
        return r;
    int rc = sqlite3_blob_write(b->blob, buf, (int)size_bytes, (int)offset);
    return rc == SQLITE_OK ? 0 : fail_io(b, rc, err, "write a value of");
}

static void detach(struct dz_blob *b)
{
    (void)sqlite3_blob_close(b->blob);
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    b->blob = NULL;
    b->db = NULL;
}

void dz_blob_close(struct dz_blob *b)
{
    if (!b)
        return;
    if (b->db)
        detach(b);
    dz_free(b);
}

void dz_blob_closep(struct dz_blob **b)
{
    dz_blob_close(*b);
    *b = NULL;
}

void dz_db_blobs_release(struct dz_db *db)
{
    while (db->blobs)
        detach(db->blobs);
}
