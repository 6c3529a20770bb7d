/* SPDX-License-Identifier: MIT
 *
 * The table of commands and how a command line finds its row: the longest name
 * that is made of the first words wins, so `disk ls` is found before a `disk`.
 */
#include "cli/cli_commands.h"

#include <string.h>

const struct dz_cli_command *const dz_cli_commands[] = {
#define X(id) &dz_cmd_##id,
    DZ_CLI_COMMANDS(X)
#undef X
        NULL,
};

/* How many words `name` has if argv starts with them all, else 0. */
static int match(const char *name, int argc, char **argv)
{
    int words = 0;
    for (;; words++) {
        size_t n = strcspn(name, " ");
        if (words == argc || strlen(argv[words]) != n || memcmp(argv[words], name, n) != 0)
            return 0;
        if (name[n] == '\0')
            return words + 1;
        name += n + 1;
    }
}

const struct dz_cli_command *dz_cli_command_find(int argc, char **argv, int *ret_words)
{
    const struct dz_cli_command *found = NULL;
    int best = 0;
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
        int words = match((*c)->name, argc, argv);
        if (words > best) {
            best = words;
            found = *c;
        }
    }
    if (found)
        *ret_words = best;
    return found;
}

bool dz_cli_command_is_prefix(const char *word)
{
    size_t n = strlen(word);
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++)
        if (strncmp((*c)->name, word, n) == 0 && (*c)->name[n] == ' ')
            return true;
    return false;
}
