/* SPDX-License-Identifier: MIT
 *
 * tree_read.c - read a tree of this machine, entry by entry, while other processes may change it.
 *
 * The directories from the top to the current one are kept open as a stack. The names of each are
 * read when it is opened, and sorted. An entry is opened relative to its directory's descriptor,
 * without following symbolic links, and then its type is read from its own descriptor. An entry
 * whose type changed between these two steps is reported as DZ_TREE_SKIP.
 */
#include "tree/tree.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NAMES_MAX = 64 << 20, /* bytes of the names of one directory */
};

struct level {
    int fd;
    struct stat st;
    size_t path_len;
    struct dz_buf names; /* sorted, each with a terminator */
    size_t at;
};

struct first {
    struct {
        uint64_t dev, ino;
    } key;
    uint64_t number;
    char path[];
};

struct dz_tree_read {
    struct level levels[DZ_TREE_DEPTH_MAX + 1];
    size_t depth;
    bool begun, same;
    int fd;           /* the file of the last entry, or -1 */
    const char *root; /* the caller's path */
    uint64_t entries, numbers;
    char path[DZ_PATH_MAX], target[DZ_PATH_MAX];
    struct dz_map firsts; /* first names of files that have several */
};

static int fail(const struct dz_tree_read *r, int sys, struct dz_err *err)
{
    return dz_fail_sys(err, sys, "read %s%s%s", r->root, r->path[0] ? "/" : "", r->path);
}

/* --- directories ------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int sort_names(struct dz_buf *names, const struct dz_buf *raw)
{
    DZ_VEC(, const char *) index = DZ_VEC_INIT(NAMES_MAX);
    for (size_t at = 0; at < raw->len; at += strlen(raw->p + at) + 1)
        if (dz_vec_push(&index, raw->p + at) < 0)
            break;
    if (index.n)
        qsort(index.p, index.n, sizeof index.p[0], by_name);
    for (size_t i = 0; i < index.n; i++)
        dz_buf_add(names, index.p[i], strlen(index.p[i]) + 1);
    int rc = index.err ? index.err : names->err;
    dz_vec_release(&index);
    return rc;
}

static int read_names(const struct dz_tree_read *r, int fd, struct dz_buf *names,
                      struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf raw = DZ_BUF_INIT(NAMES_MAX);
    const struct dirent *e;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* owned by the stream now */
    DIR *d = own < 0 ? NULL : fdopendir(own);
    if (!d) {
        int sys = errno;
        dz_fd_close(&own);
        return fail(r, sys, err);
    }
    errno = 0;
    while ((e = readdir(d)) && raw.err == 0) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            dz_buf_add(&raw, e->d_name, strlen(e->d_name) + 1);
        errno = 0;
    }
    int sys = errno;
    (void)closedir(d);
    if (sys)
        return fail(r, sys, err);
    int rc = raw.err ? raw.err : sort_names(names, &raw);
    return rc < 0 ? dz_fail(err, rc, "read %s: list a directory: %s", r->root, dz_err_text(rc)) : 0;
}

/* Takes ownership of fd. */
static int enter(struct dz_tree_read *r, int fd, const struct stat *st, struct dz_err *err)
{
    struct level *l = &r->levels[r->depth];
    if (r->depth >= DZ_ARRAY_LEN(r->levels)) {
        dz_fd_close(&fd);
        return dz_fail(err, DZ_ELIMIT, "read %s: more than %d directories deep", r->root,
                       DZ_TREE_DEPTH_MAX);
    }
    *l = (struct level){
        .fd = fd, .st = *st, .path_len = strlen(r->path), .names = DZ_BUF_INIT(NAMES_MAX)};
    r->depth++;
    return read_names(r, fd, &l->names, err);
}

static void leave(struct dz_tree_read *r)
{
    struct level *l = &r->levels[--r->depth];
    dz_fd_close(&l->fd);
    dz_buf_release(&l->names);
}

/* --- entries ---------------------------------------------------------------------------------- */

static const char *why_not(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFSOCK:
        return "is a socket";
    case S_IFIFO:
        return "is a pipe";
    case S_IFCHR:
    case S_IFBLK:
        return "is a device";
    default:
        return "is not a file, directory or link";
    }
}

static int skip(struct dz_tree_entry *e, const char *why)
{
    e->kind = DZ_TREE_SKIP;
    e->why = why;
    return 0;
}

static int skip_changed(struct dz_tree_entry *e)
{
    e->changed = true;
    return skip(e, "changed while the tree was read");
}

/* Find the first name of this file, if it was reported already; else record this one as the first.
 */
static int find_first(struct dz_tree_read *r, struct dz_tree_entry *e, const struct first **ret,
                      struct dz_err *err)
{
    const struct {
        uint64_t dev, ino;
    } key = {e->st.st_dev, e->st.st_ino};
    size_t n = strlen(r->path) + 1;
    *ret = dz_map_get(&r->firsts, dz_str_n((const char *)&key, sizeof key));
    if (*ret)
        return 0;
    struct first *f = dz_alloc(sizeof *f + n);
    if (!f)
        return dz_fail(err, DZ_ENOMEM, "read %s: out of memory", r->root);
    f->key.dev = key.dev;
    f->key.ino = key.ino;
    f->number = ++r->numbers;
    memcpy(f->path, r->path, n);
    if (dz_map_put(&r->firsts, dz_str_n((const char *)&f->key, sizeof f->key), f, NULL) < 0) {
        dz_free(f);
        return dz_fail(err, DZ_ENOMEM, "read %s: out of memory", r->root);
    }
    e->number = f->number;
    return 0;
}

