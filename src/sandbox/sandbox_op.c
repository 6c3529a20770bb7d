/* SPDX-License-Identifier: MIT
 *
 * sandbox_op.c - operations: the state machine that runs an operation's steps, and what each step
 * does. Every step may be repeated, after a crash or after it failed half-way.
 *
 *            begin                        done, all steps
 *              |                                |
 *              v        a step fails            v
 *           FORWARD ---- before the commit --> UNDO --> row finalized, answered, freed
 *              |                                |
 *              | a step fails after the commit  | removing files fails
 *              v                                v
 *           PARKED: retries with growing pauses, until it succeeds
 *
 * Invariants (assert_step(), before each step):
 *   1. The row names the operation in the column op, and each step in the column step before the
 *      step does anything. The exception is a wake that needs no journal (simple_wake).
 *   2. A sandbox has at most one operation, and its waiters are answered once.
 *   3. Files are removed only after the commit that makes them superfluous is on the disk: a
 *      durable change of the row is flushed, by a worker, before the next step.
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    BACKOFF_FIRST_MS = 1000,
    BACKOFF_MAX_MS = 60000,
    QUICK_MS = 25, /* a wake that takes longer than this is written to its row */
    /* CHECKPOINT: delay of the first retry while the last cell still has the file; */
    LEAVE_FIRST_MS = 20,
    LEAVE_STEP_MS = 500,  /* largest delay; */
    LEAVE_MAX_MS = 10000, /* time after which the step fails */
};

static void op_done(struct op *op, int rc);
static void advance(struct op *op);
static void run(struct op *op);
static void undo(struct op *op);
static int write_beginning(struct op *op, struct dz_err *err);

/* --- steps ------------------------------------------------------------------------------- */

/* --- steps: workers ---------------------------------------------------------------------- */

static void on_work(void *arg)
{
    struct op *op = arg;
    op->work_rc = op->work(op, &op->work_err);
}

static void on_work_done(void *arg)
{
    struct op *op = arg;
    if (op->work_rc < 0)
        op->err = op->work_err;
    op_done(op, op->work_rc);
}

static int run_on_worker(struct op *op, int (*work)(struct op *op, struct dz_err *err),
                         struct dz_err *err)
{
    op->work = work;
    op->work_err = (struct dz_err){0};
    if (op->all->blocking)
        return work(op, err);
    int rc = dz_loop_work(op->all->opts.loop, on_work, on_work_done, op, err);
    return rc < 0 ? rc : 1;
}

static const struct dz_cold *cold_of(const struct op *op)
{
    return &op->cold;
}

/* The same for work that uses cold storage. If that is far away, recovery does not wait for it
 * either: the operation goes on beside the first requests. */
static int run_with_store(struct op *op, int (*work)(struct op *op, struct dz_err *err),
                          struct dz_err *err)
{
    if (!cold_of(op)->store->far)
        return run_on_worker(op, work, err);
    op->work = work;
    op->work_err = (struct dz_err){0};
    int rc = dz_loop_work_slow(op->all->opts.loop, on_work, on_work_done, op, err);
    return rc < 0 ? rc : 1;
}

/* --- steps: files ------------------------------------------------------------------------ */

static int work_checkpoint(struct op *op, struct dz_err *err)
{
    return op->all->opts.files->checkpoint(op->all->opts.files_arg, op->sandbox->id, err);
}

static int work_thaw(struct op *op, struct dz_err *err)
{
    return dz_cold_thaw(cold_of(op), op->sandbox->id, &op->copy, &op->cancel, err);
}

static int work_freeze(struct op *op, struct dz_err *err)
{
    return dz_cold_freeze(cold_of(op), op->sandbox->id, &op->cancel, &op->copy, err);
}

static int work_pack(struct op *op, struct dz_err *err)
{
    return dz_cold_pack(cold_of(op), op->sandbox->id, &op->cancel, &op->copy, err);
}

static int work_verify(struct op *op, struct dz_err *err)
{
    return dz_cold_verify(cold_of(op), op->sandbox->id, &op->copy, &op->cancel, err);
}

static int work_hash(struct op *op, struct dz_err *err)
{
    int rc = dz_cold_hash(cold_of(op), op->sandbox->id, &op->cancel, op->copy.sha256, err);
    op->copy.hashed = rc == 0;
    return rc;
}

/* A bucket that cannot be reached must not keep a sandbox from being used or deleted, so its
 * objects are left behind then. The row remembers them (leave_behind), or the sandbox's tombstone
 * does (dz_sandboxes_collect). */
static int work_drop(struct op *op, struct dz_err *err)
{
    const char *id = op->phase == OP_UNDO && op->clone_id ? op->clone_id : op->sandbox->id;
    const struct dz_cold *cold = cold_of(op);
    op->left_behind = false;
    if (!cold->store->far)
        return dz_cold_drop(cold, id, op->drop, err);
    int rc = dz_cold_drop(cold, id, op->drop & ~DZ_COLD_COPIES, err);
    if (rc == 0)
        op->left_behind = dz_cold_drop(cold, id, op->drop & DZ_COLD_COPIES, NULL) < 0;
    return rc;
}

static int drop_files(struct op *op, struct dz_err *err)
{
    return op->drop == 0               ? 0
           : op->drop & DZ_COLD_COPIES ? run_with_store(op, work_drop, err)
                                       : run_on_worker(op, work_drop, err);
}

/* Write to the row that the store may still have an object that no state of the row needs: as a
 * cold copy that is older than the file. The next wake or freeze, or the deletion, removes it. */
