/* SPDX-License-Identifier: MIT
 *
 * posix_absent.c - what is not there: it says ENOSYS, or does nothing where that is right.
 */
#include "posix_int.h"

#include <netdb.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <syslog.h>

int h_errno;
void openlog(const char *i, int o, int f)
{
    (void)i;
    (void)o;
    (void)f;
}

void vsyslog(int p, const char *f, va_list a)
{
    (void)p;
    (void)f;
    (void)a;
}

void syslog(int p, const char *f, ...)
{
    (void)p;
    (void)f;
}

void closelog(void) {}
int socket(int a, int b, int c)
{
    (void)a;
    (void)b;
    (void)c;
    return posix_fail(ENOSYS);
}
