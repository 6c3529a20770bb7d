/* SPDX-License-Identifier: MIT
 *
 * db_vfs.c - the one VFS that SQLite uses here: it shows disks (db_disk.h).
 *
 * It is the default VFS of the process, because SQLite asks the default one for randomness, and
 * the usual one opens a device for that. A disk that was added has the name "doze/<id>"; its log is
 * "doze/<id>-wal". Nothing else exists: no rollback journal (a file is in WAL mode from birth), no
 * temporary file (temp_store=MEMORY), no shared memory (locking_mode=EXCLUSIVE keeps the index of
 * the log on the heap). Deleting the log truncates it, and it exists when it is not empty.
 *
 * Mapping: the first xFetch maps the whole limit at once, beyond the file's end, so the mapping
 * never moves while the file grows; pages are handed out only below the end.
 *
 * The log is emptied durably: its truncation to nothing is synced, so an empty log holds no old
 * frames on disk either. Therefore the sync that SQLite makes between the header of a fresh log and
 * its first frame, which keeps a new header from meeting old frames, can be left out. It would
 * delay the first commit after each wake.
 *
 * SQLite writes a frame of the log in two calls, its header and its page. The VFS gathers them in
 * a tail, also over several frames, and writes the tail at the latest when a commit's last page has
 * come, so a failure is reported before SQLite counts the frames as written. Only frames of the
 * open transaction wait, and if they cannot be written SQLite rolls that transaction back, so they
 * are dropped then. Reads find frames in the tail. The tail takes only what is appended to the log;
 * what SQLite writes before that end (a page a second time and then headers alone, in a large
 * transaction, or frames anew after a rollback) is written in place at once.
 *
 *     log on disk   [header 32][frame][frame] ......... | tail: [frame][frame][header] |
 *                                                       ^ off                        ^ end
 *
 * Invariants:
 *   1. file->size is -1 or the file's true size: only we change a file whose lock we hold, and
 *      taking a lock forgets what was known. Not asserted: asking the disk is a call that tests
 *      count and make fail.
 *   2. A pointer from xFetch lies below file->size at the time; SQLite gives it back before it
 *      truncates the page away (file_fetch checks the first half).
 *   3. The tail is whole frames, then perhaps a header alone; it ends where the log ends, and fits
 *      its room (assert_tail).
 */
#include "db/db_int.h"

#include "base/mem.h"
#include "base/vm.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

enum {
    SECTOR_BYTES = 4096,
    FRAME_HEADER_BYTES = 24,
    FRAME_BYTES = FRAME_HEADER_BYTES + DZ_DB_PAGE_BYTES,
    TAIL_SMALL = 15 * FRAME_BYTES, /* room for the commit of a request; kept from one to the next */
    TAIL_BYTES = 64 * FRAME_BYTES, /* room for a large commit; released after it, because a cell
                                    * may idle for days */
    TAIL_MAP = (TAIL_BYTES + DZ_DB_PAGE_BYTES - 1) / DZ_DB_PAGE_BYTES * DZ_DB_PAGE_BYTES,
    MS_PER_DAY = 86400000,
};
/* Unix time 0 in ms since noon of November 24, 4714 BC. */
static const sqlite3_int64 JULIAN_1970_MS = (sqlite3_int64)24405875 * (MS_PER_DAY / 10);

/* The end of the log that is not written yet: whole frames, and perhaps a header alone. */
struct tail {
    unsigned char *p; /* NULL before the first */
    size_t n, room;   /* room: TAIL_SMALL in the heap, or TAIL_BYTES, lent or mapped */
    int64_t off;
    int64_t end; /* behind the last frame of this log; 0: not known yet */
    bool open;   /* a header came, its page did not */
    bool commit; /* the header marks the frame as the last of its transaction */
};

struct file {
    sqlite3_file base;
    struct dz_db_disk *disk;
    enum dz_db_file which;
    enum dz_db_lock lock;
    int64_t size;
    bool empty;       /* a log known to be empty, also on disk */
    bool header_only; /* only its header was written since it was empty */
    char *map;
    size_t map_size;
    sqlite3_int64 map_limit;
    struct tail tail;
};

static struct {
    pthread_mutex_t mutex;
    struct dz_db_disk *disks;
    uint64_t last_id;
} vfs = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int last_errno; /* the text for xGetLastError */

/* --- errors ------------------------------------------------------------------ */

static int io_error(int neg_errno, int rc)
{
    last_errno = -neg_errno;
    if (neg_errno == -ENOSPC || neg_errno == -EDQUOT || neg_errno == -EFBIG)
        return SQLITE_FULL;
    if (neg_errno == -ENOMEM)
        return SQLITE_IOERR_NOMEM;
    return rc;
}

