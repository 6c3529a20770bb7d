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

#endif
