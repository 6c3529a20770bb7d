/* SPDX-License-Identifier: MIT
 *
 * cli_pull.h - images of registries that a command needs.
 */
#ifndef DZ_CLI_CLI_PULL_H
#define DZ_CLI_CLI_PULL_H

#include "cli/cli.h"

#define DZ_CLI_OPTION_PULL \
    {"pull", 0, "WHEN", "pull an image of a registry: missing (default), always, never"}

enum dz_cli_pull {
    DZ_CLI_PULL_NO,      /* the image is no image of a registry, or must not be pulled */
    DZ_CLI_PULL_MISSING, /* pull it if it is not there */
    DZ_CLI_PULL_FIRST,   /* pull it in any case */
};
/* What --pull asks for this image (NULL: none). */
DZ_NODISCARD int dz_cli_pull_when(struct dz_cli *c, const char *image, enum dz_cli_pull *ret_when,
                                  struct dz_err *err);
/* Pull it, by `doze image pull` in a process of its own, which shows its progress. */
DZ_NODISCARD int dz_cli_pull(struct dz_cli *c, const char *image, struct dz_err *err);

#endif
