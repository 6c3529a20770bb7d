/* SPDX-License-Identifier: MIT
 *
 * cell_base.h - the memory of a machine that sleeps in an image, made flat in a cell.
 */
#ifndef DZ_CELL_CELL_BASE_H
#define DZ_CELL_CELL_BASE_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct dz_cell_base {
    int image_fd;
    const char *image_sha256;
    const int
        *module_fds; /* prepared modules of the image; missing ones are compiled, which is slow */
    size_t module_count; /* modules of one call; it can pass on at most 60 descriptors */
    int out_fd;          /* an empty file */
    int64_t timeout_ms;
};
/* machine/machine_base.h. DZ_ESTATE: no machine sleeps in the image. */
DZ_NODISCARD int dz_cell_base_write(const struct dz_cell_base *base, struct dz_err *err);

#endif
