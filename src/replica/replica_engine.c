/* SPDX-License-Identifier: MIT
 *
 * replica_engine.c - continuous replication: what is followed, the watcher, the workers.
 *
 *                     changed              taken by a worker
 *     IDLE ─────────────────────► QUEUED ───────────────────► BUSY
 *      ▲                            ▲ time has come            │
 *      │ nothing new                │                          │ changed meanwhile, or failed
 *      └────────────────────────────┼── WAITING ◄──────────────┘
 *
 * The mutex guards the table, the lists and the fields of an object that are marked so. The other
 * fields belong to the worker that has the object (busy); there is at most one.
 *
 * Waiting objects are in a wheel of slots of SLOT_MS, so that any number of them costs one timeout.
 */
#include "replica/replica_engine_int.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/follow.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
enum {
    SLOT_MS = 4,
    RETRY_MS = 500, /* if the caller does not say another time */
    RETRY_MAX_MS = 60000,
    AGAIN_MS = 20, /* the database was changed while it was copied */
    EXIT_MS = 5,   /* between looks whether a process has left a database */
    BUCKET_EVERY_MS = 1000,
    REPORTS_MAX = 10000,
};

static void lock(struct dz_replica_engine *e)
{
    (void)pthread_mutex_lock(&e->mutex);
}

static void unlock(struct dz_replica_engine *e)
{
    (void)pthread_mutex_unlock(&e->mutex);
}

