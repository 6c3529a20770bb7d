/* SPDX-License-Identifier: MIT
 *
 * id.h - random bytes and the names of things.
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

/* n bytes from the kernel's generator. */
DZ_NODISCARD int dz_random(void *ret_data, size_t n, struct dz_err *err);

/* A new id "PREFIX_..." of now (dz_clock_real_ns). */
DZ_NODISCARD int dz_id_new(const char *prefix, char ret_id[static DZ_ID_TEXT], struct dz_err *err);

/* Is s an id of that prefix, exactly? Otherwise DZ_EINVAL and a sentence. The
 * milliseconds since 1970 at which it was made go to *ret_ms unless NULL. */
DZ_NODISCARD int dz_id_parse(struct dz_str s, const char *prefix, int64_t *ret_ms,
                             struct dz_err *err);

#endif
