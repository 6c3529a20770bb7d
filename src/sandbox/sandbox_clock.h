/* SPDX-License-Identifier: MIT
 *
 * sandbox_clock.h - the clock of durations, activity, and what is due.
 */
#ifndef DZ_SANDBOX_SANDBOX_CLOCK_H
#define DZ_SANDBOX_SANDBOX_CLOCK_H

#include "lifecycle/lifecycle.h"
#include "registry/registry.h"
#include "sandbox/sandbox_why.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_sandboxes;

/* The clock of all durations and of the times in rows, in ms since 1970. It was the wall clock when
 * the registry was first used, and has advanced with CLOCK_BOOTTIME since. Setting the wall clock
 * does not change it, nor does a restart of the daemon. Over a reboot of the host the wall clock
 * says how much time has passed. */
int64_t dz_sandboxes_now(const struct dz_sandboxes *all);
/* Convert a time of that clock to a date of the wall clock, and back. 0 stays 0. */
int64_t dz_sandboxes_date(const struct dz_sandboxes *all, int64_t at);
int64_t dz_sandboxes_steady(const struct dz_sandboxes *all, int64_t date);

/* Report activity of a sandbox; resets its idle time if this kind of activity counts. */
void dz_sandbox_touch(struct dz_sandboxes *all, const char *id, enum dz_activity what);
/* Report that all processes of its guest sleep until this date (ms); 0: they do not sleep. */
void dz_sandbox_guest_sleeps(struct dz_sandboxes *all, const char *id, int64_t until);
/* Keep it awake until this date (ms; 0: no longer). Later changes of the wall clock do not move
 * the end. */
DZ_NODISCARD int dz_sandbox_hold(struct dz_sandboxes *all, const char *id, int64_t until,
                                 struct dz_err *err);

/* The date (ms) at which it expires if nothing happens, or, once it has expired, is removed. 0:
 * never. */
int64_t dz_sandboxes_expires(struct dz_sandboxes *all, const struct dz_instance *row);
/* Limit how long it may be active: counted from now, or if it is not active, from its next wake. 0:
 * no limit. */
DZ_NODISCARD int dz_sandbox_timeout(struct dz_sandboxes *all, const char *id, int64_t length_ms,
                                    enum dz_timeout_action action, struct dz_err *err);

#endif