static int leave_behind(struct op *op, struct dz_err *err)
{
    char key[DZ_COLD_KEY];
    const struct dz_instance to = {.cold_uri = dz_cold_key(op->sandbox->id, DZ_COLD_FROZEN, key)};
    const struct row_change change = {.set = DZ_COLUMN(cold_uri) | DZ_COLUMN(cold_sha256) |
                                             DZ_COLUMN(cold_size) | DZ_COLUMN(cold_generation),
                                      .to = &to};
    bool needed = op->row.is == DZ_STATE_FROZEN || op->row.is == DZ_STATE_ARCHIVED;
    if (!op->left_behind || needed || op->kind == DZ_OP_DELETE)
        return 0;
    op->left_behind = false;
    return dz_sandbox_op_change(op, &change, err);
}

static int work_make(struct op *op, struct dz_err *err)
{
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    const struct dz_sandboxes_opts *o = &op->all->opts;
    char key[DZ_COLD_KEY];
    out = o->files->ready ? o->files->ready(o->files_arg) : NULL;
    if (out && dz_blob_out_rename(out, dz_cold_key(op->sandbox->id, DZ_COLD_LIVE, key), err) == 0)
        return dz_blob_out_commit(out, err);
    dz_blob_out_close(DZ_TAKE_PTR(out));
    int rc =
        dz_blob_out_open(o->cold.live, dz_cold_key(op->sandbox->id, DZ_COLD_LIVE, key), &out, err);
    if (rc == 0)
        rc = o->files->make(o->files_arg, &op->row, out, err);
    return rc < 0 ? rc : dz_blob_out_commit(out, err);
}

/* Transfer the live file, in a file-only cell, to another object. */
static int carry(struct op *op, enum dz_sandbox_transfer_kind what, struct dz_blobs *store,
                 const char *key, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    const struct dz_sandboxes_opts *o = &op->all->opts;
    char live[DZ_COLD_KEY];
    int rc =
        dz_blob_in_open(o->cold.live, dz_cold_key(op->sandbox->id, DZ_COLD_LIVE, live), &in, err);
    if (rc == 0)
        rc = dz_blob_out_open(store, key, &out, err);
    const struct dz_sandbox_transfer c = {
        .what = what,
        .row = &op->row,
        .tenant = op->clone_tenant ? op->clone_tenant : op->row.tenant,
        .from = in,
        .to = out,
        .cancel = &op->cancel,
    };
    if (rc == 0)
        rc = o->files->transfer(o->files_arg, &c, err);
    if (rc == 0 && atomic_load(&op->cancel))
        rc = dz_fail(err, DZ_ECANCELED, "canceled");
    return rc < 0 ? rc : dz_blob_out_commit(out, err);
}

static int work_compact(struct op *op, struct dz_err *err)
{
    char key[DZ_COLD_KEY];
    return carry(op, op->only_files ? DZ_SANDBOX_TRANSFER_FILES : DZ_SANDBOX_TRANSFER_COMPACT,
                 cold_of(op)->live, dz_cold_key(op->sandbox->id, DZ_COLD_SCRATCH, key), err);
}

static int work_transfer(struct op *op, struct dz_err *err)
{
    char key[DZ_COLD_KEY];
    if (op->kind == DZ_OP_SHARE)
        return carry(op, DZ_SANDBOX_TRANSFER_SHARE, op->share_store, op->share_key, err);
    return carry(op, DZ_SANDBOX_TRANSFER_CLONE, cold_of(op)->live,
                 dz_cold_key(op->clone_id, DZ_COLD_LIVE, key), err);
}

/* --- steps: FETCH ------------------------------------------------------------------------ */

/* Read what the row says about the cold copy. */
static int read_copy(struct op *op, struct dz_err *err)
{
    char id[DZ_COLD_KEY];
    struct dz_cold_copy copy = {.size = (uint64_t)op->row.cold_size,
                                .hashed = op->row.cold_sha256[0] != '\0'};
    if (!dz_cold_parse_key(op->row.cold_uri, id, &copy.file) || strcmp(id, op->sandbox->id) != 0 ||
        !(DZ_COLD_COPIES & 1u << copy.file))
        return dz_fail(err, DZ_ECORRUPT,
                       "the registry row of %s has an invalid location of the cold copy: \"%.80s\"",
                       op->sandbox->id, op->row.cold_uri);
    int rc = copy.hashed ? dz_sha256_parse(dz_str(op->row.cold_sha256), copy.sha256, err) : 0;
    if (rc == 0)
        op->copy = copy;
    return rc;
}

/* Choose the source of the file: the local file unless the cold copy is newer; the cold copy; none,
 * which is right only for a sandbox that never ran. */
static int step_fetch(struct op *op, struct dz_err *err)
{
    const char *id = op->sandbox->id;
    int live = dz_cold_has(cold_of(op), id, DZ_COLD_LIVE, NULL, err);
    if (live < 0)
        return live;
    bool behind = op->row.cold_generation > op->row.generation;
    op->have_live = live == 1 && op->row.is != DZ_STATE_ARCHIVED && !behind;
    op->rung = DZ_RUNG_LOCAL;
    if (op->have_live)
        return 0;
    if (op->row.cold_uri[0]) {
        op->rung = DZ_RUNG_COLD;
        int rc = read_copy(op, err);
        return rc < 0 ? rc : run_with_store(op, work_thaw, err);
    }
    op->rung = DZ_RUNG_FRESH;
    if (op->row.is == DZ_STATE_CREATED && op->kind == DZ_OP_ACTIVATE)
        return 0;
    return dz_fail(err, DZ_ENOENT,
                   op->row.is == DZ_STATE_CREATED
                       ? "%s %s: the sandbox never ran, so it has no file yet"
                       : "%s %s: its file is missing; restore it from a replica or a backup",
                   dz_op_name(op->kind), id);
}

/* --- steps: cells ------------------------------------------------------------------------ */

static int step_start(struct op *op, struct dz_err *err)
{
    op->cell_asked = true;
    int rc = dz_sandbox_cell_start(op->sandbox, &op->row, op->keep_memory, err);
    return rc < 0 ? rc : 1;
}

