/* SPDX-License-Identifier: MIT
 *
 * replica.h - copies of a SQLite database as a history of transactions, in the layout of
 * litestream 0.5 (docs/format/replica.md). litestream can restore our replicas, and we can restore
 * its.
 *
 * A replica is a set of LTX files. Each has the pages that a range of transactions (TXIDs, counted
 * from 1) has changed, as they were after the last of them:
 *
 *     level 9   [1 ................ 400]                         snapshots: all pages
 *     level 1   [1 .. 16][17 .. 32] ... [401 .. 416]             16 files of level 0 in one
 *     level 0                        399 400 401 ... 416 417     one file for each upload
 *
 * A restore begins with a file whose range begins with 1, and applies files on top of it as long as
 * one continues the range.
 *
 *     ltx      one file: writer, reader                               replica_ltx.c
 *     wal      the committed frames of a SQLite log; without SQLite   replica_wal.c
 *     plan     which files to restore, to merge, to remove: pure      replica_plan.c
 *     replica  the stores of the levels; restore, merge, push         replica.c, replica_push.c
 *
 * Bytes of a store and of a log may be hostile: everything is checked before it is used. All of it
 * blocks. A handle belongs to one thread at a time.
 */
#ifndef DZ_REPLICA_REPLICA_H
#define DZ_REPLICA_REPLICA_H

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "blob/blob_s3.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DZ_LTX_PAGE_MIN = 512,
    DZ_LTX_PAGE_MAX = 65536,
    DZ_LTX_HEADER_BYTES = 100,
    DZ_REPLICA_LEVELS = 10,
    DZ_REPLICA_SNAPSHOTS = 9,        /* their level */
    DZ_REPLICA_MERGE = 16,           /* files of a level that become one of the next */
    DZ_REPLICA_MERGED = 3,           /* the highest level of merged files */
    DZ_REPLICA_FILES_MAX = 1 << 20,  /* of a replica */
    DZ_REPLICA_FRAMES_MAX = 1 << 26, /* of a log that are read at once */
    DZ_REPLICA_URL_MAX = 4096,
    DZ_TXID_TEXT = 17,
};

typedef const _Atomic bool
    *dz_replica_cancel; /* set by another thread: DZ_ECANCELED; may be NULL */

/* --- one LTX file ---------------------------------------------------------------------------- */

struct dz_ltx_header {
    uint32_t page_bytes; /* a power of two */
    uint32_t pages;      /* of the database after the file is applied; not 0 */
    uint64_t min_txid, max_txid;
    int64_t time_ms; /* of the last transaction */
    /* Where in a log the pages came from; all 0: unknown. wal_at + wal_bytes is where the log goes
     * on. In files of ours `node` is the log's checksum there (replica_wal.c); in a snapshot of a
     * database without a log, the CRC-64 of all its pages. */
    int64_t wal_at, wal_bytes;
    uint32_t salt[2];
    uint64_t node;
};

/* A writer. Zeroed memory may be released. */
struct dz_ltx_out {
    struct dz_ltx_header head;
    struct dz_blob_out *out; /* borrowed */
    uint64_t at, crc;        /* bytes written so far, and their checksum */
    uint32_t last;           /* the last page's number */
    struct dz_buf index;
    char *piece;
    size_t fill;
};
DZ_NODISCARD int dz_ltx_out_begin(struct dz_ltx_out *w, struct dz_blob_out *out,
                                  const struct dz_ltx_header *h, struct dz_err *err);
/* Pages come by rising number, at most h->pages, without the page of SQLite's lock bytes; a file
 * whose min_txid is 1 has all of them (asserted). */
DZ_NODISCARD int dz_ltx_out_page(struct dz_ltx_out *w, uint32_t number, const void *page,
                                 struct dz_err *err);
DZ_NODISCARD int dz_ltx_out_end(struct dz_ltx_out *w, struct dz_err *err); /* does not commit */
void dz_ltx_out_release(struct dz_ltx_out *w);

