/* SPDX-License-Identifier: MIT
 *
 * need_ops.h - demand paging for a machine of sleep_world.h, as in a cell. Include it once.
 */
#ifndef DZ_TESTS_NEED_OPS_H
#define DZ_TESTS_NEED_OPS_H

#include "sleep_world.h"

#include "os/os_dirty.h"
#include "os/os_fault.h"

/* The test that includes this opens it; it needs a host where dz_os_dirty_by_need() is true. */
static struct dz_os_dirty *need_dirty;

static inline struct dz_os_dirty_range need_range_of(const struct dz_machine_range *r)
{
    return (struct dz_os_dirty_range){r->at, r->size, r->image, r->image_at, r->image_size};
}

static inline int need_written(void *arg, const struct dz_machine_range *r,
                               struct dz_machine_runs *runs, struct dz_err *err)
{
    struct dz_os_dirty_range range = need_range_of(r);
    struct dz_os_runs found = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
    int rc = dz_os_dirty_written(need_dirty, &range, &found, err);
    (void)arg;
    for (size_t i = 0; rc == 0 && i < found.n; i++)
        dz_vec_push(runs, ((struct dz_machine_run){found.p[i].at, found.p[i].size}));
    dz_vec_release(&found);
    return rc;
}

static inline int need_mark(void *arg, const struct dz_machine_range *r, struct dz_err *err)
{
    struct dz_os_dirty_range range = need_range_of(r);
    (void)arg;
    return dz_os_dirty_mark(need_dirty, &range, err);
}

static inline void need_unmark(void *arg, const void *at)
{
    (void)arg;
    dz_os_dirty_unmark(need_dirty, at);
}

static inline int need_absent(void *arg, void *at, size_t size, struct dz_err *err)
{
    (void)arg;
    return dz_os_dirty_absent(need_dirty, at, size, err);
}

static inline int need_fill(void *arg, void *at, const uint8_t *bytes, size_t size,
                            struct dz_err *err)
{
    (void)arg;
    return dz_os_dirty_fill(need_dirty, at, bytes, size, err);
}

static inline bool need_touched(void *arg, void *at)
{
    return dz_machine_touched(arg, at);
}

static inline int need_watch(void *arg, struct dz_machine *m, struct dz_err *err)
{
    (void)arg;
    return dz_os_fault_catch(m ? need_touched : NULL, m, err);
}

static inline void need_all(struct world *w)
{
    w->ops.written = need_written;
    w->ops.mark = need_mark;
    w->ops.unmark = need_unmark;
    w->ops.make_missing = need_absent;
    w->ops.fill = need_fill;
    w->ops.watch = need_watch;
}

#endif