static int step_stop(struct op *op)
{
    op->cell_asked = true;
    op->cell_dead = !dz_sandbox_cell_stop(op->sandbox, op->keep_memory);
    return op->cell_dead ? 0 : 1;
}

void dz_sandbox_cell_done(struct dz_sandbox *s, const struct cell_end *how)
{
    struct op *op = s->op;
    if (!s->asked)
        return;
    s->asked = false;
    assert(op && op->cell_asked);
    op->work_rc = how->code;
    op->work_err = (struct dz_err){0};
    if (how->code < 0)
        (void)dz_fail(&op->work_err, how->code, "%s", how->error ? how->error : "the cell failed");
    op->memory_lost = how->memory_lost;
    op->wake_at = dz_sandboxes_steady(op->all, how->wake_at);
    op->busy = how->busy;
    if (*op->step == DZ_STEP_STOP && how->code < 0 && !how->alive) {
        op->cell_dead = true; /* the cell that was to be stopped has ended by itself */
        op->work_rc = 0;
    }
    if (op->work_rc < 0)
        op->err = op->work_err;
    op_done(op, op->work_rc);
}

static int step_kill(struct op *op)
{
    dz_sandbox_cell_kill(op->sandbox);
    op->sandbox->warm = false;
    return 0;
}

/* --- steps: dispatch --------------------------------------------------------------------- */

static bool has_wal(const struct op *op)
{
    uint64_t size = 0;
    int rc = dz_cold_has(cold_of(op), op->sandbox->id, DZ_COLD_LOG, &size, NULL);
    return rc < 0 || (rc == 1 && size > 0);
}

static bool step_applies(const struct op *op, enum dz_step step)
{
    switch (step) {
    case DZ_STEP_STOP:
    case DZ_STEP_KILL:
        return op->row.is == DZ_STATE_ACTIVE && !op->cell_dead;
    case DZ_STEP_CHECKPOINT:
        return has_wal(op);
    case DZ_STEP_MAKE:
        return op->rung == DZ_RUNG_FRESH;
    case DZ_STEP_DROP:
        return op->drop != 0;
    case DZ_STEP_HASH:
        return !op->copy.hashed;
    case DZ_STEP_NONE:
    case DZ_STEP_FETCH:
    case DZ_STEP_START:
    case DZ_STEP_COPY:
    case DZ_STEP_COMPACT:
    case DZ_STEP_PACK:
    case DZ_STEP_VERIFY:
    case DZ_STEP_TRANSFER:
    case DZ_STEP_COMMIT:
    case DZ_STEP_ERASE:
    case DZ_STEP_COUNT:
        break;
    }
    return true;
}

static int do_step(struct op *op, struct dz_err *err)
{
    switch (*op->step) {
    case DZ_STEP_STOP:
        return step_stop(op);
    case DZ_STEP_KILL:
        return step_kill(op);
    case DZ_STEP_CHECKPOINT:
        return run_on_worker(op, work_checkpoint, err);
    case DZ_STEP_FETCH:
        return step_fetch(op, err);
    case DZ_STEP_MAKE:
        return run_on_worker(op, work_make, err);
    case DZ_STEP_START:
        return step_start(op, err);
    case DZ_STEP_COPY:
        return run_with_store(op, work_freeze, err);
    case DZ_STEP_COMPACT:
        return run_on_worker(op, work_compact, err);
    case DZ_STEP_PACK:
        return run_with_store(op, work_pack, err);
    case DZ_STEP_VERIFY:
        return run_with_store(op, work_verify, err);
    case DZ_STEP_TRANSFER:
        return run_on_worker(op, work_transfer, err);
    case DZ_STEP_HASH:
        return run_with_store(op, work_hash, err);
    case DZ_STEP_COMMIT:
        return dz_sandbox_op_commit(op, err);
    case DZ_STEP_DROP:
        return drop_files(op, err);
    case DZ_STEP_ERASE:
        return dz_sandbox_erase(op->all, &op->row, err);
    case DZ_STEP_NONE:
    case DZ_STEP_COUNT:
        break;
    }
    assert(false); /* not a step */
    return 0;
}

/* --- beginning and ending ---------------------------------------------------------------- */

void dz_sandbox_op_free(struct op *op)
{
    struct dz_sandbox *s = op->sandbox;
    dz_loop_task_cancel(&op->end);
    op->all->ops--;
    dz_share_leave(op->all, op->background);
    if (s->op == op)
        s->op = NULL;
    dz_timer_free(op->timer);
    dz_timer_free(op->again);
    dz_instance_release(&op->row);
    dz_free(op->clone_id);
    dz_free(op->clone_tenant);
    dz_free(op->share_key);
    dz_free(op);
}

static void answer_all(struct op *op, int code)
{
    const struct dz_sandbox_reply result = {
        .code = code,
        .err = code < 0 ? op->err : (struct dz_err){0},
        .rung = op->rung,
        .memory_lost = op->memory_lost,
    };
    while (!dz_list_empty(&op->waiters))
        dz_sandbox_answer(DZ_LIST_FIRST(struct waiter, &op->waiters, link), &result);
}

/* The clone is complete or has been undone: requests for the new sandbox may start. */
static void release_target(struct dz_sandbox *target)
{
    if (!target)
        return;
    target->taken = false;
    dz_sandbox_turn_soon(target);
}

static void report_timing(const struct op *op)
{
    const struct dz_sandboxes_opts *o = &op->all->opts;
    const struct dz_sandbox_timing t = {
        .id = op->sandbox->id,
        .operation = dz_op_name(op->kind),
        .rung = op->rung,
        .code = op->rc,
        .us = (dz_clock_mono_ns() - op->began_ns) / 1000,
    };
    o->host->timed(o->arg, &t);
}

