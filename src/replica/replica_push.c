/* SPDX-License-Identifier: MIT
 *
 * replica_push.c - bring a replica up to date with a database that does not change meanwhile.
 *
 * The newest file of a replica says where in the log it ended, with the log's checksum at that
 * place. If the log still has this place, the commits behind it become a file of level 0.
 * Otherwise nobody can tell what has changed, and a snapshot of all pages begins a new stretch:
 *
 *     level 9                  [1 ... 8]
 *     level 0    1 2 3 4 5 6 7           9 10      8 exists only as a snapshot
 *
 * The engine (replica_engine.h) writes these pages as a file of level 0 instead: then each TXID
 * behind the first is the name of a file of level 0, which only one of two writers can make.
 *
 * A database without a log is compared with the last snapshot by the checksum of all pages, so that
 * a push of an unchanged database writes nothing.
 *
 * A page of the database is its newest frame in the log, or else it is in the database file.
 *
 * Two pushes get the same next TXID, and the store lets only one of them make the file.
 *
 * The pages of a database that is in use are read without a lock: the log shows the newest commit,
 * and whoever moves its pages into the file changes the file's time.
 */
#include "replica/replica_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum {
    AHEAD = 1 << 20, /* bytes of the database that are read at a time */
    DB_HEADER = 100,
};

static uint64_t node_of(const struct dz_wal_pos *p)
{
    return (uint64_t)p->sum[0] << 32 | p->sum[1];
}

static int check_room_after(uint64_t txid, struct dz_err *err)
{
    return txid < UINT64_MAX ? 0
                             : dz_fail(err, DZ_ELIMIT,
                                       "push to a replica: its last TXID is the greatest there is");
}

int dz_replica_find_tip(struct dz_replica *r, const struct dz_replica_files *all,
                        struct dz_replica_tip *ret_tip, struct dz_err *err)
{
    const struct dz_replica_file *newest = NULL;
    for (size_t i = 0; i < all->n; i++)
        if (!newest || all->p[i].max_txid > newest->max_txid)
            newest = &all->p[i];
    *ret_tip = (struct dz_replica_tip){0};
    if (!newest)
        return 0;
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *blob = NULL;
    DZ_AUTO(dz_ltx_in_release) struct dz_ltx_in in = {0};
    int rc = dz_replica_file_open(r, newest, &blob, &in, err);
    if (rc == DZ_ECORRUPT || rc == DZ_EUNSUPPORTED) { /* a snapshot makes the replica whole again */
        ret_tip->txid = newest->max_txid;
        ret_tip->damaged = true;
        return check_room_after(ret_tip->txid, err);
    }
    if (rc < 0)
        return rc;
    const struct dz_ltx_header *h = &in.head;
    *ret_tip = (struct dz_replica_tip){
        .txid = h->max_txid,
        .time_ms = h->time_ms,
        .placed = h->wal_at > 0 && h->wal_bytes <= INT64_MAX - h->wal_at,
        .place = {.at = (uint64_t)h->wal_at + (uint64_t)h->wal_bytes,
                  .salt = {h->salt[0], h->salt[1]},
                  .sum = {(uint32_t)(h->node >> 32), (uint32_t)h->node}},
        .sum = h->wal_at == 0 ? h->node : 0,
    };
    return check_room_after(h->max_txid, err);
}

/* --- the database as pages ------------------------------------------------------------------ */

/* Has anybody changed the database file between two of these? */
struct stamp {
    struct timespec written, changed;
    int64_t size;
};

/* Writes within one tick of the kernel's clock leave the same time, so wait until that of the last
 * write is over: each later write then leaves another one. */
static int take_stamp(int fd, bool first, struct stamp *ret, struct dz_err *err)
{
    struct stat st;
    for (int tries = 0;; tries++) {
        struct timespec now;
        if (fstat(fd, &st) < 0 || clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0)
            return dz_fail_sys(err, errno, "look at the database");
        bool old = st.st_mtim.tv_sec != now.tv_sec || st.st_mtim.tv_nsec != now.tv_nsec;
        if (old || !first || tries > 100)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = DZ_NS_PER_MS}, NULL);
    }
    *ret = (struct stamp){st.st_mtim, st.st_ctim, st.st_size};
    return 0;
}

