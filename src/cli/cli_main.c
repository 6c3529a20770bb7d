/* SPDX-License-Identifier: MIT
 *
 * One command line from words to exit status: find the row, parse the options,
 * run, report. What is printed about errors is printed here and nowhere else.
 */
#include "base/str.h"
#include "cli/cli_commands.h"
#include "cli/cli_help.h"
#include "cli/cli_parse.h"
#include "cli/cli_signal.h"
#include "cli/cli_term.h"
#include "os/os_jail.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_MAX 1024

/* Print an error as one line, without characters that steer a terminal, because the sentence may
 * quote anything. */
DZ_PRINTF(2, 0)
static void print_line(struct dz_cli *c, const char *fmt, va_list ap)
{
    char text[MESSAGE_MAX];
    (void)vsnprintf(text, sizeof text, fmt, ap);
    dz_str_plain(text);
    (void)fflush(c->out); /* keep the order of what both streams show */
    fprintf(c->err, "doze: %s\n", text);
}

void dz_cli_warn(struct dz_cli *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    print_line(c, fmt, ap);
    va_end(ap);
}

void dz_cli_note(struct dz_cli *c, const char *fmt, ...)
{
    va_list ap;
    if (c->quiet)
        return;
    va_start(ap, fmt);
    print_line(c, fmt, ap);
    va_end(ap);
}

