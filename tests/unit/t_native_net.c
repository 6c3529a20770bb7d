/* SPDX-License-Identifier: MIT
 *
 * Sockets and interfaces of the net answer here as on this machine: the programs
 * tests/native/native_net.c and native_netif.c print a line for each of their cases.
 */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/native_rig.h"

static void compare(const char *program)
{
    static struct nrig r;
    char path[PATH_MAX];
    CHECK(nrig_find(program, path));
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

TEST(sockets_of_the_net_are_as_on_linux)
{
    compare("native_net");
}

TEST(interfaces_are_those_of_a_network_with_only_lo)
{
    compare("native_netif");
}
