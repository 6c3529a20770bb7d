/* SPDX-License-Identifier: MIT
 *
 * engine_keep.c - what the keeper asks of the engine: cells, empty disks, and what
 * must look inside a file.
 *
 * start, stop and kill run on the loop's thread; make, settle and carry on workers,
 * where they touch nothing of the engine but what never changes.
 */
#include "engine/engine_int.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "cell/cell_disk.h"
#include "db/db.h"
#include "vfs/vfs.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A cell that had only the file may still be on its way down, for whom it was to become the machine
 * for has left: nothing of it is waited for, and what was committed is in the file. Any other that
 * is here has no right to be. A cell that has only the file cannot give up the memory in it: then
 * another cell starts, and the operations that have not moved anything begin again there. */
static void take_over(struct box *b, bool keep_memory)
{
    if (!b->cell || (keep_memory && (b->phase == BOX_FILES || b->phase == BOX_OPENING)))
        return;
    dz_box_kill(b);
}

static int start(struct box *b, const struct dz_keeper_start *call, struct dz_err *err)
{
    struct dz_engine *e = b->e;
    struct dz_engine_why why = {0};
    take_over(b, call->keep_memory);
    b->drop_memory = !call->keep_memory;
    if (e->draining)
        return dz_fail(err, DZ_EBUSY, "start %s: the daemon is stopping", b->id);
    if (dz_use_warm(b, call->row, &why) < 0) {
        *err = why.err;
        return err->code;
    }
    if (b->phase == BOX_FILES || b->phase == BOX_OPENING) {
        dz_box_promote(b); /* the cell that has its files becomes the machine's */
        return 0;
    }
    return dz_start_may(e, true) ? dz_box_start(b, call->row, true, err) : dz_start_queue(b, err);
}

static int keep_start(void *arg, const struct dz_keeper_start *call, struct dz_err *err)
{
    struct box *b = dz_box_get(arg, call->row->id, call->row->tenant);
    if (!b)
        return dz_fail(err, DZ_ENOMEM, "start %s: out of memory", call->row->id);
    int rc = start(b, call, err);
    if (rc == 0) {
        b->ticket = call->ticket;
        return 0;
    }
    dz_use_cold(b);
    dz_box_leave(b);
    return rc;
}

void dz_box_start_turn(struct box *b)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_engine *e = b->e;
    uint64_t ticket = b->ticket;
    struct dz_err err = {0};
    int rc = e->draining ? dz_fail(&err, DZ_EBUSY, "start %s: the daemon is stopping", b->id)
                         : dz_registry_get(e->registry, b->id, &row, &err);
    if (rc == 0)
        rc = dz_box_start(b, &row, true, &err);
    if (rc < 0) {
        const struct dz_keeper_cell how = {.code = rc, .error = err.msg};
        b->ticket = 0;
        dz_use_cold(b);
        dz_keeper_cell_done(e->keeper, ticket, &how);
    }
    dz_box_leave(b);
}

static int keep_stop(void *arg, const struct dz_keeper_start *call, struct dz_err *err)
{
    struct box *b = dz_box_find(arg, call->row->id);
    if (!b || b->phase != BOX_UP)
        return dz_fail(err, DZ_EIO, "stop %s: it has no cell", call->row->id);
    b->ticket = call->ticket;
    dz_box_stop(b, call->keep_memory);
    return 0;
}

static void keep_kill(void *arg, const char *id)
{
    struct box *b = dz_box_find(arg, id);
    if (b && (dz_start_unqueue(b) || b->cell))
        dz_box_kill(b);
}

static void keep_awaited(void *arg, const char *id)
{
    /* The wake stands in line. Until its turn comes another request may begin, so the sandbox is
     * not given back before its cell has ended. */
    dz_engine_make_way(arg, id, DZ_REQUEST_SUSPEND);
}

static void keep_idle(void *arg, const struct dz_instance *row, struct dz_keeper_idle *ret_idle)
{
    DZ_AUTO(dz_engine_config_release) struct dz_engine_config c = {0};
    (void)arg;
    if (dz_engine_config_of(row, &c, NULL) < 0)
        return;
    *ret_idle = (struct dz_keeper_idle){
        .silence_ms = c.silence_ms,
        .ignore_cpu = c.ignore_cpu,
        .stays = !c.auto_resume, /* who asks next would be refused */
    };
}

/* --- the clock ------------------------------------------------------------------------------- */

/* The file DATA/clock: the machine's boot, and three numbers of struct dz_keeper_clock. */
#define CLOCK_FORMAT "%36s %" SCNd64 " %" SCNd64 " %" SCNd64

enum {
    CLOCK_TEXT = 128,
};

static void clock_path(const struct dz_engine *e, char ret[static DZ_PATH_MAX])
{
    (void)snprintf(ret, DZ_PATH_MAX, "%s/clock", e->data_path);
}