struct pages {
    const struct dz_replica_source *source;
    const struct dz_wal_cut *log; /* all of it */
    size_t next;                  /* frame of the log */
    uint32_t page_bytes, count;
    uint64_t file_bytes;
    struct stamp stamp; /* of the database file, from before its first page was read */
    char *piece;        /* of the database file */
    uint64_t written;   /* bytes of the file of all pages */
    bool alone;         /* there is no second writer: a snapshot need not claim its TXID */
    uint64_t from;
    size_t have;
};

/* A file that another process makes shorter ends too early: look again. */
static int shrank(int rc)
{
    return rc == DZ_EIO ? DZ_EBUSY : rc;
}

static void release_pages(struct pages *p)
{
    dz_free(p->piece);
}

static int open_pages(const struct dz_replica_source *s, const struct dz_wal_cut *log,
                      struct pages *ret, struct dz_err *err)
{
    uint8_t head[DB_HEADER];
    struct stat st;
    if (fstat(s->db_fd, &st) < 0)
        return dz_fail_sys(err, errno, "look at the database");
    *ret = (struct pages){.source = s, .log = log, .file_bytes = (uint64_t)st.st_size};
    ret->page_bytes = log->page_bytes;
    if (ret->file_bytes >= DB_HEADER) {
        int rc = dz_fd_pread(s->db_fd, head, sizeof head, 0, err);
        if (rc < 0)
            return rc;
        uint32_t size = (uint32_t)(head[16] << 8 | head[17]);
        ret->page_bytes = size == 1 ? DZ_LTX_PAGE_MAX : size;
        if (memcmp(head, "SQLite format 3", 16) != 0 || !is_page_bytes(ret->page_bytes))
            return dz_fail(err, DZ_ECORRUPT, "the file is not a SQLite database");
    }
    if (log->pages > 0 && log->page_bytes != ret->page_bytes)
        return dz_fail(err, DZ_ECORRUPT, "the page sizes of the database and of its log differ");
    uint64_t count = log->pages;
    if (count == 0 && ret->page_bytes > 0) {
        count = ret->file_bytes / ret->page_bytes;
        if (ret->file_bytes % ret->page_bytes != 0 || count > UINT32_MAX)
            return dz_fail(err, DZ_ECORRUPT, "the size of the database is no number of pages");
    }
    if (count == 0)
        return dz_fail(err, DZ_ESTATE, "the database is empty; there is nothing to push");
    ret->count = (uint32_t)count;
    ret->piece = dz_alloc(AHEAD);
    return ret->piece ? 0 : dz_fail(err, DZ_ENOMEM, "read a database: out of memory");
}

/* The page with this number; numbers rise from call to call. */
static int read_page(struct pages *p, uint32_t number, void *page, struct dz_err *err)
{
    assert(p->log && number > 0);
    const struct dz_wal_frames *f = &p->log->frames;
    uint64_t at = (uint64_t)(number - 1) * p->page_bytes;
    while (p->next < f->n && f->p[p->next].number < number)
        p->next++;
    if (p->next < f->n && f->p[p->next].number == number)
        return shrank(dz_fd_pread(p->source->wal_fd, page, p->page_bytes, f->p[p->next].at, err));
    if (at >= p->file_bytes) { /* the log made the database longer and did not write this page */
        memset(page, 0, p->page_bytes);
        return 0;
    }
    if (at < p->from || at + p->page_bytes > p->from + p->have) {
        uint64_t left = p->file_bytes - at;
        p->from = at;
        p->have = left < AHEAD ? (size_t)left : AHEAD;
        int rc = shrank(dz_fd_pread(p->source->db_fd, p->piece, p->have, at, err));
        if (rc < 0)
            return rc;
    }
    size_t have = p->have - (size_t)(at - p->from), n = have < p->page_bytes ? have : p->page_bytes;
    memcpy(page, p->piece + (at - p->from), n);
    memset((char *)page + n, 0, p->page_bytes - n);
    return 0;
}

/* The CRC-64 of all pages. */
static int sum_pages(struct pages *p, const struct dz_replica_run *run, uint64_t *ret_sum,
                     struct dz_err *err)
{
    DZ_AUTO(dz_freep) char *page = dz_alloc(p->page_bytes);
    uint64_t sum = 0;
    int rc = page ? 0 : dz_fail(err, DZ_ENOMEM, "read a database: out of memory");
    for (uint32_t n = 1; rc == 0; n++) {
        rc = read_page(p, n, page, err);
        if (rc == 0)
            rc = dz_replica_canceled(run, err);
        sum = dz_ltx_sum(sum, page, p->page_bytes);
        if (n == p->count)
            break;
    }
    p->next = 0;
    if (rc == 0)
        *ret_sum = sum;
    return rc;
}

