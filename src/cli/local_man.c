/* SPDX-License-Identifier: MIT
 *
 * `doze help --man`: manual pages, made from the table of commands and the table of
 * settings: doze.1, doze-COMMAND.1, doze.ini.5.
 *
 * The texts of the help become roff: an indented line is an example, a word between
 * backquotes is bold, and whatever roff would take for a request is escaped.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli_commands.h"
#include "cli/cli_help.h"
#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    PAGE_MAX = 1 << 18, /* bytes of one page */
    PAGE_NAME = 64,
};

/* --- roff --------------------------------------------------------------------------------- */

/* Put text inside a line; backquotes become bold when `marked`. */
static void put_words(struct dz_buf *b, struct dz_str s, bool marked)
{
    bool bold = false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '`' && marked) {
            bold = !bold;
            dz_buf_adds(b, bold ? "\\fB" : "\\fR");
        } else if (c == '\\') {
            dz_buf_adds(b, "\\e");
        } else if (c == '-') {
            dz_buf_adds(b, "\\-");
        } else if (c == '~') {
            dz_buf_adds(b, "\\(ti");
        } else if (c == '^') {
            dz_buf_adds(b, "\\(ha");
        } else if (c == '\'' && i > 0) {
            dz_buf_adds(b, "\\(aq");
        } else {
            dz_buf_add(b, &c, 1);
        }
    }
}

static void put_line(struct dz_buf *b, struct dz_str s, bool marked)
{
    if (s.n > 0 && (s.p[0] == '.' || s.p[0] == '\''))
        dz_buf_adds(b, "\\&");
    put_words(b, s, marked);
    dz_buf_adds(b, "\n");
}

/* Paragraphs as in cli.h. */
static void put_text(struct dz_buf *b, const char *text)
{
    struct dz_str rest = dz_str_trim(dz_str(text)), line;
    bool example = false;
    while (rest.n > 0 && dz_str_split(&rest, '\n', &line)) {
        bool indented = dz_str_starts(line, DZ_STR("  "));
        if (line.n == 0) {
            if (!example)
                dz_buf_adds(b, ".PP\n");
            continue;
        }
        if (indented != example)
            dz_buf_adds(b, indented ? ".RS 4\n.EX\n" : ".EE\n.RE\n.PP\n");
        example = indented;
        put_line(b, indented ? dz_str_sub(line, 2, line.n) : line, !indented);
    }
    if (example)
        dz_buf_adds(b, ".EE\n.RE\n");
}

static void put_head(struct dz_buf *b, const char *name, int section, const char *summary)
{
    dz_buf_addf(b, ".TH \"%s\" %d \"\" \"doze %s\" \"%s\"\n.nh\n.SH NAME\n", name, section,
                DZ_VERSION, section == 1 ? "User Commands" : "File Formats");
    put_words(b, dz_str(name), false);
    dz_buf_adds(b, " \\- ");
    put_line(b, dz_str(summary), false);
}

/* --- pages -------------------------------------------------------------------------------- */

static void page_name(const struct dz_cli_command *cmd, char out[static PAGE_NAME])
{
    (void)snprintf(out, PAGE_NAME, "doze-%s", cmd->name);
    for (char *p = out; *p; p++)
        if (*p == ' ')
            *p = '-';
}

static void put_option(struct dz_buf *b, const struct dz_cli_option *o)
{
    char letter[8] = "";
    if (o->letter)
        (void)snprintf(letter, sizeof letter, "\\-%c, ", o->letter);
    dz_buf_addf(b, ".TP\n\\fB%s\\-\\-", letter);
    put_words(b, dz_str(o->name), false);
    dz_buf_adds(b, !o->arg ? "" : dz_cli_may_lack_argument(o) ? "\\fI" : "\\fR=\\fI");
    put_words(b, dz_str(o->arg), false);
    dz_buf_adds(b, "\\fR\n");
    put_line(b, dz_str(o->help), true);
}

static void put_command(struct dz_buf *b, const struct dz_cli_command *cmd)
{
    static const struct dz_cli_option help = {"help", 'h', NULL, "print this help"};
    char name[PAGE_NAME];
    page_name(cmd, name);
    put_head(b, name, 1, cmd->summary);
    dz_buf_adds(b, ".SH SYNOPSIS\n\\fBdoze ");
    put_words(b, dz_str(cmd->name), false);
    dz_buf_addf(b, "\\fR%s ", cmd->options ? " [OPTION...]" : "");
    put_line(b, dz_str(cmd->args), false);
    if (cmd->help && cmd->help[0]) {
        dz_buf_adds(b, ".SH DESCRIPTION\n");
        put_text(b, cmd->help);
    }
    dz_buf_adds(b, ".SH OPTIONS\n");
    for (const struct dz_cli_option *o = cmd->options; o && o->name; o++)
        put_option(b, o);
    put_option(b, &help);
    dz_buf_adds(b, ".SH SEE ALSO\n\\fBdoze\\fR(1)\n");
}

