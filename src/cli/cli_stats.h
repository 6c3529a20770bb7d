/* SPDX-License-Identifier: MIT
 *
 * cli_stats.h - the daemon's figures, for `doze stats`, `top` and `debug dump`.
 */
#ifndef DZ_CLI_CLI_STATS_H
#define DZ_CLI_CLI_STATS_H

#include "cli/cli_remote.h"

/* `doze top` without a file. */
DZ_NODISCARD int dz_cli_top(struct dz_cli *c, struct dz_err *err);

#endif
