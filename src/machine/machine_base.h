/* SPDX-License-Identifier: MIT
 *
 * machine_base.h - the flat memory of the machine that sleeps in an image: made once for each
 * image, and mapped under the memories of every machine that starts from it
 * (docs/format/machine-base.md).
 *
 * It is only a cache: without it the same memory is made from the image's rows at each wake.
 */
#ifndef DZ_MACHINE_MACHINE_BASE_H
#define DZ_MACHINE_MACHINE_BASE_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_machine;
struct dz_vfs;

#define DZ_MACHINE_BASE_MAX (UINT64_C(16) << 30) /* the largest file of this kind, in bytes */

/* Is this the beginning of a file of this kind: for any image (first function), or for this image
 * and this version (second function)? */
bool dz_machine_base_begins(const void *bytes, size_t size);
bool dz_machine_base_is_of(const void *bytes, size_t size, const uint8_t *image_sha256);

/* Write such a file to fd, which is empty, for the machine that m found asleep in the image's file.
 * vfs is the disk of the image. */
DZ_NODISCARD int dz_machine_base_write(struct dz_machine *m, struct dz_vfs *vfs,
                                       const uint8_t *image_sha256, int fd, struct dz_err *err);

#endif
