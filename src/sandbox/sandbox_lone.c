/* SPDX-License-Identifier: MIT
 *
 * sandbox_lone.c - lone cells: a file-only cell for one operation on a disk file that belongs to no
 * sandbox (a volume).
 *
 *     start -> the operation -> OP_DONE -> suspend -> SUSPENDED -> GONE -> over(), then done()
 *
 * The caller of dz_file_op_lone() must keep other processes from writing to the file until over().
 * over() is called when the cell's process has ended, so the file is free then: before done(), and
 * also if the operation is canceled. A canceled operation's cell is killed; what it has not
 * committed is lost, as after a crash.
 */
#include "sandbox/sandbox_int.h"

#include <poll.h>

enum {
    TURN = 64,            /* events handled in one turn of the loop */
    LOCK_WAIT_MS = 10000, /* time to wait for the file's lock while the previous cell exits */
    LEAVE_MS = 60000,     /* a cell that has not ended so long after its operation is killed */
};

struct dz_lone {
    struct dz_list link; /* in dz_sandboxes.lone */
    struct dz_sandboxes *all;
    struct dz_file_op *op; /* NULL: it was canceled */
    const struct dz_cell_ops *ops;
    struct dz_cell *cell;
    struct dz_poll *poll;
    int polled; /* the descriptor that poll watches */
    struct dz_timer *late;
    bool in_turn, ended; /* ended: OP_DONE came, with the following */
    int code;
    uint64_t count;
    struct dz_err err;
    void (*over)(void *arg);
    void *arg;
};

struct dz_cell *dz_lone_cell(const struct dz_lone *l, const struct dz_cell_ops **ret_ops)
{
    *ret_ops = l->ops;
    return l->cell;
}

static void lone_free(struct dz_lone *l)
{
    dz_list_remove(&l->link);
    dz_timer_free(l->late);
    dz_poll_free(l->poll);
    if (l->cell)
        l->ops->free(l->cell);
    if (l->over)
        l->over(l->arg);
    dz_free(l);
}

/* The cell has ended, or must end now. */
static void finish(struct dz_lone *l, int code, const char *text)
{
    struct dz_file_op *op = l->op;
    struct dz_sandboxes *all = l->all;
    struct dz_why why = {0};
    const uint64_t count = l->count;
    if (l->ended)
        code = l->code;
    if (code < 0)
        (void)dz_why(&why, code, NULL, "%s", l->ended ? l->err.msg : text);
    lone_free(l);
    if (op)
        dz_file_op_lone_over(op, code < 0 ? &why : NULL, count);
    dz_sandboxes_drain_check(all);
}

static void on_late(void *arg)
{
    finish(arg, DZ_ETIMEOUT, "the process that has the volume's file did not end");
}

static void take(struct dz_lone *l, const struct dz_cell_event *event)
{
    struct dz_file_op *op = l->op;
    if (event->type == DZ_CELL_OP_DATA && op->ops->data) {
        op->ops->data(op->arg, event->data, event->size);
    } else if (event->type == DZ_CELL_OP_DATA) {
        (void)l->ops->file->ack(l->cell, op->handle, event->size, NULL);
    } else if (event->type == DZ_CELL_OP_WINDOW_OPEN && op->ops->room) {
        op->ops->room(op->arg);
    } else if (event->type == DZ_CELL_OP_DONE) {
        l->ended = true;
        l->code = event->code < 0 ? event->code : 0;
        l->count = event->count;
        if (l->code < 0)
            (void)dz_fail(&l->err, l->code, "%s", event->text);
        op->handle = 0;
        dz_timer_after(l->late, LEAVE_MS);
        if (l->ops->suspend(l->cell, false, NULL) < 0)
            dz_timer_after(l->late, 0);
    }
}

/* Send what is queued for the cell. When the socket has taken all of it, the operation may send
 * more. */
static void flush(struct dz_lone *l)
{
    struct dz_file_op *op = l->op;
    /* receive() will report a failure */
    if (l->ops->flush(l->cell, NULL) < 0 || l->ops->want(l->cell) & POLLOUT)
        return;
    if (op->handle && op->ops->room)
        op->ops->room(op->arg);
}

