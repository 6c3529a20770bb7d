/* SPDX-License-Identifier: MIT
 *
 * machine_inspect.h - inspect a suspended machine without resuming it.
 */
#ifndef DZ_MACHINE_MACHINE_INSPECT_H
#define DZ_MACHINE_MACHINE_INSPECT_H

#include "kernel/kernel_state.h"
#include "machine/machine.h"

enum {
    DZ_INSPECT_PAGES_MAX = 1 << 20, /* pages of one memory: 4 GiB */
    DZ_INSPECT_TEXT = 256,          /* bytes of a name with its terminator; longer names are cut */
};

struct dz_inspect_proc {
    struct dz_proc row;
    uint32_t threads;
    bool waits;                    /* all of its threads wait */
    char command[DZ_INSPECT_TEXT]; /* argv joined by spaces, or the program's name */
    uint64_t memory_bytes;         /* the size of its linear memories */
    uint64_t kept_bytes;           /* bytes of it that the file stores */
    uint32_t descriptors;
    int64_t wakes_in_ns; /* time from the suspend to its deadline; negative: it can run; INT64_MAX:
                            no deadline */
};
struct dz_inspect_fd {
    int32_t pid;
    uint32_t fd;
    struct dz_file row;
    const char *kind;           /* "file", "pipe", ... */
    char name[DZ_INSPECT_TEXT]; /* path, or "" */
    uint32_t waiting;           /* bytes in the buffer of a pipe or terminal */
};
struct dz_inspect_total {
    int64_t slept_real_ns, wake_real_ns; /* ns since 1970; INT64_MAX: never */
    int64_t cpu_ns;
    const char *policy;
    uint64_t state_bytes, memory_rows, memory_bytes; /* bytes of the file that the machine takes */
    uint64_t pages_live, pages_garbage;
    uint32_t procs, files, pipes, ptys, modules;
};

struct dz_inspect_ops {
    int (*proc)(void *arg, const struct dz_inspect_proc *p,
                struct dz_err *err); /* called with each process, by its index */
    int (*fd)(void *arg, const struct dz_inspect_fd *f,
              struct dz_err *err); /* called with each descriptor; NULL: skip them */
    int (*thread)(void *arg, const struct dz_thread *row,
                  struct dz_err *err); /* called with each thread; NULL: skip them */
    void *arg;
};

/* Describe a machine that dz_machine_open() found suspended. Only the described rows are checked
 * for damage; a wake checks more. DZ_ECORRUPT. */
DZ_NODISCARD int dz_machine_inspect(struct dz_machine *m, const struct dz_inspect_ops *ops,
                                    struct dz_inspect_total *ret_total, struct dz_err *err);

/* Call fn with each inode that the machine has open, has as a working directory or runs; some
 * inodes may come several times. Needs no more than dz_machine_open() has read. */
DZ_NODISCARD int dz_machine_inspect_inodes(struct dz_machine *m,
                                           void (*fn)(void *arg, uint64_t ino), void *arg,
                                           struct dz_err *err);

#endif
