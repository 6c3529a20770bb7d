/* SPDX-License-Identifier: MIT
 *
 * local_registry.h - the commands on a registry: what they share. They open the registry
 * themselves, so no daemon may have it open (DZ_EBUSY).
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
    struct dz_sandboxes *k; /* if opened with files; it cannot start cells */
};

/* Open the registry that options and environment name; with files, also the live and the cold
 * directory of the data directory. Missing ones are made if `create`. */
DZ_NODISCARD int dz_cli_registry_open(struct dz_cli *c, bool create, bool files,
                                      struct dz_cli_registry *ret, struct dz_err *err);
/* Close it. Returns rc, or an error of the close if rc is not negative. */
int dz_cli_registry_close(struct dz_cli_registry *r, int rc, struct dz_err *err);

#endif