static int give_file(struct dz_tree_read *r, int dir, const char *name, struct dz_tree_entry *e,
                     struct dz_err *err)
{
    const struct first *first = NULL;
    int follow = dir == AT_FDCWD ? 0 : O_NOFOLLOW;
    r->fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | follow);
    if (r->fd < 0)
        return errno == ENOENT || errno == ELOOP ? skip_changed(e) : fail(r, errno, err);
    if (dz_fd_stat(r->fd, &e->st) < 0)
        return fail(r, errno, err);
    if (!S_ISREG(e->st.st_mode)) {
        dz_fd_close(&r->fd);
        return skip_changed(e);
    }
    int rc = r->same && e->st.st_nlink > 1 ? find_first(r, e, &first, err) : 0;
    if (rc < 0)
        return rc;
    e->kind = DZ_TREE_FILE;
    e->fd = r->fd;
    if (first) {
        dz_fd_close(&r->fd);
        e->fd = -1;
        e->kind = DZ_TREE_SAME;
        e->number = first->number;
        e->link = first->path;
    }
    return 0;
}

static int give_dir(struct dz_tree_read *r, int dir, const char *name, struct dz_tree_entry *e,
                    struct dz_err *err)
{
    int follow = dir == AT_FDCWD ? 0 : O_NOFOLLOW;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow);
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? skip_changed(e)
                                                                     : fail(r, errno, err);
    if (dz_fd_stat(fd, &e->st) < 0) {
        int sys = errno;
        dz_fd_close(&fd);
        return fail(r, sys, err);
    }
    e->kind = DZ_TREE_DIR;
    return enter(r, fd, &e->st, err);
}

static int give_link(struct dz_tree_read *r, int dir, const char *name, struct dz_tree_entry *e,
                     struct dz_err *err)
{
    ssize_t n = readlinkat(dir, name, r->target, sizeof r->target);
    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? skip_changed(e) : fail(r, errno, err);
    if ((size_t)n >= sizeof r->target)
        return fail(r, ENAMETOOLONG, err);
    r->target[n] = '\0';
    e->kind = DZ_TREE_LINK;
    e->link = r->target;
    return 0;
}

static int give(struct dz_tree_read *r, int dir, const char *name, struct dz_tree_entry *e,
                struct dz_err *err)
{
    int follow = dir == AT_FDCWD ? 0 : AT_SYMLINK_NOFOLLOW;
    if (++r->entries > DZ_TREE_ENTRIES_MAX)
        return dz_fail(err, DZ_ELIMIT, "read %s: more than %d entries", r->root,
                       DZ_TREE_ENTRIES_MAX);
    if (fstatat(dir, name, &e->st, follow) < 0)
        return errno == ENOENT && dir != AT_FDCWD ? skip_changed(e) : fail(r, errno, err);
    switch (e->st.st_mode & S_IFMT) {
    case S_IFREG:
        return give_file(r, dir, name, e, err);
    case S_IFDIR:
        return give_dir(r, dir, name, e, err);
    case S_IFLNK:
        return give_link(r, dir, name, e, err);
    default:
        return skip(e, why_not(e->st.st_mode));
    }
}

/* Report the next name of the innermost directory. */
static int give_next(struct dz_tree_read *r, struct dz_tree_entry *e, struct dz_err *err)
{
    struct level *l = &r->levels[r->depth - 1];
    const char *name = l->names.p + l->at;
    size_t len = strlen(name), from = l->path_len + (l->path_len > 0);
    l->at += len + 1;
    if (from + len >= sizeof r->path)
        return dz_fail(err, DZ_ELIMIT, "read %s: a path is longer than %d bytes", r->root,
                       DZ_PATH_MAX - 1);
    if (l->path_len)
        r->path[l->path_len] = '/';
    memcpy(r->path + from, name, len + 1);
    e->name = dz_str_n(r->path + from, len);
    return give(r, l->fd, r->path + from, e, err);
}

int dz_tree_read_next(struct dz_tree_read *r, struct dz_tree_entry *ret_entry, struct dz_err *err)
{
    struct dz_tree_entry e = {.kind = DZ_TREE_END, .path = r->path, .name = DZ_STR(""), .fd = -1};
    int rc = 0;
    dz_fd_close(&r->fd);
    if (!r->begun) {
        r->begun = true;
        rc = give(r, AT_FDCWD, r->root, &e, err);
    } else if (r->depth > 0) {
        struct level *l = &r->levels[r->depth - 1];
        r->path[l->path_len] = '\0';
        if (l->at < l->names.len) {
            rc = give_next(r, &e, err);
        } else {
            const char *slash = strrchr(r->path, '/');
            e.kind = DZ_TREE_DIR_END;
            e.name = dz_str(slash ? slash + 1 : r->path);
            e.st = l->st;
            leave(r);
        }
    }
    if (rc == 0)
        *ret_entry = e;
    return rc;
}

/* --- open, close ------------------------------------------------------------------------------ */

int dz_tree_read_open(const char *path, bool same, struct dz_tree_read **ret_r, struct dz_err *err)
{
    struct dz_tree_read *r = dz_zalloc(sizeof *r);
    if (!r)
        return dz_fail(err, DZ_ENOMEM, "read %s: out of memory", path);
    r->fd = -1;
    r->same = same;
    r->root = path;
    dz_map_init(&r->firsts, DZ_TREE_ENTRIES_MAX);
    *ret_r = r;
    return 0;
}

void dz_tree_read_close(struct dz_tree_read *r)
{
    if (!r)
        return;
    while (r->depth > 0)
        leave(r);
    dz_fd_close(&r->fd);
    DZ_MAP_FOREACH(it, &r->firsts)
        dz_free(it->value);
    dz_map_release(&r->firsts);
    dz_free(r);
}
