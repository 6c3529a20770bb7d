/* SPDX-License-Identifier: MIT
 *
 * What each step does. Every step may be done again: after a crash, or after it
 * failed in the middle.
 */
#include "sandbox/sandbox_int.h"

#include "base/hash.h"
#include "base/str.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* --- workers --------------------------------------------------------------------- */

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
    dz_sandbox_op_done(op, op->work_rc);
}

int dz_sandbox_op_work(struct op *op, int (*work)(struct op *op, struct dz_err *err),
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
    return &op->all->opts.cold;
}

/* --- files ----------------------------------------------------------------------- */

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

static int work_drop(struct op *op, struct dz_err *err)
{
    const char *id = op->phase == OP_UNDO && op->clone_id ? op->clone_id : op->sandbox->id;
    return dz_cold_drop(cold_of(op), id, op->drop, err);
}

int dz_sandbox_op_drop(struct op *op, struct dz_err *err)
{
    return op->drop ? dz_sandbox_op_work(op, work_drop, err) : 0;
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

/* The live file through a file-only cell into another object. */
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

/* --- fetch ----------------------------------------------------------------------- */

/* What the row says of the copy in cold storage. */
static int read_copy(struct op *op, struct dz_err *err)
{
    char id[DZ_COLD_KEY];
    struct dz_cold_copy copy = {.size = (uint64_t)op->row.cold_size,
                                .hashed = op->row.cold_sha256[0] != '\0'};
    if (!dz_cold_parse_key(op->row.cold_uri, id, &copy.file) || strcmp(id, op->sandbox->id) != 0 ||
        (copy.file != DZ_COLD_FROZEN && copy.file != DZ_COLD_ARCHIVE))
        return dz_fail(err, DZ_ECORRUPT,
                       "the registry row of %s has an invalid place of its cold copy: \"%.80s\"",
                       op->sandbox->id, op->row.cold_uri);
    int rc = copy.hashed ? dz_sha256_parse(dz_str(op->row.cold_sha256), copy.sha256, err) : 0;
    if (rc == 0)
        op->copy = copy;
    return rc;
}

/* The rungs: the local file unless the cold one is newer; the cold one; nothing,
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
        return rc < 0 ? rc : dz_sandbox_op_work(op, work_thaw, err);
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

/* --- cells ----------------------------------------------------------------------- */

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
        op->cell_dead = true; /* what was to be stopped is stopped, by itself */
        op->work_rc = 0;
    }
    if (op->work_rc < 0)
        op->err = op->work_err;
    dz_sandbox_op_done(op, op->work_rc);
}

static int step_kill(struct op *op)
{
    dz_sandbox_cell_kill(op->sandbox);
    op->sandbox->warm = false;
    return 0;
}

/* --- all ------------------------------------------------------------------------- */

static bool has_wal(const struct op *op)
{
    uint64_t size = 0;
    int rc = dz_cold_has(cold_of(op), op->sandbox->id, DZ_COLD_LOG, &size, NULL);
    return rc < 0 || (rc == 1 && size > 0);
}

bool dz_sandbox_op_step_applies(const struct op *op, enum dz_step step)
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

int dz_sandbox_op_step(struct op *op, struct dz_err *err)
{
    switch (*op->step) {
    case DZ_STEP_STOP:
        return step_stop(op);
    case DZ_STEP_KILL:
        return step_kill(op);
    case DZ_STEP_CHECKPOINT:
        return dz_sandbox_op_work(op, work_checkpoint, err);
    case DZ_STEP_FETCH:
        return step_fetch(op, err);
    case DZ_STEP_MAKE:
        return dz_sandbox_op_work(op, work_make, err);
    case DZ_STEP_START:
        return step_start(op, err);
    case DZ_STEP_COPY:
        return dz_sandbox_op_work(op, work_freeze, err);
    case DZ_STEP_COMPACT:
        return dz_sandbox_op_work(op, work_compact, err);
    case DZ_STEP_PACK:
        return dz_sandbox_op_work(op, work_pack, err);
    case DZ_STEP_VERIFY:
        return dz_sandbox_op_work(op, work_verify, err);
    case DZ_STEP_TRANSFER:
        return dz_sandbox_op_work(op, work_transfer, err);
    case DZ_STEP_HASH:
        return dz_sandbox_op_work(op, work_hash, err);
    case DZ_STEP_COMMIT:
        return dz_sandbox_op_commit(op, err);
    case DZ_STEP_DROP:
        return dz_sandbox_op_drop(op, err);
    case DZ_STEP_ERASE:
        return dz_sandbox_erase(op->all, &op->row, err);
    case DZ_STEP_NONE:
    case DZ_STEP_COUNT:
        break;
    }
    assert(false); /* no step */
    return 0;
}
