/* SPDX-License-Identifier: MIT
 *
 * db_fd.c - a disk made of two open descriptors.
 *
 * For a process that can open nothing: pread, pwrite, ftruncate, fdatasync,
 * fstat, mmap, and fcntl for SQLite's standard lock bytes, taken as OFD locks.
 * Those belong to the open file description: they end with its last copy, and
 * closing another descriptor of the same file does not drop them, as POSIX locks would.
 *
 *     1 GiB      +1         +2 ... +511
 *     PENDING    RESERVED   SHARED: one range; readers lock it shared,
 *                           the writer exclusively
 *
 * Only where a path was given (a log opened by path), the log's directory entry
 * is synced before the log's first sync, and the log is unlinked at the end.
 */
#include "db/db_int.h"

#include "base/fd.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    PENDING_BYTE = 0x40000000,
    RESERVED_BYTE = PENDING_BYTE + 1,
    SHARED_FIRST = PENDING_BYTE + 2,
    SHARED_BYTES = 510,
    ALL_BYTES = SHARED_FIRST + SHARED_BYTES - PENDING_BYTE,
    KICK_BYTES = 512 << 10, /* bytes of the log that are sent to the disk together */
    KICK_WRITE = 128 << 10, /* a write of a large transaction is longer (db_vfs.c) */
};

enum {
    LOCK_END_US = 10 * 1000, /* between the signals that end a wait for the lock */
};

struct fd_disk {
    struct dz_db_disk base;
    int fd[DZ_DB_FILES];
    int64_t kicked, grown; /* in the WAL: the end of the bytes whose write-out was started, and of
                              those that one large write covered */
    atomic_bool wal_new;   /* dz_db_sync() comes from any thread */
    char *wal_path;        /* NULL: no path is known */
    size_t standin_size;
    unsigned char *standin; /* the bytes of a disk without descriptors */
};

