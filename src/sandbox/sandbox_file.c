/* SPDX-License-Identifier: MIT
 *
 * sandbox_file.c - operations on a sandbox's files. The cell that has the file performs them: the
 * machine's if the sandbox is active, else a file-only cell.
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

enum {
    TRIES = 3,
};

static void op_free(struct dz_file_op *op)
{
    dz_loop_task_cancel(&op->over);
    dz_list_remove(&op->link);
    dz_timer_free(op->limit);
    for (size_t i = 0; i < DZ_ARRAY_LEN(op->texts); i++)
        dz_free(op->texts[i]);
    dz_free(op);
}

static void on_over(void *arg)
{
    struct dz_file_op *op = arg;
    const struct dz_file_op_ops *ops = op->ops;
    const struct dz_why why = op->why;
    bool failed = op->failed;
    uint64_t count = op->count;
    void *to = op->arg;
    op_free(op);
    ops->done(to, failed ? &why : NULL, count);
}

/* End an operation: unlink it from its cell and sandbox now, and post its callback. */
static void op_done(struct dz_file_op *op, const struct dz_why *why, uint64_t count)
{
    struct dz_sandbox *s = op->sandbox;
    dz_list_remove(&op->link);
    op->sandbox = NULL;
    op->handle = 0;
    op->parked = false;
    if (op->limit)
        dz_timer_stop(op->limit);
    if (op->ops) {
        op->failed = why != NULL;
        if (why)
            op->why = *why;
        op->count = count;
        dz_loop_post(op->all->loop, &op->over);
    } else {
        op_free(op);
    }
    if (s) {
        dz_sandbox_files_over(s);
        dz_sandbox_unneeded(s);
    }
}

static void op_fail(struct dz_file_op *op, int code, const char *text)
{
    struct dz_why why = {0};
    (void)dz_why(&why, code, NULL, "%s", text);
    op_done(op, &why, 0);
}

/* A file watch outlives its cell: park it for the sandbox's next cell. */
static bool park(struct dz_file_op *op)
{
    struct dz_sandbox *s = op->sandbox;
    if (op->op.type != DZ_CELL_OP_WATCH || !op->ops)
        return false;
    op->handle = 0;
    op->cut = false;
    op->parked = true;
    dz_list_remove(&op->link);
    dz_list_push_back(&s->parked, &op->link);
    return true;
}

static void on_reached(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result);

/* The sandbox is being suspended. If the operation has moved no bytes yet, start it again in the
 * next cell. */
static bool again(struct dz_file_op *op, int code)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why;
    struct dz_sandbox *s = op->sandbox;
    const struct dz_acquire_opts files = {.need = DZ_NEED_FILES,
                                          .fn = on_reached,
                                          .arg = op,
                                          .began_us = op->began_us,
                                          .writes = op->writes};
    if (code != DZ_ECANCELED || !op->ops || op->moved || ++op->tries > TRIES ||
        dz_registry_get(s->all->registry, s->id, &row, NULL) < 0)
        return false;
    op->handle = 0;
    op->cut = false;
    op->sandbox = NULL;
    dz_list_remove(&op->link);
    if (op->limit)
        dz_timer_stop(op->limit);
    if (dz_sandbox_acquire(s->all, &row, &files, &op->acquire, &why) == 0)
        return true;
    op->sandbox = s;
    dz_list_push_back(&s->file_ops, &op->link);
    return false;
}

static struct dz_file_op *op_of(struct dz_sandbox *s, uint32_t handle)
{
    DZ_LIST_FOREACH(struct dz_file_op, op, &s->file_ops, link)
        if (op->handle == handle)
            return op;
    return NULL;
}

