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
 *           time; dz_kernel_next_deadline(k); the embedder's own events. Or dz_linux_wait()
 *
 *     end:  dz_kernel_free(k), dz_linux_free(l), stub->ops->close(stub)
 *
 * program_get() of struct dz_kernel_ops answers {.kind = DZ_KIND_LINUX, .handle = NULL} for a file
 * whose first bytes dz_linux_is_program() accepts: the runner reads the file from the disk itself.
 *
 * The embedder must not wait for children that it did not start, nor ignore SIGCHLD: stubs are
 * children of the process that opened the stub.
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
    DZ_LINUX_HEAD = 64,          /* bytes of a file that show whether it is a program */
    DZ_LINUX_CPUINFO_MAX = 8192, /* bytes of dz_linux_cpuinfo(), with the one at its end */
    DZ_LINUX_CPUS_MAX = 1024,    /* a multiple of 64 */
};
#define DZ_LINUX_FILE_BYTES (UINT64_C(1) << 30) /* of files in memory, by default */

/* Files of an image, page-aligned in one flat file (a pack) that every machine of the image maps.
 * find is called only for files that are unchanged from the image. */
struct dz_linux_pack {
    int fd; /* borrowed until dz_linux_free(); -1: there is no pack */
    /* Finds a file in the pack: true, and its offset, a multiple of DZ_MM_PAGE. The file's bytes
     * start there, followed by zeros to the end of its last page. */
    bool (*find)(void *arg, uint64_t ino, uint64_t *ret_offset);
    /* A program got SIGBUS at this offset: its file in the pack ends there, or the pack is damaged.
     * NULL: nobody wants to know. */
    void (*missed)(void *arg, uint64_t offset);
    void *arg;
};

struct dz_linux_opts {
    struct dz_stub *stub; /* borrowed, with dz_linux_files() */
    struct dz_vfs *vfs;   /* borrowed: the kernel's */
    struct dz_linux_pack pack;
    uint64_t file_bytes; /* most bytes of shared memory and of mapped files that are in no pack; 0:
                            DZ_LINUX_FILE_BYTES */
    uint32_t cpus;       /* processors that programs see; 0: the host's */
    /* Gets a line as strace(1) shows it, without its end: a call, in two lines if it waits; a
     * signal whose handler is started; an exit. NULL: processes whose job has a stream for it are
     * traced (struct dz_spawn). Tracing costs several times as much as most calls.
     */
    void (*trace)(void *arg, const struct dz_task *t, const char *line, size_t size);
    void *arg; /* of trace */
};

/* The features of the processor that native programs are told to use: all of the host's, or those
 * of a level of the x86-64 psABI, of which AES, PCLMULQDQ and RDRAND count to level 3. */
enum dz_linux_cpu {
    DZ_LINUX_CPU_HOST,
    DZ_LINUX_CPU_V2,
    DZ_LINUX_CPU_V3,
    DZ_LINUX_CPU_V4,
};
/* "host", "x86-64-v2", "x86-64-v3", "x86-64-v4": holds for this process and its forks. Call it
 * before dz_linux_look(). DZ_EINVAL; DZ_EUNSUPPORTED: the host lacks a feature of it, which is
 * named. */
DZ_NODISCARD int dz_linux_baseline(const char *level, struct dz_err *err);
enum dz_linux_cpu dz_linux_baseline_get(void);
void dz_linux_baseline_told(uint32_t is); /* in another process: what _get() said */
/* Append variables of the environment, each with its NUL, that tell common libraries to keep to the
 * baseline. */
void dz_linux_baseline_env(struct dz_buf *to);

/* Before a jail that hides /sys and /proc/cpuinfo: read what they say about the host's clock and
 * processors. The result holds for forked processes, too. Does the host trust the time stamp
 * counter? */
bool dz_linux_look(void);
/* The host's /proc/cpuinfo of its first processor: lines of text, fewer than
 * DZ_LINUX_CPUINFO_MAX bytes; "": unknown. */
const char *dz_linux_cpuinfo(void);
/* In a jail: use both answers of a process that could look. A text that cannot be one of
 * dz_linux_cpuinfo() counts as unknown. */
void dz_linux_told(bool counter, const char *cpuinfo, size_t size);
DZ_NODISCARD int dz_linux_new(struct dz_linux **ret_linux, struct dz_err *err);
/* In a process that waits for a machine: give the stubs the files that every machine of this pack
 * maps. pack_fd: the descriptor that dz_linux_begin() will get; -1: none. */
void dz_linux_ready(struct dz_linux *l, struct dz_stub *stub, int pack_fd);
DZ_NODISCARD int dz_linux_begin(struct dz_linux *l, const struct dz_linux_opts *opts,
                                struct dz_err *err);
/* After the kernel, before the stub. NULL is fine. */
void dz_linux_free(struct dz_linux *l);

struct dz_stub_files dz_linux_files(struct dz_linux *l);
const struct dz_kernel_pages *dz_linux_pages(struct dz_linux *l);
extern const struct dz_kernel_runner dz_linux_runner; /* arg: struct dz_linux */

/* Are these first DZ_LINUX_HEAD bytes of a file (fewer if it is shorter) those of an ELF program of
 * x86-64? */
bool dz_linux_is_program(const void *head, size_t size);

/* Another way to wait while threads run (dz_linux_due() says so), with fewer calls of the host: in
 * the stub, for at most timeout_ns (negative: without limit; else rounded up to milliseconds), or
 * until the descriptor of dz_linux_watch() is readable. True: dz_kernel_run() is due. */
bool dz_linux_wait(struct dz_linux *l, int64_t timeout_ns);
DZ_NODISCARD int dz_linux_watch(struct dz_linux *l, int fd, struct dz_err *err);
/* -1: there is none, or no thread has run yet, and nothing can come from the stub; while threads
 * run, dz_kernel_run() is then always due. */
int dz_linux_fd(const struct dz_linux *l);
/* Kernel time when dz_kernel_run() is due even if fd is not readable: to end a time slice or to
 * check memory. INT64_MAX: no thread runs. */
int64_t dz_linux_due(const struct dz_linux *l);

#endif
