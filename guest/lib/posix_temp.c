/* SPDX-License-Identifier: MIT
 *
 * posix_temp.c - temporary files and directories.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int temp(char *t, int suffix, int kind, int fl)
{
    static const char az[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t n = strlen(t);
    unsigned char r[6];
    int i, k, fd;
    struct stat st;

    if (suffix < 0 || n < (size_t)suffix + 6 || memcmp(t + n - suffix - 6, "XXXXXX", 6) != 0)
        return posix_fail(EINVAL);
    char *x = t + n - suffix - 6;
    for (i = 0; i < 100; i++) {
        if (getentropy(r, sizeof r) < 0)
            return -1;
        for (k = 0; k < 6; k++)
            x[k] = az[r[k] % 36];
        if (kind == 0)
            fd = open(t, O_RDWR | O_CREAT | O_EXCL | fl, 0600);
        else if (kind == 1)
            fd = mkdir(t, 0700);
        else
            fd = lstat(t, &st) && errno == ENOENT ? 0 : -1;
        if (fd >= 0 || (kind < 2 && errno != EEXIST))
            return fd;
    }
    return -1;
}

int mkstemp(char *t)
{
    return temp(t, 0, 0, 0);
}

int mkostemp(char *t, int f)
{
    return temp(t, 0, 0, f);
}

int mkstemps(char *t, int s)
{
    return temp(t, s, 0, 0);
}

int mkostemps(char *t, int s, int f)
{
    return temp(t, s, 0, f);
}

char *mkdtemp(char *t)
{
    return temp(t, 0, 1, 0) ? 0 : t;
}

char *mktemp(char *t)
{
    if (temp(t, 0, 2, 0))
        *t = 0;
    return t;
}

FILE *tmpfile(void)
{
    char t[] = "/tmp/tmpXXXXXX";
    int fd = mkstemp(t);
    FILE *f;

    if (fd < 0)
        return NULL;
    unlink(t);
    f = fdopen(fd, "w+");
    if (!f)
        close(fd);
    return f;
}

/* TMPDIR is asked first, then dir, then /tmp. */
char *tempnam(const char *dir, const char *prefix)
{
    const char *env = getenv("TMPDIR");
    char *name;

    dir = env && *env ? env : dir && *dir ? dir : "/tmp";
    if (asprintf(&name, "%s/%.5sXXXXXX", dir, prefix ? prefix : "tmp") < 0)
        return NULL;
    if (*mktemp(name))
        return name;
    free(name);
    return NULL;
}

char *tmpnam(char *b)
{
    static char s[20];

    if (!b)
        b = s;
    strcpy(b, "/tmp/tmpXXXXXX");
    return mktemp(b);
}
