/* SPDX-License-Identifier: MIT
 *
 * machine_peek.h - looking at a machine that sleeps, without waking it.
 */
#ifndef DZ_MACHINE_MACHINE_PEEK_H
#define DZ_MACHINE_MACHINE_PEEK_H

#include "kernel/kernel_state.h"
#include "machine/machine.h"

enum {
    DZ_PEEK_PAGES_MAX = 1 << 20, /* of one memory: 4 GiB */
    DZ_PEEK_TEXT = 256,          /* bytes of a name, cut to fit, with its terminator */
};

struct dz_peek_proc {
    struct dz_proc row;
    uint32_t threads;
    bool waits;                 /* all of them */
    char command[DZ_PEEK_TEXT]; /* argv with spaces; its name when it has none */
    uint64_t memory_bytes;      /* of its linear memories */
    uint64_t kept_bytes;        /* of them in the file */
    uint32_t descriptors;
    int64_t wakes_in_ns; /* from when it was put to sleep; negative: it can run; INT64_MAX: when
                            something happens */
};
struct dz_peek_fd {
    int32_t pid;
    uint32_t fd;
    struct dz_file row;
    const char *kind;        /* "file", "pipe", ... */
    char name[DZ_PEEK_TEXT]; /* path, or "" */
    uint32_t waiting;        /* bytes in a pipe's or terminal's buffer */
};
struct dz_peek_total {
    int64_t slept_real_ns, wake_real_ns; /* since 1970; INT64_MAX: never */
    int64_t cpu_ns;
    const char *policy;
    uint64_t state_bytes, memory_rows, memory_bytes; /* in the file */
    uint64_t pages_live, pages_garbage;
    uint32_t procs, files, pipes, ptys, modules;
};

struct dz_peek_ops {
    int (*proc)(void *arg, const struct dz_peek_proc *p, struct dz_err *err); /* by index */
    int (*fd)(void *arg, const struct dz_peek_fd *f, struct dz_err *err);     /* NULL: not wanted */
    void *arg;
};

/* A machine that dz_machine_open() found asleep. What is told has been checked as
 * far as it is told, not as a wake would. DZ_ECORRUPT. */
DZ_NODISCARD int dz_machine_peek(struct dz_machine *m, const struct dz_peek_ops *ops,
                                 struct dz_peek_total *ret_total, struct dz_err *err);

/* The inodes of the disk that it has open, stands in or runs: fn for each, perhaps
 * several times. Nothing is read but what dz_machine_open() has read. */
DZ_NODISCARD int dz_machine_peek_inodes(struct dz_machine *m, void (*fn)(void *arg, uint64_t ino),
                                        void *arg, struct dz_err *err);

#endif
