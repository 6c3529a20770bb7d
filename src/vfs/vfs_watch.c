/* SPDX-License-Identifier: MIT
 *
 * vfs_watch.c - watches: events about changes of a subtree.
 *
 * Each watch has a ring of events that grows to DZ_VFS_EVENT_MAX. When that is full, the last
 * place becomes one OVERFLOW event, and later events are dropped until events are read. Two writes
 * to one file in a row are one event.
 *
 * A change of a name comes with its directory. For a change of an inode, the name under which the
 * inode was found last is taken; if that name is gone, another is searched.
 *
 * The observer has no ring: it is called for each event, and chooses by itself.
 *
 * Invariants (assert_ring, when an event was added): a ring's size is a power of two up to
 * DZ_VFS_EVENT_MAX, head is a place in it, and only the last event can be OVERFLOW.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

struct watch {
    uint64_t top;
    unsigned types;
    bool deep;
    struct dz_vfs_event *ring;
    size_t head, count, cap; /* cap is a power of two */
};

struct dz_watches {
    struct watch *watch[DZ_VFS_WATCH_MAX];
    size_t count;
    uint32_t cookie;
    void (*notify)(void *arg);
    void *arg;
    struct dz_vfs_observer observer; /* event NULL: none */
};

static struct watch *find(const struct dz_vfs *v, int id)
{
    return v->watches && id >= 0 && id < DZ_VFS_WATCH_MAX ? v->watches->watch[id] : NULL;
}

static void watch_free(struct watch *w)
{
    if (w)
        dz_free(w->ring);
    dz_free(w);
}

void dz_watch_release(struct dz_vfs *v)
{
    for (size_t i = 0; v->watches && i < DZ_VFS_WATCH_MAX; i++)
        watch_free(v->watches->watch[i]);
    dz_free(v->watches);
    v->watches = NULL;
}

int dz_vfs_watch(struct dz_vfs *v, uint64_t top, unsigned types, bool deep)
{
    struct dz_inode *ip;
    if (dz_mounted(top))
        return -EOPNOTSUPP;
    int rc = dz_read_inode(v, top, &ip);
    if (rc)
        return rc;
    if (!v->watches)
        v->watches = dz_zalloc(sizeof *v->watches);
    if (!v->watches)
        return -ENOMEM;
    int id = 0;
    while (id < DZ_VFS_WATCH_MAX && v->watches->watch[id])
        id++;
    if (id == DZ_VFS_WATCH_MAX)
        return -ENOSPC;
    struct watch *w = dz_zalloc(sizeof *w);
    if (!w)
        return -ENOMEM;
    *w = (struct watch){.top = top, .types = types | DZ_VFS_EV_OVERFLOW, .deep = deep};
    v->watches->watch[id] = w;
    v->watches->count++;
    return id;
}

void dz_vfs_unwatch(struct dz_vfs *v, int watch)
{
    struct watch *w = find(v, watch);
    if (!w)
        return;
    watch_free(w);
    v->watches->watch[watch] = NULL;
    v->watches->count--;
}

int dz_vfs_watch_next(struct dz_vfs *v, int watch, struct dz_vfs_event *ret_event)
{
    struct watch *w = find(v, watch);
    if (!w)
        return -EINVAL;
    if (w->count == 0)
        return 0;
    *ret_event = w->ring[w->head];
    w->head = (w->head + 1) & (w->cap - 1);
    w->count--;
    return 1;
}

void dz_vfs_watch_notify(struct dz_vfs *v, void (*fn)(void *arg), void *arg)
{
    if (!v->watches)
        v->watches = dz_zalloc(sizeof *v->watches);
    if (!v->watches)
        return;
    v->watches->notify = fn;
    v->watches->arg = arg;
}

int dz_vfs_observe(struct dz_vfs *v, const struct dz_vfs_observer *o)
{
    if (!v->watches && o)
        v->watches = dz_zalloc(sizeof *v->watches);
    v->changes += o != NULL; /* nobody reads further without being observed */
    if (v->watches)
        v->watches->observer = o ? *o : (struct dz_vfs_observer){0};
    if (!v->watches && o)
        return -ENOMEM;
    return v->mounts ? dz_mounts_observe(v, o) : 0;
}

uint32_t dz_watch_cookie(struct dz_vfs *v)
{
    return v->watches ? ++v->watches->cookie : 0;
}

static bool ring_grow(struct watch *w)
{
    size_t cap = w->cap ? w->cap * 2 : 8;
    struct dz_vfs_event *p = cap <= DZ_VFS_EVENT_MAX ? dz_alloc(cap * sizeof *p) : NULL;
    if (!p)
        return false;
    for (size_t i = 0; i < w->count && w->ring; i++)
        p[i] = w->ring[(w->head + i) & (w->cap - 1)];
    dz_free(w->ring);
    w->ring = p;
    w->head = 0;
    w->cap = cap;
    return true;
}

static struct dz_vfs_event *ring_last(struct watch *w)
{
    return w->count ? &w->ring[(w->head + w->count - 1) & (w->cap - 1)] : NULL;
}

