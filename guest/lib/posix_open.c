/* SPDX-License-Identifier: MIT
 *
 * posix_open.c - opening files.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

int openat(int d, const char *p, int fl, ...)
{
    va_list ap;
    int mode;

    va_start(ap, fl);
    mode = fl & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    return posix_ret(doze_open(d, p, fl, mode));
}

int open(const char *p, int fl, ...)
{
    va_list ap;
    int mode;

    va_start(ap, fl);
    mode = fl & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    return posix_ret(doze_open(AT_FDCWD, p, fl, mode));
}

int creat(const char *p, mode_t m)
{
    return open(p, O_CREAT | O_WRONLY | O_TRUNC, m);
}

/* What libc's fopen calls. */
int __wasilibc_open_nomode(const char *p, int fl)
{
    return posix_ret(doze_open(AT_FDCWD, p, fl, 0666));
}

int __wasilibc_openat_nomode(int d, const char *p, int fl)
{
    return posix_ret(doze_open(d, p, fl, 0666));
}
