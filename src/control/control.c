/* SPDX-License-Identifier: MIT
 *
 * control.c - open and close the whole control plane, and notify the listeners of events.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "cell/cell_disk.h"
#include "cell/cell_pool.h"
#include "cell/cell_runtime.h"
#include "db/db.h"
#include "os/os_jail.h"
#include "registry/registry_meter.h"
#include "schedule/schedule.h"
#include "vfs/vfs.h"

#include <stdio.h>
#include <string.h>

enum {
    COLLECT_MS = 3600 * 1000, /* between two sweeps of a cold storage that is far */
    POOL_AFTER_MS = 6,        /* delay between a start and the forks that refill the pool */
    TIDY_MS = 100,            /* after the last change: checkpoint the registry's WAL */
};

/* --- events -------------------------------------------------------------------------- */

static void on_notify(void *arg)
{
    struct dz_control *e = arg;
    e->notify_set = false;
    DZ_LIST_FOREACH(struct dz_control_listener, listener, &e->listeners, link)
        listener->fn(listener->arg);
}

/* The registry has been quiet for TIDY_MS: checkpoint its WAL now, when no request waits for it. */
static void on_tidy(void *arg)
{
    struct dz_control *e = arg;
    struct dz_err err;
    e->tidy_set = e->changed;
    e->changed = false;
    if (e->tidy_set)
        dz_timer_after(e->tidy, TIDY_MS);
    else if (dz_registry_maintain(e->registry, false, &err) < 0)
        dz_log(DZ_LOG_WARN, "registry_log_kept", dz_log_err(&err));
}

/* The registry has changed. Listeners are notified by a timer, so many changes in one turn of the
 * loop cause one notification. */
static void on_change(void *arg)
{
    struct dz_control *e = arg;
    e->changed = true;
    if (!e->tidy_set)
        dz_timer_after(e->tidy, TIDY_MS);
    e->tidy_set = true;
    if (e->notify_set || dz_list_empty(&e->listeners))
        return;
    e->notify_set = true;
    dz_timer_after(e->notify, 0);
}

int dz_control_listen(struct dz_control *e, void (*fn)(void *arg), void *arg,
                      struct dz_control_listener **ret_listener, struct dz_why *why)
{
    struct dz_control_listener *listener = NULL;
    if (dz_list_count(&e->listeners) < DZ_CONTROL_EVENT_WATCHES)
        listener = dz_zalloc(sizeof *listener);
    if (!listener)
        return dz_why(why, DZ_EBUSY, NULL,
                      "follow events: %d clients already follow them, which is the limit; try "
                      "again later",
                      DZ_CONTROL_EVENT_WATCHES);
    listener->fn = fn;
    listener->arg = arg;
    dz_list_init(&listener->link);
    dz_list_push_back(&e->listeners, &listener->link);
    *ret_listener = listener;
    return 0;
}

void dz_control_unlisten(struct dz_control_listener *listener)
{
    if (!listener)
        return;
    dz_list_remove(&listener->link);
    dz_free(listener);
}

struct events {
    dz_control_event_fn *fn;
    void *arg;
    size_t left;
    bool stopped;
};

static int see_event(void *arg, const struct dz_registry_event *event)
{
    struct events *s = arg;
    s->stopped = s->fn(s->arg, event) != 0 || --s->left == 0;
    return s->stopped;
}

