/* SPDX-License-Identifier: MIT
 *
 * cli_env.h - settings from the environment.
 */
#ifndef DZ_CLI_CLI_ENV_H
#define DZ_CLI_CLI_ENV_H

#include "base/attr.h"
#include "base/err.h"
#include "base/limits.h"

#include <stdbool.h>

/* The data directory: `given` (an option, may be NULL), else DOZE_DATA, else $XDG_DATA_HOME/doze,
 * else $HOME/.local/share/doze, else /var/lib/doze. An empty variable counts as unset, and so does
 * an XDG_DATA_HOME or HOME that is not absolute. The current directory completes a relative path,
 * so the result is always absolute. The directory need not exist. DZ_ELIMIT: the path is too long;
 * DZ_EINVAL: it is empty. */
DZ_NODISCARD int dz_cli_data_dir(const char *given, char ret_path[static DZ_PATH_MAX],
                                 struct dz_err *err);
/* Is this the directory that dz_cli_data_dir() gives without an option and without DOZE_DATA? */
bool dz_cli_data_dir_is_default(const char *path);

#endif
