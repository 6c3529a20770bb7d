/* SPDX-License-Identifier: MIT */
#include "cli/cli_env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static int too_long(struct dz_err *err)
{
    return dz_fail(err, DZ_ELIMIT, "the path of the data directory has more than %d bytes",
                   DZ_PATH_MAX - 1);
}

/* Make a relative path absolute: it is relative to the directory in which doze was called, also for
 * a daemon that this command may start elsewhere. */
static int make_absolute(const char *path, char ret_path[static DZ_PATH_MAX], struct dz_err *err)
{
    char cwd[DZ_PATH_MAX] = "", joined[DZ_PATH_MAX];
    while (path[0] == '.' && path[1] == '/') {
        path += 2;
        path += strspn(path, "/");
    }
    if (path[0] != '/' && !getcwd(cwd, sizeof cwd))
        return dz_fail_sys(err, errno,
                           "find the current directory, which the data directory %s "
                           "is relative to",
                           path);
    bool here = path[0] == '\0' || strcmp(path, ".") == 0;
    const char *slash = path[0] == '/' || here || strcmp(cwd, "/") == 0 ? "" : "/";
    int n = snprintf(joined, sizeof joined, "%s%s%s", cwd, slash, here ? "" : path);
    if (n < 0 || n >= DZ_PATH_MAX)
        return too_long(err);
    memcpy(ret_path, joined, (size_t)n + 1);
    return 0;
}

/* path NULL: the default. */
static int data_dir(const char *path, char ret_path[static DZ_PATH_MAX], struct dz_err *err)
{
    char found[DZ_PATH_MAX];
    const char *below = "";
    if (!path && (path = absolute("XDG_DATA_HOME")))
        below = "/doze";
    if (!path && (path = absolute("HOME")))
        below = "/.local/share/doze";
    if (!path)
        path = "/var/lib/doze";
    int n = snprintf(found, sizeof found, "%s%s", path, below);
    if (n < 0 || n >= DZ_PATH_MAX)
        return too_long(err);
    return make_absolute(found, ret_path, err);
}

int dz_cli_data_dir(const char *given, char ret_path[static DZ_PATH_MAX], struct dz_err *err)
{
    if (given && !given[0])
        return dz_fail(err, DZ_EINVAL, "the data directory has an empty name");
    return data_dir(given ? given : set("DOZE_DATA"), ret_path, err);
}

bool dz_cli_data_dir_is_default(const char *path)
{
    char usual[DZ_PATH_MAX];
    return data_dir(NULL, usual, NULL) == 0 && strcmp(path, usual) == 0;
}
