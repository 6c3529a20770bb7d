/* SPDX-License-Identifier: MIT
 *
 * local_config.h - read the daemon's settings as a command does.
 */
#ifndef DZ_CLI_LOCAL_CONFIG_H
#define DZ_CLI_LOCAL_CONFIG_H

#include "cli/cli.h"
#include "config/config.h"

#define DZ_CLI_OPTION_CONFIG {"config", 0, "FILE", "read settings from this file"}

/* Read the file given by --config, else by DOZE_CONFIG, else doze/doze.ini in XDG_CONFIG_HOME (or
 * ~/.config) if it exists, else for root DZ_CONFIG_FILE if it exists; then the environment; then,
 * with `options`, those of the command line. Computes the data directory, the socket and the
 * registry. The caller releases the result. */
DZ_NODISCARD int dz_cli_config(struct dz_cli *c, bool options, struct dz_config *ret_config,
                               struct dz_err *err);

#endif
