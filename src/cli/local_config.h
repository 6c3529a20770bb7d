/* SPDX-License-Identifier: MIT
 *
 * local_config.h - the daemon's settings as a command line finds them.
 */
#ifndef DZ_CLI_LOCAL_CONFIG_H
#define DZ_CLI_LOCAL_CONFIG_H

#include "cli/cli.h"
#include "config/config.h"

#define DZ_CLI_OPTION_CONFIG {"config", 0, "FILE", "read settings from this file"}

/* The file of --config, else of DOZE_CONFIG, else doze/doze.ini in XDG_CONFIG_HOME (or
 * ~/.config) if it is there, else for root DZ_CONFIG_FILE if it is there; then the
 * environment, then, with `options`, those of the command line. The data directory, the
 * socket and the registry are worked out. To be released. */
DZ_NODISCARD int dz_cli_config(struct dz_cli *c, bool options, struct dz_config *ret_config,
                               struct dz_err *err);

#endif
