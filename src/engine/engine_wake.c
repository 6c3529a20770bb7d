/* SPDX-License-Identifier: MIT
 *
 * engine_wake.c - what a wake's time went to, at log level debug: one line for each, with its steps
 * in microseconds from the moment at which its request was read. Of a slow one it also says which
 * callback held up the loop meanwhile, if one did: the rest was spent in the cell, or waiting for a
 * processor.
 *
 *     event=wake sandbox_id=... sent_us=210 up_us=1180 told_us=1260 written_us=1900
 *
 * sent: the cell was given its start. up: the loop read that the machine runs. told: the first
 * words of a command were given to who listens, -1 when nobody heard one before the line was
 * written. written: the keeper was told and the row is written; of a sandbox from cold storage a
 * worker flushes it still.
 */
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>

enum {
    SLOW_US = 5000,
};

static int64_t since_asked(const struct box *b, enum wake_step step)
{
    return b->wake[step] ? (b->wake[step] - b->wake[WAKE_ASKED]) / 1000 : -1;
}

static void tell(const struct box *b)
{
    struct dz_loop_spell spell = {.kind = ""};
    char what[64] = "";
    int64_t all = 0;
    for (int i = 0; i < WAKE_STEPS; i++)
        all = since_asked(b, i) > all ? since_asked(b, i) : all;
    if (all >= SLOW_US && dz_loop_longest(b->e->loop, b->wake[WAKE_ASKED], &spell))
        (void)snprintf(what, sizeof what, "%s at 0x%zx", spell.kind, (size_t)spell.fn);
    dz_log(DZ_LOG_DEBUG, "wake", dz_log_strz("sandbox_id", b->id),
           dz_log_int("sent_us", since_asked(b, WAKE_SENT)),
           dz_log_int("up_us", since_asked(b, WAKE_UP)),
           dz_log_int("told_us", since_asked(b, WAKE_TOLD)),
           dz_log_int("written_us", since_asked(b, WAKE_WRITTEN)),
           dz_log_bool("slow", all >= SLOW_US), dz_log_int("longest_us", spell.us),
           dz_log_strz("longest", what));
}

void dz_wake_step(struct box *b, enum wake_step step)
{
    if (step == WAKE_ASKED) {
        dz_wake_over(b);
        if (dz_log_enabled(DZ_LOG_DEBUG))
            b->wake[step] = dz_loop_turn_ns(b->e->loop);
        return;
    }
    if (b->wake[WAKE_ASKED] && !b->wake[step])
        b->wake[step] = dz_clock_mono_ns();
    if (b->wake[WAKE_TOLD] && b->wake[WAKE_WRITTEN])
        dz_wake_over(b);
}

void dz_wake_over(struct box *b)
{
    if (b->wake[WAKE_UP])
        tell(b);
    for (int i = 0; i < WAKE_STEPS; i++)
        b->wake[i] = 0;
}