/* --- one file ---------------------------------------------------------------- */

static int64_t known_size(struct file *f)
{
    if (f->size < 0)
        f->size = f->disk->ops->size(f->disk, f->which);
    return f->size;
}

static int tail_flush(struct file *f)
{
    struct tail *t = &f->tail;
    if (t->n == 0)
        return 0;
    int r = f->disk->ops->write(f->disk, f->which, t->p, t->n, t->off);
    if (r < 0)
        f->size = -1;
    t->n = 0;
    return r;
}

static void assert_tail(const struct tail *t)
{
    assert(t->n <= t->room && (!t->p || t->room == TAIL_SMALL || t->room == TAIL_BYTES));
    assert(t->n == 0 || t->off + (int64_t)t->n == t->end);
    assert(t->n == 0 || t->n % FRAME_BYTES == (t->open ? FRAME_HEADER_BYTES : 0));
}

static bool tail_has(const struct tail *t, size_t n, int64_t off)
{
    return t->n && off >= t->off && off + (int64_t)n <= t->off + (int64_t)t->n;
}

static void tail_release(struct tail *t)
{
    if (t->room != TAIL_BYTES)
        dz_free(t->p);
    else if (!dz_db_lent_back(t->p))
        dz_vm_release(t->p, TAIL_MAP);
    t->p = NULL;
    t->room = 0;
}

/* Get room for a large transaction, or keep the room that there is. */
static void tail_grow(struct tail *t)
{
    if (t->room == TAIL_BYTES)
        return;
    void *lent = dz_db_lent_alloc(TAIL_BYTES), *p = lent ? lent : dz_vm_reserve(TAIL_MAP, NULL);
    if (p && !lent && dz_vm_commit(p, TAIL_MAP, NULL) < 0) {
        dz_vm_release(p, TAIL_MAP);
        p = NULL;
    }
    if (!p)
        return;
    memcpy(p, t->p, t->n);
    tail_release(t);
    t->p = p;
    t->room = TAIL_BYTES;
}

/* Before a frame is taken. */
static int tail_make_room(struct file *f)
{
    struct tail *t = &f->tail;
    if (t->n + FRAME_BYTES > t->room)
        tail_grow(t);
    return t->n + FRAME_BYTES > t->room ? tail_flush(f) : 0;
}

static int tail_end_of_transaction(struct file *f)
{
    int r = tail_flush(f);
    if (f->tail.room > TAIL_SMALL)
        tail_release(&f->tail);
    return r;
}

/* A frame's header or page: 1 when it was taken, 0 when it is to be written as it is. */
static int tail_take(struct file *f, const void *buf, size_t n, int64_t off)
{
    struct tail *t = &f->tail;
    bool header = n == FRAME_HEADER_BYTES && off >= WAL_HEADER_BYTES;
    if (header && tail_has(t, n, off)) { /* the transaction was rolled back */
        t->n = (size_t)(off - t->off);
        t->end = off;
    } else if (tail_has(t, n, off)) {
        memcpy(t->p + (off - t->off), buf, n);
        return 1;
    }
    bool appended = off == t->end || (header && t->end == 0);
    if (!t->p && header)
        t->p = dz_alloc(TAIL_SMALL);
    t->room = t->p && !t->room ? TAIL_SMALL : t->room;
    if (!t->p || !appended || !(header || (t->open && n == DZ_DB_PAGE_BYTES))) {
        t->end = off + (int64_t)n > t->end ? off + (int64_t)n : t->end;
        t->open = false;
        return 0;
    }
    int r = header ? tail_make_room(f) : 0;
    if (r < 0)
        return r;
    if (t->n == 0)
        t->off = off;
    memcpy(t->p + t->n, buf, n);
    t->n += n;
    t->end = off + (int64_t)n;
    t->open = header;
    if (header)
        t->commit = memcmp((const char *)buf + 4, "\0\0\0\0", 4) != 0;
    assert_tail(t);
    r = !header && t->commit ? tail_end_of_transaction(f) : 0;
    return r < 0 ? r : 1;
}

static int file_close(sqlite3_file *base)
{
    struct file *f = (struct file *)base;
    tail_release(&f->tail); /* a frame of no transaction */
    f->tail = (struct tail){0};
    if (f->map)
        f->disk->ops->unmap(f->disk, f->map, f->map_size);
    f->map = NULL;
    if (f->lock != DZ_DB_UNLOCKED)
        (void)f->disk->ops->lock(f->disk, f->lock, DZ_DB_UNLOCKED);
    f->base.pMethods = NULL;
    return SQLITE_OK;
}

