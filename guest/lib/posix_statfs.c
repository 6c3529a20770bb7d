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
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int fs_info(int d, const char *p, struct statfs *s)
{
    uint64_t v[9] = {0};

    if (posix_ret(doze_statfs(d, p, v)) < 0)
        return -1;
    *s = (struct statfs){
        .f_type = (unsigned long)v[0],
        .f_bsize = (unsigned long)v[1],
        .f_frsize = (unsigned long)v[1],
        .f_blocks = v[2],
        .f_bfree = v[3],
        .f_bavail = v[4],
        .f_files = v[5],
        .f_ffree = v[6],
        .f_namelen = (unsigned long)v[7],
        .f_flags = (unsigned long)v[8],
    };
    return 0;
}

/* The same figures under POSIX's names. */
static int vfs_info(int d, const char *p, struct statvfs *s)
{
    struct statfs f;

    if (fs_info(d, p, &f) < 0)
        return -1;
    *s = (struct statvfs){
        .f_bsize = f.f_bsize,
        .f_frsize = f.f_frsize,
        .f_blocks = f.f_blocks,
        .f_bfree = f.f_bfree,
        .f_bavail = f.f_bavail,
        .f_files = f.f_files,
        .f_ffree = f.f_ffree,
        .f_favail = f.f_ffree,
        .f_namemax = f.f_namelen,
        .f_flag = f.f_flags,
    };
    return 0;
}

int statvfs(const char *p, struct statvfs *s)
{
    return vfs_info(AT_FDCWD, p, s);
}

int fstatvfs(int fd, struct statvfs *s)
{
    return vfs_info(fd, NULL, s);
}

int statfs(const char *p, struct statfs *s)
{
    return fs_info(AT_FDCWD, p, s);
}

int fstatfs(int fd, struct statfs *s)
{
    return fs_info(fd, NULL, s);
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
    size_t n = strlen(o);
    char *s = m->mnt_opts;

    for (;; s++) {
        size_t k = strcspn(s, ",");
        if (strncmp(s, o, n) == 0 && (k == n || s[n] == '='))
            return s;
        s += k;
        if (!*s)
            return NULL;
    }
}