/* --- writing -------------------------------------------------------------------------------- */

static struct dz_ltx_header header_of(const struct dz_replica_tip *tip,
                                      const struct dz_wal_cut *log, uint64_t from)
{
    int64_t now = dz_clock_real_ms();
    struct dz_ltx_header h = {
        .min_txid = tip->txid + 1,
        .max_txid = tip->txid + 1,
        .time_ms = tip->txid && now < tip->time_ms ? tip->time_ms : now, /* times never go back */
    };
    if (log->end.at > 0) {
        h.wal_at = (int64_t)from;
        h.wal_bytes = (int64_t)(log->end.at - from);
        memcpy(h.salt, log->end.salt, sizeof h.salt);
        h.node = node_of(&log->end);
    }
    return h;
}

/* Write a file of all pages. */
static int write_pages(struct dz_replica *r, struct pages *p, const struct dz_replica_file *f,
                       struct dz_ltx_header h, const struct dz_replica_run *run, struct dz_err *err)
{
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *blob = NULL;
    DZ_AUTO(dz_ltx_out_release) struct dz_ltx_out w = {0};
    DZ_AUTO(dz_freep) char *page = dz_alloc(p->page_bytes);
    struct stamp after;
    h.page_bytes = p->page_bytes;
    h.pages = p->count;
    h.min_txid = f->min_txid;
    int rc = page ? 0 : dz_fail(err, DZ_ENOMEM, "write all pages: out of memory");
    if (rc == 0)
        rc = dz_replica_file_new(r, f, h.time_ms, &blob, err);
    if (rc == 0)
        rc = dz_ltx_out_begin(&w, blob, &h, err);
    for (uint32_t n = 1; rc == 0; n++) {
        if (n != dz_ltx_lock_page(h.page_bytes)) {
            rc = read_page(p, n, page, err);
            if (rc == 0)
                rc = dz_ltx_out_page(&w, n, page, err);
        }
        if (rc == 0 && (n & 255) == 0) {
            rc = dz_replica_canceled(run, err);
            if (run && run->progress)
                run->progress(run->arg, (uint64_t)n * h.page_bytes);
        }
        if (n == h.pages)
            break;
    }
    if (rc == 0)
        rc = dz_ltx_out_end(&w, err);
    if (rc == 0)
        rc = take_stamp(p->source->db_fd, false, &after, err);
    if (rc == 0 && memcmp(&after, &p->stamp, sizeof after) != 0)
        rc = dz_fail(err, DZ_EBUSY, "the database file was changed while it was copied");
    if (rc == 0)
        rc = dz_wal_check(p->source->wal_fd, p->log, err);
    p->written = w.at;
    return rc < 0 ? rc : dz_blob_out_commit(blob, err);
}

static void advance(struct dz_replica_tip *tip, const struct dz_ltx_header *h,
                    const struct dz_wal_pos *end, uint64_t bytes)
{
    *tip = (struct dz_replica_tip){.txid = h->max_txid,
                                   .time_ms = h->time_ms,
                                   .placed = end->at > 0,
                                   .place = *end,
                                   .sum = end->at > 0 ? 0 : h->node,
                                   .bytes = bytes};
}

/* Write all pages as the next TXID, or again as the newest one. */
static int write_all(struct dz_replica *r, struct pages *p, bool again,
                     const struct dz_replica_run *run, struct dz_replica_tip *tip,
                     struct dz_err *err)
{
    struct dz_ltx_header h = header_of(tip, p->log, p->log->end.at);
    int rc = 0;
    if (p->log->end.at == 0) {
        rc = sum_pages(p, run, &h.node, err);
        if (rc == 0 && !again && tip->txid && tip->sum == h.node)
            return 0;
    }
    if (again) {
        h.max_txid = tip->txid;
        h.time_ms = tip->time_ms;
    }
    bool whole = again || p->alone || tip->txid == 0 || tip->damaged;
    const struct dz_replica_file f = {.min_txid = whole ? 1 : h.max_txid,
                                      .max_txid = h.max_txid,
                                      .level = whole ? DZ_REPLICA_SNAPSHOTS : 0};
    if (rc == 0)
        rc = write_pages(r, p, &f, h, run, err);
    if (rc == 0)
        advance(tip, &h, &p->log->end, p->written);
    return rc < 0 ? rc : 1;
}

