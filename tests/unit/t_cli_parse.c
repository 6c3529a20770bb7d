/* SPDX-License-Identifier: MIT
 *
 * Options against a table made for the purpose.
 */
#include "cli/cli_parse.h"
#include "tap.h"

static const struct dz_cli_option options[] = {
    {"all", 'a', NULL, "x"},   {"env", 'e', "NAME=VALUE", "x"},
    {"entry", 0, "NAME", "x"}, {"log", 0, "[=FILE]", "x"},
    DZ_CLI_OPTION_JSON,        DZ_CLI_OPTION_QUIET,
    DZ_CLI_OPTION_END};
static const struct dz_cli_command any = {
    .name = "any", .args = "[X...]", .max_args = -1, .options = options};
static const struct dz_cli_command rest = {.name = "rest",
                                           .args = "PROG [ARG...]",
                                           .min_args = 1,
                                           .max_args = -1,
                                           .flags = DZ_CLI_REST,
                                           .options = options};

static const struct dz_cli_command led = {.name = "led",
                                          .args = "[PLACE] PROG [ARG...]",
                                          .min_args = 1,
                                          .max_args = -1,
                                          .flags = DZ_CLI_REST,
                                          .lead = 1,
                                          .instead_of_lead = (const char *const[]){"entry", NULL},
                                          .options = options};

#define WORDS_MAX 16
struct parsed {
    struct dz_cli c;
    struct dz_err err;
    int rc;
    bool help;
    char text[WORDS_MAX][32];
    char *argv[WORDS_MAX + 1];
};

static void parse(struct parsed *p, const struct dz_cli_command *cmd, const char *const *words)
{
    int argc = 0;
    *p = (struct parsed){.c.command = cmd};
    for (; words[argc]; argc++) {
        (void)snprintf(p->text[argc], sizeof p->text[argc], "%s", words[argc]);
        p->argv[argc] = p->text[argc];
    }
    p->rc = dz_cli_parse(&p->c, argc, p->argv, &p->help, &p->err);
}
#define PARSE(p, cmd, ...) \
    parse(p, cmd, (const char *const[]){"x" __VA_OPT__(, ) __VA_ARGS__, NULL})

TEST(parse_takes_an_option_that_may_lack_its_argument)
{
    struct parsed p;
    PARSE(&p, &any, "--log", "one");
    CHECK_INT(p.rc, 0);
    CHECK(dz_cli_flag(&p.c, "log") && dz_cli_value(&p.c, "log") == NULL);
    CHECK_INT(p.c.argc, 1); /* the next word is not its argument */
    dz_cli_parse_release(&p.c);
    PARSE(&p, &any, "--log=file");
    CHECK(p.rc == 0 && dz_cli_flag(&p.c, "log"));
    CHECK_STR(dz_cli_value(&p.c, "log"), "file");
    dz_cli_parse_release(&p.c);
    PARSE(&p, &any, "one");
    CHECK(!dz_cli_flag(&p.c, "log"));
    dz_cli_parse_release(&p.c);
}

TEST(parse_takes_options_anywhere_and_in_every_form)
{
    struct parsed p;
    PARSE(&p, &any, "one", "-a", "two", "--env=A=1", "-eB=2", "--env", "C=3", "three", "--json");
    CHECK_INT(p.rc, 0);
    CHECK_INT(p.c.argc, 3);
    CHECK_STR(p.c.argv[0], "one");
    CHECK_STR(p.c.argv[2], "three");
    CHECK(p.c.argv[3] == NULL);
    CHECK(dz_cli_flag(&p.c, "all") && p.c.json && !p.c.quiet);
    CHECK_STR(dz_cli_value_at(&p.c, "env", 0), "A=1");
    CHECK_STR(dz_cli_value_at(&p.c, "env", 1), "B=2");
    CHECK_STR(dz_cli_value(&p.c, "env"), "C=3");
    CHECK(dz_cli_value_at(&p.c, "env", 3) == NULL);
    CHECK(dz_cli_value(&p.c, "entry") == NULL);
    dz_cli_parse_release(&p.c);
}

TEST(parse_joins_letters_and_ends_at_two_dashes)
{
    struct parsed p;
    PARSE(&p, &any, "-aqe", "V", "--", "-a", "--nonsense");
    CHECK_INT(p.rc, 0);
    CHECK(p.c.quiet && dz_cli_flag(&p.c, "all"));
    CHECK_STR(dz_cli_value(&p.c, "env"), "V");
    CHECK_INT(p.c.argc, 2);
    CHECK_STR(p.c.argv[1], "--nonsense");
    dz_cli_parse_release(&p.c);
}

