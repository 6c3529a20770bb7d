/* SPDX-License-Identifier: MIT
 *
 * os_fault.h - a handler for accesses to pages that are not present (SIGBUS).
 *
 * It fills the pages of dz_os_dirty_absent() when they are touched, and stands in for the end of a
 * mapped file that somebody has cut off. A process has one such handler and must not have threads.
 */
#ifndef DZ_OS_OS_FAULT_H
#define DZ_OS_OS_FAULT_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called by the thread that touched `at`, inside the signal handler, on a separate stack of
 * DZ_OS_FAULT_STACK bytes. True: the page is present now, repeat the access; false: the process
 * dies of the signal. It may change errno. */
typedef bool dz_os_fault_fn(void *arg, void *at);
#define DZ_OS_FAULT_STACK ((size_t)256 << 10)

/* Install fn as the handler; NULL restores the state before the first call. Makes only the system
 * calls rt_sigaction and sigaltstack. */
DZ_NODISCARD int dz_os_fault_catch(dz_os_fault_fn *fn, void *arg, struct dz_err *err);

/* A page of this mapping that its file no longer has is replaced by zeros, and *lost becomes the
 * lowest offset of such a page; the caller sets it to UINT64_MAX before. at NULL: no mapping. */
DZ_NODISCARD int dz_os_fault_replace(const void *at, size_t size, _Atomic(uint64_t) *lost,
                                     struct dz_err *err);

#endif
