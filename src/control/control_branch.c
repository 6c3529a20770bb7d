/* SPDX-License-Identifier: MIT
 *
 * control_branch.c - sandboxes that start from snapshots, or from an earlier state in a replica;
 * forks, which are snapshots with a label from which any number of branches start; references,
 * which share one sandbox.
 *
 * A branch's file is a copy of the snapshot's. It is made before the branch's row, under an intent
 * file, so that the next start removes it if the daemon dies between the two. A fork for a single
 * branch needs no snapshot: the cell writes the branch's file directly (control_snap.c), and the
 * branch starts beside the sync of that file. Nothing of it is told before the file is on the disk.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "replica/replica.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* --- a sandbox out of a snapshot -------------------------------------------------------------- */

/* What a branch is restored from, and its caller, who may be gone when that is known. */
struct restoring {
    struct dz_list link; /* in control.restores */
    struct dz_blob_progress progress;
    struct dz_control_own_caller own;
    struct dz_replica_goal goal;
    struct dz_replica replica;
    struct dz_replica_files plan;
    uint64_t bytes; /* of the file, as the plan says */
    struct dz_replica_restored to;
    char source[DZ_ID_TEXT]; /* the sandbox whose replica it is */
    char url[DZ_REPLICA_URL_MAX];
};

struct branch {
    struct dz_control *e;
    struct dz_snapshot_row snap;
    struct restoring *restoring; /* NULL: the file is a copy of the snapshot's */
    dz_sandbox_done_fn *done;
    void *arg;
    bool no_start;
    char *tenant, *name, *config, *metadata, *keep, *idle_mode;
    char *timeout_action, *owner;
    uint64_t memory_bytes;
    int64_t idle_ms, timeout_ms;
    bool ephemeral;
    char id[DZ_ID_TEXT], image[DZ_SHA256_HEX]; /* image: of snap, with `restoring` */
    int rc;                                    /* result of the worker */
    struct dz_err err;
};

static void branch_free(struct branch *b)
{
    dz_snapshot_row_release(&b->snap);
    if (b->restoring) {
        dz_list_remove(&b->restoring->link);
        dz_replica_close(&b->restoring->replica);
        dz_vec_release(&b->restoring->plan);
        dz_free(b->restoring);
    }
    dz_free(b->tenant);
    dz_free(b->name);
    dz_free(b->config);
    dz_free(b->metadata);
    dz_free(b->keep);
    dz_free(b->idle_mode);
    dz_free(b->timeout_action);
    dz_free(b->owner);
    dz_free(b);
}

static int copy_one(const struct branch *b, bool log, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    const struct dz_blob_copy how = {.no_hash = true};
    struct dz_blob_copied copied;
    char from[DZ_COLD_KEY], to[DZ_COLD_KEY];
    (void)snprintf(from, sizeof from, "%s.doze%s", b->snap.id, log ? "-wal" : "");
    int rc = dz_blob_in_open(b->e->snapshots, from, &in, err);
    if (rc == DZ_ENOENT && log)
        return 0;
    if (rc == 0)
        rc = dz_blob_out_open(b->e->cold.live,
                              dz_cold_key(b->id, log ? DZ_COLD_LOG : DZ_COLD_LIVE, to), &out, err);
    if (rc == 0)
        rc = dz_blob_copy(in, out, &how, &copied, err);
    if (rc < 0)
        return rc;
    assert(out);
    out->claimed = true;
    return dz_blob_out_commit(out, err);
}

static void undo_file(const struct branch *b)
{
    if (dz_intent_undo(b->e, b->id, NULL) < 0)
        dz_log(DZ_LOG_WARN, "copy_left", dz_log_strz("sandbox_id", b->id));
}

static void on_read(void *restoring, uint64_t bytes)
{
    struct restoring *from = restoring;
    dz_blob_progress_at(&from->progress, bytes);
}

static int restore_file(const struct branch *b, struct dz_err *err)
{
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    struct restoring *from = b->restoring;
    char key[DZ_COLD_KEY];
    int rc = dz_blob_out_open(b->e->cold.live, dz_cold_key(b->id, DZ_COLD_LIVE, key), &out, err);
    const struct dz_replica_run run = {
        .cancel = &b->e->cold_stop, .progress = on_read, .arg = from};
    for (size_t i = 0; i < from->plan.n; i++)
        from->progress.total += from->plan.p[i].size;
    if (rc == 0)
        rc = dz_replica_restore(&from->replica, &from->plan, out->fd, &run, &from->to, err);
    if (rc < 0)
        return rc;
    out->claimed = true;
    return dz_blob_out_commit(out, err);
}

