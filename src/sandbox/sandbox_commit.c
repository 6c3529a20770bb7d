/* SPDX-License-Identifier: MIT
 *
 * sandbox_commit.c - what operations write to rows.
 *
 * All these changes go through dz_sandbox_op_change (sandbox_record.c). Others may change the row
 * meanwhile (its name, its metadata), which costs a second try. If the epoch or the operation in
 * the row has changed, another owner has taken the sandbox over, and the operation fails.
 *
 * A change and the reading of the changed row are one transaction. So a change that fails for lack
 * of memory leaves the row as it was.
 *
 * A durable change is in the WAL at once. A worker flushes it before the operation's next step,
 * because that step may remove files that only this change makes superfluous.
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"
#include "base/str.h"

#include <assert.h>
#include <string.h>

/* The sandbox stops being active: stop its timeout and keep the rest. */
static void stop_timeout(const struct dz_instance *row, int64_t when, struct dz_instance *to,
                         uint64_t *set)
{
    enum dz_timeout_action action = DZ_TIMEOUT_DESTROY;
    if (row->timeout_at == 0)
        return;
    (void)!dz_timeout_action_parse(dz_str(row->timeout_action), &action, NULL);
    to->timeout_at = 0;
    to->timeout_left = dz_timeout_rest(row->timeout_at, action, when);
    *set |= DZ_COLUMN(timeout_at) | DZ_COLUMN(timeout_left);
}

/* The time at which a sandbox stopped being active because its daemon died. It is unknown, so the
 * last sign of life is used: the last change of the row, by the wall clock. That may lie in the
 * future if the wall clock was set just before the death, so it is limited to now; otherwise the
 * rest of a timeout would be lost. */
static int64_t last_sign(const struct dz_sandboxes *all, const struct dz_instance *row)
{
    int64_t updated = row->updated * 1000 + all->clock.before, now = dz_sandboxes_now(all);
    if (updated > now)
        updated = now;
    return updated > row->last_active ? updated : row->last_active;
}

/* --- commits ----------------------------------------------------------------------------- */

static int commit_active(struct op *op, struct dz_err *err)
{
    struct dz_sandbox *s = op->sandbox;
    int64_t now = dz_sandboxes_now(op->all), last = s->now.last_active;
    struct dz_instance to = {
        .state = dz_state_name(DZ_STATE_ACTIVE),
        .status = dz_status_name(DZ_STATUS_RUNNING),
        .host = op->all->host_name,
        .epoch = op->row.epoch + 1,
        .generation = op->row.generation + 1,
        .last_active = now > last ? now : last,
        .timeout_at = dz_timeout_begin(op->row.timeout_ms, op->row.timeout_left, op->anew, now),
    };
    const uint64_t set = DZ_COLUMN(timeout_at) | DZ_COLUMN(timeout_left) | DZ_COLUMN(state) |
                         DZ_COLUMN(status) | DZ_COLUMN(host) | DZ_COLUMN(epoch) |
                         DZ_COLUMN(generation) | DZ_COLUMN(last_active) | DZ_COLUMN(wake_at) |
                         DZ_COLUMN(op) | DZ_COLUMN(step) | DZ_COLUMN(error) | DZ_COLUMN(retry_at) |
                         DZ_COLUMN(tries) |
                         (op->drop ? DZ_COLUMN(cold_uri) | DZ_COLUMN(cold_sha256) |
                                         DZ_COLUMN(cold_size) | DZ_COLUMN(cold_generation)
                                   : 0);
    if (op->drop) { /* the cold copy is stale from now on, and step DROP removes it */
        to.op = dz_op_name(op->kind);
        to.step = dz_step_name(DZ_STEP_DROP);
    }
    s->now = (struct dz_facts){.last_active = to.last_active, .last_byte = now};
    s->warm = true;
    const struct row_change change = {.set = set,
                                      .to = &to,
                                      .durable = op->drop != 0,
                                      .event = op->memory_lost ? "memory_lost" : "activated",
                                      .detail = dz_rung_name(op->rung)};
    int rc = dz_sandbox_op_change(op, &change, err);
    s->warm = rc == 0;
    return rc;
}

