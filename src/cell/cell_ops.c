/* SPDX-License-Identifier: MIT
 *
 * cell_ops.c - run operations: their fibers, windows and final results.
 */
#include "cell/cell_ops.h"

#include "base/mem.h"
#include "cell/cell_serve.h"
#include "linux/linux_inspect.h"
#include "machine/machine_inspect.h"
#include "vfs/vfs_at.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
    RECORDS_MAX = 1 << 20, /* bytes of one record, and of one frame of records */
    HELD_MAX = 65536,
};

static dz_op_fn *const functions[DZ_CELL_OP_TYPES] = {
    [DZ_CELL_OP_STAT] = dz_op_stat,     [DZ_CELL_OP_LIST] = dz_op_list,
    [DZ_CELL_OP_READ] = dz_op_read,     [DZ_CELL_OP_WRITE] = dz_op_write,
    [DZ_CELL_OP_MKDIR] = dz_op_mkdir,   [DZ_CELL_OP_MOVE] = dz_op_move,
    [DZ_CELL_OP_REMOVE] = dz_op_remove, [DZ_CELL_OP_TAR_OUT] = dz_op_tar_out,
    [DZ_CELL_OP_TAR_IN] = dz_op_tar_in, [DZ_CELL_OP_WATCH] = dz_op_watch,
    [DZ_CELL_OP_SQL] = dz_op_sql,       [DZ_CELL_OP_EXECS] = dz_op_execs,
    [DZ_CELL_OP_EXEC] = dz_op_exec,     [DZ_CELL_OP_OUTPUT] = dz_op_output,
    [DZ_CELL_OP_STATS] = dz_op_stats,   [DZ_CELL_OP_USAGE] = dz_op_usage,
};

struct dz_ops *dz_ops_new(struct dz_serve *s)
{
    struct dz_ops *o = dz_zalloc(sizeof *o);
    if (!o)
        return NULL;
    o->serve = s;
    o->held.max = HELD_MAX;
    dz_list_init(&o->all);
    return o;
}

static void send_frame(const struct dz_ops *o, uint32_t handle, enum dz_frame_type type,
                       uint64_t value, const char *text)
{
    struct dz_frame f = {.type = type, .stream = handle, .value = value};
    f.size = text ? (uint32_t)strlen(text) : 0;
    (void)dz_out_add(&o->serve->out, &f, text, true);
}

/* --- for operations ------------------------------------------------------------------ */

struct dz_vfs *dz_op_vfs(const struct dz_op *op)
{
    return op->ops->serve->machine.vfs;
}

uint64_t dz_op_top(const struct dz_op *op)
{
    return op->ops->serve->start.volume ? DZ_VFS_WORKSPACE : DZ_VFS_ROOT;
}

struct dz_vfs_path dz_op_path(const struct dz_op *op, const char *path)
{
    return (struct dz_vfs_path){dz_op_top(op), path};
}

int dz_op_resolve(const struct dz_op *op, uint64_t *ret_ino)
{
    const struct dz_vfs_walk walk = {.root = dz_op_top(op), .start = dz_op_top(op)};
    struct dz_vfs_walked end;
    int e = dz_vfs_walk(dz_op_vfs(op), &walk, op->path, &end);
    if (e == 0 && end.ino == 0)
        e = -ENOENT;
    if (e == 0)
        *ret_ino = end.ino;
    return e;
}

int dz_op_failed(const struct dz_op *op, const char *what, int e, struct dz_err *err)
{
    return dz_fail_sys(err, e < 0 ? -e : e, "%s %s", what, op->path);
}

int dz_op_yield(struct dz_op *op, bool wait, struct dz_err *err)
{
    op->waits = wait && !op->cancelled;
    if (!op->cancelled)
        dz_fiber_yield(op->fiber);
    return op->cancelled ? dz_fail(err, DZ_ECANCELED, "canceled") : 0;
}