int dz_cli_usage(struct dz_cli *c, struct dz_err *err, const char *fmt, ...)
{
    char msg[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    c->usage_status = DZ_EXIT_USAGE;
    return dz_fail(err, DZ_EINVAL, "%s: %s", c->command->name, msg);
}

int dz_cli_print_json(struct dz_cli *c, const struct dz_buf *text, int rc, struct dz_err *err)
{
    if (rc < 0)
        return dz_fail(err, rc, "%s: write the result as JSON: %s", c->command->name,
                       dz_err_text(rc));
    (void)fwrite(text->p, 1, text->len, c->out);
    fputc('\n', c->out);
    return DZ_EXIT_OK;
}

static int report(struct dz_cli *c, const struct dz_err *err, int status)
{
    dz_cli_warn(c, "%s", err->msg);
    return status;
}

/* The first words name no command: report that, with the nearest name. */
static int unknown(struct dz_cli *c, int argc, char **argv)
{
    char typed[2 * DZ_CLI_NAME_MAX], quoted[DZ_STR_QUOTED], text[DZ_CLI_NAME_MAX];
    bool prefixed = dz_cli_command_is_prefix(argv[0]);

    if (prefixed && argc == 1) {
        dz_cli_warn(c, "%s must be followed by a subcommand; doze help %s lists them", argv[0],
                    argv[0]);
        return DZ_EXIT_USAGE;
    }
    (void)snprintf(typed, sizeof typed, "%s%s%s", argv[0], prefixed ? " " : "",
                   prefixed ? argv[1] : "");
    (void)dz_str_quote(dz_str(typed), quoted);
    const char *near = dz_cli_command_nearest(argc, argv, text);
    if (argv[0][0] == '-')
        dz_cli_warn(c, "unknown option %s before the command; doze help lists the commands",
                    quoted);
    else if (near)
        dz_cli_warn(c, "unknown command %s; did you mean \"%s\"?", quoted, near);
    else
        dz_cli_warn(c, "unknown command %s; doze help lists the commands", quoted);
    return DZ_EXIT_USAGE;
}

/* Commands that start jailed processes themselves take the required fences from the environment
 * variable of the setting cells.fences. */
static int demand_fences(struct dz_err *err)
{
    static const char variable[] = "DOZE_CELLS_FENCES";
    const char *text = getenv(variable);
    uint32_t fences;
    if (!text)
        return 0;
    int rc = dz_os_fences_parse(text, &fences, err);
    if (rc < 0)
        return dz_wrap(err, rc, "%s", variable);
    dz_os_jail_demand(fences);
    return 0;
}

static int run(struct dz_cli *c, int argc, char **argv)
{
    struct dz_err err = {0};
    bool help = false;
    if (dz_cli_parse(c, argc, argv, &help, &err) < 0)
        return report(c, &err, err.code == DZ_EINVAL ? DZ_EXIT_USAGE : DZ_EXIT_FAILURE);
    if (help) {
        dz_cli_help_command(c->out, c->out_color, c->command);
        return DZ_EXIT_OK;
    }
    if (demand_fences(&err) < 0)
        return report(c, &err, DZ_EXIT_USAGE);
    int status = (c->command->jail ? c->command->jail : c->command->run)(c, &err);
    if (status >= 0)
        return status;
    return report(c, &err, c->usage_status ? c->usage_status : DZ_EXIT_FAILURE);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Count the options before the command; only some options may stand there. */
static int count_leading(int argc, char **argv, bool *ret_help)
{
    int n = 0;
    for (; n < argc; n++) {
        if (is_help(argv[n]))
            *ret_help = true;
        else if (strcmp(argv[n], "--json") != 0 && strcmp(argv[n], "--quiet") != 0 &&
                 strcmp(argv[n], "-q") != 0)
            break;
    }
    return n;
}

/* Move the command's words, which follow `leading` options, to the front. */
static void put_command_first(char **argv, int leading, int words)
{
    for (int i = 0; i < words; i++) {
        char *word = argv[leading + i];
        memmove(argv + i + 1, argv + i, (size_t)leading * sizeof *argv);
        argv[i] = word;
    }
}

static int dispatch(struct dz_cli *c, int argc, char **argv)
{
    bool help = false;
    int words = 0, leading = count_leading(argc, argv, &help), left = argc - leading;
    char **at = argv + leading;
    if (left == 0) {
        dz_cli_help_list(help ? c->out : c->err, help ? c->out_color : c->err_color);
        return help ? DZ_EXIT_OK : DZ_EXIT_USAGE;
    }
    if (strcmp(at[0], "--version") == 0 || strcmp(at[0], "-V") == 0) {
        fprintf(c->out, "doze %s\n", DZ_VERSION);
        return DZ_EXIT_OK;
    }
    c->command = dz_cli_command_find(left, at, &words);
    if (!c->command) {
        if (dz_cli_command_is_prefix(at[0]) &&
            ((left == 1 && help) || (left == 2 && is_help(at[1])))) {
            dz_cli_help_prefix(c->out, c->out_color, at[0]);
            return DZ_EXIT_OK;
        }
        return unknown(c, left, at);
    }
    put_command_first(argv, leading, words);
    /* The last word of the name takes the place of a program's name. */
    int status = run(c, argc - words + 1, argv + words - 1);
    dz_cli_parse_release(c);
    return status;
}

/* Has the reader of this stream, a pipe, gone away? */
static bool reader_left(FILE *f)
{
    struct pollfd fd = {.fd = fileno(f), .events = POLLOUT};
    return fd.fd >= 0 && poll(&fd, 1, 0) > 0 && (fd.revents & POLLERR);
}

/* Fail if results could not be written. Nothing is printed if the reader has gone away
 * (`| head -1` with SIGPIPE blocked) or if the user pressed Ctrl-C.
 * The errno of a write that failed earlier is lost. */
static int finish(struct dz_cli *c, int status)
{
    errno = 0;
    bool failed = fflush(c->out) != 0 || ferror(c->out);
    int sys = errno;
    if (!failed)
        return status;
    if (!dz_cli_interrupted() && !reader_left(c->out))
        dz_cli_warn(c, "write the results: %s", sys ? strerror(sys) : "a write failed");
    return status == DZ_EXIT_OK ? DZ_EXIT_FAILURE : status;
}

int dz_cli_main(int argc, char **argv, FILE *out, FILE *err)
{
    struct dz_cli c = {.out = out, .err = err};
    c.out_color = dz_cli_term_color(out);
    c.err_color = dz_cli_term_color(err);
    c.err_live = dz_cli_term_live(err);
    c.out_tty = isatty(fileno(out)) == 1;
    c.width = dz_cli_term_width(out);
    return finish(&c, dispatch(&c, argc > 0 ? argc - 1 : 0, argv + (argc > 0)));
}