/* If the guest was runnable and no client requested this suspend, wake it again at once, unless CPU
 * time does not count as activity. Otherwise it sleeps until a request, or until its own next
 * timer. */
static int64_t wakes_at(const struct op *op, int64_t now)
{
    return op->busy && op->may_resume && dz_sandbox_op_counts_cpu(op) ? now : op->wake_at;
}

static int commit_suspended(struct op *op, struct dz_err *err)
{
    struct dz_sandbox *s = op->sandbox;
    int64_t now = dz_sandboxes_now(op->all), last = op->row.last_active;
    struct dz_instance to = {
        .state = dz_state_name(DZ_STATE_SUSPENDED),
        .suspended_at = now,
        .wake_at = wakes_at(op, now),
        .last_active = s->now.last_active > last ? s->now.last_active : last,
    };
    uint64_t set = DZ_COLUMN(state) | DZ_COLUMN(status) | DZ_COLUMN(suspended_at) |
                   DZ_COLUMN(wake_at) | DZ_COLUMN(last_active) | DZ_COLUMN(op) | DZ_COLUMN(step) |
                   DZ_COLUMN(error) | DZ_COLUMN(retry_at) | DZ_COLUMN(tries);
    const char *died_of = s->died_of ? s->died_of : op->work_err.msg;
    if (op->cell_dead && died_of[0]) {
        to.status = dz_status_name(DZ_STATUS_ERROR);
        to.error = died_of;
    }
    s->warm = false;
    stop_timeout(&op->row, now, &to, &set);
    const struct row_change change = {.set = set,
                                      .to = &to,
                                      .event = op->cell_dead ? "crashed" : "suspended",
                                      .detail = op->keep_memory ? "memory" : "files"};
    int rc = dz_sandbox_op_change(op, &change, err);
    if (rc == 0) {
        dz_free(s->died_of);
        s->died_of = NULL;
    }
    return rc;
}

static int commit_cold(struct op *op, enum dz_state state, enum dz_cold_file file,
                       struct dz_err *err)
{
    char key[DZ_COLD_KEY], hash[DZ_SHA256_HEX];
    struct dz_sandbox *s = op->sandbox;
    struct dz_instance to = {
        .state = dz_state_name(state),
        .wake_at = state == DZ_STATE_FROZEN ? op->row.wake_at : 0,
        .step = dz_step_name(DZ_STEP_DROP),
        .cold_uri = dz_cold_key(s->id, file, key),
        .cold_sha256 = op->copy.hashed ? dz_sha256_hex(op->copy.sha256, hash) : "",
        .cold_size = (int64_t)op->copy.size,
        .cold_generation = op->row.generation,
    };
    uint64_t set = DZ_COLUMN(state) | DZ_COLUMN(step) | DZ_COLUMN(cold_uri) |
                   DZ_COLUMN(cold_sha256) | DZ_COLUMN(cold_size) | DZ_COLUMN(cold_generation) |
                   DZ_COLUMN(wake_at);
    /* a sandbox that is not active keeps the rest of its timeout */
    stop_timeout(&op->row, dz_sandboxes_now(op->all), &to, &set);
    const struct row_change change = {
        .set = set, .to = &to, .durable = true, .event = dz_state_name(state)};
    return dz_sandbox_op_change(op, &change, err);
}