static int emit_frame(struct dz_op *op, const uint8_t *p, size_t n, struct dz_err *err)
{
    struct dz_frame f = {.type = DZ_FRAME_OP_DATA, .stream = op->handle, .size = (uint32_t)n};
    for (;;) {
        bool open = op->sent - op->acked < DZ_CELL_OP_WINDOW;
        int rc = op->cancelled ? dz_fail(err, DZ_ECANCELED, "canceled") : 0;
        if (rc == 0 && open)
            rc = dz_out_add(&op->ops->serve->out, &f, p, false);
        if (rc == DZ_EIO)
            rc = dz_fail(err, rc, "the host closed its socket");
        if (rc != 0) {
            op->sent += rc > 0 ? n : 0;
            return rc < 0 ? rc : 0;
        }
        op->ops->blocked |= open;
        rc = dz_op_yield(op, true, err);
        if (rc < 0)
            return rc;
    }
}

int dz_op_emit(struct dz_op *op, const void *data, size_t size, struct dz_err *err)
{
    const uint8_t *p = data;
    int rc = 0;
    for (size_t n; rc == 0 && size > 0; p += n, size -= n) {
        n = size < DZ_CELL_FRAME_MAX ? size : DZ_CELL_FRAME_MAX;
        rc = emit_frame(op, p, n, err);
    }
    return rc;
}

int dz_op_emit_records(struct dz_op *op, struct dz_err *err)
{
    int rc =
        op->records.len ? emit_frame(op, (const uint8_t *)op->records.p, op->records.len, err) : 0;
    dz_buf_reset(&op->records);
    return rc;
}

static size_t record_size(size_t fixed_size, const struct dz_op_part parts[3])
{
    return sizeof(struct dz_op_record) + fixed_size + parts[0].size + parts[1].size + parts[2].size;
}

bool dz_op_record_fits(const struct dz_op *op, size_t fixed_size, const struct dz_op_part parts[3])
{
    return op->records.len + record_size(fixed_size, parts) <= DZ_CELL_FRAME_MAX;
}

int dz_op_record(struct dz_op *op, enum dz_op_record_kind kind, const void *fixed,
                 size_t fixed_size, const struct dz_op_part parts[3], struct dz_err *err)
{
    struct dz_op_record r = {.kind = (uint16_t)kind, .fixed = (uint16_t)fixed_size};
    for (int i = 0; i < 3; i++)
        r.size += (uint32_t)parts[i].size;
    assert(record_size(fixed_size, parts) <= DZ_CELL_FRAME_MAX);
    int rc = dz_op_record_fits(op, fixed_size, parts) ? 0 : dz_op_emit_records(op, err);
    if (rc < 0)
        return rc;
    dz_buf_add(&op->records, &r, sizeof r);
    dz_buf_add(&op->records, fixed, fixed_size);
    for (int i = 0; i < 3; i++)
        dz_buf_add(&op->records, parts[i].data, parts[i].size);
    return op->records.err ? dz_fail(err, op->records.err, "answer: out of memory") : 0;
}

int64_t dz_op_input(struct dz_op *op, void *data, size_t size, struct dz_err *err)
{
    while (op->len == 0 && !op->eof) {
        int rc = dz_op_yield(op, true, err);
        if (rc < 0)
            return rc;
    }
    size_t n = DZ_CELL_OP_WINDOW - op->head;
    n = n < op->len ? n : op->len;
    n = n < size ? n : size;
    if (op->cancelled)
        return dz_fail(err, DZ_ECANCELED, "canceled");
    if (n == 0)
        return 0;
    memcpy(data, op->input + op->head, n);
    op->head = (op->head + n) % DZ_CELL_OP_WINDOW;
    op->len -= n;
    send_frame(op->ops, op->handle, DZ_FRAME_OP_WINDOW, n, NULL);
    return (int64_t)n;
}

/* --- what a sleeping machine has open ---------------------------------------------------- */

static void hold(void *arg, uint64_t ino)
{
    struct dz_ops *o = arg;
    if (dz_vfs_ref(o->serve->machine.vfs, ino) == 0 && dz_vec_push(&o->held, ino) < 0)
        dz_vfs_unref(o->serve->machine.vfs, ino);
}

