/* SPDX-License-Identifier: MIT
 *
 * replica_plan.c - which files of a replica to restore, to merge, to remove.
 *
 * Pure functions over a list; none accesses a store. A file covers its range of TXIDs. The rules
 * ensure:
 *
 *   1. The newest point can be restored before and after each plan is carried out, wholly or in
 *      part.
 *   2. Each time since now - keep_ms can be restored, to within one file of the level that remains.
 *   3. The number of files grows with the logarithm of the transactions, between two snapshots.
 */
#include "replica/replica_int.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

static int no_memory(struct dz_err *err)
{
    return dz_fail(err, DZ_ENOMEM, "plan for a replica: out of memory");
}

static int by_range(const void *a, const void *b)
{
    const struct dz_replica_file *x = a, *y = b;
    if (x->min_txid != y->min_txid)
        return x->min_txid < y->min_txid ? -1 : 1;
    return x->max_txid < y->max_txid ? -1 : x->max_txid > y->max_txid;
}

/* --- restore -------------------------------------------------------------------------------- */

static int by_end(const void *a, const void *b)
{
    const struct dz_replica_file *x = a, *y = b;
    if (x->max_txid != y->max_txid)
        return x->max_txid < y->max_txid ? -1 : 1;
    return x->time_ms < y->time_ms ? -1 : x->time_ms > y->time_ms;
}

/* The last TXID that the goal allows. Of files that end with the same transaction the oldest one
 * has its time, because a snapshot may have been made later. The clock may have jumped: the first
 * transaction that is too young ends the range. */
static int find_bound(const struct dz_replica_files *all, const struct dz_replica_goal *g,
                      uint64_t *ret_bound, struct dz_err *err)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files f = DZ_REPLICA_FILES_INIT;
    uint64_t bound = g->txid ? g->txid : UINT64_MAX;
    if (g->timed && dz_vec_append(&f, all->p, all->n) < 0)
        return no_memory(err);
    if (f.n > 0)
        qsort(f.p, f.n, sizeof *f.p, by_end);
    for (size_t i = 0; i < f.n; i++) {
        assert(f.p[i].time_ms != DZ_REPLICA_UNTIMED);
        bool first = i == 0 || f.p[i].max_txid != f.p[i - 1].max_txid;
        if (first && f.p[i].time_ms > g->time_ms && f.p[i].max_txid <= bound)
            bound = f.p[i].max_txid - 1;
    }
    *ret_bound = bound;
    return 0;
}

/* Say which points near the goal exist. `reached` is the last one before it, or 0. */
static int no_such_txid(const struct dz_replica_files *all, uint64_t txid, uint64_t reached,
                        struct dz_err *err)
{
    char want[DZ_TXID_TEXT], before[DZ_TXID_TEXT], after[DZ_TXID_TEXT];
    uint64_t next = 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct dz_replica_file *f = &all->p[i];
        if (f->max_txid > txid && f->min_txid <= reached + 1 && (!next || f->max_txid < next))
            next = f->max_txid;
    }
    dz_txid_print(txid, want);
    dz_txid_print(reached, before);
    dz_txid_print(next, after);
    if (reached && next)
        return dz_fail(err, DZ_ENOENT,
                       "the replica cannot be restored at TXID %s; the nearest are %s and %s", want,
                       before, after);
    return dz_fail(err, DZ_ENOENT, "the replica cannot be restored at TXID %s; the %s is %s", want,
                   reached ? "last" : "first", reached ? before : after);
}

static int missing(uint64_t after, uint64_t before, struct dz_err *err)
{
    char a[DZ_TXID_TEXT], b[DZ_TXID_TEXT];
    return dz_fail(err, DZ_ECORRUPT,
                   "files of the replica are missing: it ends with TXID %s and goes on with %s",
                   dz_txid_print(after, a), dz_txid_print(before, b));
}