static int commit_archived(struct op *op, struct dz_err *err)
{
    op->sandbox->warm = false;
    int rc = commit_cold(op, DZ_STATE_ARCHIVED, DZ_COLD_ARCHIVE, err);
    if (rc == 0 && op->only_files) {
        const struct dz_registry_event e = {.sandbox_id = op->sandbox->id,
                                            .tenant = op->row.tenant,
                                            .what = "memory_dropped",
                                            .detail = "archived with keep=files"};
        int64_t seq;
        /* commit the archive even if the event cannot be stored */
        (void)!dz_registry_note(op->all->opts.registry, &e, &seq, NULL);
    }
    return rc;
}

static int fill_clone(void *arg, const struct dz_instance *row, struct dz_instance *to,
                      uint64_t *set, struct dz_err *err)
{
    (void)arg, (void)row, (void)to, (void)err;
    *set = DZ_COLUMN(op) | DZ_COLUMN(step) | DZ_COLUMN(status);
    return 0;
}

/* The new sandbox's file is complete: remove the operation from its row. */
static int commit_clone(struct op *op, struct dz_err *err)
{
    const struct dz_sandbox_update u = {
        .id = op->clone_id, .fill = fill_clone, .event = "cloned", .detail = op->sandbox->id};
    return dz_sandbox_update(op->all, &u, NULL, err);
}

/* Follow the path of transitions to DELETED. Each transition is a change with an event, and only
 * the last one is durable. A path that was interrupted is continued by recovery (dz_op_recover). */
static int commit_deleted(struct op *op, struct dz_err *err)
{
    enum dz_state path[DZ_STATE_COUNT];
    int count = dz_lifecycle_path(op->row.is, DZ_STATE_DELETED, path, err), rc = 0;
    if (count < 0)
        return count;
    op->sandbox->warm = false;
    for (int i = 0; i < count && rc == 0; i++) {
        bool last = i + 1 == count;
        const struct dz_instance to = {.state = dz_state_name(path[i]),
                                       .step = dz_step_name(last ? DZ_STEP_DROP : DZ_STEP_COMMIT)};
        const struct row_change change = {.set = DZ_COLUMN(state) | DZ_COLUMN(step),
                                          .to = &to,
                                          .durable = last,
                                          .event = last ? "deleting" : dz_state_name(path[i])};
        rc = dz_sandbox_op_change(op, &change, err);
    }
    return rc;
}

int dz_sandbox_op_commit(struct op *op, struct dz_err *err)
{
    int rc = op->stale ? dz_sandbox_op_reload(op, true, err) : 0;
    if (rc < 0)
        return rc;
    op->stale = false;
    switch (op->kind) {
    case DZ_OP_ACTIVATE:
        return commit_active(op, err);
    case DZ_OP_SUSPEND:
        return commit_suspended(op, err);
    case DZ_OP_FREEZE:
        return commit_cold(op, DZ_STATE_FROZEN, op->copy.file, err);
    case DZ_OP_ARCHIVE:
        return commit_archived(op, err);
    case DZ_OP_DELETE:
        return commit_deleted(op, err);
    case DZ_OP_CLONE:
        return commit_clone(op, err);
    case DZ_OP_NONE:
    case DZ_OP_PREFETCH:
    case DZ_OP_SHARE:
    case DZ_OP_COUNT:
        break;
    }
    assert(false); /* this operation has no commit */
    return 0;
}

/* --- ending an operation ----------------------------------------------------------------- */

#define RETRY_FIRST_MS ((int64_t)60 * 1000)
#define RETRY_MAX_MS   ((int64_t)3600 * 1000)
#define QUOTA_FIRST_MS ((int64_t)2 * 1000) /* a place within the quota may be free soon */
#define QUOTA_MAX_MS   ((int64_t)60 * 1000)

static int64_t retry_after(int rc, int64_t tries)
{
    int64_t first = rc == DZ_EQUOTA ? QUOTA_FIRST_MS : RETRY_FIRST_MS;
    int64_t most = rc == DZ_EQUOTA ? QUOTA_MAX_MS : RETRY_MAX_MS;
    return tries < 6 && first << tries < most ? first << tries : most;
}

