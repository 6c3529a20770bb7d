/* SPDX-License-Identifier: MIT
 *
 * native_main.c - a bench program as a program of the host's: PROGRAM N.
 */
#include <stdio.h>
#include <stdlib.h>

int run(int n);

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    printf("%d\n", run((int)strtol(argv[1], NULL, 10)));
    return 0;
}
