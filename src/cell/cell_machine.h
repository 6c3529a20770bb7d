/* SPDX-License-Identifier: MIT
 *
 * cell_machine.h - a machine made of the descriptors that a cell was handed.
 */
#ifndef DZ_CELL_CELL_MACHINE_H
#define DZ_CELL_CELL_MACHINE_H

#include "cell/cell_int.h"
#include "kernel/kernel_wasm.h"
#include "machine/machine.h"
#include "wasi/wasi.h"

enum {
    DZ_MACHINE_FIRST = 1, /* tag of the job of the first process: command number + 1 */
};

/* Something to be started. Streams have the tag number << 2 | enum dz_cell_stream. */
struct dz_cell_program {
    uint32_t number;
    const char *program, *cwd, *user;
    const char *const *argv, *const *env, *const *more_env; /* more_env: unless env has it */
    const char *const *preopens;
    bool bare, tty, open_stdin;
    uint16_t rows, cols;
    int64_t cpu_ns; /* 0: the policy's; -1: any */
    uint64_t output_bytes;
    uint32_t job, streams[4]; /* made: by enum dz_cell_stream; 0: there is none */
    enum dz_exec_wrong wrong; /* of a spawn that failed */
};

struct dz_os_dirty;

struct dz_cell_machine {
    struct dz_db *db, *image;
    struct dz_vfs *vfs;
    struct dz_modules *modules;
    struct dz_kernel *kernel;
    struct dz_kernel_wasm wasm;
    struct dz_wasm_host hosts[DZ_WASI_HOSTS_MAX];
    struct dz_kernel_ops ops;
    void *serve;         /* the loop's: argument of dz_cell_output() */
    uint32_t streams[4]; /* by enum dz_cell_stream; 0: there is none */
    uint32_t job;
    const char *policy;
    struct dz_machine *keep; /* what the file holds of it */
    struct dz_machine_ops keep_ops;
    struct dz_os_dirty *dirty;
    struct dz_nest *nest;     /* what was made ready before the fork; NULL: nothing */
    const char *image_sha256; /* NULL: none */
    struct dz_execs *execs;   /* NULL: it has a first process, and no other commands */
    bool lost;                /* the file was left by a crash */
    bool wakes;               /* what sleeps in the file goes on */
};

/* The disk. *m is zeroed but for dirty; it stays where it is. */
int dz_cell_machine_open(struct dz_cell_machine *m, struct dz_started *start, void *serve,
                         struct dz_err *err);
/* A kernel: empty, or (m->wakes) for the machine that sleeps in the file. */
int dz_cell_machine_up(struct dz_cell_machine *m, const struct dz_started *start,
                       struct dz_err *err);
/* Start something. DZ_ENOENT: no such program; DZ_ESTATE: no such user or directory. */
int dz_cell_machine_spawn(struct dz_cell_machine *m, struct dz_cell_program *p, struct dz_err *err);
/* The output gate, with the records of commands. */
int dz_cell_machine_commit(struct dz_cell_machine *m, struct dz_err *err);
/* Its first process. DZ_ENOENT: no such program, user or directory. */
int dz_cell_machine_start(struct dz_cell_machine *m, const struct dz_started *start,
                          struct dz_err *err);
/* Its end: nothing of it stays in the file but the files; commit and close. */
int dz_cell_machine_close(struct dz_cell_machine *m, struct dz_err *err);
/* The host has gone without a word: nobody has asked for the machine to be given up. One that
 * was woken and has done nothing sleeps as before; of one that has, the files are kept,
 * and the file says that its memory is lost. */
int dz_cell_machine_leave(struct dz_cell_machine *m, struct dz_err *err);

/* What the kernel asks of the loop (struct dz_kernel_ops). */
void dz_cell_slice(void *arg, int64_t ns);
size_t dz_cell_output(void *arg, uint32_t stream, uint64_t tag, const void *data, size_t n);

#endif
