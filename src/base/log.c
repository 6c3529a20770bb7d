/* SPDX-License-Identifier: MIT
 *
 * log.c - building and writing a line.
 *
 * A line is built in an array on the stack. Each field is appended as a whole or removed again;
 * TAIL bytes are always kept free for the end of the line. Before the write, poll(2) without
 * waiting tells whether a whole line fits: a pipe is
 * writable when PIPE_BUF bytes are free, and a line is never longer. (Another
 * writer may fill the pipe between the two calls; then the write waits for the
 * reader like any write.)
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(DZ_LOG_LINE_MAX <= PIPE_BUF, "one write of a line to a pipe is atomic");

enum {
    TAIL = 32, /* room for " truncated=true" or its JSON, "}" and the newline */
};

struct line {
    size_t n;
    size_t start; /* where the first field begins */
    bool json;
    bool cut;       /* the field being added does not fit */
    bool truncated; /* some field did not */
    char p[DZ_LOG_LINE_MAX];
};

static struct {
    int fd;
    enum dz_log_level level;
    bool json;
    bool journal;
    atomic_ulong dropped;
} sink = {.fd = STDERR_FILENO, .level = DZ_LOG_INFO};

static _Thread_local struct dz_log_context context;

static const struct {
    const char *name;
    enum dz_log_level level;
} levels[] = {
    {"error", DZ_LOG_ERROR},
    {"warn", DZ_LOG_WARN},
    {"info", DZ_LOG_INFO},
    {"debug", DZ_LOG_DEBUG},
};

int dz_log_level_parse(struct dz_str s, enum dz_log_level *ret_level, struct dz_err *err)
{
    char text[DZ_STR_QUOTED];
    for (size_t i = 0; i < DZ_ARRAY_LEN(levels); i++) {
        if (dz_str_eqz(s, levels[i].name)) {
            *ret_level = levels[i].level;
            return 0;
        }
    }
    return dz_fail(err, DZ_EINVAL, "%s is not a log level: expected error, warn, info or debug",
                   dz_str_quote(s, text));
}

static const char *level_name(enum dz_log_level level)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(levels); i++)
        if (levels[i].level == level)
            return levels[i].name;
    return "debug";
}

/* JOURNAL_STREAM is "device:inode" of the stream that the journal reads. */
static bool is_journal(int fd)
{
    char mine[64];
    struct stat st;
    const char *stream = getenv("JOURNAL_STREAM");
    if (!stream || fstat(fd, &st) < 0)
        return false;
    (void)snprintf(mine, sizeof mine, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    return strcmp(mine, stream) == 0;
}

void dz_log_setup(int fd, enum dz_log_level level, bool json)
{
    sink.fd = fd;
    sink.level = level;
    sink.json = json;
    sink.journal = is_journal(fd);
}

bool dz_log_enabled(enum dz_log_level level)
{
    return level <= sink.level;
}

struct dz_log_context dz_log_enter(struct dz_log_context now)
{
    struct dz_log_context before = context;
    context = now;
    return before;
}

struct dz_log_context dz_log_current(void)
{
    return context;
}

void dz_log_about(const char *sandbox_id)
{
    if (context.about)
        (void)snprintf(context.about, DZ_LOG_ID_TEXT, "%s", sandbox_id);
}

/* --- a line ------------------------------------------------------------------ */

static void add(struct line *l, const char *p, size_t n)
{
    if (n > sizeof l->p - TAIL - l->n)
        l->cut = true;
    if (l->cut)
        return;
    memcpy(l->p + l->n, p, n);
    l->n += n;
}

static void adds(struct line *l, const char *s)
{
    add(l, s, strlen(s));
}

static void add_quoted(struct line *l, struct dz_str s)
{
    char piece[DZ_JSON_CHAR];
    size_t used;

    add(l, "\"", 1);
    for (size_t i = 0; i < s.n; i += used) {
        if (i >= DZ_LOG_VALUE_MAX) {
            adds(l, "...");
            break;
        }
        add(l, piece, dz_json_escape_char(s.p + i, s.n - i, piece, &used));
    }
    add(l, "\"", 1);
}

/* May s stand without quotes? */
static bool is_plain(struct dz_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~' || s.p[i] == '"' || s.p[i] == '=' || s.p[i] == '\\')
            return false;
    return s.n > 0 && s.n <= DZ_LOG_VALUE_MAX;
}

static void add_value(struct line *l, const struct dz_log_field *f)
{
    char number[24];
    switch (f->kind) {
    case DZ_LOG_FIELD_STR:
        if (!l->json && is_plain(f->str))
            add(l, f->str.p, f->str.n);
        else
            add_quoted(l, f->str);
        break;
    case DZ_LOG_FIELD_INT:
        (void)snprintf(number, sizeof number, "%" PRId64, f->i);
        adds(l, number);
        break;
    case DZ_LOG_FIELD_UINT:
        (void)snprintf(number, sizeof number, "%" PRIu64, f->u);
        adds(l, number);
        break;
    case DZ_LOG_FIELD_BOOL:
        adds(l, f->b ? "true" : "false");
        break;
    }
}

/* Append one field, as a whole or not at all; a later, shorter field may still fit. */
static void add_field(struct line *l, const struct dz_log_field *f)
{
    size_t before = l->n;

    assert(f->key && *f->key);
    if (before > l->start)
        adds(l, l->json ? "," : " ");
    if (l->json)
        add(l, "\"", 1);
    adds(l, f->key);
    adds(l, l->json ? "\":" : "=");
    add_value(l, f);
    if (l->cut) {
        l->n = before;
        l->cut = false;
        l->truncated = true;
    }
}

/* End the line; the TAIL bytes were kept free for this. */
static void add_end(struct line *l)
{
    static const char *const ends[2][2] = {{"\n", " truncated=true\n"},
                                           {"}\n", ",\"truncated\":true}\n"}};
    const char *end = ends[l->json][l->truncated];
    size_t n = strlen(end);
    assert(n <= sizeof l->p - l->n);
    memcpy(l->p + l->n, end, n);
    l->n += n;
}

static bool says(const struct dz_log_field *fields, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].key, key) == 0)
            return true;
    return false;
}

