/* SPDX-License-Identifier: MIT
 *
 * posix_exec.c - the exec family over the one call that the kernel has.
 */
#include "posix_int.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

int execve(const char *p, char *const a[], char *const e[])
{
    return posix_ret(doze_execve(p, a, e));
}

int execv(const char *p, char *const a[])
{
    return execve(p, a, environ);
}

/* A file that the kernel cannot run is a script without "#!". */
static int exec_sh(const char *p, char *const a[], char *const e[])
{
    int n = 0, i;

    execve(p, a, e);
    if (errno != ENOEXEC)
        return -1;
    while (a[n])
        n++;
    {
        char *b[n + 2];

        b[0] = "/bin/sh";
        b[1] = (char *)p;
        for (i = 1; i <= n; i++)
            b[i + 1] = a[i];
        return execve(b[0], b, e);
    }
}

int execvpe(const char *f, char *const a[], char *const e[])
{
    const char *path = getenv("PATH"), *q;
    char buf[PATH_MAX];
    int denied = 0;
    size_t l = strlen(f), n;

    if (!*f)
        return posix_fail(ENOENT);
    if (strchr(f, '/'))
        return exec_sh(f, a, e);
    if (!path)
        path = "/usr/local/bin:/bin:/usr/bin";
    for (;; path = q + 1) {
        q = strchrnul(path, ':');
        n = (size_t)(q - path);
        if (n + l + 2 <= sizeof buf) {
            memcpy(buf, path, n);
            if (n)
                buf[n++] = '/';
            memcpy(buf + n, f, l + 1);
            exec_sh(buf, a, e);
            if (errno == EACCES)
                denied = 1;
            else if (errno != ENOENT && errno != ENOTDIR)
                return -1;
        }
        if (!*q)
            break;
    }
    errno = denied ? EACCES : ENOENT;
    return -1;
}

int execvp(const char *f, char *const a[])
{
    return execvpe(f, a, environ);
}

/* v: the arguments from `first` to the null pointer; ap stands behind it. */
#define GATHER(first)            \
    int n = 1;                   \
    va_list ap, aq;              \
    va_start(ap, first);         \
    va_copy(aq, ap);             \
    while (va_arg(aq, char *))   \
        n++;                     \
    va_end(aq);                  \
    char *v[n + 1];              \
    v[0] = (char *)first;        \
    for (int i = 1; i <= n; i++) \
    v[i] = va_arg(ap, char *)

int execl(const char *p, const char *a, ...)
{
    GATHER(a);
    va_end(ap);
    return execv(p, v);
}

int execlp(const char *p, const char *a, ...)
{
    GATHER(a);
    va_end(ap);
    return execvp(p, v);
}

int execle(const char *p, const char *a, ...)
{
    GATHER(a);
    char **e = va_arg(ap, char **);
    va_end(ap);
    return execve(p, v, e);
}

/* By the descriptor's name in /proc; a script's interpreter then opens it there. */
int fexecve(int fd, char *const a[], char *const e[])
{
    char path[32];

    if (fd < 0 || !a || !e)
        return posix_fail(EINVAL);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return execve(path, a, e);
}
