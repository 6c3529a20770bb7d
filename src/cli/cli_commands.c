/* SPDX-License-Identifier: MIT
 *
 * The table of commands and how a command line finds its row: the longest name
 * that is made of the first words wins, so `disk ls` is found before a `disk`.
 */
#include "cli/cli_commands.h"

#include "base/str.h"

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

#define CUT_MIN       3 /* letters of an abbreviated name that suffice to suggest the name */
#define COMMAND_COUNT (DZ_ARRAY_LEN(dz_cli_commands) - 1)

/* The first `words` words of every name. */
struct heads {
    char text[COMMAND_COUNT][DZ_CLI_NAME_MAX];
    const char *names[COMMAND_COUNT];
};

/* Bytes of the first `words` words, or of all if there are fewer. */
static size_t head_length(const char *name, int words)
{
    size_t n = strcspn(name, " ");
    while (--words > 0 && name[n])
        n += 1 + strcspn(name + n + 1, " ");
    return n;
}

static void fill_heads(struct heads *h, int words)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const char *name = dz_cli_commands[i]->name;
        (void)snprintf(h->text[i], sizeof h->text[i], "%.*s", (int)head_length(name, words), name);
        h->names[i] = h->text[i];
    }
}

/* Suggest `disk ls` for `ls`, or the whole name for an abbreviated one. */
static const char *part_of_name(const char *word)
{
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
        const char *last = strrchr((*c)->name, ' ');
        if (last && strcmp(last + 1, word) == 0)
            return (*c)->name;
    }
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++)
        if (strlen(word) >= CUT_MIN && strncmp((*c)->name, word, strlen(word)) == 0)
            return (*c)->name;
    return NULL;
}

const char *dz_cli_command_nearest(int argc, char **argv, char ret_text[static DZ_CLI_NAME_MAX])
{
    struct heads h;
    char typed[2 * DZ_CLI_NAME_MAX];
    bool prefixed = argc > 1 && dz_cli_command_is_prefix(argv[0]);

    (void)snprintf(typed, sizeof typed, "%s%s%s", argv[0], prefixed ? " " : "",
                   prefixed ? argv[1] : "");
    fill_heads(&h, prefixed ? 2 : 1);
    size_t at = dz_str_nearest(dz_str(typed), h.names, COMMAND_COUNT);
    if (at == DZ_STR_NONE)
        return part_of_name(prefixed ? typed : argv[0]);
    (void)snprintf(ret_text, DZ_CLI_NAME_MAX, "%s", h.text[at]);
    return ret_text;
}
