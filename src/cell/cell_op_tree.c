/* SPDX-License-Identifier: MIT
 *
 * cell_op_tree.c - operations on directories and what is below them: lists, archives,
 * changes.
 */
#include "cell/cell_ops.h"

#include "base/mem.h"
#include "cell/cell_serve.h"
#include "vfs/vfs_at.h"
#include "vfs/vfs_tar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- lists ------------------------------------------------------------------------------ */

struct entry {
    uint64_t ino;
    uint32_t type;
    char *name;
};

struct level {
    DZ_VEC(, struct entry) entries;
    size_t at, path_len;
};

enum {
    LEVELS_MAX = DZ_VFS_DEPTH_MAX,
    USAGE_NAMES_MAX = 4000000, /* a damaged disk may have a loop of directories */
};

static int add_entry(void *arg, const struct dz_vfs_entry *e)
{
    struct level *l = arg;
    bool dots = e->name[0] == '.' && (e->len == 1 || (e->len == 2 && e->name[1] == '.'));
    char *name = dots ? NULL : dz_alloc(e->len + 1);
    if (dots)
        return 0;
    if (!name || dz_vec_push(&l->entries, ((struct entry){e->ino, e->type, name})) < 0) {
        dz_free(name);
        return -ENOMEM;
    }
    memcpy(name, e->name, e->len);
    name[e->len] = '\0';
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static void release_level(struct level *l)
{
    for (size_t i = 0; i < l->entries.n; i++)
        dz_free(l->entries.p[i].name);
    dz_vec_release(&l->entries);
}

static int open_level(struct dz_op *op, struct level *l, uint64_t dir)
{
    *l = (struct level){.entries = {.max = DZ_CELL_OP_LIST_MAX}};
    int e = dz_vfs_readdir(dz_op_vfs(op), dir, 0, add_entry, l);
    if (e == 0 && l->entries.err)
        e = -ENOMEM;
    if (l->entries.n > 1)
        qsort(l->entries.p, l->entries.n, sizeof *l->entries.p, by_name);
    return e;
}

struct listing {
    struct dz_op *op;
    struct level *levels;
    size_t depth, depth_max;
    uint64_t left;
    char path[DZ_VFS_PATH_MAX];
};

/* An undamaged disk is at most this deep, and has longer paths only if a program changed into each
 * directory step by step. */
static int too_deep(const struct listing *x, struct dz_err *err)
{
    return dz_fail(
        err, DZ_ELIMIT,
        "list %s: more than %d directories deep, or a path of more than %d bytes; run doze "
        "disk check",
        x->op->path, LEVELS_MAX, DZ_VFS_PATH_MAX - 1);
}

/* List one entry. A directory is entered while there is depth left. */
static int list_entry(struct listing *x, struct level *l, struct dz_err *err)
{
    const struct entry *e = &l->entries.p[l->at++];
    struct dz_vfs_attr a;
    size_t n = strlen(e->name), len = l->path_len + (l->path_len > 0) + n;
    if (dz_vfs_getattr(dz_op_vfs(x->op), e->ino, &a) != 0)
        return 0; /* gone meanwhile */
    if (len >= sizeof x->path) {
        x->op->count = 1; /* no client can use such a path, so it is left out */
        return x->depth_max < LEVELS_MAX ? 0 : too_deep(x, err);
    }
    if (x->left == 0) {
        x->op->count = 1;
        x->depth = 0; /* the limit is reached */
        return 0;
    }
    x->left--;
    if (l->path_len > 0)
        x->path[l->path_len] = '/';
    memcpy(x->path + len - n, e->name, n + 1);
    int rc = dz_op_put_stat(x->op, &a, x->path, err);
    if (rc < 0 || !S_ISDIR(a.mode) || (x->depth == x->depth_max && x->depth < LEVELS_MAX))
        return rc;
    if (x->depth == LEVELS_MAX)
        return too_deep(x, err);
    struct level *below = &x->levels[x->depth];
    int failed = open_level(x->op, below, a.ino);
    below->path_len = len;
    x->depth++;
    return failed < 0 && failed != -ENOENT && failed != -ENOTDIR
               ? dz_op_failed(x->op, "list", failed, err)
               : 0;
}

static int list(struct listing *x, struct dz_err *err)
{
    int rc = 0;
    while (rc == 0 && x->depth > 0) {
        struct level *l = &x->levels[x->depth - 1];
        if (l->at < l->entries.n)
            rc = list_entry(x, l, err);
        else
            release_level(&x->levels[--x->depth]);
    }
    for (size_t i = 0; i < x->depth_max; i++)
        release_level(&x->levels[i]);
    return rc;
}

int dz_op_list(struct dz_op *op, struct dz_err *err)
{
    struct dz_vfs_attr a;
    uint32_t depth = op->args.depth ? op->args.depth : 1;
    uint64_t limit = op->args.limit ? op->args.limit : DZ_CELL_OP_LIST_MAX;
    uint64_t ino;
    int e = dz_op_resolve(op, &ino);
    if (e == 0)
        e = dz_vfs_getattr(dz_op_vfs(op), ino, &a);
    if (e == 0 && !S_ISDIR(a.mode))
        e = -ENOTDIR;
    if (e < 0)
        return dz_op_failed(op, "list", e, err);
    struct listing *x = dz_zalloc(sizeof *x);
    depth = depth < LEVELS_MAX ? depth : LEVELS_MAX;
    if (x)
        x->levels = dz_zalloc(depth * sizeof *x->levels);
    if (!x || !x->levels) {
        dz_free(x);
        return dz_fail(err, DZ_ENOMEM, "list %s: out of memory", op->path);
    }
    x->op = op;
    x->depth_max = depth;
    x->left = limit < DZ_CELL_OP_LIST_MAX ? limit : DZ_CELL_OP_LIST_MAX;
    x->depth = 1;
    e = open_level(op, &x->levels[0], ino);
    int rc = e < 0 ? dz_op_failed(op, "list", e, err) : 0;
    if (rc < 0)
        x->depth = 0;
    int listed = list(x, rc < 0 ? NULL : err);
    dz_free(x->levels);
    dz_free(x);
    return rc < 0 ? rc : listed;
}

/* --- sums ------------------------------------------------------------------------------------ */

static int find_top(struct dz_op *op, struct dz_vfs_attr *ret)
{
    const struct dz_vfs_who who = {.root = dz_op_top(op)};
    return dz_vfs_stat_at(dz_op_vfs(op), &who, dz_op_path(op, op->path),
                          !(op->args.flags & DZ_CELL_OP_NOFOLLOW), ret);
}

static int add_usage(struct dz_op *op, const struct dz_vfs_attr *a, struct dz_record_usage *sum)
{
    uint64_t stored = 0, names = S_ISREG(a->mode) && a->nlink > 1 ? a->nlink : 1;
    int e = S_ISREG(a->mode) ? dz_vfs_allocated(dz_op_vfs(op), a->ino, &stored) : 0;
    if (e == -ENOENT)
        return 0; /* removed meanwhile */
    sum->stored += stored / names;
    sum->size += S_ISREG(a->mode) ? a->size / names : 0;
    sum->names++;
    sum->sockets += S_ISSOCK(a->mode);
    return e;
}

/* Add the next entry of the innermost directory; enter it if it is a directory. */
static int add_entry_usage(struct dz_op *op, struct level *levels, size_t *depth,
                           struct dz_record_usage *sum, struct dz_err *err)
{
    struct level *l = &levels[*depth - 1];
    struct dz_vfs_attr a;
    if (dz_vfs_getattr(dz_op_vfs(op), l->entries.p[l->at++].ino, &a) != 0)
        return 0; /* removed meanwhile */
    int e = add_usage(op, &a, sum);
    if (e < 0 || !S_ISDIR(a.mode))
        return e < 0 ? dz_op_failed(op, "measure", e, err) : 0;
    if (*depth == LEVELS_MAX || sum->names > USAGE_NAMES_MAX)
        return dz_fail(err, DZ_ELIMIT,
                       "measure %s: more than %d directories deep or %d names; run doze disk check",
                       op->path, LEVELS_MAX, USAGE_NAMES_MAX);
    int rc = dz_op_yield(op, false, err);
    e = rc < 0 ? 0 : open_level(op, &levels[*depth], a.ino);
    *depth += rc == 0;
    return e < 0 && e != -ENOENT && e != -ENOTDIR ? dz_op_failed(op, "measure", e, err) : rc;
}

int dz_op_usage(struct dz_op *op, struct dz_err *err)
{
    static const struct dz_op_part none[3] = {{0}};
    struct dz_record_usage sum = {0};
    struct dz_vfs_attr a = {0};
    size_t depth = 0;
    int e = find_top(op, &a);
    if (e == 0)
        e = add_usage(op, &a, &sum);
    if (e < 0)
        return dz_op_failed(op, "measure", e, err);
    struct level *levels = dz_zalloc(LEVELS_MAX * sizeof *levels);
    if (!levels)
        return dz_fail(err, DZ_ENOMEM, "measure %s: out of memory", op->path);
    if (S_ISDIR(a.mode)) {
        e = open_level(op, &levels[0], a.ino);
        depth = 1;
    }
    int rc = e < 0 ? dz_op_failed(op, "measure", e, err) : 0;
    while (rc == 0 && depth > 0) {
        if (levels[depth - 1].at < levels[depth - 1].entries.n)
            rc = add_entry_usage(op, levels, &depth, &sum, err);
        else
            release_level(&levels[--depth]);
    }
    while (depth > 0)
        release_level(&levels[--depth]);
    dz_free(levels);
    return rc < 0 ? rc : dz_op_record(op, DZ_RECORD_USAGE, &sum, sizeof sum, none, err);
}

/* --- archives ------------------------------------------------------------------------------ */

static int tar_write(void *arg, const void *buf, size_t n)
{
    return dz_op_emit(arg, buf, n, NULL) < 0 ? -ECANCELED : 0;
}

int dz_op_tar_out(struct dz_op *op, struct dz_err *err)
{
    struct dz_tar_out out = {.vfs = dz_op_vfs(op),
                             .name = "",
                             .write = tar_write,
                             .arg = op,
                             .sparse = op->args.flags & DZ_CELL_OP_SPARSE};
    struct dz_vfs_attr a = {0};
    struct dz_tar_stats stats;
    const char *slash = strrchr(op->path, '/');
    int e = find_top(op, &a);
    out.ino = a.ino;
    if (e == 0)
        e = dz_vfs_ref(out.vfs, out.ino);
    if (e < 0)
        return dz_op_failed(op, "pack", e, err);
    if (!S_ISDIR(a.mode) && slash)
        out.name = slash + 1;
    int rc = dz_vfs_tar_out(&out, &stats, err);
    dz_vfs_unref(out.vfs, out.ino);
    op->count = rc < 0 ? 0 : stats.members;
    return rc;
}

static ssize_t tar_read(void *arg, void *buf, size_t n)
{
    int64_t got = dz_op_input(arg, buf, n, NULL);
    return got < 0 ? -ECANCELED : (ssize_t)got;
}

int dz_op_tar_in(struct dz_op *op, struct dz_err *err)
{
    struct dz_tar_in in = {.vfs = dz_op_vfs(op),
                           .read = tar_read,
                           .arg = op,
                           .owners = true,
                           .links = true}; /* the guest may make such links as well */
    struct dz_vfs_attr a;
    struct dz_tar_stats stats;
    int rc = dz_op_hold(op, err);
    int e = rc == 0 && (op->args.flags & DZ_CELL_OP_PARENTS)
                ? dz_put_above(in.vfs, dz_op_top(op), op->path)
                : 0;
    if (rc == 0 && e == 0)
        e = dz_op_resolve(op, &in.dir);
    if (rc == 0 && e == 0)
        e = dz_vfs_getattr(in.vfs, in.dir, &a);
    if (rc == 0 && e == 0)
        e = S_ISDIR(a.mode) ? dz_vfs_ref(in.vfs, in.dir) : -ENOTDIR;
    if (rc < 0 || e < 0)
        return rc < 0 ? rc : dz_op_failed(op, "unpack into", e, err);
    rc = dz_vfs_tar_in(&in, &stats, err);
    dz_vfs_unref(in.vfs, in.dir);
    op->count = rc < 0 ? 0 : stats.members;
    return rc;
}

/* --- changes ---------------------------------------------------------------------------------- */

#define SAME(what) _Static_assert((int)DZ_CHANGE_##what == (int)DZ_VFS_EV_##what, #what)
SAME(CREATE);
SAME(WRITE);
SAME(REMOVE);
SAME(MOVED_FROM);
SAME(MOVED_TO);
SAME(ATTR);
SAME(OVERFLOW);
#undef SAME

/* Is there a name in the path that exists only while an upload or an archive arrives? */
static bool is_arriving(const char *path)
{
    for (const char *name = path; name; name = strchr(name, '/')) {
        name += *name == '/';
        if (strncmp(name, DZ_OP_ARRIVING, strlen(DZ_OP_ARRIVING)) == 0 ||
            strncmp(name, DZ_TAR_STAGE, strlen(DZ_TAR_STAGE)) == 0)
            return true;
    }
    return false;
}

static int put_change(struct dz_op *op, const struct dz_vfs_event *ev, struct dz_err *err)
{
    char path[DZ_VFS_PATH_MAX + DZ_VFS_NAME_MAX + 2] = "";
    const struct dz_record_change c = {.what = ev->type, .cookie = ev->cookie, .mode = ev->mode};
    int n = 0;
    if (ev->type != DZ_VFS_EV_OVERFLOW)
        n = dz_vfs_getcwd(dz_op_vfs(op), dz_op_top(op), ev->dir ? ev->dir : ev->ino, path,
                          DZ_VFS_PATH_MAX);
    if (n < 0)
        n = 0; /* the directory was removed, too, so its path is unknown */
    if (ev->len > 0)
        (void)snprintf(path + n, sizeof path - (size_t)n, "%s%.*s", n == 1 ? "" : "/", (int)ev->len,
                       ev->name);
    if (is_arriving(path))
        return 0; /* MOVED_TO reports the file under its own name */
    const struct dz_op_part parts[3] = {{path, strlen(path) + 1}};
    return dz_op_record(op, DZ_RECORD_CHANGE, &c, sizeof c, parts, err);
}

static void on_change(void *arg)
{
    ((struct dz_ops *)arg)->changed = true;
}

int dz_op_watch(struct dz_op *op, struct dz_err *err)
{
    struct dz_vfs *v = dz_op_vfs(op);
    struct dz_vfs_event ev;
    uint64_t ino;
    int e = dz_op_resolve(op, &ino);
    int watch = e < 0 ? e : dz_vfs_watch(v, ino, DZ_VFS_EV_ALL, op->args.flags & DZ_CELL_OP_DEEP);
    int rc = watch < 0 ? dz_op_failed(op, "watch", watch, err) : 0;
    dz_vfs_watch_notify(v, on_change, op->ops);
    while (rc == 0) {
        bool any = false;
        while (rc == 0 && dz_vfs_watch_next(v, watch, &ev)) {
            any = true;
            rc = put_change(op, &ev, err);
        }
        if (rc == 0 && any)
            rc = dz_cell_machine_commit(&op->ops->serve->machine,
                                        err); /* commit the changes before they are reported */
        if (rc == 0 && any)
            rc = dz_op_emit_records(op, err);
        if (rc == 0)
            rc = dz_op_yield(op, true, err);
    }
    if (watch >= 0)
        dz_vfs_unwatch(v, watch);
    return rc;
}
