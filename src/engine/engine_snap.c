/* SPDX-License-Identifier: MIT
 *
 * engine_snap.c - snapshots: a sandbox's file as it is at one instant, with its machine
 * asleep in it, while the sandbox goes on.
 *
 *     DATA/snapshots/.SNAP.doze, .SNAP.doze-wal   being written, by the sandbox's cell; the log
 *                                                 stays empty and goes
 *     DATA/snapshots/SNAP.doze                    there, before its row is; with a log when an
 *                                                 older doze wrote it
 *
 * What was being written or removed when a daemon died has a claim, by which the next one
 * removes it. A snapshot outlives its sandbox.
 */
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct copy {
    struct dz_list link; /* in box.copies */
    struct dz_engine *e;
    struct box *box;
    struct dz_instance row; /* of the sandbox */
    dz_engine_snap_fn *done;
    void *arg;
    int fds[2];
    bool asked;       /* the cell is at it */
    bool claimed;     /* files may be there */
    char *name;       /* may be NULL */
    const char *kind; /* a literal */
    int64_t expires;
    char id[DZ_ID_TEXT];
    uint64_t bytes;
    int rc; /* of the worker */
    struct dz_err err;
};

/* --- paths ------------------------------------------------------------------------------- */

int dz_snap_path(const struct dz_engine *e, const char *id, bool temp, bool log,
                 char ret[static DZ_PATH_MAX], struct dz_err *err)
{
    int n = snprintf(ret, DZ_PATH_MAX, "%s/snapshots/%s%s.doze%s", e->data_path, temp ? "." : "",
                     id, log ? "-wal" : "");
    return n < DZ_PATH_MAX ? 0 : dz_fail(err, DZ_ELIMIT, "the path of a snapshot is too long");
}

