/* SPDX-License-Identifier: MIT
 *
 * fiber.h - a function that can stop in the middle and resume later, on a stack of its own. So a
 * long operation (an archive, a large file) is written as a plain loop, but the machine runs
 * between its steps.
 */
#ifndef DZ_BASE_FIBER_H
#define DZ_BASE_FIBER_H

#include <stdbool.h>

struct dz_fiber;

struct dz_fiber *dz_fiber_new(void (*fn)(void *arg), void *arg); /* NULL: no memory */
/* Run it until it yields (true) or returns (false). */
bool dz_fiber_resume(struct dz_fiber *f);
/* Suspend; called from inside the fiber's function. */
void dz_fiber_yield(struct dz_fiber *f);
/* If the function has not returned, whatever it still holds is leaked. NULL is fine. */
void dz_fiber_free(struct dz_fiber *f);

#endif