static void on_lone(void *arg, int events)
{
    struct dz_lone *l = arg;
    struct dz_cell_event event;
    struct dz_err err;
    int rc = 0;
    bool here = true;
    l->in_turn = true;
    if (events & DZ_POLL_WRITE)
        flush(l);
    for (int i = 0; here && l->op && (i < TURN || l->ops->pending(l->cell)); i++) {
        rc = l->ops->receive(l->cell, &event, &err);
        if (rc == 1 && event.type == DZ_CELL_GONE)
            rc = dz_fail(&err, DZ_EIO, "the process that had the volume's file ended");
        if (rc == 1 && event.type == DZ_CELL_FAILED)
            rc = dz_fail(&err, event.code, "%s", event.text);
        if (rc == 1)
            take(l, &event);
        here = rc == 1;
    }
    l->in_turn = false;
    if (!l->op)
        lone_free(l);
    else if (rc < 0)
        finish(l, dz_sandbox_cell_code(rc), err.msg);
    else
        dz_lone_watch(l);
}

void dz_lone_watch(struct dz_lone *l)
{
    if (l->in_turn)
        return;
    dz_sandbox_poll_again(l->all, &l->poll, &l->polled, l->ops->fd(l->cell), on_lone, l);
    short want = l->ops->want(l->cell);
    int events = (want & POLLIN ? DZ_POLL_READ : 0) | (want & POLLOUT ? DZ_POLL_WRITE : 0);
    if (dz_poll_set(l->poll, events, NULL) < 0)
        dz_timer_after(l->late, 0);
}

void dz_lone_cancel(struct dz_lone *l)
{
    l->op = NULL;
    if (!l->in_turn)
        lone_free(l);
}

int dz_lone_start(struct dz_sandboxes *all, const struct dz_lone_opts *opts, struct dz_file_op *op,
                  struct dz_lone **ret_lone, struct dz_err *err)
{
    const struct dz_sandbox_runtime *runtime = NULL;
    struct dz_cell_start start = opts->start;
    for (size_t i = 0; i < DZ_SANDBOX_RUNTIMES_MAX && !runtime; i++)
        if (all->opts.runtimes[i].ops) /* each kind of cells can open a file */
            runtime = &all->opts.runtimes[i];
    if (!runtime)
        return dz_fail(err, DZ_EUNSUPPORTED, "open the volume: no cells run here");
    if (all->draining)
        return dz_fail(err, DZ_EBUSY, "open the volume: the daemon is stopping");
    if (dz_list_count(&all->lone) >= DZ_LONE_MAX)
        return dz_fail(err, DZ_EBUSY,
                       "open the volume: %d operations on volumes run already; try again",
                       DZ_LONE_MAX);
    struct dz_lone *l = dz_zalloc(sizeof *l);
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "open the volume: out of memory");
    *l = (struct dz_lone){.all = all, .op = op, .ops = runtime->ops, .arg = opts->arg};
    dz_list_init(&l->link);
    dz_list_push_back(&all->lone, &l->link);
    start.volume = true;
    start.lock_wait_ms = LOCK_WAIT_MS;
    int rc = dz_timer_new(all->loop, on_late, l, &l->late, err);
    if (rc == 0)
        rc = l->ops->start(runtime->pool, &start, &l->cell, err);
    if (rc == 0)
        l->polled = l->ops->fd(l->cell);
    if (rc == 0)
        rc = dz_poll_new(all->loop, l->polled, on_lone, l, &l->poll, err);
    if (rc == 0)
        rc = l->ops->limits(l->cell, opts->keep_free, opts->limit_bytes, err);
    if (rc == 0)
        rc = l->ops->file->start(l->cell, &op->op, &op->handle, err);
    if (rc < 0) {
        lone_free(l);
        return rc;
    }
    l->over = opts->over;
    *ret_lone = l;
    dz_lone_watch(l);
    return 0;
}

void dz_lones_end(struct dz_sandboxes *all)
{
    while (!dz_list_empty(&all->lone))
        finish(DZ_LIST_FIRST(struct dz_lone, &all->lone, link), DZ_EBUSY, "the daemon is stopping");
}
