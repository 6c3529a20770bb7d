/* SPDX-License-Identifier: MIT
 *
 * The progress line: "import src.tar  42 %  12 MiB of 29 MiB  8.1 MiB/s  2 s left".
 * It is cut to the terminal's width, since a line that wraps cannot be redrawn.
 */
#include "cli/cli_progress.h"

#include "base/clock.h"
#include "base/num.h"
#include "cli/cli_signal.h"
#include "cli/cli_term.h"

#include <inttypes.h>

#define FIRST_MS 300 /* a command that ends earlier shows nothing */
#define EVERY_MS 100
#define LINE_MAX 4096

void dz_cli_progress_start(struct dz_cli_progress *p, struct dz_cli *c, const char *what,
                           uint64_t total, enum dz_cli_unit unit)
{
    int64_t now = dz_clock_mono_ms();
    *p = (struct dz_cli_progress){.cli = c,
                                  .what = what,
                                  .total = total,
                                  .unit = unit,
                                  .started_ms = now,
                                  .next_ms = now + FIRST_MS};
    if (c->progress && c->err_live && !c->quiet)
        c->progress(p, DZ_CLI_PROGRESS_START, 0);
}

static const char *amount(const struct dz_cli_progress *p, uint64_t n,
                          char text[static DZ_CLI_SIZE_TEXT + 8])
{
    if (p->unit == DZ_CLI_BYTES)
        return dz_cli_size(n, text);
    (void)snprintf(text, DZ_CLI_SIZE_TEXT + 8, "%" PRIu64, n);
    return text;
}

static void compose(const struct dz_cli_progress *p, uint64_t done, int64_t now, struct dz_buf *b)
{
    char text[DZ_CLI_SIZE_TEXT + 8], left[DZ_DURATION_TEXT];
    int64_t ms = now - p->started_ms;
    uint64_t rate = ms > 0 ? (uint64_t)((double)done * 1000 / (double)ms) : 0;

    dz_cli_escape(b, dz_str(p->what));
    if (p->total > 0)
        dz_buf_addf(b, "  %d %%",
                    (int)((double)(done < p->total ? done : p->total) * 100 / (double)p->total));
    dz_buf_addf(b, "  %s", amount(p, done, text));
    if (p->total > 0)
        dz_buf_addf(b, " of %s", amount(p, p->total, text));
    dz_buf_addf(b, "  %s/s", amount(p, rate, text));
    if (p->total > done && rate > 0 && ms > 2000) {
        int64_t seconds = (int64_t)((p->total - done) / rate) + 1;
        dz_buf_addf(b, "  %s left", dz_duration_print(seconds * 1000, left));
    }
}

/* The first `columns` characters of a UTF-8 text, in bytes. */
static int cut(const struct dz_buf *b, size_t columns)
{
    size_t i = 0;
    while (i < b->len && columns-- > 0) {
        size_t n = dz_utf8_len(b->p + i, b->len - i);
        i += n ? n : 1;
    }
    return (int)i;
}

static void draw(struct dz_cli_progress *p, uint64_t done, int64_t now)
{
    struct dz_buf line = DZ_BUF_INIT(LINE_MAX);
    compose(p, done, now, &line);
    size_t columns = dz_cli_term_width(p->cli->err) - 1;
    dz_cli_signal_line(true);
    fprintf(p->cli->err, "\r%.*s\033[K", cut(&line, columns), line.p);
    (void)fflush(p->cli->err);
    p->drawn = true;
    dz_buf_release(&line);
}

void dz_cli_progress_at(struct dz_cli_progress *p, uint64_t done)
{
    if (!p->cli->err_live || p->cli->quiet)
        return;
    int64_t now = dz_clock_mono_ms();
    if (now < p->next_ms)
        return;
    if (p->cli->progress)
        p->cli->progress(p, DZ_CLI_PROGRESS_AT, done);
    else
        draw(p, done, now);
    p->next_ms = now + EVERY_MS;
}

void dz_cli_progress_end(struct dz_cli_progress *p)
{
    if (!p->cli)
        return;
    if (p->cli->progress && p->cli->err_live && !p->cli->quiet)
        p->cli->progress(p, DZ_CLI_PROGRESS_END, 0);
    if (!p->drawn)
        return;
    fputs("\r\033[K", p->cli->err);
    (void)fflush(p->cli->err);
    dz_cli_signal_line(false);
    p->drawn = false;
}