/* A reader. Zeroed memory may be released. */
struct dz_ltx_in {
    struct dz_ltx_header head;
    struct dz_blob_in *in; /* borrowed */
    uint64_t at, crc;
    uint64_t index_crc, index_bytes; /* of the index that the pages so far should have */
    uint32_t last;
    bool ended, framed; /* framed: an early 0.5 wrote it, with a frame of LZ4 for each page */
    char *piece;
    size_t lo, hi; /* of piece: bytes that were read and are not used yet */
    struct LZ4F_dctx_s *frames;
};
DZ_NODISCARD int dz_ltx_in_begin(struct dz_ltx_in *r, struct dz_blob_in *in, struct dz_err *err);
/* The next page, of head.page_bytes bytes: 1. At the end 0, and everything up to the last byte has
 * been checked. DZ_ECORRUPT. */
DZ_NODISCARD int dz_ltx_in_page(struct dz_ltx_in *r, uint32_t *ret_number, void *ret_page,
                                struct dz_err *err);
void dz_ltx_in_release(struct dz_ltx_in *r);

/* The page of the bytes that SQLite locks: no file has it, and a database has zeros there. */
uint32_t dz_ltx_lock_page(uint32_t page_bytes);

/* --- a SQLite log ---------------------------------------------------------------------------- */

/* A place between two transactions of a log. */
struct dz_wal_pos {
    uint64_t at; /* of the next frame; 0: before the first frame of any log */
    uint32_t salt[2], sum[2];
};
struct dz_wal_frame {
    uint32_t number; /* of the page */
    uint64_t at;     /* of the page's bytes in the log */
};
DZ_VEC(dz_wal_frames, struct dz_wal_frame);

struct dz_wal_cut {
    uint32_t page_bytes;
    uint32_t pages; /* of the database after the last commit; 0: there is no commit */
    uint64_t commits;
    struct dz_wal_pos begin, end;
    uint32_t sequence; /* of the log: 0 if it is the first one since its database was opened */
    struct dz_wal_frames frames; /* the newest of each page up to `pages`, by rising number */
};

/* Read the transactions that are complete in the log behind `from` (NULL: all of it). An empty log,
 * or one without a valid header, has none. Frames behind the last commit are left out: SQLite may
 * still be writing them. DZ_ESTATE: the log does not have this place; it began anew, or another
 * history was written there. Release *ret_cut if the result is 0. */
DZ_NODISCARD int dz_wal_cut(int fd, const struct dz_wal_pos *from, struct dz_wal_cut *ret_cut,
                            struct dz_err *err);
/* Check, after the pages of a cut were read, that they were its pages: DZ_EBUSY if the log began
 * anew after the cut, whose frames may then have been overwritten before they were read. */
DZ_NODISCARD int dz_wal_check(int fd, const struct dz_wal_cut *c, struct dz_err *err);
void dz_wal_cut_release(struct dz_wal_cut *c); /* zeroed is fine */

/* --- plans: pure functions over a list ------------------------------------------------------- */

struct dz_replica_file {
    uint64_t min_txid, max_txid, size;
    int64_t time_ms; /* or one of those below */
    uint8_t level;
};
#define DZ_REPLICA_UNTIMED INT64_MIN /* not read yet */
#define DZ_REPLICA_DAMAGED INT64_MAX /* the file's header is damaged: younger than any time */
DZ_VEC(dz_replica_files, struct dz_replica_file);
#define DZ_REPLICA_FILES_INIT DZ_VEC_INIT(DZ_REPLICA_FILES_MAX)

/* The last point that all of these allow. */
struct dz_replica_goal {
    uint64_t txid; /* 0: any. This one exactly, or DZ_ENOENT */
    bool timed;
    int64_t time_ms; /* the newest transaction that is not younger; the files must be timed */
};
/* The files to apply, in order. DZ_ENOENT: the replica has no such point; DZ_ECORRUPT: a file on
 * the way is missing. */