static void kick(int fd)
{
    uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

/* --- the queue and the wheel; with the mutex ------------------------------------------------- */

static void report(struct dz_replica_engine *e, const struct followed *o,
                   enum dz_replica_state state, const char *text)
{
    struct dz_replica_report r = {.state = state};
    (void)snprintf(r.id, sizeof r.id, "%s", o->id);
    (void)snprintf(r.text, sizeof r.text, "%s", text);
    if (dz_vec_push(&e->reports, r) == 0)
        kick(e->report_fd);
    e->reports.err = 0; /* too many: this one is lost, the state stays visible */
}

static bool is_listed(const struct followed *o)
{
    return !dz_list_empty(&o->link);
}

static void unlist(struct dz_replica_engine *e, struct followed *o)
{
    if (is_listed(o) && o->due_ms)
        e->waiting--;
    o->due_ms = 0;
    dz_list_remove(&o->link);
}

static void enqueue(struct dz_replica_engine *e, struct followed *o)
{
    if (o->busy) {
        o->again = true;
        return;
    }
    if (is_listed(o) && o->due_ms == 0)
        return;
    unlist(e, o);
    dz_list_push_back(&e->queue, &o->link);
    (void)pthread_cond_signal(&e->work);
}

/* Put it into the queue after this time. */
static void postpone(struct dz_replica_engine *e, struct followed *o, int64_t ms)
{
    int64_t now = dz_clock_mono_ms(), slots = ms / SLOT_MS + 1;
    assert(!o->busy);
    if (ms <= 0) {
        enqueue(e, o);
        return;
    }
    unlist(e, o);
    o->due_ms = now + ms;
    slots = slots < REPLICA_SLOTS ? slots : REPLICA_SLOTS - 1;
    dz_list_push_back(&e->wheel[(now / SLOT_MS + slots) % REPLICA_SLOTS], &o->link);
    if (e->waiting++ == 0) {
        e->turned = now / SLOT_MS;
        kick(e->wake_fd); /* the watcher waits without a limit */
    }
}

/* Serve the slots whose time has come. */
static void turn_wheel(struct dz_replica_engine *e)
{
    int64_t now = dz_clock_mono_ms(), last = now / SLOT_MS;
    if (last - e->turned > REPLICA_SLOTS)
        e->turned = last - REPLICA_SLOTS;
    for (; e->turned <= last && e->waiting > 0; e->turned++) {
        struct dz_list slot = DZ_LIST_INIT(slot);
        dz_list_splice_back(&slot, &e->wheel[e->turned % REPLICA_SLOTS]);
        while (!dz_list_empty(&slot)) {
            struct followed *o = DZ_LIST_FIRST(struct followed, &slot, link);
            int64_t left = o->due_ms - now;
            e->waiting--;
            o->due_ms = 0;
            dz_list_remove(&o->link);
            if (left > SLOT_MS)
                postpone(e, o, left);
            else
                enqueue(e, o);
        }
    }
}

static int64_t every_of(const struct followed *o)
{
    return o->policy.every_ms ? o->policy.every_ms : is_bucket(o->url) ? BUCKET_EVERY_MS : 0;
}

/* Something may have been committed. */
static void note_dirty(struct dz_replica_engine *e, struct followed *o)
{
    if (o->fenced || o->gone)
        return;
    if (!o->dirty_ns)
        o->dirty_ns = dz_clock_mono_ns();
    if (dz_list_empty(&o->late)) {
        dz_list_push_back(&e->lagging, &o->late);
    }
    if (o->busy)
        o->again = true;
    else if (!is_listed(o))
        postpone(e, o, o->began_ms + every_of(o) - dz_clock_mono_ms());
}

/* The replica has everything. */
static void note_current(struct dz_replica_engine *e, struct followed *o)
{
    dz_list_remove(&o->late);
    if (o->behind)
        report(e, o, DZ_REPLICA_CURRENT, "");
    o->behind = false;
}

static void check_late(struct dz_replica_engine *e)
{
    int64_t now = dz_clock_mono_ns();
    while (!dz_list_empty(&e->lagging)) {
        struct followed *o = DZ_LIST_FIRST(struct followed, &e->lagging, late);
        int64_t since = o->taken_ns ? o->taken_ns : o->dirty_ns;
        if (since && now - since < e->behind_ms * DZ_NS_PER_MS)
            return;
        dz_list_remove(&o->late);
        dz_list_push_back(&e->late, &o->late);
        o->behind = true;
        report(e, o, DZ_REPLICA_BEHIND, o->error);
    }
}

/* --- the watcher ----------------------------------------------------------------------------- */

static void read_changes(struct dz_replica_engine *e)
{
    _Alignas(struct inotify_event) char piece[16384];
    ssize_t n;
    while ((n = read(e->notify_fd, piece, sizeof piece)) > 0) {
        lock(e);
        for (char *p = piece; p < piece + n;) {
            const struct inotify_event *event = (const struct inotify_event *)p;
            struct followed *o =
                event->wd < 0 ? NULL : dz_map_get64(&e->by_watch, (uint64_t)event->wd);
            p += sizeof *event + event->len;
            if (o && !(event->mask & IN_IGNORED))
                note_dirty(e, o);
            if (event->mask & IN_Q_OVERFLOW) {
                DZ_MAP_FOREACH(it, &e->by_watch)
                    note_dirty(e, it->value);
            }
        }
        unlock(e);
        if ((size_t)n < sizeof piece / 2)
            break;
    }
}

static int watcher_wait_ms(struct dz_replica_engine *e)
{
    int64_t ms = -1;
    lock(e);
    if (!dz_list_empty(&e->lagging)) {
        const struct followed *o = DZ_LIST_FIRST(struct followed, &e->lagging, late);
        int64_t since = o->taken_ns ? o->taken_ns : o->dirty_ns;
        ms = e->behind_ms - (dz_clock_mono_ns() - since) / DZ_NS_PER_MS + 1;
        ms = ms < 1 ? 1 : ms;
    }
    if (e->waiting > 0 && (ms < 0 || ms > SLOT_MS))
        ms = SLOT_MS;
    unlock(e);
    return (int)(ms > 60000 ? 60000 : ms);
}

static void *watch(void *arg)
{
    struct dz_replica_engine *e = arg;
    struct pollfd fds[] = {{.fd = e->notify_fd, .events = POLLIN},
                           {.fd = e->wake_fd, .events = POLLIN}};
    uint64_t count;
    for (bool stop = false; !stop;) {
        (void)poll(fds, DZ_ARRAY_LEN(fds), watcher_wait_ms(e));
        if (fds[1].revents)
            (void)!read(e->wake_fd, &count, sizeof count);
        if (fds[0].revents)
            read_changes(e);
        lock(e);
        turn_wheel(e);
        check_late(e);
        stop = e->stopping;
        unlock(e);
    }
    return NULL;
}
/* --- the workers ------------------------------------------------------------------------------ */

static void free_followed(struct dz_replica_engine *e, struct followed *o)
{
    assert(!o->busy && !is_listed(o));
    if (o->watch >= 0) {
        (void)inotify_rm_watch(e->notify_fd, o->watch);
        (void)dz_map_remove64(&e->by_watch, (uint64_t)o->watch);
    }
    dz_list_remove(&o->late);
    dz_replica_let_go(o);
    dz_fd_close(&o->new_wal_fd);
    dz_fd_close(&o->new_owner_fd);
    dz_free(o->url);
    dz_free(o->about);
    dz_free(o);
}

static int64_t backoff(const struct dz_replica_engine *e, const struct followed *o)
{
    uint16_t dice = 0;
    int64_t ms = e->retry_ms;
    for (unsigned i = 1; i < o->failures && ms < RETRY_MAX_MS; i++)
        ms *= 2;
    ms = ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
    (void)!dz_random(&dice, sizeof dice, NULL);
    return ms / 2 + ms * dice / 65536;
}

static void count_lag(struct dz_replica_engine *e, int64_t since_ns)
{
    struct dz_replica_totals *s = &e->totals;
    if (since_ns && s->lag_count < DZ_REPLICA_LAGS)
        s->lag_s[s->lag_count++] = (float)(dz_clock_mono_ns() - since_ns) / 1e9f;
}

/* Nothing is missing and no process has the database: only a row of memory stays. */
static void rest(struct dz_replica_engine *e, struct followed *o)
{
    if (o->watch >= 0) {
        (void)inotify_rm_watch(e->notify_fd, o->watch);
        (void)dz_map_remove64(&e->by_watch, (uint64_t)o->watch);
        o->watch = -1;
    }
    dz_replica_let_go(o);
}

static void failed(struct dz_replica_engine *e, struct followed *o, int code,
                   const struct dz_err *err)
{
    if (e->stopping)
        return;
    if (code != DZ_EEXIST && dz_list_empty(&o->late) && !o->gone) {
        /* Nothing was committed, as far as is known, but whether the replica has everything is not
         * known either. */
        o->dirty_ns = o->dirty_ns ? o->dirty_ns : dz_clock_mono_ns();
        dz_list_push_back(&e->lagging, &o->late);
    }
    if (code == DZ_EBUSY) { /* changed while it was copied: not a fault of the store */
        postpone(e, o, AGAIN_MS);
        return;
    }
    o->errors++;
    o->failures++;
    e->totals.errors++;
    (void)snprintf(o->error, sizeof o->error, "%.*s", (int)sizeof o->error - 1, err->msg);
    if (code == DZ_EEXIST) {
        o->fenced = true;
        o->dirty_ns = o->taken_ns = 0;
        dz_list_remove(&o->late);
        rest(e, o);
        report(e, o, DZ_REPLICA_FENCED, o->error);
        return;
    }
    if (o->failures == 1)
        dz_log(DZ_LOG_WARN, "replica_failed", dz_log_strz("sandbox_id", o->id), dz_log_err(err));
    postpone(e, o, backoff(e, o));
}

static void ended(struct dz_replica_engine *e, struct followed *o, struct task *t, int rc,
                  const struct dz_err *err)
{
    o->txid = o->tip.txid;
    o->uploads += t->uploaded;
    o->bytes += t->bytes;
    e->totals.uploads += t->uploaded;
    e->totals.bytes += t->bytes;
    e->totals.snapshots += t->snapshots;
    e->totals.requests += t->requests;
    if (rc >= 0) {
        o->failures = 0;
        o->error[0] = '\0';
        o->take = false;
        o->at_ms = o->tip.time_ms;
        if (t->uploaded)
            count_lag(e, o->taken_ns);
        o->taken_ns = 0;
        dz_free(t->about);
    } else {
        if (!o->about)
            o->about = t->about;
        else
            dz_free(t->about);
        o->erased = o->erased || t->erased;
    }
    if (o->gone && (rc >= 0 || !t->erased || o->failures > 3 || e->stopping || rc == DZ_EEXIST))
        return;
    bool again = o->again || o->dirty_ns;
    o->again = false;
    if (rc < 0)
        failed(e, o, rc, err);
    else if (again)
        postpone(e, o, o->began_ms + every_of(o) - dz_clock_mono_ms());
    else if (rc == 1 && !o->attached && o->new_wal_fd < 0)
        rest(e, o);
    else if (!o->attached)
        postpone(e, o, EXIT_MS << (o->exits < 6 ? o->exits++ : 6));
    if (rc < 0)
        return;
    note_current(e, o);
    if (again && o->dirty_ns) /* by the time of what is missing now */
        dz_list_push_back(&e->lagging, &o->late);
}

static void work_on(struct dz_replica_engine *e, struct followed *o)
{
    struct task t = {.e = e, .o = o, .run = {.cancel = &e->cancel}};
    struct dz_err err = {0};
    int wal_fd = DZ_TAKE_FD(o->new_wal_fd), owner_fd = DZ_TAKE_FD(o->new_owner_fd);
    bool moved = o->moved;
    o->busy = true;
    o->again = o->moved = false;
    o->began_ms = dz_clock_mono_ms();
    if (!o->taken_ns)
        o->taken_ns = o->dirty_ns;
    o->dirty_ns = 0;
    t.attached = o->attached;
    const struct stamp seen = o->seen;
    int64_t seen_log = o->seen_log;
    t.take = o->take;
    t.erased = o->erased;
    t.about = DZ_TAKE_PTR(o->about);
    t.policy = o->policy;
    o->erased = false;
    o->seen.ino = 0;
    (void)snprintf(t.url, sizeof t.url, "%s", o->url);
    e->busy++;
    unlock(e);

    if (moved) { /* another place: nothing is known of it */
        if (o->opened)
            dz_replica_close(&o->store);
        o->opened = o->known = o->clean = o->loaded = false;
        o->tip = (struct dz_replica_tip){0};
    }
    if (o->clean && seen.ino && (!same_stamp(&seen, &o->stamp) || seen_log != 0))
        o->suspect = true;
    dz_replica_take(o, wal_fd, owner_fd);
    int rc = dz_replica_serve(&t, &err);
    if (rc < 0 && rc != DZ_EBUSY && o->opened) { /* begin with new connections */
        dz_replica_close(&o->store);
        o->opened = false;
    }

    lock(e);
    e->busy--;
    o->busy = false;
    ended(e, o, &t, rc, &err);
    if (o->gone && !is_listed(o))
        free_followed(e, o);
    if (e->busy == 0)
        (void)pthread_cond_broadcast(&e->idle);
}

static void *work(void *arg)
{
    struct dz_replica_engine *e = arg;
    lock(e);
    while (!e->stopping) {
        if (dz_list_empty(&e->queue)) {
            (void)pthread_cond_wait(&e->work, &e->mutex);
            continue;
        }
        struct followed *o = DZ_LIST_FIRST(struct followed, &e->queue, link);
        unlist(e, o);
        work_on(e, o);
    }
    unlock(e);
    return NULL;
}

/* --- the table -------------------------------------------------------------------------------- */

static struct followed *find(struct dz_replica_engine *e, const char *id)
{
    return dz_map_get(&e->by_id, dz_str(id));
}

int dz_replica_engine_follow(struct dz_replica_engine *e, const struct dz_replica_follow *f,
                             struct dz_err *err)
{
    size_t n = strlen(f->id);
    char url[DZ_REPLICA_URL_MAX];
    int rc = dz_replica_url_of(f->url, f->id, url, err);
    if (rc < 0)
        return rc;
    char *place = dz_str_dup(dz_str(url)), *about = dz_str_dup(dz_str(f->about ? f->about : ""));
    struct followed *fresh = dz_zalloc(sizeof *fresh + n + 1);
    if (!place || !about || !fresh) {
        dz_free(place);
        dz_free(about);
        dz_free(fresh);
        return dz_fail(err, DZ_ENOMEM, "replicate %s: out of memory", f->id);
    }
    lock(e);
    struct followed *o = find(e, f->id);
    if (!o) {
        o = fresh;
        memcpy(o->id, f->id, n + 1);
        dz_list_init(&o->link);
        dz_list_init(&o->late);
        o->watch = o->new_wal_fd = o->new_owner_fd = -1;
        o->wal_fd = o->owner_fd = o->old_owner_fd = -1;
        o->wrote_ms = -REPLICA_OWNER_MS;
        rc = dz_map_put(&e->by_id, dz_str(o->id), o, NULL);
        fresh = rc < 0 ? fresh : NULL;
    }
    if (rc == 0) {
        o->moved = o->moved || (o->url && strcmp(o->url, place) != 0);
        dz_free(o->url);
        dz_free(o->about);
        o->url = DZ_TAKE_PTR(place);
        o->about = DZ_TAKE_PTR(about);
        o->policy = f->policy;
        o->take = o->take || f->take;
        o->fenced = o->fenced && !f->take && !o->moved;
        if (!f->about || !f->about[0]) {
            dz_free(o->about);
            o->about = NULL;
        }
        enqueue(e, o);
    }
    unlock(e);
    dz_free(place);
    dz_free(about);
    dz_free(fresh);
    return rc < 0 ? dz_fail(err, rc, "replicate %s: too many sandboxes, or out of memory", f->id)
                  : 0;
}

void dz_replica_engine_leave(struct dz_replica_engine *e, const char *id, bool erased)
{
    lock(e);
    struct followed *o = find(e, id);
    if (o) {
        (void)dz_map_remove(&e->by_id, dz_str(id));
        o->gone = true;
        o->attached = false;
        o->erased = erased && !o->fenced;
        note_current(e, o);
        if (o->erased) {
            enqueue(e, o);
        } else if (!o->busy) {
            unlist(e, o);
            free_followed(e, o);
        }
        (void)unlinkat(e->state_fd, id, 0);
    }
    unlock(e);
}

void dz_replica_engine_attach(struct dz_replica_engine *e, const char *id, int db_fd, int wal_fd)
{
    char path[64];
    struct stamp now, log;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", wal_fd);
    lock(e);
    struct followed *o = find(e, id);
    if (!o || o->fenced) {
        unlock(e);
        return;
    }
    int follow_fd = dz_replica_open_live(e, id, DZ_COLD_LOG),
        owner_fd = fcntl(wal_fd, F_DUPFD_CLOEXEC, 0);
    int watch = inotify_add_watch(e->notify_fd, path, IN_MODIFY);
    if (follow_fd < 0 || owner_fd < 0 || watch < 0 || dz_follow_begin(follow_fd, NULL) < 0)
        dz_log(DZ_LOG_WARN, "replica_not_watched", dz_log_strz("sandbox_id", id),
               dz_log_strz("error", strerror(errno)));
    if (watch >= 0 && watch != o->watch) {
        if (o->watch >= 0) {
            (void)inotify_rm_watch(e->notify_fd, o->watch);
            (void)dz_map_remove64(&e->by_watch, (uint64_t)o->watch);
        }
        o->watch = dz_map_put64(&e->by_watch, (uint64_t)watch, o, NULL) == 0 ? watch : -1;
    }
    dz_fd_close(&o->new_wal_fd);
    dz_fd_close(&o->new_owner_fd);
    o->new_wal_fd = follow_fd;
    o->new_owner_fd = owner_fd;
    if (dz_replica_stat(db_fd, &now) == 0 && dz_replica_stat(wal_fd, &log) == 0) {
        o->seen = now;
        o->seen_log = log.size;
    }
    o->attached = true;
    unlock(e);
}

void dz_replica_engine_detach(struct dz_replica_engine *e, const char *id)
{
    lock(e);
    struct followed *o = find(e, id);
    if (o && o->attached) {
        o->attached = false;
        enqueue(e, o);
    }
    unlock(e);
}

static int64_t lag_of(const struct followed *o)
{
    int64_t since = o->taken_ns ? o->taken_ns : o->dirty_ns;
    return since ? (dz_clock_mono_ns() - since) / DZ_NS_PER_MS : 0;
}

void dz_replica_engine_status(struct dz_replica_engine *e, const char *id,
                              struct dz_replica_status *ret)
{
    *ret = (struct dz_replica_status){.state = DZ_REPLICA_OFF};
    lock(e);
    const struct followed *o = find(e, id);
    if (o) {
        ret->state = o->fenced                  ? DZ_REPLICA_FENCED
                     : o->behind                ? DZ_REPLICA_BEHIND
                     : !dz_list_empty(&o->late) ? DZ_REPLICA_LAGGING
                                                : DZ_REPLICA_CURRENT;
        ret->txid = o->txid;
        ret->lag_ms = lag_of(o);
        ret->at_ms = o->at_ms;
        ret->uploads = o->uploads;
        ret->bytes = o->bytes;
        ret->errors = o->errors;
        (void)snprintf(ret->url, sizeof ret->url, "%s", o->url);
        (void)snprintf(ret->error, sizeof ret->error, "%s", o->error);
    }
    unlock(e);
}

/* `clean` and `stamp` are the worker's, which is not at work while o->busy is false. */
int dz_replica_engine_has_all(struct dz_replica_engine *e, const char *id,
                              char ret_url[static DZ_REPLICA_URL_MAX], uint64_t *ret_txid)
{
    struct stamp now;
    lock(e);
    const struct followed *o = find(e, id);
    /* a database that is looked at again has a process, even if the engine was not told of it */
    bool has = o && !o->busy && !is_listed(o) && !o->attached && o->new_wal_fd < 0 && !o->fenced &&
               !o->behind && !o->moved && !o->gone && !o->dirty_ns && o->failures == 0 &&
               dz_list_empty(&o->late) && o->seen.ino == 0 && o->known && o->clean && !o->suspect &&
               o->tip.txid > 0;
    DZ_AUTO(dz_fd_close) int fd = has ? dz_replica_open_live(e, id, DZ_COLD_LIVE) : -1;
    has = fd >= 0 && dz_replica_stat(fd, &now) == 0 && same_stamp(&now, &o->stamp);
    if (has) {
        (void)snprintf(ret_url, DZ_REPLICA_URL_MAX, "%s", o->url);
        *ret_txid = o->tip.txid;
    }
    unlock(e);
    return has;
}

void dz_replica_engine_adopt(struct dz_replica_engine *e, const char *id, uint64_t txid, int fd)
{
    struct stamp now;
    lock(e);
    struct followed *o = find(e, id);
    if (o && !o->busy && !o->attached && o->known && o->clean && !o->suspect &&
        o->tip.txid == txid && dz_replica_stat(fd, &now) == 0)
        o->stamp = now;
    unlock(e);
}

void dz_replica_engine_totals(struct dz_replica_engine *e, bool take, struct dz_replica_totals *ret)
{
    lock(e);
    e->totals.followed = e->by_id.count;
    e->totals.behind = dz_list_count(&e->late);
    e->totals.lagging = dz_list_count(&e->lagging) + e->totals.behind;
    e->totals.lag_ms = 0;
    const struct dz_list *first = !dz_list_empty(&e->late) ? &e->late : &e->lagging;
    if (!dz_list_empty(first))
        e->totals.lag_ms = lag_of(DZ_LIST_FIRST(struct followed, first, late));
    *ret = e->totals;
    if (take)
        e->totals.lag_count = 0;
    unlock(e);
}

int dz_replica_engine_fd(const struct dz_replica_engine *e)
{
    return e->report_fd;
}

bool dz_replica_engine_next(struct dz_replica_engine *e, struct dz_replica_report *ret)
{
    uint64_t count;
    lock(e);
    bool any = e->report_at < e->reports.n;
    if (any) {
        *ret = e->reports.p[e->report_at++];
    } else {
        e->reports.n = e->report_at = 0;
        (void)!read(e->report_fd, &count, sizeof count);
    }
    unlock(e);
    return any;
}

/* --- the engine as a whole -------------------------------------------------------------------- */

/* The file `.owner` in the state's directory names this data directory. */
static int load_owner(struct dz_replica_engine *e, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_REPLICA_OWNER_TEXT);
    uint64_t bits[2];
    if (dz_fd_read_file(e->state_fd, ".owner", &b, NULL) == 0 &&
        b.len == DZ_REPLICA_OWNER_TEXT - 1) {
        memcpy(e->owner, b.p, b.len);
        return 0;
    }
    int rc = dz_random(bits, sizeof bits, err);
    if (rc < 0)
        return rc;
    (void)snprintf(e->owner, sizeof e->owner, "%016" PRIx64 "%016" PRIx64, bits[0], bits[1]);
    return dz_fd_replace(e->state_fd, ".owner", e->owner, strlen(e->owner), 0600, err);
}

