/* SPDX-License-Identifier: MIT */
#include "cli_run.h"
#include "tap.h"

#include "cli/cli_commands.h"

#define AUTO_RESULT __attribute__((cleanup(cli_result_release))) struct cli_result

TEST(main_without_words_lists_the_commands_and_fails)
{
    AUTO_RESULT r = CLI_RUN();
    CHECK_INT(r.status, DZ_EXIT_USAGE);
    CHECK_STR(r.out, "");
    CHECK(strstr(r.err, "usage: doze COMMAND"));
}

/* Where the summary of a command begins in its line of the list. */
static long column_of(const char *list, const char *name, const char *summary)
{
    const char *row = strstr(list, name), *text = row ? strstr(row, summary) : NULL;
    return text ? text - row : -1;
}

TEST(main_lists_in_columns)
{
    AUTO_RESULT r = CLI_RUN("help");
    long at = column_of(r.out, "\n  help ", "list the commands");
    CHECK(at > 0);
    CHECK_INT(column_of(r.out, "\n  registry set-state ", "set a sandbox"), at);
    CHECK_INT(column_of(r.out, "\n  registry register ", "add a sandbox"), at);
}

TEST(main_prints_the_version)
{
    AUTO_RESULT r = CLI_RUN("--version");
    CHECK_INT(r.status, 0);
    CHECK_STR(r.out, "doze " DZ_VERSION "\n");
}

TEST(main_refuses_an_unknown_command_in_one_line)
{
    AUTO_RESULT r = CLI_RUN("nonsense");
    CHECK_INT(r.status, DZ_EXIT_USAGE);
    CHECK_STR(r.out, "");
    CHECK(strncmp(r.err, "doze: unknown command \"nonsense\"", 32) == 0);
    CHECK(strchr(r.err, '\n') == r.err + strlen(r.err) - 1);
}

TEST(main_refuses_an_unknown_option_by_name)
{
    AUTO_RESULT r = CLI_RUN("help", "--nonsense");
    CHECK_INT(r.status, DZ_EXIT_USAGE);
    CHECK(strstr(r.err, "help: unknown option \"--nonsense\""));
    AUTO_RESULT s = CLI_RUN("help", "-z");
    CHECK_INT(s.status, DZ_EXIT_USAGE);
    CHECK(strstr(s.err, "help: unknown option \"-z\""));
    AUTO_RESULT t = CLI_RUN("help", "--all=yes");
    CHECK_INT(t.status, DZ_EXIT_USAGE);
    CHECK(strstr(t.err, "help: option --all takes no argument"));
}

TEST(some_options_may_stand_before_the_command)
{
    AUTO_RESULT before = CLI_RUN("--json", "wasm", "info", "/nowhere");
    AUTO_RESULT behind = CLI_RUN("wasm", "info", "--json", "/nowhere");
    CHECK_INT(before.status, DZ_EXIT_FAILURE);
    CHECK(strstr(before.err, "/nowhere"));
    CHECK_STR(before.err, behind.err);
    AUTO_RESULT none = CLI_RUN("--json", "-q", "help");
    CHECK_INT(none.status, DZ_EXIT_USAGE);
    CHECK(strstr(none.err, "help: unknown option \"--json\""));
    AUTO_RESULT first = CLI_RUN("--help", "disk", "ls"), last = CLI_RUN("disk", "ls", "--help");
    CHECK_INT(first.status, 0);
    CHECK_STR(first.out, last.out);
    AUTO_RESULT prefix = CLI_RUN("-h", "disk"), group = CLI_RUN("disk", "-h");
    CHECK_INT(prefix.status, 0);
    CHECK_STR(prefix.out, group.out);
    AUTO_RESULT list = CLI_RUN("--json");
    CHECK_INT(list.status, DZ_EXIT_USAGE);
    CHECK(strstr(list.err, "usage: doze COMMAND"));
    AUTO_RESULT other = CLI_RUN("--data=/x", "ls");
    CHECK_INT(other.status, DZ_EXIT_USAGE);
    CHECK(strstr(other.err, "unknown option \"--data=/x\" before the command"));
}

TEST(main_names_the_nearest_command_and_option)
{
    AUTO_RESULT r = CLI_RUN("hlep");
    CHECK_STR(r.err, "doze: unknown command \"hlep\"; did you mean \"help\"?\n");
    AUTO_RESULT cut = CLI_RUN("compl");
    CHECK_STR(cut.err, "doze: unknown command \"compl\"; did you mean \"completion\"?\n");
    AUTO_RESULT s = CLI_RUN("help", "--aal");
    CHECK_STR(s.err, "doze: help: unknown option \"--aal\"; did you mean --all?\n");
    AUTO_RESULT t = CLI_RUN("help", "competion");
    CHECK_INT(t.status, DZ_EXIT_USAGE);
    CHECK_STR(t.err, "doze: help: unknown command \"competion\"; did you mean \"completion\"?\n");
}

TEST(main_shows_no_control_characters)
{
    AUTO_RESULT r = CLI_RUN("\033[31mred");
    CHECK_INT(r.status, DZ_EXIT_USAGE);
    CHECK(!strchr(r.err, '\033'));
    AUTO_RESULT s = CLI_RUN("help", "--\033x");
    CHECK(!strchr(s.err, '\033'));
    AUTO_RESULT t = CLI_RUN("completion", "a\nb");
    CHECK_INT(t.status, DZ_EXIT_USAGE);
    CHECK(strchr(t.err, '\n') == t.err + strlen(t.err) - 1);
}

TEST(main_counts_the_operands)
{
    AUTO_RESULT few = CLI_RUN("completion");
    CHECK_INT(few.status, DZ_EXIT_USAGE);
    CHECK(strstr(few.err, "SHELL is missing; usage: doze completion"));
    AUTO_RESULT many = CLI_RUN("completion", "bash", "extra");
    CHECK_INT(many.status, DZ_EXIT_USAGE);
    CHECK(strstr(many.err, "unexpected argument \"extra\""));
}

TEST(table_rows_are_whole)
{
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
        const struct dz_cli_command *cmd = *c;
        CHECK(cmd->name && cmd->summary && cmd->args && cmd->help && cmd->run);
        CHECK(cmd->summary[0] >= 'a' && cmd->summary[0] <= 'z');
        CHECK(cmd->summary[strlen(cmd->summary) - 1] != '.');
        CHECK(cmd->help[0] == '\0' || cmd->help[strlen(cmd->help) - 1] == '\n');
        CHECK(cmd->max_args < 0 || cmd->max_args >= cmd->min_args);
        for (const char *line = cmd->help; line[0]; line += strcspn(line, "\n") + 1)
            CHECK(strcspn(line, "\n") < 80); /* of a terminal */
        for (const struct dz_cli_option *o = cmd->options; o && o->name; o++)
            CHECK(o->help && o->help[0] && o->letter != 'h' && strcmp(o->name, "help") != 0);
    }
}

TEST(help_tells_the_same_in_both_spellings)
{
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
        char first[64], *rest;
        (void)snprintf(first, sizeof first, "%s", (*c)->name);
        rest = strchr(first, ' ');
        if (rest)
            *rest++ = '\0';
        AUTO_RESULT help = rest ? CLI_RUN("help", first, rest) : CLI_RUN("help", first);
        AUTO_RESULT option = rest ? CLI_RUN(first, rest, "--help") : CLI_RUN(first, "--help");
        CHECK_INT(help.status, 0);
        CHECK_INT(option.status, 0);
        CHECK_STR(help.out, option.out);
        CHECK(strstr(help.out, (*c)->summary));
    }
}
