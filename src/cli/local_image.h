/* SPDX-License-Identifier: MIT
 *
 * local_image.h - the commands on images: what they share.
 */
#ifndef DZ_CLI_LOCAL_IMAGE_H
#define DZ_CLI_LOCAL_IMAGE_H

#include "cli/cli.h"
#include "image/image.h"

/* The store in the data directory. */
DZ_NODISCARD int dz_cli_image_store(struct dz_image_store **ret_store, struct dz_err *err);
void dz_cli_image_storep(struct dz_image_store **s); /* for DZ_AUTO */
/* Make the store refuse to remove an image that a sandbox or snapshot of the registry needs.
 * *ret_registry stays NULL without a registry; DZ_EBUSY: a daemon has it open. */
struct dz_registry;
DZ_NODISCARD int dz_cli_image_guard(struct dz_image_store *s, struct dz_registry **ret_registry,
                                    struct dz_err *err);
/* Close it. Returns rc, or an error of the close if rc is not negative. */
int dz_cli_image_guard_end(struct dz_registry *r, int rc, struct dz_err *err);

#endif
