/* SPDX-License-Identifier: MIT
 *
 * os_warm.h - a process that was forked and waits for work makes its memory ready.
 *
 * After a fork each page that is written for the first time is a fault and a copy,
 * and each page of a program that is run for the first time a fault: hundreds of microseconds,
 * just when somebody waits. A process that has time before takes them then: the heap,
 * the data of the program and of the libraries that do the work, some heap and stack
 * that is not in use yet; and the text of these.
 */
#ifndef DZ_OS_OS_WARM_H
#define DZ_OS_OS_WARM_H

#include <stddef.h>

/* In the parent, before it forks: look where its heap is, which needs /proc, and have it grow
 * in steps that leave room ahead. Again when it has grown. */
void dz_os_warm_plan(void);

/* In the child. libraries: names as their files' begin, "libc.so" for instance; NULL ends
 * them. */
void dz_os_warm(const char *const *libraries);

#endif
