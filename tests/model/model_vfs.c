/* SPDX-License-Identifier: MIT
 *
 * model_vfs - random operations on a disk and on a model of one, compared.
 *
 *     model_vfs [SEED=n] [STEPS=n] [EPISODES-ONLY=n]
 *
 * STEPS operations (200,000 by default) in episodes of 4,000. An episode is made
 * from its number and the seed alone: with or without an image below (which is
 * what an earlier life of the same disk left), durable or normal commits, and one
 * in eight on real descriptors under a filter that kills on open. Between the
 * operations: commits, reopening, freezing with files open, crashes, failing
 * calls, full disks, checkpoints, power cuts. After a crash the disk must equal
 * the model at the last commit; after a power cut at some commit no older than
 * the last that was certainly on disk. At each end dz_vfs_check() must be silent.
 *
 * When an episode fails its operations are reduced to few that still fail, and
 * those are printed.
 */
#include "../lib/no_open.h"
#include "../lib/vfs_rig.h"
#include "ramfs.h"

#include <stdarg.h>
#include <sys/wait.h>
#include <sys/xattr.h>

enum {
    STEPS = 200000,
    EPISODE = 4000,
    HISTORY = 64, /* commits that a power cut may fall back to */
    OPENS = 6,
    CROWD = 120, /* nodes; beyond, fewer are made */
    FILE_MAX = 7 * DZ_VFS_CHUNK,
};

struct op {
    uint32_t kind, a, b, c, d;
};

struct world {
    struct rig r;
    struct ram *m;
    struct ram *history[HISTORY];
    int count, certain; /* history[certain] is the oldest that a power cut may leave */
    int crash_floor;    /* the oldest that a crash may leave */
    int open[OPENS];    /* nodes with a reference, 0 = none */
    size_t uncommitted;
    int armed; /* operations for which errors of the device are allowed */
    bool on_files, verbose, failed, unexpected;
    int step;
};

/* ---- small things ------------------------------------------------------------------------ */

static uint64_t rng_state;

static uint32_t rng(void)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33);
}

