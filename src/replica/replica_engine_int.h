/* SPDX-License-Identifier: MIT
 *
 * replica_engine_int.h - shared by the engine's two files: replica_engine.c has the table, the
 * threads and the queue; replica_follow.c brings one replica up to date, in a worker.
 */
#ifndef DZ_REPLICA_REPLICA_ENGINE_INT_H
#define DZ_REPLICA_REPLICA_ENGINE_INT_H

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "blob/blob_cold.h"
#include "replica/replica_engine.h"
#include "replica/replica_int.h"

#include <pthread.h>

enum {
    REPLICA_SLOTS = 1024,
    REPLICA_OWNER_MS =
        60000, /* an owner who has not written for so long looks who owns the replica */
};

/* What a file looks like when it is not written. */
struct stamp {
    int64_t mtime_ns, size;
    uint64_t ino;
};

struct followed {
    /* Guarded by the mutex. */
    struct dz_list link; /* in the queue or a slot of the wheel */
    struct dz_list late; /* in engine.lagging or engine.behind, while something is missing */
    int64_t began_ms;    /* the last try */
    int64_t due_ms;      /* in the wheel */
    int64_t dirty_ns;    /* when a change was noticed that is not in the replica; 0: none */
    int64_t taken_ns;    /* dirty_ns when the worker began */
    char *url, *about;   /* about: to be written, or NULL */
    struct dz_replica_policy policy;
    int watch;                    /* inotify's, or -1 */
    int new_wal_fd, new_owner_fd; /* from attach, for the worker; -1 */
    struct stamp seen; /* of the file when a process was about to open it; ino 0: taken */
    int64_t seen_log;  /* and the size of its log */
    bool attached;
    bool busy, again, gone, erased, take, fenced, behind, moved;
    unsigned failures;
    uint64_t txid, uploads, bytes, errors;
    int64_t at_ms;
    char error[160];

    /* The worker's. */
    bool loaded, known, clean;
    bool suspect; /* with clean: the file was not as it was left when a process opened it */
    struct dz_replica_tip tip;
    struct stamp stamp;         /* with clean */
    int wal_fd;                 /* ours, with the locks of a follower; -1: none */
    int owner_fd, old_owner_fd; /* copies of those of the processes, which keep their locks; -1 */
    int64_t wrote_ms;           /* dz_clock_mono_ms() of the last file */
    unsigned exits;             /* looks whether the process has left */
    unsigned fresh;             /* files since the last merge */
    uint64_t since_bytes, since_txid; /* files since the last snapshot, and its TXID */
    int64_t snapshot_ms;              /* its time */
    int64_t pruned_ms;
    struct dz_replica store; /* of a bucket: open while a process has the database */
    bool opened;
    char id[];
};

struct dz_replica_engine {
    pthread_mutex_t mutex;
    pthread_cond_t work, idle;
    struct dz_map by_id, by_watch;
    struct dz_list queue, wheel[REPLICA_SLOTS], lagging, late;
    size_t waiting; /* in the wheel */
    int64_t turned; /* slots that have been served */
    size_t busy;
    bool stopping;
    _Atomic bool cancel;
    int notify_fd, wake_fd, report_fd, live_fd, state_fd;
    int64_t behind_ms, retry_ms;
    pthread_t watcher, workers[DZ_REPLICA_WORKERS_MAX];
    unsigned worker_count;
    bool watching;
    struct dz_replica_totals totals;
    DZ_VEC(, struct dz_replica_report) reports;
    size_t report_at;
    struct dz_replica_access access;
    char owner[DZ_REPLICA_OWNER_TEXT];
};

/* The worker's copy of what the table says. */
struct task {
    struct dz_replica_engine *e;
    struct followed *o;
    char url[DZ_REPLICA_URL_MAX];
    char *about;
    struct dz_replica_policy policy;
    bool attached, take, erased;
    uint64_t bytes, snapshots, requests;
    bool uploaded;
    struct dz_replica_run run;
};

/* Bring the replica up to date. Returns 1 if it has all of the database, and no process has that.
 */
int dz_replica_serve(struct task *t, struct dz_err *err);
/* Take what attach has left; give up all descriptors. */
void dz_replica_take(struct followed *o, int wal_fd, int owner_fd);
void dz_replica_let_go(struct followed *o);

static inline bool is_bucket(const char *url)
{
    return dz_str_starts(dz_str(url), DZ_STR("s3://"));
}

static inline bool same_stamp(const struct stamp *a, const struct stamp *b)
{
    return a->mtime_ns == b->mtime_ns && a->size == b->size && a->ino == b->ino;
}
/* 0, or a negative errno. */
int dz_replica_stat(int fd, struct stamp *ret);
/* A file of the sandbox in the live directory: a descriptor, or -1 and errno. */
int dz_replica_open_live(const struct dz_replica_engine *e, const char *id, enum dz_cold_file file);

#endif
