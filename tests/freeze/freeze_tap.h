/* SPDX-License-Identifier: MIT
 *
 * freeze_tap.h - tap.h with a main that can also be the fresh process of
 * freeze_fresh.c. Included in the one file of each program that has the tests.
 */
#ifndef DZ_TESTS_FREEZE_TAP_H
#define DZ_TESTS_FREEZE_TAP_H

int tap_main(int argc, char **argv);
#define main        tap_main
#define TAP_ALARM_S 900
#include "tap.h"
#undef main

#include "freeze.h"

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--resume") == 0)
        return fresh_main();
    return tap_main(argc, argv);
}

#endif
