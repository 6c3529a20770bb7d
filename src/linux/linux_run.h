/* SPDX-License-Identifier: MIT
 *
 * linux_run.h - the runner of native Linux programs: processes of a stub (stub/stub.h) whose
 * system calls the kernel answers.
 *
 *     before the jail                             for each machine
 *     dz_linux_look()
 *     dz_linux_new(&l)
 *     dz_stub_host_open({.files =                 dz_linux_begin(l, {.stub, .vfs, ...})
 *         dz_linux_files(l)}, &stub)              dz_kernel_new({.kinds[DZ_KIND_LINUX] =
 *                                                     {&dz_linux_runner, l},
 *                                                     .pages = dz_linux_pages(l)}, &k)
 *
 *     run:  state = dz_kernel_run(k, until)       events of stubs are served inside, without a wait
 *           IDLE: wait until one of: dz_linux_fd(l) is readable; dz_linux_due(l), which is kernel
 *           time; dz_kernel_next_deadline(k); what else the embedder waits for. Or dz_linux_wait()
 *
 *     end:  dz_kernel_free(k), dz_linux_free(l), stub->ops->close(stub)
 *
 * program_get() of struct dz_kernel_ops answers {.kind = DZ_KIND_LINUX, .handle = NULL} for a file
 * whose first bytes dz_linux_is_program() accepts: the runner reads the file from the disk itself.
 *
 * Who embeds the runner must not wait for children that are not its own, nor ignore SIGCHLD: stubs
 * are children of the process that opened the stub.
 *
 * One thread.
 */
#ifndef DZ_LINUX_LINUX_RUN_H
#define DZ_LINUX_LINUX_RUN_H

#include "base/attr.h"
#include "base/err.h"
#include "kernel/kernel.h"
#include "mm/mm.h"
#include "stub/stub.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_linux;
struct dz_vfs;

enum {
    DZ_LINUX_HEAD = 64,       /* bytes of a file that say whether it is a program */
    DZ_LINUX_CPUS_MAX = 1024, /* a multiple of 64 */
};
#define DZ_LINUX_FILE_BYTES (UINT64_C(1) << 30) /* of files in memory, unless the embedder says */

/* Files of an image, page-aligned in one flat file (a pack) that every machine of the image maps.
 * Only files that are as the image has them are asked for. */
struct dz_linux_pack {
    int fd; /* borrowed until dz_linux_free(); -1: there is no pack */
    /* Where the file begins in it: true and a multiple of DZ_MM_PAGE. The file's bytes follow, and
     * zeros to the end of its last page. */
    bool (*find)(void *arg, uint64_t ino, uint64_t *ret_offset);
    void *arg;
};

struct dz_linux_opts {
    struct dz_stub *stub; /* borrowed, with dz_linux_files() */
    struct dz_vfs *vfs;   /* borrowed: the kernel's */
    struct dz_linux_pack pack;
    uint64_t file_bytes; /* that files, as far as they are mapped and in no pack, and shared memory
                          * may have; 0: DZ_LINUX_FILE_BYTES */
    uint32_t cpus;       /* processors that programs are told of; 0: those of the host */
    /* A line as strace(1) shows it, without its end: a call, in two lines if it waits; a signal
     * whose handler runs; an end. NULL: no tracing, which costs several times what most calls do.
     */
    void (*trace)(void *arg, const struct dz_task *t, const char *line, size_t size);
    void *arg; /* of trace */
};

/* Before a jail that hides /sys and /proc/cpuinfo: read what they say of the host's clock and
 * processors. They are read once, also for the processes that are forked from this one. Does the
 * host trust the time stamp counter? dz_linux_told() instead: so said a process that could look. */
bool dz_linux_look(void);
void dz_linux_told(bool counter);
DZ_NODISCARD int dz_linux_new(struct dz_linux **ret_linux, struct dz_err *err);
DZ_NODISCARD int dz_linux_begin(struct dz_linux *l, const struct dz_linux_opts *opts,
                                struct dz_err *err);
/* After the kernel, before the stub. NULL is fine. */
void dz_linux_free(struct dz_linux *l);

struct dz_stub_files dz_linux_files(struct dz_linux *l);
const struct dz_kernel_pages *dz_linux_pages(struct dz_linux *l);
extern const struct dz_kernel_runner dz_linux_runner; /* arg: struct dz_linux */

/* The first DZ_LINUX_HEAD bytes of a file, or what it has: is it an ELF program of x86-64? */
bool dz_linux_is_program(const void *head, size_t size);

/* The other way to wait while threads run (dz_linux_due() says so), with fewer calls of the host:
 * in the stub, for at most so long (negative: as long as it takes, else rounded up to
 * milliseconds), or until a descriptor that was given to dz_linux_watch() is readable. True:
 * dz_kernel_run() is due. */
bool dz_linux_wait(struct dz_linux *l, int64_t timeout_ns);
DZ_NODISCARD int dz_linux_watch(struct dz_linux *l, int fd, struct dz_err *err);
/* -1: there is none, and dz_kernel_run() is due at once while threads run. */
int dz_linux_fd(const struct dz_linux *l);
/* Kernel time when dz_kernel_run() is due although fd is silent: a time slice ends, memory is
 * looked at. INT64_MAX: nothing runs. */
int64_t dz_linux_due(const struct dz_linux *l);

#endif
