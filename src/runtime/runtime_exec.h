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

/* The id of a machine's main command: what `doze run` starts, and the first process of an image. It
 * may be used again when the one before is over; its record in the file is then replaced. */
#define DZ_CELL_MAIN "main"

/* As an offset to attach at: the first byte that no host was sent. Known of DZ_CELL_MAIN only. */
#define DZ_CELL_UNSENT UINT64_MAX

struct dz_cell_exec {
    const char *id;                       /* but for DZ_CELL_MAIN never twice in one file */
    const char *const *argv, *const *env; /* each ends with NULL; env may be NULL */
    /* program: a path in the machine, or a name that is looked for in its PATH; user: a name of
     * /etc/passwd or "UID[:GID]". NULL: argv[0], "/", root */
    const char *program, *cwd, *user;
    const char *const *preopens; /* WASI's directories, "PATH=NAME", ends with NULL; NULL: none */
    bool bare; /* no preopens but those given, and no HOME: else a program that knows WASI only is
                * given the root, and HOME is added */
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
