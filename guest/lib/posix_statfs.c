/* SPDX-License-Identifier: MIT
 *
 * posix_statfs.c - file systems: their figures, and the table of mounts.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int fsinfo(int d, const char *p, struct statvfs *s)
{
    uint64_t v[9] = {0};
    int r = posix_ret(doze_statfs(d, p, v));

    memset(s, 0, sizeof *s);
    s->f_type = v[0];
    s->f_bsize = s->f_frsize = v[1];
    s->f_blocks = v[2];
    s->f_bfree = v[3];
    s->f_bavail = v[4];
    s->f_files = v[5];
    s->f_ffree = s->f_favail = v[6];
    s->f_namemax = s->f_namelen = (unsigned)v[7];
    s->f_flag = s->f_flags = (unsigned)v[8];
    return r;
}

int statvfs(const char *p, struct statvfs *s)
{
    return fsinfo(AT_FDCWD, p, s);
}

int fstatvfs(int fd, struct statvfs *s)
{
    return fsinfo(fd, 0, s);
}

int statfs(const char *p, struct statfs *s)
{
    return fsinfo(AT_FDCWD, p, (void *)s);
}

int fstatfs(int fd, struct statfs *s)
{
    return fsinfo(fd, 0, (void *)s);
}

int syncfs(int fd)
{
    return fsync(fd);
}

/* One disk: whatever is synced, all of it is. */
void sync(void)
{
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

FILE *setmntent(const char *p, const char *m)
{
    return fopen(p, m);
}

int endmntent(FILE *f)
{
    if (f)
        fclose(f);
    return 1;
}

struct mntent *getmntent_r(FILE *f, struct mntent *m, char *b, int n)
{
    while (fgets(b, n, f)) {
        char *s = b, *v[6] = {"", "", "", "", "0", "0"};
        int i;

        for (i = 0; i < 6; i++) {
            s += strspn(s, " \t\n");
            if (!*s || (!i && *s == '#'))
                break;
            v[i] = s;
            s += strcspn(s, " \t\n");
            if (*s)
                *s++ = 0;
        }
        if (i < 3)
            continue;
        *m = (struct mntent){v[0], v[1], v[2], v[3], atoi(v[4]), atoi(v[5])};
        return m;
    }
    return 0;
}

struct mntent *getmntent(FILE *f)
{
    static struct mntent m;
    static char b[1024];

    return getmntent_r(f, &m, b, sizeof b);
}

char *hasmntopt(const struct mntent *m, const char *o)
{
    return strstr(m->mnt_opts, o);
}
