/* SPDX-License-Identifier: MIT
 *
 * cell_serve.h - the state of a cell's process: its machine, its commands, its operations on
 * files, and the host's requests.
 */
#ifndef DZ_CELL_CELL_SERVE_H
#define DZ_CELL_CELL_SERVE_H

#include "cell/cell_execs.h"
#include "cell/cell_ops.h"

struct dz_serve {
    int fd;
    struct dz_started start;
    struct dz_cell_machine machine;
    struct dz_ops *ops;
    struct dz_put put;
    bool up;                  /* the machine runs; else the cell is file-only */
    bool suspend, files_only; /* the host requested a suspend; keep only the files */
    struct dz_frame_fds copy; /* the host requested a snapshot in this file; count 0: it did not */
    int wal_refused;          /* pages of the WAL that could not be moved into the file */
    bool cool;                /* memory that was prepared for the wake has been given back */
    bool rested;              /* the machine was idle at least once since its start */
    bool trimmed;             /* memory was given back since the last event, */
    int64_t trimmed_at;       /* at this boot time */
    int64_t reported_at;      /* boot time of the last ACTIVITY */
    int64_t looked_at; /* boot time of the last check of the socket while programs make calls */
    struct dz_frame_activity reported;
    uint64_t disk_limit; /* bytes of its files; 0: none */
    uint64_t room;       /* value of the last ROOM; UINT64_MAX: no limit */
    bool stalled;        /* the disk is full: nothing runs until a commit succeeds */
    int64_t full_at;     /* boot time of the last FULL; 0: none */
    struct dz_err full;  /* why */
    struct dz_frame_out out;
    uint8_t payload[DZ_CELL_FRAME_MAX + 1]; /* payload of the frame that was received last */
};

/* In a cell that waits for its start: touch all of this memory in advance. */
void dz_serve_warm(void);

#endif
