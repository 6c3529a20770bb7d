/* SPDX-License-Identifier: MIT
 *
 * cli_parse.h - a command line against a command's row.
 */
#ifndef DZ_CLI_PARSE_H
#define DZ_CLI_PARSE_H

#include "cli/cli.h"

/* One option as it was given. */
struct dz_cli_given {
    const struct dz_cli_option *option;
    const char *value; /* NULL for one that takes none */
};

/* Parse argv (argv[0] is not looked at) by c->command: fills c->given and the
 * operands. *ret_help: -h or --help was given, and nothing else was checked.
 * DZ_EINVAL with a sentence for what the row does not allow; DZ_ENOMEM.
 * c->given is to be freed by dz_cli_parse_release in every case. */
DZ_NODISCARD int dz_cli_parse(struct dz_cli *c, int argc, char **argv, bool *ret_help,
                              struct dz_err *err);
void dz_cli_parse_release(struct dz_cli *c);

#endif
