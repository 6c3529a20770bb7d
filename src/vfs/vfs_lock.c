/* SPDX-License-Identifier: MIT
 *
 * vfs_lock.c - advisory record locks, as a table of plain numbers.
 *
 * These functions do not wait: a caller that cannot get a lock gets EAGAIN, and tries again when
 * another lock has been dropped.
 *
 * Invariant (assert_apart): the locks of one owner on one inode (of one family) do not overlap, and
 * neighbours of the same kind are merged.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

static bool same_family(const struct dz_vfs_lock *a, const struct dz_vfs_lock *b)
{
    return a->ino == b->ino && a->flock == b->flock;
}

static bool overlap(const struct dz_vfs_lock *a, const struct dz_vfs_lock *b)
{
    return a->start <= b->end && b->start <= a->end;
}

/* Does lock a end right before lock b begins? */
static bool ends_before(const struct dz_vfs_lock *a, const struct dz_vfs_lock *b)
{
    return a->end != UINT64_MAX && a->end + 1 == b->start;
}

int dz_vfs_lock_test(struct dz_vfs *v, const struct dz_vfs_lock *want, struct dz_vfs_lock *ret_lock)
{
    for (size_t i = 0; i < v->locks.count; i++) {
        const struct dz_vfs_lock *l = &v->locks.lock[i];
        if (same_family(l, want) && l->owner != want->owner && overlap(l, want) &&
            (l->exclusive || want->exclusive)) {
            if (ret_lock)
                *ret_lock = *l;
            return 1;
        }
    }
    return 0;
}

static int reserve(struct dz_locks *t, size_t more)
{
    if (t->count + more > DZ_VFS_LOCK_MAX)
        return -ENOLCK;
    if (t->count + more <= t->cap)
        return 0;
    size_t cap = t->cap ? t->cap * 2 : 16;
    struct dz_vfs_lock *p = dz_realloc(t->lock, cap * sizeof *p);
    if (!p)
        return -ENOMEM;
    t->lock = p;
    t->cap = cap;
    return 0;
}

/* Does the range lie inside one of the owner's locks, with bytes left on both sides? */
static bool splits(const struct dz_locks *t, const struct dz_vfs_lock *range)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct dz_vfs_lock *l = &t->lock[i];
        if (same_family(l, range) && l->owner == range->owner && l->start < range->start &&
            l->end > range->end)
            return true;
    }
    return false;
}

/* Remove [start, end] from the owner's locks. If that splits one, there must be room for one more.
 */
static void carve(struct dz_locks *t, const struct dz_vfs_lock *range)
{
    for (size_t i = t->count; i-- > 0;) {
        struct dz_vfs_lock *l = &t->lock[i];
        if (!same_family(l, range) || l->owner != range->owner || !overlap(l, range))
            continue;
        bool left = l->start<range->start, right = l->end> range->end;
        if (left && right) {
            t->lock[t->count] = *l;
            t->lock[t->count++].start = range->end + 1;
        }
        if (left)
            l->end = range->start - 1;
        else if (right)
            l->start = range->end + 1;
        else
            *l = t->lock[--t->count];
    }
}

/* Extend *range by the owner's locks of the same kind that touch it, and remove those. */
static void merge(struct dz_locks *t, struct dz_vfs_lock *range)
{
    for (size_t i = t->count; i-- > 0;) {
        const struct dz_vfs_lock *l = &t->lock[i];
        if (!same_family(l, range) || l->owner != range->owner || l->exclusive != range->exclusive)
            continue;
        if (ends_before(l, range))
            range->start = l->start;
        else if (ends_before(range, l))
            range->end = l->end;
        else
            continue;
        t->lock[i] = t->lock[--t->count];
    }
}

/* The new lock must not overlap another of its owner, nor touch one of its kind. This takes as many
 * steps as the search for a conflict before it. */
static void assert_apart(const struct dz_locks *t, const struct dz_vfs_lock *mine)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct dz_vfs_lock *l = &t->lock[i];
        if (!same_family(l, mine) || l->owner != mine->owner)
            continue;
        assert(!overlap(l, mine));
        assert(l->exclusive != mine->exclusive || !(ends_before(l, mine) || ends_before(mine, l)));
    }
}

int dz_vfs_lock(struct dz_vfs *v, const struct dz_vfs_lock *want)
{
    if (want->start > want->end)
        return -EINVAL;
    if (dz_vfs_lock_test(v, want, NULL))
        return -EAGAIN;
    int rc = reserve(&v->locks, 2);
    if (rc)
        return rc;
    struct dz_vfs_lock mine = *want;
    carve(&v->locks, &mine);
    merge(&v->locks, &mine);
    assert_apart(&v->locks, &mine);
    v->locks.lock[v->locks.count++] = mine;
    return 0;
}

int dz_vfs_unlock(struct dz_vfs *v, const struct dz_vfs_lock *range)
{
    if (range->start > range->end)
        return -EINVAL;
    int rc = splits(&v->locks, range) ? reserve(&v->locks, 1) : 0;
    if (rc)
        return rc;
    carve(&v->locks, range);
    return 0;
}

void dz_vfs_lock_drop(struct dz_vfs *v, uint64_t owner, uint64_t ino)
{
    for (size_t i = v->locks.count; i-- > 0;) {
        const struct dz_vfs_lock *l = &v->locks.lock[i];
        if (l->owner == owner && (ino == 0 || l->ino == ino))
            v->locks.lock[i] = v->locks.lock[--v->locks.count];
    }
}

int dz_vfs_lock_at(const struct dz_vfs *v, size_t i, struct dz_vfs_lock *ret_lock)
{
    if (i >= v->locks.count)
        return 0;
    *ret_lock = v->locks.lock[i];
    return 1;
}
