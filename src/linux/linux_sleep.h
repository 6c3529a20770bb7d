/* SPDX-License-Identifier: MIT
 *
 * linux_sleep.h - native programs as data, and back: what a saved machine has of them beside the
 * kernel's rows.
 *
 *     sleep:  dz_linux_hold()      every thread is stopped, its frame complete
 *             dz_linux_save()      one blob (docs/format/linux-state.md), without pages
 *             dz_linux_memories(), dz_linux_changed(), dz_linux_read()     pages
 *             dz_linux_release() after a failure, or dz_kernel_free()
 *
 *     wake:   rows are put into a new kernel; dz_linux_begin() of a new runner
 *             dz_linux_restore()   processes, threads (stopped), mappings
 *             dz_linux_write()     pages
 *             dz_kernel_thaw(), dz_linux_release()
 *
 * Functions return 0 or DZ_E*. One thread. No function reads a pointer or an index from saved
 * bytes before it has checked it.
 */
#ifndef DZ_LINUX_LINUX_SLEEP_H
#define DZ_LINUX_LINUX_SLEEP_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_kernel;
struct dz_linux;

enum {
    DZ_LINUX_STATE_VERSION = 1,
    DZ_LINUX_STATE_MAX = 64 << 20, /* bytes of a blob */
};

/* Stop all threads. Running ones are interrupted; a call that a thread makes meanwhile is issued
 * after the release. Returns in bounded time: a process that does not stop is killed. */
DZ_NODISCARD int dz_linux_hold(struct dz_linux *l, struct dz_err *err);
void dz_linux_release(struct dz_linux *l);

/* Held: append everything but the content of pages and the kernel's rows. Writes files that are
 * mapped shared to the disk. */
DZ_NODISCARD int dz_linux_save(struct dz_linux *l, struct dz_kernel *k, struct dz_buf *to,
                               struct dz_err *err);
/* Into a runner without threads, and a kernel that has all rows and was not thawed: make the tasks
 * of all native threads. No instruction of a guest runs before the release. DZ_ECORRUPT;
 * DZ_EUNSUPPORTED: this host lacks something, which is named. After a failure the caller drops
 * what was made by dz_kernel_unput(). */
DZ_NODISCARD int dz_linux_restore(struct dz_linux *l, struct dz_kernel *k, const void *bytes,
                                  size_t size, struct dz_err *err);

/* ---- pages: between hold or restore, and release ------------------------------------------- */

enum dz_linux_memory_kind {
    DZ_LINUX_PRIVATE = 1, /* private pages of an address space: page n is at address n * 4096 */
    DZ_LINUX_OBJECT = 2,  /* shared memory, or a file that only memory has: at offset n * 4096 */
};
/* A number belongs to one memory of its kind for ever. */
struct dz_linux_memory {
    enum dz_linux_memory_kind kind;
    uint64_t id;
};
struct dz_linux_pages { /* by number; lists are ascending and disjoint */
    uint64_t first, count;
    bool zeros; /* dz_linux_restore() makes them zeros; else the content of a file */
};
DZ_VEC(dz_linux_pages_list, struct dz_linux_pages);
enum {
    DZ_LINUX_PAGES_MAX = 1 << 20, /* runs of one memory */
    DZ_LINUX_ABSENT_MAX = 1024,   /* runs of absent pages, of one memory, unless it unmaps some */
};

/* Call fn with each memory, until it returns other than 0, which is returned then. */
int dz_linux_memories(struct dz_linux *l,
                      int (*fn)(void *arg, const struct dz_linux_memory *mem, struct dz_err *err),
                      void *arg, struct dz_err *err);
/* Append the pages whose content may differ from what dz_linux_restore() makes of them; absent: the
 * pages that dz_linux_leave() left out, which were not needed since and are still mapped. */
DZ_NODISCARD int dz_linux_changed(struct dz_linux *l, const struct dz_linux_memory *mem,
                                  struct dz_linux_pages_list *pages,
                                  struct dz_linux_pages_list *absent, struct dz_err *err);
/* The bytes of these pages, one after the other. write: DZ_ECORRUPT if a page is not mapped. */
DZ_NODISCARD int dz_linux_read(struct dz_linux *l, const struct dz_linux_memory *mem,
                               const struct dz_linux_pages *pages, size_t n, uint8_t *ret_bytes,
                               struct dz_err *err);
DZ_NODISCARD int dz_linux_write(struct dz_linux *l, const struct dz_linux_memory *mem,
                                const struct dz_linux_pages *pages, size_t n, const uint8_t *bytes,
                                struct dz_err *err);

/* Writes pages that are needed now, and which dz_linux_leave() left out, by dz_linux_write(): those
 * of them that the saved machine has. Negative: the process ends. */
struct dz_linux_filler {
    int (*fill)(void *arg, const struct dz_linux_memory *mem, uint64_t first, uint64_t count);
    void *arg;
};
/* After a restore, before any write(): these pages are absent until they are needed.
 * DZ_EUNSUPPORTED: not of this memory, and nothing has changed. */
DZ_NODISCARD int dz_linux_leave(struct dz_linux *l, const struct dz_linux_memory *mem,
                                const struct dz_linux_pages *pages, size_t n,
                                const struct dz_linux_filler *filler, struct dz_err *err);
/* After dz_linux_leave(): one list of the host makes these pages writable, all of which
 * dz_linux_write() fills before dz_linux_release(), which protects them again. */
DZ_NODISCARD int dz_linux_ready_pages(struct dz_linux *l, const struct dz_linux_memory *mem,
                                      const struct dz_linux_pages *pages, size_t n,
                                      struct dz_err *err);

#endif