/* Take the file that extends the range farthest, the smallest of
 * several; so each step is the longest one that is possible. */
int dz_replica_plan_restore(const struct dz_replica_files *all, const struct dz_replica_goal *goal,
                            struct dz_replica_files *ret_plan, struct dz_err *err)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files f = DZ_REPLICA_FILES_INIT;
    struct dz_replica_files plan = DZ_REPLICA_FILES_INIT;
    const struct dz_replica_file *best = NULL;
    uint64_t reached = 0, bound;
    size_t i = 0;
    if (all->n == 0)
        return dz_fail(err, DZ_ENOENT, "the replica has no files");
    int rc = find_bound(all, goal, &bound, err);
    if (rc < 0)
        return rc;
    for (size_t k = 0; k < all->n; k++)
        if (all->p[k].max_txid <= bound)
            (void)dz_vec_push(&f, all->p[k]);
    if (f.n > 0)
        qsort(f.p, f.n, sizeof *f.p, by_range);
    while (!f.err && !plan.err) {
        for (; i < f.n && f.p[i].min_txid <= reached + 1; i++)
            if (!best || f.p[i].max_txid > best->max_txid ||
                (f.p[i].max_txid == best->max_txid && f.p[i].size < best->size))
                best = &f.p[i];
        if (!best || best->max_txid <= reached)
            break;
        (void)dz_vec_push(&plan, *best);
        reached = best->max_txid;
    }
    if (f.err || plan.err)
        rc = no_memory(err);
    else if (i < f.n)
        rc = missing(reached, f.p[i].min_txid, err);
    else if (goal->txid && reached != goal->txid)
        rc = no_such_txid(all, goal->txid, reached, err);
    else if (plan.n == 0)
        rc = dz_fail(err, DZ_ENOENT, "the replica has nothing that is old enough");
    if (rc < 0)
        dz_vec_release(&plan);
    else
        *ret_plan = plan;
    return rc;
}

/* --- merge ---------------------------------------------------------------------------------- */

/* The last TXID in the levels above, snapshots left out. */
static uint64_t merged_up_to(const struct dz_replica_files *all, unsigned level)
{
    uint64_t last = 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct dz_replica_file *f = &all->p[i];
        if (f->level > level && f->level < DZ_REPLICA_SNAPSHOTS && f->max_txid > last)
            last = f->max_txid;
    }
    return last;
}

/* Files that continue each other, from the first that is in no level above. A gap behind them (a
 * snapshot began a new stretch) ends the wait for more. A file with all pages is not merged. */
static int plan_level(const struct dz_replica_files *all, unsigned level,
                      struct dz_replica_files *ret_from, struct dz_err *err)
{
    struct dz_replica_files f = DZ_REPLICA_FILES_INIT;
    uint64_t covered = merged_up_to(all, level);
    for (size_t i = 0; i < all->n; i++)
        if (all->p[i].level == level && all->p[i].min_txid > covered && all->p[i].min_txid > 1)
            (void)dz_vec_push(&f, all->p[i]);
    if (f.err) {
        dz_vec_release(&f);
        return no_memory(err);
    }
    if (f.n > 0)
        qsort(f.p, f.n, sizeof *f.p, by_range);
    size_t run = f.n > 0;
    while (run < f.n && run < DZ_REPLICA_MERGE && f.p[run].min_txid == f.p[run - 1].max_txid + 1)
        run++;
    if (run == 0 || (run < DZ_REPLICA_MERGE && run == f.n)) {
        dz_vec_release(&f);
        return 0;
    }
    f.n = run;
    *ret_from = f;
    return 1;
}

int dz_replica_plan_merge(const struct dz_replica_files *all, struct dz_replica_files *ret_from,
                          struct dz_err *err)
{
    int rc = 0;
    for (unsigned level = 0; level < DZ_REPLICA_MERGED && rc == 0; level++)
        rc = plan_level(all, level, ret_from, err);
    return rc;
}

