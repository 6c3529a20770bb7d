/* SPDX-License-Identifier: MIT
 *
 * Sockets and interfaces of the net answer here as on this machine: the programs
 * tests/native/native_net.c and native_netif.c print a line for each of their cases.
 */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/native_rig.h"

TEST(sockets_of_the_net_are_as_on_linux)
{
    nrig_compare("native_net");
}

TEST(interfaces_are_those_of_a_network_with_only_lo)
{
    nrig_compare("native_netif");
}
