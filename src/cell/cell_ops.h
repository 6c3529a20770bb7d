/* SPDX-License-Identifier: MIT
 *
 * cell_ops.h - operations inside the cell: what runs one (cell_ops.c), and what each
 * does (cell_op_file.c, cell_op_tree.c, cell_op_look.c).
 *
 * An operation is a function in a fiber: it emits, takes, and yields while the host
 * is slow. Between two resumes everything may have changed: only inode numbers and
 * references are kept over them, never a pointer into the disk's caches.
 */
#ifndef DZ_CELL_CELL_OPS_H
#define DZ_CELL_CELL_OPS_H

#include "base/fiber.h"
#include "base/list.h"
#include "cell/cell_execs.h"
#include "cell/cell_op.h"

struct dz_serve;

struct dz_op {
    struct dz_list link;
    struct dz_ops *ops;
    struct dz_fiber *fiber;
    uint32_t handle;
    enum dz_cell_op_type type;
    struct dz_op_args args;
    const char *path, *to, *text; /* in strings */
    struct dz_buf strings;
    struct dz_buf records; /* not sent yet */
    uint64_t sent, took;
    uint8_t *input; /* ring of DZ_CELL_OP_WINDOW bytes, or NULL */
    size_t head, len;
    bool eof, cancelled;
    bool waits; /* for the host, or for a change */
    uint64_t count;
};

struct dz_ops {
    struct dz_serve *serve;
    struct dz_list all;
    size_t count;
    bool blocked;  /* the socket was full */
    bool changed;  /* there is something for one that watches */
    bool holds;    /* references of the machine that sleeps in the file were taken */
    bool sql_over; /* the image can be seen by SQL */
    DZ_VEC(, uint64_t) held;
};

struct dz_ops *dz_ops_new(struct dz_serve *s);
/* A frame of theirs. */
void dz_ops_frame(struct dz_ops *o, const struct dz_frame *f, const uint8_t *payload);
/* Let each go on that can. True: one of them could go on at once. */
bool dz_ops_turn(struct dz_ops *o);
/* The machine is put to sleep: all come to an end. */
void dz_ops_cancel(struct dz_ops *o);
/* The machine has woken, and has its own references. */
void dz_ops_let_go(struct dz_ops *o);

/* --- for operations ------------------------------------------------------------------ */

struct dz_vfs *dz_op_vfs(const struct dz_op *op);
/* Bytes for the host, in frames as they come; waits for its window. DZ_ECANCELED. */
int dz_op_emit(struct dz_op *op, const void *data, size_t size, struct dz_err *err);
/* A record: kind, a struct, and bytes in up to three parts; kept until there is a frame
 * full, or dz_op_emit_records(). */
struct dz_op_part {
    const void *data;
    size_t size;
};
int dz_op_record(struct dz_op *op, enum dz_op_record_kind kind, const void *fixed,
                 size_t fixed_size, const struct dz_op_part parts[3], struct dz_err *err);
/* Would that record not wait? */
bool dz_op_record_fits(const struct dz_op *op, size_t fixed_size, const struct dz_op_part parts[3]);
int dz_op_emit_records(struct dz_op *op, struct dz_err *err);
/* Bytes from the host; 0 at the end of them. DZ_ECANCELED. */
int64_t dz_op_take(struct dz_op *op, void *data, size_t size, struct dz_err *err);
/* Let others go on; wait: until there is something new. DZ_ECANCELED. */
int dz_op_yield(struct dz_op *op, bool wait, struct dz_err *err);
/* Before names are taken away: what the machine asleep in the file has open stays. */
int dz_op_hold(struct dz_op *op, struct dz_err *err);
/* "what PATH: why", by errno. */
int dz_op_failed(const struct dz_op *op, const char *what, int e, struct dz_err *err);

struct dz_vfs_attr;
int dz_op_put_stat(struct dz_op *op, const struct dz_vfs_attr *a, const char *path,
                   struct dz_err *err);

typedef int dz_op_fn(struct dz_op *op, struct dz_err *err);
/* DZ_EINVAL when the path lies in a directory that the kernel covers inside (/proc, /dev). */
int dz_op_check_place(const struct dz_op *op, const char *path, struct dz_err *err);
dz_op_fn dz_op_stat, dz_op_list, dz_op_read, dz_op_write, dz_op_mkdir, dz_op_move, dz_op_remove;
dz_op_fn dz_op_tar_out, dz_op_tar_in, dz_op_watch;
dz_op_fn dz_op_sql, dz_op_execs, dz_op_exec, dz_op_output, dz_op_stats;

#endif