TEST(parse_leaves_the_rest_alone_when_the_row_says_so)
{
    struct parsed p;
    PARSE(&p, &rest, "-a", "prog", "-x", "--json", "--help");
    CHECK_INT(p.rc, 0);
    CHECK(!p.help && !p.c.json && dz_cli_flag(&p.c, "all"));
    CHECK_INT(p.c.argc, 4);
    CHECK_STR(p.c.argv[0], "prog");
    dz_cli_parse_release(&p.c);
}

static void check_refused(const struct dz_cli_command *cmd, const char *first, const char *second,
                          const char *want)
{
    struct parsed p;
    PARSE(&p, cmd, first, second);
    CHECK_INT(p.rc, DZ_EINVAL);
    CHECK_STR(p.err.msg, want);
    dz_cli_parse_release(&p.c);
}

/* The operands and the value of --env, as one text. */
static const char *seen(const struct parsed *p, char text[static 128])
{
    size_t n = (size_t)snprintf(
        text, 128, "%s:", dz_cli_value(&p->c, "env") ? dz_cli_value(&p->c, "env") : "");
    for (int i = 0; i < p->c.argc; i++)
        n += (size_t)snprintf(text + n, 128 - n, " %s", p->c.argv[i]);
    return text;
}
#define CHECK_SEEN(want, ...)              \
    do {                                   \
        struct parsed p_;                  \
        char text_[128];                   \
        PARSE(&p_, &led, __VA_ARGS__);     \
        CHECK_INT(p_.rc, 0);               \
        CHECK_STR(seen(&p_, text_), want); \
        dz_cli_parse_release(&p_.c);       \
    } while (0)

TEST(parse_takes_options_around_the_operands_before_what_is_run)
{
    CHECK_SEEN("1: place prog -e 2", "-e", "1", "place", "prog", "-e", "2");
    CHECK_SEEN("2: place prog -x", "place", "-a", "--env=2", "prog", "-x");
    CHECK_SEEN("2: place -x --env=3", "place", "-e", "2", "--", "-x", "--env=3");
    CHECK_SEEN(": place prog -e 2", "place", "--", "prog", "-e", "2");
    CHECK_SEEN(": place prog -a", "--", "place", "prog", "-a");
    CHECK_SEEN(": place prog -a", "--", "place", "--", "prog", "-a");
    CHECK_SEEN("--: place -- prog", "--env", "--", "place", "--", "--", "prog");
    CHECK_SEEN(": prog -a", "--entry", "e", "prog", "-a");
    CHECK_SEEN(": place", "place", "-a");
    check_refused(&led, "place", "-z",
                  "led: unknown option \"-z\"; doze help led lists the options");
}

TEST(parse_says_what_is_wrong)
{
    check_refused(&any, "--evn=3", NULL, "any: unknown option \"--evn\"; did you mean --env?");
    check_refused(&any, "-az", NULL, "any: unknown option \"-z\"; doze help any lists the options");
    check_refused(&any, "-e", NULL, "any: option --env requires an argument (NAME=VALUE)");
    check_refused(&any, "--entry", NULL, "any: option --entry requires an argument (NAME)");
    check_refused(&any, "--all=1", NULL, "any: option --all takes no argument");
    check_refused(&any, "--en=1", NULL,
                  "any: option \"--en\" is ambiguous; it matches --env and --entry");
    check_refused(&any, "-a", "--zzzzzz",
                  "any: unknown option \"--zzzzzz\"; doze help any lists the options");
    check_refused(&rest, "-a", NULL,
                  "rest: PROG is missing; usage: doze rest [OPTION...] PROG [ARG...]");
}

TEST(parse_accepts_an_abbreviation_that_is_unique)
{
    struct parsed p;
    PARSE(&p, &any, "--ent=x", "--js");
    CHECK_INT(p.rc, 0);
    CHECK_STR(dz_cli_value(&p.c, "entry"), "x");
    CHECK(p.c.json);
    dz_cli_parse_release(&p.c);
}

TEST(parse_stops_at_help)
{
    struct parsed p;
    PARSE(&p, &rest, "-a", "--help", "--nonsense");
    CHECK_INT(p.rc, 0);
    CHECK(p.help);
    dz_cli_parse_release(&p.c);
}

TEST(parse_can_be_repeated_in_one_process)
{
    for (int i = 0; i < 3; i++) {
        struct parsed p;
        PARSE(&p, &any, "one", "-a", "two");
        CHECK_INT(p.rc, 0);
        CHECK_INT(p.c.argc, 2);
        dz_cli_parse_release(&p.c);
        check_refused(&any, "--nonsense", "x",
                      "any: unknown option \"--nonsense\"; doze help any lists the options");
    }
}

TORTURE(parse_survives_every_allocation_failure)
{
    struct parsed p;
    PARSE(&p, &any, "one", "-a", "--env=1");
    CHECK(p.rc == 0 || p.rc == DZ_ENOMEM);
    dz_cli_parse_release(&p.c);
}
