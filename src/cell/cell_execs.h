/* SPDX-License-Identifier: MIT
 *
 * cell_execs.h - the commands of a machine, inside its cell: what runs, what it
 * prints and is told, and its record in the file.
 *
 *   kernel's ring --collect--> rows of exec_output --pump--> frames to the host
 *                 (in the transaction of the     (when attached, within
 *                  output gate)                   its window)
 *
 * Invariants: 1. what the host gets of a command is committed in the file before;
 * 2. a command's bytes are sent in the order of their rows; 3. attached, at most
 * DZ_CELL_WINDOW bytes wait to be sent, and as many are under way: then its writers wait.
 */
#ifndef DZ_CELL_CELL_EXECS_H
#define DZ_CELL_CELL_EXECS_H

#include "cell/cell_exec.h"
#include "cell/cell_machine.h"
#include "cell/cell_sleep.h"

struct dz_db;

/* State of a record: column exec.state. */
enum dz_exec_state {
    DZ_EXEC_RUNNING = 1,
    DZ_EXEC_ENDED = 2, /* exec.code: as value of EXITED */
    DZ_EXEC_LOST = 3,  /* its machine's memory was lost, or given up */
};

enum {
    DZ_EXEC_ARGV_KEPT = 4096, /* bytes of argv in a record */
};

struct dz_exec_piece {
    uint32_t stream, size;
};

struct dz_exec {
    struct dz_exec *next;
    uint32_t number; /* the row in the file */
    uint32_t handle; /* what the host calls it */
    char id[DZ_CELL_ID_MAX + 1];
    uint32_t job, streams[4];
    bool attached, over; /* over: it has ended, and that is in the file; EXITED is not sent */
    bool changed;        /* its row is to be written */
    bool recorded;       /* it has a row: what is not of its end is written */
    int state, code;
    int64_t started_ns, ended_ns, cpu_ns;
    int64_t kill_at; /* boot clock, ns; INT64_MAX: never */
    bool timed_out;
    char why[160];            /* it was stopped */
    uint32_t flags;           /* DZ_EXEC_TTY, DZ_EXEC_STDIN */
    int32_t pid;              /* of its first process */
    int64_t kill_real_ns;     /* as kill_at, but since 1970; 0: never */
    struct dz_buf argv, own;  /* with NULs; the host's own. Until they are in its row */
    struct dz_cell_input *in; /* NULL: it has none */
    uint64_t total;           /* bytes that were taken from the kernel */
    uint64_t cursor, acked;   /* bytes that were sent, and used */
    uint64_t first;           /* offset of the oldest byte that the file has */
    uint64_t keep;            /* bytes that it may have */
    uint32_t next_row;        /* of its output */
    uint64_t read_row;        /* where the cursor is, or before: id in exec_output */
    uint32_t granted[4];      /* bytes collected that the kernel has not given away yet */
    bool shut[4];             /* the kernel was refused */
    struct dz_buf tail;       /* what was collected last, from offset tail_at on */
    uint64_t tail_at;
    struct dz_exec_piece pieces[4];
    uint32_t piece_count, tail_row; /* its rows begin with this one */
    bool unwritten;                 /* the tail is not in the file yet */
};

struct dz_execs {
    struct dz_frame_out *out;
    struct dz_cell_machine *machine;
    const char *const *env; /* of every command */
    struct dz_exec *all;
    size_t count;
    uint32_t next_number, next_woken;
    struct dz_buf incoming; /* an EXEC that is not whole yet */
    uint64_t bytes_in, bytes_out;
    bool blocked;    /* the socket was full */
    int64_t kill_at; /* the earliest of all */
};

struct dz_execs *dz_execs_new(struct dz_frame_out *out, struct dz_cell_machine *m,
                              const char *const *env);

/* cell_execs.c */
/* A frame about a command; payload is its bytes. */
void dz_execs_frame(struct dz_execs *x, const struct dz_frame *f, const uint8_t *payload);
/* The kernel's output() for a command: how much was taken. */
size_t dz_execs_output(struct dz_execs *x, uint64_t tag, size_t n);
/* A job is over. DZ_E*: its end could not be committed. */
int dz_execs_job_ended(struct dz_execs *x, const struct dz_job *job, struct dz_err *err);
/* Carry what can be carried both ways. True: the kernel has something to do now. */
bool dz_execs_turn(struct dz_execs *x);
/* The machine sleeps, durably: no command that is over waits for it to wake. What of its output is
 * not sent is in the file. */
void dz_execs_say_ended(struct dz_execs *x);
/* When the next command is to be killed: boot clock, ns; INT64_MAX: none is. */
int64_t dz_execs_kill_at(const struct dz_execs *x);
/* The inputs that a machine sleeps with. */
void dz_execs_inputs(const struct dz_execs *x, struct dz_cell_inputs *ret);
/* After the wake: find them in the kernel. Those with the ids of `sleepers` get the handles 1, 2,
 * .... What the host is told is added to live: as many struct dz_frame_live. */
int dz_execs_woken(struct dz_execs *x, const char *const *sleepers, struct dz_buf *live,
                   uint32_t *ret_count, struct dz_err *err);
/* To be killed at this time (ns since 1970; 0: never). */
void dz_execs_limit(struct dz_execs *x, struct dz_exec *e, int64_t real_ns);
struct dz_exec *dz_execs_add(struct dz_execs *x, uint32_t handle, const char *id);

/* cell_record.c */
/* On a handle of dz_db_prepare(): compile what the first command needs. */
void dz_execs_prepare(struct dz_db *db);
/* Before the machine wakes: the records of those that run (others would be lost). */
int dz_execs_load(struct dz_execs *x, struct dz_err *err);
/* The machine begins anew, or its memory is given up: those that ran are lost. */
int dz_execs_lose(struct dz_execs *x, struct dz_err *err);
/* The number of the record with this id: 1; 0: there is none. */
int dz_execs_find(struct dz_db *db, const char *id, int64_t *ret_number, struct dz_err *err);
bool dz_execs_known(struct dz_execs *x, const char *id); /* is there a record of this id? */
/* What the file has of a command's output. */
struct dz_exec_kept {
    uint64_t first, total; /* offsets of the first byte and behind the last; 0, 0: none */
    uint32_t next_row;     /* after the last of its rows; 0: there is none */
};
int dz_execs_kept(struct dz_db *db, uint32_t number, struct dz_exec_kept *ret, struct dz_err *err);
/* The gate: take from the kernel what may be taken. True: there is something to write. */
bool dz_execs_collect(struct dz_execs *x);
int dz_execs_write(struct dz_execs *x, struct dz_db *db, struct dz_err *err);
void dz_execs_written(struct dz_execs *x);
/* All that its rings hold, whatever its window; they are empty then. */
void dz_execs_drain(struct dz_execs *x, struct dz_exec *e);
/* The next bytes for the cursor: of one stream, at most DZ_CELL_FRAME_MAX. 0: there are none
 * (any more). Borrowed until the next call. Moves the cursor over what is not kept. */
size_t dz_execs_read(struct dz_execs *x, struct dz_exec *e, const void **ret_data,
                     uint32_t *ret_stream);
size_t dz_execs_room(const struct dz_exec *e);

#endif
