/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "tap.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define NOW "time=2001-09-09T01:46:40.000Z "

static int ends[2] = {-1, -1}; /* a pipe that the log writes to */
static struct dz_clock_test test_clock = {0, 0, 1000000000 * DZ_NS_PER_S};
static char seen[3 * DZ_LOG_LINE_MAX];

static void begin(enum dz_log_level level, bool json)
{
    dz_clock_use(&test_clock);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        exit(1);
    dz_log_setup(ends[1], level, json);
}

/* What was logged since the last call. */
static const char *logged(void)
{
    ssize_t n = read(ends[0], seen, sizeof seen - 1);
    seen[n > 0 ? n : 0] = '\0';
    return seen;
}

TEST(log_writes_fields_in_order)
{
    struct dz_err e = {0};
    begin(DZ_LOG_INFO, false);
    dz_log(DZ_LOG_INFO, "started");
    CHECK_STR(logged(), NOW "level=info event=started\n");
    (void)dz_fail(&e, DZ_EIO, "read x: gone");
    dz_log(DZ_LOG_ERROR, "all_kinds", dz_log_int("i", INT64_MIN), dz_log_uint("u", UINT64_MAX),
           dz_log_bool("b", true), dz_log_strz("s", "plain-1.5/x>"), dz_log_strz("last", "{"),
           dz_log_err(&e));
    CHECK_STR(logged(), NOW "level=error event=all_kinds i=-9223372036854775808 "
                            "u=18446744073709551615 b=true s=plain-1.5/x> last={ "
                            "error=\"read x: gone\"\n");
}

TEST(log_quotes_what_is_not_plain)
{
    begin(DZ_LOG_INFO, false);
    dz_log(DZ_LOG_WARN, "q", dz_log_strz("a", ""), dz_log_strz("b", "x y"), dz_log_strz("c", "x=y"),
           dz_log_strz("d", "\"\\"), dz_log_strz("e", "two\nlines"),
           dz_log_str("f", DZ_STR("\0\xff")), dz_log_strz("g", "\xc3\xa9"), dz_log_strz("h", NULL));
    CHECK_STR(logged(), NOW "level=warn event=q a=\"\" b=\"x y\" c=\"x=y\" d=\"\\\"\\\\\" "
                            "e=\"two\\nlines\" f=\"\\u0000\xef\xbf\xbd\" g=\"\xc3\xa9\" h=\"\"\n");
}

TEST(log_writes_json_by_option)
{
    begin(DZ_LOG_INFO, true);
    dz_log(DZ_LOG_INFO, "j", dz_log_int("i", -1), dz_log_bool("b", false),
           dz_log_strz("s", "a\tb"));
    CHECK_STR(logged(), "{\"time\":\"2001-09-09T01:46:40.000Z\",\"level\":\"info\",\"event\":\"j\","
                        "\"i\":-1,\"b\":false,\"s\":\"a\\tb\"}\n");
}

static int evaluated(void)
{
    static int n;
    return ++n;
}

TEST(log_levels_filter_before_the_fields)
{
    begin(DZ_LOG_WARN, false);
    dz_log(DZ_LOG_INFO, "no", dz_log_int("n", evaluated()));
    CHECK_STR(logged(), "");
    CHECK_INT(evaluated(), 1);
    dz_log(DZ_LOG_WARN, "yes");
    CHECK_STR(logged(), NOW "level=warn event=yes\n");
    dz_log_setup(ends[1], DZ_LOG_DEBUG, false);
    dz_log(DZ_LOG_DEBUG, "yes");
    CHECK_STR(logged(), NOW "level=debug event=yes\n");
}

