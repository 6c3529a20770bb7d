/* SPDX-License-Identifier: MIT
 *
 * vm.h - address space that is reserved once and filled later.
 *
 * A reservation takes addresses but no memory; an access is a fault until that part is committed.
 * Committed pages read as zero and take memory when first written. Offsets and sizes are multiples
 * of the page size (dz_vm_page). Use it only for memory that must grow without moving; everything
 * else uses base/mem.h.
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

/* Make [p, p + bytes) readable and writable; committed pages keep their content. */
DZ_NODISCARD int dz_vm_commit(void *p, size_t bytes, struct dz_err *err);

/* Give the memory back: the pages are inaccessible, and zero when committed
 * again. The addresses stay reserved. */
DZ_NODISCARD int dz_vm_decommit(void *p, size_t bytes, struct dz_err *err);

/* Put a private copy-on-write view of a file over part of a reservation. */
DZ_NODISCARD int dz_vm_map_file(void *p, size_t bytes, int fd, uint64_t at, struct dz_err *err);

/* Allocate the pages of [p, p + bytes), which is committed, now; that is cheaper than a fault for
 * each page. It is a hint: failures are not reported. */
void dz_vm_populate(void *p, size_t bytes);

/* Copy `bytes` from `from` to p, which is committed; the two must not overlap. It is fast if p was
 * not touched since the commit: the pages are then made in one call, and after dz_vm_fill_open()
 * they are made with their content by userfaultfd(2), so the kernel does not clear them first. */
void dz_vm_fill(void *p, const void *from, size_t bytes);
/* Open and close the userfaultfd of dz_vm_fill(). It belongs to this process: a forked child uses
 * plain copies until it opens its own, before a jail forbids that. Failures are not reported.
 * Opening or closing twice is fine. Not thread-safe. */
void dz_vm_fill_open(void);
void dz_vm_fill_close(void);

/* Allow huge pages in [p, p + bytes), at multiples of DZ_VM_HUGE. For memory that is written from
 * end to end and never tracked page by page. It is a hint. */
#define DZ_VM_HUGE ((size_t)2 << 20)
void dz_vm_huge(void *p, size_t bytes);

/* Make the heap (mem.h) grow by steps of `bytes` and keep as much when it shrinks, so that forked
 * children find heap that is already mapped. Blocks of 64 KiB and more become mappings of their
 * own, so a zeroed block takes memory only for the pages that are written. */
void dz_vm_heap_ahead(int bytes);

/* Map `bytes` of pages that read as zero; NULL: no memory. Release them with dz_vm_release(). */
DZ_NODISCARD void *dz_vm_fresh(size_t bytes);

/* Give back the memory of pages that dz_vm_fresh() made: they read as zero again. */
void dz_vm_forget(void *p, size_t bytes);

/* Return the addresses. p NULL is fine; bytes is what was reserved. */
void dz_vm_release(void *p, size_t bytes);

#endif
