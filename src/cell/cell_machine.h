/* SPDX-License-Identifier: MIT
 *
 * cell_machine.h - a machine made of the descriptors that a cell was passed.
 *
 * Its programs are of several kinds (kernel.h). A row of the table in cell_machine.c (struct
 * dz_cell_kind) describes each kind.
 */
#ifndef DZ_CELL_CELL_MACHINE_H
#define DZ_CELL_CELL_MACHINE_H

#include "cell/cell_int.h"
#include "kernel/kernel_wasm.h"
#include "machine/machine.h"
#include "vfs/vfs.h"
#include "wasi/wasi.h"

struct dz_cell_machine;

/* How a cell handles programs of one kind. */
struct dz_cell_kind {
    const struct dz_kernel_runner *runner;
    bool native; /* only in a cell that has stubs */
    /* Make the runner's arg, which outlives the kernel. */
    int (*begin)(struct dz_cell_machine *m, const struct dz_policy *policy, void **ret_arg,
                 struct dz_err *err);
    /* program_get, _ref and _put of struct dz_kernel_ops, for this kind. DZ_EINVAL: the file is no
     * program of this kind, and the next kind is asked. */
    int (*get)(struct dz_cell_machine *m, uint64_t ino, const struct dz_vfs_attr *attr,
               void **ret_handle, struct dz_err *err);
    void (*ref)(struct dz_cell_machine *m, void *handle);
    void (*put)(struct dz_cell_machine *m, void *handle);
};

/* A program to start. The tag of its job is its number plus 1; the tag of a stream is number << 2 |
 * enum dz_cell_stream. */
struct dz_cell_program {
    uint32_t number;
    const char *program, *cwd, *user;
    const char *const *argv, *const *env,
                                 *const *more_env; /* more_env: variables that env does not have */
    const char *const *preopens;
    bool bare, tty, open_stdin, trace;
    uint16_t rows, cols;
    int64_t cpu_ns; /* the limit of its processor time; 0: the policy's; -1: none */
    uint64_t output_bytes;
    uint32_t job, streams[DZ_CELL_STREAMS]; /* set by the start; streams by enum dz_cell_stream, 0:
                                               there is none */
    enum dz_exec_wrong wrong;               /* the reason, when the start failed */
};

/* Set in the tag of the stream that gets a command's trace: its standard input has the same one
 * otherwise. */
#define DZ_CELL_TAG_TRACE (UINT64_C(1) << 63)

struct dz_os_dirty;

struct dz_cell_machine {
    struct dz_db *db, *image;
    struct dz_vfs *vfs;
    struct dz_modules *modules;
    struct dz_kernel *kernel;
    struct dz_kernel_wasm wasm;
    struct dz_wasm_host hosts[DZ_WASI_HOSTS_MAX];
    struct dz_kernel_ops ops;
    const char *policy;
    struct dz_machine *keep; /* the machine in the file */
    struct dz_machine_ops keep_ops;
    struct dz_machine_native keep_native; /* used where `native` is set */
    struct dz_os_dirty *dirty;
    struct dz_cell_native *native; /* NULL: it runs no native programs */
    struct dz_zygote
        *zygote; /* the zygote that forked this cell, with all that it prepared; NULL: none did */
    const char *image_sha256;    /* NULL: there is no image */
    struct dz_vfs_pack pack;     /* the pack of the image; at is NULL without one */
    int pack_fd;                 /* -1: the image has no pack */
    _Atomic(uint64_t) pack_lost; /* the lowest offset that its file no longer has */
    uint64_t pack_reported;      /* report a lower one */
    struct dz_db *volume_dbs[DZ_CELL_VOLUMES_MAX]; /* mounted on vfs */
    size_t volume_count;
    struct dz_execs *execs;  /* its commands; NULL while the machine is being discarded */
    bool lost;               /* the last cell crashed, and the machine's memory is lost */
    bool wakes;              /* the machine that sleeps in the file is to be woken */
    bool readonly;           /* read-only: nothing in the file is changed */
    struct dz_cell_net *net; /* NULL: it has no connections to the outside */
    int64_t clock_ns;        /* the time that the clock of the files shows; 0: the real time */
};

/* Open the disk. *m must be zero but for `dirty`, and must not move afterwards. */
int dz_cell_machine_open(struct dz_cell_machine *m, struct dz_started *start, struct dz_err *err);
/* Make a kernel: an empty one, or with m->wakes one for the machine in the file. */
int dz_cell_machine_up(struct dz_cell_machine *m, struct dz_started *start, struct dz_err *err);
/* Start a program. DZ_ENOENT: no such program; DZ_ESTATE: no such user or directory. */
int dz_cell_machine_spawn(struct dz_cell_machine *m, struct dz_cell_program *p, struct dz_err *err);
/* Write to standard error, once, that the pack is damaged, if a read found that. */
void dz_cell_machine_check_pack(struct dz_cell_machine *m);
/* Commit the output of commands, with their records: the output gate. */
int dz_cell_machine_commit(struct dz_cell_machine *m, struct dz_err *err);
/* End the machine: only the files stay in the file. Commits and closes it. */
int dz_cell_machine_close(struct dz_cell_machine *m, struct dz_err *err);
/* End because the host has gone. A machine that was woken and has committed nothing since sleeps as
 * before. Of any other machine the files are kept, and the file says that the memory is lost. */
int dz_cell_machine_leave(struct dz_cell_machine *m, struct dz_err *err);

/* slice() of struct dz_kernel_ops: the serving loop has the signal. */
void dz_cell_slice(void *arg, int64_t ns);

#endif
