/* SPDX-License-Identifier: MIT
 *
 * control_replica.c - which sandboxes are replicated, and where to; what the engine
 * (replica/replica_engine.h) reports.
 *
 * The setting of a sandbox is that of its row, or that of its tenant, or the server's: the first
 * that is not "default". A sandbox is replicated if it is not ephemeral and this is a URL. The
 * engine starts with the first such sandbox. It gets the row of the sandbox as JSON, which it
 * stores beside the pages: from it a lost registry is rebuilt.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "blob/blob_crypt.h"
#include "replica/replica_engine.h"

#include <stdio.h>
#include <string.h>

enum {
    DAY_MS = 24 * 3600 * 1000,
    DRAIN_MS = 5000, /* at the end: wait so long for replicas that lack something */
};

_Static_assert((int)DZ_CONTROL_REPLICA_URL == (int)DZ_REPLICA_URL_MAX &&
                   (int)DZ_CONTROL_REPLICA_LAGS == (int)DZ_REPLICA_LAGS,
               "the same in both modules");

static const char *const state_names[] = {
    [DZ_REPLICA_OFF] = "off",         [DZ_REPLICA_CURRENT] = "current",
    [DZ_REPLICA_LAGGING] = "lagging", [DZ_REPLICA_BEHIND] = "behind",
    [DZ_REPLICA_FENCED] = "fenced",
};

/* --- what the engine reports ------------------------------------------------------------------ */

static void note_report(struct dz_control *e, const struct dz_replica_report *r)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    const char *what = r->state == DZ_REPLICA_BEHIND   ? "replica_behind"
                       : r->state == DZ_REPLICA_FENCED ? "replica_fenced"
                                                       : "replica_recovered";
    dz_log(r->state == DZ_REPLICA_CURRENT ? DZ_LOG_INFO : DZ_LOG_WARN, what,
           dz_log_strz("sandbox_id", r->id), dz_log_strz("error", r->text));
    if (dz_registry_get(e->registry, r->id, &row, NULL) == 0)
        dz_control_note(e, &row, what, r->text);
}

static void on_reports(void *arg, int events)
{
    struct dz_control *e = arg;
    struct dz_replica_report report;
    (void)events;
    while (dz_replica_engine_next(e->replicas, &report))
        note_report(e, &report);
    (void)!dz_poll_set(e->replica_poll, DZ_POLL_READ, NULL);
}

