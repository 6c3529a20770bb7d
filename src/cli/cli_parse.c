/* SPDX-License-Identifier: MIT
 *
 * Parse options with getopt_long(3), whose tables are built here from the command's row. A long
 * option without a letter gets a value above every character, so that the value returned by getopt
 * identifies the row.
 *
 * getopt prints nothing (opterr = 0): its messages name neither the command
 * nor the nearest option.
 */
#include "cli/cli_parse.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <getopt.h>
#include <string.h>

#define OPTIONS_MAX 96  /* rows of the options of one command, --help included */
#define LONG_BASE   256 /* value of the first row's long name */
#define HELP_VALUE  (LONG_BASE - 1)

struct tables {
    struct option longs[OPTIONS_MAX + 1];
    char shorts[2 * OPTIONS_MAX + 4];
};

static bool is_end(const struct dz_cli_option *o)
{
    return !o || !o->name;
}

static void build(const struct dz_cli_command *cmd, struct tables *t)
{
    size_t n = 0, s = 0;
    memset(t, 0, sizeof *t);
    if (cmd->flags & DZ_CLI_REST)
        t->shorts[s++] = '+';
    t->shorts[s++] = ':'; /* tell a missing argument from an unknown option */
    t->shorts[s++] = 'h';
    for (const struct dz_cli_option *o = cmd->options; !is_end(o); o++, n++) {
        assert(n < OPTIONS_MAX - 1);
        t->longs[n] = (struct option){o->name,
                                      !o->arg                       ? no_argument
                                      : dz_cli_may_lack_argument(o) ? optional_argument
                                                                    : required_argument,
                                      NULL, LONG_BASE + (int)n};
        if (o->letter) {
            t->shorts[s++] = o->letter;
            if (o->arg)
                t->shorts[s++] = ':';
        }
    }
    t->longs[n] = (struct option){"help", no_argument, NULL, HELP_VALUE};
}

/* The row of the value that getopt returned, NULL if none. */
static const struct dz_cli_option *row_of(const struct dz_cli_command *cmd, int value)
{
    int n = 0;
    for (const struct dz_cli_option *o = cmd->options; !is_end(o); o++, n++)
        if (value == LONG_BASE + n || (value != 0 && value == o->letter))
            return o;
    return NULL;
}

/* Refuse an abbreviated option that matches two options; name both. */
static int ambiguous(const struct dz_cli_command *cmd, struct dz_str typed, const char *quoted,
                     struct dz_err *err)
{
    const char *first = NULL;
    for (const struct dz_cli_option *o = cmd->options; !is_end(o); o++) {
        if (!dz_str_starts(dz_str(o->name), typed))
            continue;
        if (first)
            return dz_fail(err, DZ_EINVAL, "%s: option %s is ambiguous; it matches --%s and --%s",
                           cmd->name, quoted, first, o->name);
        first = o->name;
    }
    return 0;
}

/* Refuse an unknown long option; name the nearest one. */
static int unknown_long(const struct dz_cli_command *cmd, const char *word, struct dz_err *err)
{
    const char *names[OPTIONS_MAX];
    char quoted[DZ_STR_QUOTED];
    size_t count = 0;
    struct dz_str typed = dz_str_n(word, strcspn(word, "="));

    (void)dz_str_quote(typed, quoted);
    (void)dz_str_eat(&typed, DZ_STR("--"));
    int rc = ambiguous(cmd, typed, quoted, err);
    if (rc < 0)
        return rc;
    for (const struct dz_cli_option *o = cmd->options; !is_end(o); o++)
        names[count++] = o->name;
    names[count++] = "help";
    size_t near = dz_str_nearest(typed, names, count);
    if (near != DZ_STR_NONE)
        return dz_fail(err, DZ_EINVAL, "%s: unknown option %s; did you mean --%s?", cmd->name,
                       quoted, names[near]);
    return dz_fail(err, DZ_EINVAL, "%s: unknown option %s; doze help %s lists the options",
                   cmd->name, quoted, cmd->name);
}

/* Refuse an unknown one-letter option. */
static int unknown_letter(const struct dz_cli_command *cmd, int letter, struct dz_err *err)
{
    char option[2] = {'-', (char)letter}, quoted[DZ_STR_QUOTED];
    (void)dz_str_quote(dz_str_n(option, sizeof option), quoted);
    return dz_fail(err, DZ_EINVAL, "%s: unknown option %s; doze help %s lists the options",
                   cmd->name, quoted, cmd->name);
}

/* Refuse a word for which getopt returned '?' or ':'. */
static int refuse(const struct dz_cli_command *cmd, int what, const char *word, struct dz_err *err)
{
    const struct dz_cli_option *row = row_of(cmd, optopt);
    if (what == ':' && row)
        return dz_fail(err, DZ_EINVAL, "%s: option --%s requires an argument (%s)", cmd->name,
                       row->name, row->arg);
    if (row || optopt == HELP_VALUE)
        return dz_fail(err, DZ_EINVAL, "%s: option --%s takes no argument", cmd->name,
                       row ? row->name : "help");
    if (optopt != 0)
        return unknown_letter(cmd, optopt, err);
    return unknown_long(cmd, word, err);
}

