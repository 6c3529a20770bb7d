/* SPDX-License-Identifier: MIT
 *
 * tree_write.c - write a tree of untrusted origin as files of this machine.
 *
 * The directories from the top to the current one are kept open as a stack. Each was opened by a
 * single name relative to its parent's descriptor, with O_NOFOLLOW, so no symbolic link is ever
 * followed, and moving a directory meanwhile cannot redirect a write. For an entry in another
 * directory the stack is popped down to the common part of both paths, and the rest is opened.
 *
 * Invariants:
 *  1. levels[0] is the top of the tree, once it is known to be a directory; levels[i] is open, and
 *     path[0 .. levels[i].path_len) is its path below the top: assert_levels().
 *  2. Data is written only to files with a random name that were made with O_EXCL. Other entries
 *     are made by mkdirat, symlinkat and linkat, which follow and replace nothing.
 *  3. `made` has each file that this writer made, so that a hard link is never made to one of the
 *     user's files.
 */
#include "tree/tree.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    ARRIVING_TEXT = 32,
    DEPTH_MAX = DZ_TREE_DEPTH_MAX - 8, /* so dz_fd_remove_tree also works from a parent */
};

struct level {
    int fd;
    bool made; /* made by us: it gets the mode and times of the tree */
    struct dz_tree_meta meta;
    size_t path_len;
};

struct dz_tree_write {
    struct dz_tree_write_opts opts;
    struct dz_tree_stats stats;
    uint64_t entries;
    int dir; /* the caller's */
    char top[DZ_NAME_MAX + 1];
    struct level levels[DEPTH_MAX];
    size_t depth; /* levels in use */
    char path[DZ_PATH_MAX];

    /* The place and name of the current entry. */
    char at[DZ_PATH_MAX], name[DZ_NAME_MAX + 1], shown[DZ_STR_QUOTED];
    int fd; /* the incomplete file in the innermost level, or -1 */
    struct dz_tree_meta meta;
    char arriving[ARRIVING_TEXT];
    struct dz_map made; /* inode -> its device + 1 */
};

static int fail(const struct dz_tree_write *w, int sys, struct dz_err *err)
{
    return dz_fail_sys(err, sys, "write %s", w->shown);
}

static int innermost(const struct dz_tree_write *w)
{
    return w->depth ? w->levels[w->depth - 1].fd : w->dir;
}

/* --- directories ------------------------------------------------------------------------------ */

static struct timespec time_of(int64_t ns)
{
    if (ns == DZ_TREE_NO_TIME)
        return (struct timespec){.tv_nsec = UTIME_OMIT};
    int64_t rest = ns % DZ_NS_PER_S, down = rest < 0;
    return (struct timespec){.tv_sec = (time_t)(ns / DZ_NS_PER_S - down),
                             .tv_nsec = (long)(rest + down * DZ_NS_PER_S)};
}

static int put_times(int fd, const struct dz_tree_meta *m)
{
    const struct timespec ts[2] = {time_of(m->atime_ns), time_of(m->mtime_ns)};
    return futimens(fd, ts);
}

/* Set the mode and times of a directory that is complete. The directory had all rights of its owner
 * while it was filled; its other mode bits were limited by the umask when it was made. */
static int finish_dir(const struct level *l)
{
    struct stat st;
    mode_t lost = 0700 & ~l->meta.mode;
    if (!l->made)
        return 0;
    if (lost && (dz_fd_stat(l->fd, &st) < 0 || fchmod(l->fd, st.st_mode & 07777 & ~lost) < 0))
        return -1;
    return put_times(l->fd, &l->meta);
}

static void assert_levels(const struct dz_tree_write *w)
{
    size_t len = strlen(w->path);
    assert(w->depth <= DZ_ARRAY_LEN(w->levels));
    assert(len == (w->depth ? w->levels[w->depth - 1].path_len : 0));
    for (size_t i = 0; i < w->depth; i++) {
        const struct level *l = &w->levels[i];
        assert(l->fd >= 0 && (i > 0 || l->path_len == 0));
        assert(i + 1 == w->depth || w->path[l->path_len] == '/' || l->path_len == 0);
        assert(i == 0 || l->path_len > w->levels[i - 1].path_len);
    }
}

