/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <sys/xattr.h>

/* ---- history -----------------------------------------------------------------------------------
 */

void history_clear(struct world *w)
{
    for (int i = 0; i < w->count; i++)
        ram_free(w->history[i]);
    w->count = w->certain = w->crash_floor = 0;
}

/* The model as it is now may be on disk; `sure`: a crash cannot lose it any more;
 * `durable`: nor a power cut. */
void remember(struct world *w, bool sure, bool durable)
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

int on_commit(void *arg, struct dz_db *db, struct dz_err *err)
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

void disarm(struct world *w)
{
    w->armed = 0;
    if (w->r.sim)
        dz_db_sim_fail_at(w->r.sim, DZ_DB_SIM_ANY, -1, 0, false);
}

/* What the disk does not keep: limits, locks and watches are for whoever opens it. */
static void fresh_disk(struct world *w)
{
    w->limited = false;
    memset(w->lock, 0, sizeof w->lock);
    watch_reset(w);
}

void reopened(struct world *w)
{
    for (int i = 0; i < OPENS; i++)
        w->open[i] = 0;
    w->r.opts.keep_orphans = false;
    fresh_disk(w);
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
    expect(w, DZ_VFS_EV_CREATE, dir, name, node);
    take_times(w, node);
    take_times(w, dir);
}

static void op_link(struct world *w, const struct op *o)
{
    int node = pick(w, o->a, is_any), dir = pick(w, o->b, is_live_dir);
    const char *name = pick_name(w, dir, o->c);
    if (w->m->node[node].nlink == 0 && (w->armed || S_ISDIR(w->m->node[node].mode)))
        return; /* a file that is open gets a name again; where the device fails it may be gone */
    say(w, "link %d as %d/%s", node, dir, name);
    int want = ram_can_link(w->m, node, dir, name);
    int got = dz_vfs_link(w->r.v, w->m->node[node].ino, w->m->node[dir].ino, name, strlen(name));
    if (!agree(w, "link", got, want))
        return;
    (void)ram_link(w->m, node, dir, name);
    expect(w, DZ_VFS_EV_CREATE, dir, name, node);
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
    expect(w, DZ_VFS_EV_REMOVE, dir, name, node);
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
    if (what == there)
        return; /* two names of one inode: nothing happens */
    if (there > 0 && !(flags & RENAME_EXCHANGE))
        expect(w, DZ_VFS_EV_REMOVE, to, new, there);
    if (what > 0 && S_ISDIR(w->m->node[what].mode))
        watch_ignore(w); /* the tree under the watch is another then */
    expect(w, DZ_VFS_EV_MOVED_FROM, from, old, what);
    expect(w, DZ_VFS_EV_MOVED_TO, to, new, what);
    if (flags & RENAME_EXCHANGE) {
        if (S_ISDIR(w->m->node[there].mode))
            watch_ignore(w);
        expect(w, DZ_VFS_EV_MOVED_FROM, to, new, there);
        expect(w, DZ_VFS_EV_MOVED_TO, from, old, there);
    }
    (void)ram_rename(w->m, from, old, to, new, flags);
    take_times(w, what);
    if (there > 0)
        take_times(w, there);
    take_times(w, from);
    take_times(w, to);
}

uint8_t pattern[8 * DZ_VFS_CHUNK];

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
    if ((w->armed || w->limited) && got > 0 && got < (ssize_t)n)
        n = (size_t)got; /* a short write counts */
    if (got > 0)
        expect_file(w, DZ_VFS_EV_WRITE, node);
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
    if (!node || w->armed || w->limited) /* done by halves when it fails */
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
    int volume = DZ_VFS_WORKSPACE + (int)(o->b % 3);
    say(w, "clear volume %d", volume);
    if (agree(w, "clear", dz_vfs_clear(w->r.v, (uint64_t)volume), 0))
        ram_clear(w->m, volume);
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

/* After an operation that committed by itself: a crash may leave it, or what was before. */
void commit_at_once(struct world *w)
{
    say(w, "(it has committed)");
    commit(w);
}

static void op_commit(struct world *w, const struct op *o)
{
    struct dz_err err = {0};
    say(w, "commit");
    commit(w);
    if (o->a % 8 == 0 && !w->armed && dz_vfs_sync(w->r.v, &err))
        fail(w, "sync: %s", err.msg);
}

void checkpoint(struct world *w)
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
    fresh_disk(w);
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

const struct op_kind ops[] = {
    {op_create, 22, true},     {op_link, 5, true},     {op_unlink, 12, true},
    {op_rename, 12, true},     {op_write, 24, true},   {op_read, 12, false},
    {op_truncate, 6, false},   {op_punch, 4, false},   {op_setattr, 5, false},
    {op_xattr, 6, false},      {op_open, 6, false},    {op_path, 8, false},
    {op_tree, 2, false},       {op_clear, 1, false},   {op_commit, 6, false},
    {op_checkpoint, 1, false}, {op_trim, 1, false},    {op_reopen, 1, false},
    {op_freeze, 1, false},     {op_crash, 2, false},   {op_power, 2, false},
    {op_arm, 2, false},        {op_compare, 1, false}, {op_check, 1, false},
    {op_watch, 2, true},       {op_lock, 8, false},    {op_limits, 2, false},
    {op_seek, 5, false},       {op_getcwd, 3, false},  {op_access, 3, false},
    {op_nameless, 2, false},   {op_listing, 1, false},
};
const size_t ops_count = DZ_ARRAY_LEN(ops);