__attribute__((format(printf, 2, 3))) static void fail(struct world *w, const char *fmt, ...)
{
    va_list ap;
    if (w->failed)
        return;
    w->failed = true;
    printf("# step %d: ", w->step);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

__attribute__((format(printf, 2, 3))) static void say(const struct world *w, const char *fmt, ...)
{
    va_list ap;
    if (!w->verbose)
        return;
    printf("#   %d ", w->step);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

/* Do both agree? With a failing device, an error of its kind means: nothing happened. */
static bool agree(struct world *w, const char *what, long got, long want)
{
    if (w->armed && (got == -EIO || got == -ENOSPC || got == -ENOMEM))
        return false;
    if (got != want)
        fail(w, "%s gives %ld, the model %ld (%s)", what, got, want, dz_vfs_why(w->r.v));
    return got == want && got >= 0;
}

static int pick(const struct world *w, uint32_t r, bool (*is)(const struct ram_node *n))
{
    int found[RAM_NODES], n = 0;
    for (int i = RAM_ROOT; i < RAM_NODES; i++)
        if (w->m->node[i].used && is(&w->m->node[i]))
            found[n++] = i;
    return n ? found[r % (uint32_t)n] : 0;
}

static bool is_live_dir(const struct ram_node *n)
{
    return S_ISDIR(n->mode) && n->nlink > 0 && n->count < RAM_NAMES - 2;
}

static bool is_file(const struct ram_node *n)
{
    return S_ISREG(n->mode);
}

static bool is_any(const struct ram_node *n)
{
    (void)n;
    return true;
}

/* A name in dir: rather one that exists. */
static const char *pick_name(const struct world *w, int dir, uint32_t r)
{
    static const char *const names[] = {"a", "b",  "c",  "d",         "e",        "f0",
                                        "x", "yy", "zz", "long-name", "\xff\x01", "space d"};
    const struct ram_node *d = &w->m->node[dir];
    if (d->count && r % 3)
        return d->names[r / 3 % (uint32_t)d->count].name;
    return names[r / 3 % DZ_ARRAY_LEN(names)];
}

static size_t pick_offset(uint32_t r)
{
    switch (r % 5) {
    case 0:
        return r / 5 % 3000;
    case 1:
        return r / 5 % 4 * DZ_VFS_CHUNK;
    case 2:
        return (r / 5 % 4 + 1) * DZ_VFS_CHUNK - r / 20 % 40;
    case 3:
        return r / 5 % 40000;
    default:
        return 0;
    }
}

static size_t pick_length(uint32_t r)
{
    switch (r % 6) {
    case 0:
        return r / 6 % 20 + 1;
    case 1:
    case 2:
        return r / 6 % 3000 + 1;
    case 3:
        return r / 6 % 6000 + 1;
    case 4:
        return DZ_VFS_CHUNK;
    default:
        return r / 6 % (2 * DZ_VFS_CHUNK) + 1;
    }
}

/* ---- comparing ------------------------------------------------------------------------------ */

static bool same_attr(const struct world *w, const struct ram_node *n)
{
    struct dz_vfs_attr a;
    if (dz_vfs_getattr(w->r.v, n->ino, &a))
        return false;
    return a.mode == n->mode && a.uid == n->uid && a.gid == n->gid && a.nlink == n->nlink &&
           a.size == ram_size(n) && a.rdev == n->rdev && a.mtime_ns == n->mtime_ns &&
           a.ctime_ns == n->ctime_ns && (!w->r.opts.noatime || a.atime_ns == n->atime_ns);
}

static bool same_content(const struct world *w, const struct ram_node *n)
{
    static uint8_t buf[FILE_MAX + 2 * DZ_VFS_CHUNK + 1];
    size_t size = ram_size(n);
    if (S_ISLNK(n->mode))
        return dz_vfs_readlink(w->r.v, n->ino, (char *)buf, sizeof buf) == (int)size &&
               memcmp(buf, n->data->p, size) == 0;
    if (!S_ISREG(n->mode))
        return true;
    return dz_vfs_read(w->r.v, n->ino, 0, buf, sizeof buf) == (ssize_t)size &&
           memcmp(buf, n->data->p, size) == 0;
}

struct listing {
    const struct ram *m;
    const struct ram_node *dir;
    int seen, dots;
    bool bad;
    uint64_t cookie;
    int batch;
};

static int check_entry(void *arg, const struct dz_vfs_entry *e)
{
    struct listing *l = arg;
    char name[256] = "";
    if (l->batch-- == 0)
        return 1;
    l->cookie = e->cookie;
    memcpy(name, e->name, e->len);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        int node = e->len == 1 ? (int)(l->dir - l->m->node) : l->dir->parent;
        l->bad |= e->ino != l->m->node[node].ino;
        l->dots++;
        return 0;
    }
    int node = ram_find(l->m, (int)(l->dir - l->m->node), name);
    if (node < 0 || l->m->node[node].ino != e->ino || e->type != (l->m->node[node].mode & S_IFMT))
        l->bad = true;
    l->seen++;
    return 0;
}

/* In small batches, so that most of them begin at a cookie. */
static bool same_listing(const struct world *w, const struct ram *m, const struct ram_node *n)
{
    struct listing l = {.m = m, .dir = n};
    int before = -1;
    if (!S_ISDIR(n->mode) || n->nlink == 0)
        return true;
    while (l.seen + l.dots != before && !l.bad) {
        before = l.seen + l.dots;
        l.batch = 5;
        if (dz_vfs_readdir(w->r.v, n->ino, l.cookie, check_entry, &l))
            return false;
        if (before % 3 == 0)
            dz_vfs_trim(w->r.v);
    }
    return !l.bad && l.seen == n->count && l.dots == 2;
}

static bool same_xattrs(const struct world *w, const struct ram_node *n)
{
    size_t names = 0;
    for (int i = 0; i < RAM_XATTRS; i++) {
        const struct ram_xattr *x = &n->xattr[i];
        uint8_t buf[8192];
        if (!x->value)
            continue;
        names += strlen(x->name) + 1;
        if (dz_vfs_getxattr(w->r.v, n->ino, x->name, buf, sizeof buf) != (ssize_t)x->value->n ||
            memcmp(buf, x->value->p, x->value->n) != 0)
            return false;
    }
    return dz_vfs_listxattr(w->r.v, n->ino, NULL, 0) == (ssize_t)names;
}

/* Is the disk exactly *m? Silent: the node that differs, or 0. */
static int difference(const struct world *w, const struct ram *m, const char **ret_what)
{
    for (int i = RAM_ROOT; i < RAM_NODES; i++) {
        const struct ram_node *n = &m->node[i];
        if (!n->used)
            continue;
        *ret_what = "attributes";
        if (!same_attr(w, n))
            return i;
        *ret_what = "content";
        if (!same_content(w, n))
            return i;
        *ret_what = "listing";
        if (!same_listing(w, m, n))
            return i;
        *ret_what = "extended attributes";
        if (!same_xattrs(w, n))
            return i;
    }
    return 0;
}

static void compare(struct world *w)
{
    const char *what;
    int node = difference(w, w->m, &what);
    if (!node)
        return;
    struct dz_vfs_attr a = {0};
    const struct ram_node *n = &w->m->node[node];
    int rc = dz_vfs_getattr(w->r.v, n->ino, &a);
    fail(w,
         "%s of inode %llu differ: rc %d mode %o/%o nlink %u/%u size %llu/%zu uid %u/%u mtime "
         "%lld/%lld ctime %lld/%lld atime %lld/%lld",
         what, (unsigned long long)n->ino, rc, a.mode, n->mode, a.nlink, n->nlink,
         (unsigned long long)a.size, ram_size(n), a.uid, n->uid, (long long)a.mtime_ns,
         (long long)n->mtime_ns, (long long)a.ctime_ns, (long long)n->ctime_ns,
         (long long)a.atime_ns, (long long)n->atime_ns);
}

static void damage(void *arg, const struct dz_vfs_damage *d)
{
    fail(arg, "check: %s %llu: %s", d->what, (unsigned long long)d->ino, d->text);
}

static void check(struct world *w)
{
    const struct dz_vfs_check_opts o = {
        .db = w->r.db, .image = w->r.image, .damage = damage, .arg = w};
    uint64_t count = 0;
    struct dz_err err = {0};
    if (dz_vfs_check(&o, &count, &err))
        fail(w, "check could not be done: %s", err.msg);
}

/* The disk's clock decides about times; the model takes them over. */
static void take_times(struct world *w, int node)
{
    struct dz_vfs_attr a;
    struct ram_node *n = &w->m->node[node];
    if (!node || !n->used || dz_vfs_getattr(w->r.v, n->ino, &a))
        return;
    n->atime_ns = a.atime_ns;
    n->mtime_ns = a.mtime_ns;
    n->ctime_ns = a.ctime_ns;
}

/* ---- history -----------------------------------------------------------------------------------
 */

static void history_clear(struct world *w)
{
    for (int i = 0; i < w->count; i++)
        ram_free(w->history[i]);
    w->count = w->certain = w->crash_floor = 0;
}

/* The model as it is now may be on disk; `sure`: a crash cannot lose it any more;
 * `durable`: nor a power cut. */
static void remember(struct world *w, bool sure, bool durable)
{
    if (w->count == HISTORY) {
        int drop = w->certain < HISTORY / 2 ? w->certain : HISTORY / 2;
        if (drop == 0)
            drop = 1; /* cannot happen: checkpoints come before */
        for (int i = 0; i < drop; i++)
            ram_free(w->history[i]);
        memmove(w->history, w->history + drop, (size_t)(HISTORY - drop) * sizeof *w->history);
        w->count -= drop;
        w->certain -= drop < w->certain ? drop : w->certain;
        w->crash_floor -= drop < w->crash_floor ? drop : w->crash_floor;
    }
    w->history[w->count++] = ram_copy(w->m);
    if (sure)
        w->crash_floor = w->count - 1;
    if (durable)
        w->certain = w->count - 1;
    w->uncommitted = 0;
}

static int on_commit(void *arg, struct dz_db *db, struct dz_err *err)
{
    struct rig *r = arg;
    struct world *w = (struct world *)r; /* r is its first member */
    (void)db;
    (void)err;
    w->unexpected = true;
    return 0;
}

/* ---- the device fails
 * ---------------------------------------------------------------------------- */

static void disarm(struct world *w)
{
    w->armed = 0;
    if (w->r.sim)
        dz_db_sim_fail_at(w->r.sim, DZ_DB_SIM_ANY, -1, 0, false);
}

static void reopened(struct world *w)
{
    for (int i = 0; i < OPENS; i++)
        w->open[i] = 0;
    w->r.opts.keep_orphans = false;
}

/* Which state did the device keep? It becomes the model's. */
static void settle(struct world *w, bool power, const char *why)
{
    const char *what = "";
    int node = 0, floor = power ? w->certain : w->crash_floor;
    for (int i = w->count - 1; i >= floor; i--) {
        node = difference(w, w->history[i], &what);
        if (node)
            continue;
        ram_free(w->m);
        w->m = ram_copy(w->history[i]);
        if (power)
            history_clear(w);
        while (w->count > i + 1)
            ram_free(w->history[--w->count]);
        remember(w, true, power);
        check(w);
        return;
    }
    fail(w, "after %s the disk is none of %d commits (the oldest differs in %s of inode %llu)", why,
         w->count - floor, what,
         node ? (unsigned long long)w->history[floor]->node[node].ino : 0ull);
}

static void open_again(struct world *w, const char *why)
{
    if (rig_open(&w->r))
        fail(w, "cannot open after %s: %s", why, w->r.err.msg);
}

/* ---- operations
 * ------------------------------------------------------------------------------------- */

static void op_create(struct world *w, const struct op *o)
{
    static const uint32_t type[] = {S_IFREG, S_IFREG, S_IFREG, S_IFDIR, S_IFDIR, S_IFLNK, S_IFIFO};
    static const char *const target[] = {"a",         "../b", "/workspace/c", "c/d", ".",
                                         "/tmp/../x", "e/"};
    int dir = pick(w, o->a, is_live_dir), nodes = 0;
    const char *name = pick_name(w, dir, o->b);
    const char *to = target[o->d % DZ_ARRAY_LEN(target)];
    struct dz_vfs_new spec = {.mode = type[o->c % DZ_ARRAY_LEN(type)] | (o->d & 0777),
                              .uid = o->d % 3,
                              .gid = o->d % 5,
                              .target = to,
                              .target_len = strlen(to)};
    uint64_t ino = 0;
    for (int i = 0; i < RAM_NODES; i++)
        nodes += w->m->node[i].used;
    if (nodes > CROWD)
        return;
    say(w, "create %d/%s mode %o", dir, name, spec.mode);
    int want = ram_can_create(w->m, dir, name);
    int got = dz_vfs_create(w->r.v, w->m->node[dir].ino, name, strlen(name), &spec, &ino);
    if (!agree(w, "create", got, want))
        return;
    int node = ram_create(w->m, dir, name, spec.mode, S_ISLNK(spec.mode) ? to : NULL);
    for (int i = 0; i < RAM_NODES; i++)
        if (w->m->node[i].used && w->m->node[i].ino == ino)
            fail(w, "inode %llu is given twice", (unsigned long long)ino);
    w->m->node[node].ino = ino;
    w->m->node[node].uid = spec.uid;
    w->m->node[node].gid = spec.gid;
    take_times(w, node);
    take_times(w, dir);
}

static void op_link(struct world *w, const struct op *o)
{
    int node = pick(w, o->a, is_any), dir = pick(w, o->b, is_live_dir);
    const char *name = pick_name(w, dir, o->c);
    if (w->m->node[node].nlink == 0)
        return;
    say(w, "link %d as %d/%s", node, dir, name);
    int want = ram_can_link(w->m, node, dir, name);
    int got = dz_vfs_link(w->r.v, w->m->node[node].ino, w->m->node[dir].ino, name, strlen(name));
    if (!agree(w, "link", got, want))
        return;
    (void)ram_link(w->m, node, dir, name);
    take_times(w, node);
    take_times(w, dir);
}

static void op_unlink(struct world *w, const struct op *o)
{
    int dir = pick(w, o->a, is_live_dir);
    char name[24];
    (void)snprintf(name, sizeof name, "%s", pick_name(w, dir, o->b));
    bool rmdir = o->c % 3 == 0;
    int node = ram_find(w->m, dir, name);
    say(w, "%s %d/%s", rmdir ? "rmdir" : "unlink", dir, name);
    int want = rmdir ? ram_can_rmdir(w->m, dir, name) : ram_can_unlink(w->m, dir, name);
    uint64_t ino = w->m->node[dir].ino;
    int got = rmdir ? dz_vfs_rmdir(w->r.v, ino, name, strlen(name))
                    : dz_vfs_unlink(w->r.v, ino, name, strlen(name));
    if (!agree(w, rmdir ? "rmdir" : "unlink", got, want))
        return;
    (void)(rmdir ? ram_rmdir(w->m, dir, name) : ram_unlink(w->m, dir, name));
    take_times(w, node);
    take_times(w, dir);
}

static void op_rename(struct world *w, const struct op *o)
{
    int from = pick(w, o->a, is_live_dir), to = pick(w, o->b, is_live_dir);
    char old[24], new[24];
    (void)snprintf(old, sizeof old, "%s", pick_name(w, from, o->c));
    (void)snprintf(new, sizeof new, "%s", pick_name(w, to, o->d));
    unsigned flags = o->d % 7 == 0 ? RENAME_EXCHANGE : o->d % 7 == 1 ? RENAME_NOREPLACE : 0;
    const struct dz_vfs_name a = {w->m->node[from].ino, old, strlen(old)};
    const struct dz_vfs_name b = {w->m->node[to].ino, new, strlen(new)};
    int what = ram_find(w->m, from, old), there = ram_find(w->m, to, new);
    say(w, "rename %d/%s to %d/%s flags %u", from, old, to, new, flags);
    int want = ram_can_rename(w->m, from, old, to, new, flags);
    if (!agree(w, "rename", dz_vfs_rename(w->r.v, &a, &b, flags), want))
        return;
    (void)ram_rename(w->m, from, old, to, new, flags);
    take_times(w, what);
    if (there > 0)
        take_times(w, there);
    take_times(w, from);
    take_times(w, to);
}

static uint8_t pattern[8 * DZ_VFS_CHUNK];

static void op_write(struct world *w, const struct op *o)
{
    int node = pick(w, o->a, is_file);
    size_t off = pick_offset(o->b), n = pick_length(o->c), old;
    uint64_t at = 0;
    if (!node)
        return;
    struct ram_node *f = &w->m->node[node];
    bool append = o->d % 4 == 0;
    old = ram_size(f);
    if (append)
        off = old;
    if (off + n > FILE_MAX)
        return;
    const uint8_t *src = pattern + o->d % 9999;
    say(w, "%s %d at %zu, %zu bytes", append ? "append" : "write", node, off, n);
    ssize_t got = append ? dz_vfs_append(w->r.v, f->ino, src, n, &at)
                         : dz_vfs_write(w->r.v, f->ino, off, src, n);
    if (w->armed && got > 0 && got < (ssize_t)n)
        n = (size_t)got; /* a short write counts */
    if (append && got > 0 && at != off)
        fail(w, "append at %llu instead of %zu", (unsigned long long)at, off);
    if (agree(w, "write", got, (long)n)) {
        memcpy(ram_resize(w->m, node, off + n > old ? off + n : old) + off, src, n);
        f->mode &= f->mode & S_IXGRP ? ~(uint32_t)(S_ISUID | S_ISGID) : ~(uint32_t)S_ISUID;
        w->uncommitted += n;
    }
    take_times(w, node);
}

static void op_read(struct world *w, const struct op *o)
{
    static uint8_t buf[3 * DZ_VFS_CHUNK];
    int node = pick(w, o->a, is_file);
    size_t off = pick_offset(o->b), n = pick_length(o->c);
    if (!node)
        return;
    const struct ram_node *f = &w->m->node[node];
    size_t have = off < ram_size(f) ? ram_size(f) - off : 0;
    say(w, "read %d at %zu, %zu bytes", node, off, n);
    ssize_t got = dz_vfs_read(w->r.v, f->ino, off, buf, n);
    size_t want = have < n ? have : n;
    if (w->armed && got > 0 && (size_t)got < want)
        want = (size_t)got;
    if (agree(w, "read", got, (long)want) && memcmp(buf, f->data->p + off, want) != 0)
        fail(w, "read of inode %llu at %zu differs", (unsigned long long)f->ino, off);
    if (!w->r.opts.noatime)
        take_times(w, node);
}

static void op_truncate(struct world *w, const struct op *o)
{
    int node = pick(w, o->a, is_file);
    struct dz_vfs_attr a = {.size = pick_offset(o->b)};
    if (!node)
        return;
    struct ram_node *f = &w->m->node[node];
    say(w, "truncate %d from %zu to %llu", node, ram_size(f), (unsigned long long)a.size);
    if (agree(w, "truncate", dz_vfs_setattr(w->r.v, f->ino, DZ_VFS_SET_SIZE, &a), 0)) {
        (void)ram_resize(w->m, node, a.size);
        f->mode &= f->mode & S_IXGRP ? ~(uint32_t)(S_ISUID | S_ISGID) : ~(uint32_t)S_ISUID;
    }
    take_times(w, node);
}

static void op_punch(struct world *w, const struct op *o)
{
    int node = pick(w, o->a, is_file);
    size_t off = pick_offset(o->b), n = pick_length(o->c);
    if (!node || w->armed) /* done by halves when it fails */
        return;
    struct ram_node *f = &w->m->node[node];
    size_t size = ram_size(f);
    say(w, "punch %d at %zu, %zu bytes", node, off, n);
    if (agree(w, "punch", dz_vfs_punch(w->r.v, f->ino, off, n), 0) && off < size) {
        struct dz_vfs_attr a;
        memset(ram_resize(w->m, node, size) + off, 0, n < size - off ? n : size - off);
        if (dz_vfs_getattr(w->r.v, f->ino, &a) == 0)
            f->mode = a.mode;
    }
    take_times(w, node);
}

static void op_setattr(struct world *w, const struct op *o)
{
    int node = pick(w, o->a, is_any);
    struct ram_node *n = &w->m->node[node];
    struct dz_vfs_attr a = {
        .mode = o->b & 07777, .uid = o->c % 9, .gid = o->d % 9, .atime_ns = o->c, .mtime_ns = o->d};
    unsigned mask = o->b % 32 & ~(unsigned)DZ_VFS_SET_SIZE;
    mask |= o->c % 2 ? DZ_VFS_SET_ATIME | DZ_VFS_SET_MTIME : 0;
    say(w, "setattr %d mask %u", node, mask);
    if (agree(w, "setattr", dz_vfs_setattr(w->r.v, n->ino, mask, &a), 0)) {
        if (mask & DZ_VFS_SET_MODE)
            n->mode = (n->mode & S_IFMT) | a.mode;
        if (mask & DZ_VFS_SET_UID)
            n->uid = a.uid;
        if (mask & DZ_VFS_SET_GID)
            n->gid = a.gid;
        take_times(w, node);
        if ((mask & DZ_VFS_SET_MTIME && n->mtime_ns != o->d) ||
            (mask & DZ_VFS_SET_ATIME && n->atime_ns != o->c))
            fail(w, "times of inode %llu were not set", (unsigned long long)n->ino);
    }
}

static void op_xattr(struct world *w, const struct op *o)
{
    static const char *const names[RAM_XATTRS] = {"user.a", "user.bb", "security.c", "trusted.d"};
    int node = pick(w, o->a, is_any), k = (int)(o->b % RAM_XATTRS);
    struct ram_node *n = &w->m->node[node];
    struct ram_xattr *x = &n->xattr[k];
    size_t size = o->c % 7 ? o->c % 200 : o->c % 6000;
    int flags = o->d % 5 == 0 ? XATTR_CREATE : o->d % 5 == 1 ? XATTR_REPLACE : 0;
    bool remove = o->d % 5 == 2;
    int want = remove || flags == XATTR_REPLACE    ? x->value ? 0 : -ENODATA
               : flags == XATTR_CREATE && x->value ? -EEXIST
                                                   : 0;
    say(w, "%s %s of %d, %zu bytes", remove ? "removexattr" : "setxattr", names[k], node, size);
    int got = remove ? dz_vfs_removexattr(w->r.v, n->ino, names[k])
                     : dz_vfs_setxattr(w->r.v, n->ino, names[k], pattern, size, flags);
    if (!agree(w, "xattr", got, want))
        return;
    if (x->value && --x->value->refs == 0)
        free(x->value);
    *x = (struct ram_xattr){0};
    if (!remove) {
        x->value = calloc(1, sizeof *x->value + size);
        if (!x->value)
            abort();
        x->value->refs = 1;
        x->value->n = size;
        memcpy(x->value->p, pattern, size);
        (void)snprintf(x->name, sizeof x->name, "%s", names[k]);
    }
    take_times(w, node);
}

static void op_open(struct world *w, const struct op *o)
{
    int slot = (int)(o->a % OPENS);
    if (w->open[slot]) {
        if (w->armed) /* the file may outlive its last reference then */
            return;
        say(w, "close %d", w->open[slot]);
        dz_vfs_unref(w->r.v, w->m->node[w->open[slot]].ino);
        ram_unref(w->m, w->open[slot]);
        w->open[slot] = 0;
        return;
    }
    int node = pick(w, o->b, is_any);
    if (w->m->node[node].nlink == 0)
        return;
    say(w, "open %d", node);
    if (!agree(w, "ref", dz_vfs_ref(w->r.v, w->m->node[node].ino), 0))
        return;
    w->m->node[node].refs++;
    w->open[slot] = node;
}

static void op_path(struct world *w, const struct op *o)
{
    static const char *const part[] = {"a", "b", "c",  "d",         "e",          "yy",
                                       "x", ".", "..", "workspace", "/workspace", "tmp"};
    char path[128] = "";
    size_t len = 0;
    int start = pick(w, o->a, is_live_dir);
    uint32_t r = o->b;
    for (uint32_t i = 0; i < 1 + o->c % 5; i++) {
        len += (size_t)snprintf(path + len, sizeof path - len, "%s%s", i ? "/" : "",
                                part[r % DZ_ARRAY_LEN(part)]);
        r = r / 12 ^ o->d >> i;
    }
    const struct dz_vfs_walk req = {.root = DZ_VFS_ROOT, .start = w->m->node[start].ino};
    struct dz_vfs_walked end = {0};
    int node = ram_walk(w->m, start, path, 0);
    int got = dz_vfs_walk(w->r.v, &req, path, &end);
    if (!got && end.ino == 0)
        got = -ENOENT;
    say(w, "walk %s from %d", path, start);
    if (agree(w, path, got, node < 0 ? node : 0) && end.ino != w->m->node[node].ino)
        fail(w, "%s leads to inode %llu, not %llu", path, (unsigned long long)end.ino,
             (unsigned long long)w->m->node[node].ino);
}

static void op_tree(struct world *w, const struct op *o)
{
    int dir = pick(w, o->a, is_live_dir);
    char name[24];
    (void)snprintf(name, sizeof name, "%s", pick_name(w, dir, o->b));
    int node = ram_find(w->m, dir, name);
    if (w->armed || o->c % 4 || (node >= 0 && w->m->node[node].ino <= 4) ||
        w->m->node[dir].ino == 1)
        return;
    say(w, "remove tree %d/%s", dir, name);
    int got = dz_vfs_remove_tree(w->r.v, w->m->node[dir].ino, name, strlen(name));
    if (!agree(w, "remove_tree", got, node < 0 ? node : 0))
        return;
    ram_remove_tree(w->m, dir, name);
    for (int i = RAM_ROOT; i < RAM_NODES; i++)
        take_times(w, i);
}

static void op_clear(struct world *w, const struct op *o)
{
    if (w->armed || o->a % 8)
        return;
    say(w, "clear tmp");
    if (agree(w, "clear", dz_vfs_clear(w->r.v, DZ_VFS_TMP), 0))
        ram_clear(w->m, DZ_VFS_TMP);
    for (int i = RAM_ROOT; i < RAM_NODES; i++)
        take_times(w, i);
}

static void commit(struct world *w)
{
    struct dz_err err = {0};
    w->unexpected = false;
    int rc = dz_vfs_commit(w->r.v, &err);
    if (rc && !w->armed)
        fail(w, "commit: %s", err.msg);
    remember(w, rc == 0, rc == 0 && w->r.strict);
    w->unexpected = false;
}

static void op_commit(struct world *w, const struct op *o)
{
    (void)o;
    say(w, "commit");
    commit(w);
}

static void checkpoint(struct world *w)
{
    struct dz_err err = {0};
    commit(w);
    int rc = dz_vfs_maintain(w->r.v, true, &err);
    if (rc < 0 && !w->armed)
        fail(w, "maintain: %s", err.msg);
    if (rc == 1)
        w->certain = w->count - 1;
}

static void op_checkpoint(struct world *w, const struct op *o)
{
    (void)o;
    say(w, "checkpoint");
    checkpoint(w);
}

static void op_trim(struct world *w, const struct op *o)
{
    (void)o;
    dz_vfs_trim(w->r.v);
}

static void op_reopen(struct world *w, const struct op *o)
{
    if (w->armed || o->a % 4)
        return;
    say(w, "close and open");
    if (rig_close(&w->r))
        fail(w, "close: %s", w->r.err.msg);
    remember(w, true, true);
    ram_free(w->m);
    w->m = ram_copy(w->history[w->count - 1]);
    reopened(w);
    open_again(w, "close");
    if (!w->failed)
        compare(w);
}

/* As a sleep with memory kept: the references come back by number. */
static void op_freeze(struct world *w, const struct op *o)
{
    if (w->armed || o->a % 4)
        return;
    say(w, "freeze and thaw");
    if (dz_vfs_quiesce(w->r.v, NULL, NULL, &w->r.err))
        fail(w, "quiesce: %s", w->r.err.msg);
    remember(w, true, w->r.strict);
    rig_crash(&w->r);
    w->r.opts.keep_orphans = true;
    open_again(w, "freeze");
    for (int i = 0; i < OPENS && !w->failed; i++)
        if (w->open[i] && dz_vfs_ref(w->r.v, w->m->node[w->open[i]].ino))
            fail(w, "an open file is gone after the thaw");
    if (!w->failed && dz_vfs_reap(w->r.v, &w->r.err))
        fail(w, "reap: %s", w->r.err.msg);
    w->r.opts.keep_orphans = false;
    if (!w->failed)
        compare(w);
}

static void op_crash(struct world *w, const struct op *o)
{
    if (o->a % 4)
        return;
    say(w, "crash");
    disarm(w);
    rig_crash(&w->r);
    reopened(w);
    open_again(w, "a crash");
    if (!w->failed)
        settle(w, false, "a crash");
}

static void op_power(struct world *w, const struct op *o)
{
    struct dz_err err = {0};
    if (w->on_files || o->a % 4)
        return;
    say(w, "power cut after %u more changes", o->b % 24);
    disarm(w);
    dz_db_sim_cut_at(w->r.sim, o->b % 24);
    w->armed = 1;
    if (o->c % 2)
        commit(w);
    else
        checkpoint(w);
    rig_crash(&w->r);
    if (dz_db_sim_power_on(w->r.sim))
        abort();
    disarm(w);
    reopened(w);
    open_again(w, "a power cut");
    if (!w->failed)
        settle(w, true, "a power cut");
    (void)err;
}

static void op_arm(struct world *w, const struct op *o)
{
    static const int sys[] = {EIO, ENOSPC, ENOSPC, EIO};
    if (w->on_files || w->armed)
        return;
    say(w, "the device will fail");
    unsigned set = o->b % 2 ? 1u << DZ_DB_SIM_WRITE : DZ_DB_SIM_ANY & ~(1u << DZ_DB_SIM_LOCK);
    dz_db_sim_fail_at(w->r.sim, set, o->a % 12, sys[o->b % 4], o->c % 2);
    w->armed = 1 + (int)(o->d % 12);
}

static void op_compare(struct world *w, const struct op *o)
{
    if (w->armed || o->a % 4)
        return;
    say(w, "compare");
    compare(w);
}

static void op_check(struct world *w, const struct op *o)
{
    if (w->armed || o->a % 8)
        return;
    commit(w);
    check(w);
}

static const struct {
    void (*fn)(struct world *w, const struct op *o);
    unsigned weight;
} ops[] = {
    {op_create, 22},    {op_link, 5},     {op_unlink, 12}, {op_rename, 12}, {op_write, 24},
    {op_read, 12},      {op_truncate, 6}, {op_punch, 4},   {op_setattr, 5}, {op_xattr, 6},
    {op_open, 6},       {op_path, 8},     {op_tree, 2},    {op_clear, 1},   {op_commit, 6},
    {op_checkpoint, 1}, {op_trim, 1},     {op_reopen, 1},  {op_freeze, 1},  {op_crash, 2},
    {op_power, 2},      {op_arm, 2},      {op_compare, 1}, {op_check, 1},
};

/* ---- episodes
 * ------------------------------------------------------------------------------------------ */

static void make_ops(struct op *o, int n)
{
    unsigned total = 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(ops); i++)
        total += ops[i].weight;
    for (int i = 0; i < n; i++) {
        unsigned r = rng() % total, k = 0;
        while (r >= ops[k].weight)
            r -= ops[k++].weight;
        o[i] = (struct op){k, rng(), rng(), rng(), rng()};
    }
}

