/* SPDX-License-Identifier: MIT
 *
 * runtime_exec.h - a command in the machine of a cell: what it is given, and its limits.
 *
 * What a command prints is one sequence of bytes, standard output and error in the order in which
 * they came; an offset counts both.
 */
#ifndef DZ_RUNTIME_RUNTIME_EXEC_H
#define DZ_RUNTIME_RUNTIME_EXEC_H

#include "runtime/runtime.h"

enum {
    DZ_CELL_ID_MAX = 63,         /* bytes of a command's id */
    DZ_CELL_SPEC_MAX = 16384,    /* bytes that the host keeps with a record */
    DZ_CELL_KEEP = 256 << 10,    /* bytes of output that are kept, unless it is said otherwise */
    DZ_CELL_KEEP_MAX = 16 << 20, /* and at most; at least twice DZ_CELL_WINDOW */
    DZ_CELL_EXECS_MAX = 128,     /* commands at a time in one machine */
    DZ_CELL_EXECS_KEPT = 256,    /* records in a file: the oldest that have ended go */
    DZ_CELL_QUEUE_MAX = 8 << 20, /* bytes that wait for a cell's socket */
};

struct dz_cell_exec {
    const char *id;                       /* never twice in one file */
    const char *const *argv, *const *env; /* as in dz_cell_start; env may be NULL */
    const char *program, *cwd, *user;     /* NULL: argv[0], "/", root */
    bool tty, open_stdin;
    uint16_t rows, cols;
    bool attach;           /* send what it prints, from the beginning */
    int64_t cpu_ns;        /* that it may use; 0: as the policy says, -1: any */
    uint64_t output_bytes; /* that it may print; 0: as the policy says, UINT64_MAX: any */
    uint64_t keep_bytes;   /* of its output in the file; 0: DZ_CELL_KEEP */
    int64_t timeout_ns;    /* then it is killed, by the wall's clock, asleep or not; 0: never */
    const void *spec;      /* the host's own, kept with the record */
    size_t spec_size;
};

#endif
