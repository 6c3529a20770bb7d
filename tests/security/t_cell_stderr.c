/* SPDX-License-Identifier: MIT
 * What a jailed process writes to standard error becomes lines of the log: escaped, cut, tagged and
 * limited in number. It holds no descriptor of its host's standard error. */
#include "cell/cell_call.h"
#include "cell/cell_called.h"
#include "tap.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LOG_MAX = 8 << 20,
    MANY = 5000, /* lines, more than are let through */
};

/* The host's log, and what comes to its standard error unasked. */
static int log_fd = -1, own_fd = -1, old_fd = -1;
static struct dz_err err;

static int empty_file(void)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    return fd;
}

static void begin(void)
{
    log_fd = empty_file();
    own_fd = empty_file();
    old_fd = dup(STDERR_FILENO);
    dz_log_setup(log_fd, DZ_LOG_INFO, false);
    (void)dup2(own_fd, STDERR_FILENO);
}

/* The log's text; nothing may have come to standard error itself. */
static const char *end(void)
{
    static char text[LOG_MAX];
    struct stat st;
    (void)dup2(old_fd, STDERR_FILENO);
    CHECK_INT(fstat(own_fd, &st), 0);
    CHECK_INT(st.st_size, 0);
    ssize_t n = pread(log_fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    (void)close(log_fd);
    (void)close(own_fd);
    (void)close(old_fd);
    dz_log_setup(STDERR_FILENO, DZ_LOG_INFO, false);
    return text;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

static int call(const char *what, dz_call_fn *run, void *arg)
{
    const struct dz_call_opts o = {.what = what, .run = run, .arg = arg};
    err = (struct dz_err){0};
    return dz_cell_call(&o, NULL, &err);
}

static void put(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static int steer(struct dz_call *c, void *arg, struct dz_err *e)
{
    (void)c, (void)arg, (void)e;
    put("title \x1b]0;PWN\x07 and \xc2\x9b"
        "31m\n");
    put("time=2000-01-01T00:00:00.000Z level=error event=for");
    put("ged sandbox_id=sbx_other\nlast");
    return 7;
}

TEST(its_words_are_escaped_and_tagged)
{
    begin();
    CHECK_INT(call("peek", steer, NULL), 7);
    const char *text = end();
    CHECK_INT(count(text, "event=process_stderr process=call call=peek text=\""), 2);
    CHECK_INT(count(text, "\ntime=2000"), 0);
    CHECK_INT(count(text,
                    "text=\"time=2000-01-01T00:00:00.000Z level=error event=forged sandbox_id="
                    "sbx_other\""),
              1);
    CHECK_INT(count(text, "process=call call=peek text=last\n"), 1);
    CHECK_INT(count(text, "\x1b") + count(text, "\x07") + count(text, "\xc2\x9b"), 0);
    CHECK(strstr(text, "title \\u001b]0;PWN\\u0007 and ") != NULL);
}

static int look(struct dz_call *c, void *arg, struct dz_err *e)
{
    struct stat st;
    (void)c, (void)arg, (void)e;
    if (syscall(SYS_fstat, STDERR_FILENO, &st) < 0 || !S_ISSOCK(st.st_mode))
        return 1;
    return fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK ? 0 : 2;
}

TEST(it_is_a_socket_that_does_not_block)
{
    begin();
    CHECK_INT(call("look", look, NULL), 0);
    (void)end();
}

static int flood(struct dz_call *c, void *arg, struct dz_err *e)
{
    char line[32];
    (void)c, (void)arg, (void)e;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(line, sizeof line, "line %d\n", i);
        while (write(STDERR_FILENO, line, strlen(line)) < 0 && errno == EAGAIN)
            ;
    }
    return 0;
}

TEST(many_lines_are_counted_instead_of_logged)
{
    unsigned long said = 0;
    begin();
    CHECK_INT(call("flood", flood, NULL), 0);
    const char *text = end();
    size_t lines = count(text, "event=process_stderr "), dropped = 0;
    CHECK(lines >= 100 && lines < 1000);
    for (const char *p = text; (p = strstr(p, "event=process_stderr_dropped ")); p++) {
        const char *n = strstr(p, "count=");
        said += n ? strtoul(n + 6, NULL, 10) : 0;
        dropped++;
    }
    CHECK(dropped > 0);
    CHECK_INT(lines + said, MANY);
}

/* Others of the same host are heard while one floods. */
TEST(the_limit_is_of_each_sandbox)
{
    begin();
    CHECK_INT(call("loud", flood, NULL), 0);
    CHECK_INT(call("quiet", steer, NULL), 7);
    CHECK_INT(count(end(), "call=quiet text="), 3);
}

static int babble(struct dz_call *c, void *arg, struct dz_err *e)
{
    static char much[100000];
    (void)c, (void)arg, (void)e;
    memset(much, 'x', sizeof much);
    (void)!write(STDERR_FILENO, much, sizeof much);
    return 0;
}

TEST(a_line_without_an_end_is_cut)
{
    begin();
    CHECK_INT(call("babble", babble, NULL), 0);
    const char *text = end();
    CHECK_INT(count(text, "event=process_stderr "), 1);
    CHECK_INT(count(text, "cut=true"), 1);
    CHECK(strlen(text) < 2000);
}

static int fill(struct dz_call *c, void *arg, struct dz_err *e)
{
    static char piece[4096];
    const struct dz_call_msg now = {.tag = 1};
    const int *go = arg;
    (void)e;
    memset(piece, 'y', sizeof piece);
    if (dz_call_send(c, &now) < 0)
        return 1;
    while (write(STDERR_FILENO, piece, sizeof piece) > 0)
        ;
    int full = errno;
    (void)!write(go[1], "", 1);
    return full == EAGAIN ? 0 : 2;
}

/* The host is busy until the call has met a full socket: a writer that waited for the host would
 * wait for ever. */
static int wait_for_full(void *host, const struct dz_call_msg *msg, struct dz_err *e)
{
    const int *go = host;
    char byte;
    (void)msg, (void)e;
    return read(go[0], &byte, 1) == 1 ? 0 : DZ_EIO;
}

TEST(a_full_socket_makes_nobody_wait)
{
    int go[2];
    CHECK_INT(pipe(go), 0);
    const struct dz_call_opts o = {.what = "fill",
                                   .run = fill,
                                   .arg = go,
                                   .fds = &go[1],
                                   .fd_count = 1,
                                   .host = go,
                                   .receive = wait_for_full};
    begin();
    CHECK_INT(dz_cell_call(&o, NULL, &err), 0);
    (void)end();
    (void)close(go[0]);
    (void)close(go[1]);
}

static int break_down(struct dz_call *c, void *arg, struct dz_err *e)
{
    (void)c, (void)arg, (void)e;
    put("what: an assertion failed\n");
    abort();
}

TEST(the_last_words_of_a_process_that_dies_are_there)
{
    begin();
    CHECK(call("die", break_down, NULL) < 0);
    CHECK_INT(count(end(), "call=die text=\"what: an assertion failed\""), 1);
}
