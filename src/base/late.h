/* SPDX-License-Identifier: MIT
 *
 * late.h - load a library when it is first needed.
 *
 * Each library that the program is linked to makes every start slower; with their dependencies,
 * some cost more than a whole `doze run`. Libraries that only a daemon needs are loaded through
 * this header; docs/adr/ lists them with reasons.
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

/* Load the library for the rest of the process's life and fill in all addresses. It may be called
 * again. DZ_EUNSUPPORTED: the library or one of its functions is missing; err names the package
 * that contains it. */
DZ_NODISCARD int dz_late_load(const char *library, const char *package,
                              const struct dz_late *functions, size_t count, struct dz_err *err);

#endif