/* The operation's last task. It runs after the answers of its waiters. */
static void on_end(void *arg)
{
    struct op *op = arg;
    struct dz_sandbox *s = op->sandbox, *target = op->target;
    struct dz_sandboxes *all = op->all;
    /* a waiter was answered after this task was posted: run after that answer */
    if (!dz_list_empty(&op->answers)) {
        dz_loop_post(all->opts.loop, &op->end);
        return;
    }
    bool stale = op->stale; /* the row was changed by others since the operation's last write */
    dz_sandbox_op_free(op);
    if (stale)
        dz_sandbox_recompute_due(all, s->id);
    release_target(target);
    dz_sandbox_turn(s);
    dz_sandboxes_arm(all);
    dz_sandboxes_drain_check(all);
}

/* The operation has succeeded or was undone: answer its waiters and end it. */
static void finish(struct op *op)
{
    report_timing(op);
    if (op->kind == DZ_OP_ARCHIVE && op->rc == 0)
        dz_exec_archived(op->sandbox);
    if (op->kind == DZ_OP_FREEZE && op->rc == 0) /* from then on it may be woken elsewhere */
        dz_net_lost(op->sandbox);
    dz_timer_stop(op->timer); /* from now on nothing is written to the row */
    op->phase = OP_OVER;      /* a new request of an answered client queues behind the others */
    answer_all(op, op->rc);
    /* recovery: the loop does not turn, and there are no waiters */
    if (op->all->blocking)
        on_end(op);
    else
        dz_loop_post(op->all->opts.loop, &op->end);
}

static void on_timer(void *arg)
{
    struct op *op = arg;
    if (op->phase == OP_PARKED) {
        op->phase = op->undoing ? OP_UNDO : OP_FORWARD;
        if (op->undoing)
            undo(op);
        else if (op->unsynced)
            run(op);
        else
            op_done(op, do_step(op, &op->err));
        return;
    }
    if (op->unwritten &&
        op->sandbox->unsynced_file) { /* the row keeps its mark until the file is synced */
        dz_timer_after(op->timer, QUICK_MS);
        return;
    }
    if (op->unwritten) {
        op->unwritten = false;
        /* only readers of the row need this; recovery does not */
        (void)!write_beginning(op, NULL);
        dz_timer_after(op->timer, op->late_ms);
        return;
    }
    dz_sandbox_op_call_off(op, DZ_ETIMEOUT);
}

static void park(struct op *op)
{
    op->undoing = op->phase == OP_UNDO;
    op->phase = OP_PARKED;
    op->backoff_ms = op->backoff_ms == 0                   ? BACKOFF_FIRST_MS
                     : op->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS
                                                           : op->backoff_ms * 2;
    dz_timer_after(op->timer, op->backoff_ms);
}

/* --- undoing ----------------------------------------------------------------------------- */

static unsigned undo_files(const struct op *op)
{
    switch (op->kind) {
    case DZ_OP_ACTIVATE:
        /* An archived sandbox has no local file. A frozen one may have one, which stays if no cell
         * has had it; else the cold copy is the one with its memory intact. */
        return op->row.is == DZ_STATE_ARCHIVED ||
                       (op->row.is == DZ_STATE_FROZEN && *op->step != DZ_STEP_FETCH)
                   ? DZ_COLD_BIT(LIVE) | DZ_COLD_BIT(LOG)
                   : 0;
    case DZ_OP_FREEZE: /* the operation's first write removed stale copies from the row */
        return DZ_COLD_COPIES;
    case DZ_OP_ARCHIVE:
        return DZ_COLD_BIT(SCRATCH) | DZ_COLD_BIT(ARCHIVE) |
               (op->row.is == DZ_STATE_FROZEN ? 0 : DZ_COLD_BIT(FROZEN) | DZ_COLD_BIT(REPLICA));
    case DZ_OP_CLONE:
        return op->clone_id ? DZ_COLD_BIT(LIVE) | DZ_COLD_BIT(LOG) : 0;
    case DZ_OP_NONE:
    case DZ_OP_SUSPEND:
    case DZ_OP_PREFETCH:
    case DZ_OP_SHARE:
    case DZ_OP_DELETE:
    case DZ_OP_COUNT:
        break;
    }
    return 0;
}

static int erase_clone(struct op *op, struct dz_err *err)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_registry_get(op->all->opts.registry, op->clone_id, &row, err);
    if (rc == DZ_ENOENT || rc == DZ_EGONE)
        return 0;
    return rc < 0 ? rc : dz_sandbox_erase(op->all, &row, err);
}

/* The files are gone, so remove the operation from the row. */
static void undone(struct op *op)
{
    struct dz_err err;
    int rc = op->clone_id ? erase_clone(op, &err) : leave_behind(op, &err);
    if (rc == 0)
        rc = dz_sandbox_op_finalize(op, true, &err);
    /* another owner has the row now, and we must not write it */
    if (rc == DZ_EBUSY || rc == DZ_ENOENT || rc == DZ_EGONE)
        rc = 0;
    if (rc == 0) {
        finish(op);
        return;
    }
    answer_all(op, op->rc); /* answer now, because a full disk may delay the row for long */
    park(op);
}

static void undo(struct op *op)
{
    struct dz_err err;
    op->phase = OP_UNDO;
    op->drop = undo_files(op);
    if (dz_sandbox_op_reload(op, true, &err) == DZ_EBUSY) {
        finish(op); /* another owner has the sandbox: leave row and files alone */
        return;
    }
    if (op->kind == DZ_OP_ACTIVATE && op->cell_asked)
        dz_sandbox_cell_kill(op->sandbox);
    int rc = drop_files(op, &err);
    if (rc < 0)
        park(op);
    else if (rc == 0)
        undone(op);
}

/* --- running ----------------------------------------------------------------------------- */

/* Operations that free space or save memory may use the reserve of a full disk. */
static bool may_use_reserve(const struct op *op)
{
    return op->kind == DZ_OP_SUSPEND || op->kind == DZ_OP_DELETE || op->kind == DZ_OP_FREEZE ||
           op->kind == DZ_OP_ARCHIVE;
}