static int file_read(sqlite3_file *base, void *buf, int amount, sqlite3_int64 off)
{
    struct file *f = (struct file *)base;
    size_t n = (size_t)amount;
    if (f->map && off >= 0 && (uint64_t)off + n <= f->map_size && off + amount <= known_size(f)) {
        memcpy(buf, f->map + off, n);
        return SQLITE_OK;
    }
    if (tail_has(&f->tail, n, off)) {
        memcpy(buf, f->tail.p + (off - f->tail.off), n);
        return SQLITE_OK;
    }
    int64_t got = f->disk->ops->read(f->disk, f->which, buf, n, off);
    if (got < 0)
        return io_error((int)got, SQLITE_IOERR_READ);
    if ((size_t)got == n)
        return SQLITE_OK;
    memset((char *)buf + got, 0, n - (size_t)got);
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *base, const void *buf, int amount, sqlite3_int64 off)
{
    struct file *f = (struct file *)base;
    size_t n = (size_t)amount;
    bool log_header = f->which == DZ_DB_FILE_WAL && off == 0 && n == WAL_HEADER_BYTES;
    if (log_header) {
        f->tail.n = 0;
        f->tail.end = WAL_HEADER_BYTES;
    }
    int taken = f->which == DZ_DB_FILE_WAL ? tail_take(f, buf, n, off) : 0;
    int r = taken < 0 ? taken : 0;
    if (taken == 0)
        r = tail_flush(f);
    if (taken == 0 && r == 0)
        r = f->disk->ops->write(f->disk, f->which, buf, n, off);
    f->header_only = f->empty && log_header;
    f->empty = false;
    if (r < 0) {
        f->size = -1;
        return io_error(r, SQLITE_IOERR_WRITE);
    }
    if (f->size >= 0 && off + amount > f->size)
        f->size = off + amount;
    return SQLITE_OK;
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    struct file *f = (struct file *)base;
    int r = f->disk->ops->truncate(f->disk, f->which, size);
    f->size = r < 0 ? -1 : size;
    f->tail.n = 0;
    f->tail.end = 0;
    f->empty = f->header_only = false;
    if (r < 0)
        return io_error(r, SQLITE_IOERR_TRUNCATE);
    if (f->which == DZ_DB_FILE_WAL && size == 0) {
        r = f->disk->ops->sync(f->disk, f->which);
        f->empty = r == 0;
    }
    return r < 0 ? io_error(r, SQLITE_IOERR_FSYNC) : SQLITE_OK;
}

static int file_sync(sqlite3_file *base, int flags)
{
    struct file *f = (struct file *)base;
    (void)flags; /* fdatasync: the data, and the metadata needed to find it */
    if (f->header_only) {
        f->header_only = false;
        return SQLITE_OK;
    }
    int r = tail_flush(f);
    if (r == 0)
        r = f->disk->ops->sync(f->disk, f->which);
    return r < 0 ? io_error(r, SQLITE_IOERR_FSYNC) : SQLITE_OK;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *ret_size)
{
    struct file *f = (struct file *)base;
    int64_t size = known_size(f), end = f->tail.off + (int64_t)f->tail.n;
    if (size < 0)
        return io_error((int)size, SQLITE_IOERR_FSTAT);
    *ret_size = f->tail.n && size < end ? end : size;
    return SQLITE_OK;
}

/* SQLite numbers the levels of a lock as we do. */
_Static_assert((int)DZ_DB_SHARED == SQLITE_LOCK_SHARED, "lock levels");
_Static_assert((int)DZ_DB_RESERVED == SQLITE_LOCK_RESERVED, "lock levels");
_Static_assert((int)DZ_DB_EXCLUSIVE == SQLITE_LOCK_EXCLUSIVE, "lock levels");

static int set_lock(struct file *f, enum dz_db_lock level, int rc)
{
    int r = f->disk->immutable ? 0 : f->disk->ops->lock(f->disk, f->lock, level);
    if (r == -EAGAIN || r == -EACCES)
        return SQLITE_BUSY;
    if (r < 0)
        return io_error(r, rc);
    f->lock = level;
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *base, int level)
{
    struct file *f = (struct file *)base;
    if ((int)f->lock >= level)
        return SQLITE_OK;
    if (f->lock == DZ_DB_UNLOCKED)
        f->size = -1;
    return set_lock(f, (enum dz_db_lock)level, SQLITE_IOERR_LOCK);
}

