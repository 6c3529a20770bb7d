/* SPDX-License-Identifier: MIT
 *
 * replica_engine.h - continuous replication of many databases, each written by another process.
 *
 *     cell ──commit──► ID.doze-wal ──inotify──► watcher ──queue──► worker ──LTX file──► store
 *
 * The watcher, one thread, learns from the kernel that a log was written. A worker reads the
 * committed frames from the log's bytes and writes them as one file of the replica. A database that
 * is not written costs no time; one without a process also has no descriptor. The writer never
 * waits for a worker, except that a checkpoint does (base/follow.h).
 *
 * A database is known to be whole in its replica in one of two ways, and is copied whole otherwise:
 *
 *   in a log   the log has the place where the replica ends, by salts and checksum; or the log's
 *              owner has proven that the log was given up exactly there, and the next log began
 *   at rest    the log is empty, and the file has the size and the times that it had when the
 *              replica had all of it
 *
 * The replica of the sandbox ID is at URL/ID. The object URL/.sandboxes/ID.json describes the
 * sandbox and names its owner: the data directory whose daemon writes. Another
 * daemon may take a replica over; the former one then finds the next TXID taken, or, if it has not
 * written for a minute, the other owner, and stops.
 *
 * Functions may be called by any thread; none of them blocks on a store, except those that say so.
 */
#ifndef DZ_REPLICA_REPLICA_ENGINE_H
#define DZ_REPLICA_REPLICA_ENGINE_H

#include "replica/replica.h"

enum {
    DZ_REPLICA_WORKERS_MAX = 64,
    DZ_REPLICA_FOLLOWED_MAX = 1 << 20,
    DZ_REPLICA_ABOUT_MAX = 4 << 20, /* bytes of such an object */
    DZ_REPLICA_OWNER_TEXT = 33,
    DZ_REPLICA_LAGS = 4096, /* delays that are kept until they are taken */
};
#define DZ_REPLICA_ABOUT ".json" /* behind the id */

/* The store of these objects below a URL. */
DZ_NODISCARD int dz_replica_open_about(const char *url, const struct dz_replica_access *access,
                                       bool make, struct dz_blobs **ret_store, struct dz_err *err);
/* URL/ID, with the query of a bucket's URL behind it. */
DZ_NODISCARD int dz_replica_url_of(const char *url, const char *id,
                                   char ret_url[static DZ_REPLICA_URL_MAX], struct dz_err *err);
/* The next engine with this state directory takes the replica of this sandbox over. */
DZ_NODISCARD int dz_replica_mark_take(const char *state_path, const char *id, struct dz_err *err);

struct dz_replica_engine;

struct dz_replica_policy {
    int64_t every_ms;    /* from the beginning of one upload to the next; 0: at once */
    int64_t snapshot_ms; /* a snapshot at least this often, if anything was written */
    int64_t keep_ms;     /* every time since then can be restored */
};

struct dz_replica_engine_opts {
    const char *live_path;           /* directory of the files ID.doze and ID.doze-wal */
    const char *state_path;          /* directory for what the engine remembers; made if missing */
    struct dz_replica_access access; /* its texts must outlive the engine */
    unsigned workers;                /* uploads at the same time */
    int64_t behind_ms;               /* a replica that lacks something for longer is reported */
    int64_t retry_ms; /* from a failure to the next try, then twice as long each time; 0: 500 */
};
/* Starts its threads. */
DZ_NODISCARD int dz_replica_engine_new(const struct dz_replica_engine_opts *opts,
                                       struct dz_replica_engine **ret_engine, struct dz_err *err);
/* Wait at most this long until everything that was committed is in the replicas; with `closing`
 * also until no process has a database. Blocks. Returns how many lack something. */
size_t dz_replica_engine_drain(struct dz_replica_engine *e, int64_t ms, bool closing);
void dz_replica_engine_free(struct dz_replica_engine *e); /* NULL is fine */

struct dz_replica_follow {
    const char *id;
    const char *url;   /* the replica is at url/id */
    const char *about; /* members of a JSON object, without braces: what ID.json says beside
                          the owner */
    struct dz_replica_policy policy;
    bool take; /* take the replica over from another owner */
};
/* Replicate this sandbox from now on; or change how. */
DZ_NODISCARD int dz_replica_engine_follow(struct dz_replica_engine *e,
                                          const struct dz_replica_follow *f, struct dz_err *err);
/* Stop. The replica stays. `erased`: ID.json will say that the sandbox was deleted. */
void dz_replica_engine_leave(struct dz_replica_engine *e, const char *id, bool erased);

/* A process is about to open the database with these descriptors, which it gets copies of. */
void dz_replica_engine_attach(struct dz_replica_engine *e, const char *id, int db_fd, int wal_fd);
/* That process is gone, or about to exit. */
void dz_replica_engine_detach(struct dz_replica_engine *e, const char *id);

enum dz_replica_state {
    DZ_REPLICA_OFF,     /* not replicated */
    DZ_REPLICA_CURRENT, /* the replica has everything, as far as is known */
    DZ_REPLICA_LAGGING, /* something was committed that the replica does not have yet */
    DZ_REPLICA_BEHIND,  /* for longer than behind_ms */
    DZ_REPLICA_FENCED,  /* another daemon writes to the replica */
};
struct dz_replica_status {
    enum dz_replica_state state;
    uint64_t txid; /* the newest in the replica; 0: none, or not known yet */
    int64_t at_ms; /* the time of that transaction */
    int64_t lag_ms;
    uint64_t uploads, bytes, errors; /* since the daemon's start */
    char url[DZ_REPLICA_URL_MAX];
    char error[160]; /* of the last try, or "" */
};
void dz_replica_engine_status(struct dz_replica_engine *e, const char *id,
                              struct dz_replica_status *ret_status);

/* Has the replica all of the live file, which no process has open? 1 and where the replica is and
 * ends; 0: it lacks something, or it is not known. Any thread may call this. */
int dz_replica_engine_has_all(struct dz_replica_engine *e, const char *id,
                              char ret_url[static DZ_REPLICA_URL_MAX], uint64_t *ret_txid);

/* The file behind fd will be the live file, and its bytes are the replica's state at txid. If the
 * replica still ends there, it need not get all pages again. */
void dz_replica_engine_adopt(struct dz_replica_engine *e, const char *id, uint64_t txid, int fd);

struct dz_replica_totals {
    uint64_t followed, lagging, behind, fenced;
    int64_t lag_ms; /* the greatest */
    uint64_t uploads, snapshots, bytes, errors, requests;
    size_t
        lag_count; /* delays from the notice of a commit to its durable file, since the last call */
    float lag_s[DZ_REPLICA_LAGS];
};
/* take: the delays are forgotten then. */
void dz_replica_engine_totals(struct dz_replica_engine *e, bool take,
                              struct dz_replica_totals *ret_totals);

struct dz_replica_report {
    char id[DZ_BLOB_KEY_MAX + 1];
    enum dz_replica_state state; /* CURRENT after BEHIND: recovered */
    char text[160];
};
/* A descriptor that is readable when there are reports. */
int dz_replica_engine_fd(const struct dz_replica_engine *e);
bool dz_replica_engine_next(struct dz_replica_engine *e, struct dz_replica_report *ret_report);

#endif