static bool made_room(const struct op *op, int rc)
{
    const struct dz_sandbox_files *files = op->all->opts.files;
    return rc == DZ_ENOSPC && may_use_reserve(op) && files->make_room &&
           files->make_room(op->all->opts.files_arg, op->sandbox->id);
}

static void on_again(void *arg)
{
    struct op *op = arg;
    op_done(op, do_step(op, &op->err));
}

/* CHECKPOINT fails with DZ_EBUSY while the last cell has not exited and still holds the file's
 * lock. Retry from a timer, because that cell may be of an earlier daemon, whose exit no event
 * reports. No worker waits for it, because there are only a few for all sandboxes. */
static bool waits_for_file(struct op *op, int rc)
{
    int64_t now = dz_clock_mono_ms();
    if (rc != DZ_EBUSY || op->phase != OP_FORWARD || *op->step != DZ_STEP_CHECKPOINT)
        return false;
    if (!op->again) {
        if (dz_timer_new(op->all->opts.loop, on_again, op, &op->again, NULL) < 0)
            return false;
        op->again_ms = LEAVE_FIRST_MS / 2;
        op->again_until = now + LEAVE_MAX_MS;
    }
    if (now >= op->again_until)
        return false;
    op->again_ms = op->again_ms * 2 > LEAVE_STEP_MS ? LEAVE_STEP_MS : op->again_ms * 2;
    dz_timer_after(op->again, op->again_ms);
    return true;
}

static void fail(struct op *op, int rc)
{
    if (waits_for_file(op, rc))
        return;
    if (made_room(op, rc)) {
        run(op); /* every step may be repeated */
        return;
    }
    op->rc = rc;
    if (dz_op_recover(op->kind, *op->step) == DZ_RECOVER_UNDO) {
        undo(op);
        return;
    }
    if (*op->step == DZ_STEP_HASH) { /* the hash is optional */
        op->rc = 0;
        advance(op);
        return;
    }
    /* Committed: it will be completed later, and waiters do not wait for that. */
    answer_all(op, op->kind == DZ_OP_DELETE ? rc : 0);
    op->rc = 0;
    park(op);
}

/* Does this wake need no journal? That is a wake of a sandbox that sleeps here or never ran, and
 * has no volumes: leases are taken only for an operation that the row names. After a crash in any
 * of its steps only the operation has to be removed from the row, because a started cell finds its
 * host gone and suspends its machine. */
static bool simple_wake(const struct op *op)
{
    return op->kind == DZ_OP_ACTIVATE && !op->row.cold_uri[0] && !op->mounts &&
           (op->row.is == DZ_STATE_SUSPENDED || op->row.is == DZ_STATE_CREATED);
}

static int journal(struct op *op, struct dz_err *err)
{
    const struct dz_instance to = {.step = dz_step_name(*op->step)};
    if (*op->step == DZ_STEP_COMMIT || strcmp(op->row.step, to.step) == 0 || simple_wake(op))
        return 0;
    const struct row_change change = {.set = DZ_COLUMN(step), .to = &to};
    return dz_sandbox_op_change(op, &change, err);
}

/* The files that the steps after the commit remove. */
static unsigned superfluous_files(const struct op *op)
{
    switch (op->kind) {
    case DZ_OP_ACTIVATE:
        return op->row.cold_uri[0] ? DZ_COLD_COPIES : 0;
    case DZ_OP_FREEZE:
        assert(DZ_COLD_COPIES & 1u << op->copy.file);
        return DZ_COLD_BIT(LIVE) | DZ_COLD_BIT(LOG) | (DZ_COLD_COPIES & ~(1u << op->copy.file));
    case DZ_OP_ARCHIVE:
        return DZ_COLD_BIT(LIVE) | DZ_COLD_BIT(LOG) | DZ_COLD_BIT(SCRATCH) | DZ_COLD_BIT(FROZEN) |
               DZ_COLD_BIT(REPLICA);
    case DZ_OP_DELETE: /* a bucket is only asked if it may have an object */
        return cold_of(op)->store->far && !op->row.cold_uri[0]
                   ? DZ_COLD_BIT(LIVE) | DZ_COLD_BIT(LOG) | DZ_COLD_BIT(SCRATCH)
                   : (1u << DZ_COLD_FILES) - 1;
    case DZ_OP_NONE:
    case DZ_OP_SUSPEND:
    case DZ_OP_PREFETCH:
    case DZ_OP_CLONE:
    case DZ_OP_SHARE:
    case DZ_OP_COUNT:
        break;
    }
    return 0;
}

/* All steps are done. */
static void complete(struct op *op)
{
    struct dz_err err;
    int rc = 0;
    op->rc = 0;
    if (*(op->step - 1) != DZ_STEP_ERASE && op->row.op[0]) {
        rc = leave_behind(op, &err);
        if (rc == 0)
            rc = dz_sandbox_op_finalize(op, false, &err);
    }
    if (rc < 0 && rc != DZ_EBUSY) {
        op->step--; /* repeat the last step after the pause */
        answer_all(op, 0);
        park(op);
        return;
    }
    finish(op);
}

static int hash_known(struct op *op, struct dz_err *err)
{
    char text[DZ_SHA256_HEX];
    const struct dz_instance to = {.cold_sha256 = dz_sha256_hex(op->copy.sha256, text)};
    const struct row_change change = {.set = DZ_COLUMN(cold_sha256), .to = &to};
    return dz_sandbox_op_change(op, &change, err);
}

/* The cell may have ended while its row was being flushed. */
static int started(struct op *op)
{
    if (op->kind != DZ_OP_ACTIVATE || op->sandbox->warm)
        return 0;
    return dz_fail(&op->err, DZ_EIO, "%s %s: its cell exited right after its start",
                   dz_op_name(op->kind), op->sandbox->id);
}

