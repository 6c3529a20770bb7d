/* SPDX-License-Identifier: MIT
 *
 * What commands print with: wrapping, escaping, sizes, tables, progress, the
 * data directory.
 */
#include "cli/cli_env.h"
#include "cli/cli_progress.h"
#include "cli/cli_signal.h"
#include "cli/cli_table.h"
#include "cli/cli_term.h"
#include "tap.h"

#include "base/clock.h"

#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>

static char *wrapped(const char *text, size_t column, size_t indent, size_t width)
{
    char *p = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&p, &n);
    dz_cli_wrap(f, text, column, indent, width);
    (void)fclose(f);
    return p;
}

static void check_wrap(const char *text, size_t column, size_t indent, const char *want)
{
    char *got = wrapped(text, column, indent, 10);
    CHECK_STR(got, want);
    free(got);
}

TEST(wrap_keeps_within_the_width)
{
    check_wrap("aaa bbb ccc ddd", 0, 0, "aaa bbb\nccc ddd\n");
    check_wrap("aaaa bbbbb ccc", 0, 0, "aaaa bbbbb\nccc\n"); /* exactly ten */
    check_wrap("aaa bbb ccc", 2, 2, "aaa bbb\n  ccc\n");
    check_wrap("aaa bbb ccc", 5, 2, "aaa\n  bbb ccc\n");
    check_wrap("a-word-that-is-too-long b", 0, 2, "a-word-that-is-too-long\n  b\n");
    check_wrap("", 3, 2, "\n");
    check_wrap("a   b", 0, 0, "a b\n");
    check_wrap("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 \xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 x", 0, 0,
               "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 \xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\nx\n");
}

static void check_escape(const char *text, size_t n, const char *want)
{
    struct dz_buf b = DZ_BUF_INIT(1000);
    dz_cli_escape(&b, dz_str_n(text, n));
    CHECK_STR(b.p, want);
    dz_buf_release(&b);
}

TEST(escape_lets_nothing_steer_the_terminal)
{
    check_escape("plain text", 10, "plain text");
    check_escape("a\nb\tc\\d", 7, "a\\nb\\tc\\\\d");
    check_escape("\033[31m", 5, "\\x1b[31m");
    check_escape("\0\x7f", 2, "\\x00\\x7f");
    check_escape("\xc3\xa4\xe2\x82\xac", 5, "\xc3\xa4\xe2\x82\xac"); /* ä€ */
    check_escape("\xc2\x9b"
                 "31m",
                 5, "\\xc2\\x9b31m"); /* CSI as C1 */
    check_escape("\xff\xc3", 2, "\\xff\\xc3");
}

TEST(size_is_short_and_right)
{
    static const struct {
        uint64_t bytes;
        const char *want;
    } cases[] = {{0, "0 B"},
                 {999, "999 B"},
                 {1000, "1.0 KiB"},
                 {1024, "1.0 KiB"},
                 {1536, "1.5 KiB"},
                 {10239, "10 KiB"},
                 {1023 * 1024, "1.0 MiB"},
                 {1u << 30, "1.0 GiB"},
                 {UINT64_MAX, "16 EiB"}};
    char text[DZ_CLI_SIZE_TEXT];
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++)
        CHECK_STR(dz_cli_size(cases[i].bytes, text), cases[i].want);
}

/* --- tables --- */

static const struct dz_cli_command command = {.name = "test"};
static const struct dz_cli_column columns[] = {{"NAME", false}, {"SIZE", true}, {"NOTE", false}};

static char *print_table(bool quiet, bool color)
{
    char *p = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&p, &n);
    struct dz_cli c = {.out = f, .command = &command, .quiet = quiet, .out_color = color};
    struct dz_cli_table t;
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    dz_cli_table_cell(&t, DZ_CLI_PLAIN, DZ_STR("a"));
    dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%d", 12345);
    dz_cli_table_cell(&t, DZ_CLI_GREEN, DZ_STR("ok"));
    dz_cli_table_cell(&t, DZ_CLI_PLAIN, DZ_STR("l\xc3\xa4nger\n"));
    dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%d", 7);
    dz_cli_table_cell(&t, DZ_CLI_PLAIN, DZ_STR(""));
    struct dz_err err = {0};
    int rc = dz_cli_table_print(&t, &c, &err);
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    dz_cli_table_release(&t);
    (void)fclose(f);
    CHECK(rc == 0 || p[0] == '\0');
    return p;
}

TEST(table_aligns_what_it_holds)
{
    char *plain = print_table(false, false);
    CHECK_STR(plain, "NAME       SIZE  NOTE\n"
                     "a         12345  ok\n"
                     "l\xc3\xa4nger\\n      7\n");
    free(plain);
    char *bare = print_table(true, false);
    CHECK(strncmp(bare, "a         12345  ok\n", 20) == 0);
    free(bare);
    char *colored = print_table(true, true);
    CHECK(strncmp(colored, "a         12345  \033[32mok\033[0m\n", 29) == 0);
    free(colored);
}

