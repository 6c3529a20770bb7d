/* SPDX-License-Identifier: MIT
 *
 * local_image.h - what the commands on images share.
 */
#ifndef DZ_CLI_LOCAL_IMAGE_H
#define DZ_CLI_LOCAL_IMAGE_H

#include "cli/cli.h"
#include "image/image.h"

/* The store in the data directory. */
DZ_NODISCARD int dz_cli_image_store(struct dz_image_store **ret_store, struct dz_err *err);
void dz_cli_image_storep(struct dz_image_store **s); /* for DZ_AUTO */
/* Let no image of the store go that a sandbox or a snapshot of the registry stands on.
 * *ret_registry stays NULL without a registry; DZ_EBUSY: a daemon has it. */
struct dz_registry;
DZ_NODISCARD int dz_cli_image_guard(struct dz_image_store *s, struct dz_registry **ret_registry,
                                    struct dz_err *err);
/* Closes it; returns rc, or what went wrong here when rc is not negative. */
int dz_cli_image_guard_end(struct dz_registry *r, int rc, struct dz_err *err);

#endif