/* The current step is done: apply its effects and advance. */
static void step_done(struct op *op)
{
    if (*op->step == DZ_STEP_STOP)
        op->sandbox->warm = false;
    if (*op->step == DZ_STEP_COMMIT)
        op->committed = true;
    /* if this fails, the next freeze or check hashes again */
    if (*op->step == DZ_STEP_HASH && op->copy.hashed)
        (void)hash_known(op, NULL);
    if ((*op->step == DZ_STEP_COMMIT && op->kind == DZ_OP_ACTIVATE) ||
        (*op->step == DZ_STEP_DROP && op->kind == DZ_OP_FREEZE))
        answer_all(op, started(op));
    op->step++;
}

static int work_flush(struct op *op, struct dz_err *err)
{
    return dz_registry_flush(op->all->opts.registry, err);
}

/* Flush durable changes of the row. 0: they are on the disk. 1: a worker flushes them and flushed()
 * follows. */
static int flush(struct op *op)
{
    if (!op->unsynced)
        return 0;
    op->unsynced = false;
    op->flushing = true;
    int rc = run_on_worker(op, work_flush, &op->err);
    if (rc == 1)
        return 1;
    op->flushing = false;
    op->unsynced = rc < 0;
    return rc;
}

static void flushed(struct op *op, int rc)
{
    op->flushing = false;
    op->unsynced = rc < 0;
    if (rc == 0)
        run(op);
    else if (op->written)
        park(op); /* the row is committed and cannot be undone */
    else
        fail(op, rc);
}

/* A durable COMMIT is complete, and is answered, when it is on the disk: otherwise a power cut
 * could undo the commit after clients have used the result. */
static bool committed(struct op *op)
{
    int rc = flush(op);
    if (rc < 0)
        park(op);
    if (rc != 0)
        return false;
    op->written = false;
    step_done(op);
    return true;
}

static void assert_step(const struct op *op)
{
    bool journaled = !simple_wake(op);
    assert(op->sandbox->op == op);                                       /* invariant 2 */
    assert(!journaled || strcmp(op->row.op, dz_op_name(op->kind)) == 0); /* invariant 1 */
    assert(!journaled || *op->step == DZ_STEP_COMMIT ||
           strcmp(op->row.step, dz_step_name(*op->step)) == 0); /* invariant 1 */
    assert(!op->unsynced && !op->flushing);                     /* invariant 3 */
}

/* Run from op->step on, until a step continues elsewhere or the operation ends. */
static void run(struct op *op)
{
    for (;;) {
        if (op->written && !committed(op))
            return;
        while (*op->step != DZ_STEP_NONE && !step_applies(op, *op->step))
            op->step++;
        if (*op->step == DZ_STEP_NONE) {
            complete(op);
            return;
        }
        if (*op->step == DZ_STEP_COMMIT)
            op->drop = superfluous_files(op);
        int rc = op->cancel && dz_op_recover(op->kind, *op->step) == DZ_RECOVER_UNDO
                     ? dz_fail(&op->err, op->cancel_code, "%s %s: %s", dz_op_name(op->kind),
                               op->sandbox->id,
                               op->cancel_code == DZ_ETIMEOUT ? "timed out" : "canceled")
                     : journal(op, &op->err);
        if (rc == 0)
            rc = flush(op);
        if (rc == 0) {
            assert_step(op);
            rc = do_step(op, &op->err);
        }
        if (rc == 1)
            return;
        if (rc < 0) {
            fail(op, rc);
            return;
        }
        op->written = *op->step == DZ_STEP_COMMIT && op->unsynced;
        if (!op->written)
            step_done(op);
    }
}

static void advance(struct op *op)
{
    step_done(op);
    run(op);
}

static void op_done(struct op *op, int rc)
{
    /* 1: the step continues elsewhere */
    if (rc == 1)
        return;
    if (op->flushing) {
        flushed(op, rc);
        return;
    }
    if (rc < 0 && op->cancel && rc == DZ_ECANCELED && op->cancel_code != rc)
        rc = dz_fail(&op->err, op->cancel_code, "%s %s: timed out", dz_op_name(op->kind),
                     op->sandbox->id);
    if (op->phase == OP_UNDO) {
        if (rc < 0)
            park(op);
        else
            undone(op);
        return;
    }
    if (rc < 0)
        fail(op, rc);
    else
        advance(op);
}

void dz_sandbox_op_call_off(struct op *op, int code)
{
    if (op->phase != OP_FORWARD)
        return;
    if (op->flushing || dz_op_may_cancel(op->kind, *op->step)) {
        op->cancel_code = code;
        atomic_store(&op->cancel, true);
        return;
    }
    bool ends = code == DZ_ETIMEOUT || code == DZ_EGONE;
    if (!ends || (*op->step != DZ_STEP_START && *op->step != DZ_STEP_STOP))
        return;
    dz_sandbox_cell_kill(op->sandbox); /* the cell did not answer in time */
    op->cell_asked = false;
    if (*op->step == DZ_STEP_STOP) {
        op->cell_dead = true;
        op_done(op, 0);
        return;
    }
    (void)dz_fail(&op->err, code, "%s %s: %s", dz_op_name(op->kind), op->sandbox->id,
                  code == DZ_EGONE ? "the sandbox is being deleted"
                                   : "its cell did not start in time");
    op_done(op, code);
}

bool dz_sandbox_progress(struct dz_sandboxes *all, const char *id,
                         struct dz_sandbox_progress *ret_progress)
{
    const struct dz_sandbox *s = dz_sandbox_find(all, id);
    const struct op *op = s ? s->op : NULL;
    *ret_progress = (struct dz_sandbox_progress){0};
    if (!op || atomic_load(&op->progress.total) == 0)
        return false;
    *ret_progress = (struct dz_sandbox_progress){.what = dz_op_name(op->kind),
                                                 .done = atomic_load(&op->progress.done),
                                                 .total = atomic_load(&op->progress.total)};
    return true;
}