static void build(struct line *l, enum dz_log_level level, const char *event,
                  const struct dz_log_field *fields, size_t count)
{
    struct dz_log_field head[5];
    char now[DZ_RFC3339_TEXT];
    size_t n = 0;

    l->n = 0;
    l->json = sink.json;
    l->cut = l->truncated = false;
    if (sink.journal) {
        const char priority[] = {'<', (char)('0' + (int)level), '>'};
        add(l, priority, sizeof priority);
    } else {
        head[n++] = dz_log_strz("time", dz_rfc3339_print(dz_clock_real_ms(), now));
    }
    head[n++] = dz_log_strz("level", level_name(level));
    head[n++] = dz_log_strz("event", event);
    if (context.request_id && context.request_id[0] && !says(fields, count, "request_id"))
        head[n++] = dz_log_strz("request_id", context.request_id);
    if (context.sandbox_id && context.sandbox_id[0] && !says(fields, count, "sandbox_id"))
        head[n++] = dz_log_strz("sandbox_id", context.sandbox_id);
    if (l->json)
        add(l, "{", 1);
    l->start = l->n;
    for (size_t i = 0; i < n; i++)
        add_field(l, &head[i]);
    for (size_t i = 0; i < count; i++)
        add_field(l, &fields[i]);
    add_end(l);
}

/* --- writing ----------------------------------------------------------------- */

/* False: the line cannot be written without waiting. */
static bool put_line(const struct line *l)
{
    struct pollfd p = {.fd = sink.fd, .events = POLLOUT};
    if (poll(&p, 1, 0) != 1 || p.revents != POLLOUT)
        return false;
    ssize_t done;
    do
        done = write(sink.fd, l->p, l->n);
    while (done < 0 && errno == EINTR);
    return done == (ssize_t)l->n;
}

void dz_log_write(enum dz_log_level level, const char *event, const struct dz_log_field *fields,
                  size_t count)
{
    struct line l;
    int saved = errno;

    unsigned long lost = atomic_exchange(&sink.dropped, 0);
    if (lost > 0) {
        const struct dz_log_field n = dz_log_uint("count", lost);
        build(&l, DZ_LOG_WARN, "log_dropped", &n, 1);
        if (!put_line(&l)) {
            (void)atomic_fetch_add(&sink.dropped, lost + 1);
            errno = saved;
            return;
        }
    }
    build(&l, level, event, fields, count);
    if (!put_line(&l))
        (void)atomic_fetch_add(&sink.dropped, 1);
    errno = saved;
}
