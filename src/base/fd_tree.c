/* SPDX-License-Identifier: MIT
 *
 * fd_tree.c - making and removing directories.
 *
 * A tree is removed depth first with a stack of open directories, without
 * recursion. Each is opened below its parent's descriptor with O_NOFOLLOW, so a
 * directory that is replaced by a symbolic link meanwhile is not followed. The current entry of a
 * level stays valid while the levels below it are emptied, because its stream is not read
 * meanwhile.
 */
#include "base/fd.h"

#include "base/limits.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int dz_fd_mkdirs(int dir, const char *path, mode_t mode, struct dz_err *err)
{
    char part[PATH_MAX];
    struct stat st;
    size_t n = strlen(path);

    if (n == 0 || n >= sizeof part)
        return dz_fail(err, n ? DZ_ELIMIT : DZ_EINVAL,
                       "make directory %.100s: expected a path of 1 to %zu bytes", path,
                       sizeof part - 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdirat(dir, part, mode) < 0 && errno != EEXIST)
            return dz_fail_sys(err, errno, "make directory %s", part);
    }
    if (fstatat(dir, path, &st, 0) < 0)
        return dz_fail_sys(err, errno, "make directory %s", path);
    if (!S_ISDIR(st.st_mode))
        return dz_fail(err, DZ_EEXIST, "make directory %s: a file of this name exists", path);
    return 0;
}

int dz_fd_temp_dir(const char *prefix, char ret_path[static DZ_TEMP_DIR_TEXT], struct dz_err *err)
{
    char path[DZ_TEMP_DIR_TEXT];
    const char *tmp = getenv("TMPDIR");
    if (!tmp || !*tmp)
        tmp = "/tmp";
    int n = snprintf(path, sizeof path, "%s/%s-XXXXXX", tmp, prefix);
    if (n < 0 || (size_t)n >= sizeof path)
        return dz_fail(err, DZ_ELIMIT, "make a temporary directory: TMPDIR is too long");
    if (!mkdtemp(path))
        return dz_fail_sys(err, errno, "make a temporary directory in %s", tmp);
    memcpy(ret_path, path, (size_t)n + 1);
    return 0;
}

struct walk {
    DIR *dirs[DZ_TREE_DEPTH_MAX];
    int fds[DZ_TREE_DEPTH_MAX];           /* which the streams own */
    const char *names[DZ_TREE_DEPTH_MAX]; /* of each below the one before */
    size_t depth;
};

static int descend(struct walk *w, int dir, const char *name, struct dz_err *err)
{
    if (w->depth == DZ_TREE_DEPTH_MAX)
        return dz_fail(err, DZ_ELIMIT, "remove %s: more than %d directories deep", name,
                       DZ_TREE_DEPTH_MAX);
    int fd = dz_fd_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, err);
    if (fd < 0)
        return fd;
    DIR *d = fdopendir(fd);
    if (!d) {
        int rc = dz_fail_sys(err, errno, "read directory %s", name);
        dz_fd_close(&fd);
        return rc;
    }
    w->names[w->depth] = name;
    w->fds[w->depth] = fd;
    w->dirs[w->depth++] = d;
    return 0;
}

/* Leave the innermost directory, which is empty now, and remove it. */
static int ascend(struct walk *w, int dir, struct dz_err *err)
{
    (void)closedir(w->dirs[--w->depth]);
    int above = w->depth ? w->fds[w->depth - 1] : dir;
    const char *name = w->names[w->depth];
    return unlinkat(above, name, AT_REMOVEDIR) < 0
               ? dz_fail_sys(err, errno, "remove directory %s", name)
               : 0;
}

/* One entry of the innermost directory. */
static int remove_entry(struct walk *w, const char *name, struct dz_err *err)
{
    int dir = w->fds[w->depth - 1];
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    return errno == EISDIR ? descend(w, dir, name, err)
                           : dz_fail_sys(err, errno, "remove %s", name);
}

/* Does path end in a name, ignoring slashes after it? */
static bool ends_in_name(struct dz_str path)
{
    while (dz_str_ends(path, DZ_STR("/")))
        path.n--;
    struct dz_str name = dz_path_name(path);
    return name.n > 0 && !dz_str_eqz(name, ".") && !dz_str_eqz(name, "..");
}

int dz_fd_remove_tree(int dir, const char *path, struct dz_err *err)
{
    struct walk w = {.depth = 0};

    if (!ends_in_name(dz_str(path)))
        return dz_fail(err, DZ_EINVAL, "remove \"%.100s\": expected a path that ends in a name",
                       path);
    if (unlinkat(dir, path, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return dz_fail_sys(err, errno, "remove %s", path);
    int rc = descend(&w, dir, path, err);
    while (rc == 0 && w.depth > 0) {
        errno = 0;
        const struct dirent *e = readdir(w.dirs[w.depth - 1]);
        if (e)
            rc = remove_entry(&w, e->d_name, err);
        else if (errno)
            rc = dz_fail_sys(err, errno, "read directory %s", w.names[w.depth - 1]);
        else
            rc = ascend(&w, dir, err);
    }
    while (w.depth > 0)
        (void)closedir(w.dirs[--w.depth]);
    return rc < 0 ? dz_wrap(err, rc, "remove %s", path) : 0;
}