static void put_group(struct dz_buf *b, enum dz_cli_group group, const char *heading)
{
    char name[PAGE_NAME];
    dz_buf_adds(b, ".SS ");
    put_line(b, dz_str(heading), false);
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
        if ((*c)->group != group)
            continue;
        page_name(*c, name);
        dz_buf_adds(b, ".TP\n\\fB");
        put_words(b, dz_str(name), false);
        dz_buf_adds(b, "\\fR(1)\n");
        put_line(b, dz_str((*c)->summary), true);
    }
}

static void put_overview(struct dz_buf *b)
{
    static const char *const headings[] = {
#define X(name, heading) heading,
        DZ_CLI_GROUPS(X)
#undef X
    };
    put_head(b, "doze", 1, "sandboxes that sleep, one file each");
    dz_buf_adds(b,
                ".SH SYNOPSIS\n\\fBdoze\\fR COMMAND [OPTION...] [ARGUMENT...]\n.SH DESCRIPTION\n");
    put_text(b, "A sandbox is a small Unix machine in one file. It wakes when it is used; when\n"
                "it is idle, it is suspended with its processes. `doze daemon` runs many\n"
                "sandboxes; the first command that needs a daemon starts one.\n\n"
                "`doze help COMMAND` prints the text of a command's manual page.\n");
    dz_buf_adds(b, ".SH COMMANDS\n");
    for (size_t g = 0; g < DZ_ARRAY_LEN(headings); g++)
        put_group(b, (enum dz_cli_group)g, headings[g]);
    dz_buf_adds(b, ".SH EXIT STATUS\n");
    put_text(b, "0 on success, 1 on failure, 2 if the command line is wrong. A command that runs\n"
                "a program exits with the program's status. It is 128 plus the signal's number\n"
                "if a signal killed the program, 125 if doze failed, 126 if the program is not\n"
                "executable and 127 if it was not found.\n");
    dz_buf_adds(b, ".SH ENVIRONMENT\n");
    put_text(b, "`DOZE_DATA` names the data directory, `DOZE_URL` the daemon to use,\n"
                "`DOZE_TOKEN` the token for it, `DOZE_CONFIG` the file of settings.\n"
                "`DOZE_AUTOSTART=0` starts no daemon. `NO_COLOR` turns colour off.\n");
    dz_buf_adds(b, ".SH SEE ALSO\n\\fBdoze.ini\\fR(5), \\fBdoze\\-daemon\\fR(1)\n");
}

static void put_settings(struct dz_buf *b)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(PAGE_MAX);
    struct dz_str rest, line;
    put_head(b, "doze.ini", 5, "settings of the doze daemon");
    dz_buf_adds(b, ".SH SYNOPSIS\n\\fI" DZ_CONFIG_FILE "\\fR, ");
    dz_buf_adds(b, "\\fI\\(ti/.config/doze/doze.ini\\fR\n.SH DESCRIPTION\n");
    put_text(b, "The file has sections in brackets and lines KEY = VALUE; # or ; begins a\n"
                "comment. An unknown key or an invalid value is an error that names its line. A\n"
                "setting comes from its default, this file, the environment, or an option of\n"
                "`doze daemon`; later sources override earlier ones, and `doze config` shows\n"
                "where each value comes from. SIGHUP makes the daemon read the file again:\n"
                "settings marked `reloaded` change at once.\n\n"
                "Every setting, with its default:\n");
    dz_buf_adds(b, ".EX\n");
    dz_config_print_defaults(&text);
    for (rest = dz_str_n(text.p, text.len); dz_str_split(&rest, '\n', &line);)
        put_line(b, line, false);
    dz_buf_adds(b, ".EE\n.SH SEE ALSO\n\\fBdoze\\-config\\fR(1), \\fBdoze\\-daemon\\fR(1)\n");
    if (text.err && !b->err)
        b->err = text.err;
}

static int write_page(const char *dir, const char *name, int section, const struct dz_buf *b,
                      struct dz_err *err)
{
    char path[DZ_PATH_MAX];
    if (b->err)
        return dz_fail(err, b->err, "write the manual page %s: %s", name, dz_err_text(b->err));
    if (snprintf(path, sizeof path, "%s/%s.%d", dir, name, section) >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of the directory is too long");
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644, err);
    return fd < 0 ? fd : dz_fd_write(fd, b->p, b->len, err);
}

int dz_cli_man(const char *dir, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(PAGE_MAX);
    char name[PAGE_NAME];
    put_overview(&b);
    int rc = write_page(dir, "doze", 1, &b, err);
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c && rc == 0; c++) {
        dz_buf_reset(&b);
        page_name(*c, name);
        put_command(&b, *c);
        rc = write_page(dir, name, 1, &b, err);
    }
    dz_buf_reset(&b);
    put_settings(&b);
    return rc < 0 ? rc : write_page(dir, "doze.ini", 5, &b, err);
}