TORTURE(table_survives_every_allocation_failure)
{
    free(print_table(false, false));
}

/* --- progress, on a terminal made for the purpose --- */

struct screen {
    int master;
    FILE *f;
};

static struct screen open_screen(void)
{
    struct screen s;
    struct winsize size = {.ws_row = 24, .ws_col = 41};
    int slave;
    if (openpty(&s.master, &slave, NULL, NULL, &size) < 0)
        SKIP("no terminals here");
    s.f = fdopen(slave, "w");
    (void)setenv("TERM", "xterm", 1);
    return s;
}

/* All that was drawn since the last time. The kernel hands it over when it
 * likes, so a mark behind it says when it is complete. */
static const char *seen(const struct screen *s)
{
    static char text[4096];
    size_t n = 0;
    fputc('|', s->f);
    (void)fflush(s->f);
    do {
        ssize_t got = read(s->master, text + n, sizeof text - 1 - n);
        n += got > 0 ? (size_t)got : 0;
        text[n] = '\0';
    } while (!strchr(text, '|'));
    *strchr(text, '|') = '\0';
    return text;
}

TEST(progress_draws_now_and_then_and_leaves_nothing)
{
    struct dz_clock_test clock = {.mono_ns = DZ_NS_PER_S};
    struct screen s = open_screen();
    struct dz_cli c = {.err = s.f, .err_live = dz_cli_term_live(s.f)};
    struct dz_cli_progress p;
    CHECK(c.err_live);
    CHECK_INT(dz_cli_term_width(s.f), 41);
    dz_clock_use(&clock);
    dz_cli_progress_start(&p, &c, "copy", 10 << 20, DZ_CLI_BYTES);
    dz_cli_progress_at(&p, 1);
    CHECK_STR(seen(&s), ""); /* too early */
    dz_clock_advance(&clock, 1000 * DZ_NS_PER_MS);
    dz_cli_progress_at(&p, 5 << 20);
    CHECK_STR(seen(&s), "\rcopy  50 %  5.0 MiB of 10 MiB  5.0 MiB/s\033[K");
    dz_clock_advance(&clock, 50 * DZ_NS_PER_MS);
    dz_cli_progress_at(&p, 6 << 20);
    CHECK_STR(seen(&s), ""); /* too soon again */
    dz_clock_advance(&clock, 2000 * DZ_NS_PER_MS);
    dz_cli_progress_at(&p, 6 << 20);
    /* cut to 40 columns: the last one stays free, or the line would wrap */
    CHECK_STR(seen(&s), "\rcopy  60 %  6.0 MiB of 10 MiB  2.0 MiB/s\033[K");
    dz_cli_progress_end(&p);
    CHECK_STR(seen(&s), "\r\033[K");
    dz_cli_progress_end(&p);
    CHECK_STR(seen(&s), "");
    dz_clock_use(NULL);
    (void)fclose(s.f);
    (void)close(s.master);
}

TEST(progress_of_unknown_length_and_hostile_name)
{
    struct dz_clock_test clock = {.mono_ns = DZ_NS_PER_S};
    struct screen s = open_screen();
    struct dz_cli c = {.err = s.f, .err_live = true};
    struct dz_cli_progress p;
    dz_clock_use(&clock);
    dz_cli_progress_start(&p, &c, "a\033b", 0, DZ_CLI_COUNT);
    dz_clock_advance(&clock, 1000 * DZ_NS_PER_MS);
    dz_cli_progress_at(&p, 1234);
    CHECK_STR(seen(&s), "\ra\\x1bb  1234  1234/s\033[K");
    dz_cli_progress_end(&p);
    dz_clock_use(NULL);
    (void)fclose(s.f);
    (void)close(s.master);
}

TEST(progress_is_silent_elsewhere)
{
    struct dz_clock_test clock = {.mono_ns = DZ_NS_PER_S};
    struct screen s = open_screen();
    dz_clock_use(&clock);
    struct dz_cli cases[] = {{.err = s.f, .err_live = true, .quiet = true}, {.err = s.f}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        struct dz_cli_progress p;
        dz_cli_progress_start(&p, &cases[i], "copy", 10, DZ_CLI_COUNT);
        dz_clock_advance(&clock, 1000 * DZ_NS_PER_MS);
        dz_cli_progress_at(&p, 5);
        dz_cli_progress_end(&p);
        CHECK_STR(seen(&s), "");
    }
    dz_clock_use(NULL);
    (void)fclose(s.f);
    (void)close(s.master);
}