TEST(log_level_names_are_read)
{
    enum dz_log_level level = DZ_LOG_INFO;
    struct dz_err e = {0};
    CHECK_INT(dz_log_level_parse(DZ_STR("debug"), &level, NULL), 0);
    CHECK_INT(level, DZ_LOG_DEBUG);
    CHECK_INT(dz_log_level_parse(DZ_STR("Info"), &level, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "\"Info\" is not a log level: expected error, warn, info or debug");
    CHECK_INT(level, DZ_LOG_DEBUG);
}

TEST(log_context_is_on_every_line_of_its_thread)
{
    begin(DZ_LOG_INFO, false);
    struct dz_log_context none =
        dz_log_enter((struct dz_log_context){.request_id = "r1", .sandbox_id = "sbx_1"});
    dz_log(DZ_LOG_INFO, "a");
    CHECK_STR(logged(), NOW "level=info event=a request_id=r1 sandbox_id=sbx_1\n");
    struct dz_log_context before = dz_log_enter((struct dz_log_context){.sandbox_id = "sbx_2"});
    dz_log(DZ_LOG_INFO, "b");
    CHECK_STR(logged(), NOW "level=info event=b sandbox_id=sbx_2\n");
    CHECK_STR(before.request_id, "r1");
    (void)dz_log_enter(none);
    dz_log(DZ_LOG_INFO, "c");
    CHECK_STR(logged(), NOW "level=info event=c\n");
}

TEST(log_context_learns_what_it_is_about_and_no_key_stands_twice)
{
    char about[DZ_LOG_ID_TEXT] = "";
    begin(DZ_LOG_INFO, false);
    dz_log_about("sbx_0"); /* nobody wants to know */
    struct dz_log_context none = dz_log_enter((struct dz_log_context){"r1", about, about});
    dz_log(DZ_LOG_INFO, "a");
    CHECK_STR(logged(), NOW "level=info event=a request_id=r1\n");
    dz_log_about("sbx_1");
    CHECK_STR(dz_log_current().sandbox_id, "sbx_1");
    dz_log(DZ_LOG_INFO, "b");
    CHECK_STR(logged(), NOW "level=info event=b request_id=r1 sandbox_id=sbx_1\n");
    dz_log(DZ_LOG_INFO, "c", dz_log_strz("sandbox_id", "sbx_2"));
    CHECK_STR(logged(), NOW "level=info event=c request_id=r1 sandbox_id=sbx_2\n");
    (void)dz_log_enter(none);
}

TEST(log_cuts_values_and_leaves_out_what_does_not_fit)
{
    static char big[5000];
    memset(big, 'x', sizeof big - 1);
    for (int json = 0; json < 2; json++) {
        begin(DZ_LOG_INFO, json);
        dz_log(DZ_LOG_INFO, "big", dz_log_strz("a", big), dz_log_strz("b", big),
               dz_log_strz("c", big), dz_log_strz("d", big), dz_log_int("small", 7));
        const char *line = logged();
        CHECK(strlen(line) <= DZ_LOG_LINE_MAX);
        CHECK(strstr(line, "xxx...\"") != NULL);
        CHECK(strstr(line, json ? "\"c\":\"" : " c=\"") != NULL);
        CHECK(strstr(line, json ? "\"d\":" : " d=") == NULL);
        CHECK(dz_str_ends(dz_str(line), json ? DZ_STR(",\"small\":7,\"truncated\":true}\n")
                                             : DZ_STR(" small=7 truncated=true\n")));
    }
    memset(big, 1, sizeof big - 1); /* six characters each */
    dz_log(DZ_LOG_INFO, big, dz_log_int("after", 1));
    CHECK(strstr(logged(), "\"level\":\"info\",\"after\":1,\"truncated\":true}\n") != NULL);
}

TEST(log_lines_fit_whatever_their_length)
{
    static char value[1024];
    memset(value, 'x', sizeof value - 1);
    begin(DZ_LOG_INFO, false);
    for (size_t n = 800; n < sizeof value - 1; n++) { /* across the end of a line, byte by byte */
        struct dz_str tail = dz_str_n(value, n);
        dz_log(DZ_LOG_INFO, "fill", dz_log_strz("a", value), dz_log_strz("b", value),
               dz_log_strz("c", value), dz_log_str("d", tail));
        struct dz_str line = dz_str(logged());
        bool whole = dz_str_ends(line, DZ_STR("x\n"));
        CHECK(line.n <= DZ_LOG_LINE_MAX);
        CHECK(whole || dz_str_ends(line, DZ_STR("x truncated=true\n")));
        CHECK(whole == (dz_str_find(line, DZ_STR(" d=x")) != DZ_STR_NONE));
        CHECK(whole ? n < 1000 : n > 900);
    }
}

TEST(log_failure_to_write_keeps_errno)
{
    struct dz_err e = {0};
    begin(DZ_LOG_INFO, false);
    DZ_AUTO(dz_fd_close) int full = dz_fd_open(AT_FDCWD, "/dev/full", O_WRONLY, 0, &e);
    dz_log_setup(full, DZ_LOG_INFO, false);
    errno = EINTR;
    dz_log(DZ_LOG_INFO, "lost");
    CHECK_INT(errno, EINTR);
    dz_log_setup(ends[1], DZ_LOG_INFO, false);
    dz_log(DZ_LOG_INFO, "back");
    CHECK_STR(logged(), NOW "level=warn event=log_dropped count=1\n" NOW "level=info event=back\n");
}

TEST(log_drops_lines_rather_than_wait)
{
    char fill[4096];
    begin(DZ_LOG_INFO, false);
    CHECK_INT(fcntl(ends[1], F_SETFL, 0), 0); /* a write to it would block now */
    memset(fill, 'f', sizeof fill);
    CHECK(fcntl(ends[1], F_SETPIPE_SZ, 8192) >= 4096);
    CHECK_INT(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], fill, sizeof fill) > 0)
        ;
    CHECK_INT(fcntl(ends[1], F_SETFL, 0), 0);
    for (int i = 0; i < 5; i++) {
        errno = EINTR;
        dz_log(DZ_LOG_INFO, "lost");
        CHECK_INT(errno, EINTR);
    }
    while (read(ends[0], fill, sizeof fill) > 0)
        ;
    dz_log(DZ_LOG_INFO, "back");
    CHECK_STR(logged(), NOW "level=warn event=log_dropped count=5\n" NOW "level=info event=back\n");
}