static bool keep_clock_load(void *arg, struct dz_keeper_clock *ret_clock)
{
    struct dz_buf b = DZ_BUF_INIT(CLOCK_TEXT);
    char path[DZ_PATH_MAX], boot[DZ_BOOT_ID], was[DZ_BOOT_ID] = "";
    struct dz_keeper_clock c = {0};
    clock_path(arg, path);
    bool known = dz_fd_read_file(AT_FDCWD, path, &b, NULL) == 0 && b.len > 0 &&
                 sscanf(b.p, CLOCK_FORMAT, was, &c.offset_ms, &c.skew_ms, &c.seen_ms) == 4;
    dz_buf_release(&b);
    dz_clock_boot_id(boot);
    c.same_boot = known && boot[0] && strcmp(boot, was) == 0;
    if (known)
        *ret_clock = c;
    return known;
}

static void keep_clock_save(void *arg, const struct dz_keeper_clock *clock)
{
    char path[DZ_PATH_MAX], boot[DZ_BOOT_ID], text[CLOCK_TEXT];
    struct dz_err err;
    clock_path(arg, path);
    dz_clock_boot_id(boot);
    int n = snprintf(text, sizeof text, "%s %" PRId64 " %" PRId64 " %" PRId64 "\n",
                     boot[0] ? boot : "-", clock->offset_ms, clock->skew_ms, clock->seen_ms);
    if (dz_fd_replace(AT_FDCWD, path, text, (size_t)n, 0600, &err) < 0)
        dz_log(DZ_LOG_WARN, "clock_not_saved", dz_log_err(&err));
}

static int keep_make(void *arg, const struct dz_instance *row, struct dz_blob_out *out,
                     struct dz_err *err)
{
    (void)arg, (void)row;
    return dz_ready_write(out, err);
}

static struct dz_blob_out *keep_ready(void *arg)
{
    return dz_ready_take(&((struct dz_engine *)arg)->ready);
}

/* --- what must look inside a file ------------------------------------------------------------- */

static int keep_settle(void *arg, const char *id, struct dz_err *err)
{
    const struct dz_engine *e = arg;
    char path[DZ_PATH_MAX], key[DZ_COLD_KEY];
    int n = snprintf(path, sizeof path, "%s/%s", e->live_path, dz_cold_key(id, DZ_COLD_LIVE, key));
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of %s's file is too long", id);
    return dz_cell_disk_settle(path, err);
}

static int keep_carry(void *arg, const struct dz_keeper_carrying *c, struct dz_err *err)
{
    static const enum dz_cell_carry kinds[] = {
        [DZ_KEEPER_COMPACT] = DZ_CELL_CARRY_COMPACT,
        [DZ_KEEPER_FILES] = DZ_CELL_CARRY_FILES,
        [DZ_KEEPER_CLONE] = DZ_CELL_CARRY_CLONE,
        [DZ_KEEPER_SHARE] = DZ_CELL_CARRY_SHARE,
    };
    const struct dz_engine *e = arg;
    DZ_AUTO(dz_fd_close) int image = -1;
    bool below = c->what == DZ_KEEPER_SHARE && c->row->image[0];
    int rc = below ? image = dz_image_open(e->images, c->row->image, err) : 0;
    const struct dz_cell_disk d = {
        .from = c->from,
        .to = c->to,
        .image_fd = image,
        .image_sha256 = below ? c->row->image : NULL,
        .label = c->row->id,
        .cancel = c->cancel,
    };
    return rc < 0 ? rc : dz_cell_disk_carry(&d, kinds[c->what], err);
}

static void keep_timed(void *arg, const struct dz_keeper_timing *timing)
{
    bool wake = strcmp(timing->operation, "activate") == 0;
    const struct dz_engine_timing t = {
        .operation = wake ? "wake" : timing->operation,
        .rung = wake && timing->code == 0 ? dz_rung_name(timing->rung) : "",
        .code = timing->code,
        .us = timing->us,
    };
    dz_engine_timed(arg, &t);
    struct box *b = strcmp(timing->operation, "archive") == 0 && timing->code == 0
                        ? dz_box_find(arg, timing->id)
                        : NULL;
    if (!b)
        return;
    dz_exec_archived(b);
    dz_box_leave(b);
}

static void keep_counted(void *arg, const struct dz_instance *row, int by)
{
    struct box *b = by < 0 ? dz_box_find(arg, row->id) : NULL;
    dz_use_counted(arg, row, by);
    if (!b)
        return;
    dz_op_gone(b);
    dz_exec_down(b, DZ_EGONE, NULL, "the sandbox was deleted"); /* commands that slept in it */
    dz_box_leave(b);
}

static void keep_quiet(void *arg)
{
    dz_engine_drain_look(arg);
}

static bool keep_claimed(void *arg, const char *id)
{
    return dz_claim_is(arg, id);
}

const struct dz_keeper_ops dz_engine_keeper_ops = {
    .claimed = keep_claimed,
    .counted = keep_counted,
    .start = keep_start,
    .stop = keep_stop,
    .kill = keep_kill,
    .make = keep_make,
    .ready = keep_ready,
    .settle = keep_settle,
    .carry = keep_carry,
    .awaited = keep_awaited,
    .timed = keep_timed,
    .quiet = keep_quiet,
    .idle = keep_idle,
    .clock_load = keep_clock_load,
    .clock_save = keep_clock_save,
    .make_room = dz_space_make_room,
};