int dz_snap_remove_files(const struct dz_engine *e, const char *id, struct dz_err *err)
{
    char path[DZ_PATH_MAX];
    for (int i = 0; i < 4; i++) {
        int rc = dz_snap_path(e, id, i & 2, i & 1, path, err);
        if (rc == 0 && unlink(path) < 0 && errno != ENOENT)
            rc = dz_fail_sys(err, errno, "remove %s", path);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- the end ------------------------------------------------------------------------------- */

static void copy_free(struct copy *c)
{
    dz_fd_close(&c->fds[0]);
    dz_fd_close(&c->fds[1]);
    dz_instance_release(&c->row);
    dz_free(c->name);
    dz_free(c);
}

/* Out of its box, which may go on with the next one. */
static void leave_box(struct copy *c)
{
    struct box *b = c->box;
    c->box = NULL;
    dz_list_remove(&c->link);
    if (!b)
        return;
    dz_copy_next(b);
    dz_box_files_over(b);
    dz_box_leave(b);
}

static void copy_fail(struct copy *c, const struct dz_engine_why *why)
{
    dz_engine_snap_fn *done = c->done;
    void *arg = c->arg;
    if (c->claimed && dz_claim_undo(c->e, c->id, NULL) < 0)
        dz_log(DZ_LOG_WARN, "snapshot_left", dz_log_strz("id", c->id));
    leave_box(c);
    copy_free(c);
    done(arg, NULL, why);
}

static void copy_fail_err(struct copy *c, int code, const struct dz_err *err)
{
    struct dz_engine_why why = {0};
    (void)dz_why_err(&why, code, err);
    copy_fail(c, &why);
}

/* --- the copy is on the disk ------------------------------------------------------------------ */

static int keep_one(const struct copy *c, bool log, struct dz_err *err)
{
    char from[DZ_PATH_MAX], to[DZ_PATH_MAX];
    int fd = c->fds[log], rc = dz_snap_path(c->e, c->id, true, log, from, err);
    struct stat st;
    if (rc == 0)
        rc = dz_snap_path(c->e, c->id, false, log, to, err);
    if (rc < 0)
        return rc;
    if (fstat(fd, &st) == 0 && log && st.st_size == 0)
        return unlink(from) < 0 ? dz_fail_sys(err, errno, "remove %s", from) : 0;
    if (rename(from, to) <
        0) /* first: the claim knows of it, and one wait for the disk is enough */
        return dz_fail_sys(err, errno, "rename to %s", to);
    return fsync(fd) < 0 ? dz_fail_sys(err, errno, "sync %s", to) : 0;
}

static void work_keep(void *arg)
{
    struct copy *c = arg;
    char dir[DZ_PATH_MAX];
    c->rc = keep_one(c, true, &c->err); /* the log first: a file alone would be an older one */
    if (c->rc == 0)
        c->rc = keep_one(c, false, &c->err);
    (void)snprintf(dir, sizeof dir, "%s/snapshots", c->e->data_path);
    if (c->rc == 0)
        c->rc = dz_fd_sync_dir(AT_FDCWD, dir, &c->err);
}

static void on_kept(void *arg)
{
    struct copy *c = arg;
    struct dz_snapshot_row row = {
        .id = c->id,
        .tenant = c->row.tenant,
        .status = "ready",
        .sandbox_id = c->row.id,
        .name = c->name ? c->name : "",
        .kind = c->kind,
        .image = c->row.image,
        .config = c->row.config,
        .metadata = c->row.metadata,
        .size = (int64_t)c->bytes,
        .generation = c->row.generation,
        .created = dz_clock_real_ms(),
        .expires = c->expires,
    };
    /* A fork is as durable as a sandbox that was just made: its files are, and its row goes to the
     * disk with the next ones, in their order. */
    bool durable = strcmp(c->kind, "fork") != 0;
    if (c->rc == 0)
        c->rc = dz_registry_snapshot_add(c->e->registry, &row, durable, &c->err);
    if (c->rc < 0) {
        copy_fail_err(c, c->rc, &c->err);
        return;
    }
    dz_engine_note(c->e, &c->row, "snapshot", c->id);
    c->done(c->arg, &row, NULL);
    dz_claim_over(c->e, c->id);
    leave_box(c);
    copy_free(c);
}

void dz_copy_event(struct box *b, const struct dz_cell_event *event)
{
    struct copy *c = DZ_LIST_FIRST(struct copy, &b->copies, link);
    struct dz_err err;
    if (!c || !c->asked)
        return;
    if (event->code < 0) {
        int rc = dz_fail(&err, event->code, "snapshot %s: %s", b->id, event->text);
        copy_fail_err(c, rc, &err);
        return;
    }
    c->bytes = event->count;
    b->pins++;
    leave_box(c);
    int rc = dz_loop_work(c->e->loop, work_keep, on_kept, c, &err);
    if (rc < 0)
        copy_fail_err(c, rc, &err);
    b->pins--;
    dz_box_leave(b);
}

void dz_copy_down(struct box *b, int code, const char *text)
{
    struct dz_err err;
    (void)dz_fail(&err, code, "snapshot %s: %s", b->id, text);
    b->pins++;
    while (!dz_list_empty(&b->copies)) {
        struct copy *c = DZ_LIST_FIRST(struct copy, &b->copies, link);
        dz_list_remove(&c->link);
        c->box = NULL;
        copy_fail_err(c, code, &err);
    }
    b->pins--;
}

/* --- the beginning ------------------------------------------------------------------------------
 */

static int open_files(struct copy *c, struct dz_err *err)
{
    char path[DZ_PATH_MAX];
    int rc = dz_claim_make(c->e, c->id, err);
    c->claimed = rc == 0;
    for (int log = 0; log < 2 && rc >= 0; log++) {
        rc = dz_snap_path(c->e, c->id, true, log, path, err);
        if (rc == 0)
            rc = c->fds[log] =
                dz_fd_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    }
    return rc < 0 ? rc : 0;
}

/* A cell makes one at a time. */
void dz_copy_next(struct box *b)
{
    struct copy *c = DZ_LIST_FIRST(struct copy, &b->copies, link);
    struct dz_err err;
    if (!c || c->asked || !b->cell)
        return;
    c->asked = true;
    int rc = open_files(c, &err);
    if (rc == 0)
        rc = dz_engine_cell_code(dz_cell_snapshot(b->cell, c->fds[0], c->fds[1], &err));
    if (rc < 0)
        copy_fail_err(c, rc, &err);
    else
        dz_box_watch(b);
}

static void on_reached(void *arg, struct box *b, const struct dz_engine_result *result)
{
    struct copy *c = arg;
    struct dz_err err;
    if (result->code < 0) {
        copy_fail(c, result->why);
        return;
    }
    dz_instance_release(&c->row); /* as it is now: waking may have changed it */
    int rc = dz_registry_get(c->e->registry, b->id, &c->row, &err);
    if (rc < 0) {
        copy_fail_err(c, rc, &err);
        return;
    }
    c->box = b;
    dz_list_push_back(&b->copies, &c->link);
    dz_copy_next(b);
}

int dz_engine_snapshot_of(struct dz_engine *e, const struct dz_instance *row,
                          struct snap_label label, dz_engine_snap_fn *done, void *arg,
                          struct dz_engine_why *why)
{
    if (dz_use_disk(e, row->tenant, row->owner, why) < 0)
        return why->err.code;
    struct copy *c = dz_zalloc(sizeof *c);
    int rc = c ? 0 : dz_why(why, DZ_ENOMEM, NULL, "snapshot: out of memory");
    if (rc < 0)
        return rc;
    *c = (struct copy){.e = e,
                       .done = done,
                       .arg = arg,
                       .fds = {-1, -1},
                       .kind = label.kind,
                       .expires = label.expires};
    dz_list_init(&c->link);
    rc = dz_id_new("snap", c->id, &why->err);
    if (rc == 0 && label.name && !(c->name = dz_str_dup(dz_str(label.name))))
        rc = dz_why(why, DZ_ENOMEM, NULL, "snapshot: out of memory");
    if (rc == 0)
        rc = dz_job_start(e, row, &(struct job_spec){.kind = JOB_FILES, .fn = on_reached, .arg = c},
                          NULL, why);
    if (rc < 0)
        copy_free(c);
    return rc;
}

/* Is the name free? The row's own check comes last, when the copy is made. */
static int check_free(struct dz_engine *e, const char *tenant, const char *name,
                      struct dz_engine_why *why)
{
    DZ_AUTO(dz_snapshot_row_release) struct dz_snapshot_row old = {0};
    struct dz_err err;
    int rc = dz_registry_snapshot_find(e->registry, tenant, name, &old, &err);
    if (rc == 0 &&
        dz_engine_expired(old.expires)) { /* nobody finds it, or can delete it, any more */
        dz_engine_handles_sweep(e);
        return 0;
    }
    if (rc == 0)
        return dz_why(
            why, DZ_EEXIST, "name",
            "a snapshot named \"%s\" already exists: %s, of %s; delete it or choose another "
            "name",
            name, old.id, old.sandbox_id);
    return rc == DZ_ENOENT ? 0 : dz_why_err(why, rc, &err);
}

int dz_engine_snapshot(struct dz_engine *e, struct dz_engine_target target,
                       const struct dz_engine_handle *as, dz_engine_snap_fn *done, void *arg,
                       struct dz_engine_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    const struct snap_label label = {"snapshot", as->name, dz_engine_expiry(as)};
    int rc = as->name ? dz_engine_check_name(as->name, why) : 0;
    if (rc == 0)
        rc = dz_engine_row(e, target, &row, why);
    if (rc == 0 && as->name)
        rc = check_free(e, row.tenant, as->name, why);
    return rc < 0 ? rc : dz_engine_snapshot_of(e, &row, label, done, arg, why);
}

/* --- rows ----------------------------------------------------------------------------------------
 */

int dz_engine_snapshot_get(struct dz_engine *e, struct dz_engine_target target,
                           struct dz_snapshot_row *ret_row, struct dz_engine_why *why)
{
    char quoted[DZ_STR_QUOTED];
    const struct dz_engine_place p = dz_engine_place(target);
    const char *word = p.word, *tenant = p.named[0] ? p.named : p.sees;
    struct dz_err err;
    int rc = dz_registry_snapshot_get(e->registry, tenant, word, ret_row, &err);
    if (rc == DZ_ENOENT)
        rc = dz_registry_snapshot_find(e->registry, tenant ? tenant : p.home, word, ret_row, &err);
    if (rc == 0 && dz_engine_expired(ret_row->expires)) {
        dz_snapshot_row_release(ret_row);
        rc = DZ_ENOENT;
    }
    if (rc == DZ_ENOENT)
        return dz_why(why, rc, NULL, "there is no snapshot %s", dz_str_quote(dz_str(word), quoted));
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_engine_snapshots(struct dz_engine *e, const struct dz_engine_caller *who, const char *after,
                        size_t limit, struct dz_snapshot_rows *rows, struct dz_engine_why *why)
{
    struct dz_err err;
    const struct dz_registry_record_filter f = {
        .tenant = dz_engine_sees(who), .after = after, .limit = limit};
    dz_engine_handles_sweep(e);
    int rc = dz_registry_snapshot_list(e->registry, &f, rows, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* Row and files, by its id. The claim is a new file: the reserve has an inode for it. */
int dz_snap_remove(struct dz_engine *e, const char *id, struct dz_err *err)
{
    struct dz_err left;
    int rc;
    do
        rc = dz_claim_make(e, id, err);
    while (rc == DZ_ENOSPC && dz_space_release(e));
    if (rc == 0)
        rc = dz_registry_snapshot_remove(e->registry, NULL, id, 0, err);
    if (rc < 0)
        dz_claim_over(e, id);
    else if (dz_claim_undo(e, id, &left) < 0)
        dz_log(DZ_LOG_WARN, "snapshot_left", dz_log_strz("id", id), dz_log_err(&left));
    return rc;
}

int dz_engine_snapshot_delete(struct dz_engine *e, struct dz_engine_target target,
                              struct dz_engine_why *why)
{
    DZ_AUTO(dz_snapshot_row_release) struct dz_snapshot_row row = {0};
    struct dz_err err;
    int rc = dz_engine_snapshot_get(e, target, &row, why);
    if (rc < 0)
        return rc;
    rc = dz_snap_remove(e, row.id, &err);
    if (rc == DZ_ESTATE)
        return dz_why(why, DZ_EEXIST, NULL, "%s: a fork uses this snapshot; delete the fork first",
                      row.id);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}