bool dz_replica_plan_snapshot(const struct dz_replica_files *all, uint64_t bytes)
{
    uint64_t last = 0, since = 0;
    for (size_t i = 0; i < all->n; i++)
        if (all->p[i].min_txid == 1 && all->p[i].max_txid > last)
            last = all->p[i].max_txid;
    for (size_t i = 0; i < all->n; i++)
        if (all->p[i].level == 0 && all->p[i].min_txid > last)
            since += all->p[i].size;
    return since > bytes;
}

/* --- prune ---------------------------------------------------------------------------------- */

/* Is f inside a file of a level above, snapshots left out? `above` is sorted by range, and
 * `reach[i]` is the greatest max_txid of above[0..i]. */
static bool is_merged(const struct dz_replica_file *f, const struct dz_replica_files *above,
                      const uint64_t *reach)
{
    size_t lo = 0, hi = above->n;
    while (lo < hi) { /* the first that begins behind f */
        size_t mid = (lo + hi) / 2;
        if (above->p[mid].min_txid <= f->min_txid)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 && reach[lo - 1] >= f->max_txid;
}

/* Where a restore at now - keep_ms begins: the newest of the files with all pages that are at least
 * so old. NULL: there is none, so all stay. */
static const struct dz_replica_file *find_base(const struct dz_replica_files *all,
                                               int64_t oldest_ms)
{
    const struct dz_replica_file *base = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct dz_replica_file *f = &all->p[i];
        if (f->min_txid == 1 && f->time_ms <= oldest_ms &&
            (!base || f->max_txid > base->max_txid ||
             (f->max_txid == base->max_txid && f->level > base->level)))
            base = f;
    }
    return base;
}

static int prune_level(const struct dz_replica_files *all, unsigned level, int64_t before_ms,
                       struct dz_replica_files *drop)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files above = DZ_REPLICA_FILES_INIT;
    for (size_t i = 0; i < all->n; i++)
        if (all->p[i].level > level && all->p[i].level < DZ_REPLICA_SNAPSHOTS)
            (void)dz_vec_push(&above, all->p[i]);
    DZ_AUTO(dz_freep) uint64_t *reach = dz_zarray(above.n + 1, sizeof *reach);
    if (above.err || !reach)
        return DZ_ENOMEM;
    if (above.n > 0)
        qsort(above.p, above.n, sizeof *above.p, by_range);
    for (size_t i = 0; i < above.n; i++)
        reach[i] = i > 0 && reach[i - 1] > above.p[i].max_txid ? reach[i - 1] : above.p[i].max_txid;
    for (size_t i = 0; i < all->n; i++) {
        const struct dz_replica_file *f = &all->p[i];
        if (f->level == level && f->time_ms <= before_ms && is_merged(f, &above, reach))
            (void)dz_vec_push(drop, *f);
    }
    return drop->err;
}

int dz_replica_plan_prune(const struct dz_replica_files *all, const struct dz_replica_keep *keep,
                          struct dz_replica_files *ret_drop, struct dz_err *err)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files rest = DZ_REPLICA_FILES_INIT;
    struct dz_replica_files drop = DZ_REPLICA_FILES_INIT;
    const struct dz_replica_file *base = find_base(all, keep->now_ms - keep->keep_ms);
    for (size_t i = 0; i < all->n; i++) {
        const struct dz_replica_file *f = &all->p[i];
        bool old = base && f != base && f->max_txid <= base->max_txid;
        (void)dz_vec_push(old ? &drop : &rest, *f);
    }
    int rc = rest.err || drop.err;
    for (unsigned level = 0; level < DZ_REPLICA_MERGED && rc == 0; level++)
        rc = prune_level(&rest, level, keep->now_ms - keep->fine_ms, &drop);
    if (rc != 0) {
        dz_vec_release(&drop);
        return no_memory(err);
    }
    *ret_drop = drop;
    return 0;
}
