/* SPDX-License-Identifier: MIT
 *
 * posix_cwd.c - the working directory, and realpath.
 */
#include "posix_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

DIR *opendir(const char *p)
{
    int fd = open(p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? 0 : fdopendir(fd);

    if (!d && fd >= 0)
        close(fd);
    return d;
}

int chdir(const char *p)
{
    return posix_ret(doze_chdir(AT_FDCWD, p));
}

int fchdir(int fd)
{
    return posix_ret(doze_chdir(fd, 0));
}

int chroot(const char *p)
{
    return posix_ret(doze_chroot(p));
}

char *getcwd(char *b, size_t n)
{
    char t[PATH_MAX];
    int l = posix_ret(doze_getstr(2, t, sizeof t));

    if (l < 0)
        return 0;
    if (!b)
        return strdup(t);
    if ((size_t)l > n) {
        errno = ERANGE;
        return 0;
    }
    return memcpy(b, t, (size_t)l);
}

char *get_current_dir_name(void)
{
    return getcwd(0, 0);
}

char *realpath(const char *p, char *out)
{
    char cur[PATH_MAX], rest[PATH_MAX], lnk[PATH_MAX];
    size_t n = 0, k;
    int hops = 0;
    char *s, *e;
    ssize_t l;
    struct stat st;

    if (!p || !*p) {
        errno = p ? ENOENT : EINVAL;
        return 0;
    }
    if (*p != '/') {
        if (!getcwd(cur, sizeof cur))
            return 0;
        n = strlen(cur);
        if (n == 1)
            n = 0;
    }
    if (strlen(p) >= sizeof rest)
        goto toolong;
    strcpy(rest, p);
    for (s = rest; *s;) {
        while (*s == '/')
            s++;
        e = strchrnul(s, '/');
        k = (size_t)(e - s);
        if (!k)
            break;
        if (k == 1 && *s == '.') {
            s = e;
            continue;
        }
        if (k == 2 && s[0] == '.' && s[1] == '.') {
            while (n && cur[--n] != '/')
                ;
            s = e;
            continue;
        }
        if (n + k + 2 > sizeof cur)
            goto toolong;
        cur[n] = '/';
        memcpy(cur + n + 1, s, k);
        cur[n + 1 + k] = 0;
        if (lstat(cur, &st))
            return 0;
        if (!S_ISLNK(st.st_mode)) {
            n += k + 1;
            s = e;
            continue;
        }
        if (++hops > 40) {
            errno = ELOOP;
            return 0;
        }
        l = readlink(cur, lnk, sizeof lnk - 1);
        if (l < 0)
            return 0;
        k = strlen(e);
        if ((size_t)l + k >= sizeof rest)
            goto toolong;
        memmove(rest + l, e, k + 1);
        memcpy(rest, lnk, (size_t)l);
        s = rest;
        if (*lnk == '/')
            n = 0;
    }
    if (!n)
        cur[n++] = '/';
    cur[n] = 0;
    return out ? strcpy(out, cur) : strdup(cur);
toolong:
    errno = ENAMETOOLONG;
    return 0;
}