void dz_file_op_event(struct dz_sandbox *s, const struct dz_cell_event *event)
{
    struct dz_file_op *op = op_of(s, event->op);
    if (!op)
        return;
    if (event->type == DZ_CELL_OP_DATA) {
        op->moved = true;
        if (op->ops && op->ops->data)
            op->ops->data(op->arg, event->data, event->size);
        else
            (void)s->ops->file->ack(s->cell, op->handle, event->size, NULL);
    } else if (event->type == DZ_CELL_OP_WINDOW_OPEN) {
        if (op->ops && op->ops->room)
            op->ops->room(op->arg);
    } else if (event->type == DZ_CELL_OP_DONE) {
        op->handle = 0;
        if (event->code == DZ_ECANCELED && park(op)) {
            /* The cell may stay, because a wake came in between, or because it could not be
             * suspended. */
            if (s->phase == DZ_PHASE_UP || s->phase == DZ_PHASE_STARTING)
                dz_file_op_resume(s);
            else
                dz_sandbox_files_over(s);
            return;
        }
        if (event->code < 0 && again(op, event->code)) {
            dz_sandbox_files_over(s);
            return;
        }
        if (event->code < 0)
            op_fail(op, event->code, event->text);
        else
            op_done(op, NULL, event->count);
    }
}

void dz_file_op_room(struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(struct dz_file_op, op, &s->file_ops, link)
        if (op->handle && op->ops && op->ops->room)
            op->ops->room(op->arg);
}

void dz_file_op_down(struct dz_sandbox *s, int code, const char *text)
{
    while (!dz_list_empty(&s->file_ops)) {
        struct dz_file_op *op = DZ_LIST_FIRST(struct dz_file_op, &s->file_ops, link);
        if (!park(op) && !again(op, code))
            op_fail(op, code, text);
    }
}

void dz_file_op_gone(struct dz_sandbox *s)
{
    while (!dz_list_empty(&s->parked))
        op_fail(DZ_LIST_FIRST(struct dz_file_op, &s->parked, link), DZ_EGONE,
                "the sandbox was deleted");
    dz_sandbox_unneeded(s);
}

bool dz_file_op_busy(const struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(struct dz_file_op, op, &s->file_ops, link)
        if (op->op.type != DZ_CELL_OP_WATCH)
            return true;
    return false;
}

void dz_file_op_cut(struct dz_sandbox *s, bool all)
{
    DZ_LIST_FOREACH(struct dz_file_op, op, &s->file_ops, link) {
        if (!op->handle || op->cut || (!all && op->op.type != DZ_CELL_OP_WATCH))
            continue;
        op->cut = true;
        (void)s->ops->file->cancel(s->cell, op->handle, NULL);
    }
    dz_sandbox_watch_cell(s);
}

/* --- starting ---------------------------------------------------------------------------- */

static bool is_coming_up(const struct dz_sandbox *s)
{
    return s->phase == DZ_PHASE_OPENING || s->phase == DZ_PHASE_STARTING;
}

/* The client has waited for its full time, and the cell is still not up. */
static void on_limit(void *arg)
{
    struct dz_file_op *op = arg;
    const struct dz_file_op_ops *ops = op->ops;
    struct dz_why why = {0};
    if (!ops || !op->handle || !is_coming_up(op->sandbox))
        return;
    (void)dz_files_late(op->sandbox->all, op->sandbox->id, &why);
    void *to = op->arg;
    dz_file_op_cancel(op);
    ops->done(to, &why, 0);
}

/* Limit the wait for a cell that is not up yet. The time spent on the acquire counts. */
static int limit(struct dz_file_op *op, const struct dz_sandbox *s, struct dz_err *err)
{
    struct dz_sandboxes *all = s->all;
    if (!is_coming_up(s) || op->op.type == DZ_CELL_OP_WATCH)
        return 0;
    int rc = op->limit ? 0 : dz_timer_new(all->loop, on_limit, op, &op->limit, err);
    int64_t left = all->files.wait_ms - (dz_clock_mono_ns() / 1000 - op->began_us) / 1000;
    if (rc == 0)
        dz_timer_after(op->limit, left > 0 ? left : 0);
    return rc;
}

