/* SPDX-License-Identifier: MIT
 *
 * cli_help.h - help texts made from the table of commands.
 */
#ifndef DZ_CLI_HELP_H
#define DZ_CLI_HELP_H

#include "cli/cli.h"

/* Print all commands in groups, one line each. */
void dz_cli_help_list(FILE *out, bool color);

/* Print the commands whose first word is `word`, one line each. */
void dz_cli_help_prefix(FILE *out, bool color, const char *word);

/* Print the help of one command: usage, summary, text, options. */
void dz_cli_help_command(FILE *out, bool color, const struct dz_cli_command *cmd);

/* Write the manual pages of all commands and of doze.ini into a directory (local_man.c). */
DZ_NODISCARD int dz_cli_man(const char *dir, struct dz_err *err);

#endif
