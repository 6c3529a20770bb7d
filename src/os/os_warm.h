/* SPDX-License-Identifier: MIT
 *
 * os_warm.h - pre-fault the memory of a forked process while it waits for work.
 *
 * After a fork, the first write to each page costs a fault and a copy, and the first execution of
 * each page of code costs a fault. Together they add hundreds of microseconds to the first
 * request. A process that is still idle takes these faults in advance: for the heap, the data and
 * code of the program and of the libraries that do the work, and some heap and stack that is not
 * in use yet.
 */
#ifndef DZ_OS_OS_WARM_H
#define DZ_OS_OS_WARM_H

#include "os/os_dirty.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_OS_WARM_PAGES = 2048, /* pages that are tracked; their numbers are below this */
};

/* In the parent, before it forks: find the heap (this needs /proc), stack and data, and make the
 * heap grow in larger steps. Call it again after the heap has grown. libraries: the file name
 * prefixes of the libraries that do the work ("libc.so"), ended by NULL; borrowed for good. */
void dz_os_warm_plan(const char *const *libraries);

/* In the parent: children of the same kind write the same pages of heap, data and stack. So the
 * first children pre-fault none of them, and report the numbers of the pages that they wrote. Later
 * children pre-fault those pages and share the others. Wrong numbers only cost memory. */
void dz_os_warm_ask(void);
void dz_os_warm_learn(const uint32_t *pages, size_t count);
/* In a child, at most twice: the numbers of the pages that it wrote and has not reported yet.
 * Returns their number; 0 if the parent did not ask or the kernel cannot tell. */
size_t dz_os_warm_wrote(const struct dz_os_dirty *d, uint32_t *ret_pages, size_t most);

/* In the child: pre-fault. d: the child's own, not its parent's. A child that cannot find out which
 * pages it writes copies all of them. go_on is called after every few pages, only during this call;
 * if it returns false because the child has other work, pre-faulting ends. */
void dz_os_warm(const struct dz_os_dirty *d, bool (*go_on)(void *arg), void *arg);

#endif