/* In a child whose standard error is the screen: draw, then get the signal. */
static int interrupted_while_drawing(const struct screen *s, bool tidy_up, int times)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        struct dz_cli c = {.err = stderr, .err_live = true};
        struct dz_cli_progress p;
        struct dz_clock_test clock = {.mono_ns = DZ_NS_PER_S};
        (void)dup2(fileno(s->f), STDERR_FILENO);
        dz_cli_signal_init();
        if (tidy_up)
            dz_cli_catch_interrupts();
        dz_clock_use(&clock);
        dz_cli_progress_start(&p, &c, "copy", 0, DZ_CLI_COUNT);
        dz_clock_advance(&clock, DZ_NS_PER_S);
        dz_cli_progress_at(&p, 1);
        while (times-- > 0)
            (void)raise(SIGINT);
        if (dz_cli_interrupted())
            fputs("tidy", stderr);
        dz_cli_progress_end(&p);
        dz_cli_signal_finish();
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(interrupt_finishes_the_line_and_ends_by_the_signal)
{
    struct screen s = open_screen();
    int status = interrupted_while_drawing(&s, false, 1);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    CHECK_STR(seen(&s), "\rcopy  1  1/s\033[K\033[K\r\n");
    status = interrupted_while_drawing(&s, true, 1);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    CHECK_STR(seen(&s), "\rcopy  1  1/s\033[Ktidy\r\033[K");
    status = interrupted_while_drawing(&s, true, 2);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    CHECK_STR(seen(&s), "\rcopy  1  1/s\033[K\033[K\r\n");
    status = interrupted_while_drawing(&s, true, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)fclose(s.f);
    (void)close(s.master);
}

TEST(term_judges_streams)
{
    struct screen s = open_screen();
    char *p = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&p, &n);
    (void)unsetenv("NO_COLOR");
    CHECK(dz_cli_term_color(s.f) && dz_cli_term_live(s.f));
    CHECK(!dz_cli_term_color(memory) && !dz_cli_term_live(memory));
    CHECK_INT(dz_cli_term_width(memory), 80);
    (void)setenv("NO_COLOR", "1", 1);
    CHECK(!dz_cli_term_color(s.f) && dz_cli_term_live(s.f));
    (void)setenv("TERM", "dumb", 1);
    CHECK(!dz_cli_term_live(s.f));
    struct winsize tiny = {.ws_col = 3}, huge = {.ws_col = 9999}, none = {0};
    CHECK_INT(ioctl(s.master, TIOCSWINSZ, &tiny), 0);
    CHECK_INT(dz_cli_term_width(s.f), 20);
    CHECK_INT(ioctl(s.master, TIOCSWINSZ, &huge), 0);
    CHECK_INT(dz_cli_term_width(s.f), 400);
    CHECK_INT(ioctl(s.master, TIOCSWINSZ, &none), 0);
    CHECK_INT(dz_cli_term_width(s.f), 80);
    (void)fclose(memory);
    free(p);
    (void)fclose(s.f);
    (void)close(s.master);
}

TEST(data_dir_is_taken_from_the_first_that_is_set)
{
    char path[DZ_PATH_MAX] = "untouched";
    struct dz_err err = {0};
    (void)setenv("HOME", "/h", 1);
    (void)setenv("XDG_DATA_HOME", "/x", 1);
    (void)setenv("DOZE_DATA", "/d", 1);
    CHECK_INT(dz_cli_data_dir("", path, &err), DZ_EINVAL);
    CHECK_STR(path, "untouched");
    CHECK_INT(dz_cli_data_dir("rel", path, &err), 0);
    char cwd[DZ_PATH_MAX], want[DZ_PATH_MAX + 8];
    CHECK(getcwd(cwd, sizeof cwd));
    (void)snprintf(want, sizeof want, "%s/rel", cwd);
    CHECK_STR(path, want);
    CHECK_INT(dz_cli_data_dir("./rel", path, &err), 0);
    CHECK_STR(path, want);
    CHECK_INT(dz_cli_data_dir(".", path, &err), 0);
    CHECK_STR(path, cwd);
    CHECK_INT(dz_cli_data_dir(NULL, path, &err), 0);
    CHECK_STR(path, "/d");
    (void)setenv("DOZE_DATA", "", 1);
    CHECK_INT(dz_cli_data_dir(NULL, path, &err), 0);
    CHECK_STR(path, "/x/doze");
    (void)unsetenv("XDG_DATA_HOME");
    CHECK_INT(dz_cli_data_dir(NULL, path, &err), 0);
    CHECK_STR(path, "/h/.local/share/doze");
    char *huge = calloc(1, DZ_PATH_MAX);
    memset(huge, '/', DZ_PATH_MAX - 1);
    (void)setenv("HOME", huge, 1);
    CHECK_INT(dz_cli_data_dir(NULL, path, &err), DZ_ELIMIT);
    CHECK_STR(path, "/h/.local/share/doze");
    free(huge);
}
