/* SPDX-License-Identifier: MIT
 *
 * replica_wal.c - the transactions in a SQLite log, read from its bytes.
 *
 * A log is a header of 32 bytes and frames: 24 bytes about a page, then the page. Integers are
 * big-endian. SQLite's file format, "The Write-Ahead Log":
 *
 *     header  magic 0x377f0682 or ..83, 3007000, page size, sequence, salt (2), checksum (2)
 *     frame   page number, pages of the database after a commit or 0, salt (2), checksum (2)
 *
 * The checksum of a frame continues that of the frame before it; the first one continues the
 * header's. The lowest bit of the magic says in which byte order words are added up. A log begins
 * anew from its start with other salts; older frames behind the new ones have the old salts and end
 * the reading. A frame counts if its salts and checksum are right and a commit follows.
 *
 * SQLite does not change a committed frame until the log begins anew, so this may read while
 * another process writes. If the log begins anew meanwhile, some frames read no longer match, and
 * the cut ends before them; the next cut finds that its place is gone.
 */
#include "replica/replica_int.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
    WAL_HEADER = 32,
    FRAME_HEADER = 24,
    PIECE = 1 << 20, /* bytes read at a time, at least a frame */
    WAL_VERSION = 3007000,
};
#define WAL_MAGIC UINT32_C(0x377f0682)

struct wal {
    int fd;
    uint64_t size;
    uint32_t page_bytes, sequence;
    bool big_endian; /* of the checksum's words */
    struct dz_wal_pos start;
};

/* SQLite's checksum over n bytes, a multiple of 8. */
static void add_sum(bool big_endian, const uint8_t *p, size_t n, uint32_t sum[static 2])
{
    uint32_t a = sum[0], b = sum[1];
    for (size_t i = 0; i < n; i += 8) {
        uint32_t x, y;
        memcpy(&x, p + i, 4);
        memcpy(&y, p + i + 4, 4);
        a += (big_endian ? be32toh(x) : le32toh(x)) + b;
        b += (big_endian ? be32toh(y) : le32toh(y)) + a;
    }
    sum[0] = a;
    sum[1] = b;
}

/* 1; 0: there is no log yet; SQLite begins a new one over a header that is not valid. */
static int read_header(int fd, struct wal *w, struct dz_err *err)
{
    uint8_t h[WAL_HEADER];
    struct stat st;
    if (fstat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "look at a log");
    *w = (struct wal){.fd = fd, .size = (uint64_t)st.st_size};
    if (w->size < WAL_HEADER)
        return 0;
    int rc = dz_fd_pread(fd, h, sizeof h, 0, err);
    if (rc < 0)
        return rc;
    w->big_endian = get_be32(h) & 1;
    w->page_bytes = get_be32(h + 8);
    w->sequence = get_be32(h + 12);
    add_sum(w->big_endian, h, WAL_HEADER - 8, w->start.sum);
    if ((get_be32(h) & ~1u) != WAL_MAGIC || !is_page_bytes(w->page_bytes) ||
        get_be32(h + 24) != w->start.sum[0] || get_be32(h + 28) != w->start.sum[1])
        return 0;
    if (get_be32(h + 4) != WAL_VERSION)
        return dz_fail(err, DZ_EUNSUPPORTED, "the log has version %u instead of %d",
                       get_be32(h + 4), WAL_VERSION);
    w->start.at = WAL_HEADER;
    w->start.salt[0] = get_be32(h + 16);
    w->start.salt[1] = get_be32(h + 20);
    return 1;
}

static int place_is_gone(struct dz_err *err)
{
    return dz_fail(err, DZ_ESTATE,
                   "the log does not continue from the place that was read last: it began anew");
}

/* Is this place in the log? The frame before it has the checksum of everything up to it. */
static int check_place(const struct wal *w, const struct dz_wal_pos *p, struct dz_err *err)
{
    uint8_t h[FRAME_HEADER];
    uint64_t frame = FRAME_HEADER + (uint64_t)w->page_bytes;
    if (p->salt[0] != w->start.salt[0] || p->salt[1] != w->start.salt[1] || p->at > w->size ||
        p->at < WAL_HEADER || (p->at - WAL_HEADER) % frame != 0)
        return place_is_gone(err);
    if (p->at == WAL_HEADER)
        return p->sum[0] == w->start.sum[0] && p->sum[1] == w->start.sum[1] ? 0
                                                                            : place_is_gone(err);
    int rc = dz_fd_pread(w->fd, h, sizeof h, p->at - frame, err);
    if (rc < 0)
        return rc;
    bool same = get_be32(h + 8) == p->salt[0] && get_be32(h + 12) == p->salt[1] &&
                get_be32(h + 16) == p->sum[0] && get_be32(h + 20) == p->sum[1];
    return same ? 0 : place_is_gone(err);
}