int dz_control_events(struct dz_control *e, const struct dz_control_caller *who,
                      const struct dz_control_event_filter *f, dz_control_event_fn *fn, void *arg,
                      struct dz_why *why)
{
    struct dz_err err;
    struct events s = {fn, arg, f->limit, false};
    const struct dz_registry_event_filter filter = {.tenant = dz_control_sees(who),
                                                    .sandbox_id = f->sandbox_id,
                                                    .after = f->after,
                                                    .limit = f->limit};
    int rc = dz_registry_events(e->registry, &filter, see_event, &s, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : s.stopped;
}

void dz_control_note(struct dz_control *e, const struct dz_instance *row, const char *what,
                     const char *detail)
{
    const struct dz_registry_event event = {
        .sandbox_id = row->id, .tenant = row->tenant, .what = what, .detail = detail};
    struct dz_err err;
    int64_t seq;
    if (dz_registry_note(e->registry, &event, &seq, &err) < 0)
        dz_log(DZ_LOG_WARN, "event_lost", dz_log_strz("what", what), dz_log_err(&err));
}

void dz_control_note_death(struct dz_control *e, int pid, const char *signal, bool rebooted)
{
    char detail[80];
    struct dz_err err;
    int64_t seq;
    (void)snprintf(e->died, sizeof e->died, "%s", signal);
    (void)snprintf(detail, sizeof detail, "pid %d, signal %s%s", pid, signal,
                   rebooted ? ", the machine was restarted" : "");
    const struct dz_registry_event event = {.what = "daemon_died", .detail = detail};
    if (dz_registry_note(e->registry, &event, &seq, &err) < 0)
        dz_log(DZ_LOG_WARN, "event_lost", dz_log_strz("what", event.what), dz_log_err(&err));
}

/* --- the pool ------------------------------------------------------------------------- */

/* Called once, when the first zygote has entered its jail. */
static void log_fences(struct dz_control *e)
{
    struct dz_cell_pool_stats stats;
    char held[128];
    dz_cell_pool_stats_get(e->pool, &stats);
    if (!stats.fences)
        return;
    e->fences_logged = true;
    dz_os_fences_print(stats.fences, held, sizeof held);
    dz_log(DZ_LOG_INFO, "jail", dz_log_strz("fences", held));
}

static void run_pool(void *arg)
{
    struct dz_control *e = arg;
    struct dz_err err;
    e->pool_due = false;
    if (dz_cell_pool_run(e->pool, &err) < 0)
        dz_log(DZ_LOG_WARN, "pool_failed", dz_log_err(&err));
    if (!e->fences_logged)
        log_fences(e);
    dz_prealloc_fill(e);
}

static void on_pool(void *arg, int events)
{
    (void)events;
    run_pool(arg);
}

/* Refill the pool a little later: the request that took the cell gets the processors first. */
void dz_control_pool_used(struct dz_control *e)
{
    if (!e->pool_due)
        dz_timer_after(e->pool_soon, POOL_AFTER_MS);
    e->pool_due = true;
}

static int watch_pool(struct dz_control *e, struct dz_err *err)
{
    dz_copies_init(e);
    int rc = dz_poll_new(e->loop, dz_cell_pool_fd(e->pool), on_pool, e, &e->pool_poll, err);
    if (rc == 0)
        rc = dz_poll_set(e->pool_poll, DZ_POLL_READ, err);
    return rc < 0 ? rc : dz_timer_new(e->loop, run_pool, e, &e->pool_soon, err);
}

/* --- opening --------------------------------------------------------------------------- */

static int path_in(const char *data, const char *name, char **ret_path, struct dz_err *err)
{
    struct dz_buf b = DZ_BUF_INIT(DZ_PATH_MAX);
    size_t n;
    dz_buf_addf(&b, "%s%s%s", data, name[0] ? "/" : "", name);
    *ret_path = dz_buf_detach(&b, &n);
    dz_buf_release(&b);
    return *ret_path ? 0 : dz_fail(err, DZ_ENOMEM, "the path of the data directory is too long");
}

/* Open the cold storage, claimed for this data directory. A bucket that cannot be reached now does
 * not keep the daemon from starting. */
static int open_cold(struct dz_control *e, const struct dz_blobs_place *place, struct dz_err *err)
{
    struct dz_blobs_place p = *place;
    e->cold.expand = dz_cell_expand;
    e->cold.replicas = &e->cold_replicas;
    p.s3.stop = &e->cold_stop;
    return dz_blobs_open_cold(&p, e->data_path, &e->cold.store, err);
}

static void on_collected(void *control, size_t removed, const struct dz_err *err)
{
    struct dz_control *e = control;
    if (err)
        dz_log(DZ_LOG_WARN, "cold_not_swept", dz_log_err(err));
    else if (removed > 0)
        dz_log(DZ_LOG_INFO, "cold_swept", dz_log_uint("removed", removed));
    dz_timer_after(e->collection, COLLECT_MS);
}

static void on_collection(void *control)
{
    struct dz_control *e = control;
    struct dz_err err;
    if (dz_sandboxes_collect(e->sandboxes, on_collected, e, &err) < 0)
        on_collected(e, 0, &err);
}

static int open_stores(struct dz_control *e, const struct dz_blobs_place *cold, struct dz_err *err)
{
    DZ_AUTO(dz_freep) char *share = NULL;
    DZ_AUTO(dz_freep) char *snapshots = NULL;
    int rc = path_in(e->data_path, "live", &e->live_path, err);
    if (rc == 0)
        rc = path_in(e->data_path, "share", &share, err);
    if (rc == 0)
        rc = dz_blobs_open_dir(share, &e->share, err);
    if (rc == 0)
        rc = dz_blobs_sweep(e->share, err);
    if (rc == 0)
        rc = path_in(e->data_path, "snapshots", &snapshots, err);
    if (rc == 0)
        rc = dz_blobs_open_dir(snapshots, &e->snapshots, err);
    if (rc == 0)
        rc = dz_blobs_sweep(e->snapshots, err);
    if (rc == 0)
        rc = dz_blobs_open_dir(e->live_path, &e->cold.live, err);
    if (rc == 0)
        rc = e->live_fd = dz_fd_open(AT_FDCWD, e->live_path, O_RDONLY | O_DIRECTORY, 0, err);
    if (rc >= 0)
        rc = open_cold(e, cold, err);
    if (rc == 0)
        rc = dz_image_store_open(e->data_path, &e->images, err);
    return rc < 0 ? rc : dz_control_builds_sweep(e, err);
}

static int open_registry(struct dz_control *e, const char *name, struct dz_err *err)
{
    int rc;
    do
        rc = dz_registry_open(name, true, &e->registry, err);
    while (rc == DZ_ENOSPC && dz_space_release(e));
    if (rc < 0)
        return rc;
    dz_registry_on_full(e->registry, dz_space_release, e);
    return dz_registry_meter_resume(e->registry, err);
}

static int open_all(struct dz_control *e, const struct dz_control_opts *opts, struct dz_err *err)
{
    int rc = path_in(opts->data_path, "", &e->data_path, err);
    if (rc == 0)
        rc = dz_fd_mkdirs(AT_FDCWD, e->data_path, 0700, err);
    if (rc == 0)
        rc = dz_space_open(e, &opts->space, err);
    if (rc == 0)
        rc = open_registry(e, opts->registry, err);
    if (rc == DZ_EBUSY)
        return dz_fail(err, rc, "%s is in use by another daemon", opts->registry);
    if (rc == 0)
        rc = open_stores(e, &opts->cold, err);
    if (rc == 0)
        rc = dz_replicas_open(e, &opts->replica, err);
    if (rc == 0)
        rc = dz_timer_new(e->loop, on_notify, e, &e->notify, err);
    if (rc == 0)
        rc = dz_timer_new(e->loop, on_tidy, e, &e->tidy, err);
    if (rc == 0)
        rc = watch_pool(e, err);
    if (rc == 0)
        rc = dz_timer_new(e->loop, dz_control_sweep, e, &e->sweep, err);
    if (rc == 0)
        rc = dz_timer_new(e->loop, dz_usages_measure, e, &e->measure, err);
    if (rc == 0)
        rc = dz_timer_new(e->loop, dz_meter_tick, e, &e->meter, err);
    if (rc == 0)
        rc = dz_timer_new(e->loop, on_collection, e, &e->collection, err);
    if (rc < 0)
        return rc;
    dz_registry_on_event(e->registry, on_change, e);
    const struct dz_sandbox_runtime wasm = {.ops = &dz_cell_wasm, .pool = e->pool},
                                    linux_programs = {.ops = &dz_cell_linux, .pool = e->pool};
    const struct dz_sandboxes_opts sandboxes = {
        .loop = e->loop,
        .registry = e->registry,
        .cold = e->cold,
        .live_path = e->live_path,
        .idle_policy = opts->idle_policy,
        .runtimes = {wasm, linux_programs},
        .host = &dz_control_host,
        .arg = e,
        .files = &dz_control_files,
        .files_arg = e,
        .accounts = &e->accounts,
    };
    rc = dz_egress_open(e, &opts->egress, err);
    if (rc == 0)
        rc = dz_sandboxes_new(&sandboxes, &e->sandboxes, err);
    return rc < 0 ? rc : dz_control_schedules_open(e, err);
}

int dz_control_new(const struct dz_control_opts *opts, struct dz_control **ret_engine,
                   struct dz_err *err)
{
    struct dz_control *e = dz_zalloc(sizeof *e);
    if (!e)
        return dz_fail(err, DZ_ENOMEM, "start the control plane: out of memory");
    e->loop = opts->loop;
    e->pool = opts->pool;
    e->quotas = opts->quotas;
    e->prices = opts->prices;
    e->space.dir_fd = e->space.reserve_fd = e->live_fd = -1;
    dz_map_init(&e->usages, DZ_CONTROL_TENANTS_MAX);
    dz_map_init(&e->keys, DZ_CONTROL_KEYS_UNDER_WAY);
    dz_map_init(&e->supervisors, DZ_SANDBOX_SANDBOXES_MAX);
    dz_map_init(&e->image_cache, DZ_CONTROL_IMAGES_MAX + 1);
    dz_accounts_init(&e->accounts, opts->held_tenant ? opts->held_tenant : DZ_CONTROL_HELD_TENANT,
                     opts->held_all ? opts->held_all : DZ_CONTROL_HELD_ALL);
    dz_list_init(&e->listeners);
    dz_list_init(&e->builds);
    dz_list_init(&e->restores);
    dz_list_init(&e->volume_holds);
    int rc = dz_prealloc_init(&e->prealloc, err);
    if (rc == 0)
        rc = open_all(e, opts, err);
    if (rc < 0) {
        dz_control_free(e);
        return rc;
    }
    *ret_engine = e;
    return 0;
}

int dz_control_recover_some(struct dz_control *e, int64_t until_ms, struct dz_err *err)
{
    if (!e->intents.recovered)
        e->intents.rc = dz_intents_recover(e, &e->intents.err);
    if (!e->intents.recovered)
        dz_volumes_sweep(e);
    e->intents.recovered = true;
    int rc = dz_sandboxes_recover_some(e->sandboxes, until_ms, err);
    if (rc == 1)
        return rc;
    if (rc == 0 && e->intents.rc < 0) {
        rc = e->intents.rc;
        if (err)
            *err = e->intents.err;
    }
    e->recovered = true;
    struct dz_err why;
    if (dz_schedules_begin(e->schedules, &why) < 0)
        dz_log(DZ_LOG_WARN, "schedules_not_planned", dz_log_err(&why));
    dz_replica_rows(e, NULL);
    dz_space_watch(e);
    dz_prealloc_fill(e);
    dz_timer_after(e->sweep, 0);
    dz_timer_after(e->measure, 0);
    dz_timer_after(e->meter, 0);
    if (e->cold.store->far)
        dz_timer_after(e->collection, 0);
    return rc;
}

int dz_control_recover(struct dz_control *e, struct dz_err *err)
{
    int rc;
    do
        rc = dz_control_recover_some(e, INT64_MAX, err);
    while (rc == 1);
    return rc;
}

void dz_control_set_idle_policy(struct dz_control *e, const struct dz_idle_policy *policy)
{
    dz_sandboxes_set_idle_policy(e->sandboxes, policy);
}

int dz_control_check_ready(const struct dz_control *e, struct dz_err *err)
{
    if (dz_sandboxes_draining(e->sandboxes))
        return dz_fail(err, DZ_EBUSY,
                       "the daemon is stopping and suspends its sandboxes; try again when it is "
                       "back");
    return e->recovered ? 0
                        : dz_fail(err, DZ_EBUSY,
                                  "the daemon is starting and finishes interrupted operations; try "
                                  "again in a moment");
}

void dz_control_on_timed(struct dz_control *e,
                         void (*fn)(void *arg, const struct dz_control_timing *timing), void *arg)
{
    e->timed = fn;
    e->timed_arg = arg;
}

bool dz_control_account(struct dz_control *e, const char *tenant, size_t *had, size_t now,
                        bool must)
{
    return dz_account_hold(&e->accounts, tenant, had, now, must);
}

void dz_control_timed(struct dz_control *e, const struct dz_control_timing *t)
{
    if (e->timed)
        e->timed(e->timed_arg, t);
}

int64_t dz_control_date(const struct dz_control *e, int64_t at)
{
    return dz_sandboxes_date(e->sandboxes, at);
}

int dz_control_each_warm(const struct dz_control *e,
                         int (*fn)(void *arg, const struct dz_sandbox_warm *warm), void *arg)
{
    return dz_sandboxes_each_warm(e->sandboxes, fn, arg);
}

void dz_control_counts(const struct dz_control *e, struct dz_control_counts *ret_counts)
{
    *ret_counts =
        (struct dz_control_counts){.busy = dz_sandboxes_busy(e->sandboxes), .creates = e->creates};
    dz_sandboxes_count(e->sandboxes, &ret_counts->in);
    memcpy(ret_counts->died, e->died, sizeof ret_counts->died);
}

int dz_control_registry_check(struct dz_control *e, const struct dz_sandboxes_look_opts *o,
                              struct dz_sandboxes_look **ret_look, struct dz_why *why)
{
    struct dz_err err;
    int rc = dz_control_check_ready(e, &err);
    if (rc == 0)
        rc = dz_sandboxes_look(e->sandboxes, o, ret_look, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* --- closing --------------------------------------------------------------------------- */

void dz_control_drain(struct dz_control *e, int64_t deadline_ms,
                      void (*done)(void *arg, size_t left), void *arg)
{
    dz_schedules_stop(e->schedules);
    dz_sandboxes_drain(e->sandboxes, deadline_ms, done, arg);
}

void dz_control_stop_far(struct dz_control *e)
{
    if (e)
        e->cold_stop = true;
}

void dz_control_free(struct dz_control *e)
{
    if (!e)
        return;
    dz_control_builds_free(e);
    dz_control_image_verify_drop(e->verify);
    dz_schedules_free(e->schedules);
    dz_services_release(e);
    dz_sandboxes_free(e->sandboxes);
    dz_egress_close(e);
    dz_replicas_close(e); /* the last commits of all cells are in their logs now */
    dz_copies_release(e);
    dz_control_images_forget(e, NULL);
    dz_map_release(&e->image_cache);
    dz_image_store_close(e->images);
    dz_prealloc_release(&e->prealloc);
    dz_blobs_free(e->cold.live);
    dz_blobs_free(e->cold.store);
    dz_blobs_free(e->share);
    dz_blobs_free(e->snapshots);
    (void)dz_registry_close(e->registry, NULL);
    dz_poll_free(e->pool_poll);
    dz_timer_free(e->pool_soon);
    dz_timer_free(e->notify);
    dz_timer_free(e->tidy);
    dz_timer_free(e->sweep);
    dz_timer_free(e->measure);
    dz_timer_free(e->meter);
    dz_timer_free(e->collection);
    dz_space_close(e);
    dz_control_keys_release(e);
    dz_usages_release(e);
    dz_accounts_release(&e->accounts);
    dz_free(e->data_path);
    dz_fd_close(&e->live_fd);
    dz_free(e->live_path);
    dz_free(e);
}