/* The name of the first missing operand; options and operands in brackets are optional. */
static void say_missing(const struct dz_cli *c, char *what, size_t size)
{
    const char *word = c->command->args + strspn(c->command->args, " ");
    int left = c->argc;
    while (*word && (*word == '[' || left-- > 0)) {
        word += strcspn(word, " ");
        word += strspn(word, " ");
    }
    size_t n = strcspn(word, " .");
    if (n > 0)
        (void)snprintf(what, size, "%.*s is missing", (int)n, word);
    else
        (void)snprintf(what, size, "too few arguments");
}

static int check_operands(const struct dz_cli *c, struct dz_err *err)
{
    const struct dz_cli_command *cmd = c->command;
    char quoted[DZ_STR_QUOTED], what[DZ_STR_QUOTED + 32];

    if (c->argc < cmd->min_args)
        say_missing(c, what, sizeof what);
    else if (cmd->max_args >= 0 && c->argc > cmd->max_args)
        (void)snprintf(what, sizeof what, "unexpected argument %s",
                       dz_str_quote(dz_str(c->argv[cmd->max_args]), quoted));
    else
        return 0;
    return dz_fail(err, DZ_EINVAL, "%s: %s; usage: doze %s%s%s%s", cmd->name, what, cmd->name,
                   cmd->options ? " [OPTION...]" : "", cmd->args[0] ? " " : "", cmd->args);
}

static bool given(const struct dz_cli *c, const char *name)
{
    for (int i = 0; i < c->given_count; i++)
        if (strcmp(c->given[i].option->name, name) == 0)
            return true;
    return false;
}

/* How many operands come before the command to run. */
static int lead_of(const struct dz_cli *c)
{
    for (const char *const *o = c->command->instead_of_lead; o && *o; o++)
        if (given(c, *o))
            return 0;
    return c->command->lead;
}

/* getopt has stopped at a word. If the word is an operand that comes before the command to run,
 * options may follow it: move the word to the front, behind the `taken` operands moved earlier,
 * and let getopt continue after it. */
static bool take_lead(const struct dz_cli *c, int argc, char **argv, bool dashes, int taken)
{
    if (!(c->command->flags & DZ_CLI_REST) || dashes || optind >= argc || taken >= lead_of(c))
        return false;
    char *word = argv[optind];
    memmove(argv + taken + 2, argv + taken + 1, (size_t)(optind - taken - 1) * sizeof *argv);
    argv[taken + 1] = word;
    optind++;
    return true;
}

/* Join the operands that were moved to the front with the rest. */
static void put_operands(struct dz_cli *c, int argc, char **argv, bool dashes, int taken)
{
    int rest = optind, lead = lead_of(c);
    /* `doze exec -- SANDBOX -- COMMAND` */
    if ((c->command->flags & DZ_CLI_REST) && dashes && taken < lead && rest + lead - taken < argc &&
        strcmp(argv[rest + lead - taken], "--") == 0) {
        memmove(argv + rest + 1, argv + rest, (size_t)(lead - taken) * sizeof *argv);
        rest++;
    }
    memmove(argv + rest - taken, argv + 1, (size_t)taken * sizeof *argv);
    c->argc = argc - rest + taken;
    c->argv = argv + rest - taken;
}

int dz_cli_parse(struct dz_cli *c, int argc, char **argv, bool *ret_help, struct dz_err *err)
{
    struct tables t;
    bool help = false, dashes = false;
    int taken = 0;
    assert(argc >= 1);
    build(c->command, &t);
    c->given = dz_zalloc((size_t)argc * sizeof *c->given);
    if (!c->given)
        return dz_fail(err, DZ_ENOMEM, "%s: out of memory for %d words", c->command->name, argc);
    opterr = 0;
    optind = 0; /* 0 makes glibc start afresh */
    while (!help) {
        int before = optind ? optind : 1, value = getopt_long(argc, argv, t.shorts, t.longs, NULL);
        if (value == '?' || value == ':')
            return refuse(c->command, value, argv[optind - 1], err);
        if (value == -1) {
            dashes = optind > before && strcmp(argv[optind - 1], "--") == 0;
            if (!take_lead(c, argc, argv, dashes, taken))
                break;
            taken++;
            continue;
        }
        help = value == 'h' || value == HELP_VALUE;
        if (!help)
            c->given[c->given_count++] = (struct dz_cli_given){row_of(c->command, value), optarg};
    }
    put_operands(c, argc, argv, dashes, taken);
    c->quiet = given(c, "quiet");
    c->json = given(c, "json");
    *ret_help = help;
    return help ? 0 : check_operands(c, err);
}

void dz_cli_parse_release(struct dz_cli *c)
{
    dz_free(c->given);
    c->given = NULL;
    c->given_count = 0;
}

static bool has_option(const struct dz_cli_command *cmd, const char *name)
{
    for (const struct dz_cli_option *o = cmd->options; !is_end(o); o++)
        if (strcmp(o->name, name) == 0)
            return true;
    return false;
}

bool dz_cli_flag(const struct dz_cli *c, const char *name)
{
    assert(has_option(c->command, name));
    return given(c, name);
}

const char *dz_cli_value_at(const struct dz_cli *c, const char *name, int n)
{
    assert(has_option(c->command, name));
    for (int i = 0; i < c->given_count; i++)
        if (strcmp(c->given[i].option->name, name) == 0 && n-- == 0)
            return c->given[i].value;
    return NULL;
}

const char *dz_cli_value(const struct dz_cli *c, const char *name)
{
    const char *last = NULL;
    assert(has_option(c->command, name));
    for (int i = 0; i < c->given_count; i++)
        if (strcmp(c->given[i].option->name, name) == 0)
            last = c->given[i].value;
    return last;
}