static void work_copy(void *arg)
{
    struct branch *b = arg;
    b->rc = dz_intent_make(b->e, b->id, &b->err);
    if (b->rc == 0 && b->restoring) {
        b->rc = restore_file(b, &b->err);
        if (b->rc < 0)
            undo_file(b);
        return;
    }
    if (b->rc == 0)
        b->rc = copy_one(b, true, &b->err);
    if (b->rc == 0)
        b->rc = copy_one(b, false, &b->err);
    if (b->rc < 0)
        undo_file(b);
}

static void branch_fail(struct branch *b, int code, const struct dz_err *err)
{
    struct dz_why why = {0};
    const struct dz_sandbox_result r = {.code = code, .why = &why};
    (void)dz_why_err(&why, code, err);
    if (code == DZ_EEXIST)
        (void)snprintf(why.field, sizeof why.field, "name");
    b->done(b->arg, &r);
    branch_free(b);
}

/* The row of the branch. It borrows from b. */
static int describe_row(struct branch *b, struct dz_instance *ret_row, struct dz_err *err)
{
    const char *kind = "wasm";
    int rc = dz_control_kind_of(b->e, b->snap.image, &kind, err);
    *ret_row = (struct dz_instance){
        .id = b->id,
        .tenant = b->tenant,
        .name = b->name,
        .kind = kind,
        .image = b->snap.image,
        .config = b->config,
        .metadata = b->metadata,
        .keep = b->keep,
        .idle_mode = b->idle_mode,
        .suspend_ms = b->idle_ms,
        .deployment = dz_deployment_name(DZ_DEPLOYMENT_DEPLOYED),
        .timeout_ms = b->timeout_ms,
        .timeout_action = b->timeout_action,
        .ephemeral = b->ephemeral,
        .owner = b->owner,
        .memory = (int64_t)b->memory_bytes,
        .generation = b->restoring != NULL, /* the file is not the image's empty disk */
    };
    return rc;
}

static void start_branch(struct branch *b, const struct dz_instance *row)
{
    struct dz_why why = {0};
    int rc = dz_control_started(b->e, row, b->no_start, b->done, b->arg, &why);
    if (rc < 0) {
        const struct dz_sandbox_result r = {.code = rc, .why = &why};
        b->done(b->arg, &r);
    }
    branch_free(b);
}

static void note_restored(const struct branch *b, const struct dz_instance *row)
{
    char txid[DZ_TXID_TEXT], time[DZ_RFC3339_TEXT], text[128];
    (void)snprintf(text, sizeof text, "%s, TXID %s of %s", b->restoring->source,
                   dz_txid_print(b->restoring->to.txid, txid),
                   dz_rfc3339_print(b->restoring->to.time_ms, time));
    dz_control_note(b->e, row, "restored", text);
}

static void on_copied(void *arg)
{
    struct branch *b = arg;
    struct dz_instance row;
    struct dz_why why = {0};
    const bool copied = b->rc == 0;
    if (copied)
        b->rc = describe_row(b, &row, &b->err);
    if (b->rc < 0) {
        if (copied)
            undo_file(b);
        branch_fail(b, b->rc, &b->err);
        return;
    }
    /* Other creations may have used up the quota meanwhile, and a restore takes long: the caller's
     * token may have been revoked. */
    int rc = b->restoring ? dz_control_caller_check(b->e, &b->restoring->own.who, &why) : 0;
    if (rc == 0)
        rc = dz_usage_room(b->e, b->tenant, b->owner, &why);
    if (rc < 0)
        b->err = why.err;
    else
        rc = dz_sandbox_register(b->e->sandboxes, &row, &b->err);
    if (rc < 0) {
        undo_file(b);
        branch_fail(b, rc, &b->err);
        return;
    }
    dz_intent_remove(b->e, b->id);
    if (b->restoring)
        note_restored(b, &row);
    start_branch(b, &row);
}

static int own(char **to, const char *text)
{
    *to = dz_str_dup(dz_str(text ? text : ""));
    return *to ? 0 : DZ_ENOMEM;
}

/* Settings that the client did not give are those of the snapshot's sandbox, except for open ports.
 * b->id is known. */
