/* SPDX-License-Identifier: MIT */
#include "cli/cli_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *set(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static const char *absolute(const char *name)
{
    const char *value = set(name);
    return value && value[0] == '/' ? value : NULL;
}

int dz_cli_data_dir(const char *given, char ret_path[static DZ_PATH_MAX], struct dz_err *err)
{
    const char *path = given ? given : set("DOZE_DATA");
    const char *below = "";
    if (given && !given[0])
        return dz_fail(err, DZ_EINVAL, "the data directory has an empty name");
    if (!path && (path = absolute("XDG_DATA_HOME")))
        below = "/doze";
    if (!path && (path = absolute("HOME")))
        below = "/.local/share/doze";
    if (!path)
        path = "/var/lib/doze";
    if (strlen(path) + strlen(below) >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of the data directory has more than %d bytes",
                       DZ_PATH_MAX - 1);
    (void)snprintf(ret_path, DZ_PATH_MAX, "%s%s", path, below);
    return 0;
}