int dz_op_hold(struct dz_op *op, struct dz_err *err)
{
    struct dz_ops *o = op->ops;
    struct dz_machine *m = o->serve->machine.keep;
    if (o->holds || o->serve->up || dz_machine_found(m) != DZ_MACHINE_ASLEEP)
        return 0;
    o->holds = true;
    size_t size;
    const void *native = dz_machine_native_bytes(m, &size);
    int rc = dz_machine_inspect_inodes(m, hold, o, err);
    if (rc == 0)
        rc = dz_linux_inspect_inodes(native, size, hold, o, err);
    return rc == 0 && o->held.err ? dz_fail(err, o->held.err, "inspect the sleeping machine") : rc;
}

void dz_ops_let_go(struct dz_ops *o)
{
    for (size_t i = 0; i < o->held.n; i++)
        dz_vfs_unref(o->serve->machine.vfs, o->held.p[i]);
    dz_vec_release(&o->held);
}

/* --- one operation -------------------------------------------------------------------------- */

/* The machine must see what a file operation changes. */
static int check_places(const struct dz_op *op, struct dz_err *err)
{
    bool changes = op->type == DZ_CELL_OP_WRITE || op->type == DZ_CELL_OP_MKDIR ||
                   op->type == DZ_CELL_OP_MOVE || op->type == DZ_CELL_OP_REMOVE ||
                   op->type == DZ_CELL_OP_TAR_IN;
    int rc = changes ? dz_op_check_place(op, op->path, err) : 0;
    return rc == 0 && op->type == DZ_CELL_OP_MOVE ? dz_op_check_place(op, op->to, err) : rc;
}

static void run(void *arg)
{
    struct dz_op *op = arg;
    struct dz_err err = {0};
    int rc = op->cancelled ? dz_fail(&err, DZ_ECANCELED, "canceled") : check_places(op, &err);
    if (rc == 0 && op->ops->serve->up)
        rc = dz_kernel_sync(op->ops->serve->machine.kernel, &err);
    if (rc == 0)
        rc = functions[op->type](op, &err);
    if (rc == 0)
        rc = dz_op_emit_records(op, &err);
    if (rc == 0)
        rc = dz_cell_machine_commit(&op->ops->serve->machine, &err);
    send_frame(op->ops, op->handle, DZ_FRAME_OP_DONE, rc < 0 ? (uint64_t)(int64_t)rc : op->count,
               rc < 0 ? err.msg : NULL);
}

static void drop(struct dz_op *op)
{
    dz_list_remove(&op->link);
    op->ops->count--;
    dz_fiber_free(op->fiber);
    dz_buf_release(&op->strings);
    dz_buf_release(&op->records);
    dz_free(op->input);
    dz_free(op);
}

static void resume(struct dz_op *op)
{
    op->waits = false;
    if (!dz_fiber_resume(op->fiber))
        drop(op);
}

static bool has_input(enum dz_cell_op_type type)
{
    return type == DZ_CELL_OP_WRITE || type == DZ_CELL_OP_TAR_IN;
}

static int fill(struct dz_op *op, const struct dz_frame *f, const uint8_t *payload,
                struct dz_err *err)
{
    struct dz_cursor c;
    if (f->value == 0 || f->value >= DZ_CELL_OP_TYPES || f->size < sizeof op->args)
        return dz_fail(err, DZ_EINVAL, "unknown operation");
    op->type = (enum dz_cell_op_type)f->value;
    memcpy(&op->args, payload, sizeof op->args);
    dz_buf_add(&op->strings, payload + sizeof op->args, f->size - sizeof op->args);
    c = (struct dz_cursor){op->strings.p, op->strings.p + op->strings.len};
    op->path = dz_cursor_string(&c);
    op->to = op->path ? dz_cursor_string(&c) : NULL;
    op->text = op->to ? dz_cursor_string(&c) : NULL;
    if (!op->text || strlen(op->path) >= DZ_VFS_PATH_MAX || strlen(op->to) >= DZ_VFS_PATH_MAX)
        return dz_fail(err, DZ_EINVAL, "the operation is malformed, or its path is too long");
    if ((op->type <= DZ_CELL_OP_WATCH || op->type == DZ_CELL_OP_USAGE) && op->path[0] != '/')
        return dz_fail(err, DZ_EINVAL, "%s: a path in a sandbox must begin with /", op->path);
    if (op->type == DZ_CELL_OP_MOVE && op->to[0] != '/')
        return dz_fail(err, DZ_EINVAL, "%s: a path in a sandbox must begin with /", op->to);
    if (op->ops->count > DZ_CELL_OPS_MAX)
        return dz_fail(err, DZ_ELIMIT, "%d operations run already, and more are not allowed",
                       DZ_CELL_OPS_MAX);
    op->fiber = dz_fiber_new(run, op);
    if (has_input(op->type))
        op->input = dz_alloc(DZ_CELL_OP_WINDOW);
    if (!op->fiber || (has_input(op->type) && !op->input))
        return dz_fail(err, DZ_ENOMEM, "begin an operation: out of memory");
    return 0;
}

