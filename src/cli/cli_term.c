/* SPDX-License-Identifier: MIT
 *
 * Terminals. Colour and redrawing depend on the stream alone, so `doze ls |
 * less` is plain and `doze ls 2>log` keeps its colours. No locale is used: the
 * tree writes UTF-8, and a continuation byte takes no column.
 */
#include "cli/cli_term.h"

#include "base/fd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_MIN     20
#define WIDTH_MAX     400
#define WIDTH_DEFAULT 80

bool dz_cli_term_live(FILE *f)
{
    int fd = fileno(f);
    const char *term = getenv("TERM");
    return fd >= 0 && isatty(fd) && term && term[0] && strcmp(term, "dumb") != 0;
}

bool dz_cli_term_color(FILE *f)
{
    const char *no_color = getenv("NO_COLOR");
    return dz_cli_term_live(f) && !(no_color && no_color[0]);
}

size_t dz_cli_term_width(FILE *f)
{
    struct winsize size = {0};
    int fd = fileno(f);
    if (fd < 0 || ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return WIDTH_DEFAULT;
    if (size.ws_col < WIDTH_MIN)
        return WIDTH_MIN;
    return size.ws_col > WIDTH_MAX ? WIDTH_MAX : size.ws_col;
}

const char *dz_cli_sgr(bool color, enum dz_cli_style style)
{
    static const char *const start[] = {
#define X(name, sgr) "\033[" sgr "m",
        DZ_CLI_STYLES(X)
#undef X
    };
    return color && style != DZ_CLI_PLAIN ? start[style] : "";
}

const char *dz_cli_sgr_end(bool color, enum dz_cli_style style)
{
    return color && style != DZ_CLI_PLAIN ? "\033[0m" : "";
}

int dz_cli_put_trace(int fd, struct dz_str lines, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(lines.n * 2 + 1);
    const int to = fd < 0 ? STDERR_FILENO : fd;
    const bool raw = isatty(to) == 1; /* it may be in raw mode, where a line needs its return */
    for (size_t i = 0; i < lines.n; i++) {
        const char c = lines.p[i];
        const char shown = c == '\n' || (c >= ' ' && c <= '~') ? c : '?';
        if (c == '\n' && raw)
            dz_buf_adds(&text, "\r");
        dz_buf_add(&text, &shown, 1);
    }
    if (text.err)
        return dz_fail(err, text.err, "print a trace: %s", dz_err_text(text.err));
    const int rc = dz_fd_write(to, text.p, text.len, err);
    return rc < 0 ? rc : 0;
}

static size_t columns_of(const char *text, size_t n)
{
    size_t columns = 0;
    for (size_t i = 0; i < n; i++)
        columns += ((unsigned char)text[i] & 0xC0u) != 0x80u;
    return columns;
}

size_t dz_cli_columns(const char *text)
{
    return columns_of(text, strlen(text));
}

void dz_cli_wrap(FILE *out, const char *text, size_t column, size_t indent, size_t width)
{
    bool first = true;
    while (*text) {
        size_t n = strcspn(text, " ");
        size_t columns = columns_of(text, n);
        if (!first && column + 1 + columns > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", (int)n, text);
        column += columns + !first;
        first = false;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

void dz_cli_escape(struct dz_buf *out, struct dz_str text)
{
    size_t i = 0;
    while (i < text.n) {
        const unsigned char *p = (const unsigned char *)text.p + i;
        size_t n = dz_utf8_shown(text.p + i, text.n - i);
        if (*p == '\n' || *p == '\t' || *p == '\\') {
            dz_buf_addf(out, "\\%c", *p == '\n' ? 'n' : *p == '\t' ? 't' : '\\');
            i++;
        } else if (n > 0) {
            dz_buf_add(out, p, n);
            i += n;
        } else {
            dz_buf_addf(out, "\\x%02x", *p);
            i++;
        }
    }
}

void dz_cli_escape_lines(struct dz_buf *out, struct dz_str text)
{
    while (text.n > 0) {
        size_t n = 0;
        while (n < text.n && text.p[n] != '\n' && text.p[n] != '\t')
            n++;
        dz_cli_escape(out, dz_str_sub(text, 0, n));
        dz_buf_add(out, text.p + n, n < text.n);
        text = dz_str_sub(text, n + 1, text.n);
    }
}

char *dz_cli_size(uint64_t bytes, char out[static DZ_CLI_SIZE_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double value = (double)bytes;
    for (; value >= 999.5 && unit + 1 < DZ_ARRAY_LEN(units); unit++)
        value /= 1024;
    (void)snprintf(out, DZ_CLI_SIZE_TEXT, "%.*f %s", unit > 0 && value < 9.95 ? 1 : 0, value,
                   units[unit]);
    return out;
}