static int open_engine(struct dz_replica_engine *e, const struct dz_replica_engine_opts *o,
                       struct dz_err *err)
{
    int rc = dz_fd_mkdirs(AT_FDCWD, o->state_path, 0700, err);
    if (rc == 0)
        rc = e->state_fd = dz_fd_open(AT_FDCWD, o->state_path, O_RDONLY | O_DIRECTORY, 0, err);
    if (rc >= 0)
        rc = e->live_fd = dz_fd_open(AT_FDCWD, o->live_path, O_RDONLY | O_DIRECTORY, 0, err);
    if (rc < 0)
        return rc;
    e->notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    e->report_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->notify_fd < 0 || e->wake_fd < 0 || e->report_fd < 0)
        return dz_fail_sys(err, errno, "watch the logs of sandboxes");
    return load_owner(e, err);
}

static int start_threads(struct dz_replica_engine *e, unsigned workers, struct dz_err *err)
{
    int rc = pthread_create(&e->watcher, NULL, watch, e);
    e->watching = rc == 0;
    for (; rc == 0 && e->worker_count < workers; e->worker_count += rc == 0)
        rc = pthread_create(&e->workers[e->worker_count], NULL, work, e);
    return rc ? dz_fail_sys(err, rc, "start a thread for replication") : 0;
}

