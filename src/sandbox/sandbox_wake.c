/* SPDX-License-Identifier: MIT
 *
 * sandbox_wake.c - what a wake's time went to, at log level debug: one line for each, with its
 * steps in microseconds from the moment at which its request was read. Of a slow one it also says
 * which callback held up the loop meanwhile, if one did.
 *
 *     event=wake sandbox_id=... sent_us=210 up_us=1180 told_us=1260 written_us=1900
 *         cell_ran_us=730 cell_waited_us=12
 *
 * sent: the cell was given its start. up: the loop read that the machine runs. told: the first
 * words of a command were given to who listens, -1 when nobody heard one before the line was
 * written. written: the row is written; of a sandbox from cold storage a
 * worker flushes it still. Between sent and up the cell's thread ran for cell_ran and was ready to,
 * but had no processor, for cell_waited, as the kernel counts it (/proc/PID/schedstat; -1: it does
 * not say).
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum {
    SLOW_US = 5000,
};

static int64_t since_asked(const struct dz_sandbox *s, enum wake_step step)
{
    return s->wake[step] ? (s->wake[step] - s->wake[WAKE_ASKED]) / 1000 : -1;
}

/* What the cell's thread has run until now, and what it has waited for a processor. */
static bool look_at_cell(const struct dz_sandbox *s, int64_t ret_ns[static 2])
{
    char path[64], text[64] = "";
    int pid = s->ops->pid(s->cell);
    (void)snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
    DZ_AUTO(dz_fd_close) int fd = pid > 0 ? dz_fd_open(AT_FDCWD, path, O_RDONLY, 0, NULL) : -1;
    return fd >= 0 && read(fd, text, sizeof text - 1) > 0 &&
           sscanf(text, "%" SCNd64 " %" SCNd64, &ret_ns[0], &ret_ns[1]) == 2;
}

static void note_cell(struct dz_sandbox *s, enum wake_step step)
{
    int64_t now[2];
    bool sent = step == WAKE_SENT;
    bool known = look_at_cell(s, now) && (sent || s->wake_cell[0] >= 0);
    for (int i = 0; i < 2; i++)
        s->wake_cell[i] = !known ? -1 : sent ? now[i] : (now[i] - s->wake_cell[i]) / 1000;
}

static void log_wake(const struct dz_sandbox *s)
{
    struct dz_loop_spell spell = {.kind = ""};
    char what[64] = "";
    int64_t all = 0;
    for (enum wake_step step = 0; step < WAKE_STEPS; step++)
        all = since_asked(s, step) > all ? since_asked(s, step) : all;
    if (all >= SLOW_US && dz_loop_longest(s->all->loop, s->wake[WAKE_ASKED], &spell))
        (void)snprintf(what, sizeof what, "%s at 0x%zx", spell.kind, (size_t)spell.fn);
    dz_log(DZ_LOG_DEBUG, "wake", dz_log_strz("sandbox_id", s->id),
           dz_log_int("sent_us", since_asked(s, WAKE_SENT)),
           dz_log_int("up_us", since_asked(s, WAKE_UP)),
           dz_log_int("told_us", since_asked(s, WAKE_OUTPUT)),
           dz_log_int("written_us", since_asked(s, WAKE_WRITTEN)),
           dz_log_int("cell_ran_us", s->wake_cell[0]),
           dz_log_int("cell_waited_us", s->wake_cell[1]), dz_log_bool("slow", all >= SLOW_US),
           dz_log_int("longest_us", spell.us), dz_log_strz("longest", what));
}

void dz_wake_step(struct dz_sandbox *s, enum wake_step step)
{
    if (step == WAKE_ASKED) {
        dz_wake_over(s);
        if (dz_log_enabled(DZ_LOG_DEBUG))
            s->wake[step] = dz_loop_turn_ns(s->all->loop);
        return;
    }
    if (s->wake[WAKE_ASKED] && !s->wake[step]) {
        s->wake[step] = dz_clock_mono_ns();
        if (step == WAKE_SENT || step == WAKE_UP)
            note_cell(s, step);
    }
    if (s->wake[WAKE_OUTPUT] && s->wake[WAKE_WRITTEN])
        dz_wake_over(s);
}

void dz_wake_over(struct dz_sandbox *s)
{
    if (s->wake[WAKE_UP])
        log_wake(s);
    for (int i = 0; i < WAKE_STEPS; i++)
        s->wake[i] = 0;
}
