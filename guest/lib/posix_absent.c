/* SPDX-License-Identifier: MIT
 *
 * posix_absent.c - what a sandbox does not have. Each is defined, so that programs
 * which can do without it build unchanged, and fails.
 */
#include "posix_int.h"

#include <sys/prctl.h>
#include <sys/reboot.h>

#define ABSENT(result, name, ...)          \
    result name(__VA_ARGS__)               \
    {                                      \
        return (result)posix_fail(ENOSYS); \
    }
#pragma clang diagnostic ignored "-Wunused-parameter"

ABSENT(int, reboot, int how)

/* A process has the name of its program, and keeps it. */
int prctl(int option, ...)
{
    return option == PR_SET_NAME ? 0 : posix_fail(EINVAL);
}
