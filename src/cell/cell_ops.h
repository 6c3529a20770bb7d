/* SPDX-License-Identifier: MIT
 *
 * cell_ops.h - operations inside the cell: what runs one (cell_ops.c), and what each
 * does (cell_op_file.c, cell_op_tree.c, cell_op_look.c).
 *
 * An operation is a function in a fiber: it sends and receives data, and yields while the host is
 * slow. Between two resumes everything may have changed: so keep only inode numbers and
 * references, never a pointer into the disk's caches.
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
    const char *path, *to, *text; /* these point into `strings` */
    struct dz_buf strings;
    struct dz_buf records; /* records that wait to be sent */
    uint64_t sent, acked;
    uint8_t *input; /* a ring of DZ_CELL_OP_WINDOW bytes; NULL: it takes no input */
    size_t head, len;
    bool eof, cancelled;
    bool waits; /* it waits until the host answers or a file changes */
    uint64_t count;
};

struct dz_ops {
    struct dz_serve *serve;
    struct dz_list all;
    size_t count;
    bool blocked;  /* the socket is full */
    bool changed;  /* a file changed, and an operation watches files */
    bool holds;    /* the files that the sleeping machine has open are held */
    bool sql_over; /* SQL can read the image through the database */
    DZ_VEC(, uint64_t) held;
};

struct dz_ops *dz_ops_new(struct dz_serve *s);
/* Handle a frame about a file operation. */
void dz_ops_frame(struct dz_ops *o, const struct dz_frame *f, const uint8_t *payload);
/* Run each operation until it has to wait. True: one of them can continue at once. */
bool dz_ops_turn(struct dz_ops *o);
/* The machine is being suspended: end all operations. */
void dz_ops_cancel(struct dz_ops *o);
/* The machine has woken and holds its open files itself: release the references to them. */
void dz_ops_let_go(struct dz_ops *o);

/* --- for operations ------------------------------------------------------------------ */

struct dz_vfs *dz_op_vfs(const struct dz_op *op);
/* The directory at which the paths of operations begin: the root of the disk, or of the volume. */
uint64_t dz_op_top(const struct dz_op *op);
struct dz_vfs_path dz_op_path(const struct dz_op *op, const char *path);
/* The inode at op->path; 0, or a negative errno. */
int dz_op_resolve(const struct dz_op *op, uint64_t *ret_ino);
/* Send bytes to the host; waits for its window. DZ_ECANCELED. */
int dz_op_emit(struct dz_op *op, const void *data, size_t size, struct dz_err *err);
/* Send a record: its kind, a struct, and bytes in up to three parts. Records are gathered until a
 * frame is full or dz_op_emit_records() is called. */
struct dz_op_part {
    const void *data;
    size_t size;
};
int dz_op_record(struct dz_op *op, enum dz_op_record_kind kind, const void *fixed,
                 size_t fixed_size, const struct dz_op_part parts[3], struct dz_err *err);
/* Could this record be sent without waiting? */
bool dz_op_record_fits(const struct dz_op *op, size_t fixed_size, const struct dz_op_part parts[3]);
int dz_op_emit_records(struct dz_op *op, struct dz_err *err);
/* Read bytes from the host; 0: there are no more. DZ_ECANCELED. */
int64_t dz_op_input(struct dz_op *op, void *data, size_t size, struct dz_err *err);
/* Let other operations run. wait: until something new has come. DZ_ECANCELED. */
int dz_op_yield(struct dz_op *op, bool wait, struct dz_err *err);
/* Before names are removed: hold the files that the sleeping machine has open. */
int dz_op_hold(struct dz_op *op, struct dz_err *err);
/* Fail with "what PATH: why", from an errno. */
int dz_op_failed(const struct dz_op *op, const char *what, int e, struct dz_err *err);

/* Prefix of the temporary name that a file has until its upload is complete. */
#define DZ_OP_ARRIVING ".doze-put-"

struct dz_vfs_attr;
int dz_op_put_stat(struct dz_op *op, const struct dz_vfs_attr *a, const char *path,
                   struct dz_err *err);

typedef int dz_op_fn(struct dz_op *op, struct dz_err *err);
/* DZ_EINVAL: the path is in a directory that the kernel covers inside (/proc, /dev). */
int dz_op_check_place(const struct dz_op *op, const char *path, struct dz_err *err);
dz_op_fn dz_op_stat, dz_op_list, dz_op_read, dz_op_write, dz_op_mkdir, dz_op_move, dz_op_remove;
dz_op_fn dz_op_tar_out, dz_op_tar_in, dz_op_usage, dz_op_watch;
dz_op_fn dz_op_sql, dz_op_execs, dz_op_exec, dz_op_output, dz_op_stats;

#endif
