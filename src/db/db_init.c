/* SPDX-License-Identifier: MIT
 *
 * db_init.c - SQLite as this process uses it, and its errors as ours.
 *
 * SQLite is configured once, before its first use: no mutexes inside a connection, no memory
 * statistics (a lock around each allocation), no pages reserved ahead, small blocks of db_heap.c,
 * our VFS as the default one. Time zone data is loaded now, while files can still be opened: SQL's
 * localtime() would load it later.
 */
#include "db/db_int.h"

#include "db/db_sim.h" /* dz_db_shutdown */

#include <errno.h>
#include <pthread.h>

static struct {
    pthread_mutex_t mutex;
    bool ready;
    const sqlite3_mem_methods *heap; /* NULL: db_heap.c's */
} init = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int configure(void)
{
    int rc = sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    if (rc == SQLITE_OK)
        rc = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    if (rc == SQLITE_OK)
        rc = sqlite3_config(SQLITE_CONFIG_PAGECACHE, NULL, 0, 0);
    if (rc == SQLITE_OK)
        rc = sqlite3_config(SQLITE_CONFIG_MMAP_SIZE, DZ_DB_MMAP_BYTES, DZ_DB_MMAP_BYTES);
    if (rc == SQLITE_OK)
        rc = init.heap ? sqlite3_config(SQLITE_CONFIG_MALLOC, init.heap) : dz_db_heap_use();
    if (rc == SQLITE_OK)
        rc = sqlite3_initialize();
    if (rc == SQLITE_OK)
        rc = dz_db_vfs_register();
    return rc;
}

static int db_code(int rc, int sys)
{
    switch (rc) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
        return DZ_EEXIST;
    case SQLITE_IOERR_NOMEM:
        return DZ_ENOMEM;
    default:
        break;
    }
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return DZ_ENOMEM;
    case SQLITE_FULL:
        return DZ_ENOSPC;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return DZ_ECORRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return DZ_EBUSY;
    case SQLITE_TOOBIG:
        return DZ_ELIMIT;
    case SQLITE_READONLY:
    case SQLITE_AUTH:
    case SQLITE_PERM:
        return DZ_EDENIED;
    case SQLITE_INTERRUPT:
        return DZ_ECANCELED;
    case SQLITE_ABORT:
    case SQLITE_MISUSE:
        return DZ_ESTATE;
    case SQLITE_ERROR:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
        return DZ_EINVAL;
    default:
        return sys == ENOSPC || sys == EDQUOT ? DZ_ENOSPC : DZ_EIO;
    }
}

int dz_db_init(struct dz_err *err)
{
    int rc = SQLITE_OK;
    (void)pthread_mutex_lock(&init.mutex);
    if (!init.ready) {
        tzset();
        rc = configure();
        init.ready = rc == SQLITE_OK;
        if (rc != SQLITE_OK)
            (void)sqlite3_shutdown();
    }
    (void)pthread_mutex_unlock(&init.mutex);
    if (rc == SQLITE_OK)
        return 0;
    return dz_fail(err, db_code(rc, 0), "start SQLite: %s", sqlite3_errstr(rc));
}

void dz_db_reseed(void)
{
    if (init.ready) /* before that SQLite has no state, and must be configured first */
        sqlite3_randomness(0, NULL);
}

void dz_db_set_heap(const sqlite3_mem_methods *heap)
{
    init.heap = heap;
}

void dz_db_shutdown(void)
{
    (void)pthread_mutex_lock(&init.mutex);
    if (init.ready)
        dz_db_vfs_unregister();
    (void)sqlite3_shutdown();
    init.ready = false;
    (void)pthread_mutex_unlock(&init.mutex);
}

/* --- errors ------------------------------------------------------------------ */

int dz_db_fail(const struct dz_db *db, int rc, struct dz_err *err, const char *what)
{
    int sys = 0;
    if ((rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_FULL)
        sys = sqlite3_system_errno(db->h);
    int code = db_code(rc, sys);
    const char *why = sqlite3_errcode(db->h) == (rc & 0xff) || sqlite3_extended_errcode(db->h) == rc
                          ? sqlite3_errmsg(db->h)
                          : sqlite3_errstr(rc);
    if (code == DZ_EBUSY)
        (void)dz_fail(err, code, "%s %s: it is in use by another process (%s)", what, db->label,
                      why);
    else if (code == DZ_ECORRUPT)
        (void)dz_fail(err, code, "%s %s: the file is damaged (%s)", what, db->label, why);
    else if (sys)
        (void)dz_fail(err, code, "%s %s: %s (%s)", what, db->label, why, strerrordesc_np(sys));
    else
        (void)dz_fail(err, code, "%s %s: %s", what, db->label, why);
    if (err)
        err->sys = sys;
    return code;
}
