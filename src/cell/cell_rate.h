/* SPDX-License-Identifier: MIT
 *
 * cell_rate.h - limit how often something may happen in a period: a bucket of tokens.
 *
 *     static const struct dz_rate_of lines = {.burst = 256, .more = 1, .every_ns = DZ_NS_PER_S};
 *     if (dz_rate_left(&r, &lines, now_ns) >= 1)
 *         r.tokens -= 1;
 *
 * A bucket begins full, with `burst` tokens, and gets `more` in each period, up to that. Zeroed
 * memory is a bucket that was never used.
 */
#ifndef DZ_CELL_CELL_RATE_H
#define DZ_CELL_CELL_RATE_H

#include <stdint.h>

struct dz_rate_of {
    int64_t burst, more; /* burst: the most tokens at a time; more: tokens added in each period */
    int64_t every_ns;    /* the length of a period */
};

struct dz_rate {
    int64_t since_ns; /* when the tokens were counted last; 0: never */
    int64_t tokens;
};

/* The number of tokens at `now`, on the boot clock. */
static inline int64_t dz_rate_left(struct dz_rate *r, const struct dz_rate_of *of, int64_t now_ns)
{
    int64_t periods = (now_ns - r->since_ns) / of->every_ns;
    if (r->since_ns == 0 || periods > of->burst) {
        *r = (struct dz_rate){.since_ns = now_ns, .tokens = of->burst};
    } else if (periods > 0) {
        r->since_ns += periods * of->every_ns;
        r->tokens += periods * of->more;
        r->tokens = r->tokens < of->burst ? r->tokens : of->burst;
    }
    return r->tokens;
}

#endif