TEST(log_survives_a_reader_that_is_gone)
{
    begin(DZ_LOG_INFO, false); /* SIGPIPE at its default: a write would kill */
    dz_fd_close(&ends[0]);
    dz_log(DZ_LOG_INFO, "nobody");
    dz_log(DZ_LOG_INFO, "nobody");
    dz_log_setup(-1, DZ_LOG_INFO, false);
    dz_log(DZ_LOG_INFO, "nowhere");
    begin(DZ_LOG_INFO, false);
    dz_log(DZ_LOG_INFO, "here");
    CHECK_STR(logged(), NOW "level=warn event=log_dropped count=3\n" NOW "level=info event=here\n");
}

TEST(log_speaks_the_journals_way)
{
    char stream[64];
    struct stat st;
    begin(DZ_LOG_INFO, false);
    CHECK_INT(fstat(ends[1], &st), 0);
    (void)snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    CHECK_INT(setenv("JOURNAL_STREAM", stream, 1), 0);
    dz_log_setup(ends[1], DZ_LOG_INFO, false);
    dz_log(DZ_LOG_ERROR, "bad", dz_log_int("n", 1));
    CHECK_STR(logged(), "<3>level=error event=bad n=1\n");
    dz_log_setup(ends[1], DZ_LOG_DEBUG, true);
    dz_log(DZ_LOG_DEBUG, "fine");
    CHECK_STR(logged(), "<7>{\"level\":\"debug\",\"event\":\"fine\"}\n");
    CHECK_INT(setenv("JOURNAL_STREAM", "1:2", 1), 0);
    dz_log_setup(ends[1], DZ_LOG_INFO, false);
    dz_log(DZ_LOG_INFO, "not_the_journal");
    CHECK_STR(logged(), NOW "level=info event=not_the_journal\n");
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 200; i++)
        dz_log(DZ_LOG_INFO, "many", dz_log_strz("who", arg), dz_log_int("i", i));
    return NULL;
}

TEST(log_lines_of_threads_stay_whole)
{
    pthread_t threads[4];
    static char names[4][2] = {"a", "b", "c", "d"};
    struct dz_buf all = DZ_BUF_INIT(1 << 20);
    struct dz_str rest, line;
    int lines = 0;
    FILE *f = tmpfile();
    if (!f)
        exit(1);
    dz_clock_use(&test_clock);
    dz_log_setup(fileno(f), DZ_LOG_INFO, false);
    CHECK_INT(fcntl(fileno(f), F_SETFL, O_APPEND), 0);
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, log_many, names[i]), 0);
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_join(threads[i], NULL), 0);
    CHECK_INT(lseek(fileno(f), 0, SEEK_SET), 0);
    CHECK_INT(dz_fd_read_all(fileno(f), &all, NULL), 0);
    rest = dz_str_n(all.p, all.len);
    while (dz_str_split(&rest, '\n', &line))
        if (line.n > 0) {
            CHECK(dz_str_starts(line, DZ_STR(NOW "level=info event=many who=")));
            lines++;
        }
    CHECK_INT(lines, 800);
    dz_buf_release(&all);
    (void)fclose(f);
}
