/* SPDX-License-Identifier: MIT
 *
 * cell_execs.h - the commands of a machine, inside its cell: their processes, output, input, and
 * records in the file.
 *
 *   kernel's ring --collect--> rows of exec_output --pump--> frames to the host
 *                 (in the transaction of the     (when attached, within
 *                  output gate)                   its window)
 *
 * In an ephemeral cell nobody reads the file afterwards, so there are no rows: the bytes that were
 * not sent yet are in memory.
 *
 * Invariants: 1. what the host gets of a command is committed in the file before (in an ephemeral
 * cell: what was written to the disk before it); 2. a command's bytes are sent in their order; 3.
 * attached, at most DZ_CELL_WINDOW bytes wait to be sent, and as many are under way: then its
 * writers wait.
 */
#ifndef DZ_CELL_CELL_EXECS_H
#define DZ_CELL_CELL_EXECS_H

#include "cell/cell_exec.h"
#include "cell/cell_machine.h"
#include "cell/cell_sleep.h"

struct dz_db;

/* The state of a command, with the values of the column exec.state. */
enum dz_exec_state {
    DZ_EXEC_RUNNING = 1,
    DZ_EXEC_ENDED = 2, /* exec.code has the value that EXITED has */
    DZ_EXEC_LOST = 3,  /* the memory of its machine was lost or dropped */
};

enum {
    DZ_EXEC_ARGV_KEPT = 4096, /* bytes of argv that are kept in a record */
    DZ_EXEC_MAIN = 0, /* number of the main command (DZ_CELL_MAIN); others have numbers from 1 */
    DZ_EXEC_NONE = DZ_EXEC_MAX, /* the number of a command that was not started yet */
};

struct dz_exec_piece {
    uint32_t stream, size;
};

struct dz_exec {
    struct dz_exec *next;
    uint32_t number; /* the number of its row in the file, or DZ_EXEC_NONE */
    uint32_t handle; /* the host's handle for it */
    char id[DZ_CELL_ID_MAX + 1];
    uint32_t job, streams[DZ_CELL_STREAMS];
    bool attached, over; /* it has ended and its end is in the file, but EXITED was not sent yet */
    bool changed;        /* its row in the file is to be updated */
    bool kept;           /* it and its output get rows; false in an ephemeral cell */
    bool recorded;       /* it has a row that lacks only its end */
    int state, code;
    int64_t started_ns, ended_ns, cpu_ns;
    int64_t kill_at; /* when to kill it, on the boot clock in ns; INT64_MAX: never */
    bool timed_out;
    char why[160];        /* why it was stopped; "": it was not */
    uint32_t flags;       /* DZ_EXEC_TTY, DZ_EXEC_STDIN, DZ_EXEC_TRACE */
    int32_t pid;          /* the pid of its first process */
    int64_t kill_real_ns; /* kill_at as ns since 1970; 0: never */
    struct dz_buf argv,
        own; /* kept until its row is written: argv with NULs, and the host's bytes */
    struct dz_cell_input *in; /* NULL: it takes no input */
    uint64_t total;           /* bytes of output so far */
    uint64_t cursor, acked;   /* bytes sent to the host; how many of these it has acknowledged */
    uint64_t first;           /* the offset of the oldest byte in the file */
    uint64_t keep;            /* how many bytes the file may keep */
    uint32_t next_row;        /* the number of its next row of output */
    uint64_t read_row;        /* the row of exec_output with the cursor, or an earlier one */
    uint32_t
        granted[DZ_CELL_STREAMS]; /* bytes collected, but not yet removed from the kernel's rings */
    bool shut[DZ_CELL_STREAMS];   /* the host's window was full: collect more when there is room */
    /* The bytes that were collected last, which begin at offset tail_at; if !kept, all bytes that
     * were not sent yet. */
    struct dz_buf tail;
    uint64_t tail_at;
    struct dz_exec_piece pieces[16];
    uint32_t piece_count, tail_row; /* tail_row: the number of the tail's first row */
    bool unwritten;                 /* the tail is not in the file yet */
};

struct dz_execs {
    struct dz_frame_out *out;
    struct dz_cell_machine *machine;
    const char *const *env; /* the variables that every command gets */
    bool kept;              /* as in struct dz_exec */
    bool main_ended;        /* the main command has ended, and its EXITED was sent */
    struct dz_exec *all;
    size_t count;
    uint32_t next_number, next_woken;
    struct dz_buf incoming; /* the part of an EXEC that was received so far */
    uint64_t bytes_in, bytes_out;
    bool blocked;    /* the socket is full */
    int64_t kill_at; /* the earliest kill_at of all commands */
};

