/* SPDX-License-Identifier: MIT
 *
 * runtime_op.h - operations on the files of a sandbox: their arguments, and the readers of their
 * results.
 *
 * DZ_CELL_OP_WINDOW bytes of data may be under way in each direction. Paths begin with / and follow
 * symbolic links. A reported result has been committed.
 */
#ifndef DZ_RUNTIME_RUNTIME_OP_H
#define DZ_RUNTIME_RUNTIME_OP_H

#include "runtime/runtime.h"

enum {
    DZ_CELL_OPS_MAX = 64,             /* in progress in one cell */
    DZ_CELL_OP_WINDOW = 256 << 10,    /* bytes */
    DZ_CELL_OP_TEXT_MAX = 24 << 10,   /* bytes of a query */
    DZ_CELL_OP_LIST_MAX = 1000000,    /* entries in one answer */
    DZ_CELL_SQL_BYTES_MAX = 16 << 20, /* of an answer */
    DZ_CELL_SQL_OPS_MAX = 20000000,   /* steps of SQLite's machine for one query */
};

enum dz_cell_op_type {
    DZ_CELL_OP_STAT = 1, /* path -> one stat */
    DZ_CELL_OP_LIST = 2, /* path, depth (0: 1), limit -> stats, by name in each directory; what is
                            below a directory follows it. count: 1 when there is more */
    DZ_CELL_OP_READ = 3, /* path, offset, length (0: to the end) -> one stat, alone; then bytes */
    DZ_CELL_OP_WRITE =
        4, /* path, mode (0: as it was, or 0644), NEW, PARENTS; bytes by op_send, then
              op_end: then it replaces the file in one step. count: 1: it is new */
    DZ_CELL_OP_MKDIR = 5,   /* path, mode (0: 0755), PARENTS: then it may be there already */
    DZ_CELL_OP_MOVE = 6,    /* path, to, NEW, PARENTS (of to) */
    DZ_CELL_OP_REMOVE = 7,  /* path, DEEP */
    DZ_CELL_OP_TAR_OUT = 8, /* path, NOFOLLOW, SPARSE -> an archive: of a directory what is below
                               it, of anything else that alone. count: members */
    DZ_CELL_OP_TAR_IN = 9,  /* path, a directory; the archive by op_send, then op_end: all or
                               nothing. count: members */
    DZ_CELL_OP_WATCH = 10,  /* path, DEEP -> changes, until it is cancelled */
    DZ_CELL_OP_SQL = 11,    /* text: one statement that reads -> values; limit: rows. count: rows */
    DZ_CELL_OP_EXECS = 12,  /* offset, limit -> records of commands, the newest first */
    DZ_CELL_OP_EXEC = 13,   /* text: id -> its record. DZ_ENOENT */
    DZ_CELL_OP_OUTPUT = 14, /* text: id, offset -> pieces of its output that the file has */
    DZ_CELL_OP_STATS = 15,  /* -> the machine, and then its processes */
    DZ_CELL_OP_USAGE = 16,  /* path, NOFOLLOW -> one usage: sums over it and what is below it */
    DZ_CELL_OP_TYPES = 17,
};
enum {
    DZ_CELL_OP_NEW = 1,       /* it must not exist: DZ_EEXIST */
    DZ_CELL_OP_PARENTS = 2,   /* make the directories above */
    DZ_CELL_OP_DEEP = 4,      /* with all that is below */
    DZ_CELL_OP_SPARSE = 8,    /* keep holes, in the sparse form 1.0 of pax; else they are zeros */
    DZ_CELL_OP_NOFOLLOW = 16, /* a symbolic link at the end of the path is not followed */
};

struct dz_cell_op {
    enum dz_cell_op_type type;
    const char *path, *to, *text; /* NULL: "" */
    uint64_t offset, length, limit;
    uint32_t mode, depth, flags;
};

/* --- records ----------------------------------------------------------------------------
 *
 * Data of all types but READ and TAR_OUT is records. The functions *_next read them one by one from
 * an event's data and check everything: 1, 0 when there are no more, DZ_ECORRUPT. Results point
 * into the event's data. */

