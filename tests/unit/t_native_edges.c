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
    nrig_compare("native_edges");
}
