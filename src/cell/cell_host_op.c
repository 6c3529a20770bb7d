/* SPDX-License-Identifier: MIT
 *
 * cell_host_op.c - the host's side of operations on files.
 */
#include "cell/cell_host.h"
#include "cell/cell_op.h"

#include <string.h>

static struct dz_open_op *find(const struct dz_cell *c, uint32_t op)
{
    for (size_t i = 0; i < c->ops.n; i++)
        if (c->ops.p[i].op == op)
            return &c->ops.p[i];
    return NULL;
}

static void close_one(struct dz_cell *c, uint32_t op)
{
    const struct dz_open_op *o = find(c, op);
    if (o)
        dz_vec_remove(&c->ops, (size_t)(o - c->ops.p));
}

static int send_about(struct dz_cell *c, uint32_t op, enum dz_frame_type type, uint64_t value,
                      struct dz_err *err)
{
    struct dz_frame f = {.type = type, .stream = op, .value = value};
    if (!find(c, op))
        return dz_fail(err, DZ_ENOENT, "the operation has ended");
    return dz_cell_send(c, &f, NULL, err);
}

static void put(struct dz_buf *b, const char *s)
{
    dz_buf_add(b, s ? s : "", s ? strlen(s) + 1 : 1);
}

int dz_cell_op_start(struct dz_cell *c, const struct dz_cell_op *o, uint32_t *ret_op,
                     struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf body = DZ_BUF_INIT(DZ_CELL_FRAME_MAX);
    const struct dz_op_args args = {.offset = o->offset,
                                    .length = o->length,
                                    .limit = o->limit,
                                    .mode = o->mode,
                                    .depth = o->depth,
                                    .flags = o->flags};
    if (c->suspending || c->ended)
        return dz_fail(err, DZ_ESTATE, "the sandbox is being suspended");
    if (o->text && strlen(o->text) > DZ_CELL_OP_TEXT_MAX)
        return dz_fail(err, DZ_ELIMIT, "the query has %zu bytes; at most %d are allowed",
                       strlen(o->text), DZ_CELL_OP_TEXT_MAX);
    dz_buf_add(&body, &args, sizeof args);
    put(&body, o->path);
    put(&body, o->to);
    put(&body, o->text);
    if (body.err)
        return dz_fail(err, body.err, "a path is too long for a sandbox");
    uint32_t op = c->next_op + 1;
    if (dz_vec_push(&c->ops, ((struct dz_open_op){.op = op})) < 0)
        return dz_fail(err, c->ops.err, "begin an operation: %zu operations run already", c->ops.n);
    const struct dz_frame f = {
        .type = DZ_FRAME_OP, .stream = op, .value = (uint64_t)o->type, .size = (uint32_t)body.len};
    int rc = dz_cell_send(c, &f, body.p, err);
    if (rc < 0) {
        close_one(c, op);
        return rc;
    }
    *ret_op = c->next_op = op;
    return 0;
}

size_t dz_cell_op_window(const struct dz_cell *c, uint32_t op)
{
    const struct dz_open_op *o = find(c, op);
    return o && dz_list_empty(&c->queue) ? o->window : 0;
}

int64_t dz_cell_op_send(struct dz_cell *c, uint32_t op, const void *data, size_t size,
                        struct dz_err *err)
{
    struct dz_open_op *o = find(c, op);
    if (!o)
        return dz_fail(err, DZ_ENOENT, "the operation has ended");
    size_t n = dz_frame_piece(dz_cell_op_window(c, op), size);
    if (n == 0)
        return 0;
    struct dz_frame f = {.type = DZ_FRAME_OP_INPUT, .stream = op, .size = (uint32_t)n};
    int rc = dz_cell_send(c, &f, data, err);
    if (rc < 0)
        return rc;
    o->window -= n;
    return (int64_t)n;
}

int dz_cell_op_end(struct dz_cell *c, uint32_t op, struct dz_err *err)
{
    return send_about(c, op, DZ_FRAME_OP_END, 0, err);
}

int dz_cell_op_cancel(struct dz_cell *c, uint32_t op, struct dz_err *err)
{
    return send_about(c, op, DZ_FRAME_OP_CANCEL, 0, err);
}

int dz_cell_op_ack(struct dz_cell *c, uint32_t op, size_t bytes, struct dz_err *err)
{
    return find(c, op) && !c->ended ? send_about(c, op, DZ_FRAME_OP_ACK, bytes, err) : 0;
}

/* --- frames from the cell ------------------------------------------------------------------- */

int dz_cell_op_event(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                     struct dz_err *err)
{
    struct dz_open_op *o = find(c, f->stream);
    int64_t value = (int64_t)f->value;
    e->op = f->stream;
    e->exec = 0;
    e->stream = 0;
    if (!o)
        return dz_cell_nonsense(f, err);
    if (f->type == DZ_FRAME_OP_DATA) {
        e->type = DZ_CELL_OP_DATA;
        e->count = 0;
        return 1;
    }
    if (f->type == DZ_FRAME_OP_WINDOW) {
        if (f->value > DZ_CELL_OP_WINDOW || o->window + f->value > DZ_CELL_OP_WINDOW)
            return dz_cell_nonsense(f, err);
        o->window += (size_t)f->value;
        e->type = DZ_CELL_OP_WINDOW_OPEN;
        return 1;
    }
    if (value < -DZ_CELL_CODE_MAX)
        return dz_cell_nonsense(f, err);
    e->type = DZ_CELL_OP_DONE;
    e->code = value < 0 ? (int)value : 0;
    e->count = value < 0 ? 0 : f->value;
    e->text = dz_cell_sentence(c, 0);
    close_one(c, f->stream);
    return 1;
}