static void begin(struct dz_file_op *op, struct dz_sandbox *s)
{
    struct dz_err err;
    op->sandbox = s;
    dz_list_push_back(&s->file_ops, &op->link);
    int rc = limit(op, s, &err);
    if (rc == 0)
        rc = dz_sandbox_cell_code(s->ops->file->start(s->cell, &op->op, &op->handle, &err));
    if (rc < 0) {
        op_fail(op, rc, err.msg);
        return;
    }
    if (op->ended && s->ops->file->end(s->cell, op->handle, &err) < 0)
        /* ignored here, because the end of the cell reports the failure */
        dz_log(DZ_LOG_WARN, "op_failed", dz_log_err(&err));
    dz_sandbox_watch_cell(s);
    if (!op->ended && op->ops->room)
        op->ops->room(op->arg);
}

void dz_file_op_resume(struct dz_sandbox *s)
{
    struct dz_list parked = DZ_LIST_INIT(parked);
    dz_list_splice_back(&parked, &s->parked);
    while (!dz_list_empty(&parked)) {
        struct dz_file_op *op = DZ_LIST_FIRST(struct dz_file_op, &parked, link);
        dz_list_remove(&op->link);
        op->parked = false;
        begin(op, s);
    }
}

static void on_reached(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct dz_file_op *op = arg;
    op->acquire = NULL;
    if (result->code < 0)
        op_done(op, result->why, 0);
    else
        begin(op, s);
}

static int own(struct dz_file_op *op, int i, const char **text)
{
    if (!*text)
        return 0;
    op->texts[i] = dz_str_dup(dz_str(*text));
    *text = op->texts[i];
    return op->texts[i] ? 0 : DZ_ENOMEM;
}

static struct dz_file_op *make_op(struct dz_sandboxes *all, const struct dz_cell_op *from,
                                  const struct dz_file_op_ops *ops, void *arg)
{
    struct dz_file_op *op = dz_zalloc(sizeof *op);
    if (!op)
        return NULL;
    op->all = all;
    op->op = *from;
    op->ops = ops;
    op->arg = arg;
    op->began_us = dz_clock_mono_ns() / 1000;
    dz_list_init(&op->link);
    dz_loop_task_init(&op->over, op, on_over, op);
    if (own(op, 0, &op->op.path) < 0 || own(op, 1, &op->op.to) < 0 ||
        own(op, 2, &op->op.text) < 0) {
        op_free(op);
        return NULL;
    }
    return op;
}

int dz_file_op_start(struct dz_sandboxes *all, const struct dz_instance *row,
                     const struct dz_file_op_request *request, struct dz_file_op **ret_op,
                     struct dz_why *why)
{
    struct dz_file_op *o = make_op(all, request->op, request->ops, request->arg);
    if (!o)
        return dz_why(why, DZ_ENOMEM, NULL, "%s: out of memory", row->id);
    dz_sandbox_touch(all, row->id, request->activity);
    *ret_op = o;
    o->writes = request->writes;
    const struct dz_acquire_opts files = {.need = DZ_NEED_FILES,
                                          .fn = on_reached,
                                          .arg = o,
                                          .began_us = o->began_us,
                                          .writes = o->writes};
    int rc = dz_sandbox_acquire(all, row, &files, &o->acquire, why);
    if (rc < 0) {
        *ret_op = NULL;
        op_free(o);
    }
    return rc;
}

