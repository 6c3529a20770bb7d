/* SPDX-License-Identifier: MIT
 *
 * names_in.h - how many names a directory of a test has, also those that begin with a dot.
 */
#ifndef DZ_TESTS_NAMES_IN_H
#define DZ_TESTS_NAMES_IN_H

#include <stdio.h>

/* -1: it cannot be listed. */
static inline int names_in(const char *directory)
{
    char command[8192];
    int n = -1;
    if (snprintf(command, sizeof command, "ls -A '%s' | wc -l", directory) >= (int)sizeof command)
        return -1;
    FILE *f = popen(command, "r");
    if (!f || fscanf(f, "%d", &n) != 1)
        n = -1;
    if (f)
        (void)pclose(f);
    return n;
}

#endif