int dz_replica_append(struct dz_replica *r, int wal_fd, const struct dz_wal_cut *c,
                      struct dz_replica_tip *tip, struct dz_err *err)
{
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *blob = NULL;
    DZ_AUTO(dz_ltx_out_release) struct dz_ltx_out w = {0};
    DZ_AUTO(dz_freep) char *page = dz_alloc(c->page_bytes);
    struct dz_ltx_header h = header_of(tip, c, c->begin.at);
    h.page_bytes = c->page_bytes;
    h.pages = c->pages;
    assert(tip->txid > 0 && c->pages > 0);
    const struct dz_replica_file f = {.min_txid = h.min_txid, .max_txid = h.max_txid};
    int rc = page ? 0 : dz_fail(err, DZ_ENOMEM, "write to a replica: out of memory");
    if (rc == 0)
        rc = dz_replica_file_new(r, &f, h.time_ms, &blob, err);
    if (rc == 0)
        rc = dz_ltx_out_begin(&w, blob, &h, err);
    for (size_t i = 0; i < c->frames.n && rc == 0; i++) {
        if (c->frames.p[i].number == dz_ltx_lock_page(c->page_bytes))
            continue;
        rc = shrank(dz_fd_pread(wal_fd, page, c->page_bytes, c->frames.p[i].at, err));
        if (rc == 0)
            rc = dz_ltx_out_page(&w, c->frames.p[i].number, page, err);
    }
    if (rc == 0)
        rc = dz_ltx_out_end(&w, err);
    if (rc == 0)
        rc = dz_wal_check(wal_fd, c, err);
    if (rc == 0)
        rc = dz_blob_out_commit(blob, err);
    if (rc < 0)
        return rc;
    advance(tip, &h, &c->end, w.at);
    return 0;
}

/* Append the commits that have come since the tip, so that the tip is the end of this log. */
static int append_rest(struct dz_replica *r, int wal_fd, const struct dz_wal_cut *log,
                       struct dz_replica_tip *tip, struct dz_err *err)
{
    const struct dz_wal_pos *at = &tip->place, *end = &log->end;
    if (end->at == 0 || (tip->placed && memcmp(at, end, sizeof *at) == 0))
        return 0;
    if (!tip->placed || memcmp(at->salt, end->salt, sizeof at->salt) != 0 || at->at >= end->at)
        return dz_fail(err, DZ_EBUSY, "the log began anew before a snapshot");
    struct dz_wal_cut rest = *log;
    rest.begin = *at;
    rest.frames = (struct dz_wal_frames)DZ_VEC_INIT(DZ_REPLICA_FRAMES_MAX);
    for (size_t i = 0; i < log->frames.n; i++)
        if (log->frames.p[i].at > at->at)
            (void)dz_vec_push(&rest.frames, log->frames.p[i]);
    int rc = rest.frames.err ? dz_fail(err, DZ_ENOMEM, "write a snapshot: out of memory")
                             : dz_replica_append(r, wal_fd, &rest, tip, err);
    dz_vec_release(&rest.frames);
    return rc;
}

int dz_replica_write_all(struct dz_replica *r, const struct dz_replica_source *source, bool again,
                         const struct dz_replica_run *run, struct dz_replica_tip *tip,
                         struct dz_err *err)
{
    DZ_AUTO(dz_wal_cut_release) struct dz_wal_cut log = {0};
    DZ_AUTO(release_pages) struct pages pages = {0};
    struct stamp stamp;
    int rc = take_stamp(source->db_fd, true, &stamp, err);
    if (rc == 0 && source->wal_fd >= 0)
        rc = dz_wal_cut(source->wal_fd, NULL, &log, err);
    if (rc == 0)
        rc = open_pages(source, &log, &pages, err);
    pages.stamp = stamp;
    if (rc == 0 && again)
        rc = append_rest(r, source->wal_fd, &log, tip, err);
    if (rc == 0)
        rc = write_all(r, &pages, again, run, tip, err);
    return rc < 0 ? rc : 0;
}