struct dz_execs *dz_execs_new(struct dz_frame_out *out, struct dz_cell_machine *m,
                              const struct dz_started *start);

/* cell_execs.c */
/* Handle a frame about a command; payload has the frame's bytes. */
void dz_execs_frame(struct dz_execs *x, const struct dz_frame *f, const uint8_t *payload);
/* The output() of the kernel's operations: returns how many bytes of a command's output are
 * accepted. */
size_t dz_execs_output(struct dz_execs *x, uint64_t tag, size_t n);
/* Handle the end of a job. DZ_E*: its end could not be committed. */
int dz_execs_job_ended(struct dz_execs *x, const struct dz_job *job, struct dz_err *err);
/* Move as much input and output as possible. True: a process that waited for that can run. */
bool dz_execs_turn(struct dz_execs *x);
/* After the machine was suspended: report the commands that have ended, so that the host need not
 * wake the machine for them. Their unsent output is in the file. */
void dz_execs_report_ended(struct dz_execs *x);
/* Send the committed output, as far as the windows and the socket have room. */
void dz_execs_send(struct dz_execs *x);
/* Is the main command running? */
bool dz_execs_main(const struct dz_execs *x);
/* When the next command is to be killed, on the boot clock in ns; INT64_MAX: never. */
int64_t dz_execs_kill_at(const struct dz_execs *x);
/* For a suspend: get main_sent, and the input buffers that are stored with the machine. */
void dz_execs_inputs(const struct dz_execs *x, struct dz_cell_inputs *ret);
/* After a wake: find the commands in the kernel. main_sent: as dz_cell_sleep_wake() set it.
 * Commands whose ids are in `sleepers` get the handles 1, 2 and so on. For each command a struct
 * dz_frame_live, for the host, is appended to live. */
int dz_execs_woken(struct dz_execs *x, uint64_t main_sent, const char *const *sleepers,
                   struct dz_buf *live, uint32_t *ret_count, struct dz_err *err);
/* Kill the command at this time (ns since 1970; 0: never). */
void dz_execs_limit(struct dz_execs *x, struct dz_exec *e, int64_t real_ns);
struct dz_exec *dz_execs_add(struct dz_execs *x, uint32_t handle, const char *id);

/* cell_record.c */
/* On a handle of dz_db_prepare(): compile the statements that the first command needs. */
void dz_execs_prepare(struct dz_db *db);
/* Before a wake: read the records of the commands that run. */
int dz_execs_load(struct dz_execs *x, struct dz_err *err);
/* Mark the commands that ran as lost, because the machine starts anew or its memory is dropped. */
int dz_execs_lose(struct dz_execs *x, struct dz_err *err);
/* Find the record with this id. 1: *ret_number has its number; 0: there is none. */
int dz_execs_find(struct dz_db *db, const char *id, int64_t *ret_number, struct dz_err *err);
bool dz_execs_known(struct dz_execs *x, const char *id); /* is there a record of this id? */
/* The output of a command that the file has. */
struct dz_exec_kept {
    uint64_t first,
        total;         /* the offsets of the first byte and after the last; 0, 0: nothing is kept */
    uint32_t next_row; /* the number after its last row; 0: it has no row */
};
int dz_execs_kept(struct dz_db *db, uint32_t number, struct dz_exec_kept *ret, struct dz_err *err);
/* The output gate: take output from the kernel's rings. True: there is something to write into the
 * file. */
bool dz_execs_collect(struct dz_execs *x);
int dz_execs_write(struct dz_execs *x, struct dz_db *db, struct dz_err *err);
void dz_execs_written(struct dz_execs *x);
/* Take everything that the rings of a command hold, even beyond its window. The rings are empty
 * then. */
void dz_execs_drain(struct dz_execs *x, struct dz_exec *e);
/* The bytes at the cursor, of one stream, at most DZ_CELL_FRAME_MAX. 0: there are none. They are
 * valid until the next call. If the file no longer has the bytes at the cursor, the cursor moves to
 * the oldest ones that it has. */
size_t dz_execs_read(struct dz_execs *x, struct dz_exec *e, const void **ret_data,
                     uint32_t *ret_stream);
size_t dz_execs_room(const struct dz_exec *e);

#endif