static int start_engine(struct dz_control *e, struct dz_err *err)
{
    char path[DZ_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/replica", e->data_path);
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    const struct dz_replica_engine_opts opts = {.live_path = e->live_path,
                                                .state_path = path,
                                                .access = e->replica.access,
                                                .workers = e->replica.connections,
                                                .behind_ms = e->replica.behind_ms};
    struct dz_replica_engine *engine = NULL;
    int rc = dz_replica_engine_new(&opts, &engine, err);
    if (rc < 0)
        return rc;
    rc = dz_poll_new(e->loop, dz_replica_engine_fd(engine), on_reports, e, &e->replica_poll, err);
    if (rc == 0)
        rc = dz_poll_set(e->replica_poll, DZ_POLL_READ, err);
    if (rc < 0) {
        dz_poll_free(e->replica_poll);
        e->replica_poll = NULL;
        dz_replica_engine_free(engine);
        return rc;
    }
    e->replicas = engine;
    return 0;
}

/* --- what is replicated ----------------------------------------------------------------------- */

/* The columns that a restored sandbox has again. The others say what happens at this moment, or
 * belong to this host. */
#define REPLICATED                                                                              \
    (DZ_COLUMN(tenant) | DZ_COLUMN(name) | DZ_COLUMN(kind) | DZ_COLUMN(image) |                 \
     DZ_COLUMN(config) | DZ_COLUMN(metadata) | DZ_COLUMN(keep) | DZ_COLUMN(created) |           \
     DZ_COLUMN(idle_mode) | DZ_COLUMN(suspend_ms) | DZ_COLUMN(freeze_ms) | DZ_COLUMN(expires) | \
     DZ_COLUMN(ttl_idle_ms) | DZ_COLUMN(timeout_ms) | DZ_COLUMN(timeout_action) |               \
     DZ_COLUMN(memory))

static void put_row(struct dz_json *j, const struct dz_instance *row)
{
#define T(name)                                                    \
    if (REPLICATED & DZ_COLUMN(name) && row->name && row->name[0]) \
        dz_json_put_strz(j, #name, row->name);
#define I(name)                                    \
    if (REPLICATED & DZ_COLUMN(name) && row->name) \
        dz_json_put_i64(j, #name, row->name);
    DZ_INSTANCE_COLUMNS(T, I)
#undef T
#undef I
}

/* Members of ID.json. Texts of columns that are JSON stay texts, byte for byte. */
static int about_of(const struct dz_instance *row, struct dz_buf *b, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_REPLICA_ABOUT_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, false);
    dz_json_object(&j);
    put_row(&j, row);
    dz_json_end(&j);
    int rc = dz_json_finish(&j);
    if (rc == 0)
        dz_buf_addf(b, "\"id\":\"%s\",\"row\":%.*s", row->id, (int)text.len, text.p);
    return rc < 0 || b->err ? dz_fail(err, DZ_ENOMEM, "describe %s: out of memory", row->id) : 0;
}

/* A setting that is not "default"? */
static bool is_set(const char *setting)
{
    return setting && setting[0] && strcmp(setting, DZ_CONTROL_REPLICA_DEFAULT) != 0;
}

/* What decides for one sandbox. Release `tenant` and `config`. */
struct place {
    struct dz_sandbox_config config;
    struct dz_tenant_row tenant; /* empty, if nothing is known of it */
    const char *url;             /* borrowed from the others; NULL: it is not replicated */
};
static void place_release(struct place *p)
{
    dz_sandbox_config_release(&p->config);
    dz_tenant_row_release(&p->tenant);
}

static int place_of(const struct dz_control *e, const struct dz_instance *row, struct place *p,
                    struct dz_err *err)
{
    int rc = dz_sandbox_config_of(row, &p->config, err);
    if (rc == 0)
        rc = dz_registry_tenant_get(e->registry, NULL, row->tenant, &p->tenant, err);
    if (rc < 0 && rc != DZ_ENOENT)
        return rc;
    const char *setting = is_set(p->config.replica)   ? p->config.replica
                          : is_set(p->tenant.replica) ? p->tenant.replica
                                                      : e->replica.url;
    p->url = row->ephemeral || !is_set(setting) || strcmp(setting, DZ_CONTROL_REPLICA_OFF) == 0
                 ? NULL
                 : setting;
    return 0;
}

static int follow(struct dz_control *e, const struct dz_instance *row, bool take,
                  struct dz_err *err)
{
    DZ_AUTO(place_release) struct place p = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf about = DZ_BUF_INIT(DZ_REPLICA_ABOUT_MAX);
    int rc = place_of(e, row, &p, err);
    if (rc < 0)
        return rc;
    if (!p.url) {
        if (e->replicas)
            dz_replica_engine_leave(e->replicas, row->id, false);
        return 0;
    }
    if (!e->replicas)
        rc = start_engine(e, err);
    if (rc == 0)
        rc = about_of(row, &about, err);
    dz_buf_add(&about, "", 1);
    if (rc == 0 && about.err)
        rc = dz_fail(err, about.err, "describe %s: out of memory", row->id);
    if (rc < 0)
        return rc;
    const struct dz_replica_follow f = {.id = row->id,
                                        .url = p.url,
                                        .about = about.p,
                                        .take = take,
                                        .policy = {.every_ms = p.config.replica_every_ms
                                                                   ? p.config.replica_every_ms
                                                                   : e->replica.every_ms,
                                                   .snapshot_ms = e->replica.snapshot_ms,
                                                   .keep_ms = e->replica.keep_ms}};
    return dz_replica_engine_follow(e->replicas, &f, err);
}

void dz_replica_row(struct dz_control *e, const struct dz_instance *row)
{
    struct dz_err err;
    if (follow(e, row, false, &err) < 0)
        dz_log(DZ_LOG_WARN, "replica_failed", dz_log_strz("sandbox_id", row->id), dz_log_err(&err));
}

void dz_replica_erased(struct dz_control *e, const char *id)
{
    if (e->replicas)
        dz_replica_engine_leave(e->replicas, id, true);
}

void dz_replica_rows(struct dz_control *e, const char *tenant)
{
    char after[DZ_COLD_KEY] = "";
    for (bool more = true; more;) {
        DZ_AUTO(dz_instances_release)
        struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        struct dz_err err;
        const struct dz_registry_filter f = {.after = after[0] ? after : NULL, .tenant = tenant};
        if (dz_registry_list(e->registry, &f, &rows, &err) < 0) {
            dz_log(DZ_LOG_WARN, "replica_failed", dz_log_err(&err));
            return;
        }
        for (size_t i = 0; i < rows.n; i++)
            dz_replica_row(e, &rows.p[i]);
        more = rows.n == DZ_REGISTRY_LIST_MAX;
        if (more)
            (void)snprintf(after, sizeof after, "%s", rows.p[rows.n - 1].id);
    }
}

void dz_replica_attach(struct dz_control *e, const char *id, int disk_fd, int wal_fd)
{
    if (e->replicas)
        dz_replica_engine_attach(e->replicas, id, disk_fd, wal_fd);
}

void dz_replica_detach(struct dz_control *e, const char *id)
{
    if (e->replicas)
        dz_replica_engine_detach(e->replicas, id);
}

int dz_replica_check_url(const char *url, bool is_operator, struct dz_why *why)
{
    if (!url || strcmp(url, DZ_CONTROL_REPLICA_OFF) == 0 ||
        strcmp(url, DZ_CONTROL_REPLICA_DEFAULT) == 0)
        return 0;
    struct dz_str s = dz_str(url);
    if (!is_operator)
        return dz_why(why, DZ_EDENIED, "replica",
                      "replica: only an operator may set a URL, because the daemon writes to it "
                      "with its own rights; \"off\" and \"default\" are allowed");
    if (s.n >= DZ_CONTROL_REPLICA_URL - 2 * DZ_BLOB_KEY_MAX ||
        (!dz_str_starts(s, DZ_STR("file:///")) && !dz_str_starts(s, DZ_STR("s3://"))))
        return dz_why(why, DZ_EINVAL, "replica",
                      "replica: must be file:///DIR, s3://BUCKET/PREFIX, \"off\" or \"default\"");
    return 0;
}

int dz_replica_place(const struct dz_control *e, const struct dz_instance *row, char *ret_url,
                     struct dz_why *why)
{
    DZ_AUTO(place_release) struct place p = {0};
    int rc = place_of(e, row, &p, &why->err);
    if (rc == 0 && !p.url)
        return dz_why(why, DZ_ESTATE, NULL,
                      "%s is not replicated, so there is no replica to restore it from",
                      row->name[0] ? row->name : row->id);
    if (rc == 0)
        rc = dz_replica_url_of(p.url, row->id, ret_url, &why->err);
    return rc < 0 ? dz_why_err(why, rc, &why->err) : 0;
}

/* --- what clients see ------------------------------------------------------------------------- */

void dz_control_replica_of(struct dz_control *e, const char *id, struct dz_control_replica *ret)
{
    struct dz_replica_status s = {0};
    if (e->replicas)
        dz_replica_engine_status(e->replicas, id, &s);
    *ret = (struct dz_control_replica){.on = s.state != DZ_REPLICA_OFF,
                                       .state = state_names[s.state],
                                       .txid = s.txid,
                                       .at_ms = s.txid ? s.at_ms : 0,
                                       .lag_ms = s.lag_ms,
                                       .uploads = s.uploads,
                                       .bytes = s.bytes,
                                       .errors = s.errors};
    memcpy(ret->url, s.url, sizeof s.url);
    memcpy(ret->error, s.error, sizeof s.error);
}

int dz_control_tenant_replica(struct dz_control *e, const char *tenant, char **ret_setting,
                              struct dz_why *why)
{
    DZ_AUTO(dz_tenant_row_release) struct dz_tenant_row row = {0};
    int rc = dz_registry_tenant_get(e->registry, NULL, tenant, &row, &why->err);
    if (rc < 0 && rc != DZ_ENOENT)
        return dz_why_err(why, rc, &why->err);
    *ret_setting =
        dz_str_dup(dz_str(is_set(row.replica) ? row.replica : DZ_CONTROL_REPLICA_DEFAULT));
    return *ret_setting ? 0 : dz_why(why, DZ_ENOMEM, NULL, "out of memory");
}

void dz_control_replicas(struct dz_control *e, bool take, struct dz_control_replicas *ret)
{
    struct dz_replica_totals *t = e->replicas ? dz_zalloc(sizeof *t) : NULL;
    *ret = (struct dz_control_replicas){0};
    if (!t)
        return;
    dz_replica_engine_totals(e->replicas, take, t);
    *ret = (struct dz_control_replicas){.followed = t->followed,
                                        .lagging = t->lagging,
                                        .behind = t->behind,
                                        .fenced = t->fenced,
                                        .uploads = t->uploads,
                                        .snapshots = t->snapshots,
                                        .bytes = t->bytes,
                                        .errors = t->errors,
                                        .requests = t->requests,
                                        .lag_ms = t->lag_ms,
                                        .lag_count = t->lag_count};
    memcpy(ret->lag_s, t->lag_s, sizeof t->lag_s);
    dz_free(t);
}

int dz_control_replica_take(struct dz_control *e, struct dz_control_target target,
                            struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_err err;
    int rc = dz_control_row(e, target, &row, why);
    if (rc < 0)
        return rc;
    rc = follow(e, &row, true, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* --- frozen sandboxes whose file a replica has -------------------------------------------------
 */

_Static_assert((int)DZ_COLD_URL_MAX == (int)DZ_REPLICA_URL_MAX, "the same in both modules");

static int find_far_replica(void *control, const char *id, struct dz_cold_point *ret_point)
{
    const struct dz_control *e = control;
    struct dz_replica_engine *engine = e->replicas;
    return engine && dz_replica_engine_has_all(engine, id, ret_point->url, &ret_point->txid) == 1 &&
           dz_str_starts(dz_str(ret_point->url), DZ_STR("s3://"));
}

static void on_thawed(void *progress, uint64_t bytes)
{
    dz_blob_progress_at(progress, bytes);
}

static int restore_frozen(void *control, const struct dz_cold_point *point, int fd,
                          struct dz_blob_progress *progress, dz_cold_cancel cancel,
                          struct dz_err *err)
{
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files plan = DZ_REPLICA_FILES_INIT;
    const struct dz_control *e = control;
    const struct dz_replica_goal goal = {.txid = point->txid};
    const struct dz_replica_run run = {
        .cancel = cancel, .progress = progress ? on_thawed : NULL, .arg = progress};
    struct dz_replica_restored restored;
    int rc = dz_replica_open(point->url, &e->replica.access, false, &r, err);
    if (rc == 0)
        rc = dz_replica_list(&r, &all, err);
    if (rc == 0)
        rc = dz_replica_plan_restore(&all, &goal, &plan, err);
    if (rc == 0 && progress) {
        uint64_t total = 0;
        for (size_t i = 0; i < plan.n; i++)
            total += plan.p[i].size;
        atomic_store(&progress->done, 0);
        atomic_store(&progress->total, total);
    }
    if (rc == 0)
        rc = dz_replica_restore(&r, &plan, fd, &run, &restored, err);
    return rc < 0 ? dz_wrap(err, rc, "its file is in the replica %.200s", point->url) : 0;
}

static void adopt_thawed(void *control, const char *id, const struct dz_cold_point *point, int fd)
{
    const struct dz_control *e = control;
    struct dz_replica_engine *engine = e->replicas;
    if (engine)
        dz_replica_engine_adopt(engine, id, point->txid, fd);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* A key file that is missing is better found now than by the first commit. */
static int check_keys(const char *path, struct dz_err *err)
{
    struct dz_blob_keys *keys = NULL;
    int rc = path && path[0] ? dz_blob_keys_load(path, &keys, err) : 0;
    dz_blob_keys_free(keys);
    return rc < 0 ? dz_wrap(err, rc, "setting replica.key_file") : 0;
}

int dz_replicas_open(struct dz_control *e, const struct dz_control_replica_opts *o,
                     struct dz_err *err)
{
    struct dz_why why;
    int rc = check_keys(o->access.key_file, err);
    if (rc < 0)
        return rc;
    e->cold_replicas = (struct dz_cold_replicas){
        .find = find_far_replica, .restore = restore_frozen, .adopt = adopt_thawed, .arg = e};
    e->replica = *o;
    e->replica.url = NULL;
    if (e->replica.connections == 0)
        e->replica = (struct dz_control_replica_opts){.access = o->access,
                                                      .snapshot_ms = DAY_MS,
                                                      .keep_ms = DAY_MS,
                                                      .behind_ms = 10000,
                                                      .connections = 8};
    if (!o->url || !o->url[0])
        return 0;
    if (dz_replica_check_url(o->url, true, &why) < 0 || strchr(o->url, ':') == NULL)
        return dz_fail(err, DZ_EINVAL,
                       "setting replica.url: \"%.100s\" is neither file:///DIR nor "
                       "s3://BUCKET/PREFIX",
                       o->url);
    e->replica.url = e->replica_url = dz_str_dup(dz_str(o->url));
    return e->replica_url ? 0 : dz_fail(err, DZ_ENOMEM, "setting replica.url: out of memory");
}

void dz_replicas_close(struct dz_control *e)
{
    if (e->replicas) {
        size_t left = dz_replica_engine_drain(e->replicas, DRAIN_MS, true);
        if (left > 0)
            dz_log(DZ_LOG_WARN, "replicas_behind", dz_log_uint("count", left));
    }
    dz_poll_free(e->replica_poll);
    dz_replica_engine_free(e->replicas);
    dz_free(e->replica_url);
}
