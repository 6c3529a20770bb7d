/* SPDX-License-Identifier: MIT
 *
 * late.h - a library that is loaded when it is first needed.
 *
 * What stands in the program's list of libraries costs every start of it: with their own
 * lists, some cost more than a whole `doze run`. Those that only a daemon needs are bound
 * through here; docs/adr/ says which and why.
 *
 */
#ifndef DZ_BASE_LATE_H
#define DZ_BASE_LATE_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>

struct dz_late {
    const char *name; /* of a function */
    void *at;         /* a variable for its address, of the type `the function *` */
};

/* Load the library for the rest of the process's life and fill in all addresses. May be
 * called again. DZ_EUNSUPPORTED: it is not there, or lacks one of them; the sentence names
 * the package that brings it. */
DZ_NODISCARD int dz_late_load(const char *library, const char *package,
                              const struct dz_late *functions, size_t count, struct dz_err *err);

#endif