int dz_replica_tidy(struct dz_replica *r, const struct dz_replica_keep *keep,
                    const struct dz_replica_run *run, struct dz_err *err)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files drop = DZ_REPLICA_FILES_INIT;
    for (int rc = 1; rc == 1;) {
        DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
        DZ_AUTO(dz_vec_releasep) struct dz_replica_files from = DZ_REPLICA_FILES_INIT;
        rc = dz_replica_list(r, &all, err);
        if (rc == 0)
            rc = dz_replica_plan_merge(&all, &from, err);
        int merged = rc == 1 ? dz_replica_merge(r, &from, run, err) : 0;
        if (rc < 0 || merged < 0)
            return rc < 0 ? rc : merged;
        if (rc == 1 || !keep)
            continue;
        rc = dz_replica_time(r, &all, run ? run->cancel : NULL, err);
        if (rc == 0)
            rc = dz_replica_plan_prune(&all, keep, &drop, err);
        if (rc == 0)
            rc = dz_replica_drop(r, &drop, err);
    }
    return 0;
}

/* Find the transactions in the log behind the replica's end. 1: there are some; 0: there are none;
 * DZ_ESTATE: the log does not show it. */
static int cut_new(const struct dz_replica_source *s, const struct dz_replica_tip *tip,
                   struct dz_wal_cut *ret, struct dz_err *err)
{
    if (!tip->placed || s->wal_fd < 0)
        return DZ_ESTATE;
    int rc = dz_wal_cut(s->wal_fd, &tip->place, ret, err);
    return rc < 0 ? rc : ret->pages > 0;
}

static int push(struct dz_replica *r, const struct dz_replica_source *s,
                const struct dz_replica_files *all, struct dz_replica_pushed *to,
                const struct dz_replica_run *run, struct dz_err *err)
{
    DZ_AUTO(dz_wal_cut_release) struct dz_wal_cut log = {0};
    DZ_AUTO(dz_wal_cut_release) struct dz_wal_cut fresh = {0};
    DZ_AUTO(release_pages) struct pages pages = {0};
    struct dz_replica_tip tip;
    int rc = dz_replica_find_tip(r, all, &tip, err);
    if (rc == 0)
        rc = take_stamp(s->db_fd, true, &pages.stamp, err);
    struct stamp stamp = pages.stamp;
    if (rc == 0 && s->wal_fd >= 0)
        rc = dz_wal_cut(s->wal_fd, NULL, &log, err);
    if (rc == 0)
        rc = open_pages(s, &log, &pages, err);
    pages.stamp = stamp;
    pages.alone = true;
    if (rc < 0)
        return rc;
    int cut = cut_new(s, &tip, &fresh, err);
    if (cut < 0 && cut != DZ_ESTATE)
        return cut;
    to->pages = pages.count;
    to->bytes = (uint64_t)pages.count * pages.page_bytes;
    to->txid = tip.txid + (cut != 0);
    if (cut == 1) {
        to->commits = fresh.commits;
        rc = dz_replica_append(r, s->wal_fd, &fresh, &tip, err);
    }
    if (rc == 0 && (cut < 0 || (cut == 1 && dz_replica_plan_snapshot(all, to->bytes)))) {
        to->commits = cut < 0 ? log.commits : to->commits;
        rc = write_all(r, &pages, cut == 1, run, &tip, err);
        to->snapshot = rc == 1;
    }
    to->txid = tip.txid;
    return rc < 0 ? rc : 0;
}

int dz_replica_push(struct dz_replica *r, const struct dz_replica_source *source,
                    const struct dz_replica_run *run, struct dz_replica_pushed *ret_pushed,
                    struct dz_err *err)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    struct dz_replica_pushed to = {0};
    int rc = dz_replica_list(r, &all, err);
    if (rc == 0)
        rc = push(r, source, &all, &to, run, err);
    if (rc == DZ_EEXIST)
        return dz_fail(
            err, rc,
            "another writer has just added TXID %016llx to the replica; only one may write",
            (unsigned long long)to.txid);
    if (rc == 0)
        rc = dz_replica_tidy(r, NULL, run, err);
    if (rc < 0)
        return rc;
    *ret_pushed = to;
    return 0;
}