/* --- starting an operation --------------------------------------------------------------- */

bool dz_sandbox_has_volumes(struct dz_sandbox *s, const struct dz_instance *row)
{
    const struct dz_sandbox_config *config;
    struct dz_err err;
    return dz_record_config(s, row, &config, &err) == 0 && config->volumes;
}

static struct op *make_op(struct dz_sandbox *s, enum dz_op kind, struct dz_instance *row,
                          struct dz_err *err)
{
    struct dz_sandboxes *all = s->all;
    struct op *op = dz_zalloc(sizeof *op);
    if (!op) {
        (void)dz_fail(err, DZ_ENOMEM, "%s %s: out of memory", dz_op_name(kind), s->id);
        return NULL;
    }
    op->all = all;
    op->sandbox = s;
    op->kind = kind;
    op->step = dz_op_steps(kind);
    op->began_ns = dz_clock_mono_ns();
    op->cold = all->opts.cold;
    op->cold.progress = &op->progress;
    dz_list_init(&op->waiters);
    dz_list_init(&op->answers);
    dz_loop_task_init(&op->end, s, on_end, op);
    int rc = dz_timer_new(all->opts.loop, on_timer, op, &op->timer, err);
    if (rc < 0) {
        dz_free(op);
        return NULL;
    }
    all->ops++;
    dz_sandbox_of_tenant(s, row->tenant);
    op->row = *row;
    *row = (struct dz_instance){0};
    op->mounts = kind == DZ_OP_ACTIVATE && dz_sandbox_has_volumes(s, &op->row);
    s->op = op;
    return op;
}

/* Register the new sandbox before its file exists, so that recovery finds the file after a crash.
 * MAKE is not a step of a clone; it marks the row of the new sandbox. */
static int enter_clone(struct op *op, struct waiter *w, struct dz_err *err)
{
    const struct dz_instance row = {
        .id = w->clone_id,
        .tenant = w->clone_tenant && w->clone_tenant[0] ? w->clone_tenant : op->row.tenant,
        .name = w->clone_name,
        .op = dz_op_name(DZ_OP_CLONE),
        .step = dz_step_name(DZ_STEP_MAKE),
        .status = dz_status_name(DZ_STATUS_CREATING),
        .kind = op->row.kind,
        .image = op->row.image,
        .config = op->row.config,
        .keep = op->row.keep,
        .idle_mode = op->row.idle_mode,
        .suspend_ms = op->row.suspend_ms,
        .freeze_ms = op->row.freeze_ms,
        .timeout_ms = op->row.timeout_ms,
        .timeout_action = op->row.timeout_action,
        .owner = w->clone_owner,
        .memory = op->row.memory,
    };
    struct dz_sandbox *target = dz_sandbox_get(op->all, w->clone_id, NULL);
    if (!target)
        return dz_fail(err, DZ_ENOMEM, "clone %s: out of memory", op->sandbox->id);
    if (target->op || target->taken || target == op->sandbox)
        return dz_fail(err, DZ_EEXIST, "clone %s: a sandbox %s already exists", op->sandbox->id,
                       w->clone_id);
    int rc = dz_sandbox_enter(op->all, &row, err);
    if (rc < 0)
        return rc;
    target->taken = true;
    op->target = target;
    op->clone_id = DZ_TAKE_PTR(w->clone_id);
    op->clone_tenant = DZ_TAKE_PTR(w->clone_tenant);
    return 0;
}

/* Does it create files that the present row does not account for? Then its first write must be
 * durable, together with all earlier changes of rows, so that no file is unknown after a power
 * cut. */
static bool begins_durably(const struct op *op)
{
    return op->kind == DZ_OP_FREEZE || op->kind == DZ_OP_ARCHIVE || op->kind == DZ_OP_CLONE ||
           (op->kind == DZ_OP_ACTIVATE && op->row.is == DZ_STATE_ARCHIVED);
}

/* Write to the row that the operation is in progress and that nothing else is due. */
static int write_beginning(struct op *op, struct dz_err *err)
{
    enum dz_status status = dz_op_status(op->kind);
    bool stale = op->row.cold_uri[0] && op->row.cold_generation < op->row.generation;
    const struct dz_instance to = {
        .op = dz_op_name(op->kind),
        .step = dz_step_name(*op->step),
        .status = dz_status_name(status == DZ_STATUS_RESTORING && op->row.is == DZ_STATE_CREATED
                                     ? DZ_STATUS_STARTING
                                     : status),
    };
    uint64_t set = DZ_COLUMN(op) | DZ_COLUMN(step) | DZ_COLUMN(due);
    if (status != DZ_STATUS_NONE)
        set |= DZ_COLUMN(status);
    if (stale && (op->kind == DZ_OP_FREEZE || op->kind == DZ_OP_ARCHIVE))
        set |= DZ_COLUMN(cold_uri) | DZ_COLUMN(cold_sha256) | DZ_COLUMN(cold_size) |
               DZ_COLUMN(cold_generation);
    const struct row_change change = {.set = set, .to = &to, .durable = begins_durably(op)};
    return dz_sandbox_op_change(op, &change, err);
}

/* Start the cell before the row is written, for a simple wake whose file is here. Most such wakes
 * are complete before QUICK_MS, and then the row never names them. If the daemon is killed in
 * between, the row knows nothing of the wake, which is as good as an undone one. True: step START
 * was begun; *ret_rc is its result, as of do_step. */
static bool start_ahead(struct op *op, int *ret_rc)
{
    struct dz_err err;
    if (!simple_wake(op) || *op->step != DZ_STEP_FETCH || do_step(op, &err) != 0 || !op->have_live)
        return false;
    while (*op->step != DZ_STEP_START)
        op->step++;
    *ret_rc = do_step(op, &op->err);
    return true;
}