struct dz_cell_view {
    const uint8_t *at;
    size_t left;
};

struct dz_cell_stat {
    uint64_t ino, size;
    int64_t mtime_ns, ctime_ns;
    uint32_t mode, uid, gid, nlink;
    const char *path;   /* of LIST relative to what was listed; else as it was asked for */
    const char *target; /* of a symbolic link; "" */
};
int dz_cell_stat_next(struct dz_cell_view *v, struct dz_cell_stat *ret, struct dz_err *err);

struct dz_cell_change {
    const char *what; /* create write remove moved_from moved_to attr overflow */
    uint32_t cookie;  /* the same of moved_from and its moved_to */
    uint32_t mode;    /* S_IFMT bits */
    const char *path; /* whole; of overflow "" */
};
int dz_cell_change_next(struct dz_cell_view *v, struct dz_cell_change *ret, struct dz_err *err);

enum dz_cell_value_kind {
    DZ_CELL_COLUMN = 1, /* a name: all of them come first */
    DZ_CELL_ROW = 2,    /* one begins */
    DZ_CELL_INT = 3,
    DZ_CELL_REAL = 4,
    DZ_CELL_TEXT = 5, /* bytes, perhaps no UTF-8 */
    DZ_CELL_BLOB = 6,
    DZ_CELL_NULL = 7,
};
struct dz_cell_value {
    enum dz_cell_value_kind kind;
    bool more; /* the next record continues with these bytes */
    int64_t integer;
    double real;
    const uint8_t *data; /* of COLUMN, TEXT, BLOB */
    size_t size;
};
int dz_cell_value_next(struct dz_cell_view *v, struct dz_cell_value *ret, struct dz_err *err);

struct dz_cell_exec_row {
    uint64_t number; /* in the file */
    const char *id;
    const char *state; /* running, ended, lost */
    int exit_code;     /* of one that ended; -1: signal */
    int signal;
    int32_t pid;
    bool tty, open_stdin, timed_out;
    int64_t started_ns, ended_ns, cpu_ns;
    uint64_t output_bytes, first_offset; /* printed ever; the first that is kept */
    const char *argv;                    /* argc strings with their NULs */
    uint32_t argc;
    const uint8_t *spec; /* the host's own */
    size_t spec_size;
};
int dz_cell_exec_row_next(struct dz_cell_view *v, struct dz_cell_exec_row *ret, struct dz_err *err);

struct dz_cell_piece {
    uint64_t offset;
    uint32_t stream;
    const uint8_t *data;
    size_t size;
};
int dz_cell_piece_next(struct dz_cell_view *v, struct dz_cell_piece *ret, struct dz_err *err);

struct dz_cell_usage {
    uint64_t stored, size; /* bytes of content without holes; sizes of the regular files. A file
                              with several names counts for each of them in equal parts */
    uint64_t names;        /* at and below the path */
    uint64_t sockets;      /* of these names: those of sockets, which no archive has */
};
int dz_cell_usage_next(struct dz_cell_view *v, struct dz_cell_usage *ret, struct dz_err *err);

struct dz_cell_machine_stats {
    uint64_t cpu_ns, memory_bytes, memory_limit;
    uint64_t disk_bytes, disk_limit, inodes, inode_limit; /* of the file, without its image */
    uint64_t image_bytes, image_inodes;
    uint32_t procs, execs;
    uint32_t load[3]; /* 16.16 */
    bool up;
};
int dz_cell_stats_next(struct dz_cell_view *v, struct dz_cell_machine_stats *ret,
                       struct dz_err *err);

struct dz_cell_process {
    int32_t pid, ppid, pgid, sid;
    uint32_t uid;
    char state;         /* R S T Z, as ps(1) */
    int64_t started_ns; /* machine's clock */
    uint64_t cpu_ns, memory_bytes;
    const char *exec_id; /* of the command that it belongs to; "" */
    const char *command; /* its arguments with spaces between */
};
int dz_cell_process_next(struct dz_cell_view *v, struct dz_cell_process *ret, struct dz_err *err);

#endif