static void run_ops(struct world *w, const struct op *o, int from, int to)
{
    for (int i = from; i < to && !w->failed; i++) {
        w->step = i;
        w->unexpected = false;
        ops[o[i].kind].fn(w, &o[i]);
        if (w->uncommitted > (2u << 20) || w->count - w->certain > HISTORY - 4) {
            disarm(w);
            checkpoint(w);
        }
        if (w->armed && --w->armed == 0) {
            disarm(w);
            compare(w); /* whatever failed, nothing is lost */
        }
    }
}

static void start_life(struct world *w)
{
    reopened(w);
    if (rig_open(&w->r))
        fail(w, "open: %s", w->r.err.msg);
    for (int i = RAM_ROOT; i < RAM_NODES && !w->failed; i++)
        if (w->m->node[i].used && w->m->node[i].ino <= 4)
            take_times(w, i);
    history_clear(w);
    remember(w, true, true);
}

/* True when all was well. The whole episode follows from its arguments. */
static bool episode(uint64_t seed, const struct op *o, int n, bool verbose)
{
    struct world w = {.m = ram_new(), .verbose = verbose};
    bool image = seed % 2, files = seed / 2 % 8 == 0;
    int half = image ? n / 3 : 0;
    w.r = rig_make(seed);
    w.r.opts.before_commit = on_commit;
    w.r.opts.noatime = seed / 16 % 2;
    w.r.strict = seed / 32 % 2;
    w.r.opts.cache_bytes = seed / 64 % 3 == 0 ? 20000 : 0;
    dz_db_seed((uint32_t)seed);
    start_life(&w);
    if (half) {
        run_ops(&w, o, 0, half);
        disarm(&w);
        if (!w.failed && rig_close(&w.r))
            fail(&w, "close of the image: %s", w.r.err.msg);
        if (!w.failed) {
            struct ram *below = ram_copy(w.m);
            ram_free(w.m);
            w.m = below;
            rig_put_below(&w.r);
            if (files)
                rig_put_on_files(&w.r);
            start_life(&w);
        }
    } else if (files) {
        (void)rig_close(&w.r);
        rig_put_on_files(&w.r);
        start_life(&w);
    }
    w.on_files = files;
    if (files && !no_open_begin())
        fail(&w, "no seccomp filter");
    run_ops(&w, o, half, n);
    disarm(&w);
    if (!w.failed)
        compare(&w);
    if (!w.failed && rig_close(&w.r))
        fail(&w, "last close: %s", w.r.err.msg);
    if (!w.failed && rig_open(&w.r))
        fail(&w, "last open: %s", w.r.err.msg);
    if (!w.failed)
        check(&w);
    history_clear(&w);
    ram_free(w.m);
    rig_free(&w.r);
    return !w.failed;
}

