/* SPDX-License-Identifier: MIT
 *
 * db_disk.h - the disk under a database: two numbered files behind a few verbs.
 *
 * db_vfs.c shows a disk to SQLite. db_fd.c makes a disk of two descriptors; db_sim.c makes one in
 * memory that fails, fills up and loses power on command. Verbs return 0, a size, or a negative
 * errno. No verb takes a path.
 */
#ifndef DZ_DB_DB_DISK_H
#define DZ_DB_DB_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dz_db_file {
    DZ_DB_FILE_MAIN,
    DZ_DB_FILE_WAL,
    DZ_DB_FILES,
};

/* SQLite's five states of a lock on the main file. */
enum dz_db_lock {
    DZ_DB_UNLOCKED,
    DZ_DB_SHARED,
    DZ_DB_RESERVED,
    DZ_DB_PENDING,
    DZ_DB_EXCLUSIVE,
};

struct dz_db_disk;

struct dz_db_disk_ops {
    /* Bytes read, fewer only at the end of the file. */
    int64_t (*read)(struct dz_db_disk *d, enum dz_db_file f, void *buf, size_t n, int64_t off);
    /* Write all bytes, or fail. A write beyond the end makes the file grow. */
    int (*write)(struct dz_db_disk *d, enum dz_db_file f, const void *buf, size_t n, int64_t off);
    int (*truncate)(struct dz_db_disk *d, enum dz_db_file f, int64_t size);
    int (*sync)(struct dz_db_disk *d, enum dz_db_file f);
    int64_t (*size)(struct dz_db_disk *d, enum dz_db_file f);
    /* Take the main file's lock to a level, up or down; -EAGAIN: another has it. */
    int (*lock)(struct dz_db_disk *d, enum dz_db_lock from, enum dz_db_lock to);
    /* The first n bytes of the main file, readable in place, with later writes, until unmap; may
     * reach beyond the end. NULL: not possible. */
    void *(*map)(struct dz_db_disk *d, size_t n);
    void (*unmap)(struct dz_db_disk *d, void *p, size_t n);
    /* The log is empty and not needed any more: remove it, if the disk can. */
    void (*wal_gone)(struct dz_db_disk *d);
};

struct dz_db_disk {
    const struct dz_db_disk_ops *ops;
    bool immutable; /* never written, never locked, no log */
    /* db_vfs.c's own */
    struct dz_db_disk *next;
    uint64_t id;
};

#endif