static int file_unlock(sqlite3_file *base, int level)
{
    struct file *f = (struct file *)base;
    if ((int)f->lock <= level)
        return SQLITE_OK;
    return set_lock(f, (enum dz_db_lock)level, SQLITE_IOERR_UNLOCK);
}

/* SQLite asks only about a hot rollback journal, and there is none. */
static int file_check_reserved(sqlite3_file *base, int *ret_reserved)
{
    const struct file *f = (const struct file *)base;
    *ret_reserved = f->lock >= DZ_DB_RESERVED;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *base, int op, void *arg)
{
    struct file *f = (struct file *)base;
    if (op == SQLITE_FCNTL_MMAP_SIZE) {
        sqlite3_int64 old = f->map_limit, limit = *(sqlite3_int64 *)arg;
        *(sqlite3_int64 *)arg = old;
        if (limit >= 0 && !f->map)
            f->map_limit = limit;
        return SQLITE_OK;
    }
    if (op == SQLITE_FCNTL_LOCKSTATE) {
        *(int *)arg = (int)f->lock;
        return SQLITE_OK;
    }
    return SQLITE_NOTFOUND;
}

static int file_sector_size(sqlite3_file *base)
{
    (void)base;
    return SECTOR_BYTES;
}

static int file_characteristics(sqlite3_file *base)
{
    const struct file *f = (const struct file *)base;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE | SQLITE_IOCAP_UNDELETABLE_WHEN_OPEN |
           (f->disk->immutable ? SQLITE_IOCAP_IMMUTABLE : 0);
}

static int file_fetch(sqlite3_file *base, sqlite3_int64 off, int amount, void **ret_page)
{
    struct file *f = (struct file *)base;
    *ret_page = NULL;
    if (f->which != DZ_DB_FILE_MAIN || f->map_limit <= 0 || !f->disk->ops->map)
        return SQLITE_OK;
    if (off < 0 || off + amount > f->map_limit || off + amount > known_size(f))
        return SQLITE_OK;
    if (!f->map) {
        f->map_size = (size_t)f->map_limit;
        f->map = f->disk->ops->map(f->disk, f->map_size);
        if (!f->map)
            f->map_limit = 0; /* then by reading */
    }
    if (f->map)
        *ret_page = f->map + off;
    return SQLITE_OK;
}

static int file_unfetch(sqlite3_file *base, sqlite3_int64 off, void *page)
{
    (void)base;
    (void)off;
    (void)page; /* the mapping stays until the file is closed */
    return SQLITE_OK;
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 3,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xFetch = file_fetch,
    .xUnfetch = file_unfetch,
};

void dz_db_vfs_trim(sqlite3_file *file)
{
    struct file *f = (struct file *)file;
    if (file->pMethods == &file_methods && f->tail.n == 0)
        tail_release(&f->tail);
}

/* --- names ------------------------------------------------------------------- */

void dz_db_vfs_name(const struct dz_db_disk *disk, char name[static DB_NAME_MAX])
{
    (void)snprintf(name, DB_NAME_MAX, "doze/%" PRIu64, disk->id);
}

void dz_db_vfs_add(struct dz_db_disk *disk)
{
    (void)pthread_mutex_lock(&vfs.mutex);
    disk->id = ++vfs.last_id;
    disk->next = vfs.disks;
    vfs.disks = disk;
    (void)pthread_mutex_unlock(&vfs.mutex);
}

