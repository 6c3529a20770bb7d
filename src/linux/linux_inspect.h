/* SPDX-License-Identifier: MIT
 *
 * linux_inspect.h - inspect saved native programs (docs/format/linux-state.md) without a kernel, a
 * runner or a stub.
 */
#ifndef DZ_LINUX_LINUX_INSPECT_H
#define DZ_LINUX_LINUX_INSPECT_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "stub/stub.h"

#include <stddef.h>
#include <stdint.h>

enum {
    DZ_LINUX_INSPECT_CALL = 192, /* bytes of a call's text, with its end */
};

struct dz_linux_inspect_thread {
    uint32_t thread, proc;            /* indexes of the kernel's rows */
    uint64_t space;                   /* number of its address space */
    bool dead;                        /* the host has ended it: no registers */
    char call[DZ_LINUX_INSPECT_CALL]; /* it waits in this call, or makes it next; "": it computes */
    struct dz_stub_regs regs;
};
struct dz_linux_inspect_file {
    const char *kind; /* "shared memory", "shared file", "private file" */
    uint64_t id;      /* number, or inode */
    uint32_t generation;
    uint64_t size;
    bool in_memory; /* the machine's pages hold its content */
};
struct dz_linux_inspect_ops { /* each may be NULL; other than 0 ends the inspection */
    int (*thread)(void *arg, const struct dz_linux_inspect_thread *t, struct dz_err *err);
    /* maps: as in /proc/PID/maps, with "inode N" instead of a path */
    int (*space)(void *arg, uint64_t space, const struct dz_buf *maps, struct dz_err *err);
    int (*file)(void *arg, const struct dz_linux_inspect_file *f, struct dz_err *err);
    void *arg;
    /* what the processor of a wake must have: the highest level of the x86-64 psABI of which it
     * needs a feature, and the features above them, as "x86-64-v3 erms sha_ni" */
    int (*cpu)(void *arg, const char *needs, struct dz_err *err);
};
/* Every byte that it shows is checked, others are not: DZ_ECORRUPT. size 0: there are no programs.
 */
DZ_NODISCARD int dz_linux_inspect(const void *bytes, size_t size,
                                  const struct dz_linux_inspect_ops *ops, struct dz_err *err);
/* Call fn with each inode that programs have mapped. */
DZ_NODISCARD int dz_linux_inspect_inodes(const void *bytes, size_t size,
                                         void (*fn)(void *arg, uint64_t ino), void *arg,
                                         struct dz_err *err);

#endif