static int64_t fd_read(struct dz_db_disk *base, enum dz_db_file f, void *buf, size_t n, int64_t off)
{
    const struct fd_disk *d = (const struct fd_disk *)base;
    size_t have = 0;
    while (have < n) {
        ssize_t got = pread(d->fd[f], (char *)buf + have, n - have, off + (off_t)have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (int64_t)have;
}

/* Start writing back a log that grows by much in one transaction, so that the sync at the end has
 * little left to wait for. A hint: the sync reports failures. */
static void kick(struct fd_disk *d, int64_t from, int64_t to)
{
    if (from != d->grown || to - from < KICK_WRITE)
        d->kicked = from;
    d->grown = to;
    if (to - d->kicked < KICK_BYTES)
        return;
    (void)sync_file_range(d->fd[DZ_DB_FILE_WAL], d->kicked, to - d->kicked, SYNC_FILE_RANGE_WRITE);
    d->kicked = to;
}

static int fd_write(struct dz_db_disk *base, enum dz_db_file f, const void *buf, size_t n,
                    int64_t off)
{
    struct fd_disk *d = (struct fd_disk *)base;
    size_t done = 0;
    while (done < n) {
        ssize_t put = pwrite(d->fd[f], (const char *)buf + done, n - done, off + (off_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -ENOSPC;
        done += (size_t)put;
    }
    if (f == DZ_DB_FILE_WAL)
        kick(d, off, off + (int64_t)n);
    return 0;
}

static int fd_truncate(struct dz_db_disk *base, enum dz_db_file f, int64_t size)
{
    const struct fd_disk *d = (const struct fd_disk *)base;
    int r;
    do
        r = ftruncate(d->fd[f], size);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : 0;
}

static int fd_sync(struct dz_db_disk *base, enum dz_db_file f)
{
    struct fd_disk *d = (struct fd_disk *)base;
    if (d->wal_new && d->wal_path) {
        struct dz_err e = {0};
        if (dz_db_sync_entry(d->wal_path, &e) < 0)
            return e.sys ? -e.sys : -EIO;
        d->wal_new = false;
    }
    return fdatasync(d->fd[f]) < 0 ? -errno : 0;
}

static int64_t fd_size(struct dz_db_disk *base, enum dz_db_file f)
{
    const struct fd_disk *d = (const struct fd_disk *)base;
    struct stat st;
    return dz_fd_stat(d->fd[f], &st) < 0 ? -errno : st.st_size;
}

static int lock_range(const struct fd_disk *d, short type, off_t start, off_t len)
{
    struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    int r;
    do
        r = fcntl(d->fd[DZ_DB_FILE_MAIN], F_OFD_SETLK, &fl);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : 0;
}

static int lock_shared(const struct fd_disk *d)
{
    int r = lock_range(d, F_RDLCK, PENDING_BYTE, 1);
    if (r < 0)
        return r;
    r = lock_range(d, F_RDLCK, SHARED_FIRST, SHARED_BYTES);
    (void)lock_range(d, F_UNLCK, PENDING_BYTE, 1);
    return r;
}

/* A failure leaves the level as it was, because no caller waits with PENDING held. */
static int lock_exclusive(const struct fd_disk *d)
{
    int r = lock_range(d, F_WRLCK, PENDING_BYTE, 1);
    if (r < 0)
        return r;
    r = lock_range(d, F_WRLCK, SHARED_FIRST, SHARED_BYTES);
    if (r < 0)
        (void)lock_range(d, F_UNLCK, PENDING_BYTE, 1);
    return r;
}

static int fd_lock(struct dz_db_disk *base, enum dz_db_lock from, enum dz_db_lock to)
{
    const struct fd_disk *d = (const struct fd_disk *)base;
    switch (to) {
    case DZ_DB_UNLOCKED:
        return lock_range(d, F_UNLCK, PENDING_BYTE, ALL_BYTES);
    case DZ_DB_SHARED:
        if (from < to)
            return lock_shared(d);
        int r = lock_range(d, F_RDLCK, SHARED_FIRST, SHARED_BYTES);
        return r < 0 ? r : lock_range(d, F_UNLCK, PENDING_BYTE, 2);
    case DZ_DB_RESERVED:
        return lock_range(d, F_WRLCK, RESERVED_BYTE, 1);
    case DZ_DB_PENDING:
    case DZ_DB_EXCLUSIVE:
        return lock_exclusive(d);
    }
    return -EINVAL;
}

static int wait_for_lock(int db_fd)
{
    struct flock fl = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = PENDING_BYTE, .l_len = ALL_BYTES};
    if (fcntl(db_fd, F_OFD_SETLKW, &fl) < 0)
        return -errno;
    fl.l_type = F_UNLCK;
    return fcntl(db_fd, F_OFD_SETLK, &fl) < 0 ? -errno : 0;
}

static void on_alarm(int signo)
{
    (void)signo; /* the signal ends the system call that waits */
}

int dz_db_lock_within(int db_fd, int64_t ms)
{
    /* The timer repeats, because its first signal may come just before the wait begins. */
    const struct itimerval off = {0}, on = {.it_value = {ms / 1000, ms % 1000 * 1000 + 1},
                                            .it_interval = {0, LOCK_END_US}};
    const struct sigaction alarm = {.sa_handler = on_alarm};
    struct sigaction before;
    (void)sigaction(SIGALRM, &alarm, &before);
    (void)setitimer(ITIMER_REAL, &on, NULL);
    int r = wait_for_lock(db_fd);
    (void)setitimer(ITIMER_REAL, &off, NULL);
    (void)sigaction(SIGALRM, &before, NULL);
    return r;
}

static void *fd_map(struct dz_db_disk *base, size_t n)
{
    const struct fd_disk *d = (const struct fd_disk *)base;
    void *p = mmap(NULL, n, PROT_READ, MAP_SHARED, d->fd[DZ_DB_FILE_MAIN], 0);
    return p == MAP_FAILED ? NULL : p;
}

static void fd_unmap(struct dz_db_disk *base, void *p, size_t n)
{
    (void)base;
    (void)munmap(p, n);
}

static void fd_wal_gone(struct dz_db_disk *base)
{
    const struct fd_disk *d = (const struct fd_disk *)base;
    if (d->wal_path)
        (void)unlink(d->wal_path);
}

static const struct dz_db_disk_ops fd_ops = {
    .read = fd_read,
    .write = fd_write,
    .truncate = fd_truncate,
    .sync = fd_sync,
    .size = fd_size,
    .lock = fd_lock,
    .map = fd_map,
    .unmap = fd_unmap,
    .wal_gone = fd_wal_gone,
};

/* --- a stand-in: bytes instead of descriptors ------------------------------------ */

static int64_t standin_read(struct dz_db_disk *base, enum dz_db_file f, void *buf, size_t n,
                            int64_t off)
{
    const struct fd_disk *d = (const struct fd_disk *)base;
    if (f != DZ_DB_FILE_MAIN || off < 0 || (size_t)off >= d->standin_size)
        return 0;
    if (n > d->standin_size - (size_t)off)
        n = d->standin_size - (size_t)off;
    memcpy(buf, d->standin + off, n);
    return (int64_t)n;
}

static int standin_write(struct dz_db_disk *base, enum dz_db_file f, const void *buf, size_t n,
                         int64_t off)
{
    (void)base;
    (void)f;
    (void)buf;
    (void)n;
    (void)off;
    return -EROFS;
}

static int standin_truncate(struct dz_db_disk *base, enum dz_db_file f, int64_t size)
{
    (void)base;
    (void)f;
    (void)size;
    return -EROFS;
}

static int standin_sync(struct dz_db_disk *base, enum dz_db_file f)
{
    (void)base;
    (void)f;
    return 0;
}

static int64_t standin_size(struct dz_db_disk *base, enum dz_db_file f)
{
    const struct fd_disk *d = (const struct fd_disk *)base;
    return f == DZ_DB_FILE_MAIN ? (int64_t)d->standin_size : 0;
}

static int standin_lock(struct dz_db_disk *base, enum dz_db_lock from, enum dz_db_lock to)
{
    (void)base;
    (void)from;
    (void)to;
    return 0;
}

static const struct dz_db_disk_ops standin_ops = {
    .read = standin_read,
    .write = standin_write,
    .truncate = standin_truncate,
    .sync = standin_sync,
    .size = standin_size,
    .lock = standin_lock,
};

struct dz_db_disk *dz_db_fd_disk_standin(const void *bytes, size_t size)
{
    struct dz_db_disk *base = dz_db_fd_disk_new(-1, -1, false, NULL, false);
    struct fd_disk *d = (struct fd_disk *)base;
    if (!d)
        return NULL;
    d->standin = dz_alloc(size);
    if (!d->standin) {
        dz_free(d);
        return NULL;
    }
    memcpy(d->standin, bytes, size);
    d->standin_size = size;
    base->ops = &standin_ops;
    return base;
}

void dz_db_fd_disk_set(struct dz_db_disk *base, int db_fd, int wal_fd)
{
    struct fd_disk *d = (struct fd_disk *)base;
    assert(base->ops == &standin_ops);
    d->fd[DZ_DB_FILE_MAIN] = db_fd;
    d->fd[DZ_DB_FILE_WAL] = wal_fd;
    base->ops = &fd_ops;
}

unsigned char *dz_db_fd_disk_bytes(struct dz_db_disk *base)
{
    return ((struct fd_disk *)base)->standin;
}

struct dz_db_disk *dz_db_fd_disk_new(int db_fd, int wal_fd, bool immutable, const char *wal_path,
                                     bool wal_new)
{
    struct fd_disk *d = dz_zalloc(sizeof *d);
    if (!d)
        return NULL;
    d->base.ops = &fd_ops;
    d->base.immutable = immutable;
    d->fd[DZ_DB_FILE_MAIN] = db_fd;
    d->fd[DZ_DB_FILE_WAL] = wal_fd;
    d->wal_new = wal_new;
    if (wal_path) {
        d->wal_path = dz_strndup(wal_path, strlen(wal_path));
        if (!d->wal_path) {
            dz_free(d);
            return NULL;
        }
    }
    return &d->base;
}

void dz_db_fd_disk_free(struct dz_db_disk *base, bool close_fds)
{
    struct fd_disk *d = (struct fd_disk *)base;
    for (int f = 0; close_fds && f < DZ_DB_FILES; f++)
        if (d->fd[f] >= 0)
            (void)close(d->fd[f]);
    dz_free(d->wal_path);
    dz_free(d->standin);
    dz_free(d);
}

int dz_db_fd_disk_fd(const struct dz_db_disk *base, enum dz_db_file f)
{
    return base->ops == &fd_ops ? ((const struct fd_disk *)base)->fd[f] : -1;
}