/* In a child: a crash is a failure like any other. */
static bool survives(uint64_t seed, const struct op *o, int n, bool quiet, bool verbose)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(120);
        if (quiet && !freopen("/dev/null", "w", stdout))
            abort();
        bool ok = episode(seed, o, n, verbose);
        (void)fflush(stdout);
        _exit(ok ? 0 : 1);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        abort();
    if (!quiet && WIFSIGNALED(status))
        printf("# killed by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Leave out pieces as long as it still fails. */
static int shrink(uint64_t seed, struct op *o, int n)
{
    struct op *try = calloc((size_t)n, sizeof *try);
    int tries = 0;
    for (int piece = n / 2; piece > 0 && try; piece /= 2) {
        for (int at = 0; at + piece <= n && tries < 600; tries++) {
            memcpy(try, o, (size_t)at * sizeof *o);
            memcpy(try + at, o + at + piece, (size_t)(n - at - piece) * sizeof *o);
            if (survives(seed, try, n - piece, true, false)) {
                at += piece;
                continue;
            }
            n -= piece;
            memcpy(o, try, (size_t)n * sizeof *o);
        }
    }
    free(try);
    return n;
}

static unsigned long long argument(int argc, char **argv, const char *key, unsigned long long other)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], key, strlen(key)) == 0)
            return strtoull(argv[i] + strlen(key), NULL, 10);
    return getenv("MODEL_STEPS") && strcmp(key, "STEPS=") == 0
               ? strtoull(getenv("MODEL_STEPS"), NULL, 10)
               : other;
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, "SEED=", 20261121);
    int steps = (int)argument(argc, argv, "STEPS=", STEPS), bad = 0, n = 0;
    int only = (int)argument(argc, argv, "EPISODE=", 0);
    static struct op o[EPISODE];
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (uint8_t)(1 + (i * 31 + i / 77) % 251);
    printf("# seed %llu, %d steps: model_vfs SEED=%llu STEPS=%d\n", (unsigned long long)seed, steps,
           (unsigned long long)seed, steps);
    for (int done = 0; done < steps && !bad; done += EPISODE) {
        n++;
        rng_state = seed * 1000003 + (uint64_t)n;
        make_ops(o, EPISODE);
        if (only && n != only)
            continue;
        uint64_t own = seed + (uint64_t)n * 5;
        if (survives(own, o, EPISODE, false, false)) {
            printf("ok %d - episode %d%s\n", n, n, own % 2 ? " over an image" : "");
            continue;
        }
        bad = 1;
        int few = shrink(own, o, EPISODE);
        printf("# episode %d fails; %d operations are enough (image %d, files %d):\n", n, few,
               (int)(own % 2), own / 2 % 8 == 0);
        (void)survives(own, o, few, false, true);
        printf("not ok %d - episode %d\n", n, n);
    }
    printf("1..%d\n", n);
    return bad;
}
