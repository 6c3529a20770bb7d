/* SPDX-License-Identifier: MIT
 *
 * id.h - random bytes, and ids.
 *
 * An id is a prefix of one to eight lower-case letters, '_' and 20 characters
 * of base 32 (digits and lower-case letters without i, l, o, u): 48 bits of
 * milliseconds since 1970, then 52 random bits. Ids of one prefix therefore
 * sort by time, to the millisecond, byte by byte. An id is a name, not a
 * secret: knowing one must give no rights.
 */
#ifndef DZ_BASE_ID_H
#define DZ_BASE_ID_H

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

enum {
    DZ_ID_PREFIX_MAX = 8,
    DZ_ID_CODE = 20,
    DZ_ID_TEXT = DZ_ID_PREFIX_MAX + 1 + DZ_ID_CODE + 1, /* with the terminator */
};

/* Fill p with n bytes from the kernel's random number generator. */
DZ_NODISCARD int dz_random(void *ret_data, size_t n, struct dz_err *err);

/* Make a new id "PREFIX_..." with the present time (dz_clock_real_ns). */
DZ_NODISCARD int dz_id_new(const char *prefix, char ret_id[static DZ_ID_TEXT], struct dz_err *err);

/* Check that s is exactly an id with this prefix, else DZ_EINVAL. The time at which it was made, in
 * milliseconds since 1970, goes to *ret_ms unless ret_ms is NULL. */
DZ_NODISCARD int dz_id_parse(struct dz_str s, const char *prefix, int64_t *ret_ms,
                             struct dz_err *err);

#endif
