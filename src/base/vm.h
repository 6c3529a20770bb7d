/* SPDX-License-Identifier: MIT
 *
 * vm.h - address space that is reserved once and filled later.
 *
 * A reservation takes addresses but no memory; touching it is a fault until a
 * part is committed. Committed pages read as zero and cost memory when first
 * written. Offsets and sizes are multiples of the page size (dz_vm_page). For
 * what must grow without moving; everything else uses base/mem.h.
 */
#ifndef DZ_BASE_VM_H
#define DZ_BASE_VM_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

size_t dz_vm_page(void); /* bytes of a page */

/* Reserve `bytes` of address space; NULL with DZ_ENOMEM in err. */
DZ_NODISCARD void *dz_vm_reserve(size_t bytes, struct dz_err *err);

/* Make [p, p + bytes) readable and writable; pages that are already stay as
 * they are. */
DZ_NODISCARD int dz_vm_commit(void *p, size_t bytes, struct dz_err *err);

/* Give the memory back: the pages are inaccessible, and zero when committed
 * again. The addresses stay reserved. */
DZ_NODISCARD int dz_vm_decommit(void *p, size_t bytes, struct dz_err *err);

/* Put a private copy-on-write view of a file over part of a reservation. */
DZ_NODISCARD int dz_vm_map_file(void *p, size_t bytes, int fd, uint64_t at, struct dz_err *err);

/* Have memory behind [p, p + bytes), which is committed, at once: cheaper than a
 * fault for each page. A hint: failing is not told. */
void dz_vm_populate(void *p, size_t bytes);

/* Copy `bytes` from `from` to p, which is committed and, to be fast, has not been touched
 * since: its pages come in one call, and where dz_vm_fill_open() could open it they come
 * with their content, by userfaultfd(2), so that the kernel does not clear them before.
 * The two must not overlap. */
void dz_vm_fill(void *p, const void *from, size_t bytes);
/* Open and close what dz_vm_fill() makes pages with. It is this process's: one that is
 * forked falls back until it opens its own, and must do so before a jail forbids it. To
 * fail is not told; to open it twice or close it twice is fine. Not thread-safe. */
void dz_vm_fill_open(void);
void dz_vm_fill_close(void);

/* Let [p, p + bytes) have huge pages where it spans them, which start at multiples of
 * DZ_VM_HUGE. For what is written from end to end and never tracked page by page. A
 * hint. */
#define DZ_VM_HUGE ((size_t)2 << 20)
void dz_vm_huge(void *p, size_t bytes);

/* The heap (mem.h) grows by steps of `bytes` and keeps as much, for a process whose children
 * want memory that is there. Blocks of 64 KiB and more are mappings of their own: of a
 * zeroed one nothing costs memory but what is written. */
void dz_vm_heap_ahead(int bytes);

/* `bytes` of pages that read as zero; NULL when there are none. For dz_vm_release(). */
DZ_NODISCARD void *dz_vm_fresh(size_t bytes);

/* Give back the memory of pages that dz_vm_fresh() made: they read as zero again. */
void dz_vm_forget(void *p, size_t bytes);

/* Return the addresses. p NULL is fine; bytes is what was reserved. */
void dz_vm_release(void *p, size_t bytes);

#endif