static int leave_level(struct dz_tree_write *w, struct dz_err *err)
{
    struct level *l = &w->levels[--w->depth];
    char quoted[DZ_STR_QUOTED];
    int rc = 0;
    if (finish_dir(l) < 0)
        rc = dz_fail_sys(err, errno, "finish the directory %s",
                         dz_str_quote(dz_str(w->path[0] ? w->path : w->top), quoted));
    dz_fd_close(&l->fd);
    w->path[w->depth ? w->levels[w->depth - 1].path_len : 0] = '\0';
    assert_levels(w);
    return rc;
}

/* Enter `name`, a directory (not a link to one) in the innermost level. */
static int enter_level(struct dz_tree_write *w, const char *name, struct dz_err *err)
{
    struct level *l = &w->levels[w->depth];
    if (w->depth >= DZ_ARRAY_LEN(w->levels))
        return dz_fail(err, DZ_ELIMIT, "write %s: more than %d directories deep", w->shown,
                       DEPTH_MAX);
    int fd = openat(innermost(w), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ELOOP || errno == ENOTDIR
                   ? dz_fail(err, DZ_EEXIST,
                             "write %s: a file or a symbolic link exists where a directory is "
                             "needed",
                             w->shown)
                   : fail(w, errno, err);
    size_t len = strlen(w->path);
    if (w->depth > 0)
        len += (size_t)snprintf(w->path + len, sizeof w->path - len, "%s%s", len ? "/" : "", name);
    *l = (struct level){.fd = fd, .path_len = len};
    w->depth++;
    assert_levels(w);
    return 0;
}

static bool is_above(const struct dz_tree_write *w, struct dz_str path)
{
    const struct level *l = &w->levels[w->depth - 1];
    return l->path_len == 0 ||
           (path.n >= l->path_len && memcmp(path.p, w->path, l->path_len) == 0 &&
            (path.n == l->path_len || path.p[l->path_len] == '/'));
}

/* Make the directory at a normalised path the innermost level. */
static int go_to(struct dz_tree_write *w, struct dz_str path, struct dz_err *err)
{
    char text[DZ_NAME_MAX + 1];
    struct dz_str name;
    int rc = w->depth == 0 ? enter_level(w, w->top[0] ? w->top : ".", err) : 0;
    while (rc == 0 && !is_above(w, path))
        rc = leave_level(w, err);
    if (rc < 0)
        return rc;
    struct dz_str rest = dz_str_sub(path, w->levels[w->depth - 1].path_len, SIZE_MAX);
    while (rc == 0 && dz_path_next(&rest, &name)) {
        (void)snprintf(text, sizeof text, "%.*s", DZ_STR_ARG(name));
        rc = enter_level(w, text, err);
    }
    return rc;
}

/* Check a path and enter its parent directory, so that the entry is w->name in innermost(). Returns
 * the length of the path; 0: it is the top, which is not entered. */
static int go_above(struct dz_tree_write *w, struct dz_str path, struct dz_err *err)
{
    if (w->fd >= 0)
        return dz_fail(err, DZ_EINVAL, "write a tree: a file is incomplete");
    (void)dz_str_quote(path.n ? path : dz_str(w->top), w->shown);
    int n = dz_path_inside(path, w->at, err);
    if (n < 0)
        return n;
    if (++w->entries > DZ_TREE_ENTRIES_MAX)
        return dz_fail(err, DZ_ELIMIT, "write a tree: more than %d entries", DZ_TREE_ENTRIES_MAX);
    struct dz_str last = dz_path_name(dz_str(w->at));
    (void)snprintf(w->name, sizeof w->name, "%.*s", DZ_STR_ARG(last));
    int rc = 0;
    if (n > 0)
        rc = go_to(w, dz_path_parent(dz_str(w->at)), err);
    else
        (void)snprintf(w->name, sizeof w->name, "%s", w->top);
    return rc < 0 ? rc : n;
}

/* The same for an entry that is not a directory. */
static int go_beside(struct dz_tree_write *w, struct dz_str path, struct dz_err *err)
{
    int rc = go_above(w, path, err);
    if (rc == 0 && (w->depth > 0 || !w->top[0]))
        return dz_fail(err, DZ_EEXIST, "write %s: the top of the tree must be a directory",
                       w->shown);
    return rc < 0 ? rc : 0;
}

int dz_tree_write_dir(struct dz_tree_write *w, struct dz_str path, const struct dz_tree_meta *meta,
                      struct dz_err *err)
{
    int rc = go_above(w, path, err);
    if (rc < 0)
        return rc;
    if (rc == 0 && !w->top[0] && !w->opts.fresh)
        return 0; /* the caller's directory */
    if (rc == 0 && w->depth > 0 && !w->opts.fresh)
        return 0; /* the top was made or found before */
    bool made = (rc > 0 || w->depth == 0) &&
                mkdirat(innermost(w), w->name, (meta->mode & 0777) | 0700) == 0;
    if (!made && (errno != EEXIST || w->opts.fresh))
        return fail(w, w->opts.fresh ? EEXIST : errno, err);
    rc = enter_level(w, w->name, err);
    if (rc < 0)
        return rc;
    struct level *l = &w->levels[w->depth - 1];
    l->made = made;
    l->meta = *meta;
    w->stats.directories++;
    return 0;
}

/* --- arriving --------------------------------------------------------------------------------- */

static int draw_name(struct dz_tree_write *w, struct dz_err *err)
{
    uint64_t number = 0;
    int rc = dz_random(&number, sizeof number, err);
    (void)snprintf(w->arriving, sizeof w->arriving, ".doze-%016llx", (unsigned long long)number);
    return rc;
}

/* Rename the temp file to its final name, where it may replace a file or a symbolic link. */
static int arrive(struct dz_tree_write *w, struct dz_err *err)
{
    struct stat st;
    int dir = innermost(w), sys = 0;
    if (fstatat(dir, w->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        sys = errno == ENOENT ? 0 : errno;
    else if (w->opts.fresh || (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)))
        sys = S_ISDIR(st.st_mode) ? EISDIR : EEXIST;
    if (sys == 0 && renameat(dir, w->arriving, dir, w->name) < 0)
        sys = errno;
    (void)unlinkat(dir, w->arriving, 0); /* a rename between two names of one file does nothing */
    return sys ? fail(w, sys, err) : 0;
}

int dz_tree_write_file(struct dz_tree_write *w, struct dz_str path, const struct dz_tree_meta *meta,
                       struct dz_err *err)
{
    int rc = go_beside(w, path, err);
    if (rc == 0)
        rc = draw_name(w, err);
    if (rc < 0)
        return rc;
    /* The mode of the new file may deny writing, but this descriptor can still write. */
    w->fd = openat(innermost(w), w->arriving, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                   meta->mode & 0777);
    w->meta = *meta;
    return w->fd < 0 ? fail(w, errno, err) : 0;
}

int dz_tree_write_data(struct dz_tree_write *w, uint64_t at, const void *data, size_t n,
                       struct dz_err *err)
{
    if (w->fd < 0)
        return dz_fail(err, DZ_EINVAL, "write a tree: data came before a file");
    if (at > (uint64_t)INT64_MAX - n)
        return fail(w, EFBIG, err);
    if (dz_mem_is_zero(data, n))
        return 0;
    if (n > w->opts.bytes_max - w->stats.bytes)
        return dz_fail(err, DZ_ELIMIT, "write %s: the tree has more than %llu bytes%s%s", w->shown,
                       (unsigned long long)w->opts.bytes_max, w->opts.bytes_hint ? ": " : "",
                       w->opts.bytes_hint ? w->opts.bytes_hint : "");
    w->stats.bytes += n;
    int rc = dz_fd_pwrite(w->fd, data, n, at, err);
    return rc < 0 ? dz_wrap(err, rc, "write %s", w->shown) : 0;
}

static void drop_file(struct dz_tree_write *w)
{
    if (w->fd >= 0)
        (void)unlinkat(innermost(w), w->arriving, 0);
    dz_fd_close(&w->fd);
}

int dz_tree_write_end(struct dz_tree_write *w, uint64_t size, struct dz_err *err)
{
    struct stat st = {0};
    if (w->fd < 0)
        return dz_fail(err, DZ_EINVAL, "write a tree: the end of a file came before the file");
    int sys = size > INT64_MAX ? EFBIG
              : ftruncate(w->fd, (off_t)size) < 0 || put_times(w->fd, &w->meta) < 0 ||
                      dz_fd_stat(w->fd, &st) < 0
                  ? errno
                  : 0;
    int rc = sys ? fail(w, sys, err) : 0;
    if (rc == 0 && dz_map_put64(&w->made, st.st_ino, (void *)(uintptr_t)(st.st_dev + 1), NULL) < 0)
        rc = dz_fail(err, DZ_ENOMEM, "write %s: out of memory", w->shown);
    if (rc < 0) {
        drop_file(w);
        return rc;
    }
    dz_fd_close(&w->fd);
    rc = arrive(w, err);
    w->stats.files += rc == 0;
    return rc;
}

/* --- links ------------------------------------------------------------------------------------ */

void dz_tree_write_skip(struct dz_tree_write *w, struct dz_str path, const char *why)
{
    char quoted[DZ_STR_QUOTED], text[DZ_STR_QUOTED + 512];
    w->stats.skipped++;
    (void)snprintf(text, sizeof text, "%s %s: left out",
                   dz_str_quote(path.n ? path : dz_str(w->top), quoted), why);
    if (w->opts.skipped)
        w->opts.skipped(w->opts.arg, text);
}

/* Does a symbolic link at this path stay in the tree? Its target may go up, at most to the top of
 * the tree, and then only down: a ".." after a name is refused, because that name may be a link
 * that leads elsewhere. */
static bool stays_inside(struct dz_str path, struct dz_str target)
{
    struct dz_str name, rest = dz_path_parent(path);
    size_t depth = 0;
    bool down = false;
    while (dz_path_next(&rest, &name))
        depth++;
    if (path.n == 0 || target.p[0] == '/')
        return false; /* the tree is only this link, so no target is inside */
    while (dz_path_next(&target, &name)) {
        bool up = dz_str_eqz(name, "..");
        if (up && (down || depth-- == 0))
            return false;
        down = down || (!up && !dz_str_eqz(name, "."));
    }
    return true;
}

/* Make the link as w->name in the innermost level. */
static int make_link(struct dz_tree_write *w, struct dz_str target, const struct dz_tree_meta *meta,
                     struct dz_err *err)
{
    char text[DZ_PATH_MAX], quoted[DZ_STR_QUOTED], why[DZ_STR_QUOTED + 64];
    if (target.n == 0 || target.n >= sizeof text || memchr(target.p, 0, target.n))
        return dz_fail(err, DZ_EINVAL, "write %s: the target of the symbolic link is not a path",
                       w->shown);
    bool inside = stays_inside(dz_str(w->at), target);
    (void)snprintf(why, sizeof why, "is a symbolic link out of the tree, to %s",
                   dz_str_quote(target, quoted));
    if (!inside && w->opts.links == DZ_TREE_LINKS_SKIP) {
        dz_tree_write_skip(w, dz_str(w->at), why);
        return 0;
    }
    if (!inside && w->opts.links == DZ_TREE_LINKS_REFUSE)
        return dz_fail(err, DZ_EINVAL, "%s %s%s%s", w->shown, why, w->opts.links_hint ? ": " : "",
                       w->opts.links_hint ? w->opts.links_hint : "");
    memcpy(text, target.p, target.n);
    text[target.n] = '\0';
    int rc = draw_name(w, err), dir = innermost(w);
    if (rc < 0)
        return rc;
    if (symlinkat(text, dir, w->arriving) < 0)
        return fail(w, errno, err);
    const struct timespec ts[2] = {time_of(meta->atime_ns), time_of(meta->mtime_ns)};
    (void)utimensat(dir, w->arriving, ts, AT_SYMLINK_NOFOLLOW); /* may be unsupported */
    rc = arrive(w, err);
    w->stats.links += rc == 0;
    return rc;
}

int dz_tree_write_link(struct dz_tree_write *w, struct dz_str path, struct dz_str target,
                       const struct dz_tree_meta *meta, struct dz_err *err)
{
    int rc = go_beside(w, path, err);
    return rc < 0 ? rc : make_link(w, target, meta, err);
}

int dz_tree_write_same(struct dz_tree_write *w, struct dz_str path, struct dz_str first,
                       struct dz_err *err)
{
    static const struct dz_tree_meta untimed = {0, DZ_TREE_NO_TIME, DZ_TREE_NO_TIME};
    char from[DZ_PATH_MAX], name[DZ_NAME_MAX + 1], target[DZ_PATH_MAX];
    struct stat st;
    int rc = dz_path_inside(first, from, err);
    if (rc == 0)
        return dz_fail(err, DZ_EINVAL, "write a tree: a hard link to its top");
    if (rc > 0)
        rc = go_above(w, first, err);
    if (rc < 0)
        return rc;
    memcpy(name, w->name, sizeof name);
    DZ_AUTO(dz_fd_close) int dir = fcntl(innermost(w), F_DUPFD_CLOEXEC, 0);
    rc = dir < 0 ? dz_fail_sys(err, errno, "write a tree") : go_beside(w, path, err);
    if (rc < 0)
        return rc;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        dz_tree_write_skip(w, path, "is a hard link to an entry that was left out");
        return 0;
    }
    if (S_ISLNK(st.st_mode)) { /* its target must be checked from the new place */
        ssize_t n = readlinkat(dir, name, target, sizeof target);
        return n < 0 ? fail(w, errno, err)
                     : make_link(w, dz_str_n(target, (size_t)n), &untimed, err);
    }
    if (!S_ISREG(st.st_mode) ||
        (uintptr_t)dz_map_get64(&w->made, st.st_ino) != (uintptr_t)(st.st_dev + 1))
        return dz_fail(err, DZ_EINVAL,
                       "write %s: a hard link to something that is not a file of the tree",
                       w->shown);
    rc = draw_name(w, err);
    if (rc < 0)
        return rc;
    if (linkat(dir, name, innermost(w), w->arriving, 0) < 0)
        return fail(w, errno, err);
    rc = arrive(w, err);
    w->stats.files += rc == 0;
    return rc;
}

/* --- open, close ------------------------------------------------------------------------------ */

int dz_tree_write_open(int dir, const char *name, const struct dz_tree_write_opts *opts,
                       struct dz_tree_write **ret_w, struct dz_err *err)
{
    struct dz_tree_write *w;
    if (strlen(name) > DZ_NAME_MAX || strchr(name, '/') || strcmp(name, "..") == 0)
        return dz_fail(err, DZ_EINVAL, "write a tree: %.80s is not a valid name", name);
    w = dz_zalloc(sizeof *w);
    if (!w)
        return dz_fail(err, DZ_ENOMEM, "write a tree: out of memory");
    w->opts = *opts;
    w->dir = dir;
    w->fd = -1;
    (void)snprintf(w->top, sizeof w->top, "%s", strcmp(name, ".") == 0 ? "" : name);
    dz_map_init(&w->made, DZ_TREE_ENTRIES_MAX);
    *ret_w = w;
    return 0;
}

const struct dz_tree_stats *dz_tree_write_stats(const struct dz_tree_write *w)
{
    return &w->stats;
}

int dz_tree_write_close(struct dz_tree_write *w, int rc, struct dz_err *err)
{
    struct dz_err late;
    if (!w)
        return rc;
    if (w->fd >= 0 && rc >= 0)
        rc = dz_fail(err, DZ_EINVAL, "write %s: the file is not complete", w->shown);
    drop_file(w);
    while (w->depth > 0)
        if (leave_level(w, &late) < 0 && rc >= 0) {
            rc = late.code;
            if (err)
                *err = late;
        }
    dz_map_release(&w->made);
    dz_free(w);
    return rc;
}
