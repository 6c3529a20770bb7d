/* SPDX-License-Identifier: MIT
 *
 * posix_cwd.c - the working directory, opening directories, and realpath.
 *
 * realpath keeps what is resolved in `done` (no slash at its end, "" is the
 * root) and what is still to do in `rest`; a symbolic link's text goes in front
 * of the rest. `done` never names a link, so ".." is cutting off a name.
 */
#include "posix_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    REALPATH_LINKS_MAX = 40
};

DIR *opendir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d && fd >= 0) {
        int e = errno;
        close(fd);
        errno = e;
    }
    return d;
}

static void free_entries(struct dirent **list, size_t count)
{
    while (count)
        free(list[--count]);
    free(list);
}

/* A copy of e at the end of *list; -1: no memory. */
static int add_entry(struct dirent ***list, size_t count, const struct dirent *e)
{
    size_t size = sizeof *e + strlen(e->d_name) + 1;
    struct dirent **bigger, *copy = malloc(size);

    if (!copy)
        return -1;
    if (count % 32 == 0) {
        bigger = realloc(*list, (count + 32) * sizeof *bigger);
        if (!bigger) {
            free(copy);
            return -1;
        }
        *list = bigger;
    }
    (*list)[count] = memcpy(copy, e, size);
    return 0;
}

int scandir(const char *path, struct dirent ***ret, int (*keep)(const struct dirent *),
            int (*order)(const struct dirent **, const struct dirent **))
{
    struct dirent **list = NULL, *e;
    size_t count = 0;
    DIR *d = opendir(path);

    if (!d)
        return -1;
    for (errno = 0; (e = readdir(d)); errno = 0) {
        if (keep && !keep(e))
            continue;
        if (add_entry(&list, count, e) < 0) {
            errno = ENOMEM;
            break;
        }
        count++;
    }
    int err = errno;
    closedir(d);
    if (err) {
        free_entries(list, count);
        return posix_fail(err);
    }
    if (order && count)
        qsort(list, count, sizeof *list, (int (*)(const void *, const void *))order);
    *ret = list;
    return (int)count;
}

int chdir(const char *path)
{
    return posix_ret(doze_chdir(AT_FDCWD, path));
}

int fchdir(int fd)
{
    return posix_ret(doze_chdir(fd, NULL));
}

int chroot(const char *path)
{
    return posix_ret(doze_chroot(path));
}

char *getcwd(char *buf, size_t size)
{
    char path[PATH_MAX];
    int len;

    if (buf && size == 0) {
        errno = EINVAL;
        return NULL;
    }
    len = posix_ret(doze_getstr(DOZE_STR_CWD, path, sizeof path));
    if (len < 0)
        return NULL;
    if (!buf && size == 0)
        return strdup(path);
    if ((size_t)len > size) {
        errno = ERANGE;
        return NULL;
    }
    if (!buf)
        buf = malloc(size);
    return buf ? memcpy(buf, path, (size_t)len) : NULL;
}

char *get_current_dir_name(void)
{
    return getcwd(NULL, 0);
}

struct resolver {
    char done[PATH_MAX], rest[PATH_MAX];
    size_t len; /* of done */
    int links;
};

static int pop_name(struct resolver *r)
{
    while (r->len && r->done[--r->len] != '/')
        ;
    r->done[r->len] = 0;
    return 0;
}

/* done is a link: its text and what follows become the rest, done its directory. */
static int follow(struct resolver *r, const char *tail)
{
    char text[PATH_MAX];
    ssize_t n = readlink(r->done, text, sizeof text);
    size_t k = strlen(tail);

    if (n < 0)
        return -1;
    if (++r->links > REALPATH_LINKS_MAX)
        return posix_fail(ELOOP);
    if (n == 0 || (size_t)n + k >= sizeof r->rest)
        return posix_fail(n ? ENAMETOOLONG : ENOENT);
    memmove(r->rest + n, tail, k + 1);
    memcpy(r->rest, text, (size_t)n);
    pop_name(r);
    if (text[0] == '/')
        r->done[r->len = 0] = 0;
    return 0;
}

/* Takes the name s[0..k) that stands in front of tail; rest then begins there. */
static int step(struct resolver *r, const char *s, size_t k, const char *tail)
{
    struct stat st;

    if (k == 2 && s[0] == '.' && s[1] == '.') {
        pop_name(r);
    } else if (k != 1 || s[0] != '.') {
        if (r->len + k + 2 > sizeof r->done)
            return posix_fail(ENAMETOOLONG);
        r->done[r->len] = '/';
        memcpy(r->done + r->len + 1, s, k);
        r->len += k + 1;
        r->done[r->len] = 0;
        if (lstat(r->done, &st) < 0)
            return -1;
        if (S_ISLNK(st.st_mode))
            return follow(r, tail);
        if (*tail && !S_ISDIR(st.st_mode))
            return posix_fail(ENOTDIR);
    }
    memmove(r->rest, tail, strlen(tail) + 1);
    return 0;
}

static int resolve(struct resolver *r, const char *path)
{
    if (!path || !*path)
        return posix_fail(path ? ENOENT : EINVAL);
    if (strlen(path) >= sizeof r->rest)
        return posix_fail(ENAMETOOLONG);
    strcpy(r->rest, path);
    r->len = 0;
    r->links = 0;
    if (*path != '/') {
        if (!getcwd(r->done, sizeof r->done))
            return -1;
        r->len = strlen(r->done);
        if (r->len == 1)
            r->len = 0;
    }
    r->done[r->len] = 0;
    for (;;) {
        const char *s = r->rest + strspn(r->rest, "/");
        size_t k = strcspn(s, "/");
        if (k == 0)
            return 0;
        if (step(r, s, k, s + k) < 0)
            return -1;
    }
}

char *realpath(const char *path, char *out)
{
    struct resolver r;

    if (resolve(&r, path) < 0)
        return NULL;
    const char *found = r.len ? r.done : "/";
    return out ? strcpy(out, found) : strdup(found);
}