/* The operation could not be started: undo what was done for it. */
static int not_begun(struct op *op, int rc)
{
    struct dz_sandbox *target = op->target;
    /* if this fails, recovery erases the row */
    if (op->clone_id)
        (void)erase_clone(op, NULL);
    if (op->cell_asked)
        dz_sandbox_cell_kill(op->sandbox);
    dz_sandbox_op_free(op);
    release_target(target);
    return rc;
}

int dz_sandbox_op_begin(struct dz_sandbox *s, enum dz_op kind, struct waiter *w,
                        struct dz_instance *row, struct dz_err *err)
{
    struct op *op = make_op(s, kind, row, err);
    if (!op)
        return DZ_ENOMEM;
    op->cell_dead = w->what == DZ_REQUEST_CRASHED;
    op->keep_memory = w->keep_given            ? w->keep_memory
                      : kind == DZ_OP_ACTIVATE ? true
                                               : op->row.keep_is == DZ_KEEP_MEMORY;
    op->only_files = kind == DZ_OP_ARCHIVE && w->keep_given && !w->keep_memory;
    op->may_resume = w->may_resume;
    op->anew = w->what == DZ_REQUEST_WAKE || w->what == DZ_REQUEST_REVIVE;
    op->share_store = w->share_store;
    op->share_key = DZ_TAKE_PTR(w->share_key);
    while (*op->step != DZ_STEP_NONE && !step_applies(op, *op->step))
        op->step++;
    int asked = 0, rc = kind == DZ_OP_CLONE ? enter_clone(op, w, err) : 0;
    bool ahead = rc == 0 && start_ahead(op, &asked);
    /* write an operation of the clock at once, because the clock needs the row's due time to
     * change */
    op->unwritten = ahead && asked == 1 && !w->background;
    struct share *share = NULL;
    if (rc == 0 && w->background && !(share = dz_share_enter(s->all, op->row.tenant)))
        rc = dz_fail(err, DZ_ENOMEM, "%s %s: out of memory", dz_op_name(kind), s->id);
    if (rc == 0 && !op->unwritten)
        rc = write_beginning(op, err);
    if (rc < 0) {
        dz_share_leave(s->all, share);
        return not_begun(op, rc);
    }
    op->background = share;
    w->op = op;
    dz_list_push_back(&op->waiters, &w->link);
    op->late_ms = w->deadline_ms > DZ_SANDBOX_DEADLINE_MS ? w->deadline_ms : DZ_SANDBOX_DEADLINE_MS;
    dz_timer_after(op->timer, op->unwritten ? QUICK_MS : op->late_ms);
    if (ahead)
        op_done(op, asked);
    else
        run(op);
    return 0;
}

/* --- recovery ---------------------------------------------------------------------------- */

/* The operation and the step that a row names. *ret_step points into the steps of that operation;
 * to the first one if it does not have this step. */
static int find_step(const struct dz_instance *row, enum dz_op *ret_kind,
                     const enum dz_step **ret_step, struct dz_err *err)
{
    enum dz_step step = DZ_STEP_NONE;
    int rc = dz_op_parse(dz_str(row->op), ret_kind, err);
    if (rc == 0)
        rc = dz_step_parse(dz_str(row->step), &step, err);
    if (rc < 0)
        return dz_wrap(err, rc, "the row of %s", row->id);
    *ret_step = dz_op_steps(*ret_kind);
    for (const enum dz_step *s = *ret_step; *s != DZ_STEP_NONE; s++)
        if (*s == step)
            *ret_step = s;
    return 0;
}

int dz_sandbox_op_resume(struct dz_sandboxes *all, struct dz_instance *row, struct dz_err *err)
{
    enum dz_op kind;
    const enum dz_step *step;
    int rc = find_step(row, &kind, &step, err);
    bool clone = strcmp(row->step, dz_step_name(DZ_STEP_MAKE)) == 0 && kind == DZ_OP_CLONE;
    if (rc == 0 && row->is == DZ_STATE_NONE)
        rc =
            dz_fail(err, DZ_ECORRUPT, "the row of %s has the state \"%.40s\"", row->id, row->state);
    struct dz_sandbox *s = rc == 0 ? dz_sandbox_get(all, row->id, row->tenant) : NULL;
    /* it is being retried already */
    if (s && s->op)
        return 0;
    struct op *op = s ? make_op(s, kind == DZ_OP_NONE ? DZ_OP_SUSPEND : kind, row, err) : NULL;
    if (!op)
        return rc < 0 ? rc : dz_fail(err, DZ_ENOMEM, "recover a sandbox: out of memory");
    op->recovered = true;
    op->cell_dead = true; /* the cell died with the process that started the operation */
    op->rc = DZ_ECANCELED;
    op->step = step;
    op->committed = kind != DZ_OP_NONE && !clone && dz_op_recover(kind, *step) == DZ_RECOVER_FINISH;
    if (clone) {
        op->clone_id = dz_str_dup(dz_str(s->id));
        if (!op->clone_id) {
            dz_sandbox_op_free(op);
            return dz_fail(err, DZ_ENOMEM, "recover a sandbox: out of memory");
        }
    }
    if (op->committed) {
        op->rc = 0;
        rc = kind == DZ_OP_FREEZE ? read_copy(op, err) : 0;
        if (rc < 0) {
            dz_sandbox_op_free(op);
            return rc;
        }
        op->copy.hashed = op->row.cold_sha256[0] != '\0';
        op->drop = superfluous_files(op);
        if (kind == DZ_OP_ACTIVATE) /* the commit of the wake removed the cold copy from the row, so
                                       its files go, too */
            op->drop = DZ_COLD_COPIES;
        run(op);
    } else {
        undo(op);
    }
    return 0;
}
