/* SPDX-License-Identifier: MIT
 *
 * runtime_exec.h - a command in the machine of a cell: its arguments and its limits.
 *
 * The output of a command is one sequence of bytes, standard output and error in order of arrival;
 * an offset counts both.
 */
#ifndef DZ_RUNTIME_RUNTIME_EXEC_H
#define DZ_RUNTIME_RUNTIME_EXEC_H

#include "runtime/runtime.h"

enum {
    DZ_CELL_ID_MAX = 63,         /* bytes of a command's id */
    DZ_CELL_SPEC_MAX = 16384,    /* bytes that the host keeps with a record */
    DZ_CELL_KEEP = 256 << 10,    /* bytes of output kept, by default */
    DZ_CELL_KEEP_MAX = 16 << 20, /* and at most; at least twice DZ_CELL_WINDOW */
    DZ_CELL_EXECS_MAX = 128,     /* commands at a time in one machine */
    DZ_CELL_EXECS_KEPT = 256,    /* records in a file: the oldest ended ones are removed */
    DZ_CELL_QUEUE_MAX = 8 << 20, /* bytes that wait for a cell's socket */
};

/* The id of a machine's main command: the one that `doze run` starts, or the first process of an
 * image. It may be reused after that command has ended; its record in the file is then replaced. */
#define DZ_CELL_MAIN "main"

/* As an offset to attach at: the first byte that was never sent to a host. For DZ_CELL_MAIN
 * only. */
#define DZ_CELL_UNSENT UINT64_MAX

struct dz_cell_exec {
    const char *id;                       /* unique in the file, except DZ_CELL_MAIN */
    const char *const *argv, *const *env; /* each ends with NULL; env may be NULL */
    /* program: a path in the machine, or a name that is looked for in its PATH; user: a name of
     * /etc/passwd or "UID[:GID]". NULL: argv[0], "/", root */
    const char *program, *cwd, *user;
    const char *const *preopens; /* WASI's directories, "PATH=NAME", ends with NULL; NULL: none */
    bool bare; /* give no other preopens, and no HOME; otherwise a program that uses WASI only gets
                  the root, and HOME is added */
    bool tty, open_stdin;
    bool trace; /* of native programs: send their system calls as lines, in stream DZ_CELL_TRACE */
    uint16_t rows, cols;
    bool attach;           /* send its output from the beginning */
    int64_t cpu_ns;        /* CPU time limit; 0: as in the policy, -1: none */
    uint64_t output_bytes; /* output limit; 0: as in the policy, UINT64_MAX: none */
    uint64_t keep_bytes;   /* output kept in the file; 0: DZ_CELL_KEEP */
    int64_t timeout_ns;    /* killed after this wall-clock time, suspended or not; 0: never */
    const void *spec;      /* the host's own, kept with the record */
    size_t spec_size;
};

#endif
