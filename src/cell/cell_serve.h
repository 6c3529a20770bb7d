/* SPDX-License-Identifier: MIT
 *
 * cell_serve.h - the state of a cell's process, and what its two lives share: with a
 * first process (cell_serve.c), or with many commands (cell_many.c).
 */
#ifndef DZ_CELL_CELL_SERVE_H
#define DZ_CELL_CELL_SERVE_H

#include "cell/cell_execs.h"
#include "cell/cell_ops.h"

struct dz_serve {
    int fd;
    bool block; /* the end: wait until the host has taken everything */
    bool refused[4];
    bool suspend, files_only; /* the host wants it to sleep */
    struct dz_frame_fds copy; /* or a snapshot in this */
    struct dz_started start;
    struct dz_cell_machine machine;
    struct dz_put put;
    struct dz_cell_input in[4]; /* STDIN and TTY are used */
    int log_refused;            /* pages of a log that could not be moved */
    uint8_t payload[DZ_CELL_FRAME_MAX + 1];

    /* with many commands */
    bool up;
    struct dz_frame_out out;
    bool cool; /* what was made ready for the wake has been given back */
    struct dz_ops *ops;
    bool trimmed;       /* since something happened last */
    int64_t trimmed_at; /* boot time */
    int64_t told_at;    /* boot time of the last ACTIVITY */
    struct dz_frame_activity told;
    uint64_t disk_limit; /* bytes of its files; 0: none */
    uint64_t room;       /* as ROOM said last; UINT64_MAX: no limit */
    bool stalled;        /* the disk is full: nothing runs until a commit succeeds */
    int64_t full_at;     /* boot time of the last FULL; 0: none */
    struct dz_err full;  /* why */
};

/* In a cell that waits for its start: have the memory of all this. */
void dz_serve_warm(void);
/* The last word: FAILED. */
DZ_NORETURN void dz_serve_fail(struct dz_serve *s, int code, const struct dz_err *err);
/* Let processes come out of vfork, give output away, write the machine. */
int dz_serve_sleep(struct dz_serve *s, bool goes_on, int64_t *ret_wake_at, struct dz_err *err);
/* Run processes; ends of jobs are seen to. */
enum dz_kernel_state dz_serve_run(struct dz_serve *s, int64_t ns);
/* Between replies: move the log into the file when it is long. */
void dz_serve_log(struct dz_serve *s);
/* When nothing has happened for a while: also a short one, and memory that was only there to be
 * fast is given back. _due: would that do anything? */
bool dz_serve_tidy_due(const struct dz_serve *s);
void dz_serve_tidy(struct dz_serve *s);
/* What is kept for who does something again at once is given back: nothing happened for a while. */
void dz_serve_trim(struct dz_serve *s);
/* Answer to SNAPSHOT: rc of what was done, and copy the file. */
void dz_serve_copy(struct dz_serve *s, int rc, struct dz_err *err);
/* A file put into the disk. */
int dz_serve_put(struct dz_serve *s, const struct dz_frame *f, struct dz_err *err);

/* The life with many commands, once the start is here. */
DZ_NORETURN void dz_many_serve(struct dz_serve *s);

#endif
