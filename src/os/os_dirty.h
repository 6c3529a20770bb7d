/* SPDX-License-Identifier: MIT
 *
 * os_dirty.h - find the pages of memory that were written.
 *
 * Two questions about a range of private memory of this process:
 *   differs   which pages differ from the base that the range was made from;
 *   written   which pages may have been written since dz_os_dirty_mark().
 *
 * Back ends. SCAN asks the kernel (PAGEMAP_SCAN, Linux 6.7): a page that was written in a private
 * mapping is present and anonymous, and asynchronous write protection (userfaultfd) shows which
 * pages were written after a mark. Its cost grows with the pages in memory, not with the range.
 * COMPARE needs no help from the kernel: it compares with the base, and at a mark keeps a keyed
 * 128-bit fingerprint of each page. Its cost grows with the range.
 *
 * Call dz_os_dirty_open() in the process whose memory is examined, after fork and before it drops
 * privileges: a pagemap descriptor that was inherited shows the parent's memory, and so reports
 * "nothing written" without an error. A back end is used only if it finds the written page among
 * pages of known history (a canary). Every call in another process than the opener's is DZ_ESTATE.
 *
 * Between mark and question the range may grow at its end, but no part of it may be unmapped or
 * mapped again. Not thread-safe.
 *
 * Where the kernel supports it, the same descriptor also fills pages on demand.
 */
#ifndef DZ_OS_OS_DIRTY_H
#define DZ_OS_OS_DIRTY_H

#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range and its base: image[0..image_size) at offset image_at, zeros elsewhere. All numbers are
 * multiples of the page size; image_size may be 0. */
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
#define DZ_OS_RUNS_MAX (1u << 20) /* 4 GiB have at most half as many */

enum dz_os_dirty_how {
    DZ_OS_DIRTY_COMPARE,
    DZ_OS_DIRTY_SCAN,
};

struct dz_os_dirty;

/* want: the best back end to use; COMPARE opens no descriptor. If the kernel does not support SCAN,
 * COMPARE is used, without an error: see dz_os_dirty_differs_how(). */
DZ_NODISCARD int dz_os_dirty_open(enum dz_os_dirty_how want, struct dz_os_dirty **ret_dirty,
                                  struct dz_err *err);
void dz_os_dirty_close(struct dz_os_dirty *d); /* NULL is fine */

/* The back ends that answer `differs` and `written`, and the reason why one is COMPARE ("" if both
 * are SCAN). Without write protection only `written` uses COMPARE. */
enum dz_os_dirty_how dz_os_dirty_differs_how(const struct dz_os_dirty *d);
enum dz_os_dirty_how dz_os_dirty_written_how(const struct dz_os_dirty *d);
const char *dz_os_dirty_why(const struct dz_os_dirty *d);

/* Find exactly the pages whose content differs from the base. Replaces *runs. */
DZ_NODISCARD int dz_os_dirty_differs(struct dz_os_dirty *d, const struct dz_os_dirty_range *r,
                                     struct dz_os_runs *runs, struct dz_err *err);

/* Start tracking writes to [at, at + size), for up to DZ_OS_DIRTY_MARKS_MAX ranges. Marking a range
 * again, perhaps after it has grown, restarts the tracking. */
enum {
    DZ_OS_DIRTY_MARKS_MAX = 128
};
DZ_NODISCARD int dz_os_dirty_mark(struct dz_os_dirty *d, const struct dz_os_dirty_range *r,
                                  struct dz_err *err);
void dz_os_dirty_unmark(struct dz_os_dirty *d, const void *at); /* before it is unmapped */

/* Find all pages written since the mark; others may be included. In the part by which the range has
 * grown, find all pages that are not zero. DZ_ESTATE: the range is not marked. */
DZ_NODISCARD int dz_os_dirty_written(struct dz_os_dirty *d, const struct dz_os_dirty_range *r,
                                     struct dz_os_runs *runs, struct dz_err *err);

/* --- pages on demand -------------------------------------------------------------- */

/* Can this process have absent pages (below)? Only if SCAN answers `written` and the kernel raises
 * SIGBUS for a missing page (userfaultfd); this was tried with a page of our own. */
bool dz_os_dirty_by_need(const struct dz_os_dirty *d);

/* Map new pages at [at, at + size), in place of the old mapping, none of them present. Until a page
 * is filled, an access raises SIGBUS (os_fault.h), a system call that gets it fails with EFAULT,
 * and `differs` and `written` do not report it. */
DZ_NODISCARD int dz_os_dirty_absent(struct dz_os_dirty *d, void *at, size_t size,
                                    struct dz_err *err);
/* Fill absent pages; bytes NULL: with zeros. They do not count as written. DZ_EEXIST: one is
 * already present; DZ_ENOENT: the pages were not made by dz_os_dirty_absent(). */
DZ_NODISCARD int dz_os_dirty_fill(struct dz_os_dirty *d, void *at, const void *bytes, size_t size,
                                  struct dz_err *err);

/* Find the pages that no other process maps; after a fork these are the written ones.
 * DZ_EUNSUPPORTED: the back end is COMPARE, which cannot tell. */
DZ_NODISCARD int dz_os_dirty_own(const struct dz_os_dirty *d, const void *at, size_t pages,
                                 bool *ret_own);

#endif
