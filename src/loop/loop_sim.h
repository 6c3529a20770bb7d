/* SPDX-License-Identifier: MIT
 *
 * loop_sim.h - a loop for tests: time jumps from one event to the next, and there
 * is no other thread. Nothing that ships links it.
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

/* The clock starts where *clock stands. delay_ms(arg) is asked for each piece of
 * work; NULL: 1 ms. */
DZ_NODISCARD int dz_loop_sim_new(struct dz_clock_test *clock, int64_t (*delay_ms)(void *arg),
                                 void *arg, struct dz_loop **ret_loop, struct dz_err *err);

/* Draw which task runs next: draw(arg, n) picks one of n, and the first posted task of its owner
 * runs. So a test finds code that relies on an order between objects. NULL: in the order of
 * posting. */
void dz_loop_sim_draw(struct dz_loop *loop, size_t (*draw)(void *arg, size_t n), void *arg);

/* The next event, whenever that is: the clock moves there. False: there is none.
 * `until` (real ms): not beyond that; the clock then stands there. */
bool dz_loop_sim_step(struct dz_loop *loop, int64_t until);

/* A call at the loop's next turn, for tests that make events of their own. */
DZ_NODISCARD int dz_loop_sim_call(struct dz_loop *loop, int64_t after_ms, void (*fn)(void *arg),
                                  void *arg, struct dz_err *err);

/* From now on this descriptor can be read; or it cannot. Whoever polls it is called, again and
 * again while it can. Nobody need poll it yet. */
DZ_NODISCARD int dz_loop_sim_readable(struct dz_loop *loop, int fd, bool readable,
                                      struct dz_err *err);

/* Simulate a crash: stop all timers and polls, cancel all tasks, and drop all work without running
 * or reporting it. */
void dz_loop_sim_forget(struct dz_loop *loop);

#endif
