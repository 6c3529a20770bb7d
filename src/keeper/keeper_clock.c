/* SPDX-License-Identifier: MIT
 *
 * keeper_clock.c - the clock of durations: idleness, holds, timeouts, silence, retries.
 *
 *   now = CLOCK_BOOTTIME + offset
 *
 * The offset is chosen once, so that the clock shows what the wall's clock shows. It is kept as
 * long as the machine runs, over restarts of the daemon, too. When the machine was restarted,
 * CLOCK_BOOTTIME began anew: then the clock goes on from the wall's, less the difference that the
 * two had, and never from before the time at which the daemon was last seen.
 *
 * What does not follow: a date that a client set (expiry) is of the wall's clock.
 */
#include "keeper/keeper_int.h"

#include "base/clock.h"

#include <stdlib.h>

enum {
    STEP_MS = 1000,           /* a larger difference: the wall's clock was set */
    SEEN_MS = 10 * 60 * 1000, /* the clock is saved so often while there is something to do */
};

static int64_t boot_ms(void)
{
    return dz_clock_boot_ns() / DZ_NS_PER_MS;
}

int64_t dz_keeper_now(const struct dz_keeper *k)
{
    return boot_ms() + k->clock.offset;
}

static int64_t skew(const struct dz_keeper *k)
{
    return dz_keeper_now(k) - dz_clock_real_ms();
}

static int64_t shift(int64_t at, int64_t by)
{
    int64_t sum;
    if (at == 0 || at == INT64_MAX)
        return at;
    if (__builtin_add_overflow(at, by, &sum))
        return by > 0 ? INT64_MAX : 1;
    return sum > 0 ? sum : 1;
}

int64_t dz_keeper_date(const struct dz_keeper *k, int64_t at)
{
    return shift(at, -skew(k));
}

int64_t dz_keeper_steady(const struct dz_keeper *k, int64_t date)
{
    return shift(date, skew(k));
}

static void save(struct dz_keeper *k)
{
    const struct dz_keeper_clock c = {
        .offset_ms = k->clock.offset, .skew_ms = skew(k), .seen_ms = dz_keeper_now(k)};
    k->clock.skew = c.skew_ms;
    k->clock.saved_at = c.seen_ms;
    if (k->opts.files->clock_save)
        k->opts.files->clock_save(k->opts.files_arg, &c);
}

void dz_keeper_clock_begin(struct dz_keeper *k)
{
    struct dz_keeper_clock c = {0};
    int64_t now = dz_clock_real_ms();
    bool known = k->opts.files->clock_load && k->opts.files->clock_load(k->opts.files_arg, &c);
    k->clock.offset = now - boot_ms();
    if (known && c.same_boot) {
        k->clock.offset = c.offset_ms;
    } else if (known) {
        now = now + c.skew_ms > c.seen_ms ? now + c.skew_ms : c.seen_ms;
        k->clock.offset = now - boot_ms();
    }
    k->clock.before = c.skew_ms;
    save(k);
}

void dz_keeper_clock_look(struct dz_keeper *k)
{
    if (llabs(skew(k) - k->clock.skew) > STEP_MS || dz_keeper_now(k) - k->clock.saved_at > SEEN_MS)
        save(k);
}