static int inherit(struct branch *b, const struct dz_control_caller *who,
                   const struct dz_control_spec *s, uint64_t memory, struct dz_err *err)
{
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    const struct dz_instance as_row = {
        .id = b->snap.id, .config = b->snap.config, .metadata = b->snap.metadata};
    DZ_AUTO(dz_freep) char *ports = NULL, *services = NULL;
    struct dz_why why = {0};
    int rc = dz_sandbox_config_of(&as_row, &c, err);
    if (rc == 0 && s->open_ports && dz_control_ports_make(s->open_ports, b->id, &ports, &why) < 0) {
        *err = why.err;
        rc = why.err.code;
    }
    if (rc == 0 && s->services_json && dz_services_make(s->services_json, &services, &why) < 0) {
        *err = why.err;
        rc = why.err.code;
    }
    if (rc < 0)
        return rc;
    const struct dz_control_spec merged = {
        .ports = ports,
        .services = services ? services : c.services,
        .expiry = dz_expiry_is_set(&s->expiry) ? s->expiry : c.expiry,
        .size = s->size ? s->size : c.size,
        .policy = s->policy ? s->policy : c.policy,
        .durability = s->durability ? s->durability : c.durability,
        .env_json = s->env_json ? s->env_json : c.env,
        .volumes_json = s->volumes_json ? s->volumes_json : c.volumes,
        .no_resume = s->no_resume || !c.auto_resume,
        .disk_bytes = s->disk_bytes ? s->disk_bytes : c.disk_bytes,
        .silence_ms = s->silence_ms ? s->silence_ms : c.silence_ms,
        .ignore_cpu = s->ignore_cpu || c.ignore_cpu,
        .replica = s->replica ? s->replica : c.replica,
        .replica_every_ms = s->replica_every_ms ? s->replica_every_ms : c.replica_every_ms,
        .network_json = s->network_json ? s->network_json : c.network,
    };
    b->config = dz_control_config_text(&merged, c.image, memory ? memory : c.memory_bytes);
    b->metadata = dz_control_metadata_text(s->labels_json ? s->labels_json : c.labels,
                                           s->metadata_json ? s->metadata_json : c.metadata);
    b->idle_ms = s->idle_ms;
    b->timeout_ms = s->timeout_ms;
    b->ephemeral = s->ephemeral;
    b->no_start = s->no_start;
    if (!b->config || !b->metadata || own(&b->tenant, who->tenant) < 0 ||
        own(&b->name, s->name) < 0 || own(&b->keep, s->keep) < 0 ||
        own(&b->idle_mode, s->idle_mode) < 0 ||
        own(&b->timeout_action, s->timeout_ms ? s->timeout_action : NULL) < 0 ||
        own(&b->owner, who->token) < 0)
        return dz_fail(err, DZ_ENOMEM, "create: out of memory");
    return dz_control_memory_of(b->e, b->snap.image, merged.policy,
                                memory ? memory : c.memory_bytes, &b->memory_bytes, err);
}

/* Count the new branch against all quotas. `done` is called when its creation ends. copy_bytes:
 * size of the file that is copied or restored. */
static struct dz_creating *begin_create(struct branch *b, const struct dz_control_caller *who,
                                        uint64_t copy_bytes, struct dz_why *why)
{
    const struct dz_control_creation what = {.tenant = who->tenant,
                                             .token = who->token,
                                             .memory_bytes = b->memory_bytes,
                                             .starts = !b->no_start,
                                             .copy_bytes = copy_bytes,
                                             .shared = !b->restoring};
    struct dz_creating *c = dz_usage_create(b->e, &what, b->done, b->arg, why);
    if (c) {
        b->done = dz_usage_created;
        b->arg = c;
    }
    return c;
}