static void begin(struct dz_ops *o, const struct dz_frame *f, const uint8_t *payload)
{
    struct dz_err err = {0};
    struct dz_op *op = dz_zalloc(sizeof *op);
    int rc = op ? 0 : dz_fail(&err, DZ_ENOMEM, "begin an operation: out of memory");
    if (op) {
        op->ops = o;
        op->handle = f->stream;
        op->strings = (struct dz_buf)DZ_BUF_INIT(DZ_CELL_FRAME_MAX);
        op->records = (struct dz_buf)DZ_BUF_INIT(RECORDS_MAX);
        dz_list_init(&op->link);
        dz_list_push_back(&o->all, &op->link);
        o->count++;
        rc = fill(op, f, payload, &err);
    }
    if (rc < 0) {
        send_frame(o, f->stream, DZ_FRAME_OP_DONE, (uint64_t)(int64_t)rc, err.msg);
        if (op)
            drop(op);
        return;
    }
    if (op->input)
        send_frame(o, op->handle, DZ_FRAME_OP_WINDOW, DZ_CELL_OP_WINDOW, NULL);
}

static void add_input(struct dz_op *op, const uint8_t *p, size_t n)
{
    if (!op->input || n > DZ_CELL_OP_WINDOW - op->len || op->eof)
        return; /* a host that exceeds the window loses the bytes */
    size_t at = (op->head + op->len) % DZ_CELL_OP_WINDOW;
    size_t first = DZ_CELL_OP_WINDOW - at < n ? DZ_CELL_OP_WINDOW - at : n;
    memcpy(op->input + at, p, first);
    memcpy(op->input, p + first, n - first);
    op->len += n;
}

void dz_ops_frame(struct dz_ops *o, const struct dz_frame *f, const uint8_t *payload)
{
    if (f->type == DZ_FRAME_OP) {
        begin(o, f, payload);
        return;
    }
    DZ_LIST_FOREACH(struct dz_op, op, &o->all, link) {
        if (op->handle != f->stream)
            continue;
        if (f->type == DZ_FRAME_OP_INPUT)
            add_input(op, payload, f->size);
        else if (f->type == DZ_FRAME_OP_END)
            op->eof = true;
        else if (f->type == DZ_FRAME_OP_CANCEL)
            op->cancelled = true;
        else if (f->type == DZ_FRAME_OP_ACK && f->value <= op->sent - op->acked)
            op->acked += f->value;
        op->waits = false;
    }
}

bool dz_ops_turn(struct dz_ops *o)
{
    bool again = false;
    if (o->blocked) /* an operation waits for the socket */
        DZ_LIST_FOREACH(struct dz_op, op, &o->all, link)
            op->waits = false;
    o->blocked = false;
    bool changed = o->changed;
    o->changed = false;
    DZ_LIST_FOREACH(struct dz_op, op, &o->all, link) {
        if (changed && op->type == DZ_CELL_OP_WATCH)
            op->waits = false;
        if (!op->waits)
            resume(op);
    }
    DZ_LIST_FOREACH(struct dz_op, op, &o->all, link)
        again |= !op->waits;
    return again || o->changed; /* an operation that just ran changed files */
}

void dz_ops_cancel(struct dz_ops *o)
{
    DZ_LIST_FOREACH(struct dz_op, op, &o->all, link) {
        op->cancelled = true;
        resume(op);
    }
    assert(dz_list_empty(&o->all));
}
