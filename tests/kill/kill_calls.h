/* SPDX-License-Identifier: MIT
 *
 * kill_calls.h - this program's own versions of the system calls that change files:
 * they count themselves, and before the nth the process kills itself with SIGKILL.
 */
#ifndef DZ_TESTS_KILL_CALLS_H
#define DZ_TESTS_KILL_CALLS_H

/* From now on: the process dies before call n (0 is the next); n < 0: never. */
void kill_at(long n);
long kill_calls(void); /* since the last kill_at */

#endif