static int begin_copy(struct branch *b, const struct dz_control_caller *who,
                      const struct dz_control_spec *spec, uint64_t memory, struct dz_why *why)
{
    struct dz_err err;
    int rc = 0;
    if (spec->id)
        (void)snprintf(b->id, sizeof b->id, "%s", spec->id);
    else
        rc = dz_id_new("sbx", b->id, &err);
    if (rc == 0)
        rc = inherit(b, who, spec, memory, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    struct dz_creating *c = begin_create(b, who, dz_snap_bytes(b->e, b->snap.id), why);
    if (!c)
        return why->err.code;
    rc = dz_loop_work(b->e->loop, work_copy, on_copied, b, &err);
    if (rc < 0)
        dz_usage_create_over(c);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_control_branch(struct dz_control *e, const struct dz_control_caller *who,
                      const struct dz_control_spec *spec, dz_sandbox_done_fn *done, void *arg,
                      struct dz_why *why)
{
    uint64_t memory = 0;
    struct branch *b = dz_zalloc(sizeof *b);
    if (!b)
        return dz_why(why, DZ_ENOMEM, NULL, "create: out of memory");
    b->e = e;
    b->done = done;
    b->arg = arg;
    int rc = dz_control_check_spec(spec, &memory, why);
    if (rc == 0)
        rc = dz_volumes_check(e, who, spec->volumes_json, why);
    if (rc == 0)
        rc = dz_replica_check_url(spec->replica, who->is_operator, why);
    if (rc == 0)
        rc = dz_egress_check(e, spec->network_json, why);
    if (rc == 0)
        rc = dz_control_snapshot_get(e, (struct dz_control_target){who, spec->snapshot}, &b->snap,
                                     why);
    if (rc == DZ_ENOENT)
        (void)snprintf(why->field, sizeof why->field, "snapshot");
    if (rc == 0 && strcmp(b->snap.kind, "pause") == 0)
        rc = dz_why(why, DZ_EINVAL, "snapshot",
                    "%s belongs to a paused sandbox and can only resume that one: wake the sandbox "
                    "instead",
                    b->snap.id);
    if (rc == 0)
        rc = begin_copy(b, who, spec, memory, why);
    if (rc < 0)
        branch_free(b);
    return rc;
}

/* --- a sandbox out of a replica ----------------------------------------------------------------
 */

/* Find the files that give the state, and how large it is. */
static void work_plan(void *arg)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    struct branch *b = arg;
    struct restoring *from = b->restoring;
    const _Atomic bool *stop = &b->e->cold_stop;
    int rc = dz_replica_open(from->url, &b->e->replica.access, false, &from->replica, &b->err);
    if (rc == 0)
        rc = dz_replica_list(&from->replica, &all, &b->err);
    if (rc == 0 && from->goal.timed)
        rc = dz_replica_time(&from->replica, &all, stop, &b->err);
    if (rc == 0)
        rc = dz_replica_plan_restore(&all, &from->goal, &from->plan, &b->err);
    if (rc == 0)
        rc = dz_replica_plan_bytes(&from->replica, &from->plan, &from->bytes, &b->err);
    b->rc = rc;
}

static void on_planned(void *arg)
{
    struct branch *b = arg;
    struct dz_why why = {0};
    struct dz_creating *c;
    if (b->rc < 0) {
        branch_fail(b, b->rc, &b->err);
        return;
    }
    if (dz_control_caller_check(b->e, &b->restoring->own.who, &why) < 0 ||
        !(c = begin_create(b, &b->restoring->own.who, b->restoring->bytes, &why))) {
        const struct dz_sandbox_result r = {.code = why.err.code, .why = &why};
        b->done(b->arg, &r);
        branch_free(b);
        return;
    }
    int rc = dz_loop_work(b->e->loop, work_copy, on_copied, b, &b->err);
    if (rc < 0)
        branch_fail(b, rc, &b->err);
}

static int goal_of(const struct dz_control_restore *what, struct dz_replica_goal *ret,
                   struct dz_why *why)
{
    struct dz_err err;
    *ret = (struct dz_replica_goal){.timed = what->at != NULL};
    if (what->at && what->txid)
        return dz_why(why, DZ_EINVAL, "txid", "txid: give \"at\" or \"txid\", not both");
    if (what->at && dz_rfc3339_parse(dz_str(what->at), &ret->time_ms, &err) < 0)
        return dz_why(why, DZ_EINVAL, "at", "at: must be a time like 2026-01-31T23:59:59Z: %s",
                      err.msg);
    if (what->txid && dz_txid_parse(what->txid, &ret->txid, &err) < 0)
        return dz_why(why, DZ_EINVAL, "txid", "txid: %s", err.msg);
    return 0;
}

/* Where the sandbox's replica is, and what to restore from it. */
static int describe_restore(struct branch *b, struct dz_control_target target,
                            const struct dz_instance *row, const struct dz_control_restore *what,
                            struct dz_why *why)
{
    const struct dz_control_caller as = {
        .tenant = row->tenant, .token = target.who->token, .is_operator = target.who->is_operator};
    const struct dz_control_spec spec = {.name = what->name,
                                         .keep = row->keep,
                                         .idle_mode = row->idle_mode,
                                         .idle_ms = row->suspend_ms,
                                         .no_start = true};
    struct restoring *from = b->restoring = dz_zalloc(sizeof *from);
    if (!from)
        return dz_why(why, DZ_ENOMEM, NULL, "restore: out of memory");
    dz_list_init(&from->link);
    dz_list_push_back(&b->e->restores, &from->link);
    dz_control_caller_keep(&from->own, &as);
    (void)snprintf(from->source, sizeof from->source, "%s", row->id);
    int rc = goal_of(what, &from->goal, why);
    if (rc == 0)
        rc = dz_replica_place(b->e, row, from->url, why);
    if (rc < 0)
        return rc;
    b->snap = (struct dz_snapshot_row){
        .id = from->source, .image = b->image, .config = row->config, .metadata = row->metadata};
    rc = inherit(b, &from->own.who, &spec, 0, &why->err);
    if (rc == 0)
        rc = dz_id_new("sbx", b->id, &why->err);
    return rc < 0 ? dz_why_err(why, rc, &why->err) : 0;
}

int dz_control_restore(struct dz_control *e, struct dz_control_target target,
                       const struct dz_control_restore *what, dz_sandbox_done_fn *done, void *arg,
                       struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = what->name ? dz_control_check_name(what->name, why) : 0;
    if (rc == 0)
        rc = dz_control_row(e, target, &row, why);
    if (rc < 0)
        return rc;
    struct branch *b = dz_zalloc(sizeof *b);
    if (!b)
        return dz_why(why, DZ_ENOMEM, NULL, "restore: out of memory");
    *b = (struct branch){.e = e, .done = done, .arg = arg};
    (void)snprintf(b->image, sizeof b->image, "%s", row.image);
    rc = describe_restore(b, target, &row, what, why);
    b->snap.config = b->snap.metadata = NULL; /* the row's */
    if (rc == 0 && dz_loop_work(e->loop, work_plan, on_planned, b, &why->err) < 0)
        rc = dz_why_err(why, why->err.code, &why->err);
    if (rc < 0)
        branch_free(b);
    return rc;
}

bool dz_control_progress(struct dz_control *e, const char *id,
                         struct dz_sandbox_progress *ret_progress)
{
    if (dz_sandbox_progress(e->sandboxes, id, ret_progress))
        return true;
    DZ_LIST_FOREACH(const struct restoring, r, &e->restores, link) {
        if (strcmp(r->source, id) != 0 || atomic_load(&r->progress.total) == 0)
            continue;
        *ret_progress = (struct dz_sandbox_progress){.what = "restore",
                                                     .done = atomic_load(&r->progress.done),
                                                     .total = atomic_load(&r->progress.total)};
        return true;
    }
    return false;
}

/* --- pauses -------------------------------------------------------------------- */

/* Find the pause snapshot of this sandbox: 1 and its row, or 0. */
static int find_pause(struct dz_control *e, const char *sandbox, struct dz_snapshot_row *ret_row,
                      struct dz_err *err)
{
    DZ_AUTO(dz_snapshot_rows_release)
    struct dz_snapshot_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    const struct dz_registry_record_filter f = {.sandbox_id = sandbox};
    int rc = dz_registry_snapshot_list(e->registry, &f, &rows, err);
    for (size_t i = 0; i < rows.n && rc == 0; i++) {
        if (strcmp(rows.p[i].kind, "pause") != 0)
            continue;
        *ret_row = rows.p[i];
        rows.p[i] = (struct dz_snapshot_row){0};
        rc = 1;
    }
    return rc;
}

int dz_control_pause(struct dz_control *e, const struct dz_instance *row,
                     char ret_id[static DZ_ID_TEXT], struct dz_why *why)
{
    DZ_AUTO(dz_snapshot_row_release) struct dz_snapshot_row old = {0};
    struct dz_err err;
    int rc = find_pause(e, row->id, &old, &err);
    if (rc == 1) {
        (void)snprintf(ret_id, DZ_ID_TEXT, "%s", old.id);
        return 0;
    }
    if (rc == 0)
        rc = dz_id_new("snap", ret_id, &err);
    if (rc == 0) {
        const struct dz_snapshot_row pause = {.id = ret_id,
                                              .tenant = row->tenant,
                                              .status = "ready",
                                              .sandbox_id = row->id,
                                              .kind = "pause",
                                              .image = row->image,
                                              .created = dz_clock_real_ms()};
        rc = dz_registry_snapshot_add(e->registry, &pause, false, &err);
    }
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

void dz_control_pause_over(struct dz_control *e, const char *sandbox)
{
    DZ_AUTO(dz_snapshot_row_release) struct dz_snapshot_row old = {0};
    struct dz_err err;
    int rc = find_pause(e, sandbox, &old, &err);
    if (rc == 1)
        rc = dz_registry_snapshot_remove(e->registry, NULL, old.id, 0, &err);
    if (rc < 0)
        dz_log(DZ_LOG_WARN, "pause_left", dz_log_strz("sandbox_id", sandbox), dz_log_err(&err));
}

int dz_control_resume(struct dz_control *e, struct dz_control_target target, const char *name,
                      dz_sandbox_done_fn *done, void *arg, struct dz_why *why)
{
    DZ_AUTO(dz_snapshot_row_release) struct dz_snapshot_row row = {0};
    const struct dz_control_order wake = {.what = DZ_REQUEST_WAKE};
    const struct dz_control_spec spec = {
        .name = name, .snapshot = target.ref, .idle_ms = DZ_IDLE_INHERIT};
    int rc = dz_control_snapshot_get(e, target, &row, why);
    if (rc < 0)
        return rc;
    if (strcmp(row.kind, "pause") != 0)
        return dz_control_create(e, target.who, &spec, done, arg, why);
    if (name)
        return dz_why(why, DZ_EINVAL, "name",
                      "name: %s resumes a paused sandbox, which keeps its name", row.id);
    target.ref = row.sandbox_id;
    return dz_control_order(e, target, &wake, done, arg, why);
}

/* --- forks
 * ---------------------------------------------------------------------------------------- */

struct forking {
    struct dz_control *e;
    dz_control_fork_fn *done;
    void *arg;
    char *label;
    int64_t expires;
    char id[DZ_ID_TEXT];
};

static void on_forked(void *arg, const struct dz_snapshot_row *snap, const struct dz_why *failed)
{
    struct forking *f = arg;
    struct dz_why why = {0};
    if (failed) {
        f->done(f->arg, NULL, failed);
    } else {
        const struct dz_fork_row row = {
            .id = f->id,
            .tenant = snap->tenant,
            .status = "ready",
            .sandbox_id = snap->sandbox_id,
            .label = f->label,
            .snapshot_id = snap->id,
            .created = dz_clock_real_ms(),
            .expires = f->expires,
        };
        int rc = dz_registry_fork_add(f->e->registry, &row, false, &why.err);
        f->done(f->arg, rc < 0 ? NULL : &row, rc < 0 ? &why : NULL);
    }
    dz_free(f->label);
    dz_free(f);
}

int dz_control_fork(struct dz_control *e, struct dz_control_target target,
                    const struct dz_control_handle *as, dz_control_fork_fn *done, void *arg,
                    struct dz_why *why)
{
    const char *label = as->name;
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_control_row(e, target, &row, why);
    if (rc == 0 && label && strlen(label) > DZ_CONTROL_VALUE_MAX)
        rc = dz_why(why, DZ_ELIMIT, "label", "label: must be at most %d bytes",
                    DZ_CONTROL_VALUE_MAX);
    if (rc < 0)
        return rc;
    struct forking *f = dz_zalloc(sizeof *f);
    if (!f)
        return dz_why(why, DZ_ENOMEM, NULL, "fork: out of memory");
    *f = (struct forking){.e = e, .done = done, .arg = arg, .expires = dz_control_expiry(as)};
    rc = dz_id_new("frk", f->id, &why->err);
    if (rc == 0 && own(&f->label, label) < 0)
        rc = dz_why(why, DZ_ENOMEM, NULL, "fork: out of memory");
    if (rc == 0)
        rc =
            dz_control_snapshot_of(e, &row, (struct snap_label){.kind = "fork"}, on_forked, f, why);
    if (rc < 0) {
        dz_free(f->label);
        dz_free(f);
    }
    return rc;
}

/* A fork for a single branch: the row that its client gets, and the caller */
struct fork_one {
    struct branch *b; /* held until the branch has its file */
    dz_control_fork_one_fn *done;
    void *arg;
    struct dz_control_own_caller own; /* a copy, because the work outlives the request */
    struct dz_instance source;
    char fork[DZ_ID_TEXT], snap[DZ_ID_TEXT];
    int64_t created;
    unsigned holds; /* its creation, and the sync of its file if that runs at the same time: */
    bool ahead;
    struct dz_control *e;
    char child[DZ_ID_TEXT];
    struct dz_why unsynced; /* why the sync failed; code 0: it did not */
};

static void fork_one_free(struct fork_one *f)
{
    if (f->b)
        branch_free(f->b);
    dz_instance_release(&f->source);
    dz_free(f);
}

static void fork_one_put(struct fork_one *f)
{
    if (--f->holds == 0)
        fork_one_free(f);
}

static void on_one(void *arg, const struct dz_sandbox_result *result)
{
    struct fork_one *f = arg;
    const struct dz_fork_row row = {.id = f->fork,
                                    .tenant = f->source.tenant,
                                    .status = "ready",
                                    .sandbox_id = f->source.id,
                                    .snapshot_id = f->snap,
                                    .created = f->created};
    struct dz_sandbox_result r = *result;
    if (r.code < 0 && f->unsynced.err.code < 0) {
        r.code = f->unsynced.err.code;
        r.why = &f->unsynced;
    }
    f->done(f->arg, r.code < 0 ? NULL : &row, &r);
    fork_one_put(f);
}

/* Nothing stands between the file and its sandbox's start but the sync. A strict sandbox's row is
 * on the disk before its start, and must not be there before its file. */
static bool on_file_written(void *arg)
{
    struct fork_one *f = arg;
    struct branch *b = f->b;
    struct dz_instance row;
    struct dz_why why = {0};
    struct dz_err err;
    if (describe_row(b, &row, &err) < 0 || dz_control_is_strict(&row) ||
        dz_control_caller_check(b->e, &f->own.who, &why) < 0 ||
        dz_usage_room(b->e, b->tenant, b->owner, &why) < 0 ||
        dz_sandbox_register_unsynced(b->e->sandboxes, &row, &err) < 0)
        return false; /* on_own_file() meets the same error */
    f->b = NULL;
    f->ahead = true;
    f->holds++;
    start_branch(b, &row);
    return true;
}

/* The sandbox was begun beside the sync of its file, which is over. */
static void on_own_file_synced(struct fork_one *f, const struct dz_why *failed)
{
    if (failed) {
        f->unsynced = *failed;
        dz_control_undo(f->e, f->child);
    } else {
        dz_sandbox_file_synced(f->e->sandboxes, f->child);
        dz_intent_remove(f->e, f->child);
    }
    fork_one_put(f);
}

/* The branch's file is on the disk, under its intent file. The caller's token may have been revoked
 * meanwhile. */
static void on_own_file(void *arg, const struct dz_snapshot_row *snap, const struct dz_why *failed)
{
    struct fork_one *f = arg;
    struct branch *b = f->b;
    struct dz_why why = {0};
    (void)snap;
    if (f->ahead) {
        on_own_file_synced(f, failed);
        return;
    }
    f->b = NULL;
    if (failed) {
        const struct dz_sandbox_result r = {.code = failed->err.code, .why = failed};
        b->done(b->arg, &r);
        branch_free(b);
        return;
    }
    b->rc = dz_control_caller_check(b->e, &f->own.who, &why);
    if (b->rc < 0) {
        const struct dz_sandbox_result r = {.code = b->rc, .why = &why};
        undo_file(b);
        b->done(b->arg, &r);
        branch_free(b);
        return;
    }
    on_copied(b);
}

/* Choose the ids, and fill the snapshot row that the branch inherits its settings from. */
static int describe(struct fork_one *f, struct dz_err *err)
{
    int rc = dz_id_new("frk", f->fork, err);
    if (rc == 0)
        rc = dz_id_new("snap", f->snap, err);
    if (rc == 0)
        rc = dz_id_new("sbx", f->b->id, err);
    f->created = dz_clock_real_ms();
    (void)snprintf(f->child, sizeof f->child, "%s", f->b->id);
    f->b->snap = (struct dz_snapshot_row){.id = f->snap,
                                          .image = f->source.image,
                                          .config = f->source.config,
                                          .metadata = f->source.metadata};
    return rc;
}

int dz_control_fork_one(struct dz_control *e, struct dz_control_target target,
                        dz_control_fork_one_fn *done, void *arg, struct dz_why *why)
{
    const struct dz_control_spec spec = {.idle_ms = DZ_IDLE_INHERIT};
    struct dz_creating *c = NULL;
    struct dz_err err;
    struct fork_one *f = dz_zalloc(sizeof *f);
    struct branch *b = f ? dz_zalloc(sizeof *b) : NULL;
    if (!b) {
        dz_free(f);
        return dz_why(why, DZ_ENOMEM, NULL, "fork: out of memory");
    }
    *f = (struct fork_one){.b = b, .e = e, .done = done, .arg = arg, .holds = 1};
    *b = (struct branch){.e = e, .done = on_one, .arg = f};
    dz_control_caller_keep(&f->own, target.who);
    int rc = dz_control_row(e, target, &f->source, why);
    if (rc == 0) {
        rc = describe(f, &err);
        if (rc == 0)
            rc = inherit(b, target.who, &spec, 0, &err);
        if (rc < 0)
            (void)dz_why_err(why, rc, &err);
    }
    if (rc == 0 && !(c = begin_create(b, target.who, 0, why)))
        rc = why->err.code;
    const struct snap_label label = {.kind = "fork",
                                     .child = b->id,
                                     .tenant = b->tenant,
                                     .token = b->owner,
                                     .ahead = on_file_written};
    if (rc == 0)
        rc = dz_control_snapshot_of(e, &f->source, label, on_own_file, f, why);
    if (rc < 0) {
        if (c)
            dz_usage_create_over(c);
        fork_one_free(f);
    }
    return rc;
}

static int fork_get(struct dz_control *e, struct dz_control_target target,
                    struct dz_fork_row *ret_row, struct dz_why *why)
{
    char quoted[DZ_STR_QUOTED];
    struct dz_err err;
    int rc =
        dz_registry_fork_get(e->registry, dz_control_sees(target.who), target.ref, ret_row, &err);
    if (rc == 0 && dz_control_expired(ret_row->expires)) {
        dz_fork_row_release(ret_row);
        rc = DZ_ENOENT;
    }
    if (rc == DZ_ENOENT)
        return dz_why(why, rc, NULL, "there is no fork %s",
                      dz_str_quote(dz_str(target.ref), quoted));
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_control_forks(struct dz_control *e, const struct dz_control_caller *who, const char *after,
                     size_t limit, struct dz_fork_rows *rows, struct dz_why *why)
{
    struct dz_err err;
    const struct dz_registry_record_filter f = {
        .tenant = dz_control_sees(who), .after = after, .limit = limit};
    dz_control_handles_sweep(e);
    int rc = dz_registry_fork_list(e->registry, &f, rows, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_control_fork_attach(struct dz_control *e, struct dz_control_target target, const char *name,
                           dz_sandbox_done_fn *done, void *arg, struct dz_why *why)
{
    DZ_AUTO(dz_fork_row_release) struct dz_fork_row row = {0};
    struct dz_err err;
    int rc = fork_get(e, target, &row, why);
    if (rc < 0)
        return rc;
    const struct dz_control_spec spec = {
        .name = name, .snapshot = row.snapshot_id, .idle_ms = DZ_IDLE_INHERIT};
    rc = dz_control_branch(e, target.who, &spec, done, arg, why);
    row.attached++;
    if (rc == 0 &&
        dz_registry_fork_change(e->registry, &row, DZ_ROW_COLUMN(fork, attached), false, &err) < 0)
        /* on failure only the count of attached branches is wrong */
        dz_log(DZ_LOG_WARN, "fork_not_counted", dz_log_err(&err));
    return rc;
}

int dz_fork_remove(struct dz_control *e, const struct dz_fork_row *row, struct dz_err *err)
{
    int rc = dz_registry_fork_remove(e->registry, NULL, row->id, 0, err);
    return rc < 0 ? rc : dz_snap_remove(e, row->snapshot_id, err);
}

/* Other forks and the branches themselves stay. */
int dz_control_fork_delete(struct dz_control *e, struct dz_control_target target,
                           struct dz_why *why)
{
    DZ_AUTO(dz_fork_row_release) struct dz_fork_row row = {0};
    struct dz_err err;
    int rc = fork_get(e, target, &row, why);
    if (rc < 0)
        return rc;
    rc = dz_fork_remove(e, &row, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}
