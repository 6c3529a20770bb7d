/* SPDX-License-Identifier: MIT
 *
 * `doze help`, and every text about a command, made from the table.
 */
#include "cli/cli_help.h"

#include "base/str.h"
#include "cli/cli_commands.h"
#include "cli/cli_term.h"

#include <string.h>

enum {
    OPTION_WIDTH = 24, /* columns of an option; the text of a longer one begins on the next line */
    OPTION_MAX = 80,
    TEXT_COLUMN = OPTION_WIDTH + 3, /* where the text of an option begins */
    LINE_MAX_COLUMNS = 79,          /* a terminal of 80 columns does not wrap it */
};

/* As wide as the longest name, so that all summaries are aligned. */
static int name_width(void)
{
    size_t most = 0;
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++)
        most = strlen((*c)->name) > most ? strlen((*c)->name) : most;
    return (int)most;
}

static void print_row(FILE *out, const struct dz_cli_command *cmd, bool color)
{
    fprintf(out, "  %s%-*s%s  %s\n", dz_cli_sgr(color, DZ_CLI_BOLD), name_width(), cmd->name,
            dz_cli_sgr_end(color, DZ_CLI_BOLD), cmd->summary);
}

void dz_cli_help_list(FILE *out, bool color)
{
    static const char *const headings[] = {
#define X(name, heading) heading,
        DZ_CLI_GROUPS(X)
#undef X
    };
    fputs("usage: doze COMMAND [OPTION...] [ARGUMENT...]\n", out);
    for (size_t g = 0; g < DZ_ARRAY_LEN(headings); g++) {
        bool headed = false;
        for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
            if ((*c)->group != g)
                continue;
            if (!headed)
                fprintf(out, "\n%s\n", headings[g]);
            headed = true;
            print_row(out, *c, color);
        }
    }
    fputs(" `doze help COMMAND` explains one of them; `doze --version` prints the version.\n", out);
}

void dz_cli_help_prefix(FILE *out, bool color, const char *word)
{
    size_t n = strlen(word);
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++)
        if (strncmp((*c)->name, word, n) == 0 && (*c)->name[n] == ' ')
            print_row(out, *c, color);
}

static void print_usage(FILE *out, const struct dz_cli_command *cmd)
{
    fprintf(out, "usage: doze %s%s%s%s\n", cmd->name, cmd->options ? " [OPTION...]" : "",
            cmd->args[0] ? " " : "", cmd->args);
}

/* Print the text of an option from column TEXT_COLUMN on, broken between words. */
static void print_text(FILE *out, const char *text)
{
    int column = TEXT_COLUMN;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column > TEXT_COLUMN && column + 1 + n > LINE_MAX_COLUMNS) {
            fprintf(out, "\n%*s", TEXT_COLUMN, "");
            column = TEXT_COLUMN;
        }
        column += fprintf(out, "%s%.*s", column > TEXT_COLUMN ? " " : "", n, text);
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_option(FILE *out, const struct dz_cli_option *o)
{
    char left[OPTION_MAX];
    (void)snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ',
                   o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
                   o->arg && !dz_cli_may_lack_argument(o) ? "=" : "", o->arg ? o->arg : "");
    if (strlen(left) > OPTION_WIDTH)
        fprintf(out, "  %s\n%*s", left, TEXT_COLUMN, "");
    else
        fprintf(out, "  %-*s ", OPTION_WIDTH, left);
    print_text(out, o->help);
}

void dz_cli_help_command(FILE *out, bool color, const struct dz_cli_command *cmd)
{
    static const struct dz_cli_option help = {"help", 'h', NULL, "print this help"};
    print_usage(out, cmd);
    fprintf(out, "\ndoze %s%s%s: %s.\n", dz_cli_sgr(color, DZ_CLI_BOLD), cmd->name,
            dz_cli_sgr_end(color, DZ_CLI_BOLD), cmd->summary);
    if (cmd->help && cmd->help[0])
        fprintf(out, "\n%s", cmd->help);
    fputs("\nOptions\n", out);
    for (const struct dz_cli_option *o = cmd->options; o && o->name; o++)
        print_option(out, o);
    print_option(out, &help);
}

static int help_all(struct dz_cli *c)
{
    for (const struct dz_cli_command *const *cmd = dz_cli_commands; *cmd; cmd++) {
        if (cmd != dz_cli_commands)
            fputs("\n", c->out);
        dz_cli_help_command(c->out, c->out_color, *cmd);
    }
    return DZ_EXIT_OK;
}

static int run(struct dz_cli *c, struct dz_err *err)
{
    int words = 0;
    const char *man = dz_cli_value(c, "man");
    if (man)
        return dz_cli_man(man, err);
    if (dz_cli_flag(c, "all"))
        return help_all(c);
    if (c->argc == 0) {
        dz_cli_help_list(c->out, c->out_color);
        return DZ_EXIT_OK;
    }
    const struct dz_cli_command *cmd = dz_cli_command_find(c->argc, c->argv, &words);
    if (cmd && words == c->argc) {
        dz_cli_help_command(c->out, c->out_color, cmd);
        return DZ_EXIT_OK;
    }
    if (c->argc == 1 && dz_cli_command_is_prefix(c->argv[0])) {
        dz_cli_help_prefix(c->out, c->out_color, c->argv[0]);
        return DZ_EXIT_OK;
    }
    char text[DZ_CLI_NAME_MAX], quoted[DZ_STR_QUOTED];
    const char *near = dz_cli_command_nearest(c->argc, c->argv, text);
    (void)dz_str_quote(dz_str(c->argv[c->argc - 1]), quoted);
    return dz_cli_usage(c, err, "unknown command %s%s%s%s", quoted, near ? "; did you mean \"" : "",
                        near ? near : "", near ? "\"?" : "; doze help lists them");
}

const struct dz_cli_command dz_cmd_help = {
    .name = "help",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "list the commands, or explain one",
    .args = "[COMMAND]",
    .max_args = DZ_CLI_WORDS_MAX,
    .options =
        (const struct dz_cli_option[]){
            {"all", 'a', NULL, "explain every command"},
            {"man", 0, "DIR", "write the manual pages of all commands into DIR"},
            DZ_CLI_OPTION_END,
        },
    .help = "`doze COMMAND --help` prints the same.\n"
            "\n"
            "Every command exits with 0 on success, 1 on failure (one line on standard error\n"
            "says what was tried, on what, and what to do) and 2 if the command line is\n"
            "wrong.\n",
    .run = run,
};
