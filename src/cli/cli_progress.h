/* SPDX-License-Identifier: MIT
 *
 * cli_progress.h - a progress line for long commands, on a terminal only.
 *
 *     struct dz_cli_progress p;
 *     dz_cli_progress_start(&p, c, "import src.tar", total_bytes, DZ_CLI_BYTES);
 *     while (...)
 *         dz_cli_progress_at(&p, done_bytes);
 *     dz_cli_progress_end(&p);
 *
 * One line on standard error, drawn again at most ten times a second and only
 * once the command has taken a while; end removes it. Ctrl-C leaves it finished
 * (cli_signal). Nothing is drawn with -q, or where a line cannot be redrawn.
 */
#ifndef DZ_CLI_CLI_PROGRESS_H
#define DZ_CLI_CLI_PROGRESS_H

#include "cli/cli.h"

#include <stdint.h>

enum dz_cli_unit {
    DZ_CLI_COUNT,
    DZ_CLI_BYTES,
};

struct dz_cli_progress {
    struct dz_cli *cli;
    const char *what; /* borrowed */
    uint64_t total;   /* 0: not known */
    enum dz_cli_unit unit;
    int64_t started_ms;
    int64_t next_ms; /* earliest time of the next drawing */
    bool drawn;
};

void dz_cli_progress_start(struct dz_cli_progress *p, struct dz_cli *c, const char *what,
                           uint64_t total, enum dz_cli_unit unit);
void dz_cli_progress_at(struct dz_cli_progress *p, uint64_t done); /* cheap: call it often */
void dz_cli_progress_end(struct dz_cli_progress *p);

#endif
