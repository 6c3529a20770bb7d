/* SPDX-License-Identifier: MIT
 *
 * db_copy.c - copy the present state of a database to another file, which needs no log.
 *
 * The database file is copied, and then the pages of the WAL's committed frames are written over
 * it, oldest first (https://www.sqlite.org/walformat.html). The committed frames are found as
 * SQLite finds them after a crash: their salts are the header's, each checksum continues the one
 * before, and the last frame that ends a transaction is the last committed one. So frames of a
 * rolled back transaction are left out, and pages that a checkpoint has already moved are only
 * written once more.
 *
 *     log:    header 32 | frame | frame | ...
 *     header: magic, format, page size, count, salt 1, salt 2, checksum 1, 2
 *     frame:  page number, pages of the database at a commit or 0, salts, checksums | the page
 */
#include "db/db_int.h"

#include "base/fd.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

enum {
    STEP = 1 << 20,
    HEADER = 32,
    FRAME_HEADER = 24,
    FRAME = FRAME_HEADER + DZ_DB_PAGE_BYTES,
    STEP_FRAMES = STEP / FRAME,
    SUMMED = 8, /* bytes of a frame's header that its checksum covers */
};
#define MAGIC 0x377f0682u /* plus 1: the checksums are of big-endian words */

struct log {
    struct dz_db *db;
    uint8_t *bytes; /* in units of STEP */
    uint8_t salts[8];
    bool big;
    uint32_t a, b; /* the checksum so far */
};

static uint32_t little32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static void sum(struct log *l, const uint8_t *p, size_t n)
{
    for (; n; n -= 8, p += 8) {
        l->a += (l->big ? dz_db_big32(p) : little32(p)) + l->b;
        l->b += (l->big ? dz_db_big32(p + 4) : little32(p + 4)) + l->a;
    }
}

/* 1; 0: there is no log. */
static int begin(struct log *l, struct dz_err *err)
{
    const struct dz_db_disk *d = l->db->disk;
    uint8_t h[HEADER];
    int64_t n = d->ops->read(l->db->disk, DZ_DB_FILE_WAL, h, sizeof h, 0);
    if (n < 0)
        return dz_fail_sys(err, (int)-n, "copy %s: read its WAL", l->db->label);
    if (n < HEADER || (dz_db_big32(h) & ~1u) != MAGIC || dz_db_big32(h + 8) != DZ_DB_PAGE_BYTES)
        return 0;
    l->big = dz_db_big32(h) & 1;
    l->a = l->b = 0;
    memcpy(l->salts, h + 16, sizeof l->salts);
    sum(l, h, 24);
    return l->a == dz_db_big32(h + 24) && l->b == dz_db_big32(h + 28);
}

static bool is_next(struct log *l, const uint8_t *frame)
{
    if (dz_db_big32(frame) == 0 || memcmp(frame + 8, l->salts, sizeof l->salts) != 0)
        return false;
    sum(l, frame, SUMMED);
    sum(l, frame + FRAME_HEADER, DZ_DB_PAGE_BYTES);
    return l->a == dz_db_big32(frame + 16) && l->b == dz_db_big32(frame + 20);
}

/* Read frames from number `at` on into l->bytes; returns how many whole ones there are. */
static int64_t read_frames(const struct log *l, int64_t at, int64_t most, struct dz_err *err)
{
    most = most < STEP_FRAMES ? most : STEP_FRAMES;
    int64_t n = l->db->disk->ops->read(l->db->disk, DZ_DB_FILE_WAL, l->bytes,
                                       (size_t)(most * FRAME), HEADER + at * FRAME);
    return n < 0 ? dz_fail_sys(err, (int)-n, "copy %s: read its WAL", l->db->label) : n / FRAME;
}

/* How many frames are committed, and how many pages the database has then. */
static int find_end(struct log *l, int64_t *ret_frames, uint32_t *ret_pages, struct dz_err *err)
{
    int64_t at = 0, n;
    *ret_frames = 0;
    while ((n = read_frames(l, at, STEP_FRAMES, err)) > 0)
        for (int64_t i = 0; i < n; i++, at++) {
            const uint8_t *frame = l->bytes + i * FRAME;
            if (!is_next(l, frame))
                return 0;
            if (dz_db_big32(frame + 4) != 0) {
                *ret_frames = at + 1;
                *ret_pages = dz_db_big32(frame + 4);
            }
        }
    return n < 0 ? (int)n : 0;
}

static int put_frames(const struct log *l, int64_t frames, uint32_t pages, int fd,
                      struct dz_err *err)
{
    int rc = 0;
    for (int64_t at = 0, n; rc == 0 && at < frames; at += n) {
        n = read_frames(l, at, frames - at, err);
        if (n <= 0)
            return n < 0 ? (int)n : dz_fail(err, DZ_EIO, "copy %s: its WAL shrank", l->db->label);
        for (int64_t i = 0; rc == 0 && i < n; i++) {
            const uint8_t *frame = l->bytes + i * FRAME;
            uint64_t page = dz_db_big32(frame) - 1;
            if (page < pages)
                rc = dz_fd_pwrite(fd, frame + FRAME_HEADER, DZ_DB_PAGE_BYTES,
                                  page * DZ_DB_PAGE_BYTES, err);
        }
    }
    if (rc == 0 && ftruncate(fd, (off_t)pages * DZ_DB_PAGE_BYTES) < 0)
        rc = dz_fail_sys(err, errno, "copy %s: set the size", l->db->label);
    return rc;
}

static int put_file(const struct log *l, int fd, uint64_t *ret_bytes, struct dz_err *err)
{
    int64_t n = 1;
    for (uint64_t at = 0; n > 0; at += (uint64_t)n) {
        n = l->db->disk->ops->read(l->db->disk, DZ_DB_FILE_MAIN, l->bytes, STEP, (int64_t)at);
        if (n < 0)
            return dz_fail_sys(err, (int)-n, "copy %s", l->db->label);
        int rc = n ? dz_fd_pwrite(fd, l->bytes, (size_t)n, at, err) : 0;
        if (rc < 0)
            return rc;
        *ret_bytes = at + (uint64_t)n;
    }
    return 0;
}

int dz_db_copy(struct dz_db *db, int fd, uint64_t *ret_bytes, struct dz_err *err)
{
    struct log l = {.db = db, .bytes = dz_alloc(STEP)};
    int64_t frames = 0;
    uint32_t pages = 0;
    assert(!dz_db_in_txn(db));
    if (!l.bytes)
        return dz_fail(err, DZ_ENOMEM, "copy %s: out of memory", db->label);
    *ret_bytes = 0;
    int rc = put_file(&l, fd, ret_bytes, err);
    if (rc == 0)
        rc = begin(&l, err);
    if (rc > 0)
        rc = find_end(&l, &frames, &pages, err);
    if (rc == 0 && frames) {
        rc = put_frames(&l, frames, pages, fd, err);
        *ret_bytes = (uint64_t)pages * DZ_DB_PAGE_BYTES;
    }
    dz_free(l.bytes);
    return rc;
}