void dz_db_vfs_remove(struct dz_db_disk *disk)
{
    (void)pthread_mutex_lock(&vfs.mutex);
    for (struct dz_db_disk **p = &vfs.disks; *p; p = &(*p)->next) {
        if (*p == disk) {
            *p = disk->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&vfs.mutex);
    disk->next = NULL;
}

/* The disk that a name belongs to, and which of its files it names; NULL: none. */
static struct dz_db_disk *find(const char *name, enum dz_db_file *ret_which)
{
    char want[DB_NAME_MAX];
    (void)pthread_mutex_lock(&vfs.mutex);
    struct dz_db_disk *disk = vfs.disks;
    for (; disk; disk = disk->next) {
        dz_db_vfs_name(disk, want);
        size_t n = strlen(want);
        if (strncmp(name, want, n) != 0)
            continue;
        if (name[n] == '\0')
            *ret_which = DZ_DB_FILE_MAIN;
        else if (strcmp(name + n, "-wal") == 0 && !disk->immutable)
            *ret_which = DZ_DB_FILE_WAL;
        else
            continue;
        break;
    }
    (void)pthread_mutex_unlock(&vfs.mutex);
    return disk;
}

static int vfs_open(sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *base, int flags,
                    int *ret_flags)
{
    struct file *f = (struct file *)base;
    (void)v;
    *f = (struct file){.size = -1};
    enum dz_db_file which = DZ_DB_FILE_MAIN;
    struct dz_db_disk *disk = name ? find(name, &which) : NULL;
    if (!disk) {
        last_errno = ENOENT;
        return SQLITE_CANTOPEN;
    }
    f->disk = disk;
    f->which = which;
    f->base.pMethods = &file_methods;
    f->empty = which == DZ_DB_FILE_WAL && known_size(f) == 0;
    if (ret_flags)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *v, const char *name, int sync_dir)
{
    (void)v;
    (void)sync_dir;
    enum dz_db_file which = DZ_DB_FILE_MAIN;
    struct dz_db_disk *disk = find(name, &which);
    if (!disk || which != DZ_DB_FILE_WAL)
        return SQLITE_IOERR_DELETE_NOENT;
    int64_t size = disk->ops->size(disk, which);
    int r = size < 0 ? (int)size : 0;
    if (size > 0)
        r = disk->ops->truncate(disk, which, 0);
    if (r == 0 && size > 0)
        r = disk->ops->sync(disk, which);
    if (r < 0)
        return io_error(r, SQLITE_IOERR_DELETE);
    if (disk->ops->wal_gone)
        disk->ops->wal_gone(disk);
    return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *v, const char *name, int flags, int *ret_yes)
{
    (void)v;
    (void)flags;
    *ret_yes = 0;
    enum dz_db_file which = DZ_DB_FILE_MAIN;
    struct dz_db_disk *disk = find(name, &which);
    if (!disk)
        return SQLITE_OK;
    int64_t size = disk->ops->size(disk, which);
    if (size < 0)
        return io_error((int)size, SQLITE_IOERR_ACCESS);
    *ret_yes = which == DZ_DB_FILE_MAIN || size > 0;
    return SQLITE_OK;
}

static int vfs_full_pathname(sqlite3_vfs *v, const char *name, int n, char *ret_path)
{
    (void)v;
    return snprintf(ret_path, (size_t)n, "%s", name) < n ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* --- the rest of the world --------------------------------------------------- */

static void *no_dlopen(sqlite3_vfs *v, const char *name)
{
    (void)v;
    (void)name;
    return NULL;
}

static void no_dlerror(sqlite3_vfs *v, int n, char *msg)
{
    (void)v;
    if (n > 0)
        (void)snprintf(msg, (size_t)n, "no extensions here");
}

static int vfs_randomness(sqlite3_vfs *v, int n, char *buf)
{
    (void)v;
    int have = 0;
    while (have < n) {
        ssize_t got = getrandom(buf + have, (size_t)(n - have), 0);
        if (got < 0 && errno != EINTR)
            break;
        if (got > 0)
            have += (int)got;
    }
    assert(have == n); /* the kernel has a generator, and salts of a log must differ */
    return have;
}

/* Only a busy handler sleeps, and we set none. */
static int vfs_sleep(sqlite3_vfs *v, int us)
{
    (void)v;
    return us;
}

static int vfs_time_ms(sqlite3_vfs *v, sqlite3_int64 *ret_ms)
{
    struct timespec ts;
    (void)v;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    *ret_ms = JULIAN_1970_MS + (sqlite3_int64)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
    return SQLITE_OK;
}

static int vfs_time(sqlite3_vfs *v, double *ret_days)
{
    sqlite3_int64 ms = 0;
    (void)vfs_time_ms(v, &ms);
    *ret_days = (double)ms / (double)(int)MS_PER_DAY;
    return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *v, int n, char *msg)
{
    (void)v;
    if (n > 0)
        msg[0] = '\0';
    return last_errno;
}

static sqlite3_vfs the_vfs = {
    .iVersion = 2,
    .szOsFile = sizeof(struct file),
    .mxPathname = 64,
    .zName = "doze",
    .xOpen = vfs_open,
    .xDelete = vfs_delete,
    .xAccess = vfs_access,
    .xFullPathname = vfs_full_pathname,
    .xDlOpen = no_dlopen,
    .xDlError = no_dlerror,
    .xRandomness = vfs_randomness,
    .xSleep = vfs_sleep,
    .xCurrentTime = vfs_time,
    .xGetLastError = vfs_last_error,
    .xCurrentTimeInt64 = vfs_time_ms,
};

int dz_db_vfs_register(void)
{
    return sqlite3_vfs_register(&the_vfs, 1);
}

void dz_db_vfs_unregister(void)
{
    (void)sqlite3_vfs_unregister(&the_vfs);
}
