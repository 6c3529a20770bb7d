/* SPDX-License-Identifier: MIT
 *
 * os_dirty.h - which pages of memory were written.
 *
 * Two questions about a range of private memory of this process:
 *   differs   which pages differ from the base the range was made of;
 *   written   which pages may have been written since dz_os_dirty_mark().
 *
 * Back ends. SCAN asks the kernel (PAGEMAP_SCAN, Linux 6.7): a page that was
 * written in a private mapping is present and anonymous, and asynchronous
 * write protection (userfaultfd) tells what was written after a mark; it costs
 * the pages in memory, not the range. COMPARE needs nothing of the kernel: it
 * compares with the base, and at a mark keeps a keyed 128-bit fingerprint of
 * each page; it costs the whole range each time.
 *
 * Descriptors are opened by dz_os_dirty_open() in the process that is asked
 * about, after fork and before privileges go: a pagemap descriptor that was
 * inherited tells of the parent's memory and answers "nothing written" without
 * an error. Each back end must first find the written page among pages of
 * known history (a canary) before it is believed; and every call in another
 * process than the opener's is DZ_ESTATE.
 *
 * Between mark and question the range may grow at its end; nothing may be
 * unmapped or mapped anew in it. Not for threads.
 *
 * The same descriptor fills pages by need, where the kernel can do that, too.
 */
#ifndef DZ_OS_OS_DIRTY_H
#define DZ_OS_OS_DIRTY_H

#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory and what it was made of: zeros, but for image[0..image_size) at
 * image_at. All numbers are multiples of the page size; image_size may be 0. */
struct dz_os_dirty_range {
    uint8_t *at;
    size_t size;
    const uint8_t *image;
    size_t image_at, image_size;
};

struct dz_os_run { /* whole pages, relative to the range */
    size_t at, size;
};
/* Ascending, not touching each other. DZ_VEC_INIT(DZ_OS_RUNS_MAX). */
DZ_VEC(dz_os_runs, struct dz_os_run);
#define DZ_OS_RUNS_MAX (1u << 20) /* 4 GiB have half as many at most */

enum dz_os_dirty_how {
    DZ_OS_DIRTY_COMPARE,
    DZ_OS_DIRTY_SCAN,
};

struct dz_os_dirty;

/* want: the best back end to use; COMPARE opens no descriptor. That the kernel
 * cannot do it is no failure: see dz_os_dirty_how(). */
DZ_NODISCARD int dz_os_dirty_open(enum dz_os_dirty_how want, struct dz_os_dirty **ret_dirty,
                                  struct dz_err *err);
void dz_os_dirty_close(struct dz_os_dirty *d); /* NULL is fine */

/* Which back end answers `differs` and `written`, and why it is COMPARE ("" for
 * SCAN). They may differ: without write protection only `written` compares. */
enum dz_os_dirty_how dz_os_dirty_differs_how(const struct dz_os_dirty *d);
enum dz_os_dirty_how dz_os_dirty_written_how(const struct dz_os_dirty *d);
const char *dz_os_dirty_why(const struct dz_os_dirty *d);

/* Exactly the pages whose content is not that of the base. Replaces *runs. */
DZ_NODISCARD int dz_os_dirty_differs(struct dz_os_dirty *d, const struct dz_os_dirty_range *r,
                                     struct dz_os_runs *runs, struct dz_err *err);

/* From now on remember what is written in [at, at + size). Up to
 * DZ_OS_DIRTY_MARKS_MAX ranges; marking one again (perhaps grown) starts anew. */
enum {
    DZ_OS_DIRTY_MARKS_MAX = 128
};
DZ_NODISCARD int dz_os_dirty_mark(struct dz_os_dirty *d, const struct dz_os_dirty_range *r,
                                  struct dz_err *err);
void dz_os_dirty_unmark(struct dz_os_dirty *d, const void *at); /* before it is unmapped */

/* All pages written since the mark, perhaps with some that were not; of what the
 * range has grown by, all that are not zero. DZ_ESTATE: not marked. */
DZ_NODISCARD int dz_os_dirty_written(struct dz_os_dirty *d, const struct dz_os_dirty_range *r,
                                     struct dz_os_runs *runs, struct dz_err *err);

/* --- pages by need ---------------------------------------------------------------- */

/* Can pages be absent (below)? Only where `written` is answered by SCAN and the kernel raises
 * SIGBUS for a page that is missing (userfaultfd); tried with a page of our own. */
bool dz_os_dirty_by_need(const struct dz_os_dirty *d);

/* New pages at [at, at + size), whatever was mapped there, of which none is there yet: to touch
 * one raises SIGBUS (os_fault.h), to hand one to a system call fails with EFAULT, until it
 * is filled. `differs` and `written` do not name it before. */
DZ_NODISCARD int dz_os_dirty_absent(struct dz_os_dirty *d, void *at, size_t size,
                                    struct dz_err *err);
/* Fill absent pages; NULL: with zeros. They do not count as written. DZ_EEXIST: one
 * is there already; DZ_ENOENT: they were never made absent. */
DZ_NODISCARD int dz_os_dirty_fill(struct dz_os_dirty *d, void *at, const void *bytes, size_t size,
                                  struct dz_err *err);

/* Which of these pages no other process maps: after a fork, those that were written.
 * DZ_EUNSUPPORTED: the kernel does not tell (COMPARE). */
DZ_NODISCARD int dz_os_dirty_own(const struct dz_os_dirty *d, const void *at, size_t pages,
                                 bool *ret_own);

#endif