static int by_page(const void *a, const void *b)
{
    const struct dz_wal_frame *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Keep the newest frame of each page that the database still has. */
static void settle(struct dz_wal_cut *c)
{
    struct dz_wal_frames *f = &c->frames;
    size_t kept = 0;
    if (f->n > 0)
        qsort(f->p, f->n, sizeof *f->p, by_page);
    for (size_t i = 0; i < f->n; i++)
        if ((i + 1 == f->n || f->p[i + 1].number != f->p[i].number) && f->p[i].number <= c->pages)
            f->p[kept++] = f->p[i];
    f->n = kept;
}

/* Read one frame: true if it belongs to the log. Advances *at and *sum past it. */
static bool take_frame(const struct wal *w, const uint8_t *p, uint32_t sum[static 2])
{
    uint32_t next[2] = {sum[0], sum[1]};
    if (get_be32(p) == 0 || get_be32(p + 8) != w->start.salt[0] ||
        get_be32(p + 12) != w->start.salt[1])
        return false;
    add_sum(w->big_endian, p, 8, next);
    add_sum(w->big_endian, p + FRAME_HEADER, w->page_bytes, next);
    if (get_be32(p + 16) != next[0] || get_be32(p + 20) != next[1])
        return false;
    memcpy(sum, next, sizeof next);
    return true;
}

static int read_frames(const struct wal *w, struct dz_wal_cut *c, struct dz_err *err)
{
    size_t frame = FRAME_HEADER + (size_t)w->page_bytes, most = PIECE / frame, committed = 0;
    DZ_AUTO(dz_freep) uint8_t *piece = dz_alloc(most * frame);
    struct dz_wal_pos now = c->end;
    if (!piece)
        return dz_fail(err, DZ_ENOMEM, "read a log: out of memory");
    for (bool go_on = true; go_on;) {
        uint64_t left = (w->size - now.at) / frame;
        size_t n = left < most ? (size_t)left : most;
        int rc = n ? dz_fd_pread(w->fd, piece, n * frame, now.at, err) : 0;
        if (rc < 0)
            return rc;
        go_on = n > 0;
        for (size_t i = 0; i < n && go_on; i++) {
            const uint8_t *p = piece + i * frame;
            go_on = take_frame(w, p, now.sum);
            if (!go_on)
                break;
            if (dz_vec_push(&c->frames,
                            ((struct dz_wal_frame){get_be32(p), now.at + FRAME_HEADER})) < 0)
                return dz_fail(err, c->frames.err, "read a log: it has more than %d frames",
                               DZ_REPLICA_FRAMES_MAX);
            now.at += frame;
            if (get_be32(p + 4) == 0)
                continue;
            c->end = now;
            c->pages = get_be32(p + 4);
            c->commits++;
            committed = c->frames.n;
        }
    }
    c->frames.n = committed;
    settle(c);
    return 0;
}

int dz_wal_cut(int fd, const struct dz_wal_pos *from, struct dz_wal_cut *ret_cut,
               struct dz_err *err)
{
    struct dz_wal_cut c = {.frames = DZ_VEC_INIT(DZ_REPLICA_FRAMES_MAX)};
    bool begin = !from || from->at == 0;
    struct wal w;
    int rc = read_header(fd, &w, err);
    if (rc == 0 && !begin)
        rc = place_is_gone(err);
    if (rc <= 0) {
        if (rc == 0)
            *ret_cut = c;
        return rc;
    }
    c.page_bytes = w.page_bytes;
    rc = begin ? 0 : check_place(&w, from, err);
    c.begin = c.end = begin ? w.start : *from;
    c.sequence = w.sequence;
    if (rc == 0)
        rc = read_frames(&w, &c, err);
    if (rc < 0)
        dz_wal_cut_release(&c);
    else
        *ret_cut = c;
    return rc;
}

/* SQLite writes the header of a new log before its first frame. */
int dz_wal_check(int fd, const struct dz_wal_cut *c, struct dz_err *err)
{
    struct wal w;
    if (c->end.at == 0)
        return 0;
    int rc = read_header(fd, &w, err);
    if (rc < 0 && rc != DZ_EIO)
        return rc;
    if (rc == 1 && memcmp(w.start.salt, c->end.salt, sizeof w.start.salt) == 0)
        return 0;
    return dz_fail(err, DZ_EBUSY, "the log began anew while it was read");
}

void dz_wal_cut_release(struct dz_wal_cut *c)
{
    if (c->frames.max)
        dz_vec_release(&c->frames);
}
