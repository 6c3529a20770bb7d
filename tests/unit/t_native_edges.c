/* SPDX-License-Identifier: MIT
 *
 * System calls with arguments at their edges answer here as on this machine: the program
 * tests/native/native_edges.c prints a line for each.
 */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/native_rig.h"

/* Print the lines that differ. */
static int differences(char *ours, char *theirs)
{
    char *a, *b;
    int n = 0;
    for (const char *x = strtok_r(ours, "\n", &a), *y = strtok_r(theirs, "\n", &b); x || y;
         x = strtok_r(NULL, "\n", &a), y = strtok_r(NULL, "\n", &b))
        if (!x || !y || strcmp(x, y) != 0) {
            printf("# %s; Linux: %s\n", x ? x : "the end", y ? y : "the end");
            if (++n == 60)
                break;
        }
    return n;
}

TEST(arguments_at_their_edges_are_answered_as_by_linux)
{
    static struct nrig r;
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 40);
    CHECK(n > 0);
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    CHECK(slash != NULL);
    *slash = '\0'; /* tests/unit */
    slash = strrchr(path, '/');
    (void)snprintf(slash, 40, "/native/native_edges");
    if (geteuid() != 0)
        SKIP("the program must be root on both sides");
    nrig_start(&r);
    nrig_copy(&r, path);
    const char *const argv[] = {path, NULL};
    CHECK_INT(nrig_host(&r, argv, NULL), 0);
    CHECK_INT(nrig_run(&r, argv, NULL), 0);
    CHECK_INT(differences(r.out, r.host), 0);
    nrig_stop(&r);
}
