/* SPDX-License-Identifier: MIT
 *
 * Sockets of the net answer here as on this machine: the program tests/native/native_net.c prints a
 * line for each of its cases.
 */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/native_rig.h"

TEST(sockets_of_the_net_are_as_on_linux)
{
    static struct nrig r;
    char path[PATH_MAX];
    CHECK(nrig_find("native_net", path));
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
