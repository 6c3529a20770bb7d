/* SPDX-License-Identifier: MIT
 *
 * sandbox_clock.c - the clock of durations: idleness, holds, timeouts, silence, retries.
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
#include "sandbox/sandbox_int.h"

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

int64_t dz_sandboxes_now(const struct dz_sandboxes *all)
{
    return boot_ms() + all->clock.offset;
}

static int64_t skew(const struct dz_sandboxes *all)
{
    return dz_sandboxes_now(all) - dz_clock_real_ms();
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

int64_t dz_sandboxes_date(const struct dz_sandboxes *all, int64_t at)
{
    return shift(at, -skew(all));
}

int64_t dz_sandboxes_steady(const struct dz_sandboxes *all, int64_t date)
{
    return shift(date, skew(all));
}

static void save(struct dz_sandboxes *all)
{
    const struct dz_sandbox_clock c = {
        .offset_ms = all->clock.offset, .skew_ms = skew(all), .seen_ms = dz_sandboxes_now(all)};
    all->clock.skew = c.skew_ms;
    all->clock.saved_at = c.seen_ms;
    if (all->opts.files->clock_save)
        all->opts.files->clock_save(all->opts.files_arg, &c);
}

void dz_sandboxes_clock_begin(struct dz_sandboxes *all)
{
    struct dz_sandbox_clock c = {0};
    int64_t now = dz_clock_real_ms();
    bool known =
        all->opts.files->clock_load && all->opts.files->clock_load(all->opts.files_arg, &c);
    all->clock.offset = now - boot_ms();
    if (known && c.same_boot) {
        all->clock.offset = c.offset_ms;
    } else if (known) {
        now = now + c.skew_ms > c.seen_ms ? now + c.skew_ms : c.seen_ms;
        all->clock.offset = now - boot_ms();
    }
    all->clock.before = c.skew_ms;
    save(all);
}

void dz_sandboxes_clock_check(struct dz_sandboxes *all)
{
    if (llabs(skew(all) - all->clock.skew) > STEP_MS ||
        dz_sandboxes_now(all) - all->clock.saved_at > SEEN_MS)
        save(all);
}
