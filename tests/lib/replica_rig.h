/* SPDX-License-Identifier: MIT
 *
 * replica_rig.h - a database and its log made without SQLite, and a replica in a directory.
 */
#ifndef DZ_TESTS_REPLICA_RIG_H
#define DZ_TESTS_REPLICA_RIG_H

#include "base/fd.h"
#include "dice.h"
#include "replica/replica.h"
#include "tap.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/mman.h>

enum {
    RIG_PAGE = 512,
    RIG_PAGES = 24, /* the most pages of a database of the rig */
    RIG_FRAME = 24 + RIG_PAGE,
};

struct rig_image {
    uint32_t count;
    uint8_t pages[RIG_PAGES][RIG_PAGE];
};

struct rig_db {
    int db_fd, wal_fd;
    struct rig_image now;
    bool big_endian;
    uint32_t salt[2], sum[2];
    uint64_t at;       /* end of the log; 0: it is empty */
    uint32_t sequence; /* of the next log: 0 is the first since the database was opened */
};

static inline void rig_put32(uint8_t *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof v);
}

/* SQLite's documents: "Checksum Algorithm" */
static inline void rig_sum(const struct rig_db *d, const uint8_t *p, size_t n, uint32_t s[static 2])
{
    for (size_t i = 0; i < n; i += 8) {
        uint32_t x[2];
        memcpy(x, p + i, 8);
        s[0] += (d->big_endian ? be32toh(x[0]) : le32toh(x[0])) + s[1];
        s[1] += (d->big_endian ? be32toh(x[1]) : le32toh(x[1])) + s[0];
    }
}

static inline void rig_pwrite(int fd, const void *p, size_t n, uint64_t at)
{
    int rc = dz_fd_pwrite(fd, p, n, at, NULL);
    CHECK_INT(rc, 0);
}

/* Replace the log by an empty one. */
static inline void rig_new_log(struct rig_db *d)
{
    uint8_t h[32] = {0};
    rig_put32(h, 0x377f0682 | (uint32_t)d->big_endian);
    rig_put32(h + 4, 3007000);
    rig_put32(h + 8, RIG_PAGE);
    rig_put32(h + 12, d->sequence++);
    rig_put32(h + 16, ++d->salt[0]);
    rig_put32(h + 20, d->salt[1] = d->salt[1] * 69069 + 1);
    memset(d->sum, 0, sizeof d->sum);
    rig_sum(d, h, 24, d->sum);
    rig_put32(h + 24, d->sum[0]);
    rig_put32(h + 28, d->sum[1]);
    rig_pwrite(d->wal_fd, h, sizeof h, 0);
    d->at = sizeof h;
}

/* Append one frame. commit: the database's pages after the commit, or 0 if it is no commit. */
static inline void rig_frame(struct rig_db *d, uint32_t number, const uint8_t *page,
                             uint32_t commit)
{
    uint8_t f[RIG_FRAME] = {0};
    rig_put32(f, number);
    rig_put32(f + 4, commit);
    rig_put32(f + 8, d->salt[0]);
    rig_put32(f + 12, d->salt[1]);
    memcpy(f + 24, page, RIG_PAGE);
    rig_sum(d, f, 8, d->sum);
    rig_sum(d, f + 24, RIG_PAGE, d->sum);
    rig_put32(f + 16, d->sum[0]);
    rig_put32(f + 20, d->sum[1]);
    rig_pwrite(d->wal_fd, f, sizeof f, d->at);
    d->at += sizeof f;
}

static inline void rig_fill(struct rig_image *m, uint32_t number, uint64_t *dice)
{
    uint8_t *p = m->pages[number - 1];
    for (size_t i = 0; i < RIG_PAGE; i++)
        p[i] = i < 64 ? (uint8_t)dice_roll(dice) : (uint8_t)number;
    if (number == 1) {
        memcpy(p, "SQLite format 3", 16);
        p[16] = RIG_PAGE >> 8;
        p[17] = 0;
    }
}

