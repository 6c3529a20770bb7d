/* SPDX-License-Identifier: MIT
 *
 * sandbox_record.h - what the row of a sandbox says, as numbers.
 */
#ifndef DZ_SANDBOX_SANDBOX_RECORD_H
#define DZ_SANDBOX_SANDBOX_RECORD_H

#include "lifecycle/lifecycle.h"

#include <stdbool.h>
#include <stdint.h>

/* What a row says about the clock, parsed. A copy of numbers: it owns nothing. */
struct dz_record {
    bool known;               /* else the row is to be read */
    int64_t version, epoch;   /* of the row */
    int64_t created, expires; /* by the wall's clock */
    struct dz_facts facts; /* without those two, the idle policy, and what a sandbox that is awake
                              knows besides */
    struct dz_idle_policy idle_policy; /* its own */
    bool ignore_cpu;
    bool sleeper_stays; /* its guest's deadlines are no reason to put it down */
};

#endif
