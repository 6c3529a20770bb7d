/* SPDX-License-Identifier: MIT
 *
 * `doze daemon`: run the daemon in the foreground.
 */
#include "cli/cli.h"
#include "cli/local_config.h"
#include "daemon/daemon.h"

static int run(struct dz_cli *c, struct dz_err *err)
{
    struct dz_config config;
    int rc = dz_cli_config(c, true, &config, err);
    if (rc < 0)
        return rc;
    rc = dz_daemon_run(&config, err);
    dz_config_release(&config);
    return rc;
}

const struct dz_cli_command dz_cmd_daemon = {
    .name = "daemon",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "run the daemon in the foreground",
    .args = "",
    .options =
        (const struct dz_cli_option[]){
            DZ_CLI_OPTION_CONFIG,
#define X(section, key, type, initial, min, max, flags, option, argument, help) \
    {option, 0, argument, help},
            DZ_CONFIG_SETTINGS(X)
#undef X
                DZ_CLI_OPTION_END,
        },
    .help = "Only the owner can reach the socket. One daemon runs on a data directory.\n"
            "SIGTERM and SIGINT suspend every sandbox, then the daemon exits; sandboxes that\n"
            "were awake when a daemon died are asleep when the next one starts. The daemon\n"
            "logs to standard error, one line for each event. SIGHUP makes it read its\n"
            "settings again.\n\n"
            "Every setting has an option, an environment variable and a key in the file:\n"
            "`doze config` shows the values in force and where they come from, `doze config\n"
            "defaults` explains each.\n",
    .run = run,
};
