/* SPDX-License-Identifier: MIT
 *
 * loop_sim.h - a loop for tests: time jumps from one event to the next, and there is no other
 * thread. No shipped program links it.
 *
 * Work runs in one piece, after a delay that the test draws; the simulated stores
 * inject failures in the middle of it. Events of the same moment run in the order in
 * which they were created; a posted task is such an event, too. A descriptor is a number that the
 * test makes up, and is readable while the test says so. There are no signals: asking for one fails
 * with DZ_EUNSUPPORTED.
 *
 * While the loop lives, dz_clock_* of the process read its clock.
 */
#ifndef DZ_LOOP_LOOP_SIM_H
#define DZ_LOOP_LOOP_SIM_H

#include "base/clock.h"
#include "loop/loop.h"

/* The clock starts at *clock. delay_ms(arg) draws the duration of each work; NULL: 1 ms. */
DZ_NODISCARD int dz_loop_sim_new(struct dz_clock_test *clock, int64_t (*delay_ms)(void *arg),
                                 void *arg, struct dz_loop **ret_loop, struct dz_err *err);

/* Draw which task runs next: draw(arg, n) picks one of n, and the first posted task of its owner
 * runs. So a test finds code that relies on an order between objects. NULL: in the order of
 * posting. */
void dz_loop_sim_draw(struct dz_loop *loop, size_t (*draw)(void *arg, size_t n), void *arg);

/* Move the clock to the next event and run it. False: there is no event up to `until` (real ms);
 * the clock is then at `until`. */
bool dz_loop_sim_step(struct dz_loop *loop, int64_t until);

/* Schedule a call after this delay, for tests that make events of their own. */
DZ_NODISCARD int dz_loop_sim_call(struct dz_loop *loop, int64_t after_ms, void (*fn)(void *arg),
                                  void *arg, struct dz_err *err);

/* Make this descriptor readable, or not. While it is readable, the callback of its poll is called
 * repeatedly. A poll may be added later. */
DZ_NODISCARD int dz_loop_sim_readable(struct dz_loop *loop, int fd, bool readable,
                                      struct dz_err *err);

/* Simulate a crash: stop all timers and polls, cancel all tasks, and drop all work without running
 * or reporting it. */
void dz_loop_sim_forget(struct dz_loop *loop);

#endif