DZ_NODISCARD int dz_replica_plan_restore(const struct dz_replica_files *all,
                                         const struct dz_replica_goal *goal,
                                         struct dz_replica_files *ret_plan, struct dz_err *err);
/* Files of one level that are due to become one of the next: 1, or 0. */
DZ_NODISCARD int dz_replica_plan_merge(const struct dz_replica_files *all,
                                       struct dz_replica_files *ret_from, struct dz_err *err);
/* Is a snapshot of `bytes` cheaper to restore than the files since the last one? */
bool dz_replica_plan_snapshot(const struct dz_replica_files *all, uint64_t bytes);

struct dz_replica_keep {
    int64_t now_ms;
    int64_t keep_ms; /* every time since then can be restored, to the precision of the next */
    int64_t fine_ms; /* files that were merged stay this long */
};
/* The files that may be removed, in any order. They must be timed. The newest point always stays.
 */
DZ_NODISCARD int dz_replica_plan_prune(const struct dz_replica_files *all,
                                       const struct dz_replica_keep *keep,
                                       struct dz_replica_files *ret_drop, struct dz_err *err);

/* --- a replica ------------------------------------------------------------------------------- */

struct dz_replica {
    struct dz_blobs *levels[DZ_REPLICA_LEVELS]; /* NULL: the replica has no such level */
    struct dz_blobs *root;                      /* what stands beside the levels; or NULL */
};

/* By what means replicas are read and written. All texts are borrowed. */
struct dz_replica_access {
    const char *key_file; /* all objects are encrypted (blob_crypt.h); NULL, "": none is */
    struct dz_s3_opts s3; /* of buckets; its url is not used */
};

/* file:///DIR, or s3://BUCKET[/PREFIX][?...] (blob_s3.h). With make, missing directories of a
 * file URL are made; without, DZ_ENOENT if there is none. */
DZ_NODISCARD int dz_replica_open(const char *url, const struct dz_replica_access *access, bool make,
                                 struct dz_replica *ret_replica, struct dz_err *err);
/* The same with only some of its stores: bits of levels, and DZ_REPLICA_ROOT. */
#define DZ_REPLICA_ROOT (1u << DZ_REPLICA_LEVELS)
DZ_NODISCARD int dz_replica_open_some(const char *url, const struct dz_replica_access *access,
                                      bool make, unsigned stores, struct dz_replica *ret_replica,
                                      struct dz_err *err);
void dz_replica_close(struct dz_replica *r); /* zeroed is fine */

/* Its files by level and range, not timed. Objects with other names are left out. */
DZ_NODISCARD int dz_replica_list(struct dz_replica *r, struct dz_replica_files *ret_files,
                                 struct dz_err *err);
/* Read the times from the files' headers. A file that was removed meanwhile leaves the list; a file
 * that is damaged stays. */
DZ_NODISCARD int dz_replica_time(struct dz_replica *r, struct dz_replica_files *files,
                                 dz_replica_cancel cancel, struct dz_err *err);
/* 16 digits, as in the names of the files. Returns out. */
char *dz_txid_print(uint64_t txid, char out[static DZ_TXID_TEXT]);
/* Such digits, or a decimal number of fewer digits; not 0. DZ_EINVAL. */
DZ_NODISCARD int dz_txid_parse(const char *text, uint64_t *ret_txid, struct dz_err *err);

struct dz_replica_run {
    dz_replica_cancel cancel;
    void (*progress)(void *arg, uint64_t bytes); /* read so far; may be NULL */
    void *arg;
};
struct dz_replica_restored {
    uint64_t txid, bytes; /* of the database */
    int64_t time_ms;
};
/* Bytes of the database that a plan restores: its last file says so. */
DZ_NODISCARD int dz_replica_plan_bytes(struct dz_replica *r, const struct dz_replica_files *plan,
                                       uint64_t *ret_bytes, struct dz_err *err);
