/* SPDX-License-Identifier: MIT
 *
 * fiber.h - a function that can stop in the middle and go on later, on a stack of
 * its own. So that what takes long (an archive, a large file) is written as a loop, and
 * still lets the machine run in between.
 */
#ifndef DZ_BASE_FIBER_H
#define DZ_BASE_FIBER_H

#include <stdbool.h>

struct dz_fiber;

struct dz_fiber *dz_fiber_new(void (*fn)(void *arg), void *arg); /* NULL: no memory */
/* Run it until it yields (true) or returns (false). */
bool dz_fiber_resume(struct dz_fiber *f);
/* From inside. */
void dz_fiber_yield(struct dz_fiber *f);
/* What its function has not given back is lost where it has not returned. NULL is fine. */
void dz_fiber_free(struct dz_fiber *f);

#endif
