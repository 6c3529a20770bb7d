/* SPDX-License-Identifier: MIT
 *
 * sandbox_clock.h - the clock of durations, and what is due.
 */
#ifndef DZ_SANDBOX_SANDBOX_CLOCK_H
#define DZ_SANDBOX_SANDBOX_CLOCK_H

#include "lifecycle/lifecycle.h"
#include "registry/registry.h"
#include "sandbox/sandbox_why.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_sandboxes;

/* The clock of all durations, and of the times in rows: ms since 1970 as the wall's clock had
 * them when the registry was first used, from then on by CLOCK_BOOTTIME. Setting the wall's clock
 * does not change it, nor does a restart of the daemon. Across a restart of the machine the wall's
 * clock says how much time has passed. */
int64_t dz_sandboxes_now(const struct dz_sandboxes *all);
/* A time of that clock as a date, and a date as a time of that clock; 0 stays 0. */
int64_t dz_sandboxes_date(const struct dz_sandboxes *all, int64_t at);
int64_t dz_sandboxes_steady(const struct dz_sandboxes *all, int64_t date);

/* Something was done with a sandbox; resets its idle clock if it counts. */
void dz_sandbox_touch(struct dz_sandboxes *all, const char *id, enum dz_activity what);
/* All processes of its guest sleep until then (a date, ms); 0: they do not. */
void dz_sandbox_guest_sleeps(struct dz_sandboxes *all, const char *id, int64_t until);
/* Keep it awake until then (a date, ms; 0: no longer). The time until then is what counts. */
DZ_NODISCARD int dz_sandbox_hold(struct dz_sandboxes *all, const char *id, int64_t until,
                                 struct dz_err *err);

/* So long it may be awake from now on, or (asleep) from its next wake (0: for ever). */
DZ_NODISCARD int dz_sandbox_timeout(struct dz_sandboxes *all, const char *id, int64_t length_ms,
                                    enum dz_timeout_action action, struct dz_err *err);

#endif
