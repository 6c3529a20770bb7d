/* SPDX-License-Identifier: MIT
 *
 * System calls with arguments at their edges answer here as on this machine: the program
 * tests/native/native_edges.c prints a line for each.
 */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/native_rig.h"

TEST(arguments_at_their_edges_are_answered_as_by_linux)
{
    static struct nrig r;
    char path[PATH_MAX];
    CHECK(nrig_find("native_edges", path));
    if (geteuid() != 0)
        SKIP("the program must be root on both sides");
    nrig_start(&r);
    nrig_copy(&r, path);
    const char *const argv[] = {path, NULL};
    CHECK_INT(nrig_host(&r, argv, NULL), 0);
    CHECK_INT(nrig_run(&r, argv, NULL), 0);
    CHECK_INT(nrig_differences(r.out, r.host), 0);
    nrig_stop(&r);
}
