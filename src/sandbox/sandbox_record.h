/* SPDX-License-Identifier: MIT
 *
 * sandbox_record.h - the row of a sandbox, parsed.
 */
#ifndef DZ_SANDBOX_SANDBOX_RECORD_H
#define DZ_SANDBOX_SANDBOX_RECORD_H

#include "lifecycle/lifecycle.h"

#include <stdbool.h>
#include <stdint.h>

/* The columns of a row that decide what is due, parsed. It owns nothing. */
struct dz_record {
    bool known;               /* false: the row must be read first */
    int64_t version, epoch;   /* version and epoch of the row */
    int64_t created, expires; /* by the wall clock */
    struct dz_facts facts;    /* lacks created, expires and idle_policy, and the facts that only an
                                 active sandbox has */
    struct dz_idle_policy idle_policy; /* the sandbox's own */
    bool ignore_cpu;
    bool sleeper_stays; /* a sleeping guest is no reason to suspend it */
};

#endif