/* Write the database to an empty file. The file is not synced. */
DZ_NODISCARD int dz_replica_restore(struct dz_replica *r, const struct dz_replica_files *plan,
                                    int fd, const struct dz_replica_run *run,
                                    struct dz_replica_restored *ret_restored, struct dz_err *err);
/* Read a whole file and check it. */
DZ_NODISCARD int dz_replica_check(struct dz_replica *r, const struct dz_replica_file *f,
                                  const struct dz_replica_run *run, struct dz_err *err);
/* Make one file of several, on the next level. They stay. */
DZ_NODISCARD int dz_replica_merge(struct dz_replica *r, const struct dz_replica_files *from,
                                  const struct dz_replica_run *run, struct dz_err *err);
/* Remove the whole replica, with its directories if it is one in a directory. What is not doze's
 * stays. */
DZ_NODISCARD int dz_replica_erase(const char *url, const struct dz_replica_access *access,
                                  struct dz_err *err);
/* Remove files, as dz_replica_plan_prune() says. */
DZ_NODISCARD int dz_replica_drop(struct dz_replica *r, const struct dz_replica_files *files,
                                 struct dz_err *err);

/* The end of a replica, as its newest file says. */
struct dz_replica_tip {
    uint64_t txid; /* 0: it is empty */
    int64_t time_ms;
    bool placed; /* `place` is where its newest file ended in a log */
    bool damaged;
    struct dz_wal_pos place;
    uint64_t sum;   /* of all pages, if the newest file came from a database without a log */
    uint64_t bytes; /* of the newest file, if it was written from this tip */
};
DZ_NODISCARD int dz_replica_find_tip(struct dz_replica *r, const struct dz_replica_files *all,
                                     struct dz_replica_tip *ret_tip, struct dz_err *err);
/* Write the transactions of a cut, which continue the tip, as the next file of level 0, and advance
 * the tip. DZ_EEXIST: the next TXID is taken. DZ_EBUSY: the log began anew meanwhile, and nothing
 * was written. */
DZ_NODISCARD int dz_replica_append(struct dz_replica *r, int wal_fd, const struct dz_wal_cut *cut,
                                   struct dz_replica_tip *tip, struct dz_err *err);

/* A database and its log. */
struct dz_replica_source {
    int db_fd, wal_fd; /* wal_fd -1: it has no log */
};
/* Write all pages as the next TXID, and advance the tip. In an empty replica that is a snapshot;
 * behind other files it is a file of level 0, so that of two writers only one gets the TXID. With
 * `again` it is a snapshot of the newest TXID; commits behind the tip, whose place the log must
 * still have, are appended before. Other processes may write to the log meanwhile; DZ_EBUSY: one
 * has changed the database file, or began the log anew; try again. DZ_EEXIST. */
DZ_NODISCARD int dz_replica_write_all(struct dz_replica *r, const struct dz_replica_source *source,
                                      bool again, const struct dz_replica_run *run,
                                      struct dz_replica_tip *tip, struct dz_err *err);
/* Merge files as long as some are due, and remove those that `keep` (NULL: remove none) gives up.
 */
DZ_NODISCARD int dz_replica_tidy(struct dz_replica *r, const struct dz_replica_keep *keep,
                                 const struct dz_replica_run *run, struct dz_err *err);

struct dz_replica_pushed {
    uint64_t txid;         /* the newest of the replica now */
    uint64_t commits;      /* of the log that became a transaction; 0: none was new */
    uint64_t pages, bytes; /* of the database */
    bool snapshot;         /* all pages were written */
};
/* Write what the replica lacks: the commits of the log, if the log continues where the
 * replica ends; or else all pages. Then merge files that are due. No process may change the
 * database meanwhile. DZ_EEXIST: another writer is at work. */
DZ_NODISCARD int dz_replica_push(struct dz_replica *r, const struct dz_replica_source *source,
                                 const struct dz_replica_run *run,
                                 struct dz_replica_pushed *ret_pushed, struct dz_err *err);

#endif
