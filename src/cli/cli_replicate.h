/* SPDX-License-Identifier: MIT
 *
 * cli_replicate.h - what `doze restore` asks of a daemon, if it is given a sandbox and not a URL.
 */
#ifndef DZ_CLI_CLI_REPLICATE_H
#define DZ_CLI_CLI_REPLICATE_H

#include "cli/cli.h"

/* Make a new sandbox from a state of the replica of the sandbox that the command line names. */
DZ_NODISCARD int dz_cli_restore_sandbox(struct dz_cli *c, struct dz_err *err);
/* The URL of the replica of this sandbox; the caller frees it. DZ_ESTATE: it has none. */
DZ_NODISCARD int dz_cli_replica_url(struct dz_cli *c, const char *sandbox, char **ret_url,
                                    struct dz_err *err);

#endif