/* An operation of the clock failed: schedule its retry. Other work of the clock on this row does
 * not wait for it: a guest is woken in time even if its file cannot be frozen. */
static void try_again(const struct op *op, struct dz_instance *to, uint64_t *set)
{
    int64_t at = dz_sandboxes_now(op->all) + retry_after(op->rc, op->row.tries);
    to->tries = op->row.tries + 1;
    if (op->kind == DZ_OP_ACTIVATE)
        to->wake_at = at;
    else
        to->retry_at = at;
    *set |=
        DZ_COLUMN(tries) | (op->kind == DZ_OP_ACTIVATE ? DZ_COLUMN(wake_at) : DZ_COLUMN(retry_at));
}

int dz_sandbox_op_finalize(struct op *op, bool failed, struct dz_err *err)
{
    struct dz_sandbox *s = op->sandbox;
    int rc = op->stale ? dz_sandbox_op_reload(op, true, err) : 0;
    if (rc < 0)
        return rc == DZ_ENOENT || rc == DZ_EGONE ? DZ_EBUSY : rc;
    op->stale = false;
    bool warm = s->warm && !op->cell_dead, report = failed && op->rc != DZ_ECANCELED;
    struct dz_instance to = {
        .state = op->row.state,
        .status = dz_status_name(report ? DZ_STATUS_ERROR
                                 : warm ? DZ_STATUS_RUNNING
                                        : DZ_STATUS_NONE),
        .error = report ? op->err.msg : "",
        .suspended_at = op->row.suspended_at,
        .last_active = op->row.last_active,
    };
    uint64_t set = DZ_COLUMN(status) | DZ_COLUMN(error);
    if (!s->unsynced_file) /* else keep the mark by which recovery removes the sandbox */
        set |= DZ_COLUMN(op) | DZ_COLUMN(step);
    const char *event = report ? "failed" : NULL;
    if (op->row.is == DZ_STATE_ACTIVE && !warm) { /* the row says active, but the cell is gone */
        to.state = dz_state_name(DZ_STATE_SUSPENDED);
        to.suspended_at = dz_sandboxes_now(op->all);
        if (s->now.last_active > to.last_active)
            to.last_active = s->now.last_active;
        set |= DZ_COLUMN(state) | DZ_COLUMN(suspended_at) | DZ_COLUMN(last_active);
        stop_timeout(&op->row,
                     !op->recovered && op->all->clock_on ? to.suspended_at
                                                         : last_sign(op->all, &op->row),
                     &to, &set);
        event = op->cell_dead ? "crashed" : "suspended";
        s->warm = false;
    }
    if (failed && op->background)
        try_again(op, &to, &set);
    const struct row_change change = {
        .set = set, .to = &to, .event = event, .detail = report ? op->err.msg : NULL};
    return dz_sandbox_op_change(op, &change, err);
}

int dz_sandbox_erase(struct dz_sandboxes *all, const struct dz_instance *row, struct dz_err *err)
{
    int rc = dz_registry_erase(all->opts.registry, row->id, row->version, row->epoch, err);
    if (rc == 0)
        dz_sandbox_erased(all, row);
    return rc;
}

int dz_sandbox_write_crash(struct dz_sandboxes *all, struct dz_instance *row, struct dz_err *err)
{
    struct dz_instance fresh,
        to = {.state = dz_state_name(DZ_STATE_SUSPENDED), .suspended_at = dz_sandboxes_now(all)};
    uint64_t set =
        DZ_COLUMN(state) | DZ_COLUMN(status) | DZ_COLUMN(error) | DZ_COLUMN(suspended_at);
    stop_timeout(row, last_sign(all, row), &to, &set);
    const struct row_change change = {.set = set, .to = &to, .event = "crashed"};
    int rc = dz_record_write_row(all, row, &change, &fresh, err);
    if (rc < 0)
        return rc;
    dz_instance_release(row);
    *row = fresh;
    return 0;
}