static void assert_ring(const struct watch *w)
{
    assert(w->cap <= DZ_VFS_EVENT_MAX && (w->cap & (w->cap - 1)) == 0);
    assert(w->head < w->cap && w->count > 0 && w->count <= w->cap);
    for (size_t i = 0; DZ_CHECK_DEEP && i + 1 < w->count; i++)
        assert(w->ring[(w->head + i) & (w->cap - 1)].type != DZ_VFS_EV_OVERFLOW);
}

static void push(struct dz_vfs *v, struct watch *w, const struct dz_vfs_event *ev)
{
    struct dz_vfs_event *last = ring_last(w);
    if (last && last->type == DZ_VFS_EV_OVERFLOW)
        return;
    if (last && ev->type == DZ_VFS_EV_WRITE && last->type == ev->type && last->ino == ev->ino)
        return;
    if (w->count == w->cap && !ring_grow(w)) {
        if (last)
            *last = (struct dz_vfs_event){.type = DZ_VFS_EV_OVERFLOW};
        return;
    }
    assert(w->ring);
    w->ring[(w->head + w->count++) & (w->cap - 1)] = *ev;
    assert_ring(w);
    if (w->count == 1 && v->watches->notify)
        v->watches->notify(v->watches->arg);
}

/* Does the watch cover the event? If damage hides the way up, report the event rather than lose
 * it. */
static bool concerns(struct dz_vfs *v, const struct watch *w, const struct dz_vfs_event *ev)
{
    if (!(w->types & ev->type))
        return false;
    if (ev->ino == w->top || ev->dir == w->top)
        return true;
    return w->deep && dz_dir_below(v, ev->dir, w->top) != 0;
}

void dz_watch_name(struct dz_vfs *v, const struct dz_vfs_event *ev)
{
    if (!v->watches)
        return;
    if (v->watches->observer.event)
        v->watches->observer.event(v->watches->observer.arg, ev);
    for (size_t i = 0; v->watches->count && i < DZ_VFS_WATCH_MAX; i++) {
        struct watch *w = v->watches->watch[i];
        if (!w || !concerns(v, w, ev))
            continue;
        struct dz_vfs_event mine = *ev;
        if (ev->ino == w->top && ev->dir != w->top) {
            mine.len = 0;
            memset(mine.name, 0, sizeof mine.name);
        }
        push(v, w, &mine);
    }
}

/* Any visible name of ino: 1 with its directory, 0, or an error. */
static int search(struct dz_vfs *v, struct dz_db *db, const struct dz_inode *ip, uint64_t *ret_dir)
{
    struct dz_err e = {0};
    uint64_t dir[16];
    size_t n = 0;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, "SELECT parent FROM dentry WHERE ino=?1 LIMIT 16");
    dz_bind_int(st, 1, (int64_t)ip->ino);
    int r = 1;
    while (n < 16 && r > 0) {
        r = dz_stmt_step(st, &e);
        if (r > 0)
            dir[n++] = (uint64_t)dz_col_int(st, 0);
    }
    dz_stmt_reset(st);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    for (size_t i = 0; i < n; i++) {
        char name[DZ_VFS_NAME_MAX];
        size_t len;
        if (dz_dir_name_of(v, dir[i], ip->ino, name, &len) == 0) {
            *ret_dir = dir[i];
            return 1;
        }
    }
    return 0;
}

void dz_watch_inode(struct dz_vfs *v, enum dz_vfs_event_type type, struct dz_inode *ip)
{
    uint64_t dir = dz_is_dir(ip) ? ip->rdev : ip->via;
    const struct dz_vfs_observer *o = v->watches ? &v->watches->observer : NULL;
    const bool observed = o && o->event && o->wants(o->arg, dir, ip->ino);
    if (dz_likely(!observed && (!v->watches || !v->watches->count)))
        return;
    struct dz_vfs_event ev = {
        .type = type, .ino = ip->ino, .mode = ip->mode & S_IFMT, .nameless = ip->nlink == 0};
    ip->refs++;
    int rc = dir ? dz_dir_name_of(v, dir, ip->ino, ev.name, &ev.len) : -ENOENT;
    if (rc && ip->nlink) {
        int found = search(v, v->db, ip, &dir);
        if (found == 0 && ip->below)
            found = search(v, v->image, ip, &dir);
        rc = found > 0 ? dz_dir_name_of(v, dir, ip->ino, ev.name, &ev.len) : -ENOENT;
    }
    ip->refs--;
    ip->via = rc ? 0 : dir;
    ev.dir = ip->via;
    dz_watch_name(v, &ev);
}

void dz_watch_links(struct dz_vfs *v, enum dz_vfs_event_type type, const struct dz_inode *ip)
{
    const struct dz_vfs_observer *o = v->watches ? &v->watches->observer : NULL;
    if (dz_likely(!o || !o->event))
        return;
    const struct dz_vfs_event ev = {.type = type, .ino = ip->ino, .mode = ip->mode & S_IFMT};
    o->event(o->arg, &ev);
}

void dz_vfs_report(struct dz_vfs *v, enum dz_vfs_event_type type, uint64_t ino)
{
    struct dz_inode *ip;
    if (dz_mount_enter(&v, &ino))
        return;
    if (v->watches && v->watches->observer.event && dz_read_inode(v, ino, &ip) == 0)
        dz_watch_inode(v, type, ip);
}
