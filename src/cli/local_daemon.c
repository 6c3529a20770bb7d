/* SPDX-License-Identifier: MIT
 *
 * `doze daemon`: keep sandboxes, in the foreground.
 */
#include "base/limits.h"
#include "base/log.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/cli_env.h"
#include "daemon/daemon.h"
#include "registry/registry.h"

#include <unistd.h>

enum {
    AHEAD_MAX = 256,
};
#define AFTER_MAX_MS ((int64_t)365 * 24 * 3600 * 1000)

static int after(struct dz_cli *c, const char *option, int64_t *ret_ms, struct dz_err *err)
{
    const char *given = dz_cli_value(c, option);
    *ret_ms = DZ_LADDER_INHERIT;
    if (given && dz_duration_parse(dz_str(given), 1, AFTER_MAX_MS, ret_ms, err) < 0)
        return dz_cli_usage(c, err, "--%s wants a duration such as 15m, not %s", option, given);
    return 0;
}

static int read_log(struct dz_cli *c, struct dz_err *err)
{
    const char *given = dz_cli_value(c, "log-level");
    enum dz_log_level level = DZ_LOG_INFO;
    if (given && dz_log_level_parse(dz_str(given), &level, err) < 0)
        return dz_cli_usage(c, err, "--log-level wants error, warn, info or debug, not %s", given);
    dz_log_setup(STDERR_FILENO, level, dz_cli_flag(c, "log-json"));
    return 0;
}

static int run(struct dz_cli *c, struct dz_err *err)
{
    char data[DZ_PATH_MAX], registry[DZ_PATH_MAX];
    const char *ahead = dz_cli_value(c, "ahead");
    uint64_t cells = 0;
    struct dz_daemon_opts opts = {
        .data_path = data, .registry = registry, .socket_path = dz_cli_value(c, "socket")};
    int rc = read_log(c, err);
    if (rc == 0)
        rc = after(c, "suspend-after", &opts.ladder.suspend_ms, err);
    if (rc == 0)
        rc = after(c, "freeze-after", &opts.ladder.freeze_ms, err);
    if (rc == 0 && ahead && dz_num_u64(dz_str(ahead), 1, AHEAD_MAX, &cells, err) < 0)
        return dz_cli_usage(c, err, "--ahead wants a number from 1 to %d, not %s", AHEAD_MAX,
                            ahead);
    opts.ahead = (size_t)cells;
    if (rc == 0)
        rc = dz_cli_data_dir(dz_cli_value(c, "data"), data, err);
    if (rc == 0)
        rc = dz_registry_locate(dz_cli_value(c, "registry"), data, registry, err);
    return rc < 0 ? rc : dz_daemon_run(&opts, err);
}

const struct dz_cli_command dz_cmd_daemon = {
    .name = "daemon",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "keep sandboxes and answer the API, in the foreground",
    .args = "",
    .options =
        (const struct dz_cli_option[]){
            {"data", 0, "DIR", "keep all in this directory (default: DOZE_DATA)"},
            {"socket", 0, "PATH", "listen here (default: doze.sock in DIR)"},
            {"registry", 0, "FILE", "use this registry, in whatever place"},
            {"suspend-after", 0, "DURATION", "put to sleep what is idle so long (default 15m)"},
            {"freeze-after", 0, "DURATION", "freeze what sleeps so long (default 24h)"},
            {"ahead", 0, "N", "keep so many cells ready, of each image in use"},
            {"log-level", 0, "LEVEL", "log error, warn, info (default), debug"},
            {"log-json", 0, NULL, "log a JSON object a line"},
            DZ_CLI_OPTION_END,
        },
    .help = "Only the owner can reach the socket. One daemon runs on a data directory.\n"
            "SIGTERM and SIGINT put every sandbox to sleep, then the daemon ends; what was\n"
            "awake when it died is asleep when the next one starts. It logs to standard\n"
            "error, one line for each event.\n",
    .run = run,
};