int dz_file_op_on(struct dz_sandboxes *all, const char *id,
                  const struct dz_file_op_request *request, struct dz_file_op **ret_op,
                  struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_file_op *o = make_op(all, request->op, request->ops, request->arg);
    struct dz_sandbox *s = dz_sandbox_find(all, id);
    struct dz_err err;
    if (!o)
        return dz_why(why, DZ_ENOMEM, NULL, "%s: out of memory", id);
    if (s && s->cell && s->phase != DZ_PHASE_STOPPING) {
        *ret_op = o;
        begin(o, s);
        return 0;
    }
    const struct dz_acquire_opts files = {
        .need = DZ_NEED_FILES, .fn = on_reached, .arg = o, .began_us = o->began_us};
    int rc = dz_registry_get(all->registry, id, &row, &err);
    rc = rc < 0 ? dz_why_err(why, rc, &err)
                : dz_sandbox_acquire(all, &row, &files, &o->acquire, why);
    if (rc == 0)
        *ret_op = o;
    else
        op_free(o);
    return rc;
}

/* --- what its cell gets -------------------------------------------------------------------- */

void dz_file_op_lone_over(struct dz_file_op *op, const struct dz_why *why, uint64_t count)
{
    op->lone = NULL;
    op_done(op, why, count);
}

int dz_file_op_lone(struct dz_sandboxes *all, const struct dz_lone_opts *opts,
                    const struct dz_file_op_request *request, struct dz_file_op **ret_op,
                    struct dz_why *why)
{
    struct dz_file_op *op = make_op(all, request->op, request->ops, request->arg);
    struct dz_err err;
    if (!op)
        return dz_why(why, DZ_ENOMEM, NULL, "open the volume: out of memory");
    int rc = dz_lone_start(all, opts, op, &op->lone, &err);
    if (rc < 0) {
        op_free(op);
        return dz_why_err(why, rc, &err);
    }
    *ret_op = op;
    return 0;
}

static struct dz_cell *cell_of(const struct dz_file_op *op, const struct dz_cell_ops **ret_ops)
{
    if (op->lone)
        return dz_lone_cell(op->lone, ret_ops);
    *ret_ops = op->sandbox->ops;
    return op->sandbox->cell;
}

static void watch_cell(struct dz_file_op *op)
{
    if (op->lone)
        dz_lone_watch(op->lone);
    else if (op->sandbox)
        dz_sandbox_watch_cell(op->sandbox);
}

int64_t dz_file_op_send(struct dz_file_op *op, const void *data, size_t n)
{
    const struct dz_cell_ops *ops;
    struct dz_err err;
    if (!op->handle)
        return 0;
    struct dz_cell *cell = cell_of(op, &ops);
    int64_t took = ops->file->send(cell, op->handle, data, n, &err);
    op->moved = op->moved || took > 0;
    watch_cell(op);
    return took < 0 ? 0 : took; /* the next event of the cell reports the error */
}

void dz_file_op_end(struct dz_file_op *op)
{
    const struct dz_cell_ops *ops;
    if (op->handle && !op->ended) {
        struct dz_cell *cell = cell_of(op, &ops);
        (void)ops->file->end(cell, op->handle, NULL);
    }
    op->ended = true;
    watch_cell(op);
}

void dz_file_op_ack(struct dz_file_op *op, size_t n)
{
    const struct dz_cell_ops *ops;
    if (!op->handle)
        return;
    struct dz_cell *cell = cell_of(op, &ops);
    (void)ops->file->ack(cell, op->handle, n, NULL);
    watch_cell(op);
}

void dz_file_op_cancel(struct dz_file_op *op)
{
    if (!op)
        return;
    op->ops = NULL;
    if (op->lone) {
        dz_lone_cancel(op->lone);
        op_free(op);
        return;
    }
    if (op->acquire || op->parked || dz_loop_task_posted(&op->over)) {
        struct dz_sandbox *s = op->sandbox;
        dz_acquire_cancel(op->acquire);
        op_free(op);
        if (s)
            dz_sandbox_unneeded(s);
        return;
    }
    if (!op->handle)
        return;
    (void)op->sandbox->ops->file->cancel(op->sandbox->cell, op->handle, NULL);
    dz_sandbox_watch_cell(op->sandbox);
}
