/* SPDX-License-Identifier: MIT
 *
 * local_dockerfile.h - build an image from a Dockerfile.
 */
#ifndef DZ_CLI_LOCAL_DOCKERFILE_H
#define DZ_CLI_LOCAL_DOCKERFILE_H

#include "cli/cli.h"
#include "image/image.h"

/* Build the Dockerfile how->recipe with the files of the directory how->from_dir. Of the rest of
 * `how` the name, fresh and the callbacks are used; the values of --build-arg come from c. */
DZ_NODISCARD int dz_cli_dockerfile_build(struct dz_cli *c, struct dz_image_store *s,
                                         const struct dz_image_build *how,
                                         char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);

#endif