int dz_replica_engine_new(const struct dz_replica_engine_opts *opts,
                          struct dz_replica_engine **ret_engine, struct dz_err *err)
{
    struct dz_replica_engine *e = dz_zalloc(sizeof *e);
    assert(opts->workers > 0 && opts->workers <= DZ_REPLICA_WORKERS_MAX && opts->behind_ms > 0);
    if (!e)
        return dz_fail(err, DZ_ENOMEM, "start replication: out of memory");
    e->notify_fd = e->wake_fd = e->report_fd = e->live_fd = e->state_fd = -1;
    e->access = opts->access;
    e->behind_ms = opts->behind_ms;
    e->retry_ms = opts->retry_ms > 0 ? opts->retry_ms : RETRY_MS;
    e->reports.max = REPORTS_MAX;
    (void)pthread_mutex_init(&e->mutex, NULL);
    (void)pthread_cond_init(&e->work, NULL);
    (void)pthread_cond_init(&e->idle, NULL);
    dz_map_init(&e->by_id, DZ_REPLICA_FOLLOWED_MAX);
    dz_map_init(&e->by_watch, DZ_REPLICA_FOLLOWED_MAX);
    dz_list_init(&e->queue);
    dz_list_init(&e->lagging);
    dz_list_init(&e->late);
    for (unsigned i = 0; i < REPLICA_SLOTS; i++)
        dz_list_init(&e->wheel[i]);
    int rc = open_engine(e, opts, err);
    if (rc == 0)
        rc = start_threads(e, opts->workers, err);
    if (rc < 0) {
        dz_replica_engine_free(e);
        return rc;
    }
    *ret_engine = e;
    return 0;
}

