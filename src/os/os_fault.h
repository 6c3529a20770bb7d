/* SPDX-License-Identifier: MIT
 *
 * os_fault.h - a function that is asked when absent memory is touched (SIGBUS).
 *
 * For pages that are filled when they are touched (dz_os_dirty_absent()). A process has one
 * such function; it is not for processes with threads.
 */
#ifndef DZ_OS_OS_FAULT_H
#define DZ_OS_OS_FAULT_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>

/* Called by the thread that touched `at`, on a stack of its own of DZ_OS_FAULT_STACK bytes, in
 * the middle of whatever it did. True: the page is there now, and it goes on; false:
 * it dies of the signal. errno may be changed. */
typedef bool dz_os_fault_fn(void *arg, void *at);
#define DZ_OS_FAULT_STACK ((size_t)256 << 10)

/* From now on fn is asked; NULL: no function is, as before the first call. Makes the calls
 * rt_sigaction and sigaltstack only. */
DZ_NODISCARD int dz_os_fault_catch(dz_os_fault_fn *fn, void *arg, struct dz_err *err);

#endif
