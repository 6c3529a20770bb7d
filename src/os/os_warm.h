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

#include "os/os_dirty.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_OS_WARM_PAGES = 2048, /* that are kept track of: numbers below */
};

/* In the parent, before it forks: find its heap (which needs /proc), stack and data, and let the
 * heap grow in steps that leave room ahead. Call it again when the heap has grown. libraries: those
 * that do the work, by the beginning of their files' names, "libc.so" for instance; NULL ends them;
 * borrowed from then on. */
void dz_os_warm_plan(const char *const *libraries);

/* In the parent: children of the same kind write the same pages of heap, data and stack. So the
 * first ones get none, and are asked for the numbers of the pages that they wrote; later ones get
 * copies of those, and share the others. Wrong numbers cost memory only. */
void dz_os_warm_ask(void);
void dz_os_warm_learn(const uint32_t *pages, size_t count);
/* In a child, twice at most: which pages it wrote, the second time those that it did not tell;
 * none, when it was not asked or they cannot be found out. */
size_t dz_os_warm_wrote(const struct dz_os_dirty *d, uint32_t *ret_pages, size_t most);

/* In the child. d: its own pages. A child that could not find out which pages were written gets
 * copies of all. go_on is called after every few pages, from here only: false ends the work,
 * because the child has something better to do. */
void dz_os_warm(const struct dz_os_dirty *d, bool (*go_on)(void *arg), void *arg);

#endif
