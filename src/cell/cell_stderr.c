/* SPDX-License-Identifier: MIT
 *
 * cell_stderr.c - see cell_stderr.h.
 *
 * The number of lines is limited by token buckets: of_each.
 * ASan's report of one error has up to 150 lines, which the burst lets through. Labels share
 * BUCKETS buckets by a keyed hash: two sandboxes in one bucket share its lines.
 */
#include "cell/cell_stderr.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "cell/cell_rate.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
    BUCKETS = 1024,
};
/* Limits on the lines of one label, and of all labels together. */
static const struct dz_rate_of of_each = {.burst = 256, .more = 1, .every_ns = DZ_NS_PER_S},
                               of_all = {.burst = 4096, .more = 64, .every_ns = DZ_NS_PER_S};

static struct {
    pthread_mutex_t lock;
    uint64_t key[2]; /* zero: not generated yet */
    struct dz_rate all, each[BUCKETS];
} limit = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const names[] = {"seed", "zygote", "cell", "call"};
static const char *const keys[] = {NULL, "image", "sandbox_id", "call"};

static bool may_log(const struct dz_cell_stderr *w)
{
    int64_t now_ns = dz_clock_boot_ns();
    (void)pthread_mutex_lock(&limit.lock);
    if (!limit.key[0] && getrandom(limit.key, sizeof limit.key, 0) < 0)
        limit.key[0] =
            1; /* never happens; without a random key, labels that share lines could be chosen */
    size_t at = dz_siphash(limit.key, w->label, strlen(w->label)) % BUCKETS;
    struct dz_rate *mine = &limit.each[at];
    bool may =
        dz_rate_left(mine, &of_each, now_ns) > 0 && dz_rate_left(&limit.all, &of_all, now_ns) > 0;
    if (may) {
        mine->tokens--;
        limit.all.tokens--;
    }
    (void)pthread_mutex_unlock(&limit.lock);
    return may;
}

/* Choose the log context: the thread's may belong to an unrelated request, so only a call, whose
 * context is its caller's, keeps it. */
static struct dz_log_context enter(const struct dz_cell_stderr *w)
{
    return w->of == DZ_STDERR_CALL ? dz_log_current() : dz_log_enter((struct dz_log_context){0});
}

/* Log one event about the process. */
static void log_event(const struct dz_cell_stderr *w, const char *event, struct dz_log_field what,
                      bool cut)
{
    struct dz_log_field fields[4] = {dz_log_strz("process", names[w->of])};
    struct dz_log_context before = enter(w);
    size_t n = 1;
    if (w->label[0])
        fields[n++] = dz_log_strz(keys[w->of], w->label);
    fields[n++] = what;
    if (cut)
        fields[n++] = dz_log_bool("cut", true);
    if (dz_log_enabled(DZ_LOG_WARN))
        dz_log_write(DZ_LOG_WARN, event, fields, n);
    (void)dz_log_enter(before);
}

static void log_dropped(struct dz_cell_stderr *w)
{
    if (w->dropped > 0)
        log_event(w, "process_stderr_dropped", dz_log_uint("count", w->dropped), false);
    w->dropped = 0;
}

/* Log the line. False: there were too many lines. */
static bool log_line(struct dz_cell_stderr *w)
{
    bool may = may_log(w);
    if (may) {
        log_dropped(w);
        log_event(w, "process_stderr", dz_log_str("text", dz_str_n(w->line, w->size)), w->cut);
    } else {
        w->dropped++;
    }
    w->size = 0;
    w->cut = false;
    return may;
}

void dz_cell_stderr_init(struct dz_cell_stderr *w, enum dz_cell_stderr_of of, const char *label)
{
    w->of = of;
    w->size = 0;
    w->dropped = 0;
    w->cut = false;
    (void)snprintf(w->label, sizeof w->label, "%s", label ? label : "");
}

/* Count the complete lines at the beginning, without logging them. Returns their size in bytes. */
static size_t drop_lines(struct dz_cell_stderr *w, const char *p, size_t size)
{
    const char *last = memrchr(p, '\n', size);
    size_t n = last ? (size_t)(last - p) + 1 : 0;
    for (size_t i = 0; i < n; i++)
        w->dropped += p[i] == '\n';
    return n;
}

/* When a line of a packet exceeds the limit, drop the rest of the packet, too: a packet of
 * thousands of short lines must not cost the host a check of the limits for each. */
void dz_cell_stderr_add(struct dz_cell_stderr *w, const void *data, size_t size)
{
    const char *p = data;
    while (size > 0) {
        const char *newline = memchr(p, '\n', size);
        size_t n = newline ? (size_t)(newline - p) : size;
        size_t room = sizeof w->line - w->size, fits = n < room ? n : room;
        memcpy(w->line + w->size, p, fits);
        w->size += fits;
        w->cut |= fits < n;
        n += newline != NULL;
        p += n;
        size -= n;
        if (newline && !log_line(w)) {
            n = drop_lines(w, p, size);
            p += n;
            size -= n;
        }
    }
}

void dz_cell_stderr_end(struct dz_cell_stderr *w)
{
    if (w->size > 0)
        (void)log_line(w);
    log_dropped(w);
}
