/* SPDX-License-Identifier: MIT
 *
 * local_registry.h - what the commands on a registry share. They open it
 * themselves, so no daemon may have it (DZ_EBUSY says so).
 */
#ifndef DZ_CLI_LOCAL_REGISTRY_H
#define DZ_CLI_LOCAL_REGISTRY_H

#include "cli/cli.h"
#include "sandbox/sandbox.h"

#define DZ_CLI_OPTIONS_REGISTRY \
    {"data", 0, "DIR", "use this data directory"}, {"registry", 0, "FILE", "use this registry file"}

struct dz_cli_registry {
    struct dz_registry *registry;
    struct dz_loop *loop;
    struct dz_cold cold;
    char live[DZ_PATH_MAX]; /* the live directory */
    struct dz_sandboxes *k; /* with files only, and without its start */
};

/* The registry that options and environment name; with files, also the live and the
 * cold directory of the data directory. Missing ones are made if `create`. */
DZ_NODISCARD int dz_cli_registry_open(struct dz_cli *c, bool create, bool files,
                                      struct dz_cli_registry *ret, struct dz_err *err);
/* Returns rc, or what went wrong here when rc is not negative. */
int dz_cli_registry_close(struct dz_cli_registry *r, int rc, struct dz_err *err);

#endif