size_t dz_replica_engine_drain(struct dz_replica_engine *e, int64_t ms, bool closing)
{
    int64_t until = dz_clock_mono_ms() + ms;
    size_t left = 0;
    lock(e);
    DZ_MAP_FOREACH(it, &e->by_id) { /* the kernel may not have reported the last commits yet */
        struct followed *o = it->value;
        if (o->watch < 0 && !is_listed(o) && !o->busy)
            continue;
        note_dirty(e, o);
        enqueue(e, o);
    }
    do {
        left = e->busy + dz_list_count(&e->queue) + dz_list_count(&e->lagging) +
               dz_list_count(&e->late) + (closing ? e->by_watch.count : 0);
        if (left == 0)
            break;
        unlock(e);
        (void)poll(NULL, 0, 2);
        lock(e);
    } while (dz_clock_mono_ms() < until);
    left = dz_list_count(&e->lagging) + dz_list_count(&e->late);
    unlock(e);
    return left;
}

void dz_replica_engine_free(struct dz_replica_engine *e)
{
    if (!e)
        return;
    lock(e);
    e->stopping = e->cancel = true;
    (void)pthread_cond_broadcast(&e->work);
    unlock(e);
    if (e->watching) {
        kick(e->wake_fd);
        (void)pthread_join(e->watcher, NULL);
    }
    for (unsigned i = 0; i < e->worker_count; i++)
        (void)pthread_join(e->workers[i], NULL);
    for (unsigned i = 0; i < REPLICA_SLOTS; i++)
        dz_list_splice_back(&e->queue, &e->wheel[i]);
    while (!dz_list_empty(&e->queue)) { /* those that have left the table are only here */
        struct followed *o = DZ_LIST_FIRST(struct followed, &e->queue, link);
        dz_list_remove(&o->link);
        if (o->gone)
            free_followed(e, o);
    }
    DZ_MAP_FOREACH(it, &e->by_id)
        free_followed(e, it->value);
    dz_map_release(&e->by_id);
    dz_map_release(&e->by_watch);
    dz_vec_release(&e->reports);
    dz_fd_close(&e->notify_fd);
    dz_fd_close(&e->wake_fd);
    dz_fd_close(&e->report_fd);
    dz_fd_close(&e->live_fd);
    dz_fd_close(&e->state_fd);
    (void)pthread_mutex_destroy(&e->mutex);
    (void)pthread_cond_destroy(&e->work);
    (void)pthread_cond_destroy(&e->idle);
    dz_free(e);
}
