/* SPDX-License-Identifier: MIT */
#include "cli/cli_pull.h"

#include "os/os_proc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int dz_cli_pull_when(struct dz_cli *c, const char *image, enum dz_cli_pull *ret_when,
                     struct dz_err *err)
{
    const char *when = dz_cli_value(c, "pull"), *url = getenv("DOZE_URL");
    const bool always = when && strcmp(when, "always") == 0;
    *ret_when = DZ_CLI_PULL_NO;
    if (when && !always && strcmp(when, "missing") != 0 && strcmp(when, "never") != 0)
        return dz_cli_usage(c, err, "--pull must be missing, always or never, not %s", when);
    if (!image || !strchr(image, '/') || (when && strcmp(when, "never") == 0))
        return 0;
    if (url && url[0]) /* the daemon elsewhere pulls its images itself */
        return 0;
    *ret_when = always ? DZ_CLI_PULL_FIRST : DZ_CLI_PULL_MISSING;
    return 0;
}

int dz_cli_pull(struct dz_cli *c, const char *image, struct dz_err *err)
{
    const char *argv[] = {"/proc/self/exe", "image", "pull", image, c->quiet ? "-q" : NULL, NULL};
    const struct dz_os_fd fds[] = {{0, STDIN_FILENO}, {1, STDERR_FILENO}, {2, STDERR_FILENO}};
    const struct dz_os_spawn_opts how = {.argv = argv, .fds = fds, .fd_count = DZ_ARRAY_LEN(fds)};
    struct dz_os_proc p = DZ_OS_PROC_NONE;
    struct dz_os_status status = {0};
    dz_cli_note(c, "pull %s", image);
    int rc = dz_os_spawn(&how, &p, err);
    if (rc == 0)
        rc = dz_os_proc_wait(&p, -1, &status, err);
    if (rc == 0 && status.exit_code != 0)
        rc = dz_fail(err, DZ_EIO, "the image %s could not be pulled", image);
    return rc;
}
