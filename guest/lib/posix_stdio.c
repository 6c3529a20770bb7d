/* SPDX-License-Identifier: MIT
 *
 * posix_stdio.c - what libc's stdio leaves out or was built without.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* fopen and fdopen ask this; libc's own was compiled with O_CLOEXEC 0. */
int __fmodeflags(const char *mode)
{
    int flags = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;

    if (*mode != 'r')
        flags |= O_CREAT;
    if (*mode == 'w')
        flags |= O_TRUNC;
    if (*mode == 'a')
        flags |= O_APPEND;
    if (strchr(mode, 'x'))
        flags |= O_EXCL;
    if (strchr(mode, 'e'))
        flags |= O_CLOEXEC;
    return flags;
}

/* One thread: every lock is free. */
void flockfile(FILE *f)
{
    (void)f;
}

int ftrylockfile(FILE *f)
{
    (void)f;
    return 0;
}

void funlockfile(FILE *f)
{
    (void)f;
}

/* No program of a sandbox gets rights from its file. */
int issetugid(void)
{
    return 0;
}

char *secure_getenv(const char *name)
{
    return getenv(name);
}