static inline void rig_open(struct rig_db *d, bool big_endian, uint64_t *dice)
{
    *d = (struct rig_db){.db_fd = memfd_create("db", MFD_CLOEXEC),
                         .wal_fd = memfd_create("log", MFD_CLOEXEC),
                         .big_endian = big_endian,
                         .now.count = 5};
    for (uint32_t n = 1; n <= d->now.count; n++)
        rig_fill(&d->now, n, dice);
    rig_pwrite(d->db_fd, d->now.pages, d->now.count * RIG_PAGE, 0);
}

static inline void rig_close(struct rig_db *d)
{
    dz_fd_close(&d->db_fd);
    dz_fd_close(&d->wal_fd);
}

/* Make a transaction: some pages change, and the database may grow or shrink. */
static inline void rig_commit(struct rig_db *d, uint64_t *dice)
{
    uint32_t old = d->now.count, count = 1 + dice_below(dice, RIG_PAGES);
    if (dice_below(dice, 4) > 0)
        count = old;
    if (d->at == 0)
        rig_new_log(d);
    for (uint32_t n = old + 1; n <= count; n++) {
        rig_fill(&d->now, n, dice);
        rig_frame(d, n, d->now.pages[n - 1], 0);
    }
    d->now.count = count;
    uint32_t n = 1 + dice_below(dice, count);
    rig_fill(&d->now, n, dice);
    rig_frame(d, n, d->now.pages[n - 1], 0);
    rig_fill(&d->now, 1, dice);
    rig_frame(d, 1, d->now.pages[0], count);
}

/* Move the log's pages into the database; the next commit begins the log anew. */
static inline void rig_checkpoint(struct rig_db *d)
{
    rig_pwrite(d->db_fd, d->now.pages, d->now.count * RIG_PAGE, 0);
    CHECK_INT(ftruncate(d->db_fd, d->now.count * RIG_PAGE), 0);
    d->at = 0;
}

static inline struct dz_replica_source rig_source(const struct rig_db *d)
{
    return (struct dz_replica_source){d->db_fd, d->wal_fd};
}

/* --- replicas ----------------------------------------------------------------------------------
 */

static inline bool rig_open_replica(char dir[static DZ_TEMP_DIR_TEXT], struct dz_replica *r,
                                    struct dz_err *err)
{
    char url[DZ_TEMP_DIR_TEXT + 16];
    dir[0] = '\0';
    if (dz_fd_temp_dir("doze-replica", dir, err) < 0)
        return false;
    (void)snprintf(url, sizeof url, "file://%s", dir);
    return dz_replica_open(url, &(struct dz_replica_access){0}, true, r, err) == 0;
}

static inline void rig_remove(const char *dir)
{
    if (dir[0])
        CHECK_INT(dz_fd_remove_tree(AT_FDCWD, dir, NULL), 0);
}

/* Restore the replica into memory. */
static inline int rig_restore(struct dz_replica *r, const struct dz_replica_goal *goal,
                              struct rig_image *ret, uint64_t *ret_txid, struct dz_err *err)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files plan = DZ_REPLICA_FILES_INIT;
    DZ_AUTO(dz_fd_close) int fd = memfd_create("restored", MFD_CLOEXEC);
    struct dz_replica_restored to = {0};
    int rc = dz_replica_list(r, &all, err);
    if (rc == 0 && goal->timed)
        rc = dz_replica_time(r, &all, NULL, err);
    if (rc == 0)
        rc = dz_replica_plan_restore(&all, goal, &plan, err);
    if (rc == 0)
        rc = dz_replica_restore(r, &plan, fd, NULL, &to, err);
    if (rc < 0)
        return rc;
    *ret = (struct rig_image){.count = (uint32_t)(to.bytes / RIG_PAGE)};
    CHECK_INT(lseek(fd, 0, SEEK_END), (off_t)to.bytes);
    rc = dz_fd_pread(fd, ret->pages, to.bytes, 0, err);
    *ret_txid = to.txid;
    return rc;
}

static inline bool rig_equal(const struct rig_image *a, const struct rig_image *b)
{
    return a->count == b->count && memcmp(a->pages, b->pages, a->count * RIG_PAGE) == 0;
}

#endif
